"""Which ledger a command is about, and how it is opened."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from indelible import Ledger
from indelible.cli.show import say_json, visible
from indelible.core.effects.calls import DEFAULT_TENANT
from indelible.core.people.credentials import read_token
from indelible.engine.authenticating import read_rows
from indelible.errors import Misconfigured, NotAuthenticated
from indelible.journal.keys.places import expected_in
from indelible.stores import address_of, is_postgres, is_remote, open_store, place_of, sqlite_path

F = TypeVar("F", bound=Callable[..., Any])

MAKE_ONE = "a program that calls Ledger.open() makes it, or `indelible migrate`; `indelible demo` shows one at work"

_MOST_LOOKED_AT = 50  # databases in the current folder, for whoever forgot to name one

_OF_A_LEDGER = ("migrations", "ledger", "effects", "events")

ASK_THE_SERVER = "ask the server: /v1/people and /v1/api-keys"


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
        tenant = "" if self.tenant == usual_tenant(self.url) else f" --tenant {shlex.quote(self.tenant)}"
        return f"indelible {words}{url}{tenant}"

    def doer(self, by: str) -> str | None:
        """Names who does something, as the record will; None at a server, which goes by the token alone."""
        return None if is_remote(self.address) else by

    def by_whom(self, by: str) -> str:
        """Says by whom something was done, in words."""
        return "by whose token this is" if self.doer(by) is None else f"by {visible(by)}"

    def say(self, content: object, words: str) -> None:
        """Prints what came of it: JSON for programs, words for people."""
        if self.is_json:
            say_json(content)
        else:
            print(words)


def about_ledger(function: F) -> F:
    """Gives a command the options --url, --tenant and --json, and hands it a `Where`."""
    function = click.option("--json", "is_json", is_flag=True, callback=_kept, expose_value=False, help="Print JSON.")(
        function
    )
    function = click.option(
        "--tenant",
        callback=_kept,
        expose_value=False,
        metavar="NAME",
        help="Whose ledger.  [default: default; at a server, whose the token is]",
    )(function)
    return click.option(
        "--url",
        callback=_kept,
        expose_value=False,
        metavar="URL",
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
    tenant = given.get("tenant") or usual_tenant(given.get("url"))
    return Where(url=given.get("url"), tenant=tenant, is_json=bool(given.get("is_json")))


def named_tenant() -> str | None:
    """Names the tenant that the command line names; None where none is named."""
    named: str | None = click.get_current_context().ensure_object(dict).get("tenant")
    return named


def usual_tenant(url: str | None) -> str:
    """Names whose ledger is meant where nobody says: at a server, the token does."""
    token = os.environ.get("INDELIBLE_TOKEN")
    if token and is_remote(address_of(url)):
        try:
            return read_token(token.strip()).tenant
        except NotAuthenticated:
            pass  # the server says so, with the next step
    return DEFAULT_TENANT


def open_existing(place: Where, *, wakeups: bool = False, policy: Path | None = None) -> Ledger:
    """Opens a ledger that is there; never makes one, and never touches a database that is not one."""
    if not is_remote(place.address):
        check_is_ledger(place.address)
    return Ledger.open(place.address, tenant=place.tenant, wakeups=wakeups, policy=policy, create=False)


@contextmanager
def open_to_read(place: Where, *, wakeups: bool = False, seal: bool | None = None) -> Iterator[Ledger]:
    """Open a ledger that is there, for a command that records nothing; it needs no writer keys."""
    if is_remote(place.address):
        with open_existing(place, wakeups=wakeups) as ledger:
            yield ledger
        return
    check_is_ledger(place.address)
    with closing(open_store(place.address, wakeups=wakeups, expect=expected_in(None), create=False)) as store:
        is_unchecked = read_rows(store, place.tenant)
        if is_unchecked:
            print("indelible: the writer keys are not here, so no mac of a row is checked", file=sys.stderr)
        with Ledger.open(store=store, tenant=place.tenant, seal=False if is_unchecked else seal) as ledger:
            yield ledger


def open_here(place: Where, instead: str = "") -> Ledger:
    """Opens a ledger at its database, for what is not done through a server."""
    check_is_here(place, instead)
    return open_existing(place)


def check_is_here(place: Where, instead: str = "") -> None:
    """Refuses a server's address where a database is needed; `instead` is what one can do from here."""
    if is_remote(place.address):
        other = f", or {instead}" if instead else ""
        raise Misconfigured(
            f"{place.address} is a server, and this is done at its database; name that with --url{other}"
        )


def check_is_ledger(address: str) -> None:
    """Raises `Misconfigured` where a SQLite address names no ledger that is there; PostgreSQL says that itself."""
    if is_postgres(address):
        return
    path = sqlite_path(address)
    if path == ":memory:":
        raise Misconfigured(":memory: lives in the program that opened it; name a file or a server with --url")
    if not Path(path).is_file():
        here = [f"--url {shlex.quote(f'sqlite:///{name}')}" for name in ledgers_in_folder()]
        how = f"there is one here: {', or '.join(here)}" if here else f"{MAKE_ONE}. Another one: --url or INDELIBLE_URL"
        raise Misconfigured(f"there is no ledger at {address}: {how}")
    if holds_ledger(path) is False:
        raise Misconfigured(f"{path} is a database, but no Indelible ledger; name another with --url")


def forget_expected(place: Where) -> None:
    """Let another ledger be begun or used at a place than the one that the folder of keys knows there."""
    from indelible.journal.keys.places import forget_place

    if not is_postgres(place.address) and sqlite_path(place.address) == ":memory:":
        raise click.UsageError("--new-ledger is for a file or a database")
    forget_place(place_of(place.address))


def ledgers_in_folder() -> list[str]:
    """Names up to three ledgers that lie in the current folder under any usual name of a database."""
    files = (path.name for path in sorted(Path().glob("*.db"))[:_MOST_LOOKED_AT] if path.is_file())
    return [name for name in files if holds_ledger(name)][:3]


def holds_ledger(path: str) -> bool | None:
    """Does this SQLite file hold a ledger? None when it cannot be read, which opening it will explain."""
    tables = tables_in(path)
    return None if tables is None else {f"indelible_{name}" for name in _OF_A_LEDGER} <= tables


def tables_in(path: str) -> set[str] | None:
    """Return the names of a SQLite file's tables; None if it cannot be read."""
    import apsw

    if not Path(path).is_file():  # opening a pipe waits for its other end
        return None
    try:
        connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
        try:
            return {str(name) for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
        finally:
            connection.close()
    except apsw.Error:
        return None


def without_password(url: str) -> str:
    """Gives an address that may be printed."""
    return re.sub(r"(?<=[?&]password=)[^&]*", "…", re.sub(r"(://[^:/@]*:)[^/]*@", r"\1…@", url))
