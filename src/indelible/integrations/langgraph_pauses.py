"""Pauses of a graph that are the ledger's: each has an id of its own, and its answer reaches no tool.

LangGraph matches answers to the `interrupt()` calls of a task by their order. A pause of the ledger's is therefore no
such call: it is raised under an id of its own, so it shifts no order, and an answer that names that id is ignored by
the task. An answer without an id goes to the one question that the graph stands at. Which one that is stands in the
graph's saved state, where LangGraph keeps the last question of each task. If it is one of the ledger's, the answer is
taken away before a tool is entered, from this process and from the saved state.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from langchain_core.runnables import RunnableConfig
from langgraph._internal._constants import (
    CONFIG_KEY_CHECKPOINT_MAP,
    CONFIG_KEY_CHECKPOINT_NS,
    CONFIG_KEY_CHECKPOINTER,
    CONFIG_KEY_RESUME_MAP,
    CONFIG_KEY_SCRATCHPAD,
    CONFIG_KEY_SEND,
    INTERRUPT,
    NULL_TASK_ID,
    RESUME,
)
from langgraph.errors import GraphInterrupt
from langgraph.types import Interrupt

_ABOVE = "|"
_NO_ANSWER = [(RESUME, None)]


class Answer(NamedTuple):
    """What a person answered to a pause of the ledger's."""

    value: Any


class Task:
    """The task of a graph that a tool call is in: the question it stands at, and who gets the answer.

    Args:
        config: The config of the call. Its tool is entered with it.
        call_id: The id that the model gave the call.
    """

    def __init__(self, config: RunnableConfig, call_id: str | None) -> None:
        self._here: dict[str, Any] = config.get("configurable", {})
        self._call_id = call_id
        self._scratchpad: Any = self._here.get(CONFIG_KEY_SCRATCHPAD)
        self._unnamed: Any = None if self._scratchpad is None else self._scratchpad.get_null_resume(False)
        self._stands_at: Interrupt[Any] | None = None
        self._is_ours = False

    def read(self) -> None:
        """Find out who was asked last, if there is an answer that names no question; keep ours from the tool."""
        if self._unnamed is None:
            return
        for graph, task in self._above():
            if self._note(task, self._saver.get_tuple(self._place(graph))):
                break
        self.clear()

    async def read_async(self) -> None:
        """Do as `read` does, without blocking the loop."""
        if self._unnamed is None:
            return
        for graph, task in self._above():
            if self._note(task, await self._saver.aget_tuple(self._place(graph))):
                break
        await self.clear_async()

    def clear(self) -> None:
        """Take an answer of ours out of the saved state. A later resume would hand it to the tool's next question."""
        if self._is_ours:
            self._saver.put_writes(self._place(""), _NO_ANSWER, NULL_TASK_ID)

    async def clear_async(self) -> None:
        """Do as `clear` does, without blocking the loop."""
        if self._is_ours:
            await self._saver.aput_writes(self._place(""), _NO_ANSWER, NULL_TASK_ID)

    def answer_to(self, subject: str) -> Answer | None:
        """Return what was answered to the pause about an approval or an effect, once; None if nothing was."""
        named: Mapping[str, Any] = self._here.get(CONFIG_KEY_RESUME_MAP) or {}
        own = pause_id(subject, self._call_id)
        if own in named:
            found = Answer(named[own])
            self._here[CONFIG_KEY_RESUME_MAP] = {name: one for name, one in named.items() if name != own}
            return found
        if not self._is_ours or self._unnamed is None or self._stands_at is None:
            return None
        if self._stands_at.value.get("tool_call_id") != self._call_id:
            return None  # another call of the same node was asked about
        found, self._unnamed = Answer(self._unnamed), None
        return found

    def pause(self, subject: str, question: Mapping[str, Any]) -> GraphInterrupt:
        """Return what pauses the graph until a person has decided about an approval or an effect.

        Answers that the tool has got, or would have got now, are kept for when it is entered.
        """
        if self._scratchpad is not None:
            answered = list(self._scratchpad.resume)
            if self._unnamed is not None and self._stands_at is not None and not self._is_ours:
                answered.append(self._unnamed)
            if answered:
                self._here[CONFIG_KEY_SEND]([(RESUME, answered)])
        return GraphInterrupt((Interrupt(value=dict(question), id=pause_id(subject, self._call_id)),))

    def _note(self, task_id: str, saved: Any) -> bool:
        """Note the question that a task stands at; say whether it stands at one."""
        writes = () if saved is None else saved.pending_writes or ()
        asked = [
            one
            for task, channel, value in writes
            if task == task_id and channel == INTERRUPT
            for one in (value if isinstance(value, list | tuple) else [value])
        ]
        self._stands_at = asked[-1] if asked else None
        self._is_ours = self._stands_at is not None and self._asked_by_us(self._stands_at)
        if self._is_ours:
            # The graph hands this to every `interrupt()` of the task, and of graphs below it.
            self._here[CONFIG_KEY_SCRATCHPAD] = replace(self._scratchpad, get_null_resume=_nothing)
        return bool(asked)

    def _asked_by_us(self, question: Interrupt[Any]) -> bool:
        value = question.value
        subject = (value.get("approval") or value.get("effect")) if isinstance(value, dict) else None
        return subject is not None and question.id == pause_id(str(subject), value.get("tool_call_id"))

    def _above(self) -> Iterator[tuple[str, str]]:
        """Yield the graph that this task is of, and the task, by their ids; then those around them.

        A graph that keeps no state of its own has its questions in the state of the one around it.
        """
        parts = str(self._here.get(CONFIG_KEY_CHECKPOINT_NS, "")).split(_ABOVE)
        while parts:
            last = parts.pop()
            if not last.isdigit():  # a number tells apart graphs that one task runs
                yield _ABOVE.join(parts), last.rpartition(":")[2]

    @property
    def _saver(self) -> Any:
        return self._here[CONFIG_KEY_CHECKPOINTER]

    def _place(self, namespace: str) -> RunnableConfig:
        known: Mapping[str, str] = self._here.get(CONFIG_KEY_CHECKPOINT_MAP) or {}
        place = {"thread_id": self._here.get("thread_id"), "checkpoint_ns": namespace}
        return {"configurable": place | ({"checkpoint_id": known[namespace]} if namespace in known else {})}


def pause_id(subject: str, call_id: str | None) -> str:
    """Return the id of a pause about an approval or an effect, in LangGraph's form: 32 hexadecimal digits."""
    return hashlib.sha256(f"indelible {subject} {call_id}".encode()).hexdigest()[:32]


def _nothing(consume: bool = False) -> None:
    """Give no answer, as LangGraph does where none was given."""
