"""Exports a journal: as a bundle that verifies offline, a page for people, NDJSON, or tables; and single receipts."""

from __future__ import annotations

import json
from base64 import b64encode
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Literal

from indelible.core.filtering.filters import Query
from indelible.core.journal.receipts import Receipt
from indelible.core.ports import Store
from indelible.errors import BadCall
from indelible.journal.exports.bundle import write_bundle
from indelible.journal.exports.excerpt import Excerpt, Kind, Progress, Shown, newest_head
from indelible.journal.exports.flat import write_csv
from indelible.journal.exports.html_report import write_report
from indelible.journal.exports.outlet import new_bundle, new_file
from indelible.journal.exports.parquet_rows import write_parquet
from indelible.journal.exports.selecting import Disclosure, Selection, Whole
from indelible.journal.sealing import check_has_signed

Form = Literal["bundle", "html", "ndjson", "csv", "parquet"]
_PROVING: frozenset[Form] = frozenset({"bundle", "html"})
_TABLES: frozenset[Form] = frozenset({"csv", "parquet"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """Says what an export holds; `not_covered` counts events of the run that no signed head covers yet.

    `withheld` counts values that were left out. Of these, `erased_since` were erased after the head was signed.
    """

    path: Path
    form: Form
    kind: Kind
    origin: str
    size: int
    first: int | None
    last: int | None
    events: int
    payloads: int
    withheld: int
    erased_since: int
    not_covered: int


def export(
    store: Store,
    tenant: str,
    out: str | Path,
    *,
    form: Form = "bundle",
    selection: Selection | None = None,
    disclosure: Disclosure | None = None,
    query: Query | None = None,
    force: bool = False,
    made_at: datetime | None = None,
    progress: Progress | None = None,
) -> Exported:
    """Writes what the newest signed head covers, or a part of it, to `out`: complete, or not at all.

    Events that wait for a head are not in it, so seal first. `query` keeps only events that it asks for, in forms
    that prove nothing about what is left out. Raises `JournalError` when nothing was signed yet, `BadCall` when nothing
    is selected or `out` is taken. Raises `SignerRefused` when the database lacks what was signed, but for tables, which
    prove nothing.
    """
    query = query if query is not None and query.terms else None
    check_form(form, query)
    if form not in _TABLES:
        check_has_signed(store, tenant)
    note, head = newest_head(store, tenant)
    excerpt = Excerpt(
        store, tenant, selection or Whole(), disclosure or Disclosure(), note, head, query=query, progress=progress
    )
    _write(excerpt, Path(out), form, made_at or datetime.now(UTC), force=force)
    tally = excerpt.tally
    return Exported(
        path=Path(out),
        form=form,
        kind=excerpt.kind,
        origin=head.origin,
        size=head.size,
        first=tally.first,
        last=tally.last,
        events=tally.events,
        payloads=tally.payloads,
        withheld=tally.withheld,
        erased_since=tally.erased_since,
        not_covered=tally.not_covered,
    )


def check_form(form: Form, query: Query | None) -> None:
    """Raises `BadCall` for a filter in a form that proves that nothing is left out."""
    if query is not None and query.terms and form in _PROVING:
        raise BadCall(f"a {form} leaves nothing out of what it covers; choose a run or a period, or export csv")


def save_receipt(made: Receipt, out: str | Path, *, force: bool = False) -> None:
    """Writes a receipt to a file: complete, or not at all."""
    with new_file(Path(out), force=force) as file:
        file.write(str(made).encode())


def write_ndjson(excerpt: Excerpt, out: IO[bytes]) -> None:
    """Writes one line per event, its body byte for byte as it was hashed.

    The last line is the signed head, and how many values were withheld.
    """
    for shown in excerpt.read():
        out.write(_ndjson_line(shown))
    out.write(_json({"head": str(excerpt.note), "withheld": excerpt.tally.withheld}) + b"\n")


def _ndjson_line(shown: Shown) -> bytes:
    entry = shown.entry
    beside: dict[str, Any] = {"index": entry.index}
    if shown.payloads:
        beside["payloads"] = {
            payload.field: {"salt": payload.salt.hex(), "value": b64encode(payload.value).decode()}
            for payload in shown.payloads
        }
    if entry.signature is not None:
        beside["signature"] = b64encode(entry.signature).decode()
    return b'{"event":' + entry.body + b"," + _json(beside)[1:] + b"\n"


def _write(excerpt: Excerpt, out: Path, form: Form, made_at: datetime, *, force: bool) -> None:
    if form == "bundle":
        with new_bundle(out, force=force) as files:
            write_bundle(excerpt, files, made_at)
        return
    with new_file(out, force=force) as file:
        match form:
            case "html":
                write_report(excerpt, file, made_at)
            case "ndjson":
                write_ndjson(excerpt, file)
            case "csv":
                write_csv(excerpt, file)
            case "parquet":
                write_parquet(excerpt, file)


def _json(content: object) -> bytes:
    return json.dumps(content, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()
