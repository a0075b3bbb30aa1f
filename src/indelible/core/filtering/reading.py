"""Reads filters; what cannot be read is named by its place, with what to write instead."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import cast

from indelible.core.filtering.filters import (
    ARGS,
    HAVE_ARGS,
    NUMBER_TEXT,
    UNITS,
    WORDS,
    Ago,
    Exactly,
    Kind,
    Like,
    Moment,
    Ordered,
    Query,
    Resource,
    Sign,
    Since,
    Term,
    Text,
    Unit,
    Until,
    Value,
    Word,
)
from indelible.core.policy.globs import Glob
from indelible.errors import BadFilter

MOST_CHARACTERS = 2000
MOST_TERMS = 50
MOST_VALUES = 200
LONGEST_AGO = timedelta(days=36_500)
_AGO = re.compile(r"([0-9]{1,9})([smhdw])", re.ASCII)
_SIGNS = (">=", "<=", ">", "<")


@dataclass(frozen=True, slots=True)
class Token:
    """Is a piece of a filter, and where it stands; columns count from 1."""

    text: str
    column: int

    def part(self, start: int, end: int | None = None) -> Token:
        """Gives a piece of it."""
        return Token(self.text[start:end], self.column + start)

    def refusal(self, why: str) -> BadFilter:
        """Gives the error that says what is wrong with it."""
        shown = self.text if len(self.text) <= 60 else f"{self.text[:60]}…"
        return BadFilter(f"filter, column {self.column}: {shown!r} {why}", column=self.column, length=len(self.text))


def parse(text: str, resource: Resource) -> Query:
    """Reads a filter of one kind of things; raises `BadFilter`, and nothing else."""
    _check(text)
    terms = tuple(_term(token, resource) for token in _tokens(Token(text, 1)))
    values = sum(len(term.values) for term in terms if isinstance(term, Word))
    if len(terms) > MOST_TERMS or values > MOST_VALUES:
        raise Token(text, 1).refusal(f"has more than {MOST_TERMS} terms or {MOST_VALUES} values; say less at once")
    return Query(resource, terms)


def _check(text: str) -> None:
    if len(text) > MOST_CHARACTERS:
        raise Token(text, 1).refusal(f"is longer than {MOST_CHARACTERS} characters; say less at once")
    for place, letter in enumerate(text):
        if letter == "\0" or "\ud800" <= letter <= "\udfff":
            raise Token(letter, place + 1).refusal("is no character that anything here can hold; leave it away")


def _tokens(whole: Token) -> Iterator[Token]:
    """Gives what stands between spaces; those inside quotes belong to what is quoted."""
    text, place = whole.text, 0
    while place < len(text):
        if text[place].isspace():
            place += 1
            continue
        start = place
        while place < len(text) and not text[place].isspace():
            place = _end_of_quote(whole, place) if text[place] == '"' else place + 1
        yield whole.part(start, place)


def _end_of_quote(token: Token, start: int) -> int:
    """Gives the place behind the quote that closes this one."""
    place = start + 1
    while place < len(token.text):
        if token.text[place] == '"':
            return place + 1
        place += 2 if token.text[place] == "\\" else 1
    raise token.part(start).refusal(
        'opens a quote that is never closed; close it with " or write \\" for the letter itself'
    )


def _term(token: Token, resource: Resource) -> Term:
    if token.text == "-":
        raise token.refusal("excludes nothing; put behind the minus what to exclude")
    is_excluded = token.text.startswith("-")
    token = token.part(int(is_excluded))
    if token.text.startswith('"'):
        return Text(_text(token), is_excluded)
    name, colon, _ = token.text.partition(":")
    if '"' in name:
        raise token.refusal("has a quote in its middle; put all of it in quotes, or a space before the quote")
    if not colon:
        return Text(name, is_excluded)
    values = token.part(len(name) + 1)
    if name in ("since", "until"):
        if is_excluded:
            raise token.refusal("cannot be excluded; since and until are each other's opposite")
        moment = _moment(values)
        return Since(moment) if name == "since" else Until(moment)
    kind = _kind(token.part(0, len(name)), resource)
    return Word(name, tuple(_value(one, kind) for one in _alternatives(token, values)), is_excluded)


def _text(token: Token) -> str:
    """Reads free text in quotes."""
    text = _unquoted(token)
    if not text:
        raise token.refusal("is empty; put between the quotes what to look for")
    return text


def _kind(name: Token, resource: Resource) -> Kind | None:
    """Gives what a word may be compared with; None for an argument, which may be anything."""
    if name.text.startswith(ARGS) and resource in HAVE_ARGS:
        if "" in name.text.split("."):
            raise name.refusal("names no argument; write the path to it, as in args.customer.id")
        return None
    words = WORDS[resource]
    if name.text not in words:
        more = ("args.NAME",) if resource in HAVE_ARGS else ()
        known = ", ".join(sorted((*words, "since", "until", *more)))
        raise name.refusal(
            f"is no word for {resource}; use one of {known}; or put all of it in quotes to look for it as text"
        )
    return words[name.text]


def _alternatives(token: Token, values: Token) -> Iterator[Token]:
    """Gives what stands between commas; those inside quotes belong to what is quoted."""
    start = place = 0
    while place <= len(values.text):
        if place == len(values.text) or values.text[place] == ",":
            if place == start:
                raise token.refusal(
                    'lacks a value; write one behind the colon and behind each comma, or "" for no letter'
                )
            yield values.part(start, place)
            start = place = place + 1
        else:
            place = _end_of_quote(values, place) if values.text[place] == '"' else place + 1


def _value(token: Token, kind: Kind | None) -> Value:
    value = _plain_value(token)
    match kind, value:
        case None, _:
            return value
        case "number", Like():
            raise token.refusal("is no number; write one, as in 3 or >3")
        case "number", Exactly(text) if not NUMBER_TEXT.fullmatch(text):
            raise token.refusal("is no number; write one, as in 3 or >3")
        case "name", Ordered():
            raise token.refusal("compares names like numbers; only numbers are above or below each other")
        case tuple() as choices, _ if not (isinstance(value, Exactly) and value.text in choices):
            raise token.refusal(f"is none of {', '.join(choices)}; choose of these")
    return value


def _plain_value(token: Token) -> Value:
    if token.text.startswith('"'):
        return Exactly(_unquoted(token))
    if '"' in token.text:
        raise token.refusal("has a quote in its middle; put all of it in quotes")
    sign = next((sign for sign in _SIGNS if token.text.startswith(sign)), None)
    if sign is not None:
        number = token.text.removeprefix(sign)
        if not NUMBER_TEXT.fullmatch(number):
            raise token.refusal(
                "compares with something that is no number; write as in >1000, or put all of it in quotes"
            )
        return Ordered(cast("Sign", sign), Decimal(number))
    return Like(Glob(token.text)) if "*" in token.text else Exactly(token.text)


def _unquoted(token: Token) -> str:
    """Reads what stands in quotes."""
    end = _end_of_quote(token, 0)
    if end != len(token.text):
        raise token.refusal("goes on behind its quote; put a space or a comma there")
    return re.sub(r"\\(.)", r"\1", token.text[1:-1], flags=re.DOTALL)


def _moment(token: Token) -> Moment:
    ago = _AGO.fullmatch(token.text)
    if ago is not None:
        count, unit = int(ago[1]), cast("Unit", ago[2])
        if count > LONGEST_AGO // UNITS[unit]:
            raise token.refusal("is longer ago than anything here; leave it away")
        return Ago(count, unit)
    text = _unquoted(token) if token.text.startswith('"') else token.text
    try:
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise token.refusal(
            "is no time; write how long ago, as in 90s, 30m, 24h, 7d or 2w, or 2030-01-31 or 2030-01-31T12:00Z"
        ) from None
