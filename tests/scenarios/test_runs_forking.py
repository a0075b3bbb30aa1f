"""What was done is not done again: in forks it replays, model turns replay, and compensation happens once."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from indelible import AwaitingApproval, MayHaveHappened, NothingHappened, Refused
from indelible.core.effects.calls import HARMLESS, SIDE_EFFECTS, ModelTurn
from indelible.core.runs.resuming import context_content
from indelible.errors import (
    ApprovalPending,
    BadCall,
    EffectFailed,
    EffectInDoubt,
    PolicyRefused,
    RepeatRefused,
    RunOver,
    UnknownRun,
)
from indelible.testing.clock import FakeClock
from tests.scenarios.hands import begun, inside, resumed, started, told
from tests.scenarios.shells import Count, Driver, Shell, approve, charge


def forked(driver: Driver, run_id: str = "r1", **words: Any) -> Any:
    return begun(driver, "fork_run", run_id, **{"new_id": "f1", **words})


def pay(driver: Driver, run_id: str, number: int, handler: Any) -> Any:
    return driver.run(charge(run_id=run_id, args={"n": number}), handler, side_effect="payment")


def model(driver: Driver, answer: Any) -> tuple[Callable[..., Any], list[Any]]:
    """Gives a stand-in for a model, and the requests it got."""
    seen: list[Any] = []

    def ask(request: Any) -> Any:
        seen.append(request)
        return answer

    async def ask_async(request: Any) -> Any:
        return ask(request)

    return (ask if driver.kind != "async" else ask_async), seen


# Forking


def test_in_a_dry_run_what_is_on_the_record_replays_and_nothing_else_runs(ledger: Driver, shell: Shell) -> None:
    run = started(ledger)
    ask, asked = model(ledger, "pay both")
    assert run.model_turn("gpt", {"prompt": "what now?"}, ask) == "pay both"
    pay(ledger, "r1", 1, Count("one"))
    at = len(told(ledger)) - 1
    pay(ledger, "r1", 2, Count("two"))
    other = shell.open()
    fork = forked(other, at=at)
    handler = Count("never")
    assert fork.model_turn("gpt", {"prompt": "what now, really?"}, ask) == "pay both"
    assert len(asked) == 1
    assert pay(other, "f1", 1, handler) == "one"
    for number in (2, 3):
        with pytest.raises(PolicyRefused, match="dry run of a fork"):
            pay(other, "f1", number, handler)
    assert handler.entries == 0
    assert other.run(charge(run_id="f1", tool="look"), Count("seen"), side_effect="read") == "seen", (
        "reading is harmless"
    )
    assert ledger.effects(run_id="f1", side_effect="payment") == []
    found = ledger.get_run("f1")
    assert (found.fork.run_id, found.fork.at, found.fork.is_dry) == ("r1", at, True)


def test_a_fork_is_of_the_whole_run_if_nothing_else_is_said(ledger: Driver) -> None:
    started(ledger)
    pay(ledger, "r1", 1, Count("one"))
    forked(ledger)
    assert pay(ledger, "f1", 1, Count("never")) == "one"


def test_a_fork_of_a_fork_replays_what_both_replay(ledger: Driver) -> None:
    started(ledger)
    pay(ledger, "r1", 1, Count("one"))
    forked(ledger, dry_run=False)
    pay(ledger, "f1", 2, Count("two"))
    forked(ledger, "f1", new_id="f2")
    handler = Count("never")
    assert [pay(ledger, "f2", number, handler) for number in (1, 2)] == ["one", "two"]
    assert handler.entries == 0


def test_a_fork_that_is_not_dry_replays_what_was_done_and_does_the_rest(ledger: Driver) -> None:
    started(ledger)
    pay(ledger, "r1", 1, Count("one"))
    forked(ledger, dry_run=False)
    handler = Count("new")
    assert pay(ledger, "f1", 1, handler) == "one"
    assert pay(ledger, "f1", 2, handler) == "new"
    assert pay(ledger, "f1", 2, handler) == "new"
    assert handler.entries == 1


def test_what_failed_or_is_in_doubt_in_the_origin_is_so_in_the_fork(ledger: Driver) -> None:
    started(ledger)
    with pytest.raises(Refused):
        pay(ledger, "r1", 1, Count(Refused("no")))
    with pytest.raises(MayHaveHappened):
        pay(ledger, "r1", 2, Count(MayHaveHappened("line cut")))
    handler = Count()
    for name, is_dry in (("dry", True), ("wet", False)):
        forked(ledger, new_id=name, dry_run=is_dry)
        with pytest.raises(EffectFailed):
            pay(ledger, name, 1, handler)
        with pytest.raises(EffectInDoubt):
            pay(ledger, name, 2, handler)
    assert handler.entries == 0


def test_a_fork_may_do_no_more_than_its_origin(ledger: Driver) -> None:
    started(ledger, allowed_tools=["fetch"])
    forked(ledger, dry_run=False)
    with pytest.raises(PolicyRefused, match="allowed tools"):
        pay(ledger, "f1", 1, Count())


def test_a_fork_at_no_event_is_refused(ledger: Driver) -> None:
    started(ledger)
    for nowhere in (-1, 1):
        with pytest.raises(BadCall, match="no event"):
            forked(ledger, at=nowhere)
    with pytest.raises(UnknownRun):
        forked(ledger, "r9")


def test_a_fork_as_a_block_belongs_to_itself(ledger: Driver) -> None:
    started(ledger)
    pay(ledger, "r1", 1, Count("one"))
    assert inside(ledger, lambda run: pay(ledger, run.id, 1, Count()), "fork_run", new_id="f1") == "one"
    assert ledger.get_run("f1").status == "completed"
    assert ledger.get_run("r1").status == "active"


def later(driver: Driver, run_id: str, turn: str, handler: Any, tool: str = "mail", **words: Any) -> Any:
    side_effect = {"mail": "notification", "pay": "payment"}[tool]
    call = charge(run_id=run_id, tool=tool, dedupe="turn", turn=turn)
    return driver.run(call, handler, side_effect=side_effect, wait=False, **words)


@pytest.mark.parametrize("side_effect", SIDE_EFFECTS)
def test_in_a_dry_run_a_call_of_every_class_that_changes_something_is_refused(ledger: Driver, side_effect: str) -> None:
    started(ledger)
    forked(ledger)
    handler = Count("ran")
    if side_effect in HARMLESS:
        assert ledger.run(charge(run_id="f1"), handler, side_effect=side_effect) == "ran"
    else:
        with pytest.raises(PolicyRefused):
            ledger.run(charge(run_id="f1"), handler, side_effect=side_effect)
        assert handler.entries == 0


@pytest.mark.parametrize("is_dry", [True, False])
def test_96_in_a_fork_a_call_of_a_later_turn_is_a_call_of_its_own(ledger: Driver, is_dry: bool) -> None:
    started(ledger)
    for turn in ("t1", "t2"):
        later(ledger, "r1", turn, Count(f"mail of {turn}"))
    later(ledger, "r1", "t1", Count("paid"), tool="pay")
    forked(ledger, dry_run=is_dry)
    handler = Count("new")
    for turn in ("t2", "t1"):
        assert later(ledger, "f1", turn, handler) == f"mail of {turn}"
    assert later(ledger, "f1", "t1", handler, tool="pay") == "paid"
    assert handler.entries == 0
    if is_dry:
        for tool in ("mail", "pay"):
            with pytest.raises(PolicyRefused):
                later(ledger, "f1", "t3", handler, tool=tool)
        assert handler.entries == 0
        return
    with pytest.raises(RepeatRefused):
        later(ledger, "f1", "t3", handler, tool="pay", on_repeat="refuse")
    with pytest.raises(ApprovalPending):
        later(ledger, "f1", "t3", handler, tool="pay")
    assert handler.entries == 0
    for turn, entries in (("t3", 1), ("t4", 2), ("t3", 2)):
        assert later(ledger, "f1", turn, handler) == "new"
        assert handler.entries == entries
    with pytest.raises(RepeatRefused):
        later(ledger, "f1", "t5", handler, on_repeat="refuse")


def test_96_a_fork_of_a_fork_finds_the_turns_of_both(ledger: Driver) -> None:
    started(ledger)
    later(ledger, "r1", "t1", Count("mail of t1"))
    forked(ledger, dry_run=False)
    later(ledger, "f1", "t2", Count("mail of t2"))
    forked(ledger, "f1", new_id="f2")
    handler = Count()
    assert [later(ledger, "f2", turn, handler) for turn in ("t1", "t2")] == ["mail of t1", "mail of t2"]
    with pytest.raises(PolicyRefused):
        later(ledger, "f2", "t3", handler)
    assert handler.entries == 0


def test_96_a_turn_that_came_after_the_event_forked_from_is_not_replayed(ledger: Driver) -> None:
    started(ledger)
    later(ledger, "r1", "t1", Count("mail of t1"))
    at = len(told(ledger)) - 1
    later(ledger, "r1", "t2", Count("mail of t2"))
    forked(ledger, at=at)
    with pytest.raises(PolicyRefused):
        later(ledger, "f1", "t2", Count())


def test_96_in_a_fork_another_call_id_is_asked_about_as_in_its_origin(ledger: Driver) -> None:
    def asking(run_id: str, call_id: str) -> Any:
        return ledger.begin(charge(run_id=run_id, dedupe="ask", call_id=call_id), side_effect="payment", wait=False)

    started(ledger)
    ledger.run(charge(run_id="r1", dedupe="ask", call_id="c1"), Count("one"), side_effect="payment")
    again = asking("r1", "c2")
    approve(ledger, again)
    ledger.run(charge(run_id="r1", dedupe="ask", call_id="c2"), Count("two"), side_effect="payment")
    forked(ledger, dry_run=False)
    assert [asking("f1", one).value for one in ("c1", "c2")] == ["one", "two"]
    assert isinstance(asking("f1", "c3"), AwaitingApproval)


# Comparing


def test_two_runs_are_compared_call_by_call(ledger: Driver) -> None:
    started(ledger)
    started(ledger, "r2")
    for run_id, amounts in (("r1", (1, 2, 3)), ("r2", (1, 9, 3, 4))):
        for place, amount in enumerate(amounts):
            ledger.run(charge(run_id=run_id, tool=f"t{place}", args={"amount": amount}), Count(amount))
    found = ledger.diff_runs("r1", "r2")
    assert [one.kind for one in found] == ["same", "changed", "same", "only_right"]
    changed = {field.path: (field.before, field.after) for field in found[1].fields} if found[1].fields else {}
    assert changed, "it says in what they differ"
    with pytest.raises(UnknownRun):
        ledger.diff_runs("r1", "r9")


def test_a_fork_is_compared_with_what_it_replays(ledger: Driver) -> None:
    started(ledger)
    pay(ledger, "r1", 1, Count("one"))
    at = len(told(ledger)) - 1
    pay(ledger, "r1", 2, Count("two"))
    forked(ledger, at=at, dry_run=False)
    pay(ledger, "f1", 1, Count())
    pay(ledger, "f1", 3, Count("three"))
    assert [one.kind for one in ledger.diff_runs("r1", "f1")] == ["same", "changed"]


# Model turns


def test_a_resumed_run_gets_the_answers_of_its_turns_however_it_asks(ledger: Driver, shell: Shell) -> None:
    run = started(ledger)
    first, _ = model(ledger, {"plan": ["a", "b"]})
    run.model_turn("gpt", {"prompt": "make a plan"}, first)
    run.model_turn("gpt", {"prompt": "go on"}, model(ledger, "done")[0])
    run.hand_off("ben")
    other = shell.open()
    again = resumed(other)
    ask, asked = model(other, "something else")
    assert again.model_turn("gpt", {"prompt": "please make a plan", "seed": 7}, ask) == {"plan": ["a", "b"]}
    assert again.model_turn("gpt", {"prompt": "continue"}, ask) == "done"
    assert asked == []
    assert again.model_turn("gpt", {"prompt": "next"}, ask) == "something else"
    assert asked == [{"prompt": "next"}]


def test_a_model_that_gave_no_answer_is_asked_again(ledger: Driver) -> None:
    run = started(ledger)

    def broken(request: Any) -> Any:
        raise ConnectionError("no model")

    async def broken_async(request: Any) -> Any:
        raise ConnectionError("no model")

    for ask in (broken, broken if ledger.kind == "blocking" else broken_async):
        with pytest.raises(ConnectionError, match="no model"):
            run.model_turn("gpt", {}, ask)
    ask, asked = model(ledger, "plan")
    assert run.model_turn("gpt", {"prompt": "once more"}, ask) == "plan", "the same turn, for it had no answer"
    run.hand_off("ben")
    assert resumed(ledger).model_turn("gpt", {}, broken) == "plan"
    assert asked == [{"prompt": "once more"}]


def test_a_turn_that_was_cut_off_is_taken_again_in_other_words(ledger: Driver, shell: Shell, clock: FakeClock) -> None:
    run = started(ledger)
    ledger.begin(ModelTurn(run_id="r1", args={"turn": 1}), side_effect="read", on_crash="retry")
    clock.advance(timedelta(minutes=5))  # whoever asked is gone
    other = shell.open(clock=clock)
    ask, asked = model(other, "plan")
    assert resumed(other).model_turn("gpt", {"prompt": "reworded"}, ask) == "plan"
    assert asked == [{"prompt": "reworded"}]
    assert run.id == "r1"


def test_a_model_may_answer_in_any_way_a_tool_may(ledger: Driver) -> None:
    async def awaited(request: Any) -> Any:
        return request["n"]

    async def broken(request: Any) -> Any:
        raise ConnectionError("no model")

    run = started(ledger)
    for number, ask in enumerate((awaited, lambda request: awaited(request), lambda request: request["n"])):
        assert run.model_turn("gpt", {"n": number}, ask) == number
    with pytest.raises(ConnectionError, match="no model"):
        run.model_turn("gpt", {}, lambda request: broken(request))


def test_a_turn_is_the_same_turn_whichever_model_is_named(ledger: Driver) -> None:
    """Whoever upgrades the model between a crash and the resume must not plan anew."""
    run = started(ledger, allowed_tools=["model.*"])
    ask, asked = model(ledger, "plan")
    assert run.model_turn("openai/gpt 4", {"temperature": 0.7}, ask) == "plan"
    run.hand_off("ben")
    assert resumed(ledger).model_turn("another one", {}, ask) == "plan"
    assert asked == [{"temperature": 0.7}]
    (effect,) = ledger.effects(run_id="r1")
    asked_for = {"model": "openai/gpt 4", "request": {"temperature": 0.7}}
    assert (effect.tool, effect.args, effect.detail) == ("model.turn", {"turn": 1}, {"answer": "plan", **asked_for})


# Making good


def test_what_a_run_did_is_made_good_in_reverse_and_once(ledger: Driver) -> None:
    made_good: list[Any] = []

    def refund(effect: Any) -> str:
        made_good.append((effect.args["n"], effect.detail))
        return f"re_{effect.args['n']}"

    @ledger.tool(side_effect="payment", compensate=refund)
    def buy(n: int) -> str:
        if n == 2:
            raise ZeroDivisionError("declined")
        return f"ch_{n}"

    @ledger.tool(side_effect="read")
    def look(n: int) -> int:
        return n

    def body(run: Any) -> None:
        for number in (1, 3):
            ledger.call(buy, number)
        ledger.call(look, 1)
        with pytest.raises(ZeroDivisionError):
            ledger.call(buy, 2)

    inside(ledger, body)
    done = ledger.compensate("r1")
    assert [(one.effect.args["n"], one.value) for one in done] == [(3, "re_3"), (1, "re_1")]
    assert [one.value for one in ledger.compensate("r1")] == ["re_3", "re_1"]
    assert made_good == [(3, "ch_3"), (1, "ch_1")], "each once, the newest first, and only what succeeded"
    kinds = {(effect.tool, effect.side_effect) for effect in ledger.effects(run_id="r1")}
    assert ("buy.compensate", "payment") in kinds, "each is an effect of its own"


def statuses(found: list[Any]) -> list[tuple[int, str]]:
    return [(one.effect.args["n"], one.status) for one in found]


def test_a_compensation_that_fails_does_not_stop_the_rest(ledger: Driver) -> None:
    entered: list[int] = []
    problems: dict[int, Exception] = {
        2: Refused("too old"),
        3: MayHaveHappened("line cut"),
        4: NothingHappened("closed on Sundays"),
    }

    def refund(effect: Any) -> str:
        number = effect.args["n"]
        entered.append(number)
        if number in problems:
            raise problems[number]
        return "refunded"

    @ledger.tool(side_effect="payment", compensate=refund)
    def buy(n: int) -> int:
        return n

    @ledger.tool(side_effect="notification")
    def mail(n: int) -> int:
        return n

    def body(run: Any) -> None:
        for number in (1, 2, 3, 4, 5):
            ledger.call(buy, number)
        ledger.call(mail, 6)

    inside(ledger, body)
    found = ledger.compensate("r1")
    expected = [(6, "undeclared"), (5, "done"), (4, "failed"), (3, "in_doubt"), (2, "failed"), (1, "done")]
    assert statuses(found) == expected
    assert [type(one.error) for one in found[2:5]] == [NothingHappened, MayHaveHappened, Refused]
    assert [one.is_open for one in found] == [False, False, True, True, True, False]
    problems.clear()
    again = ledger.compensate("r1")
    left = [(4, "done"), (3, "in_doubt"), (2, "failed")]
    assert statuses(again) == [(6, "undeclared"), (5, "nothing_to_do"), *left, (1, "nothing_to_do")]
    assert entered == [5, 4, 3, 2, 1, 4], "what nobody looked at is not tried again, what did not happen is"
    for status in ("in_doubt", "failed"):
        (stuck,) = ledger.effects(run_id="r1", status=status)
        ledger.retry(stuck.id, by="ada", reason="looked at it")
    assert [status for _, status in statuses(ledger.compensate("r1"))][3:5] == ["done", "done"]
    assert entered[6:] == [3, 2]


def test_a_compensation_may_have_to_wait_for_a_person_or_be_refused(ledger: Driver, shell: Shell) -> None:
    rule = {"name": "refunds", "match": {"tool": "buy.compensate"}}
    asking = shell.open(policy={"rules": [{**rule, "then": "ask"}]}, wait=False)
    refusing = shell.open(policy={"rules": [{**rule, "then": "refuse"}]})

    def buy(n: int) -> int:
        return n

    tools = [one.tool(side_effect="payment", compensate=lambda _: 1)(buy) for one in (ledger, asking, refusing)]
    inside(ledger, lambda run: ledger.call(tools[0], 1))
    assert statuses(refusing.compensate("r1")) == [(1, "failed")]
    assert statuses(asking.compensate("r1")) == [(1, "waiting")]


def test_a_run_that_ended_elsewhere_is_made_good_by_whoever_drove_it(ledger: Driver, shell: Shell) -> None:
    @ledger.tool(side_effect="payment", compensate=lambda effect: "refunded")
    def buy(n: int) -> int:
        return n

    def body(run: Any) -> None:
        ledger.call(buy, 1)
        shell.open().end_run("r1", "canceled", by="ops", reason="wrong customer")
        ledger.call(buy, 2)

    with pytest.raises(RunOver):
        inside(ledger, body)
    assert statuses(ledger.compensate("r1")) == [(1, "done")]
    with pytest.raises(UnknownRun):
        ledger.compensate("never")


def test_a_run_with_few_tools_may_make_good_what_they_did(ledger: Driver) -> None:
    started(ledger, allowed_tools=["buy"])

    @ledger.tool(side_effect="payment", compensate=lambda effect: "refunded")
    def buy(n: int) -> int:
        return n

    with ledger.in_run("r1"):
        ledger.call(buy, 1)
    assert [one.value for one in ledger.compensate("r1")] == ["refunded"]


def test_a_run_told_by_json_has_receipts_of_replayed_work(ledger: Driver) -> None:
    run = started(ledger)
    pay(ledger, "r1", 1, Count({"id": "ch_1"}))
    run.hand_off("ben")
    content = context_content(resumed(ledger).context)
    assert [receipt["payload"] for receipt in content["receipts"]] == [{"id": "ch_1"}]


def test_an_asynchronous_compensation_is_awaited(ledger: Driver) -> None:
    async def refund(effect: Any) -> str:
        return "refunded"

    @ledger.tool(side_effect="payment", compensate=refund)
    def buy(n: int) -> int:
        return n

    inside(ledger, lambda run: ledger.call(buy, 1))
    assert [one.value for one in ledger.compensate("r1")] == ["refunded"]
