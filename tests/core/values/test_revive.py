"""Promises of core.values.revive: a recorded argument gets back the type that the signature asks for, or stays."""

from __future__ import annotations

import enum
import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Optional, TypedDict, Union

import pytest
from pydantic import AnyUrl, BaseModel, ConfigDict, Field, RootModel, SecretStr, computed_field, field_serializer

from indelible.core.values.canonical import decode, encode
from indelible.core.values.revive import (
    Unresolved,
    hints_of,
    holds_objects,
    is_read_otherwise,
    is_what_was_said,
    leads_to,
    plainly,
    revive,
)


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


class Corner(enum.Enum):
    TOP = (0, 1)


@dataclass(frozen=True)
class Address:
    city: str
    colour: Colour = Colour.RED


@dataclass(frozen=True)
class Order:
    to: Address
    others: tuple[Address, ...] = ()


class Item(BaseModel):
    sku: str
    count: int = 1


class Aliased(BaseModel):
    order_id: int = Field(alias="orderId")


class Point(NamedTuple):
    x: int


class Carried(TypedDict):
    item: Item


class Sizes(TypedDict):
    small: int


def there_and_back(value: Any, hint: Any) -> Any:
    return revive(decode(encode(value)), hint)


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        (Colour.RED, Colour),
        (Level.LOW, Level),
        (Address("Rome"), Address),
        (Order(Address("Rome"), (Address("Oslo"),)), Order),
        (Item(sku="a"), Item),
        (5.0, float),
        ((1, 2), tuple),
        ((1, Colour.RED), tuple[int, Colour]),
        ((Colour.RED, Colour.RED), tuple[Colour, ...]),
        ((), tuple[Colour, ...]),
        ([Colour.RED], list[Colour]),
        ([Item(sku="a")], Sequence[Item]),
        ({"a": Colour.RED}, dict[str, Colour]),
        ({"a": [Item(sku="a")]}, Mapping[str, list[Item]]),
        (Colour.RED, Annotated[Colour, "documented"]),
        (Colour.RED, Optional[Colour]),  # noqa: UP045
        (None, Optional[Colour]),  # noqa: UP045
        (Item(sku="a"), Item | None),
        (Address("Rome"), Union[Item, Address]),  # noqa: UP007
        ([Address("Rome"), None], list[Address | None]),
        ([Address("Rome")], list[Address] | None),
        ({"a": Item(sku="a")}, dict[str, Item] | None),
        ({"item": Item(sku="a")}, Carried),
        ("red", str | Colour),
        (7.0, float | None),
        ({"small": 1}, Sizes),
        ("a", Literal["a"]),
        (Decimal("1.5"), Decimal),
        (datetime(2030, 1, 2), datetime),  # noqa: DTZ001
        ([1, "a"], list),
        ({"a": 1}, dict),
        ({"a": 1}, Any),
        ("plain", str),
        (True, bool),
    ],
)
def test_a_value_comes_back_as_the_signature_says(value: Any, hint: Any) -> None:
    revived = there_and_back(value, hint)
    assert revived == value
    assert type(revived) is type(value)


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        (5, str),
        ("x", int),
        ([1], int),
        ({"a": 1}, int),
        ([1], Item),
        (3, list[int]),
        (3, dict[str, int]),
        ({"a": 1}, list[int]),
        ([1, 2], dict[str, int]),
        (3, tuple),
        ("x", float),
        (True, float),
        (2**53 + 1, float),
        (10**400, float),
        ("x", "a forward reference nobody resolved"),
    ],
)
def test_a_value_that_does_not_fit_its_hint_is_left_as_it_is(value: Any, hint: Any) -> None:
    revived = revive(value, hint)
    assert revived == value
    assert type(revived) is type(value)


def test_the_first_choice_of_a_union_that_fits_is_taken() -> None:
    assert revive({"sku": "a"}, Address | Item) == Item(sku="a")
    assert revive("blue", Colour | None) == "blue"
    assert revive(3, Colour | Address) == 3


def test_a_value_that_is_no_member_is_refused_by_the_enum() -> None:
    with pytest.raises(ValueError, match="blue"):
        revive("blue", Colour)


@pytest.mark.parametrize(("value", "hint"), [(Point(1), Point), (Corner.TOP, Corner), (Aliased(orderId=3), Aliased)])
def test_more_types_come_back_as_the_signature_says(value: Any, hint: Any) -> None:
    assert there_and_back(value, hint) == value


def test_a_dataclass_comes_back_without_the_fields_it_makes_itself() -> None:
    @dataclass
    class Counted:
        name: str
        size: int = field(init=False)

        def __post_init__(self) -> None:
            self.size = len(self.name)

    assert there_and_back(Counted("abc"), Counted) == Counted("abc")


def test_a_dataclass_whose_hints_cannot_be_resolved_comes_back_with_plain_fields() -> None:
    @dataclass
    class Hidden:
        name: OnlyForTheTypeChecker  # type: ignore[name-defined]  # noqa: F821

    assert there_and_back(Hidden("abc"), Hidden) == Hidden("abc")


def test_a_model_of_an_older_pydantic_comes_back_too() -> None:
    class Older:
        @classmethod
        def model_validate(cls, members: dict[str, Any]) -> str:
            return f"made of {members}"

    assert revive({"a": 1}, Older) == "made of {'a': 1}"


class Items(RootModel[list[Item]]):
    pass


class Whole(BaseModel):
    """Is not dumped as it is read."""

    model_config = ConfigDict(extra="allow")
    amount: int = 5000
    site: AnyUrl = AnyUrl("https://shop.example/")
    folder: Path = Path("/srv")
    tags: set[str] = {"b", "a"}
    items: Items = Items([Item(sku="a")])

    @field_serializer("amount")
    def _as_text(self, amount: int) -> str:
        return "a little"

    @computed_field  # type: ignore[prop-decorator]
    @property
    def double(self) -> int:
        return self.amount * 2


WHOLE = {
    "amount": 5000,
    "site": "https://shop.example/",
    "folder": "/srv",
    "tags": ["a", "b"],
    "items": [{"sku": "a", "count": 1}],
    "double": 10000,
    "more": {"x": 1},
}


def test_38_a_model_is_recorded_by_its_fields_and_read_from_them() -> None:
    whole = Whole.model_validate({"more": {"x": 1}})
    assert plainly(whole) == WHOLE
    assert revive(plainly(whole), Whole) == whole
    assert revive([{"sku": "a"}], Items) == whole.items


def test_38_what_a_model_hides_is_not_recorded_behind_its_back() -> None:
    class Hiding(BaseModel):
        amount: int = Field(default=5000, exclude=True)

    class Secret(BaseModel):
        token: SecretStr = SecretStr("t")

    with pytest.raises(ValueError, match="amount"):
        plainly(Hiding())
    assert plainly(Secret())["token"] == SecretStr("t"), "which has no recorded form"


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (Colour.RED, "red"),
        (Corner.TOP, [0, 1]),
        (
            Order(Address("Rome"), (Address("Oslo"),)),
            {"to": {"city": "Rome", "colour": "red"}, "others": [{"city": "Oslo", "colour": "red"}]},
        ),
        ({"a": (Point(1), None)}, {"a": [[1], None]}),
        (Decimal("1.5"), Decimal("1.5")),
    ],
)
def test_other_objects_are_recorded_by_what_they_hold(value: Any, plain: Any) -> None:
    assert plainly(value) == plain


@dataclass
class Loose:
    city: str

    @functools.cached_property
    def name(self) -> str:
        return self.city.upper()


class Pair(NamedTuple):
    x: int
    y: Any = None


@pytest.mark.parametrize(
    ("said", "got", "is_same"),
    [
        ({"a": [1, "x", None]}, {"a": [1, "x", None]}, True),
        ({"a": Address("Rome")}, {"a": Address("Rome")}, True),
        ({"a": Address("Rome")}, {"a": {"city": "Rome"}}, False),
        ({"city": "Rome"}, Address("Rome"), True),
        ({"city": Colour.RED}, Address("Rome"), False),
        ([Colour.RED], [Colour.RED], True),
        ([Colour.RED], ["red"], True),
        ([Colour.RED], [Level.LOW], False),
        ([Corner.TOP], [[0, 1]], True),
        ([Level.LOW], [1], True),
        ([Level.LOW], None, False),
        ([1, 2], None, True),
        (Point(1), Point(1), True),
        (Point(1), Pair(1), False),
        (Point(1), [1], False),
        (Pair(1, Address("Rome")), Pair(1, {"city": "Rome"}), False),
        ({Colour.RED}, {Colour.RED}, True),
        (Decimal(1), None, True),
    ],
)
def test_objects_are_what_was_said_only_as_they_were(said: Any, got: Any, is_same: bool) -> None:
    assert is_what_was_said(said, got) is is_same


def test_what_an_object_holds_beside_its_fields_is_what_was_said() -> None:
    one, other = Loose("Rome"), Loose("Rome")
    assert one.name == "ROME", "which it keeps"
    one.lock = object()  # type: ignore[attr-defined]
    assert is_what_was_said(one, other), "what has no recorded form is not compared"
    one.mark = 1  # type: ignore[attr-defined]
    assert not is_what_was_said(one, other)
    other.mark = 1  # type: ignore[attr-defined]
    assert is_what_was_said(one, other)
    assert holds_objects([one])
    assert not holds_objects([{"city": "Rome"}])


@pytest.mark.parametrize(
    ("hint", "is_other"),
    [
        *((one, False) for one in (int, str, float, bool, list, dict, tuple, list[int], dict[str, int], Any, datetime)),
        *((one, False) for one in (str | None, tuple[int, ...], Literal["a"], "unresolved", Annotated[int, "counted"])),
        *((one, True) for one in (Item, Address, Sizes, Colour, Point, tuple[int, int], list[Item], Item | None)),
        *((one, True) for one in (dict[str, Address], Annotated[Item, "documented"], Items)),
    ],
)
def test_plain_types_are_read_as_they_are(hint: Any, is_other: bool) -> None:
    assert is_read_otherwise(hint) is is_other


def test_a_pair_is_not_read_of_three() -> None:
    with pytest.raises(ValueError, match="zip"):
        revive([1, 2, 3], tuple[int, int])


@dataclass
class Half:
    """Has hints that are known, also by a name of its own, and two that only a type checker knows."""

    class Own:
        pass

    a: Address
    d: Own
    b: Nowhere  # type: ignore[name-defined]  # noqa: F821
    c: enum.Nowhere  # type: ignore[name-defined]


def _half(a: Address, b: Nowhere) -> Nowhere:  # type: ignore[name-defined]  # noqa: F821
    raise NotImplementedError


def test_each_hint_is_resolved_by_itself() -> None:
    assert hints_of(Half) == {"a": Address, "d": Half.Own, "b": Unresolved, "c": Unresolved}
    assert hints_of(_half) == {"a": Address, "b": Unresolved, "return": Unresolved}
    assert is_read_otherwise(Unresolved)
    assert revive({"city": "Rome"}, Unresolved) == {"city": "Rome"}
    assert hints_of(object()) == {}
    assert hints_of(functools.partial(plainly)) == {"value": Any, "return": Any}


@pytest.mark.parametrize(
    ("hint", "path"),
    [
        *((hint, "a.[].b") for hint in (Any, object, dict, Mapping, Unresolved, "Later", Literal["a"], Path)),
        *((Item, path) for path in ("sku", "*")),
        (Aliased, "order_id"),
        (Whole, "double"),
        (Whole, "items.[].sku"),
        (Whole, "other.deeper"),
        (Order, "to.city"),
        (Order, "others.[].city"),
        (Carried, "item.sku"),
        (Item | None, "sku"),
        (Item | Address, "city"),
        (Annotated[Item, "why"], "sku"),
        (list[Item], "[].sku"),
        (Sequence[Item], "[].sku"),
        (list, "[].sku"),
        (tuple[int, Item], "[].sku"),
        (tuple[Item, ...], "[].sku"),
        (frozenset[str], "[]"),
        (Iterable[Item], "[].sku"),
        (dict[str, Item], "any.sku"),
        (dict[str, Item], "*.sku"),
        (Items, "[].sku"),
        (str, ""),
    ],
)
def test_a_place_that_a_value_of_a_type_may_have_is_there(hint: Any, path: str) -> None:
    assert leads_to(hint, path.split(".") if path else [])


@pytest.mark.parametrize(
    ("hint", "path"),
    [
        *((hint, "a") for hint in (str, int, bool, float, bytes, Decimal, datetime, type(None), Level)),
        (Item, "sky"),
        (Item, "sku.x"),
        (Item, "[]"),
        (Aliased, "orderId"),
        (Whole, "items.[].sky"),
        (Order, "to.town"),
        (Order, "others.city"),
        (Carried, "item.sky"),
        (Item | None, "sky"),
        (Item | Address, "sky"),
        (Annotated[Item, "why"], "sky"),
        (list[Item], "sku"),
        (Sequence[Item], "sku"),
        (list, "sku"),
        (tuple[Item, ...], "[].sky"),
        (dict[str, Item], "any.sky"),
        (dict[str, Item], "[]"),
        (Items, "[].sky"),
        (Items, "root"),
    ],
)
def test_a_place_that_no_value_of_a_type_has_is_not_there(hint: Any, path: str) -> None:
    assert not leads_to(hint, path.split("."))
