"""Promises of core.journal.notes: notes, keys and heads are C2SP's, and what is not exactly one is refused."""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indelible.core.journal.notes import (
    COSIGNATURE,
    ED25519,
    LARGEST_NUMBER,
    MOST_NOTE_BYTES,
    Note,
    PublicKey,
    Signature,
    TreeHead,
    cosign,
    cosigned_message,
    is_key_name,
    log_name,
    parse_count,
    parse_head,
    parse_note,
    parse_vkey,
    sign_note,
    tenant_named,
    unbase64,
)
from indelible.errors import BadNote
from tests.core.journals import ORIGIN, SEEN_AT, Holder

C2SP: dict[str, Any] = json.loads((Path(__file__).parents[1] / "vectors" / "c2sp.json").read_text(encoding="utf-8"))
LOG = Holder(ORIGIN, 1)
OTHER = Holder(ORIGIN, 2)
WITNESS = Holder("witness.example/one", 3, COSIGNATURE)
ROOT = bytes(range(32))
HEAD = TreeHead(ORIGIN, 20852163, ROOT)
SIGNED = sign_note(HEAD.text, LOG.key, LOG.sign)

letters = st.characters(exclude_categories=["Cs", "Cc"])
names = st.text(alphabet=letters, min_size=1, max_size=30).filter(is_key_name)
texts = st.lists(st.text(alphabet=letters, max_size=40), min_size=1, max_size=5).map(
    lambda lines: "\n".join(lines) + "\n"
)
contents = st.binary(min_size=1, max_size=80)
signatures = st.builds(Signature, names, st.binary(min_size=4, max_size=4), contents)
notes = st.builds(Note, texts, st.lists(signatures, min_size=1, max_size=16).map(tuple))


# ── what the specifications show ─────────────────────────────────────────────────────────────────────────────────────


def test_the_example_of_the_specification_verifies() -> None:
    key = parse_vkey(C2SP["vkey"])
    note = parse_note(C2SP["signed"])
    assert (key.name, key.kind, key.vkey) == ("example.com/foo", ED25519, C2SP["vkey"])
    assert note.text == "This is an example message.\n"
    assert note.signed_by(key)
    assert str(note) == C2SP["signed"]


def test_a_text_may_have_empty_lines_and_ends_at_the_last_of_them() -> None:
    note = parse_note(C2SP["with_empty_lines"])
    assert note.text.endswith(":\n\ned è subito sera.\n")
    assert [one.name for one in note.signatures] == ["quasimodo.example/salvatore"]
    assert str(note) == C2SP["with_empty_lines"]


def test_the_cosigned_head_of_the_specification_is_read() -> None:
    note = parse_note(C2SP["cosigned"])
    head = parse_head(note.text)
    assert (head.origin, head.size) == ("example.com/behind-the-sofa", 20852163)
    assert head.text == note.text
    assert int.from_bytes(note.signatures[1].content[:8], "big") == C2SP["cosigned_at"]
    assert str(note) == C2SP["cosigned"]
    assert cosigned_message(C2SP["cosigned_at"], note.text).decode() == (
        "cosignature/v1\ntime 1679315147\nexample.com/behind-the-sofa\n20852163\n"
        "CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n"
    )


# ── keys ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@given(names, st.integers(0, 255), st.sampled_from([ED25519, COSIGNATURE]))
def test_a_key_is_read_from_its_line(name: str, byte: int, kind: int) -> None:
    key = Holder(name, byte, kind).key
    assert parse_vkey(key.vkey) == key
    assert parse_vkey(f" {key.vkey}\n") == key, "as it comes out of a file or a shell"


def test_the_same_key_of_another_kind_has_another_id() -> None:
    assert PublicKey("one", LOG.key.raw, ED25519).id != PublicKey("one", LOG.key.raw, COSIGNATURE).id


@pytest.mark.parametrize("vkey", [LOG.key.vkey, WITNESS.key.vkey, "läufer/ä+" + Holder("läufer/ä", 9).key.vkey[9:]])
def test_a_changed_byte_of_a_key_is_refused(vkey: str) -> None:
    assert parse_vkey(vkey).vkey == vkey
    raw = vkey.encode()
    for place in range(len(raw)):
        for other in (raw[place] ^ 1, raw[place] ^ 0x20, raw[place] ^ 0x80, 0x0A, 0x20, 0x2B, 0x3D):
            if other != raw[place]:
                changed = bytes([*raw[:place], other, *raw[place + 1 :]])
                with pytest.raises(BadNote):
                    parse_vkey(changed.decode("utf-8", "surrogateescape"))


@pytest.mark.parametrize(
    ("vkey", "why"),
    [
        ("", "looks like name\\+0123abcd\\+base64"),
        ("name", "looks like"),
        ("name+12345678", "looks like"),
        (LOG.key.vkey.replace("A", "A\n", 1), "no base64"),
        (LOG.key.vkey + "=", "base64"),
        (LOG.key.vkey + "AAAA", "the key has 36 bytes, not 33"),
        (LOG.key.vkey[:-4], "the key has 30 bytes, not 33"),
        ("name+12345678+", "the key has 0 bytes"),
        ("+" + LOG.key.vkey.split("+", 1)[1], "cannot name a key"),
        ("a b+" + LOG.key.vkey.split("+", 1)[1], "cannot name a key"),
        ("\udc80+" + LOG.key.vkey.split("+", 1)[1], "cannot name a key"),
        (f"{ORIGIN}+{LOG.key.id.hex().upper()}+{LOG.key.vkey.split('+', 2)[2]}", "does not fit its id"),
        (f"{ORIGIN}+{OTHER.key.id.hex()}+{LOG.key.vkey.split('+', 2)[2]}", "does not fit its id"),
        (f"name+12345678+{b64encode(bytes([2]) + LOG.key.raw).decode()}", "keys of type 2 are not known here"),
        (f"name+12345678+{b64encode(bytes([1, 1]) + bytes(31)).decode()}", "low order"),
    ],
)
def test_what_is_not_exactly_a_key_is_refused(vkey: str, why: str) -> None:
    with pytest.raises(BadNote, match=why):
        parse_vkey(vkey)


@pytest.mark.parametrize(
    "name", ["", "a b", "a+b", "a\tb", "a\u00a0b", "a\u2003b", "a\x00b", "a\u0085b", "\ud800", "a\udfff"]
)
def test_spaces_plus_signs_and_broken_characters_cannot_name_a_key(name: str) -> None:
    assert not is_key_name(name)
    with pytest.raises(BadNote, match="cannot name a key"):
        PublicKey(name, LOG.key.raw)


@given(st.text(max_size=20).filter(is_key_name))
def test_whatever_may_name_a_key_survives_a_note(name: str) -> None:
    holder = Holder(name, 7)
    assert parse_note(str(sign_note("x\n", holder.key, holder.sign))).signed_by(parse_vkey(holder.key.vkey))


# ── notes ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@given(notes)
def test_a_note_is_read_as_it_was_written(note: Note) -> None:
    assert parse_note(str(note)) == note
    assert parse_note(str(note).encode()) == note


def test_a_note_that_was_read_is_written_as_it_was() -> None:
    read = 0

    written = st.from_regex(r"AAAA[aAQ/]{2}([aAQ/]{2}|[aAQ/]=|==)", fullmatch=True)

    @given(st.binary(max_size=200) | written.map(lambda text: f"x\n\n— a {text}\n".encode()))
    def rewrite(data: bytes) -> None:
        nonlocal read
        try:
            note = parse_note(data)
        except BadNote:
            return
        assert str(note).encode() == data
        read += 1

    rewrite()
    assert read


@given(st.sampled_from([SIGNED, WITNESS.cosigned(SIGNED)]), st.data())
def test_a_changed_byte_of_a_note_is_refused_or_changes_nothing_that_was_signed(
    note: Note, data: st.DataObject
) -> None:
    raw = str(note).encode()
    place = data.draw(st.integers(0, len(raw) - 1))
    byte = data.draw(st.integers(0, 255).filter(lambda byte: byte != raw[place]))
    check_changed(note, bytes([*raw[:place], byte, *raw[place + 1 :]]))


def test_a_flipped_bit_anywhere_in_a_note_is_refused_or_changes_nothing_that_was_signed() -> None:
    note = WITNESS.cosigned(SIGNED)
    raw = str(note).encode()
    left = {
        check_changed(note, bytes([*raw[:place], raw[place] ^ 1 << bit, *raw[place + 1 :]]))
        for place in range(len(raw))
        for bit in range(8)
    }
    assert left == {"no note", "the signature", "the cosignature"}


def check_changed(note: Note, changed: bytes) -> str:
    """A change in one signature's line can only take this signature away, never touch text or the other signature."""
    try:
        found = parse_note(changed)
        is_signed, seen = found.signed_by(LOG.key), found.cosigned_by(WITNESS.key)
    except BadNote:
        return "no note"
    if is_signed:
        assert found.text == note.text
        assert seen is None
        assert str(found).encode() == changed, "there is no second writing of the same"
        return "the signature"
    if seen is not None:
        assert (found.text, seen) == (note.text, SEEN_AT)
        return "the cosignature"
    return "neither"


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "no signed note"),
        (b"text\n", "no signed note"),
        (b"\n\xe2\x80\x94 a AAAAAAA=\n", "no signed note"),
        (b"text\n\n", "no signed note"),
        (b"text\n\xe2\x80\x94 a AAAAAAA=\n", "no signed note"),
        (b"text\n\n\xe2\x80\x94 a AAAAAAA=", "no signed note"),
        (b"text\n\n\xe2\x80\x94 a AAAAAAA=\nmore", "no signed note"),
        (b"text\n\n\xe2\x80\x94 a AAAAAAA=\nmore\n", "no signature line"),
        (b"text\n\n\xe2\x80\x94 a AAAAAAA=\n\n", "no signed note"),
        (b"text\n\n- a AAAAAAA=\n", "no signature line"),
        (b"text\n\n\xe2\x80\x94a AAAAAAA=\n", "no signature line"),
        (b"text\n\n\xe2\x80\x94  AAAAAAA=\n", "no signature line"),
        (b"text\n\n\xe2\x80\x94 a\n", "no signature line"),
        (b"text\n\n\xe2\x80\x94 a+b AAAAAAA=\n", "no signature line"),
        (b"text\n\n\xe2\x80\x94 a\xc2\xa0b AAAAAAA=\n", "no signature line"),
        (b"text\n\n\xe2\x80\x94 a AAAAAAA= \n", "no base64"),
        (b"text\n\n\xe2\x80\x94 a AAAA AAA=\n", "no base64"),
        (b"text\n\n\xe2\x80\x94 a AAAAAAA\n", "no base64"),
        (b"text\n\n\xe2\x80\x94 a AAAAAAB=\n", "no canonical base64"),
        (b"text\n\n\xe2\x80\x94 a AAAA-_8=\n", "no base64"),
        (b"text\n\n\xe2\x80\x94 a \n", "cut short"),
        (b"text\n\n\xe2\x80\x94 a AAAAAA==\n", "cut short"),
        (b"te\rxt\n\n\xe2\x80\x94 a AAAAAAA=\n", "control characters"),
        (b"text\r\n\r\n\xe2\x80\x94 a AAAAAAA=\r\n", "control characters"),
        (b"te\0xt\n\n\xe2\x80\x94 a AAAAAAA=\n", "control characters"),
        (b"te\xffxt\n\n\xe2\x80\x94 a AAAAAAA=\n", "no UTF-8"),
        (b"te\xed\xa0\x80xt\n\n\xe2\x80\x94 a AAAAAAA=\n", "no UTF-8"),
        ("te\ud800xt\n\n— a AAAAAAA=\n", "no UTF-8"),
        (b"x" * (MOST_NOTE_BYTES + 1), "too long"),
        (b"text\n\n" + b"\xe2\x80\x94 a AAAAAAA=\n" * 101, "more than 100 signatures"),
    ],
)
def test_what_is_not_exactly_a_note_is_refused(data: bytes | str, why: str) -> None:
    with pytest.raises(BadNote, match=why):
        parse_note(data)


def test_the_shortest_note_is_one() -> None:
    assert parse_note(b"\n\n\xe2\x80\x94 a AAAAAAA=\n").text == "\n"


def test_a_hundred_signatures_are_read() -> None:
    """C2SP asks for sixteen at least, and some kinds of them are 5 kB long."""
    long = Signature("a", b"1234", bytes(5000))
    assert len(parse_note(str(Note("text\n", (long,) * 100))).signatures) == 100


@pytest.mark.parametrize("text", ["", "no end", "a\n\rb\n", "a\0\n", "\ud800\n"])
def test_nobody_signs_a_text_that_no_note_can_hold(text: str) -> None:
    with pytest.raises(BadNote):
        sign_note(text, LOG.key, LOG.sign)


# ── signatures ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_only_the_key_that_signed_has_signed() -> None:
    assert SIGNED.signed_by(LOG.key)
    assert not SIGNED.signed_by(OTHER.key), "the same name is not enough"
    assert not SIGNED.signed_by(PublicKey("another", LOG.key.raw)), "the same key is not enough"
    assert not Note(HEAD.text, ()).signed_by(LOG.key)


def test_signatures_of_strangers_are_passed_over_even_with_the_same_name_or_the_same_id() -> None:
    strangers = [Signature(ORIGIN, b"\0\0\0\0", bytes(64)), Signature("another", LOG.key.id, bytes(64))]
    note = Note(HEAD.text, (*strangers, *SIGNED.signatures))
    assert note.signed_by(LOG.key)
    assert not Note(HEAD.text, tuple(strangers)).signed_by(LOG.key)


@pytest.mark.parametrize("is_first", [True, False])
def test_a_bad_signature_under_a_known_key_spoils_the_note_wherever_it_stands(is_first: bool) -> None:
    bad = Signature(ORIGIN, LOG.key.id, bytes(64))
    together = (bad, *SIGNED.signatures) if is_first else (*SIGNED.signatures, bad)
    with pytest.raises(BadNote, match=f"the signature of {ORIGIN} .* does not fit"):
        Note(HEAD.text, together).signed_by(LOG.key)


@pytest.mark.parametrize("length", [1, 63, 65, 72])
def test_a_signature_of_another_length_does_not_fit(length: int) -> None:
    content = (SIGNED.signatures[0].content * 2)[:length]
    with pytest.raises(BadNote, match="does not fit"):
        Note(HEAD.text, (Signature(ORIGIN, LOG.key.id, content),)).signed_by(LOG.key)


def test_two_keys_can_sign_one_head() -> None:
    """So it is when a key is rotated: the heads around it carry both."""
    both = SIGNED.with_signatures(sign_note(HEAD.text, OTHER.key, OTHER.sign).signatures)
    assert both.signed_by(LOG.key)
    assert both.signed_by(OTHER.key)
    assert parse_note(str(both)) == both


def test_a_signature_is_added_once() -> None:
    assert SIGNED.with_signatures(SIGNED.signatures) == SIGNED
    assert len(WITNESS.cosigned(WITNESS.cosigned(SIGNED)).signatures) == 2


def test_a_witness_says_when_it_saw_a_head() -> None:
    note = WITNESS.cosigned(SIGNED)
    assert note.cosigned_by(WITNESS.key) == SEEN_AT
    assert note.signed_by(LOG.key), "a cosignature takes nothing away"
    assert SIGNED.cosigned_by(WITNESS.key) is None
    assert WITNESS.cosigned(note, SEEN_AT - 5).cosigned_by(WITNESS.key) == SEEN_AT, "the newest counts"
    assert parse_note(str(note)) == note


@pytest.mark.parametrize("content", [b"\1", bytes(8), bytes(64), bytes(72), bytes(71), bytes(80)])
def test_a_bad_cosignature_of_a_known_witness_spoils_the_note(content: bytes) -> None:
    good = WITNESS.cosigned(SIGNED)
    note = good.with_signatures([Signature(WITNESS.key.name, WITNESS.key.id, content)])
    with pytest.raises(BadNote, match=r"the cosignature of witness\.example/one .* does not fit"):
        note.cosigned_by(WITNESS.key)


def test_a_witness_signs_its_time_too() -> None:
    signature = cosign(SIGNED, WITNESS.key, WITNESS.sign, SEEN_AT)
    later = Signature(signature.name, signature.key_id, (SEEN_AT + 1).to_bytes(8, "big") + signature.content[8:])
    with pytest.raises(BadNote, match="does not fit"):
        SIGNED.with_signatures([later]).cosigned_by(WITNESS.key)


def test_a_time_that_not_every_reader_can_hold_is_neither_signed_nor_believed() -> None:
    assert WITNESS.cosigned(SIGNED, LARGEST_NUMBER).cosigned_by(WITNESS.key) == LARGEST_NUMBER
    assert WITNESS.cosigned(SIGNED, 0).cosigned_by(WITNESS.key) == 0
    for at in (-1, LARGEST_NUMBER + 1):
        with pytest.raises(BadNote, match="no time of a cosignature"):
            cosign(SIGNED, WITNESS.key, WITNESS.sign, at)
    at = LARGEST_NUMBER + 1
    content = at.to_bytes(8, "big") + WITNESS.sign(cosigned_message(at, SIGNED.text))
    with pytest.raises(BadNote, match="does not fit"):
        SIGNED.with_signatures([Signature(WITNESS.key.name, WITNESS.key.id, content)]).cosigned_by(WITNESS.key)


def test_a_log_cannot_pass_for_a_witness_nor_a_witness_for_a_log() -> None:
    note = WITNESS.cosigned(SIGNED)
    with pytest.raises(BadNote, match="does not fit"):
        note.signed_by(WITNESS.key)
    with pytest.raises(BadNote, match="does not fit"):
        note.cosigned_by(LOG.key)
    plain = Signature(WITNESS.key.name, WITNESS.key.id, WITNESS.sign(HEAD.text.encode()))
    with pytest.raises(BadNote, match="does not fit"):
        Note(HEAD.text, (plain,)).signed_by(WITNESS.key)
    timed = cosign(SIGNED, LOG.key, LOG.sign, SEEN_AT)
    with pytest.raises(BadNote, match="does not fit"):
        Note(HEAD.text, (timed,)).cosigned_by(LOG.key)
    as_log = PublicKey(WITNESS.key.name, WITNESS.key.raw, ED25519)
    assert not note.signed_by(as_log)


# ── heads ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@given(
    st.text(alphabet=letters, min_size=1, max_size=40),
    st.integers(0, LARGEST_NUMBER),
    st.binary(min_size=32, max_size=32),
)
def test_a_head_is_read_as_it_was_written(origin: str, size: int, root: bytes) -> None:
    head = TreeHead(origin, size, root)
    assert parse_head(head.text) == head


def test_more_lines_may_follow_and_are_not_ours() -> None:
    assert parse_head(HEAD.text + "more\nand more\n") == HEAD


ENCODED = HEAD.text.split("\n")[2]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no tree head"),
        ("\n", "no tree head"),
        (f"{ORIGIN}\n5\n", "no tree head"),
        (f"{ORIGIN}\n5\n{ENCODED}", "no tree head"),
        (f"\n5\n{ENCODED}\n", "no tree head"),
        (f"{ORIGIN}\n\n{ENCODED}\n", "no tree head"),
        (f"{ORIGIN}\n5\n\n", "no tree head"),
        (f"{ORIGIN}\n5\n{ENCODED}\n\n", "no tree head"),
        (f"{ORIGIN}\n5\n{ENCODED}\n\nmore\n", "no tree head"),
        (f"{ORIGIN}\n05\n{ENCODED}\n", "no size of a tree"),
        (f"{ORIGIN}\n00\n{ENCODED}\n", "no size of a tree"),
        (f"{ORIGIN}\n+5\n{ENCODED}\n", "no size of a tree"),
        (f"{ORIGIN}\n-5\n{ENCODED}\n", "no size of a tree"),
        (f"{ORIGIN}\n 5\n{ENCODED}\n", "no size of a tree"),
        (f"{ORIGIN}\n5_0\n{ENCODED}\n", "no size of a tree"),
        (f"{ORIGIN}\n0x5\n{ENCODED}\n", "no size of a tree"),
        (f"{ORIGIN}\n٥\n{ENCODED}\n", "no size of a tree"),
        (f"{ORIGIN}\n²\n{ENCODED}\n", "no size of a tree"),
        (f"{ORIGIN}\n{2**63}\n{ENCODED}\n", "no size of a tree"),
        (f"{ORIGIN}\n{'9' * 5000}\n{ENCODED}\n", "no size of a tree"),
        (f"{ORIGIN}\n5\n{ENCODED[:-4]}\n", "the root has 30 bytes, not 32"),
        (f"{ORIGIN}\n5\n{ENCODED} \n", "the root is no base64"),
        (f"{ORIGIN}\n5\n{ENCODED[:-2]}9=\n", "the root is no canonical base64"),
    ],
)
def test_what_is_not_exactly_a_head_is_refused(text: str, why: str) -> None:
    with pytest.raises(BadNote, match=why):
        parse_head(text)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"origin": ""}, "no origin"),
        ({"origin": "a\n7"}, "no origin"),
        ({"size": -1}, "no size"),
        ({"size": 2**63}, "no size"),
        ({"root": b""}, "the root has 0 bytes"),
    ],
)
def test_a_head_that_could_not_be_read_back_is_not_made(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(BadNote, match=why):
        TreeHead(**{"origin": ORIGIN, "size": 1, "root": ROOT, **changes})


@given(st.integers(0, LARGEST_NUMBER))
def test_a_number_has_one_way_to_be_written(number: int) -> None:
    assert parse_count(str(number), "number") == number
    with pytest.raises(BadNote, match="is no number"):
        parse_count(f"0{number}", "number")


@given(st.binary(max_size=50), st.data())
def test_base64_has_one_way_to_be_written(content: bytes, data: st.DataObject) -> None:
    text = b64encode(content).decode()
    assert unbase64(text, "it") == content
    place = data.draw(st.integers(0, len(text)))
    for changed in (text[:place] + "\n" + text[place:], text + "=", text.rstrip("=") if "=" in text else text + "A"):
        with pytest.raises(BadNote):
            unbase64(changed, "it")


# ── the name of a journal ────────────────────────────────────────────────────────────────────────────────────────────


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30))
def test_the_name_of_any_tenants_journal_may_name_a_key_and_begin_a_head(tenant: str) -> None:
    name = log_name("ledger-0123456789ab", tenant)
    assert tenant_named("ledger-0123456789ab", name) == tenant
    assert tenant_named("ledger-0123456789a", name) is None
    assert is_key_name(name)
    assert parse_head(TreeHead(name, 1, ROOT).text).origin == name


tenants = st.text(alphabet=st.sampled_from("aä+ %2B\n/"), max_size=5)


@given(tenants, tenants)
def test_two_tenants_never_share_a_journals_name(one: str, other: str) -> None:
    assert (log_name("ledger", one) == log_name("ledger", other)) == (one == other)


def test_plain_names_stay_as_they_are() -> None:
    assert log_name("ledger-0123456789ab", "default") == "ledger-0123456789ab/default"
    assert log_name("l", "mandant-ä/7") == "l/mandant-ä/7"
    assert log_name("l", "a b+c%\n") == "l/a%20b%2Bc%25%0A"
