"""An edit that makes another call of this one takes that call's place, and tokens stand behind votes."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from indelible.core.approvals.approval import Approval, Escalation, Need, Person, eligible, voted
from indelible.core.approvals.edits import edited_from, place_taken, stands_for, taking
from indelible.core.commands import AwaitingApproval, Canceled, Claimed, Decided, NotCounted, Taken
from indelible.core.effects import walk
from indelible.core.effects.calls import Resource, ToolCall
from indelible.core.effects.effect import Actor
from indelible.core.effects.identity import BY_ALL_ARGS, Naming, Ref, identify, naming_of, read_naming, repeat_of
from indelible.core.effects.requests import Recall
from indelible.core.people.credentials import Credential, credential_sheet
from indelible.core.people.standing import credential_ref, is_token_revoked
from indelible.errors import KeyReused
from tests.core.effects.playing import CLAIMED, play
from tests.core.making import (
    ADA,
    AGENT,
    BO,
    CY,
    HOUR,
    NOON,
    REF,
    CountingMint,
    Shelf,
    amend,
    asks,
    cast,
    effect,
    open_command,
    prepared,
    stamp,
    vote,
)

ELSEWHERE = Ref(REF.tenant, REF.scope, "cd" * 32)
TAKES = Taken(ref=ELSEWHERE, effect_id="eff_9")


def waiting(**words: Any) -> tuple[Shelf, Any]:
    shelf = Shelf()
    return shelf, shelf.do(open_command(verdict=asks(**words), stamp=stamp(actor=AGENT))).approval


# ── places ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "words",
    [
        {},
        {"key": ["order"]},
        {"key": ["order"], "varies": ["memo"]},
        {"varies": ["memo"], "added": {"currency": "usd"}},
        {"dedupe": "call", "call_id": "c1", "turn": "t1"},
    ],
)
def test_what_a_key_is_made_of_gives_the_key(words: Any) -> None:
    args = {"order": 1, "memo": "a", "currency": "usd"}
    call = ToolCall(tool="pay", args=args, run_id="run-1", **words)
    identity, naming = identify(call, "default"), naming_of(call)
    assert naming.key(identity.ref, "pay", identity.args_json) == identity.ref.key
    assert read_naming(naming.content()) == naming
    other = identify(replace(call, args={**args, "order": 2}), "default")
    assert naming.key(identity.ref, "pay", other.args_json) == other.ref.key != identity.ref.key


@pytest.mark.parametrize("words", [{"resource": Resource(namespace="a", type="b", id="c")}, {"adopted_key": "ab" * 32}])
def test_a_call_that_no_argument_identifies_moves_nowhere(words: Any) -> None:
    naming = naming_of(ToolCall(tool="pay", args={}, **words))
    assert naming.key(REF, "pay", b"{}") is None


def test_an_edit_moves_only_to_another_call() -> None:
    shelf, approval = waiting()
    made = shelf.effects[REF]
    assert place_taken(approval.naming, made, b'{"amount":6}') is not None
    assert place_taken(approval.naming, made, made.args_json or b"") is None
    assert place_taken(approval.naming, replace(made, args_json=None), b"{}") is None
    assert place_taken(Naming(is_fixed=True), made, b"{}") is None
    home = BY_ALL_ARGS.key(made.ref, made.tool, b'{"amount":7}')
    assert home is not None
    assert place_taken(approval.naming, replace(made, key=home), b'{"amount":7}') is None, "back to where it was called"


def test_only_what_an_edit_left_says_where_it_was_edited_from() -> None:
    made = effect("requires_approval")
    left = taking(made, ELSEWHERE, "eff_9", NOON, 4)
    assert edited_from(left) == made.ref
    assert stands_for(left) == made.id
    for other in (
        made,
        replace(left, detail_json=None),
        replace(left, detail_json=b'"a person says no"'),
        replace(left, detail_json=b'{"why":"x"}'),
    ):
        assert edited_from(other) is None
        assert stands_for(other) is None


# ── taking ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_edit_takes_the_place_of_the_call_it_makes_and_again_takes_nothing() -> None:
    shelf, approval = waiting()
    answer = shelf.do(amend(approval, ADA, takes=TAKES))
    assert isinstance(answer, Decided)
    taken = shelf.effects[ELSEWHERE]
    assert (taken.status, taken.args_json, edited_from(taken)) == ("canceled", None, REF)
    assert isinstance(shelf.do(open_command(ref=ELSEWHERE, effect_id="eff_2", dedupe="ask", call_id="x")), Canceled)
    assert isinstance(shelf.do(amend(answer.approval, ADA, takes=TAKES)), Decided)
    assert shelf.effects[ELSEWHERE] == taken


def test_an_edit_to_a_call_that_is_there_is_refused() -> None:
    shelf, approval = waiting()
    assert isinstance(shelf.do(open_command(ref=ELSEWHERE, effect_id="eff_2", token="f" * 32)), Claimed)
    answer = shelf.do(amend(approval, ADA, takes=TAKES))
    assert isinstance(answer, NotCounted)
    assert answer.refusal.code == "key_taken"


def test_a_call_with_exactly_the_edited_arguments_runs_on_their_approval() -> None:
    shelf, approval = waiting()
    changed = shelf.do(amend(approval, ADA, args_json=b'{"amount":6}')).approval
    shelf.do(cast(changed, BO))
    same = open_command(
        verdict=asks(), args_json=b'{"amount":6}', digest="12" * 32, has_key_fields=True, token="f" * 32
    )
    answer = shelf.do(same)
    assert isinstance(answer, Claimed)
    assert answer.claim.effect.args_json == b'{"amount":6}'


def begun_where_an_edit_stands(edited: Any, *answers: Any) -> Any:
    made = effect("requires_approval", args_json=b'{"amount":6}')
    left = taking(made, ELSEWHERE, "eff_9", NOON, 4)
    call = ToolCall(tool="pay", args={"amount": 5}, run_id="run-1")
    return play(walk.begin(prepared(call), CountingMint()), Canceled(left), edited, *answers)


def test_a_call_at_a_place_that_an_edit_took_is_the_edited_call() -> None:
    edited = effect("ready")
    played = begun_where_an_edit_stands(edited, CLAIMED)
    assert played.asked[1] == Recall(edited.ref)
    assert [(each.ref, each.digest) for each in played.commands[1:]] == [(edited.ref, edited.digest)]
    assert played.value == CLAIMED


@pytest.mark.parametrize("changes", [{"args_json": b'{"amount":7}'}, {"tool": "refund"}])
def test_a_call_that_was_edited_further_or_is_of_another_tool_is_not_this_one(changes: Any) -> None:
    played = begun_where_an_edit_stands(effect("ready", **changes))
    assert isinstance(played.error, KeyReused)
    assert len(played.commands) == 1


def test_47_in_a_later_turn_it_is_a_call_of_its_own() -> None:
    made = effect("succeeded", turn="t1")
    left = taking(made, ELSEWHERE, "eff_9", NOON, 4)
    call = ToolCall(tool="pay", args={"amount": 5}, run_id="run-1", dedupe="turn", turn="t2")
    asking = prepared(call)
    played = play(walk.begin(asking, CountingMint()), Canceled(left), made, CLAIMED)
    assert [(each.ref, each.digest) for each in played.commands[1:]] == [
        (repeat_of(asking.identity.ref, "turn", "1"), asking.identity.digest)
    ]


def test_where_the_edited_call_is_gone_its_place_stays_canceled() -> None:
    played = begun_where_an_edit_stands(None)
    assert isinstance(played.value, Canceled)
    assert len(played.commands) == 1


# ── editors ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def refused(answer: Any) -> tuple[str, str]:
    assert isinstance(answer, NotCounted), answer
    return answer.refusal.code, answer.refusal.why


def test_the_refusal_of_an_editor_names_who_may_decide_instead() -> None:
    for people, hint in (
        (None, "let another person decide"),
        ({"ada": Person(), "bo": Person()}, "let bo decide"),
        ({"ada": Person()}, "sole_approver: true"),
    ):
        shelf, approval = waiting(people=people)
        code, why = refused(shelf.do(cast(shelf.do(amend(approval, ADA, verdict=asks(people=people))).approval, ADA)))
        assert code == "self_approval"
        assert hint in why


def test_a_sole_approver_confirms_only_as_long_as_they_are_alone() -> None:
    later = Escalation(HOUR, {"bo": Person()})
    words: Any = {"people": {"ada": Person(), "agent": Person()}, "is_sole_approver": True, "escalations": (later,)}
    shelf, approval = waiting(**words)
    changed = shelf.do(amend(approval, ADA, verdict=asks(**words))).approval
    counted = shelf.do(cast(changed, ADA)).approval
    assert (counted.status, counted.votes[0].is_by_editor) == ("approved", True)
    alone = replace(changed, escalated=1)
    assert eligible(alone) == ("ada", "bo")
    assert isinstance(voted(alone, vote("bo"), alone.digest, "person", NOON), Approval)
    late = voted(alone, vote("ada"), alone.digest, "person", NOON)
    assert getattr(late, "code", None) == "self_approval"


# ── tokens ───────────────────────────────────────────────────────────────────────────────────────────────────────────

WITH_TOKEN = Actor("ada", "person", "api_key", credential="key_1")


def token(*, is_revoked: bool = False, version: int = 1) -> Any:
    made = Credential(
        id="key_1",
        version=version,
        name="ada",
        kind="person",
        scopes=("approver",),
        hash="ab" * 32,
        given_by="root",
        created_at=NOON,
        expires_at=NOON - timedelta(days=1),
        is_revoked=is_revoked,
    )
    return credential_sheet(made)


def test_a_token_that_is_revoked_gone_or_edited_by_hand_stands_for_nothing() -> None:
    ref = credential_ref("key_1")
    assert not is_token_revoked(None, {})
    assert not is_token_revoked("key_1", {ref: token()}), "that it expired is no matter: it was good when it was used"
    for sheet in (token(is_revoked=True), replace(token(), body=None), None):
        assert is_token_revoked("key_1", {ref: sheet})


def test_a_vote_with_a_token_counts_until_the_token_is_revoked() -> None:
    shelf, approval = waiting()
    shelf.sheets[credential_ref("key_1")] = token()
    voted = shelf.do(cast(approval, WITH_TOKEN)).approval
    assert voted.votes[0].credential == "key_1"
    shelf.sheets[credential_ref("key_1")] = token(is_revoked=True, version=2)
    assert isinstance(shelf.do(open_command(verdict=asks(), token="f" * 32, effect_id="eff_2")), AwaitingApproval)


def test_who_was_let_in_a_moment_before_does_not_vote_with_a_revoked_token() -> None:
    shelf, approval = waiting()
    shelf.sheets[credential_ref("key_1")] = token(is_revoked=True)
    assert refused(shelf.do(cast(approval, WITH_TOKEN)))[0] == "revoked"
    assert refused(shelf.do(amend(approval, WITH_TOKEN)))[0] == "revoked"


def test_needs_of_two_are_not_met_by_an_editor() -> None:
    shelf, approval = waiting()
    changed = shelf.do(amend(approval, CY, verdict=asks(Need(2)))).approval
    shelf.do(cast(changed, ADA))
    assert refused(shelf.do(cast(changed, CY)))[0] == "self_approval"
    assert shelf.do(cast(changed, BO)).approval.status == "approved"
