"""What a run lets its calls do: only the tools it names, and nothing outside the ledger in a dry run."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from indelible.core.effects.calls import COMPENSATION, HARMLESS, SideEffect, ToolCall, is_own_record
from indelible.core.effects.identity import identify
from indelible.core.effects.requests import Origin
from indelible.core.policy.verdicts import ALLOWED_TOOLS_RULE, Verdict
from indelible.core.runs.run import Run
from indelible.core.values.canonical import encode
from indelible.errors import BadCall

DRY_RUN_RULE = "dry run of a fork"
_WILD = frozenset("*?[")


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


def within(wanted: Sequence[str] | None, limit: Sequence[str] | None) -> Sequence[str] | None:
    """Return the tools that a delegated run may use: those that are wanted, and none that its parent may not use.

    Args:
        wanted: Names of tools, or patterns as in `crm.*`. Default: all that the parent may use.
        limit: What the parent may use; None for all tools.

    Raises:
        BadCall: The parent may not use all that is wanted.
    """
    if wanted is None or limit is None:
        return limit if wanted is None else wanted
    beyond = _beyond(wanted, limit)
    if beyond:
        may = ", ".join(limit) or "no tool"
        raise BadCall(f"allowed_tools: this run may use {may}, so it cannot let another run use {', '.join(beyond)}")
    return wanted


def is_within(tools: Sequence[str] | None, limit: Sequence[str] | None) -> bool:
    """Return whether a run that may use some tools may use none that a limit does not name; None stands for all."""
    return limit is None or (tools is not None and not _beyond(tools, limit))


def _beyond(wanted: Sequence[str], limit: Sequence[str]) -> list[str]:
    return [one for one in wanted if not any(_covers(allowed, one) for allowed in limit)]


def _covers(allowed: str, wanted: str) -> bool:
    """Say whether one pattern allows all that another one does, as far as that is plain to see."""
    if not _WILD & set(wanted):
        return fnmatchcase(wanted, allowed)
    before, star, after = allowed.partition("*")
    return allowed == wanted or (star == "*" and not after and not _WILD & set(before) and wanted.startswith(before))


def child_id(parent: str, agent: str, intent: str, name: str | None = None) -> str:
    """Return the id of the run that a run delegates to: the same whenever it delegates the same again.

    It must not depend on how often a process has delegated: a run that is resumed from a checkpoint counts anew.
    """
    said = encode([parent, agent, intent, 1 if name is None else name])
    return f"run_{hashlib.sha256(said).hexdigest()[:28]}"


def origin_of(run: Run, call: ToolCall, tenant: str, args_json: bytes) -> Origin | None:
    """Gives where a call stands in the run its own was forked from; a call with a scope of its own is found anyway."""
    if run.fork is None or call.scope is not None:
        return None
    there = identify(replace(call, run_id=run.fork.run_id), tenant, args_json=args_json)
    return Origin(there.ref, run.fork.run_id, run.fork.at)
