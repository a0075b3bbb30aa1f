"""Messages outlive the processes that send them: none is lost however one dies, and two never send the same one."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from indelible import Ledger, migrate
from tests.notify.mortal_sender import POINTS
from tests.notify.receivers import receiving
from tests.notify.recording import ask, deliveries, naming
from tests.waiting import eventually

ROOT = Path(__file__).parents[2]
PATIENCE = 60.0


@pytest.fixture
def ledger(store_url: str) -> Iterator[Ledger]:
    """A ledger that asks by a channel that only other processes have."""
    migrate(store_url)
    with Ledger.open(store_url, policy=naming("ops"), seal=False) as opened:
        yield opened


@contextmanager
def sender(url: str, port: int, point: str = "", *, seconds: float = 60) -> Iterator[subprocess.Popen[str]]:
    """Runs a process that sends, until the block ends or it dies."""
    command = [sys.executable, "-m", "tests.notify.mortal_sender", url, str(port), point, str(seconds)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield process
        finally:
            process.kill()


def are_all_sent(ledger: Ledger) -> bool:
    return {delivery.status for delivery in deliveries(ledger)} == {"sent"}


def test_two_processes_with_the_same_channel_send_each_message_once(ledger: Ledger, store_url: str) -> None:
    with receiving() as receiver, sender(store_url, receiver.port), sender(store_url, receiver.port):
        asked = {ask(ledger, number) for number in range(40)}
        eventually(lambda: are_all_sent(ledger), PATIENCE)
    told = Counter(post.headers["webhook-id"] for post in receiver.posts)
    assert {post.json["data"]["approval"] for post in receiver.posts} == asked
    assert set(told.values()) == {1}


@pytest.mark.parametrize("point", POINTS)
def test_a_sender_that_is_killed_loses_nothing(ledger: Ledger, store_url: str, point: str) -> None:
    with receiving() as receiver:
        approval_id = ask(ledger)
        with sender(store_url, receiver.port, point, seconds=1) as first:
            assert first.wait(PATIENCE) == -signal.SIGKILL
        with sender(store_url, receiver.port):
            eventually(lambda: are_all_sent(ledger), PATIENCE)
    ids = [post.headers["webhook-id"] for post in receiver.posts]
    assert set(ids) == {f"{approval_id}:1:requested:ops"}
    # Whoever dies between sending and writing that down leaves it to be sent again, with the same id.
    assert len(ids) == (2 if point in ("after sending", "before marking") else 1)


def test_senders_killed_at_any_moment_lose_nothing(ledger: Ledger, store_url: str) -> None:
    chance = random.Random(11)
    with receiving() as receiver:
        asked = {ask(ledger, number) for number in range(60)}
        for _ in range(6):
            with sender(store_url, receiver.port, seconds=1) as process:
                before = len(receiver.posts)
                wanted = before + chance.randrange(1, 9)
                eventually(lambda wanted=wanted: len(receiver.posts) >= wanted or are_all_sent(ledger), PATIENCE)
                threading.Event().wait(chance.random() * 0.01)  # anywhere within the next message or two
                process.kill()
        with sender(store_url, receiver.port):
            eventually(lambda: are_all_sent(ledger), PATIENCE)
    assert {post.json["data"]["approval"] for post in receiver.posts} == asked
    repeated = sum(Counter(post.headers["webhook-id"] for post in receiver.posts).values()) - 60
    assert repeated <= 6  # one for each sender that was killed, at most


def run_program(text: str, *args: str, **environment: str) -> str:
    """Runs a program to its end, and gives what it printed."""
    command = [sys.executable, "-c", textwrap.dedent(text), *args]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, env={**os.environ, **environment}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


ASKING = """
    import os
    import sys
    import threading
    from indelible import Ledger, ToolCall
    from indelible.errors import ApprovalPending
    from indelible.notify import patrol

    patrol.SHORTEST_PAUSE = patrol.LONGEST_PAUSE = 3600.0  # what goes, goes because this process wrote it

    def hook(approval, effect):
        print("told", effect.args["amount"], "" if os.getpid() == first else "by the child", flush=True)
        told.set()

    first, told = os.getpid(), threading.Event()

    ledger = Ledger.open(sys.argv[1], on_approval_required=hook, seal=False)

    def ask(amount):
        try:
            call = ToolCall(run_id="r", tool="refund", args={"amount": amount})
            ledger.run(call, lambda effect: None, approval="required", wait=False)
        except ApprovalPending:
            pass
"""


def test_a_program_that_ends_without_closing_its_ledger_still_tells(store_url: str) -> None:
    migrate(store_url)
    assert run_program(ASKING + "\n    ask(5)\n", store_url) == "told 5 \n"


def test_a_forked_child_tells_what_it_asks(store_url: str) -> None:
    migrate(store_url)
    forking = """
    ask(1)
    told.wait()
    go = patrol.Patrol._round
    patrol.Patrol._round = lambda self: os.getpid() != first and go(self)  # from now on the parent looks away
    child = os.fork()
    if child == 0:
        ask(2)
        ledger.close()
        os._exit(0)
    os.waitpid(child, 0)
    patrol.Patrol._round = go
    ledger.close()
    """
    assert sorted(run_program(ASKING + forking, store_url).split("\n")) == ["", "told 1 ", "told 2 by the child"]
