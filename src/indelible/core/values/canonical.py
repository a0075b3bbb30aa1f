"""Gives every recordable value exactly one byte string, and every such byte string its value back.

The bytes are RFC 8785 (JCS) JSON. What JSON cannot say is written as an object with one tag, such as
`{"$decimal":"1.1"}`; a key of the caller's that begins with `$` gets one more `$`, so no caller can forge a tag.
Keys, digests and commitments are hashes of these bytes: `docs/reference/canonical.md` fixes every row of the
policy with a vector, and a change to any row is a new version of the format.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterable
from typing import Any, NoReturn

import rfc8785

from indelible.core.values.recording import Recording, shown, too_big, too_deep_for_the_stack
from indelible.core.values.tags import READ, SAFE_INTEGER, WRITE, JSONish, NoForm
from indelible.errors import BadCall

MAX_DEPTH = 64
"""How many lists and objects may sit inside each other."""


def are_alike(one: object, other: object) -> bool:
    """Say whether two values are recorded alike. True is not 1, though Python says so."""
    return encode(one) == encode(other)


def encode(
    value: object,
    *,
    root: str = "$",
    max_bytes: int | None = None,
    max_depth: int = MAX_DEPTH,
    is_whole: bool = False,
) -> bytes:
    """Returns the one byte string of this value; raises NotRecordable or TooLarge if it has none.

    `root` is how an error's path begins. With `is_whole`, a model whose dump hides or rewrites a field is refused. The
    value must not be changed by another thread meanwhile.
    """
    room = sys.maxsize if max_bytes is None else max_bytes
    try:
        encoded = _encode_plain(value, max_depth, room)
        if encoded is None:
            encoded = rfc8785.dumps(Recording(root, max_depth, room, is_whole=is_whole).form(value))
    except RecursionError:
        raise too_deep_for_the_stack(root) from None
    if len(encoded) > room:
        raise too_big(root, room, len(encoded))
    return encoded


def decode(data: bytes) -> JSONish:
    """Returns the value that `encode` turned into these bytes; raises ValueError for anything malformed.

    Order of keys and spacing are not examined: `encode(decode(data)) == data` tells whether a stranger's bytes
    are canonical.
    """
    if b"\\u" in data and b"\\" in _CANONICAL_ESCAPES.sub(b"", data):
        raise ValueError("the recorded form escapes only control characters, quotes and backslashes")
    text = data.decode()
    decoder = _TAGGED_DECODER if "$" in text else _UNTAGGED_DECODER
    try:
        recorded: tuple[JSONish, int] = decoder.raw_decode(text)
    except RecursionError:
        raise ValueError("nested deeper than this interpreter can read") from None
    value, end = recorded
    if end != len(text):
        raise ValueError(f"unexpected content after the value, at character {end}")
    return value


def is_canonical(data: bytes) -> bool:
    """Say whether a stranger's bytes are the one text of a value."""
    try:
        return encode(decode(data)) == data
    except (ValueError, ArithmeticError, RecursionError):
        return False


def decode_json(plain: object) -> JSONish:
    """Return the value that JSON in the recorded form stands for; raise `BadCall` for what has two readings.

    Dates, decimals and the like are tagged as `encode` writes them, as `{"$decimal": "1.1"}`.
    """
    try:
        return decode(rfc8785.dumps(_with_doubles(plain)))
    except (ValueError, rfc8785.CanonicalizationError) as error:
        raise BadCall(f"this is not in the recorded form: {error}") from error


def parse_strict(data: bytes | str) -> object:
    """Returns the value of JSON from outside; raises BadCall where two readers could understand it differently.

    Refused are duplicate keys, lone surrogates, NaN, Infinity, numbers no double can hold and bytes that are not
    UTF-8. Integers stay exact. A `$` in a key is plain content here, never a tag.
    """
    try:
        text = data.encode().decode() if isinstance(data, str) else data.decode()
        value = _OUTSIDE_DECODER.decode(text)
        if _SURROGATE_ESCAPE.search(text):
            _C_ENCODER.encode(value).encode()  # UTF-8 has no lone surrogates, so writing the strings finds them
    except RecursionError:
        raise too_deep_for_the_stack("$") from None
    except ValueError as error:
        raise BadCall(f"this JSON cannot be read safely: {error}") from error
    return value


_C_ENCODER = json.JSONEncoder(ensure_ascii=False, check_circular=False, sort_keys=True, separators=(",", ":"))


def _encode_plain(value: object, max_depth: int, room: int) -> bytes | None:
    """Returns the canonical bytes of a list or dict of plain values; None sends the caller the long way."""
    if (type(value) is dict or type(value) is list) and _room_after(value, max_depth, room) >= 0:
        try:
            return _C_ENCODER.encode(value).encode()
        except UnicodeEncodeError:  # a lone surrogate: the long way names its path
            return None
    return None


def _room_after(container: dict[Any, Any] | list[Any], levels: int, room: int) -> int:
    """Returns what `room` leaves after this container, or a negative number if it is not plain or does not fit.

    Plain is what json's C encoder writes exactly as RFC 8785 asks: ASCII keys (their order in code points is their
    order in UTF-16), integers a double can hold, no float. It runs on every call, hence one function, exact types.
    """
    room -= len(container)  # an item takes at least one byte, so shared branches cannot multiply without end
    if levels <= 0 or room < 0:
        return -1
    items: Iterable[Any] = container
    if type(container) is dict:
        for key in container:
            if type(key) is not str or key[:1] == "$" or not key.isascii():
                return -1
        items = container.values()
    for item in items:
        kind = type(item)
        if kind is str or kind is bool or item is None:
            continue
        if kind is int:
            if -SAFE_INTEGER <= item <= SAFE_INTEGER:
                continue
            return -1
        if kind is not dict and kind is not list:
            return -1
        room = _room_after(item, levels - 1, room)
        if room < 0:
            return -1
    return room


_CANONICAL_ESCAPES = re.compile(rb'\\(?:["\\bfnrt]|u00(?:0[0-7bef]|1[0-9a-f]))')
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")


def _object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        seen: set[str] = set()  # not by counting: among a million names that would take hours
        repeated = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise ValueError(f"the key {shown(repeated)} stands twice in one object")
    return members


def _value_of_tagged(pairs: list[tuple[str, Any]]) -> JSONish:
    members = _object_of(pairs)
    if len(pairs) == 1 and pairs[0][0] in READ:
        return _value_of_tag(*pairs[0])
    return {_unescaped(key): value for key, value in members.items()}


def _value_of_tag(tag: str, text: object) -> JSONish:
    """Returns what the tag's text stands for; only the one text that encode writes is accepted."""
    try:
        if isinstance(text, str):
            value = READ[tag](text)
            if WRITE[tag](value) == text:
                return value
    except (ValueError, ArithmeticError, NoForm):
        pass  # every way of being malformed ends in the same refusal
    raise ValueError(f"malformed {tag}: {shown(text)}")


def _unescaped(key: str) -> str:
    if key[:1] != "$":
        return key
    if key[:2] != "$$":
        raise ValueError(f"{shown(key)} is no tag of this format, or not alone in its object")
    return key[1:]


def _with_doubles(plain: Any) -> Any:
    """Return JSON whose integers beyond those of a double are read as the doubles that `encode` writes like that."""
    if isinstance(plain, dict):
        return {name: _with_doubles(each) for name, each in plain.items()}
    if isinstance(plain, list):
        return [_with_doubles(each) for each in plain]
    is_long = isinstance(plain, int) and abs(plain) > SAFE_INTEGER
    return _number_of_integer_literal(str(plain)) if is_long else plain


def _number_of_integer_literal(text: str) -> int | float:
    value = int(text)
    if -SAFE_INTEGER <= value <= SAFE_INTEGER and text != "-0":
        return value
    return _double_of(text)  # a larger int would carry a tag, so this was a float


def _double_of(text: str) -> float:
    value = float(text)
    # Between 0.0001 and 10^16 Python's shortest text is RFC 8785's too; only the rest needs the full rules.
    if repr(value) == text and "e" not in text and text[-2:] != ".0":
        return value
    if rfc8785.dumps(value) != text.encode():
        raise ValueError(f"{shown(text)} is not the canonical text of a double")
    return value


def _finite_double_of(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{shown(text)} is larger than any double")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


_UNTAGGED_DECODER = json.JSONDecoder(
    object_pairs_hook=_object_of,
    parse_int=_number_of_integer_literal,
    parse_float=_double_of,
    parse_constant=_refuse_constant,
)
_TAGGED_DECODER = json.JSONDecoder(
    object_pairs_hook=_value_of_tagged,
    parse_int=_number_of_integer_literal,
    parse_float=_double_of,
    parse_constant=_refuse_constant,
)
_OUTSIDE_DECODER = json.JSONDecoder(
    object_pairs_hook=_object_of, parse_float=_finite_double_of, parse_constant=_refuse_constant
)
