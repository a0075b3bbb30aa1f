"""Runs the browser's tests, or says what is missing: by this command they are never skipped.

python -m tests.browser [arguments for pytest]
python -m tests.browser --pictures            # draws the pictures of docs/dashboard.md again
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import pytest

from tests.browser.chromium import MISSING, find_chromium
from tests.browser.pictures import draw


def main(arguments: list[str]) -> int:
    if find_chromium() is None:
        sys.stderr.write(f"{MISSING}\n")
        return 2
    if arguments == ["--pictures"]:
        with tempfile.TemporaryDirectory(prefix="indelible-keys-") as keys:
            os.environ["INDELIBLE_KEYS"] = keys
            draw()
        return 0
    return int(pytest.main([str(Path(__file__).parent), *arguments]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
