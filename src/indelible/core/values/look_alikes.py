"""Texts that may be read as something else: what a person who decides should look at twice.

Nothing is changed and nothing is refused here: many such texts are honest. They are named, by where they stand.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from typing import Any

from indelible.core.values.visible import is_unseen

# Alphabets that share shapes with each other. A word of two of them is hardly ever a word.
_ALIKE = frozenset({"ARMENIAN", "CHEROKEE", "COPTIC", "CYRILLIC", "GREEK", "LATIN"})
# Letters of theirs that nobody can tell from a Latin one.
_LOOKS_LATIN = frozenset(
    "АВЕЅІЈКМНОРСТУХԌԜҮасеорхуіјѕԁԛԝһӏүв"  # Cyrillic
    "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧανορυϲϳι"  # Greek
    "ՏՍՕսօհոցգքղ"  # Armenian
)
# What may be taken for the quotation marks and braces of JSON, and so for the end of a value.
_LOOKS_JSON = frozenset("\uff02\u02ba\u02ee\u2033\u2036\u3003\uff5b\uff5d")
_WORD = re.compile(r"[^\W\d_]+")
_MOST_NAMED = 5


def look_closely(value: Any, path: str = "args") -> Iterator[tuple[str, str]]:
    """Gives each place in some arguments where a text may deceive the eye, and why."""
    if isinstance(value, str):
        for why in _reasons(value):
            yield path, why
    elif isinstance(value, dict):
        for name, inner in value.items():
            for why in _reasons(name):
                yield f"{path}.{name}", f"its name {why}"
            yield from look_closely(inner, f"{path}.{name}")
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from look_closely(inner, f"{path}[{number}]")


def _reasons(text: str) -> Iterator[str]:
    """Says what may deceive in one text; most texts need one look only."""
    if text.isascii() and text.isprintable():
        return
    if unseen := _named(text, lambda c: c != " " and is_unseen(c)):
        yield f"holds what cannot be seen: {unseen}"
    if not unicodedata.is_normalized("NFC", text):
        yield "is composed in an unusual way, so that another text looks the same"
    if stretched := _named(text, _is_form_of_ascii):
        yield f"holds other forms of plain letters and digits: {stretched}"
    if quoted := _named(text, _LOOKS_JSON.__contains__):
        yield f"holds what looks like a quotation mark or brace: {quoted}"
    if overlaid := _overlaid(text):
        yield f"holds marks over what takes none: {overlaid}"
    mixed = dict.fromkeys(word for word in _WORD.findall(text) if len(_alphabets(word)) > 1)
    yield from map(_mixed, mixed)
    for alphabet in sorted(_alphabets(text) - {"LATIN"}):
        # A text that is really of this alphabet has a letter somewhere that only this alphabet has.
        if not mixed and {c for c in text if _alphabet(c) == alphabet} <= _LOOKS_LATIN:
            yield f"looks Latin, and is {alphabet.capitalize()}"


def _named(text: str, is_meant: Callable[[str], bool]) -> str:
    """Names the characters that are meant, each once; nothing when there are none."""
    found = list(dict.fromkeys(c for c in text if is_meant(c)))
    names = [f"U+{ord(c):04X} {unicodedata.name(c, '')}".rstrip() for c in found[:_MOST_NAMED]]
    return ", ".join(names) + (f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else "")


def _is_form_of_ascii(character: str) -> bool:
    """Is this a letter or digit in a wide, bold, circled or raised form?"""
    plain = unicodedata.normalize("NFKC", character)
    return not character.isascii() and plain.isascii() and plain.isalnum()


def _overlaid(text: str) -> str:
    """Names combining marks on digits, signs and spaces, where no language puts them."""
    pairs = zip(" " + text, text, strict=False)
    marks = {c for before, c in pairs if unicodedata.combining(c) and not (before.isalpha() or _is_mark(before))}
    return _named(text, marks.__contains__)


def _is_mark(character: str) -> bool:
    return bool(unicodedata.combining(character))


def _mixed(word: str) -> str:
    names = " and ".join(sorted(name.capitalize() for name in _alphabets(word)))
    usual = "LATIN" if "LATIN" in _alphabets(word) else _alphabet(word[0])
    strange = _named(word, lambda c: _alphabet(c) != usual)
    return f"mixes {names} letters in one word: {strange}"


def _alphabets(text: str) -> set[str]:
    return {alphabet for c in text if (alphabet := _alphabet(c)) in _ALIKE}


def _alphabet(character: str) -> str:
    """Gives the alphabet of a letter, by the first word of its name."""
    return unicodedata.name(character, "").partition(" ")[0] if character.isalpha() else ""
