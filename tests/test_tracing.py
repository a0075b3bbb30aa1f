"""Spans around handlers: one for each entry, one for each replay, in both shells; and none where nobody wants them."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from indelible import AsyncLedger, Ledger, RunningEffect, ToolCall
from indelible.errors import EffectFailed

CALL = ToolCall(tool="mail.send", args={"to": "canary-of-args"}, run_id="order-1", call_id="call_7")


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    # As if the program had set it, which can be done only once.
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    yield exporter
    provider.shutdown()


def facts(span: ReadableSpan) -> dict[str, Any]:
    return {name.removeprefix("gen_ai."): value for name, value in dict(span.attributes or {}).items()}


def innermost(effect: RunningEffect) -> str:
    """Is a handler that starts a span of its own."""
    with trace.get_tracer("handler").start_as_current_span("smtp"):
        return "sent"


async def innermost_awaited(effect: RunningEffect) -> str:
    return innermost(effect)


def check(spans: InMemorySpanExporter) -> None:
    inner, entered, replayed = spans.get_finished_spans()
    assert [inner.name, entered.name, replayed.name] == ["smtp", "execute_tool mail.send", "execute_tool mail.send"]
    assert inner.parent is not None
    assert inner.parent.span_id == entered.context.span_id
    told = facts(entered)
    effect_id = told.pop("indelible.effect.id")
    assert effect_id.startswith("eff_")
    assert told == {
        "operation.name": "execute_tool",
        "tool.name": "mail.send",
        "tool.call.id": "call_7",
        "conversation.id": "order-1",
        "indelible.attempt": 1,
        "indelible.replayed": False,
    }
    assert facts(replayed) == {**told, "indelible.effect.id": effect_id, "indelible.replayed": True}
    assert "canary" not in "".join(span.to_json() for span in (inner, entered, replayed))


@pytest.mark.parametrize("timeout", [None, timedelta(minutes=1)])
def test_a_blocking_call_has_a_span_around_its_handler_and_one_for_its_replay(
    spans: InMemorySpanExporter, timeout: timedelta | None
) -> None:
    with Ledger.open(":memory:", timeout=timeout) as ledger:
        assert [ledger.run(CALL, innermost) for _ in range(2)] == ["sent", "sent"]
    check(spans)


@pytest.mark.parametrize("handler", [innermost, innermost_awaited])
def test_an_awaited_call_has_the_same(spans: InMemorySpanExporter, handler: Any) -> None:
    async def twice() -> list[Any]:
        async with AsyncLedger.open(":memory:") as ledger:
            return [await ledger.run(CALL, handler) for _ in range(2)]

    assert asyncio.run(twice()) == ["sent", "sent"]
    check(spans)


def test_a_handler_that_raises_ends_its_span_with_the_kind_of_error_and_not_its_words(
    spans: InMemorySpanExporter,
) -> None:
    def raising(effect: RunningEffect) -> None:
        raise ValueError("canary-of-errors")

    with Ledger.open(":memory:") as ledger:
        with pytest.raises(ValueError, match="canary"):
            ledger.run(CALL, raising, failed_on=ValueError)
        with pytest.raises(EffectFailed):
            ledger.run(CALL, raising)
    failed, replayed = spans.get_finished_spans()
    assert failed.status.status_code is trace.StatusCode.ERROR
    assert facts(failed)["error.type"] == "ValueError"
    assert "canary" not in failed.to_json()
    assert facts(replayed)["indelible.replayed"] is True


def test_nothing_is_loaded_for_spans_that_nobody_asked_for() -> None:
    program = (
        "import sys, indelible\n"
        "with indelible.Ledger.open(':memory:') as ledger:\n"
        "    ledger.run(indelible.ToolCall(tool='t', run_id='r'), lambda effect: 1)\n"
        "assert not [name for name in sys.modules if name.startswith('opentelemetry')]\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
