"""What is recorded of LangChain's callbacks: hashes of what went in and came out, who and when, and what it cost.

A hash is SHA-256 of a text, or of the canonical JSON of anything else: names sorted, no spaces, UTF-8. Messages are
`{"content", "tool_calls", "type"}`. Every call has the id that LangChain gave it, in its beginning and in its end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple
from uuid import UUID

from langchain_core.documents import Document
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration

from indelible.integrations.model_turns import sha256_of

Keep = Literal["hashes", "values"]


class Started(NamedTuple):
    """Is the beginning of a call as LangChain told it; `at` is None where it was not seen."""

    id: UUID
    at: int | None
    model_id: str
    serialized: Mapping[str, Any] | None
    asked: Any
    rest: Mapping[str, Any]


def model_invoked(started: Started, now: int, response: Any, error: BaseException | None, keep: Keep) -> dict[str, Any]:
    """Gives what is recorded of a model's call."""
    prompt = _prompt(started.asked)
    answer = _error_text(error) if error is not None else _answer(response)
    used = (0, 0) if response is None else _tokens(response)
    return {
        **_ended(started, now, error),
        "model_id": _model_of(started),
        "prompt_sha256": None if started.asked is None else sha256_of(prompt),
        "response_sha256": sha256_of(answer),
        "prompt_tokens": used[0],
        "response_tokens": used[1],
        "tool_calls": [] if response is None else [_tool_call(call, keep) for call in _tool_calls(response)],
        **_values(keep, prompt=prompt, response=answer),
    }


def tool_called(started: Started, keep: Keep) -> dict[str, Any]:
    """Gives what is recorded when a tool is called."""
    args = _plain(started.asked)
    return {
        **_begun(started),
        "tool_name": _name_of(started),
        "args_sha256": sha256_of(args),
        "args_redacted": dict.fromkeys(args, "<redacted>") if isinstance(args, Mapping) else "<redacted>",
        **_values(keep, args=args),
    }


def tool_returned(started: Started, now: int, output: Any, error: BaseException | None, keep: Keep) -> dict[str, Any]:
    """Gives what is recorded of a tool's result."""
    result = _error_text(error) if error is not None else _plain(output)
    return {
        **_ended(started, now, error),
        "tool_name": _name_of(started),
        "result_sha256": sha256_of(result),
        **_values(keep, result=result),
    }


def retriever_returned(
    started: Started, now: int, documents: Any, error: BaseException | None, keep: Keep
) -> dict[str, Any]:
    """Gives what is recorded of a search: the question, and each document that was found."""
    found = [_plain(document) for document in documents or ()]
    return {
        **_ended(started, now, error),
        "retriever_name": _name_of(started),
        "query_sha256": None if started.asked is None else sha256_of(started.asked),
        "documents_sha256": [sha256_of(document) for document in found],
        **_values(keep, query=started.asked, documents=found),
    }


def chain_started(started: Started, keep: Keep) -> dict[str, Any]:
    """Gives what is recorded when a chain begins, or a node of a graph is entered."""
    inputs = _plain(started.asked)
    return {**_begun(started), **_place(started), "inputs_sha256": sha256_of(inputs), **_values(keep, inputs=inputs)}


def chain_ended(started: Started, now: int, outputs: Any, error: BaseException | None, keep: Keep) -> dict[str, Any]:
    """Gives what is recorded when a chain or a node has ended."""
    gave = _error_text(error) if error is not None else _plain(outputs)
    place = _place(started)
    return {**_ended(started, now, error), **place, "outputs_sha256": sha256_of(gave), **_values(keep, outputs=gave)}


def graph_moved(event: Any) -> dict[str, Any]:
    """Gives what is recorded when a graph pauses or goes on: the checkpoint that it is saved as."""
    return {
        "id": None if event.run_id is None else str(event.run_id),
        "checkpoint_id": event.checkpoint_id,
        "checkpoint_ns": list(event.checkpoint_ns),
        "interrupts": [pause.id for pause in getattr(event, "interrupts", ())],
        "status": str(event.status),
    }


def _begun(started: Started) -> dict[str, Any]:
    parent, call_id = started.rest.get("parent_run_id"), started.rest.get("tool_call_id")
    return {
        "id": str(started.id),
        "parent": None if parent is None else str(parent),
        "at_ns": None if started.at is None else str(started.at),
        **({} if call_id is None else {"tool_call_id": str(call_id)}),
    }


def _ended(started: Started, now: int, error: BaseException | None) -> dict[str, Any]:
    latency = None if started.at is None else (now - started.at) // 1_000_000
    failed = {} if error is None else {"error": type(error).__name__}
    return {**_begun(started), "at_ns": str(now), "latency_ms": latency, "success": error is None, **failed}


def _place(started: Started) -> dict[str, Any]:
    metadata = started.rest.get("metadata") or {}
    inside = {name: metadata[f"langgraph_{name}"] for name in ("node", "step") if f"langgraph_{name}" in metadata}
    namespace = metadata.get("langgraph_checkpoint_ns")
    return {"name": _name_of(started), **inside, **({} if namespace is None else {"checkpoint_ns": namespace})}


def _values(keep: Keep, **values: Any) -> dict[str, Any]:
    return values if keep == "values" else {}


def _name_of(started: Started) -> str:
    serialized = started.serialized or {}
    return str(started.rest.get("name") or serialized.get("name") or _last(serialized.get("id")) or "unknown")


def _model_of(started: Started) -> str:
    """Gives the model's own name, where LangChain tells it; else that of its class, else the configured one."""
    params, metadata = started.rest.get("invocation_params") or {}, started.rest.get("metadata") or {}
    told = params.get("model") or params.get("model_name") or metadata.get("ls_model_name")
    return str(told or _last((started.serialized or {}).get("id")) or started.model_id)


def _last(path: Any) -> Any:
    return path[-1] if isinstance(path, Sequence) and path else None


def _prompt(asked: Any) -> Any:
    """Gives what a model was asked: texts joined, or messages in a row."""
    if not isinstance(asked, tuple):
        return asked
    if all(isinstance(text, str) for text in asked):
        return "\n".join(asked)
    return [_plain(message) for messages in asked for message in messages]


def _answer(response: Any) -> Any:
    """Gives what a model answered: a text alone, or messages with the calls that they make."""
    given = [_generated(one) for row in response.generations for one in row]
    return given[0] if len(given) == 1 else given


def _generated(generation: Any) -> Any:
    message = _message_of(generation)
    return _plain(message) if isinstance(message, AIMessage) and message.tool_calls else generation.text


def _message_of(generation: Any) -> BaseMessage | None:
    """Gives the message that was generated; asking a model without one for it would take pydantic long to deny."""
    return generation.message if isinstance(generation, ChatGeneration) else None


def _messages(response: Any) -> list[BaseMessage]:
    found = (_message_of(one) for row in response.generations for one in row)
    return [message for message in found if message is not None]


def _tool_calls(response: Any) -> list[Any]:
    return [call for message in _messages(response) if isinstance(message, AIMessage) for call in message.tool_calls]


def _tool_call(call: Mapping[str, Any], keep: Keep) -> dict[str, Any]:
    args = _plain(call["args"])
    return {"id": call.get("id"), "name": call["name"], "args_sha256": sha256_of(args), **_values(keep, args=args)}


def _tokens(response: Any) -> tuple[int, int]:
    usage = (response.llm_output or {}).get("token_usage") or {}
    if usage:
        return int(usage.get("prompt_tokens") or 0), int(usage.get("completion_tokens") or 0)
    told = [message.usage_metadata for message in _messages(response) if isinstance(message, AIMessage)]
    found = [usage for usage in told if usage is not None]
    return sum(usage["input_tokens"] for usage in found), sum(usage["output_tokens"] for usage in found)


def _plain(value: Any) -> Any:
    match value:
        case BaseMessage():
            return {
                "type": value.type,
                "content": value.content,
                "tool_calls": [
                    {"name": call["name"], "args": call["args"], "id": call["id"]}
                    for call in (value.tool_calls if isinstance(value, AIMessage) else ())
                ],
            }
        case Document():
            return {"content": value.page_content, "metadata": _plain(value.metadata)}
        case Mapping():
            return {str(name): _plain(part) for name, part in value.items()}
        case list() | tuple():
            return [_plain(part) for part in value]
        case str() | int() | float() | bool() | None:
            return value
        case _:
            return repr(value)


def _error_text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
