"""Hears from the server what moved: a question that it answers when something has, or when the time is up.

Each is a request of its own, so any server of several can answer it, and one that dies is asked again at the next look.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress

from indelible.core.effects.effect import Effect
from indelible.core.effects.identity import Ref
from indelible.core.remote.questions import MOST_AT_ONCE, QUESTIONS
from indelible.errors import IndelibleError
from indelible.stores.remote.line import Line

SECONDS = 5
_ASKED_AGAIN = 6
"""Is how often a question is asked before it is up to whoever waits to ask anew."""
_MOST_QUESTIONS = 8
_PREFIX = 16


class RemoteAlarm:
    """Rings when an effect that is listened for has moved."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._lock = threading.Lock()
        self._listening: set[Ref] = set()
        self._questions = 0
        self._moved: set[str] = set()
        self._is_closed = False
        self._ear, self._bell = os.pipe()
        os.set_blocking(self._ear, False)

    def fileno(self) -> int:
        """Is what to wait on."""
        return self._ear

    def drain(self) -> set[str] | None:
        """Takes what came in."""
        with self._lock:
            moved, self._moved = self._moved, set()
        with suppress(BlockingIOError):
            os.read(self._ear, 65536)
        return moved

    def listen(self, effects: Sequence[Effect]) -> None:
        """Asks the server about those that nobody listens for yet; what is too much is found by looking at times."""
        with self._lock:
            new = [effect for effect in effects if effect.ref not in self._listening][:MOST_AT_ONCE]
            if not new or self._is_closed or self._questions >= _MOST_QUESTIONS:
                return
            self._questions += 1
            self._listening.update(effect.ref for effect in new)
        threading.Thread(target=self._ask, args=(new,), name="indelible-remote-alarm", daemon=True).start()

    def _ask(self, effects: Sequence[Effect]) -> None:
        words = {
            "refs": tuple(effect.ref for effect in effects),
            "versions": tuple(effect.version for effect in effects),
            "seconds": SECONDS,
        }
        moved: list[Ref] = []
        try:
            for _ in range(_ASKED_AGAIN):
                moved = self._line.ask("await", QUESTIONS["await"], words, more=SECONDS)
                if moved or self._is_closed:
                    break
        except IndelibleError:
            pass  # looking at times still finds everything
        finally:
            self._heard(effects, moved)

    def _heard(self, effects: Sequence[Effect], moved: Iterable[Ref]) -> None:
        with self._lock:
            self._questions -= 1
            self._listening.difference_update(effect.ref for effect in effects)
            self._moved.update(ref.key[:_PREFIX] for ref in moved)
            if self._moved and not self._is_closed:
                os.write(self._bell, b"!")

    def close(self) -> None:
        """Stops listening; questions that are under way end by themselves."""
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                os.close(self._ear)
                os.close(self._bell)
