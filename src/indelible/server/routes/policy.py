"""The policy of a tenant: read it, put another one in force, and try out what it says of a call."""

from __future__ import annotations

from dataclasses import replace

from fastapi import APIRouter, Response

from indelible.core.effects.effect import Actor
from indelible.core.remote.admitting import Caller
from indelible.engine.running import in_own_thread
from indelible.errors import IllegalMove
from indelible.server.requests import sequence
from indelible.server.requests.asking import Asking, asking
from indelible.server.requests.preconditions import etag, outdated, seen_version
from indelible.server.requests.routing import answer, resources
from indelible.server.routes.approvals import IfMatch
from indelible.server.shapes.policy import (
    EvaluationTold,
    PolicyApplied,
    PolicyShown,
    PolicyTold,
    VerdictShown,
    verdict_shown,
)
from indelible.server.speaking import prepared_for

policy: APIRouter = resources("policy")


@policy.get("/v1/policy", response_model=PolicyShown)
async def show_policy(asked: Asking = asking("read_rules")) -> Response:
    """Show the policy in force."""
    kept = await asked.ledger.policy()
    content, version = (None, None) if kept is None else kept
    return answer({"version": version, "content": content}, 200, {"ETag": etag(version or "")})


@policy.put("/v1/policy", response_model=PolicyApplied)
async def apply_policy(body: PolicyTold, if_match: IfMatch = None, asked: Asking = asking("administer")) -> Response:
    """Put a policy in force for every process of the tenant, on the record."""
    kept = await asked.ledger.policy()
    seen = seen_version(if_match, "" if kept is None else kept[1], "the policy")
    try:
        version = await asked.ledger.apply_policy(body.content, by=asked.actor, reason=body.reason, instead_of=seen)
    except IllegalMove as moved:  # by somebody else, after we looked
        if seen is None:
            raise
        raise outdated(str(moved)) from None
    headers = {"ETag": etag(version), **await sequence.of_sheet(asked, "policy", "current")}
    return answer({"version": version}, 200, headers)


@policy.post("/v1/policy/evaluate", response_model=VerdictShown)
async def evaluate(body: EvaluationTold, asked: Asking = asking("read_rules")) -> Response:
    """Tell what the policy would say of a call; nothing is recorded, asked or reserved."""
    caller: Caller = replace(asked.caller, principal=body.principal)
    prepared = prepared_for(asked.ledger, caller, Actor(body.agent, "agent", "api_key"), body)
    judged = await in_own_thread(asked.ledger._engine.judging.judge, prepared)
    return answer(verdict_shown(judged.verdict))
