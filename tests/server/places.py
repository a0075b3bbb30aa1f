"""A server with real credentials on a store of its own; every answer is compared with the description."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import httpx2
from jsonschema import Draft202012Validator

from indelible import Actor
from indelible.core.remote.problem_types import PROBLEM_TYPES, PROBLEMS
from indelible.server.app import create_app
from indelible.server.ledgers import Ledgers
from indelible.server.signin.credentials import Credentials
from indelible.server.signin.identity import Identity
from indelible.stores import migrate, open_store
from tests.server.serving import Served

ROOT = Actor("root")
WHO: dict[str, tuple[str, tuple[Any, ...]]] = {
    "agent": ("acme", ("agent",)),
    "other-agent": ("acme", ("agent",)),
    "ana": ("acme", ("approver",)),
    "bob": ("acme", ("approver",)),
    "auditor": ("acme", ("auditor",)),
    "admin": ("acme", ("admin",)),
    "stranger": ("globex", ("admin",)),
}


class Place:
    """Answers for two tenants; `ask` is a request of one of those in `WHO`, or of nobody."""

    def __init__(self, url: str, **words: Any) -> None:
        migrate(url)
        self.url = url
        self.store = open_store(url)
        self.ledgers = Ledgers(open_store(url), **words)
        self.app = create_app(self.ledgers, Identity(self.store))
        self.described = described(self.app)
        self.tokens = {
            name: str(Credentials(self.store, tenant).give(name, scopes, by=ROOT)[1])
            for name, (tenant, scopes) in WHO.items()
        }
        self.served = Served(self.app)
        self.client = httpx2.Client(base_url=self.served.url, trust_env=False, timeout=60)

    def headers(self, who: str | None) -> dict[str, str]:
        return {} if who is None else {"Authorization": f"Bearer {self.tokens[who]}"}

    def ask(self, method: str, path: str, who: str | None = "agent", body: Any = None, **words: Any) -> httpx2.Response:
        headers = {**self.headers(who), **words.pop("headers", {})}
        if body is not None:
            words["json"] = body
        answer = self.client.request(method, path, headers=headers, **words)
        self.described.check(method, path, answer)
        return answer

    def get(self, path: str, who: str | None = "agent", **words: Any) -> httpx2.Response:
        return self.ask("GET", path, who, **words)

    def post(self, path: str, body: Any, who: str | None = "agent", **words: Any) -> httpx2.Response:
        return self.ask("POST", path, who, body, **words)

    def begin(self, who: str = "agent", **words: Any) -> httpx2.Response:
        return self.post("/v1/effects", {"tool": "charge", "args": {"amount": 5}, **words}, who)

    def commit(self, claim: dict[str, Any], outcome: dict[str, Any] | None = None, **words: Any) -> httpx2.Response:
        effect = claim["effect"]
        told = {"token": claim["token"], "attempt": effect["attempt"], **words}
        told["outcome"] = outcome or {"status": "succeeded", "value": {"id": "ch_1"}}
        return self.post(f"/v1/effects/{effect['id']}/commit", told)

    def close(self) -> None:
        self.client.close()
        self.served.stop()
        self.store.close()


class Described:
    """Is what the OpenAPI document says of answers."""

    def __init__(self, openapi: dict[str, Any]) -> None:
        self.openapi = openapi
        self.operations = [
            (method.upper(), path, told)
            for path, methods in openapi["paths"].items()
            for method, told in methods.items()
        ]

    def check(self, method: str, path: str, answer: httpx2.Response) -> None:
        """Fails on an answer that is not described: its status, its media type, or its content."""
        told = self._responses(method, path.partition("?")[0])
        if told is None:
            assert answer.status_code in (404, 405), answer.text
            return
        assert answer.status_code < 500, answer.text
        found = told.get(str(answer.status_code), told.get("4XX") if answer.status_code >= 400 else None)
        assert found is not None, f"{method} {path}: {answer.status_code} is not described: {answer.text}"
        if "$ref" in found:
            found = self.openapi["components"]["responses"][found["$ref"].rpartition("/")[2]]
        kind = answer.headers.get("content-type", "").partition(";")[0]
        if "content" not in found:
            assert not answer.content
            return
        assert kind in found["content"], f"{method} {path}: {kind} is not described"
        schema = found["content"][kind].get("schema")
        if schema and kind.endswith("json"):
            check_problem(answer)
            whole = {**schema, "components": self.openapi["components"]}
            Draft202012Validator(whole).validate(answer.json())

    def _responses(self, method: str, path: str) -> dict[str, Any] | None:
        exact = self.openapi["paths"].get(path)
        if exact is not None and method.lower() in exact:
            return dict(exact[method.lower()]["responses"])
        for part in ("[^/]+", ".*"):  # some take a whole path as one name
            for one, template, told in self.operations:
                pattern = re.sub(r"\\\{\w+\\\}", part, re.escape(template))
                if one == method and "{" in template and re.fullmatch(pattern, path):
                    return dict(told["responses"])
        return None


def check_problem(answer: Any) -> None:
    """Fails on a problem of a type that is not in the table, or that does not come with this status."""
    if answer.headers.get("content-type") == "application/problem+json":
        problem = answer.json()
        told = PROBLEM_TYPES.get(problem["type"].removeprefix(PROBLEMS))
        assert told is not None, f"{problem['type']}: say in core/remote/problem_types.py what it means"
        assert answer.status_code == problem["status"]
        assert answer.status_code in told.statuses, f"{problem['type']} is told with {answer.status_code}"


_DESCRIBED: list[Described] = []


def described(app: Any) -> Described:
    """Gives what is described; made once, for it takes half a second and is the same for every place."""
    if not _DESCRIBED:
        _DESCRIBED.append(Described(app.openapi()))
    return _DESCRIBED[0]


def sqlite_place(folder: Path, **words: Any) -> Place:
    """Gives a place on a SQLite file, sealed by keys beside it."""
    return Place(f"sqlite:///{folder / 'ledger.db'}", keys=folder / "keys", **words)
