"""Finds what was erased behind a place of a journal: no event under a head of that size says so."""

from __future__ import annotations

import json
from contextlib import suppress

from indelible.core.ports import Store
from indelible.core.privacy.forgetting import ERASED
from indelible.core.verifying.payloads import erased_by

_IS_ERASURE = f'"type":"{ERASED}"'.encode()
_ALL = 2**31
_PAGE = 1000

Values = set[tuple[str, int, str]]
"""Names values: each by its run, its event's number there, and its field."""


class ErasedSince:
    """Follows the erasures from a place of the journal on, also those by other programs; reads each event once."""

    def __init__(self, store: Store, tenant: str, place: int) -> None:
        self._store = store
        self._tenant = tenant
        self._place = place
        self._read_up_to: dict[str, int] = {}
        self._values: Values = set()

    def look(self) -> Values:
        """Return the values that were erased up to now, whether their events are in the journal yet or not."""
        store, tenant, journal = self._store, self._tenant, self._store.journal
        first: dict[str, int] = {}
        for run_id, seq, _ in journal.pending(tenant, _ALL):  # first: meanwhile it may be taken into the journal
            first[run_id] = min(seq, first.get(run_id, seq))
        for run_id, seq in first.items():
            after = max(seq - 1, self._read_up_to.get(run_id, -1))
            while told := store.events(tenant, run_id, after, _PAGE):
                for event in told:
                    self._take(run_id, event.body)
                self._read_up_to[run_id] = after = told[-1].seq
        while page := journal.entries(tenant, self._place, _PAGE):
            for entry in page:
                self._take(entry.run_id, entry.body)
            self._place = page[-1].index + 1
        return set(self._values)

    def _take(self, run_id: str, body: bytes) -> None:
        if _IS_ERASURE in body:
            with suppress(ValueError, KeyError, TypeError, AttributeError):  # altered by hand: the verifier's to tell
                named = erased_by(json.loads(body)["facts"])
                self._values |= {(run_id, seq, name) for seq, name in named}
