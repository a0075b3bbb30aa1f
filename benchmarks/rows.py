"""A fresh call in a ledger that holds a million effects, against one in an empty ledger; and the page images it logs.

The ledger is filled by copying the rows of one real call a million times inside the database, with run and effect ids
of the kind the ledger makes: ordered by time, and older than those of the calls that are measured.
"""

from __future__ import annotations

import time
from typing import Any

import psycopg
from psycopg import sql

from benchmarks.calls import TOOL, args_of
from benchmarks.crew import Crew, WorkerFailed
from benchmarks.figures import figure, figure_of
from benchmarks.loops import Burst
from benchmarks.scenarios import SMALL, Pace, Results, excuse, say
from benchmarks.servers import Stores

WAITING = "indelible_pending"
TEMPLATE_RUN = "000000000000-template"
IMAGES = "SELECT coalesce(sum(fpi_size), 0) FROM pg_get_wal_stats(%s, %s)"
COLUMNS = """
SELECT c.table_schema, c.table_name, c.column_name, c.data_type
FROM information_schema.columns AS c JOIN information_schema.tables AS t USING (table_schema, table_name)
WHERE t.table_type = 'BASE TABLE' AND c.table_schema NOT IN ('pg_catalog', 'information_schema')
ORDER BY c.table_schema, c.table_name, c.ordinal_position
"""


def measure(stores: Stores, crew: Crew, pace: Pace, results: Results) -> None:
    """Fills one ledger, races it against an empty one, and counts the bytes of page images per call."""
    say(f"rows: a ledger of {pace.rows:,} effects against an empty one")
    try:
        urls = {"empty": stores.postgres("indelible_empty"), "filled": stores.postgres("indelible_filled")}
        fill(urls["filled"], pace.rows)
        with stores.connect() as look:
            look.execute("CHECKPOINT")
        _race(urls, crew, pace, results)
        _page_images(stores, urls["filled"], crew, pace, results)
    except (WorkerFailed, ImportError, AttributeError) as error:
        excuse("rows.indelible", error, results)


def _race(urls: dict[str, str], crew: Crew, pace: Pace, results: Results) -> None:
    rounds: dict[str, list[Burst]] = {name: [] for name in urls}
    for number in range(pace.rounds + 1):
        for name, url in urls.items():
            burst = crew.worker("indelible", url).measure("fresh", callers=1, size=SMALL, seconds=pace.seconds)
            if number:  # the first round warms up
                rounds[name].append(burst)
    results.figures["postgres_rows"] = {name: figure(bursts, "ms") for name, bursts in rounds.items()}


def _page_images(stores: Stores, url: str, crew: Crew, pace: Pace, results: Results) -> None:
    calls = pace.counted_calls * 3
    per_call = []
    with stores.connect() as look:
        for _ in range(3):
            look.execute("CHECKPOINT")  # after which the first change of a page logs the whole page
            before = _position(look)
            crew.worker("indelible", url).measure("fresh", callers=1, size=SMALL, calls=calls)
            images = look.execute(IMAGES, (before, _position(look))).fetchall()[0][0]
            per_call.append(float(images) / calls)
    results.figures["postgres_rows_page_images"] = {"indelible": figure_of(per_call, "bytes/call")}


def _position(look: psycopg.Connection[Any]) -> str:
    return str(look.execute("SELECT pg_current_wal_flush_lsn()").fetchall()[0][0])


def fill(url: str, rows: int) -> None:
    """Copies the rows of one call `rows` times."""
    from indelible import Ledger, ToolCall  # so that raw limits and peers can be measured without us

    with Ledger.open(url) as ledger:
        ledger.run(ToolCall(run_id=TEMPLATE_RUN, tool=TOOL, args=args_of(SMALL, 0)), lambda effect: {"id": "ch_1"})
        (effect,) = ledger.effects(run_id=TEMPLATE_RUN)
    born = time.time_ns() // 1_000_000 - rows
    values = {"run": TEMPLATE_RUN, "effect": effect.id, "born": born, "rows": rows}
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET synchronous_commit = off")
        for table, columns in _tables(connection).items():
            connection.execute(_copies(table, columns), values)
            connection.execute(sql.SQL("VACUUM ANALYZE {}").format(sql.Identifier(*table)))


def _tables(connection: psycopg.Connection[Any]) -> dict[tuple[str, str], dict[str, str]]:
    """Returns the tables that have a run in them, with the types of their columns.

    Without the events that wait to be sealed: in a ledger that is looked after, these are few, however old it is.
    """
    tables: dict[tuple[str, str], dict[str, str]] = {}
    for schema, table, column, kind in connection.execute(COLUMNS):
        tables.setdefault((schema, table), {})[column] = kind
    return {table: columns for table, columns in tables.items() if "run_id" in columns and table[1] != WAITING}


def _copies(table: tuple[str, str], columns: dict[str, str]) -> sql.Composed:
    new_run = "lpad(to_hex(%(born)s + n), 12, '0') || '-000000-00000000'"
    new_effect = "left(%(effect)s, 4) || lpad(to_hex(%(born)s + n), 12, '0') || left(md5(n::text), 16)"
    values = [
        sql.SQL(f"CASE one.{{0}} WHEN %(run)s THEN {new_run} WHEN %(effect)s THEN {new_effect} ELSE one.{{0}} END")
        if kind == "text"
        else sql.SQL("one.{0}")
        for kind in columns.values()
    ]
    return sql.SQL(
        "INSERT INTO {table} ({columns}) SELECT {values} "
        "FROM generate_series(1, %(rows)s::bigint) AS n, {table} AS one WHERE one.run_id = %(run)s ORDER BY n"
    ).format(
        table=sql.Identifier(*table),
        columns=sql.SQL(", ").join(map(sql.Identifier, columns)),
        values=sql.SQL(", ").join(
            value.format(sql.Identifier(column)) for value, column in zip(values, columns, strict=True)
        ),
    )
