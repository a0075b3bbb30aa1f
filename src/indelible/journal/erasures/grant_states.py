"""Finds every state of a grant on the record: each pins the same arguments, so they go together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from indelible.core.approvals.grants import grant_ref
from indelible.core.paging import read_sheet
from indelible.core.ports import Store
from indelible.core.values.canonical import decode

Place = tuple[str, int]
"""Is where a state is told: run and number of the event."""


def grants_told_at(store: Store, tenant: str, run_id: str, seqs: Iterable[int]) -> set[str]:
    """Names the grants of which these events tell a state that is not erased."""
    return {_on(payload.value)["id"] for payload in store.payloads(tenant, run_id, seqs) if payload.field == "grant"}


def states_of(store: Store, tenant: str, grant_id: str) -> list[Place]:
    """Lists where the states of a grant are told, the oldest first; each but the first names the one before it."""
    sheet = read_sheet(store, tenant, grant_ref(grant_id))
    places: list[Place] = []
    body = None if sheet is None else sheet.body
    if sheet is not None and body is not None and sheet.run_id is not None and sheet.seq is not None:
        places.append((sheet.run_id, sheet.seq))
    while body is not None and (before := _on(body)["before"]) is not None:
        places.append((before[0], before[1]))
        found = store.payloads(tenant, before[0], [before[1]])
        body = next((payload.value for payload in found if payload.field == "grant"), None)
    return places[::-1]


def _on(body: bytes) -> dict[str, Any]:
    content = decode(body)
    assert isinstance(content, dict)
    return content
