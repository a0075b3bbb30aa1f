"""A lease among processes that could all do the same work: one has it, and the next one gets it when its time is up."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from indelible.core.leases import given_back, lease_filter, lease_sheet, read_lease, wanted_lease

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
LENGTH = timedelta(seconds=15)
FIRST = wanted_lease(None, "worker", "a", NOW, LENGTH)


def test_whoever_comes_first_has_it_until_its_time_is_up() -> None:
    assert FIRST is not None
    assert (FIRST.version, FIRST.holder, FIRST.until) == (1, "a", NOW + LENGTH)
    assert wanted_lease(FIRST, "worker", "b", NOW + LENGTH - timedelta(microseconds=1), LENGTH) is None
    taken = wanted_lease(FIRST, "worker", "b", NOW + LENGTH, LENGTH)
    assert taken is not None
    assert (taken.version, taken.holder) == (2, "b")


def test_its_holder_goes_on_with_it_and_tells_how_far_behind_it_is() -> None:
    later = NOW + timedelta(seconds=5)
    kept = wanted_lease(FIRST, "worker", "a", later, LENGTH, lag_s=7, problems=1)
    assert kept is not None
    assert (kept.version, kept.until, kept.lag_s, kept.problems) == (2, later + LENGTH, 7, 1)


def test_what_is_given_back_is_anybodys_at_once() -> None:
    assert FIRST is not None
    free = given_back(FIRST, NOW)
    assert not free.is_held(NOW)
    taken = wanted_lease(free, "worker", "b", NOW, LENGTH)
    assert taken is not None
    assert taken.version == 3


def test_a_lease_is_read_as_it_was_written() -> None:
    assert FIRST is not None
    for lease in (FIRST, given_back(FIRST, NOW)):
        sheet = lease_sheet(lease)
        assert read_lease(sheet) == lease
        assert not sheet.is_recorded
        assert (lease_filter("worker").kind, lease_filter("worker").id) == (sheet.kind, sheet.id)
