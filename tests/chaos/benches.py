"""Where jobs set up their stores: a template file copied per point, or one PostgreSQL server for all points."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from tests.chaos import procs
from tests.chaos.subject import KEYS, prepare, sqlite_url
from tests.postgres import PostgresServer, fresh_database

DATABASE = "ledger.db"


class Bench(Protocol):
    """Gives out stores that are ready to be used."""

    @property
    def name(self) -> str:
        """Names the kind of store."""
        ...

    def lay_out(self, where: Path) -> str:
        """Gives the address of a store for one point; runs are named after points, so a store may be shared."""
        ...

    def lay_out_bare(self, where: Path) -> str:
        """Gives the address of a store whose schema may still have to be made."""
        ...


@dataclass(frozen=True, slots=True)
class SqliteBench:
    """Copies a database that has its schema but no rows: the N-th system call is the same in every copy."""

    template: Path
    name: str = "sqlite"

    def lay_out(self, where: Path) -> str:
        """Copies the template."""
        where.mkdir(parents=True, exist_ok=True)
        for file in self.template.iterdir():
            shutil.copy(file, where / file.name)
        return sqlite_url(where / DATABASE)

    def lay_out_bare(self, where: Path) -> str:
        """Gives the address of a file that is not there yet."""
        where.mkdir(parents=True, exist_ok=True)
        return sqlite_url(where / DATABASE)


@dataclass(frozen=True, slots=True)
class PostgresBench:
    """Shares one server and one database; `url` goes through the unix socket, `tcp_url` through a port."""

    server: PostgresServer
    url: str
    tcp_url: str
    name: str = "postgres"

    def lay_out(self, where: Path) -> str:
        """Gives the database's address."""
        where.mkdir(parents=True, exist_ok=True)
        return self.url

    def lay_out_bare(self, where: Path) -> str:
        """Gives the same: a database per point would cost more than it shows."""
        return self.lay_out(where)


@contextmanager
def open_bench(name: str, where: Path, *, writer_keys: bool = True) -> Iterator[Bench]:
    """Sets a bench up for one of the stores and clears it away; `writer_keys` says whether its rows carry macs."""
    if name == "sqlite":
        template = where / "template"
        template.mkdir(parents=True)
        with _keys_in(where / "keys"):
            procs.ask(prepare, sqlite_url(template / DATABASE), writer_keys)
            yield SqliteBench(template)
        return
    # The jobs kill processes, never the machine: what the kernel has is safe, and waiting for a disk proves nothing.
    with (
        PostgresServer(directory=memory_disk(), fsync=False) as server,
        fresh_database(server.url) as url,
        _keys_in(where / "keys"),
    ):
        procs.ask(prepare, url, writer_keys)
        yield PostgresBench(server, url, server.url_of(urlsplit(url).path[1:], tcp=True))
        server.start()  # a job may have killed it, and the database is to be dropped


@contextmanager
def _keys_in(folder: Path) -> Iterator[None]:
    """Keep the writer keys of the bench's ledger in a folder, which all children know."""
    before = os.environ.get(KEYS)
    os.environ[KEYS] = str(folder)
    try:
        yield
    finally:
        if before is None:
            del os.environ[KEYS]
        else:
            os.environ[KEYS] = before


def memory_disk() -> str | None:
    """Names a directory in memory where there is one."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
