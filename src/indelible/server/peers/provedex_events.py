"""The seven events of provedex, as its schema of version 1 has them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from indelible.server.shapes.effects import Sent

Count = Annotated[int, Field(ge=0, le=2**64 - 1)]
Tokens = Annotated[int, Field(ge=0, le=2**32 - 1)]


class SessionStarted(Sent):
    """Says who begins to work, with which model."""

    agent_id: str
    model_id: str
    session_id: str


class UtteranceCaptured(Sent):
    """Says what was heard."""

    audio_sha256: str
    transcript: str
    lang: str
    duration_ms: Count


class ToolCalled(Sent):
    """Says which tool is called; what may be seen of its arguments is the sender's choice."""

    tool_name: str
    args_sha256: str
    args_redacted: Any


class ToolReturned(Sent):
    """Says that a tool has returned."""

    tool_name: str
    result_sha256: str
    latency_ms: Count
    success: bool


class ModelInvoked(Sent):
    """Says that a model was asked."""

    model_id: str
    prompt_sha256: str
    response_sha256: str
    prompt_tokens: Tokens
    response_tokens: Tokens


class UtteranceSpoken(Sent):
    """Says what was said."""

    text_sha256: str
    text: str
    audio_sha256: str


class SessionEnded(Sent):
    """Says that the work has ended, and why."""

    reason: str
    summary_sha256: str


class _Started(Sent):
    type: Literal["SessionStarted"]
    payload: SessionStarted


class _Captured(Sent):
    type: Literal["UtteranceCaptured"]
    payload: UtteranceCaptured


class _Called(Sent):
    type: Literal["ToolCalled"]
    payload: ToolCalled


class _Returned(Sent):
    type: Literal["ToolReturned"]
    payload: ToolReturned


class _Invoked(Sent):
    type: Literal["ModelInvoked"]
    payload: ModelInvoked


class _Spoken(Sent):
    type: Literal["UtteranceSpoken"]
    payload: UtteranceSpoken


class _Ended(Sent):
    type: Literal["SessionEnded"]
    payload: SessionEnded


AgentEvent = Annotated[
    _Started | _Captured | _Called | _Returned | _Invoked | _Spoken | _Ended, Field(discriminator="type")
]
