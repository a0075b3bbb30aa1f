"""CrewAI: a model whose turns are recorded where they are taken, around the model itself.

The crew's event bus tells its listeners later, in threads of its own, and prints what they raise; models of one's own
need not tell it anything. A record that is kept by it would lose turns without a word.
"""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Callable
from contextlib import suppress
from types import new_class
from typing import Any

from crewai.llms.base_llm import BaseLLM
from crewai.utilities.agent_utils import extract_tool_call_info
from pydantic import TypeAdapter

from indelible.errors import IndelibleError
from indelible.integrations.model_turns import Turn
from indelible.integrations.terms import Spoken

Record = Callable[[dict[str, Any]], object]
_ANYTHING: TypeAdapter[Any] = TypeAdapter(Any)


def recording(llm: BaseLLM, record: Record) -> BaseLLM:
    """Gives a model like this one that hands each turn to `record`, before whoever asked gets the answer.

    It is of a class below the model's own, so whoever looks at what kind of model it is sees the same.
    """
    kind = type(llm)

    def call(self: Any, messages: Any, *rest: Any, **words: Any) -> Any:
        turn = _Asked(self, messages)
        try:
            answer = kind.call(self, messages, *rest, **words)
        except Exception as problem:
            turn.record_failure(problem, record)
            raise
        record(turn.answered(answer))
        return answer

    async def acall(self: Any, messages: Any, *rest: Any, **words: Any) -> Any:
        turn = _Asked(self, messages)
        try:
            answer = await kind.acall(self, messages, *rest, **words)
        except Exception as problem:
            await asyncio.to_thread(turn.record_failure, problem, record)
            raise
        await asyncio.to_thread(record, turn.answered(answer))
        return answer

    for method in (call, acall):  # the model's own method tries again when it is told to wait; twice would be too often
        setattr(method, "_crewai_rate_limit_wrapped", True)  # noqa: B010  # functions have no such attribute for mypy
    named = {"call": call, "acall": acall, "__module__": kind.__module__}
    recorded = copy.copy(llm)
    object.__setattr__(
        recorded, "__class__", new_class(kind.__name__, (kind,), exec_body=lambda body: body.update(named))
    )
    return recorded


class _Asked:
    """Is a model that was asked something: the turn that began, and the tokens that were used before."""

    def __init__(self, llm: Any, messages: Any) -> None:
        self._llm = llm
        self._turn = Turn.asking(_plain(messages))
        self._before = llm.get_token_usage_summary()

    def record_failure(self, problem: Exception, record: Record) -> None:
        """Records a model that gave no answer; what the ledger itself refuses is no turn of a model."""
        if not isinstance(problem, IndelibleError):
            record(self._turn.failed(self._llm.model, type(problem).__name__, str(problem)))

    def answered(self, answer: Any) -> dict[str, Any]:
        """Gives what is recorded of an answer."""
        used = self._llm.get_token_usage_summary().delta_since(self._before)
        tokens = (used.prompt_tokens, used.completion_tokens)
        return self._turn.answered(self._llm.model, _plain(answer), _calls_in(answer), tokens)


def _plain(value: Any) -> Any:
    """Gives what a model was asked or answered as JSON; what JSON cannot say is kept as a text."""
    return _ANYTHING.dump_python(value, mode="json", fallback=repr)


def _calls_in(answer: Any) -> list[Spoken]:
    """Gives the calls that an answer makes, however the provider writes them."""
    parts = answer if isinstance(answer, list) else []
    found = [told for told in map(extract_tool_call_info, parts) if told is not None]
    return [Spoken(call_id, name, _arguments(args)) for call_id, name, args in found]


def _arguments(args: Any) -> Any:
    if isinstance(args, str):
        with suppress(ValueError):
            return json.loads(args)
    return args
