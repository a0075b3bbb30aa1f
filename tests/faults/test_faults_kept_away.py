"""A trigger of a user's keeps rows of the ledger away without a word: nothing runs that is not recorded (98)."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest

from indelible import GrantTerms, Ledger, Refused, RunningEffect, Succeeded, ToolCall, migrate
from indelible.cli.doctor.command import examine
from indelible.cli.opening import Where
from indelible.errors import IndelibleError, Misconfigured, ResultNotRecorded, StoreUnavailable
from indelible.journal.evidence.live import LiveEvidence
from indelible.journal.evidence.verification import verify
from indelible.stores import is_postgres
from tests.journal.attacked_world import POLICY
from tests.journal.decided import approve, ask, refund
from tests.journal.exported import key_of

TABLES = ("events", "payloads", "pending", "effects", "runs", "sheets")


def charge(amount: int) -> ToolCall:
    return ToolCall(tool="charge", args={"amount": amount}, run_id=f"order-{amount}")


def keep_away(url: str, table: str, *ways: str) -> None:
    ways = ways or ("INSERT", "UPDATE")
    if is_postgres(url):
        with psycopg.connect(url, autocommit=True) as database:
            body = "BEGIN RETURN NULL; END"
            database.execute(f"CREATE FUNCTION away() RETURNS trigger LANGUAGE plpgsql AS $$ {body} $$".encode())
            database.execute(
                f"CREATE TRIGGER away BEFORE {' OR '.join(ways)} ON indelible_{table} FOR EACH ROW "
                "EXECUTE FUNCTION away()".encode()
            )
    else:
        with closing(apsw.Connection(url.removeprefix("sqlite:///"))) as connection:
            for way in ways:
                connection.execute(
                    f"CREATE TRIGGER away_{way} BEFORE {way} ON indelible_{table} BEGIN SELECT RAISE(IGNORE); END"
                )


def let_in(url: str, table: str) -> None:
    if is_postgres(url):
        with psycopg.connect(url, autocommit=True) as database:
            database.execute(f"DROP TRIGGER away ON indelible_{table}".encode())
    else:
        with closing(apsw.Connection(url.removeprefix("sqlite:///"))) as connection:
            for way in ("INSERT", "UPDATE", "DELETE"):
                connection.execute(f"DROP TRIGGER IF EXISTS away_{way}")


Door = Callable[[Ledger, list[Any]], Any]


def first(ledger: Ledger, entered: list[Any]) -> Any:
    return ledger.run(charge(1), lambda effect: entered.append(1))


def again(ledger: Ledger, entered: list[Any]) -> Any:
    """The second attempt moves an effect that is there, and so does its end."""
    return ledger.run(charge(2), lambda effect: entered.append(2))


def by_a_grant(ledger: Ledger, entered: list[Any]) -> Any:
    return ledger.run(refund("order-9"), lambda effect: entered.append(9))


def at_once(ledger: Ledger, entered: list[Any]) -> Any:
    with ThreadPoolExecutor(8) as pool:
        calls = [pool.submit(ledger.run, charge(n), lambda effect: entered.append(3)) for n in range(10, 30)]
    raised = [trouble for call in calls if (trouble := call.exception()) is not None]
    if raised:
        raise raised[0]


DOORS: list[Door] = [first, again, by_a_grant, at_once]


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("door", DOORS)
def test_98_nothing_is_entered_while_rows_are_kept_away(store_url: str, tmp_path: Path, table: str, door: Door) -> None:
    migrate(store_url, keys=tmp_path / "keys")
    entered: list[Any] = []
    with Ledger.open(store_url, keys=tmp_path / "keys", seal=False) as ledger:
        ledger.apply_policy({name: POLICY[name] for name in POLICY if name != "budgets"}, by="ana")
        soon = datetime.now(UTC) + timedelta(days=1)
        approve(ledger, ask(ledger, refund("order-8")), "ana", grant=GrantTerms(count=4, until=soon))
        ledger.run(refund("order-8"), lambda effect: "paid")

        def fail(effect: RunningEffect) -> None:
            raise Refused("not yet")

        with suppress(Refused):
            ledger.run(charge(2), fail)
        if door is again:
            ledger.retry(ledger.effects(run_id="order-2")[0].id, by="ana")
        keep_away(store_url, table)
        if table == "sheets" and door in (first, again, at_once):
            return  # such a call writes no sheet
        with pytest.raises((Misconfigured, StoreUnavailable)):
            door(ledger, entered)
        assert entered == []
        let_in(store_url, table)
        door(ledger, entered)
        assert entered
        ledger.seal()
        assert ledger.stopped() is None


@pytest.mark.parametrize("table", ["events", "payloads", "pending", "effects"])
def test_98_what_was_done_is_not_reported_as_recorded_if_it_is_not(store_url: str, tmp_path: Path, table: str) -> None:
    migrate(store_url, keys=tmp_path / "keys")
    with Ledger.open(store_url, keys=tmp_path / "keys", seal=False) as ledger:
        begun: Any = ledger.begin(charge(1))
        keep_away(store_url, table)
        with pytest.raises(ResultNotRecorded):
            ledger.commit(begun.claim, Succeeded("paid"))
        let_in(store_url, table)
        ledger.commit(begun.claim, Succeeded("paid"))
        assert ledger.run(charge(1), lambda effect: "again") == "paid"


def test_98_doctor_names_triggers_rules_and_row_policies_of_users(store_url: str) -> None:
    migrate(store_url)
    keep_away(store_url, "events")
    if is_postgres(store_url):
        with psycopg.connect(store_url, autocommit=True) as database:
            database.execute("CREATE RULE gone AS ON DELETE TO indelible_payloads DO INSTEAD NOTHING")
            database.execute("CREATE POLICY mine ON indelible_runs USING (true)")
    (check,) = [one for one in examine(Where(url=store_url, tenant="default", is_json=False)) if one.name == "triggers"]
    assert check.verdict == "warn"
    names = ("away", "gone", "mine") if is_postgres(store_url) else ("away_INSERT", "away_UPDATE")
    assert all(name in check.says for name in names)


def test_98_a_handlers_own_transaction_is_undone_if_its_settlement_is_kept_away(store_url: str, tmp_path: Path) -> None:
    migrate(store_url, keys=tmp_path / "keys")
    is_on_postgres = is_postgres(store_url)

    def handler(effect: RunningEffect) -> str:
        with effect.transaction() as connection:
            connection.execute("CREATE TABLE own (amount INTEGER)")
            if is_on_postgres:
                body = "BEGIN RETURN NULL; END"
                connection.execute(f"CREATE FUNCTION away() RETURNS trigger LANGUAGE plpgsql AS $$ {body} $$")
                trigger = "BEFORE INSERT ON indelible_events FOR EACH ROW EXECUTE FUNCTION away()"
            else:
                trigger = "BEFORE INSERT ON indelible_events BEGIN SELECT RAISE(IGNORE); END"
            connection.execute(f"CREATE TRIGGER away {trigger}")
        return "paid"

    with Ledger.open(store_url, keys=tmp_path / "keys", seal=False) as ledger:
        with pytest.raises(IndelibleError):
            ledger.run(charge(1), handler)
        assert ledger.run(charge(2), lambda effect: "paid") == "paid", "the trigger went with the rest"
        assert ledger.effects(run_id="order-1")[0].status != "succeeded"


@pytest.mark.parametrize(("table", "way"), [("payloads", "DELETE"), ("effects", "UPDATE")])
def test_98_an_erasure_is_not_recorded_while_what_it_erases_is_kept(
    store_url: str, tmp_path: Path, table: str, way: str
) -> None:
    migrate(store_url, keys=tmp_path / "keys")
    with Ledger.open(store_url, keys=tmp_path / "keys", seal=False) as ledger:
        ledger.run(charge(1), lambda effect: "paid")
        before = [event.type for event in ledger.events("order-1")]
        keep_away(store_url, table, way)
        with pytest.raises(Misconfigured):
            ledger.erase(run_id="order-1", by="ana", reason="asked")
        assert [event.type for event in ledger.events("order-1")] == before
        assert ledger.effects(run_id="order-1")[0].args == {"amount": 1}
        let_in(store_url, table)
        ledger.erase(run_id="order-1", by="ana", reason="asked")
        assert ledger.effects(run_id="order-1")[0].are_args_erased
        ledger.erase(run_id="order-1", by="ana", reason="asked again")
        ledger.seal()


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize(
    ("table", "ways"),
    [
        ("pending", "DELETE"),
        ("leaves", "INSERT"),
        ("tiles", "INSERT UPDATE"),
        ("trees", "INSERT UPDATE"),
        ("heads", "INSERT UPDATE"),
    ],
)
def test_98_nothing_is_sealed_while_rows_of_the_journal_are_kept_away(
    store_url: str, tmp_path: Path, table: str, ways: str, is_first: bool
) -> None:
    migrate(store_url, keys=tmp_path / "keys")
    with Ledger.open(store_url, keys=tmp_path / "keys", seal=False) as ledger:
        ledger.run(charge(1), lambda effect: "paid")
        if not is_first:
            ledger.seal()
            ledger.run(charge(2), lambda effect: "paid")
        keep_away(store_url, table, *ways.split())
        with pytest.raises(Misconfigured):
            ledger.seal()
        let_in(store_url, table)
        sealed = ledger.seal()
        assert ledger.run(charge(3), lambda effect: "paid") == "paid"
        assert ledger.stopped() is None
        assert ledger.seal() != sealed
        assert verify(LiveEvidence(ledger._engine.store, "default"), [key_of(ledger)]).is_verified


def test_98_nothing_is_redacted_with_a_key_that_the_ledger_could_not_note(store_url: str, tmp_path: Path) -> None:
    migrate(store_url, keys=tmp_path / "keys")
    entered: list[Any] = []
    keep_away(store_url, "redaction", "INSERT")
    with Ledger.open(store_url, keys=tmp_path / "keys", seal=False, redact=["args.amount"]) as ledger:
        with pytest.raises(Misconfigured):
            first(ledger, entered)
        assert entered == []
        let_in(store_url, "redaction")
        first(ledger, entered)
        assert entered == [1]
