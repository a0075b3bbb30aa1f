"""Filters: what they say is what passes, what is wrong is named by its place, and what is hidden is never found."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indelible.core.approvals.approval import Approval, Need, Question, Vote, ask
from indelible.core.effects.effect import STATUSES, Effect
from indelible.core.filtering.filters import (
    NUMBER,
    UNITS,
    WORDS,
    Ago,
    Exactly,
    Like,
    Ordered,
    Query,
    Resource,
    Since,
    Text,
    Until,
    Word,
)
from indelible.core.filtering.matching import (
    Subject,
    approval_subject,
    effect_subject,
    event_subject,
    fits,
    run_subject,
)
from indelible.core.filtering.reading import LONGEST_AGO, MOST_CHARACTERS, MOST_TERMS, MOST_VALUES, parse
from indelible.core.policy.globs import Glob
from indelible.core.runs.run import Run
from indelible.core.values.canonical import encode
from indelible.core.values.tags import Encrypted, Redacted
from indelible.errors import BadFilter
from tests.core.making import AGENT, HOUR, NOON, effect

RESOURCES: tuple[Resource, ...] = get_args(Resource)
EVERYTHING = (
    "tool:stripe.* status:failed,denied run:run_ab agent:billing key:9f8f* args.amount:>1000 since:24h "
    '-tool:crm.get "a b"'
)


def of(**args: Any) -> Effect:
    """Gives an effect with these arguments."""
    return replace(effect(), args_json=encode(args))


def passes(text: str, one: Effect, now: datetime = NOON) -> bool:
    return fits(parse(text, "effects"), effect_subject(one, {"run-1": "billing"}.get), now)


# Reading


def test_a_filter_is_read_term_by_term() -> None:
    assert parse(EVERYTHING, "effects").terms == (
        Word("tool", (Like(Glob("stripe.*")),)),
        Word("status", (Exactly("failed"), Exactly("denied"))),
        Word("run", (Exactly("run_ab"),)),
        Word("agent", (Exactly("billing"),)),
        Word("key", (Like(Glob("9f8f*")),)),
        Word("args.amount", (Ordered(">", Decimal(1000)),)),
        Since(Ago(24, "h")),
        Word("tool", (Exactly("crm.get"),), is_excluded=True),
        Text("a b"),
    )


def test_quotes_take_every_meaning_away() -> None:
    assert parse(r'args.note:"a, b*","say \"hi\" \\",">5","" -"-x:y"', "effects").terms == (
        Word("args.note", (Exactly("a, b*"), Exactly('say "hi" \\'), Exactly(">5"), Exactly(""))),
        Text("-x:y", is_excluded=True),
    )
    assert parse("  plain,text* \t", "runs").terms == (Text("plain,text*"),)
    assert parse(" ", "runs") == Query("runs")


def test_times_are_so_long_ago_or_a_moment_in_utc() -> None:
    assert parse("since:2030-01-31 until:2030-01-31T12:00+02:00", "events").terms == (
        Since(datetime(2030, 1, 31, tzinfo=UTC)),
        Until(datetime(2030, 1, 31, 10, tzinfo=UTC)),
    )
    assert parse('since:"2030-01-31 10:00"', "events").terms == (Since(datetime(2030, 1, 31, 10, tzinfo=UTC)),)


@pytest.mark.parametrize(
    ("text", "column", "length", "says"),
    [
        ("tool:a colour:red", 8, 6, "use one of agent, approval, args.NAME"),
        ("tool:a status:failed,lost", 22, 4, "choose of these"),
        ("status:fail*", 8, 5, "choose of these"),
        ('tool:a "b c', 8, 4, "never closed"),
        ('tool:"a\\', 6, 3, "never closed"),
        ('a "b"c', 3, 4, "goes on behind its quote"),
        ('to"o"l:x', 1, 8, "in its middle"),
        ('tool:a"b"', 6, 4, "in its middle"),
        ("tool:", 1, 5, "lacks a value"),
        ("tool:a,,b", 1, 9, "lacks a value"),
        ("x -", 3, 1, "excludes nothing"),
        ('""', 1, 2, "is empty"),
        ("-since:1h", 2, 8, "opposite"),
        ("since:soon", 7, 4, "is no time"),
        ("since:99999999w", 7, 9, "leave it away"),
        ("until:0001-01-01T00:00+14:00", 7, 22, "is no time"),
        ("attempt:two", 9, 3, "is no number"),
        ("attempt:2*", 9, 2, "is no number"),
        ("tool:>a", 6, 2, "is no number"),
        ("tool:>5", 6, 2, "compares names"),
        ("args.:5", 1, 5, "names no argument"),
        ("args.a..b:5", 1, 9, "names no argument"),
        ("a\0b", 2, 1, "leave it away"),
        ("a\ud800", 2, 1, "leave it away"),
        ("x" * (MOST_CHARACTERS + 1), 1, MOST_CHARACTERS + 1, "say less"),
        ("x " * (MOST_TERMS + 1), 1, 2 * MOST_TERMS + 2, "say less"),
        ("tool:" + ",".join("x" * (MOST_VALUES + 1)), 1, 2 * MOST_VALUES + 6, "say less"),
    ],
)
def test_what_cannot_be_read_is_named_by_its_place_with_what_to_write(
    text: str, column: int, length: int, says: str
) -> None:
    with pytest.raises(BadFilter, match=says) as wrong:
        parse(text, "effects")
    assert (wrong.value.column, wrong.value.length) == (column, length)
    assert f"column {column}:" in str(wrong.value)


def test_each_resource_has_its_own_words() -> None:
    for resource, text in [("runs", "args.a:1"), ("events", "args.a:1"), ("effects", "actor:ana"), ("runs", "tool:x")]:
        with pytest.raises(BadFilter, match=f"no word for {resource}"):
            parse(text, resource)  # type: ignore[arg-type]


@given(st.text(alphabet=st.sampled_from('ab:,"*-<>=.\\ \t05hwargstolinceu\0é')) | st.text(), st.sampled_from(RESOURCES))
def test_whatever_is_written_is_read_or_refused_by_its_place(text: str, resource: Resource) -> None:
    try:
        query = parse(text, resource)
    except BadFilter as refused:
        wrong = refused
    else:
        assert parse(str(query), resource) == query
        return
    assert 1 <= wrong.column <= len(text) + 1
    assert wrong.column - 1 + wrong.length <= len(text)


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
EXACT = st.builds(Exactly, TEXTS)
LIKE = st.builds(lambda a, b: Like(Glob(f"{a}*{b}")), *[st.from_regex(r"[a-z.]{0,5}", fullmatch=True)] * 2)
ORDERED = st.builds(Ordered, st.sampled_from([">", ">=", "<", "<="]), st.decimals(-(10**9), 10**9, places=3))
UTC_TIMES = st.datetimes(min_value=datetime(1, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
MOMENTS = st.builds(Ago, st.integers(0, 5000), st.sampled_from(sorted(UNITS))) | UTC_TIMES
NAMES = st.lists(EXACT | LIKE, min_size=1, max_size=3).map(tuple)
ANYTHING = st.lists(EXACT | LIKE | ORDERED, min_size=1, max_size=3).map(tuple)
TERMS = st.one_of(
    st.builds(Word, st.sampled_from(["args.a", "args.b.0"]), ANYTHING, st.booleans()),
    st.builds(Word, st.just("tool"), NAMES, st.booleans()),
    st.builds(Word, st.just("status"), st.sampled_from(STATUSES).map(lambda one: (Exactly(one),)), st.booleans()),
    st.builds(Text, TEXTS.filter(bool), st.booleans()),
    st.builds(Since, MOMENTS),
    st.builds(Until, MOMENTS),
)  # fmt: skip


@given(st.lists(TERMS, max_size=6))
def test_what_a_filter_says_reads_as_the_same_filter(terms: list[Any]) -> None:
    query = Query("effects", tuple(terms))
    assert parse(str(query), "effects") == query


# Applying


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        ("", True),
        ("tool:pay", True),
        ("tool:p*", True),
        ("tool:PAY", False),
        ("tool:mail,pay", True),
        ("tool:mail", False),
        ("-tool:mail", True),
        ("-tool:pay", False),
        ("run:run-1 agent:billing side_effect:payment", True),
        ("agent:other", False),
        ("attempt:1 attempt:>0 attempt:<=1 attempt:>=1 attempt:<2", True),
        ("attempt:2", False),
        ("call:x", False),
        ("-call:x", True),
        ("args.amount:5", True),
        ("args.amount:5.0", True),
        ("args.amount:6", False),
        ("args.amount:five", False),
        ("args.amount:>4 args.amount:<5.5", True),
        ("args.amount:>5", False),
        ("args.amount:5*", False),
        ("args.name:Ann", True),
        ("args.name:A*", True),
        ("args.name:>1", False),
        ("args.yes:true args.none:null", True),
        ("args.yes:false", False),
        ("args.yes:>0", False),
        ("args.tags:vip", True),
        ("args.tags.0:new args.tags.1:vip", True),
        ("args.tags.2:vip", False),
        ("args.tags.first:vip", False),
        ("args.to.city:Rome", True),
        ("args.to:Rome", False),
        ("args.name.city:Rome", False),
        ("args.missing:null", False),
        ("args.exact:>1.05", True),
        ("rome", True),
        ("ROME vip PAY run-1", True),
        ("1.1", True),
        ("args.tenth:0.1", True),
        ("args.tenth:>0.1", False),
        ("args.tenth:>=0.1", True),
        ("city", True),
        ("paris", False),
        ("-paris", True),
        ("-rome", False),
    ],
)
def test_what_passes_is_what_the_filter_says(text: str, is_found: bool) -> None:
    one = of(
        amount=5,
        name="Ann",
        yes=True,
        none=None,
        tags=["new", "vip"],
        to={"city": "Rome"},
        exact=Decimal("1.1"),
        rate=0.5,
        tenth=0.1,
        raw=b"rome",
    )
    assert passes(text, one) is is_found


def test_periods_are_seen_from_now() -> None:
    one = replace(effect(), created_at=NOON - HOUR)
    assert passes("since:1h until:59m", one)
    assert passes("since:2030-01-02", one)
    assert not passes("since:59m", one)
    assert not passes("until:1h", one)
    query = parse("since:1h since:2h until:10m until:20m", "effects")
    assert (query.since(NOON), query.until(NOON)) == (NOON - HOUR, NOON - timedelta(minutes=20))
    assert (Query("runs").since(NOON), Query("runs").until(NOON)) == (None, None)
    assert parse(f"since:{LONGEST_AGO.days}d", "runs").since(NOON) == NOON - LONGEST_AGO


@pytest.mark.parametrize(
    "hidden",
    [
        of(secret=Redacted("ab" * 32)),
        replace(effect(), args_json=encode(Encrypted(bytes([1]) + b"s3cret" * 10))),
        replace(effect(), args_json=None),
        replace(effect(), args_json=b"{altered"),
    ],
)
def test_what_is_hidden_is_never_found_by_its_value_and_excluding_it_tells_nothing(hidden: Effect) -> None:
    for value in ("s3cret", "*", "null", ">0", "<0", "ab" * 32):
        assert not passes(f"args.secret:{value}", hidden)
        assert passes(f"-args.secret:{value}", hidden)
    assert not passes("s3cret", hidden)
    assert not passes("ab" * 32, replace(hidden, key="cd" * 32))


def test_results_and_errors_are_found_by_their_text() -> None:
    failed = replace(effect(), status="failed", detail_json=encode({"message": "card declined", "type": "Declined"}))
    assert passes("DECLINED status:failed", failed)


def test_runs_are_filtered_by_what_is_told_of_them() -> None:
    run = Run(id="order-1", agent="billing", intent="refund 7", parent="root", created_at=NOON, updated_at=NOON)
    for text, is_found in [
        ("run:order-*", True), ("agent:billing runtime:indelible parent:root status:active", True),
        ("refund", True), ("since:1s", True), ("until:1s", False), ("mail", False), ("parent:x", False),
    ]:  # fmt: skip
        assert fits(parse(text, "runs"), run_subject(run), NOON) is is_found, text
    assert not fits(parse("parent:*", "runs"), run_subject(replace(run, parent=None)), NOON)


def test_approvals_are_filtered_by_who_asked_and_who_voted_and_by_what_would_run() -> None:
    question = Question(rule="large", needs=(Need(2),))
    asked = ask("apr_1", of(amount=7), question, schema="", policy="p", requester=AGENT, principal="eve", now=NOON)
    asked = replace(asked, votes=(Vote(by="ana", via="process", at=NOON, is_approval=True),))
    subject = approval_subject(asked, lambda run: "billing", lambda _: b'{"amount":7}')
    for text, is_found in [
        ("actor:ana actor:agent requester:agent principal:eve rule:large", True), ("requester:ana", False),
        ("id:apr_1 effect:* run:run-1 agent:billing status:pending tool:pay", True), ("actor:bob", False),
        ("args.amount:>6", True), ("args.amount:<6", False), ("amount", True), ("large", True), ("since:0s", True),
    ]:  # fmt: skip
        assert fits(parse(text, "approvals"), subject, NOON) is is_found, text
    blind = approval_subject(asked)
    assert not fits(parse("args.amount:*", "approvals"), blind, NOON)
    assert not fits(parse("agent:*", "approvals"), blind, NOON)


def test_arguments_are_read_once_however_many_terms_ask_for_them() -> None:
    reads: list[str] = []
    question = Question(rule="large")
    asked = ask("apr_1", of(), question, schema="", policy="p", requester=AGENT, principal=None, now=NOON)

    def args_of(approval: Approval) -> bytes:
        reads.append(approval.id)
        return b'{"amount":7}'

    many = " ".join(f"-word{n} -args.b{n}:1" for n in range(20))
    assert fits(parse(many, "approvals"), approval_subject(asked, args_of=args_of), NOON)
    assert reads == [asked.id]


def event(body: Any) -> Subject:
    raw = body if isinstance(body, bytes) else json.dumps(body, sort_keys=True, separators=(",", ":")).encode()
    return event_subject("run-1", 3, "ab" * 32, raw, lambda run: "billing")


def test_events_are_filtered_by_their_bodies() -> None:
    told = event(
        {"actor": {"id": "ana"}, "at": "2030-01-02T12:00:00.000000Z", "effect": "eff_1", "facts": {"city": "Rome"},
         "status": "failed", "tool": "pay", "type": "tool_call_finished", "attempt": 2, "commits": {"args": "c0ffee"}}
    )  # fmt: skip
    for text, is_found in [
        ("actor:ana type:tool_call_* run:run-1 seq:3 attempt:>1 effect:eff_1 agent:billing id:evt_abab*", True),
        ("status:failed tool:pay since:0s rome", True), ("c0ffee", False), ("until:1s", False), ("actor:bo", False),
    ]:  # fmt: skip
        assert fits(parse(text, "events"), told, NOON) is is_found, text


@pytest.mark.parametrize("body", [b"{altered", {"at": "soon"}, {"at": "2030-01-02T12:00:00"}, {"actor": "ana"}, []])
def test_an_event_that_cannot_be_read_is_found_by_what_stands_beside_it(body: Any) -> None:
    assert fits(parse("run:run-1 -actor:ana", "events"), event(body), NOON)
    assert not fits(parse("since:9d", "events"), event(body), NOON)
    assert not fits(parse("until:0s", "events"), event(body), NOON)


# What a store can find by itself


def test_a_store_is_told_what_has_one_value() -> None:
    query = parse("status:failed tool:a,b -run:x side_effect:read run:y* key:z args.a:1 text", "effects")
    assert {name: query.only(name) for name in ("status", "tool", "run", "side_effect", "key", "scope")} == {
        "status": "failed", "tool": None, "run": None, "side_effect": "read", "key": "z", "scope": None,
    }  # fmt: skip
    assert (query.needs("args."), query.needs("agent"), query.needs_text()) == (True, False, True)
    assert not parse("tool:a", "effects").needs_text()


def test_every_word_can_be_asked_of_every_thing() -> None:
    """No word leads to something that a thing does not have."""
    run = Run(id="order-1", agent="billing", created_at=NOON, updated_at=NOON)
    asked = ask("apr_1", of(), Question(rule="r"), schema="", policy="p", requester=AGENT, principal=None, now=NOON)
    subjects = {
        "effects": effect_subject(of()), "runs": run_subject(run), "approvals": approval_subject(asked),
        "events": event({}),
    }  # fmt: skip
    assert WORDS.keys() == subjects.keys()
    for resource, words in WORDS.items():
        assert words
        for name, kind in words.items():
            value = kind[0] if isinstance(kind, tuple) else "1" if kind == NUMBER else "*"
            assert fits(parse(f"{name}:{value}", resource), subjects[resource], NOON) in (True, False)
