"""Reads the published vectors and lays each one out in every form that it has.

`vectors.json.gz` holds base files and, for each vector, what was changed in them: a file that went is null, else a list
of places, lengths and what stands there instead. Bytes are written as the letters U+0000 to U+00FF.
"""

from __future__ import annotations

import gzip
import json
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from io import BytesIO
from pathlib import Path
from typing import Any, Literal

from indelible.core.journal.tiles import unpack_entries
from indelible.core.verifying.findings import Verdict

Form = Literal["bundle", "zip", "ndjson", "report", "log"]
Files = Mapping[str, bytes]
ALONE = {"zip": "bundle.zip", "ndjson": "journal.ndjson", "report": "record.json"}
"""Names the one file of a base that is no bundle, by form."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vector:
    """Is one piece of evidence, the keys and heads to verify it with, and the verdicts by form."""

    name: str
    base: str
    """Names the files that it was made from."""
    files: Files
    keys: tuple[str, ...]
    after: tuple[str, ...]
    expected: Mapping[Form, Verdict]
    counts_votes: bool
    """Does its verdict rest on the votes and sheets inside values? A verifier may say that it leaves these out."""

    def written(self, form: Form, folder: Path) -> Path:
        """Lay the evidence out in a folder; return the path that a verifier is given."""
        path = folder / {"bundle": "bundle", "log": "log"}.get(form, ALONE.get(form, ""))
        if form in ("bundle", "log"):
            for name, content in self.files.items():
                place = path / name
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(content)
            return path
        path.write_bytes(self.alone(form))
        return path

    def alone(self, form: Form) -> bytes:
        """Return the evidence as one file."""
        if ALONE[form] in self.files:
            return self.files[ALONE[form]]
        return zipped(self.files) if form == "zip" else lines_of(self.files)


def zipped(files: Files) -> bytes:
    """Pack files into a .zip, the same bytes every time."""
    out = BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(files):
            archive.writestr(zipfile.ZipInfo(name), files[name])
    return out.getvalue()


def lines_of(files: Files) -> bytes:
    """Return a bundle of a whole journal as NDJSON."""
    packed = next(files[name] for name in sorted(files) if name.startswith("tile/entries/"))
    shown: dict[int, dict[str, Any]] = {}
    for line in files["payloads.ndjson"].splitlines():
        one = json.loads(line)
        shown.setdefault(one["index"], {})[one["field"]] = {"salt": one["salt"], "value": one["value"]}
    lines = []
    for index, body in enumerate(unpack_entries(packed)):
        beside = {"index": index} | ({"payloads": shown[index]} if index in shown else {})
        lines.append(b'{"event":' + body + b"," + _json(beside)[1:])
    manifest = json.loads(files["manifest.json"])
    lines.append(_json({"head": files["checkpoint"].decode(), "withheld": manifest["withheld"]}))
    return b"".join(line + b"\n" for line in lines)


def _json(content: object) -> bytes:
    return json.dumps(content, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()


def vectors() -> Iterator[Vector]:
    """Give every published vector."""
    stored = _stored()
    bases = {name: {file: _bytes(text) for file, text in files.items()} for name, files in stored["bases"].items()}
    for one in stored["vectors"]:
        yield Vector(
            name=one["name"],
            base=one["base"],
            files=patched(bases[one["base"]], one["changes"]),
            keys=tuple(stored["keys"][name] for name in one["keys"]),
            after=tuple(one["after"]),
            expected=one["expected"],
            counts_votes=one["counts_votes"],
        )


def base_of(vector: Vector) -> Files:
    """Return the files that a vector was made from, untouched."""
    return {name: _bytes(text) for name, text in _stored()["bases"][vector.base].items()}


def patched(files: Files, changes: Mapping[str, Any]) -> dict[str, bytes]:
    """Apply what was changed in some files."""
    found = dict(files)
    for name, patches in changes.items():
        if patches is None:
            del found[name]
            continue
        content = found.get(name, b"")
        for place, length, text in reversed(patches):
            content = content[:place] + _bytes(text) + content[place + length :]
        found[name] = content
    return found


def _bytes(text: str) -> bytes:
    return text.encode("latin-1")


@cache
def _stored() -> dict[str, Any]:
    packed = resources.files("indelible.testing.record").joinpath("vectors.json.gz").read_bytes()
    stored: dict[str, Any] = json.loads(gzip.decompress(packed))
    return stored
