"""Pressed buttons: whether Slack really says so, just now and for the first time, and who pressed what.

A request counts when the app's signing secret signed it, at most five minutes ago, and it was not seen before. Who
decides is looked up by the Slack user's id, never by anything a user can choose. What is decided is named by approval
and digest, as they stood in the button.
"""

from __future__ import annotations

import hmac
import json
import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Protocol
from urllib.parse import parse_qs

from indelible.core.effects.effect import Actor
from indelible.core.values.visible import visible
from indelible.errors import BadCall, IndelibleError
from indelible.notify.channels import NotSent
from indelible.notify.hidden import Secret
from indelible.notify.slack_blocks import APPROVE, DENY, MOST_REASON, REASON_BLOCK, REASON_INPUT

_REMEMBERED = 600.0
MOST_BODY = 1_048_576
_log = logging.getLogger("indelible.notify.slack")


class Decide(Protocol):
    """Casts a vote, and raises an `IndelibleError` that says why when it does not count."""

    def __call__(self, approval_id: str, digest: str, is_approval: bool, by: Actor, reason: str) -> object: ...


class Speaks(Protocol):
    """Is what answers people in Slack: the channel that posted the message."""

    def open_reason(self, trigger: str, tool: str, carried: str) -> None: ...
    def whisper(self, channel: str, user: str, text: str) -> None: ...


WasPosted = Callable[[str, str, str], bool]
"""Says whether a message, by Slack channel and timestamp, is one that was posted about an approval."""


@dataclass(frozen=True, slots=True)
class SlackReply:
    """Is what Slack is answered."""

    status: int
    body: bytes = b""
    content_type: str = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class _Press:
    """Is one pressed button, or the window behind it."""

    user: str
    channel: str
    ts: str
    approval_id: str
    digest: str


class _Unreadable(Exception):
    """The request is signed, but nothing that this app's buttons send."""


class SlackInteractions:
    """Answers what Slack posts when somebody presses a button; a server mounts `handle` under a path of its choice."""

    def __init__(
        self,
        *,
        signing_secret: Secret,
        people: Mapping[str, str],
        decide: Decide,
        speaks: Speaks,
        was_posted: WasPosted,
        team: str | None = None,
    ) -> None:
        self._signing_secret = signing_secret
        self._people = dict(people)
        self._decide = decide
        self._speaks = speaks
        self._was_posted = was_posted
        self._team = team
        self._seen: dict[bytes, float] = {}
        self._lock = threading.Lock()

    def handle(self, headers: Mapping[str, str], body: bytes, now: float) -> SlackReply:
        """Carries out one request, which has to be a POST; `now` is the time in seconds."""
        if not is_signed_by_slack(self._signing_secret.reveal(), headers, body, now):
            return SlackReply(401, b"not signed by Slack, or too long ago\n")
        if self._is_repeated(body, headers, now):
            return SlackReply(409, b"seen before\n")
        try:
            payload = _payload(body)
            if self._team is not None and _text(payload, "team", "id") != self._team:
                return SlackReply(403, b"from another workspace\n")
            match payload.get("type"):
                case "block_actions":
                    return self._pressed(payload)
                case "view_submission" if _text(payload, "view", "callback_id") == DENY:
                    return self._reasoned(payload)
                case _:
                    return SlackReply(200)  # other things of the same app
        except _Unreadable:
            return SlackReply(400, b"nothing that this app's buttons send\n")

    def _is_repeated(self, body: bytes, headers: Mapping[str, str], now: float) -> bool:
        """Was this very request here before? Remembered for longer than its signature is good."""
        mark = sha256(_header(headers, "x-slack-signature").encode() + b"\0" + body).digest()
        with self._lock:
            for old in [seen for seen, at in self._seen.items() if at < now - _REMEMBERED]:
                del self._seen[old]
            is_repeated = mark in self._seen
            self._seen[mark] = now
        return is_repeated

    def _pressed(self, payload: Mapping[str, Any]) -> SlackReply:
        actions = payload.get("actions")
        action = actions[0] if isinstance(actions, list) and len(actions) == 1 else None
        if not isinstance(action, dict) or action.get("action_id") not in (APPROVE, DENY):
            return SlackReply(200)  # a button of somebody else's
        decision = "approve" if action["action_id"] == APPROVE else "deny"
        place = (_text(payload, "container", "channel_id"), _text(payload, "container", "message_ts"))
        press = _press(payload, _text(action, "value"), decision, *place)
        if self._person(press) is None:
            return SlackReply(200)
        if decision == "approve":
            self._vote(press, is_approval=True, reason="approved in Slack")
        else:
            self._ask_why(press, _text(payload, "trigger_id"))
        return SlackReply(200)

    def _ask_why(self, press: _Press, trigger: str) -> None:
        carried = {"channel": press.channel, "decision": "deny", "digest": press.digest, "id": press.approval_id}
        try:
            self._speaks.open_reason(trigger, press.approval_id, json.dumps({**carried, "ts": press.ts}))
        except NotSent as problem:
            _log.warning("the window for a reason could not be opened: %s", problem)

    def _reasoned(self, payload: Mapping[str, Any]) -> SlackReply:
        carried = _text(payload, "view", "private_metadata")
        place = _object(carried)
        press = _press(payload, carried, "deny", _text(place, "channel"), _text(place, "ts"))
        if self._person(press) is None:
            return _window_error("You are not among those who may decide.")
        reason = _text(payload, "view", "state", "values", REASON_BLOCK, REASON_INPUT, "value").strip()
        if not reason or len(reason) > MOST_REASON:
            return _window_error("Say why: a denial needs a reason, and it goes on the record.")
        refused = self._cast(press, is_approval=False, reason=reason)
        return SlackReply(200) if refused is None else _window_error(refused)

    def _person(self, press: _Press) -> str | None:
        """Gives who pressed; None, and tells them, when nobody knows them or the button was not in our message."""
        person = self._people.get(press.user)
        if person is None:
            _log.warning("somebody unknown pressed a button in Slack: %s", visible(press.user))
            self._tell(press, "You are not among those who may decide this.")
            return None
        if not self._was_posted(press.approval_id, press.channel, press.ts):
            _log.warning("a button was pressed in a message that was not posted for %s", visible(press.approval_id))
            self._tell(press, "This message is not the one that was posted about the approval; look for that one.")
            return None
        return person

    def _vote(self, press: _Press, *, is_approval: bool, reason: str) -> None:
        refused = self._cast(press, is_approval=is_approval, reason=reason)
        if refused is not None:
            self._tell(press, refused)

    def _cast(self, press: _Press, *, is_approval: bool, reason: str) -> str | None:
        """Casts the vote; gives why it does not count."""
        by = Actor(self._people[press.user], "person", "api_key")
        try:
            self._decide(press.approval_id, press.digest, is_approval, by, reason)
        except IndelibleError as refusal:
            return visible(str(refusal))
        return None

    def _tell(self, press: _Press, text: str) -> None:
        try:
            self._speaks.whisper(press.channel, press.user, text)
        except NotSent as problem:
            _log.warning("somebody could not be told in Slack: %s", problem)


class _At:
    """Is a clock that stands still."""

    def __init__(self, now: float) -> None:
        self._now = now

    def now(self) -> float:
        """Gives the time."""
        return self._now


def is_signed_by_slack(secret: str, headers: Mapping[str, str], body: bytes, now: float) -> bool:
    """Did Slack sign this request, at most five minutes ago?"""
    from slack_sdk.signature import SignatureVerifier

    at, signature = _header(headers, "x-slack-request-timestamp"), _header(headers, "x-slack-signature")
    if not (at.isascii() and at.isdigit() and len(at) <= 12 and signature.isascii()):
        return False
    verifier = SignatureVerifier(secret, clock=_At(now))  # type: ignore[arg-type]  # whatever tells the time will do
    try:
        return verifier.is_valid(body=body, timestamp=at, signature=signature)
    except UnicodeDecodeError:
        return False


def _header(headers: Mapping[str, str], name: str) -> str:
    """Gives a header that comes once; nothing when it is missing."""
    found = [value for key, value in headers.items() if key.lower() == name]
    return found[0] if len(found) == 1 else ""


def _payload(body: bytes) -> Mapping[str, Any]:
    try:
        fields = parse_qs(body.decode("ascii"), strict_parsing=True, max_num_fields=4)
    except ValueError:
        raise _Unreadable from None
    if len(fields.get("payload", [])) != 1:
        raise _Unreadable
    return _object(fields["payload"][0])


def _press(payload: Mapping[str, Any], value: str, decision: str, channel: str, ts: str) -> _Press:
    """Reads what a button carried; it has to say the same as the button it was on."""
    carried = _object(value)
    if not hmac.compare_digest(_text(carried, "decision"), decision):
        raise _Unreadable
    return _Press(_text(payload, "user", "id"), channel, ts, _text(carried, "id"), _text(carried, "digest"))


def _object(text: str) -> Mapping[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise _Unreadable from None
    if not isinstance(found, dict):
        raise _Unreadable
    return found


def _text(content: Mapping[str, Any], *path: str) -> str:
    """Gives a text from inside a payload."""
    found: Any = content
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    if not isinstance(found, str):
        raise _Unreadable
    return found


def _window_error(text: str) -> SlackReply:
    """Shows a message in the window that asked for the reason, which stays open."""
    content = {"response_action": "errors", "errors": {REASON_BLOCK: text}}
    return SlackReply(200, json.dumps(content).encode(), "application/json")


def interactions_of(channel: Any, decide: Decide, was_posted: WasPosted) -> SlackInteractions:
    """Gives what answers the buttons of a Slack channel; raises `BadCall` when it cannot be known who presses them."""
    if channel.signing_secret is None or not channel.people:
        raise BadCall(
            f"channel {channel.name}: buttons need the app's signing_secret, and people: which Slack user is who"
        )
    return SlackInteractions(
        signing_secret=channel.signing_secret,
        people=channel.people,
        decide=decide,
        speaks=channel,
        was_posted=was_posted,
        team=channel.team,
    )
