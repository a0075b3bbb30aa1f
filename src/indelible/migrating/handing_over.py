"""Hands the keys of a tenant from one ledger to another: those that sign, those that encrypt, and that of marks.

The tenant's journal keeps its name. Old and new key sign the change in it, as in a rotation, so whoever pinned the old
one can follow. The old signer remembers that head too: it never signs another continuation of what stays behind.
"""

from __future__ import annotations

from pathlib import Path

from indelible.core.effects.effect import SYSTEM
from indelible.core.journal.notes import PublicKey, parse_note
from indelible.core.journal.rotation import rotation_facts
from indelible.core.moving import check_redaction, origin_sheet
from indelible.core.ports import Store
from indelible.core.privacy.encryption import holder_in
from indelible.engine.mint import SystemMint
from indelible.errors import KeyUnusable
from indelible.journal.keys.data_keys import DataKeys
from indelible.journal.keys.files import PATIENCE, data_keys_folder, has_data_keys
from indelible.journal.keys.holders import FixedKeys, KeyHolder
from indelible.journal.keys.redaction_key import copy_redaction_key
from indelible.journal.keys.ring import KeyRing
from indelible.journal.keys.signer import FileHeadState, StatefulSigner, file_signer
from indelible.journal.keys.writers import copy_writer_keys
from indelible.journal.sealing import Sealer
from indelible.stores import TABLES, Place, sheet_row

_VALUE = tuple(TABLES["payloads"]).index("value")


class Handover:
    """Sees to the keys while one tenant moves from one ledger to another; both may be the same ledger's."""

    def __init__(self, tenant: str, old: str, new: str) -> None:
        self._tenant = tenant
        self._old, self._new = KeyRing.open(old), KeyRing.open(new)
        self._mint = SystemMint()
        self._marks: tuple[str | None, str | None] = (None, None)
        self._copied: Path | None = None
        self._left: set[bytes] | None = None

    @property
    def _is_needed(self) -> bool:
        return self._old.ledger_name != self._new.ledger_name

    def check(self, source: Store, target: Store) -> None:
        """Raises before anything is touched when a key is missing, or two ledgers' keys do not go together."""
        if not self._is_needed:
            return
        if self._old.current() is None and source.journal.heads(self._tenant, 1):
            raise KeyUnusable(
                f"the key that signs the journal of {self._tenant} has to sign that another one follows it, and it is "
                f"not in {self._old.folder}; copy that folder from the machine that signs, then do it again"
            )
        for ring in (self._old, self._new):
            if any(key.status == "next" for key in ring.all_keys()):
                raise KeyUnusable(f"a rotation of {ring.folder} is under way; finish it first: indelible keys rotate")
        if target.macs is not None and source.macs is None:
            raise KeyUnusable(
                f"the rows of {self._tenant} carry no macs, and those of {target.ledger_name} do; move it to a ledger "
                "without writer keys, as this makes one: indelible migrate --no-writer-keys --url URL"
            )
        self._marks = source.forgetting.redaction_check(), target.forgetting.redaction_check()
        check_redaction(*self._marks, self._tenant)

    def seal(self, source: Store) -> None:
        """Has everything signed that is there, so that nothing is left to be signed at the old place."""
        if self._old.current() is not None:
            self._sealer(source, file_signer(self._old)).seal()

    def replace(self, place: Place) -> None:
        """Note for whom the tenant encrypted what it left there: these keys are replaced with the rows."""
        self._left = self._holders_in(place)

    def bring(self, place: Place, origin: str) -> None:
        """Brings along, in the transaction that carries the tenant, what belongs to its old ledger alone."""
        if not self._is_needed:
            return
        if not any(row[1] == "origin" for row in place.read("sheets", self._tenant)):
            place.write("sheets", [sheet_row(self._tenant, origin_sheet(origin))])
        mark, there = self._marks
        if mark is not None:
            copy_redaction_key(self._old.ledger_name, self._new.ledger_name)
            if there is None:
                place.write("redaction", [(mark,)])
        self._copy_data_keys(place)
        self._copied = copy_writer_keys(self._old.ledger_name, self._new.ledger_name, self._tenant, origin)

    def take_back(self) -> None:
        """Takes away again what was brought beside the database, for the tenant goes on where it was."""
        if self._copied is not None:
            self._copied.unlink(missing_ok=True)

    def _copy_data_keys(self, place: Place) -> None:
        found, left = self._holders_in(place), self._left or set()
        if not found | left:
            return
        if found and not has_data_keys(self._old.ledger_name, None):
            raise KeyUnusable(
                f"{self._tenant} is encrypted, and the keys are not in {self._old.folder}; copy that folder here from "
                "the machine that has it, then do it again"
            )
        old, new = (DataKeys(data_keys_folder(ring.ledger_name, None)) for ring in (self._old, self._new))
        for holder in found | left:
            old.copy(holder, new, is_replacing=self._left is not None)
        for holder in left - found:
            if not old.has(holder):  # it was destroyed where the tenant comes from
                new.destroy(holder)

    def _holders_in(self, place: Place) -> set[bytes]:
        """Return for whom the tenant's values there are encrypted."""
        holders = (holder_in(row[_VALUE]) for row in place.read("payloads", self._tenant))
        return {holder for holder in holders if holder is not None}

    def hand_over(self, target: Store, origin: str) -> None:
        """Has both keys sign in the journal that the new one follows the old one; done twice, it is done once."""
        if not self._is_needed:
            return
        # Again: an earlier try may have taken them back, and its transaction may have been committed all the same.
        copy_writer_keys(self._old.ledger_name, self._new.ledger_name, self._tenant, origin)
        newest = target.journal.heads(self._tenant, 1)
        if not newest:
            return
        self._new.create(self._tenant, origin)
        new = self._new.holders()[0]
        signers = {signature.key_id for signature in parse_note(newest[0]).signatures}
        if PublicKey(origin, new.raw).id in signers:
            return
        old = self._signer(origin, signers)
        sealer = self._sealer(target, StatefulSigner(FixedKeys(old, new), FileHeadState(self._old.folder)))
        facts = rotation_facts(PublicKey(origin, old.raw), PublicKey(origin, new.raw), old.sign, new.sign)
        with self._new.rotating(PATIENCE):  # two who move it at once tell it once
            told = [event for event in sealer.own_events() if event.type == "key_rotated"]
            # The last one counts: a tenant that comes back to a ledger comes back to its key as well.
            if not told or told[-1].read()["facts"] != facts:
                sealer.record("key_rotated", facts)
            sealer.seal()

    def _signer(self, origin: str, signers: set[bytes]) -> KeyHolder:
        """Gives the key of the old ring that signed last; it may have been retired there since."""
        for key in self._old.all_keys():
            holder = self._old.holder_of(key.raw) if PublicKey(origin, key.raw).id in signers else None
            if holder is not None:
                return holder
        raise KeyUnusable(f"the key that signs {origin} is not in {self._old.folder}; put it back, then do it again")

    def seal_arrival(self, target: Store) -> None:
        """Has the new key sign that the tenant arrived, where its journal is signed."""
        if self._new.current() is not None and target.journal.heads(self._tenant, 1):
            self._sealer(target, file_signer(self._new)).seal()

    def _sealer(self, store: Store, signer: StatefulSigner) -> Sealer:
        return Sealer(store, self._tenant, signer, lambda: self._mint.stamp(SYSTEM), is_moving=True)
