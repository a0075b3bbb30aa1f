"""Makes commands and effects for the tests of the core, with everything impure fixed."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from indelible.core import batch as batches
from indelible.core import steps
from indelible.core.approvals.approval import Approval, Need, Question, Vote, ask
from indelible.core.approvals.sheets import approval_ref, approval_sheet, read_approval
from indelible.core.batch import Batch
from indelible.core.changes import Step
from indelible.core.commands import (
    Amend,
    Attend,
    Cancel,
    CastVote,
    Command,
    EditRead,
    EditUnread,
    Finish,
    Open,
    Relinquish,
    Reopen,
    Settle,
    ShowTo,
    Stamp,
    TakeBack,
)
from indelible.core.effects.calls import Options, ToolCall, handling_of
from indelible.core.effects.effect import SYSTEM, Actor, Claim, Effect, hash_of
from indelible.core.effects.identity import Ref, digest_of, identify
from indelible.core.effects.meaning import is_about
from indelible.core.effects.requests import Prepared
from indelible.core.events import Head, Payload, Provenance
from indelible.core.policy.budgets import Budget, budget_ref, charges_json, read_budget
from indelible.core.policy.verdicts import ALLOWED, Charge, Verdict
from indelible.core.sheets import NO_SHEETS, Sheet, SheetRef, Sheets
from indelible.testing.comparing import read_for

NOON = datetime(2030, 1, 2, 12, 0, 0, tzinfo=UTC)
LEASE = timedelta(seconds=30)
SECOND = timedelta(seconds=1)
BY = Provenance(log="ledger-test/default", writer="0" * 32)
ADA = Actor("ada")
BO = Actor("bo")
CY = Actor("cy")
AGENT = Actor("agent", "agent")
HOUR = timedelta(hours=1)
POLICY = "policy-1"
ARGS = b'{"amount":5}'
OTHER_ARGS = b'{"amount":6}'
KEY = "ab" * 32
DIGEST = digest_of("default", "pay", ARGS, None)
OTHER_DIGEST = digest_of("default", "pay", OTHER_ARGS, None)
REF = Ref("default", "run-1", KEY)
EVENT_TYPES = {
    "approval_denied",
    "approval_edited",
    "approval_escalated",
    "approval_expired",
    "approval_received",
    "approval_requested",
    "approval_revoked",
    "approval_stale",
    "approval_viewed",
    "approval_voted",
    "policy_checked",
    "tool_call_canceled",
    "tool_call_finished",
    "tool_call_in_doubt",
    "tool_call_joined",
    "tool_call_late",
    "tool_call_released",
    "tool_call_started",
}


def stamp(at: datetime = NOON, actor: Actor = SYSTEM) -> Stamp:
    """Gives a stamp whose salts are the bytes 0 to 223."""
    return Stamp(at=at, actor=actor, salts=bytes(range(224)))


# What a policy says


def asks(*needs: Need, policy: str = POLICY, charges: tuple[Charge, ...] = (), **question: Any) -> Verdict:
    """Gives the verdict that somebody has to be asked."""
    question = {"rule": "ask first", "needs": needs or (Need(),), **question}
    return Verdict(decision="ask", rule=question["rule"], policy=policy, question=Question(**question), charges=charges)


def allows(policy: str = POLICY) -> Verdict:
    """Gives the verdict of a policy that lets a call pass."""
    return Verdict(decision="allow", rule="let pass", policy=policy)


def refuses(rule: str = "never", policy: str = POLICY) -> Verdict:
    """Gives the verdict of a policy that does not."""
    return Verdict(decision="refuse", rule=rule, policy=policy, why="on principle")


def charging(*charges: Charge, verdict: Verdict | None = None) -> Verdict:
    """Gives a verdict that takes something from budgets."""
    return replace(verdict or allows(), charges=charges)


def charge(amount: Any = 2, limit: Any = 5, budget: str = "spend", window: timedelta = HOUR) -> Charge:
    """Gives what a call takes from a budget: two of five, unless told otherwise."""
    return Charge(budget=budget, limit=Decimal(limit), window=window, amount=Decimal(amount))


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
        "args_json": ARGS,
        "lease": LEASE,
        "verdict": ALLOWED,
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
        "args_json": ARGS,
        "detail_json": detail,
    }
    told = {**fields, **changes}
    token = told.pop("token")
    _TOKENS[hash_of(token)] = token
    return Effect(**told, token_hash=hash_of(token))


_TOKENS: dict[str, str] = {}


def asked(made: Effect, verdict: Verdict | None = None, **changes: Any) -> tuple[Effect, Approval]:
    """Gives an effect that somebody was asked about at noon, and the question, but for what is told otherwise."""
    verdict = verdict or asks()
    assert verdict.question is not None
    approval = ask(
        "apr_1",
        made,
        verdict.question,
        schema="",
        policy=verdict.policy,
        requester=AGENT,
        principal=None,
        now=NOON,
    )
    charges = charges_json(verdict.charges) if verdict.charges else None
    return replace(made, permission_id=approval.id, charges_json=charges), replace(approval, **changes)


def vote(by: str = "ada", *, is_approval: bool = True, **changes: Any) -> Vote:
    """Gives a vote that was cast at noon."""
    return Vote(**{"by": by, "via": "process", "at": NOON, "is_approval": is_approval, **changes})


def on_shelf(*approvals: Approval) -> dict[SheetRef, Sheet | None]:
    """Gives the sheets of approvals."""
    return {approval_ref(one.id): approval_sheet(one) for one in approvals}


# What people and systems do about an approval


def cast(
    about: Approval, by: Actor = ADA, *, is_approval: bool = True, at: datetime = NOON, **changes: Any
) -> CastVote:
    """Gives a vote for what was shown last, but for what is told otherwise."""
    words = {"digest": about.digest, "detail_json": b'"ok"', "is_approval": is_approval}
    return CastVote(ref=about.ref, stamp=stamp(at, by), approval_id=about.id, **{**words, **changes})


def take_back(about: Approval, by: Actor = ADA, at: datetime = NOON) -> TakeBack:
    """Takes a vote back."""
    return TakeBack(ref=about.ref, stamp=stamp(at, by), approval_id=about.id, detail_json=b'"on second thoughts"')


def amend(about: Approval, by: Actor = ADA, at: datetime = NOON, **changes: Any) -> Amend:
    """Changes what is asked about, unless told otherwise to an amount of 6 that the policy asks about as well."""
    words = {"digest": about.digest, "args_json": OTHER_ARGS, "verdict": asks(), "detail_json": b'"six will do"'}
    return Amend(ref=about.ref, stamp=stamp(at, by), approval_id=about.id, **{**words, **changes})


def show_to(about: Approval, by: Actor = ADA) -> ShowTo:
    """Shows somebody what is asked."""
    return ShowTo(ref=about.ref, stamp=stamp(actor=by), approval_id=about.id)


def attend(about: Approval, at: datetime = NOON, *channels: str) -> Attend:
    """Sees to an approval that may be due."""
    return Attend(ref=about.ref, stamp=stamp(at), approval_id=about.id, channels=channels)


def reopen(ref: Ref = REF, at: datetime = NOON, **changes: Any) -> Reopen:
    """Allows another attempt on somebody's word."""
    return Reopen(ref=ref, stamp=stamp(at, ADA), detail_json=b'"again"', **changes)


def cancel(ref: Ref = REF, at: datetime = NOON) -> Cancel:
    """Withdraws an effect."""
    return Cancel(ref=ref, stamp=stamp(at, ADA), detail_json=b'"no more"')


def settle(status: Any = "succeeded", ref: Ref = REF, at: datetime = NOON) -> Settle:
    """Tells the outcome of an effect in doubt."""
    return Settle(ref=ref, stamp=stamp(at, ADA), status=status, detail_json=b'"so"', evidence_json=b'"seen"')


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

    def stamp(self, actor: Actor, values: int = 7) -> Stamp:
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


def next_step(command: Command, effect: Effect | None, now: datetime, seq: int, sheets: Sheets = NO_SHEETS) -> Step:
    """Decide a command on an effect and sheets that are all there is."""
    _, read = read_for([command], {command.ref: effect}, sheets)
    return steps.next_step(command, effect, now, seq, {**read, **sheets})


def decide(
    commands: Sequence[Command],
    effects: Mapping[Ref, Effect | None],
    heads: Mapping[str, Head],
    now: datetime,
    by: Provenance,
    sheets: Sheets = NO_SHEETS,
) -> Batch:
    """Decide commands on effects and sheets that are all there is."""
    found, read = read_for(commands, effects, sheets)
    return batches.decide(commands, found, heads, now, by, {**read, **sheets})


def read_edit(effect: Effect) -> EditRead:
    """Read edited arguments as a tool does that finds them as they are."""
    assert effect.args_json is not None
    return EditRead(effect.version, effect.args_json, is_exact=True)


class Shelf:
    """Keeps what `decide` gives, as a store would, and nothing else: no rules live here.

    It hands out those sheets only that the rules say they need, and checks what any store relies on.
    """

    def __init__(self) -> None:
        self.now = NOON
        self.effects: dict[Ref, Effect] = {}
        self.sheets: dict[SheetRef, Sheet] = {}
        self.heads: dict[str, Head] = {}
        self.events: dict[str, list[Any]] = {}
        self.payloads: list[Payload] = []
        self.committed: dict[tuple[str, int, str], bytes] = {}

    def apply(self, *commands: Command) -> Batch:
        """Decides a batch on what is kept, checks that it fits, and keeps what came of it."""
        effects, sheets = read_for(commands, self.effects, self.sheets)
        batch = batches.decide(commands, effects, self.heads, self.now, BY, sheets)
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
        self.committed |= {(one.run_id, one.seq, one.field): one.value for one in batch.payloads}
        for ref, (was_written, sheet) in batch.sheets.items():
            self._keep(ref, was_written, sheet, len(commands))
        return batch

    def _keep(self, ref: SheetRef, before: Sheet | None, after: Sheet, most: int) -> None:
        assert self.sheets.get(ref) == before, "a sheet is written over the state it was decided on"
        version = 0 if before is None else before.version
        # One command may end a question and ask anew, so two changes of one budget are the most it leads to.
        assert version < after.version <= version + 2 * most, "versions count changes"
        if after.is_recorded:
            assert after.run_id is not None
            assert after.seq is not None
            assert self.committed[after.run_id, after.seq, after.kind] == after.body, "an event commits to the sheet"
        else:
            assert (after.run_id, after.seq) == (None, None)
        self.sheets[ref] = after

    def do(self, command: Command) -> Any:
        """Applies one command and gives its answer."""
        return self.apply(command).answers[0]

    def begin(self, command: Any, **changes: Any) -> Any:
        """Ask to run a call as a walk does, whose tool reads edited arguments as they are; `changes` judge them."""
        answer = self.do(command)
        is_unread = isinstance(answer, EditUnread)
        return self.do(replace(command, edit=read_edit(answer.effect), **changes)) if is_unread else answer

    def approval(self, ref: Ref = REF) -> Approval:
        """Gives the newest approval of an effect."""
        found = self.effects[ref].approval_id
        assert found is not None
        return self.approval_with(found)

    def approval_with(self, approval_id: str) -> Approval:
        """Gives an approval, also one that was replaced."""
        return read_approval(self.sheets[approval_ref(approval_id)])

    def budget(self, name: str = "spend") -> Budget:
        """Gives how a budget stands."""
        return read_budget(self.sheets.get(budget_ref(name)))

    def types(self, run_id: str = "run-1") -> list[str]:
        """Lists what happened in a run."""
        return [event.type for event in self.events.get(run_id, [])]

    def last_commits(self, run_id: str = "run-1") -> dict[str, bytes]:
        """Gives what the newest event of a run commits to."""
        seq = self.events[run_id][-1].seq
        return {name: value for (run, at, name), value in self.committed.items() if (run, at) == (run_id, seq)}


def said_of_another(error: BaseException) -> BaseException:
    """Return an exception that speaks of another effect."""
    assert is_about(error, "eff_other")
    return error
