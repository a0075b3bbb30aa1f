"""A body is accepted if and only if it is the one text that its content has."""

from __future__ import annotations

import json
from typing import Any

import pytest
import rfc8785
from hypothesis import example, given
from hypothesis import strategies as st

from indelible.core.effects.effect import Actor
from indelible.core.events import NO_EVENTS, Provenance, effect_event, fact_event, facts_json
from indelible.core.verifying.bodies import (
    EffectBody,
    canonical_text,
    commits_of,
    quoted,
    read_effect_body,
    read_fact_body,
    strict_json,
    time_of,
    unquoted,
)
from tests.core.making import NOON, effect
from tests.core.told import HASH, Teller

TEXTS = st.text(st.characters(blacklist_categories=["Cs"]), min_size=1, max_size=20)
NAMES = TEXTS.filter(lambda text: "\0" not in text).map(lambda text: f"n{text}")


@given(actor=NAMES, run=NAMES, log=NAMES, seq=st.integers(0, 2**53 - 1))
@example(actor='"\\\b\f\n\r\t\x1f\x7f\u2028é🎁', run="a", log="b", seq=0)
def test_every_event_that_is_written_is_read(actor: str, run: str, log: str, seq: int) -> None:
    head = NO_EVENTS._replace(length=seq)
    by, who = Provenance(log=log, writer="0" * 32), Actor(actor)
    words: Any = {"head": head, "at": NOON, "actor": who, "commits": {"args": HASH, "key": HASH}, "by": by}
    body = effect_event(effect=effect(run_id=run), event_type="tool_call_started", **words).decode()
    values = read_effect_body(body)
    assert values is not None
    read = EffectBody(*values)
    assert (unquoted(read.run), unquoted(read.log), unquoted(read.actor), int(read.seq)) == (run, log, actor, seq)
    assert commits_of(read.commits) == {"args": HASH, "key": HASH}
    assert time_of(body) == "2030-01-02T12:00:00.000000Z"
    facts = facts_json({actor.lstrip("$") or "a": [run, seq, None, True, {}]})
    told = read_fact_body(fact_event(run_id=run, event_type="noted", facts=facts, **words).decode())
    assert told is not None
    assert (unquoted(told.run), told.seq, told.type, told.commits) == (run, seq, "noted", {"args": HASH, "key": HASH})


@given(place=st.integers(0, 10_000), insert=st.text(max_size=2), cut=st.integers(0, 3))
@example(place=114, insert="", cut=1)  # "rgs" before "key"
@example(place=188, insert="args", cut=3)  # "args" twice
def test_a_changed_text_is_refused_or_is_canonical_itself(place: int, insert: str, cut: int) -> None:
    teller = Teller()
    for text in (teller.started().decode(), teller.fact("noted", {"a": 1, "b": ["é", "🎁"]}).decode()):
        at = place % len(text)
        changed = text[:at] + insert + text[at + cut :]
        if read_effect_body(changed) is not None or read_fact_body(changed) is not None:
            assert rfc8785.dumps(json.loads(changed)).decode() == changed
            assert json.loads(changed).keys() == json.loads(text).keys()


WRONG: dict[str, dict[str, Any]] = {
    "an actor with more": {"actor": {"id": "a", "kind": "agent", "via": "process", "x": 1}},
    "an actor of another kind": {"actor": {"id": "a", "kind": "robot", "via": "process"}},
    "a time without decimals": {"at": "2030-01-02T12:00:00Z"},
    "a thirteenth month": {"at": "2030-13-02T12:00:00.000000Z"},
    "a time that is a number": {"at": 1},
    "a commitment that is none": {"commits": {"args": "ab"}},
    "a commitment in capitals": {"commits": {"args": "AB" * 32}},
    "a commitment with a strange name": {"commits": {"Args": HASH}},
    "commitments in a list": {"commits": []},
    "a link that is none": {"prev": "ab"},
    "a number below zero": {"seq": -1},
    "a number that is a truth": {"seq": True},
    "another version": {"v": 2},
    "a version that is a truth": {"v": True},
    "a writer that is none": {"writer": "me"},
    "a type that is none": {"type": 1},
    "one member more": {"evil": 1},
}


@pytest.mark.parametrize("changes", WRONG.values(), ids=WRONG)
def test_a_member_that_is_not_as_it_should_be_is_refused(changes: dict[str, Any]) -> None:
    assert read_effect_body(Teller().started(**changes).decode()) is None
    assert read_fact_body(Teller().fact("noted", {}, **changes).decode()) is None


@pytest.mark.parametrize("name", ["attempt", "seq"])
def test_69_a_number_is_one_that_every_verifier_can_count_to(name: str) -> None:
    body, was = Teller().started().decode(), {"attempt": '"attempt":1,', "seq": '"seq":0,'}[name]
    assert was in body
    assert read_effect_body(body.replace(was, f'"{name}":{2**53 - 1},')) is not None
    for number in (2**53, 10**16 - 1, 10**16):
        assert read_effect_body(body.replace(was, f'"{name}":{number},')) is None


def test_a_fact_event_has_facts_and_nothing_of_effects() -> None:
    assert read_fact_body(Teller().fact("noted", [1]).decode()) is None
    assert read_fact_body(Teller().started().decode()) is None
    assert read_effect_body(Teller().fact("noted", {}).decode()) is None


@pytest.mark.parametrize("text", ["", "[]", "{", "1", '{"a":1.5}', '{"a":1e3}', '{"a":NaN}', '{"a":9007199254740992}'])
def test_what_is_no_event_is_refused(text: str) -> None:
    assert read_fact_body(text) is None
    assert time_of(text) is None


def test_what_is_nested_too_deep_is_refused() -> None:
    deep = "[" * 100_000 + "]" * 100_000
    assert read_fact_body(Teller().fact("noted", {"a": 1}).decode().replace('"a":1', f'"a":{deep}')) is None
    with pytest.raises(ValueError, match="too deep"):
        strict_json(deep)


def test_members_are_ordered_by_their_utf_16() -> None:
    value = {"\ufb01": 1, "🎁": [{"\ufb01": 2, "🎁": "é"}], "a": None}
    assert canonical_text(value).encode() == rfc8785.dumps(value)
    assert strict_json(canonical_text(value)) == value
    with pytest.raises(ValueError, match="canonically"):
        strict_json('{"b":1,"a":2}')
    with pytest.raises(ValueError, match="cannot stand"):
        strict_json("123456789012345678901234567890")
    assert quoted("a\nb") == "a\\nb"


def test_69_names_in_clear_do_not_begin_as_tags_do() -> None:
    for facts in ({"$x": 1}, {"x": {"$$x": 1}}, {"x": [1, {"$x": 1}]}):
        assert read_fact_body(Teller().fact("noted", facts).decode()) is None
    assert read_fact_body(Teller().fact("noted", {"x$": ["$x", {"y": {}}]}).decode()) is not None


def test_69_facts_are_nested_at_most_64_deep() -> None:
    nested: Any = []
    for _ in range(62):
        nested = [nested]
    assert read_fact_body(Teller().fact("noted", {"x": nested}).decode()) is not None
    assert read_fact_body(Teller().fact("noted", {"x": [nested]}).decode()) is None
