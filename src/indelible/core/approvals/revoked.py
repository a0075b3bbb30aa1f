"""What becomes of permissions when somebody is revoked who gave them: from then on they open nothing. Pure.

It is decided at the moment of the claim, and not when the vote was cast: a permission is for what happens now, and who
was revoked answers for it no longer. Asking somebody else costs a minute; running what a thief approved may cost all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from indelible.core.approvals.approval import Approval, Vote, names_in
from indelible.core.approvals.grants import read_delegation, read_grant
from indelible.core.approvals.sheets import read_approval
from indelible.core.people.standing import is_revoked, place_of
from indelible.core.sheets import Sheet, SheetRef, Sheets


def people_behind(sheets: Sheets) -> set[SheetRef]:
    """Names the sheets of those on whose word the permissions on these sheets rest; to be read before one decides."""
    return {
        place_of(name) for sheet in sheets.values() if sheet and sheet.body is not None for name in _givers_of(sheet)
    }


def _givers_of(sheet: Sheet) -> Iterator[str]:
    if sheet.kind == "approval":
        for vote in read_approval(sheet).votes:
            yield from names_in(vote)
    elif sheet.kind == "grant":
        yield read_grant(sheet).given_by
    elif sheet.kind == "delegation":
        yield read_delegation(sheet).giver


def standing_votes(approval: Approval, sheets: Sheets) -> tuple[Vote, ...]:
    """Gives the votes of those who were not revoked, neither the voter nor who let them vote."""
    return tuple(vote for vote in approval.votes if not any(is_revoked(name, sheets) for name in names_in(vote)))


def without_revoked(approval: Approval, sheets: Sheets) -> Approval | None:
    """Gives an open approval without the votes of those who were revoked; None when there are none."""
    votes = standing_votes(approval, sheets)
    if not approval.is_open or votes == approval.votes:
        return None
    return replace(approval, version=approval.version + 1, status="pending", votes=votes)
