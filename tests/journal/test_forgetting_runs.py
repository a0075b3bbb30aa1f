"""Forgetting runs: what was told of a run that is over goes, by wish or by age, and what is left says so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

import indelible
from indelible import Ledger, ToolCall
from indelible.core.approvals.deliveries import delivery_sheet, read_delivery
from indelible.core.commands import Keep
from indelible.core.effects.effect import SYSTEM
from indelible.core.remote.replies import KEPT_FOR, Reply, reply_sheet
from indelible.core.runs.run import side_effect_key
from indelible.core.sheets import SheetFilter
from indelible.errors import IllegalMove, OnHold, PolicyRefused, ReviewRequired, RunOver
from indelible.journal.evidence.live import LiveEvidence
from indelible.journal.evidence.verification import verify
from indelible.stores import is_postgres
from tests.journal.exported import key_of
from tests.journal.tampering import Database

CANARY = "CANARY-forget-me"
KEY = side_effect_key("mail", CANARY, "0" * 64)
NOW = timedelta(0)


@pytest.fixture
def ledger(store_url: str, tmp_path: Path) -> Iterator[Ledger]:
    """A ledger, once per kind of store."""
    indelible.migrate(store_url, keys=tmp_path / "keys")
    with Ledger.open(store_url, seal=False, keys=tmp_path / "keys", subject=customer_in) as opened:
        yield opened


def customer_in(args: Any) -> str | None:
    found: str | None = args.get("customer")
    return found


def work(ledger: Ledger, run_id: str = "lead-1", **words: Any) -> None:
    """Leaves a canary everywhere where something of a run is kept."""
    with ledger.start_run(run_id, agent="sales", intent=f"ask {CANARY}", permissions={"of": CANARY}, **words) as run:
        run.record("plan_locked", {"goal": CANARY}, step="plan")
        run.record("execution_succeeded", {"to": CANARY}, side_effect="notification", side_effect_key=KEY)
        run.artifact(f"file:{CANARY}")
        ledger.run(ToolCall(tool="note", args={"text": CANARY}, run_id=run_id), lambda effect: CANARY)
        run.checkpoint({"at": CANARY}, suggested=f"mail {CANARY}")
        run.fail(CANARY)
    again = ledger.resume_run(run_id)
    again.complete(f"thanks to {CANARY}")


def kept(ledger: Ledger, store_url: str, tmp_path: Path) -> bytes:
    """Gives every byte that the store has: the files as they are on disk, or all rows of all tables."""
    if not is_postgres(store_url):
        files = [path for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".pem"]
        return b"".join(path.read_bytes() for path in files)
    with psycopg.connect(store_url) as server:
        names = [row[0] for row in server.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")]
        return b"".join(row[0].encode() for name in names for row in server.execute(f"SELECT t::text FROM {name} t"))  # type: ignore[arg-type]


def has(dump: bytes, text: str) -> bool:
    """Is this text in a dump, as it is or as PostgreSQL writes bytes?"""
    return text.encode() in dump or text.encode().hex().encode() in dump


def look(ledger: Ledger) -> Any:
    ledger.seal()
    report = verify(LiveEvidence(ledger._engine.store, ledger.tenant), [key_of(ledger)], deep=True)
    assert report.verdict == "verified", report.why
    assert report.counts.payloads is not None
    return report.counts.payloads


def sheets(ledger: Ledger, kind: str) -> list[Any]:
    return ledger._engine.store.sheets(ledger.tenant, SheetFilter(kind=kind))


@pytest.mark.parametrize("how", ["erase", "prune"])
def test_nothing_of_a_run_that_is_over_is_left_and_the_record_verifies(
    ledger: Ledger, store_url: str, tmp_path: Path, how: str
) -> None:
    work(ledger)
    assert all(has(kept(ledger, store_url, tmp_path), text) for text in (CANARY, KEY))
    assert len(sheets(ledger, "mark")) == 1
    before = look(ledger)
    if how == "erase":
        report = ledger.erase(run_id="lead-1", by="ana", reason="request of 3 May")
    else:
        rehearsed = ledger.prune(NOW, by="cron", dry_run=True)
        report = ledger.prune(NOW, by="cron")
        assert rehearsed.erased == report.erased
    assert (report.kept, set(report.erased)) == ((), {"lead-1"})
    dump = kept(ledger, store_url, tmp_path)
    assert not has(dump, CANARY)
    assert not has(dump, KEY)
    assert sheets(ledger, "mark") == [], "a hash of a key could be tried out"
    after = look(ledger)
    assert (after.erased, after.missing) == (before.present, 0)


def test_an_erased_run_is_listed_and_says_so(ledger: Ledger) -> None:
    work(ledger)
    before = ledger.get_run("lead-1")
    ledger.prune(NOW, by="cron")
    run = ledger.get_run("lead-1")
    assert before is not None
    assert run is not None
    assert ledger.runs() == [run]
    assert (run.status, run.agent, run.intent, run.unread) == ("completed", "sales", "(erased)", "erased")
    assert (run.created_at, run.updated_at) == (before.created_at, before.updated_at)
    story = ledger.run_story("lead-1")
    assert (story.broken, story.altered) == (None, [])
    assert ledger.checkpoints("lead-1") == []
    report = ledger.verify_run("lead-1")
    assert report.is_valid


def test_nobody_goes_on_with_an_erased_run(ledger: Ledger) -> None:
    work(ledger)
    ledger.erase(run_id="lead-1", by="ana", reason="x")
    length = len(ledger.events("lead-1", limit=100))
    ways: list[Callable[[], Any]] = [
        lambda: ledger.resume_run("lead-1"),
        lambda: ledger.resume_run("lead-1", force=True),
        lambda: ledger.fork_run("lead-1"),
        lambda: ledger.export_packet("lead-1"),
        lambda: ledger.start_run("lead-1", agent="sales"),
        lambda: ledger.start_run("lead-2", agent="sales", parent="lead-1"),
        lambda: ledger.record("lead-1", "plan_locked", {"goal": 1}),
        lambda: ledger.checkpoint("lead-1", {"n": 1}),
        lambda: ledger.end_run("lead-1", "canceled", by="ana", reason="x"),
    ]
    for go_on in ways:
        with pytest.raises(RunOver, match="erased"):
            go_on()
    assert len(ledger.events("lead-1", limit=100)) == length


def test_a_run_that_had_limits_allows_nothing_when_nobody_can_read_them(ledger: Ledger) -> None:
    work(ledger, allowed_tools=["note"])
    ledger.erase(run_id="lead-1", by="ana", reason="x")
    for tool in ("note", "pay"):
        with pytest.raises(PolicyRefused, match="erased"):
            ledger.run(ToolCall(tool=tool, args={"n": 2}, run_id="lead-1"), lambda effect: pytest.fail("entered"))


def test_a_run_that_was_altered_is_not_called_erased_and_waits_for_somebody(ledger: Ledger, store_url: str) -> None:
    with suppress(OSError), ledger.start_run("lead-1", agent="sales", allowed_tools=["note"]):
        raise OSError
    database = Database(store_url)
    rows = database.rows("payloads")
    for row in rows:
        if row["field"] == "run":
            row["value"] = bytes(row["value"]).replace(b'["note"]', b'["pay"]')
    database.replace("payloads", rows)
    database.close()
    run = ledger.get_run("lead-1")
    assert run is not None
    assert (run.status, run.intent, run.unread) == ("failed", "(altered)", "altered")
    for go_on in (ledger.resume_run, ledger.fork_run, ledger.export_packet):
        with pytest.raises(ReviewRequired, match="runs verify"):
            go_on("lead-1")
    with pytest.raises(PolicyRefused):
        ledger.run(ToolCall(tool="pay", run_id="lead-1"), lambda effect: pytest.fail("entered"))
    assert not ledger.verify_run("lead-1").is_valid


# What is still needed


def test_a_run_that_can_be_resumed_keeps_what_it_is_gone_on_with(ledger: Ledger) -> None:
    with suppress(OSError), ledger.start_run("lead-1", agent="sales", state=lambda: {"n": 7}) as run:
        run.record("plan_locked", {"goal": CANARY}, side_effect="payment", side_effect_key="k")
        raise OSError
    assert ledger.prune(NOW, by="cron").count == 0, "nobody said that it is over"
    report = ledger.erase(run_id="lead-1", by="ana", reason="x")
    assert ["end it first: indelible runs cancel lead-1" in one.why for one in report.kept] == [True]
    assert report.erased == {"lead-1": 2}, "what was told, and why it failed"
    for field in ("run", "side_effect_key"):
        with pytest.raises(IllegalMove, match="cancel"):
            ledger.erase(run_id="lead-1", fields=[field], by="ana", reason="x")
    look(ledger)
    context = ledger.resume_run("lead-1").context
    assert context is not None
    assert (context.state, context.blocked_side_effect_keys) == ({"n": 7}, ["k"])
    assert ledger.erase(run_id="lead-1", fields=["state"], by="ana", reason="x").count == 1, "somebody named it"
    ledger.end_run("lead-1", "canceled", by="ana", reason="x")
    assert ledger.erase(run_id="lead-1", by="ana", reason="x").kept == ()


def test_what_was_told_of_a_run_that_nobody_started_goes_and_is_still_told_once(ledger: Ledger) -> None:
    ledger.record("lead-9", "execution_succeeded", {"to": CANARY}, side_effect="payment", side_effect_key="k")
    assert ledger.prune(NOW, by="cron").count == 0, "it has no end"
    ledger.erase(run_id="lead-9", by="ana", reason="x")
    again = ledger.record("lead-9", "execution_succeeded", {"to": "x"}, side_effect="payment", side_effect_key="k")
    assert again.status == "skipped"
    look(ledger)


def test_only_runs_that_ended_before_then_are_pruned_and_none_on_hold(ledger: Ledger) -> None:
    work(ledger, "lead-1")
    work(ledger, "lead-2")
    hold = ledger.hold(run_id="lead-2", by="legal", reason="lawsuit")
    assert ledger.prune(timedelta(hours=1), by="cron").count == 0
    report = ledger.prune(NOW, by="cron")
    assert set(report.erased) == {"lead-1"}
    assert [(one.run_id, hold.id in one.why) for one in report.kept] == [("lead-2", True)]
    with pytest.raises(OnHold):
        ledger.erase(run_id="lead-2", by="ana", reason="x")
    assert ledger.prune(NOW, by="cron").count == 0
    ledger.lift_hold(hold.id, by="legal", reason="settled")
    assert set(ledger.prune(NOW, by="cron").erased) == {"lead-2"}


def test_pruning_that_was_cut_off_goes_on_where_it_was(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a run is found by goes last."""
    work(ledger)
    from indelible.journal.erasures import erasing

    monkeypatch.setattr("indelible.core.privacy.forgetting.MOST_AT_ONCE", 5)
    portions, done = erasing.portions, []

    def first_only(payloads: Any) -> Any:
        done.append(portions(payloads))
        return done[-1][:1]

    with monkeypatch.context() as patch:
        patch.setattr(erasing, "portions", first_only)
        ledger.prune(NOW, by="cron")
    assert any(len(one) > 2 for one in done)
    run = ledger.get_run("lead-1")
    assert run is not None
    assert run.unread is None
    ledger.prune(NOW, by="cron")
    assert ledger.prune(NOW, by="cron").count == 0
    assert look(ledger).missing == 0


# Calls that never were effects, and messages

POLICY: dict[str, Any] = {
    "people": {"ana": {}, "bo": {}},
    "approvals": {"notify": "nobody"},
    "rules": [
        {"name": "never", "match": {"tool": "drop"}, "then": "refuse"},
        {"name": "somebody", "match": {"tool": "wire"}, "then": "ask"},
        {"name": "all else", "then": "allow"},
    ],
}


def test_calls_that_were_refused_are_pruned_unless_on_hold(ledger: Ledger, store_url: str, tmp_path: Path) -> None:
    ledger.apply_policy(POLICY, by="ana")
    for customer, run_id in (("ada", "order-1"), ("bob", "order-1"), ("ada", "order-2"), ("ada", "order-3")):
        call = ToolCall(tool="drop", args={"customer": customer, "note": f"{CANARY} {customer}"}, run_id=run_id)
        with pytest.raises(PolicyRefused):
            ledger.run(call, lambda effect: None)
    ledger.record("order-1", "policy_checked", {"mine": 1})
    person, run = ledger.hold(subject="bob", by="legal", reason="x"), ledger.hold(run_id="order-3", by="l", reason="x")
    assert ledger.prune(timedelta(hours=1), by="cron").count == 0
    report = ledger.prune(NOW, by="cron")
    assert report.erased == {"order-1": 3, "order-2": 3}
    assert [hold.id in one.why for hold, one in zip((person, run), report.kept, strict=True)] == [True, True]
    assert ledger.prune(NOW, by="cron").count == 0
    assert f"{CANARY} bob" in _values(ledger, "order-1")
    assert '{"mine":1}' in _values(ledger, "order-1"), "somebody told it by hand"
    with pytest.raises(OnHold, match=person.id):
        ledger.erase(run_id="order-1", fields=["args"], by="ana", reason="x")
    for hold in (person, run):
        ledger.lift_hold(hold.id, by="legal", reason="x")
    assert ledger.prune(NOW, by="cron").erased == {"order-1": 3, "order-3": 3}
    assert not has(kept(ledger, store_url, tmp_path), CANARY)
    look(ledger)


def _values(ledger: Ledger, run_id: str) -> str:
    seqs = [event.seq for event in ledger.events(run_id)]
    return "\n".join(
        payload.value.decode("utf-8", "replace")
        for payload in ledger._engine.store.payloads(ledger.tenant, run_id, seqs)
    )


def test_messages_about_what_was_decided_are_dropped_once_they_went(
    ledger: Ledger, store_url: str, tmp_path: Path
) -> None:
    ledger.apply_policy(POLICY, by="ana")
    asked = []
    for number in range(4):
        call = ToolCall(tool="wire", args={"n": number}, run_id="order-1")
        with pytest.raises(indelible.errors.ApprovalPending):
            ledger.run(call, lambda effect: None, wait=False)
    asked = sorted(ledger.approvals(), key=lambda one: one.id)
    for one in asked[:3]:
        ledger.deny(one.id, by="bo", reason="no")
    for sheet in sheets(ledger, "delivery"):
        delivery, engine = read_delivery(sheet), ledger._engine
        if delivery.approval_id == asked[2].id:
            continue  # nobody has sent these
        gone = delivery.sent({"seen": CANARY}) if delivery.approval_id != asked[1].id else _given_up(delivery)
        engine.writer.do(Keep(tenant="default", stamp=engine.mint.stamp(SYSTEM, 0), sheet=delivery_sheet(gone)))
    known = sheets(ledger, "delivery")
    assert has(kept(ledger, store_url, tmp_path), CANARY)
    assert ledger.prune(timedelta(hours=1), by="cron").remarks == ()
    assert "4" in ledger.prune(NOW, by="cron", dry_run=True).remarks[0]
    assert len(sheets(ledger, "delivery")) == len(known)
    assert "dropped too: 4" in ledger.prune(NOW, by="cron").remarks[0]
    left = {read_delivery(sheet).approval_id for sheet in sheets(ledger, "delivery")}
    assert left == {asked[2].id, asked[3].id}, "what was not sent stays, and what is about an open question"
    look(ledger)


def test_replies_of_a_server_are_dropped_when_they_were_kept_long_enough(ledger: Ledger) -> None:
    engine, now = ledger._engine, datetime.now(UTC)
    for name, age in (("old", KEPT_FOR + timedelta(hours=2)), ("recent", timedelta(hours=1))):
        reply = Reply(id=f"rep_{name}", request="0" * 64, begun_at=now - age)
        for one in (reply, reply.answered(CANARY)):
            engine.writer.do(Keep(tenant="default", stamp=engine.mint.stamp(SYSTEM, 0), sheet=reply_sheet(one)))
    assert ledger.prune(timedelta(hours=3), by="cron").remarks == ()
    assert "dropped too: 1" in ledger.prune(NOW, by="cron").remarks[0]
    assert [sheet.id for sheet in sheets(ledger, "reply")] == ["rep_recent"]


def _given_up(delivery: Any) -> Any:
    return delivery.failed(CANARY, datetime.now(UTC), is_final=True)
