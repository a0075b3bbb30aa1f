"""Does what a page says, from top to bottom, in an empty folder, as somebody who reads it for the first time."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from tests.docs.pages import Block, Typed, blocks, named, typed

# What a reader copies from what was printed: an id by its kind, a digest, a file's name.
_ID = re.compile(r"\b(?P<kind>[a-z]{3})_01a1…")
_DIGEST = re.compile(r"--digest [0-9a-f]+")


@dataclass(slots=True)
class Reader:
    """Writes the files that a page names and types its commands; raises where the answer is another one.

    In a page's answers `…` stands for anything within a line, and a line of `…` alone for any lines.
    """

    folder: Path
    keys: Path
    typed_characters: int = 0
    printed: list[str] = field(default_factory=list)

    def follow(self, page: Path) -> None:
        """Follows the whole page."""
        for block in blocks(page):
            if block.not_run is not None:
                continue
            self.do(block, where=named(page))

    def do(self, block: Block, *, where: str) -> None:
        """Follows one block: saves a file that has a title, types commands."""
        if block.title is not None:
            (self.folder / block.title).write_text(block.text, encoding="utf-8")
            self.typed_characters += len(block.text)
        elif block.kind == "console":
            for command in typed(block):
                self.type(command, where=where)

    def type(self, one: Typed, *, where: str) -> None:
        """Types one command and compares its answer. Installing is left to whoever made this environment."""
        self.typed_characters += len(one.command)
        if one.command.startswith("pip install"):
            return
        code, said = self._run(self._filled_in(one.command))
        self.printed.append(said)
        holds = _answers(said, one.answer) if one.answer else code == 0
        assert holds, (
            f"{where}:{one.line}: {one.command}\n--- the page says\n" + "\n".join(one.answer) + f"\n--- it says\n{said}"
        )

    def _run(self, command: str) -> tuple[int, str]:
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env={
                "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
                "HOME": str(self.folder),
                "INDELIBLE_KEYS": str(self.keys),
                "NO_COLOR": "1",
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            check=False,
        )
        # Two lines that no page shows: what a shell says of a process that was killed, and where a new key lies.
        lines = [
            line
            for line in done.stdout.splitlines()
            if " Killed " not in line and not line.startswith("made the key that signs")
        ]
        return done.returncode, "\n".join(lines)

    def _filled_in(self, command: str) -> str:
        """The command with the newest id and digest that were printed in the place of the page's own."""
        everything = "\n".join(self.printed)

        def newest(found: re.Match[str]) -> str:
            seen: list[str] = re.findall(rf"\b{found['kind']}_[0-9a-f]{{20,}}", everything)
            assert seen, f"nothing printed so far has an id like {found[0]}"
            return seen[-1]

        digests = re.findall(r"--digest [0-9a-f]+", everything)
        command = _ID.sub(newest, command)
        return _DIGEST.sub(digests[-1], command) if digests else command


def _answers(said: str, promised: tuple[str, ...]) -> bool:
    """Whether a program said what the page promises. Spaces count as one."""
    lines = [re.escape(_evened(line)).replace("…", ".*") + r"\n" for line in promised]
    pattern = "".join(r"(?:.*\n)*" if line == r".*\n" else line for line in lines)
    return re.fullmatch(pattern, "".join(_evened(line) + "\n" for line in said.strip().splitlines())) is not None


def _evened(line: str) -> str:
    return " ".join(line.split())
