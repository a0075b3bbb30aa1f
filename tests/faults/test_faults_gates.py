"""Gates open ledgers that are there, and block what they cannot judge: whatever becomes of a hook's streams.

The numbers are those of the faults that were found.
"""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from indelible import AsyncLedger, Ledger, instrument, migrate
from indelible.errors import Misconfigured
from tests.waiting import PATIENCE

INDELIBLE = (sys.executable, "-m", "indelible.cli")
BLOCKS = 2  # of all exit codes, this one alone stops a tool of Claude Code's


def event(kind: str = "PreToolUse", use: str = "toolu_1", **more: Any) -> dict[str, Any]:
    told = {"session_id": "s1", "hook_event_name": kind, "tool_name": "Bash", "tool_use_id": use}
    return {**told, "tool_input": {"command": "git push"}, **more}


def hooked(
    url: str, folder: Path, *options: str, given: str | None = None, shell: str = "", **more: str
) -> subprocess.CompletedProcess[str]:
    """Run the hook as Claude Code does; `shell` redirects its streams."""
    environment = {**os.environ, "INDELIBLE_CLAIMS": str(folder / "claims"), "INDELIBLE_URL": url, **more}
    command: list[str] = [*INDELIBLE, "hook", "claude-code", *options]
    if shell:
        command = ["bash", "-c", f'"$@" {shell}', "bash", *command]
    text = json.dumps(event()) if given is None else given
    return subprocess.run(
        command, input=text, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE, cwd=folder
    )


def statuses(url: str) -> list[str]:
    with Ledger.open(url, seal=False) as ledger:
        return [effect.status for effect in ledger.effects()]


@pytest.mark.parametrize(
    "address", ["sqlite:///{}/misspelt.db", "sqlite:///{}/no/such/folder/l.db", "{}/no-scheme.db", ":memory:"]
)
def test_90_a_gate_makes_no_ledger_where_there_is_none(address: str, tmp_path: Path) -> None:
    url = address.format(tmp_path)
    ran = hooked(url, tmp_path)
    assert (ran.returncode, ran.stdout) == (BLOCKS, "")
    proxied = subprocess.run(
        [*INDELIBLE, "mcp", "proxy", "--url", url, "--", sys.executable, "-c", ""],
        input="", capture_output=True, text=True, check=False, timeout=PATIENCE, cwd=tmp_path,
    )  # fmt: skip
    served = subprocess.run(
        [*INDELIBLE, "mcp", "serve", "--url", url],
        input="", capture_output=True, text=True, check=False, timeout=PATIENCE, cwd=tmp_path,
    )  # fmt: skip
    assert (proxied.returncode, served.returncode) == (2, 2)
    for said in (ran.stderr, proxied.stderr, served.stderr):
        assert "Traceback" not in said
        assert "--url" in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"no database at all, by its first bytes"])
def test_90_a_file_that_holds_no_ledger_blocks_and_stays_as_it_is(content: bytes, tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    other.write_bytes(content)
    assert hooked(f"sqlite:///{other}", tmp_path).returncode == BLOCKS
    assert other.read_bytes() == content


def test_90_without_an_address_the_project_needs_a_ledger(tmp_path: Path) -> None:
    ran = hooked("", tmp_path, CLAUDE_PROJECT_DIR=str(tmp_path))
    assert ran.returncode == BLOCKS
    assert not (tmp_path / ".indelible").exists()


async def _open(url: str) -> None:
    async with AsyncLedger.open(url, create=False):
        pass


@pytest.mark.anyio
async def test_90_open_says_whether_a_ledger_may_be_begun(tmp_path: Path, store_url: str) -> None:
    for address in (f"sqlite:///{tmp_path}/none.db", f"sqlite:///{tmp_path}/none/l.db", ":memory:"):
        with pytest.raises(Misconfigured, match="no ledger"):
            Ledger.open(address, create=False)
        with pytest.raises(Misconfigured, match="no ledger"):
            await _open(address)
    assert list(tmp_path.iterdir()) == []
    migrate(store_url)
    Ledger.open(store_url, create=False).close()
    await _open(store_url)


def test_90_instrument_by_the_environment_needs_a_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("INDELIBLE_URL", f"sqlite:///{tmp_path}/misspelt.db")
    with pytest.raises(Misconfigured, match="no ledger"):
        instrument()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("given", "shell"),
    [
        ("", ""),
        ("[]", ""),
        ("{}", ""),
        (None, "0<&-"),
        ("{", "2>&-"),
        (None, "0<&- 1>&- 2>&-"),
    ],
)
def test_96_a_hook_that_cannot_read_blocks(given: str | None, shell: str, sqlite_url: str, tmp_path: Path) -> None:
    migrate(sqlite_url)
    assert hooked(sqlite_url, tmp_path, given=given, shell=shell).returncode == BLOCKS
    assert statuses(sqlite_url) == []


@pytest.mark.parametrize(
    ("options", "shell"),
    [(("--approval", "required"), "1>&-"), (("--allow",), "1>/dev/full"), (("--allow",), "1>&- 2>&-"), ((), "1>&-")],
)
def test_96_a_hook_whose_answer_cannot_be_told_blocks(
    options: tuple[str, ...], shell: str, store_url: str, tmp_path: Path
) -> None:
    """A call that was let in and could not be told so does not run: nothing happened."""
    migrate(store_url)
    ran = hooked(store_url, tmp_path, *options, shell=shell)
    assert ran.returncode == BLOCKS
    assert "Traceback" not in ran.stderr
    is_let_in = "required" not in options
    assert statuses(store_url) == (["ready"] if is_let_in else ["requires_approval"])
    if is_let_in:
        assert hooked(store_url, tmp_path, *options).returncode == 0
        assert statuses(store_url) == ["processing"]


def test_96_a_reader_that_is_gone_blocks(sqlite_url: str, tmp_path: Path) -> None:
    """The pipe is closed before the hook begins, whether or not SIGPIPE is ignored."""
    migrate(sqlite_url)
    for ignored in (True, False):
        reading, writing = os.pipe()
        os.close(reading)
        ran = subprocess.run(
            [*INDELIBLE, "hook", "claude-code", "--approval", "required"],
            input=json.dumps(event()), stdout=writing, stderr=subprocess.PIPE, text=True, check=False,
            env={**os.environ, "INDELIBLE_CLAIMS": str(tmp_path / "claims"), "INDELIBLE_URL": sqlite_url},
            restore_signals=not ignored, timeout=PATIENCE,
        )  # fmt: skip
        os.close(writing)
        assert ran.returncode == BLOCKS, ran.stderr


@pytest.mark.parametrize(
    ("options", "more"),
    [
        (("--terms", "missing.toml"), {}),
        (("--no-such-option",), {}),
        ((), {"CLAUDE_PROJECT_DIR": "/no/such/folder"}),
        ((), {"INDELIBLE_URL": "mongodb://x"}),
        ((), {"INDELIBLE_CLAIMS": "/dev/null/claims"}),
        ((), {"PYTHONPATH": "{}/broken"}),
    ],
)
def test_96_whatever_is_wrong_before_the_event_is_read_blocks(
    options: tuple[str, ...], more: dict[str, str], sqlite_url: str, tmp_path: Path
) -> None:
    migrate(sqlite_url)
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "apsw.py").write_text("raise ImportError('broken')\n")
    more = {name: value.format(tmp_path) for name, value in more.items()}
    assert hooked(sqlite_url, tmp_path, *options, **more).returncode == BLOCKS
    assert statuses(sqlite_url) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_96_a_hook_that_is_ended_while_it_reads_blocks(number: signal.Signals, sqlite_url: str, tmp_path: Path) -> None:
    migrate(sqlite_url)
    with subprocess.Popen(
        [sys.executable, "-c", _SAYS_WHEN_IT_READS],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "INDELIBLE_URL": sqlite_url, "INDELIBLE_CLAIMS": str(tmp_path / "claims")},
    ) as hook:  # fmt: skip
        assert hook.stderr is not None
        assert hook.stderr.readline() == b"reading\n"
        hook.send_signal(number)
        assert hook.wait(PATIENCE) == BLOCKS


_SAYS_WHEN_IT_READS = """
import sys
from indelible.cli import main

class Slow:
    def read(self, *size):
        sys.stderr.write("reading\\n")
        sys.stderr.flush()
        return sys.__stdin__.buffer.read()

class Text:
    buffer = Slow()

sys.stdin = Text()
sys.exit(main(["hook", "claude-code"]))
"""


def test_90_a_ledger_that_cannot_be_written_blocks(sqlite_url: str, tmp_path: Path) -> None:
    migrate(sqlite_url)
    path = Path(sqlite_url.removeprefix("sqlite:///"))
    if os.geteuid() == 0:  # whom no mode stops; a file that is no database does
        path.write_bytes(b"SQLite format 3\0" + b"\xff" * 4096)
    else:
        path.chmod(stat.S_IRUSR)
    assert hooked(sqlite_url, tmp_path).returncode == BLOCKS


def test_96_a_model_that_numbers_its_calls_from_zero_runs_each_turns_command(sqlite_url: str, tmp_path: Path) -> None:
    """Its ids tell nothing: in a later prompt, the same command under the same id is another call."""
    from indelible.integrations.claude_code import ClaudeCodeHook

    migrate(sqlite_url)
    with Ledger.open(sqlite_url, seal=False) as ledger:
        for words in ({}, {"side_effect": "payment"}, {"dedupe": "call", "side_effect": "payment"}):
            hook = ClaudeCodeHook(ledger, tmp_path / "claims", run=f"run-{words}", **words)
            for prompt in ("p1", "p2"):
                assert hook.answer(event(use="call_0", prompt_id=prompt)) == {}
                hook.answer(event("PostToolUse", use="call_0", prompt_id=prompt, tool_response="done"))
            assert [one.status for one in ledger.effects(run_id=f"run-{words}")] == ["succeeded"] * 2
