"""Plants bugs, one at a time, and says which test notices each: `python -m tests.mutants NAME… | --pick N | --all`.

Each bug is planted in a copy of the checkout. The tests run there, and a plugin stops them if they import another
source. First, the tests that are known to notice the bugs have to pass without any.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.commit import COMMIT
from tests.mutants.imported import REPORT, SOURCE
from tests.mutants.planted import BUGS, Bug
from tests.mutants.planting import PACKAGE, REPO, changed, copy_of_everything
from tests.waiting import PATIENCE

NOTICED_BY = Path(__file__).with_name("noticed_by.json")
"""Names the test that notices each bug. `--record` writes it."""
_ALONE = 90
"""The time limit of one test, in seconds: a test that hangs names itself."""
_PATIENCE = 30.0
"""How long tests in the copy wait for a state: a bug that forgets to wake somebody has to be told soon."""
_NOT_FOUND = (4, 5)
"""Exit codes of pytest: a named test is not there, or no test was collected."""
_WIDE = ("tests/browser/", "tests/chaos/", "tests/frameworks/", "tests/mutants/", "tests/judges/")


@dataclass(frozen=True, slots=True)
class Verdict:
    """Says what became of one bug: `noticed`, `SURVIVED`, or why nothing can be told."""

    word: str
    by: str = ""
    seconds: float = 0.0

    @property
    def is_noticed(self) -> bool:
        """Say whether a test noticed it."""
        return self.word == "noticed"


class Runner:
    """Runs tests in a copy of the checkout."""

    def __init__(self, folder: Path, limit: float) -> None:
        self.tree = copy_of_everything(folder / "tree")
        waiting = self.tree / "tests" / "waiting.py"
        waiting.write_text(waiting.read_text().replace(f"PATIENCE = {PATIENCE}", f"PATIENCE = {_PATIENCE}"))
        self._report = folder / "report"
        self._limit = limit

    def verdict_on(self, bug: Bug, tests: Sequence[str]) -> Verdict:
        """Plant a bug, run tests until one fails, and take the bug out again."""
        path = self.tree / PACKAGE / bug.file
        before, times = path.read_bytes(), path.stat()
        path.write_text(changed(bug, self.tree), encoding="utf-8")
        try:
            return self.run(tests, "-x")
        finally:
            path.write_bytes(before)
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # what was compiled of it holds again

    def run(self, tests: Sequence[str], *words: str) -> Verdict:
        """Run tests, and say which failed first."""
        self._report.unlink(missing_ok=True)
        since = time.monotonic()
        command = [sys.executable, "-m", "pytest", "-q", "-n0", "--tb=line", f"--timeout={_ALONE}", *words, *tests]
        command += ["-p", "no:cacheprovider", "-p", "tests.mutants.imported"]
        source = str(self.tree / "src")
        env = {**os.environ, "PYTHONPATH": source, SOURCE: source, REPORT: str(self._report)}
        with subprocess.Popen(
            command, cwd=self.tree, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
        ) as running:
            try:
                said, _ = running.communicate(timeout=self._limit)
            except subprocess.TimeoutExpired:
                seconds, failed = time.monotonic() - since, self._failed()
                return Verdict("noticed", failed[0], seconds) if failed else Verdict("TIME LIMIT", seconds=seconds)
            finally:
                if running.poll() is None:
                    os.killpg(running.pid, signal.SIGKILL)
                    running.wait()
        seconds, code = time.monotonic() - since, running.returncode
        if failed := self._failed():
            return Verdict("noticed", failed[0], seconds)
        if code == 0:
            return Verdict("SURVIVED", seconds=seconds)
        if code in _NOT_FOUND:
            return Verdict("NOT FOUND", seconds=seconds)
        print(said.decode("utf-8", "replace")[-2000:], file=sys.stderr)
        return Verdict(f"BROKEN ({code})", seconds=seconds)  # a bug that any import finds is worth nothing

    def failing(self, tests: Sequence[str]) -> set[str]:
        """Return those of some tests that fail without a bug, twice: what a busy machine did once says nothing."""
        verdict = self.run(tests)
        if verdict.word == "NOT FOUND":  # one of them was renamed, or is drawn by the commit: then none has run
            return {test for test in tests if self.run([test]).is_noticed and self.run([test]).is_noticed}
        failed = self._failed()
        return {test for test in failed if self.run([test]).is_noticed}

    def judged(self, bug: Bug, test: str | None, expected: Sequence[str]) -> Verdict:
        """Return what the test that is known says of a bug, or those where a reader expects it noticed."""
        if test is not None:
            verdict = self.verdict_on(bug, [test])
            if verdict.word not in ("NOT FOUND", "SURVIVED"):  # renamed or drawn by the commit; or a race
                return verdict
        return self.verdict_on(bug, expected)

    def _failed(self) -> list[str]:
        """Return the tests that failed so far, in their order."""
        return self._report.read_text().splitlines() if self._report.exists() else []


def known() -> dict[str, str]:
    """Return the test that notices each bug, as far as that was recorded."""
    found: dict[str, str] = json.loads(NOTICED_BY.read_text()) if NOTICED_BY.exists() else {}
    return found


def picked(count: int, commit: str = COMMIT) -> list[Bug]:
    """Return so many bugs, chosen by the commit that is tested: in time, each has its turn."""
    return random.Random(commit).sample(BUGS, count)


def importers(bug: Bug) -> list[str]:
    """Return the test files that name the bug's module, or for SQL those of its store."""
    module = "indelible." + bug.file.removesuffix(".py").removesuffix(".sql").replace("/", ".")
    names = (module, module.rpartition(".")[0]) if bug.file.endswith(".sql") else (module,)
    files = sorted(str(path.relative_to(REPO)) for path in (REPO / "tests").rglob("test_*.py"))
    return [file for file in files if not file.startswith(_WIDE) and _names_any(REPO / file, names)]


def _names_any(file: Path, names: Iterable[str]) -> bool:
    text = file.read_text(encoding="utf-8")
    return any(f"{name} " in text or f"{name}\n" in text or f"{name}." in text for name in names)


def _chosen(words: argparse.Namespace) -> list[Bug]:
    if words.all:
        return list(BUGS)
    if words.pick:
        return picked(words.pick)
    by_name = {bug.name: bug for bug in BUGS}
    unknown = [name for name in words.names if name not in by_name]
    if unknown or not words.names:
        sys.exit(f"name bugs, or say --pick N, --all or --list; no bug is named {', '.join(unknown) or '(nothing)'}")
    return [by_name[name] for name in words.names]


def main(args: Sequence[str]) -> int:
    """Run what the command line names; return 0 if every bug was noticed."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description="Are planted bugs noticed?")
    parser.add_argument("names", nargs="*", help="names of bugs")
    parser.add_argument("--pick", type=int, metavar="N", help="so many bugs, chosen by the commit")
    parser.add_argument("--all", action="store_true", help="every bug")
    parser.add_argument("--list", action="store_true", help="say which bugs there are, and run none")
    parser.add_argument("--guess", action="store_true", help="run the tests where a reader expects the bug noticed")
    parser.add_argument("--widen", action="store_true", help="run every test file that names the bug's module, too")
    parser.add_argument("--tests", nargs="+", metavar="TEST", help="run these tests, whatever is known")
    parser.add_argument("--record", action="store_true", help="write down which test noticed each bug")
    parser.add_argument("--limit", type=float, default=600.0, metavar="S", help="seconds for one bug (default: 600)")
    words = parser.parse_args(args)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # so that no test goes on behind it
    if words.list:
        for bug in BUGS:
            print(f"{bug.name:40} {bug.part:16} {bug.promise}")
        return 0
    bugs, noticed_by, verdicts = _chosen(words), known(), dict[str, Verdict]()
    if words.pick:
        print(f"drawn by commit {COMMIT[:8] or '(none)'}: {', '.join(bug.name for bug in bugs)}", flush=True)
    with tempfile.TemporaryDirectory(prefix="indelible-mutants-") as folder:
        runner = Runner(Path(folder), words.limit)
        is_known = not (words.guess or words.widen or words.tests)
        straight = {one.name: noticed_by.get(one.name) for one in bugs} if is_known else {}
        tests = sorted({test for test in straight.values() if test})
        unsound = runner.failing(tests) if tests else set()
        for bug in bugs:
            test = straight.get(bug.name)
            if test in unsound:
                verdict = Verdict(f"UNSOUND: {test} fails without a bug")
            else:
                verdict = runner.judged(bug, test, words.tests or _expected(bug, is_wide=words.widen))
            verdicts[bug.name] = verdict
            by = f" by {verdict.by}" if verdict.by else ""
            print(f"{bug.name}: {verdict.word}{by} ({verdict.seconds:.0f} s)", flush=True)
            if words.record and verdict.is_noticed:
                noticed_by = {**known(), bug.name: verdict.by}
                NOTICED_BY.write_text(json.dumps(noticed_by, indent=2, sort_keys=True) + "\n")
    _say(bugs, verdicts)
    return 0 if all(verdict.is_noticed for verdict in verdicts.values()) else 1


def _expected(bug: Bug, *, is_wide: bool) -> list[str]:
    more = [file for file in importers(bug) if file not in bug.tests] if is_wide else []
    return sorted([*bug.tests, *more], key=lambda test: not test.startswith("tests/core/"))  # those are quick


def _say(bugs: Sequence[Bug], verdicts: dict[str, Verdict]) -> None:
    parts = Counter(bug.part for bug in bugs)
    noticed = Counter(bug.part for bug in bugs if verdicts[bug.name].is_noticed)
    print("\n| part | planted | noticed |\n| --- | --- | --- |")
    for part, count in parts.items():
        print(f"| {part} | {count} | {noticed[part]} |")
    print(f"| all | {len(bugs)} | {sum(noticed.values())} |")
    for bug in bugs:
        if not verdicts[bug.name].is_noticed:
            print(f"{verdicts[bug.name].word}: {bug.name}. {bug.promise}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
