"""Macs are made as docs/reference/macs.md says: they are recomputed here from the page, with nothing of ours."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from indelible.core import macs
from tests.docs.pages import DOCS
from tests.journal.attacked_world import World, build
from tests.scenarios.raw import execute

PAGE = (DOCS / "reference" / "macs.md").read_text(encoding="utf-8")


def names_in(start: str, after: str) -> list[str]:
    """Return the names that a row of the page's tables has after a word."""
    (row,) = (line for line in PAGE.splitlines() if line.startswith(start))
    return re.findall(r"`(\w+)`", row.partition(after)[2].partition(";")[0].partition("|")[0])


EFFECT = names_in("| `effect` |", "a list of")
SHEET = names_in("| `sheet` |", "a list of")
SIGNED_TYPES = {*names_in("| events |", "of the types")}
SIGNED_KINDS = {*names_in("| sheets of the kinds", "of the kinds")}
MAC_BYTES = 16
USED = {*names_in("| sheets of the kind `grant`", "without")}


def plain(value: Any, *, is_text: bool = False) -> Any:
    if isinstance(value, datetime):
        return round((value - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 10**6)
    if isinstance(value, bytes | memoryview):
        return bytes(value).decode() if is_text else bytes(value).hex()
    return value


def listed(values: dict[str, Any], names: list[str]) -> bytes:
    items = [plain(values[name], is_text=name == "charges") for name in names]
    return json.dumps(items, ensure_ascii=False, separators=(",", ":")).encode()


class Keys:
    """Makes macs as the page says."""

    def __init__(self, folder: Path, tenant: str) -> None:
        (file,) = folder.glob("*/writers.key")
        master = bytes.fromhex(file.read_text().strip())
        self._effects, seed = (
            blake2b(tenant.encode(), key=master, digest_size=32, person=f"ind-key:{use}".encode()).digest()
            for use in ("effects", "rights")
        )
        self._rights = Ed25519PrivateKey.from_private_bytes(seed)

    def mac(self, table: str, content: bytes) -> bytes:
        return blake2b(content, key=self._effects, digest_size=16, person=f"ind-mac:{table}".encode()).digest()

    def signed(self, message: bytes) -> bytes:
        return self._rights.sign(b"indelible/right/v1\0" + message)


def rows(url: str, table: str, columns: list[str]) -> Iterator[dict[str, Any]]:
    for row in execute(url, f"SELECT {', '.join(columns)} FROM indelible_{table}"):
        yield dict(zip(columns, row, strict=True))


def right_in(row: dict[str, Any]) -> bytes | None:
    """Return what of a sheet the rights key signs."""
    body = bytes(row["body"])
    if row["kind"] in SIGNED_KINDS:
        return str(row["version"]).encode() + body
    if row["kind"] == "grant":
        return canonical({name: value for name, value in json.loads(body).items() if name not in USED})
    is_signed = row["status"] in ("pending", "approved") or len(bytes(row["mac"])) > MAC_BYTES
    if row["kind"] == "approval" and is_signed and json.loads(body)["votes"]:
        return canonical({name: json.loads(body)[name] for name in ("digest", "votes")})
    return None


def canonical(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode()


def is_of_sheet(keys: Keys, row: dict[str, Any]) -> bool:
    parts = (slice(MAC_BYTES), slice(MAC_BYTES, 80), slice(80, None))
    mac, signature, uses = (bytes(row["mac"])[part] for part in parts)
    right = right_in(row)
    if mac != keys.mac("sheet", listed(row, SHEET) + bytes(row["body"])) or right is None:
        return mac == bytes(row["mac"]) and right is None
    left = json.loads(bytes(row["body"]))["uses_left"] if row["kind"] == "grant" else 0
    assert left <= int.from_bytes(uses, "big")
    return signature == keys.signed(listed(row, ["tenant", "kind", "id"]) + uses + right)


def test_98_every_mac_of_a_ledger_is_what_the_page_says(store_url: str, own_keys: Path) -> None:
    build(World(store_url, own_keys))
    tenants = execute(store_url, "SELECT DISTINCT tenant FROM indelible_events")
    keys = {tenant: Keys(own_keys, tenant) for (tenant,) in tenants}
    told: set[str] = set()
    for row in rows(store_url, "events", ["tenant", "type", "hash", "mac"]):
        hash_ = bytes(row["hash"]).hex().encode()
        signature = keys[row["tenant"]].signed(hash_) if row["type"] in SIGNED_TYPES else b""
        assert bytes(row["mac"]) == keys[row["tenant"]].mac("event", hash_) + signature, row["type"]
        told.add(row["type"])
    assert told & SIGNED_TYPES
    assert told - SIGNED_TYPES
    values = {}
    for row in rows(store_url, "payloads", ["tenant", "run_id", "seq", "field", "value", "mac"]):
        place = f"{len(row['run_id'])}:{row['run_id']}:{row['seq']}:{row['field']}:"
        value = values[row["tenant"], row["run_id"], row["seq"], row["field"]] = bytes(row["value"])
        assert bytes(row["mac"]) == keys[row["tenant"]].mac("payload", place.encode() + value), row["field"]
    assert values
    effects = list(rows(store_url, "effects", [*EFFECT, "mac"]))
    assert len({row["status"] for row in effects}) > 2
    for row in effects:
        assert bytes(row["mac"]) == keys[row["tenant"]].mac("effect", listed(row, EFFECT)), row["status"]
    sheets = list(rows(store_url, "sheets", [*SHEET, "body", "mac"]))
    assert {row["kind"] for row in sheets} >= {"approval", "budget", "credential", "grant", "person", "policy", "stop"}
    for row in sheets:
        if row["body"] is None:
            row["body"] = values[row["tenant"], row["run_id"], row["seq"], row["kind"]]
        assert is_of_sheet(keys[row["tenant"]], row), row["kind"]


def test_98_the_page_names_every_right() -> None:
    assert (SIGNED_TYPES, SIGNED_KINDS | {"grant"}) == (macs.RIGHT_EVENTS, macs.RIGHTS)
    assert macs._USED == USED
    assert all(f"`{kind}`" in PAGE.partition("for sheets of the kinds")[2] for kind in macs.REMEMBERED)
