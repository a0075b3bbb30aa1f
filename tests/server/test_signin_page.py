"""The page to sign in at: nothing from elsewhere, nothing that could run besides its own script, under any path."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from indelible.server.requests.hardening import Hardened
from tests.server.places import Place
from tests.server.serving import Served


class Under:
    """Shows an application under a path, as behind a proxy that takes the path away."""

    def __init__(self, app: Any, root: str) -> None:
        self._app = app
        self._root = root

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            scope = {**scope, "root_path": self._root, "path": self._root + scope["path"]}
        await self._app(scope, receive, send)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("page")
    made = Place(f"sqlite:///{folder / 'ledger.db'}", seal=False)
    yield made
    made.close()


@pytest.fixture(scope="module")
def address(place: Place) -> Iterator[str]:
    served = Served(Hardened(Under(place.app, "/ledger")))
    yield served.url
    served.stop()


def get(address: str, path: str) -> httpx2.Response:
    return httpx2.get(address + path, trust_env=False)


@pytest.mark.parametrize(
    ("path", "kind"), [("/signin", "text/html"), ("/signin.js", "text/javascript"), ("/signin.css", "text/css")]
)
def test_each_part_is_what_it_says_and_lets_nothing_else_run(address: str, path: str, kind: str) -> None:
    answer = get(address, path)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith(kind)
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_the_page_asks_for_nothing_but_what_lies_beside_it(address: str) -> None:
    page, script = get(address, "/signin").text, get(address, "/signin.js").text
    named = re.findall(r'(?:href|src)="([^"]*)"', page)
    assert sorted(named) == ["./", "signin.css", "signin.js", "signin/oidc"]
    assert not re.search(r"<script(?! src)|<style|\son\w+=|style=", page)
    assert not re.search(r"""["'`]/\w|https?://(?!localhost)""", script), (
        "addresses are beside the page, wherever it is"
    )
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|Function\(", script)


def test_a_link_leads_under_the_path_that_people_see(address: str, place: Place) -> None:
    body = {"name": "ana", "scopes": ["approver"]}
    answer = httpx2.post(f"{address}/v1/people", json=body, headers=place.headers("admin"), trust_env=False)
    assert answer.json()["link"].startswith(f"{address}/ledger/signin#")


def test_a_key_for_repeating_is_not_looked_at_when_somebody_signs_in(address: str) -> None:
    """Else whoever is unknown yet would have to say who they are."""
    sent = {"json": {"tenant": "acme"}, "headers": {"Idempotency-Key": "k"}}
    asked = [httpx2.post(f"{address}/v1/sign-in/options", trust_env=False, **sent) for _ in range(2)]
    assert [each.status_code for each in asked] == [200, 200]
    assert asked[0].json() != asked[1].json()


SECRETS = {"secret", "hash", "csrf_token", "nonce", "verifier", "state", "challenge", "signature", "cookie", "password"}


def compared_secrets(source: str) -> list[str]:
    """Lists comparisons, by anything but `compare_digest`, of what is named like a secret."""
    compared = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Compare)]
    plain = [node for node in compared if any(isinstance(one, ast.Eq | ast.NotEq) for one in node.ops)]
    return [ast.unparse(node) for node in plain if any(map(_is_secret, (node.left, *node.comparators)))]


def _is_secret(node: ast.expr) -> bool:
    if isinstance(node, ast.Subscript):
        return isinstance(node.slice, ast.Constant) and node.slice.value in SECRETS
    return getattr(node, "attr", getattr(node, "id", None)) in SECRETS


def test_no_secret_is_compared_letter_by_letter() -> None:
    """Threat 23: whatever is secret is looked up by its hash, and hashes are compared in the same time always."""
    source = Path(__file__).parents[2] / "src" / "indelible"
    read = [*(source / "core" / "people").glob("*.py"), *(source / "server" / "signin").glob("*.py")]
    read += [source / "server" / "routes" / f"{name}.py" for name in ("sessions", "passkeys", "people", "oidc")]
    assert len(read) > 16
    assert [found for path in read for found in compared_secrets(path.read_text())] == []
    planted = ("session.hash == ticket.hash", "said != wanted.secret", 'query["state"] == kept', "nonce == x")
    assert [compared_secrets(line) for line in planted] == [[line.replace('"', "'")] for line in planted]
