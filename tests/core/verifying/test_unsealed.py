"""Promises of core.verifying.unsealed: nothing is sealed that no key holder wrote or that no rule allows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from indelible.core.batch import Batch
from indelible.core.commands import Claimed, Record
from indelible.core.effects.calls import DEFAULT_TENANT
from indelible.core.effects.effect import SYSTEM
from indelible.core.effects.stopping import telling
from indelible.core.effects.stops import stop_after
from indelible.core.events import Event, Payload, event_hash, facts_json
from indelible.core.journal.journal import Before, Waiting
from indelible.core.journal.set_back import stop_of_forgery
from indelible.core.macs import MAC_BYTES
from indelible.core.policy.budgets import budget_ref, charges_json
from indelible.core.policy.verdicts import ONE_AT_A_TIME
from indelible.core.sheets import SheetRef
from indelible.core.verifying.unsealed import (
    ToldOf,
    Unsealed,
    is_by_holder,
    remembered_in,
    reserved_twice,
    rights_told,
    versions_to_keep,
)
from tests.core.making import NOON, Shelf, charge, charging, finish, open_command, relinquish, stamp
from tests.core.test_macs import macs

KEYS = macs()


def waiting(event: Event) -> Waiting:
    """Return an event as it waits, written by a key holder."""
    return Waiting(
        event.run_id, event.seq, bytes.fromhex(event.hash), event.body, KEYS.of_event(event.type, event.hash)
    )


def found(*bodies: bytes | None) -> Before:
    """Find these events before."""
    return lambda places: [body for _, body in zip(places, bodies, strict=True)]


def nothing(places: Sequence[tuple[str, int, str]]) -> list[bytes | None]:
    """Find no event before."""
    return [None] * len(places)


def lived(shelf: Shelf) -> list[Waiting]:
    """Return the events of a call that ran."""
    (claimed,) = shelf.apply(open_command()).answers
    assert isinstance(claimed, Claimed)
    shelf.apply(finish(claimed.claim))
    return [waiting(event) for events in shelf.events.values() for event in events]


def test_what_the_rules_made_is_sealed_whole_or_in_parts() -> None:
    first, last = lived(Shelf())
    examine = Unsealed(KEYS)
    assert is_by_holder(KEYS, last)
    assert examine([first, last], nothing) == set()
    assert examine([first], nothing) == set()
    assert examine([last], found(first.body)) == set()
    assert not examine.problems


def test_what_was_changed_is_named_with_its_run_and_the_rest_of_the_run_waits() -> None:
    first, last = lived(Shelf())
    other = lived(Shelf())[0]
    no_event = b'{"v":1}'
    for wrong in (
        first._replace(body=None),
        first._replace(body=(first.body or b"") + b" "),
        first._replace(mac=None),
        first._replace(mac=bytes(MAC_BYTES)),
        first._replace(seq=7),
        first._replace(body=no_event, hash=bytes.fromhex(event_hash(no_event))),
        first._replace(body=b"\xff", hash=bytes.fromhex(event_hash(b"\xff"))),
    ):
        examine = Unsealed(KEYS)
        assert not is_by_holder(KEYS, wrong)
        assert examine([wrong, last], nothing) == {first.run_id}
        assert f"run {first.run_id}" in examine.problems[first.run_id]
    elsewhere = other._replace(run_id="another")
    assert Unsealed(KEYS)([elsewhere, first, last], nothing) == {"another"}


def test_98_a_move_from_a_status_that_was_put_back_is_named() -> None:
    """The row of an effect was put back to what it was before; what is written on it does not follow."""
    shelf = Shelf()
    (claimed,) = shelf.apply(open_command()).answers
    assert isinstance(claimed, Claimed)
    before = shelf.effects.copy()
    shelf.apply(relinquish(claimed.claim, "in_doubt"))
    shelf.effects = before
    shelf.apply(finish(claimed.claim))
    events = [waiting(event) for told in shelf.events.values() for event in told]
    assert Unsealed(KEYS)(events[:2], nothing) == set()
    assert Unsealed(KEYS)(events, nothing) == {events[0].run_id}
    assert Unsealed(KEYS)(events[2:], found(events[1].body)) == {events[0].run_id}
    assert Unsealed(KEYS)(events[1:2], found(b"unreadable")) == {events[0].run_id}, "it begins in the middle"


def told_fact(shelf: Shelf, command: Record) -> Waiting:
    batch: Batch = shelf.apply(command)
    return waiting(batch.events[0])


def test_a_right_without_the_rights_key_is_named_and_one_with_it_is_remembered() -> None:
    shelf = Shelf()
    stop = stop_after(None, is_in_force=True, by=SYSTEM, at=NOON, reason="a drill")
    right = told_fact(shelf, telling(stop, DEFAULT_TENANT, stamp()))
    plain = Record(
        tenant=DEFAULT_TENANT, run_id="r", stamp=stamp(), event_type="artifact_created", facts=facts_json({})
    )
    fact = told_fact(shelf, plain)
    examine = Unsealed(KEYS)
    assert examine([right, fact], nothing) == set()
    assert examine.rights == [(right.run_id, right.seq, "stop")]
    of_effects = right._replace(mac=(right.mac or b"")[:MAC_BYTES])
    assert examine([of_effects], nothing) == {right.run_id}
    assert rights_told(KEYS, right) == [*examine.rights, (right.run_id, right.seq, "stop")]
    assert rights_told(KEYS, fact) == []
    assert rights_told(KEYS, of_effects) is None
    assert rights_told(KEYS, right._replace(body=b"{}")) is None


def test_what_is_taken_from_budgets_is_remembered() -> None:
    shelf = Shelf()
    shelf.apply(open_command(verdict=charging(charge())))
    examine = Unsealed(KEYS)
    assert examine([waiting(event) for told in shelf.events.values() for event in told], nothing) == set()
    assert [kind for _, _, kind in examine.rights] == ["charges"]


def test_what_keeps_a_resource_for_one_call_at_a_time_is_not_remembered() -> None:
    kept = replace(charge(), number=3)
    of_resource = replace(charge(budget=f"{ONE_AT_A_TIME}lock", window=timedelta(milliseconds=1)), number=1)
    told = remembered_in(Payload("r", 0, "charges", b"", charges_json((kept, of_resource))))
    assert [one.ref for one in told] == [budget_ref("spend"), SheetRef("resource", "lock")]
    assert versions_to_keep(told, []) == {budget_ref("spend"): 3}


def test_98_a_reservation_that_two_events_tell_shows_a_row_that_was_put_back() -> None:
    def told(kind: str, number: int, run_id: str) -> ToldOf:
        return ToldOf(SheetRef(kind, "x"), number, run_id, 4)

    first = told("budget", 1, "a")
    others = [told("budget", 2, "b"), told("resource", 1, "c"), told("grant", 1, "d"), told("grant", 1, "e")]
    assert reserved_twice([first, *others], []) == {}
    assert reserved_twice([first, told("budget", 1, "b")], []).keys() == {"b"}
    assert reserved_twice([told("resource", 1, "f")], others).keys() == {"f"}


def test_a_forgery_stops_effects_once_and_leaves_a_stop_that_stands() -> None:
    stop = stop_of_forgery(None, "event 3 of run r", NOON)
    assert stop is not None
    assert stop.is_in_force
    assert "event 3 of run r" in stop.reason
    assert stop_of_forgery(stop, "event 3 of run r", NOON) is None
    let_go = stop_after(stop, is_in_force=False, by=SYSTEM, at=NOON, reason="looked at")
    again = stop_of_forgery(let_go, "event 4 of run r", NOON)
    assert again is not None
    assert again.version == let_go.version + 1
