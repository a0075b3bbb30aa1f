"""CrewAI behind the ledger: a crew stops by its tool's own policy, and a crew that is kicked off again replays."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest
from crewai import Agent, Crew, Task
from crewai.tools import BaseTool, tool
from crewai.tools.tool_failure import ToolExecutionFailedError, ToolFailure
from pydantic import BaseModel

from indelible import Ledger, MayHaveHappened, Succeeded
from indelible.errors import BadCall, IndelibleError
from indelible.integrations.crewai import LedgerTools
from indelible.integrations.model_turns import sha256_of
from indelible.testing.adapters.crewai import ScriptedLLM, called
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


class Receipt(BaseModel):
    """Is what a tool gives."""

    id: str
    amount: int


@tool
def fail(order: str) -> str:
    """Fails."""
    DONE.append(order)
    raise ValueError("no funds")


CHARGE = called("charge", "c1", order="o1", amount=5)
AS_TEXT = 'Thought: now\nAction: fail\nAction Input: {"order": "o1"}'
DONE_AS_TEXT = "Thought: I now know the final answer\nFinal Answer: done"


class CountingLLM(ScriptedLLM):
    """Counts its tokens, and answers those who wait for it as well."""

    def call(self, messages: Any, *rest: Any, **words: Any) -> Any:
        self._track_token_usage_internal({"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10})
        return super().call(messages, *rest, **words)

    async def acall(self, messages: Any, *rest: Any, **words: Any) -> Any:
        return "done"


class BrokenLLM(ScriptedLLM):
    """Gives no answer."""

    def call(self, messages: Any, *rest: Any, **words: Any) -> Any:
        raise ValueError("no answer")

    async def acall(self, messages: Any, *rest: Any, **words: Any) -> Any:
        raise ValueError("no answer")


class TextLLM(ScriptedLLM):
    """Calls tools by text, as models do that know no function calls."""

    def supports_function_calling(self) -> bool:
        return False


def crew_of(tools: list[BaseTool], *turns: Any, as_text: bool = False, **words: Any) -> Crew:
    """Gives a crew whose model says these turns; a new one is like a new process."""
    kind = TextLLM if as_text else ScriptedLLM
    llm = kind(model="scripted", turns=[*turns, DONE_AS_TEXT if as_text else "done"])
    agent = Agent(role="billing", goal="charge", backstory="keeps the books", llm=llm, tools=tools)
    return Crew(agents=[agent], tasks=[Task(description="charge", expected_output="done", agent=agent)], **words)


def gate_of(ledger: Ledger, **words: Any) -> LedgerTools:
    return LedgerTools(ledger, run="order-123", **words)


@pytest.mark.parametrize("as_text", [False, True])
def test_a_crew_stops_while_a_person_has_to_decide_and_goes_on_when_it_is_kicked_off_again(
    ledger: Ledger, as_text: bool
) -> None:
    call: Any = 'Thought: now\nAction: charge\nAction Input: {"order": "o1", "amount": 5}' if as_text else [CHARGE]
    tools = gate_of(ledger, approval="required").tools([charge])
    for _ in range(2):
        with pytest.raises(ToolExecutionFailedError) as stopped:
            crew_of(tools, call, as_text=as_text).kickoff()
        (approval,) = ledger.approvals(status="pending")
        assert stopped.value.record.failure.code == "ApprovalPending"
        assert stopped.value.record.failure.details["show"] == f"indelible approvals show {approval.id}"
    decide(ledger)
    for _ in range(2):
        assert crew_of(tools, call, as_text=as_text).kickoff().raw == "done"
    assert DONE == ["o1 5"]


def test_natively_a_tool_that_raises_is_run_many_times_when_it_is_called_by_text() -> None:
    """Were this to change, the page would say too much."""
    crew_of([fail], AS_TEXT, as_text=True).kickoff()
    assert len(DONE) == 6


@pytest.mark.parametrize("as_text", [False, True])
def test_a_tool_that_raises_is_told_to_the_model_and_not_run_again(ledger: Ledger, as_text: bool) -> None:
    tools = gate_of(ledger).tools([fail])
    call: Any = AS_TEXT if as_text else [called("fail", "c1", order="o1")]
    for _ in range(2):
        assert crew_of(tools, call, as_text=as_text).kickoff().raw == "done"
    assert DONE == ["o1"]
    assert "no funds" in tools[0].run(order="o1")
    assert [effect.status for effect in ledger.effects()] == ["failed"]


def test_a_tool_that_raises_may_stop_the_crew(ledger: Ledger) -> None:
    tools = gate_of(ledger, on_error="raise").tools([fail])
    with pytest.raises(ToolExecutionFailedError, match="no funds"):
        crew_of(tools, [called("fail", "c1", order="o1")]).kickoff()


def test_a_failure_that_a_tool_reports_is_recorded_as_one(ledger: Ledger) -> None:
    @tool
    def report(order: str) -> Any:
        """Reports."""
        return ToolFailure(message="the bank said no", code="declined")

    assert "the bank said no (code: declined)" in gate_of(ledger).tools([report])[0].run(order="o1")
    assert [effect.status for effect in ledger.effects()] == ["failed"]


def test_the_memory_of_the_crew_does_not_answer_instead_of_the_ledger(ledger: Ledger) -> None:
    ids = itertools.count()
    tools = gate_of(ledger, call_id=lambda name, args: str(next(ids))).tools([charge])
    crew_of(tools, [CHARGE], [CHARGE], cache=True).kickoff()
    assert DONE == ["o1 5", "o1 5"], "each call has an id of its own here, and the ledger was asked about both"


def test_a_repeat_has_the_type_of_the_first_result(ledger: Ledger) -> None:
    @tool
    def pay(order: str) -> Receipt:
        """Pays."""
        DONE.append(order)
        return Receipt(id=f"r-{order}", amount=5)

    (guarded,) = gate_of(ledger).tools([pay])
    assert guarded.run(order="o1") == guarded.run(order="o1") == Receipt(id="r-o1", amount=5)
    assert guarded.format_output_for_agent(guarded.run(order="o1")) == '{"id":"r-o1","amount":5}'
    assert DONE == ["o1"]


def test_tools_that_are_coroutines_run_once_too(ledger: Ledger) -> None:
    @tool
    async def pay(order: str) -> str:
        """Pays."""
        DONE.append(order)
        return "paid"

    (guarded,) = gate_of(ledger).tools([pay])
    assert guarded.run(order="o1") == asyncio.run(guarded.arun(order="o1")) == "paid"
    assert DONE == ["o1"]


def test_calls_are_named_by_what_they_are_about(ledger: Ledger) -> None:
    gate = gate_of(ledger, call_id=lambda name, args: args["order"])
    (guarded,) = gate.tools([charge])
    guarded.run(order="o1", amount=5)
    other = guarded.run(order="o1", amount=5000)
    assert isinstance(other, ToolFailure)
    assert other.code == "KeyReused"
    assert DONE == ["o1 5"]


def test_a_call_that_cannot_be_named_stops_the_crew_and_is_not_entered(ledger: Ledger) -> None:
    tools = gate_of(ledger, call_id=lambda name, args: args["invoice"]).tools([charge])
    with pytest.raises(ToolExecutionFailedError, match="invoice"):
        crew_of(tools, [CHARGE]).kickoff()
    assert isinstance(tools[0].run(order="o1", amount=5), ToolFailure), "what is raised, a crew tries again"
    assert DONE == []


def test_a_tool_may_say_that_it_may_have_happened(ledger: Ledger) -> None:
    @tool
    def lose(order: str) -> str:
        """Loses the line."""
        DONE.append(order)
        raise MayHaveHappened("the line was cut")

    with pytest.raises(ToolExecutionFailedError) as stopped:
        crew_of(gate_of(ledger).tools([lose]), [called("lose", "c1", order="o1")]).kickoff()
    assert stopped.value.record.failure.details["type"] == "indelible.in_doubt"
    assert DONE == ["o1"]
    (effect,) = ledger.effects()
    ledger.settle(effect, Succeeded("found at the bank"), by="ana", evidence="the statement")
    assert crew_of(gate_of(ledger).tools([lose]), [called("lose", "c1", order="o1")]).kickoff().raw == "done"
    assert gate_of(ledger).tools([lose])[0].run(order="o1") == "found at the bank"
    assert DONE == ["o1"]


def asked_of(gate: LedgerTools, llm: Any, tools: list[BaseTool]) -> Crew:
    agent = Agent(role="billing", goal="charge", backstory="b", llm=gate.model(llm), tools=tools, max_retry_limit=0)
    return Crew(agents=[agent], tasks=[Task(description="charge", expected_output="done", agent=agent)])


def test_the_turns_of_a_model_are_on_the_record_of_the_run(ledger: Ledger) -> None:
    gate, llm = gate_of(ledger), CountingLLM(model="scripted", turns=[[CHARGE], "done"])
    assert asked_of(gate, llm, gate.tools([charge])).kickoff().raw == "done"
    first, second = told_of(ledger, "crewai.model_invoked")
    args = sha256_of({"order": "o1", "amount": 5})
    assert first["tool_calls"] == [{"id": "c1", "name": "charge", "args_sha256": args}]
    assert (second["model_id"], second["success"], second["tool_calls"]) == ("scripted", True, [])
    assert second["response_sha256"] == sha256_of("done")
    assert first["prompt_sha256"] != second["prompt_sha256"]
    assert (second["prompt_tokens"], second["response_tokens"]) == (7, 3), "of this turn, and not of all"
    assert asyncio.run(gate.model(llm).acall("hello")) == "done"
    assert len(told_of(ledger, "crewai.model_invoked")) == 3


@pytest.mark.parametrize("is_awaited", [False, True])
def test_a_model_that_gives_no_answer_is_on_the_record_and_its_crew_hears_of_it(
    ledger: Ledger, is_awaited: bool
) -> None:
    llm = gate_of(ledger).model(BrokenLLM(model="broken", turns=[]))
    assert isinstance(llm, BrokenLLM), "whoever looks sees the model that it is"
    with pytest.raises(ValueError, match="no answer"):
        asyncio.run(llm.acall("hello")) if is_awaited else llm.call("hello")
    (only,) = told_of(ledger, "crewai.model_invoked")
    assert (only["success"], only["error"]) == (False, "ValueError")


def test_a_turn_that_cannot_be_recorded_stops_the_crew(ledger: Ledger) -> None:
    gate, llm = gate_of(ledger), ScriptedLLM(model="scripted", turns=[[CHARGE], "done"])
    crew = asked_of(gate, llm, gate.tools([charge]))
    ledger.close()
    with pytest.raises(IndelibleError):
        crew.kickoff()
    assert DONE == []


def test_a_tool_goes_behind_one_ledger_only(ledger: Ledger) -> None:
    with pytest.raises(BadCall, match="already"):
        gate_of(ledger).tools(gate_of(ledger).tools([charge]))
