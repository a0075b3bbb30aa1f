"""A browser, servers and stories for every test in this folder; `tests/browser/__init__.py` says how to use them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.browser.chromium import started_browser
from tests.browser.reports import Reader, made_reports
from tests.browser.stories import Story, opened_ledger
from tests.browser.watching import Watch
from tests.postgres import fresh_database
from tests.server.office import House


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """One Chromium for all tests of this folder, and gone after them: others need the thread's event loop."""
    with started_browser() as started:
        yield started


@pytest.fixture(scope="session")
def kept_keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of keys with which both servers and every story seal."""
    return tmp_path_factory.mktemp("keys")


@pytest.fixture(scope="package", params=["sqlite", "postgres"])
def house(
    request: pytest.FixtureRequest, browser: Browser, kept_keys: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[House]:
    """A server on each kind of store, for any number of tenants."""
    if request.param == "sqlite":
        made = House(f"sqlite:///{tmp_path_factory.mktemp('house') / 'ledger.db'}", keys=kept_keys)
        yield made
        made.close()
        return
    shared = os.environ.get("INDELIBLE_TEST_POSTGRES") or request.getfixturevalue("_postgres_cluster").start().url
    with fresh_database(shared) as url:
        made = House(url, keys=kept_keys)
        yield made
        made.close()


@pytest.fixture
def watch(browser: Browser) -> Iterator[Watch]:
    """Opens pages and knows what they did; afterwards none may have asked anybody but its homes, or tripped."""
    watching = Watch(browser)
    yield watching
    watching.close()
    watching.check()


@pytest.fixture
def story(house: House, kept_keys: Path, watch: Watch) -> Iterator[Story]:
    """A tenant of its own on a server."""
    with opened_ledger(house, kept_keys) as ledger:
        told = Story(house, ledger, kept_keys, watch)
        yield told
        watch.homes.append(told.home)
        watch.close()  # before the server's end of what they follow


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, str], str]:
    """Reports of a run and of the whole journal; and the key they verify with."""
    return made_reports(tmp_path_factory.mktemp("journal"))


@pytest.fixture(scope="package")
def open_report(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """Opens a report and waits for its verdict."""
    reader = Reader(browser, tmp_path_factory.mktemp("reports"))
    yield reader
    reader.close()
