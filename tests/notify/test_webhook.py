"""A webhook is signed so that its receiver can tell who sent it and when, and only a 2xx answer means that it went."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from indelible.core.approvals.approval import Question
from indelible.core.values.canonical import encode
from indelible.core.values.tags import Encrypted
from indelible.errors import BadCall, KeyUnusable
from indelible.notify.channels import GiveUp, NotSent
from indelible.notify.hidden import Secret
from indelible.notify.webhook import WebhookChannel, content_of, key_pair
from tests.notify.making import NASTY, NOON, approval, approved, effect, message
from tests.notify.receivers import Post, Receiver, answering, cutting, dripping, make_certificate, receiving
from tests.waiting import PATIENCE, refusing

NEW, OLD = ("whsec_" + base64.b64encode(bytes([byte]) * 32).decode() for byte in (7, 8))


def channel_to(port: int, **settings: Any) -> WebhookChannel:
    """Gives a channel to a receiver on this machine."""
    settings = {"secret": Secret(NEW), "timeout": timedelta(seconds=10), **settings}
    url = settings.pop("url", f"http://127.0.0.1:{port}/hook?token=hidden")
    return WebhookChannel("ops", url, http=True, ports=[port], allow=["127.0.0.1/32"], **settings)


@contextmanager
def receiver_of(*statuses: int, **headers: str) -> Iterator[Receiver]:
    with receiving(Receiver(behave=answering(*statuses, **headers))) as receiver:
        yield receiver


def signatures(post: Post) -> dict[str, list[bytes]]:
    """Takes the header apart, as a receiver does."""
    found: dict[str, list[bytes]] = {}
    for part in post.headers["webhook-signature"].split(" "):
        version, _, signature = part.partition(",")
        found.setdefault(version, []).append(base64.b64decode(signature, validate=True))
    return found


def is_signed_with(post: Post, secret: str) -> bool:
    """Checks a post with code of our own, not with that of the sender."""
    signed = f"{post.headers['webhook-id']}.{post.headers['webhook-timestamp']}.".encode() + post.body
    digest = hmac.new(base64.b64decode(secret.removeprefix("whsec_")), signed, hashlib.sha256).digest()
    return any(hmac.compare_digest(digest, found) for found in signatures(post)["v1"])


# ── what it says ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_it_says_everything_that_somebody_needs_to_decide() -> None:
    about = effect({"amount": 5, "note": NASTY})
    asked = approval(about, Question(rule="refunds need a person"))
    with receiving() as receiver:
        made = message(effect=about, approval=asked, link="https://ledger.example/approvals/apr_1")
        assert channel_to(receiver.port).send(made) == {"status": 200}
    (post,) = receiver.posts
    assert post.path == "/hook?token=hidden"
    assert post.headers["content-type"] == "application/json"
    assert post.headers["webhook-id"] == made.id
    said = post.json
    assert (said["type"], said["timestamp"]) == ("approval.requested", "2030-01-02T12:00:00.000000Z")
    data = said["data"]
    assert (data["approval"], data["digest"], data["tool"], data["side_effect"], data["run"]) == (
        "apr_1",
        asked.digest,
        "refund",
        "payment",
        "run-1",
    )
    assert data["args"] == {"amount": 5, "note": NASTY}
    assert data["question"]["rule"] == "refunds need a person"
    assert data["expires_at"] == "2030-01-03T12:00:00.000000Z"
    assert data["links"] == {"show": "https://ledger.example/approvals/apr_1"}
    assert post.body.isascii()


def test_84_a_webhook_carries_the_arguments_that_its_digest_is_of_or_neither() -> None:
    asked, edited = effect({"to": "bob"}), effect({"to": "mallory"}, opened_seq=1, version=2)
    sealed = effect(args_json=encode(Encrypted(b"\x01" + bytes(52))))
    for other in (edited, sealed):
        data = content_of(message(approval=approval(asked), effect=other))["data"]
        assert (data["args"], data["text"], data["digest"]) == (None, None, None)
        assert (bool(data["why_not"]), data["show"]) == (True, "indelible approvals show apr_1")


def test_84_a_webhook_carries_a_text_to_show_and_what_to_look_at_closely() -> None:
    args = {"to": "p\u0430ypal", "note": NASTY}
    made = message(args=args)
    data = content_of(made)["data"]
    assert (json.loads(data["text"]), data["args"], data["digest"]) == (args, args, made.approval.digest)
    assert "\u202e" not in data["text"]
    assert {one["path"] for one in data["look_closely"]} == {"args.to", "args.note"}


def test_it_tells_how_it_ended_and_who_decided() -> None:
    with receiving() as receiver:
        channel_to(receiver.port).send(approved())
    said = receiver.posts[0].json
    assert (said["type"], said["data"]["status"]) == ("approval.approved", "approved")
    assert [vote["by"] for vote in said["data"]["votes"]] == ["alice"]
    assert said["data"]["links"] == {}


# ── signatures ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_reference_library_accepts_it_and_nothing_that_was_changed() -> None:
    with receiving() as receiver:
        channel_to(receiver.port).send(message())
    (post,) = receiver.posts
    judge = Webhook(NEW)
    assert judge.verify(post.body, post.headers)["type"] == "approval.requested"
    with pytest.raises(WebhookVerificationError):
        judge.verify(post.body.replace(b'"amount":5', b'"amount":6'), post.headers)
    for name, value in (("webhook-id", "other"), ("webhook-timestamp", str(int(time.time()) - 60))):
        with pytest.raises(WebhookVerificationError):
            judge.verify(post.body, {**post.headers, name: value})
    with pytest.raises(WebhookVerificationError):
        Webhook(OLD).verify(post.body, post.headers)


def test_an_old_one_is_too_old_for_the_receiver() -> None:
    with receiving() as receiver:
        channel_to(receiver.port, clock=lambda: time.time() - 3600).send(message())
    with pytest.raises(WebhookVerificationError, match="too old"):
        Webhook(NEW).verify(receiver.posts[0].body, receiver.posts[0].headers)


def test_two_secrets_sign_while_the_receiver_changes_over() -> None:
    with receiving() as receiver:
        channel_to(receiver.port, secret=[Secret(NEW), Secret(OLD)]).send(message())
    (post,) = receiver.posts
    assert is_signed_with(post, NEW)
    assert is_signed_with(post, OLD)
    for secret in (NEW, OLD):
        Webhook(secret).verify(post.body, post.headers)
    assert not is_signed_with(post, "whsec_" + base64.b64encode(b"x" * 32).decode())


def test_a_private_key_signs_so_that_the_receiver_can_check_but_not_sign() -> None:
    private, public = key_pair()
    with receiving() as receiver:
        channel_to(receiver.port, secret=(), key=Secret(private)).send(message())
        channel_to(receiver.port, key=[Secret(private), Secret(key_pair()[0])]).send(message())
    alone, beside = receiver.posts
    assert public.startswith("whpk_")
    key = Ed25519PublicKey.from_public_bytes(base64.b64decode(public.removeprefix("whpk_")))
    for post in (alone, beside):
        signed = f"{post.headers['webhook-id']}.{post.headers['webhook-timestamp']}.".encode() + post.body
        key.verify(signatures(post)["v1a"][0], signed)
        with pytest.raises(InvalidSignature):
            key.verify(signatures(post)["v1a"][0], signed + b" ")
    assert list(signatures(alone)) == ["v1a"]
    assert [len(found) for found in signatures(beside).values()] == [1, 2]


@pytest.mark.parametrize(
    ("secret", "problem"),
    [
        ("plain", "begins with whsec_"),
        ("whsec_***", "no base64"),
        ("whsec_" + base64.b64encode(b"short").decode(), "24 to 64 bytes"),
        ("whsec_" + base64.b64encode(b"x" * 65).decode(), "24 to 64 bytes"),
    ],
)
def test_a_secret_that_is_none_is_refused_without_being_shown(secret: str, problem: str) -> None:
    channel = channel_to(1, secret=Secret(secret))
    with pytest.raises(KeyUnusable, match=problem) as refused:
        channel.check()
    assert secret not in str(refused.value)


def test_a_key_that_is_none_is_refused() -> None:
    with pytest.raises(KeyUnusable, match="32 bytes"):
        channel_to(1, key=Secret("whsk_" + base64.b64encode(b"x" * 31).decode())).check()


def test_a_webhook_is_never_sent_unsigned() -> None:
    with pytest.raises(BadCall, match="signed"):
        WebhookChannel("ops", "https://hooks.example.com/")
    with pytest.raises(BadCall, match="at most two"):
        WebhookChannel("ops", "https://hooks.example.com/", secret=[Secret(NEW)] * 3)


# ── answers ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("status", [200, 201, 204, 299])
def test_a_2xx_means_that_it_went(status: int) -> None:
    with receiver_of(status) as receiver:
        assert channel_to(receiver.port).send(message()) == {"status": status}


@pytest.mark.parametrize("status", [301, 302, 307, 400, 401, 404, 429, 500, 502, 503])
def test_anything_else_means_that_it_did_not(status: int) -> None:
    with receiver_of(status) as receiver, pytest.raises(NotSent, match=str(status)) as problem:
        channel_to(receiver.port).send(message())
    assert not isinstance(problem.value, GiveUp)
    assert "words of the receiver" not in str(problem.value)
    assert "hidden" not in str(problem.value)  # the address may hold a secret


def test_a_receiver_that_wants_no_more_gets_no_more() -> None:
    with receiver_of(410) as receiver, pytest.raises(GiveUp):
        channel_to(receiver.port).send(message())


@pytest.mark.parametrize(
    ("said", "after"),
    [
        ("120", timedelta(seconds=120)),
        ("Wed, 02 Jan 2030 12:05:00 GMT", timedelta(minutes=5)),
        ("Wed, 02 Jan 2030 11:00:00 GMT", timedelta(0)),
        ("soon", None),
        ("99999999999999999999", timedelta(days=1)),
    ],
)
def test_a_receiver_can_ask_to_be_left_alone(said: str, after: timedelta | None) -> None:
    with receiver_of(503, Retry_After=said) as receiver, pytest.raises(NotSent) as problem:
        channel_to(receiver.port, clock=NOON.timestamp).send(message())
    assert problem.value.after == after


def test_nobody_there_is_a_failure() -> None:
    with refusing() as port, pytest.raises(NotSent, match="refused"):
        channel_to(port).send(message())


def test_a_connection_that_is_cut_is_a_failure() -> None:
    with receiving(Receiver(behave=cutting(1))) as receiver:
        channel = channel_to(receiver.port)
        with pytest.raises(NotSent):
            channel.send(message())
        assert channel.send(message()) == {"status": 200}
    assert [post.headers["webhook-id"] for post in receiver.posts] == ["apr_1:1:requested:ops"] * 2


def test_a_receiver_that_never_answers_is_a_failure_in_time() -> None:
    receiver = Receiver()
    receiver.behave = lambda post, line: (receiver.release.wait(PATIENCE), (200, {}, b""))[1]
    with receiving(receiver), pytest.raises(NotSent, match="no answer within"):
        channel_to(receiver.port, timeout=timedelta(milliseconds=200)).send(message())


def test_a_receiver_that_answers_for_ever_is_cut_off_in_time() -> None:
    with dripping() as port, pytest.raises(NotSent, match="no answer within"):
        channel_to(port, timeout=timedelta(milliseconds=300)).send(message())


def test_a_huge_answer_is_not_read() -> None:
    sent = []

    def flood(post: Post, line: Any) -> None:
        line.send_response(200)
        line.end_headers()
        for _ in range(4096):
            try:
                line.wfile.write(b"x" * 65_536)
            except OSError:
                return
            sent.append(65_536)

    with receiving(Receiver(behave=flood)) as receiver:
        assert channel_to(receiver.port).send(message()) == {"status": 200}
    assert sum(sent) < 64 * 1024 * 1024


def test_an_answer_that_is_no_http_is_a_failure() -> None:
    def talk(post: Post, line: Any) -> None:
        line.wfile.write(b"whsec_secret of the receiver\r\n\r\n")

    with receiving(Receiver(behave=talk)) as receiver, pytest.raises(NotSent) as problem:
        channel_to(receiver.port).send(message())
    assert "secret of" not in str(problem.value)


def test_a_name_that_cannot_be_looked_up_is_a_failure_that_may_pass() -> None:
    def nobody(host: str, port: int) -> list[str]:
        raise OSError(-2, "Name or service not known")

    with pytest.raises(NotSent, match="Name or service") as problem:
        channel_to(1, url="http://receiver.example:1/", resolve=nobody).send(message())
    assert not isinstance(problem.value, GiveUp)


# ── TLS ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def over_tls(port: int, host: str, trusted: Path | None) -> WebhookChannel:
    return WebhookChannel(
        "ops",
        f"https://{host}:{port}/",
        secret=Secret(NEW),
        ports=[port],
        allow=["127.0.0.1/32"],
        ca_file=trusted,
        resolve=lambda host, port: ["127.0.0.1"],
        timeout=timedelta(seconds=10),
    )


def test_the_certificate_has_to_be_that_of_the_name_though_the_number_is_pinned(tmp_path: Path) -> None:
    server, trusted = make_certificate(tmp_path, "receiver.example")
    with receiving(certificate=server) as receiver:
        assert over_tls(receiver.port, "receiver.example", trusted).send(message()) == {"status": 200}
        with pytest.raises(NotSent, match=r"(?i)certificate"):
            over_tls(receiver.port, "other.example", trusted).send(message())
        with pytest.raises(NotSent, match=r"(?i)certificate"):
            over_tls(receiver.port, "receiver.example", None).send(message())
    assert len(receiver.posts) == 1


def test_a_handshake_that_never_ends_is_cut_off_in_time() -> None:
    with dripping() as port:
        channel = over_tls(port, "receiver.example", None)
        channel._timeout = 0.3
        with pytest.raises(NotSent):
            channel.send(message())


# ── secrets ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_no_secret_is_ever_shown(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with receiver_of(500) as receiver:
        channel = channel_to(receiver.port, url=Secret(f"http://127.0.0.1:{receiver.port}/hook?token=hidden"))
        with pytest.raises(NotSent) as problem:
            channel.send(message())
    shown = f"{channel!r} {channel.place} {problem.value} {caplog.text} {vars(channel)!r}"
    assert NEW not in shown
    assert "hidden" not in shown
    assert json.dumps(receiver.posts[0].json).count("whsec") == 0
