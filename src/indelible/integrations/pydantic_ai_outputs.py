"""Pydantic AI: which function makes an agent's output.

A hook for outputs is told the function's name if there is one function. With several (`NativeOutput([pay, refund])`),
and for an action of `Choices`, only the framework's processor of the output knows what it is going to call. Each of
them is a tool of its own name, so the processor is looked up behind the handler that the hook gets.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from pydantic_ai._output import (
    BaseOutputProcessor,
    ObjectOutputProcessor,
    TextFunctionOutputProcessor,
    UnionOutputProcessor,
)
from pydantic_ai.output import OutputContext
from pydantic_ai.tools import ToolDefinition

from indelible.errors import BadCall


class OutputFunctions:
    """The functions of which one makes an output.

    Args:
        context: What the framework tells of the output.
        handler: What processes the output.
    """

    def __init__(self, context: OutputContext, handler: Any) -> None:
        self.context = context
        self._processor, self._kind = _processor_behind(handler)

    def tool_for(self, output: Any) -> ToolDefinition | None:
        """Return the function that would be called with an output, as a tool; None if no function would be.

        Raises:
            BadCall: There is one, and the framework does not tell which.
        """
        processor = _inner(self._processor, self._kind, output)
        if isinstance(processor, ObjectOutputProcessor | TextFunctionOutputProcessor):
            return self._tool_of(processor, output)
        if self._processor is not None or not self.context.has_function:
            return None
        if self.context.function_name is None:
            raise BadCall(
                "the agent does not tell which of its output functions it would call, so none is called; list them in "
                "output_type=[…], without NativeOutput or PromptedOutput"
            )
        return self._described(self.context.function_name)

    def _tool_of(self, processor: Any, output: Any) -> ToolDefinition | None:
        if processor._function_schema is not None:
            return self._described(_name_of(processor._function_schema.function, "output"), processor)
        action = (processor._choice_values or {}).get(output) if isinstance(output, str) else None
        return self._described(_name_of(action, str(output)), processor) if callable(action) else None

    def _described(self, name: str, processor: Any = None) -> ToolDefinition:
        if self.context.tool_def is not None:
            return replace(self.context.tool_def, name=name)
        said = getattr(processor, "object_def", None)
        if said is None:
            return ToolDefinition(name=name)
        return ToolDefinition(name=name, description=said.description, parameters_json_schema=said.json_schema)


def _name_of(function: Any, otherwise: str) -> str:
    name = getattr(function, "__name__", None) or ""
    return name if name.isidentifier() else otherwise


def _inner(processor: Any, kind: str | None, output: Any) -> Any:
    """Return the processor that a processor of several outputs hands this one on to, as the framework chooses it."""
    if not isinstance(processor, UnionOutputProcessor):
        return processor
    known = processor._processors
    if kind is not None and processor._semantic_matches_inner(known[kind], output):
        return known[kind]
    found = processor._resolve_inner_for_value(output)
    return None if found is None else known[found.kind]


def _processor_behind(handler: Any) -> tuple[BaseOutputProcessor[Any] | None, str | None]:
    for names in _closures(handler, set()):
        if isinstance(processor := names.get("processor"), BaseOutputProcessor):
            return processor, names.get("state")
    return None, None


def _closures(function: Any, done: set[int]) -> Iterator[dict[str, Any]]:
    """Yield what a function was made around, and the functions in there."""
    if not inspect.isfunction(function) or id(function) in done:
        return
    done.add(id(function))
    names = inspect.getclosurevars(function).nonlocals
    yield dict(names)
    for one in names.values():
        yield from _closures(one, done)
