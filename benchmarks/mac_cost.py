"""What the macs of writer keys cost a call: processor time of the client, and bytes.

    ./run python -m benchmarks.mac_cost [--store sqlite|postgres] [--rounds N] [--calls N]

Two ledgers, with writer keys and without, take turns in one process. Times are of the processor, not of the clock, so
that a busy machine disturbs less. Bytes are what stands in the column `mac`, and on PostgreSQL also what a call adds to
the write-ahead log.
"""

from __future__ import annotations

import argparse
import gc
import os
import statistics
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import apsw
import psycopg

from indelible import Ledger, ToolCall, migrate
from tests.postgres import PostgresServer, fresh_database

TABLES = ("events", "payloads", "effects", "sheets")
SIDES = ("without", "with")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--rounds", type=int, default=40, help="turns of each ledger (default: 40)")
    parser.add_argument("--calls", type=int, default=200, help="calls in a turn (default: 200)")
    given = parser.parse_args()
    with ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="indelible-macs-")))
        os.environ["INDELIBLE_KEYS"] = str(folder / "keys")
        urls = {name: f"sqlite:///{folder / name}.db" for name in SIDES}
        if given.store == "postgres":
            server = opened.enter_context(PostgresServer())
            urls = {name: opened.enter_context(fresh_database(server.url)) for name in SIDES}
        for name, url in urls.items():
            migrate(url, writer_keys=name == "with")
        ledgers = {name: opened.enter_context(Ledger.open(url, seal=False)) for name, url in urls.items()}
        spent: dict[str, list[float]] = {name: [] for name in SIDES}
        logged: dict[str, list[float]] = {name: [] for name in SIDES}
        gc.disable()
        for turn in range(given.rounds + 1):  # the first one warms up
            for name in SIDES if turn % 2 else reversed(SIDES):
                before, began = _log_position(urls[name]), time.process_time()
                _work(ledgers[name], turn, given.calls)
                spent[name].append((time.process_time() - began) / given.calls * 1e6)
                logged[name].append((_log_position(urls[name]) - before) / given.calls)
            gc.collect()
        calls = given.calls * (given.rounds + 1)
        stored = _stored(urls["with"]) / calls
    _say("client processor time, µs a call", spent)
    if given.store == "postgres":
        _say("write-ahead log, bytes a call", logged)
    print(f"macs as stored, bytes a call: {stored:.0f}")


def _work(ledger: Ledger, turn: int, calls: int) -> None:
    for number in range(calls):
        ledger.run(ToolCall(tool="charge", args={"amount": number}, run_id=f"order-{turn}"), lambda effect: {"id": 1})


def _say(what: str, figures: dict[str, list[float]]) -> None:
    without, with_ = (figures[name][1:] for name in SIDES)
    apart = statistics.median(b - a for a, b in zip(without, with_, strict=True))
    print(
        f"{what}: {statistics.median(without):.1f} without, {statistics.median(with_):.1f} with; "
        f"the median of the differences is {apart:.1f}"
    )


def _log_position(url: str) -> int:
    if not url.startswith("postgres"):
        return 0
    with psycopg.connect(url) as connection:
        return int(connection.execute("SELECT pg_current_wal_lsn() - '0/0'::pg_lsn").fetchall()[0][0])


def _stored(url: str) -> int:
    """Return how many bytes the macs of a ledger have."""
    asked = " + ".join(f"(SELECT coalesce(sum(length(mac)), 0) FROM indelible_{table})" for table in TABLES)
    if url.startswith("postgres"):
        with psycopg.connect(url) as connection:
            return int(connection.execute(f"SELECT {asked}").fetchall()[0][0])
    connection = apsw.Connection(url.removeprefix("sqlite:///"))
    try:
        return int(connection.execute(f"SELECT {asked}").get)
    finally:
        connection.close()


if __name__ == "__main__":
    main()
