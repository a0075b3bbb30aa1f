"""Single files as evidence: an export line by line, or one receipt."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from indelible.core.journal.notes import MOST_NOTE_BYTES
from indelible.core.journal.tiles import WIDTH
from indelible.core.verifying.bodies import strict_json
from indelible.core.verifying.examination import Row
from indelible.core.verifying.findings import CannotTell, Caught
from indelible.core.verifying.payloads import Disclosed
from indelible.core.verifying.sheet_bodies import fits
from indelible.journal.evidence.bundle import decoded
from indelible.journal.evidence.evidence import Evidence, Proven


class LineEvidence(Evidence):
    """Reads an NDJSON export of a whole journal: an event to a line, the signed head last."""

    has_values = True

    def __init__(self, path: Path) -> None:
        self.source = str(path)
        self._path = path
        self._head = b""

    def prepare(self) -> None:
        """Find the head in the last line, with how many values were withheld."""
        with self._path.open("rb") as file:
            end = file.seek(0, 2)
            file.seek(max(0, end - 2 * MOST_NOTE_BYTES))
            last = file.read().splitlines(keepends=True)[-1:]
        if not last:
            raise CannotTell(f"{self.source} is empty: there is nothing to verify")
        content = _line_of(last[0])
        if content is None or not fits(content, {"head": str, "withheld": int}) or content["withheld"] < 0:
            raise CannotTell(f"{self.source} does not end with a signed head: it is cut off, or no export of a journal")
        self._head, self.withheld = content["head"].encode(), content["withheld"]

    def newest(self) -> tuple[str, bytes]:
        """Is the last line."""
        return "the head in the last line", self._head

    def rows(self, size: int) -> Iterator[Row]:
        """Reads the lines, 256 at a time."""
        row, shown, signatures = list[bytes](), dict[int, dict[str, Disclosed]](), dict[int, bytes]()
        index = 0
        with self._path.open("rb") as file:
            for index, line in enumerate(file):
                if index == size:
                    break
                body, values, signature = _event_of(line, index)
                row.append(body)
                if values:
                    shown[index] = values
                if signature is not None:
                    signatures[index] = signature
                if len(row) == WIDTH:
                    yield Row(row, shown, signatures)
                    row, shown, signatures = [], {}, {}
            if row:
                yield Row(row, shown, signatures)
            if "head" not in (_line_of(line) or {}) or file.readline():
                raise Caught("there are more lines than the head has entries", expected=str(size), found="more")


def _line_of(line: bytes) -> dict[str, Any] | None:
    try:
        content = strict_json(line.removesuffix(b"\n").decode()) if line.endswith(b"\n") else None
    except ValueError:
        return None
    return content if isinstance(content, dict) else None


_EVENT_LINE = re.compile(
    rb'\{"event":(\{.*\}),"index":(0|[1-9][0-9]{0,18})((?:,"payloads":\{.*\})?(?:,"signature":"[^"]*")?)\}\n', re.DOTALL
)


def _event_of(line: bytes, index: int) -> tuple[bytes, dict[str, Disclosed], bytes | None]:
    """Takes a line apart; the event is kept as the bytes that stand there."""
    match = _EVENT_LINE.fullmatch(line)
    rest = None if match is None else _line_of(b"{" + match[3].removeprefix(b",") + b"}\n")
    if match is None or rest is None:
        raise Caught("this line is no event", index=index)
    if int(match[2]) != index:
        raise Caught("lines come in the order of entries, none left out", expected=str(index), found=match[2].decode())
    values, signature = rest.get("payloads", {}), rest.get("signature")
    if type(values) is not dict or not all(
        type(one) is dict and one.keys() == {"salt", "value"} and all(type(part) is str for part in one.values())
        for one in values.values()
    ):
        raise Caught("its values are not written as they should be", index=index)
    try:
        shown = {
            name: Disclosed(index, name, _salt(one["salt"]), decoded(one["value"].encode(), "this line"))
            for name, one in values.items()
        }
    except ValueError:
        raise Caught("a salt is written in hexadecimal", index=index) from None
    return match[1], shown, None if signature is None else decoded(signature.encode(), "this line")


def _salt(text: str) -> bytes:
    """Reads a salt in the one way it is written."""
    salt = bytes.fromhex(text)
    if salt.hex() != text:
        raise ValueError(text)
    return salt


class ReceiptEvidence(Evidence):
    """Reads one receipt that holds its entry."""

    kind = "receipt"

    def __init__(self, content: bytes, source: str) -> None:
        self.source = source
        self._content = content

    def newest(self) -> tuple[str, bytes]:
        """Is the head in the receipt."""
        return "the receipt's head", self._content.partition(b"\n\n")[2]

    def receipts(self) -> Iterator[Proven]:
        """Is the one."""
        yield Proven("the receipt", self._content, {}, None)
