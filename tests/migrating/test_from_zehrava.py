"""`indelible migrate from zehrava`: runs of gate.db come whole, can be resumed, and what was verified is told."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from indelible import Ledger, verify
from indelible.migrating import zehrava
from tests.cli.conftest import Cli, cli, ledger_url
from tests.journal.exported import key_of
from tests.stores.database import open_file

__all__ = ["cli", "ledger_url"]

# The tables of the Run Ledger as zehrava-gate 0.3 makes them, with one column that is not read.
TABLES = """
    CREATE TABLE run_ledgers (
        id TEXT PRIMARY KEY, run_id TEXT NOT NULL UNIQUE, parent_run_id TEXT, runtime TEXT NOT NULL,
        agent_id TEXT NOT NULL, intent_summary TEXT NOT NULL, status TEXT NOT NULL, current_step TEXT,
        last_safe_event_id TEXT, permissions_json TEXT, integrity_hash TEXT NOT NULL, schema_version INTEGER NOT NULL,
        created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL);
    CREATE TABLE run_events (
        id TEXT PRIMARY KEY, ledger_id TEXT NOT NULL, seq INTEGER NOT NULL, event_type TEXT NOT NULL,
        event_ts INTEGER NOT NULL, actor_id TEXT, step_name TEXT, payload_json TEXT NOT NULL,
        side_effect_class TEXT, side_effect_key TEXT, status TEXT NOT NULL, created_at INTEGER NOT NULL);
    CREATE TABLE run_artifacts (
        id TEXT PRIMARY KEY, ledger_id TEXT NOT NULL, event_id TEXT, artifact_type TEXT NOT NULL,
        uri_or_path TEXT NOT NULL, content_hash TEXT, metadata_json TEXT, created_at INTEGER NOT NULL);
    CREATE TABLE run_checkpoints (
        id TEXT PRIMARY KEY, ledger_id TEXT NOT NULL, event_id TEXT NOT NULL, checkpoint_reason TEXT NOT NULL,
        resume_packet_json TEXT NOT NULL, sealed_hash TEXT NOT NULL, is_resumable INTEGER NOT NULL,
        created_at INTEGER NOT NULL);
"""
NOON = 1_774_180_800_000
EVENTS: list[tuple[str, str, Any, str, str | None]] = [
    ("run_started", "", {}, "none", None),
    ("plan_locked", "plan", {"steps": 3}, "none", None),
    ("tool_call_finished", "fetch", {"tool": "fetch_data", "recordsFetched": 847, "ratio": 0.5}, "read", None),
    ("execution_succeeded", "sync", {"recordsSynced": 847}, "external_mutation", "ab" * 32),
    ("approval_requested", "review", {"intentId": "int_1"}, "none", None),
    ("interruption_detected", "review", {"why": "crash"}, "none", None),
    ("checkpoint_sealed", "review", {"checkpointId": "ckpt_1", "reason": "interruption"}, "none", None),
]
FROM = ("migrate", "from", "zehrava")


def hashed(content: Any) -> str:
    """Hashes as its description says: names sorted, then JSON."""
    return sha256(json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()).hexdigest()


class Gate:
    """Writes a gate.db as zehrava-gate does."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.database = open_file(path)
        self.database.execute(TABLES)

    def insert(self, table: str, **row: Any) -> None:
        marks = ", ".join("?" for _ in row)
        self.database.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", tuple(row.values()))

    def run(self, name: str, status: str = "interrupted", events: Sequence[Any] = EVENTS, **other: Any) -> None:
        identity = {"runId": name, "agentId": "lead-agent", "intentSummary": "Enrich leads", "schemaVersion": 1}
        row = {
            "id": f"ledger_{name}",
            "run_id": name,
            "parent_run_id": None,
            "runtime": "zehrava-gate",
            "agent_id": "lead-agent",
            "intent_summary": "Enrich leads",
            "status": status,
            "current_step": "review",
            "permissions_json": '{"allowed_tools":["fetch","sync"]}',
            "integrity_hash": hashed(identity),
            "schema_version": 1,
            "created_at": NOON,
            "updated_at": NOON,
        }
        self.insert("run_ledgers", **{**row, **other})
        for seq, (kind, step, payload, side_effect, key) in enumerate(events, start=1):
            self.insert(
                "run_events",
                id=f"evt_{name}_{seq}",
                ledger_id=f"ledger_{name}",
                seq=seq,
                event_type=kind,
                event_ts=NOON + seq,
                actor_id="lead-agent",
                step_name=step,
                payload_json=json.dumps(payload),
                side_effect_class=side_effect,
                side_effect_key=key,
                status="recorded",
                created_at=NOON + seq,
            )
        artifact = {"artifact_type": "file", "uri_or_path": "leads.csv", "content_hash": "cd" * 32}
        place = {"ledger_id": f"ledger_{name}", "event_id": None, "metadata_json": "{}", "created_at": NOON}
        self.insert("run_artifacts", id=f"art_{name}", **artifact, **place)

    def checkpoint(
        self, name: str, number: int = 6, of: int = 6, checkpoint_id: str = "ckpt_1", step: str = "review"
    ) -> None:
        """Seals the first `of` events, and names event `number`."""
        packet = {"runId": name, "currentStep": step, "suggestedNextAction": "await_approval", "ratio": 0.5}
        rows = self.database.execute(
            "SELECT id, seq, event_type, payload_json FROM run_events WHERE ledger_id = ? AND seq <= ? ORDER BY seq",
            (f"ledger_{name}", of),
        )
        hashes = [hashed({"id": row[0], "seq": row[1], "type": row[2], "payload": row[3]}) for row in rows]
        sealed = {
            "checkpointId": checkpoint_id,
            "ledgerId": f"ledger_{name}",
            "eventId": f"evt_{name}_{number}",
            "resumePacket": packet,
            "eventHashes": hashes,
        }
        self.insert(
            "run_checkpoints",
            id=checkpoint_id,
            ledger_id=f"ledger_{name}",
            event_id=sealed["eventId"],
            checkpoint_reason="interruption",
            resume_packet_json=json.dumps(packet),
            sealed_hash=hashed(sealed),
            is_resumable=1,
            created_at=NOON + 7,
        )


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    made = Gate(tmp_path / "gate.db")
    yield made
    made.database.close()


def test_a_run_comes_whole_and_can_be_resumed(gate: Gate, ledger_url: str, cli: Cli, tmp_path: Path) -> None:
    gate.run("run_1")
    gate.checkpoint("run_1")
    gate.run("run_2", "completed", EVENTS[:3], parent_run_id="run_1", created_at=NOON + 1)
    said = cli(*FROM, str(gate.path), "--json").json
    assert said["became"] == {"completed": 1, "events": 10, "resumable": 1}
    assert said["verified"] == [
        "the identity of 2 of 2 runs is what its hash says",
        "1 of 1 checkpoints are what was sealed",
    ]
    assert any("have no key" in line for line in said["not_verified"])
    assert said["not_as_written"] == []
    with Ledger.open(ledger_url, seal=True) as ledger:
        told: list[Any] = []
        ledger.run_story("run_1", each=told.append)
        assert [event.type for event in told if event.type != "checkpoint_sealed"] == [
            *("run_started", "zehrava.run_started", "plan_locked", "tool_call_finished", "execution_succeeded"),
            *("approval_requested", "interruption_detected", "zehrava.checkpoint_sealed", "artifact_created"),
            *("zehrava.checkpoint", "zehrava.run_imported", "run_blocked"),
            *("delegation_started", "delegation_finished"),
        ]
        fetched = next(event for event in told if event.type == "tool_call_finished")
        assert fetched.payload == {
            "tool": "fetch_data",
            "recordsFetched": 847,
            "ratio": 0.5,
            "zehrava": {"id": "evt_run_1_3", "at": "2026-03-22T12:00:00.003000Z"},
        }
        assert (fetched.actor, fetched.step, fetched.side_effect) == ("lead-agent", "fetch", "read")
        assert next(event for event in told if event.type == "zehrava.checkpoint").payload["sealHolds"] is True
        child = ledger.get_run("run_2")
        assert child is not None
        assert (child.status, child.parent, child.allowed_tools) == ("completed", "run_1", ("fetch", "sync"))
        run = ledger.resume_run("run_1")
        assert run.context is not None
        assert "ab" * 32 in run.context.blocked_side_effect_keys
        assert run.context.state["currentStep"] == "review"
        assert run.context.suggested_next_action == "await_approval"
        run.complete()
        assert ledger.verify_run("run_1").is_valid
        assert ledger.verify_run("run_2").is_valid
        ledger.export(tmp_path / "bundle")
        assert verify(tmp_path / "bundle", key_of(ledger)).verdict == "verified"


def test_71_a_child_of_a_run_that_has_ended_is_told_of_by_it(gate: Gate, ledger_url: str, cli: Cli) -> None:
    gate.run("run_1", "completed")
    gate.run("run_2", "completed", parent_run_id="run_1", created_at=NOON + 1)
    assert cli(*FROM, str(gate.path), "--json").json["became"]["completed"] == 2
    gate.run("run_3", "completed", parent_run_id="run_1", created_at=NOON + 2)  # run_1 is over here by now
    assert cli(*FROM, str(gate.path), "--json").json["became"]["completed"] == 1
    with Ledger.open(ledger_url, seal=False) as ledger:
        assert [ledger.runs()[number].parent for number in (2, 1, 0)] == [None, "run_1", None]
        assert all(ledger.verify_run(name).is_valid for name in ("run_1", "run_2", "run_3"))


def test_twice_changes_nothing_and_a_run_left_half_is_ended(gate: Gate, sqlite_url: str, cli: Cli) -> None:
    gate.run("run_1", "failed")
    with Ledger.open(sqlite_url) as ledger, zehrava.reading(gate.path) as found:
        (told,) = zehrava.runs_in(found)
        zehrava._start(ledger, zehrava.read_run(found, told), {})  # and then the process is gone
        half = ledger.run_story("run_1").head.length
    for _ in range(2):
        assert cli(*FROM, str(gate.path), "--url", sqlite_url, "--json").json["became"] == {"here already": 1}
    with Ledger.open(sqlite_url) as ledger:
        run = ledger.get_run("run_1")
        assert run is not None
        assert run.status == "failed"
        assert ledger.run_story("run_1").head.length == half + 1


@pytest.mark.parametrize(
    ("edit", "verified"),
    [
        ("UPDATE run_events SET payload_json = '{}' WHERE seq = 3", "0 of 1 checkpoints"),
        ("UPDATE run_events SET event_type = 'x_y' WHERE seq = 3", "0 of 1 checkpoints"),
        ("DELETE FROM run_events WHERE seq = 2", "0 of 1 checkpoints"),
        ('UPDATE run_checkpoints SET resume_packet_json = \'{"currentStep":"pay"}\'', "0 of 1 checkpoints"),
        ("UPDATE run_ledgers SET intent_summary = 'Wire money'", "0 of 1 runs"),
    ],
)
def test_what_was_edited_there_is_told(gate: Gate, sqlite_url: str, cli: Cli, edit: str, verified: str) -> None:
    gate.run("run_1")
    gate.checkpoint("run_1")
    gate.database.execute(edit)
    said = cli(*FROM, str(gate.path), "--url", sqlite_url, "--json", code=1).json
    assert any(verified in line for line in said["verified"])
    assert any("missing or were moved" in line for line in said["not_as_written"]) == ("DELETE" in edit)
    named = "run_1: its name, agent or intent" if "runs" in verified else "run_1: checkpoint"
    assert any(line.startswith(named) for line in said["not_as_written"])
    again = cli(*FROM, str(gate.path), "--url", sqlite_url, code=1).out  # whoever looks later is told the same
    assert "1  here already" in again
    assert "each is here as it was found.\n  run_1: " in again
    with Ledger.open(sqlite_url) as ledger:
        run = ledger.resume_run("run_1")
        assert run.context is not None
        if "runs" not in verified:  # nobody goes on with a state that is not what was sealed
            assert run.context.state is None


def test_a_seal_of_its_first_event_is_known_for_what_it_is(gate: Gate, sqlite_url: str, cli: Cli) -> None:
    """Its default names the first event, and seals all there are: its own verification fails then."""
    gate.run("run_1")
    gate.checkpoint("run_1", number=1)
    said = cli(*FROM, str(gate.path), "--url", sqlite_url, "--json").json
    assert "1 of 1 checkpoints are what was sealed" in said["verified"]


def test_of_two_checkpoints_in_one_millisecond_the_one_written_last_is_resumed(
    gate: Gate, sqlite_url: str, cli: Cli
) -> None:
    gate.run("run_1")
    gate.checkpoint("run_1", checkpoint_id="ckpt_2", step="first")
    gate.checkpoint("run_1", checkpoint_id="ckpt_1", step="last")
    cli(*FROM, str(gate.path), "--url", sqlite_url)
    with Ledger.open(sqlite_url) as ledger:
        context = ledger.resume_run("run_1").context
        assert context is not None
        assert context.state["currentStep"] == "last"


def test_a_run_that_has_no_place_is_named_and_the_others_come(gate: Gate, sqlite_url: str, cli: Cli) -> None:
    gate.run("run_1")
    gate.run("indelible:own")
    gate.run("taken")
    with Ledger.open(sqlite_url) as ledger:
        ledger.start_run("taken", agent="other").complete()
    said = cli(*FROM, str(gate.path), "--url", sqlite_url, "--json", code=1).json
    assert {one["name"] for one in said["left_out"]} == {"indelible:own", "taken"}
    assert said["became"]["resumable"] == 1


def test_another_database_is_not_taken_for_it(sqlite_url: str, cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no database, but long enough to look at" * 40)
    other = open_file(tmp_path / "other.db")
    other.execute("CREATE TABLE run_ledgers (id TEXT)")
    other.close()
    for name in ("text", "other.db"):
        assert "zehrava-gate" in cli(*FROM, str(tmp_path / name), "--url", sqlite_url, code=2).err
