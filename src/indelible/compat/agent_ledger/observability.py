"""Where this face logs, and its tracer."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import Any

_LOG = logging.getLogger("indelible.compat.agent_ledger")


def get_logger() -> logging.Logger:
    """Gives the log of this face; the ledger itself logs under `indelible`."""
    return _LOG


def get_tracer() -> Any:
    """Gives OpenTelemetry's tracer where that is installed, else one that does nothing."""
    try:
        from opentelemetry import trace
    except ModuleNotFoundError:
        return _Untraced()
    return trace.get_tracer("indelible.compat.agent_ledger")


class _Untraced:
    @contextlib.contextmanager
    def start_as_current_span(self, name: str, **rest: Any) -> Iterator[None]:
        yield None
