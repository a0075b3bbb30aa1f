"""Doubt is cheap to settle: many effects at once, each with its own evidence, and none of them twice."""

from __future__ import annotations

import csv
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from indelible import Actor, Effect, Failed, Ledger, MayHaveHappened, NothingHappened, Succeeded, migrate
from indelible.core.effects.reconciling import Reconciled
from indelible.errors import BadCall, BadFilter, BadSettlements, UnknownEffect
from indelible.testing.clock import FakeClock
from tests.scenarios.shells import LEASE, Count, Driver, charge
from tests.waiting import PATIENCE


def doubts(ledger: Driver, count: int, *, tool: str = "stripe.charge", run_id: str = "order-1") -> list[Effect]:
    """Leaves so many effects in doubt, and gives them, oldest first."""
    for amount in range(count):
        with suppress(MayHaveHappened):
            ledger.run(charge(tool=tool, run_id=run_id, args={"amount": amount}), Count(MayHaveHappened("cut")))
    found = ledger.effects(status="in_doubt", tool=tool, run_id=run_id, limit=count)
    assert len(found) == count
    return list(reversed(found))


def row(effect: Effect, **more: Any) -> dict[str, Any]:
    return {"id": effect.id, "as": "failed", "error": "no", "evidence": f"looked at {effect.args['amount']}", **more}


def states(ledger: Driver) -> dict[str, int]:
    found: dict[str, int] = {}
    for effect in ledger.effects(limit=5000):
        found[effect.status] = found.get(effect.status, 0) + 1
    return found


def evidence_of(ledger: Driver, effect: Effect) -> int:
    events = ledger.events(effect.run_id, limit=10_000)
    return sum(event.type == "tool_call_finished" and event.effect_id == effect.id for event in events)


# ── rows ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_rows_settle_effects_by_id_or_key_each_with_its_own_event(ledger: Driver) -> None:
    first, second = doubts(ledger, 2)
    settled = ledger.settle_all(
        [row(first), {"key": second.key, "as": "succeeded", "value": {"id": "ch_2"}, "evidence": "ch_2"}], by="ana"
    )
    assert [(one.line, one.code, one.effect and one.effect.status) for one in settled.results] == [
        (1, "settled", "failed"),
        (2, "settled", "succeeded"),
    ]
    assert ledger.get_effect(first.id).outcome == Failed("no", "SettledAsFailed")
    assert ledger.run(charge(tool="stripe.charge", args={"amount": 1}), Count()) == {"id": "ch_2"}
    assert [evidence_of(ledger, one) for one in (first, second)] == [1, 1]


def test_many_keys_are_found_whatever_became_of_their_effects(ledger: Driver) -> None:
    effects = doubts(ledger, 6)
    ledger.settle(effects[0], Failed("no", "SettledAsFailed"), by="ana", evidence="x")
    rows = [{"key": one.key, "as": "failed", "error": "no", "evidence": "x"} for one in effects]
    settled = ledger.settle_all([*rows, {**rows[0], "key": "0" * 64}], by="ana", skip_bad=True)
    codes = [one.code for one in settled.results]
    assert codes == ["already_settled", *["settled"] * 5, "unknown_effect"]


@pytest.mark.parametrize("ended", [False, True], ids=["both in doubt", "one has ended"])
@pytest.mark.parametrize("others", [1, 4, 59])
def test_40_a_key_that_two_effects_share_settles_neither_whatever_the_size_of_the_file(
    ledger: Driver, others: int, ended: bool
) -> None:
    for run_id in ("monday", "tuesday"):
        with suppress(MayHaveHappened):
            ledger.run(charge(run_id=run_id, adopted_key="a" * 64), Count(MayHaveHappened("cut")))
    both = ledger.effects(tool=charge().tool, limit=5)
    assert [one.key for one in both] == ["a" * 64] * 2
    if ended:
        ledger.settle(both[0], Succeeded({"id": "ch_1"}), by="ana", evidence="ch_1")
    keys = ["a" * 64, *(one.key for one in doubts(ledger, others))]
    rows = [{"key": key, "as": "failed", "error": "no", "evidence": "not in monday's report"} for key in keys]
    with pytest.raises(BadSettlements):
        ledger.settle_all(rows, by="ana")
    settled = ledger.settle_all(rows, by="ana", skip_bad=True)
    assert [one.code for one in settled.results] == ["several_effects", *["settled"] * others]
    assert ledger.get_effect(both[0].id).status == ("succeeded" if ended else "in_doubt")
    assert ledger.get_effect(both[1].id).status == "in_doubt"
    ledger.settle_all([row(both[1])], by="ana")
    assert ledger.get_effect(both[1].id).status == "failed", "by its id it can be settled"


def test_a_dry_run_says_what_would_be_settled_and_changes_nothing(ledger: Driver) -> None:
    (effect,) = doubts(ledger, 1)
    settled = ledger.settle_all([row(effect), {**row(effect), "id": "eff_none"}], by="ana", dry_run=True)
    assert [one.code for one in settled.results] == ["would_settle", "unknown_effect"]
    assert states(ledger) == {"in_doubt": 1}


def test_one_bad_row_keeps_all_others_from_being_settled_unless_it_is_skipped(ledger: Driver) -> None:
    first, second, third = doubts(ledger, 3)
    ledger.settle(third, Succeeded(1), by="ana", evidence="seen")
    rows = [row(first), row(first), row(third), {"id": second.id}, row(second, id=second.id[:-2]), row(second)]
    with pytest.raises(BadSettlements) as refused:
        ledger.settle_all(rows, by="ana")
    assert [problem.partition(":")[0] for problem in refused.value.problems] == [
        f"line {number}" for number in (2, 3, 4, 5)
    ]
    assert states(ledger) == {"in_doubt": 2, "succeeded": 1}
    settled = ledger.settle_all(rows, by="ana", skip_bad=True)
    assert [one.code for one in settled.results] == [
        "settled",
        "duplicate",
        "settled_otherwise",
        "bad_row",
        "unknown_effect",
        "settled",
    ]
    assert states(ledger) == {"failed": 2, "succeeded": 1}


def test_what_is_settled_so_already_is_done_and_never_settled_again(ledger: Driver) -> None:
    effects = doubts(ledger, 3)
    rows = [row(effect) for effect in effects]
    ledger.settle_all(rows[:2], by="ana")
    again = ledger.settle_all(rows, by="bob")
    assert [one.code for one in again.results] == ["already_settled", "already_settled", "settled"]
    assert [evidence_of(ledger, one) for one in effects] == [1, 1, 1]
    with pytest.raises(BadSettlements):
        ledger.settle_all([row(effects[0], error="another")], by="ana")


def test_a_row_for_an_older_attempt_is_refused(ledger: Driver) -> None:
    (effect,) = doubts(ledger, 1)
    ledger.retry(effect, by="ana")
    with pytest.raises(MayHaveHappened):
        ledger.run(charge(tool="stripe.charge", args={"amount": 0}), Count(MayHaveHappened("again")))
    with pytest.raises(BadSettlements):
        ledger.settle_all([row(effect, attempt=1)], by="ana")
    assert ledger.settle_all([row(effect, attempt=2)], by="ana").count("settled") == 1


def test_what_is_running_is_not_settled_and_what_was_abandoned_is(ledger: Driver, clock: FakeClock) -> None:
    begun = ledger.begin(charge())
    with pytest.raises(BadSettlements):
        ledger.settle_all([row(begun.claim.effect)], by="ana")
    clock.advance(LEASE)
    assert ledger.settle_all([row(begun.claim.effect)], by="ana").count("settled") == 1


def test_very_many_rows_are_settled_in_a_few_transactions_and_their_progress_is_told(ledger: Driver) -> None:
    effects = doubts(ledger, 300)  # more than one transaction
    done: list[tuple[int, int]] = []
    settled = ledger.settle_all(
        [row(effect) for effect in effects], by="ana", progress=lambda *numbers: done.append(numbers)
    )
    assert settled.count("settled") == 300
    assert done == [(256, 300), (300, 300)]


def test_what_was_moved_after_it_was_checked_is_told_and_stays_as_it_is(ledger: Driver) -> None:
    effects = doubts(ledger, 260)  # the last four are written in a transaction of their own

    def meddle(done: int, count: int) -> None:
        if done < count:
            ledger.settle(effects[-1], Succeeded("other"), by="bob", evidence="seen")
            ledger.settle(effects[-2], Failed("no", "SettledAsFailed"), by="bob", evidence="seen")
            ledger.retry(effects[-3], by="bob")

    settled = ledger.settle_all([row(effect) for effect in effects], by="ana", progress=meddle)
    assert [one.code for one in settled.results[-4:]] == [
        "settled",
        "not_in_doubt",
        "already_settled",
        "settled_otherwise",
    ]
    assert states(ledger) == {"failed": 258, "ready": 1, "succeeded": 1}


def test_a_filter_settles_the_attempts_that_it_found_and_no_later_one(ledger: Driver) -> None:
    effects = doubts(ledger, 257)  # the filter takes the newest first, so the first one is written by itself

    def meddle(done: int, count: int) -> None:
        if done < count:
            ledger.retry(effects[0], by="bob")
            with pytest.raises(MayHaveHappened):
                ledger.run(charge(tool="stripe.charge", args={"amount": 0}), Count(MayHaveHappened("again")))

    words: dict[str, Any] = {"by": "ana", "evidence": "not in the report", "limit": 300, "progress": meddle}
    settled = ledger.settle_all("status:in_doubt", Failed("no"), **words)
    assert [one.code for one in settled.results][-1] == "other_attempt"
    now = ledger.get_effect(effects[0].id)
    assert (now.status, now.attempt) == ("in_doubt", 2)
    assert states(ledger) == {"failed": 256, "in_doubt": 1}


@pytest.mark.parametrize("words", [{"encrypt": True}, {"redact": ["email"]}])
def test_what_is_encrypted_or_redacted_is_known_to_be_settled_so(place: dict[str, Any], words: dict[str, Any]) -> None:
    with Ledger.open(**place, **words) as opened:
        with pytest.raises(MayHaveHappened):
            opened.run(charge(), Count(MayHaveHappened("cut")))
        (effect,) = opened.effects()
        rows = [{"id": effect.id, "as": "succeeded", "value": {"to": "ada@example.com"}, "evidence": "ada@example.com"}]
        assert opened.settle_all(rows, by="ana").count("settled") == 1
        assert opened.settle_all(rows, by="ana").count("already_settled") == 1
        with pytest.raises(BadSettlements):
            opened.settle_all([{**rows[0], "value": {"to": "bob@example.com"}}], by="ana")


@pytest.mark.parametrize("chosen", [[], [1], b"", Path("not-there.csv")])
def test_what_names_no_row_settles_nothing(ledger: Driver, chosen: Any) -> None:
    with pytest.raises(BadCall):
        ledger.settle_all(chosen, by="ana")


def test_rows_have_their_own_outcome_and_evidence(ledger: Driver) -> None:
    (effect,) = doubts(ledger, 1)
    with pytest.raises(BadCall):
        ledger.settle_all([row(effect)], Failed("no"), by="ana")
    with pytest.raises(BadCall):
        ledger.settle_all([row(effect)], by="ana", evidence="x")


# ── a filter ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_filter_settles_what_fits_and_is_in_doubt(ledger: Driver) -> None:
    doubts(ledger, 2)
    doubts(ledger, 1, tool="mail.send")
    ledger.run(charge(tool="stripe.charge", args={"amount": 9}), Count())
    would = ledger.settle_all("tool:stripe.* since:24h", Failed("no"), by="ana", evidence="report", dry_run=True)
    assert [one.code for one in would.results] == ["would_settle"] * 2
    settled = ledger.settle_all("tool:stripe.* since:24h", Failed("no"), by="ana", evidence="report")
    assert [one.code for one in settled.results] == ["settled"] * 2
    assert states(ledger) == {"failed": 2, "in_doubt": 1, "succeeded": 1}


def test_a_filter_settles_no_more_than_its_limit_and_says_that_there_is_more(ledger: Driver) -> None:
    doubts(ledger, 3)
    settled = ledger.settle_all("tool:stripe.*", Failed("no"), by="ana", evidence="report", limit=2)
    assert (settled.count("settled"), settled.has_more) == (2, True)


def test_a_filter_that_says_nothing_or_has_no_outcome_or_evidence_settles_nothing(ledger: Driver) -> None:
    doubts(ledger, 1)
    with pytest.raises(BadCall):
        ledger.settle_all(" ", Failed("no"), by="ana", evidence="report")
    with pytest.raises(BadCall):
        ledger.settle_all("tool:*", by="ana", evidence="report")
    with pytest.raises(BadCall):
        ledger.settle_all("tool:*", Failed("no"), by="ana")
    with pytest.raises(BadFilter):
        ledger.settle_all("nonsense:1", Failed("no"), by="ana", evidence="report")
    assert states(ledger) == {"in_doubt": 1}


# ── killed in the middle ─────────────────────────────────────────────────────────────────────────────────────────────

_CHILD = """
import sys, time
from pathlib import Path
from indelible import Ledger

def halfway(done, count):
    print(done, flush=True)
    time.sleep(600)

with Ledger.open(sys.argv[1]) as ledger:
    ledger.settle_all(Path(sys.argv[2]), by="ana", progress=halfway)
"""


def test_a_settlement_that_is_killed_in_the_middle_is_finished_by_repeating_it(store_url: str, tmp_path: Path) -> None:
    migrate(store_url)
    path = tmp_path / "settled.csv"
    with Ledger.open(store_url) as ledger:
        for amount in range(600):
            with suppress(MayHaveHappened):
                ledger.run(charge(args={"amount": amount}), Count(MayHaveHappened("cut")))
        effects = ledger.effects(status="in_doubt", limit=600)
        with path.open("w", newline="") as file:
            table = csv.writer(file)
            table.writerow(["id", "as", "value", "evidence"])
            table.writerows([one.id, "succeeded", one.args["amount"], f"row {one.args['amount']}"] for one in effects)
        child = subprocess.Popen(
            [sys.executable, "-c", _CHILD, store_url, str(path)], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        assert child.stdout.readline().strip() == "256"
        child.send_signal(signal.SIGKILL)
        child.wait(PATIENCE)
        child.stdout.close()
        assert len(ledger.effects(status="succeeded", limit=600)) == 256
        settled = ledger.settle_all(path, by="ana")
        assert (settled.count("already_settled"), settled.count("settled"), settled.problems) == (256, 344, ())
        finished = [one.effect_id for one in ledger.events("order-1", limit=5000) if one.type == "tool_call_finished"]
        assert sorted(finished) == sorted(effect.id for effect in effects)
        assert {one.id: one.outcome for one in ledger.effects(limit=600)} == {
            one.id: Succeeded(one.args["amount"]) for one in effects
        }


# ── probes of chosen effects ─────────────────────────────────────────────────────────────────────────────────────────


def probing(ledger: Driver, tool: str, answers: dict[int, Any]) -> list[int]:
    """Declares a tool with a probe that knows these answers; gives the list of what the probe is asked about."""
    asked: list[int] = []

    def probe(effect: Effect) -> Any:
        asked.append(effect.args["amount"])
        answer = answers.get(effect.args["amount"])
        if isinstance(answer, Exception):
            raise answer
        return answer

    @ledger.tool(tool, reconcile=probe)
    def _tool(amount: int) -> None: ...

    return asked


def test_probes_are_asked_about_what_is_in_doubt_already_and_each_answer_is_told(ledger: Driver) -> None:
    answers = {0: Succeeded("ch_0"), 1: Failed("no"), 2: None, 3: NothingHappened("no"), 4: ValueError("dead")}
    doubts(ledger, 5)
    doubts(ledger, 1, tool="mail.send")
    probing(ledger, "stripe.charge", answers)
    told: list[Reconciled] = []
    seen = ledger.reconcile(each=told.append)
    assert [(one.effect.tool, one.effect.status, one.code, one.is_open) for one in told] == [
        ("stripe.charge", "succeeded", "settled", False),
        ("stripe.charge", "failed", "settled", False),
        ("stripe.charge", "in_doubt", "in_doubt", True),
        ("stripe.charge", "ready", "ready", False),
        ("stripe.charge", "in_doubt", "probe_raised", True),
        ("mail.send", "in_doubt", "no_probe", True),
    ]
    assert "dead" in told[4].detail
    assert [one.effect for one in told] == seen


def test_probes_are_asked_about_the_chosen_tool_run_or_effects_alone(ledger: Driver) -> None:
    effects = doubts(ledger, 3)
    doubts(ledger, 1, run_id="order-2")
    asked = probing(ledger, "stripe.charge", {})
    assert [one.id for one in ledger.reconcile(effects=[effects[1].id, effects[2]])] == [one.id for one in effects[1:]]
    assert len(ledger.reconcile(run_id="order-2")) == 1
    assert len(ledger.reconcile(tool="stripe.*", limit=2)) == 2
    assert ledger.reconcile(tool="mail.*") == []
    assert asked == [1, 2, 0, 0, 1]
    with pytest.raises(UnknownEffect):
        ledger.reconcile(effects=["eff_none"])


def test_a_dry_run_asks_no_probe(ledger: Driver) -> None:
    doubts(ledger, 1)
    doubts(ledger, 1, tool="mail.send")
    asked = probing(ledger, "stripe.charge", {0: Succeeded(1)})
    told: list[Reconciled] = []
    ledger.reconcile(dry_run=True, each=told.append)
    assert [one.code for one in told] == ["would_ask", "no_probe"]
    assert (asked, states(ledger)) == ([], {"in_doubt": 2})


def test_an_effect_that_is_settled_is_not_asked_about(ledger: Driver) -> None:
    (effect,) = doubts(ledger, 1)
    asked = probing(ledger, "stripe.charge", {0: Failed("no")})
    ledger.settle(effect, Succeeded(1), by=Actor("ana"), evidence="seen")
    told: list[Reconciled] = []
    ledger.reconcile(effects=[effect.id], each=told.append)
    assert ([one.code for one in told], asked) == (["settled"], [])
