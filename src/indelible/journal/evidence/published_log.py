"""Reads a journal that is published under an address, as C2SP's tlog-tiles lays it out."""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from indelible.core.verifying.findings import CannotTell, Caught
from indelible.listening import is_loopback

_SECONDS = 30


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *request: Any, **words: Any) -> None:
        """Follows nothing: an answer from elsewhere is not what was asked for."""


class PublishedFiles:
    """Is the files of a log behind an address: https, or http on this machine."""

    def __init__(self, address: str) -> None:
        try:
            parts = urlsplit(address)
        except ValueError as problem:
            raise CannotTell(f"{address} is no address: {problem}") from problem
        if parts.scheme != "https" and not is_loopback(parts.hostname or ""):
            raise CannotTell(f"{address}: use https; plain http only reaches this machine")
        self._prefix = address.rstrip("/")
        self._opener = urllib.request.build_opener(_NoRedirects)

    def names(self) -> None:
        """Cannot be told: an address does not list what is below it."""
        return

    def read(self, name: str, most: int) -> bytes:
        """Fetches one file."""
        address = f"{self._prefix}/{name}"
        try:
            with self._opener.open(address, timeout=_SECONDS) as answer:
                content: bytes = answer.read(most + 1)
                is_cut = bool(answer.length) and len(content) <= most
        except urllib.error.HTTPError as problem:
            problem.close()
            if problem.code in (404, 410) and name == "checkpoint":  # nothing there is a log, so nobody is accused
                what = f"{address} is not there; is {self._prefix} the address of a published log?"
                raise CannotTell(f"{what} If it is a server, verify its ledger with --url") from None
            if problem.code in (404, 410):
                raise Caught(f"{name} is missing at {self._prefix}") from None
            raise CannotTell(f"{address} answers {problem.code}; try again later") from None
        except (OSError, http.client.HTTPException, ValueError) as problem:
            raise CannotTell(f"{address} cannot be reached: {problem}") from problem
        if is_cut:  # by whoever carried it: that accuses nobody
            raise CannotTell(f"{address}: the connection ended in the middle; try again")
        if len(content) > most:
            raise Caught(f"{name} is larger than it can be", expected=f"at most {most} bytes", found="more")
        return content

    def lines(self, name: str) -> Iterator[bytes]:
        """Has no files with lines."""
        return iter(())

    def close(self) -> None:
        """Has nothing to give back."""
