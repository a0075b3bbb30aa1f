"""What a run lets its calls do: only the tools it names, and nothing outside the ledger in a dry run."""

from __future__ import annotations

from dataclasses import replace
from fnmatch import fnmatchcase

from indelible.core.effects.calls import HARMLESS, SideEffect, ToolCall, is_own_record
from indelible.core.effects.compensations import COMPENSATION
from indelible.core.effects.identity import identify
from indelible.core.effects.requests import Origin
from indelible.core.policy.verdicts import ALLOWED_TOOLS_RULE, Verdict
from indelible.core.runs.run import Run

DRY_RUN_RULE = "dry run of a fork"


def limit_on(run: Run, tool: str, side_effect: SideEffect) -> Verdict | None:
    """Gives the refusal of a call that its run does not let happen, or None when it does.

    Whoever may use a tool may also make good what it did.
    """
    if is_own_record(tool, side_effect):
        return None
    name = tool.removesuffix(COMPENSATION)
    if run.allowed_tools is not None and not any(fnmatchcase(name, allowed) for allowed in run.allowed_tools):
        why = f"run {run.id} may use {', '.join(run.allowed_tools) or 'no tool'}"
        return Verdict(decision="refuse", rule=ALLOWED_TOOLS_RULE, why=why)
    if run.fork is not None and run.fork.is_dry and side_effect not in HARMLESS:
        why = f"it is not on the record of {run.fork.run_id}, and nothing outside is touched here"
        return Verdict(decision="refuse", rule=DRY_RUN_RULE, why=why)
    return None


def origin_of(run: Run, call: ToolCall, tenant: str, args_json: bytes) -> Origin | None:
    """Gives where a call stands in the run its own was forked from; a call with a scope of its own is found anyway."""
    if run.fork is None or call.scope is not None:
        return None
    there = identify(replace(call, run_id=run.fork.run_id), tenant, args_json=args_json)
    return Origin(there.ref, run.fork.run_id, run.fork.at)
