"""Calls that must not run, and votes that another process casts when it is told."""

from __future__ import annotations

from multiprocessing.connection import Connection
from typing import Any

import pytest

from indelible import Ledger
from indelible.errors import ApprovalPending, IndelibleError
from tests.scenarios.shells import Count, Driver

SMALL, LARGE = {"order": 7, "amount": 5}, {"order": 7, "amount": 5000}


def never_runs(ledger: Driver, call: Any, refusal: type[IndelibleError] = ApprovalPending, **words: Any) -> Any:
    """Make a call that must not run, and return what it was told: exactly this refusal, and no handler is entered."""
    handler = Count()
    with pytest.raises(refusal) as told:
        ledger.run(call, handler, wait=False, **words)
    assert type(told.value) is refusal
    assert handler.entries == 0
    return told.value


def vote_on_word(line: Connection, url: str, tenant: str, by: str) -> None:
    """Is a process in which one person votes on what they are told."""
    with Ledger.open(url, tenant=tenant) as ledger:
        line.send("ready")
        while (told := line.recv()) is not None:
            approval_id, digest = told
            line.send(ledger.approve(approval_id, digest=digest, by=by).status)
