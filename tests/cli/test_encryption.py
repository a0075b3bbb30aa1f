"""An encrypting ledger on the command line: whoever has the keys sees values in clear; verifying needs none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pytest

from indelible import Ledger, MayHaveHappened
from indelible.errors import KeyUnusable
from tests.cli.conftest import Cli, call, lose
from tests.journal.test_forgetting import _key_of
from tests.stores.database import open_file

CANARY = "CANARY-in-cipher"


@pytest.fixture(autouse=True)
def keys(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of keys for this test alone."""
    folder = tmp_path_factory.mktemp("keys")
    folder.chmod(0o700)
    monkeypatch.setenv("INDELIBLE_KEYS", str(folder))
    return folder


def remove_data_keys(keys: Path) -> None:
    paths = list(keys.rglob("data/*/*.key"))
    assert paths, "there was nothing to remove"
    for path in paths:
        path.unlink()


def pay(**args: Any) -> Any:
    return call("pay", customer="ada", note=CANARY, **args)


def opened(url: str) -> Ledger:
    return Ledger.open(url, encrypt=True, subject="args.customer", seal=True)


def test_a_live_ledger_verifies_with_and_without_its_keys(
    ledger_url: str, keys: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with opened(ledger_url) as ledger:
        ledger.run(pay(), lambda effect: {"receipt": CANARY})
        ledger.seal()
        key = _key_of(ledger)

    def verdict() -> Any:
        return cli("verify", "--key", key, "--json", "--deep").json["verdict"]

    assert verdict() == "verified"
    next(keys.rglob("data/*/*.key")).chmod(0o644)
    assert verdict() == "verified", "it does not even look at data keys"
    remove_data_keys(keys)
    assert verdict() == "verified"
    monkeypatch.setenv("INDELIBLE_KEYS", str(tmp_path / "elsewhere"))
    assert verdict() == "verified"


def test_values_are_shown_in_clear_and_as_erased_when_their_key_is_gone(ledger_url: str, keys: Path, cli: Cli) -> None:
    with opened(ledger_url) as ledger:
        with pytest.raises(MayHaveHappened, match="went dead"):
            ledger.run(pay(), lose)
        (effect,) = ledger.effects()
    cli("effects", "settle", effect.id, "--as", "succeeded", "--value", '"paid 9"', "--evidence", "saw it")
    shown = cli("effects", "show", effect.id).out
    for said in (CANARY, "paid 9", "saw it", "went dead"):
        assert said in shown
    assert "ALTERED" not in shown
    assert "$encrypted" not in shown
    assert cli("effects", "show", effect.id, "--json").json["effect"]["result"] == "paid 9"
    with Ledger.open(ledger_url) as ledger:
        recorded = {p.field: p.value for p in ledger._engine.recorded.payloads("default", "order-1", range(9))}
    assert all(b"$encrypted" in recorded[field] for field in ("args", "reason", "result", "evidence"))
    remove_data_keys(keys)
    shown = cli("effects", "show", effect.id).out
    assert shown.count("(erased)") >= 4
    assert CANARY not in shown
    assert "ALTERED" not in shown


def test_a_person_is_erased_with_their_key(ledger_url: str, keys: Path, cli: Cli) -> None:
    with opened(ledger_url) as ledger:
        ledger.run(pay(), lambda effect: CANARY)
    assert cli("erase", "--yes", "--subject", "ada", "--reason", "asked", "--json").json["erased"] == 4
    assert list(keys.rglob("data/*/*.key")) == []


@pytest.mark.usefixtures("without_writer_keys")
def test_a_value_in_the_place_of_another_is_not_opened_and_is_called_altered(
    ledger_url: str, keys: Path, cli: Cli
) -> None:
    with opened(ledger_url) as ledger:
        for number in (1, 2):
            ledger.run(pay(n=number), lambda effect: {"receipt": CANARY})
        first, second = sorted(ledger.effects(), key=lambda effect: effect.opened_seq)
        _put_in_place_of(ledger_url, first.opened_seq, second.opened_seq)
        spoilt, whole = ledger.get_effect(second.id), ledger.get_effect(first.id)
        assert spoilt is not None
        assert whole is not None
        with pytest.raises(KeyUnusable, match="altered"):
            assert spoilt.args
        assert whole.args["n"] == 1
    assert "ALTERED" in cli("effects", "show", second.id, code=1).out


def _put_in_place_of(url: str, source: int, target: int) -> None:
    """Gives one effect the arguments of another, as they are recorded."""
    statement = (
        "UPDATE indelible_payloads SET value = (SELECT value FROM indelible_payloads WHERE field = 'args' "
        f"AND run_id = 'order-1' AND seq = {source}) WHERE field = 'args' AND run_id = 'order-1' AND seq = {target}"
    )
    if url.startswith("postgres"):
        with psycopg.connect(url) as server:
            server.execute(statement)
    else:
        connection = open_file(url)
        connection.execute(statement)
        connection.close()
