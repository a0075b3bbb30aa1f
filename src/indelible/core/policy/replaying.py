"""What a policy would have said of calls that were recorded, and where that differs from what was said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from indelible.core.effects.calls import SideEffect
from indelible.core.events import Event
from indelible.core.policy.charging import is_budget
from indelible.core.policy.policy import Asked, Policy
from indelible.core.policy.verdicts import REPEAT_RULE, TOOL_RULE, Decision, Verdict
from indelible.core.values.canonical import decode

JUDGED_TYPES = frozenset({"tool_call_started", "approval_requested", "policy_checked"})
"""Names the events before which a call was judged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCall:
    """Is a call as an event tells it, and what was said of it then; what cannot be had any more is None."""

    run_id: str
    seq: int
    at: datetime
    effect_id: str | None
    tool: str
    side_effect: SideEffect
    agent: str
    args: Mapping[str, Any] | None = field(repr=False)
    decision: Decision | None
    rule: str
    policy: str

    @property
    def can_be_judged(self) -> bool:
        """Is everything there that it takes to judge it, and to compare?"""
        return self.args is not None and self.decision is not None

    @property
    def was_over_budget(self) -> bool:
        """Was it a budget that refused it? What budgets held then is not to be had again."""
        return self.decision == "refuse" and is_budget(self.rule)


@dataclass(frozen=True, slots=True)
class Overturned:
    """Is a call of which a policy says something else than was said."""

    call: RecordedCall
    verdict: Verdict


def recorded_call(event: Event, payloads: Mapping[str, bytes]) -> RecordedCall | None:
    """Reads the call that an event tells of; None for an event that is about something else.

    `payloads` are the values it commits to that can be had. An attempt after an approval was judged too, and is left
    out: its call is told by the event that asked.
    """
    if event.type not in JUDGED_TYPES:
        return None
    content = event.read()
    commits = content["commits"]
    if "args" not in commits and event.type != "policy_checked":
        return None
    told = content.get("facts", content)
    said = _said(event.type, commits, payloads)
    args: Any = decode(payloads["args"]) if "args" in payloads else None
    return RecordedCall(
        run_id=event.run_id,
        seq=event.seq,
        at=datetime.fromisoformat(content["at"]),
        effect_id=event.effect_id,
        tool=told["tool"],
        side_effect=told["side_effect"],
        agent=content["actor"]["id"],
        args=args if isinstance(args, dict) else None,
        decision=said.get("decision"),
        rule=said.get("rule", ""),
        policy=said.get("policy", ""),
    )


def _said(event_type: str, commits: Mapping[str, str], payloads: Mapping[str, bytes]) -> Mapping[str, Any]:
    """Gives the verdict on record, nothing when it was erased; without one, only the tool itself may have asked."""
    if "policy" in commits:
        said: Any = decode(payloads["policy"]) if "policy" in payloads else None
        return said if isinstance(said, dict) else {}
    return {"decision": "ask", "rule": TOOL_RULE} if event_type == "approval_requested" else {"decision": "allow"}


def asked_again(call: RecordedCall, policy: Policy, tenant: str, environment: str) -> Asked:
    """Gives a recorded call to be judged. Its schema is not on the record, so the one that is pinned is assumed."""
    assert call.args is not None, "a call without arguments cannot be judged"
    declared = (policy.parts.tools or {}).get(call.tool)
    return Asked(
        tenant=tenant,
        tool=call.tool,
        side_effect=call.side_effect,
        agent=call.agent,
        principal=None,
        run_id=call.run_id,
        environment=environment,
        args=call.args,
        schema="" if declared is None else declared.schema or "",
    )


def changed(call: RecordedCall, policy: Policy, tenant: str, environment: str) -> Overturned | None:
    """Gives what the policy says otherwise of a call; None when it decides the same.

    What asks by itself, a tool or a repeat, asks under every policy that allows.
    """
    verdict = policy.judge(asked_again(call, policy, tenant, environment))
    decision: Decision = verdict.decision
    if decision == "allow" and call.rule in (TOOL_RULE, REPEAT_RULE):
        decision = "ask"
    return None if decision == call.decision else Overturned(call, verdict)
