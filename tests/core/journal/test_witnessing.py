"""Promises of core.journal.witnessing: what a witness says yes to, and what is enough."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import replace
from hashlib import sha256

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from indelible.core.journal.merkle import EMPTY_ROOT, consistency_proof, leaf_hash, perfect_root, root_of
from indelible.core.journal.notes import (
    COSIGNATURE,
    Note,
    PublicKey,
    Signature,
    TreeHead,
    cosign,
    cosigned_message,
    parse_head,
    parse_note,
    sign_note,
)
from indelible.core.journal.witnessing import (
    SIZE_TYPE,
    Refusal,
    Request,
    compare,
    cosigners,
    enough,
    parse_cosignature,
    parse_request,
    parse_size,
    recognise,
    signatures_of,
    signing_time,
    with_newest,
)
from indelible.errors import BadNote

ORIGIN = "ledger-0123456789ab/default"


def secret(seed: int) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(bytes([seed]) * 32)


def raw(seed: int) -> bytes:
    return secret(seed).public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)


LOG = PublicKey(ORIGIN, raw(1))
NEXT_LOG = PublicKey(ORIGIN, raw(2))
ADA, BOB, EVE = (PublicKey(f"witness.example/{n}", raw(n), COSIGNATURE) for n in (3, 4, 5))
SEEDS = {ADA: 3, BOB: 4, EVE: 5}
LEAVES = [leaf_hash(bytes([n])) for n in range(40)]
OTHER = [leaf_hash(bytes([n, n])) for n in range(40)]


def head(size: int, leaves: list[bytes] = LEAVES) -> TreeHead:
    return TreeHead(ORIGIN, size, root_of(leaves[:size]))


def proof(old: int, new: int, leaves: list[bytes] = LEAVES) -> tuple[bytes, ...]:
    return tuple(consistency_proof(old, new, lambda level, n: perfect_root(leaves[n << level : (n + 1) << level])))


def signed(one: TreeHead, seed: int = 1) -> Note:
    return sign_note(one.text, PublicKey(ORIGIN, raw(seed)), secret(seed).sign)


def request(old: int, new: int, leaves: list[bytes] = LEAVES) -> Request:
    return Request(old, proof(old, new, leaves), signed(head(new, leaves)))


def cosigned(note: Note, *keys: PublicKey, at: int = 1_700_000_000) -> Note:
    return note.with_signatures(cosign(note, key, secret(SEEDS[key]).sign, at) for key in keys)


# ── requests ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_request_is_written_as_the_specification_shows_it() -> None:
    asked = request(3, 7)
    lines = bytes(asked).decode().split("\n")
    assert lines[0] == "old 3"
    assert lines[1 : 1 + len(asked.proof)] == [b64encode(one).decode() for one in asked.proof]
    assert lines[1 + len(asked.proof)] == ""
    assert "\n".join(lines[2 + len(asked.proof) :]) == str(asked.note)


# The example of C2SP's tlog-witness.
EXAMPLE = """\
old 20852014
PlRNCrwHpqhGrupue0L7gxbjbMiKA9temvuZZDDpkaw=
jrJZDmY8Y7SyJE0MWLpLozkIVMSMZcD5kvuKxPC3swk=
5+pKlUdi2LeF/BcMHBn+Ku6yhPGNCswZZD1X/6QgPd8=
/6WVhPs2CwSsb5rYBH5cjHV/wSmA79abXAwhXw3Kj/0=

example.com/behind-the-sofa
20852163
CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=

— example.com/behind-the-sofa Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=
— example.com/behind-the-sofa opLqBQsREYCgu6xQkYQwJr9fo45a62DN9EdmHXnZdXNqlcVGlCum2Wks+49/V6267UEjw6QUXTS5Rovnzv++qbSzm9Q=
""".encode()  # noqa: E501


def test_the_example_of_the_specification_is_read_and_written_byte_for_byte() -> None:
    asked = parse_request(EXAMPLE)
    assert (asked.old_size, len(asked.proof), len(asked.note.signatures)) == (20852014, 4, 2)
    assert parse_head(asked.note.text).size == 20852163
    assert bytes(asked) == EXAMPLE


def test_a_cosignature_never_changes_its_bytes() -> None:
    """What is signed is two lines and the head's text; Ed25519 gives the same signature for the same message."""
    found = cosign(signed(head(7)), ADA, secret(3).sign, 1_679_315_147)
    message = b"cosignature/v1\ntime 1679315147\n" + head(7).text.encode()
    assert found.key_id == sha256(ADA.name.encode() + b"\n\x04" + raw(3)).digest()[:4]
    assert found.content == (1_679_315_147).to_bytes(8, "big") + secret(3).sign(message)


@given(st.integers(0, 40), st.integers(0, 40))
def test_a_request_is_read_as_it_was_written(one: int, other: int) -> None:
    asked = request(min(one, other), max(one, other))
    assert parse_request(bytes(asked)) == asked


HASH = b64encode(b"\1" * 32)
NOTE = str(signed(head(7))).encode()
MALFORMED = {
    "empty": b"",
    "no note": b"old 0\n\n",
    "no empty line": b"old 0\n",
    "no old line": NOTE,
    "no word": b"0\n\n" + NOTE,
    "capital": b"Old 0\n\n" + NOTE,
    "no number": b"old \n\n" + NOTE,
    "two spaces": b"old  0\n\n" + NOTE,
    "leading zero": b"old 00\n\n" + NOTE,
    "sign": b"old +1\n\n" + NOTE,
    "negative": b"old -1\n\n" + NOTE,
    "space behind": b"old 1 \n\n" + NOTE,
    "foreign digits": "old ١\n\n".encode() + NOTE,
    "superscript": "old ²\n\n".encode() + NOTE,
    "over 63 bits": b"old 9223372036854775808\n\n" + NOTE,
    "endless number": b"old " + b"9" * 5000 + b"\n\n" + NOTE,
    "carriage returns": b"old 0\r\n\r\n" + NOTE,
    "no base64": b"old 1\n!!!\n\n" + NOTE,
    "beyond ascii": "old 1\né\n\n".encode() + NOTE,
    "short hash": b"old 1\n" + b64encode(b"\1" * 31) + b"\n\n" + NOTE,
    "long hash": b"old 1\n" + b64encode(b"\1" * 33) + b"\n\n" + NOTE,
    "second way to write it": b"old 1\n" + HASH[:-2] + b"F=\n\n" + NOTE,
    "too many hashes": b"old 1\n" + (HASH + b"\n") * 64 + b"\n" + NOTE,
    "note without signatures": b"old 0\n\n" + head(7).text.encode() + b"\n",
    "note cut short": b"old 0\n\n" + NOTE[:-1],
    "garbage": bytes(range(256)),
    "no utf-8": b"old 0\n\n" + NOTE[:-2] + b"\xff\n",
    "nul": b"old 0\n\n\0" + NOTE,
}


@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED.keys())
def test_what_is_not_exactly_a_request_is_refused(body: bytes) -> None:
    with pytest.raises(BadNote):
        parse_request(body)


def test_a_proof_may_have_63_hashes() -> None:
    assert len(parse_request(b"old 1\n" + (HASH + b"\n") * 63 + b"\n" + NOTE).proof) == 63


# ── whose head is it? ────────────────────────────────────────────────────────────────────────────────────────────────


def refused(found: object) -> int:
    assert isinstance(found, Refusal)
    return found.status


def test_a_head_signed_by_a_known_log_is_recognised() -> None:
    assert recognise(request(0, 7), [LOG]) == head(7)


def test_while_a_log_changes_its_key_either_is_good() -> None:
    assert recognise(Request(0, (), signed(head(7), seed=2)), [LOG, NEXT_LOG]) == head(7)
    both = signed(head(7)).with_signatures(signed(head(7), seed=2).signatures)
    assert recognise(Request(0, (), both), [LOG, NEXT_LOG]) == head(7)


def test_signatures_of_strangers_are_passed_over() -> None:
    strange = Signature("stranger", b"abcd", b"\0" * 64)
    assert recognise(Request(0, (), signed(head(7)).with_signatures([strange])), [LOG]) == head(7)


def test_a_log_that_nobody_named_is_unknown() -> None:
    assert refused(recognise(request(0, 7), [])) == 404
    assert refused(recognise(request(0, 7), [PublicKey("another/log", raw(1))])) == 404


def test_a_head_without_a_known_signature_is_forbidden() -> None:
    assert refused(recognise(Request(0, (), signed(head(7), seed=2)), [LOG])) == 403


def test_a_bad_signature_in_a_known_name_is_forbidden_even_beside_a_good_one() -> None:
    forged = Signature(NEXT_LOG.name, NEXT_LOG.id, b"\0" * 64)
    assert refused(recognise(Request(0, (), signed(head(7)).with_signatures([forged])), [LOG, NEXT_LOG])) == 403
    swapped = Note(head(7, OTHER).text, signed(head(7)).signatures)
    assert refused(recognise(Request(0, (), swapped), [LOG])) == 403


def test_what_is_no_head_is_a_bad_request() -> None:
    note = sign_note("a letter\n", LOG, secret(1).sign)
    assert refused(recognise(Request(0, (), note), [LOG])) == 400


def test_a_tree_cannot_have_shrunk() -> None:
    assert refused(recognise(replace(request(7, 7), old_size=8), [LOG])) == 400


def test_a_size_over_63_bits_is_a_bad_request() -> None:
    huge = sign_note(head(7).text.replace("\n7\n", f"\n{2**63}\n"), LOG, secret(1).sign)
    assert refused(recognise(Request(0, (), huge), [LOG])) == 400


# ── may it be cosigned? ──────────────────────────────────────────────────────────────────────────────────────────────


@given(st.integers(0, 40), st.integers(0, 40))
def test_every_growth_is_accepted(one: int, other: int) -> None:
    old, new = sorted((one, other))
    assert compare(request(old, new), head(new), head(old)) is None


@given(st.integers(1, 40), st.integers(1, 40))
def test_no_other_history_is_accepted(one: int, other: int) -> None:
    old, new = sorted((one, other))
    refusal = compare(request(old, new, OTHER), head(new, OTHER), head(old))
    assert refused(refusal) == 422


def test_the_first_head_of_a_log_needs_no_proof() -> None:
    assert compare(request(0, 7), head(7), None) is None
    assert compare(request(0, 0), head(0), None) is None


def test_the_first_head_comes_with_no_proof() -> None:
    assert refused(compare(Request(0, (LEAVES[0],), signed(head(7))), head(7), None)) == 422


def test_the_empty_tree_has_one_root() -> None:
    wrong = TreeHead(ORIGIN, 0, LEAVES[0])
    refusal = compare(Request(0, (), signed(wrong)), wrong, None)
    assert refused(refusal) == 422
    assert isinstance(refusal, Refusal)
    assert not refusal.is_fork
    assert head(0).root == EMPTY_ROOT


@pytest.mark.parametrize("old", [0, 6, 8])
def test_who_does_not_know_what_was_cosigned_is_told(old: int) -> None:
    refusal = compare(Request(old, (), signed(head(9))), head(9), head(7))
    assert refused(refusal) == 409
    assert isinstance(refusal, Refusal)
    assert (refusal.content_type, bytes(refusal), refusal.size) == (SIZE_TYPE, b"7\n", 7)


def test_a_log_never_seen_is_at_size_zero() -> None:
    refusal = compare(Request(7, (), signed(head(7))), head(7), None)
    assert isinstance(refusal, Refusal)
    assert bytes(refusal) == b"0\n"


def test_a_second_root_for_one_size_is_a_fork() -> None:
    refusal = compare(request(7, 7, OTHER), head(7, OTHER), head(7))
    assert isinstance(refusal, Refusal)
    assert (refusal.status, refusal.is_fork) == (422, True)
    assert refusal.content_type.startswith("text/plain")
    assert bytes(refusal).endswith(b"7\n")


def test_the_same_head_may_be_cosigned_again_without_a_proof() -> None:
    assert compare(request(7, 7), head(7), head(7)) is None
    assert refused(compare(Request(7, (LEAVES[0],), signed(head(7))), head(7), head(7))) == 422


@given(st.integers(1, 39), st.data())
def test_a_bent_proof_is_refused(old: int, data: st.DataObject) -> None:
    good = request(old, 40)
    place = data.draw(st.integers(0, len(good.proof) - 1))
    bent = bytes([good.proof[place][0] ^ 1]) + good.proof[place][1:]
    for changed in (
        (*good.proof[:place], bent, *good.proof[place + 1 :]),
        good.proof[:-1],
        (*good.proof, LEAVES[0]),
    ):
        assert refused(compare(replace(good, proof=changed), head(40), head(old))) == 422


def test_time_never_goes_back() -> None:
    assert [signing_time(5, None), signing_time(5, 4), signing_time(4, 5)] == [5, 5, 5]


# ── answers ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def line(note: Note, key: PublicKey, at: int = 1_700_000_000) -> bytes:
    return cosign(note, key, secret(SEEDS[key]).sign, at).line.encode()


def test_a_good_cosignature_is_found_among_others() -> None:
    note = signed(head(7))
    found = parse_cosignature(line(note, EVE) + line(note, ADA) + line(note, BOB), note, ADA)
    assert Note(note.text, (found,)).cosigned_by(ADA) == 1_700_000_000


def test_of_two_cosignatures_the_newest_counts() -> None:
    note = signed(head(7))
    found = parse_cosignature(line(note, ADA, at=9) + line(note, ADA, at=5), note, ADA)
    assert Note(note.text, (found,)).cosigned_by(ADA) == 9


BAD_ANSWERS = {
    "empty": b"",
    "no line end": line(signed(head(7)), ADA)[:-1],
    "another witness's": line(signed(head(7)), BOB),
    "of another head": line(signed(head(8)), ADA),
    "of another history": line(signed(head(7, OTHER)), ADA),
    "a good and a bad one": line(signed(head(7)), ADA) + line(signed(head(8)), ADA),
    "cut short": Signature(ADA.name, ADA.id, b"\0" * 71).line.encode(),
    "at no time": line(signed(head(7)), ADA, at=0),
    "after all times": Signature(
        ADA.name, ADA.id, (2**63).to_bytes(8, "big") + secret(3).sign(cosigned_message(2**63, head(7).text))
    ).line.encode(),
    "more text": b"more\n\n" + line(signed(head(7)), ADA),
    "html": b"<html>ok</html>\n",
    "no utf-8": b"\xff\n",
}


@pytest.mark.parametrize("body", BAD_ANSWERS.values(), ids=BAD_ANSWERS.keys())
def test_an_answer_without_a_good_cosignature_is_refused(body: bytes) -> None:
    with pytest.raises(BadNote):
        parse_cosignature(body, signed(head(7)), ADA)


def test_a_size_is_read_strictly() -> None:
    assert parse_size(b"20852163\n") == 20852163
    for body in (b"", b"7", b"07\n", b" 7\n", b"7\r\n", b"7\n\n", b"-7\n", b"\xff\n", b"99999999999999999999\n"):
        with pytest.raises(BadNote):
            parse_size(body)


def test_a_newer_cosignature_takes_the_place_of_an_older() -> None:
    note = cosigned(signed(head(7)), ADA, BOB, at=5)
    again = with_newest(note, cosigned(signed(head(7)), ADA, at=9).signatures[1:])
    assert [again.cosigned_by(key) for key in (ADA, BOB)] == [9, 5]
    assert len(again.signatures) == 3
    assert again.signed_by(LOG)
    assert parse_note(str(again)) == again


def test_signatures_are_chosen_by_name_and_id() -> None:
    note = cosigned(signed(head(7)), ADA, BOB)
    assert [one.name for one in signatures_of(note, [LOG, BOB])] == [ORIGIN, BOB.name]
    assert signatures_of(note, [replace(BOB, name="bob")]) == ()


# ── enough ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_enough_counts_witnesses_that_cosigned() -> None:
    note = cosigned(signed(head(7)), ADA, BOB)
    assert cosigners(note, [ADA, BOB, EVE]) == {ADA: 1_700_000_000, BOB: 1_700_000_000}
    assert [enough(note, [ADA, BOB, EVE], n) for n in (1, 2, 3)] == [True, True, False]
    assert not enough(note, [EVE], 1)
    assert not enough(note, [], 1)


def test_a_witness_counts_once_under_however_many_names() -> None:
    alias = replace(ADA, name="someone-else")
    note = cosigned(signed(head(7)), ADA, at=5).with_signatures([cosign(signed(head(7)), alias, secret(3).sign, 9)])
    assert not enough(note, [ADA, alias, ADA], 2)
    assert cosigners(note, [ADA, alias]) == {alias: 9} == cosigners(note, [alias, ADA])


def test_a_forged_cosignature_is_no_reason_to_count_less_but_to_stop() -> None:
    forged = Signature(BOB.name, BOB.id, b"\0" * 72)
    with pytest.raises(BadNote):
        enough(cosigned(signed(head(7)), ADA).with_signatures([forged]), [ADA, BOB], 1)


def test_a_log_is_not_its_own_witness() -> None:
    with pytest.raises(BadNote, match="not of a witness"):
        enough(signed(head(7)), [LOG], 1)


@pytest.mark.parametrize("n", [0, -1])
def test_a_quorum_of_nobody_is_no_quorum(n: int) -> None:
    with pytest.raises(ValueError, match="at least one"):
        enough(cosigned(signed(head(7)), ADA), [ADA], n)
