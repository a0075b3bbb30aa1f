"""What a run is made of: its words are checked, and its sheets say everything it is."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from hashlib import sha256

import pytest

from indelible.core.events import instant
from indelible.core.runs.run import (
    BY_THE_LEDGER,
    EVENT_TYPES,
    PROGRESS,
    RUN_STATUSES,
    Checkpoint,
    CheckpointRule,
    Driver,
    Fork,
    Happening,
    Run,
    checkpoint_ref,
    checkpoint_sheet,
    driver_ref,
    driver_sheet,
    hidden_driver,
    left_of_run,
    mark_ref,
    read_checkpoint,
    read_driver,
    read_run,
    run_ref,
    run_sheet,
    side_effect_key,
    unstarted_run,
)
from indelible.core.sheets import Sheet
from indelible.errors import BadCall
from tests.core.making import HOUR, NOON

RUN = Run(
    id="run-1",
    version=3,
    status="blocked",
    agent="billing",
    intent="refund order 123",
    runtime="langgraph",
    parent="run-0",
    parent_event="evt_00",
    allowed_tools=("crm.*", "mail"),
    permissions={"spend": 100, "nested": {"deep": [True, None]}},
    checkpointing=CheckpointRule(every_progress=5, every=HOUR, before_risky=True),
    fork=Fork(run_id="run-9", at=7, is_dry=False),
    created_at=NOON,
    updated_at=NOON + HOUR,
)


@pytest.mark.parametrize("unread", ["erased", "altered"])
def test_of_a_run_that_cannot_be_read_its_events_tell_what_is_left(unread: str) -> None:
    started = {"at": instant(NOON), "facts": {"fence": 1, "parent": "run-0", "parent_event": "evt_00"}}
    sheet = replace(run_sheet(RUN), body=None, seq=7)
    left = left_of_run(sheet, started, {"at": instant(NOON + HOUR)}, is_erased=unread == "erased")
    names = ("id", "version", "status", "agent", "parent", "parent_event", "created_at", "updated_at")
    assert [getattr(left, name) for name in names] == [getattr(RUN, name) for name in names]
    assert (left.intent, left.runtime, left.seq, left.unread) == (f"({unread})", f"({unread})", 7, unread)
    assert (left.allowed_tools, left.permissions) == (None, {}), "who asks for these has to ask whether it was read"


def test_75_a_run_that_was_never_started_is_known_by_its_newest_event() -> None:
    event = json.dumps({"at": instant(NOON + HOUR)}).encode()
    sheet = Sheet(kind="run", id="run-1", version=0, status="open", body=event, run_id="run-1", seq=4, created_at=NOON)
    run = unstarted_run(sheet)
    assert (run.id, run.status, run.version, run.seq) == ("run-1", "open", 0, 4)
    assert (run.agent, run.intent, run.runtime) == ("", "", "")
    assert (run.created_at, run.updated_at) == (NOON, NOON + HOUR)
    assert "open" not in RUN_STATUSES, "no run that was started, and no event, has this status"


@pytest.mark.parametrize("altered", [None, b"", b"\xff", b"[]", b"{}", b'{"at": 1}', b'{"at": "once"}', b"1"])
def test_75_a_newest_event_that_was_altered_hides_no_run(altered: bytes | None) -> None:
    sheet = Sheet(kind="run", id="run-1", version=0, status="open", body=altered, created_at=NOON)
    assert unstarted_run(sheet).updated_at == NOON


@pytest.mark.parametrize("run", [RUN, Run(id="r", agent="a", created_at=NOON, updated_at=NOON)])
def test_a_run_comes_back_from_its_sheet(run: Run) -> None:
    sheet = run_sheet(run)
    assert read_run(sheet) == run
    assert (sheet.ref, sheet.status, sheet.topic, sheet.version) == (
        run_ref(run.id),
        run.status,
        run.agent,
        run.version,
    )


def test_a_driver_comes_back_from_its_sheet() -> None:
    driver = Driver(run_id="r", version=2, fence=4, token_hash="ab", holder="worker", until=NOON)
    for one in (driver, driver.released()):
        assert read_driver(driver_sheet(one)) == one
    assert driver_sheet(driver).ref == driver_ref("r")
    assert not driver_sheet(driver).is_recorded
    for one in (driver, driver.released()):
        hidden = read_driver(hidden_driver(driver_sheet(one)))
        assert hidden.token_hash != one.token_hash, "what others see is not enough to drive by"
        assert hidden.seen_by(one.token_hash) == one, "and enough to know one's own"
        assert hidden.seen_by("ab" * 32) == hidden


def test_the_right_to_drive_ends_at_its_moment() -> None:
    driver = Driver(run_id="r", fence=1, token_hash="ab", holder="worker", until=NOON)
    assert driver.is_live(NOON - timedelta(microseconds=1))
    assert not driver.is_live(NOON)
    assert driver.kept(NOON + HOUR).is_live(NOON)
    assert not driver.released().is_live(NOON - HOUR)


def test_a_checkpoint_comes_back_from_its_sheet() -> None:
    checkpoint = Checkpoint(
        id="ckpt_1", run_id="r", at=4, reason="failure", suggested="go on", has_state=True, created_at=NOON
    )
    assert read_checkpoint(checkpoint_sheet(checkpoint)) == checkpoint
    assert checkpoint_sheet(checkpoint).ref == checkpoint_ref("ckpt_1")


def test_there_are_eighteen_types_of_events_and_eight_tell_of_progress() -> None:
    assert len(EVENT_TYPES) == 18
    assert len(PROGRESS) == 8
    assert PROGRESS < EVENT_TYPES


@pytest.mark.parametrize("event_type", sorted(EVENT_TYPES))
def test_each_type_is_recorded_by_hand_or_by_the_ledger(event_type: str) -> None:
    if event_type in BY_THE_LEDGER:
        with pytest.raises(BadCall, match=r"told by the ledger itself: use run\.\w+\(\)"):
            Happening(type=event_type)
    else:
        assert Happening(type=event_type).type == event_type


@pytest.mark.parametrize("own", ["acme.lead_scored", "a.b.c", "acme.v2.x9"])
def test_an_own_type_has_a_namespace(own: str) -> None:
    assert Happening(type=own).type == own


@pytest.mark.parametrize(
    "wrong", ["lead_scored", "", "Acme.x", ".x", "acme.", "acme..x", "acme.x y", "acmé.x", "run_paused"]
)
def test_a_type_nobody_knows_is_refused(wrong: str) -> None:
    with pytest.raises(BadCall, match="no type of event"):
        Happening(type=wrong)


@pytest.mark.parametrize(
    "words",
    [{"side_effect": "danger"}, {"step": ""}, {"side_effect_key": "\0"}, {"said_by": "x" * 501}],
)
def test_what_cannot_be_told_is_refused(words: dict[str, str]) -> None:
    with pytest.raises(BadCall):
        Happening(type="plan_locked", **words)  # type: ignore[arg-type]


@pytest.mark.parametrize("words", [{"every_progress": 0}, {"every": timedelta(0)}])
def test_a_rule_for_checkpoints_makes_sense(words: dict[str, object]) -> None:
    with pytest.raises(BadCall, match="checkpoint every"):
        CheckpointRule(**words)  # type: ignore[arg-type]


def test_the_key_of_a_side_effect_is_the_documented_hash() -> None:
    payload_hash = sha256(b'{"batch":"batch-001"}').hexdigest()
    by_hand = {"action": "salesforce.import", "payloadHash": payload_hash, "target": "salesforce"}
    expected = sha256(json.dumps(by_hand, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
    assert side_effect_key("salesforce.import", "salesforce", payload_hash) == expected


def test_a_mark_tells_runs_and_keys_apart() -> None:
    assert (
        len({mark_ref("r", "k"), mark_ref("r", "l"), mark_ref("s", "k"), mark_ref("rk", ""), mark_ref("", "rk")}) == 5
    )
