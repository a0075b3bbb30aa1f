"""Faults of our own, 37 to 56: what an exception means, what a call is, and what was consented to."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from math import inf, nan
from pathlib import Path
from typing import Any

import pytest

import indelible
from indelible import (
    Claimed,
    Failed,
    Idempotent,
    Ledger,
    NothingHappened,
    Refused,
    Resource,
    Retry,
    Succeeded,
    ToolCall,
    current_effect,
    migrate,
)
from indelible.errors import (
    ApprovalPending,
    BadCall,
    BudgetExceeded,
    EffectFailed,
    EffectInDoubt,
    KeyReused,
    LeaseLost,
    NotAuthenticated,
    NotSealed,
    ResourceBusy,
    ResultNotRecorded,
    StoreUnavailable,
)
from indelible.integrations.function_calls import FunctionCalls
from indelible.server.gateway_tools import GatewayTool
from tests.journal.exported import key_of
from tests.waiting import eventually

LOST = (ConnectionResetError("peer"), BrokenPipeError("pipe"), TimeoutError("read"), KeyError("id"), ValueError("json"))


@pytest.fixture
def ledger(store_url: str) -> Iterator[Ledger]:
    migrate(store_url)
    with Ledger.open(store_url, seal=False) as opened:
        day = {"name": "day", "limit": 1000, "window": "1d", "sum": "cents", "match": {"tool": "charge"}}
        opened.apply_policy({"defaults": "allow", "budgets": [day]}, by="ana")
        yield opened


class Provider:
    """Charges, and then answers as it likes."""

    def __init__(self, *answers: Any) -> None:
        self.charged: list[int] = []
        self.answers = list(answers)

    def charge(self, order: str, cents: int = 500) -> dict[str, int]:
        self.charged.append(cents)
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, BaseException):
            raise type(answer)(*answer.args)  # a new one each time, as a handler raises it
        return {"charged": cents}


@pytest.mark.parametrize("error", LOST, ids=lambda error: type(error).__name__)
def test_37_a_lost_answer_leaves_doubt_and_keeps_its_budget(ledger: Ledger, error: Exception) -> None:
    provider = Provider(error)
    charge = ledger.tool("charge", side_effect="payment")(provider.charge)
    with ledger.in_run("r"):
        with pytest.raises(type(error)) as raised:
            charge("1")
        (effect,) = ledger.effects()
        assert effect.status == "in_doubt"
        assert any(effect.id in note for note in raised.value.__notes__), "it says what to do next"
        with pytest.raises(EffectInDoubt):
            charge("1")
        with pytest.raises(BudgetExceeded):
            charge("2", cents=501)
        assert provider.charged == [500]
        ledger.settle(effect, Failed("never arrived"), by="ana", evidence="statement")
        assert charge("2", cents=501) == {"charged": 501}


@pytest.mark.parametrize(
    ("error", "options"),
    [
        (Refused("declined"), {}),
        (ValueError("declined"), {"failed_on": ValueError}),
        (ValueError("declined"), {"refused": lambda error: "declined" in str(error)}),
    ],
    ids=["Refused", "failed_on", "refused"],
)
def test_37_a_declared_refusal_fails_and_gives_the_budget_back(ledger: Ledger, error: Any, options: Any) -> None:
    provider = Provider(error)
    charge = ledger.tool("charge", side_effect="payment", **options)(provider.charge)
    with ledger.in_run("r"):
        with pytest.raises(type(error)):
            charge("1")
        assert ledger.effects()[0].status == "failed"
        assert charge("2", cents=1000) == {"charged": 1000}


def test_37_before_sending_nothing_happened(ledger: Ledger) -> None:
    sent: list[str] = []
    raises: list[Exception] = [ValueError("before"), ValueError("inside")]

    def pay(effect: Any) -> str:
        if raises[0].args == ("before",):
            raise raises.pop(0)
        with effect.sending():
            sent.append(effect.key)
            raise raises.pop(0)

    call = ToolCall(tool="pay", args={"cents": 1}, run_id="r")
    statuses = []
    for _ in range(2):
        with pytest.raises(ValueError, match=r"before|inside"):
            ledger.run(call, pay, side_effect="payment", marks_sending=True)
        statuses.append(ledger.effects()[0].status)
    assert statuses == ["ready", "in_doubt"]
    assert len(sent) == 1


def test_37_a_child_process_that_sends_proves_nothing_to_its_parent(ledger: Ledger) -> None:
    """What a forked child sends is not seen by the effect, so it is refused before anything leaves."""

    def pay(effect: Any) -> None:
        child = os.fork()
        if child == 0:
            try:
                effect.mark_sending()
            except ValueError:
                os._exit(7)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        raise RuntimeError("the child was refused")

    with pytest.raises(RuntimeError):
        ledger.run(ToolCall(tool="pay", args={"cents": 1}, run_id="r"), pay, marks_sending=True)
    assert ledger.effects()[0].status == "ready"


def test_38_a_call_by_hand_is_bound_as_the_tool_binds_it(ledger: Ledger) -> None:
    provider = Provider()
    charge = ledger.tool("charge", side_effect="payment", key=["order"])(provider.charge)
    much = {"name": "much", "match": {"args": {"cents": {"gt": 400}}}, "then": "ask"}
    with ledger.in_run("r"):
        charge("1", 5)
        ledger.run(ToolCall(tool="charge", args={"order": "1", "cents": 5}, run_id="r"), charge.handler)
        assert provider.charged == [5], "the tool's key holds for a call by hand too"
        ledger.apply_policy({"defaults": "allow", "rules": [much]}, by="ana")
        with pytest.raises(ApprovalPending):
            ledger.run(ToolCall(tool="charge", args={"order": "2"}, run_id="r"), charge.handler, wait=False)
        (approval,) = ledger.approvals(status="pending")
        assert ledger.view_approval(approval).args == {"order": "2", "cents": 500}


@pytest.mark.parametrize("ends", ["succeeded", "failed", "in_doubt"])
def test_40_a_key_with_other_arguments_is_refused_whatever_came_of_the_first(ledger: Ledger, ends: str) -> None:
    errors = {"failed": Refused("no"), "in_doubt": OSError("cut")}
    provider = Provider(errors.get(ends))
    charge = ledger.tool("charge", side_effect="payment", key=["order"])(provider.charge)
    with ledger.in_run("r"):
        if ends == "succeeded":
            charge("1", 500)
        else:
            with pytest.raises(type(errors[ends])):
                charge("1", 500)
        with pytest.raises(KeyReused) as refused:
            charge("1", 9900)
    assert refused.value.differing == {"cents": (500, 9900)}
    assert (refused.value.outcome is None) == (ends == "in_doubt")
    if ends == "succeeded":
        assert refused.value.outcome == Succeeded({"charged": 500})
    assert provider.charged == [500]


def test_40_a_tool_may_say_that_a_reused_key_replays(ledger: Ledger) -> None:
    provider = Provider()
    charge = ledger.tool("charge", key=["order"], on_reuse="replay")(provider.charge)
    with ledger.in_run("r"):
        assert charge("1", 5) == charge("1", 7) == {"charged": 5}


def test_44_a_deploy_that_adds_a_parameter_runs_no_finished_call_again(store_url: str) -> None:
    """The old and the new version of a program side by side, on one ledger."""
    migrate(store_url)
    charged: list[Any] = []
    with Ledger.open(store_url, seal=False) as old, Ledger.open(store_url, seal=False) as new:

        @old.tool("charge", side_effect="payment")
        def before(order: str) -> str:
            charged.append((order, None))
            return f"charged {order}"

        @new.tool("charge", side_effect="payment", added={"currency": "usd"})
        def after(order: str, currency: str = "usd") -> str:
            charged.append((order, currency))
            return f"charged {order} in {currency}"

        with old.in_run("r"):
            assert before("1") == after("1") == after("1", "usd") == "charged 1"
            assert after("1", "eur") == "charged 1 in eur"
            assert after("2") == before("2") == "charged 2 in usd"
    assert charged == [("1", None), ("1", "eur"), ("2", "usd")]


def test_words_that_a_model_rewords_are_no_other_call(ledger: Ledger) -> None:
    notes: list[str] = []

    @ledger.tool(side_effect="payment", varies=["note"], approval="required")
    def pay(cents: int, note: str) -> str:
        notes.append(note)
        return "paid"

    with ledger.in_run("r"):
        with pytest.raises(ApprovalPending):
            ledger.run(pay.bind(5, "rent"), pay.handler, wait=False)
        (approval,) = ledger.approvals(status="pending")
        ledger.approve(approval, digest=approval.digest, by="ana")
        assert pay(5, "the rent for May") == pay(5, "May rent") == "paid"
    assert notes == ["rent"], "what was shown and approved is what ran"
    assert len(ledger.approvals()) == 1


def test_53_every_turn_before_counts_and_not_only_the_first(ledger: Ledger) -> None:
    """Declined in the first turn, paid in the second: the third asks. In doubt in any turn: in doubt in every other."""
    provider = Provider(Refused("declined"), None, Refused("declined"), OSError("cut"))

    def called(order: str, turn: str) -> Any:
        call = ToolCall(tool="charge", args={"order": order, "cents": 5}, run_id="r", dedupe="turn", turn=turn)
        return ledger.run(call, lambda effect: provider.charge(**effect.args), side_effect="payment", wait=False)

    with pytest.raises(Refused):
        called("1", "m1")
    assert called("1", "m2") == called("1", "m2") == {"charged": 5}
    for turn in ("m3", "m4"):
        with pytest.raises(ApprovalPending):
            called("1", turn)
    with pytest.raises(Refused):
        called("2", "m1")
    with pytest.raises(OSError, match="cut"):
        called("2", "m2")
    for turn in ("m1", "m2", "m3"):
        with pytest.raises((EffectInDoubt, EffectFailed)):
            called("2", turn)
    assert len(provider.charged) == 4


def by_the_tool(ledger: Ledger, words: Any, pay: Any) -> Any:
    return ledger.tool("pay", **words)(pay)


def by_hand(ledger: Ledger, words: Any, pay: Any) -> Any:
    tool = ledger.tool("pay", **words)(pay)
    return lambda **args: ledger.run(ToolCall(tool="pay", args=args), tool.handler)


def by_an_adapter(ledger: Ledger, words: Any, pay: Any) -> Any:
    calls = FunctionCalls(ledger, {"pay": pay}, run="r", terms={"pay": words})
    return lambda **args: calls.answer([{"id": "c1", "function": {"name": "pay", "arguments": json.dumps(args)}}])


def by_a_server(ledger: Ledger, words: Any, pay: Any) -> Any:
    identity = {word: words[word] for word in words.keys() & {"turn", "dedupe", "key", "varies"}}
    served = GatewayTool(name="pay", words={}, identity=identity)
    treated: Any = {"side_effect": "payment", "wait": False}

    def called(**args: Any) -> Any:
        return ledger.run(served.call(args, "r", None), lambda effect: pay(**effect.args), **treated)

    return called


@pytest.mark.parametrize("more", [{}, {"key": ["order"]}, {"varies": ["message"]}], ids=str)
@pytest.mark.parametrize("door", [by_the_tool, by_hand, by_an_adapter, by_a_server])
def test_53_an_argument_that_names_the_turn_does_not_tell_the_call_from_another(
    ledger: Ledger, door: Any, more: Any
) -> None:
    provider = Provider(None, OSError("cut"))

    def pay(order: str, message: str) -> Any:
        return provider.charge(order)

    called = door(
        ledger, {"side_effect": "payment", "dedupe": "turn", "turn": "args.message", "wait": False, **more}, pay
    )
    found: list[list[str]] = []
    with ledger.in_run("r"):
        for order, message in (("1", "m1"), ("1", "m1"), ("1", "m2"), ("2", "m1"), ("2", "m2")):
            with suppress(ApprovalPending, EffectInDoubt, OSError):
                called(order=order, message=message)
            found.append(sorted(effect.status for effect in ledger.effects()))
    asked = ["requires_approval", "succeeded"]
    assert found == [["succeeded"], ["succeeded"], asked, ["in_doubt", *asked], ["in_doubt", *asked]]
    assert len(provider.charged) == 2


def test_53_a_turn_that_a_function_makes_says_which_arguments_may_differ(ledger: Ledger) -> None:
    def charge(order: str, message: str) -> None:
        raise NotImplementedError

    words: Any = {"dedupe": "turn", "turn": lambda args: args["message"]}
    with pytest.raises(BadCall):
        ledger.tool("charge", **words)(charge)
    with pytest.raises(BadCall):
        FunctionCalls(ledger, {"charge": charge}, run="r", terms={"charge": {"turn": words["turn"]}})
    others: list[Any] = [{"varies": ["message"]}, {"varies": []}, {"key": ["order"]}, {"dedupe": "args"}]
    for more in others:
        ledger.tool("charge", **(words | more))(charge)


def test_37_an_attempt_that_was_never_entered_leaves_the_doubt_of_the_one_before(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the effect would be free, and be sent again after its provider has forgotten the key."""
    call = ToolCall(tool="pay", args={"cents": 5}, run_id="r")
    words: Any = {"side_effect": "payment", "downstream": Idempotent(attempts=1)}

    def lost(effect: Any) -> None:
        raise ConnectionResetError("peer")

    with pytest.raises(ConnectionResetError):
        ledger.run(call, lost, **words)
    monkeypatch.setattr(ledger._engine, "_is_still_ours", lambda *_: False)
    with pytest.raises(LeaseLost):
        ledger.run(call, lost, **words)
    assert [(effect.status, effect.attempt) for effect in ledger.effects()] == [("in_doubt", 2)]


def test_an_edit_by_a_process_without_the_tool_keeps_its_resource(ledger: Ledger, store_url: str) -> None:
    order_of: Any = {"namespace": "shop", "type": "order", "id": "args.order"}
    ship = ToolCall(tool="ship", args={"order": "1", "to": "a"}, run_id="r")
    with pytest.raises(ApprovalPending) as asked:
        ledger.run(ship, lambda effect: 1, exclusive=order_of, approval="required", wait=False)
    with Ledger.open(store_url, seal=False) as other:
        question = asked.value.approval
        other.edit_approval(question, {"order": "1", "to": "b"}, digest=question.digest, by="ana")
    with pytest.raises(ResourceBusy):
        ledger.run(ToolCall(tool="void", args={"order": "1"}, run_id="r"), lambda effect: 1, exclusive=order_of)


def test_56_a_claim_that_was_never_entered_is_free_again(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    entered: list[int] = []
    call = ToolCall(tool="pay", args={"cents": 5}, run_id="r")
    monkeypatch.setattr(ledger._engine, "_is_still_ours", lambda *_: False)
    with pytest.raises(LeaseLost):
        ledger.run(call, lambda effect: entered.append(1))
    assert ledger.effects()[0].status == "ready"
    monkeypatch.undo()
    ledger.run(call, lambda effect: entered.append(1))
    assert entered == [1]


@pytest.mark.parametrize("is_inside", [False, True], ids=["before its handler", "in its handler"])
def test_56_an_interrupt_leaves_nothing_processing(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, is_inside: bool
) -> None:
    def interrupt(*_: Any, **__: Any) -> None:
        signal.raise_signal(signal.SIGINT)

    if not is_inside:
        monkeypatch.setattr(ledger._engine.heartbeats, "keep", interrupt)
    with pytest.raises(KeyboardInterrupt):
        ledger.run(ToolCall(tool="pay", args={"cents": 5}, run_id="r"), interrupt)
    monkeypatch.undo()
    ledger._engine.writer.close()
    assert ledger.effects()[0].status == ("in_doubt" if is_inside else "ready")


def test_a_late_report_of_the_newest_attempt_settles_and_an_older_one_is_kept(ledger: Ledger) -> None:
    go_on = threading.Event()
    call = ToolCall(tool="pay", args={"cents": 5}, run_id="r")

    def slow(effect: Any) -> str:
        assert go_on.wait(60)
        return "paid late"

    with pytest.raises(TimeoutError):
        ledger.run(call, slow, side_effect="payment", timeout=timedelta(milliseconds=50))
    assert ledger.effects()[0].status == "in_doubt"
    go_on.set()
    eventually(lambda: ledger.effects()[0].status == "succeeded")
    assert ledger.run(call, slow) == "paid late"
    types = [event.type for event in ledger.events("r")]
    assert types == ["tool_call_started", "tool_call_in_doubt", "tool_call_finished"]


def test_doubt_resolves_itself_where_the_provider_honours_the_key(ledger: Ledger) -> None:
    keys: list[str] = []

    def pay(effect: Any) -> str:
        keys.append(effect.key)
        if len(keys) < 3:
            raise ConnectionResetError("peer")
        return "paid"

    downstream = Idempotent(attempts=2, backoff=timedelta(0))
    call = ToolCall(tool="pay", args={"cents": 5}, run_id="r")
    with pytest.raises(ConnectionResetError):
        ledger.run(call, pay, side_effect="payment", downstream=downstream)
    assert ledger.run(call, pay, side_effect="payment", downstream=downstream) == "paid"
    assert len(keys) == 3
    assert len(set(keys)) == 1


def test_two_calls_on_one_resource_are_not_open_at_once(ledger: Ledger) -> None:
    inside, go_on = threading.Event(), threading.Event()
    done: list[str] = []

    def slow(effect: Any) -> str:
        inside.set()
        assert go_on.wait(60)
        done.append("slow")
        return "shipped"

    def order_of(args: dict[str, Any]) -> Resource:
        return Resource(namespace="shop", type="order", id=args["order"])

    def ship() -> None:
        ledger.run(ToolCall(tool="ship", args={"order": "1"}, run_id="r"), slow, exclusive=order_of)

    thread = threading.Thread(target=ship)
    thread.start()
    assert inside.wait(60)
    refund = ToolCall(tool="refund", args={"order": "1", "cents": 5}, run_id="other")
    with pytest.raises(ResourceBusy):
        ledger.run(refund, lambda effect: done.append("refund"), exclusive=order_of)
    other = ToolCall(tool="refund", args={"order": "2", "cents": 5}, run_id="other")
    ledger.run(other, lambda effect: done.append("refund 2"), exclusive=order_of)
    go_on.set()
    thread.join()
    ledger.run(refund, lambda effect: done.append("refund 1"), exclusive=order_of)
    assert done == ["refund 2", "slow", "refund 1"]


def test_37_an_attempt_that_did_nothing_leaves_the_doubt_of_a_retried_one(ledger: Ledger) -> None:
    provider = Provider(ConnectionError("answer lost"), NothingHappened("not connected"))
    retry = Retry(on=(ConnectionError,), attempts=3, backoff=timedelta(milliseconds=1))
    charge = ledger.tool("charge", side_effect="payment", retry=retry)(provider.charge)
    with ledger.in_run("r"):
        with pytest.raises(NothingHappened):
            charge("1", 1000)
        (effect,) = ledger.effects()
        assert (effect.status, effect.attempt) == ("in_doubt", 2)
        with pytest.raises(BudgetExceeded):
            charge("2", 1000)
    assert provider.charged == [1000, 1000]


@pytest.mark.parametrize("refusals", [1, 2])
@pytest.mark.parametrize("on_crash", ["hold", "retry"])
def test_37_a_refusal_after_a_lost_answer_leaves_the_doubt(ledger: Ledger, refusals: int, on_crash: Any) -> None:
    """It ended failed, and gave its budget back: that a later attempt was refused says nothing of the first one."""
    provider = Provider(ConnectionError("answer lost"), *[Refused("no such customer")] * refusals)
    kinds = (ConnectionError, Refused) if refusals == 2 else (ConnectionError,)
    retry = Retry(on=kinds, attempts=3, backoff=timedelta(milliseconds=1))
    charge = ledger.tool("charge", side_effect="payment", retry=retry, on_crash=on_crash)(provider.charge)
    with ledger.in_run("r"):
        with pytest.raises(Refused):
            charge("1", 1000)
        (effect,) = ledger.effects()
        assert (effect.status, effect.attempt) == ("in_doubt", 1 + refusals)
        with pytest.raises(BudgetExceeded):
            charge("2", 1000)


def test_37_a_refusal_after_a_crash_leaves_the_doubt(ledger: Ledger) -> None:
    """`on_crash="retry"` says that repeating is safe, not that the attempt that vanished did nothing."""
    call = ToolCall(tool="charge", args={"order": "1", "cents": 1000}, run_id="r")
    words: dict[str, Any] = {"side_effect": "payment", "on_crash": "retry"}
    lost = ledger.begin(call, lease=timedelta(milliseconds=1), **words)
    assert isinstance(lost, Claimed)

    def refuse(effect: Any) -> None:
        raise Refused("no such customer")

    with pytest.raises(Refused):
        ledger.run(call, refuse, **words)
    (effect,) = ledger.effects()
    assert (effect.status, effect.attempt) == ("in_doubt", 2)
    assert effect.charges_json is not None
    assert ledger.run(call, lambda effect: "done", **words) == "done", "a later attempt that succeeds proves it"


def test_37_callers_wait_for_a_retry_and_get_its_result(ledger: Ledger) -> None:
    provider, paused, results = Provider(ConnectionError("answer lost")), threading.Event(), list[Any]()

    class Slow(Retry):
        def pause_after(self, attempt: int) -> timedelta:
            paused.set()
            return timedelta(milliseconds=300)

    retry = Slow(on=(ConnectionError,), attempts=2)
    charge = ledger.tool("charge", side_effect="payment", retry=retry)(provider.charge)

    def call() -> None:
        with ledger.in_run("r"):
            results.append(charge("1"))

    first = threading.Thread(target=call)
    first.start()
    assert paused.wait(10)
    eventually(lambda: [one.status for one in ledger.effects()] == ["in_doubt"])
    call()
    first.join(10)
    assert (results, provider.charged) == ([{"charged": 500}] * 2, [500, 500])


def test_37_the_window_of_a_provider_counts_from_the_first_entry(ledger: Ledger) -> None:
    provider = Provider(*[ConnectionError("answer lost")] * 3)
    words: dict[str, Any] = {"side_effect": "payment", "approval": "required", "wait": False}
    downstream = Idempotent(window=timedelta(seconds=1), attempts=1)
    charge = ledger.tool("charge", downstream=downstream, **words)(provider.charge)

    def allowed(error: type[Exception]) -> None:
        with pytest.raises(ApprovalPending) as pending:
            charge("1")
        ledger.approve(pending.value.approval, digest=pending.value.approval.digest, by="ana")
        with pytest.raises(error):
            charge("1")

    with ledger.in_run("r"):
        allowed(ConnectionError)
        (effect,) = ledger.effects()
        eventually(lambda: ledger._mint.stamp(ledger._actor).at > effect.created_at + timedelta(seconds=1))
        ledger.retry(effect.id, by="ana", reason="the provider has none")
        allowed(ConnectionError)
        with pytest.raises(EffectInDoubt):
            charge("1")
    assert provider.charged == [500, 500]


def test_37_the_record_of_a_retry_verifies(store_url: str, tmp_path: Path) -> None:
    migrate(store_url, keys=tmp_path / "keys")
    retry = Retry(on=(ConnectionError,), attempts=3, backoff=timedelta(milliseconds=1))
    with Ledger.open(store_url, keys=tmp_path / "keys") as ledger:
        provider = Provider(ConnectionError("lost"), ConnectionError("lost"))
        charge = ledger.tool("charge", side_effect="payment", retry=retry)(provider.charge)
        with ledger.in_run("r"):
            assert charge("1") == {"charged": 500}
        ledger.seal()
        ledger.export(tmp_path / "bundle")
        report = indelible.verify(tmp_path / "bundle", key=key_of(ledger), deep=True)
    assert report.verdict == "verified", report.why


@pytest.mark.parametrize(
    "words",
    [
        *({"retry": 3}, {"downstream": True}, {"timeout": 5}, {"reconcile": 5}, {"compensate": "refund"}),
        *({"wait": nan}, {"wait": inf}, {"lease": timedelta.max}, {"volatile": 1}, {"await_inclusion": "x"}),
    ],
)
def test_37_an_option_of_another_kind_is_refused_before_the_handler_is_entered(ledger: Ledger, words: Any) -> None:
    """`retry=3` was taken. Then the handler's refusal was lost in an `AttributeError`, and the effect was in doubt."""
    provider = Provider(Refused("declined"))
    with pytest.raises(BadCall):
        ledger.tool("charge", side_effect="payment", **words)(provider.charge)
    with pytest.raises(BadCall):
        ledger.run(
            ToolCall(tool="charge", args={"order": "1"}, run_id="r"), lambda effect: provider.charge("1"), **words
        )
    with pytest.raises(BadCall):
        FunctionCalls(ledger, {"charge": provider.charge}, run="r", terms={"charge": words})
    assert provider.charged == []
    assert list(ledger.effects()) == []


@pytest.mark.parametrize("words", [{"multiplier": nan}, {"multiplier": inf}, {"multiplier": 1e300}, {"multiplier": -2}])
def test_37_a_retry_with_pauses_that_cannot_be_is_refused_when_it_is_made(words: Any) -> None:
    with pytest.raises(BadCall):
        Retry(on=(ConnectionError,), attempts=4, **words)
    with pytest.raises(BadCall):
        Retry(on=(ConnectionError,), backoff=timedelta(days=-1))


class Booking:
    """Does its deed, and its transaction can take no report of that, for its handler has ended it."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def book(self, order: str) -> str:
        running = current_effect()
        assert running is not None
        with running.transaction() as connection:
            connection.execute("ROLLBACK")
            self.done.append(order)
        return f"booked {order}"


@pytest.mark.parametrize(("side_effect", "status"), [("write", "in_doubt"), ("read", "ready"), ("none", "ready")])
def test_37_a_call_in_doubt_because_its_report_was_refused_settles_no_outer_one(
    ledger: Ledger, side_effect: Any, status: str
) -> None:
    """It raised a `BadCall`, "nothing was recorded", so the outer call was failed for ever."""
    booking = Booking()
    book = ledger.tool("book", side_effect="payment")(booking.book)
    order = ledger.tool("order", side_effect=side_effect)(lambda order: book(order))
    with ledger.in_run("r"), pytest.raises(ResultNotRecorded) as told:
        order("1")
    assert (booking.done, told.value.value) == (["1"], "booked 1")
    assert isinstance(told.value.__cause__, BadCall)
    assert {effect.tool: effect.status for effect in ledger.effects()} == {"book": "in_doubt", "order": status}


def test_37_a_compensation_whose_report_was_refused_is_told_as_in_doubt(ledger: Ledger) -> None:
    booking = Booking()
    words: Any = {"side_effect": "payment", "compensate": lambda effect: booking.book(effect.id)}
    charge = ledger.tool("charge", **words)(Provider().charge)
    with ledger.in_run("r"):
        charge("1")
    (told,) = ledger.compensate("r")
    assert len(booking.done) == 1
    assert (told.status, type(told.error)) == ("in_doubt", ResultNotRecorded)


@pytest.mark.parametrize(("side_effect", "status"), [("write", "in_doubt"), ("read", "ready"), ("none", "ready")])
def test_37_a_credential_that_ended_settles_no_outer_call(ledger: Ledger, side_effect: Any, status: str) -> None:
    """An inner call at a server met a revoked token: a `read` was failed for ever, and a new token did not help."""
    answers: list[Any] = [NotAuthenticated("revoked"), None]

    def inner(order: str) -> str:
        if (answer := answers.pop(0)) is not None:
            raise answer
        return f"ordered {order}"

    order = ledger.tool("order", side_effect=side_effect)(inner)
    with ledger.in_run("r"):
        with pytest.raises(NotAuthenticated):
            order("1")
        assert [effect.status for effect in ledger.effects()] == [status]
        if status == "ready":
            assert order("1") == "ordered 1"


@pytest.mark.parametrize(
    ("error", "status"), [(NothingHappened, "ready"), (Refused, "failed"), (ConnectionError, "in_doubt")]
)
def test_37_a_future_that_raises_what_an_inner_call_said_settles_no_later_outer_call(
    ledger: Ledger, error: type[Exception], status: str
) -> None:
    """From the second one on, it was believed of the outer call: ready, and paid again."""
    deeds: list[str] = []
    opened: Future[None] = Future()

    def refuse(order: str) -> None:
        raise error("x")

    inner = ledger.tool("inner", side_effect="payment")(refuse)

    def buy(order: str) -> None:
        deeds.append(order)
        if not opened.done():
            try:
                inner("1")
            except Exception as problem:
                opened.set_exception(problem)
        opened.result()

    outer = ledger.tool("outer", side_effect="payment")(buy)
    with ledger.in_run("r"):
        for order in ("1", "2", "2", "3"):
            with pytest.raises((error, EffectInDoubt)):
                outer(order)
    assert deeds == ["1", "2", "3"]
    found = sorted((effect.tool, effect.status) for effect in ledger.effects())
    assert found == [("inner", status), *[("outer", "in_doubt")] * 3]


@dataclass(frozen=True)
class FrozenNothing(NothingHappened):
    code: str


@dataclass(frozen=True)
class FrozenRefusal(Refused):
    code: str


@dataclass(frozen=True)
class FrozenLoss(Exception):
    code: str


@pytest.mark.parametrize("side_effect", ["payment", "write"])
@pytest.mark.parametrize("error", [FrozenNothing, FrozenRefusal, FrozenLoss])
def test_37_an_exception_that_takes_no_attributes_settles_no_outer_call(
    ledger: Ledger, error: type[Exception], side_effect: Any
) -> None:
    """What it had said of the inner call was lost, so the outer one was free again, and paid twice, or was failed."""
    deeds = []

    def refuse(order: str) -> None:
        raise error("x")

    inner = ledger.tool("inner", side_effect="payment")(refuse)

    def buy(order: str) -> None:
        deeds.append(order)
        inner(order)

    outer = ledger.tool("outer", side_effect=side_effect)(buy)
    with ledger.in_run("r"):
        with pytest.raises(error):
            outer("1")
        with suppress(EffectInDoubt, EffectFailed, error):
            outer("1")
    assert deeds == ["1"]
    is_declared = side_effect == "write" and error is FrozenRefusal  # an inner call that failed has ended
    (found,) = ledger.effects(tool="outer")
    assert found.status == ("failed" if is_declared else "in_doubt")


class Asking(Exception):
    """Looks up what it is asked for in the provider's answer, as errors of some clients do."""

    passed_at = left_open_in = effect_id = "the provider's own"

    def __getattr__(self, name: str) -> Any:
        raise KeyError(name)


@pytest.mark.parametrize(
    ("side_effect", "status"), [("payment", "failed"), ("write", "failed"), ("notification", "in_doubt")]
)
def test_37_attributes_of_an_exception_say_nothing_of_the_ledger(ledger: Ledger, side_effect: Any, status: str) -> None:
    def refuse(order: str) -> None:
        raise Asking("declined")

    words: Any = {"failed_on": Asking} if side_effect == "payment" else {}
    pay = ledger.tool("pay", side_effect=side_effect, **words)(refuse)
    with ledger.in_run("r"), pytest.raises(Asking):
        pay("1")
    assert [effect.status for effect in ledger.effects()] == [status]


@pytest.mark.parametrize(("side_effect", "status"), [("write", "in_doubt"), ("read", "ready"), ("none", "ready")])
@pytest.mark.parametrize("answer", [{"id": "ch_1"}, Succeeded(object()), Failed({"code": 7})])  # type: ignore[arg-type]
def test_37_a_probe_whose_answer_cannot_be_recorded_leaves_inner_and_outer_call_open(
    ledger: Ledger, answer: Any, side_effect: Any, status: str
) -> None:
    """It raised a `BadCall`, "nothing was recorded", so the outer call was failed for ever."""
    provider = Provider(ConnectionError("lost"))
    charge = ledger.tool("charge", side_effect="payment", reconcile=lambda effect: answer)(provider.charge)
    order = ledger.tool("order", side_effect=side_effect)(lambda order: charge(order))
    with ledger.in_run("r"):
        with pytest.raises(ConnectionError):
            charge("1")
        with pytest.raises(EffectInDoubt) as told:
            order("1")
        assert isinstance(told.value.__cause__, BadCall | None)
        assert [effect.status for effect in ledger.effects(tool="order")] == [status]
        (inner,) = ledger.effects(tool="charge")
        assert inner.status == "in_doubt"
        ledger.settle(inner.id, Succeeded("ch_1"), by="ana", evidence="seen")
        if status == "ready":
            assert order("1") == "ch_1"
    assert provider.charged == [500]


def test_37_a_compensation_that_is_on_the_record_is_told_as_done_although_its_seal_is_late(
    store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = tmp_path / "keys"
    monkeypatch.setenv("INDELIBLE_KEYS", str(keys))
    migrate(store_url)

    def refund(effect: Any) -> str:
        for key in keys.glob("*/current.pem"):
            key.rename(key.with_suffix(".away"))
        return "re_1"

    with Ledger.open(store_url, on_unsealed="refuse", seal=True) as ledger:
        charge = ledger.tool("charge", side_effect="payment", compensate=refund)(Provider().charge)
        with ledger.in_run("r"):
            charge("1")
        ledger._engine.notary._patience = timedelta(seconds=1)
        (told,) = ledger.compensate("r")
        assert (told.status, type(told.error), told.is_open) == ("done", NotSealed, False)
        assert [effect.status for effect in ledger.effects(tool="charge.compensate")] == ["succeeded"]


@pytest.mark.parametrize("on_unsealed", ["continue", "refuse"])
def test_37_a_call_that_is_on_the_record_is_not_told_as_one_that_was_not_entered(
    store_url: str, on_unsealed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store went away while it was asked for the head: `StoreUnavailable` says that nothing was claimed."""
    migrate(store_url)
    provider = Provider()
    with Ledger.open(store_url, on_unsealed=on_unsealed, seal=True) as ledger:
        charge = ledger.tool("charge", side_effect="payment", await_inclusion=True)(provider.charge)

        journal = type(ledger._engine.store.journal)
        index_of = journal.index_of

        def away(*place: Any) -> Any:
            if threading.current_thread() is not threading.main_thread():
                return index_of(*place)  # what seals still has the store
            assert provider.charged == [500]
            raise StoreUnavailable("away")

        monkeypatch.setattr(journal, "index_of", away)
        with ledger.in_run("r"):
            if on_unsealed == "continue":
                assert charge("1") == {"charged": 500}
            else:
                with pytest.raises(NotSealed):
                    charge("1")
        monkeypatch.undo()
        assert [effect.status for effect in ledger.effects()] == ["succeeded"]
    assert provider.charged == [500]
