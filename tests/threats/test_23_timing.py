"""Threat 23: how long a refusal takes tells how much of a secret was right.

Comparing times on a shared machine proves nothing. What makes it impossible can be seen: a token is looked up by its
public half, and what decides is a comparison of hashes that takes the same time for all.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import indelible
from indelible.core.people import credentials
from indelible.core.people.credentials import read_token
from tests.threats.exposed import Exposed

SOURCE = Path(indelible.__file__).parent
SECRET_WORDS = ("secret", "signature", "csrf", "passphrase", "hmac", "mac")
WATCHED = ("server", "notify", "core/people/credentials.py", "core/people/person.py", "stores/remote", "cli/apikeys.py")


@pytest.fixture
def exposed(store_url: str) -> Iterator[Exposed]:
    found = Exposed(store_url, seal=False)
    yield found
    found.close()


def test_a_token_is_looked_up_by_its_public_half_and_compared_by_hash(exposed: Exposed, monkeypatch: Any) -> None:
    compared: list[tuple[str, str]] = []
    real = credentials.compare_digest

    def noting(one: Any, other: Any) -> bool:
        compared.append((one, other))
        return bool(real(one, other))

    monkeypatch.setattr(credentials, "compare_digest", noting)
    token = read_token(exposed.tokens["agent"])
    asked: list[Any] = []
    sheets = exposed.store.sheets

    def looking(tenant: str, selected: Any) -> Any:
        asked.append((tenant, selected))
        return sheets(tenant, selected)

    monkeypatch.setattr(exposed.store, "sheets", looking)
    for secret in (token.secret, token.secret[:-1] + "!", "x", token.secret * 2):
        answer = exposed.ask(
            "GET", "/v1/me", None, headers={"Authorization": f"Bearer {token._replace(secret=secret)}"}
        )
        assert answer.status_code == (200 if secret == token.secret else 401)
    assert len(compared) == 4
    assert all(len(one) == len(other) == 64 for one, other in compared), "hashes, all of one length"
    assert not any(token.secret in text for pair in compared for text in pair)
    assert asked
    assert not any(token.secret in repr(each) for each in asked), "the database never sees a secret"


def test_what_is_not_known_and_what_is_wrong_are_told_alike(exposed: Exposed) -> None:
    token = read_token(exposed.tokens["agent"])
    wrong = token._replace(secret="x" * 43)
    unknown = token._replace(credential_id="key_" + "0" * 32)
    elsewhere = token._replace(tenant="globex")
    answers = [
        exposed.ask("GET", "/v1/me", None, headers={"Authorization": f"Bearer {each}"})
        for each in (wrong, unknown, elsewhere)
    ]
    assert len({(each.status_code, each.text) for each in answers}) == 1


def test_nowhere_is_a_secret_compared_by_equality() -> None:
    found: list[str] = []
    for place in WATCHED:
        path = SOURCE / place
        for file in [path] if path.suffix else sorted(path.rglob("*.py")):
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.Compare) and any(isinstance(op, ast.Eq | ast.NotEq) for op in node.ops):
                    names = {_name(side) for side in [node.left, *node.comparators]}
                    if any(word in name.lower().split("_") for name in names for word in SECRET_WORDS):
                        found.append(f"{file.relative_to(SOURCE)}:{node.lineno}")
    assert found == [], "use compare_digest"


def _name(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""
