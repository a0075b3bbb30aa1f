"""Makes the HTTP client that questions go through: TLS, proxies, connections, and how long anything may take."""

from __future__ import annotations

import ssl
import sys
from collections.abc import Sequence
from urllib.parse import urlsplit

import httpx2

from indelible.errors import Misconfigured
from indelible.stores.reach import Reach, is_this_machine

# As many threads as this ask at once; more wait for one another. Of these, all are kept for the next question.
MOST_CONNECTIONS = 128
# Less than servers keep a connection that nobody uses (uvicorn 5 s, proxies more): what they have closed is not used.
KEPT_SECONDS = 3.0
_CONNECT_SECONDS = 5.0


def make_client(servers: Sequence[str], headers: dict[str, str], reach: Reach) -> httpx2.Client:
    """Makes a client; it follows no redirect, for a token goes nowhere but where it was meant for."""
    here = {f"all://{urlsplit(server).netloc}": None for server in servers if _is_here(server)}
    try:
        return httpx2.Client(
            headers=headers,
            timeout=times(reach),
            limits=httpx2.Limits(
                max_connections=MOST_CONNECTIONS,
                max_keepalive_connections=MOST_CONNECTIONS,
                keepalive_expiry=KEPT_SECONDS,
            ),
            verify=_trusting(reach.trusted),
            proxy=reach.proxy,
            mounts=here if reach.proxy is None else None,
            follow_redirects=False,
            event_hooks={"request": [_name_trace]},
        )
    except (ValueError, ImportError, httpx2.InvalidURL) as problem:
        raise Misconfigured(f"the proxy cannot be used: {problem}; see proxy= and $HTTPS_PROXY") from None


def _name_trace(request: httpx2.Request) -> None:
    """Lets a server's spans belong to those of the caller, where the program uses OpenTelemetry."""
    inject = getattr(sys.modules.get("opentelemetry.propagate"), "inject", None)
    if inject is not None:
        inject(request.headers)


def times(reach: Reach, more: float = 0.0) -> httpx2.Timeout:
    """Gives how long the parts of a request may take; `more` is what the answer is known to take."""
    seconds = reach.patience.total_seconds()
    return httpx2.Timeout(seconds, connect=min(seconds, _CONNECT_SECONDS), read=seconds + more)


def _is_here(server: str) -> bool:
    return is_this_machine(urlsplit(server).hostname or "")


def _trusting(ca: str | None) -> ssl.SSLContext | bool:
    """Gives whom to trust: the system's certificates, or those of a file and no others."""
    if ca is None:
        return True
    try:
        return ssl.create_default_context(cafile=ca)
    except (OSError, ssl.SSLError) as problem:
        raise Misconfigured(f"{ca} holds no certificates to trust: {problem}; see ca= and $INDELIBLE_CA") from None
