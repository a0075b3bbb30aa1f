"""Threat 3: an agent says of its own call that nobody needs to be asked, or adds a field by which no rule fits.

What it can say by the store's own protocol is tried in `tests/server/test_store_routes.py`, at random.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from tests.server.places import described
from tests.threats.exposed import Exposed

POLICY = {
    "tools": {
        "bank.refund": {"side_effect": "payment", "fields": ["order", "amount"]},
        "bank.close": {},
        "bank.pay": {"side_effect": "payment"},
        "mail.send": {"side_effect": "notification"},
    },
    "defaults": {"none": "allow", "read": "allow", "write": "allow"},
    "rules": [
        {"name": "never", "match": {"tool": "bank.close"}, "then": "refuse"},
        {"name": "no mails", "match": {"side_effect": "notification"}, "then": "refuse"},
        {"name": "small ones pass", "match": {"tool": "bank.refund", "args": {"amount": {"lte": 5}}}, "then": "allow"},
        {"name": "refunds", "match": {"tool": "bank.refund"}, "then": "ask"},
    ],
}
# Everything that the description lets a client say of a call, but for what makes it another call.
SAID: dict[str, list[Any]] = {
    "approval": ["none", "required"],
    "side_effect": ["none", "read", "write", "external_mutation", "payment", "notification", "delegation"],
    "on_crash": ["retry", "hold"],
    "dedupe": ["args", "call", "ask", "turn"],
    "turn": ["m1"],
    "varies": [["order"], ["amount"]],
    "added": [{"amount": 100}],
    "on_reuse": ["replay", "refuse"],
    "on_repeat": ["run", "ask", "refuse"],
    "exclusive": [{"namespace": "n", "type": "order", "id": "1"}],
    "downstream_window_s": [60],
    "key": [["order"]],
    "scope": ["elsewhere", "run-1"],
    "call_id": ["c1"],
    "resource": [{"namespace": "n", "type": "order", "id": "1"}],
    "schema": ["ab" * 32],
    "lease_s": [1],
    "token": ["a" * 32],
    "driver_token": ["d" * 32],
}
ANOTHER_CALL = {"tool", "args", "run_id"}


@pytest.fixture
def exposed(store_url: str) -> Iterator[Exposed]:
    found = Exposed(store_url, seal=False)
    assert found.ask("PUT", "/v1/policy", "admin", {"content": POLICY, "reason": "rules"}).status_code == 200
    yield found
    found.close()


def test_everything_that_can_be_said_is_tried_here(exposed: Exposed) -> None:
    schema = described(exposed.app).openapi["components"]["schemas"]["Begin"]
    assert set(schema["properties"]) == {*SAID, *ANOTHER_CALL}, "somebody has to try whether it lowers the policy"


def test_nothing_an_agent_says_of_its_call_lowers_the_policy(exposed: Exposed) -> None:
    numbers = itertools.count()
    singles = [{name: value} for name, values in SAID.items() for value in values]
    pairs = [{**one, **other} for one, other in zip(singles, singles[::-1], strict=True)]
    for options in [*singles, *pairs]:
        words = {**options, "run_id": f"run-{next(numbers)}"}
        asked = exposed.begin(tool="bank.refund", args={"order": "1", "amount": 100}, **words)
        assert asked.status_code in (202, 400, 403, 409), (options, asked.text)
        declared = exposed.begin(tool="bank.pay", args={"order": "1"}, **{**words, "run_id": f"run-{next(numbers)}"})
        assert declared.status_code in (202, 400, 403, 409), (options, declared.text)
        for tool in ("bank.close", "mail.send"):
            refused = exposed.begin(tool=tool, args={}, **{**words, "key": None, "run_id": f"run-{next(numbers)}"})
            assert refused.status_code in (400, 403, 409, 422), (tool, options, refused.text)
    assert exposed.ask("GET", "/v1/effects", params={"status": "processing"}).json()["effects"] == []


SPELLINGS: list[dict[str, Any]] = [
    {"order": "1", "amount": 100, "dry_run": True},
    {"order": "1", "amount": 100, "Amount": 1},
    {"order": "1", "amount": "1"},
    {"order": "1", "amount": [1]},
    {"order": "1", "amount": True},
    {"order": "1", "amount": -0.0, "requires_approval": False},
    {"order": "1"},
    {"order": "1", "amount": None},
]


def test_no_field_and_no_other_spelling_passes_for_a_small_amount(exposed: Exposed) -> None:
    assert exposed.begin(tool="bank.refund", args={"order": "1", "amount": 5}, run_id="small").status_code == 201
    for args in SPELLINGS:
        answer = exposed.begin(tool="bank.refund", args=args)
        assert answer.status_code in (202, 403), (args, answer.text)


def test_another_spelling_of_the_tool_is_not_that_tool_and_not_allowed(exposed: Exposed) -> None:
    for tool in ["Bank.refund", "bank.refund ", "bank\u2024refund", "bank.refund\u200b", "b\u0430nk.refund"]:
        assert exposed.begin(tool=tool, args={"order": "1", "amount": 5}).status_code in (400, 403, 422), tool


def test_a_member_that_nobody_knows_is_refused_and_not_passed_over(exposed: Exposed) -> None:
    for member in ("requires_approval", "verdict", "policy", "actor", "tenant", "principal", "grants"):
        assert exposed.begin(**{member: None}).status_code == 422
