"""Approvals: a question about one exact call, the votes on it, and when they are enough.

Pure. Who asks, votes and when comes in; what follows goes out. The digest binds everything a person has to rely on:
tenant, run, tool, the tool's schema, all arguments, the policy, and until when the question stands.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Literal, get_args

from indelible.core.approvals.rendering import Shown, shown
from indelible.core.effects.effect import Actor, Effect
from indelible.core.effects.identity import BY_ALL_ARGS, Naming, Ref, hashed
from indelible.core.events import instant
from indelible.core.journal.curve import why_weak
from indelible.core.values.alike import letters_of, shape_of
from indelible.core.values.visible import draws_nothing
from indelible.errors import BadCall

APPROVAL_TAG = b"indelible/approval/v1\0"
VOTE_TAG = b"indelible/vote/v1\0"
DEFAULT_EXPIRY = timedelta(hours=24)
MOST_NEEDED = 100
"""Keeps counting votes cheap, also those in a record that a stranger made."""

ApprovalStatus = Literal["pending", "approved", "denied", "expired", "canceled", "stale", "consumed"]
APPROVAL_STATUSES: tuple[ApprovalStatus, ...] = get_args(ApprovalStatus)
OPEN_STATUSES: frozenset[ApprovalStatus] = frozenset({"pending", "approved"})


@dataclass(frozen=True, slots=True)
class Need:
    """Says how many people have to approve, and of which role, if it matters."""

    count: int = 1
    role: str | None = None


@dataclass(frozen=True, slots=True)
class Person:
    """Says what somebody may decide as, and by which Ed25519 key they sign, if they do."""

    roles: tuple[str, ...] = ()
    key: bytes | None = None


@dataclass(frozen=True, slots=True)
class Escalation:
    """Says after how long without a decision more people are asked, and by which channels."""

    after: timedelta
    people: Mapping[str, Person] = field(default_factory=dict)
    notify: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Says who has to agree before a call may run, until when, and who is told.

    `people` None lets everybody decide who is not the requester; a name that is not among them may not. `rule` is the
    rule of the policy that asks.
    """

    rule: str
    needs: tuple[Need, ...] = (Need(),)
    people: Mapping[str, Person] | None = None
    needs_signature: bool = False
    may_edit: bool = True
    is_sole_approver: bool = False
    """May the one eligible person confirm what they edited themselves?"""
    expires: timedelta = DEFAULT_EXPIRY
    escalations: tuple[Escalation, ...] = ()
    notify: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.needs or any(need.count < 1 for need in self.needs):
            raise BadCall(f"rule {self.rule!r}: at least one person has to approve")
        if sum(need.count for need in self.needs) > MOST_NEEDED:
            raise BadCall(f"rule {self.rule!r}: at most {MOST_NEEDED} people can be needed")
        if self.expires <= timedelta(0):
            raise BadCall(f"rule {self.rule!r}: a question has to stand for longer than nothing")
        times = [timedelta(0), *(step.after for step in self.escalations)]
        if times != sorted(times) or timedelta(0) in times[1:]:
            raise BadCall(f"rule {self.rule!r}: escalations come one after the other, each later than nothing")


@dataclass(frozen=True, slots=True, kw_only=True)
class Vote:
    """Is one person's answer. `on_behalf_of` names who delegated it to them.

    `credential` is the id of the API key that it was cast with, and `delegated_with` of the one that delegated it, if
    there was one: once either is revoked, the vote does not count.
    `is_by_editor` says that the same person wrote the arguments: they are the only one who may decide.
    """

    by: str
    via: str
    at: datetime
    is_approval: bool
    on_behalf_of: str | None = None
    signature: bytes | None = None
    credential: str | None = None
    delegated_with: str | None = None
    is_by_editor: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """Is a question about one exact call, and how it stands.

    `digest` binds what was asked. `votes` are those that count; a reset takes them away, and the record keeps them.
    `replaces` names the approval of the same call that went stale or expired before. `editors` names everybody who
    changed the arguments since they were asked about, the last one at the end. `taken_back` names whose signed approval
    of these arguments was taken back: that signature could be cast again, so they approve them no more. `for_run` is
    the run that asked, and the only one that may use it; `run_id` is the run that the effect belongs to.
    """

    id: str
    version: int = 1
    status: ApprovalStatus
    effect_id: str
    ref: Ref
    run_id: str
    for_run: str
    tool: str
    side_effect: str
    digest: str
    schema: str
    policy: str
    question: Question
    requester: Actor
    principal: str | None
    asked_at: datetime
    expires_at: datetime
    votes: tuple[Vote, ...] = ()
    escalated: int = 0
    replaces: str | None = None
    editors: tuple[str, ...] = ()
    grant: str | None = None
    args_seq: int
    """Is the event of the run that commits to the arguments it is about."""
    attempt: int | None = None
    """Is the last attempt that ran on it; only that one can hand it back."""
    naming: Naming = BY_ALL_ARGS
    """Says what the effect's key is made of, so that an edit can take the key of the edited call."""
    taken_back: tuple[str, ...] = ()

    @property
    def edited_by(self) -> str | None:
        """Name the person who edited the arguments last."""
        return self.editors[-1] if self.editors else None

    @property
    def is_open(self) -> bool:
        """May it still lead to an execution?"""
        return self.status in OPEN_STATUSES

    def is_overdue(self, now: datetime) -> bool:
        """Did its time run out before it was consumed? Then it never allows anything."""
        return self.is_open and self.expires_at <= now

    @property
    def due_at(self) -> datetime | None:
        """Is when somebody should look at it again: to escalate it or to call it expired."""
        if not self.is_open:
            return None
        steps = self.question.escalations[self.escalated :] if self.status == "pending" else ()
        return min([self.expires_at, *(self.asked_at + step.after for step in steps)])

    @property
    def people(self) -> Mapping[str, Person] | None:
        """Names those who may decide now, those included to whom it was escalated."""
        if self.question.people is None:
            return None
        people = dict(self.question.people)
        for step in self.question.escalations[: self.escalated]:
            people.update(step.people)
        return people

    @property
    def told(self) -> tuple[str, ...]:
        """Names the channels by which people were told of it, and have to be told how it ends."""
        steps = self.question.escalations[: self.escalated]
        return tuple(dict.fromkeys((*self.question.notify, *(name for step in steps for name in step.notify))))

    @property
    def lacking(self) -> int:
        """Is how many approvals are still lacking, when every vote is looked at again."""
        roles = [self._roles_of(vote) for vote in counting_votes(self) if vote.is_approval]
        return lacking(self.question.needs, roles)

    def shown(
        self, effect: Effect | None, *, fits: Callable[[str], bool] | None = None, can_sign: bool = False
    ) -> Shown:
        """Return what a place shows of it, and the digest that a vote there names.

        Args:
            effect: The effect that it is about, as it was read; None if it is not at hand.
            fits: Says whether the place has room for a text. Default: it has.
            can_sign: Say that a vote there can carry a signature. Default: False.
        """
        return shown(self, effect, fits=fits, can_sign=can_sign)

    def _roles_of(self, vote: Vote) -> frozenset[str] | None:
        """Gives the roles somebody votes as; None stands for all of them, where nobody is named."""
        if self.people is None:
            return None
        return roles_of(self.people, vote.on_behalf_of or vote.by)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Says why a vote does not count; `code` is one word for programs."""

    code: str
    why: str


def counting_votes(approval: Approval) -> tuple[Vote, ...]:
    """Gives the votes that count, each looked at as if it were cast now after those before it.

    What is stored of votes may have been edited: nobody counts twice, out of turn, too late or under a false signature.
    """
    counted = replace(approval, votes=())
    for vote in approval.votes:
        if vote.at < approval.expires_at and why_not_they(counted, vote, "person") is None:
            counted = replace(counted, votes=(*counted.votes, vote))
    return counted.votes


def lacking(needs: Sequence[Need], voters: Sequence[frozenset[str] | None]) -> int:
    """Gives how many of the needed approvals these voters leave open; each of them fills one place at most."""
    places = [need.role for need in needs for _ in range(need.count)]
    filled: dict[int, int] = {}

    def place(voter: int, tried: set[int]) -> bool:
        """Finds a place for a voter, moving others to another of theirs if that is what it takes."""
        roles = voters[voter]
        for number, role in enumerate(places):
            if number in tried or not (role is None or roles is None or role in roles):
                continue
            tried.add(number)
            if number not in filled or place(filled[number], tried):
                filled[number] = voter
                return True
        return False

    return len(places) - sum(place(voter, set()) for voter in range(len(voters)))


_IDEOGRAPHIC_STOP = "\u3002"  # IDNA reads it as a dot
_NOT_IN_LABELS = frozenset(f".{_IDEOGRAPHIC_STOP}@ ")


def same_person(one: str, other: str) -> bool:
    """Are these one person's names? Case, width, composition and what nobody sees do not make two people of one."""
    return folded(one) == folded(other)


def looks_like(one: str, other: str) -> bool:
    """Could one of these names be taken for the other? Then nobody may pass for two, or for somebody else than asks.

    This takes rights away and gives none: whose name only looks like that of somebody who may decide may not decide.
    """
    return shape_of(folded(one)) == shape_of(folded(other))


@lru_cache(maxsize=4096)  # the same few people are compared again and again
def folded(name: str) -> str:
    """Gives a name as it is compared. The domain of an address is compared in the letters that people read.

    A domain has several spellings. IDNA 2003 and IDNA 2008 disagree about some letters, such as ß: those fold as in
    the rest of the name, so that no person is two.
    """
    plain = _folded_text(name)
    mailbox, at, domain = plain.rpartition("@")
    if not at:
        return plain
    labels = domain.replace(_IDEOGRAPHIC_STOP, ".").rstrip(". ").split(".")
    return f"{mailbox}@{'.'.join(map(_folded_label, labels))}"


def _folded_text(text: str) -> str:
    drawn = "".join(letter for letter in text if not draws_nothing(letter))
    plain = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", drawn).casefold())
    plain = " ".join(plain.split())
    return plain if plain == text else _folded_text(plain)  # without what stood between them, letters may compose anew


def _folded_label(label: str) -> str:
    letters = _folded_text(letters_of(label) or "")
    is_label = letters and not letters.startswith("xn--") and _NOT_IN_LABELS.isdisjoint(letters)
    return letters if is_label else label


def roles_of(people: Mapping[str, Person], name: str) -> frozenset[str]:
    """Gives the roles of a person; none when they are not among the people."""
    person = find_person(people, name)
    return frozenset() if person is None else frozenset(person.roles)


def find_person(people: Mapping[str, Person], name: str) -> Person | None:
    """Finds somebody by their name, however it is written."""
    return next((person for known, person in people.items() if same_person(known, name)), None)


def approval_digest(
    *,
    approval: str,
    tenant: str,
    run_id: str,
    tool: str,
    schema: str,
    args_json: bytes,
    policy: str,
    expires_at: datetime,
) -> str:
    """Gives the digest that a decision binds; any other question, call, rule, schema or time gives another.

    Equal calls may be asked about at one moment. `approval`, the id of the question, tells them apart.
    """
    return hashed(APPROVAL_TAG, tenant, approval, run_id, tool, schema, args_json, policy, instant(expires_at))


def digest_with(approval: Approval, args_json: bytes) -> str:
    """Return the digest that a question has about these arguments."""
    return approval_digest(
        approval=approval.id,
        tenant=approval.ref.tenant,
        run_id=approval.for_run,
        tool=approval.tool,
        schema=approval.schema,
        args_json=args_json,
        policy=approval.policy,
        expires_at=approval.expires_at,
    )


def vote_message(digest: str, is_approval: bool) -> bytes:
    """Gives the bytes that somebody signs to vote with a key of their own: what they were shown, and their answer."""
    return VOTE_TAG + bytes.fromhex(digest) + (b"\1" if is_approval else b"\0")


def ask(
    approval_id: str,
    effect: Effect,
    question: Question,
    *,
    schema: str,
    policy: str,
    requester: Actor,
    principal: str | None,
    now: datetime,
    replaces: str | None = None,
    for_run: str | None = None,
    naming: Naming = BY_ALL_ARGS,
) -> Approval:
    """Ask whether an effect may run with the arguments it has; `for_run` asks, by default the effect's own run."""
    assert effect.args_json is not None, "nobody is asked about arguments that were erased"
    asked = Approval(
        id=approval_id,
        status="pending",
        effect_id=effect.id,
        ref=effect.ref,
        run_id=effect.run_id,
        for_run=effect.run_id if for_run is None else for_run,
        tool=effect.tool,
        side_effect=effect.side_effect,
        digest="",
        schema=schema,
        policy=policy,
        question=question,
        requester=requester,
        principal=principal,
        asked_at=now,
        expires_at=now + question.expires,
        replaces=replaces,
        args_seq=effect.opened_seq,
        naming=naming,
    )
    return replace(asked, digest=digest_with(asked, effect.args_json))


def is_bound_to(approval: Approval, effect: Effect, *, schema: str, policy: str) -> bool:
    """Is this the approval of exactly what would run now? Everything it binds is computed again."""
    if effect.args_json is None or (approval.effect_id, approval.run_id) != (effect.id, effect.run_id):
        return False
    bound = replace(approval, ref=effect.ref, tool=effect.tool, schema=schema, policy=policy)
    return approval.digest == digest_with(bound, effect.args_json)


def drifted(approval: Approval, *, schema: str, policy: str, run_id: str, are_args_other: bool) -> tuple[str, ...]:
    """Names what is no longer as it was approved."""
    fields = {
        "args": are_args_other,
        "policy": policy != approval.policy,
        "run": run_id != approval.for_run,
        "schema": schema != approval.schema,
    }
    return tuple(name for name, is_other in fields.items() if is_other)


def voted(approval: Approval, vote: Vote, digest: str | None, kind: str, now: datetime) -> Approval | Refusal:
    """Counts a vote, or says why it does not count. One refusal is enough; approvals have to be enough of them.

    An approval names the digest that was seen. A refusal need not: it allows nothing.
    """
    refusal = _why_not(approval, vote, digest, kind, now)
    if refusal is not None:
        return refusal
    vote = replace(vote, is_by_editor=_is_editor(approval, vote))
    if not vote.is_approval:
        return replace(approval, version=approval.version + 1, status="denied", votes=(*approval.votes, vote))
    counted = replace(approval, version=approval.version + 1, votes=(*approval.votes, vote))
    return replace(counted, status="approved") if counted.lacking == 0 else counted


def _why_not(approval: Approval, vote: Vote, digest: str | None, kind: str, now: datetime) -> Refusal | None:
    if approval.status != "pending":
        return Refusal("not_pending", f"cannot be decided: it is {approval.status}")
    if approval.is_overdue(now) or approval.is_overdue(vote.at):
        # By either clock: what is recorded of a vote has to show that it came in time.
        return Refusal("expired", f"expired at {approval.expires_at}; the call has to be made again")
    if digest is None and vote.is_approval:
        return Refusal("no_digest", "is approved by naming the digest you were shown")
    if digest is not None and digest != approval.digest:
        # The right one is not told here: it is for whoever has looked.
        return Refusal("digest", f"asks about something else than {digest[:12]}…, which you saw; look at it again")
    return why_not_they(approval, vote, kind)


def why_not_they(approval: Approval, vote: Vote, kind: str) -> Refusal | None:
    """Return why this person may not decide it, whatever its status; None if they may."""
    if kind != "person":
        return Refusal("not_a_person", f"is decided by people, and {vote.by} is {kind}")
    entitled = vote.on_behalf_of or vote.by
    for name in (vote.by, entitled):
        if looks_like(name, approval.requester.id) or _is_principal(approval, name):
            return Refusal("self_approval", f"was asked for by {name}, who therefore cannot decide it")
        if any(looks_like(name, earlier) for vote_ in approval.votes for earlier in names_in(vote_)):
            return Refusal("voted_already", f"was already decided by {name}; others have to as well")
    if any(_has_one_key(approval, vote.by, earlier.by) for earlier in approval.votes):
        return Refusal("voted_already", f"was already decided with the key of {vote.by}; others have to as well")
    if not is_entitled(approval, entitled):
        return Refusal("not_entitled", f"is not for {entitled} to decide")
    if vote.is_approval and _is_editor(approval, vote) and not _is_sole_approver(approval):
        return _edited_it_themselves(approval, vote)
    if vote.is_approval and any(
        same_person(vote.by, name) or _has_one_key(approval, vote.by, name) for name in approval.taken_back
    ):
        next_step = "edit it, which asks anew, or let another person decide"
        return Refusal(
            "taken_back", f"was signed by {vote.by}, who took that back: their signature is used up; {next_step}"
        )
    return _why_not_signed(approval, vote, find_person(approval.people or {}, vote.by) or Person())


def _has_one_key(approval: Approval, one: str, other: str) -> bool:
    """Say whether two names have one key: two policies together may give it to both, and one signature is one vote."""
    key = _key_of(approval, one)
    return key is not None and key == _key_of(approval, other)


def _key_of(approval: Approval, name: str) -> bytes | None:
    person = find_person(approval.people or {}, name)
    return None if person is None else person.key


def _is_editor(approval: Approval, vote: Vote) -> bool:
    """Say whether the voter, or the person who let them vote, wrote the arguments: then they ask for the call too."""
    return any(looks_like(name, editor) for name in names_in(vote) for editor in approval.editors)


def _is_sole_approver(approval: Approval) -> bool:
    """Say whether the policy lets the only person who may decide confirm their own edit."""
    return approval.question.is_sole_approver and len(eligible(approval)) == 1


def eligible(approval: Approval) -> tuple[str, ...]:
    """Name the people that the question names who may decide it: those who are needed, and did not ask themselves."""
    asked_by = (approval.requester.id, approval.principal or approval.requester.id)
    able = [name for name, one in (approval.people or {}).items() if is_needed(one, approval.question.needs)]
    return tuple(name for name in able if not any(looks_like(name, asker) for asker in asked_by))


def _edited_it_themselves(approval: Approval, vote: Vote) -> Refusal:
    others = [name for name in eligible(approval) if not any(looks_like(name, one) for one in approval.editors)]
    next_step = (
        f"let {' or '.join(others)} decide"
        if others
        else "let another person decide"
        if approval.people is None
        else "name another person in the policy, or say sole_approver: true where it names only one"
    )
    return Refusal("self_approval", f"was edited by {vote.by}, who therefore cannot approve it; {next_step}")


def is_entitled(approval: Approval, name: str) -> bool:
    """Does a vote of this person's count towards what is needed? Where nobody is named, anybody's does."""
    return _counts(approval.people, approval.question.needs, name)


def may_grant(question: Question, name: str) -> bool:
    """Say whether this person alone could answer the question, also once it is escalated."""
    people = question.people
    if people is not None:
        people = {**people, **{who: one for step in question.escalations for who, one in step.people.items()}}
    return why_no_grant(question) is None and _counts(people, question.needs, name)


def why_no_grant(question: Question) -> str | None:
    """Say why one person cannot permit ahead what this question asks about; None if one can."""
    if sum(need.count for need in question.needs) > 1:
        return "takes more than one person, so nobody can grant further calls; vote without a grant"
    if question.needs_signature:
        return "is signed for this call alone, so nobody can grant further ones; vote without a grant"
    return None


def _counts(people: Mapping[str, Person] | None, needs: Iterable[Need], name: str) -> bool:
    if people is None:
        return True
    person = find_person(people, name)
    return person is not None and is_needed(person, needs)


def names_in(vote: Vote) -> tuple[str, ...]:
    """Names whose vote it is: who cast it, and who let them, if somebody did."""
    return (vote.by,) if vote.on_behalf_of is None else (vote.by, vote.on_behalf_of)


def _is_principal(approval: Approval, name: str) -> bool:
    return approval.principal is not None and looks_like(name, approval.principal)


def is_needed(person: Person, needs: Iterable[Need]) -> bool:
    """Say whether a person's approval fills one of the places."""
    return any(need.role is None or need.role in person.roles for need in needs)


def _why_not_signed(approval: Approval, vote: Vote, voter: Person) -> Refusal | None:
    """Checks the voter's own signature: where one is demanded, and wherever one is given."""
    if vote.signature is None:
        if approval.question.needs_signature:
            return Refusal("not_signed", f"needs the signature of {vote.by}: vote with their key")
        return None
    if voter.key is None or not is_signed(voter.key, vote.signature, approval.digest, is_approval=vote.is_approval):
        return Refusal("signature", f"carries a signature that is not {vote.by}'s over what was shown")
    return None


@lru_cache(maxsize=4096)  # a vote is counted again with every vote after it
def is_signed(key: bytes, signature: bytes, digest: str, *, is_approval: bool) -> bool:
    """Did the holder of this key sign this answer to this question?"""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    if why_weak(key) is not None:
        return False
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, vote_message(digest, is_approval))
    except (InvalidSignature, ValueError):
        return False
    return True


def unvoted(approval: Approval, name: str, now: datetime) -> Approval | Refusal:
    """Takes somebody's approval back, as long as nothing runs on it."""
    if approval.status not in OPEN_STATUSES or approval.is_overdue(now):
        return Refusal("not_open", f"cannot be taken back: it is {'expired' if approval.is_open else approval.status}")
    votes = tuple(vote for vote in approval.votes if not same_person(vote.by, name))
    if len(votes) == len(approval.votes):
        return Refusal("no_vote", f"has no vote of {name} that could be taken back")
    # A signature stays on the record, so it could be cast again. Nobody took back what the ledger drops by itself.
    signers = tuple(vote.by for vote in approval.votes if vote not in votes and vote.signature is not None)
    taken_back = (*approval.taken_back, *signers)
    return replace(approval, version=approval.version + 1, status="pending", votes=votes, taken_back=taken_back)


def ended(approval: Approval, status: ApprovalStatus) -> Approval:
    """Gives an approval that ends so."""
    return replace(approval, version=approval.version + 1, status=status)


def consumed(approval: Approval, attempt: int) -> Approval:
    """Gives an approval that an attempt uses up."""
    return replace(ended(approval, "consumed"), attempt=attempt)


def handed_back(approval: Approval, attempt: int) -> Approval | None:
    """Gives an approval free to be used again, when this attempt used it up and nothing came of it; else None."""
    if approval.status != "consumed" or approval.attempt != attempt:
        return None
    return replace(ended(approval, "approved"), attempt=None)


def escalated(approval: Approval, now: datetime) -> Approval:
    """Gives an approval for which more people are asked, as many times as it is late."""
    late = sum(approval.asked_at + step.after <= now for step in approval.question.escalations)
    return replace(approval, version=approval.version + 1, escalated=max(approval.escalated, late))
