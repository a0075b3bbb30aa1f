"""When are two tool calls the same? Keys and digests: SHA-256 over preimages that cannot be confused.

Every preimage is `tag ‖ 00 ‖ parts`, each part preceded by its length as four bytes, big-endian. So no choice of parts
makes two different lists equal, and no key is ever also a digest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, NamedTuple

from indelible.core.effects.calls import ToolCall
from indelible.core.values.canonical import decode, encode
from indelible.errors import BadCall

KEY_TAG = b"indelible/key/v1\0"
DIGEST_TAG = b"indelible/digest/v1\0"
REPEAT_TAG = b"indelible/repeat/v1\0"
SCHEMA_TAG = b"indelible/schema/v1\0"


class Ref(NamedTuple):
    """Locates one effect in a store: tenant first, then the scope in which its key is unique."""

    tenant: str
    scope: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Holds what a call is (`ref`), exactly what it says (`digest`), and the bytes of its arguments."""

    ref: Ref
    digest: str
    args_json: bytes


def identify(call: ToolCall, tenant: str, *, max_bytes: int | None = None, args_json: bytes | None = None) -> Identity:
    """Gives the identity of a call; equal calls get equal identities in every process and every ledger.

    `args_json` stands in for arguments that may not be recorded as they are.
    """
    if args_json is None:
        args_json = encode(call.args, root="args", max_bytes=max_bytes)
    scope = call.run_id if call.scope is None else call.scope
    kind, subject = _subject(call, args_json)
    occurrence = call.call_id if call.dedupe == "call" else None
    return Identity(
        ref=Ref(tenant, scope, call.adopted_key or key_of(tenant, scope, call.tool, kind, subject, occurrence)),
        digest=digest_of(tenant, call.tool, args_json, resource_json(call)),
        args_json=args_json,
    )


def digest_of(tenant: str, tool: str, args_json: bytes, resource: bytes | None) -> str:
    """Gives the digest of exactly this content; `resource` is what the call is about, if it says so."""
    return hashed(DIGEST_TAG, tenant, tool, args_json, resource or b"")


def key_of(tenant: str, scope: str, tool: str, kind: str, subject: bytes, occurrence: str | None) -> str:
    """Gives the key, in hexadecimal, of what `subject` identifies within tenant, scope and tool."""
    if occurrence is None:
        return hashed(KEY_TAG, tenant, scope, tool, kind, subject)
    return hashed(KEY_TAG, tenant, scope, tool, kind, subject, occurrence)


def repeat_of(ref: Ref, call_id: str) -> Ref:
    """Locates the intended repeat of the call at `ref` that the framework named `call_id`."""
    return Ref(ref.tenant, ref.scope, hashed(REPEAT_TAG, ref.key, call_id))


def schema_hash(schema: Mapping[str, Any]) -> str:
    """Gives the hash of a tool's schema and description, by which a change of either is seen."""
    return hashed(SCHEMA_TAG, encode(schema, root="schema"))


def _subject(call: ToolCall, args_json: bytes) -> tuple[str, bytes]:
    if call.resource is not None:
        return "resource", resource_json(call) or b""
    if call.key is None:
        return "args", args_json
    args: Any = decode(args_json)
    return "fields", encode({path: reach(args, path, call.tool) for path in call.key}, root="key")


def resource_json(call: ToolCall) -> bytes | None:
    """Gives the bytes of what a call is about, if it says so."""
    if call.resource is None:
        return None
    return encode([call.resource.namespace, call.resource.type, call.resource.id], root="resource")


def reach(args: Any, path: str, tool: str) -> Any:
    """Gives the argument at a dotted path; a missing one is refused, for it would identify nothing."""
    here = args
    for name in path.split("."):
        if not isinstance(here, Mapping) or name not in here:
            raise BadCall(f"{tool}: key field {path!r} is not among the arguments; pass it or change the tool's key")
        here = here[name]
    return here


def hashed(tag: bytes, *parts: str | bytes) -> str:
    """Gives the SHA-256, in hexadecimal, of a tag and parts that no other list of parts shares."""
    pieces = [tag]
    for part in parts:
        raw = part if isinstance(part, bytes) else part.encode("utf-8")
        pieces += (len(raw).to_bytes(4, "big"), raw)
    return sha256(b"".join(pieces)).hexdigest()
