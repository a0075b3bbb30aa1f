"""FAULTS 44, 40 and 95: a place that a tool names is one that its calls have, also inside of an argument."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, make_dataclass
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import pytest
from pydantic import BaseModel, ConfigDict, Field, create_model

from indelible import Claimed, Ledger, NothingHappened, Succeeded, ToolCall, migrate
from indelible.errors import ApprovalPending, BadCall, KeyReused, Misconfigured
from indelible.integrations.function_calls import FunctionCalls
from indelible.server.gateway_tools import load_tools

ADDED: dict[str, Any] = {"order.priority": 0}


class Typed(TypedDict):
    """Version 1 of a typed dictionary."""

    id: str


class TypedLater(Typed):
    """Version 2; a caller may leave the new field out, and then it is not recorded."""

    priority: NotRequired[int]


VERSIONS: dict[str, tuple[Any, Any]] = {
    "model": (create_model("Order", id=(str, ...)), create_model("Order", id=(str, ...), priority=(int, 0))),
    "dataclass": (
        make_dataclass("Order", [("id", str)]),
        make_dataclass("Order", [("id", str), ("priority", int, 0)]),
    ),
    "typed": (Typed, TypedLater),
    "dict to model": (dict, create_model("Order", id=(str, ...), priority=(int, 0))),
    "optional": (
        create_model("Order", id=(str, ...)) | None,
        create_model("Order", id=(str, ...), priority=(int, 0)) | None,
    ),
}


@pytest.fixture
def ledger(store_url: str) -> Iterator[Ledger]:
    migrate(store_url)
    with Ledger.open(store_url, principal="dora", run="r") as opened:
        yield opened


def tool_of(ledger: Ledger, kind: Any, enter: Callable[[Any, int], Any], name: str = "refund", **words: Any) -> Any:
    """Return a version of the tool whose parameter has this type."""
    return ledger.tool(name, **{"side_effect": "payment", "wait": False, **words})(typed(kind, enter))


def through_calls(ledger: Ledger, kind: Any, enter: Callable[[Any, int], Any], name: str, **words: Any) -> Any:
    """Return the same tool behind the adapter for plain function calls."""
    terms = {name: {"side_effect": "payment", "dedupe": "args", **words}}
    calls = FunctionCalls(ledger, {name: typed(kind, enter)}, run="r", terms=terms)

    def called(order: Any, cents: int) -> Any:
        said = {"name": name, "arguments": json.dumps({"order": order, "cents": cents})}
        return calls.answer([{"id": "call_1x", "type": "function", "function": said}])

    return called


def typed(kind: Any, enter: Callable[[Any, int], Any]) -> Callable[..., Any]:
    """Return a function of an order of this type."""

    def refund(order: Any, cents: int) -> Any:
        return enter(order, cents)

    refund.__annotations__ = {"order": kind, "cents": int}
    return refund


@pytest.mark.parametrize("door", [tool_of, through_calls])
@pytest.mark.parametrize("kinds", VERSIONS.values(), ids=VERSIONS)
def test_44_a_deploy_that_adds_a_field_runs_no_finished_call_again(
    store_url: str, kinds: tuple[Any, Any], door: Callable[..., Any]
) -> None:
    migrate(store_url)
    with Ledger.open(store_url, run="r", seal=False) as old, Ledger.open(store_url, run="r", seal=False) as new:
        for name, key in (("all", None), ("inside", ["order.id", "order.priority"]), ("object", ["order"])):
            entered: list[str] = []

            def enter(order: Any, cents: int, entered: list[str] = entered) -> str:
                entered.append(order["id"] if isinstance(order, dict) else order.id)
                return "refunded"

            before = door(old, kinds[0], enter, name, key=key and [path for path in key if path != "order.priority"])
            after = door(new, kinds[1], enter, name, added=ADDED, key=key)
            before({"id": "1"}, 500)
            after({"id": "1"}, 500)
            after({"id": "1", "priority": 0}, 500)
            assert entered == ["1"]
            after({"id": "2"}, 500)
            before({"id": "2"}, 500)
            assert entered == ["1", "2"]
            after({"id": "1", "priority": 3}, 500)
            after({"id": "1", "priority": 4}, 500)
            assert entered == ["1", "2", "1", "1"]


def test_44_under_one_key_another_value_of_an_added_field_is_seen(ledger: Ledger) -> None:
    before, after = VERSIONS["model"]
    tool_of(ledger, before, lambda order, cents: "refunded", key=["order.id"])({"id": "1"}, 500)
    later = tool_of(ledger, after, lambda order, cents: "again", key=["order.id"], added=ADDED)
    assert later({"id": "1"}, 500) == "refunded"
    with pytest.raises(KeyReused):
        later({"id": "1", "priority": 3}, 500)


@pytest.mark.parametrize("kinds", VERSIONS.values(), ids=VERSIONS)
def test_44_an_older_call_that_is_open_runs_with_the_value_of_the_added_field(
    store_url: str, kinds: tuple[Any, Any]
) -> None:
    migrate(store_url)
    got: list[Any] = []

    def closed(order: Any, cents: int) -> Any:
        raise NothingHappened("the bank is closed")

    def enter(order: Any, cents: int) -> str:
        got.append(order["priority"] if isinstance(order, dict) else order.priority)
        return "refunded"

    order = {"id": "1", "priority": 0}
    with (
        Ledger.open(store_url, principal="dora", run="r") as old,
        Ledger.open(store_url, principal="dora", run="r") as new,
    ):
        with pytest.raises(NothingHappened):
            tool_of(old, kinds[0], closed)({"id": "1"}, 500)
        after = tool_of(new, kinds[1], enter, added=ADDED)
        assert after(order, 500) == "refunded"
        with pytest.raises(ApprovalPending):
            tool_of(old, kinds[0], closed, approval="required")({"id": "2"}, 1)
        with pytest.raises(ApprovalPending):
            after({"id": "2", "priority": 0}, 1)
        (question,) = new.approvals(status="pending")
        new.approve(question, digest=question.digest, by="ana")
        assert after({"id": "2", "priority": 0}, 1) == "refunded"
    assert got == [0, 0]


def test_44_who_claims_by_hand_gets_the_value_of_the_added_field(store_url: str) -> None:
    migrate(store_url)
    with Ledger.open(store_url) as ledger:
        old = ledger.begin(ToolCall(tool="pay", args={"order": {"id": "1"}}, run_id="r"))
        assert isinstance(old, Claimed)
        ledger.commit(old.claim, NothingHappened("the bank is closed"))
        args = {"order": {"id": "1", "priority": 0}}
        new = ledger.begin(ToolCall(tool="pay", args=args, run_id="r", added=ADDED))
        assert isinstance(new, Claimed)
        assert (new.claim.attempt, new.claim.args) == (2, args)
        ledger.commit(new.claim, Succeeded("paid"))


def test_44_a_class_of_a_union_without_the_added_field_is_read_as_it_was_recorded(ledger: Ledger) -> None:
    @dataclass
    class Card:
        number: str
        priority: int = 0

    @dataclass
    class Cash:
        coins: int

    got: list[Any] = []

    def enter(order: Any, cents: int) -> None:
        got.append(order)

    tool = tool_of(ledger, Card | Cash, enter, added=ADDED)
    tool(Cash(3), 1)
    tool(Card("7"), 1)
    assert got == [Cash(3), Card("7")]


def test_44_a_field_of_a_parameter_that_was_added_itself_is_left_out_too(store_url: str) -> None:
    """Version 2 added `order`, and version 3 a field of it. Both literals may stand as they were written then."""
    migrate(store_url)
    first, second = VERSIONS["model"]
    entered: list[int] = []

    def one(cents: int) -> None:
        entered.append(1)

    def two(cents: int, order: Any = None) -> None:
        entered.append(2)

    def three(cents: int, order: Any = None) -> None:
        entered.append(3)

    two.__annotations__["order"], two.__defaults__ = first, (first(id="x"),)
    three.__annotations__["order"], three.__defaults__ = second, (second(id="x"),)
    words: dict[str, Any] = {"side_effect": "payment"}
    literals: list[dict[str, Any]] = [
        {"order": {"id": "x"}, "order.priority": 0},
        {"order": {"id": "x", "priority": 0}, "order.priority": 0},
    ]
    with Ledger.open(store_url, run="r", seal=False) as old, Ledger.open(store_url, run="r", seal=False) as middle:
        old.tool("pay", **words)(one)(5)
        middle.tool("pay", added={"order": {"id": "x"}}, **words)(two)(5)
        middle.tool("pay", added={"order": {"id": "x"}}, **words)(two)(6, first(id="y"))
        for added in literals:
            with Ledger.open(store_url, run="r", seal=False) as new:
                tool = new.tool("pay", added=added, **words)(three)
                tool(5)
                tool(6, second(id="y"))
    assert entered == [1, 2]


class Card(BaseModel):
    """A parameter with an alias and an object inside."""

    card_number: str = Field(alias="cardNumber")
    owner: dict[str, str] = {}


class Open(BaseModel):
    """A model that keeps what it has no field for."""

    model_config = ConfigDict(extra="allow")
    id: str


def charge(
    order: str, password: str, card: Card, rest: dict[str, Any], *more: Card, note: str = "", **params: Card
) -> str:
    """Take parameters of every kind."""
    return "charged"


def free(order: Any, kept: Open, password: str = "") -> str:
    """Take what tells little of itself."""
    return "charged"


NOWHERE: list[dict[str, Any]] = [
    {"redact": ["args.pasword"]},
    {"redact": ["card", "args.card.cardNumber"]},
    {"redact": ["args.order.number"]},
    {"redact": ["args.more.card_number"]},
    {"redact": ["args.number"]},
    {"redact": ["args.params.x.cardNumber"]},
    {"varies": ["nots"]},
    {"varies": ["card.cardNumber"]},
    {"key": ["ordr"]},
    {"key": ["card.number"]},
    {"added": {"currency": "usd"}},
    {"added": {"card.currency": "usd"}},
    {"added": {"more.card_number": "usd"}},
]
SOMEWHERE: list[dict[str, Any]] = [
    {"redact": ["args.password", "result.pasword", "*.pasword", "token", "args.*"]},
    {"redact": ["args.card.card_number", "args.card.owner.ssn", "args.rest.any.where[].at"]},
    {"redact": ["args.more[].card_number", "args.params.x.card_number", "args.*.card_number"]},
    {"varies": ["note", "card.owner.name", "rest.x"]},
    {"key": ["order", "card.card_number", "rest.x.y"]},
    {"added": {"note": "", "card.owner": {}, "rest.x": 1}},
]


@pytest.mark.parametrize("words", NOWHERE)
def test_95_a_place_that_no_call_has_is_refused_where_it_is_said(ledger: Ledger, words: dict[str, Any]) -> None:
    """A misspelt rule recorded the secret, and a misspelt `varies` made the call twice."""
    with pytest.raises(BadCall):
        ledger.tool("charge", **words)(charge)
    with pytest.raises(BadCall):
        FunctionCalls(ledger, {"charge": charge}, run="r", terms={"charge": words})
    tool = ledger.tool("charge", side_effect="payment")(charge)
    options = {word: value for word, value in words.items() if word == "redact"}
    identity = {word: value for word, value in words.items() if word != "redact"}
    args = {"order": "1", "password": "hunter22", "card": {"cardNumber": "1"}, "rest": {}}
    with pytest.raises(BadCall):
        ledger.run(ToolCall(tool="charge", args=args, run_id="r", **identity), tool.handler, **options)
    assert list(ledger.effects()) == []


@pytest.mark.parametrize("words", SOMEWHERE)
def test_95_a_place_that_a_call_may_have_is_taken(ledger: Ledger, words: dict[str, Any]) -> None:
    ledger.tool("charge", **words)(charge)
    FunctionCalls(ledger, {"charge": charge}, run="r", terms={"charge": words})


@pytest.mark.parametrize("word", ["subject", "scope", "turn", "exclusive", "resource"])
def test_95_each_word_that_names_an_argument_is_compared_with_the_function(ledger: Ledger, word: str) -> None:
    for path, is_there in (
        ("args.ordr", False),
        ("args.kept.x", True),
        ("args.password.x", False),
        ("args.order.x", True),
    ):
        said: Any = {"namespace": "n", "type": "t", "id": path} if word in ("exclusive", "resource") else path
        if is_there:
            ledger.tool(f"free-{path.replace('.', '-')}", **{word: said})(free)
        else:
            with pytest.raises(BadCall):
                ledger.tool("free", **{word: said})(free)


def test_95_what_is_said_of_every_tool_need_not_be_in_each(store_url: str) -> None:
    migrate(store_url)
    with Ledger.open(store_url, redact=["args.pin"], run="r") as ledger:
        ledger.tool("charge")(charge)
        FunctionCalls(ledger, {"charge": charge}, run="r", redact=["args.pin"], varies=["memo"])


@pytest.mark.parametrize(
    "words", ['varies = ["nots"]', 'key = ["ordr"]', "added = { currency = 1 }", 'scope = "args.x"']
)
def test_40_the_tools_of_a_server_name_parameters_of_their_function(tmp_path: Path, words: str) -> None:
    file = tmp_path / "tools.toml"
    file.write_text(f'[tools.free]\npython = "{__name__}:free"\n{words}\n')
    with pytest.raises(Misconfigured):
        load_tools(file)
    file.write_text(f'[tools.free]\npython = "{__name__}:free"\nvaries = ["order.note", "password"]\n')
    assert load_tools(file)
    file.write_text(f'[tools.charge]\npython = "{__name__}:charge"\nvaries = ["any"]\n')
    assert load_tools(file), "a function with **params takes every name"
