"""How a command ends that somebody stops: by Ctrl-C, by a signal, or because whoever reads has gone."""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_ASKED_TO = (signal.SIGTERM, signal.SIGINT)


class Ended(Exception):
    """Somebody wants it to end."""


@contextmanager
def handling(
    handler: Callable[[int, FrameType | None], None] | signal.Handlers, *numbers: signal.Signals
) -> Iterator[None]:
    """Lets signals do something, and puts back what they did before; only a program's main thread can hear them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)


@contextmanager
def until_ended() -> Iterator[None]:
    """Lets work go on until a signal, Ctrl-C or a reader who goes ends it: each is a good end, without a word."""

    def end(number: int, frame: FrameType | None) -> None:
        raise Ended

    with handling(end, signal.SIGTERM, signal.SIGHUP):
        try:
            yield
        except (Ended, KeyboardInterrupt):
            pass
        except BrokenPipeError:
            if not is_reader_gone():
                raise


@contextmanager
def until_stopped() -> Iterator[threading.Event]:
    """Gives an event that a signal sets, so that what is under way is finished first."""
    stopped = threading.Event()
    with handling(lambda number, frame: stopped.set(), *_ASKED_TO):
        yield stopped


@contextmanager
def ending_well() -> Iterator[None]:
    """Lets a signal end the program as if it had come to its end, so that everything is put away first."""

    def end(number: int, frame: FrameType | None) -> None:
        raise SystemExit(0)

    with handling(end, *_ASKED_TO):
        yield


@contextmanager
def ending_at_once() -> Iterator[None]:
    """Lets Ctrl-C end the program as a kill does, where it reads a terminal: that read cannot be broken off."""
    with handling(signal.SIG_DFL, signal.SIGINT):
        yield


def is_reader_gone() -> bool:
    """Has whoever read our output gone? Then nothing is left to be flushed at the end."""
    output = sys.stdout.fileno()
    ear = select.poll()
    ear.register(output, 0)  # it is told nothing but that the other end is closed
    if not ear.poll(0):
        return False
    os.dup2(os.open(os.devnull, os.O_WRONLY), output)
    return True
