"""A live ledger is verified through its server, by somebody who trusts the server with nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from fastapi import Request

from indelible import Actor, Ledger
from indelible.core.remote.admitting import Caller
from indelible.core.remote.questions import FOR_NOBODY
from indelible.errors import Misconfigured
from indelible.journal.evidence.live import LiveEvidence
from indelible.journal.evidence.verification import verify
from indelible.server.app import create_app
from indelible.server.ledgers import Ledgers
from indelible.server.signin.credentials import Credentials
from indelible.stores import open_store
from indelible.stores.remote import RemoteStore
from tests.cli.conftest import Cli
from tests.cli.conftest import cli as cli
from tests.journal.tampering import Change, Database, changes
from tests.journal.test_verify_live import database as database
from tests.journal.test_verify_live import ledger as ledger
from tests.journal.test_verify_live import look, pinned_key
from tests.server.serving import Served

# One change of each of these, for what is compared is the same as at the database; INDELIBLE_CHANGES=all tries every
# one on both stores.
TRIED = {("effects", "edit"), ("events", "edit"), ("leaves", "delete row"), ("payloads", "edit"), ("sheets", "edit")}


async def by_scope(request: Request) -> Caller:
    """Takes the token for the scope."""
    scope: Any = request.headers["authorization"].removeprefix("Bearer ")
    return Caller(tenant="default", scopes=frozenset({scope}), actor=None)


@pytest.fixture
def server(ledger: Ledger, store_url: str) -> Iterator[str]:
    """A server of the ledger that seals nothing, so that every change stays as it is."""
    store = open_store(store_url, wakeups=False)
    Credentials(store, "default").give("billing", ("agent",), by=Actor("root"))
    served = Served(create_app(Ledgers(store, seal=False), by_scope))
    yield served.url
    served.stop()


def verdict_afar(server: str, key: str) -> str:
    with closing(RemoteStore(server, token="auditor", wakeups=False)) as store:
        try:
            return verify(LiveEvidence(store, "default"), [key], deep=True, up_to_head=True).verdict
        except Misconfigured:  # what no ledger can hold, no client reads
            return "unreadable"


def tried(database: Database) -> Iterator[Change]:
    left = set(TRIED)
    for change in changes(database):
        if change.table == "ledger" or change.kind in FOR_NOBODY:
            continue  # the ledger's name is read when the server begins, and what is shown to nobody is not compared
        if os.environ.get("INDELIBLE_CHANGES") == "all" or (change.table, change.act) in left:
            left.discard((change.table, change.act))
            yield change


def test_whoever_changes_the_tables_is_caught_through_the_server_as_at_the_database(
    ledger: Ledger, database: Database, server: str, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = pinned_key(ledger._engine.store)
    caught = 0
    for change in tried(database):
        with database.changed(change) as has_happened:
            if has_happened:
                near = look(ledger, key, deep=True).verdict
                far = verdict_afar(server, key)
                assert far == near or (near, far) == ("tampered", "unreadable"), str(change)
                caught += near == "tampered"
    assert caught >= 4
    monkeypatch.setenv("INDELIBLE_TOKEN", "auditor")
    assert cli("verify", "--url", server, "--key", key, code=2).out.startswith("CANNOT TELL: verified up to entry ")
    said = cli("verify", "--url", server, "--key", key, "--up-to-head").out
    assert said.startswith("VERIFIED: "), "every change was taken back"
    assert "what the ledger keeps of each credential beside the record was not compared" in said
    assert cli("verify", "--url", server, code=2).out.startswith("CANNOT TELL: no key was given")
    monkeypatch.setenv("INDELIBLE_TOKEN", "agent")
    told = cli("verify", "--url", server, "--key", key, "--up-to-head", "--json").json
    assert (told["verdict"], told["tail"]["events"]) == ("verified", 5)
    assert any("each credential and each delegation and each grant and each policy " in one for one in told["remarks"])
