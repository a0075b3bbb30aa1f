"""The agent: enriches leads, pays for the data and mails the result. Started by story.py, each time in the same way.

It asks nowhere how far it got: what was done replays from the record.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from world import World

from indelible import ActiveRun, CheckpointRule, Ledger, current_effect
from indelible.errors import ApprovalPending, EffectInDoubt, RunDriven

RUN = "leads-november"
SHORT = timedelta(seconds=1)  # so that the story need not wait half a minute for a dead process's leases
PATIENCE = timedelta(seconds=2)  # how long it waits for a person, or for another process that may still be paying


def say(text: str) -> None:
    """Tells the story what happens here."""
    print(text, flush=True)


class Agent:
    """Does the work; `dies_paying` makes it hang when the money is gone, until somebody kills it."""

    def __init__(self, ledger: Ledger, folder: Path, *, dies_paying: bool) -> None:
        self.ledger = ledger
        self.folder = folder
        self.dies_paying = dies_paying
        self.world = world = World(folder)
        self.done = 0
        self.leads = ledger.tool("crm.leads", side_effect="read")(world.leads)
        self.enrich = ledger.tool("data.enrich", side_effect="external_mutation")(world.enrich)
        asks: dict[str, Any] = {"approval": "required", "wait": PATIENCE, "lease": SHORT}
        self.pay = ledger.tool("bank.pay", side_effect="payment", **asks)(self.paying)
        self.write = ledger.tool("files.write", side_effect="write")(self.writing)
        self.send = ledger.tool("mail.send", side_effect="notification")(world.send)

    def paying(self, invoice: str, cents: int) -> dict[str, Any]:
        """Pays, once a person has said yes to exactly this."""
        effect = current_effect()
        assert effect is not None
        paid = self.world.pay(invoice, cents, effect.key)
        if self.dies_paying:
            say("the money is gone, and nobody knows yet")
            signal.pause()
        return paid

    def writing(self, name: str, rows: list[dict[str, Any]]) -> None:
        """Writes a file, and puts on the record that the run made it."""
        content = json.dumps(rows).encode()
        (self.folder / name).write_bytes(content)
        self.run.artifact(name, content=content, metadata={"rows": len(rows)})

    def write_mail(self, request: Mapping[str, Any]) -> str:
        """Stands for a model, which never says the same twice."""
        return f"{request['count']} leads are ready. (Written by process {os.getpid()}.)"

    def state(self) -> dict[str, Any]:
        """Is what the agent itself wants to know when it is resumed."""
        return {"enriched": self.done}

    def begin(self) -> ActiveRun:
        """Starts the run, or takes it over as soon as nobody drives it."""
        rule = CheckpointRule(before_risky=True)
        if self.ledger.get_run(RUN) is None:
            intent = "Enrich leads and mail the result"
            return self.ledger.start_run(
                RUN, agent="lead-agent", intent=intent, checkpointing=rule, lease=SHORT, state=self.state
            )
        while True:
            try:
                return self.ledger.resume_run(RUN, lease=SHORT, state=self.state)
            except RunDriven:
                time.sleep(0.1)

    def work(self) -> None:
        """Does everything, from the beginning."""
        with self.begin() as self.run:
            self.tell_what_is_known()
            text = self.run.model_turn("writer", {"prompt": "write the mail", "count": 3}, self.write_mail)
            known = []
            for lead in self.leads():
                known.append(self.enrich(lead))
                self.done += 1
            self.write("leads.json", known)
            paid = self.pay("inv-7", 25_000)
            self.send("sales@example.com", text)
            say(f"done: {len(known)} leads, paid as {paid['id']}, mailed")

    def tell_what_is_known(self) -> None:
        """Says what a resumed run starts with."""
        context = self.run.context
        if context is None:
            say("starts the run")
            return
        say(
            f"resumes it: {len(context.receipts)} receipts, {len(context.unresolved_approvals)} open approvals, "
            f"{len(context.in_doubt)} in doubt, state {context.state}; next: {context.suggested_next_action}"
        )


def main(folder: Path, *, dies_paying: bool) -> None:
    """Works as far as it can."""
    ledger = Ledger.open(f"sqlite:///{folder / 'ledger.db'}", keys=folder / "keys", actor="lead-agent")
    with ledger:
        try:
            Agent(ledger, folder, dies_paying=dies_paying).work()
        except ApprovalPending as waiting:
            say(f"waits for a person: {waiting.approval.tool} ({waiting.approval.id})")
        except EffectInDoubt as doubt:
            say(f"stops, for nobody knows whether {doubt.effect.tool} happened: {doubt.effect.id}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), dies_paying="--dies-paying" in sys.argv)
