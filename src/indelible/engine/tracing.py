"""Spans for OpenTelemetry, where the program uses it.

A program that wants spans has loaded OpenTelemetry before its first call, to say where they go. So it is looked up
among the modules that are there and never imported: whoever has no use for it pays nothing. What is told are names and
ids, never arguments, results or messages of errors.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from indelible.core.effects.effect import Effect
from indelible.core.effects.requests import Raised, Returned

TRACE, PROPAGATE = "opentelemetry.trace", "opentelemetry.propagate"
_NAME = "indelible"


def is_tracing() -> bool:
    """Has this program said where spans go? Libraries load OpenTelemetry for others who might."""
    # What `get_tracer_provider` looks at first; to ask it costs more, for it goes on to look into the environment.
    return getattr(sys.modules.get(TRACE), "_TRACER_PROVIDER", None) is not None


def trace_headers() -> dict[str, str]:
    """Gives the headers that let what is asked elsewhere belong to the span that is open here."""
    headers: dict[str, str] = {}
    inject = getattr(sys.modules.get(PROPAGATE), "inject", None)
    if inject is not None:
        inject(headers)
    return headers


class Span:
    """Is one stretch of work, told as it goes on; without OpenTelemetry it says nothing."""

    __slots__ = ("_span",)

    def __init__(self, span: Any = None) -> None:
        self._span = span

    def tell(self, **attributes: str | int | bool | None) -> None:
        """Adds what is known now; dots in a name are written as two underscores."""
        if self._span is not None:
            for name, value in attributes.items():
                if value is not None:
                    self._span.set_attribute(name.replace("__", "."), value)

    def rename(self, name: str) -> None:
        """Gives it the name that it should have had from the start."""
        if self._span is not None:
            self._span.update_name(name)

    def fail(self, kind: str) -> None:
        """Says that it did not end well, and by which kind of error."""
        if self._span is not None:
            self._span.set_attribute("error.type", kind)
            self._span.set_status(sys.modules[TRACE].StatusCode.ERROR)

    def end_with(self, report: Returned | Raised) -> None:
        """Says how a handler ended."""
        if isinstance(report, Raised):
            self.fail(type(report.error).__qualname__)

    @property
    def trace_id(self) -> str | None:
        """Is the id of the trace that it belongs to, if anybody records it."""
        if self._span is None:
            return None
        context = self._span.get_span_context()
        return f"{context.trace_id:032x}" if context.is_valid else None


_SILENT = Span()


@contextmanager
def spanning(name: str, kind: str = "INTERNAL", carrier: Mapping[str, str] | None = None) -> Iterator[Span]:
    """Keeps a span open around a block; `carrier` are headers that may name the span it belongs to."""
    if not is_tracing():
        yield _SILENT
        return
    trace, propagate = sys.modules[TRACE], sys.modules.get(PROPAGATE)
    context = None if propagate is None or carrier is None else propagate.extract(carrier)
    with trace.get_tracer(_NAME).start_as_current_span(
        name, context=context, kind=trace.SpanKind[kind], record_exception=False, set_status_on_exception=False
    ) as span:
        yield Span(span)


@contextmanager
def executing(effect: Effect) -> Iterator[Span]:
    """Keeps a span open around one entry into an effect's handler."""
    if not is_tracing():  # on the way of every call, so it is said first
        yield _SILENT
        return
    with spanning(f"execute_tool {effect.tool}") as span:
        _tell_of(span, effect, is_replayed=False)
        yield span


def tell_replayed(effect: Effect) -> None:
    """Leaves a span that says: this call got the recorded result, and its handler was not entered."""
    if is_tracing():
        with spanning(f"execute_tool {effect.tool}") as span:
            _tell_of(span, effect, is_replayed=True)


def _tell_of(span: Span, effect: Effect, *, is_replayed: bool) -> None:
    span.tell(
        gen_ai__operation__name="execute_tool",
        gen_ai__tool__name=effect.tool,
        gen_ai__tool__call__id=effect.call_id,
        gen_ai__conversation__id=effect.run_id,
        indelible__effect__id=effect.id,
        indelible__attempt=effect.attempt,
        indelible__replayed=is_replayed,
    )
