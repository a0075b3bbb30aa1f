"""`indelible events`: reading a run is checking it."""

from __future__ import annotations

import re
from typing import Any

import pytest

from indelible import Ledger
from tests.cli.conftest import Cli, call
from tests.stores.database import open_file


def change(url: str, sql: str, *values: Any) -> None:
    """Does what somebody with the database's password could do; `?` stands for a value in both dialects."""
    if url.startswith("sqlite"):
        connection = open_file(url)
        try:
            connection.execute(sql, values)
        finally:
            connection.close()
    else:
        import psycopg

        with psycopg.connect(url) as connection:
            connection.execute(sql.replace("?", "%s").encode(), values)


def test_events_are_listed_and_their_chain_is_checked(cli: Cli, ids: dict[str, str]) -> None:
    said = cli("events", "order-1").out
    assert re.search(r"^seq +time +type +effect +attempt +status +actor +hash$", said, re.MULTILINE)
    assert "chain intact: 7 events, head " in said
    told = cli("events", "order-1", "--json").json
    assert told["chain"] == {"intact": True, "checked": 7, "head": told["events"][-1]["hash"]}


def test_reading_goes_on_after_a_number(cli: Cli, ids: dict[str, str]) -> None:
    said = cli("events", "order-1", "--limit", "3").out
    assert "chain intact: 3 events" in said
    assert "not checked yet. Add: --after 2" in said
    said = cli("events", "order-1", "--after", "2").out
    assert "chain intact: 4 events after seq 2" in said
    assert "chain intact: 0 events after seq 6" in cli("events", "order-1", "--after", "6").out
    assert "has no event 7" in cli("events", "order-1", "--after", "7", code=2).err


def test_a_run_that_is_not_there_is_no_intact_chain(cli: Cli, ids: dict[str, str]) -> None:
    assert "has no run nope" in cli("events", "nope", code=2).err
    assert cli("events", "nope", "--json", code=2).error["type"] == "BadCall"


TAMPERING = {
    "an edited body": ("UPDATE indelible_events SET body = ? WHERE run_id = 'order-1' AND seq = 3", [b"{}"], 3),
    "an edited hash": ("UPDATE indelible_events SET hash = ? WHERE run_id = 'order-1' AND seq = 3", [b"x" * 32], 3),
    "an edited type": (
        "UPDATE indelible_events SET type = ? WHERE run_id = 'order-1' AND seq = 3",
        ["tool_call_late"],
        3,
    ),
    "a borrowed effect": (
        "UPDATE indelible_events SET effect_id = ? WHERE run_id = 'order-1' AND seq = 3",
        ["eff_other"],
        3,
    ),
    "a missing event": ("DELETE FROM indelible_events WHERE run_id = 'order-1' AND seq = ?", [3], 3),
    "a missing beginning": ("DELETE FROM indelible_events WHERE run_id = 'order-1' AND seq < ?", [3], 0),
    "an event out of place": ("UPDATE indelible_events SET seq = ? WHERE run_id = 'order-1' AND seq = 6", [9], 6),
    "an event of another run": ("UPDATE indelible_events SET run_id = ? WHERE run_id = 'order-2'", ["order-3"], None),
}


@pytest.mark.parametrize("name", TAMPERING)
def test_tampering_is_named_by_its_first_bad_event(cli: Cli, ids: dict[str, str], ledger_url: str, name: str) -> None:
    sql, values, seq = TAMPERING[name]
    change(ledger_url, sql, *values)
    run, first = ("order-1", seq) if seq is not None else ("order-3", 0)
    said = cli("events", run, code=1)
    assert f"CHAIN BROKEN at seq {first}: " in said.out
    assert cli("events", run, "--json", code=1).json["chain"]["first_bad_seq"] == first


def test_a_break_before_the_page_does_not_hide_the_link_to_it(cli: Cli, ids: dict[str, str], ledger_url: str) -> None:
    change(ledger_url, "UPDATE indelible_events SET hash = ? WHERE run_id = 'order-1' AND seq = 3", b"x" * 32)
    assert "CHAIN BROKEN at seq 4" in cli("events", "order-1", "--after", "3", code=1).out


@pytest.mark.usefixtures("without_writer_keys")
def test_an_altered_payload_is_shown_as_such(cli: Cli, ids: dict[str, str], ledger_url: str) -> None:
    edit = "UPDATE indelible_payloads SET value = ? WHERE run_id = 'order-1' AND seq = 2 AND field = 'args'"
    change(ledger_url, edit, b'{"amount":1,"charge":"ch_1"}')
    said = cli("effects", "show", ids["stripe.refund"], code=1)
    assert "ALTERED: the stored args is not what event 2 committed to" in said.out
    assert cli("effects", "show", ids["stripe.refund"], "--json", code=1).json["events"][0]["altered"] == ["args"]


def test_an_erased_payload_is_no_alteration(cli: Cli, ids: dict[str, str], ledger_url: str) -> None:
    change(ledger_url, "DELETE FROM indelible_payloads WHERE run_id = 'order-1' AND seq = ?", 0)
    said = cli("effects", "show", ids["crm.lookup"]).out
    assert "args\n  (erased)" in said
    assert "chain intact" in cli("events", "order-1").out


def test_an_unreadable_event_is_listed_and_named(cli: Cli, ids: dict[str, str], ledger_url: str) -> None:
    change(ledger_url, "UPDATE indelible_events SET body = ? WHERE run_id = 'order-1' AND seq = 3", b"\xff not json")
    said = cli("events", "order-1", code=1).out
    assert "unreadable" in said
    assert cli("events", "order-1", "--json", code=1).json["events"][3]["hash"]


def test_a_long_run_is_read_to_its_end(cli: Cli, ledger_url: str) -> None:
    with Ledger.open(ledger_url) as ledger:
        for number in range(520):
            ledger.run(call("count", "long", n=number), lambda effect: None, side_effect="none")
    assert "chain intact: 1040 events" in cli("events", "long", "--limit", "5000").out
    assert cli("effects", "show", cli("effects", "list", "--json").json["effects"][0]["id"], "--json").json["events"]
