"""CrewAI's own questions to people are records, and no tool calls: no rule about tool calls is asked about them.

The numbers are those of the faults that were found.
"""

from __future__ import annotations

from typing import Any

import pytest
from crewai import Flow
from crewai.flow.flow import start

from indelible import Ledger, ToolCall, migrate
from indelible.errors import BadCall
from indelible.integrations.crewai import LedgerTools

LISTED = {
    "tools": {"charge": {"side_effect": "payment"}},
    "rules": [{"name": "charge", "match": {"tool": "charge"}, "then": "allow"}],
}


class Billing(Flow[Any]):
    """Asks a person."""

    @start()
    def begin(self) -> None:
        """Begin."""


class Asks:
    """Is a provider of one's own; each person says yes."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def request_input(self, message: str, flow: Any, metadata: Any = None) -> str:
        self.asked.append(message)
        return "yes, to CUSTOMER-7"


JUDGES: list[dict[str, Any]] = [
    {},
    {"approval": "required"},
    {"side_effect": "payment"},
    {"policy": LISTED},
    {"policy": {"defaults": "refuse"}},
    {"exclusive": {"namespace": "shop", "type": "order", "id": "args.order"}},
]


@pytest.mark.parametrize("words", JUDGES, ids=lambda words: next(iter(words), "plain"))
def test_55_a_question_to_a_person_is_judged_by_no_rule_about_tools(store_url: str, words: dict[str, Any]) -> None:
    migrate(store_url)
    asks = Asks()
    with Ledger.open(store_url, seal=False, **words) as ledger:
        for _ in range(2):
            gate = LedgerTools(ledger, run="order-1")
            assert gate.people(asks).request_input("Send it?", Billing()) == "yes, to CUSTOMER-7"
        (effect,) = ledger.effects()
        assert (effect.tool, effect.side_effect, effect.status) == ("crewai.question", "read", "succeeded")
    assert asks.asked == ["Send it?"]


def test_55_a_run_that_allows_few_tools_asks_its_people(store_url: str) -> None:
    migrate(store_url)
    with (
        Ledger.open(store_url, seal=False) as ledger,
        ledger.start_run("order-1", agent="a", intent="i", allowed_tools=["charge"]),
    ):
        gate = LedgerTools(ledger, run="order-1")
        assert gate.people(Asks()).request_input("Send it?", Billing()) == "yes, to CUSTOMER-7"


def test_55_no_call_passes_by_the_name_of_a_question(store_url: str) -> None:
    migrate(store_url)
    with Ledger.open(store_url, seal=False) as ledger:
        with pytest.raises(BadCall):
            ledger.run(ToolCall(tool="crewai.question", run_id="r"), lambda effect: "paid", side_effect="read")
        with pytest.raises(BadCall):
            ledger.tool("crewai.question", side_effect="read")(lambda: None)


def test_95_what_was_asked_about_a_person_goes_with_them(store_url: str) -> None:
    migrate(store_url)
    with Ledger.open(store_url, seal=False) as ledger:
        gate = LedgerTools(ledger, run="order-1")
        gate.people(Asks()).request_input("Shall CUSTOMER-7 be charged?", Billing())
        ledger.run(
            ToolCall(tool="charge", args={"customer": "CUSTOMER-7"}, run_id="order-1"),
            lambda effect: "charged",
            subject="args.customer",
        )
        ledger.erase(subject="CUSTOMER-7", by="ana", reason="asked", force=True)
        (asked,) = ledger.effects(tool="crewai.question")
        assert "CUSTOMER-7" not in repr(asked)
        assert ledger.verify_run("order-1").is_valid
