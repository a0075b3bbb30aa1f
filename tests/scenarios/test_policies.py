"""Policies: a ledger's own, the one kept in it, and both; whatever is wrong with one lets nothing run."""

from __future__ import annotations

from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from indelible import Actor, Claimed, Ledger, Policy, rule
from indelible.core.commands import Record
from indelible.core.effects.effect import SYSTEM
from indelible.core.events import facts_json
from indelible.core.journal.journal import JOURNAL_RUN
from indelible.core.sheets import Sheet, body_of
from indelible.core.values.canonical import decode
from indelible.errors import (
    ApprovalPending,
    ApprovalStale,
    BadCall,
    BadPolicy,
    BudgetExceeded,
    PolicyRefused,
    RecordForged,
)
from tests.chaos.procs import Child
from tests.scenarios.policies import asking, limiting, saying
from tests.scenarios.raw import execute
from tests.scenarios.shells import Count, Driver, Shell, approve, charge, somebody_waits, types_of
from tests.waiting import PATIENCE, eventually


def refused(ledger: Driver, **fields: Any) -> PolicyRefused:
    """Makes a call that the policy refuses, and gives the refusal."""
    handler = Count()
    with pytest.raises(PolicyRefused) as refusal:
        ledger.run(charge(**fields), handler)
    assert handler.entries == 0
    return refusal.value


def payloads(ledger: Driver, run_id: str, seq: int) -> dict[str, Any]:
    found = ledger.engine.store.payloads(ledger.tenant, run_id, [seq])
    return {payload.field: decode(payload.value) for payload in found if payload.field != "key"}


# ── the ledger's own ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_a_policy_refuses_does_not_run_and_is_on_the_record(shell: Shell) -> None:
    policy = Policy.of(saying("refuse", name="no charges"))
    ledger = shell.open(policy=policy)
    refusal = refused(ledger)
    assert (refusal.verdict.rule, refusal.verdict.policy, refusal.effect) == ("no charges", policy.version, None)
    assert "no charges" in str(refusal)
    assert ledger.effects() == []
    (event,) = ledger.events("order-1")
    told = event.read()
    assert (told["type"], told["actor"]["kind"]) == ("policy_checked", "agent")
    kept = payloads(ledger, "order-1", 0)
    assert kept["args"] == {"amount": 5}
    assert (kept["policy"]["decision"], kept["policy"]["rule"]) == ("refuse", "no charges")


def test_what_a_policy_allows_runs_and_the_record_says_by_which_rule(shell: Shell) -> None:
    policy = Policy.of(saying("allow", name="small ones", args={"amount": {"lte": 5}}))
    ledger = shell.open(policy=policy)
    assert ledger.run(charge(), Count("ran")) == "ran"
    assert payloads(ledger, "order-1", 0)["policy"] == {
        "decision": "allow",
        "policy": policy.version,
        "rule": "small ones",
        "why": "",
    }


def test_what_a_policy_asks_about_waits_for_a_person(shell: Shell) -> None:
    ledger = shell.open(policy=asking(quorum=2))
    with pytest.raises(ApprovalPending) as told:
        ledger.run(charge(), Count(), wait=False)
    assert told.value.approval.question.rule == "charges"
    for name in ("ana", "bob"):
        approve(ledger, told.value, by=name)
    assert ledger.run(charge(), Count("ran")) == "ran"
    assert ledger.run(charge(tool="other"), Count("free")) == "free"


def test_a_policy_may_come_from_a_file(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text("rules:\n  - name: none at all\n    match: {tool: charge}\n    then: refuse\n")
    for named in (file, str(file)):
        assert refused(shell.open(policy=named)).verdict.rule == "none at all"


def test_rules_in_python_see_the_arguments_and_who_asks(shell: Shell) -> None:
    seen: list[Any] = []

    @rule("small", tool="charge")
    def small(asked: Any) -> str | None:
        seen.append((asked.agent, asked.principal, asked.environment, asked.run_id, asked.args))
        return None if asked.args["amount"] < 10 else "refuse"

    ledger = shell.open(policy=Policy.of(small), actor="billing", principal="ana", environment="prod")
    assert ledger.run(charge(), Count("ran")) == "ran"
    refused(ledger, args={"amount": 10})
    assert seen[0] == ("billing", "ana", "prod", "order-1", {"amount": 5})


def test_a_rule_sees_what_is_not_recorded(shell: Shell) -> None:
    @rule("no test cards")
    def no_test_cards(asked: Any) -> str | None:
        return "refuse" if asked.args["card"] == "4111111111111111" else None

    ledger = shell.open(policy=Policy.of(no_test_cards), redact=["args.card"])
    refused(ledger, args={"card": "4111111111111111"})
    assert ledger.run(charge(args={"card": "5555555555554444"}), Count("ran")) == "ran"
    assert all("4111111111111111" not in str(payloads(ledger, "order-1", n)) for n in (0, 1))


def test_a_replay_is_not_judged_again(shell: Shell) -> None:
    assert shell.open().run(charge(), Count("before")) == "before"
    assert shell.open(policy=saying("refuse")).run(charge(), Count()) == "before"


def test_what_is_open_is_judged_again_before_it_is_claimed(shell: Shell) -> None:
    lax, strict = shell.open(policy=asking()), shell.open(policy=saying("refuse"))
    question = lax.begin(charge()).approval
    approve(lax, question, by="ana")
    handler = Count()
    with pytest.raises(PolicyRefused) as refusal:
        strict.run(charge(), handler)
    assert refusal.value.effect.id == question.effect_id
    assert handler.entries == 0
    assert types_of(lax)[-1] == "policy_checked"
    assert lax.run(charge(), Count("ran")) == "ran", "a refusal by one process takes nobody's approval away"


# ── the one that is kept in the ledger ───────────────────────────────────────────────────────────────────────────────


def test_a_policy_that_is_applied_holds_at_once_and_is_on_the_record(ledger: Driver) -> None:
    assert ledger.policy() is None
    version = ledger.apply_policy(saying("refuse"), by="ana", reason="audit")
    assert ledger.policy() == (saying("refuse"), version)
    assert refused(ledger).verdict.policy == version
    told = next(event.read() for event in ledger.events(JOURNAL_RUN) if event.type == "policy_applied")
    assert (told["type"], told["actor"]["id"], told["facts"]["version"]) == ("policy_applied", "ana", version)
    second = ledger.apply_policy(saying("allow"), by="bob")
    assert second != version
    assert ledger.run(charge(), Count("ran")) == "ran"


def test_a_policy_that_is_wrong_is_not_applied(ledger: Driver) -> None:
    with pytest.raises(BadPolicy) as problem:
        ledger.apply_policy({"ruels": []}, by="ana")
    assert any("ruels" in each for each in problem.value.problems)
    assert ledger.policy() is None
    assert ledger.run(charge(), Count("ran")) == "ran"


def test_an_agent_does_not_make_the_rules_it_is_under(ledger: Driver) -> None:
    ledger.apply_policy(saying("refuse"), by="ana")
    with pytest.raises(BadCall, match="agent"):
        ledger.apply_policy(saying("allow"), by=Actor("agent", "agent"))
    refused(ledger)


def test_tenants_have_policies_of_their_own(shell: Shell) -> None:
    mine, other = shell.open(), shell.open(tenant=f"{shell.tenant}-other")
    mine.apply_policy(saying("refuse"), by="ana")
    refused(mine)
    assert other.run(charge(), Count("ran")) == "ran"


def apply_elsewhere(line: Connection, url: str, tenant: str, content: dict[str, Any]) -> str:
    with Ledger.open(url, tenant=tenant) as ledger:
        return ledger.apply_policy(content, by="ana")


def test_a_policy_that_another_process_applies_takes_hold_here(ledger: Driver, shell: Shell) -> None:
    assert ledger.run(charge(args={"amount": 0}), Count("ran")) == "ran"
    version = Child(apply_elsewhere, shell.url, shell.tenant, saying("refuse")).result(PATIENCE)
    calls = iter(range(1, 1_000_000))

    def holds() -> Any:
        try:
            ledger.run(charge(args={"amount": next(calls)}), Count())
        except PolicyRefused as refusal:
            return refusal
        return None

    assert eventually(holds).verdict.policy == version


def test_a_waiting_call_is_stale_when_the_policy_has_changed(ledger: Driver) -> None:
    handler = Count()
    waiter = ledger.spawn("run", charge(), handler, approval="required", wait=PATIENCE)
    somebody_waits(ledger)
    (question,) = ledger.approvals()
    version = ledger.apply_policy(asking(), by="ana")
    approve(ledger, question)
    with pytest.raises(ApprovalStale, match="policy"):
        waiter.result(PATIENCE)
    assert handler.entries == 0
    with pytest.raises(ApprovalPending) as told:
        ledger.run(charge(), handler, approval="required", wait=False)
    changed = ledger.view_approval(told.value.approval.id).changed
    assert [(each.path, each.before, each.after) for each in changed] == [("policy", "", version)]
    approve(ledger, told.value, by="bob")
    assert ledger.run(charge(), Count("ran"), approval="required") == "ran"


def test_any_change_of_the_policy_makes_what_was_approved_stale(ledger: Driver) -> None:
    """Also one that seems to have nothing to do with the call: nobody can tell what it meant."""
    before, after = asking(), asking()
    after["rules"].append({"name": "unrelated", "match": {"tool": "mail.*"}, "then": "refuse"})
    ledger.apply_policy(before, by="ana")
    question = ledger.begin(charge()).approval
    approve(ledger, question, by="bob")
    ledger.apply_policy(after, by="ana")
    handler = Count()
    with pytest.raises(ApprovalPending):
        ledger.run(charge(), handler, wait=False)
    assert (handler.entries, ledger.get_approval(question.id).status) == (0, "stale")


# ── both ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

DECISIONS = ("allow", "ask", "refuse")


@pytest.mark.parametrize("own", DECISIONS)
@pytest.mark.parametrize("stored", DECISIONS)
def test_of_two_policies_the_stricter_holds(shell: Shell, own: str, stored: str) -> None:
    ledger = shell.open(policy=saying(own, name="own"))
    ledger.apply_policy(saying(stored, name="stored"), by="ana")
    handler = Count("ran")
    expected = max(own, stored, key=DECISIONS.index)
    if expected == "allow":
        assert ledger.run(charge(), handler) == "ran"
        return
    with pytest.raises(PolicyRefused if expected == "refuse" else ApprovalPending):
        ledger.run(charge(), handler, wait=False)
    assert handler.entries == 0


def test_of_two_policies_that_ask_both_have_to_be_content(shell: Shell) -> None:
    ledger = shell.open(policy=asking(quorum=2))
    ledger.apply_policy(asking(needs=[{"role": "legal"}], expires="1h"), by="ana")
    question = ledger.begin(charge()).approval
    for name in ("ana", "dan"):
        assert approve(ledger, question, by=name).status == "pending", "two have agreed, and none of them for legal"
    assert approve(ledger, question, by="cleo").status == "approved"
    assert ledger.run(charge(), Count("ran")) == "ran"


# ── whatever is wrong with a policy ──────────────────────────────────────────────────────────────────────────────────


def keep_policy(ledger: Driver, version: int, content: Any) -> None:
    """Writes a policy as another version of the program might, past the check of this one."""
    body = body_of(content)
    sheet = Sheet(kind="policy", id="current", version=version, status="active", body=body)
    command = Record(
        tenant=ledger.tenant,
        run_id=JOURNAL_RUN,
        stamp=ledger.engine.mint.stamp(SYSTEM),
        event_type="policy_applied",
        facts=facts_json({"id": "current", "version": "?"}),
        sheet=sheet,
    )
    ledger.engine.write_alone(command)
    ledger.engine.judging.forget()


@pytest.mark.parametrize(
    "content",
    [
        {"content": {"rules_of_tomorrow": []}, "version": "1"},
        {"content": None, "version": "1"},
        {"content": [], "version": "1"},
        {"version": "1"},
        {},
    ],
    ids=["unknown words", "null", "a list", "nothing", "empty"],
)
def test_a_stored_policy_that_cannot_be_read_lets_nothing_run(ledger: Driver, content: Any) -> None:
    keep_policy(ledger, 1, content)
    assert "cannot be read" in refused(ledger).verdict.rule
    refused(ledger, tool="anything", args={})
    ledger.apply_policy(saying("allow"), by="ana")
    assert ledger.run(charge(), Count("mended")) == "mended"


def test_a_stored_policy_whose_content_is_gone_lets_nothing_run(ledger: Driver, shell: Shell) -> None:
    ledger.apply_policy(saying("allow"), by="ana")
    execute(ledger.url, "DELETE FROM indelible_payloads WHERE tenant = ? AND field = 'policy'", ledger.tenant)
    handler = Count()
    # Whether it is the policy that is missed, or the record of rights, depends on what was sealed by then.
    with pytest.raises((PolicyRefused, RecordForged)):
        shell.open().run(charge(), handler)
    assert handler.entries == 0


def test_a_stored_policy_that_vanishes_lets_nothing_run(ledger: Driver) -> None:
    ledger.apply_policy(saying("refuse"), by="ana")
    refused(ledger)
    execute(ledger.url, "DELETE FROM indelible_sheets WHERE tenant = ? AND kind = 'policy'", ledger.tenant)
    ledger.engine.judging.forget()
    assert "gone" in refused(ledger).verdict.why


@pytest.mark.parametrize(
    "policy",
    [
        {"ruels": []},
        {"rules": [{"name": "a", "then": "alow"}]},
        {"rules": [{"name": "a", "match": {"tols": "x"}, "then": "refuse"}]},
        "no/such/policy.yaml",
    ],
)
def test_a_ledger_is_not_opened_with_a_policy_that_cannot_be_used(shell: Shell, policy: Any) -> None:
    with pytest.raises((BadPolicy, OSError)):
        shell.open(policy=policy)


def test_a_rule_that_raises_refuses(shell: Shell) -> None:
    @rule("buggy")
    def buggy(asked: Any) -> str:
        return "allow" if asked.args["amont"] < 10 else "ask"

    refusal = refused(shell.open(policy=Policy.of(buggy)))
    assert (refusal.verdict.rule, "KeyError" in refusal.verdict.why) == ("buggy", True)


# ── refused by a budget ──────────────────────────────────────────────────────────────────────────────────────────────


def test_a_call_over_budget_is_refused_and_on_the_record(shell: Shell) -> None:
    ledger = shell.open(policy=limiting(4))
    handler = Count()
    with pytest.raises(BudgetExceeded, match="allows 4") as refusal:
        ledger.run(charge(), handler)
    assert (refusal.value.charge.amount, handler.entries) == (5, 0)
    assert types_of(ledger) == ["policy_checked"]
    assert payloads(ledger, "order-1", 0)["policy"]["decision"] == "refuse"
    assert isinstance(ledger.begin(charge(args={"amount": 4})), Claimed)
