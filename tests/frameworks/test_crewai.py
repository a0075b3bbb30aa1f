"""CrewAI behind the ledger: a crew stops by its tool's own policy, and a crew that is kicked off again replays."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from crewai import Agent, Crew, Task
from crewai.tools import BaseTool, tool
from crewai.tools.tool_failure import ToolExecutionFailedError, ToolFailure
from pydantic import BaseModel

from indelible import Ledger, MayHaveHappened, NothingHappened, Refused, Succeeded
from indelible.errors import BadCall, IndelibleError
from indelible.integrations.crewai import LedgerTools, ToolError
from indelible.integrations.model_turns import sha256_of
from indelible.integrations.telling import TEXTS
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
    tools = gate_of(ledger, failed_on=ValueError).tools([fail])
    call: Any = AS_TEXT if as_text else [called("fail", "c1", order="o1")]
    for _ in range(2):
        assert crew_of(tools, call, as_text=as_text).kickoff().raw == "done"
    assert DONE == ["o1"]
    assert tools[0].run(order="o1") == "no funds"
    assert [effect.status for effect in ledger.effects()] == ["failed"]


def test_a_tool_that_raises_may_stop_the_crew(ledger: Ledger) -> None:
    tools = gate_of(ledger, on_error="raise", side_effect="write").tools([fail])
    with pytest.raises(ToolExecutionFailedError, match="no funds"):
        crew_of(tools, [called("fail", "c1", order="o1")]).kickoff()


@pytest.mark.parametrize("as_text", [False, True])
def test_a_lost_answer_leaves_doubt_and_stops_the_crew(ledger: Ledger, as_text: bool) -> None:
    call: Any = AS_TEXT if as_text else [called("fail", "c1", order="o1")]
    for _ in range(2):
        with pytest.raises(ToolExecutionFailedError) as stopped:
            crew_of(gate_of(ledger, side_effect="payment").tools([fail]), call, as_text=as_text).kickoff()
        (effect,) = ledger.effects()
        assert effect.status == "in_doubt"
        failure = stopped.value.record.failure
        assert (failure.code, failure.retryable) == ("EffectInDoubt", False)
        assert failure.message == TEXTS["in_doubt"].format(tool="fail", effect=effect.id)
        assert (failure.details["type"], failure.details["effect"]) == ("indelible.in_doubt", effect.id)
    assert DONE == ["o1"]


def test_a_failure_that_a_tool_reports_is_judged_as_any_error(ledger: Ledger) -> None:
    @tool
    def report(order: str) -> Any:
        """Reports."""
        return ToolFailure(message="the bank said no", code="declined")

    (guarded,) = gate_of(ledger).tools([report])
    assert guarded.run(order="o1").code == "EffectInDoubt"
    (declared,) = gate_of(ledger, failed_on=ToolError).tools([report])
    assert declared.run(order="o2") == declared.run(order="o2") == "the bank said no (code: declined)"
    assert {effect.args["order"]: effect.status for effect in ledger.effects()} == {"o1": "in_doubt", "o2": "failed"}


def test_a_refusal_that_a_tool_declares_is_told(ledger: Ledger) -> None:
    @tool
    def pay(order: str) -> str:
        """Pays."""
        raise Refused("the card was declined")

    assert gate_of(ledger).tools([pay])[0].run(order="o1") == "the card was declined"
    assert [effect.status for effect in ledger.effects()] == ["failed"]


def test_a_tool_may_say_that_nothing_happened(ledger: Ledger) -> None:
    @tool
    def pay(order: str) -> str:
        """Pays."""
        DONE.append(order)
        if len(DONE) == 1:
            raise NothingHappened("the line was busy")
        return "paid"

    (guarded,) = gate_of(ledger).tools([pay])
    assert isinstance(guarded.run(order="o1"), str), "the model hears of it, and may call again"
    assert guarded.run(order="o1") == "paid"


def test_the_memory_of_the_crew_does_not_answer_instead_of_the_ledger(ledger: Ledger) -> None:
    tools = gate_of(ledger, dedupe="call").tools([charge])
    crew_of(tools, [CHARGE], [CHARGE], cache=True).kickoff()
    assert DONE == ["o1 5", "o1 5"], "each call has an id of its own, and the ledger was asked about both"


def test_a_tool_that_reads_is_entered_by_every_call(ledger: Ledger) -> None:
    crew_of(gate_of(ledger, side_effect="read").tools([charge]), [CHARGE], [CHARGE]).kickoff()
    assert DONE == ["o1 5", "o1 5"]


def test_a_default_that_is_left_out_is_recorded_and_is_the_same_call_as_one_spelled_out(ledger: Ledger) -> None:
    @tool
    def refund(order: str, amount: int = 5000) -> str:
        """Refunds."""
        DONE.append(f"{order} {amount}")
        return "refunded"

    (guarded,) = gate_of(ledger).tools([refund])
    crew_of(
        [guarded], [called("refund", "c1", order="o1")], [called("refund", "c2", order="o1", amount=5000)]
    ).kickoff()
    guarded._run(order="o1")  # past the crew's own validation
    (effect,) = ledger.effects()
    assert effect.args == {"order": "o1", "amount": 5000}
    assert DONE == ["o1 5000"]


def test_the_same_payment_twice_is_made_once_and_the_model_hears_so(ledger: Ledger) -> None:
    @tool
    def pay(order: str) -> Receipt:
        """Pays."""
        DONE.append(order)
        return Receipt(id=f"r-{order}", amount=5)

    (guarded,) = gate_of(ledger, side_effect="payment").tools([pay])
    assert guarded.run(order="o1") == Receipt(id="r-o1", amount=5)
    again = guarded.format_output_for_agent(guarded.run(order="o1"))
    assert again.startswith('{"id":"r-o1","amount":5}')
    assert ledger.effects()[0].id in again, "the model hears which effect was replayed"
    (resumed,) = gate_of(ledger, side_effect="payment").tools([pay])
    assert resumed.run(order="o1") == Receipt(id="r-o1", amount=5), "a crew that begins anew gets it without the note"
    assert DONE == ["o1"]


def test_the_same_payment_in_the_next_turn_asks(ledger: Ledger) -> None:
    turns = iter(["message 1", "message 1", "message 2"])
    (guarded,) = gate_of(ledger, side_effect="payment", turn=lambda: next(turns)).tools([charge])
    for _ in range(2):
        assert isinstance(guarded.run(order="o1", amount=5), str)
    assert guarded.run(order="o1", amount=5).code == "ApprovalPending"
    assert DONE == ["o1 5"]
    decide(ledger)
    (later,) = gate_of(ledger, side_effect="payment", turn="message 2").tools([charge])
    assert later.run(order="o1", amount=5) == "charged 5"
    assert DONE == ["o1 5", "o1 5"]


def test_tools_that_are_coroutines_run_once_too(ledger: Ledger) -> None:
    @tool
    async def pay(order: str) -> str:
        """Pays."""
        DONE.append(order)
        return "paid"

    (guarded,) = gate_of(ledger).tools([pay])
    assert guarded.run(order="o1") == "paid"
    assert asyncio.run(guarded.arun(order="o1")).startswith("paid")
    assert DONE == ["o1"]


def test_a_key_that_belongs_to_another_call_is_told_and_the_crew_goes_on(ledger: Ledger) -> None:
    tools = gate_of(ledger, terms={"charge": {"key": ["order"]}}).tools([charge])
    assert crew_of(tools, [CHARGE], [called("charge", "c2", order="o1", amount=5000)]).kickoff().raw == "done"
    assert isinstance(tools[0].run(order="o1", amount=5000), str)
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
