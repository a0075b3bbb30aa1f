"""Pydantic AI: each function that can make an agent's output is a tool of its own name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai import Agent, Choice, Choices, NativeOutput, PromptedOutput, RunContext, TextOutput, ToolOutput
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.output import OutputContext
from pydantic_ai.profiles import ModelProfile

from indelible import Ledger, instrument
from indelible.errors import ApprovalPending, NothingHappened
from indelible.integrations.pydantic_ai import LedgerCapability
from tests.scenarios.shells import prepare_store

ASKS = {"side_effect": "payment", "approval": "required"}
PROFILE = ModelProfile(supports_json_schema_output=True, supports_json_object_output=True)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def ledger(store_url: str) -> Iterator[Ledger]:
    with Ledger.open(prepare_store(store_url), seal=False) as opened:
        yield opened


class Money(BaseModel):
    amount: int


class Back(BaseModel):
    amount: int


class Till:
    """Has functions that make an output, and a model that says which is meant."""

    def __init__(self) -> None:
        self.done: list[tuple[str, int]] = []
        self.kind = "pay"
        self.model = FunctionModel(self._answer, profile=PROFILE)

    def pay(self, money: Money) -> str:
        """Pays."""
        self.done.append(("pay", money.amount))
        return f"paid {money.amount}"

    def refund(self, money: Back) -> str:
        """Refunds."""
        self.done.append(("refund", money.amount))
        return f"refunded {money.amount}"

    def _answer(self, messages: list[Any], info: AgentInfo) -> ModelResponse:
        if info.output_tools:
            (tool,) = [one for one in info.output_tools if self.kind in one.name or len(info.output_tools) == 1]
            is_money = "amount" in json.dumps(tool.parameters_json_schema)
            return ModelResponse(
                parts=[ToolCallPart(tool.name, {"amount": 5} if is_money else {"response": self.kind})]
            )
        title = {"pay": "Money", "refund": "Back"}.get(self.kind, self.kind)  # of what the function takes
        said = {"result": {"kind": title, "data": {"amount": 5}}}
        return ModelResponse(parts=[TextPart(json.dumps(said))])


def outputs(till: Till) -> dict[str, Any]:
    actions = Choices({"pay": Choice(value=lambda: till.pay(Money(amount=5))), "look": Choice(value="looked")})
    return {
        "native": NativeOutput([till.pay, till.refund]),
        "prompted": PromptedOutput([till.pay, till.refund]),
        "tools": [ToolOutput(till.pay, name="pay"), ToolOutput(till.refund, name="refund")],
        "choices": actions,
    }


@pytest.mark.anyio
@pytest.mark.parametrize("is_everywhere", [False, True])
@pytest.mark.parametrize("name", ["native", "prompted", "tools"])
async def test_88_the_terms_of_an_output_function_hold_among_several(
    ledger: Ledger, name: str, is_everywhere: bool
) -> None:
    till, terms = Till(), {"pay": ASKS, "refund": {"side_effect": "payment"}}
    around: Any = instrument(ledger, strict=True, terms=terms) if is_everywhere else nullcontext()
    gate = [] if is_everywhere else [LedgerCapability(ledger, terms=terms, strict=True)]
    with around, pytest.raises(ApprovalPending) as asked:
        await Agent(till.model, output_type=outputs(till)[name], capabilities=gate).run("go", conversation_id="c")
    assert (asked.value.approval.tool, till.done) == ("pay", [])


@pytest.mark.anyio
@pytest.mark.parametrize("name", ["native", "prompted", "tools"])
async def test_84_an_approval_of_one_output_function_is_not_spent_by_another(ledger: Ledger, name: str) -> None:
    till = Till()
    gate = LedgerCapability(ledger, model_turns=False, **ASKS)
    agent = Agent(till.model, output_type=outputs(till)[name], capabilities=[gate])
    with pytest.raises(ApprovalPending) as asked:
        await agent.run("go", conversation_id="c")
    ledger.approve(asked.value.approval, digest=asked.value.approval.digest, by="ana")
    till.kind = "refund"
    with pytest.raises(ApprovalPending) as other:
        await agent.run("go", conversation_id="c")
    assert (asked.value.approval.tool, other.value.approval.tool, till.done) == ("pay", "refund", [])
    till.kind = "pay"
    assert (await agent.run("go", conversation_id="c")).output == "paid 5"
    assert till.done == [("pay", 5)]


@pytest.mark.anyio
async def test_53_two_output_functions_of_one_output_are_two_calls(ledger: Ledger) -> None:
    till = Till()
    gate = LedgerCapability(ledger, model_turns=False)
    agent = Agent(till.model, output_type=outputs(till)["native"], capabilities=[gate])
    for kind in ("pay", "refund", "pay", "refund"):
        till.kind = kind
        await agent.run("go", conversation_id="c")
    assert till.done == [("pay", 5), ("refund", 5)]


class Swaps(AbstractCapability[Any]):
    """Makes another output of one, after the ledger has seen it."""

    def __init__(self, swapped: Any) -> None:
        self.swapped = swapped

    async def before_output_process(self, ctx: RunContext[Any], *, output_context: OutputContext, output: Any) -> Any:
        return self.swapped


@pytest.mark.anyio
@pytest.mark.parametrize("first", [Money, str])
async def test_84_a_hook_hands_no_output_to_another_function(ledger: Ledger, first: Any) -> None:
    till = Till()
    till.kind = "pay" if first is Money else "Plain"

    class Plain(BaseModel):
        amount: int

    several = NativeOutput([till.pay, till.refund] if first is Money else [Plain, till.refund])
    behind = [Swaps(Back(amount=5)), LedgerCapability(ledger)]
    with pytest.raises(NothingHappened):
        await Agent(till.model, output_type=several, capabilities=behind).run("go", conversation_id="c")
    assert till.done == []


@pytest.mark.anyio
async def test_88_an_output_that_goes_to_no_function_is_no_call(ledger: Ledger) -> None:
    till = Till()
    till.kind = "Money"
    several = NativeOutput([Money, till.refund])
    agent = Agent(till.model, output_type=several, capabilities=[LedgerCapability(ledger, model_turns=False, **ASKS)])
    assert (await agent.run("go", conversation_id="c")).output == Money(amount=5)
    assert list(ledger.effects()) == []


@pytest.mark.anyio
async def test_88_an_action_that_a_model_chooses_is_guarded(ledger: Ledger) -> None:
    till = Till()
    gate = LedgerCapability(ledger, model_turns=False, **ASKS)
    agent = Agent(till.model, output_type=outputs(till)["choices"], capabilities=[gate])
    with pytest.raises(ApprovalPending) as asked:
        await agent.run("go", conversation_id="c")
    assert till.done == []
    ledger.approve(asked.value.approval, digest=asked.value.approval.digest, by="ana")
    for _ in range(2):
        assert (await agent.run("go", conversation_id="c")).output == "paid 5"
    assert till.done == [("pay", 5)]
    till.kind = "look"
    assert (await agent.run("go", conversation_id="c")).output == "looked"


@pytest.mark.anyio
async def test_88_a_function_of_texts_keeps_its_name(ledger: Ledger) -> None:
    done: list[str] = []

    def post(text: str) -> str:
        """Posts."""
        done.append(text)
        return "posted"

    model = FunctionModel(lambda messages, info: ModelResponse(parts=[TextPart("hello")]))
    agent = Agent(model, output_type=TextOutput(post), capabilities=[LedgerCapability(ledger, terms={"post": ASKS})])
    with pytest.raises(ApprovalPending) as asked:
        await agent.run("go", conversation_id="c")
    assert (asked.value.approval.tool, done) == ("post", [])
