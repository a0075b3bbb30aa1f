"""Settlements of many effects at once: read rows, check them against the effects, and say what came of each. Pure.

A row names an effect in doubt, what became of it, and the evidence. All faults of all rows are found before anything is
settled, so that a file with a mistake changes nothing.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from indelible.core.effects.effect import Effect, Failed, Outcome, Succeeded
from indelible.core.effects.outcomes import outcome_json
from indelible.core.privacy.redaction import Screen
from indelible.core.values.canonical import encode, parse_strict
from indelible.errors import BadCall

COLUMNS = ("id", "key", "as", "value", "error", "error_type", "evidence", "attempt")
"""Names what a row may hold."""
SETTLED_AS_FAILED = "SettledAsFailed"
"""Is the error type of an effect that was settled as failed by hand."""

SettleCode = Literal[
    "settled",
    "would_settle",
    "already_settled",
    "bad_row",
    "duplicate",
    "unknown_effect",
    "several_effects",
    "settled_otherwise",
    "still_running",
    "not_in_doubt",
    "other_attempt",
]
GOOD: frozenset[SettleCode] = frozenset({"settled", "would_settle", "already_settled"})
"""Names the results that need nothing more to be done."""

_WHY: Mapping[SettleCode, str] = {
    "duplicate": "an earlier row names the same effect; leave one of the two out",
    "unknown_effect": "this tenant has no effect with this id or key; see: indelible effects list",
    "several_effects": "several effects have this key; name the one that you mean by its id",
    "settled_otherwise": "it is settled with another outcome, which stays; see: indelible effects show",
    "still_running": "its handler may be running; settle it when its lease has ended",
    "not_in_doubt": "only an effect in doubt can be settled; see: indelible effects show",
    "other_attempt": "another attempt was made since you looked; look at it again",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Says of one effect, by its id or its key, what became of it and how that is known."""

    line: int
    """Counts from 1: the line of the file, or the place in the list."""
    name: str
    outcome: Outcome
    evidence: str
    attempt: int | None = None
    """Is the attempt that was looked at; None for the newest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowResult:
    """Says what came of one row, or would: `code` for programs, `detail` for people.

    `effect` is how the effect stands now; None where a row names none.
    """

    line: int
    name: str
    code: SettleCode
    effect: Effect | None = None
    detail: str = ""

    @property
    def is_good(self) -> bool:
        """Is the effect settled as the row says, or could it be?"""
        return self.code in GOOD


@dataclass(frozen=True, slots=True)
class SettledAll:
    """Reports what came of many settlements, in the order of their rows.

    `has_more` says that a filter fits more effects than its limit.
    """

    results: tuple[RowResult, ...]
    has_more: bool = False

    @property
    def problems(self) -> tuple[RowResult, ...]:
        """Lists the rows that were not, or could not be, settled."""
        return tuple(result for result in self.results if not result.is_good)

    def count(self, *codes: SettleCode) -> int:
        """Count the results with one of these codes."""
        return sum(result.code in codes for result in self.results)


@dataclass(frozen=True, slots=True)
class ReadRows:
    """Holds the rows of a file or a list that can be understood, and a result for each that cannot."""

    rows: tuple[Row, ...]
    faults: tuple[RowResult, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Lists the ids and keys to look up."""
        return tuple(row.name for row in self.rows)


# Reading


def read_file(content: bytes) -> ReadRows:
    """Read rows from CSV with a header line, or from NDJSON with one object a line.

    Args:
        content: The file. One that begins with a brace is NDJSON. A byte order mark is ignored.

    Returns:
        The rows, and the faults with the numbers of their lines.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        line = content.count(b"\n", 0, problem.start) + 1
        return ReadRows((), (_bad(line, f"the file is not UTF-8, at byte {problem.start}; save it as UTF-8"),))
    return _sorted(_read_ndjson(text) if text.lstrip().startswith("{") else _read_csv(text))


def read_mappings(rows: Iterable[Mapping[str, Any]]) -> ReadRows:
    """Read rows from mappings with the names in `COLUMNS`; `value` is the value itself.

    Args:
        rows: What became of each effect.

    Returns:
        The rows, and the faults with their places, counted from 1.
    """
    return _sorted(_read_each(enumerate(rows, start=1)))


def _sorted(found: Iterable[Row | RowResult]) -> ReadRows:
    things = list(found)
    rows = tuple(one for one in things if isinstance(one, Row))
    faults = tuple(one for one in things if isinstance(one, RowResult))
    if not things:
        faults = (_bad(1, "there is no row; give one for each effect"),)
    return ReadRows(rows, faults)


def _read_ndjson(text: str) -> Iterator[Row | RowResult]:
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                content = parse_strict(line)
            except BadCall as problem:
                yield _bad(number, str(problem))
            else:
                yield from _read_each([(number, content)])


def _read_csv(text: str) -> Iterator[Row | RowResult]:
    """Read a table; a cell that is empty is not there, and `value` holds JSON."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    header: list[str] | None = None
    while True:
        line = reader.line_num + 1  # a quoted cell may go over several lines
        try:
            cells = next(reader, None)
        except csv.Error as problem:
            yield _bad(line, f"this is no CSV: {problem}; large values fit into NDJSON")
            return
        if cells is None:
            return
        if not any(cell.strip() for cell in cells):
            continue
        if header is None:
            header = [cell.strip().lower() for cell in cells]
            fault = _fault_in_header(header)
            if fault is not None:
                yield _bad(line, fault)
                return
        elif len(cells) != len(header):
            yield _bad(line, f"{len(cells)} cells, and the header has {len(header)}; quote cells that hold commas")
        else:
            yield from _read_cells(line, dict(zip(header, cells, strict=True)))


def _fault_in_header(header: Sequence[str]) -> str | None:
    demanded = "the first line names the columns: id or key, as, evidence, and value or error where you have them"
    unknown = [name for name in header if name not in COLUMNS]
    if unknown:
        return f"no such column: {', '.join(unknown)[:200]}; {demanded}"
    if len(set(header)) < len(header):
        return f"a column is named twice; {demanded}"
    if not {"id", "key"} & set(header) or not {"as", "evidence"} <= set(header):
        return demanded
    return None


def _read_cells(line: int, cells: Mapping[str, str]) -> Iterator[Row | RowResult]:
    content: dict[str, Any] = {name: cell.strip() for name, cell in cells.items() if cell.strip()}
    try:
        if "value" in content:
            content["value"] = parse_strict(content["value"])
        if "attempt" in content:
            content["attempt"] = int(content["attempt"])
    except BadCall as problem:
        yield _bad(line, f'value: {problem}; a text needs its own quotes: """done"""', _name_in(content))
    except ValueError:
        yield _bad(line, "attempt: a whole number is expected", _name_in(content))
    else:
        yield from _read_each([(line, content)])


def _read_each(rows: Iterable[tuple[int, Any]]) -> Iterator[Row | RowResult]:
    for line, content in rows:
        try:
            yield _row(line, content)
        except BadCall as problem:
            yield _bad(line, str(problem), _name_in(content))


def _row(line: int, content: Any) -> Row:
    if not isinstance(content, Mapping):
        raise BadCall("a row is an object with an id or a key, as, and evidence")
    unknown = [str(name) for name in content if name not in COLUMNS]
    if unknown:
        raise BadCall(f"no such column: {', '.join(unknown)[:200]}; a row may hold {', '.join(COLUMNS)}")
    if ("id" in content) == ("key" in content):
        raise BadCall("name the effect by its id or by its key, by one of the two")
    attempt = content.get("attempt")
    if attempt is not None and (type(attempt) is not int or attempt < 1):
        raise BadCall("attempt: a whole number from 1 on is expected")
    evidence = _text(content, "evidence")
    return Row(
        line=line,
        name=_text(content, "id" if "id" in content else "key"),
        outcome=outcome_of(content.get("as"), content, evidence),
        evidence=evidence,
        attempt=attempt,
    )


def outcome_of(status: object, content: Mapping[str, Any], evidence: str) -> Outcome:
    """Return the outcome that a status with a value or an error means.

    Args:
        status: `succeeded` or `failed`.
        content: May hold `value` with the first, and `error` with the second.
        evidence: The error where none is given.

    Returns:
        What became of the effect.

    Raises:
        BadCall: The status is another one, or does not go with what is given.
    """
    if status == "succeeded":
        if "error" in content or "error_type" in content:
            raise BadCall("error does not go with as=succeeded; give a value, or as=failed")
        return Succeeded(content.get("value"))
    if status == "failed":
        if "value" in content:
            raise BadCall("value does not go with as=failed; give an error, or as=succeeded")
        kind = _text(content, "error_type") if "error_type" in content else SETTLED_AS_FAILED
        return Failed(_text(content, "error") if "error" in content else evidence, kind)
    raise BadCall("as: say succeeded or failed")


def _text(content: Mapping[str, Any], name: str) -> str:
    value = content.get(name)
    if not isinstance(value, str) or not value:
        raise BadCall(f"{name}: a text that is not empty is expected")
    return value


def _name_in(content: Any) -> str:
    """Return the id or key in a row that cannot be read, for its report."""
    named = (content.get(name) for name in ("id", "key")) if isinstance(content, Mapping) else ()
    return next((name for name in named if isinstance(name, str)), "")


def _bad(line: int, detail: str, name: str = "") -> RowResult:
    return RowResult(line=line, name=name, code="bad_row", detail=detail)


# Checking


def judge(effect: Effect, outcome: Outcome, now: datetime, screen: Screen | None = None) -> SettleCode:
    """Decide what a settlement of an effect would come to, as the effect stands.

    Args:
        effect: The effect as it was seen last.
        outcome: What became of it.
        now: The store's time.
        screen: Stands between the outcome and the record, where there is one.

    Returns:
        `would_settle`, `already_settled` for an equal outcome, or why not.

    Raises:
        BadCall: The outcome has no recorded form.
    """
    recorded = outcome_json(outcome, screen)
    if effect.status == "in_doubt" or effect.is_abandoned(now):
        return "would_settle"
    if effect.is_settled:
        status = "succeeded" if isinstance(outcome, Succeeded) else "failed"
        is_equal = (effect.status, effect.detail_json) == (status, recorded)
        return "already_settled" if is_equal else "settled_otherwise"
    return "still_running" if effect.status == "processing" else "not_in_doubt"


@dataclass(frozen=True, slots=True)
class Planned:
    """Pairs a row with the effect that it names and what its settlement would come to."""

    row: Row
    effect: Effect
    code: SettleCode

    def came_to(self, code: SettleCode, effect: Effect | None = None) -> RowResult:
        """Report a result of this row."""
        row, now = self.row, effect or self.effect
        return RowResult(line=row.line, name=row.name, code=code, effect=now, detail=_WHY.get(code, ""))


@dataclass(frozen=True, slots=True)
class Plan:
    """Holds the rows that can be settled or are settled so, and a result for each that cannot."""

    planned: tuple[Planned, ...]
    faults: tuple[RowResult, ...]

    @property
    def to_settle(self) -> tuple[Planned, ...]:
        """Lists the rows that are to be settled."""
        return tuple(one for one in self.planned if one.code == "would_settle")

    def report(self, settled: Mapping[int, RowResult], *, has_more: bool = False) -> SettledAll:
        """Report all rows in their order; `settled` holds what came of those that were settled, by line."""
        results = [settled.get(one.row.line) or one.came_to(one.code) for one in self.planned]
        return SettledAll(tuple(sorted([*results, *self.faults], key=lambda one: one.line)), has_more)


@dataclass(frozen=True, slots=True)
class Named:
    """Holds the effects that names mean, and the names that mean several: a key is unique only in its scope."""

    effects: Mapping[str, Effect]
    of_several: frozenset[str] = frozenset()

    @classmethod
    def among(cls, found: Iterable[tuple[str, Effect]]) -> Named:
        """Sort names with the effects that bear them; one effect may be found more than once."""
        effects: dict[str, Effect] = {}
        of_several: set[str] = set()
        for name, effect in found:
            if effects.setdefault(name, effect).id != effect.id:
                of_several.add(name)
        return cls(effects, frozenset(of_several))

    def fault_of(self, name: str) -> SettleCode | None:
        """Say why a name means no one effect, or None if it means one."""
        if name in self.of_several:
            return "several_effects"
        return None if name in self.effects else "unknown_effect"


def plan(read: ReadRows, named: Named, now: datetime, screen_of: Callable[[Effect], Screen | None]) -> Plan:
    """Check rows against the effects that they name.

    Args:
        read: The rows, and what cannot be read of them.
        named: The effects by the ids and keys that the rows name.
        now: The store's time.
        screen_of: Returns what stands between an effect's outcome and the record.

    Returns:
        What is to be settled, and every fault.
    """
    planned: list[Planned] = []
    faults = list(read.faults)
    seen: set[str] = set()
    for row in read.rows:
        fault = named.fault_of(row.name)
        if fault is not None:
            faults.append(RowResult(line=row.line, name=row.name, code=fault, detail=_WHY[fault]))
            continue
        effect = named.effects[row.name]
        try:
            code = judge(effect, row.outcome, now, screen_of(effect))
            encode(row.evidence, root="evidence")
        except BadCall as problem:
            faults.append(_bad(row.line, str(problem), row.name))
            continue
        is_other = code == "would_settle" and row.attempt not in (None, effect.attempt)
        one = Planned(row, effect, "duplicate" if effect.id in seen else "other_attempt" if is_other else code)
        seen.add(effect.id)
        if one.code in GOOD:
            planned.append(one)
        else:
            faults.append(one.came_to(one.code))
    return Plan(tuple(planned), tuple(faults))


def said(result: RowResult) -> str:
    """Write a fault in one line, with its place."""
    name = f"{result.name}: " if result.name else ""
    return f"line {result.line}: {name}{result.detail} ({result.code})"
