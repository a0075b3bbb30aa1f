"""What decides something is read back from the ledger's own runs only as key holders wrote it (65)."""

from __future__ import annotations

import json
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest

import indelible
from indelible import Ledger, ToolCall
from indelible.core.effects.stops import STOPS_RUN
from indelible.core.journal.journal import JOURNAL_RUN
from indelible.core.journal.notes import PublicKey, parse_vkey
from indelible.core.journal.rotation import revocation_facts
from indelible.errors import IndelibleError, RecordForged, Stopped
from indelible.stores import is_postgres
from tests.journal.exported import key_of
from tests.journal.tampering import Database
from tests.journal.test_set_back import Backup


def charge(amount: int) -> ToolCall:
    return ToolCall(tool="charge", args={"amount": amount}, run_id="order-1")


def delete_at_the_next_head(url: str, seq: int) -> None:
    """Set a trap that deletes an event of the stops as soon as a head is kept: with SQL alone, and no key."""
    gone = f"DELETE FROM indelible_events WHERE run_id = '{STOPS_RUN}' AND seq = {seq}"
    if is_postgres(url):
        body = f"BEGIN {gone}; RETURN NEW; END"
        with psycopg.connect(url, autocommit=True) as database:
            database.execute(f"CREATE FUNCTION trap() RETURNS trigger LANGUAGE plpgsql AS $$ {body} $$".encode())
            database.execute("CREATE TRIGGER trap AFTER INSERT ON indelible_heads FOR EACH ROW EXECUTE FUNCTION trap()")
    else:
        with closing(apsw.Connection(url.removeprefix("sqlite:///"))) as connection:
            connection.execute(f"CREATE TRIGGER trap AFTER INSERT ON indelible_heads BEGIN {gone}; END")


@pytest.mark.parametrize("deleted", [None, 2, 3])
def test_65_a_persons_stop_outlives_a_declared_loss_also_where_an_event_is_deleted_meanwhile(
    store_url: str, tmp_path: Path, deleted: int | None
) -> None:
    indelible.migrate(store_url, keys=tmp_path / "keys")
    place: dict[str, Any] = {"url": store_url, "keys": tmp_path / "keys", "seal": False}
    backup = Backup(store_url)
    with Ledger.open(**place) as ledger:
        ledger.run(charge(1), lambda effect: 1)
        ledger.stop(by="ana", reason="look")
        ledger.go(by="ana", reason="looked")
        ledger.stop(by="ana", reason="fraud")
        ledger.seal()
    backup.make()
    with Ledger.open(**place) as ledger:
        ledger.hold(run_id="order-1", by="ana", reason="case")
        ledger.seal()
    backup.put_back()
    entered: list[int] = []
    with Ledger.open(**place) as ledger:
        with pytest.raises(Stopped):
            ledger.run(charge(4), lambda effect: entered.append(1))
        if deleted is not None:
            delete_at_the_next_head(store_url, deleted)
        with suppress(RecordForged):
            ledger.continue_journal()
        with pytest.raises(Stopped):
            ledger.run(charge(5), lambda effect: entered.append(1))
        with suppress(IndelibleError):
            ledger.seal()
    with suppress(IndelibleError), Ledger.open(**place) as ledger:
        ledger.run(charge(7), lambda effect: entered.append(1))
    assert entered == [], "nobody lifted ana's stop"


def forge_revocations(url: str, old: PublicKey, size: int) -> list[dict[str, Any]]:
    """Write revocations that nobody made beside the journal's events; return the events as they were."""
    with closing(Database(url)) as database:
        before = database.rows("events")
        model = next(row for row in before if row["run_id"] == JOURNAL_RUN)
        forged = []
        for number in range(40):
            body = json.loads(bytes(model["body"]))
            body |= {"facts": revocation_facts(old, size + number), "type": "key_revoked", "seq": 10**6 + number}
            text = json.dumps(body, sort_keys=True, separators=(",", ":")).encode()
            row = {"seq": 10**6 + number, "type": "key_revoked", "body": text, "hash": bytes([number]) * 32}
            forged.append({**model, **row})
        database.replace("events", [*before, *forged])
        return before


@pytest.mark.parametrize("is_attacked", [False, True])
def test_65_a_row_that_nobody_wrote_keeps_no_revocation_off_the_record(
    store_url: str, tmp_path: Path, is_attacked: bool
) -> None:
    indelible.migrate(store_url, keys=tmp_path / "keys")
    with Ledger.open(store_url, keys=tmp_path / "keys", seal=False) as ledger:
        ledger.run(charge(1), lambda effect: 1)
        ledger.seal()
        old = parse_vkey(key_of(ledger))
        ledger.rotate_keys()
        ledger.seal()
        head = ledger.tree_head()
        assert head is not None
        notary: Any = ledger._engine.notary
        (retired,) = [key.id for key in notary.signer().ring.all_keys() if key.status == "retired"]
        if is_attacked:
            before = forge_revocations(store_url, old, head.size)
            with pytest.raises(RecordForged):
                ledger.revoke_key(retired)
            with closing(Database(store_url)) as database:
                database.replace("events", before)
        ledger.revoke_key(retired)
        head = ledger.tree_head()
        assert head is not None
        entries = ledger._engine.store.journal.entries("default", 0, head.size)
        assert any(b'"key_revoked"' in entry.body for entry in entries if entry.body is not None)
        assert [key.status for key in notary.signer().ring.all_keys() if key.id == retired] == ["revoked"]
