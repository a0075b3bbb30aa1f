"""Who comes in on a provider's word: nobody without a rule, and nobody by an e-mail that may not be theirs."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

import pytest

from indelible.core.people.addresses import address_of, domain_of
from indelible.core.people.vouching import (
    LONGEST_MAX_AGE,
    PROVIDER_REF,
    Allowed,
    ProviderRules,
    Said,
    Vouched,
    Voucher,
    name_in,
    provider_sheet,
    read_allowed,
    read_provider,
    read_vouched,
    rules_in,
    said_in,
    secrets_of,
    vouched_content,
    voucher_in,
)
from indelible.errors import BadCall, NotAuthenticated

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
ID = "https://id.example"
ANA = {
    "iss": ID,
    "sub": "u1",
    "email": "Ana@example.com",
    "email_verified": True,
    "groups": ["finance", 7],
    "dept": "it",
    "n": 5,
}


def covers(rule: str, claims: dict[str, Any]) -> bool:
    return any(read_allowed(rule).covers(said) for said in said_in(claims))


@pytest.mark.parametrize(
    ("rule", "claims", "is_covered"),
    [
        ("email=ana@example.com:admin", ANA, True),
        ("email=ANA@Example.COM:admin", ANA, True),
        ("email=*@example.com:admin", ANA, True),
        ("email=*@Example.com:admin", ANA, True),
        ("email=*@ample.com:admin", ANA, False),
        ("email=*@com:admin", ANA, False),
        ("email=*@example.com:admin", ANA | {"email": "x@evil.example@example.com"}, False),
        ("email=*@example.com:admin", ANA | {"email": "@example.com"}, False),
        ("email=*@example.com:admin", ANA | {"email": "example.com"}, False),
        ("email=bob@example.com:admin", ANA, False),
        ("email=ana@example.com:admin", ANA | {"email_verified": False}, False),
        ("email=ana@example.com:admin", ANA | {"email_verified": "true"}, False),
        ("email=ana@example.com:admin", ANA | {"email": ["ana@example.com"]}, False),
        ("groups=finance:admin", ANA, True),
        ("groups=fin:admin", ANA, False),
        ("groups=Finance:admin", ANA, False),
        ("dept=it:admin", ANA, True),
        ("dept=i:admin", ANA, False),
        ("n=5:admin", ANA, False),
        ("nothing=it:admin", ANA, False),
    ],
)
def test_a_rule_lets_in_whom_it_names(rule: str, claims: dict[str, Any], is_covered: bool) -> None:
    assert covers(rule, claims) is is_covered


@pytest.mark.parametrize(
    ("ruled", "said", "is_same"),
    [
        ("strasse@example.com", "straße@example.com", False),
        ("STRASSE@example.com", "straße@example.com", False),
        ("straße@example.com", "straße@example.com", True),
        ("ana@strasse.example", "ana@straße.example", False),
        ("ana@straße.example", "ana@straße.example", True),
        ("ana@xn--strae-oqa.example", "ana@straße.example", True),
        ("ana@straße.example", "Ana@XN--STRAE-OQA.example", True),
        ("*@straße.example", "ana@xn--strae-oqa.example", True),
        ("*@strasse.example", "ana@straße.example", False),
        ("kate@example.com", "\u212aate@example.com", False),
        ("ana@example.com", "ana@ｅxample.com", False),
        ("ana@example.com", "ana@example。com", False),
        ("émile@example.com", "Émile@example.com", False),
    ],
)
def test_87_addresses_are_the_same_only_byte_by_byte(ruled: str, said: str, is_same: bool) -> None:
    assert covers(f"email={ruled}:admin", {"email": said, "email_verified": True}) is is_same


@pytest.mark.parametrize(
    "text",
    ["", "ana", "@b", "a@", "a@b@c", "a@b..c", "a@.b", f"a@{'b' * 64}", "a@b.", "a\0@b", "\ud800@b", f"{'a' * 320}@b"],
)
def test_what_is_no_address_is_none(text: str) -> None:
    assert address_of(text) is None
    with pytest.raises(BadCall):
        read_allowed(f"email={text}:admin")


def test_a_domain_is_written_as_dns_has_it() -> None:
    assert domain_of("Bücher.Example") == "xn--bcher-kva.example"
    assert address_of("Ana@b") == "ana@b"


def test_a_rule_is_read_and_one_that_gives_too_much_is_not() -> None:
    assert read_allowed("groups=a:b:approver") == Allowed("groups", "a:b", "approver")
    for wrong in (
        "",
        "email",
        "email=a",
        "email=:admin",
        "=a:admin",
        "email=a@b:agent",
        "email=a@b:root",
        "email=*@:admin",
    ):
        with pytest.raises(BadCall, match="claim=value:scope"):
            read_allowed(wrong)


RULES = ProviderRules(
    issuer=ID,
    allowed=(read_allowed("dept=it:auditor"), read_allowed("groups=finance:approver"), read_allowed("dept=it:auditor")),
)


def vouched(**words: Any) -> Vouched:
    return Vouched(**{"by": Voucher(ID, "u1"), "said": RULES.asked_for(ANA), "at": NOW} | words)


def test_nobody_comes_in_without_a_rule_or_by_another_provider() -> None:
    assert RULES.scopes_of(vouched()) == ("approver", "auditor")
    for rules in (
        replace(RULES, allowed=()),
        replace(RULES, allowed=(read_allowed("dept=hr:admin"),)),
        replace(RULES, issuer=f"{ID}/"),
        replace(RULES, issuer=None),
    ):
        assert rules.scopes_of(vouched()) == ()


def test_nothing_is_kept_of_what_a_provider_says_but_what_a_rule_asks_for() -> None:
    assert vouched().said == (Said("dept", "it"), Said("groups", "finance"))
    assert replace(RULES, allowed=()).asked_for(ANA) == ()
    mail = replace(RULES, allowed=(read_allowed("email=*@example.com:auditor"),))
    assert mail.asked_for(ANA) == (Said("email", "ana@example.com"),)
    assert mail.asked_for({"email": "a@b", "email_verified": True}) == ()


def test_a_name_is_an_email_only_if_it_is_sure_to_be_theirs() -> None:
    assert name_in(ANA) == "ana@example.com"
    assert name_in(ANA | {"email": "ana@bücher.example"}) == "ana@xn--bcher-kva.example"
    assert name_in(ANA | {"email": "ana@xn--bcher-kva.example"}) == "ana@xn--bcher-kva.example"
    # Names are compared folded: as a name, such an address would be another's.
    folds = ("straße@example.com", "ana@straße.example", "ana@xn--strae-oqa.example", "ana@ｅxample.com")
    for other in ({"email_verified": False}, {"email": ""}, {"email": 5}, *({"email": one} for one in folds)):
        assert name_in(ANA | other) == "u1"


def test_somebody_is_the_same_person_by_who_vouches_and_for_whom() -> None:
    assert voucher_in(ANA) == (ID, "u1")


@pytest.mark.parametrize("sub", ["", " ", 7, None, "straße", "x" * 256, "a\0b", "a\nb", ["a"]])
def test_87_a_provider_that_names_no_person_vouches_for_nobody(sub: Any) -> None:
    with pytest.raises(NotAuthenticated, match="no usable sub"):
        voucher_in({"iss": ID, "sub": sub})


@pytest.mark.parametrize("max_age", [timedelta(0), timedelta(seconds=-1), LONGEST_MAX_AGE + timedelta(seconds=1)])
def test_a_sign_in_counts_neither_for_nothing_nor_for_ever(max_age: timedelta) -> None:
    with pytest.raises(BadCall, match="30 days"):
        replace(RULES, max_age=max_age)


@pytest.mark.parametrize("rules", [RULES, ProviderRules(issuer=None, version=3)])
def test_rules_are_read_as_they_were_written(rules: ProviderRules) -> None:
    sheet = provider_sheet(rules)
    assert (sheet.ref, sheet.is_recorded, sheet.version) == (PROVIDER_REF, True, rules.version)
    assert read_provider(sheet) == rules
    assert rules_in({PROVIDER_REF: sheet}) == rules
    assert rules_in({PROVIDER_REF: None}) is rules_in({PROVIDER_REF: replace(sheet, body=None)}) is None


def test_rules_are_written_once() -> None:
    none = ProviderRules(issuer=None)
    assert none.following(None, 0) is None, "where there never was a provider, there is nothing to tell"
    assert RULES.following(None, 0) == RULES
    assert RULES.following(replace(RULES, version=4), 4) is None
    assert none.following(replace(RULES, version=4), 4) == replace(none, version=5)
    assert none.following(None, 4) == replace(none, version=5), "after somebody edited them by hand"
    assert none.following(replace(none, version=5), 5) is None


def test_what_a_provider_said_is_read_as_it_was_written() -> None:
    assert read_vouched(vouched_content(vouched())) == vouched()
    assert read_vouched(vouched_content(None)) is None


def test_the_secrets_of_a_sign_in_follow_from_what_the_browser_keeps() -> None:
    one, other = secrets_of("a"), secrets_of("b")
    assert one == secrets_of("a")
    assert len({*one, *other}) == 6
    assert len(one.verifier) == 43
    digest = sha256(one.verifier.encode()).digest()
    assert one.challenge == urlsafe_b64encode(digest).decode().rstrip("=")
