"""One filter grammar for every list: `tool:stripe.* status:failed,denied args.amount:>1000 since:24h -tool:crm "text"`.

Terms stand side by side and all of them have to hold; values behind a comma are alternatives; a minus excludes. This
module holds what a filter says and writes it down again; `filtering_reading` reads it, `filtering_matching` applies it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Literal, TypeVar, assert_never

from indelible.core.approvals.approval import APPROVAL_STATUSES
from indelible.core.effects.calls import SIDE_EFFECTS
from indelible.core.effects.effect import STATUSES
from indelible.core.events import instant
from indelible.core.policy.globs import Glob
from indelible.core.runs.run import RUN_STATUSES, UNSTARTED

Resource = Literal["effects", "runs", "approvals", "events"]
Sign = Literal[">", ">=", "<", "<="]
Unit = Literal["s", "m", "h", "d", "w"]
UNITS: dict[str, timedelta] = {
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
    "w": timedelta(weeks=1),
}
ARGS = "args."
"""Is how the words begin that name an argument by its path."""


@dataclass(frozen=True, slots=True)
class Exactly:
    """Is one text, and nothing else."""

    text: str


@dataclass(frozen=True, slots=True)
class Like:
    """Is any text that fits: `*` stands for any characters."""

    glob: Glob


@dataclass(frozen=True, slots=True)
class Ordered:
    """Is any number above or below this one."""

    sign: Sign
    number: Decimal


Value = Exactly | Like | Ordered


@dataclass(frozen=True, slots=True)
class Ago:
    """Is a moment so long before now."""

    count: int
    unit: Unit


Moment = Ago | datetime


@dataclass(frozen=True, slots=True)
class Word:
    """Holds when the thing that is named has one of these values."""

    name: str
    values: tuple[Value, ...]
    is_excluded: bool = False


@dataclass(frozen=True, slots=True)
class Text:
    """Holds when this text stands somewhere in what is shown, whatever the case of its letters."""

    text: str
    is_excluded: bool = False


@dataclass(frozen=True, slots=True)
class Since:
    """Holds from this moment on."""

    moment: Moment


@dataclass(frozen=True, slots=True)
class Until:
    """Holds before this moment."""

    moment: Moment


Term = Word | Text | Since | Until
Choices = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Query:
    """Is what a filter says of one kind of things; the empty one lets everything pass."""

    resource: Resource
    terms: tuple[Term, ...] = ()

    def __str__(self) -> str:
        """Writes it so that it reads as the same filter."""
        return " ".join(map(_written, self.terms))

    def needs(self, *names: str) -> bool:
        """Does it ask for one of these words? `args.` stands for every argument."""
        asked = (ARGS if term.name.startswith(ARGS) else term.name for term in self.terms if isinstance(term, Word))
        return any(name in names for name in asked)

    def needs_text(self) -> bool:
        """Does it look for free text?"""
        return any(isinstance(term, Text) for term in self.terms)

    def only(self, name: str) -> str | None:
        """Gives the one value that a word must have, if there is just one: stores find that by themselves."""
        for term in self.terms:
            if isinstance(term, Word) and term.name == name and not term.is_excluded and len(term.values) == 1:
                value = term.values[0]
                if isinstance(value, Exactly):
                    return value.text
        return None

    def since(self, now: datetime) -> datetime | None:
        """Gives the moment from which on everything lies that it lets pass."""
        return max((at(term.moment, now) for term in _all(self.terms, Since)), default=None)

    def until(self, now: datetime) -> datetime | None:
        """Gives the moment before which everything lies that it lets pass."""
        return min((at(term.moment, now) for term in _all(self.terms, Until)), default=None)


T = TypeVar("T", Since, Until)


def _all(terms: tuple[Term, ...], kind: type[T]) -> list[T]:
    return [term for term in terms if isinstance(term, kind)]


def at(moment: Moment, now: datetime) -> datetime:
    """Gives the moment that is meant, seen from now."""
    return now - moment.count * UNITS[moment.unit] if isinstance(moment, Ago) else moment


NAME: Literal["name"] = "name"
NUMBER: Literal["number"] = "number"
Kind = Literal["name", "number"] | Choices
"""Says what a word may be compared with: a name, a number, or one of some choices."""

_OF_CALLS: dict[str, Kind] = {"tool": NAME, "side_effect": tuple(SIDE_EFFECTS), "run": NAME, "agent": NAME, "id": NAME}
WORDS: dict[Resource, dict[str, Kind]] = {
    "effects": {
        **_OF_CALLS,
        "status": tuple(STATUSES),
        "key": NAME,
        "scope": NAME,
        "call": NAME,
        "approval": NAME,
        "attempt": NUMBER,
    },
    "runs": {"run": NAME, "status": (*RUN_STATUSES, UNSTARTED), "agent": NAME, "runtime": NAME, "parent": NAME},
    "approvals": {
        **_OF_CALLS,
        "status": tuple(APPROVAL_STATUSES),
        "effect": NAME,
        "rule": NAME,
        "actor": NAME,
        "requester": NAME,
        "principal": NAME,
    },
    "events": {
        **_OF_CALLS,
        "type": NAME,
        "status": NAME,
        "effect": NAME,
        "actor": NAME,
        "attempt": NUMBER,
        "seq": NUMBER,
    },
}
"""Are the words that each kind of things is filtered by, besides `since`, `until` and text."""
HAVE_ARGS: frozenset[Resource] = frozenset({"effects", "approvals"})
"""Are the things that have arguments to be filtered by."""

NUMBER_TEXT = re.compile(r"-?[0-9]{1,40}(\.[0-9]{1,40})?", re.ASCII)
_BARE_VALUE = re.compile(r'[^\s",*<>][^\s",*]*')
_BARE_TEXT = re.compile(r'[^\s":-][^\s":]*')


def _written(term: Term) -> str:
    match term:
        case Since(moment):
            return f"since:{_moment(moment)}"
        case Until(moment):
            return f"until:{_moment(moment)}"
        case Text(text, is_excluded):
            return "-" * is_excluded + (text if _BARE_TEXT.fullmatch(text) else quoted(text))
        case Word(name, values, is_excluded):
            return "-" * is_excluded + f"{name}:{','.join(map(_value, values))}"
        case _:
            assert_never(term)


def _value(value: Value) -> str:
    match value:
        case Exactly(text):
            return text if _BARE_VALUE.fullmatch(text) else quoted(text)
        case Like(glob):
            return glob.text
        case Ordered(sign, number):
            return f"{sign}{number:f}"
        case _:
            assert_never(value)


def _moment(moment: Moment) -> str:
    return f"{moment.count}{moment.unit}" if isinstance(moment, Ago) else instant(moment)


def quoted(text: str) -> str:
    """Puts a text in quotes, so that nothing in it means anything."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
