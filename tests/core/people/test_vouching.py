"""Who comes in on a provider's word: nobody without a rule, and nobody by an e-mail that may not be theirs."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from hashlib import sha256
from typing import Any

import pytest

from indelible.core.people.vouching import Allowed, name_in, read_allowed, secrets_of, vouched_scopes, voucher_in
from indelible.errors import BadCall, NotPermitted

ANA = {"sub": "u1", "email": "Ana@example.com", "email_verified": True, "groups": ["finance"], "dept": "it"}


@pytest.mark.parametrize(
    ("rule", "claims", "is_covered"),
    [
        ("email=ana@example.com:admin", ANA, True),
        ("email=*@example.com:admin", ANA, True),
        ("email=*@ample.com:admin", ANA, False),
        ("email=*@example.com:admin", ANA | {"email": "x@evil.example@example.com"}, False),
        ("email=bob@example.com:admin", ANA, False),
        ("email=ana@example.com:admin", ANA | {"email_verified": False}, False),
        ("email=ana@example.com:admin", ANA | {"email_verified": "true"}, False),
        ("email=ana@example.com:admin", ANA | {"email": ["ana@example.com"]}, False),
        ("groups=finance:admin", ANA, True),
        ("groups=fin:admin", ANA, False),
        ("dept=it:admin", ANA, True),
        ("dept=i:admin", ANA, False),
        ("nothing=it:admin", ANA, False),
    ],
)
def test_a_rule_lets_in_whom_it_names(rule: str, claims: dict[str, Any], is_covered: bool) -> None:
    assert read_allowed(rule).covers(claims) is is_covered


def test_a_rule_is_read_and_one_that_gives_too_much_is_not() -> None:
    assert read_allowed("groups=a:b:approver") == Allowed("groups", "a:b", "approver")
    for wrong in ("", "email", "email=a", "email=:admin", "=a:admin", "email=a:agent", "email=a:root"):
        with pytest.raises(BadCall, match="claim=value:scope"):
            read_allowed(wrong)


def test_nobody_comes_in_without_a_rule() -> None:
    both = [read_allowed("dept=it:auditor"), read_allowed("groups=finance:approver"), read_allowed("dept=it:auditor")]
    assert vouched_scopes(ANA, both) == ("approver", "auditor")
    for rules in ([], [read_allowed("dept=hr:admin")]):
        with pytest.raises(NotPermitted, match="no rule here"):
            vouched_scopes(ANA, rules)


def test_a_name_is_an_email_only_if_it_is_sure_to_be_theirs() -> None:
    assert name_in(ANA) == "Ana@example.com"
    for other in ({"email_verified": False}, {"email": ""}, {"email": 5}):
        assert name_in(ANA | other) == "u1"


def test_somebody_is_the_same_person_by_who_vouches_and_for_whom() -> None:
    assert voucher_in(ANA | {"iss": "https://id.example"}) == ("https://id.example", "u1")


def test_the_secrets_of_a_sign_in_follow_from_what_the_browser_keeps() -> None:
    one, other = secrets_of("a"), secrets_of("b")
    assert one == secrets_of("a")
    assert len({*one, *other}) == 6
    assert len(one.verifier) == 43
    digest = sha256(one.verifier.encode()).digest()
    assert one.challenge == urlsafe_b64encode(digest).decode().rstrip("=")
