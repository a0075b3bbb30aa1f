"""Fault 70: a handler counts as signed what a signed head covers, and says when nothing seals the journal."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models import FakeListLLM

from indelible import Ledger, migrate
from indelible.compat.provedex import ProvedexCallbackHandler, ProvedexConfig
from indelible.integrations.langchain_callbacks import CallbackConfig, LedgerCallbackHandler
from tests.waiting import PATIENCE, eventually

HANDLERS: dict[str, Any] = {
    "callbacks": lambda ledger, **words: LedgerCallbackHandler(ledger, config=CallbackConfig(**words)),
    "provedex": lambda ledger, **words: ProvedexCallbackHandler(ProvedexConfig(**words), ledger=ledger),
}


@pytest.fixture
def place(store_url: str, tmp_path: Path) -> dict[str, Any]:
    migrate(store_url, keys=tmp_path / "keys")
    return {"url": store_url, "keys": tmp_path / "keys"}


@pytest.fixture(params=HANDLERS, ids=str)
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    made: list[Any] = []

    def handler(ledger: Ledger, **words: Any) -> Any:
        made.append(HANDLERS[request.param](ledger, spool=tmp_path / "spool", session_id="s", **words))
        return made[-1]

    yield handler
    for one in made:
        one.stop()


def talk(handler: Any, times: int = 3) -> None:
    for _ in range(times):
        FakeListLLM(responses=["hello"]).invoke("hi", config={"callbacks": [handler]})


@pytest.mark.parametrize("mode", ["fast", "strict"])
def test_70_what_no_signed_head_covers_is_not_counted_as_signed(place: dict[str, Any], make: Any, mode: str) -> None:
    with Ledger.open(**place, seal=False) as ledger, Ledger.open(**place, seal=False) as sealer:
        handler = make(ledger, mode=mode)
        talk(handler)
        assert handler.flush(PATIENCE)
        assert (handler.recorded_total, handler.signed_total) == (3, 0)
        sealer.seal()
        assert handler.signed_total == 3
        talk(handler, 2)
        assert handler.flush(PATIENCE)
        assert (handler.recorded_total, handler.signed_total) == (5, 3)
        sealer.seal()
        assert handler.signed_total == 5
        handler.stop()
    assert (handler.recorded_total, handler.signed_total) == (5, 5), "and it is known when the ledger is closed"


def test_70_a_handler_says_when_nothing_seals(
    place: dict[str, Any], make: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with Ledger.open(**place, seal=False) as ledger:
        handler = make(ledger, shutdown_drain_seconds=0.1)
        talk(handler)
        assert handler.flush(PATIENCE)
        with caplog.at_level(logging.WARNING, "indelible.integrations"):
            handler.stop()
    assert [record for record in caplog.records if "indelible worker" in record.getMessage()]


def test_70_it_also_says_so_while_it_goes_on(
    place: dict[str, Any], make: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indelible.integrations.recorder.UNSIGNED_FOR", 0.01)
    with Ledger.open(**place, seal=False) as ledger, caplog.at_level(logging.WARNING, "indelible.integrations"):
        handler = make(ledger)
        talk(handler)
        eventually(lambda: any("indelible worker" in record.getMessage() for record in caplog.records))
        assert handler.recorded_total == 3


def test_70_nothing_is_said_where_it_is_sealed(
    place: dict[str, Any], make: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        Ledger.open(**place, seal=True) as ledger,
        caplog.at_level(logging.WARNING, "indelible.integrations"),
    ):
        handler = make(ledger, shutdown_drain_seconds=PATIENCE)
        talk(handler)
        handler.stop()
        assert (handler.recorded_total, handler.signed_total) == (3, 3)
    assert not [record for record in caplog.records if "indelible worker" in record.getMessage()]
