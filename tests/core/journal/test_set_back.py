"""A ledger that was set back is stopped by whoever signs it, and goes on when the loss was declared."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from indelible.core.effects.effect import SYSTEM, Actor
from indelible.core.effects.stopping import telling
from indelible.core.effects.stops import STOPS_RUN, Stop, read_stop, stop_after
from indelible.core.journal.set_back import (
    check_is_not_set_back,
    go_after_loss,
    is_about_loss,
    is_set_back,
    stop_of_lost_part,
    stop_of_set_back,
    stop_on_going,
    took_a_place,
    way_out,
)
from indelible.core.moving import moved_to
from indelible.errors import IllegalMove
from tests.core.making import stamp

NOW = datetime(2026, 11, 16, tzinfo=UTC)
ANA = Actor("ana", "person")


def stopped(by: Actor = ANA, reason: str = "wrong prices", *, is_in_force: bool = True) -> Stop:
    return stop_after(None, is_in_force=is_in_force, by=by, at=NOW, reason=reason)


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
    again = go_after_loss(set_back, stopped(), NOW)
    assert again is not None
    assert (again.by, again.reason, again.is_in_force, again.version) == (ANA.id, "wrong prices", True, 3)


def test_what_says_so_already_or_was_moved_is_not_stopped_again() -> None:
    assert stop_of_set_back(stop_of_set_back(None, 11, NOW), 12, NOW) is None
    assert stop_of_set_back(stopped(reason=moved_to("postgresql://elsewhere/db")), 11, NOW) is None


def test_59_a_stop_says_by_numbers_of_which_loss_it_is() -> None:
    stop = stop_of_set_back(None, 11, NOW)
    assert is_about_loss(stop, 11)
    assert not is_about_loss(stop, 1)
    assert not is_about_loss(stop, 110)
    assert not is_about_loss(stopped(), 11)
    assert not is_about_loss(None, 11)


def test_what_was_not_set_back_is_not_let_go() -> None:
    assert go_after_loss(stopped(), None, NOW) is None
    assert go_after_loss(None, None, NOW) is None


@pytest.mark.parametrize(
    "before",
    [
        None,
        stopped(is_in_force=False),
        stopped(reason=moved_to("postgresql://elsewhere/db")),
        stop_of_set_back(None, 9, NOW),
    ],
)
def test_what_is_over_does_not_hold_again(before: Stop | None) -> None:
    gone_on = go_after_loss(stop_of_set_back(None, 11, NOW), before, NOW)
    assert gone_on is not None
    assert not gone_on.is_in_force


def test_a_stop_by_the_ledger_or_for_a_move_may_have_taken_the_place_of_a_persons() -> None:
    moved = stopped(reason=moved_to("postgresql://elsewhere/db"))
    assert [took_a_place(stop) for stop in (stop_of_set_back(None, 11, NOW), moved)] == [True, True]
    over = stopped(SYSTEM, is_in_force=False)
    assert [took_a_place(stop) for stop in (stopped(), over, None)] == [False, False, False]


def test_60_a_persons_stop_stands_again_when_the_one_in_its_place_is_let_go() -> None:
    def gone(last: Stop | None, earlier: Stop | None) -> Stop | None:
        return stop_on_going(last, earlier, by=Actor("ben"), at=NOW, reason="over")

    left = gone(stop_of_set_back(stopped(), 11, NOW), stopped())
    assert left is not None
    assert (left.is_in_force, left.by, left.reason) == (True, ANA.id, "wrong prices")
    for last, earlier in ((stopped(), stopped()), (stop_of_set_back(None, 11, NOW), None)):
        over = gone(last, earlier)
        assert over is not None
        assert (over.is_in_force, over.by) == (False, "ben")
    assert gone(stopped(is_in_force=False), stopped()) is None
    assert gone(None, None) is None


def test_nobody_lets_it_go_before_the_loss_is_declared() -> None:
    stop = stop_of_set_back(None, 11, NOW)
    with pytest.raises(IllegalMove, match=r"journal continue.*go --force"):
        check_is_not_set_back(stop)
    gone_on = go_after_loss(stop, None, NOW)
    assert gone_on is not None
    assert not gone_on.is_in_force
    check_is_not_set_back(gone_on)
    check_is_not_set_back(None)


@pytest.mark.parametrize(
    "before",
    [None, stopped(is_in_force=False), stopped(), stop_of_set_back(None, 7, NOW), stopped(reason=moved_to("x"))],
)
def test_98_what_was_stopped_when_it_was_lost_stays_so_until_a_person_lets_it_go(before: Stop | None) -> None:
    held = go_after_loss(stop_of_set_back(None, 11, NOW), stop_of_lost_part(before, NOW), NOW)
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
    assert way_out(stopped(reason=moved_to("postgresql://elsewhere/db"))) is None


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
