"""`indelible witness`: a key, a witness that serves, and asking one by hand."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from indelible.core.journal.notes import parse_note, parse_vkey
from indelible.core.journal.tiles import grow, tile_path
from tests.cli.conftest import Cli
from tests.journal.watched import LOG, Log, Running, post, running


@pytest.fixture
def witness(tmp_path: Path) -> Iterator[Running]:
    with running(tmp_path / "w") as one:
        yield one


def head_file(log: Log, folder: Path) -> str:
    path = folder / f"head-{len(log.leaves)}"
    path.write_text(str(log.note), encoding="utf-8")
    return str(path)


def exported(log: Log, folder: Path) -> Path:
    """Writes a log's tiles as an export does."""
    for (level, number), tile in grow(0, log.leaves, lambda level, number: b"").tiles.items():
        path = folder / tile_path(level, number, len(tile) // 32)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(tile)
    return folder


# ── key ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_key_is_made_on_first_use_and_printed_alone(cli: Cli, tmp_path: Path) -> None:
    said = cli("witness", "key", "--key-file", "w.pem", "--name", "witness.example/1")
    assert parse_vkey(said.out).name == "witness.example/1"
    assert "made w.pem" in said.err
    assert (tmp_path / "w.pem").stat().st_mode & 0o777 == 0o600
    again = cli("witness", "key", "--key-file", "w.pem")
    assert (again.out, again.err) == (said.out, "")
    assert cli("witness", "key", "--key-file", "w.pem", "--json").json == {
        "vkey": said.out.strip(),
        "name": "witness.example/1",
        "file": "w.pem",
        "is_new": False,
    }


def test_a_key_that_cannot_be_used_is_explained(cli: Cli, tmp_path: Path) -> None:
    assert "cannot name a key" in cli("witness", "key", "--key-file", "w.pem", "--name", "no spaces", code=2).err
    (tmp_path / "w.pem").write_text("torn")
    (tmp_path / "w.pem").chmod(0o644)
    assert "chmod 600" in cli("witness", "key", "--key-file", "w.pem", code=1).err


# ── ask ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_asking_prints_the_head_with_its_cosignature(cli: Cli, tmp_path: Path, witness: Running) -> None:
    words = ["witness", "ask", "--url", witness.url, "--key", witness.key.public.vkey, "--head"]
    said = cli(*words, head_file(Log().to(5), tmp_path))
    note = parse_note(said.out)
    assert note.text == Log().to(5).head.text
    assert note.signed_by(LOG)
    assert note.cosigned_by(witness.key.public)
    (tmp_path / "cosigned").write_text(said.out, encoding="utf-8")
    told = cli(*words, str(tmp_path / "cosigned"), "--json").json
    assert len(parse_note(told["note"]).signatures) == 2
    assert (told["size"], told["witness"]) == (5, witness.key.public.name)


def test_growth_is_proved_from_an_export(cli: Cli, tmp_path: Path, witness: Running) -> None:
    log = Log().to(700)
    witness.post(log.to(300).request(0))
    words = ["witness", "ask", "--url", witness.url, "--key", witness.key.public.vkey]
    words += ["--head", head_file(log, tmp_path)]
    assert "--tree" in cli(*words, code=2).err
    (tmp_path / "empty").mkdir()
    assert "is it an export of this journal?" in cli(*words, "--tree", str(tmp_path / "empty"), code=2).err
    said = cli(*words, "--tree", str(exported(log, tmp_path / "export")))
    assert parse_note(said.out).cosigned_by(witness.key.public)


def test_a_witness_that_saw_another_history_says_no(cli: Cli, tmp_path: Path, witness: Running) -> None:
    witness.post(Log().to(4).grown("fork").request(0))
    words = ["witness", "ask", "--url", witness.url, "--key", witness.key.public.vkey]
    said = cli(*words, "--head", head_file(Log().to(5), tmp_path), "--json", code=1)
    assert (said.error["type"], said.error["exit_code"]) == ("WitnessRefused", 1)
    assert "another history" in said.error["message"]
    assert "5 entries" in cli(*words, "--head", head_file(Log().to(3), tmp_path), code=1).err


def test_who_cannot_be_asked_leaves_the_question_open(cli: Cli, tmp_path: Path, witness: Running) -> None:
    head, vkey = head_file(Log().to(5), tmp_path), witness.key.public.vkey
    other = vkey_of(cli, "other.pem")
    assert (
        "no cosignature by" in cli("witness", "ask", "--head", head, "--url", witness.url, "--key", other, code=2).err
    )
    assert cli("witness", "ask", "--head", head, "--url", "http://127.0.0.1:9", "--key", vkey, code=2).err
    for words in (
        ["--head", head, "--url", "http://witness.example", "--key", vkey],
        ["--head", head, "--url", witness.url, "--key", LOG.vkey],
        ["--head", head, "--url", witness.url, "--key", vkey[:-2]],
        ["--head", str(tmp_path / "other.pem"), "--url", witness.url, "--key", vkey],
        ["--head", str(tmp_path / "none"), "--url", witness.url, "--key", vkey],
    ):
        assert "see: indelible witness ask --help" in cli("witness", "ask", *words, code=2).err


# ── serve ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def vkey_of(cli: Cli, file: str) -> str:
    return cli("witness", "key", "--key-file", file).out.strip()


@contextmanager
def served(folder: Path, *words: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, str]]]:
    program = [sys.executable, "-m", "indelible.cli", "witness", "serve", "--port", "0", "--log", LOG.vkey]
    program += ["--key-file", str(folder / "w.pem"), "--state", str(folder / "state"), "--json", *words]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            text = "".join(iter(process.stdout.readline, "}\n"))
            yield process, json.loads(text + "}")
        finally:
            process.kill()


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_served_witness_cosigns_remembers_and_stops(cli: Cli, tmp_path: Path, end: int) -> None:
    vkey = vkey_of(cli, "w.pem")
    with served(tmp_path) as (process, told):
        assert (told["vkey"], told["logs"]) == (vkey, [LOG.name])
        assert told["url"].startswith("http://127.0.0.1:")
        assert post(told["url"], Log().to(5).request(0))[0] == 200
        assert post(told["url"], Log().to(4).grown("fork").request(5))[0] == 422
        os.kill(process.pid, end)
        _, err = process.communicate(timeout=200)
        assert process.returncode == (-signal.SIGKILL if end == signal.SIGKILL else 0)
        assert "signed two histories" in err
        assert "put a server with TLS in front" not in err
        assert "Traceback" not in err
    with served(tmp_path) as (_, told):
        assert post(told["url"], Log().to(3).request(0)) == (409, b"5\n")


def test_a_second_witness_with_the_same_key_does_not_start(cli: Cli, tmp_path: Path) -> None:
    vkey_of(cli, "w.pem")
    words = ["witness", "serve", "--key-file", "w.pem", "--state", "elsewhere", "--port", "0", "--log", LOG.vkey]
    with served(tmp_path):
        assert "another witness signs with" in cli(*words, code=1).err


def test_listening_to_everybody_is_said(cli: Cli, tmp_path: Path) -> None:
    vkey_of(cli, "w.pem")
    with served(tmp_path, "--host", "0.0.0.0") as (process, told):
        assert told["url"].startswith("http://0.0.0.0:")
        process.terminate()
        assert "put a server with TLS in front" in process.communicate(timeout=200)[1]


def test_what_cannot_be_served_is_explained(cli: Cli, tmp_path: Path) -> None:
    words = ["witness", "serve", "--state", "state", "--port", "0", "--key-file", "w.pem", "--log"]
    assert "indelible witness key" in cli(*words, LOG.vkey, code=1).err
    vkey = vkey_of(cli, "w.pem")
    assert "not of a log" in cli(*words, vkey, code=2).err
    assert "see: indelible witness serve --help" in cli(*words, "nonsense", code=2).err
    assert "--log" in cli(*words[:-1], code=2).err


def test_torn_state_stops_a_witness_before_it_listens(cli: Cli, tmp_path: Path) -> None:
    vkey_of(cli, "w.pem")
    with served(tmp_path) as (_, told):
        assert post(told["url"], Log().to(5).request(0))[0] == 200
    (path,) = (tmp_path / "state").glob("*.head")
    path.write_bytes(path.read_bytes()[:-10])
    words = ["witness", "serve", "--key-file", "w.pem", "--state", "state", "--port", "0", "--log", LOG.vkey]
    assert "start over as another witness" in cli(*words, code=1).err
