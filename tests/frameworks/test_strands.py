"""Strands behind the ledger: interrupts are its pauses, a session is its run, and what a tool gave comes back whole."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import nullcontext
from datetime import date, timedelta
from typing import Any

import pytest
from strands import Agent, ToolContext, tool
from strands.agent.conversation_manager import SummarizingConversationManager
from strands.hooks import BeforeToolCallEvent
from strands.interrupt import InterruptException
from strands.middleware import ExecuteToolStage
from strands.multiagent import Swarm
from strands.plugins import Plugin
from strands.session.file_session_manager import FileSessionManager
from strands.types.exceptions import ContextWindowOverflowException, EventLoopException
from strands.types.tools import AgentTool
from strands.vended_plugins.goal import GoalLoop

from indelible import Ledger, MayHaveHappened, NothingHappened, Refused, Succeeded, instrument
from indelible.errors import BadCall, IndelibleError
from indelible.integrations.model_turns import sha256_of
from indelible.integrations.strands import LedgerPlugin, ToolError
from indelible.testing.adapters.strands import ScriptedModel, called
from tests.frameworks.conftest import decide, told_of

DONE: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    DONE.clear()


@tool
def charge(order: str, amount: int) -> str:
    """Charges an order."""
    DONE.append(f"{order} {amount}")
    return f"charged {amount}"


SAYS_DONE: Any = [{"text": "done"}]


def agent_of(ledger: Ledger, *parts: Any, tools: Any = (charge,), turns: Any = None, **words: Any) -> Agent:
    """Make an agent whose model says these parts at once, then that it is done; a new one is like a new process."""
    return Agent(
        model=ScriptedModel([list(parts), SAYS_DONE] if turns is None else turns),
        tools=list(tools),
        session_manager=FileSessionManager("order-123", storage_dir="sessions"),
        plugins=[LedgerPlugin(ledger, **words)],
        callback_handler=None,
    )


def resumed(agent: Agent, answer: Any = "look again") -> Any:
    """Answers whatever the session waits for."""
    return agent(
        [
            {"interruptResponse": {"interruptId": one.id, "response": answer}}
            for one in agent._interrupt_state.interrupts.values()
            if one.response is None
        ]
    )


CHARGE = called("charge", "c1", order="o1", amount=5)


def results_in(agent: Agent) -> list[Any]:
    return [part["toolResult"] for message in agent.messages for part in message["content"] if "toolResult" in part]


def test_a_call_waits_for_a_person_whatever_is_answered_to_the_interrupt(ledger: Ledger) -> None:
    asked = agent_of(ledger, CHARGE, approval="required")("charge")
    assert asked.stop_reason == "interrupt"
    reason = asked.interrupts[0].reason
    assert reason["show"] == f"indelible approvals show {reason['approval']}"
    for _ in range(2):  # nobody has decided: it is asked again, and again
        again = resumed(agent_of(ledger, CHARGE, approval="required"), answer=True)
        assert again.stop_reason == "interrupt"
        assert DONE == []
    decide(ledger)
    assert resumed(agent_of(ledger, CHARGE, approval="required")).stop_reason == "end_turn"
    assert DONE == ["o1 5"]


def test_the_plugin_answers_what_the_ledger_asked_and_nothing_else(ledger: Ledger) -> None:
    @tool(context=True)
    def ask(order: str, tool_context: ToolContext) -> str:
        """Asks."""
        return f"said {tool_context.interrupt('which', reason='which card?')}"

    plugin = LedgerPlugin(ledger, terms={"charge": {"approval": "required"}, "ask": {"nothing_on": InterruptException}})
    agent = Agent(
        model=ScriptedModel([[CHARGE, called("ask", "c2", order="o1")], [{"text": "done"}]]),
        tools=[charge, ask],
        session_manager=FileSessionManager("order-123", storage_dir="sessions"),
        plugins=[plugin],
        callback_handler=None,
    )
    assert plugin.answer(agent) == []
    asked = agent("charge")
    (answer,) = plugin.answer(agent)
    ours = [one.id for one in asked.interrupts if one.reason != "which card?"]
    assert [answer["interruptResponse"]["interruptId"]] == ours
    decide(ledger)
    assert [one.reason for one in agent([answer]).interrupts] == ["which card?"]
    assert DONE == ["o1 5"]


def test_what_was_denied_is_told_to_the_model(ledger: Ledger) -> None:
    agent_of(ledger, CHARGE, approval="required")("charge")
    decide(ledger, yes=False)
    agent = agent_of(ledger, CHARGE, approval="required")
    assert resumed(agent).stop_reason == "end_turn"
    (result,) = results_in(agent)
    assert result["status"] == "error"
    assert "not today" in result["content"][0]["text"]
    assert DONE == []


def test_a_lost_answer_leaves_doubt_and_the_model_does_not_hear_of_it(ledger: Ledger) -> None:
    @tool
    def pay(order: str) -> str:
        """Pays."""
        DONE.append(order)
        raise ConnectionResetError("the answer was lost")

    call = called("pay", "c1", order="o1")
    asked = agent_of(ledger, call, tools=[pay], side_effect="payment")("pay")
    assert [one.reason["type"] for one in asked.interrupts] == ["indelible.in_doubt"]
    (effect,) = ledger.effects()
    assert effect.status == "in_doubt"
    assert asked.interrupts[0].reason["effect"] == effect.id
    ledger.settle(effect, Succeeded("paid"), by="ana", evidence="the statement")
    agent = agent_of(ledger, call, tools=[pay], side_effect="payment")
    assert resumed(agent).stop_reason == "end_turn"
    assert results_in(agent)[0]["content"] == [{"text": "paid"}], "the resumed call is the same one: no note"
    assert DONE == ["o1"]


@pytest.mark.parametrize("words", [{"side_effect": "write"}, {"failed_on": ValueError}])
def test_what_fails_by_its_class_or_by_declaration_is_told_and_not_run_again(ledger: Ledger, words: Any) -> None:
    @tool
    def fail(order: str) -> str:
        """Fails."""
        DONE.append(order)
        raise ValueError("no funds")

    twice = [[called("fail", "c1", order="o1")], [called("fail", "c2", order="o1")], SAYS_DONE]
    agent = agent_of(ledger, tools=[fail], turns=twice, **words)
    agent("pay")
    assert [(one["status"], one["content"]) for one in results_in(agent)] == [("error", [{"text": "no funds"}])] * 2
    assert [effect.status for effect in ledger.effects()] == ["failed"]
    assert DONE == ["o1"]


def test_an_error_result_is_judged_as_any_error(ledger: Ledger) -> None:
    @tool
    def pay(order: str) -> Any:
        """Pays."""
        return {"status": "error", "content": [{"text": "declined"}]}

    agent_of(ledger, called("pay", "c1", order="o1"), called("pay", "c2", order="o2"), tools=[pay])("pay")
    assert {effect.status for effect in ledger.effects()} == {"in_doubt"}
    declared = agent_of(ledger, called("pay", "c1", order="o3"), tools=[pay], run="other", failed_on=ToolError)
    declared._interrupt_state.deactivate()
    declared.messages = []
    declared("pay")
    assert results_in(declared)[0]["content"] == [{"text": "declined"}]


def test_a_refusal_that_a_tool_declares_is_told(ledger: Ledger) -> None:
    @tool
    def pay(order: str) -> str:
        """Pays."""
        raise Refused("the card was declined")

    agent = agent_of(ledger, called("pay", "c1", order="o1"), tools=[pay])
    agent("pay")
    assert [effect.status for effect in ledger.effects()] == ["failed"]
    assert results_in(agent)[0]["status"] == "error"


@tool
def refund(order: str, amount: int = 5000) -> str:
    """Refunds."""
    DONE.append(f"{order} {amount}")
    return "refunded"


def test_a_default_that_is_left_out_is_recorded_and_is_the_same_call_as_one_spelled_out(ledger: Ledger) -> None:
    calls = [called("refund", "c1", order="o1"), called("refund", "c2", order="o1", amount=5000)]
    agent = agent_of(ledger, tools=[refund], turns=[[calls[0]], [calls[1]], SAYS_DONE])
    agent("refund")
    (effect,) = ledger.effects()
    assert effect.args == {"order": "o1", "amount": 5000}
    assert DONE == ["o1 5000"]


def test_a_tool_that_is_no_function_has_the_defaults_of_its_schema(ledger: Ledger) -> None:
    class Bare(AgentTool):
        tool_name, tool_type, tool_spec = "bare", "python", refund.tool_spec | {"name": "bare"}

        async def stream(self, tool_use: Any, invocation_state: Any, **words: Any) -> Any:
            DONE.append(str(tool_use["input"]["amount"]))
            yield {"toolUseId": tool_use["toolUseId"], "status": "success", "content": []}

    agent_of(ledger, called("bare", "c1", order="o1"), tools=[Bare()])("refund")
    assert DONE == ["5000"]


def test_arguments_that_do_not_fit_are_told_and_nothing_is_recorded(ledger: Ledger) -> None:
    agent = agent_of(ledger, called("refund", "c1", order="o1", amount="many"), tools=[refund])
    assert agent("refund").stop_reason == "end_turn"
    assert results_in(agent)[0]["status"] == "error"
    assert list(ledger.effects()) == []


def test_the_same_payment_twice_in_a_turn_is_made_once_and_the_next_turn_asks(ledger: Ledger) -> None:
    again = [called("charge", f"c{number}", order="o1", amount=5) for number in range(3)]
    turns = [[again[0]], [again[1]], SAYS_DONE, [again[2]], SAYS_DONE]
    agent = agent_of(ledger, turns=turns, side_effect="payment")
    agent("charge")
    first, second = results_in(agent)
    assert first["content"] == [{"text": "charged 5"}]
    assert second["content"][0] == {"text": "charged 5"}
    assert ledger.effects()[0].id in second["content"][1]["text"], "the model hears which effect was replayed"
    assert agent_of(ledger, turns=turns, side_effect="payment")("once more").stop_reason == "interrupt"
    assert DONE == ["o1 5"]
    decide(ledger)
    assert resumed(agent_of(ledger, turns=turns, side_effect="payment")).stop_reason == "end_turn"
    assert DONE == ["o1 5", "o1 5"]


class FullModel(ScriptedModel):
    """Says one turn after the other; where there is none, its context is full."""

    async def stream(self, *said: Any, **words: Any) -> Any:
        turn: Any = self._turns.pop(0)
        if turn is None:
            raise ContextWindowOverflowException("too long")
        async for event in ScriptedModel([turn]).stream([], *said[1:], **words):
            yield event


def summed_up(ledger: Ledger, turns: Any, **words: Any) -> Agent:
    """Make an agent that replaces its oldest messages by a summary when the model's context is full."""
    summing = Agent(model=FullModel([[{"text": "a summary"}]] * 9), callback_handler=None)
    manager = SummarizingConversationManager(
        summary_ratio=0.8, preserve_recent_messages=2, summarization_agent=summing, pin_first=words.pop("pinned", 0)
    )
    return Agent(
        model=FullModel(turns),
        tools=[charge],
        session_manager=FileSessionManager("order-123", storage_dir="sessions"),
        plugins=[LedgerPlugin(ledger, **words)],
        conversation_manager=manager,
        callback_handler=None,
    )


def charges(count: int) -> list[Any]:
    return [[called("charge", f"c{number}", order="o1", amount=5)] for number in range(count)]


@pytest.mark.parametrize(("chats", "pinned"), [(0, 0), (1, 0), (2, 0), (2, 1)])
@pytest.mark.parametrize("side_effect", ["notification", "payment"])
def test_53_a_summary_in_the_middle_of_a_turn_begins_none(
    ledger: Ledger, side_effect: str, chats: int, pinned: int
) -> None:
    first, second, third, later = charges(4)
    turns = [*[SAYS_DONE] * chats, first, None, second, None, third, SAYS_DONE, later, SAYS_DONE]
    agent = summed_up(ledger, turns, side_effect=side_effect, pinned=pinned)
    for number in range(chats):
        agent(f"chat {number}")
    assert agent("charge").stop_reason == "end_turn"
    assert DONE == ["o1 5"]
    assert agent("once more").stop_reason == ("interrupt" if side_effect == "payment" else "end_turn")
    assert len({effect.turn for effect in ledger.effects()}) == 2, "what the user says next is a turn of its own"


def test_53_an_agent_that_is_resumed_after_a_summary_is_in_the_same_turn(ledger: Ledger) -> None:
    words: Any = {"approval": "required", "side_effect": "notification"}
    first, second, third = charges(3)
    assert summed_up(ledger, [first], **words)("charge").stop_reason == "interrupt"
    decide(ledger)
    other = [called("charge", "c9", order="o2", amount=5)]
    assert resumed(summed_up(ledger, [None, second, None, other], **words)).stop_reason == "interrupt"
    decide(ledger)
    assert resumed(summed_up(ledger, [None, third, SAYS_DONE], **words)).stop_reason == "end_turn"
    assert DONE == ["o1 5", "o2 5"]
    assert len({effect.turn for effect in ledger.effects()}) == 1


@pytest.mark.parametrize("side_effect", ["notification", "payment"])
def test_53_two_sessions_of_one_run_have_turns_of_their_own(ledger: Ledger, side_effect: str) -> None:
    for session in ("monday", "friday"):
        asked = Agent(
            model=ScriptedModel([[CHARGE], SAYS_DONE]),
            tools=[charge],
            session_manager=FileSessionManager(session, storage_dir="sessions"),
            plugins=[LedgerPlugin(ledger, run="order-123", side_effect=side_effect)],
            callback_handler=None,
        )("charge")
    assert asked.stop_reason == ("interrupt" if side_effect == "payment" else "end_turn")
    assert len(DONE) == (1 if side_effect == "payment" else 2)


@pytest.mark.parametrize("side_effect", ["notification", "payment"])
def test_53_a_hook_that_invokes_the_agent_once_more_stays_in_the_turn(ledger: Ledger, side_effect: str) -> None:
    verdicts = iter([False, True])
    agent = Agent(
        model=FullModel([*charges(1), SAYS_DONE, *charges(1), SAYS_DONE, *charges(1), SAYS_DONE]),
        tools=[charge],
        session_manager=FileSessionManager("order-123", storage_dir="sessions"),
        plugins=[
            GoalLoop(goal=lambda *_: next(verdicts, True), max_attempts=2),
            LedgerPlugin(ledger, side_effect=side_effect),
        ],
        callback_handler=None,
    )
    assert agent("charge").stop_reason == "end_turn"
    assert DONE == ["o1 5"]
    assert agent("once more").stop_reason == ("interrupt" if side_effect == "payment" else "end_turn")


class DyingModel(FullModel):
    """Says one turn after the other; then its process is killed."""

    async def stream(self, *said: Any, **words: Any) -> Any:
        if not self._turns:
            os.kill(os.getpid(), signal.SIGKILL)
        async for event in super().stream(*said, **words):
            yield event


@pytest.mark.parametrize("side_effect", ["notification", "payment"])
def test_53_a_process_that_died_in_a_later_pass_of_a_turn_is_resumed_in_it(
    ledger: Ledger, tmp_path: Any, side_effect: str
) -> None:
    """What a hook says for the next pass stands last in the session, where the user's message stood."""

    def looping(behind: Ledger, turns: Any) -> Agent:
        verdicts = iter([False])
        return Agent(
            model=DyingModel(turns),
            tools=[charge],
            session_manager=FileSessionManager("order-123", storage_dir="sessions"),
            plugins=[
                GoalLoop(goal=lambda *_: next(verdicts, True), max_attempts=2),
                LedgerPlugin(behind, side_effect=side_effect),
            ],
            callback_handler=None,
        )

    first, again, later = charges(3)
    if (pid := os.fork()) == 0:
        with Ledger.open(f"sqlite:///{tmp_path}/ledger.db") as own:
            looping(own, [first, SAYS_DONE])("charge")
        os._exit(1)
    assert os.WIFSIGNALED(os.waitpid(pid, 0)[1])
    agent = looping(ledger, [again, SAYS_DONE, SAYS_DONE, later, SAYS_DONE])
    assert agent().stop_reason == "end_turn"
    assert len(ledger.effects()) == 1
    assert DONE == [], "the process that died has charged"
    assert agent("once more").stop_reason == ("interrupt" if side_effect == "payment" else "end_turn")
    assert len({effect.turn for effect in ledger.effects()}) == 2, "what the user says next is a turn of its own"


@pytest.mark.parametrize(("turn", "mails"), [(None, 2), ("message-7", 1), (lambda: "message-7", 1)])
def test_53_the_turn_of_a_swarm_can_be_named(ledger: Ledger, turn: Any, mails: int) -> None:
    def hands_to(whom: str, number: int) -> list[Any]:
        return [called("handoff_to_agent", f"h{number}", agent_name=whom, message="your turn")]

    words: Any = {"run": "order-123", "turn": turn, "side_effect": "notification"}
    first, again = charges(2)
    turns = [first, hands_to("ben", 1), SAYS_DONE, again, SAYS_DONE], [hands_to("ana", 2), SAYS_DONE, SAYS_DONE]
    ana, ben = (
        Agent(
            name=name,
            model=FullModel(said),
            tools=[charge],
            plugins=[LedgerPlugin(ledger, **words)],
            callback_handler=None,
        )
        for name, said in zip(("ana", "ben"), turns, strict=True)
    )
    Swarm([ana, ben], entry_point=ana)("charge")
    assert len(DONE) == mails


@pytest.mark.parametrize("side_effect", ["notification", "payment"])
@pytest.mark.parametrize("is_invoked", [True, False])
def test_53_a_tool_that_the_program_calls_by_the_agent_is_entered_once(
    ledger: Ledger, is_invoked: bool, side_effect: str
) -> None:
    """The SDK writes a message of the user's about each such call."""
    for _ in range(2):
        agent = agent_of(ledger, turns=[SAYS_DONE], side_effect=side_effect)
        if is_invoked:
            agent("hello")
        for _ in range(2):
            agent.tool.charge(order="o1", amount=5)
        if is_invoked:
            break
    assert DONE == ["o1 5"]


def test_53_what_the_user_says_after_the_messages_were_cleared_is_another_turn(ledger: Ledger) -> None:
    first, again = charges(2)
    agent = summed_up(ledger, [first, SAYS_DONE, again, SAYS_DONE], side_effect="notification")
    agent("charge")
    agent.messages.clear()
    agent("charge for the reminder")
    assert DONE == ["o1 5", "o1 5"]


def test_53_what_the_plugin_keeps_in_the_state_is_not_shown_as_an_argument(ledger: Ledger) -> None:
    @tool(context=True)
    def pay(order: str, tool_context: ToolContext) -> str:
        """Pays."""
        return "paid"

    agent = agent_of(ledger, called("pay", "c1", order="o1"), tools=[pay])
    agent.state.set("account", "acme")
    agent("pay")
    (effect,) = ledger.effects()
    assert effect.args["tool_context"]["state"] == {"account": "acme"}


@pytest.mark.parametrize(("cut_off", "asks"), [(4, True), (0, False)])
def test_the_turn_is_the_place_of_the_message_with_those_that_were_cut_off(
    ledger: Ledger, cut_off: int, asks: bool
) -> None:
    """A session that was put back is in the same turn; one whose older messages were cut off is not."""
    for removed in (0, cut_off):
        agent = agent_of(ledger, CHARGE, run="order-123", side_effect="payment")
        agent._session_manager, agent.messages = None, []
        agent.conversation_manager.removed_message_count = removed
        asked = agent("charge").stop_reason
    assert asked == ("interrupt" if asks else "end_turn")
    assert DONE == ["o1 5"]


def test_a_tool_that_reads_is_entered_by_every_call(ledger: Ledger) -> None:
    again = [called("charge", f"c{number}", order="o1", amount=5) for number in range(2)]
    agent_of(ledger, turns=[[again[0]], [again[1]], SAYS_DONE], side_effect="read")("look")
    assert DONE == ["o1 5", "o1 5"]


def test_a_key_that_belongs_to_another_call_is_told_and_the_calls_beside_it_run(ledger: Ledger) -> None:
    other = called("charge", "c2", order="o1", amount=5000), called("charge", "c3", order="o2", amount=1)
    agent = agent_of(ledger, turns=[[CHARGE], list(other), SAYS_DONE], terms={"charge": {"key": ["order"]}})
    assert agent("charge").stop_reason == "end_turn"
    assert [one["status"] for one in results_in(agent)] == ["success", "error", "success"]
    assert DONE == ["o1 5", "o2 1"]


def test_what_a_tool_gave_comes_back_whole_bytes_too(ledger: Ledger) -> None:
    content: list[Any] = [{"text": "seen"}, {"image": {"format": "png", "source": {"bytes": b"\x89PNG"}}}]

    @tool
    def look(order: str) -> dict[str, Any]:
        """Looks."""
        DONE.append(order)
        return {"status": "success", "content": content}

    for name in ("one", "two"):
        agent = agent_of(ledger, called("look", "c1", order="o1"), tools=[look], run="order-123", dedupe="args")
        agent._session_manager, agent.messages = None, []
        agent(name)
        (result,) = results_in(agent)
        assert result["content"] == content
    assert DONE == ["o1"]


def test_what_json_cannot_say_is_kept_as_a_text(ledger: Ledger) -> None:
    @tool
    def look(order: str) -> dict[str, Any]:
        """Looks."""
        return {"status": "success", "content": [{"json": {"when": date(2026, 11, 16)}}]}

    model = ScriptedModel([[called("look", "c1", order="o1")], [{"text": "done"}]])
    Agent(model=model, tools=[look], plugins=[LedgerPlugin(ledger, run="order-123")], callback_handler=None)("look")
    (effect,) = ledger.effects()
    assert effect.status == "succeeded"


def test_an_agent_without_a_session_names_its_run(ledger: Ledger) -> None:
    model = ScriptedModel([[CHARGE], [{"text": "done"}]])
    agent = Agent(model=model, tools=[charge], plugins=[LedgerPlugin(ledger)], callback_handler=None)
    with pytest.raises(EventLoopException, match="session_manager") as stopped:
        agent("charge")
    assert isinstance(stopped.value.original_exception, BadCall)
    assert DONE == []


def test_no_middleware_that_the_agent_was_made_with_changes_arguments_after_the_ledger(ledger: Ledger) -> None:
    class Greedy(Plugin):
        name = "greedy"

        def init_agent(self, agent: Agent) -> None:
            async def doubled(context: Any, next_fn: Callable[[Any], AsyncIterator[Any]]) -> AsyncIterator[Any]:
                use = {**context.tool_use, "input": {**context.tool_use["input"], "amount": 10}}
                async for event in next_fn(context.replace(tool_use=use)):
                    yield event

            agent.add_middleware(ExecuteToolStage, doubled)

    agent = Agent(
        model=ScriptedModel([[CHARGE], [{"text": "done"}]]),
        tools=[charge],
        plugins=[LedgerPlugin(ledger, run="order-123"), Greedy()],
        callback_handler=None,
    )
    agent("charge")
    (effect,) = ledger.effects()
    assert DONE == ["o1 10"]
    assert effect.args["amount"] == 10


@tool
def quote(order: str, amount: int) -> str:
    """Says what an order costs."""
    DONE.append(f"quoted {order}")
    return f"costs {amount}"


class Swapping(Plugin):
    """Puts another tool in the place of the one that was called, by middleware or by a hook, as the SDK lets it."""

    name = "swapping"

    def __init__(self, way: str, other: Any = charge) -> None:
        super().__init__()
        self.way, self.other = way, other

    def init_agent(self, agent: Agent) -> None:
        """Stand before the agent's tools."""

        async def swapped(context: Any, next_fn: Callable[[Any], AsyncIterator[Any]]) -> AsyncIterator[Any]:
            async for event in next_fn(context.replace(tool=self.other)):
                yield event

        def select(event: BeforeToolCallEvent) -> None:
            event.selected_tool = self.other

        if self.way == "hook":
            agent.add_hook(select, BeforeToolCallEvent)
        else:
            agent.add_middleware(ExecuteToolStage, swapped)


QUOTES = {"quote": {"side_effect": "read"}, "charge": {"side_effect": "payment", "approval": "required"}}


def swapped_to(ledger: Ledger, way: str, terms: Any, is_everywhere: bool, call: Any, other: Any) -> Any:
    """Run an agent in which a tool stands in the place of the one that its model calls."""
    own = [] if is_everywhere else [LedgerPlugin(ledger, run="order-123", terms=terms)]
    everywhere = instrument(ledger, terms=terms) if is_everywhere else nullcontext()
    with everywhere, ledger.in_run("order-123") if is_everywhere else nullcontext():
        model = ScriptedModel([[call], SAYS_DONE])
        plugins = [*own, Swapping(way, other)]
        return Agent(model=model, tools=[charge, quote], plugins=plugins, callback_handler=None)("go")


@pytest.mark.parametrize("is_everywhere", [False, True])
@pytest.mark.parametrize("way", ["hook", "middleware"])
def test_39_a_tool_in_the_place_of_the_called_one_is_judged_as_itself(
    ledger: Ledger, way: str, is_everywhere: bool
) -> None:
    call = called("quote", "c1", order="o1", amount=5)
    ended = swapped_to(ledger, way, QUOTES, is_everywhere, call, charge)
    assert (ended.stop_reason, DONE) == ("interrupt", [])
    (effect,) = ledger.effects()
    assert (effect.tool, effect.side_effect, effect.status) == ("charge", "payment", "requires_approval")


@pytest.mark.parametrize("is_everywhere", [False, True])
def test_39_what_the_terms_of_the_called_tool_demand_holds_for_the_one_in_its_place(
    ledger: Ledger, is_everywhere: bool
) -> None:
    ended = swapped_to(ledger, "hook", QUOTES, is_everywhere, CHARGE, quote)
    assert (ended.stop_reason, DONE) == ("interrupt", [])
    (effect,) = ledger.effects()
    assert (effect.tool, effect.side_effect, effect.status) == ("quote", "payment", "requires_approval")


@tool(context=True)
def ask(order: str, tool_context: ToolContext) -> str:
    """Asks."""
    DONE.append(order)
    return f"said {tool_context.interrupt('which', reason='which card?')}"


@pytest.mark.parametrize("words", [{"nothing_on": InterruptException}, {"side_effect": "read"}])
def test_a_tool_that_interrupts_by_itself_before_it_acts_is_entered_again(ledger: Ledger, words: Any) -> None:
    call = called("ask", "c1", order="o1")
    assert agent_of(ledger, call, tools=[ask], **words)("ask").stop_reason == "interrupt"
    agent = agent_of(ledger, call, tools=[ask], **words)
    assert resumed(agent, "visa").stop_reason == "end_turn"
    assert results_in(agent)[0]["content"] == [{"text": "said visa"}]
    assert DONE == ["o1", "o1"]


def test_a_tool_that_interrupts_by_itself_may_have_acted_before_and_its_answer_is_kept(ledger: Ledger) -> None:
    call = called("ask", "c1", order="o1")
    assert [one.reason for one in agent_of(ledger, call, tools=[ask])("ask").interrupts] == ["which card?"]
    (doubt,) = resumed(agent_of(ledger, call, tools=[ask]), "visa").interrupts
    (effect,) = ledger.effects()
    assert (doubt.reason["effect"], effect.status, DONE) == (effect.id, "in_doubt", ["o1"])
    ledger.retry(effect, by="ana")
    agent = agent_of(ledger, call, tools=[ask])
    assert resumed(agent).stop_reason == "end_turn"
    assert results_in(agent)[0]["content"] == [{"text": "said visa"}]


def test_a_tool_may_say_that_nothing_happened(ledger: Ledger) -> None:
    @tool
    def try_it(order: str) -> str:
        """Tries."""
        DONE.append(order)
        if len(DONE) == 1:
            raise NothingHappened("the line was busy")
        return "done"

    for name in ("one", "two"):
        agent = agent_of(ledger, called("try_it", "c1", order="o1"), tools=[try_it], run="order-123")
        agent._session_manager, agent.messages = None, []
        agent(name)
    assert DONE == ["o1", "o1"]
    assert results_in(agent)[0]["status"] == "success"


def test_a_tool_may_say_that_it_may_have_happened_and_a_person_settles_it(ledger: Ledger) -> None:
    @tool
    def lose(order: str) -> str:
        """Loses the line."""
        DONE.append(order)
        raise MayHaveHappened("the line was cut")

    call = called("lose", "c1", order="o1")
    asked = agent_of(ledger, call, tools=[lose])("lose")
    assert asked.interrupts[0].reason["type"] == "indelible.in_doubt"
    assert resumed(agent_of(ledger, call, tools=[lose])).stop_reason == "interrupt"
    (effect,) = ledger.effects()
    ledger.settle(effect, Succeeded({"id": "ch_1"}), by="ana", evidence="the statement")
    agent = agent_of(ledger, call, tools=[lose])
    assert resumed(agent).stop_reason == "end_turn"
    assert results_in(agent)[0]["content"] == [{"text": '{"id": "ch_1"}'}]
    assert DONE == ["o1"]


def test_what_a_tool_streams_is_heard_while_it_runs(ledger: Ledger) -> None:
    heard = asyncio.Event()

    @tool
    async def count(order: str) -> AsyncIterator[Any]:
        """Counts."""
        yield "one"
        await heard.wait()
        yield "counted"

    def hear(**words: Any) -> None:
        if words.get("tool_stream_event", {}).get("data") == "one":
            heard.set()

    agent = agent_of(ledger, called("count", "c1", order="o1"), tools=[count])
    agent.callback_handler = hear
    agent("count")
    assert results_in(agent)[0]["content"] == [{"text": "counted"}]


def test_an_agent_that_died_in_a_tool_asks_and_does_not_run_it_again(ledger: Ledger, tmp_path: Any) -> None:
    @tool
    def die(order: str) -> str:
        """Dies."""
        os.kill(os.getpid(), signal.SIGKILL)
        return "never"

    agent_of(ledger, called("die", "c1", order="o1"), tools=[die], approval="required")("die")
    decide(ledger)
    if (pid := os.fork()) == 0:
        with Ledger.open(f"sqlite:///{tmp_path}/ledger.db") as own:
            words: dict[str, Any] = {"tools": [die], "approval": "required", "lease": timedelta(seconds=0.2)}
            resumed(agent_of(own, called("die", "c1", order="o1"), **words))
        os._exit(1)
    assert os.WIFSIGNALED(os.waitpid(pid, 0)[1])
    again = resumed(agent_of(ledger, called("die", "c1", order="o1"), tools=[die], approval="required"))
    while again.stop_reason != "interrupt" or again.interrupts[0].reason["type"] != "indelible.in_doubt":
        again = resumed(agent_of(ledger, called("die", "c1", order="o1"), tools=[die], approval="required"))
    assert [effect.status for effect in ledger.effects()] == ["in_doubt"]


def test_the_turns_of_a_model_are_on_the_record_of_its_session(ledger: Ledger) -> None:
    agent_of(ledger, CHARGE, record_turns=True)("charge")
    first, second = told_of(ledger, "strands.model_invoked")
    args = sha256_of({"order": "o1", "amount": 5})
    assert first["tool_calls"] == [{"id": "c1", "name": "charge", "args_sha256": args}]
    assert (second["model_id"], second["success"], second["tool_calls"]) == ("ScriptedModel", True, [])
    assert second["response_sha256"] == sha256_of([{"text": "done"}])
    assert first["prompt_sha256"] != second["prompt_sha256"]


def test_a_model_that_gives_no_answer_is_on_the_record_and_nothing_is_unless_it_is_asked_for(ledger: Ledger) -> None:
    class Broken(ScriptedModel):
        def stream(self, *words: Any, **more: Any) -> Any:
            raise ValueError("no answer")

    for asked_for in (True, False):
        agent = agent_of(ledger, CHARGE, record_turns=asked_for)
        agent.model = Broken([])
        with pytest.raises(ValueError, match="no answer"):
            agent("charge")
    (only,) = told_of(ledger, "strands.model_invoked")
    assert (only["success"], only["error"]) == (False, "ValueError")


def test_a_turn_that_cannot_be_recorded_stops_the_agent(ledger: Ledger) -> None:
    agent = agent_of(ledger, CHARGE, record_turns=True)
    ledger.close()
    with pytest.raises(IndelibleError):
        agent("charge")
    assert DONE == []
