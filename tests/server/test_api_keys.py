"""Tokens over HTTP, when they were last used, and strangers who make tokens up."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from indelible.core.people.credentials import Token
from indelible.server.requests import remembering
from indelible.server.signin import identity, sightings
from indelible.server.signin.sightings import last_seen
from tests.server.places import Place


@pytest.fixture
def place(store_url: str) -> Iterator[Place]:
    made = Place(store_url, seal=False)
    yield made
    made.close()


def until(seen: Any) -> Any:
    """Waits for what is written behind an answer."""
    end = time.monotonic() + 20
    while (found := seen()) is None:
        assert time.monotonic() < end
    return found


def test_a_token_is_given_shown_and_revoked(place: Place) -> None:
    wanted = {"name": "bot", "scopes": ["agent"], "principal": "ana", "expires_at": "2099-01-01T00:00:00Z"}
    given = place.post("/v1/api-keys", wanted, "admin").json()
    key = given["api_key"]
    place.tokens["bot"] = given["token"]
    assert (key["kind"], key["principal"], key["given_by"], key["last_used"]) == ("agent", "ana", "admin", None)
    assert key["expires_at"].startswith("2099-01-01T00:00:00")
    assert place.get("/v1/me", "bot").json()["principal"] == "ana"
    used = until(lambda: last_seen(place.store, "acme", key["id"]))
    listed = place.get("/v1/api-keys", "auditor")
    assert given["token"].rpartition(".")[2] not in listed.text
    (shown,) = [one for one in listed.json()["api_keys"] if one["id"] == key["id"]]
    assert shown["last_used"] == used.isoformat(timespec="microseconds").replace("+00:00", "Z")
    over = place.post(f"/v1/api-keys/{key['id']}/revoke", {}, "admin").json()["api_key"]
    assert over["is_revoked"] is True
    assert place.post("/v1/api-keys/key_nobody/revoke", {}, "admin").status_code == 404
    assert place.post("/v1/api-keys", {**wanted, "expires_at": "2001-01-01T00:00:00Z"}, "admin").status_code == 400
    assert place.post("/v1/api-keys", {"name": "x", "scopes": ["agent", "admin"]}, "admin").status_code == 400


def test_tokens_and_people_come_in_pages(place: Place) -> None:
    for path, name in (("/v1/api-keys", "api_keys"), ("/v1/people", "people")):
        for number in range(3):
            place.post(path, {"name": f"n{number}", "scopes": ["auditor"]}, "admin")
        whole = [one["id"] for one in place.get(path, "admin").json()[name]]
        page: dict[str, Any] = {"next": None}
        seen: list[str] = []
        while not seen or page["next"] is not None:
            before = "" if page["next"] is None else f"&before={page['next']}"
            page = place.get(f"{path}?limit=2{before}", "admin").json()
            seen += [one["id"] for one in page[name]]
        assert seen == whole


def test_when_a_token_was_used_is_written_once_a_minute(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[str] = []
    keep = sightings.Sightings._keep
    monkeypatch.setattr(
        sightings.Sightings,
        "_keep",
        lambda self, tenant, id_, *words: (kept.append(id_), keep(self, tenant, id_, *words)),
    )
    for _ in range(5):
        place.get("/v1/me", "agent")
    (key,) = [one for one in place.get("/v1/api-keys", "auditor").json()["api_keys"] if one["name"] == "agent"]
    first = until(lambda: last_seen(place.store, "acme", key["id"]))
    assert kept.count(key["id"]) == 1
    monkeypatch.setattr(sightings, "WRITTEN_EVERY", 0.0)
    place.get("/v1/me", "agent")
    assert until(lambda: ((at := last_seen(place.store, "acme", key["id"])) and at > first and at) or None)


def test_a_token_that_is_made_up_is_looked_up_once(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    find = identity.find_credential
    monkeypatch.setattr(
        identity, "find_credential", lambda store, tenant, id_: looked.append(id_) or find(store, tenant, id_)
    )  # type: ignore[func-returns-value]
    monkeypatch.setattr(remembering, "REMEMBERED", 60.0)
    made_up = {"Authorization": f"Bearer {Token('acme', 'key_made_up', 'x' * 43)}"}
    assert {place.get("/v1/me", None, headers=made_up).status_code for _ in range(5)} == {401}
    assert looked == ["key_made_up"]


def test_tokens_that_are_made_up_push_no_good_one_out(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    find = identity.find_credential
    monkeypatch.setattr(
        identity, "find_credential", lambda store, tenant, id_: looked.append(id_) or find(store, tenant, id_)
    )  # type: ignore[func-returns-value]
    monkeypatch.setattr(remembering, "REMEMBERED", 60.0)
    monkeypatch.setattr(remembering, "MOST_REMEMBERED", 3)
    assert place.get("/v1/me", "agent").status_code == 200
    for number in range(8):
        made_up = {"Authorization": f"Bearer {Token('acme', f'key_{number}', 'x' * 43)}"}
        assert place.get("/v1/me", None, headers=made_up).status_code == 401
    before = len(looked)
    assert place.get("/v1/me", "agent").status_code == 200
    assert len(looked) == before, "it is still known"
