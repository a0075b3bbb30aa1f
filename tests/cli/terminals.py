"""A command at a real terminal: a pseudo-terminal whose other end types and looks."""

from __future__ import annotations

import codecs
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.waiting import PATIENCE

_COMMANDS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def _decoder() -> codecs.IncrementalDecoder:
    return codecs.getincrementaldecoder("utf-8")("replace")


class Terminal:
    """Runs `indelible …`, types keys, and sees what is on the screen."""

    def __init__(self, words: list[str], columns: int = 100, lines: int = 40) -> None:
        self.end, inner = pty.openpty()
        self.resize(columns, lines)
        environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "indelible.cli", *words],
            stdin=inner,
            stdout=inner,
            stderr=subprocess.PIPE,
            env={**environment, "TERM": "xterm"},
            start_new_session=True,
        )
        self._inner = inner  # kept open, so that what was written last can be read after the process has ended
        self.written = ""
        self._decoder = _decoder()  # half a letter may come at the end of what is read at once

    def resize(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self.end, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    @property
    def screen(self) -> str:
        """Is the newest whole drawing."""
        return _COMMANDS.sub("", self.written.rpartition("\x1b[H")[2])

    def type(self, keys: str) -> None:
        os.write(self.end, keys.encode())

    def see(self, *words: str) -> str:
        """Waits until all of these stand on the screen."""
        return self._read_until(lambda: all(word in self.screen for word in words), f"{words} to be seen")

    def see_no(self, word: str) -> str:
        """Waits until this does not stand on the screen any more."""
        return self._read_until(lambda: word not in self.screen, f"{word!r} to go")

    def _read_until(self, is_there: object, what: str) -> str:
        assert callable(is_there)
        until = time.monotonic() + PATIENCE
        while not is_there():
            left = until - time.monotonic()
            assert left > 0, f"waited for {what}; the screen:\n{self.screen}"
            if select.select([self.end], [], [], left)[0]:
                self.written += self._decoder.decode(os.read(self.end, 65536))
        return self.screen

    def ended(self) -> int:
        """Waits for the end of the command, and gives its exit code."""
        code = self.process.wait(PATIENCE)
        while select.select([self.end], [], [], 0)[0]:
            self.written += self._decoder.decode(os.read(self.end, 65536))
        return code

    def attributes(self) -> list[object]:
        """Gives how the terminal is set up."""
        return list(termios.tcgetattr(self._inner))

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
        if self.process.stderr is not None:
            self.process.stderr.close()
        os.close(self.end)
        os.close(self._inner)


@contextmanager
def terminal(*words: str, columns: int = 100, lines: int = 40) -> Iterator[Terminal]:
    """Gives a terminal in which a command runs; whatever happens, it ends."""
    one = Terminal(list(words), columns, lines)
    try:
        yield one
    finally:
        one.close()


def read_to_end(command: list[str], question: str, answer: str, **environment: str) -> str:
    """Runs a command at a terminal, answers its question, and gives all it said; it has to end by itself with 0."""
    end, inner = pty.openpty()
    environment = {**os.environ, **environment}
    process = subprocess.Popen(
        command, stdin=inner, stdout=inner, stderr=inner, env=environment, start_new_session=True
    )
    said, until, is_answered, decoder = "", time.monotonic() + PATIENCE, False, _decoder()
    while process.poll() is None or select.select([end], [], [], 0)[0]:
        assert time.monotonic() < until, said
        if select.select([end], [], [], 0.1)[0]:
            said += decoder.decode(os.read(end, 4096))
        if question in said and not is_answered:
            is_answered = os.write(end, answer.encode()) > 0
    os.close(end)
    os.close(inner)
    assert (is_answered, process.returncode) == (True, 0), said
    return said
