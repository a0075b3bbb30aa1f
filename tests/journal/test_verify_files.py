"""Exports by lines, receipts and published logs are verified; what is empty, torn or something else never is."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import threading
from base64 import b64encode
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from hashlib import sha256
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from indelible import Ledger
from indelible.core.commands import Record, Stamp
from indelible.core.effects.effect import SYSTEM
from indelible.core.events import facts_json
from indelible.core.journal.notes import COSIGNATURE, PublicKey, cosign, parse_note, sign_note
from indelible.errors import BadCall
from indelible.journal.evidence.verification import SignatureChecks, verify
from indelible.journal.exports.excerpt import Disclosure
from indelible.journal.exports.exporting import export
from tests.journal.exported import work
from tests.journal.test_verify_live import call, pinned_key

WITNESS = Ed25519PrivateKey.from_private_bytes(b"w" * 32)
WITNESS_KEY = PublicKey("witness.example", WITNESS.public_key().public_bytes_raw(), COSIGNATURE)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of exports: a journal's lines, its bundle, its older head, a receipt, and the key."""
    folder = tmp_path_factory.mktemp("exports")
    with Ledger.open(f"sqlite:///{folder}/ledger.db", keys=folder / "keys", seal=False, sign_events=True) as ledger:
        work(ledger)
        (folder / "old_head").write_text(str(ledger.seal()))
        for number in range(130):
            ledger.run(call(number), lambda effect: 1, side_effect="none")
        store = ledger._engine.store
        erased = facts_json({"basis": "request", "erased": [{"fields": ["args"], "seq": 0}]})
        stamp = Stamp(at=datetime.now(UTC), actor=SYSTEM, salts=bytes(96))
        words: Any = {"event_type": "payload_erased", "facts": erased, "committed": {}, "erased": ((0, "args"),)}
        store.apply("default", [Record(tenant="default", run_id="order-2", stamp=stamp, **words)], [None])
        (folder / "new_head").write_text(str(ledger.seal()))
        export(store, "default", folder / "lines.ndjson", form="ndjson")
        export(store, "default", folder / "bundle")
        export(store, "default", folder / "silent", disclosure=Disclosure(is_without_payloads=True))
        export(store, "default", folder / "shy", disclosure=Disclosure(withheld=frozenset({"result"})))
        event = store.events("default", "order-1", 2, 1)[0]
        (folder / "one.tlog-proof").write_text(str(ledger.receipt(event)))
        (folder / "key").write_text(pinned_key(store))
    return folder


@pytest.fixture
def key(made: Path) -> str:
    return (made / "key").read_text()


def test_lines_of_a_whole_journal_are_verified_like_a_bundle(made: Path, key: str) -> None:
    report = verify(made / "lines.ndjson", [key], deep=True)
    assert (report.verdict, report.kind) == ("verified", "journal"), report.why
    assert report.counts.payloads is not None
    assert report.counts.payloads.withheld == 1, "a key is not shown without its arguments"
    assert report.counts.payloads.erased == 1
    assert report.counts.signatures > 200


def _loud(line: bytes) -> bytes:
    return re.sub(rb'"salt":"([0-9a-f]+)"', lambda match: b'"salt":"' + match[1].upper() + b'"', line)


LINES = {
    "an event changed": lambda lines: [*lines[:9], lines[9].replace(b"order-1", b"order-9"), *lines[10:]],
    "an event gone": lambda lines: [*lines[:9], *lines[10:]],
    "an event twice": lambda lines: [*lines[:9], lines[9], *lines[9:]],
    "two swapped": lambda lines: [*lines[:9], lines[10], lines[9], *lines[11:]],
    "the last event gone": lambda lines: [*lines[:-2], lines[-1]],
    "a value changed": lambda lines: [*lines[:2], lines[2].replace(b'"value":"ey', b'"value":"ez'), *lines[3:]],
    "a salt in capitals": lambda lines: [*lines[:2], _loud(lines[2]), *lines[3:]],
    "a salt changed": lambda lines: [*lines[:2], lines[2].replace(b'"salt":"', b'"salt":"zz'), *lines[3:]],
    "a member put in": lambda lines: [*lines[:2], lines[2][:-2] + b',"x":1}\n', *lines[3:]],
    "a line that is none": lambda lines: [*lines[:2], b"x\n", *lines[3:]],
    "another index": lambda lines: [*lines[:2], lines[2].replace(b'"index":2', b'"index":3'), *lines[3:]],
    "an event after the head": lambda lines: [*lines, lines[0], lines[-1]],
    "the end cut off in the middle": lambda lines: [*lines[:-1], lines[-1][:-10]],
    "no head": lambda lines: lines[:-1],
    "nothing": lambda lines: [],
}


@pytest.mark.parametrize("name", LINES)
def test_lines_that_were_changed_are_never_verified(made: Path, key: str, name: str, tmp_path: Path) -> None:
    lines = (made / "lines.ndjson").read_bytes().splitlines(keepends=True)
    changed = LINES[name](lines)
    assert changed != lines
    (tmp_path / "lines").write_bytes(b"".join(changed))
    report = verify(tmp_path / "lines", [key])
    assert report.verdict == (
        "cannot_tell" if name in ("the end cut off in the middle", "no head", "nothing") else "tampered"
    )


def test_a_receipt_proves_one_event(made: Path, key: str, tmp_path: Path) -> None:
    report = verify(made / "one.tlog-proof", [key])
    assert (report.verdict, report.kind, report.counts.events) == ("verified", "receipt", 1), report.why
    assert not report.ruled_out["delete"]
    content = (made / "one.tlog-proof").read_bytes()
    for place in range(0, len(content), 7):
        (tmp_path / "r").write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        assert verify(tmp_path / "r", [key]).verdict != "verified", place


def test_a_head_that_was_kept_is_continued(made: Path, key: str) -> None:
    report = verify(made / "bundle", [key], after=[(made / "old_head").read_bytes()])
    assert report.verdict == "verified"
    assert report.ruled_out["truncate_before"]
    assert report.ruled_out["stolen_key_before"]
    receipt = verify(made / "one.tlog-proof", [key], after=[(made / "old_head").read_bytes()])
    assert receipt.verdict == "cannot_tell"
    with pytest.raises(BadCall):
        verify(made / "bundle", [key], after=[b"no head"])


def test_a_journal_that_was_set_back_is_caught_by_a_kept_head(made: Path, key: str, tmp_path: Path) -> None:
    """Shows the lines up to the older head as if they were all; its signature is genuine."""
    old = (made / "old_head").read_text()
    lines = (made / "lines.ndjson").read_bytes().splitlines(keepends=True)[: int(old.split("\n")[1])]
    last = json.dumps({"head": old, "withheld": 2}, ensure_ascii=False, separators=(",", ":")).encode()
    (tmp_path / "old").write_bytes(b"".join(lines) + last + b"\n")
    alone = verify(tmp_path / "old", [key])
    assert (alone.verdict, alone.ruled_out["truncate_before"]) == ("verified", False)
    report = verify(tmp_path / "old", [key], after=[(made / "new_head").read_bytes()])
    assert report.verdict == "tampered"
    assert "cut off" in report.why


def test_witnesses_and_their_time_rule_out_more(made: Path, key: str, tmp_path: Path) -> None:
    now = datetime.now(UTC) + timedelta(days=2)
    bundle = _copy(made / "bundle", tmp_path / "b")
    note = parse_note((bundle / "checkpoint").read_bytes())
    line = cosign(note, WITNESS_KEY, WITNESS.sign, int(now.timestamp()))
    (bundle / "checkpoint").write_text(str(note.with_signatures([line])))
    report = verify(bundle, [key], witnesses=[WITNESS_KEY.vkey], fresh_within=timedelta(hours=1), now=now)
    assert (report.verdict, report.grounds) == ("verified", {"key", "witness", "fresh_witness"})
    assert report.ruled_out["fork"]
    assert report.ruled_out["stolen_key_after"]
    lacking = verify(made / "bundle", [key], witnesses=[WITNESS_KEY.vkey])
    assert (lacking.verdict, lacking.exit_code) == ("cannot_tell", 2)
    stale = verify(made / "bundle", [key], fresh_within=timedelta(hours=1), now=now)
    assert stale.verdict == "cannot_tell"
    with pytest.raises(BadCall, match="name it as one"):
        verify(bundle, [WITNESS_KEY.vkey])


def _copy(source: Path, target: Path) -> Path:
    return Path(shutil.copytree(source, target))


def test_everything_signed_again_with_another_key_is_caught(made: Path, key: str, tmp_path: Path) -> None:
    bundle = _copy(made / "bundle", tmp_path / "b")
    thief = Ed25519PrivateKey.generate()
    for path in (bundle / "checkpoint", *(bundle / "heads").iterdir()):
        note = parse_note(path.read_bytes())
        theirs = PublicKey(note.text.split("\n")[0], thief.public_key().public_bytes_raw())
        path.write_text(str(sign_note(note.text, theirs, thief.sign)))
    report = verify(bundle, [key])
    assert (report.verdict, report.exit_code) == ("tampered", 1)
    assert verify(bundle).verdict == "cannot_tell"


def test_writers_signatures_are_checked_on_demand(made: Path, key: str, tmp_path: Path) -> None:
    assert verify(made / "bundle", [key], deep=True).counts.signatures > 200
    bundle = _copy(made / "bundle", tmp_path / "b")
    lines = (bundle / "signatures.ndjson").read_bytes().splitlines(keepends=True)
    for at in (0, 50):  # the first entry of the journal, too
        swapped = lines[at][:-10] + lines[at + 1][-10:]
        for changed in ([*lines[:at], *lines[at + 1 :]], [*lines[:at], swapped, *lines[at + 1 :]]):
            (bundle / "signatures.ndjson").write_bytes(b"".join(changed))
            assert verify(bundle, [key], deep=True).verdict == "tampered", at


BESIDE = """
import os, sys
from indelible.journal.evidence import verification

verification._AT_ONCE, verification._MOST_AHEAD = 10, 2
checker, victim = verification.first_bad_signature, sys.argv[3]

def check(claimed):
    if os.getpid() != here:
        os.write(1, b"beside\\n")
        if victim == "dies":
            os._exit(9)
    return checker(claimed)

here, verification.first_bad_signature = os.getpid(), check
print(verification.verify(sys.argv[1], [sys.argv[2]], deep=True).counts.signatures)
"""


@pytest.mark.parametrize("child", ["lives", "dies"])
def test_many_signatures_are_checked_beside(made: Path, key: str, child: str) -> None:
    told = subprocess.run(  # no other thread runs there, so that it forks as a program of its own would
        [sys.executable, "-c", BESIDE, str(made / "bundle"), key, child], stdout=subprocess.PIPE, check=True, text=True
    ).stdout.split()
    assert "beside" in told
    assert int(told[-1]) > 200


def test_beside_other_threads_signatures_are_checked_here(
    made: Path, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indelible.journal.evidence.verification._AT_ONCE", 10)
    monkeypatch.setattr(threading, "active_count", lambda: 2)
    assert verify(made / "bundle", [key], deep=True).counts.signatures > 200
    with SignatureChecks() as checks:
        assert checks.finish() == 0


def test_values_that_were_withheld_are_counted(made: Path, key: str) -> None:
    for name in ("silent", "shy"):
        report = verify(made / name, [key])
        assert report.verdict == "verified", report.why
        assert report.counts.payloads is not None
        assert report.counts.payloads.withheld > 100
        assert report.counts.payloads.erased == 1


def test_without_the_rules_it_is_still_the_signed_journal(made: Path, key: str) -> None:
    for name in ("bundle", "lines.ndjson", "one.tlog-proof"):
        report = verify(made / name, [key], semantics=False)
        assert (report.verdict, report.counts.payloads) == ("verified", None), (name, report.why)


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *words: object) -> None:
        pass


@pytest.fixture
def published(made: Path) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(made / "bundle"))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def test_a_published_log_is_verified(published: str, key: str) -> None:
    report = verify(published, [key])
    assert (report.verdict, report.kind) == ("verified", "journal"), report.why
    assert verify(f"{published}/tile", [key]).verdict == "cannot_tell", "where no log is, nobody is accused"


def test_an_address_that_cannot_be_trusted_or_reached_is_not_asked(key: str) -> None:
    assert "use https" in verify("http://example.com/log", [key]).why
    assert verify("http://127.0.0.1:9/log", [key]).verdict == "cannot_tell"


def test_what_is_something_else_cannot_be_told(tmp_path: Path, key: str) -> None:
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "text").write_bytes(b"hello")
    (tmp_path / "torn.zip").write_bytes(b"PK\x03\x04 torn")
    (tmp_path / "folder").mkdir()
    for name in ("empty", "text", "torn.zip", "folder", "nowhere"):
        report = verify(tmp_path / name, [key])
        assert (report.verdict, report.exit_code) == ("cannot_tell", 2), name
        assert not any(report.ruled_out.values())


def test_a_weak_key_is_refused(made: Path) -> None:
    raw = bytes([1]) + bytes(31)
    content = bytes([1]) + raw
    vkey = f"log+{sha256(b'log' + bytes([10]) + content).digest()[:4].hex()}+{b64encode(content).decode()}"
    with pytest.raises(BadCall, match="low order"):
        verify(made / "bundle", [vkey])
