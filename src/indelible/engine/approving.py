"""What people do about approvals, for both ledgers: finds what a caller names, and carries out what they say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from indelible.core.approvals.approval import Approval, ApprovalStatus, Refusal, folded, unvoted
from indelible.core.approvals.asking import why_altered
from indelible.core.approvals.edits import changes_in, check_underived, check_whole, holds_mark, place_taken
from indelible.core.approvals.elsewhere import Elsewhere
from indelible.core.approvals.grants import (
    APPROVALS_RUN,
    Delegation,
    Grant,
    GrantTerms,
    delegation_for,
    delegation_ref,
    delegation_sheet,
    grant_ref,
    grant_sheet,
    pinned_digest,
    read_delegation,
    read_grant,
)
from indelible.core.approvals.rendering import Shown
from indelible.core.approvals.revoked import people_behind
from indelible.core.approvals.sheets import approval_ref, read_approval
from indelible.core.approvals.stuck import Stuck, people_named, why_stuck
from indelible.core.commands import (
    AboutApproval,
    Amend,
    Answer,
    Attend,
    CastVote,
    Decided,
    Illegal,
    NoSuchEffect,
    NotCounted,
    Outrun,
    Record,
    ShowTo,
    TakeBack,
    Taken,
)
from indelible.core.effects.calls import check_name
from indelible.core.effects.effect import SYSTEM, Actor, Effect
from indelible.core.events import Payload, facts_json
from indelible.core.journal.journal import JOURNAL_RUN
from indelible.core.paging import read_sheet
from indelible.core.privacy.redaction import Screen
from indelible.core.rights import permitted
from indelible.core.sheets import POLICY_REF, Sheet, SheetFilter, SheetRef, body_of
from indelible.core.values.canonical import decode, encode
from indelible.core.values.differences import Difference, differences
from indelible.engine.elsewhere import read_elsewhere
from indelible.engine.engine import Engine
from indelible.engine.mint import EDIT_VALUES
from indelible.errors import (
    BadCall,
    EffectErased,
    IllegalMove,
    UnknownApproval,
    UnknownEffect,
    UnknownPermission,
    VoteRefused,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from indelible.core.policy.verdicts import Verdict

_PAGE = 200
_MOST_COMPARED = 1000
_MOST_LISTED = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalView:
    """Is everything somebody needs to see before they decide.

    `args` is what it asks about, and `shown` the same as it is shown to a person, with the digest that a vote names.
    `changed` lists what is other than in the question this one replaces; `unusual` what is other than in the call of
    this tool that was approved last; `since_previous` what is other than in the question before this one about this
    tool in this run, which is `previous`. Each is None when there is nothing to compare with. `elsewhere` lists
    the same call in other runs and under other keys, of the last day.
    """

    approval: Approval
    effect: Effect
    args: Mapping[str, Any]
    shown: Shown
    changed: Sequence[Difference] | None
    unusual: Sequence[Difference] | None
    previous: Approval | None = None
    since_previous: Sequence[Difference] | None = None
    elsewhere: Sequence[Elsewhere] = ()
    """The same call in other runs and under other keys."""
    stuck: Stuck | None = None
    """Says that no person can give it any more, and the ways out."""


class Approving:
    """Finds approvals of one tenant, and lets people act on them."""

    def __init__(
        self,
        engine: Engine,
        tenant: str,
        screen_of: Callable[[str], Screen | None],
        verdict_on: Callable[[Approval, Effect, bytes], Verdict],
        opened: Callable[[Effect, Payload], Payload | None],
        binds: Callable[[str, Mapping[str, Any]], Mapping[str, Any]],
        subject_in: Callable[[str, bytes], bytes | None],
    ) -> None:
        self._engine = engine
        self._tenant = tenant
        self._screen_of = screen_of
        self._verdict_on = verdict_on
        self._opened = opened
        self._binds = binds
        self._subject_in = subject_in

    # Finding

    def get(self, approval_id: str) -> Approval | None:
        """Gives the approval with this id."""
        try:
            check_name("approval id", approval_id)
        except BadCall:
            return None
        found = read_sheet(self._engine.store, self._tenant, approval_ref(approval_id))
        return None if found is None else approval_on(found)

    def find(self, name: str | Approval) -> Approval:
        """Finds an approval by its id, or by the id of its effect; raises when there is none."""
        if isinstance(name, Approval):  # it says which one is meant; how that stands, only the store knows
            name = name.id
        if not isinstance(name, str):
            raise BadCall(f"name an approval by its id or by its effect's id, not by {type(name).__name__}")
        found = self._of_effect(name) if name.startswith("eff_") else self.get(name)
        if found is None:
            raise UnknownApproval(
                f"no approval of tenant {self._tenant!r} has the id {name}; see: indelible approvals list"
            )
        return found

    def _of_effect(self, effect_id: str) -> Approval | None:
        effect = self._engine.store.get_effect(self._tenant, effect_id)
        return None if effect is None or effect.approval_id is None else self.get(effect.approval_id)

    def approvals(
        self,
        status: ApprovalStatus | None,
        tool: str | None,
        run_id: str | None,
        before: str | None,
        limit: int,
    ) -> list[Approval]:
        """Lists approvals, newest first."""
        if status is not None and status not in get_args(ApprovalStatus):
            raise BadCall(f"status={status!r}: choose one of {', '.join(get_args(ApprovalStatus))}")
        found: list[Approval] = []
        while len(found) < limit:
            selected = SheetFilter(kind="approval", status=status, topic=run_id, before=before, limit=_PAGE)
            sheets = self._engine.store.sheets(self._tenant, selected)
            found += [one for one in map(approval_on, sheets) if one is not None and tool in (None, one.tool)]
            if len(sheets) < _PAGE:
                break
            before = sheets[-1].id
        return found[:limit]

    def _sheets(self, selected: SheetFilter) -> list[Approval]:
        found = map(approval_on, self._engine.store.sheets(self._tenant, selected))
        return [approval for approval in found if approval is not None]

    def view(self, name: str | Approval, by: Actor | None) -> ApprovalView:
        """Gives everything there is to see about an approval; with `by`, that they saw it goes on the record."""
        approval = self.find(name)
        self._check_unaltered(approval)
        effect = self._effect_of(approval)
        if by is not None:
            stamp = self._engine.mint.stamp(by)
            approval, effect = self._done(
                self._write(ShowTo(ref=approval.ref, stamp=stamp, approval_id=approval.id), effect)
            )
        args_json = self._args_of(approval)
        if args_json is None:
            raise EffectErased(f"{effect.tool}: the arguments that {approval.id} is about were erased", effect=effect)
        args: Any = decode(args_json)
        replaced = None if approval.replaces is None else self.get(approval.replaces)
        previous = self._asked_before(approval)
        return ApprovalView(
            approval=approval,
            effect=effect,
            args=args,
            shown=approval.shown(replace(effect, args_json=args_json, opened_seq=approval.args_seq), can_sign=True),
            changed=None if replaced is None else self._compared(replaced, approval, args),
            unusual=self._compared(self._last_approved(approval), approval, args),
            previous=previous,
            since_previous=self._compared(previous, approval, args),
            elsewhere=read_elsewhere(self._engine.store, self._tenant, [effect])[effect.id],
            stuck=self.stuck([approval]).get(approval.id),
        )

    def stuck(self, approvals: Sequence[Approval]) -> dict[str, Stuck]:
        """Return those of some approvals that no person can give any more, by id, each with the reason."""
        pending = [approval for approval in approvals if approval.status == "pending"]
        store = self._engine.store
        people: dict[SheetRef, Sheet | None] = {ref: None for one in pending for ref in people_named(one)}
        if "person" not in getattr(store, "unseen_kinds", ()):  # a server shows none, and says itself what is stuck
            unread = set(people)
            while unread:
                for ref in unread:
                    people[ref] = read_sheet(store, self._tenant, ref)
                unread = people_behind(people) - people.keys()
        found_stuck = ((approval.id, why_stuck(approval, people)) for approval in pending)
        return {id_: stuck for id_, stuck in found_stuck if stuck is not None}

    def elsewhere(self, approvals: Sequence[Approval]) -> dict[str, tuple[Elsewhere, ...]]:
        """Return the same calls in other runs and under other keys, by the id of the approval that asks about one."""
        seen = self._engine.store.look([approval.ref for approval in approvals]).effects if approvals else []
        found = read_elsewhere(self._engine.store, self._tenant, [effect for effect in seen if effect is not None])
        return {approval.id: found.get(approval.effect_id, ()) for approval in approvals}

    def _compared(self, other: Approval | None, approval: Approval, args: Any) -> list[Difference] | None:
        """Lists what is other than in another approval, of all that an approval binds; None when nobody can tell."""
        before = None if other is None else self._args_of(other)
        if other is None or before is None:
            return None
        bound = [(name, getattr(other, name), getattr(approval, name)) for name in ("policy", "schema")]
        changed = [Difference(name, one, another) for name, one, another in bound if one != another]
        return [*differences(decode(before), args), *changed]

    def _asked_before(self, approval: Approval) -> Approval | None:
        """Return the question before this one about the same tool in the same run, however it ended.

        The run's sequence decides which came before. It looks at the newest questions of this tool only.
        """
        found = self.approvals(None, approval.tool, approval.run_id, None, _MOST_COMPARED)
        before = [one for one in found if one.args_seq < approval.args_seq or one.id == approval.replaces]
        return max(before, key=lambda one: one.args_seq, default=None)

    def _last_approved(self, approval: Approval) -> Approval | None:
        """Gives the newest approval of the same tool that led to an execution before this one was asked.

        It looks at so many of the newest only: where other tools are approved all the time, there may be none.
        """
        selected = SheetFilter(kind="approval", status="consumed", before=approval.id, limit=_MOST_COMPARED)
        return next((one for one in self._sheets(selected) if one.tool == approval.tool), None)

    def _args_of(self, approval: Approval) -> bytes | None:
        """Return the recorded arguments that an approval is about; None if they were erased or cannot be opened."""
        effect = self._engine.store.look([approval.ref]).effects[0]
        if effect is not None and effect.opened_seq == approval.args_seq and effect.args_json is not None:
            return encode(effect.args, root="args")  # raises what to do when they cannot be opened here
        if effect is None:
            return None
        found = self._engine.store.payloads(self._tenant, approval.run_id, [approval.args_seq])
        recorded = next((payload for payload in found if payload.field == "args"), None)
        opened = None if recorded is None else self._opened(effect, recorded)
        return None if opened is None else opened.value

    def _effect_of(self, approval: Approval) -> Effect:
        effect = self._engine.store.look([approval.ref]).effects[0]
        if effect is None:
            raise UnknownEffect(f"the effect of {approval.id} is not there; look at the record: indelible verify")
        return effect

    def _check_unaltered(self, approval: Approval) -> None:
        """Shows no arguments but those the digest is of."""
        effect = self._engine.recorded.look([approval.ref]).effects[0]
        altered = None if effect is None else why_altered(approval, effect)
        if effect is not None and altered is not None:
            raise IllegalMove(f"{approval.id}: {effect.id} {altered}", effect=effect)

    # Deciding

    def vote(
        self,
        name: str | Approval,
        *,
        digest: str | None,
        by: Actor,
        reason: str,
        is_approval: bool,
        signature: bytes | None,
        grant: GrantTerms | None = None,
        version: int | None = None,
    ) -> Approval:
        """Counts somebody's answer, or raises why it does not count."""
        if not reason:
            raise BadCall("say why: a denial needs a reason, and it goes on the record")
        approval = self.find(name)
        mint = self._engine.mint
        command = CastVote(
            ref=approval.ref,
            stamp=mint.stamp(by),
            approval_id=approval.id,
            digest=digest,
            is_approval=is_approval,
            detail_json=self._said(approval.tool, reason),
            signature=signature,
            delegation_id=self._delegation_of(approval, by, is_approval=is_approval),
            grant=grant,
            grant_id="" if grant is None else mint.new_id("grt"),
            pinned="" if grant is None else self._pinned(self._effect_of(approval), grant),
            version=version,
        )
        return self._done(self._write(command, None))[0]

    def _delegation_of(self, approval: Approval, by: Actor, *, is_approval: bool) -> str | None:
        if approval.people is None:
            return None
        theirs = self.delegations(folded(by.id))  # others may have given any number to anybody
        now = self._engine.store.look([]).now
        return delegation_for(approval, by.id, theirs, now, is_approval=is_approval)

    def _pinned(self, effect: Effect, grant: GrantTerms) -> str:
        args_json = encode(effect.args, root="args")
        try:
            return pinned_digest(self._tenant, effect.tool, grant.pin, args_json)
        except BadCall:
            raise BadCall(
                f"pin={list(grant.pin or ())}: not all of these are arguments of {effect.tool}; pin what is there, or "
                "leave pin away to pin everything"
            ) from None

    def take_back(self, name: str | Approval, *, by: Actor, reason: str, version: int | None = None) -> Approval:
        """Takes somebody's approval back, as long as nothing runs on it, and with it what they granted besides.

        The grant ends first: should we die in between, more is taken back than was to be, and not less.
        """
        approval = self.find(name)
        effect = self._effect_of(approval)
        command = TakeBack(
            ref=approval.ref,
            stamp=self._engine.mint.stamp(by),
            approval_id=approval.id,
            detail_json=self._said(effect.tool, reason),
            version=version,
        )
        is_as_seen, now = version in (None, approval.version), self._engine.store.look([]).now
        if approval.grant is not None and is_as_seen and not isinstance(unvoted(approval, by.id, now), Refusal):
            with suppress(UnknownPermission):  # it was erased, and allows nothing
                self.end_grant(approval.grant, by, reason)
        return self._done(self._write(command, effect))[0]

    def edit(
        self,
        name: str | Approval,
        args: Mapping[str, Any],
        *,
        digest: str,
        by: Actor,
        reason: str,
        most: int | None,
        version: int | None = None,
    ) -> Approval:
        """Changes what is asked about; the policy judges it anew, and everybody has to vote again."""
        approval = self.find(name)
        effect = self._effect_of(approval)
        if effect.args_json is not None:
            args = self.bound_edit(approval, effect, args)
        args_json = encode(args, root="args", max_bytes=most)
        command = Amend(
            ref=approval.ref,
            stamp=self._engine.mint.stamp(by, EDIT_VALUES),
            approval_id=approval.id,
            digest=digest,
            args_json=args_json,
            verdict=self._verdict_on(approval, effect, args_json),
            detail_json=self._said(effect.tool, reason),
            version=version,
            takes=self.taken(approval, effect, args_json),
            subject_json=self.subject_of(effect, args_json),
        )
        return self._done(self._write(command, effect))[0]

    def taken(self, approval: Approval, effect: Effect, args_json: bytes) -> Taken | None:
        """Return the place of the call that an edit makes this one to be, if it is another."""
        ref = place_taken(approval.naming, effect, args_json)
        return None if ref is None else Taken(ref=ref, effect_id=self._engine.mint.effect_id())

    def subject_of(self, effect: Effect, args_json: bytes) -> bytes | None:
        """Return the mark of the person whom edited arguments are about; None if this process cannot tell.

        Where the arguments hold marks, only the caller has all of them: it tells when it makes the call.
        """
        return None if holds_mark(decode(args_json)) else self._subject_in(effect.tool, args_json)

    def bound_edit(self, approval: Approval, effect: Effect, args: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return edited arguments as the tool reads them, if this process knows it.

        Raises:
            BadCall: The edit leaves something out, changes what only the caller has, or does not fit the tool.
        """
        edited: Any = decode(encode(args, root="args"))
        check_whole(effect.tool, edited, effect.args)
        if not holds_mark(edited):  # only the caller has what a mark stands for: it reads the edit before it runs
            edited = decode(encode(self._binds(effect.tool, edited), root="args"))
        check_underived(approval, edited, effect.args)
        self._check_edit(effect, edited)
        return dict(edited)

    def _check_edit(self, effect: Effect, edited: Mapping[str, Any]) -> None:
        """Refuse an edit of what only the caller has: it is not on the record."""
        changed = changes_in(edited, effect.args)
        screen = self._screen_of(effect.tool)
        kept = encode(changed)
        if holds_mark(changed) or (screen is not None and screen.redactor.screen(kept).recorded_args != kept):
            raise BadCall(
                f"{effect.tool}: what is redacted cannot be edited, for it is not on the record; leave each mark where "
                "it is, or deny the call and let it be made anew"
            )

    def attend(self, approval: Approval) -> Approval:
        """Sees to an approval that is due."""
        command = Attend(ref=approval.ref, stamp=self._engine.mint.stamp(SYSTEM), approval_id=approval.id)
        return self._done(self._write(command, self._effect_of(approval)))[0]

    def _said(self, tool: str, reason: str) -> bytes:
        screen = self._screen_of(tool)
        return encode(reason if screen is None else screen.text(reason), root="reason")

    def _write(self, command: AboutApproval, effect: Effect | None) -> Answer:
        return permitted(self._engine.write_alone(command, effect))

    def _done(self, answer: Answer) -> tuple[Approval, Effect]:
        match answer:
            case Decided(approval, effect):
                return approval, effect
            case NotCounted(refusal, approval, effect):
                raise VoteRefused(f"{approval.id} {refusal.why}", code=refusal.code, approval=approval, effect=effect)
            case Illegal(effect, why):
                raise IllegalMove(f"{effect.tool}: {effect.id} {why}", effect=effect)
            case NoSuchEffect(ref):
                raise UnknownEffect(f"no effect has the key {ref.key} in scope {ref.scope!r}")
            case _:
                raise AssertionError(f"an approval is never answered by {type(answer).__name__}")

    # Permissions given ahead

    def delegate(self, to: str, until: datetime, by: Actor, reason: str) -> Delegation:
        """Lets somebody else decide what this person may decide, until a moment."""
        if by.kind != "person":
            raise BadCall(f"only people delegate, and {by.id} is {by.kind}")
        check_name("to", to)
        delegation = Delegation(
            id=self._engine.mint.new_id("dlg"), giver=by.id, to=to, until=until, credential=by.credential
        )
        self._tell("delegation_given", by, delegation_sheet(delegation), reason)
        return delegation

    def end_delegation(self, delegation_id: str, by: Actor, reason: str) -> Delegation:
        """Ends a delegation before its time."""
        found = read_sheet(self._engine.store, self._tenant, delegation_ref(delegation_id))
        if found is None or found.body is None:
            raise UnknownPermission(f"no delegation has the id {delegation_id}")
        before = read_delegation(found)
        if before.is_ended:
            return before
        over = replace(before, version=before.version + 1, is_ended=True)
        self._tell("delegation_ended", by, delegation_sheet(over), reason)
        return over

    def delegations(self, to: str | None = None) -> list[Delegation]:
        """Lists the newest delegations that have not been ended, to everybody or to one folded name."""
        selected = SheetFilter(kind="delegation", status="active", topic=to, limit=_MOST_LISTED)
        found = self._engine.store.sheets(self._tenant, selected)
        return [read_delegation(sheet) for sheet in found if sheet.body is not None]

    def grants(self, tool: str | None) -> list[Grant]:
        """Lists standing grants that have uses left."""
        selected = SheetFilter(kind="grant", status="active", topic=tool, limit=_MOST_LISTED)
        return [read_grant(sheet) for sheet in self._engine.store.sheets(self._tenant, selected) if sheet.body]

    def end_grant(self, grant_id: str, by: Actor, reason: str) -> Grant:
        """Withdraws a standing grant."""
        found = read_sheet(self._engine.store, self._tenant, grant_ref(grant_id))
        if found is None or found.body is None:
            raise UnknownPermission(f"no grant has the id {grant_id}")
        grant = read_grant(found)
        if grant.is_over:  # nothing is left to withdraw, and nothing follows the end of a grant
            return grant
        over = grant.withdrawn()
        self._tell("grant_ended", by, grant_sheet(over), reason)
        return over

    # The policy of the ledger

    def policy(self) -> tuple[Mapping[str, Any], str] | None:
        """Gives the content and the version of the policy kept in the ledger; None when there is none."""
        found = read_sheet(self._engine.store, self._tenant, POLICY_REF)
        if found is None or found.body is None:
            return None
        kept = found.read()
        return kept["content"], kept["version"]

    def apply_policy(
        self, named: Mapping[str, Any] | str | Path, by: Actor, reason: str, instead_of: str | None = None
    ) -> str:
        """Puts a policy in force for every process of this tenant, and gives its version.

        With `instead_of`, only while the policy in force has this version; the empty one stands for none.
        """
        from indelible.core.policy.policy import policy_of
        from indelible.policy_files import load_content

        if by.kind == "agent":
            raise BadCall(f"{by.id} is an agent; the rules it is under are not its to make, so let a person apply them")
        content = named if isinstance(named, Mapping) else load_content(Path(named))
        policy = policy_of(content)
        found = read_sheet(self._engine.store, self._tenant, POLICY_REF)
        body = body_of({"content": dict(content), "version": policy.version})
        first = Sheet(kind=POLICY_REF.kind, id=POLICY_REF.id, status="active", body=body)
        sheet = first if found is None else found.after(status="active", body=body)
        # One that cannot be read has no version, and is replaced by whoever does not ask for one.
        in_force = "" if found is None or found.body is None else str(found.read().get("version", ""))
        if instead_of not in (None, in_force):  # and if that changes before this is written, it is not written
            raise IllegalMove(f"the policy is at version {in_force} now, not {instead_of}; look at it again")
        self._tell("policy_applied", by, sheet, reason, run_id=JOURNAL_RUN, version=policy.version)
        self._engine.judging.forget()
        return policy.version

    def _tell(
        self, event_type: str, by: Actor, sheet: Sheet, reason: str, run_id: str = APPROVALS_RUN, **facts: Any
    ) -> None:
        command = Record(
            tenant=self._tenant,
            run_id=run_id,
            stamp=self._engine.mint.stamp(by),
            event_type=event_type,
            facts=facts_json({"id": sheet.id, **facts}),
            committed={"reason": encode(reason, root="reason")},
            sheet=sheet,
        )
        if isinstance(self._engine.write_alone(command), Outrun):
            raise IllegalMove(f"{sheet.kind} {sheet.id} was changed by somebody else meanwhile; look at it again")


def approval_on(sheet: Sheet) -> Approval | None:
    """Gives the approval on a sheet; None when it was erased."""
    return None if sheet.body is None else read_approval(sheet)
