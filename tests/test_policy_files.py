"""Promises of policies in files: no reader can understand them otherwise, and each problem has its line."""

from __future__ import annotations

import builtins
import copy
import json
import sys
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from indelible.core.policy.asking import TERMS
from indelible.core.policy.conditions import TESTS
from indelible.core.policy.content import MATCH_WORDS, PER_WORDS, WORDS
from indelible.core.policy.lint import doubts_about
from indelible.core.policy.policy import examine, policy_of
from indelible.errors import BadPolicy
from indelible.policy_files import MOST_BYTES, PolicyFile, load_content, load_policy, problems_in, read_file, schema
from tests.core.policies import FULL, changed_at, places

TEXT = """\
# who may refund what
people:
  ana: {roles: [finance]}
rules:
  - name: small refunds
    match:
      tool: stripe.*
      args:
        amount: {lte: 50.50}
    then: allow
  - name: "no"
    then: 'refuse'
    why: |
      a text of
      two lines
"""


def written(folder: Path, text: str | bytes, name: str = "policy.yaml") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def refusal(folder: Path, text: str | bytes, name: str = "policy.yaml") -> str:
    with pytest.raises(BadPolicy) as bad:
        load_policy(written(folder, text, name))
    return str(bad.value)


def test_yaml_and_json_that_say_the_same_are_one_policy(tmp_path: Path) -> None:
    content = load_content(written(tmp_path, TEXT))
    assert content["rules"][0]["match"]["args"]["amount"]["lte"] == Decimal("50.50")
    assert content["rules"][1] == {"name": "no", "then": "refuse", "why": "a text of\ntwo lines\n"}
    made = load_policy(tmp_path / "policy.yaml")
    as_json = json.dumps(content, default=float)
    assert load_policy(written(tmp_path, as_json, "policy.json")).version == made.version
    assert load_policy(written(tmp_path, as_json)).version == made.version  # JSON is YAML too
    assert load_policy(written(tmp_path, "\ufeff" + TEXT)).version == made.version
    assert policy_of(content).version == made.version


def test_the_largest_policy_of_the_tests_comes_back_from_both_forms(tmp_path: Path) -> None:
    text = json.dumps(FULL)
    assert load_policy(written(tmp_path, text)).version == policy_of(FULL).version
    assert load_policy(written(tmp_path, text, "policy.json")).version == policy_of(FULL).version


# ── what readers of YAML disagree about ──────────────────────────────────────────────────────────────────────────────

AMBIGUOUS = [
    "no",
    "No",
    "NO",
    "yes",
    "on",
    "off",
    "On",
    "True",
    "TRUE",
    "False",
    "Null",
    "NULL",
    "010",
    "0o17",
    "0x1F",
    "0b11",
    "1_000",
    "+1",
    ".5",
    "5.",
    "1e3",
    "1.5e3",
    "-.5",
    "1.5E-3",
    ".inf",
    "-.inf",
    ".nan",
    ".NaN",
    "inf",
    "nan",
    "2030-01-31",
    "2030-01-31T12:00:00Z",
    "1:30",
    "190:20:30",
    "<<",
    "=",
    "0777",
    "1__0",
    "00",
    "y",
    "N",
]


@pytest.mark.parametrize("word", AMBIGUOUS)
def test_what_means_two_things_has_to_stand_in_quotes(tmp_path: Path, word: str) -> None:
    rule = "rules: [{{name: x, then: ask, match: {{args: {{a: {{eq: {}}}}}}}}}]"
    told = refusal(tmp_path, rule.format(word))
    assert "readers of YAML disagree" in told
    assert ":1:53: " in told
    quoted = load_content(written(tmp_path, rule.format(f'"{word}"')))
    assert quoted["rules"][0]["match"]["args"]["a"]["eq"] == word


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("true", True),
        ("false", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("12", 12),
        ("-3", -3),
        ("0", 0),
        ("12.50", Decimal("12.50")),
        ("-0.001", Decimal("-0.001")),
        ("123456789012345678901234567890", 123456789012345678901234567890),
        ("24h", "24h"),
        ("1.2.3", "1.2.3"),
        ("10.0.0.1", "10.0.0.1"),
        ("a b", "a b"),
        ("'12'", "12"),
        ('"\\u00e9"', "é"),
    ],
)
def test_what_is_plain_is_what_it_looks_like(tmp_path: Path, word: str, value: Any) -> None:
    content = load_content(
        written(tmp_path, f"rules: [{{name: x, then: ask, match: {{args: {{a: {{eq: {word}}}}}}}}}]")
    )
    found = content["rules"][0]["match"]["args"]["a"]["eq"]
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("text", "where", "why"),
    [
        ("", "", "is empty"),
        ("# nothing\n", "", "is empty"),
        ("---\n", "", "has to be an object, and is null"),
        ("- a\n", ":1:1:", "has to be an object, and is a list"),
        ("rules: [\n", "", "this is no YAML"),
        ("a: b: c\n", ":1:5:", "this is no YAML"),
        ("\trules: 1\n", "", "this is no YAML"),
        ("rules: \x01\n", "", "this is no YAML"),
        ("unknown_tools: ask\n---\nunknown_tools: allow\n", ":2:1:", "more than one document"),
        ("unknown_tools: ask\nunknown_tools: allow\n", ":2:1:", "unknown_tools stands here twice, first in line 1"),
        ("rules:\n  - {name: a, then: ask, name: b}\n", ":2:26:", "rules[0].name stands here twice"),
        ("unknown_tools: ask\n'unknown_tools': allow\n", ":2:1:", "twice"),
        ("1: ask\n", ":1:1:", "has to be a text; put it in quotes"),
        ("true: ask\n", ":1:1:", "has to be a text; put it in quotes"),
        ("no: ask\n", ":1:1:", "disagree about no"),
        ("? [a]\n: b\n", ":1:3:", "has to be a text"),
        ("? {a: b}\n: b\n", ":1:3:", "has to be a text"),
        ("<<: {unknown_tools: ask}\n", ":1:1:", "disagree about <<"),
        ("unknown_tools: !!python/object:os.system ask\n", ":1:16:", "the tag"),
        ("unknown_tools: !!str ask\n", ":1:16:", "the tag"),
        ("unknown_tools: ! ask\n", ":1:16:", "the tag"),
        ("rules: !!set {a, b}\n", ":1:8:", "the tag"),
        ("rules: !!binary aGk=\n", ":1:8:", "the tag"),
        ("rules: *nobody\n", ":1:8:", "has no anchor before it"),
        ("rules: &me [*me]\n", ":1:13:", "has no anchor before it"),
        ("rules: " + "[" * 70 + "]" * 70, "", "nests deeper"),
        ("rules: " + "[" * 100_000, "", ""),
        ("unknown_tools: refuse\n# all is well\x85defaults: allow\n", ":2:14:", "holds ⟨U+0085⟩"),
        ("unknown_tools: refuse # so\u2028defaults: allow\n", ":1:27:", "holds ⟨U+2028⟩"),
        ("rules: [{name: \u202ewolla, then: allow}]\n", ":1:16:", "holds ⟨U+202E⟩"),
        (b"rules: \xff\n", "", "is not UTF-8, at byte 7"),
        ("#" * (MOST_BYTES + 1), "", "more than 1048576 bytes"),
    ],
)  # fmt: skip
def test_what_is_no_plain_yaml_is_refused_with_its_line(
    tmp_path: Path, text: str | bytes, where: str, why: str
) -> None:
    told = refusal(tmp_path, text)
    assert why in told
    assert where in told


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no JSON"),
        ("{", "no JSON"),
        ('{"unknown_tools": "ask", "unknown_tools": "allow"}', "'unknown_tools' stands twice"),
        ('{"rules": NaN}', "NaN is no number"),
        ('{"rules": -Infinity}', "is no number"),
        ('{"rules": 1e500}', "digits"),
        ('{"rules": "\\ud800"}', "surrogate"),
        ("[" * 100_000, ""),
        ("5", "has to be an object"),
    ],
)
def test_what_is_no_plain_json_is_refused(tmp_path: Path, text: str, why: str) -> None:
    assert why in refusal(tmp_path, text, "policy.json")


def test_few_lines_cannot_become_millions(tmp_path: Path) -> None:
    bomb = "a: &a [x, x, x, x, x, x, x, x, x]\n"
    for one, two in zip("abcdefgh", "bcdefghi", strict=True):
        bomb += f"{two}: &{two} [{', '.join([f'*{one}'] * 9)}]\n"
    assert "more than 50000 parts, aliases written out" in refusal(tmp_path, bomb)


def test_an_alias_stands_for_what_its_anchor_names(tmp_path: Path) -> None:
    text = """
rules:
  - {name: a, then: ask, approvals: &two {quorum: 2}}
  - {name: b, then: ask, approvals: *two}
"""
    assert load_content(written(tmp_path, text))["rules"][1]["approvals"] == {"quorum": 2}
    wrong = text.replace("quorum", "quorums")
    told = refusal(tmp_path, wrong)
    assert "policy.yaml:3:43: rules[0].approvals.quorums" in told
    assert "policy.yaml:4:26: rules[1].approvals.quorums" in told  # where the alias stands


def test_each_problem_has_its_line_and_they_come_in_order(tmp_path: Path) -> None:
    text = TEXT.replace("lte: 50.50", "lte: much").replace("then: allow", "than: allow").replace("roles", "role")
    told = refusal(tmp_path, text).split("\n  ")[1:]
    path = tmp_path / "policy.yaml"
    assert told == [
        f"{path}:3:9: people.ana.role: is no word of a policy here; did you mean roles?",
        f"{path}:5:5: rules[0]: lacks the word then",
        f"{path}:9:18: rules[0].match.args.amount.lte: has to be a number, and is a text",
        f"{path}:10:5: rules[0].than: is no word of a policy here; did you mean then?",
    ]
    with pytest.raises(BadPolicy) as bad:
        load_policy(path)
    assert list(bad.value.problems) == told
    as_json = written(tmp_path, '{"rulez": []}', "policy.json")
    with pytest.raises(BadPolicy, match=r"policy\.json: rulez: is no word"):
        load_policy(as_json)


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(BadPolicy, match="cannot be read: No such file"):
        load_policy(tmp_path / "none.yaml")
    with pytest.raises(BadPolicy, match="cannot be read: Is a directory"):
        load_policy(tmp_path)


@pytest.mark.parametrize("missing", ["yaml", "jsonschema"])
def test_json_needs_no_extra_and_yaml_says_which(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    path = written(tmp_path, json.dumps(FULL), "policy.json")
    monkeypatch.setitem(sys.modules, missing, None)  # as if it were not installed
    assert load_policy(path).version == policy_of(FULL).version
    if missing == "yaml":
        assert "pip install 'indelible[policy]'" in refusal(tmp_path, TEXT)


def test_python_alone_reads_yaml_as_the_c_library_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import yaml

    path = written(tmp_path, TEXT)
    fast = read_file(path)
    monkeypatch.delattr(yaml, "CBaseLoader", raising=False)
    slow = read_file(path)
    assert (fast.content, fast.lines) == (slow.content, slow.lines)
    assert "the tag" in refusal(tmp_path, "unknown_tools: !!str ask\n")


def test_nothing_in_a_file_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []
    monkeypatch.setattr(builtins, "exec", lambda *given: ran.append("exec"))
    for tag in ("!!python/object/apply:os.system [touch x]", "!!python/name:os.system ''", "!!python/module:os ''"):
        assert "the tag" in refusal(tmp_path, f"rules: {tag}\n")
    assert ran == []


# ── the schema for editors ───────────────────────────────────────────────────────────────────────────────────────────

VALIDATOR = Draft202012Validator(schema())
VALUES = [None, True, 0, 5, -1, 1.5, "", "x", "ask", "12h", [], ["x"], ["x", "x"], {}, {"x": 1}]
PLACES = [place for place, _ in places(FULL) if place]


def test_the_schema_is_one_and_knows_every_word() -> None:
    Draft202012Validator.check_schema(schema())
    assert list(VALIDATOR.iter_errors(FULL)) == []
    assert list(VALIDATOR.iter_errors({})) == []


def test_the_schema_refuses_every_misspelt_word() -> None:
    free = {("people",), ("tools",)}
    closed = [
        place
        for place, part in places(FULL)
        if isinstance(part, dict) and place not in free and place[-1:] != ("args",)
    ]
    assert len(closed) > 5
    for place in closed:
        wrong = changed_at(FULL, place, lambda content: {**content, "misspelt": 1})
        assert not VALIDATOR.is_valid(wrong), place


def test_what_the_core_takes_the_schema_takes_too() -> None:
    """The schema may be looser, for it knows no names and no sums; where it is stricter, editors would cry wolf."""
    taken = 0
    for place, other in product(PLACES, VALUES):
        content = changed_at(FULL, place, lambda _, other=other: copy.deepcopy(other))
        _, _, problems = examine(content)
        if not problems:
            assert list(VALIDATOR.iter_errors(content)) == [], (place, other)
            taken += 1
    assert taken > 100


def test_a_second_look_finds_nothing_that_the_core_did_not(tmp_path: Path) -> None:
    refused = 0
    for place, other in product(PLACES, (None, 5, [], {}, "x")):
        content = changed_at(FULL, place, lambda _, other=other: copy.deepcopy(other))
        _, _, problems = examine(content)
        assert len(problems_in(PolicyFile(tmp_path, content))) == len(problems), (place, other)
        refused += not VALIDATOR.is_valid(content)
    assert refused > 100


# ── the page about policies ──────────────────────────────────────────────────────────────────────────────────────────

PAGE = (Path(__file__).parents[1] / "docs" / "policy.md").read_text(encoding="utf-8")


def test_the_example_on_the_page_can_be_used_and_leaves_no_doubt(tmp_path: Path) -> None:
    example = PAGE.split("```yaml\n")[1].split("```")[0]
    made = load_policy(written(tmp_path, example))
    assert doubts_about(made) == []
    assert [rule.name for rule in made.rules] == ["small refunds", "big refunds"]


def test_the_page_explains_every_word() -> None:
    words = {*WORDS, *MATCH_WORDS, *TESTS, *TERMS, *PER_WORDS, "name", "then", "why", "limit", "window", "sum", "per"}
    assert [word for word in sorted(words) if f"`{word}" not in PAGE and f"{word}:" not in PAGE] == []
