"""What ADK and Strands give a tool beside the model's arguments is recorded, shown and bound, or named as not shown."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from google.adk.agents import LlmAgent
from google.adk.apps.app import App, ResumabilityConfig
from google.adk.runners import Runner
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types
from strands import Agent, tool
from strands import ToolContext as StrandsContext
from strands.session.file_session_manager import FileSessionManager
from strands.types.tools import AgentTool

from indelible import Approval, Ledger, migrate
from indelible.integrations.adk import LedgerPlugin
from indelible.integrations.strands import LedgerPlugin as StrandsPlugin
from indelible.testing.adapters.adk import ScriptedLlm, called
from indelible.testing.adapters.strands import ScriptedModel
from indelible.testing.adapters.strands import called as strands_called

ASKS: dict[str, Any] = {"side_effect": "payment", "approval": "required"}
PLACE: dict[str, Any] = {"app_name": "billing", "user_id": "ana", "session_id": "order-123"}
paid: list[Any] = []


@pytest.fixture
def ledger(store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ledger]:
    monkeypatch.chdir(tmp_path)
    paid.clear()
    migrate(store_url)
    with Ledger.open(store_url) as opened:
        yield opened


def approve(ledger: Ledger) -> Approval:
    (approval,) = ledger.approvals(status="pending")
    return ledger.approve(approval, digest=approval.digest, by="ana")


def args_of(ledger: Ledger) -> Any:
    (effect,) = ledger.effects(tool="charge")
    return effect.args


class Adk:
    """Is an app that charges 5, from an account in the session's state; each pass is an app of its own."""

    def __init__(self, ledger: Ledger, kind: str = "function", words: dict[str, Any] = ASKS) -> None:
        self._ledger, self._words = ledger, words
        self._tool: Any = Charge(name="charge", description="Charges.") if kind == "class" else FUNCTIONS[kind]

    def begin(self, account: str, **more: Any) -> None:
        asyncio.run(self._begun({"account": account, **more}))

    def go_on(self, account: str) -> None:
        asyncio.run(self._resumed(account))

    def _made(self) -> tuple[LedgerPlugin, Runner]:
        plugin = LedgerPlugin(self._ledger, terms={"charge": self._words})
        turns = [[called("charge", "c1", amount=5, account="of the model")], [types.Part(text="done")]]
        agent = LlmAgent(name="till", model=ScriptedLlm(model="scripted", turns=turns), tools=[self._tool])
        resumable = ResumabilityConfig(is_resumable=True)
        app = App(name="billing", root_agent=agent, plugins=[plugin], resumability_config=resumable)
        return plugin, Runner(app=app, session_service=SqliteSessionService("sessions.db"))

    async def _begun(self, state: dict[str, Any]) -> None:
        _, runner = self._made()
        await runner.session_service.create_session(**PLACE, state=state)
        await self._run(runner, types.Content(role="user", parts=[types.Part(text="go")]))

    async def _resumed(self, account: str) -> None:
        plugin, runner = self._made()
        session = await runner.session_service.get_session(**PLACE)
        assert session is not None
        answer = await plugin.answer(session)
        assert answer is not None
        change = {"state_delta": {"account": account}, "invocation_id": answer.invocation_id}
        await self._run(runner, answer.message, **change)

    async def _run(self, runner: Runner, message: types.Content, **words: Any) -> None:
        async for _ in runner.run_async(user_id="ana", session_id="order-123", new_message=message, **words):
            pass
        await runner.close()


def charge(amount: int, tool_context: ToolContext) -> str:
    """Charges."""
    paid.append(tool_context.state["account"])
    return "charged"


def by_another_name(amount: int, here: ToolContext) -> str:
    """Charges."""
    return charge(amount, here)


by_another_name.__name__ = "charge"
FUNCTIONS = {"function": charge, "another name": by_another_name}


class Charge(BaseTool):
    """Is a tool that is no function: it gets the context always."""

    def _get_declaration(self) -> types.FunctionDeclaration:
        schema = {"type": "object", "properties": {"amount": {"type": "integer"}}}
        return types.FunctionDeclaration(name="charge", parameters_json_schema=schema)

    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> str:
        return charge(args["amount"], tool_context)


class Strands:
    """Is an agent that charges 5, from an account that the program names; each pass is an agent of its own."""

    def __init__(self, ledger: Ledger, kind: str = "function", words: dict[str, Any] = ASKS) -> None:
        self._ledger, self._kind, self._words = ledger, kind, words

    def begin(self, account: str, **more: Any) -> None:
        self._made(account)("go", invocation_state={"account": account, **more})

    def go_on(self, account: str) -> None:
        agent = self._made(account)
        if self._kind in ("state", "agent"):
            agent.state.set("account", account)
        answer = StrandsPlugin(self._ledger).answer(agent)
        agent(answer, invocation_state={"account": account})

    def _made(self, account: str) -> Agent:
        turns: Any = [[strands_called("charge", "c1", amount=5, account="of the model")], [{"text": "done"}]]
        return Agent(
            model=ScriptedModel(turns),
            tools=[Custom() if self._kind == "class" else STRANDS[self._kind]],
            state={"account": account},
            session_manager=FileSessionManager("order-123", storage_dir="sessions"),
            plugins=[StrandsPlugin(self._ledger, terms={"charge": self._words})],
            callback_handler=None,
        )


@tool(name="charge", context=True)
def by_invocation(amount: int, tool_context: StrandsContext) -> str:
    """Charges."""
    paid.append(tool_context.invocation_state["account"])
    return "charged"


@tool(name="charge", context="here")
def by_state(amount: int, here: StrandsContext) -> str:
    """Charges."""
    paid.append(here.agent.state.get("account"))
    return "charged"


@tool(name="charge")
def by_agent(amount: int, agent: Any) -> str:
    """Charges."""
    paid.append(agent.state.get("account"))
    return "charged"


STRANDS = {"function": by_invocation, "state": by_state, "agent": by_agent}


class Custom(AgentTool):
    """Is a tool that is no decorated function: it gets the invocation's state always."""

    tool_name = "charge"
    tool_type = "python"
    tool_spec: ClassVar[Any] = {
        "name": "charge",
        "description": "Charges.",
        "inputSchema": {"json": {"type": "object", "properties": {"amount": {"type": "integer"}}}},
    }

    async def stream(self, tool_use: Any, invocation_state: dict[str, Any], **words: Any) -> Any:
        paid.append(invocation_state["account"])
        yield {"toolUseId": tool_use["toolUseId"], "status": "success", "content": [{"text": "charged"}]}


KINDS: Any = [
    (Adk, "function", "tool_context"),
    (Adk, "another name", "here"),
    (Adk, "class", "tool_context"),
    (Strands, "function", "tool_context"),
    (Strands, "state", "here"),
    (Strands, "agent", "agent"),
    (Strands, "class", "tool_context"),
]
FIELD = {Adk: "state", Strands: "invocation_state"}


@pytest.mark.parametrize(("framework", "kind", "name"), KINDS)
def test_89_an_account_that_changed_after_the_approval_is_asked_about_again(
    ledger: Ledger, framework: Any, kind: str, name: str
) -> None:
    paying = framework(ledger, kind)
    paying.begin("acme")
    assert args_of(ledger)[name][FIELD[framework]]["account"] == "acme"
    old = approve(ledger)
    paying.go_on("mallory")
    assert (paid, args_of(ledger)[name][FIELD[framework]]["account"]) == ([], "mallory")
    assert [one.status for one in ledger.approvals() if one.id == old.id] == ["stale"]
    approve(ledger)
    paying.go_on("mallory")
    assert paid == ["mallory"]
    (effect,) = ledger.effects(tool="charge")
    assert (effect.status, effect.args["amount"]) == ("succeeded", 5)


@pytest.mark.parametrize(("framework", "kind", "name"), KINDS)
def test_89_what_was_approved_runs_as_long_as_nothing_changed(
    ledger: Ledger, framework: Any, kind: str, name: str
) -> None:
    paying = framework(ledger, kind)
    paying.begin("acme")
    approve(ledger)
    paying.go_on("acme")
    assert paid == ["acme"]


@pytest.mark.parametrize("framework", [Adk, Strands])
def test_89_a_field_that_changes_by_itself_can_be_left_out(ledger: Ledger, framework: Any) -> None:
    paying = framework(ledger, words={**ASKS, "unbound": ["account"]})
    paying.begin("acme")
    assert args_of(ledger)["tool_context"][FIELD[framework]]["account"] == {"not_shown": "str"}
    approve(ledger)
    paying.go_on("other")
    assert paid == ["other"]


@pytest.mark.parametrize("framework", [Adk, Strands])
def test_89_what_cannot_be_shown_is_named_by_its_type(ledger: Ledger, framework: Any) -> None:
    more: dict[str, Any] = {"api_key": "sk-1"} | ({"db": object()} if framework is Strands else {})
    framework(ledger).begin("acme", **more)
    found = args_of(ledger)["tool_context"][FIELD[framework]]
    shown = {"account": "acme", "api_key": {"not_shown": "str"}}
    assert found == (shown | {"db": {"not_shown": "object"}} if framework is Strands else shown)


def test_89_a_tool_that_takes_nothing_else_has_nothing_else_recorded(ledger: Ledger) -> None:
    def charge(amount: int) -> str:
        """Charges."""
        return "charged"

    paying = Adk(ledger, words={"side_effect": "payment"})
    paying._tool = charge
    paying.begin("acme")
    assert args_of(ledger) == {"amount": 5}
