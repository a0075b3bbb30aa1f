"""A request that comes again under its key: what it gets, and when."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from indelible.core.remote.replies import (
    KEPT_FOR,
    PATIENCE,
    Reply,
    is_call,
    is_final,
    read_reply,
    reply_id,
    reply_sheet,
)

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


CALL, OTHER = "/v1/tools/bank.refund/calls", "/v1/delegations"


@pytest.mark.parametrize(
    ("path", "status", "problem", "expected"),
    [
        *((CALL, 200, None, True), (CALL, 202, None, False), ("/v1/effects", 201, None, False)),
        *((CALL, 503, "tool-unavailable", False), (CALL, 409, "stopped", False), ("/v1/effects", 200, None, True)),
        *((OTHER, 201, None, True), (OTHER, 409, "not-run", True), (OTHER, 503, "outcome-unknown", True)),
        *((OTHER, 503, "store-unavailable", True), (OTHER, 503, "overloaded", False)),
        (OTHER, 429, "asked-too-often", False),
    ],
)
def test_61_an_answer_that_says_not_now_is_no_final_one(
    path: str, status: int, problem: str | None, expected: bool
) -> None:
    assert is_final(path, status, problem) is expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        *((CALL, True), ("/v1/tools/a/b/calls", True), ("/v1/effects", True)),
        *((OTHER, False), ("/v1/effects/eff_1/settle", False), ("/v1/tools//calls/x", False)),
    ],
)
def test_61_the_ledger_knows_calls_again_and_nothing_else(path: str, expected: bool) -> None:
    assert is_call(path) is expected


def test_a_request_that_is_carried_out_anew_is_under_way_from_then_on() -> None:
    again = ANSWERED.begun_again(NOW + PATIENCE)
    assert (again.version, again.sealed) == (ANSWERED.version + 1, None)
    assert again.standing("r", NOW + PATIENCE) == "under way"


def test_no_two_people_and_keys_share_a_place() -> None:
    assert len({reply_id("a", "bc"), reply_id("ab", "c"), reply_id("", "abc"), reply_id("abc", "")}) == 4


@pytest.mark.parametrize("reply", [BEGUN, ANSWERED])
def test_a_reply_is_read_as_it_was_written(reply: Reply) -> None:
    sheet = reply_sheet(reply)
    assert read_reply(sheet) == reply
    assert not sheet.is_recorded
    assert sheet.due_at == NOW + KEPT_FOR
