"""The chain check: whatever is done to a record, the first bad entry is named."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indelible import Event, Ledger, ToolCall
from indelible.core.events import NO_EVENTS, Head, event_hash
from indelible.core.journal.chain import Broken, Intact, altered_payloads, check_chain


@cache
def record() -> list[Event]:
    """Ten events as the ledger writes them."""
    with Ledger.open(":memory:") as ledger:
        for number in range(5):
            ledger.run(ToolCall(tool="count", args={"n": number}, run_id="r"), lambda effect: effect.args["n"])
        return ledger.events("r")


PLACES = st.integers(0, 9)


def test_a_record_as_it_was_written_is_intact() -> None:
    assert check_chain(record(), "r") == Intact(10, Head(10, record()[-1].hash))
    assert check_chain([], "r") == Intact(0, NO_EVENTS)


@given(PLACES, st.data())
def test_a_changed_byte_is_found_where_it_is(at: int, data: st.DataObject) -> None:
    event = record()[at]
    place = data.draw(st.integers(0, len(event.body) - 1))
    byte = event.body[place] ^ data.draw(st.integers(1, 255))
    body = event.body[:place] + bytes([byte]) + event.body[place + 1 :]
    changed = [*record()[:at], replace(event, body=body), *record()[at + 1 :]]
    assert check_chain(changed, "r") == Broken(at, at, "its content is not what its hash says")


@given(PLACES)
def test_a_changed_event_with_its_hash_recomputed_is_found_at_the_next(at: int) -> None:
    body = record()[at].body.replace(b'"attempt":1', b'"attempt":2')
    changed = [*record()[:at], replace(record()[at], body=body, hash=event_hash(body)), *record()[at + 1 :]]
    verdict = check_chain(changed, "r")
    if at == len(record()) - 1:  # there is no next: only a head kept elsewhere tells
        assert isinstance(verdict, Intact)
        assert verdict.head.hash != record()[-1].hash
    else:
        assert verdict == Broken(at + 1, at + 1, "it does not name the hash of the event before")


@given(st.permutations(range(10)))
def test_another_order_is_found(numbers: list[int]) -> None:
    order = [record()[number] for number in numbers]
    first = next((at for at, event in enumerate(order) if event.seq != at), None)
    verdict = check_chain(order, "r")
    assert isinstance(verdict, Intact) if first is None else isinstance(verdict, Broken) and verdict.seq == first


@given(PLACES)
def test_a_missing_event_is_named(at: int) -> None:
    verdict = check_chain([*record()[:at], *record()[at + 1 :]], "r")
    if at == len(record()) - 1:
        assert verdict == Intact(at, Head(at, record()[-2].hash))
    else:
        assert verdict == Broken(at, at, f"event {at} is missing")


@given(PLACES)
def test_a_doubled_event_is_named(at: int) -> None:
    assert check_chain([*record()[: at + 1], *record()[at:]], "r") == Broken(at + 1, at + 1, f"event {at} comes twice")


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"1", b'{"prev":"x"}', b"\xff"])
def test_a_body_that_is_no_record_is_found_though_its_hash_fits(body: bytes) -> None:
    changed = [replace(record()[0], body=body, hash=event_hash(body)), *record()[1:]]
    verdict = check_chain(changed, "r")
    assert isinstance(verdict, Broken)
    assert verdict.seq == 0


def test_an_event_of_another_run_does_not_pass() -> None:
    assert isinstance(check_chain(record(), "other"), Broken)


def test_a_payload_that_is_not_the_committed_one_is_named() -> None:
    with Ledger.open(":memory:") as ledger:
        ledger.run(ToolCall(tool="count", args={"n": 1}, run_id="r"), lambda effect: "result")
        opened, finished = ledger.events("r")
        args, key = ledger._engine.store.payloads("default", "r", [0])
        (result,) = ledger._engine.store.payloads("default", "r", [1])
    assert altered_payloads(opened, [args, key, result]) == [], "payloads of other events do not matter"
    assert altered_payloads(opened, []) == [], "what was erased is not altered"
    assert altered_payloads(opened, [args._replace(value=b'{"n":2}'), key]) == ["args"]
    assert altered_payloads(opened, [args, key._replace(salt=bytes(32))]) == ["key"]
    assert altered_payloads(finished, [result._replace(field="error")]) == ["error"], "never committed to"
