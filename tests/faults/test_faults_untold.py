"""Fault 74: an approval waits, and no person hears of it. On both stores, through both shells and real processes."""

from __future__ import annotations

import builtins
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from indelible import Ledger, ToolCall, migrate
from indelible.core.approvals.approval import Question
from indelible.core.policy.verdicts import Verdict
from indelible.notify.outbox import Outbox
from tests.cli.conftest import Cli, cli, ledger_url
from tests.notify.mortal_sender import SECRET
from tests.notify.receivers import Receiver, receiving
from tests.notify.recording import Recorder, ask, deliveries
from tests.notify.slack_api import CHANNEL, SIGNING_SECRET, TOKEN, slack_api
from tests.scenarios.policies import asking
from tests.scenarios.shells import Driver, Shell, approve, asked, charge
from tests.waiting import eventually, free_port

__all__ = ["cli", "ledger_url"]
ROOT = Path(__file__).parents[2]
PATIENCE = 60.0


# ── 74: whichever process asked, and whether its rule names a channel or not ─────────────────────────────────────────


def by_tool(ledger: Driver) -> str:
    return str(asked(ledger).approval.id)


def by_rule(ledger: Driver) -> str:
    return str(ledger.begin(charge()).approval.id)


@pytest.mark.parametrize(("policy", "ask_by"), [(None, by_tool), (asking(), by_rule)], ids=["a tool", "a rule"])
def test_74_a_process_with_channels_tells_what_another_asked(
    shell: Shell, policy: Any, ask_by: Callable[[Driver], str]
) -> None:
    agent = shell.open(policy=policy)
    approval_id = ask_by(agent)
    slack, mail = Recorder("slack"), Recorder("mail")
    worker = shell.open(channels=[slack])
    assert slack.wait_for(1)[0].approval.id == approval_id
    shell.open(channels=[mail])
    assert mail.wait_for(1)[0].approval.id == approval_id, "every process that has channels tells by its own"
    approve(agent, slack.sent[0].approval, by="ana")
    worker.ledger._outbox.call()
    assert slack.wait_for(2)[1].about == mail.wait_for(2)[1].about == "approved"
    assert (slack.abouts, mail.abouts) == (["requested", "approved"], ["requested", "approved"])


def test_74_a_function_of_the_agents_keeps_the_workers_channel_from_nothing(shell: Shell) -> None:
    heard = Recorder("hook")
    agent = shell.open(on_approval_required=lambda approval, effect: heard.sent.append(approval))
    approval_id = by_tool(agent)
    slack = Recorder("slack")
    shell.open(channels=[slack])
    assert slack.wait_for(1)[0].approval.id == approval_id
    eventually(lambda: [one.id for one in heard.sent] == [approval_id])


def test_74_a_rule_that_names_channels_is_told_by_these_alone(shell: Shell) -> None:
    shell.open().apply_policy(asking(notify=["mail"]), by="root")  # an agent's own policy would only add to it
    by_rule(shell.open())
    slack, mail = Recorder("slack"), Recorder("mail")
    worker = shell.open(channels=[slack, mail])
    mail.wait_for(1)
    worker.close()
    assert slack.sent == []


def test_74_an_agent_cannot_keep_people_untold_by_naming_a_channel_of_its_own(store_url: str) -> None:
    """What another process says of its call may add to our rules and never narrow them."""
    migrate(store_url)
    with Ledger.open(store_url, seal=False) as ledger:
        prepared = ledger._prepare(ToolCall(run_id="r", tool="pay", args={}))
        said = Verdict(decision="ask", rule="mine", policy="p", question=Question(rule="mine", notify=("void",)))
        question = ledger._engine.judging.judge_besides(prepared, said).verdict.question
    assert question is not None
    assert question.notify == (), "told by every channel"


@contextmanager
def sender(url: str, port: int, point: str = "", seconds: float = 60) -> Iterator[subprocess.Popen[str]]:
    """Run a process that has the channel, until the block ends or it kills itself."""
    command = [sys.executable, "-m", "tests.notify.mortal_sender", url, str(port), point, str(seconds)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield process
        finally:
            process.kill()


def test_74_processes_that_race_to_tell_send_each_message_once(store_url: str) -> None:
    migrate(store_url)
    with (
        Ledger.open(store_url, seal=False) as ledger,
        receiving() as receiver,
        sender(store_url, receiver.port),
        sender(store_url, receiver.port),
    ):
        wanted = {ask(ledger, number) for number in range(15)}
        receiver.wait_for(15)
        eventually(lambda: {one.status for one in deliveries(ledger)} == {"sent"}, PATIENCE)
    told = Counter(post.headers["webhook-id"] for post in receiver.posts)
    assert {post.json["data"]["approval"] for post in receiver.posts} == wanted
    assert set(told.values()) == {1}


@pytest.mark.parametrize("point", ["before telling", "after telling", "before sending"])
def test_74_a_process_killed_while_it_tells_leaves_it_to_the_next(store_url: str, point: str) -> None:
    migrate(store_url)
    with Ledger.open(store_url, seal=False) as ledger, receiving() as receiver:
        approval_id = ask(ledger)
        with sender(store_url, receiver.port, point, seconds=1) as first:
            assert first.wait(PATIENCE) == -signal.SIGKILL
        with sender(store_url, receiver.port):
            receiver.wait_for(1)
            eventually(lambda: [one.status for one in deliveries(ledger)] == ["sent"], PATIENCE)
    assert [post.headers["webhook-id"] for post in receiver.posts] == [f"{approval_id}:1:requested:ops"]


def channels_file(folder: Path, **channels: Any) -> str:
    path = folder / "channels.json"
    path.write_text(json.dumps({"channels": channels}))
    return str(path)


def webhook(port: int) -> dict[str, Any]:
    url = f"http://127.0.0.1:{port}/"
    words = {"http": True, "ports": [port], "allow": ["127.0.0.1/32"]}
    return {"kind": "webhook", "url": url, "secret": "env:HOOK_SECRET", **words}


def slack_words(api: str) -> dict[str, Any]:
    words = {"kind": "slack", "token": "env:SLACK_BOT_TOKEN", "signing_secret": "env:SLACK_SIGNING_SECRET"}
    return {**words, "channel": CHANNEL, "people": {"U1": "alice"}, "api": api}


@pytest.fixture
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    monkeypatch.setenv("SLACK_BOT_TOKEN", TOKEN)
    monkeypatch.setenv("SLACK_SIGNING_SECRET", SIGNING_SECRET)


@contextmanager
def command(*words: str) -> Iterator[subprocess.Popen[str]]:
    """Run a command until the block ends, then ask it to stop."""
    line = [sys.executable, "-m", "indelible.cli", *words]
    with subprocess.Popen(line, cwd=ROOT, stderr=subprocess.PIPE, text=True, env=os.environ) as process:
        try:
            yield process
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE) == 0
        finally:
            process.kill()


@pytest.mark.usefixtures("secrets")
def test_74_the_worker_by_the_book_posts_to_slack_what_an_agent_without_channels_asked(
    cli: Cli, ledger_url: str, tmp_path: Path
) -> None:
    with slack_api() as slack, Ledger.open(ledger_url, seal=False) as agent:
        path = channels_file(tmp_path, slack=slack_words(slack.api))
        ask(agent)
        untold = {check["name"]: check for check in cli("doctor", "--json", code=None).json["checks"]}["people told"]
        assert untold["verdict"] == "warn"
        assert "worker --channels" in untold["fix"]
        with command("worker", "--url", ledger_url, "--channels", path):
            eventually(lambda: len(slack.questions) == 1, PATIENCE)
            ask(agent, 2)
            eventually(lambda: len(slack.questions) == 2, PATIENCE)
            eventually(lambda: {one.status for one in deliveries(agent)} == {"sent"}, PATIENCE)
        told = {check["name"]: check for check in cli("doctor", "--json", code=None).json["checks"]}["people told"]
        assert told["verdict"] == "ok"


@pytest.mark.usefixtures("secrets")
def test_74_the_server_tells_what_an_agent_without_channels_asked(ledger_url: str, tmp_path: Path) -> None:
    with receiving(Receiver()) as receiver, Ledger.open(ledger_url, seal=False) as agent:
        path = channels_file(tmp_path, ops=webhook(receiver.port))
        approval_id = ask(agent)
        with command("serve", "--url", ledger_url, "--channels", path, "--port", str(free_port())):
            assert receiver.wait_for(1)[0].json["data"]["approval"] == approval_id


def test_74_an_approval_that_only_a_channel_nobody_has_would_tell_is_counted(cli: Cli, ledger_url: str) -> None:
    with Ledger.open(ledger_url, policy={"approvals": {"notify": ["pager"]}}, seal=False) as agent:
        ask(agent)
        Outbox(agent._engine, agent.tenant, [Recorder("slack")]).go_once()
    checks = {check["name"]: check for check in cli("doctor", "--json", code=None).json["checks"]}
    assert checks["people told"]["verdict"] == "warn"
    assert "pager" in checks["people told"]["fix"]


@pytest.mark.usefixtures("secrets")
@pytest.mark.parametrize("words", [("channels", "test", "slack"), ("channels", "slack-listen")])
def test_74_without_the_slack_library_the_command_says_how_to_install_it(
    cli: Cli, ledger_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    path = channels_file(tmp_path, slack=slack_words("http://127.0.0.1:9/api/"))
    without_slack_sdk(monkeypatch)
    said = cli(*words, "--channels", path, code=2)
    assert "pip install 'indelible[slack]'" in said.err
    assert "Traceback" not in said.err


def without_slack_sdk(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refuse(name: str, *rest: Any, **words: Any) -> Any:
        if name.partition(".")[0] == "slack_sdk":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return real(name, *rest, **words)

    monkeypatch.setattr(builtins, "__import__", refuse)


@pytest.mark.parametrize("raised", [ValueError, SystemExit, KeyboardInterrupt])
def test_74_a_hook_that_asks_to_exit_is_tried_again_and_ends_no_sender(
    store_url: str, raised: type[BaseException]
) -> None:
    told: list[int] = []

    def hook(approval: Any, effect: Any) -> None:
        told.append(effect.args["i"])
        if len(told) == 1:
            raise raised("the chat library gave up")

    migrate(store_url)
    with Ledger.open(store_url, on_approval_required=hook, seal=False) as ledger:
        for number in range(2):
            ledger.begin(ToolCall(run_id="r", tool="wire", args={"i": number}), approval="required")
        eventually(lambda: sorted(told) in ([0, 0, 1], [0, 1, 1]))
