"""What the Python client's own door, `POST /v1/store/*`, must not take from the other side."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import httpx2
import pytest

from indelible import Actor, GrantTerms, Ledger
from indelible.core.approvals.approval import Need, Person, Question
from indelible.core.commands import Amend, CastVote
from indelible.core.events import Payload
from indelible.core.policy.verdicts import Verdict
from indelible.core.remote.wire import from_wire, to_wire
from indelible.core.values.canonical import encode
from indelible.engine.mint import EDIT_VALUES, SystemMint
from tests.server.places import Place

MINT = SystemMint()
POLICY: dict[str, Any] = {
    "people": {"ana": {"roles": ["finance"]}, "bob": {"roles": ["finance"]}},
    "rules": [
        {"name": "small", "match": {"tool": "pay", "args": {"amount": {"lte": 50}}}, "then": "allow"},
        {
            "name": "big",
            "match": {"tool": "pay"},
            "then": "ask",
            "approvals": {"needs": [{"role": "finance", "count": 2}]},
        },
    ],
}


@pytest.fixture
def place(each_place: Place) -> Place:
    return each_place


def sent(place: Place, who: str, *commands: Any) -> httpx2.Response:
    """Send commands through the client's own door."""
    return place.client.post(
        "/v1/store/apply", headers=place.headers(who), json={"commands": [to_wire(one) for one in commands]}
    )


def connected(place: Place, who: str) -> Ledger:
    return Ledger.open(place.served.url, token=place.tokens[who])


# Four eyes


def test_an_editor_does_not_bring_the_question(place: Place) -> None:
    """Where the policy allows the edited arguments, those who were asked before are asked, and both of them."""
    assert place.ask("PUT", "/v1/policy", "admin", {"content": POLICY}).status_code in (200, 201)
    call = {"run_id": uuid4().hex, "tool": "pay", "args": {"to": "them", "amount": 2000}, "side_effect": "payment"}
    asked = place.post("/v1/effects", call).json()
    approval = asked["approval"]
    question = Question(rule="x", people={"ana": Person(("finance",))}, needs=(Need(),), is_sole_approver=True)
    with connected(place, "ana") as ledger:
        ref = ledger.get_effect(asked["effect"]["id"]).ref
    edit = Amend(
        ref=ref,
        stamp=MINT.stamp(Actor("ana"), EDIT_VALUES),
        approval_id=approval["id"],
        digest=approval["digest"],
        args_json=encode({"to": "me", "amount": 50}),
        verdict=Verdict(decision="ask", rule="x", question=question),
        detail_json=b'"smaller"',
    )
    assert sent(place, "ana", edit).status_code == 200
    now = place.get(f"/v1/approvals/{approval['id']}", "ana").json()["approval"]
    assert (now["version"], now["is_sole_approver"], now["people"]) == (2, False, approval["people"])
    assert now["lacking"] == approval["lacking"]
    told = {"decision": "approve", "digest": now["digest"]}
    place.post(f"/v1/approvals/{approval['id']}/decisions", told, "ana")
    assert place.get(f"/v1/approvals/{approval['id']}", "ana").json()["approval"]["status"] == "pending"


# Ids


@pytest.mark.parametrize("is_anothers", [True, False])
def test_the_id_of_a_grant_is_the_servers_to_make(place: Place, is_anothers: bool) -> None:
    until = datetime.now(UTC) + timedelta(hours=1)

    def asked() -> Any:
        words = {"run_id": uuid4().hex, "tool": "mail", "args": {"n": uuid4().hex}, "approval": "required"}
        return place.post("/v1/effects", words).json()

    first = asked()["approval"]
    told = {"decision": "approve", "digest": first["digest"], "grant": {"count": 5, "until": until.isoformat()}}
    assert place.post(f"/v1/approvals/{first['id']}/decisions", told, "ana").status_code == 201
    grants = place.get("/v1/grants", "ana").json()["grants"]
    second = asked()
    with connected(place, "bob") as ledger:
        ref = ledger.get_effect(second["effect"]["id"]).ref
    vote = CastVote(
        ref=ref,
        stamp=MINT.stamp(Actor("bob")),
        approval_id=second["approval"]["id"],
        digest=second["approval"]["digest"],
        is_approval=True,
        detail_json=b'"so"',
        grant=GrantTerms(count=7, until=until),
        grant_id=grants[0]["id"] if is_anothers else "",
        pinned="x",
    )
    assert sent(place, "bob", vote).status_code == 200
    now = place.get("/v1/grants", "ana").json()["grants"]
    assert [one for one in now if one in grants] == grants
    (added,) = (one for one in now if one not in grants)
    assert (added["given_by"], added["id"].startswith("grt_")) == ("bob", True)


# What is kept of rules and people


@pytest.mark.parametrize(
    ("who", "unseen"),
    [
        ("agent", {"policy", "delegation", "person", "credential"}),
        ("ana", {"person", "credential"}),
        ("auditor", set()),
    ],
)
def test_values_of_the_ledgers_own_runs_are_shown_by_scope(place: Place, who: str, unseen: set[str]) -> None:
    place.ask("PUT", "/v1/policy", "admin", {"content": POLICY})
    until = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    assert place.post("/v1/delegations", {"to": "dan", "until": until}, "ana").status_code == 201
    place.post("/v1/people", {"name": uuid4().hex, "scopes": ["approver"]}, "admin")
    seen = set[str]()
    for run in ("journal", "approvals", "people", "credentials"):
        words = {"run_id": f"indelible:{run}", "seqs": list(range(50))}
        answer = place.client.post("/v1/store/payloads", headers=place.headers(who), json=words)
        seen |= {one.field for one in from_wire(list[Payload], answer.json()["answer"])}
    assert (
        seen & {"policy", "delegation", "person", "credential"}
        == {
            "policy",
            "delegation",
            "person",
            "credential",
        }
        - unseen
    )
