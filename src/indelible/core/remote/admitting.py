"""Which commands from afar are carried out, and as whose: a caller's word is taken for what is theirs to say, no more.

Tenant, actor and time come from the server. What the policy says is the server's to say too; a caller may only be
stricter with itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from indelible.core.commands import Amend, Command, Keep, Open, Record
from indelible.core.effects.effect import Actor
from indelible.core.policy.said_verdicts import charging_themselves
from indelible.core.remote.admissible import (
    check_command,
    check_digest,
    check_key,
    check_telling,
)
from indelible.core.remote.by_hand import by_hand
from indelible.core.rights import RIGHTS, VerbName, verb_of
from indelible.core.scopes import Authenticated, Scope
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

    def __post_init__(self) -> None:
        """Let the actor say what is known of it, so that every command it gives can be judged by that."""
        if self.actor is not None:
            known = replace(self.actor, authenticated=Authenticated(self.scopes, self.principal))
            object.__setattr__(self, "actor", known)

    @property
    def is_trusted(self) -> bool:
        """Is the other side's word as good as ours?"""
        return self.actor is None


def admitted(command: Command, caller: Caller, stamp: Stamp, most_bytes: int | None = None) -> Command:
    """Gives the command as it may be carried out; raises `NotPermitted` or `BadCall` when it may not.

    `stamp` is the server's: its time and its randomness. The policy's verdict is put in afterwards.
    """
    if command.ref.tenant != caller.tenant:
        raise NotPermitted(f"this credential is for the tenant {caller.tenant!r} and for no other")
    check_scopes(caller, verb_of(command))
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


def check_scopes(caller: Caller, verb: VerbName) -> None:
    """Raise `NotPermitted` unless one of the caller's scopes has this right, however far it reaches."""
    if not caller.scopes & RIGHTS[verb].scopes:
        needed = " or ".join(sorted(RIGHTS[verb].scopes))
        raise NotPermitted(f"this needs the right {verb}: send a credential with the scope {needed}")


def _stamped(said: Stamp, caller: Caller, own: Stamp) -> Stamp:
    """Gives when and by whom; what the machinery of the other side does by itself is told as done by the caller."""
    if caller.actor is None:
        return replace(own, actor=said.actor)
    return replace(own, actor=caller.actor)
