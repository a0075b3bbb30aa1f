"""A witness: it cosigns one history of a log, whoever asks, at once, after a restart and after SIGKILL."""

from __future__ import annotations

import http.client
import itertools
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest

from indelible.core.journal.notes import Note, Signature, parse_head, parse_note
from indelible.core.journal.witnessing import SIZE_TYPE, Request
from indelible.journal.witnesses.asking import WitnessRefused, WitnessUnavailable
from indelible.journal.witnesses.cosigner import open_key, origin_hash
from tests.journal.watched import LOG, ORIGIN, STRANGER, Log, Running, client, get, running, send

T = TypeVar("T")


# ── one history ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_growing_log_is_cosigned_head_by_head(witness: Running) -> None:
    asked, size, log = client(witness), 0, Log()
    for grown in (1, 2, 3, 7, 8, 8, 64, 300):
        log = log.to(grown)
        cosigned = log.note.with_signatures([asked.cosign(log.note, size, log.prove)])
        assert cosigned.cosigned_by(witness.key.public)
        assert cosigned.signed_by(LOG)
        size = grown


def test_another_history_is_refused_at_every_size(witness: Running) -> None:
    log = Log().to(5)
    assert witness.post(log.request(0))[0] == 200
    fork = log.to(4).grown("not what you saw")
    assert witness.post(fork.request(5))[0] == 422
    assert witness.post(fork.to(9).request(5))[0] == 422
    with pytest.raises(WitnessRefused) as refused:
        client(witness).cosign(fork.to(9).note, None, fork.to(9).prove)
    assert refused.value.is_conflict
    assert witness.post(log.to(9).request(5))[0] == 200


def test_a_signed_fork_is_kept_as_proof(witness: Running) -> None:
    log = Log().to(5)
    witness.post(log.request(0))
    fork = log.to(4).grown("not what you saw")
    witness.post(fork.request(5))
    witness.post(log.to(4).grown("a third").request(5))
    kept = parse_note((witness.state / f"{origin_hash(ORIGIN)}.fork").read_bytes())
    assert kept.signed_by(LOG)
    assert parse_head(kept.text) == fork.head


def test_a_log_never_goes_back(witness: Running) -> None:
    log = Log().to(9)
    witness.post(log.request(0))
    assert witness.post(log.to(5).request(5)) == (409, b"9\n")
    assert witness.post(log.to(5).request(0)) == (409, b"9\n")
    with pytest.raises(WitnessRefused, match="9 entries") as refused:
        client(witness).cosign(log.to(5).note, None, log.prove)
    assert refused.value.ahead == 9
    assert not refused.value.is_conflict


def test_who_asks_from_the_wrong_size_learns_the_right_one(witness: Running) -> None:
    log = Log().to(9)
    witness.post(log.to(4).request(0))
    connection = http.client.HTTPConnection(witness.url.removeprefix("http://"), timeout=60)
    with closing(connection):
        connection.request("POST", "/add-checkpoint", bytes(log.request(2)))
        with connection.getresponse() as response:
            assert (response.status, response.getheader("Content-Type")) == (409, SIZE_TYPE)
            assert response.read() == b"4\n"
    for known in (None, 0, 2, 9, 100):
        log = log.to(len(log.leaves) + 1)
        assert client(witness).cosign(log.note, known, log.prove)


def test_a_log_that_nobody_named_is_not_found(witness: Running) -> None:
    assert witness.post(replace(Log(), origin="another/log").to(3).request(0))[0] == 404
    with pytest.raises(WitnessRefused, match="export-public"):
        client(witness).cosign(replace(Log(), origin="another/log").to(3).note, 0, Log().prove)


def test_a_head_that_the_log_did_not_sign_is_forbidden(witness: Running) -> None:
    assert witness.post(replace(Log(), secret=STRANGER).to(3).request(0))[0] == 403
    swapped = Note(Log().to(4).head.text, Log().to(3).note.signatures)
    assert witness.post(Request(0, (), swapped))[0] == 403
    assert get(witness.url, f"/{origin_hash(ORIGIN)}/checkpoint")[0] == 404


def test_each_log_has_its_own_history(tmp_path: Path) -> None:
    other = replace(Log(), origin="another/log", secret=STRANGER)
    with running(tmp_path / "w", LOG, other.key) as witness:
        assert witness.post(Log().to(5).request(0))[0] == 200
        assert witness.post(other.to(3).request(0))[0] == 200
        assert witness.post(Log().to(6).request(5))[0] == 200


def test_monitors_see_the_head_that_was_cosigned_last(witness: Running) -> None:
    log = Log().to(3)
    stranger = Signature("stranger", b"abcd", b"\0" * 64)
    witness.post(replace(log.request(0), note=log.note.with_signatures([stranger])))
    status, body = get(witness.url, f"/{origin_hash(ORIGIN)}/checkpoint")
    note = parse_note(body)
    assert status == 200
    assert note.signed_by(LOG)
    assert note.cosigned_by(witness.key.public)
    assert len(note.signatures) == 2
    assert get(witness.url, f"/{origin_hash('another')}/checkpoint")[0] == 404
    assert get(witness.url, f"/{origin_hash(ORIGIN)}")[0] == 404
    assert get(witness.url, "/")[0] == 404


def test_a_clock_set_back_dates_no_larger_tree_before_a_smaller(tmp_path: Path) -> None:
    times = iter([1000.5, 400.0, 2000.0])
    with running(tmp_path / "w", clock=lambda: next(times)) as witness:
        asked, seen = client(witness), []
        for size in (1, 2, 3):
            log = Log().to(size)
            note = log.note.with_signatures([asked.cosign(log.note, None, log.prove)])
            seen.append(note.cosigned_by(witness.key.public))
    assert seen == [1000, 1000, 2000]


# ── at once ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def at_once(function: Callable[..., T], logs: Sequence[Log], *rest: object) -> list[T]:
    """Does something with each log, in threads that start together."""
    start = threading.Barrier(len(logs))

    def run(log: Log) -> T:
        start.wait()
        return function(log, *rest)

    with ThreadPoolExecutor(len(logs)) as pool:
        return list(pool.map(run, logs))


def test_of_many_heads_at_once_one_wins(witness: Running) -> None:
    log = Log()
    for turn in range(10):
        size = len(log.leaves)
        rivals = [log.grown(f"{turn}: entry of rival {n}") for n in range(16)]
        answers = at_once(send, rivals, size, witness.url)
        winners = [rival for rival, (status, _) in zip(rivals, answers, strict=True) if status == 200]
        assert len(winners) == 1
        assert {answer for answer in answers if answer[0] != 200} == {(409, b"%d\n" % (size + 1))}
        log = winners[0]


def test_racing_senders_of_one_log_never_set_it_back(witness: Running) -> None:
    log = Log().to(200)
    parts = [log.to(size) for size in range(1, 200)]
    asked = client(witness)

    def grow(part: Log) -> int:
        with suppress(WitnessRefused, WitnessUnavailable):  # somebody was faster
            asked.cosign(part.note, None, part.prove)
            return len(part.leaves)
        return 0

    for group in (parts[n : n + 12] for n in range(0, len(parts), 12)):
        best = max(at_once(grow, group))
        _, body = get(witness.url, f"/{origin_hash(ORIGIN)}/checkpoint")
        assert parse_head(parse_note(body).text).size == best


# ── SIGKILL ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def mortal(folder: Path) -> Iterator[Callable[[int], str]]:
    """Gives a function that starts a witness in place of the one before, to die at a line, and gives its address."""
    (folder / "w").mkdir()
    open_key(folder / "w" / "key.pem")
    program = [sys.executable, "-m", "tests.journal.mortal_witness", str(folder / "w")]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        stdin, stdout = process.stdin, process.stdout

        def start(line: int) -> str:
            stdin.write(f"{line}\n")
            stdin.flush()
            return stdout.readline().strip()

        yield start
        stdin.close()


@pytest.mark.timeout(400)  # each line has its turn, each with two new processes
def test_killed_at_any_line_a_witness_cosigns_one_root_of_a_size(tmp_path: Path) -> None:
    log, outlived, lost, unanswered = Log(), 0, 0, 0
    with mortal(tmp_path) as start:
        for line in itertools.count(1):
            size = len(log.leaves)
            one, other = log.grown(f"one {line}"), log.grown(f"other {line}")
            url = start(line)
            first, _ = send(one, size, url)
            if first == 200:
                outlived += send(one, size + 1, url)[0] == 200
            second, body = send(other, size, start(0))  # started again, it is shown another history
            assert second == 200 or (second, body) == (409, b"%d\n" % (size + 1))
            assert (first, second) != (200, 200), f"two roots of size {size + 1}, killed at line {line}"
            lost += second == 200
            unanswered += first == 0 and second == 409
            log = other if second == 200 else one
            if outlived:
                break
    # All three fates were met: killed before it was written down, after that but before it answered, and not at all.
    assert lost > 10
    assert unanswered > 3


@pytest.mark.timeout(400)
def test_killed_among_rivals_a_witness_cosigns_one_root_of_a_size(tmp_path: Path) -> None:
    log, cosigned = Log(), 0
    with mortal(tmp_path) as start:
        for line in range(1, 500, 25):
            size = len(log.leaves)
            rivals = [log.grown(f"{line}: rival {n}") for n in range(4)]
            answers = at_once(send, rivals, size, start(line))
            late = [send(rival, size, start(0)) for rival in rivals]
            roots = [r for r, found in zip(rivals * 2, [*answers, *late], strict=True) if found[0] == 200]
            cosigned += bool(roots)  # none where it was killed after it wrote its head down and before it answered
            _, body = get(start(0), f"/{origin_hash(ORIGIN)}/checkpoint")
            head = parse_head(parse_note(body).text)
            log = next(one for one in rivals if one.head == head)
            assert all(one.head == head for one in roots), f"two roots of size {size + 1}, killed at line {line}"
    assert cosigned > 10
