"""Stores behind a server, for the suite that every store passes: one client for each tenant, opened when needed."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

from indelible.core.commands import Answer, Command
from indelible.core.effects.effect import Claim, Effect
from indelible.core.effects.identity import Ref
from indelible.core.ports import Alarm, Clock, Seen
from indelible.stores import open_store
from indelible.stores.reach import Reach
from indelible.stores.remote import RemoteStore

PATIENCE = timedelta(seconds=10)


class Following:
    """Is the server's clock: it tells the time of another one, or the real time."""

    def __init__(self) -> None:
        self._other: Clock | None = None

    def follow(self, other: Clock | None) -> None:
        """Goes by another clock from now on."""
        self._other = other

    def now(self) -> datetime:
        """Gives the time."""
        return datetime.now(UTC) if self._other is None else self._other.now()


class TenantsAfar:
    """Is a store whose every question goes to a server, as the tenant it is about.

    What only a server does, such as growing the journal, is done on the server's database: `own` is its address.
    """

    is_cheap_to_read = False
    unseen_kinds: frozenset[str] = frozenset()

    def __init__(self, url: str, own: str) -> None:
        self._url = url
        self._own = open_store(own, wakeups=False)
        self._clients: dict[str, RemoteStore] = {}
        self._is_closed = False
        self._lock = threading.RLock()
        self._alarm: _AlarmOf | None = None
        self.address = url
        self.ledger_name = self.of(f"tenant-{uuid.uuid4().hex}").ledger_name
        self.journal = _Part(self, "journal")
        self.forgetting = _Part(self, "forgetting")

    def of(self, tenant: str) -> RemoteStore:
        """Gives the client of a tenant."""
        with self._lock:
            if tenant not in self._clients:
                client = RemoteStore(self._url, token=quote(json.dumps(tenant)), reach=Reach(patience=PATIENCE))
                if self._is_closed:
                    client.close()
                self._clients[tenant] = client
                if self._alarm is not None:
                    self._alarm.listen_to(client)
            return self._clients[tenant]

    def any(self) -> RemoteStore:
        """Gives some client, for questions that are about no tenant."""
        return next(iter(self._clients.values()))

    @property
    def own(self) -> Any:
        """Is the server's database, for what only a server does."""
        return self._own

    def has_macs(self) -> bool:
        return self.any().has_macs()

    def apply(self, tenant: str, commands: Sequence[Command], known: Sequence[Effect | None]) -> list[Answer]:
        return self.of(tenant).apply(tenant, commands, known)

    def look(self, refs: Sequence[Ref]) -> Seen:
        return self._of_refs(refs).look(refs)

    def watch(self, refs: Sequence[Ref]) -> Seen:
        return self._of_refs(refs).watch(refs)

    def _of_refs(self, refs: Sequence[Ref]) -> RemoteStore:
        return self.of(refs[0].tenant) if refs else self.any()

    def heartbeat(self, claim: Claim, lease: timedelta) -> bool:
        return self.of(claim.effect.tenant).heartbeat(claim, lease)

    def transaction(self, tenant: str) -> AbstractContextManager[Any]:
        return self.of(tenant).transaction(tenant)

    def alarm(self) -> Alarm | None:
        self._alarm = _AlarmOf()
        return self._alarm

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda tenant, *args, **words: getattr(self.of(tenant), name)(tenant, *args, **words)

    def close(self) -> None:
        """Closes every client."""
        self._is_closed = True
        for client in self._clients.values():
            client.close()
        self._own.close()


_OF_THE_SERVER = {"integrate", "keep_head", "tenants"}
_OF_NO_TENANT = {"redaction_check", "keep_redaction_check", "clear_away"}


class _Part:
    """Is the journal, or what is forgotten, of all tenants."""

    def __init__(self, store: TenantsAfar, name: str) -> None:
        self._store = store
        self._name = name
        self.most_at_once = 256

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        if verb in _OF_THE_SERVER:
            return getattr(self._store.own.journal, verb)  # type: ignore[no-any-return]
        if verb in _OF_NO_TENANT:
            return getattr(getattr(self._store.any(), self._name), verb)  # type: ignore[no-any-return]
        return lambda tenant, *args, **words: getattr(getattr(self._store.of(tenant), self._name), verb)(
            tenant, *args, **words
        )


class _AlarmOf:
    """Is the alarm of the client that was opened last; a test watches for one tenant."""

    def __init__(self) -> None:
        self._alarms: list[Alarm] = []

    def listen_to(self, client: RemoteStore) -> None:
        """Takes the alarm of another client."""
        alarm = client.alarm()
        if alarm is not None:
            self._alarms.append(alarm)

    def fileno(self) -> int:
        return self._alarms[-1].fileno()

    def drain(self) -> set[str] | None:
        return self._alarms[-1].drain()

    def close(self) -> None:
        for alarm in self._alarms:
            alarm.close()
