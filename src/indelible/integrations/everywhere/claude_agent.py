"""Claude Agent SDK everywhere: every session that is begun from now on, by one more hook for all of its tools.

What Claude Code runs beside tools is noted before it runs: commands in slash commands and skills, hooks, plugins.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import AsyncIterator, Iterator
from typing import Any, cast
from weakref import WeakKeyDictionary

from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, HookMatcher
from claude_agent_sdk._internal.client import InternalClient

from indelible import current_run
from indelible.errors import BadCall
from indelible.integrations.claude_agent import LedgerHooks
from indelible.integrations.claude_words import ONLY_READ, SKILL, decided
from indelible.integrations.everywhere.reach import Around, Undo, all_replaced, replaced
from indelible.integrations.ways import Watch

_NAME = "Claude Agent SDK"
_SETTINGS = frozenset({"settings", "setting-sources"})


def reach(around: Around) -> Undo:
    """Give every session hooks more, as `ClaudeAgentOptions(hooks=…)` does."""
    process = InternalClient.process_query
    connect, disconnect, ask = ClaudeSDKClient.connect, ClaudeSDKClient.disconnect, ClaudeSDKClient.query
    joined: WeakKeyDictionary[ClaudeSDKClient, tuple[_Everywhere, ClaudeAgentOptions]] = WeakKeyDictionary()

    @functools.wraps(process)
    async def processed(
        self: InternalClient, prompt: Any, options: ClaudeAgentOptions, transport: Any = None
    ) -> AsyncIterator[Any]:
        gate = _Everywhere(around, options)
        async with gate:
            inner = process(self, prompt, gate.joined(options), transport)
            try:
                async for message in inner:
                    yield message
            finally:
                await cast("Any", inner).aclose()

    @functools.wraps(connect)
    async def connected(self: ClaudeSDKClient, prompt: Any = None) -> None:
        gate = _Everywhere(around, self.options)
        joined[self] = gate, self.options
        self.options = gate.joined(self.options)
        await connect(self, prompt)

    @functools.wraps(disconnect)
    async def disconnected(self: ClaudeSDKClient) -> None:
        try:
            await disconnect(self)
        finally:
            gate, options = joined.pop(self, (None, self.options))
            self.options = options
            if gate is not None:
                await gate.close()

    @functools.wraps(ask)
    async def asked(self: ClaudeSDKClient, prompt: Any, session_id: str = "default") -> None:
        if self not in joined:
            around.watch.note(_NAME, "clients connected before", [type(self).__name__])
        await ask(self, prompt, session_id)

    return all_replaced(
        lambda: replaced(InternalClient, "process_query", processed, takes=("self", "prompt", "options")),
        lambda: replaced(ClaudeSDKClient, "connect", connected, takes=("self", "prompt")),
        lambda: replaced(ClaudeSDKClient, "disconnect", disconnected, takes=("self",)),
        lambda: replaced(ClaudeSDKClient, "query", asked, takes=("self", "prompt", "session_id")),
    )


class _Everywhere(LedgerHooks):
    """Guards the tools of one session, except those that an adapter of ours guards already.

    Raises:
        BadCall: In strict mode, the options bring what would run without the ledger.
    """

    def __init__(self, around: Around, options: ClaudeAgentOptions) -> None:
        super().__init__(around.ledger, run=current_run(), terms=around.terms, **around.usual)
        self._watch = around.watch
        self._guarded = [one.matcher or ".*" for one in _matchers(options, "PreToolUse") if _is_ours(one)]
        _note_options(around.watch, options)

    def joined(self, options: ClaudeAgentOptions) -> ClaudeAgentOptions:
        """Return the options with our hooks beside those that are there."""
        own = {**self.hooks(".*"), "UserPromptExpansion": [HookMatcher(hooks=[cast("Any", self._expanded)])]}
        theirs: Any = options.hooks or {}
        both = {event: [*theirs.get(event, ()), *own.get(event, ())] for event in (*theirs, *own)}
        return dataclasses.replace(options, hooks=cast("Any", both))

    async def _before(self, event: Any, use: str | None, context: Any) -> dict[str, Any]:
        tool = event["tool_name"]
        if tool == SKILL:  # also where an adapter of ours guards it: what runs is not the call alone
            try:
                self._watch.note(_NAME, "skills", [str(event["tool_input"].get("skill"))])
            except BadCall as refused:
                return decided("deny", str(refused))
        if tool in ONLY_READ or any(re.fullmatch(pattern, tool) for pattern in self._guarded):
            return {}
        return await super()._before(event, use, context)

    async def _expanded(self, event: Any, use: str | None, context: Any) -> dict[str, Any]:
        """Note a slash command, whose text may run commands before any hook hears of it."""
        try:
            self._watch.note(_NAME, "slash commands", [str(event["command_name"])])
        except BadCall as refused:
            return {"decision": "block", "reason": f"Indelible: {refused}"}
        return {}


def _note_options(watch: Watch, options: ClaudeAgentOptions) -> None:
    found = [hook for event in options.hooks or {} for one in _matchers(options, event) for hook in one.hooks]
    names = [str(getattr(hook, "__qualname__", type(hook).__qualname__)) for hook in found if not _is_own(hook)]
    watch.note(_NAME, "hooks of others", names)
    sources = ["user", "project", "local"] if options.setting_sources is None else list(options.setting_sources)
    named = [*sources, *(["settings"] if options.settings else []), *(_SETTINGS & options.extra_args.keys())]
    watch.note(_NAME, "settings files", named)
    plugins = [str(plugin["path"]) for plugin in options.plugins]
    watch.note(_NAME, "plugins", [*plugins, *({"plugin-dir"} & options.extra_args.keys())])


def _matchers(options: ClaudeAgentOptions, event: Any) -> Iterator[HookMatcher]:
    yield from (options.hooks or {}).get(event, ())


def _is_ours(matcher: HookMatcher) -> bool:
    return any(_is_own(hook) for hook in matcher.hooks)


def _is_own(hook: Any) -> bool:
    return isinstance(getattr(hook, "__self__", None), LedgerHooks)
