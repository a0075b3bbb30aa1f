"""Promises of core.macs: a row that no key holder wrote is not believed, and an effects key makes no right."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from datetime import timedelta
from hashlib import sha256
from typing import Any

import pytest

from indelible.core.approvals.grants import Grant, grant_sheet
from indelible.core.effects.effect import SYSTEM
from indelible.core.effects.stops import STOP_REF, Stop, stop_sheet
from indelible.core.macs import (
    BOUND_EVENTS,
    LOSSES,
    MAC_BYTES,
    OUTLASTING,
    RIGHT_EVENTS,
    Macs,
    Unchecked,
    derived_key,
    is_after_losses,
    losses_kept,
    losses_needed,
    next_loss,
)
from indelible.core.policy.budgets import budget_ref
from indelible.core.privacy.forgetting import HOLD_LIFTED, HOLD_PLACED
from indelible.core.sheets import Sheet, SheetFilter, SheetRef, Sheets, body_of
from indelible.core.verifying.permissions import FACTS_OF_SHEETS
from indelible.core.verifying.trust import JOURNAL_MEMBERS
from indelible.errors import KeyUnusable, RecordForged
from tests.core.making import HOUR, NOON, effect

MASTER = bytes(range(32))
HASH = "ab" * 32


class Remembered:
    """Remembers versions in memory."""

    def __init__(self) -> None:
        self.newest: dict[SheetRef, int] = {}

    def version(self, ref: SheetRef) -> int:
        return self.newest.get(ref, 0)

    def versions(self, kind: str) -> dict[SheetRef, int]:
        return {ref: version for ref, version in self.newest.items() if ref.kind == kind}

    def kept(self, kinds: Iterable[str]) -> dict[SheetRef, int]:
        return {ref: version for ref, version in self.newest.items() if ref.kind in kinds}

    def note(self, ref: SheetRef, version: int) -> None:
        self.newest[ref] = max(version, self.version(ref))

    def keep(self, versions: Mapping[SheetRef, int]) -> None:
        for ref, version in versions.items():
            self.note(ref, version)

    def reset(self) -> None:
        self.newest = {}

    def forget(self) -> None:
        self.newest = {ref: version for ref, version in self.newest.items() if ref.kind in OUTLASTING}


def sign(message: bytes) -> bytes:
    return sha256(b"rights" + message).digest() * 2


def verify(message: bytes, signature: bytes) -> bool:
    return signature == sign(message)


def macs(tenant: str = "default", *, has_rights: bool = True, told: list[str] | None = None) -> Macs:
    return Macs(
        tenant,
        derived_key(MASTER, tenant, "effects"),
        verify=verify,
        sign=sign if has_rights else None,
        newest=Remembered(),
        tell=(told if told is not None else []).append,
    )


def checked(by: Macs, sheet: Sheet) -> Sheet:
    return by.checked(sheet, by.known([sheet.ref]))


def believed(by: Macs, sheets: Sheets) -> Sheets:
    return by.believed(sheets, by.known(sheets))


def believed_list(by: Macs, found: list[Sheet], selected: SheetFilter) -> list[Sheet]:
    return by.believed_list(found, selected, by.known_of(selected))


def written(by: Macs, sheet: Sheet, before: Sheet | None = None) -> Sheet:
    """Return a sheet as it is read after it was written."""
    return replace(sheet, mac=by.of_sheet(sheet, before))


def stop(*, is_in_force: bool, version: int = 1) -> Sheet:
    said = Stop(version=version, is_in_force=is_in_force, by=SYSTEM.id, at=NOON, reason="a drill")
    return replace(stop_sheet(said), run_id="indelible:stops", seq=version - 1)


def approval(status: str = "approved", votes: int = 1, **more: Any) -> Sheet:
    content = {"digest": "aa", "votes": [{"by": f"person-{number}"} for number in range(votes)], **more}
    return Sheet(kind="approval", id="apr_1", status=status, body=body_of(content), run_id="r", seq=3)


def grant(uses_left: int = 3, version: int = 1, tool: str = "pay", *, is_ended: bool = False) -> Sheet:
    words: dict[str, Any] = {"pin": None, "pinned": "aa", "schema": "s", "policy": "p", "rule": "r"}
    until = NOON + HOUR
    given = Grant(
        id="g", version=version, tool=tool, uses_left=uses_left, until=until, given_by="ada", approval_id="a", **words
    )
    return replace(grant_sheet(replace(given, is_ended=is_ended)), run_id="r", seq=version)


def test_each_tenant_and_each_use_has_a_key_of_its_own() -> None:
    keys = {derived_key(MASTER, tenant, use) for tenant in ("a", "b") for use in ("effects", "rights")}
    assert len(keys) == 4
    with pytest.raises(AssertionError):
        derived_key(MASTER, "a", "anything")


def test_an_event_is_believed_with_its_own_mac_alone() -> None:
    own, other = macs(), macs("other")
    mac = own.of_event("tool_call_started", HASH)
    assert len(mac) == MAC_BYTES
    assert own.is_of_event("tool_call_started", HASH, mac)
    assert not own.is_of_event("tool_call_started", "cd" * 32, mac)
    assert not own.is_of_event("tool_call_started", HASH, None)
    assert not other.is_of_event("tool_call_started", HASH, mac)
    own.check_head("r", HASH, ("tool_call_started", HASH, mac))
    for found in (None, ("tool_call_started", "cd" * 32, mac), ("tool_call_started", HASH, None)):
        with pytest.raises(RecordForged):
            own.check_head("r", HASH, found)


def test_every_event_that_tells_of_a_right_needs_the_rights_key() -> None:
    of_keys = set(JOURNAL_MEMBERS) - {"journal_heartbeat", "writer_registered"}
    others = {"approval_received", "approval_voted", HOLD_LIFTED, HOLD_PLACED}
    assert {*FACTS_OF_SHEETS, *of_keys, *others} == RIGHT_EVENTS
    whole, worker = macs(), macs(has_rights=False)
    for event_type in sorted(RIGHT_EVENTS):
        mac = whole.of_event(event_type, HASH)
        assert worker.is_of_event(event_type, HASH, mac), "a worker can check what it cannot make"
        assert not worker.is_of_event(event_type, HASH, mac[:MAC_BYTES])
        with pytest.raises(KeyUnusable):
            worker.of_event(event_type, HASH)


_CHANGES: dict[str, Any] = {
    "status": "ready",
    "attempt": 7,
    "version": 9,
    "opened_seq": 8,
    "detail_seq": 8,
    "doubted": 1,
    "created_at": NOON + HOUR,
    "updated_at": NOON + HOUR,
    "charges_json": b"[]",
    "side_effect": "read",
}
_NOT_IN_ROW = {"lease_until", "args_json", "detail_json"}


def test_98_an_event_that_gives_something_is_bound_to_the_losses_that_were_declared_before_it() -> None:
    by, reader = macs(), macs()
    early = {type_: by.of_event(type_, HASH) for type_ in BOUND_EVENTS}
    for number, size in ((1, 10), (2, 6)):
        by.declare_loss(size, 20 + number, "root")
        assert by.newest.version(LOSSES) == number
    assert [losses_needed(by.newest, index) for index in (5, 6, 9, 10, 99)] == [0, 2, 2, 2, 2]
    assert [next_loss(by.newest, index) for index in (0, 6, 10)] == [6, 10, None]
    assert losses_needed(reader.newest, 99) == 0
    assert by.lost_heads() == [(21, "root"), (22, "root")]
    assert losses_kept(by.newest) == by.newest.kept(["ends"])
    assert reader.is_of_event("approval_voted", HASH, by.of_event("approval_voted", HASH))
    for type_ in BOUND_EVENTS:
        assert by.is_of_event(type_, HASH, by.of_event(type_, HASH))
        late = by.of_event(type_, HASH)
        assert late != early[type_]
        assert reader.is_of_event(type_, HASH, early[type_])
        assert reader.is_of_event(type_, HASH, late)
        assert is_after_losses(type_, late, 2)
        assert not is_after_losses(type_, early[type_], 2)
        assert not is_after_losses(type_, None, 1)
        for forged in (early[type_] + late[-8:], late[:-8], late[:-1] + b"\1"):
            assert not reader.is_of_event(type_, HASH, forged)
        assert reader.of_event(type_, HASH) == late, "it read of the losses"
    assert by.of_event("tool_call_started", HASH) == reader.of_event("tool_call_started", HASH)
    assert is_after_losses("tool_call_started", None, 2)
    reader.declare_loss(20, 30, "root")
    assert reader.newest.version(LOSSES) == 3, "those that it read of are counted too"


def test_98_what_was_seen_of_a_part_that_is_lost_counts_for_nothing_once_the_stop_tells_of_the_loss() -> None:
    by, reader = macs(), macs()
    reader.newest.note(budget_ref("daily"), 9)
    sheets: Sheets = {budget_ref("daily"): None}
    with pytest.raises(RecordForged):
        believed(reader, sheets)
    by.declare_loss(1, 2, "root")
    sheets[STOP_REF] = written(by, stop(is_in_force=False))
    assert believed(reader, sheets)[budget_ref("daily")] is None
    assert reader.newest.version(budget_ref("daily")) == 0


def test_98_who_reads_the_stop_learns_how_many_losses_were_declared() -> None:
    by, reader = macs(), macs()
    by.declare_loss(1, 2, "root")
    checked(reader, written(by, stop(is_in_force=True)))
    assert reader.of_event("approval_voted", HASH) == by.of_event("approval_voted", HASH)
    forged = replace(written(by, stop(is_in_force=True)), mac=written(by, stop(is_in_force=True)).mac[:-1] + b"\7")  # type: ignore[index]
    assert checked(macs(), forged).body is None


def test_every_column_of_an_effect_is_in_its_mac_but_the_lease() -> None:
    keys, honest = macs(), effect("processing")
    mac = keys.of_effect(honest)
    for field in fields(honest):
        changed = (
            replace(honest, **{field.name: _CHANGES.get(field.name, "other")})
            if field.name not in _NOT_IN_ROW
            else honest
        )
        assert (keys.of_effect(changed) == mac) is (field.name in _NOT_IN_ROW), field.name
    assert keys.of_effect(replace(honest, lease_until=NOON + HOUR)) == mac


def test_an_effect_is_believed_with_its_own_row_arguments_and_detail_alone() -> None:
    keys = macs()
    done = effect("succeeded", detail_seq=2, detail_json=b'"paid"')
    assert done.args_json is not None
    own = keys.of_effect(done)
    args = keys.of_payload(done.run_id, done.opened_seq, "args", done.args_json)
    result = keys.of_payload(done.run_id, 2, "result", b'"paid"')
    keys.check_effect(done, own, args, result)
    keys.check_effect(replace(done, args_json=None, detail_json=None), own, None, None)  # erased
    keys.check_effect(effect("processing"), keys.of_effect(effect("processing")), args, None)
    for wrong in (
        (None, args, result),
        (own, None, result),
        (own, result, result),
        (own, args, None),
        (own, args, args),
    ):
        with pytest.raises(RecordForged):
            keys.check_effect(done, *wrong)
    with pytest.raises(RecordForged):
        keys.check_effect(replace(done, status="failed"), own, args, result)


def test_a_sheet_is_believed_as_it_was_written_and_not_otherwise() -> None:
    told: list[str] = []
    keys = macs(told=told)
    run = written(keys, Sheet(kind="run", id="r", status="active", body=b"{}", run_id="r", seq=0, created_at=NOON))
    assert checked(keys, run) == run
    for changed in (
        replace(run, status="completed"),
        replace(run, topic="other"),
        replace(run, due_at=NOON),
        replace(run, seq=1),
        replace(run, run_id="s"),
        replace(run, id="s"),
        replace(run, version=2),
        replace(run, created_at=NOON + timedelta(microseconds=1)),
        replace(run, body=b'{"a":1}'),
        replace(run, mac=None),
    ):
        found = checked(keys, changed)
        assert found.body is None, "nothing is decided on it"
        assert found.guard == changed.version, "it is written over as it stands"
    assert checked(keys, replace(run, body=None)).body is None, "it was erased"
    assert len(told) == 2, "each row is told of once"


def test_a_sheet_that_no_event_commits_to_raises_when_it_is_not_believed() -> None:
    keys = macs()
    limit = written(keys, Sheet(kind="limit", id="r", status="active", body=b"{}"))
    assert checked(keys, limit) == limit
    for changed in (replace(limit, body=b'{"a":1}'), replace(limit, body=None)):
        with pytest.raises(RecordForged):
            checked(keys, changed)


@pytest.mark.parametrize(
    "sheet", [stop(is_in_force=False), approval(), approval("pending"), grant()], ids=lambda one: one.kind
)
def test_an_effects_key_makes_no_right(sheet: Sheet) -> None:
    whole, worker = macs(), macs(has_rights=False)
    right = written(whole, sheet)
    assert checked(worker, right) == right
    with pytest.raises(KeyUnusable):
        worker.of_sheet(sheet, None)
    forged = replace(sheet, mac=right.mac[:MAC_BYTES] if right.mac else None)
    assert checked(worker, forged).body is None
    assert checked(worker, replace(right, mac=(right.mac or b"")[:MAC_BYTES] + bytes(72))).body is None


def test_a_worker_uses_votes_and_grants_and_adds_none() -> None:
    whole, worker = macs(), macs(has_rights=False)
    voted = written(whole, approval())
    used = replace(voted, version=2, status="consumed", seq=4)
    assert checked(worker, written(worker, used, voted)) == used
    given_back = replace(voted, version=3, status="approved", seq=5)
    again = written(worker, given_back, voted)
    assert checked(worker, again) == given_back, "it is handed back with the votes that it had"
    for more in (approval(votes=2), approval(digest="bb")):
        with pytest.raises(KeyUnusable):
            worker.of_sheet(replace(more, version=2), voted)
    assert checked(worker, written(worker, approval("pending", votes=0))).body is not None, "a question is no right"
    asked = written(worker, approval("pending", votes=0))
    with pytest.raises(KeyUnusable):
        worker.of_sheet(approval("pending"), asked)
    with pytest.raises(KeyUnusable):
        worker.of_sheet(approval("approved"), replace(voted, body=None))


def test_37_a_used_approval_keeps_its_signature_and_needs_none() -> None:
    """So a worker without the rights key can give it back if its handler did nothing."""
    worker, approved, used = macs(has_rights=False), written(macs(), approval()), approval("consumed")
    consumed = written(worker, used, approved)
    assert checked(worker, consumed) == consumed
    assert checked(macs(), written(worker, approval(), consumed)).body is not None, "it is given back"
    unsigned = written(worker, used)
    assert checked(worker, unsigned) == unsigned
    with pytest.raises(KeyUnusable):
        written(worker, approval(), unsigned)


def test_a_grant_is_used_up_and_never_filled_again() -> None:
    whole, worker = macs(), macs(has_rights=False)
    given = written(whole, grant(3))
    used = written(worker, grant(2, version=2), given)
    assert checked(worker, used) == used
    assert checked(worker, written(worker, grant(1, version=3), used)).body is not None
    with pytest.raises(KeyUnusable):
        worker.of_sheet(grant(4, version=2), given)
    with pytest.raises(KeyUnusable):
        worker.of_sheet(grant(2, version=2, tool="wire"), given)


@pytest.mark.parametrize(("uses", "is_believed"), [(2, True), (3, True), (4, False)])
def test_the_signature_of_a_grant_holds_for_no_more_uses_than_were_given(uses: int, is_believed: bool) -> None:
    """The first part of a mac is made with the effects key alone, the rest is the signature that the grant had."""
    keys = macs()
    given, more = written(keys, grant(3)), written(keys, grant(uses, version=2))
    row = replace(more, mac=(more.mac or b"")[:MAC_BYTES] + (given.mac or b"")[MAC_BYTES:])
    assert (checked(keys, row).body is not None) == is_believed


def test_an_older_right_that_is_put_back_gives_nothing() -> None:
    keys = macs()
    first, second = written(keys, grant(3)), written(keys, grant(3, version=2, is_ended=True))
    assert checked(keys, first) == first
    assert checked(keys, second) == second
    found = checked(keys, first)
    assert (found.body, found.version, found.guard) == (None, 1, 1), "its end is told as the next version"


def test_98_the_effects_key_revives_no_grant_that_a_person_ended() -> None:
    whole, worker = macs(), macs(has_rights=False)
    given = written(whole, grant(3))
    ended = written(whole, grant(3, version=2, is_ended=True), given)
    with pytest.raises(KeyUnusable):
        worker.of_sheet(grant(3, version=3), ended)
    revived = written(worker, grant(3, version=3), given)  # with the signature of the row before it was ended
    assert checked(whole, revived).body is not None, "nothing is known of its end here"
    assert checked(whole, ended) == ended
    assert checked(whole, revived).body is None
    assert checked(whole, ended) == ended, "what gives nothing is never too old"


def test_98_a_row_that_changed_after_it_was_read_was_not_put_back() -> None:
    """One thread reads a grant; another one uses it, and notes its new version, before the first one looks at it."""
    keys = macs()
    first, second = written(keys, grant(3)), written(keys, grant(2, version=2))
    known, of_kind = keys.known([first.ref]), keys.known_of(SheetFilter(kind="grant"))
    assert checked(keys, second) == second
    assert keys.checked(first, known) == keys.checked(first, of_kind) == first
    assert checked(keys, first).body is None, "read after that, it was put back"


def test_an_old_stop_is_believed_and_an_old_end_of_a_stop_is_not() -> None:
    keys = macs()
    let_go, stopped = written(keys, stop(is_in_force=False, version=2)), written(keys, stop(is_in_force=True))
    keys.newest.note(STOP_REF, 3)
    found = checked(keys, stopped)
    assert (found.body, found.version, found.guard) == (stopped.body, 3, 1)
    assert checked(keys, let_go).body is None


def test_a_remembered_sheet_that_is_gone_is_not_taken_for_none() -> None:
    keys = macs()
    keys.newest.note(STOP_REF, 2)
    keys.newest.note(budget_ref("daily"), 2)
    seen = believed(keys, {STOP_REF: None, SheetRef("policy", "current"): None, SheetRef("limit", "r"): None})
    gone = seen[STOP_REF]
    assert gone is not None
    assert (gone.body, gone.version, gone.guard) == (None, 2, 0)
    assert seen[SheetRef("policy", "current")] is None
    assert seen[SheetRef("limit", "r")] is None
    with pytest.raises(RecordForged):
        believed(keys, {budget_ref("daily"): None})
    assert believed_list(keys, [], SheetFilter(kind="stop")) == []
    assert believed_list(keys, [], SheetFilter(kind="policy", id="current")) == []
    (listed,) = believed_list(keys, [], SheetFilter(kind=STOP_REF.kind, id=STOP_REF.id))
    assert listed.body is None
    run = Sheet(kind="run", id="r", version=0, status="open", body=b"{}")
    assert believed_list(keys, [run], SheetFilter(kind="run", with_unstarted=True)) == [run]
    assert believed_list(keys, [replace(run, version=1)], SheetFilter(kind="run"))[0].body is None


def test_without_the_keys_every_row_is_believed_and_none_is_written() -> None:
    reader, sheet = Unchecked("default", Remembered(), "no key"), stop(is_in_force=True)
    reader.check_effect(effect(), None, None, None)
    assert checked(reader, sheet) == sheet
    assert believed(reader, {STOP_REF: sheet}) == {STOP_REF: sheet}
    assert believed_list(reader, [sheet], SheetFilter(kind="stop")) == [sheet]
    for make in (
        lambda: reader.of_event("tool_call_started", HASH),
        lambda: reader.of_payload("r", 0, "args", b"1"),
        lambda: reader.of_effect(effect()),
        lambda: reader.of_sheet(sheet, None),
        lambda: reader.is_of_event("tool_call_started", HASH, bytes(MAC_BYTES)),
    ):
        with pytest.raises(KeyUnusable, match="no key"):
            make()


def test_who_could_not_stop_effects_is_refused_before_it_seals() -> None:
    macs().check_signs()
    for other in (macs(has_rights=False), Unchecked("default", macs().newest, "no keys")):
        with pytest.raises(KeyUnusable):
            other.check_signs()
