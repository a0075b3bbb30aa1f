"""A witness over HTTP: C2SP's tlog-witness. Requests come from strangers; the rules are the cosigner's."""

from __future__ import annotations

import logging

from indelible.core.journal.witnessing import MOST_REQUEST_BYTES, Refusal
from indelible.journal.witnesses.cosigner import Cosigner
from indelible.listening import PLAIN, Listener, Speaker, Unread

_log = logging.getLogger("indelible.witness")


class WitnessServer(Listener):
    """Serves a cosigner."""

    def __init__(self, address: tuple[str, int], cosigner: Cosigner, patience: float = 10.0) -> None:
        self.cosigner = cosigner
        super().__init__(address, _Speaker, patience, _log)


class _Speaker(Speaker):
    """Speaks HTTP for the cosigner."""

    server: WitnessServer
    protocol_version = "HTTP/1.1"
    server_version = "indelible-witness"
    most_bytes = MOST_REQUEST_BYTES

    def do_POST(self) -> None:
        """Answers add-checkpoint."""
        try:
            found = self._cosigned(self.body())
        except Unread as problem:
            found = Refusal(problem.status, str(problem))
        if isinstance(found, Refusal):
            _log.info("%s: %d %s", self.client_address[0], found.status, found.why)
            self.answer(found.status, found.content_type, bytes(found))
        else:
            self.answer(200, PLAIN, found)

    def _cosigned(self, body: bytes) -> bytes | Refusal:
        if self.path != "/add-checkpoint":
            return Refusal(404, "heads are posted to /add-checkpoint")
        try:
            return self.server.cosigner.answer(body)
        except Exception:
            _log.exception("a head could not be cosigned")
            return Refusal(500, "the witness cannot write down what it cosigns; its operator finds why in its log")

    def do_GET(self) -> None:
        """Shows the head cosigned last of a log, for monitors."""
        # A body that nobody reads would be taken for the next request.
        self.close_connection |= bool({"Content-Length", "Transfer-Encoding"} & set(self.headers))
        name, _, rest = self.path.removeprefix("/").partition("/")
        found = self.server.cosigner.latest(name) if rest == "checkpoint" else None
        if found is None:
            self.answer(404, PLAIN, b"no head of such a log was cosigned here\n")
        else:
            self.answer(200, PLAIN, found)
