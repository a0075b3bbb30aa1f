"""Are the planted bugs still where they were planted, and does the runner tell what notices them?"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.mutants.__main__ import Runner, known, picked
from tests.mutants.imported import REPORT, SOURCE
from tests.mutants.planted import BUGS, Bug
from tests.mutants.planting import PACKAGE, REPO, NotPlanted, changed
from tests.waiting import PATIENCE

_BY_NAME = {bug.name: bug for bug in BUGS}
_TRIVIAL = _BY_NAME["key-without-method"]


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_is_where_it_was_planted_and_changes_code_that_compiles(bug: Bug) -> None:
    text = changed(bug, REPO)
    assert text != (REPO / PACKAGE / bug.file).read_text(encoding="utf-8")
    if bug.file.endswith(".py"):
        compile(text, bug.file, "exec")


def test_bugs_are_many_have_names_of_their_own_and_name_tests_that_are_there() -> None:
    assert len(BUGS) >= 66
    assert len(_BY_NAME) == len(BUGS)
    missing = {test for bug in BUGS for test in bug.tests if not (REPO / test).exists()}
    assert not missing
    assert known().keys() == _BY_NAME.keys(), "each is decided: ./run mutants NAME --guess --record"


@pytest.mark.parametrize(
    "moved",
    [replace(_TRIVIAL, old="parts = [of_another_time]"), replace(_TRIVIAL, where="a_function_of_another_time")],
    ids=["snippet", "function"],
)
def test_a_bug_whose_place_is_gone_is_not_planted(moved: Bug) -> None:
    with pytest.raises(NotPlanted):
        changed(moved, REPO)


def test_each_commit_picks_its_bugs_and_picks_the_same_ones_again() -> None:
    assert picked(6, "a commit") == picked(6, "a commit")
    turns = {bug.name for number in range(200) for bug in picked(6, str(number))}
    assert turns == _BY_NAME.keys()


def test_continuous_integration_plants_six_that_the_commit_draws() -> None:
    lines = (REPO / ".ci" / "run").read_text().splitlines()
    assert "set -euo pipefail" in lines
    assert "./run mutants --pick 6" in lines


def test_a_bug_whose_test_is_gone_is_told_by_the_files_that_are_named_for_it(tmp_path: Path) -> None:
    runner = Runner(tmp_path, limit=PATIENCE * 2)
    verdict = runner.judged(_TRIVIAL, "tests/core/test_leases.py::test_of_another_time", _TRIVIAL.tests)
    assert verdict.is_noticed
    assert verdict.by.startswith(_TRIVIAL.tests)


def test_a_bug_is_noticed_in_the_changed_source_and_the_checkout_stays_as_it_is() -> None:
    path = REPO / PACKAGE / _TRIVIAL.file
    before = path.read_bytes()
    done = _mutants(_TRIVIAL.name)
    assert done.returncode == 0, done.stdout
    assert f"{_TRIVIAL.name}: noticed by {known()[_TRIVIAL.name]}" in done.stdout
    assert path.read_bytes() == before


def test_tests_that_would_import_another_source_do_not_run(tmp_path: Path) -> None:
    env = {**os.environ, SOURCE: str(tmp_path), REPORT: str(tmp_path / "report")}
    command = [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "tests.mutants.imported", "tests/core/test_leases.py"]
    done = subprocess.run([*command, "-p", "no:cacheprovider"], cwd=REPO, env=env, capture_output=True, text=True)
    assert done.returncode == 70, done.stdout + done.stderr


def _mutants(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "tests.mutants", *words], cwd=REPO, capture_output=True, text=True)
