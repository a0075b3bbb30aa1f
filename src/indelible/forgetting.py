"""What of a ledger must not be recorded, and what of it is to be forgotten: checks what a caller says and does it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from indelible.core.calls import check_run_id
from indelible.core.effects import Actor
from indelible.core.forgetting import Erasure, Hold
from indelible.core.redaction import Redactor, Rule, Screen, subject_mark
from indelible.engine import Engine
from indelible.errors import BadCall
from indelible.journal.erasing import Eraser

_MOST_REMEMBERED = 1000


class Forgetting:
    """Redacts and erases for one tenant; `key` gives the redaction key when it is first needed."""

    def __init__(self, engine: Engine, tenant: str, rules: Sequence[Rule] | None, key: Callable[[], bytes]) -> None:
        self._engine = engine
        self._tenant = tenant
        self._rules = tuple(rules or ())
        self._key = key
        self._redactors: dict[tuple[Rule, ...], Redactor] = {}

    # Before anything is recorded

    def redactor(self, rules: tuple[Rule, ...]) -> Redactor | None:
        """Gives what carries out these rules; None when there are none."""
        if not rules:
            return None
        redactor = self._redactors.get(rules)
        if redactor is None:
            redactor = Redactor(rules, self._key())
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
        rewrite: bool | None,
    ) -> Erasure:
        """Erases by run, event and field, or by subject."""
        _check_one_of("erase", run_id, subject, reason)
        if isinstance(fields, str):
            raise BadCall("fields is a list of names, for example fields=['args']")
        if run_id is not None:
            if force:
                raise BadCall("force goes with subject=…: it withdraws what waits; for a run, cancel its effects first")
            return self._eraser(rewrite).erase_run(run_id, seq=seq, fields=fields, by=by, reason=reason)
        assert subject is not None
        if seq is not None or fields is not None:
            raise BadCall("a subject is erased as a whole; seq and fields go with run_id")
        mark = self.subject_mark(subject)
        return self._eraser(rewrite).erase_subject(mark, by=by, reason=reason, force=force)

    def prune(
        self, before: datetime | timedelta, by: Actor, reason: str, dry_run: bool, rewrite: bool | None
    ) -> Erasure:
        """Erases what ended before a moment, or is older than an age."""
        _check_reason(reason)
        now = self._engine.mint.stamp(by).at
        if isinstance(before, timedelta):
            before = now - before
        if before.tzinfo is None or before > now:
            raise BadCall(f"before={before}: give an aware moment in the past, or an age such as timedelta(days=90)")
        return self._eraser(rewrite).prune(before, by=by, reason=reason, is_rehearsal=dry_run)

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

    def _eraser(self, rewrite: bool | None = None) -> Eraser:
        redactor = self.redactor(self._rules)
        say = str if redactor is None else redactor.text
        engine = self._engine
        return Eraser(engine.store, self._tenant, engine.write_alone, engine.mint, say, rewrite)


def _check_one_of(verb: str, run_id: str | None, subject: str | None, reason: str) -> None:
    if (run_id is None) == (subject is None):
        raise BadCall(f"{verb} run_id=… or subject=…, one of the two")
    _check_reason(reason)


def _check_reason(reason: str) -> None:
    if not reason:
        raise BadCall("say why: the reason goes on the record, for example reason='request of 3 May'")
