"""Promises of core.effects.identity: two calls have one key exactly when they are the same call."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indelible.core.effects.calls import Resource, ToolCall, check_run_id
from indelible.core.effects.identity import (
    DIGEST_TAG,
    KEY_TAG,
    REPEAT_TAG,
    Ref,
    identify,
    key_of,
    lasting_text,
    repeat_of,
    says_the_same,
    schema_hash,
)
from indelible.errors import BadCall, NotRecordable, TooLarge
from tests.core.making import effect

VECTORS: dict[str, list[dict[str, Any]]] = json.loads(
    (Path(__file__).parents[1] / "vectors" / "events.json").read_text(encoding="utf-8")
)
CHARGE = ToolCall(tool="charge", args={"amount": 5, "order": {"id": "7", "note": "x"}}, run_id="run-1")
RESOURCE = Resource(namespace="shop", type="order", id="7")


def key(call: ToolCall, tenant: str = "default") -> str:
    return identify(call, tenant).ref.key


def digest(call: ToolCall, tenant: str = "default") -> str:
    return identify(call, tenant).digest


# ── vectors ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("vector", VECTORS["keys"], ids=lambda vector: vector["name"])
def test_keys_are_those_of_the_reference_page(vector: dict[str, Any]) -> None:
    found = key_of(
        vector["tenant"],
        vector["scope"],
        vector["tool"],
        vector["kind"],
        vector["subject"].encode(),
        *([] if vector["occurrence"] is None else [vector["occurrence"]]),
    )
    assert found == vector["key"] == hashlib.sha256(bytes.fromhex(vector["preimage"])).hexdigest()


@pytest.mark.parametrize("vector", VECTORS["digests"], ids=lambda vector: vector["name"])
def test_digests_are_those_of_the_reference_page(vector: dict[str, Any]) -> None:
    resource = None
    if vector["resource"]:
        namespace, kind, name = json.loads(vector["resource"])
        resource = Resource(namespace=namespace, type=kind, id=name)
    call = ToolCall(tool=vector["tool"], args=json.loads(vector["args"]), resource=resource, run_id="default")
    assert digest(call, vector["tenant"]) == vector["digest"]
    assert vector["digest"] == hashlib.sha256(bytes.fromhex(vector["preimage"])).hexdigest()


@pytest.mark.parametrize("vector", VECTORS["repeats"], ids=lambda vector: vector["name"])
def test_repeats_are_those_of_the_reference_page(vector: dict[str, Any]) -> None:
    found = repeat_of(Ref("default", "order-123", vector["key"]), vector["call_id"])
    assert found == Ref("default", "order-123", vector["repeat"])
    assert vector["repeat"] == hashlib.sha256(bytes.fromhex(vector["preimage"])).hexdigest()


@pytest.mark.parametrize(
    ("call", "tenant", "name"),
    [
        (
            ToolCall(tool="stripe.charge", args={"currency": "eur", "amount": 1000}, run_id="order-123"),
            "default",
            "all arguments",
        ),
        (ToolCall(tool="ping", run_id="default"), "default", "no arguments"),
        (
            ToolCall(tool="refund", args={"order": {"id": "7"}, "why": "late"}, run_id="order-123", key=["order.id"]),
            "default",
            "key fields",
        ),
        (ToolCall(tool="close", args={"x": 1}, run_id="order-123", resource=RESOURCE), "acme", "resource"),
        (
            ToolCall(
                tool="stripe.charge",
                args={"amount": 1000, "currency": "eur"},
                run_id="order-123",
                call_id="call_1",
                dedupe="call",
            ),
            "default",
            "with a call id",
        ),
        (
            ToolCall(tool="notify", args={"to": "Zoë", "n": "🎁"}, run_id="another", scope="läuft"),
            "mandant-ä",
            "beyond ASCII",
        ),
    ],
)
def test_a_call_has_the_key_that_the_reference_page_computes(call: ToolCall, tenant: str, name: str) -> None:
    expected = next(vector["key"] for vector in VECTORS["keys"] if vector["name"] == name)
    assert key(call, tenant) == expected


# ── what makes two calls the same ────────────────────────────────────────────────────────────────────────────────────


def test_the_order_of_arguments_means_nothing() -> None:
    assert key(ToolCall(tool="t", args={"a": 1, "b": 2}, run_id="default")) == key(
        ToolCall(tool="t", args={"b": 2, "a": 1}, run_id="default")
    )


def test_a_scope_is_the_run_unless_it_is_named() -> None:
    assert identify(CHARGE, "default").ref.scope == "run-1"
    assert identify(replace(CHARGE, scope="webhook-9"), "default").ref.scope == "webhook-9"
    assert key(replace(CHARGE, scope="run-1")) == key(CHARGE)


def test_a_part_of_a_run_or_of_a_scope_is_a_range_of_its_own() -> None:
    """What joins the names, or cuts a long one, would make two servers of one run one."""
    long = "x" * 500
    ranges = [
        *(
            (run, None, part)
            for run in ("run-1", '["a"]', long)
            for part in ((), ("a",), ("a", "b"), ('a","b',), (long,))
        ),
        *(("run-1", scope, part) for scope in ("run-2", long + "y") for part in ((), ("a",), ("ä" * 150,))),
    ]
    calls = [replace(CHARGE, run_id=run[:500], scope=scope and scope[-500:], part=part) for run, scope, part in ranges]
    scopes = [identify(call, "default").ref.scope for call in calls]
    assert len(set(scopes)) == len({key(call) for call in calls}) == len(ranges)
    for call, scope in zip(calls, scopes, strict=True):
        assert replace(call, scope=scope, part=()).scope == scope, "it is not too long for one"
        if call.part:
            with pytest.raises(BadCall):
                check_run_id(scope)
    assert {digest(call) for call in calls} == {digest(CHARGE)}


def test_calls_of_two_runs_are_the_same_in_a_shared_scope_only() -> None:
    other_run = replace(CHARGE, run_id="run-2")
    assert key(CHARGE) != key(other_run)
    assert key(replace(CHARGE, scope="s")) == key(replace(other_run, scope="s"))


@pytest.mark.parametrize(
    "other",
    [
        replace(CHARGE, tool="refund"),
        replace(CHARGE, args={"amount": 6, "order": {"id": "7", "note": "x"}}),
        replace(CHARGE, run_id="run-2"),
        replace(CHARGE, scope="s"),
        replace(CHARGE, key=["amount"]),
        replace(CHARGE, resource=RESOURCE),
        replace(CHARGE, call_id="c1", dedupe="call"),
    ],
)
def test_every_part_of_the_identity_counts(other: ToolCall) -> None:
    assert key(other) != key(CHARGE)


def test_tenants_never_share_a_key_or_a_digest() -> None:
    assert key(CHARGE, "a") != key(CHARGE, "b")
    assert digest(CHARGE, "a") != digest(CHARGE, "b")


def test_the_call_id_counts_only_when_the_tool_says_so() -> None:
    first, second = replace(CHARGE, call_id="c1"), replace(CHARGE, call_id="c2")
    assert key(first) == key(second) == key(CHARGE)
    assert key(replace(first, dedupe="ask")) == key(CHARGE)
    assert key(replace(first, dedupe="call")) != key(replace(second, dedupe="call"))


def test_key_fields_alone_identify_a_call_whatever_their_order() -> None:
    keyed = replace(CHARGE, key=["amount", "order.id"])
    other_note = replace(keyed, args={"amount": 5, "order": {"id": "7", "note": "y"}})
    assert key(keyed) == key(other_note) == key(replace(keyed, key=("order.id", "amount")))
    assert digest(keyed) != digest(other_note)
    assert key(keyed) != key(replace(keyed, args={"amount": 5, "order": {"id": "8", "note": "x"}}))


@pytest.mark.parametrize("path", ["missing", "order.missing", "amount.inside", "order.id.deeper", "", "."])
def test_a_key_field_that_is_not_there_is_refused(path: str) -> None:
    with pytest.raises(BadCall, match="not among the arguments"):
        identify(replace(CHARGE, key=[path]), "default")


def test_a_key_field_that_is_none_is_there() -> None:
    assert key(ToolCall(tool="t", args={"a": None}, key=["a"], run_id="default")) != key(
        ToolCall(tool="t", args={"a": 0}, key=["a"], run_id="default")
    )


def test_a_resource_alone_identifies_a_call() -> None:
    one = replace(CHARGE, resource=RESOURCE)
    other_args = replace(one, args={"amount": 6})
    assert key(one) == key(other_args)
    assert digest(one) != digest(other_args)
    assert digest(one) != digest(CHARGE), "which thing is meant is content too"


def test_the_digest_is_of_the_content_and_not_of_the_occasion() -> None:
    occasions = [
        replace(CHARGE, run_id="run-2"),
        replace(CHARGE, scope="s"),
        replace(CHARGE, call_id="c", dedupe="call"),
        replace(CHARGE, key=["amount"]),
    ]
    assert {digest(call) for call in occasions} == {digest(CHARGE)}


def test_a_repeat_has_a_place_of_its_own_for_every_call_id() -> None:
    ref = identify(CHARGE, "default").ref
    places = {ref, repeat_of(ref, "c1"), repeat_of(ref, "c2"), repeat_of(repeat_of(ref, "c1"), "c2")}
    assert len(places) == 4
    assert {place.scope for place in places} == {"run-1"}


# ── types are kept ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("one", "other"),
    [(1, True), (0, False), (1, "1"), (None, "null"), ([], {}), ("", None), ([1, 2], [2, 1]), ("é", "e\u0301")],
)
def test_values_of_different_types_never_merge(one: object, other: object) -> None:
    assert key(ToolCall(tool="t", args={"a": one}, run_id="default")) != key(
        ToolCall(tool="t", args={"a": other}, run_id="default")
    )


def test_what_has_no_recorded_form_is_refused_with_its_path() -> None:
    with pytest.raises(NotRecordable) as refusal:
        identify(ToolCall(tool="t", args={"a": [object()]}, run_id="default"), "default")
    assert refusal.value.path == "args.a[0]"


def test_arguments_over_the_limit_are_refused() -> None:
    call = ToolCall(tool="t", args={"a": "x" * 100}, run_id="default")
    assert identify(call, "default", max_bytes=108).args_json == b'{"a":"' + b"x" * 100 + b'"}'
    with pytest.raises(TooLarge) as refusal:
        identify(call, "default", max_bytes=107)
    assert (refusal.value.limit, refusal.value.size) == (107, 108)


def test_a_resource_of_an_enum_is_that_of_its_value() -> None:
    class Kind(StrEnum):
        ORDER = "order"

    assert key(replace(CHARGE, resource=replace(RESOURCE, type=Kind.ORDER))) == key(replace(CHARGE, resource=RESOURCE))


# ── no choice of parts is another choice ─────────────────────────────────────────────────────────────────────────────

# Everything that a joined text could be confused by: the usual separators, lengths as they are written, and nothing.
tricky = st.text(alphabet=st.sampled_from("ab|/.:\n,\x01\x00\x02ä"), max_size=6) | st.sampled_from(
    ["", "args", "fields", "resource", "\x00\x00\x00\x01a", "a\x00\x00\x00\x01b", "indelible/key/v1\x00"]
)
parts = st.tuples(tricky, tricky, tricky, tricky, tricky.map(str.encode), st.none() | tricky)


@given(parts, parts)
def test_different_parts_have_different_keys(one: Any, other: Any) -> None:
    keys = [key_of(*parts[:5], *([] if parts[5] is None else [parts[5]])) for parts in (one, other)]
    assert (keys[0] == keys[1]) == (one == other)


@given(parts, st.integers(0, 4), st.integers(1, 5))
def test_moving_letters_from_one_part_to_the_next_makes_another_key(one: Any, at: int, count: int) -> None:
    texts = [part if isinstance(part, str) else (part or b"").decode() for part in one]
    moved = list(texts)
    moved[at], moved[at + 1] = texts[at][:-count], texts[at][-count:] + texts[at + 1]
    if moved != texts:
        assert key_of(*texts[:4], texts[4].encode(), texts[5]) != key_of(*moved[:4], moved[4].encode(), moved[5])


def test_a_missing_call_id_is_not_an_empty_one() -> None:
    assert key_of("t", "s", "o", "args", b"{}") != key_of("t", "s", "o", "args", b"{}", "")


@given(st.lists(tricky, min_size=3, max_size=3), st.lists(tricky, min_size=3, max_size=3))
def test_different_resources_have_different_keys(one: list[str], other: list[str]) -> None:
    def named(words: list[str]) -> ToolCall:
        return ToolCall(tool="t", resource=Resource(namespace=words[0], type=words[1], id=words[2]), run_id="default")

    assert (key(named(one)) == key(named(other))) == (one == other)
    assert (digest(named(one)) == digest(named(other))) == (one == other)


def test_a_key_is_never_also_a_digest_or_a_repeat() -> None:
    assert len({KEY_TAG, DIGEST_TAG, REPEAT_TAG}) == 3
    for tag in (KEY_TAG, DIGEST_TAG, REPEAT_TAG):
        assert tag.count(b"\0") == 1, "the tag's end is its only NUL, so no tag begins another"
        assert tag.endswith(b"/v1\0")


def test_the_kind_of_subject_counts_even_when_its_bytes_are_equal() -> None:
    subjects = {key_of("t", "s", "o", kind, b"{}") for kind in ("args", "fields", "resource")}
    assert len(subjects) == 3


# ── schemas ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_schema_is_known_by_a_hash_that_any_change_changes() -> None:
    schema = {"name": "pay", "description": "Pays.", "parameters": {"amount": {"type": "integer"}}}
    assert schema_hash(schema) == schema_hash(dict(reversed(schema.items())))
    others = [
        {**schema, "description": "Pays!"},
        {**schema, "parameters": {"amount": {"type": "number"}}},
        {**schema, "parameters": {}},
        {},
    ]
    assert len({schema_hash(schema), *map(schema_hash, others)}) == 5
    assert all(len(schema_hash(one)) == 64 for one in others)


# ── keys of other ledgers ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_call_that_another_ledger_knew_keeps_its_key_there_and_has_our_digest() -> None:
    adopted = replace(CHARGE, adopted_key="ab" * 32)
    assert identify(adopted, "default").ref == Ref("default", "run-1", "ab" * 32)
    assert digest(adopted) == digest(CHARGE)


def test_an_adopted_key_is_unique_in_its_scope_alone() -> None:
    adopted = replace(CHARGE, adopted_key="ab" * 32)
    assert identify(adopted, "default").ref != identify(replace(adopted, run_id="run-2"), "default").ref


def test_the_text_of_a_part_of_a_schema_is_the_same_in_every_process() -> None:
    one, other = object(), object()
    assert str(one) != str(other)
    assert lasting_text(one) == lasting_text(other)
    assert lasting_text("at most 0x10") == "at most 0x10"


def test_48_a_call_says_the_same_as_an_effect_said_first_whatever_was_made_of_it() -> None:
    first = effect("ready", tenant="default", digest=identify(CHARGE, "default").digest, args_json=b'{"edited":1}')
    assert says_the_same(replace(CHARGE, call_id="another"), first)
    assert not says_the_same(replace(CHARGE, args={"edited": 1}), first)
