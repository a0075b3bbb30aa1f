"""From what was examined to what may be said: heads, witnesses, freshness, the verdict. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from indelible.core.journal.notes import PublicKey, TreeHead
from indelible.core.journal.witnessing import cosigners
from indelible.core.verifying.findings import Caught, Report, Tail
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


def check_signed_part(last: TreeHead, roots: Mapping[int, bytes], chain: KeyChain) -> str | None:
    """Compare a live ledger with the head that its signer signed last; raise `Caught` if the ledger lacks it.

    `roots` holds the root at the size of that head, if the ledger has so many entries, signed or not.

    Returns:
        Why nothing can be told; None if the ledger lacks nothing.
    """
    root = roots.get(last.size)
    if root == last.root:
        return None
    if any(one.explains(last) for one in chain.continuations):
        return f"the signer signed {last.size} entries, which were declared lost, and has not gone on from there yet"
    if root is None:
        what = f"the signer signed {last.size} entries, and they are not all here: the ledger was set back, or its end "
        raise Caught(f"{what}was cut off", expected=f"{last.size} entries", found="fewer")
    what = f"the signer signed another history: the first {last.size} entries were rewritten"
    raise Caught(what, expected=last.root.hex(), found=root.hex())


def check_remembered(last: TreeHead, newest: SignedHead, roots: Mapping[int, bytes], report: Report) -> str | None:
    """Take the head that the signer signed last as ground if it is the newest one; or say why nothing can be told.

    What was handed over may be older than that, and then it is not the newest state.
    """
    if last.size in roots and roots[last.size] != last.root:
        return f"this machine's signer has signed another history since, of {last.size} entries; a loss may be declared"
    if last == newest.head:
        report.grounds |= {"memory"}
    elif last.size > newest.head.size:
        report.remarks.append(f"this machine's signer has signed {last.size} entries: this is not the newest state")
    return None


def check_tail(tail: Tail | None, size: int, excused: int, *, is_asked_for: bool) -> str | None:
    """Say why nothing can be told of a ledger with a tail: none of it is signed, and anybody may have written it.

    A tail in which the mac of each event holds was written by key holders, and leaves the verdict as it is.

    Args:
        tail: What lies beyond the newest signed head.
        size: How many entries that head covers.
        excused: How many values are gone that only events of the tail say were erased.
        is_asked_for: Whether the verdict is to be about the tail too.
    """
    if tail is None or not tail.events or tail.is_authenticated:
        return None
    if not is_asked_for:
        what = "values are gone, and no signed head covers the events that say they were erased; seal them first"
        return f"{excused} {what}" if excused else None
    return (
        f"verified up to entry {size} of {size + tail.events}: no signed head covers the rest, so nothing shows who "
        "wrote it. Let the journal be sealed (indelible journal seal, indelible worker); the signed part alone is "
        "verified with --up-to-head"
    )


def check_fresh(report: Report, now: datetime, within: timedelta | None, quorum: int = 1) -> str | None:
    """Take a recent time as ground that no maker of heads chooses alone; or say that there is none, if it is asked for.

    That is a witness's. The signer's own memory is fresh by itself. Times inside events decide nothing: who holds the
    key writes them.
    """
    if report.newest_event_at is not None:
        try:
            datetime.fromisoformat(report.newest_event_at)
        except ValueError as problem:  # the 31st of February: written as a time, and none
            raise Caught("the newest event's time is no time") from problem
    age: timedelta | None = None
    if "witness" in report.grounds:
        # One wrong clock must not decide: as many as were asked for have seen it at this time or later.
        age = _since(sorted(report.witnesses.values(), reverse=True)[max(quorum, 1) - 1], now)
        if abs(age) <= (within or FRESH):
            report.grounds |= {"fresh_witness"}
    if within is None or report.grounds & {"memory", "fresh_witness"}:
        return None
    if age is None:
        return (
            "nothing here tells how fresh it is: only the time of a witness (--witness) does, or the memory of the "
            "signer, on its own machine"
        )
    return f"a witness's time is {age} old, and you asked for {within}: later entries may have been cut off"


def _since(at: int, now: datetime) -> timedelta:
    """Gives the time since a moment in seconds since 1970; one that no calendar has is as far away as can be."""
    try:
        return now - datetime.fromtimestamp(at, UTC)
    except (OverflowError, OSError, ValueError):
        return timedelta.max
