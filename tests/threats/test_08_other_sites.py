"""Threat 8: a page of another site acts in somebody's session, frames us, or reaches us under a name of its own.

Cookies know no ports, so another server on the same machine is the nearest attacker; a real browser plays it in
`tests/browser/check_signin.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.server.office import SCOPES, House, Office, invited
from tests.server.places import ROOT


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    made = House(f"sqlite:///{tmp_path_factory.mktemp('house') / 'ledger.db'}")
    yield made
    made.close()


@pytest.fixture
def office(house: House) -> Office:
    return Office(house)


def test_a_page_of_another_origin_changes_nothing(office: Office) -> None:
    browser, _ = invited(office)
    other = "http://localhost:1"
    for headers in (
        {"Origin": other},
        {"Origin": ""},
        {"Origin": "null"},
        {"Origin": office.url.replace("http://", "https://")},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "cross-site"},
        {"X-CSRF-Token": ""},
        {"X-CSRF-Token": "0" * 64},
    ):
        answer = browser.post("/v1/sign-out", **headers)
        assert (answer.status_code, answer.json()["type"]) == (403, "/problems/not-permitted"), headers
    assert browser.get("/v1/me", **{"Sec-Fetch-Site": "same-site"}).status_code == 403
    assert browser.get("/v1/me").status_code == 200


def test_nobody_is_signed_in_by_a_page_of_another_site(office: Office) -> None:
    link = office.people.invite("ana", SCOPES, by=ROOT)[1]
    browser = office.browser(origin="http://localhost:1")
    assert browser.open(link).status_code == 403
    assert browser.post("/v1/sign-in/options").status_code == 403
    assert office.browser().open(link).status_code == 201, "and the link is still good"


def test_with_a_token_no_cookie_counts(office: Office) -> None:
    browser, _ = invited(office)
    agent = office.token("billing", "agent")
    assert browser.get("/v1/me", **agent).json()["name"] == "billing"
    assert browser.get("/v1/me", Authorization="Bearer nonsense").status_code == 401
    assert browser.get("/v1/passkeys", **agent).status_code == 403
    begun = browser.post(
        "/v1/effects", {"tool": "charge", "args": {}, "run_id": "order-1"}, **agent, Origin="http://evil.example"
    )
    assert begun.status_code == 201, "a token is shown on purpose, wherever it comes from"


def test_another_host_is_not_served(office: Office) -> None:
    assert office.browser().get("/v1/me", Host="evil.example").status_code == 421
