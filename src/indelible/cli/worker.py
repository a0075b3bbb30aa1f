"""`indelible worker`: seals journals, tells people of approvals and sees to late ones while agents work elsewhere."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

import click

from indelible import Ledger
from indelible.cli.behind import store_behind
from indelible.cli.opening import Where, about_ledger, open_existing, where
from indelible.cli.show import count, say_json, visible
from indelible.errors import IndelibleError, StoreError
from indelible.journal.sealing import Sealer
from indelible.journal.sealing_thread import BEAT_EVERY, SEAL_EVERY
from indelible.notify.channels import Channels
from indelible.notify.outbox import Outbox

_LOOK_FOR_TENANTS_EVERY = 30.0


@click.command()
@click.option("--all-tenants", is_flag=True, help="Work for every tenant.")
@click.option("--once", is_flag=True, help="Do what waits, then end.")
@click.option("--channels", "path", type=click.Path(dir_okay=False, path_type=Path), envvar="INDELIBLE_CHANNELS",
              metavar="FILE", help="Tell people of approvals by the channels in this file.")  # fmt: skip
@click.option("--every", type=click.IntRange(min=10), default=int(SEAL_EVERY.total_seconds() * 1000), show_default=True,
              metavar="MS", help="Look for new events so often.")  # fmt: skip
@about_ledger
def worker(all_tenants: bool, once: bool, path: Path | None, every: int) -> int:
    """Seal the journal, and tell people of approvals.

    Takes events in and signs heads, for ledgers whose agents hold no key, as on PostgreSQL. Makes the key on first use.
    Any number of workers may run where they share the folder of keys; elsewhere let one machine sign. Approvals whose
    time has come are escalated or called expired. Ends on SIGTERM or Ctrl-C.
    """
    place = where()
    channels = _channels_in(path)
    with open_existing(place) as ledger, until_stopped() as stopped:
        rounds = _Rounds(ledger, place, all_tenants, channels)
        if once:
            rounds.seal_all(time.monotonic())
            rounds.tell_all()
            rounds.seal_all(time.monotonic())  # what was told of late approvals
            _say_done(rounds, place)
            return 1 if rounds.problems else 0
        rounds.say(f"sealing {rounds.subject}, every {every} ms; stop with Ctrl-C")
        if channels:
            rounds.say(f"telling people by {', '.join(channel.name for channel in channels)}")
        outbox = rounds.outbox()
        outbox.start()
        while not stopped.wait(every / 1000):
            rounds.seal_all(time.monotonic())
        outbox.close()
    rounds.say("stopped")
    return 0


def _channels_in(path: Path | None) -> Channels:
    if path is None:
        return Channels([])
    from indelible.notify.config import load_channels

    return load_channels(path)


@dataclass
class _Rounds:
    """Goes round all tenants again and again."""

    ledger: Ledger
    place: Where
    all_tenants: bool
    channels: Channels
    problems: dict[str, str] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    _sealers: dict[str, Sealer] = field(default_factory=dict)
    _sealed_at: dict[str, float] = field(default_factory=dict)
    _looked_at: float = float("-inf")

    @property
    def subject(self) -> str:
        if self.all_tenants:
            return "the journals of all tenants"
        return f"the journal of tenant {visible(self.place.tenant)}"

    def seal_all(self, now: float) -> None:
        """Seals every journal that has something new, and lets the idle ones show that they are alive."""
        try:
            self._find_tenants(now)
        except StoreError as problem:
            self._note("", problem)
            return
        self._well("")
        for tenant, sealer in self._sealers.items():
            try:
                self._seal(tenant, sealer, now)
            except IndelibleError as problem:
                self._note(tenant, problem)
            else:
                self._well(tenant)

    def outbox(self) -> Outbox:
        """Gives what sends and attends, for the tenants that are known so far."""
        return Outbox(self.ledger._engine, lambda: list(self._sealers), self.channels)

    def tell_all(self) -> None:
        """Sends and attends until nothing is due."""
        outbox = self.outbox()
        try:
            while outbox.go_once():
                continue
        except IndelibleError as problem:
            self._note("", problem)

    def _find_tenants(self, now: float) -> None:
        if now - self._looked_at < _LOOK_FOR_TENANTS_EVERY:
            return
        kept = store_behind(self.ledger).journal
        for tenant in kept.tenants() if self.all_tenants else [self.place.tenant]:
            if tenant not in self._sealers:
                self._sealers[tenant] = self.ledger._engine.notary.sealer(tenant)
                self._sealed_at[tenant] = now
        self._looked_at = now

    def _seal(self, tenant: str, sealer: Sealer, now: float) -> None:
        is_new = sealer.has_news()
        if not is_new and now - self._sealed_at[tenant] < BEAT_EVERY.total_seconds():
            self.sizes.setdefault(tenant, sealer.size())
            return
        if is_new:
            sealer.seal()
        elif sealer.size():
            sealer.heartbeat()
        self.sizes[tenant] = sealer.size()
        self._sealed_at[tenant] = now

    def _note(self, tenant: str, problem: IndelibleError) -> None:
        """Says a problem once, until it changes or goes away."""
        if self.problems.get(tenant) != str(problem):
            self.problems[tenant] = str(problem)
            click.echo(f"indelible: {visible(tenant)}{': ' if tenant else ''}{problem}", err=True)

    def _well(self, tenant: str) -> None:
        if self.problems.pop(tenant, None) is not None:
            self.say(f"{visible(tenant)}{': ' if tenant else ''}sealed again")

    def say(self, words: str) -> None:
        """Tells people what happens; programs get only the result."""
        if not self.place.is_json:
            click.echo(words, err=True)


def _say_done(rounds: _Rounds, place: Where) -> None:
    if place.is_json:
        say_json({"sealed": rounds.sizes, "problems": rounds.problems})
        return
    for tenant, size in rounds.sizes.items():
        print(f"{visible(tenant)}: {count(size, 'event')} under a signed head")


@contextmanager
def until_stopped() -> Iterator[threading.Event]:
    """Gives an event that a signal sets, so that what is under way is finished first."""
    stopped = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        stopped.set()

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
