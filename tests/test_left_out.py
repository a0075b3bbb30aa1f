"""Does a run say at its end what it left out, and what the commit drew?"""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from tests.left_out import DRAWN, IN_PART, REPO, LeftOut, variables_in

DRAWN_FROM = "from tests.commit import COMMIT"


def _said(*words: str, matrix: str | None = None) -> str:
    """Return the last part of what a run says that only collects."""
    env = {name: value for name, value in os.environ.items() if name not in {"INDELIBLE_MATRIX", *DRAWN, *IN_PART}}
    if matrix is not None:
        env["INDELIBLE_MATRIX"] = matrix
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *words]
    done = subprocess.run(command, cwd=REPO, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.partition("= left out =")[2]


def test_a_run_says_how_many_tests_it_left_out_and_the_whole_matrix_leaves_none() -> None:
    said = _said("tests/scenarios/test_sameness.py", "-n0")
    assert re.search(r"\d+ scenarios through blocking calls on PostgreSQL", said)
    assert re.search(r"\d+ scenarios over HTTP", said)
    assert _said("tests/scenarios/test_sameness.py", "-n0", matrix="full") == ""


def test_a_run_with_workers_says_the_same() -> None:
    env = {name: value for name, value in os.environ.items() if not name.startswith(("INDELIBLE_", "PYTEST_"))}
    words = ["-q", "-n1", "-p", "no:cacheprovider", "tests/scenarios/test_sameness.py", "-k", "no_test_of_this_name"]
    done = subprocess.run([sys.executable, "-m", "pytest", *words], cwd=REPO, env=env, capture_output=True, text=True)
    assert done.returncode == pytest.ExitCode.NO_TESTS_COLLECTED, done.stdout
    assert "scenarios over HTTP" in done.stdout.partition("= left out =")[2]


def test_what_the_commit_draws_is_named_with_the_words_that_run_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in (*DRAWN, *IN_PART):
        monkeypatch.delenv(variable, raising=False)
    file = "tests/journal/test_98_sql_attacks.py"
    (line,) = LeftOut(files={file}).lines()
    assert line.startswith("drawn by commit ")
    assert file in line
    assert line.endswith("INDELIBLE_SQL_ATTACKS=all")
    monkeypatch.setenv("INDELIBLE_SQL_ATTACKS", "all")
    assert LeftOut(files={file}).lines() == []


def test_every_file_that_asks_for_the_commit_names_how_all_of_it_is_run() -> None:
    files = [file for file in (REPO / "tests").rglob("test_*.py") if DRAWN_FROM in file.read_text().splitlines()]
    assert len(files) >= 2
    assert [file.name for file in files if not variables_in(file) & DRAWN.keys()] == []


def test_every_variable_is_read_by_a_file() -> None:
    read = set[str]().union(*(variables_in(file) for file in (REPO / "tests").rglob("test_*.py")))
    assert (DRAWN | IN_PART).keys() <= read
