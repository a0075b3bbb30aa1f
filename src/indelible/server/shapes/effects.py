"""What is sent and what is answered about effects and events, as JSON: plain, in snake_case, times in RFC 3339."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from indelible.core.effects.calls import Dedupe, OnCrash, OnRepeat, OnReuse, SideEffect
from indelible.core.effects.effect import Effect, Status
from indelible.core.effects.reconciling import ReconcileCode, Reconciled
from indelible.core.effects.settlements import RowResult, SettleCode, SettledAll
from indelible.core.events import Event, instant, instant_or_none
from indelible.core.journal.journal import Entry
from indelible.core.remote.admissible import LONGEST_WINDOW
from indelible.core.remote.shown import outcome_shown, plain
from indelible.server.requests.strict import Body

Text = Annotated[str, Field(max_length=10_000)]
Name = Annotated[str, Field(min_length=1, max_length=500)]
Attempt = Annotated[int, Field(ge=1, le=2**31 - 1)]
"""Is the number of an attempt; they count from 1."""
Seconds = Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)]
Names = Annotated[list[Name], Field(max_length=100, default_factory=list)]


LONGEST_WINDOW_S = LONGEST_WINDOW.total_seconds()


def _moment(value: object) -> datetime:
    """Reads an instant; one without a time zone, or outside of what UTC can say, is none."""
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
            if moment.tzinfo is not None:
                return moment.astimezone(UTC)
        except (ValueError, OverflowError):
            pass
    raise ValueError("an instant with its time zone is expected here, as in 2030-01-31T12:00:00Z")


Moment = Annotated[datetime, BeforeValidator(_moment)]


class Sent(Body):
    """Is what a client sends: exactly the members that are known, each of its own type."""

    model_config = ConfigDict(extra="forbid", strict=True, use_attribute_docstrings=True)


class ResourceNamed(Sent):
    """Names one thing in the outside world; calls that name the same thing are the same call."""

    namespace: Name
    type: Name
    id: Name


class CallTold(Sent):
    """Says which tool to run with which arguments, and what makes two such calls the same."""

    tool: Name
    args: Annotated[dict[str, Any], Field(default_factory=dict)]
    run_id: Name | None = None
    """The piece of work that this call belongs to, such as an order. A call with effects and no `scope` needs one."""
    scope: Name | None = None
    """The range in which the call's key is unique; by default the run."""
    key: Annotated[list[Name], Field(min_length=1, max_length=100)] | None = None
    """The arguments that make two calls the same, by dotted paths; by default all of them."""
    resource: ResourceNamed | None = None
    """The thing that makes two calls the same, instead of arguments."""
    call_id: Name | None = None
    """The framework's own id of this tool call."""
    dedupe: Dedupe = "args"
    """What tells an intended repeat from a retry.

    `args`: nothing does, the same arguments are the same call. `call`: another `call_id` is another call. `ask`: for
    another `call_id` a person decides. `turn`: in another `turn`, `on_repeat` decides.
    """
    turn: Name | None = None
    """The id of the user's last message. Without it, the whole run is one turn."""
    varies: Names
    """Arguments that a model may reword, by dotted paths. They are recorded and approved, and do not identify the call.

    While the call waits or runs again, the words that were recorded first are used."""
    added: Annotated[dict[str, Any], Field(max_length=100, default_factory=dict)]
    """Arguments that a later version of the tool added, with the value that stands for "as before".

    An argument with exactly this value does not identify the call, so calls from before the change are still known."""
    on_reuse: OnReuse = "refuse"
    """What a call gets whose `key` belongs to a settled call with other arguments.

    `refuse`: 409 `key-reused`. `replay`: the recorded outcome."""
    schema_hash: Annotated[str, Field(max_length=500, alias="schema")] = ""
    """The hash of the tool's schema, where it has one; an approval holds for this schema only."""
    side_effect: SideEffect | None = None
    """What the tool does to the world; by default it is taken for a mutation outside."""
    approval: Literal["required", "none"] | None = None
    """`required` asks somebody whatever the policy says; `none` takes nothing away from the policy."""


class Begin(CallTold):
    """Asks to execute a call."""

    on_crash: Literal["retry", "hold"] | None = None
    """`retry` if it is safe to do it again after a crash; else it is held until somebody has looked."""
    lease_s: Seconds | None = None
    """For how many seconds the attempt is the caller's without a heartbeat."""
    token: Annotated[str, Field(min_length=16, max_length=200)] | None = None
    """Is a secret of the caller's own: whoever lost the answer sends the same again and gets the same claim."""
    driver_token: Name | None = None
    """The right to drive the run, for who has it: then the call is refused when somebody else drives it by now."""
    on_repeat: OnRepeat | None = None
    """What happens to a call with `dedupe: "turn"` that succeeded in an earlier turn.

    `ask`: a person decides. `refuse`: 409 `repeat-refused`. `run`: it runs. Default: `ask` for payment,
    external_mutation and delegation, else `run`."""
    exclusive: ResourceNamed | None = None
    """The thing on which one call may be open at a time. Another call on it gets 409 `resource-busy`."""
    downstream_window_s: Annotated[float, Field(gt=0, le=LONGEST_WINDOW_S, allow_inf_nan=False)] | None = None
    """For how many seconds your provider honours `effect.key` as its idempotency key; choose less than it promises.

    In this time an effect in doubt may be begun again, to send the same request with the same key. Not with
    `on_crash`."""


class SucceededTold(Sent):
    """Says that it was done, and what came of it."""

    status: Literal["succeeded"]
    value: Any = None


class FailedTold(Sent):
    """Says that it failed for good, and that nothing of it happened that a repeat would do twice."""

    status: Literal["failed"]
    error: Text
    error_type: Name = "Error"


OutcomeTold = Annotated[SucceededTold | FailedTold, Field(discriminator="status")]


class Commit(Sent):
    """Reports the outcome of an attempt."""

    token: Name
    attempt: Attempt
    outcome: OutcomeTold


class Release(Sent):
    """Gives an attempt up: `ready` when nothing happened outside, `in_doubt` when something may have."""

    token: Name
    attempt: Attempt
    status: Literal["ready", "in_doubt"]
    reason: Annotated[str, Field(min_length=1, max_length=10_000)]


class Heartbeat(Sent):
    """Keeps an attempt going."""

    token: Name
    attempt: Attempt
    lease_s: Seconds | None = None


class Settlement(Sent):
    """Tells what became of an effect in doubt, and how that is known."""

    outcome: OutcomeTold
    evidence: Annotated[str, Field(min_length=1, max_length=10_000)]


class SettlementRow(Sent):
    """Says of one effect, by its id or by its key, what became of it and how that is known."""

    id: Name | None = None
    key: Name | None = None
    outcome: OutcomeTold
    evidence: Annotated[str, Field(min_length=1, max_length=10_000)]
    attempt: Attempt | None = None
    """The attempt that was looked at; a later one is not settled. By default the newest."""

    def plain(self) -> dict[str, Any]:
        """Return the row as `Ledger.settle_all` takes it."""
        told = self.outcome
        named = {name: value for name, value in (("id", self.id), ("key", self.key)) if value is not None}
        detail = {"value": told.value} if isinstance(told, SucceededTold) else _error_of(told)
        return {**named, "as": told.status, **detail, "evidence": self.evidence, "attempt": self.attempt}


def _error_of(told: FailedTold) -> dict[str, Any]:
    return {"error": told.error, "error_type": told.error_type}


class Settlements(Sent):
    """Tells what became of many effects in doubt."""

    rows: Annotated[list[SettlementRow], Field(min_length=1, max_length=1000)]
    dry_run: bool = False
    """Change nothing; say what would be settled."""
    skip_bad: bool = False
    """Settle the good rows even if others are bad."""


class Reconciliation(Sent):
    """Selects effects in doubt whose probes are asked."""

    tool: Name | None = None
    """Only effects of this tool; `*` stands for any characters."""
    run_id: Name | None = None
    ids: Annotated[list[Name], Field(min_length=1, max_length=1000)] | None = None
    limit: Annotated[int, Field(ge=1, le=1000)] = 100
    dry_run: bool = False
    """Ask nothing; say what would be asked about."""


class Reason(Sent):
    """Says why."""

    reason: Annotated[str, Field(min_length=1, max_length=10_000)]


# What is answered.


class OutcomeShown(BaseModel):
    """Is what came of an effect."""

    status: Literal["succeeded", "failed"]
    value: Any = None
    error: str | None = None
    error_type: str | None = None


class CompensationShown(BaseModel):
    """Is the effect that undid another one; it may still be `processing` or `in_doubt`."""

    id: str
    status: Status


class EffectShown(BaseModel):
    """Is one tool call and its fate. `args` is null when they were erased; `erased` says what was.

    If `compensation` is not null, the call succeeded and does not stand any more: repeats get 409
    `effect-compensated`. Only answers that show or list effects look for it.
    """

    id: str
    run_id: str
    tool: str
    side_effect: SideEffect
    status: Status
    args: Any
    outcome: OutcomeShown | None
    reason: Any
    attempt: int
    on_crash: OnCrash
    scope: str
    key: str
    digest: str
    call_id: str | None
    approval_id: str | None
    lease_until: str | None
    version: int
    created_at: str
    updated_at: str
    erased: list[Literal["args", "detail"]]
    compensation: CompensationShown | None


class ClaimShown(BaseModel):
    """Is the right to execute one attempt: whoever has the token may commit it until the lease ends."""

    effect: EffectShown
    token: str
    fence: int
    lease_until: str


class EffectAnswer(BaseModel):
    """Holds one effect."""

    effect: EffectShown


class RowShown(BaseModel):
    """Is what came of one row, or would. `row` counts from 1; `detail` says why it was not settled."""

    row: int
    name: str
    result: SettleCode
    detail: str
    effect: EffectShown | None


class SettledShown(BaseModel):
    """Is what came of many settlements, in the order of their rows."""

    dry_run: bool
    settled: int
    already_settled: int
    problems: int
    results: list[RowShown]


class ReconciledShown(BaseModel):
    """Is what came of asking the probe of one effect."""

    result: ReconcileCode
    detail: str
    effect: EffectShown


class ReconciledPage(BaseModel):
    """Lists the effects whose probes were asked; `left_in_doubt` says how many of them are still in doubt."""

    effects: list[ReconciledShown]
    left_in_doubt: int


class EffectReplayed(EffectAnswer):
    """Holds the effect of a call that was made before. `effect.created_at` says when; nothing was run now."""

    replayed: Literal[True]


class AnsweredShown(BaseModel):
    """Says who was given a recorded answer by a server, in which run, how often, and when last."""

    actor: str
    kind: Literal["agent", "person", "system"]
    run_id: str
    count: int
    last_at: str


class AnsweredPage(BaseModel):
    """Lists who got an effect's recorded answer, the last one first, up to a hundred.

    Servers note it behind their answers and keep it for 90 days; a program that opens the database itself is not noted.
    """

    callers: list[AnsweredShown]


class EffectPage(BaseModel):
    """Lists effects, newest first; pass `next` as `before` for the next page."""

    effects: list[EffectShown]
    next: str | None


class Committed(BaseModel):
    """Says what was recorded. `in_doubt`: this attempt failed, and an earlier one may have happened."""

    id: str
    status: Literal["succeeded", "failed", "in_doubt"]
    attempt: int


class Kept(BaseModel):
    """Says how long the lease holds from now on."""

    id: str
    attempt: int
    lease_s: float


class EventShown(BaseModel):
    """Is one fact of a run; `body` is what the hash is of, in canonical form. `index` is its place in the journal."""

    run_id: str
    seq: int
    index: int | None
    type: str
    effect_id: str | None
    hash: str
    body: dict[str, Any]


class EventPage(BaseModel):
    """Lists events in their order; pass `next` as `after` for the next page."""

    events: list[EventShown]
    next: int | None


def effect_shown(effect: Effect, compensation: Effect | None = None) -> dict[str, Any]:
    """Return an effect for programs in any language, with the effect that undid it, if one did."""
    erased = ["args"] if effect.args_json is None else []
    if effect.is_detail_erased:
        erased.append("detail")
    return {
        "id": effect.id,
        "run_id": effect.run_id,
        "tool": effect.tool,
        "side_effect": effect.side_effect,
        "status": effect.status,
        "args": None if effect.args_json is None else plain(effect.args_json),
        "outcome": outcome_shown(effect),
        "reason": None if effect.is_settled or effect.detail_json is None else plain(effect.detail_json),
        "attempt": effect.attempt,
        "on_crash": effect.on_crash,
        "scope": effect.scope,
        "key": effect.key,
        "digest": effect.digest,
        "call_id": effect.call_id,
        "approval_id": effect.approval_id,
        "lease_until": instant_or_none(effect.lease_until),
        "version": effect.version,
        "created_at": instant(effect.created_at),
        "updated_at": instant(effect.updated_at),
        "erased": erased,
        "compensation": None if compensation is None else {"id": compensation.id, "status": compensation.status},
    }


def settled_shown(settled: SettledAll, *, is_dry: bool) -> dict[str, Any]:
    """Return what came of many settlements."""
    return {
        "dry_run": is_dry,
        "settled": settled.count("settled"),
        "already_settled": settled.count("already_settled"),
        "problems": len(settled.problems),
        "results": [_row_shown(result) for result in settled.results],
    }


def _row_shown(result: RowResult) -> dict[str, Any]:
    effect = None if result.effect is None else effect_shown(result.effect)
    return {
        "row": result.line,
        "name": result.name,
        "result": result.code,
        "detail": result.detail,
        "effect": effect,
    }


def reconciled_shown(found: Sequence[Reconciled]) -> dict[str, Any]:
    """Return what came of asking probes."""
    effects = [{"result": one.code, "detail": one.detail, "effect": effect_shown(one.effect)} for one in found]
    return {"effects": effects, "left_in_doubt": sum(one.is_open for one in found)}


def event_shown(event: Event) -> dict[str, Any]:
    """Gives an event of a run."""
    return _event(event.run_id, event.seq, None, event.hash, event.body)


def entry_shown(entry: Entry) -> dict[str, Any]:
    """Gives an event at its place in the journal."""
    return _event(entry.run_id, entry.seq, entry.index, entry.hash, entry.body)


def _event(run_id: str, seq: int, index: int | None, hash_: str, body: bytes) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(body)
    return {
        "run_id": run_id,
        "seq": seq,
        "index": index,
        "type": told.get("type", ""),
        "effect_id": told.get("effect"),
        "hash": hash_,
        "body": told,
    }
