"""The shared store: PostgreSQL through psycopg."""

from indelible.stores.postgres.durability import durability
from indelible.stores.postgres.schema import migrate
from indelible.stores.postgres.store import PostgresStore

__all__ = ["PostgresStore", "durability", "migrate"]
