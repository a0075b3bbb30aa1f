"""The matrix of rights: every verb about effects, by every scope, on its own and on another's, in every state.

Made from the one table in `indelible.core.rights`. What is refused changes nothing, so all refusals about one state
share one effect; what is allowed gets an effect of its own.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from indelible.core.rights import RIGHTS, VerbName
from indelible.core.scopes import SCOPES, Scope
from tests.server.bodies import BODIES
from tests.server.places import Place
from tests.waiting import eventually

BY_SCOPE: dict[Scope, str] = {"agent": "agent", "approver": "ana", "auditor": "auditor", "admin": "admin"}
OWNERS = {"own": "agent", "other's": "other-agent"}
TERMS = {"side_effect": "write", "on_crash": "hold"}
FINE, REFUSED, CONFLICT = "2xx", 403, 409
_numbers = itertools.count()


@dataclass
class Made:
    """Is an effect in a state, with what its owner got."""

    id: str
    run: str
    told: dict[str, Any]
    owner: str

    @property
    def report(self) -> dict[str, Any]:
        return {"token": self.told.get("token", "never given"), "attempt": max(self.told["effect"]["attempt"], 1)}


@pytest.fixture(scope="module")
def place(each_place: Place) -> Place:
    return each_place


# States, as people and agents bring them about


def waiting(place: Place, owner: str) -> Made:
    run = f"run-{next(_numbers)}"
    told = place.begin(owner, run_id=run, approval="required").json()
    return Made(told["effect"]["id"], run, told, owner)


def approved(place: Place, owner: str) -> Made:
    return _decided(place, owner, {"decision": "approve"})


def denied(place: Place, owner: str) -> Made:
    return _decided(place, owner, {"decision": "deny", "reason": "no"})


def _decided(place: Place, owner: str, decision: dict[str, Any]) -> Made:
    made = waiting(place, owner)
    approval = made.told["approval"]
    told = {**decision, "digest": approval["digest"]}
    assert place.post(f"/v1/approvals/{approval['id']}/decisions", told, "ana").status_code == 201
    return made


def canceled(place: Place, owner: str) -> Made:
    made = waiting(place, owner)
    assert place.post(f"/v1/effects/{made.id}/cancel", {"reason": "x"}, owner).status_code == 200
    return made


def processing(place: Place, owner: str, **words: Any) -> Made:
    run = f"run-{next(_numbers)}"
    told = place.begin(owner, run_id=run, **TERMS, **words).json()
    return Made(told["effect"]["id"], run, told, owner)


def lapsed(place: Place, owner: str) -> Made:
    made = processing(place, owner, lease_s=0.01)
    found: Any = place.store.get_effect("acme", made.id)
    eventually(lambda: found.is_abandoned(place.store.look([]).now))
    return made


def _reported(place: Place, owner: str, verb: str, **words: Any) -> Made:
    made = processing(place, owner)
    assert place.post(f"/v1/effects/{made.id}/{verb}", {**made.report, **words}, owner).status_code == 200
    return made


def released(place: Place, owner: str) -> Made:
    return _reported(place, owner, "release", status="ready", reason="nothing was sent")


def in_doubt(place: Place, owner: str) -> Made:
    return _reported(place, owner, "release", status="in_doubt", reason="lost")


def succeeded(place: Place, owner: str) -> Made:
    return _reported(place, owner, "commit", outcome={"status": "succeeded", "value": 1})


def failed(place: Place, owner: str) -> Made:
    return _reported(place, owner, "commit", outcome={"status": "failed", "error": "no"})


State = Callable[[Place, str], Made]
STATES: dict[State, str] = {
    waiting: "requires_approval",
    approved: "ready",
    released: "ready",
    processing: "processing",
    lapsed: "in_doubt",
    in_doubt: "in_doubt",
    succeeded: "succeeded",
    failed: "failed",
    denied: "denied",
    canceled: "canceled",
}
"""Names the status that each counts as: one whose lease ran out is in doubt."""
NEVER_ENTERED = {waiting, approved, denied, canceled}


# Verbs, by every address that does them


def _about(verb: str, **body: Any) -> Callable[[Made], tuple[str, dict[str, Any]]]:
    return lambda made: (f"/v1/effects/{made.id}/{verb}", body)


def _reporting(verb: str, **body: Any) -> Callable[[Made], tuple[str, dict[str, Any]]]:
    return lambda made: (f"/v1/effects/{made.id}/{verb}", {**made.report, **body})


OTHERWISE = {"status": "failed", "error": "another outcome than was recorded"}
WAYS: dict[VerbName, tuple[Callable[[Made], tuple[str, dict[str, Any]]], ...]] = {
    "settle": (_about("settle", outcome=OTHERWISE, evidence="looked"),),
    "retry": (_about("retry", reason="again"),),
    "cancel": (_about("cancel", reason="away"),),
    "report": (
        _reporting("commit", outcome=OTHERWISE),
        _reporting("release", status="ready", reason="x"),
    ),
}


def expected(verb: VerbName, scope: Scope, whose: str, state: State) -> Any:
    """Reads off the table what has to come of it."""
    right = RIGHTS[verb]
    match right.reach(scope):
        case None:
            return REFUSED
        case "own" if whose != "own" or state not in NEVER_ENTERED:
            return REFUSED
        case "claim" if scope != "agent" or whose != "own" or state in NEVER_ENTERED:
            return REFUSED
    return FINE if STATES[state] in right.states else CONFLICT


def cells(state: State) -> Iterator[tuple[VerbName, Scope, str]]:
    yield from itertools.product(WAYS, SCOPES, OWNERS)


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.__name__)
def test_the_matrix_of_rights(place: Place, state: State) -> None:
    kept = {whose: state(place, owner) for whose, owner in OWNERS.items()}
    before = {whose: seen(place, made) for whose, made in kept.items()}
    for verb, scope, whose in cells(state):
        wanted = expected(verb, scope, whose, state)
        for way in WAYS[verb]:
            made = state(place, OWNERS[whose]) if wanted == FINE else kept[whose]
            path, body = way(made)
            answer = place.client.post(path, json=body, headers=place.headers(BY_SCOPE[scope]))
            status = FINE if answer.status_code < 300 else answer.status_code
            assert status == wanted, (verb, scope, whose, path, answer.text)
            if status == REFUSED:
                assert answer.json()["type"] == "/problems/not-permitted"
    assert {whose: seen(place, made) for whose, made in kept.items()} == before, "what was refused changed nothing"


def seen(place: Place, made: Made) -> Any:
    return place.get(f"/v1/effects/{made.id}", "auditor").json()


def test_every_verb_that_moves_effects_is_in_the_matrix_or_has_tests_of_its_own() -> None:
    elsewhere = {
        "call": "tests/server/test_effects.py, and below",
        "decide": "tests/server/test_access.py: no agent's credential reaches it",
        "lapse": "what the store's clock says",
    }
    assert {name for name, right in RIGHTS.items() if right.states} == WAYS.keys() | elsewhere.keys()
    assert RIGHTS["decide"].reach("agent") is None


# Whatever an agent sends

MAY_HAVE_HAPPENED = (processing, lapsed, in_doubt, succeeded, failed)


@pytest.mark.parametrize("who", ["agent", "other-agent"])
def test_an_agents_token_moves_nothing_that_may_have_happened(place: Place, who: str) -> None:
    """Every operation there is, with the names of real things, and the call itself once more."""
    for state in MAY_HAVE_HAPPENED:
        made = state(place, "agent")
        before = seen(place, made)["effect"]
        names = {"effect_id": made.id, "run_id": made.run, "key": before["key"]}
        for method, template, _ in place.described.operations:
            known = {part for part in names if f"{{{part}}}" in template}
            if method == "GET" or not known or f"{method} {template}" not in BODIES:
                continue
            body = BODIES[f"{method} {template}"]
            place.client.request(method, template.format(**names), json=body, headers=place.headers(who))
        place.begin(who, run_id=made.run, **TERMS)
        after = seen(place, made)["effect"]
        moved = {name for name in before if before[name] != after[name]}
        if state is lapsed:  # the clock says so, and whoever calls again makes it known
            assert (after["status"], after["attempt"]) == ("in_doubt", 1)
        else:
            assert not moved, state.__name__
