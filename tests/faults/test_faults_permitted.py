"""Faults that other systems have in what they let run, on every store through both shells: only what was permitted."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from indelible import AsyncLedger, Ledger, Policy, Resource, Retry, Succeeded, rule
from indelible.core.approvals.deliveries import read_delivery
from indelible.core.sheets import SheetFilter
from indelible.errors import ApprovalPending, BadCall, BadPolicy, BudgetExceeded, IllegalMove, KeyReused, PolicyRefused
from tests.chaos.procs import Child, ChildDied
from tests.faults.permitting import LARGE, SMALL, never_runs
from tests.scenarios.policies import asking, limiting, saying
from tests.scenarios.raw import execute
from tests.scenarios.shells import Count, Driver, Shell, approve, asked, charge, types_of
from tests.waiting import PATIENCE

# ── 19 ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("says_so", [True, False])
def test_19_approved_by_key_fields_is_not_approved_with_other_arguments(ledger: Driver, says_so: bool) -> None:
    """Approve X, run Y through key fields (agent-ledger)."""
    approve(ledger, asked(ledger, args=SMALL, key=["order"]))
    words = {"approval": "required"} if says_so else {}
    told = never_runs(ledger, charge(args=LARGE, key=["order"]), **words)
    assert ledger.view_approval(told.approval.id).args == LARGE, "it is asked about by itself"


def test_19_approved_for_a_resource_is_not_approved_with_other_arguments(ledger: Driver) -> None:
    """Approve X, run Y through `resource` (agent-ledger)."""
    order = Resource(namespace="shop", type="order", id="7")
    approve(ledger, asked(ledger, args=SMALL, resource=order))
    never_runs(ledger, charge(args=LARGE, resource=order), KeyReused, approval="required")
    assert ledger.run(charge(args=SMALL, resource=order), lambda effect: effect.args) == SMALL


def test_19_the_handler_gets_what_was_approved_and_not_what_its_closure_holds(ledger: Driver) -> None:
    """Approve X, run Y through the handler's closure (agent-ledger)."""
    wallet = dict(SMALL)
    call = charge(args=wallet)
    approve(ledger, ledger.begin(call, approval="required"))
    wallet["amount"] = 5000
    never_runs(ledger, call, approval="required")
    seen: list[Any] = []
    ledger.run(charge(args=SMALL), lambda effect: seen.append(effect.args), approval="required")
    assert seen == [SMALL]


def test_19_a_decorated_function_gets_what_was_approved(ledger: Driver) -> None:
    """Approve X, run Y through a list that is changed while a person looks at it (agent-ledger)."""
    seen: list[Any] = []

    @ledger.tool(approval="required", wait=False)
    def order(items: list[str]) -> None:
        seen.append(items)

    items = ["book"]
    with pytest.raises(ApprovalPending) as told:
        ledger.call(order, items)
    items.append("car")
    approve(ledger, told.value)
    with pytest.raises(ApprovalPending):
        ledger.call(order, items)
    assert seen == []
    ledger.call(order, ["book"])
    assert seen == [["book"]]


TAMPERED_ARGS = b'{"amount":5000,"order":7}'


@pytest.mark.usefixtures("without_writer_keys")
def test_19_arguments_that_were_tampered_with_in_the_store_do_not_run(ledger: Driver, shell: Shell) -> None:
    """Tampered arguments execute (Pydantic AI)."""
    question = asked(ledger, args=SMALL)
    approve(ledger, question)
    change = "UPDATE indelible_payloads SET value = ? WHERE tenant = ? AND field = 'args'"
    execute(ledger.url, change, TAMPERED_ARGS, ledger.tenant)
    for each in (ledger, shell.open()):
        for args in (SMALL, LARGE):
            never_runs(each, charge(args=args), approval="required")
    assert ledger.get_approval(question.approval.id).status == "stale"


@pytest.mark.usefixtures("without_writer_keys")
def test_19_nobody_is_shown_other_arguments_than_those_the_digest_is_of(ledger: Driver) -> None:
    """Tampered arguments execute (Pydantic AI): what a person is shown has to be what the digest is of, too."""
    question = asked(ledger, args=LARGE)
    change = "UPDATE indelible_payloads SET value = ? WHERE tenant = ? AND field = 'args'"
    execute(ledger.url, change, b'{"amount":5,"order":7}', ledger.tenant)
    for verb, words in (("view_approval", {}), ("approve", {"digest": question.approval.digest})):
        with pytest.raises(IllegalMove, match="not what was asked about"):
            getattr(ledger, verb)(question.approval.id, by="ada", **words)
    execute(ledger.url, change, b'{"amount":5000,"order":7}', ledger.tenant)
    assert ledger.view_approval(question.approval.id, by="ada").args == LARGE
    execute(ledger.url, change, b'{"amount":5,"order":7}', ledger.tenant)
    assert ledger.deny(question.approval.id, by="ada", reason="somebody changed it").status == "denied"


@pytest.mark.usefixtures("without_writer_keys")
def test_19_an_approval_that_was_pointed_at_another_call_allows_neither(ledger: Driver) -> None:
    """Tampered state executes (Pydantic AI): here a harmless call's approval in the place of another's."""
    small, large = asked(ledger, args=SMALL), asked(ledger, args=LARGE)
    approve(ledger, small)
    change = "UPDATE indelible_effects SET approval_id = ?, status = 'ready' WHERE tenant = ? AND id = ?"
    execute(ledger.url, change, small.approval.id, ledger.tenant, large.effect.id)
    never_runs(ledger, charge(args=LARGE), approval="required")
    never_runs(ledger, charge(args=LARGE))


# ── 20 ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def ask_until_killed(line: Connection, url: str, tenant: str, is_async: bool) -> None:
    """Is a process that does nothing but ask, one call after the other, and says how far it is."""

    async def asking_on() -> None:
        async with AsyncLedger.open(url, tenant=tenant, policy=asking(notify=["pager"])) as ledger:
            for number in range(1_000_000):
                await ledger.begin(charge(args={"amount": number}))
                line.send(number)

    if is_async:
        asyncio.run(asking_on())
        return
    with Ledger.open(url, tenant=tenant, policy=asking(notify=["pager"])) as ledger:
        for number in range(1_000_000):
            ledger.begin(charge(args={"amount": number}))
            line.send(number)


def test_20_a_crash_leaves_no_call_without_its_question(shell: Shell) -> None:
    """A crash between insert and approval request executes unapproved (agent-ledger)."""
    for number in range(3):
        child = Child(ask_until_killed, shell.url, shell.tenant, shell.kind == "async")
        for _ in range(5 + number):
            child.hear(PATIENCE)
        os.kill(child.pid, signal.SIGKILL)  # wherever it is: mostly in the middle of a write
        assert child.join() == -signal.SIGKILL
    ledger = shell.open(policy=asking(notify=["pager"]))
    effects, questions = ledger.effects(limit=10_000), ledger.approvals(limit=10_000)
    assert {effect.status for effect in effects} == {"requires_approval"}
    assert {effect.id: effect.approval_id for effect in effects} == {one.effect_id: one.id for one in questions}
    told = ledger.engine.store.sheets(ledger.tenant, SheetFilter(kind="delivery", limit=10_000))
    assert {read_delivery(sheet).approval_id for sheet in told} == {one.id for one in questions}
    for effect in effects[:3]:
        never_runs(ledger, charge(args=effect.args))
    assert len(ledger.approvals(limit=10_000)) == len(questions), "and nobody is asked twice"


@pytest.mark.parametrize("when", ["before", "after"])
def test_20_a_process_that_dies_at_the_write_never_executes_unapproved(shell: Shell, tmp_path: Path, when: str) -> None:
    """A crash between insert and approval request executes unapproved (agent-ledger): here at the very write."""
    world = tmp_path / "world"
    world.touch()
    with Child(die_at_the_write, shell.url, shell.tenant, when, str(world)) as child, pytest.raises(ChildDied) as death:
        child.result(PATIENCE)
    assert death.value.code == -signal.SIGKILL
    ledger = shell.open()
    assert len(ledger.effects()) == (0 if when == "before" else 1)
    never_runs(ledger, charge(), approval="required")
    assert world.read_text() == ""
    (question,) = ledger.approvals()
    approve(ledger, question)
    assert ledger.run(charge(), Count("ran"), approval="required") == "ran"


def die_at_the_write(line: Connection, url: str, tenant: str, when: str, world: str) -> None:
    """Is a process that is killed by its own store, right before or right after the question is durable."""
    ledger = Ledger.open(url, tenant=tenant, seal=False)
    store: Any = ledger._engine.store
    apply = store.apply

    def deadly(*args: Any) -> Any:
        if when == "after":
            apply(*args)
        os.kill(os.getpid(), signal.SIGKILL)

    store.apply = deadly

    def handler(effect: Any) -> None:
        Path(world).write_text("executed")

    ledger.run(charge(), handler, approval="required", wait=False)


def test_20_a_rule_that_raises_lets_nothing_run(shell: Shell) -> None:
    """A policy hook that raises executes unapproved (agent-ledger); its errors are swallowed (CrewAI)."""
    errors = [ValueError("no"), KeyError("amount"), RecursionError(), MemoryError(), OSError(), TimeoutError()]

    @rule("buggy")
    def buggy(asked: Any) -> Any:
        raise errors[asked.args["number"]]

    ledger = shell.open(policy=Policy.of(buggy))
    for number, error in enumerate(errors):
        told = never_runs(ledger, charge(args={"number": number}), PolicyRefused)
        assert (told.verdict.rule, type(error).__name__ in told.verdict.why) == ("buggy", True)
    assert set(types_of(ledger)) == {"policy_checked"}


def test_20_a_rule_that_raises_at_the_claim_lets_nothing_run_either(shell: Shell) -> None:
    """A policy hook that raises executes unapproved (agent-ledger): here after somebody has approved."""
    mood = ["ask"]

    @rule("moody", version="1")
    def moody(asked: Any) -> Any:
        if mood[0] == "raise":
            raise RuntimeError("down")
        return mood[0]

    ledger = shell.open(policy=Policy.of(moody))
    approve(ledger, ledger.begin(charge()))
    mood[0] = "raise"
    never_runs(ledger, charge(), PolicyRefused)


def test_20_a_rule_that_answers_nonsense_lets_nothing_run(shell: Shell) -> None:
    """A policy hook that goes wrong executes unapproved (agent-ledger): here one that answers nonsense."""
    answers = [True, 1, "yes", "ALLOW", "", {}, object(), ["allow"]]

    @rule("odd")
    def odd(asked: Any) -> Any:
        return answers[asked.args["number"]]

    ledger = shell.open(policy=Policy.of(odd))
    for number in range(len(answers)):
        never_runs(ledger, charge(args={"number": number}), PolicyRefused)


OPTIONS: dict[str, Any] = {
    "side_effect": "read",
    "on_crash": "retry",
    "reconcile": lambda effect: Succeeded("settled"),
    "retry": Retry(on=(ValueError,)),
    "lease": timedelta(seconds=5),
    "timeout": timedelta(seconds=5),
    "await_inclusion": False,
    "redact": ["args.amount"],
    "subject": "args.amount",
}


@pytest.mark.parametrize("asks", ["ledger", "tool", "policy"])
def test_20_no_option_of_a_call_turns_the_approval_off(shell: Shell, asks: str) -> None:
    """Any per-call option turned the approval default off (agent-ledger 0.1.1)."""
    policy = saying("ask") if asks == "policy" else None
    ledger = shell.open(policy=policy, **({"approval": "required"} if asks == "ledger" else {}))
    if asks == "tool":

        @ledger.tool("charge", approval="required")
        def tool(amount: int) -> None: ...

    of_the_tool = {"reconcile", "retry", "subject"} if asks == "tool" else set()
    for option, value in OPTIONS.items():
        refusal = BadCall if option in of_the_tool else ApprovalPending
        never_runs(ledger, charge(run_id=option), refusal, **{option: value})
    never_runs(ledger, charge(run_id="all"), BadCall if of_the_tool else ApprovalPending, **OPTIONS)
    rest = {option: value for option, value in OPTIONS.items() if option not in of_the_tool}
    never_runs(ledger, charge(run_id="rest"), **rest)


def test_20_a_call_cannot_talk_itself_out_of_what_the_policy_asks(shell: Shell) -> None:
    """Any per-call option turned the approval default off (agent-ledger 0.1.1): not what the policy asks."""
    ledger = shell.open(policy=saying("ask"))
    for args in ({"amount": 5}, {"amount": 5, "approval": "none"}, {"amount": 5, "requires_approval": False}):
        never_runs(ledger, charge(args=args), approval="none")
    asked(ledger, run_id="order-2")
    never_runs(ledger, charge(run_id="order-2"), approval="none")


@pytest.mark.parametrize(
    "words",
    [
        {"aproval": "required"},
        {"approval": "requierd"},
        {"approval": True},
        {"policy": {"rulse": []}},
        {"policy": {"rules": [{"name": "a", "mtach": {}, "then": "ask"}]}},
        {"policy": {"rules": [{"name": "a", "then": "aks"}]}},
        {"policy": {"rules": [{"name": "a", "then": "ask", "approvals": {"qurom": 2}}]}},
        {"policy": {"rules": [{"name": "a", "match": {"args": {"amount": {"gr": 5}}}, "then": "ask"}]}},
        {"policy": {"defaults": {"payments": "ask"}}},
        {"policy": {"budgets": [{"name": "a", "limit": 1, "window": "1 day"}]}},
    ],
)
def test_20_a_misspelt_setting_is_an_error_and_never_a_gate_left_open(shell: Shell, words: dict[str, Any]) -> None:
    """A misspelt setting disables the gate (LangChain)."""
    with pytest.raises((BadCall, BadPolicy, TypeError)):
        shell.open(**words)
    if "policy" not in words:
        with pytest.raises((BadCall, TypeError)):
            shell.open().run(charge(), Count(), **words)


# ── 23 ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_23_a_parallel_batch_does_not_get_past_a_spend_limit(shell: Shell) -> None:
    """A spend limit of 100 allows 300 in one parallel batch (locus)."""
    ledgers = [shell.open(policy=limiting(100)) for _ in range(3)]
    spent: list[int] = []

    def handler(effect: Any) -> None:
        spent.append(effect.args["amount"])

    calls = [
        ledgers[number % 3].spawn("run", charge(args={"amount": 10}, run_id=f"order-{number}"), handler)
        for number in range(30)
    ]
    outcomes = Counter(type(call.exception(PATIENCE)) for call in calls)
    assert (sum(spent), outcomes) == (100, {type(None): 10, BudgetExceeded: 20})
