"""What the witness tests share: a log that grows and forks, a witness that listens, and plain HTTP to talk to it."""

from __future__ import annotations

import http.client
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Thread
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from indelible.core.journal.merkle import consistency_proof, leaf_hash, perfect_root, root_of
from indelible.core.journal.notes import Note, PublicKey, TreeHead, sign_note
from indelible.core.journal.witnessing import Request
from indelible.journal.witnesses.asking import Witness
from indelible.journal.witnesses.cosigner import Cosigner, HeadFolder, WitnessKey, open_key
from indelible.journal.witnesses.server import WitnessServer

ORIGIN = "ledger-0123456789ab/default"
SECRET = Ed25519PrivateKey.from_private_bytes(b"\7" * 32)
STRANGER = Ed25519PrivateKey.from_private_bytes(b"\x08" * 32)
LOG = PublicKey(ORIGIN, SECRET.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw))


@dataclass(frozen=True)
class Log:
    """A journal's tree, small and all in memory; every history is signed with the same key."""

    leaves: tuple[bytes, ...] = ()
    origin: str = ORIGIN
    secret: Ed25519PrivateKey = SECRET

    @property
    def key(self) -> PublicKey:
        return PublicKey(self.origin, self.secret.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw))

    def grown(self, *entries: str) -> Log:
        return replace(self, leaves=(*self.leaves, *(leaf_hash(entry.encode()) for entry in entries)))

    def to(self, size: int) -> Log:
        """Grows to a size with entries that say no more than their number; or goes back."""
        return replace(self, leaves=self.leaves[:size]).grown(*map(str, range(len(self.leaves), size)))

    @property
    def head(self) -> TreeHead:
        return TreeHead(self.origin, len(self.leaves), root_of(self.leaves))

    @property
    def note(self) -> Note:
        return sign_note(self.head.text, self.key, self.secret.sign)

    def prove(self, old: int) -> Sequence[bytes]:
        return consistency_proof(
            old, len(self.leaves), lambda level, n: perfect_root(self.leaves[n << level : (n + 1) << level])
        )

    def request(self, old: int) -> Request:
        return Request(old, tuple(self.prove(old)) if old <= len(self.leaves) else (), self.note)


@dataclass
class Running:
    """A witness that listens."""

    server: WitnessServer
    key: WitnessKey
    state: Path

    @property
    def url(self) -> str:
        return self.server.url

    def post(self, body: Any) -> tuple[int, bytes]:
        return post(self.url, body)


def client(one: Running, **options: object) -> Witness:
    return Witness(one.url, one.key.public, **options)  # type: ignore[arg-type]


@contextmanager
def running(
    folder: Path, *logs: PublicKey, patience: float = 60.0, name: str | None = None, **options: Any
) -> Iterator[Running]:
    """Runs a witness whose key and state are in a folder; it starts with the state that an earlier one left there."""
    folder.mkdir(exist_ok=True)
    key = open_key(folder / "key.pem", name)
    with closing(HeadFolder(folder / "state", key.public)) as heads:
        cosigner = Cosigner(key, logs or [LOG], heads, **options)
        with serving(WitnessServer(("127.0.0.1", 0), cosigner, patience)) as server:
            yield Running(server, key, folder / "state")


@contextmanager
def serving(server: WitnessServer) -> Iterator[WitnessServer]:
    thread = Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def post(url: str, body: Any, timeout: float = 60.0) -> tuple[int, bytes]:
    """Sends one request as it is and gives the answer."""
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=timeout)
    with closing(connection):
        connection.request("POST", "/add-checkpoint", bytes(body))
        with connection.getresponse() as response:
            return response.status, response.read()


def send(log: Log, old: int, url: str) -> tuple[int, bytes]:
    """Sends a head; status 0 when the witness died on it."""
    try:
        return post(url, log.request(old))
    except (OSError, http.client.HTTPException):
        return 0, b""


def get(url: str, path: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=60)
    with closing(connection):
        connection.request("GET", path)
        with connection.getresponse() as response:
            return response.status, response.read()
