"""What a dump leaves out of a value, and where."""

from __future__ import annotations

import operator
from collections import deque
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

import pytest
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, RootModel, computed_field

from indelible.core.values.canonical import encode
from indelible.core.values.left_out import INSIDE, left_out, moved_fields, sort_sets
from indelible.errors import NotRecordable


class Item(BaseModel):
    model_config = ConfigDict(extra="allow")

    id: str = Field(default="1", alias="itemId")
    amount: int = Field(default=5, validation_alias=AliasChoices("cents", "amount"))


@dataclass
class Line:
    item: Any


@pytest.mark.parametrize(
    ("value", "shown", "place"),
    [
        (5, 5, None),
        (5, 6, "args"),
        (Item(), {"id": "1", "amount": 5}, None),
        (Item(), {"itemId": "1", "cents": 5}, None),
        (Item(), {"id": "1"}, "args.amount"),
        (Item(), "item", "args.id"),
        (Item(more=1), {"id": "1", "amount": 5}, "args.more"),  # type: ignore[call-arg]
        (RootModel[list[int]]([1]), [1], None),
        (Line(Item()), {"item": {"id": "1", "amount": 6}}, "args.item.amount"),
        (Line(5), {}, "args.item"),
        ({"a": 1}, {"a": 1}, None),
        ({"a": 1}, {}, "args.a"),
        ({"a": 1}, 5, "args.a"),
        ([1, 2], [1, 3], "args.1"),
        ((1, 2), [1], "args.0"),
        ([1], {"0": 1}, "args.0"),
        ({1}, [1], None),
        ({1}, {1}, None),
        (frozenset({1}), {2}, "args"),
    ],
)
def test_38_what_a_dump_does_not_hold_has_a_place(value: Any, shown: Any, place: str | None) -> None:
    assert left_out(value, shown, "args", operator.eq) == place


class Hiding(BaseModel):
    amount: int = Field(default=5000, exclude=True)


class Around(BaseModel):
    lines: list[Hiding]


def test_38_a_model_is_an_argument_only_with_all_of_its_fields() -> None:
    assert encode(Around(lines=[Hiding()])) == b'{"lines":[{}]}', "a result is recorded as it dumps itself"
    with pytest.raises(NotRecordable) as refused:
        encode({"order": Around(lines=[Hiding()])}, root="args", is_whole=True)
    assert refused.value.path == "args.order"
    assert "Around.lines.0.amount" in refused.value.why
    assert encode({"order": Item()}, is_whole=True) == encode({"order": {"id": "1", "amount": 5}})


class Sets(BaseModel):
    one: set[int] = Field(default=set(), alias="first")
    no: set[int] = Field(default=set(), exclude=True)


@pytest.mark.parametrize(
    ("value", "shown", "sorted_"),
    [
        ({1, 2}, [2, 1], [1, 2]),
        (frozenset({1, 2}), {2, 1}, {1, 2}),
        ([2, 1], [2, 1], [2, 1]),
        (5, 5, 5),
        (Sets(first={1, 2}), {"first": [2, 1]}, {"first": [1, 2]}),
        (RootModel[set[int]]({1, 2}), [2, 1], [1, 2]),
        (Line({"a": deque([{1, 2}])}), {"item": {"a": [[2, 1]]}}, {"item": {"a": [[1, 2]]}}),
        # Inner sets first: by them the outer one is sorted. A set is dumped in the order in which it is iterated.
        (dict.fromkeys("a", frozenset({frozenset({1, 2})})), {"a": [[2, 1]]}, {"a": [[1, 2]]}),
    ],
)
def test_38_what_stands_for_a_set_has_one_order(value: Any, shown: Any, sorted_: Any) -> None:
    sort_sets(value, shown)
    assert shown == sorted_


class Pair(NamedTuple):
    x: Any
    y: Any


class Row(BaseModel):
    own: int
    hidden: int = Field(default=2, exclude=True)
    pair: Pair = Pair(1, 2)


class Rows(RootModel[list[Row]]):
    """Is recorded as its list."""


@dataclass
class Box:
    inside: Any


class Color(str, Enum):  # noqa: UP042 (its members have hashes of their own)
    RED = "red"


class Kept(Enum):
    PAIR = Pair(1, 2)


class Told(BaseModel):
    own: int = 1

    @computed_field  # type: ignore[prop-decorator]
    @property
    def sub(self) -> Any:
        return Pair(1, Box(2))


@pytest.mark.parametrize(
    ("value", "recorded", "moved"),
    [
        ("text", "text", {}),
        (Kept.PAIR, [1, 2], {(): {"x": 0, "y": 1}}),
        ([Kept.PAIR], "written", {(): {"[]": INSIDE, "x": INSIDE, "y": INSIDE}}),
        (Told(), {"own": 1, "sub": [1, {"inside": 2}]}, {("sub",): {"x": 0, "y": 1}}),
        (Told(), {"own": 1, "sub": [1, {"other": 2}]}, {("sub",): {"x": 0, "y": 1}, ("sub", 1): {"inside": None}}),
        ((1, [2]), [1, [2]], {}),
        ((1, 2), "other", {(): {"[]": INSIDE}}),
        (Pair(1, Pair(2, 3)), [1, [2, 3]], {(): {"x": 0, "y": 1}, (1,): {"x": 0, "y": 1}}),
        ({Color.RED: Pair(1, 2)}, {"red": [1, 2]}, {("red",): {"x": 0, "y": 1}}),
        ({"a": 1}, {}, {(): {"a": None}}),
        ({1: Pair(1, 2)}, {"1": [1, 2]}, {("1",): {"x": 0, "y": 1}}),
        (Row(own=1), {"own": 1, "pair": [1, 2]}, {("pair",): {"x": 0, "y": 1}}),
        (Row(own=1), {"other": 1, "pair": [1, 2]}, {(): {"own": None}, ("pair",): {"x": 0, "y": 1}}),
        (Row(own=1), "written", {(): {"own": None, "pair": None, "[]": INSIDE, "x": INSIDE, "y": INSIDE}}),
        (
            Rows([Row(own=1, pair=Pair(1, 2))]),
            [{"own": 1}],
            {(0,): {"pair": None, "[]": INSIDE, "x": INSIDE, "y": INSIDE}},
        ),
        (Box(Pair(1, 2)), {"inside": [1, 2]}, {("inside",): {"x": 0, "y": 1}}),
        (Item(more=Pair(1, 2)), {"id": 1, "amount": 2, "more": [1, 2]}, {("more",): {"x": 0, "y": 1}}),  # type: ignore[call-arg]
        (Row.model_construct(), {}, {(): {"pair": None, "[]": INSIDE, "x": INSIDE, "y": INSIDE}}),
        (set(), [], {}),
        # What is inside of a moved field has its names too, at any depth.
        ({"a": Box([Pair(1, 2)])}, {}, {(): {"a": None, "inside": INSIDE, "[]": INSIDE, "x": INSIDE, "y": INSIDE}}),
        ({"a": {"a": 1}}, {}, {(): {"a": None}}),
        ([Box(Rows([]))], {"b": 1}, {(): {"[]": INSIDE, "inside": INSIDE}}),
        (Rows([Row(own=1)]), "other", {(): {"[]": INSIDE, "own": INSIDE, "pair": INSIDE, "x": INSIDE, "y": INSIDE}}),
        (deque([Pair(1, 2)]), [[1, 2]], {(0,): {"x": 0, "y": 1}}),
        ({Pair(1, 2), Pair(3, 4)}, [[3, 4], [1, 2]], {(0,): {"x": 0, "y": 1}, (1,): {"x": 0, "y": 1}}),
        ({"a": None}, {}, {}),
    ],
)
def test_95_fields_that_are_not_recorded_under_their_names_are_found(value: Any, recorded: Any, moved: Any) -> None:
    assert moved_fields(value, recorded) == moved


def test_95_an_object_that_holds_itself_has_its_names_once() -> None:
    box = Box(None)
    box.inside = [box]
    assert moved_fields(box, "written") == {(): {"inside": None, "[]": INSIDE}}
