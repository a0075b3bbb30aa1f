"""Fault 87: what a provider no longer lets in opens nothing, by no door. One table says what closes what.

Doors through which something is changed or decided close at once; those that only read, within a second.
"""

from __future__ import annotations

import itertools
import queue
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import httpx2
import pytest

from indelible import Actor, AwaitingApproval, Claimed, GrantTerms, Ledger, RunningEffect, Succeeded, ToolCall
from indelible.core.people.standing import person_id
from indelible.core.people.vouching import USUAL_MAX_AGE, read_allowed
from indelible.errors import IllegalMove, MayHaveHappened, NotPermitted, VoteRefused
from indelible.server.app import create_app
from indelible.server.gateway import Gateway
from indelible.server.gateway_tools import GatewayTool
from indelible.server.ledgers import Ledgers
from indelible.server.requests.remembering import REMEMBERED
from indelible.server.signin.credentials import Credentials
from indelible.server.signin.identity import Identity
from indelible.server.signin.leaving import Leaving
from indelible.server.signin.oidc import Provider
from indelible.stores import open_store
from tests.server.authenticator import Authenticator
from tests.server.desk import Desk, signed_in
from tests.server.office import House, invited
from tests.server.places import ROOT
from tests.server.provider import CLIENT
from tests.server.serving import Served
from tests.waiting import PATIENCE, eventually

NAME = "ana@example.com"
ANA, BOB = Actor(NAME, "person", "passkey"), Actor("bob", "person", "passkey")
PRESSED = Actor(NAME, "person", "api_key")
"""Is who pressed a button in Slack, as `SlackInteractions` says it."""
FINANCE, STAFF = read_allowed("groups=finance:approver"), read_allowed("groups=staff:auditor")
POLICY: dict[str, Any] = {
    "people": {NAME: {}, "bob": {}, "cleo": {}},
    "rules": [
        {"name": "hers", "match": {"tool": "pay.hers"}, "then": "ask", "approvals": {"people": [NAME]}},
        {"name": "his", "match": {"tool": "pay.his"}, "then": "ask", "approvals": {"people": ["bob"]}},
        {"name": "any", "match": {"tool": "pay"}, "then": "ask"},
        {"name": "served", "match": {"tool": "pay.served"}, "then": "ask"},
    ],
}


class Life:
    """Ana came by the provider, and has all that a person can have; so each door is open."""

    def __init__(self, desk: Desk, ledger: Ledger) -> None:
        self.desk, self.ledger = desk, ledger
        self.codes = set[str]()
        ledger.apply_policy(POLICY, by=ROOT)
        invited(desk, "bob")
        desk.configure(allowed=(FINANCE, STAFF))
        desk.provider.claims |= {"groups": ["finance", "staff"]}
        self.browser, self.key = desk.browser(), Authenticator(desk.url)
        assert signed_in(self.browser).status_code == 200
        self.browser.csrf = self.browser.get("/v1/me").json()["csrf_token"]
        assert self.browser.add(self.key).status_code == 201
        self.token = desk.token(NAME, "approver")
        self.agent = desk.token("robot", "agent", principal=NAME)
        self.questions = {name: self.ask(name) for name in ("session", "token", "slack", "vote", "token_vote", "grant")}
        for name, tool in (("delegated", "pay.hers"), ("in_her_name", "pay.hers"), ("for_him", "pay.his")):
            self.questions[name] = self.ask(name, tool)
        self.questions["edited"] = self.ask("edited")
        until = datetime.now(UTC) + timedelta(hours=1)
        self.until = until.isoformat()
        self.delegation = ledger.delegate("bob", until=until, by=ANA)
        ledger.delegate(NAME, until=until, by=BOB)
        assert self.vote("in_her_name", BOB)
        for name, words in (("vote", {}), ("grant", {"grant": GrantTerms(count=9, until=until)})):
            ledger.approve(self.questions[name], digest=self.questions[name].digest, by=ANA, **words)
        assert self.decide("token_vote", self.with_token)
        self.doubtful = [self.doubt("one"), self.doubt("other")]
        self.other = Served(create_app(Ledgers(open_store(desk.house.store_url), seal=False), Identity(desk.store)))
        self.stream, self.waiting = Following(self), Waiting(self)
        assert all(map(self.reads, set(READING) - {"waiting_agent"})), "now they are remembered"

    def close(self) -> None:
        self.stream.close()
        self.waiting.close()
        self.other.stop()

    def ask(self, name: str, tool: str = "pay") -> Any:
        asked = self.ledger.begin(self.call(name, tool))
        assert isinstance(asked, AwaitingApproval), asked
        return asked.approval

    def call(self, name: str, tool: str = "pay") -> ToolCall:
        return ToolCall(run_id=f"order-{name}", tool=tool, args={"amount": 5})

    def doubt(self, run_id: str) -> str:
        entered: list[str] = []

        def lose(effect: RunningEffect) -> None:
            entered.append(effect.id)
            raise MayHaveHappened("the answer got lost")

        with pytest.raises(MayHaveHappened):
            self.ledger.run(ToolCall(run_id=run_id, tool="post", args={}), lose)
        return entered[0]

    # Doors

    def with_token(self, path: str, body: Any) -> httpx2.Response:
        return httpx2.post(f"{self.desk.url}{path}", headers=self.token, json=body, trust_env=False)

    def decide(self, name: str, post: Callable[[str, Any], httpx2.Response]) -> bool:
        asked = self.questions[name]
        told = {"decision": "approve", "digest": asked.digest}
        answer = post(f"/v1/approvals/{asked.id}/decisions", told)
        assert answer.status_code in (201, 401, 403), answer.text
        return answer.status_code == 201

    def vote(self, name: str, by: Actor) -> bool:
        try:
            self.ledger.approve(self.questions[name], digest=self.questions[name].digest, by=by)
        except VoteRefused as refused:
            self.codes.add(refused.code)
            return False
        return True

    def settle(self) -> bool:
        """In the transaction, for somebody whom the server let in a moment before."""
        try:
            self.ledger.settle(self.doubtful[0], Succeeded(1), by=ANA, evidence="seen")
        except NotPermitted:
            return False
        return True

    def settle_over_http(self) -> bool:
        told = {"outcome": {"status": "succeeded", "value": 1}, "evidence": "seen"}
        answer = self.with_token(f"/v1/effects/{self.doubtful[1]}/settle", told)
        assert answer.status_code in (200, 401, 403), answer.text
        return answer.status_code == 200

    def runs(self, name: str, tool: str = "pay") -> bool:
        return isinstance(self.ledger.begin(self.call(name, tool)), Claimed)

    def posts(self, post: Callable[[str, Any], httpx2.Response], path: str, told: Any) -> bool:
        answer = post(path, told)
        assert answer.status_code in (200, 201, 401, 403), answer.text
        return answer.status_code < 300

    def edits(self) -> bool:
        asked = self.questions["edited"]
        told = {"args": {"amount": 6}, "digest": asked.digest, "reason": "less"}
        return self.posts(self.browser.post, f"/v1/approvals/{asked.id}/edit", told)

    def delegates(self, post: Callable[[str, Any], httpx2.Response]) -> bool:
        return self.posts(post, "/v1/delegations", {"to": "cleo", "until": self.until})

    def asks_as_agent(self) -> bool:
        told = {"run_id": uuid4().hex, "tool": "look", "args": {}}
        answer = httpx2.post(f"{self.desk.url}/v1/effects", headers=self.agent, json=told, trust_env=False)
        assert answer.status_code in (201, 401), answer.text
        return answer.status_code == 201

    def reads(self, door: str) -> bool:
        if door == "agent":
            return self.asks_as_agent()
        if door == "session_reads":
            return self.browser.get("/v1/me").status_code == 200
        if door == "other_server":
            return httpx2.get(f"{self.other.url}/v1/me", headers=self.token, trust_env=False).status_code == 200
        if door == "stream":
            return self.stream.hears()
        return httpx2.get(f"{self.desk.url}/v1/me", headers=self.token, trust_env=False).status_code == 200

    def opens(self, door: str) -> bool:
        doors: dict[str, Callable[[], bool]] = {
            "session_decides": lambda: self.decide("session", self.browser.post),
            "token_decides": lambda: self.decide("token", self.with_token),
            "token_settles": self.settle_over_http,
            "token_delegates": lambda: self.delegates(self.with_token),
            "session_delegates": lambda: self.delegates(self.browser.post),
            "session_edits": self.edits,
            "slack": lambda: self.vote("slack", PRESSED),
            "for_him": lambda: self.vote("for_him", ANA),
            "in_her_name": lambda: self.runs("in_her_name", "pay.hers"),
            "waiting_agent": self.waiting.runs,
            "settle": self.settle,
            "delegated": lambda: self.vote("delegated", BOB),
            "vote": lambda: self.runs("vote"),
            "token_vote": lambda: self.runs("token_vote"),
            "grant": lambda: self.runs("granted"),
            "passkey": lambda: self.desk.browser().sign_in(self.key).status_code == 201,
        }
        return doors[door]()

    # Removing

    def person(self) -> None:
        Leaving(self.desk.store, "default", self.ledger._approving).revoke(person_id(NAME), by=ROOT)

    def person_cut_short(self) -> None:
        self.desk.people.revoke(person_id(NAME), by=ROOT)

    def group(self) -> None:
        """All groups went at the provider, and Ana comes from there once more."""
        self.desk.provider.claims |= {"groups": []}
        assert signed_in(self.desk.browser()).status_code == 403

    def role(self) -> None:
        """One group went: she may still read, and not decide."""
        self.desk.provider.claims |= {"groups": ["staff"]}
        assert signed_in(self.desk.browser()).status_code == 200

    def rule(self) -> None:
        self.desk.configure(allowed=(read_allowed("groups=others:admin"),))

    def rule_of_role(self) -> None:
        self.desk.configure(allowed=(STAFF,))

    def provider(self) -> None:
        self.desk.serve(None)

    def other_provider(self) -> None:
        self.desk.serve(Provider("https://other.example", CLIENT, allowed=(FINANCE, STAFF)))

    def age(self) -> None:
        """Ana was last confirmed too long ago."""
        found = self.desk.people.find(person_id(NAME))
        assert found is not None
        assert found.vouched is not None
        old = replace(found.vouched, at=found.vouched.at - USUAL_MAX_AGE)
        aged = replace(found, version=found.version + 1, vouched=old)
        assert self.desk.people._tell("person_signed_in", {"id": aged.id}, aged, ROOT)

    def lets_in(self, scope: str, **words: Any) -> None:
        """An administrator lets Ana in, by a link with this scope."""
        root = self.desk.token("root", "admin")
        told = {"name": NAME, "scopes": [scope], **words}
        made = httpx2.post(f"{self.desk.url}/v1/people", headers=root, json=told, trust_env=False)
        assert (made.status_code, made.json()["person"]["scopes"]) == (201, [scope])

    def the_token(self) -> None:
        known = Credentials(self.desk.store, "default")
        (one,) = [one for one in known.all() if one.name == NAME]
        known.revoke(one.id, by=ROOT)

    def the_agents_token(self) -> None:
        known = Credentials(self.desk.store, "default")
        (one,) = [one for one in known.all() if one.name == "robot"]
        known.revoke(one.id, by=ROOT)

    def the_passkey(self) -> None:
        (one,) = self.browser.get("/v1/passkeys").json()["passkeys"]
        assert self.browser.post(f"/v1/passkeys/{one['id']}/remove").status_code == 200

    def the_session(self) -> None:
        (one,) = self.browser.get("/v1/sessions").json()["sessions"]
        assert self.browser.post(f"/v1/sessions/{one['id']}/end").status_code == 200

    def the_delegation(self) -> None:
        self.ledger.end_delegation(self.delegation.id, by=ANA, reason="back again")

    def the_vote(self) -> None:
        self.ledger.revoke_approval(self.questions["vote"], by=ANA, reason="looked again")

    def nothing(self) -> None:
        """Everything is as it was."""


class Following:
    """A stream of events that Ana follows with her token."""

    def __init__(self, life: Life) -> None:
        self._ledger, self._numbers = life.ledger, itertools.count()
        life.ledger.record("followed", "test.begun", {})
        self._client = httpx2.Client(trust_env=False, timeout=None)
        self._heard: queue.Queue[str | None] = queue.Queue()
        url = f"{life.desk.url}/v1/events/stream?run_id=followed"
        self._thread = threading.Thread(target=self._follow, args=(url, life.token), daemon=True)
        self._thread.start()
        self._until("test.begun")

    def _follow(self, url: str, token: dict[str, str]) -> None:
        with suppress(httpx2.TransportError), self._client.stream("GET", url, headers=token) as response:
            for line in response.iter_lines():
                self._heard.put(line)
        self._heard.put(None)

    def _until(self, word: str) -> bool:
        """Wait for an event; return False if the stream ends first."""
        while (line := self._heard.get(timeout=PATIENCE)) is not None:
            if line.startswith("data:") and word in line:
                return True
        self._heard.put(None)
        return False

    def hears(self) -> bool:
        """Is something told that happens now?"""
        word = f"test.number_{next(self._numbers)}"
        self._ledger.record("followed", word, {})
        return self._until(word)

    def close(self) -> None:
        self._client.close()


class Waiting:
    """A call of the agent that acts for Ana: the server runs the tool as soon as a person approves it."""

    def __init__(self, life: Life) -> None:
        self._life, self._pool = life, ThreadPoolExecutor()
        told = {"args": {"amount": 5}, "run_id": "order-waits", "wait_s": 60}
        self._answer = self._pool.submit(
            httpx2.post,
            f"{life.desk.url}/v1/tools/pay.served/calls",
            headers=life.agent,
            json=told,
            trust_env=False,
            timeout=PATIENCE,
        )
        self._asked = eventually(self._find)

    def _find(self) -> Any:
        pending = self._life.ledger.approvals(status="pending")
        return next((one for one in pending if one.tool == "pay.served"), None)

    def runs(self) -> bool:
        """Let another person approve it; does the tool run?"""
        self._life.ledger.approve(self._asked, digest=self._asked.digest, by="cleo")
        answer = self._answer.result(PATIENCE)
        assert answer.status_code in (200, 401), answer.text
        return bool(answer.status_code == 200)

    def close(self) -> None:
        if not self._answer.done():
            self._life.ledger.deny(self._asked, by="cleo", reason="over")
        self._pool.shutdown()


READING = ("session_reads", "token_reads", "other_server", "stream", "agent", "waiting_agent")
"""Close within the second for which a credential is remembered; the others are decided on how things stand now."""
DECIDING = (
    *("session_decides", "session_edits", "session_delegates"),
    *("token_decides", "token_settles", "token_delegates", "slack", "settle", "for_him"),
)
GIVEN = ("delegated", "in_her_name", "vote", "token_vote", "grant")
BY_TOKEN = ("token_reads", "other_server", "stream")
EVERY = {*READING, *DECIDING, *GIVEN, "passkey"}
CLOSED: dict[str, set[str]] = {
    "nothing": set(),
    "person": EVERY,
    "person_cut_short": EVERY,
    "group": EVERY,
    "rule": EVERY,
    "provider": EVERY,
    "other_provider": EVERY,
    "role": {*DECIDING, *GIVEN, *BY_TOKEN},
    "rule_of_role": {*DECIDING, *GIVEN, *BY_TOKEN},
    "age": {*DECIDING, "session_reads", *BY_TOKEN, "passkey"},
    "the_token": {*BY_TOKEN, "token_decides", "token_settles", "token_delegates", "token_vote"},
    "the_agents_token": {"agent", "waiting_agent"},
    "the_passkey": {"passkey"},
    "the_session": {"session_reads", "session_decides", "session_edits", "session_delegates"},
    "the_delegation": {"delegated"},
    "the_vote": {"vote"},
}
"""Says what is removed, and which doors are closed then."""


@pytest.fixture
def life(store_url: str) -> Iterator[Life]:
    tool = GatewayTool(name="pay.served", words={"side_effect": "payment"}, function=lambda amount: "paid")
    house = House(store_url, seal=False, gateway=Gateway({tool.name: tool}))
    with closing(Desk(house)) as desk, Ledger.open(store_url) as ledger, closing(Life(desk, ledger)) as found:
        yield found


@pytest.mark.parametrize("removed", CLOSED)
def test_87_what_is_removed_opens_nothing(life: Life, removed: str) -> None:
    getattr(life, removed)()
    ends = time.monotonic() + REMEMBERED
    assert REMEMBERED == 1.0, "as the docs say"
    assert {door for door in sorted(EVERY - {*READING}) if not life.opens(door)} == CLOSED[removed] - {*READING}
    time.sleep(max(0.0, ends - time.monotonic()))  # the promise is one of time
    found = {door for door in READING if not (life.reads(door) if door != "waiting_agent" else life.opens(door))}
    assert found == CLOSED[removed] & {*READING}


def test_87_a_sign_in_at_the_provider_counts_for_a_while_and_then_another_is_needed(life: Life) -> None:
    life.age()
    told = life.desk.browser().sign_in(life.key)
    assert (told.status_code, "/signin" in told.json()["detail"], life.desk.provider.url in told.json()["detail"]) == (
        401,
        True,
        True,
    )
    assert life.desk.refusals()[-1] == "provider"
    assert (life.opens("slack"), life.codes) == (False, {"sign_in_again"})
    (shown,) = [one for one in people_of(life) if one["name"] == NAME]
    assert (shown["standing"], shown["issuer"]) == ("sign_in_again", life.desk.provider.url)
    assert signed_in(life.desk.browser()).status_code == 200
    assert [door for door in (*DECIDING, *GIVEN, "passkey") if not life.opens(door)] == []


def people_of(life: Life) -> list[dict[str, Any]]:
    root = life.desk.token("root", "admin")
    found: list[dict[str, Any]] = httpx2.get(f"{life.desk.url}/v1/people", headers=root, trust_env=False).json()[
        "people"
    ]
    return found


def test_87_a_rule_that_comes_back_lets_in_by_what_the_provider_said(life: Life) -> None:
    life.rule()
    assert not life.opens("passkey")
    (shown,) = [one for one in people_of(life) if one["name"] == NAME]
    assert shown["standing"] == "not_allowed"
    life.desk.configure(allowed=(FINANCE,))
    assert life.opens("passkey")
    assert life.opens("token_decides")


def test_87_groups_that_are_lost_are_not_regained_by_an_old_session(life: Life) -> None:
    life.group()
    life.desk.configure(allowed=(FINANCE, STAFF, read_allowed("groups=more:admin")))
    assert not life.opens("passkey")
    assert life.desk.people.find(person_id(NAME)).sessions == ()  # type: ignore[union-attr]
    life.desk.provider.claims |= {"groups": ["finance"]}
    assert signed_in(life.desk.browser()).status_code == 200
    assert not life.opens("session_decides"), "that session ended"
    assert life.opens("passkey")


def test_87_a_token_of_a_providers_person_reaches_no_further_than_its_rules(life: Life) -> None:
    known = Credentials(life.desk.store, "default")
    with pytest.raises(IllegalMove, match="--oidc-allow"):
        known.give(NAME, ("admin",), by=ROOT)
    both = life.desk.token(NAME, "approver", "auditor")
    life.rule_of_role()
    assert eventually(lambda: _scopes(life, both, ["auditor"]))
    life.rule()
    with pytest.raises(IllegalMove, match="--convert"):
        known.give("robot", ("agent",), by=ROOT, principal=NAME)


def _scopes(life: Life, token: dict[str, str], wanted: list[str]) -> bool:
    me = httpx2.get(f"{life.desk.url}/v1/me", headers=token, trust_env=False).json()
    return bool(me.get("scopes") == wanted)


def test_87_an_administrator_makes_a_providers_person_one_of_the_ledgers_own(life: Life) -> None:
    root = life.desk.token("root", "admin")
    wanted = {"name": NAME, "scopes": ["approver"]}
    refused = httpx2.post(f"{life.desk.url}/v1/people", headers=root, json=wanted, trust_env=False)
    assert (refused.status_code, "--convert" in refused.json()["detail"]) == (409, True)
    assert "people revoke" in refused.json()["detail"]
    life.provider()
    made = httpx2.post(f"{life.desk.url}/v1/people", headers=root, json=wanted | {"convert": True}, trust_env=False)
    assert made.status_code == 201
    assert (made.json()["person"]["standing"], made.json()["person"]["issuer"]) == ("in", None)
    assert not life.opens("passkey"), "it was made on the provider's word"
    assert not life.opens("session_decides")
    assert life.opens("token_decides")
    browser = life.desk.browser()
    ticket = {"ticket": made.json()["link"].partition("#")[2]}
    assert browser.post("/v1/sign-in/link", ticket).status_code == 201
    life.desk.configure(allowed=(FINANCE,))
    assert signed_in(life.desk.browser()).status_code == 401, "the provider does not vouch for people of ours"


@pytest.mark.parametrize("before", ["nothing", "rule_of_role", "group", "approver"])
def test_87_what_a_person_permitted_counts_only_while_they_may_decide(life: Life, before: str) -> None:
    """Whoever comes to read, by whatever way, permits nothing, and no token of theirs reaches further."""
    if before == "approver":
        life.lets_in("approver", convert=True)
        life.lets_in("auditor")
    else:
        getattr(life, before)()
        life.lets_in("auditor", convert=True)
    assert [door for door in sorted(EVERY - {*READING}) if life.opens(door)] == []
    assert eventually(lambda: not life.reads("token_reads"))
    with pytest.raises(IllegalMove, match="people invite"):
        Credentials(life.desk.store, "default").give(NAME, ("approver",), by=ROOT)
    life.lets_in("approver")
    assert life.opens("token_decides")
