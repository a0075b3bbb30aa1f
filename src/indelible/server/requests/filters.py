"""Filters over HTTP: the parameter `q` of every list, and what finds by it."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from indelible.engine.finding import Finding
from indelible.server.requests.asking import Asking

Q = Annotated[
    str,
    Query(
        description="A filter, as in `tool:stripe.* status:failed,denied args.amount:>1000 since:24h -tool:crm.get`. "
        "A page may hold fewer than `limit`, even none, while `next` says where to go on.",
        examples=["tool:stripe.* since:24h"],
    ),
]


def finding_of(asked: Asking) -> Finding:
    """Return what finds things of the caller's tenant."""
    return Finding.of(asked.ledger)
