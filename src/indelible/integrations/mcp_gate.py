"""MCP: a gate before the tools of any MCP server, which asks people by the protocol's own way of asking.

What a client sends along decides nothing by itself. The ledger knows which call waits for whom; an answer counts as a
person's vote only where the integrator says whose it is, and only for the digest that was shown with the question.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, cast

import mcp_types as types
from mcp.server import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from indelible import Approval, AsyncLedger, Ledger, MayHaveHappened, NothingHappened, RunningEffect
from indelible.errors import (
    ApprovalEndedUnused,
    ApprovalPending,
    EffectFailed,
    NotRun,
    StillRunning,
    StoreError,
    VoteRefused,
)
from indelible.integrations.calling_again import OPEN, meant_call_id
from indelible.integrations.mcp_words import (
    IDEMPOTENCY_KEY,
    LOOK_SCHEMA,
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
from indelible.integrations.telling import error_in
from indelible.integrations.terms import Named, Terms, asked_again

Context = ServerRequestContext[Any, Any]
Answer = types.CallToolResult | types.InputRequiredResult
_OURS, _THEIRS = "indelible:", "upstream:"
# The server says that it did not begin; anything else may have been carried out before it went wrong.
_NOT_BEGUN = frozenset({types.INVALID_PARAMS, types.METHOD_NOT_FOUND, types.INVALID_REQUEST, types.PARSE_ERROR})


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
    """Lets each tool call run at most once and with permission, whichever client asks and however often.

    Calls belong to the run `run`. `terms` says how single tools are treated, in the words of `@ledger.tool`; further
    words hold for all. With `approver`, an answer to a question in the client counts as that person's vote; without,
    it only makes us look whether somebody has decided.
    """

    def __init__(
        self,
        ledger: Ledger | AsyncLedger,
        upstream: Upstream,
        *,
        run: str,
        terms: Mapping[str, Mapping[str, Any]] | None = None,
        approver: str | None = None,
        **usual: Any,
    ) -> None:
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
        """Runs a call, replays it, asks a person, or says why not; without a context, nobody there can be asked."""
        said = _read(params)
        entry = await self._entry(params, said)
        while True:
            try:
                return entry.given(await self._ledger.run(entry.call, entry.enter, **entry.words))
            except NothingHappened as nothing:
                return entry.without_result(nothing)
            except ApprovalPending as pending:
                answer = await self._asked(ctx, params, pending, said)
                if answer is not None:
                    return answer
                said = said._replace(approval=None)  # an answer counts once; then the ledger says how it stands
            except (ApprovalEndedUnused, StillRunning) as refusal:
                if not asked_again(refusal, entry.words):
                    return not_told(f"{params.name} is being carried out by somebody else and takes long; call again")
            except EffectFailed as failed:
                return tool_error(error_in(failed))
            except NotRun as refused:
                return not_told(str(refused))
            except StoreError as down:
                raise MCPError(types.INTERNAL_ERROR, f"nothing was done, for the ledger is not there: {down}") from down
            except (ToolError, MayHaveHappened) as error:
                return entry.told_of(error)

    async def _entry(self, params: types.CallToolRequestParams, said: _Said) -> _Entry:
        tool = await self._tool(params.name)
        meta, args = dict(params.meta or {}), params.arguments or {}
        call_id = call_id_in(meta)
        if call_id is not None and not is_chosen(meta):
            found = [await self._ledger.effects(run_id=self._run, tool=tool.name, status=status) for status in OPEN]
            call_id = meant_call_id((effect for page in found for effect in page), args, call_id)
        named = Named(tool=params.name, args=args, run_id=self._run, call_id=call_id, schema=schema_of(tool))
        return _Entry(self._upstream, self._terms, named, said, meta)

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

    async def _asked(
        self, ctx: Context | None, params: types.CallToolRequestParams, pending: ApprovalPending, said: _Said
    ) -> Answer | None:
        """Gives what to answer while a person has to decide; None when somebody may have decided by now."""
        approval = pending.approval
        if said.approval is not None:  # this is the answer to our question
            return await self._counted(approval, said.digest, said.responses.get(said.approval))
        if ctx is None:
            return waits(approval)
        words = question(approval, params.arguments or {}, decides=self._approver is not None)
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


class _Entry:
    """Is one call on its way through the gate: what the ledger is asked, and what the server below gave."""

    def __init__(self, upstream: Upstream, terms: Terms, named: Named, said: _Said, meta: dict[str, Any]) -> None:
        self._upstream = upstream
        self._tool = named.tool
        self._said = said
        self._meta = meta
        self._live: types.CallToolResult | None = None
        self._asks: types.InputRequiredResult | None = None
        self.call = terms.call(named)
        self.words = terms.at_once(named.tool)

    async def enter(self, effect: RunningEffect) -> Given:
        """Calls the tool below with the recorded arguments, and hands our key on."""
        said = self._said
        try:
            result = await self._upstream.session.call_tool(
                self._tool,
                dict(effect.args),
                request_state=said.upstream,
                input_responses=dict(said.responses) if said.upstream is not None else None,
                meta=cast("types.RequestParamsMeta", {**self._meta, IDEMPOTENCY_KEY: effect.key}),
                allow_input_required=True,
            )
        except MCPError as error:
            if error.code in _NOT_BEGUN:
                raise NothingHappened(f"{self._tool} was refused before it began: {error.message}") from error
            raise MayHaveHappened(f"{self._tool}: {error.message}") from error
        except Exception as error:  # the line broke, or what came over it cannot be read
            raise MayHaveHappened(f"{self._tool}: no answer ({type(error).__name__})") from error
        if isinstance(result, types.InputRequiredResult):
            self._asks = result
            raise NothingHappened(f"{self._tool} asks for something before it begins")
        if result.is_error:
            raise ToolError(text_of(result))
        self._live = result
        return kept(result)

    def given(self, recorded: Any) -> types.CallToolResult:
        """Gives what the tool gave, now or when it ran."""
        return self._live if self._live is not None else given(recorded)

    def without_result(self, nothing: NothingHappened) -> Answer:
        """Hands on what the server below asks for; else says that nothing was done."""
        if self._asks is None:
            return tool_error(f"{nothing}; nothing was done, and calling again is safe")
        state = f"{_THEIRS}{self._asks.request_state or ''}"
        return types.InputRequiredResult(input_requests=self._asks.input_requests, request_state=state)

    def told_of(self, error: Exception) -> types.CallToolResult:
        """Says what became of a call that did not end well."""
        if isinstance(error, ToolError):
            return tool_error(str(error))
        return not_told(
            f"{error}: it may have happened, so it is not repeated; a person settles it: indelible effects list"
        )


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
