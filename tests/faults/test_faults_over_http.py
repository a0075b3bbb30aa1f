"""Faults of the HTTP door and of `connect`: what holds at the database holds through a server. On both stores."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from indelible import Ledger, ToolCall
from indelible.errors import ApprovalPending
from tests.server.places import Place


@pytest.fixture
def place(store_url: str, tmp_path: Path) -> Iterator[Place]:
    made = Place(store_url, keys=tmp_path / "keys")
    yield made
    made.close()


def test_77_a_vote_by_token_leaves_the_question_and_the_inbox_readable(place: Place) -> None:
    """The vote rests on its token, which is read before it is said whether others can still give the rest."""
    ledger = Ledger.open(store=place.store, tenant="acme", seal=False)
    people = {"ana": {"roles": ["finance"]}, "bob": {"roles": ["legal"]}}
    needs = {"needs": [{"role": "finance"}, {"role": "legal"}]}
    ledger.apply_policy({"people": people, "rules": [{"name": "all", "then": "ask", "approvals": needs}]}, by="root")
    approval = place.begin(run_id="order-1").json()["approval"]
    vote = {"decision": "approve", "digest": approval["digest"]}
    voted = place.post(f"/v1/approvals/{approval['id']}/decisions", vote, "ana")
    assert (voted.status_code, voted.json()["approval"]["status"]) == (201, "pending")
    assert place.get(f"/v1/approvals/{approval['id']}", "bob").json()["approval"]["stuck"] is None
    (listed,) = place.get("/v1/approvals", "bob").json()["approvals"]
    assert (listed["id"], listed["stuck"]) == (approval["id"], None)
    assert ledger.view_approval(approval["id"]).stuck is None
    voted = place.post(f"/v1/approvals/{approval['id']}/decisions", vote, "bob")
    assert voted.json()["approval"]["status"] == "approved"


def test_84_an_edit_over_http_leaves_as_they_are_the_arguments_that_it_sends_back(place: Place) -> None:
    entered: list[dict[str, Any]] = []
    looks_alike = {"$decimal": "1"}
    args = {
        "amount": Decimal("1000.10"),
        "card": "4242 4242 4242 4242",
        "due": date(2030, 1, 31),
        "id": 2**60,
        "note": "rent",
        "extra": {"$ref": "x", "alike": looks_alike},
    }
    ledger = Ledger.open(store=place.store, tenant="acme", seal=False, redact=["args.card"])
    call = ToolCall(run_id="order-1", tool="bank.pay", args=args)

    def pay() -> None:
        ledger.run(call, lambda effect: entered.append(dict(effect.args)), approval="required", wait=False)

    with pytest.raises(ApprovalPending) as pending:
        pay()
    path = f"/v1/approvals/{pending.value.approval.id}"
    shown = place.get(path, "ana").json()
    assert shown["args"]["amount"] == {"$decimal": "1000.1"}
    assert shown["args"]["extra"]["alike"] != looks_alike, "what only looks like a decimal is not shown as one"
    edit = {"args": {**shown["args"], "note": "rent for May"}, "digest": shown["approval"]["digest"]}
    assert place.post(f"{path}/edit", edit, "ana").status_code == 200
    edited = place.get(path, "bob").json()
    assert edited["args"] == edit["args"]
    vote = {"decision": "approve", "digest": edited["approval"]["digest"]}
    assert place.post(f"{path}/decisions", vote, "bob").status_code == 201
    pay()
    assert entered == [{**args, "note": "rent for May"}]
    assert type(entered[0]["amount"]) is Decimal


@pytest.mark.parametrize("value", [{"$decimal": "1.10"}, {"$nothing": "1"}, {"$date": 5}, 2**60])
def test_84_an_edit_over_http_that_has_two_readings_is_refused(place: Place, value: Any) -> None:
    asked = place.begin(run_id="order-1", approval="required").json()["approval"]
    edit = {"args": {"amount": value}, "digest": asked["digest"]}
    refused = place.post(f"/v1/approvals/{asked['id']}/edit", edit, "ana")
    assert refused.status_code == 400
    assert place.get(f"/v1/approvals/{asked['id']}").json()["args"] == {"amount": 5}
