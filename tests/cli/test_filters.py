"""`--filter` on every list: the same words as over HTTP, and what was filtered is said."""

from __future__ import annotations

import json

import pytest

from indelible import Ledger
from tests.cli.conftest import Cli


def test_effects_are_filtered_and_the_filter_is_said(cli: Cli, ids: dict[str, str]) -> None:
    said = cli("effects", "list", "--filter", "tool:stripe.*,wire.* args.amount:>100 since:1h").out
    assert ids["stripe.refund"] in said
    assert ids["wire.transfer"] not in said
    assert "Shown: the only effect. Filter: tool:stripe.*,wire.* args.amount:>100 since:1h." in said
    told = cli("effects", "list", "--status", "failed", "--filter", "money", "--json").json
    assert [effect["tool"] for effect in told["effects"]] == ["mail.send"]
    assert told["filter"] == {"status": "failed", "q": "money"}
    assert "Shown: 0 effects. Filter: tool:nope." in cli("effects", "list", "--filter", "tool:nope").out


def test_a_list_goes_on_where_it_stopped(cli: Cli, ids: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("indelible.engine.finding.MOST_LOOKED_AT", 1)
    first = cli("effects", "list", "--filter", "-tool:mail.*", "--limit", "3", "--json").json
    assert (len(first["effects"]), first["has_more"]) == (3, True)
    rest = cli("effects", "list", "--filter", "-tool:mail.*", "--before", first["effects"][-1]["id"], "--json").json
    assert [effect["tool"] for effect in rest["effects"]] == ["crm.lookup"]
    assert not rest["has_more"]


def test_what_cannot_be_read_is_named_by_its_place(cli: Cli, ids: dict[str, str]) -> None:
    for words in (("effects", "list"), ("runs", "list"), ("approvals", "list"), ("events", "order-1"), ("tail",)):
        refused = cli(*words, "--filter", "since:1h colour:red", code=2).err
        assert "column 10: 'colour' is no word for" in refused, words


def test_approvals_are_filtered_also_by_a_status_of_the_filter(cli: Cli, ids: dict[str, str]) -> None:
    assert "Filter: status pending, args.amount:10." in cli("approvals", "list", "--filter", "args.amount:10").out
    assert "Shown: 0 approvals. Filter: status:denied." in cli("approvals", "list", "--filter", "status:denied").out
    both = cli("approvals", "list", "--status", "pending", "--filter", "status:denied").out
    assert "Shown: 0 approvals. Filter: status pending, status:denied." in both


def test_runs_are_filtered(cli: Cli, ledger_url: str) -> None:
    with Ledger.open(ledger_url) as ledger:
        for name in ("order-1", "order-2"):
            with ledger.start_run(name, agent="billing", intent=f"refund {name}"):
                pass
    said = cli("runs", "list", "--filter", '"refund order-2" agent:bill*').out
    assert "order-2" in said
    assert 'Shown: the only run. Filter: "refund order-2" agent:bill*.' in said
    assert cli("runs", "list", "--filter", "order-2", "--json").json["filter"] == {"q": "order-2"}


def test_all_events_are_checked_also_those_that_are_left_out(cli: Cli, ids: dict[str, str]) -> None:
    everything = cli("events", "order-1", "--json").json
    some = cli("events", "order-1", "--filter", "type:tool_call_started", "--json").json
    assert {event["type"] for event in some["events"]} == {"tool_call_started"}
    assert some["chain"] == everything["chain"]
    said = cli("events", "order-1", "--filter", "type:tool_call_started").out
    assert (
        f"Shown: {len(some['events'])} of {len(everything['events'])} events. Filter: type:tool_call_started." in said
    )


def test_tail_prints_what_is_in_the_journal(cli: Cli, ids: dict[str, str], ledger_url: str) -> None:
    with Ledger.open(ledger_url) as ledger:
        ledger.seal()
    said = cli("tail", "--once", "--filter", "status:failed since:1h").out
    assert "Filter: status:failed since:1h." in said
    assert said.count("tool_call_finished  mail.send  failed") == 1
    lines = cli("tail", "--once", "--filter", "tool:mail.send", "--json").out.splitlines()
    assert [json.loads(json.loads(line)["body"])["status"] for line in lines] == ["processing", "failed"]
