"""Promises of names and expressions in policies: they mean what is written, and no text makes them slow."""

from __future__ import annotations

import re
import warnings
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indelible.core.policy.globs import Glob, tool_glob
from indelible.core.policy.patterns import MOST_PLACES, BadPattern, expression_of

# ── globs ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("glob", "name", "does_match"),
    [
        ("stripe.refund", "stripe.refund", True),
        ("stripe.refund", "stripe.refunds", False),
        ("stripe.*", "stripe.", True),
        ("stripe.*", "stripeXrefund", False),
        ("*", "", True),
        ("*.delete", "a.b.delete", True),
        ("a*b*c", "a-b-c", True),
        ("a*b*c", "acb", False),
        ("a*a", "a", False),  # one letter is not two
        ("a*b*b", "ab", False),
        ("Stripe.*", "stripe.refund", False),
        ("a?c", "abc", False),
        ("[ab]", "a", False),
    ],
)
def test_a_star_stands_for_any_characters_and_nothing_else_for_anything_but_itself(
    glob: str, name: str, does_match: bool
) -> None:
    assert Glob(glob).matches(name) is does_match


@given(st.text("ab*", max_size=6), st.text("ab", max_size=6))
def test_globs_agree_with_the_regular_expression_that_says_the_same(glob: str, name: str) -> None:
    pattern = ".*".join(map(re.escape, glob.split("*")))
    assert Glob(glob).matches(name) is bool(re.fullmatch(pattern, name, re.DOTALL))


def test_a_glob_that_covers_another_matches_all_that_the_other_does() -> None:
    globs = [Glob("".join(letters)) for size in range(5) for letters in product("ab*", repeat=size)]
    names = ["".join(letters) for size in range(5) for letters in product("ab", repeat=size)]
    matched = {glob: {name for name in names if glob.matches(name)} for glob in globs}
    covered = [(wide, narrow) for wide, narrow in product(globs, globs) if wide.covers(narrow)]
    assert len(covered) > 2 * len(globs)
    assert [(wide, narrow) for wide, narrow in covered if not matched[narrow] <= matched[wide]] == []


@pytest.mark.parametrize("text", ["", "a b", "stripe.[ab]", "stripe.?", "strıpe", "a" * 201, 5, None])
def test_what_no_tool_can_be_named_is_no_name_of_tools(text: object) -> None:
    with pytest.raises(ValueError, match="cannot be the name of a tool"):
        tool_glob(text)


# ── expressions ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("abc", ["abc"], ["", "ab", "abcd", "ABC", "abc\n"]),
        ("a|bc", ["a", "bc"], ["ac", "b"]),
        ("(?:ab)+c?", ["ab", "ababc"], ["c", "abb"]),
        ("[^a-c]", ["d", "\n", "é"], ["a", "b", "dd"]),
        (r"\d{2,3}", ["12", "123"], ["1", "1234", "١٢"]),  # digits of ASCII alone
        (r"\w*@example\.com", ["ana@example.com", "@example.com"], ["ana@exampleXcom", "ana@example.com.evil.org"]),
        (r"\D\S\W", ["ab!", "é€ "], ["1b!"]),
        (r"\s{2,}", [" \t"], [" ", "a "]),
        ("a{3}", ["aaa"], ["aa", "aaaa"]),
        ("a{0,1}", ["", "a"], ["aa"]),
        (".", ["a", "\r"], ["\n", ""]),
        (r"\x41\u00e9\t\/\-", ["Aé\t/-"], ["Aé"]),
        (r"[-a]", ["-", "a"], ["b"]),
        (r"[a-]", ["-", "a"], ["b"]),
        (r"[\]\-x]", ["]", "-", "x"], ["\\"]),
        ("[^\\d\\s]", ["a"], ["1", " "]),
        ("[\x00-\U0010ffff]", ["a", "\U0010ffff"], [""]),
        ("[^\x00-\U0010ffff]|a", ["a"], ["b"]),
        ("(a?){3}b", ["b", "aab"], ["aaaab"]),
    ],
)
def test_an_expression_matches_whole_texts(pattern: str, matching: list[str], others: list[str]) -> None:
    expression = expression_of(pattern)
    assert [text for text in matching if not expression.matches(text)] == []
    assert [text for text in others if expression.matches(text)] == []


PIECES = ["a", "b", "0", "-", ".", "|", "(", ")", "(?:", "[ab]", "[^a-b0]", "[", "]", "*", "+", "?", "{2}", "{1,}",
          "{0,2}", "{,", "}", r"\d", r"\W", r"\s", r"\S", r"\D", r"\.", "\\", r"\n", " ", "^", "$", ":"]  # fmt: skip


@given(
    st.lists(st.sampled_from(PIECES), min_size=1, max_size=9).map("".join), st.lists(st.text("ab01-. \nx", max_size=6))
)
def test_expressions_agree_with_pythons_own(pattern: str, texts: list[str]) -> None:
    try:
        expression = expression_of(pattern)
    except BadPattern:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        python = re.compile(pattern, re.ASCII)
    for text in texts:
        assert expression.matches(text) is bool(python.fullmatch(text)), text


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("", "nothing to match"),
        ("a|", "nothing to match"),
        ("()", "nothing to match"),
        ("(a", "not closed"),
        ("a)", "not opened"),
        ("^a", "leave it away"),
        ("a$", "leave it away"),
        ("*a", "means nothing"),
        ("a]", "means nothing"),
        ("a{x}", "means nothing"),
        ("a**", "counts twice"),
        ("a+?", "counts twice"),
        ("a{2}{3}", "counts twice"),
        ("a{0}", "too few"),
        ("a{3,2}", "too few"),
        ("(?i)a", "not possible here"),
        ("(?=a)b", "not possible here"),
        (r"(a)\1", "not possible here"),
        (r"\bword", "not possible here"),
        ("\\", "ends too early"),
        ("[a", "ends too early"),
        ("[]", "among a set"),
        ("[[a]", "among a set"),
        ("[z-a]", "range"),
        (r"[\d-z]", "range"),
        (r"[a-\d]", "range"),
        ("[a--b]", "in the middle"),
        ("[ab-c-d]", "in the middle"),
        ("a{9999}", f"more than {MOST_PLACES}"),
        ("((a{90}){90}){90}", f"more than {MOST_PLACES}"),
        ("(" * 21 + "a" + ")" * 21, "nests more than"),
    ],
)
def test_what_could_be_slow_or_mean_two_things_is_no_expression(pattern: str, why: str) -> None:
    with pytest.raises(BadPattern, match=why):
        expression_of(pattern)


@pytest.mark.parametrize("pattern", ["(a*)*b", "(a|aa)+b", "(a?){200}a{200}b", "(.*,){40}x", "(a|b|ab)*c"])
def test_no_text_makes_an_expression_slow(pattern: str) -> None:
    """Backtracking would take longer than the world has been there; the test's own limit of time is the judge."""
    assert not expression_of(pattern).matches("a" * 4096)
