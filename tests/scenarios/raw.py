"""A ledger's database in the hands of somebody who may write to it without the ledger."""

from __future__ import annotations

from typing import Any

import psycopg

from tests.stores.database import open_file


def execute(url: str, sql: str, *values: Any) -> list[tuple[Any, ...]]:
    """Carries out a statement on the store itself and gives its rows; `?` stands for a value in both dialects."""
    if url.startswith("sqlite"):
        connection = open_file(url)
        try:
            return list(connection.execute(sql, values))
        finally:
            connection.close()
    with psycopg.connect(url, autocommit=True) as server:
        found = server.execute(sql.replace("?", "%s").encode(), values)
        return found.fetchall() if found.description else []
