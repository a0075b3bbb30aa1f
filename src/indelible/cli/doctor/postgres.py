"""What a ledger on a PostgreSQL server needs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl

from indelible.cli.behind import store_behind
from indelible.cli.doctor import approvals, journal
from indelible.cli.doctor.command import Check, Verdict, check_added, check_effects, check_newest, check_skew, told
from indelible.cli.opening import Where, open_to_read
from indelible.core.ports import time_in
from indelible.errors import IndelibleError, Misconfigured, SchemaOutdated
from indelible.stores import durability

OLDEST_SERVER = 14  # the oldest that its makers still maintained when this was written
PGBOUNCER_PORT = 6432
_PORT = re.compile(r":(\d+)(?=[,/]|$)")
VERDICTS: dict[str, Verdict] = {"quorum": "ok", "single": "ok", "async": "warn", "unsafe": "bad"}


def examine(place: Where) -> Iterator[Check]:
    """Looks at the driver, the server, its durability, and what is in the ledger."""
    try:
        report = durability(place.address)
    except Misconfigured as error:
        yield told("server", error, "pip install 'indelible[postgres]'" if "psycopg" in str(error) else None)
        return
    except IndelibleError as error:
        yield told("server", error, "start it, or mend the address in --url or INDELIBLE_URL")
        return
    yield check_server(str(report["server_version"]))
    yield check_durability(report)
    yield from check_added(report["added"])
    yield from check_pooler(place.address)
    yield from check_ledger(place)


def check_server(version: str) -> Check:
    """Is the server one that still gets its faults mended?"""
    major = version.partition(".")[0]
    if major.isdecimal() and int(major) < OLDEST_SERVER:
        return Check("server", "warn", f"PostgreSQL {version} is no longer maintained", "upgrade the server")
    return Check("server", "ok", f"PostgreSQL {version}")


def check_durability(report: dict[str, Any]) -> Check:
    """What does a commit that was reported done survive?"""
    grade = str(report["grade"])
    what, _, how = str(report.get("advice", "")).partition("; ")
    return Check("durability", VERDICTS.get(grade, "bad"), f"{grade}: {what}", how or None)


def check_pooler(address: str) -> Iterator[Check]:
    """Is a pooler on the way, as far as the address tells?"""
    place, _, query = address.partition("?")
    options = dict(parse_qsl(query))
    ports = {*_PORT.findall(place), *options.get("port", "").split(",")}
    if "pooler" in options:
        yield Check("pooler", "ok", f"{options['pooler']}, as the address says")
    elif str(PGBOUNCER_PORT) in ports:
        said = f"port {PGBOUNCER_PORT} is usually PgBouncer's; in transaction mode, prepared statements get lost"
        yield Check("pooler", "warn", said, "add pooler=transaction (or pooler=none) to the address, after ? or &")


def check_ledger(place: Where) -> Iterator[Check]:
    """Opens the ledger as a program would, and looks inside."""
    try:
        with open_to_read(place) as ledger:
            yield Check("schema", "ok", "up to date")
            stores_now = time_in(store_behind(ledger), place.tenant)
            now = datetime.now(UTC)
            yield check_skew(stores_now, now)
            yield from check_newest(ledger, now)
            yield from check_effects(ledger, place, stores_now, is_lost=journal.is_lost(ledger, place))
            yield from approvals.examine(ledger, place, stores_now)
            yield from journal.examine(ledger, place, stores_now)
    except SchemaOutdated as error:
        is_newer = "upgrade Indelible" in str(error)
        yield told("schema", error, "pip install --upgrade indelible" if is_newer else place.command("migrate"))
    except IndelibleError as error:
        yield told("ledger", error)
