"""Changes a bundle's files, one thing at a time: every file, every line, every member, every hash."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from indelible.core.journal.tiles import pack_entries, unpack_entries

Files = dict[str, bytes]
FOR_PEOPLE = {"README.txt", "verify.py"}


def write_folder(files: Files, folder: Path) -> Path:
    """Lays files out in a folder."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def write_zip(files: Files, path: Path) -> Path:
    """Packs files into a .zip."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def file_changes(files: Files) -> Iterator[tuple[str, Files]]:
    """Names and gives every changed bundle."""
    yield from _whole_files(files)
    for name, content in files.items():
        changed: Iterator[tuple[str, bytes]]
        if name.startswith("tile/entries/"):
            changed = _entries(content)
        elif name.startswith("tile/"):
            changed = _hashes(content)
        elif name == "manifest.json":
            changed = _members(content)
        elif name.endswith(".ndjson"):
            changed = _lines(content)
        elif name == "checkpoint" or name.startswith(("heads/", "receipts/")):
            changed = _texts(content)
        else:
            changed = iter([("edit", content + b"\n")])
        for what, after in changed:
            if after != content:
                yield f"{name}: {what}", {**files, name: after}


def _whole_files(files: Files) -> Iterator[tuple[str, Files]]:
    names = sorted(files)
    for name in names:
        rest = {other: content for other, content in files.items() if other != name}
        yield f"{name}: delete file", rest
        yield f"{name}: rename file", {**rest, f"{name}x": files[name]}
        yield f"{name}: insert file", {**files, f"{name}.bak": files[name]}
        if name not in FOR_PEOPLE:
            yield f"{name}: empty file", {**files, name: b""}
            yield f"{name}: truncate file", {**files, name: files[name][:-1]}
            yield f"{name}: append to file", {**files, name: files[name] + b"x"}
        twin = next((other for other in names if other != name and _folder(other) == _folder(name)), None)
        if twin is not None and name not in FOR_PEOPLE and twin not in FOR_PEOPLE:
            yield f"{name}: swap with {twin}", {**files, name: files[twin], twin: files[name]}
    yield "heads/1: insert file", {**files, "heads/1": files["checkpoint"]}
    yield "../evil: insert file", {**files, "tile/../../evil": b"x"}


def _folder(name: str) -> str:
    return name.rpartition("/")[0]


def _entries(packed: bytes) -> Iterator[tuple[str, bytes]]:
    entries = unpack_entries(packed)
    for place in (0, len(entries) - 1):
        body = entries[place]
        for what, after in _members(body):
            yield f"entry {place} {what}", pack_entries([*entries[:place], after, *entries[place + 1 :]])
        yield f"delete entry {place}", pack_entries([*entries[:place], *entries[place + 1 :]])
        yield f"insert entry {place}", pack_entries([*entries[:place], body, *entries[place:]])
    yield "swap entries", pack_entries([*entries[1:], entries[0]])
    for place in range(0, len(packed), max(1, len(packed) // 20)):
        yield f"flip byte {place}", _flipped(packed, place)


def _hashes(tile: bytes) -> Iterator[tuple[str, bytes]]:
    for place in range(0, len(tile), 32):
        yield f"flip hash {place // 32}", _flipped(tile, place)
    yield "delete hash", tile[32:]
    yield "insert hash", tile[:32] + tile
    yield "swap hashes", tile[32:64] + tile[:32] + tile[64:]


def _members(text: bytes) -> Iterator[tuple[str, bytes]]:
    content: dict[str, Any] = json.loads(text)
    for name, value in content.items():
        yield f"edit {name}", _json({**content, name: _other(value)})
        yield f"delete {name}", _json({other: content[other] for other in content if other != name})
        if isinstance(value, dict):
            for inner in value:
                yield f"edit {name}.{inner}", _json({**content, name: {**value, inner: _other(value[inner])}})
                rest = {other: value[other] for other in value if other != inner}
                yield f"delete {name}.{inner}", _json({**content, name: rest})
            yield f"insert {name}.evil", _json({**content, name: {**value, "evil": "1"}})
    yield "insert evil", _json({**content, "evil": "1"})
    yield "not json", text[:-2]


def _other(value: Any) -> Any:
    if isinstance(value, bool) or value is None:
        return "other"
    if isinstance(value, int):
        return value + 1
    if isinstance(value, str):
        return value[:-1] + ("A" if value[-1:] != "A" else "B")
    return [*value, "other"] if isinstance(value, list) else {**value, "other": "1"}


def _json(content: Any) -> bytes:
    return json.dumps(content, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()


def _lines(content: bytes) -> Iterator[tuple[str, bytes]]:
    lines = content.splitlines(keepends=True)
    for place in {0, len(lines) // 2, len(lines) - 1} if lines else ():
        for what, after in _members(lines[place]):
            yield f"line {place} {what}", b"".join([*lines[:place], after.rstrip(b"\n") + b"\n", *lines[place + 1 :]])
        yield f"delete line {place}", b"".join([*lines[:place], *lines[place + 1 :]])
        yield f"repeat line {place}", b"".join([*lines[:place], lines[place], *lines[place:]])
    yield "swap lines", b"".join([*lines[1:2], *lines[:1], *lines[2:]])


def _texts(content: bytes) -> Iterator[tuple[str, bytes]]:
    lines = content.splitlines(keepends=True)
    for place, line in enumerate(lines):
        if line != b"\n":
            middle = len(line) // 2
            yield f"edit line {place}", b"".join([*lines[:place], _flipped(line, middle), *lines[place + 1 :]])
            yield f"truncate line {place}", b"".join([*lines[:place], line[:-3] + b"\n", *lines[place + 1 :]])
        yield f"delete line {place}", b"".join([*lines[:place], *lines[place + 1 :]])
        yield f"repeat line {place}", b"".join([*lines[:place], line, *lines[place:]])
    for place in range(len(lines) - 1):
        swapped = [*lines[:place], lines[place + 1], lines[place], *lines[place + 2 :]]
        yield f"swap lines {place}", b"".join(swapped)


def _flipped(content: bytes, place: int) -> bytes:
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]
