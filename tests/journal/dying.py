"""Processes that are killed inside the journal's code, and what must be true after each of them.

What a kill leaves behind is what the process had changed until then. So a first run finds the lines before which
something had just changed, and every one of them kills once. Run as a program, so that the process that forks has no
threads: `python -m tests.journal.dying DEED FOLDER`; with `--every-line` each line kills, which takes minutes. It
prints how many times it killed, or a traceback.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from indelible import Ledger, ToolCall, journal, stores
from indelible.core.journal.journal import JOURNAL_RUN
from indelible.core.journal.merkle import consistency_proof, leaf_hash, perfect_root, root_of
from indelible.core.journal.notes import Note, PublicKey, TreeHead, log_name, parse_head, parse_note, parse_vkey
from indelible.core.journal.rotation import check_rotation
from indelible.core.values.canonical import encode
from indelible.core.verifying.trust import KeyChain, SignedHead
from indelible.errors import SignerRefused
from indelible.journal.keys.holders import KeyHolder, SigningKeys
from indelible.journal.keys.ring import KeyRing, key_id
from indelible.journal.keys.rotating import revoke, rotate
from indelible.journal.keys.signer import FileHeadState, StatefulSigner
from tests.chaos.linekill import LineKill

LEDGER = "ledger-1"
_OURS = tuple(f"{Path(str(package.__file__)).parent}{os.sep}" for package in (journal, stores))
_SLACK = 10_000  # lines that a wait for a lock may add


def each_moment_kills(deed: str, folder: Path) -> int:
    """Kills a process that does this at every moment that differs, checks after each, and gives how often it killed."""
    command = [sys.executable, "-m", "tests.journal.dying", deed, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    return int(done.stdout)


class JournalLineKill(LineKill):
    """Counts the lines that write files, of keys or of the database; dying elsewhere is dying before or after them."""

    def _on_call(self, frame: FrameType, event: str, argument: Any) -> Any:
        return self._on_line if frame.f_code.co_filename.startswith(_OURS) else None


# ── a world in which everything that was ever signed is seen ─────────────────────────────────────────────────────────


@dataclass
class World:
    """Is what outlives a process: its keys, its database, and whatever left it."""

    folder: Path

    def ring(self) -> KeyRing:
        return KeyRing.open(LEDGER, self.folder / "keys")

    def signer(self) -> StatefulSigner:
        ring = self.ring()
        return StatefulSigner(SeenKeys(ring, self), FileHeadState(ring.folder))

    def ledger(self, tenant: str) -> Ledger:
        """Opens a real ledger that has its keys here."""
        return Ledger.open(f"sqlite:///{self.folder / 'ledger.db'}", tenant=tenant, keys=self.folder / "keys")

    def ledger_ring(self) -> KeyRing:
        (folder,) = (self.folder / "keys").glob("ledger-*")
        return KeyRing.open(folder.name, folder.parent)

    def note(self, name: str, line: str) -> None:
        """Writes a line that a kill cannot tear."""
        descriptor = os.open(self.folder / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(descriptor, line.encode() + b"\n")
        finally:
            os.close(descriptor)

    def noted(self, name: str) -> list[str]:
        path = self.folder / name
        return path.read_text().splitlines() if path.exists() else []

    def signed_heads(self) -> list[TreeHead]:
        """Lists every head that any key ever signed."""
        heads = [parse_head(text) for text in map(json.loads, self.noted("signed")) if text.count("\n") == 3]
        roots: dict[tuple[str, int], bytes] = {}
        for head in heads:
            assert roots.setdefault((head.origin, head.size), head.root) == head.root, f"two heads of size {head.size}"
        return heads


class SeenKeys:
    """Notes everything that its keys sign."""

    def __init__(self, keys: SigningKeys, world: World) -> None:
        self._keys = keys
        self._world = world

    def holders(self) -> Sequence[KeyHolder]:
        return [SeenHolder(holder, self._world) for holder in self._keys.holders()]

    def holder_of(self, raw: bytes) -> KeyHolder | None:
        holder = self._keys.holder_of(raw)
        return None if holder is None else SeenHolder(holder, self._world)


class SeenHolder:
    """Notes everything that its key signs."""

    def __init__(self, holder: KeyHolder, world: World) -> None:
        self._holder = holder
        self._world = world
        self.raw = holder.raw

    def sign(self, message: bytes) -> bytes:
        self._world.note("signed", json.dumps(message.decode()))
        return self._holder.sign(message)


class FileJournal:
    """Is a journal whose database is a file of lines; each line is an event, and durable as soon as it is written."""

    def __init__(self, world: World, tenant: str) -> None:
        self.origin = f"{LEDGER}/{tenant}"
        self._world = world
        self._name = f"events-{tenant}"

    def events(self) -> list[bytes]:
        return [line.encode() for line in self._world.noted(self._name)]

    def record_once(self, event_type: str, facts: Mapping[str, Any]) -> object:
        line = encode({"facts": dict(facts), "type": event_type}).decode()
        if line not in self._world.noted(self._name):
            self._world.note(self._name, line)
        return None

    def seal(self) -> Note:
        leaves = [leaf_hash(event) for event in self.events()]
        note = self._world.signer().sign(head_of(self.origin, leaves), prover(leaves))
        self._world.note("notes", json.dumps(str(note)))
        return note


def head_of(origin: str, leaves: Sequence[bytes]) -> TreeHead:
    return TreeHead(origin, len(leaves), root_of(leaves))


def prover(leaves: Sequence[bytes]) -> Callable[[int], Sequence[bytes]]:
    def read(level: int, number: int) -> bytes:
        return perfect_root(leaves[number << level : (number + 1) << level])

    return lambda old: consistency_proof(old, len(leaves), read)


# ── deeds ────────────────────────────────────────────────────────────────────────────────────────────────────────────


class Deed:
    """Is something to do, from what, and what must hold after it was cut off anywhere."""

    def prepare(self, world: World) -> None:
        """Makes what was there before."""

    def act(self, world: World) -> None:
        """Does it."""
        raise NotImplementedError

    def check(self, world: World, *, is_done: bool) -> None:
        """Looks at what is left, and does it again."""
        raise NotImplementedError


class Create(Deed):
    def act(self, world: World) -> None:
        made = world.ring().create()
        world.note("told", made.id)

    def check(self, world: World, *, is_done: bool) -> None:
        before = world.ring().current()
        after = world.ring().create()
        assert before is None or before == after
        assert set(world.noted("told")) <= {after.id}
        assert is_done <= (before is not None)
        assert len(world.ring().holders()) == 1
        assert sorted(path.name for path in world.ring().folder.iterdir()) == ["current.pem", "lock"]


class Sign(Deed):
    """Signs three heads, each after its entry became durable."""

    def prepare(self, world: World) -> None:
        world.ring().create()
        FileJournal(world, "a").record_once("n0", {})
        FileJournal(world, "a").seal()

    def act(self, world: World) -> None:
        for number in range(1, 4):
            FileJournal(world, "a").record_once(f"n{number}", {})
            FileJournal(world, "a").seal()

    def check(self, world: World, *, is_done: bool) -> None:
        given = {parse_head(note.text): note for note in map(parse_note, map(json.loads, world.noted("notes")))}
        self._refuses_to_fork(world)
        kept = FileJournal(world, "a").seal()  # what a next process does: the database was never set back
        assert given.get(parse_head(kept.text), kept) == kept
        FileJournal(world, "a").record_once("more", {})
        FileJournal(world, "a").seal()
        self._refuses_to_fork(world)
        world.signed_heads()

    def _refuses_to_fork(self, world: World) -> None:
        """Offers histories that part from what was ever signed, at each place and in each length."""
        size = max(head.size for head in world.signed_heads())
        mine = [leaf_hash(event) for event in FileJournal(world, "a").events()]
        for common in range(size):
            for length in range(common + 1, size + 2):
                leaves = mine[:common] + [leaf_hash(b"another %d" % number) for number in range(common, length)]
                try:
                    world.signer().sign(head_of(f"{LEDGER}/a", leaves), prover(leaves))
                except SignerRefused:
                    continue
                raise AssertionError(f"a history of {length} was signed that parts at {common}")


class Rotate(Deed):
    """Rotates the key of two journals."""

    tenants = ("a", "b")

    def journals(self, world: World) -> list[FileJournal]:
        return [FileJournal(world, tenant) for tenant in self.tenants]

    def prepare(self, world: World) -> None:
        world.note("first", world.ring().create().raw.hex())
        for journal_ in self.journals(world):
            journal_.record_once("n0", {})
            journal_.seal()

    def act(self, world: World) -> None:
        rotate(world.ring(), lambda: self.journals(world))
        world.note("rotated", "")

    def check(self, world: World, *, is_done: bool) -> None:
        first = bytes.fromhex(world.noted("first")[0])
        for journal_ in self.journals(world):  # a process that seals all the time may come at any moment
            journal_.record_once("between", {})
            journal_.seal()
        holders = world.ring().holders()
        is_finished = first not in [holder.raw for holder in holders]
        assert is_finished or holders[0].raw == first
        assert is_finished >= bool(world.noted("rotated"))
        if not is_finished:
            self.act(world)
        self._check_rotated(world, first)

    def _check_rotated(self, world: World, first: bytes) -> None:
        current, retired = world.ring().all_keys()
        assert (current.status, retired.status, retired.raw) == ("current", "retired", first)
        for journal_ in self.journals(world):
            journal_.record_once("after", {})
            journal_.seal()
            self._check_journal(world, journal_, PublicKey(journal_.origin, first), current.raw)
        world.signed_heads()

    def _check_journal(self, world: World, journal_: FileJournal, old: PublicKey, raw: bytes) -> None:
        """Judges as an auditor does who pinned the old key and follows the rotation: is each head well signed?"""
        told = [
            (at, event) for at, event in enumerate(map(json.loads, journal_.events())) if event["type"] == "key_rotated"
        ]
        ((index, event),) = told
        assert check_rotation(event["facts"]) == (old, PublicKey(journal_.origin, raw))
        notes = [parse_note(note) for note in map(json.loads, world.noted("notes"))]
        mine = [note for note in notes if parse_head(note.text).origin == journal_.origin]
        for note in mine:
            assert note.signed_by(PublicKey(journal_.origin, raw) if parse_head(note.text).size > index else old)
        assert any(note.signed_by(old) for note in mine if parse_head(note.text).size > index)
        kept = {parse_head(note.text).size: note for note in mine}  # as a store keeps them: the last note of a size
        assert any(note.signed_by(old) for size, note in kept.items() if size > index)


class Revoke(Rotate):
    """Revokes a key that was rotated before."""

    def prepare(self, world: World) -> None:
        super().prepare(world)
        super().act(world)

    def act(self, world: World) -> None:
        sizes = [(journal_, 2) for journal_ in self.journals(world)]
        revoke(world.ring(), key_id(bytes.fromhex(world.noted("first")[0])), sizes)
        world.note("revoked", "")

    def check(self, world: World, *, is_done: bool) -> None:
        first = bytes.fromhex(world.noted("first")[0])
        assert (world.ring().holder_of(first) is None) >= bool(world.noted("revoked"))
        self.act(world)
        assert [key.status for key in world.ring().all_keys()] == ["current", "revoked"]
        for journal_ in self.journals(world):
            (facts,) = [e["facts"] for e in map(json.loads, journal_.events()) if e["type"] == "key_revoked"]
            assert (parse_vkey(facts["key"]).raw, facts["size"]) == (first, 2)
            assert not journal_.seal().signed_by(PublicKey(journal_.origin, first))


class RotateLedger(Deed):
    """Rotates the keys of a real ledger with two tenants."""

    tenants = ("default", "acme")

    def prepare(self, world: World) -> None:
        for tenant in self.tenants:
            self._work(world, tenant, 0)
        world.note("first", world.ledger_ring().holders()[0].raw.hex())

    def act(self, world: World) -> None:
        with world.ledger("default") as ledger:
            ledger.rotate_keys()

    def check(self, world: World, *, is_done: bool) -> None:
        first = bytes.fromhex(world.noted("first")[0])
        for tenant in self.tenants:
            self._work(world, tenant, 1)
        if first in [holder.raw for holder in world.ledger_ring().holders()]:
            assert not is_done
            self.act(world)
        assert [key.status for key in world.ledger_ring().all_keys()] == ["current", "retired"]
        for tenant in self.tenants:
            self._work(world, tenant, 2)
            with world.ledger(tenant) as ledger:
                assert check_journal(ledger, first) == 1

    def _work(self, world: World, tenant: str, number: int) -> None:
        with world.ledger(tenant) as ledger:
            ledger.run(ToolCall(tool="count", args={"n": number}, run_id="r"), lambda effect: 1)
            ledger.seal()


def check_journal(ledger: Ledger, first: bytes) -> int:
    """Judges every head of a journal as an auditor does who pinned the first key; gives how often it was rotated."""
    store = ledger._engine.store
    origin = log_name(store.ledger_name, ledger.tenant)
    entries = store.journal.entries(ledger.tenant, 0, 1_000_000)
    chain = KeyChain(origin)
    for entry in entries:
        if entry.run_id == JOURNAL_RUN:
            content = json.loads(entry.body)
            chain.learn(entry.index, content["type"], content["facts"])
    leaves = [leaf_hash(entry.body) for entry in entries]
    notes = store.journal.heads(ledger.tenant, 1_000_000)
    assert notes
    for text in notes:
        note = parse_note(text)
        head = parse_head(note.text)
        chain.check_signed(SignedHead("a head", note, head), [PublicKey(origin, first)])
        assert root_of(leaves[: head.size]) == head.root
    return len(chain.rotations)


class Begin(Deed):
    """Begins a ledger, which has its writer keys from its first moment."""

    def act(self, world: World) -> None:
        world.ledger("default").close()

    def check(self, world: World, *, is_done: bool) -> None:
        begun = self._begun(world)
        assert is_done <= (begun is not None)
        with world.ledger("default") as ledger:
            assert begun in (None, ledger._engine.store.ledger_name)
            assert ledger._engine.store.macs is not None
            ledger.run(ToolCall(tool="count", args={}, run_id="r"), lambda effect: 1)
        assert self._begun(world) is not None

    def _begun(self, world: World) -> str | None:
        """Return the name of the ledger that is there; it has its key, and says that its rows carry macs."""
        path = world.folder / "ledger.db"
        if not path.exists():
            return None
        with closing(sqlite3.connect(path)) as file:
            try:
                ((name, has_macs),) = file.execute("SELECT name, has_macs FROM indelible_ledger").fetchall()
            except sqlite3.OperationalError:
                return None
        assert has_macs == 1
        assert (world.folder / "keys" / name / "writers.key").stat().st_size > 0
        return str(name)


DEEDS: dict[str, type[Deed]] = {
    "begin": Begin,
    "create": Create,
    "sign": Sign,
    "rotate": Rotate,
    "revoke": Revoke,
    "rotate_ledger": RotateLedger,
}


# ── dying ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def main(deed: Deed, folder: Path, *, every_line: bool) -> int:
    """Kills the deed at one moment after the other, lets it live at last, and gives how often it was killed."""
    ready = World(folder / "ready")
    ready.folder.mkdir()
    deed.prepare(ready)
    moments, last = _moments(deed, ready, folder)
    for number in range(1, last + 1) if every_line else moments:
        assert _lives_to(number, deed, ready, folder) is False
    assert _lives_to(last + _SLACK, deed, ready, folder)
    return last if every_line else len(moments)


def _lives_to(number: int, deed: Deed, ready: World, folder: Path) -> bool:
    """Kills the deed at a line and checks what is left; says whether it was done before that."""
    world, words = World(folder / "world"), folder / "words"
    shutil.copytree(ready.folder, world.folder)
    code = _forked(lambda: _live(number, deed, world, words))
    assert code in (0, -signal.SIGKILL), code
    try:
        deed.check(world, is_done=code == 0)
    except BaseException as error:
        raise AssertionError(f"killed at line {number}, {words.read_text() if code else 'not at all'}") from error
    shutil.rmtree(world.folder)
    return code == 0


def _moments(deed: Deed, ready: World, folder: Path) -> tuple[list[int], int]:
    """Gives the numbers of the lines before which the world had just changed, and how many lines there are."""
    world, found = World(folder / "world"), folder / "moments"
    shutil.copytree(ready.folder, world.folder)

    def live() -> None:
        with Watch(world) as watch:
            watch.arm()
            deed.act(world)
        found.write_text(json.dumps([watch.moments, len(watch.lines)]))

    assert _forked(live) == 0
    shutil.rmtree(world.folder)
    moments, last = json.loads(found.read_text())
    return moments, last


class Watch(JournalLineKill):
    """Kills nobody, but notes at which lines the world is not as it was one line before."""

    def __init__(self, world: World) -> None:
        super().__init__(None, print)
        self.moments: list[int] = []
        self._world = world
        self._was: object = None

    def _on_line(self, frame: FrameType, event: str, argument: Any) -> Any:
        super()._on_line(frame, event, argument)
        now = sorted(
            (str(p), s.st_ino, s.st_size, s.st_mode) for p in self._world.folder.rglob("*") for s in [p.stat()]
        )
        if event == "line" and now != self._was:
            self.moments.append(len(self.lines))
            self._was = now
        return self._on_line


def _forked(act: Callable[[], object]) -> int:
    child = os.fork()
    if child == 0:
        try:
            act()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def _live(number: int, deed: Deed, world: World, words: Path) -> None:
    with JournalLineKill(number, words.write_text) as kill:
        kill.arm()
        deed.act(world)


if __name__ == "__main__":
    import logging

    logging.disable()
    print(main(DEEDS[sys.argv[1]](), Path(sys.argv[2]), every_line="--every-line" in sys.argv))
