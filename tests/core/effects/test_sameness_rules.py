"""Which calls are the same: `varies`, `added`, defaults that change, turns; and what a reused key answers."""

from __future__ import annotations

import inspect
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indelible.core.approvals.approval import consumed
from indelible.core.commands import (
    AwaitingApproval,
    Claimed,
    EditUnread,
    InDoubt,
    InFlight,
    KeyTaken,
    LooksRepeated,
    Open,
    Replayed,
    Reworded,
)
from indelible.core.effects import walk
from indelible.core.effects.binding import bound
from indelible.core.effects.calls import Idempotent, Options, Resource, ToolCall, handling_of
from indelible.core.effects.claiming import has_other_injected
from indelible.core.effects.effect import Effect
from indelible.core.effects.identity import (
    RESOURCE_TAG,
    differing,
    hashed,
    identify,
    naming_of,
    resource_name,
    with_added,
    without,
)
from indelible.core.effects.refusing import key_reused
from indelible.core.policy.budgets import read_charges
from indelible.core.policy.said_verdicts import charging_themselves
from indelible.core.policy.verdicts import ALLOWED, keeping
from indelible.core.privacy.encryption import DataKey
from indelible.core.privacy.redaction import Redactor
from indelible.core.remote.admissible import check_digest
from indelible.core.values.canonical import encode
from indelible.errors import BadCall, KeyReused, RepeatRefused, ResourceBusy
from tests.core.effects.playing import CLAIMED, play, run
from tests.core.making import (
    ADA,
    AGENT,
    NOON,
    CountingMint,
    Shelf,
    asked,
    asks,
    cast,
    effect,
    finish,
    next_step,
    on_shelf,
    open_command,
    prepared,
    relinquish,
    vote,
)

SEQ = 7
HOUR = timedelta(hours=1)


def said(call: ToolCall) -> tuple[str, str]:
    found = identify(call, "t")
    return found.ref.key, found.digest


def called(**words: Any) -> ToolCall:
    return ToolCall(**{"tool": "pay", "run_id": "default", "args": {"order": "1", "amount": 5, "memo": "a"}, **words})


# Key and call digest

VALUES = st.integers(0, 2) | st.sampled_from(["", "a", "b"])
NAMES = ("a", "b", "c", "d")


@given(
    st.dictionaries(st.sampled_from(NAMES), VALUES, min_size=1),
    st.dictionaries(st.sampled_from(NAMES), VALUES, min_size=1),
    st.sets(st.sampled_from(NAMES)),
    st.dictionaries(st.sampled_from(NAMES), VALUES),
)
def test_two_calls_are_the_same_exactly_if_they_differ_only_in_what_varies_or_was_added(
    one: dict[str, Any], other: dict[str, Any], varies: set[str], added: dict[str, Any]
) -> None:
    def rest(args: dict[str, Any]) -> bytes:
        kept = {name: value for name, value in args.items() if name not in varies}
        return encode({name: value for name, value in kept.items() if encode(added.get(name)) != encode(value)})

    keys = [
        said(ToolCall(tool="pay", args=args, varies=sorted(varies), added=added, run_id="default"))
        for args in (one, other)
    ]
    assert (keys[0] == keys[1]) == (rest(one) == rest(other))
    assert (keys[0][0] == keys[1][0]) == (keys[0][1] == keys[1][1]), "key and digest agree"


@given(
    st.lists(st.sampled_from(NAMES), min_size=1, unique=True),
    st.dictionaries(st.sampled_from(NAMES), VALUES),
    st.dictionaries(st.sampled_from(["e", "f"]), VALUES, min_size=1),
    st.dictionaries(st.sampled_from(["e", "f"]), VALUES),
)
def test_a_deploy_that_adds_parameters_runs_no_finished_call_again(
    old: list[str], args: dict[str, Any], new: dict[str, Any], spoken: dict[str, Any]
) -> None:
    """Old and new workers side by side: the same call, exactly if what was added has its value as before."""

    def signature(names: dict[str, Any]) -> inspect.Signature:
        kind = inspect.Parameter.KEYWORD_ONLY
        return inspect.Signature([inspect.Parameter(name, kind, default=value) for name, value in names.items()])

    before = dict.fromkeys(old, 0)
    known = {name: value for name, value in args.items() if name in before}
    now = {name: value for name, value in spoken.items() if name in new}
    by_old = ToolCall(tool="pay", args=bound(signature(before), known, "pay"), run_id="default")
    by_new = ToolCall(
        tool="pay", args=bound(signature({**before, **new}), {**known, **now}, "pay"), added=new, run_id="default"
    )
    is_as_before = all(encode(now[name]) == encode(new[name]) for name in now)
    assert (said(by_old) == said(by_new)) == is_as_before


FIELDS = st.dictionaries(st.sampled_from(["a", "b"]), VALUES)
LATER = st.dictionaries(st.sampled_from(["e", "f"]), VALUES, min_size=1)


@given(FIELDS, LATER, LATER, st.sampled_from([None, ["order"], ["order.a", "order.e"]]))
def test_44_a_deploy_that_adds_fields_runs_no_finished_call_again(
    fields: dict[str, Any], new: dict[str, Any], now: dict[str, Any], key: list[str] | None
) -> None:
    """The same call, exactly if each field that was added has its value as before."""
    old_key = key and [path for path in key if path != "order.e"]
    fields, now = {"a": 0, **fields}, {**new, **{name: value for name, value in now.items() if name in new}}
    added = {f"order.{name}": value for name, value in new.items()}
    new_key = key and [path for path in key if path in (*old_key, *added)]  # type: ignore[misc]  # both are there
    by_old = said(called(args={"order": fields}, key=old_key))
    by_new = said(called(args={"order": {**fields, **now}}, key=new_key, added=added))
    is_as_before = all(encode(now[name]) == encode(new[name]) for name in new)
    assert (by_old == by_new) == is_as_before
    unchanged = said(called(args={"order": {**fields, **new}}, key=new_key, added=added))
    assert unchanged == by_old


@pytest.mark.parametrize("literal", [{"id": "x"}, {"id": "x", "e": 0}])
def test_44_a_field_of_an_argument_that_was_added_is_left_out_of_it(literal: dict[str, Any]) -> None:
    before = said(called(args={"order": "1"}))
    words = {"added": {"more": literal, "more.e": 0}}
    assert said(called(args={"order": "1", "more": {"id": "x", "e": 0}}, **words)) == before
    assert said(called(args={"order": "1", "more": {"id": "x", "e": 1}}, **words)) != before
    assert said(called(args={"order": "1", "more": {"id": "y", "e": 0}}, **words)) == said(
        called(args={"order": "1", "more": {"id": "y"}})
    )


def test_44_a_path_that_leads_nowhere_leaves_nothing_out() -> None:
    for order in ("1", None, ["1"], {}):
        assert said(called(args={"order": order}, added={"order.e": 0})) == said(called(args={"order": order}))


def test_44_a_field_that_the_call_itself_does_not_have_is_filled_into_no_older_one() -> None:
    added = {"order.e": 0, "order.f": 0, "note": ""}
    call = called(args={"order": {"e": 0}}, added=added)
    assert prepared(call).added == {"order.e": 0, "note": ""}


def test_44_recorded_arguments_get_what_was_added_where_there_is_a_place_for_it() -> None:
    added = {"more.deep.e": 1, "more": {"deep": {}}, "order.e": 0, "note.e": 5, "kept.e": 0}
    args: dict[str, Any] = {"order": {"id": "1"}, "note": "", "kept": {"e": 7}}
    more = {"deep": {"e": 1}}
    assert with_added(args, added) == {"order": {"id": "1", "e": 0}, "note": "", "kept": {"e": 7}, "more": more}


def test_a_default_that_changes_its_value_makes_another_call() -> None:
    assert said(called(args={"order": "1", "amount": 5})) != said(called(args={"order": "1", "amount": 7}))
    by_key = [identify(called(args={"order": "1", "amount": amount}, key=["order"]), "t") for amount in (5, 7)]
    assert by_key[0].ref == by_key[1].ref
    assert by_key[0].digest != by_key[1].digest, "so that under one key it is seen"


def test_schema_policy_and_run_are_in_neither() -> None:
    """A deploy, a new policy or a longer conversation turns no replay into a conflict."""
    assert said(called(schema="a")) == said(called(schema="b"))
    assert said(called(scope="s", run_id="1")) == said(called(scope="s", run_id="2"))


def test_what_varies_may_be_inside_and_what_is_not_there_does_not_matter() -> None:
    inner = [{"to": {"name": "n", "note": note}, "x": 1} for note in "ab"]
    words: Any = {"varies": ["to.note", "x.y", "not.there", "to.note.deeper"]}
    assert said(called(args=inner[0], **words)) == said(called(args=inner[1], **words))
    assert said(called(args=inner[0])) != said(called(args=inner[1]))


def test_an_added_key_field_is_left_out_of_the_key_at_its_value_as_before() -> None:
    old = called(args={"order": "1"}, key=["order"])
    words: Any = {"key": ["order", "currency"], "added": {"currency": "usd"}}
    assert said(called(args={"order": "1", "currency": "eur"}, **words)) != said(old)
    assert said(called(args={"order": "1", "currency": "usd"}, **words))[1] == said(old)[1]
    as_before = identify(called(args={"order": "1", "currency": "usd"}, **words), "t")
    assert as_before.ref == identify(replace(old, key=["order"]), "t").ref
    assert as_before.omitted == ("currency",)


@pytest.mark.parametrize(
    "words",
    [
        {"varies": "memo"},
        {"varies": ["order"], "key": ["order"]},
        {"varies": ["to.name"], "key": ["to.id"]},
        {"added": {"x": object()}},
        {"on_reuse": "maybe"},
        {"dedupe": "turns"},
        {"turn": ""},
    ],
    ids=lambda words: "-".join(words),
)
def test_words_that_make_no_sense_are_refused(words: dict[str, Any]) -> None:
    with pytest.raises(BadCall):
        called(**words)


def test_a_call_id_counts_within_its_turn() -> None:
    """A model may number the calls of every turn from zero."""
    first, second, none = (called(dedupe="call", call_id="call_0", turn=turn) for turn in ("1", "2", None))
    assert len({said(one)[0] for one in (first, second, none)}) == 3
    assert said(called(dedupe="turn", turn="1")) == said(called(dedupe="turn", turn="2")) == said(called())


def test_a_digest_from_afar_is_checked_without_what_varies() -> None:
    found = identify(called(varies=["memo"]), "default")
    command = open_command(
        ref=found.ref, digest=found.digest, args_json=found.args_json, omitted=found.omitted, turn="m1"
    )
    check_digest(command)
    for changed in ({"omitted": ()}, {"omitted": ("memo", "amount")}, {"args_json": encode({"order": "2"})}):
        with pytest.raises(BadCall, match="digest"):
            check_digest(replace(command, **changed))


# A key that is taken


def taken(status: str, given: dict[str, Any], **changes: Any) -> KeyReused:
    recorded = effect(status, args_json=encode({"order": "1", "amount": 500}), **changes)
    return key_reused(prepared(called(args=given, key=["order"])), recorded)


def test_a_reused_key_carries_the_recorded_outcome_and_what_differs() -> None:
    error = taken(
        "succeeded", {"order": "1", "amount": 9900, "note": "x"}, detail_json=b'{"refunded":500}', detail_seq=3
    )
    assert error.differing == {"amount": (500, 9900), "note": (None, "x")}
    assert getattr(error.outcome, "value", None) == {"refunded": 500}
    assert error.effect is not None
    assert "500" not in str(error), "what is logged names the fields, and holds no value"
    assert taken("processing", {"order": "1"}).outcome is None
    assert KeyReused("x").outcome is None


@pytest.mark.parametrize("args_json", [None, b'{"$encrypted":["k","AA=="]}', b"7"])
def test_where_the_record_cannot_tell_nothing_is_said_to_differ_wrongly(args_json: Any) -> None:
    recorded = effect("succeeded", args_json=args_json)
    assert set(key_reused(prepared(called(args={"order": "1"})), recorded).differing) <= {"order"}


def test_differing_tells_types_apart() -> None:
    assert differing({"a": 1, "b": None}, {"a": True}) == {"a": (1, True)}


# Turns


def turned(turn: str | None, **words: Any) -> Open:
    return open_command(dedupe="turn", turn=turn, **words)


@pytest.mark.parametrize("status", ["succeeded", "failed", "denied", "canceled"])
def test_what_ended_in_an_earlier_turn_looks_repeated(status: str) -> None:
    before = effect(status, turn="1")
    assert isinstance(next_step(turned("2"), before, NOON, SEQ).answer, LooksRepeated)
    for same in (turned("1"), turned(None), open_command(turn="2")):
        assert not isinstance(next_step(same, before, NOON, SEQ).answer, LooksRepeated)
    assert not isinstance(next_step(turned("2"), effect(status), NOON, SEQ).answer, LooksRepeated)


@pytest.mark.parametrize("status", ["requires_approval", "ready", "processing", "in_doubt"])
def test_what_is_open_goes_on_in_a_later_turn(status: str) -> None:
    """What may have happened is not tried again, and what waits is not asked twice."""
    before = effect(status, turn="1")
    assert not isinstance(next_step(turned("2"), before, NOON, SEQ).answer, LooksRepeated)
    if status == "in_doubt":
        assert isinstance(next_step(turned("2"), before, NOON, SEQ).answer, InDoubt)


def in_turn(turn: str, **options: Any) -> Any:
    call = ToolCall(tool="pay", args={"amount": 5}, run_id="run-1", dedupe="turn", turn=turn)
    return {"call": call, "await_inclusion": False, **options}


@pytest.mark.parametrize(
    ("options", "is_asked"),
    [
        ({"side_effect": "payment"}, True),
        ({}, True),
        ({"side_effect": "delegation"}, True),
        ({"side_effect": "notification"}, False),
        ({"side_effect": "write"}, False),
        ({"side_effect": "payment", "on_repeat": "run"}, False),
        ({"side_effect": "notification", "on_repeat": "ask"}, True),
    ],
    ids=str,
)
def test_a_later_turn_asks_about_what_succeeded(options: dict[str, Any], is_asked: bool) -> None:
    before = effect("succeeded", turn="1")
    replayed = Replayed(before)
    played = run(LooksRepeated(before), replayed, **in_turn("2", **options))
    first, second = played.commands
    assert second.ref != first.ref
    assert (second.verdict.question is not None) == is_asked
    assert (second.dedupe, second.turn) == ("turn", "2"), "a turn that ended at the next place is passed by as well"


@pytest.mark.parametrize("between", [[], ["failed"], ["succeeded"], ["denied", "succeeded", "failed"]])
@pytest.mark.parametrize("first", ["failed", "succeeded"])
def test_every_turn_before_is_looked_at(first: str, between: list[str]) -> None:
    ended = [effect(status, turn=str(number)) for number, status in enumerate([first, *between])]
    played = run(*map(LooksRepeated, ended), Replayed(ended[-1]), **in_turn("9"))
    assert len({command.ref for command in played.commands}) == len(ended) + 1
    assert (played.commands[-1].verdict.question is not None) == ("succeeded" in [first, *between])


def test_what_is_in_doubt_in_any_turn_before_is_the_same_call() -> None:
    doubtful = effect("in_doubt", turn="2")
    played = run(LooksRepeated(effect("failed", turn="1")), InDoubt(doubtful), **in_turn("3"))
    assert getattr(played.error, "effect", None) is doubtful


def test_a_later_turn_runs_what_did_not_succeed() -> None:
    before = effect("failed", turn="1")
    second = run(LooksRepeated(before), Replayed(effect("succeeded")), **in_turn("2", side_effect="payment")).commands[
        1
    ]
    assert second.verdict.question is None


def test_a_tool_may_refuse_repeats() -> None:
    before = effect("succeeded", turn="1", detail_json=b"7", detail_seq=2)
    error = run(LooksRepeated(before), **in_turn("2", on_repeat="refuse")).error
    assert isinstance(error, RepeatRefused)
    assert error.effect is before
    assert getattr(error.outcome, "value", None) == 7


def from_argument(message: str, **words: Any) -> ToolCall:
    told: Any = {"dedupe": "turn", "turn": message, "turn_from": "at.message", **words}
    return called(args={"order": "1", "at": {"message": message, "shop": "a"}}, **told)


@pytest.mark.parametrize(
    ("words", "are_same"),
    [
        ({}, True),
        ({"key": ["order"]}, True),
        ({"key": ["at.shop"]}, True),
        ({"varies": ["at.message"]}, True),
        ({"resource": Resource(namespace="shop", type="order", id="1")}, True),
        ({"key": ["at"]}, False),
        ({"key": ["at.message"]}, False),
        ({"dedupe": "args"}, False),
    ],
    ids=str,
)
def test_53_the_argument_that_names_the_turn_tells_no_calls_apart(words: Any, are_same: bool) -> None:
    one, other = from_argument("m1", **words), from_argument("m2", **words)
    assert (said(one) == said(other)) is are_same
    assert said(one) != said(from_argument("m1", **words, tool="refund"))
    found, naming = identify(one, "t"), naming_of(one)
    assert naming.key(found.ref, "pay", found.args_json) in (None, found.ref.key)


# Words that vary


def reworded(memo: str, **words: Any) -> Open:
    found = identify(
        ToolCall(tool="pay", args={"amount": 5, "memo": memo}, varies=["memo"], run_id="default"), "default"
    )
    mine = {"ref": found.ref, "digest": found.digest, "args_json": found.args_json, "omitted": found.omitted}
    return open_command(**{**mine, **words})


def test_an_open_call_with_other_words_is_the_recorded_one() -> None:
    shelf = Shelf()
    begun = shelf.do(reworded("a"))
    shelf.do(relinquish(begun.claim, "ready"))
    told = shelf.do(reworded("b"))
    assert isinstance(told, Reworded)
    assert told.effect.args == {"amount": 5, "memo": "a"}
    again = shelf.do(reworded("a"))
    assert isinstance(again, Claimed)
    assert isinstance(shelf.do(finish(again.claim)).effect, Effect)
    assert isinstance(shelf.do(reworded("c")), Replayed)
    assert isinstance(shelf.do(reworded("c", digest="ee" * 32)), KeyTaken)


def test_a_hand_in_the_database_is_no_rewording() -> None:
    """What vary are words: another amount is not run, however the row got it."""
    shelf = Shelf()
    begun = shelf.do(reworded("a"))
    released = shelf.do(relinquish(begun.claim, "ready")).effect
    altered = replace(released, args_json=encode({"amount": 5000, "memo": "a"}))
    assert not isinstance(next_step(reworded("b"), altered, NOON, SEQ).answer, Reworded | Claimed)


def test_words_that_an_approver_changed_are_no_other_wording_of_the_callers() -> None:
    shelf = Shelf()
    first = shelf.do(reworded("a", verdict=asks()))
    edited = replace(first.approval, editors=("ada",))
    waiting = replace(first.effect, args_json=encode({"amount": 5, "memo": "edited"}))
    assert not isinstance(next_step(reworded("a"), waiting, NOON, SEQ, on_shelf(edited)).answer, Reworded)
    shelf.do(cast(first.approval, ADA))
    assert isinstance(shelf.do(reworded("b", verdict=asks())), Reworded)


def test_a_reworded_call_is_judged_and_claimed_with_the_recorded_words() -> None:
    call = ToolCall(tool="pay", args={"amount": 5, "memo": "b"}, run_id="run-1", varies=["memo"])
    recorded = effect("ready", args_json=encode({"amount": 5, "memo": "a"}))
    played = run(Reworded(recorded), CLAIMED, lambda _: _returned(), _moved(), call=call)
    first, second = played.commands[:2]
    assert (first.args_json, second.args_json) == (encode(dict(call.args)), recorded.args_json)
    assert [judge.prepared.identity.args_json for judge in played.judged] == [first.args_json, second.args_json]
    assert first.digest == second.digest


def _returned() -> Any:
    from indelible.core.effects.requests import Returned

    return Returned("ok")


def _moved() -> Any:
    from tests.core.effects.playing import MOVED

    return MOVED


def test_encrypted_bytes_tell_nothing_of_words() -> None:
    """The same arguments have other bytes under another key, so their caller opens them, and judges what would run."""
    secret = DataKey(b"\2" * 16, b"\1" * 32)
    command = reworded("a")
    hidden = effect("ready", digest=command.digest, args_json=secret.encrypt(command.args_json, command.ref, "args"))
    assert isinstance(next_step(command, hidden, NOON, SEQ).answer, EditUnread)


@pytest.mark.parametrize("rule", ["args.card", "args.memo"])
def test_recorded_words_that_are_redacted_are_not_run(rule: str) -> None:
    """This caller has its own words alone, and what was shown and approved must run."""
    redactor = Redactor((rule,), b"\2" * 32, "default")
    screens = [redactor.screen(encode({"amount": 5, "card": "4242", "memo": memo})) for memo in ("a", "b")]
    call = ToolCall(tool="pay", args={}, run_id="run-1", varies=["memo"])
    found = [identify(call, "default", args_json=screen.recorded_args) for screen in screens]
    assert found[0].digest == found[1].digest
    mine = replace(prepared(call), identity=found[1], screen=screens[1], plain_args_json=screens[1].args_json)
    recorded = effect("ready", args_json=screens[0].recorded_args)
    played = play(walk.begin(mine, CountingMint()), Reworded(recorded), *([CLAIMED] if rule == "args.card" else []))
    if rule == "args.memo":
        assert isinstance(played.error, KeyReused)
        return
    assert played.commands[1].args_json == recorded.args_json
    plain = played.judged[1].prepared.plain_args_json
    assert plain == encode({"amount": 5, "card": "4242", "memo": "a"}), "rules see the recorded words and own secrets"


def test_without_takes_out_only_what_is_named() -> None:
    raw = encode({"a": 1, "b": {"c": 2, "d": 3}, "e": [1]})
    assert without(raw, ()) is raw
    assert without(raw, ("b.c", "e.x", "z")) == encode({"a": 1, "b": {"d": 3}, "e": [1]})


# Sent again within the provider's window


def sent_again(window: timedelta | None, age: timedelta, on_crash: str = "resend", **words: Any) -> Any:
    doubtful = effect("in_doubt", on_crash=on_crash, created_at=NOON - age, **words)
    return next_step(open_command(on_crash=on_crash, resend_within=window), doubtful, NOON, SEQ).answer


def test_an_effect_in_doubt_is_sent_again_within_the_window_and_never_after() -> None:
    assert isinstance(sent_again(HOUR, HOUR - timedelta(microseconds=1)), Claimed)
    for answer in (sent_again(HOUR, HOUR), sent_again(None, timedelta(0)), sent_again(HOUR, timedelta(0), "hold")):
        assert isinstance(answer, InDoubt)
    assert isinstance(sent_again(None, HOUR * 99, "retry"), Claimed)


def test_an_abandoned_attempt_is_sent_again_too() -> None:
    left = effect("processing", lease_until=NOON, on_crash="resend", created_at=NOON - HOUR / 2)
    for window, expected in ((HOUR, Claimed), (HOUR / 4, InDoubt)):
        command = open_command(on_crash="resend", resend_within=window)
        assert isinstance(next_step(command, left, NOON, SEQ).answer, expected)


def waited(asked_at: datetime, voted_at: datetime) -> Any:
    """Call again what a person was asked about and let run, and whose answer got lost; the window is an hour."""
    _, pending = asked(effect("requires_approval", on_crash="resend", created_at=NOON - HOUR * 5))
    votes = (replace(vote("bo"), at=voted_at),)
    used = consumed(replace(pending, status="approved", asked_at=asked_at, votes=votes), 1)
    doubtful = replace(effect("in_doubt", on_crash="resend", created_at=NOON - HOUR * 5), permission_id=used.id)
    command = open_command(on_crash="resend", resend_within=HOUR, verdict=asks())
    return next_step(command, doubtful, NOON, SEQ, on_shelf(used)).answer


def test_a_call_that_waited_for_a_person_counts_its_window_from_the_question() -> None:
    assert not isinstance(waited(NOON - HOUR / 2, NOON - HOUR / 4), InDoubt)
    assert isinstance(waited(NOON - HOUR, NOON - HOUR / 4), InDoubt)


def test_37_a_voter_whose_clock_is_fast_does_not_stretch_the_window() -> None:
    assert isinstance(waited(NOON - HOUR * 2, NOON + HOUR * 9), InDoubt)


def test_37_a_vote_after_the_first_entry_does_not_stretch_the_window() -> None:
    _, pending = asked(effect("requires_approval", on_crash="resend", created_at=NOON - HOUR * 5))
    voted = replace(pending, status="approved", votes=(replace(vote("bo"), at=NOON - HOUR / 2),))
    again = consumed(replace(voted, id="apr_2"), 2)
    doubtful = effect("in_doubt", on_crash="resend", created_at=NOON - HOUR * 5, attempt=2)
    doubtful = replace(doubtful, permission_id=again.id)
    command = open_command(on_crash="resend", resend_within=HOUR, verdict=asks())
    assert isinstance(next_step(command, doubtful, NOON, SEQ, on_shelf(again)).answer, InDoubt)


@pytest.mark.parametrize("first", ["retry", "resend", "hold"])
@pytest.mark.parametrize("now", ["retry", "resend", "hold"])
def test_39_an_effect_in_doubt_is_entered_again_only_if_both_calls_allow_it(first: Any, now: Any) -> None:
    doubtful = effect("in_doubt", on_crash=first, created_at=NOON - HOUR / 2)
    command = open_command(on_crash=now, resend_within=HOUR)
    is_held = "hold" in (first, now)
    assert isinstance(next_step(command, doubtful, NOON, SEQ).answer, InDoubt if is_held else Claimed)


def test_37_only_the_holder_of_the_newest_attempt_tries_again_what_it_gave_up_in_doubt() -> None:
    kept = effect("in_doubt", token="cc" * 16, lease_until=NOON + HOUR)
    for again, expected in (("cc" * 16, Claimed), ("dd" * 16, InFlight), (None, InFlight)):
        assert isinstance(next_step(open_command(again=again), kept, NOON, SEQ).answer, expected)
    assert isinstance(next_step(open_command(), kept, NOON + HOUR, SEQ).answer, InDoubt)
    assert (kept.is_overdue(NOON), kept.is_overdue(NOON + HOUR)) == (False, True), "whoever waits is woken"


def test_37_who_tries_again_is_told_of_the_doubt_where_a_person_would_be_asked() -> None:
    kept = effect("in_doubt", token="cc" * 16, lease_until=NOON + HOUR)
    step = next_step(open_command(again="cc" * 16, verdict=asks()), kept, NOON, SEQ)
    assert (isinstance(step.answer, InDoubt), step.changes) == (True, ())


@pytest.mark.parametrize("words", [{"window": timedelta(0)}, {"attempts": 0}], ids=str)
def test_a_window_is_longer_than_nothing(words: Any) -> None:
    with pytest.raises(BadCall):
        Idempotent(**words)


def test_downstream_decides_what_happens_after_a_crash() -> None:
    assert handling_of(Options(downstream=Idempotent())).on_crash == "resend"
    assert handling_of(Options(downstream=Idempotent(), side_effect="read")).on_crash == "retry"
    assert handling_of(Options(downstream=Idempotent(), on_crash="hold")).on_crash == "hold"
    for wrong in ({"on_crash": "resend"}, {"downstream": Idempotent(), "on_crash": "retry"}, {"volatile": "sent_at"}):
        with pytest.raises(BadCall):
            Options(**wrong)  # type: ignore[arg-type]


# One open call per resource

ORDER = Resource(namespace="shop", type="order", id="1")


def on_order(key: str, **words: Any) -> Open:
    return open_command(
        ref=open_command().ref._replace(key=key * 32), effect_id=f"eff_{key}", token=key * 16,
        verdict=replace(ALLOWED, charges=(keeping(resource_name(ORDER)),)), **words,
    )  # fmt: skip


@pytest.mark.parametrize("status", ["succeeded", "failed"])
def test_two_calls_on_one_resource_are_not_open_at_once(status: Any) -> None:
    shelf = Shelf()
    first = shelf.do(on_order("aa"))
    assert type(shelf.do(on_order("bb"))).__name__ == "OverBudget"
    shelf.do(relinquish(first.claim, "in_doubt"))
    assert type(shelf.do(on_order("bb"))).__name__ == "OverBudget", "also while the first is in doubt"
    shelf.do(finish(first.claim, status, b'"x"' if status == "succeeded" else b'{"message":"no","type":"E"}'))
    second = shelf.do(on_order("bb"))
    assert isinstance(second, Claimed), "at once, in the same instant"
    assert read_charges(second.claim.effect.charges_json)[0].is_of_resource


def test_a_busy_resource_is_told_as_such() -> None:
    from indelible.core.commands import OverBudget
    from indelible.core.policy.budgets import Exceeded

    charge = keeping(resource_name(ORDER))
    error = run(OverBudget(Exceeded(charge, charge.amount))).error
    assert isinstance(error, ResourceBusy)
    assert charge.resource in str(error)


def test_resources_are_named_apart() -> None:
    others = [Resource(namespace='shop","order', type="1", id=""), replace(ORDER, id="2"), replace(ORDER, id="1" * 500)]
    assert len({resource_name(one) for one in (ORDER, *others)}) == 4
    long = encode(["shop", "order", "1" * 500], root="resource")
    assert resource_name(others[2]) == hashed(RESOURCE_TAG, long)


def test_a_resource_is_kept_for_all_and_not_for_one_agent_alone() -> None:
    verdict = replace(ALLOWED, charges=(keeping("x"), replace(keeping("x"), budget="own")))
    kept, own = charging_themselves(verdict, AGENT).charges
    assert kept == keeping("x")
    assert own.budget == f"of {AGENT.id}: own"


# What a framework supplies


def supplied(account: str, **words: Any) -> Open:
    args = encode({"order": "1", "account": account})
    call = called(args={"order": "1", "account": account}, injected=["account"])
    found = identify(call, "t")
    names = {"omitted": found.omitted, "injected": ("account",), "digest": found.digest}
    return open_command(tool="pay", args_json=args, **names, **words)


def test_89_what_a_framework_supplies_is_in_neither_key_nor_call_digest() -> None:
    one = said(called(args={"order": "1", "account": "acme"}, injected=["account"]))
    assert one == said(called(args={"order": "1", "account": "mallory"}, injected=["account"]))
    assert one == said(called(args={"order": "1"}))


@pytest.mark.parametrize("status", ["succeeded", "failed", "denied", "canceled"])
def test_89_what_has_ended_replays_whatever_is_supplied_now(status: Any) -> None:
    first = supplied("acme")
    there = effect(tool="pay", args_json=first.args_json, digest=first.digest, status=status, attempt=1)
    assert next_step(supplied("mallory"), there, NOON, SEQ).changes == ()


def test_89_an_approval_of_what_was_supplied_before_is_stale() -> None:
    waiting = next_step(supplied("acme", verdict=asks()), None, NOON, SEQ)
    assert isinstance(waiting.answer, AwaitingApproval)
    there, shelf = waiting.answer.effect, on_shelf(waiting.answer.approval)
    again = next_step(supplied("mallory", verdict=asks(), effect_id="eff_2"), there, NOON, SEQ + 1, shelf)
    assert isinstance(again.answer, AwaitingApproval)
    assert (again.answer.approval.replaces, len(again.changes)) == (waiting.answer.approval.id, 2)
    assert b"mallory" in (again.answer.effect.args_json or b"")
    same = next_step(supplied("acme", verdict=asks()), there, NOON, SEQ + 1, shelf)
    assert same.changes == ()


def test_89_an_open_call_asks_if_what_is_supplied_changed() -> None:
    first = supplied("acme")
    ready = effect(args_json=first.args_json, digest=first.digest, status="ready")
    assert isinstance(next_step(supplied("acme"), ready, NOON, SEQ).answer, Claimed)
    assert isinstance(next_step(supplied("mallory"), ready, NOON, SEQ).answer, AwaitingApproval)
    doubtful = replace(ready, status="in_doubt", on_crash="retry", side_effect="read")
    assert isinstance(next_step(supplied("mallory", on_crash="retry"), doubtful, NOON, SEQ).answer, AwaitingApproval)


def test_89_under_a_data_key_the_core_cannot_tell_what_is_supplied() -> None:
    first = supplied("acme")
    ready = effect(args_json=encode("sealed"), digest=first.digest, status="ready")
    assert not has_other_injected(first, ready)
    assert not has_other_injected(replace(first, injected=()), ready)
    assert not has_other_injected(first, replace(ready, args_json=None))
