"""Who may come in on the word of a provider (OpenID Connect), and what they may. Without a rule, nobody. Pure.

What a provider said is kept with the person, and the rules are kept in the ledger. So every program that uses the
ledger can say at any time whether the rules of today still let that person in.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any, NamedTuple

from indelible.core.approvals.approval import folded
from indelible.core.events import instant
from indelible.core.people.addresses import address_of, domain_of
from indelible.core.scopes import SCOPES_OF_PEOPLE, Scope, scopes_among
from indelible.core.sheets import PROVIDER, Sheet, SheetRef, Sheets, body_of, sheet_at
from indelible.errors import BadCall, NotAuthenticated

PROVIDER_REF = SheetRef(PROVIDER, "current")
"""Locates the rules by which a provider lets people in."""
USUAL_MAX_AGE = timedelta(hours=12)
"""The default of `ProviderRules.max_age`."""
LONGEST_MAX_AGE = timedelta(days=30)
LONGEST_SUBJECT = 255
_TAG = b"indelible/oidc/v1\0"
_EMAIL = "email"
_ANY_OF = "*@"
_MICROSECOND = timedelta(microseconds=1)


class Secrets(NamedTuple):
    """Is what one sign-in is bound to a browser by: all of it follows from what the browser keeps."""

    state: str
    nonce: str
    verifier: str

    @property
    def challenge(self) -> str:
        """Is what the provider is shown of the verifier (PKCE, S256)."""
        return _text(sha256(self.verifier.encode()).digest())


def secrets_of(kept: str) -> Secrets:
    """Gives the secrets of a sign-in from what the browser keeps of it."""
    return Secrets(*(_text(sha256(_TAG + word.encode() + b"\0" + kept.encode()).digest()) for word in Secrets._fields))


def _text(raw: bytes) -> str:
    return urlsafe_b64encode(raw).decode().rstrip("=")


# What a provider says


class Said(NamedTuple):
    """One thing that a provider says of a person: a claim, and its value or one of its values."""

    claim: str
    value: str


def said_in(claims: Mapping[str, Any]) -> Iterator[Said]:
    """Yield what an ID token says that a rule can ask for. An e-mail counts only if the provider verified it."""
    for claim, value in claims.items():
        if claim == _EMAIL:
            address = _verified_address(claims)
            yield from () if address is None else (Said(claim, address),)
        else:
            values = value if isinstance(value, list) else [value]
            yield from (Said(claim, one) for one in values if isinstance(one, str))


def _verified_address(claims: Mapping[str, Any]) -> str | None:
    email = claims.get(_EMAIL)
    return address_of(email) if isinstance(email, str) and claims.get("email_verified") is True else None


_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


class Voucher(NamedTuple):
    """A provider, and the person it speaks of: it never gives its `subject` to another person, as it may a name."""

    issuer: str
    subject: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Vouched:
    """What a provider said of a person when they last came from there.

    Attributes:
        by: The provider, and what it calls the person for ever. Both are compared exactly.
        said: What it said, as far as a rule asked for it.
        at: When it said so.
    """

    by: Voucher
    said: tuple[Said, ...]
    at: datetime


def voucher_in(claims: Mapping[str, Any]) -> Voucher:
    """Return who vouches, and for whom; raise `NotAuthenticated` if the provider names no person."""
    subject = claims["sub"]
    is_text = isinstance(subject, str) and subject.isascii() and subject.isprintable()
    if not is_text or not subject.strip() or len(subject) > LONGEST_SUBJECT:
        raise NotAuthenticated(
            f"the provider's token has no usable sub (1 to {LONGEST_SUBJECT} printable ASCII characters), so it "
            "names no person; correct the provider's configuration"
        )
    return Voucher(str(claims["iss"]), subject)


def name_in(claims: Mapping[str, Any]) -> str:
    """Return the name that a person acts under: their verified e-mail, else the provider's `sub`.

    Names are compared in folded form. An address that this would make another address is not used as a name.
    """
    address = _verified_address(claims)
    return address if address is not None and address_of(folded(address)) == address else voucher_in(claims).subject


# Rules


@dataclass(frozen=True, slots=True)
class Allowed:
    """Lets everybody in with a scope of whom the provider says this; an e-mail of `*@example.com` is any there."""

    claim: str
    value: str
    scope: Scope

    def covers(self, said: Said) -> bool:
        """Say whether this is what the provider said."""
        if said.claim == self.claim == _EMAIL and self.value.startswith(_ANY_OF):
            return said.value.partition("@")[2] == self.value.removeprefix(_ANY_OF)
        return said == (self.claim, self.value)


def read_allowed(text: str) -> Allowed:
    """Reads `claim=value:scope`."""
    words, _, scope = text.rpartition(":")
    claim, _, value = words.partition("=")
    compared = _compared_address(value) if claim == _EMAIL else value
    if not claim or not compared or scope not in SCOPES_OF_PEOPLE:
        raise BadCall(
            f"{text!r}: write claim=value:scope, as in email=ana@example.com:admin or groups=finance:approver; "
            f"scopes are {', '.join(SCOPES_OF_PEOPLE)}"
        )
    return Allowed(claim, compared, scope)


def _compared_address(value: str) -> str | None:
    if not value.startswith(_ANY_OF):
        return address_of(value)
    domain = domain_of(value.removeprefix(_ANY_OF))
    return None if domain is None else f"{_ANY_OF}{domain}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderRules:
    """The rules by which a provider lets people of a tenant in, as the ledger keeps them.

    Attributes:
        issuer: The provider. None: it was removed, and lets nobody in.
        allowed: Whom it lets in.
        max_age: How long what it said of a person counts. Default: 12 hours.
    """

    version: int = 1
    issuer: str | None
    allowed: tuple[Allowed, ...] = ()
    max_age: timedelta = USUAL_MAX_AGE

    def __post_init__(self) -> None:
        if not timedelta(0) < self.max_age <= LONGEST_MAX_AGE:
            raise BadCall(
                f"a sign-in at the provider counts for at most {LONGEST_MAX_AGE.days} days, and longer than 0"
            )

    def asked_for(self, claims: Mapping[str, Any]) -> tuple[Said, ...]:
        """Return what a rule asks for, of all that an ID token says; nothing else is kept of it."""
        said = {one for one in said_in(claims) if any(rule.covers(one) for rule in self.allowed)}
        return tuple(sorted(said))

    def scopes_of(self, vouched: Vouched) -> tuple[Scope, ...]:
        """Return what a person may by what the provider said last; nothing if no rule lets them in."""
        if vouched.by.issuer != self.issuer:
            return ()
        return scopes_among(rule.scope for rule in self.allowed if any(map(rule.covers, vouched.said)))

    def following(self, before: ProviderRules | None, version: int) -> ProviderRules | None:
        """Return these rules as the next version, or None if they are in force already."""
        if before is None and self.issuer is None and version == 0:
            return None
        same = before is not None and replace(before, version=self.version) == self
        return None if same else replace(self, version=version + 1)


# On sheets


def vouched_content(vouched: Vouched | None) -> dict[str, Any] | None:
    """Return what a person's sheet says of what the provider said."""
    if vouched is None:
        return None
    said = [one._asdict() for one in vouched.said]
    return {"at": instant(vouched.at), "issuer": vouched.by.issuer, "said": said, "subject": vouched.by.subject}


def read_vouched(content: Mapping[str, Any] | None) -> Vouched | None:
    """Read it back."""
    if content is None:
        return None
    return Vouched(
        by=Voucher(content["issuer"], content["subject"]),
        said=tuple(Said(**one) for one in content["said"]),
        at=datetime.fromisoformat(content["at"]),
    )


def read_issuer(content: Mapping[str, str] | str | None) -> Vouched | None:
    """Read who vouched for a person on a sheet from before what they said was kept.

    Nothing that was said is known, so no rule lets the person in until the provider speaks of them again.
    """
    if content is None:
        return None
    told = {"issuer": content, "subject": ""} if isinstance(content, str) else content
    return Vouched(by=Voucher(told["issuer"], told["subject"]), said=(), at=_LONG_AGO)


def provider_sheet(rules: ProviderRules) -> Sheet:
    """Write the rules of a provider on their sheet."""
    content = {
        "allowed": [{"claim": rule.claim, "scope": rule.scope, "value": rule.value} for rule in rules.allowed],
        "id": PROVIDER_REF.id,
        "issuer": rules.issuer,
        "max_age": rules.max_age // _MICROSECOND,
        "v": 1,
        "version": rules.version,
    }
    status = "active" if rules.issuer is not None else "removed"
    return Sheet(kind=PROVIDER, id=PROVIDER_REF.id, version=rules.version, status=status, body=body_of(content))


def read_provider(sheet: Sheet) -> ProviderRules:
    """Read the rules of a provider from their sheet."""
    content = sheet.read()
    return ProviderRules(
        version=sheet.version,
        issuer=content["issuer"],
        allowed=tuple(Allowed(**rule) for rule in content["allowed"]),
        max_age=content["max_age"] * _MICROSECOND,
    )


def rules_in(sheets: Sheets) -> ProviderRules | None:
    """Return the rules in force; None where there are none, or where they were edited by hand."""
    sheet = sheet_at(sheets, PROVIDER_REF)
    return None if sheet is None or sheet.body is None else read_provider(sheet)
