"""Names that look alike: nobody passes for two people, and nobody gets another's rights by it."""

from __future__ import annotations

import pytest

from indelible.core.approvals.approval import looks_like, same_person
from indelible.core.values.alike import _ARMENIAN, _CYRILLIC, _GREEK


@pytest.mark.parametrize(
    "other",
    [
        "ana",
        "ANA",
        " Ana ",
        "ａｎａ",  # full width
        "an\u200ba",
        "\u202eana",
        "аnа",  # Cyrillic
        "АNА",
        "αnα",  # Greek
        "ɑna",
    ],
)
def test_what_can_be_taken_for_a_name_looks_like_it(other: str) -> None:
    assert looks_like("ana", other)
    assert looks_like(other, "ana")


@pytest.mark.parametrize("other", ["anna", "ann", "bob", "", "naa", "аня", "áná", "a na"])
def test_another_name_does_not(other: str) -> None:
    assert not looks_like("ana", other)


@pytest.mark.parametrize("other", ["аnа", "αnα", "ɑna"])
def test_what_only_looks_like_a_name_is_not_that_person(other: str) -> None:
    assert not same_person("ana", other)


@pytest.mark.parametrize("letters", [_CYRILLIC, _GREEK, _ARMENIAN])
def test_every_letter_has_a_latin_twin(letters: tuple[str, str]) -> None:
    for letter, twin in zip(*letters, strict=True):
        assert not letter.isascii()
        assert twin.isascii()
        assert letter == letter.casefold(), "names are folded before they are looked at"
