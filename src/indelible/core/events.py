"""The record: immutable numbered facts of a run, chained by hash, holding commitments and no payload.

An event body is RFC 8785 bytes. Its fields are fixed by the reference documentation and by test vectors; version 1
never changes. The hash of a body is the event's id, the link that the next event of the run embeds, and the leaf of the
journal's tree: one hash, three jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from hashlib import sha256
from json.encoder import encode_basestring
from typing import TYPE_CHECKING, Any, NamedTuple

from indelible.core.effects.effect import Actor, Effect
from indelible.core.values.canonical import decode, encode
from indelible.core.values.tags import SAFE_INTEGER
from indelible.errors import BadCall, TooLarge

if TYPE_CHECKING:
    from indelible.core.macs import Macs

COMMIT_TAG = b"indelible/commit/v1\0"
SIGN_TAG = b"indelible/event/v1\0"
SALT_BYTES = 32
MOST_BODY_BYTES = 65_535
# No zone of the world is a whole day away from UTC.
_FIRST, _LAST = datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 12, 30, tzinfo=UTC)


class Head(NamedTuple):
    """Is the end of a run's chain: how many events it has and the hash of the last."""

    length: int
    hash: str


NO_EVENTS = Head(0, "0" * 64)


class Payload(NamedTuple):
    """Is a value an event commits to, with the salt that hides it; kept apart so that it can be erased."""

    run_id: str
    seq: int
    field: str
    salt: bytes
    value: bytes
    mac: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Is one fact of a run as it is stored: `body` is the record, the rest only helps to find it."""

    run_id: str
    seq: int
    effect_id: str | None
    type: str
    hash: str
    body: bytes = field(repr=False)
    signature: bytes | None = field(default=None, repr=False)
    """Is its writer's own signature, when its writer has a key."""
    mac: bytes | None = field(default=None, repr=False)
    """Shows that a holder of the ledger's writer keys wrote it, if rows carry macs."""

    def read(self) -> dict[str, Any]:
        """Return the body's fields."""
        content = decode(self.body)
        assert isinstance(content, dict)
        return content

    @property
    def at(self) -> datetime:
        """Return the time at which it was written."""
        return datetime.fromisoformat(self.read()["at"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Says which journal the events belong to, which process writes them, and how it signs them, if it does."""

    log: str
    writer: str
    sign: Callable[[bytes], bytes] | None = None
    macs: Macs | None = None


def commitment(salt: bytes, name: str, value: bytes) -> str:
    """Binds an event to a value without telling it: nobody can guess the value without the salt."""
    raw = name.encode("utf-8")
    return sha256(b"".join((COMMIT_TAG, salt, len(raw).to_bytes(2, "big"), raw, value))).hexdigest()


def event_hash(body: bytes) -> str:
    """Gives the event's id: the RFC 6962 leaf hash of its body."""
    return sha256(b"\0" + body).hexdigest()


def signed_message(event_id: str) -> bytes:
    """Gives what a writer signs: the event's hash, under a tag of its own."""
    return SIGN_TAG + bytes.fromhex(event_id)


def moment_after(start: datetime, microseconds: int) -> datetime:
    """Give the moment so long after another; in place of one that no calendar has, the nearest that each zone has."""
    try:
        return start + timedelta(microseconds=microseconds)
    except OverflowError:
        return _LAST if microseconds > 0 else _FIRST


def instant(at: datetime) -> str:
    """Writes a moment as RFC 3339 in UTC, always with six decimals."""
    return at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def instant_or_none(at: datetime | None) -> str | None:
    """Write a moment as `instant` does, if there is one."""
    return None if at is None else instant(at)


def effect_event(
    *,
    effect: Effect,
    head: Head,
    event_type: str,
    at: datetime,
    actor: Actor,
    commits: Mapping[str, str],
    by: Provenance,
) -> bytes:
    """Writes the body of an event about an effect; members stand in RFC 8785 order."""
    committed = ",".join(f'"{name}":"{commits[name]}"' for name in sorted(commits))
    body = (
        f'{{"actor":{_actor(actor)},"at":"{instant(at)}","attempt":{effect.attempt},"commits":{{{committed}}},'
        f'"effect":"{effect.id}","log":{_text(by.log)},"on_crash":"{effect.on_crash}","prev":"{head.hash}",'
        f'"run":{_text(effect.run_id)},"seq":{head.length},"side_effect":"{effect.side_effect}",'
        f'"status":"{effect.status}","tool":{_text(effect.tool)},"type":"{event_type}","v":1,"writer":"{by.writer}"}}'
    ).encode()
    assert len(body) <= MOST_BODY_BYTES, "names are bounded, so a body is"
    return body


def facts_json(facts: Mapping[str, Any]) -> bytes:
    """Gives the canonical bytes of what an event says in clear: no floats and no large integers, so no doubt."""
    encoded = encode(facts, root="facts")
    if not is_recorded_plainly(facts):
        raise BadCall("facts hold texts, whole numbers below 2^53, truth values, null, lists and objects only")
    return encoded


def is_recorded_plainly(value: object) -> bool:
    """Is this what an event's body may hold?"""
    if isinstance(value, dict):
        return all(isinstance(key, str) and key[:1] != "$" and is_recorded_plainly(part) for key, part in value.items())
    if isinstance(value, list | tuple):
        return all(is_recorded_plainly(part) for part in value)
    return value is None or type(value) in (str, bool) or (type(value) is int and abs(value) <= SAFE_INTEGER)


def fact_event(
    *,
    run_id: str,
    head: Head,
    event_type: str,
    at: datetime,
    actor: Actor,
    commits: Mapping[str, str],
    facts: bytes,
    by: Provenance,
) -> bytes:
    """Writes the body of an event that is about no effect; `facts` is a canonical object of what it says in clear."""
    committed = ",".join(f'"{name}":"{commits[name]}"' for name in sorted(commits))
    body = (
        f'{{"actor":{_actor(actor)},"at":"{instant(at)}","commits":{{{committed}}},"facts":'.encode()
        + facts
        + f',"log":{_text(by.log)},"prev":"{head.hash}","run":{_text(run_id)},"seq":{head.length},'
        f'"type":{_text(event_type)},"v":1,"writer":"{by.writer}"}}'.encode()
    )
    if len(body) > MOST_BODY_BYTES:
        message = f"an event of {len(body)} bytes is over the limit of {MOST_BODY_BYTES}: say less of it in clear"
        raise TooLarge(message, size=len(body), limit=MOST_BODY_BYTES)
    return body


@lru_cache(maxsize=4096)
def _text(text: str) -> str:
    """Quotes a text as RFC 8785 does: the standard library's escapes are the same when non-ASCII stays as it is."""
    return encode_basestring(text)


@lru_cache(maxsize=1024)
def _actor(actor: Actor) -> str:
    return f'{{"id":{_text(actor.id)},"kind":"{actor.kind}","via":"{actor.via}"}}'
