"""The site can be built, its map is whole, and pages that are made from code are as fresh as the code."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml

from benchmarks import published
from benchmarks.scenarios import FULL
from tests.docs import reference
from tests.docs.pages import DOCS, ROOT


def listed(nav: Any) -> Iterator[str]:
    """Every page that the site's map names."""
    for entry in nav if isinstance(nav, list) else nav.values():
        if isinstance(entry, str):
            yield entry
        else:
            yield from listed(entry)


def test_every_page_is_on_the_map_once() -> None:
    site = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    there = sorted(page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md"))
    assert sorted(listed(site["nav"])) == there


def test_pages_made_from_code_say_what_the_code_says() -> None:
    assert reference.differing() == []


def test_the_speeds_on_the_pages_are_those_that_were_measured() -> None:
    measured = json.loads(published.MEASURED.read_text(encoding="utf-8"))
    for path in published.PAGES:
        page = path.read_text(encoding="utf-8")
        assert published.placed(page, measured) == page, "run: python -m benchmarks.published"
    assert measured["pace"] == json.loads(json.dumps(asdict(FULL))), "the long measurement, not the quick one"
    assert not measured["absent"], "everybody took part"


def test_the_site_is_built_without_a_warning_and_asks_nothing_of_anybody(tmp_path: Path) -> None:
    shutil.copytree(DOCS, tmp_path / "docs")
    shutil.copy(ROOT / "mkdocs.yml", tmp_path)
    done = subprocess.run(
        [Path(sys.executable).with_name("zensical"), "build", "--strict"],
        cwd=tmp_path,
        env=os.environ | {"NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    pages = list((tmp_path / "site").rglob("*.html"))
    assert len(pages) > 40
    outside = {line for page in pages for line in page.read_text(encoding="utf-8").splitlines() if ' src="http' in line}
    assert outside == set()
