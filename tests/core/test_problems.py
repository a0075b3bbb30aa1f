"""Promises of indelible.core.problems: every error has a name and a status, and arrives as what it was."""

from __future__ import annotations

import inspect
import json
from typing import Any

import pytest

from indelible import errors
from indelible.core.problems import PROBLEMS, error_from, name_of, problem_of, status_of
from indelible.core.runs import Run
from indelible.errors import IndelibleError
from tests.core.making import NOON, asked, charge, effect, refuses

KINDS: list[type[IndelibleError]] = sorted(
    (
        kind
        for kind in vars(errors).values()
        if inspect.isclass(kind) and issubclass(kind, IndelibleError) and kind.__module__ == errors.__name__
    ),
    key=lambda kind: kind.__name__,
)
EFFECT, APPROVAL = asked(effect("requires_approval"))
WORDS: dict[str, Any] = {
    "path": "args.a",
    "why": "is no value",
    "limit": 5,
    "size": 6,
    "problems": ("rules[0]: no", "people: none"),
    "effect": EFFECT,
    "approval": APPROVAL,
    "code": "digest",
    "verdict": refuses(),
    "charge": charge(),
    "run": Run(id="r", agent="billing", created_at=NOON, updated_at=NOON),
    "checkpoint_id": "ckpt_1",
    "error_type": "CardError",
    "value": 3,
}
# What carries how something stands, or happened on this side, is not raised by a client on somebody's word.
NOT_RAISED_AGAIN = (
    errors.Refused,
    errors.EffectFailed,
    errors.LeaseLost,
    errors.ResultNotRecorded,
    errors.NotRecordable,
)


def made(kind: type[IndelibleError]) -> IndelibleError:
    """Makes an error with everything that it can carry."""
    names = inspect.signature(kind).parameters if inspect.isfunction(kind.__init__) else ()
    words = {name: WORDS[name] for name in names if name in WORDS}
    error: Any = kind
    return error(**words) if kind is errors.NotRecordable else error("look at it: indelible effects", **words)


def sent(error: IndelibleError) -> Any:
    """Gives what the other side reads."""
    return json.loads(json.dumps(problem_of(error)))


EVERY: Any = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)


def test_names_are_unique_and_stable() -> None:
    names = {name_of(kind): kind for kind in KINDS}
    assert len(names) == len(KINDS) > 40
    assert names["still-running"] is errors.StillRunning
    assert names["bad-call"] is errors.BadCall
    assert names["indelible-error"] is IndelibleError


@EVERY
def test_every_error_has_a_problem_that_says_what_it_is(kind: type[IndelibleError]) -> None:
    problem = sent(made(kind))
    assert problem["type"] == PROBLEMS + name_of(kind)
    assert problem["status"] == status_of(made(kind))
    assert 400 <= problem["status"] <= 503
    assert problem["detail"] == str(made(kind))
    assert problem["title"]
    assert not problem["title"].endswith(".")


@EVERY
def test_a_problem_blames_who_can_do_something_about_it(kind: type[IndelibleError]) -> None:
    """The caller, unless the store, the journal or a tool is the problem: then it is worth while to ask again."""
    is_ours = (
        issubclass(kind, errors.StoreError | errors.JournalError | errors.ToolUnavailable) or kind is IndelibleError
    )
    assert (status_of(made(kind)) >= 500) is is_ours


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        (errors.NotAuthenticated, 401),
        (errors.NotPermitted, 403),
        (errors.PolicyRefused, 403),
        (errors.UnknownEffect, 404),
        (errors.UnknownApproval, 404),
        (errors.UnknownRun, 404),
        (errors.UnknownCheckpoint, 404),
        (errors.KeyReused, 409),
        (errors.VoteRefused, 409),
        (errors.EffectErased, 410),
        (errors.TooLarge, 413),
        (errors.NotRecordable, 422),
        (errors.BudgetExceeded, 429),
        (errors.StoreUnavailable, 503),
    ],
)
def test_statuses_are_those_of_the_reference(kind: type[IndelibleError], status: int) -> None:
    assert status_of(made(kind)) == status


def test_a_class_made_elsewhere_has_the_status_of_the_one_above() -> None:
    class Special(errors.UnknownRun):
        """No run of this kind; there are others. See the list."""

    assert status_of(Special("x")) == 404
    assert problem_of(Special("x"))["title"] == "No run of this kind"

    class Undescribed(errors.BadCall):
        pass

    Undescribed.__doc__ = None
    assert problem_of(Undescribed("x"))["title"] == "Undescribed"


def test_a_problem_tells_what_a_program_needs() -> None:
    assert sent(made(errors.TooLarge)) | {"limit": 5, "size": 6} == sent(made(errors.TooLarge))
    assert sent(made(errors.NotRecordable))["path"] == "args.a"
    assert sent(made(errors.BadPolicy))["problems"] == ["rules[0]: no", "people: none"]
    assert sent(made(errors.RunDriven))["code"] == "digest"
    refused = sent(made(errors.VoteRefused))
    assert (refused["effect_id"], refused["approval_id"], refused["code"]) == ("eff_1", "apr_1", "digest")
    assert "effect_id" not in sent(errors.KeyReused("x")), "and says nothing of what is not there"


def test_a_problem_holds_no_payload() -> None:
    """What was asked for may be a secret; whoever may see it finds it by its id."""
    for kind in KINDS:
        told = json.dumps(sent(made(kind)))
        assert "amount" not in told
        assert WORDS["effect"].token_hash not in told


@EVERY
def test_an_error_is_raised_again_as_what_it_was(kind: type[IndelibleError]) -> None:
    error = made(kind)
    again = error_from(sent(error), status_of(error))
    assert str(again) == str(error)
    if issubclass(kind, NOT_RAISED_AGAIN):
        busy = status_of(error) in (429, 503)
        assert type(again) is (errors.StoreUnavailable if busy else errors.BadCall)
    elif kind is IndelibleError:
        assert type(again) is errors.StoreUnavailable
    else:
        assert type(again) is kind


def test_numbers_arrive_with_what_is_too_large() -> None:
    again = error_from(sent(made(errors.TooLarge)), 413)
    assert isinstance(again, errors.TooLarge)
    assert (again.limit, again.size) == (5, 6)
    odd = error_from({"type": f"{PROBLEMS}too-large", "limit": "many", "size": None}, 413)
    assert isinstance(odd, errors.TooLarge)
    assert (odd.limit, odd.size) == (0, 0)


@pytest.mark.parametrize("problem", [None, [], "text", 5, {}, {"type": None}, {"type": ["x"]}, {"type": "/problems/x"}])
def test_whatever_comes_back_is_some_error(problem: Any) -> None:
    """A server of another time, or something between us and it."""
    assert type(error_from(problem, 400)) is errors.BadCall
    for status in (429, 500, 502):
        assert type(error_from(problem, status)) is errors.StoreUnavailable
        assert str(status) in str(error_from(problem, status))


def test_the_words_are_the_problems_own() -> None:
    assert str(error_from({"detail": "so", "title": "not so"}, 400)) == "so"
    assert str(error_from({"title": "not so"}, 400)) == "not so"
