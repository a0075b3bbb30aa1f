"""Promises of core.remote.by_hand: no credential writes past the verbs what calls and permissions are decided on."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from indelible.core.approvals.grants import Delegation, Grant, delegation_sheet, grant_sheet
from indelible.core.commands import Keep, Record
from indelible.core.effects.effect import Actor
from indelible.core.effects.stops import LET_GO, STOPPED, Stop, read_stop, stop_sheet
from indelible.core.events import facts_json
from indelible.core.policy.policy import policy_of
from indelible.core.remote.by_hand import by_hand, check_dropped
from indelible.core.rights import OF_APPROVERS, verb_of
from indelible.core.sheets import Sheet, body_of
from indelible.errors import NotPermitted
from tests.core.making import NOON, stamp

ANA = Actor("ana", "person", "api_key")
LATER = NOON + timedelta(hours=1)
GRANT = Grant(
    id="grt_1",
    tool="pay",
    pin=None,
    pinned="ab" * 32,
    schema="",
    policy="p",
    rule="big",
    uses_left=1000,
    until=LATER,
    given_by="bob",
    approval_id="apr_1",
)
DELEGATION = Delegation(id="dlg_1", giver="Ana", to="dan", until=LATER)
STOP = Stop(is_in_force=False, by="bob", at=datetime(1999, 1, 1, tzinfo=UTC), reason="mended")
VERSION = policy_of({}).version


def sheet(kind: str, content: Any = None, **words: Any) -> Sheet:
    return Sheet(**{"kind": kind, "id": "current", "status": "active", "body": body_of(content or {}), **words})


def told(event_type: str, changed: Sheet | None, run_id: str = "indelible:approvals", facts: Any = None) -> Record:
    said = facts or ({} if changed is None else {"id": changed.id})
    return Record(
        tenant="t", run_id=run_id, stamp=stamp(), event_type=event_type, facts=facts_json(said), sheet=changed
    )


def kept(changed: Sheet) -> Keep:
    return Keep(tenant="t", stamp=stamp(), sheet=changed)


POLICY = sheet("policy", {"content": {}, "version": VERSION})
FINE: list[Record | Keep] = [
    told("policy_applied", POLICY),
    told("grant_ended", grant_sheet(GRANT.withdrawn())),
    told("delegation_given", delegation_sheet(DELEGATION)),
    told("delegation_ended", delegation_sheet(replace(DELEGATION, giver="bob", version=2, is_ended=True))),
    told("hold_placed", None),
    told("noted", None, "run-1"),
    kept(sheet("delivery")),
    kept(sheet("driver")),
]
FORGED: list[Record | Keep] = [
    told("policy_applied", sheet("policy", {"content": {}, "version": "another"})),
    told("policy_applied", sheet("policy", {"content": {"rules": 1}, "version": VERSION})),
    told("policy_applied", sheet("policy", {"content": {}, "version": VERSION}, id="old")),
    told("policy_applied", sheet("policy")),
    told("noted", POLICY),
    told("grant_ended", grant_sheet(GRANT)),
    told("grant_ended", replace(grant_sheet(GRANT.withdrawn()), status="active")),
    told("delegation_given", delegation_sheet(replace(DELEGATION, giver="bob"))),
    told("delegation_given", replace(delegation_sheet(DELEGATION), topic="eve")),
    told("delegation_ended", delegation_sheet(DELEGATION)),
    told("delegation_given", delegation_sheet(DELEGATION), "indelible:people"),
    told("delegation_given", delegation_sheet(DELEGATION), "run-1"),
    told("delegation_given", delegation_sheet(DELEGATION), facts={"id": "dlg_2"}),
    told("delegation_given", delegation_sheet(DELEGATION), facts={"id": "dlg_1", "more": 1}),
    told("grant_ended", grant_sheet(GRANT.withdrawn()), "run-1"),
    told(LET_GO, replace(stop_sheet(STOP), id="others")),
    told("approval_received", sheet("approval")),
    told("approval_received", sheet("budget")),
    told("key_registered", None, "indelible:journal"),
    *(kept(sheet(kind)) for kind in ("budget", "limit", "approval", "grant", "reply", "lease", "mark")),
]


def test_46_a_delegation_names_the_token_that_it_came_with_and_no_other() -> None:
    told_with = told("delegation_given", delegation_sheet(replace(DELEGATION, credential="key_other")))
    written = by_hand(told_with, replace(ANA, credential="key_1"), LATER).sheet
    assert written == delegation_sheet(replace(DELEGATION, credential="key_1"))


@pytest.mark.parametrize("command", FINE, ids=repr)
def test_what_is_an_administrators_to_write_is_written_as_it_is(command: Record | Keep) -> None:
    assert by_hand(command, ANA, LATER) == command


@pytest.mark.parametrize("command", FORGED, ids=repr)
def test_nothing_else_is_whatever_its_event_is_called(command: Record | Keep) -> None:
    with pytest.raises(NotPermitted, match="not written by hand"):
        by_hand(command, ANA, LATER)


def test_60_a_stop_of_no_known_kind_is_not_written_by_hand() -> None:
    """Every later stop would have failed on it."""
    strange = replace(STOP, is_in_force=True, kind="gone")
    with pytest.raises(NotPermitted):
        by_hand(told(STOPPED, stop_sheet(strange)), ANA, LATER)


@pytest.mark.parametrize(("event_type", "is_in_force"), [(STOPPED, True), (LET_GO, False)])
def test_a_stop_is_in_the_name_of_who_stops(event_type: str, is_in_force: bool) -> None:
    written = by_hand(told(event_type, stop_sheet(replace(STOP, is_in_force=is_in_force))), ANA, LATER)
    assert written.sheet is not None
    assert read_stop(written.sheet) == replace(STOP, is_in_force=is_in_force, by="ana", at=LATER)


@pytest.mark.parametrize("kind", ["budget", "limit", "driver", "lease", "policy", "approval", "grant"])
def test_what_is_decided_on_is_not_dropped(kind: str) -> None:
    check_dropped([sheet("mark"), sheet("delivery")])
    with pytest.raises(NotPermitted, match=f"{kind} is not dropped"):
        check_dropped([sheet("mark"), sheet(kind)])


def test_approvers_give_and_end_permissions_and_write_nothing_else() -> None:
    commands = [each for each in FINE if isinstance(each, Record)]
    assert {command.event_type in OF_APPROVERS for command in commands} == {True, False}
    for command in commands:
        is_theirs = command.event_type in OF_APPROVERS
        assert verb_of(command) == ("permit" if is_theirs else "administer")
