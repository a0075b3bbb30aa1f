"""An authenticator in software: makes passkeys and signs with them, as the standard says, or not quite."""

from __future__ import annotations

import json
import os
import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import sha256
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256

PRESENT, VERIFIED, ATTESTED = 0x01, 0x04, 0x40


def b64(raw: bytes) -> str:
    return urlsafe_b64encode(raw).decode().rstrip("=")


def un64(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


def cbor(value: Any) -> bytes:
    """Writes the little of CBOR that attestations need."""
    if isinstance(value, int):
        return _head(0, value) if value >= 0 else _head(1, -1 - value)
    if isinstance(value, bytes):
        return _head(2, len(value)) + value
    if isinstance(value, str):
        return _head(3, len(value.encode())) + value.encode()
    assert isinstance(value, dict)
    return _head(5, len(value)) + b"".join(cbor(key) + cbor(part) for key, part in value.items())


def _head(kind: int, number: int) -> bytes:
    if number < 24:
        return bytes([kind << 5 | number])
    return struct.pack(">BB", kind << 5 | 24, number) if number < 256 else struct.pack(">BH", kind << 5 | 25, number)


class Authenticator:
    """Holds one passkey at a time, for one person; what it says can be bent by words."""

    def __init__(self, origin: str, *, is_counting: bool = True) -> None:
        self.origin = origin
        self.host = origin.partition("://")[2].partition(":")[0]
        self.count = 0
        self._step = 1 if is_counting else 0
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.id = os.urandom(32)
        self.user = b""

    def make(self, options: dict[str, Any], **bent: Any) -> dict[str, Any]:
        """Answers `navigator.credentials.create`."""
        assert options["authenticatorSelection"]["residentKey"] == "required"
        assert options["authenticatorSelection"]["userVerification"] == "required"
        self.user = un64(options["user"]["id"])
        point = self._key.public_key().public_numbers()
        cose = {1: 2, 3: -7, -1: 1, -2: point.x.to_bytes(32, "big"), -3: point.y.to_bytes(32, "big")}
        attested = bytes(16) + struct.pack(">H", len(self.id)) + self.id + cbor(cose)
        data = self._data(ATTESTED, **bent) + attested
        attestation = cbor({"fmt": "none", "attStmt": {}, "authData": data})
        client = self._client("webauthn.create", options, **bent)
        return self._answer({"clientDataJSON": b64(client), "attestationObject": b64(attestation)})

    def sign(self, options: dict[str, Any], **bent: Any) -> dict[str, Any]:
        """Answers `navigator.credentials.get`."""
        self.count += self._step
        data = self._data(0, **bent)
        client = self._client("webauthn.get", options, **bent)
        key = bent.get("signing_key", self._key)
        signature = key.sign(data + sha256(client).digest(), ec.ECDSA(SHA256()))
        return self._answer(
            {
                "clientDataJSON": b64(client),
                "authenticatorData": b64(data),
                "signature": b64(signature),
                "userHandle": b64(bent.get("user", self.user)),
            }
        )

    def _data(self, flags: int, **bent: Any) -> bytes:
        host = bent.get("host", self.host)
        flags |= PRESENT | (VERIFIED if bent.get("is_verified", True) else 0)
        return sha256(host.encode()).digest() + struct.pack(">BI", flags, bent.get("count", self.count))

    def _client(self, kind: str, options: dict[str, Any], **bent: Any) -> bytes:
        challenge = bent.get("challenge", options["challenge"])
        said = {"type": kind, "challenge": challenge, "origin": bent.get("origin", self.origin), "crossOrigin": False}
        return json.dumps(said).encode()

    def _answer(self, response: dict[str, str]) -> dict[str, Any]:
        return {"id": b64(self.id), "rawId": b64(self.id), "type": "public-key", "response": response}
