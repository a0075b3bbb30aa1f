"""What of a ledger must not be recorded, and what of it is to be forgotten: checks what a caller says and does it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from indelible.core.effects.calls import check_run_id
from indelible.core.effects.effect import Actor
from indelible.core.ports import time_in
from indelible.core.privacy.forgetting import Erasure, Hold
from indelible.core.privacy.redaction import Redactor, Rule, Screen, subject_mark
from indelible.engine.engine import Engine
from indelible.errors import BadCall
from indelible.journal.erasures.erasing import Eraser

if TYPE_CHECKING:
    from indelible.journal.keys.data_keys import DataKeys

_MOST_REMEMBERED = 1000
_CLOCKS_DIFFER = timedelta(minutes=1)
"""Is by how much the clocks of a caller and of the store may differ where a caller names this moment."""
_PAGE = 200


class Forgetting:
    """Redacts and erases for one tenant; `key` gives the redaction key when it is first needed."""

    def __init__(
        self,
        engine: Engine,
        tenant: str,
        rules: Sequence[Rule] | None,
        key: Callable[[], bytes],
        data_keys: DataKeys | None = None,
    ) -> None:
        self._data_keys = data_keys
        self._engine = engine
        self._tenant = tenant
        self._rules = tuple(rules or ())
        self._key = key
        self._redactors: dict[tuple[Rule, ...], Redactor] = {}
        self.progress: Callable[[int], None] = lambda done: None
        """Is told how many payloads an erasure has erased so far."""

    # Before anything is recorded

    def redactor(self, rules: tuple[Rule, ...]) -> Redactor | None:
        """Gives what carries out these rules; None when there are none."""
        if not rules:
            return None
        redactor = self._redactors.get(rules)
        if redactor is None:
            redactor = Redactor(rules, self._key(), self._tenant)
            if len(self._redactors) < _MOST_REMEMBERED:
                self._redactors[rules] = redactor
        return redactor

    def screen(self, rules: tuple[Rule, ...]) -> Screen | None:
        """Gives what stands between a person's words about a call and the record; its own secrets are not known."""
        redactor = self.redactor(rules)
        return None if redactor is None else redactor.screen(b"{}")

    def subject_mark(self, subject: str) -> bytes:
        """Gives what is recorded of a subject."""
        return subject_mark(self._key(), self._tenant, subject)

    # Afterwards

    def erase(
        self,
        run_id: str | None,
        seq: int | None,
        fields: Sequence[str] | None,
        subject: str | None,
        by: Actor,
        reason: str,
        force: bool,
        dry_run: bool,
        rewrite: bool | None,
    ) -> Erasure:
        """Erases by run, event and field, or by subject."""
        _check_one_of("erase", run_id, subject, reason)
        if isinstance(fields, str):
            raise BadCall("fields is a list of names, for example fields=['args']")
        if run_id is not None:
            if force:
                raise BadCall("force goes with subject=…: it withdraws what waits; for a run, cancel its effects first")
            eraser = self._eraser(rewrite, is_rehearsal=dry_run)
            report = eraser.erase_run(run_id, seq=seq, fields=fields, by=by, reason=reason)
            if self._data_keys is None or dry_run:
                return report
            return self._without_run_key(run_id, self._data_keys, report)
        assert subject is not None
        if seq is not None or fields is not None:
            raise BadCall("a subject is erased as a whole; seq and fields go with run_id")
        mark = self.subject_mark(subject)
        report = self._eraser(rewrite, is_rehearsal=dry_run).erase_subject(mark, by=by, reason=reason, force=force)
        if self._data_keys is None or dry_run:
            return report
        return self._without_subject_key(mark, self._data_keys, report)

    def _without_run_key(self, run_id: str, keys: DataKeys, report: Erasure) -> Erasure:
        """Destroys the data key of a run of which nothing is left."""
        from indelible.core.privacy.encryption import holder_of_run

        holder = holder_of_run(self._key(), self._tenant, run_id)
        if self._is_left(run_id, holder):
            return _with_key_kept(report)
        keys.destroy(holder)
        return report

    def _without_subject_key(self, mark: bytes, keys: DataKeys, report: Erasure) -> Erasure:
        """Destroys the data key of a person about whom nothing is left; asked anew, for calls go on meanwhile."""
        from indelible.core.privacy.encryption import holder_of_subject

        if self._engine.store.forgetting.of_subject(self._tenant, mark):
            return _with_key_kept(report)
        keys.destroy(holder_of_subject(mark))
        return report

    def _is_left(self, run_id: str, holder: bytes) -> bool:
        """Is there a payload in this run that is encrypted with this holder's key?"""
        from indelible.core.privacy.encryption import holder_in

        store, after = self._engine.recorded, -1
        while events := store.events(self._tenant, run_id, after, _PAGE):
            after = events[-1].seq
            payloads = store.payloads(self._tenant, run_id, [event.seq for event in events])
            if any(holder_in(payload.value) == holder for payload in payloads):
                return True
        return False

    def prune(
        self, before: datetime | timedelta, by: Actor, reason: str, dry_run: bool, rewrite: bool | None
    ) -> Erasure:
        """Erases what ended before a moment, or is older than an age, by the store's clock."""
        _check_reason(reason)
        now = time_in(self._engine.store, self._tenant)
        latest = now + _CLOCKS_DIFFER
        if isinstance(before, timedelta):
            before, latest = now - before, now
        if before.tzinfo is None or before > latest:
            raise BadCall(f"before={before}: give an aware moment in the past, or an age such as timedelta(days=90)")
        return self._eraser(rewrite, is_rehearsal=dry_run).prune(before, by=by, reason=reason)

    def hold(self, run_id: str | None, subject: str | None, by: Actor, reason: str) -> Hold:
        """Places a hold."""
        _check_one_of("hold", run_id, subject, reason)
        if run_id is not None:
            check_run_id(run_id)
        mark = None if subject is None else self.subject_mark(subject)
        return self._eraser().place_hold(run_id, mark, by=by, reason=reason)

    def lift_hold(self, hold_id: str, by: Actor, reason: str) -> Hold:
        """Ends a hold."""
        _check_reason(reason)
        return self._eraser().lift_hold(hold_id, by=by, reason=reason)

    def holds(self) -> list[Hold]:
        """Lists the holds that stand."""
        return self._eraser().holds()

    def _eraser(self, rewrite: bool | None = None, *, is_rehearsal: bool = False) -> Eraser:
        redactor = self.redactor(self._rules)
        say = str if redactor is None else redactor.text
        engine = self._engine
        return Eraser(
            engine.store,
            self._tenant,
            engine.write_alone,
            engine.mint,
            say,
            rewrite,
            is_rehearsal,
            lambda done: self.progress(done),
        )


def _with_key_kept(report: Erasure) -> Erasure:
    remark = "the data key is kept, for something is left that needs it, so copies of the database can still be read"
    return replace(report, remarks=(*report.remarks, f"{remark}; erase again when it has ended"))


def _check_one_of(verb: str, run_id: str | None, subject: str | None, reason: str) -> None:
    if (run_id is None) == (subject is None):
        raise BadCall(f"{verb} run_id=… or subject=…, one of the two")
    named = subject if run_id is None else run_id
    if not isinstance(named, str):
        what = "subject" if run_id is None else "run_id"
        raise BadCall(f'{what}={named!r} is no text; write {what}="{named}"')
    _check_reason(reason)


def _check_reason(reason: str) -> None:
    if not reason:
        raise BadCall("say why: the reason goes on the record, for example reason='request of 3 May'")
