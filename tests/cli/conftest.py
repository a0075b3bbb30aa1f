"""What the command-line tests share: the command itself, and a ledger with one effect in every state."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from indelible import Claim, Claimed, Ledger, MayHaveHappened, Refused, RunningEffect, Succeeded, ToolCall, migrate
from indelible.cli.root import root
from indelible.errors import LeaseLost


@dataclass
class Said:
    """What a command printed and how it ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def error(self) -> Any:
        return json.loads(self.err)["error"]


Cli = Callable[..., Said]


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cli:
    """Runs `indelible …` in an empty folder; an exception that the command does not foresee fails the test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("INDELIBLE_URL", raising=False)

    def run(*words: str, code: int | None = 0) -> Said:
        result = CliRunner().invoke(root, list(words), catch_exceptions=False)
        said = Said(result.exit_code, result.stdout, result.stderr)
        if code is not None:
            assert said.code == code, said
        return said

    return run


@pytest.fixture
def ledger_url(store_url: str, monkeypatch: pytest.MonkeyPatch, cli: Cli) -> str:
    """An empty ledger of each kind, which $INDELIBLE_URL names."""
    migrate(store_url)
    monkeypatch.setenv("INDELIBLE_URL", store_url)
    return store_url


SLY = "Ada \u202eadA \x1b[31m\u200b\U000e0041"  # bidi, a terminal's escape, zero width, an invisible tag


def call(tool: str, run_id: str = "order-1", **args: Any) -> ToolCall:
    return ToolCall(tool=tool, args=args, run_id=run_id)


def lose(effect: RunningEffect) -> None:
    raise MayHaveHappened("the line went dead")


def fail(effect: RunningEffect) -> None:
    raise Refused("no money")


@pytest.fixture
def ids(ledger_url: str) -> dict[str, str]:
    """Effects in many states, by the name of their tool."""
    with Ledger.open(ledger_url) as ledger:
        ledger.run(call("crm.lookup", name=SLY), lambda effect: {"note": SLY}, side_effect="read")
        with pytest.raises(MayHaveHappened):
            ledger.run(call("stripe.refund", charge="ch_1", amount=4200), lose, side_effect="payment")
        with pytest.raises(Refused, match="no money"):
            ledger.run(call("mail.send", to="ada"), fail, side_effect="notification")
        ledger.begin(call("wire.transfer", amount=10), approval="required", side_effect="payment")
        _come_too_late(ledger)
        return {effect.tool: effect.id for effect in ledger.effects()}


def _come_too_late(ledger: Ledger) -> None:
    """Let the first of two attempts report, after the second one was left in doubt."""
    first, _ = _claim(ledger), _claim(ledger)
    while [effect.status for effect in ledger.reconcile() if effect.tool == "late.tool"] != ["in_doubt"]:
        pass
    with pytest.raises(LeaseLost):
        ledger.commit(first, Succeeded({"was": "late"}))


def _claim(ledger: Ledger) -> Claim:
    while True:
        lease = timedelta(milliseconds=1)
        begun = ledger.begin(call("late.tool", "order-2", x=1), on_crash="retry", lease=lease)
        if isinstance(begun, Claimed):
            return begun.claim
