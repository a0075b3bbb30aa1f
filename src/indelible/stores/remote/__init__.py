"""A ledger behind a server, asked over HTTP."""

from indelible.errors import Misconfigured

try:
    import httpx2  # noqa: F401
except ImportError as error:
    raise Misconfigured(
        f"a ledger behind a server needs httpx2, which cannot be imported ({error}); run: pip install 'indelible[http]'"
    ) from error

from indelible.stores.remote.store import RemoteStore

__all__ = ["RemoteStore"]
