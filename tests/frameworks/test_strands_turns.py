"""FAULT 45 behind Strands, which keeps several agents in a session: each has messages, so turns, of its own."""

from typing import Any

import pytest
from strands import Agent, tool
from strands.session.file_session_manager import FileSessionManager

from indelible import Ledger, instrument
from indelible.integrations.strands import LedgerPlugin
from indelible.testing.adapters.strands import ScriptedModel, called

DONE: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    DONE.clear()


def agent_of(ledger: Ledger, agent_id: str, plugins: list[Any]) -> Agent:
    @tool
    def mail(text: str) -> str:
        """Sends a mail."""
        DONE.append(f"{agent_id} {text}")
        return "sent"

    turns: Any = []
    for number in range(3):
        turns += [[called("mail", f"call_{agent_id}{number}", text="hello")], [{"text": "done"}]]
    return Agent(
        agent_id=agent_id,
        model=ScriptedModel(turns),
        tools=[mail],
        session_manager=FileSessionManager("order-123", storage_dir="sessions"),
        plugins=plugins,
        callback_handler=None,
    )


@pytest.mark.parametrize("is_everywhere", [False, True])
@pytest.mark.parametrize("words", [{}, {"run": "order"}])
@pytest.mark.parametrize("said", ["go", "now you"])
def test_45_what_the_user_says_to_another_agent_of_a_session_is_another_message(
    ledger: Ledger, is_everywhere: bool, words: dict[str, Any], said: str
) -> None:
    for agent_id, message in (("clerk", "go"), ("auditor", said)):
        if is_everywhere:
            with instrument(ledger, side_effect="notification"), ledger.in_run(words.get("run", "order-123")):
                agent_of(ledger, agent_id, [])(message)
        else:
            agent_of(ledger, agent_id, [LedgerPlugin(ledger, side_effect="notification", **words)])(message)
    assert DONE == ["clerk hello", "auditor hello"]
    assert len({effect.turn for effect in ledger.effects()}) == 2


@pytest.mark.parametrize("is_everywhere", [False, True])
def test_45_what_the_user_says_next_is_another_turn_behind_every_door(ledger: Ledger, is_everywhere: bool) -> None:
    for message in ("go", "go", "now"):
        if is_everywhere:
            with instrument(ledger, side_effect="notification"):
                agent_of(ledger, "clerk", [])(message)
        else:
            agent_of(ledger, "clerk", [LedgerPlugin(ledger, side_effect="notification")])(message)
    assert DONE == ["clerk hello"] * 3
    assert len({effect.turn for effect in ledger.effects()}) == 3
