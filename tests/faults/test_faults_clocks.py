"""Clocks of workers and voters decide nothing that could make a call run twice."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from indelible import Idempotent, Ledger
from indelible.engine.mint import SystemMint
from indelible.errors import ApprovalPending, EffectInDoubt
from tests.waiting import eventually

HOUR = timedelta(hours=1)
SECOND = timedelta(seconds=1)


@contextmanager
def clock_off_by(error: timedelta) -> Iterator[None]:
    """Let this machine's clock be wrong, as far as what it records goes."""
    real = SystemMint.stamp

    def stamp(self: SystemMint, *args: Any) -> Any:
        made = real(self, *args)
        return replace(made, at=made.at + error)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SystemMint, "stamp", stamp)
        yield


def test_37_a_voter_whose_clock_is_fast_does_not_stretch_the_window_of_a_provider(ledger: Ledger) -> None:
    entered: list[str] = []

    @ledger.tool(
        side_effect="payment", approval="required", wait=False, downstream=Idempotent(window=SECOND, attempts=1)
    )
    def pay(order: str) -> None:
        entered.append(order)
        raise ConnectionResetError("the answer got lost")

    with ledger.in_run("r"):
        with pytest.raises(ApprovalPending) as pending:
            pay("1")
        with clock_off_by(2 * HOUR):
            ledger.approve(pending.value.approval, digest=pending.value.approval.digest, by="ana")
        with pytest.raises(ConnectionResetError):
            pay("1")
        (effect,) = ledger.effects()
        eventually(lambda: ledger._mint.stamp(ledger._actor).at > effect.updated_at + SECOND)
        with pytest.raises(EffectInDoubt):
            pay("1")
    assert entered == ["1"]
