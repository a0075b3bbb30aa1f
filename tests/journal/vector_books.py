"""Journals to make vectors of, as lists of events that can be told otherwise, and sealed with keys that are known."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Callable
from copy import deepcopy
from datetime import timedelta
from functools import cache
from hashlib import sha256
from typing import Any

from indelible.core.events import commitment
from indelible.core.journal.merkle import leaf_hash
from indelible.core.journal.notes import Note, Signature, TreeHead, sign_note
from indelible.core.journal.rotation import rotation_facts
from indelible.core.journal.tiles import entries_path, pack_entries, tile_path, tiles_of
from indelible.core.runs.run import Happening
from indelible.core.verifying.bodies import canonical_text
from tests.core.journals import Holder, MemoryTree
from tests.core.run_world import World
from tests.core.told import LOG, WRITER
from tests.core.verifying.test_permissions import whole_story
from tests.core.verifying.test_runs import path_of

Files = dict[str, bytes]
OWN = "indelible:journal"
AT = "2030-01-02T12:00:00.000000Z"
FIRST, SECOND, THIRD = Holder(LOG, 1), Holder(LOG, 2), Holder(LOG, 3)
OTHER_TENANT = Holder("ledger-test/other", 1)
KEYS = {
    "first": FIRST.key.vkey,
    "second": SECOND.key.vkey,
    "third": THIRD.key.vkey,
    "other tenant": OTHER_TENANT.key.vkey,
}
RAW = "\0raw"
"""Is a member of an event that is no member: a function that changes the bytes it is written as."""


class Book:
    """Is a journal: events as objects, with the values that are shown of each."""

    def __init__(self, log: str = LOG) -> None:
        self.log = log
        self.events: list[dict[str, Any]] = []
        self.values: list[dict[str, tuple[bytes, bytes]]] = []

    def add(self, content: dict[str, Any], **values: bytes) -> None:
        """Append an event that commits to values."""
        run, index = content["run"], len(self.events)
        own = {name: (sha256(f"{index} {name}".encode()).digest(), value) for name, value in values.items()}
        commits = {name: commitment(salt, name, value) for name, (salt, value) in own.items()}
        seq = sum(event["run"] == run for event in self.events)
        shared = {"at": AT, "commits": commits, "log": self.log, "seq": seq, "v": 1, "writer": WRITER}
        self.events.append({**shared, **content})
        self.values.append(own)

    def effect(self, effect: str, type_: str, status: str, attempt: int, run: str = "run-1", **words: Any) -> None:
        """Append an event about an effect; words that are bytes are values."""
        values = {name: value for name, value in words.items() if isinstance(value, bytes)}
        told = {"side_effect": "payment", "on_crash": "hold", "tool": "pay"}
        told |= {name: value for name, value in words.items() if not isinstance(value, bytes)}
        actor = {"id": "agent", "kind": "agent", "via": "process"}
        said = {"actor": actor, "attempt": attempt, "effect": effect, "run": run, "status": status, "type": type_}
        self.add({**said, **told}, **values)

    def fact(self, type_: str, facts: Any, run: str = OWN, **values: bytes) -> None:
        """Append an event about no effect."""
        actor = {"id": "indelible", "kind": "system", "via": "process"}
        self.add({"actor": actor, "facts": facts, "run": run, "type": type_}, **values)

    def commit(self, index: int, name: str, value: bytes) -> None:
        """Let an event commit to a value, which is shown."""
        salt = self.values[index].get(name, (sha256(f"{index} {name}".encode()).digest(), b""))[0]
        self.values[index][name] = (salt, value)
        self.events[index]["commits"][name] = commitment(salt, name, value)

    def with_value(self, index: int, name: str, value: bytes) -> Book:
        """Return the journal with another value of an event, to which it commits."""
        return self.told(lambda book: book.commit(index, name, value))

    def told(self, change: Callable[[Book], Any]) -> Book:
        """Return the journal with something changed."""
        copied = deepcopy(self)
        change(copied)
        return copied

    def bodies(self) -> list[bytes]:
        """Write the events, each with the hash of the one before it in its run, unless it names another."""
        ends: dict[Any, str] = {}
        written = []
        for event in self.events:
            content = {"prev": ends.get(event.get("run"), "0" * 64), **event}
            change = content.pop(RAW, lambda text: text)
            body = change(canonical_text(content).encode())
            ends[event.get("run")] = leaf_hash(body).hex()
            written.append(body)
        return written


def of_path(path: Any) -> Book:
    """Return what the rules told as a journal."""
    book, shown = Book(), path.shown()
    for event in path.events:
        content = json.loads(event.body)
        del content["prev"]
        book.events.append(content)
        values = shown.get((event.run_id, event.seq), {})
        book.values.append({name: (one.salt, one.value) for name, one in values.items()})
    return book


def key(number: int) -> bytes:
    return sha256(f"key {number}".encode()).digest()


def calls() -> Book:
    """Payments that succeed, are in doubt, fail and are tried again; a value is erased."""
    book = Book()
    book.fact("key_registered", {"key": FIRST.key.vkey})
    book.effect("eff_1", "tool_call_started", "processing", 1, args=b'{"amount":5,"to":"ana"}', key=key(1))
    book.effect("eff_1", "tool_call_finished", "succeeded", 1, result=b'{"id":"ch_1"}')
    book.effect("eff_2", "tool_call_started", "processing", 1, tool="mail.send", args=b'{"to":"bo"}', key=key(2))
    book.effect("eff_2", "tool_call_in_doubt", "in_doubt", 1, tool="mail.send", reason=b'"the line went dead"')
    book.effect("eff_2", "tool_call_finished", "succeeded", 1, tool="mail.send", evidence=b'"seen"', result=b"1.5")
    again: Any = {"run": "run-2", "side_effect": "read", "on_crash": "retry", "tool": "crm.look"}
    book.effect("eff_3", "tool_call_started", "processing", 1, args=b"{}", key=key(3), **again)
    book.effect("eff_3", "tool_call_finished", "failed", 1, error=b'{"message":"no","type":"E"}', **again)
    book.effect("eff_3", "tool_call_released", "ready", 1, reason=b'"once more"', **again)
    book.effect("eff_3", "tool_call_started", "processing", 2, **again)
    book.effect("eff_3", "tool_call_finished", "succeeded", 2, result=b"null", **again)
    book.fact("payload_erased", {"basis": "request", "erased": [{"fields": ["result"], "seq": 1}]}, run="run-1")
    by_hand = {"side_effect": "none", "status": "recorded", "step": None}
    book.fact("acme.noted", by_hand, run="run-1", payload=b'{"text":"\xc3\xbc"}')
    book.fact("journal_heartbeat", {})
    del book.values[2]["result"]
    return book


def rotated() -> Book:
    """Two calls, and between them a new key."""
    book = Book()
    book.fact("key_registered", {"key": FIRST.key.vkey})
    book.effect("eff_1", "tool_call_started", "processing", 1, args=b"{}", key=key(1))
    book.effect("eff_1", "tool_call_finished", "succeeded", 1, result=b"1")
    book.fact("key_rotated", rotation_facts(FIRST.key, SECOND.key, FIRST.sign, SECOND.sign))
    book.effect("eff_2", "tool_call_started", "processing", 1, args=b"{}", key=key(2))
    book.effect("eff_2", "tool_call_finished", "succeeded", 1, result=b"2")
    return book


@cache
def asked() -> Book:
    """Approvals, votes, edits, grants and delegations."""
    return of_path(whole_story())


@cache
def driven() -> Book:
    """A run that is started, saved, lost, taken over, told of and completed."""
    world = World()
    world.start("r", intent="pay", permissions={"most": 7})
    world.tell(Happening(type="plan_locked", payload_json=b'{"goal":"paid"}', step="plan"))
    world.tell(Happening(type="acme.sent", side_effect="notification", side_effect_key="k1", said_by="worker-7"))
    world.seal("ckpt_1", state_json=b'{"at":3}')
    world.pass_time(timedelta(minutes=5))
    world.take("t2")
    world.end("completed", token="t2")
    return of_path(path_of(world))


def signed(head: TreeHead, *holders: Holder) -> Note:
    note = Note(head.text, ())
    for holder in holders:
        note = note.with_signatures(sign_note(head.text, holder.key, holder.sign).signatures)
    return note


def sealed(
    book: Book,
    *,
    heads: dict[int, tuple[Holder, ...]] | None = None,
    by: tuple[Holder, ...] = (FIRST,),
    origin: str = LOG,
    withheld: int = 0,
) -> Files:
    """Return a bundle of the whole journal."""
    bodies = book.bodies()
    tree = MemoryTree(bodies)
    files = _shared(book, range(len(bodies)), signed(tree.head(origin=origin), *by))
    for size, holders in (heads or {}).items():
        files[f"heads/{size}"] = str(signed(tree.head(size, origin), *holders)).encode()
    for level, number, width in tiles_of(len(bodies)):
        files[tile_path(level, number, width)] = tree.tiles[level, number]
    files[entries_path(0, len(bodies))] = pack_entries(bodies)
    manifest = _manifest(book, range(len(bodies)), tree.head(origin=origin), "journal", None, withheld)
    return files | {"manifest.json": manifest}


def part(book: Book, places: list[int], kind: str, run: str | None = None) -> Files:
    """Return a bundle of some entries, each with its receipt."""
    bodies = book.bodies()
    tree = MemoryTree(bodies)
    head = tree.head(origin=LOG)
    note = signed(head, FIRST)
    files = _shared(book, places, note)
    for index in places:
        files[f"receipts/{index}.tlog-proof"] = str(tree.receipt(index, note, len(bodies))).encode()
    return files | {"manifest.json": _manifest(book, places, head, kind, run, 0)}


def _shared(book: Book, places: Any, note: Note) -> Files:
    lines = [
        {"field": name, "index": index, "salt": salt.hex(), "value": b64encode(value).decode()}
        for index in places
        for name, (salt, value) in sorted(book.values[index].items())
    ]
    payloads = b"".join(line_of(line) for line in lines)
    return {"checkpoint": str(note).encode(), "payloads.ndjson": payloads, "README.txt": b"", "verify.py": b""}


def _manifest(book: Book, places: Any, head: TreeHead, kind: str, run: str | None, withheld: int) -> bytes:
    content = {
        "events": len(places),
        "first": places[0],
        "format": "indelible/bundle/v1",
        "indelible": "0",
        "keys": [FIRST.key.vkey],
        "kind": kind,
        "last": places[-1],
        "made_at": AT,
        "origin": head.origin,
        "payloads": sum(len(book.values[index]) for index in places),
        "root": b64encode(head.root).decode(),
        "run": run,
        "size": head.size,
        "withheld": withheld,
    }
    return line_of(content)


def line_of(content: object) -> bytes:
    return json.dumps(content, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode() + b"\n"


def relabelled(files: Files, name: str) -> Files:
    """Put another name on the signature lines of the newest head."""
    text, gap, below = files["checkpoint"].decode().rpartition("\n\n")
    lines = [f"\u2014 {name} {line.rpartition(' ')[2]}" for line in below.splitlines()]
    return {**files, "checkpoint": (text + gap + "\n".join(lines) + "\n").encode()}


def forged(files: Files, name: str, number: int) -> Files:
    """Make one signature line of a head false."""
    text, gap, below = files[name].decode().rpartition("\n\n")
    lines = below.splitlines()
    told = lines[number].split(" ")
    lines[number] = Signature(told[1], b64decode(told[2])[:4], bytes(64)).line.rstrip("\n")
    return {**files, name: (text + gap + "\n".join(lines) + "\n").encode()}
