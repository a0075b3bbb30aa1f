"""Tools that run at the server: an agent names one and gives arguments; the server judges, asks, runs once, records.

The agent holds no secret of the outside world, so it cannot go round the ledger.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Annotated, Any

import httpx2
from pydantic import Field

from indelible.aio import AsyncLedger
from indelible.core.effects import walk
from indelible.core.effects.effect import Actor
from indelible.core.effects.identity import Ref
from indelible.core.remote.admissible import check_arguments
from indelible.core.remote.admitting import Caller
from indelible.engine.running import RunningEffect, in_own_thread
from indelible.engine.tracing import trace_headers
from indelible.errors import (
    BadCall,
    EffectFailed,
    EffectInDoubt,
    IndelibleError,
    MayHaveHappened,
    NothingHappened,
    NotPermitted,
    ToolUnavailable,
)
from indelible.server.gateway_tools import GatewayTool
from indelible.server.shapes.effects import Name, Sent, plain
from indelible.server.speaking import CallersMint

LONGEST_WAIT = 60.0
MOST_ANSWER_BYTES = 1024 * 1024
_COME_LATER = 429
_NOBODY_KNOWS = (408, 409, 425)


class CallAsked(Sent):
    """Asks for one call of a tool that the server runs."""

    args: Annotated[dict[str, Any], Field(default_factory=dict)]
    run_id: Name = "default"
    call_id: Name | None = None
    wait_s: Annotated[float, Field(ge=0, le=LONGEST_WAIT, allow_inf_nan=False)] = 30.0


class ToolRefused(Exception):
    """The tool said no, and did nothing."""


class Gateway:
    """Runs the tools that a file names; none by default."""

    def __init__(self, tools: Mapping[str, GatewayTool] | None = None) -> None:
        self.tools = dict(tools or {})
        self._client: httpx2.AsyncClient | None = None
        self._running: set[asyncio.Task[Any]] = set()

    def hand_probes_to(self, ledger: AsyncLedger) -> None:
        """Let a ledger ask the probes of these tools about effects in doubt."""
        probes = {name: tool.words.get("reconcile") for name, tool in self.tools.items()}
        ledger._probes = {name: probe for name, probe in probes.items() if probe is not None}

    def find(self, name: str) -> GatewayTool:
        """Finds a tool; raises `BadCall` for one that does not run here."""
        tool = self.tools.get(name)
        if tool is None:
            raise BadCall(f"{name}: no tool of this name runs at the server; see: GET /v1/tools")
        return tool

    def check_not_ours(self, name: str) -> None:
        """Refuses a claim of a tool that only the server runs: a client's word about it would be a false record."""
        if name in self.tools:
            raise NotPermitted(f"{name} runs at the server; ask for it with: POST /v1/tools/{name}/calls")

    def check_may_tell(self, name: str, caller: Caller) -> None:
        """Refuses an agent's word about what a tool of the server's did: it saw nothing, and may want it again."""
        if name in self.tools and not caller.scopes & {"approver", "admin"}:
            raise NotPermitted(f"{name} runs at the server; what became of it is for a person to say: scope approver")

    async def run(self, ledger: AsyncLedger, caller: Caller, actor: Actor, tool: GatewayTool, asked: CallAsked) -> Any:
        """Runs a call at most once and gives its recorded value; who no longer waits does not stop it."""
        call = await in_own_thread(tool.call, asked.args, asked.run_id, asked.call_id)
        prepared = ledger._prepare(call, {**tool.words, "wait": timedelta(seconds=asked.wait_s)})
        check_arguments(prepared.identity.args_json, None)
        prepared = replace(prepared, actor=actor, principal=caller.principal or prepared.principal)
        walking = walk.run(prepared, CallersMint(ledger._mint, actor))
        task = asyncio.create_task(ledger._engine.drive_async(walking, lambda effect: self._enter(tool, effect)))
        self._running.add(task)
        task.add_done_callback(self._done)
        try:
            return await asyncio.shield(task)
        except IndelibleError:
            raise
        except Exception as error:  # the tool's own: how the effect stands now says what it means
            raise await _meaning(ledger, prepared.identity.ref, tool, error) from error

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # whoever waited was told; whoever went is not

    def check_edit(self, name: str, args: Mapping[str, Any]) -> None:
        """Raises `BadCall` for an edit that a tool of the server's does not take."""
        if name in self.tools:
            self.tools[name].check(args)

    async def _enter(self, tool: GatewayTool, effect: RunningEffect) -> Any:
        assert effect.effect.args_json is not None, "what is entered has its arguments"
        args = plain(effect.effect.args_json)
        try:
            # Once more: somebody may have edited what was asked about, here or at the database.
            await in_own_thread(tool.check, args)
        except BadCall as problem:
            raise ToolRefused(str(problem)) from None
        if tool.function is not None:
            return await _called(tool.function, effect.args)
        return await self._posted(tool, effect, json.dumps(args).encode())

    async def _posted(self, tool: GatewayTool, effect: RunningEffect, body: bytes) -> Any:
        """Sends the recorded arguments to the tool, with the key and the fence by which it can tell repeats."""
        if self._client is None:
            self._client = httpx2.AsyncClient(follow_redirects=False, trust_env=False)
        headers = {
            **tool.headers,
            "Content-Type": "application/json",
            **trace_headers(),
            "Idempotency-Key": effect.key,
            "Indelible-Effect": effect.id,
            "Indelible-Fence": str(effect.fence),
        }
        try:
            async with asyncio.timeout(tool.timeout.total_seconds()):  # all of it, however slowly the tool speaks
                status, content = await self._asked(tool, headers, body)
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as problem:
            raise NothingHappened(f"{tool.name} cannot be reached: {type(problem).__name__}") from problem
        except (httpx2.RequestError, TimeoutError) as problem:
            raise MayHaveHappened(f"{tool.name} did not answer: {type(problem).__name__}") from problem
        return _outcome(tool.name, status, content)

    async def _asked(self, tool: GatewayTool, headers: Mapping[str, str], body: bytes) -> tuple[int, bytes]:
        """Gives the tool's answer, no more of it than is allowed and one byte, by which too much is seen."""
        assert tool.url is not None
        assert self._client is not None
        seconds, content = tool.timeout.total_seconds(), b""
        async with self._client.stream("POST", tool.url, content=body, headers=headers, timeout=seconds) as response:
            async for part in response.aiter_bytes():
                content += part[: MOST_ANSWER_BYTES + 1 - len(content)]
                if len(content) > MOST_ANSWER_BYTES:
                    break
        return response.status_code, content

    async def close(self) -> None:
        """Lets what runs come to its end, then closes the connections."""
        if self._running:
            await asyncio.wait(self._running)
        if self._client is not None:
            await self._client.aclose()
            self._client = None


async def _meaning(ledger: AsyncLedger, ref: Ref, tool: GatewayTool, error: Exception) -> IndelibleError:
    """Gives what an exception of a tool means for who asked: it failed, it may have happened, or nothing did."""
    effect = (await in_own_thread(ledger._engine.store.look, [ref])).effects[0]
    said = str(error) or type(error).__name__
    if effect is not None and effect.status == "failed":
        return EffectFailed(f"{tool.name}: {said}", effect=effect, error_type=type(error).__name__)
    if effect is not None and effect.status == "in_doubt":
        message = f"{tool.name}: {effect.id} may have happened ({said}); a person settles it: indelible effects show"
        return EffectInDoubt(message, effect=effect)
    return ToolUnavailable(f"{tool.name}: nothing happened ({said}); call again later", effect=effect)


async def _called(function: Any, args: Mapping[str, Any]) -> Any:
    if inspect.iscoroutinefunction(function):
        return await function(**args)
    value = await in_own_thread(lambda: function(**args))
    return await value if inspect.isawaitable(value) else value


def _outcome(name: str, status: int, content: bytes) -> Any:
    """Takes an answer for what it says: done, refused, or not known. One that sends us elsewhere says neither."""
    if status == _COME_LATER:
        raise NothingHappened(f"{name} asks to come later")
    if status >= 500 or 300 <= status < 400 or status in _NOBODY_KNOWS:
        raise MayHaveHappened(f"{name} answered with status {status}")
    if status >= 400:
        raise ToolRefused(f"status {status}: {content.decode('utf-8', 'replace')[:2000]}")
    if len(content) > MOST_ANSWER_BYTES:
        raise MayHaveHappened(f"{name} did it, and its answer has more than {MOST_ANSWER_BYTES} bytes")
    try:
        return json.loads(content) if content else None
    except (ValueError, RecursionError):  # what it did is done, however it says so
        return content.decode("utf-8", "replace")
