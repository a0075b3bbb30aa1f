"""FAULT 38, inside of values: what a tool reads is what is judged, shown, keyed and run, also after an edit."""

from __future__ import annotations

import asyncio
import enum
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import pytest
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, RootModel, SecretStr, field_serializer, field_validator

import indelible
from indelible import Claimed, Ledger, NothingHappened, Succeeded, ToolCall, migrate
from indelible.errors import ApprovalPending, BadCall, KeyReused, NotRecordable, PolicyRefused, VoteRefused
from tests.journal.exported import key_of

MUCH: dict[str, Any] = {
    "defaults": "allow",
    "rules": [
        {"name": "much", "match": {"args": {"order.amount": {"gt": 1000}}}, "then": "refuse"},
        {"name": "blocked", "match": {"args": {"order.to": {"in": [666]}}}, "then": "refuse"},
    ],
}


class Order(BaseModel):
    """A parameter with a default inside, an alias, and a number that pydantic makes of a text."""

    to: int = 1
    amount: int = Field(default=5000, alias="amountCents")


@dataclass
class Item:
    """The same as a dataclass."""

    id: str
    amount: int = 5000


class Basket(TypedDict):
    """An object that is no class, with a model inside."""

    order: Order


@pytest.fixture
def ledger(store_url: str) -> Iterator[Ledger]:
    migrate(store_url)
    with Ledger.open(store_url, principal="dora", run="r") as opened:
        yield opened


def by_decorator(ledger: Ledger, tool: Any, args: dict[str, Any]) -> Any:
    return tool(**args)


def by_hand(ledger: Ledger, tool: Any, args: dict[str, Any]) -> Any:
    return ledger.run(ToolCall(tool=tool.name, args=args, run_id="r"), tool.handler)


def with_the_tools_schema(ledger: Ledger, tool: Any, args: dict[str, Any]) -> Any:
    return ledger.run(ToolCall(tool=tool.name, args=args, run_id="r", schema=tool.schema), tool.handler)


def with_a_foreign_schema(ledger: Ledger, tool: Any, args: dict[str, Any]) -> Any:
    return ledger.run(ToolCall(tool=tool.name, args=args, run_id="r", schema="ab" * 32), tool.handler)


def by_bind(ledger: Ledger, tool: Any, args: dict[str, Any]) -> Any:
    return ledger.run(tool.bind(**args), tool.handler)


def by_run_call(ledger: Ledger, tool: Any, args: dict[str, Any]) -> Any:
    with ledger.in_run("r") as run:
        return run.call(tool, **args)


DOORS: list[Callable[[Ledger, Any, dict[str, Any]], Any]] = [
    *(by_decorator, by_hand, with_the_tools_schema, by_bind, by_run_call)
]


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    "order",
    [{}, {"to": "666", "amount": 5}, {"amountCents": 5000}, {"amountCents": 5000, "amount": 5}, {"amount": "5000"}],
)
def test_38_the_policy_judges_what_a_model_reads(ledger: Ledger, door: Any, order: dict[str, Any]) -> None:
    ledger.apply_policy(MUCH, by="root")
    entered: list[Any] = []

    @ledger.tool(side_effect="payment")
    def pay(order: Order) -> None:
        entered.append(order)

    with pytest.raises(PolicyRefused):
        door(ledger, pay, {"order": order})
    assert entered == []
    assert list(ledger.effects()) == []


@pytest.mark.parametrize("door", DOORS)
def test_38_a_default_inside_of_a_value_is_shown_and_is_the_same_call(ledger: Ledger, door: Any) -> None:
    entered: list[Any] = []

    @ledger.tool(side_effect="payment", approval="required", wait=False)
    def pay(item: Item, basket: Basket, rest: list[Item] | None = None) -> str:
        entered.append((item, basket, rest))
        return "paid"

    args: dict[str, Any] = {"item": {"id": "1"}, "basket": {"order": {"to": "7"}}, "rest": [{"id": "2"}]}
    with pytest.raises(ApprovalPending) as asked:
        door(ledger, pay, args)
    shown = ledger.view_approval(asked.value.approval, by="ana").args
    assert shown == {
        "item": {"id": "1", "amount": 5000},
        "basket": {"order": {"to": 7, "amount": 5000}},
        "rest": [{"id": "2", "amount": 5000}],
    }
    ledger.approve(asked.value.approval, digest=asked.value.approval.digest, by="ana")
    objects = {"item": Item("1"), "basket": {"order": Order(to=7)}, "rest": [Item("2")]}
    assert [door(ledger, pay, each) for each in (args, shown, objects)] == ["paid"] * 3
    assert entered == [(Item("1"), {"order": Order(to=7)}, [Item("2")])]


@pytest.mark.parametrize("order", [{}, {"amount": 5}, {"to": "7", "amount": 5}])
def test_38_a_call_that_names_a_schema_of_its_own_does_not_enter_the_tool_unread(ledger: Ledger, order: Any) -> None:
    entered: list[Any] = []

    @ledger.tool(side_effect="payment")
    def pay(order: Order, memo: str = "unseen") -> None:
        entered.append(order)

    with pytest.raises(NothingHappened):
        with_a_foreign_schema(ledger, pay, {"order": order, "memo": ""})
    with pytest.raises(NothingHappened):
        with_a_foreign_schema(ledger, pay, {"order": {"to": 7, "amount": 5}})
    assert entered == []
    assert {effect.status for effect in ledger.effects()} == {"ready"}


class Unstable(BaseModel):
    """A value that grows each time it is read."""

    amount: int

    @field_validator("amount")
    @classmethod
    def _in_cents(cls, amount: int) -> int:
        return amount * 100


class Hiding(BaseModel):
    """A value of which no dump shows everything."""

    amount: int = Field(default=5000, exclude=True)


class Secret(BaseModel):
    """A value that shows itself as stars."""

    amount: SecretStr


class Colour(enum.Enum):
    """A member that has other names."""

    RED = "red"

    @classmethod
    def _missing_(cls, value: object) -> Any:
        return cls.RED if value == "rouge" else None


class Shown(BaseModel):
    """A value whose dump is not what it is read from."""

    amount: int = 5000
    tags: set[str] = set()

    @field_serializer("amount")
    def _as_text(self, amount: int) -> str:
        return "a little"


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Unstable, {"amount": 5}),
        (Unstable, Unstable(amount=5)),
        (Hiding, {}),
        (Hiding, Hiding()),
        (Secret, {"amount": "much"}),
        (Order, {"amount": "much"}),
        (tuple[int, int], [1, 2, 3]),
        (Colour, "blue"),
    ],
)
def test_38_what_cannot_be_recorded_as_it_is_read_is_refused(ledger: Ledger, kind: Any, value: Any) -> None:
    def pay(order: Any) -> None:
        raise NotImplementedError

    pay.__annotations__["order"] = kind
    tool = ledger.tool("pay", side_effect="payment")(pay)
    for door in DOORS:
        with pytest.raises(BadCall):
            door(ledger, tool, {"order": value})
    assert list(ledger.effects()) == []


@dataclass
class Charge:
    """One deed."""

    order: str


@dataclass
class Refund:
    """Another deed, with the same fields."""

    order: str


class Level(enum.Enum):
    """Has the value of another enum's member."""

    ONE = "red"


class Pay(BaseModel):
    """A model with the fields of another."""

    order: str


class Capped(BaseModel):
    """Holds a value that is no field."""

    order: str
    _cap: int = PrivateAttr(100)
    _lock: Any = PrivateAttr(default_factory=object)

    @functools.cached_property
    def name(self) -> str:
        return f"order {self.order}"


class Pair(NamedTuple):
    """A tuple with names."""

    order: str


class Twin(NamedTuple):
    """Another one with the same names."""

    order: str


class Bag(BaseModel):
    """Holds a set that reads as one of other members."""

    kinds: frozenset[Colour] | frozenset[Level]


class Open(BaseModel):
    """Takes whatever else comes."""

    model_config = ConfigDict(extra="allow")
    order: str


def capped(cap: int) -> Capped:
    made = Capped(order="1")
    made._cap = cap
    assert made.name == "order 1"
    return made


def marked() -> Charge:
    made = Charge("1")
    made.mark = "express"  # type: ignore[attr-defined]
    return made


class Repay(Pay):
    """A class below another, with its fields."""


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Charge | Refund, Refund("1")),
        (list[Charge | Refund], [Charge("1"), Refund("1")]),
        (dict[str, Charge | Refund], {"b": Charge("1"), "a": Refund("1")}),
        (Colour | Level, Level.ONE),
        (Pay | Repay, Repay(order="1")),
        (Pay, Repay(order="1")),
        (Capped, capped(5)),
        (Pair | Twin, Twin("1")),
        (Any, Charge("1")),
        (list[Any], [Charge("1")]),
        (Bag, Bag(kinds=frozenset([Level.ONE]))),
        (Open, Open(order="1", more=Charge("1"))),  # type: ignore[call-arg]
        (Charge, marked()),
    ],
)
def test_38_an_object_that_the_tool_would_get_as_one_of_another_class_is_refused(
    ledger: Ledger, kind: Any, value: Any
) -> None:
    deeds: list[Any] = []

    def pay(order: Any) -> None:
        deeds.append(order)

    pay.__annotations__["order"] = kind
    tool = ledger.tool("pay", side_effect="payment")(pay)
    for door in DOORS:
        with pytest.raises(BadCall):
            door(ledger, tool, {"order": value})
    assert (deeds, list(ledger.effects())) == ([], [])


def test_38_an_object_that_the_tool_gets_as_it_was_runs(ledger: Ledger) -> None:
    @ledger.tool(side_effect="payment")
    def pay(orders: dict[str, Charge | Refund | Level]) -> list[str]:
        return [type(orders[name]).__name__ for name in ("b", "a", "c")]

    with ledger.in_run("order-1"):
        assert pay({"b": Charge("1"), "a": Charge("2"), "c": Level.ONE}) == ["Charge", "Charge", "Level"]

    @ledger.tool(side_effect="payment")
    def mark(order: str, level: str | Level = Level.ONE, other: Any = Level.ONE) -> list[Any]:
        return [level, other]

    with ledger.in_run("order-1"):
        assert mark("1") == ["red", "red"], "a member is its value where no type names its class alone"

    @ledger.tool(side_effect="payment")
    def limit(order: Capped) -> int:
        return order._cap

    with ledger.in_run("order-1"):
        assert limit(capped(100)) == 100


@pytest.mark.parametrize(
    ("kind", "value", "recorded"),
    [
        (Colour, "rouge", "red"),
        (Shown, {"tags": ["b", "a"]}, {"amount": 5000, "tags": ["a", "b"]}),
        (Shown, Shown(tags={"b", "a"}), {"amount": 5000, "tags": ["a", "b"]}),
        (RootModel[list[Order]], [{"to": "7"}], [{"to": 7, "amount": 5000}]),
        (dict[str, Item], {"a": {"id": "1", "more": 1}}, {"a": {"id": "1", "amount": 5000}}),
    ],
)
def test_38_binding_twice_is_binding_once_and_the_tool_gets_that(
    ledger: Ledger, kind: Any, value: Any, recorded: Any
) -> None:
    entered: list[Any] = []

    def pay(order: Any) -> None:
        entered.append(order)

    pay.__annotations__["order"] = kind
    tool = ledger.tool("pay", side_effect="payment")(pay)
    once = tool.bind(value)
    assert once.args == {"order": recorded}
    assert tool.bind(**once.args).args == tool.completed(once).args == once.args
    for door in DOORS:
        door(ledger, tool, {"order": value})
    assert len(entered) == 1
    assert tool.bind(entered[0]).args == once.args


# An edit, where the process that edits knows the tool, and where it does not


TIP: dict[str, Any] = {
    "rules": [
        {"name": "tip", "match": {"args": {"tip.amount": {"gt": 9000}}}, "then": "refuse"},
        {"name": "ask", "then": "ask"},
    ]
}
EDITS: list[dict[str, Any]] = [{"tip": {"id": "3"}}, {"items": [{"id": "1", "amount": 5}, {"id": "2"}]}]


@dataclass
class Till:
    """A tool that takes objects, and what it was entered with."""

    ledger: Ledger
    entered: list[Any] = field(default_factory=list)

    def ask(self, items: Any = None, tip: Any = None, **words: Any) -> Any:
        """Make the call; return what it waits for, or what came of it."""

        def pay(items: list[Item], tip: Item | None = None) -> str:
            self.entered.append((items, tip))
            return "paid"

        tool = self.ledger.tool("pay", side_effect="payment", wait=False, **words)(pay)
        try:
            return tool(items or [Item("1", 5)], tip)
        except ApprovalPending as pending:
            return pending.approval


@pytest.mark.parametrize("edit", EDITS)
def test_38_an_edit_is_bound_by_the_tool_before_it_is_judged_and_shown(ledger: Ledger, edit: dict[str, Any]) -> None:
    ledger.apply_policy(TIP, by="root")
    till = Till(ledger)
    asked = till.ask()
    new = {**ledger.view_approval(asked).args, **edit}
    edited = ledger.edit_approval(asked, new, digest=asked.digest, by="ana", reason="more")
    shown = ledger.view_approval(edited, by="bob").args
    assert shown in (
        {"items": [{"id": "1", "amount": 5}], "tip": {"id": "3", "amount": 5000}},
        {"items": [{"id": "1", "amount": 5}, {"id": "2", "amount": 5000}], "tip": None},
    )
    ledger.approve(edited, digest=edited.digest, by="bob")
    assert till.ask() == "paid"
    ((items, tip),) = till.entered
    assert tool_args(items, tip) == shown
    asked = Till(ledger).ask(scope="again")
    for wrong, error in (({"tip": {"id": "3", "amount": 9999}}, VoteRefused), ({"items": [{"amount": 1}]}, BadCall)):
        new = {**ledger.view_approval(asked).args, **wrong}
        with pytest.raises(error):
            ledger.edit_approval(asked, new, digest=asked.digest, by="ana", reason="more")


def tool_args(items: list[Item], tip: Item | None) -> dict[str, Any]:
    return {"items": [vars(one) for one in items], "tip": None if tip is None else vars(tip)}


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("is_approved_first", [True, False])
def test_38_an_edit_that_the_tool_reads_otherwise_is_asked_about_again(
    ledger: Ledger, store_url: str, tmp_path: Path, edit: dict[str, Any], is_approved_first: bool
) -> None:
    ledger.apply_policy(TIP, by="root")
    till = Till(ledger)
    asked = till.ask()
    with Ledger.open(store_url) as elsewhere:  # as a command line or a server: it does not know the tool
        new = {**elsewhere.view_approval(asked).args, **edit}
        edited = elsewhere.edit_approval(asked, new, digest=asked.digest, by="ana", reason="more")
        if is_approved_first:
            elsewhere.approve(edited, digest=edited.digest, by="bob")
        again = till.ask()
        assert till.entered == []
        assert elsewhere.get_approval(asked.id).status == "stale"  # type: ignore[union-attr]
        assert again.id != asked.id
        shown = elsewhere.view_approval(again, by="bob").args
        with pytest.raises(VoteRefused) as own:
            elsewhere.approve(again, digest=again.digest, by="ana")
        assert own.value.code == "self_approval"
        assert till.ask().id == again.id
        elsewhere.approve(again, digest=again.digest, by="bob")
    assert till.ask() == "paid"
    ((items, tip),) = till.entered
    assert tool_args(items, tip) == shown
    assert till.ask() == "paid"
    assert len(till.entered) == 1
    ledger.seal()
    exported = ledger.export(tmp_path / "bundle")
    assert indelible.verify(exported.path, key_of(ledger), deep=True).verdict == "verified"


@pytest.mark.parametrize("is_made_besides", [False, True])
def test_47_an_edit_that_is_asked_about_again_takes_the_key_of_the_call_that_it_is_then(
    ledger: Ledger, store_url: str, tmp_path: Path, is_made_besides: bool
) -> None:
    """The edit took the key of what the approver wrote, and not of what the tool reads there: that call ran besides."""
    ledger.apply_policy(TIP, by="root")
    till = Till(ledger)
    asked = till.ask()
    read = {"items": [Item("1", 5)], "tip": Item("3", 5000)}
    with Ledger.open(store_url) as elsewhere:
        new = {**elsewhere.view_approval(asked).args, "tip": {"id": "3"}}
        edited = elsewhere.edit_approval(asked, new, digest=asked.digest, by="ana", reason="more")
        elsewhere.approve(edited, digest=edited.digest, by="bob")
        if is_made_besides:
            besides = till.ask(**read)
            elsewhere.approve(besides, digest=besides.digest, by="bob")
            assert till.ask(**read) == "paid"
            with pytest.raises(KeyReused):
                till.ask()
        else:
            again = till.ask()
            assert till.ask(**read).id == till.ask().id == again.id, "both are one call"
            elsewhere.approve(again, digest=again.digest, by="bob")
            assert till.ask(**read) == till.ask() == till.ask(**read) == "paid"
    assert [tool_args(*one)["tip"] for one in till.entered] == [{"id": "3", "amount": 5000}]
    ledger.seal()
    exported = ledger.export(tmp_path / "bundle")
    assert indelible.verify(exported.path, key_of(ledger), deep=True).verdict == "verified"


@pytest.mark.parametrize("rules", [["args.items"], []])
def test_38_a_caller_that_waits_is_asked_again_and_redacted_values_stay_the_callers(
    store_url: str, tmp_path: Path, rules: list[str]
) -> None:
    migrate(store_url, keys=tmp_path)
    redaction: dict[str, Any] = {"redact": rules} if rules else {}
    with Ledger.open(store_url, run="r", keys=tmp_path) as ledger, Ledger.open(store_url, keys=tmp_path) as elsewhere:
        till = Till(ledger)
        asked = till.ask(approval="required", **redaction)
        new = {**elsewhere.view_approval(asked).args, "tip": {"id": "3"}}
        edited = elsewhere.edit_approval(asked, new, digest=asked.digest, by="ana", reason="more")
        elsewhere.approve(edited, digest=edited.digest, by="bob")
        again = till.ask(approval="required", **redaction)
        view = elsewhere.view_approval(again)
        assert view.args["tip"] == {"id": "3", "amount": 5000}
        assert view.args["items"] == new["items"]
        elsewhere.approve(again, digest=again.digest, by="bob")
        assert till.ask(approval="required", **redaction) == "paid"
    assert till.entered == [([Item("1", 5)], Item("3"))]


class Excluding(BaseModel):
    """A model with a field that is not in its dump."""

    charge: str
    amount: int = Field(default=5000, exclude=True)


class Rewriting(BaseModel):
    """A model that dumps another amount than it holds."""

    amount: int

    @field_serializer("amount")
    def _capped(self, amount: int) -> int:
        return min(amount, 10)


@pytest.mark.parametrize(
    "value",
    [Excluding(charge="c", amount=9), Excluding(charge="c"), [{"one": Excluding(charge="c")}], Rewriting(amount=9999)],
)
def test_38_a_model_whose_dump_hides_a_field_is_no_argument_of_any_type(ledger: Ledger, value: Any) -> None:
    def pay(order: Any) -> None:
        raise NotImplementedError

    tool = ledger.tool("pay", side_effect="payment")(pay)
    for door in DOORS:
        with pytest.raises(BadCall):
            door(ledger, tool, {"order": value})
    with pytest.raises(NotRecordable):
        ledger.run(ToolCall(tool="free", args={"order": value}, run_id="r"), tool.handler, redact=["args.order.charge"])
    assert list(ledger.effects()) == []


@pytest.mark.parametrize("redact", [[], ["args.order"]])
def test_44_who_claims_an_older_call_by_hand_gets_what_added_says(store_url: str, redact: list[str]) -> None:
    """`begin` gave the recorded arguments alone, so the caller's own default took the place of the old value."""
    migrate(store_url)
    call = ToolCall(tool="pay", args={"order": "1"}, run_id="r")
    words: dict[str, Any] = {"redact": redact} if redact else {}
    with Ledger.open(store_url) as ledger:
        old = ledger.begin(call, **words)
        assert isinstance(old, Claimed)
        assert old.claim.args == old.claim.effect.args
        ledger.commit(old.claim, NothingHappened("the bank is closed"))
        new = ledger.begin(replace(call, args={"order": "1", "currency": "usd"}, added={"currency": "usd"}), **words)
        assert isinstance(new, Claimed)
        assert new.claim.attempt == 2
        assert new.claim.args == {**old.claim.effect.args, "currency": "usd"}
        ledger.commit(new.claim, Succeeded("paid"))


def test_44_an_older_call_that_is_open_runs_with_what_added_says(store_url: str) -> None:
    """The old version left two calls open and one that waits. The new version's own default is another value."""
    migrate(store_url)
    got: list[Any] = []

    def before(order: str, amount: int) -> str:
        raise NothingHappened("the bank is closed")

    def after(order: str, amount: int, currency: str = "eur") -> str:
        got.append((order, amount, currency))
        return currency

    words: dict[str, Any] = {"side_effect": "payment", "wait": False}
    with (
        Ledger.open(store_url, principal="dora", run="r") as old,
        Ledger.open(store_url, principal="dora", run="r") as new,
    ):
        for name, more in (("open", {}), ("asked", {"approval": "required"}), ("unsaid", {})):
            with pytest.raises((NothingHappened, ApprovalPending)):
                old.tool(name, **words, **more)(before)("1", 5)
        added = {"currency": "usd"}
        assert new.tool("open", added=added, **words)(after)("1", 5, currency="usd") == "usd"
        asked = new.tool("asked", added=added, approval="required", **words)(after)
        with pytest.raises(ApprovalPending):
            asked("1", 5, currency="usd")
        (question,) = new.approvals(status="pending")
        new.approve(question, digest=question.digest, by="ana")
        assert asked("1", 5, currency="usd") == "usd"
        with pytest.raises(NothingHappened):
            new.tool("unsaid", varies=["currency"], **words)(after)("1", 5)
    assert got == [("1", 5, "usd")] * 2


def test_38_one_hint_that_only_a_type_checker_knows_hides_no_other(ledger: Ledger) -> None:
    """`-> Receipt` is imported under TYPE_CHECKING alone; the type of the parameter is known all the same."""
    got: list[Any] = []

    def pay(order: Any, note: Any = None) -> None:
        got.append(order)

    pay.__annotations__ = {"order": "Item", "note": "Unknown", "return": "Receipt"}
    tool = ledger.tool("pay", side_effect="payment")(pay)
    with ledger.in_run("order-1"):
        tool(Item("1"))
        ledger.run(tool.bind({"id": "1"}), tool.handler)
        assert got == [Item("1")], "the same call, as JSON that leaves a default out"
        tool(Item("2"), note={"a": 1})
        with pytest.raises(BadCall):
            tool(Item("3"), note=Item("4"))
    assert got == [Item("1"), Item("2")]


def logged(function: Any) -> Any:
    @functools.wraps(function)
    def inner(*args: Any, **words: Any) -> Any:
        return function(*args, **words)

    return inner


class Payment:
    """Is a tool that is an object."""

    __name__ = "pay"

    async def __call__(self, order: str) -> str:
        await asyncio.sleep(0)
        return f"paid {order}"


async def paid(order: str) -> str:
    await asyncio.sleep(0)
    return f"paid {order}"


def test_38_an_async_function_behind_a_blocking_decorator_is_refused_when_it_is_said(ledger: Ledger) -> None:
    with pytest.raises(BadCall):
        ledger.tool("pay", side_effect="payment")(logged(paid))
    assert ledger.tool("log")(logged(len))


@pytest.mark.parametrize("function", [Payment(), staticmethod(paid)], ids=["object", "static method"])
def test_38_what_is_async_is_awaited(ledger: Ledger, function: Any) -> None:
    pay = ledger.tool("pay", side_effect="payment")(function)

    async def called() -> Any:
        with ledger.in_run("r"):
            return [await pay("1"), await pay("1")]

    assert asyncio.run(called()) == ["paid 1", "paid 1"]


def test_38_a_coroutine_of_a_blocking_function_is_not_run_beside_the_loop_of_its_caller(ledger: Ledger) -> None:
    """What it waits for may be held by the caller, whose loop would wait for it."""
    begun: list[str] = []

    async def body(order: str) -> str:
        begun.append(order)
        return "paid"

    def pay(order: str) -> Any:
        return body(order)

    tool = ledger.tool("pay", side_effect="payment")(pay)

    async def called() -> Any:
        with ledger.in_run("r"):
            return tool("1")

    with pytest.raises(BadCall):
        asyncio.run(called())
    assert (begun, [effect.status for effect in ledger.effects()]) == ([], ["in_doubt"])
    with ledger.in_run("r"):
        assert tool("2") == "paid"
