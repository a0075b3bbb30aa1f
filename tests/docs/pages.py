"""The pages, cut into the blocks of code that stand on them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

_BLOCK = re.compile(
    r"(?:^(?P<indent> *)<!-- not run: (?P<reason>.+?) -->\n)?"
    r"^(?P<inner> *)```(?P<kind>\w*)(?: title=\"(?P<title>[^\"]+)\")?\n(?P<text>.*?)^(?P=inner)```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One fenced block of a page. `not_run` is the page's own reason why nobody can run it as it stands."""

    line: int
    kind: str
    text: str
    title: str | None
    not_run: str | None


def pages() -> list[Path]:
    """Every page a user may read, the README first."""
    return [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]


def named(page: Path) -> str:
    """The page's path in the project, which is how tests speak of it."""
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> list[Block]:
    """The page's fenced blocks of code, in the order in which they stand there."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(
            line=text.count("\n", 0, found.start()) + 1,
            kind=found["kind"],
            text=re.sub(rf"^{found['inner']}", "", found["text"], flags=re.MULTILINE),
            title=found["title"],
            not_run=found["reason"],
        )
        for found in _BLOCK.finditer(text)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Typed:
    """A command as it is typed, and what the page says it answers."""

    line: int
    command: str
    answer: tuple[str, ...]


def typed(block: Block) -> list[Typed]:
    """The commands of a console block. A command that ends with a backslash goes on in the next line."""
    told: list[Typed] = []
    lines = block.text.splitlines()
    for number, line in enumerate(lines):
        if line.startswith("$ "):
            told.append(Typed(line=block.line + number + 1, command=line[2:], answer=()))
        elif told and told[-1].command.endswith("\\"):
            told[-1] = Typed(line=told[-1].line, command=told[-1].command[:-1] + line.strip(), answer=())
        elif told:
            told[-1] = Typed(line=told[-1].line, command=told[-1].command, answer=(*told[-1].answer, line))
    return told
