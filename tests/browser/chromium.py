"""Where the browser is."""

from __future__ import annotations

import os
import shutil

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find_chromium() -> str | None:
    """Gives the path of a Chromium, or None."""
    named = os.environ.get("INDELIBLE_CHROMIUM")
    return named or next(filter(None, map(shutil.which, _NAMES)), None)
