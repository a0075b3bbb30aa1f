"""`python -m tests.docs.newcomer`: how long the way from the README to a verified bundle takes somebody who is new.

It does the steps of docs/tutorial.md up to the bundle in an empty folder and adds up: words to read (at 230 a minute),
characters to type (at 200 a minute; files are copied and pasted, ten seconds each), and what the machine takes.
Installing is not counted.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from tests.docs.following import Reader
from tests.docs.pages import DOCS, ROOT, blocks
from tests.docs.terminal import Terminal

_WORDS_A_MINUTE = 230
_CHARACTERS_A_MINUTE = 200
_SECONDS_A_PASTE = 10


def main() -> int:
    """Prints what each part takes, in seconds; 1 when it is five minutes or more."""
    intro = (ROOT / "README.md").read_text(encoding="utf-8").split("\n## ", 1)[0]
    page = DOCS / "tutorial.md"
    way, _, _ = page.read_text(encoding="utf-8").partition("That was the whole way")
    steps = [block for block in blocks(page) if block.line <= way.count("\n")]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "new"
        folder.mkdir()
        reader = Reader(terminal=Terminal(folder=folder, is_hurried=False))
        began = time.monotonic()
        for block in steps:
            reader.do(block, where="docs/tutorial.md")
        machine = time.monotonic() - began
    files = [block for block in steps if block.title is not None]
    typed = reader.typed_characters - sum(len(block.text) for block in files)
    words = len(intro.split()) + len(way.split())
    parts = {
        f"reading {words} words (the README's beginning, the tutorial up to there, code included)": words
        / _WORDS_A_MINUTE
        * 60,
        f"typing {typed} characters": typed / _CHARACTERS_A_MINUTE * 60,
        f"pasting {len(files)} files": len(files) * _SECONDS_A_PASTE,
        "waiting for the machine": machine,
    }
    for what, seconds in parts.items():
        print(f"{seconds:6.0f} s  {what}")
    total = sum(parts.values())
    print(f"{total:6.0f} s  in all: {total / 60:.1f} minutes")
    return int(total >= 300)


if __name__ == "__main__":
    sys.exit(main())
