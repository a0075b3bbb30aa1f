"""MCP: a gate before the tools of any MCP server, which asks people by the protocol's own way of asking.

What a client sends along decides nothing by itself. The ledger knows which call waits for whom; an answer counts as a
person's vote only where the integrator says whose it is, and only for the digest that was shown with the question.
Beside its recorded arguments, a tool gets only our key, and the answers to what it asked itself.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn, Protocol, cast
from uuid import uuid4

import mcp_types as types
from anyio import fail_after
from mcp.server import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from indelible import Approval, AsyncLedger, Ledger, NothingHappened, Refused, Resource, RunningEffect, ToolCall
from indelible.errors import ApprovalPending, BadCall, IndelibleError, NotRun, StoreError, VoteRefused
from indelible.integrations import telling
from indelible.integrations.calling_again import OPEN, meant
from indelible.integrations.entries import Entry, note_sent, paused_by, raise_doubt
from indelible.integrations.mcp_schema import check_fits
from indelible.integrations.mcp_words import (
    IDEMPOTENCY_KEY,
    LOOK_SCHEMA,
    META,
    MOST_SHOWN,
    TURN,
    VOTE_SCHEMA,
    Given,
    call_id_in,
    given,
    is_chosen,
    kept,
    name_of,
    not_told,
    question,
    schema_of,
    split_meta,
    text_of,
    tool_error,
    waits,
)
from indelible.integrations.results import ToolAsked, ToolError
from indelible.integrations.telling import TEXTS, heard_of
from indelible.integrations.terms import Named, Terms, hash_of

Context = ServerRequestContext[Any, Any]
Answer = types.CallToolResult | types.InputRequiredResult
_OURS, _THEIRS = "indelible:", "upstream:"
_LISTING_S = 10.0


class _Said(NamedTuple):
    """What came along with a call: an answer to our own question, or one that the server below us asked for."""

    approval: str | None = None
    digest: str | None = None
    upstream: _Asked | None = None
    responses: Mapping[str, Any] = MappingProxyType({})


class _Asked(NamedTuple):
    """What the server below asked for: in which attempt of which effect, its own state, the names of its questions."""

    secret: str
    """Only the client has it. Without it, no guess at redacted arguments can be checked against the record."""
    effect: str
    attempt: int
    state: str | None
    names: tuple[str, ...]

    def told(self) -> str:
        """Return the state that the client hands back."""
        return _THEIRS + json.dumps(self)

    def mark(self, call: ToolCall) -> str:
        """Return what the record says of this question, so that every process knows it again."""
        known_by = (call.scope, call.part, call.turn, call.resource, call.call_id if call.dedupe == "call" else None)
        return f"question {hash_of([call.tool, call.args, call.schema, *known_by, *self])[:32]}"


class Upstream(Protocol):
    """Is a connected client of the server below."""

    @property
    def session(self) -> Any:
        """Is its line: `list_tools` and `call_tool`."""


class McpGate:
    """Let each tool call run at most once and with permission, whichever client asks and however often.

    Args:
        ledger: The ledger.
        upstream: A connected client of the server below.
        run: The run that calls belong to.
        terms: How single tools are treated, in the words of `@ledger.tool`.
        approver: The person whose vote an answer in the client is. Default: none, and an answer only makes the gate
            look whether the approvers have decided.
        turn: The id of the user's last message, for calls whose `_meta` has no `io.indelible/turn`. Default: none, and
            the whole run is one turn.
        server: A name for the server below. Calls of servers with different names are different calls, also in one
            run. Default: none, and tools of one name are one tool.
        reached_by: The command or the URL of the server. An approval does not hold for a server that is reached
            otherwise, or that says another name of itself.
        usual: The words of `terms` for all tools.

    Of a call's `_meta` nothing reaches the tool, unless its terms list it: `meta=["com.example/account"]`. Then it is
    judged, shown, recorded and approved with the arguments, as `_meta`.
    """

    def __init__(
        self,
        ledger: Ledger | AsyncLedger,
        upstream: Upstream,
        *,
        run: str,
        terms: Mapping[str, Mapping[str, Any]] | None = None,
        approver: str | None = None,
        turn: str | None = None,
        server: str | None = None,
        reached_by: str = "",
        **usual: Any,
    ) -> None:
        self._turn = turn
        self._server = server
        self._reached_by = reached_by
        self._ledger = ledger.awaited
        self._upstream = upstream
        self._run = run
        terms, usual, self._meta_of = split_meta(terms, usual)
        self._terms = Terms(terms, usual)
        self._approver = approver
        self._known: dict[str, types.Tool] = {}

    async def list_tools(self, ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        """List the tools as the server below tells them; what it says of their safety is not believed."""
        found: types.ListToolsResult = await self._upstream.session.list_tools(params=params)
        return found

    async def call_tool(self, ctx: Context | None, params: types.CallToolRequestParams) -> Answer:
        """Run a call, replay it, ask a person, or say why not; without a context, the client cannot be asked."""
        try:
            return await self._answered(ctx, params)
        except IndelibleError as broken:  # the ledger is not there, or not for us
            raise MCPError(types.INTERNAL_ERROR, f"{params.name} was not carried out: {broken}") from broken

    async def _answered(self, ctx: Context | None, params: types.CallToolRequestParams) -> Answer:
        said = _read(params)
        try:
            entry = await self._entry(params, said)
        except BadCall as misfit:  # the model can mend it
            return tool_error(f"{params.name} was not called: {misfit}")
        if said.upstream is not None:
            await self._check_asked(entry.call, said.upstream)
        while True:
            answer: Answer | ApprovalPending | None = await entry.walk_async(self._ledger, entry.words)
            if isinstance(answer, ApprovalPending):
                answer = await self._asked(ctx, entry, answer, said)
                said = said._replace(approval=None)  # an answer counts once; then the ledger says how it stands
            if answer is not None:
                return answer

    async def _entry(self, params: types.CallToolRequestParams, said: _Said) -> _Entry:
        below, meta = await self._tool(params.name), dict(params.meta or {})
        tool, turn = below.tool, meta.get(TURN)
        named = Named(
            tool=params.name,
            args=self._with_meta(params, meta),
            run_id=self._run,
            server=self._server,
            call_id=call_id_in(meta) or self._new_id(params.name),
            schema=below.schema,
            turn=None if is_chosen(meta) else turn if isinstance(turn, str) and turn else self._turn,
            parameters=tool.input_schema,
            reads=below.checked,
        )
        call = self._terms.call(named)
        below.checked(call.args)
        return _Entry(self._ledger, below, await self._meant(call, meta), self._terms.at_once(call.tool), said)

    def _with_meta(self, params: types.CallToolRequestParams, meta: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments, with what the tool's terms name of `_meta`: it is judged, shown and recorded too."""
        args, named = dict(params.arguments or {}), self._meta_of(params.name)
        if named and META in args:
            raise BadCall(f"{params.name}: an argument cannot be named {META}: beside the arguments, its terms name it")
        bound = {name: meta[name] for name in named if name in meta}
        return {**args, META: bound} if bound else args

    async def _check_asked(self, call: ToolCall, asked: _Asked) -> None:
        """Raise if this is no open question of this call. That it still is when it is answered, its entry checks."""
        effect = await self._ledger.get_effect(asked.effect)
        is_open = effect is not None and effect.status == "ready" and not effect.is_detail_erased
        if effect is None or not is_open or asked.mark(call) not in str(effect.detail):
            raise _unasked()

    def _new_id(self, tool: str) -> str | None:
        """Return an id for a read whose client sends none: each call reads anew."""
        return f"mcp-{uuid4().hex}" if self._terms.options(tool).get("side_effect") in ("none", "read") else None

    async def _meant(self, call: ToolCall, meta: Mapping[str, Any]) -> ToolCall:
        """Return the call that the client means: by the key that it chose, or the open one that its model repeats."""
        if is_chosen(meta) and call.key is None and call.resource is None:
            chosen = Resource(namespace="mcp", type="idempotency-key", id=str(call.call_id))
            return replace(call, dedupe="args", resource=chosen)
        if call.dedupe != "call" or is_chosen(meta):
            return call
        found = [await self._ledger.effects(run_id=self._run, tool=call.tool, status=status) for status in OPEN]
        words = self._terms.options(call.tool)
        return meant(self._ledger, call, words, (effect for page in found for effect in page))

    async def _tool(self, name: str) -> _Below:
        """Find a tool as it is listed now: an approval holds for what was described when it was given.

        If its server does not answer, the tool is as it was listed last, and is not entered: the record still answers.
        """
        binds_meta = bool(self._meta_of(name))
        try:
            found = await _listed(self._upstream, name)
        except Exception as broken:
            if name not in self._known:
                why = f"{name} cannot be called now: its server does not list its tools ({broken})"
                raise MCPError(types.INTERNAL_ERROR, why) from broken
            known, why = self._known[name], str(broken) or type(broken).__name__
            return _Below(self._upstream, known, self._origin(), binds_meta, why_not=why)
        if found is None:
            raise MCPError(types.INVALID_PARAMS, f"no tool is named {name!r}; see: tools/list")
        self._known[name] = found
        return _Below(self._upstream, found, self._origin(), binds_meta)

    def _origin(self) -> str:
        """Return all that tells the server from others."""
        return json.dumps([self._server, self._reached_by, name_of(self._upstream.session)])

    async def _asked(self, ctx: Context | None, entry: _Entry, pending: ApprovalPending, said: _Said) -> Answer | None:
        """Gives what to answer while a person has to decide; None when somebody may have decided by now."""
        approval = pending.approval
        if said.approval is not None:  # this is the answer to our question
            if said.approval != approval.id:
                return not_told(f"the answer is to {said.approval}, and {approval.id} is the question now")
            return await self._counted(approval, said.digest, said.responses.get(said.approval))
        if ctx is None:
            return waits(approval)
        shown = approval.shown(pending.effect, fits=lambda text: len(text) <= MOST_SHOWN)
        digest = shown.digest if self._approver is not None else None  # without one, an answer is no vote
        words = question(approval, shown, entry.elsewhere, decides=digest is not None)
        schema = LOOK_SCHEMA if digest is None else VOTE_SCHEMA
        if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            asks = types.ElicitRequest(params=types.ElicitRequestFormParams(message=words, requested_schema=schema))
            state = f"{_OURS}{approval.id}:{digest or ''}"
            return types.InputRequiredResult(input_requests={approval.id: asks}, request_state=state)
        if not _can_ask(ctx):
            return waits(approval)
        try:
            answer = await ctx.session.elicit_form(words, schema, related_request_id=ctx.request_id)
        except (MCPError, ValueError):  # the client answers with an error, or with what is no answer
            return waits(approval)
        return await self._counted(approval, digest, answer)

    async def _counted(self, approval: Approval, digest: str | None, answer: Any) -> Answer | None:
        """Cast the vote that an answer is; return None when the call is worth walking again."""
        if not isinstance(answer, types.ElicitResult) or answer.action == "cancel":
            return waits(approval)
        if self._approver is None or not digest:  # the approver decides elsewhere; accepting means: look again
            return None if answer.action == "accept" else waits(approval)
        chosen = answer.content or {}
        decision = "deny" if answer.action == "decline" else chosen.get("decision")
        if decision not in ("approve", "deny"):
            return waits(approval)
        said = "approved" if decision == "approve" else "declined"
        reason = str(chosen.get("reason") or f"{said} in the MCP client")
        verb = self._ledger.approve if decision == "approve" else self._ledger.deny
        try:
            await verb(approval.id, digest=digest, by=self._approver, reason=reason)
        except VoteRefused as refused:
            return not_told(f"the answer does not count: {refused}")
        except IndelibleError as failed:  # of a store that is away, nobody knows what it took in
            is_known = not isinstance(failed, StoreError)
            why = "the answer does not count" if is_known else "it is not known whether the answer counts"
            return not_told(f"{why}: {failed}\n{telling.waits(approval)}")
        return None


class _Below(NamedTuple):
    """One tool of the server below, as it is listed now."""

    upstream: Upstream
    tool: types.Tool
    origin: str
    """Says which server it is of."""
    binds_meta: bool
    why_not: str | None = None
    """Why it cannot be called now."""

    @property
    def schema(self) -> str:
        """Is the hash of what a reviewer relies on: what the tool says of itself, and whose it is."""
        return schema_of(self.tool, self.origin)

    def checked(self, args: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return arguments that fit the tool's input schema, also those that an approver edited; else raise."""
        check_fits(self.tool.name, self.tool.input_schema, self.split(args)[0])
        return args

    async def check_unchanged(self) -> None:
        """Raise `NothingHappened` if the tool is described otherwise now than when a person was asked."""
        try:
            now = await _listed(self.upstream, self.tool.name)
        except Exception as broken:
            raise NothingHappened(f"{self.tool.name} was not called: its server is away ({broken})") from broken
        if now is None or schema_of(now, self.origin) != self.schema:
            raise NothingHappened(
                f"{self.tool.name} was described anew while a person decided, so it was not called. Call it again, and "
                "they are asked again"
            )

    def split(self, args: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the tool's own arguments, and what goes beside them."""
        if not self.binds_meta:
            return dict(args), {}
        return {name: value for name, value in args.items() if name != META}, dict(args.get(META, {}))


class _Entry(Entry):
    """One call on its way through the gate: what the ledger is asked, and what the server below gave."""

    def __init__(self, ledger: AsyncLedger, below: _Below, call: ToolCall, words: dict[str, Any], said: _Said) -> None:
        super().__init__(call)
        self.words = words
        self._ledger = ledger
        self._below = below
        self._said = said
        self._live: types.CallToolResult | None = None
        self._asks: types.InputRequiredResult | None = None
        self._is_unasked = False

    async def enter(self, effect: RunningEffect) -> Given:
        """Call the tool below with the recorded arguments, and hand our key on. No error proves that nothing began."""
        said = self._said
        args, meta = self._below.split(effect.args)
        with self.running(effect):
            if self._below.why_not is not None:
                raise NothingHappened(f"{self.call.tool} was not called: its server is away ({self._below.why_not})")
            if effect.effect.permission_id is not None:  # a person took their time
                await self._below.check_unchanged()
            if said.upstream is not None:
                await self._accept_input(said.upstream, effect)
            note_sent()
            try:
                result = await self._below.upstream.session.call_tool(
                    self.call.tool,
                    args,
                    request_state=None if said.upstream is None else said.upstream.state,
                    input_responses=dict(said.responses) if said.upstream is not None else None,
                    meta=cast("types.RequestParamsMeta", {**meta, IDEMPOTENCY_KEY: effect.key}),
                    allow_input_required=True,
                )
            except Exception as lost:  # no result of the tool: it may have begun, and ended
                raise_doubt(lost, effect)
                raise
            if isinstance(result, types.InputRequiredResult):
                self._hand_on(result, effect)
            if result.is_error:
                raise ToolError(text_of(result))
        self._live = result
        return kept(result)

    async def _accept_input(self, asked: _Asked, effect: RunningEffect) -> None:
        """Record the answer to the question that the attempt before this one left open; raise if there is none."""
        self._check_unpermitted(effect)
        if (effect.id, effect.attempt) != (asked.effect, asked.attempt + 1):  # another answer came before this one
            self._is_unasked = True
            raise NothingHappened(f"{self.call.tool} was not called: its question is no longer open")
        answers = {name: _plain(one) for name, one in self._said.responses.items()}
        told = {"tool": self.call.tool, "asked": asked.mark(self.call), "input": answers}
        try:
            await self._ledger.record(effect.effect.run_id, "mcp.input_given", told)
        except IndelibleError as unrecorded:
            raise NothingHappened(f"{self.call.tool} was not called: {unrecorded}") from unrecorded

    def _hand_on(self, asks: types.InputRequiredResult, effect: RunningEffect) -> NoReturn:
        """Raise what it means that the server asks for input. Once it was given some, it may have begun."""
        self._check_unpermitted(effect)
        names = tuple(sorted(asks.input_requests or {}))
        asked = _Asked(uuid4().hex, effect.id, effect.attempt, asks.request_state, names)
        if self._said.upstream is not None:
            means = paused_by(ToolAsked("it was given input and asks for more"), effect, self.words)
            if not isinstance(means, NothingHappened):
                raise means
        self._asks = types.InputRequiredResult(input_requests=asks.input_requests, request_state=asked.told())
        raise NothingHappened(f"{self.call.tool} asks for input before it begins ({asked.mark(self.call)})")

    def _check_unpermitted(self, effect: RunningEffect) -> None:
        """Raise if a person approved the call or granted it ahead: they have not seen what the server asks for."""
        if effect.effect.permission_id is not None:
            raise Refused(
                f"{self.call.tool} asks for input beside its arguments, which its approver has not seen, so it is not "
                "continued. Let it take the input as an argument"
            )

    def given(self, recorded: Any) -> types.CallToolResult:
        """Return what the tool gave, now or when it ran."""
        return self._live if self._live is not None else given(recorded, self.note)

    def told_of(self, refusal: Exception, error: Exception) -> Answer | ApprovalPending:
        """Return what the client is told of a call without a result, or the question that is open."""
        if isinstance(refusal, ApprovalPending):
            return refusal
        if self._is_unasked:
            raise _unasked() from error
        if self._asks is not None and isinstance(refusal, NothingHappened):
            return self._asks
        heard = heard_of(refusal, self.call.tool)
        if heard is not None:
            return tool_error(heard.text) if heard.outcome == "failed" else not_told(heard.text)
        if isinstance(refusal, NotRun):
            return not_told(str(refusal))
        if isinstance(refusal, BadCall) and self._entered_id is None:  # as an edit that the tool does not take
            return not_told(f"{self.call.tool} was not called: {refusal}")
        if (
            isinstance(refusal, IndelibleError) and self._entered_id is not None
        ):  # what came of it could not be recorded
            return not_told(TEXTS["in_doubt"].format(tool=self.call.tool, effect=self._entered_id))
        if isinstance(refusal, IndelibleError):
            raise refusal
        raise error


async def _listed(upstream: Upstream, name: str) -> types.Tool | None:
    """Find a tool as its server lists it now; a server that does not answer in time is away."""
    params = types.PaginatedRequestParams()
    with fail_after(_LISTING_S):
        while True:
            page: types.ListToolsResult = await upstream.session.list_tools(params=params)
            found = next((tool for tool in page.tools if tool.name == name), None)
            if found is not None or page.next_cursor is None:
                return found
            params = types.PaginatedRequestParams(cursor=page.next_cursor)


def _read(params: types.CallToolRequestParams) -> _Said:
    """Read what came along with a call; a state that is not ours, or an answer that was not asked for, is refused."""
    state, responses = params.request_state or "", dict(params.input_responses or {})
    if state.startswith(_OURS):
        approval, _, digest = state.removeprefix(_OURS).partition(":")
        if set(responses) - {approval}:
            raise _unasked()
        return _Said(approval, digest, None, responses)
    if state.startswith(_THEIRS):
        return _Said(upstream=_asked_in(state.removeprefix(_THEIRS), responses), responses=responses)
    if state or responses:
        raise _unasked()
    return _Said()


def _asked_in(text: str, responses: Collection[str]) -> _Asked:
    try:
        secret, effect, attempt, state, names = json.loads(text)
    except (ValueError, TypeError):
        raise _unasked() from None
    is_whole = isinstance(effect, str) and isinstance(attempt, int) and isinstance(names, list)
    if not is_whole or set(responses) - {name for name in names if isinstance(name, str)}:
        raise _unasked()
    return _Asked(secret, effect, attempt, state, tuple(names))


def _unasked() -> MCPError:
    why = "requestState or inputResponses answer no open question of this call; call again without both"
    return MCPError(types.INVALID_PARAMS, why)


def _plain(response: Any) -> Any:
    return response.model_dump(mode="json", by_alias=True, exclude_none=True)


def _can_ask(ctx: Context) -> bool:
    capabilities = ctx.session.client_capabilities
    return capabilities is not None and capabilities.elicitation is not None
