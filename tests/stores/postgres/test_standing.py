"""Promises of the PostgreSQL store about people: who is revoked between a look and a write permits nothing any more."""

from __future__ import annotations

import functools
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from indelible.core.commands import AwaitingApproval, Decided, NotCounted, Recorded
from indelible.core.people.person import PEOPLE_RUN, Person
from indelible.core.people.sheets import person_sheet
from indelible.core.people.standing import person_id
from indelible.stores.postgres import PostgresStore, lane
from indelible.testing.commands import asking
from tests.stores.postgres.disturbing import Traffic
from tests.stores.postgres.making import approval, ask, do, opening, recording

MOVED = "move_one_with_sheets"


@pytest.fixture
def ada(store: PostgresStore) -> Person:
    person = Person(id=person_id("ada"), name="ada", scopes=("approver",), created_at=datetime.now(UTC))
    assert isinstance(do(store, recording(PEOPLE_RUN, sheet=person_sheet(person))), Recorded)
    return person


def revoking(store: PostgresStore, person: Person, patch: pytest.MonkeyPatch) -> Callable[[], bool]:
    """Revokes somebody right before the next write of permissions, after all that it rests on was looked at."""
    write, revoked = lane.write, []

    def late(*arguments: object) -> object:
        if not revoked:
            revoked.append(person)
            assert isinstance(do(store, recording(PEOPLE_RUN, sheet=person_sheet(person.revoked()))), Recorded)
        return write(*arguments)  # type: ignore[arg-type]

    patch.setattr(lane, "write", late)
    return lambda: bool(revoked)


def test_a_vote_does_not_count_whose_voter_is_revoked_before_it_is_written(
    store: PostgresStore, other: PostgresStore, ada: Person, traffic: Traffic, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ask(store, 1)
    was_revoked = revoking(other, ada, monkeypatch)
    answer = do(store, approval(asked), asked.effect)
    assert was_revoked()
    assert isinstance(answer, NotCounted)
    assert {MOVED, "BEGIN"} <= set(traffic.sent), "the first try was refused"


def test_a_permission_opens_nothing_whose_giver_is_revoked_before_the_claim_is_written(
    store: PostgresStore, other: PostgresStore, ada: Person, traffic: Traffic, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ask(store, 1)
    approved = do(store, approval(asked), asked.effect)
    assert isinstance(approved, Decided)
    was_revoked = revoking(other, ada, monkeypatch)
    answer = do(store, opening(1, verdict=asking()), approved.effect)
    assert was_revoked()
    assert isinstance(answer, AwaitingApproval), "somebody else has to be asked"


def test_people_who_are_known_cost_no_look_of_their_own(store: PostgresStore, ada: Person, traffic: Traffic) -> None:
    for number in range(2):
        asked, again = ask(store, number), opening(number, verdict=asking())
        do(store, approval(asked), asked.effect)
        assert traffic.of(functools.partial(do, store, again)) == ["look", "look_with_sheets", MOVED]
        (effect,) = store.look([again.ref]).effects
        assert effect is not None
        assert effect.status == "processing"
