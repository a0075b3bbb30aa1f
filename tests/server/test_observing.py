"""What whoever runs a server sees: a line for each request, counts, spans; and never what a caller sent."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from opentelemetry import propagate, trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client.parser import text_string_to_metric_families

from indelible import Actor, Ledger, ToolCall, migrate
from indelible.errors import StoreUnavailable
from indelible.server.app import create_app
from indelible.server.ledgers import Ledgers
from indelible.server.requests.hardening import Hardened
from indelible.server.requests.limits import Limits, counting
from indelible.server.requests.logs import REQUESTS, JsonLines, LogFormat, TextLines, log_written
from indelible.server.requests.observing import Observed, noting
from indelible.server.signin.credentials import Credentials
from indelible.server.signin.identity import Identity
from indelible.stores import open_store
from tests.server.serving import Served
from tests.waiting import eventually

WHO = {"agent": "acme", "auditor": "acme", "stranger": "globex"}
TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"
CANARY = "canary-4711"


class Watched:
    """A server as it is run, with a log that can be read."""

    def __init__(self, folder: Path) -> None:
        url = f"sqlite:///{folder / 'ledger.db'}"
        migrate(url, keys=folder / "keys")
        store = open_store(url)
        self.ledgers = Ledgers(store, keys=folder / "keys")
        self.inner = create_app(self.ledgers, noting(counting(Identity(store))))
        self.inner.add_api_route("/broken/{what}", _broken, methods=["POST"])
        self.inner.add_api_route("/away/{what}", _away)
        app = Observed(Hardened(self.inner, limits=Limits(rate=0, in_flight=0)), self.ledgers.metrics)
        root = Actor("root")
        self.tokens = {
            name: str(Credentials(store, tenant).give(name, ("admin" if name == "stranger" else name,), by=root)[1])  # type: ignore[arg-type]
            for name, tenant in WHO.items()
        }
        self.served = Served(app)
        self.url = self.served.url

    def ask(self, method: str, path: str, who: str | None = "agent", **words: Any) -> httpx2.Response:
        headers = {} if who is None else {"Authorization": f"Bearer {self.tokens[who]}"}
        headers |= words.pop("headers", {})
        return httpx2.request(method, self.url + path, headers=headers, trust_env=False, **words)

    def figures(self, who: str = "auditor") -> dict[str, float]:
        """Gives what /metrics says: the name of each line, with its labels, and its value."""
        answer = self.ask("GET", "/metrics", who).raise_for_status()
        return {
            sample.name + "".join(f" {value}" for _, value in sorted(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(answer.text)
            for sample in family.samples
            if not sample.name.endswith(("_bucket", "_created"))
        }


async def _broken(what: str) -> None:
    try:
        raise KeyError(what)
    except KeyError as cause:
        raise RuntimeError(f"it broke at {what}") from cause


async def _away(what: str) -> None:
    raise StoreUnavailable("the store is away")


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    made = Watched(tmp_path_factory.mktemp("watched"))
    yield made
    made.served.stop()


@contextmanager
def log_of(form: LogFormat = "json") -> Iterator[io.StringIO]:
    """Writes everything that this process logs, as the server would."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    loggers = [logging.getLogger(name) for name in ("indelible", "uvicorn", "asyncio")]
    levels = [each.level for each in loggers]
    for each in loggers:
        each.addHandler(handler)
        each.setLevel(logging.DEBUG)
    try:
        yield stream
    finally:
        for each, level in zip(loggers, levels, strict=True):
            each.removeHandler(handler)
            each.setLevel(level)


def lines_of(stream: io.StringIO, count: int) -> list[dict[str, Any]]:
    """Gives the lines about requests, as soon as there are so many: a line is written after its answer has gone out."""

    def found() -> list[dict[str, Any]]:
        told = [json.loads(line) for line in stream.getvalue().splitlines()]
        return [line for line in told if line["logger"] == REQUESTS]

    eventually(lambda: len(found()) >= count)
    return found()


def test_each_request_has_one_line_that_names_its_route_and_who_asked(watched: Watched) -> None:
    with log_of() as stream:
        answer = watched.ask(
            "GET", "/v1/runs/order-1?limit=3", headers={"X-Request-Id": "mine-1", "traceparent": PARENT}
        )
        other = watched.ask("GET", "/nowhere/at-all", None, headers={"X-Request-Id": "not good\x7f"})
        store = watched.ask("POST", "/v1/store/introduce", json={})
        first, second, third = lines_of(stream, 3)
    assert answer.headers["x-request-id"] == "mine-1"
    credential = watched.tokens["agent"].split(".")[2]
    assert first.pop("ms") >= 0
    assert first.pop("time").endswith("Z")
    assert first == {
        "level": "info",
        "logger": REQUESTS,
        "message": "answered",
        "method": "GET",
        "route": "/v1/runs/{run_id}",
        "status": 404,
        "tenant": "acme",
        "credential": credential,
        "request_id": "mine-1",
        "trace_id": TRACE,
    }
    assert (second["route"], second["status"], second["tenant"]) == ("other", 404, None)
    assert second["request_id"] == other.headers["x-request-id"]
    assert re.fullmatch("[0-9a-f]{32}", second["request_id"])
    assert (third["route"], third["status"]) == ("/v1/store/introduce", store.status_code)


@pytest.mark.parametrize("form", ["json", "text"])
def test_nothing_that_a_caller_sends_is_in_the_log(watched: Watched, form: LogFormat) -> None:
    call = {"tool": "charge", "args": {"card": CANARY}, "run_id": f"run-{CANARY}-{form}"}
    headers = {"X-Api-Key": CANARY, "Cookie": f"session={CANARY}", "User-Agent": CANARY, "Referer": CANARY}
    with log_of(form) as stream:
        begun = watched.ask("POST", "/v1/effects", json=call, headers=headers).json()
        outcome = {"status": "failed", "error": f"declined {CANARY}"}
        told = {"token": begun["token"], "attempt": begun["effect"]["attempt"], "outcome": outcome}
        watched.ask("POST", f"/v1/effects/{begun['effect']['id']}/commit", json=told)
        watched.ask("POST", "/v1/effects", content=f'{{"tool": "{CANARY}"', headers=headers)
        watched.ask("POST", "/v1/effects", json={CANARY: CANARY})
        watched.ask("GET", f"/v1/runs/{CANARY}?q={CANARY}", headers=headers)
        watched.ask("GET", f"/{CANARY}?token={CANARY}", None)
        watched.ask("GET", "/v1/me", None, headers={"Authorization": f"Bearer {CANARY}"})
        watched.ask("GET", "/v1/me", None, headers={"Authorization": f"Bearer ind.{CANARY}.{CANARY}.{CANARY}"})
        watched.ask("POST", f"/broken/{CANARY}", json={"secret": CANARY})
        watched.ask(CANARY.replace("-", ""), "/v1/me", None)
        watched.ask("GET", f"/away/{CANARY}")
        eventually(lambda: stream.getvalue().count(REQUESTS) >= 11)
        log = stream.getvalue()
    assert CANARY not in log
    assert CANARY.replace("-", "") not in log
    for token in watched.tokens.values():
        assert token.rpartition(".")[2] not in log


def test_an_error_that_nobody_foresaw_is_in_the_log_with_its_cause_and_not_in_the_answer(watched: Watched) -> None:
    with log_of() as stream:
        answer = watched.ask("POST", f"/broken/{CANARY}", None)
        (line,) = lines_of(stream, 1)
    assert answer.status_code == 500
    assert CANARY not in answer.text
    assert "RuntimeError" not in answer.text
    assert (line["level"], line["status"], line["route"]) == ("error", 500, "/broken/{what}")
    assert re.match(r"RuntimeError at _broken \(test_observing.py:\d+\) < .* from KeyError at _broken ", line["error"])


def test_a_text_line_cannot_be_forged() -> None:
    record = logging.LogRecord("indelible", logging.INFO, "", 0, "a\nb\x1b[0m", (), None)
    assert "\n" not in TextLines().format(record)
    assert "\x1b" not in TextLines().format(record)


def test_the_log_goes_to_standard_error_from_a_level_on(capsys: pytest.CaptureFixture[str]) -> None:
    with log_written("text", "warning"):
        logging.getLogger("indelible.server").info("not this")
        logging.getLogger("indelible.server").warning("but this")
        said = capsys.readouterr().err
    assert logging.getLogger("indelible").propagate
    assert said.endswith("warning indelible.server: but this\n")
    assert "not this" not in said


# Counts


def test_requests_are_counted_by_route_and_calls_by_what_came_of_them(watched: Watched) -> None:
    before = watched.figures()
    call = {"tool": "charge", "args": {"n": 1}, "run_id": "counted"}
    begun = watched.ask("POST", "/v1/effects", json=call).json()
    told = {"token": begun["token"], "attempt": 1, "outcome": {"status": "succeeded", "value": 1}}
    watched.ask("POST", f"/v1/effects/{begun['effect']['id']}/commit", json=told)
    watched.ask("POST", "/v1/effects", json=call)
    with Ledger.open(watched.url, token=watched.tokens["agent"]) as ledger:
        assert ledger.run(ToolCall(tool="charge", args={"n": 1}, run_id="counted"), lambda effect: 2) == 1
    for number in range(5):
        watched.ask("GET", f"/no/such/{number}", None)
        watched.ask(f"METHOD{number}", "/v1/me", None)
    after = watched.figures()

    def grew(name: str) -> float:
        return after.get(name, 0) - before.get(name, 0)

    assert grew("indelible_claims_total") == 1
    assert grew("indelible_replays_total") == 2
    assert (grew("indelible_effects_moved_total processing"), grew("indelible_effects_moved_total succeeded")) == (1, 1)
    assert grew("indelible_http_requests_total POST /v1/effects/{effect_id}/commit 200") == 1
    assert grew("indelible_http_requests_total GET other 404") == 5
    assert grew("indelible_http_requests_total other /v1/me 405") == 5
    assert grew("indelible_http_request_seconds_count /v1/effects") == 2
    assert after["indelible_http_requests_under_way"] == 1
    assert not [name for name in after if "acme" in name or "charge" in name or "METHOD" in name or "such" in name]


def test_what_waits_is_told_of_the_tokens_own_tenant(watched: Watched) -> None:
    headers = {"Idempotency-Key": "ask-1"}
    asked = {"tool": "pay", "args": {"n": 1}, "run_id": "asking", "approval": "required"}
    assert watched.ask("POST", "/v1/effects", json=asked, headers=headers).status_code == 202
    begun = watched.ask("POST", "/v1/effects", json={"tool": "pay", "run_id": "doubt", "side_effect": "payment"}).json()
    gave_up = {"token": begun["token"], "attempt": 1, "status": "in_doubt", "reason": "the line went dead"}
    watched.ask("POST", f"/v1/effects/{begun['effect']['id']}/release", json=gave_up).raise_for_status()
    ours, theirs = watched.figures("auditor"), watched.figures("stranger")
    assert (ours["indelible_approvals_pending"], ours["indelible_effects_in_doubt"]) == (1, 1)
    assert ours["indelible_approvals_oldest_seconds"] > 0
    assert (theirs["indelible_approvals_pending"], theirs["indelible_effects_in_doubt"]) == (0, 0)
    assert ours["indelible_journal_entries"] > theirs["indelible_journal_entries"]


def test_only_auditors_see_the_counts_unless_the_server_was_told_to_be_open(watched: Watched) -> None:
    assert watched.ask("GET", "/metrics", None).status_code == 401
    assert watched.ask("GET", "/metrics", "agent").status_code == 403
    inner: FastAPI = watched.inner
    inner.state.is_metrics_open = True
    try:
        answer = watched.ask("GET", "/metrics", None)
    finally:
        inner.state.is_metrics_open = False
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert "indelible_journal_entries" in answer.text


# Spans


def test_a_request_has_a_span_under_its_callers_own(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    assert propagate is not None  # loaded, as it is wherever OpenTelemetry is used
    watched.ask("GET", f"/v1/runs/{CANARY}?limit={CANARY}", headers={"traceparent": PARENT})
    eventually(exporter.get_finished_spans)
    (span,) = exporter.get_finished_spans()
    assert (span.name, span.kind) == ("GET /v1/runs/{run_id}", trace.SpanKind.SERVER)
    assert span.parent is not None
    assert f"{span.context.trace_id:032x}" == TRACE
    assert f"{span.parent.span_id:016x}" == "b7ad6b7169203331"
    assert dict(span.attributes or {})["http.response.status_code"] == 404
    assert CANARY not in span.to_json()
    exporter.clear()
    with (
        provider.get_tracer("agent").start_as_current_span("agent"),
        Ledger.open(watched.url, token=watched.tokens["agent"]) as ledger,
    ):
        ledger.run(ToolCall(tool="traced", run_id="traced"), lambda effect: 1)
    spans = eventually(lambda: (done := exporter.get_finished_spans()) and "agent" in [s.name for s in done] and done)
    (agent,) = (span for span in spans if span.name == "agent")
    asked = [span for span in spans if span.name.startswith("POST /v1/store/")]
    assert "POST /v1/store/apply" in {span.name for span in asked}
    assert {span.context.trace_id for span in asked} == {agent.context.trace_id}
    provider.shutdown()
