"""Calls that ask for permission, and shelves on which it was given."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from indelible.core.approvals.approval import Approval
from indelible.core.approvals.sheets import approval_ref, approval_sheet
from indelible.core.commands import AwaitingApproval, Claimed, Open
from indelible.core.effects.effect import Claim
from indelible.core.effects.identity import Ref
from indelible.core.policy.verdicts import Verdict
from tests.core.making import ADA, AGENT, OTHER_ARGS, OTHER_DIGEST, REF, Shelf, asks, cast, charge, open_command, stamp

OTHER: Any = {"digest": OTHER_DIGEST, "args_json": OTHER_ARGS, "has_key_fields": True}
ELSEWHERE = Ref("default", "run-1", "12" * 32)
PRICED = asks(charges=(charge(2),))


def opening(number: int = 1, **words: Any) -> Open:
    """Gives the call of an agent, with an id and a token of its own."""
    fields = {"effect_id": f"eff_{number}", "token": f"{number:032x}", "stamp": stamp(actor=AGENT), "verdict": asks()}
    return open_command(**{**fields, **words})


def approved(verdict: Verdict | None = None, **words: Any) -> tuple[Shelf, Approval]:
    """Gives a shelf with a payment that somebody has approved, and the approval."""
    shelf = Shelf()
    asked = shelf.do(opening(verdict=verdict or asks(), **words))
    assert isinstance(asked, AwaitingApproval)
    shelf.do(cast(asked.approval, ADA))
    assert shelf.effects[REF].status == "ready"
    return shelf, shelf.approval()


def claim_on(shelf: Shelf, command: Open) -> Claim:
    answer = shelf.begin(command)
    assert isinstance(answer, Claimed), answer
    return answer.claim


def edited(shelf: Shelf, approval: Approval, **changes: Any) -> None:
    """Writes an approval over, as somebody with access to the store could."""
    shelf.sheets[approval_ref(approval.id)] = replace(
        approval_sheet(replace(approval, **changes)), run_id="run-1", seq=0
    )
