"""The page on filters lists every word of every list, and its examples are read."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

from indelible.core.filtering.filters import HAVE_ARGS, WORDS, Resource
from indelible.core.filtering.reading import parse

PAGE = (Path(__file__).parents[3] / "docs" / "filters.md").read_text(encoding="utf-8")
RESOURCES: tuple[Resource, ...] = get_args(Resource)


def test_every_word_of_every_list_is_on_the_page_and_no_other() -> None:
    _, _, table = PAGE.partition("\n## Words\n")
    rows = [line.strip("|").split("|") for line in table.splitlines() if line.startswith("| `")]
    told = {
        resource: {row[0].strip(" `") for row in rows if row[place].strip()} - {"args.…"}
        for place, resource in enumerate(RESOURCES, 1)
    }
    assert told == {resource: set(words) for resource, words in WORDS.items()}
    args = next(row for row in rows if "args" in row[0])
    assert {resource for place, resource in enumerate(RESOURCES, 1) if args[place].strip()} == HAVE_ARGS


def test_every_example_is_read() -> None:
    examples = re.findall(r"--filter '([^']+)'|'q=([^']+)'", PAGE)
    cells = re.findall(r"^\| (`.*`) \|", PAGE.partition("| write | finds |")[2].partition("\n## ")[0], re.MULTILINE)
    texts = [one or another for one, another in examples] + [
        text for cell in cells for text in re.findall(r"`([^`]+)`", cell)
    ]
    assert len(texts) > 15
    for text in texts:
        assert parse(text, "effects").terms
