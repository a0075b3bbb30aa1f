"""Nothing of somebody who was revoked opens anything any more, and what they had set up for others is listed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
import pytest

from indelible import Actor, AwaitingApproval, Claimed, GrantTerms, Ledger, ToolCall
from indelible.cli.behind import store_behind
from indelible.core.people.standing import person_id
from indelible.errors import NothingHappened, VoteRefused
from indelible.server.signin.credentials import Credentials
from indelible.server.signin.people import People
from tests.server.office import House, Office, invited
from tests.server.places import ROOT
from tests.waiting import eventually

ANA, BOB = Actor("ana", "person", "passkey"), Actor("bob", "person", "passkey")
SOON = datetime.now(UTC) + timedelta(hours=1)
POLICY: dict[str, Any] = {
    "people": {"ana": {}, "bob": {}, "cy": {}},
    "rules": [
        {"name": "two", "match": {"tool": "pay.large"}, "then": "ask", "approvals": {"quorum": 2}},
        {"name": "one", "match": {"tool": "pay"}, "then": "ask"},
    ],
}


@pytest.fixture
def office(store_url: str) -> Iterator[Office]:
    house = House(store_url)
    yield Office(house, "default")
    house.close()


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    made = House(f"sqlite:///{tmp_path_factory.mktemp('house') / 'ledger.db'}")
    yield made
    made.close()


@pytest.fixture
def sqlite_office(house: House) -> Office:
    return Office(house)


@pytest.fixture
def ledger(office: Office) -> Iterator[Ledger]:
    with Ledger.open(office.house.store_url, tenant=office.tenant) as opened:
        yield opened


def call(number: int, tool: str = "pay") -> ToolCall:
    return ToolCall(run_id=f"order-{number}", tool=tool, args={"amount": 5})


def asked(ledger: Ledger, one: ToolCall) -> Any:
    answer = ledger.begin(one)
    assert isinstance(answer, AwaitingApproval), answer
    return answer.approval


def approve(ledger: Ledger, approval: Any, by: Actor, **words: Any) -> Any:
    return ledger.approve(approval, digest=approval.digest, by=by, **words)


def ticket(invitation: dict[str, Any]) -> dict[str, str]:
    return {"ticket": invitation["link"].partition("#")[2]}


def post(office: Office, path: str, headers: dict[str, str], body: Any = None) -> httpx2.Response:
    return httpx2.post(f"{office.url}{path}", headers=headers, json=body or {}, trust_env=False)


def test_whoever_is_revoked_takes_with_them_what_they_could_open(office: Office, ledger: Ledger) -> None:
    root, (browser, _) = office.token("root", "admin"), invited(office, "ana", ("admin",))
    invited(office, "bob")
    theirs = [office.token("Ana", "approver"), office.token("agent", "agent", principal="ana")]
    dee = browser.post("/v1/people", {"name": "dee", "scopes": ["approver"]}).json()
    eve = browser.post("/v1/people", {"name": "eve", "scopes": ["approver"]}).json()
    assert office.browser().post("/v1/sign-in/link", ticket(eve)).status_code == 201
    robot = browser.post("/v1/api-keys", {"name": "robot", "scopes": ["agent"]}).json()["api_key"]
    applied = ledger.apply_policy(POLICY, by=ANA)
    delegations = [ledger.delegate("bob", until=SOON, by=ANA), ledger.delegate("ana", until=SOON, by=BOB)]
    kept = ledger.delegate("cy", until=SOON, by=BOB)
    granted = approve(ledger, asked(ledger, call(1)), ANA, grant=GrantTerms(count=9, until=SOON))
    assert isinstance(ledger.begin(call(2)), Claimed), "it is good for more"
    large = asked(ledger, call(3, "pay.large"))
    approve(ledger, large, BOB)
    assert approve(ledger, large, ANA).status == "approved"

    path = f"/v1/people/{person_id('ana')}/revoke"
    left = post(office, path, root).json()
    assert (left["person"]["name"], left["person"]["is_revoked"]) == ("ana", True)
    ended = left["ended"]
    assert {one["name"] for one in ended["api_keys"]} == {"Ana", "agent"}
    assert ended["links"] == [{"id": dee["person"]["id"], "name": "dee"}]
    assert ended["grants"] == [granted.grant]
    assert set(ended["delegations"]) == {one.id for one in delegations}
    assert set(ended["approvals"]) == {granted.id, large.id}
    assert left["not_ended"] == {
        "api_keys": [{"id": robot["id"], "name": "robot"}],
        "people": [{"id": eve["person"]["id"], "name": "eve"}],
        "policy": applied,
    }

    for mine in theirs:
        assert post(office, "/v1/runs", mine, {"agent": "a", "intent": "b"}).status_code == 401
    assert office.browser().post("/v1/sign-in/link", ticket(dee)).status_code == 401
    assert [one.id for one in ledger.delegations()] == [kept.id]
    assert isinstance(ledger.begin(call(4)), AwaitingApproval), "the grant is none"
    assert isinstance(ledger.begin(call(1)), AwaitingApproval), "the approval is none"
    open_still = asked(ledger, call(3, "pay.large"))
    assert (open_still.id, [vote.by for vote in open_still.votes]) == (large.id, ["bob"]), "others need not vote again"
    with pytest.raises(VoteRefused, match="revoked"):
        approve(ledger, open_still, ANA)

    post(office, "/v1/people", root, {"name": "ana", "scopes": ["approver"]})
    assert isinstance(ledger.begin(call(5)), AwaitingApproval), "nothing of it comes back with them"
    approve(ledger, open_still, ANA)
    assert isinstance(ledger.begin(call(3, "pay.large")), Claimed)


def test_whoever_revokes_themselves_ends_all_of_it_too_and_once(sqlite_office: Office) -> None:
    office = sqlite_office
    browser, _ = invited(office, "ana", ("admin",))
    office.token("ana", "approver")
    assert browser.post("/v1/delegations", {"to": "bob", "until": SOON.isoformat()}).status_code == 201
    left = browser.post(f"/v1/people/{person_id('ana')}/revoke").json()
    assert (len(left["ended"]["api_keys"]), len(left["ended"]["delegations"])) == (1, 1)
    again = post(office, f"/v1/people/{person_id('ana')}/revoke", office.token("root", "admin")).json()
    assert again["ended"] == {name: [] for name in left["ended"]}


def test_what_was_cut_short_is_ended_by_revoking_again_and_opens_nothing_meanwhile(
    office: Office, ledger: Ledger
) -> None:
    invited(office)
    ledger.apply_policy(POLICY, by=ROOT)
    question = approve(ledger, asked(ledger, call(1)), ANA, grant=GrantTerms(count=9, until=SOON))
    office.people.revoke(person_id("ana"), by=ROOT)  # and there somebody pulls the plug
    assert isinstance(ledger.begin(call(1)), AwaitingApproval)
    assert isinstance(ledger.begin(call(2)), AwaitingApproval)
    left = post(office, f"/v1/people/{person_id('ana')}/revoke", office.token("root", "admin")).json()
    assert left["ended"]["grants"] == [question.grant]


def test_a_token_of_a_person_ends_at_once_for_whatever_changes_something(sqlite_office: Office) -> None:
    """Other servers remember tokens for a second; what people change, they do not decide on that."""
    office = sqlite_office
    ana = office.token("ana", "approver")
    assert httpx2.get(f"{office.url}/v1/me", headers=ana, trust_env=False).status_code == 200, "now it is remembered"
    (one,) = [one for one in Credentials(office.store, office.tenant).all() if one.name == "ana"]
    Credentials(office.store, office.tenant).revoke(one.id, by=ROOT)
    delegation = {"to": "bob", "until": SOON.isoformat()}
    assert post(office, "/v1/delegations", ana, delegation).status_code == 401


def test_nobody_who_was_revoked_gets_a_token(sqlite_office: Office) -> None:
    office = sqlite_office
    office.people.revoke(office.people.invite("ana", ("approver",), by=ROOT)[0].id, by=ROOT)
    root = office.token("root", "admin")
    for wanted in ({"name": "Ana", "scopes": ["approver"]}, {"name": "a", "scopes": ["agent"], "principal": "ana"}):
        refused = post(office, "/v1/api-keys", root, wanted)
        assert (refused.status_code, "people invite" in refused.json()["detail"]) == (409, True)
    assert post(office, "/v1/api-keys", root, {"name": "ana", "scopes": ["agent"]}).status_code == 201, "an agent"


def test_nothing_of_somebody_comes_back_when_they_are_invited_again(office: Office, ledger: Ledger) -> None:
    """Their votes on calls that had begun, and a grant that somebody gave in their name."""
    ledger.apply_policy(POLICY, by=ROOT)
    root = office.token("root", "admin")
    invited(office, "ana")
    invited(office, "dan")
    dan = Actor("dan", "person", "passkey")
    ledger.delegate("dan", until=SOON, by=ANA)
    for number in (2, 3):
        approve(ledger, asked(ledger, call(number)), ANA)
    given = approve(ledger, asked(ledger, call(4)), dan, grant=GrantTerms(count=9, until=SOON))
    brief = timedelta(seconds=1)
    crashed = ledger.begin(call(3), on_crash="retry", lease=brief)
    assert isinstance(crashed, Claimed)

    def refuse(effect: Any) -> None:
        left = post(office, f"/v1/people/{person_id('ana')}/revoke", root).json()
        assert left["ended"]["grants"] == [given.grant]
        invited(office, "ana")
        raise NothingHappened("it was refused")

    with pytest.raises(NothingHappened):
        ledger.run(call(2), refuse)
    assert isinstance(ledger.begin(call(2)), AwaitingApproval)
    assert isinstance(ledger.begin(call(5)), AwaitingApproval)

    def is_over() -> bool:
        answer = ledger.begin(call(3), on_crash="retry")
        assert not isinstance(answer, Claimed)
        return ledger.get_effect(crashed.claim.effect.id).status != "processing"

    eventually(is_over)
    approve(ledger, asked(ledger, call(2)), ANA)
    assert isinstance(ledger.begin(call(2)), Claimed), "what she approves now counts"


def test_46_a_revocation_that_was_cut_short_is_finished_before_the_person_is_invited_again(
    office: Office, ledger: Ledger
) -> None:
    """The person was revoked, and the process was killed before it ended their grant, delegation and token."""
    ledger.apply_policy(POLICY, by=ROOT)
    invited(office, "ana")
    token = office.token("ana", "approver")
    approve(ledger, asked(ledger, call(1)), ANA, grant=GrantTerms(count=9, until=SOON))
    ledger.delegate("bob", until=SOON, by=ANA)
    People(store_behind(ledger), office.tenant).revoke(person_id("ana"), by=ROOT)
    again = {"name": "ana", "scopes": ["approver"]}
    assert post(office, "/v1/people", office.token("root", "admin"), again).status_code == 201
    assert isinstance(ledger.begin(call(2)), AwaitingApproval), "the grant is over"
    assert httpx2.get(f"{office.url}/v1/approvals", headers=token, trust_env=False).status_code == 401
    assert ledger.delegations() == []
