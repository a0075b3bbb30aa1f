"""FAULTS 54 and 55 and 38 through adapters: what a tool says of its calls holds through every door."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig

from indelible import Ledger, Resource, ToolCall, connect, migrate
from indelible.core.policy.explaining import explain
from indelible.core.policy.policy import Asked, Policy
from indelible.errors import BadCall, BadPolicy, KeyReused, Misconfigured, ResourceBusy
from indelible.integrations.function_calls import FunctionCalls
from indelible.integrations.langchain import LedgerMiddleware
from indelible.integrations.terms import Named, Terms
from indelible.server.gateway_tools import GatewayTool, load_tools
from tests.integrations.langchain_agents import Till, agent, calls, said
from tests.server.places import Place

ORDER = {"namespace": "shop", "type": "order", "id": "args.order"}


@pytest.fixture
def ledger(store_url: str) -> Iterator[Ledger]:
    migrate(store_url)
    with Ledger.open(store_url) as opened:
        yield opened


def thread(name: str) -> RunnableConfig:
    return {"configurable": {"thread_id": name}}


def in_thread(ledger: Ledger, till: Till, name: str, amount: int = 5, **words: Any) -> list[str]:
    """Let an agent of its own charge order 1 in a thread; return what it was told."""
    turns = [calls(("charge", {"order": "1", "amount": amount}, f"call-{name}")), AIMessage(content="done")]
    behind = agent(till, [LedgerMiddleware(ledger, side_effect="payment", on_error="tell", **words)], turns)
    result = behind.invoke({"messages": [("user", f"{name}: charge order 1")]}, thread(name))
    return [str(message.content) for message in said(result)]


@pytest.mark.parametrize(
    "words",
    [
        {"key": ["order"], "scope": "orders"},
        {"resource": ORDER, "scope": "orders"},
        {"resource": lambda args: Resource(namespace="shop", type="order", id=args["order"]), "scope": "orders"},
        {"terms": {"charge": {"scope": "args.order", "dedupe": "args"}}, "key": None},
        {"scope": lambda args: f"order {args['order']}", "dedupe": "args"},
    ],
)
def test_54_one_order_is_charged_once_from_two_threads(ledger: Ledger, words: dict[str, Any]) -> None:
    till = Till()
    first, again = in_thread(ledger, till, "t1", **words), in_thread(ledger, till, "t2", **words)
    assert till.charged == [("1", 5)]
    assert first == ["charged 5"]
    assert "charged 5" in again[0]
    (effect,) = ledger.effects(tool="charge")
    assert effect.run_id == "t1"


def test_54_the_same_order_with_another_amount_is_refused_in_another_thread(ledger: Ledger) -> None:
    till = Till()
    in_thread(ledger, till, "t1", key=["order"], scope="orders")
    (told,) = in_thread(ledger, till, "t2", 6, key=["order"], scope="orders")
    assert till.charged == [("1", 5)]
    assert "amount=5" in told


def test_54_only_one_call_on_an_order_is_open_in_all_threads(ledger: Ledger) -> None:
    till = Till()
    words = {"exclusive": ORDER, "approval": "required"}
    with pytest.raises(KeyError):  # the graph pauses, so no tool told the model anything
        _ = agent(till, [LedgerMiddleware(ledger, **words)]).invoke({"messages": [("user", "go")]}, thread("t1"))[
            "none"
        ]
    (told,) = in_thread(ledger, till, "t2", 6, **words)
    assert "another call on the same resource" in told
    assert till.charged == []


def test_54_words_that_come_from_the_arguments_mean_the_same_through_every_door(ledger: Ledger) -> None:
    words: dict[str, Any] = {"scope": "args.shop", "resource": ORDER, "turn": "args.message"}
    args = {"shop": "berlin", "order": 7, "message": "m1"}

    def pay(shop: str, order: int, message: str, amount: int = 5) -> None:
        raise NotImplementedError

    tool = ledger.tool("pay", **words)(pay)
    bound = tool.bind(**args)  # type: ignore[arg-type]
    completed = tool.completed(ToolCall(tool="pay", args=args))
    termed = Terms({"pay": words}, {}).call(Named(tool="pay", args={**args, "amount": 5}, run_id="r"))
    served = GatewayTool(name="pay", words={}, identity=words).call({**args, "amount": 5}, "r", None)  # type: ignore[arg-type]
    for call in (bound, completed, termed, served):
        assert (call.scope, call.turn) == ("berlin", "m1")
        assert call.resource == Resource(namespace="shop", type="order", id="7")


@pytest.mark.parametrize(
    "words",
    [
        {"scope": 5},
        {"turn": ["m1"]},
        {"resource": "order"},
        {"resource": {"namespace": "shop", "id": "args.order"}},
        {"resource": {"namespace": "shop", "type": "order", "id": 7}},
        {"resource": ORDER, "key": ["order"]},
        {"key": "order"},
        {"dedupe": "sometimes"},
        {"exclusive": "order"},
    ],
)
def test_54_words_that_fit_no_call_are_refused_when_they_are_said(sqlite_url: str, words: dict[str, Any]) -> None:
    with pytest.raises(BadCall):
        Terms({"pay": words}, {})
    with Ledger.open(sqlite_url, seal=False) as ledger, pytest.raises(BadCall):
        ledger.tool("pay", **words)(lambda order: None)


@pytest.mark.parametrize("value", [None, True, 1.5, ["1"], {"id": "1"}, ""])
def test_54_an_argument_that_names_nothing_makes_no_scope(value: Any) -> None:
    terms = Terms({"pay": {"scope": "args.order"}}, {})
    with pytest.raises(BadCall):
        terms.call(Named(tool="pay", args={"order": value}, run_id="r"))
    with pytest.raises(BadCall):
        terms.call(Named(tool="pay", args={}, run_id="r"))


def test_54_a_tool_that_names_a_resource_drops_the_key_of_every_tool() -> None:
    terms = Terms({"pay": {"resource": ORDER}, "ship": {}}, {"key": ["order"], "scope": "orders"})
    paid = terms.call(Named(tool="pay", args={"order": "1"}, run_id="r"))
    shipped = terms.call(Named(tool="ship", args={"order": "1"}, run_id="r"))
    assert (paid.key, shipped.key, paid.scope, shipped.scope) == (None, ["order"], "orders", "orders")


def test_54_calls_that_are_counted_keep_the_scope_of_their_tool() -> None:
    terms = Terms(None, {"dedupe": "occurrence", "scope": "orders", "varies": ["memo"]})
    first = terms.call(Named(tool="pay", args={"memo": "a"}, run_id="r", ordinal=1))
    second = terms.call(Named(tool="pay", args={"memo": "a"}, run_id="r", ordinal=2, call_id="c9"))
    assert (first.scope, first.varies, first.dedupe) == ("orders", ["memo"], "args")
    assert (second.scope, second.call_id, second.dedupe) == ("orders", "2", "call")


def test_54_a_loop_of_functions_and_a_decorated_tool_share_a_scope(ledger: Ledger) -> None:
    charged: list[int] = []

    def charge(order: str, amount: int = 5000) -> int:
        charged.append(amount)
        return amount

    words: dict[str, Any] = {"key": ["order"], "scope": "orders", "side_effect": "payment"}
    FunctionCalls(ledger, {"charge": charge}, run="t1", **words).answer([_asked("charge", '{"order": "1"}')])
    tool = ledger.tool("charge", **words)(charge)
    with ledger.in_run("t2"):
        assert tool("1") == 5000
        with pytest.raises(KeyReused):
            tool("1", 6)
    assert ledger.run(ToolCall(tool="charge", args={"order": "1"}, run_id="t3"), tool.handler) == 5000
    assert charged == [5000]


def test_54_exclusive_may_be_a_table_in_the_decorator_too(ledger: Ledger) -> None:
    tool = ledger.tool("charge", exclusive=ORDER, approval="required", wait=False)(lambda order, amount: amount)
    with ledger.in_run("r1"):
        ledger.ask(tool.bind("1", 5))
        with pytest.raises(ResourceBusy):
            ledger.begin(tool.bind("1", 6))


def _asked(name: str, arguments: str) -> dict[str, Any]:
    return {"id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}}


LISTED = {
    "tools": {"charge": {"side_effect": "payment"}},
    "rules": [{"name": "charge", "match": {"tool": "charge"}, "then": "allow"}],
}


@pytest.mark.parametrize("words", [{"policy": LISTED}, {"approval": "required"}])
def test_55_a_policy_that_lists_tools_does_not_stop_an_agent(store_url: str, words: dict[str, Any]) -> None:
    till = Till()
    migrate(store_url)
    with Ledger.open(store_url, **words) as ledger:
        behind = agent(till, [LedgerMiddleware(ledger, side_effect="payment")])
        behind.invoke({"messages": [("user", "go")]}, thread("t1"))
        if "policy" not in words:  # every tool call is asked about, and no record of ours
            (asked,) = ledger.approvals(status="pending")
            assert asked.tool == "charge"
            ledger.approve(asked, digest=asked.digest, by="ana")
            behind.invoke(None, thread("t1"))
        assert till.charged == [("1", 5)]
        assert [effect.status for effect in ledger.effects(tool="model.turn")] == ["succeeded"] * 2
        assert ledger.verify_run("t1").is_valid


@pytest.mark.parametrize(
    "words",
    [
        {"side_effect": "payment"},
        {"on_crash": "hold"},
        {"on_repeat": "ask"},
        {"exclusive": {"namespace": "shop", "type": "order", "id": "args.order"}},
    ],
    ids=lambda words: next(iter(words)),
)
def test_55_what_the_ledger_says_of_tool_calls_it_does_not_say_of_a_models_turn(
    store_url: str, words: dict[str, Any]
) -> None:
    """A ledger that takes each call for a payment asked a person whether the model may be asked."""
    migrate(store_url)
    asks = {"rules": [{"name": "ask", "match": {"side_effect": "payment"}, "then": "ask"}]}
    with Ledger.open(store_url, seal=False, policy=asks, **words) as ledger:
        with ledger.start_run("r1", agent="billing") as run:
            assert run.model_turn("m", {"ask": "what"}, lambda request: "charge") == "charge"
        [turn] = ledger.effects(tool="model.turn")
        assert (turn.status, turn.side_effect, turn.on_crash) == ("succeeded", "read", "retry")


def test_55_a_run_that_allows_few_tools_asks_its_model(ledger: Ledger) -> None:
    with ledger.start_run("r1", agent="billing", allowed_tools=["charge"]) as run:
        assert run.model_turn("m", {"ask": "what"}, lambda request: "charge") == "charge"


@pytest.mark.parametrize("side_effect", ["none", "read", "payment"])
@pytest.mark.parametrize("words", [{"policy": LISTED}, {"approval": "required"}])
def test_55_no_call_passes_by_the_name_of_our_record(store_url: str, words: dict[str, Any], side_effect: Any) -> None:
    """Any handler ran unjudged and unasked by that name, as long as its caller said that it only reads."""
    ran: list[str] = []
    migrate(store_url)
    call = ToolCall(tool="model.turn", args={"turn": 1}, run_id="r1")
    with Ledger.open(store_url, **words) as ledger:
        for door in (ledger.begin, ledger.ask, lambda *a, **w: ledger.run(*a, lambda effect: ran.append("paid"), **w)):
            with pytest.raises(BadCall):
                door(call, side_effect=side_effect)
        with ledger.start_run("r2", agent="billing") as run:
            assert run.model_turn("m", {"ask": "what"}, lambda request: "charge") == "charge"
        assert [effect.run_id for effect in ledger.effects()] == ["r2"]
    assert ran == []


def test_55_no_call_passes_by_the_name_of_our_record_over_http(store_url: str) -> None:
    place = Place(store_url, policy=Policy.of(LISTED))
    try:
        for side_effect in ("none", "read"):
            begun = place.begin(tool="model.turn", args={"turn": 1}, run_id="r1", side_effect=side_effect)
            assert begun.status_code == 400
        with connect(place.served.url, token=place.tokens["agent"]) as client:
            with pytest.raises(BadCall):
                client.begin(ToolCall(tool="model.turn", run_id="r1"), side_effect="read")
            with client.start_run("r2", agent="billing") as run:
                assert run.model_turn("m", {"ask": "what"}, lambda request: "charge") == "charge"
    finally:
        place.close()


def test_55_no_tool_can_have_the_name_of_our_record(sqlite_url: str, tmp_path: Path) -> None:
    with pytest.raises(BadCall):
        Terms(None, {"side_effect": "read"}).call(Named(tool="model.turn", args={}, run_id="r"))
    with Ledger.open(sqlite_url, seal=False) as ledger, pytest.raises(BadCall):
        ledger.tool("model.turn", side_effect="read")(lambda: None)
    tools = tmp_path / "tools.toml"
    tools.write_text('[tools."model.turn"]\nurl = "https://tools.example/turn"\nside_effect = "read"\n')
    with pytest.raises(Misconfigured):
        load_tools(tools)
    with pytest.raises(BadPolicy):
        Policy.of({"rules": [{"name": "turns", "match": {"tool": "model.turn"}, "then": "refuse"}]})


def test_55_a_policy_explains_that_it_does_not_judge_a_record() -> None:
    policy = Policy.of(LISTED)
    asked = Asked(
        tenant="t",
        tool="model.turn",
        side_effect="read",
        agent="a",
        principal=None,
        run_id="r",
        environment="",
        args={},
        schema="",
    )
    assert policy.judge(asked).decision == "allow"
    assert explain(policy, asked).looks == ()
    assert policy.judge(replace(asked, side_effect="payment")).decision == "refuse"


class Region(enum.StrEnum):
    """Names a place, and is the text of its value."""

    EU = "eu"


@pytest.mark.parametrize(
    ("one", "same"),
    [
        (datetime(2026, 5, 6, 10, tzinfo=UTC), datetime(2026, 5, 6, 11, tzinfo=timezone(timedelta(hours=1)))),
        (Decimal("1.10"), Decimal("1.1")),
        (Region.EU, "eu"),
    ],
)
@pytest.mark.parametrize(
    "words", [{"scope": "args.slot"}, {"scope": "all", "resource": {"namespace": "n", "type": "t", "id": "args.slot"}}]
)
def test_54_a_scope_or_resource_is_made_of_the_recorded_argument(
    ledger: Ledger, words: dict[str, Any], one: Any, same: Any
) -> None:
    entered: list[Any] = []

    @ledger.tool(side_effect="payment", **words)
    def book(slot: Any, room: str) -> int:
        entered.append(slot)
        return len(entered)

    for slot in (one, same):
        with ledger.in_run(f"order-{slot}"):
            assert book(slot, "a") == 1
    assert len(entered) == 1
