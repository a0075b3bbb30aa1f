"""`indelible stop` and `indelible go`: the brake for all effects of a tenant."""

from __future__ import annotations

import click

from indelible import Actor, Ledger
from indelible.cli.opening import about_ledger, open_existing, where
from indelible.cli.options import by_option, reason_option
from indelible.cli.show import say_json, timestamp, visible
from indelible.core.effects.stops import Stop
from indelible.core.events import instant
from indelible.core.journal.set_back import way_out
from indelible.engine.stops import Stops


@click.command()
@reason_option(None, "Why; whoever is stopped is told.")
@by_option
@about_ledger
def stop(reason: str, by: str) -> None:
    """Stop all effects of the tenant, in every process, at once.

    No handler is entered from now on, whoever asks: agents, people, servers. What is under way may finish. It is on the
    record, and holds until: indelible go.

    \b
    indelible stop -m "refunds go to the wrong accounts"
    """
    place = where()
    with open_existing(place) as ledger:
        made = ledger.stop(by=by, reason=reason)
        stopped = ledger.stopped() or made  # as the record has it: a server goes by the token
    if place.is_json:
        say_json(stop_json(stopped))
    else:
        for cause in stopped.causes:
            print(f"Stopped by {visible(cause.by)} at {timestamp(cause.at)}: {visible(cause.reason)}")
        end = way_out(stopped)
        if end is not None:
            also = f", and then: {place.command('go')}" if stopped.kind == "lost" and stopped.below else ""
            print(f"Nothing is entered until: {place.command(end)}{also}")


@click.command()
@reason_option("", "Why they may go on.")
@click.option("--force", is_flag=True, help="Also those of a tenant that was to be moved, and never arrived.")
@by_option
@about_ledger
def go(reason: str, force: bool, by: str) -> None:
    """Let effects go on that `indelible stop` has stopped."""
    place = where()
    with open_existing(place) as ledger:
        was_stopped = ledger.stopped() is not None
        last = _go_anyway(ledger, by, reason) if force else ledger.go(by=by, reason=reason)
    if place.is_json:
        say_json(stop_json(last) | ({} if last is None else {"by": place.doer(last.by)}))
    elif last is None or not was_stopped:
        print("Nothing was stopped.")
    elif last.is_in_force:
        print(f"Still stopped, by {visible(last.by)} at {timestamp(last.at)}: {visible(last.reason)}")
        print(f"That stop was there before. To end it too: {place.command('go')}")
    else:
        print(f"Going on, {place.by_whom(last.by)} at {timestamp(last.at)}.")


def _go_anyway(ledger: Ledger, by: str, reason: str) -> Stop | None:
    """Lets effects go also where they were stopped for a move to another database."""
    return Stops(ledger._engine, ledger.tenant).go(Actor(by), reason, is_forced=True)


def stop_json(stop_: Stop | None) -> dict[str, object]:
    """Gives how a tenant stands, as programs read it."""
    if stop_ is None:
        return {"is_stopped": False, "by": None, "at": None, "reason": None}
    return {
        "is_stopped": stop_.is_in_force,
        "by": stop_.by,
        "at": instant(stop_.at),
        "reason": stop_.reason,
    }
