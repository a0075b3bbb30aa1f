"""A process that sends by a webhook until it is killed, or kills itself at a chosen point.

python -m tests.notify.mortal_sender URL PORT [POINT]
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from indelible import Ledger
from indelible.core.approvals import deliveries
from indelible.notify.hidden import Secret
from indelible.notify.outbox import Attendant, Outbox
from indelible.notify.sending import Sender
from indelible.notify.webhook import WebhookChannel

SECRET = "whsec_" + "MTIz" * 10
POINTS = ("before taking", "after taking", "before sending", "after sending", "before marking", "after marking")


def channel_to(port: int) -> WebhookChannel:
    """Gives the channel that all these processes share."""
    url = f"http://127.0.0.1:{port}/"
    return WebhookChannel("ops", url, secret=Secret(SECRET), http=True, ports=[port], allow=["127.0.0.1/32"])


def die_at(point: str) -> None:
    """Makes the process kill itself when it first comes to a point."""

    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def around(owner: Any, name: str, before: str, after: str) -> None:
        inner: Callable[..., Any] = getattr(owner, name)

        def outer(*args: Any, **words: Any) -> Any:
            if point == before:
                die()
            result = inner(*args, **words)
            if point == after:
                die()
            return result

        setattr(owner, name, outer)

    around(Attendant, "_tell", "before telling", "after telling")
    around(Sender, "_keep", "before taking", "after taking")
    around(WebhookChannel, "send", "before sending", "after sending")
    around(Sender, "_keep_surely", "before marking", "after marking")


def main(url: str, port: str, point: str = "", seconds: str = "60") -> None:
    """Sends until it is killed."""
    deliveries.SENDING_LEASE = timedelta(seconds=float(seconds))
    if point:
        die_at(point)
    with Ledger.open(url, seal=False) as ledger:
        outbox = Outbox(ledger._engine, ledger.tenant, [channel_to(int(port))])
        outbox.start()
        print("ready", flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
