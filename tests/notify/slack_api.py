"""A Slack of our own on loopback: takes messages, changes and windows, checks the token, and presses buttons."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import urlencode

from tests.notify.receivers import Answer, Post, Receiver, receiving

TOKEN = "xoxb-hidden-token"
SIGNING_SECRET = "hidden-signing-secret"
CHANNEL = "C024BE91L"


@dataclass
class SlackApi:
    """Is what Slack knows: the messages by their timestamps, the windows that were opened, and what was whispered."""

    receiver: Receiver = field(default_factory=Receiver)
    messages: dict[str, dict[str, Any]] = field(default_factory=dict)
    windows: list[dict[str, Any]] = field(default_factory=list)
    whispers: list[dict[str, Any]] = field(default_factory=list)
    refusals: list[tuple[str, int, dict[str, str]]] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)

    @property
    def api(self) -> str:
        """Is where it is."""
        return f"{self.receiver.url}/api/"

    def behave(self, post: Post, line: BaseHTTPRequestHandler) -> Answer:
        """Answers a call as Slack does."""
        method = post.path.removeprefix("/api/")
        self.calls.append(method)
        if post.headers.get("authorization") != f"Bearer {TOKEN}":
            return _said({"ok": False, "error": "invalid_auth"})
        if self.refusals:
            error, status, headers = self.refusals.pop(0)
            return _said({"ok": False, "error": error}, status, headers)
        content = post.json
        match method:
            case "chat.postMessage":
                ts = f"170000000{len(self.messages)}.000100"
                self.messages[ts] = content
                return _said({"ok": True, "channel": content["channel"], "ts": ts})
            case "chat.update" if content["ts"] in self.messages:
                self.messages[content["ts"]] = {**self.messages[content["ts"]], **content}
                return _said({"ok": True, "channel": content["channel"], "ts": content["ts"]})
            case "chat.update":
                return _said({"ok": False, "error": "message_not_found"})
            case "views.open":
                self.windows.append(content)
                return _said({"ok": True})
            case "chat.postEphemeral":
                self.whispers.append(content)
                return _said({"ok": True})
            case _:
                return _said({"ok": False, "error": "unknown_method"})

    @property
    def questions(self) -> list[str]:
        """Lists the timestamps of messages that have buttons now."""
        return [ts for ts, content in self.messages.items() if buttons(content)]


@contextmanager
def slack_api() -> Iterator[SlackApi]:
    """Runs it."""
    slack = SlackApi()
    slack.receiver.behave = slack.behave
    with receiving(slack.receiver):
        yield slack


def _said(content: dict[str, Any], status: int = 200, headers: dict[str, str] | None = None) -> Answer:
    return status, {"Content-Type": "application/json", **(headers or {})}, json.dumps(content).encode()


def buttons(content: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Gives the buttons of a message, by what they do."""
    return {
        element["action_id"]: element
        for block in content.get("blocks", [])
        if block["type"] == "actions"
        for element in block["elements"]
    }


def shown(content: dict[str, Any]) -> str:
    """Gives all that a message shows, as Slack would unescape it."""
    texts = []
    for block in content["blocks"]:
        texts += [element["text"] for element in block.get("elements", []) if isinstance(element.get("text"), str)]
        texts += [block["text"]["text"]] if "text" in block else []
    joined = "\n".join(texts)
    return joined.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def pressed(slack: SlackApi, ts: str, action: str, user: str = "U1", **changes: Any) -> dict[str, Any]:
    """Gives what Slack posts when somebody presses a button."""
    content = slack.messages[ts]
    button = buttons(content)[action]
    made = {
        "type": "block_actions",
        "user": {"id": user, "name": "whatever they like"},
        "team": {"id": "T1"},
        "trigger_id": "1.2.trigger",
        "container": {"type": "message", "message_ts": ts, "channel_id": content["channel"]},
        "actions": [{"action_id": action, "value": button["value"], "action_ts": "1.2"}],
    }
    return {**made, **changes}


def submitted(window: dict[str, Any], reason: str | None, user: str = "U1") -> dict[str, Any]:
    """Gives what Slack posts when somebody sends the window for a reason."""
    view = window["view"]
    state = {"values": {"reason": {"text": {"type": "plain_text_input", "value": reason}}}}
    return {
        "type": "view_submission",
        "user": {"id": user},
        "team": {"id": "T1"},
        "view": {"callback_id": view["callback_id"], "private_metadata": view["private_metadata"], "state": state},
    }


def request(
    payload: dict[str, Any], now: float, *, secret: str = SIGNING_SECRET, body: bytes | None = None
) -> tuple[dict[str, str], bytes]:
    """Signs a payload as Slack does, with code of our own."""
    body = urlencode({"payload": json.dumps(payload)}).encode() if body is None else body
    at = str(int(now))
    signature = hmac.new(secret.encode(), f"v0:{at}:".encode() + body, hashlib.sha256).hexdigest()
    headers = {
        "Content-Type": "application/x-www-form-urlencoded",
        "X-Slack-Request-Timestamp": at,
        "X-Slack-Signature": f"v0={signature}",
    }
    return headers, body
