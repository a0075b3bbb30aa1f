"""Changes of keys that go on the record: files and journals change in an order that survives a crash at any step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from indelible.core.journal.notes import PublicKey
from indelible.core.journal.rotation import revocation_facts, rotation_facts
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


def rotate(ring: Ring, journals: Callable[[], Iterable[Journal]]) -> tuple[KeyHolder, KeyHolder]:
    """Puts a new key in the old one's place, on the record of every journal; gives the old and the new holder.

    Both keys sign until every journal says so under both signatures. Whoever is killed here calls it again: it goes on
    with the key that was begun. Whoever comes while another one is at it is refused.
    """
    with ring.rotating():
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


def _rotation_in(journal: Journal, old: KeyHolder, new: KeyHolder) -> dict[str, Any]:
    before, after = PublicKey(journal.origin, old.raw), PublicKey(journal.origin, new.raw)
    return rotation_facts(before, after, old.sign, new.sign)


def revoke(ring: KeyRing, name: str, journals: Iterable[tuple[Journal, int]]) -> RingKey:
    """Declares a retired key worthless beyond a size of each journal, then sees to it that it never signs again."""
    key = ring.revocable(name)
    for journal, size in journals:
        journal.record_once("key_revoked", revocation_facts(PublicKey(journal.origin, key.raw), size))
        journal.seal()
    return ring.revoke(key.id)
