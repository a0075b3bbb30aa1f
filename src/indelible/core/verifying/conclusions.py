"""From what was examined to what may be said: heads, witnesses, freshness, the verdict. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from indelible.core.journal.notes import PublicKey
from indelible.core.journal.witnessing import cosigners
from indelible.core.verifying.findings import Caught, Ground, Report
from indelible.core.verifying.trust import KeyChain, SignedHead
from indelible.errors import BadNote

FRESH = timedelta(hours=1)


def check_at_once(newest: SignedHead, pinned: Sequence[PublicKey]) -> None:
    """Raises `Caught` when a look at the newest head is enough to see that it is not the pinned keys' journal."""
    names = sorted({key.name for key in pinned})
    if pinned and newest.head.origin not in names:
        what = f"{newest.name}: it is a head of another journal than the key you pinned"
        raise Caught(what, expected=", ".join(names), found=newest.head.origin)
    try:
        for key in pinned:
            newest.note.signed_by(key)
    except BadNote as problem:
        raise Caught(f"{newest.name}: {problem}") from problem


def older_problem(old: SignedHead, newest: SignedHead, roots: Mapping[int, bytes], chain: KeyChain) -> str | None:
    """Says why an older head is not the beginning of this journal, or None when it is."""
    if old.head.size > newest.head.size:
        return f"it covers {old.head.size} entries, and the journal ends at {newest.head.size}: the tail was cut off"
    root = roots.get(old.head.size)
    if root is not None and root != old.head.root:
        return f"its root is not that of the first {old.head.size} entries: they were rewritten"
    return None


def check_older(
    heads: Iterable[SignedHead],
    newest: SignedHead,
    roots: Mapping[int, bytes],
    chain: KeyChain,
    pinned: Sequence[PublicKey],
) -> list[str]:
    """Checks heads that came with the journal; gives remarks on those of a history that was declared lost."""
    remarks = []
    for old in heads:
        problem = older_problem(old, newest, roots, chain)
        if problem is not None and any(one.explains(old.head) for one in chain.continuations):
            remarks.append(f"{old.name}: it belongs to the history that was declared lost")
        elif problem is not None:
            raise Caught(f"{old.name}: {problem}")
        elif pinned:
            chain.check_signed(old, pinned)
    return remarks


def check_pinned_head(
    old: SignedHead, newest: SignedHead, roots: Mapping[int, bytes], report: Report, chain: KeyChain
) -> str | None:
    """Takes a head that was pinned as ground, or says why nothing can be told; raises `Caught` on a break."""
    if old.head.origin != newest.head.origin:
        return f"{old.name} is a head of {old.head.origin}, not of this journal; give one of {newest.head.origin}"
    problem = older_problem(old, newest, roots, chain)
    if problem is not None and any(one.explains(old.head) for one in chain.continuations):
        return f"{old.name} belongs to the history that was declared lost, so the journal cannot continue it: {problem}"
    if problem is not None:
        raise Caught(f"{old.name}: {problem}")
    if old.head.size not in roots:
        return f"{old.name}: this cannot show that it continues that head; ask for a bundle of the whole journal"
    report.grounds |= {"older_head"}
    return None


def check_witnesses(newest: SignedHead, keys: Sequence[PublicKey], quorum: int, report: Report) -> str | None:
    """Takes enough cosignatures as ground, or says how many are lacking; raises `Caught` on a forged one."""
    try:
        found = cosigners(newest.note, keys)
    except BadNote as problem:
        raise Caught(f"{newest.name}: {problem}") from problem
    report.witnesses = {f"{key.name} {key.id.hex()}": at for key, at in found.items()}
    if len(found) < quorum:
        return f"{len(found)} of the witnesses you named cosigned the newest head, and you asked for {quorum}"
    if found:
        report.grounds |= {"witness"}
    return None


def check_fresh(report: Report, now: datetime, within: timedelta | None, quorum: int = 1) -> str | None:
    """Takes the newest proven time as ground if it is recent, or says why it is not when that was asked for."""
    window = within or FRESH
    ages: list[tuple[Ground, timedelta]] = []
    if report.newest_event_at is not None:
        try:
            ages.append(("fresh", now - datetime.fromisoformat(report.newest_event_at)))
        except ValueError as problem:  # the 31st of February: written as a time, and none
            raise Caught("the newest event's time is no time") from problem
    if "witness" in report.grounds:
        # One wrong clock must not decide: as many as were asked for have seen it at this time or later.
        newest = sorted(report.witnesses.values(), reverse=True)[max(quorum, 1) - 1]
        ages.append(("fresh_witness", _since(newest, now)))
    for ground, age in ages:
        if abs(age) <= window:
            report.grounds |= {ground}
    if within is None or report.grounds & {"fresh", "fresh_witness"}:
        return None
    if not ages:
        return "nothing here tells how fresh it is"
    ground, age = min(ages, key=lambda one: abs(one[1]))
    whose = "a witness's time" if ground == "fresh_witness" else "the newest event"
    return f"{whose} is {age} old, and you asked for {within}: later entries may have been cut off"


def _since(at: int, now: datetime) -> timedelta:
    """Gives the time since a moment in seconds since 1970; one that no calendar has is as far away as can be."""
    try:
        return now - datetime.fromtimestamp(at, UTC)
    except (OverflowError, OSError, ValueError):
        return timedelta.max
