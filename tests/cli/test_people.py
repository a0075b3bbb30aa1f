"""`indelible people`: a link that is shown once, who is let in, and who no longer is; and `serve --oidc-…`."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import httpx2
import pytest

from indelible.core.people.person import read_ticket
from indelible.core.people.vouching import ProviderRules, Said, Vouched, Voucher, read_allowed
from indelible.engine.authenticating import authenticate_rows
from indelible.server.signin.people import People
from indelible.server.signin.providers import Providers
from indelible.server.signin.sightings import Sightings
from indelible.stores import open_store
from tests.cli.conftest import Cli
from tests.cli.test_serve import serving
from tests.server.provider import CLIENT, SECRET, FakeProvider


def test_somebody_is_invited_listed_and_revoked(ledger_url: str, cli: Cli) -> None:
    said = cli(
        "people", "invite", "Ana", "--scope", "approver", "--scope", "admin", "--server", "https://l.example/x/"
    ).out
    link = next(line.strip() for line in said.splitlines() if "signin#" in line)
    start, _, ticket = link.partition("#")
    assert start == "https://l.example/x/signin"
    assert "whoever opens it is them" in said
    secret = read_ticket(ticket).secret
    listed = cli("people", "list").out
    assert "link until" in listed
    assert "approver, admin" in listed
    assert secret not in cli("people", "list", "--json").out
    store = open_store(ledger_url)
    authenticate_rows(store, None)
    person, _ = People(store, "default").open_link(read_ticket(ticket))
    store.close()
    (shown,) = cli("people", "list", "--json").json["people"]
    assert (shown["id"], shown["sessions"], shown["invited_until"]) == (person.id, 1, None)
    assert "nothing: invite them again" in cli("people", "list").out
    cli("apikeys", "create", "ana", "--scope", "approver")
    given = cli("apikeys", "create", "bot", "--scope", "agent", "--by", "Ana", "--json").json["apikey"]
    revoked = cli("people", "revoke", "--yes", "ana").out
    assert "no longer let in.\nEnded with them: 1 token.\n" in revoked
    assert f"the token that they gave to bot: indelible apikeys revoke {given['id']}" in revoked
    again = cli("people", "revoke", "--yes", person.id, "--json").json
    assert (again["person"]["is_revoked"], again["ended"]["api_keys"]) == (True, [])
    assert again["not_ended"]["api_keys"] == [{"id": given["id"], "name": "bot"}]
    assert "revoked" in cli("people", "list").out
    assert "person_revoked" in cli("events", "indelible:people").out
    again = cli("people", "invite", "ana", "--scope", "auditor", "--expires", "1d", "--json").json
    assert again["link"].startswith("http://localhost:8787/signin#")
    assert (again["person"]["id"], again["person"]["scopes"]) == (person.id, ["auditor"])


def test_what_makes_no_sense_is_refused_with_the_next_step(ledger_url: str, cli: Cli) -> None:
    assert "people invite NAME --scope admin" in cli("people", "list").out
    assert "approver" in cli("people", "invite", "ana", "--scope", "agent", code=2).err
    assert "--server" in cli("people", "invite", "ana", "--scope", "admin", "--server", "l.example", code=2).err
    assert "7 days" in cli("people", "invite", "ana", "--scope", "admin", "--expires", "9d", code=2).err
    assert "people list" in cli("people", "revoke", "--yes", "nobody", code=2).err


def test_when_a_token_was_last_used_is_listed(ledger_url: str, cli: Cli) -> None:
    key = cli("apikeys", "create", "bot", "--scope", "agent", "--json").json["apikey"]
    assert "never" in cli("apikeys", "list").out
    store = open_store(ledger_url)
    authenticate_rows(store, None)
    Sightings(store)._keep("default", key["id"], datetime(2030, 1, 31, 12, tzinfo=UTC), None)
    store.close()
    assert "2030-01-31" in cli("apikeys", "list").out
    (shown,) = cli("apikeys", "list", "--json").json["apikeys"]
    assert shown["last_used"] == "2030-01-31T12:00:00.000000Z"


def test_people_and_tokens_are_made_where_the_database_is(cli: Cli) -> None:
    for words in (("people", "list"), ("apikeys", "list"), ("people", "invite", "ana", "--scope", "admin")):
        assert "/v1/people" in cli(*words, "--url", "https://ledger.example", code=2).err


def test_a_provider_is_named_whole_or_not_at_all(ledger_url: str, cli: Cli) -> None:
    assert "--oidc-issuer" in cli("serve", "--oidc-client-id", "x", code=2).err
    issuer = ("--oidc-issuer", "https://id.example")
    assert "--oidc-allow" in cli("serve", *issuer, "--oidc-client-id", "x", code=2).err
    whole = (*issuer, "--oidc-client-id", "x", "--oidc-allow")
    assert "claim=value:scope" in cli("serve", *whole, "email=a", code=2).err
    plain = ("--oidc-issuer", "http://id.example", "--oidc-client-id", "x", "--oidc-allow", "email=a@b:admin")
    assert "https is needed" in cli("serve", *plain, code=None).err


def test_87_a_server_that_is_started_with_other_rules_ends_what_the_old_ones_let_in(
    ledger_url: str, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INDELIBLE_OIDC_SECRET", SECRET)
    provider = FakeProvider()
    provider.claims |= {"groups": ["chiefs"]}
    chiefs = ("--oidc-issuer", provider.url, "--oidc-client-id", CLIENT, "--oidc-allow", "groups=chiefs:admin")

    def scopes(url: str, token: str) -> list[str] | None:
        answer = httpx2.get(f"{url}/v1/me", headers={"Authorization": f"Bearer {token}"}, trust_env=False)
        return answer.json()["scopes"] if answer.status_code == 200 else None

    try:
        with serving(*chiefs) as (url, _), httpx2.Client(base_url=url, trust_env=False) as browser:
            left = browser.get("/signin/oidc")
            assert left.status_code == 303, left.text
            away = httpx2.get(left.headers["location"], trust_env=False)
            assert browser.get(away.headers["location"]).status_code == 200
            token = cli("apikeys", "create", "ana@example.com", "--scope", "admin", "--json").json["token"]
            assert scopes(url, token) == ["admin"]
        for rules, word, found in (
            ((), "not_allowed", None),
            (chiefs, "in", ["admin"]),
            ((*chiefs[:-1], "groups=others:admin"), "not_allowed", None),
        ):
            with serving(*rules) as (url, _):
                assert scopes(url, token) == found, rules
                (shown,) = cli("people", "list", "--json").json["people"]
                assert (shown["name"], shown["standing"]) == ("ana@example.com", word)
    finally:
        provider.served.stop()


def test_87_a_providers_person_is_shown_converted_and_revoked(ledger_url: str, cli: Cli) -> None:
    rules = ProviderRules(issuer="https://id.example", allowed=(read_allowed("dept=it:auditor"),))
    said = Vouched(by=Voucher("https://id.example", "u1"), said=(Said("dept", "it"),), at=datetime.now(UTC))
    store = open_store(ledger_url)
    authenticate_rows(store, None)
    Providers(store, "default").put_in_force(rules)
    for name, by in (("ana@example.com", said.by), ("bo@xn--bcher-kva.example", Voucher("https://id.example", "u2"))):
        People(store, "default").vouch(name, replace(said, by=by), rules)
    assert "https://id.example" in cli("people", "list").out
    Providers(store, "default").put_in_force(replace(rules, max_age=timedelta(microseconds=1)))
    assert "they have to sign in there again" in cli("people", "list").out
    Providers(store, "default").put_in_force(ProviderRules(issuer=None))
    assert "no rule lets them in" in cli("people", "list").out
    store.close()
    refused = cli("people", "invite", "ana@example.com", "--scope", "approver", code=None)
    assert "--convert" in refused.err
    made = cli("people", "invite", "ana@example.com", "--scope", "approver", "--convert", "--json").json
    assert (made["person"]["issuer"], made["person"]["standing"]) == (None, "in")
    over = cli("people", "revoke", "Bo@BÜCHER。example", "--yes", "--json").json
    assert over["person"]["standing"] == "revoked"
    assert "30 days" in cli("serve", *OIDC, "--oidc-max-age", "31d", code=None).err


OIDC = ("--oidc-issuer", "https://id.example", "--oidc-client-id", "x", "--oidc-allow", "email=a@b:admin")
