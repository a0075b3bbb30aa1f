"""MCP: a gate before the tools of any MCP server, which asks people by the protocol's own way of asking.

What a client sends along decides nothing by itself. The ledger knows which call waits for whom; an answer counts as a
person's vote only where the integrator says whose it is, and only for the digest that was shown with the question.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple, Protocol, cast
from uuid import uuid4

import mcp_types as types
from mcp.server import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from indelible import Approval, AsyncLedger, Ledger, NothingHappened, Resource, RunningEffect, ToolCall
from indelible.errors import ApprovalPending, BadCall, IndelibleError, NotRun, VoteRefused
from indelible.integrations.calling_again import OPEN, meant
from indelible.integrations.entries import Entry
from indelible.integrations.mcp_words import (
    IDEMPOTENCY_KEY,
    LOOK_SCHEMA,
    TURN,
    VOTE_SCHEMA,
    Given,
    call_id_in,
    given,
    is_chosen,
    kept,
    not_told,
    question,
    schema_of,
    text_of,
    tool_error,
    waits,
)
from indelible.integrations.results import ToolError
from indelible.integrations.telling import TEXTS, heard_of
from indelible.integrations.terms import Named, Terms, asked_args

Context = ServerRequestContext[Any, Any]
Answer = types.CallToolResult | types.InputRequiredResult
_OURS, _THEIRS = "indelible:", "upstream:"


class _Said(NamedTuple):
    """Is what came along with a call: an answer to our own question, or one that the server below us asked for."""

    approval: str | None
    digest: str | None
    upstream: str | None
    responses: Mapping[str, Any]


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
        usual: The words of `terms` for all tools.
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
        **usual: Any,
    ) -> None:
        self._turn = turn
        self._ledger = ledger.awaited
        self._upstream = upstream
        self._run = run
        self._terms = Terms(terms, usual)
        self._approver = approver
        self._tools: dict[str, types.Tool] = {}

    async def list_tools(self, ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        """Lists the tools as the server below tells them; what it says of their safety is not believed."""
        return await self._listed(params)

    async def _listed(self, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        found: types.ListToolsResult = await self._upstream.session.list_tools(params=params)
        self._tools.update({tool.name: tool for tool in found.tools})
        return found

    async def call_tool(self, ctx: Context | None, params: types.CallToolRequestParams) -> Answer:
        """Run a call, replay it, ask a person, or say why not; without a context, the client cannot be asked."""
        said = _read(params)
        try:
            entry = await self._entry(params, said)
        except BadCall as misfit:
            return tool_error(f"{params.name} was not called: {misfit}")
        while True:
            answer: Answer | ApprovalPending | None = await entry.walk_async(self._ledger, entry.words)
            if isinstance(answer, ApprovalPending):
                answer = await self._asked(ctx, entry, answer, said)
                said = said._replace(approval=None)  # an answer counts once; then the ledger says how it stands
            if answer is not None:
                return answer

    async def _entry(self, params: types.CallToolRequestParams, said: _Said) -> _Entry:
        tool, meta = await self._tool(params.name), dict(params.meta or {})
        turn = meta.get(TURN)
        named = Named(
            tool=params.name,
            args=params.arguments or {},
            run_id=self._run,
            call_id=call_id_in(meta) or self._new_id(params.name),
            schema=schema_of(tool),
            turn=None if is_chosen(meta) else turn if isinstance(turn, str) and turn else self._turn,
            parameters=tool.input_schema,
        )
        call = await self._meant(self._terms.call(named), meta)
        return _Entry(self._upstream, call, self._terms.at_once(call.tool), said, meta)

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
        return meant(call, (effect for page in found for effect in page))

    async def _tool(self, name: str) -> types.Tool:
        """Finds a tool; what the server below does not list is not called."""
        cursor: str | None = None
        while name not in self._tools:
            page = await self._listed(types.PaginatedRequestParams(cursor=cursor))
            cursor = page.next_cursor
            if name not in self._tools and cursor is None:
                raise MCPError(types.INVALID_PARAMS, f"no tool is named {name!r}; see: tools/list")
        return self._tools[name]

    def forget_tools(self) -> None:
        """Reads the tools again before the next call: the server below said that they changed."""
        self._tools.clear()

    async def _asked(self, ctx: Context | None, entry: _Entry, pending: ApprovalPending, said: _Said) -> Answer | None:
        """Gives what to answer while a person has to decide; None when somebody may have decided by now."""
        approval = pending.approval
        if said.approval is not None:  # this is the answer to our question
            return await self._counted(approval, said.digest, said.responses.get(said.approval))
        if ctx is None:
            return waits(approval)
        words = question(approval, asked_args(pending), entry.elsewhere, decides=self._approver is not None)
        schema = VOTE_SCHEMA if self._approver is not None else LOOK_SCHEMA
        if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            asks = types.ElicitRequest(params=types.ElicitRequestFormParams(message=words, requested_schema=schema))
            state = f"{_OURS}{approval.id}:{approval.digest}"
            return types.InputRequiredResult(input_requests={approval.id: asks}, request_state=state)
        if not _can_ask(ctx):
            return waits(approval)
        answer = await ctx.session.elicit_form(words, schema, related_request_id=ctx.request_id)
        return await self._counted(approval, approval.digest, answer)

    async def _counted(self, approval: Approval, digest: str | None, answer: Any) -> Answer | None:
        """Casts the vote that an answer is; None when the call is worth walking again."""
        if not isinstance(answer, types.ElicitResult) or answer.action == "cancel":
            return waits(approval)
        if self._approver is None or digest is None:  # whoever decides does so elsewhere; accepting means: look again
            return None if answer.action == "accept" else waits(approval)
        chosen = answer.content or {}
        is_approval = answer.action == "accept" and chosen.get("decision") == "approve"
        reason = str(chosen.get("reason") or ("approved" if is_approval else "declined") + " in the MCP client")
        verb = self._ledger.approve if is_approval else self._ledger.deny
        try:
            await verb(approval.id, digest=digest, by=self._approver, reason=reason)
        except VoteRefused as refused:
            return not_told(f"the answer does not count: {refused}")
        return None


class _Entry(Entry):
    """One call on its way through the gate: what the ledger is asked, and what the server below gave."""

    def __init__(
        self, upstream: Upstream, call: ToolCall, words: dict[str, Any], said: _Said, meta: dict[str, Any]
    ) -> None:
        super().__init__(call)
        self.words = words
        self._was_entered = False
        self._upstream = upstream
        self._said = said
        self._meta = meta
        self._live: types.CallToolResult | None = None
        self._asks: types.InputRequiredResult | None = None

    async def enter(self, effect: RunningEffect) -> Given:
        """Call the tool below with the recorded arguments, and hand our key on. No error proves that nothing began."""
        said, self._was_entered = self._said, True
        with self.running(effect):
            result = await self._upstream.session.call_tool(
                self.call.tool,
                dict(effect.args),
                request_state=said.upstream,
                input_responses=dict(said.responses) if said.upstream is not None else None,
                meta=cast("types.RequestParamsMeta", {**self._meta, IDEMPOTENCY_KEY: effect.key}),
                allow_input_required=True,
            )
            if isinstance(result, types.InputRequiredResult):
                self._asks = result
                raise NothingHappened(f"{self.call.tool} asks for something before it begins")
            if result.is_error:
                raise ToolError(text_of(result))
        self._live = result
        return kept(result)

    def given(self, recorded: Any) -> types.CallToolResult:
        """Return what the tool gave, now or when it ran."""
        return self._live if self._live is not None else given(recorded, self.note)

    def told_of(self, refusal: Exception, error: Exception) -> Answer | ApprovalPending:
        """Return what the client is told of a call without a result, or the question that is open."""
        if isinstance(refusal, ApprovalPending):
            return refusal
        if self._asks is not None and isinstance(refusal, NothingHappened):
            state = f"{_THEIRS}{self._asks.request_state or ''}"
            return types.InputRequiredResult(input_requests=self._asks.input_requests, request_state=state)
        heard = heard_of(refusal, self.call.tool)
        if heard is not None:
            return tool_error(heard.text) if heard.outcome == "failed" else not_told(heard.text)
        if isinstance(refusal, NotRun):
            return not_told(str(refusal))
        if isinstance(refusal, IndelibleError) and self._was_entered:  # what came of it could not be recorded
            return not_told(TEXTS["in_doubt"].format(tool=self.call.tool, effect="not recorded"))
        if isinstance(refusal, IndelibleError):
            raise MCPError(types.INTERNAL_ERROR, f"{self.call.tool} was not carried out: {refusal}") from refusal
        raise error


def _read(params: types.CallToolRequestParams) -> _Said:
    """Reads what came along with a call; a state that is not ours or the server's below is none."""
    state, responses = params.request_state or "", dict(params.input_responses or {})
    if state.startswith(_OURS):
        approval, _, digest = state.removeprefix(_OURS).partition(":")
        return _Said(approval, digest, None, responses)
    if state.startswith(_THEIRS):
        return _Said(None, None, state.removeprefix(_THEIRS), responses)
    return _Said(None, None, None, {})


def _can_ask(ctx: Context) -> bool:
    capabilities = ctx.session.client_capabilities
    return capabilities is not None and capabilities.elicitation is not None
