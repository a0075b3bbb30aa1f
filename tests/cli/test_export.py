"""`indelible export` and `indelible receipt`."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from indelible import Ledger
from indelible.core.journal.receipts import parse_receipt
from tests.cli.conftest import Cli, call
from tests.journal.exported import check_bundle, files_of


def test_a_bundle_is_sealed_written_and_told_how_to_verify(cli: Cli, ids: dict[str, str], tmp_path: Path) -> None:
    said = cli("export", "bundle", "--out", "b.zip").out
    events = check_bundle(files_of(tmp_path / "b.zip"))
    assert f"b.zip: {len(events)} events, " in said
    assert f"under the signed head of size {len(events)}." in said
    assert "indelible verify b.zip --key PUBLIC_KEY" in said
    assert {"order-1", "order-2"} < {event["run"] for event in events.values()}


def test_a_run_for_programs(cli: Cli, ids: dict[str, str], tmp_path: Path) -> None:
    told = cli("export", "bundle", "--out", "run", "--run", "order-2", "--json").json
    assert told == {
        "path": "run",
        "form": "bundle",
        "kind": "run",
        "origin": json.loads((tmp_path / "run/manifest.json").read_bytes())["origin"],
        "size": told["size"],
        "first": told["first"],
        "last": told["last"],
        "events": 4,
        "payloads": told["payloads"],
        "withheld": 0,
        "erased_since": 0,
        "not_covered": 0,
    }


@pytest.mark.parametrize("form", ["html", "ndjson", "csv", "parquet"])
def test_every_form_is_one_file_for_its_owner(cli: Cli, ids: dict[str, str], tmp_path: Path, form: str) -> None:
    said = cli("export", form, "--out", "out").out
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o600
    assert "events" in said
    assert "is there already" in cli("export", form, "--out", "out", code=2).err
    cli("export", form, "--out", "out", "--force")


def test_parts_by_place_and_time(cli: Cli, ids: dict[str, str]) -> None:
    assert cli("export", "csv", "--out", "a", "--from", "2", "--to", "4", "--json").json["events"] == 3
    assert cli("export", "csv", "--out", "b", "--since", "2020-01-01", "--json").json["kind"] == "period"
    said = cli("export", "csv", "--out", "c", "--until", "2020-01-01T00:00:00Z", code=2).err
    assert "no event of this journal lies in that time" in said
    assert "choose one" in cli("export", "csv", "--out", "c", "--run", "x", "--from", "1", code=2).err


def test_values_are_withheld(cli: Cli, ids: dict[str, str], tmp_path: Path) -> None:
    said = cli("export", "csv", "--out", "a", "--withhold", "args", "--withhold", "error").out
    assert " withheld, " in said
    assert "ch_1" not in (tmp_path / "a").read_text()
    told = cli("export", "ndjson", "--out", "b", "--without-payloads", "--json").json
    assert (told["payloads"], told["withheld"] > 0) == (0, True)
    assert "--withhold" in cli("export", "csv", "--out", "c", "--withhold", "arg", code=2).err


def test_a_filter_is_for_forms_that_prove_nothing(cli: Cli, ids: dict[str, str]) -> None:
    words = ("--filter", "type=tool_call_in_doubt")
    assert cli("export", "csv", "--out", "a", *words, "--json").json["events"] == 2
    assert "leaves nothing out" in cli("export", "bundle", "--out", "b", *words, code=2).err
    both = ("--filter", "type:tool_call_*", "--filter", "-type:*_finished tool:late.tool since:1h")
    assert cli("export", "csv", "--out", "b", *both, "--json").json["events"] == 4
    assert "no word for events" in cli("export", "csv", "--out", "c", "--filter", "colour:red", code=2).err
    assert "no event was selected" in cli("export", "csv", "--out", "c", "--filter", "type=typo", code=2).err


def test_without_sealing_only_what_is_signed_is_exported(cli: Cli, ledger_url: str) -> None:
    with Ledger.open(ledger_url, seal=False) as ledger:
        ledger.run(call("note", "order-9"), lambda effect: 1)
    assert "run: indelible journal seal" in cli("export", "csv", "--out", "a", "--no-seal", code=1).err
    with Ledger.open(ledger_url, seal=False) as ledger:
        ledger.seal()
        ledger.run(call("more", "order-9"), lambda effect: 1)
    said = cli("export", "csv", "--out", "a", "--no-seal", "--run", "order-9").out
    assert "a: 2 events, " in said
    assert "Not in it: 2 newer events of this run" in said
    assert "a: 4 events, " in cli("export", "csv", "--out", "a", "--force", "--run", "order-9").out


def test_a_receipt_leads_from_one_event_to_the_head(cli: Cli, ids: dict[str, str], tmp_path: Path) -> None:
    said = cli("receipt", "order-1", "2", "--out", "r.tlog-proof").out
    receipt = parse_receipt((tmp_path / "r.tlog-proof").read_bytes())
    assert receipt.extra is not None
    assert receipt.covers(receipt.extra)
    assert (json.loads(receipt.extra)["run"], json.loads(receipt.extra)["seq"]) == ("order-1", 2)
    assert f"r.tlog-proof: entry {receipt.index} of " in said
    assert stat.S_IMODE((tmp_path / "r.tlog-proof").stat().st_mode) == 0o600
    assert "is there already" in cli("receipt", "order-1", "2", "--out", "r.tlog-proof", code=2).err
    told = cli("receipt", "order-1", "2", "--out", "r.tlog-proof", "--force", "--json").json
    assert told["index"] == receipt.index
    assert "has no event 99" in cli("receipt", "order-1", "99", "--out", "x", code=2).err
