"""What agent-ledger calls a store is a ledger of ours here: read and written by its own verbs, and by no others."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Callable
from typing import Any, Generic, NoReturn, TypeVar

from indelible import AsyncLedger, Ledger
from indelible.compat.agent_ledger.errors import EffectStoreError
from indelible.compat.agent_ledger.types import Effect, EffectStatus
from indelible.compat.agent_ledger.words import effect_as_there

TxT = TypeVar("TxT")
_PAGE = 500
_MOST_REMEMBERED = 10_000


class EffectStore(Generic[TxT]):
    """Keeps effects in a ledger, which is opened when it is first needed and closed when this goes away.

    A ledger that was given stays open: it is its owner's to close.
    """

    def __init__(self, opening: Callable[[], Ledger], *, is_owner: bool = True) -> None:
        self._opening = opening
        self._is_owner = is_owner
        self._opened: Ledger | None = None
        self._lock = threading.Lock()
        self._scopes: dict[str, str] = {}
        self._forgotten: weakref.finalize[Any, Any] | None = None

    def open(self) -> Ledger:
        """Gives the ledger behind this; opens it at the first call, which may block."""
        with self._lock:
            if self._opened is None:
                self._opened = self._opening()
                if self._is_owner:
                    self._forgotten = weakref.finalize(self, _close_aside, self._opened)
                    self._forgotten.atexit = False  # at the end of the process, the ledger sees to itself
            return self._opened

    async def ledger(self) -> AsyncLedger:
        """Gives the ledger behind this, with verbs to await."""
        opened = self._opened
        return (await asyncio.to_thread(self.open) if opened is None else opened).awaited

    def close(self) -> None:
        """Closes the ledger, if this opened it; the next use opens it again."""
        with self._lock:
            opened, self._opened = self._opened, None
            self._scopes.clear()
            if opened is not None and self._forgotten is not None:
                self._forgotten.detach()
                opened.close()

    def remember(self, key: str, workflow_id: str) -> None:
        """Remembers where a key belongs: whoever only knows the key has to look through all effects."""
        if len(self._scopes) >= _MOST_REMEMBERED:
            self._scopes.pop(next(iter(self._scopes)))
        self._scopes[key] = workflow_id

    async def find_by_idem_key(self, idem_key: str, tx: TxT | None = None) -> Effect | None:
        """Gives the effect with this key."""
        found = await self.find_ours(idem_key)
        return None if found is None else effect_as_there(found)

    async def find_ours(self, idem_key: str) -> Any:
        """Gives the effect with this key as our ledger has it; None where there is none."""
        if not _is_key(idem_key):
            return None
        ledger = await self.ledger()
        return await ledger.find_by_key(idem_key, scope=self._scopes.get(idem_key))

    async def find_by_id(self, effect_id: str, tx: TxT | None = None) -> Effect | None:
        """Gives the effect with this id."""
        found = await (await self.ledger()).get_effect(effect_id)
        return None if found is None or found.id != effect_id else effect_as_there(found)

    async def list_effects(self) -> list[Effect]:
        """Lists all effects, oldest first."""
        ledger, found, before = await self.ledger(), [], None
        while page := await ledger.effects(before=before, limit=_PAGE):
            found += page
            before = page[-1].id
        return [effect_as_there(one) for one in reversed(found)]

    async def count(self) -> int:
        """Counts effects."""
        return len(await self.list_effects())

    # What agent-ledger's own ledger does with its store. Here the ledger decides and writes in one step.

    def transaction(self) -> NoReturn:
        """Refuses: nothing is written past the ledger."""
        raise _past_the_ledger("transaction", "in a handler, indelible.current_effect().transaction() opens one")

    async def upsert(self, input_data: Any, tx: TxT | None = None) -> NoReturn:
        """Refuses: nothing is written past the ledger."""
        raise _past_the_ledger("upsert", "call ledger.run or ledger.begin")

    async def transition(
        self,
        effect_id: str,
        from_status: EffectStatus,
        to_status: EffectStatus,
        result: Any = None,
        error: Any = None,
        tx: TxT | None = None,
    ) -> NoReturn:
        """Refuses: nothing is written past the ledger."""
        raise _past_the_ledger("transition", "call ledger.commit, approve or deny")

    async def claim_for_processing(
        self,
        effect_id: str,
        from_status: EffectStatus,
        stale_threshold_ms: int | None = None,
        tx: TxT | None = None,
    ) -> NoReturn:
        """Refuses: nothing is written past the ledger."""
        raise _past_the_ledger("claim_for_processing", "call ledger.run or ledger.begin")

    async def increment_dedup_count(self, idem_key: str, tx: TxT | None = None) -> NoReturn:
        """Refuses: nothing is written past the ledger."""
        raise _past_the_ledger("increment_dedup_count", "a server counts replays by itself: GET /v1/stats")


class LedgerStore(EffectStore[Any]):
    """Is any ledger of ours as a store: an address, or a ledger that is open."""

    def __init__(self, ledger: Ledger | AsyncLedger | str) -> None:
        if isinstance(ledger, str):
            address = ledger
            super().__init__(lambda: Ledger.open(address))
        else:
            given = ledger.blocking
            super().__init__(lambda: given, is_owner=False)


def _close_aside(ledger: Ledger) -> None:
    """Closes a ledger in a thread of its own: nobody knows where, and holding what, things are forgotten."""
    threading.Thread(target=ledger.close, name="indelible-closing", daemon=True).start()


def _is_key(text: object) -> bool:
    return isinstance(text, str) and len(text) == 64 and set(text) <= set("0123456789abcdef")


def _past_the_ledger(operation: str, instead: str) -> EffectStoreError:
    return EffectStoreError(f"{operation}: nothing is written past the ledger; {instead}", operation=operation)
