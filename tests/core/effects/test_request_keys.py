"""Promises of core.effects.request_keys: a request keeps its key in every attempt, and two requests share none."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indelible.core.effects.request_keys import (
    REQUEST_TAG,
    SAFE_METHODS,
    digest_of_body,
    is_same_request,
    request_key_of,
    shown_address,
)
from indelible.errors import BadCall

EFFECT = "ab" * 32
URL = "https://api.example/v1/charges?expand=1"


def key(method: str = "POST", url: str = URL, name: str | None = None, effect: str = EFFECT) -> str:
    return request_key_of(effect, method, url, name)


def test_the_preimage_is_a_tag_and_parts_that_each_have_their_length() -> None:
    parts = [EFFECT, "POST", "https", "api.example", "443", "/v1/charges", "expand=1", "item-7"]
    preimage = REQUEST_TAG + b"".join(len(part).to_bytes(4, "big") + part.encode() for part in parts)
    assert key(name="item-7") == hashlib.sha256(preimage).hexdigest()


@pytest.mark.parametrize(
    "other",
    [
        key("PUT"),
        key(url="http://api.example/v1/charges?expand=1"),
        key(url="https://api2.example/v1/charges?expand=1"),
        key(url="https://api.example:444/v1/charges?expand=1"),
        key(url="https://api.example/v1/charge?expand=1"),
        key(url="https://api.example/v1/charges"),
        key(url="https://api.example/v1/charges?expand=2"),
        key(name="a"),
        key(effect="cd" * 32),
    ],
)
def test_each_part_of_a_request_counts(other: str) -> None:
    assert other != key()


@pytest.mark.parametrize(
    "url",
    [
        "https://api.example:443/v1/charges?expand=1",
        "HTTPS://API.example/v1/charges?expand=1#part",
        "https://user:secret@api.example/v1/charges?expand=1",
        "https://api.example/v1/%63harges?expand=%31",
    ],
)
def test_the_same_address_written_differently_has_the_same_key(url: str) -> None:
    assert key("post", url) == key()


def test_escapes_have_one_spelling_and_keep_their_meaning() -> None:
    assert key(url="https://a.example/a b/ü%2f") == key(url="https://a.example/a%20b/%C3%BC%2F")
    assert key(url="https://a.example/a/b") != key(url="https://a.example/a%2Fb")
    assert key(url="https://a.example") == key(url="https://a.example/")


def test_a_scheme_without_a_default_port_has_none() -> None:
    assert key(url="unix://socket/x") != key(url="unix://socket:80/x")
    assert key(url="http://a.example/x") == key(url="http://a.example:80/x")


@pytest.mark.parametrize(
    "url",
    [
        "/charges",
        "api.example/charges",
        "https:///x",
        "https://[::1",
        "https://a:99999/",
        "https://ü.example/",
        "http://a/\ud800",
    ],
)
def test_what_is_no_whole_address_is_refused(url: str) -> None:
    with pytest.raises(BadCall, match="request address"):
        key(url=url)


@pytest.mark.parametrize("name", ["", "x" * 501, "\ud800"])
def test_a_name_that_names_nothing_is_refused(name: str) -> None:
    with pytest.raises(BadCall, match="request name"):
        key(name=name)


@given(st.lists(st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1), min_size=3, max_size=3))
def test_no_boundary_between_parts_can_be_moved(parts: list[str]) -> None:
    host, path, name = parts
    one = key(url=f"https://{host}/{path}", name=name)
    assert one != key(url=f"https://{host}/{path}{name[0]}", name=name[1:] or None)
    assert one != key(url=f"https://{host}/{path}{name}")


def test_the_safe_methods_are_those_that_change_nothing() -> None:
    assert {"GET", "HEAD", "OPTIONS", "TRACE"} == SAFE_METHODS


def test_an_address_in_a_message_has_no_secrets() -> None:
    assert shown_address("https://user:secret@api.example/v1/charges?token=x#y") == "https://api.example:443/v1/charges"
    assert shown_address("unix://socket/x") == "unix://socket/x"


JSON = "application/json; charset=utf-8"
FORM = "application/x-www-form-urlencoded"
SAME: list[Any] = [
    pytest.param(b'{"a": 1, "b": [1.50]}', b'{"b":[1.50],"a":1}', JSON, (), id="order of fields"),
    pytest.param(b'{"a": 1}', b'{"a":1}', "", (), id="JSON without a content type"),
    pytest.param(b'{"a": 1}', b'{"a":1}', "application/vnd.api+json", (), id="JSON of a kind"),
    pytest.param(b'{"a":1,"at":1}', b'{"a":1,"at":2}', JSON, ("at",), id="volatile field"),
    pytest.param(b'{"a":1}', b'{"a":1,"at":2}', JSON, ("at",), id="volatile field that is absent"),
    pytest.param(b'{"m":{"at":1,"b":2}}', b'{"m":{"at":3,"b":2}}', JSON, ("m.at",), id="volatile field inside"),
    pytest.param(b"a=1&b=2", b"b=2&a=1", FORM, (), id="order in a form"),
    pytest.param(b"a=1&meta[at]=1", b"a=1&meta%5Bat%5D=2", FORM, ("meta[at]",), id="volatile field of a form"),
    pytest.param(b"", b"", JSON, (), id="empty"),
]
DIFFERENT: list[Any] = [
    pytest.param(b'{"a":1}', b'{"a":2}', JSON, ("at",), id="value"),
    pytest.param(b'{"a":1}', b'{"a":1.0}', JSON, (), id="kind of number"),
    pytest.param(b'{"a":0.10000000000000000001}', b'{"a":0.10000000000000000002}', JSON, (), id="small digits"),
    pytest.param(b'{"a":[1,2]}', b'{"a":[2,1]}', JSON, (), id="order of a list"),
    pytest.param(b'{"a":1,"a":2}', b'{"a":2}', JSON, (), id="duplicate key"),
    pytest.param(b'{"a":NaN}', b'{"a": NaN}', JSON, (), id="no JSON, so its bytes count"),
    pytest.param(b"[" * 5000 + b"]" * 5000, b"[" * 5000 + b" " + b"]" * 5000, JSON, (), id="nested too deep"),
    pytest.param(b'{"m":{"at":1}}', b'{"m":{"at":2}}', JSON, ("at",), id="field of this name further inside"),
    pytest.param(b'[{"at":1}]', b'[{"at":2}]', JSON, ("at",), id="inside a list"),
    pytest.param(b'{"a": 1}', b'{"a":1}', "text/plain", (), id="text that looks like JSON"),
    pytest.param(b"a=1&a=2", b"a=2&a=1", FORM, (), id="order of one name in a form"),
    pytest.param(b"a=1&b", b"b&a=1", FORM, (), id="no form, so its bytes count"),
    pytest.param(b"a=\xff", b"a=\xfe", FORM, (), id="form that is not ASCII"),
    pytest.param(b"a=%ff", b"a=%fe", FORM, (), id="form that is not UTF-8"),
    pytest.param(b"a=", b"", FORM, (), id="field without a value"),
]


@pytest.mark.parametrize(("first", "again", "kind", "volatile"), SAME)
def test_bodies_that_say_the_same_have_one_digest(first: bytes, again: bytes, kind: str, volatile: Any) -> None:
    assert digest_of_body(first, kind, volatile) == digest_of_body(again, kind, volatile)


@pytest.mark.parametrize(("first", "again", "kind", "volatile"), DIFFERENT)
def test_bodies_that_say_something_else_have_another(first: bytes, again: bytes, kind: str, volatile: Any) -> None:
    assert digest_of_body(first, kind, volatile) != digest_of_body(again, kind, volatile)


def upload(boundary: str, content: str) -> tuple[bytes, str]:
    body = f'--{boundary}\r\nContent-Disposition: form-data; name="f"\r\n\r\n{content}\r\n--{boundary}--\r\n'
    return body.encode(), f"multipart/form-data; boundary={boundary}"


def test_the_boundary_of_an_upload_does_not_count_and_its_content_does() -> None:
    one, again, other = (digest_of_body(*upload(*made)) for made in (("x1y", "file"), ("z9", "file"), ("z9", "other")))
    assert one == again != other
    quoted, _ = upload("a b", "file")
    assert digest_of_body(quoted, 'multipart/form-data; charset=utf-8; Boundary="a b"') == one


def test_an_upload_that_names_no_boundary_is_compared_by_its_bytes() -> None:
    body, _ = upload("x", "file")
    assert digest_of_body(body, "multipart/form-data") == digest_of_body(body, "multipart/form-data")
    assert digest_of_body(body, "multipart/form-data") != digest_of_body(upload("y", "file")[0], "multipart/form-data")


@pytest.mark.parametrize(
    ("first", "again", "is_named", "is_same"),
    [
        ("a", "a", False, True),
        ("a", "b", False, False),
        ("a", "b", True, False),
        (None, None, False, False),
        (None, None, True, True),
        ("a", None, False, False),
        (None, "a", True, True),
    ],
)
def test_a_body_that_cannot_be_read_is_the_same_only_if_the_handler_says_so(
    first: str | None, again: str | None, is_named: bool, is_same: bool
) -> None:
    assert is_same_request(first, again, is_named=is_named) is is_same
