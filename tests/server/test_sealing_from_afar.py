"""A client of a server has no key: it asks for a head that the server signs, and makes no key of its own (94)."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from indelible import AsyncLedger, Ledger, verify
from indelible.core.journal.notes import parse_note
from indelible.errors import KeyUnusable, NotSealed
from tests.server.places import Place


@pytest.fixture
def keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the client's own keys, if it had any."""
    monkeypatch.setenv("INDELIBLE_KEYS", str(tmp_path / "client"))
    return tmp_path / "client"


def test_94_a_client_that_seals_gets_a_head_of_the_servers(each_place: Place, keys: Path, tmp_path: Path) -> None:
    with Ledger.open(each_place.served.url, token=each_place.tokens["agent"]) as ledger:
        run = ledger.start_run(agent="billing")
        run.complete()
        head = ledger.seal()
        assert head is not None
        events = ledger.events(run.id)
        assert events
        for event in events:
            assert ledger.receipt(event).tree_head().size > 0
        told = ledger.export(tmp_path / "bundle", run_id=run.id)
        assert told is not None
    key = each_place.get("/.well-known/indelible-keys.json").json()["keys"][0]["vkey"]
    assert verify(tmp_path / "bundle", key).verdict == "verified"
    assert parse_note(str(head)) == head
    assert not list(keys.glob("**/*.pem"))


@pytest.mark.anyio
async def test_94_an_asynchronous_client_does_so_too(each_place: Place, keys: Path) -> None:
    async with AsyncLedger.open(each_place.served.url, token=each_place.tokens["agent"]) as ledger:
        async with ledger.start_run(agent="billing"):
            pass
        assert await ledger.seal() is not None
    assert not list(keys.glob("**/*.pem"))


def test_94_a_client_makes_no_key(each_place: Place, keys: Path) -> None:
    with Ledger.open(each_place.served.url, token=each_place.tokens["agent"]) as ledger:
        assert not ledger._engine.notary.is_sealing
        with pytest.raises(KeyUnusable):
            ledger._engine.notary.signer()
    assert not list(keys.glob("**/*.pem"))


def test_94_a_client_whose_server_does_not_seal_is_told_so(tmp_path: Path, keys: Path) -> None:
    place = Place(f"sqlite:///{tmp_path / 'ledger.db'}", keys=tmp_path / "keys", seal=False)
    try:
        with Ledger.open(place.served.url, token=place.tokens["agent"]) as ledger:
            ledger._engine.notary._patience = timedelta(milliseconds=50)
            ledger.start_run(agent="billing").complete()
            with pytest.raises(NotSealed):
                ledger.seal()
    finally:
        place.close()
    assert not list(keys.glob("**/*.pem"))
