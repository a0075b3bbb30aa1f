"""Keeps an eye on pages: whom they ask, and what they trip over."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page

from tests.browser.chromium import PATIENCE

SIZE = {"width": 1280, "height": 800}


class Watch:
    """Opens pages, each in a browser of its own as far as it can tell, and knows what they did."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._opened: list[BrowserContext] = []
        self.asked: list[str] = []
        """Lists the addresses of all requests of all pages."""
        self.troubles: list[str] = []
        """Lists exceptions, and what browsers call errors and warnings."""
        self.homes: list[str] = []
        """Lists the beginnings of addresses that pages may ask for."""
        self.may_trip = False
        """Says that a page is expected to stumble: the test then looks at `troubles` by itself."""

    def open(self, **words: Any) -> Page:
        """Opens an empty page with cookies of its own; words go to playwright's `new_context`."""
        context = self._browser.new_context(**{"viewport": SIZE, "locale": "en-GB", "timezone_id": "UTC", **words})
        context.set_default_timeout(PATIENCE)
        self._opened.append(context)
        context.on("request", lambda request: self.asked.append(request.url))
        context.on("weberror", lambda found: self.troubles.append(str(found.error)))
        context.on("console", self._heard)
        return context.new_page()

    def _heard(self, message: ConsoleMessage) -> None:
        # That an answer was 401 or 409 is no mistake of the page: it has to say so, and tests look whether it does.
        is_answer = message.text.startswith("Failed to load resource: the server responded with a status of 4")
        if message.type in ("error", "warning") and not is_answer:
            self.troubles.append(message.text)

    def close(self) -> None:
        for context in self._opened:
            context.close()

    def asked_elsewhere(self) -> list[str]:
        """Lists requests to anybody but the homes; what lies in the page itself is no request."""
        return [url for url in self.asked if not url.startswith((*self.homes, "data:", "blob:", "about:"))]

    def check(self) -> None:
        """Fails when a page asked somebody else, or tripped."""
        assert self.asked_elsewhere() == []
        assert self.may_trip or self.troubles == []
