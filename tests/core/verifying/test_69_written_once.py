"""What could be written in two ways, or is no date, is refused; a line by a key that the journal names has to fit."""

from __future__ import annotations

import pytest

from indelible.core.events import commitment
from indelible.core.journal.notes import Note, Signature
from indelible.core.verifying.bodies import is_instant
from indelible.core.verifying.findings import Caught
from indelible.core.verifying.payloads import Disclosed, PayloadTally
from indelible.core.verifying.trust import SignedHead
from tests.core.verifying.test_trust import KEYS, rotated, signed

SALT = b"s" * 32


@pytest.mark.parametrize(
    ("date", "is_one"),
    [
        *(("2024-02-29", True), ("2000-02-29", True), ("2026-02-28", True), ("2026-12-31", True), ("0001-01-01", True)),
        *(("2026-02-29", False), ("1900-02-29", False), ("2026-02-31", False), ("2026-04-31", False)),
        *(("2026-13-01", False), ("2026-00-01", False), ("2026-01-00", False), ("0000-01-01", False)),
    ],
)
def test_69_a_date_exists(date: str, is_one: bool) -> None:
    assert is_instant(f"{date}T12:00:00.000000Z") is is_one


@pytest.mark.parametrize(
    "value",
    [
        *(b'{ "a":1}', b'{"b":1,"a":2}', b'{"a":1,"a":2}', b'{"a":1.0}', b'{"a":1e2}', b'{"a":-0}', b'{"a":NaN}'),
        *(
            b'{"a":1e400}',
            b'{"a":"\\u0041"}',
            b'{"a":"\\/"}',
            b'{"$int":"1"}',
            b"\xff",
            b"",
            b"{}\n",
            b"\xef\xbb\xbf{}",
        ),
        b"[" * 100_000 + b"]" * 100_000,
    ],
)
def test_69_a_value_that_is_not_written_canonically_is_refused(value: bytes) -> None:
    with pytest.raises(Caught, match="not written canonically"):
        show("args", value)


@pytest.mark.parametrize(
    ("field", "value", "is_right"),
    [
        *(("args", b'{"a":[1.5,{"$decimal":"1.1"}]}', True), ("key", b"k" * 32, True), ("key", b"k" * 31, False)),
        *(("side_effect_key", "mail-ü".encode(), True), ("side_effect_key", b"\xff", False)),
    ],
)
def test_69_each_field_is_written_in_its_own_way(field: str, value: bytes, is_right: bool) -> None:
    if is_right:
        show(field, value)
        return
    with pytest.raises(Caught):
        show(field, value)


def show(field: str, value: bytes) -> None:
    tally = PayloadTally(keeps_absent=True)
    tally.take("run-1", 0, {field: commitment(SALT, field, value)}, {field: Disclosed(0, field, SALT, value)})


def test_69_the_old_key_s_line_under_a_head_that_both_sign_has_to_fit() -> None:
    chain = rotated((3, 0, 1))
    good = signed(4, 0, 1)
    old, new = good.note.signatures
    lines = (Signature(old.name, old.key_id, bytes(64)), new)
    forged = SignedHead(good.name, Note(good.note.text, lines), good.head)
    for pinned in KEYS[:2]:
        assert chain.check_signed(good, [pinned]) == KEYS[1]
        with pytest.raises(Caught, match="does not fit"):
            chain.check_signed(forged, [pinned])
