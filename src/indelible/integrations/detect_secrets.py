"""The patterns of Yelp's detect-secrets, as rules for `redact=`: `pip install 'indelible[detect-secrets]'`.

Use them beside the built-in detectors, not instead: docs/redaction.md lists what each of them finds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class
from detect_secrets.plugins.base import RegexBasedDetector

# Each would keep back too little, or take time that grows with the square of the text.
LEFT_OUT = {
    "IPPublicDetector": "an address is no secret",
    "JwtTokenDetector": "quadratic; the detector `token` finds these",
    "NpmDetector": "quadratic; the detector `token` finds these",
    "OpenAIDetector": "quadratic; the detector `token` finds these",
    "PrivateKeyDetector": "it finds the first line of a key; the detector `private_key` finds all of it",
}


def patterns() -> list[re.Pattern[str]]:
    """Return the patterns, for example `Ledger.open(redact=["token", *patterns()])`.

    Pin the version of detect-secrets: another set of rules records another form of a call, which is then another call.
    """
    found: Iterable[Any] = get_mapping_from_secret_type_to_class().values()
    kept = [one for one in found if issubclass(one, RegexBasedDetector) and one.__name__ not in LEFT_OUT]
    return [pattern for plugin in kept for pattern in plugin().denylist]
