"""The permissions that calls ran on, as a journal tells them: verdicts, approvals, grants, delegations. Pure.

What an event commits to may be shown or not. Where it is, everything is counted and computed again. Something is kept
for effects that were asked about and can still move, for grants and for delegations; nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from indelible.core.approvals.approval import Approval, Vote, same_person
from indelible.core.approvals.grants import Delegation, Grant, pinned_digest
from indelible.core.effects.stops import STOPPED
from indelible.core.people.credentials import Credential
from indelible.core.people.person import Person
from indelible.core.privacy.encryption import holder_in
from indelible.core.verifying.approval_steps import (
    Telling,
    check_about,
    check_args,
    check_asked,
    check_step,
    check_votes,
    recount,
    telling_of,
)
from indelible.core.verifying.bodies import EffectBody, FactBody, unquoted
from indelible.core.verifying.findings import Caught
from indelible.core.verifying.moves import CHECKED, NOT_ASKED, UNKNOWN
from indelible.core.verifying.sheet_bodies import (
    approval_in,
    credential_in,
    delegation_in,
    grant_in,
    person_in,
    policy_version_in,
    provider_in,
    reservations_in,
    stop_in,
    verdict_in,
)

_LAST = frozenset({"succeeded", "denied", "canceled"})
_JUDGED = frozenset({"approval_requested", "approval_edited", "tool_call_started"})
FACTS_OF_SHEETS = {
    "credential_given": "credential",
    "credential_revoked": "credential",
    "effects_let_go": "stop",
    "effects_stopped": "stop",
    "delegation_given": "delegation",
    "delegation_ended": "delegation",
    "grant_ended": "grant",
    "invitation_ended": "person",
    "passkey_added": "person",
    "passkey_removed": "person",
    "person_disallowed": "person",
    "person_invited": "person",
    "person_revoked": "person",
    "person_signed_in": "person",
    "person_signed_out": "person",
    "policy_applied": "policy",
    "provider_changed": "provider",
}
"""Names the events about no effect that commit to a sheet, with its kind."""

Place = tuple[int, str, int]
"""Is where something was told: index, run and number."""


@dataclass(slots=True)
class _Asked:
    """Is what was shown last of the question about an effect."""

    was_asked: bool
    approval: Approval | None = None
    args: bytes | None = None
    args_seq: int | None = None
    key: str | None = None


@dataclass(frozen=True, slots=True)
class _ByDelegation:
    place: Place
    approval_id: str
    giver: str
    vote: Vote

    def is_by(self, delegation: Delegation) -> bool:
        """Say whether the vote was cast by this delegation."""
        are_they = same_person(delegation.giver, self.giver) and same_person(delegation.to, self.vote.by)
        return are_they and delegation.credential == self.vote.delegated_with


class Numbers:
    """Is a set of numbers from 1 that come one after the other but for a few, in little room."""

    def __init__(self) -> None:
        self._next = 1
        self._later: set[int] = set()

    def add(self, number: int) -> bool:
        """Add a number; return whether it was not there."""
        if number < self._next or number in self._later:
            return False
        self._later.add(number)
        while self._next in self._later:
            self._later.remove(self._next)
            self._next += 1
        return True


class Permissions:
    """Takes in what a journal tells of permissions, and raises `Caught` at the first that does not hold."""

    def __init__(self, *, is_whole: bool) -> None:
        self._is_whole = is_whole
        self._asked: dict[str, _Asked] = {}
        self._grants: dict[str, dict[int, tuple[Grant, Place]]] = {}
        self._delegations: list[Delegation] = []
        self._by_delegation: list[_ByDelegation] = []
        self._reserved: dict[str, Numbers] = {}
        """Names the reservations of each budget."""
        self._unshown: set[str] = set()
        """Names the kinds of which something was not shown, so that nobody can say what was not there."""
        self.used = 0
        """Counts approvals that calls ran on, and whose votes were counted again."""
        self.signatures = 0
        """Counts votes whose signature was checked."""

    def take(
        self, index: int, text: str, body: EffectBody, before: tuple[str, str], shown: Mapping[str, bytes]
    ) -> None:
        """Takes in an event about an effect that says something of a permission."""
        telling = telling_of(text, body)
        verdict = verdict_in(shown["policy"]) if "policy" in shown else None
        if verdict is not None:
            _check_verdict(telling, before, verdict["decision"])
        for budget, number in reservations_in(shown["charges"]) if "charges" in shown else ():
            if not self._reserved.setdefault(budget, Numbers()).add(number):
                raise Caught(f"another event took reservation {number} of {budget} too: an older row was put back")
        policy = verdict["policy"] if verdict is not None else None if "policy" in telling.names else ""
        known = self._known(telling, before, shown)
        place = (index, telling.run_id, telling.seq)
        if "approval" in telling.names:
            self._take_approval(place, telling, known, policy, shown.get("approval"))
        if "grant" in telling.names:
            self._take_grant(place, telling, known, policy, shown.get("grant"))
        if body.status in _LAST:
            self._asked.pop(body.effect, None)

    def _known(self, telling: Telling, before: tuple[str, str], shown: Mapping[str, bytes]) -> _Asked:
        """Gives what is known of the question about an effect, its newest arguments included."""
        known = self._asked.get(telling.effect_id)
        if known is None or before[1] == UNKNOWN:  # something of it may have been told where nobody shows it
            known = _Asked(was_asked=before[1] != NOT_ASKED)
        if "key" in shown:
            known.key = shown["key"].hex()
        if "args" in telling.names:
            known.args, known.args_seq = shown.get("args"), telling.seq
        if "approval" in telling.names:
            self._asked[telling.effect_id] = known
        return known

    def _take_approval(
        self, place: Place, telling: Telling, known: _Asked, policy: str | None, shown: bytes | None
    ) -> None:
        before, known.approval = known.approval, None
        was_asked, known.was_asked = known.was_asked, True
        if shown is None:
            return
        found = known.approval = approval_in(shown)
        check_about(telling, found, known.key)
        if telling.type == "approval_requested":
            unknown = found.replaces if was_asked else None
            replaced = unknown if before is None else before.id
            check_asked(telling, found, replaced, found.editors if before is None else before.editors)
        elif before is not None:
            check_step(telling, before, found)
        else:
            recount(telling, found)
        if telling.type in ("approval_requested", "approval_edited"):
            check_args(found, known.args, known.args_seq)
        check_votes(found)
        if telling.type in _JUDGED and policy not in (None, found.policy):
            raise Caught("its approval is bound to another policy than judged it", expected=policy, found=found.policy)
        self._note(place, telling, before, found)

    def _note(self, place: Place, telling: Telling, before: Approval | None, found: Approval) -> None:
        """Counts what was checked, and keeps what can only be checked when everything was seen."""
        self.used += telling.type == "tool_call_started"
        for vote in found.votes[0 if before is None else len(before.votes) :]:
            self.signatures += vote.signature is not None
            if vote.on_behalf_of is not None:
                self._by_delegation.append(_ByDelegation(place, found.id, vote.on_behalf_of, vote))

    def _take_grant(
        self, place: Place, telling: Telling, known: _Asked, policy: str | None, shown: bytes | None
    ) -> None:
        """Takes in a grant that was given with an approval, or that a call used."""
        if shown is None:
            self._unshown.add("grant")
            return
        grant = grant_in(shown)
        if telling.type == "approval_received":
            _check_given(telling, grant, known.approval)
        elif policy not in (None, grant.policy):
            raise Caught("its grant holds for another policy", expected=policy, found=grant.policy)
        if grant.tool != telling.tool:
            raise Caught("its grant is for another tool", expected=telling.tool, found=grant.tool)
        _check_pinned(grant, known, telling)
        self._keep_grant(grant, place)

    def _keep_grant(self, grant: Grant, place: Place) -> None:
        versions = self._grants.setdefault(grant.id, {})
        if grant.version in versions:
            raise Caught(f"{grant.id} has its version {grant.version} twice")
        versions[grant.version] = (grant, place)

    def take_fact(self, index: int, fact: FactBody, shown: Mapping[str, bytes]) -> None:
        """Takes in an event about no effect, if it tells of a permission."""
        if fact.type == CHECKED and "policy" in shown and verdict_in(shown["policy"])["decision"] != "refuse":
            raise Caught("a call that never was an effect was refused, and its policy says otherwise")
        if fact.type == "policy_applied" and "policy" in shown:
            version, told = policy_version_in(shown["policy"]), fact.facts.get("version")
            if version != told:
                raise Caught("its policy has another version than it says", expected=str(told), found=version)
        kind = FACTS_OF_SHEETS.get(fact.type)
        if kind == "credential" and kind in shown:
            _check_credential(fact, credential_in(shown[kind]))
        if kind == "stop" and kind in shown and stop_in(shown[kind]).is_in_force != (fact.type == STOPPED):
            raise Caught("its stop is another than it says")
        if kind == "person" and kind in shown:
            _check_person(fact, person_in(shown[kind]))
        if kind == "provider" and kind in shown:
            provider_in(shown[kind])
        if kind not in ("delegation", "grant"):
            return
        if kind not in shown:
            self._unshown.add(kind)
            return
        found = delegation_in(shown[kind]) if kind == "delegation" else grant_in(shown[kind])
        if found.id != fact.facts.get("id") or found.is_ended != fact.type.endswith("_ended"):
            raise Caught(f"its {kind} is another than it says", expected=str(fact.facts.get("id")), found=found.id)
        if isinstance(found, Grant):
            self._keep_grant(found, (index, unquoted(fact.run), fact.seq))
        elif not found.is_ended:  # any approver ends one, and by that lets nobody decide
            self._delegations.append(found)

    def problems(self) -> dict[Place, str]:
        """Gives what does not hold between runs, which tell side by side: uses of grants, and votes for others.

        So this is asked when everything was seen.
        """
        found: dict[Place, str] = {}
        for versions in self._grants.values():
            found |= self._wrong_uses(versions)
        if self._is_whole and "delegation" not in self._unshown:
            for one in self._by_delegation:
                if not any(map(one.is_by, self._delegations)):
                    found[one.place] = f"{one.approval_id}: {one.giver} never let {one.vote.by} decide for them"
        return found

    def _wrong_uses(self, versions: Mapping[int, tuple[Grant, Place]]) -> dict[Place, str]:
        """Compares every state of a grant with the one before it, where that is shown."""
        found: dict[Place, str] = {}
        for number, (grant, place) in versions.items():
            earlier = versions.get(number - 1)
            if earlier is not None:
                before = replace(earlier[0], told_by=earlier[1][1:])
                if grant not in (before.used(), before.withdrawn()) or before.is_over:
                    found[place] = f"{grant.id} does not follow from its state before"
            elif self._is_whole and "grant" not in self._unshown and number != 1:
                found[place] = f"{grant.id} was never given, or a state of it is missing"
        return found

    def close(self) -> None:
        """Raises `Caught` when something does not hold between runs."""
        for (index, run, seq), what in sorted(self.problems().items()):
            raise Caught(what, index=index, run=run, seq=seq)


def _check_verdict(telling: Telling, before: tuple[str, str], decision: str) -> None:
    """Raises when something happened that the policy's own words do not allow."""
    if (decision == "refuse") != (telling.type == CHECKED):
        raise Caught(f"its policy says {decision}, and it is {telling.type}")
    is_entered = telling.type == "tool_call_started" and not {"approval", "grant"} & telling.names
    if is_entered and decision == "ask" and before[1] != UNKNOWN:
        raise Caught("its policy asks, and its effect was entered without an approval or a grant")


def _check_given(telling: Telling, grant: Grant, approval: Approval | None) -> None:
    """Raises unless a grant is what came with the approval."""
    is_new = grant.version == 1 and grant.before is None and not grant.is_over
    if not is_new or grant.given_by != telling.actor.id:
        raise Caught(f"{grant.id} is not new, or not given by {telling.actor.id}")
    if approval is None:
        return
    vote = approval.votes[-1]
    behind = (vote.by, vote.credential, vote.on_behalf_of, vote.delegated_with)
    if (grant.given_by, grant.credential, grant.on_behalf_of, grant.delegated_with) != behind:
        raise Caught(f"{grant.id} does not rest on the vote that it came with")
    question = approval.question
    bound = (approval.grant, approval.id, approval.schema, approval.policy, question.rule)
    if (grant.id, grant.approval_id, grant.schema, grant.policy, grant.rule) != bound:
        raise Caught(f"{grant.id} is not the grant that came with {approval.id}")
    if question.needs_signature or sum(need.count for need in question.needs) > 1:
        raise Caught(f"{grant.id} was given by one, and {approval.id} takes more than one, or their signature")


def _check_pinned(grant: Grant, known: _Asked, telling: Telling) -> None:
    """Raises when the arguments, where they are shown in clear, are not those that the grant pins."""
    if known.args is None or holder_in(known.args) is not None:
        return
    try:
        pinned = pinned_digest(telling.tenant, telling.tool, grant.pin, known.args)
    except ValueError as problem:
        raise Caught(f"{grant.id} pins what is not there: {problem}") from problem
    if pinned != grant.pinned:
        raise Caught(f"{grant.id} pins other arguments", expected=pinned, found=grant.pinned)


def _check_credential(fact: FactBody, found: Credential) -> None:
    if found.id != fact.facts.get("id") or found.is_revoked != (fact.type == "credential_revoked"):
        raise Caught("its credential is another than it says", expected=str(fact.facts.get("id")), found=found.id)


def _check_person(fact: FactBody, found: Person) -> None:
    if found.id != fact.facts.get("id") or found.is_revoked != (fact.type == "person_revoked"):
        raise Caught("its person is another than it says", expected=str(fact.facts.get("id")), found=found.id)
