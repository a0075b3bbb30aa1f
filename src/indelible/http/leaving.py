"""What all transports share: the key of a request that leaves, and the note that its first byte is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from indelible.core.effects.request_keys import SAFE_METHODS
from indelible.engine.running import RunningEffect, current_effect, mark_all_running
from indelible.errors import BadCall

HEADER = "Idempotency-Key"

LARGEST_BODY = 16 * 1024 * 1024
"""How many bytes of an upload a transport reads to compare it; a larger one counts as a stream."""


class Leaving:
    """A request that is about to leave. Outside a handler, it counts as sent by each that runs now.

    Attributes:
        headers: The headers to add.
    """

    __slots__ = ("_effect", "_is_marked", "headers")

    def __init__(self, effect: RunningEffect | None, headers: dict[str, str]) -> None:
        self.headers = headers
        self._effect = effect
        self._is_marked = False
        if effect is None:  # its handler may end before the first byte is written, and could not be told any more
            mark_all_running()
        else:
            effect.check_running()

    def mark(self) -> None:
        """Note that the first byte of this request is about to be written; a second call does nothing.

        Raises:
            BadCall: The handler has ended, or this process is a forked child of it. Nothing may be sent.
        """
        if not self._is_marked:
            (mark_all_running if self._effect is None else self._effect.mark_sending)()
            self._is_marked = True

    def note_answer(self) -> None:
        """Note that an answer came: it proves that something was sent, also if a mock below told nothing of it."""
        if self._effect is None or not self._effect.has_sent:
            self.mark()


def leaving(method: str, url: str, headers: Mapping[str, Any], read: Callable[[], bytes | None]) -> Leaving:
    """Return what a transport adds to a request, and does before it leaves.

    Outside a handler, no header is added. A key that the request already has is left alone.

    Args:
        method: The HTTP method.
        url: The whole address.
        headers: The request's headers. The mapping ignores case.
        read: Returns the bytes of the body; None if it is a stream, which cannot be read twice.

    Raises:
        AmbiguousRequest: Another body went to the same method, address and name in this attempt.
        BadCall: The handler that this thread or task belongs to has ended.
    """
    effect = current_effect()
    if effect is None or not needs_key(effect, method, url, headers):
        return Leaving(effect, {})
    kind: str | bytes = headers.get("Content-Type") or ""
    content_type = kind.decode("latin-1") if isinstance(kind, bytes) else kind
    return Leaving(effect, {HEADER: effect.key_for_sending(method, url, read(), content_type)})


def refuse_past(what: str, advice: str) -> None:
    """Refuse a request of a handler that would leave past our transport; outside a handler, note that it leaves.

    Args:
        what: What leads past it.
        advice: What to do instead.

    Raises:
        BadCall: A handler runs here.
    """
    if current_effect() is not None:
        raise BadCall(f"{what}, so this request would leave past Indelible, without a key and unseen; {advice}")
    mark_all_running()


def needs_key(effect: RunningEffect, method: str, url: str, headers: Mapping[str, Any]) -> bool:
    """Say whether a request needs our key: its method is not safe, and it has no key, or this one already."""
    if method.upper() in SAFE_METHODS:
        return False
    return not headers.get(HEADER) or headers[HEADER] == effect.request_key(method, url)
