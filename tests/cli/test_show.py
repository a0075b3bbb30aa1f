"""Printing: nothing hides, and two different texts never look alike."""

from __future__ import annotations

import json
import sys
import unicodedata
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indelible.cli.show import age, may_colour, pretty_json, table, visible, visible_json

ANY_TEXT = st.text(st.characters())


@given(ANY_TEXT)
def test_what_is_printed_is_visible(text: str) -> None:
    shown = visible(text)
    assert all(c == " " or unicodedata.category(c)[0] not in "CZ" for c in shown)


@given(ANY_TEXT, ANY_TEXT)
def test_different_texts_look_different(one: str, other: str) -> None:
    assert (visible(one) == visible(other)) == (one == other)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("naïve 日本 🦀", "naïve 日本 🦀"),
        ("a\x1b[31m", "a⟨U+001B⟩[31m"),
        ("a\u202eb", "a⟨U+202E⟩b"),
        ("a⟨U+202E⟩b", "a⟨U+27E8⟩U+202E⟩b"),
        ("line\nfeed", "line⟨U+000A⟩feed"),
        ("\u00a0\u3000\u3164", "⟨U+00A0⟩⟨U+3000⟩⟨U+3164⟩"),
        ("\U000e0041", "⟨U+E0041⟩"),
    ],
)
def test_examples(text: str, shown: str) -> None:
    assert visible(text) == shown


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | ANY_TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(ANY_TEXT, inner),
)


@given(VALUES)
def test_shown_json_is_json_that_says_the_same(value: object) -> None:
    recorded = (
        json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass").decode("utf-8", "replace").encode()
    )
    for shown in (pretty_json(recorded), visible_json(recorded.decode("utf-8", "backslashreplace"))):
        assert json.loads(shown) == json.loads(recorded)
        assert all(c in " \n" or unicodedata.category(c)[0] not in "CZ" for c in shown)


def test_bytes_that_are_no_json_are_shown_all_the_same() -> None:
    assert pretty_json(b"\xff\x1b") == r"\xff⟨U+001B⟩"


def test_ages() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    spans = [timedelta(seconds=-5), timedelta(seconds=59), timedelta(minutes=61), timedelta(hours=50)]
    assert [age(now - span, now) for span in spans] == ["0s", "59s", "1h", "2d"]


def test_columns_line_up_beside_wide_letters(capsys: pytest.CaptureFixture[str]) -> None:
    table(("run", "age"), [("日本", "1s"), ("abcde", "2s")])
    assert capsys.readouterr().out.splitlines() == ["run    age", "日本   1s", "abcde  2s"]


def test_a_very_long_value_spreads_no_other_row(capsys: pytest.CaptureFixture[str]) -> None:
    table(("run", "age"), [("x" * 5000, "1s"), ("abcde", "2s")])
    assert capsys.readouterr().out.splitlines() == ["run    age", f"{'x' * 5000}  1s", "abcde  2s"]


ROWS = [("eff_01a1dee64a530a16cec475c9bf7e", "in_doubt", "stripe.refund"), ("eff_2", "succeeded", "crm.lookup")]


@pytest.mark.parametrize("columns", [20, 40, 60, 200])
def test_a_narrow_terminal_loses_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("NO_COLOR", "1")
    table(("id", "status", "tool"), ROWS)
    printed = capsys.readouterr().out
    assert "\x1b" not in printed
    assert [word for word in printed.split() if word not in ("id", "status", "tool")] == [*ROWS[0], *ROWS[1]]
    assert all(len(line) <= max(columns, len(ROWS[0][0])) for line in printed.splitlines())


def test_a_terminal_gets_colours_and_a_pipe_gets_none(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    table(("id", "status", "tool"), ROWS)
    assert "\x1b" not in capsys.readouterr().out
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    table(("id", "status", "tool"), ROWS)
    assert "\x1b[1;33min_doubt\x1b[0m" in capsys.readouterr().out
    monkeypatch.setenv("TERM", "dumb")
    assert not may_colour()


def test_a_line_on_which_nothing_stands_is_left_out(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setenv("NO_COLOR", "1")
    table(("time", "effect", "actor"), [("2026-11-16 06:07", "", "agent"), ("2026-11-16 06:08", "eff_01a1dee6", "ana")])
    assert capsys.readouterr().out.splitlines()[3:5] == ["2026-11-16 06:07", "    agent"]
