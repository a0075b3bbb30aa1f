"""A ledger behind a server, asked over HTTP."""

from indelible.stores.remote.store import RemoteStore

__all__ = ["RemoteStore"]
