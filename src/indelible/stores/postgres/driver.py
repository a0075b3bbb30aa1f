"""The driver, or a clear word about how to get it."""

from __future__ import annotations

from indelible.errors import Misconfigured

try:
    import psycopg
    from psycopg import conninfo, pq
except ImportError as error:
    raise Misconfigured(
        f"PostgreSQL needs psycopg, which cannot be imported ({error}); run: pip install 'indelible[postgres]'"
    ) from error

__all__ = ["conninfo", "pq", "psycopg"]
