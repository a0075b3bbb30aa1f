"""Nothing hides in a text that is shown, and no two texts look alike."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indelible.core.values.visible import escaped_json, is_unseen, json_text, mark_of, visible, visible_json


def test_plain_text_stays_as_it_is() -> None:
    assert visible("refund 5 € to Zoë, 日本, 🎉") == "refund 5 € to Zoë, 日本, 🎉"
    assert visible("") == ""


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\u202eb", "a⟨U+202E⟩b"),  # turns the rest round
        ("a\u2066b\u2069", "a⟨U+2066⟩b⟨U+2069⟩"),
        ("a\u200bb", "a⟨U+200B⟩b"),  # zero width
        ("a\ufeffb", "a⟨U+FEFF⟩b"),
        ("a\u00adb", "a⟨U+00AD⟩b"),  # soft hyphen
        ("a\x1b[2Jb", "a⟨U+001B⟩[2Jb"),  # clears a terminal
        ("a\x00b\x7f", "a⟨U+0000⟩b⟨U+007F⟩"),
        ("a\r\nb\t", "a⟨U+000D⟩⟨U+000A⟩b⟨U+0009⟩"),
        ("a\u2028b\u2029", "a⟨U+2028⟩b⟨U+2029⟩"),
        ("a\u00a0b\u3000c\u2003", "a⟨U+00A0⟩b⟨U+3000⟩c⟨U+2003⟩"),  # spaces that are none
        ("a\u3164b\u2800c", "a⟨U+3164⟩b⟨U+2800⟩c"),  # letters that draw nothing
        ("a\ufe0fb\U000e0100", "a⟨U+FE0F⟩b⟨U+E0100⟩"),  # selectors
        ("\U000e0041", "⟨U+E0041⟩"),  # a tag letter: text that nobody sees
        ("\ud800", "⟨U+D800⟩"),
        ("\ue000\u0378", "⟨U+E000⟩⟨U+0378⟩"),
    ],
)
def test_what_is_unseen_is_marked(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_what_is_asked_to_be_kept_is_kept() -> None:
    assert visible("a\nb\tc", keep="\n") == "a\nb⟨U+0009⟩c"


def test_a_text_cannot_imitate_a_mark() -> None:
    assert visible("⟨U+202E⟩") == "⟨U+27E8⟩U+202E⟩"
    assert visible("⟨U+202E⟩") != visible("\u202e")


@given(st.text(), st.text())
def test_no_two_texts_look_alike(one: str, other: str) -> None:
    assert (visible(one) == visible(other)) == (one == other)


@given(st.text(st.characters(categories=["Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs", "Ps", "Lu"])))
def test_nothing_unseen_is_left(text: str) -> None:
    assert not [c for c in visible(text) if c != " " and is_unseen(c)]


def test_marks_hold_nothing_that_has_to_be_marked_but_their_bracket() -> None:
    assert [c for c in mark_of("\u202e") if is_unseen(c)] == []
    assert unicodedata.category("⟨") == "Ps"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\u202eb", r"a\u202eb"),
        ("\x1b\x7f\n", r"\u001b\u007f\n"),
        ("\U000e0041", r"\udb40\udc41"),
        ("Zoe\u0308, Zoë", "Zoe\u0308, Zoë"),  # a letter takes a mark
        ("4\u03382", r"4\u03382"),  # a digit takes none
        ('"\u0301\u0301', r'"\u0301\u0301'),  # nor does a quotation mark, or what stands for a mark
        ("a" + "\u0301" * 6, "a" + "\u0301" * 4 + r"\u0301\u0301"),
        ("नमस्ते", "नमस्ते"),
    ],
)
def test_what_is_unseen_in_json_is_escaped(text: str, shown: str) -> None:
    assert visible_json(text) == shown


@given(st.text(st.characters(categories=["Cc", "Cf", "Co", "Zl", "Zs", "Mn", "Me", "Mc", "Ps", "Lu", "Nd"])))
def test_json_that_is_shown_says_the_same(text: str) -> None:
    shown = json_text({text: [text]})
    assert json.loads(shown) == {text: [text]}
    assert not [c for c in shown if c not in " \n" and is_unseen(c)]


def test_a_character_that_need_not_be_escaped_can_be() -> None:
    assert escaped_json("`") == r"\u0060"
