"""Connects to a server: the library's own verbs, on a ledger that is kept elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Mapping
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Unpack

from indelible.aio import AsyncLedger
from indelible.core.effects.calls import OptionWords
from indelible.errors import Misconfigured
from indelible.ledger import Ledger
from indelible.stores import PATIENCE, Reach, address_of, is_remote

if TYPE_CHECKING:
    from indelible.core.policy.policy import Policy


def connect(
    url: str | None = None,
    *,
    token: str | None = None,
    tenant: str | None = None,
    run: str | None = None,
    policy: Policy | Mapping[str, Any] | str | Path | None = None,
    ca: str | Path | None = None,
    proxy: str | None = None,
    patience: timedelta = PATIENCE,
    allow_http: bool = False,
    **options: Unpack[OptionWords],
) -> Ledger:
    """Connects to a server that is there, speaks as we do and lets the token in; says what is wrong if it is not so.

    Without an address and a token, $INDELIBLE_URL and $INDELIBLE_TOKEN give them. `tenant` only checks whose the token
    is. `run` ($INDELIBLE_RUN) names the run of calls that name none and are inside none. A `policy` of one's own holds
    besides the server's. `ca`, `proxy`, `patience` and `allow_http` say how the server is reached, as `Reach` does; all
    other options hold for every call.
    """
    reach = Reach(ca=ca, proxy=proxy, patience=patience, allow_http=allow_http)
    return Ledger.open(_server(url), token=token, tenant=tenant, run=run, policy=policy, reach=reach, **options)


def connect_async(
    url: str | None = None,
    *,
    token: str | None = None,
    tenant: str | None = None,
    run: str | None = None,
    policy: Policy | Mapping[str, Any] | str | Path | None = None,
    ca: str | Path | None = None,
    proxy: str | None = None,
    patience: timedelta = PATIENCE,
    allow_http: bool = False,
    **options: Unpack[OptionWords],
) -> Connecting:
    """Does the same without blocking the loop: await it for the ledger, or enter it as an `async with` block."""
    reach = Reach(ca=ca, proxy=proxy, patience=patience, allow_http=allow_http)
    server = _server(url)
    return Connecting(
        lambda: AsyncLedger.open(server, token=token, tenant=tenant, run=run, policy=policy, reach=reach, **options)
    )


class Connecting:
    """Is a connection that is about to be made."""

    def __init__(self, make: Callable[[], AsyncLedger]) -> None:
        self._make = make
        self._ledger: AsyncLedger | None = None

    def __await__(self) -> Generator[Any, None, AsyncLedger]:
        return asyncio.to_thread(self._make).__await__()

    async def __aenter__(self) -> AsyncLedger:
        self._ledger = await self
        return self._ledger

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        assert self._ledger is not None
        await self._ledger.close()


def _server(url: str | None) -> str:
    address = address_of(url)
    if not is_remote(address):
        what = address.partition("@")[2] or address  # and no password
        raise Misconfigured(f"{what} is no server; say https://HOST, or open a database with Ledger.open")
    return address
