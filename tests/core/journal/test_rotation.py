"""A key follows another only when both say so."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from indelible.core.journal.notes import COSIGNATURE, Note, PublicKey, Signature
from indelible.core.journal.rotation import (
    check_rotation,
    followed,
    revocation_facts,
    rotation_facts,
    rotation_line,
    rotation_message,
)
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


def chain() -> list[Signature]:
    """From the first key to the second, to the third, and back to the first, which no journal says."""
    steps = ((OLD, NEW), (NEW, THIRD), (THIRD, OLD))
    return [rotation_line(rotation_facts(public(a), public(b), a.sign, b.sign)) for a, b in steps]


def test_68_rotations_under_a_note_lead_from_a_pinned_key_to_those_that_follow() -> None:
    first, second, third = (public(one) for one in (OLD, NEW, THIRD))
    lines = chain()
    assert followed(Note("x\n", tuple(lines[1::-1])), [first]) == [first, second, third], "in any order"
    assert followed(Note("x\n", tuple(lines[:2])), [second]) == [second, third]
    assert followed(Note("x\n", tuple(lines[1:2])), [first]) == [first], "a step is missing"
    assert followed(Note("x\n", tuple(lines)), [first]) == [first, second, third], "a circle ends"
    assert followed(Note("x\n", tuple(lines)), [public(OLD, "ledger-2/default")]) == [public(OLD, "ledger-2/default")]


@pytest.mark.parametrize("place", [0, 40, 100, 159])
def test_68_a_rotation_that_is_not_signed_by_both_keys_spoils_the_note(place: int) -> None:
    line = chain()[0]
    content = bytearray(line.content)
    content[place] ^= 1
    for wrong in (bytes(content), line.content[:-1], line.content + b"0"):
        with pytest.raises(BadNote):
            followed(Note("x\n", (Signature(line.name, line.key_id, wrong),)), [public(OLD)])
    assert followed(Note("x\n", (Signature(line.name, line.key_id, b"x" * 160),)), [public(NEW)]) == [public(NEW)]


def test_68_the_line_is_that_of_the_page() -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "journal.md").read_text(encoding="utf-8")
    old, new = public(OLD, "ledger-0123456789ab/default"), public(NEW, "ledger-0123456789ab/default")
    assert rotation_line(rotation_facts(old, new, OLD.sign, NEW.sign)).line in page
