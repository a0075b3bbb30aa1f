"""A store in PostgreSQL, named by the pool of connections that agent-ledger is given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from indelible import Ledger, migrate
from indelible.compat.agent_ledger.errors import EffectStoreError
from indelible.compat.agent_ledger.stores.base import EffectStore

SCHEMA_SQL = "SELECT 'PostgresStore makes its own tables, indelible_…, when it is first used' AS hint"
"""May be executed as agent-ledger says, and changes nothing."""


class PostgresStore(EffectStore[Any]):
    """Is a ledger in the database that a pool of psycopg's leads to, beside whatever is there.

    The pool only says where that is: the ledger has connections of its own. Its tables are brought up to date on first
    use; with `migrate=False` that is left to `indelible migrate`. `ledger_options` are those of `Ledger.open`.
    """

    def __init__(self, pool: Any, *, migrate: bool = True, **ledger_options: Any) -> None:
        address = address_of_pool(pool)
        super().__init__(lambda: _opened(address, is_migrated_here=migrate, options=ledger_options))


def _opened(address: str, *, is_migrated_here: bool, options: Mapping[str, Any]) -> Ledger:
    if is_migrated_here:
        migrate(address, keys=options.get("keys"))
    return Ledger.open(address, **options)


def address_of_pool(pool: Any) -> str:
    """Gives the address that a pool's connections lead to; its keywords count, where they say where and who."""
    from psycopg import pq  # only who uses PostgreSQL has the driver
    from psycopg.conninfo import conninfo_to_dict

    conninfo, keywords = getattr(pool, "conninfo", None), getattr(pool, "kwargs", None) or {}
    if not isinstance(conninfo, str) or not isinstance(keywords, Mapping):
        raise EffectStoreError(
            "the pool does not say where its connections lead; give one with a conninfo, or "
            "LedgerStore('postgresql://…')",
            operation="open",
        )
    of_libpq = {option.keyword.decode() for option in pq.Conninfo.get_defaults()}
    known = {name: value for name, value in keywords.items() if name in of_libpq}
    settings = conninfo_to_dict(conninfo, **known)
    words = "&".join(f"{name}={quote(str(value), safe='')}" for name, value in settings.items() if value is not None)
    return f"postgresql:///?{words}"
