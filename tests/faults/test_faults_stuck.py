"""Fault 77: an approval that no person can give any more waits like any other. On both stores, by CLI and HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from indelible import Actor, Ledger, ToolCall
from indelible.cli.behind import store_behind
from indelible.errors import ApprovalPending
from indelible.server.signin.leaving import Leaving
from indelible.server.signin.people import People
from tests.cli.conftest import Cli, cli, ledger_url
from tests.server.conftest import each_place
from tests.server.places import Place

__all__ = ["cli", "each_place", "ledger_url"]


def asking(**approvals: Any) -> dict[str, Any]:
    people = {name: {"roles": ["finance"]} for name in ("ana", "bob")}
    return {"people": people, "rules": [{"name": "all", "then": "ask", "approvals": approvals}]}


def ask(ledger: Ledger, run: str = "order-1") -> str:
    try:
        ledger.run(ToolCall(run_id=run, tool="refund", args={"amount": 5}), lambda effect: None, wait=False)
    except ApprovalPending as pending:
        return pending.approval.id
    raise AssertionError("no approval was asked for")


def revoke(ledger: Ledger, name: str) -> None:
    people = People(store_behind(ledger), ledger.tenant)
    person, _ = people.invite(name, ("approver",), by=Actor("root"))
    Leaving(store_behind(ledger), ledger.tenant, ledger._approving).revoke(person.id, by=Actor("root"))


@pytest.fixture
def stuck(ledger_url: str) -> Iterator[tuple[Ledger, str, str]]:
    """A ledger, an approval whose only person was revoked, and one that a person can give."""
    with Ledger.open(ledger_url, policy=asking(people=["ana"]), seal=False) as ledger:
        lost = ask(ledger)
        revoke(ledger, "ana")
        with Ledger.open(ledger_url, policy=asking(roles=["finance"]), seal=False) as other:
            yield ledger, lost, ask(other, "order-2")


def test_77_an_approval_whose_only_person_was_revoked_says_so_and_the_ways_out(
    cli: Cli, stuck: tuple[Ledger, str, str]
) -> None:
    _, lost, open_one = stuck
    listed = {one["id"]: one["stuck"] for one in cli("approvals", "list", "--json").json["approvals"]}
    assert listed[open_one] is None
    assert "ana" in listed[lost]["why"]
    assert any("people invite" in way for way in listed[lost]["ways"])
    rows = {line.split()[0]: line.split()[1] for line in cli("approvals", "list").out.splitlines() if "apr_" in line}
    assert (rows[lost], rows[open_one]) == ("stuck", "pending")
    assert "way out" in cli("approvals", "show", lost).out
    assert "way out" not in cli("approvals", "show", open_one).out
    assert cli("approvals", "show", lost, "--json").json["approval"]["stuck"] == listed[lost]


def test_77_doctor_counts_approvals_that_no_person_can_give(cli: Cli, stuck: tuple[Ledger, str, str]) -> None:
    _, lost, _ = stuck
    checks = {check["name"]: check for check in cli("doctor", "--json", code=None).json["checks"]}
    assert checks["stuck approvals"]["verdict"] == "warn"
    assert "1 approval" in checks["stuck approvals"]["says"]
    assert lost in checks["stuck approvals"]["fix"]


def test_77_the_ways_out_lead_out(cli: Cli, stuck: tuple[Ledger, str, str]) -> None:
    ledger, lost, _ = stuck
    approval = ledger.get_approval(lost)
    assert approval is not None
    People(store_behind(ledger), ledger.tenant).invite("ana", ("approver",), by=Actor("root"))
    assert cli("approvals", "show", lost, "--json").json["approval"]["stuck"] is None, "let in again"
    revoke(ledger, "ana")
    cli("effects", "cancel", approval.effect_id, "--reason", "no one is left")
    assert cli("approvals", "list", "--json", "--status", "canceled").json["approvals"][0]["stuck"] is None


def test_77_a_quorum_larger_than_the_people_is_recognised(ledger_url: str) -> None:
    with Ledger.open(ledger_url, policy=asking(people=["ana", "bob"], quorum=2), seal=False) as ledger:
        approval_id = ask(ledger)
        approval = ledger.get_approval(approval_id)
        assert approval is not None
        assert ledger.view_approval(approval_id).stuck is None
        ledger.approve(approval_id, digest=approval.digest, by="ana")
        revoke(ledger, "bob")
        found = ledger.view_approval(approval_id).stuck
    assert found is not None
    assert "bob" in found.why


def test_77_over_http_it_is_listed_and_shown(each_place: Place) -> None:
    """The server looks people up, so a caller sees it without seeing people's sheets."""
    ledger = Ledger.open(store=each_place.store, tenant="acme", seal=False)
    ledger.apply_policy(asking(people=["ana"]), by="root")
    approval = each_place.begin(run_id="order-1").json()["approval"]
    shown = each_place.get(f"/v1/approvals/{approval['id']}").json()["approval"]
    assert shown["stuck"] is None
    revoke(ledger, "ana")
    shown = each_place.get(f"/v1/approvals/{approval['id']}").json()["approval"]
    assert "ana" in shown["stuck"]["why"]
    (listed,) = each_place.get("/v1/approvals").json()["approvals"]
    assert listed["stuck"] == shown["stuck"]
