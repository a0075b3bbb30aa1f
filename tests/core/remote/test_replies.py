"""A request that comes again under its key: what it gets, and when."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from indelible.core.remote.replies import KEPT_FOR, PATIENCE, Reply, read_reply, reply_id, reply_sheet

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
BEGUN = Reply(id="rep_1", request="r", begun_at=NOW)
ANSWERED = BEGUN.answered("closed")


@pytest.mark.parametrize(
    ("reply", "request_", "later", "expected"),
    [
        (BEGUN, "r", timedelta(0), "under way"),
        (BEGUN, "r", PATIENCE - timedelta(microseconds=1), "under way"),
        (BEGUN, "r", PATIENCE, "lost"),
        (BEGUN, "other", PATIENCE, "another request"),
        (ANSWERED, "r", KEPT_FOR, "answered"),
        (ANSWERED, "other", timedelta(0), "another request"),
    ],
)
def test_what_a_repeated_request_gets(reply: Reply, request_: str, later: timedelta, expected: str) -> None:
    assert reply.standing(request_, NOW + later) == expected


def test_no_two_people_and_keys_share_a_place() -> None:
    assert len({reply_id("a", "bc"), reply_id("ab", "c"), reply_id("", "abc"), reply_id("abc", "")}) == 4


@pytest.mark.parametrize("reply", [BEGUN, ANSWERED])
def test_a_reply_is_read_as_it_was_written(reply: Reply) -> None:
    sheet = reply_sheet(reply)
    assert read_reply(sheet) == reply
    assert not sheet.is_recorded
    assert sheet.due_at == NOW + KEPT_FOR
