"""Two of a kind: tools that one factory makes, forks of forks, children of forks, a claim at another ledger."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from indelible import Failed, Ledger, Succeeded, ToolCall, migrate
from indelible.core.effects.calls import Approval
from indelible.errors import ApprovalPending, BadCall, PolicyRefused, ResultNotRecorded, RunRefused
from tests.journal.test_set_back import Backup

PAY = ToolCall(run_id="r", tool="pay", args={"amount": 5})


@pytest.fixture
def ledger(store_url: str, tmp_path: Path) -> Any:
    migrate(store_url, keys=tmp_path / "keys")
    with Ledger.open(store_url, keys=tmp_path / "keys", seal=False) as opened:
        yield opened


@pytest.mark.parametrize("first", [True, False])
def test_39_what_one_of_two_tools_of_a_factory_demands_holds_for_both(ledger: Ledger, first: bool) -> None:
    paid: list[str] = []

    def made(agent: str, approval: Approval | None) -> Any:
        @ledger.tool("wire", side_effect="payment", approval=approval, wait=False)
        def wire(iban: str) -> None:
            paid.append(f"{agent} {iban}")

        return wire

    demands: list[Approval | None] = ["required", None] if first else [None, "required"]
    tools = [made(str(demand), demand) for demand in demands]
    with ledger.in_run("r"):
        for number, tool in enumerate(tools):
            with pytest.raises(ApprovalPending):
                tool(f"DE{number}")
    assert paid == []


def test_39_two_lambdas_are_two_tools(ledger: Ledger) -> None:
    ledger.tool("pay", side_effect="payment", approval="required")(lambda amount: amount)
    with pytest.raises(BadCall):
        ledger.tool("pay", side_effect="payment")(lambda amount: amount + 0)


def test_18_a_fork_of_any_depth_replays_what_the_first_run_did(ledger: Ledger) -> None:
    paid: list[int] = []

    @ledger.tool(side_effect="payment")
    def pay(amount: int) -> None:
        paid.append(amount)

    with ledger.start_run("fork-0", agent="billing"):
        pay(5)
    for depth in range(1, 24):
        with ledger.fork_run(f"fork-{depth - 1}", new_id=f"fork-{depth}", dry_run=False):
            pay(5)
    assert paid == [5]


def test_39_a_run_that_names_a_dry_fork_as_its_parent_is_as_dry(ledger: Ledger) -> None:
    paid: list[int] = []

    @ledger.tool(side_effect="payment")
    def pay(amount: int) -> None:
        paid.append(amount)

    with ledger.start_run("full", agent="billing"):
        pay(1)
    with (
        ledger.fork_run("full", new_id="dry"),
        ledger.start_run("child", agent="billing", parent="dry"),
        ledger.start_run("grandchild", agent="billing", parent="child"),
    ):
        for run_id in ("child", "grandchild"):
            with ledger.in_run(run_id), pytest.raises(PolicyRefused):
                pay(2)
        pay(1)  # which replays
    assert paid == [1]


def test_39_a_child_that_is_delegated_again_with_fewer_tools_is_refused(ledger: Ledger) -> None:
    with ledger.start_run("parent", agent="billing") as run:
        run.delegate("clerk", run_id="kid", allowed_tools=["crm.*", "pay"]).release()
        for fewer in (["crm.*"], []):
            with pytest.raises(RunRefused) as refused:
                run.delegate("clerk", run_id="kid", allowed_tools=fewer)
            assert refused.value.code == "tools"
        assert run.delegate("clerk", run_id="kid", allowed_tools=["pay", "crm.*"]).run.allowed_tools == ("crm.*", "pay")


@pytest.mark.parametrize("outcome", [Succeeded("paid"), Failed("declined")])
def test_04_a_claim_of_another_ledger_is_not_acknowledged(ledger: Ledger, outcome: Any, tmp_path: Path) -> None:
    with Ledger.open(f"sqlite:///{tmp_path / 'other.db'}", keys=tmp_path / "keys", seal=False) as other:
        begun: Any = other.begin(PAY, side_effect="payment")
        with pytest.raises(ResultNotRecorded):
            ledger.commit(begun.claim, outcome)
        assert ledger.effects() == []
        other.commit(begun.claim, outcome)
        assert [effect.status for effect in other.effects()] != ["processing"]


def test_04_a_result_is_not_acknowledged_if_the_database_was_put_back_meanwhile(store_url: str, tmp_path: Path) -> None:
    place: dict[str, Any] = {"url": store_url, "keys": tmp_path / "keys", "seal": False}
    migrate(store_url, keys=tmp_path / "keys")
    backup = Backup(store_url)
    Ledger.open(**place).close()
    backup.make()
    with Ledger.open(**place) as ledger, pytest.raises(ResultNotRecorded):
        ledger.run(PAY, lambda effect: backup.put_back(), side_effect="payment")


@pytest.mark.parametrize("amount", [2**53 + 1, 10**400, -(10**400)])
def test_38_a_whole_number_that_no_float_is_reaches_the_function_as_it_was_approved(
    ledger: Ledger, amount: int
) -> None:
    paid: list[Any] = []

    @ledger.tool(side_effect="payment", approval="required", wait=False)
    def pay(amount: float) -> None:
        paid.append(amount)

    with ledger.in_run("r"):
        with pytest.raises(ApprovalPending) as pending:
            pay(amount)
        ledger.approve(pending.value.approval, digest=pending.value.approval.digest, by="ana")
        pay(amount)
    assert paid == [amount]
