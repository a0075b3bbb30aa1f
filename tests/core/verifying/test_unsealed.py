"""Promises of core.verifying.unsealed: nothing is sealed that no key holder wrote or that no rule allows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from indelible.core.batch import Batch
from indelible.core.commands import Claimed, Record
from indelible.core.effects.calls import DEFAULT_TENANT
from indelible.core.effects.effect import SYSTEM
from indelible.core.effects.stopping import telling
from indelible.core.effects.stops import STOP_REF, STOPS_RUN, Cause, let_go, read_stop, stopped_for
from indelible.core.events import Event, Payload, commitment, event_hash, facts_json
from indelible.core.journal.journal import JOURNAL_RUN, Waiting
from indelible.core.journal.set_back import stop_of_forgery, stop_of_set_back
from indelible.core.macs import MAC_BYTES, Macs
from indelible.core.policy.budgets import budget_ref, charges_json
from indelible.core.policy.verdicts import ONE_AT_A_TIME
from indelible.core.privacy.forgetting import HOLD_PLACED
from indelible.core.sheets import SheetRef
from indelible.core.verifying import unsealed
from indelible.core.verifying.payloads import erased_by
from indelible.core.verifying.unsealed import (
    HELD,
    HOLDS,
    MISSING,
    READ,
    TAKEN,
    Numbers,
    ToldOf,
    Unsealed,
    believed_holds,
    believed_run,
    is_by_holder,
    remembered_in,
    rights_told,
    versions_to_keep,
)
from indelible.errors import RecordForged
from tests.core.making import NOON, Shelf, charge, charging, finish, open_command, relinquish, stamp
from tests.core.test_macs import macs

KEYS = macs()


def waiting(event: Event) -> Waiting:
    """Return an event as it waits, written by a key holder."""
    return Waiting(
        event.run_id, event.seq, bytes.fromhex(event.hash), event.body, KEYS.of_event(event.type, event.hash)
    )


class Behind:
    """Is a database that holds some events and values; those that `sealed` are in the tree."""

    def __init__(
        self, events: Iterable[Event] = (), payloads: Iterable[Payload] = (), sealed: Iterable[Waiting] = ()
    ) -> None:
        self.of_runs: dict[str, list[Event]] = {}
        for event in events:
            mac = KEYS.of_event(event.type, event.hash)
            self.of_runs.setdefault(event.run_id, []).append(replace(event, mac=mac))
        self.values = [one._replace(mac=KEYS.of_payload(one.run_id, one.seq, one.field, one.value)) for one in payloads]
        self.tree = {(one.run_id, one.seq): one.hash for one in sealed}
        self.asked = 0

    def events(self, run_id: str, after: int, limit: int) -> Sequence[Event]:
        self.asked += 1
        return [event for event in self.of_runs.get(run_id, []) if event.seq > after][:limit]

    def payloads(self, run_id: str, seqs: Sequence[int]) -> Sequence[Payload]:
        return [one for one in self.values if one.run_id == run_id and one.seq in seqs]

    def is_in_tree(self, run_id: str, seq: int, hash_: bytes) -> bool:
        return self.tree.get((run_id, seq)) == hash_


def behind(shelf: Any, *sealed: Waiting) -> Behind:
    """Return what a database holds that kept all that was decided."""
    return Behind((event for told in shelf.events.values() for event in told), shelf.payloads, sealed)


def events_of(shelf: Any) -> list[Waiting]:
    return [waiting(event) for told in shelf.events.values() for event in told]


def lived(shelf: Shelf) -> list[Waiting]:
    """Return the events of a call that ran."""
    (claimed,) = shelf.apply(open_command()).answers
    assert isinstance(claimed, Claimed)
    shelf.apply(finish(claimed.claim))
    return events_of(shelf)


def test_what_the_rules_made_is_sealed_whole_or_in_parts() -> None:
    shelf = Shelf()
    first, last = lived(shelf)
    assert is_by_holder(KEYS, last)
    whole = Unsealed(KEYS, behind(shelf))
    assert whole([first, last]) == set()
    assert whole.leaves == [first.hash, last.hash]
    assert Unsealed(KEYS, behind(shelf, first))([last]) == set()
    one_by_one = Unsealed(KEYS, behind(shelf))
    for one in (first, last):
        assert one_by_one([one]) == set()
        one_by_one.accept()
    assert not whole.problems | one_by_one.problems


def test_98_what_is_known_of_earlier_pages_is_not_asked_again() -> None:
    shelf = Shelf()
    first, last = lived(shelf)
    rows = behind(shelf)
    examine = Unsealed(KEYS, rows)
    assert examine([first]) == set()
    examine.accept()
    assert examine([last]) == set()
    assert rows.asked == 0
    assert examine([last]) == set(), "a page that was not accepted is examined anew"


def test_98_what_is_known_takes_bounded_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unsealed, "_MOST_KNOWN", 0)
    shelf = Shelf()
    first, last = lived(shelf)
    examine = Unsealed(KEYS, behind(shelf, first))
    other = told_fact(Shelf(), "other", "noted")[1]
    for page in ([first], [other], [last]):
        assert examine(page) == set()
        examine.accept()


def test_what_was_changed_is_named_with_its_run_and_the_rest_of_the_run_waits() -> None:
    shelf = Shelf()
    first, last = lived(shelf)
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
        examine = Unsealed(KEYS, behind(shelf))
        assert not is_by_holder(KEYS, wrong)
        assert examine([wrong, last]) == {first.run_id}
        assert f"run {first.run_id}" in examine.problems[first.run_id]
    elsewhere = other._replace(run_id="another")
    assert Unsealed(KEYS, behind(shelf))([elsewhere, first, last]) == {"another"}


def test_98_an_event_of_another_journal_is_named() -> None:
    shelf = Shelf()
    events = lived(shelf)
    log = shelf.events[events[0].run_id][0].read()["log"]
    for origin, named in ((log, set()), ("another", {events[0].run_id})):
        own = Macs(
            "default", bytes(32), verify=lambda *_: True, sign=None, newest=KEYS.newest, tell=print, origin=origin
        )
        page = [one._replace(mac=own.of_event("tool_call_started", one.hash.hex())) for one in events]
        assert Unsealed(own, behind(shelf))(page) == named


def test_98_an_event_is_sealed_after_the_one_before_it_in_its_run_and_never_again() -> None:
    shelf = Shelf()
    first, last = lived(shelf)
    assert Unsealed(KEYS, behind(shelf))([last]) == {first.run_id}, "there is a gap"
    assert Unsealed(KEYS, behind(shelf))([last, first]) == {first.run_id}, "they changed places"
    assert Unsealed(KEYS, behind(shelf))([first, first]) == {first.run_id}
    assert Unsealed(KEYS, behind(shelf, first._replace(hash=bytes(32))))([last]) == {first.run_id}
    examine = Unsealed(KEYS, behind(shelf, first, last))
    assert examine([first, last]) == set()
    examine.accept()
    assert examine([last]) == {first.run_id}


def test_98_a_move_from_a_status_that_was_put_back_is_named() -> None:
    """The row of an effect was put back to what it was before; what is written on it does not follow."""
    shelf = Shelf()
    (claimed,) = shelf.apply(open_command()).answers
    assert isinstance(claimed, Claimed)
    before = shelf.effects.copy()
    shelf.apply(relinquish(claimed.claim, "in_doubt"))
    shelf.effects = before
    shelf.apply(finish(claimed.claim))
    events = events_of(shelf)
    assert Unsealed(KEYS, behind(shelf))(events[:2]) == set()
    assert Unsealed(KEYS, behind(shelf))(events) == {events[0].run_id}
    assert Unsealed(KEYS, behind(shelf, *events[:2]))(events[2:]) == {events[0].run_id}


@pytest.mark.parametrize("how", ["gone", "changed", "beyond"])
def test_98_how_an_effect_stood_is_not_told_by_events_that_were_changed(how: str) -> None:
    """The column that names its effect, or the whole event, was changed while the next one was examined."""
    shelf = Shelf()
    (claimed,) = shelf.apply(open_command()).answers
    assert isinstance(claimed, Claimed)
    for number in range(40):
        told_fact(shelf, claimed.claim.effect.run_id, "noted", number=number)
    shelf.apply(finish(claimed.claim))
    *earlier, last = events_of(shelf)
    rows = behind(shelf, *earlier)
    assert Unsealed(KEYS, rows)([last]) == set()
    assert rows.asked > 1, "it looks back page by page"
    (run,) = rows.of_runs.values()
    hidden = {"gone": [], "changed": [replace(run[1], body=run[2].body)], "beyond": [replace(run[1], seq=99)]}
    run[1:2] = hidden[how]
    assert Unsealed(KEYS, rows)([last]) == {last.run_id}


def told_fact(shelf: Shelf, run_id: str, event_type: str, **facts: Any) -> tuple[Batch, Waiting]:
    said = facts_json(facts)
    batch = shelf.apply(Record(tenant=DEFAULT_TENANT, run_id=run_id, stamp=stamp(), event_type=event_type, facts=said))
    return batch, waiting(batch.events[0])


def stopped(shelf: Shelf, reason: str = "a drill") -> Waiting:
    before = [read_stop(sheet) for ref, sheet in shelf.sheets.items() if ref == STOP_REF]
    stop = stopped_for(before[0] if before else None, Cause("person", SYSTEM.id, NOON, reason))
    return waiting(shelf.apply(telling(stop, DEFAULT_TENANT, stamp())).events[0])


def test_a_right_without_the_rights_key_is_named_and_one_with_it_is_remembered() -> None:
    shelf = Shelf()
    right = stopped(shelf)
    fact = told_fact(shelf, "r", "noted")[1]
    examine = Unsealed(KEYS, behind(shelf))
    assert examine([right, fact]) == set()
    assert [(one.ref, one.version) for one in examine.told] == [(STOP_REF, 1), (HELD, 1)]
    assert examine.counts == {SheetRef(READ, STOPS_RUN): 1}
    assert examine([right._replace(mac=(right.mac or b"")[:MAC_BYTES])]) == {right.run_id}
    examine.losses = 1
    assert examine([right, fact]) == {right.run_id}, "it was written before the loss"
    assert rights_told(right).keys() == {"stop"}
    assert rights_told(fact) == {}


def test_98_what_is_read_back_of_an_own_run_is_believed_whole_or_not_at_all() -> None:
    shelf = Shelf()
    for _ in range(3):
        stopped(shelf)
    told = behind(shelf).of_runs[STOPS_RUN]
    assert [event.seq for event in believed_run(KEYS, STOPS_RUN, told)] == [0, 1, 2]
    assert list(believed_run(KEYS, STOPS_RUN, told[1:], 1)) == told[1:], "it was read that far before"
    assert list(believed_run(None, STOPS_RUN, [replace(event, mac=None) for event in told]))
    given_up = Shelf()  # its events have valid macs too
    stopped(given_up, "of a history that was given up")
    of_effects = replace(told[1], mac=(told[1].mac or b"")[:MAC_BYTES])
    far = replace(told[2], seq=10**6)
    for wrong in (
        [told[0], told[2]],
        [told[1], told[2]],
        [*told, far],
        [*told, told[0]],
        [told[0], of_effects],
        [told[0], replace(told[1], body=told[1].body + b" ")],
        [*behind(given_up).of_runs[STOPS_RUN], told[1]],
    ):
        with pytest.raises(RecordForged):
            list(believed_run(KEYS, STOPS_RUN, wrong))


def test_what_is_taken_from_budgets_is_remembered() -> None:
    shelf = Shelf()
    shelf.apply(open_command(verdict=charging(charge())))
    examine = Unsealed(KEYS, behind(shelf))
    assert examine(events_of(shelf)) == set()
    assert [one.ref for one in examine.told] == [budget_ref("spend")]


@pytest.mark.parametrize("how", ["gone", "changed", "no mac", "another salt"])
def test_98_a_value_that_tells_of_a_right_is_there_as_it_was_written(how: str) -> None:
    shelf = Shelf()
    right = stopped(shelf)
    rows = behind(shelf)
    (value,) = (one for one in rows.values if one.field == "stop")
    changes: dict[str, list[Payload]] = {
        "gone": [],
        "changed": [value._replace(value=value.value + b" ")],
        "no mac": [value._replace(mac=None)],
        "another salt": [value._replace(salt=bytes(32))],
    }
    rows.values = changes[how]
    examine = Unsealed(KEYS, rows)
    assert examine([right]) == {right.run_id}
    assert examine.told == []


@pytest.mark.parametrize(
    ("facts", "is_told"),
    [
        ({"basis": "request", "erased": [{"fields": ["stop"], "seq": 0}]}, True),
        ({"basis": "request", "erased": [{"fields": ["reason"], "seq": 0}]}, False),
        ({"basis": "request", "erased": [{"fields": "stop", "seq": 0}, 7]}, False),
        ({"erased": "stop"}, False),
        ({}, False),
    ],
)
def test_98_a_value_that_an_event_says_was_erased_may_be_gone(facts: dict[str, Any], is_told: bool) -> None:
    shelf = Shelf()
    right = stopped(shelf)
    told_fact(shelf, STOPS_RUN, "payload_erased", **facts)
    told_fact(shelf, STOPS_RUN, "noted")
    rows = behind(shelf)
    rows.values = []
    assert (Unsealed(KEYS, rows)([right]) == set()) is is_told
    assert bool(erased_by(facts) & {(0, "stop")}) is is_told
    rows.of_runs[STOPS_RUN] = [replace(event, mac=None) for event in rows.of_runs[STOPS_RUN]]
    assert Unsealed(KEYS, rows)([right]) == {STOPS_RUN}, "no key holder said so"


def test_98_several_values_of_a_run_may_be_erased() -> None:
    shelf = Shelf()
    rights = [stopped(shelf), stopped(shelf)]
    erased = [{"fields": ["stop"], "seq": seq} for seq in (0, 1)]
    told_fact(shelf, STOPS_RUN, "payload_erased", basis="request", erased=erased)
    rows = behind(shelf)
    rows.values = []
    assert Unsealed(KEYS, rows)(rights) == set()
    assert rows.asked == 2, "the run is read once, to its end"


def test_98_what_no_verifier_can_follow_is_not_told_of_keys() -> None:
    shelf = Shelf()
    beat = told_fact(shelf, JOURNAL_RUN, "journal_heartbeat")[1]
    writer = {"key": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", "writer": "a" * 32}
    good = told_fact(shelf, JOURNAL_RUN, "writer_registered", **{**writer, "key": KEY})[1]
    late = told_fact(shelf, JOURNAL_RUN, "writer_registered", **{**writer, "key": OTHER_KEY})[1]
    wrong = told_fact(shelf, JOURNAL_RUN, "log_continued", size=1)[1]
    rows = behind(shelf, beat, good, late)
    assert Unsealed(KEYS, rows)([beat, good]) == set()
    assert Unsealed(KEYS, rows)([late]) == {JOURNAL_RUN}, "a writer has one key"
    assert Unsealed(KEYS, rows)([wrong]) == {JOURNAL_RUN}


KEY = "11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="
OTHER_KEY = "PUAXw+hDiVqStwqnTRt+vJyYLM8uxJaMwM1V8Sr0Zgw="


def test_98_holds_are_counted_and_believed_with_their_macs_alone() -> None:
    shelf = Shelf()
    placed = told_fact(shelf, "r", HOLD_PLACED, hold="h")[1]
    noted = told_fact(shelf, "r", "noted")[1]
    rows = behind(shelf)
    examine = Unsealed(KEYS, rows)
    assert examine([placed, noted]) == set()
    assert examine.holds == 1
    keys = macs()
    first, other = rows.of_runs["r"]
    assert believed_holds(keys, [first, other, replace(first, mac=None)]) == [first]
    keys.newest.note(HOLDS, 1)
    assert believed_holds(keys, [first]) == [first]
    with pytest.raises(RecordForged):
        believed_holds(keys, [other])


def test_what_keeps_a_resource_for_one_call_at_a_time_is_not_remembered() -> None:
    kept = replace(charge(), number=3)
    of_resource = replace(charge(budget=f"{ONE_AT_A_TIME}lock", window=timedelta(milliseconds=1)), number=1)
    told = remembered_in(Payload("r", 0, "charges", b"", charges_json((kept, of_resource))))
    assert [one.ref for one in told] == [budget_ref("spend"), SheetRef("resource", "lock")]
    assert versions_to_keep(told, []) == {budget_ref("spend"): 3}


def test_98_a_value_of_what_is_signed_takes_no_event_back() -> None:
    shelf = Shelf()
    right = stopped(shelf)
    rows = behind(shelf)
    rows.values = []
    examine = Unsealed(KEYS, rows)
    assert examine([right], is_signed=True) == set()
    assert (examine.leaves, examine.told) == ([right.hash], [])
    assert "its stop is gone" in examine.flaws[right.run_id]
    assert examine([right._replace(mac=None)], is_signed=True) == {right.run_id}


def test_98_what_is_told_of_a_run_has_the_form_that_verifiers_take() -> None:
    shelf = Shelf()
    assert Unsealed(KEYS, behind(shelf))([told_fact(shelf, "r", "run_started", fence="x")[1]]) == {"r"}


# Numbers


def told(kind: str, number: int, run_id: str = "r") -> ToldOf:
    return ToldOf(SheetRef(kind, "x"), number, run_id, 4, number)


def test_98_a_number_that_two_events_tell_shows_a_row_that_was_put_back() -> None:
    numbers = Numbers({}, [])
    assert numbers.take([told(kind, number) for kind in ("budget", "resource", "grant") for number in (1, 2)]) == {}
    for kind in ("budget", "resource", "grant"):
        assert numbers.take([told(kind, 2, "b")]).keys() == {"b"}
    assert numbers.take([told("credential", 1), told("credential", 1), told("budget", 0), told("budget", 0)]) == {}


def test_98_a_number_that_comes_late_is_taken_once_in_any_process() -> None:
    numbers = Numbers({"budget x": 2}, [])
    assert numbers.take([told("budget", 5), told("budget", 3)]) == {}
    assert numbers.changed == {
        SheetRef(TAKEN, "budget x"): 5,
        SheetRef(MISSING, "budget x 3"): 2,
        SheetRef(MISSING, "budget x 4"): 1,
    }
    again = Numbers({"budget x": 5}, ["budget x 4"])
    assert again.take([told("budget", 4)]) == {}
    assert again.take([told("budget", 4, "a"), told("budget", 3, "b"), told("budget", 5, "c")]).keys() == {*"abc"}
    assert again.changed == {SheetRef(MISSING, "budget x 4"): 2}


def test_98_numbers_take_bounded_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unsealed, "_MOST_MISSING", 2)
    monkeypatch.setattr(unsealed, "_MOST_KNOWN", 2)
    numbers = Numbers({}, [])
    assert numbers.take([told("budget", 10**15)]) == {}
    assert sorted(numbers.changed.values()) == [1, 1, 10**15]
    for number in range(1, 9):
        assert numbers.take([told("resource", number)]) == {}
    assert numbers.take([told("resource", 8, "b")]).keys() == {"b"}


# Stopping


def test_a_forgery_stops_effects_once_and_whatever_else_stands() -> None:
    named = ["event 3 of run r", "event 4 of run s"]
    stop = stop_of_forgery(None, named, NOON)
    assert stop is not None
    assert stop.is_in_force
    assert all(one in stop.reason for one in named)
    assert stop_of_forgery(stop, named, NOON) is None
    assert stop_of_forgery(stop, named[1:], NOON) is None
    for last in (
        let_go(stop, {"forgery"}, by=SYSTEM, at=NOON, reason="looked at"),
        stopped_for(None, Cause("person", "ana", NOON, stop.reason)),
        stopped_for(stop, Cause("forgery", SYSTEM.id, NOON, "another forgery")),
    ):
        again = stop_of_forgery(last, named, NOON)
        assert again is not None
        assert (again.version, again.is_in_force) == (last.version + 1, True)
    long = stop_of_forgery(None, ["x" * 3000] * 3, NOON)
    assert stop_of_forgery(long, ["x" * 3000] * 3, NOON) is None
    assert stop_of_forgery(stop_of_set_back(None, 7, NOON), named, NOON) is None, "its loss comes first"


def test_98_a_commitment_binds_a_value_to_its_event() -> None:
    shelf = Shelf()
    right = stopped(shelf)
    (value,) = (one for one in shelf.payloads if one.field == "stop")
    assert rights_told(right)["stop"] == commitment(value.salt, "stop", value.value)
