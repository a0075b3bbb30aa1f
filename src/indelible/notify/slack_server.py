"""A small HTTP server for pressed Slack buttons. It holds no rules; nothing but a POST to one path is looked at."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from indelible.errors import IndelibleError
from indelible.listening import PLAIN, Listener, Speaker, Unread
from indelible.notify.slack_interactions import MOST_BODY, SlackInteractions, SlackReply

PATH = "/slack/interactions"
_MOST_SECONDS = 15.0
_log = logging.getLogger("indelible.notify.slack")


class SlackServer(Listener):
    """Serves pressed buttons: one request to a connection."""

    def __init__(
        self,
        address: tuple[str, int],
        interactions: SlackInteractions,
        clock: Callable[[], float] = time.time,
        most_seconds: float = _MOST_SECONDS,
    ) -> None:
        self.interactions = interactions
        self.clock = clock
        super().__init__(address, _Speaker, most_seconds, _log)

    @property
    def url(self) -> str:
        """Is where buttons are posted."""
        return f"{super().url}{PATH}"


class _Speaker(Speaker):
    """Speaks HTTP for the interactions, which hold the rules."""

    server: SlackServer
    timeout = 5.0
    most_bytes = MOST_BODY

    def do_POST(self) -> None:
        """Hands a request on."""
        self.close_connection = True
        try:
            reply = self._handled()
        except Unread as problem:
            reply = SlackReply(problem.status, f"{problem}\n".encode())
        self.answer(reply.status, reply.content_type, reply.body)

    def _handled(self) -> SlackReply:
        if self.path != PATH:
            return SlackReply(404, b"buttons are posted elsewhere\n")
        body = self.body()
        headers = {name: ", ".join(self.headers.get_all(name, [])) for name in self.headers}
        try:
            return self.server.interactions.handle(headers, body, self.server.clock())
        except IndelibleError as problem:
            _log.error("a button could not be seen to: %s", problem)  # no traceback: values are in it
            return SlackReply(503, b"not now\n")

    def _never(self) -> None:
        """Refuses what is no POST: looking at an address decides nothing."""
        self.close_connection = True
        self.answer(405, PLAIN, b"buttons are posted; looking decides nothing\n", {"Allow": "POST"})

    do_GET = do_HEAD = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = _never
