"""Threat 4: one approval is used twice: by many at once, for another run, for other arguments, or after its time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest

from indelible import Actor, Ledger, ToolCall
from indelible.errors import ApprovalPending
from indelible.stores import migrate, open_store
from indelible.testing.clock import FakeClock
from tests.threats.exposed import Exposed

CLAIMS = int(os.environ.get("INDELIBLE_CLAIMS", "64"))
"""Is how many want one approval at once; 1000 for the long run."""
ANA = Actor("ana")


@pytest.fixture
def exposed(store_url: str) -> Iterator[Exposed]:
    found = Exposed(store_url, seal=False)
    yield found
    found.close()


def approved(exposed: Exposed, **words: Any) -> dict[str, Any]:
    asked = exposed.begin(approval="required", **words).json()["approval"]
    body = {"decision": "approve", "digest": asked["digest"]}
    assert exposed.post(f"/v1/approvals/{asked['id']}/decisions", body, "ana").status_code == 201
    return dict(asked)


def test_of_many_who_claim_by_one_approval_exactly_one_does(exposed: Exposed) -> None:
    asked = approved(exposed, run_id="r")

    def claim(number: int) -> int:
        return exposed.begin(run_id="r", approval="required", token=f"{number:032}").status_code

    with ThreadPoolExecutor(16) as pool:
        statuses = list(pool.map(claim, range(CLAIMS)))
    assert statuses.count(201) == 1
    assert set(statuses) <= {201, 409}
    told = exposed.ask("GET", f"/v1/approvals/{asked['id']}", "ana").json()["approval"]
    assert told["status"] == "consumed"
    events = exposed.ask("GET", "/v1/events", params={"run_id": "r"}).json()["events"]
    assert [event["type"] for event in events].count("tool_call_started") == 1


def test_an_approval_is_for_its_run_and_its_arguments_alone(exposed: Exposed) -> None:
    approved(exposed, run_id="r")
    for other in ({"run_id": "r2"}, {"run_id": "r", "args": {"amount": 6}}, {"run_id": "r", "tool": "charge2"}):
        assert exposed.begin(approval="required", **other).status_code == 202, other
    assert exposed.begin(approval="required", run_id="r", scope="r2").status_code == 202
    assert exposed.begin(approval="required", run_id="r").status_code == 201
    assert exposed.begin(approval="required", run_id="r", call_id="2", dedupe="call").status_code == 202


@pytest.mark.parametrize("jump", [timedelta(hours=25), timedelta(days=400)])
def test_an_approval_that_expired_allows_nothing_however_the_clock_jumps(store_url: str, jump: timedelta) -> None:
    migrate(store_url)
    clock = FakeClock()
    store = open_store(store_url, clock=clock)
    with closing(store), Ledger.open(store=store, seal=False) as ledger:
        call = ToolCall(run_id="r", tool="pay", args={"n": 1})
        with pytest.raises(ApprovalPending) as pending:
            ledger.run(call, lambda effect: 1, approval="required", wait=0)
        asked = pending.value.approval
        clock.advance(timedelta(hours=-2))  # backwards first: it does not count twice
        ledger.approve(asked.id, digest=asked.digest, by=ANA)
        clock.advance(jump + timedelta(hours=2))
        entered: list[int] = []
        with pytest.raises(ApprovalPending) as again:
            ledger.run(call, lambda effect: entered.append(1), approval="required", wait=0)
        assert (entered, again.value.approval.id == asked.id) == ([], False)
