"""A call of a forked run is answered from the record of the run it was forked from, and nothing of it runs again."""

from __future__ import annotations

from typing import Any

import pytest

from indelible.core.approvals.edits import taking
from indelible.core.commands import Canceled, Claimed, Denied, InDoubt, Replayed, ReplayedFailure
from indelible.core.effects import walk
from indelible.core.effects.effect import Claim
from indelible.core.effects.requests import Judged, Origin, Recall, Submit
from indelible.core.policy.verdicts import ALLOWED
from indelible.errors import EffectErased, KeyReused
from tests.core.effects.playing import Played, play
from tests.core.making import NOON, REF, CountingMint, effect, prepared

ORIGINS = (Origin(REF, "run-1", 9), Origin(REF._replace(scope="older"), "run-0", 9))
JUDGED = Judged(ALLOWED, origins=ORIGINS)


def begin(*answers: Any) -> Played:
    return play(walk.begin(prepared(), CountingMint()), *answers, verdicts=[JUDGED])


@pytest.mark.parametrize(
    ("status", "answer"),
    [
        ("succeeded", Replayed),
        ("failed", ReplayedFailure),
        ("denied", Denied),
        ("canceled", Canceled),
        ("in_doubt", InDoubt),
        ("processing", InDoubt),
    ],
)
def test_what_was_made_there_is_answered_from_there(status: str, answer: type) -> None:
    recorded = effect(status, opened_seq=9)
    played = begin(recorded)
    assert played.asked == [Recall(REF)], "nothing is written"
    assert isinstance(played.value, answer)
    assert played.value.effect is recorded


def test_an_older_origin_is_asked_next() -> None:
    played = begin(None, effect("succeeded", opened_seq=9, run_id="run-0"))
    assert [type(request) for request in played.asked] == [Recall, Recall]
    assert isinstance(played.value, Replayed)


def test_what_was_not_made_by_then_goes_the_common_way() -> None:
    claimed = Claimed(Claim(effect("processing"), "t"))
    played = begin(effect("succeeded", opened_seq=10), None, claimed)
    assert [type(request) for request in played.asked] == [Recall, Recall, Submit]
    assert played.value == claimed


def test_a_result_that_was_erased_there_cannot_be_given() -> None:
    played = begin(effect("succeeded", opened_seq=9, detail_json=None, detail_seq=3))
    assert isinstance(played.error, EffectErased)


def test_40_another_call_with_its_key_is_refused() -> None:
    played = begin(effect("succeeded", opened_seq=9, digest="12" * 32))
    assert isinstance(played.error, KeyReused)
    assert played.asked == [Recall(REF)]


@pytest.mark.parametrize("status", ["requires_approval", "ready"])
def test_56_what_was_never_entered_is_not_on_the_record(status: str) -> None:
    claimed = Claimed(Claim(effect("processing"), "t"))
    played = begin(effect(status, opened_seq=9), None, claimed)
    assert [type(request) for request in played.asked] == [Recall, Recall, Submit]
    assert played.value == claimed


def test_47_the_call_that_another_one_was_edited_to_be_is_answered_from_that_one() -> None:
    made = effect("succeeded", opened_seq=9)
    left = taking(made, REF, "eff_9", NOON, 4)
    played = begin(left, made)
    assert played.asked == [Recall(REF), Recall(made.ref)]
    assert played.value == Replayed(made)
    further = effect("succeeded", opened_seq=9, args_json=b'{"amount":7}')
    assert isinstance(begin(left, further).error, KeyReused)
    gone = begin(left, None, None, Claimed(Claim(effect("processing"), "t")))
    assert [type(request) for request in gone.asked] == [Recall, Recall, Recall, Submit]
