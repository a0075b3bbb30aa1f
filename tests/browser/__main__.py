"""Runs the browser's checks, or says what is missing: they are never skipped in silence.

    python -m tests.browser [arguments for pytest]

Needs the package playwright, and a Chromium: chromium or google-chrome on the path, or what $INDELIBLE_CHROMIUM names.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from tests.browser.chromium import find_chromium


def main() -> int:
    if importlib.util.find_spec("playwright") is None:
        sys.stderr.write("the browser's checks need playwright; run: pip install playwright\n")
        return 2
    if find_chromium() is None:
        sys.stderr.write(
            "no Chromium was found; install one (Debian: apt install chromium) or set INDELIBLE_CHROMIUM\n"
        )
        return 2
    # Named in full, for their name keeps the checks out of the normal tests, where playwright may be missing.
    checks = [str(path) for path in sorted(Path(__file__).parent.glob("check_*.py"))]
    return int(pytest.main(["-p", "tests.browser.pages", *checks, *sys.argv[1:]]))


if __name__ == "__main__":
    sys.exit(main())
