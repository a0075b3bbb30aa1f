"""A Claude Code that is none: speaks the SDK's control protocol, and makes the calls of a script instead of a model's.

What it does with hooks and servers is what Claude Code 2.1.325 was seen to do; test_claude_code.py asks the real one.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, Transport, query

BuiltIn = Callable[[dict[str, Any]], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """Is one tool call of the script."""

    id: str
    tool: str
    args: Mapping[str, Any]


@dataclass(kw_only=True)
class Heard:
    """Is what the model of a script was told of its calls, and which call a hook deferred."""

    results: dict[str, Any] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    deferred: str | None = None


class Interrupted(Exception):
    """Is raised by a built-in tool of a script that somebody cuts short."""


class ScriptedClaude(Transport):
    """Makes calls one after the other: hooks first, then the tool, then hooks again."""

    def __init__(self, session: str, uses: Sequence[Use], built_in: Mapping[str, BuiltIn]) -> None:
        self._session, self._uses, self._built_in = session, uses, built_in
        self._out: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self._answers: dict[str, asyncio.Future[Any]] = {}
        self._hooks: dict[str, list[dict[str, Any]]] = {}
        self._numbers = iter(range(10_000))
        self._at_work: asyncio.Task[None] | None = None
        self.heard = Heard()

    async def connect(self) -> None:
        """Is there already."""

    async def close(self) -> None:
        if self._at_work is not None:
            self._at_work.cancel()

    def is_ready(self) -> bool:
        return True

    async def end_input(self) -> None:
        """Hears nothing more."""

    async def read_messages(self) -> AsyncIterator[dict[str, Any]]:
        while (message := await self._out.get()) is not None:
            yield message

    async def write(self, data: str) -> None:
        for line in data.splitlines():
            message = json.loads(line)
            if message["type"] == "control_response":
                response = message["response"]
                self._answers.pop(response["request_id"]).set_result(response)
            elif message["type"] == "control_request":
                self._hooks = message["request"].get("hooks") or {}
                told = {"hook_on_failure_supported": True, "hooks_applied": True}
                answer = {"subtype": "success", "request_id": message["request_id"], "response": told}
                self._out.put_nowait({"type": "control_response", "response": answer})
            elif message["type"] == "user":
                self._at_work = asyncio.create_task(self._work())

    async def _work(self) -> None:
        for use in self._uses:
            await self._use(use)
            if self.heard.deferred is not None:
                break
        result = {"type": "result", "subtype": "success", "duration_ms": 1, "duration_api_ms": 1, "is_error": False,
                  "num_turns": 1, "session_id": self._session, "result": "done"}  # fmt: skip
        self._out.put_nowait(result)
        self._out.put_nowait(None)

    async def _use(self, use: Use) -> None:
        said = [await self._hook(use, "PreToolUse", one) for one in self._matching(use, "PreToolUse")]
        decisions = {one.get("permissionDecision"): one for one in said}
        for refusal in ("deny", "ask"):
            if refusal in decisions:
                self.heard.errors[use.id] = decisions[refusal]["permissionDecisionReason"]
                return
        if "defer" in decisions:
            self.heard.deferred = use.id
            return
        updated = decisions.get("allow", {}).get("updatedInput")
        args = dict(use.args) if updated is None else updated
        event, told = await self._carried_out(use, args)
        for one in self._matching(use, event):
            await self._hook(use, event, one, told)

    async def _carried_out(self, use: Use, args: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        if use.tool in self._built_in:
            try:
                self.heard.results[use.id] = given = self._built_in[use.tool](args)
            except Exception as error:
                self.heard.errors[use.id] = str(error)
                cut = isinstance(error, Interrupted)
                return "PostToolUseFailure", {"error": str(error), "is_interrupt": cut}
            return "PostToolUse", {"tool_response": given}
        _, server, tool = use.tool.split("__")
        params = {"name": tool, "arguments": args, "_meta": {"claudecode/toolUseId": use.id}}
        shaken = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "script", "version": "1"}}
        await self._mcp(server, "initialize", shaken)
        await self._asked({"subtype": "mcp_message", "server_name": server,
                           "message": {"jsonrpc": "2.0", "method": "notifications/initialized"}})  # fmt: skip
        result = (await self._mcp(server, "tools/call", params))["result"]
        text = "".join(block["text"] for block in result["content"])
        (self.heard.errors if result.get("isError") else self.heard.results)[use.id] = text
        return "PostToolUse", {"tool_response": result["content"]}

    async def _mcp(self, server: str, method: str, params: dict[str, Any]) -> dict[str, Any]:
        message = {"jsonrpc": "2.0", "id": next(self._numbers), "method": method, "params": params}
        answer = await self._asked({"subtype": "mcp_message", "server_name": server, "message": message})
        response: dict[str, Any] = answer["response"]["mcp_response"]
        return response

    def _matching(self, use: Use, event: str) -> list[tuple[str, str | None]]:
        """Gives the hooks of an event for this tool, and what becomes of a failure of theirs."""
        return [
            (callback, group.get("onFailure"))
            for group in self._hooks.get(event, ())
            if re.fullmatch(group["matcher"] or ".*", use.tool)
            for callback in group["hookCallbackIds"]
        ]

    async def _hook(
        self, use: Use, event: str, hook: tuple[str, str | None], more: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        told = {"session_id": self._session, "hook_event_name": event, "tool_name": use.tool,
                "tool_input": dict(use.args), "tool_use_id": use.id, **(more or {})}  # fmt: skip
        asked = {"subtype": "hook_callback", "callback_id": hook[0], "input": told, "tool_use_id": use.id}
        answer = await self._asked(asked)
        if answer["subtype"] == "error" and hook[1] == "block":
            return {"permissionDecision": "deny", "permissionDecisionReason": f"hook failed: {answer['error']}"}
        output: dict[str, Any] = (answer.get("response") or {}).get("hookSpecificOutput") or {}
        return output

    async def _asked(self, request: dict[str, Any]) -> Any:
        request_id = f"ask-{next(self._numbers)}"
        self._answers[request_id] = asyncio.get_running_loop().create_future()
        self._out.put_nowait({"type": "control_request", "request_id": request_id, "request": request})
        return await self._answers[request_id]


async def play(
    options: ClaudeAgentOptions,
    *uses: Use,
    session: str = "session-1",
    built_in: Mapping[str, BuiltIn] | None = None,
) -> Heard:
    """Lets an agent with these options make these calls, and gives what its model heard."""
    claude = ScriptedClaude(session, uses, built_in or {})
    async for message in query(prompt="go", options=options, transport=claude):
        assert isinstance(message, ResultMessage), message
    return claude.heard
