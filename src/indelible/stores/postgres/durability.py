"""How safe a commit is on a server: what `indelible doctor` prints."""

from __future__ import annotations

import time
from typing import Any

from indelible.stores.postgres.address import Target
from indelible.stores.postgres.connections import Lost, Rejected, Session
from indelible.stores.postgres.statements import SQL
from indelible.stores.postgres.trouble import explained

_SECONDS = 10.0
_SETTINGS = ("server_version", "fsync", "synchronous_commit", "full_page_writes", "synchronous_standby_names")
_ADVICE = {
    "unsafe": "a crash can lose commits that were reported done; set fsync and synchronous_commit to on",
    "async": "a failover can lose the last commits, whose effects may happen again; set synchronous_standby_names",
    "single": "commits survive a crash of this server, and are lost with its disk",
    "quorum": "commits survive the loss of this server",
}


def durability(url: str) -> dict[str, Any]:
    """Tell what decides what survives, with a grade: unsafe, single, async or quorum.

    `added` names triggers, rules and row policies of users, which can keep rows away.
    """
    target = Target(url)
    until = time.monotonic() + _SECONDS
    try:
        session = Session(target)
        try:
            found = session.run(SQL["read_durability"], (), until)
            report: dict[str, Any] = {name: _text(found.get_value(0, at)) for at, name in enumerate(_SETTINGS)}
            standbys = session.run(SQL["list_standbys"], (), until)
            added = session.run(SQL["list_added"], (), until)
        finally:
            session.close()
    except (Lost, Rejected) as problem:
        raise explained(target, problem) from problem
    report["standbys"] = [
        {name: _text(standbys.get_value(row, at)) for at, name in enumerate(("name", "state", "sync_state"))}
        for row in range(standbys.ntuples)
    ]
    report["added"] = [_text(added.get_value(row, 0)) for row in range(added.ntuples)]
    report["grade"] = grade = _grade(report)
    report["advice"] = _ADVICE[grade]
    return report


def _grade(report: dict[str, Any]) -> str:
    if "off" in (report["fsync"], report["synchronous_commit"]):
        return "unsafe"
    # `local` waits for this server's disk alone, `remote_write` for the standby's memory, which a crash there loses.
    waits = report["synchronous_commit"] in ("on", "remote_apply")
    if waits and report["synchronous_standby_names"]:
        return "quorum"
    return "async" if report["standbys"] else "single"


def _text(raw: bytes | None) -> str:
    return "" if raw is None else raw.decode()
