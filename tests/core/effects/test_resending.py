"""Where a provider honours our key: an effect in doubt is entered again within its window, without asking anew."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from indelible.core.commands import Claimed, InDoubt
from indelible.core.effects.request_keys import request_key_of
from tests.core.effects.claiming import approved, claim_on, opening
from tests.core.making import (
    HOUR,
    LEASE,
    NOON,
    REF,
    Shelf,
    allows,
    asks,
    claim_of,
    effect,
    finish,
    next_step,
    relinquish,
    stamp,
)

RESENT: Any = {"on_crash": "resend", "resend_within": HOUR, "verdict": allows()}


def in_doubt(**words: Any) -> Shelf:
    shelf = Shelf()
    shelf.do(relinquish(claim_on(shelf, opening(**(RESENT | words))), status="in_doubt"))
    return shelf


def test_it_is_entered_again_within_the_window_and_never_after() -> None:
    shelf = in_doubt()
    start = shelf.now
    shelf.now = start + HOUR
    assert isinstance(shelf.do(opening(2, **RESENT)), InDoubt)
    shelf.now = start + HOUR - timedelta(seconds=1)
    assert isinstance(shelf.do(opening(2, **RESENT)), Claimed)


def test_a_caller_that_names_no_window_enters_nothing() -> None:
    assert isinstance(in_doubt().do(opening(2, **(RESENT | {"resend_within": None}))), InDoubt)


def test_a_caller_whose_clock_is_fast_does_not_stretch_the_window() -> None:
    shelf, command = in_doubt(), opening(2, **RESENT)
    late = replace(command, stamp=replace(command.stamp, at=command.stamp.at + HOUR))
    assert isinstance(shelf.do(late), InDoubt)


@pytest.mark.parametrize("is_abandoned", [False, True])
def test_nothing_is_asked_anew_while_it_is_in_doubt(is_abandoned: bool) -> None:
    shelf, _ = approved(on_crash="resend", resend_within=HOUR)
    claim = claim_on(shelf, opening(2, on_crash="resend", resend_within=HOUR))
    if is_abandoned:
        shelf.now += LEASE
    else:
        shelf.do(relinquish(claim, status="in_doubt"))
    other = replace(asks(), policy="ef" * 32)
    answer = shelf.do(opening(3, on_crash="resend", resend_within=HOUR, verdict=other))
    assert isinstance(answer, InDoubt)
    assert shelf.effects[REF].status == "in_doubt"
    assert shelf.approval().status == "consumed", "it is still bound to what ran"


def test_a_killed_attempt_is_followed_by_the_next() -> None:
    shelf = Shelf()
    claim_on(shelf, opening(**RESENT))
    shelf.now += LEASE
    claim = claim_on(shelf, opening(2, **RESENT))
    assert claim.attempt == 2
    assert claim.effect.request_key("POST", "https://a.example/") == request_key_of(
        REF.key, "POST", "https://a.example/"
    )


@pytest.mark.parametrize("on_crash", ["hold", "retry", "resend"])
@pytest.mark.parametrize("doubted", [None, 1])
@pytest.mark.parametrize("before", ["processing", "in_doubt"])
def test_a_later_attempt_that_did_nothing_or_was_refused_leaves_the_doubt_of_the_one_before(
    before: str, doubted: int | None, on_crash: str
) -> None:
    """Also if its handler was never entered, or a client over HTTP gives it up: the rule stands in the core."""
    held = effect(before, attempt=2, doubted=doubted, on_crash=on_crash)
    claim = claim_of(held)
    failing = finish(claim, "failed", b'{"message":"no","type":"E"}')
    reports: list[Any] = [next_step(command, held, NOON, 7).answer for command in (relinquish(claim, "ready"), failing)]
    ends = [answer.effect.status for answer in reports]
    assert ends == (["ready", "failed"] if doubted is None else ["in_doubt", "in_doubt"])
    done: Any = next_step(finish(claim), held, NOON, 7).answer
    assert done.effect.status == "succeeded", "that it succeeded is a proof"


@pytest.mark.parametrize("side_effect", ["write", "payment", "read"])
@pytest.mark.parametrize("before", ["processing", "in_doubt", "ready"])
def test_an_attempt_knows_the_one_before_it_that_may_have_happened(before: str, side_effect: Any) -> None:
    shelf = Shelf()
    lease = NOON - LEASE if before == "processing" else None
    shelf.effects[REF] = effect(
        before, attempt=3, on_crash="retry", side_effect=side_effect, lease_until=lease, doubted=2
    )
    claim = claim_on(shelf, opening(2, on_crash="retry", side_effect=side_effect, verdict=allows()))
    assert claim.effect.doubted == (None if before == "ready" or side_effect == "read" else 3)


def test_what_a_later_attempt_said_late_is_kept_once() -> None:
    held = effect("in_doubt", attempt=2, doubted=1)
    failing = finish(claim_of(held), "failed", b'{"message":"no","type":"E"}')
    step = next_step(failing, held, NOON, 7)
    assert [getattr(change, "event_type", None) for change in step.changes] == ["tool_call_late"]
    said = replace(held, detail_json=failing.detail_json)
    assert next_step(failing, said, NOON, 7).changes == ()


def test_a_caller_whose_clock_is_fast_gets_no_window() -> None:
    shelf = Shelf()
    fast = claim_on(shelf, opening(**RESENT, stamp=stamp(shelf.now + timedelta(minutes=2))))
    assert fast.effect.on_crash == "hold"
    assert claim_on(Shelf(), opening(**RESENT)).effect.on_crash == "resend"
