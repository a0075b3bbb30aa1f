"""Promises of core.remote.wire: what is sent arrives as it was, and what nobody of ours would send is refused."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indelible.core.approvals.approval import Question
from indelible.core.commands import Answer, Command
from indelible.core.effects.effect import Actor
from indelible.core.effects.identity import Ref
from indelible.core.journal.journal import Tree
from indelible.core.policy.verdicts import Charge
from indelible.core.ports import Filter
from indelible.core.privacy.forgetting import Prunable
from indelible.core.remote.questions import APPLY, QUESTIONS
from indelible.core.remote.wire import KIND, from_wire, to_wire
from indelible.errors import BadCall
from tests.core.crossing import ANSWERS, COMMANDS, crossed, everything, of_runs, one_of_each, overheard
from tests.core.making import NOON, REF, charge


@dataclass(frozen=True)
class Leaf:
    """Is a record that holds one of its own kind."""

    number: int
    next: Leaf | None = None
    mark: str = field(default="", compare=False)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.just("\ud800"),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
# One of each type there is in JSON.
OTHERS: tuple[Any, ...] = (None, True, 7, 1.5, "text", [], {}, [[]], {KIND: "Nobody"})


# There and back


def test_an_example_of_every_command_and_of_every_answer_is_at_hand() -> None:
    """Whoever adds one adds an example of it: without that, nothing here says anything about it."""
    commands, answers = everything()
    assert {type(command) for command in commands} == set(COMMANDS)
    assert {type(answer) for answer in answers} == set(ANSWERS)


@settings(max_examples=8)
@given(st.integers(0, 1 << 32))
def test_every_command_and_every_answer_arrives_as_it_was_sent(seed: int) -> None:
    for commands, answers in (overheard.__wrapped__(seed), of_runs()):
        assert crossed(tuple[Command, ...], commands) == tuple(commands)
        assert crossed(list[Answer], answers) == answers


@pytest.mark.parametrize(
    ("kind", "value", "written"),
    [
        (bool, True, True),
        (int, 2**53 - 1, 2**53 - 1),
        (str, "ü\0🎁", "ü\0🎁"),
        (bytes, b"\0\xff\xfe", "AP/+"),
        (bytes, b"", ""),
        (datetime, NOON, "2030-01-02T12:00:00+00:00"),
        (datetime, NOON.replace(microsecond=1), "2030-01-02T12:00:00.000001+00:00"),
        (timedelta, timedelta(days=1, microseconds=-1), 86_399_999_999),
        (timedelta, timedelta.max, 86_399_999_999_999_999_999),
        (timedelta, timedelta.min, -86_399_999_913_600_000_000),
        (Decimal, Decimal("0.10"), "0.10"),
        (Decimal, Decimal("1E+99"), "1E+99"),
        (str | None, None, None),
        (int | None, 3, 3),
        (Literal["a", "b"], "b", "b"),
        (tuple[str, int], ("a", 1), ["a", 1]),
        (tuple[int, ...], (1, 2), [1, 2]),
        (list[int], [], []),
        (Sequence[str], ["a"], ["a"]),
        (Mapping[str, int], {"a": 1}, {"a": 1}),
        (Ref, REF, ["default", "run-1", "ab" * 32]),
        (list[tuple[str, int, str]], [("a", 1, "b")], [["a", 1, "b"]]),
        (list[Prunable], [Prunable("eff_1", "run-1", 3)], [["eff_1", "run-1", 3]]),
        (Tree | None, None, None),
        (Any, {"a": [1.5]}, {"a": [1.5]}),
        (Leaf, Leaf(1, Leaf(2)), {KIND: "Leaf", "number": 1, "next": {KIND: "Leaf", "number": 2, "next": None}}),
    ],
)
def test_a_value_is_written_in_one_way_and_read_back_as_it_was(kind: Any, value: Any, written: Any) -> None:
    assert to_wire(value) == written
    assert crossed(kind, value) == value
    assert type(crossed(kind, value)) is type(value)


def test_instants_are_sent_in_utc_and_may_come_from_any_zone() -> None:
    elsewhere = NOON.astimezone(timezone(timedelta(hours=5, minutes=45)))
    assert to_wire(elsewhere) == to_wire(NOON)
    read = from_wire(datetime, "2030-01-02T17:45:00+05:45")
    assert (read, read.tzinfo) == (NOON, UTC)


def test_what_does_not_count_in_comparing_stays_at_home() -> None:
    """It belongs to one process alone, such as where a grant was read."""
    assert to_wire(Leaf(1, mark="mine")) == to_wire(Leaf(1))
    with pytest.raises(BadCall, match=r"body\.mark: a Leaf has no such member"):
        from_wire(Leaf, {KIND: "Leaf", "number": 1, "mark": "theirs"})


def test_sets_are_sent_as_lists() -> None:
    assert sorted(to_wire(frozenset({1, 2}))) == [1, 2]


@pytest.mark.parametrize("value", [object(), 1j, [object()], {"a": object()}])
def test_what_has_no_form_on_the_wire_is_not_sent(value: Any) -> None:
    with pytest.raises(BadCall, match="does not go over the wire"):
        to_wire(value)


@pytest.mark.parametrize("kind", [float, complex, set[int], dict])
def test_a_type_that_has_no_form_on_the_wire_is_a_mistake_of_ours(kind: Any) -> None:
    with pytest.raises(TypeError, match="does not go over the wire"):
        from_wire(kind, 1)


def test_types_that_cannot_be_told_apart_are_a_mistake_of_ours() -> None:
    with pytest.raises(AssertionError, match="told apart"):
        from_wire(int | str, 1)


@pytest.mark.parametrize("name", ["apply", *QUESTIONS])
def test_every_question_and_its_answer_can_be_read(name: str) -> None:
    question = APPLY if name == "apply" else QUESTIONS[name]
    for kind in (*question.words.values(), question.answer):
        with pytest.raises(BadCall, match=r"^body"):
            from_wire(kind, {"no": "such thing"})


# Refusing


@pytest.mark.parametrize(
    ("kind", "value", "place", "wanted"),
    [
        (bool, 1, "body", "true or false"),
        (int, True, "body", "a whole number"),
        (int, 1.0, "body", "a whole number"),
        (int, "1", "body", "a whole number"),
        (int, 2**53, "body", "a whole number"),
        (int, -(2**53), "body", "a whole number"),
        (str, None, "body", "text"),
        (str, "\ud800", "body", "text without lone surrogates"),
        (bytes, "no base64!", "body", "base64"),
        (bytes, "QQ", "body", "base64"),
        (bytes, "ü", "body", "base64"),
        (bytes, 5, "body", "base64"),
        (bytes, [1], "body", "base64"),
        (datetime, "2030-01-02T12:00:00", "body", "an instant with its time zone"),
        (datetime, "yesterday", "body", "an instant with its time zone"),
        (datetime, 1893585600, "body", "an instant with its time zone"),
        (datetime, "0001-01-01T00:00:00+10:00", "body", "an instant with its time zone"),
        (timedelta, 1.5, "body", "a whole number of microseconds"),
        (timedelta, True, "body", "a whole number of microseconds"),
        (timedelta, 10**30, "body", "a whole number of microseconds"),
        (timedelta, -86_399_999_913_600_000_001, "body", "a whole number of microseconds"),
        (Decimal, "many", "body", "an amount"),
        (Decimal, 1, "body", "text"),
        (Decimal, "1e99999999999999999999", "body", "an amount"),
        (type(None), 0, "body", "null"),
        (Literal["a", "b"], "c", "body", "one of a, b"),
        (Literal["a", "b"], ["a"], "body", "one of a, b"),
        (tuple[str, int], ["a"], "body", "a list of 2"),
        (tuple[str, int], "ab", "body", "a list of 2"),
        (tuple[str, int], ["a", "b"], "body[1]", "a whole number"),
        (list[int], {"0": 1}, "body", "a list"),
        (list[int], [1, None], "body[1]", "a whole number"),
        (Mapping[str, int], [1], "body", "an object"),
        (Mapping[str, int], {"a": "b"}, "body.a", "a whole number"),
        (Mapping[str, int], {"\ud800": 1}, "body", "text without lone surrogates"),
        (Ref, ["a", "b"], "body", "a list of 3"),
        (Actor, None, "body", "an object with is=Actor"),
        (Actor, {"id": "ada"}, "body", "an object with is=Actor"),
        (Actor | Charge, "ada", "body", "an object"),
        (Actor | Charge, None, "body", "an object"),
        (Actor | Charge, {"id": "ada"}, "body.is", "one of Actor, Charge"),
        (Actor | Charge, {KIND: ["Actor"]}, "body.is", "one of Actor, Charge"),
        (Actor | None, {KIND: "Claim"}, "body.is", "one of Actor"),
        (int | None, "three", "body", "a whole number"),
    ],
)
def test_what_is_wrong_is_refused_with_its_place(kind: Any, value: Any, place: str, wanted: str) -> None:
    with pytest.raises(BadCall) as refused:
        from_wire(kind, value)
    assert str(refused.value) == f"{place}: {wanted} is expected here"


def test_what_is_missing_or_unknown_is_named() -> None:
    with pytest.raises(BadCall, match=r"^body\.id: is missing$"):
        from_wire(Actor, {KIND: "Actor", "kind": "person"})
    with pytest.raises(BadCall, match=r"^body\.is_admin: a Actor has no such member$"):
        from_wire(Actor, {KIND: "Actor", "id": "ada", "is_admin": True})


def test_what_has_a_default_may_be_left_out() -> None:
    """So a newer side can ask an older one."""
    assert from_wire(Filter, {KIND: "Filter"}) == Filter()
    assert from_wire(Actor, {KIND: "Actor", "id": "ada"}) == Actor("ada")


@pytest.mark.parametrize(
    ("kind", "value", "place"),
    [
        (Actor, to_wire(Actor("ada")) | {"id": ""}, "body"),
        (Actor | None, to_wire(Actor("ada")) | {"id": "a\0"}, "body"),
        (list[Charge], [to_wire(charge()) | {"amount": "-1"}], "body[0]"),
        (list[Charge], [to_wire(charge()) | {"amount": "sNaN"}], "body[0]"),
        (list[Charge], [to_wire(charge()) | {"limit": "1e1000"}], "body[0]"),
        (Question, to_wire(Question(rule="r")) | {"expires": 0}, "body"),
    ],
)
def test_a_record_that_cannot_be_is_refused_with_its_place(kind: Any, value: Any, place: str) -> None:
    with pytest.raises(BadCall) as refused:
        from_wire(kind, value)
    assert str(refused.value).startswith(f"{place}: ")


# Strangers


def _places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Lists where something is inside of a JSON value."""
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, held in members:
        yield (*at, name)
        yield from _places(held, (*at, name))


def _mutated(draw: Any, sent: Any) -> Any:
    """Changes one thing: drops a member, adds one, or puts something of another type in its place."""
    changed = copy.deepcopy(sent)
    *way, last = draw(st.sampled_from(sorted(_places(sent), key=repr)))
    holder = changed
    for name in way:
        holder = holder[name]
    act = draw(st.sampled_from(["drop", "add", "change"]))
    if act == "drop":
        del holder[last]
    elif act == "change":
        holder[last] = draw(st.sampled_from([other for other in OTHERS if type(other) is not type(holder[last])]))
    elif isinstance(holder, dict):
        holder[draw(st.text(max_size=5))] = draw(st.sampled_from(OTHERS))
    else:
        holder.insert(last, draw(st.sampled_from(OTHERS)))
    return changed


def _says_all_of(said: Any, told: Any) -> bool:
    """Is everything that was told also said, and nothing of it as something else? More may be said: the defaults."""
    if isinstance(told, dict) and isinstance(said, dict):
        return all(name in said and _says_all_of(said[name], each) for name, each in told.items())
    if isinstance(told, list) and isinstance(said, list):
        return len(said) == len(told) and all(map(_says_all_of, said, told))
    return json.dumps(said) == json.dumps(told)


def _read(kind: Any, value: Any) -> tuple[Any, str]:
    """Gives what is read, or why it is not."""
    try:
        return from_wire(kind, value), ""
    except BadCall as refused:
        return None, str(refused)


@settings(max_examples=300)
@given(st.data())
def test_whatever_is_changed_on_the_way_is_read_as_it_says_or_refused_with_its_place(data: st.DataObject) -> None:
    """Nothing is guessed: what was dropped has its default or is missed, and what was added is never passed over."""
    kinds = data.draw(st.sampled_from([COMMANDS, ANSWERS]))
    kind = data.draw(st.sampled_from(kinds))
    union: Any = Command if kinds is COMMANDS else Answer
    changed = json.loads(json.dumps(_mutated(data.draw, to_wire(one_of_each(kinds)[kind]))))
    read, why_not = _read(union, changed)
    assert why_not.startswith("body") or _says_all_of(to_wire(read), changed)


@settings(max_examples=300)
@given(JSON, st.sampled_from([*COMMANDS, *ANSWERS, Command, Answer]))
def test_any_json_is_refused_with_its_place_and_nothing_else_goes_wrong(value: Any, kind: Any) -> None:
    sent = [value, {KIND: getattr(kind, "__name__", "Open")} | (value if isinstance(value, dict) else {"ref": value})]
    for each in sent:
        with pytest.raises(BadCall, match=r"^body"):
            from_wire(kind, each)


def test_members_are_read_by_their_own_types_in_every_place() -> None:
    """Each member of each example, with every other type put in its place: what is refused says where."""
    tried = 0
    for kinds, union in ((COMMANDS, Command), (ANSWERS, Answer)):
        for example in one_of_each(kinds).values():
            sent = to_wire(example)
            for name, other in ((name, other) for name in sent if name != KIND for other in OTHERS):
                changed = {**sent, name: other}
                tried += 1
                read, why_not = _read(union, changed)
                assert why_not.startswith((f"body.{name}", "body: ")) or _says_all_of(to_wire(read), changed)
    assert tried > 1000
