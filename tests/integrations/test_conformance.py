"""The cases that every integration passes, with real processes, some of them killed: ours read 1 or refused.

The whole matrix, native beside ours: indelible conformance
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest

from indelible.testing.adapters.cases import CASES, played
from indelible.testing.adapters.host import Host, hosting
from indelible.testing.adapters.rig import ADAPTERS

OURS = dict.fromkeys(CASES, "1") | {"tampered_state": "refused", "store_down": "refused"}


@pytest.fixture(scope="module", params=list(ADAPTERS))
def framework(request: pytest.FixtureRequest) -> Iterator[tuple[str, Host]]:
    with hosting(request.param) as host:
        yield request.param, host


@pytest.mark.parametrize("case", CASES)
def test_behind_the_ledger_it_happens_once_or_is_refused(framework: tuple[str, Host], case: str) -> None:
    assert played(framework[1], case, "ledger") == OURS[case]


def test_natively_it_happens_as_often_as_measured(framework: tuple[str, Host]) -> None:
    """Were this to change, the cases would not show any more what the ledger adds. The command plays all of them."""
    assert played(framework[1], "crash_after_effect", "native") == "2"


def test_the_command_says_it() -> None:
    words = ["conformance", "--adapter", "mcp", "--case", "resume_twice"]
    row = {"adapter": "mcp", "case": "resume_twice", "native": "3", "ledger": "1"}
    assert json.loads(indelible(*words, "--json")) == {"rows": [row]}


def indelible(*words: str) -> str:
    command = [sys.executable, "-m", "indelible.cli", *words]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=100).stdout
