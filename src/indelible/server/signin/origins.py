"""Whether a request comes from a page of ours: another site can make a browser send a cookie, and nothing of this."""

from __future__ import annotations

from hmac import compare_digest

from fastapi import Request

from indelible.core.people.person import Ticket
from indelible.errors import NotPermitted

CSRF_HEADER = "x-csrf-token"
LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_ONLY_READ = frozenset({"GET", "HEAD", "OPTIONS"})


def host_of(request: Request) -> str:
    """Gives the name under which we were asked, without its port; only hosts of ours get here."""
    host = request.headers.get("host", "").lower()
    return host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]


def is_private(request: Request) -> bool:
    """Does whoever asks speak TLS, with us or with a proxy of ours? Only on this machine it may be without."""
    return request.url.scheme == "https" or host_of(request) not in LOOPBACK_NAMES


def own_origin(request: Request) -> str:
    """Gives the origin of our pages, as the browser that asks sees it."""
    return f"{'https' if is_private(request) else 'http'}://{request.headers.get('host', '').lower()}"


def check_from_us(request: Request, *, is_needed: bool = True) -> None:
    """Raises `NotPermitted` for what a page of another origin sent.

    Browsers say where a request that changes something comes from; other programs need not, where nothing rests on it.
    """
    site = request.headers.get("sec-fetch-site")
    if site not in (None, "same-origin", "none"):
        raise NotPermitted("a page of another site sent this; use the pages of this server")
    if request.method in _ONLY_READ:
        return
    origin = request.headers.get("origin")
    if (is_needed or origin is not None) and (origin or "").lower() != own_origin(request):
        raise NotPermitted("Origin is not this server's: a session counts for its own pages only")


def check_session_request(request: Request, ticket: Ticket) -> None:
    """Raises `NotPermitted` unless a page of ours sent this along with its session's token."""
    check_from_us(request)
    if request.method in _ONLY_READ:
        return
    said = request.headers.get(CSRF_HEADER, "")
    if not compare_digest(said.encode(), ticket.csrf_token.encode()):
        raise NotPermitted("X-CSRF-Token is missing or not this session's; GET /v1/me gives it")
