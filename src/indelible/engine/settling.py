"""Settles many effects in doubt, and chooses those whose probes are asked. It holds no rules: the core plans."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from indelible.core.commands import Answer, Settle
from indelible.core.effects.effect import Actor, Effect, Failed, Outcome, Succeeded
from indelible.core.effects.identity import Ref
from indelible.core.effects.reconciling import Reconciled, Selection
from indelible.core.effects.requests import Request, Submit
from indelible.core.effects.settlements import (
    Named,
    Plan,
    Planned,
    ReadRows,
    Row,
    RowResult,
    SettledAll,
    judge,
    plan,
    read_file,
    read_mappings,
    said,
)
from indelible.core.ports import Filter, time_in
from indelible.engine.engine import _refuse_inside_transaction
from indelible.engine.finding import Finding, Found, everything
from indelible.engine.writer import MOST_AT_ONCE, MOST_BYTES_AT_ONCE
from indelible.errors import BadCall, BadSettlements, IllegalMove, UnknownEffect

if TYPE_CHECKING:
    from indelible.engine.desk import Desk

Chosen = str | Path | bytes | Iterable[Mapping[str, Any]]
"""Says what to settle: a filter as text, a file by its path or its content, or rows."""
Progress = Callable[[int, int], None]
"""Is told how many are done, and of how many."""
MOST_READ = 10_000
"""Is how many effects in doubt are looked at for those that a probe can be asked about."""
_MANY = 50
_MANY_KEYS = 4
_PAGE = 1000
_MOST_SHOWN = 20


class Settling:
    """Settles many effects of one tenant."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._engine = desk._engine
        self._tenant = desk.tenant

    # Many settlements

    def settle_all(
        self,
        chosen: Chosen,
        outcome: Outcome | None,
        *,
        by: Actor | str,
        evidence: str | None,
        limit: int,
        dry_run: bool,
        skip_bad: bool,
        progress: Progress | None,
    ) -> SettledAll:
        """Settle effects by a filter, a file or rows; see `Ledger.settle_all`."""
        _refuse_inside_transaction(self._engine.store)
        has_more = False
        if isinstance(chosen, str):
            read, named, has_more = self._by_filter(chosen, _checked(outcome), _evident(evidence), limit)
        else:
            if outcome is not None or evidence is not None:
                raise BadCall("outcome and evidence go with a filter; each row of a file or list has its own")
            read = _read(chosen)
            named = self._named(read.names)
        planned = plan(read, named, self._now(), self._desk._screen_of)
        if dry_run:
            return planned.report({}, has_more=has_more)
        if planned.faults and not skip_bad and not isinstance(chosen, str):
            raise _refused(planned)
        return planned.report(self._write(planned.to_settle, by, progress), has_more=has_more)

    def _by_filter(self, text: str, outcome: Outcome, evidence: str, limit: int) -> tuple[ReadRows, Named, bool]:
        """Find effects in doubt that fit, and make a row of each, bound to the attempt that was found."""
        from indelible.core.filtering.reading import parse

        query = parse(text, "effects")
        if not query.terms:
            raise BadCall("an empty filter would settle everything that is in doubt; say so with status:in_doubt")
        finding = Finding.of(self._desk)
        selected = Filter(status="in_doubt")

        def page(before: str | None, count: int) -> Found[Effect, str]:
            return finding.effects(query, replace(selected, before=before, limit=count))

        found = everything(page, None, limit)
        rows = [
            Row(line=number, name=effect.id, outcome=outcome, evidence=evidence, attempt=effect.attempt)
            for number, effect in enumerate(found.things, start=1)
        ]
        named = Named({effect.id: effect for effect in found.things})
        return ReadRows(tuple(rows), ()), named, found.next is not None

    def _named(self, names: Sequence[str]) -> Named:
        """Find effects by whole ids and keys: many of them page by page, and those that are left one by one."""
        from indelible.engine.desk import is_key

        keys = {name for name in names if is_key(name)}
        ids = set(names) - keys
        found: list[tuple[str, Effect]] = []
        if len(ids) > _MANY:
            found += self._in_pages(ids, Filter(status="in_doubt", limit=_PAGE), most=len(ids) // 100 + 1)
        if len(keys) > _MANY_KEYS:
            # A key is not indexed without its scope, so several keys are worth a pass over all effects.
            found += self._in_pages(keys, Filter(limit=_PAGE))
            keys = set()
        of_several = set()
        for name in (ids | keys).difference(name for name, _ in found):
            try:
                effect = self._desk._find(name)
            except UnknownEffect:
                continue
            except BadCall:  # it is the key, or the beginning of the ids, of several
                of_several |= {name} & keys
                continue
            if name in (effect.id, effect.key):
                found.append((name, effect))
        named = Named.among(found)
        return replace(named, of_several=named.of_several | of_several)

    def _in_pages(self, names: set[str], selected: Filter, most: int | None = None) -> Iterator[tuple[str, Effect]]:
        """Look for effects by id or key in the pages of a list: all of them, as several may share a key, or `most`."""
        for _ in count() if most is None else range(most):
            page = self._engine.store.effects(self._tenant, selected)
            yield from ((name, effect) for effect in page for name in (effect.id, effect.key) if name in names)
            if len(page) < _PAGE:
                break
            selected = replace(selected, before=page[-1].id)

    def _write(self, rows: Sequence[Planned], by: Actor | str, progress: Progress | None) -> dict[int, RowResult]:
        """Settle rows in a few transactions; one that was moved meanwhile is reported, and stops no other."""
        results: dict[int, RowResult] = {}
        for batch in _batches([_Settlement(one, self._desk, by) for one in rows]):
            commands = [one.command for one in batch]
            known: dict[Ref, Effect | None] = {one.planned.effect.ref: one.planned.effect for one in batch}
            answers = self._engine.writer.do_together(commands, known)
            for one, answer in zip(batch, answers, strict=True):
                results[one.planned.row.line] = self._ended(one, answer)
            if progress is not None:
                progress(len(results), len(rows))
        return results

    def _ended(self, one: _Settlement, answer: Answer) -> RowResult:
        try:
            return one.planned.came_to("settled", one.ended_with(answer))
        except IllegalMove as illegal:  # another process moved it after we looked
            now = illegal.effect or one.planned.effect
            code = judge(now, one.planned.row.outcome, self._now(), self._desk._screen_of(now))
            return one.planned.came_to("other_attempt" if code == "would_settle" else code, now)
        except UnknownEffect:
            return one.planned.came_to("unknown_effect")

    def _now(self) -> datetime:
        return time_in(self._engine.store, self._tenant)

    # Whose probes are asked

    def to_ask(self, selection: Selection, named: Iterable[str | Effect] | None) -> list[Effect]:
        """Choose the effects whose probes are asked: those that are named, or those that are in doubt and fit."""
        if named is not None:
            effects = [self._desk._find(name) for name in named]
        else:
            effects = self._engine.store.abandoned(self._tenant, max(selection.limit, MOST_READ))
        return selection.chosen(effects, {one.tool for one in effects if self._desk._probe_of(one) is not None})

    def would_ask(self, effect: Effect) -> Reconciled:
        """Report an effect whose probe would be asked."""
        has_probe = self._desk._probe_of(effect) is not None
        return Reconciled(effect=effect, code="would_ask" if has_probe else "no_probe")


class _Settlement:
    """Holds the walk of one settlement at the command that it wants written, so that many are written together."""

    def __init__(self, planned: Planned, desk: Desk, by: Actor | str) -> None:
        self.planned = planned
        row = planned.row
        self._walk: Generator[Request, Any, Effect] = desk._settle(planned.effect, row.outcome, by, row.evidence)
        asked = next(self._walk)
        assert isinstance(asked, Submit), "a settlement is one command"
        assert isinstance(asked.command, Settle), "a settlement is one command"
        self.command: Settle = asked.command

    @property
    def size(self) -> int:
        return len(self.command.detail_json) + len(self.command.evidence_json)

    def ended_with(self, answer: Answer) -> Effect:
        """Return the settled effect, or raise why it could not be settled."""
        try:
            self._walk.send(answer)
        except StopIteration as end:
            settled: Effect = end.value
            return settled
        raise AssertionError("a settlement is one command")


def _batches(settlements: Iterable[_Settlement]) -> Iterator[list[_Settlement]]:
    """Divide settlements so that each transaction has no more commands and bytes than the writer takes at once."""
    batch: list[_Settlement] = []
    size = 0
    for one in settlements:
        if batch and (len(batch) == MOST_AT_ONCE or size + one.size > MOST_BYTES_AT_ONCE):
            yield batch
            batch, size = [], 0
        batch.append(one)
        size += one.size
    if batch:
        yield batch


def _read(chosen: Path | bytes | Iterable[Mapping[str, Any]]) -> ReadRows:
    if isinstance(chosen, Path):
        try:
            return read_file(chosen.read_bytes())
        except OSError as problem:
            raise BadCall(f"{chosen} cannot be read: {problem.strerror or problem}") from problem
    return read_file(chosen) if isinstance(chosen, bytes) else read_mappings(chosen)


def _checked(outcome: Outcome | None) -> Outcome:
    if not isinstance(outcome, Succeeded | Failed):
        raise BadCall(f"settle with Succeeded(value) or Failed(error), not {type(outcome).__name__}")
    return outcome


def _evident(evidence: str | None) -> str:
    if not evidence:
        raise BadCall("settle needs evidence: say how you know, for example the provider's report")
    return evidence


def _refused(planned: Plan) -> BadSettlements:
    problems = [said(fault) for fault in sorted(planned.faults, key=lambda one: one.line)]
    more = f"\n  … and {len(problems) - _MOST_SHOWN} more" if len(problems) > _MOST_SHOWN else ""
    return BadSettlements(
        f"nothing was settled: {len(problems)} of the rows cannot be. Correct them, or settle the others alone with "
        "skip_bad:\n  " + "\n  ".join(problems[:_MOST_SHOWN]) + more,
        problems=problems,
    )
