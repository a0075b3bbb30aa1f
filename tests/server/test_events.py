"""Events over HTTP: pages and a live stream, each event once and in order, also for who was cut off."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2
import pytest

from indelible import Ledger, ToolCall
from indelible.server import feeds
from indelible.server.signin.credentials import Credentials
from tests.server.places import ROOT, Place, sqlite_place
from tests.waiting import PATIENCE, eventually


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    made = sqlite_place(tmp_path_factory.mktemp("events"))
    yield made
    made.close()


@pytest.fixture
def run() -> str:
    return uuid4().hex


class Stream:
    """Reads server-sent events in a thread, until enough have come."""

    def __init__(self, place: Place, enough: int, token: str | None = None, **params: Any) -> None:
        last = params.pop("last", None)
        headers = place.headers("auditor") if token is None else {"Authorization": f"Bearer {token}"}
        self._headers = headers | ({} if last is None else {"Last-Event-ID": str(last)})
        self._url, self._params = f"{place.served.url}/v1/events/stream", params
        self._enough = enough
        self.is_open, self.is_over = threading.Event(), threading.Event()
        self.got: list[tuple[int, dict[str, Any]]] = []
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        assert self.is_open.wait(PATIENCE), self.error

    def _read(self) -> None:
        try:
            with (
                httpx2.Client(trust_env=False, timeout=PATIENCE) as client,
                client.stream("GET", self._url, headers=self._headers, params=self._params) as answer,
            ):
                assert answer.status_code == 200
                assert answer.headers["content-type"].startswith("text/event-stream")
                self.got += islice(self._events(answer.iter_lines()), self._enough)
        except BaseException as error:
            self.error = error
        finally:
            self.is_over.set()

    def _events(self, lines: Iterator[str]) -> Iterator[tuple[int, dict[str, Any]]]:
        content: dict[str, Any] = {}
        for line in lines:
            self.is_open.set()
            if line.startswith("data: "):
                content = json.loads(line.removeprefix("data: "))
            elif line.startswith("id: "):
                yield int(line.removeprefix("id: ")), content

    def all(self) -> list[tuple[int, dict[str, Any]]]:
        assert self.is_over.wait(PATIENCE)
        self._thread.join()
        assert self.error is None, self.error
        return self.got


def make(place: Place, run: str, count: int) -> None:
    """Makes two events for each call."""
    for n in range(count):
        assert place.commit(place.begin(run_id=run, args={"n": n}).json()).status_code == 200


def test_a_runs_events_come_in_pages_in_their_order(place: Place, run: str) -> None:
    make(place, run, 3)
    page = place.get("/v1/events", params={"run_id": run, "limit": 4}).json()
    rest = place.get("/v1/events", params={"run_id": run, "limit": 4, "after": page["next"]}).json()
    assert [one["seq"] for one in page["events"] + rest["events"]] == list(range(6))
    assert (page["next"], rest["next"]) == (3, None)
    assert place.get("/v1/events", params={"run_id": run, "after": 5}).json()["events"] == []
    first, second = page["events"][:2]
    assert second["body"]["prev"] == first["hash"]


def test_all_events_come_in_the_order_of_the_journal(place: Place, run: str) -> None:
    make(place, run, 2)
    place.ledgers.of("acme")._seal()
    seen: list[dict[str, Any]] = []
    after = -1
    while after is not None:
        page = place.get("/v1/events", "auditor", params={"after": after, "limit": 3}).json()
        seen += page["events"]
        after = page["next"]
    assert [one["index"] for one in seen] == list(range(len(seen)))
    assert [one["seq"] for one in seen if one["run_id"] == run] == [0, 1, 2, 3]


def test_a_stream_tells_what_was_and_what_happens(place: Place, run: str) -> None:
    make(place, run, 1)
    stream = Stream(place, 6, run_id=run)
    make(place, run, 0)
    for n in range(1, 3):
        place.commit(place.begin(run_id=run, args={"n": n}).json())
    got = stream.all()
    assert [number for number, _ in got] == list(range(6))
    assert [told["seq"] for _, told in got] == list(range(6))
    assert got == [(one["seq"], one) for one in place.get("/v1/events", params={"run_id": run}).json()["events"]]


def test_whoever_was_cut_off_misses_none_and_gets_none_twice(place: Place, run: str) -> None:
    make(place, run, 3)
    first = Stream(place, 2, run_id=run).all()
    rest = Stream(place, 4, run_id=run, last=first[-1][0], after=-1).all()
    assert [number for number, _ in first + rest] == list(range(6))


def test_what_another_process_writes_is_told_too(place: Place, run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("indelible.server.routes.events.LOOK_EVERY", 0.01)
    make(place, run, 1)
    stream = Stream(place, 2, run_id=run, after=1)
    with Ledger.open(place.store.address, tenant="acme", seal=False) as other:
        other.run(ToolCall(tool="mail", run_id=run), lambda effect: 1)
    assert [told["type"] for _, told in stream.all()] == ["tool_call_started", "tool_call_finished"]


def test_the_whole_tenant_is_followed_in_the_order_of_the_journal_and_no_other_tenant(place: Place, run: str) -> None:
    ledger = place.ledgers.of("acme")
    ledger._seal()
    size = ledger._engine.store.journal.tree("acme").size
    stream = Stream(place, 4, after=size - 1)
    assert place.begin("stranger", run_id=run).status_code == 201
    make(place, run, 2)
    got = stream.all()
    assert [number for number, _ in got] == list(range(size, size + 4))
    assert {(told["run_id"], told["body"]["log"]) for _, told in got} == {(run, ledger.journal_name)}


@pytest.mark.parametrize("is_quiet", [True, False])
def test_whoever_was_revoked_is_told_nothing_more(
    place: Place, run: str, monkeypatch: pytest.MonkeyPatch, is_quiet: bool
) -> None:
    """Where nothing happens, a stream ends when it would show that it is alive; else before the next thing it tells."""
    monkeypatch.setattr(feeds, "CHECK_EVERY" if is_quiet else "TOLD_UNCHECKED_FOR", 0.0)
    monkeypatch.setattr("indelible.server.routes.events.LOOK_EVERY", 0.01)
    monkeypatch.setattr("indelible.server.requests.remembering.REMEMBERED", 0.0)
    make(place, run, 1)
    credentials = Credentials(place.store, "acme")
    given, token = credentials.give("visitor", ("auditor",), by=ROOT)
    stream = Stream(place, 100, str(token), run_id=run)
    credentials.revoke(given.id, by=ROOT)
    if not is_quiet:
        assert place.begin(run_id=run, args={"n": 9}).status_code == 201
    assert [number for number, _ in stream.all()] in ([], [0, 1]), "what was before it was revoked, at most"


def test_streams_and_those_who_wait_end_with_the_server(tmp_path: Path, run: str) -> None:
    own = sqlite_place(tmp_path)
    make(own, run, 1)
    streams = [Stream(own, 100, run_id=run), Stream(own, 100)]
    claim = own.begin(run_id=run, args={"n": 9}).json()
    waited: list[httpx2.Response] = []
    path = f"/v1/effects/{claim['effect']['id']}?wait=60"
    waiting = threading.Thread(target=lambda: waited.append(own.get(path)))
    waiting.start()
    eventually(lambda: own.ledgers.of("acme")._engine.waiting._wakers)
    eventually(lambda: len(streams[0].got) >= 3)
    own.served.stop()
    waiting.join(PATIENCE)
    # Each of them was ended in good order: none was cut off in the middle of an answer.
    assert all(len(stream.all()) >= 3 for stream in streams[:1])
    assert streams[1].all() is not None
    assert waited[0].json()["effect"]["status"] == "processing"
    own.client.close()
    own.store.close()


@pytest.mark.parametrize("last", ["x", "-1", "1" * 30, "٣"])
def test_an_odd_last_event_id_is_refused(place: Place, run: str, last: str) -> None:
    make(place, run, 1)
    params = {"run_id": run}
    answer = place.get("/v1/events/stream", params=params, headers={"Last-Event-ID": last.encode()})
    assert answer.status_code == 400


def test_a_run_that_is_not_there_is_not_found(place: Place, run: str) -> None:
    for path in ("/v1/events", "/v1/events/stream"):
        assert place.get(path, params={"run_id": run}).status_code == 404
        assert place.get(path, params={"run_id": "\0"}).status_code == 400
        assert place.get(path, params={"after": -2}).status_code == 422
