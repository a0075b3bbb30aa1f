"""Regular expressions in policies, which no text can make slow.

An expression becomes an automaton whose states are the places of its characters (Glushkov's construction), and a set of
states is one integer. Each character of a text is looked at once, so there is nothing for an attacker to blow up. That
rules out backreferences and lookaround, which need more than that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

MOST_PLACES = 500
MOST_DEPTH = 20
_LAST = 0x10FFFF
_COUNT = re.compile(r"\{([0-9]{1,4})(,([0-9]{1,4})?)?\}", re.ASCII)
_CODE = re.compile(r"x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})", re.ASCII)
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "v": "\v"}

Range = tuple[int, int]
Ranges = tuple[Range, ...]


class BadPattern(ValueError):
    """Says what an expression has that is not understood here."""


class _Piece(NamedTuple):
    """Is a part of the automaton: can it be empty, and at which places does it begin and end?"""

    is_empty: bool
    first: int
    last: int


_Build = Callable[["_Automaton"], _Piece]


@dataclass(slots=True)
class _Automaton:
    """Collects the places of an expression: which characters each takes, and which places may follow it."""

    takes: list[Ranges] = field(default_factory=list)
    follows: list[int] = field(default_factory=list)

    def place(self, ranges: Ranges) -> _Piece:
        if len(self.takes) >= MOST_PLACES:
            raise BadPattern(f"has more than {MOST_PLACES} places once its counts are written out; make it shorter")
        self.takes.append(ranges)
        self.follows.append(0)
        here = 1 << len(self.takes) - 1
        return _Piece(False, here, here)

    def link(self, ends: int, starts: int) -> None:
        for place in places_in(ends):
            self.follows[place] |= starts


def places_in(states: int) -> Iterable[int]:
    """Lists the numbers that a set of states holds."""
    while states:
        lowest = states & -states
        yield lowest.bit_length() - 1
        states ^= lowest


@dataclass(frozen=True, slots=True)
class Expression:
    """Matches whole texts, in time that grows with their length alone."""

    text: str
    _whole: _Piece = field(repr=False)
    _takes: tuple[Ranges, ...] = field(repr=False)
    _follows: tuple[int, ...] = field(repr=False)

    def matches(self, text: str) -> bool:
        """Is the whole text of this form?"""
        if not text:
            return self._whole.is_empty
        taking: dict[str, int] = {}
        after: dict[int, int] = {}
        reached = self._whole.first
        here = 0
        for character in text:
            if character not in taking:
                taking[character] = self._taking(ord(character))
            here = reached & taking[character]
            if not here:
                return False
            if here not in after:
                after[here] = self._after(here)
            reached = after[here]
        return here & self._whole.last != 0

    def _taking(self, code: int) -> int:
        """Gives the places that take a character."""
        return sum(
            1 << place for place, ranges in enumerate(self._takes) if any(low <= code <= high for low, high in ranges)
        )

    def _after(self, states: int) -> int:
        reached = 0
        for place in places_in(states):
            reached |= self._follows[place]
        return reached


def expression_of(text: str) -> Expression:
    """Reads an expression; raises `BadPattern` for what could be slow, and for what has no meaning here."""
    reader = _Reader(text)
    build = reader.choice()
    if reader.at < len(text):
        raise BadPattern(f"closes a group at character {reader.at + 1} that was not opened")
    automaton = _Automaton()
    whole = build(automaton)
    return Expression(text, whole, tuple(automaton.takes), tuple(automaton.follows))


class _Reader:
    """Reads an expression from left to right; each part becomes a function that adds its places to an automaton."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.depth = 0

    @property
    def next(self) -> str:
        return self.text[self.at : self.at + 1]

    def take(self) -> str:
        if not self.next:
            raise BadPattern("ends too early")
        self.at += 1
        return self.text[self.at - 1]

    def choice(self) -> _Build:
        options = [self.sequence()]
        while self.next == "|":
            self.take()
            options.append(self.sequence())
        return options[0] if len(options) == 1 else lambda automaton: _either([one(automaton) for one in options])

    def sequence(self) -> _Build:
        parts: list[_Build] = []
        while self.next not in ("", "|", ")"):
            parts.append(self.counted(self.atom()))
        if not parts:
            raise BadPattern(f"has nothing to match at character {self.at + 1}; for what may be absent, write (…)?")
        return lambda automaton: _in_a_row(automaton, parts)

    def counted(self, part: _Build) -> _Build:
        least, most = self.count()
        if self.next in ("*", "+", "?") or _COUNT.match(self.text, self.at):
            raise BadPattern(f"counts twice at character {self.at + 1}; put brackets around what is counted")
        if (least, most) == (1, 1):
            return part
        return lambda automaton: _repeated(automaton, part, least, most)

    def count(self) -> tuple[int, int | None]:
        """Reads how often the part before comes: at least, and at most or without an end."""
        simple: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
        if self.next in simple:
            return simple[self.take()]
        found = _COUNT.match(self.text, self.at)
        if found is None:
            return 1, 1
        self.at = found.end()
        least = int(found[1])
        most = least if found[2] is None else None if found[3] is None else int(found[3])
        if most == 0 or (most is not None and most < least):
            raise BadPattern(f"counts to {most} at character {found.start() + 1}, which is too few")
        return least, most

    def atom(self) -> _Build:
        start = self.at + 1
        character = self.take()
        if character == "(":
            return self.group()
        if character == "[":
            ranges = self.set_of_characters()
        elif character == ".":
            ranges = _without(((10, 10),))
        elif character == "\\":
            ranges = self.escape()
        elif character in "^$":
            raise BadPattern(f"has {character} at character {start}: leave it away, the whole text has to match")
        elif character in "*+?{}]":
            raise BadPattern(
                f"has {character} at character {start}, where it means nothing; for itself, write \\{character}"
            )
        else:
            ranges = ((ord(character), ord(character)),)
        return lambda automaton: automaton.place(ranges)

    def group(self) -> _Build:
        if self.text.startswith("?:", self.at):
            self.at += 2
        elif self.next == "?":
            raise BadPattern("looks ahead, names a group or sets a flag with (?…: that is not possible here")
        self.depth += 1
        if self.depth > MOST_DEPTH:
            raise BadPattern(f"nests more than {MOST_DEPTH} groups")
        build = self.choice()
        if self.next != ")":
            raise BadPattern("opens a group that is not closed")
        self.take()
        self.depth -= 1
        return build

    def escape(self) -> Ranges:
        code = _CODE.match(self.text, self.at)
        if code is not None:
            self.at = code.end()
            number = int(code[1] or code[2], 16)
            return ((number, number),)
        character = self.take()
        if character in _CLASSES:
            return _CLASSES[character]
        character = _CONTROLS.get(character, character)
        if character.isalnum():
            raise BadPattern(f"has \\{character}, which is not possible here")
        return ((ord(character), ord(character)),)

    def set_of_characters(self) -> Ranges:
        is_negated = self.next == "^"
        if is_negated:
            self.take()
        found: list[Range] = []
        is_first = True
        while is_first or self.next != "]":
            low = self.member(is_first=is_first)
            is_first = False
            if self.next == "-" and self.text[self.at + 1 : self.at + 2] not in ("]", ""):
                self.take()
                low = _range(low, self.member(is_first=False))
            found += low
        self.take()
        return _without(found) if is_negated else tuple(found)

    def member(self, *, is_first: bool) -> Ranges:
        character = self.take()
        if character == "\\":
            return self.escape()
        if character in "[]":
            raise BadPattern(f"has {character} among a set of characters; write \\{character}")
        if character == "-" and not is_first and self.next != "]":
            raise BadPattern("has - in the middle of a set of characters; write \\-")
        return ((ord(character), ord(character)),)


def _range(low: Ranges, high: Ranges) -> Ranges:
    ends = [*low, *high]
    if len(ends) != 2 or any(start != end for start, end in ends) or ends[0] > ends[1]:
        raise BadPattern("has a set of characters whose range does not go from one character to a later one")
    return ((ends[0][0], ends[1][0]),)


def _without(ranges: Iterable[Range]) -> Ranges:
    """Gives all other characters."""
    others: list[Range] = []
    start = 0
    for low, high in sorted(ranges):
        if low > start:
            others.append((start, low - 1))
        start = max(start, high + 1)
    return (*others, (start, _LAST)) if start <= _LAST else tuple(others)


_DIGITS: Ranges = ((48, 57),)
_WORD: Ranges = ((48, 57), (65, 90), (95, 95), (97, 122))
_SPACE: Ranges = ((9, 13), (32, 32))
_CLASSES: dict[str, Ranges] = {
    "d": _DIGITS,
    "D": _without(_DIGITS),
    "w": _WORD,
    "W": _without(_WORD),
    "s": _SPACE,
    "S": _without(_SPACE),
}


def _either(options: list[_Piece]) -> _Piece:
    first = last = 0
    for option in options:
        first |= option.first
        last |= option.last
    return _Piece(any(option.is_empty for option in options), first, last)


def _in_a_row(automaton: _Automaton, parts: Iterable[_Build]) -> _Piece:
    whole = _Piece(True, 0, 0)
    for build in parts:
        whole = _joined(automaton, whole, build(automaton))
    return whole


def _joined(automaton: _Automaton, one: _Piece, other: _Piece) -> _Piece:
    automaton.link(one.last, other.first)
    first = one.first | other.first if one.is_empty else one.first
    last = one.last | other.last if other.is_empty else other.last
    return _Piece(one.is_empty and other.is_empty, first, last)


def _repeated(automaton: _Automaton, part: _Build, least: int, most: int | None) -> _Piece:
    whole = _Piece(True, 0, 0)
    for _ in range(least):
        whole = _joined(automaton, whole, part(automaton))
    if most is None:
        loop = part(automaton)
        automaton.link(loop.last, loop.first)
        return _joined(automaton, whole, loop._replace(is_empty=True))
    for _ in range(most - least):
        whole = _joined(automaton, whole, part(automaton)._replace(is_empty=True))
    return whole
