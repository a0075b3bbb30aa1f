"""Indelible with its journal: sealed by a process of its own or by the ledger itself, with and without signed events.

Each of these can say whether everything it wrote is under a signed head, so that nobody gets away with work left over.
"""

from __future__ import annotations

from typing import Any, ClassVar

from benchmarks.ours import IndelibleMany, IndelibleOne, is_sealed
from indelible.core.journal.journal import JOURNAL_RUN

LOOKED_AT = 16


class ManySealedElsewhere(IndelibleMany):
    """Many callers; another process seals, as on a PostgreSQL ledger."""

    options: ClassVar[dict[str, Any]] = {"seal": False}

    def is_sealed(self) -> bool:
        return is_sealed(self._ledger)


class ManySealing(ManySealedElsewhere):
    """Many callers; the ledger's own process seals."""

    options: ClassVar[dict[str, Any]] = {"seal": True}


class ManySigned(ManySealedElsewhere):
    """Many callers; every event carries a signature of this process, and another one seals."""

    options: ClassVar[dict[str, Any]] = {"seal": False, "sign_events": True}

    def is_sealed(self) -> bool:
        """Is everything sealed? Checks on the way that events are signed."""
        kept, tenant = self._ledger._engine.store.journal, self._ledger.tenant
        newest = kept.entries(tenant, max(0, kept.tree(tenant).size - LOOKED_AT), LOOKED_AT)
        # What the journal tells about itself may come from the process that seals, which signs heads and no events.
        if any(entry.signature is None for entry in newest if entry.run_id != JOURNAL_RUN):
            raise AssertionError("events are not signed, so this would measure something else")
        return super().is_sealed()


class ManySignedSealing(ManySigned):
    """Many callers; every event carries a signature of this process, which also seals."""

    options: ClassVar[dict[str, Any]] = {"seal": True, "sign_events": True}


class OneSealing(IndelibleOne):
    """One caller that does not wait for a head; its own process seals."""

    options: ClassVar[dict[str, Any]] = {"seal": True, "side_effect": "external_mutation"}


class OnePaying(IndelibleOne):
    """One caller whose calls return when a signed head covers them; its own process seals."""

    options: ClassVar[dict[str, Any]] = {"seal": True, "side_effect": "payment"}


class OneAwaitingElsewhere(IndelibleOne):
    """One caller whose calls return when a signed head covers them; another process seals."""

    options: ClassVar[dict[str, Any]] = {"seal": False, "side_effect": "payment", "await_inclusion": True}

    def is_sealed(self) -> bool:
        return is_sealed(self._ledger)
