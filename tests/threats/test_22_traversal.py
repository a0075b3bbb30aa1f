"""Threat 22: a name in an address is taken for a path, and gives away a file of the server's machine.

Names are looked up in tables, never joined to a path; files of pages are named one by one. Every way to write `..` that
was ever tried goes to every name in an address, and to every place where files are given.
"""

from __future__ import annotations

import http.client
import json
import os
import random
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from indelible.server.describing.description import operations
from indelible.server.describing.reference import _KINDS
from tests.server.bodies import BODIES
from tests.server.places import Place, sqlite_place
from tests.waiting import PATIENCE

ALL = os.environ.get("INDELIBLE_INJECTIONS") == "all"
CANARY = "canary of the disk"
GIVEN_AWAY = (CANARY, "root:x:", "from __future__", "SQLite format 3", "PRIVATE KEY", "[project]")
DOTS = ["..", "%2e%2e", ".%2e", "%2e.", "%252e%252e", "%25252e%25252e", "..%00", "%c0%ae%c0%ae", "%e0%80%ae%e0%80%ae",
        "%uff0e%uff0e", "%ef%bc%8e%ef%bc%8e", "....", "..;", ".%00.", "..%20", "..%09", "%2e%2e%3b"]  # fmt: skip
SLASHES = ["/", "%2f", "%252f", "\\", "%5c", "%255c", "//", "/./", "%c0%af", "%ef%bc%8f", "%00/"]
WHOLE = [
    "/etc/passwd", "%2fetc%2fpasswd", "//etc/passwd", "file:///etc/passwd", "file:%2f%2f%2fetc%2fpasswd", "a%00b",
    "etc/passwd%00.css", "reference.css%00", "reference.css/../app.py", "reference.css%2f..%2f..%2fapp.py", ".", "..",
    "%2e", "%2e%2e", "~", "~root", "CON", "NUL", "C:%5cwindows", "%5c%5chost%5cshare", "canary-link",
    "..%2fledger.db", "keys", "..%2f..%2fpyproject.toml", "__init__.py", "app.py", "..%2fapp.py", "/proc/self/environ",
    "%2fproc%2fself%2fenviron", "x%0d%0aX-Injected:%20yes", "%ff%fe", "%", "%2", "%zz", "reference.css?x=/../../app.py",
    "reference.css;/../../app.py", "..%2f" * 40 + "etc%2fpasswd", "a" * 4000,
    "ledger.db", "canary", "%00",
]  # fmt: skip
FORMS = [*WHOLE, *(f"{slash.join([dots] * 6)}{slash}etc{slash}passwd" for dots in DOTS for slash in SLASHES[:4]),
         *(f"..{slash}..{slash}canary" for slash in SLASHES)]  # fmt: skip
FILES = ("/docs/", "/assets/", "/signin", "/", "/problems/", "/v1/journal/tile/", "/v1/journal/")


class Plain(http.client.HTTPConnection):
    """Sends an address as it is written, also one that is none."""

    def _validate_path(self, url: str) -> None:
        pass


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("traversed")
    (folder / "canary").write_text(CANARY)
    (folder / "canary-link").symlink_to(folder / "canary")
    made = sqlite_place(folder)
    made.begin(run_id="order-1")
    made.ledgers.of("acme")._seal()
    yield made
    made.close()


@pytest.fixture
def plain(place: Place) -> Iterator[Plain]:
    at = urlsplit(place.served.url)
    connection = Plain(at.hostname or "", at.port, timeout=PATIENCE)
    yield connection
    connection.close()


def asked(place: Place, plain: Plain, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
    words = {**place.headers("admin"), "Content-Type": "application/json"}
    plain.putrequest(method, path, skip_accept_encoding=True)
    raw = b"" if body is None else json.dumps(body).encode()
    for name, value in {**words, "Content-Length": str(len(raw))}.items():
        plain.putheader(name, value)
    plain.endheaders(raw)
    answer = plain.getresponse()
    content = answer.read()
    assert answer.status < 500, (method, path, content)
    assert "x-injected" not in answer.headers
    for secret in GIVEN_AWAY:
        assert secret.encode() not in content, (method, path)
    if answer.status == 400 and answer.headers.get("content-type", "").startswith("text/plain"):
        plain.close()  # the server hangs up on what is no HTTP
    return answer.status, content


def test_there_are_enough_forms() -> None:
    assert len(set(FORMS)) > 100


def test_no_file_is_given_where_files_are_given(place: Place, plain: Plain) -> None:
    statuses = {asked(place, plain, "GET", f"{start}{form}")[0] for start in FILES for form in FORMS}
    assert statuses <= {200, 400, 404, 405, 422}
    for name in _KINDS:
        assert asked(place, plain, "GET", f"/docs/{name}")[0] == 200, "and those that are meant are given"


def test_no_name_in_an_address_is_taken_for_a_path(place: Place, plain: Plain) -> None:
    order = random.Random(22)
    tried = 0
    for method, template, told in operations(place.described.openapi):
        parts = [each["name"] for each in told.get("parameters", []) if each["in"] == "path"]
        body = BODIES.get(f"{method} {template}")
        for part in parts:
            for form in FORMS if ALL else order.sample(FORMS, 8):
                path = template.replace(f"{{{part}}}", form)
                status, _ = asked(place, plain, method, path, body)
                # What a form leaves of an address may be another one, such as a list; but nothing is made by it.
                assert status != 201 or "/" not in form, (method, path)
                tried += 1
    assert tried > 300


def test_a_run_is_not_named_like_a_path(place: Place) -> None:
    """Names come back in addresses, and some become parts of files' names elsewhere."""
    for name in ("..", ".", "../x", "a/b", "/etc/passwd", "a\0b"):
        assert place.post("/v1/runs", {"agent": "a", "run_id": name}).status_code in (400, 422), name
