"""The judge in sigstore-python: its own note, checkpoint and Merkle code decides. Runs in an environment of its own.

It reads cases from standard input, one JSON object a line, and writes one verdict a line.
"""

import hashlib
import json
import sys
from base64 import b64decode, b64encode
from types import SimpleNamespace

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from sigstore._internal.merkle import verify_merkle_inclusion
from sigstore._internal.rekor.checkpoint import SignedCheckpoint, verify_checkpoint
from sigstore._internal.trust import Keyring
from sigstore._utils import KeyID
from sigstore_models.common import v1 as common_v1


def main() -> None:
    for line in sys.stdin:
        case = json.loads(line)
        try:
            meaning = {"head": judge_head, "receipt": judge_receipt}[case["kind"]](case)
            verdict = {"accepted": True, "meaning": meaning, "why": ""}
        except Exception as error:  # whatever it raises is its way to refuse
            verdict = {"accepted": False, "meaning": "", "why": f"{type(error).__name__}: {error}"[:200]}
        print(json.dumps({"id": case["id"], **verdict}))


def judge_head(case: dict) -> str:
    keyring, key_id = trusted(case["keys"][0])
    text = b64decode(case["note"]).decode()
    signed = SignedCheckpoint.from_text(text)
    signed.signed_note.verify(keyring, key_id)
    return signed.signed_note.note + signature_of(signed, key_id)


def judge_receipt(case: dict) -> str:
    keyring, key_id = trusted(case["keys"][0])
    above, _, below = b64decode(case["receipt"]).decode().partition("\n\n")
    first, extra, index, *hashes = above.split("\n")
    if first != "c2sp.org/tlog-proof@v1" or extra[:6] != "extra " or index[:6] != "index ":
        raise ValueError("no tlog-proof")
    signed = SignedCheckpoint.from_text(below)
    entry = b64decode(extra[6:], validate=True)
    proof = SimpleNamespace(
        log_index=int(index[6:]),
        tree_size=signed.checkpoint.log_size,
        hashes=[b64decode(one, validate=True) for one in hashes],
        root_hash=bytes.fromhex(signed.checkpoint.log_hash),
        checkpoint=SimpleNamespace(envelope=below),
    )
    inner = SimpleNamespace(inclusion_proof=proof, canonicalized_body=entry, log_id=SimpleNamespace(key_id=key_id))
    verify_checkpoint(keyring, SimpleNamespace(_inner=inner))
    verify_merkle_inclusion(SimpleNamespace(_inner=inner))
    place = f"{proof.log_index} {hashlib.sha256(entry).hexdigest()}"
    return f"{signed.signed_note.note}{signature_of(signed, key_id)} {place}"


def trusted(vkey: str) -> tuple[Keyring, KeyID]:
    """Trusts exactly this key, under the id by which notes name it."""
    _, key_id, encoded = vkey.split("+", 2)
    public = Ed25519PublicKey.from_public_bytes(b64decode(encoded)[1:])
    spki = public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    key = common_v1.PublicKey(raw_bytes=b64encode(spki), key_details=common_v1.PublicKeyDetails.PKIX_ED25519)
    return Keyring([key]), KeyID(bytes.fromhex(key_id))


def signature_of(signed: SignedCheckpoint, key_id: KeyID) -> str:
    return next(one.signature.decode() for one in signed.signed_note.signatures if one.sig_hash == key_id)


if __name__ == "__main__":
    main()
