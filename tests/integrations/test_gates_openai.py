"""OpenAI Agents: what a tool raised is on the record as that, behind `LedgerTools` and under `instrument()` alike."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from agents import (
    Agent,
    FunctionTool,
    HostedMCPTool,
    RunContextWrapper,
    Runner,
    RunState,
    Tool,
    function_tool,
    set_tracing_disabled,
)
from agents.exceptions import UserError
from agents.mcp import MCPServerSse, MCPServerStdio, MCPServerStreamableHttp, MCPUtil
from agents.sandbox import SandboxAgent
from agents.sandbox.capabilities import Shell
from agents.testing import ScriptedModel, assistant_message, function_call
from mcp.shared.exceptions import MCPError

from indelible import Ledger, instrument
from indelible.errors import BadCall
from indelible.integrations.openai_agents import LedgerTools
from indelible.integrations.results import ToolError
from indelible.integrations.telling import TEXTS
from tests.integrations import mcp_bank
from tests.scenarios.shells import prepare_store

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("quiet")]
PAYS = {"side_effect": "payment"}
ASKS = {**PAYS, "approval": "required"}
EVERY_WAY = pytest.mark.parametrize("way", ["gate", "instrument"])
DONE = [assistant_message("done")]
OTHERS = ["crewai", "google-adk", "strands-agents", "claude-agent-sdk"]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def quiet() -> Iterator[None]:
    set_tracing_disabled(True)
    yield
    set_tracing_disabled(False)


@pytest.fixture
def ledger(store_url: str) -> Iterator[Ledger]:
    with Ledger.open(prepare_store(store_url), seal=False) as opened:
        yield opened


@pytest.fixture
def plain(tmp_path: Path) -> Iterator[Ledger]:
    """Is a ledger in SQLite: what is tested here is no affair of the store."""
    with Ledger.open(f"sqlite:///{tmp_path}/ledger.db", seal=False) as opened:
        yield opened


def calling(tool: str = "pay", *ids: str, **args: Any) -> ScriptedModel:
    turns = [[function_call(tool, args or {"amount": 5}, call_id=call_id)] for call_id in ids or ("call_Xa",)]
    return ScriptedModel([*turns, [assistant_message("done")]])


def outputs(result: Any) -> list[Any]:
    return [item.output for item in result.new_items if item.type == "tool_call_output_item"]


def doubts(ledger: Ledger, *heard: Any) -> bool:
    """Say whether the one effect is in doubt, and the model heard so each time."""
    (effect,) = ledger.effects()
    told = TEXTS["in_doubt"].format(tool=effect.tool, effect=effect.id)
    return effect.status == "in_doubt" and heard == (told,) * len(heard)


async def paying(ledger: Ledger, way: str, tool: FunctionTool, *ids: str, **words: Any) -> list[Any]:
    """Let a model call a payment, and return what it heard."""
    terms = {"pay": {**PAYS, **words}}
    around = instrument(ledger, terms=terms) if way == "instrument" else contextlib.nullcontext()
    tools: list[Tool] = [tool] if way == "instrument" else LedgerTools(ledger, run="order-1", terms=terms).tools([tool])
    with around, ledger.in_run("order-1"):
        return outputs(await Runner.run(Agent(name="clerk", model=calling("pay", *ids), tools=tools), "go"))


# What a tool raised


def sorry(context: Any, error: Exception) -> str:
    return "sorry, it failed, try again"


async def sorry_soon(context: Any, error: Exception) -> str:
    return "sorry, it failed, try again"


@EVERY_WAY
@pytest.mark.parametrize(
    "told",
    [{}, {"failure_error_function": sorry}, {"failure_error_function": sorry_soon}],
    ids=["default", "own", "async"],
)
async def test_37_a_payment_that_raises_is_in_doubt_however_the_sdk_tells_errors(
    ledger: Ledger, way: str, told: dict[str, Any]
) -> None:
    paid: list[int] = []

    def pay(amount: int) -> str:
        """Pays."""
        paid.append(amount)
        raise ConnectionError("lost after the deed")

    heard = await paying(ledger, way, function_tool(pay, **told), "call_Xa", "call_Xb")
    assert (paid, doubts(ledger, *heard)) == ([5], True)


@EVERY_WAY
async def test_37_a_declared_refusal_is_told_the_tools_own_way(plain: Ledger, way: str) -> None:
    @function_tool(failure_error_function=lambda _, error: f"it said: {error}")
    def pay(amount: int) -> str:
        """Pays."""
        raise ValueError("no funds")

    heard = await paying(plain, way, pay, "call_Xa", "call_Xb", failed_on=ValueError)
    assert heard == ["it said: no funds"] * 2
    assert [effect.status for effect in plain.effects()] == ["failed"]


@EVERY_WAY
@pytest.mark.parametrize("behaviour", ["error_as_result", "raise_exception"])
async def test_37_of_a_time_limit_the_model_hears_that_it_may_have_happened(
    plain: Ledger, way: str, behaviour: Any
) -> None:
    paid: list[int] = []

    @function_tool(timeout=0.2, timeout_behavior=behaviour)
    async def pay(amount: int) -> str:
        """Pays."""
        paid.append(amount)
        await asyncio.Event().wait()
        return "paid"

    heard = await paying(plain, way, pay, "call_Xa", "call_Xb")
    assert (paid, doubts(plain, *heard)) == ([5], True)


class Counting(FunctionTool):
    """Is a tool with a state of its own."""

    def __init__(self) -> None:
        self.paid = 0
        schema = {"type": "object", "properties": {"amount": {"type": "integer"}}}
        super().__init__("pay", "Pays.", schema, self._pay, strict_json_schema=False)

    async def _pay(self, context: Any, arguments: str) -> str:
        self.paid += 1
        return "paid"


async def test_88_a_tool_with_a_state_of_its_own_keeps_it_under_instrument(plain: Ledger) -> None:
    tool = Counting()
    await paying(plain, "instrument", tool)
    assert tool.paid == 1


@pytest.mark.parametrize("way", ["die", "error"])
async def test_83_a_tool_of_an_mcp_server_that_may_have_paid_is_in_doubt(
    plain: Ledger, tmp_path: Path, way: str
) -> None:
    paid = tmp_path / "paid"
    with instrument(plain, terms={"pay": PAYS}), plain.in_run("order-1"):
        async with bank(paid, way) as server:
            agent = Agent(name="clerk", model=calling(), mcp_servers=[server])
            if way == "die":  # a server that is dead does not list its tools for the next turn
                with pytest.raises(MCPError):
                    await Runner.run(agent, "go")
            else:
                assert doubts(plain, *outputs(await Runner.run(agent, "go")))
    assert (len(paid.read_text().splitlines()), doubts(plain)) == (1, True)


@EVERY_WAY
@pytest.mark.parametrize("how", ["die", "hang"])
@pytest.mark.parametrize("words", [{"side_effect": "write"}, {**PAYS, "failed_on": Exception}])
async def test_83_an_answer_that_an_mcp_server_did_not_give_is_no_error_of_its_tool(
    plain: Ledger, tmp_path: Path, way: str, how: str, words: Any
) -> None:
    paid = tmp_path / "paid"
    async with bank(paid, how) as server:
        tool = tool_of(server)
        assert server.session is not None
        server.session._session_read_timeout_seconds = 2
        heard = await paying(plain, way, tool, "call_Xa", "call_Xb", **words)
    assert (len(paid.read_text().splitlines()), doubts(plain, *heard)) == (1, True)


async def test_83_a_read_of_an_mcp_server_may_fail_without_an_answer(plain: Ledger, tmp_path: Path) -> None:
    async with bank(tmp_path / "paid", "die") as server:
        await paying(plain, "gate", tool_of(server), side_effect="read")
    assert [effect.status for effect in plain.effects()] == ["failed"]


async def test_83_an_error_that_an_mcp_tool_declares_is_told_as_it_said_it(plain: Ledger, tmp_path: Path) -> None:
    with instrument(plain, terms={"pay": {**PAYS, "failed_on": ToolError}}), plain.in_run("order-1"):
        async with bank(tmp_path / "paid", "error") as server:
            agent = Agent(name="clerk", model=calling("pay", "call_Xa", "call_Xb"), mcp_servers=[server])
            heard = outputs(await Runner.run(agent, "go"))
    assert heard == ["the gateway did not answer"] * 2
    assert [effect.status for effect in plain.effects()] == ["failed"]


def bank(paid: Path, how: str = "", name: str | None = None) -> MCPServerStdio:
    words = [str(paid), *([how] if how else [])]
    return MCPServerStdio({"command": sys.executable, "args": [str(mcp_bank.__file__), *words]}, name=name)


RETRIES = pytest.mark.parametrize("times", [1, -1], ids=["once", "always"])


def retrying(kind: str, paid: Path, times: int) -> Any:
    """Return an MCP server that would send a call again if no answer comes."""
    if kind == "stdio":
        params: Any = {"command": sys.executable, "args": [str(mcp_bank.__file__), str(paid), "hang"]}
        return MCPServerStdio(params, max_retry_attempts=times, client_session_timeout_seconds=2)
    made: Any = MCPServerSse if kind == "sse" else MCPServerStreamableHttp
    return made({"url": "http://127.0.0.1:9/mcp"}, max_retry_attempts=times)


def tool_of(server: Any) -> FunctionTool:
    return MCPUtil.to_function_tool(types.Tool(name="pay", input_schema={"type": "object"}), server, False)


@RETRIES
@pytest.mark.parametrize("kind", ["stdio", "sse", "http"])
def test_f1_the_tool_of_an_mcp_server_that_sends_calls_again_is_refused(plain: Ledger, kind: str, times: int) -> None:
    tool = tool_of(retrying(kind, Path("paid"), times))
    with pytest.raises(BadCall, match="max_retry_attempts=0"):
        LedgerTools(plain, run="order-1").tools([tool])


@EVERY_WAY
async def test_f1_a_server_that_would_send_a_payment_again_is_refused_before_it_is_sent(
    plain: Ledger, tmp_path: Path, way: str
) -> None:
    paid = tmp_path / "paid"
    async with retrying("stdio", paid, 1) as server:
        with pytest.raises(BadCall, match="max_retry_attempts=0"):
            await paying(plain, way, tool_of(server))
        if way == "instrument":
            with instrument(plain), pytest.raises(BadCall, match="max_retry_attempts=0"):
                await paid_at(plain, server, "call_Xa")
    assert (paid.exists(), plain.effects()) == (False, [])


@EVERY_WAY
async def test_f1_a_server_that_is_set_to_retry_later_is_refused_when_it_is_called(
    plain: Ledger, tmp_path: Path, way: str
) -> None:
    paid = tmp_path / "paid"
    async with retrying("stdio", paid, 0) as server:
        tools: list[Tool] = [tool_of(server)]
        if way == "gate":
            tools = LedgerTools(plain, run="order-1", terms={"pay": PAYS}).tools(tools)
        agent = Agent(name="clerk", model=calling(), tools=tools)
        around = instrument(plain, terms={"pay": PAYS}) if way == "instrument" else contextlib.nullcontext()
        with around, plain.in_run("order-1"):
            await agent.get_all_tools(RunContextWrapper(context=None))
            server.max_retry_attempts = 1
            with pytest.raises(UserError) as told:  # as the SDK tells of what a tool's entrance raises
                await Runner.run(agent, "go")
    assert isinstance(told.value.__cause__, BadCall)
    assert (paid.exists(), plain.effects()) == (False, [])


async def paid_at(ledger: Ledger, server: MCPServerStdio, call_id: str, run: str = "order-1") -> Any:
    with ledger.in_run(run):
        return await Runner.run(Agent(name="clerk", model=calling("pay", call_id), mcp_servers=[server]), "go")


@pytest.mark.parametrize("names", [("bank-a", "bank-b"), (None, None)], ids=["named", "by command"])
async def test_91_an_approval_of_one_mcp_server_is_not_spent_at_another(
    plain: Ledger, tmp_path: Path, names: tuple[str | None, str | None]
) -> None:
    (tmp_path / "b").touch()
    with instrument(plain, terms={"pay": ASKS}):
        async with bank(tmp_path / "a", name=names[0]) as one, bank(tmp_path / "b", name=names[1]) as other:
            await paid_at(plain, one, "call_Xa")
            (asked,) = plain.approvals(status="pending")
            plain.approve(asked, digest=asked.digest, by="ana")
            await paid_at(plain, other, "call_Xb")
            assert (tmp_path / "b").read_text() == ""
            assert len(plain.approvals(status="pending")) == 1


async def test_91_calls_of_two_mcp_servers_are_two_calls(plain: Ledger, tmp_path: Path) -> None:
    with instrument(plain, terms={"pay": {**PAYS, "key": ["amount"], "scope": "orders"}}):
        async with bank(tmp_path / "a", name="bank-a") as one, bank(tmp_path / "b", name="bank-b") as other:
            for call_id in ("call_Xa", "call_Xb"):
                await paid_at(plain, one, call_id)
                await paid_at(plain, other, call_id)
    assert [len((tmp_path / name).read_text().splitlines()) for name in "ab"] == [1, 1]


@pytest.mark.parametrize("arguments", ['{"amount": ', "[1]", "null", '{"amount": NaN}', '{"amount": 1e999}'])
@pytest.mark.parametrize("kind", ["function", "schema"])
async def test_a_run_goes_on_after_arguments_that_nobody_can_read(ledger: Ledger, kind: str, arguments: str) -> None:
    """The SDK interrupts the run for such, and answering that raised: so no call of this answer went on."""
    paid: list[float] = []

    @function_tool
    def pay(amount: float) -> str:
        """Pays."""
        paid.append(amount)
        return "paid"

    async def look(context: Any, said: str) -> str:
        raise AssertionError("it is not entered")

    schema = {"type": "object", "properties": {"amount": {"type": "number"}}, "required": ["amount"]}
    bare = FunctionTool(name="look", description="", params_json_schema=schema, on_invoke_tool=look)
    unread = "pay" if kind == "function" else "look"
    turns: Any = [
        [function_call(unread, arguments, call_id="call_Xa"), function_call("pay", {"amount": 5}, call_id="call_Xb")],
        [assistant_message("done")],
    ]
    gate = LedgerTools(ledger, run="order-1", terms={"pay": ASKS})
    agent = Agent(name="clerk", model=ScriptedModel(turns), tools=gate.tools([pay, bare]))
    state = (await Runner.run(agent, "go")).to_state()
    assert [one["tool"] for one in await gate.questions(state)] == ["pay"]
    (asked,) = ledger.approvals(status="pending")
    ledger.approve(asked, digest=asked.digest, by="ana")
    assert await gate.answer(state) == []
    result = await Runner.run(agent, state)
    assert result.final_output == "done"
    heard = {one.raw_item["call_id"]: one.output for one in result.new_items if one.type == "tool_call_output_item"}
    assert heard["call_Xa"].startswith(f"{unread} was not called")
    assert (heard["call_Xb"], paid) == ("paid", [5.0])


async def test_91_a_fork_replays_the_calls_of_an_mcp_server(plain: Ledger, tmp_path: Path) -> None:
    with instrument(plain, terms={"pay": PAYS}):
        async with bank(tmp_path / "a", name="bank-a") as server:
            with plain.start_run("order-1", agent="clerk", intent="pay"):
                first = outputs(await paid_at(plain, server, "call_Xa"))
            fork = plain.fork_run("order-1")
            assert outputs(await paid_at(plain, server, "call_Xa", fork.id)) == first
    assert len((tmp_path / "a").read_text().splitlines()) == 1


# The tool's own question, after the ledger's


async def above_fifty(context: Any, args: dict[str, Any], call_id: str) -> bool:
    return bool(args["amount"] > 50)


def edit(ledger: Ledger, **args: Any) -> None:
    (asked,) = ledger.approvals(status="pending")
    edited = ledger.edit_approval(asked, args, digest=asked.digest, by="ana", reason="as agreed")
    ledger.approve(edited, digest=edited.digest, by="bob")


def paying_tool(paid: list[int], needs_approval: Any) -> FunctionTool:
    @function_tool(needs_approval=needs_approval)
    def pay(amount: int) -> str:
        """Pays."""
        paid.append(amount)
        return "paid"

    return pay


@pytest.mark.parametrize("own", [True, above_fifty], ids=["always", "by amount"])
async def test_85_the_tools_own_question_is_about_what_an_approver_edited(plain: Ledger, own: Any) -> None:
    paid: list[int] = []
    gate = LedgerTools(plain, run="order-1", terms={"pay": ASKS})
    agent = Agent(name="clerk", model=calling(), tools=gate.tools([paying_tool(paid, own)]))
    state = (await Runner.run(agent, "go")).to_state()
    edit(plain, amount=77)
    (asked,) = await gate.answer(state)
    assert json.loads(asked.arguments or "") == {"amount": 77}
    assert paid == []
    state.approve(asked)
    await Runner.run(agent, state)
    assert paid == [77]


async def test_85_a_question_that_an_edit_makes_needless_is_not_asked(plain: Ledger) -> None:
    paid: list[int] = []
    gate = LedgerTools(plain, run="order-1", terms={"pay": ASKS})
    tools = gate.tools([paying_tool(paid, above_fifty)])
    agent = Agent(name="clerk", model=calling("pay", "call_Xa", amount=77), tools=tools)
    state = (await Runner.run(agent, "go")).to_state()
    edit(plain, amount=5)
    assert await gate.answer(state) == []
    await Runner.run(agent, state)
    assert paid == [5]


async def test_85_a_yes_to_what_the_model_said_is_none_to_what_an_approver_edited(plain: Ledger) -> None:
    paid: list[int] = []
    gate = LedgerTools(plain, run="order-1", terms={"pay": ASKS})
    agent = Agent(name="clerk", model=calling(), tools=gate.tools([paying_tool(paid, True)]))
    state = (await Runner.run(agent, "go")).to_state()
    edit(plain, amount=77)
    for item in state.get_interruptions():  # shows 5
        state.approve(item)
    await Runner.run(agent, state)
    assert paid == []


@pytest.mark.parametrize("is_kept", [True, False])
async def test_03_a_yes_before_the_run_goes_on_to_the_tools_question_is_no_answer_to_it(
    plain: Ledger, is_kept: bool
) -> None:
    paid: list[int] = []
    gate = LedgerTools(plain, run="order-1", terms={"pay": ASKS})
    agent = Agent(name="clerk", model=calling(), tools=gate.tools([paying_tool(paid, True)]))
    state = (await Runner.run(agent, "go")).to_state()
    (asked,) = plain.approvals(status="pending")
    plain.approve(asked, digest=asked.digest, by="ana")
    assert await gate.answer(state) == []
    if is_kept:
        state = await RunState.from_string(agent, state.to_string())
    for item in state.get_interruptions():  # is still the ledger's
        state.approve(item)
    await Runner.run(agent, state)
    assert paid == []


@pytest.mark.parametrize("side_effect", ["read", "write"])
@pytest.mark.parametrize("call_id", ["call_0", "call_Xa"])
async def test_06_a_tools_own_question_is_answered_whatever_the_class_and_the_id_of_its_call(
    plain: Ledger, side_effect: str, call_id: str
) -> None:
    paid: list[int] = []
    gate = LedgerTools(plain, run="order-1", terms={"pay": {"side_effect": side_effect}})
    agent = Agent(name="clerk", model=calling("pay", call_id), tools=gate.tools([paying_tool(paid, True)]))
    state = (await Runner.run(agent, "go")).to_state()
    (item,) = await gate.answer(state)
    state.approve(item)
    assert outputs(await Runner.run(agent, state)) == ["paid"]
    assert paid == [5]


@dataclass
class Shop:
    order: str


async def resumable(result: Any, agent: Agent[Any], *, is_kept: bool) -> Any:
    state = result.to_state()
    return await RunState.from_string(agent, state.to_string()) if is_kept else state


@pytest.mark.parametrize("is_kept", [True, False])
@pytest.mark.parametrize("call_id", ["call_0", "call_Xa"])
async def test_11_a_tools_own_question_shows_what_would_run_in_its_own_turn(
    ledger: Ledger, call_id: str, is_kept: bool
) -> None:
    paid: list[int] = []
    shown: list[int] = []

    async def turn(said: Any, **words: Any) -> Any:
        gate = LedgerTools(ledger, run="order-1", terms={"pay": {"side_effect": "write", **words}})
        tools = gate.tools([paying_tool(paid, True)])
        agent = Agent(name="clerk", model=calling("pay", call_id), tools=tools)
        result = await Runner.run(agent, said)
        if "approval" in words:
            edit(ledger, amount=77)
        state = await resumable(result, agent, is_kept=is_kept)
        for item in await gate.answer(state):
            shown.append(json.loads(item.arguments or "")["amount"])
            state.approve(item)
        return await Runner.run(agent, state)

    done = await turn("go", approval="required")
    assert (paid, shown) == ([77], [77])
    await turn([*done.to_input_list(), {"role": "user", "content": "go again"}])
    assert (paid, shown) == ([77, 5], [77, 5]), "what is shown is what runs"


@pytest.mark.parametrize("is_kept", [True, False])
@pytest.mark.parametrize("call_id", ["call_0", "call_X"])
@pytest.mark.parametrize("denied", [1, 2])
async def test_14_a_call_inside_of_an_agent_as_a_tool_is_answered_as_itself_stands(
    ledger: Ledger, denied: int, call_id: str, is_kept: bool
) -> None:
    paid: list[int] = []
    gate = LedgerTools(ledger, run="order-1", terms={"pay": ASKS})
    pay = gate.tools([paying_tool(paid, False)])
    inner = []
    for amount in (1, 2):
        model = calling("pay", call_id if call_id == "call_0" else f"{call_id}{amount}", amount=amount)
        inner.append(Agent(name=f"clerk{amount}", model=model, tools=pay).as_tool(f"clerk{amount}", "Pays."))
    both = [function_call(f"clerk{one}", {"input": f"pay {one}"}, call_id=f"call_Y{one}") for one in (1, 2)]
    agent: Any = Agent(name="boss", model=ScriptedModel([both, [assistant_message("done")]]), tools=inner)
    result = await Runner.run(agent, "pay both")
    state = await resumable(result, agent, is_kept=is_kept)
    shown = await gate.questions(state)
    assert sorted(one["args"]["amount"] for one in shown) == [1, 2]
    for one in shown:
        votes = ledger.deny if one["args"]["amount"] == denied else ledger.approve
        votes(one["approval"], digest=one["digest"], by="ana", reason="looked")
    assert await gate.answer(state) == []
    assert (await Runner.run(agent, state)).final_output == "done"
    assert paid == [3 - denied]
    assert sorted(effect.status for effect in ledger.effects()) == ["denied", "succeeded"], "nobody is asked anew"


async def test_14_a_call_inside_belongs_to_the_context_that_its_state_is_loaded_with(plain: Ledger) -> None:
    paid: list[int] = []
    gate = LedgerTools(plain, run=lambda context: context.context.order, terms={"pay": ASKS})
    pay = gate.tools([paying_tool(paid, False)])

    def outer(*turns: Any) -> Agent[Any]:
        inner = Agent(name="clerk", model=calling() if turns else ScriptedModel([DONE]), tools=pay).as_tool(
            "clerk", "Pays."
        )
        return Agent(name="boss", model=ScriptedModel([*turns, DONE]), tools=[inner])

    asks = [function_call("clerk", {"input": "pay five"}, call_id="call_Y")]
    await gate.keep(await Runner.run(outer(asks), "go", context=Shop("order-1")))
    again = outer()
    state = await gate.load(again, "order-1", context_override=RunContextWrapper(context=Shop("order-1")))
    assert state is not None
    (shown,) = await gate.questions(state)
    plain.approve(shown["approval"], digest=shown["digest"], by="ana")
    assert await gate.answer(state) == []
    await Runner.run(again, state)
    assert (paid, len(plain.approvals())) == ([5], 1)


@pytest.mark.parametrize("own", [True, above_fifty], ids=["always", "by amount"])
async def test_85_under_instrument_a_yes_is_to_what_was_asked(plain: Ledger, own: Any) -> None:
    paid: list[int] = []
    tool = paying_tool(paid, own)
    with instrument(plain, terms={"pay": ASKS}), plain.in_run("order-1"):
        for amount in (5, 5):
            await paid_by(tool, amount)
            if plain.approvals(status="pending"):
                edit(plain, amount=77)
        assert paid == []
        await paid_by(tool, 77)
        assert paid == [77]
        for amount in (5, 77):
            (heard,) = outputs(await paid_by(tool, amount, "call_Xb"))
            assert heard.startswith("paid\n"), "what is done replays"
    assert paid == [77]


async def paid_by(tool: FunctionTool, amount: int, call_id: str = "call_Xa") -> Any:
    """Let a model call a tool, and say yes to what that asks itself."""
    agent = Agent(name="clerk", model=calling("pay", call_id, amount=amount), tools=[tool])
    result = await Runner.run(agent, "go")
    while result.interruptions:
        state = result.to_state()
        for item in result.interruptions:
            state.approve(item)
        result = await Runner.run(agent, state)
    return result


# Agents as tools, and what runs at the provider


def boss(tool: Tool, *ids: str) -> Agent[Any]:
    turns = [[function_call("clerk", {"input": "pay 5"}, call_id=call_id)] for call_id in ids]
    return Agent(name="boss", model=ScriptedModel([*turns, [assistant_message("done")]]), tools=[tool])


def clerk(**words: Any) -> FunctionTool:
    model = ScriptedModel([[assistant_message("done")]] * 3)
    return Agent(name="clerk", model=model).as_tool("clerk", "Hands over.", **words)


ASKED_BY_POLICY = {"rules": [{"name": "clerks", "match": {"tool": "clerk"}, "then": "ask", "why": "look"}]}


@pytest.mark.parametrize("by", ["words", "policy"])
async def test_88_an_agent_as_a_tool_is_asked_about_by_words_for_all_tools_and_by_the_policy(
    tmp_path: Path, by: str
) -> None:
    (tmp_path / "policy.json").write_text(json.dumps(ASKED_BY_POLICY))
    opened = {"policy": tmp_path / "policy.json"} if by == "policy" else {}
    words: dict[str, Any] = {} if by == "policy" else {"approval": "required"}
    with Ledger.open(f"sqlite:///{tmp_path}/ledger.db", seal=False, **opened) as ledger:  # type: ignore[arg-type]
        with instrument(ledger, **words), ledger.in_run("order-1"):
            await Runner.run(boss(clerk(), "call_Xa"), "go")
            assert [effect.status for effect in ledger.effects()] == ["requires_approval"]
            (asked,) = ledger.approvals(status="pending")
            ledger.approve(asked, digest=asked.digest, by="ana")
            heard = outputs(await Runner.run(boss(clerk(), "call_Xb"), "go"))
        assert heard == ["done"]
        assert [effect.status for effect in ledger.effects()] == ["succeeded"]


@pytest.mark.parametrize("word", ["custom_output_extractor", "input_builder", "on_stream"])
async def test_88_functions_of_an_agent_as_a_tool_are_refused_unless_its_terms_guard_it(
    plain: Ledger, word: str
) -> None:
    ran: list[str] = []

    async def runs(*_: Any) -> str:
        ran.append(word)
        return "paid"

    tool = clerk(**{word: runs})
    with instrument(plain, strict=True, allow=OTHERS), plain.in_run("order-1"), pytest.raises(BadCall):
        await Runner.run(boss(tool, "call_Xa"), "go")
    with pytest.raises(BadCall):
        await LedgerTools(plain, run="order-1", strict=True).check(boss(tool))
    assert ran == []
    gate = LedgerTools(plain, run="order-1", strict=True)
    assert await gate.check(boss(gate.tools([tool])[0])) == ()
    with instrument(plain, strict=True, allow=OTHERS, terms={"clerk": PAYS}), plain.in_run("order-1"):
        await Runner.run(boss(tool, "call_Xa"), "go")
        times = len(ran)
        await Runner.run(boss(tool, "call_Xb"), "go")
    assert len(ran) == times > 0


@pytest.mark.parametrize(("allow", "is_allowed"), [("mcp:docs", True), ("mcp:bank", False), ("hosted_mcp", False)])
async def test_88_hosted_mcp_servers_are_allowed_by_their_labels(plain: Ledger, allow: str, is_allowed: bool) -> None:
    tool = HostedMCPTool(
        {"type": "mcp", "server_label": "docs", "server_url": "https://docs", "require_approval": "never"}
    )
    agent = Agent(name="clerk", model=ScriptedModel([[assistant_message("done")]]), tools=[tool])
    expected: Any = contextlib.nullcontext() if is_allowed else pytest.raises(BadCall)
    with instrument(plain, strict=True, allow=[*OTHERS, allow]), expected:
        await Runner.run(agent, "go")
    with pytest.raises(BadCall) if not is_allowed else contextlib.nullcontext():
        LedgerTools(plain, run="order-1", allow=[allow]).tools([tool])


async def test_88_what_a_sandbox_adds_is_named_before_it_runs(plain: Ledger) -> None:
    gate = LedgerTools(plain, run="order-1", strict=True)
    agent = SandboxAgent(name="a", model=calling(), capabilities=[Shell()])
    with pytest.raises(BadCall):
        await gate.check(agent)
    allowed = LedgerTools(plain, run="order-1", strict=True, allow=["shell"])
    assert await allowed.check(agent) == ()
