"""Which ledger a command is about, and how it is opened."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from indelible import Ledger
from indelible.core.effects.calls import DEFAULT_TENANT
from indelible.errors import Misconfigured
from indelible.stores import address_of, is_postgres, is_remote, sqlite_path

F = TypeVar("F", bound=Callable[..., Any])

MAKE_ONE = "a program that calls Ledger.open() makes it; `indelible demo` shows one at work"


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """Says which ledger, which tenant, and for whom to print."""

    url: str | None
    tenant: str
    is_json: bool

    @property
    def address(self) -> str:
        """Is the address to open."""
        return address_of(self.url)

    def command(self, words: str) -> str:
        """Gives a command line that means the same ledger as this one, to be copied."""
        url = "" if self.url is None else f" --url {shlex.quote(without_password(self.url))}"
        tenant = "" if self.tenant == DEFAULT_TENANT else f" --tenant {shlex.quote(self.tenant)}"
        return f"indelible {words}{url}{tenant}"


def about_ledger(function: F) -> F:
    """Gives a command the options --url, --tenant and --json, and hands it a `Where`."""
    function = click.option("--json", "is_json", is_flag=True, callback=_kept, expose_value=False, help="Print JSON.")(
        function
    )
    function = click.option("--tenant", callback=_kept, expose_value=False, help="Whose effects.  [default: default]")(
        function
    )
    return click.option(
        "--url",
        callback=_kept,
        expose_value=False,
        help="A ledger: sqlite:///…, postgresql://…, https://…  [default: $INDELIBLE_URL, else .indelible/ledger.db]",
    )(function)


def _kept(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
    """Keeps what was given; options before the command hold unless the command has its own."""
    given = context.ensure_object(dict)
    if value:
        given[str(parameter.name)] = value
    return value


def where() -> Where:
    """Gives what the options of this command line say."""
    given = click.get_current_context().ensure_object(dict)
    return Where(url=given.get("url"), tenant=given.get("tenant") or DEFAULT_TENANT, is_json=bool(given.get("is_json")))


def open_existing(place: Where, *, wakeups: bool = False, policy: Path | None = None) -> Ledger:
    """Opens a ledger that is there; never makes one, and never touches a database that is not one."""
    if is_remote(place.address):  # whose tenant it is says the token
        return Ledger.open(place.address, wakeups=wakeups, policy=policy)
    if not is_postgres(place.address):
        check_is_ledger(place.address)
    return Ledger.open(place.address, tenant=place.tenant, wakeups=wakeups, policy=policy)


def open_here(place: Where) -> Ledger:
    """Opens a ledger at its database: whom a server lets in is not written through a server's store."""
    if is_remote(place.address):
        raise click.UsageError(
            f"{place.address}: give --url of the database, or ask the server at /v1/people and /v1/api-keys"
        )
    return open_existing(place)


def check_is_ledger(address: str) -> None:
    """Raises `Misconfigured` unless a SQLite address names a ledger that is there."""
    path = sqlite_path(address)
    if path == ":memory:":
        raise Misconfigured(":memory: lives in the program that opened it; name a file or a server with --url")
    if not Path(path).is_file():
        raise Misconfigured(f"there is no ledger at {address}: {MAKE_ONE}. Another one: --url or INDELIBLE_URL")
    if holds_ledger(path) is False:
        raise Misconfigured(f"{path} is a database, but no Indelible ledger; name another with --url")


def holds_ledger(path: str) -> bool | None:
    """Does this SQLite file hold a ledger? None when it cannot be read, which opening it will explain."""
    import apsw

    try:
        connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
        try:
            tables = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
        finally:
            connection.close()
    except apsw.Error:
        return None
    return {(f"indelible_{name}",) for name in ("migrations", "ledger", "effects", "events")} <= set(tables)


def without_password(url: str) -> str:
    """Gives an address that may be printed."""
    return re.sub(r"(?<=[?&]password=)[^&]*", "…", re.sub(r"(://[^:/@]*:)[^/]*@", r"\1…@", url))
