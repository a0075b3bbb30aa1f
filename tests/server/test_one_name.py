"""Fault 87: a person of a provider is one person here, under one name, also when they come in twice at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime

import pytest

from indelible import Ledger
from indelible.core.people.vouching import ProviderRules, Vouched, Voucher, read_allowed
from indelible.engine.authenticating import authenticate_rows
from indelible.errors import NotPermitted
from indelible.server.signin.people import People
from indelible.server.signin.providers import Providers
from indelible.stores import open_store

RULES = ProviderRules(issuer="https://id.example", allowed=(read_allowed("groups=finance:approver"),))
Comes = Callable[[str, str], str | None]


@pytest.fixture
def comes(store_url: str) -> Iterator[Comes]:
    """Lets somebody come in by the provider; gives the name they have here then."""
    with Ledger.open(store_url, seal=False), closing(open_store(store_url)) as store:
        authenticate_rows(store, None)
        Providers(store, "default").put_in_force(RULES)

        def come(subject: str, name: str) -> str | None:
            said = RULES.asked_for({"groups": ["finance"]})
            vouched = Vouched(by=Voucher("https://id.example", subject), said=said, at=datetime.now(UTC))
            try:
                return People(store, "default").vouch(name, vouched, RULES)[0].name
            except NotPermitted:
                return None

        yield come


def at_once(comes: Comes, who: list[tuple[str, str]]) -> list[str | None]:
    barrier = threading.Barrier(len(who))

    def come(one: tuple[str, str]) -> str | None:
        barrier.wait()
        return comes(*one)

    with ThreadPoolExecutor(len(who)) as pool:
        return list(pool.map(come, who))


def test_87_a_person_who_comes_under_two_names_at_once_gets_in_under_one(comes: Comes) -> None:
    for number in range(8):
        names = [f"{one}{number}@example.com" for one in "ab"]
        got = at_once(comes, [(f"u{number}", name) for name in names])
        assert sorted(name is None for name in got) == [False, True], got
        assert [comes(f"u{number}", name) for name in names] == got, "the name that got in is theirs from now on"


def test_87_new_people_who_come_at_once_all_get_in(comes: Comes) -> None:
    everybody = [(f"u{number}", f"p{number}@example.com") for number in range(12)]
    assert at_once(comes, everybody) == [name for _, name in everybody]
