"""A tenant of whom a restored database has lost every row is stopped like any other (60)."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

import indelible
from indelible import Ledger, ToolCall
from indelible.core.journal.notes import log_name, tenant_named
from indelible.engine.comparing import compare_before_writing, tenants_of
from indelible.engine.running import in_own_thread
from indelible.engine.upkeep import Upkeep
from indelible.errors import Stopped
from indelible.journal.keys.files import file_name, text_of
from indelible.journal.keys.writers import VARIABLE, WriterKeys
from indelible.migrating.moving import move_tenant
from indelible.server.ledgers import Ledgers
from indelible.server.readiness import readiness
from indelible.stores import open_store
from tests.journal.test_set_back import Backup, charge
from tests.scenarios.shells import Count

_LONG = "acme " + "é/%~" * 40


def _exported(ledger: Ledger) -> str:
    keys = ledger._engine.store.macs
    assert isinstance(keys, WriterKeys)
    return keys.export(ledger.tenant, with_rights=False)


@pytest.fixture
def url(store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("INDELIBLE_KEYS", str(tmp_path / "keys"))
    indelible.migrate(store_url)
    with Ledger.open(store_url, seal=False, tenant="old") as ledger:
        ledger.run(charge(1), lambda effect: 1)
        ledger.seal()
    return store_url


def _call_without_keys(url: str, lent: str, tenant: str, call: ToolCall, monkeypatch: pytest.MonkeyPatch) -> Count:
    monkeypatch.setenv("INDELIBLE_KEYS", "/nowhere")
    monkeypatch.setenv(VARIABLE, lent)
    handler = Count("again")
    with Ledger.open(url, seal=False, tenant=tenant) as ledger, pytest.raises(Stopped):
        ledger.run(call, handler)
    return handler


def _go_rounds(url: str) -> None:
    with Ledger.open(url, seal=False, tenant="old") as ledger:
        Upkeep(ledger, lambda: tenants_of(ledger._engine.recorded), tell=lambda *told: None).go(time.monotonic())


@pytest.mark.parametrize("tenant", ["acme", _LONG])
def test_60_a_worker_stops_a_tenant_that_came_after_the_copy(
    url: str, monkeypatch: pytest.MonkeyPatch, tenant: str
) -> None:
    backup = Backup(url)
    backup.make()
    with Ledger.open(url, seal=False, tenant=tenant) as ledger:
        ledger.run(charge(2), lambda effect: "paid")
        ledger.seal()
        lent = _exported(ledger)
    backup.put_back()
    _go_rounds(url)
    assert _call_without_keys(url, lent, tenant, charge(2), monkeypatch).entries == 0


def test_60_and_one_that_was_moved_here_after_it(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "old").mkdir()
    old = f"sqlite:///{tmp_path / 'old' / 'ledger.db'}"
    indelible.migrate(old)
    with Ledger.open(old, seal=False, tenant=_LONG) as ledger:
        ledger.run(charge(1), lambda effect: 1)
        ledger.seal()
    backup = Backup(url)
    backup.make()
    move_tenant(old, url, _LONG, by="ana")
    with Ledger.open(url, seal=False, tenant=_LONG) as ledger:
        ledger.seal()
        lent = _exported(ledger)
    backup.put_back()
    _go_rounds(url)
    assert _call_without_keys(url, lent, _LONG, charge(1), monkeypatch).entries == 0


@pytest.mark.anyio
async def test_60_a_server_is_not_ready_and_doctor_names_the_tenant(url: str) -> None:
    backup = Backup(url)
    backup.make()
    with Ledger.open(url, seal=False, tenant="acme") as ledger:
        ledger.run(charge(2), lambda effect: "paid")
        ledger.seal()
    backup.put_back()
    said = subprocess.run([sys.executable, "-m", "indelible", "doctor", "--url", url], capture_output=True, text=True)
    assert "acme: " in said.stdout
    assert "--tenant acme" in said.stdout
    assert said.returncode == 1
    ledgers = Ledgers(open_store(url), seal=False)
    compare_before_writing(ledgers.store)
    await in_own_thread(ledgers.compare)
    assert (await readiness(ledgers)).record.status == "set back"
    await ledgers.close()


@pytest.mark.parametrize("text", ["acme", "A b", "..", "a/b%c+d", "~", "é", _LONG])
def test_60_the_names_of_files_and_journals_lead_back(text: str) -> None:
    assert text_of(file_name(text)) in (text, None)
    assert tenant_named("ledger-1", log_name("ledger-1", text)) == text
    assert tenant_named("ledger-2", log_name("ledger-1", text)) is None
