"""`Idempotency-Key`: carried out once, answered as often as it is asked."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest
from fastapi import Request

from indelible.core.effects.effect import Actor
from indelible.core.remote.admitting import Caller
from indelible.core.remote.problems import status_of
from indelible.core.remote.replies import PATIENCE as UNDER_WAY_FOR
from indelible.core.remote.replies import Reply, read_reply, reply_id, reply_sheet
from indelible.core.sheets import SheetFilter
from indelible.errors import (
    AskedTooOften,
    IndelibleError,
    NotAuthenticated,
    NotSealed,
    OutcomeUnknown,
    Overloaded,
    StoreUnavailable,
)
from indelible.server.app import create_app
from indelible.server.ledgers import Ledgers
from indelible.server.requests import repeating
from indelible.stores import migrate, open_store
from tests.server.serving import Served
from tests.waiting import PATIENCE, eventually


class Counted:
    """A server with one endpoint that counts how often it is carried out."""

    def __init__(self, url: str) -> None:
        migrate(url)
        self.store = open_store(url)
        self.count = 0
        self.fails_with: list[Exception] = []
        self.may_go_on = threading.Event()
        self.is_inside = threading.Event()
        self.may_go_on.set()
        app = create_app(Ledgers(open_store(url), seal=False), self._known)

        @app.post("/count")
        def count(request: Request) -> dict[str, Any]:
            self.count += 1
            self.is_inside.set()
            assert self.may_go_on.wait(PATIENCE)
            if self.fails_with:
                raise self.fails_with.pop()
            return {
                "count": self.count,
                "secret": "the right to settle",
                "long": "x" * (300_000 * ("long" in request.url.query)),
            }

        self.served = Served(app)

    async def _known(self, request: Request) -> Caller:
        name = request.headers.get("authorization")
        if not name:
            raise NotAuthenticated("who are you?")
        who = name.partition(" ")[0]  # what follows tells apart the tokens of one caller
        return Caller(tenant="acme", scopes=frozenset({"agent"}), actor=Actor(who, "agent", "api_key"))

    def post(self, key: str | None = "k", *, who: str = "ana", body: bytes = b"{}", query: str = "") -> httpx2.Response:
        headers = {"Authorization": who} | ({} if key is None else {"Idempotency-Key": key})
        url = f"{self.served.url}/count{query}"
        return httpx2.post(url, content=body, headers=headers, trust_env=False, timeout=PATIENCE)


@pytest.fixture
def counted(store_url: str) -> Iterator[Counted]:
    made = Counted(store_url)
    yield made
    made.may_go_on.set()
    made.served.stop()
    made.store.close()


def test_the_same_request_gets_the_same_answer_and_is_carried_out_once(counted: Counted) -> None:
    first, second = counted.post(), counted.post()
    assert (first.status_code, first.json()["count"]) == (200, 1)
    assert second.json() == first.json()
    assert "idempotent-replayed" not in first.headers
    assert second.headers["idempotent-replayed"] == "true"
    assert [counted.post(None).json()["count"] for _ in range(2)] == [2, 3], "without a key each is one of its own"


def test_keys_are_each_callers_own_and_for_one_request(counted: Counted) -> None:
    assert [counted.post(who=name).json()["count"] for name in ("ana", "bob", "ana")] == [1, 2, 1]
    other = counted.post(body=b'{"a": 1}')
    assert (other.status_code, other.json()["type"]) == (422, "/problems/key-reused")
    assert counted.post(query="?x=1").status_code == 422
    assert counted.count == 2


def test_one_of_many_at_once_is_carried_out(counted: Counted) -> None:
    counted.may_go_on.clear()
    with ThreadPoolExecutor() as pool:
        first = pool.submit(counted.post)
        assert counted.is_inside.wait(PATIENCE)
        others = [pool.submit(counted.post) for _ in range(3)]
        assert {(one.result().status_code, one.result().json()["type"]) for one in others} == {
            (409, "/problems/still-running")
        }
        counted.may_go_on.set()
        assert first.result().json()["count"] == 1
    assert counted.post().json()["count"] == 1


def test_what_was_begun_and_never_answered_is_not_carried_out_again(counted: Counted) -> None:
    counted.post("lost")
    place = reply_id("ana", "lost")
    (sheet,) = counted.store.sheets("acme", SheetFilter(kind="reply", id=place))
    before = read_reply(sheet)
    counted.store.forgetting.drop("acme", [sheet])
    lost = Reply(id=place, request=before.request, begun_at=before.begun_at - UNDER_WAY_FOR)
    from indelible.core.commands import Keep
    from indelible.core.effects.effect import SYSTEM
    from indelible.engine.mint import SystemMint

    command = Keep(tenant="acme", stamp=SystemMint().stamp(SYSTEM, 0), sheet=reply_sheet(lost))
    counted.store.apply("acme", [command], [None])
    answer = counted.post("lost")
    assert (answer.status_code, answer.json()["type"]) == (409, "/problems/outcome-unknown")
    assert counted.count == 1


@pytest.mark.parametrize("kind", [AskedTooOften, Overloaded])
def test_61_a_request_that_was_not_carried_out_is_carried_out_under_the_same_key(
    counted: Counted, kind: type[AskedTooOften | Overloaded]
) -> None:
    counted.fails_with = [kind("not now"), kind("not now")]
    refused = status_of(kind(""))
    assert [counted.post().status_code for _ in range(3)] == [refused, refused, 200]
    assert (counted.post().json()["count"], counted.count) == (3, 3), "what was carried out is answered as before"


def test_61_the_key_of_a_request_that_was_not_carried_out_is_for_no_other_request(counted: Counted) -> None:
    counted.fails_with = [Overloaded("not now")]
    assert counted.post().status_code == 503
    assert counted.post(body=b'{"a": 1}').json()["type"] == "/problems/key-reused"
    assert counted.post().status_code == 200


def test_61_one_of_many_that_come_again_at_once_is_carried_out(counted: Counted) -> None:
    counted.fails_with = [Overloaded("not now")]
    assert counted.post().status_code == 503
    counted.may_go_on.clear()
    counted.is_inside.clear()
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(counted.post) for _ in range(8)]
        assert counted.is_inside.wait(PATIENCE)
        eventually(lambda: sum(one.done() for one in asked) == len(asked) - 1)
        counted.may_go_on.set()
    answers = [one.result().json() for one in asked]
    assert [each["count"] for each in answers if "count" in each] == [2]
    assert {each["type"] for each in answers if "type" in each} == {"/problems/still-running"}
    assert counted.count == 2


NOT_KNOWN = [
    OutcomeUnknown("a commit was sent"),
    NotSealed("it is durable"),
    StoreUnavailable("nothing was read, after something was written"),
]


@pytest.mark.parametrize("error", NOT_KNOWN, ids=lambda error: type(error).__name__)
def test_61_a_request_that_may_have_been_carried_out_is_not_carried_out_again(
    counted: Counted, error: IndelibleError
) -> None:
    counted.fails_with = [error]
    assert [counted.post().status_code for _ in range(2)] == [503, 409]
    assert counted.count == 1


@pytest.mark.parametrize("moment", ["begun", "let go"])
def test_61_a_store_that_is_away_is_told_as_that(
    counted: Counted, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = repeating.Repeating._keep

    async def away(self: Any, tenant: str, reply: Reply) -> Reply | None:
        if (moment == "begun") == (reply.version == 1):
            raise StoreUnavailable(f"{counted.store.address} is away")
        return await kept(self, tenant, reply)

    counted.fails_with = [Overloaded("not now")] if moment == "let go" else []
    monkeypatch.setattr(repeating.Repeating, "_keep", away)
    answer = counted.post()
    expected = "store-unavailable" if moment == "begun" else "overloaded"
    assert (answer.status_code, answer.json()["type"]) == (503, f"/problems/{expected}")
    assert counted.store.address not in answer.text
    monkeypatch.undo()
    assert counted.post().status_code == (200 if moment == "begun" else 409)
    assert counted.count == 1


def test_an_answer_is_kept_so_that_the_database_alone_does_not_tell_it(counted: Counted) -> None:
    counted.post()
    (sheet,) = counted.store.sheets("acme", SheetFilter(kind="reply"))
    assert b"settle" not in (sheet.body or b"")
    counted.post("another key")
    asked = {read_reply(sheet).request for sheet in counted.store.sheets("acme", SheetFilter(kind="reply"))}
    assert len(asked) == 2, "nor is the request there as a hash that could be guessed"


def test_a_kept_answer_is_read_with_the_token_that_asked_and_with_no_other_of_the_caller(counted: Counted) -> None:
    assert counted.post(who="ana token-1").json()["secret"]
    other = counted.post(who="ana token-2")
    assert (other.status_code, other.json()["type"]) == (422, "/problems/key-reused")
    assert "settle" not in other.text
    assert counted.post(who="ana token-1").headers["idempotent-replayed"] == "true"
    assert counted.count == 1


def test_an_answer_that_is_too_large_is_not_kept_and_the_request_is_not_repeated(counted: Counted) -> None:
    assert len(counted.post(query="?long").json()["long"]) == 300_000
    again = counted.post(query="?long")
    assert (again.status_code, again.json()["type"]) == (409, "/problems/answer-not-kept")
    assert counted.count == 1


@pytest.mark.parametrize("key", ["", "x" * 256, "a\x7f"])
def test_a_key_that_is_none_is_refused(key: str, tmp_path: Any) -> None:
    counted = Counted(f"sqlite:///{tmp_path / 'ledger.db'}")
    try:
        assert counted.post(key).status_code == 400
        assert counted.post("k", who="").status_code == 401
        assert counted.count == 0
    finally:
        counted.served.stop()
        counted.store.close()


def test_the_clients_own_questions_have_no_such_keys() -> None:
    headers = [(repeating.HEADER, b"k")]
    asked = {"type": "http", "method": "POST", "path": "/v1/store/apply", "headers": headers}
    assert repeating._key_of(asked) is None
    assert repeating._key_of({**asked, "path": "/v1/effects"}) == "k"
    assert repeating._key_of({**asked, "path": "/v1/effects", "method": "GET"}) is None
