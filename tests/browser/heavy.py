"""How fast the page is on a store with very many runs: first paint, first line, and how smoothly a list scrolls.

    python -m tests.browser.heavy --runs 100000 --store sqlite
    python -m tests.browser.heavy --runs 100000 --store postgres
    python -m tests.browser.heavy --runs 100000 --url sqlite:////var/tmp/heavy.db   # made once, measured often

Runs are made by the public verbs, each begun and completed by itself, from many threads so that the writer commits them
in batches; every tenth calls a tool. Each sample is a new browser context: nothing is cached. Nothing here passes or
fails, for a busy machine says little about the page: it prints what it measured.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page

from indelible import Ledger, ToolCall
from indelible.stores import migrate
from tests.browser.chromium import started_browser
from tests.browser.stories import Story
from tests.browser.watching import Watch
from tests.postgres import PostgresServer, fresh_database
from tests.server.office import House

TENANT = "heavy"
THREADS = 64
SAMPLES = 7

# Notes when the page first has something to read: a line of a list, or a figure that has been counted.
STOPWATCH = """
new MutationObserver(() => {
  const main = document.querySelector('main');
  const isCounted = main?.querySelector('caption, figure') && !/Counting/.test(main.innerText);
  const isThere = main?.querySelector('[data-line]') || isCounted;
  if (isThere) globalThis.readable ??= requestAnimationFrame((at) => { globalThis.readableAt = at; });
}).observe(document, { subtree: true, childList: true, characterData: true });
"""
PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
# Scrolls as fast as a person with a wheel, frame by frame, and counts the frames that came late.
SCROLL = """async (lines) => {
  const pane = document.querySelector('[role=region]');
  const last = () => Number([...pane.querySelectorAll('[data-line]')].at(-1)?.dataset.line ?? 0);
  const frames = [];
  let before = await new Promise(requestAnimationFrame);
  for (let waits = 0; last() < lines && waits < 600; ) {
    const from = pane.scrollTop;
    pane.scrollTop += 400;
    waits = pane.scrollTop === from ? waits + 1 : 0;
    const at = await new Promise(requestAnimationFrame);
    frames.push(at - before);
    before = at;
  }
  const late = frames.filter((one) => one > 50).length;
  return { lines: last() + 1, frames: frames.length, late, longest: Math.max(...frames) };
}"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--store", choices=["sqlite", "postgres"], default="sqlite")
    parser.add_argument("--url", help="a store to make, or one that was made before")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, _store(given.store, given.url, Path(folder)) as url:
        keys = Path(folder) / "keys"
        migrate(url)
        with Ledger.open(url, tenant=TENANT, keys=keys, seal=False) as ledger:
            _make(ledger, given.runs)
            with started_browser() as browser:
                _measure(browser, House(url, keys=keys, seal=False), ledger, keys)


@contextmanager
def _store(kind: str, url: str | None, folder: Path) -> Iterator[str]:
    """Gives the address of a store: the one that is named, or one that is gone afterwards."""
    if url is not None or kind == "sqlite":
        yield url or f"sqlite:///{folder / 'ledger.db'}"
        return
    with PostgresServer() as server, fresh_database(server.url) as made:
        yield made


def _make(ledger: Ledger, count: int) -> None:
    """Makes the runs, unless they are there."""
    if ledger.get_run(_name(count - 1)) is not None:
        return
    with ThreadPoolExecutor(THREADS) as threads:
        for done, _ in enumerate(threads.map(lambda number: _run(ledger, number), range(count)), 1):
            if done % 10_000 == 0:
                print(f"{done:,} runs", flush=True)


def _name(number: int) -> str:
    return f"order-{number:07}"


def _run(ledger: Ledger, number: int) -> None:
    run = ledger.start_run(_name(number), agent=f"agent-{number % 17}", intent=f"refund order {number}")
    if number % 10 == 0:
        call = ToolCall(tool=f"tool.{number % 7}", args={"order": number}, run_id=run.id)
        ledger.run(call, lambda effect: {"ok": True})
    run.complete()


def _measure(browser: Browser, house: House, ledger: Ledger, keys: Path) -> None:
    def opened(path: str, read: Callable[[Page], Any]) -> Any:
        watch = Watch(browser)
        found = _read(Story(house, ledger, keys, watch), path, read)
        watch.close()
        return found

    for path in ("runs", "overview"):
        samples = [opened(path, _read_times) for _ in range(SAMPLES)]
        for name in samples[0]:
            of_name = [one[name] for one in samples]
            print(f"/{path}: {name} {statistics.median(of_name):.0f} ms, median of {[round(one) for one in of_name]}")
    scrolled = opened("runs", lambda page: page.evaluate(SCROLL, 10_000))
    print(f"/runs: scrolled through {scrolled}")
    house.close()


def _read(story: Story, path: str, read: Callable[[Page], Any]) -> Any:
    page = story.sign_in("root", "admin")
    page.add_init_script(STOPWATCH)
    page.goto(story.home + path)
    page.wait_for_function("() => globalThis.readableAt !== undefined")
    page.wait_for_function(f"() => {PAINT} !== undefined")
    return read(page)


def _read_times(page: Page) -> dict[str, float]:
    return {"first paint": page.evaluate(PAINT), "readable": page.evaluate("globalThis.readableAt")}


if __name__ == "__main__":
    main()
