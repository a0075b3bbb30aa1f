"""Where the ledger of a case is: a SQLite file in its folder, or a database of its own on a PostgreSQL server."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from indelible.errors import Misconfigured
from indelible.stores import is_postgres, migrate

StoreKind = Literal["sqlite", "postgres"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Names the ledger of one case and, if it is a database, the server where that was made."""

    url: str
    server: str | None = None

    def destroy(self) -> None:
        """Takes the store away while it is in use: overwrites the file, or drops the database under its connections."""
        if self.server is not None:
            _command(self.server, "DROP DATABASE IF EXISTS {} WITH (FORCE)", _database_of(self.url))
            return
        for end in ("", "-wal", "-shm"):
            file = Path(f"{self.url.removeprefix('sqlite:///')}{end}")
            file.write_bytes(b"\xff" * file.stat().st_size)


def kind_of(server: str | None) -> StoreKind:
    """Says on which kind of store cases are played, and refuses what they cannot be played on."""
    if server is None:
        return "sqlite"
    if not is_postgres(server):
        raise Misconfigured(
            "name a PostgreSQL database (postgresql://…) where databases may be created, or none: then each case has a "
            "SQLite file of its own"
        )
    return "postgres"


@contextmanager
def empty_place(folder: str, server: str | None) -> Iterator[Place]:
    """Gives a place without effects, which is gone afterwards, whoever is still connected to it."""
    if server is None:
        yield Place(url=f"sqlite:///{folder}/ledger.db")
        return
    place = Place(url=_url_of(server, f"indelible_case_{secrets.token_hex(6)}"), server=server)
    _command(server, "CREATE DATABASE {}", _database_of(place.url))
    try:
        migrate(place.url)
        yield place
    finally:
        place.destroy()


def _url_of(server: str, database: str) -> str:
    parts = urlsplit(server)
    return f"{parts.scheme}://{parts.netloc}/{database}{f'?{parts.query}' if parts.query else ''}"


def _database_of(url: str) -> str:
    return urlsplit(url).path.removeprefix("/")


def _command(server: str, statement: Any, database: str) -> None:
    import psycopg  # only who uses PostgreSQL has the driver
    from psycopg.sql import SQL, Identifier

    try:
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(SQL(statement).format(Identifier(database)))
    except psycopg.Error as problem:
        # The driver's own words may name the password's owner, but never the password.
        raise Misconfigured(
            f"the database that --store names cannot be used: {str(problem).splitlines()[0]}; its user has to be "
            "one who may create databases"
        ) from problem
