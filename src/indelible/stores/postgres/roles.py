"""Makes the group roles of a ledger and grants them their rights; what this user may not do, it says in SQL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from indelible.errors import Misconfigured, StoreUnavailable
from indelible.stores.named_sql import load_queries
from indelible.stores.postgres.address import Target
from indelible.stores.postgres.driver import psycopg
from indelible.stores.postgres.rights import MAINTAIN, RIGHTS, ROLES, TABLES, Role
from indelible.stores.postgres.statements import SQL

_SQL = {name: text.partition("\n")[2] for name, text in load_queries(__package__, "roles.sql").items()}
_MOST_BYTES = 63  # the server cuts longer names off, so that two ledgers could share a role
_HAS_MAINTAIN = 170_000


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRoles:
    """Is what became of a ledger's group roles.

    Attributes:
        names: The role's name on the server, for each of writer, eraser and reader.
        made: Names of the roles that were made now.
        sql: Statements for an administrator, if this user may not make the roles or grant the rights; else empty.
    """

    names: dict[Role, str]
    made: tuple[str, ...]
    sql: tuple[str, ...]


def make_roles(url: str, prefix: str | None = None) -> GroupRoles:
    """Makes the roles that are missing and sets the rights of all three; safe to repeat and to race.

    Roles belong to the whole server. So they are named after the database, and after the schema if that is not
    `public`: a login that may write one ledger may not write another. With a `prefix`, that is their name.
    """
    target = Target(url)
    try:
        with psycopg.connect(target.conninfo, autocommit=True, prepare_threshold=None) as connection:
            return _make(connection, target, prefix)
    except psycopg.Error as problem:
        said = target.without_password(str(problem)).strip()
        raise StoreUnavailable(f"{target.address}: {said}; the roles were not made. Call again") from None


def _make(connection: psycopg.Connection[Any], target: Target, prefix: str | None) -> GroupRoles:
    ((database, schema, is_owner),) = connection.execute(_SQL["describe_place"].encode()).fetchall()
    names = _names(target, prefix or f"indelible_{database}" + ("" if schema == "public" else f"_{schema}"))
    asked = {"names": list(names.values())}
    found = {name for (name,) in connection.execute(_SQL["find_roles"].encode(), asked)}
    missing = [name for name in names.values() if name not in found]
    made = [name for name in missing if _create(connection, name)]
    grants = _grants(connection, schema, names)
    if len(made) == len(missing) and is_owner:
        with connection.transaction():
            connection.execute(SQL["lock_migrations"].sql)  # two who grant the same at once fail
            for statement in grants:
                connection.execute(statement.encode())
        return GroupRoles(names=names, made=tuple(made), sql=())
    creates = [_creating(connection, name) for name in missing if name not in made]
    return GroupRoles(names=names, made=tuple(made), sql=(*creates, *grants))


def _names(target: Target, prefix: str) -> dict[Role, str]:
    names = {role: f"{prefix}_{role}" for role in ROLES}
    if any(len(name.encode()) > _MOST_BYTES for name in names.values()):
        raise Misconfigured(
            f"{target.address}: {names['writer']} is too long for the name of a role; choose a shorter one: "
            "indelible migrate --roles PREFIX"
        )
    return names


def _create(connection: psycopg.Connection[Any], name: str) -> bool:
    """Makes a role; False if this user may not."""
    try:
        connection.execute(_creating(connection, name).encode())
    except psycopg.errors.InsufficientPrivilege:
        return False
    except (psycopg.errors.DuplicateObject, psycopg.errors.UniqueViolation):
        pass  # another migrator was faster
    return True


def _creating(connection: psycopg.Connection[Any], name: str) -> str:
    return _SQL["create_role"].format(role=_quoted(connection, name))


def _grants(connection: psycopg.Connection[Any], schema: str, names: dict[Role, str]) -> list[str]:
    """Gives the statements after which the roles have exactly their rights on the ledger's tables."""

    def listed(tables: tuple[str, ...]) -> str:
        return ", ".join(_quoted(connection, schema, table) for table in tables)

    def members(roles: tuple[Role, ...]) -> str:
        return ", ".join(_quoted(connection, names[role]) for role in roles)

    knows_maintain = connection.info.server_version >= _HAS_MAINTAIN
    statements = [
        _SQL["enter_schema"].format(schema=_quoted(connection, schema), roles=members(ROLES)),
        _SQL["revoke_all"].format(tables=listed(TABLES), roles=members(ROLES)),
    ]
    for right in RIGHTS:
        words = [word for word in right.words if word != MAINTAIN or knows_maintain]
        if words:
            rights = {"rights": ", ".join(words), "tables": listed(right.tables), "roles": members(right.roles)}
            statements.append(_SQL["grant"].format(**rights))
    return statements


def _quoted(connection: psycopg.Connection[Any], *name: str) -> str:
    return psycopg.sql.Identifier(*name).as_string(connection)
