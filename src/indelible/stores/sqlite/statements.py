"""The statements of `queries.sql` by their names."""

from __future__ import annotations

from indelible.stores.named_sql import load_queries

SQL = load_queries(__package__)
