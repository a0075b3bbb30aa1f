"""Revoked stays revoked after a move, a restore and a kill, and what is signed was examined: with SQL alone."""

from __future__ import annotations

import shutil
from base64 import b64encode
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from indelible import Actor, Ledger, NothingHappened, Refused, ToolCall, migrate
from indelible.core.effects.stops import STOPS_RUN
from indelible.core.journal.notes import Note, TreeHead, parse_note
from indelible.core.journal.tiles import grow
from indelible.core.people.credentials import Token
from indelible.core.people.person import Ticket
from indelible.errors import KeyUnusable, NotAuthenticated, RecordForged, SignerRefused, Stopped
from indelible.journal.evidence.live import LiveEvidence
from indelible.journal.evidence.verification import verify
from indelible.journal.keys.newest import NewestVersions
from indelible.journal.keys.signer import StatefulSigner
from indelible.migrating.moving import move_tenant
from indelible.server.signin.credentials import Credentials
from indelible.server.signin.identity import Identity
from indelible.server.signin.people import People
from tests.journal.attacked_world import Dump, _caller, _signed_in, copied, dumped, mail
from tests.journal.exported import key_of
from tests.journal.sql_attacks import relink
from tests.journal.tampering import Database
from tests.lending import lend_writer_keys

ROOT = Actor("root")


class Place:
    """Is a ledger whose database is in the hands of somebody without a key."""

    def __init__(self, url: str, keys: Path) -> None:
        self.url, self.keys = url, keys
        migrate(url)

    @contextmanager
    def opened(self) -> Iterator[Ledger]:
        with Ledger.open(self.url, seal=False, wakeups=False) as ledger:
            yield ledger

    def rows(self, table: str) -> list[Any]:
        with closing(Database(self.url)) as database:
            return database.rows(table)

    def state(self) -> Dump:
        with closing(Database(self.url)) as database:
            return dumped(database)

    def set_back(self, state: Dump) -> None:
        """Put rows in the place of those that differ."""
        with closing(Database(self.url)) as database:
            now = dumped(database)
            for table in state:
                if state[table] != now[table]:
                    database.replace(table, state[table])

    def put_back(self, old: list[Any], kind: str = "credential") -> None:
        """Put the rows of tokens, or of another kind, back to an older state."""
        with closing(Database(self.url)) as database:
            others = [row for row in database.rows("sheets") if row["kind"] != kind]
            database.replace("sheets", others + [row for row in old if row["kind"] == kind])

    def lets_in(self, token: Token) -> bool:
        with self.opened() as ledger, suppress(RecordForged, Refused, NotAuthenticated):
            return bool(_caller(Identity(ledger._engine.store), token))
        return False

    def has_signed_in(self, session: Ticket) -> bool:
        with self.opened() as ledger, suppress(RecordForged, Refused, NotAuthenticated):
            return bool(_signed_in(Identity(ledger._engine.store), session))
        return False


@pytest.fixture
def place(store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setenv("INDELIBLE_KEYS", str(tmp_path / "keys"))
    return Place(store_url, tmp_path / "keys")


def revoked(place: Place) -> tuple[Token, list[Any]]:
    """Give a token, seal, and revoke it; return it with the rows before."""
    with place.opened() as ledger:
        tokens = Credentials(ledger._engine.store, "default")
        token = tokens.give("boss", ("admin",), by=ROOT)[1]
        ledger.seal()
        old = place.rows("sheets")
        tokens.revoke(token.credential_id, by=ROOT)
    return token, old


def seal(place: Place, monkeypatch: pytest.MonkeyPatch | None = None) -> None:
    with place.opened() as ledger:
        ledger.run(mail(1), lambda effect: "sent")
        ledger.seal()
        assert ledger.stopped() is None


def killed_before_it_kept(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(NewestVersions, "keep", lambda self, versions: None)
        seal(place)


def older_keys(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    seal(place)
    shutil.rmtree(place.keys)
    shutil.copytree(place.keys.with_name("backup"), place.keys)


def no_memory(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    seal(place)
    for file in place.keys.glob("*/rights/default"):
        file.unlink()


def after_a_loss(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    seal(place)
    backup = place.state()
    with place.opened() as ledger:
        ledger.run(mail(2), lambda effect: "sent")
        ledger.seal()
    place.set_back(backup)
    with place.opened() as ledger:
        ledger.continue_journal()
        ledger.run(mail(3), lambda effect: "sent")
        ledger.seal()


HOW = [seal, killed_before_it_kept, older_keys, no_memory, after_a_loss]


@pytest.mark.parametrize("how", HOW)
def test_98_a_token_that_was_revoked_stays_so(place: Place, monkeypatch: pytest.MonkeyPatch, how: Any) -> None:
    seal(place)
    shutil.copytree(place.keys, place.keys.with_name("backup"))
    token, old = revoked(place)
    assert place.lets_in(token) is False
    how(place, monkeypatch)
    seal(place)
    assert not place.lets_in(token)
    place.put_back(old)
    assert not place.lets_in(token)


def test_98_a_person_who_was_revoked_stays_so(place: Place) -> None:
    seal(place)
    with place.opened() as ledger:
        people = People(ledger._engine.store, "default")
        person, session = people.open_link(people.invite("ana", ("approver",), by=ROOT)[1])
        ledger.seal()
        old = place.rows("sheets")
        assert place.has_signed_in(session)
        people.revoke(person.id, by=ROOT)
    seal(place)
    assert not place.has_signed_in(session)
    place.put_back(old, "person")
    assert not place.has_signed_in(session)


def test_98_a_token_that_was_revoked_stays_so_where_its_tenant_is_moved(place: Place, tmp_path: Path) -> None:
    token, _ = revoked(place)
    seal(place)
    target = Place(f"sqlite:///{tmp_path / 'target.db'}", place.keys)
    with Ledger.open(target.url, tenant="other", seal=False) as other:
        other.run(mail(1), lambda effect: "sent")
        other.seal()
    with closing(Database(place.url)) as database:  # as it was when the token still stood, and moved so
        (now,) = (row for row in database.rows("sheets") if row["kind"] == "credential")
    move_tenant(place.url, target.url, "default", by="ana")
    seal(target)
    assert not target.lets_in(token)
    older = [{**row, "version": now["version"] - 1} for row in target.rows("sheets")]
    target.put_back(older)
    with target.opened() as ledger:
        store = ledger._engine.store
        assert store.macs is not None
        versions = store.macs("default").newest.versions("credential")
    assert list(versions.values()) == [now["version"]]


# What is signed was examined


def test_98_an_event_that_is_changed_after_it_was_examined_is_not_signed(place: Place) -> None:
    with place.opened() as ledger:
        sealer = ledger._engine.notary.sealer()
        ledger.run(mail(1), lambda effect: "sent")
        sealer.seal()
        (head,) = place.keys.glob("*/heads/*.head")
        ledger.run(mail(5), lambda effect: "paid 10")
        full = head.with_name(head.name + ".tmp")
        full.mkdir()  # what was signed cannot be kept for a moment
        with pytest.raises((SignerRefused, KeyUnusable)):
            sealer.seal()
        ledger.run(mail(6), lambda effect: "sent")
        rows = copied(place.state())
        (paid,) = (row for row in rows["payloads"] if row["field"] == "result" and b"paid" in bytes(row["value"]))
        paid["value"] = bytes(paid["value"]).replace(b"paid 10", b"paid 99")
        relink(rows)
        place.set_back(rows)
        full.rmdir()
        with pytest.raises(SignerRefused):
            sealer.seal()
        assert ledger.stopped() is not None


def forge_head(place: Place, *, key_id: bytes | None = None) -> None:
    """Put in a head over all there is, with the right text and a signature of zeros."""
    state = place.state()
    newest = parse_note(max(state["heads"], key=lambda row: row["size"])["note"])
    leaves = [bytes(row["hash"]) for row in sorted(state["leaves"], key=lambda row: row["leaf"])]
    waiting = [bytes(row["hash"]) for row in sorted(state["pending"], key=lambda row: row.get("id") or 0)]
    grown = grow(0, leaves + waiting, lambda level, number: b"")
    line = b64encode((key_id or newest.signatures[0].key_id) + bytes(64)).decode()
    origin = newest.text.split("\n")[0]
    note = f"{origin}\n{grown.size}\n{b64encode(grown.root).decode()}\n\n— {newest.signatures[0].name} {line}\n"
    with closing(Database(place.url)) as database:
        database.replace("heads", [*state["heads"], {**state["heads"][-1], "size": grown.size, "note": note}])


@pytest.mark.parametrize("key_id", [None, b"evil", b""], ids=["our key's name", "another key", "no note"])
def test_98_a_head_that_no_key_of_the_journal_signed_is_passed_over(place: Place, key_id: bytes | None) -> None:
    entered: list[int] = []
    call = ToolCall(tool="pay", args={"n": 1}, run_id="order-1")

    def nothing(effect: Any) -> None:
        raise NothingHappened("no")

    with place.opened() as ledger:
        with suppress(NothingHappened):
            ledger.run(call, nothing)
        ledger.seal()
        ready = place.rows("effects")
        ledger.run(call, lambda effect: entered.append(1))
        ledger.seal()
        ledger.run(mail(1), lambda effect: "sent")
        if key_id == b"":
            with closing(Database(place.url)) as database:
                heads = database.rows("heads")
                database.replace("heads", [*heads, {**heads[-1], "size": 999, "note": "x"}])
        else:
            forge_head(place, key_id=key_id)
        head = ledger.seal()
        assert head is not None
        assert bytes(64) not in [signature.content for signature in head.signatures]
    with closing(Database(place.url)) as database:
        others = [row for row in database.rows("effects") if row["key"] not in [old["key"] for old in ready]]
        database.replace("effects", ready + others)
    for _ in range(3):
        with place.opened() as ledger, suppress(Stopped, RecordForged):
            ledger.run(call, lambda effect: entered.append(1))
        with place.opened() as ledger, suppress(SignerRefused, RecordForged):
            ledger.seal()
    assert len(entered) <= 2, "it is named by the first seal after it, and all is stopped"


# What waits for a seal


def test_98_a_copy_that_is_verified_stops_nothing(place: Place, tmp_path: Path) -> None:
    """A verified copy noted its own stop in the memory that it shares with the original, which was stopped by it."""
    from indelible.journal.evidence.live import LiveEvidence
    from indelible.journal.evidence.verification import verify

    with place.opened() as ledger:
        ledger.run(mail(1), lambda effect: "sent")
        ledger.seal()
        key = key_of(ledger)
        old = place.state()
        ledger.run(mail(2), lambda effect: "sent")
        ledger.seal()
    new = place.state()
    place.set_back(old)
    with Ledger.open(place.url, seal=False, wakeups=False, keys=tmp_path / "keys") as ledger:
        evidence = LiveEvidence(ledger._engine.store, "default", ledger._engine.notary.seal_with_own_key)
        assert verify(evidence, [key]).verdict == "tampered"
    place.set_back(new)
    with place.opened() as ledger:
        ledger.run(mail(3), lambda effect: "sent")
        ledger.seal()
        assert ledger.stopped() is None


def test_98_a_process_that_could_not_stop_effects_does_not_seal(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with place.opened() as ledger:
        ledger.run(mail(1), lambda effect: "sent")
        lend_writer_keys(monkeypatch, ledger, with_rights=False)
    (master,) = place.keys.glob("*/writers.key")
    master.rename(tmp_path / "writers.key")
    with place.opened() as worker, pytest.raises(KeyUnusable):
        worker.seal()


def test_98_a_memory_that_cannot_be_written_refuses_a_seal_and_no_more(place: Place) -> None:
    revoked(place)
    (file,) = place.keys.glob("*/rights/default")
    aside = file.rename(file.with_name("aside"))
    file.symlink_to(aside)
    with place.opened() as ledger:
        with pytest.raises(SignerRefused):
            ledger.seal()
        file.unlink()
        aside.rename(file)
        ledger.seal()


def test_59_a_head_that_is_signed_while_an_older_database_is_put_back_does_not_come_into_it(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    seal(place)
    backup = place.state()
    sign = StatefulSigner.sign

    def meanwhile(signer: StatefulSigner, head: TreeHead, prove: Any) -> Note:
        note = sign(signer, head, prove)
        place.set_back(backup)
        return note

    with place.opened() as ledger:
        for number in range(2, 8):
            ledger.run(mail(number), lambda effect: "sent")
        with monkeypatch.context() as patch, suppress(SignerRefused):
            patch.setattr(StatefulSigner, "sign", meanwhile)
            ledger.seal()
    with place.opened() as ledger:
        ledger.continue_journal()
        evidence = LiveEvidence(ledger._engine.store, "default", ledger._engine.notary.seal_with_own_key)
        report = verify(evidence, [key_of(ledger)])
    assert (report.verdict, report.flaw) == ("verified", None)


def test_98_a_stop_whose_value_was_changed_stays_in_force_after_a_loss(place: Place) -> None:
    with place.opened() as ledger:
        ledger.stop(by=ROOT, reason="looking")
        ledger.seal()
        backup = place.state()
        ledger.go(by=ROOT, reason="found")
        ledger.seal()
    place.set_back(backup)
    with place.opened() as ledger, pytest.raises(SignerRefused):
        ledger.seal()
    with closing(Database(place.url)) as database:
        rows = database.rows("payloads")
        for row in rows:
            if row["run_id"] == STOPS_RUN and row["seq"] == 0 and row["field"] == "stop":
                row["value"] = bytes(row["value"]).replace(b'"is_in_force":true', b'"is_in_force":false')
        assert rows != database.rows("payloads")
        database.replace("payloads", rows)
    with place.opened() as ledger:
        ledger.continue_journal()
        assert ledger.stopped() is not None
