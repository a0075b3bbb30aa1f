"""When a tenant may be moved to another database, what it leaves with, and what it arrives with."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from indelible.core.commands import Record
from indelible.core.effects.stops import STOPS_RUN, Stop
from indelible.core.journal.journal import JOURNAL_RUN, Tree
from indelible.core.moving import (
    ORIGIN_REF,
    Held,
    adds_to_record,
    check_goes_on_here,
    check_holds,
    check_is_kept_here,
    check_is_leaving,
    check_is_quiet,
    check_redaction,
    check_stood_still,
    is_moved_away,
    moved_to,
    origin_of,
    origin_sheet,
    standing,
    stop_on_arrival,
    stop_to_leave,
)
from indelible.core.sheets import Sheet
from indelible.errors import IllegalMove, Misconfigured
from tests.core.journals import MemoryTree
from tests.core.making import ADA, HOUR, NOON, SECOND, claim_of, effect, finish, open_command, settle, stamp

PLACE = "postgresql://db-2/agents"
THERE = moved_to(PLACE)
ELSEWHERE = moved_to("postgresql://db-3/agents")
ANGRY = Stop(version=2, is_in_force=True, by="bo", at=NOON - HOUR, reason="wrong prices")
LEFT = Stop(version=3, is_in_force=True, kind="moved", by="ada", at=NOON, reason=THERE)
MOVED_ON = replace(LEFT, reason=ELSEWHERE)
WORDS: dict[str, Any] = {"by": ADA, "at": NOON}


def lifted(stop: Stop) -> Stop:
    return replace(stop, is_in_force=False)


def test_a_stop_tells_that_its_tenant_is_elsewhere() -> None:
    assert is_moved_away(LEFT)
    assert not any(is_moved_away(stop) for stop in (None, ANGRY, lifted(LEFT)))


def test_60_no_words_of_a_person_make_a_stop_that_only_a_move_makes() -> None:
    """A stop was taken for a move when its reason began like one: nobody could decide, start or let go any more."""
    assert not is_moved_away(replace(ANGRY, reason=THERE))


def test_effects_that_go_on_elsewhere_are_not_let_go() -> None:
    with pytest.raises(IllegalMove, match=r"acme was moved to postgresql://db-2/agents.*Use it there"):
        check_goes_on_here(LEFT, "acme")
    for stop in (None, ANGRY, lifted(LEFT)):
        check_goes_on_here(stop, "acme")


def test_nothing_is_added_to_a_record_that_goes_on_elsewhere() -> None:
    with pytest.raises(IllegalMove, match="acme was moved to postgresql://db-2/agents"):
        check_is_kept_here(LEFT, "acme")
    for stop in (None, ANGRY, lifted(LEFT)):
        check_is_kept_here(stop, "acme")
    assert adds_to_record(settle())
    assert adds_to_record(fact("order-1"))
    assert not any(map(adds_to_record, (open_command(), finish(claim_of(effect())))))
    assert not any(adds_to_record(fact(run_id)) for run_id in (STOPS_RUN, JOURNAL_RUN))
    assert adds_to_record(replace(fact(JOURNAL_RUN), sheet=ANY_SHEET)), "the policy, which a person applies"
    assert not adds_to_record(replace(fact(STOPS_RUN), sheet=ANY_SHEET))


ANY_SHEET = Sheet(kind="policy", id="current", status="active", body=b"{}")


def fact(run_id: str) -> Record:
    return Record(tenant="acme", run_id=run_id, stamp=stamp(), event_type="acme.noted", facts=b"{}")


def test_a_tenant_leaves_stopped_whoever_had_stopped_it_before() -> None:
    for last, version in ((None, 1), (ANGRY, 3), (lifted(ANGRY), 3), (lifted(MOVED_ON), 4)):
        stop = stop_to_leave(last, "acme", reason=THERE, **WORDS)
        assert stop == replace(LEFT, version=version, below=ANGRY.causes if last is ANGRY else ())
    assert stop_to_leave(LEFT, "acme", reason=THERE, **WORDS) is None
    with pytest.raises(Misconfigured, match="move it from there"):
        stop_to_leave(MOVED_ON, "acme", reason=THERE, **WORDS)


def test_a_tenant_arrives_as_it_was_before_it_left() -> None:
    stop = stop_on_arrival(LEFT, left_with=THERE, reason="moved here", **WORDS)
    assert stop == Stop(version=4, is_in_force=False, by="ada", at=NOON, reason="moved here")
    again = stop_on_arrival(replace(LEFT, below=ANGRY.causes), left_with=THERE, reason="moved here", **WORDS)
    assert again == replace(ANGRY, version=4), "it is still bo's to let go"
    for last in (None, ANGRY, lifted(LEFT), MOVED_ON):
        assert stop_on_arrival(last, left_with=THERE, reason="moved here", **WORDS) is None


def test_a_tenant_goes_on_in_one_place_only() -> None:
    check_is_leaving(LEFT, "acme", THERE)
    for stop in (None, lifted(LEFT), ANGRY, MOVED_ON):
        with pytest.raises(IllegalMove, match="move it again"):
            check_is_leaving(stop, "acme", THERE)


def test_nothing_moves_while_a_handler_may_be_at_work() -> None:
    alive = effect(lease_until=NOON + SECOND)
    abandoned = effect(lease_until=NOON)
    check_is_quiet([abandoned], "acme", NOON)
    with pytest.raises(IllegalMove, match=f"1 of acme may be at work now, for example {alive.id}"):
        check_is_quiet([abandoned, alive], "acme", NOON)


def test_what_came_in_meanwhile_would_be_left_behind() -> None:
    tree = Tree(3, b"root")
    check_stood_still(tree, Tree(3, b"root"), 0, "acme")
    for now, waiting in ((Tree(4, b"other"), 0), (tree, 1)):
        with pytest.raises(IllegalMove, match="Stop its programs"):
            check_stood_still(tree, now, waiting, "acme")


def test_a_tenant_of_whom_nothing_is_seen_is_no_tenant() -> None:
    check_holds(1, "acme", PLACE)
    with pytest.raises(Misconfigured, match="BYPASSRLS"):
        check_holds(0, "acme", PLACE)


def test_the_same_secret_has_to_get_the_same_mark() -> None:
    for here, there in ((None, None), ("a", None), (None, "a"), ("a", "a")):
        check_redaction(here, there, "acme")
    with pytest.raises(Misconfigured, match="another key"):
        check_redaction("a", "b", "acme")


def held(entries: str, stop: Stop | None = None) -> Held:
    """A tenant whose journal has these letters as its entries."""
    log = MemoryTree([letter.encode() for letter in entries])
    size = len(entries)
    return Held(tree=Tree(size, log.head().root), prove=lambda old: log.consistency(old, size), stop=stop)


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        (held("abc"), None, "free"),
        (held("abc", LEFT), held("abc", LEFT), "carried"),
        (held("abc", LEFT), held("abcde", lifted(LEFT)), "carried"),
        (held("abcd"), held("abc", MOVED_ON), "left"),
        (held("abcd", LEFT), held("abc", MOVED_ON), "left"),
        (held("abcd", lifted(LEFT)), held("abc", LEFT), "left"),
    ],
)
def test_how_a_place_stands_to_a_tenant(source: Held, target: Held | None, expected: str) -> None:
    assert standing(source, target, THERE, PLACE, "acme") == expected


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (held("abc"), held("abc")),
        (held("abc"), held("xyz", lifted(LEFT))),
        (held("abc", LEFT), held("xyz")),
        (held("abc", LEFT), held("ab")),
        (held("", LEFT), held("xyz")),
        (held("abc", LEFT), held("abcde", MOVED_ON)),
        (held("abc", lifted(LEFT)), held("abc")),
        (held("abc", MOVED_ON), held("abc", lifted(LEFT))),
        (held("abcd"), held("xyz", LEFT)),
    ],
)
def test_a_tenant_with_a_history_of_its_own_is_left_alone(source: Held, target: Held) -> None:
    with pytest.raises(Misconfigured, match="holds a tenant 'acme' already"):
        standing(source, target, THERE, PLACE, "acme")


def test_a_journal_keeps_its_name_wherever_it_is() -> None:
    assert origin_of("ledger-b", "acme", None) == "ledger-b/acme"
    sheet = origin_sheet("ledger-a/acme")
    assert sheet.ref == ORIGIN_REF
    assert not sheet.is_recorded
    assert origin_of("ledger-b", "acme", sheet.body) == "ledger-a/acme"
