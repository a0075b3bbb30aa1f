"""Sends requests over many connections at once, from a process of its own: `python -m benchmarks.http_load …`.

It speaks HTTP by hand: a client library would take more of the machine than the server that is measured.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import uuid4

Post = Callable[[str, bytes], Awaitable[Any]]


async def _posting(host: str, port: int, token: str) -> Post:
    reader, writer = await asyncio.open_connection(host, port)
    head = f"Host: {host}:{port}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n"

    async def post(path: str, body: bytes) -> Any:
        writer.write(f"POST {path} HTTP/1.1\r\n{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        status = int(answer[9:12])
        length = int(answer.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        content = await reader.readexactly(length)
        if status >= 400:
            raise RuntimeError(f"{path}: {status} {content[:500]!r}")
        return json.loads(content)

    return post


async def _noop(post: Post, run: str, number: int) -> None:
    await post("/noop", b'{"tool":"charge","args":{"amount":5}}')


async def _pair(post: Post, run: str, number: int) -> None:
    call = {"tool": "charge", "args": {"amount": 5, "n": number}, "run_id": run, "side_effect": "external_mutation"}
    begun = await post("/v1/effects", json.dumps(call).encode())
    outcome = {
        "token": begun["token"],
        "attempt": begun["effect"]["attempt"],
        "outcome": {"status": "succeeded", "value": 1},
    }
    await post(f"/v1/effects/{begun['effect']['id']}/commit", json.dumps(outcome).encode())


_KINDS = {"noop": _noop, "pair": _pair}


async def _load(kind: str, host: str, port: int, token: str, connections: int, seconds: float) -> dict[str, Any]:
    posts = [await _posting(host, port, token) for _ in range(connections)]
    work, taken = _KINDS[kind], []
    until = time.perf_counter() + seconds

    async def client(post: Post) -> None:
        run, number = f"load-{uuid4().hex}", 0
        while (began := time.perf_counter()) < until:
            await work(post, run, number)
            taken.append(time.perf_counter() - began)
            number += 1

    began = time.perf_counter()
    await asyncio.gather(*(client(post) for post in posts))
    taken.sort()
    return {
        "per_second": len(taken) / (time.perf_counter() - began),
        "p50": taken[len(taken) // 2],
        "p99": taken[int(len(taken) * 0.99)],
    }


if __name__ == "__main__":
    kind, host, port, token, connections, seconds = sys.argv[1:]
    print(json.dumps(asyncio.run(_load(kind, host, int(port), token, int(connections), float(seconds)))))
