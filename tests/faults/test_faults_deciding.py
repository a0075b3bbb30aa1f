"""Faults that other systems have in who decides, and until when, on every store through both shells."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from multiprocessing.connection import Connection
from typing import Any

import pytest

from indelible import Actor, AsyncLedger, Claimed, Ledger, Policy, rule
from indelible.core.approvals.approval import DEFAULT_EXPIRY
from indelible.errors import ApprovalPending, BadPolicy, EffectDenied, RecordForged, VoteRefused
from indelible.testing.clock import FakeClock
from tests.chaos.procs import Child
from tests.faults.permitting import never_runs, vote_on_word
from tests.scenarios.policies import PEOPLE, asking, saying
from tests.scenarios.raw import execute
from tests.scenarios.shells import Count, Driver, Shell, approve, asked, charge
from tests.waiting import PATIENCE

# ── 21 ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_21_an_agent_cannot_use_what_the_refusal_gave_it(ledger: Driver) -> None:
    """The proposal's answer carries what it takes to approve it (zehrava)."""
    told = never_runs(ledger, charge(), approval="required")
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


def test_21_one_address_under_two_spellings_of_its_domain_is_no_quorum(shell: Shell) -> None:
    """Names of reviewers that are not unique count as a quorum (zehrava): DNS writes a domain in another way."""
    ledger = shell.open(policy=asking(quorum=2) | {"people": {"ana@bücher.example": {}, "bob": {}}})
    question = ledger.begin(charge()).approval
    approve(ledger, question, by="ana@xn--bcher-kva.example")
    for name in ("ana@bücher.example", "Ana@BÜCHER.example", "ana@bücher。example", "ana＠ｂücher.example"):
        with pytest.raises(VoteRefused) as refusal:
            approve(ledger, question, by=name)
        assert refusal.value.code == "voted_already", name
    never_runs(ledger, charge())
    approve(ledger, question, by="bob")


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


@pytest.mark.usefixtures("without_writer_keys")
def test_22_an_edited_store_does_not_beat_the_quorum(shell: Shell) -> None:
    """Editing the store beats the quorum (locus)."""
    ledgers = [shell.open(policy=asking(quorum=2)) for _ in range(2)]
    for names in FORGED:
        call = charge(run_id=f"by {names}")
        forge_votes(ledgers[0], ledgers[0].begin(call).approval.id, [vote_by(name) for name in names])
        for each in ledgers:
            never_runs(each, call)


@pytest.mark.usefixtures("without_writer_keys")
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
    with pytest.raises(RecordForged):
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
    assert told.approval.id != question.approval.id


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
        never_runs(each, charge(), EffectDenied)


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
    never_runs(ledger, charge())
    approve(ledger, question)
    assert ledger.run(charge(), Count("ran")) == "ran"
