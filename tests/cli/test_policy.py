"""`indelible policy`: lint, explain, test, apply, show."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from indelible import Ledger
from indelible.cli.policy.words import exact_json
from indelible.errors import ApprovalPending, IndelibleError
from tests.cli.conftest import SLY, Cli, call

POLICY = """\
people:
  ana: {roles: [finance]}
  bob: {roles: [finance]}
approvals: {expires: 12h, notify: [slack]}
tools:
  stripe.refund: {side_effect: payment, fields: [charge, amount]}
  crm.lookup: {side_effect: read}
rules:
  - name: small refunds
    match: {tool: stripe.refund, args: {amount: {lte: 50.50}}}
    then: allow
    why: nobody minds these
  - name: big refunds
    match: {tool: stripe.*, args: {amount: {gt: 1000}}}
    then: ask
    approvals: {needs: [{role: finance, count: 2}]}
budgets:
  - {name: refunds a day, match: {tool: stripe.refund}, limit: 5000, window: 24h, sum: amount, per: [agent]}
"""


@pytest.fixture
def file(cli: Cli, tmp_path: Path) -> str:
    """A policy in a file."""
    (tmp_path / "policy.yaml").write_text(POLICY)
    return "policy.yaml"


def changed(text: str, was: str, now: str) -> str:
    assert was in text
    Path("changed.yaml").write_text(text.replace(was, now))
    return "changed.yaml"


# ── lint ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_lint_says_that_a_policy_can_be_used(cli: Cli, file: str) -> None:
    said = cli("policy", "lint", file).out
    assert said.startswith("This policy can be used: 2 rules, 1 budget, 0 warnings. Version ")
    told = cli("policy", "lint", file, "--json").json
    assert told["version"] in said
    assert (told["problems"], told["warnings"]) == ([], [])


def test_lint_lists_every_problem_with_its_line_and_exits_with_1(cli: Cli, file: str) -> None:
    wrong = changed(POLICY.replace("24h", "a day"), "then: ask", "than: ask")
    said = cli("policy", "lint", wrong, code=1).out.splitlines()
    assert said[0] == "changed.yaml:13:5: rules[1]: lacks the word then"
    assert said[1] == "changed.yaml:15:5: rules[1].than: is no word of a policy here; did you mean then?"
    assert said[-1] == "4 problems: this policy cannot be used."
    told = cli("policy", "lint", wrong, "--json", code=1).json
    assert told["version"] is None
    assert told["problems"][0] == {"place": ["rules", 1], "line": 13, "column": 5, "message": "lacks the word then"}


def test_lint_warns_and_only_strictly_fails(cli: Cli, file: str) -> None:
    odd = changed(POLICY, "count: 2", "count: 3")
    said = cli("policy", "lint", odd).out
    assert "warning: changed.yaml:13:5: rules[1]: can never be approved" in said
    assert "1 warning." in said
    assert cli("policy", "lint", odd, "--strict", code=1).out == said
    assert len(cli("policy", "lint", odd, "--json").json["warnings"]) == 1


def test_lint_names_no_line_where_the_form_has_none_and_shows_what_hides(cli: Cli, file: str) -> None:
    Path("policy.json").write_text(json.dumps({f"x{SLY}": 1}))
    said = cli("policy", "lint", "policy.json", code=1).out
    assert "policy.json: x" in said
    assert SLY not in said
    assert "202e" in said.lower()
    told = cli("policy", "lint", "policy.json", "--json", code=1).json
    assert told["problems"][0]["line"] is None


@pytest.mark.parametrize("words", [["none.yaml"], ["."], []])
def test_what_cannot_be_read_is_wrong_usage(cli: Cli, words: list[str]) -> None:
    cli("policy", "lint", *words, code=2)


def test_a_file_that_is_no_yaml_is_wrong_usage(cli: Cli, file: str) -> None:
    Path("broken.yaml").write_text("rules: [")
    assert "this is no YAML" in cli("policy", "lint", "broken.yaml", code=2).err
    assert cli("policy", "lint", "broken.yaml", "--json", code=2).error["type"] == "BadPolicy"


# ── explain ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_explain_tells_rule_by_rule(cli: Cli, file: str) -> None:
    said = cli("policy", "explain", file, "--tool", "stripe.refund", "--args", '{"amount": 5000}').out
    lines = [" ".join(line.split()) for line in said.splitlines()]
    assert lines[1] == "rule small refunds passes not so: args.amount lte 50.5"
    assert lines[2] == "rule big refunds decides ask: tool stripe.*; args.amount gt 1000"
    assert "verdict ask" in lines
    assert "needs 2 of role finance" in lines
    assert "who may ana, bob" in lines
    assert "told slack" in lines
    assert "side effect payment" in lines
    small = cli("policy", "explain", file, "--tool", "stripe.refund", "--args", '{"amount": 5}').out
    assert "nobody minds these" in small
    assert "takes" in small


def test_explain_speaks_to_programs(cli: Cli, file: str) -> None:
    words = ["--tool", "stripe.refund", "--args", '{"amount": 5000, "x": 1}', "--agent", "billing", "--json"]
    told = cli("policy", "explain", file, *words).json
    assert told["verdict"]["decision"] == "refuse"
    assert told["verdict"]["rule"] == "unknown fields"
    assert told["unknown_fields"] == ["x"]
    assert [look["outcome"] for look in told["looks"]] == ["passes", "decides", "refuses"]
    asking = cli("policy", "explain", file, "--tool", "stripe.refund", "--args", '{"amount": 2000}', "--json").json[
        "verdict"
    ]
    assert asking["question"]["needs"] == [{"count": 2, "role": "finance"}]
    assert asking["question"]["expires_seconds"] == 43_200
    assert asking["charges"][0]["amount"] == "2000"


def test_explain_takes_everything_that_rules_look_at(cli: Cli, file: str) -> None:
    rule = {"tool": "t", "agent": "a", "principal": "p", "run": "r", "tenant": "n", "environment": "e"}
    rule["side_effect"] = "write"
    Path("all.json").write_text(json.dumps({"rules": [{"name": "all", "match": rule, "then": "refuse"}]}))
    words = ["--tool", "t", "--agent", "a", "--principal", "p", "--run", "r", "--tenant", "n", "--environment", "e"]
    told = cli("policy", "explain", "all.json", *words, "--side-effect", "write", "--json").json
    assert told["verdict"]["rule"] == "all"
    limited = cli("policy", "explain", "all.json", *words, "--allowed-tool", "x.*", "--json").json
    assert limited["verdict"]["rule"] == "allowed tools of the run"
    anybody = cli("policy", "explain", "all.json", "--tool", "t", "--side-effect", "payment").out
    assert "anybody but the requester" in anybody
    assert "unknown tool" in anybody


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--tool", "x"], "name a FILE, or --stored"),
        (["FILE", "--stored", "--tool", "x"], "name a FILE, or --stored"),
        (["FILE"], "--tool"),
        (["FILE", "--tool", "x y"], "tool name"),
        (["FILE", "--tool", "x", "--args", "{"], "--args"),
        (["FILE", "--tool", "x", "--args", "[]"], "has to be an object"),
        (["FILE", "--tool", "x", "--args", '{"a": 1, "a": 2}'], "twice"),
        (["FILE", "--tool", "x", "--side-effect", "money"], "--side-effect"),
        (["--stored", "--tool", "x"], "there is no ledger"),
    ],
)
def test_explain_says_what_it_needs(cli: Cli, file: str, words: list[str], why: str) -> None:
    assert why in cli("policy", "explain", *(file if word == "FILE" else word for word in words), code=2).err


# ── apply and show ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_policy_is_put_in_force_for_every_process(cli: Cli, ledger_url: str, file: str) -> None:
    assert "indelible policy apply" in cli("policy", "show", code=2).err
    assert "indelible policy apply" in cli("policy", "explain", "--stored", "--tool", "x", code=2).err
    version = cli("policy", "lint", file, "--json").json["version"]
    said = cli("policy", "apply", file, "--by", "ana").out
    assert f"Policy {version} is in force for tenant default, the first one. Applied by ana." in said
    with Ledger.open(ledger_url) as ledger, pytest.raises(ApprovalPending):
        ledger.run(call("stripe.refund", charge="ch", amount=2000), lambda effect: None, wait=False)
    shown = cli("policy", "show").out
    assert shown.startswith(f"# version {version}, applied by ana at 2")
    Path("again.yaml").write_text(shown)
    assert cli("policy", "lint", "again.yaml", "--json").json["version"] == version
    told = cli("policy", "show", "--json").json
    assert (told["version"], told["by"]) == (version, "ana")
    assert told["content"]["rules"][0]["match"]["args"]["amount"]["lte"] == 50.5
    assert "policy_applied" in cli("events", "indelible:journal").out
    explained = cli(
        "policy", "explain", "--stored", "--tool", "stripe.refund", "--args", '{"amount": 5}', "--json"
    ).json
    assert explained["verdict"]["policy"] == version
    assert cli("policy", "show", "--tenant", "other", code=2).err


def test_applying_again_says_what_was_there_and_warns(cli: Cli, ledger_url: str, file: str) -> None:
    first = cli("policy", "apply", file, "--json").json
    assert (first["was"], first["warnings"]) == (None, [])
    assert "the same as before" in cli("policy", "apply", file).out
    odd = changed(POLICY, "count: 2", "count: 3")
    said = cli("policy", "apply", odd, "--reason", "more eyes").out
    assert f"instead of {first['version']}" in said
    assert "warning: rules[1]: can never be approved" in said


def test_a_policy_that_cannot_be_used_is_never_put_in_force(cli: Cli, ledger_url: str, file: str) -> None:
    before = cli("policy", "apply", file, "--json").json["version"]
    wrong = changed(POLICY, "then: ask", "then: aks")
    assert "changed.yaml:15:5: rules[1].then: has to be one of" in cli("policy", "apply", wrong, code=2).err
    assert cli("policy", "show", "--json").json["version"] == before


def test_what_is_shown_has_every_digit() -> None:
    from decimal import Decimal

    content = {"a": [Decimal("0.10000000000000000001"), 1, "é", None, True], "b": {}, "c": []}
    text = exact_json(content)
    assert "0.10000000000000000001" in text
    assert text.isascii()
    assert json.loads(text, parse_float=Decimal) == content


# ── test ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def recorded(ledger_url: str, file: str) -> str:
    """A ledger with calls that were made without a policy, and with one."""
    with Ledger.open(ledger_url, side_effect="payment") as ledger:
        for amount in (5, 500):
            ledger.run(call("stripe.refund", charge="ch", amount=amount), lambda effect: None)
        ledger.begin(call("stripe.refund", "order-2", charge="ch", amount=6), approval="required")
        ledger.run(call("shell.run", "order-2", command=SLY), lambda effect: None, side_effect="read")
    with Ledger.open(ledger_url, policy=file, side_effect="payment") as ledger:
        for amount in (7, 2000, "much", 4000):
            try:
                ledger.run(
                    call("stripe.refund", "order-3", charge="ch", amount=amount), lambda effect: None, wait=False
                )
            except IndelibleError:
                continue
    return ledger_url


def kinds(told: Any) -> dict[str, int]:
    return {f"{each['from']} {each['to']}": each["calls"] for each in told["changes_by_kind"]}


def test_replaying_the_record_shows_every_decision_that_would_change(cli: Cli, recorded: str, file: str) -> None:
    told = cli("policy", "test", file, "--json").json
    assert kinds(told) == {"allow ask": 1, "allow refuse": 1}
    assert (told["judged"], told["changed"], told["over_budget_then"], told["cannot_tell"]) == (7, 2, 1, 0)
    by_tool = {change["tool"]: change for change in told["changes"]}
    assert by_tool["shell.run"]["was"] == {"decision": "allow", "rule": "", "policy": ""}
    assert by_tool["shell.run"]["now"]["rule"] == "unknown tools"
    assert by_tool["stripe.refund"]["now"]["rule"] == "default for payment"
    said = cli("policy", "test", file).out
    assert "allow → refuse: 1 call" in said
    assert "2 decisions of 7 recorded calls since 2" in said
    assert "1 call went over a budget then; budgets are not replayed." in said
    assert SLY not in said


def test_a_looser_policy_shows_what_it_would_let_pass(cli: Cli, recorded: str, file: str) -> None:
    loose = changed(POLICY, "then: ask\n    approvals: {needs: [{role: finance, count: 2}]}", "then: allow")
    told = cli("policy", "test", loose, "--json").json
    assert kinds(told) == {"allow ask": 1, "allow refuse": 1, "ask allow": 1}
    Path("open.yaml").write_text("defaults: allow\n")
    assert kinds(cli("policy", "test", "open.yaml", "--json").json) == {"ask allow": 1, "refuse allow": 1}


def test_only_a_changed_decision_makes_it_fail_and_only_if_asked(cli: Cli, recorded: str, file: str) -> None:
    cli("policy", "test", file, "--fail-on-change", code=1)
    cli("policy", "test", file, "--fail-on-change", "--json", code=1)
    assert (
        "No decisions of 0 recorded calls"
        in cli("policy", "test", file, "--fail-on-change", "--since", "2999-01-01").out
    )
    assert cli("policy", "test", file, "--since", "0m", "--json").json["judged"] == 0
    assert cli("policy", "test", file, "--since", "2020-01-31T00:00:00+02:00", "--json").json["judged"] == 7


def test_many_changes_are_counted_and_a_few_are_shown(cli: Cli, recorded: str, file: str) -> None:
    said = cli("policy", "test", file, "--limit", "1").out
    assert "1 more are not shown; see them with --limit." in said
    told = cli("policy", "test", file, "--limit", "1", "--json").json
    assert (told["has_more"], len(told["changes"]), told["changed"]) == (True, 1, 2)


def test_what_was_erased_is_counted_as_one_nobody_can_tell_of(cli: Cli, recorded: str, file: str) -> None:
    cli("erase", "--yes", "--run", "order-1", "--reason", "asked")
    told = cli("policy", "test", file, "--json").json
    assert (told["judged"], told["cannot_tell"]) == (5, 2)
    assert "Of 2 more calls nobody can tell" in cli("policy", "test", file).out


def test_a_refusal_at_the_claim_is_replayed_with_the_arguments_of_its_effect(
    cli: Cli, ledger_url: str, file: str
) -> None:
    waiting = call("stripe.refund", charge="ch", amount=2000)
    with Ledger.open(ledger_url, policy=file) as ledger, pytest.raises(ApprovalPending):
        ledger.run(waiting, lambda effect: None, wait=False)
    with Ledger.open(ledger_url, policy={"defaults": "refuse"}) as ledger, pytest.raises(IndelibleError):
        ledger.run(waiting, lambda effect: None, wait=False)
    told = cli("policy", "test", file, "--json").json
    assert (told["judged"], kinds(told)) == (2, {"refuse ask": 1})


def test_the_environment_is_assumed_as_told(cli: Cli, recorded: str, file: str) -> None:
    prod = changed(POLICY, "rules:\n", "rules:\n  - {name: not here, match: {environment: prod}, then: refuse}\n")
    assert kinds(cli("policy", "test", prod, "--json").json)["allow refuse"] == 1
    assert kinds(cli("policy", "test", prod, "--environment", "prod", "--json").json)["allow refuse"] == 4


def test_nothing_is_written_by_replaying(cli: Cli, recorded: str, file: str) -> None:
    before = cli("events", "order-1").out
    cli("policy", "test", file)
    assert cli("events", "order-1").out == before


def test_somebody_at_a_terminal_sees_how_far_it_is(
    cli: Cli, recorded: str, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from indelible.cli.policy import replay as policy_replay

    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(policy_replay.sys, "stderr", sys.stderr)
    with policy_replay._progress() as tick:
        tick(3)


def test_encrypted_calls_are_replayed_where_the_key_is(cli: Cli, ledger_url: str, file: str) -> None:
    with Ledger.open(ledger_url, encrypt=True) as ledger:
        ledger.run(call("shell.run", command="ls"), lambda effect: None, side_effect="read")
    told = cli("policy", "test", file, "--json").json
    assert (told["judged"], kinds(told)) == (1, {"allow refuse": 1})
