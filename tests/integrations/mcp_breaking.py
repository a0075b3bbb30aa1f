"""An MCP server as a process of its own that does the deed, and then breaks its answer in the way it is asked to.

It is written by hand, for no library would send such answers. `stdio` speaks on standard input and output, `http` on a
port that it prints.
"""

from __future__ import annotations

import gzip
import json
import os
import socket
import struct
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

DEEDS = Path(sys.argv[1] if __name__ == "__main__" else "")
WAY = {"type": "object", "properties": {"way": {"type": "string"}}, "required": ["way"], "additionalProperties": False}
PAID = {"type": "object", "properties": {"paid": {"type": "integer"}}, "required": ["paid"]}
TOOLS = [
    {"name": "pay", "description": "Pays.", "inputSchema": WAY},
    {"name": "audited_pay", "description": "Pays.", "inputSchema": WAY, "outputSchema": PAID},
]
CODES = {
    "invalid_params": -32602,
    "method_not_found": -32601,
    "invalid_request": -32600,
    "parse_error": -32700,
    "internal_error": -32603,
    "connection_closed": -32000,
    "request_timeout": -32001,
    "zero": 0,
}
RESULTS: dict[str, Any] = {
    "empty_result": {},
    "null_result": None,
    "text_result": "paid",
    "list_result": [],
    "no_list_of_content": {"content": "paid"},
    "unknown_content": {"content": [{"type": "hologram"}]},
    "says_it_failed": {"content": [{"type": "text", "text": "no funds"}], "isError": True},
    "breaks_its_schema": {"content": [], "structuredContent": {"paid": "a lot"}},
    "lacks_its_schema": {"content": [{"type": "text", "text": "paid"}]},
}
NEVER = ("wrong_id", "null_id", "no_id", "silence")
"""The answer to this call never comes, so that only time ends it."""
STDIO = ("cut_json", "no_json", "two_answers", *NEVER)
HTTP = (
    *("accepted", "moved_away", "moved", "moved_for_good", "not_found", "unauthorized", "conflict", "too_many"),
    *("html", "html_500", "unavailable", "empty", "cut_json", "cut_body", "no_answer", "reset", "cut_gzip", "batch"),
    *("sse_cut", "sse_garbage", "sse_html", "sse_of_nothing", *NEVER),
)
WAYS = {"stdio": (*CODES, *RESULTS, *STDIO), "http": (*CODES, *RESULTS, *HTTP)}
_lock = threading.Lock()


def done(way: str) -> None:
    with _lock, DEEDS.open("a") as deeds:
        deeds.write(f"{way}\n")


def answer(message: dict[str, Any]) -> dict[str, Any] | None:
    """Return the answer to a message, with the deed done if it asks for one; None if there is none."""
    number, method, params = message.get("id"), message.get("method"), message.get("params") or {}
    if number is None:
        return None
    if method == "initialize":
        about = {"name": "bank", "version": "1"}
        result: Any = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": about}
    elif method == "tools/list":
        result = {"tools": TOOLS}
    elif method == "tools/call":
        way = params["arguments"]["way"]
        done(way)
        if way in CODES:
            return {"jsonrpc": "2.0", "id": number, "error": {"code": CODES[way], "message": "went wrong"}}
        result = RESULTS.get(way, {"content": [{"type": "text", "text": "paid"}]})
    else:
        return {"jsonrpc": "2.0", "id": number, "error": {"code": -32601, "message": "Method not found"}}
    return {"jsonrpc": "2.0", "id": number, "result": result}


def misnumbered(way: str, said: dict[str, Any]) -> dict[str, Any] | None:
    match way:
        case "wrong_id":
            return {**said, "id": 10**9}
        case "null_id":
            return {**said, "id": None}
        case "no_id":
            return {name: value for name, value in said.items() if name != "id"}
        case "silence":
            return None
        case _:
            return said


def way_of(message: dict[str, Any]) -> str:
    params = message.get("params") or {}
    return str((params.get("arguments") or {}).get("way")) if message.get("method") == "tools/call" else ""


def stdio() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        said, way = answer(message), way_of(message)
        if said is None:
            continue
        if way == "bye":
            os._exit(0)
        numbered = misnumbered(way, said)
        text = "" if numbered is None else json.dumps(numbered) + "\n"
        if way == "cut_json":
            text = json.dumps(said)[:-9] + "\n"
        elif way == "no_json":
            text = "paid\n"
        elif way == "two_answers":
            text = json.dumps({"jsonrpc": "2.0", "id": said["id"], "error": {"code": -32602, "message": "no"}}) + "\n"
            text += json.dumps(said) + "\n"
        sys.stdout.write(text)
        sys.stdout.flush()


class Web(BaseHTTPRequestHandler):
    """Answers each POST as it is asked to."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.reply(405, b"", {})

    def do_DELETE(self) -> None:
        self.reply(200, b"", {})

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        said, way = answer(message), way_of(message)
        if said is None:
            self.reply(202, b"", {})
            return
        text, html = json.dumps(misnumbered(way, said)).encode(), b"<html>went wrong</html>"
        as_json, as_html, as_sse = "application/json", "text/html", "text/event-stream"
        match way:
            case "accepted":
                self.reply(202, b"", {})
            case "moved_away":
                self.reply(307, b"", {"Location": "http://127.0.0.1:9/mcp"})
            case "moved" | "moved_for_good":
                self.reply(307 if way == "moved" else 308, b"", {"Location": "/mcp"})
            case "not_found" | "unauthorized" | "conflict" | "too_many":
                status = {"not_found": 404, "unauthorized": 401, "conflict": 409, "too_many": 429}[way]
                self.reply(status, html, {"Content-Type": as_html, "Retry-After": "0"})
            case "html" | "html_500" | "unavailable":
                self.reply({"html": 200, "html_500": 500, "unavailable": 503}[way], html, {"Content-Type": as_html})
            case "empty":
                self.reply(200, b"", {"Content-Type": as_json})
            case "cut_json":
                self.reply(200, text[:-9], {"Content-Type": as_json})
            case "cut_body":
                self.reply(200, text[:-9], {"Content-Type": as_json}, length=len(text))
                self.close_connection = True
            case "no_answer":
                self.close_connection = True
            case "reset":
                self.request.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.close_connection = True
            case "cut_gzip":
                self.reply(200, gzip.compress(text)[:-9], {"Content-Type": as_json, "Content-Encoding": "gzip"})
            case "batch":
                self.reply(200, b"[" + text + b"]", {"Content-Type": as_json})
            case "sse_cut":
                self.reply(200, b"event: message\ndata: " + text[:-9] + b"\n\n", {"Content-Type": as_sse})
            case "sse_garbage":
                self.reply(200, b"event: message\ndata: paid\n\n", {"Content-Type": as_sse})
            case "sse_html":
                self.reply(200, html, {"Content-Type": as_sse})
            case "sse_of_nothing":
                self.reply(200, b"", {"Content-Type": as_sse})
            case "silence":
                threading.Event().wait()
            case _:
                self.reply(200, text, {"Content-Type": as_json})

    def reply(self, status: int, body: bytes, headers: dict[str, str], *, length: int | None = None) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        """Say nothing."""


def http() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Web)
    server.daemon_threads = True
    print(server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    stdio() if sys.argv[2] == "stdio" else http()
