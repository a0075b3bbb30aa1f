"""A model for Claude Code that needs no key: a server on this machine that says what a script says.

    with scripted_model(says) as environment:
        options = ClaudeAgentOptions(env=environment, …)

It speaks as much of Anthropic's Messages API as Claude Code asks for.
"""

from __future__ import annotations

import json
import os
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Says = Callable[[Mapping[str, str]], Sequence[Mapping[str, Any]]]
"""Gives what the model says next, as content blocks, when it knows what came of its calls, by their ids."""


def use(call_id: str, tool: str, args: Mapping[str, Any]) -> dict[str, Any]:
    """Gives the block by which a model calls a tool."""
    return {"type": "tool_use", "id": call_id, "name": tool, "input": dict(args)}


def text(said: str) -> dict[str, Any]:
    """Gives the block by which a model says something."""
    return {"type": "text", "text": said}


@contextmanager
def scripted_model(says: Says) -> Iterator[dict[str, str]]:
    """Serves a scripted model, and gives the environment in which Claude Code asks it, and nobody else."""

    class Asked(_Asked):
        script = staticmethod(says)

    with ThreadingHTTPServer(("127.0.0.1", 0), Asked) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield {
                "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{server.server_port}",
                "ANTHROPIC_API_KEY": "none",
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
                "NO_PROXY": "127.0.0.1," + os.environ.get("NO_PROXY", ""),
            }
        finally:
            server.shutdown()
            thread.join()


class _Asked(BaseHTTPRequestHandler):
    """Answers one connection of Claude Code's."""

    script: Says
    protocol_version = "HTTP/1.1"

    def log_message(self, *words: Any) -> None:
        """Says nothing: what is asked is nobody's business."""

    def do_GET(self) -> None:
        """Is there."""
        self._answer(b"{}", "application/json")

    do_HEAD = do_GET

    def do_POST(self) -> None:
        """Gives the model's next turn; whoever offers no tools wants something else, such as a title."""
        asked = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
        if not self.path.startswith("/v1/messages") or "count_tokens" in self.path:
            return self._answer(b'{"input_tokens": 1}', "application/json")
        said = self.script(_heard(asked["messages"])) if asked.get("tools") else [text("done")]
        message = {
            "id": f"msg_{secrets.token_hex(8)}",
            "type": "message",
            "role": "assistant",
            "model": asked.get("model"),
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }
        stop = "tool_use" if any(block["type"] == "tool_use" for block in said) else "end_turn"
        if not asked.get("stream"):
            whole = {**message, "content": list(said), "stop_reason": stop}
            return self._answer(json.dumps(whole).encode(), "application/json")
        return self._answer(b"".join(_streamed(message, said, stop)), "text/event-stream")

    def _answer(self, content: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


def _heard(messages: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Gives what the model was told of its calls."""
    blocks = [block for one in messages if isinstance(one["content"], list) for block in one["content"]]
    return {one["tool_use_id"]: _plain(one.get("content")) for one in blocks if one["type"] == "tool_result"}


def _plain(content: Any) -> str:
    if isinstance(content, list):
        return "".join(block.get("text", "") for block in content)
    return str(content or "")


def _streamed(message: Mapping[str, Any], said: Sequence[Mapping[str, Any]], stop: str) -> Iterator[bytes]:
    yield _event("message_start", message={**message, "content": [], "stop_reason": None})
    for index, block in enumerate(said):
        begins: dict[str, Any] = {**block, "input": {}}
        part = {"type": "input_json_delta", "partial_json": json.dumps(block.get("input"))}
        if block["type"] == "text":
            begins, part = {"type": "text", "text": ""}, {"type": "text_delta", "text": block["text"]}
        yield _event("content_block_start", index=index, content_block=begins)
        yield _event("content_block_delta", index=index, delta=part)
        yield _event("content_block_stop", index=index)
    yield _event("message_delta", delta={"stop_reason": stop, "stop_sequence": None}, usage={"output_tokens": 1})
    yield _event("message_stop")


def _event(kind: str, **content: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **content})}\n\n".encode()
