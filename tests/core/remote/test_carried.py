"""Promises of core.remote.carried: an error arrives as what it was, with everything that it carries."""

from __future__ import annotations

import json
from typing import Any

import pytest

from indelible import errors
from indelible.core.remote.carried import CARRIED, carried_by, error_from
from indelible.core.remote.problems import PROBLEMS, problem_of, status_of
from indelible.errors import IndelibleError
from tests.core.remote.test_problems import EVERY, made, sent


def for_our_client(error: IndelibleError) -> Any:
    """Gives what our own client reads."""
    return json.loads(json.dumps(problem_of(error) | {CARRIED: carried_by(error)}))


@EVERY
def test_an_error_is_raised_again_as_what_it_was_with_all_it_carries(kind: type[IndelibleError]) -> None:
    error = made(kind)
    again = error_from(for_our_client(error), status_of(error))
    assert type(again) is kind
    assert str(again) == str(error)
    assert vars(again) == vars(error)


@EVERY
def test_whoever_is_told_no_more_than_everybody_gets_the_words(kind: type[IndelibleError]) -> None:
    """The class too, unless that has to carry what is not there."""
    again = error_from(sent(made(kind)), status_of(made(kind)))
    assert str(again) == str(made(kind))
    assert type(again) in (kind, errors.BadCall, errors.StoreUnavailable)
    assert type(again) is kind or issubclass(kind, errors.NotRun | errors.NotRecordable) or "effect" in vars(made(kind))


@pytest.mark.parametrize("value", [object(), float("nan"), {1: 2}])
def test_a_result_that_could_not_be_recorded_may_have_no_form(value: Any) -> None:
    again = error_from(for_our_client(errors.ResultNotRecorded("x", value=value)), 409)
    assert isinstance(again, errors.ResultNotRecorded)
    assert again.value is None


@pytest.mark.parametrize("carried", [None, [], {}, {"approval": None}, {"approval": {"is": "Run"}}, {"code": 5}])
def test_an_error_that_carries_nonsense_keeps_its_words(carried: Any) -> None:
    problem = {"type": f"{PROBLEMS}vote-refused", "detail": "no", CARRIED: carried}
    assert type(error_from(problem, 409)) is errors.BadCall
    assert str(error_from(problem, 409)) == "no"
    nothing = {"type": f"{PROBLEMS}result-not-recorded", "detail": "no", "value": "!"}
    assert type(error_from(nothing, 409)) is errors.BadCall


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
