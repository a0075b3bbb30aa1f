"""A pressed button counts if Slack says so, now, for the first time, by somebody who is known, in our own message."""

from __future__ import annotations

import http.client
import json
import select
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import pytest

from indelible import AwaitingApproval, Ledger, ToolCall, migrate
from indelible.cli.channels import _decider
from indelible.core.effects.effect import Actor
from indelible.errors import BadCall, StoreUnavailable, UnknownApproval
from indelible.notify.hidden import Secret
from indelible.notify.slack import SlackChannel
from indelible.notify.slack_blocks import APPROVE, DENY
from indelible.notify.slack_interactions import MOST_BODY, SlackInteractions, interactions_of
from indelible.notify.slack_server import PATH, SlackServer
from tests.notify.making import approval, message
from tests.notify.slack_api import (
    CHANNEL,
    SIGNING_SECRET,
    TOKEN,
    SlackApi,
    pressed,
    request,
    slack_api,
    submitted,
)
from tests.waiting import PATIENCE

NOW = 1_900_000_000.0
DIGEST = approval().digest


@dataclass
class Office:
    """Is a Slack with one question in it, and somebody who counts votes."""

    slack: SlackApi
    channel: SlackChannel
    interactions: SlackInteractions
    ts: str
    votes: list[tuple[str, str, bool, Actor, str]] = field(default_factory=list)
    refuse: Exception | None = None

    def decide(self, approval_id: str, digest: str, is_approval: bool, by: Actor, reason: str) -> None:
        if self.refuse is not None:
            raise self.refuse
        self.votes.append((approval_id, digest, is_approval, by, reason))

    def press(self, action: str, now: float = NOW, **changes: Any) -> int:
        return self.interactions.handle(*request(pressed(self.slack, self.ts, action, **changes), now), NOW).status


@contextmanager
def office_of(**settings: Any) -> Iterator[Office]:
    with slack_api() as slack:
        words = {"people": {"U1": "alice", "U2": "bob"}, "signing_secret": Secret(SIGNING_SECRET), **settings}
        channel = SlackChannel("ops", token=Secret(TOKEN), channel=CHANNEL, api=slack.api, **words)
        ts = channel.send(message())["ts"]
        offices: list[Office] = []
        interactions = interactions_of(
            channel,
            lambda *vote: offices[0].decide(*vote),
            lambda approval_id, place, at: (approval_id, place, at) == ("apr_1", CHANNEL, ts),
        )
        offices.append(Office(slack, channel, interactions, ts))
        yield offices[0]


@pytest.fixture
def office() -> Iterator[Office]:
    with office_of() as made:
        yield made


# ── what counts ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_approve_votes_for_exactly_what_was_shown(office: Office) -> None:
    assert office.press(APPROVE) == 200
    assert office.votes == [("apr_1", DIGEST, True, Actor("alice", "person", "api_key"), "approved in Slack")]
    assert office.slack.whispers == []


def test_deny_asks_for_a_reason_and_votes_with_it(office: Office) -> None:
    assert office.press(DENY) == 200
    assert office.votes == []
    (window,) = office.slack.windows
    assert window["trigger_id"] == "1.2.trigger"
    reply = office.interactions.handle(*request(submitted(window, " too much "), NOW), NOW)
    assert (reply.status, reply.body) == (200, b"")
    assert office.votes == [("apr_1", DIGEST, False, Actor("alice", "person", "api_key"), "too much")]


@pytest.mark.parametrize("reason", ["", "   ", "x" * 501])
def test_a_denial_needs_a_reason(office: Office, reason: str) -> None:
    office.press(DENY)
    reply = office.interactions.handle(*request(submitted(office.slack.windows[0], reason), NOW), NOW)
    assert json.loads(reply.body)["response_action"] == "errors"
    assert office.votes == []


def test_a_vote_that_does_not_count_is_told_to_who_cast_it(office: Office) -> None:
    office.refuse = UnknownApproval("it is not for alice to decide \u202e")
    assert office.press(APPROVE) == 200
    (whisper,) = office.slack.whispers
    assert (whisper["user"], whisper["channel"]) == ("U1", CHANNEL)
    assert whisper["text"] == "it is not for alice to decide ⟨U+202E⟩"
    office.press(DENY)
    reply = office.interactions.handle(*request(submitted(office.slack.windows[0], "no"), NOW), NOW)
    assert "not for alice" in json.loads(reply.body)["errors"]["reason"]


def test_a_slack_that_is_down_does_not_undo_a_vote(office: Office) -> None:
    office.slack.refusals += [("internal_error", 500, {})] * 2
    assert office.press(DENY) == 200  # the window does not open; the person can press again
    office.refuse = StoreUnavailable("the store is away")
    assert office.press(APPROVE) == 200
    assert office.votes == []


# ── forged ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def forged(headers: dict[str, str], body: bytes) -> Iterator[tuple[str, dict[str, str], bytes]]:
    """Gives requests that Slack did not make."""
    signature, at = headers["X-Slack-Signature"], headers["X-Slack-Request-Timestamp"]
    yield "no headers", {}, body
    yield "no signature", {"X-Slack-Request-Timestamp": at}, body
    yield "no time", {"X-Slack-Signature": signature}, body
    yield "another body", headers, body.replace(b"U1", b"U2")
    yield "a longer body", headers, body + b"&x=y"
    yield "another time", {**headers, "X-Slack-Request-Timestamp": str(int(at) + 1)}, body
    yield "an empty signature", {**headers, "X-Slack-Signature": ""}, body
    yield "another version", {**headers, "X-Slack-Signature": signature.replace("v0=", "v1=")}, body
    yield "half a signature", {**headers, "X-Slack-Signature": signature[:-10]}, body
    yield "no ASCII", {**headers, "X-Slack-Signature": signature + "ö"}, body
    yield "a time that is no number", {**headers, "X-Slack-Request-Timestamp": "now"}, body
    yield "a time before time", {**headers, "X-Slack-Request-Timestamp": f"-{at}"}, body
    yield "a time in other digits", {**headers, "X-Slack-Request-Timestamp": at.replace("1", "١")}, body
    yield "two times", {**headers, "x-slack-request-timestamp": at}, body
    yield "two signatures", {**headers, "x-slack-signature": signature}, body
    yield "no text", headers, b"\xff" + body


def test_a_forged_request_is_refused(office: Office) -> None:
    headers, body = request(pressed(office.slack, office.ts, APPROVE), NOW)
    for name, bad_headers, bad_body in forged(headers, body):
        assert office.interactions.handle(bad_headers, bad_body, NOW).status == 401, name
    other = request(pressed(office.slack, office.ts, APPROVE), NOW, secret="another secret")
    assert office.interactions.handle(*other, NOW).status == 401
    assert office.votes == []
    assert office.interactions.handle(headers, body, NOW).status == 200  # the true one still counts


@pytest.mark.parametrize("late", [-301, 301, 3600, 86_400])
def test_a_late_request_is_refused(office: Office, late: int) -> None:
    headers, body = request(pressed(office.slack, office.ts, APPROVE), NOW)
    assert office.interactions.handle(headers, body, NOW + late).status == 401
    assert office.votes == []


@pytest.mark.parametrize("late", [-299, 0, 299])
def test_a_request_within_five_minutes_counts(office: Office, late: int) -> None:
    headers, body = request(pressed(office.slack, office.ts, APPROVE), NOW)
    assert office.interactions.handle(headers, body, NOW + late).status == 200
    assert len(office.votes) == 1


def test_a_replayed_request_is_refused_for_as_long_as_its_signature_is_good(office: Office) -> None:
    headers, body = request(pressed(office.slack, office.ts, APPROVE), NOW)
    assert office.interactions.handle(headers, body, NOW - 300).status == 200
    for later in (NOW - 300, NOW, NOW + 299):
        assert office.interactions.handle(headers, body, later).status == 409
    assert len(office.votes) == 1
    assert office.interactions.handle(headers, body, NOW + 1000).status == 401
    again = {**headers, "x-slack-retry-num": "1"}
    assert office.interactions.handle(again, body, NOW).status == 409


def test_many_who_replay_at_once_count_once(office: Office) -> None:
    headers, body = request(pressed(office.slack, office.ts, APPROVE), NOW)
    start = threading.Barrier(8)
    statuses: list[int] = []

    def replay() -> None:
        start.wait()
        statuses.append(office.interactions.handle(headers, body, NOW).status)

    threads = [threading.Thread(target=replay) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(statuses) == [200] + [409] * 7
    assert len(office.votes) == 1


# ── who, and where ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_somebody_unknown_cannot_decide(office: Office) -> None:
    assert office.press(APPROVE, user="U9") == 200
    assert office.press(DENY, user="U9") == 200
    assert office.votes == []
    assert office.slack.windows == []
    assert [whisper["user"] for whisper in office.slack.whispers] == ["U9", "U9"]


def test_a_name_that_somebody_chose_says_nothing(office: Office) -> None:
    changed = pressed(office.slack, office.ts, APPROVE)
    changed["user"] = {"id": "U9", "name": "alice", "username": "alice"}
    office.interactions.handle(*request(changed, NOW), NOW)
    assert office.votes == []


def test_a_window_sent_by_somebody_else_is_theirs(office: Office) -> None:
    office.press(DENY)
    (window,) = office.slack.windows
    unknown = office.interactions.handle(*request(submitted(window, "no", user="U9"), NOW), NOW)
    assert b"errors" in unknown.body
    assert office.votes == []
    office.interactions.handle(*request(submitted(window, "no", user="U2"), NOW), NOW)
    assert [vote[3].id for vote in office.votes] == ["bob"]


def test_a_button_in_a_message_of_somebody_elses_making_does_nothing(office: Office) -> None:
    """Whoever can post with the app's token could show one thing and let people press a button for another."""
    for container in ({"message_ts": "9.9", "channel_id": CHANNEL}, {"message_ts": office.ts, "channel_id": "C9"}):
        assert office.press(APPROVE, container=container) == 200
        assert office.press(DENY, container=container) == 200
    assert office.votes == []
    assert office.slack.windows == []
    assert "not the one that was posted" in office.slack.whispers[0]["text"]


def test_another_workspace_is_refused() -> None:
    with office_of(team="T1") as office:
        assert office.press(APPROVE, team={"id": "T2"}) == 403
        assert office.press(APPROVE, team={}) == 400
        assert office.votes == []
        assert office.press(APPROVE) == 200
        assert len(office.votes) == 1


def test_a_button_says_what_it_is(office: Office) -> None:
    """A value that says another thing than the button it is on decides nothing."""
    value = json.dumps({"id": "apr_1", "digest": DIGEST, "decision": "deny"})
    assert office.press(APPROVE, actions=[{"action_id": APPROVE, "value": value}]) == 400
    assert office.votes == []


@pytest.mark.parametrize(
    "value",
    ["", "null", "[]", "{}", '{"id": "apr_1"}', '{"id": 1, "digest": 2, "decision": "approve"}', "{" * 5000, "NaN"],
)
def test_a_value_that_no_button_of_ours_has_decides_nothing(office: Office, value: str) -> None:
    assert office.press(APPROVE, actions=[{"action_id": APPROVE, "value": value}]) == 400
    assert office.votes == []


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"payload",
        b"payload=",
        b"payload=%7B",
        b"payload=[]",
        b"other=1",
        b"payload={}&payload={}",
        b"payload=%ff",
        urlencode({"payload": "[" * 100_000}).encode(),
    ],
)
def test_a_signed_request_that_says_nothing_is_refused(office: Office, body: bytes) -> None:
    assert office.interactions.handle(*request({}, NOW, body=body), NOW).status == 400
    assert office.votes == []


@pytest.mark.parametrize(
    "payload",
    [
        {"type": "shortcut"},
        {"type": "view_submission", "view": {"callback_id": "other"}},
        {"type": "block_actions", "actions": []},
        {"type": "block_actions", "actions": [{"action_id": "other"}]},
        {"type": "block_actions", "actions": [{"action_id": APPROVE}, {"action_id": APPROVE}]},
        {"type": "block_actions", "actions": "x"},
    ],
)
def test_what_is_not_ours_is_left_alone(office: Office, payload: dict[str, Any]) -> None:
    assert office.interactions.handle(*request(payload, NOW), NOW).status == 200
    assert office.votes == []


def test_nobody_can_press_where_nobody_is_known() -> None:
    for settings in ({"people": {}}, {"signing_secret": None}):
        words = {"people": {"U1": "alice"}, "signing_secret": Secret("x"), **settings}
        channel = SlackChannel("ops", token=Secret(TOKEN), channel=CHANNEL, **words)  # type: ignore[arg-type]
        with pytest.raises(BadCall, match="signing_secret"):
            interactions_of(channel, lambda *vote: None, lambda *place: True)


# ── the server ───────────────────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def served(office: Office, **words: float) -> Iterator[SlackServer]:
    with SlackServer(("127.0.0.1", 0), office.interactions, clock=lambda: NOW, **words) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def asked(server: SlackServer, method: str, path: str, headers: dict[str, str], body: bytes | None) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=PATIENCE)
    try:
        connection.request(method, path, body, headers)
        return connection.getresponse().status
    finally:
        connection.close()


def test_a_button_arrives_by_http(office: Office) -> None:
    with served(office) as server:
        headers, body = request(pressed(office.slack, office.ts, APPROVE), NOW)
        assert asked(server, "POST", PATH, headers, body) == 200
        assert asked(server, "POST", PATH, headers, body) == 409
        assert asked(server, "POST", PATH, {}, body) == 401
    assert len(office.votes) == 1


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_looking_at_an_address_decides_nothing(office: Office, method: str) -> None:
    headers, body = request(pressed(office.slack, office.ts, APPROVE), NOW)
    with served(office) as server:
        assert asked(server, method, PATH, headers, None) == 405
        assert asked(server, method, f"{PATH}?{body.decode()}", headers, None) == 405
        if method != "HEAD":
            assert asked(server, method, PATH, headers, body) == 405
    assert office.votes == []


def test_requests_are_limited(office: Office) -> None:
    with served(office) as server:
        assert asked(server, "POST", "/other", {}, b"") == 404
        assert asked(server, "POST", PATH, {"Content-Length": str(MOST_BODY + 1)}, None) == 413
        assert asked(server, "POST", PATH, {"Content-Length": "many"}, None) == 400
        assert asked(server, "POST", PATH, {"Transfer-Encoding": "chunked"}, None) == 411
        with socket.create_connection(("127.0.0.1", server.server_port), timeout=PATIENCE) as line:
            line.sendall(f"POST {PATH} HTTP/1.1\r\nContent-Length: 100\r\n\r\nshort".encode())
            line.shutdown(socket.SHUT_WR)
            assert line.recv(1000).startswith(b"HTTP/1.0 400")
    assert office.votes == []


def test_a_request_that_never_comes_to_an_end_is_cut_off(office: Office) -> None:
    with (
        served(office, most_seconds=0.3) as server,
        socket.create_connection(("127.0.0.1", server.server_port)) as line,
    ):
        line.sendall(f"POST {PATH} HTTP/1.1\r\nContent-Length: 1000\r\n\r\n".encode())
        line.settimeout(30)
        is_cut = False
        while not is_cut:
            try:
                line.sendall(b"x")
                is_cut = bool(select.select([line], [], [], 0.05)[0])
            except OSError:
                is_cut = True
    assert office.votes == []


def test_more_connections_than_there_is_room_for_are_turned_away(office: Office) -> None:
    with served(office) as server:
        while server._free.acquire(blocking=False):  # as if so many were being served
            continue
        with socket.create_connection(("127.0.0.1", server.server_port), timeout=PATIENCE) as line:
            assert line.recv(1) == b""
        server._free.release()
        assert asked(server, "GET", PATH, {}, None) == 405


def test_a_secret_that_is_missing_is_no_reason_to_believe_anybody() -> None:
    with office_of(signing_secret="env:NO_SUCH_SECRET") as office, served(office) as server:
        headers, body = request(pressed(office.slack, office.ts, APPROVE), NOW, secret="")
        assert asked(server, "POST", PATH, headers, body) == 503
        assert office.votes == []


def test_the_server_says_where_it_listens(office: Office) -> None:
    with served(office) as server:
        assert server.url == f"http://127.0.0.1:{server.server_port}{PATH}"


# ── pressed twice ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_73_a_second_press_of_a_button_is_harmless(store_url: str) -> None:
    """Each press is a request of its own; the button names one approval and its digest, so it can decide no other."""
    migrate(store_url)
    with Ledger.open(store_url) as ledger, slack_api() as slack:
        asked = []
        for run_id in ("order-1", "order-2"):
            call = ToolCall(tool="stripe.refund", args={"amount": 5}, run_id=run_id)
            begun = ledger.begin(call, approval="required", side_effect="payment")
            assert isinstance(begun, AwaitingApproval)
            asked.append(begun.approval)
        first, second = asked
        secret = Secret(SIGNING_SECRET)
        words = {"people": {"U1": "alice"}, "signing_secret": secret, "token": Secret(TOKEN), "api": slack.api}
        channel = SlackChannel("ops", channel=CHANNEL, **words)
        ts = channel.send(message(approval=first, effect=ledger.get_effect(first.effect_id)))["ts"]
        interactions = interactions_of(channel, _decider(ledger), lambda *place: True)
        for later in range(3):
            headers, body = request(pressed(slack, ts, APPROVE, trigger_id=f"1.{later}.trigger"), NOW + later)
            assert interactions.handle(headers, body, NOW + later).status == 200
        now = [ledger.get_approval(one.id) for one in (first, second)]
        assert [(one.status, len(one.votes)) for one in now if one is not None] == [("approved", 1), ("pending", 0)]
