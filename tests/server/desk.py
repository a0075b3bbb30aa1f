"""A server whose people also come by a provider, in the real flow of OpenID Connect."""

from __future__ import annotations

from typing import Any

import httpx2

from indelible.core.people.vouching import read_allowed
from indelible.server.signin.oidc import Provider
from indelible.server.signin.providers import put_in_force
from tests.server.office import Browser, House, Office
from tests.server.provider import CLIENT, SECRET, FakeProvider


class Desk(Office):
    """An office whose people also come by a provider."""

    def __init__(self, house: House) -> None:
        super().__init__(house, "default")
        self.provider = FakeProvider()
        self.configure()

    def configure(self, **words: Any) -> None:
        rules = (read_allowed("email=ana@example.com:approver"), read_allowed("groups=chiefs:admin"))
        usual = {"secret": SECRET, "allowed": rules}
        self.serve(Provider(self.provider.url, CLIENT, **{**usual, **words}))

    def serve(self, provider: Provider | None) -> None:
        """Goes on as a server that was started with this provider, or with none."""
        put_in_force(self.store, self.tenant, provider)
        self.app.state.provider = provider

    def close(self) -> None:
        self.house.close()
        self.provider.served.stop()


def sent_off(browser: Browser) -> str:
    """Goes to the provider, and gives where it sends the browser back to."""
    left = browser.get("/signin/oidc")
    assert left.status_code == 303, left.text
    back = httpx2.get(left.headers["location"], trust_env=False)
    return str(back.headers["location"])


def signed_in(browser: Browser) -> httpx2.Response:
    return browser.client.get(sent_off(browser))
