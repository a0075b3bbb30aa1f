"""The signer: what was signed once is never contradicted, whatever happens to processes, files and databases."""

from __future__ import annotations

import contextlib
import json
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from indelible import Ledger, ToolCall
from indelible.core.journal.journal import Signer
from indelible.core.journal.merkle import leaf_hash
from indelible.core.journal.notes import Note, PublicKey, TreeHead, parse_head, parse_note
from indelible.errors import KeyUnusable, SignerRefused
from indelible.journal.keys.files import read_private, write_private
from indelible.journal.keys.holders import FixedKeys, HeldKey, MemoryRing
from indelible.journal.keys.ring import KeyRing
from indelible.journal.keys.rotating import rotate
from indelible.journal.keys.signer import (
    FileHeadState,
    MemoryHeadState,
    MemorySigner,
    Remembered,
    StatefulSigner,
    file_signer,
)
from tests.journal.dying import World, each_moment_kills, head_of, prover
from tests.journal.racing import RACES

ORIGIN = "ledger-1/default"
LEAVES = [leaf_hash(b"%d" % number) for number in range(9)]
OTHERS = [leaf_hash(b"other %d" % number) for number in range(9)]


@pytest.fixture
def ring(tmp_path: Path) -> KeyRing:
    """A ring with one key."""
    ring = KeyRing.open("ledger-1", tmp_path / "keys")
    ring.create()
    return ring


@pytest.fixture(params=["files", "memory"])
def signer(request: pytest.FixtureRequest, ring: KeyRing) -> StatefulSigner:
    """A signer of each kind."""
    return file_signer(ring) if request.param == "files" else MemorySigner()


def sign(signer: Signer, leaves: Sequence[bytes], origin: str = ORIGIN) -> Note:
    return signer.sign(head_of(origin, leaves), prover(leaves))


def state_file(ring: KeyRing) -> Path:
    (path,) = (ring.folder / "heads").glob("*.head")
    return path


# ── what is signed ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_signed_head_is_a_note_that_its_key_verifies(signer: StatefulSigner) -> None:
    assert signer.last(ORIGIN) is None
    note = sign(signer, LEAVES[:3])
    (key,) = signer.keys(ORIGIN)
    assert note.signed_by(key)
    assert parse_note(str(note)) == note
    assert parse_head(note.text) == head_of(ORIGIN, LEAVES[:3]) == signer.last(ORIGIN)


def test_a_growing_tree_is_signed_at_every_size(signer: StatefulSigner) -> None:
    for size in range(len(LEAVES) + 1):
        assert parse_head(sign(signer, LEAVES[:size]).text).size == size


def test_the_same_head_again_gives_the_same_note(signer: StatefulSigner, ring: KeyRing) -> None:
    note = sign(signer, LEAVES[:4])
    assert sign(signer, LEAVES[:4]) == note
    if not isinstance(signer, MemorySigner):
        assert sign(file_signer(KeyRing.open("ledger-1", ring.folder.parent)), LEAVES[:4]) == note


def test_a_database_that_was_set_back_is_refused(signer: StatefulSigner) -> None:
    note = sign(signer, LEAVES[:6])
    for size in range(6):
        with pytest.raises(SignerRefused, match=r"set back.*indelible journal continue"):
            sign(signer, LEAVES[:size])
    assert sign(signer, LEAVES[:6]) == note


def test_another_history_is_refused_at_every_size(signer: StatefulSigner) -> None:
    sign(signer, LEAVES[:5])
    for size in (5, 6, 9):
        with pytest.raises(SignerRefused):
            sign(signer, OTHERS[:size])
        with pytest.raises(SignerRefused):
            sign(signer, LEAVES[:4] + OTHERS[4:size])
    assert signer.last(ORIGIN) == head_of(ORIGIN, LEAVES[:5])
    sign(signer, LEAVES)


def test_a_proof_that_is_none_is_refused(signer: StatefulSigner) -> None:
    sign(signer, LEAVES[:5])
    with pytest.raises(SignerRefused):
        signer.sign(head_of(ORIGIN, LEAVES), lambda old: [])


def test_journals_do_not_disturb_each_other(signer: StatefulSigner) -> None:
    origins = [ORIGIN, "ledger-1/Default", "ledger-1/default%20", "ledger-1/" + "x" * 400, "ledger-1/ä"]
    for number, origin in enumerate(origins):
        sign(signer, (LEAVES if number % 2 else OTHERS)[: number + 1], origin)
    for number, origin in enumerate(origins):
        assert signer.last(origin) == head_of(origin, (LEAVES if number % 2 else OTHERS)[: number + 1])
        assert [key.name for key in signer.keys(origin)] == [origin]


# ── order and durability ─────────────────────────────────────────────────────────────────────────────────────────────


class Watched:
    """Is a state and a key that write down in which order they are used."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self._state = MemoryHeadState()
        self._held = HeldKey.fresh()
        self.raw = self._held.raw

    @contextmanager
    def _lock(self) -> Iterator[None]:
        self.seen.append("lock")
        with self._state.lock():
            yield
        self.seen.append("unlock")

    def lock(self) -> AbstractContextManager[None]:
        return self._lock()

    def load(self, origin: str) -> Remembered | None:
        self.seen.append("load")
        return self._state.load(origin)

    def save(self, remembered: Remembered) -> None:
        self.seen.append("save")
        self._state.save(remembered)

    def sign(self, message: bytes) -> bytes:
        self.seen.append("sign")
        return self._held.sign(message)


def test_a_head_is_saved_before_a_signature_leaves() -> None:
    watched = Watched()
    signer = StatefulSigner(FixedKeys(watched), watched)
    sign(signer, LEAVES[:2])
    assert watched.seen == ["lock", "load", "save", "unlock", "sign"]
    watched.seen.clear()
    sign(signer, LEAVES[:2])
    assert watched.seen == ["lock", "load", "unlock", "sign"]


def test_what_was_refused_is_neither_saved_nor_signed() -> None:
    watched = Watched()
    signer = StatefulSigner(FixedKeys(watched), watched)
    sign(signer, LEAVES[:2])
    watched.seen.clear()
    with pytest.raises(SignerRefused):
        sign(signer, OTHERS[:3])
    assert watched.seen[:2] == ["lock", "load"]
    assert not {"save", "sign"} & set(watched.seen)


def test_a_file_is_whole_on_the_disk_before_its_name_is_and_its_name_before_we_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def seen_fsync(descriptor: int) -> None:
        what = "folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else f"file of {os.fstat(descriptor).st_size}"
        seen.append(f"sync {what}")
        fsync(descriptor)

    def seen_replace(old: Path, new: Path) -> Path:
        seen.append(f"rename {old.name} {new.name}")
        return replace(old, new)

    monkeypatch.setattr(os, "fsync", seen_fsync)
    monkeypatch.setattr(Path, "replace", seen_replace)
    write_private(tmp_path / "x", b"12345")
    assert seen == ["sync file of 5", "rename x.tmp x", "sync folder"]
    assert read_private(tmp_path / "x") == b"12345"


@pytest.mark.parametrize("raw", [b"", b"x" * 63, b"x" * 64, b"x" * 65])
def test_a_holder_that_signs_wrongly_is_found_out(raw: bytes) -> None:
    class Broken:
        raw = HeldKey.fresh().raw

        def sign(self, message: bytes) -> bytes:
            return raw

    with pytest.raises(KeyUnusable, match="does not fit"):
        sign(StatefulSigner(FixedKeys(Broken()), MemoryHeadState()), LEAVES)


def test_a_head_that_could_not_be_saved_is_not_signed(ring: KeyRing, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(ring.folder.parent)
    signer = file_signer(ring)
    sign(signer, LEAVES[:1])

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(SignerRefused, match=r"No space left.*Nothing was signed"):
        sign(signer, LEAVES[:2])
    monkeypatch.undo()
    assert world.signed_heads() == []
    sign(signer, LEAVES[:2])


# ── a memory that cannot be trusted ──────────────────────────────────────────────────────────────────────────────────


def damages(whole: bytes) -> Iterator[bytes]:
    for length in range(len(whole)):
        yield whole[:length]
    for at in range(len(whole)):
        yield whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]
    yield whole + b"\n"
    yield whole + whole
    yield whole.replace(b"\n", b"\r\n")
    yield bytes(len(whole))
    yield b"\xff" * len(whole)


def test_a_damaged_memory_is_never_taken_for_an_empty_one(ring: KeyRing) -> None:
    sign(file_signer(ring), LEAVES[:5])
    path = state_file(ring)
    whole = path.read_bytes()
    assert len(whole) > 20
    for damaged in damages(whole):
        path.write_bytes(damaged)
        for size in (5, 6):
            with pytest.raises(SignerRefused, match=r"Nothing was signed.*backup"):
                sign(file_signer(ring), LEAVES[:size])
        with pytest.raises(SignerRefused):
            file_signer(ring).last(ORIGIN)
    path.write_bytes(whole)
    sign(file_signer(ring), LEAVES[:6])


def test_a_memory_that_is_no_file_is_refused(ring: KeyRing) -> None:
    sign(file_signer(ring), LEAVES[:5])
    path = state_file(ring)
    path.unlink()
    path.mkdir(mode=0o700)
    with pytest.raises(KeyUnusable, match="is no file"):
        sign(file_signer(ring), LEAVES[:6])
    path.rmdir()
    path.symlink_to(path)
    with pytest.raises(SignerRefused, match="Nothing was signed"):
        sign(file_signer(ring), LEAVES[:6])


def test_the_memory_of_another_journal_is_refused(ring: KeyRing) -> None:
    signer = file_signer(ring)
    sign(signer, LEAVES[:5], "ledger-1/other")
    other = state_file(ring)
    sign(signer, LEAVES[:5])
    (mine,) = set((ring.folder / "heads").glob("*.head")) - {other}
    mine.write_bytes(other.read_bytes())
    with pytest.raises(SignerRefused, match="it is about ledger-1/other"):
        sign(signer, LEAVES[:6])


def test_a_memory_that_others_can_change_is_refused(ring: KeyRing) -> None:
    sign(file_signer(ring), LEAVES[:5])
    path = state_file(ring)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    path.chmod(0o602)
    with pytest.raises(KeyUnusable, match="chmod 600"):
        sign(file_signer(ring), LEAVES[:6])


def test_what_a_crash_left_half_written_does_no_harm(ring: KeyRing) -> None:
    sign(file_signer(ring), LEAVES[:5])
    path = state_file(ring)
    path.with_name(path.name + ".tmp").write_bytes(b"half")
    sign(file_signer(ring), LEAVES[:6])
    assert list(path.parent.iterdir()) == [path]


# ── going on deliberately ────────────────────────────────────────────────────────────────────────────────────────────


def test_going_on_after_a_loss_is_possible_on_purpose_and_tells_what_was_lost(signer: StatefulSigner) -> None:
    assert signer.continue_from(head_of(ORIGIN, LEAVES[:7])) is None
    here = LEAVES[:4] + OTHERS[4:6]
    assert signer.continue_from(head_of(ORIGIN, here)) == head_of(ORIGIN, LEAVES[:7])
    sign(signer, here)
    sign(signer, LEAVES[:4] + OTHERS[4:])
    with pytest.raises(SignerRefused):
        sign(signer, LEAVES)


def test_going_on_mends_a_damaged_memory(ring: KeyRing) -> None:
    signer = file_signer(ring)
    sign(signer, LEAVES[:5])
    state_file(ring).write_bytes(b"")
    assert signer.continue_from(head_of(ORIGIN, LEAVES[:5])) is None
    sign(signer, LEAVES[:6])


# ── rotation ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def signers(note: Note) -> list[str]:
    return [signature.key_id.hex() for signature in note.signatures]


@pytest.fixture(params=["files", "memory"])
def rotating(request: pytest.FixtureRequest, ring: KeyRing) -> tuple[KeyRing | MemoryRing, StatefulSigner]:
    """A ring and its signer, of each kind."""
    if request.param == "files":
        return ring, file_signer(ring)
    memory = MemorySigner()
    return memory.ring, memory


def test_both_keys_sign_during_a_rotation(rotating: tuple[KeyRing | MemoryRing, StatefulSigner]) -> None:
    ring, signer = rotating
    first = sign(signer, LEAVES[:1])
    old, new = (PublicKey(ORIGIN, holder.raw) for holder in ring.begin_rotation())
    assert signer.keys(ORIGIN) == [old, new]
    both = sign(signer, LEAVES[:2])
    assert both.signed_by(old)
    assert both.signed_by(new)
    assert (len(first.signatures), len(both.signatures)) == (1, 2)
    ring.finish_rotation(new.raw)
    assert signer.keys(ORIGIN) == [new]
    assert signers(sign(signer, LEAVES[:3])) == [new.id.hex()]


def test_a_head_that_both_signed_keeps_both_signatures_when_it_is_signed_again(
    rotating: tuple[KeyRing | MemoryRing, StatefulSigner],
) -> None:
    ring, signer = rotating
    _, new = ring.begin_rotation()
    both = sign(signer, LEAVES[:2])
    ring.finish_rotation(new.raw)
    assert sign(signer, LEAVES[:2]) == both


def test_a_rotation_adds_its_signature_to_the_head_that_is_there(
    rotating: tuple[KeyRing | MemoryRing, StatefulSigner],
) -> None:
    ring, signer = rotating
    one = sign(signer, LEAVES[:2])
    _, new = ring.begin_rotation()
    both = sign(signer, LEAVES[:2])
    assert both.signatures[:1] == one.signatures
    assert both.signed_by(PublicKey(ORIGIN, new.raw))


def test_a_revoked_key_does_not_sign_again_what_it_signed(ring: KeyRing) -> None:
    signer = file_signer(ring)
    old, new = ring.begin_rotation()
    sign(signer, LEAVES[:2])
    ring.finish_rotation(new.raw)
    ring.revoke(ring.all_keys()[1].id)
    assert not sign(signer, LEAVES[:2]).signed_by(PublicKey(ORIGIN, old.raw))


class ListedJournal:
    """Is a journal in memory that says what was done to it."""

    def __init__(self, tenant: str, seen: list[tuple[str, str]]) -> None:
        self.origin = f"ledger-1/{tenant}"
        self._seen = seen

    def record_once(self, event_type: str, facts: object) -> None:
        self._seen.append((self.origin, event_type))

    def seal(self) -> None:
        self._seen.append((self.origin, "seal"))


def test_a_journal_that_comes_in_the_middle_of_a_rotation_says_so_too() -> None:
    seen: list[tuple[str, str]] = []
    one, late = ListedJournal("one", seen), ListedJournal("late", seen)

    def journals() -> list[ListedJournal]:
        return [one] if len(seen) < 3 else [one, late]

    rotate(MemoryRing(), journals)
    steps = [(one.origin, "key_rotated"), (one.origin, "seal"), (late.origin, "key_rotated"), (late.origin, "seal")]
    assert seen == [(one.origin, "seal"), *steps, (one.origin, "seal"), (late.origin, "seal")]


def test_a_rotation_that_cannot_be_sealed_is_not_finished(ring: KeyRing) -> None:
    class Stuck(ListedJournal):
        def seal(self) -> None:
            if self._seen[-1:] == [(self.origin, "key_rotated")]:
                raise SignerRefused("no")

    with pytest.raises(SignerRefused):
        rotate(ring, lambda: [Stuck("a", [])])
    assert [key.status for key in ring.all_keys()] == ["current", "next"]
    rotate(ring, lambda: [ListedJournal("a", [])])
    assert [key.status for key in ring.all_keys()] == ["current", "retired"]


# ── many at once, and crashes ────────────────────────────────────────────────────────────────────────────────────────


def test_processes_with_different_histories_never_get_two_heads_of_one_size(ring: KeyRing, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.journal.racing", str(tmp_path)]
    racers = [
        subprocess.Popen([*command, str(number)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) for number in range(4)
    ]
    for racer in racers:  # all are ready before the first one starts
        assert racer.stdout is not None
        racer.stdout.read(1)
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.close()
    for racer in racers:
        assert racer.stdout is not None
        racer.stdout.read()
        racer.stdout.close()
        assert racer.wait() == 0
    heads = World(tmp_path).signed_heads()
    assert len(set(heads)) == 2 * RACES


def test_threads_with_different_histories_never_get_two_heads_of_one_size(signer: StatefulSigner) -> None:
    start = threading.Barrier(4)
    signed: set[TreeHead] = set()

    def race(number: int) -> None:
        leaves = [leaf_hash(b"%d %d" % (number, at)) for at in range(2)]
        for at in range(10):
            start.wait()
            for size in (1, 2):
                with contextlib.suppress(SignerRefused):
                    signed.add(parse_head(sign(signer, leaves[:size], f"ledger-1/{at}").text))

    _in_threads(race, 4)
    assert len({(head.origin, head.size) for head in signed}) == len(signed) == 20


def test_threads_that_sign_one_history_all_get_through(signer: StatefulSigner) -> None:
    def climb(number: int) -> None:
        for size in range(1, 10):
            with contextlib.suppress(SignerRefused):  # somebody was faster
                sign(signer, LEAVES[:size])

    _in_threads(climb, 4)
    assert signer.last(ORIGIN) == head_of(ORIGIN, LEAVES)


def _in_threads(act: Callable[[int], None], count: int) -> None:
    failed: list[BaseException] = []

    def run(number: int) -> None:
        try:
            act(number)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []


def test_a_child_forked_while_the_lock_is_held_does_not_keep_it(ring: KeyRing, tmp_path: Path) -> None:
    program = (
        "import os, sys; from pathlib import Path; from indelible.journal.keys.files import locked\n"
        f"folder = Path({json.dumps(str(ring.folder))})\n"
        "with locked(folder):\n    read, write = os.pipe(); child = os.fork()\n"
        "    if child == 0:\n        os.close(write); os.read(read, 1); os._exit(0)\n"
        "with locked(folder, patience=0):\n    os.close(read); os.close(write); os.waitpid(child, 0); print('free')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=200)
    assert done.stdout == "free\n", done.stderr


def test_killed_at_any_moment_a_signer_heals_and_never_forks(tmp_path: Path) -> None:
    assert each_moment_kills("sign", tmp_path) > 10


def test_a_memory_keeps_its_lock_while_it_is_used() -> None:
    state = MemoryHeadState()
    with state.lock():
        assert state._lock.locked()
    assert not state._lock.locked()


def test_a_key_that_lives_elsewhere_signs_a_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class InKms:
        def __init__(self, client: HeldKey) -> None:
            self._client = client
            self.raw = client.raw

        def sign(self, message: bytes) -> bytes:
            return self._client.sign(message)

    monkeypatch.setenv("INDELIBLE_KEYS", str(tmp_path / "unused"))
    kms = InKms(HeldKey.fresh())
    memory = tmp_path / "memory"
    signer = StatefulSigner(FixedKeys(kms), FileHeadState(memory))
    with Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}", signer=signer) as ledger:
        ledger.run(ToolCall(tool="count", args={}, run_id="r"), lambda effect: 1)
        note = ledger.seal()
        assert note is not None
        head = parse_head(note.text)
        assert note.signed_by(PublicKey(head.origin, kms.raw))
        assert ledger.tree_head() == head == signer.last(head.origin)
        with pytest.raises(KeyUnusable, match="elsewhere"):
            ledger.rotate_keys()
    assert len(list(memory.glob("heads/*.head"))) == 1
    assert not list((tmp_path / "unused").rglob("*.pem"))


def test_a_state_is_read_as_it_was_written(ring: KeyRing) -> None:
    state = FileHeadState(ring.folder)
    remembered = Remembered(head_of(ORIGIN, LEAVES), (b"\1" * 32, b"\2" * 32))
    with state.lock():
        state.save(remembered)
    assert state.load(ORIGIN) == remembered
