"""What was done elsewhere is recorded as it ended, and nothing is asked about it."""

from __future__ import annotations

import pytest

from indelible.core.commands import Adopt, Illegal, Moved
from indelible.core.effects.adopting import adopt
from indelible.core.effects.effect import Failed, Outcome, Succeeded
from indelible.core.effects.requests import Submit
from indelible.errors import BadCall, IllegalMove
from tests.core.making import CountingMint, effect, prepared


@pytest.mark.parametrize(
    ("outcome", "status", "detail"),
    [(Succeeded(7), "succeeded", b"7"), (Failed("no", "X"), "failed", b'{"message":"no","type":"X"}')],
)
def test_54_a_call_that_was_made_elsewhere_is_one_command_and_no_question(
    outcome: Outcome, status: str, detail: bytes
) -> None:
    walk = adopt(prepared(), outcome, CountingMint(), {"ledger": "locus"})
    asked = next(walk)
    assert isinstance(asked, Submit)
    assert isinstance(asked.command, Adopt)
    taken = asked.command.effect
    assert (taken.status, taken.detail_json, taken.attempt) == (status, detail, 1)
    assert (taken.ref, taken.args_json) == (prepared().identity.ref, prepared().identity.args_json)
    with pytest.raises(StopIteration) as end:
        walk.send(Moved(taken))
    assert end.value.value is taken


def test_54_what_stands_otherwise_here_is_told() -> None:
    walk = adopt(prepared(), Succeeded(7), CountingMint(), {})
    next(walk)
    with pytest.raises(IllegalMove):
        walk.send(Illegal(effect("denied"), "is here already"))


def test_54_what_has_no_recorded_form_is_refused_before_anything_is_written() -> None:
    with pytest.raises(BadCall):
        next(adopt(prepared(), Succeeded(object()), CountingMint(), {}))
