"""Challenges to passkeys, kept in the ledger: whichever server asked, one server takes the answer, once."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime

from indelible.core.commands import Keep, Kept
from indelible.core.effects.effect import SYSTEM
from indelible.core.paging import read_sheet
from indelible.core.people.challenges import (
    CHALLENGE_LASTS,
    Challenge,
    challenge_id,
    challenge_sheet,
    read_challenge,
    spent_sheet,
)
from indelible.core.ports import Store
from indelible.core.sheets import Sheet, SheetFilter, SheetRef
from indelible.engine.mint import SystemMint

_CHALLENGE_BYTES = 32
_SWEPT_AT_ONCE = 20


class Challenges:
    """Asks passkeys of one tenant."""

    def __init__(self, store: Store, tenant: str) -> None:
        self._store = store
        self._tenant = tenant
        self._mint = SystemMint()

    def ask(self, purpose: str) -> bytes:
        """Gives a challenge whose answer is good for one purpose; old ones are cleared away by the way.

        Where nobody could answer it, it is not kept: else strangers would fill the store with tenants that are none.
        """
        now = datetime.now(UTC)
        old = self._store.sheets(self._tenant, SheetFilter(kind="challenge", due_by=now, limit=_SWEPT_AT_ONCE))
        if old:
            self._store.forgetting.drop(self._tenant, old)
        challenge = secrets.token_bytes(_CHALLENGE_BYTES)
        asked = Challenge(id=challenge_id(challenge), purpose=purpose, due_at=now + CHALLENGE_LASTS)
        if self._store.sheets(self._tenant, SheetFilter(kind="person", limit=1)):
            self._keep(challenge_sheet(asked))
        return challenge

    def take(self, challenge: bytes, purpose: str) -> bool:
        """Uses a challenge up; says whether it was asked for this, is not too old, and nobody used it before."""
        found = read_sheet(self._store, self._tenant, SheetRef("challenge", challenge_id(challenge)))
        if found is None or found.body is None:
            return False
        asked = read_challenge(found)
        if not asked.is_good_for(purpose, datetime.now(UTC)):
            return False
        return self._keep(spent_sheet(asked, secrets.token_hex(16)))

    def _keep(self, sheet: Sheet) -> bool:
        command = Keep(tenant=self._tenant, stamp=self._mint.stamp(SYSTEM, 0), sheet=sheet)
        (answer,) = self._store.apply(self._tenant, [command], [None])
        return isinstance(answer, Kept)
