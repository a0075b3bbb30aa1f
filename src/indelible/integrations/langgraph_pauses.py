"""Pauses of a graph at a tool call: each question has an id of its own, and its answer reaches no other call.

LangGraph matches answers to the `interrupt()` calls of a task by their order. Calls of one message may share a task
and run at the same time, and a call that is done is not entered again, so that order tells nothing. Therefore each call
counts its own `interrupt()` calls, and its questions and the ledger's are raised under ids that name the call. An
answer that names an id goes to that question. An answer without an id goes to the one question that the graph stands
at: LangGraph keeps the last question of each task in the graph's saved state. The answers to tools are kept there too,
each under the id of its question, until the graph goes on. Each call of a task keeps all of them before it goes on: a
call that pauses ends the task, maybe before the call that was asked has read its answer.

LangGraph also numbers the graphs that a task runs, by their order, and finds the state of each by its number. Therefore
the graphs that a tool runs have numbers of its call.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import replace
from typing import Any, NamedTuple

from langchain_core.runnables import RunnableConfig
from langgraph._internal._constants import (
    CONFIG_KEY_CHECKPOINT_MAP,
    CONFIG_KEY_CHECKPOINT_NS,
    CONFIG_KEY_CHECKPOINTER,
    CONFIG_KEY_RESUME_MAP,
    CONFIG_KEY_RESUMING,
    CONFIG_KEY_SCRATCHPAD,
    CONFIG_KEY_SEND,
    INTERRUPT,
    NULL_TASK_ID,
    RESUME,
)
from langgraph.errors import GraphBubbleUp, GraphInterrupt
from langgraph.types import Interrupt

from indelible.integrations.terms import hash_of

_ABOVE = "|"
_OURS = hashlib.sha256(b"indelible").hexdigest()[:8]
"""Begins the id of each question that a tool asks behind the gate: calls of the same task have to know it."""
_NO_ANSWER = [(RESUME, None)]
_MOST_GRAPHS = 10**6
"""More graphs than one tool call runs."""


class Answer(NamedTuple):
    """What a person answered to a pause of the ledger's."""

    value: Any


class Task:
    """The task of a graph that a tool call is in: the question it stands at, and who gets the answer.

    Args:
        config: The config of the call. Its tool is entered with it.
        call: The call, as the model made it.
    """

    def __init__(self, config: RunnableConfig, call: Mapping[str, Any]) -> None:
        self._here: dict[str, Any] = config.get("configurable", {})
        self._call_id: str | None = call["id"]
        self.scratchpad: Any = self._here.get(CONFIG_KEY_SCRATCHPAD)
        """What the graph keeps of this task while it runs; None outside of a graph."""
        self._unnamed: Any = None if self.scratchpad is None else self.scratchpad.get_null_resume(False)
        self._stands_at: Interrupt[Any] | None = None
        self._is_ours = False
        self._kept: dict[str, Any] = {}
        self._new: dict[str, Any] = {}
        self._answers: list[Any] = []
        self._handed: list[Any] = []
        """The same, where the tool's `interrupt()` calls look for them."""
        self._asked = _Counter()
        self._entered = ""
        # The first task is of the graph that keeps the state. Ids of tasks below it may be others after a resume.
        first, *below = str(self._here.get(CONFIG_KEY_CHECKPOINT_NS, "")).split(_ABOVE)
        self._is_below = bool(below)
        path = [first, *(part.partition(":")[0] for part in below)]
        self._key = hash_of(["indelible", path, call["id"], call["name"], call["args"]])[:32]
        self._begins = _OURS + self._key[:8]
        """Begins the id of each question that the tool of this call asks."""

    def read(self) -> None:
        """Find out which answers are the tool's, and let it get these and no others."""
        if self._is_resumed:
            self._note_answers(self._saver.get_tuple(self._place("")))
        if self._unnamed is not None:
            for graph, task in self._above():
                if self._note(task, self._saver.get_tuple(self._place(graph))):
                    break
        for question, answer in self._new.items():
            self._saver.put_writes(self._place(""), [(RESUME, answer)], question)
        self._keep_apart()
        self.clear()

    async def read_async(self) -> None:
        """Do as `read` does, without blocking the loop."""
        if self._is_resumed:
            self._note_answers(await self._saver.aget_tuple(self._place("")))
        if self._unnamed is not None:
            for graph, task in self._above():
                if self._note(task, await self._saver.aget_tuple(self._place(graph))):
                    break
        for question, answer in self._new.items():
            await self._saver.aput_writes(self._place(""), [(RESUME, answer)], question)
        self._keep_apart()
        await self.clear_async()

    def clear(self) -> None:
        """Take an answer that has found its question out of the saved state. A later resume would hand it on."""
        if self._is_ours:
            self._saver.put_writes(self._place(""), _NO_ANSWER, NULL_TASK_ID)

    async def clear_async(self) -> None:
        """Do as `clear` does, without blocking the loop."""
        if self._is_ours:
            await self._saver.aput_writes(self._place(""), _NO_ANSWER, NULL_TASK_ID)

    def let_in(self, args: Mapping[str, Any]) -> None:
        """Let the tool's `interrupt()` calls find this call's answers, in their order.

        Args:
            args: What the tool is entered with. An answer to what it asked about others is none.
        """
        self._entered = hash_of(args)
        self._asked.count = 0
        self._answers.clear()
        known = self._kept | self._new
        while (question := self._next_id) in known:
            self._answers.append(known[question])
        self._handed[:] = self._answers

    def answer_to(self, subject: str) -> Answer | None:
        """Return what was answered to the pause about an approval or an effect, once; None if nothing was."""
        named: Mapping[str, Any] = self._here.get(CONFIG_KEY_RESUME_MAP) or {}
        own = pause_id(subject, self._call_id)
        if own in named:
            found = Answer(named[own])
            self._here[CONFIG_KEY_RESUME_MAP] = {name: one for name, one in named.items() if name != own}
            return found
        if self._unnamed is None or self._stands_at is None or self._stands_at.id != own:
            return None  # another call of the same node was asked about
        found, self._unnamed = Answer(self._unnamed), None
        return found

    def pause(self, subject: str, question: Mapping[str, Any]) -> GraphInterrupt:
        """Return what pauses the graph until a person has decided about an approval or an effect."""
        return GraphInterrupt((Interrupt(value=dict(question), id=pause_id(subject, self._call_id)),))

    def own(self, bubble: GraphBubbleUp) -> GraphBubbleUp:
        """Return a pause of the tool's, with the id of this call's question."""
        is_own = isinstance(bubble, GraphInterrupt) and self._asked.count > len(self._answers)
        if self._saver is None or not is_own:  # a graph inside the tool names its questions itself
            return bubble
        return GraphInterrupt(tuple(self._renamed(one) for one in bubble.args[0]))

    def _renamed(self, question: Interrupt[Any]) -> Interrupt[Any]:
        named = copy(question)
        named.id = self._next_id
        return named

    @property
    def _next_id(self) -> str:
        """Return the id of the question of the tool's that is to be answered next."""
        return f"{self._begins}{hash_of([self._key, self._entered, len(self._answers)])}"[:32]

    @property
    def _is_resumed(self) -> bool:
        """Say whether this call may have been entered before."""
        words = (self._here.get(CONFIG_KEY_RESUMING), self._here.get(CONFIG_KEY_RESUME_MAP), self._is_below)
        return self._saver is not None and (any(words) or self._unnamed is not None)

    def _note_answers(self, saved: Any) -> None:
        """Note the answers to tools that are kept, and those that name their questions."""
        writes = () if saved is None else saved.pending_writes or ()
        self._kept = {task: value for task, channel, value in writes if channel == RESUME and task.startswith(_OURS)}
        named: Mapping[str, Any] = self._here.get(CONFIG_KEY_RESUME_MAP) or {}
        self._new = {question: answer for question, answer in named.items() if question.startswith(_OURS)}

    def _use_unnamed(self) -> None:
        self.scratchpad.get_null_resume(True)  # else the node around the tools would get it, too

    def _keep_apart(self) -> None:
        """Count the tool's `interrupt()` calls, and the graphs that it runs, for this call alone."""
        if self.scratchpad is None:
            return
        # An earlier try in this pass counted its graphs here; each try has graphs of its own.
        counted = self.scratchpad.subgraph_counter
        graphs = counted if isinstance(counted, _Graphs) and counted.key == self._key else _Graphs(self._key)
        if self._saver is None:
            self._here[CONFIG_KEY_SCRATCHPAD] = replace(self.scratchpad, subgraph_counter=graphs)
            return
        send: Any = self._here[CONFIG_KEY_SEND]
        self._here[CONFIG_KEY_SEND] = lambda writes: send([one for one in writes if one[0] != RESUME])
        own = {"interrupt_counter": self._asked, "resume": self._handed, "subgraph_counter": graphs}
        hidden = {"get_null_resume": _nothing} if self._is_ours else {}
        # The graph hands the unnamed answer to every `interrupt()` of the task, and of graphs below it.
        self._here[CONFIG_KEY_SCRATCHPAD] = replace(self.scratchpad, **own, **hidden)

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
        self._is_ours = self._stands_at is not None and self._is_asked_here(self._stands_at)
        if self._stands_at is not None and self._is_ours:
            value = self._stands_at.value
            if self._stands_at.id.startswith(_OURS):
                self._new[self._stands_at.id] = self._unnamed
                if self._stands_at.id.startswith(self._begins):
                    self._use_unnamed()
            elif value.get("tool_call_id") == self._call_id:
                self._use_unnamed()
        return bool(asked)

    def _is_asked_here(self, question: Interrupt[Any]) -> bool:
        """Say whether a question is the ledger's or that of a tool behind a gate, so that its id names its call."""
        if question.id.startswith(_OURS):
            return True
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
        """Return what keeps the graph's state; None if nothing does, or if the tool is in no graph."""
        return None if self.scratchpad is None else self._here.get(CONFIG_KEY_CHECKPOINTER)

    def _place(self, namespace: str) -> RunnableConfig:
        known: Mapping[str, str] = self._here.get(CONFIG_KEY_CHECKPOINT_MAP) or {}
        place = {"thread_id": self._here.get("thread_id"), "checkpoint_ns": namespace}
        return {"configurable": place | ({"checkpoint_id": known[namespace]} if namespace in known else {})}


class _Counter:
    """Counts the `interrupt()` calls of one tool call, as LangGraph counts those of a task."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> int:
        self.count += 1
        return self.count - 1


class _Graphs:
    """Numbers the graphs that the tool of one call runs, apart from those of all other calls of its task.

    Args:
        key: Names the call.
    """

    def __init__(self, key: str) -> None:
        self.key = key
        self._numbers = itertools.count((int(key[:12], 16) + 1) * _MOST_GRAPHS)

    def __call__(self) -> int:
        return next(self._numbers)


def graph_in_call(part: str) -> str:
    """Return a part of a graph's namespace, of a number only which graph of its call it is; "" for the first one."""
    number = int(part) % _MOST_GRAPHS if part.isdigit() else part
    return str(number or "")


def pause_id(subject: str, call_id: str | None) -> str:
    """Return the id of a pause about an approval or an effect, in LangGraph's form: 32 hexadecimal digits."""
    return hashlib.sha256(f"indelible {subject} {call_id}".encode()).hexdigest()[:32]


def _nothing(consume: bool = False) -> None:
    """Give no answer, as LangGraph does where none was given."""
