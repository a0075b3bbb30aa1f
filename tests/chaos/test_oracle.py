"""Each invariant of the oracle fires on a planted violation and on nothing else."""

from __future__ import annotations

import json
from dataclasses import replace
from hashlib import sha256

import pytest

from tests.chaos.oracle import Kind, StoredEffect, StoredEvent, StoreDump, examine
from tests.chaos.world import Ack, Seen, Touch

ZERO = "0" * 64
KEPT = b'{"charge":1}'
TOUCH = Touch(call="pay", key="k", attempt=1)
ACK = Ack(call="pay", result=KEPT)
PAID = StoredEffect(call="pay", key="k", status="succeeded", attempt=1, result=KEPT)


def chain(length: int) -> tuple[list[StoredEvent], str]:
    events, last = [], ZERO
    for seq in range(length):
        body = json.dumps({"prev": last, "seq": seq}).encode()
        events.append(StoredEvent(seq=seq, body=body))
        last = sha256(b"\0" + body).hexdigest()
    return events, last


EVENTS, LAST = chain(3)
GOOD = StoreDump(effects=[PAID], events={"run": EVENTS}, heads={"run": (3, LAST)})
SEEN = Seen(touches=(TOUCH,), acks=(ACK,))


def kinds(seen: Seen, store: StoreDump, *, leases_may_live: bool = False) -> list[Kind]:
    return [violation.kind for violation in examine(seen, store, leases_may_live=leases_may_live)]


def with_effect(**changes: object) -> StoreDump:
    return replace(GOOD, effects=[replace(PAID, **changes)])  # type: ignore[arg-type]


def test_a_good_history_passes() -> None:
    assert kinds(SEEN, GOOD) == []


def test_an_effect_that_happened_twice_is_seen() -> None:
    assert kinds(Seen(touches=(TOUCH, TOUCH), acks=(ACK,)), GOOD) == ["duplicate effect"]


def test_a_repeatable_effect_may_happen_twice() -> None:
    twice = Seen(touches=(TOUCH, replace(TOUCH, attempt=2)), acks=(ACK,))
    assert kinds(twice, with_effect(attempt=2, is_repeatable=True)) == []


def test_two_keys_for_one_call_are_seen() -> None:
    twice = Seen(touches=(TOUCH, replace(TOUCH, key="other")), acks=(ACK,))
    store = replace(GOOD, effects=[PAID, replace(PAID, key="other")])
    assert kinds(twice, store) == ["two records of one call", "duplicate effect"]


def test_an_effect_without_a_record_is_seen() -> None:
    assert kinds(Seen(touches=(TOUCH,)), replace(GOOD, effects=[])) == ["effect without claim"]


def test_an_effect_whose_attempt_was_never_claimed_is_seen() -> None:
    assert "effect without claim" in kinds(SEEN, with_effect(attempt=0))


@pytest.mark.parametrize("status", ["processing", "in_doubt", "failed"])
def test_an_ack_that_the_store_does_not_have_is_seen(status: str) -> None:
    assert kinds(SEEN, with_effect(status=status, result=None)) == ["lost ack"]


def test_an_ack_without_any_record_is_seen() -> None:
    assert kinds(Seen(acks=(ACK,)), replace(GOOD, effects=[])) == ["lost ack"]


def test_an_ack_with_other_bytes_is_seen() -> None:
    assert kinds(SEEN, with_effect(result=b'{"charge":2}')) == ["changed result"]


def test_a_recorded_success_that_never_happened_is_seen() -> None:
    assert kinds(Seen(), GOOD) == ["success without effect"]


@pytest.mark.parametrize("status", ["ready", "canceled", "denied", "requires_approval"])
def test_an_effect_that_happened_and_is_called_undone_is_seen(status: str) -> None:
    assert kinds(Seen(touches=(TOUCH,)), with_effect(status=status, result=None)) == ["forgotten effect"]


@pytest.mark.parametrize("status", ["succeeded", "failed", "in_doubt", "processing"])
def test_an_effect_that_happened_without_ack_may_be_settled_or_in_doubt(status: str) -> None:
    assert kinds(Seen(touches=(TOUCH,)), with_effect(status=status)) == []


def test_a_dead_workers_lease_that_never_ends_is_seen() -> None:
    stuck = with_effect(status="processing", result=None, has_live_lease=True)
    assert kinds(Seen(touches=(TOUCH,)), stuck) == ["stuck effect"]
    assert kinds(Seen(touches=(TOUCH,)), stuck, leases_may_live=True) == []


def test_a_missing_event_is_seen() -> None:
    store = replace(GOOD, events={"run": [EVENTS[0], EVENTS[2]]}, heads={"run": (2, LAST)})
    assert kinds(SEEN, store) == ["broken chain", "broken chain"]


def test_a_chain_that_does_not_start_at_zero_is_seen() -> None:
    store = replace(GOOD, events={"run": EVENTS[1:]}, heads={"run": (2, LAST)})
    assert set(kinds(SEEN, store)) == {"broken chain"}


def test_an_edited_event_is_seen() -> None:
    edited = replace(EVENTS[1], body=EVENTS[1].body + b" ")
    assert kinds(SEEN, replace(GOOD, events={"run": [EVENTS[0], edited, EVENTS[2]]})) == ["broken chain"]


@pytest.mark.parametrize("head", [(2, LAST), (3, ZERO)])
def test_a_head_that_is_not_the_last_event_is_seen(head: tuple[int, str]) -> None:
    assert kinds(SEEN, replace(GOOD, heads={"run": head})) == ["head differs"]


def test_a_run_without_head_and_a_head_without_events_are_seen() -> None:
    assert kinds(SEEN, replace(GOOD, heads={})) == ["head differs"]
    assert kinds(SEEN, replace(GOOD, events={})) == ["head differs"]
