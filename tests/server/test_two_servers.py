"""Two servers in front of one ledger, killed in turn while many clients work: nothing twice, nothing lost.

INDELIBLE_SERVER_KILLS says how many kills; the default is for everyday.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from indelible import Actor, Ledger, RunningEffect, ToolCall, migrate
from indelible.engine.authenticating import authenticate_rows
from indelible.errors import IndelibleError
from indelible.server.signin.credentials import Credentials
from indelible.stores import open_store
from tests.cli.test_serve import wait_until_it_answers
from tests.waiting import free_port

KILLS = int(os.environ.get("INDELIBLE_SERVER_KILLS", "2"))
CLIENTS = 16 if KILLS < 20 else 64


class Server:
    """A server process that can be killed and comes back at the same address."""

    def __init__(self, store_url: str) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._command = [sys.executable, "-m", "indelible.cli", "serve", "--port", str(self.port), "--url", store_url]
        self.launch()

    def launch(self) -> None:
        self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def await_answer(self) -> None:
        wait_until_it_answers(self.url, self._process)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


class World:
    """What happened outside: how often each key's handler was entered."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.entries: Counter[int] = Counter()

    def handler(self, number: int) -> Callable[[RunningEffect], int]:
        def entered(effect: RunningEffect) -> int:
            with self._lock:
                self.entries[number] += 1
            return number

        return entered


Caller = Callable[[Ledger, int, World], int]


def careful(ledger: Ledger, number: int, world: World) -> int:
    call = ToolCall(tool="charge", args={"n": number}, run_id=f"order-{number % 7}")
    value: int = ledger.run(call, world.handler(number), wait=30)
    return value


def careless(ledger: Ledger, number: int, world: World) -> int:
    """Is a client as people write them: when something goes wrong, it is a new try, and each try a new call."""
    tries = 0
    while True:
        try:
            call = ToolCall(tool="charge", args={"n": number}, run_id=f"try-{threading.get_ident()}-{tries}")
            return int(ledger.run(call, world.handler(number)))
        except IndelibleError:
            tries += 1


@pytest.fixture
def servers(store_url: str) -> Iterator[tuple[list[Server], str]]:
    migrate(store_url)
    store = open_store(store_url)
    authenticate_rows(store, None)
    token = str(Credentials(store, "acme").give("agents", ("agent",), by=Actor("root"))[1])
    store.close()
    made = [Server(store_url), Server(store_url)]
    for server in made:
        server.await_answer()
    yield made, token
    for server in made:
        server.kill()


def worked(servers: list[Server], token: str, caller: Caller, kills: int) -> tuple[World, dict[int, set[int]]]:
    """Lets clients work, two on every key, until the last kill is over; gives what happened and what they were told."""
    world, told, is_over = World(), {}, threading.Event()
    lock = threading.Lock()

    def client(place: int) -> int:
        url = ",".join(server.url for server in (servers if place % 2 else servers[::-1]))
        made = 0
        with Ledger.open(url, token=token) as ledger:
            while not is_over.is_set():
                number = made * (CLIENTS // 2) + place // 2  # two clients come to the same numbers
                value = caller(ledger, number, world)
                with lock:
                    told.setdefault(number, set()).add(value)
                made += 1
        return made

    with ThreadPoolExecutor(CLIENTS) as pool:
        clients = [pool.submit(client, place) for place in range(CLIENTS)]
        try:
            for number in range(kills):
                victim = servers[number % 2]
                victim.kill()
                victim.launch()
                victim.await_answer()
        finally:
            is_over.set()
        assert sum(each.result() for each in clients) > kills
    return world, told


def test_a_server_that_is_killed_makes_nothing_happen_twice_and_loses_nothing(
    servers: tuple[list[Server], str], store_url: str
) -> None:
    world, told = worked(*servers, careful, KILLS)
    assert {number: count for number, count in world.entries.items() if count != 1} == {}
    assert told == {number: {number} for number in told}
    assert told
    with Ledger.open(store_url, tenant="acme") as ledger:
        assert ledger.effects(status="in_doubt") == []
        assert ledger.effects(status="processing") == []
    print(f"{len(told)} calls, {KILLS} kills, {CLIENTS} clients: each once")


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_the_check_finds_what_a_careless_client_does(servers: tuple[list[Server], str]) -> None:
    world, _ = worked(*servers, careless, 1)
    assert max(world.entries.values()) > 1
