"""How a person stands now: the one rule by which every door lets them in, or not. Pure.

A person stands if they were not revoked and are the ledger's own, or a provider's whose rules of today still let them
in by what it said last. After `max_age` they have to come from the provider again before they decide anything more.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Literal

from indelible.core.approvals.approval import folded
from indelible.core.effects.effect import Actor
from indelible.core.people.vouching import PROVIDER_REF, ProviderRules, Vouched, read_vouched, rules_in
from indelible.core.rights import RIGHTS
from indelible.core.scopes import Scope
from indelible.core.sheets import CREDENTIAL, PERSON, Sheet, SheetRef, Sheets, sheet_at

_PERSON_TAG = b"indelible/person/v1\0"

StandingWord = Literal["in", "sign_in_again", "not_allowed", "revoked"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How a person stands.

    Attributes:
        scopes: What they may. Empty: they are out for good, until an administrator changes it.
        is_revoked: Whether an administrator revoked them.
        issuer: The provider that let them in. None: they are the ledger's own.
        until: When they have to come from the provider again. None: never.
    """

    scopes: tuple[Scope, ...]
    is_revoked: bool = False
    issuer: str | None = None
    until: datetime | None = None

    def word(self, now: datetime) -> StandingWord:
        """Return how they stand, in one word."""
        if self.is_revoked:
            return "revoked"
        if not self.scopes:
            return "not_allowed"
        return "in" if self.until is None or now < self.until else "sign_in_again"

    def why_not(self, name: str, now: datetime) -> str | None:
        """Say why they may do nothing now, and what to do about it; None if they may."""
        why: dict[StandingWord, str | None] = {
            "in": None,
            "revoked": f"{name} was revoked; to let them in again: indelible people invite",
            "not_allowed": f"no rule lets {name} in any more by what {self.issuer} said last. If their groups changed "
            "there, they sign in at /signin again. Else an administrator adds a rule (indelible serve --oidc-allow) or "
            f"makes them a person of this ledger: indelible people invite {name} --scope SCOPE --convert",
            "sign_in_again": f"{name} was confirmed by {self.issuer} too long ago; sign in through it again at /signin",
        }
        return why[self.word(now)]

    def why_not_decide(self, name: str, now: datetime) -> tuple[str, str] | None:
        """Say why they may not decide now, with a code of `VoteRefused`; None if they may."""
        why = self.why_not(name, now)
        if why is not None:
            return ("sign_in_again" if self.word(now) == "sign_in_again" else "revoked"), why
        if self.may_permit:
            return None
        have = f"they have the scope {', '.join(self.scopes)}"
        if self.issuer is not None:
            return "revoked", f"the rules of {self.issuer} let {name} decide nothing any more: {have}"
        return (
            "revoked",
            f"{have}; an administrator gives them another: indelible people invite {name} --scope approver",
        )

    @property
    def may_permit(self) -> bool:
        """Say whether what they permitted counts, however long ago: votes, grants, delegations.

        It does as long as they might decide it now.
        """
        return not RIGHTS["decide"].scopes.isdisjoint(self.scopes)

    def reach_of(self, scopes: Iterable[Scope]) -> frozenset[Scope]:
        """Return what a token with these scopes lets them do: never more than they may themselves."""
        return frozenset(scopes if "admin" in self.scopes else set(scopes) & set(self.scopes))


def standing(
    scopes: tuple[Scope, ...], vouched: Vouched | None, rules: ProviderRules | None, *, is_revoked: bool
) -> Standing:
    """Return how a person stands.

    Args:
        scopes: What an administrator let them do.
        vouched: What a provider said of them last; None for the ledger's own people.
        rules: The provider's rules in force; None if there are none.
        is_revoked: Whether an administrator revoked them.
    """
    issuer = None if vouched is None else vouched.by.issuer
    if is_revoked:
        return Standing(scopes=(), is_revoked=True, issuer=issuer)
    if vouched is None:
        return Standing(scopes=scopes)
    if rules is None:
        return Standing(scopes=(), issuer=issuer)
    return Standing(scopes=rules.scopes_of(vouched), issuer=issuer, until=vouched.at + rules.max_age)


# Of people on sheets


def person_id(name: str) -> str:
    """Gives the id of whoever has this name: however it is written, one name is one person."""
    return f"per_{sha256(_PERSON_TAG + folded(name).encode()).hexdigest()[:32]}"


def person_ref(id_: str) -> SheetRef:
    """Locates a person."""
    return SheetRef(PERSON, id_)


def place_of(name: str) -> SheetRef:
    """Locates whoever has this name, if the server knows them."""
    return person_ref(person_id(name))


def places_of(actor: Actor) -> tuple[SheetRef, ...]:
    """Locates who acts, if that is somebody whom a server let in: whoever works at the ledger itself needs no leave."""
    return (place_of(actor.id),) if actor.kind == "person" and actor.via != "process" else ()


def provider_behind(sheet: Sheet) -> tuple[SheetRef, ...]:
    """Locate the rules that a person rests on; nothing for the ledger's own people."""
    return () if sheet.read()["vouched"] is None else (PROVIDER_REF,)


def standing_of(name: str, sheets: Sheets) -> Standing | None:
    """Return how the person with this name stands; None for a name that no server knows."""
    sheet = sheet_at(sheets, place_of(name))
    return None if sheet is None else standing_on(sheet, sheets)


def standing_on(sheet: Sheet, sheets: Sheets) -> Standing:
    """Return how the person on a sheet stands. One whose sheet was edited by hand counts as revoked."""
    if sheet.body is None:
        return Standing(scopes=(), is_revoked=True)
    content = sheet.read()
    vouched = read_vouched(content["vouched"])
    rules = None if vouched is None else rules_in(sheets)
    return standing(tuple(content["scopes"]), vouched, rules, is_revoked=content["is_revoked"] is True)


def may_permit(name: str, sheets: Sheets, at: datetime | None = None) -> bool:
    """Say whether what this person permitted counts. Whom no server knows was never let in by one.

    What they permitted `at` a moment before they were let in does not: they were revoked in between.
    """
    sheet = sheet_at(sheets, place_of(name))
    if sheet is None:
        return True
    if not standing_on(sheet, sheets).may_permit:
        return False
    return at is None or datetime.fromisoformat(sheet.read()["created_at"]) <= at


# Of tokens


def credential_ref(credential_id: str) -> SheetRef:
    """Locate the credential of a token."""
    return SheetRef(CREDENTIAL, credential_id)


def is_token_revoked(credential_id: str | None, sheets: Sheets) -> bool:
    """Say whether a token was revoked. One that is not there any more, or was edited by hand, counts as revoked.

    One that has expired does not: it was good when it was used.
    """
    if credential_id is None:
        return False
    sheet = sheet_at(sheets, credential_ref(credential_id))
    return sheet is None or sheet.body is None or sheet.read()["is_revoked"] is True
