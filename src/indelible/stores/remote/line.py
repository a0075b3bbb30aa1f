"""Asks a server, waits no longer than it may, and knows whether a question that got lost may be asked again."""

from __future__ import annotations

import json
import os
import random
import time
from typing import Any, Literal

import httpx2

from indelible.core.remote.questions import LEDGER_HEADER, PROTOCOL, PROTOCOL_HEADER, Question
from indelible.core.remote.wire import from_wire, to_wire
from indelible.errors import IndelibleError, Misconfigured, NotAuthenticated, OutcomeUnknown, StoreUnavailable
from indelible.stores.reach import Reach
from indelible.stores.remote.client import make_client, times
from indelible.stores.remote.hearing import Trouble, answer_of, trouble_of

_PAUSES = (0.05, 0.1, 0.2, 0.4, 0.8)

Stakes = Literal["read", "repeatable", "once"]
"""Is what asking twice would do: nothing, nothing more than asking once, or perhaps the same thing twice."""


class Line:
    """Holds connections to one server, or to several of one ledger; each question is one POST.

    With several addresses, as in `https://a,https://b`, the next one is asked when one does not answer.
    """

    def __init__(self, url: str, token: str | None, reach: Reach) -> None:
        self._servers = reach.servers(url)
        self.address = ",".join(self._servers)
        self._asked = 0
        self._reach = reach
        self._headers = {
            PROTOCOL_HEADER: str(PROTOCOL),
            "Accept": "application/json",
            "Content-Type": "application/json",
            "Authorization": f"Bearer {_checked(token, self.address)}",
        }
        self._start()

    def _start(self) -> None:
        self._pid = os.getpid()
        self._client = make_client(self._servers, self._headers, self._reach)

    def ask(
        self, name: str, question: Question, words: dict[str, Any], stakes: Stakes = "read", more: float = 0
    ) -> Any:
        """Asks, again and again while there is time if that does no harm, and gives the answer."""
        body = json.dumps({word: to_wire(value) for word, value in words.items()}).encode()
        answer = self._post(f"/v1/store/{name}", body, stakes, more=more)
        try:
            return from_wire(question.answer, answer["answer"], "answer")
        except (ValueError, KeyError, TypeError) as problem:
            said = f"{self.address} answers {name} with something else: {problem}"
            raise Misconfigured(said) if stakes == "read" else _unknown(said) from problem

    def _post(
        self, path: str, body: bytes, stakes: Stakes, *, more: float = 0.0, seconds: float | None = None
    ) -> dict[str, Any]:
        """Sends one request and gives the JSON that came back; raises what the server said.

        A server that does not answer is followed by the next one, and after the last one by a pause. What may have been
        done, although nobody said so, is never told as not done.
        """
        if os.getpid() != self._pid:
            self._start()  # a forked child must not share its parent's connections
        trouble = Trouble(StoreUnavailable(f"{self.address} was not asked"), may_be_done=False)
        until = time.monotonic() + (self._reach.patience.total_seconds() if seconds is None else seconds)
        rounds, is_in_doubt = 0, False
        while True:
            for _ in self._servers:
                heard = self._try_next(path, body, more, is_in_doubt=is_in_doubt)
                if not isinstance(heard, Trouble):
                    return heard
                if heard.may_be_done and stakes == "once":
                    raise _unknown(heard.error) from None
                is_in_doubt = is_in_doubt or (heard.may_be_done and stakes == "repeatable")
                trouble = heard
            pause = _PAUSES[min(rounds, len(_PAUSES) - 1)] * (0.5 + random.random())  # noqa: S311 - no secret
            pause = max(pause, trouble.pause)
            # What took all the time there was is asked once more: then it is known what became of it.
            if time.monotonic() + pause > until and not (rounds == 0 and is_in_doubt):
                raise _unknown(trouble.error) if is_in_doubt else trouble.error
            time.sleep(pause)
            rounds += 1

    def _try_next(self, path: str, body: bytes, more: float, *, is_in_doubt: bool) -> dict[str, Any] | Trouble:
        """Asks the server whose turn it is; when that does not answer, it is the next one's turn."""
        number = self._asked
        try:
            heard = self._send(self._servers[number % len(self._servers)], path, body, more)
        except IndelibleError as final:
            if is_in_doubt:
                raise _unknown(f"{final}, and before that there was no answer") from final
            raise
        if isinstance(heard, Trouble) and self._asked == number:  # else another thread has turned to the next one
            self._asked = number + 1
        return heard

    def _send(self, server: str, path: str, body: bytes, more: float) -> dict[str, Any] | Trouble:
        """Gives what a server answered, or the trouble with it if another try may help; raises what is final."""
        try:
            response = self._client.post(server + path, content=body, timeout=times(self._reach, more))
        except (httpx2.TransportError, httpx2.DecodingError) as problem:
            return trouble_of(server, problem)
        except RuntimeError:
            raise StoreUnavailable(f"{server} is closed here; open it again") from None
        return answer_of(server, response)

    def introduce(self) -> dict[str, Any]:
        """Asks who we are there; a server that is away is told at once, and one of another time says so.

        From now on each question names the ledger, so that no server of another one answers it.
        """
        found = self._post("/v1/store/introduce", b"{}", "read", seconds=0)
        if found.get("protocol") != PROTOCOL or not isinstance(found.get("ledger"), str):
            raise Misconfigured(
                f"{self.address} speaks protocol {found.get('protocol', '?')} and this client {PROTOCOL}; bring the "
                "older one up to date"
            )
        self._headers[LEDGER_HEADER] = found["ledger"]
        self._client.headers[LEDGER_HEADER] = found["ledger"]
        return found

    def close(self) -> None:
        """Closes the connections."""
        if os.getpid() == self._pid:
            self._client.close()


def _unknown(said: object) -> OutcomeUnknown:
    return OutcomeUnknown(f"{said}. Whether it was done is not known; look before asking again")


def _checked(token: str | None, address: str) -> str:
    if not (token and token.strip()):
        raise NotAuthenticated(
            f"{address} wants a token: give token= or set INDELIBLE_TOKEN. Whoever runs the server makes one with: "
            "indelible apikeys create NAME --scope agent"
        )
    bare = token.strip()
    if not (bare.isascii() and bare.isprintable()) or " " in bare:
        raise NotAuthenticated("the token holds what no token has, as a space or a line break; copy it again")
    return bare
