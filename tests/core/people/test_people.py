"""People: links are used once, passkeys do not go back, sessions end, and what is kept is exactly what was written."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from indelible.core.effects.effect import Actor
from indelible.core.people.challenges import (
    CHALLENGE_LASTS,
    Challenge,
    challenge_id,
    challenge_sheet,
    read_challenge,
    seen_at,
    seen_sheet,
    spent_sheet,
)
from indelible.core.people.person import (
    LONGEST_IDLE,
    LONGEST_SESSION,
    MOST_PASSKEYS,
    MOST_SESSIONS,
    Invitation,
    Passkey,
    Person,
    Session,
    Ticket,
    passkey_id,
    read_ticket,
)
from indelible.core.people.sheets import person_again, person_sheet, read_person
from indelible.core.people.standing import person_id, person_ref
from indelible.core.people.vouching import ProviderRules, Said, Vouched, Voucher, read_allowed
from indelible.core.scopes import scopes_among
from indelible.core.sheets import body_of
from indelible.core.verifying.findings import Caught
from indelible.core.verifying.sheet_bodies import person_in
from indelible.errors import BadCall, IllegalMove, NotAuthenticated, NotPermitted

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
ANA = person_id("ana")
LINK = Ticket("acme", ANA, "inv_1", "i" * 43)
COOKIE = Ticket("acme", ANA, "ses_1", "s" * 43)


RULES = ProviderRules(issuer="https://id.example", allowed=(read_allowed("dept=it:approver"),))
VOUCHED = Vouched(by=Voucher("https://id.example", "1"), said=(Said("dept", "it"),), at=NOW)


def session(**words: Any) -> Session:
    usual = {
        "id": "ses_1",
        "hash": COOKIE.hash,
        "via": "passkey",
        "created_at": NOW,
        "expires_at": NOW + LONGEST_SESSION,
    }
    return Session(**usual | words)


def passkey(**words: Any) -> Passkey:
    usual = {"credential_id": "Y3JlZA", "name": "laptop", "public_key": "pQ", "sign_count": 0, "created_at": NOW}
    return Passkey(**usual | words)


def invitation(**words: Any) -> Invitation:
    return Invitation(
        **{"id": "inv_1", "hash": LINK.hash, "by": "root", "expires_at": NOW + timedelta(hours=1)} | words
    )


def person(**words: Any) -> Person:
    return Person(**{"id": ANA, "name": "ana", "scopes": ("approver",), "created_at": NOW} | words)


@pytest.mark.parametrize(
    ("issuer", "by"),
    [
        (None, None),
        ("https://id.example", Voucher("https://id.example", "")),
        ({"issuer": "https://id.example", "subject": "1"}, VOUCHED.by),
    ],
)
def test_87_a_person_from_before_vouching_was_kept_is_read_and_let_in_by_no_rule(issuer: Any, by: Any) -> None:
    """Reading the sheet raised KeyError."""
    kept = {name: value for name, value in person_sheet(person()).read().items() if name != "vouched"}
    sheet = replace(person_sheet(person()), body=body_of(kept | {"issuer": issuer}))
    found = read_person(sheet)
    assert sheet.body is not None
    assert person_in(sheet.body) == found
    assert person_again(sheet) == sheet
    assert (None if found.vouched is None else found.vouched.by) == by
    if found.vouched is not None:
        assert RULES.scopes_of(found.vouched) == ()


@pytest.mark.parametrize("tenant", ["default", "acme", "großer Kunde", "a.b"])
def test_a_ticket_is_taken_apart_as_it_was_put_together(tenant: str) -> None:
    ticket = LINK._replace(tenant=tenant)
    assert read_ticket(str(ticket)) == ticket


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a.b.c",
        "YQ.p.n.s.t",
        "YQ.p.n.",
        ".p.n.s",
        "A.p.n.s",
        "YQ.p.n.ü",
        f"YQ.{'p' * 600}.n.s",
        f"YQ.p.n.{'s' * 5000}",
    ],
)
def test_what_is_no_ticket_is_nobodys(text: str) -> None:
    with pytest.raises(NotAuthenticated, match="signin"):
        read_ticket(text)


def test_a_name_is_one_person_however_it_is_written() -> None:
    assert person_id("Ana") == person_id("ana") == person_id("ａｎａ")
    assert person_id("ana") != person_id("anna")
    assert person_id("ana@bücher.example") == person_id("ana@xn--bcher-kva.example")


def test_secrets_of_sessions_and_links_are_different_things() -> None:
    assert LINK._replace(name="ses_1").hash != LINK.hash
    assert COOKIE.csrf_token not in (COOKIE.hash, COOKIE.secret)
    assert COOKIE.hash not in repr(session())
    assert LINK.hash not in repr(invitation())


@pytest.mark.parametrize("words", [{"scopes": ()}, {"scopes": ("agent",)}, {"name": ""}])
def test_a_person_that_makes_no_sense_is_refused(words: dict[str, Any]) -> None:
    with pytest.raises(BadCall):
        person(**words)


def test_a_link_signs_in_once() -> None:
    inside = person(invitation=invitation()).opened(LINK, session(via="link"), NOW)
    assert (inside.version, inside.invitation, inside.sessions) == (2, None, (session(via="link"),))
    with pytest.raises(NotAuthenticated):
        inside.opened(LINK, session(), NOW)


@pytest.mark.parametrize(
    ("words", "link", "now"),
    [
        ({"invitation": None}, LINK, NOW),
        ({"is_revoked": True}, LINK, NOW),
        ({}, LINK._replace(secret="x"), NOW),
        ({}, LINK._replace(name="inv_2"), NOW),
        ({}, LINK, NOW + timedelta(hours=1)),
    ],
)
def test_a_link_that_is_not_good_signs_nobody_in(words: dict[str, Any], link: Ticket, now: datetime) -> None:
    with pytest.raises(NotAuthenticated):
        person(**{"invitation": invitation()} | words).opened(link, session(), now)


@pytest.mark.parametrize(
    ("kept", "said", "is_good"),
    [(0, 0, True), (0, 1, True), (5, 6, True), (5, 5, False), (5, 4, False), (5, 0, False)],
)
def test_a_count_that_does_not_grow_tells_of_a_second_key(kept: int, said: int, is_good: bool) -> None:
    ana = person(passkeys=(passkey(sign_count=kept), passkey(credential_id="b3RoZXI")))
    if is_good:
        inside = ana.signed_in("Y3JlZA", said, session(), NOW)
        assert inside.passkeys == (passkey(sign_count=said, used_at=NOW), passkey(credential_id="b3RoZXI"))
    else:
        with pytest.raises(NotAuthenticated):
            ana.signed_in("Y3JlZA", said, session(), NOW)


def test_a_passkey_of_nobody_or_of_somebody_revoked_signs_nobody_in() -> None:
    with pytest.raises(NotAuthenticated):
        person().signed_in("Y3JlZA", 0, session(), NOW)
    with pytest.raises(NotAuthenticated):
        replace(person(passkeys=(passkey(),)), is_revoked=True).signed_in("Y3JlZA", 0, session(), NOW)


def test_a_provider_vouches_for_its_own_people_and_says_what_they_may() -> None:
    theirs = person(vouched=VOUCHED)
    later = replace(VOUCHED, said=(), at=NOW + timedelta(hours=1))
    inside = theirs.vouched_for(later, ("admin",), session(via="oidc"), NOW)
    assert (inside.scopes, inside.vouched, inside.sessions) == (("admin",), later, (session(via="oidc"),))
    elsewhere = replace(VOUCHED, by=Voucher("https://id.example/", "1"))
    for other in (person(), replace(theirs, is_revoked=True), person(vouched=elsewhere)):
        assert not other.is_somebody_else(VOUCHED.by)
        with pytest.raises(NotAuthenticated):
            other.vouched_for(VOUCHED, ("admin",), session(), NOW)


def test_whom_the_provider_lets_in_no_more_has_no_sessions() -> None:
    said = replace(VOUCHED, said=())
    out = person(vouched=VOUCHED, sessions=(session(),), passkeys=(passkey(),)).disallowed(said)
    assert (out.sessions, out.vouched, out.version, out.passkeys) == ((), said, 2, (passkey(),))
    assert out.standing(RULES).word(NOW) == "not_allowed"


@pytest.mark.parametrize(
    ("rules", "now", "why"),
    [
        (None, NOW, "no rule"),
        (ProviderRules(issuer=None), NOW, "no rule"),
        (replace(RULES, allowed=()), NOW, "no rule"),
        (replace(RULES, issuer="https://id.example/"), NOW, "no rule"),
        (RULES, NOW + RULES.max_age, "sign in through it again at /signin"),
    ],
)
def test_87_a_passkey_or_a_session_alone_lets_nobody_in_whom_the_provider_does_not(
    rules: ProviderRules | None, now: datetime, why: str
) -> None:
    late = session(expires_at=now + LONGEST_SESSION, created_at=now)
    ana = person(vouched=VOUCHED, passkeys=(passkey(),), sessions=(late,))
    with pytest.raises(NotAuthenticated, match=why):
        ana.signed_in("Y3JlZA", 0, session(), now, rules)
    with pytest.raises(NotAuthenticated, match=why):
        ana.admits(COOKIE, None, now, rules)


def test_87_what_a_providers_person_may_follows_from_the_rules_of_today() -> None:
    ana = person(vouched=VOUCHED, passkeys=(passkey(),), sessions=(session(),))
    now = NOW + RULES.max_age - timedelta(seconds=1)
    assert ana.signed_in("Y3JlZA", 0, session(), now, RULES).scopes == ("approver",)
    less = replace(RULES, allowed=(read_allowed("dept=it:auditor"),))
    assert ana.signed_in("Y3JlZA", 0, session(), NOW, less).scopes == ("auditor",)
    assert ana.admits(COOKIE, None, NOW, less)[0].scopes == {"auditor"}


def test_who_came_by_a_provider_stays_the_same_person_and_whoever_gets_their_name_does_not() -> None:
    known = person(vouched=VOUCHED)
    assert known.vouched_for(VOUCHED, ("admin",), session(id="ses_2"), NOW).vouched == VOUCHED
    other = replace(VOUCHED, by=Voucher("https://id.example", "2"))
    assert known.is_somebody_else(other.by)
    with pytest.raises(NotPermitted, match="people revoke, then people invite"):
        known.vouched_for(other, ("admin",), session(), NOW)
    assert known.revoked().invited(("admin",), invitation(), NOW).vouched is None


def test_a_session_is_whose_secret_it_is_until_it_ends_or_nobody_does_anything() -> None:
    ana = person(sessions=(session(),))
    caller, found = ana.admits(COOKIE, None, NOW + LONGEST_IDLE - timedelta(seconds=1))
    assert (caller.actor, caller.tenant, caller.scopes) == (Actor("ana", "person", "passkey"), "acme", {"approver"})
    assert found == session()
    seen = NOW + LONGEST_SESSION - timedelta(seconds=2)
    assert ana.admits(COOKIE, seen, seen + timedelta(seconds=1))
    assert ana.admits(COOKIE, NOW - timedelta(days=1), NOW), "what was seen before it began does not count"
    for ticket, seen_last, now in (
        (COOKIE, None, NOW + LONGEST_IDLE),
        (COOKIE, seen, NOW + LONGEST_SESSION),
        (COOKIE._replace(secret="x"), None, NOW),
        (COOKIE._replace(name="ses_2"), None, NOW),
    ):
        with pytest.raises(NotAuthenticated):
            ana.admits(ticket, seen_last, now)


def test_signing_out_and_being_revoked_end_sessions() -> None:
    ana = person(sessions=(session(), session(id="ses_2")), passkeys=(passkey(),), invitation=invitation())
    assert [one.id for one in ana.without_session("ses_1").sessions] == ["ses_2"]
    over = ana.revoked()
    assert (over.sessions, over.passkeys, over.invitation, over.is_revoked, over.version) == ((), (), None, True, 2)
    with pytest.raises(NotAuthenticated):
        replace(over, sessions=(session(),)).admits(COOKIE, None, NOW)


def test_old_sessions_make_room() -> None:
    old = session(id="old", expires_at=NOW)
    ana = person(passkeys=(passkey(),), sessions=(old, *(session(id=f"ses_{n}") for n in range(MOST_SESSIONS))))
    inside = ana.signed_in("Y3JlZA", 0, session(id="new"), NOW)
    assert [one.id for one in inside.sessions] == [*(f"ses_{n}" for n in range(1, MOST_SESSIONS)), "new"]


def test_passkeys_come_and_go() -> None:
    ana = person().with_passkey(passkey())
    assert ana.passkey(passkey_id("Y3JlZA")) == passkey()
    with pytest.raises(IllegalMove, match="already"):
        ana.with_passkey(passkey(name="again"))
    assert ana.without_passkey(passkey().id).passkeys == ()
    full = person(passkeys=tuple(passkey(credential_id=f"k{n}") for n in range(MOST_PASSKEYS)))
    with pytest.raises(IllegalMove, match="remove one"):
        full.with_passkey(passkey())


def test_whoever_is_invited_again_keeps_what_they_have() -> None:
    again = person(passkeys=(passkey(),)).invited(("admin",), invitation(), NOW)
    assert (again.scopes, again.passkeys, again.invitation) == (("admin",), (passkey(),), invitation())
    theirs = person(vouched=VOUCHED, passkeys=(passkey(),), sessions=(session(),))
    with pytest.raises(IllegalMove, match=r"id\.example .*--convert"):
        theirs.invited(("admin",), invitation(), NOW)
    converted = theirs.invited(("admin",), invitation(), NOW, convert=True)
    assert (converted.issuer, converted.passkeys, converted.sessions) == (None, (), ())
    assert person(passkeys=(passkey(),)).invited(("admin",), invitation(), NOW, convert=True).passkeys == (passkey(),)
    later = NOW + timedelta(days=1)
    back = theirs.revoked().invited(("admin",), invitation(), later)
    assert (back.issuer, back.is_revoked, back.created_at) == (None, False, later)
    assert converted.created_at == theirs.created_at


def test_a_link_that_was_not_used_can_end() -> None:
    ana = person(passkeys=(passkey(),), invitation=invitation()).uninvited()
    assert (ana.invitation, len(ana.passkeys), ana.is_revoked, ana.version) == (None, 1, False, 2)


def test_scopes_are_named_once_and_in_one_order() -> None:
    assert scopes_among(["admin", "approver", "admin"]) == ("approver", "admin")


EVERYTHING = person(
    invitation=invitation(),
    vouched=VOUCHED,
    passkeys=(passkey(), passkey(credential_id="b3RoZXI", used_at=NOW)),
    sessions=(session(), session(id="ses_2", via="oidc")),
)


@pytest.mark.parametrize("one", [person(), EVERYTHING, replace(EVERYTHING, vouched=None), EVERYTHING.revoked()])
def test_a_person_is_read_as_they_were_written(one: Person) -> None:
    sheet = person_sheet(one)
    assert read_person(sheet) == one
    assert sheet.ref == person_ref(ANA)
    assert sheet.is_recorded
    assert sheet.body is not None
    assert person_in(sheet.body) == one
    assert b"s" * 43 not in sheet.body, "the secret is nowhere"


@pytest.mark.parametrize(
    ("old", "new"), [(b'"v":1', b'"v":2'), (b'"is_revoked":false', b'"is_revoked":0'), (b'"passkey"', b'"guess"')]
)
def test_what_is_not_exactly_a_person_is_caught(old: bytes, new: bytes) -> None:
    body = person_sheet(EVERYTHING).body
    assert body is not None
    assert old in body
    with pytest.raises(Caught):
        person_in(body.replace(old, new))


def test_a_challenge_is_good_once_for_one_thing_and_for_a_while() -> None:
    asked = Challenge(id=challenge_id(b"c"), purpose="sign-in", due_at=NOW + CHALLENGE_LASTS)
    assert read_challenge(challenge_sheet(asked)) == asked
    assert not challenge_sheet(asked).is_recorded
    assert asked.is_good_for("sign-in", NOW)
    assert not asked.is_good_for("passkey", NOW)
    assert not asked.is_good_for("sign-in", NOW + CHALLENGE_LASTS)
    spent = spent_sheet(asked, "one")
    assert not read_challenge(spent).is_good_for("sign-in", NOW)
    assert spent_sheet(asked, "other").body != spent.body


def test_when_something_was_seen_is_kept_aside() -> None:
    sheet = seen_sheet("key_1", 3, NOW)
    assert (seen_at(sheet), sheet.is_recorded, sheet.due_at) == (NOW, False, None)
