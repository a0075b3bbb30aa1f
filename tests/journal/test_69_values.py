"""The verifier of pages takes the same bytes for a value as the core: as many as INDELIBLE_FUZZ says."""

from __future__ import annotations

import os
import random
from base64 import b64encode
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from indelible import Ledger, migrate
from indelible.core.values.canonical import MAX_DEPTH, encode, is_canonical
from indelible.core.values.tags import READ
from indelible.journal.evidence.verification import verify
from indelible.journal.exports.exporting import export
from indelible.journal.exports.selecting import OfRun
from tests.core.values.recorded import MALFORMED, vectors
from tests.core.values.test_canonical_sampled import FUZZ_SEED, Sampler
from tests.journal.exported import call, key_of, store_of
from tests.journal.in_node import in_node
from tests.journal.test_68_rotated import verdicts_of

COUNT = int(os.environ.get("INDELIBLE_FUZZ", "6000"))
VERIFIER = Path(__file__).parents[2] / "src/indelible/journal/exports/report_page/verifier.js"
_JUDGE = r"""
const { readFileSync } = require('node:fs')
const { isRecorded, textOf } = new Function(`${readFileSync(process.argv[1], 'utf8')}; return verifier`)()
const judged = (one) => {
  const text = textOf(new Uint8Array(Buffer.from(one, 'base64')))
  return text !== null && isRecorded(text)
}
console.log(JSON.stringify(JSON.parse(readFileSync(0, 'utf8')).map(judged)))
"""
# One letter of these makes or breaks an escape, a number, a tag, base64 or a date.
LETTERS = rb'\ud08"${}[],:.-+eE015ZTn/=AQx ' + b"\x00\x1f\x7f\xc3\xa9\xed\xff"
TEXTS = (
    "\\ud800",
    "C:\\udata\\\\users",
    "\\\\\\u",
    "\\",
    '"\\u',
    "\u2028\x7f\ufeff",
    "\U0001f600",
    "$",
    "AQ",
    "__proto__",
    "constructor",
)
# Where a text of a tag begins to be another one's.
EDGES: dict[str, tuple[str, ...]] = {
    "$int": ("9007199254740991", "9007199254740992", "-9007199254740992", "1" + "0" * 4299, "1" + "0" * 4300, "09", ""),
    "$decimal": (
        *("0", "-0", "1.10", "1.1", "-0.1", "NaN", "1e5", "0.", ".5", "01", "+1"),
        *("1" + "0" * 20, "1" + "0" * 21, "0." + "0" * 20 + "1", "0." + "0" * 21 + "1", "-12" + "0" * 21),
        *("1E+20", "1E+21", "1E-20", "1E-21", "1E-22", "1.5E+21", "1.50E+30", "1E+021", "1E21", "12E+30"),
        *("1E+999999999999999999", "1E+1000000000000000000", "1.5E+999999999999999999", "1E+99999999999999999999999"),
        *("1E-1999999999999999997", "1E-1999999999999999998", "1.5E-1999999999999999996", "1.5E-1999999999999999997"),
    ),
    "$datetime": (
        *("2024-02-29T00:00:00", "2023-02-29T00:00:00", "0001-01-01T00:00:00Z", "0000-01-01T00:00:00Z"),
        *("9999-12-31T23:59:59.999999Z", "2024-01-01T00:00:00.000000", "2024-01-01T24:00:00", "2024-01-01 00:00:00"),
        *("2024-01-01T00:00:00+00:00", "2024-01-01T00:00:00.1", "2024-01-01T00:00", "2024-W01-1T00:00:00"),
    ),
    "$date": ("2024-02-29", "1900-02-29", "2000-02-29", "20240229", "2024-W01-1", "2024-04-31", "0000-01-01"),
    "$time": ("23:59:59", "24:00:00", "00:00:00.000000", "00:00:00.000001", "12:00", "12:00:00Z", "12:00:60"),
    "$duration": (
        *("0", "-0", "00", "1.0", "-1", "86399999999999999999", "86400000000000000000"),
        *("-86399999913600000000", "-86399999913600000001", "-100000000000000000000"),
    ),
    "$uuid": ("12345678-1234-5678-1234-567812345678", "12345678-1234-5678-1234-56781234567A", "1" * 32, "{" + "1" * 32),
    "$bytes": ("", "AA==", "AB==", "AAA=", "AAB=", "AAAA", "AA", "AA=", "A===", "AAAA====", "AA A", "AA-_", "AA==AA=="),
    "$redacted": ("a" * 64, "A" * 64, "a" * 63, "g" * 64),
    "$encrypted": tuple(
        b64encode(bytes([version, holder]) + b"x" * rest).decode()
        for version in (0, 1, 2)
        for holder in (0, 15, 16, 127, 255)
        for rest in (50, 51, 52, 53)
    ),
}


def tagged() -> Iterator[bytes]:
    """Every tag with the texts at its edges, and with what is no text."""
    for tag, texts in EDGES.items():
        for text in texts:
            yield b'{"%s":"%s"}' % (tag.encode(), text.encode())
        for other in (b"1", b"null", b"[]", b"{}", b"true"):
            yield b'{"%s":%s}' % (tag.encode(), other)
        yield b'{"%s":"%s","a":1}' % (tag.encode(), texts[0].encode())


def deep() -> Iterator[bytes]:
    """Each kind of value inside of nearly as many levels as there may be, and of a few more."""
    inner = [*tagged(), b"1", b'"x"', b"null", b"[]", b"{}", b"[1]", b'{"a":1}', b'{"$$int":"1"}', b'{"$gift":"1"}']
    for levels in range(MAX_DEPTH - 2, MAX_DEPTH + 2):
        for value in inner:
            yield b"[" * levels + value + b"]" * levels
            yield b'{"a":' * levels + value + b"}" * levels
            yield (
                b'[{"$$a":' * (levels // 2) + b"[" * (levels % 2) + value + b"]" * (levels % 2) + b"}]" * (levels // 2)
            )


def altered(data: bytes, rng: random.Random) -> bytes:
    """Bytes that differ in one to three places from others."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        at, letter = rng.randrange(len(changed) + 1), rng.choice(LETTERS)
        if rng.random() < 0.4:
            changed[at:at] = bytes([letter])
        elif rng.random() < 0.6:
            changed[at : at + 1] = bytes([letter])
        else:
            del changed[at : at + rng.choice((1, 2))]
    return bytes(changed)


def drawn(count: int) -> Iterator[bytes]:
    """Values as the core writes them, what one wrong letter makes of them, and bytes of tags drawn at random."""
    sampler = Sampler(FUZZ_SEED)
    for _ in range(count // 4):
        value = sampler.value()
        if sampler.random() < 0.4:
            value = {
                sampler.choice(TEXTS) + sampler.choice(TEXTS): [value, sampler.choice(TEXTS) + sampler.plain_text()]
            }
        data = encode(value)
        yield data
        yield altered(data, sampler)
        tag, text = sampler.choice([(tag, text) for tag, texts in EDGES.items() for text in texts])
        yield altered(b'{"%s":"%s"}' % (tag.encode(), text.encode()), sampler)
        content = b64encode(bytes([sampler.choice((0, 1, 1, 2))]) + sampler.randbytes(sampler.randrange(48, 60)))
        yield b'{"%s":"%s"}' % (sampler.choice((b"$encrypted", b"$bytes")), content)


def test_69_the_verifier_of_pages_takes_the_same_bytes_for_a_value() -> None:
    assert EDGES.keys() == READ.keys(), "a tag without its edges"
    recorded = [text.encode() for text in (*vectors("policy").values(), *MALFORMED)]
    given = list(dict.fromkeys((*recorded, *tagged(), *deep(), *drawn(COUNT))))
    expected = [is_canonical(one) for one in given]
    assert min(sum(expected), len(given) - sum(expected)) > len(given) // 4  # both answers were asked for
    found = in_node(_JUDGE, str(VERIFIER), given=[b64encode(one).decode() for one in given])
    wrong = [
        (data, is_value) for data, is_value, other in zip(given, expected, found, strict=True) if is_value != other
    ]
    print(f"{len(given)} values judged, {len(wrong)} otherwise than by the core")
    assert not wrong, (len(wrong), wrong[:10])


@pytest.mark.parametrize("encrypt", [False, True])
def test_69_the_report_of_a_ledger_takes_every_value_that_the_ledger_took(
    store_url: str, tmp_path: Path, encrypt: bool
) -> None:
    migrate(store_url, keys=tmp_path / "keys")
    deep: Any = [Decimal("1.10"), b"\xff", UUID(int=1), 2**60, date(2028, 2, 29)]
    for _ in range(MAX_DEPTH - 2):  # the arguments are one level, and the list of values is another
        deep = [deep]
    with Ledger.open(store_url, keys=tmp_path / "keys", seal=False, encrypt=encrypt) as ledger:
        for run in ("C:\\udata", *(f"order-{number}" for number in range(7))):  # each is encrypted under a holder
            ledger.run(call("note", run, deep=deep, path="C:\\udata\\ud800"), lambda effect: effect.args)
        ledger.seal()
        key, selections = key_of(ledger), [None, OfRun("C:\\udata"), OfRun("order-1")]
        for number, selection in enumerate(selections):
            for form in ("zip", "html"):
                path = tmp_path / f"{number}.{form}"
                export(
                    store_of(ledger), "default", path, form="html" if form == "html" else "bundle", selection=selection
                )
            assert verify(tmp_path / f"{number}.zip", [key]).verdict == "verified"
    reports = [tmp_path / f"{number}.html" for number in range(len(selections))]
    assert verdicts_of(reports, [key]) == ["verified"] * len(reports)
