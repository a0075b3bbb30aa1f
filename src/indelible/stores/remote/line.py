"""Asks a server, waits no longer than it may, and knows whether a question that got lost may be asked again."""

from __future__ import annotations

import json
import os
import random
import time
from typing import Any

from indelible.core.problems import error_from
from indelible.core.remote import PROTOCOL, Question
from indelible.core.wire import from_wire, to_wire
from indelible.errors import (
    IndelibleError,
    Misconfigured,
    NotAuthenticated,
    OutcomeUnknown,
    StoreUnavailable,
)

try:
    import httpx2
except ImportError as missing:
    raise ImportError("a ledger behind a server needs httpx2: pip install 'indelible[http]'") from missing

_PAUSES = (0.05, 0.1, 0.2, 0.4, 0.8)
# The answer never came, but the question cannot have arrived either.
_NEVER_ARRIVED = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)
_BUSY = (429, 502, 503, 504)


class Line:
    """Holds connections to one server, or to several of one ledger; each question is one POST.

    With several addresses, as in `https://a,https://b`, the next one is asked when one does not answer.
    """

    def __init__(self, url: str, token: str | None, seconds: float) -> None:
        self._servers = [each.strip().rstrip("/") for each in url.split(",")]
        self.address = ",".join(self._servers)
        self._asked = 0
        self._seconds = seconds
        headers = {"Indelible-Protocol": str(PROTOCOL), "Accept": "application/json"}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        self._headers = headers
        self._start()

    def _start(self) -> None:
        self._pid = os.getpid()
        self._client = httpx2.Client(
            headers=self._headers, timeout=self._seconds, follow_redirects=False, trust_env=False
        )

    def ask(self, name: str, question: Question, words: dict[str, Any], *, is_repeatable: bool = True) -> Any:
        """Asks, again and again while there is time if that does no harm, and gives the answer."""
        body = json.dumps({word: to_wire(value) for word, value in words.items()}).encode()
        answer = self.post(f"/v1/store/{name}", body, is_repeatable=is_repeatable)
        try:
            return from_wire(question.answer, answer["answer"], "answer")
        except (ValueError, KeyError, TypeError) as problem:
            raise Misconfigured(f"{self.address} answers {name} with something else: {problem}") from problem

    def post(self, path: str, body: bytes, *, is_repeatable: bool, seconds: float | None = None) -> Any:
        """Sends one request and gives the JSON that came back; raises what the server said.

        A server that does not answer is followed by the next one, and after the last one by a pause.
        """
        if os.getpid() != self._pid:
            self._start()  # a forked child must not share its parent's connections
        until = time.monotonic() + (self._seconds if seconds is None else seconds)
        rounds, count = 0, len(self._servers)
        told: Any = None
        while True:
            for _ in range(count):
                number = self._asked
                told = self._send(self._servers[number % count], path, body, is_repeatable=is_repeatable)
                if not isinstance(told, IndelibleError):
                    return told
                if self._asked == number:  # else another thread has turned to the next one
                    self._asked = number + 1
            pause = _PAUSES[min(rounds, len(_PAUSES) - 1)] * (0.5 + random.random())  # noqa: S311 - no secret
            if time.monotonic() + pause > until:
                raise told
            time.sleep(pause)
            rounds += 1

    def _send(self, server: str, path: str, body: bytes, *, is_repeatable: bool) -> Any:
        """Gives what a server answered, or the trouble with it if another try may help; raises what is final."""
        try:
            response = self._client.post(server + path, content=body, headers={"Content-Type": "application/json"})
        except _NEVER_ARRIVED as problem:
            return StoreUnavailable(f"{server} cannot be reached: {problem}")
        except httpx2.TransportError as problem:
            said = f"{server} did not answer: {type(problem).__name__} {problem}"
            if is_repeatable:
                return StoreUnavailable(said)
            raise OutcomeUnknown(f"{said}. Whether it was done is not known; look before asking again") from None
        if response.status_code == 200:
            return _content(response)
        trouble = error_from(_content(response), response.status_code)
        if response.status_code not in _BUSY or isinstance(trouble, OutcomeUnknown):
            raise trouble
        return trouble

    def introduce(self) -> dict[str, Any]:
        """Asks who we are there; a server that is away is told at once, and one of another time says so."""
        found = self.post("/v1/store/introduce", b"{}", is_repeatable=True, seconds=0)
        if not isinstance(found, dict) or found.get("protocol") != PROTOCOL:
            raise Misconfigured(
                f"{self.address} speaks protocol {found.get('protocol') if isinstance(found, dict) else '?'} and this "
                f"client {PROTOCOL}; bring the older one up to date"
            )
        return found

    def close(self) -> None:
        """Closes the connections."""
        if os.getpid() == self._pid:
            self._client.close()


def _content(response: httpx2.Response) -> Any:
    try:
        return response.json()
    except ValueError:
        if response.status_code == 401:
            raise NotAuthenticated("the server does not know this credential") from None
        return {"detail": f"the server answered with status {response.status_code} and no JSON"}
