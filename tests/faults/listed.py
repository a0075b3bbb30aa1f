"""Lists the numbered faults with the tests that carry each number: `python -m tests.faults.listed [NUMBER …]`.

A test carries a number by its name, as in `test_37_…`, or by its file: `test_98_….py`, or a file whose first words are
`Fault 98`. Files of `tests/threats` have the numbers of threats instead.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

REPO = Path(__file__).parents[2]
NUMBERS = range(1, 99)
"""The faults that are numbered."""
WITHOUT = {
    36: "a word of law, which no program can test",
    63: "a sentence about Citus, which the pages correct: it runs on no machine of the tests",
}
"""The numbers that no test carries, each with the reason. A number that gets a test leaves this table."""
_IN_NAME = re.compile(r"test_(?P<numbers>\d{1,2}(?:_\d{1,2})*)_[a-z]")
_IN_WORDS = re.compile(r"Faults? (\d{1,2})\b")
_OF_THREATS = Path("tests/threats")


def carriers() -> dict[int, list[str]]:
    """Return the tests that carry each number, as pytest names them; a number that none carries has an empty list."""
    found: defaultdict[int, list[str]] = defaultdict(list)
    for path in sorted((REPO / "tests").rglob("test_*.py")):
        file = path.relative_to(REPO)
        tree = ast.parse(path.read_text(encoding="utf-8"))
        of_file = set() if file.is_relative_to(_OF_THREATS) else _numbers_of(file.stem)
        of_file |= {int(number) for number in _IN_WORDS.findall((ast.get_docstring(tree) or "").partition("\n")[0])}
        for name in _tests_in(tree):
            for number in sorted(of_file | _numbers_of(name.rpartition("::")[2])):
                found[number].append(f"{file}::{name}")
    return {number: found[number] for number in NUMBERS}


def _numbers_of(name: str) -> set[int]:
    named = _IN_NAME.match(name)
    return {int(number) for number in named["numbers"].split("_")} if named else set()


def _tests_in(tree: ast.Module) -> list[str]:
    """Return the names of a file's tests, those in classes with their class."""
    names: list[str] = []
    for node in tree.body:
        members = node.body if isinstance(node, ast.ClassDef) else [node]
        prefix = f"{node.name}::" if isinstance(node, ast.ClassDef) else ""
        functions = [member for member in members if isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef)]
        names += [prefix + function.name for function in functions if function.name.startswith("test_")]
    return names


def main(args: Sequence[str]) -> int:
    """Print the list, or all tests of the numbers that are named; return 1 if a number has neither test nor reason."""
    found = carriers()
    asked = [int(number) for number in args]
    for number in asked or NUMBERS:
        tests = found[number]
        if asked:
            print(*(f"{number:2}  {test}" for test in tests), sep="\n")
        files = Counter(test.partition("::")[0] for test in tests)
        if not asked and tests:
            print(f"{number:2}  {len(tests):3}  {', '.join(f'{file} ({count})' for file, count in files.items())}")
        if not tests:
            print(f"{number:2}    –  {WITHOUT.get(number, 'NO TEST carries this number')}")
    tested = sum(1 for tests in found.values() if tests)
    print(f"{tested} of {len(found)} numbers have tests.")
    return 0 if all(found[number] or number in WITHOUT for number in NUMBERS) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
