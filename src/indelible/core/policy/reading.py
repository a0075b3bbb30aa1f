"""Reads what somebody wrote, and collects everything that is wrong with it, each with the place where it stands.

Nothing is guessed: a word that is not known is a problem, for a misspelt one would protect nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from difflib import get_close_matches
from typing import Any, TypeVar

from indelible.core.policy.conditions import kind_of, number_of

T = TypeVar("T")
Place = tuple[str | int, ...]
LONGEST = timedelta(days=3660)
_DURATION = re.compile(r"([1-9][0-9]{0,8})([smhd])", re.ASCII)
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_LONGEST_TEXT = 500
_MOST_DIGITS = 40


@dataclass(frozen=True, slots=True)
class Problem:
    """Says what is wrong, and where."""

    place: Place
    message: str

    def __str__(self) -> str:
        return f"{written(self.place)}: {self.message}"


def written(place: Place) -> str:
    """Writes a place as people do: rules[2].match.tool."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place)
    return text.removeprefix(".") or "policy"


@dataclass(slots=True)
class Reading:
    """Collects problems. Whatever it gives after one is a stand-in that nobody uses."""

    problems: list[Problem] = field(default_factory=list)

    def wrong(self, place: Place, message: str) -> None:
        """Notes a problem."""
        self.problems.append(Problem(place, message))

    def words(
        self, value: object, place: Place, known: Collection[str], needed: Collection[str] = ()
    ) -> Mapping[str, Any]:
        """Reads an object that has these words and no others."""
        content = self.names(value, place)
        for word in content:
            if word not in known:
                close = get_close_matches(word, known, n=1)
                hint = f"did you mean {close[0]}?" if close else f"known are {', '.join(known)}"
                self.wrong((*place, word), f"is no word of a policy here; {hint}")
        for word in needed:
            if word not in content:
                self.wrong(place, f"lacks the word {word}")
        return content

    def names(self, value: object, place: Place) -> Mapping[str, Any]:
        """Reads an object whose names are free."""
        if not isinstance(value, Mapping):
            self.wrong(place, f"has to be an object, and is {kind_of(value)}")
            return {}
        for name in value:
            if not isinstance(name, str):
                self.wrong(place, f"has a name that is {kind_of(name)}, and no text; put it in quotes")
        return {name: part for name, part in value.items() if isinstance(name, str)}

    def items(self, value: object, place: Place) -> Sequence[Any]:
        """Reads a list that is not empty."""
        if not isinstance(value, list | tuple) or not value:
            self.wrong(place, f"has to be a list with something in it, and is {kind_of(value)}")
            return []
        return value

    def text(self, value: object, place: Place, longest: int = _LONGEST_TEXT) -> str:
        """Reads a text that is not empty."""
        if not isinstance(value, str):
            self.wrong(place, f"has to be a text, and is {kind_of(value)}")
            return ""
        if not value or len(value) > longest or "\0" in value:
            self.wrong(place, f"has to be a text of 1 to {longest} characters, without NUL")
        return value

    def texts(self, value: object, place: Place) -> tuple[str, ...]:
        """Reads one text or a list of them, each of which stands there once."""
        if isinstance(value, str):
            return (self.text(value, place),)
        found = tuple(self.text(each, (*place, number)) for number, each in enumerate(self.items(value, place)))
        if len(set(found)) < len(found):
            self.wrong(place, "names something twice")
        return found

    def choice(self, value: object, place: Place, choices: Sequence[T]) -> T:
        """Reads one of these words."""
        for choice in choices:
            if type(value) is type(choice) and value == choice:
                return choice
        self.wrong(place, f"has to be one of {', '.join(map(str, choices))}")
        return choices[0]

    def flag(self, value: object, place: Place) -> bool:
        """Reads true or false."""
        if not isinstance(value, bool):
            self.wrong(place, f"has to be true or false, and is {kind_of(value)}")
        return value is True

    def count(self, value: object, place: Place) -> int:
        """Reads how many: one or more."""
        if type(value) is not int or not 1 <= value <= 100:
            self.wrong(place, "has to be a whole number from 1 to 100")
            return 1
        return value

    def value(self, value: object, place: Place) -> Any:
        """Reads any value that JSON has."""
        kind = kind_of(value)
        if isinstance(value, Mapping):
            return {name: self.value(part, (*place, name)) for name, part in self.names(value, place).items()}
        if isinstance(value, list | tuple):
            return [self.value(part, (*place, number)) for number, part in enumerate(value)]
        if kind == "a number":
            return self.number(value, place)
        if kind.startswith("a value"):
            self.wrong(place, f"is {kind}, which cannot be compared; use a rule in Python for it")
        return value

    def number(self, value: object, place: Place) -> Decimal:
        """Reads a number, exactly."""
        number = number_of(value)
        if number is None:
            self.wrong(place, f"has to be a number, and is {kind_of(value)}")
            return Decimal(0)
        if len(number.as_tuple().digits) > _MOST_DIGITS or abs(number.adjusted()) > _MOST_DIGITS:
            self.wrong(place, f"has more than {_MOST_DIGITS} digits")
        return number

    def duration(self, value: object, place: Place) -> timedelta:
        """Reads a duration such as 30s, 15m, 24h or 7d."""
        found = _DURATION.fullmatch(value) if isinstance(value, str) else None
        seconds = 0 if found is None else int(found[1]) * _UNITS[found[2]]
        if found is None or seconds > LONGEST.total_seconds():
            self.wrong(place, f"has to be a duration such as 30s, 15m, 24h or 7d, at most {LONGEST.days}d")
            return timedelta(seconds=1)
        return timedelta(seconds=seconds)

    def tried(self, place: Place, make: Callable[[], T]) -> T | None:
        """Gives what a function makes; a ValueError of it is a problem."""
        try:
            return make()
        except ValueError as problem:
            self.wrong(place, str(problem))
            return None
