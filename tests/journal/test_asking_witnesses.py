"""Asking witnesses: whom a caller believes, over which way, and that one that fails holds up nobody.

`collect` is called here as docs/witness.md shows it.
"""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from indelible.core.journal.notes import COSIGNATURE, PublicKey, Signature, cosign
from indelible.core.journal.witnessing import MOST_ANSWER_BYTES, enough
from indelible.errors import BadNote
from indelible.journal.witnesses.asking import Witness, WitnessRefused, WitnessUnavailable, collect
from indelible.journal.witnesses.cosigner import Cosigner, HeadFolder, WitnessKey, open_key
from indelible.journal.witnesses.server import WitnessServer
from tests.journal.watched import LOG, ORIGIN, Log, client, running, serving

# ── whom a caller believes ───────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def canned(*answers: bytes, hang: bool = False) -> Iterator[str]:
    """Is a server that answers each request with the next of these bytes, whatever is asked; `hang` drips the last."""
    stop = threading.Event()

    def answer(line: socket.socket) -> None:
        with line, suppress(OSError):
            for content in answers:
                request = b""
                while b"\r\n\r\n" not in request or not request.endswith(b"\n"):
                    request += line.recv(65_536) or b"\r\n\r\n"
                line.sendall(content)
            while hang and not stop.wait(0.01):
                line.sendall(b"x")

    def accept(listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                threads.append(threading.Thread(target=answer, args=(listener.accept()[0],)))
                threads[-1].start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threads = [threading.Thread(target=accept, args=(listener,))]
        threads[0].start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            stop.set()
            listener.shutdown(socket.SHUT_RDWR)
            for thread in threads:
                thread.join()


def response(status: int, body: bytes, *headers: str) -> bytes:
    head = "".join(f"{one}\r\n" for one in (f"HTTP/1.1 {status} x", f"Content-Length: {len(body)}", *headers))
    return head.encode() + b"\r\n" + body


KEY = PublicKey("w", LOG.raw, COSIGNATURE)
LOG5 = Log().to(5)
GOOD = cosign(LOG5.note, KEY, Log().secret.sign, 1_700_000_000).line.encode()
USELESS = {
    "nothing": b"",
    "no http": b"hello\r\n\r\n",
    "an error": response(500, b"\x1b[31mbroken\n"),
    "too many": response(429, b""),
    "no cosignature": response(200, b"ok\n"),
    "empty": response(200, b""),
    "of another head": response(200, cosign(Log().to(6).note, KEY, Log().secret.sign, 5).line.encode()),
    "by another key": response(200, cosign(LOG5.note, replace(KEY, name="v"), Log().secret.sign, 5).line.encode()),
    "huge": response(200, GOOD + Signature("stranger", b"abcd", bytes(MOST_ANSWER_BYTES)).line.encode()),
    "cut short": response(200, GOOD)[:-5],
    "endless header": b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000,
    "many headers": b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200 + b"\r\n",
    "odd length": b"HTTP/1.1 200 OK\r\nContent-Length: \xb2\r\n\r\nx",
    "odd chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    "elsewhere": response(302, b"", "Location: https://elsewhere.example/add-checkpoint"),
    "elsewhere for good": response(308, b"", "Location: /other/add-checkpoint"),
    "odd size": response(409, b"many\n"),
}


@pytest.mark.parametrize("answer", USELESS.values(), ids=USELESS.keys())
def test_a_useless_answer_is_reported_and_not_believed(answer: bytes) -> None:
    with canned(answer) as url, pytest.raises(WitnessUnavailable) as problem:
        Witness(url, KEY).cosign(LOG5.note, 0, LOG5.prove)
    assert str(problem.value).isprintable()


def test_a_good_answer_is_believed() -> None:
    with canned(response(200, GOOD)) as url:
        assert Witness(url, KEY).cosign(LOG5.note, 0, LOG5.prove).line.encode() == GOOD


def test_a_redirect_is_named_and_not_followed() -> None:
    with canned(response(200, GOOD)) as there, canned(response(307, b"", f"Location: {there}/add-checkpoint")) as here:
        with pytest.raises(WitnessUnavailable, match="not followed") as problem:
            Witness(here, KEY).cosign(LOG5.note, 0, LOG5.prove)
        assert there in str(problem.value)


def test_a_witness_is_asked_twice_at_most() -> None:
    with canned(response(409, b"3\n"), response(409, b"4\n"), response(200, GOOD)) as url:
        with pytest.raises(WitnessUnavailable, match="409"):
            Witness(url, KEY).cosign(LOG5.note, 0, LOG5.prove)
        assert Witness(url, KEY).cosign  # the third answer was never asked for


def test_a_size_that_was_asked_for_already_means_another_root() -> None:
    with canned(response(409, b"5\n")) as url, pytest.raises(WitnessRefused) as refused:
        Witness(url, KEY).cosign(LOG5.note, 5, LOG5.prove)
    assert refused.value.is_conflict


@pytest.mark.parametrize(("status", "word"), [(400, "understand"), (403, "key"), (404, "know"), (422, "history")])
def test_a_refusal_says_what_to_do(status: int, word: str) -> None:
    with canned(response(status, b"no\x1b[31m\n")) as url, pytest.raises(WitnessRefused, match=word) as refused:
        Witness(url, KEY).cosign(LOG5.note, 0, LOG5.prove)
    assert refused.value.is_conflict == (status == 422)
    assert str(refused.value).isprintable()


@pytest.mark.parametrize("begun", [b"", b"HTTP/1.1 200 OK\r\nX: ", b"HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n"])
def test_a_witness_that_drips_is_left_when_the_time_is_over(begun: bytes) -> None:
    with canned(begun, hang=True) as url, pytest.raises(WitnessUnavailable, match="in time"):
        Witness(url, KEY, timeout=timedelta(seconds=0.3)).cosign(LOG5.note, 0, LOG5.prove)


def test_a_witness_that_is_silent_is_left_when_the_time_is_over() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        witness = Witness(f"http://127.0.0.1:{listener.getsockname()[1]}", KEY, timeout=timedelta(seconds=0.2))
        with pytest.raises(WitnessUnavailable, match="in time"):
            witness.cosign(LOG5.note, 0, LOG5.prove)


def test_a_witness_that_is_away_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(WitnessUnavailable, match="did not answer"):
        Witness(f"http://127.0.0.1:{port}", KEY).cosign(LOG5.note, 0, LOG5.prove)


def test_a_proof_that_cannot_be_made_is_not_blamed_on_the_witness() -> None:
    def fail(old: int) -> Sequence[bytes]:
        raise ValueError("tile is gone")

    with canned(response(409, b"3\n")) as url, pytest.raises(ValueError, match="tile is gone"):
        Witness(url, KEY).cosign(LOG5.note, 0, fail)


@pytest.mark.parametrize(
    "url",
    [
        "http://witness.example",
        "http://10.0.0.1:80",
        "http://127.0.0.1.example",
        "http://localhost.example",
        "ftp://127.0.0.1",
        "file:///etc/passwd",
        "witness.example",
        "https://",
        "https://user:word@witness.example",
        "https://witness.example/?a",
        "https://witness.example/#a",
        "https://witness.example/a b",
        "https://witness.example/a\r\nX: y",
        "https://witness.example:port",
        "https://[::1",
        "https://witnéss.example",
        "",
    ],
)
def test_an_address_that_is_not_safe_and_plain_is_refused(url: str) -> None:
    with pytest.raises(BadNote):
        Witness(url, KEY)


@pytest.mark.parametrize(
    "url", ["https://witness.example/prefix/", "http://localhost:1", "http://[::1]:1", "http://127.9.9.9"]
)
def test_an_address_that_is_safe_is_taken(url: str) -> None:
    assert not Witness(url, KEY).url.endswith("/")


def test_clear_text_to_another_machine_is_a_decision() -> None:
    assert Witness("http://10.0.0.1", KEY, allow_clear_text=True)


def test_a_log_is_not_asked_as_a_witness() -> None:
    with pytest.raises(BadNote, match="not of a witness"):
        Witness("https://witness.example", LOG)


def test_a_prefix_stays_in_front_of_the_path() -> None:
    seen: list[bytes] = []

    def once(listener: socket.socket) -> None:
        line, _ = listener.accept()
        with line:
            seen.append(line.recv(65_536))
            line.sendall(response(404, b""))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=once, args=(listener,))
        thread.start()
        with pytest.raises(WitnessRefused):
            Witness(f"http://127.0.0.1:{listener.getsockname()[1]}/a/b/", KEY).cosign(LOG5.note, 0, LOG5.prove)
        thread.join()
    assert seen[0].startswith(b"POST /a/b/add-checkpoint HTTP/1.1\r\n")


# ── over TLS ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate for localhost that nobody else vouches for, with its key."""
    secret = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, secret.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(secret, hashes.SHA256())
    )
    key = secret.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (tmp_path / "tls.pem").write_bytes(made.public_bytes(Encoding.PEM) + key)
    return tmp_path / "tls.pem"


@contextmanager
def behind_tls(folder: Path, certificate: Path) -> Iterator[tuple[WitnessServer, WitnessKey]]:
    key = open_key(folder / "key.pem")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    with closing(HeadFolder(folder / "state", key.public)) as heads:
        server = WitnessServer(("127.0.0.1", 0), Cosigner(key, [LOG], heads))
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        with serving(server):
            yield server, key


def test_a_witness_is_asked_over_tls_if_its_certificate_holds(tmp_path: Path, certificate: Path) -> None:
    with behind_tls(tmp_path, certificate) as (server, key):
        url = f"https://localhost:{server.server_port}"
        trusting = ssl.create_default_context(cafile=str(certificate))
        assert Witness(url, key.public, tls=trusting).cosign(LOG5.note, None, LOG5.prove)
        with pytest.raises(WitnessUnavailable, match="certificate"):
            Witness(url, key.public).cosign(LOG5.note, None, LOG5.prove)


# ── many witnesses ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_cosignatures_of_all_are_collected(tmp_path: Path) -> None:
    with running(tmp_path / "a", name="a") as a, running(tmp_path / "b", name="b") as b, running(tmp_path / "c") as c:
        b.post(Log().to(3).request(0))  # behind the others, which know nothing
        witnesses = [client(one) for one in (a, b, c)]
        keys = [one.key for one in witnesses]
        for size in (5, 9, 9):
            log = Log().to(size)
            found = collect(log.note, witnesses, log.prove)
            assert found.problems == ()
            assert enough(found.note, keys, 3)
            assert found.note.signed_by(LOG)
            assert [one.name for one in found.note.signatures] == [ORIGIN, *(key.name for key in keys)]
        again = collect(found.note, witnesses, log.prove)
        assert len(again.note.signatures) == 4


def test_witnesses_that_fail_are_reported_and_hold_up_nobody(tmp_path: Path) -> None:
    fork = Log().to(2).grown("fork")
    with (
        running(tmp_path / "good", name="good") as good,
        running(tmp_path / "lied", name="lied") as lied,
        running(tmp_path / "ahead", name="ahead") as ahead,
        socket.create_server(("127.0.0.1", 0)) as silent,
        canned(b"", hang=True) as drips,
    ):
        lied.post(fork.request(0))
        ahead.post(Log().to(9).request(0))
        urls = [f"http://127.0.0.1:{silent.getsockname()[1]}", drips]
        others = [Witness(url, replace(KEY, name=f"w{n}"), timeout=timedelta(seconds=60)) for n, url in enumerate(urls)]
        asked = [*others, *map(client, (good, lied, ahead))]
        found = collect(LOG5.note, asked, LOG5.prove, within=timedelta(seconds=8))
    assert [one.name for one in found.note.signatures] == [ORIGIN, "good"]
    assert [(one.witness, one.is_conflict, one.ahead) for one in found.problems] == [
        ("w0", False, None),
        ("w1", False, None),
        ("lied", True, None),
        ("ahead", False, 9),
    ]


def test_proofs_are_made_in_the_callers_thread(tmp_path: Path) -> None:
    threads = []

    def prove(old: int) -> Sequence[bytes]:
        threads.append(threading.current_thread())
        return LOG5.prove(old)

    with running(tmp_path / "a") as a, running(tmp_path / "b") as b:
        for one in (a, b):
            one.post(Log().to(3).request(0))
        assert collect(LOG5.note, [client(a), client(b)], prove).problems == ()
    assert threads == [threading.current_thread()] * 2


def test_a_proof_that_cannot_be_made_is_a_problem_like_others(tmp_path: Path) -> None:
    def fail(old: int) -> Sequence[bytes]:
        raise LookupError("tile is gone")

    with running(tmp_path / "a") as a, running(tmp_path / "b") as b:
        a.post(Log().to(3).request(0))
        found = collect(LOG5.note, [client(a), client(b)], fail)
    assert [one.why for one in found.problems] == ["tile is gone"]
    assert found.note.cosigned_by(b.key.public)


def test_without_witnesses_nothing_is_collected() -> None:
    assert collect(LOG5.note, [], LOG5.prove).note == LOG5.note
