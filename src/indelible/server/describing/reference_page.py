"""Makes the reference's pages out of the description. Whatever is in it is shown as text, never as markup."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from html import escape
from typing import Any

from indelible.core.remote.problem_types import PROBLEM_TYPES, ProblemType
from indelible.core.rights import REACHES
from indelible.server.requests.routing import RIGHT_TOLD

Content = dict[str, Any]
_REF = "#/components/schemas/"


def reference_page(description: Content) -> str:
    """Gives the page of all operations, by their tags, and of all schemas."""
    by_tag: dict[str, list[str]] = {tag["name"]: [] for tag in description["tags"]}
    links: dict[str, list[str]] = {name: [] for name in by_tag}
    for path, methods in description["paths"].items():
        for method, told in methods.items():
            tag = told["tags"][0]
            by_tag[tag].append(_operation(method.upper(), path, told, description))
            links[tag].append(_link(method.upper(), path, told))
    info = description["info"]
    body = [
        f"<h1>{escape(info['title'])} {escape(info['version'])}</h1>",
        *(f"<p>{_text(part)}</p>" for part in info.get("description", "").split("\n\n")),
        '<p>For programs: <a href="openapi.json">openapi.json</a>.</p>',
        *(
            f'<h2 id="tag-{escape(tag["name"])}">{escape(tag["name"])}</h2><p>{_text(tag["description"])}</p>'
            + "".join(by_tag[tag["name"]])
            for tag in description["tags"]
        ),
        '<h2 id="problems">Problems</h2>',
        _table(("type", "status", "means"), [_problem_row(*each) for each in PROBLEM_TYPES.items()]),
        '<h2 id="schemas">Schemas</h2>',
        *(_schema(name, schema) for name, schema in description["components"]["schemas"].items()),
    ]
    menu = "".join(f"<h2>{escape(tag)}</h2><ul>{''.join(each)}</ul>" for tag, each in links.items())
    return _page("Reference", "docs/", _SEARCH + f'<div id="menu">{menu}</div>', "".join(body))


def problem_page(name: str, told: ProblemType) -> str:
    """Gives the page of one type of problem."""
    statuses = ", ".join(map(str, told.statuses))
    body = (
        f"<h1>{escape(told.title)}</h1><p><code>/problems/{escape(name)}</code> · status {statuses}</p>"
        f"<p>{_text(told.means)}</p><h2>What to do next</h2><p>{_text(told.next_step)}</p>"
    )
    return _page(told.title, "../docs/", '<p><a href="../docs">Reference</a></p>', body)


_SEARCH = (
    '<label for="search">Search</label><input id="search" type="search" autocomplete="off" '
    'aria-describedby="found"><p id="found" role="status"></p>'
)


def _page(title: str, files: str, side: str, body: str) -> str:
    """Gives a whole page; addresses in it are relative, so that it works under any prefix."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<title>{escape(title)} · Indelible</title><link rel="stylesheet" href="{files}reference.css">'
        f'<script src="{files}reference.js" defer></script></head>'
        f'<body><nav aria-label="Contents">{side}</nav><main>{body}</main></body></html>\n'
    )


def _link(method: str, path: str, told: Content) -> str:
    words = f"{method} {path} {told['summary']}".lower()
    return (
        f'<li data-words="{escape(words)}"><a href="#{escape(told["operationId"])}">'
        f'<span class="method {method.lower()}">{method}</span> {_text(told["summary"])}</a></li>'
    )


def _operation(method: str, path: str, told: Content, description: Content) -> str:
    words = f"{method} {path} {told['summary']} {told['description']}".lower()
    parts = [
        f'<section class="operation" id="{escape(told["operationId"])}" data-words="{escape(words)}">',
        f"<h3>{_text(told['summary'])}</h3>",
        f'<p class="address"><span class="method {method.lower()}">{method}</span> <code>{escape(path)}</code></p>',
        "" if told["description"].rstrip(".") == told["summary"] else f"<p>{_text(told['description'])}</p>",
        f"<p>Asked by: {_who(told)}.</p>",
        _parameters(told.get("parameters", [])),
        _body(told.get("requestBody")),
        _table(
            ("status", "answer"), [_answer_row(status, each, description) for status, each in told["responses"].items()]
        ),
        "</section>",
    ]
    return "".join(parts)


def _who(told: Content) -> str:
    right = told.get(RIGHT_TOLD)
    if right is None:
        return "anybody, without a credential"
    reaches = {scope: "" if reach == "any" else f" ({REACHES[reach]})" for scope, reach in right["reach"].items()}
    return ", ".join(f"<code>{scope}</code>{reach}" for scope, reach in reaches.items())


def _parameters(parameters: Iterable[Content]) -> str:
    rows = [
        (
            f"<code>{escape(each['name'])}</code>{'*' if each.get('required') else ''}",
            escape(each["in"]),
            _kind(each.get("schema", {})),
            _text(each.get("description", "")),
        )
        for each in parameters
    ]
    return _table(("parameter", "in", "kind", ""), rows) if rows else ""


def _body(body: Content | None) -> str:
    if body is None:
        return ""
    told = body["content"]["application/json"]
    example = told.get("example")
    shown = "" if example is None else f"<pre>{escape(json.dumps(example, indent=2, ensure_ascii=False))}</pre>"
    return f"<p>Body: {_kind(told['schema'])}</p>{shown}"


def _answer_row(status: str, told: Content, description: Content) -> tuple[str, str]:
    if "$ref" in told:
        told = description["components"]["responses"][told["$ref"].rpartition("/")[2]]
    kinds = [
        f"{_kind(each['schema'])}{'' if kind.endswith('json') else f' as <code>{escape(kind)}</code>'}"
        if "schema" in each
        else f"<code>{escape(kind)}</code>"
        for kind, each in told.get("content", {}).items()
    ]
    return escape(status), f"{_linked_problems(_text(told['description']))} {' or '.join(kinds)}"


def _linked_problems(text: str) -> str:
    def link(found: re.Match[str]) -> str:
        name = found[1]
        return f'<a href="problems/{name}"><code>{name}</code></a>' if name in PROBLEM_TYPES else found[0]

    return re.sub(r"<code>([a-z-]+)</code>", link, text)


def _problem_row(name: str, told: ProblemType) -> tuple[str, str, str]:
    link = f'<a href="problems/{name}"><code>{name}</code></a>'
    return link, ", ".join(map(str, told.statuses)), _text(f"{told.title}. {told.means}")


def _schema(name: str, schema: Content) -> str:
    needed = schema.get("required", [])
    rows = [
        (
            f"<code>{escape(member)}</code>{'*' if member in needed else ''}",
            _kind(told),
            _text(told.get("description", "")),
        )
        for member, told in schema.get("properties", {}).items()
    ]
    members = _table(("member", "kind", ""), rows) if rows else f"<p>{_kind(schema)}</p>"
    return (
        f'<section class="schema" id="schema-{escape(name)}" data-words="{escape(name.lower())}">'
        f"<h3>{escape(name)}</h3><p>{_text(schema.get('description', ''))}</p>{members}</section>"
    )


def _kind(schema: Content) -> str:
    """Says in a few words what a value is."""
    if "$ref" in schema:
        name = escape(schema["$ref"].removeprefix(_REF))
        return f'<a href="#schema-{name}">{name}</a>'
    for union in ("anyOf", "oneOf", "allOf"):
        if union in schema:
            return " or ".join(_kind(each) for each in schema[union])
    if "const" in schema:
        return f"<code>{escape(json.dumps(schema['const']))}</code>"
    if "enum" in schema:
        return ", ".join(f"<code>{escape(str(each))}</code>" for each in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    return escape(schema.get("format") or schema.get("type") or "anything") + escape(_bounds(schema))


def _bounds(schema: Content) -> str:
    least = schema.get("minimum", schema.get("exclusiveMinimum", schema.get("minLength")))
    most = schema.get("maximum", schema.get("exclusiveMaximum", schema.get("maxLength")))
    if least is None and most is None:
        return ""
    return f" ({'' if least is None else least}…{'' if most is None else most})"


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    head = "".join(f'<th scope="col">{escape(each)}</th>' if each else "<td></td>" for each in heads)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f'<div class="wide" tabindex="0"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _text(text: str) -> str:
    """Shows text; what stands between backticks is code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(" ".join(text.split())))
