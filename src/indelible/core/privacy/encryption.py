"""What is recorded of a value that only the holder of a data key may read. Pure: keys and values in, tags out.

The record commits to the encrypted form, so it verifies without any key, also when the key is gone. The nonce is a
keyed hash of the value and of its place: what is said twice is recorded alike, so a repeated report is known as one.
"""

from __future__ import annotations

import hmac
from base64 import b64encode
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from typing import NamedTuple

from indelible.core.commands import (
    Adopt,
    Amend,
    Answer,
    Cancel,
    CastVote,
    Claimed,
    Command,
    Finish,
    Kept,
    NoSuchEffect,
    Open,
    Outrun,
    Recorded,
    Relinquish,
    Reopen,
    Settle,
    TakeBack,
)
from indelible.core.effects.effect import Effect
from indelible.core.effects.identity import Ref
from indelible.core.privacy.forgetting import mark_in
from indelible.core.runs.commands import EndRun, NewCheckpoint, RunMoved, RunNotMoved, SealCheckpoint, Tell
from indelible.core.values.canonical import decode
from indelible.core.values.tags import ENCRYPTED_VERSION, Encrypted

DATA_KEY_BYTES = 32
HOLDER_BYTES = 16
_CHECK_BYTES = 8
_NONCE_BYTES = 12
_RUN_TAG = b"indelible/run-holder/v1\0"
_CHECK_TAG = b"indelible/data-key-check/v1\0"
_CIPHER_TAG = b"indelible/data-key-cipher/v1\0"
_NONCE_TAG = b"indelible/data-key-nonce/v1\0"
_VALUE_TAG = b"indelible/encrypted/v1\0"
_PREFIX = b'{"$encrypted":"'
_SUFFIX = b'"}'

Field = str


class KeyId(NamedTuple):
    """Names a data key: whose it is, and enough of a hash to tell it from a later one of the same holder."""

    holder: bytes
    check: bytes


Find = Callable[[KeyId], "DataKey | None"]
"""Gives the data key of this name, None when there is none any more."""


class DataKey:
    """Encrypts and opens the values of one holder: a person, or a run."""

    __slots__ = ("_cipher", "_nonce_key", "id")

    def __init__(self, holder: bytes, raw: bytes) -> None:
        # Only whoever has a key loads a library of ciphers.
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        self.id = KeyId(holder, hmac.digest(raw, _CHECK_TAG, sha256)[:_CHECK_BYTES])
        self._cipher = AESGCM(hmac.digest(raw, _CIPHER_TAG, sha256))
        self._nonce_key = hmac.digest(raw, _NONCE_TAG, sha256)

    def encrypt(self, recorded: bytes, ref: Ref, field: Field) -> bytes:
        """Gives what is recorded of a value at its place."""
        head = bytes([ENCRYPTED_VERSION]) + self.id.holder + self.id.check
        place = _place(head, ref, field)
        nonce = hmac.digest(self._nonce_key, place + recorded, sha256)[:_NONCE_BYTES]
        return _PREFIX + b64encode(head + nonce + self._cipher.encrypt(nonce, recorded, place)) + _SUFFIX

    def decrypt(self, content: bytes, ref: Ref, field: Field) -> bytes:
        """Gives the value back; raises `ValueError` when it is not what this key encrypted for this place."""
        from cryptography.exceptions import InvalidTag

        start = 1 + HOLDER_BYTES + _CHECK_BYTES
        nonce, cipher = content[start : start + _NONCE_BYTES], content[start + _NONCE_BYTES :]
        try:
            return self._cipher.decrypt(nonce, cipher, _place(content[:start], ref, field))
        except InvalidTag:
            raise ValueError(f"the encrypted {field} was altered, or belongs to another effect") from None


def _place(head: bytes, ref: Ref, field: Field) -> bytes:
    """Gives what a value is bound to, so that it cannot be moved: format, key, effect and field."""
    parts = [head, *(part.encode() for part in (*ref, field))]
    return _VALUE_TAG + b"".join(len(part).to_bytes(4, "big") + part for part in parts)


# Whose key it is


def holder_of_run(redaction_key: bytes, tenant: str, run_id: str) -> bytes:
    """Names the holder of what is about no person: its run, by a keyed hash."""
    raw = tenant.encode()
    message = _RUN_TAG + len(raw).to_bytes(4, "big") + raw + run_id.encode()
    return hmac.digest(redaction_key, message, sha256)[:HOLDER_BYTES]


def holder_of_subject(subject_json: bytes) -> bytes:
    """Names the holder of what is about a person, by the person's mark."""
    return bytes.fromhex(mark_in(subject_json))[:HOLDER_BYTES]


def holder_in(recorded: bytes | None) -> bytes | None:
    """Gives whose key a recorded value is encrypted with; None when it is not encrypted."""
    key = key_in(recorded)
    return None if key is None else key.holder


def key_in(recorded: bytes | None) -> KeyId | None:
    """Return which key a recorded value is encrypted with; None when it is not encrypted."""
    content = _content(recorded)
    return None if content is None else _key_id(content)


def _content(recorded: bytes | None) -> bytes | None:
    """Gives what stands in the tag; None when there is none, also when it was spoilt."""
    if recorded is None or not recorded.startswith(_PREFIX):
        return None
    try:
        value = decode(recorded)
    except ValueError:
        return None
    return value.content if isinstance(value, Encrypted) else None


def _key_id(content: bytes) -> KeyId:
    end = 1 + HOLDER_BYTES
    return KeyId(content[1:end], content[end : end + _CHECK_BYTES])


# On the way to the record


def encrypted_command(command: Command, key: DataKey) -> Command:
    """Gives a command whose values are encrypted; what it says of no effect stays as it is."""

    def cipher(value: bytes, field: Field) -> bytes:
        return key.encrypt(value, command.ref, field)

    match command:
        case Open(edit=edit):
            read = None if edit is None else replace(edit, args_json=cipher(edit.args_json, "args"))
            return replace(command, args_json=cipher(command.args_json, "args"), edit=read)
        case Finish():
            return replace(command, detail_json=cipher(command.detail_json, detail_field(command.status)))
        case Settle():
            detail = cipher(command.detail_json, detail_field(command.status))
            return replace(command, detail_json=detail, evidence_json=cipher(command.evidence_json, "evidence"))
        case Tell():
            told = tuple(
                replace(one, payload_json=cipher(one.payload_json, "payload")) if one.payload_json is not None else one
                for one in command.happenings
            )
            return replace(command, happenings=told)
        case SealCheckpoint():
            return replace(command, checkpoint=_sealed_state(command.checkpoint, cipher))
        case EndRun():
            reason = cipher(command.reason_json, "reason")
            checkpoint = None if command.checkpoint is None else _sealed_state(command.checkpoint, cipher)
            return replace(command, reason_json=reason, checkpoint=checkpoint)
        case Adopt(effect=effect):
            known_args = None if effect.args_json is None else cipher(effect.args_json, "args")
            known = None if effect.detail_json is None else cipher(effect.detail_json, detail_field(effect.status))
            return replace(command, effect=replace(effect, args_json=known_args, detail_json=known))
        case Amend():
            reason = cipher(command.detail_json, "reason")
            return replace(command, args_json=cipher(command.args_json, "args"), detail_json=reason)
        case Relinquish() | Reopen() | Cancel() | CastVote() | TakeBack():
            return replace(command, detail_json=cipher(command.detail_json, "reason"))
        case _:
            return command


def _sealed_state(checkpoint: NewCheckpoint, cipher: Callable[[bytes, Field], bytes]) -> NewCheckpoint:
    if checkpoint.state_json is None:
        return checkpoint
    return replace(checkpoint, state_json=cipher(checkpoint.state_json, "state"))


def detail_field(status: str) -> Field:
    """Says what an effect's detail is in its status."""
    return {"succeeded": "result", "failed": "error"}.get(status, "reason")


# On the way back


def opened_value(recorded: bytes | None, ref: Ref, field: Field, find: Find) -> bytes | None:
    """Gives a recorded value in clear; None when its key is gone; one that was spoilt stays as it is."""
    content = _content(recorded)
    if content is None:
        return recorded
    key = find(_key_id(content))
    if key is None:
        return None
    try:
        # What came too late was encrypted as the result or error that it would have been.
        return key.decrypt(content, ref, field.removeprefix("late_"))
    except ValueError:
        return recorded


def opened_effect(effect: Effect, find: Find) -> Effect:
    """Gives an effect with its values in clear; what nobody can open any more is erased."""
    args = opened_value(effect.args_json, effect.ref, "args", find)
    detail = opened_value(effect.detail_json, effect.ref, detail_field(effect.status), find)
    if args is effect.args_json and detail is effect.detail_json:
        return effect
    return replace(effect, args_json=args, detail_json=detail)


def opened_answer(answer: Answer, find: Find) -> Answer:
    """Gives an answer about an effect with the effect's values in clear."""
    match answer:
        case NoSuchEffect() | Recorded() | Kept() | Outrun() | RunMoved() | RunNotMoved():
            return answer
        case Claimed(claim):
            return Claimed(replace(claim, effect=opened_effect(claim.effect, find)))
        case _ if answer.effect is None:
            return answer
        case _:
            return replace(answer, effect=opened_effect(answer.effect, find))
