"""Bytes and meanings of very many values agree: as many as INDELIBLE_FUZZ says."""

from __future__ import annotations

import os
import random
import struct
import sys
from collections import OrderedDict, UserDict
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from hashlib import blake2b
from typing import Any
from uuid import UUID

import pytest
import rfc8785

from indelible.core.values import canonical
from indelible.core.values.canonical import MAX_DEPTH, decode, encode
from tests.core.values.oracle import meaning
from tests.core.values.recorded import SAFE, Colour, Level, Real, Rights, Text, Whole, Word


class Sampler(random.Random):
    """Draws values from small pools, so that equal values and near misses meet often."""

    TEXTS = (
        "",
        "1",
        "a",
        "b",
        "\u00e9",
        "e\u0301",
        "\U0001f600",
        "\ufb33",
        "true",
        "null",
        "AQ==",
        "$",
        "$int",
        '"\\\n',
    )
    KEYS = ("", "a", "b", "$", "$$", "$int", "$$int", "$decimal", "$bytes", "\u00e9", "\U0001f600", "\ufb33", "\uffff")
    INTS = (0, 1, -1, 2, 10, SAFE, -SAFE, SAFE + 1, -SAFE - 1, 10**16, 10**21, 2**64, 2**64 + 1)
    FLOATS = (0.0, -0.0, 1.0, -1.0, 0.1, 1.5, 1e-7, 1e16, 1e21, 2.0**53, -(2.0**53), 2.0**64, 5e-324, 1e300)
    DECIMALS = ("0", "-0", "1", "1.0", "1.00", "10", "1E+1", "0.1", "0.10", "1E+20", "1E+21", "1E-22", "12.5", "100")
    DAYS = (date(2024, 1, 1), date(2024, 1, 2), date(1, 1, 2))

    def value(self, depth: int = 3) -> Any:
        kind = self.randrange(14 if depth else 11)
        if kind >= 11:
            return self.container(depth)
        return self.scalar(kind)

    def container(self, depth: int) -> Any:
        size = self.choice((0, 1, 1, 2, 3))
        if self.random() < 0.4:
            return [self.value(depth - 1) for _ in range(size)]
        return {self.choice(self.KEYS): self.value(depth - 1) for _ in range(size)}

    def scalar(self, kind: int) -> Any:
        if kind == 0:
            return self.choice((None, True, False))
        if kind == 1:
            return self.choice(self.TEXTS) + self.choice(self.TEXTS)
        if kind == 2:
            return self.choice(self.INTS) if self.random() < 0.7 else self.randrange(-(2**70), 2**70)
        if kind == 3:
            return self.choice(self.FLOATS) if self.random() < 0.5 else self.double()
        if kind == 4:
            return Decimal(self.choice(self.DECIMALS)) if self.random() < 0.6 else self.decimal()
        if kind == 5:
            return self.randbytes(self.randrange(3))
        if kind == 6:
            return self.moment()
        if kind == 7:
            return self.choice((*self.DAYS, timedelta(self.randrange(3), 0, self.randrange(3))))
        if kind == 8:
            return time(self.randrange(24), 0, 0, self.choice((0, 1, 500_000)))
        if kind == 9:
            return UUID(int=self.getrandbits(self.choice((2, 128))))
        return self.choice((Colour.RED, Level.LOW, Word.YES, Rights.READ, "red", 2, "yes"))

    def plain(self, depth: int = 3) -> Any:
        """Returns a value that the quick way takes."""
        size = self.randrange(4)
        if depth and self.random() < 0.3:
            return [self.plain(depth - 1) for _ in range(size)]
        if depth and self.random() < 0.5:
            return {self.plain_text()[:size]: self.plain(depth - 1) for _ in range(size)}
        return self.choice((None, True, False, self.randrange(-SAFE, SAFE + 1), self.plain_text(), *self.TEXTS))

    def plain_text(self) -> str:
        return "".join(chr(self.randrange(128)) for _ in range(5)).lstrip("$")

    def double(self) -> float:
        while True:
            (value,) = struct.unpack("d", self.randbytes(8))
            if value - value == 0:
                return float(value)

    def decimal(self) -> Decimal:
        return Decimal(self.randrange(-(10**6), 10**6)).scaleb(self.randrange(-40, 40))

    def moment(self) -> datetime:
        wall = datetime(2024, 1, self.randrange(1, 3), self.randrange(24), 0, 0, self.choice((0, 1)))  # noqa: DTZ001
        zone = self.choice((None, UTC, timezone(timedelta(hours=self.randrange(-3, 4)))))
        return wall.replace(tzinfo=zone)

    def disguise(self, value: Any) -> Any:
        """Returns an equal value that looks different to Python."""
        if isinstance(value, list):
            return self.choice((list, tuple))(map(self.disguise, value))
        if isinstance(value, dict):
            shuffled = [(self.choice((str, Text))(key), self.disguise(item)) for key, item in value.items()]
            self.shuffle(shuffled)
            return self.choice((dict, OrderedDict, UserDict))(shuffled)
        if isinstance(value, Enum):
            return value.value
        if type(value) is int:
            return float(value) if abs(value) <= SAFE else Whole(value)
        if type(value) is float:
            return int(value) if value.is_integer() and abs(value) <= SAFE else Real(value)
        if isinstance(value, Decimal):
            return self.rescaled(value)
        if isinstance(value, bytes):
            return self.choice((bytearray, memoryview))(value)
        if isinstance(value, datetime) and value.tzinfo:
            return value.astimezone(timezone(timedelta(minutes=self.randrange(-600, 600))))
        return Text(value) if type(value) is str else value

    def rescaled(self, value: Decimal) -> Decimal:
        sign, digits, exponent = value.as_tuple()
        assert isinstance(exponent, int)
        zeros = self.randrange(4)
        return Decimal((sign, (*digits, *[0] * zeros), exponent - zeros))

    def twist(self, value: Any) -> Any:
        """Returns a value that differs in one place, or by chance does not; the oracle knows."""
        if isinstance(value, list) and value:
            at = self.randrange(len(value))
            return [*value[:at], self.twist(value[at]), *value[at + 1 :]]
        if isinstance(value, dict) and value:
            key = self.choice(list(value))
            rest = {each: item for each, item in value.items() if each != key}
            return rest | self.choice(({key: self.twist(value[key])}, {"$" + key: value[key]}, {key[1:]: value[key]}))
        if isinstance(value, bool | None):
            return self.choice((0, 1, None, "null", True, False))
        if isinstance(value, int | float):
            return self.choice((value + 1, -value, bool(value), str(value), Decimal(value), {"$int": str(value)}))
        if isinstance(value, Decimal):
            return self.choice((-value, {"$decimal": str(value)}, str(value), value + 1))
        if isinstance(value, bytes):
            return self.choice((value + b"\0", value.hex(), {"$bytes": "AQ=="}))
        if isinstance(value, datetime):
            return self.choice(
                (value.replace(tzinfo=None), value.isoformat(), value.date(), value + timedelta(hours=1))
            )
        return self.choice((str(value), [value], {"a": value}, value))


def short_hash(data: bytes) -> int:
    return int.from_bytes(blake2b(data, digest_size=8).digest())


FUZZ_COUNT = int(os.environ.get("INDELIBLE_FUZZ", "15000"))
FUZZ_SEED = int(os.environ.get("INDELIBLE_FUZZ_SEED", "1"))


@pytest.mark.timeout(0)
def test_the_quick_way_agrees_with_rfc_8785_on_many_values() -> None:
    sampler = Sampler(FUZZ_SEED)
    for _ in range(FUZZ_COUNT):
        value = {"a": sampler.plain()}
        assert canonical._encode_plain(value, MAX_DEPTH, sys.maxsize) == rfc8785.dumps(value), value
        assert decode(encode(value)) == value


@pytest.mark.timeout(0)
def test_equal_values_have_equal_bytes_and_unequal_values_do_not() -> None:
    """Draws INDELIBLE_FUZZ values (15,000 unless told; a million takes minutes) and compares each with all others."""
    sampler = Sampler(FUZZ_SEED)
    bytes_of_meaning: dict[int, int] = {}
    meaning_of_bytes: dict[int, int] = {}
    equal_pairs = 0
    for _ in range(FUZZ_COUNT // 2):
        one = sampler.value()
        other = sampler.choice((sampler.disguise, sampler.twist))(one)
        pair = []
        for value in (one, other):
            data, sense = encode(value), meaning(value)
            recorded, meant = short_hash(data), short_hash(repr(sense).encode())
            assert bytes_of_meaning.setdefault(meant, recorded) == recorded, value
            assert meaning_of_bytes.setdefault(recorded, meant) == meant, value
            assert encode(decode(data)) == data
            pair.append((data, sense))
        (data, sense), (other_data, other_sense) = pair
        assert (data == other_data) == (sense == other_sense), (one, other)
        equal_pairs += data == other_data
    assert FUZZ_COUNT / 5 < equal_pairs < FUZZ_COUNT / 2  # both sides of "exactly when" were exercised
