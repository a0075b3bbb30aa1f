"""Promises of core.people.standing: one rule says how a person stands, and what to do about it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from indelible.core.people.standing import Standing, standing
from indelible.core.people.vouching import ProviderRules, Said, Vouched, Voucher, read_allowed

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
ID = "https://id.example"
SAID = Vouched(by=Voucher(ID, "u1"), said=(Said("dept", "it"),), at=NOW)
RULES = ProviderRules(issuer=ID, allowed=(read_allowed("dept=it:approver"),), max_age=timedelta(hours=1))
READS = replace(RULES, allowed=(read_allowed("dept=it:auditor"),))
TABLE: list[tuple[dict[str, Any], str, str | None, bool]] = [
    # whom, how they stand, why they may not decide, whether what they permitted counts
    ({}, "in", None, True),
    ({"rules": RULES}, "in", None, True),
    ({"is_revoked": True}, "revoked", "revoked", False),
    ({"scopes": ("auditor",)}, "in", "revoked", False),
    ({"scopes": ("auditor", "admin")}, "in", None, True),
    ({"vouched": SAID, "rules": RULES}, "in", None, True),
    ({"vouched": SAID, "rules": RULES, "is_revoked": True}, "revoked", "revoked", False),
    ({"vouched": SAID}, "not_allowed", "revoked", False),
    ({"vouched": SAID, "rules": ProviderRules(issuer=None)}, "not_allowed", "revoked", False),
    ({"vouched": SAID, "rules": replace(RULES, issuer="https://other.example")}, "not_allowed", "revoked", False),
    ({"vouched": SAID, "rules": replace(RULES, allowed=())}, "not_allowed", "revoked", False),
    ({"vouched": replace(SAID, said=()), "rules": RULES}, "not_allowed", "revoked", False),
    ({"vouched": SAID, "rules": READS}, "in", "revoked", False),
    ({"vouched": replace(SAID, at=NOW - RULES.max_age), "rules": RULES}, "sign_in_again", "sign_in_again", True),
    ({"vouched": replace(SAID, at=NOW - RULES.max_age), "rules": READS}, "sign_in_again", "sign_in_again", False),
]


@pytest.mark.parametrize(("who", "word", "code", "counts"), TABLE)
def test_87_how_a_person_stands(who: dict[str, Any], word: str, code: str | None, counts: bool) -> None:
    found = standing(**{"scopes": ("approver",), "vouched": None, "rules": None, "is_revoked": False} | who)
    assert (found.word(NOW), found.may_permit) == (word, counts)
    why = found.why_not_decide("ana", NOW)
    assert (None if why is None else why[0]) == code
    assert (found.why_not("ana", NOW) is None) == (word == "in")


def test_87_why_not_says_the_next_step() -> None:
    assert "people invite" in str(Standing(scopes=(), is_revoked=True).why_not("ana", NOW))
    out = str(Standing(scopes=(), issuer=ID).why_not("ana", NOW))
    assert all(
        step in out for step in ("/signin", "--oidc-allow", "indelible people invite ana --scope SCOPE --convert")
    )
    assert "/signin" in str(Standing(scopes=("admin",), issuer=ID, until=NOW).why_not("ana", NOW))
