"""What a handler did, on the way of one call: recorded, given back, tried again, or left in doubt."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest

from indelible.core.commands import Claimed, Finish, InDoubt, Late, NoSuchEffect, Open, Relinquish
from indelible.core.effects import outcomes, walk
from indelible.core.effects.calls import Idempotent, Options, Retry, ToolCall, handling_of
from indelible.core.effects.effect import Claim
from indelible.core.effects.requests import AwaitSeal, CheckSealing, Invoke, Judged, Pause, Raised, Returned, Submit
from indelible.core.policy.verdicts import ALLOWED
from indelible.core.values.canonical import decode
from indelible.errors import (
    BadCall,
    LeaseLost,
    MayHaveHappened,
    NoRun,
    NotAuthenticated,
    NothingHappened,
    NotPermitted,
    NotRecordable,
    Refused,
    ResultNotRecorded,
    StoreUnavailable,
    TooLarge,
)
from tests.core.effects.playing import CLAIMED, DOUBTFUL, MOVED, play, reason_of, run
from tests.core.making import REF, CountingMint, claim_of, effect, prepared, said_of_another


def entered(attempt: int, **fields: Any) -> Claim:
    return claim_of(effect("processing", attempt=attempt, side_effect="external_mutation", **fields))


WRITING = Claimed(claim_of(effect("processing", side_effect="write")))


def test_an_exception_is_recorded_and_raised_as_itself() -> None:
    error = ValueError("too little")
    played = run(WRITING, Raised(error), MOVED, side_effect="write")
    finish = played.commands[-1]
    assert isinstance(finish, Finish)
    assert finish.status == "failed"
    assert decode(finish.detail_json) == {"message": "too little", "type": "ValueError"}
    assert played.error is error


def test_the_record_of_an_exception_says_where_it_was_raised() -> None:
    def charge() -> None:
        raise ValueError("x")

    with pytest.raises(ValueError, match="x") as raised:
        charge()
    recorded: Any = decode(outcomes.error_json(raised.value))
    assert recorded["at"] == f"charge:{charge.__code__.co_firstlineno + 1}"


def test_nothing_happened_gives_the_claim_back() -> None:
    error = NothingHappened("card service is closed")
    played = run(CLAIMED, Raised(error), MOVED)
    (_, back) = played.commands
    assert (type(back), back.status) == (Relinquish, "ready")
    assert reason_of(back) == "NothingHappened: card service is closed"
    assert played.error is error


def test_that_nothing_happened_is_said_of_one_effect_only() -> None:
    """The handler called another effect, which is the one of which that is so."""
    error = said_of_another(NothingHappened("card service is closed"))
    played = run(CLAIMED, Raised(error), MOVED)
    (_, back) = played.commands
    assert (type(back), back.status) == (Relinquish, "in_doubt")
    assert played.error is error


class Unbound:
    """Is like a proxy of a web framework outside of a request: it cannot even be asked what it is."""

    __class__ = property(lambda self: 1 / 0)  # type: ignore[assignment]


def test_a_result_that_cannot_even_be_looked_at_leaves_doubt() -> None:
    played = run(CLAIMED, Returned(Unbound()), MOVED)
    (_, back) = played.commands
    assert (type(back), back.status) == (Relinquish, "in_doubt")
    assert isinstance(played.error, ResultNotRecorded)


@pytest.mark.parametrize(
    ("report", "options"),
    [
        (Raised(MayHaveHappened("line cut")), {}),
        (Raised(MayHaveHappened("line cut")), {"on_crash": "retry"}),
        (Raised(KeyboardInterrupt()), {}),
        (Raised(SystemExit(1)), {}),
        (Raised(TimeoutError("read")), {}),
        (Raised(TimeoutError("limit"), is_interruption=True), {"on_crash": "retry"}),
        (Raised(ValueError("cut off"), is_interruption=True), {}),
    ],
)
def test_what_leaves_open_whether_it_happened_is_in_doubt(report: Raised, options: Any) -> None:
    played = run(CLAIMED, report, MOVED, **options)
    back = played.commands[-1]
    assert (type(back), back.status) == (Relinquish, "in_doubt")
    assert type(report.error).__name__ in reason_of(back)
    assert played.error is report.error


def test_a_time_out_of_what_reaches_nothing_outside_is_a_failure() -> None:
    played = run(WRITING, Raised(TimeoutError("read")), MOVED, side_effect="write")
    assert played.commands[-1].status == "failed"


def test_a_handler_that_was_never_entered_gives_its_claim_back() -> None:
    error = LeaseLost("too late", effect=DOUBTFUL)
    played = run(CLAIMED, Raised(error, is_interruption=True, was_entered=False), MOVED)
    assert (type(played.commands[-1]), played.commands[-1].status) == (Relinquish, "ready")
    assert played.error is error


def test_in_doubt_the_same_request_is_sent_again_where_the_provider_honours_the_key() -> None:
    downstream = Idempotent(attempts=3, backoff=timedelta(seconds=2))
    again = Claimed(entered(2, on_crash="resend"))
    played = run(
        CLAIMED, Raised(OSError("cut")), MOVED, None, again, Returned("ok"), MOVED, downstream=downstream
    )  # fmt: skip
    assert [type(request) for request in played.asked] == [Submit, Invoke, Submit, Pause, Submit, Invoke, Submit]
    assert [one.status for one in played.commands if isinstance(one, Relinquish)] == ["in_doubt"]
    assert {one.resend_within for one in played.commands if isinstance(one, Open)} == {downstream.window}
    assert played.value == "ok"


def test_a_call_sends_again_only_so_often() -> None:
    last = OSError("cut again")
    again = Claimed(entered(2, on_crash="resend"))
    answers = (CLAIMED, Raised(OSError("cut")), MOVED, None, again, Raised(last), MOVED)
    played = run(*answers, downstream=Idempotent(attempts=2))
    assert played.error is last
    assert played.commands[-1].status == "in_doubt"


def test_what_was_interrupted_is_not_sent_again() -> None:
    played = run(CLAIMED, Raised(OSError("cut"), is_interruption=True), MOVED, downstream=Idempotent())
    assert played.commands[-1].status == "in_doubt"


def test_declared_exceptions_are_tried_again_after_a_pause() -> None:
    retry = Retry(on=(OSError,), attempts=3, backoff=timedelta(seconds=2))
    second = Claimed(entered(2))
    played = run(
        CLAIMED, Raised(OSError("reset")), MOVED, None, second, Raised(OSError("again")), MOVED, None,
        Claimed(entered(3)), Returned("ok"), MOVED,
        retry=retry,
    )  # fmt: skip
    assert [type(request) for request in played.asked] == [
        Submit, Invoke, Submit, Pause, Submit, Invoke, Submit, Pause, Submit, Invoke, Submit,
    ]  # fmt: skip
    pauses = [request.duration for request in played.asked if isinstance(request, Pause)]
    assert pauses == [timedelta(seconds=2), timedelta(seconds=4)]
    given_up = [command for command in played.commands if isinstance(command, Relinquish)]
    assert [command.status for command in given_up] == ["in_doubt", "in_doubt"]
    assert {command.lease for command in given_up} == {handling_of(Options()).lease}, "longer than the pauses"
    tokens = [command.claim.token for command in given_up]
    assert [command.again for command in played.commands if isinstance(command, Open)] == [None, *tokens]
    assert len({command.token for command in played.commands if isinstance(command, Open)}) == 3
    assert played.value == "ok"


def test_37_an_attempt_that_did_nothing_leaves_the_doubt_of_the_one_before() -> None:
    again = Claimed(entered(2, doubted=1))
    retry = Retry(on=(OSError,), attempts=2)
    for report in (Raised(NothingHappened("not connected")), Raised(OSError("fork"), was_entered=False)):
        played = run(CLAIMED, Raised(OSError("first")), MOVED, None, again, report, MOVED, retry=retry)
        assert played.commands[-1].status == "in_doubt"


@pytest.mark.parametrize("next_one", [InDoubt(entered(1).effect), StoreUnavailable("away")])
@pytest.mark.parametrize(
    "words", [{"retry": Retry(on=(OSError,), attempts=2)}, {"downstream": Idempotent(attempts=2)}], ids=str
)
def test_37_what_was_raised_in_doubt_is_raised_if_it_cannot_be_tried_again(next_one: Any, words: Any) -> None:
    lost = OSError("lost")
    played = run(CLAIMED, Raised(lost), MOVED, None, next_one, **words)
    assert played.error is lost


@pytest.mark.parametrize("problem", [StoreUnavailable("away"), NotAuthenticated("revoked")])
def test_37_what_was_raised_is_raised_if_that_cannot_be_recorded(problem: Exception) -> None:
    lost = OSError("lost")
    played = run(CLAIMED, Raised(lost), problem, retry=Retry(on=(OSError,), attempts=2))
    assert played.error is lost
    assert not any(isinstance(request, Pause) for request in played.asked)


def test_a_store_that_is_away_before_the_first_attempt_says_so() -> None:
    assert isinstance(run(StoreUnavailable("away")).error, StoreUnavailable)


@pytest.mark.parametrize("last", [NothingHappened("no line"), Refused("no"), OSError("reset")])
def test_37_a_refusal_that_is_tried_again_leaves_the_doubt_of_the_one_before(last: Exception) -> None:
    claims = [Claimed(entered(number, doubted=number - 1)) for number in (2, 3)]
    retry = Retry(on=(OSError, Refused), attempts=3)
    reports = [Raised(OSError("lost")), Raised(Refused("busy")), Raised(last)]
    played = run(
        CLAIMED, reports[0], MOVED, None, claims[0], reports[1], MOVED, None, claims[1], reports[2], MOVED, retry=retry
    )
    assert [each.status for each in played.commands if isinstance(each, Relinquish)] == ["in_doubt"] * 3


def test_37_an_attempt_that_did_nothing_is_tried_again_without_a_doubt() -> None:
    again = Claimed(entered(2))
    retry = Retry(on=(NothingHappened,), attempts=2)
    played = run(CLAIMED, Raised(NothingHappened("busy")), MOVED, None, again, Returned("ok"), MOVED, retry=retry)
    assert [each.status for each in played.commands if isinstance(each, Relinquish)] == ["ready"]
    assert [each.again for each in played.commands if isinstance(each, Open)] == [None, None]


def test_a_refusal_that_is_tried_again_has_not_failed_for_good() -> None:
    again, retry = Claimed(entered(2)), Retry(on=(Refused,), attempts=2)
    played = run(CLAIMED, Raised(Refused("busy")), MOVED, None, again, Returned("ok"), MOVED, retry=retry)
    assert [each.status for each in played.commands if isinstance(each, Relinquish)] == ["ready"]
    assert played.value == "ok"


def test_the_last_attempt_is_the_last() -> None:
    error = OSError("reset")
    again = Claimed(entered(2))
    retry = Retry(on=(OSError,), attempts=2)
    played = run(CLAIMED, Raised(OSError("first")), MOVED, None, again, Raised(error), MOVED, retry=retry)
    assert played.commands[-1].status == "in_doubt"
    assert played.error is error


def test_attempts_of_earlier_calls_do_not_use_up_those_of_this_one() -> None:
    later = Claimed(entered(7))
    again = Claimed(entered(8))
    retry = Retry(on=(OSError,), attempts=2)
    assert run(later, Raised(OSError("reset")), MOVED, None, again, Returned("ok"), MOVED, retry=retry).value == "ok"


def test_an_exception_that_was_not_declared_is_not_tried_again() -> None:
    played = run(CLAIMED, Raised(KeyError("k")), MOVED, retry=Retry(on=(OSError,)))
    assert played.commands[-1].status == "in_doubt"


def test_04_a_result_of_an_effect_that_is_not_here_is_not_acknowledged() -> None:
    played = run(CLAIMED, Returned("paid"), NoSuchEffect(REF))
    assert isinstance(played.error, ResultNotRecorded)
    assert played.error.value == "paid"


@pytest.mark.parametrize("value", [object(), {1, 2}, float("nan"), "\ud800", {"a": [print]}])
def test_a_result_that_cannot_be_recorded_leaves_doubt_and_hands_the_value_over(value: Any) -> None:
    played = run(CLAIMED, Returned(value), MOVED)
    back = played.commands[-1]
    assert (type(back), back.status) == (Relinquish, "in_doubt")
    assert isinstance(played.error, ResultNotRecorded)
    assert played.error.value is value
    assert isinstance(played.error.__cause__, NotRecordable)
    assert "result" in str(played.error)


def test_a_result_over_the_limit_leaves_doubt() -> None:
    assert run(CLAIMED, Returned("x" * 8), MOVED, max_result_bytes=10).value == "x" * 8
    assert isinstance(run(CLAIMED, Returned("x" * 9), MOVED, max_result_bytes=10).error, ResultNotRecorded)


@pytest.mark.parametrize("ended", [NotAuthenticated("revoked"), NotPermitted("no agent any more")])
def test_37_a_credential_that_ended_while_the_handler_ran_hides_nothing_that_it_did(ended: Exception) -> None:
    returned = run(CLAIMED, Returned("paid"), ended).error
    assert isinstance(returned, ResultNotRecorded)
    assert (returned.value, returned.__cause__) == ("paid", ended)
    refused = run(CLAIMED, Raised(Refused("declined")), ended).error
    assert isinstance(refused, ResultNotRecorded)
    assert (refused.value, type(refused.__cause__)) == ("declined", Refused)
    for lost in (MayHaveHappened("cut"), NothingHappened("closed")):
        assert run(CLAIMED, Raised(lost), ended).error is lost
    assert isinstance(run(CLAIMED, Returned(object()), ended).error, ResultNotRecorded)
    never = run(CLAIMED, Raised(OSError("no thread"), was_entered=False), ended)
    assert isinstance(never.error, OSError)
    cut = OSError("cut")
    assert run(CLAIMED, Raised(cut), ended, retry=Retry(on=(OSError,), attempts=2)).error is cut
    downstream = Idempotent(attempts=2)
    assert run(CLAIMED, Raised(cut), ended, downstream=downstream).error is cut


@pytest.mark.parametrize("report", [Returned({"id": 7}), Raised(ValueError("no"))])
def test_a_store_that_is_gone_when_the_handler_returns_is_told_with_what_it_did(report: Any) -> None:
    gone = StoreUnavailable("the disk is full")
    error = run(WRITING, report, gone, side_effect="write").error
    assert isinstance(error, ResultNotRecorded)
    assert error.value == ({"id": 7} if isinstance(report, Returned) else "no")
    assert error.__cause__ is (gone if isinstance(report, Returned) else report.error)
    assert "the disk is full" in str(error)


@pytest.mark.parametrize("report", [Returned(1), Raised(ValueError("no"))])
def test_a_lost_lease_is_told_with_the_state_now(report: Any) -> None:
    error = run(WRITING, report, Late(DOUBTFUL), side_effect="write").error
    assert isinstance(error, LeaseLost)
    assert error.effect is DOUBTFUL
    assert error.__cause__ is (None if isinstance(report, Returned) else report.error)


@pytest.mark.parametrize("report", [Raised(NothingHappened("x")), Raised(KeyboardInterrupt())])
def test_a_claim_that_cannot_be_given_back_now_does_not_hide_the_handlers_exception(report: Raised) -> None:
    played = run(CLAIMED, report, StoreUnavailable("gone"))
    assert played.error is report.error
    assert any("could not be marked" in note for note in played.error.__notes__)


@pytest.mark.parametrize("text", ["lone \ud800", "x" * 20_000, "nul \0", ""])
def test_any_text_of_an_exception_can_be_recorded(text: str) -> None:
    for report in (Raised(ValueError(text)), Raised(NothingHappened(text))):
        detail = run(CLAIMED, report, MOVED).commands[-1].detail_json
        assert len(detail) < 11_000


@pytest.mark.parametrize("is_interruption", [False, True])
def test_an_exception_that_cannot_even_be_shown_is_recorded(is_interruption: bool) -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    error = Mute()
    played = run(CLAIMED, Raised(error, is_interruption), MOVED)
    assert played.error is error
    assert b"Mute" in played.commands[-1].detail_json


def test_even_a_stop_iteration_is_raised_as_itself() -> None:
    error = StopIteration(3)
    played = run(WRITING, Raised(error), MOVED, side_effect="write")
    assert played.commands[-1].status == "failed"
    assert played.error is error


@pytest.mark.parametrize("refused", [BadCall("the handler ended its transaction"), TooLarge("2 MB", limit=1, size=2)])
def test_37_a_report_that_is_refused_leaves_doubt_and_hands_the_value_over(refused: BadCall) -> None:
    """It was raised as it is, a `BadCall`: the caller heard that nothing was recorded, and the value was lost."""
    returned = run(CLAIMED, Returned("booked"), refused, MOVED)
    assert isinstance(returned.error, ResultNotRecorded)
    assert (returned.error.value, returned.error.__cause__) == ("booked", refused)
    assert " is in doubt; settle it" in str(returned.error)
    assert returned.commands[-1].status == "in_doubt"
    declined = run(CLAIMED, Raised(Refused("declined")), refused, MOVED).error
    assert isinstance(declined, ResultNotRecorded)
    assert (declined.value, type(declined.__cause__)) == ("declined", Refused)
    unmarked = run(CLAIMED, Returned("booked"), refused, refused).error
    assert isinstance(unmarked, ResultNotRecorded)
    assert "will be in doubt when its lease ends" in str(unmarked)
    cut = OSError("cut")
    assert run(CLAIMED, Raised(cut), refused).error is cut, "what the handler raised is not hidden"


def test_a_store_that_fails_while_asking_is_told_as_it_is() -> None:
    gone = StoreUnavailable("gone")
    assert run(gone).error is gone


def test_39_the_class_that_the_effect_has_says_what_an_exception_means() -> None:
    played = run(CLAIMED, Raised(ValueError("x")), MOVED, side_effect="read")
    assert played.commands[-1].status == "in_doubt"


def test_39_a_policy_may_demand_more_of_a_call_than_its_caller() -> None:
    payment = handling_of(Options(side_effect="payment"))
    steps = walk.run(prepared(side_effect="read"), CountingMint())
    paying = Claimed(claim_of(effect("processing")))
    judged = [Judged(ALLOWED, handling=payment)]
    played = play(steps, None, paying, Returned("ok"), MOVED, None, verdicts=judged)
    assert [type(request) for request in played.asked] == [CheckSealing, Submit, Invoke, Submit, AwaitSeal]
    assert (played.commands[0].side_effect, played.commands[0].on_crash) == ("payment", "hold")


def test_53_the_class_that_a_policy_declares_says_what_tells_calls_apart() -> None:
    payment, read = handling_of(Options(side_effect="payment")), handling_of(Options(side_effect="read"))
    calls = [ToolCall(tool="pay", run_id="r", dedupe="call", call_id=f"c{number}", turn="m") for number in range(2)]
    first, second = (prepared(call, side_effect="read") for call in calls)
    assert first.identity.ref != second.identity.ref
    assert first.treated(payment).identity.ref == second.treated(payment).identity.ref
    assert first.treated(payment).call.dedupe == "turn"
    assert first.treated(read).identity == first.identity
    meant = prepared(calls[0], side_effect="notification")
    assert meant.treated(payment).identity == meant.identity, "what its caller says has effects is told apart as said"
    alone = replace(first, is_alone=True)
    assert alone.treated(read).identity == first.identity
    with pytest.raises(NoRun):
        alone.treated(payment)


@dataclass(frozen=True)
class Frozen(Exception):
    """An exception to which no note can be added."""

    code: str


def test_37_an_exception_that_takes_no_note_is_raised_as_itself() -> None:
    error = Frozen("x")
    played = run(CLAIMED, Raised(error), MOVED)
    assert (played.commands[-1].status, played.error) == ("in_doubt", error)
