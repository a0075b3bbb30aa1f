"""Which key does a request of a handler carry, and are two requests the same? Pure.

A key is made of the effect's key, the method, the address and the name, if the handler gave one. It is made neither of
the body nor of the order of requests. So a request has the same key in this attempt and in the next.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, NoReturn
from urllib.parse import parse_qsl, quote, urlsplit

from indelible.core.effects.calls import check_name
from indelible.core.effects.identity import hashed, without
from indelible.core.values.canonical import encode
from indelible.errors import BadCall

REQUEST_TAG = b"indelible/request/v1\0"
BODY_TAG = b"indelible/request-body/v1\0"

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
"""The methods that need no key. Every other method gets one, also an unknown one."""

_DEFAULT_PORTS = {"http": 80, "https": 443}
_LEGAL = "!$&'()*+,;=:@/?%-._~"
_BOUNDARY = re.compile(r';\s*boundary=(?:"([^"]+)"|([^\s;"]+))', re.IGNORECASE)
_ESCAPE = re.compile(r"%[0-9A-Fa-f]{2}")
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


def request_key_of(effect_key: str, method: str, url: str, name: str | None = None) -> str:
    """Return the idempotency key of a request.

    Args:
        effect_key: The key of the effect whose handler sends it.
        method: The HTTP method, in any case.
        url: The whole address. Its fragment and its credentials do not count.
        name: The name that the handler gave the request. Default: none.

    Returns:
        64 hexadecimal digits.

    Raises:
        BadCall: The address has no scheme or host, or cannot be read.
    """
    parts = [effect_key, method.upper(), *_address(url)]
    if name is not None:
        check_name("request name", name)
        parts.append(name)
    return hashed(REQUEST_TAG, *parts)


def shown_address(url: str) -> str:
    """Return an address as a message may show it: without credentials, query and fragment."""
    scheme, host, port, path, _ = _address(url)
    return f"{scheme}://{host}{f':{port}' if port else ''}{path}"


def _address(url: str) -> tuple[str, str, str, str, str]:
    """Return scheme, host, port, path and query in one spelling: clients write the same address differently."""
    try:
        split = urlsplit(url)
        scheme, host, port = split.scheme, split.hostname, split.port
        path, query = _spelt(split.path or "/"), _spelt(split.query)
    except ValueError as error:
        raise BadCall(f"request address: {error}; pass a whole URL, such as https://api.example/charges") from None
    if not scheme or not host:
        raise BadCall(
            "request address: it has no scheme or host; pass a whole URL, such as https://api.example/charges"
        )
    if not host.isascii():
        raise BadCall("request address: the host is not ASCII; write it as the client sends it (xn--…)")
    port = _DEFAULT_PORTS.get(scheme) if port is None else port
    return scheme, host, "" if port is None else str(port), path, query


def _spelt(text: str) -> str:
    """Return part of an address with the escapes of RFC 3986, section 6.2.2, each in its one spelling."""
    return _ESCAPE.sub(_one_spelling, quote(text, safe=_LEGAL))


def _one_spelling(escape: re.Match[str]) -> str:
    character = chr(int(escape[0][1:], 16))
    return character if character in _UNRESERVED else escape[0].upper()


def digest_of_body(body: bytes, content_type: str = "", volatile: Sequence[str] = ()) -> str:
    """Return a digest that two bodies share if they say the same.

    In JSON and in forms, the order of fields does not count, nor do the `volatile` ones. In multipart bodies the
    boundary does not count: clients choose it at random.

    Args:
        body: The bytes of the body.
        content_type: The request's `Content-Type`; without one, a body that can be read as JSON is JSON.
        volatile: Fields that change from one sending to the next. Dotted paths reach inside JSON objects.

    Returns:
        64 hexadecimal digits.
    """
    kind = content_type.partition(";")[0].strip().lower() or "application/json"
    boundary = _BOUNDARY.search(content_type)
    parts = [body]
    if kind == "application/json" or kind.endswith("+json"):
        parts = _json_parts(body, volatile)
    elif kind == "application/x-www-form-urlencoded":
        parts = _form_parts(body, volatile)
    elif kind.startswith("multipart/") and boundary:
        parts = [b"multipart", *body.split(b"--" + (boundary[1] or boundary[2]).encode())]
    return hashed(BODY_TAG, kind, *parts)


def _json_parts(body: bytes, volatile: Sequence[str]) -> list[bytes]:
    """Return JSON in its one spelling; bytes that two readers could read differently stand for themselves."""
    try:
        read: Any = json.loads(
            body, parse_float=Decimal, parse_constant=_refuse, object_pairs_hook=_object_without_duplicates
        )
        return [b"json", without(encode(read), volatile)]
    except (ValueError, RecursionError):  # BadCall is a ValueError: nested too deep, or a number too big
        return [body]


def _object_without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    return found if len(found) == len(pairs) else _refuse("duplicate key")


def _refuse(what: str) -> NoReturn:
    raise ValueError(what)


def _form_parts(body: bytes, volatile: Sequence[str]) -> list[bytes]:
    try:
        pairs = parse_qsl(body.decode("ascii"), keep_blank_values=True, strict_parsing=True, errors="strict")
    except ValueError:
        return [body]
    pairs.sort(key=lambda pair: pair[0])  # stable: values of one name keep their order
    return [
        b"form",
        *(part.encode() for pair in pairs if pair[0] not in volatile for part in pair),
    ]


def is_same_request(first: str | None, again: str | None, *, is_named: bool) -> bool:
    """Say whether a second request with the same key is the first one, sent again.

    Args:
        first: The digest of the first body; None if it is a stream, which cannot be read twice.
        again: The digest of the second body, or None.
        is_named: True if the handler named both requests. Then it vouches for a body that we cannot read.
    """
    if first is None or again is None:
        return is_named
    return first == again
