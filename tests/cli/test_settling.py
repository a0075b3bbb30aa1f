"""`indelible effects settle --where`, `--file` and `effects reconcile`: many effects, shown before they are settled."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from indelible import Effect, Failed, Ledger, MayHaveHappened, Succeeded
from tests.cli.conftest import Cli, call, lose
from tests.cli.terminals import terminal

Doubts = Callable[..., list[Effect]]


@pytest.fixture
def doubts(ledger_url: str) -> Doubts:
    """Leaves effects in doubt, and gives them, oldest first."""

    def leave(count: int, tool: str = "stripe.charge") -> list[Effect]:
        with Ledger.open(ledger_url) as ledger:
            for amount in range(count):
                with suppress(MayHaveHappened):
                    ledger.run(call(tool, f"order-{amount % 7}", amount=amount), lose, side_effect="payment")
            found = ledger.effects(status="in_doubt", tool=tool, limit=count)
        assert len(found) == count
        return list(reversed(found))

    return leave


def statuses(url: str) -> list[str]:
    with Ledger.open(url) as ledger:
        return [effect.status for effect in reversed(ledger.effects(limit=2000))]


def table(path: Path, header: str, *rows: tuple[Any, ...]) -> str:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header.split(","))
        writer.writerows(rows)
    return str(path)


# A file


def test_a_file_settles_a_thousand_effects_in_seconds(
    cli: Cli, doubts: Doubts, ledger_url: str, tmp_path: Path
) -> None:
    effects = doubts(1000)
    rows = [(one.id, "succeeded", one.args["amount"], f"row {one.args['amount']}") for one in effects]
    path = table(tmp_path / "settled.csv", "id,as,value,evidence", *rows)
    began = time.monotonic()
    said = cli("effects", "settle", "--file", path, "--json").json
    assert time.monotonic() - began < 20
    assert (said["settled"], said["already_settled"], said["problems"]) == (1000, 0, 0)
    again = cli("effects", "settle", "--file", path, "--json").json
    assert (again["settled"], again["already_settled"], again["problems"]) == (0, 1000, 0)
    with Ledger.open(ledger_url) as ledger:
        assert {one.id: one.outcome for one in ledger.effects(limit=1000)} == {
            one.id: Succeeded(one.args["amount"]) for one in effects
        }


def test_every_fault_of_a_file_is_told_with_its_line_and_nothing_is_settled(
    cli: Cli, doubts: Doubts, ledger_url: str, tmp_path: Path
) -> None:
    first, second = doubts(2)
    path = table(
        tmp_path / "settled.csv",
        "id,as,value,evidence",
        (first.id, "succeeded", "{no json", "x"),
        (second.id, "failed", "", "x"),
        (second.id, "failed", "", "x"),
        ("eff_none", "failed", "", "x"),
    )
    said = cli("effects", "settle", "--file", path, "--json", code=2).json
    assert [(one["line"], one["result"]) for one in said["results"]] == [
        (2, "bad_row"),
        (3, "would_settle"),
        (4, "duplicate"),
        (5, "unknown_effect"),
    ]
    assert statuses(ledger_url) == ["in_doubt", "in_doubt"]
    assert [f"line {number}:" in cli("effects", "settle", "--file", path, code=2).err for number in (2, 4, 5)]
    said = cli("effects", "settle", "--file", path, "--skip-bad", "--json", code=1).json
    assert (said["settled"], said["problems"]) == (1, 3)
    assert statuses(ledger_url) == ["in_doubt", "failed"]


def test_a_dry_run_of_a_file_changes_nothing(cli: Cli, doubts: Doubts, ledger_url: str, tmp_path: Path) -> None:
    (effect,) = doubts(1)
    path = tmp_path / "settled.ndjson"
    path.write_text(json.dumps({"id": effect.id, "as": "failed", "evidence": "x"}))
    said = cli("effects", "settle", "--file", str(path), "--dry-run", "--json").json
    assert ([one["result"] for one in said["results"]], said["dry_run"]) == (["would_settle"], True)
    assert effect.id in cli("effects", "settle", "--file", str(path), "--dry-run").out
    assert statuses(ledger_url) == ["in_doubt"]
    cli("effects", "settle", "--file", str(path))
    assert statuses(ledger_url) == ["failed"]


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("eff_1", "--file", "rows"),
        ("--file", "rows", "--as", "failed"),
        ("--file", "rows", "--evidence", "x"),
        ("--file", "rows", "--yes"),
        ("--where", "tool:x", "--as", "failed"),
        ("--where", "tool:x", "--evidence", "x"),
        ("--where", "tool:x", "--as", "failed", "--evidence", "x", "--skip-bad"),
        ("eff_1", "--as", "failed", "--evidence", "x", "--dry-run"),
        ("eff_1", "--as", "failed"),
        ("--where", "nonsense:1", "--as", "failed", "--evidence", "x"),
        ("--where", "", "--as", "failed", "--evidence", "x"),
        ("--file", "not-there.csv"),
    ],
)
def test_words_that_do_not_go_together_are_refused(
    cli: Cli, ledger_url: str, tmp_path: Path, words: tuple[str, ...]
) -> None:
    (tmp_path / "rows").write_text("id,as,evidence\n")
    assert cli("effects", "settle", *words, code=2).err.startswith("indelible: ")


# A filter


def test_a_filter_settles_nothing_unless_it_is_confirmed(cli: Cli, doubts: Doubts, ledger_url: str) -> None:
    doubts(2)
    doubts(1, "mail.send")
    words = ("effects", "settle", "--where", "tool:stripe.* since:24h", "--as", "failed", "--evidence", "not there")
    said = cli(*words, "--dry-run", "--json").json
    assert [one["effect"]["tool"] for one in said["results"]] == ["stripe.charge"] * 2
    cli(*words, code=2)  # nobody sits at a terminal
    cli(*words, "--json", code=2)
    assert statuses(ledger_url) == ["in_doubt"] * 3
    assert cli(*words, "--yes", "--json").json["settled"] == 2
    assert statuses(ledger_url) == ["failed", "failed", "in_doubt"]
    with Ledger.open(ledger_url) as ledger:
        assert ledger.effects(status="failed")[0].outcome == Failed("not there", "SettledAsFailed")
    assert cli(*words, "--yes", "--json").json["results"] == []


def test_a_filter_says_when_more_fits_than_was_settled(cli: Cli, doubts: Doubts) -> None:
    doubts(3)
    words = ("--where", "tool:*", "--as", "succeeded", "--value", "1", "--evidence", "x", "--limit", "2", "--yes")
    said = cli("effects", "settle", *words, "--json").json
    assert (said["settled"], said["has_more"]) == (2, True)


def test_at_a_terminal_what_was_shown_is_settled_and_what_came_meanwhile_is_not(
    doubts: Doubts, ledger_url: str
) -> None:
    (shown,) = doubts(1)
    words = ["effects", "settle", "--where", "tool:stripe.*", "--as", "failed", "--evidence", "x"]
    with terminal(*words, columns=200) as screen:
        screen.see(shown.id)
        with Ledger.open(ledger_url) as ledger, suppress(MayHaveHappened):
            ledger.run(call("stripe.charge", "order-9", amount=9), lose, side_effect="payment")
        screen.type("y\n")
        assert screen.ended() == 0
    assert statuses(ledger_url) == ["failed", "in_doubt"]


# Probes

_SHOP = """
import os
from indelible import AsyncLedger, Failed, Ledger, NothingHappened, Succeeded

ANSWERS = {0: Succeeded({"id": "ch_0"}), 1: Failed("declined"), 2: None, 3: NothingHappened("never came")}

def probe(effect):
    answer = ANSWERS.get(effect.args["amount"], ValueError("dead"))
    if isinstance(answer, Exception):
        raise answer
    return answer

async def later(effect):
    return probe(effect)

def make():
    ledger = Ledger.open(os.environ["INDELIBLE_URL"])
    ledger.tool("stripe.charge", reconcile=probe)(lambda amount: None)
    return ledger

def make_async():
    ledger = AsyncLedger.open(os.environ["INDELIBLE_URL"])
    ledger.tool("stripe.charge", reconcile=later)(lambda amount: None)
    return ledger

other = 5
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "doubtful_shop.py").write_text(_SHOP)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "doubtful_shop", raising=False)
    return "doubtful_shop"


@pytest.mark.parametrize("name", ["make", "make_async"])
def test_probes_of_a_program_are_asked_and_each_answer_is_told(
    cli: Cli, doubts: Doubts, ledger_url: str, shop: str, name: str
) -> None:
    effects = doubts(5)
    said = cli("effects", "reconcile", "--app", f"{shop}:{name}", "--json", code=1).json
    assert [(one["result"], one["effect"]["status"]) for one in said["effects"]] == [
        ("settled", "succeeded"),
        ("settled", "failed"),
        ("in_doubt", "in_doubt"),
        ("ready", "ready"),
        ("probe_raised", "in_doubt"),
    ]
    assert said["left_in_doubt"] == 2
    said = cli("effects", "reconcile", effects[2].id, "--app", f"{shop}:{name}", code=1)
    assert [one.id in said.out for one in effects] == [False, False, True, False, False]


def test_no_doubt_left_is_told_by_the_exit_code(cli: Cli, doubts: Doubts, ledger_url: str, shop: str) -> None:
    doubts(2)
    app = ("effects", "reconcile", "--app", f"{shop}:make")
    assert cli(*app, "--dry-run", "--json", code=1).json["left_in_doubt"] == 2
    assert cli(*app, "--tool", "mail.*").code == 0
    assert statuses(ledger_url) == ["in_doubt", "in_doubt"]
    assert cli(*app, "--tool", "stripe.*", "--json").json["left_in_doubt"] == 0
    assert statuses(ledger_url) == ["succeeded", "failed"]


@pytest.mark.parametrize("app", ["", "shop", "no_such_module:ledger", "doubtful_shop:none", "doubtful_shop:other"])
def test_a_program_without_a_ledger_is_refused(cli: Cli, ledger_url: str, shop: str, app: str) -> None:
    cli("effects", "reconcile", "--app", app, code=2)


def test_a_program_is_needed_and_says_where_its_ledger_is(cli: Cli, ledger_url: str, shop: str) -> None:
    cli("effects", "reconcile", code=2)
    cli("effects", "reconcile", "--app", f"{shop}:make", "--url", ledger_url, code=2)


def test_the_command_itself_asks_probes(doubts: Doubts, ledger_url: str, shop: str, tmp_path: Path) -> None:
    doubts(1)
    words = [sys.executable, "-m", "indelible", "effects", "reconcile", "--app", f"{shop}:make", "--json"]
    done = subprocess.run(words, cwd=tmp_path, env=os.environ, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["left_in_doubt"] == 0
