"""Promises of events that are about no effect: what they say in clear is plain, canonical, chained and signed."""

from __future__ import annotations

import hashlib
import json
import re
from base64 import b64decode
from datetime import UTC, datetime
from decimal import Decimal
from enum import IntEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from indelible.core.changes import Fact, Step
from indelible.core.commands import Record, Recorded
from indelible.core.effects.effect import SYSTEM, Actor
from indelible.core.effects.identity import Ref
from indelible.core.events import (
    MOST_BODY_BYTES,
    NO_EVENTS,
    Head,
    Payload,
    Provenance,
    commitment,
    event_hash,
    fact_event,
    facts_json,
    signed_message,
)
from indelible.core.journal.journal import JOURNAL_RUN
from indelible.core.journal.notes import PublicKey, parse_vkey
from indelible.core.values.tags import SAFE_INTEGER
from indelible.errors import BadCall, NotRecordable, TooLarge
from tests.core.journals import Holder
from tests.core.making import ADA, BY, NOON, Shelf, decide, effect, next_step, open_command, stamp

HERE = Path(__file__).parent
VECTORS: dict[str, list[dict[str, Any]]] = json.loads((HERE / "vectors" / "events.json").read_text(encoding="utf-8"))
PAGE = (HERE.parents[1] / "docs" / "reference" / "events.md").read_text(encoding="utf-8")
FIELDS = ["actor", "at", "commits", "facts", "log", "prev", "run", "seq", "type", "v", "writer"]
TYPES = {
    "hold_lifted": ["hold"],
    "hold_placed": ["hold"],
    "journal_heartbeat": [],
    "key_registered": ["key"],
    "key_revoked": ["key", "size"],
    "key_rotated": ["new", "new_signature", "old", "old_signature"],
    "log_continued": ["lost", "size"],
    "payload_erased": ["basis", "erased"],
    "writer_registered": ["key", "writer"],
}


def body_of(**changes: Any) -> bytes:
    words: dict[str, Any] = {
        "run_id": "run-1",
        "head": NO_EVENTS,
        "event_type": "journal_heartbeat",
        "at": NOON,
        "actor": ADA,
        "commits": {},
        "facts": b"{}",
        "by": BY,
    }
    return fact_event(**{**words, **changes})


def record(**changes: Any) -> Record:
    words: dict[str, Any] = {
        "tenant": "default",
        "run_id": "run-1",
        "stamp": stamp(),
        "event_type": "payload_erased",
        "facts": b'{"basis":"request"}',
    }
    return Record(**{**words, **changes})


# ── vectors ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("vector", VECTORS["facts"], ids=lambda vector: vector["name"])
def test_bodies_are_those_of_the_reference_page(vector: dict[str, Any]) -> None:
    content = json.loads(vector["body"])
    body = body_of(
        run_id=content["run"],
        head=Head(content["seq"], content["prev"]),
        event_type=content["type"],
        at=datetime.fromisoformat(content["at"]),
        actor=Actor(**content["actor"]),
        commits=content["commits"],
        facts=facts_json(dict(reversed(content["facts"].items()))),
        by=Provenance(log=content["log"], writer=content["writer"]),
    )
    assert body.decode() == vector["body"]
    assert event_hash(body) == vector["hash"] == hashlib.sha256(b"\0" + vector["body"].encode()).hexdigest()


def test_every_vector_stands_on_the_reference_page() -> None:
    assert VECTORS["facts"]
    for vector in VECTORS["facts"]:
        assert vector["body"] in PAGE, vector["name"]
        assert vector["hash"] in PAGE, vector["name"]


def test_the_facts_of_the_reference_page_continue_their_runs_chains() -> None:
    prev = {"order-123": VECTORS["events"][-1]["hash"]}
    seqs = {"order-123": len(VECTORS["events"])}
    for vector in VECTORS["facts"]:
        content = json.loads(vector["body"])
        run = content["run"]
        assert (content["seq"], content["prev"]) == (seqs.get(run, 0), prev.get(run, "0" * 64))
        prev[run], seqs[run] = vector["hash"], content["seq"] + 1
    assert set(prev) == {"order-123", JOURNAL_RUN}


def test_the_facts_of_the_reference_page_commit_to_its_values() -> None:
    known = {vector["commitment"] for vector in VECTORS["commitments"]}
    for vector in VECTORS["facts"]:
        assert set(json.loads(vector["body"])["commits"].values()) <= known


def test_there_is_a_vector_for_every_type_and_the_page_knows_them_all() -> None:
    shown = {json.loads(vector["body"])["type"]: json.loads(vector["body"])["facts"] for vector in VECTORS["facts"]}
    assert {name: sorted(facts) for name, facts in shown.items()} == TYPES
    assert sorted(documented_in("### What is recorded besides")) == sorted(TYPES)


def test_the_page_names_the_fields_of_a_fact_event() -> None:
    assert documented_in("### The fields of a fact event") == FIELDS
    assert list(json.loads(body_of())) == FIELDS


def documented_in(heading: str) -> list[str]:
    table = PAGE.partition(heading)[2].partition("\n#")[0]
    rows = table.partition("|---|")[2]
    return re.findall(r"^\| `([a-z_]+)` \|", rows, re.MULTILINE)


def test_a_rotation_is_signed_by_both_keys_as_the_page_says() -> None:
    bodies = [json.loads(vector["body"]) for vector in VECTORS["facts"]]
    facts = next(body["facts"] for body in bodies if body["type"] == "key_rotated")
    message = b"indelible/rotate/v1\0" + facts["old"].encode() + b"\n" + facts["new"].encode()
    for which in ("old", "new"):
        assert parse_vkey(facts[which]).verifies(b64decode(facts[f"{which}_signature"]), message)


# ── what may be said in clear ────────────────────────────────────────────────────────────────────────────────────────

facts_names = st.text(st.characters(exclude_categories=["Cs"]), max_size=8).filter(lambda name: name[:1] != "$")
plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-SAFE_INTEGER, SAFE_INTEGER)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda part: st.lists(part, max_size=4) | st.dictionaries(facts_names, part, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(facts_names, plain, max_size=5))
def test_plain_facts_are_written_as_rfc_8785_does(facts: dict[str, Any]) -> None:
    encoded = facts_json(facts)
    assert encoded == rfc8785.dumps(facts)
    assert json.loads(encoded) == facts


def test_a_tuple_is_written_as_a_list() -> None:
    assert facts_json({"a": (1, ("b",))}) == b'{"a":[1,["b"]]}'


class Level(IntEnum):
    LOW = 1


@pytest.mark.parametrize(
    "value",
    [1.5, 1.0, 2**53, -(2**53), Decimal("1"), b"raw", NOON, Level.LOW, {"$int": "5"}, {"$": 1}, [[{"a": 0.5}]]],
    ids=repr,
)
def test_what_two_readers_could_take_differently_is_not_said_in_clear(value: object) -> None:
    with pytest.raises(BadCall, match="facts hold texts, whole numbers below 2\\^53"):
        facts_json({"a": value})


@pytest.mark.parametrize(
    "value", [{1: "a"}, "\ud800", object(), float("nan")], ids=["key", "surrogate", "object", "nan"]
)
def test_what_has_no_recorded_form_is_not_said_at_all(value: object) -> None:
    with pytest.raises(NotRecordable, match="facts"):
        facts_json({"a": value})


def test_facts_are_given_as_a_plain_object() -> None:
    with pytest.raises(BadCall):
        facts_json(MappingProxyType({"a": 1}))


# ── the form of a body ───────────────────────────────────────────────────────────────────────────────────────────────

names = st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=200).map(
    "n{}".format
)
hashes = st.binary(min_size=32, max_size=32).map(bytes.hex)


@given(
    names, names, names, names, st.datetimes(timezones=st.just(UTC)), st.integers(0, SAFE_INTEGER), hashes,
    st.dictionaries(st.sampled_from(["reason", "args", "evidence"]), hashes),
    st.dictionaries(facts_names, plain, max_size=3),
)  # fmt: skip
def test_a_body_is_canonical_whatever_the_names_and_facts_hold(
    run_id: str, log: str, actor: str, event_type: str, at: datetime, seq: int, prev: str, commits: Any, facts: Any
) -> None:
    body = body_of(
        run_id=run_id,
        head=Head(seq, prev),
        event_type=event_type,
        at=at,
        actor=Actor(actor),
        commits=commits,
        facts=facts_json(facts),
        by=Provenance(log=log, writer="ab" * 16),
    )
    content = json.loads(body)
    assert body == rfc8785.dumps(content)
    assert list(content) == FIELDS
    told = [content[name] for name in ("run", "log", "type", "seq", "prev", "commits", "facts", "v", "writer")]
    assert told == [run_id, log, event_type, seq, prev, commits, facts, 1, "ab" * 16]
    assert content["actor"] == {"id": actor, "kind": "person", "via": "process"}
    assert datetime.fromisoformat(content["at"]) == at


def test_an_event_that_says_too_much_is_refused_and_the_longest_is_not() -> None:
    empty = len(body_of(facts=facts_json({"a": ""})))
    longest = MOST_BODY_BYTES - empty
    assert len(body_of(facts=facts_json({"a": "x" * longest}))) == MOST_BODY_BYTES
    with pytest.raises(TooLarge, match="say less of it in clear") as refused:
        body_of(facts=facts_json({"a": "x" * (longest + 1)}))
    assert (refused.value.size, refused.value.limit) == (MOST_BODY_BYTES + 1, MOST_BODY_BYTES)


# ── recording ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_record_becomes_a_fact_whatever_effect_there_may_be() -> None:
    command = record(committed={"reason": b'"asked"'}, erased=((3, "args"),))
    fact = Fact("run-1", "payload_erased", b'{"basis":"request"}', {"reason": b'"asked"'}, ((3, "args"),))
    for known in (None, effect("succeeded")):
        assert next_step(command, known, NOON, 7) == Step(Recorded("run-1", 7), (fact,))


def test_a_record_is_about_no_effect() -> None:
    assert record().ref == Ref("default", "run-1", "")
    assert not record().committed
    assert "asked" not in repr(record(committed={"reason": b"asked"}))


def test_a_fact_joins_the_chain_of_its_run() -> None:
    shelf = Shelf()
    batch = shelf.apply(open_command(), record(), record(run_id="run-2"), record())
    assert batch.answers[1:] == [Recorded("run-1", 1), Recorded("run-2", 0), Recorded("run-1", 2)]
    events = shelf.events["run-1"]
    assert [event.seq for event in events] == [0, 1, 2]
    assert [event.effect_id for event in events] == ["eff_new", None, None]
    assert [event.read()["prev"] for event in events] == ["0" * 64, events[0].hash, events[1].hash]
    assert events[2].read()["facts"] == {"basis": "request"}
    assert shelf.heads == {"run-1": Head(3, events[2].hash), "run-2": Head(1, shelf.events["run-2"][0].hash)}
    assert (len(batch.opened), batch.moved) == (1, {}), "a fact moves no effect"


def test_a_fact_commits_to_its_values_with_salts_of_their_own() -> None:
    batch = decide([record(committed={"reason": b'"asked"', "evidence": b'"letter"'})], {}, {}, NOON, BY)
    salts = bytes(range(96))
    assert batch.payloads == [
        Payload("run-1", 0, "reason", salts[:32], b'"asked"'),
        Payload("run-1", 0, "evidence", salts[32:64], b'"letter"'),
    ]
    assert batch.events[0].read()["commits"] == {
        "evidence": commitment(salts[32:64], "evidence", b'"letter"'),
        "reason": commitment(salts[:32], "reason", b'"asked"'),
    }
    assert b"asked" not in batch.events[0].body


def test_what_a_fact_erases_goes_in_the_same_transaction() -> None:
    commands = [record(erased=((0, "args"), (2, "result"))), record(run_id="run-2", erased=((5, "key"),)), record()]
    batch = decide(commands, {}, {"run-1": Head(3, "ab" * 32)}, NOON, BY)
    assert batch.erased == [("run-1", 0, "args"), ("run-1", 2, "result"), ("run-2", 5, "key")]
    assert not batch.is_empty


def test_a_fact_that_says_too_much_is_refused_before_anything_is_written() -> None:
    with pytest.raises(TooLarge):
        decide([record(facts=facts_json({"a": "x" * MOST_BODY_BYTES}))], {}, {}, NOON, BY)


# ── signatures ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_events_carry_their_writers_signature_when_it_has_a_key() -> None:
    writer = Holder("writer", 4)
    by = Provenance(log=BY.log, writer=BY.writer, sign=writer.sign)
    batch = decide([open_command(), record()], {}, {}, NOON, by)
    assert [event.type for event in batch.events] == ["tool_call_started", "payload_erased"]
    key = PublicKey("writer", writer.key.raw)
    for event in batch.events:
        assert event.signature is not None
        assert key.verifies(event.signature, b"indelible/event/v1\0" + bytes.fromhex(event.hash))
        assert not key.verifies(event.signature, bytes.fromhex(event.hash)), (
            "the tag keeps it from meaning another thing"
        )
        assert repr(event.signature) not in repr(event)


def test_signing_changes_no_byte_of_the_record() -> None:
    writer = Holder("writer", 4)
    signing = Provenance(log=BY.log, writer=BY.writer, sign=writer.sign)
    plain_events, signed_events = (decide([open_command(), record()], {}, {}, NOON, by).events for by in (BY, signing))
    assert [event.body for event in plain_events] == [event.body for event in signed_events]
    assert [event.signature for event in plain_events] == [None, None]


def test_what_is_signed_is_the_events_hash_under_a_tag() -> None:
    assert signed_message("ab" * 32) == b"indelible/event/v1\0" + b"\xab" * 32


def test_the_systems_own_facts_name_the_system() -> None:
    batch = decide([record()], {}, {}, NOON, BY)
    assert batch.events[0].read()["actor"] == {"id": SYSTEM.id, "kind": "system", "via": "process"}
