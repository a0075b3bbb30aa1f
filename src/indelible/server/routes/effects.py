"""Effects for agents in any language: begin, report, look, wait, and what people do about those in doubt."""

from __future__ import annotations

import asyncio
import time
from dataclasses import asdict, replace
from datetime import timedelta
from typing import Annotated, Any

from fastapi import APIRouter, FastAPI, Header, Path, Query, Response

from indelible.core.commands import AwaitingApproval, Claimed, Replayed, ReplayedFailure
from indelible.core.effects import refusing
from indelible.core.effects.answered import answered_ref, read_answered
from indelible.core.effects.calls import OptionWords, SideEffect, check_name
from indelible.core.effects.effect import ENDED, Claim, Effect, Failed, Outcome, Status, Succeeded
from indelible.core.effects.reconciling import Reconciled
from indelible.core.events import instant
from indelible.core.filtering.reading import parse
from indelible.core.ports import Filter
from indelible.core.rights import held_claim
from indelible.core.sheets import SheetFilter
from indelible.engine.running import in_own_thread
from indelible.errors import BadCall, UnknownEffect
from indelible.server import speaking
from indelible.server.requests import sequence
from indelible.server.requests.asking import Asking, asking
from indelible.server.requests.filters import Q, finding_of
from indelible.server.requests.preconditions import etag, is_among
from indelible.server.requests.routing import ThinRoute, answer, resources
from indelible.server.shapes.approvals import ApprovalAnswer, approval_shown
from indelible.server.shapes.effects import (
    AnsweredPage,
    Begin,
    ClaimShown,
    Commit,
    Committed,
    EffectAnswer,
    EffectPage,
    EffectReplayed,
    Heartbeat,
    Kept,
    OutcomeTold,
    Reason,
    ReconciledPage,
    Reconciliation,
    Release,
    SettledShown,
    Settlement,
    Settlements,
    SucceededTold,
    effect_shown,
    reconciled_shown,
    settled_shown,
)

LONGEST_WAIT = 60
_BETWEEN_LOOKS = 0.5
_UNCHANGED: dict[int | str, dict[str, Any]] = {304: {"description": "It is still what `If-None-Match` names."}}
_REPLAYED = {"Idempotent-Replayed": "true"}

effects: APIRouter = resources("effects")
Id = Annotated[str, Path(description="An effect's id, as in eff_0123.")]
Before = Annotated[str | None, Query(description="Only what is older than this one: `next` of the page before.")]
Limit = Annotated[int, Query(ge=1, le=1000)]
Wait = Annotated[float, Query(ge=0, le=LONGEST_WAIT, description="Seconds to wait for the effect to move on.")]
IfNoneMatch = Annotated[str | None, Header(description="The ETag seen last: 304 while it is still that.")]


# The hot pair


async def begin(body: Begin, asked: Asking = asking("call")) -> Response:
    """Ask to execute a call: 201 gives the right to, 200 what came of it before, 202 the question that is open."""
    asked.ledgers.gateway.check_not_ours(body.tool)
    begun = await speaking.begin(asked.ledger, asked.caller, asked.actor, body)
    match begun:
        case Claimed(claim):
            asked.ledgers.claims.keep(claim.effect)
            headers = await _seq_of_claim(asked, claim.effect)
            return answer(_claim_shown(claim), 201, headers)
        case Replayed(effect=effect) | ReplayedFailure(effect=effect):
            return answer({"effect": effect_shown(effect), "replayed": True}, 200, _REPLAYED)
        case AwaitingApproval(approval, effect):
            headers = await sequence.of_sheet(asked, "approval", approval.id)
            return answer({"effect": effect_shown(effect), "approval": approval_shown(approval)}, 202, headers)
        case _:
            return refusing.refuse(begun)


async def commit(effect_id: Id, body: Commit, asked: Asking = asking("report")) -> Response:
    """Report what came of an attempt. Saying the same twice is harmless; a lost lease is 409, and what came is kept."""
    known = asked.ledgers.claims.take(asked.caller.tenant, effect_id) or await find_by_id(asked, effect_id)
    claim = claim_of(known, body.token, body.attempt)
    outcome = _outcome(body.outcome)
    moved = await speaking.commit(asked.ledger, asked.actor, claim, outcome, known)
    # An earlier attempt may have happened, so that a later failure leaves the doubt.
    status = "in_doubt" if moved.status == "in_doubt" else body.outcome.status
    shown = {"id": known.id, "status": status, "attempt": body.attempt}
    return answer(shown, 200, sequence.of_effect(moved))


async def _seq_of_claim(asked: Asking, effect: Effect) -> sequence.Headers:
    """Names the event by which an attempt began: that of the effect, or of the approval that it used up."""
    if effect.approval_id is not None:
        return await sequence.of_sheet(asked, "approval", effect.approval_id)
    return sequence.of_effect(effect) or await sequence.of_newest(asked, effect, effect.opened_seq)


def _claim_shown(claim: Claim) -> dict[str, Any]:
    effect = claim.effect
    assert effect.lease_until is not None
    until = instant(effect.lease_until)
    return {"effect": effect_shown(effect), "token": claim.token, "fence": effect.fence, "lease_until": until}


def claim_of(effect: Effect, token: str, attempt: int) -> Claim:
    return Claim(effect if effect.attempt == attempt else replace(effect, attempt=attempt), token)


def _outcome(told: OutcomeTold) -> Outcome:
    if isinstance(told, SucceededTold):
        return Succeeded(told.value)
    return Failed(told.error, told.error_type)


def add_hot_pair(app: FastAPI) -> None:
    """Adds these two to the application itself: to look for them in a router would cost more than to answer them."""
    app.router.add_api_route(
        "/v1/effects",
        begin,
        methods=["POST"],
        status_code=201,
        response_model=ClaimShown,
        responses={
            200: {"model": EffectReplayed, "description": "It was done before; `Idempotent-Replayed: true`."},
            202: {"model": ApprovalAnswer, "description": "A person has to decide first."},
        },
        tags=["effects"],
        route_class_override=ThinRoute,
    )
    app.router.add_api_route(
        "/v1/effects/{effect_id}/commit",
        commit,
        methods=["POST"],
        response_model=Committed,
        tags=["effects"],
        route_class_override=ThinRoute,
    )


# While it runs, and afterwards


@effects.post("/v1/effects/{effect_id}/heartbeat", response_model=Kept)
async def heartbeat(effect_id: Id, body: Heartbeat, asked: Asking = asking("report")) -> Response:
    """Extend the lease of an attempt, counted from now; 409 when it ran out or is lost: stop working on it."""
    words: OptionWords = {} if body.lease_s is None else {"lease": timedelta(seconds=body.lease_s)}
    known = await find_by_id(asked, effect_id)
    claim = held_claim(claim_of(known, body.token, body.attempt), asked.actor, known)
    await asked.ledger.heartbeat(claim, **words)
    lease_s = asked.ledger._lease(words).total_seconds()
    return answer({"id": claim.effect.id, "attempt": body.attempt, "lease_s": lease_s})


@effects.post("/v1/effects/{effect_id}/release", response_model=EffectAnswer)
async def release(effect_id: Id, body: Release, asked: Asking = asking("report")) -> Response:
    """Give an attempt up: as `ready` when nothing happened outside, as `in_doubt` when nobody can tell."""
    known = await find_by_id(asked, effect_id)
    claim = claim_of(known, body.token, body.attempt)
    return _moved_shown(await speaking.release(asked.ledger, asked.actor, claim, body.status, body.reason, known))


@effects.post("/v1/effects/{effect_id}/settle", response_model=EffectAnswer)
async def settle(effect_id: Id, body: Settlement, asked: Asking = asking("settle")) -> Response:
    """Say what became of an effect in doubt, after you looked."""
    effect = await find_by_id(asked, effect_id)
    moved = await asked.ledger.settle(effect, _outcome(body.outcome), by=asked.actor, evidence=body.evidence)
    return _moved_shown(moved)


@effects.post("/v1/effects/settle", response_model=SettledShown)
async def settle_many(body: Settlements, asked: Asking = asking("settle")) -> Response:
    """Tell what became of many effects in doubt. A bad row keeps all from being settled, unless `skip_bad` is true."""
    rows = [row.plain() for row in body.rows]
    settled = await asked.ledger.settle_all(rows, by=asked.actor, dry_run=body.dry_run, skip_bad=body.skip_bad)
    return answer(settled_shown(settled, is_dry=body.dry_run))


@effects.post("/v1/effects/reconcile", response_model=ReconciledPage)
async def reconcile(body: Reconciliation, asked: Asking = asking("reconcile")) -> Response:
    """Ask the probes of the server's own tools about effects in doubt, and settle those that a probe knows about."""
    check_names(run_id=body.run_id)
    chosen = None if body.ids is None else [await find_by_id(asked, name) for name in body.ids]
    found: list[Reconciled] = []
    await asked.ledger.reconcile(
        tool=body.tool,
        run_id=body.run_id,
        effects=chosen,
        limit=body.limit,
        dry_run=body.dry_run,
        each=found.append,
    )
    return answer(reconciled_shown(found))


@effects.post("/v1/effects/{effect_id}/cancel", response_model=EffectAnswer)
async def cancel(effect_id: Id, body: Reason, asked: Asking = asking("cancel")) -> Response:
    """Withdraw an effect that waits or is ready; an agent's credential only its own call that was never entered."""
    moved = await asked.ledger.cancel(await find_by_id(asked, effect_id), by=asked.actor, reason=body.reason)
    return _moved_shown(moved)


@effects.post("/v1/effects/{effect_id}/retry", response_model=EffectAnswer)
async def retry(effect_id: Id, body: Reason, asked: Asking = asking("retry")) -> Response:
    """Allow another attempt of an effect that failed or is in doubt; the next call makes it."""
    moved = await asked.ledger.retry(await find_by_id(asked, effect_id), by=asked.actor, reason=body.reason)
    return _moved_shown(moved)


# Looking


@effects.get("/v1/effects", response_model=EffectPage)
async def list_effects(
    status: Annotated[Status | None, Query()] = None,
    tool: Annotated[str | None, Query()] = None,
    run_id: Annotated[str | None, Query()] = None,
    side_effect: Annotated[SideEffect | None, Query()] = None,
    q: Q = "",
    before: Before = None,
    limit: Limit = 100,
    asked: Asking = asking("read"),
) -> Response:
    """List effects, newest first. A page may hold fewer than `limit` when they are large; `next` is null at the end."""
    check_names(tool=tool, run_id=run_id, before=before)
    selected = Filter(status=status, tool=tool, run_id=run_id, side_effect=side_effect, before=before, limit=limit)
    query = parse(q, "effects")
    found = await in_own_thread(finding_of(asked).effects, query, selected)
    undone = await asked.ledger.compensations(found.things)
    shown = [effect_shown(effect, undone.get(effect.id)) for effect in found.things]
    return answer({"effects": shown, "next": found.next})


@effects.get("/v1/effects/by-key/{key}", response_model=EffectAnswer, responses=_UNCHANGED)
async def find_effect(
    key: Annotated[str, Path(description="64 hexadecimal digits.")],
    scope: Annotated[
        str | None, Query(description="Where the key is unique, usually the run; spares a search.")
    ] = None,
    wait: Wait = 0,
    if_none_match: IfNoneMatch = None,
    asked: Asking = asking("read"),
) -> Response:
    """Show the effect with a key; with `wait`, as soon as it moves on."""
    check_names(scope=scope)
    effect = await asked.ledger.find_by_key(key, scope=scope)
    if effect is None:
        raise UnknownEffect(f"no effect of this tenant has the key {key}")
    return await _when_moved(asked, effect, wait, if_none_match)


@effects.get("/v1/effects/{effect_id}", response_model=EffectAnswer, responses=_UNCHANGED)
async def show_effect(
    effect_id: Id, wait: Wait = 0, if_none_match: IfNoneMatch = None, asked: Asking = asking("read")
) -> Response:
    """Show an effect; with `wait`, as soon as it moves on from what `If-None-Match` names, or from how it is now."""
    return await _when_moved(asked, await find_by_id(asked, effect_id), wait, if_none_match)


@effects.get("/v1/effects/{effect_id}/answered", response_model=AnsweredPage)
async def list_answered(effect_id: Id, asked: Asking = asking("read")) -> Response:
    """List who got an effect's recorded answer instead of running it again."""
    effect, ledgers = await find_by_id(asked, effect_id), asked.ledgers
    await in_own_thread(ledgers.replays.write)
    ref = answered_ref(effect.id)
    selected = SheetFilter(kind=ref.kind, id=ref.id, limit=1)
    found = await in_own_thread(asked.ledger._engine.store.sheets, asked.ledger.tenant, selected)
    callers = read_answered(found[0] if found else None)
    return answer({"callers": [{**asdict(one), "last_at": instant(one.last_at)} for one in callers]})


async def find_by_id(asked: Asking, effect_id: str) -> Effect:
    try:
        effect = await asked.ledger.get_effect(effect_id)
    except BadCall:  # it is the beginning of several
        effect = None
    if effect is None or effect.id != effect_id:  # the beginning of an id is enough for people, not for programs
        raise UnknownEffect(f"no effect of this tenant has the id {effect_id}; see: GET /v1/effects")
    return effect


async def _when_moved(asked: Asking, effect: Effect, wait: float, if_none_match: str | None) -> Response:
    undone = await _compensation_of(asked, effect)
    is_seen = is_among(_version(effect, undone), if_none_match)
    if wait > 0 and (is_seen or (if_none_match is None and effect.status not in ENDED)):
        effect = await _moved(asked, effect, wait)
        await asked.check_still_let_in()
        undone = await _compensation_of(asked, effect)
    if is_among(_version(effect, undone), if_none_match):
        return Response(status_code=304, headers={"ETag": _etag(effect, undone)})
    return answer({"effect": effect_shown(effect, undone)}, 200, {"ETag": _etag(effect, undone)})


async def _compensation_of(asked: Asking, effect: Effect) -> Effect | None:
    return (await asked.ledger.compensations([effect])).get(effect.id)


async def _moved(asked: Asking, effect: Effect, wait: float) -> Effect:
    """Gives an effect as soon as it has moved on, or as it is when the time is up."""
    engine, ends, stopping = asked.ledger._engine, time.monotonic() + wait, asked.ledgers.stopping
    while (left := ends - time.monotonic()) > 0 and not stopping.is_begun:
        woken = await stopping.unless_begun(engine._wait_async(effect, timedelta(seconds=left)))
        if woken is not None and woken.version == effect.version:
            # Woken because it most likely has moved, or because a lease ended, which is no move yet: so look.
            woken = (await in_own_thread(engine.store.look, [effect.ref])).effects[0]
        if woken is not None and woken.version != effect.version:
            return woken
        if woken is not None:
            await asyncio.sleep(min(_BETWEEN_LOOKS, max(0.0, ends - time.monotonic())))
    return effect


def _version(effect: Effect, undone: Effect | None = None) -> int:
    """Return a number that changes whenever the effect moves, or what undoes it: a success moves no further itself."""
    return effect.version + (0 if undone is None else undone.version)


def _etag(effect: Effect, undone: Effect | None = None) -> str:
    return f"W/{etag(_version(effect, undone))}"  # a heartbeat changes the lease and is no move


def _moved_shown(effect: Effect) -> Response:
    return answer({"effect": effect_shown(effect)}, 200, {"ETag": _etag(effect), **sequence.of_effect(effect)})


def check_names(**words: str | None) -> None:
    """Raises `BadCall` unless each of these is a name that something can have."""
    for name, value in words.items():
        if value is not None:
            check_name(name, value)
