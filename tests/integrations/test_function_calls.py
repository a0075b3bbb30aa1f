"""Plain functions in a loop: once, with permission, in the dialect of whoever made the calls."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, TypedDict

import pytest
from pydantic import AfterValidator, BaseModel, Field

from indelible import Approval, Effect, Idempotent, Ledger, MayHaveHappened, NothingHappened, Refused, Retry, migrate
from indelible.errors import ApprovalPending, BadCall, StoreError
from indelible.integrations.function_calls import Answered, FunctionCalls

PAGE = Path(__file__).parents[2] / "docs" / "integrations" / "functions.md"


class Till:
    """Has tools, and counts."""

    def __init__(self, raises: Exception | None = None) -> None:
        self.charged: list[int] = []
        self.raises = raises

    def charge(self, amount: int, note: str = "") -> dict[str, int]:
        """Charges."""
        self.charged.append(amount)
        if self.raises is not None:
            raise self.raises
        return {"charged": amount}

    async def charge_awaited(self, amount: int) -> dict[str, int]:
        """Charges."""
        await asyncio.sleep(0)
        return self.charge(amount)


@pytest.fixture
def ledger(sqlite_url: str) -> Iterator[Ledger]:
    with Ledger.open(sqlite_url, seal=False) as opened:
        yield opened


def chat(call_id: str = "c1", arguments: str = '{"amount": 5}', name: str = "charge") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def responses(call_id: str = "c1", amount: int = 5) -> dict[str, Any]:
    arguments = json.dumps({"amount": amount})
    return {"type": "function_call", "id": "fc_1", "call_id": call_id, "name": "charge", "arguments": arguments}


def anthropic(call_id: str = "c1", amount: int = 5) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": "charge", "input": {"amount": amount}}


def as_object(item: Any) -> Any:
    return SimpleNamespace(**{name: as_object(value) if name == "function" else value for name, value in item.items()})


def answer_blocking(calls: FunctionCalls, tool_calls: list[Any]) -> Answered:
    return calls.answer(tool_calls)


def answer_awaited(calls: FunctionCalls, tool_calls: list[Any]) -> Answered:
    return asyncio.run(calls.answer_async(tool_calls))


@pytest.fixture(params=[answer_blocking, answer_awaited])
def answer(request: pytest.FixtureRequest) -> Callable[[FunctionCalls, list[Any]], Answered]:
    found: Callable[[FunctionCalls, list[Any]], Answered] = request.param
    return found


@pytest.mark.parametrize("form", [dict, as_object])
def test_each_dialect_is_told_in_its_own_words_and_texts_are_passed_over(ledger: Ledger, form: Any) -> None:
    till = Till()
    calls = FunctionCalls(ledger, {"charge": till.charge}, run="order-1", side_effect="notification")
    said = json.dumps({"charged": 5})
    told = calls.answer([form(chat("c1"))], turn="m1").messages
    assert told == [{"role": "tool", "tool_call_id": "c1", "content": said}]
    output = [form({"type": "reasoning", "id": "rs_1"}), form(responses("c2"))]
    told = calls.answer(output, turn="m2").messages
    assert told == [{"type": "function_call_output", "call_id": "c2", "output": said}]
    content = [form({"type": "text", "text": "I charge"}), form(anthropic("c3")), form(anthropic("c4", 6))]
    (message,) = calls.answer(content, turn="m3").messages
    assert message == {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "c3", "content": said, "is_error": False},
            {"type": "tool_result", "tool_use_id": "c4", "content": '{"charged": 6}', "is_error": False},
        ],
    }
    assert sorted(till.charged) == [5, 5, 5, 6]
    assert calls.answer(None) == Answered(messages=[])


def test_calls_of_one_answer_run_at_once_and_once(store_url: str, answer: Any) -> None:
    migrate(store_url)
    with Ledger.open(store_url, seal=False) as ledger:
        till = Till()
        tools = {"charge": till.charge_awaited if answer is answer_awaited else till.charge}
        asked = [chat(f"c{n}", json.dumps({"amount": n})) for n in range(8)]
        for _ in range(2):
            told = answer(FunctionCalls(ledger, tools, run="order-1"), asked)
            assert [one["tool_call_id"] for one in told.messages] == [f"c{n}" for n in range(8)]
        assert sorted(till.charged) == list(range(8))


def test_an_approval_comes_back_as_a_value_and_the_loop_returns_to_it(store_url: str, answer: Any) -> None:
    migrate(store_url)
    with Ledger.open(store_url, seal=False) as ledger:
        till, asked = Till(), [chat("c1"), chat("c2", '{"amount": 6}'), chat("c3", "{}", "hello")]
        terms = {"charge": {"approval": "required"}}
        calls = FunctionCalls(ledger, {"charge": till.charge, "hello": lambda: "hi"}, run="order-1", terms=terms)
        first = answer(calls, asked)
        assert [one["content"] for one in first.messages] == ["hi"]
        assert [one.call_id for one in first.waiting] == ["c1", "c2"]
        allowed, denied = (one.approval for one in first.waiting)
        ledger.approve(allowed, digest=allowed.digest, by="ana")
        ledger.deny(denied, by="ana", reason="too much")
        second = answer(calls, asked)
        assert second.waiting == ()
        assert [one["tool_call_id"] for one in second.messages] == ["c1", "c2", "c3"]
        assert "too much" in second.messages[1]["content"]
        assert till.charged == [5]


def test_an_approval_does_not_hold_for_a_function_that_was_changed_since(store_url: str, answer: Any) -> None:
    entered: list[str] = []

    def before(amount: int) -> None:
        """Charges."""
        entered.append("before")

    def after(amount: int) -> None:
        """Charges, and sends an invoice."""
        entered.append("after")

    migrate(store_url)
    words: dict[str, Any] = {"run": "order-1", "terms": {"charge": {"approval": "required"}}}
    with Ledger.open(store_url, seal=False) as ledger:
        (asked,) = answer(FunctionCalls(ledger, {"charge": before}, **words), [chat()]).waiting
        ledger.approve(asked.approval, digest=asked.approval.digest, by="ana")
        (anew,) = answer(FunctionCalls(ledger, {"charge": after}, **words), [chat()]).waiting
        assert entered == []
        assert ledger.get_approval(asked.approval.id).status == "stale"
        assert (anew.approval.status, anew.approval.replaces) == ("pending", asked.approval.id)


def test_a_loop_may_wait_for_whoever_decides(sqlite_url: str, answer: Any) -> None:
    till = Till()

    def decide(approval: Approval, effect: Effect) -> None:
        ledger.approve(approval, digest=approval.digest, by="ana")

    with Ledger.open(sqlite_url, seal=False, on_approval_required=decide) as ledger:
        calls = FunctionCalls(ledger, {"charge": till.charge}, run="order-1", approval="required", wait=30.0)
        assert answer(calls, [chat()]).messages[0]["content"] == '{"charged": 5}'


def test_a_question_that_nobody_answered_in_time_is_asked_again(ledger: Ledger) -> None:
    soon = {"name": "all", "match": {"tool": "charge"}, "then": "ask", "approvals": {"expires": "1s"}}
    ledger.apply_policy({"rules": [soon]}, by="ana")
    till = Till()
    (waiting,) = FunctionCalls(ledger, {"charge": till.charge}, run="order-1", wait=1.5).answer([chat()]).waiting
    assert waiting.approval is not None
    assert waiting.approval.replaces is not None
    assert till.charged == []


class Order(BaseModel):
    amount: int = 5000
    note: str = Field("", alias="noteText")


@dataclass
class Bill:
    amount: int = 5000


class Claim(TypedDict):
    bill: Bill


def pay_order(given: Order) -> int:
    return given.amount


def pay_bill(given: Bill) -> int:
    return given.amount


def pay_claim(given: Claim) -> int:
    return given["bill"].amount


async def pay_orders(given: list[Order]) -> int:
    return sum(one.amount for one in given)


INSIDE: dict[str, tuple[Any, Any, Any]] = {
    "model": (pay_order, {}, {"amount": 5000, "note": ""}),
    "dataclass": (pay_bill, {}, {"amount": 5000}),
    "typed dictionary": (pay_claim, {"bill": {}}, {"bill": {"amount": 5000}}),
    "list": (pay_orders, [{}], [{"amount": 5000, "note": ""}]),
}


@pytest.mark.parametrize("name", INSIDE)
def test_38_a_default_inside_an_argument_is_judged_shown_keyed_and_run(
    store_url: str, tmp_path: Path, name: str
) -> None:
    tool, said, whole = INSIDE[name]
    migrate(store_url)
    with Ledger.open(store_url, seal=False) as ledger:
        calls = FunctionCalls(ledger, {"pay": tool}, run="r", side_effect="payment", approval="required")
        asks = [chat("call_Xa", json.dumps({"given": said}), "pay")]
        answered = answer_awaited(calls, asks)
        question = answered.waiting[0].question
        assert question is not None
        assert json.loads(question["text"])["given"] == whole
        ledger.approve(question["approval"], digest=question["digest"], by="ana")
        (message,) = answer_awaited(calls, asks).messages
        assert message["content"] == "5000"
        spelled = [chat("call_Xb", json.dumps({"given": whole}), "pay")]
        assert answer_awaited(calls, spelled).messages[0]["content"].startswith("5000\n")
        assert [effect.args for effect in ledger.effects()] == [{"given": whole}]


def test_38_a_rule_judges_a_default_inside_an_argument(sqlite_url: str, tmp_path: Path) -> None:
    rule = {
        "name": "much",
        "match": {"tool": "pay", "args": {"given.amount": {"gt": 1000}}},
        "then": "refuse",
        "why": "no",
    }
    (tmp_path / "policy.json").write_text(json.dumps({"rules": [rule]}))
    with Ledger.open(sqlite_url, seal=False, policy=tmp_path / "policy.json") as ledger:
        calls = FunctionCalls(ledger, {"pay": pay_order}, run="r", side_effect="notification")
        (message,) = calls.answer([chat("call_Xa", '{"given": {}}', "pay")]).messages
        assert "rule does not allow" in message["content"]
        (message,) = calls.answer([chat("call_Xb", '{"given": {"amount": "many"}}', "pay")]).messages
        assert message["content"].startswith("pay was not called")
        (message,) = calls.answer([chat("call_Xc", '{"given": {"amount": 5}}', "pay")]).messages
        assert message["content"] == "5"


@pytest.mark.parametrize(
    "amount", ["NaN", "1e400", '"\\ud800"', "[" * 200 + "]" * 200, "[" * 100_000 + "]" * 100_000, "9" * 5000]
)
@pytest.mark.parametrize("is_async", [False, True])
def test_84_of_arguments_that_cannot_be_recorded_the_model_is_told_and_the_other_calls_are_answered(
    ledger: Ledger, amount: str, is_async: bool
) -> None:
    till = Till()
    tools = FunctionCalls(ledger, {"charge": till.charge}, run="order-1")
    calls = [chat("c1", f'{{"amount": {amount}}}'), chat("c2")]
    answered = asyncio.run(tools.answer_async(calls)) if is_async else tools.answer(calls)
    wrong, right = answered.messages
    assert wrong["content"].startswith("charge was not called: its arguments ")
    assert json.loads(right["content"]) == {"charged": 5}
    assert till.charged == [5]
    assert [effect.call_id for effect in ledger.effects()] == ["c2"]


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (chat(arguments='{"amount": 5'), "charge was not called: its arguments are not JSON"),
        (chat(arguments="[5]"), "no JSON object"),
        (chat(arguments='{"amont": 5}'), "missing a required argument: 'amount'"),
        (chat(name="chrage"), "there is no tool 'chrage'; there are: charge"),
        ({"type": "tool_use", "id": "c1", "name": "charge", "input": None}, "no JSON object"),
    ],
)
def test_a_call_that_cannot_be_made_is_answered_and_leaves_no_effect(ledger: Ledger, call: Any, told: str) -> None:
    till = Till()
    answered = FunctionCalls(ledger, {"charge": till.charge}, run="order-1").answer([call])
    assert told in json.dumps(answered.messages, ensure_ascii=False)
    assert till.charged == ledger.effects() == []


def test_a_tool_that_refuses_is_told_the_same_each_time(ledger: Ledger, answer: Any) -> None:
    till = Till(raises=Refused("no funds"))
    for _ in range(2):
        calls = FunctionCalls(ledger, {"charge": till.charge}, run="order-1")
        assert answer(calls, [chat()]).messages == [{"role": "tool", "tool_call_id": "c1", "content": "no funds"}]
    assert till.charged == [5]
    assert [effect.status for effect in ledger.effects()] == ["failed"]


def test_what_may_have_happened_waits_until_a_person_has_settled_it(ledger: Ledger, answer: Any) -> None:
    till = Till(raises=MayHaveHappened("no answer"))
    calls = FunctionCalls(ledger, {"charge": till.charge}, run="order-1")
    for _ in range(2):
        told = answer(calls, [chat()])
        assert told.messages == []
        assert told.waiting[0].approval is None
        assert "may have happened" in told.waiting[0].why
    assert till.charged == [5]


def test_a_tool_is_retried_as_its_terms_say(ledger: Ledger, answer: Any) -> None:
    till, retry = Till(raises=ConnectionError("busy")), Retry(on=(ConnectionError,), attempts=3, backoff=timedelta(0))
    calls = FunctionCalls(ledger, {"charge": till.charge}, run="order-1", terms={"charge": {"retry": retry}})
    for _ in range(2):
        (waiting,) = answer(calls, [chat()]).waiting
        assert (waiting.effect is not None, waiting.approval) == (True, None), "after the last try it is in doubt"
    assert till.charged == [5, 5, 5]


def test_a_tool_that_may_be_repeated_is_repeated_by_the_loop_alone(ledger: Ledger, answer: Any) -> None:
    till = Till(raises=MayHaveHappened("no answer"))
    calls = FunctionCalls(ledger, {"charge": till.charge}, run="order-1", on_crash="retry")
    assert "no answer" in answer(calls, [chat()]).messages[0]["content"]
    assert till.charged == [5]
    till.raises = NothingHappened("the line is busy")
    assert "the line is busy" in answer(calls, [chat()]).messages[0]["content"]
    till.raises = None
    assert answer(calls, [chat()]).messages[0]["content"] == '{"charged": 5}'


def test_a_store_that_is_gone_stops_the_loop(sqlite_url: str, answer: Any) -> None:
    till = Till()
    with Ledger.open(sqlite_url, seal=False) as ledger:
        calls = FunctionCalls(ledger, {"charge": till.charge}, run="order-1", lease=timedelta(seconds=5))
    with pytest.raises((StoreError, RuntimeError)):
        answer(calls, [chat("c3")])
    assert till.charged == []


def test_40_a_reused_key_is_told_with_what_was_done_and_runs_nothing(ledger: Ledger, answer: Any) -> None:
    till = Till()
    calls = FunctionCalls(ledger, {"charge": till.charge}, run="order-1", terms={"charge": {"key": ["note"]}})
    answer(calls, [chat(arguments='{"amount": 500, "note": "o1"}')])
    (told,) = answer(calls, [chat("c2", '{"amount": 9900, "note": "o1"}')]).messages
    assert till.charged == [500]
    assert all(fact in told["content"] for fact in ("amount=500", "amount=9900", '{"charged": 500}'))


def test_53_the_same_payment_in_one_turn_is_made_once_and_says_so(store_url: str, answer: Any) -> None:
    migrate(store_url)
    with Ledger.open(store_url, seal=False) as ledger:
        till = Till()
        calls = FunctionCalls(ledger, {"charge": till.charge}, run="order-1", side_effect="payment")
        (first,) = answer(calls, [chat("c1")]).messages
        (effect,) = ledger.effects()
        for arguments in ('{"amount": 5}', '{"amount": 5, "note": ""}'):  # 38: a default is the same spelled out
            (again,) = answer(calls, [chat("c2", arguments)]).messages
            assert effect.id in again["content"]
            assert first["content"] in again["content"]
        assert answer(calls, [chat("c1")]).messages == [first], "handed in again, a call gets what it got"
        assert till.charged == [5]


def test_53_in_a_later_turn_a_payment_asks_and_a_read_reads(ledger: Ledger) -> None:
    till = Till()
    calls = FunctionCalls(ledger, {"charge": till.charge}, run="order-1", side_effect="payment")
    calls.answer([chat("call_0")], turn="m1")
    (waiting,) = calls.answer([chat("call_0")], turn="m2").waiting
    assert waiting.approval is not None
    assert till.charged == [5]
    ledger.approve(waiting.approval, digest=waiting.approval.digest, by="ana")
    (done,) = calls.answer([chat("call_0")], turn="m2").messages
    assert (done["content"], till.charged) == ('{"charged": 5}', [5, 5])
    reading = FunctionCalls(ledger, {"charge": till.charge}, run="order-2", side_effect="read")
    for call_id, turn in (("c0", "m1"), ("c1", "m1"), ("c0", "m2"), ("c0", "m2")):
        reading.answer([chat(call_id)], turn=turn)
    assert till.charged == [5] * 5, "each call id of each turn reads anew, and the same one replays"


def test_38_a_default_that_a_model_leaves_out_is_judged(ledger: Ledger) -> None:
    refunded: list[int] = []

    def refund(charge: str, amount: int = 5000) -> str:
        refunded.append(amount)
        return "refunded"

    much = {"name": "much", "match": {"args": {"amount": {"gt": 1000}}}, "then": "refuse"}
    ledger.apply_policy({"rules": [much]}, by="ana")
    calls = FunctionCalls(ledger, {"refund": refund}, run="order-1")
    (told,) = calls.answer([chat("c1", '{"charge": "ch_1"}', "refund")]).messages
    assert refunded == []
    assert "much" in told["content"]


def test_37_a_lost_answer_stays_in_doubt_also_where_it_may_be_sent_again(ledger: Ledger, answer: Any) -> None:
    till = Till(raises=ConnectionResetError("peer"))
    words: Any = {"side_effect": "payment", "downstream": Idempotent(attempts=1)}
    (waiting,) = answer(FunctionCalls(ledger, {"charge": till.charge}, run="order-1", **words), [chat()]).waiting
    assert waiting.effect is not None
    assert [effect.status for effect in ledger.effects()] == ["in_doubt"], "so that the provider's window still holds"
    assert till.charged == [5]


def test_37_a_lost_answer_waits_for_a_person_and_no_text_invites_a_repeat(ledger: Ledger, answer: Any) -> None:
    till = Till(raises=ConnectionResetError("peer"))
    calls = FunctionCalls(ledger, {"charge": till.charge}, run="order-1", side_effect="payment")
    for call_id in ("c1", "c2", "c3"):
        told = answer(calls, [chat(call_id)])
        assert told.messages == []
        assert told.waiting[0].effect is not None
        assert "again" not in told.waiting[0].told.replace("Do not call it again", "")
    assert till.charged == [5]
    assert [effect.status for effect in ledger.effects()] == ["in_doubt"]


class _Awaited:
    """Is no coroutine function, and has to be awaited."""

    def __init__(self, bank: Till) -> None:
        self._bank = bank

    async def __call__(self, amount: int) -> dict[str, int]:
        return await self._bank.charge_awaited(amount)


def _later(bank: Till) -> Callable[[int], Any]:
    def charge(amount: int) -> Any:
        return bank.charge_awaited(amount)

    return charge


@pytest.mark.parametrize("made", [_Awaited, _later], ids=["object", "function"])
@pytest.mark.parametrize(
    ("raises", "status"),
    [(None, "succeeded"), (ConnectionError, "in_doubt"), (Refused, "failed")],
    ids=["nothing", "lost", "refused"],
)
def test_f3_what_a_tool_that_gives_a_coroutine_raises_is_answered(
    store_url: str, answer: Any, made: Any, raises: type[Exception] | None, status: str
) -> None:
    migrate(store_url)
    bank, other = Till(None if raises is None else raises("no answer")), Till()
    with Ledger.open(store_url, seal=False) as ledger:
        terms = {"charge": {"side_effect": "payment"}}
        calls = FunctionCalls(ledger, {"charge": made(bank), "look": other.charge}, run="order-1", terms=terms)
        for _ in range(2):
            answered = answer(calls, [chat(), chat("c2", name="look")])
            assert [one.tool for one in answered.waiting] == (["charge"] if status == "in_doubt" else [])
            assert len(answered.messages) == (1 if status == "in_doubt" else 2)
        assert [effect.status for effect in ledger.effects(tool="charge")] == [status]
    assert (len(bank.charged), len(other.charged)) == (1, 1)


def test_calls_without_an_id_are_known_by_their_arguments(ledger: Ledger) -> None:
    till = Till()
    calls = FunctionCalls(ledger, {"charge": till.charge}, run="order-1")
    told = [calls.answer([{**chat(), "id": None}]).messages[0]["content"] for _ in range(2)]
    (effect,) = ledger.effects()
    assert [effect.id in content for content in told] == [False, True], "and the second hears that nothing was run"
    assert till.charged == [5]


def test_what_stands_behind_the_ledger_already_is_refused(ledger: Ledger) -> None:
    tool = ledger.tool(Till().charge)
    for wrong in (tool, 5):
        with pytest.raises(BadCall, match="pass "):
            FunctionCalls(ledger, {"charge": wrong}, run="order-1")  # type: ignore[dict-item]


def test_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    class Client:
        """Answers as the provider's client does, with what the script says next."""

        def __init__(self, *turns: Any) -> None:
            self.turns = list(turns)
            self.chat = SimpleNamespace(completions=self)
            self.messages = self.responses = self

        def create(self, **asked: Any) -> Any:
            return self.turns.pop(0)

    def completion(**message: Any) -> Any:
        told = {"content": None, "tool_calls": None, **message}
        return SimpleNamespace(choices=[SimpleNamespace(message=SimpleNamespace(**told))])

    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    refunding = chat("call_2", '{"order": "123"}', "refund")
    names: dict[str, Any] = {
        "client": Client(completion(tool_calls=[as_object(refunding)]), completion(content="done")),
        "charge": lambda order: f"charged {order}",
        "refund": lambda order: f"refunded {order}",
        "tools": [],
    }
    setting_up, loop, deciding = blocks[:3]
    exec(setting_up + loop, names)
    assert names["answered"].waiting
    exec(deciding, names)
    assert names["messages"][-1]["content"] == "refunded 123"
    names["ledger"].close()


@pytest.mark.parametrize(
    ("rest", "runs"), [({"x": 2}, True), ({"x": 2, "y": 3}, True), ({"x": 1, "order": "2"}, False), (5, False)]
)
def test_90_an_edit_of_what_a_function_takes_by_name_runs_as_approved(store_url: str, rest: Any, runs: bool) -> None:
    got: list[Any] = []

    def pay(order: str, **rest: Any) -> str:
        """Pays."""
        got.append((order, rest))
        return "paid"

    migrate(store_url)
    with Ledger.open(store_url) as ledger:
        terms = {"pay": {"side_effect": "payment", "approval": "required"}}
        calls = FunctionCalls(ledger, {"pay": pay}, run="order-1", terms=terms)
        asked = [chat("call_abcdefgh", '{"order": "1", "x": 1}', "pay")]
        (waits,) = calls.answer(asked).waiting
        assert waits.approval is not None
        edited = ledger.edit_approval(
            waits.approval, {"order": "1", "rest": rest}, digest=waits.approval.digest, by="ana"
        )
        ledger.approve(edited, digest=edited.digest, by="bob")
        if runs:
            assert calls.answer(asked).waiting == ()
        else:
            with pytest.raises(BadCall):
                calls.answer(asked)
        assert got == ([("1", rest)] if runs else [])


def validated() -> Callable[..., Any]:
    """Make a tool as another process does: its validator stands elsewhere in memory."""

    def positive(value: int) -> int:
        return value

    def charge(amount):  # type: ignore[no-untyped-def]
        return amount

    charge.__annotations__["amount"] = Annotated[int, AfterValidator(positive)]
    return charge


def by_loop(ledger: Ledger, tool: Callable[..., Any]) -> Any:
    calls = FunctionCalls(ledger, {"charge": tool}, run="order-123", side_effect="payment", approval="required")
    return calls.answer([chat("call_x1")]).messages


def by_tool(ledger: Ledger, tool: Callable[..., Any]) -> Any:
    made = ledger.tool("charge", side_effect="payment", approval="required", wait=False)(tool)
    with ledger.in_run("order-123"), suppress(ApprovalPending):
        return made(amount=5)


@pytest.mark.parametrize("play", [by_loop, by_tool])
def test_an_approval_holds_in_the_next_process_if_a_hint_has_a_validator(store_url: str, play: Any) -> None:
    migrate(store_url)
    tools = [validated(), validated()]
    with Ledger.open(store_url, seal=False) as ledger:
        assert not play(ledger, tools[0])
        (asked,) = ledger.approvals(status="pending")
        ledger.approve(asked, digest=asked.digest, by="ana")
    with Ledger.open(store_url, seal=False) as ledger:
        assert play(ledger, tools[1])
        assert [one.status for one in ledger.effects()] == ["succeeded"]
