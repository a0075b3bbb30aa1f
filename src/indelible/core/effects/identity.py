"""When are two tool calls the same? Keys and digests: SHA-256 over preimages that cannot be confused.

Every preimage is `tag ‖ 00 ‖ parts`, each part preceded by its length as four bytes, big-endian. So no choice of parts
makes two different lists equal, and no key is ever also a digest.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

from indelible.core.effects.calls import OWN_RUNS, Resource, ToolCall
from indelible.core.values.canonical import decode, encode
from indelible.errors import UnfitArguments

if TYPE_CHECKING:
    from indelible.core.effects.effect import Effect

KEY_TAG = b"indelible/key/v1\0"
DIGEST_TAG = b"indelible/digest/v1\0"
REPEAT_TAG = b"indelible/repeat/v1\0"
SCHEMA_TAG = b"indelible/schema/v1\0"
RESOURCE_TAG = b"indelible/resource/v1\0"
PART_TAG = b"indelible/part/v1\0"
_LONGEST_RESOURCE = 120
_LONGEST_PART = 400
_ADDRESS = re.compile(r"(?<= at )0x[0-9a-fA-F]+")


class Ref(NamedTuple):
    """Locates one effect in a store: tenant first, then the scope in which its key is unique."""

    tenant: str
    scope: str
    key: str


@dataclass(frozen=True, slots=True)
class Naming:
    """What an editor's process cannot know of a call: what its key is made of, and where it was judged."""

    fields: tuple[str, ...] | None = None
    """The arguments that identify the call; None stands for all of them."""
    varies: tuple[str, ...] = ()
    added_json: bytes = b"{}"
    call: tuple[str, ...] = ()
    """What tells an intended repeat from a retry."""
    is_fixed: bool = False
    """A resource identifies the call, or another ledger did: no argument does."""
    derived_from: tuple[str, ...] = ()
    """The arguments that scope, turn, resource or `exclusive` were made of. An edit cannot change these."""
    environment: str = ""
    """The environment whose rules hold for the call."""

    def content(self) -> dict[str, Any]:
        """Return it as it is recorded."""
        return {
            "added": self.added_json.decode(),
            "call": list(self.call),
            "derived_from": list(self.derived_from),
            "environment": self.environment,
            "fields": None if self.fields is None else list(self.fields),
            "is_fixed": self.is_fixed,
            "varies": list(self.varies),
        }

    def key(self, ref: Ref, tool: str, args_json: bytes) -> str | None:
        """Return the key of a call of this tool with these arguments; None if no argument identifies it."""
        if self.is_fixed:
            return None
        added: Any = decode(self.added_json)
        said = without(args_json, _omitted(self.varies, added, args_json))
        kind, subject = _subject(self.fields, added, said, tool)
        return key_of(ref.tenant, ref.scope, tool, kind, subject, *self.call)


BY_ALL_ARGS = Naming()


def naming_of(call: ToolCall, kept: Sequence[str] = (), environment: str = "") -> Naming:
    """Return what identifies a call, and what else of it an edit needs.

    Args:
        call: The call.
        kept: The arguments that its `exclusive` is made of.
        environment: The environment it was judged in.
    """
    return Naming(
        fields=None if call.key is None else tuple(call.key),
        varies=_varying(call),
        added_json=encode(call.added) if call.added else b"{}",
        call=_occurrence(call),
        is_fixed=call.resource is not None or call.adopted_key is not None,
        derived_from=tuple(dict.fromkeys((*call.derived_from, *kept))),
        environment=environment,
    )


def read_naming(content: Mapping[str, Any]) -> Naming:
    """Read what identifies a call as it is recorded."""
    fields = content["fields"]
    return Naming(
        fields=None if fields is None else tuple(fields),
        varies=tuple(content["varies"]),
        added_json=content["added"].encode(),
        call=tuple(content["call"]),
        is_fixed=content["is_fixed"],
        derived_from=tuple(content["derived_from"]),
        environment=content["environment"],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Holds what a call is (`ref`), what it says (`digest`, the call digest), and the bytes of its arguments."""

    ref: Ref
    digest: str
    args_json: bytes
    omitted: tuple[str, ...] = ()
    """The arguments that neither key nor digest is made of."""


def identify(call: ToolCall, tenant: str, *, max_bytes: int | None = None, args_json: bytes | None = None) -> Identity:
    """Gives the identity of a call; equal calls get equal identities in every process and every ledger.

    `args_json` stands in for arguments that may not be recorded as they are.
    """
    if args_json is None:
        args_json = encode(call.args, root="args", max_bytes=max_bytes, is_whole=True)
    scope = scope_of(call)
    varies = _varying(call)
    omitted = _omitted(varies, call.added, args_json) if varies or call.added else ()
    said = without(args_json, omitted)
    if call.resource is not None:
        kind, subject = "resource", resource_json(call) or b""
    else:
        kind, subject = _subject(call.key, call.added, said, call.tool)
    return Identity(
        ref=Ref(tenant, scope, call.adopted_key or key_of(tenant, scope, call.tool, kind, subject, *_occurrence(call))),
        digest=digest_of(tenant, call.tool, said, resource_json(call)),
        args_json=args_json,
        omitted=omitted,
    )


def scope_of(call: ToolCall) -> str:
    """Return the range in which the key of a call is unique: its scope or else its run, or a part of that."""
    whole = call.run if call.scope is None else call.scope
    if not call.part:
        return whole
    said = encode(["run" if call.scope is None else "scope", whole, *call.part], root="part")
    return f"{OWN_RUNS}{said.decode() if len(said) <= _LONGEST_PART else hashed(PART_TAG, said)}"


def says_the_same(call: ToolCall, effect: Effect) -> bool:
    """Say whether a call says what the call of an effect said first, whatever an approver made of that."""
    return identify(call, effect.tenant).digest == effect.digest


def _occurrence(call: ToolCall) -> tuple[str, ...]:
    """Return what tells an intended repeat from a retry; some models number the calls of every turn from zero."""
    if call.dedupe != "call" or call.call_id is None:
        return ()
    return (call.call_id,) if call.turn is None else (call.call_id, call.turn)


def _varying(call: ToolCall) -> tuple[str, ...]:
    """Name the arguments whose values may differ in one call: with `dedupe="turn"`, also the one that names the turn.

    What `key` names identifies the call, even so.
    """
    turn = call.turn_from if call.dedupe == "turn" else None
    if turn is None or any(f"{turn}.".startswith(f"{path}.") for path in call.key or ()):
        return (*call.varies, *call.injected)
    return tuple(dict.fromkeys((*call.varies, *call.injected, turn)))


def _omitted(varies: Sequence[str], added: Mapping[str, Any], args_json: bytes) -> tuple[str, ...]:
    """Name the arguments that do not tell this call from another: those that vary, and those added later.

    A field that was added to an argument that was added itself is left out first: either literal may be without it.
    """
    whole: Any = decode(args_json)
    left: Any = decode(args_json)
    as_before = []
    for path in sorted(added, key=_depth, reverse=True):
        literal = encode(added[path])
        places, last = [_holder(args, path)[0] for args in (whole, left)], path.rpartition(".")[2]
        if any(last in place and encode(place[last]) == literal for place in places):
            as_before.append(path)
            del places[1][last]
    return tuple(sorted({*varies, *as_before}))


def _depth(path: str) -> int:
    return path.count(".")


def _holder(args: Any, path: str) -> tuple[dict[str, Any], str]:
    """Return the object that a dotted path leads into, and the last name; an empty one if it leads nowhere."""
    *above, last = path.split(".")
    here = args
    for name in above:
        here = here.get(name) if isinstance(here, dict) else None
    return (here if isinstance(here, dict) else {}), last


def with_added(args: dict[str, Any], added: Mapping[str, Any]) -> dict[str, Any]:
    """Return recorded arguments with the values that a version before them did not record, each at its place.

    The objects in `args` are changed.
    """
    for path in sorted(added, key=_depth):
        place, last = _holder(args, path)
        place.setdefault(last, decode(encode(added[path])))
    return args


def without(args_json: bytes, omitted: Sequence[str]) -> bytes:
    """Return the arguments without those at these dotted paths; a path that leads nowhere is passed over."""
    if not omitted:
        return args_json
    args: Any = decode(args_json)
    for path in omitted:
        place, last = _holder(args, path)
        place.pop(last, None)
    return encode(args, root="args")


def differing(recorded: Any, given: Any) -> dict[str, tuple[Any, Any]]:
    """Return the arguments in which two calls differ, by name, as `(recorded, given)`; None stands for "not given"."""
    names = sorted({*recorded, *given})
    pairs = {name: (recorded.get(name), given.get(name)) for name in names}
    return {name: pair for name, pair in pairs.items() if encode(pair[0]) != encode(pair[1])}


def digest_of(tenant: str, tool: str, args_json: bytes, resource: bytes | None) -> str:
    """Return the call digest: of tenant, tool, the arguments that do not vary, and the resource, if one is named."""
    return hashed(DIGEST_TAG, tenant, tool, args_json, resource or b"")


def key_of(tenant: str, scope: str, tool: str, kind: str, subject: bytes, *occurrence: str) -> str:
    """Return the key, in hexadecimal, of what `subject` identifies within tenant, scope and tool."""
    return hashed(KEY_TAG, tenant, scope, tool, kind, subject, *occurrence)


def repeat_of(ref: Ref, *occurrence: str) -> Ref:
    """Locate the intended repeat of the call at `ref`: the one with this call id, or of this turn."""
    return Ref(ref.tenant, ref.scope, hashed(REPEAT_TAG, ref.key, *occurrence))


def schema_hash(schema: Mapping[str, Any]) -> str:
    """Gives the hash of a tool's schema and description, by which a change of either is seen."""
    return hashed(SCHEMA_TAG, encode(schema, root="schema"))


def lasting_text(value: object) -> str:
    """Return the text of a part of a tool's schema, the same in every process: without addresses of memory."""
    return _ADDRESS.sub("", str(value))


def _subject(fields: Sequence[str] | None, added: Mapping[str, Any], args_json: bytes, tool: str) -> tuple[str, bytes]:
    if fields is None:
        return "args", args_json
    args: Any = decode(args_json)
    later = [path for path in added if _holder(args, path)[1] not in _holder(args, path)[0]]
    paths = [path for path in fields if not any(path == one or path.startswith(f"{one}.") for one in later)]
    return "fields", encode({path: reach(args, path, f"{tool}: key field") for path in paths}, root="key")


def resource_json(call: ToolCall) -> bytes | None:
    """Gives the bytes of what a call is about, if it says so."""
    if call.resource is None:
        return None
    return encode([call.resource.namespace, call.resource.type, call.resource.id], root="resource")


def resource_name(resource: Resource) -> str:
    """Return a text that names this resource and no other; a long one is shortened to its hash."""
    said = encode([resource.namespace, resource.type, resource.id], root="resource")
    return said.decode() if len(said) <= _LONGEST_RESOURCE else hashed(RESOURCE_TAG, said)


def reach(args: Any, path: str, what: str) -> Any:
    """Return the argument at a dotted path; a missing one is refused, for it would identify nothing."""
    here = args
    for name in path.split("."):
        if not isinstance(here, Mapping) or name not in here:
            raise UnfitArguments(f"{what}: {path!r} is not among the arguments; pass it, or change what the tool says")
        here = here[name]
    return here


def hashed(tag: bytes, *parts: str | bytes) -> str:
    """Gives the SHA-256, in hexadecimal, of a tag and parts that no other list of parts shares."""
    pieces = [tag]
    for part in parts:
        raw = part if isinstance(part, bytes) else part.encode("utf-8")
        pieces += (len(raw).to_bytes(4, "big"), raw)
    return sha256(b"".join(pieces)).hexdigest()
