"""FAULT 38 behind CrewAI, Strands and ADK: arguments whose JSON does not show what the tool gets are not let in."""

from collections.abc import Callable
from typing import Annotated, Any

import pytest
from crewai.tools import tool as crewai_tool
from crewai.tools.tool_failure import ToolExecutionFailedError
from pydantic import AfterValidator, BaseModel, Field, PlainSerializer, SecretStr
from strands import tool as strands_tool

from indelible import Ledger
from indelible.integrations.crewai import LedgerTools
from indelible.testing.adapters.adk import called as adk_called
from indelible.testing.adapters.crewai import called as crewai_called
from indelible.testing.adapters.strands import called as strands_called
from tests.frameworks.conftest import decide
from tests.frameworks.test_adk import Played
from tests.frameworks.test_crewai import crew_of
from tests.frameworks.test_strands import agent_of

DONE: list[str] = []
Masked = Annotated[str, PlainSerializer(lambda text: "*" * 8, when_used="json")]


class Secret(BaseModel):
    """An account whose JSON is stars."""

    number: SecretStr


class Hidden(BaseModel):
    """An account that JSON leaves out."""

    number: str = Field(exclude=True)


class Stars(BaseModel):
    """An account that JSON rewrites."""

    number: Masked


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    DONE.clear()


@crewai_tool
def pay_secret(account: SecretStr, amount: int) -> str:
    """Pays to an account."""
    DONE.append(account.get_secret_value())
    return f"paid {account.get_secret_value()}"


@crewai_tool
def pay_masked(account: Masked, amount: int) -> str:
    """Pays to an account."""
    DONE.append(account)
    return f"paid {account}"


def by_crewai(ledger: Ledger, tool: Any, account: str, **words: Any) -> str | None:
    """Kick a crew off that pays, and return the code with which it stops."""
    tools = LedgerTools(ledger, run="order-123", side_effect="payment", **words).tools([tool])
    said = crewai_called(tool.name, f"call_{account}", account=account, amount=5)
    try:
        crew_of(tools, [said]).kickoff()
    except ToolExecutionFailedError as stopped:
        return str(stopped.record.failure.code)
    return None


@pytest.mark.parametrize("words", [{}, {"approval": "required"}])
def test_38_crewai_lets_nobody_approve_stars(ledger: Ledger, words: dict[str, Any]) -> None:
    for account in ("ana", "mallory"):
        assert by_crewai(ledger, pay_secret, account, **words) == "NotRecordable"
    assert (DONE, ledger.effects(), ledger.approvals()) == ([], [], [])


def test_38_crewai_shows_what_runs(ledger: Ledger) -> None:
    """A serializer that CrewAI does not use hides nothing."""
    assert by_crewai(ledger, pay_masked, "ana", approval="required") == "ApprovalPending"
    decide(ledger)
    assert by_crewai(ledger, pay_masked, "mallory", approval="required") == "ApprovalPending"
    assert by_crewai(ledger, pay_masked, "ana", approval="required") is None
    assert DONE == ["ana"]
    assert {effect.args["account"] for effect in ledger.effects()} == {"ana", "mallory"}


def strands_secret(ledger: Ledger, account: str) -> None:
    @strands_tool
    def pay(account: SecretStr, amount: int) -> str:
        """Pays to an account."""
        DONE.append(account.get_secret_value())
        return "paid"

    said = strands_called("pay", f"call_{account}", account=account, amount=5)
    result = agent_of(ledger, said, tools=[pay], side_effect="payment")("pay")
    assert result.stop_reason == "end_turn", "the model hears it"


def adk_field(kind: type[BaseModel]) -> Callable[[Ledger, str], None]:
    def pays(ledger: Ledger, account: str) -> None:
        def pay(account: kind, amount: int) -> str:
            """Pays to an account."""
            DONE.append(str(account))
            return "paid"

        said = adk_called("pay", f"call_{account}", account={"number": account}, amount=5)
        Played(ledger, said, tools=[pay], side_effect="payment").begin(account)

    return pays


def adk_default(ledger: Ledger, account: str) -> None:
    usual = SecretStr(account)

    def pay(amount: int, account: Any = usual) -> str:
        """Pays to an account."""
        DONE.append(account.get_secret_value())
        return "paid"

    said = adk_called("pay", f"call_{account}", amount=5)
    Played(ledger, said, tools=[pay], side_effect="payment").begin(account)


@pytest.mark.parametrize(
    "pays",
    [strands_secret, adk_field(Secret), adk_field(Hidden), adk_field(Stars), adk_default],
    ids=["strands secret", "adk secret", "adk hidden", "adk stars", "adk default"],
)
def test_38_no_tool_is_entered_with_what_nobody_could_see(ledger: Ledger, pays: Callable[[Ledger, str], None]) -> None:
    for account in ("ana", "mallory"):
        pays(ledger, account)
    assert (DONE, ledger.effects()) == ([], [])


InCents = Annotated[int, AfterValidator(lambda euros: euros * 100)]


def strands_cents(ledger: Ledger) -> None:
    @strands_tool
    def pay(amount: InCents = 5) -> str:
        """Pays."""
        DONE.append(str(amount))
        return "paid"

    agent_of(ledger, strands_called("pay", "c1"), tools=[pay], side_effect="payment")("pay")


def adk_cents(ledger: Ledger) -> None:
    def pay(amount: InCents = 5) -> str:
        """Pays."""
        DONE.append(str(amount))
        return "paid"

    Played(ledger, adk_called("pay", "c1"), tools=[pay], side_effect="payment").begin()


def crewai_cents(ledger: Ledger) -> None:
    @crewai_tool
    def pay(amount: InCents = 5) -> str:
        """Pays."""
        DONE.append(str(amount))
        return "paid"

    crew_of(
        LedgerTools(ledger, run="order-123", side_effect="payment").tools([pay]), [crewai_called("pay", "c1")]
    ).kickoff()


@pytest.mark.parametrize("pays", [strands_cents, adk_cents, crewai_cents])
def test_38_a_default_that_is_read_otherwise_when_it_is_given_runs_as_it_was_recorded(
    ledger: Ledger, pays: Callable[[Ledger], None]
) -> None:
    pays(ledger)
    (effect,) = ledger.effects()
    assert [str(effect.args["amount"])] == DONE
