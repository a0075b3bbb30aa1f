"""The server's own tools as resources: what there is, and one call of one of them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Path, Response
from pydantic import BaseModel, Field

from indelible.core.events import instant
from indelible.core.remote.shown import plainly
from indelible.errors import ApprovalPending
from indelible.server.gateway import CallAsked
from indelible.server.gateway_tools import GatewayTool
from indelible.server.requests.asking import Asking, asking
from indelible.server.requests.routing import answer, resources
from indelible.server.shapes.approvals import ApprovalShown, approval_shown

tools = resources("tools")
ToolName = Annotated[str, Path(description="The name of a tool that runs at the server.")]


class ToolShown(BaseModel):
    """Is a tool that the server runs, as agents may know it."""

    name: str
    description: str
    schema_: Annotated[dict[str, Any] | None, Field(serialization_alias="schema")]
    schema_hash: str
    side_effect: str
    needs_approval: bool


class ToolPage(BaseModel):
    """Lists tools."""

    tools: list[ToolShown]


class Called(BaseModel):
    """What came of a call. `replayed` says that the tool was not run by this request; `created_at`, when it was asked.

    `effect_id` and `created_at` are null if the answer comes from the run that this one was forked from.
    """

    status: Literal["succeeded", "failed"]
    value: Any = None
    error: str | None = None
    replayed: bool
    effect_id: str | None
    created_at: str | None


class CallPending(BaseModel):
    """Is a call that waits for people."""

    status: Literal["requires_approval"]
    approval: ApprovalShown


@tools.get("/v1/tools")
async def list_tools(asked: Asking = asking("read")) -> ToolPage:
    """List the tools that the server runs, with what they take."""
    return ToolPage(tools=[_shown(tool) for tool in asked.ledgers.gateway.tools.values()])


def _shown(tool: GatewayTool) -> ToolShown:
    return ToolShown(
        name=tool.name,
        description=tool.description,
        schema_=None if tool.schema is None else dict(tool.schema),
        schema_hash=tool.schema_hash,
        side_effect=tool.words.get("side_effect") or "external_mutation",
        needs_approval=tool.words.get("approval") == "required",
    )


_PENDING: dict[int | str, dict[str, Any]] = {202: {"model": CallPending, "description": "Somebody has to decide."}}


@tools.post("/v1/tools/{tool:path}/calls", response_model=Called, responses=_PENDING)
async def call_tool(tool: ToolName, body: CallAsked, asked: Asking = asking("call")) -> Response:
    """Have a tool run here, once: 200 with what came of it now or before, 202 with the question that is open."""
    gateway = asked.ledgers.gateway
    found = gateway.find(tool)
    try:
        came = await gateway.run(asked.ledger, asked.caller, asked.actor, found, body, asked.check_still_let_in)
    except ApprovalPending as pending:
        return answer({"status": "requires_approval", "approval": approval_shown(pending.approval)}, 202)
    shown = {
        "status": "succeeded" if came.error is None else "failed",
        "value": plainly(came.value),
        "error": came.error,
        "replayed": came.replayed,
        "effect_id": None if came.effect is None else came.effect.id,
        "created_at": None if came.effect is None else instant(came.effect.created_at),
    }
    return answer(shown, 200, {"Idempotent-Replayed": "true"} if came.replayed else None)
