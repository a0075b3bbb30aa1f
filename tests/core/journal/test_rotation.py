"""A key follows another only when both say so."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from indelible.core.journal.notes import COSIGNATURE, PublicKey
from indelible.core.journal.rotation import check_rotation, revocation_facts, rotation_facts, rotation_message
from indelible.errors import BadNote

OLD, NEW, THIRD = (Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32) for number in (1, 2, 3))


def public(private: Ed25519PrivateKey, name: str = "ledger-1/default", **more: int) -> PublicKey:
    return PublicKey(name, private.public_key().public_bytes_raw(), **more)


def facts() -> dict[str, Any]:
    return rotation_facts(public(OLD), public(NEW), OLD.sign, NEW.sign)


def signed_as(old: str, new: str) -> dict[str, Any]:
    """What a forger with both private keys can write."""
    message = rotation_message(old, new)
    return {
        "new": new,
        "new_signature": b64encode(NEW.sign(message)).decode(),
        "old": old,
        "old_signature": b64encode(OLD.sign(message)).decode(),
    }


def test_both_keys_sign_these_bytes() -> None:
    assert rotation_message("a+b", "c+d") == b"indelible/rotate/v1\0a+b\nc+d"


def test_a_rotation_names_both_keys_and_is_the_same_each_time() -> None:
    assert check_rotation(facts()) == (public(OLD), public(NEW))
    assert facts() == facts() == signed_as(public(OLD).vkey, public(NEW).vkey)


@pytest.mark.parametrize("name", ["new", "new_signature", "old", "old_signature"])
def test_every_member_counts(name: str) -> None:
    for wrong in (
        {key: value for key, value in facts().items() if key != name},
        facts() | {name: None},
        facts() | {name: ""},
        facts() | {name: "AAAA"},
        facts() | {name: facts()[name] + "\n"},
    ):
        with pytest.raises(BadNote):
            check_rotation(wrong)


def test_nothing_else_may_stand_in_it() -> None:
    with pytest.raises(BadNote, match="nothing else"):
        check_rotation(facts() | {"more": "x"})


def test_one_key_cannot_speak_for_the_other() -> None:
    with pytest.raises(BadNote, match=r"the old key .* did not sign"):
        rotation_facts(public(OLD), public(NEW), THIRD.sign, NEW.sign)
    with pytest.raises(BadNote, match=r"the new key .* did not sign"):
        rotation_facts(public(OLD), public(NEW), OLD.sign, OLD.sign)
    swapped = facts() | {"old_signature": facts()["new_signature"], "new_signature": facts()["old_signature"]}
    with pytest.raises(BadNote, match="did not sign"):
        check_rotation(swapped)


def test_a_signature_cannot_be_used_for_another_pair_or_direction() -> None:
    with pytest.raises(BadNote, match="did not sign"):
        check_rotation(facts() | {"new": public(THIRD).vkey})
    back = facts()
    back["old"], back["new"] = back["new"], back["old"]
    back["old_signature"], back["new_signature"] = back["new_signature"], back["old_signature"]
    with pytest.raises(BadNote, match="did not sign"):
        check_rotation(back)


def test_a_key_of_another_journal_cannot_follow() -> None:
    with pytest.raises(BadNote, match="cannot be followed"):
        check_rotation(signed_as(public(OLD).vkey, public(NEW, "ledger-1/other").vkey))


def test_a_key_cannot_follow_itself() -> None:
    with pytest.raises(BadNote, match="follow itself"):
        rotation_facts(public(OLD), public(OLD), OLD.sign, OLD.sign)


def test_a_witness_key_cannot_follow() -> None:
    with pytest.raises(BadNote, match="sign tree heads"):
        check_rotation(signed_as(public(OLD).vkey, public(NEW, kind=COSIGNATURE).vkey))


def test_a_key_is_written_in_one_way_only() -> None:
    with pytest.raises(BadNote, match="one way"):
        check_rotation(signed_as(" " + public(OLD).vkey, public(NEW).vkey))


def test_a_signature_has_64_bytes() -> None:
    for raw in (b"", b"x" * 63, b"x" * 65):
        with pytest.raises(BadNote, match="did not sign"):
            check_rotation(facts() | {"old_signature": b64encode(raw).decode()})


def test_a_revocation_names_key_and_size() -> None:
    assert revocation_facts(public(OLD), 7) == {"key": public(OLD).vkey, "size": 7}
    with pytest.raises(BadNote, match="size -1"):
        revocation_facts(public(OLD), -1)
