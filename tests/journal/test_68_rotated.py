"""Fault 68: after routine rotations every kind of export verifies with every key that was ever pinned."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from indelible import Ledger, migrate
from indelible.core.journal.notes import Note, parse_note
from indelible.journal.evidence.live import LiveEvidence
from indelible.journal.evidence.verification import verify
from indelible.journal.exports.exporting import export, save_receipt
from indelible.journal.exports.selecting import Between, OfRun
from indelible.journal.exports.standalone import standalone_verifier
from tests.journal.exported import call, key_of, store_of

ROTATIONS = 3


@pytest.fixture
def rotated(store_url: str, tmp_path: Path) -> Iterator[tuple[Ledger, list[str]]]:
    """A ledger whose key was changed three times, with calls in between, and all its keys, the oldest first."""
    migrate(store_url)
    with Ledger.open(store_url, keys=tmp_path / "keys", seal=False) as ledger:
        keys = []
        for number in range(ROTATIONS + 1):
            ledger.run(call("note", f"order-{number}", n=number), lambda effect: 1)
            ledger.seal()
            keys.append(key_of(ledger))
            if number < ROTATIONS:
                ledger.rotate_keys()
        ledger.seal()
        assert len(set(keys)) == ROTATIONS + 1
        yield ledger, keys


def parts(ledger: Ledger) -> dict[str, Any]:
    """Runs before, between and after rotations, and stretches that hold none, some and all of them."""
    size = ledger.tree_head().size  # type: ignore[union-attr]
    runs = {f"run-{number}": OfRun(f"order-{number}") for number in range(ROTATIONS + 1)}
    own = OfRun("indelible:journal")
    stretches = {f"period-{first}-{last}": Between(first, last) for first in range(size) for last in range(first, size)}
    return {**runs, "own": own, **dict(list(stretches.items())[:: max(1, len(stretches) // 12)])}


def standalone(bundle: Path, *keys: str) -> int:
    program = bundle.parent / "verify.py"
    program.write_bytes(standalone_verifier())
    told = [word for key in keys for word in ("--key", key)]
    command = [sys.executable, str(program), *told, str(bundle)]
    return subprocess.run(command, capture_output=True, check=False).returncode


def test_68_run_and_period_bundles_verify_with_every_key_that_was_pinned(
    rotated: tuple[Ledger, list[str]], tmp_path: Path
) -> None:
    ledger, keys = rotated
    for name, selection in parts(ledger).items():
        export(store_of(ledger), "default", tmp_path / name, selection=selection)
        for number, key in enumerate(keys):
            report = verify(tmp_path / name, [key])
            assert report.verdict == "verified", (name, number, report.why)
            assert report.signed_by == keys[-1]
            assert standalone(tmp_path / name, key) == 0, (name, number)


def test_68_whole_journals_lines_receipts_tiles_and_the_live_ledger_do_too(
    rotated: tuple[Ledger, list[str]], tmp_path: Path
) -> None:
    ledger, keys = rotated
    store = store_of(ledger)
    export(store, "default", tmp_path / "whole")
    export(store, "default", tmp_path / "lines", form="ndjson")
    for number in range(ROTATIONS + 1):
        (event, *_) = ledger.events(f"order-{number}")
        save_receipt(ledger.receipt(event), tmp_path / f"{number}.tlog-proof")
    files = ["whole", "lines", *(f"{number}.tlog-proof" for number in range(ROTATIONS + 1))]
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(tmp_path / "whole")))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    published = f"http://127.0.0.1:{server.server_address[1]}"
    for key in keys:
        for name in files:
            report = verify(tmp_path / name, [key])
            assert report.verdict == "verified", (name, report.why)
        assert verify(published, [key]).verdict == "verified"
        assert verify(LiveEvidence(store, "default"), [key]).verdict == "verified"
        assert standalone(tmp_path / "whole", key) == 0
    server.shutdown()
    server.server_close()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args: Any) -> None:
        """Says nothing."""


def test_68_a_rotation_that_the_old_key_did_not_sign_leads_nowhere(
    rotated: tuple[Ledger, list[str]], tmp_path: Path
) -> None:
    ledger, keys = rotated
    export(store_of(ledger), "default", tmp_path / "run", selection=OfRun("order-2"))
    path = tmp_path / "run" / "checkpoint"
    note = parse_note(path.read_bytes())
    newest = [one for one in note.signatures if len(one.content) == 64]
    assert len(note.signatures) == len(newest) + ROTATIONS

    def changed(signatures: list[Any]) -> None:
        before = str(parse_note(path.read_bytes()))
        after = str(Note(note.text, tuple(signatures)))
        for file in (path, *(tmp_path / "run" / "receipts").iterdir()):
            file.write_text(file.read_text().replace(before, after))

    for number, one in enumerate(note.signatures):
        if one in newest:
            continue
        changed([each for each in note.signatures if each is not one])
        for pinned, key in enumerate(keys):
            expected = "verified" if pinned > number - len(newest) else "tampered"
            assert verify(tmp_path / "run", [key]).verdict == expected, (number, pinned)
            assert standalone(tmp_path / "run", key) == (expected == "tampered")
        forged = type(one)(one.name, one.key_id, one.content[:-1] + bytes([one.content[-1] ^ 1]))
        changed([forged if each is one else each for each in note.signatures])
        assert verify(tmp_path / "run", [keys[0]]).verdict == "tampered"
        assert standalone(tmp_path / "run", keys[0]) == 1
        changed(list(note.signatures))
    assert verify(tmp_path / "run", [keys[0]]).verdict == "verified"
