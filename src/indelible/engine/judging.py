"""Asks the policies about each call: the one this process was opened with, and the one kept in the ledger.

The ledger's own is looked up again at times, so that a stricter one takes hold in every process soon after it was
applied. A policy that cannot be looked up or read lets nothing run.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from indelible.core.approvals.approval import Question
from indelible.core.approvals.grants import pinned_digest, read_grant
from indelible.core.effects.calls import Handling
from indelible.core.effects.from_arguments import resource_of
from indelible.core.effects.identity import resource_name
from indelible.core.effects.requests import Judged, Prepared
from indelible.core.effects.tightening import at_least
from indelible.core.paging import read_sheet
from indelible.core.policy.verdicts import (
    ALLOWED,
    Charge,
    Verdict,
    asked_besides,
    asked_by_tool,
    capped,
    is_of_the_call,
    keeping,
)
from indelible.core.ports import Store
from indelible.core.sheets import POLICY_REF, Sheet, SheetFilter
from indelible.core.values.canonical import decode
from indelible.forks import after_fork
from indelible.runs.limits import RunLimits

if TYPE_CHECKING:
    from indelible.core.policy.policy import Asked, Policy

LOOK_EVERY = 0.5
_PASSED = Judged(ALLOWED)
_UNREADABLE = "the stored policy cannot be read"
_VANISHED = "the stored policy is gone or was changed by a hand in the database; see: indelible verify"
_MOST_GRANTS = 200


class _Unreadable(NamedTuple):
    """Stands in the place of a stored policy that cannot be read."""

    why: str


class Judging:
    """Gives the verdict on each call of a ledger."""

    def __init__(
        self,
        store: Store,
        tenant: str,
        policy: Policy | None = None,
        environment: str = "",
    ) -> None:
        self._store = store
        self._tenant = tenant
        self._own = policy
        self._environment = environment
        # One name for both, so that no other thread sees a moment with neither.
        self._stored: Policy | _Unreadable | None = None
        self._stored_on: Sheet | None = None
        self._limits = RunLimits(store, tenant)
        self._start()
        after_fork(self._start)

    def _start(self) -> None:
        self._lock = threading.Lock()
        self._looked_at: float | None = None

    @property
    def is_due(self) -> bool:
        """Is it time to look the stored policy up?"""
        return self._looked_at is None or time.monotonic() - self._looked_at > LOOK_EVERY

    def may_block(self, prepared: Prepared, *, waited: bool = False) -> bool:
        """May judging this call have to wait for the store, or for somebody's rule?"""
        has_rules = self._own is not None or self._stored is not None or self._limits.are_any
        return self.is_due or has_rules or (prepared.handling.needs_approval and not waited)

    def refresh(self) -> None:
        """Looks the stored policy up; what cannot be looked up is raised, so that nothing runs meanwhile."""
        with self._lock:
            if not self.is_due:
                return
            self._take(read_sheet(self._store, self._tenant, POLICY_REF))
            self._limits.refresh()
            self._looked_at = time.monotonic()

    def forget(self) -> None:
        """Lets the next call look the stored policy up."""
        self._looked_at = None

    def _take(self, sheet: Sheet | None) -> None:
        if sheet is None or sheet.body is None:  # without a body: its row is not believed
            self._stored = _Unreadable(_VANISHED) if sheet is not None or self._stored_on is not None else None
            return
        # Not by its number: that comes again, with another policy, after a database was put back.
        if sheet == self._stored_on and not isinstance(self._stored, _Unreadable):
            return
        from indelible.core.policy.policy import policy_of  # only where there is a policy

        try:
            self._stored = policy_of(sheet.read()["content"])
        except Exception as problem:  # whatever is wrong with it, it lets nothing run
            self._stored = _Unreadable(f"{type(problem).__name__}: {problem}")
        self._stored_on = sheet

    def judge(self, prepared: Prepared, *, waited: bool = False) -> Judged:
        """Gives the verdict on a call, and the standing grants that may cover one that has not `waited` for people."""
        if self.is_due:
            self.refresh()
        handling = self._declared(prepared)
        if handling is not None:
            prepared = prepared.treated(handling)
        judged = self._judge(prepared, waited)
        if self._limits.are_compensations:
            judged = replace(judged, may_be_compensated=True)
        return judged if handling is None else replace(judged, handling=handling)

    def _declared(self, prepared: Prepared) -> Handling | None:
        """Return how the call is treated as a policy declares its tool; None if none declares a stronger class."""
        handling = prepared.handling
        for policy in (self._own, self._stored):
            if policy is not None and not isinstance(policy, _Unreadable):
                declared = policy.class_of(prepared.call.tool)
                handling = handling if declared is None else at_least(handling, declared)
        if handling is prepared.handling:
            return None
        said = prepared.handling.judged_as or (prepared.handling.side_effect,)
        return replace(handling, judged_as=tuple(dict.fromkeys((*said, handling.side_effect))))

    def _judge(self, prepared: Prepared, waited: bool) -> Judged:
        if not self._limits.are_any:
            return self._judged(prepared, waited)
        refused = self._limits.verdict_on(prepared)
        judged = self._judged(prepared, waited) if refused is None else Judged(refused)
        knows = self._limits.are_known_of(prepared.call.run)
        return replace(judged, origins=self._limits.origins_of(prepared), knows_limits=knows)

    def judge_besides(self, prepared: Prepared, said: Verdict) -> Judged:
        """Gives the verdict on a call that another process has judged by its own rules: nobody's condition is lost."""
        judged = self.judge(prepared)
        if said == ALLOWED:
            return judged
        from indelible.core.policy.policy import strictest

        asked = asked_besides(judged.verdict, said.rule, judged.terms) if is_of_the_call(said) else said
        verdict = capped(strictest([judged.verdict, asked]), judged.caps)
        if verdict.question is not None:
            verdict = replace(verdict, question=_told_besides(verdict.question, judged, said))
        return replace(judged, verdict=verdict, grants=self._grants(prepared, verdict))

    def _judged(self, prepared: Prepared, waited: bool) -> Judged:
        verdict, terms = ALLOWED, None
        if self._own is not None or self._stored is not None:
            verdict, terms = self.verdict_on(prepared), self._terms()
        caps = self._caps(prepared)
        if prepared.handling.needs_approval:
            verdict = capped(asked_by_tool(verdict, terms), caps)
        verdict = keeping_resource(verdict, prepared)
        if verdict is ALLOWED and not self._environment:
            return _PASSED
        grants = {} if waited else self._grants(prepared, verdict)
        return Judged(verdict, grants, terms=terms, caps=caps, environment=self._environment)

    def _terms(self) -> Question | None:
        """Gives the terms on which the policies ask where no rule says more: all of them are met together."""
        from indelible.core.policy.policy import Policy, strictest

        policies = [policy for policy in (self._own, self._stored) if isinstance(policy, Policy)]
        return strictest([Verdict(decision="ask", question=policy.parts.asks) for policy in policies]).question

    def verdict_on(self, prepared: Prepared, args_json: bytes | None = None, environment: str | None = None) -> Verdict:
        """Return what the policies say of a call.

        Args:
            prepared: The call.
            args_json: Other arguments than its own.
            environment: Another environment than this process runs in.
        """
        from indelible.core.policy.policy import strictest

        stored = self._stored
        if isinstance(stored, _Unreadable):
            return Verdict(decision="refuse", rule=_UNREADABLE, policy=_UNREADABLE, why=stored.why)
        policies = [policy for policy in (self._own, stored) if policy is not None]
        if not policies:
            return ALLOWED
        asked = self._asked(prepared, args_json)
        if environment is not None:
            asked = replace(asked, environment=environment)
        # Whichever class the call is said to be of: no option lowers what the policy says of another one.
        classes = prepared.handling.judged_as or (asked.side_effect,)
        verdicts = [policy.judge(replace(asked, side_effect=each)) for policy in policies for each in classes]
        return capped(strictest(verdicts), self._caps(prepared))

    def _caps(self, prepared: Prepared) -> tuple[Charge, ...]:
        """Gives what a question about this call takes of how many may be open."""
        if self._own is None and self._stored is None:
            return ()
        policies = [policy for policy in (self._own, self._stored) if policy is not None]
        known = [policy for policy in policies if not isinstance(policy, _Unreadable) and policy.parts.caps]
        if not known:
            return ()
        from indelible.core.policy.merging import charged_once

        asked = self._asked(prepared)
        return charged_once(cap for policy in known for cap in policy.caps_on(asked))

    def _asked(self, prepared: Prepared, args_json: bytes | None = None) -> Asked:
        from indelible.core.policy.policy import Asked

        call = prepared.call
        plain = args_json or plain_args(prepared)
        args: Any = decode(plain)
        return Asked(
            tenant=self._tenant,
            tool=call.tool,
            side_effect=prepared.handling.side_effect,
            agent=prepared.actor.id,
            principal=prepared.principal,
            run_id=call.run,
            environment=self._environment,
            args=args,
            schema=call.schema,
            recorded_args=_recorded(prepared, plain),
        )

    def _grants(self, prepared: Prepared, verdict: Verdict) -> dict[str, str]:
        """Names the grants that may spare a question, with the digest of what each of them pins in the arguments."""
        if verdict.question is None or not prepared.takes_grants:
            return {}
        tool = prepared.call.tool
        selected = SheetFilter(kind="grant", status="active", topic=tool, limit=_MOST_GRANTS)
        grants = [read_grant(sheet) for sheet in self._store.sheets(self._tenant, selected) if sheet.body is not None]
        digests: dict[str, str] = {}
        for grant in grants:
            try:
                # As they are recorded: whoever gave the grant saw no more than that.
                digests[grant.id] = pinned_digest(self._tenant, tool, grant.pin, prepared.identity.args_json)
            except ValueError:  # the call lacks an argument that is pinned, so it is none of these
                continue
        return digests


def keeping_resource(verdict: Verdict, prepared: Prepared) -> Verdict:
    """Return the verdict with what the call takes of resources on which one call may be open at a time."""
    if not prepared.handling.exclusive or verdict.decision == "refuse":
        return verdict
    args: Any = decode(plain_args(prepared))
    what = f"{prepared.call.tool}: exclusive"
    names = [resource_name(resource_of(one, args, what)) for one in prepared.handling.exclusive]
    return replace(verdict, charges=(*verdict.charges, *map(keeping, dict.fromkeys(names))))


def plain_args(prepared: Prepared) -> bytes:
    """Gives the arguments as the caller said them."""
    return prepared.identity.args_json if prepared.plain_args_json is None else prepared.plain_args_json


def _recorded(prepared: Prepared, plain: bytes) -> Any:
    """Return arguments with marks for what is redacted in them; None if nothing is."""
    screen = prepared.screen
    if screen is None:
        return None
    return decode(screen.recorded_args if plain == screen.args_json else screen.redactor.screen(plain).recorded_args)


def policy_from(policy: Policy | Mapping[str, Any] | str | Path) -> Policy:
    """Gives the policy that a caller names: itself, its content, or the file it is in."""
    from indelible.core.policy.policy import Policy, policy_of

    if isinstance(policy, Policy):
        return policy
    if isinstance(policy, Mapping):
        return policy_of(policy)
    from indelible.policy_files import load_policy  # reading YAML takes a library of its own

    return load_policy(Path(policy))


def _told_besides(question: Question, judged: Judged, said: Verdict) -> Question:
    """Return a question that is told by our channels, whatever another process says, and by the ones it names too.

    A question of ours that names no channel is told by all of them, so another process cannot narrow it.
    """
    ours = judged.verdict.question or judged.terms or Question(rule="")
    theirs = said.question or ours
    named = (*ours.notify, *question.notify, *theirs.notify) if ours.notify else ()
    return replace(question, notify=tuple(dict.fromkeys(named)))
