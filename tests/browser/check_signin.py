"""People sign in with a real browser: from the link to a passkey, out, and in again by the passkey alone."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tests.server.office import House, Office
from tests.server.places import ROOT


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    house = House(f"sqlite:///{tmp_path / 'ledger.db'}")
    yield Office(house, "default")
    house.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page with an authenticator in it; whatever the page trips over is kept."""
    context = browser.new_context()
    page = context.new_page()
    page.troubles = []  # type: ignore[attr-defined]
    page.on("console", lambda message: page.troubles.append(message.text))  # type: ignore[attr-defined]
    page.on("pageerror", lambda error: page.troubles.append(str(error)))  # type: ignore[attr-defined]
    line = context.new_cdp_session(page)
    line.send("WebAuthn.enable")
    options = {"protocol": "ctap2", "transport": "internal", "hasResidentKey": True, "hasUserVerification": True}
    made = line.send("WebAuthn.addVirtualAuthenticator", {"options": {**options, "isUserVerified": True}})
    page.authenticator = (line, made["authenticatorId"])  # type: ignore[attr-defined]
    yield page
    context.close()


def link_to(office: Office, name: str = "ana") -> str:
    return f"{office.url}/signin#{office.people.invite(name, ('approver',), by=ROOT)[1]}"


def picture(page: Page, name: str) -> None:
    """Keeps a picture where somebody wants to look at it."""
    folder = os.environ.get("INDELIBLE_PICTURES")
    if folder:
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)


def says(page: Page, text: str) -> None:
    page.get_by_role("status").filter(has_text=text).wait_for()


def test_from_link_to_passkey_and_in_again_by_it_alone(office: Office, page: Page) -> None:
    page.goto(link_to(office))
    says(page, "signed in by your link")
    assert page.url == f"{office.url}/signin", "the link's secret does not stay in the address"
    picture(page, "signin-by-link")
    page.get_by_label("Name of the new passkey").fill("this laptop")
    page.get_by_role("button", name="Make a passkey").click()
    says(page, "The passkey is made")
    page.get_by_text("this laptop, made").wait_for()
    picture(page, "signin-inside")
    page.get_by_role("button", name="Sign out").click()
    says(page, "signed out")
    picture(page, "signin-outside")
    page.get_by_role("button", name="Sign in with a passkey").click()
    says(page, "You are signed in.")
    assert page.get_by_role("heading", name="ana").count() == 1
    (person,) = office.people.all()
    assert [one.via for one in person.sessions] == ["passkey"]
    assert person.passkeys[0].sign_count > 0
    page.get_by_role("button", name="Remove: this laptop").click()
    says(page, "The passkey is removed")
    # Whoever is out is told so with 401, and browsers remark on it.
    assert [one for one in page.troubles if "401" not in one] == []  # type: ignore[attr-defined]


def test_a_link_that_is_used_up_says_what_to_do(office: Office, page: Page) -> None:
    link = link_to(office)
    page.goto(link)
    says(page, "signed in by your link")
    page.get_by_role("button", name="Sign out").click()
    says(page, "signed out")
    page.goto("about:blank")
    page.goto(link)
    page.get_by_role("alert").filter(has_text="it was used").wait_for()
    assert page.get_by_role("button", name="Sign in with a passkey").is_visible()


def test_a_passkey_that_is_not_used_after_all_says_so(office: Office, page: Page) -> None:
    line, authenticator = page.authenticator  # type: ignore[attr-defined]
    line.send("WebAuthn.setUserVerified", {"authenticatorId": authenticator, "isUserVerified": False})
    page.goto(link_to(office))
    says(page, "signed in by your link")
    page.get_by_role("button", name="Make a passkey").click()
    page.get_by_role("alert").filter(has_text="Nothing was signed").wait_for()


def test_on_an_address_the_page_goes_where_passkeys_work(office: Office, page: Page) -> None:
    page.goto(link_to(office).replace("localhost", "127.0.0.1"))
    says(page, "signed in by your link")
    assert page.url.startswith("http://localhost:")


# A form, for what a script fetches from us the browser keeps from other sites anyhow.
SEND = """address => {
    const form = document.createElement("form");
    Object.assign(form, { method: "POST", action: address, enctype: "text/plain" });
    document.body.append(form);
    form.submit();
}"""


@pytest.fixture
def elsewhere() -> Iterator[str]:
    """A site of somebody else, on another port of this machine."""

    class Anything(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<!doctype html><title>a page</title>")

        def log_message(self, *words: Any) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Anything) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://localhost:{server.server_port}"
        server.shutdown()


def test_another_origin_cannot_act_in_the_session(office: Office, page: Page, elsewhere: str) -> None:
    """Cookies know no ports: a page of another server on this machine makes the browser send ours along."""
    page.goto(link_to(office))
    says(page, "signed in by your link")
    page.goto(elsewhere)
    with page.expect_response("**/v1/sign-out") as answered:
        page.evaluate(SEND, f"{office.url}/v1/sign-out")
    assert "cookie" in answered.value.request.all_headers()
    assert answered.value.status == 403
    (person,) = office.people.all()
    assert len(person.sessions) == 1, "nobody signed them out"


def test_the_page_is_readable_without_seeing_it(office: Office, page: Page) -> None:
    page.goto(f"{office.url}/signin")
    page.get_by_role("button", name="Sign in with a passkey").wait_for()
    assert page.get_by_role("main").count() == 1
    assert page.get_by_role("heading", level=1).inner_text() == "Sign in"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "sign-in"
    assert page.evaluate("document.documentElement.lang") == "en"
