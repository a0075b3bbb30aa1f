"""FAULT 54: an approver is told that the same call ran or waits in another run, or under another key."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage

from indelible import AsyncLedger, AwaitingApproval, Ledger, ToolCall, migrate
from indelible.core.approvals.deliveries import read_delivery
from indelible.core.sheets import SheetFilter
from indelible.integrations.function_calls import FunctionCalls
from indelible.integrations.langchain import LedgerMiddleware
from indelible.notify import wording
from indelible.notify.sending import message_for
from indelible.notify.slack_blocks import sight_of
from indelible.notify.webhook import content_of
from indelible.testing import FakeClock
from tests.cli.conftest import Cli, cli, ledger_url
from tests.integrations.langchain_agents import Till, agent, calls
from tests.integrations.test_mcp import MODES, Bank, Person, anyio_backend, behind
from tests.server.places import Place

__all__ = ["Cli", "anyio_backend", "cli", "ledger_url"]
ARGS = {"order": "1", "amount": 5}


@pytest.fixture
def ledger(store_url: str) -> Iterator[Ledger]:
    migrate(store_url)
    with Ledger.open(store_url) as opened:
        yield opened


def refund(run: str, **words: Any) -> ToolCall:
    return ToolCall(tool="refund", args=ARGS, run_id=run, **words)


def asked(ledger: Ledger, run: str, **words: Any) -> AwaitingApproval:
    begun = ledger.begin(refund(run, **words), side_effect="payment", approval="required")
    assert isinstance(begun, AwaitingApproval)
    return begun


def runs_told_of(ledger: Ledger, asked_about: AwaitingApproval) -> list[tuple[str, str]]:
    view = ledger.view_approval(asked_about.approval.id)
    assert tuple(view.elsewhere) == tuple(ledger.elsewhere(asked_about.approval))
    return [(one.run_id, one.status) for one in view.elsewhere]


def test_54_what_ran_and_what_waits_elsewhere_is_told(ledger: Ledger) -> None:
    ledger.run(refund("ran"), lambda effect: "done", side_effect="payment")
    first = asked(ledger, "first")
    second = asked(ledger, "second")
    own_key = asked(ledger, "second", key=["order"])
    ledger.run(
        ToolCall(tool="refund", args={**ARGS, "amount": 6}, run_id="other"), lambda effect: 0, side_effect="payment"
    )
    ledger.run(ToolCall(tool="ship", args=ARGS, run_id="other"), lambda effect: 0, side_effect="payment")
    ledger.run(refund("looked"), lambda effect: 0, side_effect="read")
    told = runs_told_of(ledger, first)
    assert told == [("second", "requires_approval"), ("second", "requires_approval"), ("ran", "succeeded")]
    assert len(runs_told_of(ledger, second)) == len(runs_told_of(ledger, own_key)) == 3
    ledger.approve(second.approval, digest=second.approval.digest, by="ana")
    ledger.run(refund("second"), lambda effect: "done", side_effect="payment", approval="required")
    assert ("second", "succeeded") in runs_told_of(ledger, first)


def test_54_what_was_asked_for_long_ago_is_not_told(store_url: str) -> None:
    migrate(store_url)
    clock = FakeClock(datetime.now(UTC))  # the store's; what a process does, it stamps by its own
    with Ledger.open(store_url, seal=False, clock=clock) as ledger:
        ledger.run(refund("ran"), lambda effect: "done", side_effect="payment")
        clock.advance(timedelta(hours=23))
        assert runs_told_of(ledger, asked(ledger, "first")) == [("ran", "succeeded")]
        clock.advance(timedelta(hours=2))
        assert runs_told_of(ledger, asked(ledger, "second")) == []


def test_54_an_edit_is_compared_too(ledger: Ledger) -> None:
    ledger.run(ToolCall(tool="refund", args={"order": "2", "amount": 5}, run_id="ran"), lambda effect: 0)
    first = asked(ledger, "first")
    assert runs_told_of(ledger, first) == []
    approval = first.approval
    ledger.edit_approval(approval, {"order": "2", "amount": 5}, digest=approval.digest, by="ana")
    assert runs_told_of(ledger, first) == [("ran", "succeeded")]


def test_54_the_command_line_tells_it(ledger_url: str, cli: Cli) -> None:
    with Ledger.open(ledger_url) as ledger:
        ledger.run(refund("ran"), lambda effect: "done", side_effect="payment")
        question = asked(ledger, "first").approval
        (effect,) = ledger.effects(run_id="ran")
    assert effect.id in cli("approvals", "show", question.id).out
    assert effect.id in cli("approvals", "list").out
    shown, listed = cli("approvals", "show", question.id, "--json").json, cli("approvals", "list", "--json").json
    (told,) = shown["elsewhere"]
    assert (told["effect_id"], told["run_id"], told["status"]) == (effect.id, "ran", "succeeded")
    assert listed["approvals"][0]["elsewhere"] == [told]


def test_54_http_tells_it(store_url: str, tmp_path: Path) -> None:
    place = Place(store_url, keys=tmp_path / "keys")
    try:
        claim = place.begin(run_id="ran", side_effect="payment").json()
        assert place.commit(claim).status_code == 200
        question = place.begin(run_id="first", side_effect="payment", approval="required").json()["approval"]
        (told,) = place.get(f"/v1/approvals/{question['id']}", "ana").json()["elsewhere"]
        assert (told["effect_id"], told["run_id"], told["status"]) == (claim["effect"]["id"], "ran", "succeeded")
        viewed = place.post(f"/v1/approvals/{question['id']}/views", {}, "ana").json()
        (listed,) = place.get("/v1/approvals", "ana").json()["approvals"]
        assert viewed["elsewhere"] == listed["elsewhere"] == [told]
        with Ledger.open(place.served.url, token=place.tokens["ana"]) as ledger:  # a client of the store's questions
            found = ledger.elsewhere(ledger.approvals()[0])
            assert [one.shown() for one in found] == [told]
    finally:
        place.close()


def test_54_messages_tell_it(store_url: str) -> None:
    migrate(store_url)
    rules = {"approvals": {"notify": ["slack"]}, "rules": [{"name": "asks", "then": "ask"}]}
    with Ledger.open(store_url) as ledger:
        ledger.run(refund("ran"), lambda effect: "done", side_effect="payment")
        (effect,) = ledger.effects(run_id="ran")
    with Ledger.open(store_url, policy=rules) as ledger:
        begun = ledger.begin(refund("first"), side_effect="payment")
        assert isinstance(begun, AwaitingApproval)
        store = ledger._engine.store
        (delivery,) = store.sheets(ledger.tenant, SheetFilter(kind="delivery", limit=1))
        message, _ = message_for(store, ledger.tenant, read_delivery(delivery), None)
    assert [value for name, value in wording.facts(message) if effect.id in value]
    assert effect.id in str(sight_of(message).blocks)
    assert content_of(message)["data"]["elsewhere"][0]["effect_id"] == effect.id


def test_54_the_pause_of_a_graph_tells_it_and_shows_what_would_run(ledger: Ledger) -> None:
    words: dict[str, Any] = {"side_effect": "payment", "approval": "required"}
    till, args = Till(), {"order": "1", "amount": 5}

    def paused(name: str) -> dict[str, Any]:
        turns = [calls(("charge", args, f"call-{name}")), AIMessage(content="done")]
        graph = agent(till, [LedgerMiddleware(ledger, **words)], turns)
        config: Any = {"configurable": {"thread_id": name}}
        (stop,) = graph.invoke({"messages": [("user", "go")]}, config)["__interrupt__"]
        return dict(stop.value)

    first, second = paused("t1"), paused("t2")
    assert (first["elsewhere"], first["args"], second["args"]) == ([], args, args)
    (told,) = second["elsewhere"]
    assert (told["run_id"], told["status"]) == ("t1", "requires_approval")


def test_54_a_loop_of_functions_tells_it(ledger: Ledger) -> None:
    def refund(order: str) -> str:
        return order

    waiting = []
    for run in ("t1", "t2"):
        loop = FunctionCalls(ledger, {"refund": refund}, run=run, side_effect="payment", approval="required")
        function = {"name": "refund", "arguments": '{"order": "1"}'}
        waiting += loop.answer([{"id": "c1", "type": "function", "function": function}]).waiting
    assert [[one.run_id for one in each.elsewhere] for each in waiting] == [[], ["t1"]]


@pytest.mark.anyio
@pytest.mark.parametrize("mode", MODES)
async def test_54_mcp_tells_it_and_shows_what_would_run_after_an_edit(store_url: str, mode: str) -> None:
    migrate(store_url)
    args, words = {"to": "ana", "amount": 5}, {"side_effect": "payment", "approval": "required"}
    bank, person = Bank(), Person("decline")
    async with AsyncLedger.open(store_url, seal=False) as ledger:
        await ledger.run(ToolCall(tool="pay", args=args, run_id="ran"), _done)
        async with behind(ledger, bank, mode=mode, person=person, **words) as client:
            await client.call_tool("pay", args)
            (question,) = await ledger.approvals(status="pending")
            await ledger.edit_approval(question, {**args, "amount": 7}, digest=question.digest, by="ana")
            await client.call_tool("pay", args)
    first, second = person.asked
    assert ("in run ran" in first, '"amount": 5' in first) == (True, True)
    assert ('"amount": 7' in second, '"amount": 5' in second) == (True, False)


async def _done(effect: Any) -> str:
    return "done"
