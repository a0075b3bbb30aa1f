"""Claude Agent SDK: tools of one's own and those of Claude Code behind the ledger, by the SDK's own hooks.

    gate = LedgerHooks(ledger, terms={"refund": {"approval": "required"}})
    till = gate.server("till", [charge, refund])             # your tools: they replay, and wait for people
    options = ClaudeAgentOptions(mcp_servers={"till": till}, hooks=gate.hooks("Bash|Write|Edit"))
    async for message in query(prompt="refund order 123", options=options):
        …                                                    # deferred_tool_use: keep the session, resume it whenever

Calls belong to the session, which stays the same when it is resumed. What a hook says decides nothing: a tool of your
own asks the ledger again when it is entered, innermost. A tool of Claude Code's can only be let in or denied there.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, NamedTuple, TypeVar, cast

from claude_agent_sdk import HookMatcher, SdkMcpTool, create_sdk_mcp_server

from indelible import (
    AsyncLedger,
    AwaitingApproval,
    Effect,
    Ledger,
    MayHaveHappened,
    NothingHappened,
    Refused,
    RunningEffect,
    ToolCall,
)
from indelible.errors import BadCall, EffectFailed, NotRun
from indelible.integrations.calling_again import OPEN, meant
from indelible.integrations.claude_calls import (
    BuiltIn,
    CallIds,
    call_of,
    folder_in,
    said_hash,
    told_of,
    turn_in,
    without_folder,
)
from indelible.integrations.claude_words import cut, decided, may_run, was_done, why_untellable
from indelible.integrations.entries import Entry
from indelible.integrations.injected import recorded
from indelible.integrations.results import ToolError, text_in
from indelible.integrations.telling import SAID_NOTHING, heard_of, waits
from indelible.integrations.terms import Named, Terms, hash_of, is_same

Hook = Callable[[Any, str | None, Any], Awaitable[dict[str, Any]]]
Result = dict[str, Any]
Place = tuple[str, str, str]
T = TypeVar("T")
_SERVER_NAME = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)


class LedgerHooks:
    """Let each tool call of an agent run at most once and with permission, wherever its session is resumed.

    Close it when the agent is done: what its hooks began and Claude Code did not report is in doubt then.

    Args:
        ledger: The ledger.
        run: The run that calls belong to. Default: the session.
        terms: How single tools are treated, in the words of `@ledger.tool`.
        defers: A call that waits for a person ends the session. If False, the model is told instead. Default: True.
        allows: Claude Code does not ask about what the ledger lets run. Default: False.
        usual: The words of `terms` for all tools.
    """

    def __init__(
        self,
        ledger: Ledger | AsyncLedger,
        *,
        run: str | None = None,
        terms: Mapping[str, Mapping[str, Any]] | None = None,
        defers: bool = True,
        allows: bool = False,
        **usual: Any,
    ) -> None:
        self._ledger = ledger.awaited
        self._run = run
        self._terms = Terms(terms, usual)
        self._built_in = BuiltIn(terms, usual)
        self._defers = defers
        self._allows = allows
        self._tools: dict[str, dict[str, SdkMcpTool[Any]]] = {}
        self._announced: dict[Place, list[_Announced]] = {}
        self._visits: dict[Place, list[_Visit]] = {}
        self._resumed: dict[str, str] = {}
        self._continued: dict[str, str] = {}

    async def __aenter__(self) -> LedgerHooks:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Calls what was begun and never reported in doubt."""
        while self._visits:
            for visit in self._visits.popitem()[1]:
                await visit.report(MayHaveHappened("the agent ended, and nobody reported what came of it"))

    def server(self, name: str, tools: Sequence[SdkMcpTool[Any]], version: str = "1.0.0") -> Any:
        """Gives a server for `mcp_servers`, under this name, whose tools stand behind the ledger."""
        if not _SERVER_NAME.fullmatch(name) or "__" in name or name.endswith("_"):
            raise BadCall(
                f"server {name!r}: use the characters A-Z a-z 0-9 _ -, which Claude Code leaves alone; two _ stand "
                "between a server and its tool, so the name has no two beside each other and none at its end"
            )
        self._tools[name] = {tool.name: tool for tool in tools}
        ids = CallIds()
        behind = [dataclasses.replace(tool, handler=self._entrance(name, tool, ids)) for tool in tools]
        config = create_sdk_mcp_server(name, version, behind)
        ids.read_from(config["instance"])
        return config

    def hooks(self, matcher: str | None = None) -> dict[Any, list[HookMatcher]]:
        """Gives what belongs into the options' `hooks`; ask for it when every `server` is made.

        `matcher` names the tools of Claude Code and of other servers that stand behind the ledger as well.
        """
        before = [_blocking(f"{_prefix(name)}.*", self._announce) for name in self._tools]
        if matcher is None:
            return {"PreToolUse": before}
        after = [HookMatcher(matcher=matcher, hooks=[cast("Any", self._after)])]
        return {
            "PreToolUse": [*before, _blocking(matcher, self._before)],
            "PostToolUse": after,
            "PostToolUseFailure": after,
            "PostToolBatch": [HookMatcher(hooks=[cast("Any", self._batched)])],
        }

    # Tools of one's own

    async def _announce(self, event: Any, use: str | None, context: Any) -> dict[str, Any]:
        """Tells our tool which call it is entered for, and pauses the session while a person has to decide."""
        server = next(name for name in self._tools if event["tool_name"].startswith(_prefix(name)))
        tool = event["tool_name"].removeprefix(_prefix(server))
        named, call = await self._named(self._terms, tool, event, self._tools[server].get(tool))
        try:
            standing = await self._ledger.ask(call, **self._terms.options(tool))
        except NotRun:
            standing = None  # the tool says why
        if isinstance(standing, AwaitingApproval) and self._defers:
            return decided("defer", waits(standing.approval))
        announced = _Announced(event["session_id"], event["tool_input"], named)
        self._announced.setdefault((server, tool, event["tool_use_id"]), []).append(announced)
        return decided("allow", "the ledger is asked again when it is entered") if self._allows else {}

    def _entrance(self, server: str, tool: SdkMcpTool[Any], ids: CallIds) -> Callable[[Any], Awaitable[Result]]:
        async def entered(args: Any) -> Result:
            named = self._announced_as((server, tool.name, ids.current() or ""), args)
            if named is None:
                return _refusal(f"{tool.name} was not called: no hook announced it. Put gate.hooks() into the options")
            return await self._entered(tool, self._terms.call(dataclasses.replace(named, args=args)))

        return entered

    def _announced_as(self, place: Place, args: Any) -> Named | None:
        """Take the call that a tool is entered for; None if no hook announced it, or if two sessions did."""
        announced = self._announced.get(place, [])
        found = told_of([({said_hash(one.args)}, one) for one in announced], place[2], args)
        if found is None:
            return None
        alike = [one for one in announced if is_same(one.args, found.args)]
        is_clear = len({one.session for one in alike}) == 1
        gone = [found] if is_clear else alike  # then both call again, one after the other
        _keep(self._announced, place, [one for one in announced if not any(one is other for other in gone)])
        return found.named if is_clear else None

    async def _entered(self, tool: SdkMcpTool[Any], call: ToolCall) -> Result:
        told: Result = await _Entry(tool, call).walk_async(self._ledger, self._terms.at_once(tool.name))
        return told

    # Tools that run elsewhere

    async def _before(self, event: Any, use: str | None, context: Any) -> dict[str, Any]:
        """Begins a call that Claude Code makes, or denies it with the reason."""
        if self._is_ours(event["tool_name"]):
            return {}
        _, call = await self._named(self._built_in, event["tool_name"], event)
        visit = _Visit(call.tool, event["tool_input"])
        words = self._built_in.at_once(call.tool)
        refusal = await visit.begin(self._ledger.run(call, visit.enter, on_replay=visit.note_replay, **words))
        if refusal is not None:
            return decided("deny", refusal)
        approved, said = (without_folder(args, call) for args in (visit.effect.args, call.args))
        untellable = why_untellable(approved, said)
        if untellable is not None:
            await visit.report(Refused(untellable))
            return decided("deny", f"{call.tool} was not carried out: {untellable}")
        self._visits.setdefault(_place_of(event, event), []).append(visit)
        visit.said.add(said_hash(approved))
        return may_run(approved, said, allows=self._allows, is_sdk=True)

    async def _after(self, event: Any, use: str | None, context: Any) -> dict[str, Any]:
        """Record what came of a call that Claude Code made. One that was not begun here is not reported."""
        visit = self._reported(event, event)
        if visit is None:
            return {}
        if event["hook_event_name"] == "PostToolUse":
            await visit.report(event.get("tool_response"))
        elif event.get("is_interrupt"):
            await visit.report(MayHaveHappened(str(event.get("error"))))
        else:
            await visit.report(ToolError(str(event.get("error"))))
        return {}

    async def _batched(self, event: Any, use: str | None, context: Any) -> dict[str, Any]:
        """Give back the calls that a person, or a rule of Claude Code's, did not let run: no other hook tells of it."""
        for told in event["tool_calls"]:
            visit = self._reported(event, told)
            if visit is not None:
                await visit.report(NothingHappened("Claude Code did not let it run"))
        return {}

    def _reported(self, event: Any, told: Any) -> _Visit | None:
        """Take the call that a hook tells of; None if it was not begun here, or cannot be told from others."""
        place = _place_of(event, told)
        begun = self._visits.get(place, [])
        visit = told_of([(one.said, one) for one in begun], told["tool_use_id"], told["tool_input"])
        _keep(self._visits, place, [one for one in begun if one is not visit])
        return visit

    def _is_ours(self, tool: str) -> bool:
        return any(tool.startswith(_prefix(name)) for name in self._tools)

    async def _named(
        self, terms: Terms, tool: str, event: Any, own: SdkMcpTool[Any] | None = None
    ) -> tuple[Named, ToolCall]:
        named = Named(
            tool=tool,
            args=event["tool_input"],
            run_id=self._run or event["session_id"],
            call_id=event["tool_use_id"],
            schema="" if own is None else _schema_of(own),
            turn=await self._turn_of(event, tool),
            parameters=None if own is None else _parameters_of(own),
            injected={} if own is not None else recorded(folder_in(event, tool), terms.unbound(tool)),
        )
        call = call_of(terms, named)
        if call.dedupe == "call":
            found = [await self._ledger.effects(run_id=call.run_id, tool=tool, status=status) for status in OPEN]
            call = meant(self._ledger, call, terms.options(tool), (effect for page in found for effect in page))
        return dataclasses.replace(named, call_id=call.call_id, turn=call.turn), call

    async def _turn_of(self, event: Any, tool: str) -> str | None:
        """Return the turn. A session that is resumed goes on in the turn of its deferred call.

        Claude Code makes that call first, without a prompt id, and names the prompt that resumed the session after it.
        """
        said, session = turn_in(event), event["session_id"]
        if said is None:
            made = await self._ledger.effects(run_id=self._run or session, tool=tool)
            turn = next((effect.turn for effect in made if effect.call_id == event["tool_use_id"]), None)
            if turn is not None:
                self._resumed[session] = turn
            return turn
        if session in self._resumed:
            self._continued[said] = self._resumed.pop(session)
        return self._continued.get(said, said)


class _Announced(NamedTuple):
    """One call that a hook announced, and no tool was entered for yet."""

    session: str
    args: Any
    named: Named


class _Entry(Entry):
    """One call of a tool of ours: what it gave stays at hand, so that only a repeat gets it from the record."""

    def __init__(self, tool: SdkMcpTool[Any], call: ToolCall) -> None:
        super().__init__(call)
        self._tool = tool
        self._live: Result | None = None

    async def enter(self, effect: RunningEffect) -> Result:
        """Enter the tool with the recorded arguments."""
        self._live = None
        with self.running(effect):
            gave: Any = await self._tool.handler(effect.args)
            if isinstance(gave, Mapping) and gave.get("is_error"):
                self._live = dict(gave)
                raise ToolError(_text_of(gave))
        self._live = dict(gave)  # the SDK takes no other result; the tool has done its work
        return self._live

    def given(self, recorded: Any) -> Result:
        """Return what the tool gave, now or as it was recorded, or as a person settled it."""
        if self._live is not None:
            return self._live
        is_result = isinstance(recorded, Mapping) and isinstance(recorded.get("content"), list)
        result = dict(recorded) if is_result else _said(text_in(recorded))
        return (
            result if self.note is None else {**result, "content": [*result["content"], *_said(self.note)["content"]]}
        )

    def told_of(self, refusal: Exception, error: Exception) -> Result:
        """Return what the model is told of a call without a result, or raise."""
        heard = heard_of(refusal, self.call.tool)
        if heard is not None:
            return self.given(_error(heard.text)) if heard.outcome == "failed" else _refusal(heard.text)
        if isinstance(refusal, NotRun):
            return _refusal(str(refusal))
        raise error


class _Visit:
    """Is one call that runs elsewhere: the ledger holds it open, and renews its lease, until somebody reports it."""

    def __init__(self, tool: str, said: Any) -> None:
        self._tool = tool
        self.said = {said_hash(said)}
        """The hashes of what was said and of what was approved."""
        self._entered = asyncio.Event()
        self._report: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._task: asyncio.Future[Any]
        self._recorded: list[Effect] = []
        self.effect: RunningEffect

    def note_replay(self, effect: Effect) -> None:
        """Note the effect whose recorded result answers the call."""
        self._recorded.append(effect)

    async def enter(self, effect: RunningEffect) -> Any:
        """Stands for the tool: is inside from now on until the report."""
        self.effect = effect
        self._entered.set()
        return await self._report

    async def begin(self, running: Awaitable[Any]) -> str | None:
        """Waits until the call is let in; gives why it is not, if it is not."""
        self._task = asyncio.ensure_future(running)
        inside = asyncio.ensure_future(self._entered.wait())
        try:
            await asyncio.wait({self._task, inside}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:  # whoever asked has gone, and will report nothing
            self._task.cancel()
            raise
        finally:
            inside.cancel()
        return None if self._entered.is_set() else await self._refused()

    async def _refused(self) -> str:
        try:
            value = await self._task
        except (EffectFailed, NotRun) as refused:
            heard = heard_of(refused, self._tool)
            return str(refused) if heard is None else cut(heard.text)
        return was_done(self._recorded[-1], value)

    async def report(self, outcome: Any) -> None:
        """Tells what came of it; what cannot be recorded is raised."""
        if not isinstance(outcome, Exception):
            self._report.set_result(outcome)
            await self._task
            return
        self._report.set_exception(outcome)
        try:
            await self._task
        except (ToolError, MayHaveHappened, NothingHappened, Refused):
            return


def _blocking(matcher: str, hook: Hook) -> HookMatcher:
    """Gives a hook without whose word nothing runs."""
    return HookMatcher(matcher=matcher, hooks=[cast("Any", hook)], on_failure="block")


def _place_of(event: Any, told: Any) -> Place:
    """Return which agent of which session makes a call of which tool, under which id."""
    return json.dumps([event["session_id"], event.get("agent_id")]), told["tool_name"], told["tool_use_id"]


def _keep(places: dict[Place, list[T]], place: Place, left: list[T]) -> None:
    """Keep what is left at a place, and no place at which nothing is left."""
    places.pop(place, None)
    if left:
        places[place] = left


def _prefix(server: str) -> str:
    return f"mcp__{server}__"


def _said(text: str) -> Result:
    return {"content": [{"type": "text", "text": text}]}


def _error(text: str) -> Result:
    return {**_said(text), "is_error": True}


def _refusal(text: str) -> Result:
    return _error(f"Indelible: {text}")


def _text_of(result: Mapping[str, Any]) -> str:
    said = [block.get("text") for block in result.get("content") or () if isinstance(block, Mapping)]
    return "\n".join(text for text in said if isinstance(text, str)) or SAID_NOTHING


def _schema_of(tool: SdkMcpTool[Any]) -> str:
    return hash_of([tool.name, tool.description, tool.input_schema])


def _parameters_of(tool: SdkMcpTool[Any]) -> Mapping[str, Any] | None:
    """Return the tool's JSON Schema; None if its parameters are said otherwise, and then they have no defaults."""
    schema = tool.input_schema
    is_json_schema = isinstance(schema, Mapping) and isinstance(schema.get("properties"), Mapping)
    return schema if is_json_schema else None
