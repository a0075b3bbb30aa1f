"""LangChain's rig: `create_agent` with its own approvals and SQLite checkpoints, or with `LedgerMiddleware`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, HumanInTheLoopMiddleware
from langchain_core.language_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command, Interrupt

from indelible import Ledger
from indelible.integrations.langchain import LedgerMiddleware
from indelible.testing.adapters.rig import Rig, Standing
from indelible.testing.adapters.scene import Asked, Scene

_THREAD: RunnableConfig = {"configurable": {"thread_id": "order-123"}}
_ASKED = {"messages": [("user", "charge what is due")]}


class LangChainRig:
    """Begins and resumes an agent that charges, in one thread."""

    def begin(self, scene: Scene, ledger: Ledger | None) -> Standing:
        """Runs the agent from the start."""
        with _agent(scene, ledger) as agent:
            return _standing(agent.invoke(_ASKED, _THREAD))

    def resume(self, scene: Scene, ledger: Ledger | None) -> Standing:
        """Goes on from the checkpoint."""
        with _agent(scene, ledger) as agent:
            pauses = agent.get_state(_THREAD).interrupts
            answers = {pause.id: _answer(scene, pause, ledger) for pause in pauses}
            return _standing(agent.invoke(Command(resume=answers) if answers else None, _THREAD))

    def tamper(self, scene: Scene) -> None:
        """Writes other arguments into every checkpoint, and into what is about to be done there."""
        by_id = {call.call_id: call for call in scene.calls}
        with _saver(scene) as saver:
            saver.setup()
            for table, place in (("checkpoints", "checkpoint"), ("writes", "value")):
                rows = saver.conn.execute(f"SELECT rowid, type, {place} FROM {table}").fetchall()  # noqa: S608
                for row, kind, content in rows:
                    changed = saver.serde.dumps_typed(_changed(saver.serde.loads_typed((kind, content)), by_id))
                    statement = f"UPDATE {table} SET type = ?, {place} = ? WHERE rowid = ?"  # noqa: S608
                    saver.conn.execute(statement, (*changed, row))
            saver.conn.commit()


RIG: Rig = LangChainRig()


class _Scripted(FakeMessagesListChatModel):
    """Says what it was given to say."""

    def bind_tools(self, tools: Sequence[Any], **words: Any) -> Any:
        """Gives itself: it knows what it will call."""
        return self

    def _generate(self, messages: Any, *rest: Any, **words: Any) -> Any:
        """Says the turn that is due by the messages so far: a resumed agent's model does not begin again."""
        self.i = min(sum(isinstance(one, AIMessage) for one in messages), len(self.responses) - 1)
        return super()._generate(messages, *rest, **words)


@contextmanager
def _agent(scene: Scene, ledger: Ledger | None) -> Iterator[Any]:
    calls = [
        {"name": "charge", "args": {"order": call.order, "amount": call.amount}, "id": call.call_id}
        for call in scene.calls
    ]
    model = _Scripted(responses=[AIMessage(content="", tool_calls=calls), AIMessage(content="done")])
    tool = StructuredTool.from_function(scene.charge, name="charge", description="Charges an order.")
    with _saver(scene) as saver:
        yield create_agent(model, [tool], middleware=_middleware(scene, ledger), checkpointer=saver)


def _middleware(scene: Scene, ledger: Ledger | None) -> list[AgentMiddleware[Any, Any, Any]]:
    if ledger is not None:
        # With a broken store, a model that is asked once per turn would stop the agent before it came to the tool.
        turns = not scene.is_store_broken
        return [LedgerMiddleware(ledger, terms={"charge": scene.terms}, model_turns=turns)]
    return [HumanInTheLoopMiddleware(interrupt_on={"charge": True})] if scene.asks else []


@contextmanager
def _saver(scene: Scene) -> Iterator[SqliteSaver]:
    with SqliteSaver.from_conn_string(str(scene.state / "checkpoints.db")) as saver:
        yield saver


def _answer(scene: Scene, pause: Interrupt[Any], ledger: Ledger | None) -> Any:
    """Gives what the pause is answered with: the framework's own decisions, or a word that decides nothing."""
    if ledger is not None:
        return "look again"
    allowed = [scene.allowed[_call_id(scene, action)] for action in pause.value["action_requests"]]
    return {"decisions": [{"type": "approve"} if yes else {"type": "reject", "message": "no"} for yes in allowed]}


def _call_id(scene: Scene, action: dict[str, Any]) -> str:
    (found,) = [call.call_id for call in scene.calls if call.order == action["args"]["order"]]
    return found


def _standing(result: dict[str, Any]) -> Standing:
    pauses = result.get("__interrupt__", ())
    if not pauses:
        return Standing(state="done")
    told = [pause.value for pause in pauses]
    waits = [value.get("tool_call_id") or "all" for value in told]
    return Standing(state="paused", waits_for=waits, why=" ".join(value.get("type", "") for value in told))


def _changed(value: Any, by_id: dict[str, Asked]) -> Any:
    """Gives what is stored, with other arguments wherever a tool call with one of these ids is in it."""
    match value:
        case {"id": str(id_), "args": dict(), "name": "charge"} if id_ in by_id:
            return {**value, "args": {"order": by_id[id_].order, "amount": by_id[id_].amount}}
        case dict():
            return {name: _changed(part, by_id) for name, part in value.items()}
        case list() | tuple():
            return type(value)(_changed(part, by_id) for part in value)
        case AIMessage():
            return value.model_copy(update={"tool_calls": _changed(value.tool_calls, by_id)})
        case _ if hasattr(value, "arg") and hasattr(value, "node"):
            return type(value)(value.node, _changed(value.arg, by_id))
        case _:
            return value
