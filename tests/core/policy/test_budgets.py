"""Promises of core.policy.budgets: no more is taken than there is, in any stretch of time, and nothing leaks."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal, localcontext
from fractions import Fraction
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from indelible.core.commands import AwaitingApproval, Claimed, Open, OverBudget
from indelible.core.effects.effect import Claim
from indelible.core.effects.identity import Ref
from indelible.core.policy.budgets import (
    KEPT,
    SLICES,
    Budget,
    Exceeded,
    Reserved,
    budget_ref,
    charges_json,
    read_budget,
    read_charges,
    release,
    reserve,
    slice_end,
    spend,
)
from indelible.core.sheets import Sheet, Sheets
from indelible.errors import BadCall
from tests.core.making import (
    ADA,
    AGENT,
    BO,
    HOUR,
    LEASE,
    NOON,
    SECOND,
    Shelf,
    amend,
    asks,
    attend,
    cancel,
    cast,
    charge,
    charging,
    finish,
    open_command,
    relinquish,
    reopen,
    settle,
    stamp,
)

NONE: Sheets = {budget_ref(name): None for name in ("spend", "calls", "money", "other")}
"""No budget was touched yet."""
TICK = timedelta(microseconds=1)
SLICE = HOUR / SLICES


def kept(changed: list[Sheet] | Reserved | Exceeded, sheets: Sheets | None = None) -> dict[Any, Any]:
    """Gives the sheets after a change."""
    assert not isinstance(changed, Exceeded)
    written = changed.sheets if isinstance(changed, Reserved) else changed
    return {**NONE, **(sheets or {}), **{sheet.ref: sheet for sheet in written}}


def budget(sheets: Sheets, name: str = "spend") -> Budget:
    return read_budget(sheets.get(budget_ref(name)))


# ── reserving, spending, giving back ─────────────────────────────────────────────────────────────────────────────────


def test_what_is_reserved_is_taken_until_it_is_spent_or_given_back() -> None:
    taken = kept(reserve([charge(2)], NONE, NOON))
    assert budget(taken) == Budget(Decimal(2), {}, 1)
    assert budget(taken).used(charge(), NOON) == 2
    given_back = kept(release([charge(2)], taken))
    assert budget(given_back) == Budget(Decimal(0), {}, 1)
    spent = kept(spend([charge(2)], taken, NOON))
    assert budget(spent) == Budget(Decimal(0), {slice_end(NOON, HOUR): Decimal(2)}, 1)
    assert budget(spent).used(charge(), NOON) == 2


def test_a_budget_has_what_its_limit_says_and_not_a_penny_more() -> None:
    taken = kept(reserve([charge("4.99")], NONE, NOON))
    assert not isinstance(reserve([charge("0.01")], taken, NOON), Exceeded)
    over = reserve([charge("0.011")], taken, NOON)
    assert over == Exceeded(charge("0.011"), Decimal("4.99"))
    assert isinstance(reserve([charge(6)], NONE, NOON), Exceeded)
    assert not isinstance(reserve([charge(0)], kept(reserve([charge(5)], NONE, NOON)), NOON), Exceeded)


def test_a_call_takes_from_all_its_budgets_or_from_none() -> None:
    calls, money = charge(1, 1, "calls"), charge(3, 5, "money")
    taken = kept(reserve([calls, money], NONE, NOON))
    assert {ref.id: budget(taken, ref.id).reserved for ref, sheet in taken.items() if sheet} == {"calls": 1, "money": 3}
    assert reserve([money, calls], taken, NOON) == Exceeded(money, Decimal(3))
    assert reserve([calls, money], taken, NOON) == Exceeded(calls, Decimal(1))


def test_two_charges_of_one_budget_add_up() -> None:
    taken = kept(reserve([charge(2), charge(3)], NONE, NOON))
    assert budget(taken).reserved == 5
    assert taken[budget_ref("spend")].version == 1, "in one change"
    assert isinstance(reserve([charge(2), charge(2), charge(2)], NONE, NOON), Exceeded)
    spent = kept(spend([charge(2), charge(3)], taken, NOON), taken)
    assert (budget(spent).reserved, budget(spent).used(charge(), NOON)) == (0, 5)
    assert budget(kept(release([charge(2), charge(3)], taken))).reserved == 0


def test_what_was_reserved_before_makes_room_for_what_is_reserved_instead() -> None:
    taken = kept(reserve([charge(4)], NONE, NOON))
    swapped = kept(reserve([charge(5)], taken, NOON, instead_of=[charge(4)]), taken)
    assert budget(swapped).reserved == 5
    assert swapped[budget_ref("spend")].version == 2, "in one change"
    moved = kept(reserve([charge(3, budget="other")], taken, NOON, instead_of=[charge(4)]), taken)
    assert (budget(moved).reserved, budget(moved, "other").reserved) == (0, 3)
    assert reserve([charge(6)], taken, NOON, instead_of=[charge(4)]) == Exceeded(charge(6), Decimal(0))


def test_98_each_reservation_of_a_budget_has_a_number_of_its_own() -> None:
    first = reserve([charge(1), charge(1, budget="calls")], NONE, NOON)
    assert isinstance(first, Reserved)
    assert [one.number for one in first.charges] == [1, 1]
    sheets = kept(spend(first.charges, kept(first), NOON), kept(first))
    again = reserve([charge(1)], sheets, NOON, instead_of=first.charges[:1])
    assert isinstance(again, Reserved)
    assert [one.number for one in again.charges] == [2]
    assert read_charges(charges_json(again.charges)) == again.charges


def test_a_budget_is_never_in_debt_to_anybody() -> None:
    """Should something be given back twice, that must not make room beyond the limit."""
    assert budget(kept(release([charge(2)], NONE))).reserved == 0
    assert budget(kept(spend([charge(2)], NONE, NOON))).reserved == 0


def test_the_next_state_of_a_budget_is_one_version_later() -> None:
    sheets: dict[Any, Any] = {**NONE}
    for version in (1, 2, 3):
        sheets = kept(reserve([charge(1)], sheets, NOON))
        sheet = sheets[budget_ref("spend")]
        assert (sheet.version, sheet.kind, sheet.id, sheet.is_recorded) == (version, "budget", "spend", False)


@given(
    st.decimals("0", "1e9", places=6),
    st.dictionaries(st.integers(0, 2**52), st.decimals("0", "1e9", places=2), max_size=4),
)
def test_a_budget_comes_back_from_its_sheet_as_it_went(reserved: Decimal, spent: dict[int, Decimal]) -> None:
    from indelible.core.policy.budgets import _sheet_after

    one = Budget(reserved, spent)
    assert read_budget(_sheet_after(None, "b", one)) == one


def test_what_an_effect_took_comes_back_as_it_was_written() -> None:
    charges = (charge("0.1", "1e3", "a|b", timedelta(days=30)), charge(2, 5, "é", TICK))
    assert read_charges(charges_json(charges)) == charges
    assert read_charges(None) == ()


# ── stretches of time ────────────────────────────────────────────────────────────────────────────────────────────────


@given(st.integers(0, 10**16), st.integers(1, 10**13))
def test_a_slice_ends_after_the_moment_and_no_later_than_a_sixtieth_of_the_window(at: int, window: int) -> None:
    now, length = datetime(1970, 1, 1, tzinfo=NOON.tzinfo) + at * TICK, window * TICK
    end = slice_end(now, length)
    assert at < end <= at + Fraction(window, SLICES) + 1


@pytest.mark.parametrize("moment", [NOON, NOON + TICK, NOON + SLICE - TICK, NOON + SLICE / 2])
def test_what_was_spent_counts_for_the_whole_window_and_little_longer(moment: datetime) -> None:
    spent = kept(spend([charge(5)], kept(reserve([charge(5)], NONE, moment)), moment))
    assert isinstance(reserve([charge(1)], spent, moment + HOUR), Exceeded), "a stretch includes both its ends"
    assert isinstance(reserve([charge(1)], spent, moment + HOUR - TICK), Exceeded)
    assert not isinstance(reserve([charge(1)], spent, moment + HOUR + SLICE), Exceeded)


def test_what_is_reserved_counts_however_long_it_takes() -> None:
    taken = kept(reserve([charge(5)], NONE, NOON))
    assert isinstance(reserve([charge(1)], taken, NOON + timedelta(days=999)), Exceeded)


def test_what_has_left_the_window_long_ago_is_forgotten() -> None:
    sheets: dict[Any, Any] = {**NONE}
    for number in range(300):
        now = NOON + number * SLICE
        sheets = kept(spend([charge("0.01")], kept(reserve([charge("0.01")], sheets, now)), now))
    assert len(budget(sheets).spent) <= SLICES + 2 + KEPT


@given(
    begun=st.lists(st.integers(0, 3 * 3600), min_size=1, max_size=70),
    ahead=st.sampled_from([SLICE, HOUR, 24 * HOUR, 9999 * HOUR]),
    meanwhile=st.lists(st.integers(0, 3600), max_size=70),
    late=st.integers(0, 3600),
)
def test_a_clock_that_jumps_ahead_and_is_set_back_gives_nobody_more(
    begun: list[int], ahead: timedelta, meanwhile: list[int], late: int
) -> None:
    """At each moment at which the clock is right, all counts that was spent in the window that ends then."""
    sheets: dict[Any, Any] = {**NONE}
    told: list[datetime] = []
    jumped = NOON + 3 * HOUR
    real = [NOON + at * SECOND for at in sorted(begun)] + [jumped + at * SECOND for at in sorted(meanwhile)]
    one = charge(1, limit=10**6)
    for at in real:
        now = at if at < jumped else at + ahead
        sheets = kept(spend([one], kept(reserve([one], sheets, now)), now))
        told.append(at)
    now = max([*real, jumped]) + late * SECOND
    assert budget(sheets).used(one, now) >= sum(at >= now - HOUR for at in told)


def test_over_many_jumps_of_a_clock_a_budget_does_not_grow_without_end() -> None:
    sheets: dict[Any, Any] = {**NONE}
    for number in range(300):
        now = NOON + number * 2 * HOUR
        sheets = kept(spend([charge(1)], kept(reserve([charge(1)], sheets, now)), now))
    assert len(budget(sheets).spent) == KEPT + 1


def test_a_clock_that_is_set_back_gives_nobody_more() -> None:
    spent = kept(spend([charge(5)], kept(reserve([charge(5)], NONE, NOON)), NOON))
    for hours in (1, 24, 9999):
        assert isinstance(reserve([charge(1)], spent, NOON - hours * HOUR), Exceeded)


@pytest.mark.parametrize("window", [HOUR / 60, HOUR * 24])
def test_another_window_for_the_same_budget_counts_what_was_spent_before(window: timedelta) -> None:
    """A policy may change: what was spent in the last minutes is neither forgotten nor held against it for ever."""
    spent = kept(spend([charge(5)], kept(reserve([charge(5)], NONE, NOON)), NOON))
    other = charge(1, window=window)
    assert isinstance(reserve([other], spent, NOON), Exceeded)
    assert isinstance(reserve([other], spent, NOON + window), Exceeded)
    assert not isinstance(reserve([other], spent, NOON + window + SLICE), Exceeded)


# ── calls ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_of_a_budget_of_five_and_three_calls_of_two_exactly_two_run() -> None:
    shelf = Shelf()
    calls = [
        open_command(
            ref=Ref("default", "run-1", f"{number:064x}"),
            effect_id=f"eff_{number}",
            token=f"{number:032x}",
            verdict=charging(charge(2, limit=5)),
        )
        for number in range(3)
    ]
    batch = shelf.apply(*calls)
    assert [type(answer) for answer in batch.answers] == [Claimed, Claimed, OverBudget]
    shelf.do(finish(batch.answers[0].claim))  # type: ignore[union-attr]
    assert isinstance(shelf.do(calls[2]), OverBudget), "what is spent is taken"
    shelf.do(finish(batch.answers[1].claim, "failed"))  # type: ignore[union-attr]
    assert isinstance(shelf.do(calls[2]), Claimed), "what failed is free"


REFS = [Ref("default", "shared", f"{number:064x}") for number in range(5)]
LIMITS = {"spend": (Decimal(10), HOUR), "calls": (Decimal(3), HOUR / 4)}


class Spending(RuleBasedStateMachine):
    """Lets many calls take from two budgets, by any clock that goes forward, and looks at what they spent.

    The oracle keeps books of its own: the amount in the arguments that ran, whatever was reserved for them.
    """

    def __init__(self) -> None:
        super().__init__()
        self.shelf = Shelf()
        self.count = 0
        self.claims: dict[Ref, Claim] = {}
        self.last: dict[Ref, Open] = {}
        self.spent: list[tuple[datetime, dict[str, Decimal]]] = []

    @staticmethod
    def _charges(amount: int) -> tuple[Any, ...]:
        (limit, window), (most, span) = LIMITS["spend"], LIMITS["calls"]
        return charge(amount, limit, "spend", window), charge(1, most, "calls", span)

    def _held(self, ref: Ref) -> dict[str, Decimal]:
        return {one.budget: one.amount for one in read_charges(self.shelf.effects[ref].charges_json)}

    @rule(
        ref=st.sampled_from(REFS),
        amount=st.integers(0, 6),
        is_asked=st.booleans(),
        on_crash=st.sampled_from(["hold", "retry"]),
        policy=st.sampled_from(["policy-1", "policy-1", "policy-2"]),
        has_waited=st.booleans(),
    )
    def open(self, ref: Ref, amount: int, is_asked: bool, on_crash: str, policy: str, has_waited: bool) -> None:
        verdict = asks(policy=policy, expires=2 * HOUR, charges=self._charges(amount))
        known = self.shelf.effects.get(ref)
        self.last[ref] = open_command(
            ref=ref,
            verdict=verdict if is_asked else replace(verdict, decision="allow", question=None),
            on_crash=on_crash,
            has_key_fields=True,
            digest=f"{amount:064x}",
            args_json=b'{"amount":%d}' % amount,
            awaited_approval=known.approval_id if has_waited and known is not None else None,
        )
        self.call_again(ref)

    @rule(ref=st.sampled_from(REFS))
    def call_again(self, ref: Ref) -> None:
        """Makes the last call of an effect once more."""
        if ref not in self.last:
            return
        self.count += 1
        unique = {"effect_id": f"eff_{self.count}", "token": f"{self.count:032x}"}
        answer = self.shelf.do(replace(self.last[ref], stamp=stamp(self.shelf.now, AGENT), **unique))
        if isinstance(answer, Claimed):
            self.claims[ref] = answer.claim

    @rule(which=st.integers(0, 9), status=st.sampled_from(["succeeded", "failed"]), is_late=st.booleans())
    @precondition(lambda self: self.claims)
    def finish(self, which: int, status: Any, is_late: bool) -> None:
        ref = self._claimed(which)
        self._may_spend(ref, finish(self.claims[ref], status, at=self.shelf.now))
        if not is_late:
            del self.claims[ref]

    def _claimed(self, which: int) -> Ref:
        return sorted(self.claims)[which % len(self.claims)]

    def _may_spend(self, ref: Ref, command: Any) -> None:
        """Carries out what may settle an effect, and books what it took if it succeeded by it."""
        before = self.shelf.effects[ref]
        self.shelf.do(command)
        if self.shelf.effects[ref].status == "succeeded" != before.status:
            self.spent.append((self.shelf.now, {"spend": Decimal(before.args["amount"]), "calls": Decimal(1)}))

    @rule(which=st.integers(0, 9), status=st.sampled_from(["ready", "in_doubt"]))
    @precondition(lambda self: self.claims)
    def relinquish(self, which: int, status: Any) -> None:
        self.shelf.do(relinquish(self.claims.pop(self._claimed(which)), status, at=self.shelf.now))

    @rule(ref=st.sampled_from(REFS), status=st.sampled_from(["succeeded", "failed"]))
    def settle(self, ref: Ref, status: Any) -> None:
        if ref in self.shelf.effects:
            self._may_spend(ref, settle(status, ref, self.shelf.now))

    @rule(ref=st.sampled_from(REFS), what=st.sampled_from([cancel, reopen]))
    def end_or_reopen(self, ref: Ref, what: Any) -> None:
        self.shelf.do(what(ref, self.shelf.now))

    @rule(
        ref=st.sampled_from(REFS),
        word=st.sampled_from(["approve", "approve", "deny", "attend", "edit"]),
        amount=st.integers(0, 9),
    )
    def decide(self, ref: Ref, word: str, amount: int) -> None:
        known = self.shelf.effects.get(ref)
        if known is None or known.approval_id is None:
            return
        about, at = self.shelf.approval(ref), self.shelf.now
        verdict = asks(expires=2 * HOUR, charges=self._charges(amount))
        self.shelf.do(
            {
                "approve": cast(about, ADA, at=at),
                "deny": cast(about, BO, at=at, is_approval=False),
                "attend": attend(about, at),
                "edit": amend(about, ADA, at, verdict=verdict, args_json=b'{"amount":%d}' % amount),
            }[word]
        )

    @rule(
        step=st.integers(0, 4 * 3600).map(lambda seconds: seconds * SECOND)
        | st.sampled_from([LEASE, SLICE, HOUR, TICK])
    )
    def time_passes(self, step: timedelta) -> None:
        self.shelf.now += step

    @invariant()
    def no_window_has_more_than_the_limit(self) -> None:
        for name, (limit, window) in LIMITS.items():
            spends = [(at, taken[name]) for at, taken in self.spent]
            for start, _ in spends:
                taken = sum((amount for at, amount in spends if start <= at <= start + window), Decimal(0))
                assert taken <= limit, f"{taken} of {name} in {window} from {start}"

    @invariant()
    def what_is_reserved_and_was_spent_lately_is_within_the_limit(self) -> None:
        for name, (limit, window) in LIMITS.items():
            oldest = self.shelf.now - window
            lately = sum((taken[name] for at, taken in self.spent if at >= oldest), Decimal(0))
            assert self.shelf.budget(name).reserved + lately <= limit

    @invariant()
    def what_runs_or_may_run_has_reserved_what_it_takes(self) -> None:
        for ref, effect in self.shelf.effects.items():
            has_question = effect.status == "requires_approval" and self.shelf.approval(ref).is_open
            if effect.status in ("processing", "in_doubt") or has_question:
                assert self._held(ref) == {"spend": Decimal(effect.args["amount"]), "calls": 1}

    @invariant()
    def what_is_reserved_is_what_effects_hold(self) -> None:
        for name in LIMITS:
            held = sum((self._held(ref).get(name, Decimal(0)) for ref in self.shelf.effects), Decimal(0))
            assert self.shelf.budget(name).reserved == held, "nothing leaks, and nothing is counted twice"

    @invariant()
    def what_has_ended_or_lapsed_holds_nothing(self) -> None:
        for ref, effect in self.shelf.effects.items():
            has_lapsed = effect.status == "requires_approval" and not self.shelf.approval(ref).is_open
            if effect.status in ("succeeded", "failed", "denied", "canceled") or has_lapsed:
                assert effect.charges_json is None

    def teardown(self) -> None:
        """Ends everything that has not ended: then nothing is reserved any more."""
        for ref in self.shelf.effects:
            self.shelf.now += timedelta(days=9)
            for command in self._endings(ref):
                self._may_spend(ref, command)
        assert all(self.shelf.budget(name).reserved == 0 for name in LIMITS)

    def _endings(self, ref: Ref) -> Iterable[Any]:
        yield settle("failed", ref, self.shelf.now)
        yield cancel(ref, self.shelf.now)


TestSpending = Spending.TestCase
TestSpending.settings = settings(max_examples=50, stateful_step_count=50, deadline=None)


def a_step(life: Spending, chance: Random) -> None:
    """Does something by chance: most of the time what a healthy life consists of."""
    ref = chance.choice(REFS)
    match chance.choices(range(8), weights=[8, 5, 4, 2, 6, 1, 1, 2])[0]:
        case 0:
            life.open(
                ref=ref,
                amount=chance.randint(0, 6),
                is_asked=chance.random() < 0.6,
                on_crash=chance.choice(["hold", "retry"]),
                policy=chance.choice(["policy-1"] * 5 + ["policy-2"]),
                has_waited=chance.random() < 0.1,
            )
        case 1:
            life.call_again(ref)
        case 2 if life.claims:
            life.finish(which=chance.randrange(9), status=chance.choice(["succeeded", "failed"]), is_late=False)
        case 3 if life.claims:
            life.relinquish(which=chance.randrange(9), status=chance.choice(["ready", "in_doubt"]))
        case 4:
            words = ["approve"] * 5 + ["deny", "attend", "edit", "edit"]
            life.decide(ref=ref, word=chance.choice(words), amount=chance.randint(0, 9))
            life.call_again(ref)
        case 5:
            life.settle(ref=ref, status=chance.choice(["succeeded", "failed"]))
        case 6:
            life.end_or_reopen(ref=ref, what=chance.choice([cancel, reopen, reopen]))
        case _:
            life.time_passes(step=chance.choice([SECOND, SECOND, LEASE, SLICE, HOUR / 4, HOUR, 3 * HOUR]))


@pytest.mark.timeout(0)
def test_over_many_lives_no_budget_is_exceeded_and_nothing_leaks() -> None:
    """Leads INDELIBLE_FUZZ / 100 lives (40 unless told) of 100 steps, each by its own chance."""
    fuzz = int(os.environ.get("INDELIBLE_FUZZ", "4000"))
    first = int(os.environ.get("INDELIBLE_FUZZ_SEED", "1"))
    for seed in range(first, first + fuzz // 100):
        life, chance = Spending(), Random(seed)
        for _ in range(100):
            a_step(life, chance)
            life.no_window_has_more_than_the_limit()
            life.what_is_reserved_and_was_spent_lately_is_within_the_limit()
            life.what_runs_or_may_run_has_reserved_what_it_takes()
            life.what_is_reserved_is_what_effects_hold()
            life.what_has_ended_or_lapsed_holds_nothing()
        life.teardown()


def test_a_question_of_a_call_that_waits_for_budget_and_person_is_asked_when_there_is_budget() -> None:
    shelf = Shelf()
    first = shelf.do(open_command(verdict=charging(charge(5)))).claim
    waiting = open_command(ref=REFS[0], effect_id="eff_2", token="22" * 16, verdict=asks(charges=(charge(1),)))
    assert isinstance(shelf.do(waiting), OverBudget)
    shelf.do(finish(first, "failed"))
    assert isinstance(shelf.do(waiting), AwaitingApproval)


def test_amounts_are_added_exactly_whatever_the_thread_rounds_to() -> None:
    taken = charge(amount=1040, limit=1040)
    with localcontext() as rounded:
        rounded.prec = 3
        held = reserve([taken], NONE, NOON)
        assert not isinstance(held, Exceeded)
        assert isinstance(reserve([charge(amount=4, limit=1040)], kept(held), NOON), Exceeded)


@pytest.mark.parametrize("amount", ["1e101", "1e-101", "1" * 101])
def test_amounts_that_could_not_be_added_exactly_are_refused(amount: str) -> None:
    with pytest.raises(BadCall, match="digits"):
        charge(amount=amount, limit=5)
    with pytest.raises(BadCall, match="digits"):
        charge(amount=1, limit=amount)
