"""Group roles on a real server: they have the rights that the store's statements need, and no others."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pytest
from psycopg import sql

from indelible.errors import Misconfigured
from indelible.stores.postgres import make_roles, migrate
from indelible.stores.postgres.rights import MAINTAIN, RIGHTS, ROLES, Role
from indelible.stores.postgres.sheets import _RUN_WAYS, _WAYS
from indelible.stores.postgres.statements import SQL, listing_any_runs, listing_sheets
from tests.postgres import login

Admin = psycopg.Connection[Any]
REFUSED = psycopg.errors.InsufficientPrivilege
POSTGRES_PAGE = Path(__file__).parents[3] / "docs" / "postgres.md"

# Everything that the server can explain; the rest is VACUUM, and what only the owner does.
STATEMENTS = {
    **{name: one.sql.decode() for name, one in SQL.items() if not name.startswith(("list_sheets", "list_any_runs"))},
    **{f"list_sheets by {way}": listing_sheets(sql_, "id").sql.decode() for way, sql_ in _WAYS.items()},
    **{f"list_any_runs by {way}": listing_any_runs(sql_).sql.decode() for way, sql_ in _RUN_WAYS.items()},
}
EXPLAINED = {
    name: text for name, text in STATEMENTS.items() if re.search(r"^(WITH|SELECT|INSERT|UPDATE|DELETE)", text, re.M)
}
WRITES = {
    name for name, text in EXPLAINED.items() if re.search(r"\b(INSERT INTO|UPDATE|DELETE FROM|FOR SHARE)\b", text)
}
OWNERS = {"note_migration", "begin_macs"}


@pytest.fixture
def roles(url: str) -> dict[Role, str]:
    return make_roles(url).names


def refused(admin: Admin, role: str, names: set[str]) -> set[str]:
    """The statements that a role may not carry out."""
    found = set()
    for name in sorted(names):
        try:
            with admin.transaction(force_rollback=True):
                admin.execute(sql.SQL("SET LOCAL ROLE {}").format(sql.Identifier(role)))
                admin.execute(b"EXPLAIN (GENERIC_PLAN) " + EXPLAINED[name].encode())
        except REFUSED:
            found.add(name)
    return found


def test_the_roles_may_carry_out_what_is_theirs_and_nothing_else(admin: Admin, roles: dict[Role, str]) -> None:
    assert len(WRITES) >= 17
    assert len(EXPLAINED) >= 60
    every = set(EXPLAINED)
    assert refused(admin, roles["reader"], every) == WRITES
    assert refused(admin, roles["writer"], every) == {*OWNERS, "erase_payloads"}
    assert refused(admin, roles["eraser"], every) == OWNERS


def single_rights() -> Iterator[tuple[Role, str, str]]:
    for right in RIGHTS:
        for table in right.tables:
            for word in right.words:
                verb, _, columns = word.partition(" (")
                each = [f"{verb} ({column})" for column in columns.rstrip(")").split(", ")] if columns else [verb]
                yield from ((role, one, table) for role in right.roles for one in each)


def test_no_right_is_more_than_the_statements_need(admin: Admin, roles: dict[Role, str]) -> None:
    admin.autocommit = False
    needless = []
    for role, word, table in single_rights():
        if word in ("SELECT", MAINTAIN) or (role == "eraser" and word != "DELETE"):
            continue  # all tables are read; what an eraser has like a writer is tried as the writer's
        revoke = sql.SQL("REVOKE {} ON {} FROM {}")
        admin.execute(revoke.format(sql.SQL(word), sql.Identifier(table), sql.Identifier(roles[role])))
        about = {name for name in WRITES - OWNERS if table in EXPLAINED[name]}
        if not refused(admin, roles[role], about) - ({"erase_payloads"} if role == "writer" else set()):
            needless.append((role, word, table))
        admin.rollback()
    assert needless == []


def test_98_no_right_can_hide_a_row_that_may_not_be_deleted(admin: Admin, roles: dict[Role, str]) -> None:
    """A row whose key can be changed is as good as deleted: the call that it stands for would be made again."""
    keys = admin.execute(
        """SELECT c.relname::text, a.attname::text FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
        JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = ANY (i.indkey)
        WHERE i.indisunique AND c.relname LIKE 'indelible%'"""
    ).fetchall()
    assert len(keys) > 25
    for role in roles.values():
        for table, column in keys:
            may = admin.execute("SELECT has_column_privilege(%s, %s, %s, 'UPDATE')", (role, table, column)).fetchone()
            assert may == (False,), (role, table, column)


@pytest.mark.parametrize("role", ["writer", "reader"])
def test_98_65_what_is_recorded_cannot_be_deleted_or_changed(url: str, roles: dict[Role, str], role: Role) -> None:
    deletes = [f"DELETE FROM indelible_{t}" for t in ("effects", "events", "leaves", "heads", "payloads", "runs")]
    changes = [
        *("UPDATE indelible_events SET body = ''", "UPDATE indelible_events SET type = ''"),
        *("UPDATE indelible_leaves SET hash = ''", "UPDATE indelible_payloads SET value = ''"),
        *("UPDATE indelible_effects SET key = ''", "UPDATE indelible_effects SET scope = ''"),
        *("UPDATE indelible_heads SET size = 0", "UPDATE indelible_runs SET run_id = ''"),
        *("UPDATE indelible_ledger SET name = ''", "UPDATE indelible_redaction SET key_check = ''"),
        *("TRUNCATE indelible_effects", "TRUNCATE indelible_events", "TRUNCATE indelible_sheets"),
        *("DROP TABLE indelible_effects", "ALTER TABLE indelible_events DISABLE TRIGGER ALL"),
        *("INSERT INTO indelible_migrations VALUES (999, 'x', now())", "DELETE FROM indelible_ledger"),
    ]
    with login(url, member_of=roles[role]) as plain, psycopg.connect(plain, autocommit=True) as connection:
        for statement in (*deletes, *changes):
            with pytest.raises(REFUSED) as problem:
                connection.execute(statement.encode())
            assert problem.value.sqlstate == "42501"
        tables = connection.execute("SELECT count(*) FROM indelible_events").fetchone()
        assert tables == (0,)


def rights_there(admin: Admin) -> list[tuple[Any, ...]]:
    return admin.execute(
        """SELECT grantee, table_name, column_name, privilege_type FROM information_schema.column_privileges
        WHERE grantee LIKE 'indelible%' UNION ALL
        SELECT grantee, table_name, NULL, privilege_type FROM information_schema.table_privileges
        WHERE grantee LIKE 'indelible%' ORDER BY 1, 2, 3, 4"""
    ).fetchall()


def test_twice_is_once_and_what_was_granted_besides_is_taken_away(url: str, admin: Admin) -> None:
    first = make_roles(url)
    assert set(first.made) == set(first.names.values())
    rights = rights_there(admin)
    assert len(rights) > 200
    writer = sql.Identifier(first.names["writer"])
    admin.execute(sql.SQL("GRANT DELETE ON indelible_effects TO {}").format(writer))
    admin.execute(sql.SQL("GRANT UPDATE (key) ON indelible_effects TO {}").format(writer))
    assert rights_there(admin) != rights
    again = make_roles(url)
    assert (again.made, again.sql, again.names) == ((), (), first.names)
    assert rights_there(admin) == rights
    logins = admin.execute(
        "SELECT bool_or(rolcanlogin) FROM pg_roles WHERE rolname = ANY (%s)", (list(again.names.values()),)
    )
    assert logins.fetchone() == (False,)


def test_those_who_race_all_make_the_roles(url: str, admin: Admin) -> None:
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: make_roles(url), range(16)))
    assert {one.sql for one in made} == {()}
    assert (
        len(admin.execute("SELECT FROM pg_roles WHERE rolname = ANY (%s)", (list(made[0].names.values()),)).fetchall())
        == 3
    )


def test_an_owner_who_may_not_make_roles_is_given_the_sql_and_grants_later(url: str, admin: Admin) -> None:
    with login(url) as owner:
        _own_everything(admin, owner)
        asked = make_roles(owner)
        assert asked.made == ()
        assert [statement.partition(" ")[0] for statement in asked.sql][:5] == [*["CREATE"] * 3, "GRANT", "REVOKE"]
        assert rights_there(admin) == []
        for statement in asked.sql:
            admin.execute(statement.encode())
        rights = rights_there(admin)
        writer = sql.Identifier(asked.names["writer"])
        admin.execute(sql.SQL("REVOKE ALL ON indelible_effects FROM {}").format(writer))
        assert make_roles(owner).sql == (), "the roles are there, and the rest is the owner's to grant"
        assert rights_there(admin) == rights
        _own_everything(admin, None)


def test_a_user_with_createrole_needs_no_administrator(url: str, admin: Admin) -> None:
    with login(url, may="CREATEROLE") as owner:
        _own_everything(admin, owner)
        made = make_roles(owner)
        assert (len(made.made), made.sql) == (3, ())
        _own_everything(admin, None)
        for name in made.made:
            admin.execute(sql.SQL("REVOKE {} FROM {}").format(sql.Identifier(name), sql.Identifier(_user(owner))))


def test_a_user_who_does_not_own_the_tables_is_given_the_sql(url: str, admin: Admin) -> None:
    make_roles(url)
    rights = rights_there(admin)
    with login(url) as app:
        admin.execute(sql.SQL("GRANT ALL ON ALL TABLES IN SCHEMA public TO {}").format(sql.Identifier(_user(app))))
        assert len(make_roles(app).sql) > 10
    assert rights_there(admin) == rights


def test_ledgers_in_two_schemas_of_a_database_do_not_share_roles(url: str, admin: Admin) -> None:
    admin.execute("CREATE SCHEMA second")
    second = f"{url}{'&' if '?' in url else '?'}options={quote('-csearch_path=second')}"
    migrate(second)
    first, other = make_roles(url), make_roles(second)
    assert not set(first.names.values()) & set(other.names.values())
    try:
        with (
            login(url, member_of=other.names["writer"]) as plain,
            psycopg.connect(plain, autocommit=True) as connection,
        ):
            assert connection.execute("SELECT count(*) FROM second.indelible_effects").fetchone() == (0,)
            with pytest.raises(REFUSED):
                connection.execute("SELECT count(*) FROM public.indelible_effects")
    finally:
        for name in other.names.values():
            admin.execute(sql.SQL("DROP OWNED BY {0}; DROP ROLE {0}").format(sql.Identifier(name)))


def test_a_name_that_the_server_would_cut_off_is_refused(url: str) -> None:
    with pytest.raises(Misconfigured, match="--roles"):
        make_roles(url, "n" * 57)


def test_the_page_shows_the_rights_as_they_are_granted() -> None:
    def cell(words: tuple[str, ...]) -> str:
        return ", ".join(f"`{word}`" for word in words)

    rows = [
        f"| {', '.join(right.roles) if right.roles != ROLES else 'all'} | "
        f"{', '.join(f'`{table}`' for table in right.tables) if right.words != ('SELECT',) else 'all'} | "
        f"{cell(right.words)} | {right.why} |"
        for right in RIGHTS
    ]
    expected = "\n".join(["| role | table | may | because |", "|---|---|---|---|", *rows])
    assert expected in POSTGRES_PAGE.read_text(encoding="utf-8"), f"docs/postgres.md should hold:\n{expected}"


def _user(url: str) -> str:
    return url.partition("://")[2].partition(":")[0]


def _own_everything(admin: Admin, url: str | None) -> None:
    """Makes a user own the database and its tables, or gives them back."""
    owner = sql.SQL("CURRENT_USER") if url is None else sql.Identifier(_user(url))
    name = admin.info.dbname
    admin.execute(sql.SQL("ALTER DATABASE {} OWNER TO {}").format(sql.Identifier(name), owner))
    for (table,) in admin.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall():
        admin.execute(sql.SQL("ALTER TABLE {} OWNER TO {}").format(sql.Identifier(table), owner))
