"""A server that lists something else than it was asked for is not gone on with: whoever reads pages comes to an end."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any
from urllib.parse import quote

import pytest

from indelible import Ledger, ToolCall
from indelible.core.ports import Filter
from indelible.core.remote.wire import to_wire
from indelible.core.sheets import SheetFilter
from indelible.errors import Misconfigured
from indelible.stores.remote import RemoteStore
from tests.scenarios.shells import prepare_store
from tests.server.serving import serve_believing
from tests.stores.between import Between

TENANT = "acme"
List = Callable[[RemoteStore, Any], Any]
# How a page is asked for; the second time, from the last one on that the first page had.
LISTS: dict[str, tuple[List, Callable[[Any], Any]]] = {
    "events": (lambda store, last: store.events(TENANT, "r", -1 if last is None else last, 2), lambda one: one.seq),
    "effects": (lambda store, last: store.effects(TENANT, Filter(before=last, limit=2)), lambda one: one.id),
    "outlines": (lambda store, last: store.outlines(TENANT, "", last, 2), lambda one: one.id),
    "sheets": (
        lambda store, last: store.sheets(TENANT, SheetFilter(kind="run", before=last, limit=2)),
        lambda one: one.id,
    ),
    "entries": (lambda store, last: store.journal.entries(TENANT, last or 0, 2), lambda one: one.index + 1),
    "runs": (lambda store, last: store.journal.runs(TENANT, last or "", 2), lambda one: one[0]),
}


@pytest.fixture(scope="module")
def between(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Between]:
    """A real server of a ledger with some of everything, and somebody between us and it."""
    folder = tmp_path_factory.mktemp("listing")
    url = prepare_store(f"sqlite:///{folder / 'ledger.db'}")
    with Ledger.open(url, tenant=TENANT, keys=folder / "keys", seal=False) as ledger:
        for name in ("r", "s", "t"):
            ledger.start_run(name, agent="a").complete()
            for number in range(2):
                ledger.run(ToolCall(tool="note", args={"n": number}, run_id=name), lambda effect: 1)
        ledger.seal()
    server = serve_believing(url, seal=False, keys=folder / "keys")
    proxy = Between(server.url)
    yield proxy
    proxy.stop()
    server.stop()


@pytest.fixture
def store(between: Between) -> Iterator[RemoteStore]:
    client = RemoteStore(between.url, token=quote(json.dumps(TENANT)), wakeups=False)
    yield client
    client.close()


@pytest.mark.parametrize("name", LISTS)
def test_what_stands_elsewhere_in_the_order_is_not_taken_for_the_next_page(
    store: RemoteStore, between: Between, name: str
) -> None:
    listed, place_of = LISTS[name]
    first = listed(store, None)
    assert len(first) == 2
    assert listed(store, place_of(first[-1])), "an honest server goes on"
    lies = {"again": first, "backwards": first[::-1], "too many": [*first, *first]}
    if name == "sheets":
        del lies["backwards"]  # they have several orders; where the next page begins is what counts
    for lie, page in lies.items():
        between.acts.append((200, {"answer": to_wire(page)}))
        with pytest.raises(Misconfigured, match="the server lists"):
            listed(store, place_of(first[-1]) if lie == "again" else None)


@pytest.mark.parametrize("scopes", [None, 5, "admin", ["agent"], [{}], []])
def test_a_server_that_tells_no_scopes_is_believed_to_show_the_least(between: Between, scopes: Any) -> None:
    introduction = {"ledger": "ledger-x", "protocol": 1, "tenant": TENANT, "scopes": scopes}
    between.acts.append((200, introduction))
    with closing(RemoteStore(between.url, token="x", wakeups=False)) as client:
        assert {"policy", "grant", "credential"} <= client.unseen_kinds


def test_what_belongs_to_something_else_is_not_taken_for_an_answer(store: RemoteStore, between: Between) -> None:
    events, values = store.events(TENANT, "r", -1, 2), store.payloads(TENANT, "r", [0, 1])
    assert values
    for ask, page in (
        (lambda: store.events(TENANT, "s", -1, 2), events),
        (lambda: store.payloads(TENANT, "r", [5]), values),
        (lambda: store.payloads(TENANT, "s", [0, 1]), values),
        (lambda: store.sheets(TENANT, SheetFilter(kind="policy")), store.sheets(TENANT, SheetFilter(kind="run"))),
    ):
        between.acts.append((200, {"answer": to_wire(page)}))
        with pytest.raises(Misconfigured, match="the server lists"):
            ask()
