"""The demo's agent: a script in a process of its own, made to be killed. Run by `indelible demo`, not by hand.

It looks up a customer, refunds a charge and sends a mail. Its outside world is a file that it only appends to, as a
payment provider's books would be; a second file notes each time one of its handlers is entered. It tells what it sees
as lines of JSON on its output.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from indelible import Effect, IndelibleError, Ledger, Outcome, RunningEffect, Succeeded, ToolCall

CHARGE, AMOUNT, OTHER_AMOUNT = "ch_1001", 4200, 9900
APPROVED, SWAPPED = "order-789", "order-790"  # the runs whose refund a person has to approve
LONG = timedelta(minutes=1)
SHORT_LEASE = timedelta(seconds=0.3)  # so that the demo need not wait half a minute for the killed process's lease


class Agent:
    """Does one run of the scripted work, as far as it gets."""

    def __init__(
        self, folder: Path, run_id: str, *, is_to_die: bool = False, has_probe: bool = False, must_ask: bool = False
    ) -> None:
        self.folder, self.run_id = folder, run_id
        self.is_to_die = is_to_die
        lease = {"lease": SHORT_LEASE} if is_to_die else {}
        probe = {"reconcile": self.look_at_provider} if has_probe else {}
        asks = {"approval": "required", "wait": False} if must_ask else {}
        self.refund_options: dict[str, Any] = {"side_effect": "payment", **lease, **probe, **asks}
        self.ledger = Ledger.open(f"sqlite:///{folder / 'ledger.db'}", keys=folder / "keys")

    def call(self, tool: str, key: list[str] | None = None, **args: Any) -> ToolCall:
        """Gives a tool call of this run."""
        return ToolCall(tool=tool, args=args, key=key, run_id=self.run_id)

    def refund_call(self, amount: int = AMOUNT) -> ToolCall:
        """Gives the call that refunds the charge; the charge alone is its identity, whatever the amount."""
        return self.call("stripe.refund", key=["charge"], charge=CHARGE, amount=amount)

    # Handlers: what would talk to the outside world.

    def lookup(self, effect: RunningEffect) -> Any:
        """Is the CRM."""
        self._note(effect)
        return {"charge": CHARGE, "mail": "ada@example.com"}

    def refund(self, effect: RunningEffect) -> Any:
        """Is the payment provider; where the process is to die, it hangs after the money has moved."""
        self._note(effect)
        booked = {"id": f"re_{effect.key[:8]}", "amount": effect.args["amount"]}
        append(self.folder / "world.jsonl", {"kind": "refund", "run": self.run_id, "key": effect.key, **booked})
        if self.is_to_die:
            hang("inside the handler")
        return booked

    def mail(self, effect: RunningEffect) -> Any:
        """Is the mail server."""
        self._note(effect)
        append(self.folder / "world.jsonl", {"kind": "mail", "run": self.run_id, "to": effect.args["to"]})
        return {"sent": True}

    def look_at_provider(self, effect: Effect) -> Outcome | None:
        """Is the probe: asks the provider's books for this key; no entry means that it cannot tell."""
        for entry in read_lines(self.folder / "world.jsonl"):
            if entry.get("key") == effect.key:
                return Succeeded({"id": entry["id"], "amount": entry["amount"]})
        return None

    def _note(self, effect: RunningEffect) -> None:
        noted = {"tool": effect.tool, "run": self.run_id, "attempt": effect.attempt, "pid": os.getpid()}
        append(self.folder / "entered.jsonl", noted)

    # What the process is asked to do.

    def work(self) -> None:
        """Does the whole run; stops at the first step that the ledger refuses."""
        customer = self.step(
            "crm.lookup", lambda: self.ledger.run(self.call("crm.lookup", order="123"), self.lookup, side_effect="read")
        )
        refund = self.step(
            "stripe.refund", lambda: self.ledger.run(self.refund_call(), self.refund, **self.refund_options)
        )
        if refund is not None:
            call = self.call("email.send", to=customer["mail"], refund=refund["id"])
            self.step("email.send", lambda: self.ledger.run(call, self.mail, side_effect="notification"))

    def change_its_mind(self) -> None:
        """Asks for the same refund with another amount."""
        call = self.refund_call(OTHER_AMOUNT)
        self.step("changed", lambda: self.ledger.run(call, self.refund, **self.refund_options))

    def claim_and_hang(self) -> None:
        """Claims the refund and never gets to its handler."""
        self.ledger.begin(self.refund_call(), **self.refund_options)
        hang("before the handler")

    def ask_and_wait(self) -> None:
        """Asks for the refund and waits for a person, in a thread of its own; tells what it asks."""
        options = {**self.refund_options, "wait": LONG}
        waiting = threading.Thread(target=self.ledger.run, args=(self.refund_call(), self.refund), kwargs=options)
        waiting.daemon = True
        waiting.start()
        while not (asked := self.ledger.approvals(run_id=self.run_id, status="pending")) and waiting.is_alive():
            waiting.join(0.005)
        for approval in asked:
            tell({"run": self.run_id, "step": "asks", "approval": approval.id, "digest": approval.digest})

    def refund_as_approved(self) -> None:
        """Calls the refund that was asked about, and nothing else."""
        self.step("stripe.refund", lambda: self.ledger.run(self.refund_call(), self.refund, **self.refund_options))

    def step(self, name: str, do: Callable[[], Any]) -> Any:
        """Does one step and tells what came of it."""
        try:
            value = do()
        except IndelibleError as error:
            tell({"run": self.run_id, "step": name, "error": type(error).__name__, "pid": os.getpid()})
            return None
        tell({"run": self.run_id, "step": name, "value": value, "pid": os.getpid()})
        return value


def append(path: Path, entry: dict[str, Any]) -> None:
    """Appends one line, in one write, so that a kill leaves whole lines."""
    line = json.dumps(entry).encode() + b"\n"
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, line)
    finally:
        os.close(file)


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Reads what was appended."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def tell(report: dict[str, Any]) -> None:
    """Reports to the demo."""
    print(json.dumps(report), flush=True)


def hang(where: str) -> None:
    """Says where it is and waits to be killed; ends by itself only when the demo is gone."""
    tell({"hangs": where, "pid": os.getpid()})
    sys.stdin.read()


def main(mode: str, folder: str, *run_ids: str) -> None:
    """Plays one process of the demo."""
    agents = [
        Agent(
            Path(folder),
            run_id,
            is_to_die=mode in ("die_inside", "die_before"),
            has_probe=mode == "probe",
            must_ask=run_id in (APPROVED, SWAPPED),
        )
        for run_id in run_ids
    ]
    for agent in agents:
        play(agent, mode)
    if mode == "die_asking":
        hang("waiting for a person")
    for agent in agents:
        agent.ledger.close()


def play(agent: Agent, mode: str) -> None:
    """Does what an agent does in this process."""
    if mode == "die_asking":
        agent.ask_and_wait()
    elif mode == "die_before":
        agent.claim_and_hang()
    elif agent.run_id == SWAPPED:
        agent.change_its_mind()
    elif agent.run_id == APPROVED:
        agent.refund_as_approved()
    else:
        agent.work()
        if mode == "ask":
            agent.change_its_mind()


if __name__ == "__main__":
    main(*sys.argv[1:])
