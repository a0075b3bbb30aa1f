"""The API's description, OpenAPI 3.1: what the framework reads off the endpoints, and what it cannot know.

It says of each operation who may ask, every status it answers with and the types of problems that come with it. The
committed `openapi.json`, the page at `/docs` and the tests that ask every operation are all made from it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute

from indelible.core.remote.problem_types import PROBLEMS, types_with_status
from indelible.core.remote.questions import QUESTIONS
from indelible.core.remote.replies import LONGEST_KEY
from indelible.server.describing.examples import EXAMPLES
from indelible.server.requests.routing import MEANINGS, PROBLEM_JSON, SCOPES_TOLD, right_told
from indelible.server.requests.strict import Problem

Content = dict[str, Any]
_OVERVIEW = """\
Tenant and actor come from the credential, never from a body. Bodies and answers are JSON with names in snake_case and
times in RFC 3339, UTC; a member that is not known is refused. Lists are pages: `limit` says how much, `next` what to
pass on for the next one. Errors are `application/problem+json`; their `type` is one of `/problems/…` and never changes.

Some answers come wherever one asks, so they are not repeated below: 404 `not-found` for an address that is not there,
405 `method-not-allowed` with `Allow` for a method that an address does not know (HEAD and OPTIONS too), and 421
`misdirected` for a host that is not served here. `Accept` chooses where there is a choice, and is not looked at else.
"""
TAGS = {
    "effects": "A tool call and its fate: begin it, do it, commit what came of it. At most once.",
    "approvals": "What waits for people, and what they decide; permissions given ahead.",
    "runs": "One piece of an agent's work across restarts: events, checkpoints, resuming, packets.",
    "events": "What happened, and what happens.",
    "journal": "Signed heads, tiles and proofs: what an auditor needs to believe nobody.",
    "policy": "The rules that calls are judged by.",
    "tools": "Tools that the server itself runs, so that agents never hold their secrets.",
    "webhooks": "Signed messages of providers, which settle effects in doubt.",
    "stop": "The switch that lets no effect of the tenant begin, until somebody ends it.",
    "erasures": "Forgetting: values go, the record stays and verifies.",
    "stats": "Figures over time: what became of calls, how long they took, who decided.",
    "exports": "The record as files: asked for, made in the background, fetched.",
    "search": "Ids, keys and words, wherever they are.",
    "people": "Signing in and out, passkeys, and whom the server lets in.",
    "operation": "For whoever runs the server.",
    "zehrava-gate": "The Run Ledger and intents of zehrava-gate, with its own names.",
    "provedex": "The contract of provedex's sidecar.",
    "reference": "This description, for people.",
    "python-client": "The protocol of the Python client. It changes with the client: use the resources instead.",
}
BEARER, BASIC = "HTTPBearer", "HTTPBasic"
STORE = "/v1/store/{name}"
_IDEMPOTENCY_KEY: Content = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "The same request under the same key gets the same answer, for a day; see 409 and 422.",
    "schema": {"type": "string", "minLength": 1, "maxLength": LONGEST_KEY, "pattern": "^[ -~]+$"},
}
_ANY_OBJECT: Content = {"type": "object", "additionalProperties": True}


def describe(app: FastAPI) -> None:
    """Makes the application give its whole description, made when it is first asked for."""
    by_framework = app.openapi
    made: list[Content] = []

    def described() -> Content:
        if not made:
            made.append(_completed(by_framework()))
        return made[0]

    app.openapi = described  # type: ignore[method-assign]


def operation_id(route: APIRoute) -> str:
    """Names an operation by its tag and its function: `effects_begin`."""
    return re.sub(r"\W", "_", "_".join([*map(str, route.tags[:1]), route.name]))


def operations(description: Content) -> Iterator[tuple[str, str, Content]]:
    """Gives each operation: its method, its path, and what is told of it."""
    for path, methods in description["paths"].items():
        for method, told in methods.items():
            yield method.upper(), path, told


def _completed(description: Content) -> Content:
    description["info"]["description"] = _OVERVIEW
    description["paths"][STORE] = {"post": _store_operation()}
    for method, path, told in operations(description):
        _name(told)
        _tell_who(told)
        _tell_answers(method, path, told)
        _add_example(method, path, told)
    used = {tag: "" for _, _, told in operations(description) for tag in told["tags"]}
    told_of = {name: text for name, text in TAGS.items() if name in used}
    description["tags"] = [{"name": name, "description": text} for name, text in {**told_of, **used, **told_of}.items()]
    components = description.setdefault("components", {})
    schemas = {**components.get("schemas", {}), "Problem": _problem_schema()}
    for unused in ("HTTPValidationError", "ValidationError"):  # the framework's own way to refuse
        schemas.pop(unused, None)
    components["schemas"] = dict(sorted(schemas.items()))
    components["responses"] = {_response_name(status): _response(status) for status in sorted(MEANINGS)}
    return description


def _name(told: Content) -> None:
    """Names an operation by what its function says of it: what stands before the first stop is its summary."""
    text = " ".join(str(told.get("description") or told["summary"]).split())
    told["summary"] = re.split(r"[.;:] ", text, maxsplit=1)[0].rstrip(".")
    told["description"] = text


def _tell_who(told: Content) -> None:
    """Says that a token may also come the plain way where a client's own way is taken too."""
    if told.get("security") == [{BASIC: []}]:
        told["security"] = [{BEARER: []}, {BASIC: []}]


# Answers


def _response_name(status: int) -> str:
    return f"Problem{status}"


def _response(status: int) -> Content:
    types = ", ".join(f"`{name}`" for name in types_with_status(status))
    content = {PROBLEM_JSON: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    headers: Content = {}
    if status == 401:
        headers["WWW-Authenticate"] = {"description": "How to say who one is.", "schema": {"type": "string"}}
    told = {"description": f"{MEANINGS[status]} Types: {types}.", "content": content}
    return {**told, "headers": headers} if headers else told


def _problem_schema() -> Content:
    schema = Problem.model_json_schema()
    schema["properties"]["type"] |= {"examples": [f"{PROBLEMS}still-running"]}
    return schema


def _tell_answers(method: str, path: str, told: Content) -> None:
    """Adds the refusals that an operation can answer with to the answers that its function tells of."""
    if method == "POST" and path != STORE and not path.startswith("/v1/sign-in/"):
        told["parameters"] = [*told.get("parameters", []), _IDEMPOTENCY_KEY]
    kept = {status: each for status, each in told["responses"].items() if not _is_problem(each)}
    told_of = {int(status) for status, each in told["responses"].items() if PROBLEM_JSON in each.get("content", {})}
    can = sorted(_refusals(method, told) | told_of)
    refusals = {str(one): {"$ref": f"#/components/responses/{_response_name(one)}"} for one in can}
    told["responses"] = dict(sorted({**refusals, **kept}.items()))
    for answered in kept.values():
        if answered["description"] == "Successful Response":  # the framework's word for it
            answered["description"] = "What was asked for." if "content" in answered else "It is done."


def _is_problem(response: Content) -> bool:
    content = response.get("content", {})
    return PROBLEM_JSON in content or content.get("application/json", {}).get("schema") == _FRAMEWORKS


_FRAMEWORKS = {"$ref": "#/components/schemas/HTTPValidationError"}


def _refusals(method: str, told: Content) -> set[int]:
    parameters = told.get("parameters", [])
    can: set[int] = {422} if any(each["in"] in ("path", "query") for each in parameters) else set()
    if SCOPES_TOLD not in told:
        return can
    can |= {400, 401, 403, 429, 503}
    if method != "GET":
        can |= {404, 409, 410, 413, 422}
    if any(each["in"] in ("path", "query") for each in parameters):
        can |= {404, 409, 410}
    if any(each["name"].lower() == "if-match" for each in parameters):
        can.add(412)
    if "requestBody" in told:
        can.add(415)
    return can


def _add_example(method: str, path: str, told: Content) -> None:
    example = EXAMPLES.get(f"{method} {path}")
    if example is not None:
        told["requestBody"]["content"]["application/json"]["example"] = example


def _store_operation() -> Content:
    """Describes what is no resource: the questions of the Python client, each with a body and an answer of its own."""
    names = sorted({*QUESTIONS, "apply", "introduce"})
    summary = "Answer a question of the Python client."
    body: Content = {"required": True, "content": {"application/json": {"schema": _ANY_OBJECT}}}
    answered = {"description": "The answer.", "content": {"application/json": {"schema": _ANY_OBJECT}}}
    return {
        "tags": ["python-client"],
        "summary": summary,
        "description": summary,
        "operationId": "python_client_ask",
        "parameters": [{"name": "name", "in": "path", "required": True, "schema": {"type": "string", "enum": names}}],
        "requestBody": body,
        "responses": {"200": answered},
        "security": [{BEARER: []}],
        **right_told("read"),  # each command that is sent needs its own right
    }
