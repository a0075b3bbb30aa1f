"""`indelible worker`: seals journals, tells people of approvals and sees to late ones while agents work elsewhere."""

from __future__ import annotations

import time
from pathlib import Path

import click

from indelible.cli.behind import store_behind
from indelible.cli.ending import until_stopped
from indelible.cli.moments import check_deletes, span
from indelible.cli.opening import Where, about_ledger, open_here, where
from indelible.cli.show import count, say_json, visible
from indelible.engine.comparing import tenants_of
from indelible.engine.upkeep import Trouble, Upkeep
from indelible.errors import IndelibleError
from indelible.journal.sealing_thread import SEAL_EVERY
from indelible.notify.channels import Channels, problem_with
from indelible.notify.outbox import Outbox

SEAL_AGAIN = 1.0
"""Is how much later a second round has to be to look at every journal again."""


@click.command()
@click.option("--all-tenants", is_flag=True, help="Work for every tenant.")
@click.option("--once", is_flag=True, help="Do what waits, then end.")
@click.option("--channels", "path", type=click.Path(dir_okay=False, path_type=Path), envvar="INDELIBLE_CHANNELS",
              metavar="FILE", help="Tell people of approvals by the channels in this file.")  # fmt: skip
@click.option("--every", type=click.IntRange(min=10), default=int(SEAL_EVERY.total_seconds() * 1000), show_default=True,
              metavar="MS", help="Look for new events so often.")  # fmt: skip
@click.option("--retain", metavar="AGE", help="Erase payloads of what ended longer ago, as 90d; once a day.")
@about_ledger
def worker(all_tenants: bool, once: bool, path: Path | None, every: int, retain: str | None) -> int:
    """Seal the journal, and tell people of approvals.

    Takes events in and signs heads, for ledgers whose agents hold no key, as on PostgreSQL. Makes the key on first use.
    Any number of workers may run where they share the folder of keys; elsewhere let one machine sign. Approvals whose
    time has come are escalated or called expired, and effects whose worker never reported are called in doubt. Ends on
    SIGTERM or Ctrl-C.
    """
    place, words = where(), _Words(where())
    channels = _channels_in(path)
    age = None if retain is None else span(check_deletes(retain, "--retain"), "--retain")
    with open_here(place) as ledger, until_stopped() as stopped:
        store = store_behind(ledger)
        upkeep = Upkeep(
            ledger, lambda: tenants_of(store) if all_tenants else [place.tenant], tell=words.tell, retain=age
        )
        outbox = Outbox(ledger._engine, lambda: upkeep.tenants, channels)
        if once:
            return _go_once(upkeep, outbox, place)
        subject = "the journals of all tenants" if all_tenants else f"the journal of tenant {visible(place.tenant)}"
        words.say(f"sealing {subject}, every {every} ms; stop with Ctrl-C")
        words.say_channels(channels)
        outbox.start()
        while not stopped.wait(every / 1000):
            upkeep.go(time.monotonic())
        outbox.close()
    words.say("stopped")
    return 0


def _go_once(upkeep: Upkeep, outbox: Outbox, place: Where) -> int:
    upkeep.go(time.monotonic())
    untold = _tell_all(outbox)
    upkeep.go(time.monotonic() + SEAL_AGAIN)  # what was told of late approvals
    problems = {trouble.tenant: str(problem) for trouble, problem in upkeep.problems.items()}
    if untold is not None:
        problems[""] = untold
    _say_done(upkeep.sizes, problems, place)
    return 1 if problems else 0


def _channels_in(path: Path | None) -> Channels:
    if path is None:
        return Channels([])
    from indelible.notify.config import load_channels

    return load_channels(path)


class _Words:
    """Tells people what happens; programs get only the result."""

    def __init__(self, place: Where) -> None:
        self._place = place

    def say(self, words: str) -> None:
        """Tells it, unless JSON is asked for."""
        if not self._place.is_json:
            click.echo(words, err=True)

    def say_channels(self, channels: Channels) -> None:
        """Say which channels send, and which cannot yet and why."""
        problems = {channel.name: problem for channel in channels if (problem := problem_with(channel)) is not None}
        for name, problem in problems.items():
            click.echo(f"indelible: channel {name} cannot send: {problem}", err=True)
        ready = [channel.name for channel in channels if channel.name not in problems]
        if ready:
            self.say(f"telling people by {', '.join(ready)}")

    def tell(self, trouble: Trouble, problem: IndelibleError | None) -> None:
        """Tells of a problem, or that it is over."""
        place = f"{visible(trouble.tenant)}: " if trouble.tenant else ""
        if problem is not None:
            click.echo(f"indelible: {place}{problem}", err=True)
        elif trouble.tenant:
            self.say(f"{place}{'sealed' if trouble.duty == 'seal' else trouble.duty} again")


def _tell_all(outbox: Outbox) -> str | None:
    """Sends and attends until nothing is due; gives the problem that stands against it."""
    try:
        while outbox.go_once():
            continue
    except IndelibleError as problem:
        click.echo(f"indelible: {problem}", err=True)
        return str(problem)
    return None


def _say_done(sizes: dict[str, int], problems: dict[str, str], place: Where) -> None:
    if place.is_json:
        say_json({"sealed": sizes, "problems": problems})
        return
    for tenant, size in sizes.items():
        print(f"{visible(tenant)}: {count(size, 'event')} under a signed head")
