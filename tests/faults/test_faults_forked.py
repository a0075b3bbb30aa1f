"""What an edit, a later turn and a fork make of a call: no call is answered with what another one did."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from indelible import Ledger, migrate
from indelible.core.policy.verdicts import Verdict
from indelible.errors import ApprovalPending, KeyReused, PolicyRefused
from tests.scenarios.shells import Driver, approve, asked, charge
from tests.waiting import PATIENCE

C1, C2 = {"charge": "c1", "amount": 5, "note": "a"}, {"charge": "c2", "amount": 5, "note": "a"}
WORDS: Any = {"key": ["charge"], "varies": ["note"]}


class Sent:
    """Is a handler that remembers for whom it was entered."""

    def __init__(self) -> None:
        self.to: list[str] = []

    def __call__(self, effect: Any) -> str:
        self.to.append(effect.args["charge"])
        return str(effect.args["charge"])


def edited(ledger: Driver, **fields: Any) -> Any:
    """Edit the call c1 to be c2; return the question about that."""
    question = asked(ledger, args=C1, **WORDS, **fields).approval
    return ledger.edit_approval(question.id, C2, digest=question.digest, by="eve", reason="that one")


@pytest.mark.parametrize("side_effect", ["payment", "notification"])
@pytest.mark.parametrize("how", ["turn", "ask"])
def test_47_in_a_later_turn_the_two_calls_of_an_edit_are_two(ledger: Driver, side_effect: str, how: str) -> None:
    """Turn 2 reported c2's result for c1, which never ran."""
    sent = Sent()

    def words(turn: str) -> dict[str, Any]:
        named = {"turn": turn} if how == "turn" else {}
        return {**WORDS, "dedupe": how, "call_id": turn, **named}

    def call(args: Any, turn: str) -> Any:
        options: Any = {"side_effect": side_effect, "wait": PATIENCE}
        made = charge(args=args, **words(turn))
        try:
            return ledger.run(made, sent, **(options | {"wait": False}))
        except ApprovalPending as pending:
            approve(ledger, pending)
        return ledger.run(made, sent, **options)

    question = asked(ledger, args=C1, **words("t1")).approval
    approve(
        ledger, ledger.edit_approval(question.id, C2, digest=question.digest, by="eve", reason="that one"), by="ana"
    )
    assert [call(args, "t1") for args in (C1, C2)] == ["c2", "c2"]
    assert sent.to == ["c2"]
    assert [call(args, "t2") for args in (C2, C1, C2, C1)] == ["c2", "c1", "c2", "c1"]
    assert [call(args, "t3") for args in (C1, C2, C1)] == ["c1", "c2", "c1"]
    assert sent.to == ["c2", "c2", "c1", "c1", "c2"]
    assert ledger.verify_run("order-1").is_valid


def test_47_an_edited_call_in_other_words_is_the_same_call(ledger: Driver) -> None:
    sent, reworded = Sent(), charge(args={**C2, "note": "b"}, **WORDS)
    question = edited(ledger)
    with pytest.raises(ApprovalPending):
        ledger.run(reworded, sent, wait=False)
    approve(ledger, question, by="ana")
    assert [ledger.run(reworded, sent) for _ in range(2)] == ["c2", "c2"]
    assert ledger.run(charge(args=C1, **WORDS), sent) == "c2"
    assert (sent.to, ledger.effects(status="succeeded")[0].args) == (["c2"], C2)
    with pytest.raises(KeyReused):
        ledger.run(charge(args={**C2, "amount": 9}, **WORDS), sent)


@pytest.fixture
def worked(store_url: str) -> Iterator[Ledger]:
    """A ledger with a run that has a call that ran, one that was edited and ran, and one that waits for a person."""
    migrate(store_url)
    with Ledger.open(store_url, seal=False) as ledger:
        work(ledger)
        yield ledger


def work(ledger: Any) -> None:
    with ledger.start_run("order-1", agent="billing"):
        assert ledger.run(charge(args={**C1, "charge": "c0"}, **WORDS), Sent()) == "c0"
        approve(ledger, edited(ledger), by="ana")
        assert ledger.run(charge(args=C1, **WORDS), Sent()) == "c2"
        asked(ledger, args={**C1, "charge": "c4"}, **WORDS)


def test_40_in_a_fork_the_same_key_with_other_arguments_is_refused(worked: Ledger) -> None:
    sent = Sent()
    with worked.fork_run("order-1") as fork:

        def forked(charge_id: str, **words: Any) -> Any:
            fields = {"args": {"charge": charge_id, "amount": 9900, "note": "b"}, "run_id": fork.id}
            return worked.run(charge(**fields, **WORDS, **words), sent)

        for charge_id in ("c0", "c1", "c2"):
            with pytest.raises(KeyReused):
                forked(charge_id)
        assert forked("c0", on_reuse="replay") == "c0"
    assert sent.to == []


def test_47_a_fork_replays_an_edited_call_by_both_names(worked: Ledger) -> None:
    sent = Sent()
    with worked.fork_run("order-1") as fork:
        for args in (C1, C2, {**C2, "note": "b"}):
            assert worked.run(charge(args=args, run_id=fork.id, **WORDS), sent) == "c2"
    assert sent.to == []


def test_56_a_fork_says_of_a_call_that_waits_that_it_is_not_on_the_record(worked: Ledger) -> None:
    """It said that the call may have happened, which was never entered."""
    sent, waits = Sent(), {**C1, "charge": "c4"}
    with worked.fork_run("order-1") as fork:
        for note in ("a", "b"):
            with pytest.raises(PolicyRefused) as refused:
                worked.run(charge(args={**waits, "note": note}, run_id=fork.id, **WORDS), sent)
            verdict: Verdict = refused.value.verdict
            assert verdict.rule == "dry run of a fork"
    assert (sent.to, len(worked.approvals(status="pending"))) == ([], 1)
