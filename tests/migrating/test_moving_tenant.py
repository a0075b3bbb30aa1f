"""`indelible migrate to --tenant`: one tenant goes on at another ledger, among the tenants that are there."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

import indelible
from indelible import Actor, Claimed, Ledger, Succeeded, ToolCall
from indelible.core.moving import is_moved_away, moved_to
from indelible.engine.stops import Stops
from indelible.engine.upkeep import Upkeep
from indelible.errors import IllegalMove, KeyUnusable, Misconfigured, SchemaOutdated, SignerRefused, Stopped, StoreError
from indelible.journal.evidence.live import LiveEvidence
from indelible.journal.evidence.verification import verify
from indelible.journal.exports.exporting import save_receipt
from indelible.journal.keys.ring import KeyRing
from indelible.journal.keys.writers import VARIABLE
from indelible.journal.sealing import Sealer
from indelible.journal.sealing_thread import BEAT_EVERY
from indelible.migrating.moving import move, move_tenant
from indelible.stores import secure_rows
from indelible.stores.carrying import OF_TENANTS, TABLES, Row, carry_tenant
from indelible.stores.sqlite.carrying import SqliteRows, carrying_out, taking_in
from tests.cli.conftest import Cli, cli
from tests.journal.exported import call, key_of, store_of
from tests.journal.test_set_back import Backup
from tests.lending import lend_writer_keys, lent_folder
from tests.migrating.test_moving import WAITING, filled, keys, no_handler
from tests.postgres import fresh_database
from tests.stores.database import Database

__all__ = ["cli", "keys"]

EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


@pytest.fixture(params=["sqlite to postgres", "postgres to postgres", "postgres to sqlite"])
def ends(request: pytest.FixtureRequest, sqlite_url: str, postgres_url: str) -> Iterator[tuple[str, str]]:
    """A tenant's old address and its new one."""
    match request.param:
        case "sqlite to postgres":
            yield sqlite_url, postgres_url
        case "postgres to sqlite":
            yield postgres_url, sqlite_url
        case _:
            with fresh_database(request.getfixturevalue("postgres_server_url")) as other:
                yield postgres_url, other


@pytest.fixture
def files(tmp_path: Path, keys: Path) -> tuple[str, str]:
    """Two files, each with a ledger of its own, for what no store has a part in."""
    one, other = (f"sqlite:///{tmp_path / name}.db" for name in ("one", "other"))
    indelible.migrate(one)
    indelible.migrate(other)
    return one, other


def rows_of(url: str, tenant: str) -> dict[str, set[Row]]:
    """Reads every row of a tenant, past the store, in a form that both databases share."""
    with Database(url) as database:
        read = "SELECT {} FROM indelible_{} WHERE tenant = ?"
        return {
            table: {
                tuple(map(_plain, row)) for row in database.run(read.format(", ".join(TABLES[table]), table), (tenant,))
            }
            for table in OF_TENANTS
        }


def _plain(value: Any) -> Any:
    return (value - EPOCH) // timedelta(microseconds=1) if isinstance(value, datetime) else value


def done(ledger: Ledger, run_id: str) -> object:
    return ledger.run(call("note.write", run_id), lambda effect: "written")


def go_on(url: str, tenant: str = "acme") -> None:
    """Sees to it that effects of the tenant run at this place, and nothing of what was done is done again."""
    with Ledger.open(url, tenant=tenant, seal=False) as ledger:
        value = ledger.run(call("wire.transfer", amount=10), no_handler, approval="required", side_effect="write")
        assert value == {"id": "wt_9"}
        assert done(ledger, f"order-{len(ledger.effects()) + 50}") == "written"


def is_stopped_at(url: str, tenant: str = "acme") -> bool:
    with Ledger.open(url, tenant=tenant, seal=False) as ledger:
        return ledger.stopped() is not None


def test_a_moved_tenant_goes_on_where_it_is_now(ends: tuple[str, str], keys: Path, cli: Cli, tmp_path: Path) -> None:
    old, new = ends
    key, head = filled(old, "acme")
    globex, initech = filled(old, "globex")[0], filled(new, "initech")[0]
    others = rows_of(old, "globex"), rows_of(new, "initech")
    before = rows_of(old, "acme")
    waiting_there = Ledger.open(new, tenant="acme", seal=True)  # before the tenant is there
    assert waiting_there.effects() == []
    sealer, name = waiting_there._engine.notary.sealer(), key.partition("+")[0]
    assert sealer.origin == waiting_there.journal_name != name

    said = cli("migrate", "to", new, "--url", old, "--tenant", "acme", "--dry-run").out
    assert f"{sum(map(len, before.values()))} rows. Nothing was changed" in said
    assert rows_of(old, "acme") == before
    moved = cli("migrate", "to", new, "--url", old, "--tenant", "acme", "--json").json
    left, here = rows_of(old, "acme"), rows_of(new, "acme")
    assert moved["rows"] == {table: len(rows) for table, rows in left.items()}
    assert here["effects"] == left["effects"] == before["effects"]
    for table in ("events", "payloads", "leaves", "heads"):
        assert here[table] > left[table], table
    assert (rows_of(old, "globex"), rows_of(new, "initech")) == others
    assert not any(rows_of(new, "globex").values())

    assert sealer.origin == waiting_there.journal_name == name
    with waiting_there as ledger:
        value = ledger.run(call("wire.transfer", amount=10), no_handler, approval="required", side_effect="write")
        assert value == {"id": "wt_9"}
        (asked,) = ledger.approvals(status="pending")
        ledger.approve(asked, digest=asked.digest, by="ana")
        assert ledger.run(WAITING, lambda effect: "sent", approval="required") == "sent"
        assert ledger.resume_run("order-4").context.state == {"next": "mail"}
        ledger.export(tmp_path / "bundle")
    report = indelible.verify(tmp_path / "bundle", key, after=[head])
    assert report.verdict == "verified", report.flaw
    for place, tenant, pinned in (
        (new, "acme", key),
        (new, "initech", initech),
        (old, "globex", globex),
        (old, "acme", key),
    ):
        assert cli("verify", "--url", place, "--tenant", tenant, "--key", pinned).code == 0
    assert cli("keys", "export-public", "--url", new, "--tenant", "acme").out.partition("+")[0] == name
    with Ledger.open(old, tenant="acme", seal=False) as ledger:
        assert store_of(ledger).journal.waiting("acme") == 0, "or both places could take them in, in two orders"
        with pytest.raises(Stopped, match="moved to"):
            ledger.run(call("note.write", "order-9"), no_handler)
    for place, tenant in ((old, "globex"), (new, "initech")):
        go_on(place, tenant)


def test_a_tenant_comes_back_to_where_it_was(sqlite_url: str, postgres_url: str, keys: Path, tmp_path: Path) -> None:
    one, other = sqlite_url, postgres_url
    key, head = filled(one, "acme")
    filled(one, "globex")
    filled(other, "globex")
    others = rows_of(one, "globex"), rows_of(other, "globex")
    for old, new in ((one, other), (other, one), (one, other), (other, one)):
        move_tenant(old, new, "acme", by="ana")
        assert is_stopped_at(old)
        go_on(new)
    assert (rows_of(one, "globex"), rows_of(other, "globex")) == others
    with Ledger.open(one, tenant="acme") as ledger:
        ledger.rotate_keys()
        ledger.export(tmp_path / "bundle")
    assert indelible.verify(tmp_path / "bundle", key, after=[head]).verdict == "verified"


def test_22_whoever_pinned_a_key_between_moves_verifies_parts_too(
    sqlite_url: str, postgres_url: str, keys: Path, tmp_path: Path
) -> None:
    pinned, verdicts = [filled(sqlite_url, "acme")[0]], {}
    filled(postgres_url, "globex")
    where = sqlite_url
    for number in range(3):
        old, where = where, (postgres_url, sqlite_url)[number % 2]
        move_tenant(old, where, "acme", by="ana")
        with Ledger.open(where, tenant="acme", seal=False) as ledger:
            done(ledger, f"order-{number}")
            ledger.seal()
            pinned.append(ledger._engine.notary.signer().keys(store_of(ledger).origin("acme"))[0].vkey)
            run, one = tmp_path / f"{number}.zip", tmp_path / f"{number}.tlog-proof"
            ledger.export(run, run_id=f"order-{number}")
            (event, *_) = ledger.events(f"order-{number}")
            save_receipt(ledger.receipt(event), one)
            for path in (run, one):
                verdicts |= {(path.name, key): indelible.verify(path, key).verdict for key in pinned}
            for key in pinned:
                report = verify(LiveEvidence(store_of(ledger), "acme"), [key])
                assert report.verdict == "verified", (number, pinned.index(key), report.why)
    assert pinned[0] == pinned[2] != pinned[1] == pinned[3]
    assert set(verdicts.values()) == {"verified"}, verdicts


def test_65_the_writer_keys_of_a_moved_tenant_are_used_at_once_and_can_be_exported(
    store_url: str, keys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = f"sqlite:///{tmp_path / 'one.db'}", store_url
    for url in (one, other):
        indelible.migrate(url)
    filled(one, "acme")
    with Ledger.open(other, tenant="acme", seal=False) as ledger:  # before the tenant is there
        assert ledger.effects() == []
        move_tenant(one, other, "acme", by="ana")
        assert done(ledger, "order-60") == "written"
        lend_writer_keys(monkeypatch, ledger)
    with Ledger.open(other, tenant="acme", seal=False, keys=tmp_path / "none") as ledger:
        assert done(ledger, "order-61") == "written"
    monkeypatch.delenv(VARIABLE)
    go_on(other)
    with Ledger.open(other, tenant="acme", seal=True) as ledger:
        assert ledger.seal() is not None
        assert ledger.stopped() is None


def test_nothing_is_added_to_what_a_tenant_left_behind(files: tuple[str, str], keys: Path, cli: Cli) -> None:
    old, new = files
    filled(old, "acme")
    filled(old, "globex")
    move_tenant(old, new, "acme", by="ana")
    left = rows_of(old, "acme")
    told: list[object] = []
    with Ledger.open(old, tenant="globex") as ledger:
        ledger.rotate_keys()
        upkeep = Upkeep(ledger, lambda: ["acme", "globex"], tell=lambda *words: told.append(words))
        upkeep.go(0.0)
        upkeep.go(BEAT_EVERY.total_seconds())
        assert upkeep.tenants == list(upkeep.sizes) == ["globex"], "the other one is not even looked at"
    with Ledger.open(old, tenant="acme", seal=False) as ledger:
        ledger._engine.notary.sealer().heartbeat()
    assert rows_of(old, "acme") == left
    assert told == []
    assert "was moved to" in cli("doctor", "--url", old, "--tenant", "acme", code=None).out


def test_one_tenant_of_a_ledger_that_moved_whole_can_go_back_alone(files: tuple[str, str], keys: Path) -> None:
    old, new = files
    filled(old, "acme")
    filled(old, "globex")
    move(old, new, by="ana")
    move_tenant(new, old, "acme", by="ana")
    assert [is_stopped_at(old), is_stopped_at(new)] == [False, True]
    assert [is_stopped_at(old, "globex"), is_stopped_at(new, "globex")] == [True, False]
    third = f"sqlite:///{keys.parent / 'third.db'}"
    move(new, third, by="ana")
    assert [is_stopped_at(third, tenant) for tenant in ("acme", "globex")] == [True, False]
    with Ledger.open(third, tenant="acme", seal=False) as ledger, pytest.raises(Stopped, match=r"one\.db"):
        ledger.run(call("note.write", "order-98"), no_handler)


def test_a_stop_of_somebody_else_holds_at_the_new_place_and_the_old_one_says_where_it_is(
    files: tuple[str, str], keys: Path
) -> None:
    old, new = files
    filled(old, "acme")
    with Ledger.open(old, tenant="acme", seal=False) as ledger:
        ledger.stop(by="ana", reason="wrong prices")
    move_tenant(old, new, "acme", by="ben")
    with Ledger.open(new, tenant="acme", seal=False) as ledger:
        stop = ledger.stopped()
        assert stop is not None
        assert (stop.by, stop.reason) == ("ana", "wrong prices")
        ledger.go(by="ana")
    go_on(new)
    with Ledger.open(old, tenant="acme", seal=False) as ledger:
        with pytest.raises(IllegalMove, match="Use it there"):
            ledger.go(by="ana")
        assert ledger.stopped() is not None
        Stops(ledger._engine, "acme").go(Actor("ana"), "in spite of all", is_forced=True)
        with pytest.raises(SignerRefused):
            ledger.seal()  # nobody gets two histories under one name


def test_only_effects_of_the_tenant_itself_keep_it_from_moving(files: tuple[str, str], keys: Path) -> None:
    old, new = files
    with Ledger.open(old, tenant="globex", seal=False) as other:
        assert isinstance(other.begin(call("stripe.refund")), Claimed)
        with Ledger.open(old, tenant="acme", seal=False) as ledger:
            begun = ledger.begin(call("stripe.refund"))
            assert isinstance(begun, Claimed)
            with pytest.raises(IllegalMove, match=r"1 of acme may be at work"):
                move_tenant(old, new, "acme", by="ana")
            assert ledger.stopped() is None
            ledger.commit(begun.claim, Succeeded("done"))
        move_tenant(old, new, "acme", by="ana")
    with Ledger.open(new, tenant="acme", seal=False) as ledger:
        assert ledger.run(call("stripe.refund"), no_handler) == "done"


def test_what_may_not_be_moved_stays_as_it_is(files: tuple[str, str], keys: Path, cli: Cli, tmp_path: Path) -> None:
    old, new = files
    filled(old, "acme")
    filled(new, "acme")
    before = rows_of(old, "acme"), rows_of(new, "acme")
    said = cli("migrate", "to", new, "--url", old, "--tenant", "acme", code=2).err
    assert "holds a tenant 'acme' already" in said
    nobody = cli("migrate", "to", new, "--url", old, "--tenant", "acne", code=2).err
    assert "holds nothing of the tenant 'acne'" in nobody
    missing = f"sqlite:///{tmp_path / 'missing.db'}"
    said = cli("migrate", "to", missing, "--url", old, "--tenant", "acme", code=2).err
    assert f"indelible migrate --url {missing}" in said
    assert not (tmp_path / "missing.db").exists()
    assert "is where acme is already" in cli("migrate", "to", old, "--url", old, "--tenant", "acme", code=2).err
    assert (rows_of(old, "acme"), rows_of(new, "acme")) == before


def test_a_place_of_another_schema_gets_no_tenant(sqlite_url: str, postgres_url: str, keys: Path) -> None:
    filled(sqlite_url, "acme")
    indelible.migrate(postgres_url)
    with Database(postgres_url) as database:
        database.run("DELETE FROM indelible_migrations WHERE number = (SELECT max(number) FROM indelible_migrations)")
    before = rows_of(sqlite_url, "acme")
    with pytest.raises(SchemaOutdated, match="indelible migrate"):
        move_tenant(sqlite_url, postgres_url, "acme", by="ana")
    assert rows_of(sqlite_url, "acme") == before


def test_rows_that_the_server_hides_are_not_taken_for_none(sqlite_url: str, postgres_url: str, keys: Path) -> None:
    filled(postgres_url, "acme")
    indelible.migrate(sqlite_url)
    secure_rows(postgres_url)
    role = f"plain_{urlsplit(postgres_url).path.rpartition('_')[2]}"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'plain' NOSUPERUSER NOBYPASSRLS")
        connection.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role}")
        parts = urlsplit(postgres_url)
        plain = urlunsplit(parts._replace(netloc=f"{role}:plain@{parts.netloc.rpartition('@')[2]}"))
        try:
            for ends in ((plain, sqlite_url), (sqlite_url, plain)):
                with pytest.raises(Misconfigured, match=r"rows of one tenant only.*BYPASSRLS"):
                    move_tenant(*ends, "acme", by="ana")
        finally:
            connection.execute(f"DROP OWNED BY {role}")
            connection.execute(f"DROP ROLE {role}")
    move_tenant(postgres_url, sqlite_url, "acme", by="ana")
    go_on(sqlite_url)


def test_others_go_on_while_a_tenant_is_carried(postgres_url: str, postgres_server_url: str, keys: Path) -> None:
    with fresh_database(postgres_server_url) as new:
        filled(postgres_url, "acme")
        indelible.migrate(new)
        worked = []

        def meanwhile(finished: int, total: int | None) -> None:
            for place, tenant in ((postgres_url, "globex"), (new, "initech")):
                with Ledger.open(place, tenant=tenant, seal=False) as ledger:
                    worked.append(done(ledger, f"order-{finished}"))

        move_tenant(postgres_url, new, "acme", by="ana", progress=meanwhile)
    assert worked
    assert set(worked) == {"written"}


def test_what_is_written_at_the_old_place_meanwhile_is_not_left_behind(files: tuple[str, str], keys: Path) -> None:
    old, new = files
    filled(old, "acme")

    def meanwhile(finished: int, total: int | None) -> None:
        with Ledger.open(old, tenant="acme", seal=False) as ledger:
            with pytest.raises(IllegalMove, match="nothing was recorded here"):
                ledger.start_run(f"late-{finished}", agent="billing")
            ledger._engine.notary.sealer().record("journal_heartbeat", {})

    with pytest.raises(IllegalMove, match="Stop its programs"):
        move_tenant(old, new, "acme", by="ana", progress=meanwhile)
    assert not any(rows_of(new, "acme").values())
    go_on(old)
    move_tenant(old, new, "acme", by="ana")
    go_on(new)


class Careless(SqliteRows):
    """Loses the last row of a table, as a driver with a fault might."""

    def write(self, table: str, rows: Iterable[Row]) -> None:
        kept = list(rows)
        super().write(table, kept[:-1] if table == "effects" else kept)


def test_what_does_not_arrive_as_it_was_sent_is_not_kept(files: tuple[str, str], keys: Path) -> None:
    old, new = (url.removeprefix("sqlite:///") for url in files)
    filled(files[0], "acme")
    with (
        pytest.raises(StoreError, match="indelible_effects did not arrive"),
        carrying_out(old) as rows,
        taking_in(new) as place,
    ):
        carry_tenant(rows, Careless(place._connection), "acme", lambda done, total: None)
    assert not any(rows_of(files[1], "acme").values())


KILLED = """
import os, signal, sys
from indelible.migrating import handing_over, moving

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

point, old, new = sys.argv[1:]
if point == "after it arrived":
    moving._Moving.finish = die
elif point == "after the new key was named":
    handing_over.Sealer.seal = lambda sealer, seal=handing_over.Sealer.seal: (
        die() if any(event.type == "key_rotated" for event in sealer.own_events()) else seal(sealer)
    )
elif point == "after the keys were handed over":
    moving._arrive = die
moving.move_tenant(old, new, "acme", by="ben", progress=die if point == "while it is carried" else moving.untold)
"""


@pytest.mark.parametrize(
    "point",
    ["while it is carried", "after it arrived", "after the new key was named", "after the keys were handed over"],
)
def test_whoever_is_killed_does_it_again(point: str, sqlite_url: str, postgres_url: str, keys: Path, cli: Cli) -> None:
    old, new = sqlite_url, postgres_url
    key, _ = filled(old, "acme")
    with Ledger.open(old, tenant="acme", seal=False) as ledger:
        ledger.stop(by="ana", reason="wrong prices")
    filled(new, "initech")
    killed = subprocess.run([sys.executable, "-c", KILLED, point, old, new], check=False)
    assert killed.returncode == -signal.SIGKILL
    has_arrived = point.startswith("after")
    assert any(rows_of(new, "acme").values()) == has_arrived
    assert is_stopped_at(old)
    assert not has_arrived or is_stopped_at(new)
    if not has_arrived:
        with pytest.raises(ZeroDivisionError):
            move_tenant(old, new, "acme", by="ben", progress=lambda finished, total: 1 / 0)
        assert is_stopped_at(old), "whose stop it is, nobody can tell: somebody may be moving it at this moment"
    again = move_tenant(old, new, "acme", by="ben")
    assert bool(again.rows) != has_arrived
    assert move_tenant(old, new, "acme", by="ben").rows == {}, "and a third time changes nothing"
    with Ledger.open(new, tenant="acme", seal=False) as ledger:
        stop = ledger.stopped()
        assert stop is not None
        assert stop.by == "ana"
        ledger.go(by="ana")
    go_on(new)
    assert is_stopped_at(old)
    told = [row[4] for row in rows_of(new, "acme")["events"]]
    assert told.count("key_rotated") == 1
    assert cli("verify", "--url", new, "--tenant", "acme", "--key", key).code == 0


def test_a_move_that_never_ends_can_be_given_up(files: tuple[str, str], keys: Path, cli: Cli) -> None:
    old, new = files
    filled(old, "acme")
    script = [sys.executable, "-c", KILLED, "after it arrived", old, new]
    assert subprocess.run(script, check=False).returncode == -signal.SIGKILL
    place = ("--url", old, "--tenant", "acme")
    assert "indelible go --force" in cli("go", *place, code=1).err
    cli("go", "--force", *place)
    go_on(old)
    assert is_stopped_at(new)
    assert move_tenant(old, new, "acme", by="ana").rows, "what had arrived is not what it is by now"
    go_on(new)
    assert is_stopped_at(old)


def test_60_the_old_place_stays_left_when_it_is_restored_from_before_the_move(
    files: tuple[str, str], keys: Path
) -> None:
    """`journal continue` and `go` let the tenant live in both places, and it paid again."""
    old, new = files
    with Ledger.open(old, tenant="acme") as ledger:
        done(ledger, "order-1")
        ledger.seal()
    backup = Backup(old)
    backup.make()
    move_tenant(old, new, "acme", by="ana")
    with Ledger.open(new, tenant="acme") as ledger:
        done(ledger, "order-2")
    backup.put_back()
    with Ledger.open(old, tenant="acme") as ledger:
        with pytest.raises(Stopped):
            ledger.run(ToolCall(tool="pay", args={}, run_id="order-2"), no_handler)
        with pytest.raises(SignerRefused):
            ledger.continue_journal()
        for _ in range(2):
            with pytest.raises(IllegalMove):
                ledger.go(by="ana", reason="it is over")
        with pytest.raises(Stopped):
            ledger.run(ToolCall(tool="pay", args={}, run_id="order-2"), no_handler)
        Stops(ledger._engine, "acme").go(Actor("ana"), "it never moved", is_forced=True)
        ledger.continue_journal()
        assert ledger.stopped() is None or not is_moved_away(ledger.stopped())


def test_60_a_person_s_stop_holds_also_if_it_was_made_while_the_tenant_was_carried(
    files: tuple[str, str], keys: Path
) -> None:
    """It was answered with the stop of the move, and written nowhere."""
    old, new = files
    with Ledger.open(old, tenant="acme") as ledger:
        done(ledger, "order-1")
        stops = Stops(ledger._engine, "acme")
        stops.leave(Actor("ben"), moved_to(new))
        ledger.stop(by="ana", reason="wait for the bank")
        stops.arrive(Actor("ben"), moved_to(new), "it never moved")
        assert (ledger.stopped().by, ledger.stopped().reason) == ("ana", "wait for the bank")
        with pytest.raises(Stopped):
            ledger.run(ToolCall(tool="pay", args={}, run_id="order-2"), no_handler)


def test_60_a_person_s_stop_while_a_whole_ledger_is_carried_holds_at_the_new_place(
    files: tuple[str, str], keys: Path, tmp_path: Path
) -> None:
    old, new = files[0], f"sqlite:///{tmp_path}/whole.db"
    said: list[str] = []
    with Ledger.open(old, tenant="acme") as ledger:
        done(ledger, "order-1")

        def stop(*_: Any) -> None:
            said.append(ledger.stop(by="ana", reason="wait for the bank").reason)

        move(old, new, by="ben", progress=stop)
    assert said
    with Ledger.open(new, tenant="acme") as ledger:
        assert (ledger.stopped().by, ledger.stopped().reason) == ("ana", "wait for the bank")
        assert not ledger.go(by="ana", reason="it has answered").is_in_force


def test_what_is_encrypted_and_redacted_comes_with_its_keys(files: tuple[str, str], keys: Path) -> None:
    old, new = files
    pay = call("pay", customer="ada", card="4111 1111 1111 1111")
    words: dict[str, Any] = {"tenant": "acme", "encrypt": True, "subject": "args.customer", "redact": ["args.card"]}
    with Ledger.open(old, **words) as ledger:
        ledger.run(pay, lambda effect: "paid")
    move_tenant(old, new, "acme", by="ana")
    with Ledger.open(new, **words) as ledger:
        assert ledger.run(pay, no_handler) == "paid"
        (effect,) = ledger.effects()
        assert effect.args is not None
        assert effect.args["customer"] == "ada"


def test_a_call_with_a_secret_is_not_made_again_under_another_mark(files: tuple[str, str], keys: Path) -> None:
    old, new = files
    for place, tenant in ((old, "acme"), (new, "initech")):
        with Ledger.open(place, tenant=tenant, redact=["args.card"]) as ledger:
            ledger.run(call("pay", card="4111 1111 1111 1111"), lambda effect: "paid")
    with pytest.raises(Misconfigured, match="redacted with another key"):
        move_tenant(old, new, "acme", by="ana")
    assert not is_stopped_at(old)


def test_without_the_key_that_signs_nothing_is_handed_over(files: tuple[str, str], keys: Path) -> None:
    old, new = files
    filled(old, "acme")
    lent_folder(keys.rename(keys.with_name("elsewhere")), keys)
    with pytest.raises(KeyUnusable, match="copy that folder"):
        move_tenant(old, new, "acme", by="ana")
    assert not is_stopped_at(old)


def test_24_no_rotation_or_other_move_comes_between_while_keys_are_handed_over(
    files: tuple[str, str], keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(files[0], "acme")
    with Ledger.open(files[1], seal=False) as ledger:
        ring = KeyRing.open(store_of(ledger).ledger_name)
    record, refused = Sealer.record, []

    def tried(self: Sealer, event_type: str, facts: Any) -> int:
        with pytest.raises(KeyUnusable), ring.rotating():
            pass
        refused.append(event_type)
        return record(self, event_type, facts)

    monkeypatch.setattr(Sealer, "record", tried)
    move_tenant(*files, "acme", by="ana")
    assert refused == ["key_rotated"]
    with ring.rotating():
        pass


def encrypted(url: str) -> Ledger:
    return Ledger.open(url, tenant="acme", seal=True, encrypt=True, subject="args.who")


def about_ana(url: str, number: int, value: str) -> object:
    with encrypted(url) as ledger:
        return ledger.run(call("mail", f"order-{number}", who="ana", n=number), lambda effect: value)


def data_keys(url: str, keys: Path) -> dict[str, bytes]:
    with encrypted(url) as ledger:
        folder = keys / ledger._engine.store.ledger_name / "data"
        return {path.name: path.read_bytes() for path in folder.glob("*/*.key")}


@pytest.mark.parametrize("is_called_again", [True, False])
def test_95_a_person_who_was_erased_elsewhere_stays_so_when_the_tenant_comes_back(
    ends: tuple[str, str], keys: Path, is_called_again: bool
) -> None:
    one, other = ends
    indelible.migrate(one)
    indelible.migrate(other)
    about_ana(one, 1, "first")
    before = data_keys(one, keys)
    assert len(before) == 1
    move_tenant(one, other, "acme", by="root")
    with encrypted(other) as ledger:
        ledger.erase(subject="ana", by="dpo", reason="asked")
    if is_called_again:
        about_ana(other, 2, "second")
    expected = data_keys(other, keys)
    assert len(expected) == int(is_called_again)
    move_tenant(other, one, "acme", by="root")
    assert data_keys(one, keys) == expected
    assert expected != before
    assert about_ana(one, 2, "third") == ("second" if is_called_again else "third")
    with encrypted(one) as ledger:
        ledger.seal()
        assert verify(LiveEvidence(store_of(ledger), "acme"), [key_of(ledger)]).verdict == "verified"


def test_a_key_that_came_back_with_its_tenant_opens_what_was_left_and_what_is_new(
    files: tuple[str, str], keys: Path
) -> None:
    one, other = files
    about_ana(one, 1, "first")
    kept = data_keys(one, keys)
    move_tenant(one, other, "acme", by="root")
    about_ana(other, 2, "second")
    move_tenant(other, one, "acme", by="root")
    assert data_keys(one, keys) == kept
    assert [about_ana(one, number, "again") for number in (1, 2)] == ["first", "second"]


def test_a_key_of_a_ledger_in_which_the_tenant_never_was_is_left_alone(files: tuple[str, str], keys: Path) -> None:
    one, other = files
    about_ana(one, 1, "first")
    (name,) = data_keys(one, keys)
    with encrypted(other) as ledger:
        there = keys / ledger._engine.store.ledger_name / "data" / name[:2] / name
    there.parent.mkdir(parents=True, mode=0o700)
    there.parent.parent.chmod(0o700)
    there.write_bytes(b"ab" * 32 + b"\n")
    there.chmod(0o600)
    with pytest.raises(KeyUnusable):
        move_tenant(one, other, "acme", by="root")
    assert there.read_bytes() == b"ab" * 32 + b"\n"
    assert about_ana(one, 1, "again") == "first", "it goes on where it was"
