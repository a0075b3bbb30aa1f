"""CrewAI's own questions to people: `human_input` of tasks, `@human_feedback` and `ask()` of flows.

A crew that stopped at the ledger begins anew when it is kicked off again, and so does a flow. Each question is recorded
with its answer in the run, so a person who answered it is not asked again. An answer belongs to that question alone:
who asks, what was shown, and the how manieth time it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count
from typing import Any

from crewai.core.providers.human_input import SyncHumanInputProvider
from crewai.flow.async_feedback.providers import ConsoleProvider

from indelible.integrations.results import as_json

Answered = Callable[[Mapping[str, Any], Callable[[], str]], str]
"""Returns the recorded answer to a question, or asks and records it."""
_SHOWN: ContextVar[Iterator[dict[str, Any]] | None] = ContextVar("indelible_crewai_shown", default=None)


class People(SyncHumanInputProvider):
    """Ask people as CrewAI does, in the terminal, and each question once in a run.

    Pass it to `crewai.core.providers.human_input.set_provider` for tasks, to `@human_feedback(provider=…)`, and to
    `Flow(input_provider=…)`.

    Args:
        answered: Returns the recorded answer to a question, or asks and records it.
        asks: Asks about flows. Default: CrewAI's console.
    """

    def __init__(self, answered: Answered, asks: Any = None) -> None:
        self._answered = answered
        self._asks = asks or ConsoleProvider()

    def handle_feedback(self, formatted_answer: Any, context: Any) -> Any:
        """Ask about what a task's agent answered."""
        with _showing(formatted_answer, context):
            return super().handle_feedback(formatted_answer, context)

    async def handle_feedback_async(self, formatted_answer: Any, context: Any) -> Any:
        """Ask about what a task's agent answered."""
        with _showing(formatted_answer, context):
            return await super().handle_feedback_async(formatted_answer, context)

    def _prompt_input(self, crew: Any) -> str:
        shown = _SHOWN.get()
        plain = super()._prompt_input
        return plain(crew) if shown is None else self._answered(next(shown), lambda: plain(crew))

    async def _prompt_input_async(self, crew: Any) -> str:
        return await asyncio.to_thread(self._prompt_input, crew)

    def request_feedback(self, context: Any, flow: Any) -> str:
        """Ask about what a method of a flow returned."""
        shown = {"output": context.method_output, "message": context.message}
        return self.feedback(flow, context.method_name, shown, lambda: self._asks.request_feedback(context, flow))

    def feedback(self, flow: Any, method: str, shown: Mapping[str, Any], ask: Callable[[], Any]) -> str:
        """Return a person's feedback on what a method of a flow returned."""
        number = flow._method_call_counts.get(method, 0)
        asked = {"flow": _name_of(flow), "method": method, "shown": as_json(dict(shown)), "number": number}
        return self._answered(asked, ask)

    def request_input(self, message: str, flow: Any, metadata: dict[str, Any] | None = None) -> str:
        """Ask for what a flow wants to know."""
        return self.said(flow, message, lambda: self._asks.request_input(message, flow, metadata))

    def said(self, flow: Any, message: str, ask: Callable[[], Any]) -> str:
        """Return what a person said to a question of a flow."""
        number = sum(one["message"] == message for one in flow._input_history)
        return self._answered({"flow": _name_of(flow), "message": message, "number": number}, ask)


@contextmanager
def _showing(answer: Any, context: Any) -> Iterator[None]:
    """Number the questions about one answer of an agent."""
    task, crew = context.task, context.crew
    place = next((at for at, one in enumerate(crew.tasks) if one is task), None) if crew is not None else None
    shown = {
        "agent": context.agent.role,
        "task": None if task is None else task.description,
        "place": place,
        "answer": str(answer.output),
    }
    token = _SHOWN.set({**shown, "number": number} for number in count())
    try:
        yield
    finally:
        _SHOWN.reset(token)


def _name_of(flow: Any) -> str:
    return f"{type(flow).__module__}.{type(flow).__qualname__}"
