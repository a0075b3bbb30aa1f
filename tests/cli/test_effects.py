"""`indelible effects`: whoever looks sees everything, and whoever decides leaves a name."""

from __future__ import annotations

import getpass
import json
import re
import shlex
from datetime import timedelta

import pytest

from indelible import Claimed, Effect, Ledger
from tests.cli.conftest import SLY, Cli, call


def effect_at(url: str, effect_id: str) -> Effect:
    with Ledger.open(url) as ledger:
        effect = ledger.get_effect(effect_id)
    assert effect is not None
    return effect


def test_a_list_says_what_was_filtered_and_how_many_are_shown(cli: Cli, ids: dict[str, str]) -> None:
    everything = cli("effects", "list").out
    assert "all 5 effects. Filter: none. Tenant: default." in everything
    assert re.search(r"^id +status +tool +side effect +run +attempt +age$", everything, re.MULTILINE)
    assert all(effect_id in everything for effect_id in ids.values())
    some = cli("effects", "list", "--status", "in_doubt", "--tool", "stripe.refund", "--run", "order-1").out
    assert "the only effect. Filter: status in_doubt, tool stripe.refund, run order-1." in some
    assert [effect_id for effect_id in ids.values() if effect_id in some] == [ids["stripe.refund"]]


def test_a_list_goes_on_where_the_last_one_ended(cli: Cli, ids: dict[str, str]) -> None:
    seen: list[str] = []
    page = cli("effects", "list", "--limit", "2", "--json").json
    assert (page["shown"], page["has_more"]) == (2, True)
    while True:
        seen += [effect["id"] for effect in page["effects"]]
        if not page["has_more"]:
            break
        page = cli("effects", "list", "--limit", "2", "--before", seen[-1], "--json").json
    assert seen == sorted(ids.values(), reverse=True)
    assert f"--before {seen[1]}" in cli("effects", "list", "--limit", "2").out


def test_a_page_before_an_unknown_effect_is_refused(cli: Cli, ids: dict[str, str]) -> None:
    assert "no effect of tenant" in cli("effects", "list", "--before", "eff_nope", code=2).err


def test_an_empty_ledger_says_how_to_make_an_effect(cli: Cli, ledger_url: str) -> None:
    said = cli("effects", "list").out
    assert "@ledger.tool" in said
    assert "Shown: 0 effects. Filter: none." in said


def test_a_filter_that_finds_nothing_is_named(cli: Cli, ids: dict[str, str]) -> None:
    assert "Shown: 0 effects. Filter: tool nope." in cli("effects", "list", "--tool", "nope").out


def test_another_tenant_sees_nothing(cli: Cli, ids: dict[str, str]) -> None:
    assert cli("effects", "list", "--tenant", "other", "--json").json["effects"] == []
    cli("--tenant", "other", "effects", "show", ids["stripe.refund"], code=2)


@pytest.mark.parametrize("length", [28, 32])
def test_an_effect_is_found_by_its_id_and_by_the_beginning_of_it(cli: Cli, ids: dict[str, str], length: int) -> None:
    shown = cli("effects", "show", ids["stripe.refund"][:length], "--json").json["effect"]
    assert shown["id"] == ids["stripe.refund"]


def test_an_effect_is_found_by_its_key(cli: Cli, ids: dict[str, str], ledger_url: str) -> None:
    key = effect_at(ledger_url, ids["mail.send"]).key
    assert cli("effects", "show", key, "--json").json["effect"]["id"] == ids["mail.send"]
    assert cli("effects", "show", "0" * 64, code=2).err
    assert cli("effects", "show", "x" * 64, code=2).err


@pytest.mark.parametrize("name", ["", " ", "eff_", "eff_nope"])
def test_a_name_that_fits_none_or_many_changes_nothing(cli: Cli, ids: dict[str, str], name: str) -> None:
    said = cli("effects", "retry", name, code=2)
    assert said.out == ""
    assert said.err.startswith("indelible: ")


def test_an_empty_name_is_refused_even_when_there_is_one_effect_only(cli: Cli, ledger_url: str) -> None:
    with Ledger.open(ledger_url) as ledger:
        ledger.begin(call("only.one"), approval="required")
    cli("effects", "cancel", "", code=2)
    assert cli("effects", "list", "--json").json["effects"][0]["status"] == "requires_approval"


def test_show_has_every_field_and_no_secret(cli: Cli, ids: dict[str, str], ledger_url: str) -> None:
    effect = effect_at(ledger_url, ids["stripe.refund"])
    said = cli("effects", "show", effect.id).out
    for value in (
        effect.id,
        effect.key,
        effect.digest,
        "stripe.refund",
        "payment",
        "hold",
        "order-1",
        '"ch_1"',
        "4200",
    ):
        assert value in said
    assert "MayHaveHappened: the line went dead" in said
    assert effect.token_hash not in said + cli("effects", "show", effect.id, "--json").out


def test_what_hides_in_a_text_is_shown(cli: Cli, ids: dict[str, str]) -> None:
    said = cli("effects", "show", ids["crm.lookup"]).out
    assert not set(said) & set("\u202e\x1b\u200b\U000e0041")
    assert said.count(r'"Ada \u202eadA \u001b[31m\u200b\udb40\udc41"') == 2  # in the arguments and in the result
    args = cli("effects", "show", ids["crm.lookup"], "--json")
    assert args.out.isascii()
    assert args.json["effect"]["args"] == {"name": SLY}


def test_show_tells_the_history(cli: Cli, ids: dict[str, str]) -> None:
    said = cli("effects", "show", ids["stripe.refund"]).out
    assert re.search(r"tool_call_started +1 +processing +agent \(agent\)", said)
    assert re.search(r"tool_call_in_doubt +1 +in_doubt +indelible \(system\)", said)


def test_a_late_result_is_shown(cli: Cli, ids: dict[str, str]) -> None:
    said = cli("effects", "show", ids["late.tool"]).out
    assert "tool_call_late" in said
    assert re.search(r'late result \(came too late, changed nothing; sent by [^)]+\): \{"was":"late"\}', said)
    events = cli("effects", "show", ids["late.tool"], "--json").json["events"]
    assert events[-1]["values"] == {"late_result": {"was": "late"}}


def test_an_effect_in_doubt_comes_with_the_commands_that_settle_it(cli: Cli, ids: dict[str, str]) -> None:
    said = cli("effects", "show", ids["stripe.refund"]).out
    assert f"indelible effects settle {ids['stripe.refund']} --as succeeded" in said
    assert f"indelible effects retry {ids['stripe.refund']}" in said


def test_commands_to_copy_name_the_same_ledger(cli: Cli, ids: dict[str, str], ledger_url: str) -> None:
    said = cli("--url", ledger_url, "effects", "show", ids["wire.transfer"]).out
    command = re.search(r"indelible (approvals show .*)", said)
    assert command is not None
    command = re.search(r"indelible (approvals approve .*)", cli(*shlex.split(command[1])).out)
    assert command is not None
    cli(*shlex.split(command[1]))
    assert effect_at(ledger_url, ids["wire.transfer"]).status == "ready"


def test_settle_records_the_value_the_evidence_and_the_person(cli: Cli, ids: dict[str, str], ledger_url: str) -> None:
    settle = ["effects", "settle", ids["stripe.refund"], "--as", "succeeded", "--value", '{"id": "re_1"}']
    said = cli(*settle, "--evidence", "found re_1 in the books", "--by", "ana").out
    assert "in_doubt → succeeded, by ana" in said
    assert effect_at(ledger_url, ids["stripe.refund"]).detail == {"id": "re_1"}
    with Ledger.open(ledger_url) as ledger:
        value = ledger.run(call("stripe.refund", charge="ch_1", amount=4200), lambda effect: pytest.fail("entered"))
    assert value == {"id": "re_1"}
    shown = cli("effects", "show", ids["stripe.refund"]).out
    assert 'evidence: "found re_1 in the books"' in shown
    assert "ana (person)" in shown


def test_settle_as_failed_gives_callers_the_error(cli: Cli, ids: dict[str, str], ledger_url: str) -> None:
    cli("effects", "settle", ids["stripe.refund"], "--as", "failed", "--error", "card closed", "--evidence", "mail")
    assert effect_at(ledger_url, ids["stripe.refund"]).detail["message"] == "card closed"
    cli("effects", "settle", ids["late.tool"], "--as", "failed", "--evidence", "not in the books")
    assert effect_at(ledger_url, ids["late.tool"]).detail["message"] == "not in the books"


@pytest.mark.parametrize(
    "words",
    [
        ["--as", "succeeded"],  # no evidence
        ["--as", "succeeded", "--evidence", ""],
        ["--as", "succeeded", "--evidence", "seen", "--error", "x"],
        ["--as", "failed", "--evidence", "seen", "--value", "1"],
        ["--as", "succeeded", "--evidence", "seen", "--value", "done"],
        ["--as", "succeeded", "--evidence", "seen", "--value", '{"a": 1, "a": 2}'],
        ["--as", "succeeded", "--evidence", "seen", "--value", "NaN"],
        ["--as", "maybe", "--evidence", "seen"],
        ["--as", "succeeded", "--evidence", "seen", "--by", ""],
    ],
)
def test_a_settlement_that_is_not_clear_is_refused(
    cli: Cli, ids: dict[str, str], ledger_url: str, words: list[str]
) -> None:
    said = cli("effects", "settle", ids["stripe.refund"], *words, code=2)
    assert said.err.startswith("indelible: ")
    assert effect_at(ledger_url, ids["stripe.refund"]).status == "in_doubt"


def test_what_is_settled_stays_so(cli: Cli, ids: dict[str, str]) -> None:
    said = cli("effects", "settle", ids["crm.lookup"], "--as", "failed", "--evidence", "x", code=1)
    assert said.err.endswith(f"cannot be settled: it is succeeded; see: indelible effects show {ids['crm.lookup']}\n")
    told = cli("effects", "settle", ids["crm.lookup"], "--as", "failed", "--evidence", "x", "--json", code=1)
    assert told.error["type"] == "IllegalMove"
    assert told.out == ""


def test_retry_allows_one_more_attempt(cli: Cli, ids: dict[str, str], ledger_url: str) -> None:
    said = cli("effects", "retry", ids["mail.send"], "--reason", "the server is back").out
    assert f"failed → ready, by {getpass.getuser()}" in said
    with Ledger.open(ledger_url) as ledger:
        assert ledger.run(call("mail.send", to="ada"), lambda effect: effect.attempt) == 2
    shown = cli("effects", "show", ids["mail.send"]).out
    assert 'reason: "the server is back"' in shown
    assert "no money" in shown  # the first attempt's error is not forgotten


def test_cancel_withdraws(cli: Cli, ids: dict[str, str]) -> None:
    assert "requires_approval → canceled" in cli("effects", "cancel", ids["wire.transfer"], "--by", "ana").out
    cli("effects", "cancel", ids["stripe.refund"], code=1)


@pytest.mark.parametrize("verb", ["approve", "deny"])
def test_what_has_moved_to_approvals_names_the_new_command(
    cli: Cli, ids: dict[str, str], ledger_url: str, verb: str
) -> None:
    effect_id = ids["wire.transfer"]
    said = cli("effects", verb, effect_id, "--digest", "0" * 64, "--reason", "x", "--by", "ana", code=2).err
    assert f"indelible approvals show {effect_id}" in said
    assert f"indelible approvals {verb} {effect_id}" in said
    assert effect_at(ledger_url, effect_id).status == "requires_approval"
    assert verb not in cli("effects", "--help").out.partition("Commands:")[2]


def test_a_move_for_programs(cli: Cli, ids: dict[str, str]) -> None:
    moved = cli("effects", "retry", ids["mail.send"], "--by", "ana", "--json").json
    assert (moved["was"], moved["by"], moved["effect"]["status"]) == ("failed", "ana", "ready")
    assert json.dumps(moved).isascii()


def test_every_status_that_a_person_can_change_comes_with_a_command(
    cli: Cli, ids: dict[str, str], ledger_url: str
) -> None:
    assert f"indelible effects retry {ids['mail.send']}" in cli("effects", "show", ids["mail.send"]).out
    cli("effects", "retry", ids["mail.send"])
    assert f"indelible effects cancel {ids['mail.send']}" in cli("effects", "show", ids["mail.send"]).out
    assert "\nnext\n" not in cli("effects", "show", ids["crm.lookup"]).out
    with Ledger.open(ledger_url) as ledger:
        begun = ledger.begin(call("left.alone"), lease=timedelta(microseconds=1))
    assert isinstance(begun, Claimed)
    said = cli("effects", "show", begun.claim.effect.id).out
    assert "Its worker never reported and its lease is over" in said
    assert "lease        ran out" in said
    assert f"indelible effects settle {begun.claim.effect.id}" in said


def test_96_a_compensated_effect_says_so_in_the_list_and_on_its_page(cli: Cli, ledger_url: str) -> None:
    with Ledger.open(ledger_url) as ledger:

        @ledger.tool(side_effect="payment", compensate=lambda effect: "re_1")
        def buy(n: int) -> str:
            return f"ch_{n}"

        with ledger.start_run("order-9", agent="shop"):
            buy(n=1)
        (bought,) = ledger.effects(run_id="order-9")
        assert cli("effects", "show", bought.id, "--json").json["effect"].get("compensation") is None
        ledger.compensate("order-9")
        undone = ledger.compensations([bought])[bought.id]
    shown = cli("effects", "show", bought.id)
    assert shown.out.splitlines()[0].split() == [bought.id, "buy", "succeeded,", "compensated"]
    assert f"effects show {undone.id}" in shown.out
    assert cli("effects", "show", bought.id, "--json").json["effect"]["compensation"]["id"] == undone.id
    row = next(line for line in cli("effects", "list").out.splitlines() if line.startswith(bought.id))
    assert row.split()[1] == "compensated"
