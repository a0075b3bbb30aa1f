"""Promises of core.approvals.deliveries: a message is sent by one at a time, and tried again ever more seldom."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indelible.core.approvals.approval import DEFAULT_EXPIRY, ended
from indelible.core.approvals.deliveries import (
    DELIVERY_STATUSES,
    LONGEST_PAUSE,
    MOST_ATTEMPTS,
    SENDING_LEASE,
    Delivery,
    channels_told,
    deliveries_of,
    delivery_id,
    delivery_ref,
    delivery_sheet,
    has_told,
    kind_of,
    read_delivery,
    told_by_more,
    told_ref,
    why_no_news,
)
from indelible.core.commands import Keep, Kept, Outrun
from tests.core.making import HOUR, NOON, SECOND, Shelf, asked, effect, stamp

_, PENDING = asked(effect("requires_approval"))
DUE = Delivery(id="d1", channel="mail", about="requested", approval_id="apr_1", due_at=NOON)
TICK = timedelta(microseconds=1)


def tried(times: int) -> Delivery:
    """Gives a message in the hands of its sender for the so-many-th time."""
    return replace(DUE, attempts=times - 1).taken(NOON, "me")


def test_there_is_one_message_to_each_channel() -> None:
    sheets = deliveries_of(PENDING, "requested", ("mail", "hook", "mail"), NOON)
    found = [read_delivery(sheet) for sheet in sheets]
    assert [(one.channel, one.about, one.approval_id, one.status) for one in found] == [
        ("mail", "requested", "apr_1", "due"),
        ("hook", "requested", "apr_1", "due"),
    ]
    assert all(one.due_at == NOON and one.attempts == 0 and one.version == 1 for one in found)
    assert [sheet.topic for sheet in sheets] == ["mail", "hook"], "each sender finds what is for its channel"
    assert deliveries_of(PENDING, "requested", (), NOON) == []


def test_a_message_is_named_by_what_it_says_of_which_state_and_where_it_goes() -> None:
    later = replace(PENDING, version=2)
    names = {
        sheet.id
        for approval in (PENDING, later)
        for about in ("requested", "approved")
        for sheet in deliveries_of(approval, about, ("mail", "hook"), NOON)
    }
    assert len(names) == 8
    assert deliveries_of(PENDING, "requested", ("mail",), NOON)[0].id == delivery_id("apr_1", "requested", "mail")
    assert delivery_ref("d1") == ("delivery", "d1")


def test_a_message_is_in_one_hand_for_as_long_as_the_lease() -> None:
    assert DUE.is_free(NOON)
    assert not DUE.is_free(NOON - TICK)
    mine = DUE.taken(NOON, "me")
    assert (mine.status, mine.attempts, mine.sender, mine.version) == ("sending", 1, "me", 2)
    assert mine.due_at == NOON + SENDING_LEASE
    assert not mine.is_free(NOON + SENDING_LEASE - TICK)
    assert mine.is_free(NOON + SENDING_LEASE), "whoever took it and never reported lost it"
    again = mine.taken(NOON + SENDING_LEASE, "you")
    assert (again.attempts, again.sender) == (2, "you")


def test_of_two_who_take_a_message_at_once_one_has_it() -> None:
    shelf = Shelf()
    shelf.do(Keep(tenant="default", stamp=stamp(), sheet=delivery_sheet(DUE)))
    takers = [Keep(tenant="default", stamp=stamp(), sheet=delivery_sheet(DUE.taken(NOON, who))) for who in "ab"]
    batch = shelf.apply(*takers)
    assert [type(answer) for answer in batch.answers] == [Kept, Outrun]
    assert shelf.do(takers[0]) == Kept(shelf.sheets[delivery_ref("d1")]), "its answer got lost"
    assert isinstance(shelf.do(takers[1]), Outrun)
    late = shelf.sheets[delivery_ref("d1")]
    shelf.do(Keep(tenant="default", stamp=stamp(), sheet=delivery_sheet(read_delivery(late).taken(NOON + HOUR, "c"))))
    report = Keep(tenant="default", stamp=stamp(), sheet=delivery_sheet(read_delivery(late).sent({})))
    assert isinstance(shelf.do(report), Outrun), "who lost it cannot report any more"


def test_what_went_is_not_sent_again_by_itself() -> None:
    sent = replace(tried(2), error="was down").sent({"ts": "1.2"})
    assert (sent.status, sent.due_at, sent.error, sent.receipt, sent.sender) == (
        "sent",
        None,
        None,
        {"ts": "1.2"},
        None,
    )
    assert not sent.is_free(NOON + timedelta(days=999))


def test_pauses_grow_until_the_longest() -> None:
    pauses = [
        (tried(times).failed("down", NOON).due_at or NOON) - NOON for times in range(1, 16) if times < MOST_ATTEMPTS
    ]
    assert pauses == [min(LONGEST_PAUSE, SECOND * 2**number) for number in range(len(pauses))]
    assert LONGEST_PAUSE in pauses
    failed = tried(1).failed("down", NOON)
    assert (failed.status, failed.error, failed.sender, failed.attempts) == ("due", "down", None, 1)


def test_a_message_is_tried_for_as_long_as_a_question_stands() -> None:
    """Else an outage of the channel would outlive the message, and nobody would ever hear of the question."""
    waited = sum(
        ((tried(times).failed("down", NOON).due_at or NOON) - NOON for times in range(1, MOST_ATTEMPTS)), timedelta(0)
    )
    assert waited >= DEFAULT_EXPIRY


def test_the_last_failure_is_the_last() -> None:
    assert tried(MOST_ATTEMPTS - 1).failed("down", NOON).status == "due"
    assert not tried(MOST_ATTEMPTS - 1).is_worn_out
    last = tried(MOST_ATTEMPTS)
    assert last.is_worn_out
    dead = last.failed("down", NOON)
    assert (dead.status, dead.due_at, dead.error) == ("dead", None, "down")
    assert not dead.is_free(NOON + timedelta(days=999))


def test_what_no_retry_mends_is_dead_at_once() -> None:
    assert tried(1).failed("no such address", NOON, is_final=True).status == "dead"


def test_a_receiver_may_ask_for_a_longer_pause_but_not_for_ever() -> None:
    def due(**words: Any) -> Any:
        return tried(3).failed("busy", NOON, **words).due_at

    assert due(after=timedelta(minutes=5)) == NOON + timedelta(minutes=5)
    assert due(after=SECOND) == due() == NOON + 4 * SECOND, "nor for a shorter one"
    assert due(after=timedelta(days=9)) == NOON + LONGEST_PAUSE
    assert due(spread=0.5) == NOON + 6 * SECOND


def test_somebody_may_have_it_sent_once_more() -> None:
    dead = tried(MOST_ATTEMPTS).failed("down", NOON)
    again = dead.again(NOON + HOUR)
    assert (again.status, again.due_at, again.attempts, again.error) == ("due", NOON + HOUR, 0, None)
    assert again.is_free(NOON + HOUR)


@given(
    st.sampled_from(DELIVERY_STATUSES),
    st.none() | st.just(NOON),
    st.integers(0, 50),
    st.none() | st.text(st.characters(exclude_categories=["Cs"])),
    st.dictionaries(st.sampled_from(["ts", "channel"]), st.text(max_size=5) | st.integers(0, 9)),
    st.none() | st.just("me"),
)
def test_a_message_comes_back_from_its_sheet_as_it_went(
    status: Any, due_at: Any, attempts: int, error: Any, receipt: Any, sender: Any
) -> None:
    one = replace(
        DUE, version=3, status=status, due_at=due_at, attempts=attempts, error=error, receipt=receipt, sender=sender
    )
    sheet = delivery_sheet(one)
    assert read_delivery(sheet) == one
    assert (sheet.ref, sheet.status, sheet.due_at, sheet.version) == (delivery_ref("d1"), status, due_at, 3)
    assert not sheet.is_recorded


@pytest.mark.parametrize(
    ("about", "approval", "why"),
    [
        ("requested", PENDING, None),
        ("escalated-2", PENDING, None),
        ("edited-3", PENDING, None),
        ("reopened-4", PENDING, None),
        ("requested", ended(PENDING, "approved"), "it was approved before this went"),
        ("escalated-1", ended(PENDING, "denied"), "it was denied before this went"),
        ("requested", replace(PENDING, expires_at=NOON), "its time ran out before this went"),
        ("approved", PENDING, "the approval was taken back before this went"),
        ("approved", ended(PENDING, "approved"), None),
        ("approved", ended(PENDING, "consumed"), None),
        ("denied", ended(PENDING, "denied"), None),
        ("expired", ended(PENDING, "expired"), None),
    ],
)
def test_a_message_that_is_no_longer_true_need_not_go(about: str, approval: Any, why: str | None) -> None:
    assert why_no_news(about, approval, NOON) == why
    assert kind_of(about) == about.split("-")[0]


def test_only_what_went_out_and_was_news_told_a_person() -> None:
    sent = DUE.taken(NOON, "me").sent({"ts": "1"})
    assert has_told([DUE, sent])
    assert not has_told([DUE, DUE.taken(NOON, "me"), replace(sent, receipt={"skipped": "it was denied"})])


def test_a_note_of_channels_that_was_emptied_by_hand_counts_for_nothing() -> None:
    note, *_ = told_by_more(PENDING, ["mail"], NOON, {told_ref(PENDING.id): None})
    assert channels_told(PENDING, {told_ref(PENDING.id): note}) == ("mail",)
    assert channels_told(PENDING, {told_ref(PENDING.id): replace(note, body=None)}) == ()
    over = replace(PENDING, expires_at=NOON)
    assert told_by_more(over, ["mail"], NOON, {told_ref(PENDING.id): None}) == []
