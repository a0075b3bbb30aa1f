"""What may be said follows from what was checked, and no more."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from indelible.core.journal.notes import COSIGNATURE, PublicKey, TreeHead, cosign
from indelible.core.verifying.conclusions import (
    check_at_once,
    check_fresh,
    check_older,
    check_pinned_head,
    check_remembered,
    check_signed_part,
    check_tail,
    check_witnesses,
)
from indelible.core.verifying.findings import ATTACKS, Caught, Counts, Flaw, Payloads, Report, Tail, ruled_out
from indelible.core.verifying.trust import Continuation, KeyChain, SignedHead
from tests.core.told import LOG
from tests.core.verifying.test_trust import KEYS, ROOT, signed

NEWEST = signed(9, 0)
ROOTS = {9: ROOT, 5: ROOT}
NOON = datetime(2030, 1, 2, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def report(**changes: Any) -> Report:
    return Report(**{"verdict": "cannot_tell", "why": "", "source": "x", **changes})


def lost(size: int = 4, lost_size: int = 20) -> KeyChain:
    chain = KeyChain(LOG)
    chain.continuations.append(Continuation(4, size, lost_size, b"l" * 32))
    return chain


def other_root(head: SignedHead) -> SignedHead:
    return replace(head, head=replace(head.head, root=b"x" * 32))


def test_a_look_at_the_head_shows_another_journal_and_a_bad_signature() -> None:
    check_at_once(NEWEST, [])
    check_at_once(NEWEST, [KEYS[0], KEYS[1]])
    with pytest.raises(Caught, match="another journal"):
        check_at_once(NEWEST, [PublicKey("other", KEYS[0].raw)])
    forged = replace(NEWEST, note=replace(NEWEST.note, text=TreeHead(LOG, 8, ROOT).text))
    with pytest.raises(Caught, match="does not fit"):
        check_at_once(forged, [KEYS[0]])


def test_an_older_head_is_the_root_at_its_size() -> None:
    assert check_older([signed(5, 0)], NEWEST, ROOTS, KeyChain(LOG), [KEYS[0]]) == []
    assert check_older([signed(5, 1)], NEWEST, ROOTS, KeyChain(LOG), []) == [], (
        "without a key nobody's signature counts"
    )
    with pytest.raises(Caught, match="not signed by"):
        check_older([signed(5, 1)], NEWEST, ROOTS, KeyChain(LOG), [KEYS[0]])
    with pytest.raises(Caught, match="rewritten"):
        check_older([other_root(signed(5, 0))], NEWEST, ROOTS, KeyChain(LOG), [KEYS[0]])
    with pytest.raises(Caught, match="cut off"):
        check_older([signed(10, 0)], NEWEST, ROOTS, KeyChain(LOG), [KEYS[0]])


def test_a_head_of_a_history_that_was_declared_lost_is_remarked() -> None:
    (remark,) = check_older([signed(10, 0)], NEWEST, ROOTS, lost(), [KEYS[0]])
    assert "declared lost" in remark


def test_a_pinned_head_is_ground_or_break_or_cannot_be_told() -> None:
    made = report()
    assert check_pinned_head(signed(5, 0), NEWEST, ROOTS, made, KeyChain(LOG)) is None
    assert made.grounds == {"older_head"}
    made = report()
    assert "is a head of other" in str(check_pinned_head(signed(5, 0, origin="other"), NEWEST, ROOTS, made, lost()))
    assert "declared lost" in str(check_pinned_head(signed(10, 0), NEWEST, ROOTS, made, lost()))
    assert "whole journal" in str(check_pinned_head(signed(6, 0), NEWEST, ROOTS, made, KeyChain(LOG)))
    assert made.grounds == frozenset()
    with pytest.raises(Caught, match="cut off"):
        check_pinned_head(signed(10, 0), NEWEST, ROOTS, made, KeyChain(LOG))


def cosigned(at: datetime) -> tuple[SignedHead, PublicKey]:
    secret = Ed25519PrivateKey.from_private_bytes(b"w" * 32)
    key = PublicKey("witness", secret.public_key().public_bytes_raw(), COSIGNATURE)
    line = cosign(NEWEST.note, key, secret.sign, int(at.timestamp()))
    return replace(NEWEST, note=NEWEST.note.with_signatures([line])), key


def test_enough_witnesses_are_ground() -> None:
    head, key = cosigned(NOON)
    made = report()
    assert check_witnesses(head, [key], 1, made) is None
    assert made.grounds == {"witness"}
    assert list(made.witnesses.values()) == [int(NOON.timestamp())]
    assert "1 of the witnesses" in str(check_witnesses(head, [key], 2, report()))
    assert check_witnesses(NEWEST, [], 0, (none := report())) is None
    assert none.grounds == frozenset()


def test_a_forged_cosignature_is_caught() -> None:
    head, key = cosigned(NOON)
    forged = replace(head, note=replace(head.note, text=TreeHead(LOG, 8, ROOT).text))
    with pytest.raises(Caught, match="cosignature"):
        check_witnesses(forged, [key], 1, report())


def test_64_times_inside_events_make_nothing_fresh() -> None:
    made = report(newest_event_at="2030-01-02T11:59:00.000000Z")
    assert "nothing here tells" in str(check_fresh(made, NOON, HOUR))
    assert check_fresh(made, NOON, None) is None
    assert made.grounds == frozenset()
    remembered = report(grounds=frozenset({"memory"}))
    assert check_fresh(remembered, NOON, HOUR) is None
    with pytest.raises(Caught, match="no time"):
        check_fresh(report(newest_event_at="2030-02-31T10:30:00.000000Z"), NOON, None)


def test_a_witness_tells_the_time_too() -> None:
    minute = int((NOON - timedelta(minutes=1)).timestamp())
    made = report(grounds=frozenset({"witness"}), witnesses={"w": minute})
    assert check_fresh(made, NOON, HOUR) is None
    assert "fresh_witness" in made.grounds
    stale = report(grounds=frozenset({"witness"}), witnesses={"w": 0}, newest_event_at="1970-01-01T00:00:00.000000Z")
    stale.witnesses = {"w": 5}
    assert "a witness's time" in str(check_fresh(stale, NOON, HOUR))


LAST = TreeHead(LOG, 9, ROOT)
REWRITTEN = replace(LAST, root=b"x" * 32)


def test_64_a_ledger_that_lacks_what_its_signer_signed_is_caught() -> None:
    assert check_signed_part(LAST, ROOTS, KeyChain(LOG)) is None
    with pytest.raises(Caught, match="set back"):
        check_signed_part(replace(LAST, size=10), ROOTS, KeyChain(LOG))
    with pytest.raises(Caught, match="rewritten"):
        check_signed_part(REWRITTEN, ROOTS, KeyChain(LOG))
    assert "declared lost" in str(check_signed_part(replace(LAST, size=10), ROOTS, lost()))


def test_64_a_remembered_head_is_ground_where_it_is_the_newest() -> None:
    made = report()
    assert check_remembered(LAST, NEWEST, ROOTS, made) is None
    assert made.grounds == {"memory"}
    for size, remarks in ((5, 0), (10, 1)):
        made = report()
        assert check_remembered(replace(LAST, size=size), NEWEST, ROOTS, made) is None
        assert (made.grounds, len(made.remarks)) == (frozenset(), remarks)
    assert "another history" in str(check_remembered(REWRITTEN, NEWEST, ROOTS, report()))


def test_64_a_tail_is_told_apart() -> None:
    assert check_tail(None, 9, 0, is_asked_for=True) is None
    assert check_tail(Tail(0), 9, 1, is_asked_for=True) is None
    assert "entry 9 of 13" in str(check_tail(Tail(4), 9, 0, is_asked_for=True))
    assert check_tail(Tail(4), 9, 0, is_asked_for=False) is None
    assert "2 values are gone" in str(check_tail(Tail(4), 9, 2, is_asked_for=False))
    assert check_tail(Tail(4, is_authenticated=True), 9, 2, is_asked_for=True) is None


def test_one_clock_that_is_wrong_does_not_make_a_quorum_fresh() -> None:
    minute = int((NOON - timedelta(minutes=1)).timestamp())
    for wrong in (minute, 2**62):
        made = report(grounds=frozenset({"witness"}), witnesses={"a": wrong, "b": 5})
        assert "a witness's time" in str(check_fresh(made, NOON, HOUR, quorum=2))
        assert "fresh_witness" not in made.grounds
    absurd = report(grounds=frozenset({"witness"}), witnesses={"a": 2**62})
    assert "a witness's time" in str(check_fresh(absurd, NOON, HOUR))


def test_nothing_is_ruled_out_unless_everything_was_verified() -> None:
    grounds: Any = frozenset({"key", "older_head", "witness", "memory", "fresh_witness"})
    assert not any(ruled_out("tampered", grounds, is_whole=True).values())
    assert all(ruled_out("verified", grounds, is_whole=True).values())
    part = ruled_out("verified", grounds, is_whole=False)
    assert {name for name, is_out in part.items() if not is_out} == {
        "delete",
        "truncate_before",
        "truncate_after",
        "rollback",
    }


def test_a_report_tells_programs_and_people_the_same() -> None:
    flaw = Flaw(what="it is bad", index=3, run="r", seq=1, expected="a", found="b")
    made = report(verdict="tampered", flaw=flaw, kind="journal", counts=Counts(payloads=Payloads(1, 2, 3, 4)))
    told = made.as_json()
    assert told["first_bad"] == {"what": "it is bad", "index": 3, "run": "r", "seq": 1, "expected": "a", "found": "b"}
    assert told["counts"]["payloads"] == {"present": 1, "erased": 2, "withheld": 3, "missing": 4}
    assert set(told["attacks"]) == set(ATTACKS)
    assert set(told["attacks"].values()) == {"not ruled out"}
    assert str(flaw) == "entry 3, run r, seq 1: it is bad; expected a, found b"
    assert str(Flaw(what="it is bad")) == "it is bad"
    assert (made.exit_code, made.is_verified) == (1, False)
    good = report(verdict="verified", kind="journal", grounds=frozenset({"key"}))
    assert (good.exit_code, good.is_verified, good.as_json()["attacks"]["edit"]) == (0, True, "ruled out")
    assert (report().exit_code, report().as_json()["first_bad"], report().as_json()["counts"]["payloads"]) == (
        2,
        None,
        None,
    )
