"""`indelible migrate from agent-ledger`: what was done there is replayed here, nothing is lost, nothing repeated."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from indelible import Ledger, migrate, verify
from indelible.compat.agent_ledger import (
    EffectDeniedError,
    EffectFailedError,
    EffectInDoubtError,
    EffectLedger,
    EffectLedgerError,
    EffectLedgerOptions,
    EffectTimeoutError,
    LedgerStore,
    ResourceDescriptor,
    ToolCall,
    canonicalize,
    compute_idem_key,
    resource_id_canonical,
)
from indelible.compat.agent_ledger.types import ConcurrencyOptions, LedgerDefaults, RunOptions
from indelible.migrating import agent_ledger
from tests.cli.conftest import Cli, cli
from tests.journal.exported import key_of

__all__ = ["cli"]

# The columns of its table, in 0.1.1 and in 0.2.1.
MADE_THERE = """
    CREATE TABLE effects (
        id UUID PRIMARY KEY, idem_key TEXT NOT NULL UNIQUE, workflow_id TEXT NOT NULL, call_id TEXT NOT NULL,
        tool TEXT NOT NULL, status TEXT NOT NULL, args_canonical TEXT NOT NULL, resource_id_canonical TEXT NOT NULL,
        result JSONB, error JSONB, dedup_count INTEGER NOT NULL DEFAULT 0,
        created_at TIMESTAMPTZ NOT NULL, updated_at TIMESTAMPTZ NOT NULL, completed_at TIMESTAMPTZ
    )"""
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
CHARGE = ToolCall(workflow_id="order-1", tool="charge", args={"amount": 5, "note": "é"})
DECLINED = ToolCall(workflow_id="order-1", tool="charge", args={"amount": 6})
DENIED = ToolCall(workflow_id="order-2", tool="deploy", args={})
CANCELED = ToolCall(workflow_id="order-2", tool="deploy", args={"image": "old"})
RUNNING = ToolCall(workflow_id="order-3", tool="mail", args={"to": "ana"})
ASKED = ToolCall(workflow_id="order-4", tool="deploy", args={"image": "app:v2"})
READY = ToolCall(workflow_id="order-4", tool="deploy", args={"image": "app:v3"})
ISSUE = ToolCall(workflow_id="t-1", tool="issue", args={"title": "Bug", "body": "x"}, idempotency_keys=["title"])
THING = ToolCall(
    workflow_id="t-1",
    tool="close",
    args={"why": "done"},
    resource=ResourceDescriptor(namespace="n", type="t", id={"i": 1}),
)
CALLS: list[tuple[ToolCall, str, Any, Any]] = [
    (CHARGE, "succeeded", {"id": "ch_1", "parts": [1, 2.5]}, None),
    (DECLINED, "failed", None, {"message": "declined", "code": "card"}),
    (DENIED, "denied", None, {"message": "not today"}),
    (CANCELED, "canceled", None, None),
    (RUNNING, "processing", None, None),
    (ASKED, "requires_approval", None, None),
    (READY, "ready", None, None),
    (ISSUE, "succeeded", 7, None),
    (THING, "succeeded", None, None),
]


def insert(
    connection: psycopg.Connection[Any],
    call: ToolCall,
    status: str,
    result: Any,
    error: Any,
    odd: Mapping[str, Any] | None = None,
) -> None:
    """Puts a row into its table as its store does."""
    resource = call.tool if call.resource is None else resource_id_canonical(call.resource)
    row = {
        "id": uuid.uuid4(),
        "idem_key": compute_idem_key(call),
        "workflow_id": call.workflow_id,
        "call_id": str(uuid.uuid4()),
        "tool": call.tool,
        "status": status,
        "args_canonical": canonicalize(dict(call.args)),
        "resource_id_canonical": resource,
        "result": None if result is None else Jsonb(result),
        "error": None if error is None else Jsonb(error),
        "created_at": NOON,
        "updated_at": NOON + timedelta(seconds=1),
        "completed_at": NOON + timedelta(seconds=1) if status == "succeeded" else None,
        **(odd or {}),
    }
    names = ", ".join(row)
    marks = ", ".join(f"%({name})s" for name in row)
    connection.execute(f"INSERT INTO effects ({names}) VALUES ({marks})", row)


@pytest.fixture
def source(postgres_url: str) -> Iterator[psycopg.Connection[Any]]:
    """Its database, with an effect in every state."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(MADE_THERE)
        for call, status, result, error in CALLS:
            insert(connection, call, status, result, error)
        yield connection


@pytest.fixture
def here(store_url: str, source: Any) -> str:
    """An empty ledger, in a file or beside its table."""
    migrate(store_url)
    return store_url


def the_face(url: str) -> EffectLedger[Any]:
    patience = ConcurrencyOptions(effect_timeout_s=0.02, approval_timeout_s=0.02)
    defaults = LedgerDefaults(run=RunOptions(concurrency=patience))
    return EffectLedger(EffectLedgerOptions(store=LedgerStore(url), key_scheme="agent-ledger", defaults=defaults))


def test_every_effect_becomes_what_it_was_and_replays(here: str, postgres_url: str, cli: Cli, tmp_path: Path) -> None:
    said = cli("migrate", "from", "agent-ledger", postgres_url, "--url", here, "--json").json
    assert said["became"] == {
        "succeeded": 3,
        "failed": 1,
        "denied": 1,
        "canceled": 1,
        "in_doubt": 1,
        "requires_approval": 2,
    }
    assert said["left_out"] == []
    assert any("taken at its word" in line for line in said["not_verified"])
    entered: list[str] = []

    async def handler(effect: Any) -> str:
        entered.append(effect.tool)
        return "done again"

    async def outcome(face: EffectLedger[Any], call: ToolCall) -> Any:
        try:
            return await face.run(call, handler)
        except EffectLedgerError as error:
            return type(error), str(error)

    async def replay() -> list[Any]:
        face = the_face(here)
        other_body = ToolCall(**{**vars(ISSUE), "args": {"title": "Bug", "body": "other"}})
        found = [await outcome(face, call) for call, *_ in CALLS]
        found.append(await outcome(face, other_body))
        assert await face.approve(face.idem_key(ASKED), by="ana")
        found.append(await outcome(face, ASKED))
        face._store.close()
        return found

    charge, declined, denied, canceled, running, asked, ready, issue, thing, other, approved = asyncio.run(replay())
    assert (charge, issue, thing, other) == ({"id": "ch_1", "parts": [1, 2.5]}, 7, None, 7)
    assert declined == (EffectFailedError, "declined")
    assert denied == (EffectDeniedError, "not today")
    assert "canceled" in canceled[1]
    assert running[0] is EffectInDoubtError
    assert (asked[0], ready[0]) == (EffectTimeoutError, EffectTimeoutError)
    assert (approved, entered) == ("done again", ["deploy"])
    with Ledger.open(here, seal=True) as ledger:
        ledger.export(tmp_path / "bundle")
        (event,) = [one for one in ledger.events("order-3") if one.type == "tool_call_adopted"]
        assert event.read()["status"] == "in_doubt"
        by_hand = next(one for one in ledger.effects(run_id="order-1") if one.status == "succeeded")
        assert by_hand.id.startswith(f"eff_{int(NOON.timestamp() * 1000):012x}")
        report = verify(tmp_path / "bundle", key_of(ledger), deep=True)
    assert (report.verdict, report.flaw) == ("verified", None)


def test_twice_changes_nothing_and_what_happened_here_since_stays(here: str, postgres_url: str, cli: Cli) -> None:
    words = ("migrate", "from", "agent-ledger", postgres_url, "--url", here)
    assert "3  succeeded" in cli(*words).out
    with Ledger.open(here) as ledger:
        before = [len(ledger.events(f"order-{number}")) for number in range(1, 5)]
        doubtful = ledger.find_by_key(compute_idem_key(RUNNING))
        assert doubtful is not None
        ledger.retry(doubtful, by="ana")
    assert cli(*words, "--json").json["became"] == {"here already": 9}
    with Ledger.open(here) as ledger:
        again = [len(ledger.events(f"order-{number}")) for number in range(1, 5)]
        assert [after - was for was, after in zip(before, again, strict=True)] == [0, 0, 1, 0]  # the retry is all


def test_who_was_stopped_starts_again(
    here: str, source: Any, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_ledger, "_AT_ONCE", 2)
    told: list[tuple[int, int | None]] = []

    def stop(done: int, total: int | None) -> None:
        told.append((done, total))
        if done >= 4:
            raise KeyboardInterrupt

    with Ledger.open(here) as ledger:
        with pytest.raises(KeyboardInterrupt), agent_ledger.reading(postgres_url) as found:
            agent_ledger.take_over(ledger, found, progress=stop)
        assert 0 < len(ledger.effects()) < len(CALLS)
        with agent_ledger.reading(postgres_url) as found:
            taking = agent_ledger.take_over(ledger, found)
        assert len(ledger.effects()) == len(CALLS)
    assert taking.is_sound
    assert all(total == len(CALLS) for _, total in told)


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ({"status": "melted"}, "'melted' is not known"),
        ({"args_canonical": "{"}, "no JSON"),
        ({"args_canonical": "[1]"}, "mapping"),
        ({"idem_key": "short"}, "64 hexadecimal digits"),
        ({"workflow_id": "indelible:own"}, "belong to the ledger"),
        ({"tool": "no spaces"}, "tool name"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_what_has_no_place_is_named_and_the_rest_comes(
    postgres_url: str, source: Any, sqlite_url: str, cli: Cli, other: dict[str, Any], why: str
) -> None:
    odd = ToolCall(workflow_id="odd", tool="odd", args={})
    insert(source, odd, "succeeded", 1, None, other)
    said = cli("migrate", "from", "agent-ledger", postgres_url, "--url", sqlite_url, "--json", code=1).json
    ((name, told),) = [(one["name"], one["why"]) for one in said["left_out"]]
    assert why in told
    assert source.execute("SELECT id FROM effects WHERE id = %s", (name,)).fetchone() is not None
    assert said["became"]["succeeded"] == 3
    assert name in cli("migrate", "from", "agent-ledger", postgres_url, "--url", sqlite_url, code=1).out


def test_a_key_that_is_taken_here_is_left_out(postgres_url: str, source: Any, sqlite_url: str, cli: Cli) -> None:
    async def made_before() -> None:
        face = the_face(sqlite_url)

        async def handler(effect: Any) -> str:
            return "made here"

        await face.run(CHARGE, handler)
        face._store.close()

    asyncio.run(made_before())
    said = cli("migrate", "from", "agent-ledger", postgres_url, "--url", sqlite_url, "--json", code=1).json
    assert "its key belongs to eff_" in said["left_out"][0]["why"]
    with Ledger.open(sqlite_url) as ledger:
        found = ledger.find_by_key(compute_idem_key(CHARGE))
        assert found is not None
        assert found.detail == "made here"


def test_a_source_that_cannot_be_read_is_explained(postgres_url: str, sqlite_url: str, cli: Cli) -> None:
    words = ("migrate", "from", "agent-ledger")
    assert "--table" in cli(*words, postgres_url, "--url", sqlite_url, code=2).err
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("CREATE TABLE other (id UUID)")
    assert "not agent-ledger's" in cli(*words, postgres_url, "--url", sqlite_url, "--table", "other", code=2).err
    away = "postgresql://nobody:secret@127.0.0.1:1/x"
    said = cli(*words, away, "--url", sqlite_url, "--json", code=2)
    assert "cannot be read" in said.error["message"]
    assert "secret" not in json.dumps(said.error)


@pytest.mark.parametrize(
    "source",
    ["agent.db", "", "/", "host", "host=", "mysql://ana:s3cret@host/db", "postgresql://ana:s3cret@[/db", "port=x"],
)
def test_62_an_address_of_no_server_is_refused_with_the_next_step(
    sqlite_url: str, cli: Cli, tmp_path: Path, source: str
) -> None:
    (tmp_path / "agent.db").write_bytes(b"SQLite format 3")
    said = cli("migrate", "from", "agent-ledger", source, "--url", sqlite_url, "--json", code=2)
    assert said.error["type"] == "Misconfigured"
    assert "postgresql://user@host/database" in said.error["message"]
    assert "s3cret" not in said.out + said.err


def test_62_a_table_that_cannot_be_read_to_its_end_is_refused(postgres_url: str, sqlite_url: str, cli: Cli) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        named = ", 1 AS ".join(agent_ledger.COLUMNS)
        connection.execute(f"CREATE VIEW effects AS SELECT 1 / (random() * 0)::int AS {named}".encode())
    said = cli("migrate", "from", "agent-ledger", postgres_url, "--url", sqlite_url, "--json", code=2)
    assert said.error["type"] == "Misconfigured"
