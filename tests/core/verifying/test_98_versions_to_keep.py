"""Which versions of rights are remembered: what events told, also where the row is an older one that was put back."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from indelible.core.effects.effect import SYSTEM
from indelible.core.effects.stops import Stop, stop_sheet
from indelible.core.events import Payload
from indelible.core.journal.set_back import stop_of_set_back
from indelible.core.macs import ENDED, ENDS, Macs, Newest
from indelible.core.sheets import Sheet, SheetRef
from indelible.core.verifying.unsealed import HELD, LET_GO, MOVED, ToldOf, ends_in, remembered_in, versions_to_keep

TOKEN, POLICY = SheetRef("credential", "key_1"), SheetRef("policy", "current")
GRANT = SheetRef("grant", "grt_1")


def payload(field: str, value: bytes) -> Payload:
    return Payload("indelible:credentials", 5, field, b"s" * 32, value)


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("credential", b'{"id":"key_1","version":2}', [(TOKEN, 2)]),
        ("policy", b'{"version":"9232e480"}', [(POLICY, 0)]),
        ("charges", b'[["money","60","100",86400000000,7]]', [(SheetRef("budget", "money"), 7)]),
        ("charges", b'[["money","60","100",86400000000]]', []),
        ("grant", b'{"id":"grt_1","is_ended":false,"version":2}', [(GRANT, 2)]),
        ("grant", b'{"id":"grt_1","is_ended":true,"version":3}', [(GRANT, ENDED)]),
        ("reason", b'{"id":"key_1","version":2}', []),
        ("credential", b"encrypted", []),
        ("credential", b"[]", []),
    ],
)
def test_98_what_an_event_tells_of_remembered_sheets(
    field: str, value: bytes, told: list[tuple[SheetRef, int]]
) -> None:
    found = remembered_in(payload(field, value))
    assert [(one.ref, one.version) for one in found] == told
    assert all((one.run_id, one.seq) == ("indelible:credentials", 5) for one in found)


ANA = SheetRef(ENDS, "per_1")
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def stopped(*, is_in_force: bool) -> bytes:
    stop = Stop(version=4, is_in_force=is_in_force, by=SYSTEM.id, at=NOW, reason="why")
    return stop_sheet(stop).body or b""


def set_back(*, was_moved: bool = False) -> bytes:
    stop = stop_of_set_back(None, 7, NOW, was_moved=was_moved)
    assert stop is not None
    return stop_sheet(stop).body or b""


@pytest.mark.parametrize(
    ("field", "event_type", "value", "told"),
    [
        *(
            ("person", event_type, b'{"id":"per_1","version":3}', [(ANA, 3)])
            for event_type in ("passkey_removed", "person_disallowed", "person_invited", "person_revoked")
        ),
        ("person", "person_signed_in", b'{"id":"per_1","version":3}', []),
        ("person", "person_revoked", b"[]", []),
        ("person", "person_revoked", b"encrypted", []),
        ("stop", "effects_stopped", stopped(is_in_force=True), [(HELD, 4)]),
        ("stop", "effects_let_go", stopped(is_in_force=False), [(LET_GO, 4)]),
        ("stop", "effects_stopped", set_back(), []),
        ("stop", "effects_stopped", set_back(was_moved=True), [(HELD, 1), (MOVED, 1)]),
        ("stop", "effects_stopped", b'{"id":"effects","version":2}', []),
    ],
)
def test_98_what_an_event_tells_of_ends(
    field: str, event_type: str, value: bytes, told: list[tuple[SheetRef, int]]
) -> None:
    found = ends_in(payload(field, value), event_type)
    assert [(one.ref, one.version) for one in found] == told
    assert versions_to_keep(found, []) == dict(told)


def row(ref: SheetRef, version: int, seq: int | None, body: bytes | None = b"{}") -> Sheet:
    return Sheet(kind=ref.kind, id=ref.id, version=version, status="active", body=body, run_id="r", seq=seq)


def test_98_a_row_that_was_put_back_does_not_set_back_what_is_remembered() -> None:
    assert versions_to_keep([ToldOf(TOKEN, 2, "r", 5)], [row(TOKEN, 1, 3)]) == {TOKEN: 2}
    assert versions_to_keep([ToldOf(TOKEN, 2, "r", 5)], []) == {TOKEN: 2}
    assert versions_to_keep([ToldOf(TOKEN, 2, "r", 5)], [row(TOKEN, 4, 9)]) == {TOKEN: 4}


def test_98_where_the_value_tells_no_version_later_events_of_the_row_s_run_count() -> None:
    told = [ToldOf(POLICY, 0, "r", 5), ToldOf(POLICY, 0, "r", 6), ToldOf(POLICY, 0, "other", 7)]
    assert versions_to_keep(told, [row(POLICY, 1, 4)]) == {POLICY: 3}
    assert versions_to_keep(told, [row(POLICY, 3, 6)]) == {POLICY: 3}
    assert versions_to_keep(told, [row(POLICY, 6, None)]) == {POLICY: 6}


def test_98_the_version_of_a_row_that_is_not_believed_counts_for_nothing() -> None:
    assert versions_to_keep([ToldOf(POLICY, 0, "r", 5)], [row(POLICY, 10**9, 5, None)]) == {POLICY: 1}


def test_98_a_value_is_believed_by_its_mac(newest: Newest) -> None:
    macs = Macs("default", bytes(32), verify=lambda *_: True, sign=None, newest=newest, tell=print)
    one = payload("credential", b"{}")
    own = one._replace(mac=macs.of_payload(one.run_id, one.seq, one.field, one.value))
    assert [macs.is_of_payload(each) for each in (one, own, own._replace(value=b"[]"))] == [False, True, False]


@pytest.fixture
def newest() -> Newest:
    """Nothing is remembered here."""

    class Nothing:
        def version(self, ref: SheetRef) -> int:
            return 0

    return Nothing()  # type: ignore[return-value]
