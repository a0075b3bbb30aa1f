"""What becomes of permissions when somebody is revoked who gave them: from then on they open nothing. Pure.

It is decided at the moment of the claim, and not when the vote was cast: a permission is for what happens now, and who
was revoked answers for it no longer. Asking somebody else costs a minute; running what a thief approved may cost all.
The same holds for people whom the rules of their provider do not let decide any more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from indelible.core.approvals.approval import Approval, Vote, names_in
from indelible.core.approvals.grants import read_delegation, read_grant
from indelible.core.approvals.sheets import read_approval
from indelible.core.people.standing import credential_ref, is_token_revoked, may_permit, place_of, provider_behind
from indelible.core.sheets import PERSON, Sheet, SheetRef, Sheets


def people_behind(sheets: Sheets) -> set[SheetRef]:
    """Name the sheets that the permissions on these sheets rest on: people and tokens, and of people the provider.

    Read them first. Those that were read may rest on others again, so ask until nothing new is named.
    """
    return {ref for sheet in sheets.values() if sheet and sheet.body is not None for ref in _resting_on(sheet)}


def _resting_on(sheet: Sheet) -> Iterator[SheetRef]:
    if sheet.kind == "approval":
        for vote in read_approval(sheet).votes:
            yield from map(place_of, names_in(vote))
            yield from _token_of(vote.credential)
    elif sheet.kind == "grant":
        grant = read_grant(sheet)
        yield place_of(grant.given_by)
        yield from _token_of(grant.credential)
    elif sheet.kind == "delegation":
        yield place_of(read_delegation(sheet).giver)
    elif sheet.kind == PERSON:
        yield from provider_behind(sheet)


def _token_of(credential_id: str | None) -> Iterator[SheetRef]:
    if credential_id is not None:
        yield credential_ref(credential_id)


def standing_votes(approval: Approval, sheets: Sheets) -> tuple[Vote, ...]:
    """Return the votes that still stand: neither the voter, nor who let them vote, nor the token used was revoked."""
    return tuple(
        vote
        for vote in approval.votes
        if all(may_permit(name, sheets) for name in names_in(vote)) and not is_token_revoked(vote.credential, sheets)
    )


def without_revoked(approval: Approval, sheets: Sheets) -> Approval | None:
    """Return an open approval without votes by revoked people or tokens; None when it has none of these."""
    votes = standing_votes(approval, sheets)
    if not approval.is_open or votes == approval.votes:
        return None
    return replace(approval, version=approval.version + 1, status="pending", votes=votes)
