"""Forgetting: what is erased is gone from the files, the record still verifies and says so, and nothing runs again."""

from __future__ import annotations

import asyncio
import random
import re
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest

import indelible
from indelible import AsyncLedger, Claimed, Ledger, MayHaveHappened, Succeeded, ToolCall
from indelible.core.effects.effect import ERASED_DIGEST
from indelible.core.journal.chain import Intact, check_chain
from indelible.core.privacy.forgetting import MOST_AT_ONCE
from indelible.engine.upkeep import Upkeep
from indelible.errors import BadCall, EffectErased, EffectFailed, IllegalMove, OnHold
from indelible.journal.evidence.verification import verify
from indelible.journal.exports.exporting import export
from indelible.stores import is_postgres
from tests.stores.database import open_file

CANARY = "CANARY-forget-me"


@pytest.fixture
def ledger(store_url: str) -> Iterator[Ledger]:
    """A ledger that seals, for a tenant of its own, once per kind of store."""
    indelible.migrate(store_url)
    with Ledger.open(store_url, tenant=f"t-{uuid4().hex[:8]}", seal=True, subject="args.customer") as opened:
        yield opened


def pay(customer: str = "ada", run_id: str = "order-1", **args: Any) -> ToolCall:
    return ToolCall(tool="pay", args={"customer": customer, "note": CANARY, **args}, run_id=run_id)


def do(ledger: Ledger, call: ToolCall, value: Any = None) -> Any:
    """Runs a call whose result is a secret too."""
    return ledger.run(call, lambda effect: value or {"receipt": CANARY}, side_effect="write")


def doubt(ledger: Ledger, call: ToolCall) -> None:
    def leave(effect: Any) -> None:
        raise MayHaveHappened("?")

    with pytest.raises(MayHaveHappened):
        ledger.run(call, leave)


def payloads(ledger: Ledger, run_id: str = "order-1") -> set[tuple[int, str]]:
    store = ledger._engine.store
    seqs = [event.seq for event in ledger.events(run_id)]
    return {(payload.seq, payload.field) for payload in store.payloads(ledger.tenant, run_id, seqs)}


def facts(ledger: Ledger, run_id: str = "order-1", kind: str = "payload_erased") -> list[dict[str, Any]]:
    return [event.read()["facts"] for event in ledger.events(run_id) if event.type == kind]


# ── by event, by run ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_field_an_event_or_a_run_is_erased_and_the_record_names_it(ledger: Ledger) -> None:
    do(ledger, pay())
    assert payloads(ledger) == {(0, "args"), (0, "key"), (0, "subject"), (1, "result")}
    report = ledger.erase(run_id="order-1", seq=0, fields=["args"], by="ana", reason="request of 3 May")
    assert (report.count, report.kept) == (1, ())
    assert facts(ledger) == [{"basis": "request", "erased": [{"fields": ["args"], "seq": 0}]}]
    ledger.erase(run_id="order-1", seq=1, by="ana", reason="more")
    assert payloads(ledger) == {(0, "key"), (0, "subject"), (2, "reason"), (3, "reason")}
    ledger.erase(run_id="order-1", by="ana", reason="all")
    assert payloads(ledger) == {(4, "reason")}, "the reasons of earlier erasures go too, the newest is there"
    assert isinstance(check_chain(ledger.events("order-1"), "order-1"), Intact)
    actor = ledger.events("order-1")[-1].read()["actor"]
    assert (actor["id"], actor["kind"]) == ("ana", "person")


def test_erasing_what_is_gone_already_writes_nothing(ledger: Ledger) -> None:
    do(ledger, pay())
    ledger.erase(run_id="order-1", seq=1, by="ana", reason="x")
    before = len(ledger.events("order-1"))
    assert ledger.erase(run_id="order-1", seq=1, by="ana", reason="x").count == 0
    assert len(ledger.events("order-1")) == before


@pytest.mark.parametrize(
    "words",
    [
        {"run_id": "nobody"},
        {"run_id": "order-1", "seq": 99},
        {"run_id": "order-1", "seq": 0, "fields": ["arguments"]},
        {"run_id": "order-1", "fields": "args"},
        {},
        {"run_id": "order-1", "subject": "ada"},
        {"subject": "ada", "seq": 0},
        {"run_id": "order-1", "force": True},
        {"run_id": "order-1", "reason": ""},
        {"subject": 80},
        {"run_id": 80},
    ],
)
def test_a_slip_of_the_pen_erases_nothing(ledger: Ledger, words: dict[str, Any]) -> None:
    do(ledger, pay())
    with pytest.raises(BadCall):
        ledger.erase(**{"by": "ana", "reason": "x", **words})
    assert len(payloads(ledger)) == 4


def test_many_payloads_are_told_by_several_events(ledger: Ledger) -> None:
    total = MOST_AT_ONCE // 4 + 2
    for number in range(total):
        do(ledger, pay(n=number))
    report = ledger.erase(run_id="order-1", by="ana", reason="all")
    assert report.count == 4 * total
    told = facts(ledger)
    assert len(told) == 2
    assert sum(len(part["fields"]) for event in told for part in event["erased"]) == report.count


# ── what is still needed ─────────────────────────────────────────────────────────────────────────────────────────────


def test_what_is_open_asked_or_in_doubt_is_kept_with_the_reason(ledger: Ledger) -> None:
    doubt(ledger, pay(n=1))
    ledger.begin(pay(n=2), approval="required")
    claimed = ledger.begin(pay(n=3))
    with pytest.raises(IllegalMove, match="settle it first"):
        ledger.erase(run_id="order-1", seq=0, by="ana", reason="x")
    do(ledger, pay(n=4))
    report = ledger.erase(run_id="order-1", by="ana", reason="x")
    assert report.count == 4
    assert {kept.why.split(";")[0] for kept in report.kept} == {
        "it is in doubt and needs its arguments",
        "it is requires_approval and needs its arguments",
        "its handler may be running",
    }
    assert isinstance(claimed, Claimed)
    ledger.commit(claimed.claim, Succeeded("done"))
    assert ledger.erase(run_id="order-1", by="ana", reason="x").count >= 4


def test_a_persons_request_withdraws_what_waits_if_told_to(ledger: Ledger) -> None:
    ledger.begin(pay(), approval="required")
    with pytest.raises(IllegalMove, match="cancel it first"):
        ledger.erase(subject="ada", by="ana", reason="x")
    report = ledger.erase(subject="ada", by="ana", reason="x", force=True)
    assert report.count == 6, "arguments, key, subject, the question twice, and the reason of the withdrawal"
    (effect,) = ledger.effects()
    assert effect.status == "canceled"
    doubt(ledger, pay("bob"))
    rehearsed = ledger.erase(subject="bob", by="ana", reason="x", force=True, dry_run=True)
    assert (rehearsed.count, ["settle it first" in one.why for one in rehearsed.kept]) == (0, [True])
    with pytest.raises(IllegalMove, match="settle it first"):
        ledger.erase(subject="bob", by="ana", reason="x", force=True)


def test_a_rehearsal_says_what_would_go_and_writes_nothing(ledger: Ledger) -> None:
    do(ledger, pay(run_id="order-2"))
    ledger.begin(pay(), approval="required")
    before = [[event.hash for event in ledger.events(run_id)] for run_id in ("order-1", "order-2")]
    (kept,) = ledger.erase(subject="ada", by="ana", reason="x", dry_run=True).kept
    assert "cancel it first" in kept.why
    rehearsed = ledger.erase(subject="ada", by="ana", reason="x", force=True, dry_run=True)
    assert (rehearsed.kept, rehearsed.is_rehearsal) == ((), True)
    one = ledger.erase(run_id="order-2", seq=0, fields=["args"], by="ana", reason="x", dry_run=True)
    assert [[event.hash for event in ledger.events(run_id)] for run_id in ("order-1", "order-2")] == before
    assert payloads(ledger, "order-2")
    assert dict(one.erased) == dict(ledger.erase(run_id="order-2", seq=0, fields=["args"], by="ana", reason="x").erased)
    really = ledger.erase(subject="ada", by="ana", reason="x", force=True)
    withdrawal = 2  # the reason of the withdrawal, and the question as it is then
    assert really.count == rehearsed.count - one.count + withdrawal
    ledger.hold(run_id="order-2", by="legal", reason="x")
    with pytest.raises(OnHold):
        ledger.erase(run_id="order-2", by="ana", reason="x", dry_run=True)


# ── by subject ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_everything_about_a_person_goes_in_all_runs_and_nothing_else(ledger: Ledger) -> None:
    for run_id in ("order-1", "order-2"):
        for customer in ("ada", "bob"):
            do(ledger, pay(customer, run_id))
    report = ledger.erase(subject="ada", by="ana", reason="request of 3 May")
    assert report.erased == {"order-1": 4, "order-2": 4}
    assert facts(ledger)[0]["basis"] == "subject"
    left = [effect for effect in ledger.effects() if not effect.are_args_erased]
    assert {effect.args["customer"] for effect in left} == {"bob"}
    assert len(left) == 2
    assert ledger.erase(subject="ada", by="ana", reason="again").count == 0


def test_a_subject_is_a_path_a_function_or_nothing(ledger: Ledger) -> None:
    do(ledger, pay("bob"))
    ledger.run(pay(who=7), lambda effect: 1, subject="args.who")
    ledger.run(pay(who=8), lambda effect: 1, subject=lambda args: args["who"])
    ledger.run(pay(who=9), lambda effect: 1, subject=lambda args: None)
    assert ledger.erase(subject="7", by="ana", reason="x").count == 4
    assert ledger.erase(subject="8", by="ana", reason="x").count == 4
    assert ledger.erase(subject="9", by="ana", reason="x").count == 0
    with pytest.raises(BadCall, match="subject"):
        ledger.run(pay(), lambda effect: 1, subject="args.nobody")


def test_the_subject_itself_is_not_in_the_index(ledger: Ledger) -> None:
    do(ledger, pay("ada-lovelace"))
    store = ledger._engine.store
    (subject,) = (p for p in store.payloads(ledger.tenant, "order-1", [0]) if p.field == "subject")
    assert re.fullmatch(rb'"[0-9a-f]{64}"', subject.value)


# ── by age ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_pruning_erases_what_ended_long_ago_and_rehearses_first(ledger: Ledger) -> None:
    for number in range(3):
        do(ledger, pay(n=number))
    doubt(ledger, pay(n=7))
    old = datetime.now(UTC)
    do(ledger, pay(n=8))
    rehearsal = ledger.prune(old, by="ana", dry_run=True)
    assert (rehearsal.count, rehearsal.is_rehearsal) == (12, True)
    assert facts(ledger) == []
    report = ledger.prune(old, by="ana")
    assert (report.count, report.kept) == (12, ())
    assert facts(ledger)[0]["basis"] == "retention"
    assert ledger.prune(old, by="ana").count == 0
    assert {effect.args["n"] for effect in ledger.effects() if not effect.are_args_erased} == {7, 8}
    assert ledger.prune(timedelta(days=90), by="ana").count == 0


@pytest.mark.parametrize("before", [datetime(2020, 1, 1), timedelta(days=-1), datetime(2999, 1, 1, tzinfo=UTC)])  # noqa: DTZ001
def test_an_age_that_makes_no_sense_is_refused(ledger: Ledger, before: Any) -> None:
    do(ledger, pay())
    with pytest.raises(BadCall, match="before"):
        ledger.prune(before, by="ana")


@pytest.mark.parametrize("ahead", [timedelta(days=365), timedelta(days=-365)])
def test_76_what_may_go_by_its_age_is_decided_by_the_store_s_clock(
    ledger: Ledger, ahead: timedelta, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One worker whose clock was a year ahead erased what had ended a minute ago."""

    class Wrong(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return datetime.now(tz) + ahead

    do(ledger, pay())
    told: list[object] = []
    monkeypatch.setattr("indelible.engine.mint.datetime", Wrong)
    upkeep = Upkeep(ledger, lambda: [ledger.tenant], tell=lambda *words: told.append(words), retain=timedelta(days=90))
    upkeep.go(1000.0)
    assert told == []
    assert ledger.prune(timedelta(days=90), by="ana").count == 0
    with pytest.raises(BadCall, match="in the past"):
        ledger.prune(datetime.now(UTC) + timedelta(days=300), by="ana")
    assert len(payloads(ledger)) == 4
    assert ledger.prune(timedelta(0), by="ana").count == 4


# ── holds ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_hold_on_a_run_keeps_it_until_it_is_lifted(ledger: Ledger) -> None:
    do(ledger, pay())
    do(ledger, pay(run_id="order-2"))
    hold = ledger.hold(run_id="order-1", by="legal", reason="lawsuit")
    assert ledger.holds() == [hold]
    for attempt in ({"run_id": "order-1"}, {"run_id": "order-1", "seq": 0}, {"subject": "ada"}):
        with pytest.raises(OnHold, match=hold.id):
            ledger.erase(**attempt, by="ana", reason="x")
    report = ledger.prune(timedelta(0), by="ana")
    assert report.erased == {"order-2": 4}
    assert [kept.run_id for kept in report.kept] == ["order-1"]
    ledger.lift_hold(hold.id, by="legal", reason="settled")
    assert ledger.holds() == []
    assert ledger.erase(run_id="order-1", by="ana", reason="x").count == 6
    assert [event.type for event in ledger.events("order-1")][2:] == ["hold_placed", "hold_lifted", "payload_erased"]


def test_a_hold_on_a_person_keeps_what_is_about_them_wherever_it_is(ledger: Ledger) -> None:
    do(ledger, pay("ada"))
    do(ledger, pay("bob"))
    hold = ledger.hold(subject="ada", by="legal", reason="lawsuit")
    with pytest.raises(OnHold, match=hold.id):
        ledger.erase(subject="ada", by="ana", reason="x")
    with pytest.raises(OnHold, match=hold.id):
        ledger.erase(run_id="order-1", seq=1, by="ana", reason="x")
    assert ledger.erase(run_id="order-1", by="ana", reason="x").count == 4
    assert ledger.prune(timedelta(0), by="ana").count == 0
    (left,) = (effect for effect in ledger.effects() if not effect.are_args_erased)
    assert left.args["customer"] == "ada"
    ledger.lift_hold(hold.id, by="legal", reason="settled")
    assert ledger.erase(subject="ada", by="ana", reason="x").count == 4


def test_holds_need_one_thing_and_a_reason(ledger: Ledger) -> None:
    for words in ({}, {"run_id": "a", "subject": "b"}, {"run_id": "a", "reason": ""}, {"run_id": "indelible:journal"}):
        with pytest.raises(BadCall):
            ledger.hold(**{"by": "legal", "reason": "x", **words})
    with pytest.raises(BadCall, match="hold list"):
        ledger.lift_hold("hold_nothing", by="legal", reason="x")


# ── afterwards ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_erased_result_is_refused_by_its_name_on_every_path(ledger: Ledger) -> None:
    do(ledger, pay())
    (effect,) = ledger.effects()
    ledger.erase(run_id="order-1", by="ana", reason="x")
    entered = threading.Event()
    for again in (
        lambda: ledger.run(pay(), lambda effect: entered.set()),
        lambda: ledger.begin(pay()),
        lambda: ledger.effects()[0].args,
        lambda: ledger.effects()[0].outcome,
        lambda: ledger.effects()[0].detail,
    ):
        with pytest.raises(EffectErased, match="erased"):
            again()
    assert not entered.is_set()
    after = ledger.get_effect(effect.id)
    assert after is not None
    assert (after.status, after.key, after.digest) == ("succeeded", effect.key, ERASED_DIGEST)
    with pytest.raises(IllegalMove):
        ledger.retry(effect.id, by="ana")


def test_an_erased_failure_still_fails_and_is_not_tried_again(ledger: Ledger) -> None:
    def fail(effect: Any) -> None:
        raise ValueError(CANARY)

    with pytest.raises(ValueError, match=CANARY):
        ledger.run(pay(), fail, failed_on=ValueError)
    ledger.erase(run_id="order-1", by="ana", reason="x")
    with pytest.raises(EffectFailed, match=r"\(erased\)"):
        ledger.run(pay(), fail)
    with pytest.raises(IllegalMove, match="erased"):
        ledger.retry(ledger.effects()[0].id, by="ana")


def test_what_waits_without_its_arguments_never_runs(ledger: Ledger, store_url: str) -> None:
    """Somebody deleted them behind our back, or allowed a retry at the very moment of the erasure."""
    doubt(ledger, pay())
    (effect,) = ledger.effects()
    ledger.retry(effect.id, by="ana")
    _delete_args(store_url)
    with pytest.raises(EffectErased, match="cannot be attempted"):
        ledger.run(pay(), lambda effect: pytest.fail("entered"))


def _delete_args(url: str) -> None:
    statement = "DELETE FROM indelible_payloads WHERE field = 'args'"
    if is_postgres(url):
        with psycopg.connect(url) as server:
            server.execute(statement)
    else:
        connection = open_file(url)
        connection.execute(statement)
        connection.close()


def test_verification_stays_green_and_says_erased(ledger: Ledger, store_url: str, tmp_path: Path) -> None:
    for customer in ("ada", "bob"):
        do(ledger, pay(customer))
    ledger.erase(subject="ada", by="ana", reason="request of 3 May")
    ledger.hold(subject="bob", by="legal", reason="lawsuit")
    note = ledger.seal()
    assert note is not None
    key = _key_of(ledger)
    store = ledger._engine.store
    for form in ("bundle", "ndjson"):
        export(store, ledger.tenant, tmp_path / form, form=form)  # type: ignore[arg-type]
        report = verify(tmp_path / form, [key])
        assert report.verdict == "verified", report.why
        assert "erased" in repr(report)
    _delete_args(store_url)
    export(store, ledger.tenant, tmp_path / "cut", form="bundle")
    assert verify(tmp_path / "cut", [key]).verdict == "tampered", "gone without a word on the record"


def _key_of(ledger: Ledger) -> str:
    (key,) = {e.read()["facts"]["key"] for e in ledger.events("indelible:journal") if e.type == "key_registered"}
    return str(key)


def test_the_asynchronous_ledger_has_the_same_verbs(store_url: str) -> None:
    indelible.migrate(store_url)
    asyncio.run(_forget_in_a_loop(store_url))


async def _forget_in_a_loop(store_url: str) -> None:
    tenant = f"t-{uuid4().hex[:8]}"
    async with AsyncLedger.open(store_url, tenant=tenant, seal=False, subject="args.customer") as ledger:
        await ledger.run(pay(), lambda effect: CANARY)
        hold = await ledger.hold(subject="ada", by="legal", reason="x")
        assert await ledger.holds() == [hold]
        with pytest.raises(OnHold):
            await ledger.erase(subject="ada", by="ana", reason="x")
        await ledger.lift_hold(hold.id, by="legal", reason="x")
        assert (await ledger.prune(timedelta(0), by="ana", dry_run=True)).count == 4
        assert (await ledger.erase(run_id="order-1", by="ana", reason="x")).count == 4


# ── nowhere ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_is_erased_is_nowhere_in_the_files_of_sqlite(sqlite_url: str, tmp_path: Path) -> None:
    """Pages are split and rows moved many times before, which leaves copies in the space between rows."""
    chance = random.Random(7)
    sizes = (10, 60, 300, 900, 3000, 9000)
    with Ledger.open(sqlite_url, seal=False, subject="args.customer") as ledger:
        for number in range(400):
            filler = "x" * chance.choice(sizes)
            call = pay(f"c{number % 10}", f"run-{chance.randrange(20)}", note=f"CANARY-{number % 10}-{number}-{filler}")
            do(ledger, call, {"echo": f"CANARY-{number % 10}-{number}-{filler}"})
        assert _canaries(tmp_path, "3")
        ledger.erase(subject="c3", by="ana", reason="x")
        assert not _canaries(tmp_path, "3"), "while the ledger is open, its log included"
        assert _canaries(tmp_path, "4")
    assert not _canaries(tmp_path, "3")


def _canaries(folder: Path, customer: str) -> set[bytes]:
    pattern = re.compile(rb"CANARY-%b-\d+" % customer.encode())
    return {found for path in folder.rglob("*") if path.is_file() for found in pattern.findall(path.read_bytes())}


def test_overwriting_alone_leaves_copies_where_pages_were_split_and_rebuilding_does_not(
    sqlite_url: str, tmp_path: Path
) -> None:
    """Written straight into the table, for it takes thousands of rows of mixed sizes until a copy is left behind."""
    chance = random.Random(1)
    with Ledger.open(sqlite_url, seal=False) as ledger:
        store: Any = ledger._engine.store
        with store._write_connection() as connection:
            connection.execute("BEGIN")
            for number in range(20_000):
                place = (f"run-{chance.randrange(300):04}", number)
                value = b"CANARY-%d-%d" % (number % 4, number) + b"x" * chance.choice((0, 40, 190, 890, 2990, 8990))
                connection.execute(
                    "INSERT INTO indelible_payloads VALUES ('t', ?, ?, 'args', zeroblob(32), ?, NULL)", (*place, value)
                )
            connection.execute("COMMIT")
            connection.execute("DELETE FROM indelible_payloads WHERE seq % 4 = 3")
        assert "rewrite" in store.forgetting.clear_away(False)[0]
        assert _canaries(tmp_path, "3"), (
            "SQLite overwrites every copy now: an erasure need not rebuild the file any more"
        )
        assert store.forgetting.clear_away(None) == []
        assert not _canaries(tmp_path, "3")
        assert len(_canaries(tmp_path, "2")) == 5000


def test_without_a_rewrite_copies_may_stay_and_that_is_said(sqlite_url: str) -> None:
    with Ledger.open(sqlite_url, seal=False) as ledger:
        do(ledger, pay())
        report = ledger.erase(run_id="order-1", by="ana", reason="x", rewrite=False)
    assert "rewrite" in report.remarks[0]


def test_without_a_rewrite_deleted_rows_are_overwritten_all_the_same(sqlite_url: str, tmp_path: Path) -> None:
    with Ledger.open(sqlite_url, seal=False) as ledger:
        do(ledger, pay(note="CANARY-1-1"))
        assert _canaries(tmp_path, "1")
        ledger.erase(run_id="order-1", by="ana", reason="x", rewrite=False)
        assert not _canaries(tmp_path, "1")


def test_an_erasure_that_was_cut_off_can_be_finished(sqlite_url: str, tmp_path: Path) -> None:
    """The rows are gone, but their process died before it rebuilt the file."""
    with Ledger.open(sqlite_url, seal=False, subject="args.customer") as ledger:
        do(ledger, pay())
        ledger.erase(run_id="order-1", by="ana", reason="x", rewrite=False)
        calls: list[bool | None] = []
        store: Any = ledger._engine.store
        store.forgetting.clear_away = lambda rewrite: calls.append(rewrite) or []
        assert ledger.erase(subject="ada", by="ana", reason="x").count == 0
        assert ledger.prune(timedelta(0), by="ana", dry_run=True, rewrite=True).count == 0
        assert calls == []
        ledger.erase(subject="ada", by="ana", reason="x", rewrite=True)
        ledger.prune(timedelta(0), by="ana", rewrite=True)
        assert calls == [True, True]


def test_a_reader_that_keeps_the_log_is_told_about(sqlite_url: str, tmp_path: Path) -> None:
    with Ledger.open(sqlite_url, seal=False) as ledger:
        do(ledger, pay())
        reader = open_file(sqlite_url)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM indelible_events").fetchall()
        ledger._engine.store._writer.set_busy_timeout(0)  # type: ignore[attr-defined]
        report = ledger.erase(run_id="order-1", by="ana", reason="x")
        assert "log" in report.remarks[0]
        reader.execute("COMMIT")
        reader.close()
    assert CANARY.encode() not in b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


def test_what_is_erased_is_nowhere_in_the_tables_of_postgresql(postgres_url: str, postgres_server: Any) -> None:
    indelible.migrate(postgres_url)
    big = CANARY + "".join(uuid4().hex for _ in range(2000))  # too large for its row, so it is kept aside
    with Ledger.open(postgres_url, seal=False) as ledger:
        do(ledger, pay(note=big), {"echo": big})
        do(ledger, pay(note="small " + CANARY))
        plain = ledger.erase(run_id="order-1", seq=0, by="ana", reason="x")
        assert "VACUUM FULL" in plain.remarks[0]
        # Other tests may have left a transaction behind that still runs: then it says so, and is asked again.
        rewritten = ledger.erase(run_id="order-1", by="ana", reason="x", rewrite=True)
        while len(rewritten.remarks) > 1:
            assert "has been open since before" in rewritten.remarks[0]
            rewritten = ledger.erase(run_id="order-1", by="ana", reason="x", rewrite=True)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("CHECKPOINT")
        paths = connection.execute(
            "SELECT pg_relation_filepath(oid), pg_relation_filepath(reltoastrelid) FROM pg_class "
            "WHERE relname = 'indelible_payloads'"
        ).fetchone()
    assert paths is not None
    for path in paths:
        assert CANARY.encode() not in (Path(postgres_server.data) / path).read_bytes()


def test_a_transaction_that_may_still_see_it_is_told(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, postgres_server: Any
) -> None:
    indelible.migrate(postgres_url)
    with Ledger.open(postgres_url, seal=False) as ledger, psycopg.connect(postgres_server.url) as elsewhere:
        do(ledger, pay())
        elsewhere.execute("SELECT pg_current_xact_id()")
        monkeypatch.setattr(ledger._engine.store.forgetting, "_seconds", 0.2)
        report = ledger.erase(run_id="order-1", by="ana", reason="x", rewrite=True)
        assert "has been open since before" in report.remarks[0]
        elsewhere.rollback()
        assert len(ledger.erase(run_id="order-1", by="ana", reason="x", rewrite=True).remarks) == 1


def test_a_user_who_may_not_vacuum_is_told_so(postgres_url: str) -> None:
    indelible.migrate(postgres_url)
    role = f"writer_{uuid4().hex[:8]}"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {role} LOGIN")
        connection.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role}")
        connection.execute(f"GRANT ALL ON SCHEMA public TO {role}")
    try:
        with Ledger.open(postgres_url.replace("postgres@", f"{role}@"), seal=False) as ledger:
            do(ledger, pay())
            for rewrite in (None, True):
                seq = 0 if rewrite is None else 1
                report = ledger.erase(run_id="order-1", seq=seq, by="ana", reason="x", rewrite=rewrite)
                assert "may not VACUUM" in report.remarks[0]
            assert payloads(ledger) == {(2, "reason"), (3, "reason")}
    finally:
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute(f"DROP OWNED BY {role}")
            connection.execute(f"DROP ROLE {role}")
