"""What an approver changed in a call's arguments, and what stays the caller's own. Pure.

Whoever edits sees what is recorded, and not everything is: where it has marks, only the caller has the values. So what
was left as it is stays the caller's own, and a mark can be neither moved nor changed.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

from indelible.core.approvals.approval import Approval
from indelible.core.changes import Change
from indelible.core.commands import Taken
from indelible.core.effects.effect import ERASED_DIGEST, Effect
from indelible.core.effects.from_arguments import ALL
from indelible.core.effects.identity import Naming, Ref, reach
from indelible.core.privacy.detectors import forged_in
from indelible.core.values.canonical import are_alike, decode, encode
from indelible.core.values.tags import Redacted
from indelible.errors import BadCall


def changes_in(edited: Any, recorded: Any) -> Any:
    """Gives an edited value with None wherever it is as it was recorded."""
    if are_alike(edited, recorded):
        return None
    if isinstance(edited, dict) and isinstance(recorded, dict):
        return {
            name: changes_in(value, recorded[name]) if name in recorded else value for name, value in edited.items()
        }
    if isinstance(edited, list) and isinstance(recorded, list):
        return [changes_in(*pair) for pair in zip(edited, recorded, strict=False)] + edited[len(recorded) :]
    return edited


def left_out(edited: Any, recorded: Any, path: str = "args") -> list[str]:
    """Return the paths of what an edit leaves out."""
    if isinstance(edited, dict) and isinstance(recorded, dict):
        missing = [f"{path}.{name}" for name in recorded if name not in edited]
        return missing + [
            one
            for name in edited
            if name in recorded
            for one in left_out(edited[name], recorded[name], f"{path}.{name}")
        ]
    if isinstance(edited, list) and isinstance(recorded, list):
        pairs = enumerate(zip(edited, recorded, strict=False))
        return [one for number, (new, old) in pairs for one in left_out(new, old, f"{path}.{number}")]
    return []


def check_whole(tool: str, edited: Any, recorded: Any) -> None:
    """Raise `BadCall` for an edit that leaves something out: the tool would put a default there that nobody saw."""
    missing = left_out(edited, recorded)
    if missing:
        raise BadCall(
            f"{tool}: the edit leaves out {', '.join(missing[:5])}, and the tool would choose a value that nobody has "
            "seen; name the value that you mean"
        )


def check_underived(approval: Approval, edited: Any, recorded: Any) -> None:
    """Raise `BadCall` for an edit of an argument that says which call it is, or what it keeps to itself."""
    for path in approval.naming.derived_from:
        if path == ALL and not are_alike(edited, recorded):
            raise BadCall(
                f"{approval.tool}: a function of its arguments says which call this is, so no edit can change them; "
                "deny it, and let the agent make the call that you mean"
            )
        if path != ALL and not are_alike(reach(edited, path, approval.tool), reach(recorded, path, approval.tool)):
            raise BadCall(
                f"{approval.tool}: {path} says which call this is (scope, turn, resource or exclusive), so no edit can "
                "change it; deny it, and let the agent make the call that you mean"
            )


def carried_over(edited: Any, recorded: Any, own: Any) -> Any:
    """Gives an edited value with the caller's own wherever it is as it was recorded."""
    if are_alike(edited, recorded):
        return own
    if isinstance(edited, dict) and isinstance(recorded, dict) and isinstance(own, dict):
        return {
            name: carried_over(value, recorded[name], own[name]) if name in recorded and name in own else value
            for name, value in edited.items()
        }
    if isinstance(edited, list) and isinstance(recorded, list) and isinstance(own, list):
        kept = [carried_over(*each) for each in zip(edited, recorded, own, strict=False)]
        return kept + edited[len(kept) :]
    return edited


def holds_mark(value: Any) -> bool:
    """Does a value hold a mark that stands for something the record does not have?"""
    match value:
        case Redacted():
            return True
        case str():
            return any(True for _ in forged_in(value))
        case {"$redacted": str()}:  # a mark as its JSON tells it
            return True
        case dict():
            return any(holds_mark(name) or holds_mark(item) for name, item in value.items())
        case list():
            return any(holds_mark(item) for item in value)
        case _:
            return False


# An edit makes another call of the one that was asked about: it takes that call's place too, so that nobody makes it
# besides. What stands there says which effect it is; it is never run itself.


def place_taken(naming: Naming, effect: Effect, args_json: bytes) -> Ref | None:
    """Return where a call with the edited arguments would be; None if that is where it was before."""
    ref = effect.ref
    key = naming.key(ref, effect.tool, args_json)
    if key in (None, ref.key) or effect.args_json is None or naming.key(ref, effect.tool, effect.args_json) == key:
        return None
    return Ref(ref.tenant, ref.scope, key)


def taking(effect: Effect, ref: Ref, effect_id: str, at: datetime, seq: int) -> Effect:
    """Return what stands at the place of a call that `effect` was edited to be. It keeps no arguments of its own."""
    return replace(
        effect,
        scope=ref.scope,
        key=ref.key,
        id=effect_id,
        call_id=None,
        digest=ERASED_DIGEST,
        status="canceled",
        attempt=0,
        version=1,
        lease_until=None,
        opened_seq=seq,
        detail_seq=seq,
        created_at=at,
        updated_at=at,
        args_json=None,
        detail_json=encode({"edited": effect.id, "key": effect.key}),
        permission_id=None,
        charges_json=None,
        turn=None,
    )


def is_made_besides(effect: Effect, beside: Effect | None) -> bool:
    """Say whether the call that an edit makes of `effect` was made by itself: it would happen twice."""
    return beside is not None and edited_from(beside) != effect.ref


def taken_with(
    takes: Taken | None, effect: Effect, approval: Approval, at: datetime, seq: int, beside: Effect | None
) -> tuple[Change, ...]:
    """Return the change by which an edit takes the place of the call that it is; none if it has it already."""
    if takes is None or beside is not None:
        return ()
    taken = taking(effect, takes.ref, takes.effect_id, at, seq)
    assert taken.detail_json is not None
    origin = encode({"approval": approval.id, "effect": effect.id})
    committed = {"key": bytes.fromhex(taken.key), "origin": origin, "reason": taken.detail_json}
    return (Change(taken, "tool_call_adopted", committed),)


def edited_from(effect: Effect) -> Ref | None:
    """Return where the effect is that was edited to be this call; None if this is a call of its own."""
    said = _said_at(effect)
    return None if said is None else Ref(effect.tenant, effect.scope, said["key"])


def stands_for(effect: Effect) -> str | None:
    """Return the id of the effect that was edited to be this call; None if this is a call of its own."""
    said = _said_at(effect)
    return None if said is None else said["edited"]


def _said_at(effect: Effect) -> dict[str, Any] | None:
    if effect.status != "canceled" or effect.detail_json is None:
        return None
    said: Any = decode(effect.detail_json)  # the reason that a person gives for canceling is text, or encrypted
    return said if isinstance(said, dict) and said.keys() == {"edited", "key"} else None
