"""Runs pytest, and runs each test that failed once more, alone: `python -m tests.rerun [args of pytest]`.

A test that passes then is flaky. The run goes on, and names it in a line of its own.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

# More flaky tests fail the run. So the verdict on more failures is known, and none of them is run again.
MOST = 3


class _Watch:
    """Notes what became of each test, in the process that pytest reports to."""

    def __init__(self) -> None:
        self.passed: set[str] = set()
        self.failed: dict[str, None] = {}  # in the order in which they failed
        self.is_only_tests = False
        self._failures = 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:  # also in setup or teardown
            self._failures += 1
            self.failed[report.nodeid] = None
        elif report.passed and report.when == "call":
            self.passed.add(report.nodeid)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        # pytest counts a collection error as one more failure, and pytest-cov a coverage that is too low.
        is_whole = not session.shouldfail and not session.shouldstop
        self.is_only_tests = is_whole and session.testsfailed == self._failures


def main(args: list[str]) -> int:
    """Gives the exit code of pytest, or 0 if each of at most three failed tests passes alone."""
    watch = _Watch()
    if args[:1] == ["--alone"]:
        code = int(pytest.main(["-n0", "--tb=short", *args[1:]], plugins=[watch]))
        # A test that is skipped the second time has not passed.
        return code or int(watch.passed != set(args[1:]))

    code = int(pytest.main(args, plugins=[watch]))
    failed = list(watch.failed)
    if code != pytest.ExitCode.TESTS_FAILED or not failed or not watch.is_only_tests:
        return code
    if len(failed) > MOST:
        print(f"rerun: {len(failed)} tests failed; no more than {MOST} are run again", flush=True)
        return code
    # No shell reads the node ids, so they may contain spaces, quotes and brackets.
    if subprocess.run([sys.executable, "-m", "tests.rerun", "--alone", *failed]).returncode:
        return code
    for name in failed:
        print(f"flaky: {name}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
