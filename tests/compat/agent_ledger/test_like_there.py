"""What agent-ledger's own tests expect of its verbs, beside what its description says."""

from __future__ import annotations

from typing import Any

import pytest

from indelible.compat.agent_ledger import (
    CommitSucceeded,
    ConcurrencyOptions,
    EffectDeniedError,
    EffectError,
    EffectFailedError,
    EffectLedger,
    EffectLedgerValidationError,
    EffectStatus,
    EffectTimeoutError,
    LedgerHooks,
    MemoryStore,
    RunOptions,
    ToolCall,
)
from tests.compat.agent_ledger.calling import BRIEFLY, CHARGE, DEPLOY, Bank

pytestmark = pytest.mark.anyio


async def test_who_began_a_call_can_have_it_asked_about_instead(ledger: EffectLedger[Any]) -> None:
    begun = (await ledger.begin(DEPLOY)).effect

    assert await ledger.request_approval(begun.idem_key)

    assert not await ledger.commit(begun.id, CommitSucceeded(result="late"))
    bank = Bank()
    with pytest.raises(EffectTimeoutError):
        await ledger.run(DEPLOY, bank, run_options=RunOptions(concurrency=BRIEFLY))
    assert await ledger.approve(begun.idem_key)
    assert (await ledger.get_effect(begun.id)).status is EffectStatus.READY  # type: ignore[union-attr]
    assert await ledger.run(DEPLOY, bank) == {"status": "charged", "id": "ch_123"}
    assert len(bank.seen) == 1


@pytest.mark.parametrize("is_canceled", [False, True], ids=["denied", "canceled"])
async def test_an_effect_that_never_runs_says_why(
    quick: EffectLedger[Any], memory: MemoryStore, is_canceled: bool
) -> None:
    begun = (await quick.begin(DEPLOY)).effect
    await quick.request_approval(begun.idem_key)

    if is_canceled:
        await (await memory.ledger()).cancel(begun.id, by="ana", reason="not on a Friday")
    else:
        assert await quick.deny(begun.idem_key, "not on a Friday")

    found = await quick.find_by_idem_key(begun.idem_key)
    assert found is not None
    assert found.error == EffectError("not on a Friday")
    with pytest.raises(EffectDeniedError, match="not on a Friday"):
        await quick.run(DEPLOY, Bank())


async def test_no_hook_is_asked_about_what_is_only_replayed(quick: EffectLedger[Any]) -> None:
    asked: list[ToolCall] = []
    hooks = LedgerHooks(requires_approval=asked.append)
    for _ in range(2):
        await quick.run(CHARGE, Bank(), hooks=hooks)
    assert asked == [CHARGE]

    with pytest.raises(ValueError, match="no"):
        await quick.run(DEPLOY, Bank(ValueError("no")), hooks=hooks)
    with pytest.raises(EffectFailedError):
        await quick.run(DEPLOY, Bank(), hooks=hooks)
    assert asked == [CHARGE, DEPLOY, DEPLOY], "what failed could have been opened again meanwhile"


@pytest.mark.parametrize(
    ("of_the_call", "merged"),
    [
        (None, (10, 60)),
        (ConcurrencyOptions(), (10, 60)),
        (ConcurrencyOptions(max_interval_s=2), (10, 60)),
        (ConcurrencyOptions(effect_timeout_s=20), (20, 60)),
        (ConcurrencyOptions(approval_timeout_s=None), (10, None)),
        (ConcurrencyOptions(wait_timeout_ms=5_000), (5, 5)),
    ],
)
async def test_a_call_takes_the_waits_it_does_not_name_from_the_defaults(
    of_the_call: ConcurrencyOptions | None, merged: tuple[float, float | None]
) -> None:
    defaults = RunOptions(concurrency=ConcurrencyOptions(effect_timeout_s=10, approval_timeout_s=60))

    waits = RunOptions(concurrency=of_the_call).over(defaults).concurrency

    assert waits is not None
    assert (waits.effect_timeout_s, waits.approval_timeout_s) == merged


async def test_what_is_wrong_is_named_by_the_field_it_is_in(quick: EffectLedger[Any]) -> None:
    with pytest.raises(EffectLedgerValidationError) as refused:
        await quick.run(ToolCall(workflow_id="w", tool="t", args={"deep": [{"er": object()}]}), Bank())

    assert refused.value.field == "args"
    assert "deep" in str(refused.value)
