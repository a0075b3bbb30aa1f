"""`indelible version`."""

from __future__ import annotations

import json


def say_version(*, is_json: bool) -> int:
    """Prints the version of the library."""
    from indelible import __version__

    print(json.dumps({"version": __version__}) if is_json else f"indelible {__version__}")
    return 0
