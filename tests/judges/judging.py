"""Asks a judge about all cases and counts: good files it took, changed ones it refused, and what it took wrongly."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.judges import own
from tests.judges.samples import Case

KINDS = ("head", "cosigned", "receipt", "consistency", "tree")
ONE_SIGNATURE = ("head", "receipt")
"""Are the kinds for judges that know one log's key, and neither witnesses nor two trees."""
TEXTS = ("head", "cosigned", "receipt")
"""In these a lenient reader may pass over a changed byte that means nothing, such as a spare bit of base64."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Is a judge's answer: what it understood, or None when it refused, and why."""

    meaning: str | None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Judge:
    """Is a program that takes cases line by line and gives a verdict for each."""

    name: str
    kinds: tuple[str, ...]
    command: tuple[str, ...]

    def verdicts(self, cases: Sequence[Case]) -> dict[int, Verdict]:
        """Asks about every case of the kinds it knows."""
        asked = [case for case in cases if case.kind in self.kinds]
        lines = "".join(json.dumps(case.line) + "\n" for case in asked)
        done = subprocess.run(self.command, input=lines.encode(), stdout=subprocess.PIPE, check=True)
        answers = [json.loads(line) for line in done.stdout.decode().splitlines()]
        return {one["id"]: Verdict(one["meaning"] if one["accepted"] else None, one["why"]) for one in answers}


class OwnJudge:
    """Is our own code in a judge's place; it may never read a changed file as if nothing had happened."""

    name = "indelible itself"
    kinds = KINDS

    def verdicts(self, cases: Sequence[Case]) -> dict[int, Verdict]:
        """Asks our own parsers."""
        return {case.number: self._verdict(case) for case in cases}

    def _verdict(self, case: Case) -> Verdict:
        try:
            return Verdict(own.judge(case))
        except (ValueError, own.Refused) as refused:
            return Verdict(None, str(refused))


@dataclass(slots=True)
class Count:
    """Is what came of the cases of one kind."""

    good: int = 0
    accepted: int = 0
    changed: int = 0
    refused: int = 0
    same: int = 0
    wrong: list[str] = field(default_factory=list)


def counted(judge: Judge | OwnJudge, cases: Sequence[Case], verdicts: Mapping[int, Verdict]) -> dict[str, Count]:
    """Counts verdicts by kind; a missing one is wrong, like a good file refused or a changed one believed."""
    counts = {kind: Count() for kind in judge.kinds}
    may_be_lenient = isinstance(judge, Judge)
    for case in cases:
        if case.kind not in judge.kinds:
            continue
        count, verdict = counts[case.kind], verdicts.get(case.number, Verdict("no answer"))
        if case.good is None:
            count.good += 1
            if verdict.meaning is None or case.number not in verdicts:
                count.wrong.append(f"good, but refused: {verdict.why}")
            else:
                count.accepted += 1
            continue
        count.changed += 1
        if verdict.meaning is None:
            count.refused += 1
        elif may_be_lenient and case.kind in TEXTS and _is_same(case, verdict, verdicts):
            count.same += 1
        else:
            count.wrong.append(f"changed ({case.change}), but believed")
    return counts


def _is_same(case: Case, verdict: Verdict, verdicts: Mapping[int, Verdict]) -> bool:
    assert case.good is not None
    return case.number in verdicts and verdict == verdicts.get(case.good)


def table(counts: Mapping[str, Mapping[str, Count]]) -> str:
    """Draws what the judges said."""
    rows = [("judge", "file", "good", "accepted", "changed", "refused", "read as unchanged", "WRONG")]
    for name, kinds in counts.items():
        for kind, count in kinds.items():
            numbers = (count.good, count.accepted, count.changed, count.refused, count.same, len(count.wrong))
            rows.append((name, kind, *(str(number) for number in numbers)))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    rows.insert(1, tuple("─" * width for width in widths))
    return "\n".join(_aligned(row, widths) for row in rows)


def _aligned(row: Sequence[str], widths: Sequence[int]) -> str:
    """Puts words to the left and numbers to the right."""
    words = [cell.ljust(width) for cell, width in zip(row[:2], widths[:2], strict=True)]
    return "  ".join([*words, *(cell.rjust(width) for cell, width in zip(row[2:], widths[2:], strict=True))])


def is_unanimous(counts: Mapping[str, Mapping[str, Count]]) -> bool:
    """Did every judge take every good file and none of the others, and was it asked at all?"""
    every = [count for kinds in counts.values() for count in kinds.values()]
    return bool(every) and all(count.good and count.changed and not count.wrong for count in every)


def program(name: str) -> Path:
    """Gives the path of a judge's program."""
    return Path(__file__).parent / "programs" / name
