"""Who may do what: the one table of rights, for every door. Pure.

The server's routes, the commands that clients send, the OpenAPI document and the page in the docs are made from it. A
program that opened the ledger itself has no credential: it acts as it says, and so do probes and signed webhooks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from indelible.core.commands import (
    Adopt,
    Amend,
    Answer,
    Attend,
    Cancel,
    CastVote,
    Command,
    Expire,
    Finish,
    Forbidden,
    Keep,
    Open,
    Record,
    Relinquish,
    Reopen,
    Settle,
    ShowTo,
    TakeBack,
)
from indelible.core.effects.effect import Actor, Claim, Effect, Status, asked_by
from indelible.core.runs.commands import EndRun, SealCheckpoint, StartRun, TakeRun, Tell
from indelible.core.scopes import Scope
from indelible.errors import NotPermitted

Reach = Literal["any", "own", "claim", "driven"]
REACHES: Mapping[Reach, str] = {
    "any": "all of the tenant's",
    "own": "only calls that the same principal made and that were never entered",
    "claim": "only attempts that the same principal claimed, with their token",
    "driven": "only runs that an agent of this name drives or drove last, or with the driver's token",
}
"""Says what each reach covers."""

VerbName = Literal[
    "call",
    "report",
    "cancel",
    "settle",
    "retry",
    "reconcile",
    "decide",
    "permit",
    "lapse",
    "drive_runs",
    "end_runs",
    "read",
    "read_rules",
    "audit",
    "administer",
]


@dataclass(frozen=True, slots=True)
class Verb:
    """Says of one thing to do who may do it, and to which effects.

    Attributes:
        means: What it is, for the docs.
        by: How far each scope reaches. `admin` reaches as far as any other, and is left out where that is all.
        states: The statuses from which it moves an effect. Empty: it moves none.
    """

    means: str
    by: Mapping[Scope, Reach]
    states: tuple[Status, ...] = ()

    @property
    def scopes(self) -> frozenset[Scope]:
        """Return the scopes of which one is needed."""
        return frozenset({*self.by, "admin"})

    def reach(self, scope: Scope) -> Reach | None:
        """Return how far a scope reaches; None if it does not have this right."""
        if scope == "admin" and "admin" not in self.by:
            return "claim" if "claim" in self.by.values() else "any"
        return self.by.get(scope)


_EVERYONE: Mapping[Scope, Reach] = {"agent": "any", "approver": "any", "auditor": "any"}

RIGHTS: Mapping[VerbName, Verb] = {
    "call": Verb("begin a tool call, or call a tool of the server", {"agent": "any"}, ("requires_approval", "ready")),
    "report": Verb(
        "commit, release or keep alive an attempt; a late report of the newest attempt resolves its doubt",
        {"agent": "claim"},
        ("processing", "in_doubt"),
    ),
    "cancel": Verb("withdraw a call", {"agent": "own", "approver": "any"}, ("requires_approval", "ready")),
    "settle": Verb("say what became of an effect in doubt, one or many", {"approver": "any"}, ("in_doubt",)),
    "retry": Verb("allow another attempt", {"approver": "any"}, ("in_doubt", "failed")),
    "reconcile": Verb("ask the probes of the server's tools about effects in doubt", {"approver": "any"}),
    "decide": Verb(
        "look at an approval on the record, approve, deny, edit, take back",
        {"approver": "any"},
        ("requires_approval", "ready"),
    ),
    "permit": Verb("delegate, end a delegation, end a grant", {"approver": "any"}),
    "lapse": Verb(
        "mark what is overdue by the store's clock: an expired approval, a lost lease",
        {"agent": "any", "approver": "any"},
        ("requires_approval", "ready", "processing"),
    ),
    "drive_runs": Verb("start, resume and fork runs; record events and checkpoints; export a packet", {"agent": "any"}),
    "end_runs": Verb("complete, fail or cancel a run; its effects stay", {"agent": "driven", "approver": "any"}),
    "read": Verb("see effects, approvals, runs, events and the journal; one's own sessions and passkeys", _EVERYONE),
    "read_rules": Verb("see policy, grants, delegations and statistics", {"approver": "any", "auditor": "any"}),
    "audit": Verb("export, verify the journal, read metrics, list people and API keys", {"auditor": "any"}),
    "administer": Verb(
        "apply a policy, stop and go, erase, import packets, take over a run that was set aside; people and API keys",
        {},
    ),
}
"""Is the table of rights."""

OF_APPROVERS = frozenset({"grant_ended", "delegation_given", "delegation_ended"})
"""Names the facts that approvers record: permissions that they give in their own name, and those that end."""

_VERBS: Mapping[type, VerbName] = {
    Open: "call",
    Finish: "report",
    Relinquish: "report",
    Cancel: "cancel",
    Settle: "settle",
    Reopen: "retry",
    CastVote: "decide",
    TakeBack: "decide",
    Amend: "decide",
    ShowTo: "decide",
    Attend: "lapse",
    Expire: "lapse",
    StartRun: "drive_runs",
    Tell: "drive_runs",
    SealCheckpoint: "drive_runs",
    TakeRun: "drive_runs",
    EndRun: "end_runs",
    Adopt: "administer",
    Record: "administer",
    Keep: "administer",
}


def verb_of(command: Command) -> VerbName:
    """Return what a command does."""
    if isinstance(command, TakeRun) and command.is_forced:
        return "administer"  # the run was set aside for a person to look at
    if isinstance(command, Attend) and command.channels:
        return "administer"  # it writes messages, as a `Keep` of one does
    if isinstance(command, Keep) and command.sheet.kind == "driver":
        return "drive_runs"  # a heartbeat of the run's driver
    if isinstance(command, Record) and command.event_type in OF_APPROVERS:
        return "permit"
    return _VERBS[type(command)]


def why_forbidden(command: Command, effect: Effect) -> str | None:
    """Say why a caller may not do this to an effect; None if the caller may.

    Decided on the effect as the transaction sees it: what was never entered may be entered a moment later.
    """
    actor, name = command.stamp.actor, verb_of(command)
    if actor.authenticated is None:
        return None
    reaches = {RIGHTS[name].reach(scope) for scope in actor.authenticated.scopes}
    if "any" in reaches or ("own" in reaches and is_own(actor, effect)):
        return None
    if "claim" in reaches and isinstance(command, Finish | Relinquish):
        return None if may_hold(command.claim, actor, effect) else _not_held(command.claim)
    if "own" in reaches:
        return "is not a call of this credential that was never entered; a person withdraws it: scope approver"
    needed = " or ".join(sorted(RIGHTS[name].scopes))
    return f"cannot be moved by this credential: the right {name} needs the scope {needed}"


def may_end_run(actor: Actor, driven_by: str | None) -> bool:
    """Say whether a caller without the driver's token may end a run.

    Args:
        actor: The caller.
        driven_by: The name of the run's last driver, or None if there was none.
    """
    known = actor.authenticated
    reaches = set() if known is None else {RIGHTS["end_runs"].reach(scope) for scope in known.scopes}
    return known is None or "any" in reaches or ("driven" in reaches and driven_by in (None, actor.id))


def permitted(answer: Answer) -> Answer:
    """Return an answer; raise `NotPermitted` for the one that says that the caller may not."""
    if isinstance(answer, Forbidden):
        raise NotPermitted(f"{answer.effect.tool}: {answer.effect.id} {answer.why}")
    return answer


def held_claim(claim: Claim, actor: Actor | None, effect: Effect) -> Claim:
    """Return a claim as its holder's, where no command says who sends it; raise `NotPermitted` if it is another's.

    Args:
        claim: The claim as it was sent.
        actor: Who sends it, or None for a part of this program.
        effect: The effect as it stands.
    """
    if actor is None or actor.authenticated is None:
        return claim
    if not may_hold(claim, actor, effect):
        raise NotPermitted(f"{effect.tool}: {effect.id} {_not_held(claim)}")
    return replace(claim, holder=actor.holder)


def _not_held(claim: Claim) -> str:
    return f"has no attempt {claim.attempt} that this credential claimed with this token"


def is_own(actor: Actor, effect: Effect) -> bool:
    """Say whether this principal made the call, and it was never entered."""
    return effect.attempt == 0 and effect.token_hash == asked_by(actor.holder)


def may_hold(claim: Claim, actor: Actor, effect: Effect) -> bool:
    """Say whether a claim may be the actor's. Of an older attempt nothing is kept to compare with."""
    return claim.attempt < effect.attempt or is_newest(claim, actor, effect)


def is_newest(claim: Claim, actor: Actor, effect: Effect) -> bool:
    """Say whether this is the claim of the newest attempt, reported by its holder."""
    bound = replace(claim, holder=actor.holder) if actor.holder else claim
    return bound.attempt == effect.attempt and bound.token_hash == effect.token_hash
