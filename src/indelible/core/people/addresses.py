"""E-mail addresses, as they are compared: byte by byte. Pure.

Only A to Z are lower-cased. Case folding would make two mailboxes one: `straße` becomes `strasse`. Domains are compared
in the form that DNS uses (`xn--…`), without any mapping of letters.
"""

from __future__ import annotations

import string

_LOWERED = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
_LONGEST_LABEL = 63
_LONGEST_ADDRESS = 320


def lowered(text: str) -> str:
    """Return a text with A to Z in lower case, and all other letters as they are."""
    return text.translate(_LOWERED)


def address_of(text: str) -> str | None:
    """Return an e-mail address as it is compared, or None if the text is not an address."""
    if len(text) > _LONGEST_ADDRESS or not text.isprintable():
        return None
    name, at, domain = text.partition("@")
    asked = domain_of(domain)
    return None if not name or not at or asked is None else f"{lowered(name)}@{asked}"


def domain_of(text: str) -> str | None:
    """Return a domain in the form that DNS uses, or None if the text is not a domain."""
    labels = [_label(part) for part in lowered(text).split(".")]
    return ".".join(labels) if all(0 < len(label) <= _LONGEST_LABEL for label in labels) and "@" not in text else None


def _label(text: str) -> str:
    return text if text.isascii() else f"xn--{text.encode('punycode').decode('ascii')}"
