"""`indelible stop` and `indelible go`: the brake for all effects of a tenant."""

from __future__ import annotations

import click

from indelible.cli.effects.command import by_option
from indelible.cli.opening import about_ledger, open_existing, where
from indelible.cli.show import say_json, timestamp, visible
from indelible.core.effects.stops import Stop


@click.command()
@click.option("--reason", required=True, help="Why; whoever is stopped is told.")
@by_option
@about_ledger
def stop(reason: str, by: str) -> None:
    """Stop all effects of the tenant, in every process, at once.

    No handler is entered from now on, whoever asks: agents, people, servers. What is under way may finish. It is on the
    record, and holds until: indelible go.

    \b
    indelible stop --reason "refunds go to the wrong accounts"
    """
    place = where()
    with open_existing(place) as ledger:
        stopped = ledger.stop(by=by, reason=reason)
    if place.is_json:
        say_json(stop_json(stopped))
    else:
        print(f"Stopped by {visible(stopped.by)} at {timestamp(stopped.at)}: {visible(stopped.reason)}")
        print("Nothing is entered until: indelible go")


@click.command()
@click.option("--reason", default="", help="Why they may go on.")
@by_option
@about_ledger
def go(reason: str, by: str) -> None:
    """Let effects go on that `indelible stop` has stopped."""
    place = where()
    with open_existing(place) as ledger:
        last = ledger.go(by=by, reason=reason)
    if place.is_json:
        say_json(stop_json(last))
    else:
        print("Nothing was stopped." if last is None else f"Going on, by {visible(last.by)} at {timestamp(last.at)}.")


def stop_json(stop_: Stop | None) -> dict[str, object]:
    """Gives how a tenant stands, as programs read it."""
    if stop_ is None:
        return {"is_stopped": False, "by": None, "at": None, "reason": None}
    return {
        "is_stopped": stop_.is_in_force,
        "by": stop_.by,
        "at": timestamp(stop_.at),
        "reason": stop_.reason,
    }
