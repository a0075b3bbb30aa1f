"""What the ledger does as Pydantic AI's durable engine, in one process; processes are killed in test_durability.py."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, RunContext, Tool
from pydantic_ai.capabilities import AbstractCapability, LocalWorkspace, durable_operation
from pydantic_ai.exceptions import ToolFailed, UserError
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    PartEndEvent,
    TextPart,
    ThinkingPart,
    ToolCallPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.toolsets import FunctionToolset

from indelible import AsyncLedger, migrate
from indelible.errors import BadCall, EffectFailed, KeyReused, ReviewRequired, StoreError
from indelible.integrations.pydantic_ai import LedgerCapability
from indelible.integrations.pydantic_ai_durability import LedgerDurability
from tests.scenarios.raw import execute

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def ledger(sqlite_url: str) -> AsyncIterator[AsyncLedger]:
    async with AsyncLedger.open(sqlite_url) as opened:
        yield opened


CALLS = ToolCallPart("charge", {"amount": 1.5, "order": 2**60}, tool_call_id="c1")


class Scripted:
    """Is a model that thinks, calls, and is done; it counts how often it is asked, and may raise first."""

    def __init__(self, raises: int = 0) -> None:
        self.asked = 0
        self._raises = raises

    def says(self, messages: list[ModelMessage], about: AgentInfo) -> ModelResponse:
        self.asked += 1
        if self.asked <= self._raises:
            raise ConnectionError("the model is away")
        if isinstance(messages[-1], ModelResponse) or any(isinstance(one, ModelResponse) for one in messages):
            return ModelResponse(parts=[TextPart("done")], provider_details={"score": 0.25, "logs": [-1e300]})
        return ModelResponse(parts=[ThinkingPart("hm", signature="sig", provider_name="p"), CALLS])

    async def streams(self, messages: list[ModelMessage], about: AgentInfo) -> AsyncIterator[str]:
        self.asked += 1
        for piece in ("do", "ne"):
            yield piece


class Till:
    """Has one tool, and counts."""

    def __init__(self, raises: Exception | None = None) -> None:
        self.charged: list[float] = []
        self._raises = raises

    async def charge(self, amount: float, order: int) -> dict[str, float]:
        """Charges."""
        self.charged.append(amount)
        if self._raises is not None:
            raise self._raises
        return {"charged": amount}


def agent_of(durability: LedgerDurability, till: Till, model: Scripted, **words: Any) -> Agent[None, Any]:
    return Agent(
        FunctionModel(model.says, stream_function=model.streams),
        name="billing",
        tools=[Tool(till.charge)],
        output_type=[str, DeferredToolRequests],
        capabilities=[durability, *words.pop("also", ())],
        **words,
    )


def responses(messages: list[ModelMessage]) -> list[ModelResponse]:
    return [one for one in messages if isinstance(one, ModelResponse)]


async def test_an_answer_comes_back_as_it_was_with_thoughts_ids_numbers_and_usage(ledger: AsyncLedger) -> None:
    till, model = Till(), Scripted()
    runs = [await agent_of(LedgerDurability(ledger, run="order-1"), till, model).run("go") for _ in range(2)]
    first, second = (responses(run.all_messages()) for run in runs)
    assert [one.parts for one in first] == [one.parts for one in second]
    assert [one.usage for one in first] == [one.usage for one in second]
    assert [one.timestamp for one in first] == [one.timestamp for one in second]
    assert second[0].tool_calls == [CALLS]
    assert second[1].provider_details == {"score": 0.25, "logs": [-1e300]}
    assert (till.charged, model.asked) == ([1.5], 2)


async def test_what_is_streamed_is_asked_for_once_and_shown_again(ledger: AsyncLedger) -> None:
    model = Scripted()
    for _ in range(2):
        async with agent_of(LedgerDurability(ledger), Till(), model).run_stream("go", conversation_id="c") as result:
            assert await result.get_output() == "done"
    assert model.asked == 1


async def test_who_listens_hears_the_model_live_once(ledger: AsyncLedger) -> None:
    heard: list[str] = []

    async def listen(ctx: RunContext[Any], events: Any) -> None:
        ended = [event.part async for event in events if isinstance(event, PartEndEvent)]
        heard.extend(part.content for part in ended if isinstance(part, TextPart))

    for _ in range(2):
        durability = LedgerDurability(ledger, run="order-1", event_stream_handler=listen)
        await agent_of(durability, Till(), Scripted()).run("go")
    assert heard == ["done"]


async def test_a_model_that_raises_has_not_answered(ledger: AsyncLedger) -> None:
    till, model = Till(), Scripted(raises=1)
    agent = agent_of(LedgerDurability(ledger, run="order-1"), till, model)
    with pytest.raises(ConnectionError):
        await agent.run("go")
    assert (await agent.run("go")).output == "done"
    assert (till.charged, model.asked) == ([1.5], 3)


async def test_a_run_needs_a_name_and_is_about_one_question(ledger: AsyncLedger) -> None:
    till = Till()
    with pytest.raises(BadCall, match="takes the place"):
        agent_of(LedgerDurability(ledger), till, Scripted(), also=[LedgerCapability(ledger)])
    with pytest.raises(BadCall, match="needs a name"):
        await agent_of(LedgerDurability(ledger), till, Scripted()).run("go")
    agent = agent_of(LedgerDurability(ledger), till, Scripted())
    await agent.run("go", conversation_id="order-1")
    with pytest.raises(KeyReused, match="asked something else"):
        await agent.run("go elsewhere", conversation_id="order-1")
    assert (await agent.run("go elsewhere", conversation_id="order-2")).output == "done"
    assert till.charged == [1.5, 1.5]


@pytest.mark.parametrize("with_history", [True, False])
async def test_an_approval_pauses_and_what_is_run_again_goes_on(ledger: AsyncLedger, with_history: bool) -> None:
    till, model = Till(), Scripted()
    durability = LedgerDurability(ledger, run="order-1", approval="required")
    paused = await agent_of(durability, till, model).run("go")
    assert isinstance(paused.output, DeferredToolRequests)
    (approval,) = await ledger.approvals(status="pending")
    assert paused.output.metadata["c1"]["approval"] == approval.id
    await ledger.approve(approval, digest=approval.digest, by="ana")
    for _ in range(2):
        agent = agent_of(durability, till, model)
        history: dict[str, Any] = {
            "message_history": paused.all_messages(),
            "deferred_tool_results": DeferredToolResults(approvals={"c1": True}),
        }
        result = await (agent.run(**history) if with_history else agent.run("go"))
        assert result.output == "done"
    assert (till.charged, model.asked) == ([1.5], 2)


async def test_what_a_tool_said_of_its_failure_it_says_again(ledger: AsyncLedger) -> None:
    till, model = Till(raises=ToolFailed("no funds")), Scripted()
    for _ in range(2):
        durable = LedgerDurability(ledger, run="order-1", failed_on=ToolFailed)
        result = await agent_of(durable, till, model).run("go")
        assert "no funds" in str(result.all_messages())
    assert (till.charged, model.asked) == ([1.5], 2)


async def test_a_tool_that_raises_stops_the_agent_and_stays_failed(ledger: AsyncLedger) -> None:
    till, model = Till(raises=OSError("no line")), Scripted()
    agent = agent_of(LedgerDurability(ledger, run="order-1", failed_on=OSError), till, model)
    with pytest.raises(OSError, match="no line"):
        await agent.run("go")
    with pytest.raises(EffectFailed, match="no line"):
        await agent.run("go")
    assert (till.charged, model.asked) == ([1.5], 1)


async def test_a_tool_that_loses_its_answer_stops_the_agent_and_is_in_doubt(ledger: AsyncLedger) -> None:
    till, model = Till(raises=OSError("no line")), Scripted()
    agent = agent_of(LedgerDurability(ledger, run="order-1"), till, model)
    with pytest.raises(OSError, match="no line"):
        await agent.run("go")
    (effect,) = await ledger.effects(tool="charge")
    assert effect.status == "in_doubt"
    assert till.charged == [1.5]


class Memory(AbstractCapability[Any]):
    """Remembers something at each turn, which it declares to be durable."""

    def __init__(self) -> None:
        self.remembered: list[str] = []

    @property
    def id(self) -> str | None:
        return "memory"

    async def before_model_request(self, ctx: RunContext[Any], request_context: Any) -> Any:
        await self.remember(ctx, "a turn")
        return request_context

    @durable_operation("remember")
    async def remember(self, ctx: RunContext[Any], what: str) -> int:
        self.remembered.append(what)
        return len(self.remembered)


async def test_what_a_capability_declares_durable_is_done_once(ledger: AsyncLedger) -> None:
    memory = Memory()
    for _ in range(2):
        durability = LedgerDurability(ledger, run="order-1")
        await agent_of(durability, Till(), Scripted(), also=[memory]).run("go")
    assert memory.remembered == ["a turn", "a turn"]
    assert len([one for one in await ledger.effects() if one.tool == "memory.remember"]) == 2


async def test_what_is_done_in_a_workspace_is_done_once(ledger: AsyncLedger, tmp_path: Path) -> None:
    class Writes(AbstractCapability[Any]):
        async def before_model_request(self, ctx: RunContext[Any], request_context: Any) -> Any:
            await ctx.workspace.write_bytes("note", b"a turn")
            return request_context

    workspace: LocalWorkspace[Any] = LocalWorkspace(tmp_path)
    await agent_of(LedgerDurability(ledger, run="order-1"), Till(), Scripted(), also=[workspace, Writes()]).run("go")
    assert (tmp_path / "note").read_text() == "a turn"
    (tmp_path / "note").unlink()
    await agent_of(LedgerDurability(ledger, run="order-1"), Till(), Scripted(), also=[workspace, Writes()]).run("go")
    assert not (tmp_path / "note").exists()


async def test_what_would_be_lost_on_a_replay_is_refused(ledger: AsyncLedger) -> None:
    async def charge(ctx: RunContext[None], amount: float, order: int) -> str:
        ctx.enqueue("and then?")
        return "charged"

    agent = Agent(
        FunctionModel(Scripted().says),
        name="billing",
        tools=[Tool(charge)],
        capabilities=[LedgerDurability(ledger, run="order-1")],
    )
    with pytest.raises(UserError, match="enqueue"):
        await agent.run("go")
    late: FunctionToolset[None] = FunctionToolset([charge], id="late")
    with pytest.raises(UserError, match="Ledger"):
        await agent.run("go", toolsets=[late])


async def test_a_recorded_turn_that_was_changed_is_not_gone_on_with(store_url: str) -> None:
    migrate(store_url)
    till, model = Till(), Scripted()
    async with AsyncLedger.open(store_url) as ledger:
        await agent_of(LedgerDurability(ledger, run="order-1"), till, model).run("go")
        (turn,) = [one for one in await ledger.effects(tool="model.turn") if "charge" in json.dumps(one.detail)]
    where = "WHERE run_id = 'order-1' AND field = 'result' AND seq = ?"
    ((kept,),) = execute(store_url, f"SELECT value FROM indelible_payloads {where}", turn.detail_seq)
    forged = bytes(kept).replace(b"1.5", b"9.5")
    assert forged != bytes(kept)
    execute(store_url, f"UPDATE indelible_payloads SET value = ? {where}", forged, turn.detail_seq)
    async with AsyncLedger.open(store_url) as ledger:
        with pytest.raises(ReviewRequired, match="is not what was recorded"):
            await agent_of(LedgerDurability(ledger, run="order-1"), till, model).run("go")
    assert (till.charged, model.asked) == ([1.5], 2)


async def test_with_the_store_away_neither_model_nor_tool_is_asked(postgres_server: Any, postgres_url: str) -> None:
    migrate(postgres_url)
    till, model = Till(), Scripted()
    async with AsyncLedger.open(postgres_url) as ledger:
        agent = agent_of(LedgerDurability(ledger, run="order-1"), till, model)
        postgres_server.stop()
        with pytest.raises(StoreError):
            await agent.run("go")
        postgres_server.start()
        assert (till.charged, model.asked) == ([], 0)
