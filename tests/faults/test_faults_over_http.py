"""Faults of the HTTP door and of `connect`: what holds at the database holds through a server. On both stores."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from indelible import (
    Actor,
    AsyncLedger,
    Ledger,
    MayHaveHappened,
    Refused,
    RunningEffect,
    ToolCall,
    connect,
)
from indelible.core.commands import AwaitingApproval
from indelible.errors import ApprovalPending, PolicyRefused, ResultNotRecorded
from indelible.server.signin.credentials import Credentials
from tests.server.places import Place
from tests.waiting import eventually


@pytest.fixture
def place(store_url: str, tmp_path: Path) -> Iterator[Place]:
    made = Place(store_url, keys=tmp_path / "keys")
    yield made
    made.close()


@pytest.fixture(params=["library", "connect"])
def ledger(request: pytest.FixtureRequest, place: Place) -> Iterator[Ledger]:
    """A ledger at the database, and one behind the server: the same holds through both."""
    if request.param == "library":
        with Ledger.open(place.url, tenant="acme", actor="agent", seal=False) as opened:
            yield opened
    else:
        with connect(place.served.url, token=place.tokens["agent"]) as client:
            yield client


def apply(place: Place, **policy: Any) -> None:
    Ledger.open(store=place.store, tenant="acme", seal=False).apply_policy(policy, by="root")
    place.ledgers.of("acme")._engine.judging.forget()


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


def turn(name: str, **words: Any) -> ToolCall:
    return ToolCall(tool="gift", args={"to": "ana"}, run_id="r", **(words or {"dedupe": "turn", "turn": name}))


def test_53_what_a_policy_calls_a_payment_is_not_repeated_in_a_later_turn(place: Place, ledger: Ledger) -> None:
    """Through `connect` the client's class decided, which knows no policy of the server's."""
    apply(place, tools={"gift": {"side_effect": "payment"}}, rules=[{"name": "rest", "then": "allow"}])
    entered: list[str] = []
    for name in ("m1", "m1", "m2", "m3"):
        try:
            ledger.run(turn(name), lambda effect: entered.append("ran"), side_effect="notification", wait=False)
        except ApprovalPending:
            entered.append(f"{name} asks")
    assert entered == ["ran", "m2 asks", "m3 asks"]


@pytest.mark.parametrize("word", ["run", "ask", "refuse"])
def test_53_a_tool_says_itself_what_becomes_of_its_repeats(place: Place, ledger: Ledger, word: Any) -> None:
    entered: list[str] = []
    for name in ("m1", "m2"):
        try:
            ledger.run(turn(name), lambda effect: entered.append("ran"), on_repeat=word, wait=False)
        except Exception as problem:
            entered.append(type(problem).__name__)
    assert entered == ["ran", {"run": "ran", "ask": "ApprovalPending", "refuse": "RepeatRefused"}[word]]


def test_53_a_servers_word_on_repeats_holds_too(store_url: str, tmp_path: Path) -> None:
    place = Place(store_url, keys=tmp_path / "keys", on_repeat="refuse")
    try:
        with connect(place.served.url, token=place.tokens["agent"]) as client:
            client.run(turn("m1"), lambda effect: None, on_repeat="run")
            with pytest.raises(PolicyRefused):
                client.run(turn("m2"), lambda effect: None, on_repeat="run")
    finally:
        place.close()


def test_53_a_grant_answers_no_repeat(place: Place, ledger: Ledger) -> None:
    apply(place, rules=[{"name": "gifts", "match": {"tool": "gift"}, "then": "ask"}])
    begun = ledger.begin(turn("m1"), side_effect="payment")
    assert isinstance(begun, AwaitingApproval)
    until = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    vote = {"decision": "approve", "digest": begun.approval.digest, "grant": {"count": 9, "until": until}}
    assert place.post(f"/v1/approvals/{begun.approval.id}/decisions", vote, "ana").status_code == 201
    ran: list[str] = []
    ledger.run(turn("m1"), lambda effect: ran.append("m1"), side_effect="payment", wait=False)
    again = [turn("m2"), turn("", dedupe="ask", call_id="c1"), turn("", dedupe="ask", call_id="c2")]
    for call in again:
        with pytest.raises(ApprovalPending):
            ledger.run(call, lambda effect: ran.append("again"), side_effect="payment", wait=False)
    assert ran == ["m1"]


def test_39_each_class_that_tool_and_call_name_is_judged(place: Place, ledger: Ledger) -> None:
    night = {"name": "no messages", "match": {"side_effect": "notification"}, "then": "refuse"}
    apply(place, rules=[night, {"name": "rest", "then": "allow"}])
    ledger.tool("gift", side_effect="notification")(lambda to: "sent")
    for words in ({}, {"side_effect": "payment"}):
        with pytest.raises(PolicyRefused):
            ledger.run(turn("m1"), lambda effect: "ran", **words)


@pytest.mark.parametrize("ends", ["returns", "refuses", "loses its answer"])
@pytest.mark.parametrize("shell", ["blocking", "async"])
def test_37_a_token_that_is_revoked_while_its_handler_runs_hides_nothing_that_was_done(
    place: Place, shell: str, ends: str
) -> None:
    """The caller of a payment has to tell "not paid" from "paid, and not recorded"."""
    credentials = Credentials(place.store, "acme")
    credential, token = credentials.give("billing", ("agent",), by=Actor("root"))
    call = ToolCall(tool="pay", args={"order": "1"}, run_id="order-1")
    raised = {"refuses": Refused("declined"), "loses its answer": MayHaveHappened("cut")}
    deeds: list[str] = []

    def pay(effect: RunningEffect) -> dict[str, str]:
        deeds.append(effect.id)
        credentials.revoke(credential.id, by=Actor("root"))
        headers = {"Authorization": f"Bearer {token}"}
        eventually(lambda: place.client.get("/v1/effects", headers=headers).status_code == 401)
        if ends in raised:
            raise raised[ends]
        return {"charge": "ch_123"}

    async def paid() -> None:
        async with AsyncLedger.open(place.served.url, token=str(token)) as ledger:
            await ledger.run(call, pay, side_effect="payment")

    def pays() -> None:
        if shell == "async":
            asyncio.run(paid())
        else:
            with connect(place.served.url, token=str(token)) as ledger:
                ledger.run(call, pay, side_effect="payment")

    with pytest.raises((ResultNotRecorded, MayHaveHappened)) as told:
        pays()
    if ends == "loses its answer":
        assert told.value is raised[ends]
    else:
        assert isinstance(told.value, ResultNotRecorded)
        assert told.value.value == ({"charge": "ch_123"} if ends == "returns" else "declined")
    assert deeds == [place.get("/v1/effects?run_id=order-1", "ana").json()["effects"][0]["id"]]
