"""What becomes of permissions when somebody is revoked who gave them: from then on they open nothing. Pure.

It is decided at the moment of the claim, and not when the vote was cast: a permission is for what happens now, and who
was revoked answers for it no longer. Asking somebody else costs a minute; running what a thief approved may cost all.
The same holds for people whom the rules of their provider do not let decide any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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
        yield from behind_votes(read_approval(sheet).votes)
    elif sheet.kind == "grant":
        grant = read_grant(sheet)
        yield from map(place_of, grant.givers)
        yield from map(credential_ref, grant.tokens)
    elif sheet.kind == "delegation":
        delegation = read_delegation(sheet)
        yield place_of(delegation.giver)
        if delegation.credential is not None:
            yield credential_ref(delegation.credential)
    elif sheet.kind == PERSON:
        yield from provider_behind(sheet)


def behind_votes(votes: Iterable[Vote]) -> Iterator[SheetRef]:
    """Yield the people and tokens that votes rest on, to be read before `standing_votes` is asked."""
    for vote in votes:
        yield from map(place_of, names_in(vote))
        yield from map(credential_ref, _tokens_in(vote))


def _tokens_in(vote: Vote) -> Iterator[str]:
    """Yield the ids of the tokens that a vote rests on."""
    return (each for each in (vote.credential, vote.delegated_with) if each is not None)


def standing_votes(approval: Approval, sheets: Sheets) -> tuple[Vote, ...]:
    """Return the votes that still stand: no person and no token that they rest on was revoked since."""
    return tuple(
        vote
        for vote in approval.votes
        if all(may_permit(name, sheets, vote.at) for name in names_in(vote))
        and not any(is_token_revoked(token, sheets) for token in _tokens_in(vote))
    )


def without_revoked(approval: Approval, sheets: Sheets) -> Approval | None:
    """Return an open approval without votes by revoked people or tokens; None when it has none of these."""
    votes = standing_votes(approval, sheets)
    if not approval.is_open or votes == approval.votes:
        return None
    return replace(approval, version=approval.version + 1, status="pending", votes=votes)
