"""Values are those that were committed to; those that are not there are explained."""

from __future__ import annotations

from typing import Any

import pytest

from indelible.core.events import commitment
from indelible.core.verifying.findings import Caught, Payloads
from indelible.core.verifying.payloads import Disclosed, PayloadTally

SALT = b"s" * 32
ARGS = Disclosed(0, "args", SALT, b"{}")
COMMITS = {"args": commitment(SALT, "args", b"{}"), "key": commitment(SALT, "key", b"k" * 32)}


def tally(*, keeps_absent: bool = True) -> PayloadTally:
    made = PayloadTally(keeps_absent=keeps_absent)
    made.take("run", 0, COMMITS, {"args": ARGS})
    return made


def erased(*fields: str, seq: int = 0) -> dict[str, Any]:
    return {"basis": "request", "erased": [{"fields": list(fields), "seq": seq}]}


def test_a_value_that_was_not_committed_to_is_caught() -> None:
    for shown, why in (
        ({"args": ARGS._replace(value=b"[]")}, "not the value"),
        ({"args": ARGS._replace(salt=b"x" * 32)}, "not the value"),
        ({"args": ARGS._replace(salt=b"x")}, "another length"),
        ({"reason": ARGS}, "does not commit to"),
    ):
        with pytest.raises(Caught, match=why):
            PayloadTally(keeps_absent=True).take("run", 0, COMMITS, shown)


def test_a_value_that_an_event_erased_is_explained() -> None:
    made = tally()
    made.take("run", 1, COMMITS, {})
    assert made.runs_lacking() == {"run"}
    made.erase("run", erased("key", "other"))
    made.erase("run", erased("args", seq=1))
    made.erase("run", erased("key", seq=1))
    made.erase("run", erased("key", seq=7))
    assert made.runs_lacking() == set()
    assert made.close(0, must_be_whole=True) == Payloads(1, 3, 0, 0)


def test_a_value_that_nobody_explains_is_missing() -> None:
    with pytest.raises(Caught, match="its key is missing") as caught:
        tally().close(0, must_be_whole=True)
    assert (caught.value.flaw.run, caught.value.flaw.seq) == ("run", 0)
    assert tally().close(0, must_be_whole=False) == Payloads(1, 0, 0, 1)
    assert tally().close(1, must_be_whole=False) == Payloads(1, 0, 1, 0)
    assert tally().close(None, must_be_whole=True) == Payloads(1, 0, 1, 0)


def test_more_cannot_be_withheld_than_is_absent() -> None:
    for keeps in (True, False):
        with pytest.raises(Caught, match="more values are said to be withheld"):
            tally(keeps_absent=keeps).close(2, must_be_whole=True)


def test_numbers_are_enough_where_values_were_withheld() -> None:
    made = tally(keeps_absent=False)
    made.count_absent(2)
    made.erase("run", erased("args", "key", seq=4))
    assert made.close(None, must_be_whole=True) == Payloads(1, 2, 1, 0)
    assert made.close(1, must_be_whole=True) == Payloads(1, 2, 1, 0)
    assert made.close(2, must_be_whole=True) == Payloads(1, 1, 2, 0)
    with pytest.raises(Caught, match="no event erased and nobody withheld"):
        made.close(0, must_be_whole=True)


@pytest.mark.parametrize(
    "facts",
    [
        {"basis": "request"},
        {"basis": "whim", "erased": []},
        {"basis": "request", "erased": {}},
        {"basis": "request", "erased": [1]},
        {"basis": "request", "erased": [{"fields": ["args"]}]},
        {"basis": "request", "erased": [{"fields": "args", "seq": 1}]},
        {"basis": "request", "erased": [{"fields": [["args"]], "seq": 1}]},
        {"basis": "request", "erased": [{"fields": ["args"], "seq": [1]}]},
        {"basis": "request", "erased": [{"fields": ["args"], "seq": True}]},
    ],
)
def test_an_erasure_says_what_went(facts: dict[str, Any]) -> None:
    with pytest.raises(Caught, match="payload_erased"):
        tally().erase("run", facts)
