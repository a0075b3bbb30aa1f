"""`indelible approvals watch`: at a real terminal, and on a pipe."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

import pytest

from indelible import Approval, Ledger
from indelible.cli.approvals.watch_screen import AFTER_DECISION, MOMENT
from indelible.errors import EffectDenied
from tests.cli.asking import SOON, TWO, approval_at, approve, ask, call_again, refund
from tests.cli.conftest import SLY, Cli
from tests.cli.terminals import Terminal, terminal

WATCH = ["approvals", "watch", "--by", "ana"]
PATIENCE = 60.0


def arm(screen: Terminal) -> None:
    """Press `a` when the question has been on the screen for long enough."""
    time.sleep(MOMENT)
    screen.type("a")
    screen.see("Press y")


def confirm(screen: Terminal) -> None:
    """Press `y` when the question to confirm has been on the screen for long enough."""
    time.sleep(MOMENT)
    screen.type("y")


def leave(screen: Terminal) -> None:
    """Leave the list; after a decision no key counts for a second."""
    time.sleep(AFTER_DECISION)
    screen.type("q")
    assert screen.ended() == 0


# ── at a terminal ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_comes_is_shown_and_can_be_approved(cli: Cli, ledger_url: str) -> None:
    with terminal(*WATCH) as screen:
        screen.see("0 approvals to decide · ana", "Nothing waits")
        asked = ask(ledger_url)
        screen.see("1 approval to decide", "stripe.refund", "order-1", "0 of 1")
        screen.type("\r")
        screen.see(asked.id, asked.digest, '"amount": 4200', "approval_viewed")
        arm(screen)
        screen.see(f"Approve {asked.digest[:16]}, exactly as shown? Press y")
        assert approval_at(ledger_url, asked).status == "pending"
        confirm(screen)
        screen.see(f"{asked.id}: approved.", "Nothing waits")
        leave(screen)
    (vote,) = approval_at(ledger_url, asked).votes
    assert vote.by == "ana"
    assert call_again(ledger_url) == {"refunded": 4200}


def test_denying_asks_for_a_reason(cli: Cli, ledger_url: str) -> None:
    asked = ask(ledger_url)
    with terminal(*WATCH) as screen:
        screen.see("1 approval to decide")
        screen.type("\r")
        screen.see(asked.digest)
        time.sleep(MOMENT)
        screen.type("d")
        screen.see("Why not? _")
        screen.type("\r")
        screen.see("Say why not")
        screen.type("zu viel für heutte\x7f\x7fe")
        screen.see("Why not? zu viel für heute_")
        screen.type("\r")
        screen.see(f"{asked.id}: denied.")
        leave(screen)
    with pytest.raises(EffectDenied, match="zu viel für heute"):
        call_again(ledger_url)


def test_long_arguments_have_to_be_read_to_their_end(cli: Cli, ledger_url: str) -> None:
    asked = ask(ledger_url, refund(items=[f"item {number}" for number in range(60)]))
    with terminal(*WATCH, lines=20) as screen:
        screen.see("1 approval to decide")
        screen.type("\r")
        screen.see("more lines")
        screen.type("a")
        screen.see("Read it to the end first")
        screen.type("aa")
        screen.type("j")
        screen.see_no("Read it to the end first")
        while "item 59" not in screen.screen:
            before = screen.screen
            screen.type(" ")
            screen._read_until(lambda before=before: screen.screen not in (before, ""), "another page")
        screen.type(" ")
        screen.see("votes")
        arm(screen)
        confirm(screen)
        screen.see(f"{asked.id}: approved.")


def test_keys_typed_ahead_do_not_confirm(cli: Cli, ledger_url: str) -> None:
    asked = ask(ledger_url)
    with terminal(*WATCH) as screen:
        screen.see("1 approval to decide")
        screen.type("\r")
        screen.see(asked.digest)
        time.sleep(MOMENT)
        screen.type("aaya")
        screen.see("Press y")
        screen.type("k")
        screen.see_no("Press y")
        screen.type("q")
        screen.see("j/k move")
        screen.type("q")
        assert screen.ended() == 0
    assert approval_at(ledger_url, asked).status == "pending"


@pytest.mark.parametrize("keys", ["a", "ay", "\ray", "ya"])
def test_73_keys_held_for_five_seconds_decide_nothing(cli: Cli, ledger_url: str, keys: str) -> None:
    """Each of them is pressed 30 times a second, as a key that is held, or a cat, does."""
    asked = [ask(ledger_url, refund(f"order-{number}", charge=f"ch_{number}")) for number in range(4)]
    with terminal(*WATCH) as screen:
        screen.see("4 approvals to decide")
        until = time.monotonic() + 5.0
        while time.monotonic() < until:
            for key in keys:
                screen.type(key)
                time.sleep(0.033)
        assert screen.process.poll() is None
    assert [approval_at(ledger_url, one).status for one in asked] == ["pending"] * 4


def test_73_after_a_decision_the_next_is_not_opened_and_keys_typed_ahead_are_dropped(cli: Cli, ledger_url: str) -> None:
    first, second = ask(ledger_url), ask(ledger_url, refund("order-2", charge="ch_2"))
    with terminal(*WATCH) as screen:
        screen.see("2 approvals to decide")
        screen.type("\r")
        screen.see(first.digest)
        arm(screen)
        time.sleep(MOMENT)
        screen.type("y\ray")
        screen.see(f"{first.id}: approved.", "1 approval to decide", "j/k move")
        screen.type("\ray")
        leave(screen)
    assert [approval_at(ledger_url, one).status for one in (first, second)] == ["approved", "pending"]


def test_an_edit_meanwhile_takes_the_answer_away(cli: Cli, ledger_url: str) -> None:
    asked = ask(ledger_url)
    with terminal(*WATCH) as screen:
        screen.see("1 approval to decide")
        screen.type("\r")
        screen.see(asked.digest)
        arm(screen)
        with Ledger.open(ledger_url) as ledger:
            args = {"charge": "ch_1", "amount": 9_000_000}
            now = ledger.edit_approval(asked.id, args, digest=asked.digest, by="eve")
        screen.see("It is another question now", now.digest, "9000000")
        arm(screen)
        screen.see(f"Approve {now.digest[:16]}")
        screen.type("q")
        screen.see("j/k move")
    assert approval_at(ledger_url, asked).status == "pending"


def test_what_somebody_else_decides_goes_from_the_list(cli: Cli, ledger_url: str) -> None:
    first, second = ask(ledger_url), ask(ledger_url, refund("order-2", charge="ch_2"))
    with terminal(*WATCH) as screen:
        screen.see("2 approvals to decide", "order-1", "order-2")
        screen.type("j\r")
        screen.see(second.digest)
        approve(ledger_url, second, "bob")
        screen.see("1 approval to decide", "bob approved")
        screen.type("a")
        screen.see("nothing to decide about it now")
        screen.type("q")
        screen.see("> ", "order-1")
        assert "order-2" not in screen.screen
    assert approval_at(ledger_url, first).status == "pending"


def test_a_vote_that_does_not_count_is_told(cli: Cli, ledger_url: str) -> None:
    asked = ask(ledger_url, actor="ana")
    with terminal(*WATCH) as screen:
        screen.see("1 approval to decide")
        screen.type("\r")
        screen.see(asked.digest)
        arm(screen)
        confirm(screen)
        screen.see("was asked for by ana")
    assert approval_at(ledger_url, asked).votes == ()


def test_nothing_on_the_screen_hides(cli: Cli, ledger_url: str) -> None:
    asked = ask(ledger_url, refund(f"run {SLY}", to=SLY, spread="x" * 300))
    with terminal(*WATCH, columns=60) as screen:
        screen.see("1 approval to decide", "⟨U+202E⟩")
        screen.type("\r")
        screen.see(asked.id)
        screen.type(" ")
        screen.see("votes")
        screen.type("q")
        screen.see("j/k move")
        assert "look closely" in screen.written
        assert "holds what cannot be seen: U+202E" in screen.written
        assert not set(screen.written) & set("\u202e\u200b\U000e0041")
        assert "\x1b[31m" not in screen.written
        assert "↳ " in screen.written


@pytest.mark.parametrize("end", ["q", "\x1b", "\x03", signal.SIGTERM, signal.SIGHUP])
def test_the_terminal_is_given_back(cli: Cli, sqlite_ledger: str, end: str | signal.Signals) -> None:
    with terminal(*WATCH) as screen:
        before = screen.attributes()
        screen.see("Nothing waits")
        assert screen.attributes() != before
        if isinstance(end, signal.Signals):
            screen.process.send_signal(end)
        elif end == "\x03":
            screen.process.send_signal(signal.SIGINT)  # what Ctrl-C becomes at a controlling terminal
        else:
            screen.type(end)
        assert screen.ended() == 0
        assert screen.attributes() == before
        assert screen.written.endswith("\x1b[?25h\x1b[?1049l")
        assert screen.process.stderr is not None
        assert screen.process.stderr.read() == b""


def test_another_size_is_drawn_anew(cli: Cli, sqlite_ledger: str) -> None:
    with terminal(*WATCH, columns=100, lines=40) as screen:
        screen.see("Nothing waits", "j/k move")
        screen.resize(50, 12)
        screen._read_until(lambda: screen.screen.count("\r\n") == 11, "fewer lines")


def test_arrows_and_unknown_keys(cli: Cli, sqlite_ledger: str) -> None:
    ask(sqlite_ledger)
    ask(sqlite_ledger, refund("order-2", charge="ch_2"))

    def chosen(screen: Terminal) -> str:
        return next((line for line in screen.screen.splitlines() if line.startswith(">")), "")

    with terminal(*WATCH) as screen:
        screen.see("order-1", "order-2")
        screen.type("\x1b[B\x1b[19~")
        screen._read_until(lambda: "order-2" in chosen(screen), "the second to be chosen")
        screen.type("\x1b[A")
        screen._read_until(lambda: "order-1" in chosen(screen), "the first to be chosen")


@pytest.fixture
def sqlite_ledger(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("INDELIBLE_URL", sqlite_url)
    Ledger.open(sqlite_url).close()
    return sqlite_url


# ── on a pipe ────────────────────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def piped(*words: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "indelible.cli", "approvals", "watch", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,  # a line that waits in a buffer of ours would not be seen by `select`
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def line_of(stream: IO[bytes] | None) -> str:
    assert stream is not None
    assert select.select([stream], [], [], PATIENCE)[0], "no line came"
    return stream.readline().decode()


def json_of(process: subprocess.Popen[bytes]) -> Any:
    return json.loads(line_of(process.stdout))


def test_each_change_is_a_line(cli: Cli, ledger_url: str) -> None:
    first = ask(ledger_url, policy=TWO)
    with piped() as process:
        line = line_of(process.stdout)
        assert f"{first.id}  pending  0 of 2  stripe.refund  run order-1  asked by agent  expires in 23h" in line
        second = ask(ledger_url, refund(f"run {SLY}", charge="ch_2"))
        line = line_of(process.stdout)
        assert second.id in line
        assert "⟨U+202E⟩" in line
        approve(ledger_url, first, "ana")
        assert f"{first.id}  pending  1 of 2" in line_of(process.stdout)
        approve(ledger_url, first, "bob")
        assert f"{first.id}  approved  2 of 2" in line_of(process.stdout)
        call_again(ledger_url, policy=TWO)
        line = line_of(process.stdout)
        assert f"{first.id}  consumed" in line
        assert "expires" not in line
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0
        assert process.stderr is not None
        assert process.stderr.read() == b""


def test_each_change_is_a_document_for_programs(cli: Cli, ledger_url: str) -> None:
    with piped("--json", "--tool", "stripe.refund", "--run", "order-1") as process:
        ask(ledger_url, refund("order-2"))
        asked = ask(ledger_url)
        told = json_of(process)
        assert (told["approval"]["id"], told["standing"]) == (asked.id, "pending")
        with Ledger.open(ledger_url) as ledger:
            ledger.deny(asked.id, by="ana", reason="no")
        told = json_of(process)
        assert (told["approval"]["id"], told["standing"]) == (asked.id, "denied")
        process.terminate()
        assert process.wait(PATIENCE) == 0


def test_whoever_stops_reading_ends_it(cli: Cli, ledger_url: str) -> None:
    ask(ledger_url)
    with piped() as process:
        line_of(process.stdout)
        assert process.stdout is not None
        process.stdout.close()
        ask(ledger_url, refund("order-2"))
        assert process.wait(PATIENCE) == 0
        assert process.stderr is not None
        assert process.stderr.read() == b""
        process.stdout = None


def test_a_late_approval_is_told_as_such(cli: Cli, ledger_url: str) -> None:
    with piped("--json") as process:
        late = ask(ledger_url, policy=SOON)
        while (told := json_of(process))["standing"] == "pending":  # unless it came so late itself
            assert told["approval"]["id"] == late.id
        assert (told["standing"], told["approval"]["status"]) == ("too late", "pending")


def test_a_server_that_goes_away_is_waited_for(cli: Cli, postgres_url: str, postgres_server: Any) -> None:
    cli("migrate", "--url", postgres_url)
    asked: Approval = ask(postgres_url)
    with piped("--json", "--url", postgres_url) as process:
        assert json_of(process)["approval"]["id"] == asked.id
        postgres_server.kill()
        assert "indelible: " in line_of(process.stderr)
        postgres_server.start()
        while "answers again" not in line_of(process.stderr):
            continue
        other = ask(postgres_url, refund("order-2"))
        assert json_of(process)["approval"]["id"] == other.id
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0


def test_a_pipe_asks_nobody(cli: Cli, sqlite_ledger: str) -> None:
    """Without a terminal for keys there is no screen, even when the output is one."""
    with piped() as process:
        ask(sqlite_ledger)
        assert "\x1b" not in line_of(process.stdout)
    assert os.environ["INDELIBLE_URL"] == sqlite_ledger
