"""Text that may hold anything, shown so that nothing in it hides and no two texts look alike."""

from __future__ import annotations

import json
import unicodedata
from typing import Any

# Characters that draw nothing though their category does not say so: joiners, fillers, selectors, blank braille.
_DRAWS_NOTHING = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0").union(
    map(chr, [*range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)])
)
# Where nothing is assigned and nothing will ever be drawn.
_NEVER_DRAWN = (range(0x2065, 0x2066), range(0xFFF0, 0xFFF9), range(0xE0000, 0xE1000))
# Control, format (bidi, zero-width), surrogate, private, unassigned; separators of lines, paragraphs and words.
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"})
_MOST_HEAPED = 4  # marks on one letter
_OPENS = "⟨"
_CLOSES = "⟩"


def visible(text: str, keep: str = "") -> str:
    """Shows a text with every unseen character as ⟨U+202E⟩; a space, and what is in `keep`, stays as it is.

    The opening bracket of such a mark is marked itself where the text holds one, so that no text can imitate a mark.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if c == " " or c in keep or not _needs_mark(c) else mark_of(c) for c in text)


def visible_json(line: str) -> str:
    """Return a line of JSON that says the same and in which nothing hides: what is unseen is escaped, as in `\\u202e`.

    So are marks over what takes none, such as a digit, and marks heaped on one letter: they cover what is beside them.
    """
    if line.isascii() and line.isprintable():
        return line
    shown: list[str] = []
    takes_mark, heaped = False, 0
    for c in line:
        is_mark = unicodedata.category(c).startswith("M")
        heaped = heaped + 1 if is_mark else 0
        covers = heaped > _MOST_HEAPED or (unicodedata.combining(c) > 0 and not takes_mark)
        hides = covers or (c != " " and is_unseen(c))
        takes_mark = not hides and (is_mark or c.isalpha())
        shown.append(escaped_json(c) if hides else c)
    return "".join(shown)


def json_text(value: Any) -> str:
    """Return a JSON value as indented JSON in which nothing hides."""
    return "\n".join(map(visible_json, json.dumps(value, indent=2, ensure_ascii=False).split("\n")))


def escaped_json(character: str) -> str:
    """Return a character as a JSON string escapes it, also one that need not be escaped."""
    escaped = json.dumps(character)[1:-1]
    return f"\\u{ord(character):04x}" if escaped == character else escaped


def mark_of(character: str) -> str:
    """Writes one character as its number."""
    return f"{_OPENS}U+{ord(character):04X}{_CLOSES}"


def is_unseen(character: str) -> bool:
    """Does a character draw nothing, move what is beside it, or look like a space without being one?"""
    return unicodedata.category(character) in _UNSEEN or character in _DRAWS_NOTHING


def draws_nothing(character: str) -> bool:
    """Does a character leave no trace at all where it is shown? A space leaves one."""
    if unicodedata.category(character) in ("Cc", "Cf") or character in _DRAWS_NOTHING:
        return True
    return any(ord(character) in place for place in _NEVER_DRAWN)


def _needs_mark(character: str) -> bool:
    return character == _OPENS or is_unseen(character)
