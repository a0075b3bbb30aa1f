"""People sign in with a real browser: from the link to a passkey, out, and in again by the passkey alone."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from playwright.sync_api import CDPSession, Page, expect

from tests.browser.stories import Story, on_one_store

_KIND = {"protocol": "ctap2", "transport": "internal", "hasResidentKey": True, "hasUserVerification": True}


def put_authenticator(page: Page) -> tuple[CDPSession, str]:
    """Puts an authenticator into a page's browser, and gives the line to it and its name."""
    line = page.context.new_cdp_session(page)
    line.send("WebAuthn.enable")
    made = line.send("WebAuthn.addVirtualAuthenticator", {"options": {**_KIND, "isUserVerified": True}})
    return line, made["authenticatorId"]


def says(page: Page, text: str) -> None:
    expect(page.get_by_role("status")).to_contain_text(text)


def come_in(story: Story) -> Page:
    """Lets somebody come by their link."""
    page = story.watch.open()
    page.goto(story.link("ana", "approver"))
    says(page, "signed in by your link")
    return page


def test_from_link_to_passkey_and_in_again_by_it_alone(story: Story) -> None:
    page = story.watch.open()
    put_authenticator(page)
    page.goto(story.link("ana", "approver"))
    says(page, "signed in by your link")
    assert page.url == f"{story.home}signin", "the link's secret does not stay in the address"
    page.get_by_label("Name of the new passkey").fill("this laptop")
    page.get_by_role("button", name="Make a passkey").click()
    says(page, "The passkey is made")
    expect(page.get_by_text("this laptop, made")).to_be_visible()
    page.get_by_role("button", name="Sign out").click()
    says(page, "signed out")
    page.goto(f"{story.home}settings?from=bookmark")  # where one may not look yet
    page.get_by_role("button", name="Sign in with a passkey").click()
    expect(page.get_by_text("ana (known by passkey)")).to_be_visible()
    assert page.url == f"{story.home}settings?from=bookmark", "one comes to where one wanted to go"
    (person,) = story.people.all()
    assert [one.via for one in person.sessions] == ["passkey"]
    assert person.passkeys[0].sign_count > 0
    page.goto(f"{story.home}signin")
    page.get_by_role("button", name="Remove: this laptop").click()
    says(page, "The passkey is removed")
    assert story.people.all()[0].passkeys == ()


@on_one_store
def test_a_link_that_is_used_up_says_what_to_do(story: Story) -> None:
    page = story.watch.open()
    link = story.link("ana", "approver")
    page.goto(link)
    says(page, "signed in by your link")
    page.get_by_role("button", name="Sign out").click()
    says(page, "signed out")
    page.goto("about:blank")
    page.goto(link)
    expect(page.get_by_role("alert")).to_contain_text("it was used")
    expect(page.get_by_role("button", name="Sign in with a passkey")).to_be_visible()
    assert story.people.all()[0].sessions == ()


@on_one_store
def test_a_passkey_that_is_not_used_after_all_says_so(story: Story) -> None:
    page = come_in(story)
    line, authenticator = put_authenticator(page)
    line.send("WebAuthn.setUserVerified", {"authenticatorId": authenticator, "isUserVerified": False})
    page.get_by_role("button", name="Make a passkey").click()
    expect(page.get_by_role("alert")).to_contain_text("Nothing was signed")
    assert story.people.all()[0].passkeys == ()


@on_one_store
def test_on_an_address_the_page_goes_where_passkeys_work(story: Story) -> None:
    page = story.watch.open()
    by_number = story.home.replace("localhost", "127.0.0.1")
    story.watch.homes.append(by_number)
    page.goto(story.link("ana", "approver").replace(story.home, by_number))
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


@on_one_store
def test_another_origin_cannot_act_in_the_session(story: Story, elsewhere: str) -> None:
    """Cookies know no ports: a page of another server on this machine makes the browser send ours along."""
    page = come_in(story)
    story.watch.homes.append(elsewhere)
    page.goto(elsewhere)
    with page.expect_response("**/v1/sign-out") as answered:
        page.evaluate(SEND, f"{story.home}v1/sign-out")
    assert "cookie" in answered.value.request.all_headers()
    assert answered.value.status == 403
    (person,) = story.people.all()
    assert len(person.sessions) == 1, "nobody signed them out"


@on_one_store
def test_the_page_is_readable_without_seeing_it(story: Story) -> None:
    page = story.watch.open()
    page.goto(f"{story.home}signin")
    page.get_by_role("button", name="Sign in with a passkey").wait_for()
    assert page.get_by_role("main").count() == 1
    assert page.get_by_role("heading", level=1).inner_text() == "Sign in"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "sign-in"
    assert page.evaluate("document.documentElement.lang") == "en"
