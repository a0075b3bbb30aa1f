"""E-mail: the whole question as text and as HTML, to be read; it is decided elsewhere."""

from __future__ import annotations

import re
import smtplib
import socket
import ssl
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email import policy
from email.headerregistry import Address
from email.message import EmailMessage
from html import escape
from pathlib import Path
from typing import Any, Literal, get_args

from indelible.core.approvals.rendering import show_command
from indelible.errors import BadCall
from indelible.notify import wording
from indelible.notify.channels import GiveUp, Message, NotSent, check_name
from indelible.notify.hidden import Kept, secret_of

Security = Literal["starttls", "ssl", "none"]
_PORTS: dict[str, int] = {"starttls": 587, "ssl": 465, "none": 25}
_TIMEOUT = timedelta(seconds=15)
_ADDRESS = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~.-]{1,64}@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*")
_MOST_SUBJECT = 200


class EmailChannel:
    """Mails every message to the same people, over STARTTLS or TLS; a server that offers neither gets nothing.

    `security="none"` speaks in the clear, for a mail server on the same machine. Nothing in a mail decides anything.
    """

    def __init__(
        self,
        name: str,
        *,
        host: str,
        sender: str,
        to: Iterable[str],
        port: int | None = None,
        security: Security = "starttls",
        username: str | None = None,
        password: Kept | None = None,
        timeout: timedelta = _TIMEOUT,
        ca_file: str | Path | None = None,
    ) -> None:
        self.name = check_name(name)
        if security not in get_args(Security):
            raise BadCall(f"channel {name}: security={security!r}: choose one of {', '.join(get_args(Security))}")
        if (username is None) != (password is None):
            raise BadCall(f"channel {name}: a username and a password come together")
        if username is not None and security == "none":
            raise BadCall(f"channel {name}: a password is never sent in the clear; choose starttls or ssl")
        self._host = host
        self._port = _PORTS[security] if port is None else port
        self._security = security
        self._sender = checked_address(sender)
        self._to = tuple(checked_address(one) for one in ([to] if isinstance(to, str) else to))
        if not self._to:
            raise BadCall(f"channel {name}: say to whom")
        self._username = username
        self._password = None if password is None else secret_of(password)
        self._timeout = timeout.total_seconds()
        self._ca_file = None if ca_file is None else str(ca_file)

    def __repr__(self) -> str:
        return f"EmailChannel({self.name}, {self._host}:{self._port})"

    @property
    def place(self) -> str:
        """Names where the messages go."""
        return f"{', '.join(self._to)} by {self._host}:{self._port}"

    def check(self) -> None:
        """Raises when a secret is missing."""
        if self._password is not None:
            self._password.reveal()

    def send(self, message: Message) -> Mapping[str, Any]:
        """Hands the mail to the server, which takes it for at least one of the people."""
        mail = mail_of(message, self._sender, self._to, datetime.now(UTC))
        try:
            refused = self._hand_over(mail)
        except smtplib.SMTPRecipientsRefused as problem:
            codes = [code for code, _ in problem.recipients.values()]
            is_final = all(map(_is_for_good, codes))
            raise _refused("everybody it is for", max(codes, default=0), is_final=is_final) from None
        except smtplib.SMTPAuthenticationError as problem:
            raise NotSent(f"{self._host} does not take our password ({problem.smtp_code})") from None
        except smtplib.SMTPResponseException as problem:
            raise _refused(self._host, problem.smtp_code, is_final=_is_for_good(problem.smtp_code)) from None
        except (OSError, smtplib.SMTPException) as problem:
            raise NotSent(f"{self._host}: {_said(problem)}") from None
        return {"message_id": str(mail["Message-ID"]), "refused": sorted(refused)}

    def _hand_over(self, mail: EmailMessage) -> Mapping[str, Any]:
        server = self._connected()
        try:
            refused = server.send_message(mail, self._sender, list(self._to))
            with suppress(OSError, smtplib.SMTPException):  # it has the mail, however the goodbye goes
                server.quit()
            return refused
        finally:
            server.close()

    def _connected(self) -> smtplib.SMTP:
        context = ssl.create_default_context(cafile=self._ca_file)
        # This machine's name goes to the mail server; asking the network for it can hang.
        name = socket.gethostname() if socket.gethostname().isascii() else "localhost"
        if self._security == "ssl":
            server: smtplib.SMTP = smtplib.SMTP_SSL(
                self._host, self._port, local_hostname=name, timeout=self._timeout, context=context
            )
        else:
            server = smtplib.SMTP(self._host, self._port, local_hostname=name, timeout=self._timeout)
        try:
            if self._security == "starttls":
                server.starttls(context=context)
            if self._username is not None and self._password is not None:
                server.login(self._username, self._password.reveal())
        except BaseException:
            server.close()
            raise
        return server


def mail_of(message: Message, sender: str, to: Iterable[str], now: datetime) -> EmailMessage:
    """Writes the mail: text and HTML that say the same, and headers that hold nothing but what belongs there."""
    mail = EmailMessage(policy=policy.SMTP)
    domain = sender.rpartition("@")[2]
    subject = f"{'Approval needed' if message.asks else 'Approval'}: {wording.headline(message)}"
    mail["Subject"] = subject if len(subject) <= _MOST_SUBJECT else subject[: _MOST_SUBJECT - 1] + "…"
    mail["From"] = Address(addr_spec=sender)
    mail["To"] = [Address(addr_spec=one) for one in to]
    mail["Date"] = now
    mail["Message-ID"] = message_id(message.id, domain)
    if message.kind != "requested":
        first = message.earlier.get("requested", {}).get("message_id")
        if isinstance(first, str) and re.fullmatch(r"<[A-Za-z0-9._@-]+>", first):
            mail["In-Reply-To"] = first
            mail["References"] = first
    mail["Auto-Submitted"] = "auto-generated"
    mail["X-Indelible-Delivery"] = message.id
    mail.set_content(plain_text(message))
    mail.add_alternative(html_text(message), subtype="html")
    return mail


def message_id(delivery_id: str, domain: str) -> str:
    """Gives the id of a mail: the delivery's, in the letters that such an id may have."""
    return f"<{re.sub('[^A-Za-z0-9_-]', '.', delivery_id)}@{domain}>"


def plain_text(message: Message) -> str:
    """Gives the mail as text."""
    lines = [wording.headline(message)]
    if not message.asks:
        lines.append(f"It {wording.ending(message)}.")
    width = max(len(name) for name, _ in wording.facts(message))
    lines += ["", *(f"{name.ljust(width)}  {value}" for name, value in wording.facts(message))]
    lines += ["", "arguments, as recorded:", wording.shown(message).plain, "", _next_step(message)]
    if message.link is not None:
        lines.append(f"Look at it: {message.link}")
    return "\n".join(lines) + "\n"


def html_text(message: Message) -> str:
    """Gives the mail as HTML: no pictures, no scripts, and no address but the one to look at it."""
    rows = "".join(
        f"<tr><th align=left>{escape(name)}</th><td><code>{escape(value)}</code></td></tr>\n"
        for name, value in wording.facts(message)
    )
    told = "" if message.asks else f"<p>It {escape(wording.ending(message))}.</p>\n"
    link = "" if message.link is None else f'<p><a href="{escape(message.link)}">Look at it</a></p>\n'
    return (
        "<!doctype html>\n<html><body>\n"
        f"<p><strong>{escape(wording.headline(message))}</strong></p>\n{told}"
        f"<table cellpadding=4>\n{rows}</table>\n"
        f"<p>Arguments, as recorded:</p>\n<pre>{escape(wording.shown(message).plain)}</pre>\n"
        f"<p>{escape(_next_step(message))}</p>\n{link}</body></html>\n"
    )


def checked_address(text: object) -> str:
    """Gives a mail address; raises `BadCall` unless it is a plain one, in which nothing else can hide."""
    if not isinstance(text, str) or len(text) > 254 or not _ADDRESS.fullmatch(text):
        raise BadCall(f"{text!r}: give a plain mail address, as in ops@example.com")
    return text


def _next_step(message: Message) -> str:
    verb = "See it in full and decide" if message.asks else "See it in full"
    return f"{verb}: {show_command(message.approval)}"


def _is_for_good(code: int) -> bool:
    return 500 <= code < 600


def _refused(who: str, code: int, *, is_final: bool) -> NotSent:
    return (GiveUp if is_final else NotSent)(f"the mail server refused {who} ({code})")


def _said(problem: Exception) -> str:
    """Says what went wrong on the way, without the server's own words."""
    if isinstance(problem, OSError) and not isinstance(problem, smtplib.SMTPException):
        return problem.strerror or str(problem) or type(problem).__name__
    return type(problem).__name__
