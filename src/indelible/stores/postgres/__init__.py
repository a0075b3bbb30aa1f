"""The shared store: PostgreSQL through psycopg."""

from indelible.stores.postgres.durability import durability
from indelible.stores.postgres.roles import make_roles
from indelible.stores.postgres.schema import migrate, secure_rows
from indelible.stores.postgres.store import PostgresStore

__all__ = ["PostgresStore", "durability", "make_roles", "migrate", "secure_rows"]
