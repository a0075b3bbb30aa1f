"""Filters over HTTP: the parameter `q` of every list, and what finds by it."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from indelible.core.filtering.filters import Query as Asked
from indelible.core.filtering.filters import Resource
from indelible.core.filtering.reading import parse
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


def asked_for(q: str, resource: Resource) -> Asked:
    """Reads a filter; raises `BadFilter`, which names what is wrong by its place."""
    return parse(q, resource)


def finding_of(asked: Asking) -> Finding:
    """Gives what finds things of the caller's tenant."""
    return Finding(asked.ledger._engine.store, asked.caller.tenant, asked.ledger._run_desk().keeping)
