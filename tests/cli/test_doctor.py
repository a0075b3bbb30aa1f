"""`indelible doctor`: green where all is well, and each red line can be reached."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
from collections import namedtuple
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from indelible import Ledger, migrate
from indelible.cli.doctor import postgres as doctor_postgres
from indelible.cli.doctor import sqlite as doctor_sqlite
from indelible.cli.doctor.command import check_clock, check_framework, check_python, check_skew
from indelible.errors import Misconfigured
from indelible.integrations.instrument import FRAMEWORKS
from tests.cli.asking import SOON, ask, await_end
from tests.cli.conftest import Cli, call
from tests.cli.test_events import change
from tests.stores.database import open_file


def verdicts(report: dict[str, Any]) -> dict[str, str]:
    return {check["name"]: check["verdict"] for check in report["checks"]}


@pytest.fixture
def private(ledger_url: str) -> str:
    """An empty ledger that nobody else may read."""
    if ledger_url.startswith("sqlite"):
        Path(ledger_url.removeprefix("sqlite:///")).chmod(0o600)
    return ledger_url


def test_a_ledger_in_order_is_green(cli: Cli, private: str) -> None:
    said = cli("doctor")
    assert said.out.endswith("All is well.\n")
    report = cli("doctor", "--json").json
    assert report["ok"] is True
    assert set(verdicts(report).values()) == {"ok"}
    assert {"Python", "clock", "durability", "schema", "effects in doubt", "abandoned effects"} <= set(verdicts(report))


def test_a_folder_without_a_ledger_is_fine_and_stays_empty(cli: Cli, tmp_path: Path) -> None:
    assert "none yet at .indelible/ledger.db" in cli("doctor").out
    assert list(tmp_path.iterdir()) == []
    assert "in memory" in cli("doctor", "--url", ":memory:").out


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", ["pipe", "circle"])
def test_81_what_is_no_file_at_the_place_of_the_database_is_refused(cli: Cli, tmp_path: Path, kind: str) -> None:
    """On a pipe it hung, for ever; of a link that leads to itself it said that all is well."""
    file = tmp_path / "odd.db"
    os.mkfifo(file) if kind == "pipe" else file.symlink_to(file)
    said = cli("doctor", "--url", f"sqlite:///{file}", code=None)
    assert said.code == 1
    assert ("is a pipe" if kind == "pipe" else "leads in a circle") in said.out
    assert "name a file" in said.out
    with pytest.raises(Misconfigured, match="name a file"):
        Ledger.open(f"sqlite:///{file}")
    assert cli("migrate", "--url", f"sqlite:///{file}", code=None).code != 0
    assert list(tmp_path.glob("odd.db*")) == [file]


def test_effects_in_doubt_are_counted(cli: Cli, ids: dict[str, str]) -> None:
    said = cli("doctor")
    assert "2 effects may have happened, and nobody has said" in said.out
    assert "→ indelible effects list --status in_doubt" in said.out
    assert verdicts(cli("doctor", "--json").json)["effects in doubt"] == "warn"


def test_abandoned_effects_are_counted(cli: Cli, private: str) -> None:
    with Ledger.open(private) as ledger:
        ledger.begin(call("slow"), lease=timedelta(microseconds=1))
        ledger.begin(call("steady"))
    said = cli("doctor").out
    assert "1 effect whose worker never reported" in said
    assert re.search(r"→ indelible effects show eff_\w+; .*indelible effects reconcile --app", said)


def test_the_durability_of_a_file_is_measured(cli: Cli, sqlite_url: str) -> None:
    Ledger.open(sqlite_url).close()
    assert "journal mode WAL, synchronous FULL" in cli("doctor", "--url", sqlite_url).out


def test_a_ledger_that_is_not_durable_is_red(cli: Cli, sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Ledger.open(sqlite_url).close()
    open_properly = Ledger.open

    def open_carelessly(*words: Any, **named: Any) -> Ledger:
        ledger = open_properly(*words, **named)
        store: Any = ledger._engine.store
        connect = store._connection

        def connect_carelessly() -> Any:
            connection = connect()
            connection.pragma("synchronous", 1)
            return connection

        store._connection = connect_carelessly
        return ledger

    monkeypatch.setattr(doctor_sqlite.Ledger, "open", open_carelessly)
    said = cli("doctor", "--url", sqlite_url, code=1)
    assert "synchronous NORMAL: an acknowledged commit may get lost" in said.out


def test_an_old_sqlite_is_told(cli: Cli) -> None:
    assert doctor_sqlite.check_library("3.51.3").verdict == "ok"
    old = doctor_sqlite.check_library("3.51.2")
    assert (old.verdict, old.fix) == ("warn", "pip install --upgrade apsw")
    assert "TRUNCATE" in old.says


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may enter."""
    folder = Path(tempfile.mkdtemp(prefix="indelible-test-", dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize(
    ("mode", "code", "says"),
    [
        (0o600, 0, "for nobody else"),
        (0o640, 0, "the group can read"),
        (0o644, 0, "the group and every user can read"),
        (0o666, 1, "the group and every user can change the record"),
    ],
)
def test_permissions(cli: Cli, open_folder: Path, mode: int, code: int, says: str) -> None:
    path = open_folder / "ledger.db"
    Ledger.open(f"sqlite:///{path}").close()
    path.chmod(mode)
    said = cli("doctor", "--url", f"sqlite:///{path}", code=code)
    assert f"{mode:04o}" in said.out
    assert says in said.out
    assert (f"→ chmod 600 {path}*" in said.out) == (mode != 0o600)
    open_folder.chmod(0o700)
    assert "for nobody else" in cli("doctor", "--url", f"sqlite:///{path}").out


Room = namedtuple("Room", "total used free")


@pytest.mark.parametrize(("free", "code"), [(10**10, 0), (10**8, 0), (10**6, 1)])
def test_free_disk(cli: Cli, monkeypatch: pytest.MonkeyPatch, free: int, code: int) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Room(10**11, 0, free))
    assert ("→ free some room" in cli("doctor", code=code).out) == (free < 10**9)


def test_a_ledger_of_a_newer_version_is_red(cli: Cli, private: str) -> None:
    sql = "INSERT INTO indelible_migrations SELECT 99, 'later', applied_at FROM indelible_migrations LIMIT 1"
    change(private, sql)
    said = cli("doctor", code=1)
    assert re.search(r"→ (upgrade Indelible|pip install --upgrade indelible)", said.out)


def test_a_file_that_is_no_database_is_red(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "notes.db").write_text("not a database, however long one looks at it\n" * 100)
    assert "is not a sound SQLite database" in cli("doctor", "--url", "notes.db", code=1).out


def test_a_held_write_lock_is_red(cli: Cli, sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Ledger.open(sqlite_url).close()
    monkeypatch.setattr(doctor_sqlite, "LOCK_PATIENCE", 0.1)
    with Path(sqlite_url.removeprefix("sqlite:///") + "-lock").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        said = cli("doctor", "--url", sqlite_url, code=1)
    assert "another process has held the write lock" in said.out
    assert "fuser -v" in said.out


def test_what_this_user_may_not_do_is_red(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}").close()
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may do everything
    assert "this user cannot write" in cli("doctor", "--url", "ledger.db", code=1).out
    said = cli("doctor", "--url", "new/ledger.db", code=1)
    assert f"{tmp_path} cannot be written" in said.out


@pytest.mark.usefixtures("without_writer_keys")
def test_effects_from_the_future_are_told(cli: Cli, sqlite_url: str) -> None:
    with Ledger.open(sqlite_url) as ledger:
        ledger.run(call("t"), lambda effect: None)
    connection = open_file(sqlite_url)
    connection.execute("UPDATE indelible_effects SET updated_at = updated_at + 3600000000")
    connection.close()
    assert "which is still to come" in cli("doctor", "--url", sqlite_url).out


def test_clocks_and_interpreters() -> None:
    now = datetime(2027, 1, 1, tzinfo=UTC)
    assert check_clock(now).verdict == "ok"
    assert check_clock(datetime(1970, 1, 1, tzinfo=UTC)).verdict == "bad"
    assert check_skew(now, now + timedelta(seconds=1)).verdict == "ok"
    assert check_skew(now, now - timedelta(seconds=5)).verdict == "warn"
    assert check_python((3, 11, 0)).verdict == "ok"
    assert check_python((3, 10, 9)).verdict == "bad"


def test_a_framework_of_an_unknown_version_is_told_with_the_line_that_installs_a_known_one() -> None:
    (mcp,) = [known for known in FRAMEWORKS if known.name == "MCP"]
    assert check_framework(mcp, "2.3.0").verdict == "ok"
    newer = check_framework(mcp, "3.1.0")
    assert (newer.verdict, newer.fix) == ("warn", 'pip install "mcp>=2.3,<3"')


def test_a_server_without_a_schema_is_red_and_migrate_mends_it(cli: Cli, postgres_url: str) -> None:
    said = cli("doctor", "--url", postgres_url, code=1)
    assert "→ indelible migrate --url" in said.out
    cli("migrate", "--url", postgres_url)
    said = cli("doctor", "--url", postgres_url)
    assert re.search(r"server +PostgreSQL \d", said.out)
    assert re.search(r"durability +single: ", said.out)


def test_a_server_that_forgets_is_red(cli: Cli, postgres_url: str) -> None:
    migrate(postgres_url)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        name = connection.info.dbname
        connection.execute(f'ALTER DATABASE "{name}" SET synchronous_commit = off'.encode())
    said = cli("doctor", "--url", postgres_url, code=1)
    assert "unsafe: a crash can lose commits" in said.out
    assert "→ set fsync and synchronous_commit to on" in said.out


def test_a_server_that_is_away_is_red(cli: Cli) -> None:
    said = cli("doctor", "--url", "postgresql://ana:s3cret@127.0.0.1:1/db", code=1)
    assert "cannot be reached" in said.out
    assert "s3cret" not in said.out
    report = cli("doctor", "--url", "postgresql://ana:s3cret@127.0.0.1:1/db", "--json", code=1)
    assert report.json["ok"] is False
    assert "s3cret" not in report.out


@pytest.mark.parametrize(
    ("grade", "verdict"), [("quorum", "ok"), ("single", "ok"), ("async", "warn"), ("unsafe", "bad")]
)
def test_grades(grade: str, verdict: str) -> None:
    check = doctor_postgres.check_durability({"grade": grade, "advice": "what it means; what to do"})
    assert (check.verdict, check.says, check.fix) == (verdict, f"{grade}: what it means", "what to do")


def test_an_unknown_grade_is_no_good_news() -> None:
    assert doctor_postgres.check_durability({"grade": "new"}).verdict == "bad"


def test_old_servers_and_poolers_are_told() -> None:
    assert doctor_postgres.check_server("13.4 (Debian)").verdict == "warn"
    assert doctor_postgres.check_server("18.1").verdict == "ok"
    [hint] = doctor_postgres.check_pooler("postgresql://host:6432/db")
    assert "pooler=transaction" in str(hint.fix)
    [told] = doctor_postgres.check_pooler("postgresql://host:6432/db?pooler=transaction")
    assert told.verdict == "ok"
    assert list(doctor_postgres.check_pooler("postgresql://host:5432/db")) == []


# ── approvals ────────────────────────────────────────────────────────────────────────────────────────────────────────


def checks(cli: Cli, code: int = 0) -> dict[str, dict[str, Any]]:
    return {check["name"]: check for check in cli("doctor", "--json", code=code).json["checks"]}


def test_approvals_that_wait_are_counted(cli: Cli, private: str) -> None:
    assert (checks(cli)["approvals"]["verdict"], checks(cli)["approvals"]["says"]) == ("ok", "none waits for a person")
    ask(private)
    found = checks(cli)
    assert (found["approvals"]["verdict"], found["approvals"]["fix"]) == ("warn", "indelible approvals list")
    assert found["approvals"]["says"] == "1 approval for a person to decide"
    assert "late approvals" not in found


def test_approvals_past_their_end_that_nobody_attends_to_are_told(cli: Cli, private: str) -> None:
    late = ask(private, policy=SOON)
    await_end(private, late)
    found = checks(cli)
    assert found["approvals"]["verdict"] == "ok"
    assert (found["late approvals"]["verdict"], found["late approvals"]["fix"]) == ("warn", "indelible worker")
    assert found["late approvals"]["says"].startswith("1 approval past the end")


@pytest.mark.usefixtures("without_writer_keys")
def test_messages_that_do_not_go_out_are_told(cli: Cli, private: str) -> None:
    assert checks(cli)["messages"]["verdict"] == "ok"
    rule = {"name": "r", "match": {"tool": "*"}, "then": "ask", "approvals": {"notify": ["slack", "mail"]}}
    ask(private, policy={"rules": [rule]})
    assert checks(cli)["messages"]["verdict"] == "ok"  # it is only just due
    aged = "datetime" if private.startswith("postgres") else "number"
    earlier = {"datetime": "due_at - interval '1 hour'", "number": "due_at - 3600000000"}[aged]
    change(private, f"UPDATE indelible_sheets SET due_at = {earlier} WHERE kind = 'delivery'")
    found = checks(cli)["messages"]
    assert (found["verdict"], found["fix"]) == ("warn", "indelible worker --channels FILE")
    assert found["says"].startswith("2 messages not sent for more than a minute")
    change(private, "UPDATE indelible_sheets SET status = 'dead', due_at = NULL WHERE kind = 'delivery'")
    found = checks(cli)["messages"]
    assert (found["verdict"], found["says"]) == ("warn", "2 messages given up")
    assert "indelible channels deliveries --status dead" in found["fix"]


def test_the_policy_in_force_is_named(cli: Cli, private: str) -> None:
    assert checks(cli)["policy"]["says"].startswith("none in the ledger")
    with Ledger.open(private) as ledger:
        version = ledger.apply_policy(SOON, by="ana")
    assert version[:16] in checks(cli)["policy"]["says"]


def test_a_policy_that_cannot_be_read_is_red(cli: Cli, private: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ledger, "policy", lambda self: ({"rules": [{"nope": 1}]}, "0" * 64))
    found = checks(cli, code=1)["policy"]
    assert found["verdict"] == "bad"
    assert "every call is refused" in found["says"]
    assert found["fix"] == "indelible policy apply FILE"


# ── the journal ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_key_that_signs_and_what_is_sealed_are_told(cli: Cli, ids: dict[str, str]) -> None:
    cli("journal", "seal")
    checks = {check["name"]: check for check in cli("doctor", "--json").json["checks"]}
    assert checks["keys"]["verdict"] == checks["journal"]["verdict"] == "ok"
    assert "current.pem" in checks["keys"]["says"]
    assert "under a signed head" in checks["journal"]["says"]


@pytest.mark.usefixtures("own_keys")
def test_keys_that_others_can_read_are_a_problem_with_its_cure(
    cli: Cli, ids: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("INDELIBLE_KEYS", str(tmp_path / "keys"))
    cli("keys", "create")
    for folder in (tmp_path / "keys").iterdir():
        folder.chmod(0o755)
    (check,) = [check for check in cli("doctor", "--json", code=1).json["checks"] if check["name"] == "keys"]
    assert check["verdict"] == "bad"
    assert "chmod 700" in check["fix"]


def test_a_database_that_was_set_back_is_a_problem(cli: Cli, sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INDELIBLE_URL", sqlite_url)
    file = Path(sqlite_url.removeprefix("sqlite:///"))
    with Ledger.open(sqlite_url) as ledger:
        ledger.run(call("one"), lambda effect: 1)
    backup = file.read_bytes()
    with Ledger.open(sqlite_url) as ledger:
        ledger.run(call("two"), lambda effect: 2)
    for leftover in file.parent.glob(f"{file.name}*"):
        leftover.unlink()
    file.write_bytes(backup)
    (check,) = [check for check in cli("doctor", "--json", code=1).json["checks"] if check["name"] == "keys"]
    assert "set back" in check["says"]
    assert "journal continue" in check["fix"]
