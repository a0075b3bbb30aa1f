"""What a handler holds while it runs: its effect, and a transaction on the ledger's own database if it wants one."""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager
from contextvars import ContextVar
from types import TracebackType
from typing import Any

from indelible.core.commands import Answer, Command
from indelible.core.effects import Claim, Effect
from indelible.core.ports import Store, Transaction
from indelible.errors import BadCall

_current: ContextVar[RunningEffect | None] = ContextVar("indelible_effect", default=None)
_current_run: ContextVar[str | None] = ContextVar("indelible_run", default=None)


def current_effect() -> RunningEffect | None:
    """Gives the effect whose handler is running here, or None outside a handler."""
    return _current.get()


class RunningEffect:
    """Is the effect as its handler sees it: the recorded arguments, the key to pass on, the fence."""

    __slots__ = ("_args", "_effect", "_requests", "_store", "_transaction")

    def __init__(self, claim: Claim, store: Store) -> None:
        self._effect = claim.effect
        self._store = store
        self._args: dict[str, Any] | None = None
        self._transaction: HandlersTransaction | None = None
        self._requests = 0

    @property
    def effect(self) -> Effect:
        """Is the record itself."""
        return self._effect

    @property
    def id(self) -> str:
        """Is the effect's id."""
        return self._effect.id

    @property
    def key(self) -> str:
        """Identifies the call; pass it downstream as the idempotency key."""
        return self._effect.key

    @property
    def digest(self) -> str:
        """Is the digest of the exact call."""
        return self._effect.digest

    @property
    def tool(self) -> str:
        """Names the tool."""
        return self._effect.tool

    @property
    def run_id(self) -> str:
        """Names the run the effect belongs to."""
        return self._effect.run_id

    @property
    def tenant(self) -> str:
        """Names the tenant."""
        return self._effect.tenant

    @property
    def attempt(self) -> int:
        """Numbers this entry into the handler."""
        return self._effect.attempt

    @property
    def fence(self) -> int:
        """Numbers this attempt, for a downstream that can refuse an older one."""
        return self._effect.fence

    @property
    def args(self) -> dict[str, Any]:
        """Holds the arguments as they were recorded."""
        if self._args is None:
            self._args = self._effect.args
        return self._args

    def transaction(self) -> HandlersTransaction:
        """Opens a transaction on the ledger's database, committed together with this effect: then exactly once.

        Use `with` in a blocking handler and `async with` in an asynchronous one; it gives the driver's connection. The
        handler returns after it; if the handler raises, all of it is rolled back.
        """
        if self._transaction is not None:
            raise BadCall(f"{self.tool}: a handler has one transaction; do everything inside it")
        self._transaction = HandlersTransaction(self._store, self.tenant)
        return self._transaction

    @property
    def holds_transaction(self) -> bool:
        """Is this handler's transaction open?"""
        return self._transaction is not None and self._transaction.is_open

    def settle_inside(self, command: Command) -> Answer | None:
        """Settles in the handler's transaction; None when there is none, or the settlement did not hold."""
        transaction, self._transaction = self._transaction, None
        return None if transaction is None else transaction.settle(command)

    def roll_back(self) -> None:
        """Undoes what the handler wrote in its transaction."""
        if self._transaction is not None:
            self._transaction.roll_back()

    def next_request_key(self) -> str:
        """Gives the idempotency key of the next request this handler sends: its key, then its key with a number.

        The requests of a handler are told apart by their order, so that a second attempt repeats the same keys.
        """
        self._requests += 1
        return self.key if self._requests == 1 else f"{self.key}-{self._requests}"


class HandlersTransaction:
    """Stays open when its block ends well, until the effect is settled in it."""

    def __init__(self, store: Store, tenant: str) -> None:
        self._scope: AbstractContextManager[Transaction] = store.transaction(tenant)
        self._inner: Transaction | None = None

    @property
    def is_open(self) -> bool:
        """Is it begun and not yet ended?"""
        return self._inner is not None

    def __enter__(self) -> Any:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return self._begin()
        raise BadCall("in an asynchronous handler write: async with effect.transaction() as connection")

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if error is not None:
            self.roll_back()

    async def __aenter__(self) -> Any:
        return await asyncio.to_thread(self._begin)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        if error is not None:
            self.roll_back()

    def _begin(self) -> Any:
        self._inner = self._scope.__enter__()
        return self._inner.connection

    def settle(self, command: Command) -> Answer | None:
        """Settles the effect and commits; None when this transaction was rolled back before."""
        if self._inner is None:
            return None
        try:
            return self._inner.settle(command)
        finally:
            self._end()

    def roll_back(self) -> None:
        """Undoes everything, if it is open."""
        if self._inner is not None:
            try:
                self._inner.rollback()
            finally:
                self._end()

    def _end(self) -> None:
        self._inner = None
        self._scope.__exit__(None, None, None)
