"""Every tool call an AI agent makes: at most once, with permission, on a record nobody can quietly change."""

from indelible.aio import AsyncLedger
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
