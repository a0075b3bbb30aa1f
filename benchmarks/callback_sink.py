"""Answers every request after a millisecond, as the sidecar of provedex's own measurement does, and counts them."""

from __future__ import annotations

import asyncio

LATENCY = 0.001


class _Sink:
    def __init__(self) -> None:
        self.count = 0

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                await reader.readexactly(_length_of(head))
                if head.startswith(b"POST"):
                    await asyncio.sleep(LATENCY)
                    self.count += 1
                body = b'{"count": %d}' % self.count
                writer.write(
                    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
                )
                writer.write(body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


def _length_of(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.partition(b":")[2])
    return 0


async def _serve() -> None:
    server = await asyncio.start_server(_Sink().answer, "127.0.0.1", 0)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve())
