"""Promises of core.sheets: one piece of state, its versions, and the event that commits to it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from indelible import core
from indelible.core import sheets
from indelible.core.batch import decide
from indelible.core.commands import Claimed, Open
from indelible.core.sheets import KEPT_ASIDE, NO_SHEETS, Sheet, SheetFilter, SheetRef, attested_body, body_of, sheet_at
from indelible.core.steps import brakes_of
from indelible.errors import NotRecordable, StateNotRead
from tests.core.making import BY, HOUR, NOON, open_command

SHEET = Sheet(
    kind="approval",
    id="apr_1",
    version=4,
    status="pending",
    topic="run-1",
    due_at=NOON,
    body=b'{"a":1}',
    run_id="r",
    seq=7,
)


def test_a_sheet_knows_its_place() -> None:
    assert SHEET.ref == SheetRef("approval", "apr_1") == ("approval", "apr_1")
    assert SHEET.read() == {"a": 1}


@pytest.mark.parametrize(
    ("kind", "is_recorded"),
    [
        ("approval", True),
        ("grant", True),
        ("delegation", True),
        ("policy", True),
        ("budget", False),
        ("delivery", False),
    ],
)
def test_whatever_allows_something_is_on_the_record(kind: str, is_recorded: bool) -> None:
    assert replace(SHEET, kind=kind).is_recorded is is_recorded
    assert (kind in KEPT_ASIDE) is not is_recorded


def test_the_next_state_is_one_version_later_and_no_event_commits_to_it_yet() -> None:
    later = SHEET.after(status="denied", body=b"{}", due_at=NOON + HOUR)
    assert (later.version, later.status, later.body, later.due_at) == (5, "denied", b"{}", NOON + HOUR)
    assert (later.run_id, later.seq) == (None, None)
    assert (later.kind, later.id, later.topic) == (SHEET.kind, SHEET.id, SHEET.topic)
    assert SHEET.after(status="denied", body=b"{}").due_at is None, "what nobody says again is not due"
    assert later.told_by("run-9", 3) == replace(later, run_id="run-9", seq=3)


def test_nothing_is_read_from_a_sheet_that_was_erased() -> None:
    with pytest.raises(AssertionError, match="erased"):
        replace(SHEET, body=None).read()
    with pytest.raises(AssertionError):
        replace(SHEET, body=b"[]").read()


def test_a_sheet_does_not_show_what_is_on_it() -> None:
    assert "CANARY" not in repr(replace(SHEET, body=b'"CANARY"'))


def test_a_body_is_canonical() -> None:
    assert body_of({"b": 1, "a": ["x", None]}) == b'{"a":["x",null],"b":1}'
    with pytest.raises(NotRecordable, match="sheet"):
        body_of({"a": object()})


def test_a_filter_selects_everything_of_a_kind_unless_told_otherwise() -> None:
    plain = SheetFilter(kind="approval")
    words: Any = [plain.id, plain.status, plain.topic, plain.after, plain.before, plain.due_by]
    assert words == [None] * 6
    assert plain.limit == 100
    assert not NO_SHEETS


@pytest.mark.parametrize(
    "body", [b"no json", b"[]", b"7", b"{}", b'{"commits":7}', b'{"commits":{}}', b'{"commits":[]}']
)
def test_an_event_that_was_altered_attests_nothing(body: bytes) -> None:
    assert attested_body("approval", b"{}", b"\0" * 32, body) is None


def test_what_was_not_read_is_not_known_to_be_absent() -> None:
    ref = SheetRef("stop", "effects")
    assert sheet_at({ref: None}, ref) is None
    with pytest.raises(StateNotRead):
        sheet_at(NO_SHEETS, ref)


@pytest.mark.parametrize("command", [open_command(), open_command(knows_limits=False)], ids=["stop", "limit"])
def test_a_claim_is_decided_on_nothing_that_was_not_read(command: Open) -> None:
    read = dict.fromkeys(brakes_of(command))
    assert isinstance(decide([command], {command.ref: None}, {}, NOON, BY, read).answers[0], Claimed)
    for ref in read:
        with pytest.raises(StateNotRead):
            decide([command], {command.ref: None}, {}, NOON, BY, {other: None for other in read if other != ref})
    with pytest.raises(StateNotRead):
        decide([command], {}, {}, NOON, BY, read)


def test_rules_look_at_sheets_in_one_way_alone() -> None:
    """`get` would take what was not read for what is not there."""
    rules = [path for path in Path(core.__path__[0]).rglob("*.py") if path != Path(sheets.__file__)]
    assert len(rules) > 50
    assert not [path for path in rules if re.search(r"(?<!\.)\bsheets(\.get\(|\[)", path.read_text())]
