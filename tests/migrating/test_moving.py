"""`indelible migrate to`: a ledger goes on at another database as if it had always been there."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

import indelible
from indelible import AwaitingApproval, Claimed, Ledger, Succeeded, ToolCall
from indelible.core.ports import Filter
from indelible.errors import IllegalMove, Misconfigured, SignerRefused, Stopped, StoreError
from indelible.migrating.moving import move
from indelible.stores import open_store
from indelible.stores.carrying import TABLES, Row, carry
from indelible.stores.sqlite.carrying import SqliteRows, carrying_in, carrying_out
from tests.cli.conftest import Cli, cli
from tests.journal.exported import call, key_of, store_of, work
from tests.stores.database import Database

__all__ = ["cli"]

WAITING = ToolCall(tool="wire.transfer", args={"iban": "DE02", "cents": 7}, run_id="order-3")


@pytest.fixture(params=["sqlite", "postgres"])
def ends(request: pytest.FixtureRequest, sqlite_url: str, postgres_url: str) -> tuple[str, str]:
    """A ledger's old address and its new one, both ways."""
    return (sqlite_url, postgres_url) if request.param == "sqlite" else (postgres_url, sqlite_url)


@pytest.fixture
def keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "keys"
    monkeypatch.setenv("INDELIBLE_KEYS", str(folder))
    return folder


def filled(url: str, tenant: str = "default") -> tuple[str, bytes]:
    """Leaves something of everything, and gives the auditor's key and the head that they keep."""
    indelible.migrate(url)
    with Ledger.open(url, tenant=tenant, seal=True) as ledger:
        work(ledger)
        assert isinstance(ledger.begin(WAITING, approval="required"), AwaitingApproval)
        run = ledger.start_run("order-4", agent="billing")
        run.checkpoint({"next": "mail"})
        run.release()
        head = ledger.seal()
        assert head is not None
        return key_of(ledger), str(head).encode()


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_every_column_of_every_table_is_carried(kind: str, sqlite_url: str, postgres_url: str) -> None:
    url = sqlite_url if kind == "sqlite" else postgres_url
    indelible.migrate(url)
    own = {"only_row", "awaited"}
    with Database(url) as database:
        there = {name: set(columns) - own for name, columns in database.tables().items()}
    del there["indelible_migrations"]
    assert there == {f"indelible_{name}": set(columns) for name, columns in TABLES.items()}


def test_a_moved_ledger_goes_on_where_it_is_now(ends: tuple[str, str], keys: Path, cli: Cli, tmp_path: Path) -> None:
    old, new = ends
    key, head = filled(old)
    filled(old, "globex")
    said = cli("migrate", "to", new, "--url", old).out
    assert "each compared" in said
    assert "journal of globex" in said
    with Ledger.open(new, seal=True) as ledger:
        assert ledger.run(call("wire.transfer", amount=10), no_handler, approval="required", side_effect="write") == {
            "id": "wt_9"
        }
        (asked,) = ledger.approvals(status="pending")
        ledger.approve(asked, digest=asked.digest, by="ana")
        assert ledger.run(WAITING, lambda effect: "sent", approval="required") == "sent"
        assert ledger.resume_run("order-4").context.state == {"next": "mail"}
        ledger.export(tmp_path / "bundle")
    report = indelible.verify(tmp_path / "bundle", key, after=[head])
    assert report.verdict == "verified", report.flaw
    assert cli("verify", "--url", new, "--key", key).code == 0
    with Ledger.open(old, seal=False) as left:
        assert store_of(left).journal.waiting("default") == 0, "or both places could take them in, in two orders"
        with pytest.raises(Stopped, match="moved to"):
            left.run(call("note.write", "order-9"), no_handler)


def no_handler(effect: object) -> None:
    raise AssertionError("this was done before, or must not be done")


def test_a_stop_of_somebody_else_holds_at_the_new_place_too(ends: tuple[str, str], keys: Path) -> None:
    old, new = ends
    filled(old)
    with Ledger.open(old, seal=False) as ledger:
        ledger.stop(by="ana", reason="wrong prices")
    move(old, new, by="ben")
    with Ledger.open(new, seal=False) as ledger:
        stop = ledger.stopped()
        assert stop is not None
        assert (stop.by, stop.reason) == ("ana", "wrong prices")


def test_while_a_handler_may_be_at_work_nothing_moves(ends: tuple[str, str], keys: Path) -> None:
    old, new = ends
    indelible.migrate(old)
    with Ledger.open(old, seal=False) as ledger:
        begun = ledger.begin(call("stripe.refund"))
        assert isinstance(begun, Claimed)
        with pytest.raises(IllegalMove, match=r"stripe\.refund"):
            move(old, new, by="ana")
        assert ledger.stopped() is None
        ledger.commit(begun.claim, Succeeded("done"))
    move(old, new, by="ana")
    with Ledger.open(new, seal=False) as ledger:
        assert ledger.run(call("stripe.refund"), no_handler) == "done"


def test_a_place_that_is_taken_is_left_as_it_is(ends: tuple[str, str], keys: Path, cli: Cli) -> None:
    old, new = ends
    filled(old)
    indelible.migrate(new)
    with Ledger.open(new, seal=False) as ledger:
        ledger.run(call("note.write"), lambda effect: "mine")
    with pytest.raises(Misconfigured, match="holds a ledger already"):
        move(old, new, by="ana")
    with Ledger.open(old, seal=False) as ledger:
        assert ledger.stopped() is None
    with Ledger.open(new, seal=False) as ledger:
        assert [effect.tool for effect in ledger.effects()] == ["note.write"]
    assert "is this ledger already" in cli("migrate", "to", old, "--url", old, code=2).err
    assert "is a server" in cli("migrate", "to", "https://ledger.example", "--url", old, code=2).err


KILLED = """
import os, signal, sys
from indelible.migrating.moving import move
move(sys.argv[1], sys.argv[2], by="ana", progress=lambda done, total: os.kill(os.getpid(), signal.SIGKILL))
"""


def test_whoever_is_killed_before_the_end_does_it_again(ends: tuple[str, str], keys: Path) -> None:
    old, new = ends
    filled(old)
    assert subprocess.run([sys.executable, "-c", KILLED, old, new], check=False).returncode == -signal.SIGKILL
    store = open_store(new, wakeups=False)
    assert store.effects("default", Filter()) == []
    store.close()
    move(old, new, by="ana")
    with Ledger.open(new, seal=False) as ledger:
        assert ledger.stopped() is None
        assert len(ledger.effects()) > 5
    with pytest.raises(Misconfigured, match="move it from there"):
        move(old, f"sqlite:///{keys.parent / 'third.db'}", by="ana")


class Careless(SqliteRows):
    """Loses the last row of a table, as a driver with a fault might."""

    def write(self, table: str, rows: Iterable[Row]) -> None:
        kept = list(rows)
        super().write(table, kept[:-1] if table == "payloads" else kept)


def test_what_does_not_arrive_as_it_was_sent_is_not_kept(sqlite_url: str, keys: Path, tmp_path: Path) -> None:
    filled(sqlite_url)
    new = str(tmp_path / "new.db")
    indelible.migrate(f"sqlite:///{new}")
    with (
        pytest.raises(StoreError, match="indelible_payloads did not arrive"),
        carrying_out(sqlite_url.removeprefix("sqlite:///")) as rows,
        carrying_in(new) as empty,
    ):
        carry(rows, Careless(empty._connection), lambda done, total: None)
    with carrying_out(new) as left:
        assert left.tenants() == []


def test_nothing_is_signed_where_a_ledger_was(sqlite_url: str, keys: Path, cli: Cli, tmp_path: Path) -> None:
    new = f"sqlite:///{tmp_path / 'new.db'}"
    key, _ = filled(sqlite_url)
    with Ledger.open(sqlite_url, seal=True) as left:
        move(sqlite_url, new, by="ana")
        heads = store_of(left).journal.heads("default", 100)
        with pytest.raises(SignerRefused, match="moved to"):
            left.seal()
        with Ledger.open(new, seal=True) as ledger:
            assert ledger.run(call("note.write", "order-8"), lambda effect: "written") == "written"
        with pytest.raises(SignerRefused, match="moved to"):
            left.continue_journal()
        for command in (["seal"], ["continue", "--yes"], ["continue", "--dry-run"]):
            assert "moved to" in cli("journal", *command, "--url", sqlite_url, code=None).err
        assert store_of(left).journal.heads("default", 100) == heads
    with Ledger.open(new, seal=True) as ledger:
        assert ledger.stopped() is None
        assert ledger.run(call("note.write", "order-9"), lambda effect: "written") == "written"
    assert cli("verify", "--url", new, "--key", key).code == 0


def test_nothing_is_recorded_where_a_ledger_was(
    ends: tuple[str, str], keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indelible.stores.postgres.store._LOOK_EVERY", 0.0)  # as five seconds later
    old, new = ends
    filled(old)
    with Ledger.open(old, seal=False) as left:
        left.run(call("note.write", "order-5"), lambda effect: "written")
        doubted = left.effects(status="in_doubt")[0]
        (asked,) = left.approvals(status="pending")
        run = left.start_run("order-6", agent="billing")
        move(old, new, by="ana")
        tree = store_of(left).journal.tree("default")
        attempts: list[Callable[[], object]] = [
            lambda: left.record("order-5", "acme.noted", {"a": 1}),
            lambda: run.record("acme.noted", 1),
            lambda: run.checkpoint({"next": "mail"}),
            lambda: left.settle(doubted, Succeeded(1), by="ana", evidence="seen"),
            lambda: left.approve(asked.id, digest=asked.digest, by="ana"),
            lambda: left.start_run("order-7", agent="billing"),
            lambda: left.resume_run("order-4"),
            lambda: left.erase(run_id="order-5", by="ana", reason="asked"),
        ]
        for attempt in attempts:
            with pytest.raises(IllegalMove, match="moved to"):
                attempt()
        assert store_of(left).journal.waiting("default") == 0
        assert store_of(left).journal.tree("default") == tree
        assert doubted in left.effects(status="in_doubt")
    with Ledger.open(new, seal=False) as ledger:
        ledger.settle(doubted.id, Succeeded(1), by="ana", evidence="seen")
        assert ledger.record("order-5", "acme.noted", {"a": 1}).status == "recorded"


def test_60_no_policy_is_applied_where_a_ledger_was(ends: tuple[str, str], keys: Path) -> None:
    """It was accepted, and said to be in force, and nothing came of it where calls are made."""
    old, new = ends
    filled(old)
    move(old, new, by="ana")
    with Ledger.open(old, seal=False) as left:
        before = left.policy()
        with pytest.raises(IllegalMove, match=r"moved to .*Do it there"):
            left.apply_policy({"rules": [{"name": "all", "then": "refuse"}]}, by="ana")
        assert left.policy() == before
