"""docs/how-to/langgraph-slack.md, typed from the page on both stores: two threads, one order, one refund."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest

from indelible import Ledger
from indelible.notify.slack_blocks import APPROVE
from tests.docs.pages import DOCS, blocks, typed
from tests.notify.slack_api import SIGNING_SECRET, TOKEN, SlackApi, pressed, request, shown, slack_api
from tests.waiting import eventually, free_port

PAGE = DOCS / "how-to" / "langgraph-slack.md"
PATIENCE = 240.0
ENDLESS = ("indelible worker", "indelible channels slack-listen", "python shop.py resume")


class Shell:
    """Types the page's commands in its folder; a command that does not end by itself runs until the block ends."""

    def __init__(self, folder: Path, env: dict[str, str], closing: ExitStack) -> None:
        self.folder, self.env, self.closing = folder, env, closing
        self.lines: dict[str, queue.SimpleQueue[str]] = {}

    def type(self, command: str) -> list[str]:
        if command.startswith(ENDLESS):
            self.lines[command] = self.closing.enter_context(self._running(command))
            return []
        words = self._words(command)
        done = subprocess.run(words, cwd=self.folder, env=self.env, capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    def next_line(self, command: str) -> str:
        return self.lines[command].get(timeout=PATIENCE)

    def _words(self, command: str) -> list[str]:
        first, *rest = command.split()
        ours = {"python": [sys.executable], "indelible": [sys.executable, "-m", "indelible.cli"]}
        return [*ours.get(first, [first]), *rest]

    @contextmanager
    def _running(self, command: str) -> Iterator[queue.SimpleQueue[str]]:
        lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        words, pipe = self._words(command), subprocess.PIPE
        with subprocess.Popen(
            words, cwd=self.folder, env=self.env, stdout=pipe, stderr=subprocess.STDOUT, text=True
        ) as process:
            assert process.stdout is not None
            reader = threading.Thread(target=lambda: [lines.put(line.rstrip()) for line in process.stdout or ()])
            reader.start()
            try:
                yield lines
            finally:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(PATIENCE)
                finally:
                    process.kill()
                    reader.join(PATIENCE)


def press(slack: SlackApi, port: int) -> None:
    (ts,) = slack.questions
    headers, body = request(pressed(slack, ts, APPROVE, user="U012AB3CD"), time.time())
    answer = httpx.post(f"http://127.0.0.1:{port}/slack/interactions", content=body, headers=headers, timeout=PATIENCE)
    assert answer.status_code == 200


@pytest.mark.timeout(900)
def test_74_two_conversations_one_order_one_press_in_slack_one_refund(tmp_path: Path, store_url: str) -> None:
    by_title = {block.title: block.text for block in blocks(PAGE) if block.title is not None}
    commands = [one for block in blocks(PAGE) if block.kind == "console" for one in typed(block)]
    promised = next(block.text for block in blocks(PAGE) if block.kind == "text").splitlines()
    env = {**os.environ, "INDELIBLE_URL": store_url, "INDELIBLE_KEYS": str(tmp_path / "keys")}
    env |= {"SLACK_BOT_TOKEN": TOKEN, "SLACK_SIGNING_SECRET": SIGNING_SECRET, "PYTHONUNBUFFERED": "1"}
    port = free_port()
    with slack_api() as slack, ExitStack() as closing:
        channels = by_title["channels.yaml"].replace("kind: slack", f"kind: slack\n    api: {slack.api}")
        (tmp_path / "shop.py").write_text(by_title["shop.py"], encoding="utf-8")
        (tmp_path / "channels.yaml").write_text(channels, encoding="utf-8")
        shell = Shell(tmp_path, env, closing)
        waits = []
        for one in commands:
            if one.command.startswith("pip install"):
                continue
            if one.command == "cat bank.txt":  # before it the page says: press Approve
                eventually(lambda: len(slack.questions) == 1, PATIENCE)
                assert "order-7" in shown(slack.messages[slack.questions[0]])
                resumer = "python shop.py resume"
                eventually(lambda: _is_told(store_url, "resume", tmp_path / "keys"), PATIENCE)
                press(slack, port)
                said = [shell.next_line(resumer) for _ in range(1 + len(promised))]
                assert said == ["ready", *promised]
            answer = shell.type(one.command.replace("8788", str(port)))
            if one.command.startswith("python shop.py") and one.answer:
                waits += [line.split()[-1] for line in answer]
                assert [line.rpartition(" ")[0] for line in answer] == [line.rpartition(" ")[0] for line in one.answer]
            elif one.answer:
                assert tuple(answer) == one.answer
        assert len(waits) == 2
        assert len(set(waits)) == 1, "two conversations wait for one approval"
        assert len(slack.messages) == 1, "Slack shows one question"
    assert (tmp_path / "bank.txt").read_text(encoding="utf-8") == "order-7 4200\n"


def _is_told(url: str, channel: str, keys: Path) -> bool:
    from tests.notify.recording import deliveries

    with Ledger.open(url, keys=keys, seal=False) as ledger:
        return any(one.status == "sent" for one in deliveries(ledger, topic=channel))
