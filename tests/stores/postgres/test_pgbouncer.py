"""Behind PgBouncer everything works but listening, and no session is left changed."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pytest

from indelible.core.commands import Claimed, Moved, Replayed
from indelible.stores.postgres import PostgresStore, migrate
from indelible.testing.journal_conformance import check_journal
from tests.postgres import PostgresServer, unprivileged
from tests.stores.postgres.disturbing import check_chain, with_option
from tests.stores.postgres.making import NAMES, TENANT, claim, do, finish, integrate_everything, opening, settle
from tests.waiting import eventually

MOST_ROUNDS = 200


@pytest.fixture
def pgbouncer(postgres_server: PostgresServer, tmp_path: Path) -> Iterator[Callable[[str], str]]:
    """A real PgBouncer in transaction mode, with fewer server connections than it has clients."""
    program = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin:/usr/local/sbin")
    if program is None:
        pytest.fail("PgBouncer is not installed, and the store promises to work behind it: apt-get install pgbouncer")
    home = Path(str(postgres_server.socket_directory)).parent / f"bouncer-{os.urandom(4).hex()}"
    home.mkdir()
    settings = home / "pgbouncer.ini"
    settings.write_text(
        f"[databases]\n* = host={postgres_server.socket_directory} port={postgres_server.port} user=postgres\n"
        f"[pgbouncer]\nlisten_addr =\nunix_socket_dir = {home}\nlisten_port = 6432\nauth_type = any\n"
        "pool_mode = transaction\ndefault_pool_size = 2\nmax_client_conn = 100\n"
    )
    if owner := unprivileged():
        for path in (home, settings):
            os.chown(path, owner["user"], owner["group"])
    process = subprocess.Popen([program, "-q", str(settings)], **unprivileged(), cwd="/", stderr=subprocess.DEVNULL)
    try:
        eventually(lambda: (home / ".s.PGSQL.6432").exists())
        yield lambda database: f"postgresql://postgres@/{database}?host={quote(str(home))}&port=6432"
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(home)


def ask_again(store: PostgresStore) -> None:
    for number in range(15):
        assert isinstance(do(store, opening(number)), Replayed)


@pytest.mark.parametrize("option", ["", "pooler=transaction", "pooler=none"])
def test_behind_pgbouncer_everything_works_but_listening(
    option: str, pgbouncer: Callable[[str], str], url: str, admin: psycopg.Connection[Any]
) -> None:
    pooled = pgbouncer(admin.info.dbname)
    where = with_option(pooled, option) if option else pooled
    stores = [PostgresStore(where) for _ in range(3)]

    def work(which: int) -> int:
        store = stores[which]
        for number in range(15):
            settle(store, claim(store, 100 * which + number))
            assert isinstance(do(store, opening(100 * which + number)), Replayed)
        batch = store.apply(TENANT, [opening(5000 + number) for number in range(8)], [None] * 8)
        held = [answer.claim for answer in batch if isinstance(answer, Claimed)]
        assert all(store.heartbeat(one, timedelta(seconds=30)) for one in held)
        store.apply(TENANT, [finish(one) for one in held], [None] * len(held))
        return len(held)

    with ThreadPoolExecutor() as pool:
        assert sum(pool.map(work, range(3))) == 8
    assert check_chain(admin, "order-1") == 2 * (3 * 15 + 8)
    with ThreadPoolExecutor() as pool:
        for _ in range(MOST_ROUNDS):  # until each has met a server that lacks its prepared statements
            if all(store._target.is_pooled for store in stores):
                break
            list(pool.map(ask_again, stores))
    assert all(store._target.is_pooled for store in stores), "missing prepared statements gave it away"
    assert all(store.alarm() is None for store in stores)
    with ThreadPoolExecutor() as pool:
        list(pool.map(integrate_everything, stores))
    assert len(check_journal(stores[0], TENANT)) == 2 * (3 * 15 + 8)
    held = claim(stores[0], 999)
    with stores[0].transaction(TENANT) as transaction:
        transaction.connection.execute("CREATE TABLE handlers_own (number bigint)")
        assert isinstance(transaction.settle(finish(held)), Moved)
    assert admin.execute("SELECT count(*) FROM handlers_own").fetchone() == (0,)
    for store in stores:
        store.close()


def test_behind_pgbouncer_no_session_is_left_changed(pgbouncer: Callable[[str], str], url: str) -> None:
    assert url
    pooled = pgbouncer(psycopg.conninfo.conninfo_to_dict(url)["dbname"])  # type: ignore[arg-type]
    with contextlib.closing(PostgresStore(pooled)) as store:
        settle(store, claim(store, 1))
        with psycopg.connect(pooled, autocommit=True, prepare_threshold=None) as connection:
            for name in ("enable_seqscan", "plan_cache_mode", "jit"):
                (value,) = connection.execute("SELECT source FROM pg_settings WHERE name = %s", (name,)).fetchone() or (
                    "",
                )
                assert value == "default"


def test_a_migration_can_be_run_behind_pgbouncer(pgbouncer: Callable[[str], str], postgres_url: str) -> None:
    name = psycopg.conninfo.conninfo_to_dict(postgres_url)["dbname"]
    assert migrate(pgbouncer(str(name))) == NAMES
