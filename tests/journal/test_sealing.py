"""The journal is sealed by itself while a ledger is open, and never pretends to be when it is not."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import shutil
import subprocess
import sys
import threading
from base64 import b64decode
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import psycopg
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

import indelible
from indelible import AsyncLedger, Ledger, Succeeded, ToolCall
from indelible.core.events import signed_message
from indelible.core.journal.journal import JOURNAL_RUN
from indelible.core.journal.merkle import consistency_proof, is_consistent
from indelible.core.journal.notes import Note, Signature, TreeHead, parse_head, parse_note
from indelible.core.journal.tiles import node_reader
from indelible.errors import BadCall, JournalError, KeyUnusable, NotSealed, SignerRefused
from indelible.journal.sealing_thread import SealingThread
from indelible.journal.witnesses.cosigning import Cosigning
from tests.journal.watched import STRANGER, Log
from tests.lending import lent_folder
from tests.scenarios.shells import Count
from tests.waiting import PATIENCE, eventually


@pytest.fixture
def place(store_url: str, tmp_path: Path) -> dict[str, Any]:
    """A ledger of each kind that is not there yet, with a folder for its keys."""
    indelible.migrate(store_url, keys=tmp_path / "keys")
    return {"url": store_url, "tenant": f"tenant-{uuid4().hex[:8]}", "keys": tmp_path / "keys"}


def charge(**fields: Any) -> ToolCall:
    return ToolCall(**{"tool": "charge", "args": {"amount": 5}, "run_id": "order-1", **fields})


def covered(ledger: Ledger) -> int:
    """Gives how many events the newest signed head covers."""
    head = ledger.tree_head()
    return 0 if head is None else head.size


def types_in(ledger: Ledger, run_id: str = JOURNAL_RUN) -> list[str]:
    return [event.type for event in ledger.events(run_id)]


class Broken:
    """Is a signer whose key is away; what it signed is remembered here."""

    def __init__(self) -> None:
        self.is_away = True

    def _fail(self) -> Any:
        raise KeyUnusable("the signer is away; wake it up")

    def keys(self, origin: str) -> Any:
        return self._fail()

    continue_from = keys

    def last(self, origin: str) -> TreeHead | None:
        return None

    def sign(self, head: TreeHead, prove: Any) -> Note:
        return self._fail()


# ── by itself ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_was_written_comes_under_a_signed_head_by_itself(place: dict[str, Any]) -> None:
    with Ledger.open(**place) as ledger:
        ledger.run(charge(), Count("ok"))
        eventually(lambda: covered(ledger) == 3)
        assert types_in(ledger) == ["key_registered"]


def test_the_key_is_named_once_however_many_threads_seal(place: dict[str, Any]) -> None:
    with Ledger.open(**place) as ledger:
        ledger.run(ToolCall(tool="count", run_id="r"), Count())
        for _ in range(3):
            ledger.seal()  # while the ledger's own thread does
        own = ledger._engine.store.events(ledger.tenant, JOURNAL_RUN, -1, 100)
    assert [event.type for event in own].count("key_registered") == 1


def test_closing_a_ledger_seals_what_is_left(place: dict[str, Any]) -> None:
    with Ledger.open(**place) as ledger:
        ledger.run(charge(), Count("ok"))
    with Ledger.open(**place, seal=False) as ledger:
        assert covered(ledger) == 3
        assert ledger._engine.store.journal.waiting(ledger.tenant) == 0


ENDS_WITHOUT_CLOSING = """
import sys
from indelible import Ledger, ToolCall

url, tenant, keys = sys.argv[1:]
ledger = Ledger.open(url, tenant=tenant, keys=keys)
for amount in range(20):
    ledger.run(ToolCall(tool="charge", args={"amount": amount}, run_id="order-1"), lambda effect: "ok")
"""


def test_a_program_that_ends_without_closing_its_ledger_leaves_nothing_unsealed(place: dict[str, Any]) -> None:
    words = (place["url"], place["tenant"], str(place["keys"]))
    subprocess.run([sys.executable, "-c", ENDS_WITHOUT_CLOSING, *words], check=True, timeout=PATIENCE)
    with Ledger.open(**place, seal=False) as ledger:
        assert covered(ledger) == 41
        assert ledger._engine.store.journal.waiting(ledger.tenant) == 0


def test_witnesses_are_asked_again_when_no_thread_could_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    cosigning = Cosigning(())
    monkeypatch.setattr(threading.Thread, "start", refuse)
    cosigning.offer(Note("", ()), lambda old, new: [], lambda note: None)
    monkeypatch.undo()
    cosigning.offer(Note("", ()), lambda old, new: [], lambda note: None)
    assert cosigning._thread is not None
    cosigning.close()


def test_nothing_is_sealed_and_no_key_is_made_where_only_reading_goes_on(place: dict[str, Any]) -> None:
    with Ledger.open(**place) as ledger:
        ledger.effects()
        ledger.events("order-1")
    assert not list(place["keys"].rglob("*.pem"))


def test_a_postgres_ledger_leaves_sealing_to_others_unless_told(postgres_url: str) -> None:
    indelible.migrate(postgres_url)
    with Ledger.open(postgres_url) as ledger:
        assert not ledger._engine.notary.is_sealing


def test_the_async_ledger_seals_too(place: dict[str, Any]) -> None:
    async def main() -> int:
        async with AsyncLedger.open(**place) as ledger:
            await ledger.run(charge(), Count("ok"), side_effect="payment")
            head = await ledger.tree_head()
            assert head is not None
            return head.size

    assert asyncio.run(main()) == 3


def test_a_journal_that_is_idle_shows_that_it_is_alive(place: dict[str, Any]) -> None:
    with Ledger.open(**place) as ledger:
        ledger.run(charge(), Count("ok"))
        make = ledger._engine.notary.sealer
        thread = SealingThread(make, every=timedelta(milliseconds=1), beat_every=timedelta(milliseconds=20))
        thread.note_write()
        eventually(lambda: "journal_heartbeat" in types_in(ledger))
        thread.close()


# ── inclusion ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_payment_returns_only_when_a_signed_head_covers_it(place: dict[str, Any]) -> None:
    with Ledger.open(**place) as ledger:
        for number in range(5):
            ledger.run(charge(args={"amount": number}), Count("ok"), side_effect="payment")
            assert covered(ledger) >= 2 * number + 2
            assert ledger.receipt(ledger.events("order-1")[-1]).covers(ledger.events("order-1")[-1].body)


def test_a_payment_that_is_committed_by_hand_waits_too(place: dict[str, Any]) -> None:
    with Ledger.open(**place) as ledger:
        claimed = ledger.begin(charge(), side_effect="payment")
        assert isinstance(claimed, indelible.Claimed)
        ledger.commit(claimed.claim, Succeeded("ok"))
        assert covered(ledger) >= 2


def test_who_asks_for_inclusion_without_a_key_waits_for_whoever_has_it(place: dict[str, Any]) -> None:
    with Ledger.open(**place, seal=False) as agent, Ledger.open(**place, seal=False) as notary:
        sealing = SealingThread(notary._engine.notary.sealer, every=timedelta(milliseconds=1))
        agent._engine.writer._after = sealing.note_write
        agent.run(charge(), Count("ok"), await_inclusion=True)
        assert covered(agent) >= 2
        sealing.close()


def test_a_payment_where_nobody_seals_does_not_wait(place: dict[str, Any]) -> None:
    with Ledger.open(**place, seal=False) as ledger:
        assert ledger.run(charge(), Count("ok"), side_effect="payment") == "ok"
        assert covered(ledger) == 0


# ── when it cannot be sealed ─────────────────────────────────────────────────────────────────────────────────────────


def test_with_the_signer_away_calls_go_on_and_the_log_says_so(
    place: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR, "indelible.journal"), Ledger.open(**place, signer=Broken()) as ledger:
        assert ledger.run(charge(), Count("ok"), side_effect="payment") == "ok"
    assert "wake it up" in caplog.text


def test_with_the_signer_away_a_careful_ledger_refuses_before_anything_runs(place: dict[str, Any]) -> None:
    handler = Count("ok")
    with Ledger.open(**place, signer=Broken(), on_unsealed="refuse") as ledger:
        with pytest.raises(NotSealed, match="is recorded"):
            ledger.run(charge(), handler, side_effect="payment")
        with pytest.raises(NotSealed, match="nothing was run"):
            ledger.run(charge(args={"amount": 6}), handler, side_effect="payment")
        assert handler.entries == 1
        assert ledger.run(charge(args={"amount": 7}), handler) == "ok", "what nobody awaits goes on"


@pytest.mark.parametrize("fault", [LookupError, OverflowError, RecursionError, KeyUnusable])
def test_27_the_thread_that_seals_outlives_whatever_a_seal_raises(fault: type[Exception]) -> None:
    class Stumbling:
        faults = [fault("odd")]  # noqa: RUF012

        def seal(self) -> None:
            if self.faults:
                raise self.faults.pop()

        def heartbeat(self) -> None:
            raise AssertionError("nothing is idle here")

    thread = SealingThread(Stumbling)
    assert isinstance(thread.wait(timedelta(seconds=20)), JournalError)
    assert thread.wait(timedelta(seconds=20)) is None
    assert thread.problem is None
    thread.close()


def test_only_two_words_say_what_happens_then(sqlite_url: str) -> None:
    with pytest.raises(BadCall, match="continue, refuse"):
        Ledger.open(sqlite_url, on_unsealed="panic")  # type: ignore[arg-type]


def test_another_key_than_the_one_before_does_not_sign(place: dict[str, Any], tmp_path: Path) -> None:
    with Ledger.open(**place) as ledger:
        ledger.run(charge(), Count("ok"))
    with (
        Ledger.open(**place | {"keys": lent_folder(place["keys"], tmp_path / "others")}, seal=False) as ledger,
        pytest.raises(KeyUnusable, match="signed by one already"),
    ):
        ledger.seal()
    assert not list((tmp_path / "others").rglob("*.pem")), "no key is made that could not sign"


# ── a database that was set back ─────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def restored(tmp_path: Path) -> dict[str, Any]:
    """A SQLite ledger whose file was replaced by its backup of three events, after eleven were signed."""
    file = tmp_path / "ledger.db"
    place = {"url": f"sqlite:///{file}", "keys": tmp_path / "keys"}
    with Ledger.open(**place) as ledger:
        ledger.run(charge(), Count("ok"))
    shutil.copy(file, tmp_path / "backup.db")
    with Ledger.open(**place) as ledger:
        for number in range(4):
            ledger.run(charge(args={"amount": number}), Count("ok"))
    for leftover in tmp_path.glob("ledger.db*"):
        leftover.unlink()
    shutil.copy(tmp_path / "backup.db", file)
    return place


def test_an_old_backup_is_not_signed_and_the_message_says_what_to_do(restored: dict[str, Any]) -> None:
    go_on_without_keys(restored, [99])
    with Ledger.open(**restored, seal=False) as ledger:
        with pytest.raises(SignerRefused, match=r"set back.*indelible journal continue"):
            ledger.seal()
        assert covered(ledger) == 3


def go_on_without_keys(place: dict[str, Any], amounts: Iterable[int]) -> None:
    """Makes calls in a process that cannot know what was signed."""
    keys = lent_folder(place["keys"], place["keys"] / "none")
    with Ledger.open(**{**place, "keys": keys}, seal=False) as ledger:
        for amount in amounts:
            ledger.run(charge(args={"amount": amount}), Count("ok"))


def test_an_old_copy_of_a_postgres_database_is_not_signed_either(postgres_url: str, tmp_path: Path) -> None:
    indelible.migrate(postgres_url, keys=tmp_path / "keys")
    name = urlsplit(postgres_url).path[1:]
    place: dict[str, Any] = {"keys": tmp_path / "keys", "seal": False}
    with Ledger.open(postgres_url, **place) as ledger:
        ledger.run(charge(), Count("ok"))
        ledger.seal()
    backup = f"{name}_backup"
    with psycopg.connect(postgres_url.replace(name, "postgres", 1), autocommit=True) as server:
        server.execute(f"CREATE DATABASE {backup} TEMPLATE {name}")
    try:
        with Ledger.open(postgres_url, **place) as ledger:
            ledger.run(charge(args={"amount": 6}), Count("ok"))
            ledger.seal()
        restored = {"url": postgres_url.replace(name, backup, 1), "keys": tmp_path / "keys"}
        go_on_without_keys(restored, [7])
        with Ledger.open(**restored, seal=False) as ledger:
            with pytest.raises(SignerRefused):
                ledger.seal()
            assert ledger.continue_journal().size == 5
    finally:
        with psycopg.connect(postgres_url.replace(name, "postgres", 1), autocommit=True) as server:
            server.execute(f"DROP DATABASE {backup} WITH (FORCE)")


def test_an_old_backup_that_grew_past_what_was_signed_is_not_signed_either(restored: dict[str, Any]) -> None:
    go_on_without_keys(restored, range(20, 30))
    with Ledger.open(**restored, seal=False) as ledger:
        with pytest.raises(SignerRefused):
            ledger.seal()
        assert covered(ledger) == 3


def test_a_signer_that_lost_its_memory_still_compares_with_the_heads_in_the_store(
    sqlite_url: str, tmp_path: Path
) -> None:
    place: dict[str, Any] = {"url": sqlite_url, "keys": tmp_path / "keys"}
    with Ledger.open(**place) as ledger:
        ledger.run(charge(), Count("ok"))
    for state in (tmp_path / "keys").glob("*/heads/*"):
        state.unlink()
    with Ledger.open(**place, seal=False) as ledger:
        connection = ledger._engine.store._writer  # type: ignore[attr-defined]
        connection.execute("UPDATE indelible_tiles SET hashes = zeroblob(96)")
        ledger.run(charge(args={"amount": 6}), Count("ok"))
        with pytest.raises(SignerRefused):
            ledger.seal()


def test_cosignatures_stay_when_another_process_signs_the_same_head(place: dict[str, Any]) -> None:
    with Ledger.open(**place, seal=False) as ledger:
        ledger.run(charge(), Count("ok"))
        note = ledger.seal()
        assert note is not None
        journal = ledger._engine.store.journal
        seen = Signature("witness.example", b"\1\2\3\4", bytes(72))
        head = parse_head(note.text)
        journal.keep_head(ledger.tenant, head, str(note.with_signatures([seen])), datetime.now(UTC))
        ledger._engine.notary.sealer()._sign(journal.tree(ledger.tenant))
        assert parse_note(journal.heads(ledger.tenant, 1)[0]).signatures == (*note.signatures, seen)


def test_a_head_that_no_key_of_the_journal_signed_is_passed_over(place: dict[str, Any]) -> None:
    """A stranger's head in the place of ours would keep our key from signing."""
    with Ledger.open(**place, seal=False) as ledger:
        ledger.run(charge(), Count("ok"))
        ours = ledger.seal()
        assert ours is not None
        size = covered(ledger)
        forged = replace(Log().to(size), origin=parse_head(ours.text).origin, secret=STRANGER).note
        journal = ledger._engine.store.journal
        journal.keep_head(ledger.tenant, parse_head(forged.text), str(forged), datetime.now(UTC))
        assert journal.heads(ledger.tenant, 1) == [str(forged)]
    with Ledger.open(**place, seal=False) as ledger:
        ledger.run(charge(run_id="order-2"), Count("ok"))
        newest = ledger.seal()
        assert newest is not None
        assert parse_head(newest.text).size == covered(ledger) > size


def test_going_on_after_a_loss_is_on_the_record(restored: dict[str, Any]) -> None:
    with Ledger.open(**restored, seal=False) as ledger:
        lost = ledger.continue_journal()
        assert lost.size == 11
        event = ledger.events(JOURNAL_RUN)[-1]
        assert event.type == "log_continued"
        assert event.read()["facts"]["lost"]["size"] == 11
        ledger.run(charge(args={"amount": 99}), Count("ok"))
        note = ledger.seal()
        assert note is not None
        assert parse_head(note.text).size == 8, "it was stopped before, and let go after"


def test_where_nothing_was_lost_there_is_nothing_to_declare(sqlite_url: str) -> None:
    with Ledger.open(sqlite_url, seal=False) as ledger:
        with pytest.raises(SignerRefused, match="nothing is lost"):
            ledger.continue_journal()
        ledger.run(charge(), Count("ok"))
        ledger.seal()
        ledger.run(charge(args={"amount": 6}), Count("ok"))
        with pytest.raises(SignerRefused, match="all that was signed is here, so nothing is lost"):
            ledger.continue_journal()
        assert not [event for event in ledger.events(JOURNAL_RUN) if event.type == "log_continued"]


# ── many at once ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_all_heads_of_two_sealing_ledgers_continue_each_other(place: dict[str, Any]) -> None:
    with Ledger.open(**place) as one, Ledger.open(**place) as other:
        for number in range(20):
            one.run(charge(args={"amount": number}, run_id="one"), Count("ok"), side_effect="payment")
            other.run(charge(args={"amount": number}, run_id="other"), Count("ok"), side_effect="payment")
        journal = one._engine.store.journal
        heads = [parse_head(parse_note(text).text) for text in reversed(journal.heads(one.tenant, 1000))]
        read = node_reader(lambda level, number: journal.tile(one.tenant, level, number))
        assert len(heads) > 20
        for old, new in itertools.pairwise(heads):
            assert is_consistent(old.size, old.root, new.size, new.root, consistency_proof(old.size, new.size, read))


# ── writers' own signatures ──────────────────────────────────────────────────────────────────────────────────────────


def check_signatures(ledger: Ledger, run_ids: list[str]) -> int:
    """Checks every event against the key its writer registered; gives the number of writers."""
    keys = {
        facts["writer"]: Ed25519PublicKey.from_public_bytes(b64decode(facts["key"]))
        for event in ledger.events(JOURNAL_RUN)
        if event.type == "writer_registered"
        for facts in [event.read()["facts"]]
    }
    for run_id in run_ids:
        events = ledger.events(run_id)
        assert events
        for event in events:
            assert event.signature is not None
            keys[event.read()["writer"]].verify(event.signature, signed_message(event.hash))
    return len(keys)


def test_each_event_carries_its_writers_signature_when_asked_for(place: dict[str, Any]) -> None:
    place |= {"sign_events": True, "seal": False}
    with Ledger.open(**place) as one, Ledger.open(**place) as other:
        one.run(charge(), Count("ok"))
        other.run(charge(run_id="order-2"), Count("ok"))
        assert check_signatures(one, ["order-1", "order-2"]) == 2
        one.seal()
        assert types_in(one).count("key_registered") == 1


def test_a_forked_child_signs_with_a_key_of_its_own(place: dict[str, Any]) -> None:
    with Ledger.open(**place, sign_events=True, seal=False) as ledger:
        ledger.run(charge(), Count("ok"))
        child = os.fork()
        if child == 0:
            ledger.run(charge(run_id="order-2"), Count("ok"))
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert check_signatures(ledger, ["order-1", "order-2"]) == 2


def test_without_asking_events_carry_none(place: dict[str, Any]) -> None:
    with Ledger.open(**place) as ledger:
        ledger.run(charge(), Count("ok"))
        assert [event.signature for event in ledger.events("order-1")] == [None, None]


# ── keys ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_rotation_is_on_the_record_of_every_tenant_and_both_keys_sign_it(place: dict[str, Any]) -> None:
    tenant = place.pop("tenant")
    with Ledger.open(**place, tenant=tenant) as one, Ledger.open(**place, tenant=f"{tenant}-b") as other:
        one.run(charge(), Count("ok"))
        other.run(charge(), Count("ok"))
        one.seal()
        other.seal()
        one.rotate_keys()
        for ledger in (one, other):
            assert "key_rotated" in types_in(ledger)
            (newest,) = ledger._engine.store.journal.heads(ledger.tenant, 1)
            assert len(parse_note(newest).signatures) == 2
        one.run(charge(args={"amount": 9}), Count("ok"))
        note = one.seal()
        assert note is not None
        assert len(note.signatures) == 1


def test_a_run_of_the_ledgers_own_is_closed_to_callers(place: dict[str, Any]) -> None:
    with pytest.raises(BadCall, match="belong to the ledger"):
        charge(run_id=JOURNAL_RUN)
    refused = pytest.raises(BadCall, match="belong to the ledger")
    with Ledger.open(**place) as ledger, refused, ledger.in_run(JOURNAL_RUN):
        raise AssertionError("this run was entered")
