"""What the function gets that makes an effect good: the effect, without marks that could be taken for values."""

from __future__ import annotations

from typing import Any

import pytest

from indelible.core.effects.compensations import NotRecorded, Undone
from indelible.core.effects.effect import Succeeded
from indelible.core.values.canonical import encode
from indelible.core.values.tags import Redacted
from indelible.errors import BadCall
from tests.core.making import effect

MARK = Redacted("0" * 64)
ARGS: dict[str, Any] = {"cents": 5, "to": MARK, "lines": [1, MARK], "order": {"id": "o", "iban": MARK}}


def test_96_each_mark_raises_where_it_is_used_as_a_value_and_the_rest_is_as_recorded() -> None:
    recorded = effect("succeeded", args_json=encode(ARGS), detail_json=encode({"id": "ch_1", "token": MARK}))
    undone = Undone.of(recorded)
    assert (undone.id, undone.ref, undone.args["cents"], undone.args["order"]["id"]) == (
        recorded.id,
        recorded.ref,
        5,
        "o",
    )
    marked = [undone.args["to"], undone.args["lines"][1], undone.args["order"]["iban"], undone.detail["token"]]
    assert undone.args["lines"][0] == 1
    for one, place in zip(marked, ["args.to", "args.lines[1]", "args.order.iban", "result.token"], strict=True):
        assert isinstance(one, NotRecorded)
        assert place in repr(one)
        with pytest.raises(BadCall):
            f"account={one}"
    assert isinstance(undone.outcome, Succeeded)
    assert undone.outcome.value["id"] == "ch_1"


def test_96_an_object_whose_names_hold_marks_and_a_mark_as_its_json_tells_it_are_no_values() -> None:
    forged = str(MARK)
    args = {"by_mail": {f"{forged}": 1}, "told": {"plain": {"x": 1}}}
    undone = Undone.of(effect("succeeded", args_json=encode(args)))
    assert isinstance(undone.args["by_mail"], NotRecorded)
    assert undone.args["told"] == {"plain": {"x": 1}}
