"""One caller's word to a ledger: what they begin and commit is recorded as theirs, with the token they chose."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from datetime import timedelta
from typing import Any, Literal

from indelible.aio import AsyncLedger
from indelible.core.commands import Answer, Begun, Late, MayRun, Moved, Relinquish
from indelible.core.effects import walk
from indelible.core.effects.calls import Idempotent, OptionWords, Resource, ToolCall
from indelible.core.effects.effect import SYSTEM, Actor, Claim, Effect, Outcome, Succeeded
from indelible.core.effects.requests import Mint, Prepared, Request, Submit
from indelible.core.remote.admissible import check_arguments
from indelible.core.remote.admitting import Caller
from indelible.core.stamps import Stamp
from indelible.core.values.canonical import encode
from indelible.engine.mint import MOST_VALUES
from indelible.errors import LeaseLost, ResultNotRecorded, StoreError
from indelible.server.shapes.effects import Begin, CallTold


class CallersMint:
    """Makes what must be new as the ledger does; but whoever calls is who acts, and may have chosen a token."""

    def __init__(self, mint: Mint, actor: Actor, token: str | None = None) -> None:
        self._mint = mint
        self._actor = actor
        self._token = token

    def stamp(self, actor: Actor, values: int = MOST_VALUES) -> Stamp:
        """Return a stamp of the caller's; a probe that the server asks speaks for itself."""
        is_probe = actor.kind == "system" and actor != SYSTEM
        return self._mint.stamp(actor if is_probe else self._actor, values)

    def effect_id(self) -> str:
        """Gives an id."""
        return self._mint.effect_id()

    def token(self) -> str:
        """Gives the token that the caller chose, else a new one."""
        return self._token or self._mint.token()


def call_of(body: CallTold) -> ToolCall:
    """Gives the call that a client tells of."""
    resource = body.resource
    return ToolCall(
        tool=body.tool,
        args=body.args,
        run_id=body.run_id,
        scope=body.scope,
        key=body.key,
        resource=None if resource is None else Resource(**resource.model_dump()),
        call_id=body.call_id,
        dedupe=body.dedupe,
        schema=body.schema_hash,
        turn=body.turn,
        varies=body.varies,
        added=body.added,
        on_reuse=body.on_reuse,
    )


def words_of(body: CallTold) -> OptionWords:
    """Gives how a client wants its call to be treated: it may be stricter than the ledger is, never laxer."""
    words: OptionWords = {}
    if body.side_effect is not None:
        words["side_effect"] = body.side_effect
    if body.approval == "required":  # `none` would take away what the ledger itself wants asked
        words["approval"] = "required"
    if isinstance(body, Begin):
        if body.on_crash is not None:
            words["on_crash"] = body.on_crash
        if body.lease_s is not None:
            words["lease"] = timedelta(seconds=body.lease_s)
        if body.on_repeat is not None:
            words["on_repeat"] = body.on_repeat
        if body.exclusive is not None:
            words["exclusive"] = Resource(**body.exclusive.model_dump())
        if body.downstream_window_s is not None:
            words["downstream"] = Idempotent(window=timedelta(seconds=body.downstream_window_s))
    return words


def prepared_for(
    ledger: AsyncLedger, caller: Caller, actor: Actor, body: CallTold, *, takes_grants: bool = True
) -> Prepared:
    """Return a call as its caller makes it; without `takes_grants`, a person is asked whatever was granted."""
    driver = body.driver_token if isinstance(body, Begin) else None
    prepared = ledger._prepare(call_of(body), words_of(body))
    check_arguments(prepared.identity.args_json, None)
    return replace(
        prepared,
        actor=actor,
        principal=caller.principal or prepared.principal,
        driver_token=driver or prepared.driver_token,
        takes_grants=takes_grants,
    )


async def begin(ledger: AsyncLedger, caller: Caller, actor: Actor, body: Begin, *, takes_grants: bool = True) -> Begun:
    """Asks to execute a call in the caller's name."""
    mint = CallersMint(ledger._mint, actor, body.token)
    walking = walk.begin(prepared_for(ledger, caller, actor, body, takes_grants=takes_grants), mint)
    begun: Begun = await ledger._engine.drive_async(walking)
    return begun


async def ask(
    ledger: AsyncLedger, caller: Caller, actor: Actor, body: Begin, *, takes_grants: bool = True
) -> Begun | MayRun:
    """Ask in the caller's name for permission to execute a call, and claim nothing."""
    standing: Begun | MayRun = await ledger._engine.drive_async(
        walk.ask(prepared_for(ledger, caller, actor, body, takes_grants=takes_grants), CallersMint(ledger._mint, actor))
    )
    return standing


async def commit(ledger: AsyncLedger, actor: Actor, claim: Claim, outcome: Outcome, known: Effect) -> Effect:
    """Reports what came of an attempt, in the caller's name; what cannot be recorded changes nothing."""
    if isinstance(outcome, Succeeded) and isinstance(outcome.value, dict | list | str):
        # In a process of ours this would leave the effect in doubt; who sends it can still send something else.
        encode(outcome.value, root="outcome.value", max_bytes=ledger._max_result_bytes)
    mint = CallersMint(ledger._mint, actor)
    answers: list[Any] = []
    try:
        await ledger._engine.drive_async(_noting(ledger._commit(claim, outcome, mint, known), answers))
    except ResultNotRecorded as problem:
        if isinstance(problem.__cause__, StoreError):  # sending the same again is safe
            raise problem.__cause__ from None
        raise
    return next((one.effect for one in answers if isinstance(one, Moved)), known)


def _noting(walk: Generator[Request, Any, Any], answers: list[Any]) -> Generator[Request, Any, Any]:
    """Goes a walk as it is, and notes what is answered on the way."""
    go_on, value = walk.send, None
    while True:
        try:
            request = go_on(value)
        except StopIteration as done:
            return done.value
        try:
            value = yield request
            answers.append(value)
            go_on = walk.send
        except BaseException as problem:  # for the walk to see to, whatever it is
            go_on, value = walk.throw, problem


async def release(
    ledger: AsyncLedger, actor: Actor, claim: Claim, status: Literal["ready", "in_doubt"], reason: str, known: Effect
) -> Effect:
    """Gives an attempt up in the caller's name: nothing happened, or nobody can tell."""
    screen = ledger._screen_of(known)
    command = Relinquish(
        claim=claim,
        stamp=ledger._mint.stamp(actor),
        status=status,
        detail_json=encode(reason if screen is None else screen.text(reason), root="reason"),
    )
    moved: Effect = await ledger._engine.drive_async(_releasing(command, known))
    return moved


def _releasing(command: Relinquish, known: Effect) -> Generator[Request, Any, Effect]:
    answer: Answer = yield Submit(command, known)
    match answer:
        case Moved(effect):
            return effect
        case Late(effect):
            message = f"{effect.tool}: attempt {command.claim.attempt} of {effect.id} is no longer yours to give up"
            raise LeaseLost(f"{message}; it is {effect.status}", effect=effect)
        case _:
            raise AssertionError(f"a Relinquish is never answered by {type(answer).__name__}")
