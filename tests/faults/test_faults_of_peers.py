"""What verifiers, callbacks, files, servers and logs of peers got wrong, through our own doors."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from indelible import Ledger, ToolCall, migrate
from indelible.journal.exports.exporting import export
from indelible.stores import is_postgres
from tests.cli.conftest import Cli, cli
from tests.cli.test_serve import serving
from tests.journal.test_verify_live import pinned_key

__all__ = ["cli"]


def note(number: int, run: str = "r") -> ToolCall:
    return ToolCall(tool="note", args={"n": number}, run_id=run)


# 31: a verifier says valid, or its command ends with 0.


def exported(url: str, folder: Path) -> tuple[Path, str]:
    """Return the lines of a ledger that was sealed, and its key."""
    migrate(url, keys=folder / "keys")
    with Ledger.open(url, keys=folder / "keys", seal=False) as ledger:
        for number in range(4):
            ledger.run(note(number), lambda effect: "done")
        ledger.seal()
        store = ledger._engine.store
        export(store, "default", folder / "lines.ndjson", form="ndjson")
        return folder / "lines.ndjson", pinned_key(store)


def _with_member(line: bytes) -> bytes:
    return json.dumps({**json.loads(line), "by": "root"}).encode() + b"\n"


FORGED: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    "a tail cut off": lambda lines: lines[:-3],
    "half of a tail": lambda lines: [*lines[:-1], lines[-1][:-20]],
    "an empty file": lambda lines: [],
    "a member that is not signed": lambda lines: [_with_member(lines[0]), *lines[1:]],
    "an edit": lambda lines: [line.replace(b'"note"', b'"nota"') for line in lines],
}


@pytest.mark.parametrize("forged", [*FORGED, "a missing file", "another signer"])
def test_31_verify_takes_nothing_else_for_the_record_and_its_exit_code_says_so(
    store_url: str, tmp_path: Path, cli: Cli, forged: str, sqlite_url: str
) -> None:
    lines, key = exported(store_url, tmp_path)
    assert cli("verify", str(lines), "--key", key, "--json").json["verdict"] == "verified"
    other = tmp_path / "other.ndjson"
    if forged == "another signer":
        (tmp_path / "thief").mkdir()
        other, _ = exported(f"sqlite:///{tmp_path}/thief/own.db", tmp_path / "thief")
    elif forged != "a missing file":
        changed = FORGED[forged](lines.read_bytes().splitlines(keepends=True))
        other.write_bytes(b"".join(changed))
        assert other.read_bytes() != lines.read_bytes()
    assert cli("verify", str(other), "--key", key, code=None).code != 0


# 32: callbacks that lose what they were told, hang at the end, or show what they hide.

_TELLS = """
import asyncio, sys
from datetime import datetime, timezone
from langchain_core.language_models import FakeListLLM
from langchain_core.tools import tool
from indelible import Ledger
from indelible.integrations.langchain_callbacks import CallbackConfig, LedgerCallbackHandler
url, spool, count = sys.argv[1], sys.argv[2], int(sys.argv[3])

@tool
def when(secret: str) -> datetime:
    "Tells the time."
    return datetime(2026, 1, 1, tzinfo=timezone.utc)

async def main():
    handler = LedgerCallbackHandler(Ledger.open(url), config=CallbackConfig(session_id="s", spool=spool))
    model = FakeListLLM(responses=["four"])
    await asyncio.gather(*(model.ainvoke(f"q{number}", config={"callbacks": [handler]}) for number in range(count)))
    await when.ainvoke({"secret": "CANARY"}, config={"callbacks": [handler]})
    if len(sys.argv) > 4:
        handler.stop()

asyncio.run(main())
"""


@pytest.mark.parametrize("stops", [[], ["stop"]], ids=["left open", "stopped"])
def test_32_a_process_that_ends_has_recorded_every_callback_and_shows_no_arguments(
    store_url: str, tmp_path: Path, stops: list[str]
) -> None:
    migrate(store_url)
    words = [sys.executable, "-c", _TELLS, store_url, str(tmp_path / "spool"), "300", *stops]
    done = subprocess.run(words, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    told: list[Any] = []
    with Ledger.open(store_url) as ledger:
        ledger.seal()
        ledger.run_story("s", each=told.append)
        assert ledger.verify_run("s").is_valid
    types = [one.type.removeprefix("callback.") for one in told]
    assert types.count("model_invoked") == 300
    assert "tool_called" in types or "tool_invoked" in types, set(types)
    asked = [one.payload["prompt_sha256"] for one in told if one.type.endswith("model_invoked")]
    assert len(set(asked)) == 300, "each with the hash of its own question"
    assert "CANARY" not in repr(told)


# 33: a torn end, and two writers.

_WRITES = """
import os, sys
from indelible import Ledger, ToolCall
with Ledger.open(sys.argv[1], seal=False) as ledger:
    for number in range(int(sys.argv[3])):
        ledger.run(ToolCall(tool="note", args={"n": number}, run_id=sys.argv[2]), lambda effect: "done")
        print(number, flush=True)
    if len(sys.argv) > 4:
        os.kill(os.getpid(), 9)
"""


def test_33_two_writers_and_a_torn_end_leave_a_ledger_that_opens_with_all_that_was_acknowledged(
    store_url: str,
) -> None:
    migrate(store_url)
    command = [sys.executable, "-c", _WRITES, store_url]
    with (
        subprocess.Popen([*command, "one", "30"], stdout=subprocess.PIPE) as one,
        subprocess.Popen([*command, "two", "30", "killed"], stdout=subprocess.PIPE) as two,
    ):
        said = [process.communicate(timeout=100)[0].split() for process in (one, two)]
    assert [len(each) for each in said] == [30, 30]
    if not is_postgres(store_url):
        log = Path(store_url.removeprefix("sqlite:///") + "-wal")
        if log.exists():  # the writer that ended last may have folded it in
            with log.open("ab") as torn:
                torn.write(b"\x37\x7f\x06\x82" + bytes(999))  # as a power cut leaves the frame that was being written
    with Ledger.open(store_url, seal=False) as ledger:
        for run in ("one", "two"):
            for number in range(30):
                assert ledger.run(note(number, run), lambda effect: "again") == "done"


# 34: a server that strangers reach.


def _listening(port: int) -> Iterator[str]:
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        address, state = line.split()[1], line.split()[3]
        if state == "0A" and int(address.partition(":")[2], 16) == port:
            yield address.partition(":")[0]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc/net/tcp")
def test_34_a_server_listens_on_this_machine_alone_unless_it_is_told_otherwise(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INDELIBLE_URL", sqlite_url)
    migrate(sqlite_url)
    with serving() as (url, _):
        assert list(_listening(int(url.rpartition(":")[2]))) == ["0100007F"]


# 35: a reader that follows the log by a cursor.


def test_35_who_follows_the_journal_by_a_cursor_while_many_write_misses_nothing(store_url: str) -> None:
    migrate(store_url)
    seen: list[tuple[str, int]] = []
    with Ledger.open(store_url, seal=False) as ledger, Ledger.open(store_url, seal=False) as other:
        journal, is_over = ledger._engine.store.journal, threading.Event()

        def write(run: str) -> None:
            for number in range(40):
                (ledger if number % 2 else other).run(note(number, run), lambda effect: "done")

        def follow() -> None:
            after = 0
            while True:
                was_over = is_over.is_set()
                journal.integrate("default", 7)
                page = journal.entries("default", after, 100)
                seen.extend((entry.run_id, entry.seq) for entry in page)
                after += len(page)
                if was_over and not page:
                    return

        writers = [threading.Thread(target=write, args=(f"w{number}",)) for number in range(4)]
        reader = threading.Thread(target=follow)
        for thread in (*writers, reader):
            thread.start()
        for thread in writers:
            thread.join()
        is_over.set()
        reader.join()
        written = [(event.run_id, event.seq) for run in range(4) for event in ledger.events(f"w{run}")]
    assert len(written) == 4 * 40 * 2
    assert sorted(one for one in seen if one[0].startswith("w")) == sorted(written)
