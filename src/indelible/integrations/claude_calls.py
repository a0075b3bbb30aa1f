"""Which call a tool in a server of the Claude Agent SDK is entered for: the SDK hands over its arguments alone."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

_CALL_ID = "claudecode/toolUseId"


class CallIds:
    """Knows, inside a tool, the id that the model gave the call; Claude Code sends it beside the arguments."""

    def __init__(self) -> None:
        self._noted: ContextVar[str | None] = ContextVar("indelible_call_id", default=None)
        self._server: Any = None

    def read_from(self, server: Any) -> None:
        """Reads the ids of this server's calls: with mcp 2 on their way in, with mcp 1 where it keeps the request."""
        self._server = server
        if hasattr(server, "middleware"):
            server.middleware.append(self._noting)

    async def _noting(self, context: Any, call_next: Any) -> Any:
        meta = (context.params or {}).get("_meta")
        noted = self._noted.set(_id_in(meta if isinstance(meta, Mapping) else {}))
        try:
            return await call_next(context)
        finally:
            self._noted.reset(noted)

    def current(self) -> str | None:
        """Gives the id of the call that is being carried out; None when nobody said it."""
        if hasattr(self._server, "middleware"):
            return self._noted.get()
        meta = self._server.request_context.meta
        return _id_in({} if meta is None else meta.model_extra or {})


def _id_in(meta: Mapping[str, Any]) -> str | None:
    found = meta.get(_CALL_ID)
    return found if isinstance(found, str) and found else None
