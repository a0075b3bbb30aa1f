"""The cases that every integration passes, with real processes, some of them killed: ours read 1 or refused.

The whole matrix, native beside ours: .venv/bin/python -m tests.integrations.matrix
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from indelible.testing.adapters.cases import CASES, played
from indelible.testing.adapters.host import Host, hosting

# What LangChain's own approvals and checkpoints do, where that differs from ours.
NATIVE = {
    "crash_after_effect": "2",
    "resume_twice": "3",
    "two_workers": "2",
    "tampered_state": "1 with other arguments",
}
OURS = dict.fromkeys(CASES, "1") | {"tampered_state": "refused", "store_down": "refused"}


@pytest.fixture(scope="module")
def langchain() -> Iterator[Host]:
    with hosting("langchain") as host:
        yield host


@pytest.mark.parametrize("case", CASES)
def test_behind_the_ledger_it_happens_once_or_is_refused(langchain: Host, case: str) -> None:
    assert played(langchain, case, "ledger") == OURS[case]


@pytest.mark.parametrize("case", NATIVE)
def test_natively_it_happens_as_often_as_measured(langchain: Host, case: str) -> None:
    """Were this to change, the cases would not show any more what the ledger adds."""
    assert played(langchain, case, "native") == NATIVE[case]
