"""Makes commands and effects for the tests of the core, with everything impure fixed."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from typing import Any

from indelible.core.batch import Batch, decide
from indelible.core.calls import Options, ToolCall, handling_of
from indelible.core.commands import Command, Finish, Open, Relinquish, Stamp
from indelible.core.effects import SYSTEM, Actor, Claim, Effect, hash_of
from indelible.core.events import Head, Provenance
from indelible.core.identity import Ref, identify
from indelible.core.walk import Prepared

NOON = datetime(2030, 1, 2, 12, 0, 0, tzinfo=UTC)
LEASE = timedelta(seconds=30)
SECOND = timedelta(seconds=1)
BY = Provenance(log="ledger-test/default", writer="0" * 32)
ADA = Actor("ada")
KEY = "ab" * 32
DIGEST = "cd" * 32
OTHER_DIGEST = "ef" * 32
REF = Ref("default", "run-1", KEY)
EVENT_TYPES = {
    "approval_denied",
    "approval_received",
    "approval_requested",
    "tool_call_canceled",
    "tool_call_finished",
    "tool_call_in_doubt",
    "tool_call_late",
    "tool_call_released",
    "tool_call_started",
}


def stamp(at: datetime = NOON, actor: Actor = SYSTEM) -> Stamp:
    """Gives a stamp whose salts are the bytes 0 to 95."""
    return Stamp(at=at, actor=actor, salts=bytes(range(96)))


def open_command(**changes: Any) -> Open:
    """Gives an `Open` of a call that fits the effects of `effect`, but for what is told otherwise."""
    fields: dict[str, Any] = {
        "ref": REF,
        "stamp": stamp(),
        "effect_id": "eff_new",
        "token": "aa" * 16,
        "run_id": "run-1",
        "tool": "pay",
        "side_effect": "payment",
        "on_crash": "hold",
        "call_id": None,
        "dedupe": "args",
        "digest": DIGEST,
        "args_json": b'{"amount":5}',
        "lease": LEASE,
        "needs_approval": False,
        "has_key_fields": False,
    }
    return Open(**{**fields, **changes})


def effect(status: str = "processing", **changes: Any) -> Effect:
    """Gives an effect in a status, with the fields that belong to it."""
    details = {
        "succeeded": b'{"ok":true}',
        "failed": b'{"message":"declined","type":"CardError"}',
        "requires_approval": None,
        "processing": None,
    }
    detail = details.get(status, b'"because"')
    fields: dict[str, Any] = {
        "tenant": REF.tenant,
        "scope": REF.scope,
        "key": REF.key,
        "id": "eff_1",
        "run_id": "run-1",
        "tool": "pay",
        "side_effect": "payment",
        "on_crash": "hold",
        "call_id": None,
        "digest": DIGEST,
        "status": status,
        "attempt": 0 if status == "requires_approval" else 1,
        "version": 3,
        "token": "bb" * 16,
        "lease_until": NOON + LEASE if status == "processing" else None,
        "opened_seq": 0,
        "detail_seq": None if detail is None else 1,
        "created_at": NOON - SECOND,
        "updated_at": NOON - SECOND,
        "args_json": b'{"amount":5}',
        "detail_json": detail,
    }
    told = {**fields, **changes}
    token = told.pop("token")
    _TOKENS[hash_of(token)] = token
    return Effect(**told, token_hash=hash_of(token))


_TOKENS: dict[str, str] = {}


def claim_of(made: Effect) -> Claim:
    """Gives the claim on an effect that was made here, whose token is therefore known."""
    return Claim(made, _TOKENS[made.token_hash])


def finish(claim: Claim, status: Any = "succeeded", detail: bytes = b'"done"', at: datetime = NOON) -> Finish:
    """Gives the report of an outcome."""
    return Finish(claim=claim, stamp=stamp(at), status=status, detail_json=detail)


def relinquish(claim: Claim, status: Any = "ready", detail: bytes = b'"no"', at: datetime = NOON) -> Relinquish:
    """Gives a claim back."""
    return Relinquish(claim=claim, stamp=stamp(at), status=status, detail_json=detail)


class CountingMint:
    """Makes ids and tokens by counting, and stands still in time."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)

    def stamp(self, actor: Actor) -> Stamp:
        return stamp(actor=actor)

    def effect_id(self) -> str:
        return f"eff_{next(self._numbers):04d}"

    def token(self) -> str:
        return f"{next(self._numbers):032x}"


def prepared(call: ToolCall | None = None, *, max_result_bytes: int | None = None, **options: Any) -> Prepared:
    """Gives a call ready to be walked."""
    call = call or ToolCall(tool="pay", args={"amount": 5}, run_id="run-1")
    return Prepared(
        call=call,
        identity=identify(call, "default"),
        handling=handling_of(Options(**options)),
        actor=Actor("agent", "agent"),
        max_result_bytes=max_result_bytes,
    )


class Shelf:
    """Keeps what `decide` gives, as a store would, and nothing else: no rules live here."""

    def __init__(self) -> None:
        self.now = NOON
        self.effects: dict[Ref, Effect] = {}
        self.heads: dict[str, Head] = {}
        self.events: dict[str, list[Any]] = {}
        self.payloads: list[Any] = []

    def apply(self, *commands: Command) -> Batch:
        """Decides a batch on what is kept, checks that it fits, and keeps what came of it."""
        batch = decide(commands, self.effects, self.heads, self.now, BY)
        for ref, made in batch.opened.items():
            assert ref not in self.effects
            self.effects[ref] = made
        for ref, (before, after) in batch.moved.items():
            assert self.effects[ref] == before
            self.effects[ref] = after
        for run_id, (was, end) in batch.heads.items():
            assert self.heads.get(run_id, was) == was
            self.heads[run_id] = end
        for event in batch.events:
            self.events.setdefault(event.run_id, []).append(event)
        self.payloads += batch.payloads
        return batch

    def do(self, command: Command) -> Any:
        """Applies one command and gives its answer."""
        return self.apply(command).answers[0]
