"""Sheets on PostgreSQL: how many statements, which indexes, who waits for whom, and what is true after a loss."""

from __future__ import annotations

import contextlib
import random
import re
import select
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest

from indelible import Ledger, ToolCall
from indelible.core.approvals.approval import Need
from indelible.core.commands import (
    Answer,
    AwaitingApproval,
    Claimed,
    Command,
    Decided,
    Keep,
    Kept,
    Moved,
    Outrun,
    OverBudget,
    Recorded,
)
from indelible.core.effects.effect import Effect
from indelible.core.policy.budgets import read_budget
from indelible.core.policy.verdicts import ALLOWED, Charge, Verdict
from indelible.core.sheets import Sheet, SheetFilter
from indelible.engine import judging
from indelible.stores.postgres import PostgresStore
from indelible.stores.postgres.connections import Session
from indelible.stores.postgres.sheets import listing
from indelible.stores.postgres.statements import SQL
from indelible.stores.postgres.transitions import Locked, View
from indelible.testing.commands import asking
from tests.stores.postgres.disturbing import (
    Traffic,
    check_chain,
    cut_connection,
    lose_while_it_waits,
    writer_pid,
)
from tests.stores.postgres.making import TENANT, approval, ask, claim, do, finish, opening, recording, settle, stamp
from tests.waiting import PATIENCE, eventually

WRITTEN = "write_batch_with_sheets"
MOVED = "move_one_with_sheets"
LISTED = listing(TENANT, SheetFilter(kind="approval", id="apr_1", limit=1))[0].name.decode().removeprefix("indelible_")
UNDER_LOCK = ["BEGIN", "lock_sheets", "lock_runs", "lock_effects", "look_with_sheets", WRITTEN, "COMMIT"]


def charged(amount: int, *budgets: str, limit: int = 5) -> Verdict:
    day = timedelta(days=1)
    names = budgets or ("shared",)
    charges = (Charge(budget=name, limit=Decimal(limit), window=day, amount=Decimal(amount)) for name in names)
    return replace(ALLOWED, charges=tuple(charges))


def message(name: str) -> Sheet:
    return Sheet(kind="delivery", id=name, status="due", topic="chat", body=b'{"n":1}')


def keep(sheet: Sheet) -> Keep:
    return Keep(tenant=TENANT, stamp=stamp(), sheet=sheet)


def changed(sheet: Sheet, number: int = 2) -> Sheet:
    return sheet.after(status="sent", body=b'{"n":%d}' % number)


# ── how many statements ──────────────────────────────────────────────────────────────────────────────────────────────


def test_a_call_that_is_asked_about_takes_two_statements_a_step(store: PostgresStore, traffic: Traffic) -> None:
    held: list[Any] = []
    assert traffic.of(lambda: held.append(ask(store, 1))) == ["look", WRITTEN]
    vote = approval(held[0])
    assert traffic.of(lambda: held.append(do(store, vote, held[0].effect))) == ["look_with_sheets", MOVED]
    again = opening(1, verdict=asking())
    assert traffic.of(lambda: held.append(do(store, again, held[1].effect))) == ["look_with_sheets", MOVED]
    taken = held[2].claim
    assert traffic.of(lambda: held.append(do(store, finish(taken), taken.effect))) == ["move_one"]
    assert traffic.of(lambda: do(store, again, held[3].effect)) == []


def test_who_knows_nothing_of_an_effect_looks_twice_unless_they_name_the_question(
    store: PostgresStore, traffic: Traffic
) -> None:
    asked = ask(store, 1)
    assert traffic.of(lambda: do(store, approval(asked))) == ["look_with_sheets", MOVED]
    again = opening(1, verdict=asking())
    assert traffic.of(lambda: do(store, again)) == ["look", "look_with_sheets", MOVED]
    waiting = opening(2, verdict=asking())
    ask(store, 2)
    assert traffic.of(lambda: do(store, waiting)) == ["look", "look_with_sheets"], "to wait, nothing is written"


def test_to_approve_takes_three_statements_and_the_write_itself_tells_who_waits(
    store: PostgresStore, url: str, traffic: Traffic, tmp_path: Path
) -> None:
    asked = [ask(store, number) for number in (1, 2)]
    waiting = PostgresStore(url)
    waiting.watch([asked[1].effect.ref])
    alarm = waiting.alarm()
    assert alarm is not None
    with Ledger.open(url, tenant=TENANT, seal=False, keys=tmp_path) as ledger, contextlib.closing(waiting):
        for each in asked:  # the first time connects and prepares
            name, digest = each.approval.id, each.approval.digest
            sent = traffic.of(lambda name=name, digest=digest: ledger.approve(name, digest=digest, by="ana"))
    assert sent == [LISTED, "look_with_sheets", MOVED]
    assert select.select([alarm], [], [], PATIENCE)[0]
    assert alarm.drain() == {asked[1].effect.key[:16]}
    alarm.close()


def told_by(sent: list[str]) -> list[str]:
    """Leaves out what the connection sends that tells others how a call has ended."""
    return [name for name in sent if name not in {"introduce", "settle_in", "say_changed"}]


def test_whoever_waits_for_an_approval_goes_from_the_bell_to_the_claim(
    url: str, traffic: Traffic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judging, "LOOK_EVERY", 60.0)
    words: dict[str, Any] = {"tenant": TENANT, "seal": False, "keys": tmp_path}
    with (
        Ledger.open(url, approval="required", wait=60, **words) as waiting,
        Ledger.open(url, **words) as deciding,
        ThreadPoolExecutor() as pool,
    ):
        before = 0
        for number in range(2):  # the first time connects and prepares
            call = ToolCall(run_id="order-1", tool="pay", args={"n": number})
            asked = waiting.begin(call)
            assert isinstance(asked, AwaitingApproval)
            before = len(traffic.sent)
            value = pool.submit(waiting.run, call, lambda effect: effect.args["n"])
            eventually(lambda before=before: told_by(traffic.sent[before:])[-2:] == ["mark_awaited", "look"])
            before = len(traffic.sent)
            deciding.approve(asked.approval.id, digest=asked.approval.digest, by="ana")
            assert value.result(PATIENCE) == number
    assert told_by(traffic.sent[before:]) == [LISTED, *["look_with_sheets", MOVED] * 2, "move_one"]


def test_only_the_end_of_an_attempt_rings_once_people_have_decided(
    store: PostgresStore, admin: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    rung: list[Any] = []
    asked = ask(store, 1)
    admin.execute("UPDATE indelible_effects SET awaited = true")
    monkeypatch.setattr(store._lane, "_ring", rung.append)
    do(store, approval(asked))
    claimed = do(store, opening(1, verdict=asking()))
    assert isinstance(claimed, Claimed)
    do(store, finish(claimed.claim), claimed.claim.effect)
    # Of the decision the write itself has told, and nobody waits for a start.
    assert rung == [[], [], [asked.effect.key]]


def test_many_questions_are_asked_in_one_statement(
    store: PostgresStore, admin: psycopg.Connection[Any], traffic: Traffic
) -> None:
    verdict = asking(notify=("chat", "mail"))
    commands = [opening(number, f"order-{number % 3}", verdict=verdict) for number in range(64)]
    answers: list[Answer] = []
    assert traffic.of(lambda: answers.extend(store.apply(TENANT, commands, [None] * 64))) == ["look", WRITTEN]
    assert all(isinstance(answer, AwaitingApproval) for answer in answers)
    counts = admin.execute("SELECT kind, count(*) FROM indelible_sheets GROUP BY kind ORDER BY kind").fetchall()
    assert counts == [("approval", 64), ("delivery", 128)]


def test_a_budget_costs_a_look_each_time(store: PostgresStore, traffic: Traffic) -> None:
    held: list[Any] = []
    for number in (1, 2):
        command = opening(number, verdict=charged(2))
        assert traffic.of(lambda command=command: held.append(do(store, command))) == ["look_with_sheets", WRITTEN]
    report = finish(held[0].claim)
    assert traffic.of(lambda: do(store, report, held[0].claim.effect)) == ["look_with_sheets", MOVED]
    too_much = opening(3, verdict=charged(2))
    refusing = traffic.of(lambda: held.append(do(store, too_much)))
    assert isinstance(held[2], OverBudget)
    assert refusing[:2] == ["look_with_sheets", "BEGIN"], "what says no is not guarded by a write, so it is locked"


def test_a_vote_that_is_not_enough_and_a_view_are_written_under_lock(
    store: PostgresStore, admin: psycopg.Connection[Any], traffic: Traffic
) -> None:
    asked = ask(store, 1, verdict=asking(needs=(Need(2),)))
    sent = ["look_with_sheets", *UNDER_LOCK[:-1], "give_up_sheets", "COMMIT"]  # the place of a stranger was held
    assert traffic.of(lambda: do(store, approval(asked), asked.effect)) == sent
    assert traffic.of(lambda: do(store, approval(asked, "bob"), asked.effect)) == ["look_with_sheets", MOVED]
    assert check_chain(admin, "order-1") == 3


def test_what_is_kept_aside_takes_two_statements_however_much_it_is(store: PostgresStore, traffic: Traffic) -> None:
    sheets = [message(f"m-{number}") for number in range(20)]
    commands = [keep(sheet) for sheet in sheets]
    assert traffic.of(lambda: store.apply(TENANT, commands, [None] * 20)) == ["look_with_sheets", WRITTEN]
    assert traffic.of(lambda: do(store, keep(changed(sheets[0])))) == ["look_with_sheets", WRITTEN]
    assert traffic.of(lambda: do(store, keep(sheets[0]))) == ["look_with_sheets"]
    fact = recording(sheet=Sheet(kind="note", id="n-1", status="open", body=b"{}"))
    assert traffic.of(lambda: do(store, fact)) == ["look_with_sheets", WRITTEN]


# ── which indexes ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("is_filled", [False, True])
@pytest.mark.parametrize(
    ("words", "index", "condition"),
    [
        ({}, "pkey", "(id >"),
        ({"id": "m-1", "status": "due", "topic": "chat"}, "pkey", "(id ="),
        ({"status": "due"}, "by_status", "(status ="),
        ({"status": "due", "after": "m-1"}, "by_status", "(status ="),
        ({"topic": "chat"}, "by_topic", "(topic ="),
        ({"topic": "chat", "status": "due"}, "by_topic", "(topic ="),
        ({"due_by": datetime(2030, 1, 1, tzinfo=UTC)}, "by_due", "(due_at <="),
        ({"due_by": datetime(2030, 1, 1, tzinfo=UTC), "status": "due"}, "by_due", "(due_at <="),
        ({"due_by": datetime(2030, 1, 1, tzinfo=UTC), "topic": "chat"}, "by_channel", "(due_at <="),
        ({"is_by_time": True}, "newest", "(ROW(created_at, id) <"),
        ({"is_by_time": True, "status": "due"}, "newest_by_status", "(status ="),
        ({"is_by_time": True, "topic": "chat", "status": "due"}, "newest_by_topic", "(topic ="),
    ],
)
def test_every_way_to_list_sheets_has_its_index_and_needs_no_sorting(
    words: dict[str, Any],
    index: str,
    condition: str,
    is_filled: bool,
    store: PostgresStore,
    admin: psycopg.Connection[Any],
) -> None:
    assert store.ledger_name
    if is_filled:
        admin.execute(
            "INSERT INTO indelible_sheets (tenant, kind, id, version, status, topic, due_at, body, created_at) "
            "SELECT %s, 'delivery', 'm-' || n, 1, CASE WHEN n < 5 THEN 'due' ELSE 'sent' END, 'topic-' || n %% 9, "
            "CASE WHEN n < 5 THEN now() END, '{}', now() - n * interval '1 s' FROM generate_series(1, 5000) n",
            (TENANT,),
        )
        admin.execute("ANALYZE indelible_sheets")
    admin.execute("SELECT " + re.findall(r"(set_config\('plan.*)", SQL["settle_in"].sql.decode(), re.DOTALL)[0])
    statement, _ = listing(TENANT, SheetFilter(kind="delivery", **words))
    admin.execute(b"PREPARE probe AS " + statement.sql)
    nulls = ", ".join(["NULL"] * len(statement.parameters))
    plan = "\n".join(row[0] for row in admin.execute(f"EXPLAIN EXECUTE probe ({nulls})"))
    assert "Sort" not in plan
    conditions = re.findall(rf"Scan.* using indelible_sheets_{index} .*\n\s*Index Cond: (.*)", plan)
    assert len(conditions) == 1, plan
    assert "(tenant)" in conditions[0] or "(tenant =" in conditions[0]
    assert condition in conditions[0]


@pytest.mark.parametrize("is_filled", [False, True])
@pytest.mark.parametrize(
    ("words", "index", "condition"),
    [
        ({}, "newest", "(ROW(begun_at, run_id) <"),
        ({"status": "open"}, "newest", "(ROW(begun_at, run_id) <"),
        ({"id": "r-1"}, "pkey", "(run_id ="),
    ],
)
def test_75_runs_are_listed_by_an_index_and_each_reads_one_event(
    words: dict[str, Any],
    index: str,
    condition: str,
    is_filled: bool,
    store: PostgresStore,
    admin: psycopg.Connection[Any],
) -> None:
    assert store.ledger_name
    if is_filled:
        admin.execute(
            "INSERT INTO indelible_runs (tenant, run_id, count, head) SELECT %s, 'r-' || n, 1, '' "
            "FROM generate_series(1, 5000) n",
            (TENANT,),
        )
        admin.execute("ANALYZE indelible_runs")
    admin.execute("SELECT " + re.findall(r"(set_config\('plan.*)", SQL["settle_in"].sql.decode(), re.DOTALL)[0])
    statement, _ = listing(TENANT, SheetFilter(kind="run", is_by_time=True, with_unstarted=True, **words))
    admin.execute(b"PREPARE probe AS " + statement.sql)
    nulls = ", ".join(["NULL"] * len(statement.parameters))
    plan = "\n".join(row[0] for row in admin.execute(f"EXPLAIN EXECUTE probe ({nulls})"))
    assert "Seq Scan" not in plan
    assert "Sort" not in plan or index == "pkey", plan
    conditions = re.findall(rf"Scan.* using indelible_runs_{index} .*\n\s*Index Cond: (.*)", plan)
    assert len(conditions) == 1, plan
    assert condition in conditions[0]
    assert re.search(r"using indelible_events_pkey .*\n\s*Index Cond: .*\(seq = ", plan), plan


def test_a_budget_that_changes_touches_no_index(store: PostgresStore, admin: psycopg.Connection[Any]) -> None:
    for number in range(30):
        settle(store, claim(store, number, verdict=charged(1, limit=100)))
    with store._writing.lock:
        store._writing.drop()  # a session reports its statistics when it ends
    counted = "SELECT n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'indelible_sheets' AND n_tup_upd = 59"
    (without_index,) = eventually(lambda: admin.execute(counted).fetchone())
    assert without_index >= 56


# ── guards, locks, clocks ────────────────────────────────────────────────────────────────────────────────────────────


def let_another_in(patch: pytest.MonkeyPatch, after: str, work: Callable[[], object]) -> list[object]:
    """Does something as another process would, right after a statement of ours was answered for the first time."""
    done: list[object] = []
    run = Session.run

    def interrupted(session: Session, statement: Any, values: Any, until: float) -> Any:
        found = run(session, statement, values, until)
        if statement.name.decode() == f"indelible_{after}" and not done:
            done.append(None)  # what the other does is not interrupted
            done.append(work())
        return found

    patch.setattr(Session, "run", interrupted)
    return done


def test_a_budget_that_somebody_else_uses_after_our_look_is_counted_again(
    store: PostgresStore, other: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    do(other, opening(1, "run-1", verdict=charged(2)))
    done = let_another_in(monkeypatch, "look_with_sheets", lambda: do(other, opening(2, "run-2", verdict=charged(2))))
    assert isinstance(do(store, opening(3, "run-3", verdict=charged(2))), OverBudget)
    assert isinstance(done[1], Claimed)
    (budget,) = store.sheets(TENANT, SheetFilter(kind="budget"))
    assert read_budget(budget).reserved == 4


def test_a_budget_that_is_made_after_our_look_is_counted_too(
    store: PostgresStore, other: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = let_another_in(monkeypatch, "look_with_sheets", lambda: do(other, opening(2, "run-2", verdict=charged(4))))
    assert isinstance(do(store, opening(3, "run-3", verdict=charged(2))), OverBudget)
    assert isinstance(done[1], Claimed)


def test_of_what_is_kept_aside_together_nothing_stays_when_one_of_them_is_outrun(
    store: PostgresStore, other: PostgresStore, admin: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No event is written here whose number could be refused."""
    sheets = [message("a"), message("b")]
    store.apply(TENANT, [keep(sheet) for sheet in sheets], [None] * 2)
    let_another_in(monkeypatch, "look_with_sheets", lambda: do(other, keep(changed(sheets[1], 7))))
    between: list[Any] = []
    command = Session.command

    def seen_before_the_locks(session: Session, sql: bytes, until: float) -> None:
        if sql.startswith(b"BEGIN"):
            between.extend(admin.execute("SELECT id, version FROM indelible_sheets ORDER BY id").fetchall())
        command(session, sql, until)

    monkeypatch.setattr(Session, "command", seen_before_the_locks)
    answers = store.apply(TENANT, [keep(changed(sheet)) for sheet in sheets], [None] * 2)
    assert between == [("a", 1), ("b", 2)], "the first try left nothing"
    assert answers == [Kept(changed(sheets[0])), Outrun(changed(sheets[1], 7))]


def test_a_grant_or_delegation_that_is_only_read_is_locked(
    store: PostgresStore, other: PostgresStore, traffic: Traffic
) -> None:
    """Otherwise it could end between the look and the write."""
    asked = ask(store, 1)
    taken = opening(2, verdict=asking(), grants={"gone": "00" * 32})
    assert traffic.of(lambda: do(store, taken)) == ["look_with_sheets", *UNDER_LOCK[:-1], "give_up_sheets", "COMMIT"]
    vote = approval(asked, delegation_id="nobody's")
    assert traffic.of(lambda: do(store, vote, asked.effect)) == ["look_with_sheets"], "it is refused"
    assert other.ledger_name


def test_what_is_decided_on_is_what_was_locked() -> None:
    now, here = datetime.now(UTC), message("here")
    locked = Locked(set(), set(), {here.ref: True})
    seen = View(now, {}, {}, {here.ref: here})
    assert locked.covers(seen, [here.ref])
    assert not locked.covers(seen, [here.ref, message("another").ref])


def test_places_that_are_held_while_something_is_decided_are_given_up(
    store: PostgresStore, other: PostgresStore, admin: psycopg.Connection[Any], traffic: Traffic
) -> None:
    """Also when the outcome was lost, and found again."""
    asked = opening(1, verdict=asking(), grants={"gone": "00" * 32})
    assert "give_up_sheets" in traffic.of(lambda: do(store, asked))
    for number, is_carried_out in enumerate((True, False)):
        with pytest.MonkeyPatch.context() as patch:
            cuts = cut_connection(patch, "COMMIT", is_carried_out=is_carried_out)
            do(store, opening(number + 2, verdict=asking(), grants={"gone": "00" * 32}))
            assert cuts
    held = opening(9, verdict=charged(9))
    assert isinstance(do(other, held), OverBudget)
    found = admin.execute("SELECT kind, count(*), min(version) FROM indelible_sheets GROUP BY kind").fetchall()
    assert found == [("approval", 3, 1)]


def test_a_call_that_the_policy_refuses_is_told_under_lock(store: PostgresStore, traffic: Traffic) -> None:
    """It is refused because it is new, and no write of it would be in the way if somebody else opened it."""
    refused = opening(1, verdict=Verdict(decision="refuse", rule="never"))
    told = traffic.of(lambda: do(store, refused))
    assert told == ["look", "BEGIN", "lock_runs", "lock_effects", "look_with_sheets", "write_batch", "COMMIT"]
    both: list[Command] = [opening(2, verdict=refused.verdict), recording()]
    assert "BEGIN" in traffic.of(lambda: store.apply(TENANT, both, [None] * 2))


def test_writers_that_share_budgets_never_wait_for_each_other_in_a_circle(
    url: str, admin: psycopg.Connection[Any]
) -> None:
    stores = [PostgresStore(url, wakeups=False) for _ in range(5)]

    def work(which: int) -> None:
        chance, one = random.Random(which), stores[which]
        for round_ in range(30):
            budgets = chance.sample([f"budget-{number}" for number in range(round_ // 3 + 2)], 2)
            verdict = charged(1, *budgets, limit=10_000)
            commands: list[Command] = [
                opening(which * 1000 + round_ * 10 + step, f"order-{chance.randrange(3)}", verdict=verdict)
                for step in range(chance.choice((1, 1, 3)))
            ]
            if chance.random() < 0.3:
                asked = asking(charges=verdict.charges, needs=(Need(2),))
                commands.append(opening(which * 1000 + 900 + round_, f"order-{chance.randrange(3)}", verdict=asked))
            chance.shuffle(commands)
            answers = one.apply(TENANT, commands, [None] * len(commands))
            more: list[Command] = [finish(answer.claim) for answer in answers if isinstance(answer, Claimed)]
            more += [approval(answer) for answer in answers if isinstance(answer, AwaitingApproval)]
            one.apply(TENANT, more, [None] * len(more))

    with ThreadPoolExecutor() as pool:
        list(pool.map(work, range(5)))
    found = {sheet.id: read_budget(sheet) for sheet in stores[0].sheets(TENANT, SheetFilter(kind="budget"))}
    for one in stores:
        one.close()  # a session reports its statistics when it ends
    time.sleep(1)
    assert admin.execute("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()").fetchone() == (0,)
    assert sum(check_chain(admin, f"order-{run}") for run in range(3)) > 300
    waiting = admin.execute("SELECT count(*) FROM indelible_effects WHERE status = 'requires_approval'").fetchone()
    finished = admin.execute("SELECT count(*) FROM indelible_effects WHERE status = 'succeeded'").fetchone()
    assert waiting is not None
    assert finished is not None
    assert sum(budget.reserved for budget in found.values()) == 2 * waiting[0]
    assert sum(sum(budget.spent.values()) for budget in found.values()) == 2 * finished[0]


def test_the_time_of_a_question_is_counted_by_the_clock_of_the_database(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process whose clock is wrong asks for as long as any other."""
    monkeypatch.setattr(store._lane, "_now", lambda: datetime.now(UTC) + timedelta(days=30))
    asked = ask(store, 1, verdict=asking(expires=timedelta(hours=1)))
    assert abs(asked.approval.expires_at - datetime.now(UTC) - timedelta(hours=1)) < timedelta(minutes=1)
    (sheet,) = store.sheets(TENANT, SheetFilter(kind="approval"))
    assert sheet.due_at == asked.approval.expires_at
    (found,) = store.look([asked.effect.ref]).effects
    assert found is not None
    assert found.lease_until is not None
    late = found.lease_until - asked.approval.expires_at
    assert timedelta(0) <= late < timedelta(seconds=30), "whoever waits is woken after the question ended, not before"


# ── the truth after a lost connection ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("is_carried_out", [True, False])
def test_every_command_about_sheets_gets_the_answer_of_what_was_committed_when_the_answer_was_lost(
    is_carried_out: bool, store: PostgresStore, admin: psycopg.Connection[Any]
) -> None:
    def lossy(command: Any, known: Effect | None = None, statement: str = WRITTEN) -> Any:
        with pytest.MonkeyPatch.context() as patch:
            cuts = cut_connection(patch, statement, is_carried_out=is_carried_out)
            answer = do(store, command, known)
            assert cuts == [statement]
            return answer

    verdict = asking(charges=charged(2).charges, needs=(Need(2),), notify=("chat",))
    asked = lossy(opening(1, verdict=verdict))
    assert isinstance(asked, AwaitingApproval)
    first = lossy(approval(asked), asked.effect, "COMMIT")
    assert isinstance(first, Decided)
    assert first.approval.lacking == 1
    second = lossy(approval(asked, "bob"), asked.effect, MOVED)
    assert isinstance(second, Decided)
    assert (second.approval.status, second.effect.status) == ("approved", "ready")
    claimed = lossy(opening(1, verdict=verdict), second.effect, "COMMIT")
    assert isinstance(claimed, Claimed)
    assert isinstance(lossy(finish(claimed.claim), claimed.claim.effect, MOVED), Moved)
    assert isinstance(lossy(keep(message("m"))), Kept)
    assert lossy(keep(changed(message("m")))) == Kept(changed(message("m")))
    note = Sheet(kind="note", id="n-1", status="open", body=b"{}")
    assert lossy(recording(sheet=note)) == Recorded("order-1", 5)
    assert check_chain(admin, "order-1") == 6
    (budget,) = store.sheets(TENANT, SheetFilter(kind="budget"))
    assert sum(read_budget(budget).spent.values()) == 2
    versions = admin.execute("SELECT kind, version FROM indelible_sheets ORDER BY kind, id").fetchall()
    assert versions == [("approval", 4), ("budget", 2), ("delivery", 1), ("delivery", 1), ("delivery", 2), ("note", 1)]


def test_what_the_lost_backend_keeps_aside_late_is_kept_once(
    url: str, admin: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        contextlib.closing(PostgresStore(url, wakeups=False, patience=timedelta(seconds=PATIENCE))) as store,
        psycopg.connect(url) as blocker,
        ThreadPoolExecutor() as pool,
    ):
        do(store, keep(message("m")))
        blocker.execute("SELECT FROM indelible_sheets FOR UPDATE")
        future = pool.submit(do, store, keep(changed(message("m"))))
        stalled = lose_while_it_waits(monkeypatch, admin)
        blocker.rollback()
        assert future.result(timeout=PATIENCE) == Kept(changed(message("m")))
        assert writer_pid(store) != stalled
    assert admin.execute("SELECT version FROM indelible_sheets").fetchall() == [(2,)]
