"""Verifies a journal, offline: bytes in, a report out. The steps are the core's; this reads and drives them."""

from __future__ import annotations

import multiprocessing
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType

from indelible.core.journal.merkle import leaf_hash
from indelible.core.journal.notes import COSIGNATURE, ED25519, PublicKey, TreeHead, parse_vkey
from indelible.core.journal.receipts import parse_receipt
from indelible.core.verifying.bodies import unquoted
from indelible.core.verifying.conclusions import (
    FRESH,
    check_at_once,
    check_fresh,
    check_older,
    check_pinned_head,
    check_remembered,
    check_signed_part,
    check_tail,
    check_witnesses,
)
from indelible.core.verifying.examination import Claimed, Examination, Row, Scope, check_root, first_bad_signature
from indelible.core.verifying.findings import CannotTell, Caught, Report
from indelible.core.verifying.manifests import Contents, check_manifest, number_in
from indelible.core.verifying.payloads import PayloadTally
from indelible.core.verifying.trees import TreeWalk
from indelible.core.verifying.trust import SignedHead, read_head
from indelible.errors import BadCall, BadNote, RecordForged
from indelible.journal.evidence.evidence import Evidence, Proven
from indelible.journal.evidence.live import LiveEvidence
from indelible.journal.evidence.opening import open_evidence

Progress = Callable[[int, int], None]
"""Is told how many entries were looked at, and of how many."""
Memory = Callable[[str], TreeHead | None]
"""Gives the head of a journal that the signer on this machine signed last; None where it signs none."""
_AT_ONCE = 4096
_MOST_AHEAD = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Demands:
    """Says against what to verify, and how deeply."""

    keys: Sequence[PublicKey] = ()
    after: Sequence[SignedHead] = ()
    witnesses: Sequence[PublicKey] = ()
    quorum: int = 0
    fresh_within: timedelta | None = None
    is_deep: bool = False
    has_semantics: bool = True
    up_to_head: bool = False
    memory: Memory | None = None


def verify(
    evidence: Evidence | str | Path,
    keys: Iterable[PublicKey | str] = (),
    *,
    after: Iterable[bytes | str] = (),
    witnesses: Iterable[PublicKey | str] = (),
    quorum: int | None = None,
    fresh_within: timedelta | None = None,
    deep: bool = False,
    semantics: bool = True,
    up_to_head: bool = False,
    memory: Memory | None = None,
    now: datetime | None = None,
    progress: Progress | None = None,
) -> Report:
    """Verifies what somebody handed over against keys that came another way, and reports; it never raises for a flaw.

    `after` are signed heads kept from before. `quorum` witnesses, by default all that are named, must have cosigned the
    newest head. `fresh_within` demands a recent time that a witness gives, or a head that the signer remembers as its
    newest: a live ledger asks the folder of keys, for anything else `memory` does. A live ledger with entries that no
    signed head covers is verified with `up_to_head` alone. Without a key the answer is never "verified".
    """
    demands = Demands(
        keys=[_key(key, ED25519) for key in keys],
        after=[_pinned_head(number, note) for number, note in enumerate(after, 1)],
        witnesses=(watchers := [_key(key, COSIGNATURE) for key in witnesses]),
        quorum=len(watchers) if quorum is None else quorum,
        fresh_within=fresh_within,
        is_deep=deep,
        has_semantics=semantics,
        up_to_head=up_to_head,
        memory=memory,
    )
    if deep and not semantics:
        raise BadCall("signatures are checked with the rules: leave out either --deep or --no-semantics")
    source = str(evidence) if isinstance(evidence, str | Path) else evidence.source
    report = Report(verdict="cannot_tell", why="", source=source)
    try:
        opened = open_evidence(evidence) if isinstance(evidence, str | Path) else evidence
        try:
            _Verification(opened, demands, report, progress).run(now or datetime.now(UTC))
        finally:
            opened.close()
    except RecordForged as forged:
        report.verdict, report.flaw, report.why = "tampered", Caught(str(forged)).flaw, str(forged)
    except Caught as caught:
        report.verdict, report.flaw, report.why = "tampered", caught.flaw, str(caught)
    except CannotTell as problem:
        report.verdict, report.why = "cannot_tell", str(problem)
    except OSError as problem:
        report.verdict, report.why = "cannot_tell", f"{source} cannot be read: {problem}"
    return report


def _key(key: PublicKey | str, kind: int) -> PublicKey:
    try:
        found = key if isinstance(key, PublicKey) else parse_vkey(key)
    except BadNote as problem:
        raise BadCall(f"the key cannot be used: {problem}") from problem
    if found.kind != kind:
        raise BadCall(
            f"{found.name}: this is the key of a {'witness' if kind == ED25519 else 'journal'}, name it as one"
        )
    return found


def _pinned_head(number: int, note: bytes | str) -> SignedHead:
    try:
        return read_head(f"the head you pinned ({number})", note)
    except Caught as caught:
        raise BadCall(str(caught)) from caught


def _older_head(name: str, note: bytes) -> SignedHead:
    head = read_head(name, note)
    if name.startswith("heads/") and number_in(name) != head.head.size:
        raise Caught(f"{name} is kept under another size than its own", expected=str(head.head.size), found=name)
    return head


class _Verification:
    """Walks the steps once."""

    def __init__(self, evidence: Evidence, demands: Demands, report: Report, progress: Progress | None) -> None:
        self._evidence = evidence
        self._demands = demands
        self._report = report
        self._progress = progress or (lambda done, size: None)
        self._found = Contents()
        self._last: TreeHead | None = None

    def run(self, now: datetime) -> None:
        evidence, report, demands = self._evidence, self._report, self._demands
        evidence.prepare()
        report.kind = evidence.kind
        if isinstance(evidence, LiveEvidence):
            report.tail = evidence.tail
            report.remarks += evidence.remarks
        newest = read_head(*evidence.newest())
        head = newest.head
        report.origin, report.size, report.root = head.origin, head.size, head.root.hex()
        if head.size == 0:
            raise CannotTell("the journal has no entries: there is nothing to verify")
        check_at_once(newest, demands.keys)
        self._last = evidence.remembered(head.origin)
        if self._last is None and demands.memory is not None:
            self._last = demands.memory(head.origin)
        examination = self._examination(newest)
        if evidence.kind == "journal":
            older = [_older_head(name, note) for name, note in evidence.older()]
            roots = self._whole(examination, newest, older)
            report.remarks += check_older(older, newest, roots, examination.chain, demands.keys)
            report.counts.older_heads = len(older)
        else:
            self._parts(examination, newest)
            roots = {head.size: head.root}
        self._account(examination, newest)
        self._conclude(examination, newest, roots, now)

    def _examination(self, newest: SignedHead) -> Examination:
        evidence = self._evidence
        is_whole = evidence.kind == "journal"
        keeps = evidence.has_values and not (is_whole and evidence.withheld)
        watch = evidence.tables.watch if isinstance(evidence, LiveEvidence) else None
        scope = Scope(
            has_semantics=self._demands.has_semantics,
            is_deep=self._demands.is_deep,
            has_every_run=is_whole,
            watch=watch,
        )
        tally = PayloadTally(keeps_absent=keeps)
        is_dense = evidence.kind in ("journal", "run")  # what is here of a run begins with its first event
        return Examination(newest.head, tally, scope, is_whole=is_dense, has_values=evidence.has_values)

    def _whole(self, examination: Examination, newest: SignedHead, older: list[SignedHead]) -> dict[int, bytes]:
        """Recomputes the tree and follows every entry; gives the roots at the sizes of all heads."""
        evidence, demands = self._evidence, self._demands
        sizes = {newest.head.size, *(old.head.size for old in (*older, *demands.after))}
        sizes |= set() if self._last is None else {self._last.size}
        walk = TreeWalk(sizes, evidence.given_tile)
        size = evidence.size(newest.head.size)
        with SignatureChecks() as checks:
            for row in evidence.rows(size):
                examination.take_row(row, walk)
                self._found.payloads += sum(map(len, row.shown.values()))
                checks.take(examination.claimed)
                self._progress(walk.size, size)
            root = walk.finish()
            good = [old.head.size for old in older if walk.roots.get(old.head.size) == old.head.root]
            check_root(walk, newest, max(good, default=0))
            self._report.counts.signatures = checks.finish()
        self._found.meet(0, walk.size)
        if isinstance(evidence, LiveEvidence):
            evidence.check_tree(walk.size, root)
            if demands.has_semantics:
                evidence.tables.compare(examination)
            self._report.remarks += evidence.tables.remarks
        return walk.roots

    def _parts(self, examination: Examination, newest: SignedHead) -> None:
        """Follows the entries of a part of a journal, each with its own proof."""
        is_period, before = self._evidence.kind == "period", -1
        with SignatureChecks() as checks:
            for proven in self._evidence.receipts():
                index, body = self._proven(examination, newest, proven)
                if is_period and before not in (-1, index - 1):
                    raise Caught("an entry of the period is missing", index=before + 1)
                before = index
                if self._demands.has_semantics:
                    examination.take(index, body, leaf_hash(body).hex(), proven.shown, proven.signature)
                    checks.take(examination.claimed)
                else:
                    examination.skim(index, Row([body], {index: proven.shown}))
                self._found.meet(index)
                self._found.payloads += len(proven.shown)
                self._progress(self._found.events, newest.head.size)
            self._report.counts.signatures = checks.finish()
        if not self._found.events:
            raise CannotTell("no entry is here: there is nothing to verify")

    def _proven(self, examination: Examination, newest: SignedHead, proven: Proven) -> tuple[int, bytes]:
        try:
            receipt = parse_receipt(proven.content)
        except BadNote as problem:
            raise Caught(f"{proven.name}: {problem}") from problem
        if self._evidence.manifest is not None and number_in(proven.name) != receipt.index:
            raise Caught(f"{proven.name} is about another entry", expected=proven.name, found=str(receipt.index))
        return receipt.index, examination.take_receipt(receipt, newest)

    def _account(self, examination: Examination, newest: SignedHead) -> None:
        """Closes the books: values, signatures, numbers, and what a manifest says of them."""
        evidence, report, manifest = self._evidence, self._report, self._evidence.manifest
        is_live = isinstance(evidence, LiveEvidence)
        report.counts.events, report.newest_event_at = self._found.events, examination.newest_at
        if self._demands.has_semantics:
            report.counts.runs = len(examination.lives.runs)
            self._found.runs = {unquoted(run) for run in examination.lives.runs}
            must_be_whole = evidence.kind == "journal"
            report.counts.payloads = examination.tally.close(evidence.withheld, must_be_whole=must_be_whole)
            if not is_live:  # whose tables compared this already, while others were writing
                examination.permissions.close()
            report.counts.approvals = examination.permissions.used
            report.counts.vote_signatures = examination.permissions.signatures
        elif manifest is not None and manifest["run"] is not None:
            self._found.runs = {manifest["run"]}
        if self._demands.is_deep and evidence.kind == "journal":
            examination.check_writers()
        if manifest is not None:
            check_manifest(manifest, newest.head, self._found)

    def _conclude(self, examination: Examination, newest: SignedHead, roots: dict[int, bytes], now: datetime) -> None:
        report, demands, chain = self._report, self._demands, examination.chain
        report.rotations = [f"{one.old.vkey} → {one.new.vkey}, at entry {one.index}" for one in chain.rotations]
        report.continuations = [
            f"entry {one.index}: the journal went on from {one.size} entries though {one.lost_size} were signed"
            for one in chain.continuations
        ]
        if demands.keys:
            key = chain.check_signed(newest, demands.keys)
            report.signed_by, report.grounds = key.vkey, report.grounds | {"key"}
        problems = [check_pinned_head(old, newest, roots, report, chain) for old in demands.after]
        if self._last is not None:
            if self._is_left():
                report.remarks.append("this tenant was moved to another database: verify there what came after that")
            elif isinstance(self._evidence, LiveEvidence):
                problems.append(check_signed_part(self._last, roots, chain))
            problems.append(check_remembered(self._last, newest, roots, report))
        problems.append(check_witnesses(newest, demands.witnesses, demands.quorum, report))
        problems.append(check_fresh(report, now, demands.fresh_within, demands.quorum))
        excused = examination.tally.excused_unsigned
        problems.append(check_tail(report.tail, newest.head.size, excused, is_asked_for=not demands.up_to_head))
        report.remarks += _remarks(demands, self._evidence, report, examination.unchecked)
        if not demands.keys:
            raise CannotTell(
                "no key was given: everything here fits together, but nobody knows who signed it. "
                "Get the key from the journal's owner by another way, and name it with --key"
            )
        lacking = [problem for problem in problems if problem is not None]
        if lacking:
            raise CannotTell("; ".join(lacking))
        report.verdict, report.why = "verified", "everything that was checked holds against the key you pinned"
        if report.tail is not None and report.tail.events:
            size = newest.head.size
            report.why = f"up to entry {size} of {size + report.tail.events}, {report.why}; no signed head covers more"

    def _is_left(self) -> bool:
        """Is this what a tenant left behind that was moved? Its stop says so, and was compared with the record."""
        return isinstance(self._evidence, LiveEvidence) and self._evidence.is_left and self._demands.has_semantics


def _remarks(demands: Demands, evidence: Evidence, report: Report, unchecked: int) -> list[str]:
    remarks = []
    if "memory" in report.grounds:
        remarks.append("what was never signed and was cut off cannot be seen")
    elif "fresh_witness" in report.grounds:
        remarks.append(f"what was cut off within the last {demands.fresh_within or FRESH} cannot be seen")
    if not demands.has_semantics:
        remarks.append("the rules of effects and approvals and the accounting of values were left out, as you asked")
    if not demands.is_deep:
        remarks.append("signatures of writers were not checked; --deep does")
    if unchecked:
        remarks.append(f"{unchecked} signatures of writers were not checked: only a whole journal tells their keys")
    if evidence.kind != "journal":
        remarks.append("this is a part of a journal: what was left out of it cannot be seen here")
    return remarks


class SignatureChecks:
    """Checks writers' signatures, in other processes when there are many.

    Ed25519 holds the interpreter's lock, so threads would not help; and a process is only forked while no other thread
    runs, for a child could inherit a lock that nobody gives back. A child that dies, of memory or by somebody's hand,
    changes no verdict: what it was given is checked here.
    """

    def __init__(self) -> None:
        self._pool: ProcessPoolExecutor | None = None
        self._under_way: deque[tuple[list[Claimed], Future[int | None]]] = deque()
        self._waiting: list[Claimed] = []
        self._checked = 0

    def __enter__(self) -> SignatureChecks:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def take(self, claimed: list[Claimed]) -> None:
        """Takes signatures over, and checks them when there are enough; raises `Caught` at a bad one."""
        if claimed:
            self._waiting += claimed
            claimed.clear()
        if len(self._waiting) >= _AT_ONCE:
            self._send()

    def _send(self) -> None:
        batch, self._waiting = self._waiting, []
        if self._pool is None and threading.active_count() == 1:
            with suppress(OSError, NotImplementedError, ValueError):  # a machine that lets nobody fork
                self._pool = ProcessPoolExecutor(mp_context=multiprocessing.get_context("fork"))
        try:
            if self._pool is None:
                raise BrokenProcessPool
            self._under_way.append((batch, self._pool.submit(first_bad_signature, batch)))
        except BrokenProcessPool:
            self._judge(first_bad_signature(batch), len(batch))
        while len(self._under_way) > _MOST_AHEAD:
            self._collect()

    def _collect(self) -> None:
        batch, answer = self._under_way.popleft()
        try:
            bad = answer.result()
        except BrokenProcessPool:
            bad = first_bad_signature(batch)
        self._judge(bad, len(batch))

    def _judge(self, bad: int | None, count: int) -> None:
        if bad is not None:
            raise Caught("the signature beside it is not its writer's", index=bad)
        self._checked += count

    def finish(self) -> int:
        """Checks what is left and gives how many were checked."""
        while self._under_way:
            self._collect()
        self._judge(first_bad_signature(self._waiting), len(self._waiting))
        return self._checked
