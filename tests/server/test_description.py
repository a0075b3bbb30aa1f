"""The description is whole and true, and the pages that are made from it need nothing but this server."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import pytest
from jsonschema import Draft202012Validator

from indelible.core.remote.problem_types import PROBLEM_TYPES, type_of_status
from indelible.server.describing.description import TAGS, operations
from indelible.server.describing.examples import EXAMPLES
from indelible.server.describing.openapi import main, problems_page, rights_page
from indelible.server.describing.reference_page import problem_page, reference_page
from tests.server.places import Place, sqlite_place

NOT_DESCRIBED = {"/openapi.json"}
PAGES = {"indelible.server.signin.page", "indelible.server.dashboard", "indelible.server.routes.oidc"}
"""Give pages for people, and the files that these are made of."""
CREDENTIALS = {"HTTPBearer", "HTTPBasic", "Session"}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    made = sqlite_place(tmp_path_factory.mktemp("described"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def told(place: Place) -> dict[str, Any]:
    return place.described.openapi


def test_every_operation_says_what_it_does_who_may_ask_and_what_it_answers(told: dict[str, Any]) -> None:
    names = set()
    for method, path, operation in operations(told):
        what = f"{method} {path}"
        assert 8 < len(operation["summary"]) < 160, what
        assert operation["tags"][0] in TAGS, f"{what}: say in describing/description.py what {operation['tags']} are"
        assert operation["operationId"] not in names, what
        names.add(operation["operationId"])
        assert any(status.startswith(("2", "3")) for status in operation["responses"]), what
        if "x-scopes" in operation:
            assert {name for each in operation["security"] for name in each} <= CREDENTIALS, what
            assert {"400", "401", "403", "429", "503"} <= set(operation["responses"]), what
        else:
            assert "security" not in operation, what
    assert len(names) > 40
    for status, response in told["components"]["responses"].items():
        assert "Types: `" in response["description"], status


def test_every_address_that_is_served_is_described(place: Place, told: dict[str, Any]) -> None:
    """By the router itself, so that a route without a description is found."""
    known = {(method, path) for method, path, _ in operations(told)}
    served = 0
    for route in _routes(place.app.routes):
        plain = re.sub(r"\{(\w+):\w+\}", r"{\1}", route.path)
        is_known = {(method, plain) for method in route.methods or ()} <= known
        is_page = route.path in NOT_DESCRIBED or route.endpoint.__module__ in PAGES
        assert is_known or is_page, f"{route.path} is not described"
        served += is_known
    assert served == len(known)


def _routes(routes: Iterable[Any]) -> Iterator[Any]:
    for route in routes:
        inside = getattr(route, "original_router", None)
        yield from [route] if inside is None else _routes(inside.routes)


def test_every_reference_inside_leads_somewhere(told: dict[str, Any]) -> None:
    named = set(re.findall(r"'\$ref': '#/components/([^']+)'", str(told)))
    there = {f"{kind}/{name}" for kind, all_ in told["components"].items() for name in all_}
    assert named <= there, named - there
    assert not any("HTTPValidationError" in name for name in there), "the framework's own form is never sent"


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_fits_what_it_is_an_example_of(told: dict[str, Any], name: str) -> None:
    method, _, path = name.partition(" ")
    content = told["paths"][path][method.lower()]["requestBody"]["content"]["application/json"]
    Draft202012Validator({**content["schema"], "components": told["components"]}).validate(content["example"])


def test_examples_are_accepted(place: Place) -> None:
    """Those that stand alone are sent as they are."""
    assert place.post("/v1/effects", EXAMPLES["POST /v1/effects"]).status_code == 201
    run = EXAMPLES["POST /v1/runs"]
    assert place.post("/v1/runs", run).status_code in (201, 409)
    run = {**run, "run_id": "order-124"}
    assert place.post("/v1/runs", run).status_code == 201
    for part in ("events", "checkpoints"):
        body = EXAMPLES[f"POST /v1/runs/{{run_id}}/{part}"]
        assert place.post(f"/v1/runs/order-124/{part}", body).status_code == 201
    evaluated = place.post("/v1/policy/evaluate", EXAMPLES["POST /v1/policy/evaluate"], "ana")
    assert evaluated.status_code == 200
    assert place.post("/v1/delegations", EXAMPLES["POST /v1/delegations"], "ana").status_code == 201


# Pages


class _Links(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.anchors: set[str] = set()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            self.attributes.add(name)
            if name in ("href", "src"):
                self.addresses.append(value or "")
            if name == "id":
                self.anchors.add(value or "")


def test_the_page_shows_every_operation_and_asks_nobody_else(place: Place, told: dict[str, Any]) -> None:
    answer = place.get("/docs", None)
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    page = _Links(answer.text)
    assert not {name for name in page.attributes if name.startswith("on")} | (page.attributes & {"style"})
    inside = {address[1:] for address in page.addresses if address.startswith("#")}
    assert {told_["operationId"] for _, _, told_ in operations(told)} <= inside <= page.anchors
    for address in page.addresses:
        assert not re.match(r"[a-z]+:|/", address), f"{address} leaves the prefix that the server may be under"
    for file, kind in (("reference.css", "text/css"), ("reference.js", "text/javascript")):
        address = urljoin("http://host/prefix/docs", f"docs/{file}")
        assert address == f"http://host/prefix/docs/{file}"
        assert f"docs/{file}" in page.addresses
        assert place.get(f"/docs/{file}", None).headers["content-type"].startswith(kind)
    assert place.get("/docs/../app.py", None).status_code == 404
    assert place.get("/docs/page.html", None).status_code == 404


def test_whatever_is_in_a_description_is_text() -> None:
    bad = "<script>alert(1)</script>"
    description = {
        "info": {"title": bad, "version": bad, "description": bad},
        "tags": [{"name": "t", "description": bad}],
        "paths": {
            f"/{bad}": {
                "get": {
                    "tags": ["t"],
                    "summary": bad,
                    "description": f"{bad}.",
                    "operationId": bad,
                    "parameters": [{"name": bad, "in": "query", "schema": {"enum": [bad]}, "description": bad}],
                    "requestBody": {"content": {"application/json": {"schema": {"const": bad}, "example": bad}}},
                    "responses": {"200": {"description": bad, "content": {bad: {}}}},
                }
            }
        },
        "components": {"schemas": {bad: {"description": bad, "properties": {bad: {"$ref": f"#/{bad}"}}}}},
    }
    assert "<script>alert" not in reference_page(description)


@pytest.mark.parametrize("name", PROBLEM_TYPES)
def test_every_type_of_problem_has_a_page(name: str) -> None:
    page = _Links(problem_page(name, PROBLEM_TYPES[name]))
    assert page.addresses == ["../docs/reference.css", "../docs/reference.js", "../docs"]


def test_a_problem_explains_itself_to_people_and_to_programs(place: Place) -> None:
    problem = place.get("/v1/effects/eff_none").json()
    explained = place.get(problem["type"], None)
    assert explained.json()["title"] == problem["title"]
    assert problem["status"] in explained.json()["statuses"]
    page = place.get(problem["type"], None, headers={"Accept": "text/html,*/*"})
    assert "unsafe" not in page.headers["content-security-policy"]
    assert "What to do next" in page.text
    assert place.get("/problems/none", None).status_code == 404


def test_every_status_that_http_itself_refuses_with_has_a_type_that_is_described() -> None:
    assert {type_of_status(status) for status in range(400, 600)} <= set(PROBLEM_TYPES)


@pytest.mark.parametrize(("name", "page"), [("problems", problems_page), ("rights", rights_page)])
def test_the_references_of_problems_and_rights_are_what_the_code_says(name: str, page: Callable[[], str]) -> None:
    written = Path(__file__).parents[2] / f"docs/reference/{name}.md"
    assert written.read_text("utf-8") == page(), "run: python -m indelible.server.describing.openapi"


def test_what_is_stale_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "docs/reference").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert main(["--check"]) == 1
    assert "openapi.json is not what the code says" in capsys.readouterr().err
    assert main([]) == 0
    assert main(["--check"]) == 0
