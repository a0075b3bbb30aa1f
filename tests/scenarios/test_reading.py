"""Reading what is recorded: one effect, lists with filters and pages, events."""

from __future__ import annotations

from typing import Any

import pytest

from indelible import MayHaveHappened, Refused, Succeeded
from indelible.errors import BadCall
from tests.scenarios.shells import Count, Driver, charge


def test_an_effect_is_found_by_id_by_its_beginning_and_by_key(ledger: Driver) -> None:
    ledger.run(charge(), Count({"id": 1}))
    (effect,) = ledger.effects()
    assert effect.outcome == Succeeded({"id": 1})
    assert effect.args == {"amount": 5}
    found = [
        ledger.get_effect(effect.id),
        ledger.get_effect(effect.id[:12]),
        ledger.find_by_key(effect.key),
        ledger.find_by_key(effect.key, scope="order-1"),
    ]
    assert found == [effect] * 4


@pytest.mark.parametrize("name", ["eff_nothing", "x", "%", "_", "eff_0'"])
def test_an_id_that_nobody_has_is_found_nowhere(ledger: Driver, name: str) -> None:
    ledger.run(charge(), Count())
    assert ledger.get_effect(name) is None


def test_a_key_is_found_in_its_own_scope_only(ledger: Driver) -> None:
    ledger.run(charge(), Count())
    key = ledger.effects()[0].key
    assert ledger.find_by_key(key, scope="another") is None
    assert ledger.find_by_key("00" * 32) is None


@pytest.mark.parametrize("name", ["\ud800", "", "a\0b"])
def test_what_is_no_name_of_an_effect_finds_nothing_and_no_key_is_refused(ledger: Driver, name: str) -> None:
    ledger.run(charge(), Count())
    assert ledger.get_effect(name) is None
    with pytest.raises(BadCall):
        ledger.find_by_key(name)


def test_an_ambiguous_beginning_is_refused(ledger: Driver) -> None:
    for amount in (1, 2):
        ledger.run(charge(args={"amount": amount}), Count())
    with pytest.raises(BadCall, match="more than one"):
        ledger.get_effect("eff_")


# ── lists ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def mixed(ledger: Driver) -> Driver:
    """Six effects of several kinds."""
    ledger.run(charge(args={"n": 0}), Count(), side_effect="payment")
    ledger.run(charge(args={"n": 1}, run_id="order-2"), Count(), side_effect="payment")
    ledger.run(charge(args={"n": 2}, tool="mail"), Count(), side_effect="notification")
    with pytest.raises(Refused, match="no"):
        ledger.run(charge(args={"n": 3}), Count(Refused("no")), side_effect="payment")
    with pytest.raises(MayHaveHappened):
        ledger.run(charge(args={"n": 4}, tool="mail", run_id="order-2"), Count(MayHaveHappened("?")))
    ledger.begin(charge(args={"n": 5}), approval="required")
    return ledger


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ({}, {0, 1, 2, 3, 4, 5}),
        ({"status": "succeeded"}, {0, 1, 2}),
        ({"status": "failed"}, {3}),
        ({"status": "in_doubt"}, {4}),
        ({"status": "requires_approval"}, {5}),
        ({"status": "canceled"}, set()),
        ({"tool": "mail"}, {2, 4}),
        ({"run_id": "order-2"}, {1, 4}),
        ({"side_effect": "payment"}, {0, 1, 3}),
        ({"side_effect": "payment", "run_id": "order-1", "status": "failed"}, {3}),
        ({"tool": "mail", "run_id": "nowhere"}, set()),
    ],
)
def test_a_list_can_be_filtered(mixed: Driver, words: dict[str, Any], expected: set[int]) -> None:
    assert {effect.args["n"] for effect in mixed.effects(**words)} == expected


def test_a_list_is_newest_first_and_read_page_by_page(ledger: Driver) -> None:
    for number in range(7):
        ledger.run(charge(args={"n": number}), Count())
    everything = ledger.effects()
    assert [effect.id for effect in everything] == sorted((effect.id for effect in everything), reverse=True)
    pages: list[Any] = []
    before = None
    while page := ledger.effects(limit=3, before=before):
        pages.append(page)
        before = page[-1].id
    assert [len(page) for page in pages] == [3, 3, 1]
    assert [effect for page in pages for effect in page] == everything


def test_a_list_holds_the_whole_effects(mixed: Driver) -> None:
    effects = mixed.effects()
    assert effects
    assert [mixed.get_effect(effect.id) for effect in effects] == list(effects)


@pytest.mark.parametrize("words", [{"status": "done"}, {"limit": 0}, {"limit": -1}])
def test_a_filter_that_means_nothing_is_refused(ledger: Driver, words: dict[str, Any]) -> None:
    with pytest.raises(BadCall, match=next(iter(words))):
        ledger.effects(**words)


def test_a_side_effect_that_does_not_exist_is_refused(ledger: Driver) -> None:
    with pytest.raises(BadCall, match="side_effect"):
        ledger.effects(side_effect="payments")


# ── events ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_events_are_read_page_by_page(ledger: Driver) -> None:
    for number in range(3):
        ledger.run(charge(args={"n": number}), Count())
    everything = ledger.events("order-1")
    assert [event.seq for event in everything] == list(range(6))
    first = ledger.events("order-1", limit=4)
    rest = ledger.events("order-1", after=first[-1].seq, limit=4)
    assert first + rest == everything
    assert ledger.events("order-1", after=5) == []


def test_a_run_that_nobody_made_has_no_events(ledger: Driver) -> None:
    assert ledger.events("nowhere") == []


@pytest.mark.parametrize("limit", [0, -1])
def test_a_page_of_no_events_is_refused(ledger: Driver, limit: int) -> None:
    ledger.run(charge(), Count())
    with pytest.raises(BadCall):
        ledger.events("order-1", limit=limit)


def test_more_than_a_thousand_events_are_listed(ledger: Driver) -> None:
    calls = [ledger.spawn("run", charge(args={"n": number}), Count()) for number in range(520)]
    for call in calls:
        call.result()
    assert [event.seq for event in ledger.events("order-1", limit=5000)] == list(range(1040))
    assert len(ledger.events("order-1")) == 1000
