"""A stage for a page: the folder and the ledger that its reader finds, and the pieces that such ledgers are made of."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from indelible import Approval, Ledger, MayHaveHappened, Refused, RunningEffect, ToolCall
from tests.docs.pages import blocks
from tests.docs.terminal import Terminal


@dataclass(slots=True, kw_only=True)
class Stage:
    """Is set before somebody follows a page, and struck afterwards."""

    page: Path
    terminal: Terminal
    closing: ExitStack
    postgres: Callable[[], str]
    told: list[str] = field(default_factory=list)
    """What the reader got by another way, such as a key on paper."""
    instead: dict[str, str] = field(default_factory=dict)
    """What stands for addresses and the like that are made up."""
    anew: Callable[[str], str] = str
    """Sets the stage for one command, on pages that show several ways out of one place."""
    codes: dict[str, int] = field(default_factory=dict)
    """How commands end of which the page says that they do not end well."""
    says: dict[str, str] = field(default_factory=dict)
    """What is in the answers of some, though the page does not show it."""

    @property
    def folder(self) -> Path:
        """Is where the reader is."""
        return self.terminal.folder

    @property
    def url(self) -> str:
        """Names the ledger that commands find there."""
        return f"sqlite:///{self.folder}/.indelible/ledger.db"

    def open(self) -> Ledger:
        """Opens that ledger."""
        return Ledger.open(self.url, keys=self.terminal.env["INDELIBLE_KEYS"])

    def save(self, name: str, made_up: str = "", real: str = "") -> None:
        """Saves the file that the page shows under this name, with what is real in the place of what is made up."""
        (text,) = (block.text for block in blocks(self.page) if block.text.startswith(f"# {name}\n"))
        assert made_up in text, made_up
        text = text.replace(made_up, real)
        (self.folder / name).write_text(text, encoding="utf-8")

    def meant(self, command: str) -> str:
        """Gives what is typed for a command of the page."""
        for made_up, real in self.instead.items():
            command = command.replace(made_up, real)
        return self.anew(command)


def call(tool: str, run: str = "order-123", **args: Any) -> ToolCall:
    """Gives a call of a run that pages speak of."""
    return ToolCall(run_id=run, tool=tool, args=args)


def lost(effect: RunningEffect) -> None:
    """Never tells what became of it."""
    raise MayHaveHappened("the line went dead")


def declined(effect: RunningEffect) -> None:
    """Does not go well."""
    raise Refused("card declined")


def in_doubt(ledger: Ledger, number: int = 1) -> str:
    """Leaves an effect in doubt, and gives its id."""
    with suppress(MayHaveHappened):
        ledger.run(call("stripe.charge", amount=1000 + number), lost, side_effect="payment")
    return ledger.effects(status="in_doubt")[0].id


def question(ledger: Ledger, number: int = 1) -> Approval:
    """Asks people something, and gives what they are asked."""
    begun = ledger.begin(call("refund", "order-124", charge=f"ch_{number}", amount=4200), approval="required")
    return begun.approval  # type: ignore[union-attr]


def done(ledger: Ledger, number: int = 1, **words: Any) -> None:
    """Does something that goes well."""
    ledger.run(call("stripe.refund", amount=number, customer="customer-7"), lambda effect: {"id": "re_1"}, **words)
