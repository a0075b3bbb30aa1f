"""Names that nobody can tell apart by looking at them. Pure."""

from __future__ import annotations

# Small letters whose shape, small or large, is that of a Latin one.
_CYRILLIC = ("авеԍһіјкӏмнорԛѕтухүԁԝсғ", "abeghijklmhopqstyxydwcf")
_GREEK = ("αβγεζηικμνορτυχϲϳω", "abyezhikmnoptyxcjw")
_ARMENIAN = ("սօհոցզյ", "uohngqj")
_TWINS = {
    ord(letter): twin
    for letters, twins in (_CYRILLIC, _GREEK, _ARMENIAN)
    for letter, twin in zip(letters, twins, strict=True)
} | {ord("ı"): "i", ord("ʟ"): "l", ord("ɡ"): "g", ord("ɑ"): "a"}

_LONGEST_LABEL = 63


def shape_of(folded: str) -> str:
    """Gives a folded text as the eye sees it: in Latin letters wherever it looks so. An accent can be seen."""
    return folded.translate(_TWINS)


def letters_of(label: str) -> str | None:
    """Return the letters that a label of a domain stands for (`xn--bcher-kva`: `bücher`), or None."""
    coded = label.removeprefix("xn--")
    if coded == label or coded.rfind("-") == 0 or len(label) > _LONGEST_LABEL:
        return None
    try:
        letters = coded.encode("ascii").decode("punycode")
    except UnicodeError:
        return None
    return None if letters.isascii() or any("\ud800" <= letter <= "\udfff" for letter in letters) else letters
