"""Tells people that an approval waits for them: a durable outbox, and the channels it sends by.

from indelible import Ledger
from indelible.notify import Channels, SlackChannel, WebhookChannel

ops = WebhookChannel("ops", "https://hooks.example.com/approvals", secret="env:OPS_WEBHOOK_SECRET")
ledger = Ledger.open(url, channels=Channels([ops], link="https://ledger.example.com"))
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from indelible.notify.channels import Channel, Channels, GiveUp, Message, NotSent
    from indelible.notify.config import load_channels
    from indelible.notify.email import EmailChannel
    from indelible.notify.hidden import Secret
    from indelible.notify.hooks import HookChannel
    from indelible.notify.outbox import Outbox
    from indelible.notify.slack import SlackChannel
    from indelible.notify.slack_interactions import SlackInteractions, SlackReply
    from indelible.notify.webhook import WebhookChannel

# Each is loaded when it is asked for: whoever only has a hook needs no mail and no TLS.
_PLACES = {
    "Channel": "channels",
    "Channels": "channels",
    "EmailChannel": "email",
    "GiveUp": "channels",
    "HookChannel": "hooks",
    "Message": "channels",
    "NotSent": "channels",
    "Outbox": "outbox",
    "Secret": "hidden",
    "SlackChannel": "slack",
    "SlackInteractions": "slack_interactions",
    "SlackReply": "slack_interactions",
    "WebhookChannel": "webhook",
    "load_channels": "config",
}

__all__ = [
    "Channel",
    "Channels",
    "EmailChannel",
    "GiveUp",
    "HookChannel",
    "Message",
    "NotSent",
    "Outbox",
    "Secret",
    "SlackChannel",
    "SlackInteractions",
    "SlackReply",
    "WebhookChannel",
    "load_channels",
]


def __getattr__(name: str) -> Any:
    """Loads a name when it is first asked for."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
