"""A mail holds the whole question, escaped, over an encrypted line; nothing in it decides, and nothing gets into it."""

from __future__ import annotations

import email
import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from email import policy
from email.message import EmailMessage
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from indelible.core.values.canonical import encode
from indelible.core.values.tags import Encrypted
from indelible.errors import BadCall
from indelible.notify.channels import GiveUp, NotSent
from indelible.notify.email import EmailChannel, mail_of, message_id
from indelible.notify.hidden import Secret
from tests.notify.making import NASTY, NOON, approval, approved, denied, effect, message
from tests.notify.receivers import dripping, make_certificate
from tests.waiting import PATIENCE, free_port, refusing

HOST = "127.0.0.1"
HEADERS = {
    "auto-submitted",
    "content-type",
    "date",
    "from",
    "message-id",
    "mime-version",
    "subject",
    "to",
    "x-indelible-delivery",
}


class Postbox:
    """Takes mails; `answers` are what it says to them in turn, and then 250."""

    def __init__(self, *answers: str, refused: dict[str, str] | None = None) -> None:
        self.mails: list[EmailMessage] = []
        self.envelopes: list[Envelope] = []
        self.answers = list(answers)
        self.refused = refused or {}

    async def handle_RCPT(self, server: SMTP, session: Session, envelope: Envelope, address: str, options: Any) -> str:
        if address in self.refused:
            return self.refused[address]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        if self.answers:
            return self.answers.pop(0)
        assert isinstance(envelope.content, bytes)
        self.mails.append(email.message_from_bytes(envelope.content, policy=policy.SMTP))
        self.envelopes.append(envelope)
        return "250 OK"


@contextmanager
def postbox_at(box: Postbox, **words: Any) -> Iterator[int]:
    """Runs a mail server; gives its port."""
    port = free_port()
    controller = Controller(box, hostname=HOST, port=port, ready_timeout=PATIENCE, **words)
    controller.start()
    try:
        yield port
    finally:
        controller.stop()


@pytest.fixture
def tls(tmp_path: Path) -> tuple[ssl.SSLContext, Path]:
    """A server's side of TLS for localhost, and what its clients have to trust."""
    server, trusted = make_certificate(tmp_path, "localhost")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(server)
    return context, trusted


def channel_to(port: int, **settings: Any) -> EmailChannel:
    settings = {"host": HOST, "security": "none", "to": ["ops@example.com"], **settings}
    return EmailChannel("mail", port=port, sender="ledger@example.com", timeout=timedelta(seconds=10), **settings)


def parts(mail: EmailMessage) -> tuple[str, str]:
    """Gives a mail's text and its HTML."""
    text, html = mail.get_body(("plain",)), mail.get_body(("html",))
    assert text is not None
    assert html is not None
    return text.get_content(), html.get_content()


# ── what it says ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_mail_holds_the_whole_question_as_text_and_as_html() -> None:
    box = Postbox()
    with postbox_at(box) as port:
        receipt = channel_to(port, to=["ops@example.com", "boss@example.com"]).send(message(link="https://l.example/a"))
    (mail,) = box.mails
    assert receipt == {"message_id": "<apr_1.1.requested.ops@example.com>", "refused": []}
    assert mail["Message-ID"] == "<apr_1.1.requested.ops@example.com>"
    assert mail["X-Indelible-Delivery"] == "apr_1:1:requested:ops"
    assert mail["Subject"] == "Approval needed: refund (payment) asks to run"
    assert mail["Auto-Submitted"] == "auto-generated"
    assert mail["Date"].datetime.tzinfo is not None
    assert box.envelopes[0].rcpt_tos == ["ops@example.com", "boss@example.com"]
    for part in parts(mail):
        for said in ("refund", "payment", "run-1", "refunds need a person", "2030-01-03 12:00:00 UTC", "apr_1"):
            assert said in part
        assert approval().digest in part
        assert "amount" in part
        assert "indelible approvals show apr_1" in part
        assert "https://l.example/a" in part


def test_it_tells_how_it_ended_in_the_same_thread() -> None:
    first = {"requested": {"message_id": "<apr_1.1.requested.ops@example.com>"}}
    made = denied("too much")
    told = message("denied", effect=made.effect, approval=made.approval, earlier=first)
    mail = mail_of(told, "a@b.example", ["c@d.e"], NOON)
    assert mail["In-Reply-To"] == mail["References"] == "<apr_1.1.requested.ops@example.com>"
    assert all("denied by carol: too much" in part for part in parts(mail))
    assert "approved by alice" in parts(mail_of(approved(), "a@b.example", ["c@d.e"], NOON))[0]


class Seen(HTMLParser):
    """Notes what a reader of mail would act on."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.links: list[str | None] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.links += [value for name, value in attrs if name in ("href", "src", "action") or name.startswith("on")]

    def handle_data(self, data: str) -> None:
        self.text += data


def test_nothing_hides_in_a_mail_and_nothing_acts() -> None:
    made = message(args={NASTY: NASTY}, effect=None)
    nasty = message(effect=effect({"note": NASTY}, tool="refund"), approval=approval(tool=NASTY, run_id=NASTY))
    for one in (made, nasty):
        text, html = parts(mail_of(one, "a@b.example", ["c@d.e"], NOON))
        seen = Seen()
        seen.feed(html)
        assert seen.tags <= {"html", "body", "p", "strong", "table", "tr", "th", "td", "code", "pre"}
        assert seen.links == []
        for shown in (text, seen.text):
            assert "⟨U+202E⟩⟨U+200B⟩" in shown
            assert "⟨U+3164⟩⟨U+27E8⟩U+0041⟩" in shown
            assert not {"\u202e", "\u200b", "\x1b", "\u3164"} & set(shown)


def test_no_link_decides_and_none_is_there_without_one() -> None:
    made = mail_of(message(link="https://ledger.example/approvals/apr_1"), "a@b.example", ["c@d.e"], NOON)
    seen = Seen()
    seen.feed(parts(made)[1])
    assert seen.links == ["https://ledger.example/approvals/apr_1"]
    assert "digest=" not in str(seen.links)


def test_what_was_erased_is_said_to_be() -> None:
    gone = effect(status="denied", args_json=None, detail_seq=1, detail_json=None)
    made = message("denied", effect=gone, approval=approval(status="denied", principal="zoe"))
    text, _ = parts(mail_of(made, "a@b.example", ["c@d.e"], NOON))
    assert "was denied: (erased)" in text
    assert "arguments, as recorded:\n(not shown: its arguments were erased)" in text.replace("\r", "")
    assert "agent for zoe" in text


def test_84_a_mail_shows_the_arguments_that_the_digest_is_of_or_none() -> None:
    asked, edited = effect({"to": "bob"}), effect({"to": "mallory"}, opened_seq=1, version=2)
    sealed = effect(args_json=encode(Encrypted(b"\x01" + bytes(52))))
    for other in (edited, sealed):
        texts = list(parts(mail_of(message(approval=approval(asked), effect=other), "a@b.example", ["c@d.e"], NOON)))
        assert len(texts) == 2
        for text in texts:
            assert "mallory" not in text
            assert "$encrypted" not in text
            assert "indelible approvals show apr_1" in text


def test_84_a_mail_shows_json_that_says_the_same_and_what_to_look_at_closely() -> None:
    args = {"to": "p\u0430ypal", "note": NASTY}
    text, html = parts(mail_of(message(args=args), "a@b.example", ["c@d.e"], NOON))
    recorded = text.replace("\r", "").partition("arguments, as recorded:\n")[2]
    shown, _, closely = recorded.partition("\n\nlook closely\n")
    assert json.loads(shown) == args
    for one in (closely, html):
        assert "args.to: mixes Cyrillic and Latin letters" in one


@pytest.mark.parametrize(
    "nasty", ["x\r\nBcc: all@example.com", "x\nBcc: all@example.com", "x\r\n\r\nbody", "x\u2028Bcc: a@b.c", "x" * 5000]
)
def test_no_header_gets_into_a_mail(nasty: str) -> None:
    box = Postbox()
    with postbox_at(box) as port:
        channel_to(port).send(message(approval=approval(tool=nasty, side_effect=nasty, run_id=nasty)))
    (mail,) = box.mails
    assert mail["Bcc"] is None
    assert {name.lower() for name, _ in mail.items()} == HEADERS
    assert box.envelopes[0].rcpt_tos == ["ops@example.com"]
    assert len(mail["Subject"]) <= 200


@pytest.mark.parametrize(
    "address",
    [
        "",
        "ops",
        "a@b@c",
        "a b@c.d",
        "a@b.c\r\nRCPT TO:<x@y.z>",
        "a@b.c, d@e.f",
        "<a@b.c>",
        "ö@b.c",
        "a@b..c",
        '"a"@b.c',
    ],
)
def test_an_address_is_a_plain_one(address: str) -> None:
    with pytest.raises(BadCall, match="plain mail address"):
        channel_to(1, to=[address])


def test_the_id_of_a_mail_is_that_of_the_delivery() -> None:
    assert message_id("apr_1:2:escalated-1:ops", "example.com") == "<apr_1.2.escalated-1.ops@example.com>"


# ── the line ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def login(server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: Any) -> AuthResult:
    """Lets in whoever knows the password."""
    is_right = isinstance(data, LoginPassword) and (data.login, data.password) == (b"ledger", b"right")
    return AuthResult(success=is_right, handled=is_right)


def test_a_password_goes_over_starttls(tls: tuple[ssl.SSLContext, Path]) -> None:
    context, trusted = tls
    box = Postbox()
    words = {"host": "localhost", "security": "starttls", "ca_file": trusted, "username": "ledger"}
    with postbox_at(box, tls_context=context, require_starttls=True, authenticator=login, auth_required=True) as port:
        channel_to(port, password=Secret("right"), **words).send(message())
        with pytest.raises(NotSent, match="password") as problem:
            channel_to(port, password=Secret("wrong"), **words).send(message())
        assert "wrong" not in str(problem.value)
        with pytest.raises(NotSent, match=r"(?i)certificate"):
            channel_to(port, password=Secret("right"), **{**words, "ca_file": None}).send(message())
    assert len(box.mails) == 1


def test_a_server_that_offers_no_encryption_gets_nothing() -> None:
    box = Postbox()
    with postbox_at(box) as port, pytest.raises(NotSent, match="NotSupported"):
        channel_to(port, security="starttls").send(message())
    assert box.mails == []


def test_tls_from_the_first_byte(tls: tuple[ssl.SSLContext, Path]) -> None:
    context, trusted = tls
    box = Postbox()
    with postbox_at(box, ssl_context=context) as port:
        channel_to(port, host="localhost", security="ssl", ca_file=trusted).send(message())
    assert len(box.mails) == 1


def test_a_password_never_goes_in_the_clear() -> None:
    with pytest.raises(BadCall, match="in the clear"):
        channel_to(1, username="ledger", password=Secret("right"))
    with pytest.raises(BadCall, match="come together"):
        channel_to(1, security="ssl", username="ledger")
    with pytest.raises(BadCall, match="choose one of"):
        channel_to(1, security="tls")
    with pytest.raises(BadCall, match="to whom"):
        channel_to(1, to=[])


# ── refusals ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_server_that_says_later_is_asked_later() -> None:
    box = Postbox("451 busy")
    with postbox_at(box) as port:
        with pytest.raises(NotSent, match="451") as problem:
            channel_to(port).send(message())
        assert not isinstance(problem.value, GiveUp)
        channel_to(port).send(message())
    assert len(box.mails) == 1


def test_a_server_that_says_never_is_not_asked_again() -> None:
    with postbox_at(Postbox("554 never")) as port, pytest.raises(GiveUp, match="554"):
        channel_to(port).send(message())


def test_a_mail_that_reaches_some_has_gone() -> None:
    box = Postbox(refused={"gone@example.com": "550 unknown"})
    with postbox_at(box) as port:
        receipt = channel_to(port, to=["ops@example.com", "gone@example.com"]).send(message())
        assert receipt["refused"] == ["gone@example.com"]
        with pytest.raises(GiveUp, match="everybody"):
            channel_to(port, to=["gone@example.com"]).send(message())
    assert len(box.mails) == 1


def test_some_who_are_refused_for_now_are_tried_again() -> None:
    with postbox_at(Postbox(refused={"full@example.com": "452 full"})) as port, pytest.raises(NotSent) as problem:
        channel_to(port, to=["full@example.com"]).send(message())
    assert not isinstance(problem.value, GiveUp)


def test_nobody_there_is_a_failure() -> None:
    with refusing() as port, pytest.raises(NotSent, match="refused"):
        channel_to(port).send(message())


def test_something_else_there_is_a_failure() -> None:
    with dripping() as port, pytest.raises(NotSent):
        channel_to(port).send(message())


def test_no_secret_is_shown() -> None:
    channel = channel_to(1, security="ssl", username="ledger", password=Secret("right"))
    assert "right" not in f"{channel!r} {channel.place} {vars(channel)!r}"
    channel.check()
