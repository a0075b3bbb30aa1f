"""`indelible verify`: the report for people and for programs, and exit codes that a script can trust."""

from __future__ import annotations

from pathlib import Path

import pytest

from indelible import Ledger
from indelible.core.verifying.findings import ATTACKS
from tests.cli.conftest import Cli, call
from tests.cli.test_events import change
from tests.journal.test_verify_live import pinned_key


@pytest.fixture
def key(ids: dict[str, str], ledger_url: str) -> str:
    """Seals the ledger and gives the key that was noted on the first day."""
    with Ledger.open(ledger_url) as ledger:
        ledger.seal()
        return pinned_key(ledger._engine.store)


@pytest.fixture
def bundle(cli: Cli, key: str, tmp_path: Path) -> Path:
    cli("export", "bundle", "--out", str(tmp_path / "bundle"))
    return tmp_path / "bundle"


def test_the_ledger_itself_is_verified(cli: Cli, key: str) -> None:
    said = cli("verify", "--key", key)
    assert said.out.startswith("VERIFIED: ")
    assert "Ruled out:\n  - change an entry\n" in said.out
    assert "NOT ruled out:\n" in said.out
    assert "show two histories to two people" in said.out
    assert "valid" not in said.out
    told = cli("verify", "--key", key, "--json").json
    assert (told["verdict"], told["first_bad"], told["kind"]) == ("verified", None, "journal")
    assert set(told["attacks"]) == set(ATTACKS)


@pytest.mark.usefixtures("without_writer_keys")
def test_a_change_in_the_database_is_named(cli: Cli, key: str, ledger_url: str) -> None:
    change(ledger_url, "UPDATE indelible_effects SET status = ? WHERE tool = 'mail.send'", "succeeded")
    said = cli("verify", "--key", key, code=1)
    assert said.out.startswith("TAMPERED: ")
    assert "has another status than its events" in said.out
    told = cli("verify", "--key", key, "--json", code=1).json
    assert told["first_bad"]["expected"] == "failed"
    assert set(told["attacks"].values()) == {"not ruled out"}


def test_without_a_key_nothing_is_verified(cli: Cli, key: str, bundle: Path) -> None:
    for words in ([], [str(bundle)]):
        said = cli("verify", *words, code=2)
        assert said.out.startswith("CANNOT TELL: no key was given")
    assert "keys export-public" in cli("verify", code=2).out
    assert cli("verify", "--json", code=2).json["verdict"] == "cannot_tell"


def test_a_bundle_is_verified_against_a_key_in_a_file(cli: Cli, key: str, bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "key.txt").write_text(key + "\n")
    assert cli("verify", str(bundle), "--key", str(tmp_path / "key.txt"), "--deep", "--fresh", "1h").code == 0
    entries = next((bundle / "tile" / "entries").rglob("[0-9]*[0-9]"))
    entries.write_bytes(entries.read_bytes().replace(b"mail.send", b"mail.sent"))
    said = cli("verify", str(bundle), "--key", key, code=1)
    assert "first bad entry" in said.out
    assert cli("verify", str(bundle), "--key", key, "--no-semantics", code=1).out.startswith("TAMPERED")


def test_up_to_head_verifies_what_is_signed_and_signs_nothing_first(cli: Cli, key: str, ledger_url: str) -> None:
    with Ledger.open(ledger_url, seal=False) as ledger:
        ledger.run(call("more"), lambda effect: 1)
    before = cli("journal", "head").out
    told = cli("verify", "--key", key, "--up-to-head", "--json").json
    assert (told["verdict"], told["tail"]["events"] > 0) == ("verified", True)
    assert cli("journal", "head").out == before
    assert cli("verify", "--key", key, "--json").json["tail"]["events"] == 0
    assert cli("journal", "head").out != before


def test_a_head_that_was_kept_is_continued(cli: Cli, key: str, bundle: Path, tmp_path: Path, ledger_url: str) -> None:
    cli("journal", "head", "--out", str(tmp_path / "head"))
    with Ledger.open(ledger_url) as ledger:
        ledger.run(call("more"), lambda effect: 1)
        ledger.seal()
    said = cli("verify", "--key", key, "--after", str(tmp_path / "head"))
    assert "begins with a head you pinned" in said.out
    assert cli("verify", str(bundle), "--key", key, "--after", str(tmp_path / "head")).code == 0
    cli("journal", "head", "--out", str(tmp_path / "newer"))
    assert "cut off" in cli("verify", str(bundle), "--key", key, "--after", str(tmp_path / "newer"), code=1).out


WRONG = [
    ["--key", "nonsense"],
    ["--key", "a+b+c"],
    ["--fresh", "soon"],
    ["--quorum", "1"],
    ["--after", "nowhere"],
    ["--url", "sqlite:///nowhere.db"],
]


@pytest.mark.parametrize("words", WRONG, ids=" ".join)
def test_wrong_usage_is_told_with_exit_code_2(cli: Cli, words: list[str]) -> None:
    assert cli("verify", *words, code=2).err


@pytest.mark.parametrize("name", ["nowhere", "empty", "text"])
def test_what_cannot_be_verified_is_told_with_exit_code_2(cli: Cli, tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "text").write_text("hello")
    assert cli("verify", str(tmp_path / name), code=2).out.startswith("CANNOT TELL: ")
