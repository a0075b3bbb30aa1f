"""A story: one tenant's ledger on a real server, and the people who look at it with browsers."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from playwright.sync_api import Page

from indelible import Approval, AwaitingApproval, Effect, Ledger, ToolCall
from indelible.server.signin.people import People
from tests.browser.watching import Watch
from tests.server.office import House
from tests.server.places import ROOT

on_one_store = pytest.mark.parametrize("house", ["sqlite"], indirect=True)
"""Marks a story that is about the page alone: it runs on one store."""


class Story:
    """Is a tenant of its own, so that stories do not meet; `home` is the address of its pages, with a slash."""

    def __init__(self, house: House, ledger: Ledger, keys: Path, watch: Watch) -> None:
        self.house = house
        self.home = f"{house.url}/"
        self.ledger = ledger
        self.keys = keys
        self.tenant = ledger.tenant
        self.people = People(house.store, ledger.tenant)
        self.watch = watch

    def ask(self, tool: str, *, run_id: str = "order-1", **args: Any) -> Effect:
        """Calls a tool that needs a person's word, as a program would, and gives the call that waits for it."""
        call = ToolCall(tool=tool, args=args, run_id=run_id)
        begun = self.ledger.begin(call, approval="required", side_effect="payment")
        assert isinstance(begun, AwaitingApproval)
        return begun.effect

    def asked_about(self, effect: Effect) -> Approval:
        """Gives the question about a call, as the ledger has it now."""
        assert effect.approval_id is not None
        found = self.ledger.get_approval(effect.approval_id)
        assert found is not None
        return found

    def now(self, effect: Effect) -> Effect:
        """Gives a call as the ledger has it now."""
        found = self.ledger.get_effect(effect.id)
        assert found is not None
        return found

    def link(self, name: str, *scopes: Any) -> str:
        """Gives the link by which somebody signs in, once."""
        return f"{self.home}signin#{self.people.invite(name, scopes, by=ROOT)[1]}"

    def sign_in(self, name: str, *scopes: Any, path: str | None = None, **words: Any) -> Page:
        """Signs somebody in, in a browser of their own, and opens the page at `path` as soon as it is given."""
        page = self.watch.open(**words)
        ticket = self.link(name, *scopes).partition("#")[2]
        headers = {"Origin": self.home.rstrip("/"), "Sec-Fetch-Site": "same-origin"}
        answer = page.request.post(f"{self.home}v1/sign-in/link", data={"ticket": ticket}, headers=headers)
        assert answer.status == 201, answer.text()
        if path is not None:
            page.goto(self.home + path)
        return page

    def review(self, name: str, *scopes: Any, **words: Any) -> Page:
        """Sign a person in and open the newest request of the inbox, which the page never does by itself."""
        page = self.sign_in(name, *scopes, path="inbox", **words)
        open_newest(page)
        return page


def open_newest(page: Page) -> None:
    """Open the newest request, by its line in the inbox."""
    page.get_by_role("list", name="Approvals").get_by_role("link").first.click()


def opened_ledger(house: House, keys: Path) -> Ledger:
    """Opens the ledger of a new tenant in a house."""
    return Ledger.open(house.store_url, tenant=uuid4().hex, keys=keys)
