"""`python -m tests.docs.reference`: writes the pages that say what the code says. `--check` only compares.

docs/reference/api.md from signatures and docstrings, errors.md from the tree of exceptions, schema.md from the
migrations, llms.txt from the pages themselves.
"""

from __future__ import annotations

import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

import indelible
from indelible import errors
from tests.docs.pages import DOCS, ROOT

_MADE = "<!-- Made by `./run python -m tests.docs.reference`. Change the code, not this page. -->"
_STORES = ROOT / "src" / "indelible" / "stores"


def api() -> str:
    """Every public name: how it is called, and the first line it says about itself."""
    names = {name: getattr(indelible, name) for name in indelible.__all__}
    classes = {name: one for name, one in names.items() if inspect.isclass(one)}
    functions = {name: one for name, one in names.items() if inspect.isfunction(one)}
    lines = [
        _MADE,
        "# Python",
        "",
        "Everything that can be imported from `indelible`. A name that is not here is not promised. `AsyncLedger` has",
        "the verbs of `Ledger`, awaited. Errors are in [`indelible.errors`](errors.md), options on a",
        "[page](options.md) of their own; adapters are imported from `indelible.integrations`.",
        "",
        "## Functions",
        "",
        *(line for name, one in functions.items() for line in _function(name, one, heading="###")),
    ]
    for name in ("Ledger", "ActiveRun"):
        lines += [f"## {name}", "", _paragraph(classes[name]), ""]
        lines += [line for verb, one in _methods(classes[name]) for line in _function(verb, one, heading="###")]
    lines += ["## Values", "", "| name | fields | meaning |", "|---|---|---|"]
    for name, one in classes.items():
        if name not in {"Ledger", "AsyncLedger", "ActiveRun"} and not issubclass(one, BaseException):
            fields = ", ".join(f"`{field}`" for field in getattr(one, "__dataclass_fields__", {}) if field[0] != "_")
            lines.append(f"| `{name}` | {fields} | {_cell(_paragraph(one))} |")
    return "\n".join(lines) + "\n"


def _methods(owner: type[Any]) -> Iterator[tuple[str, Callable[..., Any]]]:
    named = {name: one for kind in reversed(owner.__mro__) for name, one in vars(kind).items()}
    for name, one in named.items():
        plain = one.__func__ if isinstance(one, classmethod | staticmethod) else one
        if not name.startswith("_") and inspect.isfunction(plain):
            yield name, plain


def _function(name: str, one: Callable[..., Any], *, heading: str) -> list[str]:
    return [f"{heading} `{name}`", "", "```text", _signature(name, one), "```", "", _paragraph(one), ""]


def _signature(name: str, one: Callable[..., Any]) -> str:
    """How it is called, without types that say nothing to a reader, broken as text."""
    parts = []
    marked = False
    for parameter in inspect.signature(one).parameters.values():
        if parameter.name in {"self", "cls"}:
            continue
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and not marked:
            parts.append("*")
            marked = True
        prefix = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        marked = marked or prefix == "*"
        given = "" if parameter.default is inspect.Parameter.empty else f"={_default(parameter.default)}"
        parts.append(f"{prefix}{parameter.name}{given}")
    text = f"{name}({', '.join(parts)})"
    return "\n".join(textwrap.wrap(text, 100, subsequent_indent="    ", break_long_words=False))


def _default(value: Any) -> str:
    return repr(value) if isinstance(value, str | int | float | bool | tuple | frozenset | None) else "…"


def _paragraph(one: Any) -> str:
    text = (inspect.getdoc(one) or "").split("\n\n", 1)[0]
    return " ".join(text.split())


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def error_tree() -> str:
    """The tree of exceptions, and what each is raised for."""
    tree = (errors.__doc__ or "").split("\n\n", 1)[1]
    rows = [
        f"| `{name}` | {_cell(_paragraph(one))} |"
        for name, one in vars(errors).items()
        if inspect.isclass(one) and issubclass(one, Exception) and one.__module__ == errors.__name__
    ]
    return "\n".join(
        [
            _MADE,
            "# Errors",
            "",
            "One class for one reaction of the caller; all come from `indelible.errors`. Over HTTP they are",
            "[problems](problems.md).",
            "",
            "```text",
            textwrap.dedent(tree.split("\n\n", 1)[0]).strip("\n"),
            "```",
            "",
            "| class | raised when |",
            "|---|---|",
            *rows,
            "",
        ]
    )


def schema() -> str:
    """The tables of both stores, as their migrations make them."""
    lines = [
        _MADE,
        "# Tables",
        "",
        "What the two stores keep, migration by migration. Read it, join it, report on it; write it only through the",
        "ledger. Every table begins with the tenant, nothing rests on triggers or sequences, and a migration that was",
        "released never changes. What the columns hold is said in [events](events.md) and [the journal](journal.md).",
        "",
    ]
    for store, title in (("postgres", "PostgreSQL"), ("sqlite", "SQLite")):
        lines += [f"## {title}", ""]
        for migration in sorted((_STORES / store / "migrations").glob("*.sql")):
            lines += [
                f"### {title}: {migration.stem}",
                "",
                "```sql",
                migration.read_text(encoding="utf-8").strip(),
                "```",
                "",
            ]
    return "\n".join(lines)


def llms() -> str:
    """A map of the documentation for language models: every page of the site, with its first sentence."""
    site = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    lines = [f"# {site['site_name']}", "", f"> {site['site_description']}", ""]
    for section in site["nav"]:
        ((title, inside),) = section.items()
        if isinstance(inside, str):
            lines.append(_mapped(title, inside))
        else:
            lines += ["", f"## {title}", ""]
            lines += [_mapped(name, page) for entry in inside for name, page in entry.items()]
    return "\n".join(lines) + "\n"


def _mapped(title: str, page: str) -> str:
    aside = r"<!--.*?-->|^```.*?^```"
    text = re.sub(aside, "", (DOCS / page).read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    heading = re.findall(r"^# (.+)$", text, re.MULTILINE)[0]
    prose = re.search(r"^(?![#|<!\s-])(.+?)(?:\n\n|\n\||\Z)", text, re.MULTILINE | re.DOTALL)
    first = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(prose[1].split())) if prose else title
    return f"- [{heading}]({page}): {re.split(r'(?<=[.?]) ', first)[0]}"


PAGES: dict[Path, Callable[[], str]] = {
    DOCS / "reference" / "api.md": api,
    DOCS / "reference" / "errors.md": error_tree,
    DOCS / "reference" / "schema.md": schema,
    DOCS / "llms.txt": llms,
}


def differing() -> list[str]:
    """The pages that no longer say what the code says."""
    return [
        page.relative_to(ROOT).as_posix()
        for page, make in PAGES.items()
        if not page.exists() or page.read_text(encoding="utf-8") != make()
    ]


def main() -> int:
    """Writes what differs, or names it."""
    old = differing()
    if "--check" in sys.argv:
        print("\n".join(f"{page} is old. Make it anew: ./run python -m tests.docs.reference" for page in old))
        return int(bool(old))
    for page, make in PAGES.items():
        page.write_text(make(), encoding="utf-8")
    print("\n".join(f"wrote {page}" for page in old) or "nothing to write")
    return 0


if __name__ == "__main__":
    sys.exit(main())
