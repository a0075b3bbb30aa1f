"""Every tool call an AI agent makes: at most once, with permission, on a record nobody can quietly change."""

from typing import TYPE_CHECKING, Any

from indelible.core.calls import Options, Resource, Retry, ToolCall
from indelible.core.commands import (
    AwaitingApproval,
    Begun,
    Canceled,
    Claimed,
    Denied,
    InDoubt,
    InFlight,
    Replayed,
    ReplayedFailure,
)
from indelible.core.effects import Actor, Claim, Effect, Failed, Outcome, Succeeded
from indelible.core.events import Event
from indelible.core.tags import Redacted
from indelible.errors import IndelibleError, MayHaveHappened, NothingHappened
from indelible.ledger import Ledger
from indelible.offline import verify
from indelible.running import RunningEffect, current_effect
from indelible.stores import migrate

if TYPE_CHECKING:
    from indelible.aio import AsyncLedger

__version__ = "0.1.0"

__all__ = [
    "Actor",
    "AsyncLedger",
    "AwaitingApproval",
    "Begun",
    "Canceled",
    "Claim",
    "Claimed",
    "Denied",
    "Effect",
    "Event",
    "Failed",
    "InDoubt",
    "InFlight",
    "IndelibleError",
    "Ledger",
    "MayHaveHappened",
    "NothingHappened",
    "Options",
    "Outcome",
    "Redacted",
    "Replayed",
    "ReplayedFailure",
    "Resource",
    "Retry",
    "RunningEffect",
    "Succeeded",
    "ToolCall",
    "current_effect",
    "migrate",
    "verify",
]


def __getattr__(name: str) -> Any:
    """Loads the asynchronous ledger when it is first asked for: an event loop's modules take a third of the start."""
    if name == "AsyncLedger":
        from indelible.aio import AsyncLedger

        return AsyncLedger
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
