"""The journal for auditors: signed heads, entries and tiles, proofs, its public keys, and the verifier itself."""

from __future__ import annotations

import re
import threading
from base64 import b64encode
from datetime import timedelta
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query, Request, Response
from fastapi.responses import PlainTextResponse

from indelible.core.effects.calls import check_name
from indelible.core.journal.journal import JOURNAL_RUN, JournalStore
from indelible.core.journal.merkle import HASH_BYTES, consistency_proof
from indelible.core.journal.notes import Note, parse_head, parse_note
from indelible.core.journal.tiles import WIDTH, entries_path, node_reader, pack_entries, tile_path
from indelible.engine.running import in_own_thread
from indelible.errors import BadCall, JournalError, NotRun, NotSealed, UnknownRun
from indelible.journal.evidence.live import LiveEvidence
from indelible.journal.evidence.verification import verify
from indelible.journal.sealing import receipt_of, shown_heads
from indelible.server.requests.asking import Asking, asking
from indelible.server.requests.routing import PROBLEMS_TOLD, answer, resources
from indelible.server.routes.effects import Limit
from indelible.server.routes.events import LARGEST
from indelible.server.shapes.effects import EventPage, entry_shown
from indelible.server.shapes.journal import (
    ConsistencyShown,
    Demanded,
    HeadList,
    HeadShown,
    InclusionShown,
    KeyList,
    VerificationShown,
)

journal: APIRouter = resources("journal")
Size = Annotated[int, Query(ge=0, le=LARGEST)]
_TILE = re.compile(r"tile/(entries|[0-9]|[1-5][0-9]|6[0-3])/((?:x[0-9]{3}/){0,5}[0-9]{3})(?:\.p/([1-9][0-9]{0,2}))?")
_FOR_EVER = {"Cache-Control": "private, max-age=31536000, immutable"}
_TEXT_TOLD: dict[int | str, dict[str, Any]] = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}
_NOT_YET: dict[int | str, dict[str, Any]] = {404: PROBLEMS_TOLD[404]}


@journal.get("/v1/journal/head", response_model=HeadShown, responses={**_TEXT_TOLD, **_NOT_YET})
async def show_head(request: Request, asked: Asking = asking("read")) -> Response:
    """Show the newest signed head; as a signed note to `Accept: text/plain`."""
    note = await _newest(asked)
    if "text/plain" in request.headers.get("accept", ""):
        return PlainTextResponse(str(note))
    return answer(_head(note))


@journal.get("/v1/journal/checkpoint", response_class=PlainTextResponse, responses=_NOT_YET)
async def show_note(asked: Asking = asking("read")) -> Response:
    """Show the newest signed head under the name that the tlog-tiles layout gives it."""
    return PlainTextResponse(str(await _newest(asked)))


async def _newest(asked: Asking) -> Note:
    heads = await in_own_thread(shown_heads, asked.ledger._engine.recorded, asked.caller.tenant, 1)
    if not heads:
        raise HTTPException(404, "nothing of this journal is signed yet; ask again in a moment")
    return parse_note(heads[0])


@journal.get("/v1/journal/heads", response_model=HeadList)
async def list_heads(
    before: Annotated[int | None, Query(ge=1, le=LARGEST, description="Only heads smaller than this.")] = None,
    limit: Limit = 100,
    asked: Asking = asking("read"),
) -> Response:
    """List signed heads, the largest first."""
    up_to = None if before is None else before - 1
    notes = await in_own_thread(shown_heads, asked.ledger._engine.recorded, asked.caller.tenant, limit + 1, up_to)
    shown = [_head(parse_note(note)) for note in notes[:limit]]
    return answer({"heads": shown, "next": shown[-1]["size"] if len(notes) > limit else None})


@journal.get("/v1/journal/entries", response_model=EventPage)
async def list_entries(after: Annotated[int, Query(ge=-1, le=LARGEST)] = -1, limit: Limit = 100,
                       asked: Asking = asking("read")) -> Response:  # fmt: skip
    """List events by their place in the journal."""
    found = await in_own_thread(_kept(asked).entries, asked.caller.tenant, after + 1, limit + 1)
    shown = [entry_shown(entry) for entry in found[:limit]]
    return answer({"events": shown, "next": shown[-1]["index"] if len(found) > limit else None})


@journal.get(
    "/v1/journal/tile/{path:path}",
    response_class=Response,
    responses={200: {"description": "A tile, for ever the same.", "content": {"application/octet-stream": {}}}},
)
async def show_tile(path: str, asked: Asking = asking("read")) -> Response:
    """Give hashes or entries, 256 to a file, as C2SP's tlog-tiles lays them out; only what a signed head covers."""
    place = _place(f"tile/{path}")
    content = None if place is None else await in_own_thread(_tile, asked, *place)
    if content is None:
        raise HTTPException(404, "no signed head covers such a tile")
    headers = {**_FOR_EVER, "Content-Disposition": "attachment"}
    return Response(content, headers=headers, media_type="application/octet-stream")


def _place(path: str) -> tuple[int | None, int, int] | None:
    """Reads level, number and width off a tile's path; entries have no level. None when it is the name of none."""
    match = _TILE.fullmatch(path)
    if match is None:
        return None
    number, width = int(re.sub(r"[x/]", "", match[2])), int(match[3] or WIDTH)
    level = None if match[1] == "entries" else int(match[1])
    name = entries_path(number, width) if level is None else tile_path(level, number, width)
    return (level, number, width) if name == path else None


def _tile(asked: Asking, level: int | None, number: int, width: int) -> bytes | None:
    kept, tenant = _kept(asked), asked.caller.tenant
    heads = kept.heads(tenant, 1)
    needed = (number * WIDTH + width) * WIDTH ** (level or 0)
    if not heads or parse_head(parse_note(heads[0]).text).size < needed:
        return None
    if level is not None:
        return kept.tile(tenant, level, number)[: width * HASH_BYTES]
    found = kept.entries(tenant, number * WIDTH, width)
    if len(found) != width:
        raise JournalError(f"entries are gone from {entries_path(number, width)}; run: indelible verify")
    return pack_entries(entry.body for entry in found)


@journal.get("/v1/journal/inclusion", response_model=InclusionShown, responses=_TEXT_TOLD)
async def prove_inclusion(
    request: Request,
    run_id: str,
    seq: Annotated[int, Query(ge=0, le=LARGEST)],
    asked: Asking = asking("read"),
) -> Response:
    """Prove that an event is in the journal: a receipt that verifies offline; one file to `Accept: text/plain`."""
    check_name("run_id", run_id)
    store = asked.ledger._engine.recorded
    if not any(event.seq == seq for event in await asked.ledger.events(run_id, after=seq - 1, limit=1)):
        raise UnknownRun(f"no run of this tenant has the name {run_id} and an event {seq}")
    try:
        receipt = await in_own_thread(receipt_of, store, asked.caller.tenant, run_id, seq)
    except NotSealed:
        raise NotRun(f"event {seq} of run {run_id} is under no signed head yet; ask again in a moment") from None
    if "text/plain" in request.headers.get("accept", ""):
        return PlainTextResponse(str(receipt))
    head = receipt.tree_head()
    shown = {"run_id": run_id, "seq": seq, "index": receipt.index, "size": head.size, "root": _base64(head.root)}
    proof = [_base64(one) for one in receipt.proof]
    return answer({**shown, "entry": _base64(receipt.extra or b""), "proof": proof, "receipt": str(receipt)})


@journal.get("/v1/journal/consistency", response_model=ConsistencyShown)
async def prove_consistency(
    old: Size, new: Annotated[int | None, Query(ge=0, le=LARGEST)] = None, asked: Asking = asking("read")
) -> Response:
    """Prove that the journal only grew between two sizes; without `new`, up to the newest signed head."""
    signed = parse_head((await _newest(asked)).text).size
    size = signed if new is None else new
    if not old <= size <= signed:
        raise BadCall(f"{signed} entries are signed; name two sizes up to that, the smaller one as old")
    kept, tenant = _kept(asked), asked.caller.tenant
    read = node_reader(lambda level, number: kept.tile(tenant, level, number))
    proof = await in_own_thread(consistency_proof, old, size, read)
    return answer({"old": old, "new": size, "proof": [_base64(one) for one in proof]})


@journal.get("/.well-known/indelible-keys.json", response_model=KeyList)
async def list_keys(asked: Asking = asking("read")) -> Response:
    """List the public keys of the tenant's journal. Whoever verifies gets them by another way as well, once."""
    keys: dict[str, dict[str, Any]] = {}
    after = -1
    while page := await asked.ledger.events(JOURNAL_RUN, after=after, limit=1000):
        for event in page:
            if event.type in ("key_registered", "key_rotated", "key_revoked"):
                _take_key(keys, event.type, event.read()["facts"])
        after = page[-1].seq
    return answer({"origin": asked.ledger.journal_name, "keys": list(keys.values())})


def _take_key(keys: dict[str, dict[str, Any]], event_type: str, facts: dict[str, Any]) -> None:
    if event_type == "key_revoked":
        keys[facts["key"]] = {"vkey": facts["key"], "status": "revoked", "valid_up_to": facts["size"]}
        return
    for key in keys.values():
        if key["status"] == "current":
            key["status"] = "retired"
    vkey = facts["key" if event_type == "key_registered" else "new"]
    keys[vkey] = {"vkey": vkey, "status": "current", "valid_up_to": None}


_ONE_AT_A_TIME = threading.Lock()  # verifying takes a processor for as long as it lasts


@journal.post("/v1/journal/verify", response_model=VerificationShown)
async def verify_journal(body: Demanded, asked: Asking = asking("audit")) -> Response:
    """Run the verifier over the live journal. It tells what it checked, against what, and what it cannot rule out.

    The server seals first if it has the key. `up_to_head` verifies the signed part alone, and seals nothing.
    """
    if body.quorum is not None and body.quorum > len(body.witnesses):
        raise BadCall(f"quorum: {body.quorum} witnesses are demanded, and {len(body.witnesses)} are named")
    seal = None if body.up_to_head else asked.ledger._engine.notary.seal_with_own_key
    evidence = LiveEvidence(asked.ledger._engine.recorded, asked.caller.tenant, seal)
    evidence.source = f"the live journal {asked.ledger.journal_name}"
    fresh = None if body.fresh_within_s is None else timedelta(seconds=body.fresh_within_s)

    def run() -> dict[str, Any]:
        with _ONE_AT_A_TIME:
            report = verify(
                evidence,
                body.keys,
                after=body.after,
                witnesses=body.witnesses,
                quorum=body.quorum,
                fresh_within=fresh,
                deep=body.deep,
                semantics=body.semantics,
                up_to_head=body.up_to_head,
            )
        return report.as_json()

    return answer(await in_own_thread(run))


def _kept(asked: Asking) -> JournalStore:
    return asked.ledger._engine.recorded.journal


def _head(note: Note) -> dict[str, Any]:
    signed = parse_head(note.text)
    signers = [{"name": one.name, "key_id": one.key_id.hex()} for one in note.signatures]
    shown = {"origin": signed.origin, "size": signed.size, "root": _base64(signed.root)}
    return {**shown, "signatures": signers, "note": str(note)}


def _base64(content: bytes) -> str:
    return b64encode(content).decode()
