"""Which commands from afar are carried out, and as whose: a caller's word is taken for what is theirs to say, no more.

Tenant, actor and time come from the server. What the policy says is the server's to say too; a caller may only be
stricter with itself.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass, replace
from datetime import timedelta
from typing import Any, TypeGuard

from indelible.core.calls import check_name, check_run_id
from indelible.core.canonical import decode, encode
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
from indelible.core.effects import Actor, Claim
from indelible.core.remote import Scope
from indelible.core.run_commands import EndRun, SealCheckpoint, StartRun, TakeRun, Tell
from indelible.core.runs import driver_sheet, read_driver
from indelible.core.sheets import Sheet
from indelible.core.stamps import Stamp
from indelible.core.verdicts import Verdict
from indelible.errors import BadCall, NotPermitted, TooLarge

LONGEST_LEASE = timedelta(days=1)
_KEY_DIGITS = 64
_DIGITS = frozenset("0123456789abcdef")
_NAMES = frozenset({"run_id", "effect_id", "tool", "token", "call_id", "approval_id"})
_IN_DRIVER = {"fence": int, "holder": str, "token_hash": str}
_OURS = (Stamp, Verdict, Sheet)
"""Are put in by the server, or are for administrators to answer for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Is who asks, as the server knows them. Without an actor the other side says who acts: it is part of us."""

    tenant: str
    scopes: frozenset[Scope]
    actor: Actor | None
    principal: str | None = None

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
    if isinstance(command, _BY_AGENTS + _BY_EITHER) or _keeps_driving(command) or _tells_of_export(command):
        allowed.add("agent")
    if isinstance(command, _BY_APPROVERS + _BY_EITHER):
        allowed.add("approver")
    return frozenset(allowed)


def _keeps_driving(command: Command) -> TypeGuard[Keep]:
    return isinstance(command, Keep) and command.sheet.kind == "driver"


def _tells_of_export(command: Command) -> TypeGuard[Record]:
    if not isinstance(command, Record) or command.sheet is not None or command.erased:
        return False
    return command.event_type == "packet_exported"


def admitted(command: Command, caller: Caller, stamp: Stamp, most_bytes: int | None = None) -> Command:
    """Gives the command as it may be carried out; raises `NotPermitted` or `BadCall` when it may not.

    `stamp` is the server's: its time and its randomness. The policy's verdict is put in afterwards.
    """
    if command.ref.tenant != caller.tenant:
        raise NotPermitted(f"this credential is for the tenant {caller.tenant!r} and for no other")
    if not caller.scopes & scopes_for(command):
        needed = " or ".join(sorted(scopes_for(command)))
        raise NotPermitted(f"{type(command).__name__} needs a credential with the scope {needed}")
    _check_values(command, most_bytes)
    _check_whole(command, stamp)
    admitted_one: Command = replace(command, stamp=_stamped(command.stamp, caller, stamp))
    if isinstance(admitted_one, Open):
        return replace(admitted_one, principal=caller.principal or admitted_one.principal, grants={})
    return admitted_one


def _stamped(said: Stamp, caller: Caller, own: Stamp) -> Stamp:
    """Gives when and by whom; what the machinery of the other side does by itself is told as done by the caller."""
    if caller.actor is None:
        return replace(own, actor=said.actor)
    return replace(own, actor=caller.actor)


def _check_values(value: Any, most_bytes: int | None) -> None:
    """Refuses what no shell of ours would send: names that cannot be, values that are not canonical, endless leases."""
    for each in fields(value):
        _check_value(each.name, getattr(value, each.name), most_bytes)


def _check_value(name: str, held: Any, most_bytes: int | None) -> None:
    if held is None or isinstance(held, _OURS):
        return
    if name.endswith("_json") or name == "facts":
        _check_canonical(name, held, most_bytes)
    elif name == "committed":
        for field, value in held.items():
            _check_canonical(f"committed.{field}", value, most_bytes)
    elif name in _NAMES:
        check_name(name, held)
    elif name == "lease" and not timedelta(0) < held <= LONGEST_LEASE:
        raise BadCall(f"lease: longer than nothing and at most {LONGEST_LEASE}")
    elif name == "ref":
        _check_place(held)
    elif isinstance(held, Claim):
        _check_place(held.effect.ref)
    elif is_dataclass(held):
        _check_values(held, most_bytes)
    elif isinstance(held, tuple):
        for one in held:
            if is_dataclass(one):
                _check_values(one, most_bytes)


def _check_whole(command: Command, stamp: Stamp) -> None:
    """Refuses what only together cannot be."""
    if isinstance(command, StartRun | Tell | SealCheckpoint | TakeRun | EndRun) or _tells_of_export(command):
        check_run_id(command.run_id)  # the ledger tells of itself in runs of its own
    if isinstance(command, StartRun):
        check_name("agent", command.run.agent)
    if isinstance(command, TakeRun) and command.token is None:
        raise BadCall("token: whoever drives a run has one")
    if isinstance(command, Record) and not isinstance(decode(command.facts), dict):
        raise BadCall("facts: an object is expected here")
    if _keeps_driving(command):
        _check_driver(command.sheet, stamp)


def _check_driver(sheet: Sheet, stamp: Stamp) -> None:
    try:
        is_one = driver_sheet(read_driver(sheet)) == sheet
        is_one = is_one and {name: type(held) for name, held in sheet.read().items()} == _IN_DRIVER
    except (AssertionError, LookupError, TypeError, ValueError):
        is_one = False
    if not is_one or sheet.due_at is None or sheet.due_at > stamp.at + LONGEST_LEASE:
        raise BadCall(f"sheet: the right to drive a run for at most {LONGEST_LEASE} is expected here")


def _check_place(ref: Any) -> None:
    check_name("scope", ref.scope)
    if len(ref.key) != _KEY_DIGITS or not set(ref.key) <= _DIGITS:
        raise BadCall(f"key: {_KEY_DIGITS} hexadecimal digits")


def _check_canonical(name: str, held: bytes, most_bytes: int | None) -> None:
    if most_bytes is not None and len(held) > most_bytes:
        message = f"{name}: has {len(held)} bytes, at most {most_bytes} are allowed"
        raise TooLarge(message, limit=most_bytes, size=len(held))
    try:
        is_canonical = encode(decode(held)) == held
    except (ValueError, RecursionError):
        is_canonical = False
    if not is_canonical:
        raise BadCall(f"{name}: is not in canonical form (RFC 8785)")
