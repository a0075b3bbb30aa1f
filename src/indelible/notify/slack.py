"""Slack: a message with buttons for each approval, changed when it is decided."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from datetime import timedelta
from http.client import HTTPException
from typing import TYPE_CHECKING, Any

from indelible.core.effects.calls import check_name as check_person
from indelible.errors import BadCall
from indelible.notify.channels import GiveUp, Message, NotSent, check_name
from indelible.notify.hidden import Kept, Secret, secret_of
from indelible.notify.slack_blocks import escaped, reason_view, sight_of
from indelible.notify.wording import headline

if TYPE_CHECKING:
    from slack_sdk import WebClient

SLACK_API = "https://slack.com/api/"
_TIMEOUT = timedelta(seconds=15)
# Answers of Slack that the same message gets every time.
_HOPELESS = frozenset(
    {
        "account_inactive",
        "channel_not_found",
        "invalid_blocks",
        "invalid_blocks_format",
        "is_archived",
        "msg_blocks_too_long",
        "msg_too_long",
        "no_text",
    }
)
# Answers to a change of a message that is not there any more, or not ours to change.
_UNCHANGEABLE = frozenset({"message_not_found", "cant_update_message", "edit_window_closed", "thread_not_found"})
# Requests are written to the library's debug log, arguments and all; that log is not for them.
_log = logging.getLogger("indelible.notify.slack")
_log.setLevel(logging.INFO)


class SlackChannel:
    """Posts questions with buttons to one Slack channel by a bot's token, and changes them when they are decided.

    `people` says who is who: the id of a Slack user, and the name under which they may decide. Somebody who is not
    listed sees the message and cannot decide. Pressed buttons come in by `SlackInteractions`, which needs the app's
    `signing_secret`.
    """

    def __init__(
        self,
        name: str,
        *,
        token: Kept,
        channel: str,
        signing_secret: Kept | None = None,
        people: Mapping[str, str] | None = None,
        team: str | None = None,
        timeout: timedelta = _TIMEOUT,
        api: str = SLACK_API,
    ) -> None:
        self.name = check_name(name)
        self._token = secret_of(token)
        self._channel = _slack_id("channel", channel)
        self.signing_secret: Secret | None = None if signing_secret is None else secret_of(signing_secret)
        self.people = checked_people(people or {})
        self.team = None if team is None else _slack_id("team", team)
        self._timeout = timeout
        self._api = api

    def __repr__(self) -> str:
        return f"SlackChannel({self.name}, {self._channel})"

    @property
    def place(self) -> str:
        """Names where the messages go."""
        return f"slack channel {self._channel}"

    def check(self) -> None:
        """Raises when a secret or the Slack library is missing."""
        self._client()
        if self.signing_secret is not None:
            self.signing_secret.reveal()

    def send(self, message: Message) -> Mapping[str, Any]:
        """Posts a question, or changes those that were posted before to say how it stands now."""
        earlier = [receipt for receipt in message.earlier.values() if "ts" in receipt]
        if message.kind in ("requested", "escalated") or not earlier:
            return self._post(message)
        changed = [self._change(message, receipt) for receipt in earlier]
        if message.asks or not any(changed):
            # Nobody is told of a change, so a question that became another one is told of beside it.
            return self._post(message, thread=None if not any(changed) else earlier[0]["ts"])
        return {"changed": len(earlier)}

    def open_reason(self, trigger: str, tool: str, carried: str) -> None:
        """Opens the window that asks somebody why they deny."""
        self._call("views.open", {"trigger_id": trigger, "view": reason_view(tool, carried)})

    def whisper(self, channel: str, user: str, text: str) -> None:
        """Tells one person something that nobody else sees."""
        self._call("chat.postEphemeral", {"channel": channel, "user": user, "text": escaped(text)})

    def _post(self, message: Message, thread: str | None = None) -> Mapping[str, Any]:
        if thread is not None:
            note = {"channel": self._channel, "thread_ts": thread, "text": escaped(headline(message))}
            self._call("chat.postMessage", note)
            return {"changed": 1}
        sight = sight_of(message)
        posted = self._call(
            "chat.postMessage",
            {
                "channel": self._channel,
                "text": sight.text,
                "blocks": sight.blocks,
                "unfurl_links": False,
                "unfurl_media": False,
                "metadata": {"event_type": "indelible_approval", "event_payload": {"delivery": message.id}},
            },
        )
        return {"channel": str(posted["channel"]), "ts": str(posted["ts"])}

    def _change(self, message: Message, receipt: Mapping[str, Any]) -> bool:
        """Changes a message; says whether it was there to be changed."""
        sight = sight_of(message)
        content = {"channel": receipt["channel"], "ts": receipt["ts"], "text": sight.text, "blocks": sight.blocks}
        try:
            self._call("chat.update", content)
        except _SlackSaid as said:
            if said.code not in _UNCHANGEABLE:
                raise
            return False
        return True

    def _client(self) -> WebClient:
        try:
            from slack_sdk import WebClient
        except ImportError as missing:
            raise BadCall("the Slack channel needs slack-sdk; run: pip install 'indelible[slack]'") from missing
        # No retries of the library's own: the outbox tries again, and knows what may have gone already.
        return WebClient(
            token=self._token.reveal(),
            base_url=self._api,
            timeout=max(1, int(self._timeout.total_seconds())),
            retry_handlers=[],
            logger=_log,
        )

    def _call(self, method: str, content: dict[str, Any]) -> Mapping[str, Any]:
        client = self._client()  # says how to install the library, if it is missing
        from slack_sdk.errors import SlackApiError, SlackClientError

        try:
            answer = client.api_call(method, json=content)
        except SlackApiError as error:
            raise _said(method, error.response) from None
        except (SlackClientError, OSError, HTTPException) as error:
            raise NotSent(f"slack cannot be reached: {type(error).__name__}") from None
        found = answer.data
        if not isinstance(found, dict):
            raise NotSent(f"slack answered {method} with something that is no JSON object")
        return found


class _SlackSaid(NotSent):
    """Slack refused; `code` is its word for why."""

    code = ""


class _SlackSaidForGood(_SlackSaid, GiveUp):
    """Slack refused, and will do so every time."""


def _said(method: str, response: Any) -> NotSent:
    code = str(response.get("error", ""))
    code = code if re.fullmatch("[a-z_]{1,60}", code) else "unknown"
    wait = str({name.lower(): value for name, value in (response.headers or {}).items()}.get("retry-after", ""))
    after = timedelta(seconds=min(int(wait), 86_400)) if wait.isascii() and wait.isdigit() else None
    kind = _SlackSaidForGood if code in _HOPELESS else _SlackSaid
    said = kind(f"slack refused {method}: {code} ({response.status_code})", after=after)
    said.code = code
    return said


def _slack_id(what: str, text: object) -> str:
    if not isinstance(text, str) or not re.fullmatch("[A-Z][A-Z0-9]{1,30}", text):
        raise BadCall(f"{what}={text!r}: give its id in Slack, as in C024BE91L")
    return text


def checked_people(people: Mapping[str, str]) -> dict[str, str]:
    """Gives who is who; raises `BadCall` unless Slack users' ids stand for people's names."""
    for user, person in people.items():
        _slack_id("people", user)
        check_person("people", person)
    return dict(people)
