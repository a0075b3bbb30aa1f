"""Promises of core.effects.calls: a call that could be misunderstood is refused before anything is recorded."""

from __future__ import annotations

from datetime import timedelta
from math import inf, nan
from types import MappingProxyType
from typing import Any, get_args

import pytest

from indelible.core.effects.calls import (
    HARMLESS,
    SIDE_EFFECTS,
    Idempotent,
    Options,
    Resource,
    Retry,
    SideEffect,
    ToolCall,
    check_name,
    check_tool_name,
    handling_of,
    is_own_record,
    placed,
)
from indelible.errors import BadCall, NoRun

RESOURCE = Resource(namespace="shop", type="order", id="7")


def test_a_call_needs_nothing_but_its_tool() -> None:
    call = ToolCall(tool="pay")
    assert (call.args, call.run_id, call.scope, call.key, call.dedupe) == ({}, None, None, None, "args")


def test_any_mapping_will_do_as_arguments() -> None:
    assert ToolCall(tool="pay", args=MappingProxyType({"a": 1}), run_id="order-1").args["a"] == 1


@pytest.mark.parametrize("tool", ["pay", "a", "x" * 200, "Stripe.charge_v2", "mcp:server/tool-name"])
def test_a_tool_name_may_hold_letters_digits_and_a_few_signs(tool: str) -> None:
    assert ToolCall(tool=tool, run_id="order-1").tool == tool


@pytest.mark.parametrize("tool", ["", "x" * 201, "pay now", "päy", "pay\n", "pay\0", "a|b", '"', "٣"])
def test_any_other_tool_name_is_refused(tool: str) -> None:
    with pytest.raises(BadCall, match="tool name"):
        ToolCall(tool=tool, run_id="order-1")


@pytest.mark.parametrize("args", [None, [], [("a", 1)], "a=1", 5])
def test_arguments_that_are_no_mapping_are_refused(args: Any) -> None:
    with pytest.raises(BadCall, match="mapping"):
        ToolCall(tool="pay", args=args, run_id="order-1")


@pytest.mark.parametrize("field", ["run_id", "scope", "call_id"])
@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "not empty"),
        (7, "must be a text"),
        ("x" * 501, "at most 500"),
        ("lone \ud800", "lone surrogate"),
        ("a\0b", "NUL"),
        ("ä\0", "NUL"),
    ],
)
def test_a_name_that_cannot_stand_in_an_event_is_refused(field: str, name: Any, why: str) -> None:
    with pytest.raises(BadCall, match=why) as refusal:
        ToolCall(tool="pay", **{field: name})
    assert str(refusal.value).startswith(field)


@pytest.mark.parametrize("name", ["a", "x" * 500, "ürün 🎁", "line\nbreak", "a|b/c"])
def test_any_other_text_is_a_name(name: str) -> None:
    check_name("run_id", name)
    assert ToolCall(tool="pay", run_id=name, scope=name, call_id=name).run_id == name


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"dedupe": "sometimes"}, "choose one of args, call, ask"),
        ({"dedupe": "call"}, "needs call_id"),
        ({"key": "order_id"}, "list of argument names"),
        ({"key": []}, "list of argument names"),
        ({"key": ["order_id"], "resource": RESOURCE}, "not both"),
    ],
)
def test_an_identity_that_says_nothing_or_two_things_is_refused(fields: dict[str, Any], why: str) -> None:
    with pytest.raises(BadCall, match=why):
        ToolCall(tool="pay", **fields)


def test_every_way_of_telling_calls_apart_is_accepted() -> None:
    assert ToolCall(tool="pay", dedupe="call", call_id="c1", run_id="order-1").call_id == "c1"
    assert ToolCall(tool="pay", dedupe="ask", run_id="order-1").call_id is None
    assert ToolCall(tool="pay", key=["order_id"], run_id="order-1").key == ["order_id"]
    assert ToolCall(tool="pay", resource=RESOURCE, run_id="order-1").resource == RESOURCE


def test_pauses_between_attempts_grow() -> None:
    retry = Retry(on=(OSError,), backoff=timedelta(seconds=1), multiplier=3)
    assert [retry.pause_after(attempt).total_seconds() for attempt in (1, 2, 3)] == [1, 3, 9]


def test_no_attempt_at_all_is_refused() -> None:
    assert Retry(on=(OSError,), attempts=1).attempts == 1
    with pytest.raises(BadCall, match="at least 1"):
        Retry(on=(OSError,), attempts=0)
    for words in ({"multiplier": nan}, {"multiplier": inf}, {"multiplier": -2}, {"backoff": timedelta(days=-1)}):
        with pytest.raises(BadCall):
            Retry(on=(OSError,), **words)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "words",
    [
        {"side_effect": "harmless"},
        {"approval": "maybe"},
        {"on_crash": "ignore"},
        {"wait": nan},
        {"wait": inf},
        {"lease": timedelta.max},
        {"lease": timedelta(0)},
        {"lease": timedelta(seconds=-1)},
        {"timeout": timedelta(0)},
    ],
)
def test_an_option_that_means_nothing_is_refused_by_name(words: dict[str, Any]) -> None:
    with pytest.raises(BadCall, match=next(iter(words))):
        Options(**words)


def test_what_nobody_said_gets_the_careful_default() -> None:
    handling = handling_of(Options())
    assert (handling.side_effect, handling.on_crash, handling.needs_approval) == ("external_mutation", "hold", False)
    assert handling.lease == handling.wait == timedelta(seconds=30)
    assert handling.timeout is handling.retry is handling.reconcile is None


@pytest.mark.parametrize("side_effect", get_args(SideEffect))
def test_only_what_leaves_no_trace_is_entered_again_unasked(side_effect: SideEffect) -> None:
    expected = "retry" if side_effect in {"none", "read"} else "hold"
    assert handling_of(Options(side_effect=side_effect)).on_crash == expected
    assert handling_of(Options(side_effect=side_effect, on_crash="hold")).on_crash == "hold"
    assert frozenset({"none", "read"}) == HARMLESS


@pytest.mark.parametrize(("approval", "asks"), [("required", True), ("none", False), (None, False)])
def test_approval_is_asked_for_when_it_is_required(approval: Any, asks: bool) -> None:
    assert handling_of(Options(approval=approval)).needs_approval is asks


@pytest.mark.parametrize(
    ("wait", "seconds"), [(None, 30), (True, 30), (False, 0), (0, 0), (1, 1), (2.5, 2.5), (timedelta(minutes=1), 60)]
)
def test_a_wait_is_a_duration_a_number_of_seconds_yes_or_no(wait: Any, seconds: float) -> None:
    assert handling_of(Options(wait=wait)).wait == timedelta(seconds=seconds)


def test_the_ledgers_own_runs_are_closed_to_callers() -> None:
    with pytest.raises(BadCall, match="belong to the ledger"):
        ToolCall(tool="t", run_id="indelible:journal")
    assert ToolCall(tool="t", run_id="indelible").run_id == "indelible"


@pytest.mark.parametrize(
    ("asked", "side_effect", "inclusion"),
    [
        (None, "payment", "awaited_here"),
        (None, "write", "not_awaited"),
        (True, "write", "awaited"),
        (True, "payment", "awaited"),
        (False, "payment", "not_awaited"),
    ],
)
def test_payments_await_inclusion_unless_told_otherwise(asked: bool | None, side_effect: Any, inclusion: str) -> None:
    assert handling_of(Options(side_effect=side_effect, await_inclusion=asked)).inclusion == inclusion


@pytest.mark.parametrize("key", ["", "ab" * 31, "AB" * 32, "ab" * 33, "xy" * 32])
def test_an_adopted_key_has_the_form_of_a_key(key: str) -> None:
    with pytest.raises(BadCall, match="64 hexadecimal digits"):
        ToolCall(tool="pay", adopted_key=key, run_id="order-1")


def test_an_adopted_key_leaves_no_room_for_occurrences() -> None:
    with pytest.raises(BadCall, match="by that key alone"):
        ToolCall(tool="pay", adopted_key="ab" * 32, call_id="c1", dedupe="ask", run_id="order-1")


@pytest.mark.parametrize("name", ["model.turn", "crewai.question"])
def test_55_no_tool_has_the_name_of_the_ledgers_own_record(name: str) -> None:
    check_tool_name(f"{name}s")
    with pytest.raises(BadCall):
        check_tool_name(name)
    assert is_own_record(name, "read")
    assert not is_own_record(name, "write")
    assert not is_own_record("pay", "read")


@pytest.mark.parametrize("subject", ["customer_id", "args", 7])
def test_a_subject_is_an_argument_or_a_function_of_them(subject: Any) -> None:
    for fine in ("args.customer_id", lambda args: args["customer_id"]):
        assert Options(subject=fine).subject is fine
    with pytest.raises(BadCall):
        Options(subject=subject)


@pytest.mark.parametrize("exclusive", ["order", {"id": "1"}, {"namespace": "n", "type": "t", "id": 1}])
def test_54_an_exclusive_that_is_no_resource_is_refused(exclusive: Any) -> None:
    with pytest.raises(BadCall):
        Options(exclusive=exclusive)
    Options(exclusive={"namespace": "n", "type": "t", "id": "args.order"})


@pytest.mark.parametrize(
    ("fields", "side_effect", "current", "expected"),
    [
        ({"run_id": "own"}, "payment", "current", ("own", None)),
        ({}, "payment", "current", ("current", None)),
        ({"scope": "all"}, "payment", "current", ("current", "all")),
        ({"scope": "all"}, "payment", None, ("unnamed", "all")),
        ({}, "read", "current", ("current", None)),
        ({}, "read", None, ("unnamed", "new")),
        ({}, "none", None, ("unnamed", "new")),
    ],
)
def test_a_call_is_placed_in_the_nearest_run(fields: Any, side_effect: Any, current: Any, expected: Any) -> None:
    call = placed(ToolCall(tool="pay", **fields), side_effect, current, lambda: "new")
    assert (call.run, call.scope) == expected


@pytest.mark.parametrize("side_effect", [one for one in SIDE_EFFECTS if one not in HARMLESS])
def test_a_call_with_effects_and_no_run_is_refused(side_effect: Any) -> None:
    call = ToolCall(tool="pay")
    with pytest.raises(NoRun):
        placed(call, side_effect, None, lambda: "new")
    with pytest.raises(NoRun):
        _ = call.run


@pytest.mark.parametrize("name", ["model.turn", "pay.compensate", ".compensate"])
def test_names_of_the_ledgers_own_calls_are_refused(name: str) -> None:
    check_tool_name("pay.compensated")
    with pytest.raises(BadCall):
        check_tool_name(name)


@pytest.mark.parametrize(
    "words",
    [
        *({"retry": 3}, {"retry": True}, {"downstream": True}, {"reconcile": 5}, {"compensate": "refund"}),
        *({"refused": "declined"}, {"lease": 30}, {"timeout": 5}, {"timeout": "5s"}, {"wait": "long"}),
    ],
)
def test_37_an_option_of_another_kind_is_refused_when_it_is_said(words: Any) -> None:
    """`retry=3` was taken, and the handler's exception was lost when it was looked at."""
    with pytest.raises(BadCall):
        Options(**words)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Retry(on=[TimeoutError]),  # type: ignore[arg-type]
        lambda: Retry(on=("TimeoutError",)),  # type: ignore[arg-type]
        lambda: Retry(on=(TimeoutError,), backoff=1),  # type: ignore[arg-type]
        lambda: Idempotent(window=23),  # type: ignore[arg-type]
        lambda: Idempotent(backoff=1),  # type: ignore[arg-type]
    ],
)
def test_37_a_retry_of_another_kind_is_refused_when_it_is_said(make: Any) -> None:
    with pytest.raises(BadCall):
        make()


@pytest.mark.parametrize(
    "words", [{"wait": 5}, {"wait": 0.5}, {"wait": False}, {"retry": Retry(on=(OSError,))}, {"reconcile": len}]
)
def test_options_of_their_kind_are_taken(words: Any) -> None:
    Options(**words)
