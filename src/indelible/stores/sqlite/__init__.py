"""The embedded store: SQLite through apsw."""

from indelible.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
