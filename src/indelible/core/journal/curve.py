"""Is this an Ed25519 public key that one person can hold? Pure arithmetic, for keys that come from strangers.

A key outside the large prime-order group (or written in a second way) lets one signature fit many messages or many
keys. Libraries accept such keys; a verifier must not.
"""

from __future__ import annotations

from functools import lru_cache

_P = 2**255 - 19
_L = 2**252 + 27742317777372353535851937790883648493
_D = -121665 * pow(121666, -1, _P) % _P
_SQRT_OF_MINUS_ONE = pow(2, (_P - 1) // 4, _P)

_Point = tuple[int, int, int, int]
_NEUTRAL: _Point = (0, 1, 1, 0)


@lru_cache(maxsize=256)
def why_weak(raw: bytes) -> str | None:
    """Says why these bytes are no public key to be trusted, or None when they are one."""
    if len(raw) != 32:
        return f"an Ed25519 key has 32 bytes, not {len(raw)}"
    number = int.from_bytes(raw, "little")
    y, is_odd = number & (1 << 255) - 1, number >> 255
    if y >= _P:
        return "the key is not written in its one canonical form"
    x = _x_of(y)
    if x is None:
        return "the key is no point of the curve"
    if x == 0:
        return "the key has a low order"
    if x & 1 != is_odd:
        x = _P - x
    point = (x, y, 1, x * y % _P)
    if _is_neutral(_times(8, point)):
        return "the key has a low order"
    if not _is_neutral(_times(_L, point)):
        return "the key has a mixed order"
    return None


def _x_of(y: int) -> int | None:
    """Solves the curve's equation for x, up to its sign."""
    square = (y * y - 1) * pow(_D * y * y + 1, -1, _P) % _P
    x = pow(square, (_P + 3) // 8, _P)
    if (x * x - square) % _P:
        x = x * _SQRT_OF_MINUS_ONE % _P
    return None if (x * x - square) % _P else x


def _times(count: int, point: _Point) -> _Point:
    total = _NEUTRAL
    while count:
        if count & 1:
            total = _plus(total, point)
        point = _plus(point, point)
        count >>= 1
    return total


def _plus(one: _Point, other: _Point) -> _Point:
    """Adds two points in extended coordinates (RFC 8032, section 5.1.4)."""
    x1, y1, z1, t1 = one
    x2, y2, z2, t2 = other
    a = (y1 - x1) * (y2 - x2) % _P
    b = (y1 + x1) * (y2 + x2) % _P
    c = 2 * t1 * t2 * _D % _P
    d = 2 * z1 * z2 % _P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % _P, g * h % _P, f * g % _P, e * h % _P


def _is_neutral(point: _Point) -> bool:
    x, y, z, _ = point
    return x % _P == 0 and (y - z) % _P == 0
