"""Promises of core.runs.turns: a resumed run, in which no model raises, counts the turns as the first one did."""

from __future__ import annotations

from indelible.core.runs.turns import Turns


def test_turns_count_in_the_order_in_which_they_begin() -> None:
    turns = Turns()
    assert [turns.begin(asked) for asked in (b"a", b"b", b"a")] == [1, 2, 3]


def test_one_without_an_answer_is_taken_again_whatever_is_asked() -> None:
    turns = Turns()
    turns.end(turns.begin(b"a"), b"a", is_answered=True)
    turns.end(turns.begin(b"b"), b"b", is_answered=False)
    assert turns.begin(b"in other words") == 2
    turns.end(2, b"in other words", is_answered=True)
    assert turns.begin(b"b") == 3


def test_10_while_others_are_under_way_only_the_same_question_takes_its_number_again() -> None:
    turns = Turns()
    assert [turns.begin(asked) for asked in (b"a", b"b", b"c")] == [1, 2, 3]
    turns.end(1, b"a", is_answered=False)
    turns.end(2, b"b", is_answered=False)
    assert turns.begin(b"d") == 4
    assert [turns.begin(asked) for asked in (b"b", b"a")] == [2, 1]


def test_10_one_that_was_given_up_beside_others_keeps_its_number() -> None:
    turns = Turns()
    assert [turns.begin(asked) for asked in (b"a", b"b")] == [1, 2]
    turns.end(1, b"a", is_answered=False)
    turns.end(2, b"b", is_answered=True)
    assert turns.begin(b"c") == 3
    turns.end(3, b"c", is_answered=True)
    assert turns.begin(b"a") == 1
