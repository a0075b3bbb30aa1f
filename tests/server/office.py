"""A server that people come to with browsers: these keep cookies and say where they come from, as real ones do."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import httpx2

from indelible.core.people.person import PEOPLE_RUN, Ticket
from indelible.core.ports import Store
from indelible.server.app import create_app
from indelible.server.ledgers import Ledgers
from indelible.server.requests.hardening import Hardened
from indelible.server.signin.credentials import Credentials
from indelible.server.signin.identity import Identity
from indelible.server.signin.people import People
from indelible.stores import migrate, open_store
from tests.server.authenticator import Authenticator
from tests.server.places import ROOT
from tests.server.serving import Served

SCOPES: tuple[Any, ...] = ("approver",)


class House:
    """A server on a store, for the offices of any number of tenants."""

    def __init__(self, url: str, **words: Any) -> None:
        migrate(url)
        self.store_url = url
        self.store: Store = open_store(url)
        self.app = create_app(Ledgers(open_store(url), **(words or {"seal": False})), Identity(self.store))
        self.served = Served(Hardened(self.app))
        self.url = self.served.url.replace("127.0.0.1", "localhost")
        self.opened: list[httpx2.Client] = []

    def close(self) -> None:
        for each in self.opened:
            each.close()
        self.served.stop()
        self.store.close()


class Office:
    """What one tenant has there: its people, and the browsers they come with."""

    def __init__(self, house: House, tenant: str | None = None) -> None:
        self.house = house
        self.tenant = tenant or uuid4().hex
        self.url, self.app, self.store = house.url, house.app, house.store
        self.people = People(self.store, self.tenant)

    def browser(self, **words: Any) -> Browser:
        made = Browser(self, **words)
        self.house.opened.append(made.client)
        return made

    def token(self, name: str, *scopes: Any, **words: Any) -> dict[str, str]:
        token = Credentials(self.store, self.tenant).give(name, scopes, by=ROOT, **words)[1]
        return {"Authorization": f"Bearer {token}"}

    def told(self) -> list[tuple[str, str, str | None]]:
        """Lists what is on the record of people: what, by whom, and why somebody was refused."""
        events = [event.read() for event in self.store.events(self.tenant, PEOPLE_RUN, -1, 1000)]
        return [(event["type"], event["actor"]["via"], event["facts"].get("why")) for event in events]

    def refusals(self) -> list[str | None]:
        return [why for kind, _, why in self.told() if kind == "sign_in_refused"]


class Browser:
    """Keeps cookies and says where its requests come from, as browsers do."""

    def __init__(self, office: Office, origin: str | None = None) -> None:
        self.origin = origin or office.url
        self.tenant = office.tenant
        self.client = httpx2.Client(base_url=office.url, trust_env=False)
        self.csrf = ""

    def post(self, path: str, body: Any = None, **headers: str) -> httpx2.Response:
        usual = {"Origin": self.origin, "Sec-Fetch-Site": "same-origin", "X-CSRF-Token": self.csrf}
        sent = {name: value for name, value in {**usual, **headers}.items() if value}
        return self.client.post(path, json={} if body is None else body, headers=sent)

    def get(self, path: str, **headers: str) -> httpx2.Response:
        return self.client.get(path, headers={"Sec-Fetch-Site": "same-origin", **headers})

    def enter(self, answer: httpx2.Response) -> httpx2.Response:
        if answer.status_code == 201:
            self.csrf = answer.json()["csrf_token"]
        return answer

    def open(self, link: Ticket) -> httpx2.Response:
        return self.enter(self.post("/v1/sign-in/link", {"ticket": str(link)}))

    def add(self, key: Authenticator, **bent: Any) -> httpx2.Response:
        options = self.post("/v1/passkeys/options").json()["options"]
        return self.post("/v1/passkeys", {"name": "laptop", "credential": key.make(options, **bent)})

    def asked(self) -> dict[str, Any]:
        found: dict[str, Any] = self.post("/v1/sign-in/options", {"tenant": self.tenant}).json()["options"]
        return found

    def sign_in(self, key: Authenticator, **bent: Any) -> httpx2.Response:
        return self.send(key.sign(self.asked(), **bent))

    def send(self, credential: dict[str, Any]) -> httpx2.Response:
        return self.enter(self.post("/v1/sign-in/passkey", {"tenant": self.tenant, "credential": credential}))


def invited(office: Office, name: str = "ana", scopes: tuple[Any, ...] = SCOPES) -> tuple[Browser, Authenticator]:
    """Gives a browser in which somebody is signed in by their link, with a passkey."""
    browser, key = office.browser(), Authenticator(office.url)
    assert browser.open(office.people.invite(name, scopes, by=ROOT)[1]).status_code == 201
    assert browser.add(key).status_code == 201
    return browser, key
