"""Promises of core.runs about handing a run over: one ledger goes on with it, and a person alone takes it back."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from indelible.core.commands import Claimed
from indelible.core.effects.effect import Actor
from indelible.core.runs.commands import EndRun, RunMoved, RunNotMoved
from indelible.core.runs.resuming import PACKET_KIND, read_packet, why_not_imported
from indelible.core.runs.run import (
    HANDED_OVER,
    Fork,
    Handover,
    Happening,
    fence_ref,
    fenced_to,
    read_run,
    run_ref,
    run_sheet,
)
from indelible.core.sheets import Sheet
from indelible.core.steps import needed_sheets, next_step
from indelible.errors import BadCall
from tests.core.making import NOON, effect, open_command
from tests.core.run_world import TENANT, World
from tests.core.runs.test_driving import PLAN, refused

WEEK = timedelta(days=7)
RUN_ID = "run-1"


def handed() -> World:
    world = World()
    world.start()
    assert isinstance(world.end(HANDED_OVER), RunMoved)
    return world


def ending(world: World, actor: Actor, **words: Any) -> EndRun:
    said = {"status": "blocked", "reason_json": b'"because"', **words}
    return EndRun(tenant=TENANT, run_id="r", stamp=world.stamp(actor=actor), **said)


def test_what_was_handed_over_is_told_nothing_saved_nowhere_and_taken_by_nobody() -> None:
    world = handed()
    for answer in (world.tell(PLAN), world.seal(), world.take(is_forced=True), world.end("completed")):
        assert refused(answer) == "handed_over"
        assert "ledger-2/default" in answer.why
    assert refused(world.start()) == "exists"
    other = Handover(to="ledger-3/default", until=world.now)
    assert refused(world.end(HANDED_OVER, handover=other)) == "handed_over"
    assert isinstance(world.end(HANDED_OVER), RunMoved), "to the same one it is said twice"
    assert world.types() == ["run_started", "run_handed_over"]


def test_94_a_fork_is_not_handed_over_for_no_packet_carries_what_it_replays() -> None:
    world = World()
    world.start(fork=Fork(run_id="other", at=3))
    assert refused(world.end(HANDED_OVER)) == "fork"
    assert world.types() == ["run_started"]
    assert isinstance(world.end("completed"), RunMoved)


@pytest.mark.parametrize("delegations", [1, 2])
def test_94_a_run_that_delegated_is_not_handed_over_for_no_packet_carries_its_children(delegations: int) -> None:
    world = World()
    world.start()
    told = Happening(type="delegation_started", payload_json=b'{"run":"child"}')
    world.tell(*[told] * delegations)
    world.tell(told)
    assert refused(world.end(HANDED_OVER)) == "delegated"
    assert isinstance(world.end("completed"), RunMoved)


def test_only_people_take_it_back_or_give_it_up() -> None:
    world = handed()
    agent = Actor("scout", "agent")
    assert refused(world.one(ending(world, agent, takes_back=True, is_forced=True))) == "forbidden"
    assert refused(world.one(ending(world, agent, status="canceled"))) == "handed_over"
    assert refused(world.one(ending(world, Actor("ada"), takes_back=True))) == "may_be_imported"
    assert refused(world.end("blocked")) == "handed_over", "to set it aside is not to take it back"
    assert isinstance(world.one(ending(world, Actor("ada"), takes_back=True, is_forced=True)), RunMoved)
    assert fenced_to(world.sheets[fence_ref("r")]) is None
    assert read_run(world.sheets[run_ref("r")]).handover is None
    assert isinstance(world.end(HANDED_OVER), RunMoved)
    assert fenced_to(world.sheets[fence_ref("r")]) == "ledger-2/default"
    assert isinstance(world.one(ending(world, Actor("ada"), status="canceled")), RunMoved)
    assert fenced_to(world.sheets[fence_ref("r")]) == "ledger-2/default", "it is theirs for good"


def test_94_no_time_makes_it_safe_to_take_it_back_without_looking() -> None:
    world = handed()
    world.pass_time(WEEK * 9)
    assert refused(world.end("blocked", takes_back=True)) == "may_be_imported"
    assert isinstance(world.end("blocked", takes_back=True, is_forced=True), RunMoved)
    assert refused(world.end("blocked", takes_back=True)) == "not_handed_over"


@pytest.mark.parametrize("words", [{"handover": None}, {"takes_back": True, "handover": None}])
def test_a_run_is_handed_over_only_to_a_ledger_that_is_named(words: dict[str, Any]) -> None:
    world = World()
    world.start()
    assert refused(world.end(HANDED_OVER, **words)) == "handover"
    assert refused(world.end("failed", takes_back=True)) == "handover"
    assert refused(world.end("failed", handover=Handover(to="l/t", until=world.now))) == "handover"
    world = World()
    assert refused(world.end("blocked", takes_back=True)) == "unknown"


def test_a_run_on_its_sheet_says_where_it_went() -> None:
    run = read_run(handed().sheets[run_ref("r")])
    assert run.handover == Handover(to="ledger-2/default", until=NOON + WEEK)
    assert read_run(run_sheet(run)) == replace(run, seq=None)
    assert (run.imported_from, replace(run, permissions={"packet_from": "l/t"}).imported_from) == (None, "l/t")


# Calls


def fenced(run_id: str) -> dict[Any, Sheet | None]:
    ref = fence_ref(run_id)
    return {ref: Sheet(kind=ref.kind, id=ref.id, status=HANDED_OVER, body=b'{"to":"ledger-2/default"}')}


class Read(dict[Any, Any]):
    """Holds sheets, and None for every other place."""

    def __missing__(self, ref: Any) -> None:
        return None


def test_no_call_of_it_is_entered() -> None:
    answer = next_step(open_command(), None, NOON, 0, Read(fenced(RUN_ID))).answer
    assert isinstance(answer, RunNotMoved)
    assert answer.code == "handed_over"
    lowered = {ref: replace(sheet, status="taken_back") for ref, sheet in fenced(RUN_ID).items() if sheet is not None}
    assert isinstance(next_step(open_command(), None, NOON, 0, Read(lowered)).answer, Claimed)


def test_no_effect_of_it_is_entered_by_another_run() -> None:
    there = replace(effect("ready"), run_id="handed")
    command = open_command()
    assert fence_ref("handed") in needed_sheets(command, there)
    answer = next_step(command, there, NOON, 3, Read(fenced("handed"))).answer
    assert isinstance(answer, RunNotMoved)
    assert isinstance(next_step(command, there, NOON, 3, Read()).answer, Claimed)


# Packets


@pytest.mark.parametrize(
    ("to", "before", "redaction", "code"),
    [
        (None, None, None, "copy"),
        ("ledger-3/default", "2030-01-09T12:00:00Z", None, "elsewhere"),
        ("ledger-2/default", "2030-01-02T11:59:59Z", None, "too_late"),
        ("ledger-2/default", "2999-01-02T12:00:01Z", None, None),
        ("ledger-2/default", "2999-01-02T12:00:01Z", "ab", None),
        ("ledger-2/default", "2999-01-02T12:00:01Z", "cd", "redaction"),
    ],
)
def test_a_packet_is_imported_by_the_named_ledger_in_time_and_with_its_redaction_key(
    to: str | None, before: str | None, redaction: str | None, code: str | None
) -> None:
    content = {"handedOverTo": to, "importBefore": before, "runId": "r", "ledgerId": "ledger-1/default"}
    found = why_not_imported({**content, "redaction": redaction}, "ledger-2/default", NOON, "ab")
    assert (None if found is None else found[0]) == code


def test_a_packet_whose_end_is_no_time_cannot_be_read() -> None:
    content = {
        "kind": PACKET_KIND,
        "schemaVersion": 1,
        "tenant": "t",
        "runId": "r",
        "effects": [],
        "handedOverTo": "l/t",
    }
    assert read_packet({**content, "importBefore": "2030-01-09T12:00:00Z"}, NOON).effects == []
    with pytest.raises(BadCall):
        read_packet({**content, "importBefore": "2030-99-99T12:00:00Z"}, NOON)
