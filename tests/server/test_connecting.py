"""`indelible.connect`: a server that is there, speaks as we do and lets the token in; or what is wrong, in words."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

import indelible
from indelible import Ledger, ToolCall, migrate
from indelible.core.remote.admitting import Caller
from indelible.errors import BadCall, BadPolicy, Misconfigured, NotAuthenticated, StoreUnavailable
from indelible.server.app import create_app
from indelible.server.ledgers import Ledgers
from indelible.server.requests.hardening import Hardened
from indelible.stores import open_store
from indelible.stores.remote import RemoteStore
from tests.server.serving import Served, believing, serve_believing
from tests.stores.between import Between
from tests.waiting import PATIENCE, refusing

TOKEN = quote(json.dumps("acme"))
SOON = timedelta(seconds=1)
PATIENT = timedelta(seconds=PATIENCE)
THREADS = 64


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    url = f"sqlite:///{tmp_path_factory.mktemp('connecting') / 'ledger.db'}"
    migrate(url)
    server = serve_believing(url, seal=False)
    yield server
    server.stop()


@pytest.fixture(autouse=True)
def _nothing_around_us(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("INDELIBLE_URL", "INDELIBLE_TOKEN", "INDELIBLE_CA", "INDELIBLE_ALLOW_HTTP", "SSL_CERT_FILE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


def call(number: int = 1) -> ToolCall:
    return ToolCall(tool="charge", args={"n": number}, run_id="order-1")


# Connecting


def test_a_connection_is_a_ledger_with_the_librarys_verbs(served: Served) -> None:
    with indelible.connect(served.url, token=TOKEN) as ledger:
        assert isinstance(ledger, Ledger)
        assert ledger.tenant == "acme"
        assert ledger.run(call(), lambda effect: "done") == "done"
        assert ledger.run(call(), lambda effect: "again") == "done"


def test_so_is_one_that_is_awaited(served: Served) -> None:
    async def work() -> list[Any]:
        async with indelible.connect_async(served.url, token=TOKEN) as ledger:
            values = [await ledger.run(call(2), lambda effect: "done")]
        other = await indelible.connect_async(served.url, token=TOKEN)
        values.append(await other.run(call(2), lambda effect: "again"))
        await other.close()
        return values

    assert asyncio.run(work()) == ["done", "done"]


def test_the_environment_names_server_and_token(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INDELIBLE_URL", served.url)
    monkeypatch.setenv("INDELIBLE_TOKEN", f"{TOKEN}\n")  # as files of secrets end
    with indelible.connect() as ledger:
        assert ledger.tenant == "acme"


def test_who_is_not_let_in_is_told_why_and_what_to_do(served: Served) -> None:
    with pytest.raises(NotAuthenticated, match=r"wants a token: .*indelible apikeys create"):
        indelible.connect(served.url)
    with pytest.raises(NotAuthenticated, match="copy it again"):
        indelible.connect(served.url, token="ind.\nx")
    with pytest.raises(BadCall, match="is for the tenant 'acme', not 'other'"):
        indelible.connect(served.url, token=TOKEN, tenant="other")


def test_a_server_that_is_not_there_is_told_with_what_to_look_at() -> None:
    unreached = pytest.raises(StoreUnavailable, match=r"cannot be reached: .*whether `indelible serve` runs there")
    with refusing() as port, unreached:
        indelible.connect(f"http://127.0.0.1:{port}", token=TOKEN)


@pytest.mark.parametrize("answer", [(404, b"<html>"), (200, b"<html>"), (405, {}), (403, b"no")])
def test_what_is_no_server_of_ours_is_told(answer: Any) -> None:
    other = Between(always=answer)
    with pytest.raises(Misconfigured, match="no Indelible server answers at"):
        indelible.connect(other.url, token=TOKEN)
    other.stop()


def test_a_name_that_the_server_does_not_know_is_told(tmp_path: Path) -> None:
    migrate(url := f"sqlite:///{tmp_path / 'ledger.db'}")
    server = Served(Hardened(create_app(Ledgers(open_store(url)), believing), hosts=("ledger.example",)))
    with pytest.raises(Misconfigured, match="--allowed-host"):
        indelible.connect(server.url, token=TOKEN)
    server.stop()


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("sqlite:///ledger.db", "is no server"),
        ("postgresql://ana:secret@db.example/ledger", "^db.example/ledger is no server"),
        ("http://ledger.example", "others could read the token"),
        ("http://10.0.0.1:8787", "allow_http=True"),
        ("https://ana:secret@ledger.example", "holds a name or a password"),
        ("https://", "is no address"),
        ("https://a.example?x=1", "is no address"),
        ("https://a.example:99999", "is no address"),
        ("https://[::1", "is no address"),
    ],
)
def test_addresses_that_no_token_is_sent_to(address: str, words: str) -> None:
    with pytest.raises(Misconfigured, match=words) as refused:
        indelible.connect(address, token=TOKEN)
    assert "secret" not in str(refused.value)


def test_whoever_says_that_nobody_listens_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    address = "http://nobody.invalid"
    with pytest.raises(StoreUnavailable, match="cannot be reached"):
        indelible.connect(address, token=TOKEN, allow_http=True, patience=SOON)
    monkeypatch.setenv("INDELIBLE_ALLOW_HTTP", "1")
    with pytest.raises(StoreUnavailable, match="cannot be reached"):
        indelible.connect(address, token=TOKEN, patience=SOON)


def test_patience_is_some_time(served: Served) -> None:
    with pytest.raises(Misconfigured, match="more than no time"):
        indelible.connect(served.url, token=TOKEN, patience=timedelta(0))


def test_what_was_opened_is_closed_when_a_later_step_fails(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[RemoteStore] = []
    close = RemoteStore.close
    monkeypatch.setattr(RemoteStore, "close", lambda self: (closed.append(self), close(self))[0])
    for words in ({"sign_events": True}, {"tenant": "other"}, {"encrypt": True}):
        with pytest.raises(BadCall):
            Ledger.open(served.url, token=TOKEN, **words)  # type: ignore[arg-type]
    assert len(closed) == 3
    store = open_store(served.url, token=TOKEN)
    with pytest.raises(BadCall, match="is for the tenant"):
        Ledger.open(store=store, tenant="other")
    assert len(closed) == 3, "a store that was given stays open"
    store.close()


def test_what_is_wrong_with_a_policy_is_told_before_anything_is_opened() -> None:
    with pytest.raises(BadPolicy) as refused:
        indelible.connect("https://nobody.invalid", token=TOKEN, policy={"rules": [{"then": "nothing"}]})
    assert refused.value.problems


# Errors


def test_an_error_raised_there_is_raised_here_with_all_it_carries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the class: the server raises it while it answers a question, and the client's caller gets it."""
    from tests.core.remote.test_problems import KINDS, made

    migrate(url := f"sqlite:///{tmp_path / 'ledger.db'}")
    raised: list[Any] = []

    async def raising(request: Any) -> Caller:
        if raised:
            raise raised[0]
        return await believing(request)

    server = Served(create_app(Ledgers(open_store(url)), raising))
    monkeypatch.setattr("indelible.stores.remote.line._PAUSES", (10 * PATIENCE,))  # nothing is asked again
    with indelible.connect(server.url, token=TOKEN, patience=PATIENT) as ledger:
        for kind in KINDS:
            raised[:] = [made(kind)]
            with pytest.raises(indelible.IndelibleError) as told:
                ledger.get_effect("eff_1")
            assert type(told.value) is kind
            assert vars(told.value) == vars(raised[0])
    server.stop()


# TLS and proxies


@dataclass(frozen=True)
class Secured:
    url: str
    ca: Path


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """A server that speaks TLS, with a certificate by a CA that nobody knows."""
    folder = tmp_path_factory.mktemp("tls")
    url = f"sqlite:///{folder / 'ledger.db'}"
    migrate(url)
    _certify(folder)
    app = create_app(Ledgers(open_store(url), seal=False), believing)
    server = Served(app, ssl_certfile=folder / "cert.pem", ssl_keyfile=folder / "key.pem")
    yield Secured(server.url, folder / "ca.pem")
    server.stop()


def _certify(folder: Path) -> None:
    ca_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    ca, host = (x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]) for name in ("our own ca", "127.0.0.1"))
    now = datetime.now(UTC)

    def certificate(subject: x509.Name, public: Any, extension: Any, *, is_ca: bool) -> bytes:
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(ca).public_key(public)
        builder = builder.serial_number(x509.random_serial_number()).not_valid_before(now - timedelta(hours=1))
        builder = builder.not_valid_after(now + timedelta(hours=1)).add_extension(extension, critical=is_ca)
        return builder.sign(ca_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    names = x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))])
    basic = x509.BasicConstraints(ca=True, path_length=None)
    (folder / "ca.pem").write_bytes(certificate(ca, ca_key.public_key(), basic, is_ca=True))
    (folder / "cert.pem").write_bytes(certificate(host, key.public_key(), names, is_ca=False))
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "key.pem").write_bytes(pem)


def test_a_ca_of_ones_own_is_trusted_when_it_is_named(secured: Secured, monkeypatch: pytest.MonkeyPatch) -> None:
    with indelible.connect(secured.url, token=TOKEN, ca=secured.ca) as ledger:
        assert ledger.run(call(), lambda effect: "done") == "done"
    monkeypatch.setenv("INDELIBLE_CA", str(secured.ca))
    indelible.connect(secured.url, token=TOKEN).close()


def test_a_certificate_that_nobody_vouches_for_is_refused_with_what_to_do(secured: Secured) -> None:
    with pytest.raises(Misconfigured, match=r"not trusted here.*ca= or \$INDELIBLE_CA"):
        indelible.connect(secured.url, token=TOKEN, patience=PATIENT)
    with pytest.raises(Misconfigured, match="not trusted here"):  # by its address it is known, by a name it is not
        indelible.connect(secured.url.replace("127.0.0.1", "localhost"), token=TOKEN, ca=secured.ca, patience=PATIENT)


def test_a_file_that_holds_no_certificate_is_told(tmp_path: Path) -> None:
    (tmp_path / "empty.pem").write_text("nothing")
    for name in ("empty.pem", "missing.pem"):
        with pytest.raises(Misconfigured, match=f"{name} holds no certificates"):
            indelible.connect("https://127.0.0.1", token=TOKEN, ca=tmp_path / name)


def test_tls_and_no_tls_are_told_apart(served: Served, secured: Secured) -> None:
    with pytest.raises(Misconfigured, match="does not speak TLS"):
        indelible.connect(served.url.replace("http:", "https:"), token=TOKEN, patience=PATIENT)
    with pytest.raises(StoreUnavailable):
        indelible.connect(secured.url.replace("https:", "http:"), token=TOKEN, patience=SOON)


class Proxy:
    """Passes connections on to whatever a CONNECT names; `hosts` are those."""

    def __init__(self) -> None:
        self.hosts: list[str] = []
        self._lines: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client = self._listener.accept()[0]
                asked = b""
                while not asked.endswith(b"\r\n\r\n"):
                    asked += client.recv(4096)
                self.hosts.append(asked.split()[1].decode())
                host, _, port = self.hosts[-1].partition(":")
                server = socket.create_connection((host, int(port)))
                client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                self._lines += [client, server]
                for one, other in ((client, server), (server, client)):
                    threading.Thread(target=_pass_on, args=(one, other), daemon=True).start()

    def stop(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(PATIENCE)
        for line in (self._listener, *self._lines):
            with suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)
            line.close()


def _pass_on(one: socket.socket, other: socket.socket) -> None:
    with suppress(OSError):
        while some := one.recv(65536):
            other.sendall(some)


def test_a_proxy_is_used_when_it_is_named(secured: Secured, monkeypatch: pytest.MonkeyPatch) -> None:
    proxy = Proxy()
    with indelible.connect(secured.url, token=TOKEN, ca=secured.ca, proxy=proxy.url) as ledger:
        assert ledger.effects() is not None
    assert set(proxy.hosts) == {urlsplit(secured.url).netloc}
    proxy.hosts.clear()
    monkeypatch.setenv("HTTPS_PROXY", proxy.url)
    indelible.connect(secured.url, token=TOKEN, ca=secured.ca).close()
    assert not proxy.hosts, "but never on the way to this machine, only because the environment says so"
    with pytest.raises(Misconfigured, match="the proxy cannot be used"):
        indelible.connect(secured.url, token=TOKEN, ca=secured.ca, proxy="carrier://pigeon")
    with refusing() as port, pytest.raises(StoreUnavailable, match="cannot be reached"):
        indelible.connect(secured.url, token=TOKEN, ca=secured.ca, proxy=f"http://127.0.0.1:{port}", patience=SOON)
    proxy.stop()


# Many at once


def test_many_threads_and_many_tasks_share_one_connection_pool(served: Served) -> None:
    gate = threading.Barrier(THREADS)
    with indelible.connect(served.url, token=TOKEN) as ledger, ThreadPoolExecutor(THREADS) as pool:

        def work(number: int) -> Any:
            gate.wait()
            value = ledger.run(call(1000 + number), lambda effect: number)
            assert ledger.find_by_key(ledger.effects(limit=1)[0].key) is not None
            return value

        assert list(pool.map(work, range(THREADS))) == list(range(THREADS))

    async def together() -> list[Any]:
        async with indelible.connect_async(served.url, token=TOKEN) as ledger:
            calls = [ledger.run(call(2000 + number), lambda effect: effect.args["n"]) for number in range(4 * THREADS)]
            return await asyncio.gather(*calls, *(ledger.get_effect("eff_x") for _ in range(4 * THREADS)))

    assert asyncio.run(together())[: 4 * THREADS] == [2000 + number for number in range(4 * THREADS)]
