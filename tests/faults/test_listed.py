"""Has each numbered fault a test that carries its number?"""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.faults.listed import NUMBERS, REPO, WITHOUT, carriers


@pytest.mark.parametrize("number", NUMBERS)
def test_each_number_has_a_test_or_says_why_not(number: int) -> None:
    assert bool(carriers_of(number)) != (number in WITHOUT)


def carriers_of(number: int) -> list[str]:
    """Return the tests of one number."""
    return _FOUND[number]


_FOUND = carriers()


def test_a_number_is_of_its_fault_and_not_of_a_threat() -> None:
    assert "tests/faults/test_faults_order.py" in {test.partition("::")[0] for test in _FOUND[97]}
    assert not [test for test in _FOUND[8] if test.startswith("tests/threats/")]
    both = "tests/stores/postgres/test_roles.py::test_98_65_what_is_recorded_cannot_be_deleted_or_changed"
    assert both in _FOUND[98]
    assert both in _FOUND[65]


def test_the_command_lists_them_all() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.listed"], cwd=REPO, capture_output=True, text=True, check=True
    )
    assert [int(line.split()[0]) for line in done.stdout.splitlines()[:-1]] == [*NUMBERS]
