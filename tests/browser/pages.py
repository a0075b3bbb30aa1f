"""A browser, a genuine report, and ways to open and change it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from indelible import Ledger
from indelible.journal.exporting import export
from indelible.journal.selecting import OfRun, Selection
from tests.journal.exported import key_of, store_of, work

Open = Callable[..., Page]
_BLOCK = re.compile(r'(?<=<script type="application/json" id="record">).*?(?=</script>)', re.DOTALL)


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, str], str]:
    """Reports of a run and of the whole journal; and the key they verify with."""
    folder = tmp_path_factory.mktemp("journal")
    with Ledger.open(f"sqlite:///{folder / 'ledger.db'}") as ledger:
        work(ledger)
        ledger.seal()
        reports = {
            kind: report_text(ledger, folder / f"{kind}.html", selection)
            for kind, selection in (("run", OfRun("order-1")), ("journal", None))
        }
        key = key_of(ledger)
    return reports, key


def report_text(ledger: Ledger, out: Path, selection: Selection | None = None) -> str:
    export(store_of(ledger), ledger.tenant, out, form="html", selection=selection)
    return out.read_text(encoding="utf-8")


def record_in(page: str) -> dict[str, Any]:
    found = _BLOCK.search(page)
    assert found is not None
    record: dict[str, Any] = json.loads(found[0])
    return record


def with_record(page: str, record: object) -> str:
    text = record if isinstance(record, str) else json.dumps(record).replace("<", "\\u003c")
    return _BLOCK.sub(lambda _: text, page)


@pytest.fixture
def open_page(browser: Browser, tmp_path: Path) -> Iterator[Open]:
    """Opens a page from a file and waits for its verdict; whatever it asks the network for or trips over is kept."""
    context = browser.new_context()
    # What an attack in the record would do, if any of it ever ran.
    context.add_init_script("globalThis.hit = () => { globalThis.wasHit = true; }; globalThis.alert = globalThis.hit;")

    def open_file(text: str, *, key: str | None = None, fragment: str = "", before: str = "") -> Page:
        path = tmp_path / "report.html"
        path.write_text(text, encoding="utf-8")
        page = context.new_page()
        page.troubles = []  # type: ignore[attr-defined]
        page.on("console", lambda message: page.troubles.append(message.text))  # type: ignore[attr-defined]
        page.on("pageerror", lambda error: page.troubles.append(str(error)))  # type: ignore[attr-defined]
        page.on("request", lambda request: page.troubles.append(request.url))  # type: ignore[attr-defined]
        if before:
            page.add_init_script(before)
        page.goto(path.as_uri() + fragment)
        page.wait_for_selector("#verdict:not([data-state=busy])")
        if key is not None:
            page.fill("#key", key)
            page.click("button")
            page.wait_for_function("document.querySelector('#verdict').dataset.state !== 'unkeyed'")
        return page

    yield open_file
    context.close()


def verdict(page: Page) -> str:
    return str(page.get_attribute("#verdict", "data-state"))
