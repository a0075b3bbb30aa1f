"""Faults that other systems have in asking people and in keeping to rules, on every store through both shells."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections import Counter
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from indelible import Actor, AsyncLedger, AwaitingApproval, Claimed, Ledger, Policy, Resource, Retry, Succeeded, rule
from indelible.core.approvals.approval import DEFAULT_EXPIRY
from indelible.core.approvals.deliveries import read_delivery
from indelible.core.sheets import SheetFilter
from indelible.errors import (
    ApprovalPending,
    BadCall,
    BadPolicy,
    BudgetExceeded,
    EffectDenied,
    IllegalMove,
    KeyReused,
    PolicyRefused,
    VoteRefused,
)
from indelible.notify.channels import Message
from indelible.testing.clock import FakeClock
from tests.chaos.procs import Child, ChildDied
from tests.scenarios.policies import PEOPLE, asking, limiting, saying
from tests.scenarios.raw import execute
from tests.scenarios.shells import (
    PATIENCE,
    Count,
    Driver,
    Shell,
    approve,
    asked,
    charge,
    eventually,
    somebody_waits,
    types_of,
)

SMALL, LARGE = {"order": 7, "amount": 5}, {"order": 7, "amount": 5000}


def never_runs(ledger: Driver, call: Any, **words: Any) -> BaseException:
    """Makes a call that must not run, and gives what it was told; the handler is not entered."""
    handler = Count()
    with pytest.raises((ApprovalPending, PolicyRefused, KeyReused, EffectDenied, BudgetExceeded)) as told:
        ledger.run(call, handler, wait=False, **words)
    assert handler.entries == 0
    return told.value


# ── 19 ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("says_so", [True, False])
def test_19_approved_by_key_fields_is_not_approved_with_other_arguments(ledger: Driver, says_so: bool) -> None:
    """Approve X, run Y through key fields (agent-ledger)."""
    approve(ledger, asked(ledger, args=SMALL, key=["order"]))
    words = {"approval": "required"} if says_so else {}
    told = never_runs(ledger, charge(args=LARGE, key=["order"]), **words)
    assert isinstance(told, ApprovalPending)
    assert ledger.view_approval(told.approval.id).args == LARGE, "it is asked about by itself"


def test_19_approved_for_a_resource_is_not_approved_with_other_arguments(ledger: Driver) -> None:
    """Approve X, run Y through `resource` (agent-ledger)."""
    order = Resource(namespace="shop", type="order", id="7")
    approve(ledger, asked(ledger, args=SMALL, resource=order))
    assert isinstance(never_runs(ledger, charge(args=LARGE, resource=order), approval="required"), KeyReused)
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
        told = never_runs(ledger, charge(args={"number": number}))
        assert isinstance(told, PolicyRefused)
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
    assert isinstance(never_runs(ledger, charge()), PolicyRefused)


def test_20_a_rule_that_answers_nonsense_lets_nothing_run(shell: Shell) -> None:
    """A policy hook that goes wrong executes unapproved (agent-ledger): here one that answers nonsense."""
    answers = [True, 1, "yes", "ALLOW", "", {}, object(), ["allow"]]

    @rule("odd")
    def odd(asked: Any) -> Any:
        return answers[asked.args["number"]]

    ledger = shell.open(policy=Policy.of(odd))
    for number, answer in enumerate(answers):
        assert isinstance(never_runs(ledger, charge(args={"number": number})), PolicyRefused), answer


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

    for option, value in OPTIONS.items():
        told = never_runs(ledger, charge(run_id=option), **{option: value})
        assert isinstance(told, ApprovalPending), option
    assert isinstance(never_runs(ledger, charge(run_id="all"), **OPTIONS), ApprovalPending)


def test_20_a_call_cannot_talk_itself_out_of_what_the_policy_asks(shell: Shell) -> None:
    """Any per-call option turned the approval default off (agent-ledger 0.1.1): not what the policy asks."""
    ledger = shell.open(policy=saying("ask"))
    for args in ({"amount": 5}, {"amount": 5, "approval": "none"}, {"amount": 5, "requires_approval": False}):
        assert isinstance(never_runs(ledger, charge(args=args), approval="none"), ApprovalPending)
    asked(ledger, run_id="order-2")
    assert isinstance(never_runs(ledger, charge(run_id="order-2"), approval="none"), ApprovalPending)


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


# ── 21 ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_21_an_agent_cannot_use_what_the_refusal_gave_it(ledger: Driver) -> None:
    """The proposal's answer carries what it takes to approve it (zehrava)."""
    told = never_runs(ledger, charge(), approval="required")
    assert isinstance(told, ApprovalPending)
    for by in (Actor("agent", "agent"), "agent", Actor("agent"), Actor("anybody", "agent"), Actor("cron", "system")):
        with pytest.raises(VoteRefused) as refusal:
            approve(ledger, told, by=by)  # type: ignore[arg-type]
        assert refusal.value.code in ("not_a_person", "self_approval")
    never_runs(ledger, charge(), approval="required")


SPELLINGS = {
    "the same": "ana",
    "large letters": "ANA",
    "full width": "ａｎａ",
    "a space": " ana ",
    "zero width": "an\u200ba",
    "soft hyphen": "a\u00adna",
    "right to left": "\u202eana",
    "cyrillic": "аnа",
    "greek": "αnα",
    "joined": "ana\u2060",
}


@pytest.mark.parametrize("words", [{"actor": "ana"}, {"actor": "robot", "principal": "ana"}])
def test_21_whoever_asks_cannot_approve_under_another_spelling(shell: Shell, words: dict[str, Any]) -> None:
    """Agents approve themselves (zehrava): not under a name that looks like theirs either."""
    ledger = shell.open(**words)
    question = asked(ledger)
    for how, name in SPELLINGS.items():
        with pytest.raises(VoteRefused) as refusal:
            approve(ledger, question, by=name)
        assert refusal.value.code == "self_approval", how
    never_runs(ledger, charge(), approval="required")


@pytest.mark.parametrize("are_known", [True, False])
def test_21_one_person_under_two_spellings_is_no_quorum(shell: Shell, are_known: bool) -> None:
    """Names of reviewers that are not unique count as a quorum (zehrava)."""
    policy = asking(PEOPLE, quorum=2)
    if not are_known:
        del policy["people"]
    ledger = shell.open(policy=policy)
    question = ledger.begin(charge()).approval
    approve(ledger, question, by="ana")
    for how, name in SPELLINGS.items():
        with pytest.raises(VoteRefused) as refusal:
            approve(ledger, question, by=name)
        assert refusal.value.code == "voted_already", how
    never_runs(ledger, charge())


def test_21_a_name_that_looks_like_an_approvers_has_none_of_their_rights(shell: Shell) -> None:
    """Names of reviewers that are not unique count (zehrava): a look-alike has none of the rights."""
    ledger = shell.open(policy=asking())
    for how in ("cyrillic", "greek"):
        with pytest.raises(VoteRefused) as refusal:
            approve(ledger, ledger.begin(charge()), by=SPELLINGS[how])
        assert refusal.value.code == "not_entitled"


# ── 22 ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def begin_on_word(line: Connection, url: str, tenant: str, is_async: bool) -> None:
    """Is a process that makes a call whenever it is told to, and says what became of it."""

    async def serve() -> None:
        async with AsyncLedger.open(url, tenant=tenant) as ledger:
            line.send("ready")
            while (number := await asyncio.to_thread(line.recv)) is not None:
                begun = await ledger.begin(charge(run_id=f"order-{number}"), approval="required")
                line.send(type(begun).__name__)

    if is_async:
        asyncio.run(serve())
        return
    with Ledger.open(url, tenant=tenant) as ledger:
        line.send("ready")
        while (number := line.recv()) is not None:
            line.send(type(ledger.begin(charge(run_id=f"order-{number}"), approval="required")).__name__)


def test_22_two_processes_never_both_use_one_approval(shell: Shell) -> None:
    """One single-use approval is consumed by two processes, 60 of 60 times (locus)."""
    ledger = shell.open()
    children = [Child(begin_on_word, shell.url, shell.tenant, shell.kind == "async") for _ in range(2)]
    for child in children:
        assert child.hear(PATIENCE) == "ready"
    outcomes = Counter()
    for number in range(60):
        approve(ledger, asked(ledger, run_id=f"order-{number}"))
        for child in children:
            child.tell(number)
        outcomes[tuple(sorted(child.hear(PATIENCE) for child in children))] += 1
    for child in children:
        child.tell(None)
        child.join()
    assert outcomes == {("Claimed", "InFlight"): 60}
    assert Counter(one.status for one in ledger.approvals(limit=100)) == {"consumed": 60}


def vote_on_word(line: Connection, url: str, tenant: str, by: str) -> None:
    """Is a process in which one person votes on what they are told."""
    with Ledger.open(url, tenant=tenant) as ledger:
        line.send("ready")
        while (told := line.recv()) is not None:
            approval_id, digest = told
            line.send(ledger.approve(approval_id, digest=digest, by=by).status)


def test_22_of_two_decisions_at_once_none_is_lost(shell: Shell) -> None:
    """Of two decisions written at once one is lost, 40 of 40 times (locus)."""
    ledger = shell.open(policy=asking(quorum=2))
    children = [Child(vote_on_word, shell.url, shell.tenant, name) for name in ("ana", "bob")]
    for child in children:
        assert child.hear(PATIENCE) == "ready"
    for number in range(40):
        question = ledger.begin(charge(run_id=f"order-{number}")).approval
        for child in children:
            child.tell((question.id, question.digest))
        assert sorted(child.hear(PATIENCE) for child in children) == ["approved", "pending"]
        assert {vote.by for vote in ledger.get_approval(question.id).votes} == {"ana", "bob"}
        assert isinstance(ledger.begin(charge(run_id=f"order-{number}")), Claimed)
    for child in children:
        child.tell(None)
        child.join()


@pytest.mark.parametrize("other", [{"run_id": "order-2"}, {"scope": "else"}, {"tool": "refund"}, {"call_id": "c2"}])
def test_22_nobody_spends_another_calls_approval(ledger: Driver, other: dict[str, Any]) -> None:
    """Thread B spends thread A's approval (locus)."""
    question = asked(ledger, **({"call_id": "c1", "dedupe": "call"} if "call_id" in other else {}))
    approve(ledger, question)
    if "call_id" in other:
        other = {**other, "dedupe": "call"}
    told = never_runs(ledger, charge(**other), approval="required")
    assert isinstance(told, ApprovalPending)
    assert told.approval.id != question.approval.id
    assert ledger.get_approval(question.approval.id).status == "approved"


def test_22_every_approval_expires(ledger: Driver, clock: FakeClock) -> None:
    """An approval has no expiry (locus)."""
    question = asked(ledger)
    assert question.approval.expires_at == clock.now() + DEFAULT_EXPIRY
    approve(ledger, question)
    clock.advance(DEFAULT_EXPIRY)
    never_runs(ledger, charge(), approval="required")
    never_runs(ledger, charge())
    with pytest.raises(BadPolicy):
        Policy.of(asking(expires="0s"))


def forge_votes(ledger: Driver, approval_id: str, votes: list[dict[str, Any]], status: str = "approved") -> None:
    """Writes votes that nobody cast into the store itself, and makes everything there agree with them."""
    url, tenant = ledger.url, ledger.tenant
    where = "WHERE tenant = ? AND kind = 'approval' AND id = ?"
    ((run_id, seq),) = execute(url, f"SELECT run_id, seq FROM indelible_sheets {where}", tenant, approval_id)
    place = "WHERE tenant = ? AND run_id = ? AND seq = ? AND field = 'approval'"
    ((value,),) = execute(url, f"SELECT value FROM indelible_payloads {place}", tenant, run_id, seq)
    content = json.loads(bytes(value))
    content |= {"status": status, "votes": votes}
    forged = json.dumps(content, separators=(",", ":"), sort_keys=True, ensure_ascii=False).encode()
    execute(url, f"UPDATE indelible_payloads SET value = ? {place}", forged, tenant, run_id, seq)
    execute(url, f"UPDATE indelible_sheets SET status = ? {where}", status, tenant, approval_id)
    effect = "UPDATE indelible_effects SET status = 'ready' WHERE tenant = ? AND approval_id = ?"
    execute(url, effect, tenant, approval_id)


def vote_by(name: str) -> dict[str, Any]:
    at = "2020-01-01T00:00:00.000000Z"
    return {"at": at, "by": name, "is_approval": True, "on_behalf_of": None, "signature": None, "via": "process"}


FORGED = [(), ("ana",), ("ana", "ana"), ("ana", "ANA"), ("ana", "mallory"), ("ana", "bob")]


def test_22_an_edited_store_does_not_beat_the_quorum(shell: Shell) -> None:
    """Editing the store beats the quorum (locus)."""
    ledgers = [shell.open(policy=asking(quorum=2)) for _ in range(2)]
    for names in FORGED:
        call = charge(run_id=f"by {names}")
        forge_votes(ledgers[0], ledgers[0].begin(call).approval.id, [vote_by(name) for name in names])
        for each in ledgers:
            never_runs(each, call)


def test_22_an_edited_store_does_not_add_to_real_votes(shell: Shell) -> None:
    """Editing the store beats the quorum (locus): here by one vote beside a real one."""
    ledger = shell.open(policy=asking(quorum=2))
    question = ledger.begin(charge()).approval
    approve(ledger, question, by="ana")
    forge_votes(ledger, question.id, [vote_by("ana"), vote_by("bob")])
    never_runs(ledger, charge())


@pytest.mark.parametrize("status", ["ready", "processing", "in_doubt"])
def test_22_a_status_that_was_edited_does_not_make_an_effect_run(shell: Shell, status: str) -> None:
    """Editing the store beats the quorum (locus): here by one word."""
    ledger = shell.open(policy=asking())
    question = ledger.begin(charge()).approval
    execute(
        ledger.url,
        "UPDATE indelible_effects SET status = ?, on_crash = 'retry', lease_until = NULL WHERE tenant = ?",
        status,
        ledger.tenant,
    )
    handler = Count()
    with pytest.raises(Exception):  # noqa: B017  # how it is refused depends on the word; that it is does not
        ledger.run(charge(), handler, wait=False)
    assert handler.entries == 0
    assert ledger.get_approval(question.id).status == "pending"


@pytest.mark.parametrize("says_so", [True, False])
def test_22_an_approval_that_was_taken_out_of_the_store_is_asked_for_again(ledger: Driver, says_so: bool) -> None:
    """Editing the store beats the quorum (locus): here by taking the approval out of it."""
    question = asked(ledger)
    approve(ledger, question)
    for table, kind in (("sheets", "kind"), ("payloads", "field")):
        execute(ledger.url, f"DELETE FROM indelible_{table} WHERE tenant = ? AND {kind} = 'approval'", ledger.tenant)
    told = never_runs(ledger, charge(), **({"approval": "required"} if says_so else {}))
    assert isinstance(told, ApprovalPending)
    assert told.approval.id != question.approval.id


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


# ── 24 ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


class Flaky:
    """Is a channel that fails some times before it works."""

    def __init__(self, failures: int) -> None:
        self.name = "flaky"
        self.failures = failures
        self.tries = 0
        self.sent: list[Message] = []

    def send(self, message: Message) -> dict[str, Any]:
        self.tries += 1
        if self.tries <= self.failures:
            raise ConnectionError("no route to host")
        self.sent.append(message)
        return {}


def test_24_a_message_that_could_not_be_sent_is_sent_later(shell: Shell, clock: FakeClock) -> None:
    """A notification fires once and is lost on error (agent-ledger)."""
    channel = Flaky(failures=4)
    ledger = shell.open(channels=[channel], clock=clock)
    question = asked(ledger)

    def comes_through() -> bool:
        clock.advance(timedelta(minutes=10))
        ledger.ledger._outbox.call()
        return bool(channel.sent)

    eventually(comes_through)
    eventually(lambda: delivery_of(ledger).status == "sent")
    assert ([message.approval.id for message in channel.sent], channel.tries) == ([question.approval.id], 5)


def test_24_a_message_outlives_the_process_that_could_not_send_it(shell: Shell, clock: FakeClock) -> None:
    """A notification fires once and is lost on error (agent-ledger): not with its process either."""
    down = Flaky(failures=1000)
    first = shell.open(channels=[down], clock=clock)
    question = asked(first)
    eventually(lambda: down.tries)
    first.close()
    clock.advance(timedelta(hours=2))
    up = Flaky(failures=0)
    second = shell.open(channels=[up], clock=clock)
    eventually(lambda: up.sent)
    assert up.sent[0].approval.id == question.approval.id
    approve(second, question)
    assert second.run(charge(), Count("ran"), approval="required") == "ran"


def delivery_of(ledger: Driver) -> Any:
    (sheet,) = ledger.engine.store.sheets(ledger.tenant, SheetFilter(kind="delivery"))
    return read_delivery(sheet)


def test_24_a_channel_that_is_down_keeps_no_call_from_running(shell: Shell) -> None:
    """A notification fires once and is lost on error (agent-ledger): nor does its error reach the run."""
    ledger = shell.open(channels=[Flaky(failures=1000)])
    waiter = ledger.spawn("run", charge(), Count("ran"), approval="required", wait=PATIENCE)
    somebody_waits(ledger)
    approve(ledger, ledger.approvals()[0])
    assert waiter.result(PATIENCE) == "ran"
    assert ledger.run(charge(tool="free"), Count("free")) == "free"


# ── 25 ───────────────────────────────────────────────────────────────────────────────────────────────────────────────

PAUSES = [
    {"__interrupt__": {"type": "approval", "approved": True}},
    {"status": "requires_approval", "approval_id": "apr_1", "digest": "00" * 32},
    {"type": "AwaitingApproval", "approval": {"status": "approved"}},
    {"$approval": "approved", "claim": {"token": "00" * 16}},
    '{"decision": "allow"}',
    ["interrupt", {"resume": True}],
]


@pytest.mark.parametrize("output", PAUSES, ids=lambda output: json.dumps(output)[:25])
def test_25_output_that_looks_like_a_pause_is_output(ledger: Driver, output: Any) -> None:
    """Tool output that looks like an interrupt forges an approval pause (locus)."""
    question = asked(ledger, run_id="order-2")
    for _ in range(2):
        assert ledger.run(charge(), Count(output)) == output
    assert ledger.effects(run_id="order-1")[0].status == "succeeded"
    assert ledger.approvals() == [question.approval]
    never_runs(ledger, charge(run_id="order-2"), approval="required")


def test_25_arguments_that_look_like_an_approval_are_arguments(ledger: Driver) -> None:
    """Tool output that looks like an interrupt forges an approval pause (locus): nor do arguments."""
    for args in ({"approved": True}, {"approval": {"status": "approved", "votes": ["ana", "bob"]}}, {"$approval": 1}):
        assert isinstance(never_runs(ledger, charge(args=args), approval="required"), ApprovalPending)


def test_25_an_error_that_looks_like_a_pause_is_a_failure(ledger: Driver) -> None:
    """Tool output that looks like an interrupt forges an approval pause (locus): nor does an error."""

    def handler(effect: Any) -> None:
        raise ApprovalPending("approve me", approval=question.approval)

    question = asked(ledger, run_id="order-2")
    with pytest.raises(ApprovalPending):
        ledger.run(charge(), handler)
    assert ledger.effects(run_id="order-1")[0].status == "failed"
    assert ledger.approvals() == [question.approval]


# ── 26 ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_26_time_that_runs_out_never_allows(ledger: Driver, clock: FakeClock) -> None:
    """A timeout that allows (AGT)."""
    question = asked(ledger)
    handler = Count()
    with pytest.raises(ApprovalPending):
        ledger.run(charge(), handler, approval="required", wait=0.02)
    clock.advance(DEFAULT_EXPIRY)
    ledger.ledger._approving.attend(question.approval)
    assert ledger.get_approval(question.approval.id).status == "expired"
    assert ledger.get_effect(question.effect.id).status == "requires_approval"
    for words in ({}, {"approval": "required"}, {"approval": "none"}):
        never_runs(ledger, charge(), **words)
        clock.advance(DEFAULT_EXPIRY)
        ledger.ledger._approving.attend(ledger.approvals()[0])
        assert ledger.approvals()[0].status == "expired"
    assert handler.entries == 0


def test_26_a_clock_that_jumps_back_does_not_revive_what_expired(ledger: Driver, clock: FakeClock) -> None:
    """A timeout that allows (AGT): not when the clock is set back either."""
    question = asked(ledger)
    approve(ledger, question)
    clock.advance(DEFAULT_EXPIRY)
    never_runs(ledger, charge(), approval="required")
    clock.advance(-DEFAULT_EXPIRY)
    told = never_runs(ledger, charge(), approval="required")
    assert isinstance(told, ApprovalPending)
    assert told.approval.id != question.approval.id


@pytest.mark.parametrize("after", ["allow", "ask", None])
def test_26_a_rule_that_changes_its_mind_does_not_overrule_a_no(shell: Shell, after: str | None) -> None:
    """A predicate re-evaluated on resume overrides a human "no" (LangChain)."""
    mood: list[Any] = ["ask"]

    @rule("moody", version="1")
    def moody(asked: Any) -> Any:
        return mood[0]

    ledger = shell.open(policy=Policy.of(moody))
    question = ledger.begin(charge()).approval
    ledger.deny(question.id, by="ada", reason="no")
    mood[0] = after
    for each in (ledger, shell.open(), shell.open(policy=saying("allow"))):
        assert isinstance(never_runs(each, charge()), EffectDenied)


@pytest.mark.parametrize("after", ["allow", None])
def test_26_a_rule_that_changes_its_mind_does_not_answer_for_the_person(shell: Shell, after: str | None) -> None:
    """A predicate re-evaluated on resume overrides a human (LangChain): here before they have answered."""
    mood: list[Any] = ["ask"]

    @rule("moody", version="1")
    def moody(asked: Any) -> Any:
        return mood[0]

    ledger = shell.open(policy=Policy.of(moody))
    question = ledger.begin(charge()).approval
    mood[0] = after
    assert isinstance(never_runs(ledger, charge()), ApprovalPending)
    approve(ledger, question)
    assert ledger.run(charge(), Count("ran")) == "ran"


# ── 27 ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


class Counted:
    """Counts what a ledger asks of its store, and for how many effects it watches each time."""

    def __init__(self, store: Any) -> None:
        self.calls: Counter[str] = Counter()
        self.watched: set[int] = set()
        for name in ("apply", "look", "watch", "effects", "sheets", "get_effect", "events", "abandoned"):
            setattr(store, name, self._counting(name, getattr(store, name)))

    def _counting(self, name: str, verb: Any) -> Any:
        def counted(*args: Any, **words: Any) -> Any:
            self.calls[name] += 1
            if name == "watch":
                self.watched.add(len(args[0]))
            return verb(*args, **words)

        return counted


def test_27_a_hundred_who_wait_ask_the_store_nothing_while_nothing_happens(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hundred waiting approvals cost about 99 queries a second (agent-ledger)."""
    monkeypatch.setattr("indelible.engine.waiting.LOOK_AT_LEAST_EVERY", timedelta(milliseconds=20))
    monkeypatch.setattr("indelible.engine.waiting.LOOK_LESS_OFTEN_BY", timedelta(0))
    ledger = shell.open(seal=False)  # signing the hundred questions is no part of waiting
    handler = Count("ran")
    waiters = [
        ledger.spawn("run", charge(run_id=f"order-{n}"), handler, approval="required", wait=PATIENCE * 5)
        for n in range(100)
    ]
    somebody_waits(ledger, 100)
    eventually(lambda: not ledger.engine.waiting._unseen)  # each was looked at once, for it may have moved before
    counted = Counted(ledger.engine.store)
    eventually(lambda: counted.calls["watch"] >= 2)
    counted.watched.clear()
    eventually(lambda: counted.calls["watch"] >= 7)
    assert counted.watched == {100}, "one look for everybody"
    # On one of the stores a watch is a look.
    assert set(counted.calls) <= {"watch", "look"}, "and nothing else"
    assert counted.calls["look"] <= counted.calls["watch"] + 1, "one may have been under way"
    deny_all(shell.open(), waiters)
    assert handler.entries == 0


def never_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """Switches off every look that is not for news."""
    for name in ("LOOK_AT_LEAST_EVERY", "LOOK_EVERY_CHEAPLY", "LOOK_EVERY_REMOTELY"):
        monkeypatch.setattr(f"indelible.engine.waiting.{name}", timedelta(hours=1))


def deny_all(other: Driver, waiters: list[Any]) -> None:
    for question in other.approvals(limit=200):
        other.deny(question.id, by="ada", reason="no")
    for waiter in waiters:
        with pytest.raises(EffectDenied):
            waiter.result(PATIENCE)


def test_27_whoever_waits_is_woken_and_does_not_look(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting approvals are woken by polling, after 0.61 s in the mean (agent-ledger)."""
    never_look(monkeypatch)
    ledger, other = shell.open(), shell.open()
    for number in range(5):
        waiter = ledger.spawn(
            "run", charge(run_id=f"order-{number}"), Count("ran"), approval="required", wait=PATIENCE * 5
        )
        somebody_waits(ledger)
        eventually(lambda: not ledger.engine.waiting._unseen)
        approve(other, eventually(lambda: other.approvals(status="pending"))[0])
        assert waiter.result(PATIENCE) == "ran"


def test_27_a_decision_in_another_process_wakes_too(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting approvals are woken by polling (agent-ledger): here the decision comes from another process."""
    never_look(monkeypatch)
    ledger = shell.open()
    person = Child(vote_on_word, shell.url, shell.tenant, "ada")
    assert person.hear(PATIENCE) == "ready"
    waiter = ledger.spawn("run", charge(), Count("ran"), approval="required", wait=PATIENCE * 5)
    somebody_waits(ledger)
    eventually(lambda: not ledger.engine.waiting._unseen)
    (question,) = ledger.approvals()
    person.tell((question.id, question.digest))
    assert waiter.result(PATIENCE) == "ran"
    assert person.hear(PATIENCE) == "approved"
    person.tell(None)
    person.join()
    assert isinstance(ledger.begin(charge(run_id="order-2"), approval="required"), AwaitingApproval)
