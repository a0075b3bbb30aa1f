"""The terminal under `approvals watch`: draws the screen, reads keys, and does what they ask for."""

from __future__ import annotations

import codecs
import os
import re
import shutil
import sys
import termios
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager

from indelible import Approval, Ledger
from indelible.cli.approvals.deciding import what_now
from indelible.cli.approvals.page import Page, next_steps, question_lines, read_page, record_lines, warnings
from indelible.cli.approvals.watch import Following
from indelible.cli.approvals.watch_screen import (
    Action,
    Approve,
    Deny,
    Leave,
    Opened,
    Screen,
    ShowPage,
    closed,
    decided,
    drawn,
    listed,
    open_page,
    pressed,
    resized,
    told,
)
from indelible.cli.opening import Where
from indelible.cli.show import count, visible
from indelible.errors import IndelibleError

_TO_OWN_SCREEN, _BACK = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
_HOME, _REST_OF_LINE, _REST_OF_SCREEN = "\x1b[H", "\x1b[K", "\x1b[J"
_SEQUENCES = {
    b"\x1b[A": "up",
    b"\x1b[B": "down",
    b"\x1bOA": "up",
    b"\x1bOB": "down",
    b"\x1b[5~": "page up",
    b"\x1b[6~": "page down",
    b"\x1b": "escape",
}
_PARTS = re.compile(rb"\x1b\[[0-9;]*[A-Za-z~]|\x1bO[A-Z]|\x1b|[^\x1b]+")
_NAMES = {"\r": "enter", "\n": "enter", "\x7f": "backspace", "\x08": "backspace"}


def decide_at_terminal(ledger: Ledger, following: Following, place: Where, by: str) -> None:
    """Shows what waits, and carries out what the person at the terminal decides."""
    keyboard = sys.stdin.fileno()
    with _own_screen(keyboard):
        terminal, keys = _Terminal(ledger, following, place, by), _Keys()
        while terminal.is_open:
            if following.is_due:
                terminal.refresh()
            terminal.draw()
            if keyboard in following.sleep(keyboard):
                _take(terminal, keys, keyboard)


def _take(terminal: _Terminal, keys: _Keys, keyboard: int) -> None:
    """Hands over what was typed; only a key that is pressed after a question was drawn may answer it."""
    for key in keys.take(os.read(keyboard, 1024)):
        before = terminal.screen
        terminal.press(key)
        if _asks_anew(before, terminal.screen):
            termios.tcflush(keyboard, termios.TCIFLUSH)
            return


def _asks_anew(before: Screen, now: Screen) -> bool:
    """Was something opened, armed or decided? Then what was typed ahead was not meant for what is shown now."""
    return (before.asked_at, before.decided_at) != (now.asked_at, now.decided_at)


@contextmanager
def _own_screen(keyboard: int) -> Iterator[None]:
    """Takes the terminal over, and gives it back as it was."""
    before = termios.tcgetattr(keyboard)
    try:
        tty.setcbreak(keyboard)
        _write(_TO_OWN_SCREEN)
        yield
    finally:
        _write(_BACK)
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


class _Keys:
    """Makes keys out of what a terminal sends."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def take(self, sent: bytes) -> Iterator[str]:
        """Gives the keys in what was sent; one that is not known is left out."""
        for part in _PARTS.findall(sent):
            if part.startswith(b"\x1b"):
                yield from filter(None, [_SEQUENCES.get(part)])
                continue
            for letter in self._decoder.decode(part):
                if letter in _NAMES or letter.isprintable():
                    yield _NAMES.get(letter, letter)


class _Terminal:
    """Holds the screen, and does for it what needs the ledger."""

    def __init__(self, ledger: Ledger, following: Following, place: Where, by: str) -> None:
        self._ledger, self._following, self._place, self._by = ledger, following, place, by
        self.is_open = True
        size = shutil.get_terminal_size()
        self.screen = Screen(columns=size.columns, height=size.lines, title="", now=following.now)

    def refresh(self) -> None:
        """Takes in what has changed."""
        following = self._following
        changed = {approval.id: approval for approval in following.look()}
        pending = [approval for approval in following.open.values() if approval.status == "pending"]
        title = f"{count(len(pending), 'approval')} to decide · {visible(self._by)} at {visible(self._ledger.address)}"
        self.screen = listed(self.screen, pending, following.now, title)
        opened = self.screen.opened
        if opened is not None and opened.approval_id in changed:
            self._do(ShowPage(opened.approval_id), is_view=changed[opened.approval_id].digest != opened.digest)
        if following.problem is not None:
            self.screen = told(self.screen, visible(following.problem))

    def draw(self) -> None:
        """Draws the whole screen; it is small, and then nothing old can stay on it."""
        size = shutil.get_terminal_size()
        self.screen = resized(self.screen, size.columns, size.lines)
        _write(_HOME + f"{_REST_OF_LINE}\r\n".join(drawn(self.screen)) + _REST_OF_LINE + _REST_OF_SCREEN)

    def press(self, key: str) -> None:
        """Takes a key."""
        self.screen, action = pressed(self.screen, key, time.monotonic())
        if action is not None:
            self._do(action)

    def _do(self, action: Action, *, is_view: bool = True) -> None:
        try:
            match action:
                case Leave():
                    self.is_open = False
                case ShowPage(approval_id):
                    self._open(approval_id, is_view=is_view)
                case Approve(approval_id, digest):
                    self._say_decided(self._ledger.approve(approval_id, digest=digest, by=self._by))
                case Deny(approval_id, digest, reason):
                    self._say_decided(self._ledger.deny(approval_id, digest=digest, by=self._by, reason=reason))
        except IndelibleError as error:
            self.screen = told(self.screen, visible(str(error)))

    def _say_decided(self, after: Approval) -> None:
        self._following.is_due = True
        message = f"{after.id}: {after.status}. {what_now(after, self._place)}"
        self.screen = decided(self.screen, message, time.monotonic())

    def _open(self, approval_id: str, *, is_view: bool) -> None:
        approval = self._ledger.get_approval(approval_id)
        if approval is None:
            self.screen = closed(self.screen, f"{approval_id} was erased.")
            return
        page = read_page(self._ledger, approval, self._by if is_view else None)
        self.screen = open_page(self.screen, self._opened(page), time.monotonic())

    def _opened(self, page: Page) -> Opened:
        needs_key = page.approval.question.needs_signature
        steps = next_steps(page, self._place, self._by) if needs_key else ()
        return Opened(
            approval_id=page.approval.id,
            digest=page.approval.digest,
            why_not=_why_not(page),
            question=(*question_lines(page), *warnings(page)),
            record=(*record_lines(page), *steps),
        )


def _why_not(page: Page) -> str | None:
    """Says why somebody cannot decide here."""
    if not page.is_decidable:
        return "There is nothing to decide about it now."
    if page.approval.question.needs_signature:
        return "It needs a signature: leave here, and use the command below with your key."
    return None
