"""Where the browser is, and how it is started."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
MISSING = "no Chromium was found; install one (Debian: apt install chromium), or set INDELIBLE_CHROMIUM to one"
PATIENCE = 90_000
"""Is for how many milliseconds something may take to be seen: a busy machine is no mistake of the page."""

# As root there is no sandbox. Names that are not of this machine lead nowhere, so nothing ever leaves it.
_FLAGS = (
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--disable-gpu",  # without a screen there is nothing for it to do but to take time
    "--in-process-gpu",
    "--disable-extensions",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1",
)


def find_chromium() -> str | None:
    """Gives the path of a Chromium, or None."""
    named = os.environ.get("INDELIBLE_CHROMIUM")
    return named or next(filter(None, map(shutil.which, _NAMES)), None)


def needed_chromium() -> str:
    """Gives the path of a Chromium; without one the test is skipped, or fails where a browser is required."""
    found = find_chromium()
    if found is None:
        missed = pytest.fail if os.environ.get("INDELIBLE_BROWSER") == "required" else pytest.skip
        missed(MISSING)
    return found


@contextmanager
def started_browser() -> Iterator[Browser]:
    """Starts a Chromium.

    While it runs, playwright has an event loop going in this thread: nothing else can have one here.
    """
    path = needed_chromium()
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(_FLAGS), timeout=PATIENCE)
        yield browser
        browser.close()
