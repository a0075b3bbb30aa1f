"""`indelible approvals watch`: approvals as they come, for people at a terminal and for programs on a pipe."""

from __future__ import annotations

import json
import os
import select
import sys
import time
from collections.abc import Sequence
from datetime import datetime

import click

from indelible import Approval, Ledger
from indelible.cli.approvals.words import quorum, standing, time_left
from indelible.cli.behind import store_behind
from indelible.cli.ending import until_ended
from indelible.cli.opening import Where
from indelible.cli.show import timestamp, visible
from indelible.core.approvals.shown import approval_shown
from indelible.core.ports import Alarm
from indelible.errors import StoreError

MOST_OPEN = 10_000
LOOK_EVERY_HEARING = 1.0  # every write here rings the alarm: looking is the safety net
LOOK_EVERY_CHEAPLY = 0.2
LOOK_EVERY_REMOTELY = 0.5
NOT_SOONER_THAN = 0.05  # however many writes ring


def watch_approvals(ledger: Ledger, place: Where, *, by: str, tool: str | None, run_id: str | None) -> int:
    """Follows the open approvals until somebody ends it."""
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    with Following(ledger, tool, run_id) as following, until_ended():
        if is_terminal and not place.is_json:
            from indelible.cli.approvals.watch_terminal import decide_at_terminal

            decide_at_terminal(ledger, following, place, by)
        else:
            _tell(following, place)
    return 0


class Following:
    """Knows the open approvals, and says what has changed since it looked last.

    What comes and goes between two looks is not seen; the record has it.
    """

    def __init__(self, ledger: Ledger, tool: str | None, run_id: str | None) -> None:
        self._ledger = ledger
        self._tool, self._run_id = tool, run_id
        self._store = store_behind(ledger)
        self._alarm: Alarm | None = None
        self._looked_at = float("-inf")
        self.open: dict[str, Approval] = {}
        self._told: dict[str, tuple[int, str]] = {}
        self.now: datetime = self._store.look([]).now
        self.problem: str | None = None
        self.is_due = True
        """Is it time to look?"""

    def __enter__(self) -> Following:
        try:
            self._alarm = self._store.alarm()
        except StoreError:
            self._alarm = None  # looking at times still finds everything
        return self

    def __exit__(self, *error: object) -> None:
        if self._alarm is not None:
            self._alarm.close()

    def look(self) -> list[Approval]:
        """Gives the approvals that are new or have changed, in their order; a store that is away changes nothing."""
        self._looked_at, self.is_due = time.monotonic(), False
        try:
            found = {approval.id: approval for status in ("pending", "approved") for approval in self._in(status)}
            ended = [self._ledger.get_approval(name) for name in self.open if name not in found]
            self.now = self._store.look([]).now
        except StoreError as problem:
            self.problem = " ".join(str(problem).split())
            return []
        self.problem = None
        self.open = found
        gone = [approval for approval in ended if approval is not None]
        changed = [approval for approval in (*gone, *found.values()) if self._is_news(approval)]
        for name in self._told.keys() - found.keys():
            del self._told[name]
        return sorted(changed, key=lambda approval: approval.id)

    def _in(self, status: str) -> list[Approval]:
        return self._ledger.approvals(status=status, tool=self._tool, run_id=self._run_id, limit=MOST_OPEN)  # type: ignore[arg-type]

    def _is_news(self, approval: Approval) -> bool:
        state = (approval.version, standing(approval, self.now))
        if self._told.get(approval.id) == state:
            return False
        self._told[approval.id] = state
        return True

    def sleep(self, *descriptors: int) -> set[int]:
        """Sleeps until it is time to look again; gives those descriptors that can be read before that."""
        soonest = self._looked_at + NOT_SOONER_THAN
        if (ready := _readable(descriptors, soonest)) or self.is_due:
            return ready
        alarm = -1 if self._alarm is None else self._alarm.fileno()
        ears = [*descriptors, *([alarm] if alarm >= 0 else [])]
        ready = _readable(ears, self._looked_at + self._pause)
        if self._alarm is not None and alarm in ready:
            self._alarm.drain()
        self.is_due = not ready or alarm in ready
        return ready - {alarm}

    @property
    def _pause(self) -> float:
        if not self._store.is_cheap_to_read:
            return LOOK_EVERY_REMOTELY  # there, an alarm tells only of effects that somebody waits for
        return LOOK_EVERY_CHEAPLY if self._alarm is None else LOOK_EVERY_HEARING


def _readable(descriptors: Sequence[int], until: float) -> set[int]:
    """Waits until one of these can be read, or until a moment; gives those that can."""
    ears = select.poll()
    for descriptor in descriptors:
        ears.register(descriptor, select.POLLIN)
    return {descriptor for descriptor, _ in ears.poll(max(0.0, until - time.monotonic()) * 1000)}


def _tell(following: Following, place: Where) -> None:
    """Prints a line for each approval that is new or has changed."""
    problem = None
    while True:
        for approval in following.look():
            print(_json_line(approval, following.now) if place.is_json else _line(approval, following.now), flush=True)
        if following.problem != problem:
            problem = following.problem
            click.echo(f"indelible: {problem or 'the store answers again'}", err=True)
        following.sleep()


def _line(approval: Approval, now: datetime) -> str:
    left = f"  expires {time_left(approval, now)}" if approval.is_open else ""
    return (
        f"{timestamp(now)}  {approval.id}  {standing(approval, now)}  {quorum(approval)}  {approval.tool}  "
        f"run {visible(approval.run_id)}  asked by {visible(approval.requester.id)}{left}"
    )


def _json_line(approval: Approval, now: datetime) -> str:
    return json.dumps({"standing": standing(approval, now), "approval": approval_shown(approval)})
