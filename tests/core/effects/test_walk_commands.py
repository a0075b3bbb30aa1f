"""Commands about a known effect: carried out, or refused with the reason."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from indelible.core.commands import Cancel, Illegal, NoSuchEffect
from indelible.core.effects import outcomes, walk
from indelible.core.effects.effect import Effect, Failed, Succeeded
from indelible.core.values.canonical import decode
from indelible.errors import BadCall, IllegalMove, NotRecordable, UnknownEffect
from tests.core.effects.playing import CLAIMED, DOUBTFUL, MOVED, play
from tests.core.making import ADA, REF, CountingMint, effect, stamp


def settling() -> Generator[Any, Any, Effect]:
    return walk.settle(DOUBTFUL, Succeeded(1), CountingMint(), actor=ADA, evidence="receipt 7")


def test_settling_says_what_who_and_how_they_know() -> None:
    played = play(settling(), MOVED)
    (command,) = played.commands
    assert (command.status, command.detail_json, command.evidence_json) == ("succeeded", b"1", b'"receipt 7"')
    assert command.stamp.actor == ADA
    assert played.asked[0].known is DOUBTFUL
    assert played.value is MOVED.effect


def test_a_value_that_cannot_be_recorded_is_refused_before_anything_is_written() -> None:
    played = play(walk.settle(DOUBTFUL, Succeeded(object()), CountingMint(), actor=ADA, evidence="e"))
    assert isinstance(played.error, NotRecordable)
    assert not played.asked


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (Illegal(effect("succeeded"), "cannot be settled: it is succeeded"), IllegalMove),
        (NoSuchEffect(REF), UnknownEffect),
        (CLAIMED, AssertionError),
    ],
)
def test_a_command_that_is_not_carried_out_says_why(answer: Any, kind: type[Exception]) -> None:
    assert isinstance(play(settling(), answer).error, kind)


def test_an_illegal_move_names_the_effect_and_its_state() -> None:
    cancel = Cancel(ref=REF, stamp=stamp(actor=ADA), detail_json=b'"x"')
    done = effect("succeeded")
    error = play(walk.carry_out(cancel, DOUBTFUL), Illegal(done, "cannot be canceled: it is succeeded")).error
    assert isinstance(error, IllegalMove)
    assert error.effect is done
    assert str(error) == "pay: eff_1 cannot be canceled: it is succeeded"


def test_a_failure_is_recorded_with_message_and_class() -> None:
    assert decode(outcomes.outcome_json(Failed("no \ud800"))) == {"message": "no \\ud800", "type": "Error"}


@pytest.mark.parametrize("words", [(object(),), (b"no",), ("no", 7)])
def test_a_failure_that_is_told_by_no_text_is_refused(words: Any) -> None:
    with pytest.raises(BadCall):
        outcomes.outcome_json(Failed(*words))
