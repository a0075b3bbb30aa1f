"""With SQL alone, no program changes what a journal is called or whether the ledger demands keys."""

from __future__ import annotations

from contextlib import closing, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from indelible import GrantTerms, Ledger, NothingHappened, ToolCall, migrate
from indelible.cli import main as cli_main
from indelible.core.approvals.grants import grant_sheet, read_grant
from indelible.core.commands import Record
from indelible.core.effects.effect import SYSTEM
from indelible.core.events import facts_json
from indelible.core.moving import origin_sheet
from indelible.core.sheets import Sheet, SheetFilter
from indelible.engine.mint import SystemMint
from indelible.errors import ApprovalPending, IndelibleError, KeyUnusable, Misconfigured, Stopped
from indelible.journal.keys.writers import VARIABLE
from indelible.journal.sealing import Sealer
from indelible.migrating.moving import move_tenant
from tests.journal.attacked_world import OPEN_POLICY, copied, dumped
from tests.journal.decided import POLICY, approve, ask, refund
from tests.journal.tampering import Database, Row
from tests.lending import lend_writer_keys


@pytest.fixture(autouse=True)
def keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for keys that nothing else uses."""
    monkeypatch.setenv("INDELIBLE_KEYS", str(tmp_path / "keys"))
    monkeypatch.delenv(VARIABLE, raising=False)
    return tmp_path / "keys"


def mail(number: int) -> ToolCall:
    return ToolCall(tool="mail", args={"n": number}, run_id="order-2")


def opened(url: str, tenant: str = "default", **words: Any) -> Ledger:
    return Ledger.open(url, tenant=tenant, seal=False, wakeups=False, **words)


def origin_row(name: str, tenant: str = "default") -> Row:
    row = {"tenant": tenant, "kind": "origin", "id": "journal", "version": 1, "status": "moved", "topic": ""}
    empty = dict.fromkeys(("due_at", "run_id", "seq", "created_at", "mac"))
    return {**row, **empty, "body": origin_sheet(name).body}


def put_origin(url: str, name: str, tenant: str = "default") -> None:
    with closing(Database(url)) as database:
        database.replace("sheets", [*database.rows("sheets"), origin_row(name, tenant)])


# What a journal is called


def test_98_a_forged_origin_hides_no_database_that_was_set_back(store_url: str) -> None:
    migrate(store_url)
    with opened(store_url) as ledger, closing(Database(store_url)) as database:
        ledger.run(mail(1), lambda effect: "sent")
        ledger.seal()
        before = dumped(database)
        ledger.run(mail(2), lambda effect: "sent")
        ledger.seal()
        now, rows = dumped(database), copied(before)
    rows["sheets"].append(origin_row("ledger-000000000000/default"))
    rows["heads"] = []
    with closing(Database(store_url)) as database:
        for table in rows:
            if rows[table] != now[table]:
                database.replace(table, rows[table])
    entered: list[int] = []
    with opened(store_url) as ledger:
        with pytest.raises(IndelibleError):
            ledger.run(mail(2), lambda effect: entered.append(2))
        with pytest.raises(IndelibleError):
            ledger.seal()
        assert ledger.stopped() is not None
    assert entered == []


def put_back(url: str, entered: list[int]) -> None:
    """Put the row of an effect back to before it was carried out."""

    def nothing(effect: object) -> None:
        raise NothingHappened("no")

    with opened(url) as ledger, closing(Database(url)) as database:
        with suppress(NothingHappened):
            ledger.run(mail(1), nothing)
        ledger.seal()
        ready = database.rows("effects")
        ledger.run(mail(1), lambda effect: entered.append(1))
        ledger.seal()
        database.replace("effects", ready)


def test_98_a_forged_origin_keeps_no_seal_from_examining(store_url: str) -> None:
    migrate(store_url)
    entered: list[int] = []
    put_back(store_url, entered)
    put_origin(store_url, "ledger-000000000000/default")
    with opened(store_url) as ledger:
        ledger.run(mail(1), lambda effect: entered.append(2))
        with suppress(IndelibleError):
            ledger.seal()
        with pytest.raises(Stopped):
            ledger.run(mail(2), lambda effect: entered.append(3))
    assert entered == [1, 2]


def test_98_what_waits_is_examined_though_the_key_here_may_not_sign(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    migrate(store_url)
    entered: list[int] = []
    put_back(store_url, entered)

    def refused(sealer: Sealer) -> None:
        raise KeyUnusable("it is signed by another key")

    monkeypatch.setattr(Sealer, "_introduce_key", refused)
    with opened(store_url) as ledger:
        ledger.run(mail(1), lambda effect: entered.append(2))
        with pytest.raises(KeyUnusable):
            ledger.seal()
        with pytest.raises(Stopped):
            ledger.run(mail(2), lambda effect: entered.append(3))
    assert entered == [1, 2]


def test_98_no_key_signs_for_another_tenant(store_url: str) -> None:
    migrate(store_url)
    with opened(store_url, "acme") as acme:
        acme.run(mail(1), lambda effect: "sent")
        put_origin(store_url, f"{acme._engine.store.ledger_name}/globex", "acme")
    with opened(store_url, "acme") as acme:
        assert acme.journal_name.endswith("/acme")
        assert f"{acme._engine.store.ledger_name}/acme" in str(acme.seal())
    with opened(store_url, "globex") as globex:
        assert globex.run(mail(1), lambda effect: "sent") == "sent"
        globex.seal()
        assert globex.stopped() is None


@pytest.fixture
def moved(store_url: str, tmp_path: Path) -> str:
    """The tenant acme came to this ledger from another one, and was signed there and here."""
    old = f"sqlite:///{tmp_path / 'old.db'}"
    migrate(old)
    migrate(store_url)
    with opened(old, "acme") as ledger:
        ledger.run(mail(1), lambda effect: "sent")
        ledger.seal()
    move_tenant(old, store_url, "acme", by="ana")
    with opened(store_url, "acme") as ledger:
        ledger.seal()
    return store_url


@pytest.mark.parametrize("attack", ["taken away", "changed"])
def test_98_a_tenant_that_was_moved_keeps_its_name_whatever_its_row_says(
    moved: str, attack: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(moved, "acme") as ledger:
        name = ledger.journal_name
        assert not name.startswith(ledger._engine.store.ledger_name)
    with closing(Database(moved)) as database:
        rows = [row for row in database.rows("sheets") if row["kind"] != "origin"]
        database.replace("sheets", rows)
    if attack == "changed":
        put_origin(moved, "ledger-000000000000/acme", "acme")
    with opened(moved, "acme") as ledger:
        assert ledger.journal_name == name
        ledger.run(mail(2), lambda effect: "sent")
        assert str(ledger.seal()).startswith(f"{name}\n")
        lend_writer_keys(monkeypatch, ledger)
    with opened(moved, "acme", keys=tmp_path / "far") as far:
        assert far.journal_name == name


def test_98_a_move_that_failed_gives_nothing_at_the_new_place_its_name(
    store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = f"sqlite:///{tmp_path / 'old.db'}"
    migrate(old)
    migrate(store_url)
    with opened(old, "acme") as ledger:
        ledger.run(mail(1), lambda effect: "sent")

    def fails(*given: object) -> None:
        raise Misconfigured("it was written to meanwhile")

    with monkeypatch.context() as for_now:
        for_now.setattr("indelible.migrating.moving.check_stood_still", fails)
        with pytest.raises(Misconfigured):
            move_tenant(old, store_url, "acme", by="ana")
    with opened(store_url, "acme") as ledger:
        assert ledger.journal_name == f"{ledger._engine.store.ledger_name}/acme"


# Whether keys are demanded


def rename(url: str) -> None:
    with closing(Database(url)) as database:
        (row,) = database.rows("ledger")
        database.replace("ledger", [{**row, "name": "ledger-evil", "has_macs": type(row["has_macs"])(0)}])
        database.replace("sheets", [row for row in database.rows("sheets") if row["kind"] != "policy"])


@pytest.mark.parametrize("is_sealed", [False, True], ids=["unsealed", "sealed"])
@pytest.mark.parametrize("who", ["worker", "owner"])
def test_98_a_ledger_that_was_given_another_name_is_not_used_without_keys(
    store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, who: str, is_sealed: bool
) -> None:
    migrate(store_url)
    with opened(store_url) as ledger:
        rules = [{"name": "no", "match": {"tool": "mail"}, "then": "refuse"}]
        ledger.apply_policy({**OPEN_POLICY, "rules": rules}, by="ana")
        if is_sealed:
            ledger.seal()
        if who == "worker":
            lend_writer_keys(monkeypatch, ledger, with_rights=False)
            monkeypatch.setenv("INDELIBLE_KEYS", str(tmp_path / "none"))
    rename(store_url)
    with pytest.raises(KeyUnusable if who == "worker" else Misconfigured) as refused:
        opened(store_url)
    assert ("unset $INDELIBLE_WRITER_KEYS" if who == "worker" else "--new-ledger") in str(refused.value)


def test_98_a_new_ledger_may_be_begun_in_the_place_of_another(postgres_url: str) -> None:
    migrate(postgres_url)
    opened(postgres_url).close()
    rename(postgres_url)
    assert cli_main(["migrate", "--url", postgres_url, "--no-roles"]) != 0
    assert cli_main(["migrate", "--new-ledger", "--no-roles", "--url", postgres_url]) == 0
    with opened(postgres_url) as ledger:
        assert ledger.run(mail(1), lambda effect: "sent") == "sent"


def test_98_an_emptied_database_gets_no_new_ledger_where_the_keys_know_another(postgres_url: str) -> None:
    migrate(postgres_url)
    opened(postgres_url).close()
    with closing(Database(postgres_url)) as database:
        database._server.execute("DROP SCHEMA public CASCADE")
        database._server.execute("CREATE SCHEMA public")
    with pytest.raises(Misconfigured, match="--new-ledger"):
        migrate(postgres_url)
    assert cli_main(["migrate", "--new-ledger", "--no-roles", "--url", postgres_url]) == 0
    with opened(postgres_url) as ledger:
        assert ledger.run(mail(1), lambda effect: "sent") == "sent"


# A grant that a person ended


@pytest.mark.parametrize("signature", ["of the row that ended", "of the row before"])
def test_98_the_effects_key_alone_revives_no_grant_that_a_person_ended(
    store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, signature: str
) -> None:
    migrate(store_url)
    entered: list[int] = []

    def given(ledger: Ledger) -> Sheet:
        (sheet,) = ledger._engine.store.sheets("default", SheetFilter(kind="grant", limit=9))
        return sheet

    def revive(worker: Ledger, before: Sheet) -> None:
        store = worker._engine.store
        newest = given(worker)
        alive = replace(read_grant(before), version=newest.version + 1, is_ended=False, uses_left=2)
        sheet = replace(grant_sheet(alive), created_at=newest.created_at)
        stamp = SystemMint().stamp(SYSTEM)
        forged = Record(
            tenant="default", run_id="x", stamp=stamp, event_type="noted", facts=facts_json({}), sheet=sheet
        )
        if signature == "of the row before":  # the macs are made by hand, as a holder of the key can
            macs = store.macs("default") if store.macs is not None else None
            assert macs is not None
            own = macs.of_sheet
            monkeypatch.setattr(macs, "of_sheet", lambda one, _: own(one, before if one.kind == "grant" else _))
        store.apply("default", [forged], [None])

    with opened(store_url) as ledger:
        ledger.apply_policy(POLICY, by="ana")
        terms = GrantTerms(count=2, until=datetime.now(UTC) + timedelta(days=1))
        approve(ledger, ask(ledger, refund("o-0")), "ana", grant=terms)
        before = given(ledger)
        (grant,) = ledger.grants()
        ledger.end_grant(grant.id, by="ana")
        ledger.seal()
        lend_writer_keys(monkeypatch, ledger, with_rights=False)
        with opened(store_url, keys=tmp_path / "none") as worker:
            with suppress(KeyUnusable):
                revive(worker, before)
            with suppress(ApprovalPending):
                worker.run(refund("o-1"), lambda effect: entered.append(1), wait=False)
        with suppress(ApprovalPending):
            ledger.run(refund("o-2"), lambda effect: entered.append(2), wait=False)
    assert entered == []


def test_98_a_database_whose_ledger_was_deleted_is_refused(store_url: str) -> None:
    migrate(store_url)
    with closing(Database(store_url)) as database:
        database.replace("ledger", [])
    with pytest.raises(Misconfigured):
        Ledger.open(store_url, seal=False)
