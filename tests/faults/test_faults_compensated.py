"""Fault 96: a call that was compensated replays as if it had succeeded."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from indelible import AwaitingApproval, Ledger, MayHaveHappened, Refused, Succeeded, ToolCall
from indelible.engine.preparing import Preparing
from indelible.errors import BadCall, EffectCompensated, IndelibleError
from indelible.integrations.telling import heard_of
from tests.scenarios.fixtures import keys
from tests.scenarios.hands import begun, inside, started
from tests.scenarios.shells import Count, Driver, Shell, charge, in_thread

__all__ = ["keys"]
BUY: dict[str, Any] = {"run_id": "r1", "tool": "buy", "args": {"n": 1}}


def shop(ledger: Driver, undo: Any) -> None:
    """Buys once in the run r1, with a tool that `undo` makes good."""

    @ledger.tool(side_effect="payment", compensate=undo)
    def buy(n: int) -> str:
        return f"ch_{n}"

    inside(ledger, lambda run: ledger.call(buy, 1))


def test_96_a_repeat_of_a_compensated_call_is_refused_and_names_the_compensation(ledger: Driver, shell: Shell) -> None:
    shop(ledger, lambda effect: "re_1")
    again = Count()
    assert ledger.run(ToolCall(**BUY), again, side_effect="payment") == "ch_1", "until then it replays"
    assert [one.status for one in ledger.compensate("r1")] == ["done"]
    for one in (ledger, shell.open()):
        with pytest.raises(EffectCompensated) as caught:
            one.run(ToolCall(**BUY), again, side_effect="payment")
        undone = caught.value
        assert undone.effect is not None
        assert undone.compensation is not None
        assert (undone.effect.tool, undone.effect.status) == ("buy", "succeeded")
        assert (undone.compensation.tool, undone.compensation.status) == ("buy.compensate", "succeeded")
        assert undone.compensation.id in str(undone)
        with pytest.raises(EffectCompensated):
            one.begin(ToolCall(**BUY), side_effect="payment")
    assert again.entries == 0
    anew = ToolCall(**BUY, scope="second purchase")
    assert ledger.run(anew, again, side_effect="payment") == "done", "on purpose it is done again"
    assert again.entries == 1
    assert [one.status for one in ledger.compensate("r1")] == ["done", "nothing_to_do"], "each by itself"


def test_96_other_arguments_under_the_key_of_a_compensated_call_are_not_told_that_it_is_done(ledger: Driver) -> None:
    @ledger.tool(side_effect="payment", key=["n"], compensate=lambda effect: "re_1")
    def buy(n: int, amount: int = 5) -> str:
        return f"ch_{n}"

    inside(ledger, lambda run: ledger.call(buy, 1))
    ledger.compensate("r1")
    other = ToolCall(run_id="r1", tool="buy", args={"n": 1, "amount": 6}, key=["n"])
    for on_reuse in ("refuse", "replay"):
        with pytest.raises(EffectCompensated):
            ledger.run(ToolCall(**{**_words(other), "on_reuse": on_reuse}), Count(), side_effect="payment")


def _words(call: ToolCall) -> dict[str, Any]:
    return {"run_id": call.run_id, "tool": call.tool, "args": dict(call.args), "key": call.key}


@pytest.mark.parametrize(("problem", "stands"), [(Refused, True), (MayHaveHappened, False)])
def test_96_a_call_stands_if_its_compensation_failed_and_not_while_that_is_in_doubt(
    ledger: Driver, problem: type[Exception], stands: bool
) -> None:
    def undo(effect: Any) -> str:
        raise problem("the bank says no")

    shop(ledger, undo)
    ledger.compensate("r1")
    handler = Count()
    if stands:
        assert ledger.run(ToolCall(**BUY), handler, side_effect="payment") == "ch_1"
    else:
        with pytest.raises(EffectCompensated) as caught:
            ledger.run(ToolCall(**BUY), handler, side_effect="payment")
        assert caught.value.compensation is not None
        assert caught.value.compensation.status == "in_doubt"
    assert handler.entries == 0


def test_96_a_later_turn_is_not_told_that_a_compensated_call_succeeded(ledger: Driver) -> None:
    call = charge(run_id="r1", tool="buy", dedupe="turn", turn="m1")

    @ledger.tool(side_effect="payment", compensate=lambda effect: "re")
    def buy(amount: int) -> str:
        return "ch"

    started(ledger).release()
    handler = Count("ch")
    ledger.run(call, handler, side_effect="payment")
    ledger.compensate("r1")
    with pytest.raises(EffectCompensated):
        ledger.run(call, handler, side_effect="payment")
    later = charge(run_id="r1", tool="buy", dedupe="turn", turn="m2")
    with pytest.raises(EffectCompensated):
        ledger.run(later, handler, side_effect="payment", on_repeat="refuse")
    assert isinstance(ledger.begin(later, side_effect="payment"), AwaitingApproval), "a person may say: once more"
    assert handler.entries == 1


def test_96_what_the_model_hears_names_the_compensation_and_does_not_say_done(ledger: Driver) -> None:
    shop(ledger, lambda effect: "re_1")
    ledger.compensate("r1")
    with pytest.raises(EffectCompensated) as caught:
        ledger.run(ToolCall(**BUY), Count(), side_effect="payment")
    heard = heard_of(caught.value, "buy")
    assert heard is not None
    assert heard.outcome == "compensated"
    assert caught.value.compensation is not None
    assert caught.value.compensation.id in heard.text


def test_96_a_compensated_effect_says_so_wherever_it_is_listed(ledger: Driver) -> None:
    shop(ledger, lambda effect: "re_1")
    (bought,) = ledger.effects(run_id="r1")
    assert ledger.compensations([bought]) == {}
    ledger.compensate("r1")
    found = ledger.compensations(ledger.effects(run_id="r1"))
    assert {key: (one.tool, one.status) for key, one in found.items()} == {bought.id: ("buy.compensate", "succeeded")}


def test_96_names_of_compensations_are_the_ledgers_own(ledger: Driver) -> None:
    """A run that may use a tool may use its compensation, so no other tool may have such a name."""
    started(ledger, allowed_tools=["payroll"])
    handler = Count()
    for verb in (ledger.begin, lambda call, **words: ledger.run(call, handler, **words)):
        with pytest.raises(BadCall):
            verb(charge(run_id="r1", tool="payroll.compensate"), side_effect="payment")
    with pytest.raises(BadCall):
        ledger.tool("payroll.compensate", side_effect="payment")(lambda n: n)
    assert handler.entries == 0


def test_96_a_fork_made_after_a_compensation_does_not_replay_the_call_as_done(ledger: Driver) -> None:
    shop(ledger, lambda effect: "re_1")
    before = len(ledger.events("r1", limit=100)) - 1
    ledger.compensate("r1")
    begun(ledger, "fork_run", "r1", new_id="late")
    with pytest.raises(EffectCompensated):
        ledger.run(ToolCall(**{**BUY, "run_id": "late"}), Count(), side_effect="payment")
    begun(ledger, "fork_run", "r1", new_id="early", at=before)
    assert ledger.run(ToolCall(**{**BUY, "run_id": "early"}), Count(), side_effect="payment") == "ch_1"


def test_96_another_process_learns_of_it_within_the_time_in_which_rules_are_looked_up(
    ledger: Driver, shell: Shell
) -> None:
    """A process that has looked before learns of it as of a policy: at its next look, or when it forgets."""
    other = shell.open()
    shop(ledger, lambda effect: "re_1")
    assert other.run(ToolCall(**BUY), Count(), side_effect="payment") == "ch_1"
    in_thread(lambda: ledger.compensate("r1")).result()
    other.engine.judging.forget()
    with pytest.raises(EffectCompensated):
        other.run(ToolCall(**BUY), Count(), side_effect="payment")


def test_96_a_call_with_a_large_result_is_made_good_and_so_is_what_is_older(ledger: Driver) -> None:
    undone: list[Any] = []

    @ledger.tool(side_effect="payment", compensate=lambda effect: undone.append(effect.args["n"]))
    def buy(n: int) -> str:
        return "x" * (1_200_000 if n == 2 else 1)

    inside(ledger, lambda run: [ledger.call(buy, n) for n in (1, 2)])
    assert [one.status for one in ledger.compensate("r1")] == ["done", "done"]
    assert [one.status for one in ledger.compensate("r1")] == ["nothing_to_do", "nothing_to_do"]
    assert undone == [2, 1]


def test_96_a_compensation_that_cannot_be_prepared_does_not_keep_the_others_back(
    ledger: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    @ledger.tool(side_effect="payment", compensate=lambda effect: effect.args["n"])
    def buy(n: int) -> str:
        return "ch"

    inside(ledger, lambda run: [ledger.call(buy, n) for n in (1, 2)])
    prepare = Preparing._prepare
    refused: list[Any] = []

    def refuses_once(desk: Any, call: Any, words: Any = None, **more: Any) -> Any:
        if not refused:
            refused.append(call)
            raise BadCall("too large")
        return prepare(desk, call, words, **more)

    monkeypatch.setattr(Preparing, "_prepare", refuses_once)
    assert [one.status for one in ledger.compensate("r1")] == ["failed", "done"]


@pytest.mark.parametrize("encrypt", [False, True])
def test_95_erasing_a_person_erases_what_a_compensation_of_their_call_keeps_and_gave(
    place: dict[str, Any], keys: Path, encrypt: bool
) -> None:
    with Ledger.open(**{**place, "encrypt": encrypt, "redact": ["args.customer"]}) as ledger:

        @ledger.tool(side_effect="payment", subject="args.customer", compensate=lambda effect: "refunded to Ada")
        def charge(customer: str, iban: str) -> dict[str, str]:
            return {"name": "Ada"}

        with ledger.start_run("r1", agent="scout"):
            charge("customer-7", "DE02")
        assert [one.status for one in ledger.compensate("r1")] == ["done"]
        undone, made = ledger.effects(run_id="r1")
        assert undone.args == {"effect": made.id}
        ledger.erase(subject="customer-7", by="ana", reason="asked for")
        assert [(one.are_args_erased, one.is_detail_erased) for one in ledger.effects(run_id="r1")] == [
            (True, True)
        ] * 2
        assert [one.status for one in ledger.compensate("r1")] == ["nothing_to_do"]


def test_95_a_tools_redaction_holds_for_its_compensation(ledger: Driver) -> None:
    card = "4111 1111 1111 1111"

    def undo(effect: Any) -> Any:
        return {"ssn": "123-45-6789", "text": f"refunded to {card}"}

    @ledger.tool(side_effect="payment", redact=["card", "result.ssn"], compensate=undo)
    def buy(n: int) -> str:
        return "ch"

    inside(ledger, lambda run: ledger.call(buy, 1))
    ledger.compensate("r1")
    (undone,) = ledger.effects(tool="buy.compensate")
    assert card not in str(undone.detail)
    assert "123-45-6789" not in str(undone.detail)


def test_38_what_a_compensation_runs_with_cannot_be_edited(shell: Shell) -> None:
    ledger = shell.open(wait=timedelta(0))
    undone: list[Any] = []
    shop(ledger, lambda effect: undone.append(effect.args["n"]))
    ledger.apply_policy(
        {"rules": [{"name": "asks", "match": {"tool": "*.compensate"}, "then": "ask"}], "defaults": "allow"}, by="ada"
    )
    assert [one.status for one in ledger.compensate("r1")] == ["waiting"]
    (asked,) = ledger.approvals(status="pending")
    (recorded,) = [effect.args for effect in ledger.effects(run_id="r1") if effect.id == asked.effect_id]
    for edit in ({"effect": "eff_other"}, {"amount": 5}):
        with pytest.raises(IndelibleError):
            ledger.edit_approval(asked, {**recorded, **edit}, digest=asked.digest, by="bob", reason="another")
    ledger.approve(asked, digest=asked.digest, by="bob")
    assert [one.status for one in ledger.compensate("r1")] == ["done"]
    assert undone == [1]


@pytest.mark.parametrize("by", ["the ledger", "a call"])
def test_96_what_makes_good_may_be_said_by_the_ledger_or_by_a_call_of_a_tool_that_is_not_registered(
    shell: Shell, by: str
) -> None:
    undone: list[str] = []
    words: dict[str, Any] = {"compensate": lambda effect: undone.append(effect.tool)}
    ledger = shell.open(**(words if by == "the ledger" else {}))
    started(ledger).release()
    calls = [charge(run_id="r1"), charge(run_id="r1", tool="look")]
    for call, side_effect in zip(calls, ("payment", "read"), strict=True):
        more = words if by == "a call" and side_effect == "payment" else {}
        ledger.run(call, Count(), side_effect=side_effect, **more)
    assert [(one.effect.tool, one.status) for one in ledger.compensate("r1")] == [("charge", "done")]
    assert undone == ["charge"]


def test_96_each_call_of_a_tool_is_made_good_by_what_it_said_itself(ledger: Driver, shell: Shell) -> None:
    """A function may know its call by a variable around it: it would make good the wrong call, or one call twice."""
    refunded: list[str] = []

    def charge(by: Driver, order: str) -> None:
        charge_id = f"ch_{order}"
        call = ToolCall(tool="stripe.charge", args={"order": order}, run_id="orders")
        by.run(call, lambda _: charge_id, side_effect="payment", compensate=lambda effect: refunded.append(charge_id))

    for order in ("1", "2"):
        charge(ledger, order)
    assert [one.status for one in ledger.compensate("orders")] == ["done", "done"]
    assert refunded == ["ch_2", "ch_1"]
    charge(ledger, "3")
    restarted = shell.open()
    charge(restarted, "4")
    found = {one.effect.args["order"]: one.status for one in restarted.compensate("orders")}
    assert (found["3"], found["4"], refunded[2:]) == ("undeclared", "done", ["ch_4"])


@pytest.mark.parametrize("repeat", [{"dedupe": "turn"}, {"dedupe": "call"}, {"dedupe": "args", "by_scope": True}])
def test_96_a_repeat_of_a_call_is_made_good_and_asked_about_by_what_it_said_itself(
    ledger: Driver, shell: Shell, repeat: dict[str, Any]
) -> None:
    """What the repeat said was kept for the first call, so another charge was refunded than the record said."""
    refunded, asked = [], []

    def charge(number: int, *, is_lost: bool = False) -> None:
        def handler(effect: Any) -> str:
            if is_lost:
                raise ConnectionError("lost")
            return f"ch_{number}"

        def probe(effect: Any) -> Succeeded:
            asked.append(number)
            return Succeeded(f"ch_{number}")

        by_turn = {"turn": f"turn {number}"} if repeat["dedupe"] == "turn" else {}
        by_scope = {"scope": f"scope {number}"} if "by_scope" in repeat else {}
        call = ToolCall(**{**BUY, "dedupe": repeat["dedupe"], "call_id": f"call {number}", **by_turn, **by_scope})
        words: Any = {"side_effect": "payment", "on_repeat": "run", "reconcile": probe}
        with suppress(ConnectionError):
            ledger.run(call, handler, compensate=lambda effect: refunded.append(number), **words)

    charge(1)
    charge(2)
    charge(3, is_lost=True)
    assert [one.status for one in ledger.reconcile(run_id="r1")] == ["succeeded"]
    assert asked == [3]
    assert [one.status for one in ledger.compensate("r1")] == ["done"] * 3
    assert refunded == [3, 2, 1]


def test_96_calls_of_one_tool_may_each_write_the_same_compensation(ledger: Driver, shell: Shell) -> None:
    refunded: list[str] = []
    for order in ("1", "2"):
        ledger.run(
            ToolCall(tool="stripe.charge", args={"order": order}, run_id="orders"),
            lambda effect: f"ch_{effect.args['order']}",
            side_effect="payment",
            compensate=lambda effect: refunded.append(effect.detail),
        )
    assert [one.status for one in ledger.compensate("orders")] == ["done", "done"]
    assert refunded == ["ch_2", "ch_1"]


@pytest.mark.parametrize("way", ["compensate", "settle"])
def test_44_what_a_call_says_is_redacted_is_redacted_in_what_is_done_later_about_it(
    ledger: Driver, shell: Shell, way: str
) -> None:
    """Terms of adapters are such words: their tools are registered nowhere."""
    secret = {"iban": "SECRET-DE02", "paid": True}
    words: dict[str, Any] = {"side_effect": "payment", "redact": ["result.iban"], "compensate": lambda effect: secret}
    call = ToolCall(tool="wire", args={"order": "1"}, run_id="orders")
    if way == "compensate":
        ledger.run(call, lambda effect: secret, **words)
        assert [one.status for one in ledger.compensate("orders")] == ["done"]
    else:
        with pytest.raises(TimeoutError):
            ledger.run(call, Count(TimeoutError("lost")), **words)
        (effect,) = ledger.effects()
        ledger.settle(effect.id, Succeeded(secret), by="ana", evidence="seen at the bank")
    details = [effect.detail for effect in ledger.effects()]
    assert len(details) == (2 if way == "compensate" else 1)
    assert "SECRET" not in str(details)


def test_44_what_one_call_says_is_redacted_makes_no_other_call_of_another(ledger: Driver, shell: Shell) -> None:
    """Two callers share a tool, and one of them redacts: which of them came first must not change a key."""
    call, other = (ToolCall(tool="wire", args={"card": "4242", "order": order}, run_id="orders") for order in "12")
    count = Count("paid")
    ledger.run(call, count, side_effect="payment")
    ledger.run(other, count, side_effect="payment", redact=["card"])
    ledger.run(call, count, side_effect="payment")
    assert count.entries == 2


def test_41_the_probe_that_a_call_says_is_asked_about_that_call_alone(ledger: Driver, shell: Shell) -> None:
    def lose(by: Driver, order: str) -> None:
        with pytest.raises(TimeoutError):
            by.run(
                ToolCall(tool="wire", args={"order": order}, run_id="orders"),
                Count(TimeoutError("lost")),
                side_effect="payment",
                reconcile=lambda effect: Succeeded(order),
            )

    lose(shell.open(), "1")
    for order in ("2", "3"):
        lose(ledger, order)
    ledger.reconcile()
    found = {effect.args["order"]: (effect.status, effect.detail) for effect in ledger.effects()}
    assert found["1"][0] == "in_doubt", "another process asked for it"
    assert (found["2"], found["3"]) == (("succeeded", "2"), ("succeeded", "3"))


@pytest.mark.parametrize("place", ["args.account", "args.order.iban", "args.text", "result"])
@pytest.mark.parametrize(("side_effect", "status"), [("payment", "in_doubt"), ("write", "failed")])
def test_96_a_compensation_sends_no_mark_in_place_of_a_value(
    ledger: Driver, place: str, side_effect: Any, status: str
) -> None:
    """A provider got the text of a mark as its account, and the compensation was on the record as done."""
    sent: list[str] = []
    read: dict[str, Any] = {
        "args.account": lambda effect: effect.args["account"],
        "args.order.iban": lambda effect: effect.args["order"]["iban"],
        "args.text": lambda effect: effect.args["texts"][0],
        "result": lambda effect: effect.detail["token"],
    }

    def undo(effect: Any) -> None:
        sent.append(f"POST /refund account={read[place](effect)}")

    rules = ["args.account", "args.order.iban", "email", "result.token"]

    @ledger.tool(side_effect=side_effect, redact=rules, compensate=undo)
    def buy(account: str, order: dict[str, str], texts: list[str]) -> dict[str, str]:
        return {"token": "tok_1", "id": "ch_1"}

    inside(ledger, lambda run: ledger.call(buy, "DE02 1234", {"iban": "DE02"}, ["mail to eve@example.com, please"]))
    for _ in range(2):
        (undone,) = ledger.compensate("r1")
        assert undone.status == status
    assert sent == []
    assert (undone.effect.status, undone.effect.args["order"].keys()) == ("succeeded", {"iban"})


def test_96_a_compensation_that_reads_no_mark_is_done(ledger: Driver) -> None:
    sent: list[Any] = []

    def undo(effect: Any) -> None:
        assert effect.outcome.value is not None
        sent.append((effect.args["cents"], effect.detail["id"], effect.detail["lines"][0]))

    @ledger.tool(side_effect="payment", redact=["args.account", "result.token"], compensate=undo)
    def buy(account: str, cents: int) -> dict[str, Any]:
        return {"token": "tok_1", "id": "ch_1", "lines": [7]}

    inside(ledger, lambda run: ledger.call(buy, "DE02 1234", 4200))
    assert [one.status for one in ledger.compensate("r1")] == ["done"]
    assert sent == [(4200, "ch_1", 7)]


def test_96_a_compensation_whose_result_cannot_be_recorded_may_have_happened(ledger: Driver) -> None:
    """It was carried out, and returned an object of an SDK: a person who hears "failed" would refund once more."""
    refunds: list[str] = []

    def undo(effect: Any) -> object:
        refunds.append(effect.id)
        return object()

    shop(ledger, undo)
    for _ in range(2):
        assert [one.status for one in ledger.compensate("r1")] == ["in_doubt"]
    assert len(refunds) == 1
