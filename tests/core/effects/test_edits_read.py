"""Edited arguments run as their tool reads them, once those were approved and judged where they run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from indelible.core.approvals.edits import edited_from
from indelible.core.commands import (
    ApprovalEnded,
    AwaitingApproval,
    Claimed,
    EditRead,
    EditUnread,
    KeyTaken,
    NoSuchEffect,
    RefusedByPolicy,
    Taken,
)
from indelible.core.effects import walk
from indelible.core.effects.calls import ToolCall
from indelible.core.effects.identity import identify
from indelible.core.privacy.redaction import Redactor
from indelible.core.values.canonical import encode
from indelible.errors import BadCall, EffectErased, KeyReused
from tests.core.effects.claiming import ELSEWHERE, OTHER, claim_on, opening
from tests.core.effects.playing import CLAIMED, CountingMint, play, prepared
from tests.core.making import (
    ADA,
    BO,
    LEASE,
    OTHER_ARGS,
    REF,
    Need,
    Shelf,
    allows,
    amend,
    asks,
    cast,
    charge,
    effect,
    read_edit,
    refuses,
    stamp,
)

WHOLE = b'{"amount":6,"tip":5000}'


def edited(**words: Any) -> Shelf:
    """Return a shelf with a call that Ada edited and Bo approved."""
    shelf = Shelf()
    changed = shelf.do(amend(shelf.do(opening(**words)).approval, ADA)).approval
    shelf.do(cast(changed, BO))
    return shelf


def otherwise(shelf: Shelf) -> EditRead:
    return EditRead(shelf.effects[REF].version, WHOLE, is_exact=False)


def test_an_edit_is_read_before_it_runs() -> None:
    shelf = edited()
    assert isinstance(shelf.do(opening(2)), EditUnread)
    old = replace(read_edit(shelf.effects[REF]), version=1)
    assert isinstance(shelf.do(opening(2, edit=old)), EditUnread), "it was edited again since"
    claim = claim_on(shelf, opening(2))
    assert claim.effect.args_json == OTHER_ARGS


def test_39_a_reading_of_arguments_that_are_not_recorded_lets_nothing_run() -> None:
    """An agent had the server judge an edit of its own invention, and other arguments ran."""
    lie = EditRead(effect("ready").version, OTHER_ARGS, is_exact=True)
    assert isinstance(Shelf().do(opening(edit=lie, verdict=allows())), NoSuchEffect)
    shelf = Shelf()
    shelf.effects[REF] = effect("ready")
    assert isinstance(shelf.do(opening(2, edit=lie, verdict=allows())), EditUnread)
    unread = shelf.do(opening(2, edit=replace(lie, is_exact=False), verdict=allows()))
    assert isinstance(unread, AwaitingApproval)
    assert unread.effect.args_json == OTHER_ARGS


def test_39_a_walk_judges_its_own_arguments_when_what_was_edited_is_gone() -> None:
    played = play(walk.begin(mine(), CountingMint()), recorded({"amount": 6}), NoSuchEffect(REF), CLAIMED)
    assert [command.edit is None for command in played.commands] == [True, False, True]


def test_what_the_policy_refuses_of_an_edit_where_it_would_run_is_refused() -> None:
    shelf = edited()
    answer = shelf.begin(opening(2), verdict=refuses())
    assert isinstance(answer, RefusedByPolicy)
    assert shelf.effects[REF].status == "ready"


def test_what_the_policy_asks_of_an_edit_where_it_would_run_is_asked() -> None:
    shelf = edited()
    again = shelf.begin(opening(2), verdict=asks(Need(2), charges=(charge(2),)))
    assert isinstance(again, AwaitingApproval)
    assert (again.effect.args_json, again.approval.editors) == (OTHER_ARGS, ("ada",))
    assert shelf.budget().reserved == 2


@pytest.mark.parametrize("awaited", ["this", "another", None])
def test_an_edit_that_the_tool_reads_otherwise_is_asked_about_as_it_is_read(awaited: str | None) -> None:
    shelf = edited(verdict=asks(charges=(charge(1),)))
    before = shelf.approval()
    waits = {"this": before.id, "another": "apr_other", None: None}[awaited]
    verdict = asks(charges=(charge(2),))
    again = shelf.do(opening(2, edit=otherwise(shelf), verdict=verdict, awaited_approval=waits))
    assert isinstance(again, AwaitingApproval)
    assert shelf.approval_with(before.id).status == "stale"
    assert (again.effect.args_json, again.approval.replaces) == (WHOLE, before.id)
    assert (again.approval.votes, again.approval.editors, shelf.budget().reserved) == ((), ("ada",), 2)
    shelf.do(cast(again.approval, BO))
    claim = claim_on(shelf, opening(3, verdict=asks(charges=(charge(2),))))
    assert (claim.effect.args_json, shelf.budget().reserved) == (WHOLE, 2)


def test_47_an_edit_that_is_asked_about_again_takes_the_place_of_the_call_that_it_is_then() -> None:
    stamped = {"stamp": replace(stamp(), salts=bytes(320))}
    shelf = edited()
    reading = replace(otherwise(shelf), takes=Taken(ref=ELSEWHERE, effect_id="eff_taken"))
    again = shelf.do(opening(2, edit=reading, **stamped))
    assert isinstance(again, AwaitingApproval)
    taken = shelf.effects[ELSEWHERE]
    assert (taken.id, taken.status, edited_from(taken)) == ("eff_taken", "canceled", REF)
    reading = replace(reading, version=shelf.effects[REF].version)
    anew = shelf.do(opening(3, edit=reading, **stamped))
    assert anew.approval.id != again.approval.id, "asked once more, it has its place"
    assert shelf.effects[ELSEWHERE] == taken


def test_47_an_edit_that_is_a_call_which_was_made_by_itself_is_not_asked_about() -> None:
    shelf = edited()
    made = claim_on(shelf, opening(5, ref=ELSEWHERE, verdict=allows())).effect
    reading = replace(otherwise(shelf), takes=Taken(ref=ELSEWHERE, effect_id="eff_taken"))
    assert shelf.do(opening(2, edit=reading)) == KeyTaken(made)
    assert shelf.effects[REF].status == "ready"
    refused = shelf.do(opening(2, edit=reading, verdict=refuses()))
    assert isinstance(refused, RefusedByPolicy)


def test_a_caller_that_waited_for_what_went_stale_is_still_told_so() -> None:
    shelf = edited()
    ended = shelf.do(opening(2, verdict=asks(policy="policy-2"), awaited_approval=shelf.approval().id))
    assert isinstance(ended, ApprovalEnded)


def test_after_a_crash_an_edit_that_the_tool_reads_otherwise_by_now_is_asked_about() -> None:
    shelf = edited(on_crash="retry", side_effect="read")
    claim_on(shelf, opening(2))
    shelf.now += LEASE
    assert isinstance(shelf.do(opening(3, on_crash="retry")), EditUnread)
    again = shelf.do(opening(3, on_crash="retry", edit=otherwise(shelf)))
    assert isinstance(again, AwaitingApproval)
    assert again.effect.args_json == WHOLE


def test_an_edit_of_what_was_never_asked_about_again_keeps_no_editors() -> None:
    """A question that is gone from its place names no editors any more."""
    shelf = edited()
    shelf.sheets.clear()
    again = shelf.do(opening(2, edit=read_edit(shelf.effects[REF]), verdict=allows()))
    assert isinstance(again, AwaitingApproval)
    assert again.approval.editors == ()


# Whom they are about

ANN, BEN = b'"aa"', b'"bb"'


def test_95_a_question_about_other_arguments_says_whom_they_are_about() -> None:
    shelf = Shelf()
    shelf.do(opening(subject_json=ANN, has_key_fields=True))
    shelf.do(opening(2, subject_json=BEN, **OTHER))
    assert shelf.last_commits()["subject"] == BEN


def test_95_an_edit_says_whom_it_is_about_and_so_does_the_attempt_that_reads_it() -> None:
    shelf = Shelf()
    changed = shelf.do(amend(shelf.do(opening(subject_json=ANN)).approval, ADA, subject_json=BEN)).approval
    assert shelf.last_commits()["subject"] == BEN
    shelf.do(cast(changed, BO))
    claim = claim_on(shelf, opening(2, subject_json=ANN, edit=replace(read_edit(shelf.effects[REF]), subject_json=BEN)))
    assert shelf.last_commits()["subject"] == BEN
    assert claim.effect.args_json == OTHER_ARGS


def test_95_an_edit_that_the_tool_reads_otherwise_is_asked_about_with_whom_it_is_about() -> None:
    for about, expected in ((BEN, BEN), (None, ANN)):
        shelf = edited(subject_json=ANN)
        shelf.do(opening(2, subject_json=ANN, edit=replace(otherwise(shelf), subject_json=about)))
        assert shelf.last_commits()["subject"] == expected


# In a walk


def bound(args: Any) -> Any:
    if "amount" not in args:
        raise BadCall("pay: needs an amount")
    return {"tip": 5000, **args}


def mine(**words: Any) -> Any:
    return prepared(ToolCall(tool="pay", args={"amount": 5, "tip": 1}, run_id="run-1", **words))


def recorded(args: Any) -> Any:
    return EditUnread(effect("ready", args_json=encode(args), version=3))


@pytest.mark.parametrize(
    ("binds", "args", "read", "is_exact"),
    [
        (bound, {"amount": 6}, {"amount": 6, "tip": 5000}, False),
        (bound, {"amount": 6, "tip": 2}, {"amount": 6, "tip": 2}, True),
        (None, {"amount": 6}, {"amount": 6}, True),
        (lambda args: {"never": "called"}, {"amount": 5, "tip": 1}, {"amount": 5, "tip": 1}, True),
    ],
)
def test_a_walk_reads_and_judges_an_edit_as_the_tool_does(binds: Any, args: Any, read: Any, is_exact: bool) -> None:
    played = play(walk.begin(mine(binds=binds), CountingMint()), recorded(args), CLAIMED)
    first, second = played.commands
    assert first.edit is None
    assert replace(second.edit, takes=None) == EditRead(3, encode(read), is_exact)
    place = identify(replace(mine().call, args=read), "default").ref
    assert second.edit.takes == (None if is_exact else Taken(ref=place, effect_id=second.edit.takes.effect_id))
    assert (first.args_json, first.digest) == (second.args_json, second.digest), "it is still the same call"
    assert [judge.prepared.identity.args_json for judge in played.judged] == [first.args_json, encode(read)]
    assert isinstance(played.value, Claimed)


def test_a_walk_stops_at_an_edit_that_the_tool_does_not_take() -> None:
    played = play(walk.begin(mine(binds=bound), CountingMint()), recorded({"tip": 2}))
    assert isinstance(played.error, BadCall)


@pytest.mark.parametrize("binds", [bound, None])
def test_a_walk_judges_an_edit_with_the_callers_own_secrets(binds: Any) -> None:
    screen = Redactor(("args.card",), b"\2" * 32, "default").screen(encode({"amount": 5, "card": "4242"}))
    call = ToolCall(tool="pay", args={}, run_id="run-1", binds=binds)
    own = replace(
        prepared(call),
        identity=identify(call, "default", args_json=screen.recorded_args),
        screen=screen,
        plain_args_json=screen.args_json,
    )
    args = {**effect("ready", args_json=screen.recorded_args).args, "amount": 6}
    played = play(walk.begin(own, CountingMint()), recorded(args), CLAIMED)
    tip = {} if binds is None else {"tip": 5000}
    assert played.judged[1].prepared.plain_args_json == encode({"amount": 6, "card": "4242", **tip})
    assert played.commands[1].edit.args_json == encode({**args, **tip})


def test_95_a_mark_that_this_caller_has_no_value_for_is_not_run() -> None:
    screen = Redactor(("args.card",), b"\2" * 32, "default").screen(encode({"amount": 5, "card": "4242"}))
    args = {**effect("ready", args_json=screen.recorded_args).args, "amount": 6}
    played = play(walk.begin(mine(binds=bound), CountingMint()), recorded(args))
    assert isinstance(played.error, KeyReused)


@pytest.mark.parametrize(("args", "about"), [({"amount": 6}, b'{"amount":6}'), ({"amount": 5, "tip": 1}, None)])
def test_95_a_walk_says_whom_an_edit_is_about_if_it_is_another_call(args: Any, about: bytes | None) -> None:
    named = replace(mine(), subject_json=ANN, subject_in=lambda args_json: args_json)
    played = play(walk.begin(named, CountingMint()), recorded(args), CLAIMED)
    assert played.commands[1].edit.subject_json == about
    assert played.commands[1].subject_read == (about or ANN)


def test_95_a_walk_stops_at_arguments_whose_key_is_gone() -> None:
    gone = EditUnread(effect("ready", args_json=None))
    assert isinstance(play(walk.begin(mine(), CountingMint()), gone).error, EffectErased)
