"""LangChain's callbacks on the record: everything that was told is there, once, whatever dies in between."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from langchain_core.language_models import FakeListLLM, GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, Generation, LLMResult
from langchain_core.retrievers import BaseRetriever
from langchain_core.tools import tool
from langgraph.types import Command

from indelible import Ledger, migrate
from indelible.errors import BadCall, StoreError, StoreUnavailable
from indelible.integrations.langchain import LedgerMiddleware
from indelible.integrations.langchain_callbacks import CallbackConfig, LedgerCallbackHandler
from indelible.integrations.spool import Spool, SpoolFull, abandoned
from indelible.stores.postgres.store import PostgresStore
from tests.integrations.langchain_agents import HELLO, THREAD, Till, agent
from tests.waiting import PATIENCE, eventually

ANSWER = LLMResult(generations=[[Generation(text="four")]], llm_output={"token_usage": {"prompt_tokens": 7}})


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.fixture(params=["fast", "strict"])
def mode(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def ledger(store_url: str) -> Iterator[Ledger]:
    migrate(store_url)
    with Ledger.open(store_url) as opened:
        yield opened


@pytest.fixture
def quick(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(f"sqlite:///{tmp_path / 'quick.db'}") as opened:
        yield opened


def handler_of(ledger: Ledger, folder: Path, **words: Any) -> LedgerCallbackHandler:
    return LedgerCallbackHandler(ledger, config=CallbackConfig(spool=folder / "spool", **words))


def told(ledger: Ledger, session: str) -> list[tuple[str, Any]]:
    """Gives what was recorded of a session: types without the namespace, and payloads."""
    found: list[tuple[str, Any]] = []
    ledger.run_story(session, each=lambda event: found.append((event.type.removeprefix("callback."), event.payload)))
    return [one for one in found if not one[0].startswith("run_")]


def pairs(handler: LedgerCallbackHandler, count: int) -> None:
    for number in range(count):
        run_id = uuid4()
        handler.on_llm_start({"id": ["x", "Model"]}, [f"question {number}"], run_id=run_id)
        handler.on_llm_end(ANSWER, run_id=run_id)


def numbers(ledger: Ledger, session: str) -> list[int]:
    return [payload["source"]["number"] for _, payload in told(ledger, session)]


def test_a_chain_is_recorded_with_hashes_and_token_counts(ledger: Ledger, tmp_path: Path, mode: Any) -> None:
    handler = handler_of(ledger, tmp_path, mode=mode, agent_id="scribe", model_id="m1")
    with Stopping(handler), handler.session("request-1"):
        FakeListLLM(responses=["four"]).invoke("two and two?", config={"callbacks": [handler]})
    (started, invoked, ended) = told(ledger, "request-1")
    assert (started[0], invoked[0], ended[0]) == ("session_started", "model_invoked", "session_ended")
    assert started[1]["agent_id"] == "scribe"
    assert started[1]["model_id"] == "m1"
    assert (invoked[1]["prompt_sha256"], invoked[1]["response_sha256"]) == (sha("two and two?"), sha("four"))
    assert invoked[1]["model_id"] == "FakeListLLM"
    assert (ended[1]["reason"], ended[1]["summary_sha256"]) == ("completed", sha(""))
    run = ledger.get_run("request-1")
    assert run is not None
    assert (run.status, run.agent) == ("completed", "scribe")
    assert "four" not in repr(told(ledger, "request-1"))
    assert handler.recorded_total == 3
    assert handler.dropped_total == handler.pending == 0


class Stopping:
    def __init__(self, handler: LedgerCallbackHandler) -> None:
        self._handler = handler

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        self._handler.stop()


def test_a_model_that_raises_is_recorded_as_that(quick: Ledger, tmp_path: Path) -> None:
    handler = handler_of(quick, tmp_path)
    with Stopping(handler):
        run_id = uuid4()
        handler.on_llm_start({"id": ["x", "Model"]}, ["a", "b"], run_id=run_id)
        handler.on_llm_error(ValueError("no more credit"), run_id=run_id)
    ((_, payload),) = told(quick, handler.config.session_id)
    assert payload["response_sha256"] == sha("ValueError: no more credit")
    assert payload["prompt_sha256"] == sha("a\nb")
    assert (payload["success"], payload["error"], payload["prompt_tokens"]) == (False, "ValueError", 0)


def test_an_end_without_its_beginning_is_told_as_that_and_not_left_out(quick: Ledger, tmp_path: Path) -> None:
    handler = handler_of(quick, tmp_path)
    with Stopping(handler):
        handler.on_llm_end(ANSWER, run_id=uuid4())
    ((_, payload),) = told(quick, handler.config.session_id)
    assert (payload["prompt_sha256"], payload["latency_ms"], payload["prompt_tokens"]) == (None, None, 7)


def test_a_session_that_raises_is_closed_with_the_class_as_the_reason(quick: Ledger, tmp_path: Path) -> None:
    handler = handler_of(quick, tmp_path)
    with Stopping(handler), pytest.raises(KeyError), handler.session("s-1"):
        raise KeyError("x")
    assert told(quick, "s-1")[-1][1]["reason"] == "KeyError"
    run = quick.get_run("s-1")
    assert run is not None
    assert run.status == "failed"


def test_a_session_can_be_begun_and_ended_by_hand(quick: Ledger, tmp_path: Path) -> None:
    handler = handler_of(quick, tmp_path, session_id="by-hand")
    with Stopping(handler):
        assert handler.start_session() == "by-hand"
        pairs(handler, 1)
        handler.end_session(reason="request_complete")
        pairs(handler, 1)  # too late for the session, and not lost
    assert [kind for kind, _ in told(quick, "by-hand")] == ["session_started", "model_invoked", "session_ended"]
    assert len(told(quick, "by-hand.late")) == 1


@pytest.mark.anyio
async def test_sessions_of_tasks_do_not_mix_and_their_tools_are_linked(
    quick: Ledger, tmp_path: Path, mode: Any
) -> None:
    import asyncio

    @tool
    def add(a: int, b: int) -> int:
        """Adds."""
        return a + b

    handler = handler_of(quick, tmp_path, mode=mode)

    async def work(name: str, a: int) -> None:
        async with handler.session(name):
            await asyncio.sleep(0)
            call = {"name": "add", "args": {"a": a, "b": 1}, "id": f"call-{a}", "type": "tool_call"}
            await add.ainvoke(call, config={"callbacks": [handler]})

    await asyncio.gather(work("one", 1), work("two", 2))
    await asyncio.to_thread(handler.stop)
    for name, a in (("one", 1), ("two", 2)):
        _, (called, before), (returned, after), _ = told(quick, name)
        assert (called, returned) == ("tool_called", "tool_returned")
        assert before["id"] == after["id"]
        assert before["tool_call_id"] == f"call-{a}"
        assert before["args_sha256"] == sha(f'{{"a":{a},"b":1}}')
        assert before["args_redacted"] == {"a": "<redacted>", "b": "<redacted>"}
        assert (after["tool_name"], after["success"]) == ("add", True)


def test_the_calls_that_a_chat_model_makes_are_recorded_with_its_tokens(quick: Ledger, tmp_path: Path) -> None:
    message = AIMessage(
        content="",
        tool_calls=[{"name": "add", "args": {"a": 1}, "id": "c1"}],
        usage_metadata={"input_tokens": 5, "output_tokens": 3, "total_tokens": 8},
    )
    handler = handler_of(quick, tmp_path, keep="values")
    with Stopping(handler):
        GenericFakeChatModel(messages=iter([message])).invoke("hi", config={"callbacks": [handler]})
        run_id = uuid4()
        handler.on_chat_model_start({}, [[message]], run_id=run_id)
        handler.on_llm_end(LLMResult(generations=[[ChatGeneration(message=message)]]), run_id=run_id)
    _, (_, payload) = told(quick, handler.config.session_id)
    assert payload["tool_calls"] == [{"id": "c1", "name": "add", "args_sha256": sha('{"a":1}'), "args": {"a": 1}}]
    assert (payload["prompt_tokens"], payload["response_tokens"]) == (5, 3)
    assert payload["response"]["tool_calls"][0]["id"] == "c1"


def test_chains_retrievers_and_graphs_are_recorded_where_they_are_asked_for(quick: Ledger, tmp_path: Path) -> None:
    class Shelf(BaseRetriever):
        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Any]:
            from langchain_core.documents import Document

            return [Document(page_content="a book")]

    handler = handler_of(quick, tmp_path, also=("retrievers", "graph"), session_id="all")
    with Stopping(handler):
        Shelf().invoke("books", config={"callbacks": [handler]})
        asking = agent(Till(), [LedgerMiddleware(quick, terms={"charge": {"approval": "required"}})])
        config: Any = {**THREAD, "callbacks": [handler]}
        asking.invoke(HELLO, config)
        approval = quick.approvals()[0]
        quick.approve(approval, digest=approval.digest, by="ana")
        asking.invoke(Command(resume="go on"), config)
    kinds = [kind for kind, _ in told(quick, "all")]
    assert kinds[0] == "retriever_returned"
    assert {"model_invoked", "tool_called", "tool_returned", "graph_paused", "graph_resumed"} <= set(kinds)
    nodes = {payload["node"] for kind, payload in told(quick, "all") if kind == "chain_started"}
    assert nodes == {"LedgerMiddleware.before_agent", "model", "tools"}
    paused = next(payload for kind, payload in told(quick, "all") if kind == "graph_paused")
    assert paused["checkpoint_id"]


def test_of_a_burst_of_pairs_none_is_lost(quick: Ledger, tmp_path: Path, mode: Any) -> None:
    count = int(os.environ.get("INDELIBLE_BURST", "1000" if mode == "fast" else "100"))
    handler = handler_of(quick, tmp_path, mode=mode, queue_size=300, session_id="burst")
    with Stopping(handler):
        threads = [threading.Thread(target=pairs, args=(handler, count // 4)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(numbers(quick, "burst")) == list(range(1, count + 1))
    assert handler.signed_total == count
    assert not list((tmp_path / "spool").rglob("*.spool"))


def test_with_the_ledger_away_and_back_none_is_lost_and_none_is_there_twice(
    postgres_server: Any, tmp_path: Path, mode: Any
) -> None:
    url = postgres_server.create_database(f"callbacks_{mode}")
    migrate(url)
    store = PostgresStore(url, wakeups=False, patience=timedelta(seconds=2))
    with closing(store), Ledger.open(store=store) as ledger:
        handler = handler_of(ledger, tmp_path, mode=mode, session_id="s", on_sign_failure="silent")
        third = int(os.environ.get("INDELIBLE_BURST", "60")) // 3
        pairs(handler, third)
        postgres_server.kill()
        pairs(handler, third)
        assert not handler.flush(0.1)
        assert handler.pending
        postgres_server.start()
        pairs(handler, third)
        assert handler.flush(PATIENCE)
        handler.stop()
        assert sorted(numbers(ledger, "s")) == list(range(1, 3 * third + 1))
        assert handler.dropped_total == 0


def test_a_failure_is_raised_where_that_is_asked_for_and_the_event_is_kept(
    postgres_server: Any, tmp_path: Path
) -> None:
    url = postgres_server.create_database("callbacks_raise")
    migrate(url)
    store = PostgresStore(url, wakeups=False, patience=timedelta(seconds=2))
    with closing(store), Ledger.open(store=store) as ledger:
        words: dict[str, Any] = {"mode": "strict", "session_id": "s", "shutdown_drain_seconds": 0.1}
        handler = handler_of(ledger, tmp_path, on_sign_failure="raise", **words)
        postgres_server.kill()
        with pytest.raises(StoreError):
            FakeListLLM(responses=["four"]).invoke("?", config={"callbacks": [handler]})
        handler.stop()
        postgres_server.start()
        again = handler_of(ledger, tmp_path, **words)
        assert again.flush(PATIENCE)
        again.stop()
        assert numbers(ledger, "s") == [1]


# Imports once, and forks a process for each mode: those are killed. Then one that tells by its parent's handler.
KILLED = """
import os, signal, sys, time
from pathlib import Path
from uuid import uuid4
from indelible import Ledger
from indelible.integrations.langchain_callbacks import CallbackConfig, LedgerCallbackHandler

def pairs(handler, count):
    for number in range(count):
        run_id = uuid4()
        handler.on_llm_start({"id": ["x", "Model"]}, [f"question {number}"], run_id=run_id)
        handler.on_llm_error(ValueError(), run_id=run_id)

for mode in ("fast", "strict"):
    if not os.fork():
        config = CallbackConfig(spool=f"{sys.argv[1]}/{mode}", mode=mode, session_id="killed")
        handler = LedgerCallbackHandler(Ledger.open(f"sqlite:///{sys.argv[1]}/{mode}.db"), config=config)
        pairs(handler, 200)
        if mode == "fast":
            while handler._recorder._queue:
                time.sleep(0.001)
            handler._recorder._lock.acquire()  # whoever writes is held up, as on a busy machine
            pairs(handler, 7)
        os.kill(os.getpid(), signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.wait()[1]) == -signal.SIGKILL

config = CallbackConfig(spool=f"{sys.argv[1]}/forked", session_id="forked")
handler = LedgerCallbackHandler(Ledger.open(f"sqlite:///{sys.argv[1]}/forked.db"), config=config)
pairs(handler, 5)
if not os.fork():
    pairs(handler, 3)
    handler.stop()
    os._exit(0)
assert os.wait()[1] == 0
handler.stop()
Path(sys.argv[1], "signed").write_text(str(handler.signed_total))
"""


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what processes left behind that were killed right after they were told 207 or 200 events."""
    folder = tmp_path_factory.mktemp("killed")
    subprocess.run([sys.executable, "-c", KILLED, str(folder)], check=True, capture_output=True, timeout=200)
    return folder


def test_what_a_killed_process_wrote_is_delivered_once_and_what_it_did_not_is_told(killed: Path, mode: Any) -> None:
    with Ledger.open(f"sqlite:///{killed / mode}.db") as ledger:
        for _ in range(2):
            handler = LedgerCallbackHandler(ledger, config=CallbackConfig(mode=mode, spool=killed / mode))
            assert handler.flush(PATIENCE)
            handler.stop()
        found = numbers(ledger, "killed")
        gaps = [payload for _, payload in told(ledger, "langchain-agent.gaps")] if mode == "fast" else []
    missing = sum(gap["missing"] for gap in gaps)
    assert found == list(range(1, 201))
    assert missing == (7 if mode == "fast" else 0)


def test_a_spool_is_bounded_and_what_it_has_no_room_for_is_told(postgres_server: Any, tmp_path: Path) -> None:
    url = postgres_server.create_database("callbacks_full")
    migrate(url)
    store = PostgresStore(url, wakeups=False, patience=timedelta(seconds=0.5))
    with closing(store), Ledger.open(store=store) as ledger:
        words: dict[str, Any] = {"session_id": "s", "on_sign_failure": "silent", "spool_bytes": 5000}
        handler = handler_of(ledger, tmp_path, mode="strict", **words)
        postgres_server.kill()
        pairs(handler, 40)
        lost = handler.dropped_total
        assert 0 < lost < 40
        postgres_server.start()
        assert handler.flush(PATIENCE)
        handler.stop()
        ((kind, gap),) = told(ledger, "langchain-agent.gaps")
        assert (kind, gap["missing"], gap["last"]) == ("gap", lost, 40)
        assert len(numbers(ledger, "s")) == 40 - lost


def test_what_a_crash_tore_off_is_not_read_and_a_living_spool_is_left_alone(tmp_path: Path) -> None:
    spool = Spool(tmp_path, 1000)
    spool.append([b'{"a":1}', b'{"a":2}'])
    assert list(abandoned(tmp_path)) == []
    with pytest.raises(SpoolFull):
        spool.append([b"x" * 1000])
    spool.note_taken(5)
    spool.note_written(2)
    spool.close(is_delivered=False)
    (path,) = tmp_path.glob("*.spool")
    path.write_bytes(path.read_bytes()[:-3])
    (left,) = abandoned(tmp_path)
    assert (left.items, left.taken, left.written) == ((b'{"a":1}',), 5, 2)
    left.remove()
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_configured_is_refused() -> None:
    for words in ({"mode": "slow"}, {"keep": "all"}, {"on_sign_failure": "cry"}, {"also": ("x",)}, {"queue_size": 0}):
        with pytest.raises(BadCall):
            CallbackConfig(**words)  # type: ignore[arg-type]


def test_what_was_recorded_although_no_answer_came_is_not_recorded_again(
    quick: Ledger, tmp_path: Path, mode: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ledger commits, and the line is cut before it can say so."""
    record_all, cut = quick.record_all, [True, True]

    def record(run_id: str, events: Any) -> Any:
        answer = record_all(run_id, events)
        if cut and cut.pop():
            raise StoreUnavailable("the line was cut")
        return answer

    monkeypatch.setattr(quick, "record_all", record)
    handler = handler_of(quick, tmp_path, mode=mode, session_id="s", on_sign_failure="silent")
    with Stopping(handler):
        pairs(handler, 30)
        assert handler.flush(PATIENCE)
    assert numbers(quick, "s") == list(range(1, 31))
    assert handler.signed_total == 30


def test_what_is_told_after_the_end_is_not_lost_either(quick: Ledger, tmp_path: Path, mode: Any) -> None:
    handler = handler_of(quick, tmp_path, mode=mode, session_id="s")
    for _ in range(2):
        pairs(handler, 3)
        handler.stop()
    assert len(numbers(quick, "s")) == 6
    assert handler.signed_total == 6


@pytest.mark.parametrize("what", ["warn", "raise", "silent"])
def test_in_fast_a_failure_is_told_raised_out_of_the_next_callback_or_only_counted(
    quick: Ledger, tmp_path: Path, what: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def cut(*_: Any) -> Any:
        raise StoreUnavailable("the line was cut")

    handler = handler_of(quick, tmp_path, session_id="s", on_sign_failure=what)
    with monkeypatch.context() as patched:
        patched.setattr(quick, "record_all", cut)
        pairs(handler, 1)
        assert not handler.flush(0.1)
        eventually(lambda: what != "raise" or handler._recorder._problem)
        eventually(lambda: what != "warn" or "the line was cut" in caplog.text)
        try:
            pairs(handler, 1)
        except StoreUnavailable:
            assert what == "raise"
        else:
            assert what != "raise"
    assert handler.flush(PATIENCE)
    handler.stop()
    assert numbers(quick, "s") == [1, 2]
    assert ("the line was cut" in caplog.text) == (what == "warn")


def test_a_forked_process_tells_for_itself(killed: Path) -> None:
    """Its parent's events stay its parent's, and its own are there once."""
    with Ledger.open(f"sqlite:///{killed / 'forked.db'}") as ledger:
        assert (killed / "signed").read_text() == "5"
        assert sorted(numbers(ledger, "forked")) == [1, 1, 2, 2, 3, 3, 4, 5]


def test_a_session_of_one_handler_is_not_that_of_another(quick: Ledger, tmp_path: Path) -> None:
    one = handler_of(quick, tmp_path, session_id="one")
    other = handler_of(quick, tmp_path, session_id="other")
    with Stopping(one), Stopping(other), one.session("inside"):
        pairs(one, 1)
        pairs(other, 1)
    assert len(told(quick, "inside")) == 3
    assert len(told(quick, "other")) == 1
