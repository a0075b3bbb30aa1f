"""A bundle that contradicts itself is caught; nothing it says of itself is trusted."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import pytest

from indelible.core.journal.notes import TreeHead
from indelible.core.verifying.findings import Caught
from indelible.core.verifying.manifests import Contents, check_files, check_manifest, number_in, read_manifest

HEAD = TreeHead("log", 3, b"r" * 32)
GOOD: dict[str, Any] = {
    "format": "indelible/bundle/v1",
    "kind": "journal",
    "origin": "log",
    "size": 3,
    "root": b64encode(HEAD.root).decode(),
    "run": None,
    "first": 0,
    "last": 2,
    "events": 3,
    "payloads": 4,
    "withheld": 0,
    "made_at": "2030-01-02T12:00:00.000000Z",
    "keys": ["k"],
    "indelible": "0.1.0",
}


def found() -> Contents:
    contents = Contents(payloads=4, runs={"run-1"})
    contents.meet(0, 2)
    contents.meet(2)
    return contents


def test_a_manifest_that_tells_the_truth_is_read() -> None:
    assert read_manifest(json.dumps(GOOD).encode()) == GOOD
    check_manifest(GOOD, HEAD, found())
    check_manifest({**GOOD, "kind": "run", "run": "run-1"}, HEAD, found())


@pytest.mark.parametrize(
    "change",
    [
        {"format": "indelible/bundle/v2"},
        {"kind": "all"},
        {"size": -1},
        {"size": True},
        {"origin": 1},
        {"keys": "k"},
        {"keys": [1]},
        {"run": "run-1"},
        {"run": 1},
        {"kind": "run"},
        {"evil": 1},
    ],
)
def test_what_is_no_manifest_is_caught(change: dict[str, Any]) -> None:
    with pytest.raises(Caught, match=r"manifest\.json"):
        read_manifest(json.dumps({**GOOD, **change}).encode())


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b'{"a":1,"a":2}', b"\xff"])
def test_what_is_no_json_is_caught(text: bytes) -> None:
    with pytest.raises(Caught, match=r"manifest\.json"):
        read_manifest(text)


@pytest.mark.parametrize("name", ["origin", "size", "root", "events", "payloads", "first", "last"])
def test_a_contradiction_is_named(name: str) -> None:
    with pytest.raises(Caught, match=f"about {name}"):
        check_manifest({**GOOD, name: "other"}, HEAD, found())


def test_a_bundle_of_a_run_holds_no_other_run() -> None:
    with pytest.raises(Caught, match="another run"):
        check_manifest({**GOOD, "kind": "run", "run": "run-2"}, HEAD, found())


JOURNAL = {"manifest.json", "checkpoint", "README.txt", "verify.py", "tile/0/000.p/3", "tile/entries/000.p/3"}
RUN = {"manifest.json", "checkpoint", "README.txt", "verify.py"}


def test_the_files_of_a_bundle_are_known_by_name() -> None:
    check_files(JOURNAL | {"heads/2", "payloads.ndjson", "signatures.ndjson"}, "journal", 3)
    check_files(RUN | {"receipts/0.tlog-proof", "receipts/12.tlog-proof"}, "run", 3)
    assert number_in("receipts/12.tlog-proof") == 12
    assert number_in("heads/7") == 7


@pytest.mark.parametrize("name", sorted(JOURNAL))
def test_a_missing_file_is_named(name: str) -> None:
    with pytest.raises(Caught, match="missing"):
        check_files(JOURNAL - {name}, "journal", 3)


def test_a_size_that_nobody_could_hold_is_not_counted_out() -> None:
    with pytest.raises(Caught, match="files of entries are missing"):
        check_files(JOURNAL, "journal", 2**62)


@pytest.mark.parametrize("name", ["evil", "heads/02", "heads/x", "heads/", "heads/2/3", "receipts/1.tlog-proof"])
def test_a_stray_file_is_named(name: str) -> None:
    with pytest.raises(Caught, match="does not belong"):
        check_files(JOURNAL | {name}, "journal", 3)
    with pytest.raises(Caught, match="does not belong"):
        check_files(RUN | {"heads/2"}, "run", 3)
