"""Fault 82: a store that forgets to read what decides a call runs nothing, and spoils no other call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from indelible import GrantTerms
from indelible.core.sheets import SheetRef, Sheets
from indelible.errors import StateNotRead
from indelible.stores.postgres import lane, transitions
from indelible.stores.sqlite import pen
from indelible.testing.clock import FakeClock
from indelible.testing.commands import Commands
from tests.scenarios.hands import started
from tests.scenarios.policies import limiting
from tests.scenarios.shells import Count, Driver, Shell, approve, asked, charge
from tests.scenarios.test_grants import HOUR
from tests.waiting import PATIENCE


@pytest.fixture
def forget(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Have both stores forget to read the sheets of one kind: once while they are read, once while they are used."""

    def plant(kind: str) -> None:
        def without(sheets: Sheets) -> dict[SheetRef, Any]:
            return {ref: sheet for ref, sheet in sheets.items() if ref.kind != kind}

        read, found = pen.read_sheets, transitions.sheets_in
        monkeypatch.setattr(pen, "read_sheets", lambda *args: without(read(*args)))
        monkeypatch.setattr(transitions, "sheets_in", lambda *args: without(found(*args)))

    return plant


def stopped(ledger: Driver, clock: FakeClock) -> dict[str, Any]:
    ledger.stop(by="ana", reason="wrong accounts")
    return {}


def approved(ledger: Driver, clock: FakeClock) -> dict[str, Any]:
    approve(ledger, asked(ledger))
    return {"approval": "required"}


def granted(ledger: Driver, clock: FakeClock) -> dict[str, Any]:
    question = asked(ledger, run_id="order-2")
    approve(ledger, question, grant=GrantTerms(count=2, until=clock.now() + HOUR))
    return {"approval": "required"}


def budgeted(ledger: Driver, clock: FakeClock) -> dict[str, Any]:
    ledger.apply_policy(limiting(100), by="ana")
    return {}


CASES = {
    "stop": stopped,
    "approval": approved,
    "person": approved,
    "grant": granted,
    "budget": budgeted,
}


@pytest.mark.parametrize("kind", CASES)
def test_82_what_was_not_read_is_not_taken_for_what_is_not_there(
    kind: str, ledger: Driver, clock: FakeClock, forget: Callable[[str], None]
) -> None:
    words = CASES[kind](ledger, clock)
    handler = Count()
    forget(kind)
    with pytest.raises(StateNotRead):
        ledger.run(charge(), handler, **words)
    assert handler.entries == 0


@pytest.mark.parametrize(
    ("kind", "words"), [("limit", {"knows_limits": False}), ("driver", {"driver_token": "mine", "knows_limits": True})]
)
def test_82_what_a_process_has_not_seen_itself_is_read_or_nothing_runs(
    kind: str, words: dict[str, Any], ledger: Driver, shell: Shell, forget: Callable[[str], None]
) -> None:
    """A process that judged its call before the run was limited, or drove the run before, leaves it to the store."""
    store, call = shell.open().engine.store, Commands(ledger.tenant).open("a call", **words)
    started(ledger, call.run_id, allowed_tools=["look"])
    forget(kind)
    with pytest.raises(StateNotRead):
        store.apply(ledger.tenant, [call], [None])
    assert store.look([call.ref]).effects == [None]


def test_82_an_effect_that_was_not_read_is_not_taken_for_a_new_call(
    ledger: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    handler = Count()
    ledger.run(charge(), handler)
    real_decide, real_lane = pen.decide, lane.decide

    def forgetting(decide: Callable[..., Any]) -> Callable[..., Any]:
        return lambda commands, effects, *rest: decide(commands, {}, *rest)

    monkeypatch.setattr(pen, "decide", forgetting(real_decide))
    monkeypatch.setattr(lane, "decide", forgetting(real_lane))
    with pytest.raises(StateNotRead):
        ledger.run(charge(run_id="order-2"), handler)
    assert handler.entries == 1


def test_82_what_was_not_read_fails_its_own_command_only(
    ledger: Driver, clock: FakeClock, forget: Callable[[str], None]
) -> None:
    """Calls of many callers are written in one batch; one of them rests on what was not read."""
    words = approved(ledger, clock)
    forget("approval")
    handler = Count()
    spoilt = ledger.spawn("run", charge(), handler, **words)
    others = [ledger.spawn("run", charge(run_id=f"other-{n}"), lambda _, n=n: n) for n in range(20)]
    assert [other.result(PATIENCE) for other in others] == list(range(20))
    with pytest.raises(StateNotRead):
        spoilt.result(PATIENCE)
    assert handler.entries == 0
