"""The options of `indelible serve` about running it: who goes the rounds, the log, the counts, and how it stops."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import click

from indelible.cli.moments import check_deletes, span

F = TypeVar("F", bound=Callable[..., Any])


def about_operation(function: F) -> F:
    """Gives a command these options; it gets them by their names."""
    options = (
        click.option("--no-worker", is_flag=True, help="Leave sealing, sending and clearing to somebody else."),
        click.option("--channels", "channels_file", type=click.Path(dir_okay=False, path_type=Path),
                     envvar="INDELIBLE_CHANNELS", metavar="FILE",
                     help="Tell people of approvals by the channels in this file."),
        click.option("--worker-lease", type=click.IntRange(1, 3600), default=15, show_default=True, metavar="SECONDS",
                     help="How soon another server takes over the work of one that died."),
        click.option("--retain", metavar="AGE", help="Erase payloads of what ended longer ago, as 90d; once a day."),
        click.option("--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True,
                     help="How the log is written."),
        click.option("--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="warning",
                     show_default=True, help="From which level on; info has a line for each request."),
        click.option("--metrics-open", "is_metrics_open", is_flag=True,
                     help="Show /metrics without a token, on this machine alone."),
        click.option("--drain", type=click.FloatRange(0, 600), default=0.0, show_default=True, metavar="SECONDS",
                     help="Go on answering so long after /readyz says that we stop."),
    )  # fmt: skip
    for option in reversed(options):
        function = option(function)
    return function


def operating(
    *,
    no_worker: bool,
    channels_file: Path | None,
    worker_lease: int,
    retain: str | None,
    is_metrics_open: bool,
    drain: float,
) -> dict[str, Any]:
    """Gives what `running.serve` needs of them."""
    from indelible.notify.channels import Channels
    from indelible.notify.config import load_channels
    from indelible.server.worker import Rounds

    age = None if retain is None else span(check_deletes(retain, "--retain"), "--retain")
    return {
        "channels": Channels([]) if channels_file is None else load_channels(channels_file),
        "rounds": None if no_worker else Rounds(lease=timedelta(seconds=worker_lease), retain=age),
        "is_metrics_open": is_metrics_open,
        "drain": drain,
    }
