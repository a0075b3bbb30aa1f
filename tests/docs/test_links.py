"""Every link between pages leads to a file and a heading that are there, and every page can be reached."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, ROOT, named, pages

_LINK = re.compile(r"(?<!`)\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^)\s]+)\)")
_FENCED = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)


def prose(page: Path) -> str:
    return _FENCED.sub("", page.read_text(encoding="utf-8"))


def links(page: Path) -> list[str]:
    """The targets of a page's links and pictures within the project."""
    return [target for target in _LINK.findall(prose(page)) if not re.match(r"[a-z]+:", target)]


def anchors(page: Path) -> set[str]:
    """The names of a page's headings, as both GitHub and the site make them."""
    found = set()
    for heading in re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        found.add(re.sub(r"[^\w\- ]", "", plain.lower()).strip().replace(" ", "-"))
    return found


@pytest.mark.parametrize("page", pages(), ids=named)
def test_links_lead_somewhere(page: Path) -> None:
    astray = []
    for target in links(page):
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        is_there = there.exists() and there.is_relative_to(ROOT)
        if not is_there or (anchor and there.suffix == ".md" and anchor not in anchors(there)):
            astray.append(target)
    assert astray == []


@pytest.mark.parametrize("first", [DOCS / "index.md", ROOT / "README.md"], ids=named)
def test_every_page_is_reached_from_the_first_one(first: Path) -> None:
    reached, to_read = {first}, [first]
    while to_read:
        page = to_read.pop()
        linked = {(page.parent / target.partition("#")[0]).resolve() for target in links(page) if target[0] != "#"}
        new = {one for one in linked - reached if one.suffix == ".md"}
        reached |= new
        to_read += new
    assert sorted(named(page) for page in DOCS.rglob("*.md") if page not in reached) == []
