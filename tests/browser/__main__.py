"""Runs the browser's tests, or says what is missing: by this command they are never skipped.

python -m tests.browser [arguments for pytest]
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest


def main(arguments: list[str]) -> int:
    os.environ["INDELIBLE_BROWSER"] = "required"
    return int(pytest.main([str(Path(__file__).parent), *arguments]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
