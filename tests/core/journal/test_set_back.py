"""A ledger that was set back is stopped by whoever signs it, and goes on when the loss was declared."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from indelible.core.effects.effect import SYSTEM, Actor
from indelible.core.effects.stopping import telling
from indelible.core.effects.stops import STOPS_RUN, Cause, Stop, read_stop, stopped_for
from indelible.core.journal.set_back import (
    check_is_not_set_back,
    go_after_loss,
    is_about_loss,
    is_set_back,
    stop_of_forgery,
    stop_of_set_back,
    stop_on_going,
    way_out,
)
from indelible.core.moving import check_goes_on_here, is_moved_away, moved_to
from indelible.errors import IllegalMove
from tests.core.making import stamp

NOW = datetime(2026, 11, 16, tzinfo=UTC)
ANA = Actor("ana", "person")


MOVED = Cause("moved", ANA.id, NOW, moved_to("postgresql://elsewhere/db"))


def stopped(by: Actor = ANA, reason: str = "wrong prices", *, is_in_force: bool = True) -> Stop:
    return Stop(is_in_force=is_in_force, by=by.id, at=NOW, reason=reason)


@pytest.mark.parametrize("last", [None, stopped(is_in_force=False)])
def test_what_was_set_back_is_stopped_and_says_how_to_go_on(last: Stop | None) -> None:
    stop = stop_of_set_back(last, 11, NOW)
    assert stop is not None
    assert stop.is_in_force
    assert (stop.by, stop.version) == (SYSTEM.id, 1 if last is None else 2)
    assert "11 entries were signed" in stop.reason
    assert stop.reason.endswith("indelible journal continue")
    assert is_set_back(stop)


def test_a_persons_stop_gives_way_and_holds_again_once_the_loss_is_declared() -> None:
    set_back = stop_of_set_back(stopped(), 11, NOW)
    assert is_set_back(set_back)
    again = go_after_loss(set_back, NOW, was_held=True)
    assert again is not None
    assert (again.by, again.reason, again.is_in_force, again.version) == (ANA.id, "wrong prices", True, 3)


def test_what_says_so_already_or_was_moved_is_not_stopped_again() -> None:
    assert stop_of_set_back(stop_of_set_back(None, 11, NOW), 12, NOW) is None
    assert stop_of_set_back(stopped_for(None, MOVED), 11, NOW) is None


def test_59_a_stop_says_by_numbers_of_which_loss_it_is() -> None:
    stop = stop_of_set_back(None, 11, NOW)
    assert is_about_loss(stop, 11)
    assert not is_about_loss(stop, 1)
    assert not is_about_loss(stop, 110)
    assert not is_about_loss(stopped(), 11)
    assert not is_about_loss(None, 11)


def test_what_was_not_set_back_is_not_let_go() -> None:
    assert go_after_loss(stopped(), NOW, was_held=True) is None
    assert go_after_loss(None, NOW, was_held=True) is None


def test_60_a_persons_stop_is_ended_last_and_by_itself() -> None:
    def gone(last: Stop | None) -> Stop | None:
        return stop_on_going(last, by=Actor("ben"), at=NOW, reason="over")

    for other in (stop_of_set_back(stopped(), 11, NOW), stop_of_forgery(stopped(), ["event 3"], NOW)):
        left = gone(other)
        assert left is not None
        assert (left.is_in_force, left.by, left.reason, left.below) == (True, ANA.id, "wrong prices", ())
    for last in (stopped(), stop_of_set_back(None, 11, NOW)):
        over = gone(last)
        assert over is not None
        assert (over.is_in_force, over.by) == (False, "ben")
    assert gone(stopped(is_in_force=False)) is None
    assert gone(None) is None


def test_60_what_was_moved_in_the_lost_part_stays_moved() -> None:
    """The old place was restored from before the move: `journal continue` and `go` let the tenant live twice."""
    stop = stop_of_set_back(None, 11, NOW, was_moved=True)
    assert is_moved_away(stop)
    assert is_set_back(stop)
    with pytest.raises(IllegalMove):
        check_goes_on_here(stop, "acme")
    assert go_after_loss(stop, NOW, was_held=True) != stop


def test_nobody_lets_it_go_before_the_loss_is_declared() -> None:
    stop = stop_of_set_back(None, 11, NOW)
    with pytest.raises(IllegalMove, match=r"journal continue.*go --force"):
        check_is_not_set_back(stop)
    gone_on = go_after_loss(stop, NOW, was_held=False)
    assert gone_on is not None
    assert not gone_on.is_in_force
    check_is_not_set_back(gone_on)
    check_is_not_set_back(None)


@pytest.mark.parametrize("before", [None, stopped(is_in_force=False), stopped()])
def test_98_what_was_stopped_when_it_was_lost_stays_so_until_a_person_lets_it_go(before: Stop | None) -> None:
    held = go_after_loss(stop_of_set_back(before, 11, NOW), NOW, was_held=True)
    assert held is not None
    assert held.is_in_force
    assert (held.reason == stopped().reason) == (before == stopped()), "a person's stop is told as it was"
    assert way_out(held) == "go"
    check_is_not_set_back(held)


def test_each_stop_names_the_command_that_ends_it() -> None:
    set_back = stop_of_set_back(None, 11, NOW)
    assert set_back is not None
    assert way_out(set_back) == way_out(set_back, is_lost=True) == "journal continue"
    assert way_out(set_back, is_lost=False) == "go --force"
    assert way_out(stopped()) == way_out(stopped(), is_lost=False) == "go"
    assert way_out(stopped(), is_lost=True) == "journal continue"
    assert way_out(stopped_for(None, MOVED)) is None


def test_a_person_who_says_the_same_words_is_a_person() -> None:
    reason = getattr(stop_of_set_back(None, 11, NOW), "reason", "")
    assert not is_set_back(stopped(reason=reason))
    check_is_not_set_back(stopped(reason=reason))
    assert not is_set_back(stopped(SYSTEM, "a heart attack"))
    assert not is_set_back(None)


@pytest.mark.parametrize(("is_in_force", "event_type"), [(True, "effects_stopped"), (False, "effects_let_go")])
def test_the_record_tells_what_stands_and_why(is_in_force: bool, event_type: str) -> None:
    stop = stopped(is_in_force=is_in_force)
    told = telling(stop, "acme", stamp(NOW, ANA))
    assert (told.tenant, told.run_id, told.event_type) == ("acme", STOPS_RUN, event_type)
    assert told.committed == {"reason": b'"wrong prices"'}
    assert told.sheet is not None
    assert read_stop(told.sheet) == stop
