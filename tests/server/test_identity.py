"""Who asks: only what a credential on the record says is believed, and never what a body says."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import httpx2
import pytest

from indelible import Actor, Ledger, ToolCall
from indelible.core.people.credentials import Token
from indelible.core.sheets import SheetFilter
from indelible.errors import BadCall, NotAuthenticated, NotPermitted, VoteRefused
from indelible.server.app import create_app
from indelible.server.ledgers import Ledgers
from indelible.server.requests import remembering
from indelible.server.signin import identity
from indelible.server.signin.credentials import Credentials
from indelible.server.signin.identity import Identity
from indelible.stores import migrate, open_store
from tests.server.serving import Served
from tests.waiting import PATIENCE

ROOT = Actor("root")


class Place:
    """A server on a store, and what makes tokens for it."""

    def __init__(self, url: str) -> None:
        migrate(url)
        self.store = open_store(url)
        self.served = Served(create_app(Ledgers(open_store(url), seal=False), Identity(self.store)))

    def token(self, *scopes: Any, tenant: str = "acme", name: str = "somebody", **words: Any) -> str:
        return str(Credentials(self.store, tenant).give(name, scopes, by=ROOT, **words)[1])

    def get(self, path: str, token: str | None = None) -> httpx2.Response:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        return httpx2.get(self.served.url + path, headers=headers, trust_env=False)


@pytest.fixture
def place(store_url: str) -> Iterator[Place]:
    made = Place(store_url)
    yield made
    made.served.stop()
    made.store.close()


def charge(**words: Any) -> ToolCall:
    return ToolCall(**{"tool": "charge", "args": {"amount": 5}, "run_id": uuid4().hex, **words})


def test_tenant_and_actor_are_the_credentials_whatever_the_client_says(place: Place) -> None:
    with Ledger.open(place.served.url, token=place.token("agent", name="billing"), actor="ceo") as ledger:
        assert ledger.tenant == "acme"
        ledger.run(charge(run_id="r"), lambda effect: 1)
        actors = {event.read()["actor"]["id"] for event in ledger.events("r")}
        vias = {event.read()["actor"]["via"] for event in ledger.events("r")}
    assert (actors, vias) == ({"billing"}, {"api_key"})
    with pytest.raises(BadCall, match="is for the tenant 'acme'"):
        Ledger.open(place.served.url, token=place.token("agent"), tenant="globex")


def test_people_vote_under_their_own_name_and_agents_do_not_vote(place: Place) -> None:
    agent = Ledger.open(place.served.url, token=place.token("agent", name="billing"))
    ana = Ledger.open(place.served.url, token=place.token("approver", name="ana"))
    with agent, ana:
        question = agent.begin(charge(), approval="required").approval  # type: ignore[union-attr]
        with pytest.raises(NotPermitted, match="approver"):
            agent.approve(question, digest=question.digest, by="ana")
        with pytest.raises(NotPermitted, match="agent"):
            ana.begin(charge())
        decided = ana.approve(question, digest=question.digest, by="bob")
    assert [(vote.by, vote.via) for vote in decided.votes] == [("ana", "api_key")]


def test_whoever_the_agent_acts_for_cannot_approve_what_it_asks(place: Place) -> None:
    agent = Ledger.open(place.served.url, token=place.token("agent", name="billing", principal="ana"), principal="eve")
    ana = Ledger.open(place.served.url, token=place.token("approver", name="ana"))
    with agent, ana:
        question = agent.begin(charge(), approval="required").approval  # type: ignore[union-attr]
        assert question.principal == "ana"
        with pytest.raises(VoteRefused) as refused:
            ana.approve(question, digest=question.digest, by="ana")
        assert refused.value.code == "self_approval"


def test_one_tenant_does_not_see_another(place: Place) -> None:
    acme = Ledger.open(place.served.url, token=place.token("agent"))
    globex = Ledger.open(place.served.url, token=place.token("agent", tenant="globex"))
    with acme, globex:
        acme.run(charge(run_id="r"), lambda effect: 1)
        (effect,) = acme.effects()
        assert globex.effects() == []
        assert globex.get_effect(effect.id) is None
        assert globex.events("r") == []
        with pytest.raises(NotPermitted):
            globex._engine.store.look([effect.ref])


def test_without_a_known_token_nothing_is_told(place: Place) -> None:
    for header in ("", "Basic YTpi", "Bearer", "Bearer a b", "Bearer x", "bearer ind.YQ.k.s"):
        headers = {"Authorization": header} if header else {}
        answer = httpx2.get(f"{place.served.url}/v1/me", headers=headers, trust_env=False)
        assert answer.status_code == 401, header
        assert answer.headers["www-authenticate"] == "Bearer"
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["type"] == "/problems/not-authenticated"


def test_an_expired_and_a_revoked_token_are_refused(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembering, "REMEMBERED", 0.0)
    past = place.token("agent", expires_at=datetime.now(UTC) - timedelta(seconds=1))
    assert "expired" in place.get("/v1/me", past).json()["detail"]
    credentials = Credentials(place.store, "acme")
    given, token = credentials.give("x", ("auditor",), by=ROOT)
    assert place.get("/v1/me", str(token)).json()["scopes"] == ["auditor"]
    assert credentials.revoke(given.id, by=ROOT) == credentials.revoke(given.id, by=ROOT)
    assert place.get("/v1/me", str(token)).status_code == 401
    with pytest.raises(BadCall, match="apikeys list"):
        credentials.revoke("key_nobody", by=ROOT)


def test_of_many_who_come_at_once_with_one_token_one_looks_it_up(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    may_look, looks, find = threading.Event(), [], identity.find_credential
    arrived: list[str] = []
    read = identity.read_token
    monkeypatch.setattr(identity, "read_token", lambda text: arrived.append(text) or read(text))

    def found(*words: Any) -> Any:
        looks.append(words)
        assert may_look.wait(PATIENCE)
        return find(*words)

    monkeypatch.setattr(identity, "find_credential", found)
    token = place.token("auditor")
    with ThreadPoolExecutor(8) as crowd:
        asked = [crowd.submit(place.get, "/v1/me", token) for _ in range(8)]
        while len(arrived) < len(asked):
            pass
        may_look.set()
        assert {answer.result().status_code for answer in asked} == {200}
    assert len(looks) == 1


def test_giving_and_revoking_is_on_the_record(place: Place) -> None:
    credentials = Credentials(place.store, "acme")
    given, token = credentials.give("x", ("auditor",), by=ROOT)
    credentials.revoke(given.id, by=Actor("ana"))
    told = [event.read() for event in place.store.events("acme", "indelible:credentials", -1, 10)]
    assert [(one["type"], one["actor"]["id"]) for one in told] == [
        ("credential_given", "root"),
        ("credential_revoked", "ana"),
    ]
    assert [one.is_revoked for one in credentials.all()] == [True]
    assert token.secret not in str(told)


def test_a_credential_that_was_edited_in_the_database_is_none(place: Place) -> None:
    given, token = Credentials(place.store, "acme").give("x", ("auditor",), by=ROOT)
    (sheet,) = place.store.sheets("acme", SheetFilter(kind="credential", id=given.id))
    forged = Token("acme", given.id, "forged")
    assert sheet.body is not None
    tamper(place.store, sheet.body, sheet.body.replace(token.hash.encode(), forged.hash.encode()))
    assert place.get("/v1/me", str(forged)).status_code == 401


def tamper(store: Any, before: bytes, after: bytes) -> None:
    """Writes over the payload that holds these bytes."""
    if hasattr(store, "_writer"):
        store._writer.execute("UPDATE indelible_payloads SET value=? WHERE value=?", (after, before))
        return
    import psycopg

    with psycopg.connect(store._target.conninfo) as connection:
        connection.execute("UPDATE indelible_payloads SET value=%s WHERE value=%s", (after, before))


def test_a_client_without_a_token_is_told_so(place: Place) -> None:
    with pytest.raises(NotAuthenticated, match="apikeys create"):
        Ledger.open(place.served.url)


def test_where_the_database_is_and_what_is_wrong_with_it_is_not_told(place: Place, store_url: str) -> None:
    token = place.token("agent")
    ledgers = place.served.app.state.ledgers
    headers = {"Authorization": f"Bearer {token}"}
    assert place.get("/v1/effects", token).status_code == 200
    ledgers.store.close()
    away = httpx2.get(f"{place.served.url}/v1/effects", headers=headers, trust_env=False)
    assert (away.status_code, away.json()["type"]) == (503, "/problems/store-unavailable")
    assert ledgers.store.address not in away.text
    assert "the server's log says more" in away.json()["detail"]
