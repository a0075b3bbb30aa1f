"""Entries are examined in their order: the tree, the rules, the keys, the values, the writers' signatures."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from indelible.core.events import commitment, event_hash, signed_message
from indelible.core.journal.merkle import inclusion_proof, leaf_hash, root_of
from indelible.core.journal.notes import TreeHead, sign_note
from indelible.core.journal.receipts import Receipt
from indelible.core.verifying.examination import Claimed, Examination, Row, Scope, check_root, first_bad_signature
from indelible.core.verifying.findings import Caught
from indelible.core.verifying.payloads import Disclosed, PayloadTally
from indelible.core.verifying.trees import TreeWalk
from indelible.core.verifying.trust import SignedHead
from tests.core.told import LOG, WRITER, Teller
from tests.core.verifying.test_trust import KEYS, SECRETS

SALT = b"s" * 32
REAL = {"commits": {"args": commitment(SALT, "args", b"{}"), "key": commitment(SALT, "key", b"k" * 32)}}
SHOWN = {"args": Disclosed(0, "args", SALT, b"{}"), "key": Disclosed(0, "key", SALT, b"k" * 32)}
REGISTERED = {"key": b64encode(KEYS[0].raw).decode(), "writer": WRITER}


def head_of(bodies: list[bytes]) -> SignedHead:
    head = TreeHead(LOG, len(bodies), root_of([leaf_hash(body) for body in bodies]))
    return SignedHead("checkpoint", sign_note(head.text, KEYS[0], SECRETS[0].sign), head)


def examine(
    bodies: list[bytes],
    *,
    shown: Any = None,
    signatures: Any = None,
    size: int | None = None,
    has_values: bool = False,
    **scope: bool,
) -> Examination:
    head = head_of(bodies).head
    signed = TreeHead(LOG, head.size if size is None else size, head.root)
    tally = PayloadTally(keeps_absent=has_values)
    examination = Examination(signed, tally, Scope(**scope), is_whole=True, has_values=has_values)
    examination.take_row(Row(bodies, shown or {}, signatures or {}), TreeWalk([]))
    return examination


def test_a_row_is_examined_with_the_values_that_came_with_it() -> None:
    teller = Teller()
    teller.started(**REAL)
    teller.finished(at="2030-01-02T13:00:00.000000Z")
    teller.fact("payload_erased", {"basis": "request", "erased": [{"fields": ["result"], "seq": 1}]}, run="run-1")
    examination = examine(teller.bodies, shown={0: SHOWN}, has_values=True, size=2)
    assert examination.newest_at == "2030-01-02T13:00:00.000000Z", "what was not signed proves no time"
    counted = examination.tally.close(0, must_be_whole=True)
    assert (counted.present, counted.erased, counted.missing) == (2, 1, 0)


def test_a_value_that_does_not_fit_is_named_with_its_place() -> None:
    teller = Teller()
    teller.started()
    for has_semantics in (True, False):
        with pytest.raises(Caught, match="not the value") as caught:
            examine(teller.bodies, shown={0: SHOWN}, has_semantics=has_semantics)
        assert caught.value.flaw.index == 0


def test_values_are_counted_where_none_was_disclosed() -> None:
    teller = Teller()
    teller.started()
    teller.fact("noted", {}, commits={"reason": "ab" * 32})
    counted = examine(teller.bodies).tally.close(3, must_be_whole=True)
    assert (counted.present, counted.withheld) == (0, 3)


def test_without_the_rules_the_journal_s_own_words_are_still_heard() -> None:
    teller = Teller()
    teller.started(**REAL)
    teller.fact("writer_registered", REGISTERED)
    teller.fact("writer_registered", REGISTERED, run="elsewhere")
    teller.fact("noted", {}, **REAL)
    examination = examine(teller.bodies, shown={0: SHOWN, 3: SHOWN}, has_semantics=False)
    assert examination.chain.writers == {WRITER: KEYS[0].raw}
    assert examination.newest_at == "2030-01-02T12:00:00.000000Z"
    assert examine(teller.bodies, has_semantics=False, size=0).newest_at is None
    bad = b"x" * 40 + b'tered","v":1,"writer":"' + b"0" * 32 + b'"}'
    with pytest.raises(Caught, match="does not commit to"):
        examine([bad], shown={0: SHOWN}, has_semantics=False)


def test_what_the_journal_says_of_itself_is_named_when_it_does_not_hold() -> None:
    teller = Teller()
    teller.fact("key_revoked", {"key": "none", "size": 1})
    with pytest.raises(Caught) as caught:
        examine(teller.bodies)
    assert (caught.value.flaw.index, caught.value.flaw.run) == (0, "indelible:journal")


def test_writers_signatures_are_claimed_once_the_key_is_told() -> None:
    teller = Teller()
    teller.fact("writer_registered", REGISTERED)
    body = teller.started()
    message = signed_message(event_hash(body))
    signatures = {0: SECRETS[0].sign(signed_message(event_hash(teller.bodies[0]))), 1: SECRETS[0].sign(message)}
    examination = examine(teller.bodies, signatures=signatures, is_deep=True)
    assert [one.entry for one in examination.claimed] == [0, 1]
    assert first_bad_signature(examination.claimed) is None
    examination.check_writers()
    assert first_bad_signature([Claimed(7, KEYS[1].raw, signatures[1], message)]) == 7
    with pytest.raises(Caught, match="has no signature"):
        examine(teller.bodies, signatures={0: signatures[0]}, is_deep=True)


def test_a_signature_of_a_writer_that_never_told_its_key_is_caught_in_the_end() -> None:
    teller = Teller()
    teller.started()
    examination = examine(teller.bodies, signatures={0: b"s" * 64}, is_deep=True)
    assert examination.unchecked == 1
    with pytest.raises(Caught, match="never told its key"):
        examination.check_writers()
    teller.fact("writer_registered", REGISTERED)
    signatures = {0: b"s" * 64, 1: b"s" * 64}
    examine(teller.bodies[:1], is_deep=True).check_writers()
    held_back = examine(teller.bodies, signatures=signatures, is_deep=True)
    held_back.check_writers()
    assert sorted(one.entry for one in held_back.claimed) == [0, 1]
    assert first_bad_signature(held_back.claimed) is not None, "what came before its key is checked too"


def test_an_event_that_its_writer_should_have_signed_is_caught_though_the_key_comes_later() -> None:
    teller = Teller()
    teller.started()
    teller.fact("writer_registered", REGISTERED)
    signed = {1: SECRETS[0].sign(signed_message(event_hash(teller.bodies[1])))}
    examination = examine(teller.bodies, signatures=signed, is_deep=True)
    with pytest.raises(Caught, match="has no signature"):
        examination.check_writers()


def walked(bodies: list[bytes], *wanted: int, tile: Any = None) -> TreeWalk:
    walk = TreeWalk(wanted, tile)
    walk.extend([leaf_hash(body) for body in bodies])
    walk.finish()
    return walk


def test_entries_lead_to_the_signed_root() -> None:
    bodies = [b"a", b"b", b"c"]
    newest, hashes = head_of(bodies), b"".join(leaf_hash(body) for body in bodies)
    check_root(walked(bodies, 3), newest, 0)
    check_root(walked(bodies, 3, tile=lambda *place: hashes), newest, 0)
    with pytest.raises(Caught, match="an entry from 1 to 2 was changed"):
        check_root(walked([b"a", b"x", b"c"], 3), newest, 1)
    with pytest.raises(Caught, match="entries are missing"):
        check_root(walked(bodies[:2], 3), newest, 0)
    with pytest.raises(Caught, match="not what the tree says") as caught:
        check_root(walked([b"a", b"x", b"c"], 3, tile=lambda *place: hashes), newest, 0)
    assert caught.value.flaw.index == 1
    with pytest.raises(Caught, match="a tile has another hash") as caught:
        check_root(walked(bodies, 3, tile=lambda *place: hashes[:-1] + b"x"), newest, 0)
    assert caught.value.flaw.index == 2
    walk = walked(bodies, 3)
    walk.bad_tile = "tile/1/000"
    with pytest.raises(Caught, match="tile/1/000"):
        check_root(walk, newest, 0)


def test_after_the_first_entry_that_does_not_fit_nothing_more_is_said() -> None:
    examination = examine([Teller().started()])
    walk = TreeWalk([], lambda level, number, width: b"x" * 32 * width)
    examination.take_row(Row([b"no event"]), walk)
    assert walk.suspect is not None


def test_a_receipt_proves_its_entry_under_the_newest_head() -> None:
    bodies = [b"a", b"b", b"c"]
    hashes = [leaf_hash(body) for body in bodies]
    newest = head_of(bodies)

    def read(level: int, number: int) -> bytes:
        return root_of(hashes[number << level : (number + 1) << level])

    receipt = Receipt(1, tuple(inclusion_proof(1, 3, read)), newest.note, b"b")
    examination = examine([Teller().started()])
    assert examination.take_receipt(receipt, newest) == b"b"
    for wrong, why in (
        (Receipt(1, receipt.proof, newest.note, None), "does not hold the entry"),
        (Receipt(1, receipt.proof, head_of(bodies[:2]).note, b"b"), "another head"),
        (Receipt(1, receipt.proof, newest.note, b"x"), "does not lead"),
    ):
        with pytest.raises(Caught, match=why):
            examination.take_receipt(wrong, newest)
