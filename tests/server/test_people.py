"""People sign in by a link once and by a passkey from then on; whatever is forged, old or sent again is refused."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from indelible.core.sheets import SheetFilter
from indelible.server import feeds
from indelible.server.app import create_app
from indelible.server.ledgers import Ledgers
from indelible.server.requests.hardening import Hardened
from indelible.server.routes import sessions as signing_in
from indelible.server.signin import challenges, sessions, sightings
from indelible.server.signin.identity import Identity
from indelible.server.signin.people import People
from indelible.stores import migrate, open_store
from tests.server.authenticator import Authenticator
from tests.server.office import SCOPES, House, Office, invited
from tests.server.places import ROOT
from tests.server.serving import Served
from tests.stores.database import Database
from tests.waiting import eventually


@pytest.fixture
def office(store_url: str) -> Iterator[Office]:
    house = House(store_url)
    yield Office(house, "default")
    house.close()


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    made = House(f"sqlite:///{tmp_path_factory.mktemp('house') / 'ledger.db'}")
    yield made
    made.close()


@pytest.fixture
def sqlite_office(house: House) -> Office:
    return Office(house)


def test_from_a_link_to_a_passkey_and_back_in_again(office: Office) -> None:
    browser, key = invited(office)
    me = browser.get("/v1/me").json()
    assert (me["name"], me["kind"], me["via"], me["scopes"]) == ("ana", "person", "link", ["approver"])
    assert me["csrf_token"] == browser.csrf
    assert browser.post("/v1/sign-out").status_code == 204
    assert browser.get("/v1/me").status_code == 401
    assert not browser.client.cookies
    assert browser.sign_in(key).status_code == 201
    assert browser.get("/v1/me").json()["via"] == "passkey"
    (mine,) = browser.get("/v1/passkeys").json()["passkeys"]
    assert (mine["name"], mine["sign_count"], mine["used_at"] is not None) == ("laptop", 1, True)
    assert [kind for kind, _, _ in office.told()] == [
        *("person_invited", "person_signed_in", "passkey_added", "person_signed_out", "person_signed_in")
    ]
    assert [via for _, via, _ in office.told()] == ["process", "link", "link", "link", "passkey"]


def test_the_cookie_is_kept_from_scripts_and_other_sites(sqlite_office: Office) -> None:
    link = sqlite_office.people.invite("ana", SCOPES, by=ROOT)[1]
    answer = sqlite_office.browser().open(link)
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert "path=/" in cookie
    assert "secure" not in cookie, "on this machine alone, without TLS"
    assert cookie.startswith("indelible_")
    secret = answer.headers["set-cookie"].partition(";")[0].rpartition(".")[2]
    (person,) = sqlite_office.people.all()
    assert len(secret) >= 43
    assert secret not in repr(person)
    assert secret not in answer.text


def test_with_tls_the_cookie_is_for_this_host_and_for_tls_alone(sqlite_url: str) -> None:
    migrate(sqlite_url)
    store = open_store(sqlite_url)
    served = Served(Hardened(create_app(Ledgers(store, seal=False), Identity(store)), hosts=("ledger.example",)))
    try:
        link = People(store, "default").invite("ana", SCOPES, by=ROOT)[1]
        headers = {"Host": "ledger.example", "Origin": "https://ledger.example"}
        answer = httpx2.post(
            f"{served.url}/v1/sign-in/link", json={"ticket": str(link)}, headers=headers, trust_env=False
        )
    finally:
        served.stop()
    assert answer.status_code == 201
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith(f"{sessions.COOKIE}=")
    assert "Secure" in cookie


def test_of_all_who_come_with_one_link_one_gets_in(office: Office) -> None:
    link = office.people.invite("ana", SCOPES, by=ROOT)[1]
    browsers = [office.browser() for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        statuses = sorted(answer.status_code for answer in pool.map(lambda each: each.open(link), browsers))
    assert statuses == [201] + [401] * 7
    (person,) = office.people.all()
    assert len(person.sessions) == 1
    assert office.refusals() == ["link"] * 7


def test_a_link_that_is_forged_old_or_somebody_elses_lets_nobody_in(sqlite_office: Office) -> None:
    office = sqlite_office
    _, link = office.people.invite("ana", SCOPES, by=ROOT, lasts=timedelta(milliseconds=1))
    fresh = office.people.invite("bob", SCOPES, by=ROOT)[1]
    browser = office.browser()
    for wrong in (
        link,
        fresh._replace(secret="x" * 43),
        fresh._replace(person_id=link.person_id),
        fresh._replace(tenant="globex"),
        fresh._replace(person_id="per_nobody"),
        "nonsense",
    ):
        answer = browser.post("/v1/sign-in/link", {"ticket": str(wrong)})
        assert answer.status_code == 401, wrong
        assert "set-cookie" not in answer.headers
    assert office.refusals() == ["link"] * 3, "of those who are somebody here"
    older = office.people.invite("bob", SCOPES, by=ROOT)[1]
    assert browser.open(fresh).status_code == 401, "a new link is the only one"
    assert browser.open(older).status_code == 201


def test_an_answer_of_a_passkey_counts_once(office: Office) -> None:
    browser, key = invited(office)
    sent = key.sign(browser.asked())
    others = [office.browser() for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        statuses = sorted(answer.status_code for answer in pool.map(lambda each: each.send(sent), others))
    assert statuses == [201, 401, 401, 401]
    assert browser.send(sent).status_code == 401
    assert office.refusals() == ["challenge"] * 4


BENT: dict[str, tuple[dict[str, Any], str]] = {
    "another origin": ({"origin": "http://evil.example"}, "origin"),
    "another port": ({"origin": "http://localhost:1"}, "origin"),
    "another host": ({"host": "evil.example"}, "signature"),
    "a challenge of nobody": ({"challenge": "AAAA"}, "challenge"),
    "without its owner": ({"is_verified": False}, "signature"),
    "another key": ({"signing_key": ec.generate_private_key(ec.SECP256R1())}, "signature"),
    "a count that went back": ({"count": 0}, "count"),
}


@pytest.mark.parametrize("what", BENT)
def test_a_forged_answer_is_refused_and_told(sqlite_office: Office, what: str) -> None:
    browser, key = invited(sqlite_office)
    assert browser.sign_in(key).status_code == 201
    bent, why = BENT[what]
    answer = sqlite_office.browser().sign_in(key, **bent)
    assert (answer.status_code, answer.json()["type"]) == (401, "/problems/not-authenticated")
    assert "set-cookie" not in answer.headers
    assert sqlite_office.refusals() == [why]


def test_a_cloned_passkey_is_found_out_by_its_count(sqlite_office: Office) -> None:
    browser, key = invited(sqlite_office)
    key.count = 6
    assert browser.sign_in(key).status_code == 201
    clone_says = {"count": 7}
    assert browser.sign_in(key, **clone_says).status_code == 401
    assert sqlite_office.refusals() == ["count"]


def test_passkeys_that_do_not_count_are_good_too(sqlite_office: Office) -> None:
    browser = sqlite_office.browser()
    browser.open(sqlite_office.people.invite("ana", SCOPES, by=ROOT)[1])
    key = Authenticator(sqlite_office.url, is_counting=False)
    assert browser.add(key).status_code == 201
    assert [browser.sign_in(key).status_code for _ in range(2)] == [201, 201]


def test_nonsense_is_no_answer(sqlite_office: Office) -> None:
    browser, key = invited(sqlite_office)
    good = key.sign(browser.asked())
    for member in ("clientDataJSON", "authenticatorData", "signature", "userHandle"):
        for nonsense in ("", "AA", "%%%", None, 5, {"a": 1}, "ÿ" * 9):
            wrong = {**good, "response": {**good["response"], member: nonsense}}
            assert browser.send(wrong).status_code == 401, (member, nonsense)
    for wrong in ({}, {"id": "x"}, {**good, "response": None}, {**good, "type": "x"}, {**good, "id": "AAAA"}):
        assert browser.send(wrong).status_code == 401
    options = browser.post("/v1/passkeys/options").json()["options"]
    made = Authenticator(sqlite_office.url).make(options)
    for wrong in ({}, {**made, "response": {"clientDataJSON": made["response"]["clientDataJSON"]}}):
        assert browser.post("/v1/passkeys", {"credential": wrong}).status_code == 401


def test_a_passkey_is_made_for_who_asked_and_on_this_page(sqlite_office: Office) -> None:
    ana, _ = invited(sqlite_office)
    bob, _ = invited(sqlite_office, "bob")
    key = Authenticator(sqlite_office.url)
    for_ana = ana.post("/v1/passkeys/options").json()["options"]
    assert bob.post("/v1/passkeys", {"credential": key.make(for_ana)}).status_code == 401
    for_sign_in = {**for_ana, "challenge": ana.asked()["challenge"]}
    assert ana.post("/v1/passkeys", {"credential": key.make(for_sign_in)}).status_code == 401
    for bent in ({"origin": "http://evil.example"}, {"host": "evil.example"}, {"is_verified": False}):
        assert ana.add(key, **bent).status_code == 401, bent
    assert sqlite_office.refusals() == [
        *("new passkey: challenge", "new passkey: challenge", "new passkey: origin"),
        *("new passkey: signature", "new passkey: signature"),
    ]
    assert ana.add(key).status_code == 201
    assert ana.add(key).status_code == 409, "it is there already"


def test_several_passkeys_and_one_that_is_removed(sqlite_office: Office) -> None:
    browser, first = invited(sqlite_office)
    second = Authenticator(sqlite_office.url)
    assert browser.add(second).status_code == 201
    gone, kept = (one["id"] for one in browser.get("/v1/passkeys").json()["passkeys"])
    left = browser.post(f"/v1/passkeys/{gone}/remove").json()["passkeys"]
    assert [one["id"] for one in left] == [kept]
    assert browser.post(f"/v1/passkeys/{gone}/remove").status_code == 404
    assert sqlite_office.browser().sign_in(first).status_code == 401
    assert sqlite_office.browser().sign_in(second).status_code == 201


def test_sessions_are_listed_and_ended_one_by_one(sqlite_office: Office) -> None:
    browser, key = invited(sqlite_office)
    other = sqlite_office.browser()
    other.sign_in(key)
    listed = browser.get("/v1/sessions").json()["sessions"]
    assert [(one["via"], one["is_this"]) for one in listed] == [("link", True), ("passkey", False)]
    assert browser.post(f"/v1/sessions/{listed[1]['id']}/end").status_code == 200
    assert other.post("/v1/passkeys/options").status_code == 401, "what changes something is looked up anew"
    assert browser.post(f"/v1/sessions/{listed[1]['id']}/end").status_code == 404
    assert browser.get("/v1/me").status_code == 200


def test_a_person_who_is_revoked_is_out_everywhere_within_a_second(office: Office) -> None:
    browser, key = invited(office)
    admin = office.token("root", "admin")
    assert browser.get("/v1/me").status_code == 200
    (person,) = httpx2.get(f"{office.url}/v1/people", headers=admin, trust_env=False).json()["people"]
    assert (person["name"], person["passkeys"], person["sessions"]) == ("ana", 1, 1)
    over = httpx2.post(f"{office.url}/v1/people/{person['id']}/revoke", headers=admin, json={}, trust_env=False)
    assert over.json()["person"]["is_revoked"] is True
    assert browser.post("/v1/passkeys/options").status_code == 401
    eventually(lambda: browser.get("/v1/me").status_code == 401)
    assert browser.sign_in(key).status_code == 401
    again = {"name": "ana", "scopes": ["auditor"], "lasts_s": 60}
    link = httpx2.post(f"{office.url}/v1/people", headers=admin, json=again, trust_env=False).json()["link"]
    assert link.startswith(f"{office.url}/signin#")
    assert browser.enter(browser.post("/v1/sign-in/link", {"ticket": link.partition("#")[2]})).status_code == 201
    assert browser.get("/v1/me").json()["scopes"] == ["auditor"]


def test_a_session_ends_when_nobody_does_anything(sqlite_office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    browser, _ = invited(sqlite_office)
    ahead = timedelta(minutes=61)

    class Later(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return datetime.now(tz) + ahead

    monkeypatch.setattr(sessions, "datetime", Later)
    assert browser.get("/v1/me").status_code == 401


def test_old_challenges_are_good_for_nothing_and_do_not_pile_up(office: Office) -> None:
    browser, key = invited(office)
    with pytest.MonkeyPatch.context() as earlier:
        earlier.setattr(challenges, "CHALLENGE_LASTS", timedelta(seconds=-1))
        old = browser.asked()
    assert browser.send(key.sign(old)).status_code == 401
    assert office.refusals() == ["challenge"]
    browser.asked()
    left = office.store.sheets("default", SheetFilter(kind="challenge"))
    assert all(one.due_at is not None and one.due_at > datetime.now(UTC) for one in left)
    assert len(left) == 2, "the one that made the passkey, and the newest"


def test_a_person_edited_into_the_database_is_nobody(office: Office) -> None:
    """Only what an event commits to is a person: whoever can write the table signs nobody in."""
    browser, _ = invited(office)
    with Database(office.house.store_url) as database:
        database.run("UPDATE indelible_payloads SET value = ? WHERE field = 'person'", (b'{"name":"ceo"}',))
    assert browser.post("/v1/passkeys/options").status_code == 401


def test_nobody_fills_the_journal_with_refusals(sqlite_office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signing_in, "MOST_REFUSALS", 3)
    link = sqlite_office.people.invite("ana", SCOPES, by=ROOT)[1]
    browser = sqlite_office.browser()
    for _ in range(9):
        assert browser.open(link._replace(secret="x" * 43)).status_code == 401
    assert sqlite_office.refusals() == ["link"] * 3


def test_servers_of_one_ledger_share_links_challenges_and_sessions(office: Office) -> None:
    stores = [open_store(office.house.store_url) for _ in range(2)]
    apps = [create_app(Ledgers(store, seal=False), Identity(store)) for store in stores]
    servers = [Served(Hardened(app, hosts=("ledger.example",))) for app in apps]
    headers = {"Host": "ledger.example", "Origin": "https://ledger.example"}
    one, other = (httpx2.Client(base_url=each.url, headers=headers, trust_env=False) for each in servers)
    try:
        with one, other, ThreadPoolExecutor(8) as pool:
            # The framework makes its routes at the first request, and not in two threads at once.
            assert [each.get("/nowhere").status_code for each in (one, other)] == [404, 404]
            link = {"ticket": str(office.people.invite("ana", SCOPES, by=ROOT)[1])}
            asked = [pool.submit(each.post, "/v1/sign-in/link", json=link) for each in (one, other) * 4]
            (inside,) = [each.result() for each in asked if each.result().status_code == 201]
            mine = {
                "Cookie": inside.headers["set-cookie"].partition(";")[0],
                "X-CSRF-Token": inside.json()["csrf_token"],
            }
            assert [each.get("/v1/me", headers=mine).status_code for each in (one, other)] == [200, 200]
            key = Authenticator("https://ledger.example")
            options = one.post("/v1/passkeys/options", json={}, headers=mine).json()["options"]
            assert other.post("/v1/passkeys", json={"credential": key.make(options)}, headers=mine).status_code == 201
            options = other.post("/v1/sign-in/options", json={}).json()["options"]
            sent = {"credential": key.sign(options)}
            assert sorted(each.post("/v1/sign-in/passkey", json=sent).status_code for each in (one, other)) == [
                201,
                401,
            ]
            assert one.post("/v1/sign-out", json={}, headers=mine).status_code == 204
            assert other.post("/v1/passkeys/options", json={}, headers=mine).status_code == 401
    finally:
        for each in servers:
            each.stop()


# What they do here


def test_who_asks_does_not_approve_through_a_session_either(sqlite_office: Office) -> None:
    browser, _ = invited(sqlite_office)
    agent = sqlite_office.token("bot", "agent", principal="ana")
    call = {"tool": "pay", "args": {"amount": 5}, "run_id": "order-1", "approval": "required"}
    asked = httpx2.post(f"{sqlite_office.url}/v1/effects", json=call, headers=agent, trust_env=False).json()["approval"]
    vote = {"decision": "approve", "digest": asked["digest"]}
    refused = browser.post(f"/v1/approvals/{asked['id']}/decisions", vote)
    assert (refused.status_code, refused.json()["code"]) == (403, "self_approval")
    assert "ana" in refused.json()["detail"]
    bob, _ = invited(sqlite_office, "bob")
    decided = bob.post(f"/v1/approvals/{asked['id']}/decisions", vote)
    assert decided.status_code == 201, decided.text
    assert decided.json()["approval"]["votes"][0]["via"] == "link"


def test_a_request_that_comes_again_in_a_session_gets_its_answer_again_and_nobody_else_does(
    sqlite_office: Office,
) -> None:
    browser, key = invited(sqlite_office, scopes=("admin",))
    wanted = {"name": "bot", "scopes": ["agent"]}
    first = browser.post("/v1/api-keys", wanted, **{"Idempotency-Key": "k"})
    again = browser.post("/v1/api-keys", wanted, **{"Idempotency-Key": "k"})
    assert (first.status_code, again.json()) == (201, first.json())
    other = sqlite_office.browser()
    other.sign_in(key)
    assert other.post("/v1/api-keys", wanted, **{"Idempotency-Key": "k"}).status_code == 422


def test_a_stream_that_goes_on_is_nobody_doing_anything(sqlite_office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "CHECK_EVERY", 0.0)
    monkeypatch.setattr("indelible.server.routes.events.LOOK_AT_JOURNAL_EVERY", 0.01)
    browser, _ = invited(sqlite_office)

    def versions() -> list[int]:
        return [one.version for one in sqlite_office.store.sheets(sqlite_office.tenant, SheetFilter(kind="seen"))]

    with browser.client.stream("GET", "/v1/events/stream", headers={"Sec-Fetch-Site": "same-origin"}) as answer:
        lines = answer.iter_lines()
        while versions() != [1]:  # that somebody asked for something, once in this minute
            next(lines)
        monkeypatch.setattr(sightings, "WRITTEN_EVERY", 0.0)
        assert sum(next(lines).startswith(":") for _ in range(40)) >= 20, "so often it was looked who listens"
    assert versions() == [1]


def test_strangers_leave_nothing_in_tenants_that_are_none(sqlite_office: Office) -> None:
    browser = sqlite_office.browser()

    def kept() -> int:
        return len(sqlite_office.store.sheets(sqlite_office.tenant, SheetFilter(kind="challenge")))

    assert browser.asked()["challenge"], "which tells nobody who is there"
    assert kept() == 0
    invited(sqlite_office)
    before = kept()
    assert browser.asked()["challenge"]
    assert kept() == before + 1
