"""The same call by every way there is, at once, from processes of their own: one execution, and all get its value.

INDELIBLE_BESIDE_ROUNDS says how many rounds; the default is for everyday.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest

from indelible import Actor, migrate
from indelible.engine.authenticating import authenticate_rows
from indelible.server.signin.credentials import Credentials
from indelible.stores import open_store
from tests.chaos.procs import Child
from tests.cli.test_serve import wait_until_it_answers
from tests.server.beside import GATEWAY_TOOL, TOOL, WORLD, Way, caller
from tests.waiting import free_port

ROUNDS = int(os.environ.get("INDELIBLE_BESIDE_ROUNDS", "12"))
TOOLS = f'[tools."{GATEWAY_TOOL}"]\npython = "tests.server.beside:charge"\n'


@dataclass(frozen=True)
class Serving:
    """A server process, the store behind it, and the file that executions leave a line in."""

    url: str
    store_url: str
    token: str
    world: Path


@pytest.fixture
def serving(store_url: str, tmp_path: Path) -> Iterator[Serving]:
    migrate(store_url)
    store = open_store(store_url)
    authenticate_rows(store, None)
    token = str(Credentials(store, "acme").give("agents", ("agent",), by=Actor("root"))[1])
    store.close()
    tools, world, port = tmp_path / "tools.toml", tmp_path / "world", free_port()
    tools.write_text(TOOLS)
    command = ["serve", "--port", str(port), "--url", store_url, "--tools", str(tools)]
    process = subprocess.Popen(
        [sys.executable, "-m", "indelible.cli", *command],
        env=os.environ | {WORLD: str(world), "PYTHONPATH": str(Path.cwd())},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        url = f"http://127.0.0.1:{port}"
        wait_until_it_answers(url, process)
        yield Serving(url, store_url, token, world)
    finally:
        process.kill()
        process.wait()


def rounds_of(
    serving: Serving, ways: Sequence[Way], tool: str = TOOL, schema: str = "", rounds: int = ROUNDS
) -> list[set[str]]:
    """Lets a process for each way make the same call, again and again with another number; gives what they got."""
    with ExitStack() as stack:
        children = [
            stack.enter_context(
                Child(
                    caller,
                    way,
                    serving.store_url if way == "database" else serving.url,
                    serving.token,
                    serving.world,
                    tool,
                    schema,
                )
            )
            for way in ways
        ]
        assert {child.hear() for child in children} == {"ready"}
        told = []
        for number in range(rounds):
            for child in children:
                child.tell(number)
            told.append({str(child.hear()) for child in children})
        for child in children:
            child.tell(None)
            child.result()
    return told


def executed(serving: Serving) -> Counter[str]:
    """Counts the executions of each number."""
    return Counter(line.partition("/")[0] for line in serving.world.read_text().split())


def test_one_of_all_executes_wherever_it_comes_from(serving: Serving) -> None:
    """Also of a tool that the server runs: who is at the database does it beside the server, a client may not."""
    told = rounds_of(serving, ["database", "client", "requests", "database", "client", "requests"])
    assert executed(serving) == {str(number): 1 for number in range(ROUNDS)}
    assert set.union(*told) == set(serving.world.read_text().split())
    assert all(len(values) == 1 for values in told)

    serving.world.unlink()
    told = rounds_of(serving, ["gateway", "database", "gateway", "database"], GATEWAY_TOOL, schema_at(serving))
    assert executed(serving) == {str(number): 1 for number in range(ROUNDS)}
    assert all(len(values) == 1 for values in told)


def schema_at(serving: Serving) -> str:
    """Gives the hash of the gateway tool's schema."""
    headers = {"Authorization": f"Bearer {serving.token}"}
    shown = httpx2.get(f"{serving.url}/v1/tools", headers=headers, trust_env=False).json()
    return str(shown["tools"][0]["schema_hash"])


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_the_check_finds_who_looks_first_and_then_does_it(serving: Serving) -> None:
    rounds_of(serving, ["careless", "careless", "requests", "careless"], rounds=12)
    assert max(executed(serving).values()) > 1
