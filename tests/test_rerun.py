"""A test that fails is run once more, alone; only what passes then is forgiven, and each is named."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[1]

# `once` fails in the first process that asks, and in no other.
_ONCE = """
import os, pathlib, pytest
def once(name):
    mark = pathlib.Path(__file__).with_name(name + ".mark")
    if not mark.exists():
        mark.write_text(str(os.getpid()))
        pytest.fail("the first time")
    # Alone means: in another process, and in no worker.
    assert mark.read_text() != str(os.getpid())
    assert "PYTEST_XDIST_WORKER" not in os.environ
"""


def _rerun(folder: Path, body: str, *args: str) -> tuple[int, list[str], str]:
    """Gives the exit code, the names of flaky tests, and all that was printed."""
    # Every other plugin that is installed takes time to import, and each run here starts pytest twice.
    (folder / "pytest.ini").write_text("[pytest]\naddopts = -p xdist -p pytest_cov\n")
    (folder / "test_it.py").write_text(_ONCE + body, "utf-8")
    # Neither the options nor the worker of the run around this one are meant for the run inside.
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "COV_"))}
    ran = subprocess.run(
        [sys.executable, "-m", "tests.rerun", *args],
        cwd=folder,
        env=environment | {"PYTHONPATH": str(_ROOT), "PYTHONUTF8": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        encoding="utf-8",
    )
    said = ran.stdout + ran.stderr
    flaky = [line.removeprefix("flaky: ") for line in said.splitlines() if line.startswith("flaky: ")]
    return ran.returncode, flaky, said


@pytest.mark.parametrize("workers", ["-n0", "-n2"])
def test_a_test_that_passes_alone_is_named_and_forgiven(tmp_path: Path, workers: str) -> None:
    code, flaky, said = _rerun(tmp_path, "def test_a(): once('a')\ndef test_b(): pass\n", workers)
    assert (code, flaky) == (0, ["test_it.py::test_a"]), said
    assert "collected 1 item" in said  # test_b is not run again


def test_a_run_without_failures_runs_nothing_again(tmp_path: Path) -> None:
    code, flaky, said = _rerun(tmp_path, "def test_a(): pass\n")
    assert (code, flaky, said.count("test session starts")) == (0, [], 1), said


@pytest.mark.parametrize(
    "second", ["assert False", "pytest.skip('not now')"], ids=["fails again", "is skipped the second time"]
)
def test_one_test_that_does_not_pass_alone_fails_the_run(tmp_path: Path, second: str) -> None:
    body = f"def test_a(): once('a')\ndef test_b():\n    once('b')\n    {second}\n"
    code, flaky, said = _rerun(tmp_path, body)
    assert (code, flaky) == (1, []), said
    assert said.count("test session starts") == 2


@pytest.mark.parametrize(("number", "expected"), [(3, 0), (4, 1)])
def test_three_flaky_tests_are_forgiven_and_four_are_not(tmp_path: Path, number: int, expected: int) -> None:
    body = "".join(f"def test_{n}(): once('{n}')\n" for n in range(number))
    code, flaky, said = _rerun(tmp_path, body)
    assert code == expected, said
    assert flaky == ([] if expected else [f"test_it.py::test_{n}" for n in range(number)])
    assert expected == 0 or "rerun: 4 tests failed" in said


@pytest.mark.parametrize("before", ["once('a'); yield", "yield; once('a')"], ids=["setup", "teardown"])
def test_an_error_around_a_test_counts_as_its_failure(tmp_path: Path, before: str) -> None:
    body = f"@pytest.fixture\ndef around():\n    {before}\ndef test_a(around): pass\n"
    code, flaky, said = _rerun(tmp_path, body)
    assert (code, flaky) == (0, ["test_it.py::test_a"]), said


@pytest.mark.parametrize("before", ["assert False; yield", "yield; assert False"], ids=["setup", "teardown"])
def test_an_error_around_a_test_that_comes_again_fails_the_run(tmp_path: Path, before: str) -> None:
    body = f"@pytest.fixture\ndef around():\n    {before}\ndef test_a(around): pass\n"
    code, flaky, said = _rerun(tmp_path, body)
    assert (code, flaky) == (1, []), said


def test_a_worker_that_dies_once_is_a_test_that_failed(tmp_path: Path) -> None:
    body = "def test_a():\n    try: once('a')\n    except BaseException: os._exit(9)\n"
    code, flaky, said = _rerun(tmp_path, body, "-n1")
    assert (code, flaky) == (0, ["test_it.py::test_a"]), said


def test_every_name_reaches_the_second_run_as_it_is(tmp_path: Path) -> None:
    words = ["a b", "x[1]::y", 'it\'s "quoted" $HOME `id` \\ ;', "ü → 名"]
    for word in words:  # one at a time, for no more than three are run again
        folder = tmp_path / str(words.index(word))
        folder.mkdir()
        body = (
            f"@pytest.mark.parametrize('word', [{word!r}, 'other'])\ndef test_ü(word): word == 'other' or once('a')\n"
        )
        code, flaky, said = _rerun(folder, body)
        assert (code, len(flaky)) == (0, 1), said
        assert flaky[0].startswith("test_it.py::test_ü["), said
        assert "collected 1 item" in said


@pytest.mark.parametrize(
    ("other", "args"),
    [
        ("", ["--cov=test_it", "--cov-fail-under=100"]),
        ("", ["-x"]),
        ("", ["-x", "-n2"]),
        ("import nothing_of_that_name\n", []),
        ("import nothing_of_that_name\n", ["--continue-on-collection-errors"]),
        ("import nothing_of_that_name\n", ["-n2"]),
        ("def test_b(): raise KeyboardInterrupt\n", []),
        ("def pytest_runtest_logfinish(): raise RuntimeError\n", []),
        ("", ["-k", "nothing_of_that_name"]),
        ("", ["--no-such-option"]),
    ],
    ids=[
        "coverage",
        "stopped",
        "stopped workers",
        "collection",
        "collection and failure",
        "collection in workers",
        "interrupted",
        "internal",
        "no tests",
        "usage",
    ],
)
def test_a_run_that_failed_for_another_reason_fails_though_a_test_was_flaky(
    tmp_path: Path, other: str, args: list[str]
) -> None:
    (tmp_path / ("conftest.py" if "pytest_" in other else "test_other.py")).write_text(other)
    code, flaky, said = _rerun(tmp_path, "def test_a(): once('a')\n", *args)
    assert code != 0, said
    assert flaky == [], said
