"""What every reach into a framework needs: whose run it is, whether a call is guarded already, and the way back."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from indelible import AsyncLedger, IndelibleError, Ledger, RunningEffect, current_effect, current_run
from indelible.errors import NoRun
from indelible.integrations.entries import is_entered_for
from indelible.integrations.ways import Watch

Undo = Callable[[], None]
_inside: ContextVar[str | None] = ContextVar("indelible_inside", default=None)


@dataclass(frozen=True, slots=True)
class Around:
    """What is put around a framework: a ledger, and how tools are treated, in the words of `@ledger.tool`.

    `watch` notes what runs without the ledger.
    """

    ledger: Ledger | AsyncLedger
    terms: Mapping[str, Mapping[str, Any]] | None
    usual: Mapping[str, Any]
    watch: Watch = field(default_factory=Watch)


class NotAsKnown(IndelibleError):
    """A framework is not built as the reach into it was written for; nothing was changed."""


def run_here(framework_id: str | None, *, advice: str) -> str:
    """Names the run that a call belongs to: the one around it, else the framework's own stable id."""
    found = current_run() or framework_id
    if not found:
        raise NoRun(f"no run is known here, so a repeat could not be told; write: with ledger.in_run('…'): {advice}")
    return found


def running_here() -> RunningEffect | None:
    """Return the effect whose handler runs here; a task that outlives its handler belongs to no effect."""
    running = current_effect()
    return None if running is None or running.is_over else running


def is_behind(tool: str, call_id: str | None, adapter: type) -> bool:
    """Is this very call being carried out by the ledger already? Then an adapter stands around it.

    A call inside the tool is another one, even if its tool has the same name and its model counted to the same id.

    Args:
        tool: The tool's name.
        call_id: The id that the model gave the call.
        adapter: The framework's adapter: its framework passes the call on. What others entered is another call.
    """
    running = _around_tool()
    return running is not None and running.tool == tool and is_entered_for(running, call_id, adapter.__module__)


def is_behind_tool(tool: str) -> bool:
    """Is a call of this tool being carried out, and not yet inside the tool? For turns of models, which have no id."""
    running = _around_tool()
    return running is not None and running.tool == tool


def _around_tool() -> RunningEffect | None:
    running = running_here()
    return None if running is None or running.id == _inside.get() else running


@contextmanager
def inside_tool() -> Iterator[None]:
    """Enter a tool: what is called until its end is inside of it."""
    running = current_effect()
    token = _inside.set(None if running is None else running.id)
    try:
        yield
    finally:
        _inside.reset(token)


def all_replaced(*undos: Callable[[], Undo]) -> Undo:
    """Make several replacements, all or none; return the way back from all of them."""
    made: list[Undo] = []

    def undo() -> None:
        while made:
            made.pop()()

    try:
        for make in undos:
            made += [make()]
    except Exception:
        undo()
        raise
    return undo


def replaced(owner: type | ModuleType, name: str, replacement: Callable[..., Any], *, takes: Sequence[str]) -> Undo:
    """Put a function in the place of a method or a function that takes these parameters; return the way back.

    One of other parameters is not the one that we know, and stays as it is.
    """
    original = vars(owner).get(name)
    known = [] if original is None else list(inspect.signature(original).parameters)
    if known[: len(takes)] != list(takes):
        raise NotAsKnown(f"{_path_of(owner)}.{name} is not as known: {', '.join(known) or 'gone'}")
    setattr(owner, name, replacement)

    def undo() -> None:
        if vars(owner).get(name) is replacement:  # else somebody came after us, and would be undone instead
            setattr(owner, name, original)

    return undo


def _path_of(owner: type | ModuleType) -> str:
    return owner.__name__ if isinstance(owner, ModuleType) else f"{owner.__module__}.{owner.__qualname__}"
