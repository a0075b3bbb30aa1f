"""Where a provider honours our key: an effect in doubt is entered again within its window, without asking anew."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from indelible.core.commands import Claimed, InDoubt
from indelible.core.effects.calls import Handling, Options, handling_of
from indelible.core.effects.meaning import may_follow_doubt, meaning_of
from indelible.core.effects.request_keys import request_key_of
from indelible.errors import NothingHappened
from tests.core.effects.claiming import approved, claim_on, opening
from tests.core.making import HOUR, LEASE, REF, Shelf, allows, asks, relinquish

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
    assert (claim.attempt, may_follow_doubt(claim.effect)) == (2, True)
    assert claim.effect.request_key("POST", "https://a.example/") == request_key_of(
        REF.key, "POST", "https://a.example/"
    )
    assert not may_follow_doubt(replace(claim.effect, attempt=1))
    assert not may_follow_doubt(replace(claim.effect, on_crash="hold"))


HANDLINGS: list[Handling] = [
    handling_of(Options(side_effect="payment", nothing_on=KeyError)),
    handling_of(Options(side_effect="payment", marks_sending=True)),
]


@pytest.mark.parametrize("handling", HANDLINGS)
def test_that_one_attempt_sent_nothing_says_nothing_of_an_earlier_one(handling: Handling) -> None:
    words: Any = {"has_sent": False}
    assert meaning_of(KeyError(), handling, "eff_1", **words) == "nothing"
    assert meaning_of(KeyError(), handling, "eff_1", follows_doubt=True, **words) == "in_doubt"
    assert meaning_of(NothingHappened(), handling, "eff_1", follows_doubt=True, **words) == "in_doubt"
