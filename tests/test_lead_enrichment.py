"""An agent that is killed while it pays is resumed by another process: 1 payment, 1 mail, and the record verifies."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from indelible import Ledger

STORY = Path(__file__).parents[1] / "examples" / "lead_enrichment" / "story.py"
RUN = "leads-november"


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The story, told once for all tests: its folder, and what it said."""
    folder = tmp_path_factory.mktemp("story") / "place"
    done = subprocess.run([sys.executable, STORY, folder], capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return folder, done.stdout


def books(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "world.jsonl").read_text().splitlines()]


def test_everything_happened_once_although_four_processes_did_the_work(told: tuple[Path, str]) -> None:
    folder, said = told
    assert Counter(entry["kind"] for entry in books(folder)) == {"list": 1, "enrichment": 3, "payment": 1, "mail": 1}
    agents = {line.split("agent ")[1].split(":")[0] for line in said.splitlines() if "   agent " in line}
    assert len(agents) == 4
    assert "killed by signal 9" in said


def test_the_story_says_what_each_process_found(told: tuple[Path, str]) -> None:
    _, said = told
    for part in (
        "waits for a person: bank.pay",
        "ada sees bank.pay with {'cents': 25000, 'invoice': 'inv-7'}, and says yes",
        "1 in doubt, state {'enriched': 3}; next: settle_effects_in_doubt",
        "stops, for nobody knows whether bank.pay happened",
        "the bank has pay_inv-7 over 25000 cents",
        "done: 3 leads, paid as pay_inv-7, mailed",
        "1 × payment, 1 × mail",
        "VERIFIED",
    ):
        assert part in said, part


def test_receipts_are_complete_and_the_mail_is_the_one_the_first_process_wrote(told: tuple[Path, str]) -> None:
    folder, said = told
    seen: list[Any] = []
    with Ledger.open(f"sqlite:///{folder / 'ledger.db'}", keys=folder / "keys") as ledger:
        story = ledger.run_story(RUN, each=seen.append)
        assert ledger.verify_run(RUN).is_valid
    done = [event.tool for event in seen if event.type == "tool_call_finished"]
    assert sorted(done) == sorted(
        ["model.turn", "crm.leads", *["data.enrich"] * 3, "files.write", "bank.pay", "mail.send"]
    )
    types = Counter(event.type for event in seen)
    assert types["run_resumed"] == 3
    assert types["interruption_detected"] >= 1
    assert [one.uri for one in story.artifacts] == ["leads.json"]
    first = said.split("agent ", 1)[1].split(":")[0].split()[-1]
    (mail,) = [entry for entry in books(folder) if entry["kind"] == "mail"]
    assert f"Written by process {first}." in mail["text"], "a resumed run gets the recorded answer of its model"
