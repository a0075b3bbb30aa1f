"""Promises of the judges' own machinery: a judge that errs in either direction is told on."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.judges.judging import KINDS, Judge, OwnJudge, Verdict, counted, is_unanimous, table
from tests.judges.samples import Case, Samples


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> list[Case]:
    return Samples(tmp_path_factory.mktemp("trees"), sizes=(1, 2, 257, 300)).cases()


def test_our_own_parsers_take_every_good_file_and_no_other(cases: list[Case]) -> None:
    counts = {OwnJudge.name: counted(OwnJudge(), cases, OwnJudge().verdicts(cases))}
    assert [wrong for count in counts[OwnJudge.name].values() for wrong in count.wrong] == []
    assert is_unanimous(counts), table(counts)
    assert set(counts[OwnJudge.name]) == set(KINDS)


HEADS = [
    Case(number=0, kind="head", told={}),
    Case(number=1, kind="head", told={}, good=0, change="a byte"),
]
ANY = Judge("any", ("head",), ())


@pytest.mark.parametrize(
    ("good", "changed", "wrong"),
    [
        (Verdict("x"), Verdict(None), []),
        (Verdict("x"), Verdict("x"), []),
        (Verdict("x"), Verdict("y"), ["changed (a byte), but believed"]),
        (Verdict(None, "why"), Verdict(None), ["good, but refused: why"]),
        (Verdict("x"), None, ["changed (a byte), but believed"]),
        (None, Verdict(None), ["good, but refused: "]),
        (None, None, ["good, but refused: ", "changed (a byte), but believed"]),
    ],
)
def test_a_judge_is_wrong_when_it_refuses_the_good_believes_the_changed_or_is_silent(
    good: Verdict | None, changed: Verdict | None, wrong: Sequence[str]
) -> None:
    verdicts = {number: verdict for number, verdict in enumerate((good, changed)) if verdict is not None}
    counts = {"any": counted(ANY, HEADS, verdicts)}
    assert counts["any"]["head"].wrong == wrong
    assert is_unanimous(counts) == (not wrong)


def test_nobody_may_read_a_changed_tile_as_if_nothing_had_happened() -> None:
    trees = [Case(number=0, kind="tree", told={}), Case(number=1, kind="tree", told={}, good=0, change="a byte")]
    counts = {"any": counted(Judge("any", ("tree",), ()), trees, {0: Verdict(""), 1: Verdict("")})}
    assert not is_unanimous(counts)


def test_no_judge_and_no_case_are_no_agreement() -> None:
    assert not is_unanimous({})
    assert not is_unanimous({"any": counted(ANY, [], {})})


def test_a_judge_is_asked_line_by_line_and_not_told_what_is_expected(tmp_path: Path) -> None:
    program = tmp_path / "judge.py"
    program.write_text(
        "import json, sys\n"
        "for line in sys.stdin:\n"
        "    case = json.loads(line)\n"
        "    assert set(case) == {'id', 'kind', 'note'}, case\n"
        "    print(json.dumps({'id': case['id'], 'accepted': case['note'] == 'good', 'meaning': 'm', 'why': 'w'}))\n",
        encoding="utf-8",
    )
    asked = [
        Case(number=0, kind="head", told={"note": "good"}),
        Case(number=1, kind="head", told={"note": "bad"}, good=0, change="all of it"),
        Case(number=2, kind="tree", told={}),
    ]
    judge = Judge("any", ("head",), (sys.executable, str(program)))
    assert judge.verdicts(asked) == {0: Verdict("m", "w"), 1: Verdict(None, "w")}


def test_the_table_has_a_line_for_every_judge_and_kind() -> None:
    drawn = table({"any": counted(ANY, HEADS, {0: Verdict("x"), 1: Verdict(None)})}).splitlines()
    assert len(drawn) == 3
    assert drawn[2].split() == ["any", "head", "1", "1", "1", "1", "0", "0"]
