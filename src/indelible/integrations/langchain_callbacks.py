"""LangChain callbacks on the record: every model and tool call of a chain or graph, and the sessions they belong to.

    handler = LedgerCallbackHandler(ledger)
    with handler.session("request-123"):
        chain.invoke({"q": "hi"}, config={"callbacks": [handler]})

It only looks on: to have tools run once and with permission, use `LedgerMiddleware`. What is recorded is hashes, unless
`keep="values"`; the ledger's own rules of redaction hold for both.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, NamedTuple
from uuid import UUID

from langgraph.callbacks import GraphCallbackHandler, GraphInterruptEvent, GraphResumeEvent

from indelible import AsyncLedger, Ledger
from indelible.errors import BadCall
from indelible.integrations.delivery import ENDED, Delivery
from indelible.integrations.langchain_events import (
    Keep,
    Started,
    chain_ended,
    chain_started,
    graph_moved,
    model_invoked,
    retriever_returned,
    tool_called,
    tool_returned,
)
from indelible.integrations.recorder import Content, Mode, OnFailure, Recorder

Also = Literal["chains", "retrievers", "graph"]
_SPOOL = Path("~/.indelible/spool")
_NO_TEXT = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
# By handler: what one of them is in the middle of is none of another's business.
_sessions: ContextVar[Mapping[int, str] | None] = ContextVar("indelible_sessions", default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallbackConfig:
    """Says for whom events are recorded, which, and how carefully.

    `mode` strict makes each event durable before its callback returns; fast takes it in a microsecond and writes it a
    moment later. `queue_size` is how many may wait in memory before callbacks write themselves. `spool` is the folder
    where events wait while the ledger is away, at most `spool_bytes` of them.
    """

    session_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    agent_id: str = "langchain-agent"
    model_id: str = "unknown"
    mode: Mode = "fast"
    keep: Keep = "hashes"
    also: Sequence[Also] = ()
    on_sign_failure: OnFailure = "warn"
    queue_size: int = 10_000
    spool: Path | str = _SPOOL
    spool_bytes: int = 64 * 1024 * 1024
    shutdown_drain_seconds: float = 5.0

    def __post_init__(self) -> None:
        for name, value, choices in (
            ("mode", self.mode, ("strict", "fast")),
            ("keep", self.keep, ("hashes", "values")),
            ("on_sign_failure", self.on_sign_failure, ("warn", "raise", "silent")),
            *(("also", each, ("chains", "retrievers", "graph")) for each in self.also),
        ):
            if value not in choices:
                raise BadCall(f"{name}={value!r}: choose one of {', '.join(choices)}")
        if self.queue_size < 1:
            raise BadCall("queue_size: let at least one event wait")


class _Open(NamedTuple):
    """Is a call that has begun: what is known of it, and the session it was begun in."""

    session: str
    started: Started


class LedgerCallbackHandler(GraphCallbackHandler):
    """Records every model call, tool call and session, and loses none of them.

    Counters: `recorded_total` are on the record, `signed_total` of them are under a signed head, `pending` wait for the
    ledger, `dropped_total` are missing (an event of their own says which), and `overflow_total` counts callbacks that
    had to write themselves. If nothing seals the journal, a warning says so.
    """

    def __init__(self, ledger: Ledger | AsyncLedger | None = None, *, config: CallbackConfig | None = None) -> None:
        self.config = config or CallbackConfig()
        self._owned = Ledger.open() if ledger is None else None
        blocking = (ledger or self._owned).blocking  # type: ignore[union-attr]  # one of them is there
        self._record_in(lambda: blocking, blocking.journal_name)

    def _record_in(self, open_ledger: Callable[[], Ledger], place: str) -> None:
        """Record events in the ledger that this opens; until it can be opened they wait in the spool of this place."""
        self.raise_error = self.config.on_sign_failure == "raise"
        # A callback that takes a microsecond needs no thread; one that waits for a disk must not hold up a loop.
        self.run_inline = self.config.mode == "fast"
        self._also = frozenset(self.config.also)
        self._current: str | None = None
        self._open: dict[UUID, _Open] = {}
        self._recorder = Recorder(
            Delivery(open_ledger, "langchain", self.config.agent_id),
            folder=Path(self.config.spool).expanduser() / place.replace("/", "_"),
            mode=self.config.mode,
            on_failure=self.config.on_sign_failure,
            queue_size=self.config.queue_size,
            spool_bytes=self.config.spool_bytes,
            drain=timedelta(seconds=self.config.shutdown_drain_seconds),
        )
        self._tell = self._recorder.tell

    @property
    def recorded_total(self) -> int:
        """Count events that are on the record, signed or not."""
        return self._recorder.recorded_total

    @property
    def signed_total(self) -> int:
        """Count events that a signed head covers; asks the ledger."""
        return self._recorder.signed_total

    @property
    def dropped_total(self) -> int:
        """Counts events that are missing, for there was no room to keep them."""
        return self._recorder.dropped_total

    @property
    def overflow_total(self) -> int:
        """Counts callbacks that had to write what waited, for too much did."""
        return self._recorder.overflow_total

    @property
    def pending(self) -> int:
        """Counts events that are not in the ledger yet."""
        return self._recorder.pending

    @property
    def ignore_chain(self) -> bool:
        """Are chains none of its business?"""
        return not self._also & {"chains", "graph"}

    @property
    def ignore_retriever(self) -> bool:
        """Are retrievers none of its business?"""
        return "retrievers" not in self._also

    @property
    def ignore_retry(self) -> bool:
        """Is it told of retries? Each attempt tells of itself."""
        return True

    @property
    def ignore_custom_event(self) -> bool:
        """Is it told of events that others made up?"""
        return True

    # Sessions

    def start_session(self, session_id: str | None = None) -> str:
        """Begins a session, by default the configured one; what follows belongs to it until it is ended."""
        self._current = session_id or self.config.session_id
        self._tell_session(self._current)
        return self._current

    def end_session(self, reason: str = "operator_end") -> None:
        """Ends the session that was started last."""
        session, self._current = self._current or self.config.session_id, None
        self._tell_end(session, reason, is_failure=False)

    def session(self, session_id: str | None = None) -> Session:
        """Gives a session to enter with `with` or `async with`; an exception ends it with its class as the reason."""
        return Session(self, session_id or self.config.session_id)

    def _tell_session(self, session: str) -> None:
        content = {"agent_id": self.config.agent_id, "model_id": self.config.model_id, "session_id": session}
        self._tell(session, "session_started", _at(lambda: content))

    def _tell_end(self, session: str, reason: str, *, is_failure: bool) -> None:
        content = {"reason": reason, "summary_sha256": _NO_TEXT, "is_failure": is_failure}
        self._tell(session, ENDED, _at(lambda: content))

    def flush(self, timeout: float | None = None) -> bool:
        """Delivers everything that was told so far; says whether all of it is on the record now."""
        return self._recorder.flush(timeout)

    def stop(self) -> None:
        """Delivers what can be delivered in time; the rest waits in the spool, and the next handler delivers it."""
        self._recorder.stop()
        if self._owned is not None:
            self._owned.close()

    # Models

    def on_llm_start(
        self, serialized: Mapping[str, Any] | None, prompts: Sequence[str], *, run_id: UUID, **rest: Any
    ) -> None:
        """Remembers what a model is asked, until it answers."""
        self._begin(run_id, serialized, tuple(prompts), rest)

    def on_chat_model_start(
        self, serialized: Mapping[str, Any] | None, messages: Sequence[Sequence[Any]], *, run_id: UUID, **rest: Any
    ) -> None:
        """Remembers what a chat model is asked, until it answers."""
        self._begin(run_id, serialized, tuple(map(tuple, messages)), rest)

    def on_llm_end(self, response: Any, *, run_id: UUID, **rest: Any) -> None:
        """Tells of a model's answer."""
        self._end(run_id, "model_invoked", model_invoked, response, None, rest)

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **rest: Any) -> None:
        """Tells of a model that gave no answer."""
        self._end(run_id, "model_invoked", model_invoked, None, error, rest)

    # Tools

    def on_tool_start(self, serialized: Mapping[str, Any] | None, input_str: str, *, run_id: UUID, **rest: Any) -> None:
        """Tells that a tool is called."""
        asked = rest.get("inputs")
        opened = self._begin(run_id, serialized, input_str if asked is None else asked, rest)
        keep = self.config.keep
        self._tell(opened.session, "tool_called", lambda: tool_called(opened.started, keep))

    def on_tool_end(self, output: Any, *, run_id: UUID, **rest: Any) -> None:
        """Tells what a tool gave."""
        self._end(run_id, "tool_returned", tool_returned, output, None, rest)

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **rest: Any) -> None:
        """Tells what a tool raised."""
        self._end(run_id, "tool_returned", tool_returned, None, error, rest)

    # Retrievers, chains and graphs, where they are asked for

    def on_retriever_start(
        self, serialized: Mapping[str, Any] | None, query: str, *, run_id: UUID, **rest: Any
    ) -> None:
        """Remembers what is looked for."""
        self._begin(run_id, serialized, query, rest)

    def on_retriever_end(self, documents: Sequence[Any], *, run_id: UUID, **rest: Any) -> None:
        """Tells what was found."""
        self._end(run_id, "retriever_returned", retriever_returned, documents, None, rest)

    def on_retriever_error(self, error: BaseException, *, run_id: UUID, **rest: Any) -> None:
        """Tells that nothing could be looked for."""
        self._end(run_id, "retriever_returned", retriever_returned, None, error, rest)

    def on_chain_start(self, serialized: Mapping[str, Any] | None, inputs: Any, *, run_id: UUID, **rest: Any) -> None:
        """Tells that a chain begins, or that a node of a graph is entered."""
        if self._is_asked_for(rest):
            opened = self._begin(run_id, serialized, inputs, rest)
            keep = self.config.keep
            self._tell(opened.session, "chain_started", lambda: chain_started(opened.started, keep))

    def on_chain_end(self, outputs: Any, *, run_id: UUID, **rest: Any) -> None:
        """Tells what a chain or node gave."""
        if run_id in self._open:
            self._end(run_id, "chain_ended", chain_ended, outputs, None, rest)

    def on_chain_error(self, error: BaseException, *, run_id: UUID, **rest: Any) -> None:
        """Tells what a chain or node raised."""
        if run_id in self._open:
            self._end(run_id, "chain_ended", chain_ended, None, error, rest)

    def on_interrupt(self, event: GraphInterruptEvent) -> None:
        """Tells that a graph has paused, and at which checkpoint."""
        if "graph" in self._also:
            self._tell(self._session(), "graph_paused", _at(lambda: graph_moved(event)))

    def on_resume(self, event: GraphResumeEvent) -> None:
        """Tells that a graph goes on, and from which checkpoint."""
        if "graph" in self._also:
            self._tell(self._session(), "graph_resumed", _at(lambda: graph_moved(event)))

    def _is_asked_for(self, rest: Mapping[str, Any]) -> bool:
        return "chains" in self._also or "langgraph_node" in (rest.get("metadata") or ())

    def _session(self) -> str:
        entered = _sessions.get()
        return (entered and entered.get(id(self))) or self._current or self.config.session_id

    def _begin(self, run_id: UUID, serialized: Any, asked: Any, rest: Mapping[str, Any]) -> _Open:
        started = Started(run_id, time.time_ns(), self.config.model_id, serialized, asked, rest)
        opened = self._open[run_id] = _Open(self._session(), started)
        return opened

    def _end(
        self, run_id: UUID, kind: str, told: Any, given: Any, error: BaseException | None, rest: Mapping[str, Any]
    ) -> None:
        """Tells how a call ended; one whose beginning was not seen is told as that, and not left out."""
        now, keep = time.time_ns(), self.config.keep
        opened: _Open | None = self._open.pop(run_id, None)
        if opened is None:
            opened = _Open(self._session(), Started(run_id, None, self.config.model_id, None, None, rest))
        session, started = opened
        self._tell(session, kind, lambda: told(started, now, given, error, keep))


class Session:
    """Is a session around a block; inside it, in this task or thread and those begun from it, events belong to it."""

    def __init__(self, handler: LedgerCallbackHandler, session_id: str) -> None:
        self._handler = handler
        self.id = session_id
        self._before: Token[Mapping[int, str] | None] | None = None

    def __enter__(self) -> LedgerCallbackHandler:
        self._before = _sessions.set({**(_sessions.get() or {}), id(self._handler): self.id})
        self._handler._tell_session(self.id)
        return self._handler

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        assert self._before is not None, "who leaves has entered"
        _sessions.reset(self._before)
        reason = "completed" if kind is None else kind.__name__
        self._handler._tell_end(self.id, reason, is_failure=kind is not None)

    async def __aenter__(self) -> LedgerCallbackHandler:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, at)


def _at(content: Content) -> Content:
    """Adds the time at which this was told, which may be a while before it is on the record."""
    now = time.time_ns()
    return lambda: {"at_ns": str(now), **content()}
