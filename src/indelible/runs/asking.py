"""Asks a model as a tool is called: an answer is recorded, and what is no answer leaves the turn to be taken again."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from indelible.core.values.canonical import encode
from indelible.errors import BadCall, NothingHappened

if TYPE_CHECKING:
    from indelible.engine.running import RunningEffect


def hash_of_request(request: Mapping[str, Any]) -> bytes:
    """Return what tells a question that is asked again from another one."""
    try:
        said = encode(request, root="request")
    except BadCall:  # it cannot be recorded, and the turn will say so
        said = repr(request).encode("utf-8", "backslashreplace")
    return sha256(said).digest()


class Asking:
    """Is one turn of a model: says that nothing happened when there was no answer.

    What was asked is recorded with the answer, and is no argument of the call: a turn that was asked for before a crash
    and is asked for in other words after it has to be the same call.
    """

    def __init__(self, ask: Callable[[Mapping[str, Any]], Any], model: str, request: Mapping[str, Any]) -> None:
        self._ask = ask
        self._asked: dict[str, Any] = {"model": model, "request": dict(request)}
        self._error: Exception | None = None

    @property
    def handler(self) -> Callable[[RunningEffect], Any]:
        """Is what a ledger enters: a coroutine function where the model's own is one, so that it gets no thread."""
        return self._awaited if inspect.iscoroutinefunction(self._ask) else self._called

    def _called(self, effect: RunningEffect) -> Any:
        try:
            answer = self._ask(self._asked["request"])
        except Exception as error:
            raise self._nothing(error) from error
        return self._answered(answer) if inspect.isawaitable(answer) else {"answer": answer, **self._asked}

    async def _awaited(self, effect: RunningEffect) -> Any:
        return await self._answered(self._ask(self._asked["request"]))

    async def _answered(self, answer: Awaitable[Any]) -> dict[str, Any]:
        try:
            return {"answer": await answer, **self._asked}
        except Exception as error:
            raise self._nothing(error) from error

    def _nothing(self, error: Exception) -> NothingHappened:
        self._error = error
        return NothingHappened(f"the model gave no answer: {type(error).__qualname__}: {error}")

    @contextmanager
    def raising_own(self) -> Iterator[None]:
        """Lets whoever asked see what the model raised, and not our word for it."""
        try:
            yield
        except NothingHappened:
            if self._error is None:
                raise
            raise self._error from None
