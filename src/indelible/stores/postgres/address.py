"""Where a PostgreSQL ledger is: its URL, what may be shown of it, and whether a pooler stands before the server."""

from __future__ import annotations

import os
from urllib.parse import parse_qsl, quote, urlencode

from indelible.errors import Misconfigured
from indelible.stores.postgres.driver import conninfo, psycopg

_POOLERS = ("transaction", "session", "none")
# What libpq is told unless the URL or the environment says otherwise.
_DEFAULTS = {
    "target_session_attrs": ("read-write", "PGTARGETSESSIONATTRS"),  # after a failover, find the server that can write
    "connect_timeout": ("5", "PGCONNECT_TIMEOUT"),
    "application_name": ("indelible", "PGAPPNAME"),
}
# By these, libpq finds a database, and in it a ledger.
_SHOWN = {"user": "PGUSER", "host": "PGHOST", "port": "PGPORT", "dbname": "PGDATABASE", "options": "PGOPTIONS"}


class Target:
    """Names one database; all connections of a store share it, and with it what they learn about the way there."""

    def __init__(self, url: str) -> None:
        plain, pooler = _without_pooler(url)
        self.conninfo, self.address, self._password = _read(plain)
        self.is_pooled = pooler == "transaction"
        """Is another server's session behind every transaction? Then nothing of a session may be relied upon."""
        self.may_be_pooled = pooler is None
        """May that be found out by looking?"""
        self.synchronous_commit = "on"
        """Is the server's own setting."""
        self.shows_by_tenant = False
        """Does the server show a connection only the rows of the tenant that it says it works for?"""
        self.is_away = False
        """Did the last call give up because nobody answered?"""

    def without_password(self, text: str) -> str:
        """Gives a message of the driver's with the password struck out."""
        return text.replace(self._password, "***") if self._password else text


def _without_pooler(url: str) -> tuple[str, str | None]:
    """Takes `pooler=…`, which libpq does not know, out of a URL."""
    place, _, query = url.partition("?")  # several hosts make no URL that Python would take apart
    options = parse_qsl(query, keep_blank_values=True)
    found = [value for name, value in options if name == "pooler"]
    if not found:
        return url, None
    if found[-1] not in _POOLERS:
        raise Misconfigured(f"pooler={found[-1]}: choose one of {', '.join(_POOLERS)}")
    query = urlencode([option for option in options if option[0] != "pooler"], quote_via=quote)
    return f"{place}?{query}" if query else place, found[-1]


def _read(url: str) -> tuple[str, str, str]:
    """Gives libpq's form of a URL, the form that may be shown, and the password."""
    try:
        settings = conninfo.conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        # The driver's own words may quote a part of the password.
        raise Misconfigured(
            "the PostgreSQL URL cannot be read; write postgresql://user:password@host:port/database and percent-encode "
            "special characters in the password"
        ) from None
    settings["client_encoding"] = "UTF8"
    for name, (value, variable) in _DEFAULTS.items():
        if variable not in os.environ:
            settings.setdefault(name, value)
    shown = {name: str(settings.get(name) or os.environ.get(variable, "")) for name, variable in _SHOWN.items()}
    user = f"{shown['user']}@" if shown["user"] else ""
    address = f"postgresql://{user}{_servers(shown['host'], shown['port'])}/{shown['dbname']}"
    if shown["options"]:  # which may name a schema
        address += f"?options={quote(shown['options'])}"
    return conninfo.make_conninfo("", **settings), address, str(settings.get("password") or "")


def _servers(hosts: str, ports: str) -> str:
    """Gives each server with its port; one port alone is that of all, as for libpq."""
    named, numbered = hosts.split(","), ports.split(",")
    if len(numbered) == 1:
        numbered *= len(named)
    return ",".join(f"{host}:{port}" if port else host for host, port in zip(named, numbered, strict=False))
