"""A record stays verified when an approval that came with a grant falls away, and the call is approved again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from indelible import Actor, AwaitingApproval, GrantTerms, Ledger, ToolCall, migrate
from indelible.core.people.standing import person_id
from indelible.journal.evidence.verification import verify
from indelible.journal.exports.exporting import export
from indelible.server.signin.leaving import Leaving
from indelible.server.signin.people import People
from tests.journal.exported import key_of, store_of
from tests.journal.standing_alone import standalone
from tests.journal.test_verify_live import look

ROOT, ANA, BO = Actor("root"), Actor("ana", "person", "link"), Actor("bo")
CALL = ToolCall(tool="refund", args={"charge": "ch_1", "amount": 5}, run_id="order-1")


@pytest.mark.parametrize("is_granted_again", [False, True])
@pytest.mark.parametrize("way", ["taken back", "giver revoked"])
def test_69_an_approval_that_is_given_again_names_only_the_grant_that_came_with_it(
    way: str, is_granted_again: bool, store_url: str, tmp_path: Path
) -> None:
    migrate(store_url, keys=tmp_path / "keys")
    with Ledger.open(store_url, keys=tmp_path / "keys", seal=False) as ledger:
        terms = GrantTerms(count=2, until=datetime.now(UTC) + timedelta(hours=8), pin=("amount",))
        people = People(store_of(ledger), "default")
        people.open_link(people.invite("ana", ("approver",), by=ROOT)[1])
        begun = ledger.begin(CALL, side_effect="payment", approval="required")
        assert isinstance(begun, AwaitingApproval)
        first = ledger.approve(begun.approval, digest=begun.approval.digest, by=ANA, grant=terms)
        assert first.grant is not None
        if way == "taken back":
            ledger.revoke_approval(first, by=ANA, reason="wrong customer")
        else:
            Leaving(store_of(ledger), "default", ledger._approving).revoke(person_id("ana"), by=ROOT)
        again = ledger.approve(first, digest=first.digest, by=BO, grant=terms if is_granted_again else None)
        assert (again.status, again.grant is None) == ("approved", not is_granted_again)
        assert again.grant != first.grant
        assert ledger.run(CALL, lambda effect: "done", side_effect="payment", approval="required") == "done"
        ledger.seal()
        key = key_of(ledger)
        assert look(ledger, key, deep=True).verdict == "verified"
        bundle = export(store_of(ledger), "default", tmp_path / "journal.zip")
        assert verify(bundle.path, [key]).verdict == "verified"
        assert standalone(bundle.path, [key]) == "verified"
