"""Credentials: tokens are known again by a hash, and nobody gets more than they were given."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indelible.core.effects.effect import Actor
from indelible.core.people.credentials import (
    Credential,
    Token,
    credential_sheet,
    kind_for,
    read_credential,
    read_token,
    unknown_token,
)
from indelible.core.people.standing import Standing, credential_ref
from indelible.core.verifying.findings import Caught
from indelible.core.verifying.sheet_bodies import credential_in
from indelible.errors import BadCall, NotAuthenticated

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
TOKEN = Token("acme", "key_1", "s" * 43)


def credential(**words: Any) -> Credential:
    usual: dict[str, Any] = {
        "id": "key_1",
        "name": "billing",
        "kind": "agent",
        "scopes": ("agent",),
        "hash": TOKEN.hash,
        "given_by": "ana",
        "created_at": NOW,
    }
    return Credential(**usual | words)


@given(st.text(max_size=50).filter(lambda name: "\0" not in name and name.isprintable()).map("n{}".format))
def test_a_token_is_taken_apart_as_it_was_put_together(tenant: str) -> None:
    token = Token(tenant, "key_2", "a-b_c")
    assert read_token(str(token)) == token


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ind",
        "ind.YQ.key_1",
        "ind.YQ.key_1.s.t",
        "inx.YQ.key_1.s",
        "ind..key_1.s",
        "ind.YQ..s",
        "ind.YQ.key_1.",
        "ind.A.key_1.s",
        "ind._w.key_1.s",
        "ind.AA.key_1.s",
        "ind.YQ.key_ü.s",
    ],
)
def test_what_is_no_token_is_nobodys(text: str) -> None:
    with pytest.raises(NotAuthenticated, match="not know this token"):
        read_token(text)


def test_a_token_admits_under_the_name_and_scopes_it_was_given() -> None:
    caller = credential(principal="ana").admits(TOKEN, "acme", NOW)
    assert caller.actor == Actor("billing", "agent", "api_key")
    assert (caller.tenant, caller.scopes, caller.principal) == ("acme", frozenset({"agent"}), "ana")
    assert not caller.is_trusted


def test_another_secret_admits_nobody() -> None:
    with pytest.raises(NotAuthenticated):
        credential().admits(TOKEN._replace(secret="t" * 43), "acme", NOW)


def test_a_revoked_credential_admits_nobody() -> None:
    over = credential().revoked()
    assert over.version == 2
    with pytest.raises(NotAuthenticated, match="not know this token"):
        over.admits(TOKEN, "acme", NOW)


def test_an_expired_credential_admits_nobody_and_says_so_only_to_who_has_its_token() -> None:
    until = credential(expires_at=NOW)
    with pytest.raises(NotAuthenticated, match="expired"):
        until.admits(TOKEN, "acme", NOW)
    with pytest.raises(NotAuthenticated, match="not know this token"):
        until.admits(TOKEN._replace(secret="x"), "acme", NOW)
    assert until.admits(TOKEN, "acme", NOW - timedelta(seconds=1)).tenant == "acme"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ({"scopes": ()}, "choose one or more"),
        ({"scopes": ("root",)}, "choose one or more"),
        ({"scopes": ("agent", "approver")}, "no other"),
        ({"kind": "person", "scopes": ("approver", "agent")}, "stay apart"),
        ({"name": ""}, "name"),
        ({"principal": ""}, "principal"),
        ({"expires_at": datetime(2030, 1, 1)}, "time zone"),  # noqa: DTZ001
    ],
)
def test_a_credential_that_gives_too_much_or_makes_no_sense_is_refused(words: dict[str, Any], why: str) -> None:
    with pytest.raises(BadCall, match=why):
        credential(**words)


def test_agents_ask_and_people_do_the_rest() -> None:
    assert kind_for(["agent"]) == "agent"
    assert [kind_for([scope]) for scope in ("approver", "auditor", "admin")] == ["person"] * 3


@pytest.mark.parametrize("one", [credential(), credential(principal="ana", expires_at=NOW), credential().revoked()])
def test_a_credential_is_read_as_it_was_written(one: Credential) -> None:
    sheet = credential_sheet(one)
    assert read_credential(sheet) == one
    assert sheet.ref == credential_ref("key_1")
    assert sheet.is_recorded
    assert sheet.body is not None
    assert credential_in(sheet.body) == one
    assert b"s" * 43 not in sheet.body, "the secret is nowhere"


def test_what_is_not_exactly_a_credential_is_caught() -> None:
    body = credential_sheet(credential()).body
    assert body is not None
    with pytest.raises(Caught):
        credential_in(body.replace(b'"v":1', b'"v":2'))
    with pytest.raises(Caught):
        credential_in(body.replace(b'"is_revoked":false', b'"is_revoked":0'))


def test_a_secret_is_not_shown_by_accident() -> None:
    assert TOKEN.hash not in repr(credential())
    assert "not know this token" in str(unknown_token())
    assert replace(credential(), name="x").name == "x"


PROVIDER = "https://id.example"


def stands(*scopes: Any, **words: Any) -> Standing:
    return Standing(scopes=scopes, **words)


def test_87_a_token_of_a_providers_person_reaches_as_far_as_the_rules_of_today() -> None:
    hers = credential(name="ana", kind="person", scopes=("approver", "admin"))
    theirs = stands("approver", "auditor", issuer=PROVIDER, until=NOW + timedelta(hours=1))
    assert hers.admits(TOKEN, "acme", NOW, person=theirs).scopes == {"approver"}
    for person, why in (
        (stands(is_revoked=True), "was revoked"),
        (stands(issuer=PROVIDER), "no rule"),
        (stands("approver", issuer=PROVIDER, until=NOW), "/signin"),
        (stands("auditor", issuer=PROVIDER), "apikeys create"),
    ):
        with pytest.raises(NotAuthenticated, match=why):
            hers.admits(TOKEN, "acme", NOW, person=person)


@pytest.mark.parametrize(
    ("person", "token", "reach"),
    [
        (("approver",), ("approver", "admin"), {"approver"}),
        (("approver", "auditor"), ("auditor",), {"auditor"}),
        (("admin",), ("approver", "auditor"), {"approver", "auditor"}),
        (("auditor",), ("approver", "admin"), None),
    ],
)
@pytest.mark.parametrize("issuer", [None, PROVIDER])
def test_87_a_token_reaches_no_further_than_its_person(
    person: tuple[Any, ...], token: tuple[Any, ...], reach: set[str] | None, issuer: str | None
) -> None:
    theirs, hers = stands(*person, issuer=issuer), credential(name="ana", kind="person", scopes=token)
    if reach is None:
        with pytest.raises(NotAuthenticated, match="apikeys create"):
            hers.admits(TOKEN, "acme", NOW, person=theirs)
    else:
        assert hers.admits(TOKEN, "acme", NOW, person=theirs).scopes == reach


def test_87_an_agent_acts_for_nobody_who_is_out_and_works_on_while_they_are_away() -> None:
    agents = credential(principal="ana")
    away = stands("approver", issuer=PROVIDER, until=NOW)
    assert agents.admits(TOKEN, "acme", NOW, principal=away).principal == "ana"
    for out in (stands(issuer=PROVIDER), stands(is_revoked=True)):
        with pytest.raises(NotAuthenticated, match="acts for ana"):
            agents.admits(TOKEN, "acme", NOW, principal=out)
