"""Takes over a ledger of provedex: a file with one signed event to a line, each with the hash of the one before.

It is verified whole before anything is written. Of every line all members are kept, its hash and signature as well.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from indelible.core.effects.effect import hash_of
from indelible.errors import BadCall, JournalError
from indelible.ledger import Ledger
from indelible.migrating.taking import Progress, Taking, untold

RECORDED_AS = {
    "SessionStarted": "callback.session_started",
    "UtteranceCaptured": "callback.utterance_captured",
    "ToolCalled": "callback.tool_called",
    "ToolReturned": "callback.tool_returned",
    "ModelInvoked": "callback.model_invoked",
    "UtteranceSpoken": "callback.utterance_spoken",
    "SessionEnded": "callback.session_ended",
}
"""The type of event of a run, at a server too. Our own callback handler records the same callbacks by these names."""
SIGNED = frozenset({"seq", "timestamp_nanos", "event", "parent_hash"})
"""Are the members that the hash is of; the rest of a line can be changed without anybody seeing it."""
KNOWN = SIGNED | {"self_hash", "signature", "signer_pubkey"}
_FIRST_PARENT = "0" * 64
_AT_ONCE = 200
_AT_MOST = timedelta(seconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """Is a file whose lines hold together: each is as it was signed, and follows the one before."""

    lines: Sequence[str]
    """Are as they stand in the file: a text takes a fraction of the room that its members would."""
    hashes: Sequence[str]
    signers: tuple[str, ...]
    torn: int | None
    """Is the number of a last line that was never finished."""

    @property
    def first(self) -> str:
        """Is the hash of its first event, by which the file is known again."""
        return self.hashes[0]


def verify_lines(path: Path) -> Verified:
    """Verifies a file; raises `JournalError` with the number of the first line that does not hold."""
    lines: list[str] = []
    hashes: list[str] = []
    signers: dict[str, None] = {}
    torn = None
    for number, (text, is_finished) in enumerate(_texts(path), start=1):
        try:
            line = _line(text)
        except ValueError as problem:
            if not is_finished:
                torn = number
                break
            raise _broken(path, number, f"it is no event: {problem}") from problem
        why = why_broken(line, text, len(lines), hashes[-1] if hashes else _FIRST_PARENT)
        if why is not None:
            raise _broken(path, number, why)
        signers[line["signer_pubkey"]] = None
        hashes.append(line["self_hash"])
        lines.append(text)
    if not lines:
        raise JournalError(f"{path} holds no event, so there is nothing that could be verified")
    return Verified(lines=lines, hashes=hashes, signers=tuple(signers), torn=torn)


def why_broken(line: dict[str, Any], text: str, seq: int, parent: str) -> str | None:
    """Says what is wrong with a line in this place; None when nothing is."""
    if line["seq"] != seq:
        return f"it says that it is event {line['seq']}, and {seq} comes here: something is missing or added"
    if line["parent_hash"] != parent:
        return "it does not follow the line before: that was changed, or something is missing or added"
    if hash_of_line(text) != line["self_hash"]:
        return "it is not what was hashed: it was changed"
    unsigned = set(line) - KNOWN
    if unsigned:
        return f"it has members that nobody signed: {', '.join(sorted(unsigned))}"
    return None if _is_signed(line) else "its signature does not hold"


def hash_of_line(text: str) -> str:
    """Gives the hash of an event: of its four signed members, with sorted names and no spaces."""
    line = json.loads(text, parse_float=_Number, parse_int=_Number)
    return sha256(_written({name: line[name] for name in SIGNED}).encode("utf-8", "replace")).hexdigest()


class _Number(str):
    """Is a number as it was written: languages write the same number differently."""

    __slots__ = ()


def _written(value: Any) -> str:
    """Writes a value as provedex does before it is hashed."""
    match value:
        case _Number():
            return str(value)
        case dict():
            return "{" + ",".join(f"{_written(name)}:{_written(value[name])}" for name in sorted(value)) + "}"
        case list():
            return "[" + ",".join(map(_written, value)) + "]"
        case _:
            return json.dumps(value, ensure_ascii=False)


def _is_signed(line: dict[str, Any]) -> bool:
    try:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(line["signer_pubkey"]))
        key.verify(bytes.fromhex(line["signature"]), bytes.fromhex(line["self_hash"]))
    except (InvalidSignature, ValueError):
        return False
    return True


def _texts(path: Path) -> Iterator[tuple[str, bool]]:
    """Gives the lines of a file that are not empty, and whether each was finished."""
    with path.open(encoding="utf-8", errors="replace", newline="\n") as file:
        for text in file:
            if text.strip():
                yield text, text.endswith("\n")


def _line(text: str) -> dict[str, Any]:
    line = json.loads(text, object_pairs_hook=_members)
    if not isinstance(line, dict) or not set(line) >= KNOWN:
        raise ValueError(f"it lacks some of {', '.join(sorted(KNOWN))}")
    named = [line[name] for name in ("parent_hash", "self_hash", "signature", "signer_pubkey")]
    event = line["event"]
    is_event = isinstance(event, dict) and event.get("type") in RECORDED_AS
    if not is_event or not all(isinstance(one, str) for one in named):
        raise ValueError("its members are not as an event has them")
    return line


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Gives an object; refuses one that says something twice, for readers differ in which of the two they take."""
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("it has two members of one name")
    return members


def _broken(path: Path, number: int, why: str) -> JournalError:
    return JournalError(f"{path}, line {number}: {why}. Nothing was taken over")


def take_over(
    ledger: Ledger,
    path: Path,
    *,
    keys: Collection[str] = (),
    run_id: str | None = None,
    progress: Progress = untold,
) -> tuple[Taking, str]:
    """Verifies a file and takes its events over into a run; gives what came of it, and the run's name.

    `keys` are the operator's public keys, more than one where they were changed: then all of it has to be signed by
    those. A file that has grown since is gone on with where it was left.
    """
    verified = verify_lines(path)
    strangers = set(verified.signers) - {key.lower() for key in keys} if keys else set()
    if strangers:
        raise JournalError(f"{path} is signed by {', '.join(sorted(strangers))}, and not only by what --key names")
    name = run_id or f"provedex-{verified.first[:16]}"
    known = _begin_unless_there(ledger, name, verified)
    taking = Taking()
    _say_what_holds(taking, verified, is_key_known=bool(keys))
    for start in range(known, len(verified.lines), _AT_ONCE):
        some = verified.lines[start : start + _AT_ONCE]
        ledger.record_all(name, list(map(_event, some)))
        progress(start + len(some), len(verified.lines))
    taking.became["events"] = len(verified.lines) - known
    taking.became["here already"] = known
    if verified.torn is not None:
        taking.leave_out(f"line {verified.torn}", "it was never finished")
    return taking, name


def _begin_unless_there(ledger: Ledger, name: str, verified: Verified) -> int:
    """Begins the run, and lets go of it; gives how many of the events are in it already."""
    run = ledger._run_desk().keeping.get(name)
    if run is None:
        agent, session = _about(verified)
        permissions = {"provedex": verified.first}
        desk = ledger._run_desk()
        seat = desk.begin(
            name, agent=agent, intent=session, runtime="provedex", permissions=permissions, lease=_AT_MOST
        )
        desk.keeping.let_go(name, hash_of(seat.token))
        return 0
    if run.permissions.get("provedex") != verified.first:
        raise BadCall(f"run {name} is here already and of something else; name another with --run")
    return _taken_before(ledger, name, verified)


def _taken_before(ledger: Ledger, name: str, verified: Verified) -> int:
    """Counts the events that are here, and refuses a file that has another history than those."""
    told: list[str] = []

    def note(event: Any) -> None:
        payload = event.payload
        if isinstance(payload, dict) and "self_hash" in payload:
            told.append(payload["self_hash"])

    ledger.run_story(name, each=note)
    if told != verified.hashes[: len(told)]:
        raise JournalError(
            f"run {name} holds events of this ledger that the file no longer has: it was cut or rewritten"
        )
    return len(told)


def _about(verified: Verified) -> tuple[str, str]:
    """Gives the agent and the session that the first event names, if it is one that does."""
    payload = _line(verified.lines[0])["event"].get("payload") or {}
    return str(payload.get("agent_id") or "provedex")[:500], str(payload.get("session_id") or "")


def _event(text: str) -> dict[str, Any]:
    line = _line(text)
    return {"event_type": RECORDED_AS[line["event"]["type"]], "payload": line}


def _say_what_holds(taking: Taking, verified: Verified, *, is_key_known: bool) -> None:
    signers = ", ".join(verified.signers)
    taking.verified.append(f"{len(verified.lines)} events: none is changed, missing between others, moved or added")
    taking.verified.append(f"each is signed, by {signers}")
    if not is_key_known:
        taking.not_verified.append(
            "whose key that is: the file itself names it, so it may have been signed anew as a whole; compare it with "
            "the operator's, or give it with --key"
        )
    taking.not_verified.append("that nothing is cut off at the end: no line says that it is the last")
    taking.not_verified.append("what the hashes of arguments and results are of, and the signer's clock")
