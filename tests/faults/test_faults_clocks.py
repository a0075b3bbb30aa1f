"""Clocks of workers and voters decide nothing that could make a call run twice."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from indelible import Idempotent, Ledger
from indelible.engine.mint import SystemMint
from indelible.errors import ApprovalPending, EffectInDoubt, NothingHappened
from indelible.probes import NOT_THERE, get_by_key, stripe_search
from indelible.stores.postgres.lane import Lane
from tests.waiting import eventually

HOUR = timedelta(hours=1)
SECOND = timedelta(seconds=1)


@contextmanager
def clock_off_by(error: timedelta) -> Iterator[None]:
    """Let this machine's clock be wrong, as far as what it records goes. A database has its own clock."""
    real, now = SystemMint.stamp, Lane._now

    def stamp(self: SystemMint, *args: Any) -> Any:
        made = real(self, *args)
        return replace(made, at=made.at + error)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SystemMint, "stamp", stamp)
        patch.setattr(Lane, "_now", lambda lane: now(lane) + error)
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


def test_37_an_opener_whose_clock_is_fast_does_not_stretch_the_window_of_a_provider(ledger: Ledger) -> None:
    entered: list[str] = []

    @ledger.tool(side_effect="payment", downstream=Idempotent(window=SECOND, attempts=1))
    def pay(order: str) -> None:
        entered.append(order)
        raise ConnectionResetError("the answer got lost")

    with ledger.in_run("r"):
        with clock_off_by(2 * HOUR), pytest.raises(ConnectionResetError):
            pay("1")
        started = time.monotonic()
        eventually(lambda: time.monotonic() > started + SECOND.total_seconds())
        with pytest.raises(EffectInDoubt):
            pay("1")
    assert entered == ["1"]


def lagging(address: str, headers: Any) -> tuple[int, bytes]:
    """Answer as a provider whose index does not have the payment yet."""
    return 404, b"{}"


def asked_again(ledger: Ledger, probe: Any, error: timedelta) -> list[int]:
    """Call twice: the answer of the first call gets lost on a machine with a wrong clock, and the second one probes."""
    entered: list[int] = []

    @ledger.tool(side_effect="payment", reconcile=probe)
    def pay(amount: int) -> int:
        entered.append(amount)
        if len(entered) == 1:
            raise ConnectionResetError("the answer got lost")
        return amount

    with ledger.in_run("r"):
        with clock_off_by(error), pytest.raises(ConnectionResetError):
            pay(5)
        try:
            pay(5)
        except EffectInDoubt:
            assert ledger.effects()[0].status == "in_doubt"
    return entered


def test_77_a_worker_whose_clock_is_slow_does_not_make_a_probe_hasty(ledger: Ledger) -> None:
    probe = get_by_key(
        "https://bank.example/{key}", found=lambda _: NOT_THERE, absent="nothing_happened", opener=lagging
    )
    assert asked_again(ledger, probe, -timedelta(minutes=10)) == [5]


def test_77_a_worker_whose_clock_is_fast_hides_no_charge_from_a_list(ledger: Ledger) -> None:
    charged_at = datetime.now(UTC).timestamp()

    def listing(address: str, headers: Any) -> tuple[int, bytes]:
        (effect,) = ledger.effects()
        charge = {"id": "pi_1", "status": "succeeded", "metadata": {"indelible_key": effect.key}}
        is_listed = int(parse_qs(urlsplit(address).query)["created[gte]"][0]) <= charged_at
        return 200, json.dumps({"data": [charge] if is_listed else [], "has_more": False}).encode()

    probe = stripe_search(api_key="k", by="list", absent="nothing_happened", settle_after=timedelta(0), opener=listing)
    assert asked_again(ledger, probe, timedelta(minutes=10)) == [5]
    assert ledger.effects()[0].status == "succeeded"


def test_77_a_probe_believes_what_it_has_seen_for_long_enough_itself(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    moment = [0.0]
    monkeypatch.setattr("indelible.probes.time", SimpleNamespace(monotonic=lambda: moment[0]))
    words: Any = {"absent": "nothing_happened", "settle_after": timedelta(minutes=5), "opener": lagging}
    probe = get_by_key("https://bank.example/{key}", found=lambda _: NOT_THERE, **words)
    asked_again(ledger, None, timedelta(0))
    (left,) = ledger.effects()
    assert probe(left) is None
    moment[0] += 299
    assert probe(left) is None
    assert probe(replace(left, attempt=2)) is None, "another attempt is another doubt"
    moment[0] += 1
    with pytest.raises(NothingHappened):
        probe(left)
    long_ago = replace(left, updated_at=left.updated_at - timedelta(minutes=65))
    with pytest.raises(NothingHappened):
        get_by_key("https://bank.example/{key}", found=lambda _: NOT_THERE, **words)(long_ago)
