"""Provides the stores: one private, durable PostgreSQL, and SQLite files in a directory that goes away afterwards."""

from __future__ import annotations

import contextlib
import importlib
import os
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psycopg

from benchmarks import raw_postgres
from tests.postgres import PostgresServer

# Durable as in production. The rest keeps a checkpoint or a small buffer from landing in one contestant's round.
SETTINGS: dict[str, str | int] = {
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "shared_buffers": "512MB",
    "max_wal_size": "8GB",
    "checkpoint_timeout": "1h",
    "max_connections": 300,
}
SHOWN = ("server_version", "fsync", "synchronous_commit", "full_page_writes", "wal_sync_method", "shared_buffers")


class Stores:
    """Hands out a database per contestant; starts PostgreSQL when the first one is asked for."""

    def __init__(self) -> None:
        self._exits = contextlib.ExitStack()
        self._server: PostgresServer | None = None
        self._databases: dict[str, str] = {}
        on_disk = os.environ.get("TMPDIR", "/var/tmp")  # on a RAM disk an fsync would cost nothing
        files = tempfile.TemporaryDirectory(prefix="indelible-bench-", dir=on_disk)
        self._files = Path(self._exits.enter_context(files))
        os.environ["INDELIBLE_KEYS"] = str(self._files / "keys")  # for all processes here: nobody's own keys are used

    @property
    def server(self) -> PostgresServer:
        """The PostgreSQL server, running."""
        if self._server is None:
            self._server = self._exits.enter_context(PostgresServer(settings=SETTINGS))
            with self.connect() as connection:
                connection.execute("CREATE EXTENSION IF NOT EXISTS pg_walinspect")
        return self._server

    @property
    def settings(self) -> dict[str, Any]:
        """What the running server says of its own durability; empty when no server was needed."""
        if self._server is None:
            return {}
        with self.connect() as connection:
            return {name: connection.execute(f"SHOW {name}").fetchall()[0][0] for name in SHOWN}

    @property
    def directory(self) -> Path:
        """Where the SQLite files are."""
        return self._files

    def connect(self) -> psycopg.Connection[tuple[Any, ...]]:
        """Opens a connection of the benchmark's own, to look at the server's counters."""
        return psycopg.connect(self.server.url, autocommit=True)

    def postgres(self, name: str) -> str:
        """Returns the address of a database, ready for the family of contestants that its name begins with."""
        if name not in self._databases:
            self._databases[name] = self.server.create_database(name)
            _prepare(name, self._databases[name])
        return self._databases[name]

    def postgres_by_tcp(self, name: str, port: int) -> str:
        """Returns the address of the same database through whatever listens on a port of this machine."""
        self.postgres(name)
        direct = self.server.url_of(name, tcp=True)
        return direct.replace(f":{self.server.port}/", f":{port}/") + "?sslmode=disable&gssencmode=disable"

    def sqlite(self, name: str) -> str:
        """Returns the address of a SQLite file."""
        return f"sqlite:///{self._files / name}.db"

    def address(self, store: str, name: str) -> str:
        """Returns the address of a database in the store of that kind."""
        return self.postgres(name) if store == "postgres" else self.sqlite(name)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._exits.close()


def _prepare(name: str, url: str) -> None:
    if name.startswith("raw"):
        raw_postgres.prepare(url)
    elif name.startswith("indelible"):
        ours = importlib.import_module("benchmarks.ours")  # so that raw limits and peers can be measured without us
        ours.prepare(url)
