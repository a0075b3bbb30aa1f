"""Changes of keys that go on the record: files and journals change in an order that survives a crash at any step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import Any, Protocol

from indelible.core.events import Event
from indelible.core.journal.notes import PublicKey, parse_vkey
from indelible.core.journal.rotation import revocation_facts, rotation_facts
from indelible.errors import KeyUnusable
from indelible.journal.keys.holders import KeyHolder, Ring
from indelible.journal.keys.ring import KeyRing, RingKey


class Journal(Protocol):
    """Is one tenant's journal, as far as a change of keys goes."""

    @property
    def origin(self) -> str:
        """Is the journal's name."""

    def record_once(self, event_type: str, facts: Mapping[str, Any]) -> object:
        """Records an event of the journal's own run. MUST do nothing when an event that says the same is there."""

    def seal(self) -> object:
        """Has a head signed that covers everything recorded; raises when it cannot."""


class LossyJournal(Journal, Protocol):
    """Is a journal whose database was set back."""

    def own_events(self) -> Iterable[Event]:
        """Gives what the journal tells about itself, in order."""

    def size(self) -> int:
        """Gives the size of the newest signed head that is here."""


def rotate(ring: Ring, journals: Callable[[], Iterable[Journal]]) -> tuple[KeyHolder, KeyHolder]:
    """Puts a new key in the old one's place, on the record of every journal; gives the old and the new holder.

    Both keys sign until every journal says so under both signatures. Whoever is killed here calls it again: it goes on
    with the key that was begun. Whoever comes while another one is at it is refused. A journal that lacks what was
    signed refuses before anything is begun: what it would be told of keys would not follow what it knows.
    """
    with ring.rotating():
        for journal in journals():
            journal.seal()
        old, new = ring.begin_rotation()
        told: set[str] = set()
        # Journals are listed again until no new one came: each has to say it before the old key stops.
        while fresh := [journal for journal in journals() if journal.origin not in told]:
            for journal in fresh:
                journal.record_once("key_rotated", _rotation_in(journal, old, new))
                journal.seal()
                told.add(journal.origin)
        ring.finish_rotation(new.raw)
    for journal in journals():
        journal.seal()
    return old, new


def tell_again(ring: KeyRing, journal: LossyJournal) -> None:
    """Tells what a journal lacks, after a loss, of the changes of its keys: who followed, and who was revoked.

    Raises:
        KeyUnusable: The key that the journal names last is not in this ring.
    """
    told = [(event.type, event.read()["facts"]) for event in journal.own_events()]
    named = [facts["new"] for type_, facts in told if type_ == "key_rotated"]
    named = named[-1:] or [facts["key"] for type_, facts in told if type_ == "key_registered"][:1]
    revoked = {facts["key"] for type_, facts in told if type_ == "key_revoked"}
    with ring.rotating():
        raw = parse_vkey(named[0]).raw if named else None
        successors = ring.successors(raw)
        if not successors and raw not in [holder.raw for holder in ring.holders()]:
            raise KeyUnusable(
                f"{journal.origin} is signed by {named[0]}, and that key is not in {ring.folder}; put the newest copy "
                "of the folder of keys back, then do it again"
            )
        if not named:
            journal.record_once("key_registered", {"key": PublicKey(journal.origin, successors[0].raw).vkey})
        for old, new in pairwise(successors):
            journal.record_once("key_rotated", _rotation_in(journal, old, new))
        for key in ring.all_keys():
            facts = revocation_facts(PublicKey(journal.origin, key.raw), journal.size())
            if key.status == "revoked" and facts["key"] not in revoked:
                journal.record_once("key_revoked", facts)


def _rotation_in(journal: Journal, old: KeyHolder, new: KeyHolder) -> dict[str, Any]:
    before, after = PublicKey(journal.origin, old.raw), PublicKey(journal.origin, new.raw)
    return rotation_facts(before, after, old.sign, new.sign)


def revoke(ring: KeyRing, name: str, journals: Iterable[tuple[Journal, int]]) -> RingKey:
    """Declares a retired key worthless beyond a size of each journal, then sees to it that it never signs again."""
    key = ring.revocable(name)
    known = list(journals)
    for journal, _ in known:
        journal.seal()  # one that lacks what was signed refuses before it is told anything
    for journal, size in known:
        journal.record_once("key_revoked", revocation_facts(PublicKey(journal.origin, key.raw), size))
        journal.seal()
    return ring.revoke(key.id)
