"""What a command from afar may hold: nothing that no shell of ours would send.

Names that cannot stand in an event, values that are not canonical, leases without end: whoever decides a command relies
on it that there are none of these.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from itertools import product
from typing import Any, TypeGuard

from indelible.core.commands import Adopt, Amend, Cancel, Command, Finish, Keep, Open, Record, runs_named_by
from indelible.core.effects.calls import check_name, check_run_id
from indelible.core.effects.effect import Claim, Effect
from indelible.core.effects.identity import Ref, digest_of, key_of, without
from indelible.core.events import facts_json
from indelible.core.policy.said_verdicts import check_verdict
from indelible.core.policy.verdicts import Verdict
from indelible.core.privacy.forgetting import ERASED, HOLD_LIFTED, HOLD_PLACED, erased_facts
from indelible.core.runs.commands import EndRun, SealCheckpoint, StartRun, TakeRun, Tell
from indelible.core.runs.run import EVENT_TYPES, UNSTARTED, driver_sheet, read_driver
from indelible.core.sheets import Sheet
from indelible.core.stamps import Stamp
from indelible.core.values.canonical import decode, encode
from indelible.core.values.tags import Encrypted
from indelible.core.verifying.moves import ADOPTED, EFFECT_TYPES, MOVES
from indelible.core.verifying.run_moves import FORMS
from indelible.errors import BadCall, TooLarge

LONGEST_LEASE = timedelta(days=1)
LONGEST_WINDOW = timedelta(days=31)
"""For how long at most a provider is believed to remember an idempotency key."""
MOST_TOLD = 1000
"""Is how many happenings, or values that a fact commits to, one command may hold."""
MOST_MEMBERS = 10_000
"""Is how many values the arguments of one call from afar may hold."""
_TEXT = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)
_DIGITS = 64
_HEXADECIMAL = frozenset("0123456789abcdef")
_NAMES = frozenset(
    {"run_id", "effect_id", "tool", "token", "again", "call_id", "turn", "approval_id", "id", "agent", "event_type"}
    | {"to"}
)
# These may be missing, and then they are empty or None.
_PERHAPS = frozenset({"schema", "grant_id", "pinned", "principal", "checkpoint_id", "delegation_id", "parent"})
_TOLD_BY_VERBS = EFFECT_TYPES | EVENT_TYPES | FORMS.keys()
_IN_CLEAR = {
    HOLD_PLACED: (frozenset({"hold"}), frozenset({"subject"})),
    HOLD_LIFTED: (frozenset({"hold"}), frozenset[str]()),
}
"""Says what facts say in clear, and what they may say besides: texts all of them."""
_IN_DRIVER = {"fence": int, "holder": str, "token_hash": str}


def keeps_driving(command: Command) -> TypeGuard[Keep]:
    """Is this the heartbeat of who drives a run?"""
    return isinstance(command, Keep) and command.sheet.kind == "driver"


def check_command(command: Command, now: datetime, most_bytes: int | None) -> None:
    """Raises `BadCall` with the name of what cannot be."""
    _check_members(command, most_bytes)
    if isinstance(command, StartRun | Tell | SealCheckpoint | TakeRun | EndRun):
        for run_id in runs_named_by(command):
            check_run_id(run_id)  # the ledger tells of itself in runs of its own
    if isinstance(command, TakeRun) and command.token is None:
        raise BadCall("token: whoever drives a run has one")
    if isinstance(command, EndRun) and command.status in ("active", UNSTARTED):
        raise BadCall("status: a run that ends is neither active nor open")
    if isinstance(command, Open):
        check_digits("digest", command.digest)
        if command.edit is not None and not _is_object(command.edit.args_json):
            raise BadCall("edit: an object of the arguments is expected here")
        if not _is_object(command.naming.added_json):
            raise BadCall("naming: added_json is an object of arguments")
    if isinstance(command, Open | Amend) and not _is_object(command.args_json):
        raise BadCall("args_json: an object of the arguments is expected here")
    if isinstance(command, Finish) and command.status == "failed" and not _is_object(command.detail_json):
        raise BadCall("detail_json: an object that says what failed is expected here")
    if isinstance(command, Cancel) and not isinstance(decode(command.detail_json), str | Encrypted):
        raise BadCall("detail_json: the reason for canceling is a text")
    if isinstance(command, Adopt):
        _check_adopted(command.effect)
    if isinstance(command, Record):
        _check_fact(command)
    if keeps_driving(command):
        _check_driver(command.sheet, now)


def _is_object(canonical: bytes) -> bool:
    """Is this an object, or one that only its holder can open? Most are seen at once not to be tagged."""
    if canonical[:1] != b"{":
        return False
    return canonical[1:3] != b'"$' or isinstance(decode(canonical), dict | Encrypted)


def check_digest(command: Open) -> None:
    """Raises `BadCall` unless the digest is of what the call says: approvals are bound to it, and not to a word."""
    said = without(command.args_json, command.omitted)
    if command.digest != digest_of(command.ref.tenant, command.tool, said, command.resource_json):
        raise BadCall("digest: is not that of this tool with these arguments; leave it to the client to make it")


def check_key(command: Open) -> None:
    """Raises `BadCall` for the key of another place: by it a verifier would find the effect's row changed."""
    ref, said = command.ref, without(command.args_json, command.omitted)
    occurrences = ((), (command.call_id or "",), (command.call_id or "", command.turn or ""))
    for scope, subject in product((ref.scope, command.run_id), {said, command.args_json}):
        made_of = ref.tenant, scope, command.tool, "args", subject
        is_of_args = ref.key in [key_of(*made_of, *occurrence) for occurrence in occurrences]
        if is_of_args and (scope != ref.scope or command.resource_json is not None or subject != said):
            raise BadCall(
                "key: is that of this call in another scope, about nothing, or with what it leaves out; leave it to "
                "the client to make it"
            )


def check_telling(command: Record) -> None:
    """Raises `BadCall` unless an event says what its type says, in the words by which a verifier knows it.

    The record is for ever: one event that no verifier can read would make all of it look tampered with.
    """
    facts: Any = decode(command.facts)
    is_erasure = command.event_type == ERASED and erased_facts(facts.get("basis"), command.erased) == command.facts
    if not is_erasure and (command.erased or command.event_type == ERASED):
        raise BadCall("erased: nothing goes without an event that says what goes; use ledger.erase or ledger.prune")
    if not command.committed.keys() <= {"reason"}:
        raise BadCall("committed: a fact from afar commits to its reason, and to the sheet that comes with it")
    if command.sheet is None and command.event_type in _TOLD_BY_VERBS:
        raise BadCall(f"event_type: {command.event_type} comes with what it tells of; use the verb that does it")
    if command.event_type in _IN_CLEAR and not _says(facts, *_IN_CLEAR[command.event_type]):
        raise BadCall(f"facts: {command.event_type} does not say this; use the verb of the ledger that tells it")


def _says(facts: Mapping[str, Any], needed: Set[str], perhaps: Set[str]) -> bool:
    is_known = needed <= facts.keys() <= needed | perhaps
    return is_known and all(isinstance(value, str) for value in facts.values())


def check_place(ref: Ref) -> None:
    """Raises `BadCall` unless an effect can be at this place."""
    check_name("scope", ref.scope)
    check_digits("key", ref.key)


def check_digits(name: str, value: str) -> None:
    """Raises `BadCall` unless this is how a hash is written."""
    if len(value) != _DIGITS or not set(value) <= _HEXADECIMAL:
        raise BadCall(f"{name}: {_DIGITS} hexadecimal digits are expected here")


def check_lease(lease: timedelta) -> None:
    """Raises `BadCall` unless a claim may be held for so long without a sign of life."""
    if not timedelta(0) < lease <= LONGEST_LEASE:
        raise BadCall(f"lease: longer than nothing and at most {LONGEST_LEASE}")


def check_arguments(args_json: bytes, most_bytes: int | None) -> None:
    """Raises `TooLarge` for arguments that are longer, or hold more values, than a call from afar may have."""
    if most_bytes is not None and len(args_json) > most_bytes:
        message = f"args: {len(args_json)} bytes, and at most {most_bytes} are allowed"
        raise TooLarge(message, limit=most_bytes, size=len(args_json))
    if len(args_json) > MOST_MEMBERS and (count := members_in(args_json)) > MOST_MEMBERS:
        message = f"args: hold {count} values, and at most {MOST_MEMBERS} are allowed"
        raise TooLarge(message, limit=MOST_MEMBERS, size=count)


def members_in(raw: bytes) -> int:
    """Counts the values in JSON, without reading it: what stands in texts is none."""
    apart = raw.count(b",") + raw.count(b"[") + raw.count(b"{")
    if apart <= MOST_MEMBERS:  # there cannot be more than that, whatever is in texts
        return apart
    bare = _TEXT.sub(b"", raw)
    return bare.count(b",") + bare.count(b"[") + bare.count(b"{")


def _check_members(value: Any, most_bytes: int | None) -> None:
    for each in fields(value):
        held = getattr(value, each.name)
        if held is not None:
            _check_member(each.name, held, most_bytes)


def _check_member(name: str, held: Any, most_bytes: int | None) -> None:
    if name.endswith("_json"):
        check_canonical(name, held, most_bytes)
    elif name in _NAMES or (name in _PERHAPS and held != ""):
        check_name(name, held)
    elif name == "lease":
        check_lease(held)
    elif name == "resend_within" and not timedelta(0) < held <= LONGEST_WINDOW:
        raise BadCall(f"resend_within: longer than nothing and at most {LONGEST_WINDOW.days} days")
    elif name == "happenings" and len(held) > MOST_TOLD:
        raise TooLarge(f"happenings: at most {MOST_TOLD} at once", limit=MOST_TOLD, size=len(held))
    else:
        _check_inside(held, most_bytes)


def _check_inside(held: Any, most_bytes: int | None) -> None:
    match held:
        case Stamp():
            pass  # the server puts in its own
        case Ref():
            check_place(held)
        case Claim():
            _check_claim(held)
        case Verdict():
            check_verdict(held)
        case Sheet():
            _check_sheet(held, most_bytes)
        case tuple():
            for each in held:
                _check_inside(each, most_bytes)
        case _ if is_dataclass(held):
            _check_members(held, most_bytes)
        case _:
            pass


def _check_claim(claim: Claim) -> None:
    check_place(claim.effect.ref)
    if claim.attempt < 1:  # of an attempt that never was, a report would be kept that nobody could explain
        raise BadCall("claim: attempts count from 1")


def _check_adopted(effect: Effect) -> None:
    check_place(effect.ref)
    check_digits("digest", effect.digest)
    check_digits("token_hash", effect.token_hash)
    if ("", ADOPTED, effect.status) not in MOVES:
        raise BadCall(f"status: an effect of another ledger is not taken over as {effect.status}")


def _check_fact(command: Record) -> None:
    """Sees to it that an event says what it is given to say: facts stand in it as they are."""
    check_canonical("facts", command.facts, None)
    facts = decode(command.facts)
    if not isinstance(facts, dict):
        raise BadCall("facts: an object is expected here")
    facts_json(facts)  # refuses what has a tag
    if len(command.committed) > MOST_TOLD:
        raise TooLarge(f"committed: at most {MOST_TOLD} at once", limit=MOST_TOLD, size=len(command.committed))
    for name, value in command.committed.items():
        check_name("committed", name)
        check_canonical(f"committed.{name}", value, None)


def _check_sheet(sheet: Sheet, most_bytes: int | None) -> None:
    for name, held in (("kind", sheet.kind), ("id", sheet.id), ("status", sheet.status)):
        check_name(f"sheet.{name}", held)
    if sheet.topic:
        check_name("sheet.topic", sheet.topic)
    if sheet.body is None or sheet.version < 1:
        raise BadCall("sheet: one with something on it, and a version of 1 or more, is expected here")
    check_canonical("sheet.body", sheet.body, most_bytes)


def _check_driver(sheet: Sheet, now: datetime) -> None:
    try:
        is_one = driver_sheet(read_driver(sheet)) == sheet
        is_one = is_one and {name: type(held) for name, held in sheet.read().items()} == _IN_DRIVER
    except (AssertionError, LookupError, TypeError, ValueError):
        is_one = False
    if not is_one or sheet.due_at is None or sheet.due_at > now + LONGEST_LEASE:
        raise BadCall(f"sheet: the right to drive a run for at most {LONGEST_LEASE} is expected here")


def check_canonical(name: str, held: bytes, most_bytes: int | None) -> None:
    """Raises `BadCall` unless these are the bytes that a value is recorded as."""
    if most_bytes is not None and len(held) > most_bytes:
        message = f"{name}: has {len(held)} bytes, at most {most_bytes} are allowed"
        raise TooLarge(message, limit=most_bytes, size=len(held))
    try:
        is_canonical = encode(decode(held), root=name) == held
    except TooLarge:
        raise
    except (ValueError, RecursionError):
        is_canonical = False
    if not is_canonical:
        raise BadCall(f"{name}: is not in canonical form (RFC 8785)")
