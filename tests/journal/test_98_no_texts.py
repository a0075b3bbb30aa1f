"""A program without keys writes bytes that are no text where SQLite says TEXT: a verdict and an error, no traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from indelible import Ledger, ToolCall, migrate
from indelible.errors import RecordForged
from indelible.journal.evidence.live import LiveEvidence
from indelible.journal.evidence.verification import verify
from tests.journal.exported import key_of, store_of

CALL = ToolCall(tool="charge", args={"n": 1}, run_id="order-1")
NO_TEXT = "CAST(x'ff' AS TEXT)"
PLACES = [
    *[("effects", name) for name in ("scope", "id", "run_id", "tool", "status")],
    *[("events", name) for name in ("run_id", "type", "effect_id")],
    *[("payloads", name) for name in ("run_id", "field")],
    *[("sheets", name) for name in ("status", "topic", "run_id")],
    *[("runs", "run_id"), ("heads", "note")],
]


@pytest.fixture
def place(sqlite_url: str, tmp_path: Path) -> dict[str, Any]:
    keys = tmp_path / "keys"
    migrate(sqlite_url, keys=keys)
    with Ledger.open(sqlite_url, keys=keys, seal=False) as ledger:
        ledger.run(CALL, lambda effect: 1)
        with ledger.start_run("lead-1", agent="a", intent="b"):
            pass
        ledger.seal()
    return {"url": sqlite_url, "keys": keys, "seal": False, "wakeups": False}


def change(place: dict[str, Any], sql: str) -> None:
    with closing(apsw.Connection(place["url"].removeprefix("sqlite:///"))) as other:
        other.execute(sql)
        assert other.changes()


def cli(place: dict[str, Any], *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "indelible", *words, "--url", place["url"]],
        env={**os.environ, "INDELIBLE_KEYS": str(place["keys"])},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize(("table", "column"), PLACES)
def test_98_bytes_that_are_no_text_are_tampering(place: dict[str, Any], table: str, column: str) -> None:
    with Ledger.open(**place) as ledger:
        change(place, f"UPDATE OR IGNORE indelible_{table} SET {column} = {NO_TEXT}")
        report = verify(LiveEvidence(store_of(ledger), ledger.tenant), [key_of(ledger)])
    assert report.verdict == "tampered", report.why


def test_98_what_is_right_again_is_read_at_once(place: dict[str, Any]) -> None:
    with Ledger.open(**place) as ledger:
        change(place, f"UPDATE indelible_effects SET tool = {NO_TEXT}")
        with pytest.raises(RecordForged) as raised:
            ledger.effects()
        change(place, "UPDATE indelible_effects SET tool = 'charge'")
        assert [effect.tool for effect in ledger.effects()] == ["charge"], "while its error is still held"
    assert raised.value.__cause__ is not None


@pytest.mark.parametrize("command", [["verify"], ["doctor"], ["effects", "list"], ["journal", "status"]])
@pytest.mark.parametrize(("table", "column"), [("effects", "tool"), ("heads", "note"), ("runs", "run_id")])
def test_98_no_command_ends_in_a_traceback(place: dict[str, Any], command: list[str], table: str, column: str) -> None:
    with Ledger.open(**place) as ledger:
        words = [*command, "--key", key_of(ledger)] if command == ["verify"] else command
    change(place, f"UPDATE OR IGNORE indelible_{table} SET {column} = {NO_TEXT}")
    done = cli(place, *words)
    assert "Traceback" not in done.stderr, done.stderr
    assert command != ["verify"] or done.returncode == 1, done.stdout + done.stderr


def test_98_what_shows_when_the_ledger_is_opened_is_a_verdict_too(place: dict[str, Any]) -> None:
    with Ledger.open(**place) as ledger:
        key = key_of(ledger)
        ledger.stop(by="ana", reason="look")
    change(place, "DELETE FROM indelible_events WHERE run_id = 'indelible:stops'")
    done = cli(place, "verify", "--key", key, "--json")
    assert (done.returncode, json.loads(done.stdout)["verdict"]) == (1, "tampered"), done.stderr
