"""The commands about channels, the worker that sends, and a button in Slack from the question to the run."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from indelible import Ledger, ToolCall
from indelible.notify.slack_blocks import APPROVE, DENY
from indelible.notify.slack_server import PATH
from tests.cli.conftest import Cli
from tests.notify.receivers import Receiver, answering, receiving
from tests.notify.recording import ask, deliveries, naming
from tests.notify.slack_api import (
    CHANNEL,
    SIGNING_SECRET,
    TOKEN,
    SlackApi,
    pressed,
    request,
    shown,
    slack_api,
    submitted,
)
from tests.waiting import eventually

ROOT = Path(__file__).parents[2]
PATIENCE = 60.0


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as running:
        yield running


@pytest.fixture
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the file of channels names."""
    monkeypatch.setenv("HOOK_SECRET", "whsec_" + "MTIz" * 10)
    monkeypatch.setenv("SLACK_TOKEN", TOKEN)
    monkeypatch.setenv("SLACK_SECRET", SIGNING_SECRET)


def written(folder: Path, **channels: dict[str, Any]) -> str:
    path = folder / "channels.json"
    path.write_text(json.dumps({"channels": channels}))
    return str(path)


def hook(port: int) -> dict[str, Any]:
    url = f"http://127.0.0.1:{port}/"
    secret = "env:HOOK_SECRET"
    return {"kind": "webhook", "url": url, "secret": secret, "http": True, "ports": [port], "allow": ["127.0.0.1/32"]}


def slack_of(api: str) -> dict[str, Any]:
    return {
        "kind": "slack",
        "token": "env:SLACK_TOKEN",
        "signing_secret": "env:SLACK_SECRET",
        "channel": CHANNEL,
        "people": {"U1": "alice"},
        "api": api,
    }


def asking(url: str, *names: str, keys: str | None = None) -> Ledger:
    """Opens a ledger that asks by channels that only others have."""
    return Ledger.open(url, policy=naming(*names), seal=False, keys=keys)


@contextmanager
def running(*words: str) -> Iterator[subprocess.Popen[str]]:
    """Runs a command until the block ends, then asks it to stop."""
    command = [sys.executable, "-m", "indelible.cli", *words]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True, env=os.environ) as process:
        try:
            yield process
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE) == 0
        finally:
            process.kill()


# ── looking after channels ───────────────────────────────────────────────────────────────────────────────────────────


def test_channels_are_listed_with_what_is_wrong_and_no_secret(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLACK_TOKEN", TOKEN)
    monkeypatch.setenv("SLACK_SECRET", SIGNING_SECRET)
    monkeypatch.delenv("HOOK_SECRET", raising=False)
    path = written(tmp_path, ops=hook(8443), people=slack_of("http://127.0.0.1:1/"))
    said = cli("channels", "list", "--channels", path, code=1)
    assert "ops     webhook  http://127.0.0.1:8443    the secret at env:HOOK_SECRET is not set" in said.out
    assert "people  slack    slack channel C024BE91L  ready" in said.out
    assert TOKEN not in said.out + said.err
    listed = cli("channels", "list", "--channels", path, "--json", code=1).json["channels"]
    assert [(one["name"], one["problem"] is None) for one in listed] == [("ops", False), ("people", True)]


@pytest.mark.usefixtures("secrets")
def test_a_trial_message_can_be_sent_and_decides_nothing(cli: Cli, tmp_path: Path, receiver: Receiver) -> None:
    with slack_api() as slack:
        path = written(tmp_path, ops=hook(receiver.port), people=slack_of(slack.api))
        assert "sent" in cli("channels", "test", "ops", "--channels", path).out
        cli("channels", "test", "people", "--channels", path)
        assert slack.questions == []
        assert "only a trial" in shown(next(iter(slack.messages.values())))
    assert receiver.posts[0].json["type"] == "approval.canceled"
    assert "no channel is called 'mail'" in cli("channels", "test", "mail", "--channels", path, code=2).err


@pytest.mark.usefixtures("secrets")
def test_a_trial_message_that_does_not_go_says_why(cli: Cli, tmp_path: Path, receiver: Receiver) -> None:
    receiver.behave = answering(404)
    path = written(tmp_path, ops=hook(receiver.port))
    assert "it did not go" in cli("channels", "test", "ops", "--channels", path, code=2).err


def test_the_file_of_channels_has_to_be_named(cli: Cli) -> None:
    assert "--channels" in cli("channels", "list", code=2).err


@pytest.mark.usefixtures("secrets")
def test_messages_are_listed_and_dead_ones_sent_again(
    cli: Cli, ledger_url: str, tmp_path: Path, receiver: Receiver
) -> None:
    receiver.behave = answering(410, 410, 200)
    path = written(tmp_path, ops=hook(receiver.port))
    assert cli("channels", "deliveries").out.startswith("Shown: 0 messages. Filter: none.")
    with asking(ledger_url, "ops") as ledger:
        one, other = ask(ledger, 1), ask(ledger, 2)
    assert [found["status"] for found in cli("channels", "deliveries", "--json").json["deliveries"]] == ["due", "due"]
    first = cli("channels", "deliveries", "--limit", "1", "--json").json
    assert (first["has_more"], first["next"]) == (True, f"{other}:1:requested:ops")
    assert "Shown: the only message." not in cli("channels", "deliveries", "--limit", "1").out
    rest = cli("channels", "deliveries", "--before", first["next"], "--json").json
    assert ([found["approval_id"] for found in rest["deliveries"]], rest["has_more"]) == ([one], False)
    cli("worker", "--once", "--channels", path)
    said = cli("channels", "deliveries", "--status", "dead")
    assert said.out.count("wants no more messages") == 2
    assert "channels redeliver --all-dead" in said.out
    about_one = cli("channels", "deliveries", "--approval", one, "--json").json["deliveries"]
    assert [found["id"] for found in about_one] == [f"{one}:1:requested:ops"]
    assert "1 message to be sent again" in cli("channels", "redeliver", f"{one}:1:requested:ops").out
    cli("worker", "--once", "--channels", path)
    assert cli("channels", "redeliver", "--all-dead", "--json").json["due"] == [f"{other}:1:requested:ops"]
    cli("worker", "--once", "--channels", path)
    found = cli("channels", "deliveries", "--json").json["deliveries"]
    assert [(one["status"], one["receipt"]) for one in found] == [("sent", {"status": 200})] * 2
    assert len(receiver.posts) == 4


def test_what_is_not_there_cannot_be_sent_again(cli: Cli, ledger_url: str) -> None:
    assert "no message has the id" in cli("channels", "redeliver", "apr_9:1:requested:ops", code=2).err
    for words in ([], ["x", "--all-dead"], ["x", "--channel", "ops"]):
        assert "--all-dead" in cli("channels", "redeliver", *words, code=2).err


# ── the worker ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.usefixtures("secrets")
def test_the_worker_tells_people_of_every_tenant(ledger_url: str, tmp_path: Path, receiver: Receiver) -> None:
    path = written(tmp_path, ops=hook(receiver.port))
    with asking(ledger_url, "ops") as ledger:
        ask(ledger)
        with Ledger.open(ledger_url, tenant="other", policy=naming("ops"), seal=False) as other:
            ask(other)
        with running("worker", "--all-tenants", "--url", ledger_url, "--channels", path):
            receiver.wait_for(2)
            ask(ledger, 2)
            receiver.wait_for(3)
            eventually(lambda: {found.status for found in deliveries(ledger)} == {"sent"}, PATIENCE)
    assert sorted(post.json["data"]["tenant"] for post in receiver.posts) == ["default", "default", "other"]


def test_the_worker_sees_to_late_approvals_without_any_channel(cli: Cli, ledger_url: str) -> None:
    policy = {"rules": [{"name": "all", "then": "ask", "approvals": {"expires": "1s"}}]}
    with Ledger.open(ledger_url, policy=policy, seal=False) as ledger:
        approval_id = ask(ledger)

        def is_over() -> bool:
            cli("worker", "--once")
            approval = ledger.get_approval(approval_id)
            return approval is not None and approval.status == "expired"

        eventually(is_over)


# ── Slack, from the question to the run ──────────────────────────────────────────────────────────────────────────────


def post(port: int, payload: dict[str, Any]) -> tuple[int, bytes]:
    headers, body = request(payload, time.time())
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.request("POST", PATH, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


@pytest.mark.usefixtures("secrets")
def test_a_button_lets_a_call_run_and_the_message_says_so(ledger_url: str, tmp_path: Path) -> None:
    with (
        slack_api() as slack,
        asking(ledger_url, "people") as ledger,
        running("worker", "--url", ledger_url, "--channels", written(tmp_path, people=slack_of(slack.api))),
        running(*listening(ledger_url, tmp_path)) as listener,
    ):
        port = port_of(listener)
        approve_one(slack, ledger, port)
        deny_another(slack, ledger, port)


def listening(url: str, folder: Path) -> list[str]:
    return ["channels", "slack-listen", "--url", url, "--port", "0", "--channels", str(folder / "channels.json")]


def port_of(listener: subprocess.Popen[str]) -> int:
    assert listener.stderr is not None
    line = listener.stderr.readline()
    assert "listening" in line, line
    return int(line.split("127.0.0.1:")[1].split("/")[0])


def approve_one(slack: SlackApi, ledger: Ledger, port: int) -> None:
    approval_id = ask(ledger, 1)
    (ts,) = eventually(lambda: slack.questions, PATIENCE)
    when_marked(ledger, approval_id)
    assert post(port, pressed(slack, ts, APPROVE, user="U9"))[0] == 200
    assert status_of(ledger, approval_id) == "pending"
    assert post(port, pressed(slack, ts, APPROVE))[0] == 200
    approval = ledger.get_approval(approval_id)
    assert approval is not None
    assert (approval.status, approval.votes[0].by, approval.votes[0].via) == ("approved", "alice", "api_key")
    call = ToolCall(run_id="order-1", tool="refund", args={"amount": 1, "card": "4242"})
    assert ledger.run(call, lambda effect: "ran", approval="required") == "ran"
    eventually(lambda: not slack.questions, PATIENCE)
    assert "was approved by alice" in shown(slack.messages[ts])
    actors = [event.read()["actor"] for event in ledger.events("order-1") if event.type == "approval_received"]
    assert [(actor["id"], actor["via"]) for actor in actors] == [("alice", "api_key")]


def deny_another(slack: SlackApi, ledger: Ledger, port: int) -> None:
    approval_id = ask(ledger, 2)
    (ts,) = eventually(lambda: slack.questions, PATIENCE)
    when_marked(ledger, approval_id)
    assert post(port, pressed(slack, ts, DENY))[0] == 200
    (window,) = slack.windows
    assert post(port, submitted(window, "too much")) == (200, b"")
    assert status_of(ledger, approval_id) == "denied"
    eventually(lambda: not slack.questions, PATIENCE)
    assert "was denied by alice: too much" in shown(slack.messages[ts])


def when_marked(ledger: Ledger, approval_id: str) -> None:
    """Waits until the sender wrote down which message it posted; a person is never as quick as that."""
    first = f"{approval_id}:1:requested:people"
    eventually(lambda: [found.status for found in deliveries(ledger, id=first)] == ["sent"], PATIENCE)


def status_of(ledger: Ledger, approval_id: str) -> str | None:
    approval = ledger.get_approval(approval_id)
    return None if approval is None else approval.status
