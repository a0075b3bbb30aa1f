"""Encrypted arguments are judged as they run: the caller opens what is recorded and has that judged. On both stores."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from indelible import Ledger, NothingHappened, ToolCall, migrate
from indelible.core.commands import AwaitingApproval
from indelible.errors import ApprovalPending, BudgetExceeded, EffectInDoubt, KeyReused, PolicyRefused

TOO_MUCH = {"name": "too much", "match": {"args": {"amount": {"gt": 100}}}, "then": "refuse"}
DAY = {"name": "day", "match": {"tool": "pay"}, "sum": "amount", "limit": 1000, "window": "24h"}


def call(order: str, amount: int, run: str = "r") -> ToolCall:
    return ToolCall(run_id=run, scope="s", tool="pay", args={"order": order, "amount": amount}, varies=["amount"])


@pytest.fixture(params=[False, True], ids=["clear", "encrypted"])
def ledger(
    request: pytest.FixtureRequest, store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Ledger]:
    monkeypatch.setenv("INDELIBLE_KEYS", str(tmp_path / "keys"))
    migrate(store_url)
    with Ledger.open(store_url, encrypt=request.param, seal=False) as opened:
        yield opened


def apply(ledger: Ledger, **policy: Any) -> None:
    ledger.apply_policy({"rules": [{"name": "rest", "then": "allow"}], **policy}, by="root")
    ledger._engine.judging.forget()


def try_in_vain(ledger: Ledger, one: ToolCall) -> None:
    def nothing(effect: Any) -> None:
        raise NothingHappened("not sent")

    with pytest.raises(NothingHappened):
        ledger.run(one, nothing, side_effect="payment")


def test_39_what_the_policy_refuses_of_the_recorded_words_does_not_run_under_others(ledger: Ledger) -> None:
    entered: list[int] = []
    try_in_vain(ledger, call("a", 1_000_000))
    apply(ledger, rules=[TOO_MUCH, {"name": "rest", "then": "allow"}])
    for run in ("r", "another"):
        with pytest.raises(PolicyRefused):
            ledger.run(call("a", 5, run), lambda effect: entered.append(effect.args["amount"]), side_effect="payment")
    assert entered == []
    apply(ledger)
    ledger.run(call("a", 5), lambda effect: entered.append(effect.args["amount"]), side_effect="payment")
    assert entered == [1_000_000]


def test_39_a_budget_is_charged_for_the_recorded_words(ledger: Ledger) -> None:
    entered: list[int] = []
    apply(ledger, budgets=[DAY])
    try_in_vain(ledger, call("a", 900))
    ledger.run(call("b", 900), lambda effect: entered.append(effect.args["amount"]), side_effect="payment")
    with pytest.raises(BudgetExceeded):
        ledger.run(call("a", 5), lambda effect: entered.append(effect.args["amount"]), side_effect="payment")
    assert entered == [900]


def test_39_a_question_asked_anew_is_charged_for_what_it_shows(ledger: Ledger) -> None:
    rule = {"name": "ask", "match": {"tool": "pay"}, "then": "ask"}
    apply(ledger, rules=[rule], budgets=[DAY])
    first = ledger.begin(call("a", 700), side_effect="payment")
    assert isinstance(first, AwaitingApproval)
    apply(ledger, rules=[{**rule, "name": "asks otherwise"}], budgets=[DAY])
    anew = ledger.begin(call("a", 7), side_effect="payment")
    assert isinstance(anew, AwaitingApproval)
    assert ledger.view_approval(anew.approval).args["amount"] == 700
    with pytest.raises(BudgetExceeded):
        ledger.begin(call("b", 700), side_effect="payment")


@pytest.mark.parametrize("encrypts", [(False, True), (True, False), (True, True)])
def test_39_an_approval_is_used_where_encryption_or_its_key_changed(
    store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encrypts: tuple[bool, bool]
) -> None:
    """The recorded arguments are read under the key that they are recorded with, and not asked for without end."""
    monkeypatch.setenv("INDELIBLE_KEYS", str(tmp_path / "keys"))
    migrate(store_url)
    entered: list[int] = []
    first, then = encrypts
    with Ledger.open(store_url, encrypt=first, seal=False) as ledger:
        asked = ledger.begin(call("a", 700), approval="required")
        assert isinstance(asked, AwaitingApproval)
        ledger.approve(asked.approval, digest=asked.approval.digest, by="ana")
    with Ledger.open(store_url, encrypt=then, seal=False) as ledger:
        ledger.run(call("a", 7), lambda effect: entered.append(effect.args["amount"]), approval="required", wait=False)
    assert entered == [700]


@pytest.mark.parametrize(("side_effect", "status"), [("write", "in_doubt"), ("read", "ready")])
def test_37_a_call_in_doubt_stays_so_on_a_machine_without_its_data_key(
    store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, side_effect: Any, status: str
) -> None:
    """It raised `EffectErased`, "call it under another scope", and an outer call was failed."""
    monkeypatch.setenv("INDELIBLE_KEYS", str(tmp_path / "keys"))
    migrate(store_url)
    words: Any = {"side_effect": "payment", "on_crash": "retry"}

    def lose(effect: Any) -> None:
        raise ConnectionError("lost")

    with Ledger.open(store_url, encrypt=True, seal=False) as here, pytest.raises(ConnectionError):
        here.run(call("a", 1), lose, **words)
    shutil.copytree(tmp_path / "keys", tmp_path / "far")
    for folder in (tmp_path / "far").glob("*/data"):
        shutil.rmtree(folder)
        folder.mkdir(mode=0o700)
    with Ledger.open(store_url, encrypt=True, seal=False, keys=tmp_path / "far") as far:
        outer = far.tool("outer", side_effect=side_effect)(lambda: far.run(call("a", 1), lose, **words))
        with far.in_run("r"), pytest.raises(EffectInDoubt):
            outer()
        assert {effect.tool: effect.status for effect in far.effects()} == {"pay": "in_doubt", "outer": status}


@pytest.mark.parametrize("ends", ["waits", "approved", "edited", "edited_anew"])
@pytest.mark.parametrize("encrypts", [False, True], ids=["clear", "encrypted"])
@pytest.mark.parametrize("in_run", ["r", "another"])
def test_95_no_tool_is_entered_with_the_mark_of_a_value_that_only_another_caller_has(
    store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: str, encrypts: bool, in_run: str
) -> None:
    """The card varies, so a call with another card is the same call; but the first card is nowhere on the record."""
    monkeypatch.setenv("INDELIBLE_KEYS", str(tmp_path / "keys"))
    migrate(store_url)

    def paying(card: str, run: str = "r") -> ToolCall:
        args = {"order": "a", "amount": 5, "card": card}
        return ToolCall(run_id=run, scope="s", tool="pay", args=args, varies=["card"], key=["order"])

    entered: list[Any] = []
    words: dict[str, Any] = {"redact": ["args.card"], "side_effect": "payment", "wait": False}
    with Ledger.open(store_url, encrypt=encrypts, seal=False, redact=["args.card"]) as ledger:
        if ends == "waits":
            with pytest.raises(NothingHappened):
                ledger.run(paying("4242-1"), _not_sent, **words)
        else:
            words["approval"] = "required"
            with pytest.raises(ApprovalPending):
                ledger.run(paying("4242-1"), _not_sent, **words)
            [asked] = ledger.approvals()
            if ends != "approved":
                args = {**ledger.view_approval(asked).args, "amount": 4}
                asked = ledger.edit_approval(asked, args, digest=asked.digest, by="ana")
            if ends != "edited_anew":
                ledger.approve(asked, digest=asked.digest, by="ben")
        for card in ("5353-2",) * 3 + ("4242-1",) * 3:
            with suppress(KeyReused, ApprovalPending):
                ledger.run(paying(card, in_run), lambda effect: entered.append(effect.args["card"]), **words)
            for asked in ledger.approvals(status="pending"):
                ledger.approve(asked, digest=asked.digest, by="cleo")
    assert set(entered) <= {"5353-2", "4242-1"}
    assert len(entered) == 1


def _not_sent(effect: Any) -> None:
    raise NothingHappened("not sent")
