"""Agents with scripted models, for tests: what a model would say is given, and tools count how often they run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.language_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, tool
from langgraph.checkpoint.memory import InMemorySaver

THREAD: RunnableConfig = {"configurable": {"thread_id": "order-123"}}
HELLO = {"messages": [("user", "refund order 123")]}


class Scripted(FakeMessagesListChatModel):
    """Says what it was given to say, and counts how often it is asked."""

    def bind_tools(self, tools: Sequence[Any], **words: Any) -> Any:
        return self


def calls(*asked: tuple[str, dict[str, Any], str]) -> AIMessage:
    """Gives a model's turn that calls these tools: name, arguments, id."""
    return AIMessage(content="", tool_calls=[{"name": name, "args": args, "id": id_} for name, args, id_ in asked])


class Till:
    """Has a tool that says how often it was entered, and with what."""

    def __init__(self, give: Callable[[str, int], Any] | None = None) -> None:
        self.charged: list[tuple[str, int]] = []
        self._give = give

        @tool
        def charge(order: str, amount: int) -> Any:
            """Charges an order."""
            self.charged.append((order, amount))
            return f"charged {amount}" if self._give is None else self._give(order, amount)

        self.tool: BaseTool = charge


def agent(
    till: Till, middleware: Sequence[AgentMiddleware], turns: Sequence[BaseMessage] | None = None, saver: Any = None
) -> Any:
    """Gives an agent that charges order 1 by call c1, and then says that it is done."""
    turns = turns or [calls(("charge", {"order": "1", "amount": 5}, "c1")), AIMessage(content="done")]
    return create_agent(
        Scripted(responses=list(turns)), [till.tool], middleware=middleware, checkpointer=saver or InMemorySaver()
    )


def said(result: dict[str, Any]) -> list[ToolMessage]:
    """Gives what tools told the model."""
    return [message for message in result["messages"] if isinstance(message, ToolMessage)]
