"""Finds what looks like a secret in a text: card numbers, e-mail addresses, tokens, private keys.

Every pattern takes time in proportion to the text: each begins with something fixed, or with letters that may not stand
before it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Detector:
    """Is a pattern, and a closer look at what it finds.

    Where there is a closer look, the pattern may take in a number that stands beside: then what it finds is also tried
    without its last groups of digits, and from each later place.
    """

    name: str
    pattern: re.Pattern[str]
    is_real: Callable[[str], bool] | None = None


def passes_luhn(text: str) -> bool:
    """Do these digits end with the check digit that card numbers have? What stands between digits does not count."""
    digits = [int(letter) for letter in text.replace("%20", " ") if letter.isdigit()]
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[-2::-2]]
    return (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


def _is_card(text: str) -> bool:
    return sum(map(str.isdigit, text.replace("%20", " "))) >= _FEWEST_DIGITS and passes_luhn(text)


_FEWEST_DIGITS = 13
_GAP = re.compile(r"(?:[^0-9%]|%20)+")
# The first digits are those of the large issuers, which spares timestamps and most other long numbers. Groups of digits
# may stand apart by more than a space or a dash: a dot between single digits is a decimal, between groups it is none.
_APART = r"(?:[ \t\u00a0\u2007\u2009\u202f._/+\u2010-\u2015-]|%20){1,2}"
_CARD = "|".join(
    (
        r"(?<![0-9.])(?:2[2-7]|3[0-9]|4[0-9]|5[0-9]|6[0-9])(?:[ -]?[0-9]){11,17}(?![0-9A-Za-z])",
        rf"(?<![0-9])[2-6][0-9]{{3}}{_APART}[0-9]{{4}}{_APART}[0-9]{{4}}{_APART}[0-9]{{1,4}}(?:{_APART}[0-9]{{1,3}})?(?![0-9])",
        rf"(?<![0-9])3[0-9]{{3}}{_APART}[0-9]{{6}}{_APART}[0-9]{{4,5}}(?![0-9])",
    )
)
_EMAIL = r"(?<![\w.+%-])[\w.+%-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}"
# Prefixes that providers publish; what follows is long enough to be no word.
_PREFIXES = "|".join(
    (
        r"(?:sk|pk|rk|whsec)[-_][\w-]{16,}",
        r"(?:gh[pousr]|github_pat|glpat|glptt|gldt|npm|hf|xox[abeprs]|xapp|pypi|dop_v1|doo_v1|dapi|shp(?:at|ca|pa|ss))[-_]?[\w-]{10,}",
        r"(?:lin_api|ntn|sbp|glsa|glc|tfp|dckr_pat|rubygems|sntry[su]|phc|phx|pscale_(?:tkn|pw|oauth))_[\w-]{10,}",
        r"(?:ya29|hvs|hvb|SG|dp\.(?:pt|st|ct|sa|scim|audit))\.[\w.-]{16,}",
        r"(?:GOCSPX|sq0(?:atp|csp|idp)|key|ATATT3xFfGF0|AGE-SECRET-KEY)-[\w-]{16,}",
        r"(?:AKIA|ASIA|ABIA|ACCA)[0-9A-Z]{16}(?![0-9A-Za-z])",
        r"(?:SK|AC)[0-9a-f]{32}(?![0-9A-Za-z])",
        r"EAAA[\w-]{50,}",
        r"secret_[A-Za-z0-9]{30,}",
        r"AIza[\w-]{30,}",
        r"1//0[\w-]{20,}",
        r"[0-9a-f]{32}-us[0-9]{1,2}(?![0-9A-Za-z])",
        r"[0-9]{8,10}:AA[\w-]{32,34}(?![\w-])",
        r"[MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,38}(?![\w-])",
    )
)
# Names of members and settings behind which a secret stands, in any style: DB_PASSWORD, clientSecret, x-api-key.
_NAMES = (
    r"(?:api[_ -]?key|access[_ -]?key(?:[_ -]?id)?|account[_ -]?key|secret(?:[_ -]?(?:access[_ -]?)?key)?|"
    r"private[_ -]?key|"
    r"passw(?:or)?d|passphrase|passcode|pwd|(?:access|auth|refresh|id|session|bearer|csrf)[_ -]?token|token|"
    r"credentials?|"
    r"session(?:id)?|sid|sig|signature|auth(?:orization)?)"
)
_TOKEN = "|".join(
    (
        r"(?<=bearer)\s{1,4}[\w.~+/=-]{8,}",
        r"(?<=basic)\s{1,4}[A-Za-z0-9+/]{8,}={0,2}",
        r"(?<=authorization: )(?:token|apikey|key|digest)\s{1,4}[\w.~+/=-]{8,}",
        rf"(?<![A-Za-z0-9])(?:{_PREFIXES})",
        r"(?<![\w-])eyJ[\w-]{6,}\.[\w-]{6,}\.[\w-]*",
        r"(?<=://)[^\s/:@]{0,200}:[^\s/@]{1,200}(?=@)",
        r"(?<=hooks\.slack\.com/services/)[\w/]{20,}",
        r"(?<=/api/webhooks/)[0-9]{15,20}/[\w-]{30,}",
        rf"{_NAMES}[\"']?\s{{0,3}}(?:=>|:=|[=:])\s{{0,3}}[\"']?(?!(?:bearer|basic|token|apikey|key|digest|true|false|null|none)\b)[^\s\"',;&]{{4,}}",
        r"(?<![A-Za-z0-9])(?:password|passphrase|pin|secret) (?:is|was) [\"']?[^\s\"',;]{4,}",
    )
)
_PRIVATE_KEY = (
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?:[^-]|-(?!----))*(?:-----END [A-Z0-9 ]{0,60}-----)?"
)

DETECTORS: dict[str, Detector] = {
    detector.name: detector
    for detector in (
        Detector("card", re.compile(_CARD, re.ASCII), _is_card),
        Detector("email", re.compile(_EMAIL)),
        Detector("token", re.compile(_TOKEN, re.IGNORECASE | re.ASCII)),
        Detector("private_key", re.compile(_PRIVATE_KEY)),
    )
}
# Looks like a mark of ours, and is none if it stands in what a caller passed: nobody may pass a mark for its value.
_FORGED = re.compile(r"\[redacted [a-z0-9_-]{1,20} [0-9a-f]{32}\]")


def found_in(text: str, detector: Detector) -> Iterator[tuple[int, int]]:
    """Lists the places of what a detector finds, in their order."""
    is_real = detector.is_real
    if is_real is None:
        yield from (match.span() for match in detector.pattern.finditer(text) if match.end() > match.start())
        return
    place = 0
    while (match := detector.pattern.search(text, place)) is not None:
        start = match.start()
        ends = [match.end(), *(start + gap.start() for gap in reversed(list(_GAP.finditer(match[0]))))]
        end = next((end for end in ends if is_real(text[start:end])), None)
        place = start + 1 if end is None else end
        if end is not None:
            yield start, end


def forged_in(text: str) -> Iterator[tuple[int, int]]:
    """Lists the places that only look as if something had been redacted."""
    return (match.span() for match in _FORGED.finditer(text))
