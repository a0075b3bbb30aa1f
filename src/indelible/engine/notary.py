"""Knows how a ledger's journal is sealed: by which key, seen by which witnesses, and what happens when it cannot be."""

from __future__ import annotations

import logging
import time
from base64 import b64encode
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from indelible.core.commands import Record
from indelible.core.effects.effect import SYSTEM, Effect
from indelible.core.events import facts_json
from indelible.core.journal.journal import JOURNAL_RUN, WRITER_REGISTERED, Signer
from indelible.core.journal.notes import Note, parse_head, parse_note
from indelible.core.ports import Store
from indelible.engine.mint import SystemMint
from indelible.errors import IndelibleError, KeyUnusable, NotSealed
from indelible.forks import after_fork
from indelible.journal.sealing import Sealer, is_elsewhere
from indelible.journal.sealing_thread import SealingThread
from indelible.stores import is_remote

if TYPE_CHECKING:
    from indelible.journal.keys.holders import Ring
    from indelible.journal.witnesses.asking import Witness
    from indelible.journal.witnesses.cosigning import Cosigning

log = logging.getLogger("indelible.journal")

OnUnsealed = Literal["continue", "refuse"]
PATIENCE = timedelta(seconds=10)
_LOOK_EVERY = 0.02


class Notary:
    """Sees to it that what one process writes for one tenant comes under a signed head.

    Unless it seals, this process only writes, and needs no key: another one seals.
    """

    def __init__(
        self,
        store: Store,
        tenant: str,
        *,
        make_signer: MakeSigner,
        seal: bool,
        witnesses: Sequence[Witness] = (),
        sign_events: bool = False,
        on_unsealed: OnUnsealed = "continue",
        patience: timedelta = PATIENCE,
    ) -> None:
        self.mint = SystemMint()
        self._store = store
        self._tenant = tenant
        self._make_signer = make_signer
        self._cosigning = cosigning_with(witnesses)
        self._sign_events = sign_events and store.introduce is None  # one key for all that this process writes to it
        self._on_unsealed = on_unsealed
        self._patience = patience
        if seal:
            _load_what_signing_needs()
        self._thread = SealingThread(self.sealer) if seal else None
        self._signer: Signer | None = None
        self._start()
        after_fork(self._start)

    def _start(self) -> None:
        if self._thread is not None:
            self._thread.start_afresh()
        if self._cosigning is not None:
            self._cosigning.start_afresh()
        if self._sign_events:  # a key of this process alone, which dies with it; the journal names it
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

            self._writer_key = Ed25519PrivateKey.generate()
            self._store.sign_event, self._store.introduce = self._writer_key.sign, self._introduction

    @property
    def is_sealing(self) -> bool:
        """Does this process seal the journal?"""
        return self._thread is not None

    # While calls are made

    def _introduction(self, tenant: str) -> Record:
        """Return what names this process's own key in a tenant's journal."""
        raw = self._writer_key.public_key().public_bytes_raw()
        facts = {"key": b64encode(raw).decode(), "writer": self._store.writer_id}
        return Record(
            tenant=tenant,
            run_id=JOURNAL_RUN,
            stamp=self.mint.stamp(SYSTEM),
            event_type=WRITER_REGISTERED,
            facts=facts_json(facts),
        )

    def after_write(self) -> None:
        """Hears that something was written."""
        if self._thread is not None:
            self._thread.note_write()

    def check(self) -> None:
        """Raises `NotSealed` when the journal cannot be sealed and the ledger was told to refuse then."""
        problem = None if self._thread is None else self._thread.problem
        if problem is not None and self._on_unsealed == "refuse":
            raise NotSealed(f"nothing was run, for the journal cannot be sealed: {problem}") from problem

    def await_seal(self, effect: Effect, *, wherever: bool) -> None:
        """Waits until what was just recorded of an effect is under a signed head."""
        if self._thread is None and not wherever:
            return
        problem = None if self._thread is None else self._thread.wait(self._patience)
        if problem is None:
            # Looked up even after a seal of our own: with a great backlog, that one may have taken other events first.
            try:
                problem = self._await_head(effect)
            except IndelibleError as hidden:  # the store may be away, or a token ended, and the outcome is recorded
                problem = hidden
        if problem is not None and self._on_unsealed == "refuse":
            raise NotSealed(
                f"{effect.tool}: the outcome of {effect.id} is recorded, but no signed head covers it yet: {problem}. "
                "Call again to get it once that is mended",
            ) from problem

    def await_event(self, run_id: str, seq: int) -> None:
        """Waits until an event is under a signed head, whoever signs it; raises when none comes in time."""
        if self._thread is not None:
            self._thread.wait(self._patience)
        problem = self._await_covered(run_id, seq)
        if problem is not None:
            raise problem

    def _await_head(self, effect: Effect) -> IndelibleError | None:
        """Waits for a head that covers the effect's newest event."""
        newest = self._store.look([effect.ref]).effects[0]
        seq = effect.opened_seq if newest is None or newest.detail_seq is None else newest.detail_seq
        return self._await_covered(effect.run_id, seq)

    def _await_covered(self, run_id: str, seq: int) -> IndelibleError | None:
        """Waits for a head that covers an event; there is no bell for another process's, so it looks."""
        ends = time.monotonic() + self._patience.total_seconds()
        while time.monotonic() < ends:
            if self._is_covered(run_id, seq):
                return None
            time.sleep(_LOOK_EVERY)
        return self._not_covered()

    def _not_covered(self) -> NotSealed:
        return NotSealed(
            f"no signed head covered it within {self._patience.total_seconds():g} s; is a process with the key "
            "running? Start one: indelible worker"
        )

    def _is_covered(self, run_id: str, seq: int) -> bool:
        index = self._store.journal.index_of(self._tenant, run_id, seq)
        newest = self._store.journal.heads(self._tenant, 1)
        return index is not None and bool(newest) and parse_head(parse_note(newest[0]).text).size > index

    def close(self) -> None:
        """Seals what is left."""
        if self._thread is not None:
            self._thread.close()
        if self._cosigning is not None:
            self._cosigning.close()

    # On demand

    def signer(self) -> Signer:
        """Gives the signer, made on first use."""
        if self._signer is None:
            self._signer = self._make_signer()
        return self._signer

    def sealer(self, tenant: str | None = None) -> Sealer:
        """Gives what seals a tenant's journal."""
        return Sealer(
            self._store,
            tenant or self._tenant,
            self.signer(),
            lambda: self.mint.stamp(SYSTEM),
            cosign=None if self._cosigning is None else self._cosigning.offer,
        )

    def rotate_keys(self) -> None:
        """Puts a new key in the old one's place, on the record of every tenant's journal."""
        from indelible.journal.keys.rotating import rotate

        rotate(self._ring(), self._sealers)

    def revoke_key(self, name: str) -> None:
        """Declares a retired key worthless beyond what is signed now, on the record of every tenant's journal."""
        from indelible.journal.keys.ring import KeyRing
        from indelible.journal.keys.rotating import revoke

        ring = self._ring()
        if not isinstance(ring, KeyRing):
            raise KeyUnusable("a key in memory ends with its process, so there is nothing to revoke")
        revoke(ring, name, [(sealer, sealer.size()) for sealer in self._sealers()])

    def _sealers(self) -> list[Sealer]:
        """Gives what seals each journal that is kept here; one that was moved away is signed where it is now."""
        return [
            self.sealer(tenant) for tenant in self._store.journal.tenants() if not is_elsewhere(self._store, tenant)
        ]

    def _ring(self) -> Ring:
        """Gives the keys behind the signer, if they are ours to change."""
        ring: Ring | None = getattr(self.signer(), "ring", None)
        if ring is None or not hasattr(ring, "begin_rotation"):
            raise KeyUnusable("the signer of this ledger keeps its keys elsewhere; change them there")
        return ring

    def seal(self) -> Note | None:
        """Return a signed head over everything written so far; None while there is nothing.

        A client of a server has no key, and waits for the head that the server signs.

        Raises:
            NotSealed: The server signed none in time.
        """
        return self._await_servers_head() if is_remote(self._store.address) else self.sealer().seal()

    def _await_servers_head(self) -> Note | None:
        waiting = self._store.journal.waiting(self._tenant)  # first: what is taken in meanwhile is then counted twice
        goal = self._store.journal.tree(self._tenant).size + waiting
        ends = time.monotonic() + self._patience.total_seconds()
        while goal:
            newest = self.newest_head()
            if newest is not None and parse_head(newest.text).size >= goal:
                return newest
            if time.monotonic() > ends:
                raise self._not_covered()
            time.sleep(_LOOK_EVERY)
        return None

    def newest_head(self) -> Note | None:
        """Gives the newest signed head, whoever signed it."""
        newest = self._store.journal.heads(self._tenant, 1)
        return parse_note(newest[0]) if newest else None

    def seal_with_own_key(self) -> Note | None:
        """Seal the journal if its key is here, for `verify`: make no key and stop nothing. Return the newest head."""
        if self._has_key() and not is_elsewhere(self._store, self._tenant):
            return self.sealer().seal(is_stopping=False)
        return self.newest_head()

    def _has_key(self) -> bool:
        try:
            self._signer = self._signer or self._make_signer(is_new=False)
        except KeyUnusable as problem:
            log.debug("it is not sealed here: %s", problem)
            return False
        return True


class MakeSigner(Protocol):
    """Makes the signer of a journal, once it is needed."""

    def __call__(self, *, is_new: bool = True) -> Signer:
        """Return the signer; raise `KeyUnusable` if there is no key, unless `is_new` lets one be made."""


def signer_maker(store: Store, tenant: str, keys: str | Path | None, signer: Signer | None) -> MakeSigner:
    """Gives what makes the signer, once it is needed: the one given, one in memory, or one with keys in files."""

    def make(*, is_new: bool = True) -> Signer:
        if signer is not None:
            return signer
        # Only whoever signs loads a library of ciphers.
        from indelible.journal.keys.places import remember_place
        from indelible.journal.keys.ring import KeyRing
        from indelible.journal.keys.signer import MemorySigner, file_signer

        if store.address == ":memory:":
            return MemorySigner()
        ring = KeyRing.open(store.ledger_name, None if keys is None else Path(keys))
        if ring.current() is None:
            if is_remote(store.address):
                raise KeyUnusable(
                    f"the server signs this journal, and {ring.folder} has no key of it; seal there first, or "
                    "do this on the server's machine: indelible journal seal"
                )
            if not is_new or store.journal.heads(tenant, 1):
                raise KeyUnusable(
                    f"{ring.folder} has no key, and this journal is signed by one already; copy that folder from the "
                    "machine that signs, name another with INDELIBLE_KEYS, or let that machine seal"
                )
            ring.create(tenant)
        if store.file is not None:
            remember_place(store.file, store.ledger_name, keys)
        return file_signer(ring)

    return make


def _load_what_signing_needs() -> None:
    """Import what signing needs while the ledger is opened, and not while calls are made.

    A process that forks while another thread imports a module leaves its child that module locked for ever.
    """
    import indelible.journal.keys.places
    import indelible.journal.keys.ring
    import indelible.journal.keys.signer  # noqa: F401


def cosigning_with(witnesses: Sequence[Witness]) -> Cosigning | None:
    """Gives what asks these witnesses, or None when there are none."""
    if not witnesses:
        return None
    from indelible.journal.witnesses.cosigning import Cosigning

    return Cosigning(witnesses)
