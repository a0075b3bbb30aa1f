"""A terminal for whoever follows a page: commands of ours run in this process, which is cheap, others in a shell."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from indelible.cli.root import root
from tests.cli.test_serve import wait_until_it_answers

# What goes on until somebody presses Ctrl-C, and the port at which pages say that it listens; 0 if at none.
ENDLESS = {
    ("serve",): 8787,
    ("worker",): 0,
    ("approvals", "watch"): 0,
    ("channels", "slack-listen"): 8788,
    ("witness", "serve"): 7420,
}
_LISTENS = re.compile(r"http://127\.0\.0\.1:\d+")
_PATIENCE = 200


@dataclass(slots=True, kw_only=True)
class Terminal:
    """Runs one line after the other in one folder. What is exported stays exported."""

    folder: Path
    env: dict[str, str] = field(default_factory=dict)
    is_hurried: bool = True
    """False runs every line in a shell, as it is typed."""

    def __post_init__(self) -> None:
        """Is at home in its folder, so that keys lie where pages say they do."""
        home = {"HOME": str(self.folder), "INDELIBLE_KEYS": str(self.folder / ".indelible" / "keys")}
        self.env = {**home, **self.env}

    def run(self, line: str, *, lines: int = 1) -> tuple[int, str]:
        """Gives the exit code and what is printed. A command that goes on for ever is stopped after so many lines."""
        if exported := re.fullmatch(r"export (\w+)=(.*)", line):
            self.env[exported[1]] = " ".join(shlex.split(exported[2]))
            return 0, ""
        words, file = parsed(line)
        words = [re.sub(r"^~(?=/)", self.env["HOME"], word) for word in words]
        if words[:1] != ["indelible"] or not self.is_hurried:
            return self._in_a_shell(line)
        port = next((port for name, port in ENDLESS.items() if tuple(words[1 : len(name) + 1]) == name), None)
        if port is None or "--once" in words:
            return self._here(words[1:], file)
        return self._for_a_while(words[1:], port, lines)

    def _here(self, words: list[str], file: str | None) -> tuple[int, str]:
        hidden = dict.fromkeys(name for name in os.environ if name.startswith("INDELIBLE_"))
        with contextlib.chdir(self.folder):
            said = CliRunner(env={**hidden, **self.env}).invoke(root, words, catch_exceptions=False)
            if file is None:
                return said.exit_code, said.output
            Path(file).write_text(said.stdout, encoding="utf-8")
            return said.exit_code, said.stderr

    def _in_a_shell(self, line: str) -> tuple[int, str]:
        done = subprocess.run(["bash", "-c", line], timeout=_PATIENCE, check=False, **self._as_a_process())
        return done.returncode, done.stdout

    def _for_a_while(self, words: list[str], port: int, lines: int) -> tuple[int, str]:
        """Presses Ctrl-C when so many lines are there. It listens at any port, which is told as the page's."""
        words += ["--port", "0"] if port else []
        with subprocess.Popen([sys.executable, "-m", "indelible.cli", *words], **self._as_a_process()) as process:
            assert process.stdout is not None
            try:
                said = "".join(process.stdout.readline() for _ in range(lines))
                if words[0] == "serve" and (listens := _LISTENS.search(said)):
                    wait_until_it_answers(listens[0], process)
                process.send_signal(signal.SIGINT)
                rest, _ = process.communicate(timeout=_PATIENCE)
            finally:
                process.kill()
        assert "Traceback" not in rest, rest
        return process.returncode, _LISTENS.sub(f"http://127.0.0.1:{port}", said)

    def _as_a_process(self) -> dict[str, Any]:
        ours = {name: value for name, value in os.environ.items() if not name.startswith("INDELIBLE_")}
        path = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "NO_COLOR": "1"}
        together = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        return {"cwd": self.folder, "env": {**ours, **path, **self.env}, **together}


def parsed(line: str) -> tuple[list[str], str | None]:
    """Gives a line's words and the file that its output goes to; no words, if it takes a shell to understand it."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>()")
    lexer.whitespace_split = True
    words = list(lexer)
    operators = [word for word in words if set(word) <= set("|&;<>()")]
    if "$" in line or set(operators) - {">"}:
        return [], None
    return (words[:-2], words[-1]) if operators else (words, None)
