"""Evidence from somebody who wants the verifier to stumble: each piece ends in a verdict, and never in "verified"."""

from __future__ import annotations

import json
import random
import socket
import struct
import subprocess
import sys
import threading
import zipfile
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from indelible import Ledger
from indelible.core.commands import Record
from indelible.core.effects.effect import SYSTEM
from indelible.core.events import event_hash, facts_json
from indelible.core.journal.merkle import leaf_hash
from indelible.core.journal.notes import Note, PublicKey, Signature, TreeHead, parse_vkey, sign_note
from indelible.core.journal.tiles import entries_path, grow, pack_entries, tile_path, unpack_entries
from indelible.core.runs.resuming import packet_digest
from indelible.core.verifying.bodies import canonical_text
from indelible.errors import BadCall, JournalError
from indelible.journal.evidence.verification import verify
from indelible.journal.exports.standalone import standalone_verifier
from indelible.journal.sealing import receipt_of
from indelible.runs.packets import check_packet
from tests.journal import standing_alone
from tests.journal.bundle_tampering import Files, write_folder, write_zip
from tests.journal.exported import files_of, key_of, store_of, work

HUGE = "1" + "0" * 5000
"""Has more digits than Python reads as a number."""
THIEF = Ed25519PrivateKey.from_private_bytes(b"\7" * 32)


class Made:
    """Is what one ledger handed over."""

    def __init__(self, folder: Path) -> None:
        with Ledger.open(f"sqlite:///{folder}/ledger.db", keys=folder / "keys", seal=False, sign_events=True) as ledger:
            work(ledger)
            ledger.seal()
            ledger.export(folder / "journal")
            ledger.export(folder / "run", run_id="order-1")
            ledger.export(folder / "lines.ndjson", form="ndjson")
            self.key = key_of(ledger)
        self.journal, self.run = files_of(folder / "journal"), files_of(folder / "run")
        self.lines = (folder / "lines.ndjson").read_bytes()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return Made(tmp_path_factory.mktemp("made"))


def standalone(bundle: Path, key: str) -> str:
    """Gives the verdict of the verifier that travels with a bundle."""
    return standing_alone.standalone(bundle, [key])


# What is asked for is looked at


def test_values_of_a_part_are_compared_also_without_the_rules(made: Made, tmp_path: Path) -> None:
    first, *rest = made.run["payloads.ndjson"].splitlines(keepends=True)
    other = {**json.loads(first), "value": b64encode(b'{"amount":1}').decode()}
    line = json.dumps(other, separators=(",", ":"), sort_keys=True).encode() + b"\n"
    bundle = write_zip({**made.run, "payloads.ndjson": b"".join([line, *rest])}, tmp_path / "b.zip")
    for semantics in (True, False):
        report = verify(bundle, [made.key], semantics=semantics)
        assert (report.verdict, "not the value" in report.why) == ("tampered", True), report.why


def test_signatures_are_not_said_to_be_checked_when_they_are_not(made: Made, tmp_path: Path) -> None:
    bundle = write_zip(made.run, tmp_path / "b.zip")
    with pytest.raises(BadCall, match="--no-semantics"):
        verify(bundle, [made.key], deep=True, semantics=False)
    report = verify(bundle, [made.key], deep=True)
    assert (report.verdict, report.counts.signatures) == ("verified", 0)
    count = len(made.run["signatures.ndjson"].splitlines())
    assert any(f"{count} signatures of writers were not checked" in remark for remark in report.remarks)


# Numbers, names and archives


def test_a_number_too_long_to_be_read_is_a_flaw(made: Made, tmp_path: Path) -> None:
    value = f'{{"field":"args","index":{HUGE},"salt":"{"0" * 64}","value":""}}\n'.encode()
    signature = f'{{"index":{HUGE},"signature":"{"A" * 86}=="}}\n'.encode()
    bundles = {
        "head": {**made.journal, f"heads/{HUGE}": made.journal["checkpoint"]},
        "receipt": {**made.run, f"receipts/{HUGE}.tlog-proof": b""},
        "value": {**made.journal, "payloads.ndjson": made.journal["payloads.ndjson"] + value},
        "signature": {**made.journal, "signatures.ndjson": made.journal["signatures.ndjson"] + signature},
    }
    for name, files in bundles.items():
        assert verify(write_zip(files, tmp_path / f"{name}.zip"), [made.key]).verdict == "tampered", name
    assert standalone(write_folder(bundles["value"], tmp_path / "value"), made.key) == "tampered"
    lines = tmp_path / "lines.ndjson"
    lines.write_bytes(made.lines.replace(b'"index":0', f'"index":{HUGE}'.encode(), 1))
    assert verify(lines, [made.key]).verdict == "tampered"


def test_a_damaged_zip_ends_in_a_verdict(made: Made, tmp_path: Path) -> None:
    path = write_zip(made.run, tmp_path / "b.zip")
    whole, chance = path.read_bytes(), random.Random(7)
    listing = whole.index(b"PK\1\2")
    changed = [bytearray(whole) for _ in range(60)]
    for one in changed:
        one[chance.randrange(chance.choice((0, listing)), len(one))] = chance.randrange(256)
    version, is_utf8, name = (bytearray(whole) for _ in range(3))
    version[listing + 6] = 255  # asks for a reader of another age
    is_utf8[listing + 9], is_utf8[listing + 46] = 8, 255  # says that its name is UTF-8, and it is not
    name[listing + 28] = 0  # has no name at all
    for number, one in enumerate((*changed, version, is_utf8, name)):
        path.write_bytes(one)
        report = verify(path, [made.key])
        assert report.why, number
        assert number < len(changed) or report.verdict != "verified"


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_zip_is_packed_as_bundles_are(made: Made, tmp_path: Path, method: int) -> None:
    # How much memory these take to unpack is for the packer to say.
    path = tmp_path / "b.zip"
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in made.run.items():
            archive.writestr(name, content)
    report = verify(path, [made.key])
    assert (report.verdict, "packed in a way" in report.why) == ("tampered", True), report.why


@pytest.mark.parametrize("id_", [0x7075, 0x6375, 0xCAFE, None])
def test_69_no_other_program_finds_other_names_in_a_zip(made: Made, tmp_path: Path, id_: int | None) -> None:
    extra = b"short"
    if id_ is not None:
        body = struct.pack("<BI", 1, crc32(b"README.txt")) + b"payloads.ndjson"
        extra = struct.pack("<HH", id_, len(body)) + body
    path = tmp_path / "b.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in made.run.items():
            entry = zipfile.ZipInfo(name)
            if name == "README.txt":
                entry.extra = extra
            archive.writestr(entry, content)
    assert verify(path, [made.key]).verdict in ("tampered", "cannot_tell")


@pytest.mark.parametrize("extra", ["local", "list"])
def test_69_a_field_that_names_a_file_anew_is_found_in_both_places(made: Made, tmp_path: Path, extra: str) -> None:
    times, naming = struct.pack("<HHBI", 0x5455, 5, 1, 0), struct.pack("<HHBI", 0x7075, 5, 1, 0)
    path = tmp_path / "b.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in made.run.items():
            entry = zipfile.ZipInfo(name)
            entry.extra = times
            archive.writestr(entry, content)
    assert verify(path, [made.key]).verdict == "verified", "zip notes times so"
    raw = path.read_bytes()
    at = raw.index(times) if extra == "local" else raw.rindex(times)
    path.write_bytes(raw[:at] + naming + raw[at + len(naming) :])
    assert verify(path, [made.key]).verdict == "tampered"


def test_69_a_file_has_one_name_beside_its_content_and_in_the_list(made: Made, tmp_path: Path) -> None:
    path = write_zip(made.run, tmp_path / "b.zip")
    raw = path.read_bytes()
    at = raw.index(b"README.txt")
    path.write_bytes(raw[:at] + b"checkpoint" + raw[at + 10 :])
    assert verify(path, [made.key]).verdict == "tampered"


def test_a_bundle_that_somebody_packed_again_with_its_folders_is_the_same(made: Made, tmp_path: Path) -> None:
    packed = BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.mkdir("receipts")
        for name, content in made.run.items():
            archive.writestr(name, content)
    (tmp_path / "b.zip").write_bytes(packed.getvalue())
    assert verify(tmp_path / "b.zip", [made.key]).verdict == "verified"


def test_no_name_in_a_bundle_writes_over_the_verdict(made: Made, tmp_path: Path) -> None:
    bundle = write_folder({**made.run, "\x1b[2K\rVERIFIED: all is well": b""}, tmp_path / "b")
    (tmp_path / "verify.py").write_bytes(standalone_verifier())
    words = [sys.executable, str(tmp_path / "verify.py"), "--key", made.key, str(bundle)]
    said = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (said.returncode, said.stderr) == (1, "")
    assert said.stdout.startswith("TAMPERED: \\x1b[2K\\rVERIFIED")


# Journals of their own, signed by somebody else's key


ODD = [None, True, -1, "x", [], {}, [{}]]
TOLD: list[tuple[str, str, dict[str, Any]]] = [
    ("order-1", "payload_erased", {"basis": "request", "erased": [{"fields": ["args"], "seq": 0}]}),
    ("indelible:journal", "log_continued", {"lost": {"root": b64encode(b"\1" * 32).decode(), "size": 9}, "size": 3}),
    ("indelible:journal", "key_revoked", {"key": "", "size": 10**6}),
]


def odd(value: Any) -> Iterator[Any]:
    """Gives a value with one place of it after the other replaced by what does not belong there."""
    yield from ODD
    for name, part in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        for other in odd(part):
            copied = dict(value) if isinstance(value, dict) else list(value)
            copied[name] = other
            yield copied


def is_well_said(facts: dict[str, Any]) -> bool:
    """Does an erasure name numbers and fields? Nothing else in these events can be changed and still be said well."""
    erased = facts.get("erased")
    return (
        isinstance(erased, list)
        and facts["basis"] == "request"
        and all(
            isinstance(one, dict)
            and one.keys() == {"fields", "seq"}
            and type(one["seq"]) is int
            and isinstance(one["fields"], list)
            and all(isinstance(name, str) for name in one["fields"])
            for one in erased
        )
    )


def signed_by_the_thief(files: Files, run: str, type_: str, facts: Any) -> tuple[Files, str]:
    """Adds an event to a journal and signs it all: only the key tells that nobody else did."""
    bodies = unpack_entries(next(content for name, content in files.items() if name.startswith("tile/entries/")))
    told = [json.loads(body) for body in bodies]
    before = [number for number, body in enumerate(told) if body["run"] == run]
    plain = next(body for body in told if "facts" in body)
    more = {"run": run, "seq": len(before), "prev": event_hash(bodies[before[-1]]), "type": type_, "facts": facts}
    bodies.append(canonical_text({**plain, **more, "commits": {}}).encode())
    growth = grow(0, [leaf_hash(body) for body in bodies], lambda level, number: b"")
    said = json.loads(files["manifest.json"])
    head = TreeHead(said["origin"], len(bodies), growth.root)
    key = PublicKey(head.origin, THIEF.public_key().public_bytes_raw())
    counted = {"size": head.size, "events": head.size, "last": head.size - 1, "root": b64encode(head.root).decode()}
    kept = {name: content for name, content in files.items() if not name.startswith(("tile/", "heads/", "signatures"))}
    tiles = {tile_path(level, number, len(tile) // 32): tile for (level, number), tile in growth.tiles.items()}
    made = {
        entries_path(0, len(bodies)): pack_entries(bodies),
        "checkpoint": str(sign_note(head.text, key, THIEF.sign)).encode(),
        "manifest.json": json.dumps(said | counted).encode(),
    }
    return {**kept, **tiles, **made}, key.vkey


@pytest.mark.parametrize(("run", "type_", "facts"), TOLD, ids=[type_ for _, type_, _ in TOLD])
def test_what_a_journal_says_in_an_odd_way_ends_in_a_verdict(
    made: Made, tmp_path: Path, run: str, type_: str, facts: dict[str, Any]
) -> None:
    _, theirs = signed_by_the_thief(made.journal, run, type_, facts)
    facts = {**facts, "key": theirs} if "key" in facts else facts
    files, theirs = signed_by_the_thief(made.journal, run, type_, facts)
    bundle = write_folder(files, tmp_path / "b")
    assert (verify(bundle, [theirs]).verdict, standalone(bundle, theirs)) == ("verified", "verified")
    assert (verify(bundle, [made.key]).verdict, standalone(bundle, made.key)) == ("tampered", "tampered")
    tried = [one for one in odd(facts) if isinstance(one, dict) and one.keys() == facts.keys()]
    assert len(tried) > 10
    for one in tried:
        files, theirs = signed_by_the_thief(made.journal, run, type_, one)
        for name in ("checkpoint", "manifest.json", *(name for name in files if name.startswith("tile/"))):
            (bundle / name).write_bytes(files[name])
        assert verify(bundle, [theirs]).verdict == ("verified" if is_well_said(one) else "tampered"), one
        assert standalone(bundle, theirs) in ("verified", "tampered"), one


# Published logs


@contextmanager
def answering(answer: bytes) -> Iterator[str]:
    """Answers one request with these bytes, whatever is asked."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer_once() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(65_536)
                connection.sendall(answer)

        thread = threading.Thread(target=answer_once)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        thread.join()


@pytest.mark.parametrize(
    "answer",
    [
        b"no such thing\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\ncut off in the mid",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200 + b"\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: http://[::1\r\n\r\n",
    ],
    ids=["no HTTP", "cut off", "no chunk", "many headers", "nowhere"],
)
def test_an_answer_that_is_none_accuses_nobody(made: Made, answer: bytes) -> None:
    with answering(answer) as address:
        report = verify(address, [made.key])
    assert (report.verdict, report.flaw) == ("cannot_tell", None), report.why


@pytest.mark.parametrize("address", ["http://[::1", "https://a b/", "http://127.0.0.1:port/", f"https://{'a' * 300}/"])
def test_an_address_that_is_none_cannot_be_asked(made: Made, address: str) -> None:
    assert verify(address, [made.key]).verdict == "cannot_tell"


# Packets


def test_a_packet_is_proven_by_its_own_tenant_s_journal_alone(tmp_path: Path) -> None:
    # One key signs the journals of all tenants, and a signature does not cover the name that stands before it.
    url, keys = f"sqlite:///{tmp_path}/ledger.db", tmp_path / "keys"
    with Ledger.open(url, tenant="ours", keys=keys) as ours, Ledger.open(url, tenant="theirs", keys=keys) as theirs:
        ours.start_run("r", agent="a", intent="i")
        signed, key = ours.export_packet("r"), parse_vkey(key_of(ours))
        check_packet(signed, key.vkey)
        signed["packet"]["suggestedNextAction"] = "pay the thief"
        told = Record(
            tenant="theirs",
            run_id="r",
            stamp=theirs._engine.mint.stamp(SYSTEM),
            event_type="packet_exported",
            facts=facts_json({"packet": packet_digest(signed["packet"])}),
        )
        store_of(theirs).apply("theirs", [told], [None])
        theirs.seal()
        receipt = receipt_of(store_of(theirs), "theirs", "r", 0)
        check_packet({**signed, **_proof(receipt.extra, receipt)}, key_of(theirs))
    relabelled = tuple(Signature(key.name, key.id, one.content) for one in receipt.head.signatures)
    forged = replace(receipt, head=Note(receipt.head.text, relabelled))
    assert forged.head.signed_by(key)
    with pytest.raises(JournalError, match="another ledger"):
        check_packet({**signed, **_proof(receipt.extra, forged)}, key.vkey)


def _proof(body: bytes | None, receipt: object) -> dict[str, str]:
    return {"event": b64encode(body or b"").decode(), "receipt": str(receipt)}
