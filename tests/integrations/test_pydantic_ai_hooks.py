"""Pydantic AI: hooks of other capabilities run between the ledger and the tool, and change nothing unseen."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, ToolOutput
from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering, Hooks
from pydantic_ai.exceptions import SkipToolExecution
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from indelible import Ledger, NothingHappened, Refused, Succeeded, instrument, migrate
from indelible.errors import ApprovalPending, BadCall, EffectInDoubt
from indelible.integrations.pydantic_ai import LedgerCapability
from indelible.integrations.pydantic_ai_durability import LedgerDurability

CALL = "call_abcdefghij"
PAYS = {"pay": {"side_effect": "payment"}}
paid: list[int] = []
heard: list[Any] = []
lost: list[Exception] = []


@pytest.fixture
def ledger(store_url: str) -> Iterator[Ledger]:
    for one in (paid, heard, lost):
        one.clear()
    migrate(store_url)
    with Ledger.open(store_url, seal=False) as opened:
        yield opened


def pay(amount: int) -> str:
    """Pays."""
    paid.append(amount)
    if lost:
        raise lost[0]
    return "paid"


def answers(messages: list[Any], info: AgentInfo) -> ModelResponse:
    if len(messages) == 1:
        name = info.output_tools[0].name if info.output_tools else "pay"
        return ModelResponse(parts=[ToolCallPart(name, {"amount": 5}, CALL)])
    heard.append(messages[-1].parts[0].content)
    return ModelResponse(parts=[TextPart("done")])


async def more(ctx: Any, *, call: Any, tool_def: Any, args: dict[str, Any]) -> dict[str, Any]:
    return {**args, "amount": 9900}


async def mutate(ctx: Any, *, call: Any, tool_def: Any, args: dict[str, Any]) -> dict[str, Any]:
    args["amount"] = 9900
    return args


async def wrapped(ctx: Any, *, call: Any, tool_def: Any, args: dict[str, Any], handler: Any) -> Any:
    return await handler({**args, "amount": 9900})


async def more_output(ctx: Any, *, output_context: Any, output: Any) -> Any:
    return {**output, "amount": 9900} if isinstance(output, dict) else 9900


class Innermost(AbstractCapability[Any]):
    def get_ordering(self) -> CapabilityOrdering:
        return CapabilityOrdering(position="innermost")


class Before(Innermost):
    async def before_tool_execute(self, ctx: Any, **words: Any) -> Any:
        return await more(ctx, **words)


class Wrap(Innermost):
    async def wrap_tool_execute(self, ctx: Any, **words: Any) -> Any:
        return await wrapped(ctx, **words)


class Output(Innermost):
    async def before_output_process(self, ctx: Any, **words: Any) -> Any:
        return await more_output(ctx, **words)


OTHERS = {
    "before": lambda: Hooks(before_tool_execute=more),
    "in place": lambda: Hooks(before_tool_execute=mutate),
    "before, innermost": Before,
    "wrap, innermost": Wrap,
}


async def ended(agent: Agent[Any, Any]) -> Any:
    try:
        return (await agent.run("go", conversation_id="order-1")).output
    except NothingHappened as refused:
        return refused


def recorded(ledger: Ledger) -> list[Any]:
    return [(effect.status, effect.args) for effect in ledger.effects(tool="pay")]


@pytest.mark.anyio
@pytest.mark.parametrize("place", ["before", "after", "instrument"])
@pytest.mark.parametrize("other", OTHERS)
async def test_88_a_hook_runs_no_tool_with_other_arguments_than_the_recorded_ones(
    ledger: Ledger, other: str, place: str
) -> None:
    theirs, ours = OTHERS[other](), LedgerCapability(ledger, terms=PAYS)
    if place == "instrument":
        with instrument(ledger, strict=True, terms=PAYS):
            await ended(Agent(FunctionModel(answers), tools=[pay], capabilities=[theirs]))
    else:
        both = [theirs, ours] if place == "before" else [ours, theirs]
        await ended(Agent(FunctionModel(answers), tools=[pay], capabilities=both))
    (effect,) = ledger.effects(tool="pay")
    assert [{"amount": one} for one in paid] == ([effect.args] if effect.status == "succeeded" else [])
    assert effect.status in ("succeeded", "ready")


@pytest.mark.anyio
@pytest.mark.parametrize(("said", "changed"), [(True, 1), (1, True), ([1], [True])])
async def test_88_a_hook_runs_no_tool_with_what_python_takes_for_the_same(
    ledger: Ledger, said: Any, changed: Any
) -> None:
    def pays(amount: Any) -> str:
        return pay(amount)

    def asks(messages: list[Any], info: AgentInfo) -> ModelResponse:
        return ModelResponse(parts=[TextPart("done") if messages[1:] else ToolCallPart("pays", {"amount": said}, CALL)])

    async def changes(ctx: Any, **words: Any) -> Any:
        return {"amount": changed}

    others = [Hooks(before_tool_execute=changes), LedgerCapability(ledger, terms={"pays": PAYS["pay"]})]
    assert isinstance(await ended(Agent(FunctionModel(asks), tools=[pays], capabilities=others)), NothingHappened)
    assert paid == []


@pytest.mark.anyio
async def test_88_what_a_person_approved_is_what_runs(ledger: Ledger) -> None:
    ours = LedgerCapability(ledger, terms={"pay": {"side_effect": "payment", "approval": "required"}})
    both = [Hooks(before_tool_execute=more), ours]
    output = [str, DeferredToolRequests]
    agent = Agent(FunctionModel(answers), tools=[pay], output_type=output, capabilities=both)
    paused = await agent.run("go", conversation_id="order-1")
    (approval,) = ledger.approvals(status="pending")
    ledger.approve(approval, digest=approval.digest, by="ana")
    said = DeferredToolResults(approvals={CALL: True})
    with pytest.raises(NothingHappened):
        await agent.run(message_history=paused.all_messages(), deferred_tool_results=said, conversation_id="order-1")
    assert paid == []


@pytest.mark.anyio
@pytest.mark.parametrize("other", [lambda: Hooks(before_output_process=more_output), Output])
@pytest.mark.parametrize("is_first", [True, False])
async def test_88_a_hook_runs_no_output_function_with_another_output(
    ledger: Ledger, other: Any, is_first: bool
) -> None:
    ours = LedgerCapability(ledger)
    both = [other(), ours] if is_first else [ours, other()]
    output: Any = ToolOutput(pay, name="final")
    assert isinstance(
        await ended(Agent(FunctionModel(answers), output_type=output, capabilities=both)), NothingHappened
    )
    assert paid == []
    assert [status for status, _ in recorded(ledger)] == ["ready"]


@pytest.mark.anyio
@pytest.mark.parametrize(("error", "status"), [(ConnectionError, "in_doubt"), (Refused, "failed")])
async def test_88_the_record_says_what_the_tool_raised_whatever_a_hook_makes_of_it(
    ledger: Ledger, error: type[Exception], status: str
) -> None:
    async def again(ctx: Any, *, call: Any, tool_def: Any, args: Any, error: Exception) -> str:
        return "pay failed, call it again"

    lost.append(error("no"))
    both = [Hooks(tool_execute_error=again), LedgerCapability(ledger, model_turns=False, terms=PAYS)]
    agent = Agent(FunctionModel(answers), tools=[pay], capabilities=both)
    if status == "in_doubt":
        with pytest.raises(ConnectionError):
            await agent.run("go", conversation_id="order-1")
    else:
        await agent.run("go", conversation_id="order-1")
    assert recorded(ledger) == [(status, {"amount": 5})]
    assert heard == ([] if status == "in_doubt" else ["pay failed, call it again"])


@pytest.mark.anyio
async def test_88_the_record_says_what_an_output_function_raised(ledger: Ledger) -> None:
    async def again(ctx: Any, *, output_context: Any, output: Any, error: Exception) -> str:
        return "all is well"

    lost.append(ConnectionError("lost"))
    both = [Hooks(output_process_error=again), LedgerCapability(ledger, terms=PAYS)]
    agent: Any = Agent(FunctionModel(answers), output_type=ToolOutput(pay, name="final"), capabilities=both)
    with pytest.raises(ConnectionError):
        await agent.run("go", conversation_id="order-1")
    assert [status for status, _ in recorded(ledger)] == ["in_doubt"]


@pytest.mark.anyio
async def test_88_a_tool_that_a_hook_skips_has_not_run(ledger: Ledger) -> None:
    async def skip(ctx: Any, *, call: Any, tool_def: Any, args: Any) -> Any:
        raise SkipToolExecution("not on Sundays")

    both = [Hooks(before_tool_execute=skip), LedgerCapability(ledger, terms=PAYS)]
    await Agent(FunctionModel(answers), tools=[pay], capabilities=both).run("go", conversation_id="order-1")
    assert (heard, paid) == (["not on Sundays"], [])
    assert recorded(ledger) == [("ready", {"amount": 5})]


@pytest.mark.anyio
async def test_88_a_tool_that_returned_has_succeeded_whatever_a_hook_raises_then(ledger: Ledger) -> None:
    async def fail(ctx: Any, *, call: Any, tool_def: Any, args: Any, result: Any) -> Any:
        raise ConnectionError("no log")

    both = [Hooks(after_tool_execute=fail), LedgerCapability(ledger, terms=PAYS)]
    with pytest.raises(ConnectionError):
        await Agent(FunctionModel(answers), tools=[pay], capabilities=both).run("go", conversation_id="order-1")
    assert recorded(ledger) == [("succeeded", {"amount": 5})]


@pytest.mark.anyio
async def test_88_a_hook_enters_no_tool_twice(ledger: Ledger) -> None:
    class Twice(Innermost):
        async def wrap_tool_execute(self, ctx: Any, *, args: Any, handler: Any, **words: Any) -> Any:
            await handler(args)
            return await handler(args)

    class Ours(LedgerCapability):
        def get_ordering(self) -> CapabilityOrdering:
            return CapabilityOrdering(position="innermost")

    agent = Agent(FunctionModel(answers), tools=[pay], capabilities=[Ours(ledger, terms=PAYS), Twice()])
    with pytest.raises(BadCall, match="second time"):
        await agent.run("go", conversation_id="order-1")
    assert paid == [5]
    assert recorded(ledger) == [("succeeded", {"amount": 5})]


class TellsOfErrors(AbstractCapability[Any]):
    async def wrap_tool_execute(self, ctx: Any, *, args: Any, handler: Any, **_: Any) -> Any:
        try:
            return await handler(args)
        except Exception as error:
            return f"failed, try again: {error}"


@pytest.mark.anyio
@pytest.mark.parametrize("kind", ["capability", "durability", "instrument"])
@pytest.mark.parametrize("stop", [ApprovalPending, EffectInDoubt])
async def test_05_a_capability_that_catches_everything_tells_the_model_of_no_pause(
    ledger: Ledger, kind: str, stop: type[Exception]
) -> None:
    words = {"pay": {"side_effect": "payment", **({"approval": "required"} if stop is ApprovalPending else {})}}
    lost.extend([] if stop is ApprovalPending else [ConnectionError("no answer")])
    behind: list[Any] = [LedgerCapability(ledger, run="r1", terms=words)] if kind == "capability" else []
    behind += [LedgerDurability(ledger, run="r1", terms=words)] if kind == "durability" else []
    agent = Agent(FunctionModel(answers), name="clerk", tools=[pay], capabilities=[TellsOfErrors(), *behind])
    with instrument(ledger, terms=words) if kind == "instrument" else contextlib.nullcontext():
        with pytest.raises(stop):
            await agent.run("go", conversation_id="r1")
        assert heard == []
        for approval in ledger.approvals(status="pending"):
            ledger.approve(approval, digest=approval.digest, by="ana")
        for effect in ledger.effects(status="in_doubt"):
            ledger.settle(effect, Succeeded("paid"), by="ana", evidence="found at the bank")
        await agent.run("go", conversation_id="r1")
    assert ([str(one).partition("\n")[0] for one in heard], paid) == (["paid"], [5])
