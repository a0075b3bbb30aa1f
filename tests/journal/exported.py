"""A journal to export: two runs with effects in many states, and a reader of bundles that trusts only hashes."""

from __future__ import annotations

import json
import zipfile
from base64 import b64decode
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from indelible import Actor, AwaitingApproval, Ledger, MayHaveHappened, Refused, RunningEffect, Succeeded, ToolCall
from indelible.core.events import commitment
from indelible.core.journal.merkle import leaf_hash, root_of
from indelible.core.journal.notes import TreeHead, log_name, parse_head, parse_note
from indelible.core.journal.receipts import parse_receipt
from indelible.core.journal.tiles import entries_path, grow, tile_path, unpack_entries
from indelible.core.ports import Store

# bidi, a terminal's escape, zero width, an invisible tag, markup, the end of a script
SLY = "Ada \u202eadA \x1b[31m\u200b\U000e0041 <img src=x onerror=alert(1)></script><script>alert(2)</script>"


def call(tool: str, run_id: str = "order-1", **args: Any) -> ToolCall:
    return ToolCall(tool=tool, args=args, run_id=run_id)


def lose(effect: RunningEffect) -> None:
    raise MayHaveHappened(f"the line went dead {SLY}")


def fail(effect: RunningEffect) -> None:
    raise Refused(f"no money {SLY}")


def work(ledger: Ledger) -> None:
    """Leaves a record with something of everything."""
    ledger.run(call("crm.lookup", name=SLY), lambda effect: {"note": SLY, "n": 1.5}, side_effect="read")
    for handler, tool in ((lose, "stripe.refund"), (fail, "mail.send")):
        with suppress(MayHaveHappened, Refused):
            ledger.run(call(tool, charge="ch_1", amount=4200), handler, side_effect="payment", await_inclusion=False)
    ask(ledger, "wire.transfer", is_allowed=True)
    ask(ledger, "table.drop", is_allowed=False)
    (doubted,) = ledger.effects(status="in_doubt")
    ledger.settle(doubted, Succeeded({"id": "re_1"}), by="ana", evidence="re_1 in the dashboard")
    for number in range(3):
        ledger.run(call("note.write", "order-2", n=number, text="=1+1"), lambda effect: -5)
    with suppress(MayHaveHappened):
        ledger.run(call("stripe.refund", "order-2", charge="ch_2"), lose, side_effect="payment", await_inclusion=False)


def ask(ledger: Ledger, tool: str, *, is_allowed: bool) -> None:
    begun = ledger.begin(call(tool, amount=10), approval="required", side_effect="write")
    assert isinstance(begun, AwaitingApproval)
    actor = Actor("ana", "person", "passkey")
    if is_allowed:
        ledger.approve(begun.approval.id, digest=begun.approval.digest, by=actor, reason="looks right")
        ledger.run(call(tool, amount=10), lambda effect: {"id": "wt_9"}, approval="required", side_effect="write")
    else:
        ledger.deny(begun.approval.id, digest=begun.approval.digest, by=actor, reason=f"no way {SLY}")


def store_of(ledger: Ledger) -> Store:
    return ledger._engine.store


def key_of(ledger: Ledger) -> str:
    """Gives the public key that an auditor would get."""
    origin = log_name(store_of(ledger).ledger_name, ledger.tenant)
    return ledger._engine.notary.signer().keys(origin)[0].vkey


def files_of(bundle: Path) -> dict[str, bytes]:
    """Gives a bundle's files, be it a folder or a zip."""
    if bundle.is_file():
        with zipfile.ZipFile(bundle) as archive:
            assert len(set(archive.namelist())) == len(archive.namelist())
            return {name: archive.read(name) for name in archive.namelist()}
    return {path.relative_to(bundle).as_posix(): path.read_bytes() for path in bundle.rglob("*") if path.is_file()}


def lines_of(content: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in content.splitlines()]


def bodies_in(files: Mapping[str, bytes]) -> dict[int, bytes]:
    """Gives the entries of a bundle, each proven against its head."""
    head = parse_head(parse_note(files["checkpoint"]).text)
    if any(name.startswith("receipts/") for name in files):
        return _bodies_by_receipts(files, head)
    return _bodies_by_tiles(files, head)


def _bodies_by_receipts(files: Mapping[str, bytes], head: TreeHead) -> dict[int, bytes]:
    bodies = {}
    for name, content in files.items():
        if name.startswith("receipts/"):
            receipt = parse_receipt(content)
            assert name == f"receipts/{receipt.index}.tlog-proof"
            assert str(receipt.head).encode() == files["checkpoint"]
            assert receipt.extra is not None
            assert receipt.tree_head() == head
            assert receipt.covers(receipt.extra)
            bodies[receipt.index] = receipt.extra
    return bodies


def _bodies_by_tiles(files: Mapping[str, bytes], head: TreeHead) -> dict[int, bytes]:
    entries: list[bytes] = []
    while len(entries) < head.size:
        width = min(256, head.size - len(entries))
        entries += unpack_entries(files[entries_path(len(entries) // 256, width)])
    leaves = [leaf_hash(entry) for entry in entries]
    assert (len(entries), root_of(leaves)) == (head.size, head.root)
    tiles = grow(0, leaves, lambda level, number: b"").tiles
    wanted = {tile_path(level, number, len(tile) // 32): tile for (level, number), tile in tiles.items()}
    found = {name: content for name, content in files.items() if name.startswith("tile/") and "/entries/" not in name}
    assert found == wanted
    for name, content in files.items():
        if name.startswith("heads/"):
            old = parse_head(parse_note(content).text)
            assert name == f"heads/{old.size}"
            assert old.root == root_of(leaves[: old.size])
    return dict(enumerate(entries))


def check_bundle(files: Mapping[str, bytes]) -> dict[int, dict[str, Any]]:
    """Checks a bundle by its hashes alone, and gives its events."""
    events = {index: json.loads(body) for index, body in sorted(bodies_in(files).items())}
    payloads = lines_of(files["payloads.ndjson"])
    assert [(line["index"], line["field"]) for line in payloads] == sorted((p["index"], p["field"]) for p in payloads)
    for line in payloads:
        assert list(line) == ["field", "index", "salt", "value"]
        found = commitment(bytes.fromhex(line["salt"]), line["field"], b64decode(line["value"]))
        assert found == events[line["index"]]["commits"][line["field"]]
    manifest = json.loads(files["manifest.json"])
    head = parse_head(parse_note(files["checkpoint"]).text)
    assert (manifest["origin"], manifest["size"], b64decode(manifest["root"])) == (head.origin, head.size, head.root)
    assert (manifest["events"], manifest["payloads"]) == (len(events), len(payloads))
    assert (manifest["first"], manifest["last"]) == (min(events), max(events))
    return events
