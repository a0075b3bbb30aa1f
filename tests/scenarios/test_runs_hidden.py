"""Runs on ledgers that hide what they record: in clear for whoever has the keys, and for nobody else."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from indelible import CheckpointRule, Redacted
from indelible.core.runs.resuming import context_content
from tests.scenarios.hands import resumed, started
from tests.scenarios.shells import Count, Driver, Shell, charge
from tests.scenarios.test_redaction import assert_found_nowhere

CANARY = f"CANARY-run-{uuid4().hex}"


@pytest.fixture
def hiding(shell: Shell, keys: Path) -> Driver:
    """A ledger that encrypts what it records."""
    return shell.open(encrypt=True)


def worked(ledger: Driver, **words: Any) -> Any:
    run = started(ledger, **words)
    run.record("tool_call_finished", {"lead": CANARY}, step="fetch")
    ledger.run(charge(run_id="r1", args={"note": CANARY}), Count({"echo": CANARY}), side_effect="payment")
    run.artifact(f"s3://{CANARY}", metadata={"of": CANARY})
    run.checkpoint({"cursor": 1, "lead": CANARY})
    return run


def test_an_encrypted_run_is_resumed_in_clear_and_nothing_of_it_is(hiding: Driver, shell: Shell) -> None:
    worked(hiding).hand_off("ben", state={"lead": CANARY})
    assert_found_nowhere(hiding.url, CANARY)
    other = shell.open(encrypt=True)
    context = resumed(other).context
    assert context.state == {"lead": CANARY}
    content = context_content(context)
    assert content["receipts"][0]["payload"] == {"lead": CANARY}
    assert [one["uri"] for one in content["artifacts"]] == [f"s3://{CANARY}"]
    handler = Count()
    assert other.run(charge(run_id="r1", args={"note": CANARY}), handler, side_effect="payment") == {"echo": CANARY}
    assert handler.entries == 0
    assert other.verify_run("r1").is_valid


def test_a_run_whose_key_was_destroyed_still_verifies_and_says_nothing(hiding: Driver, shell: Shell) -> None:
    worked(hiding).complete()
    hiding.erase(run_id="r1", by="ada", reason="asked to")
    other = shell.open(encrypt=True)
    seen: list[Any] = []
    other.run_story("r1", each=seen.append)
    assert CANARY not in repr(seen)
    assert other.verify_run("r1").is_valid
    assert_found_nowhere(other.url, CANARY)


def test_a_redacting_ledger_hides_what_its_tools_say_in_a_run(shell: Shell, keys: Path) -> None:
    ledger = shell.open(redact=["args.note"])
    run = started(ledger)
    call = charge(run_id="r1", args={"note": CANARY})
    ledger.run(call, Count("paid"), side_effect="payment")
    run.hand_off("ben", state={"cursor": 1})
    assert_found_nowhere(ledger.url, CANARY)
    other = shell.open(redact=["args.note"])
    again = resumed(other)
    handler = Count()
    assert other.run(call, handler, side_effect="payment") == "paid"
    assert handler.entries == 0
    (effect,) = other.effects(run_id="r1")
    assert isinstance(effect.args["note"], Redacted)
    assert again.context.state == {"cursor": 1}
    assert other.verify_run("r1").is_valid


def test_what_a_ledger_keeps_out_is_kept_out_of_everything_that_is_told_of_a_run(shell: Shell, keys: Path) -> None:
    ledger = shell.open(redact=["*.note", re.compile(re.escape(CANARY))])
    rule = CheckpointRule(every_progress=1, before_risky=True)
    run = started(ledger, intent=f"mail {CANARY}", checkpointing=rule, state=lambda: {"note": 7, "last": CANARY})
    run.record("plan_locked", {"note": 12345678, "text": f"to {CANARY}"})
    run.record_all([{"event_type": "plan_locked", "payload": [CANARY]}])
    run.artifact(f"s3://{CANARY}", metadata={"of": CANARY})
    ledger.run(charge(run_id="r1", args={"n": 1}), Count("paid"), side_effect="payment")
    run.checkpoint({"note": CANARY})
    ledger.checkpoint("r1", {"last": CANARY})
    run.fail(f"no answer from {CANARY}")
    assert_found_nowhere(ledger.url, CANARY, "12345678")
    context = resumed(shell.open()).context
    assert isinstance(context.state["note"], Redacted)
    assert "redacted" in context.receipts[0].payload["text"]
