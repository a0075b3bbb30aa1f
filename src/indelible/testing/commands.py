"""Makes commands for tests of stores."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any, Literal

from indelible.core.commands import Cancel, Decide, Expire, Finish, Open, Relinquish, Reopen, Settle, Stamp
from indelible.core.effects import Actor, Claim
from indelible.core.identity import Ref

LEASE = timedelta(seconds=30)
PERSON = Actor("ada")
DIGEST = "d1" * 32


class Commands:
    """Makes commands about effects of one tenant; effects are named by any text."""

    def __init__(self, tenant: str, run_id: str = "run-1", scope: str = "scope-1") -> None:
        self.tenant = tenant
        self.run_id = run_id
        self.scope = scope

    def ref(self, name: str) -> Ref:
        """Gives the place of an effect."""
        return Ref(self.tenant, self.scope, sha256(name.encode()).hexdigest())

    def stamp(self) -> Stamp:
        """Gives a stamp with fresh salts, at a moment that a store keeps to the microsecond."""
        return Stamp(at=datetime.now(UTC), actor=PERSON, salts=os.urandom(96))

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
            needs_approval=False,
            has_key_fields=False,
        )
        return replace(command, **changes)

    def finish(
        self, claim: Claim, status: Literal["succeeded", "failed"] = "succeeded", detail: bytes = b'"done"'
    ) -> Finish:
        """Reports an outcome."""
        return Finish(claim=claim, stamp=self.stamp(), status=status, detail_json=detail)

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

    def approve(self, ref: Ref, *, is_approval: bool = True, digest: str = DIGEST) -> Decide:
        """Answers the question whether an effect may run."""
        return Decide(ref=ref, stamp=self.stamp(), digest=digest, is_approval=is_approval, detail_json=b'"decided"')
