"""Pydantic AI behind the ledger: once, with permission, and a model that is asked once per turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai import Agent, ApprovalRequired, DeferredToolRequests, DeferredToolResults, ModelRetry, RunContext, Tool
from pydantic_ai.capabilities import ProcessHistory
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.messages import (
    BinaryContent,
    DocumentUrl,
    ImageUrl,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextContent,
    TextPart,
    ToolCallPart,
    ToolReturn,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.tools import ToolApproved, ToolDenied

from indelible import AsyncLedger, NothingHappened, Succeeded, migrate
from indelible.errors import EffectInDoubt
from indelible.integrations.pydantic_ai import LedgerCapability
from indelible.integrations.pydantic_ai_durability import LedgerDurability

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def ledger(sqlite_url: str) -> AsyncIterator[AsyncLedger]:
    async with AsyncLedger.open(sqlite_url) as opened:
        yield opened


class Money(BaseModel):
    amount: int


class Scripted:
    """Is a model that calls `charge` once, then says that it is done; it counts how often it is asked."""

    def __init__(self, *turns: list[Any]) -> None:
        self.asked = 0
        self.turns = turns or ([ToolCallPart("charge", {"money": {"amount": 5}}, tool_call_id="c1")],)

    def __call__(self, messages: list[ModelMessage], about: AgentInfo) -> ModelResponse:
        self.asked += 1
        turn = sum(isinstance(message, ModelResponse) for message in messages)
        return ModelResponse(parts=self.turns[turn] if turn < len(self.turns) else [TextPart("done")])


class Till:
    """Has one tool, and counts."""

    def __init__(self, gives: Any = None) -> None:
        self.charged: list[int] = []
        self.gives = gives

    def charge(self, money: Money) -> Any:
        """Charges."""
        self.charged.append(money.amount)
        if isinstance(self.gives, Exception):
            raise self.gives
        return self.gives or {"charged": money.amount}


def agent_of(ledger: AsyncLedger, till: Till, model: Scripted | None = None, **words: Any) -> Agent[None, Any]:
    return Agent(
        FunctionModel(model or Scripted()),
        tools=[Tool(till.charge)],
        output_type=[str, DeferredToolRequests],
        capabilities=[LedgerCapability(ledger, **words)],
    )


def returned(messages: list[ModelMessage]) -> list[Any]:
    parts = [part for message in messages if isinstance(message, ModelRequest) for part in message.parts]
    return [part.content for part in parts if isinstance(part, ToolReturnPart)]


async def test_an_agent_that_is_run_again_asks_its_model_and_its_tool_nothing_twice(ledger: AsyncLedger) -> None:
    till, model = Till(), Scripted()
    for _ in range(2):
        result = await agent_of(ledger, till, model).run("go", conversation_id="order-1")
        assert returned(result.all_messages()) == [{"charged": 5}]
        assert result.output == "done"
    assert till.charged == [5]
    assert model.asked == 2, "one answer per turn, and the same turns were asked for before"


async def test_a_return_with_its_parts_comes_back_as_one(ledger: AsyncLedger) -> None:
    till = Till(ToolReturn("ok", content="see receipt", metadata={"receipt": 7}))
    for _ in range(2):
        result = await agent_of(ledger, till).run("go", conversation_id="order-1")
        (part,) = [
            part
            for message in result.all_messages()
            if isinstance(message, ModelRequest)
            for part in message.parts
            if isinstance(part, ToolReturnPart)
        ]
        assert (part.content, part.metadata) == ("ok", {"receipt": 7})
    assert till.charged == [5]


async def test_what_a_tool_that_declares_it_asks_of_the_model_it_asks_again_without_running(
    ledger: AsyncLedger,
) -> None:
    till = Till(ModelRetry("another amount, please"))
    model = Scripted([ToolCallPart("charge", {"money": {"amount": 5}}, tool_call_id="c1")])
    for _ in range(2):
        agent = agent_of(ledger, till, model, failed_on=ModelRetry)
        result = await agent.run("go", conversation_id="order-1")
        assert "another amount, please" in str(result.all_messages())
    assert till.charged == [5]


async def test_a_tool_that_asks_the_model_after_it_may_have_done_something_pauses_the_agent(
    ledger: AsyncLedger,
) -> None:
    till = Till(ModelRetry("try again"))
    for _ in range(2):
        result = await agent_of(ledger, till).run("go", conversation_id="order-1")
        assert isinstance(result.output, DeferredToolRequests)
        assert result.output.metadata["c1"]["type"] == "indelible.in_doubt"
        assert "try again" not in str(result.all_messages())
    assert till.charged == [5]


@pytest.mark.parametrize("side_effect", ["payment", "write"])
@pytest.mark.parametrize("limit", ["tool", "agent"])
async def test_37_a_tool_that_the_framework_timed_out_is_in_doubt_whatever_it_declares(
    store_url: str, side_effect: str, limit: str
) -> None:
    """The framework turns its time limit into a retry prompt, which the tool never raised."""
    paid = asyncio.Event()

    async def charge(money: Money) -> str:
        """Charges."""
        paid.set()
        await asyncio.Event().wait()
        return "never"

    terms: dict[str, Any] = {"charge": {"side_effect": side_effect, "failed_on": (ModelRetry, ToolFailed)}}
    migrate(store_url)
    async with AsyncLedger.open(store_url) as ledger:
        agent: Agent[None, Any] = Agent(
            FunctionModel(Scripted()),
            tools=[Tool(charge, timeout=0.1 if limit == "tool" else None)],
            tool_timeout=0.1 if limit == "agent" else None,
            output_type=[str, DeferredToolRequests],
            capabilities=[LedgerCapability(ledger, terms=terms)],
        )
        result = await agent.run("go", conversation_id="order-1")
        assert paid.is_set()
        assert [effect.status for effect in await ledger.effects(tool="charge")] == ["in_doubt"]
    assert result.output.metadata["c1"]["type"] == "indelible.in_doubt"


@pytest.mark.parametrize(
    "shown",
    [
        ImageUrl("https://example.com/a.png"),
        DocumentUrl("https://example.com/a.pdf"),
        BinaryContent(b"\x89PNG", media_type="image/png"),
        TextContent("look"),
    ],
)
async def test_53_a_turn_stays_the_same_when_its_messages_are_stored(store_url: str, shown: Any) -> None:
    """A prompt with a file in it is read back as other objects, which say the same."""
    till = Till()
    migrate(store_url)
    async with AsyncLedger.open(store_url) as ledger:
        agent = agent_of(ledger, till, side_effect="notification", model_turns=False)
        stored = b""
        async with agent.iter(["go", shown], conversation_id="order-1") as run:
            async for node in run:
                if Agent.is_call_tools_node(node) and not till.charged:
                    stored = ModelMessagesTypeAdapter.dump_json(run.ctx.state.message_history)
        assert till.charged == [5]
        history = ModelMessagesTypeAdapter.validate_json(stored)
        await agent.run(message_history=history, conversation_id="order-1")
    assert till.charged == [5]


@pytest.mark.parametrize("is_durable", [False, True])
@pytest.mark.parametrize("kept", [1, 3, 4, 5])
async def test_53_a_history_processor_that_leaves_messages_out_begins_no_turn(
    store_url: str, kept: int, is_durable: bool
) -> None:
    """Each step of a run sees another number of prompts, and the calls of the run are those of one turn."""
    till, chats = Till(), [ModelRequest(parts=[UserPromptPart(f"chat {number}")]) for number in range(3)]
    history = [message for chat in chats for message in (chat, ModelResponse(parts=[TextPart("ok")]))]
    said: list[Any] = [ToolCallPart("charge", {"money": {"amount": 5}}, tool_call_id=one) for one in ("c1", "c2", "c3")]
    turns = iter([*said, TextPart("done")])
    migrate(store_url)
    async with AsyncLedger.open(store_url) as ledger:
        model = FunctionModel(lambda messages, info: ModelResponse(parts=[next(turns)]))
        behind = LedgerDurability if is_durable else LedgerCapability
        gate = behind(ledger, side_effect="notification")
        agent: Agent[None, Any] = Agent(model, name="billing", tools=[Tool(till.charge)], capabilities=[gate])
        keep = ProcessHistory(lambda messages: messages[-kept:])
        await agent.run("go", message_history=history, conversation_id="order-1", capabilities=[keep])
    assert till.charged == [5]


@pytest.mark.parametrize("priority", ["asap", "when_idle"])
@pytest.mark.parametrize("sent", [1, 2])
@pytest.mark.parametrize("is_bare", [False, True])
async def test_53_a_message_that_is_sent_to_a_run_begins_no_turn(
    store_url: str, priority: Any, sent: int, is_bare: bool
) -> None:
    """It stands in the history like a prompt. Each resume sees it, also after the framework has merged messages."""
    till, mail = Till(), ToolCallPart("charge", {"money": {"amount": 5}})
    wires = [ToolCallPart("wire", {"order": one}, tool_call_id=f"w{one}") for one in (1, 2)]
    turns = iter([[mail], [TextPart("fine")], [mail, wires[0]], [mail, wires[1]], [mail], [TextPart("done")]])

    def wire(order: int) -> str:
        """Wires."""
        return "wired"

    terms: dict[str, Any] = {"charge": {"side_effect": "notification"}, "wire": {"approval": "required"}}
    migrate(store_url)
    async with AsyncLedger.open(store_url) as ledger:
        agent = agent_of(ledger, till, terms=terms, model_turns=False)
        agent.model = FunctionModel(lambda messages, info: ModelResponse(parts=next(turns)))
        agent.tool_plain(wire)
        async with agent.iter("go", conversation_id="order-1") as run:
            if is_bare:  # before the model is asked for the first time
                run.enqueue("stock is low", priority=priority)
            async for node in run:
                if Agent.is_call_tools_node(node) and isinstance(node.model_response.parts[0], TextPart):
                    for number in range(sent):
                        run.enqueue(f"note {number}", priority=priority)
        result: Any = run.result
        for wired in wires:
            (asked,) = result.output.approvals
            assert asked.tool_call_id == wired.tool_call_id
            question = result.output.metadata[asked.tool_call_id]
            await ledger.approve(question["approval"], digest=question["digest"], by="ana")
            history = ModelMessagesTypeAdapter.validate_json(result.all_messages_json())
            answers = result.output.build_results(approve_all=True)
            result = await agent.run(message_history=history, conversation_id="order-1", deferred_tool_results=answers)
        assert result.output == "done"
        assert len({effect.turn for effect in await ledger.effects()}) == 1
    assert till.charged == [5]


async def test_53_an_agent_that_is_resumed_with_the_last_messages_alone_is_in_the_same_turn(store_url: str) -> None:
    till, turns = Till(), [ToolCallPart("charge", {"money": {"amount": 5}}, tool_call_id=one) for one in ("c1", "c2")]
    said: Any = iter([TextPart("ok"), *turns, TextPart("done")])
    migrate(store_url)
    async with AsyncLedger.open(store_url) as ledger:
        agent = agent_of(ledger, till, side_effect="notification", model_turns=False)
        agent.model = FunctionModel(lambda messages, info: ModelResponse(parts=[next(said)]))
        before = (await agent.run("hello", conversation_id="order-1")).all_messages()
        async with agent.iter("go", message_history=before, conversation_id="order-1") as run:
            async for node in run:
                if Agent.is_model_request_node(node) and till.charged:
                    break
            history = [*run.ctx.state.message_history, node.request]
        await agent.run(message_history=history[2:], conversation_id="order-1")
    assert till.charged == [5]


async def test_what_a_tool_sends_beside_its_result_begins_no_turn(ledger: AsyncLedger) -> None:
    till = Till(ToolReturn("ok", content="see receipt"))
    calls = [[ToolCallPart("charge", {"money": {"amount": 5}}, tool_call_id=one)] for one in ("c1", "c2", "c3")]
    result = await agent_of(ledger, till, Scripted(*calls)).run("go", conversation_id="order-1")
    assert result.output == "done"
    assert till.charged == [5]
    assert str(result.all_messages()).count("Nothing was run now") == 2


async def test_saying_approved_to_the_agent_approves_nothing(ledger: AsyncLedger) -> None:
    till = Till()
    agent = agent_of(ledger, till, approval="required")
    paused = await agent.run("go", conversation_id="order-1")
    assert isinstance(paused.output, DeferredToolRequests)
    (approval,) = await ledger.approvals(status="pending")
    assert paused.output.metadata["c1"]["approval"] == approval.id
    again = await agent.run(
        message_history=paused.all_messages(), deferred_tool_results=paused.output.build_results(approve_all=True)
    )
    assert isinstance(again.output, DeferredToolRequests)
    assert till.charged == []
    await ledger.approve(approval.id, digest=approval.digest, by="ana")
    other = await agent.run(
        message_history=paused.all_messages(),
        deferred_tool_results=DeferredToolResults(
            approvals={"c1": ToolApproved(override_args={"money": {"amount": 5000}})}
        ),
    )
    assert isinstance(other.output, DeferredToolRequests), "other arguments are another call, and a new question"
    assert till.charged == []
    done = await agent.run(
        message_history=paused.all_messages(), deferred_tool_results=paused.output.build_results(approve_all=True)
    )
    assert done.output == "done"
    assert till.charged == [5]


async def test_what_was_edited_is_not_run_with_the_arguments_that_the_agent_had(ledger: AsyncLedger) -> None:
    till = Till()
    agent = agent_of(ledger, till, approval="required")
    paused = await agent.run("go", conversation_id="order-1")
    assert isinstance(paused.output, DeferredToolRequests)
    (question,) = await ledger.approvals(status="pending")
    edited = await ledger.edit_approval(question, {"money": {"amount": 3}}, digest=question.digest, by="eve")
    await ledger.approve(edited.id, digest=edited.digest, by="ana")
    with pytest.raises(NothingHappened):
        await agent.run(
            message_history=paused.all_messages(), deferred_tool_results=paused.output.build_results(approve_all=True)
        )
    assert till.charged == []
    assert sorted(effect.status for effect in await ledger.effects(tool="charge")) == ["canceled", "ready"]


@pytest.mark.parametrize(
    ("results", "heard"),
    [
        (DeferredToolResults(calls={"c1": "paid, receipt 77"}), "paid, receipt 77"),
        (DeferredToolResults(approvals={"c1": False}), "The tool call was denied."),
        (DeferredToolResults(approvals={"c1": ToolDenied("no")}), "no"),
    ],
)
async def test_84_what_pydantic_ai_answers_itself_leaves_the_effect_as_it_is(
    ledger: AsyncLedger, results: DeferredToolResults, heard: str
) -> None:
    till = Till()
    agent = agent_of(ledger, till, approval="required")
    paused = await agent.run("go", conversation_id="order-1")
    told = await agent.run(message_history=paused.all_messages(), deferred_tool_results=results)
    assert returned(told.all_messages()) == [heard]
    assert till.charged == []
    assert [one.status for one in await ledger.approvals()] == ["pending"]


async def test_a_tool_that_defers_by_itself_is_entered_when_it_is_answered(ledger: AsyncLedger) -> None:
    entered: list[bool] = []

    def charge(ctx: RunContext[None], money: Money) -> str:
        entered.append(ctx.tool_call_approved)
        if not ctx.tool_call_approved:
            raise ApprovalRequired
        return "charged"

    agent = Agent(
        FunctionModel(Scripted()),
        tools=[Tool(charge)],
        output_type=[str, DeferredToolRequests],
        capabilities=[LedgerCapability(ledger, nothing_on=ApprovalRequired)],
    )
    paused = await agent.run("go", conversation_id="order-1")
    assert isinstance(paused.output, DeferredToolRequests)
    result = await agent.run(
        message_history=paused.all_messages(), deferred_tool_results=paused.output.build_results(approve_all=True)
    )
    assert result.output == "done"
    assert entered == [False, True]
    (effect,) = [one for one in await ledger.effects() if one.tool == "charge"]
    assert (effect.status, effect.attempt) == ("succeeded", 2)


class Asking:
    """Has a payment that asks by itself, and an agent whose account changes from resume to resume."""

    def __init__(self, ledger: AsyncLedger, **words: Any) -> None:
        def charge(ctx: RunContext[str], money: Money) -> str:
            if not ctx.tool_call_approved:
                raise ApprovalRequired({"type": "the tool's"})
            self.charged.append(ctx.deps)
            return "charged"

        self.charged: list[str] = []
        self.asked: Any = {}
        self._ledger = ledger
        calls = [[ToolCallPart("charge", {"money": {"amount": 5}}, tool_call_id=f"call_X{turn}")] for turn in (0, 1)]
        self._agent = Agent(
            FunctionModel(Scripted(*calls)),
            deps_type=str,
            tools=[Tool(charge)],
            output_type=[str, DeferredToolRequests],
            capabilities=[LedgerCapability(ledger, side_effect="payment", **words)],
        )
        self._messages: list[ModelMessage] = []

    async def go(self, account: str, answer: bool | None = None) -> str:
        """Begin, or go on with an answer, and return the type of what is asked next; the ledger says yes to its own."""
        results = None if answer is None else DeferredToolResults(approvals=dict.fromkeys(self.asked, answer))
        result = await self._agent.run(
            None if self._messages else "go",
            message_history=self._messages,
            deferred_tool_results=results,
            deps=account,
            conversation_id="order-1",
        )
        self._messages = result.all_messages()
        self.asked = result.output.metadata if isinstance(result.output, DeferredToolRequests) else {}
        for approval in await self._ledger.approvals(status="pending"):
            await self._ledger.approve(approval, digest=approval.digest, by="ana")
        return ", ".join(one["type"] for one in self.asked.values())


@pytest.mark.parametrize("answer", [True, False])
async def test_01_an_answer_to_what_the_tool_asked_before_the_ledger_asked_anew_is_no_yes(
    ledger: AsyncLedger, answer: bool
) -> None:
    asking = Asking(ledger, approval="required", nothing_on=ApprovalRequired)
    assert await asking.go("A") == "indelible.approval"
    assert await asking.go("A", True) == "the tool's"
    assert await asking.go("B", answer) == "indelible.approval"
    assert await asking.go("B", True) == "the tool's"
    assert asking.charged == []
    await asking.go("B", True)
    assert asking.charged == ["B"]


async def test_01_a_yes_to_the_tools_question_holds_while_a_person_settles_the_doubt_that_its_pause_left(
    ledger: AsyncLedger,
) -> None:
    asking = Asking(ledger)
    assert await asking.go("A") == "the tool's"
    assert await asking.go("A", True) == "indelible.in_doubt"
    (effect,) = [one for one in await ledger.effects() if one.tool == "charge"]
    await ledger.retry(effect.id, by="ana", reason="it asks before it acts")
    await asking.go("A", True)
    assert asking.charged == ["A"]


async def test_02_what_a_resume_asks_is_not_written_into_the_messages_it_was_given(ledger: AsyncLedger) -> None:
    asking = Asking(ledger, approval="required", nothing_on=ApprovalRequired)
    await asking.go("A")
    given = asking._messages
    assert await asking.go("A", True) == "the tool's"
    asking._messages = given
    assert await asking.go("A") == "the tool's", "it is called again without an answer"
    asking._messages = given
    assert await asking.go("A", True) == "the tool's"
    assert asking.charged == []


@pytest.mark.parametrize("raised", [ModelRetry("another amount, please"), "misread"])
async def test_37_an_output_function_that_raises_after_the_deed_is_not_called_another_way(
    ledger: AsyncLedger, raised: Any
) -> None:
    charged: list[int] = []

    def charge(amount: int) -> str:
        charged.append(amount)
        if raised == "misread":
            Money.model_validate({"amount": "much"})
        raise raised

    def says(messages: list[ModelMessage], about: AgentInfo) -> ModelResponse:
        turn = sum(isinstance(message, ModelResponse) for message in messages)
        (tool,) = about.output_tools
        return ModelResponse(parts=[ToolCallPart(tool.name, {"amount": 5 + turn}, tool_call_id=f"c{turn}")])

    gate = LedgerCapability(ledger, side_effect="payment")
    agent: Agent[None, Any] = Agent(FunctionModel(says), output_type=charge, capabilities=[gate])
    with pytest.raises(EffectInDoubt):
        await agent.run("go", conversation_id="order-1")
    assert charged == [5]
    assert [effect.status for effect in await ledger.effects(status="in_doubt")] == ["in_doubt"]


@pytest.mark.anyio
@pytest.mark.parametrize("names", [("refunder", "charger"), (None, None)])
async def test_53_another_agent_with_the_same_prompt_is_asked_itself(
    ledger: AsyncLedger, names: tuple[str | None, str | None]
) -> None:
    asked: list[str] = []

    def model(says: str) -> FunctionModel:
        def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            asked.append(says)
            return ModelResponse(parts=[TextPart(says)])

        return FunctionModel(answer)

    def charge(amount: int) -> str:
        """Charges."""
        return "charged"

    behind = LedgerCapability(ledger, run="order-1")
    tools = [] if names[0] else [charge]  # agents without names are told apart by their tools
    first = Agent(model("first"), name=names[0], capabilities=[behind])
    second = Agent(model("second"), name=names[1], tools=tools, capabilities=[behind])
    for _ in range(2):
        said = [(await agent.run("order 123", infer_name=False)).output for agent in (first, second)]
        assert said == ["first", "second"]
    assert asked == ["first", "second"]


@pytest.mark.parametrize("value", ["tr_1", None, {"id": "tr_1"}])
async def test_37_an_output_function_that_a_person_settled_gives_what_they_said(store_url: str, value: Any) -> None:
    entered: list[str] = []

    def pay(order: str) -> str:
        """Pay what is due."""
        entered.append(order)
        raise ConnectionError("the answer was lost")

    def says(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return ModelResponse(parts=[ToolCallPart(info.output_tools[0].name, {"order": "o1"}, tool_call_id="call_Xy")])

    migrate(store_url)
    async with AsyncLedger.open(store_url) as ledger:
        behind = LedgerCapability(ledger, terms={"pay": {"side_effect": "payment"}})
        agent: Agent[None, Any] = Agent(FunctionModel(says), output_type=pay, capabilities=[behind])
        with pytest.raises(ConnectionError):
            await agent.run("pay", conversation_id="order-1")
        (effect,) = await ledger.effects(tool="pay")
        await ledger.settle(effect, Succeeded(value), by="ana", evidence="found at the bank")
        result = await agent.run("pay", conversation_id="order-1")
    assert (result.output, entered) == (value, ["o1"])


@pytest.mark.parametrize("model_turns", [True, False])
async def test_05_an_answer_that_cannot_be_recorded_is_handed_on(ledger: AsyncLedger, model_turns: bool) -> None:
    charged: list[Any] = []

    def charge(amount: float) -> str:
        """Charges."""
        charged.append(amount)
        return "charged"

    model = Scripted([ToolCallPart("charge", {"amount": float("nan")}, tool_call_id="c1")])
    words: Any = {"model_turns": model_turns, "side_effect": "payment"}
    agent = Agent(FunctionModel(model), tools=[Tool(charge)], capabilities=[LedgerCapability(ledger, **words)])
    result = await agent.run("go", conversation_id="order-1")
    (heard,) = returned(result.all_messages())
    assert "was not called" in heard
    assert (charged, result.output) == ([], "done")
    assert await ledger.effects(status="in_doubt") == []
