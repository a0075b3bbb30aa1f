"""Finds what looks like a secret in a text: card numbers, e-mail addresses, tokens, private keys.

Every pattern takes time in proportion to the text: each begins with something fixed, or with letters that may not stand
before it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass


def _always(text: str) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Detector:
    """Is a pattern, and a closer look at what it finds."""

    name: str
    pattern: re.Pattern[str]
    is_real: Callable[[str], bool] = _always


def passes_luhn(text: str) -> bool:
    """Do these digits end with the check digit that card numbers have? What stands between digits does not count."""
    digits = [int(letter) for letter in text if letter.isdigit()]
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[-2::-2]]
    return (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


# The first digits are those of the large issuers, which spares timestamps and most other long numbers.
_CARD = r"(?<![0-9A-Za-z.])(?:2[2-7]|3[0-9]|4[0-9]|5[0-9]|6[0-9])(?:[ -]?[0-9]){11,17}(?![0-9A-Za-z])"
_EMAIL = r"(?<![\w.+%-])[\w.+%-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}"
_TOKEN = "|".join(
    (
        r"(?<=bearer )[\w.~+/=-]{8,}",
        r"(?<=basic )[A-Za-z0-9+/]{8,}={0,2}",
        r"(?<![A-Za-z0-9])(?:sk|pk|rk|whsec)[-_][\w-]{16,}",
        r"(?<![A-Za-z0-9])(?:gh[pousr]|github_pat|glpat|npm|hf|xox[abeprs])[-_][\w-]{10,}",
        r"(?<![A-Za-z0-9])(?:AKIA|ASIA)[0-9A-Z]{16}(?![0-9A-Za-z])",
        r"(?<![A-Za-z0-9])AIza[\w-]{30,}",
        r"(?<![\w-])eyJ[\w-]{6,}\.[\w-]{6,}\.[\w-]*",
        r"(?<=://)[^\s/:@]{1,200}:[^\s/@]{1,200}(?=@)",
        r"(?<![A-Za-z0-9])(?:api[_-]?key|apikey|secret|password|passwd|token)[\"']?\s{0,3}[=:]\s{0,3}[\"']?[^\s\"',;&]{4,}",
    )
)
_PRIVATE_KEY = (
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?:[^-]|-(?!----))*(?:-----END [A-Z0-9 ]{0,60}-----)?"
)

DETECTORS: dict[str, Detector] = {
    detector.name: detector
    for detector in (
        Detector("card", re.compile(_CARD, re.ASCII), passes_luhn),
        Detector("email", re.compile(_EMAIL)),
        Detector("token", re.compile(_TOKEN, re.IGNORECASE | re.ASCII)),
        Detector("private_key", re.compile(_PRIVATE_KEY)),
    )
}
# Looks like a mark of ours, and is none if it stands in what a caller passed: nobody may pass a mark for its value.
_FORGED = re.compile(r"\[redacted [a-z0-9_-]{1,20} [0-9a-f]{32}\]")


def found_in(text: str, detector: Detector) -> Iterator[tuple[int, int]]:
    """Lists the places of what a detector finds, in their order."""
    for match in detector.pattern.finditer(text):
        if match.end() > match.start() and detector.is_real(match[0]):
            yield match.span()


def forged_in(text: str) -> Iterator[tuple[int, int]]:
    """Lists the places that only look as if something had been redacted."""
    return (match.span() for match in _FORGED.finditer(text))
