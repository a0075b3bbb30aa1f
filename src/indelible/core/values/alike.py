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


def shape_of(folded: str) -> str:
    """Gives a folded text as the eye sees it: in Latin letters wherever it looks so. An accent can be seen."""
    return folded.translate(_TWINS)
