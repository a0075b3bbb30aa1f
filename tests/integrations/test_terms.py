"""Which calls are the same, whichever framework makes them, and what one framework reads of what another recorded."""

from __future__ import annotations

from typing import Any

import pytest

from indelible.errors import ApprovalExpired, BadCall, StillRunning
from indelible.integrations.results import plain
from indelible.integrations.terms import Named, Spoken, Terms, asked_again, ordinal_of

SAID = [
    Spoken("c1", "charge", {"order": "a", "amount": 5}),
    Spoken("c2", "charge", {"order": "b", "amount": 5}),
    Spoken("c3", "charge", '{"amount": 5, "order": "a"}'),
    Spoken("c4", "refund", {"order": "a", "amount": 5}),
    Spoken("c1", "charge", "no JSON"),
]


@pytest.mark.parametrize(("call_id", "ordinal"), [("c1", 1), ("c2", 1), ("c3", 2), ("c4", 1), ("c9", None)])
def test_calls_that_say_the_same_are_counted(call_id: str, ordinal: int | None) -> None:
    assert ordinal_of(call_id, SAID) == ordinal


def named(call_id: str, ordinal: int | None) -> Named:
    return Named(tool="charge", args={"order": "a"}, run_id="r", call_id=call_id, ordinal=ordinal)


def test_by_occurrence_ids_do_not_matter_and_counts_do() -> None:
    terms = Terms(None, {"dedupe": "occurrence"})
    first, again, second = (terms.call(named(*one)) for one in (("x", 1), ("y", 1), ("z", 2)))
    assert (first.dedupe, again.dedupe) == ("args", "args")
    assert (second.dedupe, second.call_id) == ("call", "2")
    with pytest.raises(BadCall, match="dedupe='args'"):
        terms.call(named("x", None))


def test_what_tells_calls_apart_is_said_once() -> None:
    with pytest.raises(BadCall, match="apart already"):
        Terms({"charge": {"dedupe": "occurrence", "key": ["order"]}}, {})


TEXT = {"type": "text", "text": "charged"}
MESSAGE = {"$message": {"type": "tool", "data": {"content": "charged"}}}


@pytest.mark.parametrize(
    ("recorded", "gave"),
    [
        ({"call_id": "c1", "gave": MESSAGE}, "charged"),
        (
            {"call_id": "c1", "gave": {"$command": {"update": {"messages": [{"$message": {"data": {"content": 1}}}]}}}},
            1,
        ),
        ({"gave": {"charged": 5}, "is_return": False}, {"charged": 5}),
        ({"gave": {"return_value": "ok", "content": "see"}, "is_return": True}, "ok"),
        ({"gave": 1, "also": 2}, {"gave": 1, "also": 2}),
        ({"gave": {"id": 1}, "actions": {"state_delta": {}}}, {"id": 1}),
        ({"gave": [{"text": "charged"}, {"text": "twice"}]}, "charged\ntwice"),
        ({"gave": [{"json": {"id": 1}}]}, {"id": 1}),
        ({"gave": [{"image": {}}, {"text": "x"}]}, [{"image": {}}, {"text": "x"}]),
        ({"content": [TEXT], "structuredContent": {"id": 1}, "isError": False}, {"id": 1}),
        ({"content": [TEXT, TEXT], "isError": False, "_meta": {}}, "charged\ncharged"),
        ({"content": [TEXT, {"type": "image"}]}, [TEXT, {"type": "image"}]),
        ({"content": [TEXT], "also": 2}, {"content": [TEXT], "also": 2}),
        ({"content": ["a", "b"]}, {"content": ["a", "b"]}),
        ("charged", "charged"),
    ],
)
def test_what_a_tool_gave_is_found_in_what_was_recorded(recorded: Any, gave: Any) -> None:
    assert plain(recorded) == gave


def test_another_worker_is_waited_for_once_and_a_question_that_ended_is_asked_at_once() -> None:
    words: dict[str, Any] = Terms(None, {}).at_once("charge")
    assert asked_again(StillRunning("another is at it"), words)
    assert words == {}, "from now on it waits as the ledger usually does"
    assert not asked_again(StillRunning("it takes too long"), words)
    words = Terms(None, {"wait": 30.0}).at_once("charge")
    assert not asked_again(StillRunning("longer than it was to wait"), words)
    assert asked_again(ApprovalExpired("nobody decided", approval=None), words)  # type: ignore[arg-type]
    assert words == {"wait": False}
    assert not asked_again(BadCall("no"), words)
