"""`Idempotency-Key`: a request that comes again gets the answer it got before, from any server of this ledger."""

from __future__ import annotations

import asyncio
import hmac
import json
import os
import re
from base64 import b64decode, b64encode
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from fastapi import Request
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from indelible.core.commands import Keep, Outrun
from indelible.core.effects.effect import SYSTEM
from indelible.core.remote.problem_types import PROBLEM_TYPES, PROBLEMS
from indelible.core.remote.replies import (
    LONGEST_KEY,
    Reply,
    Standing,
    is_call,
    is_final,
    read_reply,
    reply_id,
    reply_sheet,
)
from indelible.engine.running import in_own_thread
from indelible.errors import IndelibleError, StoreError
from indelible.server.ledgers import Ledgers
from indelible.server.requests.asking import Authenticate
from indelible.server.requests.routing import PROBLEM_JSON
from indelible.server.signin.sessions import cookie_name

HEADER = b"idempotency-key"
REPLAYED = (b"idempotent-replayed", b"true")
MOST_KEPT_BYTES = 256 * 1024
"""Is the largest answer that is kept."""
_SEAL_TAG = b"indelible/reply-seal/v1\0"
_REFUSALS: dict[Standing, tuple[int, str, str]] = {
    "under way": (409, "still-running", "this request is being carried out; ask again in a moment for its answer"),
    "lost": (409, "outcome-unknown", "this request was begun and never answered; look whether it was carried out"),
    "another request": (422, "key-reused", "this Idempotency-Key came with another request; use a new one"),
}

# The right to drive a run or to execute an intent is given once: a copy of that answer would be a second one.
_GIVES_A_RIGHT = re.compile(r"/v1/runs(/[^/]+/(resume|fork))?|/v1/intents/[^/]+/execute")
_NOT_KEPT = "this request was carried out before; its answer was too large to be kept, so look at what it changed"


class Repeating:
    """Stands in front of an application and keeps its answers to requests that carry a key."""

    def __init__(self, app: ASGIApp, ledgers: Ledgers, authenticate: Authenticate) -> None:
        self._app = app
        self._ledgers = ledgers
        self._authenticate = authenticate
        self._under_way: set[asyncio.Task[dict[str, Any]]] = set()
        ledgers.finishing.append(self.close)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on; one that was answered before gets that answer."""
        key = _key_of(scope)
        if key is None:
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        try:
            await self._authenticate(request)  # first: of strangers, nothing more is read
            body = await _whole_body(receive)
            caller = await self._authenticate(request)  # again: a body can take its time
        except HTTPException as refused:  # by who stands in front of us
            await _send(send, _problem(_told(refused.status_code, "too-large", refused.detail)))
            return
        except IndelibleError as error:
            await _tell(request, error, receive, send)
            return
        if not 0 < len(key) <= LONGEST_KEY or not key.isascii() or not key.isprintable():
            text = f"Idempotency-Key: 1 to {LONGEST_KEY} printable ASCII characters"
            await _send(send, _problem(_told(400, "bad-call", text)))
            return
        actor = caller.actor.id if caller.actor is not None else ""
        seal = _Seal(request.headers.get("authorization") or request.cookies.get(cookie_name(request), ""))
        fresh = Reply(id=reply_id(actor, key), request=_digest(scope, body, key), begun_at=datetime.now(UTC))
        try:
            begun = await self._begin(caller.tenant, fresh, seal, _path_of(scope))
        except IndelibleError as error:
            await _tell(request, error, receive, send)
            return
        if not isinstance(begun, Reply):
            await _send(send, begun)
            return
        work = asyncio.create_task(self._carry_out(scope, body, caller.tenant, begun, seal))
        self._under_way.add(work)
        work.add_done_callback(self._under_way.discard)
        await _send(send, await asyncio.shield(work))

    async def _begin(self, tenant: str, fresh: Reply, seal: _Seal, path: str) -> Reply | dict[str, Any]:
        """Return the reply of a request that is to be carried out now, else the answer that it gets instead."""
        there = await self._keep(tenant, fresh)
        if there is None:
            return fresh
        answer = _answer_again(there, fresh, seal, path)
        if answer is not None:
            return answer
        again = there.begun_again(fresh.begun_at)
        is_ours = await self._keep(tenant, again) is None
        return again if is_ours else _problem(_told(*_REFUSALS["under way"]))

    async def _carry_out(self, scope: Scope, body: bytes, tenant: str, begun: Reply, seal: _Seal) -> dict[str, Any]:
        """Have a request carried out and keep its answer, also when the server stops before it can be sent."""
        answer = await _carried_out(self._app, scope, body)
        if answer["status"] < 500 or not is_final(_path_of(scope), answer["status"], _problem_in(answer)):
            with suppress(StoreError):  # what was carried out is answered, also if the answer cannot be kept
                await self._keep(tenant, begun.answered(seal.close(answer)))
        return answer

    async def close(self) -> None:
        """Let what is under way come to its end."""
        if self._under_way:
            await asyncio.wait(self._under_way)

    async def _keep(self, tenant: str, reply: Reply) -> Reply | None:
        """Keeps a reply, unless there is another one at its place: then gives that one."""
        engine = self._ledgers.of(tenant)._engine
        command = Keep(tenant=tenant, stamp=engine.mint.stamp(SYSTEM, 0), sheet=reply_sheet(reply))
        answer = await in_own_thread(engine.write_alone, command)
        if isinstance(answer, Outrun) and answer.sheet is not None and answer.sheet.body is not None:
            return read_reply(answer.sheet)
        return None


async def _tell(request: Request, error: IndelibleError, receive: Receive, send: Send) -> None:
    """Answer with an error as the application does: it says nothing of where the store is."""
    response = await request.app.exception_handlers[IndelibleError](request, error)
    await response(request.scope, receive, send)


def _key_of(scope: Scope) -> str | None:
    if scope["type"] != "http" or scope["method"] != "POST":
        return None
    path = _path_of(scope)
    if path.startswith(("/v1/store/", "/v1/sign-in/", "/v1/webhooks/")) or _GIVES_A_RIGHT.fullmatch(path):
        return None
    found = [value for name, value in scope["headers"] if name == HEADER]
    return found[0].decode("latin-1") if found else None


def _path_of(scope: Scope) -> str:
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", ""))


async def _whole_body(receive: Receive) -> bytes:
    parts = []
    while True:
        message = await receive()
        parts.append(message.get("body", b""))
        if message["type"] != "http.request" or not message.get("more_body", False):
            return b"".join(parts)


def _digest(scope: Scope, body: bytes, key: str) -> str:
    """Gives a hash of a request, keyed by what its sender alone has: of a plain one others could guess the request."""
    named = json.dumps([scope["path"], scope["query_string"].decode("latin-1")]).encode()
    return hmac.digest(key.encode(), len(named).to_bytes(4, "big") + named + body, sha256).hex()


class _Seal:
    """Closes answers so that only who has the token can read them: some hold the right to settle an effect."""

    def __init__(self, authorization: str) -> None:
        self._cipher = AESGCM(sha256(_SEAL_TAG + authorization.encode()).digest())

    def close(self, answer: dict[str, Any]) -> str:
        """Gives an answer closed, or the news that it was too large to be kept."""
        kept = answer if len(answer["body"]) <= MOST_KEPT_BYTES else _problem(_told(409, "answer-not-kept", _NOT_KEPT))
        plain = json.dumps({**kept, "body": b64encode(kept["body"]).decode()}).encode()
        nonce = os.urandom(12)
        return b64encode(nonce + self._cipher.encrypt(nonce, plain, None)).decode()

    def open(self, sealed: str) -> dict[str, Any]:
        """Gives the answer again."""
        raw = b64decode(sealed)
        found: dict[str, Any] = json.loads(self._cipher.decrypt(raw[:12], raw[12:], None))
        return {**found, "body": b64decode(found["body"])}


def _answer_again(there: Reply, now: Reply, seal: _Seal, path: str) -> dict[str, Any] | None:
    """Return what a request gets that came before; None if it is to be carried out."""
    standing = there.standing(now.request, now.begun_at)
    if standing == "lost" and is_call(path):
        return None
    if standing != "answered" or there.sealed is None:
        return _problem(_told(*_REFUSALS[standing]))
    try:
        answer = seal.open(there.sealed)
    except InvalidTag:  # of the same name, and asked with another token or in another session
        return _problem(_told(*_REFUSALS["another request"]))
    if not is_final(path, answer["status"], _problem_in(answer)):
        return None
    return {**answer, "headers": [*answer["headers"], [part.decode() for part in REPLAYED]]}


def _problem_in(answer: dict[str, Any]) -> str | None:
    """Return the name of the problem that an answer tells of."""
    if ["content-type", PROBLEM_JSON] not in answer["headers"]:
        return None
    return str(json.loads(answer["body"])["type"]).removeprefix(PROBLEMS)


async def _carried_out(app: ASGIApp, scope: Scope, body: bytes) -> dict[str, Any]:
    """Has a request carried out, and gives the whole answer."""
    parts: list[bytes] = []
    answer: dict[str, Any] = {}

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            answer["status"] = message["status"]
            answer["headers"] = [
                [name.decode("latin-1"), value.decode("latin-1")] for name, value in message["headers"]
            ]
        else:
            parts.append(message.get("body", b""))

    await app(scope, receive, send)
    return {**answer, "body": b"".join(parts)}


def _told(status: int, name: str, detail: str) -> dict[str, Any]:
    return {"type": PROBLEMS + name, "title": PROBLEM_TYPES[name].title, "status": status, "detail": detail}


def _problem(problem: dict[str, Any]) -> dict[str, Any]:
    body = json.dumps(problem).encode()
    headers = [["content-type", "application/problem+json"], ["content-length", str(len(body))]]
    return {"status": problem["status"], "headers": headers, "body": body}


async def _send(send: Send, answer: dict[str, Any]) -> None:
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in answer["headers"]]
    await send({"type": "http.response.start", "status": answer["status"], "headers": headers})
    await send({"type": "http.response.body", "body": answer["body"]})
