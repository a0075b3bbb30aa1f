"""A plugin of pytest: stops a run that imports another source than the changed one, and notes which tests fail."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import indelible

SOURCE = "INDELIBLE_MUTANT_SOURCE"
REPORT = "INDELIBLE_MUTANT_REPORT"


def pytest_configure() -> None:
    """Stop unless the package comes from the copy: the environment has the original installed, too."""
    found = Path(indelible.__file__).resolve()
    if not found.is_relative_to(Path(os.environ[SOURCE]).resolve()):
        pytest.exit(f"the tests would import {found}, and the bug is in {os.environ[SOURCE]}", returncode=70)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note each test that failed, also in its setup or teardown."""
    if report.failed:
        with Path(os.environ[REPORT]).open("a") as file:
            file.write(report.nodeid + "\n")
