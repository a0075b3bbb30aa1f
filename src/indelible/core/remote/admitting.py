"""Which commands from afar are carried out, and as whose: a caller's word is taken for what is theirs to say, no more.

Tenant, actor and time come from the server. What the policy says is the server's to say too; a caller may only be
stricter with itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from indelible.core.commands import (
    Amend,
    Attend,
    Cancel,
    CastVote,
    Command,
    Expire,
    Finish,
    Keep,
    Open,
    Record,
    Relinquish,
    Reopen,
    Settle,
    ShowTo,
    TakeBack,
)
from indelible.core.effects.effect import Actor
from indelible.core.policy.said_verdicts import charging_themselves
from indelible.core.remote.admissible import (
    check_command,
    check_digest,
    check_key,
    check_telling,
    keeps_driving,
)
from indelible.core.remote.by_hand import OF_APPROVERS, by_hand
from indelible.core.remote.questions import Scope
from indelible.core.runs.commands import EndRun, SealCheckpoint, StartRun, TakeRun, Tell
from indelible.core.stamps import Stamp
from indelible.errors import NotPermitted


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Is who asks, as the server knows them. Without an actor the other side says who acts: it is part of us."""

    tenant: str
    scopes: frozenset[Scope]
    actor: Actor | None
    principal: str | None = None
    credential_id: str | None = None
    """Tells two credentials of one name apart, when requests are counted."""

    @property
    def is_trusted(self) -> bool:
        """Is the other side's word as good as ours?"""
        return self.actor is None


_BY_AGENTS = (Open, Finish, Relinquish, Expire, StartRun, Tell, SealCheckpoint, TakeRun, Cancel, Attend)
_BY_EITHER = (Settle, Reopen, EndRun)
_BY_APPROVERS = (CastVote, TakeBack, Amend, ShowTo, Cancel, Attend, Expire)


def scopes_for(command: Command) -> frozenset[Scope]:
    """Names the scopes of which one is needed to give this command."""
    allowed: set[Scope] = {"admin"}
    if isinstance(command, TakeRun) and command.is_forced:
        return frozenset(allowed)  # it was set aside for a person to look at
    if isinstance(command, Attend) and command.channels:
        return frozenset(allowed)  # it writes messages, as a `Keep` of one does
    if isinstance(command, _BY_AGENTS + _BY_EITHER) or keeps_driving(command):
        allowed.add("agent")
    is_permission = isinstance(command, Record) and command.event_type in OF_APPROVERS
    if isinstance(command, _BY_APPROVERS + _BY_EITHER) or is_permission:
        allowed.add("approver")
    return frozenset(allowed)


def admitted(command: Command, caller: Caller, stamp: Stamp, most_bytes: int | None = None) -> Command:
    """Gives the command as it may be carried out; raises `NotPermitted` or `BadCall` when it may not.

    `stamp` is the server's: its time and its randomness. The policy's verdict is put in afterwards.
    """
    if command.ref.tenant != caller.tenant:
        raise NotPermitted(f"this credential is for the tenant {caller.tenant!r} and for no other")
    if not caller.scopes & scopes_for(command):
        needed = " or ".join(sorted(scopes_for(command)))
        raise NotPermitted(f"{type(command).__name__} needs a credential with the scope {needed}")
    check_command(command, stamp.at, most_bytes)
    if isinstance(command, Record | Keep) and caller.actor is not None:
        command = by_hand(command, caller.actor, stamp.at)
    if isinstance(command, Open) and not caller.is_trusted:
        check_digest(command)
        check_key(command)
    if isinstance(command, Record) and not caller.is_trusted:
        check_telling(command)
    admitted_one: Command = replace(command, stamp=_stamped(command.stamp, caller, stamp))
    if isinstance(admitted_one, Open | Amend) and caller.actor is not None:
        admitted_one = replace(admitted_one, verdict=charging_themselves(admitted_one.verdict, caller.actor))
    if isinstance(admitted_one, Open):
        return replace(admitted_one, principal=caller.principal or admitted_one.principal, grants={})
    return admitted_one


def _stamped(said: Stamp, caller: Caller, own: Stamp) -> Stamp:
    """Gives when and by whom; what the machinery of the other side does by itself is told as done by the caller."""
    if caller.actor is None:
        return replace(own, actor=said.actor)
    return replace(own, actor=caller.actor)
