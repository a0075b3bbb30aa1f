"""What is on a sheet counts only if it is what its event commits to."""

from __future__ import annotations

import pytest

from indelible.core.events import commitment
from indelible.core.sheets import attested_body

SALT, VALUE = bytes(range(32)), b'{"status":"pending"}'
EVENT = b'{"commits":{"approval":"%s"}}' % commitment(SALT, "approval", VALUE).encode()


def test_what_an_event_commits_to_is_given() -> None:
    assert attested_body("approval", VALUE, SALT, EVENT) == VALUE


@pytest.mark.parametrize(
    ("kind", "value", "salt", "event"),
    [
        ("approval", b'{"status":"approved"}', SALT, EVENT),
        ("approval", VALUE, bytes(32), EVENT),
        ("grant", VALUE, SALT, EVENT),
        ("approval", VALUE, SALT, b'{"commits":{}}'),
        ("approval", VALUE, SALT, EVENT.replace(b"approval", b"grant")),
        ("approval", None, SALT, EVENT),
        ("approval", VALUE, None, EVENT),
        ("approval", VALUE, SALT, None),
    ],
)
def test_anything_else_is_as_good_as_gone(
    kind: str, value: bytes | None, salt: bytes | None, event: bytes | None
) -> None:
    assert attested_body(kind, value, salt, event) is None
