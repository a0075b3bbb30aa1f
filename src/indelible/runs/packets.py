"""Packets as files: reads them, checks their shape and where they come from, and writes them for their owner alone."""

from __future__ import annotations

import functools
import json
import os
from base64 import b64decode
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from indelible.core.journal.notes import parse_vkey
from indelible.core.journal.receipts import parse_receipt
from indelible.core.journal.rotation import followed
from indelible.core.runs.resuming import PACKET_EXPORTED, Packet, check_kind, packet_digest
from indelible.core.values.canonical import decode
from indelible.core.values.shapes import misshapen
from indelible.errors import BadCall, JournalError

_NO_PACKET = "this is no resume packet; export one: indelible runs packet RUN"


@functools.cache
def packet_schema() -> Mapping[str, Any]:
    """Gives the JSON Schema of packets."""
    schema: dict[str, Any] = json.loads(files("indelible.runs").joinpath("packet.schema.json").read_bytes())
    return schema


def opened_packet(named: Mapping[str, Any] | str | Path) -> Mapping[str, Any]:
    """Reads a packet from its file, or as it was read from JSON; raises `BadCall` unless it is of the right shape."""
    try:
        written = json.dumps(named, ensure_ascii=False).encode() if isinstance(named, Mapping) else _bytes_of(named)
        plain, content = json.loads(written), decode(written.strip())
    except (OSError, TypeError, ValueError, RecursionError) as problem:
        raise BadCall(f"this cannot be read as a packet: {problem}") from problem
    if not isinstance(plain, dict) or not isinstance(plain.get("packet"), dict) or not isinstance(content, dict):
        raise BadCall(_NO_PACKET)
    check_kind(plain["packet"])  # a packet of a later version may have any shape
    problem_found = misshapen(plain, packet_schema(), "the file")
    if problem_found is not None:
        raise BadCall(f"{problem_found}: this is not as the packet was exported, so nothing of it is taken over")
    return content


def _bytes_of(path: str | Path) -> bytes:
    return Path(path).read_bytes()


def check_packet(signed: Mapping[str, Any], key: str) -> None:
    """Raises unless the ledger with this key made the packet: an event in its journal tells of its hash."""
    try:
        body, receipt = b64decode(signed["event"], validate=True), parse_receipt(signed["receipt"])
        event: Any = decode(body)
        is_told = event["type"] == PACKET_EXPORTED and event["facts"]["packet"] == packet_digest(signed["packet"])
        # One key signs the journals of all tenants, so that it signed says not yet whose journal this is.
        is_its_own = event["log"] == receipt.tree_head().origin == (known := parse_vkey(key)).name
        is_signed = any(receipt.head.signed_by(one) for one in followed(receipt.head, [known]))
        is_proven = is_told and is_its_own and is_signed and receipt.covers(body)
    except (KeyError, TypeError, ValueError) as problem:
        raise JournalError(f"the packet does not prove where it comes from: {problem}") from problem
    if not is_proven:
        raise JournalError("the packet was altered, or is of another ledger than the key you gave")


def told_again(packet: Packet) -> Iterator[dict[str, Any]]:
    """Gives what a packet tells of work done, and the side effects that no effect of it stands for."""
    for receipt in packet.content["receipts"]:
        yield {
            "actor": receipt["actorId"] or None,
            "event_type": receipt["eventType"],
            "payload": receipt["payload"],
            "side_effect": receipt["sideEffectClass"],
            "step": receipt["stepName"],
        }
    adopted = {effect.key for effect in packet.effects}
    for key in packet.content["blockedSideEffectKeys"]:
        if key not in adopted:
            known = {"event_type": "indelible.side_effect_known", "side_effect": "external_mutation"}
            yield {**known, "side_effect_key": key}


def write_packet(path: Path, content: bytes) -> None:
    """Writes a file that only its owner can read, for it holds arguments and results."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)
