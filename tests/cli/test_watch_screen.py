"""The screen of `approvals watch`: nothing is approved unread, by one key, or as another question than was shown."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from indelible import Approval
from indelible.cli.approvals.watch_screen import (
    AFTER_DECISION,
    MOMENT,
    QUIET,
    Approve,
    Deny,
    Leave,
    Opened,
    Screen,
    ShowPage,
    closed,
    cut,
    decided,
    drawn,
    listed,
    open_page,
    pressed,
    resized,
    told,
    wrapped,
)
from indelible.cli.show import text_width, visible
from indelible.core.approvals.approval import Question
from indelible.core.effects.effect import Actor
from indelible.core.effects.identity import Ref

NOW = datetime(2026, 1, 1, tzinfo=UTC)
KEYS = [
    "j",
    "k",
    "up",
    "down",
    "enter",
    "escape",
    " ",
    "b",
    "page up",
    "page down",
    "a",
    "y",
    "d",
    "q",
    "x",
    "backspace",
    "ß",
]


def approval(number: int, **words: Any) -> Approval:
    return replace(
        Approval(
            id=f"apr_{number:028x}",
            status="pending",
            effect_id="eff_1",
            ref=Ref("default", "run", "key"),
            run_id=f"run-{number}",
            for_run=f"run-{number}",
            tool="stripe.refund",
            side_effect="payment",
            digest=f"{number:064x}",
            schema="",
            policy="",
            question=Question(rule="r"),
            requester=Actor("agent", "agent"),
            principal=None,
            asked_at=NOW,
            expires_at=NOW + timedelta(hours=1),
            args_seq=0,
        ),
        **words,
    )


def page(number: int = 1, lines: int = 3, *, digest: str | None = None, why_not: str | None = None) -> Opened:
    return Opened(
        approval_id=f"apr_{number:028x}",
        digest=digest or f"{number:064x}",
        why_not=why_not,
        question=tuple(f"line {line}" for line in range(lines)),
        record=("events",),
    )


def screen(*numbers: int, columns: int = 80, height: int = 20) -> Screen:
    empty = Screen(columns=columns, height=height, title="", now=NOW)
    return listed(empty, [approval(number) for number in numbers], NOW, "title")


def press(start: Screen, *keys: str, pause: float = 1.0) -> tuple[Screen, Any]:
    """Press keys, each so many seconds after what was shown last."""
    action = None
    for key in keys:
        start, action = pressed(start, key, max(start.asked_at, start.decided_at, start.pressed_at, 0.0) + pause)
    return start, action


# ── the list ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_oldest_is_first_and_keys_move() -> None:
    start = screen(3, 1, 2)
    assert [one.run_id for one in start.waiting] == ["run-1", "run-2", "run-3"]
    assert [press(start, *keys)[0].position for keys in (["j"], ["j", "down"], ["j", "j", "j"], ["k"])] == [1, 2, 2, 0]
    assert press(start, "j", "enter")[1] == ShowPage(approval(2).id)
    assert press(start, "q")[1] == Leave()
    assert press(screen(), "enter")[1] is None
    assert press(screen(), "j")[1] is None


def test_what_comes_and_goes_does_not_move_the_selection() -> None:
    chosen, _ = press(screen(1, 2, 3), "j")
    later = listed(chosen, [approval(number) for number in (0, 2, 3, 4)], NOW, "title")
    assert later.selected == approval(2).id
    gone = listed(later, [approval(number) for number in (0, 3, 4)], NOW, "title")
    assert gone.selected in {approval(3).id, approval(0).id}
    assert listed(gone, [], NOW, "title").selected is None


def test_a_key_that_decides_opens_the_page_first() -> None:
    for key in ("a", "d"):
        assert press(screen(1), key)[1] == ShowPage(approval(1).id)


# ── approving ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_two_presses_approve_what_was_shown() -> None:
    start = open_page(screen(1), page(), 0.0)
    armed, action = press(start, "a")
    assert (armed.is_armed, action) == (True, None)
    assert "Press y" in "\n".join(drawn(armed))
    assert press(armed, "y")[1] == Approve(approval(1).id, approval(1).digest)


def test_73_a_held_key_confirms_nothing_at_any_rate() -> None:
    now, action = open_page(screen(1), page(), 0.0), None
    for tick in range(200):
        now, action = pressed(now, "a", tick * 0.033)
        assert action is None
    assert not now.is_armed, "it was held from the first look on, so it does not even arm"


@given(st.lists(st.sampled_from(["a", "y", "enter"]), max_size=200))
def test_73_keys_without_a_pause_between_them_answer_nothing(keys: list[str]) -> None:
    now = open_page(screen(1), page(), 0.0)
    for number, key in enumerate(keys):
        now, action = pressed(now, key, 5.0 + number * (QUIET - 0.01))
        assert not isinstance(action, Approve | Deny)


def test_73_no_key_answers_what_was_not_on_the_screen_for_a_moment() -> None:
    start = open_page(screen(1), page(), 10.0)
    for key in ("a", "d"):
        early, action = pressed(start, key, 10.0 + MOMENT - 0.01)
        assert (early.is_armed, early.reason, action) == (False, None, None)
    armed, _ = pressed(start, "a", 10.01 + MOMENT)
    early, action = pressed(armed, "y", armed.asked_at + MOMENT - 0.01)
    assert (early.is_armed, action) == (True, None)
    assert isinstance(pressed(armed, "y", armed.asked_at + MOMENT + 0.01)[1], Approve)


def test_73_after_a_decision_nothing_is_open_and_no_key_counts_for_a_second() -> None:
    after = decided(open_page(screen(1, 2), page(), 0.0), "apr_1: approved.", 10.0)
    assert after.opened is None
    for key in KEYS:
        assert pressed(after, key, 10.0 + AFTER_DECISION - 0.01) == (after, None)
    assert pressed(after, "enter", 10.0 + AFTER_DECISION)[1] == ShowPage(approval(1).id)


@pytest.mark.parametrize("key", [key for key in KEYS if key not in ("a", "y")])
def test_any_other_key_disarms(key: str) -> None:
    armed, _ = press(open_page(screen(1), page(), 0.0), "a")
    after, action = press(armed, key)
    assert not after.is_armed
    assert action is None


def test_what_was_not_read_to_its_end_cannot_be_armed() -> None:
    start = open_page(screen(1), page(lines=50), 0.0)
    refused, action = press(start, "a")
    assert (refused.is_armed, action) == (False, None)
    assert "Read it to the end first" in "\n".join(drawn(refused))
    nearly, _ = press(start, *["j"] * (50 - start.room - 1))
    assert not press(nearly, "a")[0].is_armed
    assert press(nearly, "j", "a")[0].is_armed
    assert press(start, " ", " ", " ", " ", "a")[0].is_armed


def test_reading_is_remembered_and_only_for_the_same_question() -> None:
    read, _ = press(open_page(screen(1), page(lines=50), 0.0), *[" "] * 5, *["b"] * 5)
    assert press(read, "a")[0].is_armed
    same = open_page(read, page(lines=50), 0.0)
    assert press(same, "a")[0].is_armed
    other = open_page(read, page(lines=50, digest="f" * 64), 0.0)
    assert "another question" in other.message
    assert not press(other, "a")[0].is_armed
    assert not press(open_page(read, page(2, lines=50), 0.0), "a")[0].is_armed


def test_an_armed_answer_does_not_fit_another_question() -> None:
    armed, _ = press(open_page(screen(1), page(), 0.0), "a")
    assert open_page(armed, page(), 0.0).is_armed
    changed = open_page(armed, page(digest="f" * 64), 0.0)
    assert not changed.is_armed
    assert press(changed, "a")[1] is None
    assert not open_page(armed, page(why_not="over"), 0.0).is_armed


def test_what_cannot_be_decided_says_why() -> None:
    start = open_page(screen(1), page(why_not="It is over."), 0.0)
    for key in ("a", "d"):
        after, action = press(start, key, key)
        assert (after.message, after.is_armed, after.reason, action) == ("It is over.", False, None, None)


def test_no_keys_approve_unread() -> None:
    """Whatever is pressed: an approval follows `a` and then `y`, on a screen that asks."""
    approved = 0
    likely = st.sampled_from(["a", "y", " ", "page down"])  # of all keys, by chance, nobody ever comes to approve

    @given(
        st.lists(st.one_of(likely, likely, st.sampled_from(KEYS)), max_size=60),
        st.integers(1, 60),
        st.integers(4, 40),
        st.integers(16, 100),
    )
    @example(["a", "y"], 3, 20, 80)
    def walk(keys: list[str], lines: int, height: int, columns: int) -> None:
        nonlocal approved
        now = open_page(screen(1, columns=columns, height=height), page(lines=lines), 0.0)
        shown: set[str] = set()
        for at, key in enumerate(keys, start=1):
            shown |= {line.strip() for line in drawn(now)}
            asks = any(line.startswith("Approve ") for line in drawn(now))
            now, action = pressed(now, key, float(at))
            if isinstance(action, Approve):
                assert asks
                assert key == "y"
                assert {f"line {line}" for line in range(lines)} <= shown
                approved += 1
                return
            if isinstance(action, Deny | Leave):
                return
            if isinstance(action, ShowPage):
                now = open_page(now, page(lines=lines), 0.0)

    walk()
    assert approved


# ── denying ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_reason_is_typed_and_can_be_mended() -> None:
    start, _ = press(open_page(screen(1), page(), 0.0), "d", *"noo", "backspace", *", später")
    assert "Why not? no, später_" in "\n".join(drawn(start))
    assert press(start, "enter")[1] == Deny(approval(1).id, page().digest, "no, später")
    left, action = press(start, "escape")
    assert (left.reason, left.message, action) == (None, "Not denied.", None)


def test_without_a_reason_nothing_is_denied() -> None:
    after, action = press(open_page(screen(1), page(), 0.0), "d", " ", "enter")
    assert action is None
    assert "Say why not" in "\n".join(drawn(after))
    assert press(after, "up", "j")[0].reason == " j"


def test_letters_of_a_reason_are_no_commands() -> None:
    after, action = press(open_page(screen(1), page(), 0.0), "d", *"aaq")
    assert (after.reason, after.is_armed, action) == ("aaq", False, None)


def test_leaving_a_page_leads_back_to_the_list() -> None:
    for key in ("q", "escape"):
        after, action = press(open_page(screen(1), page(), 0.0), key)
        assert (after.opened, action) == (None, None)
    assert closed(open_page(screen(1), page(), 0.0), "done").message == "done"
    assert told(screen(1), "oh").message == "oh"


# ── drawing ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@given(st.text(max_size=300), st.integers(10, 120), st.integers(4, 50))
def test_every_line_fits(text: str, columns: int, height: int) -> None:
    start = screen(1, 2, columns=columns, height=height)
    shown = replace(page(), question=(visible(text), "日本" * 50), record=(visible(text),))
    for each in (start, open_page(start, shown, 0.0), told(start, visible(text))):
        lines = drawn(each)
        assert len(lines) <= height
        assert all(text_width(line) <= columns for line in lines)


@given(st.text(st.characters(exclude_characters="\n"), max_size=500), st.integers(10, 120))
def test_wrapping_cuts_nothing_and_marks_what_goes_on(text: str, columns: int) -> None:
    lines = wrapped([text], columns)
    assert lines[0].startswith("  ")
    assert all(line.startswith("↳ ") for line in lines[1:])
    assert "".join(line[2:] for line in lines) == text


def test_a_long_list_follows_the_selection() -> None:
    start = screen(*range(100), height=20)
    assert not any("run-50 " in line for line in drawn(start))
    moved, _ = press(start, *["j"] * 50)
    assert any(line.startswith(">") and "run-50 " in line for line in drawn(moved))


def test_another_size_keeps_what_was_read() -> None:
    read, _ = press(open_page(screen(1), page(lines=50), 0.0), *[" "] * 5)
    assert press(resized(read, 20, 8), "a")[0].is_armed
    unread = resized(open_page(screen(1), page(lines=50), 0.0), 20, 8)
    assert not press(unread, "a")[0].is_armed
    assert resized(unread, 20, 8) is unread


def test_what_is_cut_ends_with_a_mark() -> None:
    assert cut("abcdef", 6) == "abcdef"
    assert cut("abcdefg", 6) == "abcde…"
    assert cut("日本日本", 5) == "日本…"


def test_a_late_approval_is_not_called_pending() -> None:
    late = listed(screen(), [approval(1)], NOW + timedelta(hours=2), "title")
    assert any("too late" in line and "expires 1h ago" in line for line in drawn(late))


def test_nothing_to_decide() -> None:
    assert any("Nothing waits" in line for line in drawn(screen()))


def test_73_a_wider_window_skips_no_line() -> None:
    lines = tuple(f"field {number}: " + "x" * 60 for number in range(60))
    unread = open_page(screen(1), replace(page(), question=lines), 0.0)
    unread = resized(unread, 30, 10)
    seen = "".join(drawn(unread))
    for _ in range(40):
        unread, _ = press(unread, " ")
        seen += "".join(drawn(unread))
    unread = resized(unread, 120, 10)
    while not unread.opened.was_read:  # type: ignore[union-attr]
        seen += "".join(drawn(unread))
        unread, _ = press(unread, " ")
    seen += "".join(drawn(unread))
    assert [number for number in range(60) if f"field {number}:" not in seen] == []
