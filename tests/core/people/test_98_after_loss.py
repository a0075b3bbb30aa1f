"""What is told again of a right whose row is older than what is remembered: it takes, and never gives."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from indelible.core.approvals.grants import (
    Delegation,
    Grant,
    delegation_sheet,
    grant_sheet,
    read_delegation,
    read_grant,
)
from indelible.core.people.after_loss import AGAIN, RUNS, told_again
from indelible.core.people.credentials import Credential, credential_sheet, read_credential
from indelible.core.people.person import Invitation, Passkey, Person, Session
from indelible.core.people.sheets import person_sheet, read_person
from indelible.core.people.vouching import Said, Vouched, Voucher
from indelible.core.sheets import Sheet

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ANA = Person(
    id="per_1",
    version=2,
    name="ana",
    scopes=("approver",),
    created_at=NOW,
    invitation=Invitation(id="inv_1", hash="h", by="root", expires_at=NOW),
    passkeys=(Passkey(credential_id="pk", name="phone", public_key="k", sign_count=0, created_at=NOW),),
    sessions=(Session(id="ses_1", hash="h", via="link", created_at=NOW, expires_at=NOW),),
)
VOUCHED = replace(ANA, vouched=Vouched(by=Voucher("https://id", "s"), said=(Said("groups", "finance"),), at=NOW))
TOKEN = Credential(id="key_1", name="ana", kind="person", scopes=("admin",), hash="h", given_by="root", created_at=NOW)
DELEGATION = Delegation(id="dlg_1", giver="ana", to="bob", until=NOW)
GRANT = Grant(
    id="grt_1",
    tool="pay",
    pin=None,
    pinned="p",
    schema="s",
    policy="v",
    rule="r",
    uses_left=4,
    until=NOW + timedelta(days=1),
    given_by="ana",
    approval_id="apr_1",
)


def remembered(sheet: Sheet, version: int) -> Sheet:
    """The row is of an older version than what is remembered."""
    return replace(sheet, version=version)


def test_98_a_token_a_delegation_and_a_grant_end() -> None:
    token = told_again(remembered(credential_sheet(TOKEN), 2), 0)
    assert (token.event_type, token.sheet.version) == ("credential_revoked", 3)
    assert read_credential(token.sheet).is_revoked
    delegation = told_again(remembered(delegation_sheet(DELEGATION), 2), 0)
    assert (delegation.event_type, delegation.sheet.version) == ("delegation_ended", 3)
    assert read_delegation(delegation.sheet).is_ended
    grant = told_again(grant_sheet(GRANT), 0)
    assert (grant.event_type, grant.sheet.version) == ("grant_ended", 2)
    assert read_grant(grant.sheet).is_ended
    assert {token.run_id, delegation.run_id, grant.run_id} <= set(RUNS)
    assert {token.sheet.kind, delegation.sheet.kind, grant.sheet.kind, "person"} == set(AGAIN)


@pytest.mark.parametrize("person", [ANA, VOUCHED])
@pytest.mark.parametrize("taken", [0, 1, 2])
def test_98_of_a_person_who_lost_nothing_sessions_and_links_end(person: Person, taken: int) -> None:
    again = told_again(remembered(person_sheet(person), 9), taken)
    after = read_person(again.sheet)
    assert (after.version, after.is_revoked, after.sessions, after.invitation) == (10, False, (), None)
    assert (after.passkeys, after.scopes, after.created_at) == (ANA.passkeys, ANA.scopes, NOW)
    assert again.event_type == ("person_signed_out" if person is ANA else "person_disallowed")
    assert (after.vouched and (after.vouched.by, after.vouched.said)) == (
        None if person is ANA else (Voucher("https://id", "s"), ())
    )


@pytest.mark.parametrize("person", [ANA, VOUCHED])
@pytest.mark.parametrize(("is_revoked", "taken"), [(False, 3), (True, 0)])
def test_98_a_person_who_lost_something_is_let_in_no_more(person: Person, is_revoked: bool, taken: int) -> None:
    sheet = person_sheet(replace(person, is_revoked=is_revoked))
    again = told_again(remembered(sheet, 9), taken)
    after = read_person(again.sheet)
    assert (again.event_type, after.version, after.is_revoked, after.passkeys) == ("person_revoked", 10, True, ())
