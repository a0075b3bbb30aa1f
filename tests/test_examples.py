"""The examples run as they are told to."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[1] / "examples"


def run(name: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, EXAMPLES / name], cwd=folder, capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_there_is_a_test_for_every_example() -> None:
    tests = "".join(path.read_text() for path in Path(__file__).parent.rglob("test_*.py"))
    assert [path.name for path in EXAMPLES.glob("*.py") if f'"{path.name}"' not in tests] == []


def test_a_card_is_charged_once(tmp_path: Path) -> None:
    first, second = run("charge_once.py", tmp_path), run("charge_once.py", tmp_path)
    assert first.count("charging 1000 usd") == 1
    assert "charging" not in second
    assert "succeeded after 1 attempt" in second


def test_the_provider_is_asked_instead_of_charging_again(tmp_path: Path) -> None:
    said = run("ask_the_provider.py", tmp_path)
    assert "result: {'amount': 1000, 'id': 'ch_1'}" in said
    assert [line.split()[1] for line in said.splitlines()[1:]] == [
        "tool_call_started",
        "tool_call_in_doubt",
        "tool_call_finished",
    ]
    assert "by probe of charge" in said
