"""Your program's own ledger, with its tools: named on the command line as MODULE:NAME."""

from __future__ import annotations

import importlib
import inspect
import sys
from pathlib import Path
from typing import Any

from indelible import AsyncLedger, Ledger
from indelible.errors import BadCall


def ledger_of(named: str) -> Ledger | AsyncLedger:
    """Import a ledger with its tools; modules are found in the current folder too.

    Args:
        named: MODULE:NAME, where NAME is a ledger, or a function without parameters that returns one.

    Returns:
        The ledger.

    Raises:
        BadCall: There is no such module or ledger.
    """
    module, _, name = named.partition(":")
    if not module or not name:
        raise BadCall(f"{named!r}: name a module and the ledger in it, as in shop.tools:ledger")
    sys.path.insert(0, str(Path.cwd()))
    try:
        found: Any = getattr(importlib.import_module(module), name, None)
    except ImportError as problem:
        raise BadCall(f"{module} cannot be imported here: {problem}") from problem
    if inspect.isroutine(found) and not _needed_by(found):
        found = found()
    if not isinstance(found, Ledger | AsyncLedger):
        raise BadCall(f"{named} is no ledger but {type(found).__name__}; name the one that knows your tools")
    return found


def _needed_by(function: Any) -> list[str]:
    """Name the parameters that a function cannot be called without."""
    try:
        known = inspect.signature(function).parameters.values()
    except ValueError:  # some built-in functions do not say
        return ["unknown"]
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [one.name for one in known if one.default is one.empty and one.kind not in optional]
