"""Google ADK everywhere: every runner that is made from now on."""

from __future__ import annotations

import functools
import weakref
from typing import Any

from google.adk.plugins.plugin_manager import PluginManager
from google.adk.runners import Runner

from indelible.integrations.adk import NAME, LedgerPlugin
from indelible.integrations.everywhere.reach import Around, Undo, replaced, run_here


def reach(around: Around) -> Undo:
    """Gives every new runner a plugin more, as `App(…, plugins=[…])` does."""
    own = LedgerPlugin(around.ledger, run=_run_of, terms=around.terms, **around.usual)
    made: weakref.WeakSet[PluginManager] = weakref.WeakSet()
    make = Runner.__init__

    @functools.wraps(make)
    def init(self: Runner, *args: Any, **words: Any) -> None:
        make(self, *args, **words)
        if self.plugin_manager.get_plugin(NAME) is None:
            self.plugin_manager.register_plugin(own)
            made.add(self.plugin_manager)

    restore = replaced(Runner, "__init__", init, takes=("self", "app", "app_name", "agent"))

    def undo() -> None:
        for manager in made:
            manager.plugins.remove(own)
        restore()

    return undo


def _run_of(context: Any) -> str:
    return run_here(str(context.session.id), advice="…")
