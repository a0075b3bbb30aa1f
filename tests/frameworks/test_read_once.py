"""A tool gets what is recorded and approved, also if its framework reads the recorded arguments once more.

The numbers are those of the faults that were found.
"""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from typing import Any

import pytest
from crewai.tools import BaseTool
from google.adk.agents import LlmAgent
from google.adk.apps.app import App, ResumabilityConfig
from google.adk.runners import Runner
from google.adk.sessions.in_memory_session_service import InMemorySessionService
from google.adk.tools.tool_context import ToolContext as AdkContext
from google.genai import types
from pydantic import BaseModel, Field, create_model, field_validator
from strands import Agent, ToolContext, tool
from strands.session.file_session_manager import FileSessionManager

from indelible import Ledger
from indelible.integrations.adk import LedgerPlugin as AdkPlugin
from indelible.integrations.crewai import LedgerTools
from indelible.integrations.results import as_json
from indelible.integrations.strands import LedgerPlugin as StrandsPlugin
from indelible.testing.adapters import adk, strands
from tests.waiting import eventually


class Money(BaseModel):
    """Is said in dollars and read in cents."""

    cents: int
    currency: str = "usd"

    @field_validator("cents")
    @classmethod
    def _cents(cls, said: int) -> int:
        return said * 100


class Account(BaseModel):
    id: str = Field(default="house", alias="accountId")


class Order(BaseModel):
    id: str
    tip: int = 700


SAID: dict[str, Any] = {"money": {"cents": 5}, "account": {"accountId": "acc-7"}, "order": {"id": "o1"}}
READ: dict[str, Any] = {
    "money": {"cents": 500, "currency": "usd"},
    "account": {"id": "acc-7"},
    "order": {"id": "o1", "tip": 700},
}
paid: list[Any] = []


@pytest.fixture(autouse=True)
def _unpaid() -> None:
    paid.clear()


def pay(money: Money, account: Account, order: Order) -> str:
    """Pays."""
    paid.append(as_json({"money": money, "account": account, "order": order}))
    return "paid"


class Pay(BaseTool):
    name: str = "pay"
    description: str = "Pays."
    args_schema: type[BaseModel] = create_model("In", money=(Money, ...), account=(Account, ...), order=(Order, ...))

    def _run(self, **words: Any) -> str:
        paid.append(as_json(words))
        return "paid"


def crewai(ledger: Ledger, *said: Any, **words: Any) -> None:
    (guarded,) = LedgerTools(ledger, run="order-1", **words).tools([Pay()])
    for args in said:
        guarded.run(**args)


def by_strands(ledger: Ledger, *said: Any, **words: Any) -> None:
    turns = [[strands.called("pay", f"c{number}", **args)] for number, args in enumerate(said)]
    agent = Agent(
        model=strands.ScriptedModel([*turns, [{"text": "done"}]]),
        tools=[tool(pay)],
        session_manager=FileSessionManager("order-1", storage_dir="."),
        plugins=[StrandsPlugin(ledger, **words)],
        callback_handler=None,
    )
    agent("go")


def by_adk(ledger: Ledger, *said: Any, **words: Any) -> None:
    turns = [[adk.called("pay", f"c{number}", **args)] for number, args in enumerate(said)]
    asyncio.run(run_adk(ledger, pay, [*turns, [types.Part(text="done")]], **words))


async def run_adk(ledger: Ledger, function: Any, turns: Any, **words: Any) -> None:
    root = LlmAgent(name="billing", tools=[function], model=adk.ScriptedLlm(model="scripted", turns=turns))
    resumable = ResumabilityConfig(is_resumable=True)
    app = App(name="billing", root_agent=root, plugins=[AdkPlugin(ledger, **words)], resumability_config=resumable)
    place: Any = {"user_id": "ana", "session_id": "order-1"}
    sessions = InMemorySessionService()
    await sessions.create_session(app_name="billing", **place, state={"account": "alice"})
    message = types.Content(role="user", parts=[types.Part(text="go")])
    async for _ in Runner(app=app, session_service=sessions).run_async(**place, new_message=message):
        pass


WAYS: Any = [crewai, by_strands, by_adk]


@pytest.mark.parametrize("way", WAYS)
def test_89_a_tool_gets_what_is_recorded_though_validators_convert_and_models_have_aliases(
    ledger: Ledger, way: Any
) -> None:
    way(ledger, SAID, side_effect="payment")
    (effect,) = ledger.effects(tool="pay")
    assert effect.args == READ
    assert paid == [READ]


@pytest.mark.parametrize("way", WAYS)
def test_53_a_default_inside_a_model_is_the_same_call_whether_it_is_said_or_not(ledger: Ledger, way: Any) -> None:
    way(ledger, SAID, {**SAID, "order": READ["order"]}, side_effect="payment")
    assert len(ledger.effects(tool="pay")) == 1
    assert paid == [READ]


def decides(ledger: Ledger, change: Any) -> threading.Thread:
    """Approve the next question, after something changed that was shown."""

    def decide() -> None:
        (question,) = eventually(lambda: ledger.approvals(status="pending"))
        change()
        ledger.approve(question, digest=question.digest, by="ana")

    thread = threading.Thread(target=decide)
    thread.start()
    return thread


@pytest.mark.parametrize("way", WAYS)
def test_52_an_edit_that_the_tool_would_convert_once_more_is_not_entered(ledger: Ledger, way: Any) -> None:
    def decide() -> None:
        (question,) = eventually(lambda: ledger.approvals(status="pending"))
        args = {**READ, "money": {"cents": 900, "currency": "usd"}}
        edited = ledger.edit_approval(question, args, digest=question.digest, by="eve")
        ledger.approve(edited, digest=edited.digest, by="ana")

    thread = threading.Thread(target=decide)
    thread.start()
    way(ledger, SAID, side_effect="payment", approval="required", wait=timedelta(seconds=3))
    thread.join()
    assert all(one["money"]["cents"] == 900 for one in paid)


WAITS: dict[str, Any] = {"side_effect": "payment", "approval": "required", "wait": timedelta(minutes=2)}


def test_89_a_state_that_changes_while_a_person_decides_is_not_run_on_in_strands(ledger: Ledger) -> None:
    @tool(context=True)
    def charge(amount: int, tool_context: ToolContext) -> str:
        """Charges."""
        paid.append(tool_context.invocation_state.get("account"))
        return "ok"

    state = {"account": "alice"}
    agent = Agent(
        model=strands.ScriptedModel([[strands.called("charge", "c1", amount=5)], [{"text": "done"}]]),
        tools=[charge],
        session_manager=FileSessionManager("order-1", storage_dir="."),
        plugins=[StrandsPlugin(ledger, **WAITS)],
        callback_handler=None,
    )
    thread = decides(ledger, lambda: state.update(account="mallory"))
    agent("go", invocation_state=state)
    thread.join()
    assert paid == []
    assert [one.status for one in ledger.effects(tool="charge")] == ["ready"]


def test_89_a_state_that_changes_while_a_person_decides_is_not_run_on_in_adk(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[AdkContext] = []

    def charge(amount: int, tool_context: AdkContext) -> str:
        """Charges."""
        paid.append(tool_context.state.get("account"))
        return "ok"

    before = AdkPlugin.before_tool_callback

    async def looking(self: Any, **words: Any) -> Any:
        seen.append(words["tool_context"])
        return await before(self, **words)

    monkeypatch.setattr(AdkPlugin, "before_tool_callback", looking)
    state: Any = lambda: seen[0]._invocation_context.session.state  # noqa: E731
    thread = decides(ledger, lambda: state().update(account="mallory"))
    turns: Any = [[adk.called("charge", "c1", amount=5)], [types.Part(text="done")]]
    asyncio.run(run_adk(ledger, charge, turns, **WAITS))
    thread.join()
    assert paid == []
    assert [one.status for one in ledger.effects(tool="charge")] == ["ready"]
