"""Trust begins at a pinned key, follows rotations that the old key signed, and nothing else."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from indelible.core.journal.notes import Note, PublicKey, TreeHead, sign_note
from indelible.core.journal.rotation import rotation_facts
from indelible.core.verifying.findings import Caught
from indelible.core.verifying.trust import KeyChain, SignedHead, read_head
from tests.core.told import LOG

SECRETS = [Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32) for number in range(1, 5)]
KEYS = [PublicKey(LOG, secret.public_key().public_bytes_raw()) for secret in SECRETS]
ROOT = b"r" * 32


def signed(size: int, *signers: int, origin: str = LOG, name: str = "checkpoint") -> SignedHead:
    head = TreeHead(origin, size, ROOT)
    note = Note(head.text, ())
    for number in signers:
        note = note.with_signatures(sign_note(head.text, KEYS[number], SECRETS[number].sign).signatures)
    return SignedHead(name, note, head)


def rotated(*pairs: tuple[int, int, int]) -> KeyChain:
    """Gives a chain of rotations: at which index, from which key, to which."""
    chain = KeyChain(LOG)
    for index, old, new in pairs:
        facts = rotation_facts(KEYS[old], KEYS[new], SECRETS[old].sign, SECRETS[new].sign)
        chain.learn(index, "key_rotated", facts)
    return chain


def test_a_head_is_trusted_for_the_signature_of_a_pinned_key() -> None:
    assert KeyChain(LOG).check_signed(signed(5, 0), [KEYS[1], KEYS[0]]) == KEYS[0]
    assert KeyChain(LOG).check_signed(signed(5, 2, 0), [KEYS[0]]) == KEYS[0], "strangers may sign too"


def test_a_head_by_another_key_is_caught() -> None:
    with pytest.raises(Caught, match="not signed by"):
        KeyChain(LOG).check_signed(signed(5, 1), [KEYS[0]])
    with pytest.raises(Caught, match="another journal"):
        KeyChain(LOG).check_signed(signed(5, 0, origin="other"), [KEYS[0]])


def test_a_bad_signature_by_a_pinned_key_spoils_a_head_that_another_signed() -> None:
    good, bad = signed(5, 0), signed(6, 1)
    forged = SignedHead("checkpoint", good.note.with_signatures(bad.note.signatures), good.head)
    with pytest.raises(Caught, match="does not fit"):
        KeyChain(LOG).check_signed(forged, [KEYS[0], KEYS[1]])


def test_a_key_of_another_name_counts_for_nothing() -> None:
    other = PublicKey("other", KEYS[0].raw)
    note = sign_note(TreeHead(LOG, 5, ROOT).text, other, SECRETS[0].sign)
    with pytest.raises(Caught, match="of another journal"):
        KeyChain(LOG).check_signed(SignedHead("checkpoint", note, TreeHead(LOG, 5, ROOT)), [other])


def test_a_rotation_decides_by_size_which_key_signs() -> None:
    chain = rotated((3, 0, 1), (7, 1, 2))
    for pinned in KEYS[:3]:
        assert chain.check_signed(signed(3, 0), [pinned]) == KEYS[0]
        assert chain.check_signed(signed(4, 0, 1), [pinned]) == KEYS[1]
        assert chain.check_signed(signed(7, 1), [pinned]) == KEYS[1]
        assert chain.check_signed(signed(8, 2), [pinned]) == KEYS[2]
        with pytest.raises(Caught, match="not signed by"):
            chain.check_signed(signed(8, 1), [pinned])
        with pytest.raises(Caught, match="not signed by"):
            chain.check_signed(signed(3, 1), [pinned])
    with pytest.raises(Caught, match="no rotation leads from"):
        chain.check_signed(signed(8, 2), [KEYS[3]])


def test_a_revoked_key_signs_nothing_larger() -> None:
    chain = KeyChain(LOG)
    chain.learn(9, "key_revoked", {"key": KEYS[0].vkey, "size": 5})
    chain.learn(9, "key_revoked", {"key": KEYS[0].vkey, "size": 6})
    assert chain.check_signed(signed(5, 0), [KEYS[0]]) == KEYS[0]
    with pytest.raises(Caught, match="revoked"):
        chain.check_signed(signed(6, 0), [KEYS[0]])


def _facts(**changes: Any) -> dict[str, Any]:
    facts = rotation_facts(KEYS[0], KEYS[1], SECRETS[0].sign, SECRETS[1].sign)
    return {**facts, **changes}


LOW_ORDER = b64encode(bytes([1]) + bytes(31)).decode()
WRONG: dict[str, tuple[str, dict[str, Any]]] = {
    "a rotation nobody signed": ("key_rotated", _facts(old_signature=b64encode(bytes(64)).decode())),
    "a rotation with more": ("key_rotated", {**_facts(), "x": 1}),
    "a key that is none": ("key_registered", {"key": "none"}),
    "a key that is a number": ("key_registered", {"key": 1}),
    "a revocation at no size": ("key_revoked", {"key": KEYS[0].vkey, "size": "5"}),
    "a revocation below nothing": ("key_revoked", {"key": KEYS[0].vkey, "size": -5}),
    "a heartbeat that says something": ("journal_heartbeat", {"x": 1}),
    "a loss with half a root": ("log_continued", {"lost": {"root": "AAAA", "size": 1}, "size": 1}),
    "a loss without a root": ("log_continued", {"lost": {"size": 1}, "size": 1}),
    "a writer's key of low order": ("writer_registered", {"key": LOW_ORDER, "writer": "0" * 32}),
    "a writer that is a number": ("writer_registered", {"key": LOW_ORDER, "writer": 1}),
}


@pytest.mark.parametrize(("type_", "facts"), WRONG.values(), ids=WRONG)
def test_what_a_journal_says_of_itself_must_hold(type_: str, facts: dict[str, Any]) -> None:
    with pytest.raises(Caught) as caught:
        KeyChain(LOG).learn(4, type_, facts)
    assert caught.value.flaw.index == 4


def test_rotations_follow_each_other() -> None:
    with pytest.raises(Caught, match="the key before was"):
        rotated((3, 0, 1), (5, 0, 2))
    with pytest.raises(Caught, match="keys of"):
        KeyChain("other").learn(1, "key_rotated", _facts())


def test_a_writer_has_one_key() -> None:
    chain = KeyChain(LOG)
    for _ in range(2):
        chain.learn(1, "writer_registered", {"key": b64encode(KEYS[0].raw).decode(), "writer": "w"})
    with pytest.raises(Caught, match="another key already"):
        chain.learn(2, "writer_registered", {"key": b64encode(KEYS[1].raw).decode(), "writer": "w"})


def test_a_continuation_explains_the_heads_of_what_was_lost() -> None:
    chain = KeyChain(LOG)
    chain.learn(5, "log_continued", {"lost": {"root": b64encode(ROOT).decode(), "size": 9}, "size": 5})
    (lost,) = chain.continuations
    explained = {size: lost.explains(TreeHead(LOG, size, ROOT)) for size in (5, 6, 8, 9, 10)}
    assert explained == {5: False, 6: True, 8: True, 9: True, 10: False}
    assert not lost.explains(TreeHead(LOG, 9, b"x" * 32)), "the root that was lost is on the record"
    chain.learn(6, "journal_heartbeat", {})
    chain.learn(7, "key_registered", {"key": KEYS[0].vkey})
    chain.learn(8, "something_new", {"x": 1})


def test_a_head_is_read_strictly() -> None:
    assert read_head("x", str(signed(5, 0).note)).head.size == 5
    with pytest.raises(Caught, match="x: "):
        read_head("x", b"no head")
