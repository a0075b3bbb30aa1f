"""`indelible journal` and `indelible worker`: the journal, seen and sealed from a terminal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from indelible import Ledger
from indelible.core.journal.notes import parse_head, parse_note
from tests.cli.conftest import Cli, call
from tests.waiting import eventually


@pytest.fixture
def unsealed(ledger_url: str) -> str:
    """A ledger with two events that nobody has sealed."""
    with Ledger.open(ledger_url, seal=False) as ledger:
        ledger.run(call("crm.lookup", name="ada"), lambda effect: "found")
    return ledger_url


def test_a_journal_that_waits_says_so_and_how_to_seal_it(cli: Cli, unsealed: str) -> None:
    said = cli("journal", "status").out
    assert "nothing yet" in said
    assert "2 events" in said
    assert "indelible journal seal" in said
    assert cli("journal", "status", "--json").json == {"entries": 0, "signed": 0, "waiting": 2, "head": None}


def test_sealing_signs_a_head_over_everything(cli: Cli, unsealed: str) -> None:
    assert "3 events under a signed head" in cli("journal", "seal").out  # the third names the key
    told = cli("journal", "status", "--json").json
    assert (told["entries"], told["signed"], told["waiting"]) == (3, 3, 0)
    note = parse_note(cli("journal", "head").out)
    assert parse_head(note.text).size == 3
    assert str(note) == told["head"]["note"]


def test_sealing_a_ledger_without_events_seals_nothing_but_its_key(cli: Cli, ledger_url: str) -> None:
    assert "1 event under a signed head" in cli("journal", "seal").out


def test_a_head_can_be_kept_in_a_file(cli: Cli, unsealed: str, tmp_path: Path) -> None:
    assert "nothing is signed yet" in cli("journal", "head", code=2).err
    cli("journal", "seal")
    cli("journal", "head", "--out", "head.txt")
    assert parse_head(parse_note((tmp_path / "head.txt").read_bytes()).text).size == 3


def test_consistency_between_two_sizes_is_proven(cli: Cli, unsealed: str) -> None:
    cli("journal", "seal")
    assert cli("journal", "consistency", "2", "3", "--json").json["new"] == 3
    assert len(cli("journal", "consistency", "2").out.split()) == 1
    assert "has 3 events" in cli("journal", "consistency", "2", "4", code=2).err


def test_going_on_where_nothing_was_lost_is_refused(cli: Cli, unsealed: str) -> None:
    assert "nothing is lost" in cli("journal", "continue", "--yes", code=1).err


def test_a_worker_seals_once_and_ends(cli: Cli, unsealed: str) -> None:
    assert "default: 3 events under a signed head" in cli("worker", "--once").out
    with Ledger.open(unsealed, tenant="other", seal=False) as ledger:
        ledger.run(call("crm.lookup", name="bob"), lambda effect: "found")
    assert cli("worker", "--once", "--all-tenants", "--json").json["sealed"] == {"default": 3, "other": 3}


def test_a_worker_keeps_sealing_until_it_is_told_to_stop(unsealed: str) -> None:
    command = [str(Path(sys.executable).parent / "indelible"), "worker", "--every", "20", "--url", unsealed]
    with (
        subprocess.Popen(command, env=os.environ, stderr=subprocess.PIPE, text=True) as worker,
        Ledger.open(unsealed, seal=False) as ledger,
    ):
        try:
            for number in range(3):
                ledger.run(call("crm.lookup", name=f"ada {number}"), lambda effect: "found")
                eventually(lambda n=number: (head := ledger.tree_head()) is not None and head.size == 5 + 2 * n)
            worker.send_signal(signal.SIGTERM)
            _, said = worker.communicate(timeout=200)
        finally:
            worker.kill()
    assert worker.returncode == 0
    assert said.rstrip().endswith("stopped")


@pytest.mark.usefixtures("without_writer_keys")
def test_a_worker_says_once_what_keeps_it_from_sealing(
    cli: Cli, unsealed: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    keys = tmp_path / "open to all"
    keys.mkdir(mode=0o755)
    monkeypatch.setenv("INDELIBLE_KEYS", str(keys))
    cli("keys", "create")
    for folder in keys.iterdir():
        folder.chmod(0o755)
    said = cli("worker", "--once", code=1)
    assert "chmod 700" in said.err
