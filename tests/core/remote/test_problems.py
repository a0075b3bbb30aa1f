"""Promises of core.remote.problems: every error has a name and a status, and arrives as what it was."""

from __future__ import annotations

import inspect
import json
import re
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from indelible import errors
from indelible.core.effects.effect import Effect
from indelible.core.remote.problem_types import PROBLEM_TYPES, PROBLEMS, ProblemType, type_of_status, types_with_status
from indelible.core.remote.problems import name_of, problem_of, status_of, type_of
from indelible.core.runs.run import Run
from indelible.core.values.canonical import encode
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
    assert (status_of(made(kind)) >= 500) is (is_ours and kind is not errors.AskedTooOften)


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


def test_a_class_made_elsewhere_is_told_as_the_one_above() -> None:
    class Special(errors.UnknownRun):
        """No run of this kind."""

    problem = problem_of(Special("x"))
    assert (problem["type"], problem["status"]) == (f"{PROBLEMS}unknown-run", 404)


@EVERY
def test_every_error_has_a_line_in_the_table(kind: type[IndelibleError]) -> None:
    assert type_of(made(kind)) == name_of(kind), "say in core/remote/problem_types.py what it means and what to do next"


@pytest.mark.parametrize(("name", "told"), PROBLEM_TYPES.items())
def test_every_type_says_what_it_means_and_what_to_do(name: str, told: ProblemType) -> None:
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", name)
    assert told.title
    assert not told.title.endswith(".")
    assert told.means.endswith(".")
    assert told.next_step.endswith(".")
    assert all(name in types_with_status(status) for status in told.statuses)


def test_what_http_refuses_has_a_type_of_its_status() -> None:
    for status in (400, 401, 403, 404, 405, 409, 412, 413, 415, 421):
        assert status in PROBLEM_TYPES[type_of_status(status)].statuses
    assert type_of_status(418) == "bad-call"
    assert type_of_status(501) == "indelible-error"


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


def test_whoever_decides_about_their_own_request_is_not_permitted_to() -> None:
    own = errors.VoteRefused("it is ana's", code="self_approval", approval=APPROVAL)
    late = errors.VoteRefused("it is over", code="expired", approval=APPROVAL)
    assert [(problem_of(one)["status"], status_of(one)) for one in (own, late)] == [(403, 403), (409, 409)]


def test_a_reused_key_and_a_refused_repeat_tell_of_the_recorded_call() -> None:
    failed = replace(effect("failed"), detail_json=encode({"message": "declined", "type": "CardError"}))
    outcomes: list[tuple[Effect, Any]] = [
        (replace(effect("succeeded"), detail_json=encode({"paid": Decimal("1.1")})), {"paid": {"$decimal": "1.1"}}),
        (replace(effect("succeeded"), detail_json=encode("done")), "done"),
        (replace(effect("succeeded"), detail_json=None), None),
    ]
    for recorded, value in outcomes:
        told = sent(errors.RepeatRefused("no", effect=recorded))
        assert (told["effect_status"], told["outcome"]) == ("succeeded", {"status": "succeeded", "value": value})
        assert "differing" not in told
    differing = {"amount": (Decimal("5.5"), 6), "lines": ([1, {"a": b"x"}], None)}
    told = sent(errors.KeyReused("no", effect=failed, differing=differing))
    assert (told["effect_id"], told["effect_status"]) == (failed.id, "failed")
    assert told["outcome"] == {"status": "failed", "error": "declined", "error_type": "CardError"}
    assert told["differing"] == {
        "amount": {"recorded": {"$decimal": "5.5"}, "given": 6},
        "lines": {"recorded": [1, {"a": {"$bytes": "eA=="}}], "given": None},
    }
    erased = sent(errors.KeyReused("no", effect=replace(failed, detail_json=None)))
    assert erased["outcome"] == {"status": "failed", "error": None, "error_type": None}
    assert sent(errors.KeyReused("no", effect=effect("in_doubt")))["outcome"] is None
    assert "outcome" not in sent(errors.KeyReused("another request has this Idempotency-Key"))
