"""A journal tells of rotated keys and of losses it went on after, and verifies from its first key on."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from indelible import Ledger
from indelible.core.journal.notes import parse_note
from indelible.journal.evidence.live import LiveEvidence
from indelible.journal.evidence.verification import verify
from indelible.journal.exports.exporting import export
from tests.journal import standing_alone
from tests.journal.test_verify_live import call, pinned_key


def standalone(bundle: Path, key: str, *heads: str) -> int:
    """Gives the exit code of the verifier that travels with a bundle."""
    return ["verified", "tampered", "cannot_tell"].index(standing_alone.standalone(bundle, [key], list(heads)))


@pytest.fixture
def ledger(tmp_path: Path, sqlite_url: str) -> Any:
    with Ledger.open(sqlite_url, keys=tmp_path / "keys", seal=False) as ledger:
        ledger.run(call(1), lambda effect: 1)
        ledger.seal()
        yield ledger


def test_trust_follows_a_rotation_from_the_first_key_to_the_newest(ledger: Ledger, tmp_path: Path) -> None:
    first = pinned_key(ledger._engine.store)
    old_head = str(ledger.seal())
    ledger.rotate_keys()
    ledger.run(call(2), lambda effect: 1)
    ledger.seal()
    export(ledger._engine.store, "default", tmp_path / "b")
    report = verify(tmp_path / "b", [first], after=[old_head])
    assert (report.verdict, len(report.rotations)) == ("verified", 1), report.why
    assert report.signed_by is not None
    assert report.signed_by != first
    assert standalone(tmp_path / "b", first, old_head) == 0
    assert verify(tmp_path / "b", [report.signed_by]).verdict == "verified", "and back from the newest"
    assert standalone(tmp_path / "b", report.signed_by) == 0
    assert verify(LiveEvidence(ledger._engine.store, "default"), [first]).verdict == "verified"


def test_the_old_key_cannot_sign_what_comes_after_its_rotation(ledger: Ledger, tmp_path: Path) -> None:
    first = pinned_key(ledger._engine.store)
    ledger.rotate_keys()
    ledger.run(call(2), lambda effect: 1)
    ledger.seal()
    export(ledger._engine.store, "default", tmp_path / "b")
    note = parse_note((tmp_path / "b" / "checkpoint").read_bytes())
    (older, *_) = sorted((tmp_path / "b" / "heads").iterdir(), key=lambda path: int(path.name))
    stale = parse_note(older.read_bytes()).signatures
    (tmp_path / "b" / "checkpoint").write_text(str(type(note)(note.text, stale)))
    assert verify(tmp_path / "b", [first]).verdict == "tampered"
    assert standalone(tmp_path / "b", first) == 1


def test_a_continuation_after_a_loss_is_told_and_a_lost_head_cannot_be_continued(
    ledger: Ledger, tmp_path: Path, sqlite_url: str
) -> None:
    first, path = pinned_key(ledger._engine.store), Path(sqlite_url.removeprefix("sqlite:///"))
    kept = str(ledger.seal())
    ledger.close()
    backup = tmp_path / "backup"
    shutil.copytree(path.parent, backup, ignore=shutil.ignore_patterns("backup", "keys"))
    with Ledger.open(sqlite_url, keys=tmp_path / "keys", seal=False) as later:
        for number in range(2, 6):
            later.run(call(number), lambda effect: 1)
        lost = str(later.seal())
    for old in path.parent.glob(f"{path.name}*"):
        old.unlink()
    for file in backup.glob(f"{path.name}*"):
        shutil.copy(file, path.parent / file.name)
    with Ledger.open(sqlite_url, keys=tmp_path / "keys", seal=False) as restored:
        restored.continue_journal()
        restored.run(call(9), lambda effect: 1)
        restored.seal()
        export(restored._engine.store, "default", tmp_path / "b")
    report = verify(tmp_path / "b", [first], after=[kept])
    assert (report.verdict, len(report.continuations)) == ("verified", 1), report.why
    assert standalone(tmp_path / "b", first, kept) == 0
    told = verify(tmp_path / "b", [first], after=[lost])
    assert (told.verdict, "declared lost" in told.why) == ("cannot_tell", True), told.why
    assert standalone(tmp_path / "b", first, lost) == 2
