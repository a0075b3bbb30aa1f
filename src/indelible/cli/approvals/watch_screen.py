"""What `approvals watch` shows on a terminal, and what a key does there. Pure: no terminal, no ledger, no clock.

Nothing is approved by one key, and nothing that was not on the screen to its last line: `a` arms, `y` confirms, and
what is confirmed is the digest that was shown. A terminal tells of no release, so a key that is held is known by its
pace, and cannot confirm: that takes another key. No key answers what has not been on the screen for a moment, and none
counts for a second after a decision.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from indelible import Approval
from indelible.cli.approvals.words import quorum, standing, time_left
from indelible.cli.show import age, count, parts_of, text_width, visible, wrapped

LIST_KEYS = "j/k move   Enter show   q leave"
PAGE_KEYS = "j/k scroll   space on   a approve   d deny   q back"
MOMENT = 0.6
"""Is how long a question has to be on the screen before a key may answer it, in seconds."""
QUIET = 0.3
"""Is how long before an answer no key may have been pressed, in seconds: a key that repeats leaves no such pause."""
AFTER_DECISION = 1.0
"""Is for how long no key counts after a decision, in seconds."""
MOST_MESSAGE_LINES = 3


# What the shell has to do


@dataclass(frozen=True, slots=True)
class ShowPage:
    """Read everything about this approval, and open it."""

    approval_id: str


@dataclass(frozen=True, slots=True)
class Approve:
    """Approve what was shown."""

    approval_id: str
    digest: str


@dataclass(frozen=True, slots=True)
class Deny:
    """Deny what was shown, with this reason."""

    approval_id: str
    digest: str
    reason: str


@dataclass(frozen=True, slots=True)
class Leave:
    """End."""


Action = ShowPage | Approve | Deny | Leave


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """Is an approval on the screen. `question` is what has to have been read before it can be approved."""

    approval_id: str
    digest: str
    why_not: str | None
    """Says why it cannot be decided here, if it cannot."""
    question: tuple[str, ...]
    record: tuple[str, ...]
    top: int = 0
    was_read: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Screen:
    """Is all there is to draw: the list or one approval, and what the person is in the middle of."""

    columns: int
    height: int
    title: str
    now: datetime
    waiting: tuple[Approval, ...] = ()
    selected: str | None = None
    opened: Opened | None = None
    is_armed: bool = False
    reason: str | None = None
    message: str = ""
    asked_at: float = float("-inf")
    """Is when the page was opened or the question to confirm was asked, by a clock that only goes forward."""
    decided_at: float = float("-inf")
    pressed_at: float = float("-inf")
    may_answer: bool = False
    """Was the newest key pressed after a pause, and when the question had been on the screen for a moment?"""

    @property
    def room(self) -> int:
        """Is how many lines there are between the title and the keys."""
        return max(1, self.height - 3 - self.message_room)

    @property
    def message_room(self) -> int:
        """Is how many lines there are for what the person is asked or told."""
        return min(MOST_MESSAGE_LINES, max(1, self.height - 4))

    @property
    def position(self) -> int:
        """Is the number of the selected approval."""
        ids = [approval.id for approval in self.waiting]
        return ids.index(self.selected) if self.selected in ids else 0


def resized(screen: Screen, columns: int, height: int) -> Screen:
    """Return the screen in another size. What was read to its end stays read; else it begins at the top again.

    With other columns the lines break elsewhere, so a number of lines does not say what was on the screen.
    """
    if (columns, height) == (screen.columns, screen.height):
        return screen
    opened = screen.opened
    if opened is not None and not opened.was_read and columns != screen.columns:
        opened = replace(opened, top=0)
    return _noted(replace(screen, columns=columns, height=height, opened=opened))


def listed(screen: Screen, waiting: Iterable[Approval], now: datetime, title: str) -> Screen:
    """Gives the screen with what waits now, the oldest first; the selection stays where it was."""
    kept = tuple(sorted(waiting, key=lambda approval: approval.id))
    ids = [approval.id for approval in kept]
    selected = screen.selected
    if selected not in ids:
        selected = ids[min(screen.position, len(ids) - 1)] if ids else None
    return replace(screen, waiting=kept, selected=selected, now=now, title=title)


def open_page(screen: Screen, opened: Opened, at: float) -> Screen:
    """Return the screen with an approval on it; what is other than what was read has to be read again."""
    before = screen.opened
    if before is None or before.approval_id != opened.approval_id:
        return _noted(replace(screen, opened=opened, is_armed=False, reason=None, message="", asked_at=at))
    if before.digest == opened.digest:
        kept = replace(opened, top=before.top, was_read=before.was_read)
        return _noted(replace(screen, opened=kept, is_armed=screen.is_armed and opened.why_not is None))
    message = "It is another question now: read it again."
    return _noted(replace(screen, opened=opened, is_armed=False, reason=None, message=message, asked_at=at))


def told(screen: Screen, message: str) -> Screen:
    """Gives the screen with a message; whatever was armed is not any more."""
    return replace(screen, message=message, is_armed=False, reason=None)


def closed(screen: Screen, message: str = "") -> Screen:
    """Gives the list again."""
    return replace(screen, opened=None, is_armed=False, reason=None, message=message)


def decided(screen: Screen, message: str, at: float) -> Screen:
    """Return the list again after a decision; nothing of it is opened."""
    return replace(closed(screen, message), decided_at=at)


# Keys


def pressed(screen: Screen, key: str, at: float) -> tuple[Screen, Action | None]:
    """Says what a key does: how the screen is then, and what has to be done."""
    if at - screen.decided_at < AFTER_DECISION:
        return screen, None
    may_answer = at - screen.pressed_at >= QUIET and at - screen.asked_at >= MOMENT
    screen = replace(screen, pressed_at=at, may_answer=may_answer)
    if screen.reason is not None:
        return _typed(screen, key)
    if screen.opened is None:
        return _pressed_on_list(replace(screen, message=""), key)
    return _pressed_on_page(screen, screen.opened, key, at)


def _pressed_on_list(screen: Screen, key: str) -> tuple[Screen, Action | None]:
    chosen = screen.waiting[screen.position].id if screen.waiting else None
    if key in ("q", "escape"):
        return screen, Leave()
    if key in ("j", "down", "k", "up"):
        return _moved(screen, 1 if key in ("j", "down") else -1), None
    if key in ("enter", "a", "d") and chosen is not None:
        return screen, ShowPage(chosen)
    return screen, None


def _moved(screen: Screen, step: int) -> Screen:
    if not screen.waiting:
        return screen
    at = min(max(screen.position + step, 0), len(screen.waiting) - 1)
    return replace(screen, selected=screen.waiting[at].id)


_TOO_EARLY = "Look at it first, then press the key again."
_SCROLLS = {"j": 1, "down": 1, "enter": 1, "k": -1, "up": -1}


def _pressed_on_page(screen: Screen, opened: Opened, key: str, at: float) -> tuple[Screen, Action | None]:
    if key == "a":
        return _pressed_approve(screen, opened, at), None
    if key == "y" and screen.is_armed:
        return _pressed_confirm(screen, opened)
    calm = replace(screen, is_armed=False, message="")
    if key in ("q", "escape"):
        return closed(calm), None
    if key == "d":
        if opened.why_not is not None:
            return told(calm, opened.why_not), None
        if not screen.may_answer:
            return told(calm, _TOO_EARLY), None
        return replace(calm, reason=""), None
    by_page = {" ": screen.room - 1, "page down": screen.room - 1, "b": 1 - screen.room, "page up": 1 - screen.room}
    step = _SCROLLS.get(key, by_page.get(key, 0))
    last = max(0, len(_page_lines(opened, screen.columns)[0]) - screen.room)
    return _noted(replace(calm, opened=replace(opened, top=min(max(opened.top + step, 0), last)))), None


def _pressed_approve(screen: Screen, opened: Opened, at: float) -> Screen:
    if opened.why_not is not None:
        return told(screen, opened.why_not)
    if not opened.was_read:
        return told(screen, "Read it to the end first: press space.")
    if screen.is_armed:
        return screen  # a key that is held, or pressed again, confirms nothing
    if not screen.may_answer:
        return told(screen, _TOO_EARLY)
    return replace(screen, is_armed=True, message="", asked_at=at)


def _pressed_confirm(screen: Screen, opened: Opened) -> tuple[Screen, Action | None]:
    if not screen.may_answer:
        return screen, None  # it was typed before the question could be read
    return told(screen, ""), Approve(opened.approval_id, opened.digest)


def _typed(screen: Screen, key: str) -> tuple[Screen, Action | None]:
    """Takes a key of the reason that is being typed."""
    assert screen.opened is not None
    assert screen.reason is not None
    if key == "escape":
        return told(screen, "Not denied."), None
    if key == "backspace":
        return replace(screen, reason=screen.reason[:-1], message=""), None
    if key == "enter":
        reason = screen.reason.strip()
        if not reason:
            return replace(screen, message="Say why not: the agent is told. Esc leaves it undecided."), None
        return told(screen, ""), Deny(screen.opened.approval_id, screen.opened.digest, reason)
    return replace(screen, reason=screen.reason + key if len(key) == 1 else screen.reason, message=""), None


# Drawing


def _noted(screen: Screen) -> Screen:
    """Gives the screen with what was read by now: whoever scrolls line by line skips nothing."""
    opened = screen.opened
    if opened is None or opened.was_read:
        return screen
    lines, question = _page_lines(opened, screen.columns)
    top = min(opened.top, max(0, len(lines) - screen.room))
    return replace(screen, opened=replace(opened, top=top, was_read=top + screen.room >= question))


def drawn(screen: Screen) -> list[str]:
    """Gives the lines of the whole screen, each no wider than it is."""
    opened = screen.opened
    body = _list_lines(screen) if opened is None else _page_lines(opened, screen.columns)[0]
    top = opened.top if opened is not None else max(0, screen.position - screen.room + 1)
    shown = body[top : top + screen.room]
    shown += [""] * (screen.room - len(shown))
    more = len(body) - top - screen.room
    note = f"  … {count(more, 'more line')}" if opened is not None and more > 0 else ""
    said = textwrap.wrap(_asked(screen), screen.columns, max_lines=screen.message_room, placeholder=" …")
    said += [""] * (screen.message_room - len(said))
    keys = LIST_KEYS if opened is None else PAGE_KEYS
    return [cut(line, screen.columns) for line in (screen.title, *shown, note, *said, keys)][: screen.height]


def _asked(screen: Screen) -> str:
    if screen.reason is not None:
        return screen.message or f"Why not? {visible(screen.reason)}_"
    if screen.is_armed and screen.opened is not None:
        return f"Approve {screen.opened.digest[:16]}, exactly as shown? Press y; any other key does not."
    return screen.message


def _list_lines(screen: Screen) -> list[str]:
    if not screen.waiting:
        return ["", "  Nothing waits for a decision."]
    rows = [
        (
            ">" if approval.id == screen.selected else " ",
            standing(approval, screen.now),
            quorum(approval),
            approval.tool,
            visible(approval.run_id),
            visible(approval.requester.id),
            f"{age(approval.asked_at, screen.now)} old",
            f"expires {time_left(approval, screen.now)}",
        )
        for approval in screen.waiting
    ]
    widths = [max(map(text_width, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(text + " " * (width - text_width(text)) for text, width in zip(row, widths, strict=True))
            for row in rows]  # fmt: skip


def _page_lines(opened: Opened, columns: int) -> tuple[list[str], int]:
    """Gives an approval's lines as they fit the screen, and how many of them are the question."""
    question = wrapped(opened.question, columns)
    return question + wrapped(opened.record, columns), len(question)


def cut(line: str, columns: int) -> str:
    """Gives a line that fits; one that does not ends with a mark."""
    if text_width(line) <= columns:
        return line
    return parts_of(line, max(1, columns - 1))[0] + "…"
