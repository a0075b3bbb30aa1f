"""Values of types that a ledger meets, where the published vectors are, and bytes that no ledger writes."""

from __future__ import annotations

import json
from collections import namedtuple
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum, Flag, IntEnum, StrEnum
from pathlib import Path
from typing import Any

from pydantic import BaseModel, RootModel

from indelible.core.values.tags import MAX_INT_DIGITS

HERE = Path(__file__).parents[1]
REFERENCE_PAGE = HERE.parents[1] / "docs" / "reference" / "canonical.md"
SAFE = 2**53 - 1
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def vectors(name: str) -> Any:
    return json.loads((HERE / "vectors" / f"{name}.json").read_text(encoding="utf-8"))["vectors"]


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    LOW = 2


class Word(StrEnum):
    YES = "yes"


class Rights(Flag):
    READ = 1
    WRITE = 2


class Size(Enum):
    BOX = (1, 2)


class Text(str):
    __slots__ = ()


class OtherText(str):
    """Has the content of a str and yet is another key."""

    __slots__ = ()

    def __hash__(self) -> int:
        return 0

    def __eq__(self, other: object) -> bool:
        return self is other


class Whole(int):
    def __repr__(self) -> str:
        return "not a number"


class Real(float):
    pass


Pair = namedtuple("Pair", "x y")


@dataclass
class Payment:
    amount: Decimal
    tags: list[str]


@dataclass
class Late:
    never_set: int = field(init=False)


@dataclass(init=False)
class TextOfRecord(str):
    """Is a text; the first Pythons of 3.11 cannot make up this line by themselves."""


class Line(BaseModel):
    sku: str


class Invoice(BaseModel):
    due: date
    lines: list[Line]


class Numbers(RootModel[list[int]]):
    pass


MALFORMED = [
    "-0",
    '"\\u000a"',
    '"\\u0008"',
    '{"$unknown":"1"}',
    '{"$":1}',
    '{"$int":"9007199254740992","a":1}',
    '{"a":1,"$int":"9007199254740992"}',
    '{"$int":"9007199254740992","$date":"2024-01-01"}',
    '{"$int":9007199254740992}',
    '{"$int":"5"}',
    '{"$int":"9007199254740991"}',
    '{"$int":"+9007199254740992"}',
    '{"$int":"09007199254740992"}',
    '{"$int":"9_007_199_254_740_992"}',
    '{"$int":"1E+999999999999"}',
    '{"$int":"٩٠٠٧١٩٩٢٥٤٧٤٠٩٩٢"}',
    '{"$int":"1' + "0" * MAX_INT_DIGITS + '"}',
    '{"$int":{"$int":"9007199254740992"}}',
    '{"$decimal":"1.10"}',
    '{"$decimal":"1E+2"}',
    '{"$decimal":"-0"}',
    '{"$decimal":"NaN"}',
    '{"$decimal":"sNaN"}',
    '{"$decimal":"Infinity"}',
    '{"$decimal":"1E+9999999999999999999"}',
    '{"$decimal":" 1"}',
    '{"$decimal":""}',
    '{"$decimal":1.5}',
    '{"$datetime":"2024-01-01T00:00:00+00:00"}',
    '{"$datetime":"2024-01-01T00:00:00+02:00Z"}',
    '{"$datetime":"2024-01-01T00:00:00.5Z"}',
    '{"$datetime":"2024-01-01T00:00Z"}',
    '{"$datetime":"2024-13-01T00:00:00"}',
    '{"$date":"20240101"}',
    '{"$date":null}',
    '{"$time":"07:08"}',
    '{"$time":"07:08:09+00:00"}',
    '{"$duration":"1.5"}',
    '{"$duration":"-0"}',
    '{"$duration":"99999999999999999999999999"}',
    '{"$uuid":"{12345678-1234-5678-1234-567812345678}"}',
    '{"$uuid":"12345678123456781234567812345678"}',
    '{"$uuid":"12345678-1234-5678-1234-56781234567A"}',
    '{"$bytes":"AP8"}',
    '{"$bytes":"AP9="}',
    '{"$bytes":"A P8="}',
    '{"$bytes":"é"}',
    '{"a":1,"a":2}',
    '{"$$a":1,"$$a":2}',
    "1.0",
    "1e2",
    "1E21",
    "1e+16",
    "1e-05",
    "1e400",
    "9007199254740993",
    "9" * 5000,
    "NaN",
    "-Infinity",
    '"\\ud800"',
    '"\\u0041"',
    '["\\\\\\\\users\\u00e9"]',
    "",
    " 1",
    "1 ",
    "[1]]",
    "[1",
    "nul",
    "'a'",
    '"a\n"',
]
