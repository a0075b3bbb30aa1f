"""Has witnesses cosign heads, beside the sealing: a witness that hangs keeps nobody waiting."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from datetime import timedelta

from indelible.core.journal.notes import Note
from indelible.journal.witnesses.asking import Witness, collect

ASK_EVERY = timedelta(seconds=1)
_WITHIN = timedelta(seconds=10)

log = logging.getLogger("indelible.journal")

Prove = Callable[[int], Sequence[bytes]]
Keep = Callable[[Note], None]


class Cosigning:
    """Takes the newest head to all witnesses, one round at a time, and keeps what they sign."""

    def __init__(self, witnesses: Sequence[Witness], *, every: timedelta = ASK_EVERY) -> None:
        self._witnesses = tuple(witnesses)
        self._every = every.total_seconds()
        self.start_afresh()

    def start_afresh(self) -> None:
        """Forgets everything; a forked child has no thread."""
        self._turn = threading.Condition()
        self._next: tuple[Note, Prove, Keep] | None = None
        self._thread: threading.Thread | None = None
        self._is_closed = False
        self._told: dict[str, str] = {}

    def offer(self, note: Note, prove: Prove, keep: Keep) -> None:
        """Hears of a new head; one that nobody has asked about yet gives way to it."""
        with self._turn:
            self._next = (note, prove, keep)
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="indelible-cosigning", daemon=True)
                try:
                    thread.start()
                except RuntimeError as refused:  # by the system, or by an interpreter that is about to end
                    log.warning("no witness is asked about the newest head: %s", refused)
                    return
                self._thread = thread
            self._turn.notify_all()

    def close(self) -> None:
        """Takes the last head to the witnesses, then ends."""
        with self._turn:
            self._is_closed = True
            thread = self._thread
            self._turn.notify_all()
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        while True:
            with self._turn:
                self._turn.wait_for(lambda: self._next is not None or self._is_closed)
                offered, self._next = self._next, None
                if offered is None:
                    return
            self._ask(*offered)
            with self._turn:
                self._turn.wait_for(lambda: self._is_closed, self._every)

    def _ask(self, note: Note, prove: Prove, keep: Keep) -> None:
        try:
            found = collect(note, self._witnesses, prove, within=_WITHIN)
            if found.note != note:
                keep(found.note)
        except Exception:
            log.exception("the witnesses could not be asked")
            return
        missing = {problem.witness: problem.why for problem in found.problems}
        for problem in found.problems:
            if self._told.get(problem.witness) != problem.why:
                log.error("no cosignature by %s: %s", problem.witness, problem.why)
        self._told = missing
