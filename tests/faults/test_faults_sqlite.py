"""Faults of the SQLite file, and of a handler's own transaction: 49, 50, 57, 58, 59, 81 and 93."""

from __future__ import annotations

from typing import Any

import apsw
import pytest

from indelible import NothingHappened, Retry
from indelible.engine.running import RunningEffect
from indelible.errors import BadCall, EffectInDoubt, MayHaveHappened
from tests.scenarios.shells import Driver, charge
from tests.scenarios.test_transactions import Table, table

__all__ = ["table"]


# ── 50: a handler that commits by itself ─────────────────────────────────────────────────────────────────────────────


def by_sql(connection: Any) -> None:
    connection.execute("COMMIT")


def by_sql_and_again(connection: Any) -> None:
    connection.execute("COMMIT")
    connection.execute("BEGIN")
    connection.execute("SELECT nothing FROM nowhere")


def by_method(connection: Any) -> None:
    connection.execute("COMMIT") if isinstance(connection, apsw.Connection) else connection.commit()


def by_rolling_back_first(connection: Any) -> None:
    connection.execute("ROLLBACK")


def then_closed(connection: Any) -> None:
    connection.execute("COMMIT")
    connection.close()


@pytest.mark.parametrize("then", [RuntimeError, NothingHappened])
@pytest.mark.parametrize("commit", [by_sql, by_sql_and_again, by_method, by_rolling_back_first, then_closed])
def test_50_what_a_handler_committed_by_itself_never_counts_as_failed(
    ledger: Driver, table: Table, commit: Any, then: type[Exception]
) -> None:
    entered = []

    def handler(effect: RunningEffect) -> str:
        entered.append(effect.attempt)
        with effect.transaction() as connection:
            connection.execute(table.insert(5))
            commit(connection)
            connection.execute(table.insert(6))
            raise then("after the commit")

    options: dict[str, Any] = {"side_effect": "write", "retry": Retry(on=(RuntimeError,), attempts=3)}
    with pytest.raises((BadCall, MayHaveHappened)):
        ledger.run(charge(), handler, **options)
    status = ledger.effects()[0].status
    assert (status == "in_doubt") if table.amounts() else (status in ("failed", "in_doubt"))
    if table.amounts():
        with pytest.raises(EffectInDoubt):
            ledger.run(charge(), handler, **options)
    assert len(entered) == 1
