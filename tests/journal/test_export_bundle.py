"""Bundles: what is exported verifies by its hashes alone, and holds no more than was asked for."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from base64 import b64decode
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from indelible import Ledger, migrate
from indelible.core.commands import Record, Stamp
from indelible.core.effects.effect import SYSTEM
from indelible.core.events import event_hash, facts_json, signed_message
from indelible.core.filtering.reading import parse
from indelible.core.journal.journal import JOURNAL_RUN
from indelible.core.journal.merkle import root_of
from indelible.core.journal.notes import parse_head, parse_note, parse_vkey
from indelible.errors import BadCall, JournalError
from indelible.journal.evidence.verification import verify
from indelible.journal.exports import bundle
from indelible.journal.exports.exporting import Exported, export
from indelible.journal.exports.selecting import PAYLOAD_FIELDS, Between, Disclosure, During, OfRun, Selection
from indelible.journal.exports.standalone import standalone_verifier
from tests.journal.decided import decide
from tests.journal.driven import drive
from tests.journal.exported import bodies_in, call, check_bundle, files_of, key_of, lines_of, store_of, work
from tests.stores.database import open_file

MADE_AT = datetime(2030, 1, 2, tzinfo=UTC)


@pytest.fixture
def ledger(store_url: str) -> Iterator[Ledger]:
    migrate(store_url)
    with Ledger.open(store_url) as ledger:
        work(ledger)
        ledger.seal()
        yield ledger


def bundled(ledger: Ledger, out: Path, **words: Any) -> tuple[Exported, dict[str, bytes], dict[int, dict[str, Any]]]:
    """Exports a bundle and checks it."""
    done = export(store_of(ledger), ledger.tenant, out, made_at=MADE_AT, **words)
    files = files_of(out)
    return done, files, check_bundle(files)


def test_a_journal_is_laid_out_in_tiles_up_to_its_head(ledger: Ledger, tmp_path: Path) -> None:
    ledger.run(call("more", "order-3"), lambda effect: 1)
    ledger.seal()
    done, files, events = bundled(ledger, tmp_path / "bundle")
    assert list(events) == list(range(done.size))
    assert any(name.startswith("heads/") for name in files)
    manifest = json.loads(files["manifest.json"])
    assert (manifest["kind"], manifest["run"], manifest["withheld"]) == ("journal", None, 0)
    assert manifest["format"] == "indelible/bundle/v1"
    assert parse_note(files["checkpoint"]).signed_by(parse_vkey(manifest["keys"][0]))
    assert files["verify.py"] == standalone_verifier()
    assert files["README.txt"].count(b"\n") == 5


def test_a_long_journal_fills_tiles_of_two_levels(sqlite_url: str, tmp_path: Path) -> None:
    with Ledger.open(sqlite_url, seal=False) as ledger:
        for number in range(400):
            ledger.run(call("count", f"run-{number % 7}", n=number), lambda effect: None, side_effect="none")
        ledger.seal()
        done, files, _ = bundled(ledger, tmp_path / "bundle.zip")
        assert done.size > 3 * 256
        assert {"tile/1/000.p/3", "tile/0/002", "tile/entries/002"} <= set(files)
        done, files, events = bundled(ledger, tmp_path / "run", selection=OfRun("run-3"))
        assert [event["seq"] for event in events.values()] == list(range(done.events))
        assert done.events == 114


def test_a_run_is_proven_by_receipts_and_discloses_nobody_else(ledger: Ledger, tmp_path: Path) -> None:
    done, files, events = bundled(ledger, tmp_path / "run.zip", selection=OfRun("order-2"))
    assert {event["run"] for event in events.values()} == {"order-2"}
    assert [event["seq"] for event in events.values()] == list(range(8))
    assert not any(name.startswith(("tile/", "heads/")) for name in files)
    assert (done.kind, done.events, json.loads(files["manifest.json"])["run"]) == ("run", 8, "order-2")
    own = {(line["index"]) for line in lines_of(files["payloads.ndjson"])}
    assert own <= set(events)


def test_a_period_by_place_has_no_gap(ledger: Ledger, tmp_path: Path) -> None:
    done, _, events = bundled(ledger, tmp_path / "part", selection=Between(3, 9))
    assert list(events) == list(range(3, 10))
    assert (done.kind, done.first, done.last) == ("period", 3, 9)
    _, _, events = bundled(ledger, tmp_path / "rest", selection=Between(3))
    assert list(events) == list(range(3, done.size))
    for first, last in ((5, 4), (0, done.size), (done.size, None)):
        with pytest.raises(BadCall, match="are not there"):
            bundled(ledger, tmp_path / "none", selection=Between(first, last))


@pytest.mark.parametrize("left_out", range(4, 9))
def test_a_period_that_lacks_an_entry_with_all_that_is_of_it_is_tampered_with(
    ledger: Ledger, tmp_path: Path, left_out: int
) -> None:
    _, files, _ = bundled(ledger, tmp_path / "part", selection=Between(3, 9))
    assert verify(tmp_path / "part", [key_of(ledger)]).verdict == "verified"
    (tmp_path / "part" / "receipts" / f"{left_out}.tlog-proof").unlink()
    values = [line for line in lines_of(files["payloads.ndjson"]) if line["index"] != left_out]
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in values)
    (tmp_path / "part" / "payloads.ndjson").write_text(text)
    report = verify(tmp_path / "part", [key_of(ledger)])
    assert report.verdict == "tampered"
    assert report.flaw is not None
    assert report.flaw.index == left_out


def test_a_period_by_time_leaves_nothing_out_between_its_ends(ledger: Ledger, tmp_path: Path) -> None:
    _, _, events = bundled(ledger, tmp_path / "all")
    times = {
        index: datetime.fromisoformat(event["at"]) for index, event in events.items() if event["run"] != JOURNAL_RUN
    }
    places = sorted(times)
    since, until = times[places[4]], times[places[9]]
    _, _, found = bundled(ledger, tmp_path / "part", selection=During(since, until))
    wanted = [index for index, at in times.items() if since <= at < until]
    assert list(found) == list(range(min(wanted), max(wanted) + 1))
    _, _, found = bundled(ledger, tmp_path / "from", selection=During(since))
    assert min(found) == places[4]
    with pytest.raises(BadCall, match="no event of this journal lies in that time"):
        bundled(ledger, tmp_path / "none", selection=During(until=MADE_AT - timedelta(days=9999)))


def test_what_a_journal_tells_about_itself_says_nothing_about_a_period(sqlite_url: str, tmp_path: Path) -> None:
    with Ledger.open(sqlite_url, seal=False) as ledger:
        stamp = Stamp(at=MADE_AT + timedelta(days=9999), actor=SYSTEM, salts=bytes(96))
        told = Record(
            tenant=ledger.tenant, run_id=JOURNAL_RUN, stamp=stamp, event_type="journal_heartbeat", facts=facts_json({})
        )
        store_of(ledger).apply(ledger.tenant, [told], [None])
        work(ledger)
        ledger.seal()
        with pytest.raises(BadCall, match="no event of this journal lies in that time"):
            bundled(ledger, tmp_path / "none", selection=During(MADE_AT + timedelta(days=9998)))


def test_all_older_heads_are_there_however_many(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundle, "_HEADS_AT_ONCE", 2)
    with Ledger.open(sqlite_url, seal=False) as ledger:
        sizes = []
        for number in range(6):
            ledger.run(call("count", "run", n=number), lambda effect: None, side_effect="none")
            note = ledger.seal()
            assert note is not None
            sizes.append(parse_head(note.text).size)
        _, files, _ = bundled(ledger, tmp_path / "bundle")
    assert {name for name in files if name.startswith("heads/")} == {f"heads/{size}" for size in sizes[:-1]}


def test_withheld_payloads_are_counted_and_nowhere(ledger: Ledger, tmp_path: Path) -> None:
    decide(ledger)
    drive(ledger)
    ledger.seal()
    whole, _, _ = bundled(ledger, tmp_path / "whole")
    done, files, _ = bundled(ledger, tmp_path / "none", disclosure=Disclosure(is_without_payloads=True))
    assert files["payloads.ndjson"] == b""
    assert whole.withheld == 2, "the keys at the place of an edited call, which has no arguments beside them"
    assert (done.payloads, done.withheld) == (0, whole.payloads + 2)
    done, files, _ = bundled(ledger, tmp_path / "some", disclosure=Disclosure(frozenset({"result"})))
    assert {line["field"] for line in lines_of(files["payloads.ndjson"])} == set(PAYLOAD_FIELDS) - {
        *("result", "late_result", "late_error", "again", "subject", "credential", "person", "provider", "stop")
    }
    assert done.payloads + done.withheld == whole.payloads + 2
    assert json.loads(files["manifest.json"])["withheld"] == done.withheld


def test_what_is_made_of_arguments_goes_with_them(ledger: Ledger, tmp_path: Path) -> None:
    """A key is a hash of them, an approval and a grant hold one, a verdict and charges may hold amounts."""
    decide(ledger)
    ledger.seal()
    _, files, _ = bundled(ledger, tmp_path / "some", disclosure=Disclosure(frozenset({"args"})))
    made = {"args", "key", "approval", "grant", "policy", "charges"}
    assert made.isdisjoint(line["field"] for line in lines_of(files["payloads.ndjson"]))
    values = [b64decode(line["value"]) for line in lines_of(files["payloads.ndjson"])]
    assert not [one.key for one in ledger.effects() for value in values if one.key.encode() in value]
    assert verify(tmp_path / "some", [key_of(ledger)]).verdict == "verified"


def test_what_people_decided_is_judged_again_in_every_part_of_a_journal(ledger: Ledger, tmp_path: Path) -> None:
    decide(ledger)
    ledger.seal()
    size = bundled(ledger, tmp_path / "whole")[0].size
    chosen: dict[str, Selection | None] = {"run": OfRun("order-7"), "period": Between(size - 25, size - 8), "all": None}
    for name, selection in chosen.items():
        bundled(ledger, tmp_path / name, selection=selection)
        report = verify(tmp_path / name, [key_of(ledger)], deep=True)
        assert report.verdict == "verified", report.why
        assert report.counts.approvals or name == "period"
    for first in range(0, size - 1, 5):
        bundled(ledger, tmp_path / f"from-{first}", selection=Between(first))
        assert verify(tmp_path / f"from-{first}", [key_of(ledger)]).verdict == "verified"


def test_a_misspelt_field_withholds_nothing_and_so_is_refused() -> None:
    with pytest.raises(BadCall, match="no event commits to arg; fields are: args"):
        Disclosure(frozenset({"arg"}))


def test_the_same_journal_gives_the_same_zip(ledger: Ledger, tmp_path: Path) -> None:
    for selection in (None, OfRun("order-1")):
        for name in ("one.zip", "two.zip"):
            export(store_of(ledger), ledger.tenant, tmp_path / name, selection=selection, made_at=MADE_AT, force=True)
        assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()
        with zipfile.ZipFile(tmp_path / "one.zip") as archive:
            assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        export(store_of(ledger), ledger.tenant, tmp_path / "folder", selection=selection, made_at=MADE_AT, force=True)
        assert files_of(tmp_path / "folder") == files_of(tmp_path / "one.zip")


def test_events_own_signatures_travel_along(sqlite_url: str, tmp_path: Path) -> None:
    with Ledger.open(sqlite_url, sign_events=True) as ledger:
        work(ledger)
        ledger.seal()
        _, files, events = bundled(ledger, tmp_path / "bundle")
        export(store_of(ledger), ledger.tenant, tmp_path / "journal.ndjson", form="ndjson")
    signatures = {line["index"]: b64decode(line["signature"]) for line in lines_of(files["signatures.ndjson"])}
    (registered,) = [event for event in events.values() if event["type"] == "writer_registered"]
    key = Ed25519PublicKey.from_public_bytes(b64decode(registered["facts"]["key"]))
    assert len(signatures) >= 20
    bodies = bodies_in(files)
    for index, signature in signatures.items():
        key.verify(signature, signed_message(event_hash(bodies[index])))
    *lines, _ = lines_of((tmp_path / "journal.ndjson").read_bytes())
    assert {line["index"]: b64decode(line["signature"]) for line in lines if "signature" in line} == signatures


def test_ndjson_holds_bodies_byte_for_byte_and_ends_with_the_head(ledger: Ledger, tmp_path: Path) -> None:
    export(store_of(ledger), ledger.tenant, tmp_path / "journal.ndjson", form="ndjson")
    *lines, last = (tmp_path / "journal.ndjson").read_bytes().splitlines()
    head = parse_head(parse_note(json.loads(last)["head"]).text)
    bodies = [line[len(b'{"event":') : line.index(b',"index":')] for line in lines]
    assert root_of([bytes.fromhex(event_hash(body)) for body in bodies]) == head.root
    for index, line in enumerate(map(json.loads, lines)):
        assert line["index"] == index
        assert list(line.get("payloads", {})) == sorted(line["event"]["commits"])


def test_without_a_signed_head_the_next_step_is_named(store_url: str, tmp_path: Path) -> None:
    migrate(store_url)
    with Ledger.open(store_url, seal=False) as ledger:
        work(ledger)
        with pytest.raises(JournalError, match="run: indelible journal seal"):
            export(store_of(ledger), ledger.tenant, tmp_path / "bundle")
    assert not list(tmp_path.glob("*bundle*"))


def test_events_past_the_head_are_counted_not_shown(store_url: str, tmp_path: Path) -> None:
    migrate(store_url)
    with Ledger.open(store_url, seal=False) as ledger:
        work(ledger)
        ledger.seal()
        ledger.run(call("more", "order-2"), lambda effect: 1)
        done, _, events = bundled(ledger, tmp_path / "run", selection=OfRun("order-2"))
        assert (done.not_covered, len(events)) == (2, 8)
        store_of(ledger).journal.integrate(ledger.tenant, 100)
        done, _, events = bundled(ledger, tmp_path / "again", selection=OfRun("order-2"))
        assert (done.not_covered, len(events)) == (2, 8)
        done, _, events = bundled(ledger, tmp_path / "whole")
        assert len(events) == done.size < store_of(ledger).journal.tree(ledger.tenant).size


def test_a_run_that_is_not_there_is_no_empty_bundle(ledger: Ledger, tmp_path: Path) -> None:
    with pytest.raises(BadCall, match="has no run 'nope'"):
        export(store_of(ledger), ledger.tenant, tmp_path / "bundle", selection=OfRun("nope"))
    assert not list(tmp_path.glob("*bundle*"))


def test_a_proving_form_leaves_nothing_out(ledger: Ledger, tmp_path: Path) -> None:
    query = parse("type:tool_call_late", "events")
    for form in ("bundle", "html"):
        with pytest.raises(BadCall, match="leaves nothing out"):
            export(store_of(ledger), ledger.tenant, tmp_path / "x", form=form, query=query)  # type: ignore[arg-type]


def test_a_missing_entry_is_named(sqlite_url: str, tmp_path: Path) -> None:

    with Ledger.open(sqlite_url) as ledger:
        work(ledger)
        ledger.seal()
        index = store_of(ledger).journal.index_of(ledger.tenant, "order-1", 3)
        connection = open_file(sqlite_url)
        connection.execute("DELETE FROM indelible_events WHERE run_id = 'order-1' AND seq = 3")
        connection.close()
        with pytest.raises(JournalError, match=f"entry {index} of the journal is gone"):
            export(store_of(ledger), ledger.tenant, tmp_path / "bundle")
        connection = open_file(sqlite_url)
        connection.execute("DELETE FROM indelible_tiles")
        connection.close()
        with pytest.raises(JournalError, match="restore a backup"):
            export(store_of(ledger), ledger.tenant, tmp_path / "bundle", selection=OfRun("order-2"))
    assert not list(tmp_path.glob("*bundle*"))


@pytest.mark.parametrize("selection", [None, OfRun("order-1"), Between(3, 9)], ids=["journal", "run", "period"])
@pytest.mark.parametrize("disclosure", [Disclosure(), Disclosure(frozenset({"args"}))], ids=["all", "without args"])
def test_both_verifiers_accept_it_and_refuse_a_flipped_byte(
    sqlite_url: str, tmp_path: Path, selection: Selection | None, disclosure: Disclosure
) -> None:
    with Ledger.open(sqlite_url, sign_events=True) as ledger:
        work(ledger)
        ledger.seal()
        done, files, _ = bundled(ledger, tmp_path / "bundle", selection=selection, disclosure=disclosure)
        key = key_of(ledger)
    assert (done.withheld > 0) == bool(disclosure.withheld)
    assert verified(tmp_path / "bundle", key).returncode == 0
    assert verify(tmp_path / "bundle", [key], deep=True).verdict == "verified"
    name = next(name for name in files if name.startswith(("receipts/", "tile/entries/")))
    content = bytearray(files[name])
    content[len(content) // 2] ^= 1
    (tmp_path / "bundle" / name).write_bytes(content)
    assert verified(tmp_path / "bundle", key).returncode == 1
    assert verify(tmp_path / "bundle", [key]).verdict == "tampered"


def verified(bundle: Path, key: str) -> subprocess.CompletedProcess[str]:
    """Runs the verifier that came with a bundle, as its README says."""
    command = [sys.executable, "verify.py", "--key", key, "."]
    return subprocess.run(command, cwd=bundle, capture_output=True, text=True, timeout=200, check=False)


def test_progress_is_told(ledger: Ledger, tmp_path: Path) -> None:
    told: list[tuple[int, int | None]] = []
    done = export(store_of(ledger), ledger.tenant, tmp_path / "b", progress=lambda *so_far: told.append(so_far))
    assert told[-1] == (done.size, done.size)
