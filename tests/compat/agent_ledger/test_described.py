"""What agent-ledger exports and describes runs here with the import changed, on every store."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from dataclasses import replace
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
from tests.compat.agent_ledger.calling import ASKED, BRIEFLY, CHARGE, DEPLOY, Bank, pool_of

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


async def test_by_choice_a_failure_is_in_doubt_unless_it_is_told_as_one(store: EffectStore[Any]) -> None:
    careful = EffectLedger(EffectLedgerOptions(store=store, failed_on=(), on_reuse="refuse"))
    with pytest.raises(ConnectionResetError):
        await careful.run(CHARGE, Bank(ConnectionResetError("the answer was lost")))
    with pytest.raises(EffectInDoubtError):
        await careful.run(CHARGE, Bank())
    told = replace(CHARGE, workflow_id="order-told")
    begun = await careful.begin(told)
    assert await careful.commit(begun.effect.id, CommitFailed(error=EffectError(message="declined")))
    with pytest.raises(EffectFailedError):
        await careful.run(told, Bank())
    keyed = replace(CHARGE, workflow_id="order-keyed", idempotency_keys=["currency"])
    await careful.run(keyed, Bank())
    with pytest.raises(EffectLedgerInvariantError):
        await careful.run(replace(keyed, args={**CHARGE.args, "amount": 1}), Bank())


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
