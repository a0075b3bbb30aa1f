"""The command line: `python -m tests.judges [judge …]`. Exits 0 only if every judge judged every file rightly."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

from tests.judges.judging import Count, Judge, OwnJudge, counted, is_unanimous, table
from tests.judges.places import HERE, JUDGES, Unreachable, go_judge
from tests.judges.samples import Samples

KEPT = Path(__file__).parents[1] / "core" / "vectors" / "go.json"
SHOWN = 5
AGREED = """
Every judge took every good file and believed no changed one. "Read as unchanged" are changes in what a judge does not
look at, such as spare bits of base64 or the name beside a signature: text, entry and signature stay what they were."""


def main() -> int:
    """Brings the judges, makes the files, asks, and shows a table."""
    options = _options()
    try:
        judges = [JUDGES[name]() for name in options.judges or JUDGES]
        if options.write_vectors:
            KEPT.write_bytes(_vectors(go_judge()))
        is_good = all(_vectors(judge) == KEPT.read_bytes() for judge in judges if judge.name.startswith("Go"))
    except Unreachable as missing:
        print(f"tests.judges: {missing}", file=sys.stderr)
        return 2
    if not is_good:
        print(f"{KEPT.name}: Go computes something else now; see it with --write-vectors and git diff")
    shutil.rmtree(HERE / "trees", ignore_errors=True)
    cases = Samples(HERE / "trees").cases()
    counts = {judge.name: counted(judge, cases, judge.verdicts(cases)) for judge in (OwnJudge(), *judges)}
    print(table(counts))
    _show_wrong(counts)
    is_good = is_good and is_unanimous(counts)
    print(AGREED if is_good else "The judges do NOT agree.")
    return 0 if is_good else 1


def _vectors(judge: Judge) -> bytes:
    return subprocess.run([*judge.command, "vectors"], check=True, stdout=subprocess.PIPE).stdout


def _show_wrong(counts: dict[str, dict[str, Count]]) -> None:
    for name, kinds in counts.items():
        for kind, count in kinds.items():
            for wrong in count.wrong[:SHOWN]:
                print(f"  {name}, {kind}: {wrong}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.judges", description="Lets outside tools judge our files.")
    parser.add_argument("judges", nargs="*", choices=[*JUDGES, []], help=f"some of: {', '.join(JUDGES)}; all without")
    parser.add_argument("--write-vectors", action="store_true", help="keep what Go computes in tests/core/vectors")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
