"""How a server is reached: whom to trust, which way to go, how long to wait."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import timedelta
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from indelible.errors import Misconfigured

PATIENCE = timedelta(seconds=10)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """Says how a server is reached; what is left away comes from the environment.

    `ca` is a file with the certificates to trust instead of the system's ($INDELIBLE_CA). `proxy` is the address of one
    (else $HTTPS_PROXY, $HTTP_PROXY and $NO_PROXY, but never to this machine itself). `patience` is how long a server
    may take to answer, and how long a question is asked again while none does. Without TLS only this machine is asked,
    unless `allow_http` ($INDELIBLE_ALLOW_HTTP=1) says that nobody listens on the way.
    """

    ca: str | Path | None = None
    proxy: str | None = None
    patience: timedelta = PATIENCE
    allow_http: bool = False

    @property
    def trusted(self) -> str | None:
        """Names the file of certificates to trust; None for those of the system."""
        return str(self.ca) if self.ca is not None else os.environ.get("INDELIBLE_CA") or None

    @property
    def may_be_overheard(self) -> bool:
        """May a token go to another machine without TLS?"""
        return self.allow_http or os.environ.get("INDELIBLE_ALLOW_HTTP") == "1"

    def servers(self, url: str) -> list[str]:
        """Gives the servers that an address names; raises `Misconfigured` when a token must not be sent there."""
        if self.patience <= timedelta(0):
            raise Misconfigured(f"patience={self.patience}: give it more than no time")
        return [self._checked(each.strip().rstrip("/")) for each in url.split(",")]

    def _checked(self, server: str) -> str:
        try:
            parts = urlsplit(server)
            is_whole = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            raise Misconfigured(f"{server!r} is no address; say https://HOST or https://HOST:PORT") from None
        if parts.username is not None or parts.password is not None:
            raise Misconfigured("the address holds a name or a password; give the token as token= or $INDELIBLE_TOKEN")
        if not is_whole or parts.query or parts.fragment:
            raise Misconfigured(f"{server!r} is no address of a server; say https://HOST or https://HOST:PORT")
        if parts.scheme == "http" and not is_this_machine(parts.hostname or "") and not self.may_be_overheard:
            raise Misconfigured(
                f"{server}: others could read the token on its way there. Say https://, or allow_http=True "
                "(INDELIBLE_ALLOW_HTTP=1) where nobody listens"
            )
        return server


def is_this_machine(host: str) -> bool:
    """Is this a name or an address of the machine we are on?"""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
