"""LangChain and LangGraph behind the ledger: once, with permission, by the framework's own pause and resume."""

from __future__ import annotations

import asyncio
import hmac
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import pytest
from langchain.agents.middleware import (
    AgentMiddleware,
    ModelRetryMiddleware,
    SummarizationMiddleware,
    ToolRetryMiddleware,
)
from langchain.agents.middleware.tool_error import ToolErrorMiddleware
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId, StructuredTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphInterrupt, ParentCommand
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt
from pydantic import BaseModel, Field

from indelible import AsyncLedger, Ledger, MayHaveHappened, Succeeded, migrate
from indelible.errors import BadCall, StillRunning, StoreError
from indelible.integrations import entries
from indelible.integrations.langchain import LedgerMiddleware, ledger_tool_node
from indelible.integrations.langgraph_values import kept, revived
from indelible.stores.postgres.store import PostgresStore
from tests.integrations.langchain_agents import HELLO, THREAD, Scripted, Till, agent, calls, create_agent, said
from tests.stores.postgres.disturbing import give_time
from tests.waiting import PATIENCE


@pytest.fixture
def ledger(store_url: str) -> Iterator[Ledger]:
    migrate(store_url)
    with Ledger.open(store_url) as opened:
        yield opened


@pytest.fixture
def quick(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(f"sqlite:///{tmp_path / 'quick.db'}") as opened:
        yield opened


ASKING = {"charge": {"side_effect": "payment", "approval": "required"}}


def test_a_tool_call_runs_once_and_replays_when_the_node_is_entered_again(ledger: Ledger) -> None:
    till = Till()
    saver = InMemorySaver()
    gone = agent(till, [LedgerMiddleware(ledger)], saver=saver)
    assert said(gone.invoke(HELLO, THREAD))[0].content == "charged 5"
    (before,) = [one for one in gone.get_state_history(THREAD) if one.next == ("tools",)]
    again = gone.invoke(None, before.config)
    (message,) = said(again)
    assert (message.content, message.tool_call_id, message.artifact) == ("charged 5", "c1", {"replayed": True})
    assert till.charged == [("1", 5)]
    (effect,) = ledger.effects(tool="charge")
    assert (effect.run_id, effect.call_id, effect.status) == ("order-123", "c1", "succeeded")


PAYING = {"charge": {"side_effect": "payment"}}
SAME = {"order": "1", "amount": 5}


def once(call_id: str) -> list[Any]:
    """Gives the turns of a model that charges once; a graph gives each message an id, so they are new each time."""
    return [calls(("charge", SAME, call_id)), AIMessage(content="done")]


@pytest.mark.parametrize("second", ["c2", "c1"], ids=["a new id", "the same id, as models that count from zero give"])
def test_53_a_model_that_repeats_a_payment_in_one_turn_pays_once_and_hears_so(ledger: Ledger, second: str) -> None:
    till = Till()
    turns = [calls(("charge", SAME, "c1")), calls(("charge", SAME, second)), AIMessage(content="done")]
    result = agent(till, [LedgerMiddleware(ledger, terms=PAYING)], turns).invoke(HELLO, THREAD)
    first, again = said(result)
    assert till.charged == [("1", 5)]
    assert first.content == "charged 5"
    assert (again.tool_call_id, again.status) == (second, "success")
    (effect,) = ledger.effects(tool="charge")
    assert (effect.id in again.content) == (second != "c1"), "a repeat of the model's says so; a resumed call does not"


def test_53_in_the_next_turn_a_repeated_payment_asks_a_person(ledger: Ledger) -> None:
    till, saver = Till(), InMemorySaver()
    paying = [LedgerMiddleware(ledger, terms=PAYING)]
    agent(till, paying, once("call_0"), saver=saver).invoke(HELLO, THREAD)
    later = agent(till, paying, once("call_0"), saver=saver)
    (asked,) = later.invoke(HELLO, THREAD)["__interrupt__"]
    assert (asked.value["type"], till.charged) == ("indelible.approval", [("1", 5)])
    (approval,) = ledger.approvals(status="pending")
    ledger.approve(approval, digest=approval.digest, by="ana")
    result = later.invoke(Command(resume="go on"), THREAD)
    assert said(result)[-1].content == "charged 5"
    assert till.charged == [("1", 5), ("1", 5)]
    assert len(ledger.effects(tool="charge")) == 2


def test_in_the_next_turn_a_notification_goes_out_again(quick: Ledger) -> None:
    till, saver, terms = Till(), InMemorySaver(), {"charge": {"side_effect": "notification"}}
    for _ in range(2):
        agent(till, [LedgerMiddleware(quick, terms=terms)], once("call_0"), saver=saver).invoke(HELLO, THREAD)
    assert len(till.charged) == 2


def test_53_what_reads_reads_anew(ledger: Ledger) -> None:
    till, terms = Till(), {"charge": {"side_effect": "read"}}
    turns = [calls(("charge", SAME, "c1")), calls(("charge", SAME, "c2")), AIMessage(content="done")]
    result = agent(till, [LedgerMiddleware(ledger, terms=terms)], turns).invoke(HELLO, THREAD)
    assert len(till.charged) == 2
    assert [message.content for message in said(result)] == ["charged 5", "charged 5"]


def test_37_a_lost_answer_leaves_doubt_and_the_model_hears_of_no_failure(ledger: Ledger) -> None:
    def lost(order: str, amount: int) -> Any:
        raise ConnectionResetError("peer")

    till = Till(lost)
    doubtful = agent(till, [LedgerMiddleware(ledger, terms=PAYING, on_error="tell")])
    result = doubtful.invoke(HELLO, THREAD)
    (asked,) = result["__interrupt__"]
    assert asked.value["type"] == "indelible.in_doubt"
    assert said(result) == []
    assert [effect.status for effect in ledger.effects(tool="charge")] == ["in_doubt"]
    assert len(till.charged) == 1


def test_38_a_default_that_the_model_leaves_out_is_judged_shown_and_is_the_same_call(ledger: Ledger) -> None:
    refunded: list[int] = []

    @tool
    def charge(order: str, amount: int = 5000) -> str:
        """Refunds."""
        refunded.append(amount)
        return "refunded"

    till = Till()
    till.tool = charge
    ledger.apply_policy(
        {"rules": [{"name": "much", "match": {"args": {"amount": {"gt": 1000}}}, "then": "ask"}]}, by="a"
    )
    left_out, spelled = ("charge", {"order": "1"}, "c1"), ("charge", {"order": "1", "amount": 5000}, "c2")
    asking = agent(till, [LedgerMiddleware(ledger, terms=PAYING)], [calls(left_out), AIMessage(content="done")])
    asking.invoke(HELLO, THREAD)
    (approval,) = ledger.approvals(status="pending")
    assert ledger.view_approval(approval).args == {"order": "1", "amount": 5000}
    ledger.approve(approval, digest=approval.digest, by="ana")
    asking.invoke(Command(resume="go on"), THREAD)
    assert refunded == [5000]
    both = agent(till, [LedgerMiddleware(ledger, terms=PAYING, run="both")], [calls(left_out, spelled)])
    both.invoke(HELLO, THREAD)
    assert len(ledger.effects(tool="charge", run_id="both")) == 1


def test_a_tool_with_key_fields_is_told_apart_by_them_and_answers_under_the_new_id(quick: Ledger) -> None:
    till, args = Till(), {"order": "1", "amount": 5}
    turns = [calls(("charge", args, "c1")), calls(("charge", args, "c2")), AIMessage(content="done")]
    result = agent(till, [LedgerMiddleware(quick, terms={"charge": {"key": ["order"]}})], turns).invoke(HELLO, THREAD)
    assert len(till.charged) == 1
    assert [message.tool_call_id for message in said(result)] == ["c1", "c2"]


def test_an_approval_pauses_the_agent_and_a_resume_alone_approves_nothing(ledger: Ledger) -> None:
    till = Till()
    asking = agent(till, [LedgerMiddleware(ledger, terms=ASKING)])
    (asked,) = asking.invoke(HELLO, THREAD)["__interrupt__"]
    assert asked.value["type"] == "indelible.approval"
    for answer in (True, "approve", {"type": "approve"}, {"type": "approve", "by": "ana", "digest": "0" * 64}):
        (asked,) = asking.invoke(Command(resume=answer), THREAD)["__interrupt__"]
        assert till.charged == []
    (approval,) = ledger.approvals(status="pending")
    assert (asked.value["approval"], asked.value["digest"]) == (approval.id, approval.digest)
    ledger.approve(approval, digest=approval.digest, by="ana")
    result = asking.invoke(Command(resume="go on"), THREAD)
    assert said(result)[0].content == "charged 5"
    assert till.charged == [("1", 5)]


def test_a_refusal_is_told_to_the_model(quick: Ledger) -> None:
    till = Till()
    asking = agent(till, [LedgerMiddleware(quick, terms=ASKING)])
    asking.invoke(HELLO, THREAD)
    quick.deny(quick.approvals()[0], by="ana", reason="not this one")
    result = asking.invoke(Command(resume="go on"), THREAD)
    (message,) = said(result)
    assert message.status == "error"
    assert "not this one" in message.content
    assert till.charged == []


def proof(by: str, digest: str) -> str:
    return hmac.digest(b"the secret of the page where people sign in", f"{by} {digest}".encode(), "sha256").hex()


def proven(answer: Mapping[str, Any], config: Any) -> str | None:
    by = answer.get("by", "")
    return by if hmac.compare_digest(proof(by, answer["digest"]), answer.get("proof", "")) else None


def test_an_answer_that_proves_who_made_it_is_their_vote_where_the_integrator_says_so(quick: Ledger) -> None:
    till = Till()
    asking = agent(till, [LedgerMiddleware(quick, terms=ASKING, decided_by=proven)])
    (asked,) = asking.invoke(HELLO, THREAD)["__interrupt__"]
    digest, other = asked.value["digest"], "0" * 64
    for answer in (
        {"type": "approve", "digest": digest, "by": "ana"},
        {"type": "approve", "digest": digest, "by": "ana", "proof": proof("bob", digest)},
        {"type": "approve", "digest": digest, "by": 7, "proof": "é"},  # decided_by itself raises
        {"type": "approve", "digest": digest, "by": "ana", "proof": proof("ana", digest), "signature": "?"},
        "approve",
        {"type": "approve", "digest": other, "by": "ana", "proof": proof("ana", other)},
    ):
        (again,) = asking.invoke(Command(resume=answer), THREAD)["__interrupt__"]
        assert till.charged == []
        assert quick.approvals()[0].votes == ()
    assert "something else" in again.value["not_counted"]
    asking.invoke(
        Command(resume={"type": "approve", "digest": digest, "by": "ana", "proof": proof("ana", digest)}), THREAD
    )
    assert till.charged == [("1", 5)]
    (vote,) = quick.approvals()[0].votes
    assert vote.by == "ana"


def test_of_parallel_calls_one_is_denied_and_the_others_run_once(ledger: Ledger) -> None:
    till = Till()
    three = [("charge", {"order": str(n), "amount": n}, f"c{n}") for n in (1, 2, 3)]
    asking = agent(till, [LedgerMiddleware(ledger, terms=ASKING)], [calls(*three), AIMessage(content="done")])
    asked = asking.invoke(HELLO, THREAD)["__interrupt__"]
    by_call = {one.value["tool_call_id"]: one.value for one in asked}
    assert set(by_call) == {"c1", "c2", "c3"}
    ledger.deny(by_call["c2"]["approval"], by="ana", reason="no")
    ledger.approve(by_call["c1"]["approval"], digest=by_call["c1"]["digest"], by="ana")
    (open_,) = asking.invoke(Command(resume={one.id: "go" for one in asked}), THREAD)["__interrupt__"]
    assert open_.value["tool_call_id"] == "c3"
    ledger.approve(by_call["c3"]["approval"], digest=by_call["c3"]["digest"], by="ana")
    result = asking.invoke(Command(resume={open_.id: "go"}), THREAD)
    assert {message.tool_call_id: message.status for message in said(result)} == {
        "c1": "success",
        "c2": "error",
        "c3": "success",
    }
    assert sorted(till.charged) == [("1", 1), ("3", 3)]


def test_arguments_that_were_changed_in_the_stored_state_are_refused(quick: Ledger) -> None:
    till = Till()
    asking = agent(till, [LedgerMiddleware(quick, terms=ASKING)])
    asking.invoke(HELLO, THREAD)
    (approval,) = quick.approvals()
    quick.approve(approval, digest=approval.digest, by="ana")
    turn = asking.get_state(THREAD).values["messages"][-1]
    changed = calls(("charge", {"order": "1", "amount": 5000}, "c1"))
    asking.update_state(THREAD, {"messages": [changed.model_copy(update={"id": turn.id})]}, as_node="model")
    asking.invoke(None, THREAD)
    assert till.charged == []
    assert [one.status for one in quick.approvals(tool="charge")] == ["pending", "approved"], "other arguments ask anew"


def test_a_tool_in_doubt_pauses_the_agent_until_a_person_has_settled_it(quick: Ledger) -> None:
    def lost(order: str, amount: int) -> Any:
        raise MayHaveHappened("the line went dead")

    till = Till(lost)
    doubtful = agent(till, [LedgerMiddleware(quick)])
    (asked,) = doubtful.invoke(HELLO, THREAD)["__interrupt__"]
    assert asked.value["type"] == "indelible.in_doubt"
    doubtful.invoke(Command(resume="it is fine, I promise"), THREAD)
    quick.settle(asked.value["effect"], Succeeded("charged, says the bank"), by="ana", evidence="statement 7")
    result = doubtful.invoke(Command(resume="go on"), THREAD)
    assert said(result)[0].content == "charged, says the bank"
    assert len(till.charged) == 1


@pytest.mark.parametrize(
    "outer", [ToolRetryMiddleware(max_retries=0), ToolErrorMiddleware(on_error=lambda *_: "again")]
)
def test_53_middleware_that_tells_of_errors_says_nothing_of_a_call_in_doubt(store_url: str, outer: Any) -> None:
    def lost(order: str, amount: int) -> Any:
        raise ConnectionError("the answer is lost")

    till = Till(lost)
    migrate(store_url)
    with Ledger.open(store_url, seal=False) as ledger:
        result = agent(till, [outer, LedgerMiddleware(ledger)]).invoke(HELLO, THREAD)
        (effect,) = ledger.effects(tool="charge")
    assert effect.status == "in_doubt"
    assert (said(result), result["__interrupt__"][0].value["effect"]) == ([], effect.id)
    assert len(till.charged) == 1


class Reminds(AgentMiddleware[Any, Any, Any]):
    """Adds a message before each question to the model."""

    def before_model(self, state: Any, runtime: Any) -> dict[str, Any]:
        return {"messages": [HumanMessage("keep it short")]}


@pytest.mark.parametrize("how", ["summary", "reminder"])
def test_54_a_history_that_other_middleware_changes_begins_no_new_turn(store_url: str, how: str) -> None:
    sent: list[str] = []

    @tool
    def notify(to: str) -> str:
        """Notify."""
        sent.append(to)
        return "sent"

    said_again = [calls(("notify", {"to": "ana"}, f"call_{n}xy")) for n in range(6)]
    summary = Scripted(responses=[AIMessage(content="so far")])
    shortens = SummarizationMiddleware(model=summary, trigger=("messages", 4), keep=("messages", 2))
    migrate(store_url)
    with Ledger.open(store_url, seal=False) as ledger:
        behind = LedgerMiddleware(ledger, model_turns=False, side_effect="notification")
        graph: Any = create_agent(
            Scripted(responses=[*said_again[:5], AIMessage(content="done"), said_again[5], AIMessage(content="done")]),
            [notify],
            middleware=[shortens if how == "summary" else Reminds(), behind],
            checkpointer=InMemorySaver(),
        )
        graph.invoke({"messages": [HumanMessage("tell ana", id="m1")]}, THREAD)
        assert (sent, [one.turn for one in ledger.effects(tool="notify")]) == (["ana"], ["m1"])
        graph.invoke({"messages": [HumanMessage("tell ana again", id="m2")]}, THREAD)
        assert sorted(str(one.turn) for one in ledger.effects(tool="notify")) == ["m1", "m2"]


def test_a_tool_that_failed_stays_failed_and_the_model_is_told_of_it_on_the_second_look(quick: Ledger) -> None:
    def refused(order: str, amount: int) -> Any:
        raise ValueError("card expired")

    till = Till(refused)
    failing = agent(till, [LedgerMiddleware(quick, failed_on=ValueError)])
    with pytest.raises(ValueError, match="card expired"):
        failing.invoke(HELLO, THREAD)
    (message,) = said(failing.invoke(None, THREAD))
    assert (message.status, message.content) == ("error", "card expired")
    assert len(till.charged) == 1
    told = agent(till, [LedgerMiddleware(quick, on_error="tell", run="another", failed_on=ValueError)])
    (message,) = said(told.invoke(HELLO, THREAD))
    assert message.content == "card expired"


def test_arguments_that_a_tool_reads_otherwise_than_it_shows_them_reach_it_as_the_model_said(quick: Ledger) -> None:
    class Terms(BaseModel):
        amount: int = Field(default=10, alias="amt")

    paid: list[int] = []

    @tool(args_schema=Terms)
    def charge(amount: int) -> str:
        """Charges."""
        paid.append(amount)
        return "charged"

    till = Till()
    till.tool = charge
    turns = [calls(("charge", {"amt": 500}, "c1")), AIMessage(content="done")]
    agent(till, [LedgerMiddleware(quick)], turns).invoke(HELLO, THREAD)
    assert paid == [500]
    assert quick.effects(tool="charge")[0].args == {"amt": 500}


def test_arguments_that_a_tool_does_not_take_are_told_to_the_model_as_ever(quick: Ledger) -> None:
    till = Till()
    turns = [calls(("charge", {"order": "1", "amount": "many"}, "c1")), AIMessage(content="done")]
    (message,) = said(agent(till, [LedgerMiddleware(quick)], turns).invoke(HELLO, THREAD))
    assert message.status == "error"
    assert till.charged == []
    assert [effect.status for effect in quick.effects(tool="charge")] == []


def test_a_command_that_a_tool_gives_is_kept_and_replayed(quick: Ledger) -> None:
    till = Till()

    @tool
    def charge(order: str, amount: int, tool_call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
        """Charges an order and says so in the graph's state."""
        till.charged.append((order, amount))
        message = ToolMessage(content="charged", tool_call_id=tool_call_id)
        return Command(update={"messages": [message], "jump_to": None})

    till.tool = charge
    commanding = agent(till, [LedgerMiddleware(quick)])
    assert said(commanding.invoke(HELLO, THREAD))[0].content == "charged"
    (before,) = [one for one in commanding.get_state_history(THREAD) if one.next == ("tools",)]
    (message,) = said(commanding.invoke(None, before.config))
    assert (message.content, message.tool_call_id) == ("charged", "c1")
    assert len(till.charged) == 1


def test_a_tool_that_pauses_the_graph_itself_is_resumed_and_recorded_once(quick: Ledger) -> None:
    till = Till(lambda order, amount: f"the user says {interrupt('sure?')}")
    pausing = agent(till, [LedgerMiddleware(quick, nothing_on=GraphInterrupt)])
    (asked,) = pausing.invoke(HELLO, THREAD)["__interrupt__"]
    assert asked.value == "sure?"
    result = pausing.invoke(Command(resume="yes"), THREAD)
    assert said(result)[0].content == "the user says yes"
    (effect,) = quick.effects(tool="charge")
    assert effect.status == "succeeded"


def test_a_models_turn_is_asked_for_once(quick: Ledger) -> None:
    till = Till()

    class Broken(AgentMiddleware):
        """Dies once, after the model has answered and before that is in the stored state."""

        is_dead = False

        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            answer = handler(request)
            if not self.is_dead:
                self.is_dead = True
                raise KeyboardInterrupt
            return answer

    turns = [calls(("charge", {"order": "1", "amount": 5}, "c1")), AIMessage(content="done"), AIMessage(content="?")]
    broken = agent(till, [Broken(), LedgerMiddleware(quick)], turns)
    with pytest.raises(KeyboardInterrupt):
        broken.invoke(HELLO, THREAD)
    result = broken.invoke(None, THREAD)
    assert result["messages"][-1].content == "done", "a turn that had been asked for again would have been '?'"
    assert len(quick.effects(tool="model.turn")) == 2


def test_a_store_that_is_down_lets_no_tool_run(postgres_server: Any) -> None:
    till = Till()
    url = postgres_server.create_database("langchain_down")
    migrate(url)
    store = PostgresStore(url, wakeups=False)
    with closing(store), Ledger.open(store=store) as ledger:
        closed = agent(till, [LedgerMiddleware(ledger, model_turns=False)])
        postgres_server.kill()
        give_time(store, 0.5)
        with pytest.raises(StoreError):
            closed.invoke(HELLO, THREAD)
        assert till.charged == []
        postgres_server.start()
        give_time(store, PATIENCE)
        closed.invoke(None, THREAD)
        assert till.charged == [("1", 5)]


def test_a_graph_without_a_thread_is_told_to_name_one(quick: Ledger) -> None:
    node = ledger_tool_node([Till().tool], quick)
    graph = StateGraph(MessagesState).add_node("tools", node).add_edge(START, "tools").compile()
    with pytest.raises(BadCall, match="thread_id"):
        graph.invoke({"messages": [calls(("charge", {"order": "1", "amount": 5}, "c1"))]})


def test_a_word_that_says_nothing_of_a_tool_is_refused(quick: Ledger) -> None:
    with pytest.raises(BadCall, match="sideeffect"):
        LedgerMiddleware(quick, terms={"charge": {"sideeffect": "payment"}})


def raw_graph(till: Till, ledger: Any, **words: Any) -> Any:
    node = ledger_tool_node([till.tool], ledger, **words)
    graph = StateGraph(MessagesState).add_node("tools", node).add_edge(START, "tools")
    return graph.compile(checkpointer=InMemorySaver())


def test_a_summary_of_the_history_begins_no_new_turn_in_a_raw_graph(quick: Ledger) -> None:
    till = Till()
    for call_id in ("c1", "c2"):
        model = Scripted(responses=[AIMessage(content=f"so far, before {call_id}")])
        shortens: Any = SummarizationMiddleware(model=model, trigger=("messages", 2), keep=("messages", 1))
        asked = [HumanMessage("pay order 1"), AIMessage(content="I look it up"), AIMessage(content="found")]
        _, *shortened = shortens.before_model({"messages": asked}, None)["messages"]
        messages = [*shortened, calls(("charge", SAME, call_id))]
        result = raw_graph(till, quick, terms=PAYING).invoke({"messages": messages}, THREAD)
        assert [one.tool_call_id for one in said(result)] == [call_id], "and nobody is asked about a repeat"
    assert till.charged == [("1", 5)]


def test_parallel_calls_of_one_node_ask_one_after_the_other_and_each_runs_once(quick: Ledger) -> None:
    till = Till()
    graph = raw_graph(till, quick, terms=ASKING)
    two = calls(*(("charge", {"order": str(n), "amount": n}, f"c{n}") for n in (1, 2)))
    result = graph.invoke({"messages": [two]}, THREAD)
    for _ in range(5):
        if "__interrupt__" not in result:
            break
        value = result["__interrupt__"][0].value
        if quick.get_approval(value["approval"]).status == "pending":  # type: ignore[union-attr]
            quick.approve(value["approval"], digest=value["digest"], by="ana")
        result = graph.invoke(Command(resume="go"), THREAD)
    assert sorted(till.charged) == [("1", 1), ("2", 2)]
    assert len(said(result)) == 2


def test_what_a_tool_leaves_open_stays_open_in_a_raw_graph_that_tells_errors(quick: Ledger) -> None:
    def lost(order: str, amount: int) -> Any:
        raise MayHaveHappened("the line went dead")

    graph = raw_graph(Till(lost), quick, on_error="tell")
    result = graph.invoke({"messages": [calls(("charge", {"order": "1", "amount": 5}, "c1"))]}, THREAD)
    assert [asked.value["type"] for asked in result["__interrupt__"]] == ["indelible.in_doubt"]
    assert quick.effects(tool="charge")[0].status == "in_doubt"


@pytest.mark.anyio
@pytest.mark.parametrize("shell", ["blocking", "async"])
async def test_12_a_call_that_says_the_same_waits_as_long_as_the_other_runs(
    quick: Ledger, monkeypatch: pytest.MonkeyPatch, shell: str
) -> None:
    waited, ends, asked_again = threading.Event(), [], entries.asked_again

    def spied(refusal: Exception, words: dict[str, Any]) -> bool:
        ends.extend([refusal] if isinstance(refusal, StillRunning) else [])
        if len(ends) == 3:  # of which only the first had `wait=False`
            waited.set()
        return asked_again(refusal, words)

    def as_duration(wait: Any) -> timedelta:
        return timedelta(seconds=0 if wait is False else 0.05)

    async def charge_slowly(order: str, amount: int) -> str:
        return "charged" if await asyncio.to_thread(waited.wait, PATIENCE) else "nobody waited"

    def charge(order: str, amount: int) -> str:
        return "charged" if waited.wait(PATIENCE) else "nobody waited"

    monkeypatch.setattr(entries, "asked_again", spied)
    monkeypatch.setattr("indelible.core.effects.calls._as_duration", as_duration)
    slow = StructuredTool.from_function(charge, charge_slowly, "charge", "Charges.")
    turns = [calls(("charge", SAME, "call_Xa"), ("charge", SAME, "call_Xb")), AIMessage(content="done")]
    graph = create_agent(
        Scripted(responses=turns),
        [slow],
        middleware=[LedgerMiddleware(quick, terms=PAYING)],
        checkpointer=InMemorySaver(),
    )
    result = await graph.ainvoke(HELLO, THREAD) if shell == "async" else graph.invoke(HELLO, THREAD)
    assert [message.content.partition("\n")[0] for message in said(result)] == ["charged", "charged"]
    assert [effect.status for effect in quick.effects(tool="charge")] == ["succeeded"]


@pytest.mark.anyio
async def test_the_same_in_an_event_loop_whichever_ledger_is_given(sqlite_url: str) -> None:
    async with AsyncLedger.open(sqlite_url) as awaited:
        for number, ledger in enumerate((awaited, awaited.blocking)):
            till, thread = Till(), {"configurable": {"thread_id": f"order-{number}"}}
            asking = agent(till, [LedgerMiddleware(ledger, terms=ASKING, decided_by=lambda answer, config: "ana")])
            (asked,) = (await asking.ainvoke(HELLO, thread))["__interrupt__"]
            vote = {"type": "approve", "digest": asked.value["digest"], "by": "ana"}
            result = await asking.ainvoke(Command(resume=vote), thread)
            assert said(result)[0].content == "charged 5"
            (before,) = [one async for one in asking.aget_state_history(thread) if one.next == ("tools",)]
            assert said(await asking.ainvoke(None, before.config))[0].artifact == {"replayed": True}
            blocking = await asyncio.to_thread(asking.invoke, None, before.config)
            assert said(blocking)[0].artifact == {"replayed": True}
            assert till.charged == [("1", 5)]


@pytest.mark.anyio
async def test_a_task_that_is_cancelled_in_a_tool_leaves_it_in_doubt(sqlite_url: str) -> None:
    entered = asyncio.Event()
    till = Till()

    @tool
    async def charge(order: str, amount: int) -> str:
        """Charges, and takes long."""
        till.charged.append((order, amount))
        entered.set()
        await asyncio.Event().wait()
        return "never"

    till.tool = charge
    async with AsyncLedger.open(sqlite_url) as ledger:
        slow = agent(till, [LedgerMiddleware(ledger)])
        going = asyncio.ensure_future(slow.ainvoke(HELLO, THREAD))
        await entered.wait()
        going.cancel()
        with pytest.raises(asyncio.CancelledError):
            await going
        (effect,) = await ledger.effects(tool="charge")
        assert effect.status == "in_doubt"
        (asked,) = (await slow.ainvoke(None, THREAD))["__interrupt__"]
        assert asked.value["effect"] == effect.id
        assert len(till.charged) == 1


def test_what_a_tool_returns_is_never_taken_for_something_else() -> None:
    message = ToolMessage(content="x", tool_call_id="c1", artifact=object())
    for value in ({"$message": {"type": "ai"}}, {"$plain": {"$send": [1, 2]}}, {"a": [{"$command": None}]}, [1, "x"]):
        assert revived(kept(value)) == value
    left = revived(kept(message))
    assert left.artifact == {"left_out": "object"}
    command = Command(
        update={"messages": [ToolMessage(content="y", tool_call_id="c1")]}, goto="there", graph="__parent__"
    )
    assert revived(kept(command)) == command


def test_a_question_that_nobody_answered_in_time_is_asked_again(quick: Ledger) -> None:
    quick.apply_policy(
        {"rules": [{"name": "all", "match": {"tool": "charge"}, "then": "ask", "approvals": {"expires": "1s"}}]},
        by="ana",
    )
    till = Till()
    asking = agent(till, [LedgerMiddleware(quick, terms={"charge": {"wait": 1.5}})])
    (asked,) = asking.invoke(HELLO, THREAD)["__interrupt__"]
    assert quick.get_approval(asked.value["approval"]).replaces is not None  # type: ignore[union-attr]
    assert till.charged == []


def parent_graph(till: Till, ledger: Any) -> Any:
    """A graph in a graph: the inner one has the tools, the outer one a node to which a tool can hand over."""
    inner = StateGraph(MessagesState).add_node("tools", ledger_tool_node([till.tool], ledger)).add_edge(START, "tools")
    outer = StateGraph(MessagesState)
    outer.add_node("inner", inner.compile(), destinations=("after",))
    outer.add_node("after", lambda state: {"messages": [AIMessage(content="handed over")]})
    outer.add_edge(START, "inner")
    return outer.compile(checkpointer=InMemorySaver())


@pytest.mark.parametrize("raises", [False, True])
def test_a_tool_that_hands_over_to_the_graph_above_does_so_again_when_it_is_replayed(
    quick: Ledger, raises: bool
) -> None:
    def hand_over(order: str, amount: int) -> Any:
        message = ToolMessage(content="over to you", tool_call_id="c1")
        command = Command(graph=Command.PARENT, goto="after", update={"messages": [message]})
        if raises:
            raise ParentCommand(command)
        return command

    till = Till(hand_over)
    graph = parent_graph(till, quick)
    asked = {"messages": [calls(("charge", {"order": "1", "amount": 5}, "c1"))]}
    assert graph.invoke(asked, THREAD)["messages"][-1].content == "handed over"
    (before,) = [one for one in graph.get_state_history(THREAD) if one.next == ("inner",)]
    again = graph.invoke(None, before.config)
    assert [message.content for message in again["messages"]][1:] == ["over to you", "handed over"]
    assert len(till.charged) == 1
    (effect,) = quick.effects(tool="charge")
    assert (effect.run_id, effect.scope) == ("order-123", "order-123")


class Asks(AgentMiddleware[Any, Any, Any]):
    """Asks again, each time by another request, until there is no more to ask."""

    def __init__(self, *changes: dict[str, Any]) -> None:
        super().__init__()
        self.changes = changes
        self.heard: list[str] = []
        self.crashes = False

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        """Ask."""
        answers = [handler(request.override(**change)) for change in ({}, *self.changes)]
        self.heard = [str(one.result[0].content) for one in answers]
        self.crash()
        return answers[-1]

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        """Ask in an event loop."""
        answers = [await handler(request.override(**change)) for change in ({}, *self.changes)]
        self.heard = [str(one.result[0].content) for one in answers]
        self.crash()
        return answers[-1]

    def crash(self) -> None:
        """End the step before its answer is in the state."""
        if self.crashes:
            raise KeyboardInterrupt


@tool
def look(order: str) -> str:
    """Looks."""
    return order


OTHERWISE: list[dict[str, Any]] = [
    {"tool_choice": "none"},
    {"tools": [look]},
    {"model_settings": {"temperature": 1}},
    {},
]


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("change", OTHERWISE, ids=lambda change: next(iter(change), "again"))
def test_a_model_that_is_asked_otherwise_or_again_in_one_step_is_asked(
    quick: Ledger, change: dict[str, Any], is_async: bool
) -> None:
    """It gave the first answer to each request of the step. An agent that is resumed hears them all as they were."""
    saver, asked = InMemorySaver(), {"messages": [HumanMessage("hi", id="m1")]}

    def goes(model: Scripted, given: Any, *, crashes: bool) -> list[str]:
        asks = Asks(change, change)
        asks.crashes = crashes
        made = create_agent(model, [look], checkpointer=saver, middleware=[asks, LedgerMiddleware(quick)])
        with pytest.raises(KeyboardInterrupt) if crashes else nullcontext():
            _ = asyncio.run(made.ainvoke(given, THREAD)) if is_async else made.invoke(given, THREAD)
        return asks.heard

    assert goes(Scripted(responses=[AIMessage(one) for one in "abcd"]), asked, crashes=True) == ["a", "b", "c"]
    for crashes in (True, False):
        assert goes(Scripted(responses=[AIMessage("x")]), None, crashes=crashes) == ["a", "b", "c"]


def test_a_model_of_another_name_is_asked(quick: Ledger) -> None:
    class Named(Scripted):
        model_name: str = ""

    models = [Named(responses=[AIMessage(name)], model_name=name) for name in ("small", "big")]
    asks = Asks({"model": models[1]}, {"model": models[0]})
    agent = create_agent(models[0], [look], checkpointer=InMemorySaver(), middleware=[asks, LedgerMiddleware(quick)])
    agent.invoke({"messages": [HumanMessage("hi", id="m1")]}, THREAD)
    assert asks.heard == ["small", "big", "small"]


def test_a_model_that_is_asked_again_because_it_failed_is_asked_for_the_same_turn(quick: Ledger) -> None:
    fails = [1, 1]

    class Fails(Scripted):
        def _generate(self, *args: Any, **words: Any) -> Any:
            if fails:
                fails.pop()
                raise ConnectionError("away")
            return super()._generate(*args, **words)

    retry = ModelRetryMiddleware(max_retries=3, initial_delay=0, jitter=False)
    model = Fails(responses=[AIMessage("done")])
    agent = create_agent(model, [look], checkpointer=InMemorySaver(), middleware=[retry, LedgerMiddleware(quick)])
    agent.invoke({"messages": [HumanMessage("hi", id="m1")]}, THREAD)
    (turn,) = quick.effects()
    assert (turn.status, turn.attempt) == ("succeeded", 3)


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("half", [{"amount": float("nan")}, {"amount": 5, "order": "\ud83d"}], ids=["nan", "surrogate"])
def test_05_an_answer_that_cannot_be_recorded_is_handed_on(quick: Ledger, half: dict[str, Any], is_async: bool) -> None:
    """It ended the agent, and its turn was said to be in doubt: the model is to hear of arguments that do not fit."""
    till, bad = Till(), calls(("charge", {"order": "a", "amount": 5, **half}, "c1"))
    model = Scripted(responses=[bad, AIMessage("half an emoji: \ud83d")])
    made = create_agent(model, [till.tool], middleware=[LedgerMiddleware(quick)], checkpointer=InMemorySaver())
    out = asyncio.run(made.ainvoke(HELLO, THREAD)) if is_async else made.invoke(HELLO, THREAD)
    assert "was not called" in said(out)[0].content
    assert out["messages"][-1].content == "half an emoji: \ud83d"
    assert (till.charged, {one.status for one in quick.effects()}) == ([], {"ready"})
