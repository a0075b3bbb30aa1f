"""Channels come from a file that can be understood in one way only, and in which no secret stands."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from indelible.errors import BadCall, KeyUnusable
from indelible.notify.config import load_channels
from indelible.notify.email import EmailChannel
from indelible.notify.slack import SlackChannel
from indelible.notify.webhook import WebhookChannel

GOOD = """
link: https://ledger.example.com
channels:
  ops:
    kind: webhook
    url: https://hooks.example.com/approvals
    secret: [env:NEW_SECRET, env:OLD_SECRET]
    key: file:webhook.key
    allow: [10.0.0.0/8]
    ports: [443, 8443]
    timeout: 10
  hidden:
    kind: webhook
    url: env:HOOK_URL
    secret: env:NEW_SECRET
  people:
    kind: slack
    token: env:SLACK_TOKEN
    signing_secret: file:slack.secret
    channel: C024BE91L
    team: T024BE7LD
    people: {U012AB3CD: alice}
  mail:
    kind: email
    host: smtp.example.com
    security: ssl
    username: ledger
    password: env:SMTP_PASSWORD
    sender: ledger@example.com
    to: [ops@example.com, boss@example.com]
    ca_file: ca.pem
"""


def written(folder: Path, text: str, name: str = "channels.yaml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_every_kind_of_channel_comes_from_a_file(tmp_path: Path) -> None:
    found = load_channels(written(tmp_path, GOOD))
    assert [type(channel) for channel in found] == [WebhookChannel, WebhookChannel, SlackChannel, EmailChannel]
    assert [channel.name for channel in found] == ["ops", "hidden", "people", "mail"]
    assert found.link == "https://ledger.example.com"
    slack = found.named("people")
    assert isinstance(slack, SlackChannel)
    assert slack.people == {"U012AB3CD": "alice"}


def test_the_file_in_the_documentation_is_one(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "notifications.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    assert [channel.name for channel in load_channels(written(tmp_path, text))] == ["ops", "slack", "mail"]


def test_json_will_do_as_well(tmp_path: Path) -> None:
    content = {"channels": {"ops": {"kind": "webhook", "url": "https://a.example/", "secret": "env:X"}}}
    (channel,) = load_channels(written(tmp_path, json.dumps(content), "channels.json"))
    assert channel.name == "ops"


def test_secrets_in_files_are_beside_the_file_that_names_them(tmp_path: Path) -> None:
    found = load_channels(written(tmp_path, GOOD))
    slack = found.named("people")
    assert isinstance(slack, SlackChannel)
    assert slack.signing_secret is not None
    secret = written(tmp_path, "hidden\n", "slack.secret")
    secret.chmod(0o644)
    with pytest.raises(KeyUnusable, match="chmod 600"):
        slack.signing_secret.reveal()
    secret.chmod(0o600)
    assert slack.signing_secret.reveal() == "hidden"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "empty"),
        ("[]", "begins with channels"),
        ("channels: []", "begins with channels"),
        ("channels: {}", "at least one"),
        ("channel: {}", "begins with channels"),
        ("channels: {ops: {kind: webhook, url: x}}\nextra: 1", "unknown: extra"),
        ("channels: {ops: 5}", "say its kind"),
        ("channels: {ops: {}}", "kind is one of webhook, slack, email"),
        ("channels: {ops: {kind: pager}}", "kind is one of"),
        ("channels: {ops: {kind: webhook}}", "ops: it lacks url"),
        ("channels: {ops: {kind: slack, channel: C1}}", "ops: it lacks token"),
        ("channels: {ops: {kind: webhook, url: 'https://a.example/', sekret: env:X}}", "unknown: sekret"),
        ("channels: {ops: {kind: webhook, url: 'https://a.example/', secret: hunter2}}", "never written down"),
        ("channels: {ops: {kind: webhook, url: 'https://a.example/', secret: [hunter2]}}", "never written down"),
        ("channels: {ops: {kind: webhook, url: 'https://a.example/', secret: 5}}", "secret is a text or a list"),
        ("channels: {ops: {kind: webhook, url: 'https://a.example/', secret: env:X, http: 1}}", "true or false"),
        ("channels: {ops: {kind: webhook, url: 'https://a.example/', secret: env:X, timeout: true}}", "whole number"),
        ("channels: {ops: {kind: webhook, url: 'https://127.1/', secret: env:X}}", "odd spelling"),
        ("channels: {ops: {kind: webhook, url: 'https://a.example/', secret: env:X, resolve: x}}", "unknown: resolve"),
        ("channels: {Ops: {kind: webhook, url: 'https://a.example/', secret: env:X}}", "small letters"),
        ("channels: {ops: {kind: webhook, url: 'https://a.example/', secret: env:X, allow: [x]}}", "network"),
        ("channels: {ops: {kind: email, host: h, sender: a@b.c, to: [nobody]}}", "plain mail address"),
        ("link: 5\nchannels: {ops: {kind: webhook}}", "give an address"),
        ("link: javascript:x\nchannels: {ops: {kind: email, host: h, sender: a@b.c, to: c@d.e}}", "link"),
        ("channels: {ops: {kind: webhook}, ops: {kind: slack}}", "twice"),
        ("channels: !!python/object:os.system {}", "tag"),
        ("channels: {", "no YAML"),
    ],
)
def test_what_is_wrong_is_said_and_no_secret_is_shown(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(BadCall, match=problem) as refused:
        load_channels(written(tmp_path, text))
    assert "hunter2" not in str(refused.value)
    assert "channels.yaml" in str(refused.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadCall, match="cannot be read"):
        load_channels(tmp_path / "none.yaml")
