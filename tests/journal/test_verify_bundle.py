"""A bundle is verified with every change to its files caught, or written down as carrying no evidence."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from indelible import Ledger
from indelible.core.journal.merkle import leaf_hash
from indelible.core.journal.notes import PublicKey, TreeHead, parse_note, sign_note
from indelible.core.journal.tiles import grow, pack_entries, tile_path, unpack_entries
from indelible.core.verifying.findings import Report
from indelible.journal.evidence.verification import verify
from indelible.journal.exports import standalone_verify
from indelible.journal.exports.excerpt import Between, OfRun, Selection, Whole
from indelible.journal.exports.exporting import export
from tests.journal.bundle_tampering import Files, file_changes, write_folder, write_zip
from tests.journal.exported import files_of, work
from tests.journal.test_verify_live import PAGE, call, pinned_key

KINDS: dict[str, Selection] = {"journal": Whole(), "run": OfRun("order-2"), "period": Between(3, 9)}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Files], str]:
    """Bundles of every kind of one journal that has a second level of tiles, and the key to verify them with."""
    folder = tmp_path_factory.mktemp("made")
    with Ledger.open(f"sqlite:///{folder}/ledger.db", keys=folder / "keys", seal=False) as ledger:
        work(ledger)
        ledger.seal()
        for number in range(130):
            ledger.run(call(number), lambda effect: 1, side_effect="none")
        ledger.seal()
        store = ledger._engine.store
        for kind, selection in KINDS.items():
            export(store, "default", folder / kind, selection=selection)
        key = pinned_key(store)
    return {kind: files_of(folder / kind) for kind in KINDS}, key


def _standalone(bundle: Path, key: str) -> int:
    """Gives the exit code of the verifier that travels with a bundle, run in this process."""
    module: Any = standalone_verify
    try:
        module.verify(bundle, [module.Key(key)], [])
    except module.Told as told:
        return int(told.args[0])
    return 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_bundle_that_nobody_touched_is_verified(
    made: tuple[dict[str, Files], str], kind: str, tmp_path: Path
) -> None:
    files, key = made[0][kind], made[1]
    for bundle in (write_folder(files, tmp_path / "b"), write_zip(files, tmp_path / "b.zip")):
        report = verify(bundle, [key])
        assert (report.verdict, report.kind, report.flaw) == ("verified", kind, None), report.why
        assert report.ruled_out["delete"] is (kind == "journal")
    assert _standalone(tmp_path / "b", key) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_every_change_of_a_bundle_is_caught_or_listed(
    made: tuple[dict[str, Files], str], kind: str, tmp_path: Path
) -> None:
    files, key = made[0][kind], made[1]
    passed, count = set(), 0
    for number, (name, changed) in enumerate(_sampled(file_changes(files))):
        is_path = ".." not in name
        bundle = write_folder(changed, tmp_path / str(number)) if is_path else write_zip(changed, tmp_path / "evil.zip")
        report = verify(bundle, [key])
        count += 1
        if is_path:
            assert _standalone(bundle, key) == report.exit_code, (name, report.why)
        if report.verdict == "tampered":
            assert report.flaw is not None
        else:
            assert report.verdict == "verified", (name, report.why)
            passed.add(_listed_as(name))
    assert count > 100
    assert passed <= _listed_in_the_page(), passed - _listed_in_the_page()
    if kind == "journal":
        assert passed == _listed_in_the_page()


def _sampled(changes: Any) -> Any:
    """Keeps what is unlike: of the many receipts, two are enough, and of a tile's hashes some."""
    seen: dict[str, int] = {}
    for name, files in changes:
        like = re.sub(r"[0-9]+", "N", name)
        seen[like] = seen.get(like, 0) + 1
        if seen[like] <= 6:
            yield name, files


def _listed_as(name: str) -> str:
    return re.sub(r" lines? [0-9]+$", " line", re.sub(r"^heads/[0-9]+", "heads/…", name))


def _listed_in_the_page() -> set[str]:
    section = PAGE.read_text(encoding="utf-8").partition("## Parts of a bundle that carry no evidence")[2]
    return set(re.findall(r"^\| `([^`]+)` \|", section.partition("\n## ")[0], re.MULTILINE))


def test_hashes_that_were_recomputed_after_an_edit_do_not_lead_to_the_signed_root(
    made: tuple[dict[str, Files], str], tmp_path: Path
) -> None:
    files, key = dict(made[0]["journal"]), made[1]
    names = sorted(name for name in files if name.startswith("tile/entries/"))
    bodies = [body for name in names for body in unpack_entries(files[name])]
    bodies[-1] = re.sub(rb'"at":"2', b'"at":"3', bodies[-1])  # legal in itself, and nothing follows it
    files[names[-1]] = pack_entries(bodies[256:])
    growth = grow(0, [leaf_hash(body) for body in bodies], lambda level, number: b"")
    files |= {tile_path(level, number, len(tile) // 32): tile for (level, number), tile in growth.tiles.items()}
    assert files.keys() == made[0]["journal"].keys()
    for semantics in (True, False):
        assert verify(write_folder(files, tmp_path / "b"), [key], semantics=semantics).verdict == "tampered"
    assert _standalone(tmp_path / "b", key) == 1
    again = TreeHead(parse_note(files["checkpoint"]).text.split("\n")[0], len(bodies), growth.root)
    thief = Ed25519PrivateKey.generate()
    theirs = PublicKey(again.origin, thief.public_key().public_bytes_raw())
    files["checkpoint"] = str(sign_note(again.text, theirs, thief.sign)).encode()
    root = b64encode(growth.root).decode()
    files["manifest.json"] = json.dumps({**json.loads(files["manifest.json"]), "root": root}).encode()
    files = {name: content for name, content in files.items() if not name.startswith("heads/")}
    report = verify(write_folder(files, tmp_path / "signed"), [key])
    assert (report.verdict, "not signed by" in report.why) == ("tampered", True), report.why
    assert verify(tmp_path / "signed", [theirs]).verdict == "verified", "nothing else is wrong with it"
    assert _standalone(tmp_path / "signed", key) == 1


def test_a_value_that_is_missing_is_no_value_that_was_withheld(
    made: tuple[dict[str, Files], str], tmp_path: Path
) -> None:
    files, key = made[0]["journal"], made[1]
    lines = files["payloads.ndjson"].splitlines(keepends=True)
    said = {**json.loads(files["manifest.json"]), "payloads": len(lines) - 1}
    fewer = {**files, "payloads.ndjson": b"".join(lines[1:]), "manifest.json": json.dumps(said).encode()}
    report = verify(write_folder(fewer, tmp_path / "missing"), [key])
    assert (report.verdict, _standalone(tmp_path / "missing", key)) == ("tampered", 1)
    assert "no event says that it was erased" in report.why
    fewer["manifest.json"] = json.dumps({**said, "withheld": 1}).encode()
    report = verify(write_folder(fewer, tmp_path / "withheld"), [key])
    assert (report.verdict, _standalone(tmp_path / "withheld", key)) == ("verified", 0), report.why
    assert report.counts.payloads is not None
    assert (report.counts.payloads.withheld, report.counts.payloads.missing) == (1, 0)


def test_the_verifier_in_a_bundle_needs_nothing_of_ours(made: tuple[dict[str, Files], str], tmp_path: Path) -> None:
    files, key = made[0]["journal"], made[1]
    bundle = write_folder(files, tmp_path / "b")
    words = [sys.executable, "-I", "-c", _BLIND, str(bundle / "verify.py"), "--key", key, str(bundle)]
    said = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (said.returncode, said.stderr) == (0, "")
    assert said.stdout.startswith("VERIFIED: ")
    assert "not ruled out" in said.stdout
    words[-1] = str(tmp_path)
    assert subprocess.run(words, capture_output=True, check=False).returncode == 2
    (bundle / "checkpoint").write_bytes(files["checkpoint"].replace(b"\n2", b"\n1", 1))
    words[-1] = str(bundle)
    said = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (said.returncode, said.stdout[:9]) == (1, "TAMPERED:")


_BLIND = """
import runpy, sys
class Blind:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "indelible":
            raise ImportError("there is no indelible here")
sys.meta_path.insert(0, Blind())
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def test_the_verifier_in_a_bundle_is_one_readable_file() -> None:
    assert standalone_verify.__file__ is not None
    assert len(Path(standalone_verify.__file__).read_text(encoding="utf-8").splitlines()) < 430


def test_the_verifier_in_a_bundle_names_the_package_that_it_lacks() -> None:
    """Not by a traceback: with that Python ends with 1, which means tampered."""
    lacking = "import runpy, sys; sys.modules['cryptography'] = None; runpy.run_path(sys.argv[1], run_name='__main__')"
    command = [sys.executable, "-c", lacking, str(standalone_verify.__file__)]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    told = "CANNOT TELL: this needs a package more; run: pip install cryptography\n"
    assert (said.returncode, said.stdout, said.stderr) == (2, told, "")


def test_a_key_found_in_the_bundle_is_never_trusted(made: tuple[dict[str, Files], str], tmp_path: Path) -> None:
    report: Report = verify(write_folder(made[0]["journal"], tmp_path / "b"))
    assert (report.verdict, report.signed_by) == ("cannot_tell", None)
    assert not any(report.ruled_out.values())
