"""`indelible approvals list` and `show`: whoever decides sees everything, and what they see is what runs."""

from __future__ import annotations

import getpass
import json
import re
import shlex
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from indelible import Approval, Ledger
from indelible.errors import ApprovalPending
from tests.cli.asking import SOON, TWO, approval_at, approve, ask, await_end, call_again, refund
from tests.cli.conftest import SLY, Cli, call
from tests.cli.test_events import change


@pytest.fixture
def asked(ledger_url: str) -> Approval:
    """One approval that anybody may decide."""
    return ask(ledger_url)


# ── list ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_list_shows_what_waits_and_says_what_was_filtered(cli: Cli, asked: Approval, ledger_url: str) -> None:
    said = cli("approvals", "list").out
    assert re.search(r"^id +status +tool +run +asked by +approved +age +expires$", said, re.MULTILINE)
    assert re.search(rf"^{asked.id} +pending +stripe.refund +order-1 +agent +0 of 1 +\d+s +in 23h$", said, re.MULTILINE)
    assert "Shown: the only approval. Filter: status pending. Tenant: default." in said
    assert f"indelible approvals show {asked.id}" in said
    approve(ledger_url, asked)
    assert "Nothing waits for a decision." in cli("approvals", "list").out
    said = cli("approvals", "list", "--status", "all", "--tool", "stripe.refund", "--run", "order-1").out
    assert "the only approval. Filter: tool stripe.refund, run order-1." in said
    assert "approved" in said


def test_filters_hold_together(cli: Cli, asked: Approval, ledger_url: str) -> None:
    other = ask(ledger_url, call("mail.send", "order-2", to="ada"))
    listed = cli("approvals", "list", "--json").json
    assert [one["id"] for one in listed["approvals"]] == [other.id, asked.id]
    for words, found in (
        (["--tool", "mail.send"], [other.id]),
        (["--run", "order-1"], [asked.id]),
        (["--tool", "mail.send", "--run", "order-1"], []),
        (["--status", "denied"], []),
    ):
        listed = cli("approvals", "list", "--json", *words).json
        assert [one["id"] for one in listed["approvals"]] == found
    assert "Shown: 0 approvals. Filter: status denied." in cli("approvals", "list", "--status", "denied").out


def test_a_list_goes_on_where_the_last_one_ended(cli: Cli, ledger_url: str) -> None:
    ids = [ask(ledger_url, refund(charge=f"ch_{number}")).id for number in range(3)]
    page = cli("approvals", "list", "--limit", "2", "--json").json
    assert ([one["id"] for one in page["approvals"]], page["has_more"]) == ([ids[2], ids[1]], True)
    assert f"--before {ids[1]}" in cli("approvals", "list", "--limit", "2").out
    page = cli("approvals", "list", "--limit", "2", "--before", ids[1], "--json").json
    assert ([one["id"] for one in page["approvals"]], page["has_more"]) == ([ids[0]], False)


def test_an_empty_ledger_says_how_to_ask(cli: Cli, ledger_url: str) -> None:
    assert 'approval="required"' in cli("approvals", "list", "--status", "all").out


def test_another_tenant_sees_nothing(cli: Cli, asked: Approval) -> None:
    assert cli("approvals", "list", "--tenant", "other", "--json").json["approvals"] == []
    cli("approvals", "show", asked.id, "--tenant", "other", code=2)


def test_an_approval_whose_time_ran_out_is_not_called_pending(cli: Cli, ledger_url: str) -> None:
    late = ask(ledger_url, policy=SOON)
    await_end(ledger_url, late)
    said = cli("approvals", "list").out
    assert re.search(rf"{late.id} +too late .* ago$", said, re.MULTILINE)
    page = cli("approvals", "show", late.id).out
    assert "too late" in page.splitlines()[0]
    assert "Nothing can be decided any more" in page
    assert "approvals approve" not in page


# ── which one ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_approval_is_found_by_its_id_the_beginning_of_it_and_its_effect(cli: Cli, asked: Approval) -> None:
    for name in (asked.id, asked.id[:14], asked.effect_id, asked.effect_id[:20]):
        assert cli("approvals", "show", name, "--json").json["approval"]["id"] == asked.id


@pytest.mark.parametrize("name", ["", " ", "apr_", "apr_nope", "apr_ffffffffffff", "nope", "eff_nope", "a\0b"])
def test_a_name_that_fits_none_or_many_changes_nothing(cli: Cli, asked: Approval, ledger_url: str, name: str) -> None:
    ask(ledger_url, refund(charge="ch_2"))
    said = cli("approvals", "deny", name, "-m", "no", code=2)
    assert said.out == ""
    assert said.err.startswith("indelible: ")
    assert len(cli("approvals", "list", "--json").json["approvals"]) == 2


def test_an_effect_that_nobody_was_asked_about_is_told(cli: Cli, ids: dict[str, str]) -> None:
    assert "nobody was asked about" in cli("approvals", "show", ids["crm.lookup"], code=2).err


# ── show ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_show_has_everything_one_decides_on(cli: Cli, ledger_url: str) -> None:
    approval = ask(ledger_url, policy=TWO, actor="billing", principal="dora")
    said = cli("approvals", "show", approval.id).out
    for words in (
        f"{approval.id}  stripe.refund  pending",
        "billing (agent), for dora",
        "order-1",
        "payment",
        f"{approval.effect_id} (requires_approval)",
        "refunds",
        "money leaves the house",
        approval.policy,
        approval.digest,
        "1 of role finance and 1 of role legal; approved: 0 of 2",
        "ana (finance), bob (legal), cy (finance, legal)",
        '"amount": 4200',
        "none yet",
        "approval_requested",
    ):
        assert words in said, words


def test_anybody_but_the_requester_may_decide_where_nobody_is_named(cli: Cli, ledger_url: str) -> None:
    approval = ask(ledger_url, actor="billing", principal="dora")
    assert "anybody but billing and dora" in cli("approvals", "show", approval.id).out


def test_that_somebody_looked_goes_on_the_record(cli: Cli, asked: Approval) -> None:
    said = cli("approvals", "show", asked.id).out
    assert re.search(rf"approval_viewed +{getpass.getuser()} \(person\)", said)
    events = cli("approvals", "show", asked.id, "--by", "ana", "--json").json["events"]
    assert [event["actor"]["id"] for event in events if event["type"] == "approval_viewed"][-1] == "ana"


def test_the_printed_command_approves_exactly_what_was_shown(cli: Cli, asked: Approval, ledger_url: str) -> None:
    said = cli("--url", ledger_url, "approvals", "show", asked.id, "--by", "ana").out
    command = re.search(r"indelible (approvals approve .*)", said)
    assert command is not None
    assert "--by ana" in command[1]
    assert "pending → approved, by ana" in cli(*shlex.split(command[1])).out
    assert call_again(ledger_url) == {"refunded": 4200}
    consumed = cli("approvals", "show", asked.id).out
    assert "consumed" in consumed.splitlines()[0]
    assert "\nnext\n" not in consumed


def test_a_question_that_is_over_leads_to_the_new_one(cli: Cli, asked: Approval, ledger_url: str) -> None:
    newer = ask(ledger_url, refund(amount=9900))
    said = cli("approvals", "show", asked.id).out
    assert "stale" in said.splitlines()[0]
    assert f"indelible approvals show {newer.id}" in said
    assert '"amount": 4200' in said  # what that one was about
    said = cli("approvals", "show", newer.id).out
    assert f"changed since the last question ({asked.id})\n  args.amount: 4200 → 9900\n" in said
    shown = cli("approvals", "show", newer.id, "--json").json
    assert shown["changed"] == [{"path": "args.amount", "before": 4200, "after": 9900}]


def test_show_compares_with_the_last_approved_call_of_the_tool(cli: Cli, asked: Approval, ledger_url: str) -> None:
    approve(ledger_url, asked)
    call_again(ledger_url)
    other = ask(ledger_url, refund("order-2", charge="ch_2", note=None))
    said = cli("approvals", "show", other.id).out
    assert "unlike the last approved call of this tool\n" in said
    assert '  args.charge: "ch_1" → "ch_2"\n  args.note: (not there) → null\n' in said
    assert cli("approvals", "show", other.id, "--json").json["unusual"] == [
        {"path": "args.charge", "before": "ch_1", "after": "ch_2"},
        {"path": "args.note", "after": None},
    ]
    same = ask(ledger_url, refund("order-3"))
    assert "nothing: it is the same" in cli("approvals", "show", same.id).out


def test_what_hides_or_looks_like_something_else_is_named(cli: Cli, ledger_url: str) -> None:
    sly = {"to": SLY, "domain": "pаypal.com", "аmount": 1}  # the a of paypal and of amount is Cyrillic
    approval = ask(ledger_url, refund(f"run {SLY}", **sly), actor=f"agent {SLY}")
    said = cli("approvals", "show", approval.id).out
    assert not set(said) & set("\u202e\x1b\u200b\U000e0041")
    assert r'"Ada \u202eadA \u001b[31m\u200b\udb40\udc41"' in said
    assert "run Ada ⟨U+202E⟩adA ⟨U+001B⟩[31m⟨U+200B⟩⟨U+E0041⟩" in said
    assert "args.to: holds what cannot be seen: U+202E RIGHT-TO-LEFT OVERRIDE" in said
    assert "args.domain: mixes Cyrillic and Latin letters in one word: U+0430 CYRILLIC SMALL LETTER A" in said
    assert "its name mixes Cyrillic and Latin letters" in said
    listed = cli("approvals", "list").out
    assert not set(listed) & set("\u202e\x1b\u200b\U000e0041")
    shown = cli("approvals", "show", approval.id, "--json")
    assert shown.out.isascii()
    assert shown.json["args"]["to"] == SLY
    assert {one["path"] for one in shown.json["look_closely"]} == {"args.to", "args.domain", "args.аmount"}


def test_large_arguments_are_shown_whole(cli: Cli, ledger_url: str) -> None:
    lines = [f"line {number}" for number in range(20_000)]
    approval = ask(ledger_url, refund(lines=lines, text="x" * 100_000))
    said = cli("approvals", "show", approval.id).out
    assert '"' + "x" * 100_000 + '"' in said
    assert all(f'"{line}"' in said for line in (lines[0], lines[9_999], lines[-1]))


@pytest.mark.usefixtures("without_writer_keys")
def test_what_was_altered_cannot_be_approved_from_the_page(cli: Cli, asked: Approval, ledger_url: str) -> None:
    edit = "UPDATE indelible_payloads SET value = {} WHERE field = 'args'"
    other = b'{"amount":1,"charge":"ch_1"}'
    change(ledger_url, edit.format(f"X'{other.hex()}'" if "sqlite" in ledger_url else f"'\\x{other.hex()}'::bytea"))
    said = cli("approvals", "show", asked.id, code=1)
    assert "is not what was asked about. Deny it" in said.err
    assert "approvals approve" not in said.out
    assert "is not what was asked about" in cli("approvals", "show", asked.id, "--json", code=1).error["message"]


def test_show_for_programs_is_complete(cli: Cli, ledger_url: str) -> None:
    approval = ask(ledger_url, policy=TWO)
    approve(ledger_url, approval)
    shown = cli("approvals", "show", approval.id, "--json").json
    told = shown["approval"]
    assert (told["status"], told["lacking"], told["rule"]) == ("pending", 1, "refunds")
    assert told["needs"] == [{"count": 1, "role": "finance"}, {"count": 1, "role": "legal"}]
    assert told["people"]["cy"] == ["finance", "legal"]
    assert [(vote["by"], vote["is_approval"]) for vote in told["votes"]] == [("ana", True)]
    assert shown["args"] == {"amount": 4200, "charge": "ch_1"}
    assert shown["is_bound"] is True
    assert json.dumps(shown).isascii()


def test_votes_are_shown_with_their_reasons(cli: Cli, ledger_url: str) -> None:
    approval = ask(ledger_url, policy=TWO)
    cli("approvals", "approve", approval.id, "--digest", approval.digest, "--by", "ana", "-m", "the books agree")
    said = cli("approvals", "show", approval.id).out
    assert re.search(r"votes\n  ana approved, .* \(process\)", said)
    assert re.search(r'approval_voted +ana \(person\): "the books agree"', said)
    assert "approved: 1 of 2" in said
    assert "1 more approval is needed" in said


@pytest.mark.usefixtures("own_keys")
def test_encrypted_arguments_are_shown_in_clear_and_are_bound(
    cli: Cli, ledger_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INDELIBLE_KEYS", str(tmp_path / "keys"))
    approval = ask(ledger_url, encrypt=True)
    shown = cli("approvals", "show", approval.id, "--json").json
    assert (shown["args"], shown["is_bound"]) == ({"amount": 4200, "charge": "ch_1"}, True)
    said = cli("approvals", "show", approval.id).out
    command = re.search(r"indelible (approvals approve .*)", said)
    assert command is not None
    cli(*shlex.split(command[1]))
    with Ledger.open(ledger_url, encrypt=True) as ledger:
        value = ledger.run(refund(), lambda effect: effect.args["amount"], approval="required", wait=False)
    assert value == 4200


# ── effects show ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_effect_shows_by_what_leave_it_runs(cli: Cli, ledger_url: str) -> None:
    budgets = [{"name": "refunds a day", "limit": 10_000, "window": "24h", "sum": "amount"}]
    approval = ask(ledger_url, policy=TWO | {"budgets": budgets})
    said = cli("effects", "show", approval.effect_id).out
    assert "verdict      ask, by the rule refunds: money leaves the house" in said
    assert f"policy       {approval.policy}" in said
    assert f"approval     {approval.id}, pending: 0 of 2, expires in 23h" in said
    assert re.search(r"reserved     4200 of .*refunds a day.* \(10000 in any 1 day, 0:00:00\)", said)
    assert f"indelible approvals show {approval.id}" in said
    shown = cli("effects", "show", approval.effect_id, "--json").json["effect"]
    assert (shown["approval_id"], shown["approval_status"]) == (approval.id, "pending")
    assert shown["verdict"]["rule"] == "refunds"
    assert [(charge["amount"], charge["limit"]) for charge in shown["reserved"]] == [("4200", "10000")]


def test_an_effect_that_was_edited_shows_its_whole_history(cli: Cli, asked: Approval, ledger_url: str) -> None:
    with Ledger.open(ledger_url) as ledger:
        edited = ledger.edit_approval(asked.id, {"charge": "ch_1", "amount": 5}, digest=asked.digest, by="ana")
    said = cli("effects", "show", asked.effect_id).out
    assert re.search(r"0 +\S+ \S+ +approval_requested", said)
    assert "approval_edited" in said
    assert '"amount": 5' in said
    assert '0  args: {"amount":4200,"charge":"ch_1"}' in said
    page = cli("approvals", "show", edited.id).out
    assert "edited by ana\n  args.amount: 4200 → 5\n" in page


def test_effects_without_a_policy_say_nothing_of_one(cli: Cli, ids: dict[str, str]) -> None:
    said = cli("effects", "show", ids["crm.lookup"]).out
    assert not re.search(r"^  (verdict|policy|approval|reserved)", said, re.MULTILINE)


def test_approvals_are_refused_while_they_wait(ledger_url: str, asked: Approval) -> None:
    """The fixture is what the tests above take it for: nothing has run."""
    with pytest.raises(ApprovalPending):
        call_again(ledger_url)
    assert approval_at(ledger_url, asked).status == "pending"
    assert asked.expires_at - datetime.now(UTC) > timedelta(hours=23)
