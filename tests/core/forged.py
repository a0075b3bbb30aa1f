"""Tells a journal anew with something changed, as somebody who holds its key could: every hash fits afterwards."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from indelible.core.events import Event, commitment, event_hash
from indelible.core.values.canonical import decode, encode
from indelible.core.verifying.bodies import canonical_text
from indelible.core.verifying.payloads import Disclosed
from tests.core.explored import Path

Values = dict[tuple[str, int], dict[str, Disclosed]]


class Journal:
    """Is a journal with all its values, that can be told otherwise."""

    def __init__(self, path: Path) -> None:
        self.events, self.shown = list(path.events), path.shown()

    def index(self, type_: str, number: int = 0, run: str = "run-1") -> int:
        """Finds an event by what it tells."""
        places = [i for i, event in enumerate(self.events) if event.type == type_ and event.run_id == run]
        return places[number]

    def value(self, index: int, field: str) -> Any:
        """Gives what an event commits to."""
        event = self.events[index]
        return decode(self.shown[event.run_id, event.seq][field].value)

    def retold(
        self, index: int, field: str | None = None, change: Callable[[Any], Any] | None = None, **members: Any
    ) -> tuple[list[Event], Values]:
        """Changes a value that an event commits to, or members of its body, and makes everything after it fit."""
        events, shown = list(self.events), {place: dict(values) for place, values in self.shown.items()}
        event = events[index]
        body = event.read() | members
        if field is not None and change is not None:
            values = shown[event.run_id, event.seq]
            value = change(decode(values[field].value))
            raw = value if isinstance(value, bytes) else encode(value)
            values[field] = values[field]._replace(value=raw)
            body["commits"] = {**body["commits"], field: commitment(values[field].salt, field, raw)}
        events[index] = _written(event, body)
        return _chained(events), shown


def _written(event: Event, body: Mapping[str, Any]) -> Event:
    raw = canonical_text(body).encode()
    return replace(event, body=raw, hash=event_hash(raw), type=body["type"])


def _chained(events: list[Event]) -> list[Event]:
    ends: dict[str, str] = {}
    chained = []
    for event in events:
        body = json.loads(event.body)
        chained.append(_written(event, {**body, "prev": ends.get(event.run_id, "0" * 64)}))
        ends[event.run_id] = chained[-1].hash
    return chained


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Names every place in a value, its objects and lists included."""
    yield path
    if isinstance(value, dict | list):
        for name, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(part, (*path, name))


def changed(value: Any, path: tuple[Any, ...]) -> Any:
    """Gives a value that differs at one place, and is of the same kind where that is possible."""
    if path:
        copied = dict(value) if isinstance(value, dict) else list(value)
        copied[path[0]] = changed(value[path[0]], path[1:])
        return copied
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case str():
            return value[:-1] + ("0" if value[-1:] != "0" else "1") if value else "x"
        case dict():
            return dict(list(value.items())[1:])
        case list():
            return [*value, value[0]] if value else ["x"]
        case _:
            return "x"
