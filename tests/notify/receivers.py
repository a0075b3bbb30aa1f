"""Receivers on loopback: each is a real server that takes what a channel sends, or misbehaves when told to."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.waiting import PATIENCE

Answer = tuple[int, dict[str, str], bytes]


@dataclass(frozen=True)
class Post:
    """Is one request that came in."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """Is what the body says."""
        return json.loads(self.body)


@dataclass
class Receiver:
    """Takes posts. `behave` answers each of them, or does something worse with the connection."""

    behave: Callable[[Post, BaseHTTPRequestHandler], Answer | None] = lambda post, line: (200, {}, b"")
    posts: list[Post] = field(default_factory=list)
    gets: int = 0
    port: int = 0
    arrived: threading.Condition = field(default_factory=threading.Condition)
    release: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        """Is where it listens."""
        return f"http://127.0.0.1:{self.port}"

    def take(self, post: Post) -> None:
        """Notes a post."""
        with self.arrived:
            self.posts.append(post)
            self.arrived.notify_all()

    def wait_for(self, count: int) -> list[Post]:
        """Waits until so many posts have come."""
        with self.arrived:
            if not self.arrived.wait_for(lambda: len(self.posts) >= count, PATIENCE):
                raise AssertionError(f"{len(self.posts)} posts came, not {count}")
            return list(self.posts)


def answering(*statuses: int, **headers: str) -> Callable[[Post, BaseHTTPRequestHandler], Answer]:
    """Answers with these statuses in turn, and then with the last of them."""
    left = list(statuses)

    def behave(post: Post, line: BaseHTTPRequestHandler) -> Answer:
        status = left.pop(0) if len(left) > 1 else left[0]
        return status, {name.replace("_", "-"): value for name, value in headers.items()}, b"words of the receiver"

    return behave


def cutting(times: int) -> Callable[[Post, BaseHTTPRequestHandler], Answer | None]:
    """Cuts the connection so often, then answers."""
    left = [times]

    def behave(post: Post, line: BaseHTTPRequestHandler) -> Answer | None:
        left[0] -= 1
        if left[0] >= 0:
            line.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            line.connection.close()
            return None
        return 200, {}, b""

    return behave


@contextmanager
def receiving(
    receiver: Receiver | None = None, certificate: Path | None = None, at: socket.socket | None = None
) -> Iterator[Receiver]:
    """Runs a receiver until the block ends; at the address of a socket, if one is given that does not listen yet."""
    taking = receiver or Receiver()

    class Handler(BaseHTTPRequestHandler):
        timeout = PATIENCE

        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            body = self.rfile.read(length)
            if len(body) < length:  # its sender died in the middle: no receiver takes half a message
                self.close_connection = True
                return
            post = Post(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
            taking.take(post)
            answer = taking.behave(post, self)
            if answer is None:
                self.close_connection = True
                return
            status, headers, content = answer
            self.send_response(status)
            for name, value in {"Content-Length": str(len(content)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def do_GET(self) -> None:
            taking.gets += 1
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            return

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        allow_reuse_address = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            return

    with Server(("127.0.0.1", 0), Handler, bind_and_activate=at is None) as server:
        if at is not None:
            server.socket.close()
            server.socket, server.server_address = at, at.getsockname()
            server.server_activate()
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        taking.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield taking
        finally:
            taking.release.set()
            server.shutdown()
            thread.join()


@contextmanager
def dripping() -> Iterator[int]:
    """Runs a server that answers one letter at a time and never comes to an end; gives its port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        is_over = threading.Event()

        def drip() -> None:
            try:
                line, _ = listener.accept()
            except OSError:
                return
            with line:
                try:
                    line.sendall(b"HTTP/1.1 200 OK\r\nx: ")
                    while not is_over.wait(0.05):
                        line.sendall(b"y")
                except OSError:
                    return

        thread = threading.Thread(target=drip, daemon=True)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            is_over.set()
            listener.close()
            thread.join(PATIENCE)


def make_certificate(folder: Path, name: str) -> tuple[Path, Path]:
    """Makes a certificate for a host's name; gives the file for the server, and the one that clients trust."""
    from datetime import UTC, datetime, timedelta

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    trusted = made.public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "server.pem").write_bytes(private + trusted)
    (folder / "trusted.pem").write_bytes(trusted)
    return folder / "server.pem", folder / "trusted.pem"
