"""Fault 72: what one callback told was recorded under another name by each path that it came by."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from langchain_core.language_models import FakeListLLM
from langchain_core.tools import tool

from indelible import Ledger
from indelible.compat.provedex import ProvedexCallbackHandler, ProvedexConfig
from indelible.integrations.langchain_callbacks import CallbackConfig, LedgerCallbackHandler
from indelible.migrating import provedex
from tests.migrating.test_from_provedex import signed
from tests.server.conftest import each_place as each_place
from tests.server.places import Place

HASH = "0" * 64
EVENTS = [
    {"type": "SessionStarted", "payload": {"agent_id": "a", "model_id": "m", "session_id": "s"}},
    {
        "type": "ModelInvoked",
        "payload": {
            "model_id": "m",
            "prompt_sha256": HASH,
            "response_sha256": HASH,
            "prompt_tokens": 1,
            "response_tokens": 1,
        },
    },
    {"type": "ToolCalled", "payload": {"tool_name": "add", "args_sha256": HASH, "args_redacted": {}}},
    {
        "type": "ToolReturned",
        "payload": {"tool_name": "add", "result_sha256": HASH, "latency_ms": 1, "success": True},
    },
    {"type": "SessionEnded", "payload": {"reason": "done", "summary_sha256": HASH}},
]
NAMES = [
    f"callback.{kind}" for kind in ("session_started", "model_invoked", "tool_called", "tool_returned", "session_ended")
]
OLD = ["provedex.session_started", "provedex.model_invoked", "tool_call_started", "tool_call_finished"]


@tool
def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


def opened(place: Place) -> Ledger:
    return Ledger.open(place.served.url, token=place.tokens["agent"])


def worked(handler: LedgerCallbackHandler) -> str:
    with handler.session():
        FakeListLLM(responses=["hello"]).invoke("hi", config={"callbacks": [handler]})
        add.invoke({"a": 1, "b": 2}, config={"callbacks": [handler]})
    handler.stop()
    return handler.config.session_id


def by_our_handler(place: Place, folder: Path) -> str:
    with opened(place) as ledger:
        return worked(LedgerCallbackHandler(ledger, config=CallbackConfig(spool=folder)))


def by_their_handler(place: Place, folder: Path) -> str:
    with opened(place) as ledger:
        return worked(ProvedexCallbackHandler(ProvedexConfig(spool=folder), ledger=ledger))


def by_their_handler_at_a_server(place: Place, folder: Path) -> str:
    address = urlsplit(place.served.url)
    url = f"{address.scheme}://key:{place.tokens['agent']}@{address.netloc}"
    return worked(ProvedexCallbackHandler(ProvedexConfig(spool=folder, agent_url=url)))


def by_the_sidecars_endpoint(place: Place, folder: Path) -> str:
    run_id = f"signed-{folder.name}"
    for event in EVENTS:
        answer = place.post(f"/provedex/{run_id}/v1/sign", {"event": event})
        assert answer.status_code == 200, answer.text
    return run_id


def by_a_file(place: Place, folder: Path) -> str:
    path = folder / "ledger.ndjson"
    path.write_text("\n".join(signed(EVENTS)) + "\n", encoding="utf-8")
    with opened(place) as ledger:
        return provedex.take_over(ledger, path, run_id=f"file-{folder.name}")[1]


PATHS = [by_our_handler, by_their_handler, by_their_handler_at_a_server, by_the_sidecars_endpoint, by_a_file]


def types_in(place: Place, run_id: str) -> list[str]:
    events = place.get(f"/v1/runs/{run_id}/events").json()["events"]
    return [event["type"] for event in events if not event["type"].startswith("run_")]


@pytest.mark.parametrize("path", PATHS)
def test_72_a_callback_has_one_name_by_every_path(
    each_place: Place, tmp_path: Path, path: Callable[[Place, Path], str]
) -> None:
    assert types_in(each_place, path(each_place, tmp_path)) == NAMES


def test_72_a_file_that_was_taken_over_under_the_names_of_before_is_gone_on_with(
    each_place: Place, tmp_path: Path
) -> None:
    path, lines = tmp_path / "ledger.ndjson", signed(EVENTS)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    name, first = f"old-{tmp_path.name}", provedex.verify_lines(path).first
    with opened(each_place) as ledger:
        run = ledger.start_run(name, agent="a", runtime="provedex", permissions={"provedex": first})
        for kind, line in zip(OLD, lines, strict=False):
            run.record(kind, json.loads(line))
        run.release()
        taking, _ = provedex.take_over(ledger, path, run_id=name)
        assert (taking.became["events"], taking.became["here already"]) == (1, 4)
        assert ledger.verify_run(name).is_valid
    assert types_in(each_place, name) == [*OLD, NAMES[-1]]
