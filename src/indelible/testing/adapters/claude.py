"""Claude Agent SDK's rig: Claude Code itself, as the SDK brings it, with a scripted model and its saved sessions."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import claude_agent_sdk
from claude_agent_sdk import (
    ClaudeAgentOptions,
    HookMatcher,
    ResultMessage,
    ToolResultBlock,
    UserMessage,
    create_sdk_mcp_server,
    query,
    tool,
)

from indelible import Ledger
from indelible.integrations.claude_agent import LedgerHooks
from indelible.integrations.claude_words import decided
from indelible.testing.adapters.rig import Rig, Standing
from indelible.testing.adapters.scene import Scene
from indelible.testing.claude_model import scripted_model, text, use

_TOOL = "mcp__till__charge"
_WAITS = "may have happened"
_REFUSED = ("nothing was run now with", "hook error")
# A process that is killed takes Claude Code with it, as a machine that stops does.
_TOGETHER = """#!{python}
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
os.execv({claude!r}, [{claude!r}, *sys.argv[1:]])
"""


class ClaudeRig:
    """Begins and resumes a session that charges; its home is the folder of saved state."""

    def begin(self, scene: Scene, ledger: Ledger | None) -> Standing:
        """Runs the agent from the start."""
        for folder in ("home", "work"):
            (scene.state / folder).mkdir()
        starter = scene.state / "claude"
        starter.write_text(_TOGETHER.format(python=sys.executable, claude=str(_bundled())))
        starter.chmod(0o700)
        return asyncio.run(_played(scene, ledger, None))

    def resume(self, scene: Scene, ledger: Ledger | None) -> Standing:
        """Resumes the session."""
        return asyncio.run(_played(scene, ledger, (scene.state / "session").read_text()))

    def tamper(self, scene: Scene) -> None:
        """Writes other arguments into the session's transcript, wherever a call is in it."""
        by_id = {call.call_id: {"order": call.order, "amount": call.amount} for call in scene.calls}
        for file in (scene.state / "home").rglob("*.jsonl"):
            lines = [json.loads(line) for line in file.read_text().splitlines()]
            file.write_text("".join(f"{json.dumps(_changed(line, by_id))}\n" for line in lines))


RIG: Rig = ClaudeRig()


async def _played(scene: Scene, ledger: Ledger | None, session: str | None) -> Standing:
    told: list[str] = []
    deferred: list[str] = []
    with scripted_model(lambda heard: _says(scene, heard)) as model:
        async with _tools_of(scene, ledger) as words:
            options = ClaudeAgentOptions(
                cli_path=scene.state / "claude",
                cwd=scene.state / "work",
                env={**model, "HOME": str(scene.state / "home")},
                resume=session,
                setting_sources=[],
                allowed_tools=[_TOOL],
                **words,
            )
            async for message in query(prompt="charge what is due", options=options):
                if isinstance(message, UserMessage) and isinstance(message.content, list):
                    told += [str(one.content) for one in message.content if isinstance(one, ToolResultBlock)]
                if isinstance(message, ResultMessage):
                    (scene.state / "session").write_text(message.session_id)
                    deferred += [] if message.deferred_tool_use is None else [message.deferred_tool_use.id]
    refused = [one for one in told if any(said in one for said in _REFUSED)]
    if refused:
        return Standing(state="refused", why=refused[0])
    is_paused = bool(deferred) or any(_WAITS in one for one in told)
    return Standing(state="paused" if is_paused else "done", waits_for=deferred)


def _says(scene: Scene, heard: Mapping[str, str]) -> Sequence[Mapping[str, Any]]:
    """Makes those of the scene's calls of which it has not heard yet."""
    left = [call for call in scene.calls if call.call_id not in heard]
    return [use(call.call_id, _TOOL, {"order": call.order, "amount": call.amount}) for call in left] or [text("done")]


@asynccontextmanager
async def _tools_of(scene: Scene, ledger: Ledger | None) -> AsyncIterator[dict[str, Any]]:
    async def charging(args: dict[str, Any]) -> dict[str, Any]:
        said = await asyncio.to_thread(scene.charge, **args)
        return {"content": [{"type": "text", "text": said}]}

    async def asks(event: Any, call_id: str | None, context: Any) -> Any:
        """Is the SDK's own way: what nobody has answered is deferred, and the session ends."""
        answer = scene.allowed.get(event["tool_use_id"])
        if answer is None and scene.asks:
            return decided("defer", "a person has to decide")
        return decided("deny", "no") if answer is False else {}

    charge = tool("charge", "Charges an order.", {"order": str, "amount": int})(charging)
    if ledger is None:
        till = create_sdk_mcp_server("till", tools=[charge])
        hooks: Any = {"PreToolUse": [HookMatcher(matcher=_TOOL, hooks=[asks])]}
        yield {"mcp_servers": {"till": till}, "hooks": hooks}
        return
    async with LedgerHooks(ledger, run="order-123", terms={"charge": scene.terms}) as gate:
        yield {"mcp_servers": {"till": gate.server("till", [charge])}, "hooks": gate.hooks()}


def _bundled() -> Path:
    return Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude"


def _changed(value: Any, by_id: Mapping[str, Mapping[str, Any]]) -> Any:
    if isinstance(value, list):
        return [_changed(part, by_id) for part in value]
    if not isinstance(value, dict):
        return value
    changed = {name: _changed(part, by_id) for name, part in value.items()}
    for name in ("id", "toolUseID", "tool_use_id"):
        if value.get(name) in by_id and isinstance(value.get("input"), dict):
            changed["input"] = dict(by_id[value[name]])
    return changed
