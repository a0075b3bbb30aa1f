"""Lets a verifier judge the vectors: ours, or any command that takes `--key KEY … [--after FILE …] PATH`."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from indelible.core.verifying.findings import Verdict
from indelible.journal.evidence.verification import verify
from indelible.testing.record.vectors import Form, Vector, vectors

FORMS: tuple[Form, ...] = ("bundle", "zip", "ndjson")
_VERDICTS: dict[int, Verdict] = {0: "verified", 1: "tampered", 2: "cannot_tell"}
_SECONDS = 60

Judge = Callable[[Vector, Path], str]


@dataclass(frozen=True, slots=True)
class Judged:
    """Is what a verifier said of one vector in one form."""

    name: str
    form: Form
    expected: Verdict
    found: str

    @property
    def is_right(self) -> bool:
        """Say whether it gave the verdict that every verifier has to give."""
        return self.expected == self.found


def our_own(vector: Vector, path: Path) -> str:
    """Return the verdict of this library."""
    return verify(path, vector.keys, after=vector.after).verdict


def by_command(command: str) -> Judge:
    """Return a judge that runs a command and reads its exit code: 0 verified, 1 tampered, 2 cannot tell."""

    def judge(vector: Vector, path: Path) -> str:
        words = [*shlex.split(command), *(word for key in vector.keys for word in ("--key", key))]
        for number, note in enumerate(vector.after):
            kept = path.parent / f"kept-{number}"
            kept.write_text(note, encoding="utf-8")
            words += ["--after", str(kept)]
        try:
            words.append(str(path))
            code = subprocess.run(words, capture_output=True, check=False, timeout=_SECONDS).returncode  # noqa: S603
        except subprocess.TimeoutExpired:
            return f"nothing within {_SECONDS} s"
        return _VERDICTS.get(code, f"exit code {code}")

    return judge


def judged(judge: Judge, forms: Sequence[Form] = FORMS, *, with_votes: bool = True) -> Iterator[Judged]:
    """Give what a verifier says of every vector, in every form that it reads."""
    with tempfile.TemporaryDirectory(prefix="indelible-vectors-") as root:

        def one(place: tuple[int, Vector, Form]) -> Judged:
            number, vector, form = place
            folder = Path(root, str(number))
            folder.mkdir()
            return Judged(vector.name, form, vector.expected[form], judge(vector, vector.written(form, folder)))

        chosen = [
            (vector, form)
            for vector in vectors()
            for form in forms
            if form in vector.expected and (with_votes or not vector.counts_votes)
        ]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            yield from pool.map(one, [(number, *place) for number, place in enumerate(chosen)])
