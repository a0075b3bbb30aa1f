"""What `indelible demo` ends with: it offers the page, brings it where `./run` can, and keeps nobody waiting."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.terminals import read_to_end

OFFER = "import sys; from indelible.cli.demo import page; {first}; sys.exit(page.offer({told}))"
WITHOUT_SERVER = "page.NEEDS = ('a_package_that_nobody_has',)"


def offered(told: bool | None, first: str = "pass", **environment: str) -> tuple[int, str]:
    """Runs the offer where nobody can answer a question, and gives how it ended and what it said."""
    program = OFFER.format(first=first, told=told)
    said = subprocess.run(
        [sys.executable, "-c", program], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        env={**os.environ, **environment},
    )  # fmt: skip
    assert said.stderr == ""
    return said.returncode, said.stdout


@pytest.mark.parametrize("told", [None, False])
def test_where_nobody_can_answer_it_says_the_command_and_ends(told: bool | None) -> None:
    code, said = offered(told)
    assert (code, said.splitlines()[-1].strip()) == (0, "indelible serve --demo")


def test_without_the_servers_packages_it_says_the_one_command_that_brings_them() -> None:
    _, said = offered(None, WITHOUT_SERVER)
    assert said.splitlines()[-1].strip() == "pip install 'indelible[server]' && indelible serve --demo"
    _, said = offered(None, WITHOUT_SERVER, INDELIBLE_COMMAND="./run")
    assert said.splitlines()[-1].strip() == "./run serve --demo"


def test_in_a_checkout_the_page_is_brought_by_run(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.write_text('#!/bin/sh\necho "asked for: $*"\nexit 3\n')
    run.chmod(0o755)
    assert offered(True, WITHOUT_SERVER, INDELIBLE_COMMAND=str(run)) == (3, "asked for: serve --demo\n")


@pytest.mark.parametrize(("answer", "is_shown"), [("n\n", False), ("\x04", False), ("\n", True)])
def test_at_a_terminal_it_asks_first(answer: str, is_shown: bool, tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.write_text('#!/bin/sh\necho "asked for: $*"\n')
    run.chmod(0o755)
    program = OFFER.format(first=WITHOUT_SERVER, told=None)
    said = read_to_end([sys.executable, "-c", program], "[Y/n]", answer, INDELIBLE_COMMAND=str(run))
    assert ("asked for: serve --demo" in said) is is_shown
    assert (f"{run} serve --demo" in said) is not is_shown
