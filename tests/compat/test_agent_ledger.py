"""What agent-ledger documents runs here with the import changed, on every store, and its known faults are not here."""

from __future__ import annotations

import asyncio
import gc
import inspect
import logging
from collections.abc import Callable, Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from indelible import Ledger, compat
from indelible.compat import agent_ledger
from indelible.compat.agent_ledger import (
    CommitFailed,
    CommitSucceeded,
    ConcurrencyOptions,
    Effect,
    EffectDeniedError,
    EffectError,
    EffectFailedError,
    EffectInDoubtError,
    EffectLedger,
    EffectLedgerInvariantError,
    EffectLedgerOptions,
    EffectLedgerValidationError,
    EffectStatus,
    EffectStore,
    EffectStoreError,
    EffectTimeoutError,
    LedgerDefaults,
    LedgerHooks,
    LedgerStore,
    MemoryStore,
    ResourceDescriptor,
    RunOptions,
    StaleOptions,
    ToolCall,
    canonicalize,
    compute_idem_key,
    validate_args,
)
from indelible.compat.agent_ledger.stores.postgres import SCHEMA_SQL, PostgresStore

pytestmark = pytest.mark.anyio

# What its package exports, in 0.1.1 and in 0.2.1 alike.
EXPORTED = """
    ALLOWED_TRANSITIONS AWAITING_STATUSES BeginResult CommitFailed CommitOutcome CommitSucceeded ConcurrencyOptions
    Effect EffectDeniedError EffectError EffectFailedError EffectLedger EffectLedgerError EffectLedgerInvariantError
    EffectLedgerOptions EffectLedgerValidationError EffectStatus EffectStore EffectStoreError EffectTimeoutError
    IdempotencyStatus JsonValue LedgerDefaults LedgerHooks MemoryStore ResourceDescriptor RunOptions StaleOptions
    TERMINAL_STATUSES ToolCall UpsertEffectInput UpsertEffectResult canonicalize compute_idem_key generate_id get_logger
    get_tracer is_awaiting_status is_terminal_status is_valid_transition resource_id_canonical validate_args
""".split()  # noqa: SIM905  # it reads better so
# Its verbs, with the names of their arguments in order.
VERBS = {
    "begin": ["call", "tx"],
    "commit": ["effect_id", "outcome", "tx"],
    "run": ["call", "handler", "tx", "run_options", "hooks"],
    "get_effect": ["effect_id", "tx"],
    "find_by_idem_key": ["idem_key", "tx"],
    "idem_key": ["call"],
    "request_approval": ["idem_key", "tx"],
    "approve": ["idem_key", "tx"],
    "deny": ["idem_key", "reason", "tx"],
}
STORE_VERBS = {
    *("transaction", "find_by_idem_key", "find_by_id", "upsert", "transition"),
    *("increment_dedup_count", "claim_for_processing", "list_effects"),
}
STATUSES = {"requires_approval", "ready", "processing", "succeeded", "failed", "canceled", "denied"}
CHARGE = ToolCall(workflow_id="order-123", tool="stripe.charge", args={"amount": 1000, "currency": "usd"})
DEPLOY = ToolCall(workflow_id="deploy-prod", tool="k8s.deploy", args={"image": "app:v2"})
ASKED = RunOptions(requires_approval=True)
BRIEFLY = ConcurrencyOptions(effect_timeout_s=0.05, approval_timeout_s=0.05)


def pool_of(url: str, **kwargs: Any) -> Any:
    """Gives what of psycopg's AsyncConnectionPool says where it leads."""
    return SimpleNamespace(conninfo=url, kwargs=kwargs)


@pytest.fixture
def memory() -> Iterator[MemoryStore]:
    made = MemoryStore()
    yield made
    made.close()


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest) -> Iterator[EffectStore[Any]]:
    made: EffectStore[Any]
    if request.param == "memory":
        made = MemoryStore()
    elif request.param == "sqlite":
        made = LedgerStore(request.getfixturevalue("sqlite_url"))
    else:
        made = PostgresStore(pool=pool_of(request.getfixturevalue("postgres_url")))
    yield made
    made.close()


@pytest.fixture
def ledger(store: EffectStore[Any]) -> EffectLedger[Any]:
    return EffectLedger(EffectLedgerOptions(store=store))


@pytest.fixture
def quick(memory: MemoryStore) -> EffectLedger[Any]:
    """A ledger in memory, for what does not depend on where effects are kept."""
    return EffectLedger(EffectLedgerOptions(store=memory))


class Bank:
    """Is the world outside: counts what was done there."""

    def __init__(self, answer: Any = None, *, entered: asyncio.Event | None = None, leave: asyncio.Event | None = None):
        self.seen: list[Effect] = []
        self._answer = {"status": "charged", "id": "ch_123"} if answer is None else answer
        self._entered, self._leave = entered, leave

    async def __call__(self, effect: Effect) -> Any:
        self.seen.append(effect)
        if self._entered is not None:
            self._entered.set()
        if self._leave is not None:
            await self._leave.wait()
        if isinstance(self._answer, BaseException):
            raise self._answer
        return self._answer


async def until(condition: Callable[[], Any]) -> Any:
    """Waits until something is so."""
    while True:
        found = condition()
        found = await found if inspect.isawaitable(found) else found
        if found:
            return found
        await asyncio.sleep(0.005)


# ── its names ────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_every_name_that_it_exports_is_here() -> None:
    assert compat.__doc__
    assert set(EXPORTED) <= set(agent_ledger.__all__)
    assert all(hasattr(agent_ledger, name) for name in agent_ledger.__all__)


async def test_its_verbs_take_what_they_take_there() -> None:
    for name, words in VERBS.items():
        found = inspect.signature(getattr(EffectLedger, name)).parameters.values()
        assert [each.name for each in found if each.kind is each.POSITIONAL_OR_KEYWORD][1:] == words, name
    assert all(hasattr(EffectStore, name) for name in STORE_VERBS)
    assert {status.value for status in EffectStatus} == {*STATUSES, "in_doubt"}


# Computed by agent-ledger 0.2.1 itself; 0.1.1 gives the same.
@pytest.mark.parametrize(
    ("words", "key"),
    [
        ({}, "ec03c9e99d50d0bab7e9d3593e6564a5d75a6c14239e8e992cb789afa9cf87f1"),
        ({"idempotency_keys": ["b"]}, "497d69bf3df099a43cecd28a2375e8cad82b8a9a32b1a9d3f4afd6bfac3e765f"),
        (
            {"resource": ResourceDescriptor(namespace="n", type="ty", id={"z": 1, "y": "q"})},
            "17de5552f32570732e84db9f22245d706fb38ce28b070934551bf8e2fccad86d",
        ),
        ({"tool": "bad", "args": {}}, "030f20dd8cccd8751542c83c90ccf15f1c4f5255473910dc8c89689bf3ca7265"),
    ],
)
async def test_its_keys_can_be_had(words: dict[str, Any], key: str, memory: MemoryStore) -> None:
    call = ToolCall(**{"workflow_id": "w", "tool": "t", "args": {"b": 1, "a": "x"}, **words})
    assert compute_idem_key(call) == key
    theirs = EffectLedger(EffectLedgerOptions(store=memory, key_scheme="agent-ledger"))
    assert theirs.idem_key(call) == key
    assert EffectLedger(EffectLedgerOptions(store=memory)).idem_key(call) != key


async def test_arguments_have_one_canonical_text() -> None:
    assert canonicalize({"b": 1, "a": "x"}) == validate_args({"b": 1, "a": "x"}) == '{"a":"x","b":1}'
    for wrong in ({"a": object()}, {"a": "x" * 50}, [1]):
        with pytest.raises(EffectLedgerValidationError) as told:
            validate_args(wrong, 20)  # type: ignore[arg-type]
        assert told.value.field == "args"


@pytest.mark.parametrize(
    "make",
    [
        lambda: ToolCall(workflow_id="", tool="t", args={}),
        lambda: ToolCall(workflow_id="w", tool="", args={}),
        lambda: ToolCall(workflow_id="w", tool="t", args=[]),  # type: ignore[arg-type]
        lambda: ToolCall(workflow_id="w", tool="t", args={}, call_id=""),
        lambda: ToolCall(workflow_id="w", tool="t", args={}, idempotency_keys=[]),
        lambda: ToolCall(workflow_id="w", tool="t", args={}, idempotency_keys=["x"]),
        lambda: ResourceDescriptor(namespace="n", type="t", id={}),
        lambda: ConcurrencyOptions(effect_timeout_s=0),
        lambda: ConcurrencyOptions(initial_interval_ms=5000),
        lambda: ConcurrencyOptions(initial_interval_ms=50, initial_interval_s=0.05),
        lambda: ConcurrencyOptions(wait_timeout_ms=50, effect_timeout_s=0.05),
        lambda: StaleOptions(after_ms=-1),
        lambda: LedgerHooks(on_approval_required=3),  # type: ignore[arg-type]
        lambda: EffectLedgerOptions(store=object()),  # type: ignore[arg-type]
        lambda: EffectLedgerOptions(store=MemoryStore(), key_scheme="md5"),  # type: ignore[arg-type]
        lambda: EffectLedgerOptions(store=MemoryStore(), max_args_size_bytes=0),
    ],
)
async def test_what_is_wrong_is_told_before_anything_runs(make: Callable[[], Any]) -> None:
    with pytest.raises(EffectLedgerValidationError):
        make()


# ── its description ──────────────────────────────────────────────────────────────────────────────────────────────────


async def test_the_quick_start_runs_its_handler_once(ledger: EffectLedger[Any]) -> None:
    bank = Bank()
    first = await ledger.run(CHARGE, handler=bank)
    second = await ledger.run(
        ToolCall(workflow_id="order-123", tool="stripe.charge", args={"currency": "usd", "amount": 1000}),
        handler=bank,
    )
    assert first == second == {"status": "charged", "id": "ch_123"}
    (seen,) = bank.seen
    assert seen.args_canonical == '{"amount":1000,"currency":"usd"}'
    assert (seen.workflow_id, seen.tool, seen.status) == ("order-123", "stripe.charge", EffectStatus.PROCESSING)
    found = await ledger.find_by_idem_key(ledger.idem_key(CHARGE))
    assert found is not None
    assert found == await ledger.get_effect(seen.id)
    assert (found.idem_key, found.status, found.result) == (seen.idem_key, EffectStatus.SUCCEEDED, first)
    assert found.completed_at is not None
    assert found.created_at.tzinfo is not None


async def test_a_call_waits_for_its_approval_and_its_hook_is_told_once(ledger: EffectLedger[Any]) -> None:
    bank, told = Bank("deployed"), asyncio.Queue[Effect]()
    hooks = LedgerHooks(on_approval_required=told.put)
    waiting = [
        asyncio.ensure_future(ledger.run(DEPLOY, handler=bank, run_options=ASKED, hooks=hooks)) for _ in range(3)
    ]
    asked = await told.get()
    assert (asked.tool, asked.status) == ("k8s.deploy", EffectStatus.REQUIRES_APPROVAL)
    assert not bank.seen
    assert await ledger.request_approval(asked.idem_key)
    assert await ledger.approve(asked.idem_key) is True
    assert await ledger.approve(asked.idem_key) is False
    assert await asyncio.gather(*waiting) == ["deployed"] * 3
    assert len(bank.seen) == 1
    assert told.empty()


async def test_what_was_denied_never_runs(ledger: EffectLedger[Any]) -> None:
    bank = Bank()

    async def deny(effect: Effect) -> None:
        assert await ledger.deny(effect.idem_key, reason="Denied by operator")

    for _ in range(2):
        with pytest.raises(EffectDeniedError, match="Denied by operator") as denied:
            await ledger.run(DEPLOY, bank, run_options=ASKED, hooks=LedgerHooks(on_approval_required=deny))
        assert (denied.value.reason, denied.value.idem_key) == ("Denied by operator", ledger.idem_key(DEPLOY))
    assert await ledger.deny(ledger.idem_key(DEPLOY)) is False
    assert not bank.seen
    with pytest.raises(EffectDeniedError):  # and whoever executes by hand is told, not given None
        await ledger.begin(DEPLOY)


async def test_a_hook_of_the_call_decides_whether_to_ask(ledger: EffectLedger[Any]) -> None:
    """The spelling of 0.2: `LedgerHooks(requires_approval=…)`; blocking or not."""
    asked: list[str] = []

    async def approve(effect: Effect) -> None:
        asked.append(effect.tool)
        await ledger.approve(effect.idem_key)

    async def is_large(call: ToolCall) -> bool:
        return bool(call.args["amount"] > 500)

    hooks = LedgerHooks(requires_approval=is_large, on_approval_required=approve)
    small = ToolCall(workflow_id="order-123", tool="stripe.charge", args={"amount": 5})
    for call in (small, ToolCall(workflow_id="order-123", tool="stripe.charge", args={"amount": 1000})):
        await ledger.run(call, Bank(), hooks=hooks)
    assert asked == ["stripe.charge"]


async def test_other_fields_than_the_named_ones_change_nothing(ledger: EffectLedger[Any]) -> None:
    """Custom idempotency keys."""
    bank, args = Bank({"number": 7}), {"owner": "acme", "repo": "app", "title": "Bug", "body": "Details..."}
    for body in ("Details...", "Other words"):
        call = ToolCall(
            workflow_id="ticket-456",
            tool="github.create_issue",
            args={**args, "body": body},
            idempotency_keys=["owner", "repo", "title"],
        )
        assert await ledger.run(call, handler=bank) == {"number": 7}
    assert len(bank.seen) == 1
    other = ToolCall(
        workflow_id="ticket-456",
        tool="github.create_issue",
        args={**args, "title": "Another"},
        idempotency_keys=["owner", "repo", "title"],
    )
    await ledger.run(other, handler=bank)
    assert len(bank.seen) == 2


async def test_fine_grained_control_lets_one_of_many_execute(ledger: EffectLedger[Any]) -> None:
    done: list[int] = []

    async def execute(call: ToolCall) -> Any:
        begin_result = await ledger.begin(call)
        if begin_result.cached:
            assert begin_result.idempotency_status == "replayed"
            assert begin_result.effect.status is EffectStatus.SUCCEEDED
            return begin_result.cached_result
        assert begin_result.idempotency_status == "fresh"
        done.append(1)
        await ledger.commit(begin_result.effect.id, CommitSucceeded(result={"n": len(done)}))
        return {"n": len(done)}

    assert await asyncio.gather(*(execute(CHARGE) for _ in range(5))) == [{"n": 1}] * 5
    assert done == [1]


async def test_fine_grained_control_records_failures(ledger: EffectLedger[Any]) -> None:
    begun = await ledger.begin(CHARGE)
    failed = CommitFailed(error=EffectError(message="card declined", code="card_declined"))
    assert await ledger.commit(begun.effect.id, failed) is True
    assert await ledger.commit(begun.effect.id, CommitSucceeded(result=1)) is False  # said twice
    assert await ledger.commit("eff_unknown", CommitSucceeded(result=1)) is False
    found = await ledger.get_effect(begun.effect.id)
    assert found is not None
    assert (found.status, found.error) == (EffectStatus.FAILED, EffectError("card declined", "card_declined"))
    for again in (ledger.run(CHARGE, Bank()), ledger.begin(CHARGE)):
        with pytest.raises(EffectFailedError, match="card declined") as told:
            await again
        assert told.value.effect_error == {"message": "card declined", "code": "card_declined"}
        assert told.value.code == "card_declined"


async def test_a_failure_is_raised_as_itself_and_replayed_as_one_on_record(ledger: EffectLedger[Any]) -> None:
    with pytest.raises(ZeroDivisionError):
        await ledger.run(CHARGE, Bank(ZeroDivisionError("by zero")))
    bank = Bank()
    with pytest.raises(EffectFailedError, match="by zero") as told:
        await ledger.run(CHARGE, bank)
    assert told.value.code == "ZeroDivisionError"
    assert told.value.idem_key == ledger.idem_key(CHARGE)
    assert not bank.seen


@pytest.mark.parametrize(
    "concurrency",
    [
        ConcurrencyOptions(
            wait_timeout_ms=30_000,
            initial_interval_ms=50,
            max_interval_ms=1_000,
            backoff_multiplier=1.5,
            jitter_factor=0.3,
        ),
        ConcurrencyOptions(
            effect_timeout_s=30.0,
            approval_timeout_s=30.0,
            initial_interval_s=0.05,
            max_interval_s=1.0,
            backoff_multiplier=1.5,
            jitter_factor=0.3,
        ),
    ],
)
async def test_the_configuration_runs_in_both_spellings(
    concurrency: ConcurrencyOptions, quick: EffectLedger[Any]
) -> None:
    assert (concurrency.effect_timeout_s, concurrency.approval_timeout_s) == (30.0, 30.0)
    assert (concurrency.initial_interval_s, concurrency.max_interval_s) == (0.05, 1.0)
    options = RunOptions(requires_approval=False, concurrency=concurrency, stale=StaleOptions(after_ms=60_000))
    assert await quick.run(CHARGE, handler=Bank("done"), run_options=options) == "done"


async def test_defaults_hold_unless_a_call_says_otherwise(memory: MemoryStore) -> None:
    """There, any option of a call's own turned the default off that all calls need approval."""
    defaults = LedgerDefaults(
        run=RunOptions(requires_approval=True, concurrency=ConcurrencyOptions(wait_timeout_ms=50))
    )
    ledger = EffectLedger(EffectLedgerOptions(store=memory, defaults=defaults))
    bank = Bank()
    for options in (None, RunOptions(stale=StaleOptions(after_ms=60_000)), RunOptions(concurrency=BRIEFLY)):
        with pytest.raises(EffectTimeoutError) as told:
            await ledger.run(CHARGE, bank, run_options=options)
        assert (told.value.timeout_s, told.value.timeout_ms) == (0.05, 50)
    with pytest.raises(EffectTimeoutError):
        await ledger.begin(CHARGE)
    assert not bank.seen
    other = ToolCall(workflow_id="order-123", tool="look", args={})
    assert await ledger.run(other, bank, run_options=RunOptions(requires_approval=False)) == bank._answer


async def test_a_pool_says_where_the_ledger_is(postgres_url: str) -> None:
    settings = psycopg.conninfo.conninfo_to_dict(postgres_url)
    name = settings.pop("dbname")
    async with await psycopg.AsyncConnection.connect(postgres_url) as connection:
        await connection.execute(SCHEMA_SQL)
    words = psycopg.conninfo.make_conninfo("", **settings)
    store = PostgresStore(pool_of(words, dbname=name, autocommit=True))
    ledger = EffectLedger(EffectLedgerOptions(store=store))
    assert await ledger.run(CHARGE, handler=Bank("here")) == "here"
    store.close()
    with Ledger.open(postgres_url) as ours:
        (found,) = ours.effects()
        assert (found.run_id, found.tool, found.detail) == ("order-123", "stripe.charge", "here")
    with pytest.raises(EffectStoreError, match="LedgerStore"):
        PostgresStore(pool_of(None))  # type: ignore[arg-type]


# ── its faults, by their numbers in the list of them ─────────────────────────────────────────────────────────────────


async def test_2_a_worker_that_lives_is_never_taken_over_from(quick: EffectLedger[Any], memory: MemoryStore) -> None:
    entered, leave = asyncio.Event(), asyncio.Event()
    bank = Bank(entered=entered, leave=leave)
    stale = RunOptions(stale=StaleOptions(after_ms=3000), concurrency=BRIEFLY)
    slow = asyncio.ensure_future(quick.run(CHARGE, bank, run_options=stale))
    await entered.wait()
    ours = memory.open()
    taken = ours.effects()[0].lease_until
    await until(lambda: ours.effects()[0].lease_until != taken)  # it is heard of, so its time has begun anew
    with pytest.raises(EffectTimeoutError):
        await quick.run(CHARGE, bank, run_options=stale)
    leave.set()
    assert await slow == bank._answer
    assert len(bank.seen) == 1


async def test_2_nobody_is_taken_for_dead_within_a_second(quick: EffectLedger[Any], memory: MemoryStore) -> None:
    entered, leave = asyncio.Event(), asyncio.Event()
    hasty = RunOptions(stale=StaleOptions(after_ms=1))
    slow = asyncio.ensure_future(quick.run(CHARGE, Bank(entered=entered, leave=leave), run_options=hasty))
    await entered.wait()
    (found,) = memory.open().effects()
    assert found.lease_until is not None
    assert found.lease_until - found.updated_at >= timedelta(seconds=0.9)  # two clocks: the store's and the stamp's
    leave.set()
    await slow


async def test_3_a_canceled_caller_leaves_the_effect_in_doubt_at_once(ledger: EffectLedger[Any]) -> None:
    entered = asyncio.Event()
    caller = asyncio.ensure_future(ledger.run(CHARGE, Bank(entered=entered, leave=asyncio.Event())))
    await entered.wait()
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    bank = Bank()
    with pytest.raises(EffectInDoubtError, match="may have happened"):
        await ledger.run(CHARGE, bank)
    found = await ledger.find_by_idem_key(ledger.idem_key(CHARGE))
    assert found is not None
    assert found.status is EffectStatus.IN_DOUBT
    assert not bank.seen


async def test_1_what_may_be_repeated_is_taken_over_from_a_worker_that_is_gone(ledger: EffectLedger[Any]) -> None:
    entered, stale = asyncio.Event(), RunOptions(stale=StaleOptions(after_ms=60_000))
    gone = asyncio.ensure_future(ledger.run(CHARGE, Bank(entered=entered, leave=asyncio.Event()), run_options=stale))
    await entered.wait()
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    assert await ledger.run(CHARGE, Bank("again"), run_options=stale) == "again"


async def test_3_who_begins_and_goes_away_leaves_it_in_doubt(sqlite_url: str) -> None:
    store = LedgerStore(sqlite_url)
    ledger = EffectLedger(EffectLedgerOptions(store=store))
    await asyncio.to_thread(asyncio.run, ledger.begin(CHARGE))  # its loop ends before it commits
    with pytest.raises(EffectInDoubtError):
        await ledger.begin(CHARGE)
    store.close()


async def test_4_a_replayed_failure_inside_settles_the_call_around_it(quick: EffectLedger[Any]) -> None:
    with pytest.raises(KeyError):
        await quick.run(CHARGE, Bank(KeyError("inner")))

    async def outer(effect: Effect) -> Any:
        return await quick.run(CHARGE, Bank())

    around = ToolCall(workflow_id="order-123", tool="outer", args={})
    with pytest.raises(EffectFailedError, match="inner"):
        await quick.run(around, outer)
    found = await quick.find_by_idem_key(quick.idem_key(around))
    assert found is not None
    assert found.status is EffectStatus.FAILED


async def test_5_what_happened_is_not_called_failed_because_it_cannot_be_recorded(quick: EffectLedger[Any]) -> None:
    with pytest.raises(EffectInDoubtError, match="cannot be recorded"):
        await quick.run(CHARGE, Bank(object()))
    found = await quick.find_by_idem_key(quick.idem_key(CHARGE))
    assert found is not None
    assert found.status is EffectStatus.IN_DOUBT


async def test_5_a_handler_that_blocks_is_as_good(quick: EffectLedger[Any]) -> None:
    assert await quick.run(CHARGE, lambda effect: effect.tool) == "stripe.charge"
    assert await quick.run(CHARGE, lambda effect: None) == "stripe.charge"


async def test_6_the_first_return_is_the_replay(quick: EffectLedger[Any]) -> None:
    first = await quick.run(CHARGE, Bank({"b": (1, 2), "a": 0}))
    again = await quick.run(CHARGE, Bank())
    assert first == again == {"a": 0, "b": [1, 2]}
    assert list(first) == list(again)


async def test_7_a_stranger_who_knows_the_id_settles_nothing(memory: MemoryStore) -> None:
    mine, theirs = (EffectLedger(EffectLedgerOptions(store=memory)) for _ in range(2))
    begun = await mine.begin(CHARGE)
    assert await theirs.commit(begun.effect.id, CommitSucceeded(result="forged")) is False
    with pytest.raises(EffectLedgerValidationError):
        await mine.commit(begun.effect.id, "done")  # type: ignore[arg-type]
    assert await mine.commit(begun.effect.id, CommitSucceeded(result="true")) is True
    assert await theirs.run(CHARGE, Bank()) == "true"


async def test_9_memory_evicts_nothing_and_hands_out_copies() -> None:
    store = MemoryStore(max_size=1, ttl_seconds=0.001)
    ledger = EffectLedger(EffectLedgerOptions(store=store))
    calls = [ToolCall(workflow_id="w", tool="t", args={"n": number}) for number in range(5)]
    for call in calls:
        await ledger.run(call, Bank({"list": []}))
    (await ledger.run(calls[0], Bank()))["list"].append("changed")
    assert await ledger.run(calls[0], Bank()) == {"list": []}
    assert (store.size, await store.count()) == (5, 5)
    assert {one.args_canonical for one in await store.list_effects()} == {f'{{"n":{n}}}' for n in range(5)}
    store.clear()
    assert store.size == 0
    del store, ledger
    gc.collect()  # what nobody closed is closed when it goes, or a warning fails this test


async def test_15_a_call_id_is_shown_and_does_not_make_another_call(quick: EffectLedger[Any]) -> None:
    bank = Bank()
    for call_id in ("a", "b"):
        call = ToolCall(workflow_id="w", tool="t", args={}, call_id=call_id)
        await quick.run(call, bank)
    assert [seen.call_id for seen in bank.seen] == ["a"]


async def test_16_parts_that_only_look_alike_when_joined_are_two_calls(memory: MemoryStore) -> None:
    for scheme in ("indelible", "agent-ledger"):
        ledger = EffectLedger(EffectLedgerOptions(store=memory, key_scheme=scheme))
        bank = Bank()
        for namespace, kind in (("a/b", "c"), ("a", "b/c")):
            thing = ResourceDescriptor(namespace=namespace, type=kind, id={"id": 1})
            call = ToolCall(workflow_id=f"w-{scheme}", tool="t", args={}, resource=thing)
            await ledger.run(call, bank)
        assert len(bank.seen) == (2 if scheme == "indelible" else 1)  # its own keys cannot tell them apart


async def test_17_large_numbers_are_arguments(quick: EffectLedger[Any], memory: MemoryStore) -> None:
    call = ToolCall(workflow_id="w", tool="t", args={"id": 2**60})
    bank = Bank()
    await quick.run(call, bank)
    assert str(2**60) in bank.seen[0].args_canonical
    theirs = EffectLedger(EffectLedgerOptions(store=memory, key_scheme="agent-ledger"))
    with pytest.raises(EffectLedgerValidationError):  # its keys are made of JSON, which has no such numbers
        await theirs.run(call, bank)


def issue(body: str) -> ToolCall:
    args = {"title": "Bug", "body": body}
    return ToolCall(workflow_id="w", tool="issue", args=args, idempotency_keys=["title"])


async def test_19_a_key_approves_nothing_that_nobody_saw(quick: EffectLedger[Any]) -> None:
    """The same key fields, another body: the button that was made for the first does not approve the second."""
    bank, told = Bank(), asyncio.Queue[Effect]()
    hooks = LedgerHooks(on_approval_required=told.put)
    with pytest.raises(EffectTimeoutError):
        await quick.run(
            issue("harmless"), bank, run_options=RunOptions(requires_approval=True, concurrency=BRIEFLY), hooks=hooks
        )
    seen = await told.get()
    second = asyncio.ensure_future(quick.run(issue("something else"), bank, run_options=ASKED, hooks=hooks))
    other = await told.get()
    assert (other.idem_key == seen.idem_key, other.digest == seen.digest) == (True, False)
    with pytest.raises(EffectLedgerInvariantError, match="other arguments"):
        await quick.approve(seen.idem_key)
    with pytest.raises(EffectLedgerInvariantError, match="something else"):
        await quick.approve(seen.idem_key, digest=seen.digest)
    assert await quick.approve(other.idem_key, digest=other.digest, by="ana") is True
    await second
    assert [effect.args_canonical for effect in bank.seen] == ['{"body":"something else","title":"Bug"}']


async def test_19_who_waits_is_told_that_something_else_is_asked_about(quick: EffectLedger[Any]) -> None:
    """And does not ask anew, or two such callers would take each other's place for ever."""
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def slowly(effect: Effect) -> None:
        asked.set()
        await go_on.wait()

    first = asyncio.ensure_future(
        quick.run(issue("a"), Bank(), run_options=ASKED, hooks=LedgerHooks(on_approval_required=slowly))
    )
    await asked.wait()
    with pytest.raises(EffectTimeoutError):
        await quick.run(issue("b"), Bank(), run_options=RunOptions(requires_approval=True, concurrency=BRIEFLY))
    go_on.set()
    with pytest.raises(EffectLedgerInvariantError, match="no longer about what would run"):
        await first
    found = await quick.find_by_idem_key(quick.idem_key(issue("a")))
    assert found is not None
    assert found.args_canonical == '{"body":"b","title":"Bug"}'


async def test_20_a_hook_that_raises_keeps_the_call_from_running(quick: EffectLedger[Any]) -> None:
    def broken(call: ToolCall) -> bool:
        raise LookupError("no such rule")

    bank = Bank()
    with pytest.raises(LookupError):
        await quick.run(CHARGE, bank, hooks=LedgerHooks(requires_approval=broken))
    assert not bank.seen
    assert await quick.find_by_idem_key(quick.idem_key(CHARGE)) is None


async def test_24_a_hook_that_fails_is_told_again(quick: EffectLedger[Any], caplog: pytest.LogCaptureFixture) -> None:
    told: list[Effect] = []

    def flaky(effect: Effect) -> None:
        told.append(effect)
        if len(told) == 1:
            raise ConnectionError("no network")

    bank = Bank("deployed")
    with caplog.at_level(logging.WARNING):
        waiting = asyncio.ensure_future(
            quick.run(DEPLOY, bank, run_options=ASKED, hooks=LedgerHooks(on_approval_required=flaky))
        )
        await until(lambda: len(told) == 2)
    assert "no network" in caplog.text
    await quick.approve(told[0].idem_key)
    assert await waiting == "deployed"
    assert len(told) == 2


# ── what is said otherwise ───────────────────────────────────────────────────────────────────────────────────────────


async def test_nothing_is_written_past_the_ledger(quick: EffectLedger[Any], memory: MemoryStore) -> None:
    ready, done = EffectStatus.READY, EffectStatus.SUCCEEDED
    for writing in (
        memory.upsert(None),
        memory.transition("id", ready, done),
        memory.claim_for_processing("id", ready),
        memory.increment_dedup_count("key"),
    ):
        with pytest.raises(EffectStoreError, match="past the ledger"):
            await writing
    with pytest.raises(EffectStoreError):
        memory.transaction()
    for verb in (quick.run(CHARGE, Bank(), object()), quick.begin(CHARGE, object()), quick.approve("k", object())):
        with pytest.raises(EffectLedgerValidationError, match=r"current_effect\(\)\.transaction"):
            await verb


async def test_it_is_too_late_to_ask_about_what_may_be_running(quick: EffectLedger[Any]) -> None:
    begun = await quick.begin(CHARGE)
    with pytest.raises(EffectLedgerInvariantError, match="too late"):
        await quick.request_approval(begun.effect.idem_key)
    await quick.commit(begun.effect.id, CommitSucceeded())
    assert await quick.request_approval(begun.effect.idem_key) is False
    for unknown in ("nope", "ab" * 32):
        assert await quick.request_approval(unknown) is False
        assert await quick.approve(unknown) is False
        assert await quick.deny(unknown) is False
        assert await quick.find_by_idem_key(unknown) is None


async def test_another_process_approves_by_the_key_alone(store_url: str) -> None:
    """It has never seen the call, and looks the key up."""
    if store_url.startswith("postgresql"):
        from indelible import migrate

        migrate(store_url)
    asking, deciding = LedgerStore(store_url), LedgerStore(store_url)
    agent, people = (EffectLedger(EffectLedgerOptions(store=one)) for one in (asking, deciding))
    waiting = asyncio.ensure_future(agent.run(DEPLOY, Bank("deployed"), run_options=ASKED))
    key = agent.idem_key(DEPLOY)
    await until(lambda: people.find_by_idem_key(key))
    assert await people.approve(key, by="ana")
    assert await waiting == "deployed"
    asking.close()
    deciding.close()


async def test_a_ledger_that_is_open_serves_and_stays_open(sqlite_url: str) -> None:
    with Ledger.open(sqlite_url) as ours:
        ledger = EffectLedger(EffectLedgerOptions(store=LedgerStore(ours)))
        assert await ledger.run(CHARGE, Bank("done")) == "done"
        ledger._store.close()
        assert [one.run_id for one in ours.effects()] == ["order-123"]


async def test_the_policy_judges_these_calls_too() -> None:
    rules = [
        {"name": "never", "match": {"tool": "wipe"}, "then": "refuse", "why": "on principle"},
        {"name": "ask first", "match": {"tool": "k8s.*"}, "then": "ask"},
    ]
    with Ledger.open(":memory:", seal=False, policy={"rules": rules}) as ours:
        ledger = EffectLedger(EffectLedgerOptions(store=LedgerStore(ours)))
        bank = Bank()
        with pytest.raises(EffectDeniedError, match="never"):
            await ledger.run(ToolCall(workflow_id="w", tool="wipe", args={}), bank)
        with pytest.raises(EffectTimeoutError):  # though the call does not say that it needs approval
            await ledger.run(DEPLOY, bank, run_options=RunOptions(requires_approval=False, concurrency=BRIEFLY))
        assert not bank.seen


async def test_arguments_that_are_too_large_are_refused(memory: MemoryStore) -> None:
    ledger = EffectLedger(EffectLedgerOptions(store=memory, max_args_size_bytes=10))
    with pytest.raises(EffectLedgerValidationError, match="at most 10"):
        await ledger.run(CHARGE, Bank())
    with pytest.raises(EffectLedgerValidationError):  # our ledger's own limits are told the same way
        await EffectLedger(EffectLedgerOptions(store=memory)).run(
            ToolCall(workflow_id="w", tool="no spaces allowed", args={}), Bank()
        )
