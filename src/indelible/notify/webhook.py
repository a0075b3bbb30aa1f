"""Webhooks, signed as Standard Webhooks says: the receiver knows who sent them, when, and that it is no repeat."""

from __future__ import annotations

import hmac
import json
import time
from base64 import b64decode, b64encode
from binascii import Error as NoBase64
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from hashlib import sha256
from http.client import HTTPException
from pathlib import Path
from typing import Any

from indelible.core.events import instant
from indelible.errors import BadCall, KeyUnusable
from indelible.notify import wording
from indelible.notify.channels import GiveUp, Message, NotSent, check_name
from indelible.notify.hidden import Kept, Secret, secrets_of
from indelible.notify.posting import Reply, post
from indelible.notify.ssrf import Forbidden, Resolve, Target, networks, pinned, read_url, resolve_by_system

_MOST_SECRETS = 2
_LEAST_BYTES, _MOST_BYTES = 24, 64
_TIMEOUT = timedelta(seconds=15)
_GONE = 410


class WebhookChannel:
    """Posts JSON to one address, signed with HMAC-SHA256 (`secret`), with Ed25519 (`key`), or with both.

    Two secrets or two keys, the new one first, are for the time in which the receiver changes over. The address may be
    a `Secret`, for some hold one. Only https is used unless `http` is chosen; numbers inside the own network are
    refused unless `allow` lists their network.
    """

    def __init__(
        self,
        name: str,
        url: str | Secret,
        *,
        secret: Kept | Sequence[Kept] = (),
        key: Kept | Sequence[Kept] = (),
        allow: Iterable[str] = (),
        ports: Iterable[int] | None = None,
        http: bool = False,
        timeout: timedelta = _TIMEOUT,
        ca_file: str | Path | None = None,
        resolve: Resolve = resolve_by_system,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.name = check_name(name)
        self._url = url
        self._secrets = secrets_of(secret)
        self._keys = secrets_of(key)
        self._allowed = networks(allow)
        self._ports = None if ports is None else frozenset(ports)
        self._http = http
        self._timeout = timeout.total_seconds()
        self._ca_file = None if ca_file is None else Path(ca_file)
        self._resolve = resolve
        self._clock = clock
        if not self._secrets and not self._keys:
            raise BadCall(f"channel {name}: a webhook is signed: give it a secret, a key, or both")
        if max(len(self._secrets), len(self._keys)) > _MOST_SECRETS:
            raise BadCall(f"channel {name}: at most two secrets and two keys, the new one and the old one")
        if isinstance(url, str):
            self._target()

    def __repr__(self) -> str:
        return f"WebhookChannel({self.name}, {self.place})"

    @property
    def place(self) -> str:
        """Names the receiver, without what may be secret in its address."""
        return repr(self._url) if isinstance(self._url, Secret) else str(self._target())

    def check(self) -> None:
        """Raises when a secret is missing or the address cannot be used."""
        self._target()
        self._headers("check", b"")

    def send(self, message: Message) -> Mapping[str, Any]:
        """Posts the message; anything but a 2xx answer is a failure, and redirects are not followed."""
        body = json.dumps(content_of(message), ensure_ascii=True, separators=(",", ":")).encode()
        target = self._target()
        headers = self._headers(message.id, body)
        try:
            numbers = pinned(target, self._allowed, self._resolve)
        except Forbidden as problem:
            raise GiveUp(str(problem)) from problem
        except OSError as problem:
            raise NotSent(f"{target.host} cannot be looked up: {_said(problem)}") from problem
        try:
            reply = post(target, numbers, headers, body, timeout=self._timeout, ca_file=self._ca_file)
        except (OSError, HTTPException) as problem:
            raise NotSent(f"{target}: {_said(problem)}") from problem
        return _receipt(reply, target, self._clock())

    def _target(self) -> Target:
        url = self._url.reveal() if isinstance(self._url, Secret) else self._url
        return read_url(url, http=self._http, ports=self._ports)

    def _headers(self, message_id: str, body: bytes) -> dict[str, str]:
        at = int(self._clock())
        signed = signed_content(message_id, at, body)
        signatures = [hmac_signature(secret.reveal(), signed) for secret in self._secrets]
        signatures += [ed25519_signature(key.reveal(), signed) for key in self._keys]
        return {
            "content-type": "application/json",
            "user-agent": "indelible",
            "webhook-id": message_id,
            "webhook-timestamp": str(at),
            "webhook-signature": " ".join(signatures),
        }


def content_of(message: Message) -> dict[str, Any]:
    """Gives what a receiver is told: everything somebody needs to decide, and how it stands."""
    approval, effect = message.approval, message.effect
    shown = wording.shown(message, can_sign=True)
    data = {
        "approval": approval.id,
        "version": approval.version,
        "status": approval.status,
        "tenant": approval.ref.tenant,
        "run": approval.run_id,
        "effect": approval.effect_id,
        "tool": approval.tool,
        "side_effect": approval.side_effect,
        **shown.as_json(),
        "digest": shown.digest if message.asks else approval.digest,
        "elsewhere": [one.shown() for one in message.elsewhere],
        "asked_by": approval.requester.id,
        "asked_for": approval.principal,
        "question": {
            "rule": approval.question.rule,
            "policy": approval.policy,
            "needs": [{"count": need.count, "role": need.role} for need in approval.question.needs],
            "people": None if approval.people is None else sorted(approval.people),
            "needs_signature": approval.question.needs_signature,
        },
        "votes": [{"by": vote.by, "is_approval": vote.is_approval, "at": instant(vote.at)} for vote in approval.votes],
        "asked_at": instant(approval.asked_at),
        "expires_at": instant(approval.expires_at),
        "links": {} if message.link is None else {"show": message.link},
    }
    at = approval.asked_at if message.kind == "requested" else effect.updated_at
    return {"type": f"approval.{message.kind}", "timestamp": instant(at), "data": data}


def signed_content(message_id: str, at: int, body: bytes) -> bytes:
    """Gives the bytes that are signed."""
    assert "." not in message_id, "the parts are told apart by their dots"
    return f"{message_id}.{at}.".encode() + body


def hmac_signature(secret: str, signed: bytes) -> str:
    """Signs with a shared secret."""
    key = _decoded(secret, "whsec_")
    if not _LEAST_BYTES <= len(key) <= _MOST_BYTES:
        raise KeyUnusable(f"a webhook's secret has {_LEAST_BYTES} to {_MOST_BYTES} bytes; this one has {len(key)}")
    return "v1," + b64encode(hmac.digest(key, signed, sha256)).decode()


def ed25519_signature(key: str, signed: bytes) -> str:
    """Signs with a private key, so that the receiver can check without being able to sign."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    seed = _decoded(key, "whsk_")
    if len(seed) != 32:
        raise KeyUnusable(f"a webhook's private key has 32 bytes; this one has {len(seed)}")
    return "v1a," + b64encode(Ed25519PrivateKey.from_private_bytes(seed).sign(signed)).decode()


def _decoded(secret: str, prefix: str) -> bytes:
    if not secret.startswith(prefix):
        raise KeyUnusable(f"a webhook's secret begins with {prefix}, and then comes base64")
    try:
        return b64decode(secret.removeprefix(prefix), validate=True)
    except (NoBase64, ValueError):
        raise KeyUnusable(f"what comes after {prefix} in a webhook's secret is no base64") from None


def _receipt(reply: Reply, target: Target, now: float) -> Mapping[str, Any]:
    if 200 <= reply.status < 300:
        return {"status": reply.status}
    if reply.status == _GONE:
        raise GiveUp(f"{target} says that it wants no more messages (410)")
    if 300 <= reply.status < 400:
        raise NotSent(f"{target} answered {reply.status}; redirects are not followed, so correct the address")
    raise NotSent(f"{target} answered {reply.status}", after=_asked_pause(reply.retry_after, now))


def _asked_pause(said: str | None, now: float) -> timedelta | None:
    """Reads a Retry-After: seconds, or a date."""
    if said is None:
        return None
    try:
        if said.isascii() and said.isdigit():
            return timedelta(seconds=min(int(said), 86_400))
        at = parsedate_to_datetime(said)
    except ValueError:
        return None
    until = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return max(timedelta(0), until - datetime.fromtimestamp(now, UTC))


def _said(problem: Exception) -> str:
    """Says what went wrong on the way, in words of the system and never in the receiver's."""
    if isinstance(problem, OSError):
        return problem.strerror or str(problem) or type(problem).__name__
    return f"it broke off the answer ({type(problem).__name__})"


def key_pair() -> tuple[str, str]:
    """Makes a private key for a webhook, and the public key to give to its receiver."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.generate()
    private, public = key.private_bytes_raw(), key.public_key().public_bytes_raw()
    return "whsk_" + b64encode(private).decode(), "whpk_" + b64encode(public).decode()
