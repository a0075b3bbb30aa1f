"""Does what a page says, from top to bottom, in an empty folder, as somebody who reads it for the first time."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.docs.pages import Block, Typed, blocks, named, typed
from tests.docs.terminal import Terminal

# The only lines of all pages that nobody types here, by how they begin, and why.
EXCUSED = {
    "pip install": "whoever made this environment has installed it; tests/test_release.py installs the wheel",
    "indelible demo": "tests/cli/test_demo.py plays it",
    "./run demo": "tests/cli/test_demo.py plays it, and compares the README with it",
    "./run test": "it would run itself",
    "indelible conformance": "it takes minutes; tests/integrations/test_conformance.py plays the same cases",
    "python3 -m venv /opt/": "it installs into the machine; tests/test_deploy.py reads what is installed",
    "useradd": "it changes the machine",
    "install -D -m 600 /dev/stdin /etc/": "it changes the machine",
    "cp deploy/indelible.service": "it changes the machine",
    "docker": "there is no container engine where this is tested",
}
# What a reader copies from what was printed: the page's own, and the newest of the same shape.
_COPIED = [
    *((rf"\b{kind}_[0-9a-f]+…", rf"\b{kind}_[0-9a-f]{{12,}}") for kind in ("apr", "eff", "dlg", "grt", "hold")),
    (r"--digest [0-9a-f]+", r"--digest [0-9a-f]+"),
    (r"(?<=keys revoke )[0-9a-f]{16}", r"\b[0-9a-f]{16}(?= +retired)"),
    (r"\bledger-[^\s'+]*\+[^\s']+", r"\bledger-[0-9a-f]+/default\+[0-9a-f]+\+[^\s']+"),
]
# What is another one each time, and of which a page shows one.
_VARIES = [
    r"\bind\.\S+…",
    r"\bledger-[0-9a-f]{12}\b",
    r"\+[0-9a-f]{8}\+[A-Za-z0-9+/]{40,}=*",
    r"\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}Z",
    r"\b[a-z]{3}_[0-9a-f]+…",
    r"(?:\b|(?<=_))[0-9a-f]{8}\b",
    r"\bprocess \d+",
    r"\b\d+ (?:events under|entries were)\b",
    r"\b(?:entry|size|has) \d+\b",
    r"\b\d+\.\d s\b",
]
_NOTHING = re.compile(r'Shown: 0 \w+|"effects":\[\]|\b0 payloads|No messages')


@dataclass(slots=True, kw_only=True)
class Reader:
    """Writes the files that a page names and types its commands; raises where the answer is another one.

    In a page's answers `…` stands for anything within a line, and a line of `…` alone for any lines. `meant` gives a
    command with what stands here for the page's made-up addresses; `codes` has the exit codes of commands of which the
    page says that they do not end well; `says` has what is in the answers of some, though the page does not show it.
    """

    terminal: Terminal
    meant: Callable[[str], str] = str
    codes: dict[str, int] = field(default_factory=dict)
    says: dict[str, str] = field(default_factory=dict)
    printed: list[str] = field(default_factory=list)
    typed_characters: int = 0

    def follow(self, page: Path) -> None:
        """Follows the whole page."""
        for block in blocks(page):
            if block.not_run is None:
                self.do(block, where=named(page))

    def do(self, block: Block, *, where: str) -> None:
        """Follows one block: saves a file that has a title, types commands."""
        if block.title is not None:
            (self.terminal.folder / block.title).write_text(block.text, encoding="utf-8")
            self.typed_characters += len(block.text)
        elif block.kind == "console":
            for command in typed(block):
                self.type(command, where=where)

    def type(self, one: Typed, *, where: str) -> None:
        """Types one command and compares its answer."""
        self.typed_characters += len(one.command)
        if excused(one.command):
            return
        code, said = self.terminal.run(self._filled_in(one.command), lines=len(one.answer) or 1)
        said = "".join(line for line in said.splitlines(keepends=True) if not _is_by_the_way(line))
        self.printed.append(said)
        if fault := self._fault(one, code, said):
            shown = "\n".join(one.answer)
            raise AssertionError(
                f"{where}:{one.line}: {one.command}: {fault}\n--- the page says\n{shown}\n--- it says\n{said}"
            )

    def _fault(self, one: Typed, code: int, said: str) -> str | None:
        """What is wrong with how a command ended."""
        is_ours = one.command.startswith("indelible")
        if code != self.codes.get(one.command, 0) and (is_ours or not one.answer):
            return f"it ends with {code}"
        if one.answer and not answers(said, one.answer):
            return "it answers something else"
        if nothing := _NOTHING.search(said):
            return f"{nothing[0]!r}: there has to be something, or it proves little"
        missing = [text for beginning, text in self.says.items() if beginning in one.command and text not in said]
        return f"it does not say {missing}" if missing else None

    def _filled_in(self, command: str) -> str:
        """Gives the command with what was printed last in the place of the page's own ids, digests and keys."""
        filled, everything = self.meant(command), "\n".join(self.printed)
        for written, shape in _COPIED:
            found = re.search(written, command)
            if found and found[0] in filled:
                seen = re.findall(shape, everything)
                assert seen, f"nothing printed so far can be copied into: {command}"
                filled = filled.replace(found[0], seen[-1])
        return filled


def excused(command: str) -> str | None:
    """Why nobody types this here, if nobody does."""
    return next((why for beginning, why in EXCUSED.items() if command.startswith(beginning)), None)


def answers(said: str, promised: tuple[str, ...]) -> bool:
    """Whether a program said what the page promises. Spaces count as one; a single long line may be broken."""
    lines = said.strip().splitlines()
    if len(lines) == 1:
        promised = (" ".join(promised),)
    patterns = [_pattern(_evened(line)) + r"\n" for line in promised]
    pattern = "".join(r"(?:.*\n)*" if one == r".*\n" else one for one in patterns)
    return re.fullmatch(pattern, "".join(_evened(line) + "\n" for line in lines)) is not None


def _pattern(line: str) -> str:
    """What a line has to look like that the page shows an example of."""
    for shape in _VARIES:
        if found := re.search(shape, line):
            fits = shape.replace("…", r"\S*")
            return _pattern(line[: found.start()]) + fits + _pattern(line[found.end() :])
    return re.escape(line).replace("…", ".*")


def _evened(line: str) -> str:
    return " ".join(line.split())


def _is_by_the_way(line: str) -> bool:
    """Two lines that no page shows: what a shell says of a process that was killed, and where a new key lies."""
    return " Killed " in line or line.startswith("made the key that signs")
