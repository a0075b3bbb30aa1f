"""What is different between two values, field by field, for a person to see."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


class Missing:
    """Stands for a field that is not there, which is not the same as null."""

    def __repr__(self) -> str:
        return "(not there)"


MISSING = Missing()


@dataclass(frozen=True, slots=True)
class Difference:
    """Is one field that differs; `before` or `after` is MISSING where there is none."""

    path: str
    before: Any
    after: Any


def differences(before: Any, after: Any, path: str = "args") -> Iterator[Difference]:
    """Lists the fields in which two recorded values differ; a value of another type is another value."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name in sorted({*before, *after}):
            yield from differences(before.get(name, MISSING), after.get(name, MISSING), f"{path}.{name}")
    elif isinstance(before, list) and isinstance(after, list):
        for number in range(max(len(before), len(after))):
            one = before[number] if number < len(before) else MISSING
            other = after[number] if number < len(after) else MISSING
            yield from differences(one, other, f"{path}[{number}]")
    elif type(before) is not type(after) or before != after:
        yield Difference(path, before, after)
