"""Asks witnesses: sends a signed head over HTTP and brings back cosignatures that were checked.

What a witness answers comes from a stranger: it is limited in size and time, never followed elsewhere, and worth
nothing until its cosignature verifies.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from queue import Empty, SimpleQueue
from socket import SHUT_RDWR, socket
from threading import Thread, Timer
from time import monotonic
from urllib.parse import SplitResult, urlsplit

from indelible.core.journal.journal import Prove
from indelible.core.journal.notes import COSIGNATURE, Note, PublicKey, Signature, TreeHead, parse_head
from indelible.core.journal.witnessing import MOST_ANSWER_BYTES, Request, parse_cosignature, parse_size, with_newest
from indelible.errors import BadNote, JournalError
from indelible.listening import is_loopback

_TIMEOUT = timedelta(seconds=5)
_WITHIN = timedelta(seconds=6)


class WitnessUnavailable(JournalError):
    """The witness cannot be asked now, or its answer is of no use; ask again later."""


class WitnessRefused(JournalError):
    """The witness will not cosign this head.

    `is_conflict` says that it saw another history of the journal than ours. `ahead` is the size of a larger head that
    it cosigned already: somebody else was faster, or, if no such head was signed, the database was set back.
    """

    def __init__(self, message: str, *, is_conflict: bool = False, ahead: int | None = None) -> None:
        super().__init__(message)
        self.is_conflict = is_conflict
        self.ahead = ahead


class Witness:
    """Is a witness at an address, known by its key. Any number of threads may use it."""

    def __init__(
        self,
        url: str,
        key: PublicKey,
        *,
        timeout: timedelta = _TIMEOUT,
        allow_clear_text: bool = False,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        if key.kind != COSIGNATURE:
            raise BadNote(f"{key.name} is the key of a log, not of a witness; a witness's: indelible witness key")
        self.key = key
        self.url = url.rstrip("/")
        self._address = _checked_address(self.url, allow_clear_text)
        self._tls = (tls or ssl.create_default_context()) if self._address.scheme == "https" else None
        self._timeout = timeout.total_seconds()
        self._sizes: dict[str, int] = {}  # what it cosigned last, as far as was seen here; only saves a question

    def cosign(self, note: Note, old_size: int | None, prove: Prove) -> Signature:
        """Gives this witness's cosignature of a head, verified.

        `old_size` is what the witness cosigned last, if the caller knows. When it is something else, the witness says
        so and is asked once more. Raises `WitnessUnavailable` or `WitnessRefused`.
        """
        head = parse_head(note.text)
        known = self._sizes.get(head.origin, 0) if old_size is None else old_size
        with self._conversation() as ask:
            # What is larger than the head is a wrong guess, and asking from nothing brings the right one.
            size = known if known <= head.size else 0
            status, body = ask(_request(note, head, size, prove))
            if status == 409:
                size = self._size_in(body, head, size)
                status, body = ask(_request(note, head, size, prove))
        if status != 200:
            raise self._refusal(status, body)
        try:
            cosignature = parse_cosignature(body, note, self.key)
        except BadNote as problem:
            raise WitnessUnavailable(f"{self.key.name} at {self.url}: {problem}") from problem
        self._sizes[head.origin] = head.size
        return cosignature

    def _size_in(self, body: bytes, head: TreeHead, asked: int) -> int:
        """Gives the size the witness has, if a head can grow out of it."""
        try:
            size = parse_size(body)
        except BadNote as problem:
            raise WitnessUnavailable(f"{self.key.name} at {self.url}: {problem}") from problem
        self._sizes[head.origin] = size
        if size > head.size:
            raise WitnessRefused(
                f"{self.key.name} cosigned {size} entries of {head.origin} already, and this head has {head.size}. If "
                "no newer head was signed meanwhile, the database was set back: see indelible verify",
                ahead=size,
            )
        if size == asked:
            raise self._refusal(422, b"")  # how older witnesses say that they know another root for this size
        return size

    def _refusal(self, status: int, body: bytes) -> JournalError:
        said = ascii(body[:200].decode("utf-8", "replace").strip())[1:-1]
        who = f"{self.key.name} at {self.url}"
        match status:
            case 422:
                return WitnessRefused(
                    f"{who} knows another history of this journal ({said or 'no proof holds'}): the database was "
                    "changed or set back after it was witnessed. See: indelible verify",
                    is_conflict=True,
                )
            case 403 | 404:
                return WitnessRefused(
                    f"{who} does not know this journal or its key ({said}); give its operator what "
                    "`indelible keys export-public` prints"
                )
            case 400 | 411 | 413:
                return WitnessRefused(f"{who} does not understand what it was asked ({status}: {said})")
            case _:
                return WitnessUnavailable(
                    f"{who} answered {status} ({said}); it will be asked again with the next head"
                )

    @contextmanager
    def _conversation(self) -> Iterator[Callable[[Request], tuple[int, bytes]]]:
        """Opens one connection for all questions and hangs up when the time is over, however slowly it drips."""
        connection = self._connection()
        end = monotonic() + self._timeout

        def ask(request: Request) -> tuple[int, bytes]:
            with self._blamed(end):
                answer = self._ask(connection, request)
                if monotonic() >= end:  # then it may be cut short
                    raise TimeoutError("the time is over")
                return answer

        try:
            with self._blamed(end):
                connection.connect()
            with _hung_up_after(connection.sock, end - monotonic()):
                yield ask
        finally:
            connection.close()

    @contextmanager
    def _blamed(self, end: float) -> Iterator[None]:
        """Turns what a network or a stranger's answer can do into `WitnessUnavailable`."""
        try:
            yield
        except (OSError, HTTPException, ValueError) as problem:
            late = " in time" if monotonic() >= end else ""
            why = ascii(f"{type(problem).__name__} {problem}".strip()[:200])[1:-1]
            raise WitnessUnavailable(f"{self.key.name} at {self.url} did not answer{late}: {why}") from problem

    def _connection(self) -> HTTPConnection:
        host, port = self._address.hostname or "", self._address.port
        if self._tls is None:
            return HTTPConnection(host, port, timeout=self._timeout)
        return HTTPSConnection(host, port, timeout=self._timeout, context=self._tls)

    def _ask(self, connection: HTTPConnection, request: Request) -> tuple[int, bytes]:
        headers = {"Content-Type": "text/plain; charset=utf-8", "User-Agent": "indelible"}
        connection.request("POST", f"{self._address.path}/add-checkpoint", bytes(request), headers)
        with connection.getresponse() as response:
            body = _limited(response)
            if 300 <= response.status < 400:
                place = ascii(response.getheader("Location", "")[:200])[1:-1]
                raise WitnessUnavailable(
                    f"{self.key.name} at {self.url} points elsewhere ({place}); redirects are not followed: if it "
                    "moved, set its new address"
                )
            return response.status, body


def _request(note: Note, head: TreeHead, size: int, prove: Prove) -> Request:
    return Request(size, () if size in (0, head.size) else tuple(prove(size)), note)


def _limited(response: HTTPResponse) -> bytes:
    body = response.read(MOST_ANSWER_BYTES + 1)
    if len(body) > MOST_ANSWER_BYTES:
        raise HTTPException(f"the answer is longer than {MOST_ANSWER_BYTES} bytes")
    if response.length:
        raise HTTPException(f"the answer ends {response.length} bytes too early")
    return body


def _checked_address(url: str, allow_clear_text: bool) -> SplitResult:
    """Takes an address apart; raises `BadNote` for one that would send heads in clear text or is not plain."""
    try:
        address = urlsplit(url)
        host, _ = address.hostname, address.port
    except ValueError as problem:
        raise BadNote(f"{url!r} is no address of a witness: {problem}") from problem
    is_plain = url.isascii() and url.isprintable() and " " not in url
    if address.scheme not in ("https", "http") or not host or "@" in address.netloc or not is_plain:
        raise BadNote(f"{url!r} is no address of a witness; one looks like https://witness.example/prefix")
    if address.query or address.fragment:
        raise BadNote(f"{url!r}: a witness's address ends with its path")
    if address.scheme == "http" and not (allow_clear_text or is_loopback(host)):
        raise BadNote(f"{url}: in clear text only this machine is asked; use https, or allow it on purpose")
    return address


@contextmanager
def _hung_up_after(line: socket, seconds: float) -> Iterator[None]:
    """Ends a connection from outside: a time limit per read would let a slow witness take for ever."""
    timer = Timer(max(seconds, 0), _hang_up, (line,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _hang_up(line: socket) -> None:
    with suppress(OSError):
        # Not the method of a TLS socket: that one goes on in clear text.
        socket.shutdown(line, SHUT_RDWR)


# ── many at once ─────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Problem:
    """Is why a witness's cosignature is missing; `is_conflict` and `ahead` are those of `WitnessRefused`."""

    witness: str
    why: str
    is_conflict: bool = False
    ahead: int | None = None


@dataclass(frozen=True, slots=True)
class Collected:
    """Is a head with the cosignatures that came, and what kept the others away."""

    note: Note
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Asks the caller's thread for a proof."""

    size: int
    answer: SimpleQueue[Sequence[bytes] | Exception]


_Result = Signature | Problem
_Word = _Wanted | tuple[int, _Result]


def collect(note: Note, witnesses: Sequence[Witness], prove: Prove, *, within: timedelta = _WITHIN) -> Collected:
    """Asks all witnesses side by side and gives the head with what came in time. It raises for no witness's failure.

    `prove` runs in the caller's thread, so it may read the store as the caller does.
    """
    words: SimpleQueue[_Word] = SimpleQueue()
    for number, witness in enumerate(witnesses):
        # Daemons: a name server that hangs must keep neither this call nor the process's end waiting.
        Thread(target=_ask_one, args=(number, witness, note, words), name="indelible-witness", daemon=True).start()
    results = _listen(words, len(witnesses), prove, monotonic() + within.total_seconds())
    late = f"did not answer within {within.total_seconds():g} s"
    found = [
        results.get(i, Problem(one.key.name, f"{one.key.name} at {one.url} {late}")) for i, one in enumerate(witnesses)
    ]
    cosignatures = [one for one in found if isinstance(one, Signature)]
    return Collected(with_newest(note, cosignatures), tuple(one for one in found if isinstance(one, Problem)))


def _listen(words: SimpleQueue[_Word], count: int, prove: Prove, end: float) -> dict[int, _Result]:
    """Serves the threads that ask, until all are done or the time is over."""
    results: dict[int, _Result] = {}
    while len(results) < count:
        try:
            word = words.get(timeout=max(end - monotonic(), 0))
        except Empty:
            break
        if isinstance(word, _Wanted):
            try:
                word.answer.put(prove(word.size))
            except Exception as problem:
                word.answer.put(problem)
        else:
            results[word[0]] = word[1]
    return results


def _ask_one(number: int, witness: Witness, note: Note, words: SimpleQueue[_Word]) -> None:
    def prove(size: int) -> Sequence[bytes]:
        answer: SimpleQueue[Sequence[bytes] | Exception] = SimpleQueue()
        words.put(_Wanted(size, answer))
        proof = answer.get(timeout=witness._timeout)
        if isinstance(proof, Exception):
            raise proof
        return proof

    name = witness.key.name
    try:
        words.put((number, witness.cosign(note, None, prove)))
    except WitnessRefused as problem:
        words.put((number, Problem(name, str(problem), problem.is_conflict, problem.ahead)))
    except Empty:
        words.put((number, Problem(name, f"{name}: no proof was made in time")))
    except Exception as problem:
        words.put((number, Problem(name, str(problem) or type(problem).__name__)))
