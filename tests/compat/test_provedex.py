"""What provedex-langchain documents runs here with the import changed, and every event is on the record."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models import FakeListLLM
from langchain_core.prompts import PromptTemplate
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool

from indelible import Ledger, migrate
from indelible.compat.provedex import ProvedexCallbackHandler, ProvedexConfig
from indelible.errors import BadCall, NotAuthenticated, StoreUnavailable
from indelible.server.app import create_app
from indelible.server.ledgers import Ledgers
from indelible.server.signin.identity import Identity
from indelible.stores import open_store
from tests.server.places import Place, sqlite_place
from tests.server.serving import Served
from tests.waiting import eventually

FIELDS = {
    "agent_url": "http://127.0.0.1:8765",
    "agent_id": "langchain-agent",
    "model_id": "unknown",
    "on_sign_failure": "warn",
    "queue_size": 1000,
    "request_timeout_seconds": 2.0,
    "shutdown_drain_seconds": 5.0,
    "include_callbacks": None,
}


@pytest.fixture
def url(store_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """The ledger that `Ledger.open()` opens; spooled events go into a folder of the test's."""
    migrate(store_url)
    monkeypatch.setenv("INDELIBLE_URL", store_url)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("PROVEDEX_AGENT_URL", raising=False)
    yield store_url
    logging.getLogger("indelible").handlers.clear()


@pytest.fixture
def chain() -> Any:
    return PromptTemplate.from_template("say {q}") | FakeListLLM(responses=["hello"])


def types_in(ledger: Ledger, run_id: str) -> list[str]:
    found: list[str] = []
    ledger.run_story(run_id, each=lambda event: found.append(event.type))
    return [kind.removeprefix("callback.") for kind in found if kind.startswith("callback.")]


def test_the_quickstart_records_what_it_does(url: str, chain: Any) -> None:
    handler = ProvedexCallbackHandler(config=ProvedexConfig())
    # pass to your chain or graph:
    assert chain.invoke({"q": "hi"}, config={"callbacks": [handler]}) == "hello"
    handler.stop()
    assert (handler.recorded_total, handler.dropped_total, handler.overflow_total) == (1, 0, 0)
    with Ledger.open(url) as ledger:
        assert types_in(ledger, handler.config.session_id) == ["model_invoked"]


def test_its_program_ends_by_itself_with_everything_on_the_record(url: str, tmp_path: Path) -> None:
    """There, nothing was signed by then, or the process hung."""
    program = tmp_path / "program.py"
    program.write_text(
        "from langchain_core.language_models import FakeListLLM\n"
        "from indelible.compat.provedex import ProvedexCallbackHandler, ProvedexConfig\n"
        "handler = ProvedexCallbackHandler(config=ProvedexConfig(session_id='s-1'))\n"
        "FakeListLLM(responses=['hello']).invoke('hi', config={'callbacks': [handler]})\n"
    )
    subprocess.run([sys.executable, str(program)], check=True, timeout=200)
    with Ledger.open(url) as ledger:
        assert types_in(ledger, "s-1") == ["model_invoked"]


def test_sessions_are_begun_and_ended_in_every_documented_way(url: str, chain: Any) -> None:
    @tool
    def add(a: int, b: int) -> int:
        """Adds."""
        return a + b

    handler = ProvedexCallbackHandler(config=ProvedexConfig(session_id="explicit", agent_id="scribe"))
    handler.start_session()
    chain.invoke({"q": "hi"}, config={"callbacks": [handler]})
    handler.end_session(reason="request_complete")
    with handler.session("user-12345-request"):
        add.invoke({"a": 1, "b": 2}, config={"callbacks": [handler]})

    async def awaited() -> None:
        await handler.start()
        async with handler.session("user-12345-async"):
            await chain.ainvoke({"q": "hi"}, config={"callbacks": [handler]})
        await handler.stop()

    def fail(q: Any) -> Any:
        raise LookupError("no")

    with pytest.raises(LookupError), handler.session("failing"):
        RunnableLambda(fail).invoke({"q": "hi"}, config={"callbacks": [handler]})
    asyncio.run(awaited())
    with Ledger.open(url) as ledger:
        around = ("session_started", "session_ended")
        assert types_in(ledger, "explicit") == [around[0], "model_invoked", around[1]]
        assert types_in(ledger, "user-12345-request") == [around[0], "tool_called", "tool_returned", around[1]]
        assert types_in(ledger, "user-12345-async") == [around[0], "model_invoked", around[1]]
        assert types_in(ledger, "failing") == list(around)
        run = ledger.get_run("explicit")
        assert run is not None
        assert run.agent == "scribe"
    assert handler.dropped_total == 0


def test_its_configuration_has_its_fields_and_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PROVEDEX_AGENT_URL", raising=False)
    config = ProvedexConfig()
    assert {name: getattr(config, name) for name in FIELDS} == FIELDS
    assert config.session_id != ProvedexConfig().session_id
    monkeypatch.setenv("PROVEDEX_AGENT_URL", "http://elsewhere:1")
    assert ProvedexConfig().agent_url == "http://elsewhere:1"
    for wrong in (
        {"agent_url": "ftp://x"},
        {"queue_size": 0},
        {"on_sign_failure": "ignore"},
        {"request_timeout_seconds": 0},
        {"shutdown_drain_seconds": -1},
    ):
        with pytest.raises(BadCall):
            ProvedexConfig(**wrong)


def test_a_sidecar_is_not_asked_and_that_is_said(url: str, chain: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        handler = ProvedexCallbackHandler(ProvedexConfig(agent_url="http://127.0.0.1:9"))
    assert "names no token" in caplog.text
    chain.invoke({"q": "hi"}, config={"callbacks": [handler]})
    handler.stop()
    assert handler.recorded_total == 1


def test_an_address_with_a_token_leads_to_a_server(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, chain: Any
) -> None:
    place = sqlite_place(tmp_path_factory.mktemp("server"))
    try:
        address = place.served.url.replace("http://", f"http://key:{place.tokens['agent']}@")
        config = ProvedexConfig(agent_url=address, session_id="far-away", spool=tmp_path / "spool", mode="strict")
        handler = ProvedexCallbackHandler(config)
        chain.invoke({"q": "hi"}, config={"callbacks": [handler]})
        handler.stop()
        assert handler.recorded_total == 1
    finally:
        place.close()


class Away:
    """A server that is away until `come_back`, on a store that is there; `address` has an agent's token in it."""

    def __init__(self, url: str, keys: Path) -> None:
        place = Place(url, keys=keys)
        self._url, self._keys, self._served, self._store = url, keys, place.served, open_store(url)
        self.address = place.served.url.replace("http://", f"http://key:{place.tokens['agent']}@")
        self.address_of_another_tenant = self.address.replace(place.tokens["agent"], place.tokens["stranger"])
        place.close()

    def come_back(self) -> None:
        port = int(self.address.rpartition(":")[2])
        ledgers = Ledgers(open_store(self._url), keys=self._keys)
        self._served = Served(create_app(ledgers, Identity(self._store)), port=port)

    def types_in(self, run_id: str) -> list[str]:
        with Ledger.open(self._url, tenant="acme", keys=self._keys) as ledger:
            return types_in(ledger, run_id)

    def close(self) -> None:
        self._served.stop()
        self._store.close()


@pytest.fixture
def away(store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Away]:
    monkeypatch.setenv("HOME", str(tmp_path))
    found = Away(store_url, tmp_path / "keys")
    yield found
    found.close()


@pytest.mark.parametrize("mode", ["fast", "strict"])
def test_79_a_handler_is_built_while_its_server_is_away_and_delivers_later(away: Away, chain: Any, mode: Any) -> None:
    handler = ProvedexCallbackHandler(ProvedexConfig(agent_url=away.address, session_id="s", mode=mode))
    chain.invoke({"q": "hi"}, config={"callbacks": [handler]})
    assert not handler.flush(timeout=0)
    assert (handler.signed_total, handler.pending, handler.dropped_total) == (0, 1, 0)
    away.come_back()
    assert handler.flush(timeout=60)
    assert (handler.recorded_total, handler.pending, handler.dropped_total) == (1, 0, 0)
    eventually(lambda: handler.signed_total == 1)
    handler.stop()
    assert away.types_in("s") == ["model_invoked"]


def test_79_what_a_handler_kept_while_its_server_was_away_is_delivered_by_the_next(away: Away, chain: Any) -> None:
    config = ProvedexConfig(agent_url=away.address, session_id="s", shutdown_drain_seconds=0)
    first = ProvedexCallbackHandler(config)
    chain.invoke({"q": "hi"}, config={"callbacks": [first]})
    first.stop()
    assert (first.signed_total, first.dropped_total) == (0, 0)
    away.come_back()
    second = ProvedexCallbackHandler(ProvedexConfig(agent_url=away.address, session_id="t"))
    chain.invoke({"q": "hi"}, config={"callbacks": [second]})
    second.stop()
    assert [away.types_in(session) for session in "st"] == [["model_invoked"]] * 2


def test_what_a_handler_kept_for_one_tenant_is_not_delivered_to_another(away: Away, chain: Any) -> None:
    kept = ProvedexCallbackHandler(ProvedexConfig(agent_url=away.address, session_id="s", shutdown_drain_seconds=0))
    chain.invoke({"q": "hi"}, config={"callbacks": [kept]})
    kept.stop()
    away.come_back()
    config = ProvedexConfig(agent_url=away.address_of_another_tenant, session_id="t")
    other = ProvedexCallbackHandler(config)
    chain.invoke({"q": "hi"}, config={"callbacks": [other]})
    other.stop()
    assert other.recorded_total == 1
    ours = ProvedexCallbackHandler(ProvedexConfig(agent_url=away.address, session_id="u"))
    ours.stop()
    assert away.types_in("s") == ["model_invoked"]


def test_79_who_asks_for_it_is_told_at_the_first_event_that_the_server_is_away(away: Away, chain: Any) -> None:
    config = ProvedexConfig(agent_url=away.address, session_id="s", mode="strict", on_sign_failure="raise")
    handler = ProvedexCallbackHandler(config)
    with pytest.raises(StoreUnavailable):
        chain.invoke({"q": "hi"}, config={"callbacks": [handler]})
    away.come_back()
    assert handler.flush(timeout=60)
    handler.stop()
    assert away.types_in("s") == ["model_invoked"]


def test_79_a_server_that_refuses_the_token_refuses_the_handler(away: Away) -> None:
    away.come_back()
    with pytest.raises(NotAuthenticated):
        ProvedexCallbackHandler(ProvedexConfig(agent_url=f"{away.address.replace('@', 'x@')}"))


def test_a_ledger_that_is_given_is_used_and_stays_open(url: str, tmp_path: Path, chain: Any) -> None:
    with Ledger.open(url) as ledger:
        handler = ProvedexCallbackHandler(ProvedexConfig(session_id="s", spool=tmp_path / "spool"), ledger=ledger)
        chain.invoke({"q": "hi"}, config={"callbacks": [handler]})
        handler.stop()
        assert types_in(ledger, "s") == ["model_invoked"]
