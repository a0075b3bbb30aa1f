"""Signing in by a provider: only whom it really vouches for in this very sign-in, and only whom a rule lets in."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx2
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from indelible.core.people.standing import person_id
from indelible.core.people.vouching import read_allowed
from indelible.errors import Misconfigured
from indelible.server.requests.hardening import Hardened
from indelible.server.requests.limits import Limits
from indelible.server.signin.oidc import Provider
from tests.server.desk import Desk, sent_off, signed_in
from tests.server.office import House
from tests.server.places import ROOT
from tests.server.provider import CLIENT, DEEP, LONG


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    made = Desk(House(f"sqlite:///{tmp_path_factory.mktemp('oidc') / 'ledger.db'}"))
    yield made
    made.close()


@pytest.fixture
def desk(shared: Desk) -> Desk:
    shared.provider.__dict__.update(about={}, bent={}, signing=(shared.provider.rsa, "RS256", "rsa-1"))
    shared.provider.claims = {"sub": "u1", "email": "ana@example.com", "email_verified": True}
    shared.configure()
    return shared


def test_somebody_whom_the_provider_vouches_for_and_a_rule_lets_in_is_in(desk: Desk) -> None:
    browser = desk.browser()
    answer = signed_in(browser)
    assert answer.status_code == 200, answer.text
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    me = browser.get("/v1/me").json()
    assert (me["name"], me["via"], me["scopes"]) == ("ana@example.com", "oidc", ["approver"])
    desk.provider.claims |= {"groups": ["chiefs"]}
    assert signed_in(browser).status_code == 200
    assert browser.get("/v1/me").json()["scopes"] == ["admin", "approver"], "the rules are asked each time"
    assert browser.get("/v1/sign-in").json()["provider"] == urlsplit(desk.provider.url).netloc


def test_a_key_of_another_kind_is_good_too(desk: Desk) -> None:
    desk.provider.signing = (desk.provider.ec, "ES256", "ec-1")
    assert signed_in(desk.browser()).status_code == 200


OTHER_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
WRONG_TOKENS: dict[str, dict[str, Any]] = {
    "of another issuer": {"iss": "https://evil.example"},
    "for another client": {"aud": "other"},
    "for others too": {"aud": [CLIENT, "other"]},
    "handed to another": {"azp": "other"},
    "expired": {"exp": 1_000_000_000},
    "without an end": {"exp": None},
    "of another sign-in": {"nonce": "x"},
    "of no sign-in": {"nonce": None},
    "about nobody": {"sub": None},
    "about an empty subject": {"sub": ""},
    "about a blank subject": {"sub": " "},
    "about a subject that is no text": {"sub": 7},
    "about a subject beyond ASCII": {"sub": "straße"},
    "of an issuer with one more slash": {},
    "not yet": {"nbf": 4_000_000_000},
}


@pytest.mark.parametrize("what", WRONG_TOKENS)
def test_a_token_that_is_not_for_this_is_refused(desk: Desk, what: str) -> None:
    bent = {"iss": f"{desk.provider.url}/"} if what.endswith("slash") else WRONG_TOKENS[what]
    desk.provider.bent = {"token": bent}
    browser = desk.browser()
    assert signed_in(browser).status_code == 401
    assert browser.get("/v1/me").status_code == 401


ODD: dict[str, Any] = {
    "a text": "x",
    "a text with half a character": "\ud800",
    "a text with a zero": "a\0b",
    "a long text": "x" * 20_000,
    "a number": 7,
    "a negative number": -1,
    "a very large number": 10**400,
    "an endless number": float("inf"),
    "no number": float("nan"),
    "a fraction": 1.5,
    "a truth": True,
    "null": None,
    "a list": ["x"],
    "a list of lists": [["x"]],
    "an empty list": [],
    "an object": {"x": 1},
    "a list of odd things": [None, 7, {"x": []}, "\ud800"],
    "much nested": DEEP,
    "many digits": LONG,
}
ODD_ADDRESSES = {f"an address with {what}": f"{one}@example.com" for what, one in ODD.items() if isinstance(one, str)}
BENT: list[tuple[str, str]] = [
    *((claim, what) for claim in ("aud", "exp", "nonce", "sub", "email") for what in ODD),
    *((claim, "a list") for claim in ("iss", "azp", "iat", "nbf", "email_verified", "groups", "jti")),
    *(("email", what) for what in ODD_ADDRESSES),
]


@pytest.mark.parametrize(("claim", "what"), BENT)
def test_87_an_odd_claim_is_no_fault_of_the_server(desk: Desk, claim: str, what: str) -> None:
    """It is refused, or passed over where nothing rests on it."""
    desk.configure(allowed=(read_allowed("email=*@example.com:auditor"), read_allowed("dept=it:auditor")))
    email = f"{claim}-{what.replace(' ', '-')}@example.com"
    desk.provider.claims = {"sub": email, "email": email, "email_verified": claim != "sub", "dept": "it"}
    desk.provider.bent = {"token": {claim: (ODD | ODD_ADDRESSES)[what]}}
    browser = desk.browser()
    status = signed_in(browser).status_code
    assert status in (200, 401, 403)
    assert (browser.get("/v1/me").status_code == 200) == (status == 200)


@pytest.mark.parametrize("place", ["kid", "alg", "crit"])
@pytest.mark.parametrize("what", ["a number", "a list", "an object", "a text with half a character", "much nested"])
def test_87_an_odd_head_of_a_token_is_no_fault_of_the_server(desk: Desk, what: str, place: str) -> None:
    desk.provider.bent = {"head": {place: ODD[what]}}
    assert signed_in(desk.browser()).status_code in (200, 401)


WRONG_SIGNATURES: dict[str, Any] = {
    "forged": (OTHER_KEY, "RS256", "rsa-1"),
    "unknown key": (OTHER_KEY, "RS256", "new"),
    "shared secret": ("s" * 64, "HS256", "rsa-1"),
    "not signed": (None, "none", None),
    "not on the list": (OTHER_KEY, "RS512", "rsa-1"),
}


@pytest.mark.parametrize("what", WRONG_SIGNATURES)
def test_a_token_that_is_signed_otherwise_is_refused(desk: Desk, what: str) -> None:
    desk.provider.signing = WRONG_SIGNATURES[what]
    assert signed_in(desk.browser()).status_code == 401


def test_a_code_counts_once_and_in_the_browser_that_began(desk: Desk) -> None:
    victim, attacker = desk.browser(), desk.browser()
    back = sent_off(attacker)
    assert victim.client.get(back).status_code == 401, "it was not begun here"
    victim.get("/signin/oidc")
    assert victim.client.get(back).status_code == 401, "nor was this one"
    assert attacker.client.get(back).status_code == 200
    assert attacker.client.get(back).status_code == 401, "what it was known by is gone"
    stolen = dict(parse_qsl(urlsplit(sent_off(attacker)).query))
    mine = dict(parse_qsl(urlsplit(sent_off(victim)).query))
    injected = f"/signin/oidc/callback?{urlencode({'code': stolen['code'], 'state': mine['state']})}"
    assert victim.client.get(injected).status_code == 401, "PKCE: the code is another sign-in's"


@pytest.mark.parametrize("back", [{"iss": "https://evil.example"}, {"state": "x"}, {"code": "made-up"}])
def test_what_comes_back_bent_is_refused(desk: Desk, back: dict[str, str]) -> None:
    desk.provider.bent = {"back": back}
    assert signed_in(desk.browser()).status_code == 401
    assert desk.browser().get("/signin/oidc/callback?error=access_denied").status_code == 401


def test_nobody_comes_in_without_a_rule_and_nothing_of_theirs_becomes_markup(desk: Desk) -> None:
    desk.provider.claims = {"sub": "<script>hit()</script>", "email": "ana@example.com", "email_verified": False}
    answer = signed_in(desk.browser())
    assert answer.status_code == 403
    assert "<script>" not in answer.text
    desk.configure(allowed=())
    desk.provider.claims |= {"email_verified": True}
    assert signed_in(desk.browser()).status_code == 403


def test_a_provider_does_not_vouch_for_people_of_ours(desk: Desk) -> None:
    desk.people.invite("boss@example.com", ("admin",), by=ROOT)
    desk.configure(allowed=(read_allowed("email=*@example.com:auditor"),))
    desk.provider.claims |= {"sub": "u7", "email": "Boss@example.com"}
    assert signed_in(desk.browser()).status_code == 401
    assert desk.refusals()[-1] == "oidc"


def test_whoever_is_revoked_stays_out_whatever_the_provider_says(desk: Desk) -> None:
    desk.provider.claims |= {"sub": "u2", "email": "carl@example.com", "groups": ["chiefs"]}
    browser = desk.browser()
    assert signed_in(browser).status_code == 200
    desk.people.revoke(person_id("carl@example.com"), by=ROOT)
    assert signed_in(browser).status_code == 401


def test_an_address_that_was_given_to_somebody_else_does_not_make_them_the_same_person(desk: Desk) -> None:
    desk.provider.claims |= {"sub": "u3", "email": "dee@example.com", "groups": ["chiefs"]}
    theirs, others = desk.browser(), desk.browser()
    assert signed_in(theirs).status_code == 200
    desk.provider.claims |= {"sub": "u4"}
    refused = signed_in(others)
    assert (refused.status_code, "people revoke, then people invite" in refused.text) == (403, True)
    assert others.get("/v1/me").status_code == 401
    assert desk.refusals()[-1] == "subject"
    assert theirs.get("/v1/me").json()["name"] == "dee@example.com"
    desk.people.revoke(person_id("dee@example.com"), by=ROOT)
    link = desk.people.invite("dee@example.com", ("approver",), by=ROOT)[1]
    assert others.open(link).status_code == 201


def test_whoever_gets_another_address_is_not_two_people(desk: Desk) -> None:
    desk.provider.claims |= {"sub": "u5", "email": "eve@example.com", "groups": ["chiefs"]}
    assert signed_in(desk.browser()).status_code == 200
    desk.provider.claims |= {"email": "eve.b@example.com"}
    refused = signed_in(desk.browser())
    assert (refused.status_code, "you are eve@example.com here" in refused.text) == (403, True)
    desk.people.revoke(person_id("eve@example.com"), by=ROOT)
    assert signed_in(desk.browser()).status_code == 403, "who was revoked does not come back under another name"
    assert desk.browser().open(desk.people.invite("eve.b@example.com", ("admin",), by=ROOT)[1]).status_code == 201


@pytest.mark.parametrize(
    "about",
    [{"issuer": "https://other.example"}, {"token_endpoint": None}, {"jwks_uri": "http://evil.example/jwks"}],
)
def test_a_provider_that_cannot_be_used_is_not_used(desk: Desk, about: dict[str, Any]) -> None:
    desk.provider.about = about
    assert desk.browser().get("/signin/oidc").status_code == 503


def test_where_there_is_no_provider_nobody_is_sent_anywhere(desk: Desk) -> None:
    desk.serve(None)
    assert desk.browser().get("/signin/oidc").status_code == 404
    assert desk.browser().get("/v1/sign-in").json() == {"passkey": True, "provider": None}


@pytest.mark.parametrize("issuer", ["http://id.example", "ftp://id.example", "id.example", "https://"])
def test_secrets_go_over_tls_only(issuer: str) -> None:
    with pytest.raises(Misconfigured, match="https"):
        Provider(issuer, CLIENT)


def test_whoever_shows_a_cookie_that_is_none_is_a_stranger_all_the_same(desk: Desk) -> None:
    """Each of these asks the provider, so nobody has it asked as often as they like."""
    app = Hardened(desk.app, limits=Limits(strangers_rate=2))

    async def statuses(path: str) -> set[int]:
        transport = httpx2.ASGITransport(app=app, client=(path, 1))
        headers = {"Cookie": "indelible_80-oidc=x"}
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost", headers=headers) as client:
            return {(await client.get(path)).status_code for _ in range(6)}

    assert asyncio.run(statuses("/signin/oidc")) == {303, 429}
    assert asyncio.run(statuses("/signin/oidc/callback?state=x&code=y")) == {401, 429}
