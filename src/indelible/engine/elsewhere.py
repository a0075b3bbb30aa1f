"""Looks for the same call in other runs and under other keys, for all who show a question to an approver."""

from __future__ import annotations

from collections.abc import Sequence

from indelible.core.approvals.elsewhere import RECENT, Elsewhere, digests_of, elsewhere_of
from indelible.core.effects.effect import Effect
from indelible.core.ports import Store

_MOST_READ = 1000


def read_elsewhere(store: Store, tenant: str, effects: Sequence[Effect]) -> dict[str, tuple[Elsewhere, ...]]:
    """Return the recent calls that say the same as each of these, by the id of the effect."""
    digests = list(dict.fromkeys(digest for effect in effects for digest in digests_of(effect)))
    if not digests:
        return {}
    found = store.alike(tenant, digests, store.look([]).now - RECENT, _MOST_READ)
    return {effect.id: elsewhere_of(effect, found) for effect in effects}
