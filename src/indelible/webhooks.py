"""Settling by a provider's signed webhook: the provider says what became of an effect in doubt.

A `Webhook` verifies the signature of a raw request body, finds the effect that the payload names, and settles it if it
is in doubt. It never settles an effect whose handler is running, and never overwrites an outcome.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import re
from base64 import b64decode, b64encode
from binascii import Error as NoBase64
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any, Literal

from indelible.aio import AsyncLedger
from indelible.core.commands import Keep
from indelible.core.effects.effect import SYSTEM, Actor, Failed, Outcome, Succeeded
from indelible.core.effects.settlements import RowResult
from indelible.core.sheets import Sheet, SheetFilter, body_of
from indelible.core.values.canonical import parse_strict
from indelible.engine.desk import is_key
from indelible.errors import BadCall, NotAuthenticated, NotPermitted
from indelible.ledger import Ledger
from indelible.probes import stripe_outcome

__all__ = ["Message", "Received", "Webhook", "by_events", "stripe_event"]

log = logging.getLogger("indelible.webhooks")

Scheme = Literal["standard", "stripe"]
Result = Literal[
    "settled", "already_settled", "conflict", "still_running", "ignored", "no_effect", "unknown_effect", "replayed"
]
REMEMBERED_FOR = timedelta(days=30)
"""Is how long a message that was acted on is known again; providers send again for days."""
_PLACES = ("data.object.metadata", "data.metadata", "metadata")
_NAMES = ("indelible_effect", "indelible_key")
_SECONDS = re.compile(r"[0-9]{1,12}", re.ASCII)
_MOST_SIGNATURES = 20
_REFUSED = "the signature of this webhook does not hold, or is too old; check the secret and both clocks"


@dataclass(frozen=True, slots=True)
class Message:
    """Is a message whose signature holds: its id, when it was signed, and what it says."""

    id: str
    at: datetime
    payload: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """Says what came of a message.

    - `settled`, `already_settled`: the effect has this outcome.
    - `conflict`: the effect has another outcome, was never in doubt, or several have the key. Nothing was changed.
    - `still_running`: its handler may be running. Have the provider send the message again later.
    - `ignored`: the message means no outcome.
    - `no_effect`: it names no effect. `unknown_effect`: it names one that is not there.
    - `replayed`: this message was acted on before, so nothing was done.
    """

    result: Result
    message_id: str
    effect_id: str | None = None

    @property
    def is_to_come_again(self) -> bool:
        """Should the provider send the message again?"""
        return self.result == "still_running"


class Webhook:
    """Settles effects in doubt by the signed messages of one provider."""

    def __init__(
        self,
        name: str,
        *,
        secrets: str | Sequence[str],
        outcome: Callable[[Any], Outcome | None],
        scheme: Scheme = "standard",
        effect: str | Callable[[Any], str | None] | None = None,
        tolerance: timedelta = timedelta(minutes=5),
    ) -> None:
        """Make a receiver of a provider's messages.

        Args:
            name: The provider. The record names it as the one who settled.
            secrets: The signing secret, or several while you rotate it.
            outcome: Maps the payload to `Succeeded`, `Failed`, or None to ignore the message.
            scheme: `standard` for Standard Webhooks (`whsec_…`), or `stripe` for `Stripe-Signature`.
            effect: The path of the effect's id or key in the payload, as `data.object.metadata.indelible_effect`, or a
                function that returns it. Default: `indelible_effect` or `indelible_key` in the payload's metadata.
            tolerance: How old a signature may be, and how far in the future. Default: 5 minutes.

        Raises:
            BadCall: A parameter is wrong.
        """
        if scheme not in ("standard", "stripe"):
            raise BadCall(f"webhook {name}: scheme is standard or stripe, not {scheme!r}")
        given = [secrets] if isinstance(secrets, str) else list(secrets)
        if not given or not all(given):
            raise BadCall(f"webhook {name}: a secret is needed, or several while you rotate it")
        if tolerance <= timedelta(0):
            raise BadCall(f"webhook {name}: tolerance is a duration above zero")
        self.name = name
        self._actor = Actor(name, "system", "signature")
        self._scheme = scheme
        self._secrets = [_secret(name, secret, scheme) for secret in given]
        self._outcome = outcome
        self._effect = _finder(effect)
        self._tolerance = tolerance

    def __repr__(self) -> str:
        return f"Webhook({self.name!r}, scheme={self._scheme!r})"

    def verify(self, headers: Mapping[str, str], body: bytes, *, now: datetime | None = None) -> Message:
        """Check a message's signature and age, and read it.

        Args:
            headers: The request's headers, in any case.
            body: The raw body, as it came.
            now: The time to compare with. Default: now.

        Returns:
            The message.

        Raises:
            NotAuthenticated: The signature is missing, wrong, or too old.
            BadCall: The signed body is no JSON, or has no id.
        """
        told = {name.lower(): value for name, value in headers.items()}
        signed = _stripe(told, body) if self._scheme == "stripe" else _standard(told, body)
        if signed is None or not signed.holds(self._secrets):
            raise NotAuthenticated(_REFUSED)
        if abs((now or datetime.now(UTC)) - signed.at) > self._tolerance:
            raise NotAuthenticated(_REFUSED)
        payload = parse_strict(body)
        message_id = signed.id or (payload.get("id") if isinstance(payload, dict) else None)
        if not isinstance(message_id, str) or not message_id:
            raise BadCall(f"webhook {self.name}: the message has no id")
        return Message(message_id, signed.at, payload)

    def receive(self, ledger: Ledger | AsyncLedger, headers: Mapping[str, str], body: bytes) -> Received:
        """Verify a message and settle the effect that it names, if that is in doubt.

        Args:
            ledger: The ledger that has the effect. It has to be opened at its database, not through a server.
            headers: The request's headers, in any case.
            body: The raw body, as it came.

        Returns:
            What came of it. Answer the provider with 2xx, or with 409 or 503 if `is_to_come_again`.

        Raises:
            NotAuthenticated: The signature does not hold. Answer with 401.
            BadCall: The message cannot be read. Answer with 400.
        """
        message = self.verify(headers, body)
        outcome: Any = self._outcome(message.payload)
        if outcome is None:
            return Received(result="ignored", message_id=message.id)
        if not isinstance(outcome, Succeeded | Failed):
            kind = type(outcome).__name__
            raise BadCall(f"webhook {self.name}: outcome returns Succeeded, Failed or None, not {kind}")
        name = self._effect(message.payload)
        if not name:
            return Received(result="no_effect", message_id=message.id)
        memory = _Memory(ledger.blocking, self.name, message)
        if memory.knows():
            return Received(result="replayed", message_id=message.id)
        settled = ledger.blocking.settle_all([_row(name, outcome, message)], by=self._actor, skip_bad=True)
        received = self._received(settled.results[0], message)
        if received.result in ("settled", "already_settled", "conflict"):
            memory.keep(received)
        return received

    async def receive_async(self, ledger: Ledger | AsyncLedger, headers: Mapping[str, str], body: bytes) -> Received:
        """Do what `receive` does, without blocking the event loop.

        Args:
            ledger: The ledger that has the effect.
            headers: The request's headers, in any case.
            body: The raw body, as it came.

        Returns:
            What came of it.

        Raises:
            NotAuthenticated: The signature does not hold.
            BadCall: The message cannot be read.
        """
        return await asyncio.to_thread(self.receive, ledger, headers, body)

    def _received(self, row: RowResult, message: Message) -> Received:
        if row.code == "bad_row":
            raise BadCall(f"webhook {self.name}: {row.detail}")
        results: dict[str, Result] = {
            "settled": "settled",
            "already_settled": "already_settled",
            "still_running": "still_running",
            "unknown_effect": "unknown_effect",
        }
        result = results.get(row.code, "conflict")
        effect_id = None if row.effect is None else row.effect.id
        if result == "conflict":
            standing = row.detail if row.effect is None else f"{effect_id} is {row.effect.status}, and stays so"
            log.error("webhook %s %s: %s", self.name, message.id, standing)
        return Received(result=result, message_id=message.id, effect_id=effect_id)


def by_events(
    *,
    succeeded: Iterable[str] = (),
    failed: Iterable[str] = (),
    kind: str = "type",
    value: str = "data",
    error: str | None = None,
) -> Callable[[Any], Outcome | None]:
    """Make an outcome function from the names of events.

    Args:
        succeeded: The events that mean success.
        failed: The events that mean failure.
        kind: The path of the event's name in the payload. Default: `type`.
        value: The path of the result. Default: `data`.
        error: The path of the message of a failure. Default: the event's name.

    Returns:
        A function for `Webhook(outcome=…)`; any other event is ignored.
    """
    good, bad = frozenset(succeeded), frozenset(failed)

    def outcome(payload: Any) -> Outcome | None:
        name = _at(payload, kind)
        if not isinstance(name, str) or name not in good | bad:
            return None
        if name in good:
            return Succeeded(_at(payload, value))
        why = None if error is None else _at(payload, error)
        return Failed(why if isinstance(why, str) and why else name, name)

    return outcome


def stripe_event(payload: Any) -> Outcome | None:
    """Return what an event of Stripe's means: those of charges, payment intents and refunds that can change no more.

    Args:
        payload: The event.

    Returns:
        The outcome, or None to ignore the event.
    """
    found = _at(payload, "data.object")
    if not isinstance(found, Mapping) or found.get("object") not in ("charge", "payment_intent", "refund"):
        return None
    return stripe_outcome(found)


# Signatures


@dataclass(frozen=True, slots=True)
class _Signed:
    """Holds what was signed, when, and the signatures that came with it."""

    id: str | None
    at: datetime
    content: bytes
    signatures: tuple[bytes, ...]

    def holds(self, secrets: Sequence[bytes]) -> bool:
        """Was one of the signatures made with one of the secrets? All are compared, each in constant time."""
        made = [hmac.digest(secret, self.content, sha256) for secret in secrets]
        return sum(hmac.compare_digest(one, other) for one in made for other in self.signatures) > 0


def _secret(name: str, secret: str, scheme: Scheme) -> bytes:
    try:  # with Stripe, the whole text is the key
        key = secret.encode() if scheme == "stripe" else b64decode(secret.removeprefix("whsec_"), validate=True)
    except (NoBase64, ValueError) as problem:
        raise BadCall(f"webhook {name}: the secret is whsec_ and base64, as the provider shows it") from problem
    if not key.strip():
        raise BadCall(f"webhook {name}: the secret is empty, so anyone could sign; set the one that the provider shows")
    return key


def _stripe(headers: Mapping[str, str], body: bytes) -> _Signed | None:
    parts = [part.strip().partition("=") for part in headers.get("stripe-signature", "").split(",")]
    times = [value for name, _, value in parts if name == "t"]
    given = [value for name, _, value in parts if name == "v1"][:_MOST_SIGNATURES]
    at = _moment(times[0]) if len(times) == 1 else None
    if at is None:
        return None
    return _Signed(None, at, times[0].encode() + b"." + body, tuple(map(_from_hex, given)))


def _standard(headers: Mapping[str, str], body: bytes) -> _Signed | None:
    message_id, time = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    at = _moment(time)
    if at is None or not message_id or len(message_id) > 255 or not message_id.isprintable():
        return None
    given = [part.partition(",") for part in headers.get("webhook-signature", "").split()][:_MOST_SIGNATURES]
    signatures = tuple(_from_base64(value) for version, _, value in given if version == "v1")
    return _Signed(message_id, at, f"{message_id}.{time}.".encode() + body, signatures)


def _moment(seconds: str) -> datetime | None:
    try:
        return datetime.fromtimestamp(int(seconds), UTC) if _SECONDS.fullmatch(seconds) else None
    except (ValueError, OverflowError, OSError):
        return None


def _from_hex(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        return b""


def _from_base64(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except (NoBase64, ValueError):
        return b""


# What the payload names


def _at(payload: Any, path: str) -> Any:
    """Return what stands at a dotted path; None where nothing does."""
    for name in path.split("."):
        if not isinstance(payload, Mapping) or name not in payload:
            return None
        payload = payload[name]
    return payload


def _finder(effect: str | Callable[[Any], str | None] | None) -> Callable[[Any], str | None]:
    paths = [f"{place}.{name}" for name in _NAMES for place in _PLACES] if effect is None else [effect]

    def find(payload: Any) -> str | None:
        found = (path(payload) if callable(path) else _at(payload, path) for path in paths)
        return next((name for name in found if isinstance(name, str) and name), None)

    return find


def _row(name: str, outcome: Outcome, message: Message) -> dict[str, Any]:
    named = {"key" if is_key(name) else "id": name, "evidence": f"webhook {message.id}"}
    if isinstance(outcome, Succeeded):
        return {**named, "as": "succeeded", "value": outcome.value}
    # A failure may be of an earlier attempt, and says nothing of a later one.
    failed = {"as": "failed", "error": outcome.error or "failed", "error_type": outcome.error_type or "Error"}
    return {**named, **failed, "attempt": 1}


class _Memory:
    """Remembers the messages that were acted on, in the ledger, for all processes."""

    def __init__(self, ledger: Ledger, name: str, message: Message) -> None:
        self._ledger = ledger
        self._message = message
        digest = sha256(f"indelible/webhook/v1\0{name}\0{message.id}".encode()).digest()
        self._id = f"whk_{b64encode(digest, b'-_').decode().rstrip('=')}"

    def knows(self) -> bool:
        """Was this message acted on before?"""
        selected = SheetFilter(kind="reply", id=self._id, limit=1)
        return bool(self._ledger._engine.store.sheets(self._ledger.tenant, selected))

    def keep(self, received: Received) -> None:
        """Remember this message, after it was acted on: a message that got lost in between is acted on when it comes
        again."""
        body = body_of({"effect": received.effect_id, "result": received.result})
        due_at = self._message.at + REMEMBERED_FOR
        sheet = Sheet(kind="reply", id=self._id, status="answered", due_at=due_at, body=body)
        engine = self._ledger._engine
        try:
            engine.write_alone(Keep(tenant=self._ledger.tenant, stamp=engine.mint.stamp(SYSTEM, 0), sheet=sheet))
        except NotPermitted:  # the ledger is a server's, which remembers only its own
            log.warning("webhook message %s cannot be remembered through a server", self._message.id)
