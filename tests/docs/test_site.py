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

import pytest
import yaml

from benchmarks import published
from benchmarks.scenarios import FULL
from benchmarks.verifier import report_of
from indelible import Ledger, ToolCall
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


@pytest.mark.parametrize("kind", [line.ours for line in published.LINES if line.scenario == "verify"])
def test_80_the_rate_of_verify_is_that_of_the_command_without_options(kind: str, own_keys: Path) -> None:
    """What is timed reports what the command reports: it reads, checks and rules out as much."""
    ledger_file, bundle = own_keys.parent / "ledger.db", own_keys.parent / "bundle.zip"
    url = f"sqlite:///{ledger_file}"
    with Ledger.open(url) as ledger:
        ledger.run(ToolCall(tool="note.write", args={"n": 1}, run_id="order-7"), lambda effect: 1)
        ledger.export(bundle)
        key = ledger._engine.notary.signer().keys(ledger.journal_name)[0].vkey
    is_live = kind == "live"
    words = ["--json", "--url", url, "verify", "--key", key, *([] if is_live else [str(bundle)])]
    env = os.environ | ({} if is_live else {"INDELIBLE_KEYS": str(own_keys / "auditor")})
    command = [sys.executable, "-m", "indelible", *words]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    timed = report_of(kind, str(ledger_file if is_live else bundle), key).as_json()
    assert timed == json.loads(done.stdout)


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
