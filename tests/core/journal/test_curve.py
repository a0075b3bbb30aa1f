"""Promises of core.journal.curve: only a key of the large prime order, in its one form, is called a key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from hypothesis import given
from hypothesis import strategies as st

from indelible.core.journal.curve import why_weak
from indelible.core.journal.notes import PublicKey
from indelible.errors import BadNote

P = 2**255 - 19
D = -121665 * pow(121666, -1, P) % P
VECTORS: list[dict[str, Any]] = json.loads((Path(__file__).parents[1] / "vectors" / "rfc8032.json").read_text("utf-8"))

SMALL_ORDER = {
    "0100000000000000000000000000000000000000000000000000000000000000": 1,
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f": 2,
    "0000000000000000000000000000000000000000000000000000000000000000": 4,
    "0000000000000000000000000000000000000000000000000000000000000080": 4,
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05": 8,
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85": 8,
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a": 8,
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa": 8,
}
"""All points of small order, each with its order."""

SECOND_WRITINGS = [
    "0100000000000000000000000000000000000000000000000000000000000080",  # 1, with the sign of an x that is 0
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",  # -1, likewise
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",  # p for 0
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",  # p + 1 for 1
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
]
"""All other writings of the same points."""

Point = tuple[int, int]


def plus(one: Point, other: Point) -> Point:
    """Adds by the curve's own law, in plain coordinates: slow, and nothing like the code it judges."""
    (x1, y1), (x2, y2) = one, other
    product = D * x1 * x2 * y1 * y2
    x = (x1 * y2 + x2 * y1) * pow(1 + product, -1, P) % P
    y = (y1 * y2 + x1 * x2) * pow(1 - product, -1, P) % P
    return x, y


def point_of(raw: bytes) -> Point:
    """Finds the point by trying both roots; fails for what is none."""
    number = int.from_bytes(raw, "little")
    y, sign = number % 2**255, number >> 255
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    root = pow(square, (P + 3) // 8, P)
    found = [x for x in (root, root * pow(2, (P - 1) // 4, P) % P) if x * x % P == square]
    x = found[0]
    return (x if x % 2 == sign else -x % P), y


def written(point: Point) -> bytes:
    x, y = point
    return (y | (x & 1) << 255).to_bytes(32, "little")


def public_of(secret: bytes) -> bytes:
    return Ed25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()


secrets = st.binary(min_size=32, max_size=32)


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_the_keys_of_rfc_8032_are_keys_and_verify_its_signatures(vector: dict[str, Any]) -> None:
    raw, message, signature = (bytes.fromhex(vector[name]) for name in ("public", "message", "signature"))
    assert raw == public_of(bytes.fromhex(vector["secret"]))
    assert why_weak(raw) is None
    key = PublicKey("rfc8032", raw)
    assert key.verifies(signature, message)
    assert not key.verifies(signature, message + b"x")
    for number in range(64):
        assert not key.verifies(bytes([*signature[:number], signature[number] ^ 1, *signature[number + 1 :]]), message)


@pytest.mark.parametrize("length", [0, 1, 63, 65, 128])
def test_a_signature_of_another_length_is_none(length: int) -> None:
    vector = VECTORS[0]
    signature = (bytes.fromhex(vector["signature"]) * 2)[:length]
    assert not PublicKey("rfc8032", bytes.fromhex(vector["public"])).verifies(signature, b"")


@given(secrets)
def test_whatever_key_somebody_makes_is_one(secret: bytes) -> None:
    raw = public_of(secret)
    assert why_weak(raw) is None
    assert why_weak(bytes([*raw[:31], raw[31] ^ 0x80])) is None, "its negative is a key too, of another secret"


def test_the_list_of_small_orders_is_complete() -> None:
    points = {point_of(bytes.fromhex(text)) for text in SMALL_ORDER}
    assert len(points) == 8
    assert {plus(one, other) for one in points for other in points} == points
    for text, order in SMALL_ORDER.items():
        point = point_of(bytes.fromhex(text))
        total, count = point, 1
        while total != (0, 1):
            total, count = plus(total, point), count + 1
        assert count == order
        assert written(point).hex() == text


@pytest.mark.parametrize("text", SMALL_ORDER)
def test_a_key_of_small_order_is_refused(text: str) -> None:
    assert why_weak(bytes.fromhex(text)) == "the key has a low order"
    with pytest.raises(BadNote, match="low order"):
        PublicKey("anybody", bytes.fromhex(text))


@pytest.mark.parametrize("text", SECOND_WRITINGS)
def test_a_second_writing_of_such_a_key_is_refused_too(text: str) -> None:
    assert why_weak(bytes.fromhex(text)) in (
        "the key has a low order",
        "the key is not written in its one canonical form",
    )


def test_why_a_small_order_must_be_refused() -> None:
    """Libraries take the neutral key, and under it one signature fits every message."""
    neutral = b"\1" + bytes(31)
    one_for_all = neutral + bytes(32)
    for message in (b"pay 5", b"pay 5000"):
        Ed25519PublicKey.from_public_bytes(neutral).verify(one_for_all, message)


def test_numbers_beyond_the_field_are_refused_whatever_point_they_mean() -> None:
    for y in range(P, 2**255):
        for sign in (0, 1 << 255):
            assert why_weak((y | sign).to_bytes(32, "little")) == "the key is not written in its one canonical form"


@given(secrets, st.sampled_from([text for text, order in SMALL_ORDER.items() if order > 1]))
def test_a_key_of_mixed_order_is_refused(secret: bytes, small: str) -> None:
    mixed = plus(point_of(public_of(secret)), point_of(bytes.fromhex(small)))
    assert why_weak(written(mixed)) == "the key has a mixed order"


def test_bytes_that_are_no_point_are_refused() -> None:
    wrong = 0
    for y in range(2, 200):
        square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
        is_point = pow(square, (P - 1) // 2, P) == 1
        why = why_weak(y.to_bytes(32, "little"))
        assert (why == "the key is no point of the curve") == (not is_point)
        wrong += not is_point
    assert wrong > 50, "about half of all numbers belong to no point"


@pytest.mark.parametrize("length", [0, 31, 33, 64])
def test_a_key_of_another_length_is_refused(length: int) -> None:
    assert why_weak(bytes(length)) == f"an Ed25519 key has 32 bytes, not {length}"
