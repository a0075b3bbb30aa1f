"""`indelible serve --demo`: a ledger with a story in it, tokens for everybody, and nothing left of it afterwards.

The story is that of `indelible demo`: real processes, one of them killed inside its refund and one while it asks. What
they leave behind is not tidied up, so that there is something to decide.
"""

from __future__ import annotations

import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from indelible import Actor, Ledger, RunningEffect, ToolCall
from indelible.cli.behind import store_behind
from indelible.cli.demo.agent import APPROVED
from indelible.cli.demo.proofs import INSIDE
from indelible.cli.demo.story import Process
from indelible.core.scopes import Scope
from indelible.server.routes.operation import Demo
from indelible.server.signin.credentials import Credentials
from indelible.server.signin.people import People

DONE = "order-200"
REFUND: dict[str, Any] = {"tool": "stripe.refund", "key": ["charge"], "args": {"charge": "ch_2002", "amount": 4200}}
WHO: dict[str, Scope] = {"demo-agent": "agent", "ana": "approver", "olga": "auditor", "root": "admin"}
_PERSON = Actor("whoever started the demo")


@contextmanager
def demo_ledger(base: str) -> Iterator[tuple[str, Path, Demo]]:
    """Makes the ledger, says how to look at it, and gives its address, its keys and what to try; removes all of it."""
    folder = Path(tempfile.mkdtemp(prefix="indelible-demo-"))
    try:
        url, keys = f"sqlite:///{folder / 'ledger.db'}", folder / "keys"
        print("Making a ledger with a story in it …", flush=True)
        play(folder, url, keys)
        with Ledger.open(url, keys=keys, seal=False) as ledger:
            tokens = _give_tokens(ledger)
            (approval,) = ledger.approvals(status="pending")
            _, link = People(store_behind(ledger), ledger.tenant).invite("you", ("admin",), by=_PERSON)
            print(_words(base, tokens, approval.id, approval.digest, str(link)), flush=True)
        yield url, keys, Demo(repeat={**REFUND, "run_id": DONE}, tamper=_tampering(folder / "ledger.db"))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def play(folder: Path, url: str, keys: Path) -> None:
    """Plays the story: a run that went well, one whose process died inside the refund, one that asks a person."""
    dying = [Process("die_inside", folder, INSIDE), Process("die_asking", folder, APPROVED)]
    for process in dying:
        process.killed_where_it_hangs()
    with Ledger.open(url, keys=keys) as ledger:
        _work(ledger)
        while not ledger.effects(status="in_doubt"):
            time.sleep(0.05)  # the lease of the killed one lasts for a third of a second
            ledger.reconcile()
        ledger.seal()


def _work(ledger: Ledger) -> None:
    """Does one run from beginning to end, and asks for its refund again: it is replayed."""
    refund = ToolCall(**REFUND, run_id=DONE)
    with ledger.start_run(DONE, agent="billing", intent="refund order 200") as run:
        ledger.run(ToolCall(tool="crm.lookup", args={"order": "200"}, run_id=DONE), _looked_up, side_effect="read")
        for _ in range(2):
            ledger.run(refund, _refunded, side_effect="payment")
        run.record("artifact_created", {"path": "receipt-200.pdf"}, step="receipt")
        run.checkpoint(state={"step": "mail"})
        mail = ToolCall(tool="email.send", args={"to": "ada@example.com"}, run_id=DONE)
        ledger.run(mail, lambda effect: {"sent": True}, side_effect="notification")


def _tampering(file: Path) -> str:
    """Gives a command that changes the record behind the ledger's back: a refund becomes a charge."""
    change = "UPDATE indelible_events SET body = CAST(replace(CAST(body AS TEXT), ?, ?) AS BLOB) WHERE run_id = ?"
    values = ("stripe.refund", "stripe.charge", DONE)
    program = (
        f"import apsw; file = apsw.Connection({str(file)!r}); file.set_busy_timeout(10_000); "
        f"file.execute({change!r}, {values!r})"
    )
    return f'{shlex.quote(sys.executable)} -c "{program}"'  # it holds single quotes alone, and nothing a shell reads


def _looked_up(effect: RunningEffect) -> dict[str, str]:
    return {"charge": "ch_2002", "mail": "ada@example.com"}


def _refunded(effect: RunningEffect) -> dict[str, object]:
    return {"id": f"re_{effect.key[:8]}", "amount": effect.args["amount"]}


def _give_tokens(ledger: Ledger) -> dict[str, str]:
    credentials = Credentials(store_behind(ledger), ledger.tenant)
    return {name: str(credentials.give(name, (scope,), by=_PERSON)[1]) for name, scope in WHO.items()}


def _words(base: str, tokens: dict[str, str], approval_id: str, digest: str, link: str) -> str:
    listed = "\n".join(f"export {WHO[name].upper()}={token}   # {name}" for name, token in tokens.items())
    return f"""
Serving a demo at {base}; stop with Ctrl-C, then nothing of it is left.

In the browser, once:          {base}/signin#{link}

{listed}

Who am I:                      curl -H "Authorization: Bearer $AGENT" {base}/v1/me
A run from end to end:         curl -H "Authorization: Bearer $AUDITOR" {base}/v1/runs/{DONE}
What may have happened:        curl -H "Authorization: Bearer $AUDITOR" "{base}/v1/effects?status=in_doubt"
What waits for a person:       curl -H "Authorization: Bearer $APPROVER" {base}/v1/approvals/{approval_id}
Let it run:                    curl -H "Authorization: Bearer $APPROVER" --json \\
    '{{"decision": "approve", "digest": "{digest}"}}' {base}/v1/approvals/{approval_id}/decisions
The signed head:               curl -H "Authorization: Bearer $AUDITOR" {base}/v1/journal/head
All there is:                  {base}/docs
"""
