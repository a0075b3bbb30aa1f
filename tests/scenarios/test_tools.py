"""`@ledger.tool`: a function whose every call goes through the ledger."""

from __future__ import annotations

import asyncio
import enum
import functools
import inspect
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

import pytest
from pydantic import BaseModel, Field

from indelible import MayHaveHappened, Succeeded, ToolCall, current_effect
from indelible.errors import ApprovalPending, BadCall, EffectFailed, EffectInDoubt, KeyReused, NotRecordable
from tests.scenarios.shells import Driver, Shell


class Colour(enum.Enum):
    RED = "red"


@dataclass(frozen=True)
class Address:
    city: str
    colour: Colour = Colour.RED


class Item(BaseModel):
    sku: str
    count: int = Field(default=1, alias="howMany")


class Point(NamedTuple):
    x: int


def test_a_tool_is_called_like_its_function_and_runs_once(ledger: Driver) -> None:
    calls: list[Any] = []

    @ledger.tool(side_effect="payment")
    def refund(order_id: str, amount: int) -> dict[str, Any]:
        """Gives money back."""
        calls.append((order_id, amount))
        return {"refunded": amount}

    assert ledger.call(refund, "7", amount=5) == ledger.call(refund, order_id="7", amount=5) == {"refunded": 5}
    assert calls == [("7", 5)]
    assert (refund.__name__, refund.__doc__, refund.name) == ("refund", "Gives money back.", "refund")
    (effect,) = ledger.effects()
    assert (effect.tool, effect.side_effect, effect.args) == ("refund", "payment", {"order_id": "7", "amount": 5})


def test_an_asynchronous_tool_stays_one(ledger: Driver) -> None:
    calls: list[int] = []

    @ledger.tool()
    async def fetch(number: int) -> int:
        await asyncio.sleep(0)
        calls.append(number)
        return number * 2

    assert ledger.call(fetch, 4) == ledger.call(fetch, 4) == 8
    assert calls == [4]


def test_an_explicit_default_is_the_same_call_as_one_left_out(ledger: Driver) -> None:
    calls: list[Any] = []

    @ledger.tool()
    def send(to: str, copies: int = 1, *, urgent: bool = False) -> None:
        calls.append((to, copies, urgent))

    for words in ({}, {"copies": 1}, {"urgent": False}, {"copies": 1, "urgent": False}):
        ledger.call(send, "ada", **words)
    ledger.call(send, to="ada")
    assert calls == [("ada", 1, False)]
    ledger.call(send, "ada", 2)
    ledger.call(send, "ada", urgent=True)
    assert len(calls) == 3


def test_arguments_of_every_kind_of_parameter_reach_the_body(ledger: Driver) -> None:
    calls: list[Any] = []

    @ledger.tool()
    def mixed(first: int, /, second: int, *rest: int, word: str = "w", **others: int) -> None:
        calls.append((first, second, rest, word, others))

    ledger.call(mixed, 1, 2, 3, 4, word="x", other=5)
    ledger.call(mixed, 1, 2)
    assert calls == [(1, 2, (3, 4), "x", {"other": 5}), (1, 2, (), "w", {})]


def test_the_body_gets_the_types_its_signature_asks_for(ledger: Driver) -> None:
    seen: list[Any] = []

    @ledger.tool()
    def take(
        colour: Colour,
        address: Address,
        items: list[Item],
        maybe: Address | None,
        ratio: float,
        point: Point,
        pair: tuple[int, Colour],
        at: datetime,
        price: Decimal,
        raw: bytes,
    ) -> str:
        seen.append((colour, address, items, maybe, ratio, point, pair, at, price, raw))
        return "taken"

    given = (
        Colour.RED,
        Address("Rome"),
        [Item(sku="a", howMany=2)],
        Address("Oslo"),
        1.0,
        Point(3),
        (1, Colour.RED),
        datetime(2030, 1, 2, tzinfo=UTC),
        Decimal("1.50"),
        b"\x00",
    )
    assert ledger.call(take, *given) == "taken"
    assert seen == [given]
    assert [type(value) for value in seen[0]] == [type(value) for value in given]


def test_the_items_of_a_variable_parameter_get_their_types_too(ledger: Driver) -> None:
    seen: list[Any] = []

    @ledger.tool()
    def paint(*colours: Colour, **named: Colour) -> None:
        seen.append((colours, named))

    ledger.call(paint, Colour.RED, other=Colour.RED)
    assert seen == [((Colour.RED,), {"other": Colour.RED})]


def test_the_body_gets_the_recorded_arguments_and_not_the_callers_objects(ledger: Driver) -> None:
    seen: list[Any] = []

    @ledger.tool()
    def keep(items: list[int]) -> None:
        items.append(99)
        seen.append(items)

    mine = [1]
    ledger.call(keep, mine)
    assert mine == [1]
    assert seen == [[1, 99]]
    assert ledger.effects()[0].args == {"items": [1]}


def test_wrong_arguments_are_refused_as_python_does_and_nothing_is_recorded(ledger: Driver) -> None:
    @ledger.tool()
    def refund(order_id: str) -> None: ...

    with pytest.raises(TypeError):
        ledger.call(refund)
    with pytest.raises(TypeError):
        ledger.call(refund, "7", amount=3)
    with pytest.raises(NotRecordable, match=r"args\.order_id"):
        ledger.call(refund, object())
    assert ledger.effects() == []


def test_key_fields_of_a_tool_identify_its_calls(ledger: Driver) -> None:
    calls: list[str] = []

    @ledger.tool(key=["order.city"], on_reuse="replay")
    def ship(order: Address, note: str) -> str:
        calls.append(note)
        return note

    assert ledger.call(ship, Address("Rome"), "first") == ledger.call(ship, Address("Rome"), "second") == "first"
    assert ledger.call(ship, Address("Oslo"), "third") == "third"
    assert calls == ["first", "third"]


def test_key_fields_of_a_tool_with_other_arguments_are_refused(ledger: Driver) -> None:
    calls: list[int] = []

    @ledger.tool(key=["order"])
    def refund(order: str, amount: int) -> int:
        calls.append(amount)
        return amount

    assert ledger.call(refund, "1", 500) == ledger.call(refund, "1", 500) == 500
    with pytest.raises(KeyReused) as reused:
        ledger.call(refund, "1", 9900)
    assert reused.value.differing == {"amount": (500, 9900)}
    assert calls == [500]


def test_a_key_field_that_is_no_parameter_is_refused_at_once(ledger: Driver) -> None:
    with pytest.raises(BadCall, match="oder"):

        @ledger.tool(key=["oder.id"])
        def ship(order: dict[str, Any]) -> None: ...


def test_the_scope_of_a_tool_spans_runs(ledger: Driver) -> None:
    calls: list[str] = []

    @ledger.tool(scope="once-ever")
    def install(what: str) -> None:
        calls.append(what)

    for run in ("a", "b"):
        with ledger.in_run(run):
            ledger.call(install, "x")
    assert calls == ["x"]


def test_calls_inside_a_run_belong_to_it(ledger: Driver) -> None:
    @ledger.tool()
    def mail(to: str) -> None: ...

    with ledger.in_run("outer"):
        mail_in_run(ledger, mail)
        with ledger.in_run("inner"):
            mail_in_run(ledger, mail)
    mail_in_run(ledger, mail)
    assert sorted(effect.run_id for effect in ledger.effects()) == ["inner", "order-1", "outer"]


def mail_in_run(ledger: Driver, mail: Any) -> None:
    """Calls the tool where the run is set: in this very context."""
    if ledger.kind != "async":
        mail("ada")
    else:
        ledger.call(lambda: mail("ada"))


def test_a_tool_called_by_a_handler_belongs_to_the_handlers_run(ledger: Driver) -> None:
    @ledger.tool()
    def inner() -> str:
        return "inside"

    assert ledger.run(ToolCall(tool="outer", run_id="order-1"), lambda effect: inner()) == "inside"
    assert {effect.run_id for effect in ledger.effects()} == {"order-1"}


def test_a_tools_options_hold_for_its_calls_and_those_by_name(ledger: Driver) -> None:
    @ledger.tool("shop.refund", approval="required", wait=False, side_effect="payment")
    def refund(amount: int) -> None: ...

    with pytest.raises(ApprovalPending):
        ledger.call(refund, 5)
    with pytest.raises(ApprovalPending):
        ledger.run(ToolCall(tool="shop.refund", args={"amount": 6}, run_id="order-1"), lambda effect: None)
    assert {effect.side_effect for effect in ledger.effects()} == {"payment"}


def test_a_call_by_name_may_demand_more_than_the_tool(ledger: Driver) -> None:
    @ledger.tool("refund", approval="none", wait=False)
    def refund(amount: int) -> None: ...

    with pytest.raises(ApprovalPending):
        ledger.run(ToolCall(tool="refund", args={"amount": 6}, run_id="order-1"), lambda effect: 1, approval="required")


def test_the_ledgers_options_hold_where_the_tool_says_nothing(shell: Shell) -> None:
    ledger = shell.open(side_effect="write", on_crash="retry")

    @ledger.tool()
    def first() -> None: ...

    @ledger.tool(on_crash="hold")
    def second() -> None: ...

    ledger.call(first)
    ledger.call(second)
    by_tool = {effect.tool: (effect.side_effect, effect.on_crash) for effect in ledger.effects()}
    assert by_tool == {"first": ("write", "retry"), "second": ("write", "hold")}


def test_a_tool_has_its_effect_at_hand(ledger: Driver) -> None:
    @ledger.tool()
    def key_of_mine() -> str:
        effect = current_effect()
        assert effect is not None
        return effect.key

    assert ledger.call(key_of_mine) == ledger.effects()[0].key
    assert current_effect() is None


def test_a_tool_that_failed_replays_its_failure(ledger: Driver) -> None:
    @ledger.tool(failed_on=ValueError)
    def refund(amount: int) -> None:
        raise ValueError("declined")

    with pytest.raises(ValueError, match="declined"):
        ledger.call(refund, 5)
    with pytest.raises(EffectFailed, match="declined"):
        ledger.call(refund, 5)


def test_a_tools_probe_is_asked_on_its_next_call(ledger: Driver) -> None:
    known: list[Any] = [None, Succeeded("found")]

    @ledger.tool(reconcile=lambda effect: known.pop(0))
    def refund(amount: int) -> None:
        raise MayHaveHappened("cut")

    with pytest.raises(MayHaveHappened):
        ledger.call(refund, 5)
    with pytest.raises(EffectInDoubt):
        ledger.call(refund, 5)
    assert ledger.call(refund, 5) == "found"


def test_a_tools_time_limit_holds(ledger: Driver) -> None:
    @ledger.tool(timeout=timedelta(milliseconds=50))
    async def slow() -> None:
        await asyncio.sleep(20)

    with pytest.raises(TimeoutError):
        ledger.call(slow)
    assert ledger.effects()[0].status == "in_doubt"


def test_binding_shows_the_call_without_making_it(ledger: Driver) -> None:
    @ledger.tool(key=["order_id"])
    def refund(order_id: str, amount: int = 5) -> None: ...

    call = refund.bind("7")
    args = {"order_id": "7", "amount": 5}
    assert call == ToolCall(tool="refund", args=args, key=["order_id"], schema=refund.schema)
    assert ledger.effects() == []


def test_idempotent_is_what_a_tool_is(ledger: Driver) -> None:
    @ledger.tool(idempotent=True)
    def ping() -> str:
        return "pong"

    assert ledger.call(ping) == "pong"
    with pytest.raises(BadCall, match="idempotent"):
        ledger.tool(idempotent=False)


def test_the_decorator_without_brackets_works_or_says_why_not(ledger: Driver) -> None:
    def ping() -> str:
        return "pong"

    try:
        tool = ledger.tool(ping)
    except BadCall:
        return
    assert ledger.call(tool) == "pong"


@pytest.mark.parametrize("words", [{"key": "order_id"}, {"name": "two words"}, {"side_effect": "big"}])
def test_a_tool_that_means_nothing_is_refused(ledger: Driver, words: dict[str, Any]) -> None:
    def refund(order_id: str) -> None: ...

    with pytest.raises(BadCall):
        ledger.call(ledger.tool(**words)(refund), "7")


def test_two_tools_of_one_name_are_refused(ledger: Driver) -> None:
    """Options and probes are found by name: with two of a name the wrong probe would settle an effect."""

    @ledger.tool("refund", reconcile=lambda effect: Succeeded(1))
    def first(order_id: str) -> None: ...

    with pytest.raises(BadCall):

        @ledger.tool("refund", reconcile=lambda effect: Succeeded(2))
        def second(order_id: str) -> None: ...


class Account:
    """Has a method that pays from it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def pay(self, amount: int) -> str:
        return f"{amount} from {self.name}"


def test_the_methods_of_two_objects_are_two_tools(ledger: Driver) -> None:
    """The object is no argument: under one name, the second account would be told that it has paid."""
    ours, theirs = Account("ours"), Account("theirs")
    assert ledger.call(ledger.tool(ours.pay), 5) == "5 from ours"
    assert ledger.call(ledger.tool(ours.pay), 5) == "5 from ours"
    with pytest.raises(BadCall, match="another name"):
        ledger.tool(theirs.pay)
    assert ledger.call(ledger.tool("pay-theirs")(theirs.pay), 5) == "5 from theirs"
    with pytest.raises(BadCall, match="own object"):
        ledger.tool(Account.pay)


def test_a_partial_is_a_tool_under_a_name(ledger: Driver) -> None:
    def pay(account: str, amount: int) -> str:
        return f"{amount} from {account}"

    with pytest.raises(BadCall, match="give it one"):
        ledger.tool(functools.partial(pay, "ours"))
    assert ledger.call(ledger.tool("pay")(functools.partial(pay, "ours")), 5) == "5 from ours"
    with pytest.raises(BadCall, match="another name"):
        ledger.tool("pay")(functools.partial(pay, "theirs"))


def test_a_generator_is_refused_before_it_is_called(ledger: Driver) -> None:
    def pages(number: int) -> Any:
        yield number

    async def later(number: int) -> Any:
        yield number

    for function in (pages, later):
        with pytest.raises(BadCall, match="generator"):
            ledger.tool(function)


def test_the_conflict_of_two_contents_under_one_key_is_loud(ledger: Driver) -> None:
    @ledger.tool(key=["order_id"], wait=False)
    def refund(order_id: str, amount: int) -> None: ...

    ledger.begin(refund.bind("7", 5))
    with pytest.raises(KeyReused):
        ledger.call(refund, "7", 5000)


def test_other_content_under_the_key_of_what_waits_for_a_person_is_asked_about_anew(ledger: Driver) -> None:
    @ledger.tool(key=["order_id"], approval="required", wait=False)
    def refund(order_id: str, amount: int) -> None: ...

    questions = []
    for amount in (5, 5000):
        with pytest.raises(ApprovalPending) as question:
            ledger.call(refund, "7", amount)
        questions.append(question.value.approval)
    first, second = questions
    assert (second.replaces, ledger.get_approval(first.id).status) == (first.id, "stale")


def test_a_tool_keeps_its_signature_for_those_who_inspect_it(ledger: Driver) -> None:
    @ledger.tool()
    def refund(order_id: str, amount: int = 5) -> dict[str, int]:
        return {}

    assert list(inspect.signature(refund).parameters) == ["order_id", "amount"]
    assert inspect.unwrap(refund)("7") == {}
