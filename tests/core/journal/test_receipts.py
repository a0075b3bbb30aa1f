"""Promises of core.journal.receipts: one file leads from one entry to one signed head, and from no other."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indelible.core.journal.notes import COSIGNATURE, LARGEST_NUMBER, Note, TreeHead, parse_vkey, sign_note
from indelible.core.journal.receipts import Receipt, parse_receipt
from indelible.errors import BadNote
from tests.core.journals import ORIGIN, Holder, MemoryTree

LOG = Holder(ORIGIN, 1)
WITNESS = Holder("witness.example/one", 3, COSIGNATURE)
TREE = MemoryTree([b"entry %d" % number for number in range(300)])
HEAD = WITNESS.cosigned(TREE.signed(LOG))
RECEIPT = TREE.receipt(123, HEAD, 300)

heads = st.sampled_from([HEAD, TREE.signed(LOG), TREE.signed(LOG, 1)])
hashes = st.binary(min_size=32, max_size=32)
receipts = st.builds(
    Receipt,
    st.integers(0, LARGEST_NUMBER),
    st.lists(hashes, max_size=63).map(tuple),
    heads,
    st.none() | st.binary(max_size=200),
)


@given(st.integers(1, 300), st.data())
def test_a_receipt_leads_from_its_entry_to_its_head(size: int, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, size - 1))
    receipt = TREE.receipt(index, TREE.signed(LOG, size), size)
    assert receipt.covers(b"entry %d" % index)
    assert receipt.extra == b"entry %d" % index
    assert not receipt.covers(b"entry %d" % (index + 1))
    assert receipt.tree_head() == TREE.head(size)
    assert receipt.head.signed_by(parse_vkey(LOG.key.vkey))


@given(receipts)
def test_a_receipt_is_read_as_it_was_written(receipt: Receipt) -> None:
    assert parse_receipt(str(receipt)) == receipt
    assert parse_receipt(str(receipt).encode()) == receipt


def test_a_receipt_is_written_as_the_specification_says() -> None:
    lines = str(RECEIPT).split("\n")
    assert lines[:3] == ["c2sp.org/tlog-proof@v1", f"extra {b64encode(b'entry 123').decode()}", "index 123"]
    assert lines[3:12] == [b64encode(part).decode() for part in RECEIPT.proof]
    assert lines[12] == ""
    assert "\n".join(lines[13:]) == str(HEAD), "the head stands there verbatim"
    assert str(replace(RECEIPT, extra=None)) == "\n".join([lines[0], *lines[2:]])


def test_a_tree_of_one_entry_needs_no_hashes() -> None:
    receipt = TREE.receipt(0, TREE.signed(LOG, 1), 1)
    assert receipt.proof == ()
    assert parse_receipt(str(receipt)).covers(b"entry 0")


def test_an_empty_entry_is_not_the_same_as_none() -> None:
    tree = MemoryTree([b""])
    receipt = tree.receipt(0, tree.signed(LOG), 1)
    assert parse_receipt(str(receipt)).extra == b""
    assert parse_receipt(str(receipt)).covers(b"")


@given(st.integers(0, 10**6))
def test_a_receipt_with_another_index_covers_nothing(index: int) -> None:
    assert replace(RECEIPT, index=index).covers(b"entry 123") == (index == 123)


def test_a_receipt_does_not_cover_what_lies_beyond_its_head() -> None:
    assert not replace(RECEIPT, index=300).covers(b"entry 123")
    assert not replace(RECEIPT, proof=RECEIPT.proof[:-1]).covers(b"entry 123")
    for root in (TREE.head(0).root, TREE.head(1).root):
        empty = sign_note(TreeHead(ORIGIN, 0, root).text, LOG.key, LOG.sign)
        assert not Receipt(0, (), empty).covers(b"entry 0")


def test_a_flipped_bit_anywhere_in_a_receipt_is_refused_or_changes_nothing_that_was_signed() -> None:
    raw = str(RECEIPT).encode()
    still = 0
    for place in range(len(raw)):
        for bit in (1, 2, 0x20, 0x80):
            still += is_still_good(bytes([*raw[:place], raw[place] ^ bit, *raw[place + 1 :]]))
    assert still < 4 * 160, "only the line of a witness can go without harm"


@given(st.data())
def test_a_changed_byte_of_a_receipt_is_refused_or_changes_nothing_that_was_signed(data: st.DataObject) -> None:
    raw = str(RECEIPT).encode()
    place = data.draw(st.integers(0, len(raw) - 1))
    byte = data.draw(st.integers(0, 255).filter(lambda byte: byte != raw[place]))
    is_still_good(bytes([*raw[:place], byte, *raw[place + 1 :]]))


def is_still_good(changed: bytes) -> bool:
    """Is it still a receipt of this log? Then only the witness's line may have changed."""
    try:
        found = parse_receipt(changed)
        if found.extra is None or not found.covers(found.extra) or not found.head.signed_by(LOG.key):
            return False
        seen = found.head.cosigned_by(WITNESS.key)
    except BadNote:
        return False
    assert seen is None
    assert (found.index, found.proof, found.extra) == (RECEIPT.index, RECEIPT.proof, RECEIPT.extra)
    assert (found.head.text, found.head.signatures[0]) == (HEAD.text, HEAD.signatures[0])
    assert str(found).encode() == changed, "there is no second writing of the same"
    return True


NOTE = str(TREE.signed(LOG))
HASH = b64encode(bytes(32)).decode()
FIRST = "c2sp.org/tlog-proof@v1"


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ("", "does not begin as one"),
        (NOTE, "does not begin as one"),
        (f"{FIRST}\nindex 1\n{HASH}\n", "does not begin as one"),
        (f"c2sp.org/tlog-proof@v2\nindex 1\n\n{NOTE}", "does not begin as one"),
        (f" {FIRST}\nindex 1\n\n{NOTE}", "does not begin as one"),
        (f"{FIRST}\r\nindex 1\r\n\n{NOTE}", "does not begin as one"),
        (f"{FIRST}\n\n{NOTE}", "does not say which entry"),
        (f"{FIRST}\n{HASH}\n\n{NOTE}", "does not say which entry"),
        (f"{FIRST}\nextra AAAA\n\n{NOTE}", "does not say which entry"),
        (f"{FIRST}\nindex 1\nextra AAAA\n\n{NOTE}", "a hash of the proof is no base64"),
        (f"{FIRST}\nextra AAAA\nextra AAAA\nindex 1\n\n{NOTE}", "does not say which entry"),
        (f"{FIRST}\nextra AA\nindex 1\n\n{NOTE}", "the entry is no base64"),
        (f"{FIRST}\nextra AB==\nindex 1\n\n{NOTE}", "the entry is no canonical base64"),
        (f"{FIRST}\nextra  AAAA\nindex 1\n\n{NOTE}", "the entry is no base64"),
        (f"{FIRST}\nindex 01\n\n{NOTE}", "no number of an entry"),
        (f"{FIRST}\nindex -1\n\n{NOTE}", "no number of an entry"),
        (f"{FIRST}\nindex \n\n{NOTE}", "no number of an entry"),
        (f"{FIRST}\nindex 1 \n\n{NOTE}", "no number of an entry"),
        (f"{FIRST}\nindex ²\n\n{NOTE}", "no number of an entry"),
        (f"{FIRST}\nindex {2**63}\n\n{NOTE}", "no number of an entry"),
        (f"{FIRST}\nindex {'9' * 5000}\n\n{NOTE}", "no number of an entry"),
        (f"{FIRST}\nindex 1\n{HASH[:-4]}\n\n{NOTE}", "the proof of this receipt is none"),
        (f"{FIRST}\nindex 1\n{HASH}AAAA\n\n{NOTE}", "a hash of the proof is no base64"),
        (f"{FIRST}\nindex 1\n{HASH} \n\n{NOTE}", "a hash of the proof is no base64"),
        (f"{FIRST}\nindex 1\n" + f"{HASH}\n" * 64 + f"\n{NOTE}", "the proof of this receipt is none"),
        (f"{FIRST}\nindex 1\n{HASH}\n\n", "no signed note"),
        (f"{FIRST}\nindex 1\n{HASH}\n\n\n{NOTE}", "no tree head"),
        (f"{FIRST}\nindex 1\n{HASH}\n\nno head\n\n{NOTE[-140:]}", "no tree head|no signature line"),
        (f"{FIRST}\nindex 1\n{HASH}\n\n{NOTE}\n", "no signed note"),
        (f"{FIRST}\nindex 1\n\n{NOTE}".encode().replace(b"ledger", b"led\xffer"), "no UTF-8"),
        (b"\xff", "does not begin as one"),
    ],
)
def test_what_is_not_exactly_a_receipt_is_refused(data: str | bytes, why: str) -> None:
    with pytest.raises(BadNote, match=why):
        parse_receipt(data).tree_head()


def test_a_receipt_whose_head_is_none_covers_nothing() -> None:
    receipt = Receipt(0, (), Note("no head\n", HEAD.signatures))
    with pytest.raises(BadNote, match="no tree head"):
        receipt.covers(b"entry 0")
