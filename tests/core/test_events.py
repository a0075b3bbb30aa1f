"""Promises of core.events: bodies are canonical bytes, chained, and tell nothing they should not."""

from __future__ import annotations

import hashlib
import json
import re
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any, get_args

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from indelible.core.effects.calls import OnCrash, SideEffect
from indelible.core.effects.effect import Actor, Status
from indelible.core.events import (
    MOST_BODY_BYTES,
    NO_EVENTS,
    Event,
    Head,
    Provenance,
    commitment,
    effect_event,
    event_hash,
    instant,
    moment_after,
)
from indelible.core.verifying.moves import ADOPTED
from tests.core.making import BY, EVENT_TYPES, NOON, effect

HERE = Path(__file__).parent
VECTORS: dict[str, list[dict[str, Any]]] = json.loads((HERE / "vectors" / "events.json").read_text(encoding="utf-8"))
PAGE = (HERE.parents[1] / "docs" / "reference" / "events.md").read_text(encoding="utf-8")
FIELDS = [
    "actor", "at", "attempt", "commits", "effect", "log", "on_crash", "prev", "run", "seq", "side_effect", "status",
    "tool", "type", "v", "writer",
]  # fmt: skip


def body_of(**changes: Any) -> bytes:
    words: dict[str, Any] = {
        "effect": effect("succeeded"),
        "head": NO_EVENTS,
        "event_type": "tool_call_finished",
        "at": NOON,
        "actor": Actor("ada"),
        "commits": {},
        "by": BY,
    }
    return effect_event(**{**words, **changes})


# ── vectors ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("vector", VECTORS["events"], ids=lambda vector: vector["name"])
def test_bodies_are_those_of_the_reference_page(vector: dict[str, Any]) -> None:
    content = json.loads(vector["body"])
    actor = Actor(content["actor"]["id"], content["actor"]["kind"], content["actor"]["via"])
    told = effect(
        content["status"],
        id=content["effect"],
        run_id=content["run"],
        tool=content["tool"],
        side_effect=content["side_effect"],
        on_crash=content["on_crash"],
        attempt=content["attempt"],
    )
    body = body_of(
        effect=told,
        head=Head(content["seq"], content["prev"]),
        event_type=content["type"],
        at=datetime.fromisoformat(content["at"]),
        actor=actor,
        commits=dict(reversed(content["commits"].items())),
        by=Provenance(log=content["log"], writer=content["writer"]),
    )
    assert body.decode() == vector["body"]
    assert event_hash(body) == vector["hash"] == hashlib.sha256(b"\0" + vector["body"].encode()).hexdigest()


def test_the_events_of_the_reference_page_are_a_chain() -> None:
    prev = "0" * 64
    assert VECTORS["events"]
    for number, vector in enumerate(VECTORS["events"]):
        content = json.loads(vector["body"])
        assert (content["seq"], content["prev"]) == (number, prev)
        prev = vector["hash"]


@pytest.mark.parametrize("vector", VECTORS["commitments"], ids=lambda vector: vector["name"])
def test_commitments_are_those_of_the_reference_page(vector: dict[str, Any]) -> None:
    found = commitment(bytes.fromhex(vector["salt"]), vector["field"], bytes.fromhex(vector["value"]))
    assert found == vector["commitment"] == hashlib.sha256(bytes.fromhex(vector["preimage"])).hexdigest()


def test_the_events_of_the_reference_page_commit_to_its_values() -> None:
    known = {vector["commitment"] for vector in VECTORS["commitments"]}
    for vector in VECTORS["events"]:
        assert set(json.loads(vector["body"])["commits"].values()) <= known


def test_every_vector_stands_on_the_reference_page() -> None:
    for kind, field in (("keys", "key"), ("digests", "digest"), ("repeats", "repeat"), ("commitments", "commitment")):
        assert VECTORS[kind]
        for vector in VECTORS[kind]:
            assert vector[field] in PAGE, f"{kind}: {vector['name']}"
    for vector in VECTORS["events"]:
        assert vector["hash"] in PAGE
        assert vector["body"] in PAGE


# ── the form of a body ───────────────────────────────────────────────────────────────────────────────────────────────


def test_a_body_has_exactly_the_fields_of_version_1() -> None:
    content = json.loads(body_of())
    assert list(content) == FIELDS
    assert content["v"] == 1
    documented = documented_in("## The fields")
    assert documented == FIELDS


def test_the_reference_page_knows_every_type_of_event() -> None:
    assert sorted(documented_in("### What happened")) == sorted(EVENT_TYPES | {ADOPTED})


def documented_in(heading: str) -> list[str]:
    table = PAGE.partition(heading)[2].partition("\n#")[0]
    rows = table.partition("|---|")[2]
    return re.findall(r"^\| `([a-z_]+)` \|", rows, re.MULTILINE)


# Whatever may be in a name: quotes, backslashes, control characters, line separators, astral characters.
names = st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=499).map(
    "n{}".format
)
hashes = st.binary(min_size=32, max_size=32).map(bytes.hex)


@given(
    run_id=names,
    log=names,
    actor=st.builds(
        Actor, names, st.sampled_from(["agent", "person", "system"]),
        st.sampled_from(["process", "api_key", "passkey", "signature", "link", "oidc"]),
    ),
    at=st.datetimes(timezones=st.just(UTC)),
    status=st.sampled_from(get_args(Status)),
    side_effect=st.sampled_from(get_args(SideEffect)),
    on_crash=st.sampled_from(get_args(OnCrash)),
    numbers=st.tuples(st.integers(0, 2**53 - 1), st.integers(0, 2**53 - 1)),
    commits=st.dictionaries(st.sampled_from(["args", "key", "result", "error", "reason", "evidence"]), hashes),
    prev=hashes,
)  # fmt: skip
def test_a_body_is_canonical_whatever_the_names_hold(
    run_id: str,
    log: str,
    actor: Actor,
    at: datetime,
    status: Any,
    side_effect: Any,
    on_crash: Any,
    numbers: tuple[int, int],
    commits: dict[str, str],
    prev: str,
) -> None:
    told = effect(status, run_id=run_id, side_effect=side_effect, on_crash=on_crash, attempt=numbers[0])
    body = body_of(
        effect=told,
        head=Head(numbers[1], prev),
        at=at,
        actor=actor,
        commits=commits,
        by=Provenance(log=log, writer="ab" * 16),
    )
    content = json.loads(body)
    assert body == rfc8785.dumps(content)
    assert (content["run"], content["log"], content["actor"]["id"]) == (run_id, log, actor.id)
    assert (content["attempt"], content["seq"], content["prev"]) == (*numbers, prev)
    assert content["commits"] == commits
    assert datetime.fromisoformat(content["at"]) == at


def test_a_body_holds_no_payload_and_no_key() -> None:
    told = effect("succeeded", args_json=b'{"card":"4242"}', detail_json=b'"secret result"', call_id="call-77")
    body = body_of(effect=told)
    for secret in (
        b"4242",
        b"secret result",
        told.key.encode(),
        told.token_hash.encode(),
        told.digest.encode(),
        b"call-77",
    ):
        assert secret not in body


def test_the_longest_names_still_fit_into_a_body() -> None:
    longest = "n" + "\x01" * 499  # six bytes each, once escaped
    told = effect("succeeded", run_id=longest, tool="x" * 200)
    body = body_of(
        effect=told, actor=Actor(longest), by=Provenance(log="ledger-0123456789ab/" + longest, writer="ab" * 16)
    )
    assert len(body) < MOST_BODY_BYTES


# ── times, hashes, commitments ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("at", "text"),
    [
        (datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC), "2030-01-02T03:04:05.000000Z"),
        (datetime(2030, 1, 2, 3, 4, 5, 60, tzinfo=UTC), "2030-01-02T03:04:05.000060Z"),
        (datetime(2030, 1, 2, 3, 4, 5, tzinfo=timezone(timedelta(hours=5, minutes=30))), "2030-01-01T21:34:05.000000Z"),
        (datetime(999, 1, 2, tzinfo=UTC), "0999-01-02T00:00:00.000000Z"),
    ],
)
def test_a_moment_is_written_in_utc_with_six_decimals(at: datetime, text: str) -> None:
    assert instant(at) == text


def test_moments_sort_as_their_texts_do() -> None:
    moments = [NOON + timedelta(microseconds=n) for n in (0, 1, 999_999, 1_000_000, 86_400_000_000)]
    assert sorted(map(instant, reversed(moments))) == [*map(instant, moments)]


def test_the_hash_of_a_body_is_a_leaf_of_rfc_6962() -> None:
    assert event_hash(b"") == "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"


def test_equal_values_have_unequal_commitments_under_other_salts_or_names() -> None:
    salt = bytes(32)
    found = {
        commitment(salt, "args", b"1"),
        commitment(salt, "result", b"1"),
        commitment(b"\1" * 32, "args", b"1"),
        commitment(salt, "args", b"2"),
        commitment(salt, "args1", b""),
        commitment(salt, "arg", b"s1"),
    }
    assert len(found) == 6


@given(st.text(max_size=4), st.binary(max_size=6), st.text(max_size=4), st.binary(max_size=6))
def test_no_letter_of_a_name_can_pass_for_one_of_the_value(one: str, value: bytes, other: str, second: bytes) -> None:
    salt = bytes(32)
    are_equal = (one, value) == (other, second)
    assert (commitment(salt, one, value) == commitment(salt, other, second)) == are_equal


def test_the_longest_commitment_name_has_its_length_in_two_bytes() -> None:
    assert commitment(bytes(32), "x" * 65535, b"") != commitment(bytes(32), "x" * 65534, b"x")
    with pytest.raises(OverflowError):
        commitment(bytes(32), "x" * 65536, b"")


def test_a_stored_event_reads_its_body() -> None:
    body = body_of()
    event = Event(run_id="run-1", seq=0, effect_id="eff_1", type="tool_call_finished", hash=event_hash(body), body=body)
    assert event.read() == json.loads(body)
    assert "eff_1" in repr(event)
    assert "writer" not in repr(event)


@given(st.integers(-(2**63), 2**63 - 1))
def test_15_each_number_of_microseconds_is_a_moment(number: int) -> None:
    start, microsecond = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)
    first = (datetime(1, 1, 1, tzinfo=UTC) - start) // microsecond
    last = (datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC) - start) // microsecond
    found = moment_after(start, number)
    if first <= number <= last:
        assert (found - start) // microsecond == number
        return
    assert found.year == (1 if number < 0 else 9999)
    for hours in (-23, 23):
        assert found.astimezone(timezone(timedelta(hours=hours))) == found
