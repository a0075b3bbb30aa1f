"""The adapter for requests."""

from __future__ import annotations

import http.client
from functools import wraps
from typing import Any
from weakref import WeakSet

from indelible.engine.running import current_effect
from indelible.http.leaving import Leaving, leaving, refuse_past

try:
    import requests
    import requests.adapters
except ImportError as missing:
    raise ImportError("indelible.http.requests needs requests: pip install requests") from missing

__all__ = ["IdempotencyAdapter"]

# Only this one goes through the connections below. What takes its place, as a mock does, proves nothing.
_OWN = requests.adapters.HTTPAdapter.send


class IdempotencyAdapter(requests.adapters.HTTPAdapter):
    """Give each request of a handler its idempotency key, and note when its first byte is written.

    A request with a safe method gets no key. Outside a handler nothing is added. The adapter takes the arguments of
    `requests.adapters.HTTPAdapter`; requests that `max_retries` repeats keep their key.

    Example:
        session = requests.Session()
        session.mount("https://", IdempotencyAdapter())
    """

    def init_poolmanager(self, *args: Any, **words: Any) -> None:
        """Make the pools of connections, such that each connection notes its first byte."""
        super().init_poolmanager(*args, **words)
        _mark_in(self.poolmanager)

    def proxy_manager_for(self, proxy: str, **words: Any) -> Any:
        """Return the pools for a proxy, such that each connection notes its first byte."""
        is_new = proxy not in self.proxy_manager
        manager = super().proxy_manager_for(proxy, **words)
        if is_new:
            _mark_in(manager)
        return manager

    def send(self, request: requests.PreparedRequest, *args: Any, **words: Any) -> requests.Response:
        """Send a copy of the request with its key.

        Args:
            request: The request.
            *args: As for `HTTPAdapter.send`.
            **words: As for `HTTPAdapter.send`.

        Returns:
            The response.

        Raises:
            AmbiguousRequest: Another body went to the same method, address and name in this attempt.
        """
        copy = request.copy()  # the caller's own may be sent by another handler, or be redirected
        leaves = leaving(copy.method or "", copy.url or "", copy.headers, lambda: _body_of(copy))
        copy.headers.update(leaves.headers)
        # A send of another base class, or a subclass that does not show its connections, proves nothing.
        if not (_is(super().send, _OWN) and _is(self.cert_verify, IdempotencyAdapter.cert_verify)):
            leaves.mark()
        response = super().send(copy, *args, **words)
        leaves.note_answer()
        response.request = request
        return response

    def cert_verify(self, conn: Any, *args: Any, **words: Any) -> None:
        """Note a request of connections that are not ours as sent: they do not tell when they write.

        Each version of requests hands the chosen pool to this method before it sends, whoever chose the pool.
        """
        if not (type(conn) in _pools and issubclass(conn.ConnectionCls, _Marks)):
            _mark_now()
        super().cert_verify(conn, *args, **words)


def _is(method: Any, function: Any) -> bool:
    return getattr(method, "__func__", None) is function


def _mark_now() -> None:
    Leaving(current_effect(), {}).mark()


def _body_of(request: requests.PreparedRequest) -> bytes | None:
    body: object = request.body
    if isinstance(body, str):
        return body.encode()
    return b"" if body is None else body if isinstance(body, bytes) else None


class _Marks:
    """A connection that notes the first byte of each request."""


_pools: WeakSet[type[Any]] = WeakSet()
"""The classes of pools that make such connections."""


def _mark_in(manager: Any) -> None:
    """Let the connections of these pools note the first byte of each request.

    Pools of another library may make their connections in another way: those stay as they are, and prove nothing.
    """
    manager.pool_classes_by_scheme = {
        scheme: _marking_pool(pool) if pool.__module__.startswith("urllib3.") else pool
        for scheme, pool in manager.pool_classes_by_scheme.items()
    }


def _marking_pool(pool: Any) -> type[Any]:
    made = type(pool.__name__, (pool,), {"ConnectionCls": _marking(pool.ConnectionCls)})
    _pools.add(made)
    return made


def _marking(kind: Any) -> type[Any]:
    class Marking(_Marks, kind):  # type: ignore[misc]
        """Notes the first byte of each request, also of one that urllib3 repeats by itself.

        urllib3 1 sends a streamed body without `request`, so every byte counts, except those of a CONNECT.
        """

        _leaves: Leaving | None = None
        _is_tunnelling = False

        def request(self, *args: Any, **words: Any) -> None:
            self._leaves = Leaving(current_effect(), {})
            try:
                if kind.endheaders is not http.client.HTTPConnection.endheaders:  # HTTP/2 writes in another way
                    self._leaves.mark()
                super().request(*args, **words)
            finally:
                self._leaves = None

        def _tunnel(self) -> None:
            self._is_tunnelling = True
            try:
                super()._tunnel()
            finally:
                self._is_tunnelling = False

        def send(self, data: Any) -> None:
            if self.sock is None and self.auto_open:
                self.connect()
            if not self._is_tunnelling:  # a CONNECT reaches the proxy only
                (self._leaves or Leaving(current_effect(), {})).mark()
            super().send(data)

    return Marking


def _refuse_other_adapters(kind: Any) -> None:
    """Let sessions with an adapter of ours refuse a request that another one of theirs would send.

    A subclass of ours may send by itself, so its request counts as sent before it is asked.
    """
    choose = kind.get_adapter

    @wraps(choose)
    def get_adapter(self: requests.Session, url: str) -> Any:
        chosen = choose(self, url)
        is_ours = any(isinstance(one, IdempotencyAdapter) for one in self.adapters.values())
        if is_ours and not isinstance(chosen, IdempotencyAdapter):
            prefix = next(one for one, adapter in self.adapters.items() if adapter is chosen)
            refuse_past(
                f"another adapter of this session is mounted at {prefix!r}",
                f"session.mount({prefix!r}, IdempotencyAdapter()) first",
            )
        if isinstance(chosen, IdempotencyAdapter) and not _is(chosen.send, IdempotencyAdapter.send):
            _mark_now()
        return chosen

    kind.get_adapter = get_adapter


_refuse_other_adapters(requests.Session)
