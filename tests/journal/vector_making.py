"""Makes the published vectors: `python -m tests.journal.vector_making` writes them, and a test keeps them so.

Each vector is a base with one thing changed. What is changed before the journal is sealed is signed like the rest, as
somebody who holds the key could: then only the rules tell.
"""

from __future__ import annotations

import gzip
import json
import re
import zipfile
from base64 import b64encode
from collections.abc import Callable, Iterator
from difflib import SequenceMatcher
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any

from indelible.core.journal.notes import TreeHead
from indelible.core.journal.rotation import rotation_facts
from indelible.core.journal.tiles import pack_entries, unpack_entries
from indelible.core.values.canonical import decode, encode
from indelible.core.verifying.moves import MOVES, STATUSES
from indelible.testing.record.vectors import lines_of, zipped
from tests.core.forged import changed, leaves
from tests.core.journals import Holder
from tests.journal import vector_votes
from tests.journal.vector_books import (
    FIRST,
    KEYS,
    LOG,
    OTHER_TENANT,
    RAW,
    SECOND,
    THIRD,
    Book,
    Files,
    asked,
    calls,
    driven,
    forged,
    key,
    line_of,
    part,
    relabelled,
    rotated,
    sealed,
    signed,
)

WHERE = Path(__file__).parents[2] / "src/indelible/testing/record/vectors.json.gz"
BUNDLES = ("bundle", "zip")
WHOLE = (*BUNDLES, "ndjson", "report", "log")
PART = (*BUNDLES, "report")
GOOD, BAD, OPEN = "verified", "tampered", "cannot_tell"
HEADS: Any = {1: (FIRST,), 6: (FIRST,)}
ROTATED: Any = {"heads": {3: (FIRST,), 4: (FIRST, SECOND)}, "by": (SECOND,)}
Vector = dict[str, Any]
Change = Callable[[Book], Any]


def bases() -> dict[str, Files]:
    whole = sealed(calls(), heads=HEADS)
    return {
        "calls": whole,
        "rotated": sealed(rotated(), **ROTATED),
        "asked": sealed(asked()),
        "driven": sealed(driven()),
        "standing": sealed(vector_votes.standing()),
        "run": part(calls(), [1, 2, 3, 4, 5, 11, 12], "run", "run-1"),
        "period": part(calls(), [*range(3, 9)], "period"),
        "calls.zip": {"bundle.zip": zipped(whole)},
        "calls.ndjson": {"journal.ndjson": lines_of(whole)},
    }


BASES = bases()


def vector(
    name: str,
    base: str,
    files: Files,
    expected: str = BAD,
    forms: tuple[str, ...] = WHOLE,
    *,
    log: str | None = None,
    keys: tuple[str, ...] = ("first",),
    after: tuple[str, ...] = (),
    counts_votes: bool = False,
) -> Vector:
    """Describe a vector; `log` is the verdict where no values are shown, if it is another."""
    verdicts = {form: log if form == "log" and log is not None else expected for form in forms}
    changes = {name: _patches(BASES[base].get(name, b""), files[name]) for name in sorted(files)}
    changes = {name: patches for name, patches in changes.items() if patches or name not in BASES[base]}
    changes |= dict.fromkeys(sorted(BASES[base].keys() - files.keys()))
    return {
        "name": name,
        "base": base,
        "changes": changes,
        "keys": list(keys),
        "after": list(after),
        "expected": verdicts,
        "counts_votes": counts_votes,
    }


def _patches(before: bytes, after: bytes) -> list[list[Any]]:
    """Return where bytes differ: place, length, and what stands there instead."""
    if before == after:
        return []
    ones, others = _pieces(before), _pieces(after)
    found, place = [], 0
    for what, start, end, low, high in SequenceMatcher(None, ones, others, autojunk=False).get_opcodes():
        length = sum(map(len, ones[start:end]))
        if what != "equal":
            found.append([place, length, b"".join(others[low:high]).decode("latin-1")])
        place += length
    return found


def _pieces(content: bytes) -> list[bytes]:
    return re.findall(rb'[^"\n]*["\n]|[^"\n]+', content)


# ── what is signed, and breaks a rule ────────────────────────────────────────────────────────────────────────────────
def put(index: int, **members: Any) -> Change:
    return lambda book: book.events[index].update(members)


def drop(index: int, *names: str) -> Change:
    return lambda book: [book.events[index].pop(name) for name in names]


def raw(index: int, change: Callable[[bytes], bytes]) -> Change:
    return lambda book: book.events[index].update({RAW: change})


def swap(index: int, old: bytes, new: bytes) -> Change:
    return raw(index, lambda body: body.replace(old, new, 1))


def cut(index: int) -> Change:
    def change(book: Book) -> None:
        del book.events[index], book.values[index]

    return change


def commits(index: int, **values: str | None) -> Change:
    def change(book: Book) -> None:
        told = book.events[index]["commits"]
        for name, value in values.items():
            if value is None:
                told.pop(name)
                book.values[index].pop(name, None)
            else:
                told[name] = value

    return change


HASH = "ab" * 32
SIGNED: dict[str, Change] = {
    # One text for one content
    "body: a space": swap(1, b'"at":', b'"at": '),
    "body: a line feed at the end": raw(1, lambda body: body + b"\n"),
    "body: members in another order": raw(1, lambda body: b'{"writer":"' + b"0" * 32 + b'",' + body[1:-46] + b"}"),
    "body: a member twice": swap(1, b'"v":1', b'"v":1,"v":1'),
    "body: a member more": put(1, zzz=1),
    "body: a member more, of a fact": put(13, zzz=1),
    "body: an escaped letter": swap(1, b'"run-1"', b'"run\\u002d1"'),
    "body: an escaped slash": swap(1, b"ledger-test/default", b"ledger-test\\/default"),
    "body: a number with a point": swap(1, b'"attempt":1', b'"attempt":1.0'),
    "body: a number with an exponent": swap(1, b'"attempt":1', b'"attempt":1e0'),
    "body: a number with a zero before it": swap(1, b'"attempt":1', b'"attempt":01'),
    "body: a number beyond any": swap(13, b'"facts":{}', b'"facts":{"x":1e400}'),
    "body: a fact with a fraction": swap(13, b'"facts":{}', b'"facts":{"x":0.5}'),
    "body: a fact beyond 2^53": swap(13, b'"facts":{}', b'"facts":{"x":9007199254740992}'),
    "body: a fact whose name begins with a dollar sign": put(13, type="acme_thing", facts={"$x": 1}),
    "body: a fact with two dollar signs, deep inside": put(13, type="acme_thing", facts={"x": [{"$$x": 1}]}),
    "body: a fact nested 65 deep": swap(13, b'"facts":{}', b'"facts":{"x":' + b"[" * 64 + b"]" * 64 + b"}"),
    "body: a fact twice": swap(13, b'"facts":{}', b'"facts":{"x":1,"x":2}'),
    "body: a fact that is not a number": swap(13, b'"facts":{}', b'"facts":{"x":NaN}'),
    "body: a fact with half a letter": swap(13, b'"facts":{}', b'"facts":{"x":"\\ud800"}'),
    "body: minus nothing": swap(13, b'"facts":{}', b'"facts":{"x":-0}'),
    "body: no UTF-8": swap(1, b'"run-1"', b'"run-\xff"'),
    "body: a letter of three bytes for two": swap(12, b'"step":null', b'"step":"\xe0\x80\xaf"'),
    "body: a mark of byte order": raw(1, lambda body: b"\xef\xbb\xbf" + body),
    "body: empty": raw(1, lambda body: b""),
    "body: a list": raw(1, lambda body: b"[]"),
    "body: nested too deep": swap(13, b'"facts":{}', b'"facts":{"x":' + b"[" * 9000 + b"]" * 9000 + b"}"),
    # Members
    **{f"body: without {name}": drop(1, name) for name in ("actor", "at", "effect", "log", "tool", "writer", "v")},
    **{f"body: a fact without {name}": drop(13, name) for name in ("actor", "commits", "facts", "type")},
    "body: version 2": put(1, v=2),
    "body: version true": put(13, v=True),
    "body: a number as text": put(1, attempt="1"),
    "body: an attempt below nothing": put(1, attempt=-1),
    "body: an attempt of 17 digits": put(1, attempt=10**16),
    "body: a number in the run below nothing": put(13, seq=-1),
    "body: an unknown side effect": put(1, side_effect="gift"),
    "body: an unknown on_crash": put(1, on_crash="shrug"),
    "body: a tool with a space": put(1, tool="pay now"),
    "body: an effect without a name": put(1, effect=""),
    "body: an unknown kind of actor": put(1, actor={"id": "agent", "kind": "ghost", "via": "process"}),
    "body: an unknown way of knowing": put(1, actor={"id": "agent", "kind": "agent", "via": "rumour"}),
    "body: an actor with a member more": put(1, actor={"id": "a", "kind": "agent", "via": "process", "z": 1}),
    "body: an actor without an id": put(13, actor={"kind": "system", "via": "process"}),
    "body: a hash in capitals": put(1, prev="AB" * 32),
    "body: a short hash": put(13, prev="0" * 63),
    "body: a writer of 31 digits": put(1, writer="0" * 31),
    "body: a writer in capitals": put(13, writer="A" * 32),
    "body: a commitment in capitals": commits(1, args=HASH.upper()),
    "body: a commitment that is short": commits(12, payload="ab"),
    "body: a commitment to a name in capitals": commits(13, Payload=HASH),
    "body: facts are a list": put(13, facts=[]),
    "body: commitments are a list": put(13, commits=[]),
    # Dates that exist
    **{
        f"time: {at}, of {what}": put(place, at=at)
        for place, what in ((1, "an effect"), (13, "a fact"))
        for at in (
            "2030-02-31T12:00:00.000000Z",
            "2030-02-29T12:00:00.000000Z",
            "1900-02-29T12:00:00.000000Z",
            "2030-04-31T12:00:00.000000Z",
            "2030-13-01T12:00:00.000000Z",
            "2030-00-10T12:00:00.000000Z",
            "2030-01-00T12:00:00.000000Z",
            "2030-01-02T24:00:00.000000Z",
            "2030-01-02T12:60:00.000000Z",
            "2030-01-02T12:00:60.000000Z",
            "2030-01-02T12:00:00.00000Z",
            "2030-01-02T12:00:00.000000+00:00",
            "2030-01-02 12:00:00.000000Z",
            "0000-01-02T12:00:00.000000Z",
        )
    },
    # Whose journal, which run, in which order
    "log: of another tenant": put(1, log="ledger-test/other"),
    "log: of another tenant, of a fact": put(13, log="ledger-test/other"),
    "log: of another ledger": put(2, log="ledger-else/default"),
    "chain: a number left out": put(2, seq=2),
    "chain: a number twice": put(2, seq=0),
    "chain: another hash before": put(2, prev=HASH),
    "chain: no hash before": put(2, prev="0" * 64),
    "chain: an event left out": cut(4),
    "chain: the first event left out": cut(1),
    "chain: a run that begins at 1": put(6, seq=1),
    "chain: an event of another run": put(2, run="run-9"),
    # What an effect does
    "effect: another tool": put(2, tool="pay.more"),
    "effect: another side effect": put(2, side_effect="write"),
    "effect: another on_crash": put(2, on_crash="retry"),
    "effect: an attempt left out": put(9, attempt=3),
    "effect: an attempt twice": put(9, attempt=1),
    "effect: opened at attempt 2": put(1, attempt=2),
    "effect: opened without a key": commits(1, key=None),
    "effect: opened without arguments": commits(1, args=None),
    "effect: finished without a result": commits(2, result=None),
    "effect: finished with a result and an error": commits(2, error=HASH),
    "effect: a key told again": commits(2, key=HASH),
    "effect: in doubt, and settled without evidence": commits(5, evidence=None),
    "effect: an unknown field": commits(2, zzz=HASH),
    "effect: an approval out of nothing": commits(9, approval=HASH),
    "effect: a fact by the name of an effect's event": put(13, type="tool_call_started"),
    # What the journal tells of itself
    "own: a registration without a key": put(0, facts={}),
    "own: a registration with a member more": put(0, facts={"key": FIRST.key.vkey, "x": 1}),
    "own: a registration of no key": put(0, facts={"key": "nothing"}),
    "own: a registration of a number": put(0, facts={"key": 1}),
    "own: a registration of a weak key": put(0, facts={"key": f"{LOG}+00000000+AQ{'A' * 42}="}),
    "own: a heartbeat that talks": put(13, facts={"x": 1}),
    "own: a revocation without a size": put(13, type="key_revoked", facts={"key": FIRST.key.vkey}),
    "own: a revocation below nothing": put(13, type="key_revoked", facts={"key": FIRST.key.vkey, "size": -1}),
    "own: a revocation of the key that signs": put(13, type="key_revoked", facts={"key": FIRST.key.vkey, "size": 3}),
    "own: a continuation without a root": put(13, type="log_continued", facts={"lost": {"size": 9}, "size": 3}),
    "own: a continuation with a short root": put(
        13, type="log_continued", facts={"lost": {"root": "AAAA", "size": 9}, "size": 3}
    ),
    "own: a writer without a key": put(13, type="writer_registered", facts={"writer": "1" * 32}),
    "own: a writer with a weak key": put(
        13, type="writer_registered", facts={"key": b64encode(bytes(32)).decode(), "writer": "1" * 32}
    ),
    # Erasing
    "erasing: without a basis": put(11, facts={"erased": []}),
    "erasing: on a basis of one's own": put(11, facts={"basis": "whim", "erased": []}),
    "erasing: something that is no list": put(11, facts={"basis": "request", "erased": {}}),
    "erasing: a number that is none": put(11, facts={"basis": "request", "erased": [{"fields": [], "seq": "1"}]}),
    "erasing: fields that are none": put(11, facts={"basis": "request", "erased": [{"fields": [1], "seq": 1}]}),
    # What is told by hand
    "told: an unknown status": put(12, facts={"side_effect": "none", "status": "done", "step": None}),
    "told: an unknown side effect": put(12, facts={"side_effect": "gift", "status": "recorded", "step": None}),
    "told: without a step": put(12, facts={"side_effect": "none", "status": "recorded"}),
    "told: a step that is a number": put(12, facts={"side_effect": "none", "status": "recorded", "step": 1}),
    "told: skipped, and nothing told before": put(12, facts={"side_effect": "none", "status": "skipped", "step": None}),
    "told: a commitment to a run": commits(12, run=HASH),
    "told: a commitment to an approval": commits(12, approval=HASH),
}


def _nested(body: bytes) -> bytes:
    return body.replace(b'"facts":{}', b'"facts":{"x":' + b"[" * 63 + b"]" * 63 + b"}")


FINE: dict[str, Change] = {
    "fine: 29 February in a leap year": put(1, at="2028-02-29T23:59:59.999999Z"),
    "fine: 29 February 2000": put(13, at="2000-02-29T00:00:00.000000Z"),
    "fine: times that go back": put(5, at="2020-01-01T00:00:00.000000Z"),
    "fine: letters of other scripts": lambda book: [
        event["actor"].update(id="Ünal 李 \U0001f600 \u2028\x7f") for event in book.events if "effect" in event
    ],
    "fine: a run with a quote in its name": lambda book: [
        event.update(run='a "run"\\\n') for event in book.events if event["run"] == "run-2"
    ],
    "fine: a run with letters of an escape after a backslash": lambda book: [
        event.update(run="C:\\udata") for event in book.events if event["run"] == "run-2"
    ],
    "fine: a type that nobody knows": put(13, type="acme_thing", run="acme", seq=0, facts={"x": [None, True, -7]}),
    "fine: a fact nested 64 deep": lambda book: book.events[13].update({"type": "acme_thing", RAW: _nested}),
    "fine: a large number in clear": put(13, type="acme_thing", run="acme", seq=0, facts={"x": 2**53 - 1}),
    "fine: a loss that was declared": put(
        13,
        type="log_continued",
        facts={"lost": {"root": b64encode(bytes(32)).decode(), "size": 20}, "size": 5},
    ),
    "fine: another key was revoked": put(13, type="key_revoked", facts={"key": SECOND.key.vkey, "size": 0}),
    "fine: the key was revoked for larger heads": put(
        13, type="key_revoked", facts={"key": FIRST.key.vkey, "size": 14}
    ),
}


def signed_changes() -> Iterator[Vector]:
    for expected, changes in ((BAD, SIGNED), (GOOD, FINE)):
        for name, change in changes.items():
            book = calls().told(change)
            # A line of NDJSON holds its event as it is, so what is no object is no line; the verdict is the same.
            yield vector(name, "calls", sealed(book, heads=HEADS), expected)


_LIKELY = frozenset({"processing", "succeeded", "failed", "ready", "requires_approval"})


def moves() -> Iterator[Vector]:
    """Every status with every event that does not follow it; the first commitments that would fit elsewhere."""
    before = {
        "succeeded": ("eff_1", 1),
        "processing": ("eff_5", 1),
        "in_doubt": ("eff_5", 1),
        "failed": ("eff_5", 1),
        "ready": ("eff_5", 1),
    }
    ways: dict[str, list[tuple[str, str, dict[str, bytes]]]] = {
        "in_doubt": [("tool_call_in_doubt", "in_doubt", {"reason": b'"x"'})],
        "failed": [("tool_call_finished", "failed", {"error": b'"x"'})],
    }
    ways["ready"] = [*ways["failed"], ("tool_call_released", "ready", {"reason": b'"x"'})]
    ends = {(type_, status): min(move.commits) for (_, type_, status), move in MOVES.items()}
    seen = sorted((*end, names) for end, names in ends.items())
    for status, (effect, attempt) in before.items():
        for type_, after, names in seen:
            if (status, type_, after) in MOVES or after not in _LIKELY:
                continue
            book = calls()
            if effect == "eff_5":
                book.effect(effect, "tool_call_started", "processing", 1, args=b"{}", key=key(5))
                for kind, became, values in ways.get(status, []):
                    book.effect(effect, kind, became, 1, **values)
            book.effect(effect, type_, after, attempt)
            book.events[-1]["commits"] = dict.fromkeys(names, HASH)
            files = sealed(book, withheld=len(names))
            yield vector(f"move: {status} · {type_} · {after}", "calls", files)
    for status in sorted(STATUSES - {"processing", "requires_approval"}):
        book = calls()
        book.effect("eff_9", "tool_call_started", status, 1, args=b"{}", key=key(9))
        yield vector(f"move: nothing · tool_call_started · {status}", "calls", sealed(book))


# ── one key, one effect ──────────────────────────────────────────────────────────────────────────────────────────────
def keys() -> Iterator[Vector]:
    def twice(book: Book, run: str, status: str = "succeeded") -> None:
        book.effect("eff_7", "tool_call_started", "processing", 1, run=run, args=b"{}", key=key(1))
        names: dict[str, bytes] = {"result": b"1"} if status == "succeeded" else {"error": b"1"}
        book.effect("eff_7", "tool_call_finished", status, 1, run=run, **names)

    def only_begun(book: Book) -> None:
        book.effect("eff_7", "tool_call_started", "processing", 1, run="run-7", args=b"{}", key=key(1))

    def adopted(book: Book, attempt: int, status: str) -> None:
        detail: dict[str, bytes] = {"result": b"1"} if status == "succeeded" else {"reason": b'"x"'}
        book.effect("eff_7", "tool_call_adopted", status, attempt, key=key(1), origin=b"{}", **detail)

    stories: dict[str, tuple[Change, str]] = {
        "key: two effects in one run": (lambda book: twice(book, "run-1"), BAD),
        "key: two effects in two runs": (lambda book: twice(book, "run-7"), BAD),
        "key: two effects, one failed": (lambda book: twice(book, "run-7", "failed"), BAD),
        "key: two effects, one is running": (only_begun, BAD),
        "key: an adopted effect that was entered": (lambda book: adopted(book, 1, "succeeded"), BAD),
        "key: an adopted effect that was never entered": (lambda book: adopted(book, 0, "canceled"), GOOD),
        "key: of 31 bytes": (lambda book: book.commit(1, "key", b"k" * 31), BAD),
    }
    for name, (change, expected) in stories.items():
        yield vector(name, "calls", sealed(calls().told(change), heads=HEADS), expected, log=GOOD)

    def unseen(book: Book) -> None:
        twice(book, "run-7")
        del book.values[-2]["key"]

    yield vector("key: two effects, one key withheld", "calls", sealed(calls().told(unseen), withheld=1), GOOD)


# ── values ───────────────────────────────────────────────────────────────────────────────────────────────────────────
def encrypted(content: bytes) -> bytes:
    return b'{"$encrypted":"%s"}' % b64encode(content)


TAGGED = {
    "$int": b"9007199254740993",
    "$decimal": b"1.1",
    "$datetime": b"2028-02-29T12:00:00Z",
    "$date": b"2028-02-29",
    "$time": b"23:59:59.500000",
    "$duration": b"-1",
    "$uuid": b"00112233-4455-6677-8899-aabbccddeeff",
    "$bytes": b"/w==",
    "$redacted": b"ab" * 32,
    "$encrypted": b64encode(b"\x01" + b"\xff" * 52),
}
CANONICAL = {
    "a space": b'{"amount": 5}',
    "members in another order": b'{"b":1,"a":2}',
    "a member twice": b'{"a":1,"a":2}',
    "a whole number with a point": b'{"a":1.0}',
    "an exponent": b'{"a":1e2}',
    "minus nothing": b'{"a":-0}',
    "a number beyond any": b'{"a":1e400}',
    "no number": b'{"a":NaN}',
    "a plus sign": b'{"a":+1}',
    "a fraction that no double is": b'{"a":0.10}',
    "an escaped letter": b'{"a":"\\u0041"}',
    "an escaped slash": b'{"a":"\\/"}',
    "half a letter": b'{"a":"\\ud800"}',
    "a control character": b'{"a":"\x01"}',
    "an escape in capitals": b'{"a":"\\u001F"}',
    "a line feed at the end": b"{}\n",
    "a mark of byte order": b"\xef\xbb\xbf{}",
    "no UTF-8": b'{"a":"\xff"}',
    "nothing": b"",
    "two values": b"{}{}",
    "a comment": b"{}//",
    "a tag that nobody knows": b'{"$gift":"1"}',
    "a tag that is not alone": b'{"$int":"9007199254740993","a":1}',
    "a small number with a tag": b'{"$int":"5"}',
    "a decimal with a zero at the end": b'{"$decimal":"1.10"}',
    "a decimal that is none": b'{"$decimal":"one"}',
    "a tagged date that does not exist": b'{"$date":"2030-02-30"}',
    "a tagged moment of another zone": b'{"$datetime":"2030-01-02T12:00:00+01:00"}',
    "bytes that are no base64": b'{"$bytes":"?"}',
    "a mark that is short": b'{"$redacted":"ab"}',
    "a tag with a number": b'{"$int":5}',
    "lists 65 deep": b"[" * 65 + b"]" * 65,
    "a tag that is no value inside of 64 lists": b"[" * 64 + b'{"$decimal":"1.10"}' + b"]" * 64,
    "a decimal of a larger exponent than there is": b'{"$decimal":"1E+1000000000000000000"}',
    "encrypted, too short": encrypted(b"\x01" + b"\xff" * 51),
    "encrypted, of another version": encrypted(b"\x02" + b"\xff" * 52),
    "half a letter after a backslash": b'{"a":"\\\\\\ud800"}',
}
ALSO_CANONICAL = {
    "a fraction": b'{"a":0.1}',
    "a large fraction": b'{"a":1e+30}',
    "a small fraction": b'{"a":1e-7}',
    "a number beyond 2^53": b'{"a":12345678901234567000}',
    "members by UTF-16": '{"\U0001f600":1,"\ufb33":2}'.encode(),
    "a tagged number": b'{"$int":"9007199254740993"}',
    "a tagged decimal": b'{"$decimal":"1.1"}',
    "a tagged moment": b'{"$datetime":"2028-02-29T12:00:00Z"}',
    "a name with a dollar": b'{"$$int":"5"}',
    "every escape": b'{"a":"\\u0001\\b\\t\\n\\f\\r\\"\\\\"}',
    "bare text": b'"x"',
    "lists 64 deep": b"[" * 64 + b"]" * 64,
    "a decimal of the largest exponent": b'{"$decimal":"1E+999999999999999999"}',
    "letters of an escape after a backslash": b'{"C:\\\\udata":"\\\\ud800"}',
    **{
        f"encrypted, of a holder that begins with {first}": encrypted(bytes([1, first]) + bytes(51))
        for first in (0, 15, 16, 127, 128, 255)
    },
    **{
        f"{tag} inside of 64 lists": b"[" * 64 + b'{"%s":"%s"}' % (tag.encode(), text) + b"]" * 64
        for tag, text in TAGGED.items()
    },
}


def values() -> Iterator[Vector]:
    for expected, texts in ((BAD, CANONICAL), (GOOD, ALSO_CANONICAL)):
        for name, value in texts.items():
            book = calls().with_value(1, "args", value)
            yield vector(f"value: {name}", "calls", sealed(book, heads=HEADS), expected, log=GOOD)
    whole = BASES["calls"]
    lines = whole["payloads.ndjson"].splitlines(keepends=True)

    def shown(
        name: str, changed: list[bytes], expected: str = BAD, forms: Any = (*BUNDLES, "ndjson", "report")
    ) -> Vector:
        manifest = {**json.loads(whole["manifest.json"]), "payloads": len(changed)}
        files = {**whole, "payloads.ndjson": b"".join(changed), "manifest.json": line_of(manifest)}
        return vector(f"value: {name}", "calls", files, expected, forms)

    first = json.loads(lines[0])
    other = line_of({**first, "value": b64encode(b'{"amount":6,"to":"ana"}').decode()})
    yield shown("another one", [other, *lines[1:]])
    yield shown("another salt", [line_of({**first, "salt": "0" * 64}), *lines[1:]])
    yield shown("a short salt", [line_of({**first, "salt": "00"}), *lines[1:]])
    yield shown("of a field that nobody committed to", [lines[0], line_of({**first, "field": "charges"}), *lines[1:]])
    yield shown("missing, and nobody erased it", lines[1:])
    yield shown("all missing", [])
    yield shown("twice", [lines[0], *lines], forms=BUNDLES)
    yield shown("in another order", [lines[1], lines[0], *lines[2:]], forms=BUNDLES)
    yield shown("of an entry that is not here", [*lines, line_of({**first, "index": 99})], forms=BUNDLES)
    yield shown("a line that is none", [*lines, b"{}\n"], forms=BUNDLES)
    yield shown("the last line feed missing", [*lines[:-1], lines[-1][:-1]], forms=BUNDLES)
    yield shown("base64 with spare bits", [lines[0].replace(b'"value":"', b'"value":" '), *lines[1:]], forms=BUNDLES)
    erased = calls().told(lambda book: book.commit(2, "result", b'{"id":"ch_1"}'))
    yield vector("value: erased, and shown all the same", "calls", sealed(erased, heads=HEADS), GOOD)
    book = calls().told(lambda book: [values.clear() for values in book.values])
    count = sum(len(event["commits"]) for event in book.events) - 1
    yield vector("value: all withheld, and said so", "calls", sealed(book, withheld=count), GOOD)
    yield vector("value: all withheld, one of them unsaid", "calls", sealed(book, withheld=count - 2), log=GOOD)
    yield vector("value: more withheld than there are", "calls", sealed(book, withheld=count + 5), log=GOOD)


# ── heads, keys, rotation ────────────────────────────────────────────────────────────────────────────────────────────
def heads() -> Iterator[Vector]:
    whole, book = BASES["calls"], calls()
    text, _, line = whole["checkpoint"].decode().rpartition("\n\n")

    def head(name: str, content: str, expected: str = BAD, **words: Any) -> Vector:
        return vector(f"head: {name}", "calls", {**whole, "checkpoint": content.encode()}, expected, **words)

    stranger = sealed(book, by=(THIRD,))["checkpoint"].decode()
    yield vector("head: nobody touched it", "calls", whole, GOOD)
    yield vector("head: no key was given", "calls", whole, OPEN, keys=())
    yield vector("head: another key was given", "calls", whole, keys=("third",))
    yield vector("head: the key of another tenant was given", "calls", whole, keys=("other tenant",))
    yield vector("head: two keys were given", "calls", whole, GOOD, keys=("third", "first"))
    yield head("signed by a stranger", stranger)
    yield head("signed by a stranger as well", whole["checkpoint"].decode() + stranger.rpartition("\n\n")[2], GOOD)
    yield vector("head: its line says another tenant", "calls", relabelled(whole, "ledger-test/other"))
    other = book.told(lambda book: [event.update(log="ledger-test/other") for event in book.events])
    foreign = sealed(other, origin="ledger-test/other", by=(OTHER_TENANT,))
    yield vector("head: of another tenant, by its key", "calls", foreign)
    yield vector("head: of another tenant, with our name on the line", "calls", relabelled(foreign, LOG))
    yield vector("head: of another tenant, for whom it is", "calls", foreign, GOOD, keys=("other tenant",))
    mixed = sealed(book, origin="ledger-test/other", by=(OTHER_TENANT,))
    yield vector("head: of another tenant over our entries", "calls", mixed, keys=("other tenant",))
    yield vector("head: a false signature", "calls", forged(whole, "checkpoint", 0))
    both = sealed(book, by=(FIRST, FIRST))
    twice = {**both, "checkpoint": both["checkpoint"] + line.encode()}
    yield vector("head: one line twice", "calls", twice, GOOD)
    yield vector("head: one good line and a false one of the same key", "calls", forged(twice, "checkpoint", 1))
    yield head("without a signature", text + "\n\n")
    yield head("without a gap", text + "\n" + line)
    yield head("a line that is no signature", f"{text}\n\n{line}nothing\n")
    yield head("a signature of four bytes", f"{text}\n\n{line}\u2014 {LOG} AAAAAA==\n")
    yield head("without its last line feed", f"{text}\n\n{line}"[:-1])
    yield head("with a carriage return", f"{text}\n\n{line}".replace("\n", "\r\n"))
    yield head("with a control character", f"{text}\n\n{line}".replace("14\n", "14\x00\n"))
    yield head("a dash that is another one", f"{text}\n\n{line}".replace("\u2014", "-"))
    yield head("base64 with spare bits", f"{text}\n\n{line[:-2]}" + ("B" if line[-2] != "B" else "C") + "\n")
    yield head("101 signatures", f"{text}\n\n" + line * 101)
    for name, changed_text in {
        "a size with a zero before it": text.replace("\n14\n", "\n014\n"),
        "a size with a plus": text.replace("\n14\n", "\n+14\n"),
        "another size": text.replace("\n14\n", "\n13\n"),
        "a size beyond 2^63": text.replace("\n14\n", f"\n{2**63}\n"),
        "a short root": text.rpartition("\n")[0] + "\nAAAA",
        "an empty line in it": text.replace("\n14\n", "\n14\n\n"),
        "another root": text.rpartition("\n")[0] + "\n" + b64encode(bytes(32)).decode(),
    }.items():
        note = FIRST.sign(f"{changed_text}\n".encode())
        own = f"\u2014 {LOG} {b64encode(FIRST.key.id + note).decode()}\n"
        yield head(f"signed, {name}", f"{changed_text}\n\n{own}")
    more = f"{text}\nmore of it\n"
    own = f"\u2014 {LOG} {b64encode(FIRST.key.id + FIRST.sign(more.encode())).decode()}\n"
    yield head("signed, a line more", f"{more}\n{own}", GOOD, forms=("bundle", "zip", "ndjson", "report", "log"))
    yield vector("head: none over no entries", "calls", {**whole, "checkpoint": _empty()}, OPEN, BUNDLES)
    # Older heads
    yield vector("older: signed by a stranger", "calls", sealed(book, heads={6: (THIRD,)}), forms=BUNDLES)
    yield vector("older: a false signature", "calls", forged(whole, "heads/6", 0), forms=BUNDLES)
    yield vector("older: kept under another size", "calls", _moved(whole, "heads/6", "heads/7"), forms=BUNDLES)
    cut_off = sealed(book.told(cut(13)), heads=HEADS)
    longer = whole["checkpoint"].decode()
    kept = (*BUNDLES, "ndjson", "log")
    yield vector("kept head: of a longer journal", "calls", cut_off, after=(longer,), forms=kept)
    yield vector("kept head: this one", "calls", whole, GOOD, after=(longer,), forms=kept)
    older = whole["heads/6"].decode()
    yield vector("kept head: an older one", "calls", whole, GOOD, after=(older,), forms=kept)
    rewritten = sealed(book.told(put(1, at="2030-01-01T00:00:00.000000Z")))
    yield vector("kept head: of another history", "calls", rewritten, after=(older,), forms=kept)
    # A browser remembers by the name of the journal, so it compares no head of another.
    other_tenant = (foreign["checkpoint"].decode(),)
    yield vector("kept head: of another tenant", "calls", whole, OPEN, after=other_tenant, forms=(*BUNDLES, "ndjson"))
    # A loss that was declared: of 20 entries, which began with other ones from the sixth on
    lost, other_root = sha256(b"lost").digest(), sha256(b"other").digest()
    facts = {"lost": {"root": b64encode(lost).decode(), "size": 20}, "size": 5}
    declared = sealed(book.told(put(13, type="log_continued", facts=facts)))
    for name, size, root, expected in (
        ("the last one of it", 20, lost, OPEN),
        ("of its size, with another root", 20, other_root, BAD),
        ("of a longer journal than it", 21, lost, BAD),
        ("larger than the journal is now", 19, other_root, OPEN),
        ("smaller than the journal is now", 6, other_root, OPEN),
        ("where the journal went on from", 5, other_root, BAD),
        ("before the journal went on", 4, other_root, BAD),
    ):
        head = str(signed(TreeHead(LOG, size, root), FIRST))
        for told, files, verdict in (("", declared, expected), (", not declared", whole, BAD)):
            yield vector(f"kept head: lost{told}, {name}", "calls", files, verdict, after=(head,), forms=kept)


def _empty() -> bytes:
    text = f"{LOG}\n0\n47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\n"
    return f"{text}\n\u2014 {LOG} {b64encode(FIRST.key.id + FIRST.sign(text.encode())).decode()}\n".encode()


def _moved(files: Files, old: str, new: str) -> Files:
    rest = {name: content for name, content in files.items() if name != old}
    return {**rest, new: files[old]}


def rotations() -> Iterator[Vector]:
    whole, book = BASES["rotated"], rotated()
    for pinned in ("first", "second"):
        yield vector(f"rotation: the {pinned} key was given", "rotated", whole, GOOD, keys=(pinned,))
        false_old = forged(whole, "heads/4", 0)
        yield vector(
            f"rotation: the old key's line is false, the {pinned} was given",
            "rotated",
            false_old,
            keys=(pinned,),
            forms=BUNDLES,
        )
        both = sealed(book, **{**ROTATED, "by": (FIRST, SECOND)})
        yield vector(f"rotation: both sign the newest, the {pinned} was given", "rotated", both, GOOD, keys=(pinned,))
        yield vector(
            f"rotation: the old line under the newest is false, the {pinned} was given",
            "rotated",
            forged(both, "checkpoint", 0),
            keys=(pinned,),
        )
        yield vector(
            f"rotation: the new line under the newest is false, the {pinned} was given",
            "rotated",
            forged(both, "checkpoint", 1),
            keys=(pinned,),
        )
        old_alone = sealed(book, **{**ROTATED, "by": (FIRST,)})
        yield vector(f"rotation: the old key signs alone, the {pinned} was given", "rotated", old_alone, keys=(pinned,))
    yield vector("rotation: a third key was given", "rotated", whole, keys=("third",))
    third = Holder("ledger-else/default", 2)
    facts = book.events[3]["facts"]
    wrong: dict[str, Any] = {
        "signatures swapped": {
            **facts,
            "old_signature": facts["new_signature"],
            "new_signature": facts["old_signature"],
        },
        "without the old signature": {name: facts[name] for name in facts if name != "old_signature"},
        "the old signature is false": {**facts, "old_signature": b64encode(bytes(64)).decode()},
        "the new signature is false": {**facts, "new_signature": b64encode(bytes(64)).decode()},
        "a member more": {**facts, "x": "1"},
        "from a key to itself": {**facts, "new": facts["old"]},
        "of another journal": rotation_facts(Holder("ledger-else/default", 1).key, third.key, FIRST.sign, SECOND.sign),
        "a key that is none": {**facts, "new": "nothing"},
        "a number": {**facts, "new": 1},
        "of a key that did not sign": rotation_facts(THIRD.key, SECOND.key, THIRD.sign, SECOND.sign),
    }
    for name, told in wrong.items():
        files = sealed(book.told(put(3, facts=told)), by=(SECOND,))
        yield vector(f"rotation: {name}", "rotated", files)
    revoked = book.told(lambda book: book.fact("key_revoked", {"key": SECOND.key.vkey, "size": 2}))
    yield vector("rotation: the new key was revoked", "rotated", sealed(revoked, by=(SECOND,)))
    again = book.told(
        lambda book: book.fact("key_rotated", rotation_facts(FIRST.key, THIRD.key, FIRST.sign, THIRD.sign))
    )
    yield vector("rotation: a second one from the same key", "rotated", sealed(again, by=(THIRD,)))
    twice = book.told(
        lambda book: book.fact("key_rotated", rotation_facts(SECOND.key, THIRD.key, SECOND.sign, THIRD.sign))
    )
    for pinned in ("first", "second", "third"):
        files = sealed(twice, heads={4: (FIRST, SECOND), 5: (SECOND,)}, by=(THIRD,))
        yield vector(f"rotation: twice, the {pinned} was given", "rotated", files, GOOD, keys=(pinned,))


# ── manifests, files, archives, lines ────────────────────────────────────────────────────────────────────────────────
def manifests() -> Iterator[Vector]:
    for base, forms in (("calls", (*BUNDLES, "report")), ("run", PART), ("period", PART)):
        whole = BASES[base]
        told = json.loads(whole["manifest.json"])
        wrong: dict[str, Any] = {
            "no events": {"events": 0},
            "one event more": {"events": told["events"] + 1},
            "one value less": {"payloads": told["payloads"] - 1},
            "another first": {"first": told["first"] + 1},
            "another last": {"last": told["last"] + 1},
            "another origin": {"origin": "ledger-test/other"},
            "another root": {"root": b64encode(bytes(32)).decode()},
            "another size": {"size": told["size"] + 1},
            "another run": {"run": "run-9"},
            "another kind": {"kind": "period" if told["kind"] != "period" else "run"},
            "no kind": {"kind": "gift"},
            "another format": {"format": "indelible/bundle/v2"},
            "withheld below nothing": {"withheld": -1},
            "withheld more than there is": {"withheld": 99},
            "withheld as text": {"withheld": "0"},
            "withheld true": {"withheld": True},
            "events as text": {"events": str(told["events"])},
            "first null": {"first": None},
            "keys are no list": {"keys": "none"},
            "a key that is a number": {"keys": [1]},
            "made at a number": {"made_at": 5},
            "made by a number": {"indelible": 1},
            "a member more": {"zzz": 1},
        }
        chosen = wrong if base == "calls" else dict(list(wrong.items())[:10])
        for name, members in chosen.items():
            files = {**whole, "manifest.json": line_of({**told, **members})}
            # A whole journal that calls itself a period is one; its files tell, and a report has none.
            known = BUNDLES if (base, name) == ("calls", "another kind") else forms
            yield vector(f"manifest of a {told['kind']}: {name}", base, files, forms=known)
    whole = BASES["calls"]
    text = whole["manifest.json"]
    told = json.loads(text)
    for name in sorted(told):
        files = {**whole, "manifest.json": line_of({one: told[one] for one in told if one != name})}
        yield vector(f"manifest: without {name}", "calls", files, forms=(*BUNDLES, "report"))
    for name, content in {
        "a member twice": text.replace(b'"events":', b'"events":14,"events":'),
        "a number beyond any": text.replace(b'"withheld":0', b'"withheld":1e400'),
        "a fraction": text.replace(b'"withheld":0', b'"withheld":0.0'),
        "no number": text.replace(b'"withheld":0', b'"withheld":NaN'),
        "a list": b"[]\n",
        "nothing": b"",
        "no UTF-8": text.replace(b'"0"', b'"\xff"'),
        "half a letter": text.replace(b'"indelible":"0"', b'"indelible":"\\ud800"'),
        "more behind it": text + b"{}",
        "nested too deep": text.replace(b'"0"', b"[" * 9000 + b"]" * 9000),
    }.items():
        yield vector(f"manifest: {name}", "calls", {**whole, "manifest.json": content}, forms=BUNDLES)
    yield vector(
        "manifest: with spaces",
        "calls",
        {**whole, "manifest.json": json.dumps(told, indent=1).encode()},
        GOOD,
        BUNDLES,
    )


def files_and_trees() -> Iterator[Vector]:
    whole = BASES["calls"]
    entries = next(name for name in whole if name.startswith("tile/entries/"))
    tile = next(name for name in whole if name.startswith("tile/0/"))
    for name in (entries, tile, "checkpoint", "manifest.json", "README.txt", "verify.py"):
        rest = {other: content for other, content in whole.items() if other != name}
        yield vector(f"files: without {name}", "calls", rest, forms=BUNDLES)
    for name in ("more.txt", "heads/01", "heads/x", "tile/1/000.p/1", "receipts/1.tlog-proof", ".hidden"):
        yield vector(f"files: with {name}", "calls", {**whole, name: b"x"}, forms=BUNDLES)
    nothing = {other: content for other, content in whole.items() if other not in ("manifest.json", "checkpoint")}
    yield vector("files: neither manifest nor head", "calls", nothing, OPEN, BUNDLES)
    packed = whole[entries]
    bodies = unpack_entries(packed)
    both = (*BUNDLES, "log")
    yield vector("tree: a hash of a tile", "calls", {**whole, tile: b"x" + whole[tile][1:]}, forms=both)
    yield vector("tree: a short tile", "calls", {**whole, tile: whole[tile][:-32]}, forms=both)
    yield vector("tree: a byte of an entry", "calls", {**whole, entries: packed[:40] + b"x" + packed[41:]}, forms=both)
    yield vector("tree: an entry cut short", "calls", {**whole, entries: packed[:-1]}, forms=both)
    yield vector("tree: an entry more", "calls", {**whole, entries: pack_entries([*bodies, bodies[0]])}, forms=both)
    yield vector("tree: an entry less", "calls", {**whole, entries: pack_entries(bodies[:-1])}, forms=both)
    yield vector(
        "tree: two entries swapped",
        "calls",
        {**whole, entries: pack_entries([bodies[1], bodies[0], *bodies[2:]])},
        forms=both,
    )


def parts() -> Iterator[Vector]:
    for base in ("run", "period"):
        whole = BASES[base]
        names = sorted((name for name in whole if name.startswith("receipts/")), key=lambda name: int(name[9:-11]))
        yield vector(f"{base}: nobody touched it", base, whole, GOOD, PART)
        yield vector(f"{base}: no key was given", base, whole, OPEN, PART, keys=())
        yield vector(f"{base}: another key was given", base, whole, BAD, PART, keys=("third",))
        yield vector(f"{base}: the key of another tenant", base, whole, BAD, PART, keys=("other tenant",))
        yield vector(
            f"{base}: its line says another tenant", base, relabelled(whole, "ledger-test/other"), forms=BUNDLES
        )
        text = whole[names[1]].decode()
        for name, content in {
            "another index": re.sub(r"\nindex (\d+)", r"\nindex 0", text),
            "a hash of the proof": re.sub(r"(\nindex \d+\n)....", r"\1AAAA", text),
            "a hash less": re.sub(r"(\nindex \d+\n)[^\n]+\n", r"\1", text),
            "a hash more": re.sub(r"(\nindex \d+\n)", rf"\1{b64encode(bytes(32)).decode()}\n", text),
            "without its entry": re.sub(r"extra [^\n]+\n", "", text),
            "another entry": re.sub(
                r"extra [^\n]+\n", re.findall(r"extra [^\n]+\n", whole[names[0]].decode())[0], text
            ),
            "another first line": text.replace("@v1", "@v2"),
            "another head": text.replace("\n14\n", "\n15\n"),
        }.items():
            yield vector(f"{base}: a receipt with {name}", base, {**whole, names[1]: content.encode()}, forms=BUNDLES)
    run, period = [1, 2, 3, 4, 5, 11, 12], [*range(3, 9)]
    book = calls()
    yield vector("run: its first event left out", "run", part(book, run[1:], "run", "run-1"), forms=PART)
    yield vector(
        "run: an event in the middle left out", "run", part(book, [*run[:2], *run[3:]], "run", "run-1"), forms=PART
    )
    yield vector("run: its last event left out", "run", part(book, run[:-1], "run", "run-1"), GOOD, PART)
    yield vector("run: an event of another run", "run", part(book, [*run[:5], 6, *run[5:]], "run", "run-1"), forms=PART)
    yield vector("period: an entry in the middle left out", "period", part(book, [3, 4, 6, 7], "period"), forms=PART)
    yield vector("period: shorter", "period", part(book, period[:-1], "period"), GOOD, PART)
    yield vector(
        "period: that begins in the middle of an effect", "period", part(book, [*range(4, 8)], "period"), GOOD, PART
    )
    for name, change in {
        "31 February": put(4, at="2030-02-31T12:00:00.000000Z"),
        "another tenant's event": put(4, log="ledger-test/other"),
        "another hash before": put(4, prev=HASH),
        "arguments that are not canonical": lambda book: book.commit(3, "args", b"{ }"),
        "an illegal move": put(5, status="failed"),
        "one key with two effects": lambda book: book.commit(3, "key", key(3)),
    }.items():
        told = book.told(change)
        if name != "one key with two effects":
            yield vector(f"run: {name}", "run", part(told, run, "run", "run-1"), forms=PART)
        yield vector(f"period: {name}", "period", part(told, period, "period"), forms=PART)


def zips() -> Iterator[Vector]:
    whole = BASES["calls"]
    good, other = zipped(whole), zipped(sealed(calls().told(cut(13))))

    def archive(name: str, content: bytes, expected: str = BAD) -> Vector:
        return vector(f"zip: {name}", "calls.zip", {"bundle.zip": content}, expected, ("zip",))

    def with_entry(name: str, content: bytes = b"x", kind: int = zipfile.ZIP_STORED) -> bytes:
        out = BytesIO(good)
        with zipfile.ZipFile(out, "a") as packed:
            info = zipfile.ZipInfo(name)
            info.compress_type = kind
            packed.writestr(info, content)
        return out.getvalue()

    yield archive("nobody touched it", good, GOOD)
    yield archive("behind another", other + good)
    yield archive("before another", good + other)
    yield archive("behind some bytes", b"PK\3\4 more" + good)
    yield archive("before a byte", good + b"x", BAD)
    commented = BytesIO(good)
    with zipfile.ZipFile(commented, "a") as packed:
        packed.comment = b"hello"
    yield archive("with a comment", commented.getvalue())
    yield archive("with a name twice", with_entry("checkpoint", whole["checkpoint"]))
    yield archive("with a name that leads out", with_entry("../evil"))
    yield archive("with a name from the root", with_entry("/evil"))
    yield archive("with a name of another system", with_entry("heads\\1"))
    yield archive("with a file more", with_entry("more.txt"))
    yield archive("packed in another way", with_entry("heads/1x", kind=zipfile.ZIP_BZIP2))
    yield archive("with an empty folder", with_entry("folder/", b""), GOOD)
    place = good.index(b"PK\1\2")
    hidden = zipped({"manifest.json": b"{}"})
    inside = good[:place] + hidden[: hidden.index(b"PK\1\2")] + good[place:]
    end = inside.rindex(b"PK\5\6")
    moved = (place + hidden.index(b"PK\1\2")).to_bytes(4, "little")
    yield archive("with a file that it does not list", inside[: end + 16] + moved + inside[end + 20 :])
    yield archive("cut", good[:-30], OPEN)
    yield archive("damaged", good[:60] + bytes([good[60] ^ 255]) + good[61:])


def ndjson() -> Iterator[Vector]:
    content = BASES["calls.ndjson"]["journal.ndjson"]
    lines = content.splitlines(keepends=True)

    def told(name: str, changed: list[bytes] | bytes, expected: str = BAD) -> Vector:
        made = changed if isinstance(changed, bytes) else b"".join(changed)
        return vector(f"ndjson: {name}", "calls.ndjson", {"journal.ndjson": made}, expected, ("ndjson",))

    last = json.loads(lines[-1])
    yield told("nobody touched it", content, GOOD)
    yield told("without its values", [re.sub(rb',"payloads":\{.*\}\}\n', b"}\n", line) for line in lines])
    yield told("without one value", [lines[0], re.sub(rb',"payloads":\{.*\}\}\n', b"}\n", lines[1]), *lines[2:]])
    yield told("cut before the head", lines[:-1], OPEN)
    yield told("without the last line feed", content[:-1], OPEN)
    yield told("a head that does not say what is withheld", [*lines[:-1], line_of({"head": last["head"]})], OPEN)
    yield told("withheld below nothing", [*lines[:-1], line_of({**last, "withheld": -1})], OPEN)
    yield told("withheld as text", [*lines[:-1], line_of({**last, "withheld": "0"})], OPEN)
    yield told("more withheld than there is", [*lines[:-1], line_of({**last, "withheld": 99})])
    yield told("nothing", b"", OPEN)
    yield told("a line less", [*lines[:3], *lines[4:]])
    yield told("a line more", [*lines[:4], lines[3], *lines[4:]])
    yield told("two lines swapped", [lines[1], lines[0], *lines[2:]])
    yield told("two heads", [*lines, lines[-1]])
    yield told("the head in the middle", [*lines[:4], lines[-1], *lines[4:]])
    yield told("an empty line", [*lines[:4], b"\n", *lines[4:]])
    yield told("carriage returns", content.replace(b"\n", b"\r\n"), OPEN)
    yield told("a space", [lines[0].replace(b',"index"', b', "index"'), *lines[1:]])
    yield told("another index", [lines[0].replace(b'"index":0', b'"index":1'), *lines[1:]])
    yield told("an index with a zero before it", [lines[1].replace(b'"index":1', b'"index":01'), *lines[1:]])
    yield told("a member more", [lines[0].replace(b'"index":0', b'"index":0,"x":1'), *lines[1:]])
    yield told("a salt in capitals", [*lines[:1], _upper(lines[1]), *lines[2:]])


def _upper(line: bytes) -> bytes:
    return re.sub(rb'"salt":"([0-9a-f]+)"', lambda found: b'"salt":"' + found[1].upper() + b'"', line, count=1)


# ── runs, approvals ──────────────────────────────────────────────────────────────────────────────────────────────────
def runs() -> Iterator[Vector]:
    book = driven()
    places = {event["type"]: index for index, event in enumerate(book.events)}
    facts = {type_: book.events[index].get("facts") for type_, index in places.items()}

    def fact(type_: str, **members: Any) -> Change:
        return put(places[type_], facts={**facts[type_], **members})

    def without(type_: str, name: str) -> Change:
        return put(places[type_], facts={one: value for one, value in facts[type_].items() if one != name})

    wrong: dict[str, Change] = {
        "started without a driver's number": without("run_started", "fence"),
        "started with a driver's number as text": fact("run_started", fence="1"),
        "started with a parent that is a number": fact("run_started", parent=1),
        "started twice": put(places["plan_locked"], type="run_started", facts=facts["run_started"]),
        "completed, and told of": lambda book: book.fact("acme.late", facts["plan_locked"], run="r"),
        "completed without a reason": commits(places["run_completed"], reason=None),
        "completed without its run": commits(places["run_completed"], run=None),
        "taken over by a driver that is not newer": fact("run_resumed", fence=1),
        "lost by a driver that never was": fact("interruption_detected", fence=7),
        "lost, and nobody took it": cut(places["run_resumed"]),
        "resumed from a checkpoint that never was": fact("run_resumed", checkpoint="ckpt_9"),
        "a checkpoint of a later event": fact("checkpoint_sealed", at=99),
        "a checkpoint for no reason": fact("checkpoint_sealed", reason="whim"),
        "a checkpoint without a checkpoint": commits(places["checkpoint_sealed"], checkpoint=None),
        "told by nobody": fact("acme.sent", said_by=1),
        "a side effect that nobody knows": fact("plan_locked", side_effect="gift"),
        "an event that ends what was never begun": put(0, type="run_completed", facts={}),
    }
    for name, change in wrong.items():
        told = book.told(change)
        for index in range(len(told.events) - 1, -1, -1):
            told.events[index]["seq"] = sum(one["run"] == told.events[index]["run"] for one in told.events[:index])
        yield vector(f"run's life: {name}", "driven", sealed(told))
    yield vector("run's life: nobody touched it", "driven", sealed(book), GOOD)
    for type_, name in (("run_started", "run"), ("run_completed", "run"), ("checkpoint_sealed", "checkpoint")):
        value = decode(book.values[places[type_]][name][1])
        for path in list(leaves(value))[1::4]:
            other = encode(changed(value, path))
            told = book.with_value(places[type_], name, other)
            where = ".".join(map(str, path))
            yield vector(f"run's life: {type_}, another {where}", "driven", sealed(told), log=GOOD, counts_votes=True)


def approvals() -> Iterator[Vector]:
    book = asked()
    yield vector("approval: nobody touched it", "asked", sealed(book), GOOD)
    withheld = book.told(lambda book: [values.clear() for values in book.values])
    count = sum(len(event["commits"]) for event in book.events)
    yield vector("approval: everything withheld", "asked", sealed(withheld, withheld=count), GOOD)
    places: dict[str, list[int]] = {}
    for index, event in enumerate(book.events):
        places.setdefault(event["type"], []).append(index)
    for type_ in ("approval_voted", "approval_received", "approval_requested", "approval_edited", "grant_ended"):
        index = places[type_][0]
        field = "grant" if type_ == "grant_ended" else "approval"
        value = decode(book.values[index][field][1])
        for path in list(leaves(value))[1::9]:
            other = encode(changed(value, path))
            told = book.with_value(index, field, other)
            where = ".".join(map(str, path))
            yield vector(f"approval: {type_}, another {where}", "asked", sealed(told), log=GOOD, counts_votes=True)
    # What the events tell without their values
    started, received = places["tool_call_started"][0], places["approval_received"][0]
    signed: dict[str, Change] = {
        "entered without it": commits(started, approval=None),
        "received, and nobody was asked": put(places["approval_viewed"][0], type="approval_received", status="ready"),
        "received without a reason": commits(received, reason=None),
        "viewed with a value": commits(places["approval_viewed"][0], reason=HASH),
        "voted to be ready": put(places["approval_voted"][0], status="ready"),
        "denied, and ready": put(received, type="approval_denied", status="ready"),
        "edited without arguments": commits(places["approval_edited"][0], args=None),
        "escalated with a reason": commits(places["approval_escalated"][0], reason=HASH),
        "used twice": commits(places["tool_call_released"][0], approval=None),
    }
    for name, change in signed.items():
        told = withheld.told(change)
        count = sum(len(event["commits"]) for event in told.events)
        yield vector(f"approval: {name}", "asked", sealed(told, withheld=count))


def votes() -> Iterator[Vector]:
    """Give what rests on the values of permissions: where no values are shown, nothing is wrong."""
    told = (
        vector_votes.forged_votes,
        vector_votes.cast_again,
        vector_votes.granted_again,
        vector_votes.standings,
        vector_votes.charges,
    )
    for name, book, expected in (one for group in told for one in group()):
        base = "standing" if name.startswith("standing") else "asked"
        yield vector(name, base, sealed(book), expected, log=GOOD, counts_votes=True)
    for name, book, expected, withheld in vector_votes.changed_sheets():
        yield vector(name, "asked", sealed(book, withheld=withheld), expected, log=GOOD, counts_votes=True)
    for name, book, expected, places, kind, run in vector_votes.parts():
        yield vector(name, "asked", part(book, places, kind, run), expected, PART, counts_votes=True)


def all_vectors() -> dict[str, Any]:
    made = [
        one
        for group in (
            *(signed_changes, moves, keys, values, heads, rotations, manifests, files_and_trees, parts, zips, ndjson),
            *(runs, approvals, votes),
        )
        for one in group()
    ]
    names = [one["name"] for one in made]
    assert len(set(names)) == len(names), sorted(name for name in names if names.count(name) > 1)
    texts = {
        base: {name: content.decode("latin-1") for name, content in sorted(files.items())}
        for base, files in BASES.items()
    }
    return {"format": "indelible/vectors/v1", "keys": KEYS, "bases": texts, "vectors": made}


def text_of(content: dict[str, Any]) -> str:
    """Write the vectors, one to a line."""
    shared = {name: content[name] for name in ("bases", "format", "keys")}
    lines = ",\n".join(json.dumps(one, ensure_ascii=False, sort_keys=True) for one in content["vectors"])
    return json.dumps(shared, ensure_ascii=False, sort_keys=True)[:-1] + f', "vectors": [\n{lines}\n]}}\n'


if __name__ == "__main__":
    WHERE.write_bytes(gzip.compress(text_of(all_vectors()).encode(), 9, mtime=0))
