"""What the command line shows of a question is what is recorded, whole, and a vote counts for that alone.

The numbers are those of the faults that were found.
"""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from typing import Any

import pytest

from indelible import Approval, Ledger
from indelible.cli.approvals.watch import Following
from indelible.cli.approvals.watch_screen import ShowPage
from indelible.cli.approvals.watch_terminal import _Terminal
from indelible.cli.opening import Where
from tests.cli.asking import approval_at, ask, refund
from tests.cli.conftest import Cli
from tests.cli.terminals import terminal

LONG_AGO = float("-inf")


def edit(ledger: Ledger, asked: Approval) -> None:
    ledger.edit_approval(asked.id, {"charge": "ch_1", "amount": 1}, digest=asked.digest, by="eve")


def printed_commands(out: str, verb: str) -> list[str]:
    """Return the words of the command that `show` prints for this verb."""
    (line,) = [line for line in out.splitlines() if line.strip().startswith(f"indelible approvals {verb} ")]
    return shlex.split(line)[1:]


@pytest.mark.parametrize("verb", ["approve", "deny"])
def test_84_the_commands_that_show_prints_count_for_what_it_showed(cli: Cli, ledger_url: str, verb: str) -> None:
    asked = ask(ledger_url)
    words = printed_commands(cli("approvals", "show", asked.id, "--by", "ana").out, verb)
    with Ledger.open(ledger_url) as ledger:
        edit(ledger, asked)
    said = cli(*words, "--json", code=1)
    assert said.error["type"] == "VoteRefused"
    assert approval_at(ledger_url, asked).status == "pending"


@pytest.mark.parametrize("keys", [["a", "y"], ["d", "n", "o", "enter"]])
def test_84_watch_votes_on_what_is_on_its_screen(ledger_url: str, cli: Cli, keys: list[str]) -> None:
    asked = ask(ledger_url)
    with Ledger.open(ledger_url) as ledger, Following(ledger, None, None) as following:
        terminal = _Terminal(ledger, following, Where(url=None, tenant="default", is_json=False), "ana")
        terminal.screen = replace(terminal.screen, columns=80, height=200)
        terminal._do(ShowPage(asked.id))
        for key in keys[:-1]:
            terminal.screen = replace(terminal.screen, asked_at=LONG_AGO, pressed_at=LONG_AGO)
            terminal.press(key)
        edit(ledger, asked)  # before the screen is drawn again
        terminal.screen = replace(terminal.screen, asked_at=LONG_AGO, pressed_at=LONG_AGO)
        terminal.press(keys[-1])
    found = approval_at(ledger_url, asked)
    assert (found.status, found.votes) == ("pending", ())


def test_84_a_page_at_80_columns_marks_each_line_that_goes_on(cli: Cli, ledger_url: str) -> None:
    fake = "paid by bob" + " " * 49 + "\uff02amount\uff02: 1,"
    asked = ask(ledger_url, refund(note=fake))
    with terminal("approvals", "show", asked.id, columns=80) as screen:
        assert screen.ended() == 0
        lines = screen.screen.replace("\r", "").split("\n")
    question = lines[: lines.index("votes")]
    assert max(map(len, question)) <= 80
    assert not [line for line in question if line.strip().startswith("\uff02amount")], "it is marked in the margin"
    start = question.index("args")
    joined = "".join(line[2:] if line.startswith("↳ ") else f"\n{line}" for line in question[start + 1 :])
    assert json.loads(joined.partition("\n\nlook closely")[0]) == {"charge": "ch_1", "amount": 4200, "note": fake}
    assert "args.note: holds what looks like a quotation mark or brace" in " ".join(question)


def test_84_programs_are_told_the_same(cli: Cli, ledger_url: str) -> None:
    args: dict[str, Any] = {"to": "p\u0430ypal\u202e", "lines": ["x" * 300] * 20}
    asked = ask(ledger_url, refund(**args))
    told = cli("approvals", "show", asked.id, "--json").json
    assert json.loads(told["text"]) == told["args"] == {"charge": "ch_1", "amount": 4200, **args}
    assert (told["digest"], told["why_not"]) == (asked.digest, None)
    cli("approvals", "deny", asked.id, "-m", "no", "--by", "ana")
    told = cli("approvals", "show", asked.id, "--json").json
    assert (told["digest"], told["why_not"]) == (None, "it is denied")
