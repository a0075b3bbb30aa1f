"""Says what was built from what, and signs it: an in-toto statement with SLSA's provenance, in a DSSE envelope.

    python -m release.provenance keygen KEY.pem                 prints the public key
    python -m release.provenance sign KEY.pem FILE… > provenance.json
    python -m release.provenance verify PUBLIC_KEY provenance.json FILE…

The key is Ed25519; the public one is written as base64 of its 32 bytes. Publish it elsewhere than the files.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

PAYLOAD_TYPE = "application/vnd.in-toto+json"
BUILD_TYPE = "urn:indelible:build:hatchling:v1"


class Unproven(Exception):
    """The envelope does not prove what was asked; the message says why."""


def statement(files: Sequence[Path], *, commit: str, python: str) -> dict[str, Any]:
    """What was built, from which commit, by which means."""
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": file.name, "digest": {"sha256": _sha256(file)}} for file in files],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {"command": "./run release", "python": python},
                "resolvedDependencies": [{"name": "source", "digest": {"gitCommit": commit}}],
            },
            "runDetails": {"builder": {"id": "urn:indelible:builder:local"}},
        },
    }


def sign(told: Mapping[str, Any], key: Ed25519PrivateKey) -> dict[str, Any]:
    """Puts a statement into a signed envelope."""
    payload = json.dumps(told, sort_keys=True, separators=(",", ":")).encode()
    public = key.public_key().public_bytes_raw()
    signature = key.sign(_to_be_signed(payload))
    return {
        "payloadType": PAYLOAD_TYPE,
        "payload": base64.b64encode(payload).decode(),
        "signatures": [{"keyid": hashlib.sha256(public).hexdigest(), "sig": base64.b64encode(signature).decode()}],
    }


def verify(envelope: Mapping[str, Any], public: Ed25519PublicKey, files: Sequence[Path]) -> dict[str, Any]:
    """Gives the statement if this key signed it and it is about exactly these files; raises `Unproven` otherwise."""
    payload = base64.b64decode(envelope["payload"], validate=True)
    if envelope["payloadType"] != PAYLOAD_TYPE:
        raise Unproven(f"this is no in-toto statement, but {envelope['payloadType']}")
    if not any(_signed(public, payload, one["sig"]) for one in envelope["signatures"]):
        raise Unproven("no signature of the key you trust; ask for the public key by another way")
    told: dict[str, Any] = json.loads(payload)
    stated = {one["name"]: one["digest"]["sha256"] for one in told["subject"]}
    found = {file.name: _sha256(file) for file in files}
    for name in sorted(stated.keys() | found.keys()):
        if stated.get(name) != found.get(name):
            raise Unproven(f"{name}: stated {stated.get(name, 'nowhere')}, found {found.get(name, 'nowhere')}")
    return told


def _signed(public: Ed25519PublicKey, payload: bytes, signature: str) -> bool:
    try:
        public.verify(base64.b64decode(signature, validate=True), _to_be_signed(payload))
    except InvalidSignature:
        return False
    return True


def _to_be_signed(payload: bytes) -> bytes:
    """DSSE's pre-authentication encoding: lengths before texts, so that nothing can be moved between them."""
    kind = PAYLOAD_TYPE.encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _key(path: str) -> Ed25519PrivateKey:
    key = load_pem_private_key(Path(path).read_bytes(), password=None)
    if not isinstance(key, Ed25519PrivateKey):
        raise Unproven(f"{path} is no Ed25519 key; make one: python -m release.provenance keygen {path}")
    return key


def _keygen(path: str) -> None:
    key = Ed25519PrivateKey.generate()
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(pem)
    print(base64.b64encode(key.public_key().public_bytes_raw()).decode())


def _commit() -> str:
    if subprocess.check_output(["git", "status", "--porcelain"], text=True):
        raise Unproven(
            "there are changes that no commit has; commit them first, so that the commit says what was built"
        )
    return subprocess.check_output(["git", "rev-parse", "HEAD"], text=True).strip()


def main(words: Sequence[str]) -> int:
    """Does what the module's first lines say."""
    try:
        match words:
            case ["keygen", path]:
                _keygen(path)
            case ["sign", key, *files] if files:
                told = statement([Path(file) for file in files], commit=_commit(), python=sys.version.split()[0])
                print(json.dumps(sign(told, _key(key)), indent=1))
            case ["verify", public, envelope, *files] if files:
                key = Ed25519PublicKey.from_public_bytes(base64.b64decode(public, validate=True))
                told = verify(json.loads(Path(envelope).read_text()), key, [Path(file) for file in files])
                (source,) = told["predicate"]["buildDefinition"]["resolvedDependencies"]
                print(f"{len(files)} files, built from commit {source['digest']['gitCommit']}")
            case _:
                print(__doc__)
                return 2
    except (Unproven, OSError, ValueError, KeyError) as problem:
        print(f"release: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
