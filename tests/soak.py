"""Does a server keep its size? One `indelible serve` on PostgreSQL under mixed load.

`python -m tests.soak --minutes 10`
It prints how fast the memory grew after the first fifth of the time, in MB a minute, and how many files were open, as
JSON. It fails when memory grows by more than a megabyte a minute, descriptors pile up, or an answer was our fault. A
short run, such as `--minutes 0.5`, shows that all of it works; of memory it says little.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

from indelible import Actor, migrate
from indelible.server.signin.credentials import Credentials
from indelible.stores import open_store
from tests.postgres import PostgresServer
from tests.waiting import free_port

CONNECTIONS = 64
CALLS_EACH = 8.0
"""Is how many requests a connection sends each second: 64 send about 500."""
SAMPLE_EVERY = 2.0
MOST_GROWTH = 1.0
_SPARE_DESCRIPTORS = 20


class Connection:
    """Speaks HTTP by hand, so that the load takes little of the machine."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.statuses: Counter[int] = Counter()

    async def open(self) -> None:
        """Connects, or connects again."""
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)

    async def ask(self, method: str, path: str, token: str, body: Any = None) -> Any:
        """Sends a request and gives what came back."""
        raw = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(raw)}\r\n\r\n"
        self._writer.write(head.encode() + raw)
        answer = await self._reader.readuntil(b"\r\n\r\n")
        self.statuses[int(answer[9:12])] += 1
        length = int(answer.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        content = json.loads(await self._reader.readexactly(length) or b"null")
        if b"connection: close" in answer.lower():
            await self.close()
            await self.open()
        return content

    async def close(self) -> None:
        """Hangs up."""
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()


class Client:
    """Does a bit of everything, most of all what agents do most."""

    def __init__(self, connection: Connection, tokens: dict[str, str], seed: int) -> None:
        self._connection = connection
        self._tokens = tokens
        self._chance = random.Random(seed)
        self._number = 0
        self._run = uuid4().hex

    async def one(self) -> None:
        """Sends one to three requests."""
        self._number += 1
        if self._number % 50 == 0:
            self._run = uuid4().hex
        kinds = [self._pair, self._again, self._asked, self._looked, self._wrong, self._stranger]
        await self._chance.choices(kinds, [70, 10, 5, 9, 3, 3])[0]()

    async def _ask(self, method: str, path: str, body: Any = None, who: str = "agent") -> Any:
        return await self._connection.ask(method, path, self._tokens[who], body)

    def _call(self, **words: Any) -> dict[str, Any]:
        args = {"n": self._number, "text": "x" * self._chance.choice([10, 100, 3000])}
        return {"tool": "charge", "args": args, "run_id": self._run, **words}

    async def _pair(self) -> None:
        begun = await self._ask("POST", "/v1/effects", self._call(side_effect="write"))
        if "token" not in begun:  # it was refused, and that is counted
            return
        outcome = {"status": "succeeded", "value": {"ok": "y" * self._chance.choice([10, 1000])}}
        told = {"token": begun["token"], "attempt": 1, "outcome": outcome}
        await self._ask("POST", f"/v1/effects/{begun['effect']['id']}/commit", told)

    async def _again(self) -> None:
        call = {"tool": "charge", "args": {"same": self._chance.randrange(20)}, "run_id": "shared"}
        begun = await self._ask("POST", "/v1/effects", call)
        if "token" in begun:
            told = {"token": begun["token"], "attempt": 1, "outcome": {"status": "failed", "error": "declined"}}
            await self._ask("POST", f"/v1/effects/{begun['effect']['id']}/commit", told)

    async def _asked(self) -> None:
        asked = await self._ask("POST", "/v1/effects", self._call(approval="required"))
        if "approval" not in asked:
            return
        decision = {"decision": "deny", "reason": "not today"}
        await self._ask("POST", f"/v1/approvals/{asked['approval']['id']}/decisions", decision, "ana")

    async def _looked(self) -> None:
        path = self._chance.choice(
            ["/v1/effects?limit=5", "/v1/approvals?limit=5", f"/v1/events?run_id={self._run}", "/v1/me"]
        )
        await self._ask("GET", path, who="ana" if "approvals" in path else "agent")

    async def _wrong(self) -> None:
        await self._ask("POST", "/v1/effects", {"tool": "", "args": [], "more": self._number})

    async def _stranger(self) -> None:
        await self._connection.ask("GET", "/v1/me", f"ind.YWNtZQ.key_{uuid4().hex}.{uuid4().hex}")


async def load(port: int, tokens: dict[str, str], seconds: float, connections: int) -> Counter[int]:
    """Sends mixed requests for so long; counts the answers by their status."""
    until = time.monotonic() + seconds
    statuses: Counter[int] = Counter()

    async def go(number: int) -> None:
        connection = Connection(port)
        await connection.open()
        client = Client(connection, tokens, number)
        while time.monotonic() < until:
            began = time.monotonic()
            await client.one()
            await asyncio.sleep(max(0.0, 2 / CALLS_EACH - (time.monotonic() - began)))
        await connection.close()
        statuses.update(connection.statuses)

    await asyncio.gather(*(go(number) for number in range(connections)))
    return statuses


def watch(pid: int, until: float) -> Iterator[tuple[float, float, int]]:
    """Gives time, memory in MB and open descriptors of a process, again and again."""
    while time.monotonic() < until:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        size = pages * os.sysconf("SC_PAGE_SIZE") / 1e6
        yield time.monotonic(), size, descriptors(pid)
        time.sleep(SAMPLE_EVERY)


def descriptors(pid: int) -> int:
    """Counts the open files and sockets of a process."""
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


def slope(samples: list[tuple[float, float]]) -> float:
    """Gives how fast a value grows, by the line that fits best, each minute."""
    count = len(samples)
    if count < 2:
        return 0.0
    middle, mean = sum(at for at, _ in samples) / count, sum(value for _, value in samples) / count
    spread = sum((at - middle) ** 2 for at, _ in samples)
    return 60 * sum((at - middle) * (value - mean) for at, value in samples) / spread


@contextlib.contextmanager
def served(url: str, port: int) -> Iterator[int]:
    """Runs the server in a process of its own."""
    words = ["serve", "--url", url, "--port", str(port), "--rate", "0"]
    process = subprocess.Popen([sys.executable, "-m", "indelible.cli", *words], stdout=subprocess.DEVNULL)
    try:
        for _ in range(600):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.05)
        yield process.pid
    finally:
        process.terminate()
        process.wait(30)


def measure(url: str, minutes: float, connections: int) -> dict[str, Any]:
    """Loads one server for so long, and tells how it kept."""
    migrate(url)
    store = open_store(url)
    keys, root = Credentials(store, "acme"), Actor("root")
    tokens = {
        "agent": str(keys.give("agent", ("agent",), by=root)[1]),
        "ana": str(keys.give("ana", ("approver",), by=root)[1]),
    }
    store.close()
    port = free_port()
    with served(url, port) as pid:
        asked = [sys.executable, "-m", "tests.soak", "--load", json.dumps([port, tokens, minutes * 60, connections])]
        loading = subprocess.Popen(asked, stdout=subprocess.PIPE)
        samples = list(watch(pid, time.monotonic() + minutes * 60))
        told, _ = loading.communicate(timeout=120)
        time.sleep(6)  # until idle connections are closed
        after = descriptors(pid)
    return report(samples, {int(status): count for status, count in json.loads(told).items()}, after)


def report(samples: list[tuple[float, float, int]], statuses: dict[int, int], after: int) -> dict[str, Any]:
    """Gives the figures."""
    settled = samples[len(samples) // 5 :]
    return {
        "minutes": round((samples[-1][0] - samples[0][0]) / 60, 2),
        "requests": sum(statuses.values()),
        "statuses": dict(sorted(statuses.items())),
        "memory_mb": {
            "first": round(samples[0][1], 1),
            "settled": round(settled[0][1], 1),
            "last": round(samples[-1][1], 1),
        },
        "growth_mb_per_minute": round(slope([(at, size) for at, size, _ in settled]), 3),
        "descriptors": {"under_load": settled[len(settled) // 2][2], "last": samples[-1][2], "after": after},
    }


def main() -> int:
    """Measures; the exit code says whether the server kept its size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--connections", type=int, default=CONNECTIONS)
    parser.add_argument("--load", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.load:
        print(json.dumps(asyncio.run(load(*json.loads(asked.load)))))
        return 0
    with tempfile.TemporaryDirectory() as folder, PostgresServer() as server:
        os.environ["INDELIBLE_KEYS"] = folder
        found = measure(server.create_database("soak"), asked.minutes, asked.connections)
    print(json.dumps(found, indent=2))
    has_grown = asked.minutes >= 5 and found["growth_mb_per_minute"] > MOST_GROWTH
    has_leaked = found["descriptors"]["last"] > found["descriptors"]["under_load"] + _SPARE_DESCRIPTORS
    has_failed = any(status >= 500 for status in found["statuses"])
    return int(has_grown or has_leaked or has_failed)


if __name__ == "__main__":
    sys.exit(main())
