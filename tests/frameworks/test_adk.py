"""Google ADK behind the ledger: the gate stands at the tool, confirmations are its pauses, a session is its run."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from datetime import date
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.apps.app import App, ResumabilityConfig
from google.adk.runners import Runner
from google.adk.sessions.session import Session
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.base_toolset import BaseToolset
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from indelible import Ledger, MayHaveHappened, NothingHappened, Refused, Succeeded
from indelible.errors import BadCall
from indelible.integrations.adk import LedgerPlugin, ToolAsked, ToolFailed
from indelible.integrations.model_turns import sha256_of
from indelible.integrations.telling import TEXTS
from indelible.testing.adapters.adk import ScriptedLlm, called
from tests.frameworks.conftest import decide, told_of

DONE: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    DONE.clear()
    logging.getLogger("google_adk").setLevel(logging.CRITICAL)


def charge(order: str, amount: int) -> str:
    """Charges an order."""
    DONE.append(f"{order} {amount}")
    return f"charged {amount}"


CHARGE = called("charge", "c1", order="o1", amount=5)
SAYS_CHARGE = types.Content(role="user", parts=[types.Part(text="charge")])
SAYS_DONE = [types.Part(text="done")]


class NoAnswer(ScriptedLlm):
    """Is a model that raises."""

    async def generate_content_async(self, *words: Any, **more: Any) -> Any:
        raise ValueError("no answer")
        yield  # it is a stream


class Played:
    """An app in one session; making it again is like a new process."""

    def __init__(
        self,
        ledger: Ledger | None,
        *parts: Any,
        tools: Any = (charge,),
        agent: Any = None,
        turns: Any = None,
        **words: Any,
    ) -> None:
        self.plugin = None if ledger is None else LedgerPlugin(ledger, **words)
        model = ScriptedLlm(model="scripted", turns=[list(parts), SAYS_DONE] if turns is None else turns)
        app = App(
            name="billing",
            root_agent=LlmAgent(name="billing", tools=list(tools), **({"model": model} | (agent or {}))),
            plugins=[] if self.plugin is None else [self.plugin],
            resumability_config=ResumabilityConfig(is_resumable=True),
        )
        self.sessions = SqliteSessionService("sessions.db")
        self.runner = Runner(app=app, session_service=self.sessions)

    def begin(self, session: str = "order-123", state: Any = None) -> list[Any]:
        return asyncio.run(self._begun(session, state))

    async def _begun(self, session: str, state: Any) -> list[Any]:
        await self.sessions.create_session(app_name="billing", user_id="ana", session_id=session, state=state)
        return await self._run(session, SAYS_CHARGE)

    def once_more(self) -> list[Any]:
        """Let the user send another message."""
        return asyncio.run(self._run("order-123", SAYS_CHARGE))

    async def _run(self, session: str, message: Any, invocation: str | None = None) -> list[Any]:
        words: dict[str, Any] = {"user_id": "ana", "session_id": session, "invocation_id": invocation}
        events = [event async for event in self.runner.run_async(new_message=message, **words)]
        await self.runner.close()
        return [response.response for event in events for response in event.get_function_responses()]

    def session(self) -> Session:
        found = asyncio.run(self.sessions.get_session(app_name="billing", user_id="ana", session_id="order-123"))
        assert found is not None
        return found

    def resume(self) -> list[Any]:
        return asyncio.run(self._resumed(self.session()))

    async def _resumed(self, session: Session) -> list[Any]:
        assert self.plugin is not None
        answer = await self.plugin.answer(session)
        assert answer is not None
        return await self._run(session.id, answer.message, answer.invocation_id)

    def waiting(self) -> Any:
        assert self.plugin is not None
        answer = asyncio.run(self.plugin.answer(self.session()))
        return None if answer is None else answer.waiting


def test_a_call_waits_for_a_person_and_an_app_that_is_resumed_too_early_is_asked_again(ledger: Ledger) -> None:
    Played(ledger, CHARGE, approval="required").begin()
    (approval,) = ledger.approvals(status="pending")
    assert Played(ledger, CHARGE, approval="required").waiting() == [approval.id]
    for _ in range(2):
        assert [set(told) for told in Played(ledger, CHARGE, approval="required").resume()] == [{"error"}]
        assert Played(ledger, CHARGE, approval="required").waiting() == [approval.id]
    assert DONE == []
    decide(ledger)
    assert Played(ledger, CHARGE, approval="required").waiting() == []
    assert Played(ledger, CHARGE, approval="required").resume() == [{"result": "charged 5"}]
    assert DONE == ["o1 5"]
    assert Played(ledger, CHARGE, approval="required").waiting() is None, "nothing is asked any more"


def test_what_was_denied_is_told_to_the_model(ledger: Ledger) -> None:
    Played(ledger, CHARGE, approval="required").begin()
    decide(ledger, yes=False)
    (told,) = Played(ledger, CHARGE, approval="required").resume()
    assert "not today" in told["error"]
    assert DONE == []


def test_no_callback_changes_arguments_after_the_ledger(ledger: Ledger) -> None:
    def double(tool: Any, args: dict[str, Any], tool_context: ToolContext) -> None:
        args["amount"] = 10

    Played(ledger, CHARGE, agent={"before_tool_callback": double}).begin()
    (effect,) = ledger.effects()
    assert DONE == ["o1 10"]
    assert effect.args["amount"] == 10


def test_a_callback_that_answers_for_a_tool_keeps_it_from_being_entered(ledger: Ledger) -> None:
    guard = {"before_tool_callback": lambda tool, args, tool_context: {"error": "guarded"}}
    assert Played(ledger, CHARGE, agent=guard).begin() == [{"error": "guarded"}]
    assert list(ledger.effects()) == []


def test_a_repeat_gets_the_result_and_what_the_tool_did_to_the_session(ledger: Ledger) -> None:
    def note(order: str, tool_context: ToolContext) -> str:
        """Notes an order."""
        DONE.append(order)
        tool_context.state["noted"] = order
        return "noted"

    for session in ("one", "order-123"):
        app = Played(ledger, called("note", "c1", order="o1"), tools=[note], run="order-123", dedupe="args")
        assert app.begin(session) == [{"result": "noted"}]
    assert DONE == ["o1"]
    assert app.session().state["noted"] == "o1"


def test_a_lost_answer_leaves_doubt_and_the_app_stops(ledger: Ledger) -> None:
    def pay(order: str) -> str:
        """Pays."""
        DONE.append(order)
        raise ConnectionResetError("the answer was lost")

    call = called("pay", "c1", order="o1")
    app = Played(ledger, call, tools=[pay], side_effect="payment")
    (told,) = app.begin()
    (effect,) = ledger.effects()
    assert effect.status == "in_doubt"
    assert told == {"error": TEXTS["in_doubt"].format(tool="pay", effect=effect.id)}
    assert app.waiting() == [effect.id], "it waits for a person, and for no approval"
    ledger.settle(effect, Succeeded("paid"), by="ana", evidence="the statement")
    again = Played(ledger, call, tools=[pay], side_effect="payment").resume()
    assert again == [{"result": "paid"}], "the resumed call is the same one: no note"
    assert DONE == ["o1"]


@pytest.mark.parametrize("words", [{"side_effect": "write"}, {"failed_on": ValueError}])
def test_what_fails_by_its_class_or_by_declaration_is_raised_and_not_run_again(ledger: Ledger, words: Any) -> None:
    def fail(order: str) -> str:
        """Fails."""
        DONE.append(order)
        raise ValueError("no funds")

    call = called("fail", "c1", order="o1")
    with pytest.raises(ValueError, match="no funds"):
        Played(ledger, call, tools=[fail], run="order-123", dedupe="args", **words).begin("one")
    with pytest.raises(ToolFailed, match="no funds"):
        Played(ledger, call, tools=[fail], run="order-123", dedupe="args", **words).begin("two")
    assert [effect.status for effect in ledger.effects()] == ["failed"]
    assert DONE == ["o1"]


def test_a_refusal_that_a_tool_declares_is_a_failure(ledger: Ledger) -> None:
    def pay(order: str) -> str:
        """Pays."""
        raise Refused("the card was declined")

    with pytest.raises(Refused):
        Played(ledger, called("pay", "c1", order="o1"), tools=[pay]).begin()
    assert [effect.status for effect in ledger.effects()] == ["failed"]


def test_a_tool_may_say_that_nothing_happened(ledger: Ledger) -> None:
    def pay(order: str) -> str:
        """Pays."""
        DONE.append(order)
        if len(DONE) == 1:
            raise NothingHappened("the line was busy")
        return "paid"

    twice = [[called("pay", "c1", order="o1")], [called("pay", "c2", order="o1")], SAYS_DONE]
    first, second = Played(ledger, tools=[pay], turns=twice).begin()
    assert set(first) == {"error"}
    assert second == {"result": "paid"}


def test_a_default_that_is_left_out_is_recorded_and_is_the_same_call_as_one_spelled_out(ledger: Ledger) -> None:
    def refund(order: str, tool_context: ToolContext, amount: int = 5000, on: date = date(2026, 11, 16)) -> str:
        """Refunds."""
        assert isinstance(on, date)
        DONE.append(f"{order} {amount}")
        return "refunded"

    calls = [called("refund", "c1", order="o1"), called("refund", "c2", order="o1", amount=5000, colour="red")]
    Played(ledger, tools=[refund], turns=[[calls[0]], [calls[1]], SAYS_DONE]).begin()
    (effect,) = ledger.effects()
    beside = {"tool_context": {"state": {}, "user_id": "ana"}}
    assert effect.args == {"order": "o1", "amount": 5000, "on": "2026-11-16", **beside}
    assert DONE == ["o1 5000"]


@pytest.mark.parametrize(
    ("usual", "said"), [([1], [True]), ([True], [1]), ({"amount": 1}, {"amount": True}), (1, True)]
)
def test_38_a_value_that_python_takes_for_the_default_runs_as_it_is_recorded(
    ledger: Ledger, usual: Any, said: Any
) -> None:
    """To Python, `True` and `1` are equal. On the record, they are not."""

    def pay(lines: Any = usual) -> str:
        """Pays."""
        DONE.append(repr(lines))
        return "paid"

    Played(ledger, called("pay", "c1", lines=said), tools=[pay]).begin()
    (effect,) = ledger.effects()
    assert [repr(effect.args["lines"])] == DONE == [repr(said)]


@pytest.mark.parametrize("is_json", [False, True])
def test_a_tool_that_is_no_function_has_the_defaults_that_it_declares(ledger: Ledger, is_json: bool) -> None:
    schema = {"type": "object", "properties": {"amount": {"type": "integer", "default": 5000}}}

    class Bare(BaseTool):
        def _get_declaration(self) -> types.FunctionDeclaration:
            said: Any = {"parameters_json_schema": schema} if is_json else {"parameters": types.Schema(**schema)}
            return types.FunctionDeclaration(name="bare", **said)

        async def run_async(self, *, args: Any, tool_context: Any) -> str:
            DONE.append(str(args["amount"]))
            return "done"

    Played(ledger, called("bare", "c1"), tools=[Bare(name="bare", description="Bare.")]).begin()
    assert DONE == ["5000"]


def test_arguments_that_do_not_fit_are_told_and_nothing_is_recorded(ledger: Ledger) -> None:
    (told,) = Played(ledger, called("charge", "c1", order="o1")).begin()
    assert set(told) == {"error"}
    assert list(ledger.effects()) == []


def test_the_same_payment_twice_in_a_turn_is_made_once_and_the_next_turn_asks(ledger: Ledger) -> None:
    again = [called("charge", f"c{number}", order="o1", amount=5) for number in range(3)]
    words: Any = {"turns": [[again[0]], [again[1]], SAYS_DONE, [again[2]], SAYS_DONE], "side_effect": "payment"}
    first, second = Played(ledger, **words).begin()
    assert first == {"result": "charged 5"}
    assert second["result"] == "charged 5"
    assert ledger.effects()[0].id in second["indelible"], "the model hears which effect was replayed"
    (third,) = Played(ledger, **words).once_more()
    assert set(third) == {"error"}
    assert len(ledger.approvals(status="pending")) == 1
    assert DONE == ["o1 5"]
    decide(ledger)
    assert Played(ledger, **words).resume() == [{"result": "charged 5"}]
    assert DONE == ["o1 5", "o1 5"]


def test_a_tool_that_reads_is_entered_by_every_call(ledger: Ledger) -> None:
    again = [called("charge", f"c{number}", order="o1", amount=5) for number in range(2)]
    Played(ledger, turns=[[again[0]], [again[1]], SAYS_DONE], side_effect="read").begin()
    assert DONE == ["o1 5", "o1 5"]


def test_a_key_that_belongs_to_another_call_is_told(ledger: Ledger) -> None:
    other = called("charge", "c2", order="o1", amount=5000)
    _, told = Played(ledger, turns=[[CHARGE], [other], SAYS_DONE], terms={"charge": {"key": ["order"]}}).begin()
    assert set(told) == {"error"}
    assert DONE == ["o1 5"]


def test_a_tool_may_say_that_it_may_have_happened_and_a_person_settles_it(ledger: Ledger) -> None:
    def lose(order: str) -> str:
        """Loses the line."""
        DONE.append(order)
        raise MayHaveHappened("the line was cut")

    call = called("lose", "c1", order="o1")
    Played(ledger, call, tools=[lose]).begin()
    assert [set(told) for told in Played(ledger, call, tools=[lose]).resume()] == [{"error"}], "it is asked again"
    (effect,) = ledger.effects()
    ledger.settle(effect, Succeeded({"id": "ch_1"}), by="ana", evidence="the statement")
    assert Played(ledger, call, tools=[lose]).resume() == [{"id": "ch_1"}]
    assert DONE == ["o1"]


ASKING: Any = [({}, "in_doubt"), ({"nothing_on": ToolAsked}, "ready"), ({"side_effect": "read"}, "ready")]


@pytest.mark.parametrize(("words", "status"), ASKING)
def test_what_a_tool_asks_by_itself_is_asked_and_it_may_have_acted_before(
    ledger: Ledger, words: Any, status: str
) -> None:
    def ask(order: str, tool_context: ToolContext) -> dict[str, str]:
        """Asks."""
        DONE.append(order)
        tool_context.request_confirmation(hint="sure?")
        return {"status": "asked"}

    app = Played(ledger, called("ask", "c1", order="o1"), tools=[ask], **words)
    assert app.begin() == [{"status": "asked"}]
    hints = [one.hint for e in app.session().events for one in e.actions.requested_tool_confirmations.values()]
    assert (hints, [effect.status for effect in ledger.effects()]) == (["sure?"], [status])


def test_a_tool_that_streams_is_refused(ledger: Ledger) -> None:
    async def tail(order: str) -> AsyncIterator[str]:
        """Tails."""
        yield order

    with pytest.raises(RuntimeError, match="leave it out") as stopped:
        Played(ledger, called("tail", "c1", order="o1"), tools=[tail]).begin()
    assert isinstance(stopped.value.__cause__, BadCall)


class Bank(BaseToolset):
    """Offers the same tool to every agent that asks, under a name of the agent's own."""

    tool = FunctionTool(charge)

    async def get_tools(self, readonly_context: Any = None) -> list[BaseTool]:
        return [self.tool]


def test_88_a_copy_of_a_guarded_tool_under_another_name_is_guarded_by_that_name(ledger: Ledger) -> None:
    """ADK copies the tools of a toolset with a prefix, with all that is put at them."""
    terms = {"till_charge": {"approval": "required"}}
    turns = [[CHARGE], SAYS_DONE, [called("till_charge", "c2", order="o2", amount=9)], SAYS_DONE]
    tools = [Bank(), Bank(tool_name_prefix="till")]
    played = Played(ledger, tools=tools, turns=turns, terms=terms)
    played.begin()
    played.once_more()
    assert DONE == ["o1 5"]
    assert {effect.tool: effect.status for effect in ledger.effects()} == {
        "charge": "succeeded",
        "till_charge": "requires_approval",
    }
    decide(ledger)
    played.resume()
    assert DONE == ["o1 5", "o2 9"]


def test_a_tool_that_was_behind_a_ledger_is_free_in_an_app_without_one(ledger: Ledger) -> None:
    from google.adk.tools.function_tool import FunctionTool

    shared = FunctionTool(charge)
    Played(ledger, CHARGE, tools=[shared]).begin("one")
    Played(None, CHARGE, tools=[shared]).begin("two")
    assert DONE == ["o1 5", "o1 5"]
    assert len(list(ledger.effects())) == 1


def test_the_turns_of_a_model_are_on_the_record_of_its_session(ledger: Ledger) -> None:
    Played(ledger, CHARGE, record_turns=True).begin()
    first, second = told_of(ledger, "adk.model_invoked", "billing/ana/order-123")
    args = sha256_of({"order": "o1", "amount": 5})
    assert first["tool_calls"] == [{"id": "c1", "name": "charge", "args_sha256": args}]
    assert (second["model_id"], second["success"], second["tool_calls"]) == ("scripted", True, [])
    assert second["response_sha256"] == sha256_of({"role": "model", "parts": [{"text": "done"}]})
    assert first["prompt_sha256"] != second["prompt_sha256"]


def test_a_model_that_gives_no_answer_is_on_the_record_and_nothing_is_unless_it_is_asked_for(ledger: Ledger) -> None:
    for number, asked_for in enumerate((True, False)):
        broken = Played(
            ledger, record_turns=asked_for, run="order-123", agent={"model": NoAnswer(model="broken", turns=[])}
        )
        with pytest.raises(ValueError, match="no answer"):
            broken.begin(f"session-{number}")
    (only,) = told_of(ledger, "adk.model_invoked")
    assert (only["model_id"], only["success"], only["error"]) == ("broken", False, "ValueError")


def test_37_arguments_that_adk_refuses_are_told_and_nothing_is_recorded(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ADK_ENABLE_FUNCTION_TOOL_ARG_VALIDATION", "1")
    (told,) = Played(ledger, called("charge", "c1", order="o1", amount="five"), side_effect="payment").begin()
    assert set(told) == {"error"}
    assert not ledger.effects()
    assert DONE == []


def test_94_calls_of_two_messages_that_wait_are_resumed_one_invocation_after_the_other(ledger: Ledger) -> None:
    """The user writes once more while a call waits; ADK resumes one invocation at a time."""
    other = called("charge", "c2", order="o2", amount=5)
    turns = [[CHARGE], [other], *[SAYS_DONE] * 4]
    words: Any = {"turns": turns, "approval": "required", "side_effect": "payment"}
    played = Played(ledger, **words)
    played.begin()
    played.once_more()
    first, second = sorted(ledger.approvals(status="pending"), key=lambda one: one.id)
    ledger.approve(second, digest=second.digest, by="ana")
    played.resume()
    assert len(DONE) == 1, "an undecided question holds up no other one"
    ledger.approve(first, digest=first.digest, by="ana")
    played.resume()
    assert sorted(DONE) == ["o1 5", "o2 5"]


def test_94_a_call_in_doubt_waits_until_it_is_settled_and_holds_up_no_other_one(ledger: Ledger) -> None:
    """A program resumes the app until nothing is asked, or all that is asked waits for a person."""

    def lose(order: str) -> str:
        """Loses the line."""
        raise MayHaveHappened("the line was cut")

    terms: Any = {"charge": {"approval": "required"}, "lose": {"side_effect": "payment"}}
    words: Any = {"tools": [lose, charge], "terms": terms}
    Played(ledger, turns=[[called("lose", "c1", order="o1")]], **words).begin()
    Played(ledger, turns=[[called("charge", "c2", order="o2", amount=5)]], **words).once_more()
    decide(ledger)
    played = Played(ledger, turns=[SAYS_DONE], **words)
    assert played.waiting() == []
    played.resume()
    assert DONE == ["o2 5"]
    (effect,) = ledger.effects(status="in_doubt")
    assert played.waiting() == [effect.id]
    ledger.settle(effect, Succeeded("paid"), by="ana", evidence="the statement")
    assert played.waiting() == []
    assert played.resume() == [{"result": "paid"}]
    assert played.waiting() is None
