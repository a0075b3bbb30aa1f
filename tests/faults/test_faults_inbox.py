"""Fault 75: every run that has events is listed, started or not, on every store through both shells and over HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import httpx2
import pytest
from click.testing import CliRunner

from indelible import Ledger, ToolCall, migrate
from indelible.cli.root import root
from indelible.core.sheets import SheetFilter
from indelible.errors import UnknownRun
from tests.scenarios.hands import begun, started
from tests.scenarios.shells import Count, Driver, Shell, charge
from tests.server.office import House, Office


def ids(found: list[Any]) -> list[str]:
    return [run.id for run in found]


def test_75_runs_that_only_name_calls_are_listed_the_newest_first(ledger: Driver) -> None:
    ledger.run(charge(run_id="1-thread"), Count())
    started(ledger, "2-job").complete()
    ledger.run(charge(run_id="3-thread"), Count())
    ledger.run(charge(run_id="1-thread", args={"amount": 6}), Count())
    assert ids(ledger.runs()) == ["3-thread", "2-job", "1-thread"]
    assert ids(ledger.runs(status="open")) == ["3-thread", "1-thread"]
    assert ids(ledger.runs(status="completed")) == ["2-job"]
    assert ids(ledger.runs(agent="nobody")) == ids(ledger.runs(agent="scout", status="open")) == []
    assert [ids(ledger.runs(before=one, limit=1)) for one in ("3-thread", "2-job", "1-thread")] == [
        ["2-job"],
        ["1-thread"],
        [],
    ]
    assert ids(ledger.runs(status="open", before="3-thread")) == ["1-thread"]


def test_75_a_run_that_was_never_started_says_so(ledger: Driver) -> None:
    ledger.run(charge(run_id="thread-1"), Count())
    run = ledger.get_run("thread-1")
    assert (run.status, run.agent, run.intent, run.version, run.seq) == ("open", "", "", 0, 1)
    newest = ledger.events("thread-1")[-1].read()["at"]
    assert run.created_at <= run.updated_at
    assert run.updated_at.isoformat(timespec="microseconds").replace("+00:00", "Z") == newest
    assert ledger.get_run("thread-2") is None


def test_75_what_works_for_a_run_that_was_never_started_and_what_does_not(ledger: Driver) -> None:
    handler = Count()
    ledger.run(charge(run_id="thread-1"), handler)
    assert ledger.verify_run("thread-1").is_valid
    assert [line.status for line in ledger.run_story("thread-1").effects.values()] == ["succeeded"]
    assert ledger.checkpoints("thread-1") == []
    with pytest.raises(UnknownRun, match="start_run"):
        ledger.export_packet("thread-1")
    for verb in ("resume_run", "fork_run"):
        with pytest.raises(UnknownRun, match="start_run"):
            begun(ledger, verb, "thread-1")
    with pytest.raises(UnknownRun, match="start it"):
        ledger.end_run("thread-1", "canceled", by="ana", reason="it is over")
    started(ledger, "thread-1")
    assert ledger.get_run("thread-1").status == "active"
    ledger.run(charge(run_id="thread-1"), handler)
    assert handler.entries == 1, "what was called before the start replays"


def test_75_the_ledgers_own_records_are_no_runs(shell: Shell) -> None:
    ledger = shell.open()
    ledger.apply_policy({"rules": [{"name": "none", "match": {"tool": "rm"}, "then": "refuse"}]}, by="root")
    ledger.stop(by="root", reason="a drill")
    assert ledger.runs() == []


def test_75_a_run_that_is_told_of_by_hand_is_listed(ledger: Driver) -> None:
    ledger.record("told", "acme.lead_scored", {"score": 7})
    assert [(run.id, run.status) for run in ledger.runs()] == [("told", "open")]


# ── over HTTP, and in the terminal ───────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def office(store_url: str) -> Iterator[Office]:
    with closing(House(store_url)) as house:
        yield Office(house)


def called(store_url: str, tenant: str) -> None:
    with Ledger.open(store_url, tenant=tenant) as ledger:
        for number in range(3):
            call = ToolCall(tool="charge", args={"amount": number}, run_id=f"thread-{number}")
            ledger.run(call, lambda effect: {"id": "ch_1"})


def test_75_over_http_runs_are_listed_found_and_read(office: Office, store_url: str) -> None:
    called(store_url, office.tenant)
    headers = office.token("olga", "auditor")
    with httpx2.Client(base_url=office.url, headers=headers, trust_env=False) as client:

        def asked(path: str, **words: Any) -> Any:
            answer = client.get(path, params=words)
            assert answer.status_code == 200, answer.text
            return answer.json()

        assert [run["id"] for run in asked("/v1/runs")["runs"]] == ["thread-2", "thread-1", "thread-0"]
        assert [run["id"] for run in asked("/v1/runs", q="thread-1")["runs"]] == ["thread-1"]
        assert [run["id"] for run in asked("/v1/runs", q="run:thread-1 status:open")["runs"]] == ["thread-1"]
        assert asked("/v1/runs", status="active")["runs"] == []
        page = asked("/v1/runs", limit=2)
        assert [run["id"] for run in asked("/v1/runs", before=page["next"])["runs"]] == ["thread-0"]
        run = asked("/v1/runs/thread-1")
        assert (run["status"], run["agent"], run["intent"], run["version"]) == ("open", "", "", 0)
        assert ("run", "thread-1") in [(hit["kind"], hit["id"]) for hit in asked("/v1/search", q="thread-1")["hits"]]
        assert asked("/v1/runs/thread-1/checkpoints")["checkpoints"] == []
        assert client.get("/v1/runs/thread-9").status_code == 404


@pytest.mark.parametrize("kind", ["blocking", "async"])
def test_75_a_ledger_behind_a_server_lists_them_too(office: Office, store_url: str, kind: str) -> None:
    called(store_url, office.tenant)
    token = office.token("bot", "agent")["Authorization"].removeprefix("Bearer ")
    expected = ["thread-2", "thread-1", "thread-0"]
    if kind == "blocking":
        with Ledger.open(office.url, token=token) as ledger:
            assert ids(ledger.runs()) == expected
            assert ledger.get_run("thread-1").status == "open"  # type: ignore[union-attr]
        return

    async def listed() -> list[str]:
        from indelible import AsyncLedger

        async with AsyncLedger.open(office.url, token=token) as ledger:
            return ids(await ledger.runs())

    assert asyncio.run(listed()) == expected


def test_75_the_command_lists_inspects_and_verifies_them(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    migrate(store_url)
    called(store_url, "default")
    monkeypatch.setenv("INDELIBLE_URL", store_url)

    def said(*words: str, code: int = 0) -> str:
        result = CliRunner().invoke(root, list(words), catch_exceptions=False)
        assert result.exit_code == code, result.output
        return result.stdout

    listed = json.loads(said("--json", "runs", "list"))
    assert [(run["runId"], run["status"]) for run in listed["runs"]] == [
        (f"thread-{number}", "open") for number in (2, 1, 0)
    ]
    assert said("runs", "list", "--status", "open").count("unknown") == 6
    assert "Resumable:           No" in said("runs", "inspect", "thread-1")
    assert "Valid" in said("runs", "verify", "thread-1")
    assert "thread-1" in said("runs", "timeline", "thread-1")
    said("runs", "resume", "thread-1", code=2)


def test_75_a_store_gives_a_run_without_a_sheet_its_newest_event(ledger: Driver) -> None:
    ledger.run(charge(run_id="thread-1"), Count())
    named = SheetFilter(kind="run", id="thread-1", is_by_time=True, with_unstarted=True)
    (sheet,) = ledger.engine.store.sheets(ledger.tenant, named)
    assert (sheet.version, sheet.status, sheet.seq, sheet.body) == (0, "open", 1, ledger.events("thread-1")[-1].body)
