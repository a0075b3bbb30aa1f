"""Fault 76: commands that cannot be undone ask nothing, show no progress, and take 1m for a minute."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from indelible import Actor, Ledger
from indelible.cli.behind import store_behind
from indelible.server.signin.people import People
from tests.cli.conftest import Cli, call, cli, ledger_url
from tests.journal.test_set_back import restored

__all__ = ["cli", "ledger_url", "restored"]
ROOT = Path(__file__).parents[2]
PATIENCE = 120.0


@pytest.fixture
def paid(ledger_url: str) -> str:
    """Two calls that ended, with three payloads each, of which arguments and result are looked for here."""
    with Ledger.open(ledger_url) as ledger:
        for number in range(2):
            ledger.run(call("pay", number=number), lambda effect: "paid")
    return ledger_url


def payloads(url: str) -> int:
    with Ledger.open(url, seal=False) as ledger:
        recorded = store_behind(ledger).payloads("default", "order-1", range(100))
        return sum(one.field in ("args", "result") for one in recorded)


IRREVERSIBLE = [
    ("prune", "--before", "0d"),
    ("erase", "--run", "order-1", "--reason", "asked by order 1"),
]


@pytest.mark.parametrize("words", IRREVERSIBLE, ids=["prune", "erase"])
def test_76_without_a_terminal_yes_is_wanted_and_the_command_is_given(
    cli: Cli, paid: str, words: tuple[str, ...]
) -> None:
    refused = cli(*words, code=2)
    assert payloads(paid) == 4, "nothing went"
    again = re.search(r"run: (indelible .*--yes)", refused.err)
    assert again is not None, refused.err
    assert "6 payloads of 1 run" in refused.err
    cli(*shlex.split(again[1])[1:])
    assert payloads(paid) == 0, "what it said to run does it"


@pytest.mark.parametrize("words", IRREVERSIBLE, ids=["prune", "erase"])
def test_76_a_rehearsal_changes_nothing_and_asks_nothing(cli: Cli, paid: str, words: tuple[str, ...]) -> None:
    assert cli(*words, "--dry-run", "--json").json["erased"] == 6
    assert payloads(paid) == 4


def test_76_json_asks_for_yes_as_well(cli: Cli, paid: str) -> None:
    refused = cli("prune", "--before", "0d", "--json", code=2)
    assert json.loads(refused.err)["error"]["exit_code"] == 2
    assert payloads(paid) == 4


def typed(words: tuple[str, ...], answer: str) -> tuple[int, str]:
    """Run a command at a real terminal, answer its question, and return its exit code and what the terminal showed."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "indelible.cli", *words]
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=ROOT, env=os.environ)
    os.close(theirs)
    shown, has_answered = b"", False
    while select.select([ours], [], [], PATIENCE)[0]:
        try:
            more = os.read(ours, 4096)
        except OSError:  # the other side has closed the terminal
            break
        if not more:
            break
        shown += more
        if b"[y/N]" in shown and not has_answered:
            has_answered = True
            os.write(ours, answer.encode() + b"\n")
    os.close(ours)
    return process.wait(PATIENCE), shown.decode(errors="replace")


@pytest.mark.parametrize(("answer", "left"), [("n", 4), ("y", 0)])
def test_76_at_a_terminal_it_asks_with_the_count_and_shows_a_bar(paid: str, answer: str, left: int) -> None:
    code, shown = typed(("prune", "--before", "0d", "--url", paid), answer)
    assert "6 payloads of 1 run" in shown
    assert (code, payloads(paid)) == (0 if answer == "y" else 2, left)
    assert ("erasing" in shown) == (answer == "y"), "a bar while it works"


@pytest.mark.parametrize(
    "words", [("prune", "--before", "1m", "--yes"), ("worker", "--once", "--retain", "3m"), ("serve", "--retain", "6m")]
)
def test_76_a_month_that_would_be_a_minute_is_refused(cli: Cli, paid: str, words: tuple[str, ...]) -> None:
    said = cli(*words, code=2).err
    number = int(re.findall(r"(\d)m", " ".join(words))[0])
    assert f"{number * 30}d" in said
    assert f"{number}min" in said
    assert payloads(paid) == 4


def test_76_minutes_can_be_written(cli: Cli, paid: str) -> None:
    assert cli("prune", "--before", "1min", "--dry-run", "--json").json["erased"] == 0


def test_76_a_lost_journal_is_declared_lost_only_on_somebodys_word(cli: Cli, restored: dict[str, Any]) -> None:
    words = ("journal", "continue", "--url", restored["url"])
    os.environ["INDELIBLE_KEYS"], before = str(restored["keys"]), os.environ["INDELIBLE_KEYS"]
    try:
        rehearsed = cli(*words, "--dry-run", "--json").json
        assert rehearsed["lost"]["size"] > rehearsed["size"] > 0
        refused = cli(*words, code=2)
        assert f"{rehearsed['lost']['size']} events" in refused.err
        assert "--yes" in refused.err
        assert cli(*words, "--yes", "--json").json["lost"] == rehearsed["lost"]
    finally:
        os.environ["INDELIBLE_KEYS"] = before


def test_76_revoking_a_person_or_a_key_wants_yes(cli: Cli, ledger_url: str) -> None:
    with Ledger.open(ledger_url) as ledger:
        ledger.run(call("pay"), lambda effect: "paid")
        People(store_behind(ledger), "default").invite("ana", ("approver",), by=Actor("root"))
    cli("keys", "create")
    old = cli("keys", "list", "--json").json["keys"][0]["id"]
    cli("people", "revoke", "ana", code=2)
    assert not cli("people", "list", "--json").json["people"][0]["is_revoked"]
    cli("people", "revoke", "ana", "--yes")
    assert cli("people", "list", "--json").json["people"][0]["is_revoked"]
    cli("keys", "rotate")
    cli("keys", "revoke", old, code=2)
    assert {key["status"] for key in cli("keys", "list", "--json").json["keys"]} == {"current", "retired"}
    cli("keys", "revoke", old, "--yes")
    assert "revoked" in {key["status"] for key in cli("keys", "list", "--json").json["keys"]}
