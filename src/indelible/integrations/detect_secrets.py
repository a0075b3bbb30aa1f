"""The patterns of Yelp's detect-secrets, as rules for `redact=`: `pip install 'indelible[detect-secrets]'`.

Use them beside the built-in detectors, not instead: docs/redaction.md lists what each of them finds.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator

import detect_secrets.plugins
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
    return [pattern for plugin in _plugins() for pattern in plugin().denylist]


def _plugins() -> Iterator[type[RegexBasedDetector]]:
    for module in pkgutil.iter_modules(detect_secrets.plugins.__path__, "detect_secrets.plugins."):
        for plugin in vars(importlib.import_module(module.name)).values():
            if not inspect.isclass(plugin) or plugin.__module__ != module.name or plugin.__name__ in LEFT_OUT:
                continue
            if issubclass(plugin, RegexBasedDetector) and not inspect.isabstract(plugin):
                yield plugin
