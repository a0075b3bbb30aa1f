"""The dashboard as the server gives it: one page for every address that people open, and nothing that was not built."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from indelible.server.app import create_app
from indelible.server.dashboard import PAGES
from indelible.server.ledgers import Ledgers
from indelible.server.requests.hardening import Hardened
from indelible.server.signin.identity import Identity
from indelible.stores import open_store
from tests.server.serving import Served


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    folder: Path = tmp_path_factory.mktemp("dashboard")
    store = open_store(f"sqlite:///{folder / 'ledger.db'}")
    served = Served(Hardened(create_app(Ledgers(store), Identity(store))))
    with httpx2.Client(base_url=served.url) as client:
        yield client
    served.stop()


@pytest.mark.parametrize("path", [*(f"/{name}" for name in PAGES), "/runs/order-123", "/effects/eff_1", "/runs/a%2Fb"])
def test_every_address_of_the_page_gives_the_page_without_a_credential(page: httpx2.Client, path: str) -> None:
    answer = page.get(path)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert '<base href="/" />' in answer.text


def test_the_address_in_a_message_leads_to_where_it_is_decided(page: httpx2.Client) -> None:
    answer = page.get("/approvals/apr_01a1")
    assert (answer.status_code, answer.headers["location"]) == (303, "/inbox?approval=apr_01a1")
    for odd in ("/approvals/apr_01a1%0d%0aX:1", "/approvals/%2f%2fevil.example", "/approvals/eff_1", "/approvals"):
        assert page.get(odd).status_code == 404


def test_the_page_may_use_what_came_with_it_and_nothing_else(page: httpx2.Client) -> None:
    policy = page.get("/inbox").headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "*" not in policy
    html = page.get("/inbox").text
    assert not re.search(r"<script(?![^>]*\bsrc=)", html), "no script stands in the page itself"
    assert "style=" not in html
    assert "http" not in re.sub(r"http-equiv|https?://www\.w3\.org/\S+", "", html), "it asks nobody else for anything"


def test_every_file_that_the_page_names_is_there_and_known_again(page: httpx2.Client) -> None:
    named = re.findall(r'(?:src|href)="\./([^"]+)"', page.get("/").text)
    assert len(named) >= 3
    for name in named:
        answer = page.get(f"/{name}")
        assert answer.status_code == 200, name
        assert answer.headers["x-content-type-options"] == "nosniff"
        again = page.get(f"/{name}", headers={"If-None-Match": answer.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize("path", ["/assets/../index.html", "/assets/%2e%2e%2fapp.py", "/assets/nothing.js", "/nowhere"])
def test_what_was_not_built_is_not_there(page: httpx2.Client, path: str) -> None:
    assert page.get(path).status_code == 404


def test_under_a_path_the_page_learns_where_it_lives(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'ledger.db'}")
    app = create_app(Ledgers(store), Identity(store))
    app.root_path = '/ledger"><script>'
    served = Served(app)
    try:
        text = httpx2.get(f"{served.url}/inbox").text
    finally:
        served.stop()
    assert '<base href="/ledger&quot;&gt;&lt;script&gt;/" />' in text
