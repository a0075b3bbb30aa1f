"""Rights that are older than what is remembered of them, after a loss was declared: their ends are told again. Pure.

What a credential, a delegation or a grant lost in that time is its end, or a use of a grant: it ends. A person may only
have signed in: then their sessions, their link and what a provider said of them end, and no more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import NamedTuple

from indelible.core.approvals.grants import (
    APPROVALS_RUN,
    delegation_sheet,
    grant_sheet,
    read_delegation,
    read_grant,
)
from indelible.core.people.credentials import CREDENTIALS_RUN, credential_sheet, read_credential
from indelible.core.people.person import PEOPLE_RUN
from indelible.core.people.sheets import person_sheet, read_person
from indelible.core.sheets import Sheet

_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


class Again(NamedTuple):
    """Is what is told again of a right: the event, its run and the sheet as it stands then."""

    run_id: str
    event_type: str
    sheet: Sheet


def told_again(sheet: Sheet, taken: int) -> Again:
    """Return what is told of a right whose row is older than what is remembered of it.

    Args:
        sheet: The right, with the version that is remembered and what the record says of it.
        taken: The newest version that took something from a person; 0 if none is known.
    """
    return _AGAIN[sheet.kind](sheet, taken)


def _credential(sheet: Sheet, taken: int) -> Again:
    return Again(CREDENTIALS_RUN, "credential_revoked", credential_sheet(read_credential(sheet).revoked()))


def _delegation(sheet: Sheet, taken: int) -> Again:
    before = read_delegation(sheet)
    over = replace(before, version=before.version + 1, is_ended=True)
    return Again(APPROVALS_RUN, "delegation_ended", delegation_sheet(over))


def _grant(sheet: Sheet, taken: int) -> Again:
    return Again(APPROVALS_RUN, "grant_ended", grant_sheet(read_grant(sheet).withdrawn()))


def _person(sheet: Sheet, taken: int) -> Again:
    person = read_person(sheet)
    if person.is_revoked or taken > sheet.read()["version"]:
        return Again(PEOPLE_RUN, "person_revoked", person_sheet(person.revoked()))
    out = replace(person, version=person.version + 1, invitation=None, sessions=())
    if out.vouched is None:
        return Again(PEOPLE_RUN, "person_signed_out", person_sheet(out))
    nothing = replace(out.vouched, said=(), at=_LONG_AGO)
    return Again(PEOPLE_RUN, "person_disallowed", person_sheet(replace(out, vouched=nothing)))


_AGAIN: Mapping[str, Callable[[Sheet, int], Again]] = {
    "credential": _credential,
    "delegation": _delegation,
    "grant": _grant,
    "person": _person,
}
AGAIN = tuple(_AGAIN)
"""Names the kinds of rights of which something can be told again. A policy or a provider is applied again by hand."""
RUNS = (APPROVALS_RUN, CREDENTIALS_RUN, PEOPLE_RUN)
"""Names the runs in which it is told."""
