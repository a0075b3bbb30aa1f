"""Fault 87: what a provider no longer lets in opens nothing, by no door. One table says what closes what.

Doors through which something is changed or decided close at once; those that only read, within a second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
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
from indelible.server.requests.remembering import REMEMBERED
from indelible.server.signin.credentials import Credentials
from indelible.server.signin.leaving import Leaving
from indelible.server.signin.oidc import Provider
from tests.server.authenticator import Authenticator
from tests.server.desk import Desk, signed_in
from tests.server.office import House, invited
from tests.server.places import ROOT
from tests.server.provider import CLIENT
from tests.waiting import eventually

NAME = "ana@example.com"
ANA, BOB = Actor(NAME, "person", "passkey"), Actor("bob", "person", "passkey")
PRESSED = Actor(NAME, "person", "api_key")
"""Is who pressed a button in Slack, as `SlackInteractions` says it."""
FINANCE, STAFF = read_allowed("groups=finance:approver"), read_allowed("groups=staff:auditor")
POLICY: dict[str, Any] = {
    "people": {NAME: {}, "bob": {}},
    "rules": [
        {"name": "hers", "match": {"tool": "pay.hers"}, "then": "ask", "approvals": {"people": [NAME]}},
        {"name": "any", "match": {"tool": "pay"}, "then": "ask"},
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
        self.questions["delegated"] = self.ask("delegated", "pay.hers")
        until = datetime.now(UTC) + timedelta(hours=1)
        self.delegation = ledger.delegate("bob", until=until, by=ANA)
        for name, words in (("vote", {}), ("grant", {"grant": GrantTerms(count=9, until=until)})):
            ledger.approve(self.questions[name], digest=self.questions[name].digest, by=ANA, **words)
        assert self.decide("token_vote", self.with_token)
        self.doubtful = [self.doubt("one"), self.doubt("other")]
        assert all(map(self.reads, READING)), "now they are remembered"

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

    def runs(self, name: str) -> bool:
        return isinstance(self.ledger.begin(self.call(name)), Claimed)

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
        return httpx2.get(f"{self.desk.url}/v1/me", headers=self.token, trust_env=False).status_code == 200

    def opens(self, door: str) -> bool:
        doors: dict[str, Callable[[], bool]] = {
            "session_decides": lambda: self.decide("session", self.browser.post),
            "token_decides": lambda: self.decide("token", self.with_token),
            "token_settles": self.settle_over_http,
            "slack": lambda: self.vote("slack", PRESSED),
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

    def the_token(self) -> None:
        known = Credentials(self.desk.store, "default")
        (one,) = [one for one in known.all() if one.name == NAME]
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


READING = ("session_reads", "token_reads", "agent")
"""Are remembered for a second; the others are decided on how things stand now."""
DECIDING = ("session_decides", "token_decides", "token_settles", "slack", "settle")
GIVEN = ("delegated", "vote", "token_vote", "grant")
EVERY = {*READING, *DECIDING, *GIVEN, "passkey"}
CLOSED: dict[str, set[str]] = {
    "nothing": set(),
    "person": EVERY,
    "person_cut_short": EVERY,
    "group": EVERY,
    "rule": EVERY,
    "provider": EVERY,
    "other_provider": EVERY,
    "role": {*DECIDING, *GIVEN, "token_reads"},
    "rule_of_role": {*DECIDING, *GIVEN, "token_reads"},
    "age": {*DECIDING, "session_reads", "token_reads", "passkey"},
    "the_token": {"token_reads", "token_decides", "token_settles", "token_vote"},
    "the_passkey": {"passkey"},
    "the_session": {"session_reads", "session_decides"},
    "the_delegation": {"delegated"},
    "the_vote": {"vote"},
}
"""Says what is removed, and which doors are closed then."""


@pytest.fixture
def life(store_url: str) -> Iterator[Life]:
    with closing(Desk(House(store_url))) as desk, Ledger.open(store_url) as ledger:
        yield Life(desk, ledger)


@pytest.mark.parametrize("removed", CLOSED)
def test_87_what_is_removed_opens_nothing(life: Life, removed: str) -> None:
    getattr(life, removed)()
    assert {door for door in sorted(EVERY - set(READING)) if not life.opens(door)} == CLOSED[removed] - set(READING)
    assert REMEMBERED == 1.0, "as the docs say"
    for door in CLOSED[removed] & {*READING}:
        eventually(lambda door=door: not life.reads(door))
    for door in {*READING} - CLOSED[removed]:
        assert life.reads(door), door


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
