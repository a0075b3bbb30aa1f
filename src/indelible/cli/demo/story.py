"""`indelible demo`: kills an agent in the middle of a refund and measures what the ledger makes of it.

Acting is here, judging in `proofs`, the agent in `agent`. Every claim that is printed is computed from what
was seen: the outside world's file, exit codes, what each process reported, the ledger's rows.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import apsw

from indelible import Ledger
from indelible.cli.behind import store_behind
from indelible.cli.demo.agent import AMOUNT, APPROVED, OTHER_AMOUNT, SWAPPED, read_lines
from indelible.cli.demo.page import COMMAND
from indelible.cli.demo.proofs import BEFORE, INSIDE, Death, Proof, Seen, judge
from indelible.cli.quiet import unlogged
from indelible.core.effects.calls import DEFAULT_TENANT
from indelible.core.events import event_hash
from indelible.core.journal.chain import Broken, Intact, altered_payloads, check_chain
from indelible.core.journal.notes import PublicKey, log_name, parse_head, parse_note, sign_note
from indelible.core.verifying.findings import Report
from indelible.engine.authenticating import read_rows
from indelible.errors import VoteRefused
from indelible.journal.evidence.live import LiveEvidence
from indelible.journal.evidence.verification import verify
from indelible.journal.keys.holders import HeldKey
from indelible.journal.keys.ring import KeyRing
from indelible.stores import open_store

PERSON = "a person"
PATIENCE = 20.0  # seconds that one process may take; on an idle machine it takes a fifth of one

IN_CHECKOUT = ".venv/bin/indelible"  # where `./run` put it; nothing outside of the folder was touched
NEXT = """
Next, three lines above a function of your own, and a name for the work it belongs to:

    from indelible import Ledger
    ledger = Ledger.open()                     # .indelible/ledger.db
    @ledger.tool(side_effect="payment")
    def refund(charge: str, amount: int): ...
    with ledger.in_run("order-123"):
        refund("ch_1", 500)

Is all well on this machine:      {indelible} doctor
What did my agent do:             {indelible} effects list
What waits for me to decide:      {indelible} approvals list
Look around in a demo's ledger:   {indelible} demo --keep"""


def show_demo(*, is_json: bool, keep: bool = False) -> int:
    """Runs the demo, prints its proofs, and gives 0 only if all of them held."""
    folder = Path(tempfile.mkdtemp(prefix="indelible-demo-"))
    began = time.monotonic()
    try:
        if not is_json:
            print("A scripted agent (no LLM, no network) looks up a customer, refunds 42.00 and sends a mail.")
            print("It is killed in the middle, three times, and started again.\n", flush=True)
        with unlogged():  # the key goes with the folder; which process makes it is a matter of who seals first
            proofs = judge(perform(folder, Seen()))
        seconds = time.monotonic() - began
        if is_json:
            _say_json(proofs, seconds, folder if keep else None)
        else:
            _say(proofs, seconds, folder if keep else None)
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
    return 0 if all(proof.held for proof in proofs) else 1


def _say(proofs: list[Proof], seconds: float, kept: Path | None) -> None:
    for proof in proofs:
        print(f"  {'✓' if proof.held else '✗ DID NOT HOLD:'} {proof.says}")
    held = sum(proof.held for proof in proofs)
    print(f"\n{held} of {len(proofs)} claims held, measured in {seconds:.1f} s.")
    if held < len(proofs):
        print(
            "Please report this: it is a fault of Indelible or of this machine. The measurements: indelible demo --json"
        )
    elif kept is None:
        print(NEXT.format(indelible=IN_CHECKOUT if COMMAND in os.environ else "indelible"))
    else:
        url = f"sqlite:///{kept / 'ledger.db'}"
        print(f"\nLook around, then remove {kept}:\n\n    indelible effects list --url {url}")
        print(f"    indelible events {INSIDE} --url {url}")
        print(f"    INDELIBLE_KEYS={kept / 'keys'} indelible keys export-public --url {url}")
        print(f"    indelible verify --url {url} --key THAT_KEY")


def _say_json(proofs: list[Proof], seconds: float, kept: Path | None) -> None:
    listed = [
        {"name": proof.name, "held": proof.held, "says": proof.says, "measured": proof.measured} for proof in proofs
    ]
    content = {"ok": all(p.held for p in proofs), "seconds": round(seconds, 3), "proofs": listed}
    print(json.dumps(content if kept is None else {**content, "folder": str(kept)}, indent=2))


def perform(folder: Path, seen: Seen) -> Seen:
    """Plays the whole story in this folder and notes what is seen of it, as far as it gets."""
    try:
        _play(folder, seen)
    except Exception as error:  # whatever it is, the claims that it leaves unmeasured did not hold
        seen.trouble = f"{type(error).__name__}: {error}"
    return seen


def _play(folder: Path, seen: Seen) -> None:
    # All at once: the leases run out while the others' do.
    dying = [
        Process("die_inside", folder, INSIDE),
        Process("die_before", folder, BEFORE),
        Process("die_asking", folder, APPROVED, SWAPPED),
    ]
    seen.inside, seen.before, seen.asking = (process.killed_where_it_hangs() for process in dying)
    seen.questions = dying[-1].reports
    with _open(folder) as ledger:
        seen.after_kill = {effect.run_id: effect for effect in ledger.effects(tool="stripe.refund")}
        seen.world_after_kill = read_lines(folder / "world.jsonl")
        _approve(ledger, seen)
    seen.asked = Process("ask", folder, INSIDE, BEFORE, SWAPPED, APPROVED).finished()
    seen.world_after_asking = read_lines(folder / "world.jsonl")
    _approve_the_other(folder, seen)
    seen.probed = Process("probe", folder, INSIDE, BEFORE, APPROVED).finished()
    seen.world_after_probe = read_lines(folder / "world.jsonl")
    _allow_again(folder)
    seen.again = Process("again", folder, INSIDE, BEFORE, SWAPPED, APPROVED).finished()
    seen.world, seen.entered = read_lines(folder / "world.jsonl"), read_lines(folder / "entered.jsonl")
    _read_record(folder, seen)
    _tamper(folder, seen)


def _open(folder: Path, name: str = "ledger.db", *, seal: bool = True) -> Ledger:
    return Ledger.open(f"sqlite:///{folder / name}", keys=folder / "keys", seal=seal)


def _approve(ledger: Ledger, seen: Seen) -> None:
    """Plays the person who approves what the killed process asked, by the digests they were shown."""
    for run in (APPROVED, SWAPPED):
        seen.approvals_after_kill[run] = approvals = ledger.approvals(run_id=run)
        for approval in approvals:
            seen.approved[run] = ledger.approve(approval, digest=approval.digest, by=PERSON)


def _approve_the_other(folder: Path, seen: Seen) -> None:
    """Plays somebody who approves the changed refund with what they were shown before; then the person denies it."""
    with _open(folder) as ledger:
        for approval in ledger.approvals(run_id=SWAPPED, status="pending"):
            seen.swap = list(ledger.view_approval(approval).changed or ())
            try:
                ledger.approve(approval, digest=seen.approved[SWAPPED].digest, by=PERSON)
            except VoteRefused as refused:
                seen.swapped_vote = refused.code
            ledger.deny(approval, by=PERSON, reason="not the amount that was approved")


def _allow_again(folder: Path) -> None:
    """Plays the person who looked, found no refund, and allows another attempt."""
    with _open(folder) as ledger:
        for effect in ledger.effects(tool="stripe.refund", run_id=BEFORE, status="in_doubt"):
            ledger.retry(effect, by=PERSON, reason="the provider has no refund under this key")


def _read_record(folder: Path, seen: Seen) -> None:
    with _open(folder) as ledger:
        seen.effects = ledger.effects()
        seen.events = {run: ledger.events(run) for run in (INSIDE, BEFORE, APPROVED, SWAPPED)}
        seen.approvals = ledger.approvals()
        seen.verdicts = {run: check_chain(events, run) for run, events in seen.events.items()}
        ledger.seal()
        store = store_behind(ledger)
        # What an auditor would have got from us before, by another way than the file.
        ring = KeyRing.open(store.ledger_name, folder / "keys")
        seen.pinned = ring.export_public(log_name(store.ledger_name, ledger.tenant))
        seen.journal = verify(LiveEvidence(store, ledger.tenant), [seen.pinned])


def _verified_after(folder: Path, pinned: str) -> Report:
    with _open(folder, "tampered.db", seal=False) as ledger:
        return verify(LiveEvidence(store_behind(ledger), ledger.tenant), [pinned])


def _sign_again(copy: Path) -> None:
    """Signs every head anew with a key of the forger's own, under the same name."""
    private = HeldKey.fresh()
    with closing(apsw.Connection(str(copy))) as raw:
        for size, text in raw.execute("SELECT size, note FROM indelible_heads").fetchall():
            note = parse_note(str(text))
            forged = sign_note(note.text, PublicKey(parse_head(note.text).origin, private.raw), private.sign)
            raw.execute("UPDATE indelible_heads SET note = ? WHERE size = ?", (str(forged), size))


def _tamper(folder: Path, seen: Seen) -> None:
    """Edits a copy of the ledger's file behind its back, each time a little more cleverly, and checks it each time."""
    copy = folder / "tampered.db"
    _copy(folder / "ledger.db", copy)
    _sign_again(copy)
    seen.journal_signed_again = _verified_after(folder, seen.pinned)
    _copy(folder / "ledger.db", copy)
    event = seen.events[INSIDE][len(seen.events[INSIDE]) // 2]
    seen.edited_seq = event.seq
    body = one_byte_other(event.body)
    seen.edited_bytes = sum(a != b for a, b in zip(event.body, body, strict=True))
    edit = "UPDATE indelible_events SET body = ? WHERE run_id = ? AND seq = ?"
    seen.verdict_on_edit = _checked_after(copy, edit, (body, INSIDE, event.seq))
    seen.journal_edited = _verified_after(folder, seen.pinned)
    rehash = "UPDATE indelible_events SET hash = ? WHERE run_id = ? AND seq = ?"
    seen.verdict_on_rehash = _checked_after(copy, rehash, (bytes.fromhex(event_hash(body)), INSIDE, event.seq))
    _edit_payload(copy, seen)


def _copy(file: Path, copy: Path) -> None:
    with (
        closing(apsw.Connection(str(file))) as original,
        closing(apsw.Connection(str(copy))) as raw,
        raw.backup("main", original, "main") as backup,
    ):
        backup.step()


def _checked_after(copy: Path, sql: str, values: tuple[bytes | str | int, ...]) -> Intact | Broken:
    with closing(apsw.Connection(str(copy))) as raw:
        raw.execute(sql, values)
    with _read(copy) as ledger:
        return check_chain(ledger.events(INSIDE), INSIDE)


@contextmanager
def _read(copy: Path) -> Iterator[Ledger]:
    """Open a copy as an auditor does: without the writer keys, so that only the record itself tells of a change."""
    with closing(open_store(f"sqlite:///{copy}", wakeups=False)) as store:
        read_rows(store, DEFAULT_TENANT)
        with Ledger.open(store=store, seal=False) as ledger:
            yield ledger


def _edit_payload(copy: Path, seen: Seen) -> None:
    """Changes the refund's recorded amount, and lets its event look at it."""
    effect = next(effect for effect in seen.effects if effect.run_id == INSIDE and effect.tool == "stripe.refund")
    opening = seen.events[INSIDE][effect.opened_seq]
    with closing(apsw.Connection(str(copy))) as raw:
        raw.execute(
            "UPDATE indelible_payloads SET value = CAST(replace(CAST(value AS TEXT), ?, ?) AS BLOB)"
            " WHERE run_id = ? AND seq = ? AND field = 'args'",
            (str(AMOUNT), str(OTHER_AMOUNT), INSIDE, opening.seq),
        )
    with _read(copy) as ledger:
        found = ledger.get_effect(effect.id)
        payloads = store_behind(ledger).payloads(effect.tenant, INSIDE, [opening.seq])
        seen.amounts = (effect.args["amount"], None if found is None else found.args["amount"])
        seen.opened_seq, seen.altered = opening.seq, altered_payloads(opening, payloads)


def one_byte_other(body: bytes) -> bytes:
    """Gives an event's body with the last digit of its time changed: as little as a forger could do."""
    at = body.index(b'Z","attempt"') - 1
    return body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :]


class Process:
    """Is one process of the agent."""

    def __init__(self, mode: str, folder: Path, *run_ids: str) -> None:
        self.reports: list[dict[str, Any]] = []
        self._hangs = threading.Event()
        command = [sys.executable, "-m", "indelible.cli.demo.agent", mode, str(folder), *run_ids]
        self._process = subprocess.Popen(  # noqa: S603
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.reports.append(json.loads(line))
            if "hangs" in self.reports[-1]:
                self._hangs.set()
        self._hangs.set()  # it ended; there is nothing to wait for any more

    def killed_where_it_hangs(self) -> Death:
        """Waits until the process hangs where it is to die, and kills it there."""
        self._hangs.wait(PATIENCE)
        self._process.kill()
        return Death(self._process.pid, self._end(), [r["hangs"] for r in self.reports if "hangs" in r])

    def finished(self) -> list[dict[str, Any]]:
        """Gives what the process reported, when it has ended by itself."""
        code = self._end()
        if code != 0:
            self.reports.append({"step": "process", "error": f"exit code {code}: {self._complaint}"})
        return self.reports

    def _end(self) -> int:
        assert self._process.stdin is not None
        assert self._process.stderr is not None
        try:
            code = self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        self._reader.join(PATIENCE)
        self._complaint = self._process.stderr.read().decode(errors="replace").strip()[-300:]
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()
        return code
