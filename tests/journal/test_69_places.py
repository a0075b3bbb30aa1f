"""A verdict does not depend on the place: live ledgers, the server and clients of it judge every vector alike."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import httpx
import pytest

from indelible import migrate
from indelible.journal.evidence.live import LiveEvidence
from indelible.journal.evidence.verification import verify
from indelible.server.app import create_app
from indelible.server.ledgers import Ledgers
from indelible.stores import open_store
from indelible.stores.remote import RemoteStore
from indelible.testing.record.vectors import Vector, base_of, vectors
from tests.journal.test_verify_afar import by_scope
from tests.journal.vector_loading import CannotHold, LoadedDatabase
from tests.server.serving import Served


@pytest.fixture
def loaded(store_url: str) -> Iterator[LoadedDatabase]:
    migrate(store_url, writer_keys=False)  # so that verification alone has to find what is changed
    with closing(LoadedDatabase(store_url)) as database:
        yield database


@pytest.mark.timeout(900)  # some 1,400 verifications, half a minute on an idle machine
def test_69_live_ledgers_the_server_and_its_clients_give_the_verdict_of_every_vector_that_a_database_holds(
    store_url: str, loaded: LoadedDatabase, record_property: Any
) -> None:
    """Each vector is asked of the ledger and of the server's endpoint; each client asks for half of them."""
    wrong: dict[str, Any] = {}
    judged: Counter[str] = Counter()
    unheld: Counter[str] = Counter()
    store = open_store(store_url, wakeups=False)
    server = Served(create_app(Ledgers(store, seal=False), by_scope))
    afar = RemoteStore(server.url, token="auditor", wakeups=False)
    web = httpx.Client(base_url=server.url, headers={"authorization": "Bearer auditor"})
    try:
        for number, vector in enumerate(vectors()):
            try:
                loaded.load(vector, base_of(vector))
            except CannotHold as why:
                unheld[str(why)] += 1
                continue
            words: dict[str, Any] = {"after": vector.after, "up_to_head": True}
            found = {
                "live": verify(LiveEvidence(store, "default"), vector.keys, **words).verdict,
                "server": _asked(web, vector),
            }
            if number % 2 == store_url.startswith("sqlite"):
                found["--url"] = verify(LiveEvidence(afar, "default"), vector.keys, **words).verdict
            judged.update(found.keys())
            if set(found.values()) != {vector.expected["bundle"]}:
                wrong[vector.name] = (vector.expected["bundle"], found)
    finally:
        web.close()
        afar.close()
        server.stop()
        store.close()
    print(f"\n{dict(judged)} vectors judged, {len(wrong)} otherwise than expected; a live ledger cannot hold:")
    print("".join(f"  {count:4} {why}\n" for why, count in unheld.most_common()), end="")
    record_property("judged", json.dumps(judged))
    assert not wrong
    assert judged["live"] == judged["server"] >= 500
    assert judged["--url"] >= 250


def _asked(web: httpx.Client, vector: Vector) -> str:
    body = {"keys": list(vector.keys), "after": list(vector.after), "up_to_head": True}
    answer = web.post("/v1/journal/verify", json=body)
    return str(answer.raise_for_status().json()["verdict"])
