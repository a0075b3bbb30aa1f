"""Probes, on the way of one call: what they know settles the effect, what they do not know leaves the doubt."""

from __future__ import annotations

from typing import Any

import pytest

from indelible.core.commands import Forbidden, Illegal, InDoubt, Moved, Reopen, Replayed, ReplayedFailure, Settle
from indelible.core.effects import walk
from indelible.core.effects.effect import Effect, Failed, Succeeded
from indelible.core.effects.requests import Probe, Raised, Returned
from indelible.core.values.canonical import decode
from indelible.errors import BadCall, EffectInDoubt, NothingHappened, NotPermitted
from tests.core.effects.playing import CLAIMED, DOUBTFUL, MOVED, run
from tests.core.making import ADA, REF, CountingMint, Shelf, effect, open_command, relinquish, said_of_another, stamp


def probe(effect: Effect) -> None:
    raise AssertionError("only the driver enters a probe")


@pytest.mark.parametrize(
    ("outcome", "status", "detail"),
    [(Succeeded({"id": 1}), "succeeded", {"id": 1}), (Failed("no", "E"), "failed", {"message": "no", "type": "E"})],
)
def test_a_probe_that_knows_settles_the_effect_and_the_call_goes_on(outcome: Any, status: str, detail: Any) -> None:
    replay: Any = Replayed(effect("succeeded")) if status == "succeeded" else ReplayedFailure(effect("failed"))
    played = run(InDoubt(DOUBTFUL), Returned(outcome), MOVED, replay, reconcile=probe)
    assert played.asked[1] == Probe(DOUBTFUL, probe)
    settling = played.commands[1]
    assert isinstance(settling, Settle)
    assert (settling.ref, settling.status, decode(settling.detail_json)) == (REF, status, detail)
    assert (settling.stamp.actor.kind, settling.stamp.actor.id) == ("system", "probe of pay")
    assert decode(settling.evidence_json) == "probe"
    assert (played.value == {"ok": True}) == (status == "succeeded")


def test_a_probe_that_does_not_know_is_asked_once() -> None:
    played = run(InDoubt(DOUBTFUL), Returned(None), InDoubt(DOUBTFUL), reconcile=probe)
    assert isinstance(played.error, EffectInDoubt)
    assert sum(isinstance(request, Probe) for request in played.asked) == 1


def test_a_probe_that_raises_leaves_the_doubt() -> None:
    cause = ConnectionError("no route")
    error = run(InDoubt(DOUBTFUL), Raised(cause), reconcile=probe).error
    assert isinstance(error, EffectInDoubt)
    assert error.__cause__ is cause
    assert error.effect is DOUBTFUL


@pytest.mark.parametrize("report", [Returned(Succeeded(1)), Raised(NothingHappened("no such charge"))])
def test_41_a_probe_whose_word_the_server_does_not_take_leaves_the_doubt(report: Any) -> None:
    error = run(InDoubt(DOUBTFUL), report, Forbidden(DOUBTFUL, "is not yours"), reconcile=probe).error
    assert isinstance(error, EffectInDoubt)
    assert isinstance(error.__cause__, NotPermitted)
    assert error.effect is DOUBTFUL


@pytest.mark.parametrize("interruption", [KeyboardInterrupt(), SystemExit(1)])
def test_an_interruption_of_a_probe_stays_one(interruption: BaseException) -> None:
    played = run(InDoubt(DOUBTFUL), Raised(interruption, is_interruption=True), reconcile=probe)
    assert played.error is interruption


@pytest.mark.parametrize("answer", [True, "succeeded", {"ok": True}, 0, Succeeded(object()), Failed(7)])  # type: ignore[arg-type]
def test_37_a_probe_that_answers_anything_else_leaves_the_doubt(answer: Any) -> None:
    played = run(InDoubt(DOUBTFUL), Returned(answer), reconcile=probe)
    assert isinstance(played.error, EffectInDoubt)
    assert isinstance(played.error.__cause__, BadCall) == isinstance(answer, Succeeded | Failed)
    assert len(played.commands) == 1


def test_a_probe_that_comes_second_takes_what_the_first_has_settled() -> None:
    settled = effect("succeeded")
    answers = (InDoubt(DOUBTFUL), Returned(Succeeded(1)), Illegal(settled, "it is succeeded"), Replayed(settled))
    assert run(*answers, reconcile=probe).value == {"ok": True}


def test_a_probe_that_says_that_nothing_happened_allows_another_attempt() -> None:
    ready = effect("ready")
    played = run(
        InDoubt(DOUBTFUL), Raised(NothingHappened("never arrived")), Moved(ready), CLAIMED, Returned("now"), MOVED,
        reconcile=probe,
    )  # fmt: skip
    reopening = played.commands[1]
    assert isinstance(reopening, Reopen)
    assert "never arrived" in str(decode(reopening.detail_json))
    assert reopening.stamp.actor.id == "probe of pay"
    assert played.value == "now"


def test_a_probe_that_called_an_effect_in_which_nothing_happened_does_not_know() -> None:
    error = said_of_another(NothingHappened("the ledger of the bank is closed"))
    played = run(InDoubt(DOUBTFUL), Raised(error), reconcile=probe)
    assert isinstance(played.error, EffectInDoubt)
    assert len(played.commands) == 1


@pytest.mark.parametrize("found", [effect("ready"), effect("processing")])
def test_a_probe_that_comes_second_goes_on_with_what_the_first_has_allowed(found: Effect) -> None:
    answers: tuple[Any, ...] = (InDoubt(DOUBTFUL), Raised(NothingHappened("x")), Illegal(found, "it moved on"))
    played = run(*answers, Replayed(effect("succeeded")), reconcile=probe)
    assert played.value == {"ok": True}


@pytest.mark.parametrize(
    "verdict", [Raised(NothingHappened("x")), Returned(Failed("not there")), Returned(Succeeded(1))]
)
def test_what_a_probe_found_of_one_attempt_does_not_settle_the_next(verdict: Any) -> None:
    """A slow probe asked about the first attempt; meanwhile a second one was made, and it is in doubt as well."""
    shelf = Shelf()
    first = shelf.do(open_command()).claim
    shelf.do(relinquish(first, "in_doubt"))
    asked = shelf.effects[REF]
    steps = walk.probe(asked, probe, CountingMint())
    assert isinstance(steps.send(None), Probe)
    shelf.do(Reopen(ref=REF, stamp=stamp(actor=ADA), detail_json=b'"by hand"'))
    second = shelf.do(open_command(token="cc" * 16)).claim
    shelf.do(relinquish(second, "in_doubt"))
    now = shelf.effects[REF]
    request = steps.send(verdict)
    answer = shelf.do(request.command)
    assert not isinstance(answer, Moved)
    assert shelf.effects[REF] == now
