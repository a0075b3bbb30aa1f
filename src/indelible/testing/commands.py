"""Makes commands for tests of stores."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from hashlib import sha256
from typing import Any, Literal

from indelible.core.approvals.approval import Approval, Question, approval_digest
from indelible.core.commands import (
    Amend,
    Attend,
    Cancel,
    CastVote,
    Expire,
    Finish,
    Keep,
    Open,
    Relinquish,
    Reopen,
    Settle,
    ShowTo,
    Stamp,
    TakeBack,
)
from indelible.core.effects.effect import Actor, Claim
from indelible.core.effects.identity import Ref
from indelible.core.policy.verdicts import ALLOWED, Charge, Verdict
from indelible.core.sheets import Sheet

LEASE = timedelta(seconds=30)
PERSON = Actor("ada")
DECIDER = Actor("bob")
DIGEST = "d1" * 32


def asking(**words: Any) -> Verdict:
    """Gives the verdict that somebody has to be asked."""
    charges: tuple[Charge, ...] = words.pop("charges", ())
    return Verdict(decision="ask", question=Question(**{"rule": "somebody is asked", **words}), charges=charges)


def charged(amount: int) -> Verdict:
    """Gives the verdict that a call may run and takes so much from a budget of 5."""
    charge = Charge(budget="shared", limit=Decimal(5), window=timedelta(days=1), amount=Decimal(amount))
    return replace(ALLOWED, charges=(charge,))


def message(name: str, status: str = "due", topic: str = "chat") -> Sheet:
    """Makes a sheet that is kept aside."""
    return Sheet(kind="delivery", id=name, status=status, topic=topic, body=b'{"n":1}')


class Commands:
    """Makes commands about effects of one tenant; effects are named by any text."""

    def __init__(self, tenant: str, run_id: str = "run-1", scope: str = "scope-1") -> None:
        self.tenant = tenant
        self.run_id = run_id
        self.scope = scope

    def ref(self, name: str) -> Ref:
        """Gives the place of an effect."""
        return Ref(self.tenant, self.scope, sha256(name.encode()).hexdigest())

    def stamp(self, actor: Actor = PERSON) -> Stamp:
        """Gives a stamp with fresh salts, at a moment that a store keeps to the microsecond."""
        return Stamp(at=datetime.now(UTC), actor=actor, salts=os.urandom(256))

    def open(self, name: str, **changes: Any) -> Open:
        """Asks to run an effect."""
        command = Open(
            ref=self.ref(name),
            stamp=self.stamp(),
            effect_id=f"eff_{os.urandom(12).hex()}",
            token=os.urandom(16).hex(),
            run_id=self.run_id,
            tool="tool",
            side_effect="payment",
            on_crash="hold",
            call_id=None,
            dedupe="args",
            digest=DIGEST,
            args_json=b'{"n":1}',
            lease=LEASE,
            verdict=ALLOWED,
            has_key_fields=False,
        )
        return replace(command, **changes)

    def finish(
        self, claim: Claim, status: Literal["succeeded", "failed"] = "succeeded", detail: bytes | None = None
    ) -> Finish:
        """Reports an outcome."""
        usual = b'"done"' if status == "succeeded" else b'{"message":"no","type":"Refused"}'
        return Finish(claim=claim, stamp=self.stamp(), status=status, detail_json=detail or usual)

    def relinquish(self, claim: Claim, status: Literal["ready", "in_doubt"] = "ready") -> Relinquish:
        """Gives a claim up."""
        return Relinquish(claim=claim, stamp=self.stamp(), status=status, detail_json=b'"gave up"')

    def expire(self, ref: Ref) -> Expire:
        """Calls an abandoned effect in doubt."""
        return Expire(ref=ref, stamp=self.stamp())

    def settle(self, ref: Ref, status: Literal["succeeded", "failed"] = "succeeded") -> Settle:
        """Tells what became of an effect in doubt."""
        return Settle(ref=ref, stamp=self.stamp(), status=status, detail_json=b'"told"', evidence_json=b'"seen"')

    def reopen(self, ref: Ref) -> Reopen:
        """Allows another attempt."""
        return Reopen(ref=ref, stamp=self.stamp(), detail_json=b'"again"')

    def cancel(self, ref: Ref) -> Cancel:
        """Withdraws an effect."""
        return Cancel(ref=ref, stamp=self.stamp(), detail_json=b'"no more"')

    # About approvals. The agent is one person, and whoever decides is another.

    def ask(self, name: str, **changes: Any) -> Open:
        """Asks to run an effect about which somebody has to be asked."""
        return self.open(name, **{"verdict": asking(), **changes})

    def approve(self, approval: Approval, by: Actor = DECIDER, **changes: Any) -> CastVote:
        """Approves what is asked."""
        command = CastVote(
            ref=approval.ref,
            stamp=self.stamp(by),
            approval_id=approval.id,
            digest=approval.digest,
            is_approval=True,
            detail_json=b'"decided"',
        )
        return replace(command, **changes)

    def deny(self, approval: Approval, by: Actor = DECIDER, **changes: Any) -> CastVote:
        """Refuses what is asked."""
        return self.approve(approval, by, is_approval=False, **changes)

    def approve_unseen(self, opening: Open, now: datetime) -> CastVote:
        """Approves what an opening asks, at a moment of the store's clock, before it was asked."""
        question = opening.verdict.question
        assert question is not None, "nothing is asked"
        approval_id = f"apr_{opening.effect_id.removeprefix('eff_')}"
        digest = approval_digest(
            approval=approval_id,
            tenant=self.tenant,
            run_id=opening.run_id,
            tool=opening.tool,
            schema=opening.schema,
            args_json=opening.args_json,
            policy=opening.verdict.policy,
            expires_at=now + question.expires,
        )
        return CastVote(
            ref=opening.ref,
            stamp=self.stamp(DECIDER),
            approval_id=approval_id,
            digest=digest,
            is_approval=True,
            detail_json=b'"decided"',
        )

    def take_back(self, approval: Approval, by: Actor = DECIDER) -> TakeBack:
        """Takes an approval back."""
        stamp = self.stamp(by)
        return TakeBack(ref=approval.ref, stamp=stamp, approval_id=approval.id, detail_json=b'"not so"')

    def amend(self, approval: Approval, args_json: bytes, **changes: Any) -> Amend:
        """Changes the arguments that are asked about."""
        command = Amend(
            ref=approval.ref,
            stamp=self.stamp(DECIDER),
            approval_id=approval.id,
            digest=approval.digest,
            args_json=args_json,
            verdict=Verdict(decision="ask", question=approval.question),
            detail_json=b'"rather so"',
        )
        return replace(command, **changes)

    def show(self, approval: Approval) -> ShowTo:
        """Records that somebody was shown what is asked."""
        return ShowTo(ref=approval.ref, stamp=self.stamp(DECIDER), approval_id=approval.id)

    def attend(self, approval: Approval) -> Attend:
        """Sees to an approval that is due."""
        return Attend(ref=approval.ref, stamp=self.stamp(), approval_id=approval.id)

    # About sheets

    def keep(self, sheet: Sheet) -> Keep:
        """Changes a sheet that no event tells of."""
        return Keep(tenant=self.tenant, stamp=self.stamp(), sheet=sheet)
