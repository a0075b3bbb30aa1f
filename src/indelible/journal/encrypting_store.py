"""A store as those see it who have the data keys: values go in encrypted and come out in clear.

It stands between the shells and the real store, so no shell knows of it: whatever they write about an effect passes
here, and whatever they learn of one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from indelible.core.commands import (
    Adopt,
    Amend,
    Answer,
    ArgsErased,
    Attend,
    CastVote,
    Claimed,
    Command,
    Expire,
    Keep,
    Open,
    Record,
    Relinquish,
    ShowTo,
    run_named_by,
)
from indelible.core.effects.effect import ENDED, Claim, Effect
from indelible.core.effects.identity import Ref
from indelible.core.events import Event, Payload
from indelible.core.journal.journal import JournalStore
from indelible.core.macs import Macs
from indelible.core.ports import Alarm, Compare, Filter, Outline, Seen, Store, Transaction
from indelible.core.privacy.encryption import (
    DATA_KEY_BYTES,
    DataKey,
    encrypted_command,
    holder_in,
    holder_of_run,
    holder_of_subject,
    key_in,
    opened_answer,
    opened_effect,
)
from indelible.core.privacy.forgetting import ForgettingStore
from indelible.core.runs.commands import StartRun, Tell
from indelible.core.sheets import Sheet, SheetFilter
from indelible.errors import StoreError
from indelible.journal.keys.data_keys import DataKeys
from indelible.journal.keys.files import data_keys_folder

_MOST_REMEMBERED = 10_000


def encrypting_view(
    store: Store, folder: Path | None, redaction_key: Callable[[], bytes], *, is_encrypting: bool
) -> EncryptingStore:
    """Gives a ledger's store as those see it who have its data keys."""
    keys = DataKeys(None if store.address == ":memory:" else data_keys_folder(store.ledger_name, folder))
    return EncryptingStore(store, keys, redaction_key, is_encrypting=is_encrypting)


class EncryptingStore:
    """Encrypts for a ledger: new effects if `is_encrypting`, and in any case what is said of encrypted ones."""

    def __init__(
        self, store: Store, keys: DataKeys, redaction_key: Callable[[], bytes], *, is_encrypting: bool
    ) -> None:
        self._store = store
        self.keys = keys
        self._redaction_key = redaction_key
        self._is_encrypting = is_encrypting
        self._holders: dict[Ref, bytes] = {}
        self.address = store.address
        self.file = store.file
        self.ledger_name = store.ledger_name
        self.is_cheap_to_read = store.is_cheap_to_read
        self.unseen_kinds = store.unseen_kinds

    def origin(self, tenant: str) -> str:
        """Names a tenant's journal."""
        return self._store.origin(tenant)

    # What is written

    def apply(self, tenant: str, commands: Sequence[Command], known: Sequence[Effect | None]) -> list[Answer]:
        """Encrypts, writes, and answers in clear."""
        answers = self._store.apply(tenant, [self.encrypted(command) for command in commands], known)
        return [self._answered(*pair) for pair in zip(commands, answers, strict=True)]

    def encrypted(self, command: Command) -> Command:
        """Gives a command as it goes on the record."""
        if isinstance(command, CastVote) and command.is_approval:
            command = replace(command, can_read=self._can_read(command.ref))
        key = self._key_for(command)
        ready = command if key is None else encrypted_command(command, key)
        telling = command.telling if isinstance(command, StartRun) else None
        if isinstance(ready, StartRun) and telling is not None:
            told = self.encrypted(telling)  # with the key of the parent, whose record it joins
            assert isinstance(told, Tell)
            return replace(ready, to_parent_json=told.happenings[0].payload_json)
        edit = command.edit if isinstance(command, Open) else None
        if isinstance(ready, Open) and edit is not None and edit.is_exact:
            return replace(ready, edit=replace(edit, args_json=self._as_recorded(command.ref, edit.args_json)))
        return ready

    def _as_recorded(self, ref: Ref, args_json: bytes) -> bytes:
        """Return arguments under the key of those that an effect has, so that equal ones are equal bytes."""
        effect = self._store.look([ref]).effects[0]
        used = None if effect is None else key_in(effect.args_json)
        key = None if used is None else self.keys.find(used)
        return args_json if key is None else key.encrypt(args_json, ref, "args")

    def _can_read(self, ref: Ref) -> bool:
        effect = self._store.look([ref]).effects[0]
        return effect is not None and not self._opened(effect).are_args_erased

    def opened(self, answer: Answer) -> Answer:
        """Gives an answer as its caller may see it."""
        effect = answer.claim.effect if isinstance(answer, Claimed) else getattr(answer, "effect", None)
        if effect is not None:
            self._note_holder(effect)
        return opened_answer(answer, self.keys.find)

    def _key_for(self, command: Command) -> DataKey | None:
        if isinstance(command, Expire | Record | Keep | ShowTo | Attend):
            return None
        if isinstance(command, Open):
            return self._key_for_opening(command) if self._is_encrypting else None
        run_id = run_named_by(command)
        if run_id is not None and not self._is_encrypting:
            return None
        if isinstance(command, Adopt) and command.subject_json is not None:
            return self.keys.make(holder_of_subject(command.subject_json))
        if run_id is not None:
            return self.keys.make(self._run_holder(command.ref.tenant, run_id))
        holder = self._holder_of(command.ref)
        if holder is not None and isinstance(command, Amend) and command.subject_json is not None:
            holder = holder_of_subject(command.subject_json)
        return None if holder is None else self.keys.make(holder)

    def _key_for_opening(self, command: Open) -> DataKey:
        subject = command.subject_read
        holder = self._run_holder(command.ref.tenant, command.run_id) if subject is None else holder_of_subject(subject)
        key = self.keys.current(holder)
        if key is not None:
            return key
        found = self._store.look([command.ref]).effects[0]
        if found is not None and (found.status in ENDED or found.are_args_erased):
            # Nothing is recorded of a call that has ended: a person who was erased, and whose call is only made again,
            # gets no new key. As long as it is open, a question may record its arguments anew.
            return DataKey(holder, os.urandom(DATA_KEY_BYTES))
        return self.keys.make(holder)

    def _holder_of(self, ref: Ref) -> bytes | None:
        """Gives whose key the values of an effect are encrypted with: all of them with that of its arguments."""
        known = self._holders.get(ref)
        if known is not None:
            return known
        effect = self._store.look([ref]).effects[0]
        if effect is None:
            return None
        holder = holder_in(effect.args_json) or holder_in(effect.detail_json)
        if holder is None and self._is_encrypting:
            holder = self._run_holder(effect.tenant, effect.run_id)
        if holder is not None:
            self._remember(ref, holder)
        return holder

    def _run_holder(self, tenant: str, run_id: str) -> bytes:
        return holder_of_run(self._redaction_key(), tenant, run_id)

    def _note_holder(self, effect: Effect) -> None:
        """Remembers whose key it is, which spares a look when the effect ends."""
        holder = holder_in(effect.args_json)
        if holder is not None:
            self._remember(effect.ref, holder)

    def _remember(self, ref: Ref, holder: bytes) -> None:
        if len(self._holders) >= _MOST_REMEMBERED:
            self._holders = {}
        self._holders[ref] = holder

    def _answered(self, command: Command, recorded: Answer) -> Answer:
        """Gives the answer in clear; a claim on arguments that nobody can open is given back, for nothing could run."""
        answer = self.opened(recorded)
        if not isinstance(answer, Claimed) or answer.claim.effect.args_json is not None:
            return answer
        assert isinstance(recorded, Claimed)
        reason = b'"its arguments were erased"'
        back = Relinquish(claim=recorded.claim, stamp=command.stamp, status="ready", detail_json=reason)
        with suppress(StoreError):  # then it ends with its lease
            self._store.apply(command.ref.tenant, [back], [None])
        return ArgsErased(answer.claim.effect)

    @contextmanager
    def transaction(self, tenant: str) -> Iterator[Transaction]:
        """Opens a transaction of the caller's own, in which the settlement is encrypted too."""
        with self._store.transaction(tenant) as inner:
            yield _EncryptingTransaction(inner, self)

    # What is read of effects

    def _opened(self, effect: Effect) -> Effect:
        self._note_holder(effect)
        return opened_effect(effect, self.keys.find)

    def _opened_if_any(self, effect: Effect | None) -> Effect | None:
        return None if effect is None else self._opened(effect)

    def look(self, refs: Sequence[Ref]) -> Seen:
        """Gives the committed state of each effect, in clear."""
        seen = self._store.look(refs)
        return Seen(seen.now, [self._opened_if_any(effect) for effect in seen.effects])

    def watch(self, refs: Sequence[Ref]) -> Seen:
        """Does what `look` does, and lets moves by other processes ring the alarm."""
        seen = self._store.watch(refs)
        return Seen(seen.now, [self._opened_if_any(effect) for effect in seen.effects])

    def get_effect(self, tenant: str, effect_id: str) -> Effect | None:
        """Gives the effect with this id, in clear."""
        return self._opened_if_any(self._store.get_effect(tenant, effect_id))

    def find_by_key(self, tenant: str, key: str, scope: str | None) -> Effect | None:
        """Gives the effect with this key, in clear."""
        return self._opened_if_any(self._store.find_by_key(tenant, key, scope))

    def effects(self, tenant: str, selected: Filter) -> list[Effect]:
        """Lists effects in clear, newest first."""
        return [self._opened(effect) for effect in self._store.effects(tenant, selected)]

    def abandoned(self, tenant: str, limit: int) -> list[Effect]:
        """Lists effects that nobody reported on, in clear."""
        return [self._opened(effect) for effect in self._store.abandoned(tenant, limit)]

    # What passes as it is

    def outlines(self, tenant: str, since: str, before: str | None, limit: int) -> list[Outline]:
        """Lists effects without what they recorded, newest first."""
        return self._store.outlines(tenant, since, before, limit)

    def alike(self, tenant: str, digests: Sequence[str], since: datetime, limit: int) -> list[Outline]:
        """List effects that say the same."""
        return self._store.alike(tenant, digests, since, limit)

    @property
    def sign_event(self) -> Callable[[bytes], bytes] | None:
        """Signs the events this process writes."""
        return self._store.sign_event

    @sign_event.setter
    def sign_event(self, sign: Callable[[bytes], bytes] | None) -> None:
        self._store.sign_event = sign

    @property
    def introduce(self) -> Callable[[str], Command] | None:
        """Gives the command that tells this process's key in a tenant's journal."""
        return self._store.introduce

    @introduce.setter
    def introduce(self, introduce: Callable[[str], Command] | None) -> None:
        self._store.introduce = introduce

    @property
    def macs(self) -> Callable[[str], Macs] | None:
        """Gives what makes and checks the macs of a tenant's rows."""
        return self._store.macs

    @macs.setter
    def macs(self, macs: Callable[[str], Macs] | None) -> None:
        self._store.macs = macs

    def has_macs(self) -> bool:
        """Say whether this ledger's rows carry macs."""
        return self._store.has_macs()

    @property
    def compare(self) -> Compare | None:
        """Compares a tenant's record with what was signed."""
        return self._store.compare

    @compare.setter
    def compare(self, compare: Compare | None) -> None:
        self._store.compare = compare

    @property
    def writer_id(self) -> str:
        """Names this process in the events it writes."""
        return self._store.writer_id

    @property
    def journal(self) -> JournalStore:
        """Is the keeper of the tree over the events."""
        return self._store.journal

    @property
    def forgetting(self) -> ForgettingStore:
        """Finds what may be erased."""
        return self._store.forgetting

    def heartbeat(self, claim: Claim, lease: timedelta) -> bool:
        """Extends the lease of a claim that holds."""
        return self._store.heartbeat(claim, lease)

    def events(self, tenant: str, run_id: str, after: int, limit: int) -> list[Event]:
        """Lists a run's events."""
        return self._store.events(tenant, run_id, after, limit)

    def payloads(self, tenant: str, run_id: str, seqs: Iterable[int]) -> list[Payload]:
        """Lists what events commit to, as it is recorded."""
        return self._store.payloads(tenant, run_id, seqs)

    def sheets(self, tenant: str, selected: SheetFilter) -> list[Sheet]:
        """Lists sheets, as they are recorded: they hold no arguments and no reasons."""
        return self._store.sheets(tenant, selected)

    def alarm(self) -> Alarm | None:
        """Gives a fresh alarm for changes by other processes."""
        return self._store.alarm()

    def close(self) -> None:
        """Gives everything back."""
        self._store.close()


class _EncryptingTransaction:
    """Is a handler's transaction whose settlement goes on the record encrypted."""

    def __init__(self, inner: Transaction, store: EncryptingStore) -> None:
        self._inner = inner
        self._store = store
        self.connection: Any = inner.connection

    def settle(self, command: Command) -> Answer:
        """Settles in the transaction."""
        return self._store.opened(self._inner.settle(self._store.encrypted(command)))

    def is_committed(self) -> bool:
        """Say whether the handler may have committed by itself."""
        return self._inner.is_committed()
