"""The contract of provedex's sidecar: its clients point here, and what they sign becomes events of a run.

Its events name no session, so what a credential signs goes into one run of its own; or an address names the run, as in
`http://…/provedex/my-run`. Its clients send no headers of ours, so the token may stand in the address, as a password.
"""

from __future__ import annotations

import base64
import binascii
from datetime import UTC, datetime, timedelta
from typing import Any, Literal
from urllib.parse import quote

from fastapi import APIRouter, Depends, Request
from fastapi.security import HTTPBasic
from pydantic import BaseModel

from indelible.core.effects.calls import check_name
from indelible.core.journal.journal import JOURNAL_RUN
from indelible.core.journal.notes import Note, PublicKey, parse_note, parse_vkey
from indelible.core.paging import every_event
from indelible.core.rights import VerbName
from indelible.errors import BadCall, NotSealed, RunRefused
from indelible.journal.sealing import receipt_of
from indelible.migrating.provedex import RECORDED_AS
from indelible.runs.desk import RunsDesk
from indelible.runs.keeping import RunReport
from indelible.server.peers.provedex_events import AgentEvent
from indelible.server.requests.asking import Asking, asking
from indelible.server.requests.routing import resources
from indelible.server.requests.strict import RunName
from indelible.server.routes.runs import aside, desk_of, let_go, record_all
from indelible.server.shapes.effects import Sent

provedex: APIRouter = resources("provedex")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_AT_ONCE = timedelta(seconds=1)
_DESCRIBED = Depends(HTTPBasic(auto_error=False, description="The token as the password, as in http://key:TOKEN@host."))


class Signing(Sent):
    """Is an event to be signed."""

    event: AgentEvent


class SignedEvent(BaseModel):
    """Is an event as it is on the record. The signature is that of the tree head in `receipt`, which leads to it."""

    seq: int
    timestamp_nanos: int
    event: dict[str, Any]
    parent_hash: str
    self_hash: str
    signature: str
    signer_pubkey: str
    run_id: str
    receipt: str


class ChainReport(BaseModel):
    """Says whether a run's record holds together."""

    status: Literal["valid", "broken"]
    event_count: int
    broken_at_seq: int | None
    broken_reason: str | None
    root_hash: str


class Health(BaseModel):
    """Says whether what is sent can be recorded; `session_id` is the run, `ledger_path` the journal's name."""

    status: Literal["ok", "degraded"]
    session_id: str
    pubkey: str
    ledger_writable: bool
    ledger_path: str


def _asking(verb: VerbName) -> Any:
    """Lets callers in by a token that stands in the address too, as clients send it that know of no other way."""
    inner = asking(verb).dependency

    async def found(request: Request, _described: Any = _DESCRIBED) -> Asking:
        asked: Asking = await inner(_as_bearer(request))
        return asked

    found.verb = inner.verb  # type: ignore[attr-defined]  # for the description
    return Depends(found)


def _as_bearer(request: Request) -> Request:
    kind, _, encoded = request.headers.get("authorization", "").partition(" ")
    if kind.lower() != "basic":
        return request
    try:
        token = base64.b64decode(encoded, validate=True).partition(b":")[2]
    except (binascii.Error, ValueError):
        return request
    others = [(name, value) for name, value in request.scope["headers"] if name != b"authorization"]
    return Request({**request.scope, "headers": [*others, (b"authorization", b"Bearer " + token)]}, request.receive)


BY_AGENT = _asking("drive_runs")
BY_READER = _asking("read")


def _own_run(asked: Asking) -> str:
    """Names the run of a credential."""
    return f"provedex-{quote(asked.actor.id, safe='')}"


# Signing


@provedex.post("/v1/sign")
async def sign(body: Signing, asked: Asking = BY_AGENT) -> SignedEvent:
    """Records an event in the credential's own run, sealed when this answers."""
    return await aside(_signed, asked, _own_run(asked), body)


@provedex.post("/provedex/{run_id}/v1/sign")
async def sign_in_run(run_id: RunName, body: Signing, asked: Asking = BY_AGENT) -> SignedEvent:
    """Records an event in a run, sealed when this answers."""
    return await aside(_signed, asked, run_id, body)


def _signed(asked: Asking, run_id: str, body: Signing) -> SignedEvent:
    desk, event = desk_of(asked), body.event.model_dump()
    _begin_unless_there(desk, run_id, event, asked.actor.id)
    ((told, recorded),) = record_all(
        desk, run_id, None, [{"event_type": RECORDED_AS[body.event.type], "payload": event}]
    )
    asked.ledger._await_sealed(run_id, told.seq)
    receipt = receipt_of(asked.ledger._engine.recorded, asked.caller.tenant, run_id, told.seq)
    content = recorded.read()
    signature, key = _signature(asked, receipt.head)
    return SignedEvent(
        seq=told.seq,
        timestamp_nanos=(datetime.fromisoformat(content["at"]) - _EPOCH) // timedelta(microseconds=1) * 1000,
        event=event,
        parent_hash=content["prev"],
        self_hash=recorded.hash,
        signature=signature.hex(),
        signer_pubkey=key.raw.hex(),
        run_id=run_id,
        receipt=str(receipt),
    )


def _begin_unless_there(desk: RunsDesk, run_id: str, event: dict[str, Any], otherwise: str) -> None:
    if desk.keeping.get(run_id) is not None:
        return
    agent = _name_or(event["payload"].get("agent_id"), otherwise)
    intent = str(event["payload"].get("session_id", ""))
    try:
        let_go(desk, desk.begin(run_id, agent=agent, intent=intent, runtime="provedex", lease=_AT_ONCE))
    except RunRefused as refused:
        if refused.code != "exists":  # else somebody signed the first event at the same time
            raise


def _name_or(said: Any, otherwise: str) -> str:
    try:
        check_name("agent_id", said)
    except BadCall:
        return otherwise
    return str(said)


_KNOWN_KEYS: dict[tuple[str, bytes], PublicKey] = {}


def _signature(asked: Asking, head: Note) -> tuple[bytes, PublicKey]:
    """Gives the journal's own signature of a head, and its key; those of witnesses stand beside it."""
    for found in head.signatures:
        key = _KNOWN_KEYS.get((found.name, found.key_id))
        if key is None:
            _KNOWN_KEYS.update({(one.name, one.id): one for one in _keys(asked)})
            key = _KNOWN_KEYS.get((found.name, found.key_id))
        if key is not None:
            return found.content, key
    raise NotSealed("the newest head is signed by a key that the journal tells nothing of; run: indelible verify")


def _keys(asked: Asking) -> list[PublicKey]:
    """Lists the keys that the journal itself tells of."""
    events = every_event(asked.ledger._engine.recorded, asked.caller.tenant, JOURNAL_RUN)
    facts = (event.read()["facts"] for event in events if event.type in ("key_registered", "key_rotated"))
    return [parse_vkey(told.get("new") or told["key"]) for told in facts]


# Looking


@provedex.post("/v1/verify")
async def verify(asked: Asking = BY_READER) -> ChainReport:
    """Checks the credential's own run; one in which nothing was signed yet is not there."""
    return _report(await aside(desk_of(asked).keeping.verify, _own_run(asked)))


@provedex.post("/provedex/{run_id}/v1/verify")
async def verify_run(run_id: RunName, asked: Asking = BY_READER) -> ChainReport:
    """Checks a run."""
    return _report(await aside(desk_of(asked).keeping.verify, run_id))


def _report(report: RunReport) -> ChainReport:
    reason, at = report.broken, None
    if reason is not None:
        at = int(reason.removeprefix("seq ").partition(":")[0])
    elif report.altered:
        at, name = report.altered[0]
        reason = f"its {name} is not what it commits to"
    elif not report.is_valid:
        reason = next((seal.why for seal in report.seals if not seal.is_valid), report.lineage)
    return ChainReport(
        status="valid" if report.is_valid else "broken",
        event_count=report.events,
        broken_at_seq=at,
        broken_reason=reason,
        root_hash=report.hash,
    )


@provedex.get("/v1/healthz")
async def healthz(asked: Asking = BY_READER) -> Health:
    """Says whether what is signed goes on the record."""
    return await aside(_health, asked, _own_run(asked))


@provedex.get("/provedex/{run_id}/v1/healthz")
async def healthz_of_run(run_id: RunName, asked: Asking = BY_READER) -> Health:
    """Says whether what is signed in a run goes on the record."""
    return await aside(_health, asked, run_id)


def _health(asked: Asking, run_id: str) -> Health:
    # Raises, and so answers with 503, when the store cannot be reached.
    newest = asked.ledger._engine.recorded.journal.heads(asked.caller.tenant, 1)
    return Health(
        status="ok",
        session_id=run_id,
        pubkey=_signature(asked, parse_note(newest[0]))[1].raw.hex() if newest else "",
        ledger_writable=True,
        ledger_path=asked.ledger.journal_name,
    )
