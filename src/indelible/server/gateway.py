"""Tools that run at the server: an agent names one and gives arguments; the server judges, asks, runs once, records.

The agent holds no secret of the outside world, so it cannot go round the ledger.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Annotated, Any, Literal, NamedTuple

import httpx2
from pydantic import Field

from indelible.aio import AsyncLedger
from indelible.core.effects import walk
from indelible.core.effects.calls import COMPENSATION
from indelible.core.effects.effect import Actor, Effect
from indelible.core.effects.meaning import fate_of
from indelible.core.remote.admissible import check_arguments
from indelible.core.remote.admitting import Caller
from indelible.core.remote.shown import plain
from indelible.core.values.canonical import encode
from indelible.engine.running import RunningEffect, in_own_thread
from indelible.engine.tracing import trace_headers
from indelible.errors import (
    BadCall,
    EffectFailed,
    EffectInDoubt,
    IndelibleError,
    MayHaveHappened,
    NotAuthenticated,
    NothingHappened,
    NotPermitted,
    Refused,
    StoreError,
    ToolUnavailable,
)
from indelible.server.gateway_tools import GatewayTool
from indelible.server.shapes.effects import Name, Sent
from indelible.server.speaking import CallersMint

LONGEST_WAIT = 60.0
MOST_ANSWER_BYTES = 1024 * 1024
_NO_WORDS = frozenset({"text/html", "application/xhtml+xml", "application/json"})
"""The kinds of answers that are no plain words of a tool: pages, and JSON that could not be read."""
_BEFORE_SENDING = "connection."
"""How the client's trace names what it does before the first byte of a request: names, sockets and TLS."""


class CallAsked(Sent):
    """Asks for one call of a tool that the server runs."""

    args: Annotated[dict[str, Any], Field(default_factory=dict)]
    run_id: Name | None = None
    """The piece of work that this call belongs to, such as an order. A call with effects needs one."""
    call_id: Name | None = None
    """The framework's own id of this tool call."""
    turn: Name | None = None
    """The id of the user's last message. Without it, the whole run is one turn."""
    dedupe: Literal["args", "turn"] | None = None
    """What tells an intended repeat from a retry, as in `POST /v1/effects`. Default: what the tools file says."""
    wait_s: Annotated[float, Field(ge=0, le=LONGEST_WAIT, allow_inf_nan=False)] = 30.0
    """How many seconds to wait for another caller or for an approver."""


class ToolRefused(Refused):
    """The tool said no, and did nothing."""


class ToolNotDone(Exception):
    """The tool did not say that it did it. The class of its side effect decides what that means."""


class _Revoked(NothingHappened):
    """The caller was revoked while the call waited, so the tool was not entered."""

    def __init__(self, problem: NotAuthenticated | NotPermitted) -> None:
        super().__init__("its caller was revoked before the tool was entered")
        self.problem = problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Came:
    """What came of a call: its value or its error, and whether that was on the record before.

    Attributes:
        effect: The effect, as it was seen last; None if the run was forked and the answer is from the other run.
    """

    effect: Effect | None
    replayed: bool
    value: Any = None
    error: str | None = None


class Gateway:
    """Runs the tools that a file names; none by default."""

    def __init__(self, tools: Mapping[str, GatewayTool] | None = None) -> None:
        self.tools = dict(tools or {})
        self._client: httpx2.AsyncClient | None = None
        self._running: set[asyncio.Task[Any]] = set()

    def hand_tools_to(self, ledger: AsyncLedger) -> None:
        """Let a ledger ask the probes of these tools about effects in doubt, and read edits as these tools do."""
        ledger._binders = {name: tool.bound_edit for name, tool in self.tools.items()}
        probes = {name: tool.words.get("reconcile") for name, tool in self.tools.items()}
        ledger._probes = {name: probe for name, probe in probes.items() if probe is not None}

    def find(self, name: str) -> GatewayTool:
        """Finds a tool; raises `BadCall` for one that does not run here."""
        tool = self.tools.get(name)
        if tool is None:
            raise BadCall(f"{name}: no tool of this name runs at the server; see: GET /v1/tools")
        return tool

    def check_not_ours(self, name: str) -> None:
        """Refuses a claim of a tool that only the server runs: a client's word about it would be a false record.

        By its compensation, a client would say that the tool's work is undone.
        """
        if name.removesuffix(COMPENSATION) in self.tools:
            raise NotPermitted(f"{name} runs at the server; ask for it with: POST /v1/tools/{name}/calls")

    async def run(
        self,
        ledger: AsyncLedger,
        caller: Caller,
        actor: Actor,
        tool: GatewayTool,
        asked: CallAsked,
        check_still_let_in: Callable[[], Awaitable[None]],
    ) -> Came:
        """Run a call at most once and return what came of it. A client that disconnects does not stop it.

        Raises:
            NotAuthenticated: The caller's credential was revoked while the call waited. The tool was not entered.
        """
        call = await in_own_thread(tool.call, asked.args, asked.run_id, asked.call_id, asked.turn, asked.dedupe)
        prepared = ledger._prepare(call, {**tool.words, "wait": timedelta(seconds=asked.wait_s)})
        check_arguments(prepared.identity.args_json, None)
        prepared = replace(prepared, actor=actor, principal=caller.principal or prepared.principal)
        walking = walk.run(prepared, CallersMint(ledger._mint, actor))
        entered: list[Effect] = []
        recorded: list[Effect] = []
        raised: list[Exception] = []

        async def enter(effect: RunningEffect) -> Any:
            entered.append(effect.effect)
            try:
                await _check(check_still_let_in)
                return await self._enter(tool, effect)
            except Exception as error:
                raised.append(error)
                raise

        task = asyncio.create_task(ledger._engine.drive_async(walking, enter, recorded.append))
        self._running.add(task)
        task.add_done_callback(self._done)
        try:
            value = await asyncio.shield(task)
        except Exception as error:
            if isinstance(error, _Revoked):
                raise error.problem from None
            is_of_tool = error in raised or (entered and not isinstance(error, IndelibleError))
            if is_of_tool:  # its own, or its time ran out: how the effect stands now says what that means
                return await _meaning(ledger, entered[-1], tool, error)
            if isinstance(error, EffectFailed):
                return Came(effect=error.effect, replayed=True, error=str(error))
            raise
        return Came(effect=next(iter(entered[-1:] or recorded[-1:]), None), replayed=not entered, value=value)

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
        args = plain(encode(effect.args))
        try:
            # Once more: somebody may have edited what was asked about, here or at the database.
            whole = await in_own_thread(tool.bound_edit, args)
        except BadCall as problem:
            raise ToolRefused(str(problem)) from None
        if whole != args:
            raise NothingHappened(
                f"{tool.name} would read other arguments than those that are recorded, judged and approved, so it was "
                "not entered; cancel the recorded call and make it again: indelible effects list"
            )
        if tool.function is not None:
            return await _called(tool.function, effect.args)
        return await self._posted(tool, effect, json.dumps(args).encode())

    async def _posted(self, tool: GatewayTool, effect: RunningEffect, body: bytes) -> Any:
        """Sends the recorded arguments to the tool, with the key and the fence by which it can tell repeats."""
        if self._client is None:
            limits = httpx2.Limits(max_connections=None)  # waiting for a free one would look like a lost answer
            self._client = httpx2.AsyncClient(follow_redirects=False, trust_env=False, limits=limits)
        headers = {
            **tool.headers,
            "Content-Type": "application/json",
            **trace_headers(),
            "Idempotency-Key": effect.key,
            "Indelible-Effect": effect.id,
            "Indelible-Fence": str(effect.fence),
        }
        watched = _Watched(effect)
        try:
            async with asyncio.timeout(tool.timeout.total_seconds()):  # all of it, however slowly the tool speaks
                answer = await self._asked(tool, headers, body, watched)
        except (httpx2.RequestError, TimeoutError) as problem:
            watched.is_over()
            raise ToolNotDone(f"{tool.name} did not answer: {type(problem).__name__}") from problem
        effect.mark_sending()
        return _outcome(tool, answer)

    async def _asked(self, tool: GatewayTool, headers: Mapping[str, str], body: bytes, watched: _Watched) -> _Answer:
        """Return the tool's answer, no more of it than is allowed and one byte, by which too much is seen."""
        assert tool.url is not None
        assert self._client is not None
        seconds, content = tool.timeout.total_seconds(), b""
        async with self._client.stream(
            "POST", tool.url, content=body, headers=headers, timeout=seconds, extensions={"trace": watched.see}
        ) as response:
            async for part in response.aiter_bytes():
                content += part[: MOST_ANSWER_BYTES + 1 - len(content)]
                if len(content) > MOST_ANSWER_BYTES:
                    break
        return _Answer(response.status_code, response.headers.get("content-type", ""), content)

    async def close(self) -> None:
        """Lets what runs come to its end, then closes the connections."""
        if self._running:
            await asyncio.wait(self._running)
        if self._client is not None:
            await self._client.aclose()
            self._client = None


async def _check(check_still_let_in: Callable[[], Awaitable[None]]) -> None:
    """Raise `_Revoked` if the caller is not let in any more."""
    try:
        await check_still_let_in()
    except (NotAuthenticated, NotPermitted) as problem:
        raise _Revoked(problem) from problem


class _Watched:
    """Watches a request of ours leave, and marks its effect before the first byte does.

    A request of which nothing was seen may have left: only a trace of its connection, and of nothing more, proves that
    no byte of it was written.
    """

    def __init__(self, effect: RunningEffect) -> None:
        self._effect = effect
        self._is_seen = False

    async def see(self, event: str, info: Mapping[str, Any]) -> None:
        """Take note of what the client does next."""
        self._is_seen = True
        if not event.startswith(_BEFORE_SENDING):
            self._effect.mark_sending()

    def is_over(self) -> None:
        """Take note that the request ended without an answer."""
        if not self._is_seen:
            self._effect.mark_sending()


async def _meaning(ledger: AsyncLedger, entered: Effect, tool: GatewayTool, error: Exception) -> Came:
    """Return or raise what an exception of a tool means to the caller: it failed, it may have happened, or neither."""
    effect, said = entered, str(error) or type(error).__name__
    with suppress(StoreError):  # a tool that was entered, and of which nothing can be read, may have happened
        effect = (await in_own_thread(ledger._engine.store.look, [entered.ref])).effects[0] or entered
    match fate_of(effect):
        case "failed":
            return Came(effect=effect, replayed=False, error=f"{tool.name}: {said}")
        case "succeeded":  # a person, a webhook or a probe has settled it meanwhile
            return Came(effect=effect, replayed=True, value=None if effect.is_detail_erased else effect.detail)
        case "nothing":
            raise ToolUnavailable(f"{tool.name}: nothing happened ({said}); call again later", effect=effect) from error
        case "in_doubt":
            told = f"{effect.id} may have happened ({said}); a person settles it: indelible effects show"
            raise EffectInDoubt(f"{tool.name}: {told}", effect=effect) from error


async def _called(function: Any, args: Mapping[str, Any]) -> Any:
    """Return what a function returns. If it calls `sys.exit` or cancels itself, its call is in doubt."""
    try:
        if inspect.iscoroutinefunction(function):
            return await function(**args)
        value = await in_own_thread(lambda: function(**args))
        return await value if inspect.isawaitable(value) else value
    except Exception:
        raise
    except BaseException as ended:
        task = asyncio.current_task()
        if isinstance(ended, asyncio.CancelledError) and task is not None and task.cancelling():
            raise
        raise MayHaveHappened(f"the function raised {type(ended).__name__}") from ended


class _Answer(NamedTuple):
    """What a tool at an address answered."""

    status: int
    kind: str
    content: bytes


def _outcome(tool: GatewayTool, answer: _Answer) -> Any:
    """Return the value of an answer that says it was done.

    A status alone proves nothing else: a proxy in between sends 4xx and 5xx too. The tools file says which statuses
    are the tool's own word. 202 says that it is not done yet. A page is a gateway's, and JSON that cannot be read was
    broken on its way: neither is the tool's answer.
    """
    status, kind, content = answer
    said = f"status {status}: {content.decode('utf-8', 'replace')[:2000]}"
    if status in tool.refused:
        raise ToolRefused(said)
    if status in tool.nothing:
        raise NothingHappened(f"{tool.name}, {said}")
    if not 200 <= status < 300 or status == 202:
        raise ToolNotDone(said)
    if len(content) > MOST_ANSWER_BYTES:
        raise MayHaveHappened(f"{tool.name} did it, and its answer has more than {MOST_ANSWER_BYTES} bytes")
    try:
        return json.loads(content) if content else None
    except (ValueError, RecursionError):
        if kind.partition(";")[0].strip().lower() in _NO_WORDS:
            raise ToolNotDone(f"its answer cannot be read as {kind}: {said}") from None
        return content.decode("utf-8", "replace")  # what it did is done, however it says so
