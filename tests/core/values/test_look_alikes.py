"""Texts that may deceive the eye are named, by where they stand; honest texts are left alone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indelible.core.values.look_alikes import look_closely

HONEST = [
    "plain", "naïve café", "Straße 5", "日本 🦀", "東京tower", "Привет, мир", "Ωμέγα", "мир and peace", "नमस्ते", "สวัสดี",
    "مرحبا 4200", "שלום", "€ 42,00", "½ … – „so“", "µm", "Ελλάδα",
]  # fmt: skip


@pytest.mark.parametrize("text", HONEST)
def test_honest_texts_are_left_alone(text: str) -> None:
    assert list(look_closely({"text": text})) == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a\u202eb", "U+202E RIGHT-TO-LEFT OVERRIDE"),
        ("a\u200bb", "U+200B ZERO WIDTH SPACE"),
        ("a\u00a0b", "U+00A0 NO-BREAK SPACE"),
        ("a\x1b[0m", "U+001B"),
        ("e\u0301", "composed in an unusual way"),
        ("p\u0430ypal.com", "mixes Cyrillic and Latin letters in one word: U+0430"),
        ("\u0440aypal", "mixes Cyrillic and Latin letters in one word: U+0440"),
        ("\u03c1\u0430\u0443", "mixes Cyrillic and Greek"),
        ("\u0430\u0440\u0440\u04cf\u0435.com", "looks Latin, and is Cyrillic"),
        ("\u0391\u0392\u0395", "looks Latin, and is Greek"),
        ("ＡＢＣ", "U+FF21 FULLWIDTH LATIN CAPITAL LETTER A"),
        ("𝟒𝟐", "U+1D7D2 MATHEMATICAL BOLD DIGIT FOUR"),
        ("5\uff02, \uff02to", "what looks like a quotation mark or brace: U+FF02"),
        ("42\u033800", "marks over what takes none: U+0338"),
    ],
)
def test_what_deceives_is_named(text: str, why: str) -> None:
    ((path, said), *_) = look_closely({"outer": [{"inner": text}]})
    assert path == "args.outer[0].inner"
    assert why in said


def test_names_of_arguments_deceive_too() -> None:
    assert [path for path, why in look_closely({"\u0430mount": 1}) if why.startswith("its name")] == [
        "args.\u0430mount"
    ]


def test_many_characters_are_named_in_part() -> None:
    ((_, said),) = look_closely({"text": "".join(map(chr, range(0x2066, 0x206A))) + "\u200b\u200c\u200d\u200e"})
    assert said.endswith("and 3 more")


VALUES: Any = st.recursive(
    st.none() | st.integers() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(VALUES)
def test_any_value_can_be_looked_at(value: Any) -> None:
    for path, why in look_closely(value):
        assert path.startswith("args")
        assert why


@given(st.text(st.characters(codec="ascii", min_codepoint=32, max_codepoint=126)))
def test_plain_text_never_deceives(text: str) -> None:
    assert list(look_closely(text)) == []
