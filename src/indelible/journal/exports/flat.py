"""Events as flat rows, for tables, and as CSV (RFC 4180), safe to open in a spreadsheet."""

from __future__ import annotations

import csv
import json
from base64 import b64encode
from io import TextIOWrapper
from typing import IO, Any

from indelible.journal.exports.excerpt import Excerpt, Shown
from indelible.journal.exports.selecting import PAYLOAD_FIELDS

NUMBERS = ("index", "seq", "attempt")
COLUMNS = (
    *("index", "run", "seq", "at", "type", "status", "tool", "side_effect", "attempt", "effect", "on_crash"),
    *("actor_id", "actor_kind", "actor_via", "facts", "args", "result", "error", "reason", "evidence"),
    *("late_result", "late_error", "again", "policy", "approval", "grant", "charges", "delegation", "credential"),
    *("person", "provider", "stop", "subject", "origin", "payload", "side_effect_key", "state", "run_state"),
    *("checkpoint", "key", "not_shown", "hash", "prev", "writer", "signature"),
)
_RENAMED = {"run": "run_state"}  # a column named run says which run it is
_PLAIN = ("at", "type", "status", "tool", "side_effect", "effect", "on_crash", "prev", "writer")
Row = dict[str, int | str | None]
# What makes a spreadsheet take a cell for a formula, also in full-width letters; and the apostrophe itself, so that
# taking one away from every text that begins with one gives the text back.
_TAKEN_FOR_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠", "'")


def row_of(shown: Shown) -> Row:
    """Gives an event as one row; a body that cannot be read leaves only what stands beside it."""
    entry = shown.entry
    body = _fields_of(entry.body)
    row: Row = dict.fromkeys(COLUMNS)
    row |= {"index": entry.index, "run": entry.run_id, "seq": entry.seq, "hash": entry.hash}
    row |= {name: _text(body.get(name)) for name in _PLAIN}
    row["attempt"] = body["attempt"] if type(body.get("attempt")) is int else None
    row["facts"] = json.dumps(body["facts"], ensure_ascii=False, sort_keys=True) if "facts" in body else None
    actor = body.get("actor")
    if isinstance(actor, dict):
        row |= {f"actor_{name}": _text(actor.get(name)) for name in ("id", "kind", "via")}
    for payload in shown.payloads:
        if payload.field in PAYLOAD_FIELDS:
            is_key = payload.field == "key"
            value = payload.value.hex() if is_key else payload.value.decode("utf-8", "backslashreplace")
            row[_RENAMED.get(payload.field, payload.field)] = value
    commits = body.get("commits")
    if isinstance(commits, dict):
        row["not_shown"] = " ".join(sorted(commits.keys() - {payload.field for payload in shown.payloads})) or None
    row["signature"] = None if entry.signature is None else b64encode(entry.signature).decode()
    return row


def write_csv(excerpt: Excerpt, out: IO[bytes]) -> None:
    """Writes one line per event."""
    text = TextIOWrapper(out, encoding="utf-8", errors="backslashreplace", newline="", write_through=True)
    try:
        lines = csv.writer(text)
        lines.writerow(COLUMNS)
        for shown in excerpt.read():
            lines.writerow(_cells(row_of(shown)))
    finally:
        text.detach()  # the file stays the caller's to close


def _cells(row: Row) -> list[int | str | None]:
    return [row[name] if name in NUMBERS else harmless(row[name]) for name in COLUMNS]


def harmless(value: int | str | None) -> int | str | None:
    """Puts an apostrophe before a text that a spreadsheet would run as a formula."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_TAKEN_FOR_FORMULA) else value


def _fields_of(body: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(body)
    except ValueError:
        fields = None
    return fields if isinstance(fields, dict) else {"type": "unreadable"}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
