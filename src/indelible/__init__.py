"""Every tool call an AI agent makes: at most once, with permission, on a record nobody can quietly change."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from indelible.core.approvals.approval import Approval
from indelible.core.approvals.grants import GrantTerms
from indelible.core.commands import (
    AwaitingApproval,
    Begun,
    Canceled,
    Claimed,
    Denied,
    InDoubt,
    InFlight,
    MayRun,
    Replayed,
    ReplayedFailure,
)
from indelible.core.effects.calls import Idempotent, Options, Resource, Retry, ToolCall
from indelible.core.effects.effect import Actor, Claim, Effect, Failed, Outcome, Succeeded
from indelible.core.events import Event
from indelible.core.runs.run import CheckpointRule, Run
from indelible.core.values.tags import Redacted
from indelible.engine.approving import ApprovalView
from indelible.engine.opening import migrate
from indelible.engine.running import RunningEffect, current_effect, current_run
from indelible.errors import IndelibleError, MayHaveHappened, NothingHappened, Refused
from indelible.ledger import Ledger
from indelible.offline import verify

if TYPE_CHECKING:
    from indelible.aio import AsyncLedger
    from indelible.connecting import connect, connect_async
    from indelible.core.policy.policy import Policy, rule
    from indelible.integrations.instrument import instrument
    from indelible.runs.active import ActiveRun

__version__ = "0.1.0"

__all__ = [
    "ActiveRun",
    "Actor",
    "Approval",
    "ApprovalView",
    "AsyncLedger",
    "AwaitingApproval",
    "Begun",
    "Canceled",
    "CheckpointRule",
    "Claim",
    "Claimed",
    "Denied",
    "Effect",
    "Event",
    "Failed",
    "GrantTerms",
    "Idempotent",
    "InDoubt",
    "InFlight",
    "IndelibleError",
    "Ledger",
    "MayHaveHappened",
    "MayRun",
    "NothingHappened",
    "Options",
    "Outcome",
    "Policy",
    "Redacted",
    "Refused",
    "Replayed",
    "ReplayedFailure",
    "Resource",
    "Retry",
    "Run",
    "RunningEffect",
    "Succeeded",
    "ToolCall",
    "connect",
    "connect_async",
    "current_effect",
    "current_run",
    "instrument",
    "migrate",
    "rule",
    "verify",
]


_LAZY = {
    "ActiveRun": "indelible.runs.active",
    "AsyncLedger": "indelible.aio",
    "Policy": "indelible.core.policy.policy",
    "connect": "indelible.connecting",
    "connect_async": "indelible.connecting",
    "instrument": "indelible.integrations.instrument",
    "rule": "indelible.core.policy.policy",
}


def __getattr__(name: str) -> Any:
    """Loads what not everybody needs when it is first asked for: an event loop's modules take a third of the start."""
    home = _LAZY.get(name)
    if home is not None:
        return getattr(import_module(home), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
