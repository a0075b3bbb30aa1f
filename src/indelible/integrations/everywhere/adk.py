"""Google ADK everywhere: every runner, whenever it was made, those that tools make for agents inside too."""

from __future__ import annotations

import functools
import weakref
from typing import Any

from google.adk.plugins.plugin_manager import PluginManager
from google.adk.runners import Runner

from indelible.integrations.adk import LedgerPlugin, run_of
from indelible.integrations.adk_pauses import NAME
from indelible.integrations.adk_ways import WatchingPlugin, note_node
from indelible.integrations.everywhere.reach import Around, Undo, all_replaced, replaced, run_here


def reach(around: Around) -> Undo:
    """Give every runner a plugin more when it runs, as `App(…, plugins=[…])` does, before all others.

    A runner that has a plugin of ours gets one that only watches.
    """
    watching = WatchingPlugin(around.watch)
    own = _Everywhere(around.ledger, run=_run_of, terms=around.terms, watch=around.watch, **around.usual)
    made: weakref.WeakSet[PluginManager] = weakref.WeakSet()
    run, live = Runner.run_async, Runner.run_live

    def give(runner: Runner) -> None:
        manager = runner.plugin_manager
        note_node(around.watch, runner.agent)
        if own not in manager.plugins and watching not in manager.plugins:
            manager.plugins.insert(0, own if manager.get_plugin(NAME) is None else watching)
            made.add(manager)

    @functools.wraps(run)
    def run_async(self: Runner, **words: Any) -> Any:
        give(self)
        return run(self, **words)

    @functools.wraps(live)
    def run_live(self: Runner, **words: Any) -> Any:
        give(self)
        return live(self, **words)

    restore = all_replaced(
        lambda: replaced(Runner, "run_async", run_async, takes=("self", "user_id", "session_id")),
        lambda: replaced(Runner, "run_live", run_live, takes=("self", "user_id", "session_id")),
    )

    def undo() -> None:
        for manager in made:
            manager.plugins[:] = [one for one in manager.plugins if one not in (own, watching)]
        restore()

    return undo


class _Everywhere(LedgerPlugin):
    """Is in every runner, those of agents inside of tools too."""

    guards_every_runner = True


def _run_of(context: Any) -> str:
    return run_here(run_of(context.session), advice="…")
