"""An export is there whole or not at all, replaces nothing by accident, and is its owner's alone."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from indelible import Ledger
from indelible.errors import BadCall
from indelible.journal.exports.exporting import Form, export
from indelible.journal.exports.outlet import new_bundle, new_file
from indelible.journal.exports.selecting import OfRun
from tests.journal.exported import store_of, work

FORMS: tuple[Form, ...] = ("bundle", "html", "ndjson", "csv", "parquet")


@pytest.fixture
def ledger(sqlite_url: str) -> Iterator[Ledger]:
    with Ledger.open(sqlite_url) as ledger:
        work(ledger)
        ledger.seal()
        yield ledger


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "exports"
    made.mkdir()
    return made


@pytest.mark.parametrize("form", [*FORMS, "bundle.zip"])
def test_nothing_is_replaced_unless_asked_for(ledger: Ledger, folder: Path, form: str) -> None:
    out = folder / ("out.zip" if form == "bundle.zip" else "out")
    kind: Form = "bundle" if form == "bundle.zip" else form  # type: ignore[assignment]
    export(store_of(ledger), ledger.tenant, out, form=kind, selection=OfRun("order-1"))
    with pytest.raises(BadCall, match=r"is there already; name another, or replace it with --force"):
        export(store_of(ledger), ledger.tenant, out, form=kind)
    export(store_of(ledger), ledger.tenant, out, form=kind, force=True)
    assert [path.name for path in folder.iterdir()] == [out.name]


@pytest.mark.parametrize("form", [*FORMS, "bundle.zip"])
def test_files_are_their_owners_alone(ledger: Ledger, folder: Path, form: str) -> None:
    before = os.umask(0)
    try:
        out = folder / ("out.zip" if form == "bundle.zip" else "out")
        kind: Form = "bundle" if form == "bundle.zip" else form  # type: ignore[assignment]
        export(store_of(ledger), ledger.tenant, out, form=kind)
    finally:
        os.umask(before)
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (out, *out.rglob("*")) if path.is_file()}
    folders = {stat.S_IMODE(path.stat().st_mode) for path in (out, *out.rglob("*")) if path.is_dir()}
    assert modes == {0o600}
    assert folders <= {0o700}


def test_a_folder_that_is_no_bundle_is_never_replaced(ledger: Ledger, folder: Path) -> None:
    mine = folder / "home"
    mine.mkdir()
    (mine / "thesis.txt").write_text("ten years")
    for form in FORMS:
        with pytest.raises(BadCall, match="never replaced"):
            export(store_of(ledger), ledger.tenant, mine, form=form, force=True)
    assert (mine / "thesis.txt").read_text() == "ten years"


def test_what_appears_meanwhile_is_not_replaced(folder: Path) -> None:
    out = folder / "out"
    opened = new_file(out, force=False)
    opened.__enter__().write(b"ours")
    out.write_bytes(b"theirs")
    with pytest.raises(BadCall, match="is there already"):
        opened.__exit__(None, None, None)
    assert out.read_bytes() == b"theirs"
    assert list(folder.iterdir()) == [out]


def fail_half_way(out: Path, problem: type[BaseException], *, force: bool = False) -> None:
    with new_bundle(out, force=force) as files:
        files.put("tile/0/000", b"half")
        files.stream("payloads.ndjson").write(b"half")
        raise problem


@pytest.mark.parametrize("problem", [RuntimeError, KeyboardInterrupt])
@pytest.mark.parametrize("name", ["out", "out.zip"])
def test_an_export_that_fails_leaves_nothing(folder: Path, name: str, problem: type[BaseException]) -> None:
    with pytest.raises(problem):
        fail_half_way(folder / name, problem)
    assert not list(folder.iterdir())


def test_an_export_that_fails_keeps_what_it_was_to_replace(ledger: Ledger, folder: Path) -> None:
    out = folder / "out"
    export(store_of(ledger), ledger.tenant, out)
    before = (out / "checkpoint").read_bytes()
    with pytest.raises(RuntimeError):
        fail_half_way(out, RuntimeError, force=True)
    assert (out / "checkpoint").read_bytes() == before


def test_a_place_that_cannot_be_written_is_named(ledger: Ledger, folder: Path) -> None:
    with pytest.raises(BadCall, match=r"there is no folder .*nowhere; make it first"):
        export(store_of(ledger), ledger.tenant, folder / "nowhere" / "out")
    for form in FORMS:
        with pytest.raises(BadCall, match="cannot be written: File name too long"):
            export(store_of(ledger), ledger.tenant, folder / ("x" * 254), form=form)


KILLED = """
import sys, time
from pathlib import Path
from indelible.journal.exports.outlet import new_bundle, new_file
out = Path(sys.argv[1])
opened = new_file(out, force=False) if sys.argv[2] == "file" else new_bundle(out, force=False)
with opened as target:
    if sys.argv[2] == "file":
        target.write(b"half"); target.flush()
    else:
        target.put("checkpoint", b"half"); target.stream("payloads.ndjson").write(b"secret")
    print("half", flush=True)
    time.sleep(100)
"""


@pytest.mark.parametrize(("kind", "name"), [("file", "out"), ("bundle", "out"), ("bundle", "out.zip")])
def test_a_killed_export_leaves_no_half_file_under_its_name(folder: Path, kind: str, name: str) -> None:
    with subprocess.Popen([sys.executable, "-c", KILLED, folder / name, kind], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"half\n"
        process.send_signal(signal.SIGKILL)
    assert not (folder / name).exists()
    assert {path.name[:4] for path in folder.iterdir()} == {".out"}
