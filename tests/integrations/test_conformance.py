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

# What the frameworks' own approvals and saved states do, where that differs from ours.
TWICE = {"crash_after_effect": "2", "resume_twice": "3", "two_workers": "2"}
TAMPERED = {"tampered_state": "1 with other arguments"}
NATIVE = {
    "langchain": TWICE | TAMPERED,
    "openai-agents": TWICE,
    "pydantic-ai": TWICE | TAMPERED,
    "mcp": TWICE | TAMPERED,
}
OURS = dict.fromkeys(CASES, "1") | {"tampered_state": "refused", "store_down": "refused"}


@pytest.fixture(scope="module", params=list(ADAPTERS))
def framework(request: pytest.FixtureRequest) -> Iterator[tuple[str, Host]]:
    with hosting(request.param) as host:
        yield request.param, host


@pytest.mark.parametrize("case", CASES)
def test_behind_the_ledger_it_happens_once_or_is_refused(framework: tuple[str, Host], case: str) -> None:
    assert played(framework[1], case, "ledger") == OURS[case]


@pytest.mark.parametrize("case", ["crash_after_effect", "tampered_state"])
def test_natively_it_happens_as_often_as_measured(framework: tuple[str, Host], case: str) -> None:
    """Were this to change, the cases would not show any more what the ledger adds."""
    adapter, host = framework
    assert played(host, case, "native") == NATIVE[adapter].get(case, "refused")


def test_the_command_says_it_as_a_table_and_as_json() -> None:
    words = ["conformance", "--adapter", "mcp", "--case", "resume_twice"]
    row = {"adapter": "mcp", "case": "resume_twice", "native": "3", "ledger": "1"}
    assert json.loads(indelible(*words, "--json")) == {"rows": [row]}
    said = indelible(*words).splitlines()
    assert [line.split() for line in said] == [["adapter", "case", "native", "ledger"], list(row.values())]


def indelible(*words: str) -> str:
    command = [sys.executable, "-m", "indelible.cli", *words]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=100).stdout
