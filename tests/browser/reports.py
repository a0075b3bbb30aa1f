"""Genuine reports, and ways to open and change them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

from playwright.sync_api import Browser, Page, Request

from indelible import Ledger
from indelible.core.events import event_hash
from indelible.journal.exports.exporting import export
from indelible.journal.exports.selecting import OfRun, Selection
from tests.browser.chromium import PATIENCE
from tests.journal.exported import key_of, store_of, work
from tests.stores.database import open_file

_BLOCK = re.compile(r'(?<=<script type="application/json" id="record">).*?(?=</script>)', re.DOTALL)


def made_reports(folder: Path) -> tuple[dict[str, str], str]:
    """Makes reports of a run and of the whole journal, and gives them with the key they verify with."""
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
    text = record if isinstance(record, str) else _written(record)
    return _BLOCK.sub(lambda _: text, page)


def _written(record: Any) -> str:
    """Writes a record as a report does; what is none, as JSON."""
    if not isinstance(record, dict) or record.keys() != {"events", "head", "manifest"}:
        return _json(record)
    if not isinstance(record["events"], list):
        return _json(record)
    events = ",".join(f"\n{_json(event)}" for event in record["events"])
    return f'{{"events":[{events}\n],"head":{_json(record["head"])},"manifest":{_json(record["manifest"])}}}\n'


def _json(content: object) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


class Reader:
    """Opens reports from files, one after the other in the same page, and waits for their verdicts."""

    def __init__(self, browser: Browser, folder: Path) -> None:
        self._folder = folder
        self._context = browser.new_context()
        self._context.set_default_timeout(PATIENCE)
        # What an attack in the record would do, if any of it ever ran.
        self._context.add_init_script(
            "globalThis.hit = () => { globalThis.wasHit = true; }; globalThis.alert = globalThis.hit;"
        )
        self._context.on("console", lambda message: self.troubles.append(message.text))
        self._context.on("weberror", lambda found: self.troubles.append(str(found.error)))
        self._context.on("request", self._asked)
        self._page = self._context.new_page()
        self._count = 0
        self.troubles: list[str] = []
        """Lists what the report opened last asked for besides itself, and tripped over."""

    def _asked(self, request: Request) -> None:
        if not request.url.endswith(f"/report.html?{self._count}"):
            self.troubles.append(request.url)

    def __call__(self, text: str, *, key: str | None = None, before: str = "") -> Page:
        """Opens a report with the key it is to verify with; `before` is a script that runs before all else."""
        path = self._folder / "report.html"
        path.write_text(text, encoding="utf-8")
        page = self._context.new_page() if before else self._page
        if before:
            page.add_init_script(before)
        self.troubles.clear()
        self._count += 1  # else the browser would take it for a place in the page that it has
        page.goto(f"{path.as_uri()}?{self._count}" + (f"#key={quote(key, safe='')}" if key else ""))
        page.wait_for_selector("#verdict:not([data-state=busy])")
        return page

    def close(self) -> None:
        self._context.close()


def verdict(page: Page) -> str:
    return str(page.get_attribute("#verdict", "data-state"))


def rewrite(ledger: Ledger, path: str, run_id: str, change: Callable[[dict[str, Any]], None]) -> None:
    """Changes the last event of a run behind the ledger's back, before it is sealed: so the change gets signed."""
    event = ledger.events(run_id)[-1]
    body = event.read()
    change(body)
    raw = json.dumps(body, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()
    place = (bytes.fromhex(event_hash(raw)), run_id, event.seq)
    connection = open_file(path)
    connection.execute("UPDATE indelible_events SET body = ?, hash = ? WHERE run_id = ? AND seq = ?", (raw, *place))
    connection.execute("UPDATE indelible_pending SET hash = ? WHERE run_id = ? AND seq = ?", place)
    connection.close()
