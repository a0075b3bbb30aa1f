"""Fault 68: after routine rotations every kind of export verifies with every key that was ever pinned."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
import pytest

from indelible import Ledger, migrate
from indelible.core.journal.notes import Note, parse_note
from indelible.errors import JournalError, SignerRefused
from indelible.journal.evidence.live import LiveEvidence
from indelible.journal.evidence.verification import verify
from indelible.journal.exports.exporting import export, save_receipt
from indelible.journal.exports.selecting import Between, OfRun
from indelible.journal.exports.standalone import standalone_verifier
from indelible.runs.packets import check_packet
from indelible.stores.remote import RemoteStore
from tests.journal.exported import call, key_of, store_of
from tests.journal.in_node import in_node
from tests.journal.tampering import Database
from tests.journal.test_set_back import Backup
from tests.lending import lent_folder
from tests.server.serving import serve_believing

ROTATIONS = 3


@pytest.fixture
def rotated(store_url: str, tmp_path: Path) -> Iterator[tuple[Ledger, list[str]]]:
    """A ledger whose key was changed three times, with calls in between, and all its keys, the oldest first."""
    migrate(store_url, keys=tmp_path / "keys")
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
    chosen = list(stretches.items())[:: max(1, len(stretches) // 12)]
    assert len(chosen) >= 12
    return {**runs, "own": own, **dict(chosen)}


def standalone(bundle: Path, *keys: str) -> int:
    program = bundle.parent / "verify.py"
    program.write_bytes(standalone_verifier())
    told = [word for key in keys for word in ("--key", key)]
    command = [sys.executable, str(program), *told, str(bundle)]
    return subprocess.run(command, capture_output=True, check=False).returncode


@pytest.mark.timeout(900)  # many bundles; three minutes on a busy machine
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


def test_68_zips_packets_and_reports_do_too(rotated: tuple[Ledger, list[str]], store_url: str, tmp_path: Path) -> None:
    ledger, keys = rotated
    store = store_of(ledger)
    files: dict[str, Any] = {}
    for name, selection in (("whole", None), ("run", OfRun("order-1")), ("period", Between(2, 6))):
        files[name] = tmp_path / f"{name}.zip"
        export(store, "default", files[name], selection=selection)
        export(store, "default", tmp_path / f"{name}.html", form="html", selection=selection)
    with Ledger.open(store_url, keys=tmp_path / "keys", seal=True) as sealing:
        with sealing.start_run("carried", agent="a", intent="b"):
            pass
        packet = sealing.export_packet("carried")
    for key in keys:
        for name, path in files.items():
            assert verify(path, [key]).verdict == "verified", name
            assert standalone(path, key) == 0, name
        check_packet(packet, key)
    reports = [tmp_path / f"{name}.html" for name in files]
    assert verdicts_of(reports, keys) == ["verified"] * len(reports) * len(keys)
    stranger = keys[0][:-4] + "AAA="
    assert "verified" not in verdicts_of(reports, [stranger])


def verdicts_of(reports: list[Path], keys: list[str]) -> list[str]:
    """Return the verdict of each report's own verifier with each key, from one process."""
    found: list[str] = in_node(_JUDGE, *map(str, reports), given=keys)
    return found


_JUDGE = r"""
const { readFileSync } = require('node:fs')
const keys = JSON.parse(readFileSync(0, 'utf8'))
async function judge() {
  const found = []
  for (const path of process.argv.slice(1)) {
    const page = readFileSync(path, 'utf8')
    const record = /<script type="application\/json" id="record">([^]*?)<\/script>/.exec(page)[1]
    const scripts = [...page.matchAll(/<script[^>]*>([^]*?)<\/script>/g)].map((one) => one[1])
    const code = scripts.find((one) => one.includes('var verifier ='))
    const [start, end] = ['var verifier =', '})({});'].map((mark) => code.indexOf(mark))
    const { verdictOf } = new Function(`${code.slice(start, end + 7)}; return verifier`)()
    for (const key of keys) found.push(await verdictOf(record, [key]))
  }
  console.log(JSON.stringify(found))
}
judge()
"""


def test_68_so_do_the_server_and_its_clients(rotated: tuple[Ledger, list[str]], store_url: str, tmp_path: Path) -> None:
    _, keys = rotated
    server = serve_believing(store_url, keys=tmp_path / "keys", seal=False)
    headers = {"Authorization": 'Bearer "default"'}
    with closing(RemoteStore(server.url, token='"default"', wakeups=False)) as afar:
        for key in keys:
            told = httpx2.post(f"{server.url}/v1/journal/verify", headers=headers, json={"keys": [key]}).json()
            assert told["verdict"] == "verified", told["why"]
            report = verify(LiveEvidence(afar, "default"), [key])
            assert report.verdict == "verified", report.why
    server.stop()


@pytest.mark.parametrize(("back_to", "has_grown"), [(0, True), (1, False), (2, True), (3, False)])
def test_68_a_ledger_that_was_set_back_past_rotations_is_verified_with_no_key_that_was_ever_pinned(
    store_url: str, tmp_path: Path, back_to: int, has_grown: bool
) -> None:
    """By a restore, a failover that lost commits, or heads that were cut: the signer remembers."""
    migrate(store_url, keys=tmp_path / "keys")
    backup, keys = Backup(store_url), []
    place: dict[str, Any] = {"keys": tmp_path / "keys", "seal": False}
    for number in range(ROTATIONS + 1):
        with Ledger.open(store_url, **place) as ledger:
            ledger.run(call("note", "order-1", n=number), lambda effect: 1)
            ledger.seal()
            keys.append(key_of(ledger))
        if number == back_to:
            backup.make()
        with Ledger.open(store_url, **place) as ledger:
            if number < ROTATIONS:
                ledger.rotate_keys()
            ledger.run(call("note", "order-2", n=number), lambda effect: 2)
            ledger.seal()
    backup.put_back()
    if has_grown:
        unsigned = lent_folder(tmp_path / "keys", tmp_path / "none")
        with Ledger.open(store_url, keys=unsigned, seal=False) as ledger:
            for number in range(40):
                ledger.run(call("note", "order-3", n=number), lambda effect: 3)
            ledger._engine.store.journal.integrate("default", 1000)
    assert never_verified(store_url, place, keys, tmp_path) == (ROTATIONS + 1) * 5
    database = Database(store_url)
    for kept in (database.rows("heads")[:1], []):
        database.replace("heads", kept)
        assert never_verified(store_url, place, keys, tmp_path) == (ROTATIONS + 1) * 5
    database.close()


def never_verified(store_url: str, place: dict[str, Any], keys: list[str], tmp_path: Path) -> int:
    """Count the verdicts that are not "verified": of the ledger, its server and its exports, with each key."""
    count = 0
    with Ledger.open(store_url, **place) as ledger:
        for key in keys:
            for words in ({}, {"up_to_head": True}, {"semantics": False}):
                count += verify(LiveEvidence(store_of(ledger), "default"), [key], **words).verdict != "verified"
        for form in ("bundle", "ndjson"):
            with pytest.raises(JournalError):
                ledger.export(tmp_path / "out", form=form)
    server = serve_believing(store_url, keys=place["keys"], seal=False)
    headers = {"Authorization": 'Bearer "default"'}
    for key in keys:
        for more in ({}, {"up_to_head": True}):
            asked = {"keys": [key], **more}
            told = httpx2.post(f"{server.url}/v1/journal/verify", headers=headers, json=asked).json()
            count += told["verdict"] != "verified"
    server.stop()
    return count


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


@pytest.mark.parametrize("first", ["default", "other"], ids=["one tenant", "another tenant goes on first"])
def test_68_a_rotation_is_refused_before_it_begins_where_a_loss_is_not_declared(
    store_url: str, own_keys: Path, first: str
) -> None:
    """It wrote a rotation that did not follow the lost one, and no key verified the journal any more."""
    migrate(store_url)
    place: dict[str, Any] = {"url": store_url, "seal": True}
    backup = Backup(store_url)
    with Ledger.open(**place) as ledger, Ledger.open(**place, tenant="other") as other:
        for one in (ledger, other):
            one.run(call("charge", "order-1", n=1), lambda effect: 1)
            one.seal()
        pinned = [key_of(ledger)]
    backup.make()
    with Ledger.open(**place) as ledger:
        ledger.rotate_keys()
        ring: Any = ledger._engine.notary._ring()
        (retired,) = [key.id for key in ring.all_keys() if key.status == "retired"]
        pinned.append(key_of(ledger))
    backup.put_back()
    if first == "other":
        with Ledger.open(**place, tenant="other") as other:
            other.continue_journal()
    with Ledger.open(**place, tenant=first) as ledger:
        with pytest.raises(SignerRefused):
            ledger.rotate_keys()
        with pytest.raises(SignerRefused):
            ledger.revoke_key(retired)
    for tenant in {"default", "other"} - {first} | {"default"}:
        with Ledger.open(**place, tenant=tenant) as ledger:
            ledger.continue_journal()
    with Ledger.open(**place) as ledger:
        ledger.run(call("charge", "order-1", n=2), lambda effect: 1)
        ledger.rotate_keys()
        ledger.seal()
        for key in [*pinned, key_of(ledger)]:
            report = verify(LiveEvidence(ledger._engine.store, ledger.tenant), [key])
            assert report.verdict == "verified", report.why
