"""Seals a journal: takes waiting events into the tree, and has its head signed.

Integrating is a transaction of the store that anybody may make. Signing follows it, in whichever process holds the
key. Killed between any two steps, the next seal goes on where this one stopped.
"""

from __future__ import annotations

import logging
import os
import threading
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from typing import Any, Protocol

from indelible.core.commands import Outrun, Record, Stamp
from indelible.core.effects.stopping import telling
from indelible.core.effects.stops import STOP_REF, STOPS_RUN, UNKNOWN, Cause, Stop, read_stop
from indelible.core.events import Event, facts_json
from indelible.core.journal.journal import JOURNAL_RUN, JournalStore, Prove, Signer, Tree, check_growth
from indelible.core.journal.merkle import consistency_proof, inclusion_proof
from indelible.core.journal.notes import (
    Note,
    PublicKey,
    Signature,
    TreeHead,
    log_name,
    parse_head,
    parse_note,
    parse_vkey,
)
from indelible.core.journal.receipts import Receipt
from indelible.core.journal.rotation import rotation_line
from indelible.core.journal.set_back import (
    go_after_loss,
    is_about_loss,
    stop_of_forgery,
    stop_of_set_back,
)
from indelible.core.journal.tiles import node_reader
from indelible.core.macs import Macs
from indelible.core.moving import is_moved_away
from indelible.core.paging import every_event, read_sheet
from indelible.core.ports import Store
from indelible.core.sheets import Sheet
from indelible.core.verifying.findings import Caught
from indelible.core.verifying.unsealed import HELD, LET_GO, MOVED
from indelible.errors import BadCall, BadNote, KeyUnusable, NotSealed, RecordForged, SignerRefused
from indelible.journal.after_loss import Continued, in_question, tell_ends_again, told_for
from indelible.journal.examining import Examiner, Outgrown
from indelible.journal.keys.rights import own_events

log = logging.getLogger("indelible.journal")

_MOST_NAMED = 3
_MORE = 16
_MOST_LINES = 64  # beside the signatures of witnesses; a note holds 100
_introducing = threading.Lock()  # of two threads one names the key; of two processes both may, and it means the same

Cosign = Callable[[Note, Callable[[int], Sequence[bytes]], Callable[[Note], None]], None]
"""Has witnesses cosign a head, soon: given the note, proofs from older sizes, and how to keep what they signed."""


class Sealer:
    """Seals one tenant's journal on demand; safe to use from many processes at once."""

    def __init__(
        self,
        store: Store,
        tenant: str,
        signer: Signer,
        stamp: Callable[[], Stamp],
        *,
        cosign: Cosign | None = None,
        is_moving: bool = False,
    ) -> None:
        """Seal a tenant's journal; only the program that moves the tenant (`is_moving`) seals what it leaves behind."""
        self._store = store
        self._tenant = tenant
        self._signer = signer
        self._stamp = stamp
        self._cosign = cosign
        self._is_moving = is_moving
        self._origin: str | None = None
        self._made: Examiner | None = None
        self._is_resuming = False
        self._newest: tuple[str, Note] | None = None
        """Is the head whose signature was checked last."""

    @property
    def origin(self) -> str:
        """Is the journal's name; remembered once there are entries, for until then a tenant may be moved here."""
        if self._origin is not None:
            return self._origin
        has_entries = self._journal.tree(self._tenant).size > 0  # first, or it is moved here between the two looks
        name = self._store.origin(self._tenant)
        if has_entries:
            self._origin = name
        return name

    @property
    def _journal(self) -> JournalStore:
        return self._store.journal

    def seal(self, *, is_stopping: bool = True) -> Note | None:
        """Takes everything that waits into the tree and gives its signed head; None while there are no events.

        Args:
            is_stopping: Whether all effects are stopped if more was signed than is here.

        Raises:
            KeyUnusable: The keys here cannot sign, or cannot stop effects if a program without keys wrote something.
            SignerRefused: More was signed than is here, or the tenant was moved to another database.
        """
        self._check_is_here()
        if self._store.macs is not None:
            self._store.macs(self._tenant).check_signs()
        try:
            self._introduce_key()
        finally:  # what waits is examined all the same
            self.integrate()
        while True:
            tree = self._journal.tree(self._tenant)
            if tree.size == 0:
                return None
            try:
                known = self._known_head(tree)
                if known is None:
                    return self._sign(tree)
                self._check_is_newest(tree)
                self._examine(tree, parse_head(known.text))
                self._keep_rights()
                return known
            except SignerRefused:
                # Another process may have taken in more and had that signed while we looked.
                if self._journal.tree(self._tenant).size == tree.size:
                    if is_stopping:
                        stop_if_set_back(self._store, self._tenant, self._signer, self._stamp)
                    raise

    def has_news(self) -> bool:
        """Is there anything that no signed head covers yet?"""
        return self._journal.waiting(self._tenant) > 0 or self._journal.tree(self._tenant).size > self.size()

    def size(self) -> int:
        """Gives the size of the newest signed head."""
        kept = self._kept()
        return 0 if kept is None else parse_head(kept.text).size

    def integrate(self) -> None:
        """Takes into the tree what waits now. What comes in meanwhile is left to the next seal: it may never end."""
        waiting = self._journal.waiting(self._tenant)  # first: what is taken in between these two is then counted twice
        goal = self._journal.tree(self._tenant).size + waiting
        examiner = self._examiner
        while waiting:
            tree = self._journal.tree(self._tenant)
            if examiner is not None and not examiner.is_at(tree):
                last = self._last()
                if not self._is_resuming and not self._begins_with(tree, last):
                    return  # nothing of it will be signed, and what was remembered is of another tree
                self._examine(tree, last)
            try:
                grown = self._journal.integrate(self._tenant, self._journal.most_at_once, examiner)
            except Outgrown:
                continue
            except (LookupError, ValueError) as problem:  # another program changed the tree's tables
                raise _not_as_written(self._tenant, problem) from problem
            finally:
                self._stop_for_problems()
            if examiner is not None and grown is not None:
                examiner.accept(grown)
                self._stop_for_problems()
            if grown is None or grown.size >= goal:
                break

    def _begins_with(self, tree: Tree, last: TreeHead | None) -> bool:
        try:
            prove = _prover(self._journal, self._tenant, tree)
            check_growth(last, TreeHead(self.origin, tree.size, tree.root), prove)
        except SignerRefused:
            return False
        return True

    @property
    def _examiner(self) -> Examiner | None:
        """Is what examines the tree; None if rows carry no macs."""
        macs = None if self._store.macs is None else self._store.macs(self._tenant)
        if macs is None or self._made is None or self._made.macs is not macs:
            self._made = None if macs is None else Examiner(self._store, macs)
        return self._made

    def _examine(self, tree: Tree, signed: TreeHead | None) -> None:
        """Examine what of the tree was not examined, and stop all effects if it cannot be signed.

        Events are examined when they are taken into the tree. A program without a key can put one there by itself, or
        change one that was examined. So the root is computed from what was examined.
        """
        examiner = self._examiner
        if examiner is None:
            return
        if self._is_resuming:  # what was signed last is lost, and the store has an older head
            kept = self._kept(tree.size)
            signed = None if kept is None else parse_head(kept.text)
            signed = signed if self._begins_with(tree, signed) else None
        try:
            examiner.read_on(tree, 0 if signed is None else signed.size)
        except (Caught, LookupError, ValueError) as problem:
            what = problem.flaw.what if isinstance(problem, Caught) else f"the tree cannot be read ({problem})"
            self._stop_for({self._tenant: what})
            raise SignerRefused(f"{self.origin}: {what}. Restore a backup of the database") from None
        self._stop_for_problems()

    def _stop_for_problems(self) -> None:
        examiner = self._examiner
        if examiner is not None and examiner.problems and not self._is_resuming:
            self._stop_for(examiner.problems)
            examiner.problems.clear()

    def _stop_for(self, problems: Mapping[str, str]) -> None:
        """Stop all effects, for the database was changed by a program that has no key.

        The stop is remembered at once: a program that takes it out of the database gains nothing.
        """
        named = [problems[run_id] for run_id in sorted(problems)[:_MOST_NAMED]]
        log.error("%s was changed by a program without keys: %s", self.origin, "; ".join(named))
        stop = _change_stop(self._store, self._tenant, self._stamp, lambda last, at: stop_of_forgery(last, named, at))
        if stop is not None and self._store.macs is not None:
            self._store.macs(self._tenant).newest.keep({STOP_REF: stop.version})

    def _keep_rights(self) -> None:
        """Remember what signed entries told of rights, budgets and holds."""
        if self._examiner is not None:
            self._examiner.keep()

    def record(self, event_type: str, facts: Mapping[str, Any]) -> int:
        """Tells something about the journal in the journal, and gives the event's number in its run."""
        command = Record(
            tenant=self._tenant,
            run_id=JOURNAL_RUN,
            stamp=self._stamp(),
            event_type=event_type,
            facts=facts_json(facts),
        )
        (answer,) = self._store.apply(self._tenant, [command], [None])
        seq: int = answer.seq  # type: ignore[union-attr]
        return seq

    def record_once(self, event_type: str, facts: Mapping[str, Any]) -> None:
        """Tells it unless an event of the journal's own run has said exactly this before."""
        if not any(event.type == event_type and event.read()["facts"] == facts for event in self.own_events()):
            self.record(event_type, facts)

    def own_events(self) -> Iterator[Event]:
        """Gives what the journal told about itself, in order; raises `RecordForged` if others wrote in it."""
        return own_events(self._store, self._tenant, JOURNAL_RUN)

    def heartbeat(self) -> Note | None:
        """Writes an event that says no more than the time, so that a fresh head can be told from an old one.

        What a tenant left behind that was moved shows no sign of life, and does not grow.
        """
        if is_elsewhere(self._store, self._tenant):
            return self._kept()
        self.record("journal_heartbeat", {})
        return self.seal()

    def resume_after_loss(self) -> Continued:
        """Go on from the database as it is although more was signed, and say so on the record.

        Rights stay as the signer remembers them: what ended in the lost part is told again. A call that was cut short
        is made again.
        """
        lost, here = self.lost()
        stop_if_set_back(self._store, self._tenant, self._signer, self._stamp)  # else nobody says what is continued
        macs = None if self._store.macs is None else self._store.macs(self._tenant)
        self._is_resuming = True
        try:
            if macs is not None:
                macs.newest.reset()
                self.integrate()  # what waits in the copy is not of the part that is lost
                macs.declare_loss(self._journal.tree(self._tenant).size, lost.size, _shown(lost)["root"])
            if lost != self._declared_lost():  # a command that died may have said so
                self._tell_losses_again(macs, lost, here.size)
                self.record("log_continued", {"lost": _shown(lost), "size": here.size})
            self._tell_keys_again()
            if macs is not None:
                tell_ends_again(self._store, macs, lost, self._stamp)
            self.integrate()
            tree = self._journal.tree(self._tenant)
            if lost_head(self._store, self._tenant, self._signer) is not None:
                self._examine(tree, None)
                self._signer.continue_from(TreeHead(self.origin, tree.size, tree.root))
            self._sign(tree)
        finally:
            self._is_resuming = False
        was_held = macs is not None and macs.newest.version(HELD) > macs.newest.version(LET_GO)
        _change_stop(
            self._store, self._tenant, self._stamp, lambda last, at: go_after_loss(last, at, was_held=was_held)
        )
        self._stop_for_problems()
        told = tuple(told_for(self._store, self._tenant, lost))
        return Continued(lost, told, () if macs is None else tuple(in_question(self._store, macs)))

    def _tell_losses_again(self, macs: Macs | None, lost: TreeHead, size: int) -> None:
        """Tell the losses whose declarations are in the part that is lost: heads of theirs fit no more either."""
        told = [event.read()["facts"]["lost"] for event in self.own_events() if event.type == "log_continued"]
        for lost_size, root in [] if macs is None else macs.lost_heads():
            earlier = {"root": root, "size": lost_size}
            if earlier != _shown(lost) and earlier not in told:
                self.record("log_continued", {"lost": earlier, "size": size})

    def _tell_keys_again(self) -> None:
        from indelible.journal.keys.ring import KeyRing
        from indelible.journal.keys.rotating import tell_again

        ring = getattr(self._signer, "ring", None)
        if isinstance(ring, KeyRing):
            tell_again(ring, self)

    def lost(self) -> tuple[TreeHead, Tree]:
        """Return the head that was signed and is not here, and the tree that is; raise if nothing is lost."""
        self._check_is_here()
        self._check_came()
        self.integrate()
        lost = lost_head(self._store, self._tenant, self._signer) or self._declared_lost()
        if lost is None:
            raise SignerRefused(f"{self.origin}: all that was signed is here, so nothing is lost; just seal it")
        return lost, self._journal.tree(self._tenant)

    def _declared_lost(self) -> TreeHead | None:
        """Return the head that was declared lost, if effects are stopped for that loss."""
        told = [event.read()["facts"]["lost"] for event in self.own_events() if event.type == "log_continued"]
        if not told or not is_about_loss(stop_of(self._store, self._tenant), told[-1]["size"]):
            return None
        lost = told[-1]
        return TreeHead(self.origin, lost["size"], b64decode(lost["root"]))

    def _introduce_key(self) -> None:
        """Names the key in the journal's first event; refuses to sign with another key than the one before."""
        # Looked at twice: a whole rotation may fall between reading the head and reading the keys.
        if self._kept() is None:
            with _introducing:
                if self._signer.last(self.origin) is None and not self._names_a_key():
                    self.record("key_registered", {"key": self._signer.keys(self.origin)[-1].vkey})
        elif (
            not self._is_by_our_keys()
            and not self._is_by_our_keys()
            and lost_head(self._store, self._tenant, self._signer) is None  # else it was set back, and signing says so
        ):
            here = self._signer.keys(self.origin)[0].id.hex()
            raise KeyUnusable(
                f"{self.origin} is signed by another key than the one here ({here}); copy the folder with its keys "
                "from the machine that signs, name it with INDELIBLE_KEYS, or let that machine seal"
            )

    def _names_a_key(self) -> bool:
        return any(event.type == "key_registered" for event in self.own_events())

    def _is_by_our_keys(self) -> bool:
        kept = self._kept()
        return kept is not None and any(_is_signed_by(kept, key) for key in self._signer.keys(self.origin))

    def _kept(self, size: int | None = None) -> Note | None:
        """Gives the newest signed head that the store has, or the newest up to a size.

        A row that no key of this journal signed was put there by another program, and is passed over.
        """
        count = 1
        while found := self._journal.heads(self._tenant, count, size):
            note = next((note for text in found if (note := self._believed(text)) is not None), None)
            if note is not None or len(found) < count:
                return note
            count *= _MORE
        return None

    def _believed(self, text: str) -> Note | None:
        if self._newest is not None and self._newest[0] == text:
            return self._newest[1]
        try:
            note = parse_note(text)
            parse_head(note.text)
        except BadNote:
            return None
        if not any(_is_signed_by(note, key) for key in self._all_keys()):
            return None
        self._newest = (text, note)
        return note

    def _all_keys(self) -> Iterator[PublicKey]:
        """Gives the keys that sign now, and those that the journal names."""
        yield from self._signer.keys(self.origin)
        for event in self.own_events():
            if event.type in ("key_registered", "key_rotated"):
                facts = event.read()["facts"]
                for name in ("key", "old", "new"):
                    with suppress(BadNote, KeyError):
                        yield parse_vkey(facts[name])

    def _known_head(self, tree: Tree) -> Note | None:
        """Gives the head of this tree if it is signed already, by every key that should."""
        note = self._kept()
        if note is None or parse_head(note.text) != TreeHead(self.origin, tree.size, tree.root):
            return None
        return note if all(_is_signed_by(note, key) for key in self._signer.keys(self.origin)) else None

    def _check_is_newest(self, tree: Tree) -> None:
        """Raise `SignerRefused` if more was signed than the tree whose head is here: it was set back to that head."""
        head = TreeHead(self.origin, tree.size, tree.root)
        check_growth(self._signer.last(self.origin), head, _prover(self._journal, self._tenant, tree))

    def _last(self) -> TreeHead | None:
        """Return the head that was signed last."""
        last = self._signer.last(self.origin)
        if last is None and (kept := self._kept()) is not None:
            # Its memory is gone. What the store has of it is less, and still rules out most accidents.
            return parse_head(kept.text)
        return last

    def _check_is_here(self) -> None:
        stop = stop_of(self._store, self._tenant)
        if stop is not None and is_moved_away(stop) and not self._is_moving:
            raise SignerRefused(
                f"{self._tenant} was {stop.reason}, and nothing is signed here any more: that would be a second "
                "history under one name. Use it there"
            )

    def _check_came(self) -> None:
        """Raise `SignerRefused` if a tenant was moved here, as its keys say, and the database is from before that.

        Its calls are at the old place, and its journal begins with another key: nothing can go on from here.
        """
        is_ours = self._store.origin(self._tenant) == log_name(self._store.ledger_name, self._tenant)
        if is_ours or self._names_a_key():
            return
        raise SignerRefused(
            f"{self._tenant} was moved here, and this database is of before that, so what it did is at the old place. "
            "Restore this one once more and leave the tenant alone. At the old place: indelible go --force, then "
            "indelible journal continue. Move it here again. Then, here: indelible journal continue"
        )

    def _sign(self, tree: Tree) -> Note:
        self._check_is_here()  # after the tree was read: what is in it then was carried along, so it forks nothing
        head = TreeHead(self.origin, tree.size, tree.root)
        last = self._last()
        prove = _prover(self._journal, self._tenant, tree)
        check_growth(last, head, prove)
        self._examine(tree, last)
        note = self._signer.sign(head, prove)
        at = self._stamp().at

        def keep(signed: Note) -> None:
            kept = self._kept(tree.size)
            # Another process may have kept it with cosignatures that we did not ask for: they stay.
            merged = kept.with_signatures(signed.signatures) if kept is not None and kept.text == head.text else signed
            self._journal.keep_head(self._tenant, head, str(merged), at)

        keep(note)
        self._keep_rights()
        if self._cosign is not None:
            self._cosign(note, prove, keep)
        return note


def _is_signed_by(note: Note, key: PublicKey) -> bool:
    try:
        return note.signed_by(key)
    except BadNote:
        return False


def receipt_of(store: Store, tenant: str, run_id: str, seq: int) -> Receipt:
    """Gives the way from one event to the newest signed head; raises `NotSealed` when none covers it yet.

    Raises `SignerRefused` when the database lacks what was signed.
    """
    check_has_signed(store, tenant)
    index = store.journal.index_of(tenant, run_id, seq)
    newest = store.journal.heads(tenant, 1)
    if index is None or not newest or parse_head(parse_note(newest[0]).text).size <= index:
        if not store.events(tenant, run_id, seq - 1, 1):
            raise BadCall(f"run {run_id!r} has no event {seq}; see: indelible events {run_id}")
        raise NotSealed(f"event {seq} of run {run_id!r} is under no signed head yet; run: indelible journal seal")
    head = with_rotations(store, tenant, parse_note(newest[0]))
    read = node_reader(lambda level, number: store.journal.tile(tenant, level, number))
    with _readable(tenant):
        proof = inclusion_proof(index, parse_head(head.text).size, read)
    (entry,) = store.journal.entries(tenant, index, 1)
    return Receipt(index, tuple(proof), head, entry.body)


def with_rotations(store: Store, tenant: str, note: Note) -> Note:
    """Return a signed head with the rotations that lead from the journal's first key to the one that signs it.

    A key that was pinned before a rotation then verifies also a part of the journal.
    """
    signers = {signature.key_id for signature in note.signatures}
    lines: list[Signature] = []
    for event in every_event(store, tenant, JOURNAL_RUN):
        if event.type not in ("key_registered", "key_rotated"):
            continue
        with suppress(BadNote, ValueError, LookupError, AttributeError):  # altered behind our back: verifiers tell
            facts = event.read()["facts"]
            if event.type == "key_rotated":
                lines.append(rotation_line(facts))
            elif parse_vkey(facts["key"]).id in signers and not (lines or store.events(tenant, STOPS_RUN, -1, 1)):
                return note  # it was never rotated, nor stopped to be moved and moved back: the rest is not read
    return note.with_signatures(lines[-_MOST_LINES:])


class Memory(Protocol):
    """Remembers, outside the database, what was signed last. Every signer is one."""

    def last(self, origin: str) -> TreeHead | None: ...


def lost_head(store: Store, tenant: str, memory: Memory) -> TreeHead | None:
    """Return the head that was signed last, if the database does not begin with it: it was set back, or changed."""
    origin = store.origin(tenant)
    last = memory.last(origin)
    if last is None:
        return None
    tree = store.journal.tree(tenant)  # after it, for what is signed is in the tree before
    try:
        check_growth(last, TreeHead(origin, tree.size, tree.root), _prover(store.journal, tenant, tree))
    except SignerRefused as refused:
        if refused.__cause__ is not None:  # the tree cannot be read, and that proves no loss: it may be mended
            raise
        return last
    return None


def check_has_signed(store: Store, tenant: str) -> None:
    """Raise `SignerRefused` if a database lacks what was signed: nothing of it is shown as the newest state.

    Only a process that has the folder of keys can tell.
    """
    lost = None if store.compare is None else lost_head(store, tenant, store.compare)
    if lost is not None:
        way_out = "Restore a newer backup, or, to go on from here: indelible journal continue"
        if is_elsewhere(store, tenant):
            way_out = f"Tenant {tenant} was moved to another database: ask there"
        raise SignerRefused(
            f"{store.origin(tenant)}: {lost.size} entries were signed, and this database does not have all of them. "
            f"{way_out}"
        )


def shown_heads(store: Store, tenant: str, limit: int, up_to: int | None = None) -> list[str]:
    """Return signed heads, the largest first, to show to others; raise if the database lacks what was signed."""
    check_has_signed(store, tenant)
    return store.journal.heads(tenant, limit, up_to)


def stop_if_set_back(store: Store, tenant: str, memory: Memory, stamp: Callable[[], Stamp]) -> bool:
    """Stop all effects if the database lacks what was signed: what was done since could be done again.

    Returns:
        Whether the database lacks something.
    """
    lost = lost_head(store, tenant, memory)
    if lost is not None:
        was_moved = _was_moved(store, tenant)
        _change_stop(store, tenant, stamp, lambda last, at: stop_of_set_back(last, lost.size, at, was_moved=was_moved))
    return lost is not None


def _change_stop(
    store: Store, tenant: str, make_stamp: Callable[[], Stamp], after: Callable[[Stop | None, datetime], Stop | None]
) -> Stop | None:
    """Write what comes after the stop that stands, and return it; None if nothing has to be changed."""
    while True:
        stamp = make_stamp()
        changed = after(stop_of(store, tenant), stamp.at)
        if changed is None:
            return None
        (answer,) = store.apply(tenant, [telling(changed, tenant, stamp)], [None])
        if not isinstance(answer, Outrun):  # by somebody whose word comes first
            return changed


def _prover(journal: JournalStore, tenant: str, tree: Tree) -> Prove:
    """Gives what proves that a tree begins with an older one."""
    read = node_reader(lambda level, number: journal.tile(tenant, level, number))

    def prove(old: int) -> Sequence[bytes]:
        with _readable(tenant):
            return consistency_proof(old, tree.size, read)

    return prove


@contextmanager
def _readable(tenant: str) -> Iterator[None]:
    """Turn what is missing of a tree's tiles into a problem of the journal."""
    try:
        yield
    except (LookupError, ValueError) as problem:  # another program changed the tree's tables
        raise _not_as_written(tenant, problem) from problem


def _not_as_written(tenant: str, problem: Exception) -> SignerRefused:
    return SignerRefused(
        f"the tree of tenant {tenant} is not as it was written ({problem}), so nothing is signed; see what was "
        "changed: indelible verify. Then restore a backup of the database"
    )


def is_elsewhere(store: Store, tenant: str) -> bool:
    """Was a tenant moved to another database, so that nothing is to be added to what it left here?"""
    return is_moved_away(stop_of(store, tenant))


def stop_of(store: Store, tenant: str) -> Stop | None:
    """Return the newest word on whether a tenant's effects are stopped."""
    found = read_sheet(store, tenant, STOP_REF)
    if found is None or found.body is not None:
        return None if found is None else read_stop(found)
    return replace(read_stop(found), below=_told_causes(store, tenant))


def _told_causes(store: Store, tenant: str) -> tuple[Cause, ...]:
    """Return why effects are stopped as the record tells it, where the row is not believed or was erased."""
    try:
        told = [event.seq for event in own_events(store, tenant, STOPS_RUN)]
    except RecordForged:
        return (UNKNOWN._replace(kind="person"),)
    causes = read_stop(_told_stop(store, tenant, told[-1])).causes if told else ()
    return tuple(cause._replace(kind="person") if cause.kind == "gone" else cause for cause in causes)


def _was_moved(store: Store, tenant: str) -> bool:
    """Was a tenant moved away after what its row tells of, as is remembered beside the keys?"""
    if store.macs is None:
        return False
    newest = store.macs(tenant).newest
    moved = newest.version(MOVED)
    if moved <= newest.version(LET_GO) or moved < newest.version(HELD):
        return False
    found = read_sheet(store, tenant, STOP_REF)
    return found is None or (found.row_version is not None and found.row_version < moved)


def _told_stop(store: Store, tenant: str, seq: int) -> Sheet:
    """Return the word on the stop that an event told; it has no body if that was erased or no key holder wrote it.

    Its version is in its body: after a restore, versions have gaps, so the place of an event does not tell it.
    """
    macs = None if store.macs is None else store.macs(tenant)
    shown = (one for one in store.payloads(tenant, STOPS_RUN, [seq]) if one.field == STOP_REF.kind)
    body = next((one.value for one in shown if macs is None or macs.is_of_payload(one)), None)
    return Sheet(kind=STOP_REF.kind, id=STOP_REF.id, version=0, status="", body=body)


def _shown(head: TreeHead) -> dict[str, Any]:
    _, size, root, _ = head.text.split("\n")
    return {"root": root, "size": int(size)}


def _begin_in_child() -> None:
    global _introducing
    _introducing = threading.Lock()  # whoever held it is not here


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_in_child)
