"""What callers say about runs, as the core takes it: checked before anything is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from indelible.core.effects.calls import check_name
from indelible.core.runs.run import Happening, Run, check_type
from indelible.core.values.canonical import encode
from indelible.errors import BadCall

if TYPE_CHECKING:
    from indelible.core.effects.calls import SideEffect


def happening_of(
    event_type: str,
    payload: Any = None,
    step: str | None = None,
    side_effect: SideEffect = "none",
    side_effect_key: str | None = None,
    actor: str | None = None,
) -> Happening:
    """Gives what somebody tells of a run, checked before anything is written."""
    check_type(event_type)
    return Happening(
        type=event_type,
        payload_json=None if payload is None else encode(payload, root="payload"),
        step=step,
        side_effect=side_effect,
        side_effect_key=side_effect_key,
        said_by=actor,
    )


def happenings_of(events: Sequence[Mapping[str, Any]]) -> list[Happening]:
    """Gives many things that somebody tells of a run; a word that is not known is refused."""
    words = {"event_type", "payload", "step", "side_effect", "side_effect_key", "actor"}
    for number, event in enumerate(events):
        unknown = set(event) - words
        if unknown or "event_type" not in event:
            raise BadCall(f"event {number}: use the words {', '.join(sorted(words))}; event_type is needed")
    return [happening_of(**event) for event in events]


def new_run(
    run_id: str,
    now: datetime,
    *,
    agent: str,
    intent: str,
    runtime: str,
    parent: str | None,
    parent_event: str | None,
    allowed_tools: Sequence[str] | None,
    permissions: Mapping[str, Any] | None,
    checkpointing: Any,
    fork: Any = None,
) -> Run:
    """Gives a run to be started; what it may do is taken from `permissions` too, where that names tools."""
    check_name("agent", agent)
    rest = dict(permissions or {})
    named = rest.pop("allowed_tools", None)
    allowed = named if allowed_tools is None else allowed_tools
    if allowed is not None and not (_is_list(allowed) and all(isinstance(tool, str) for tool in allowed)):
        raise BadCall("allowed_tools is a list of names of tools, for example ['crm.lookup', 'email.send']")
    encode(rest, root="permissions")
    return Run(
        id=run_id,
        agent=agent,
        intent=intent,
        runtime=runtime,
        parent=parent,
        parent_event=parent_event,
        allowed_tools=None if allowed is None else tuple(allowed),
        permissions=rest,
        checkpointing=checkpointing,
        fork=fork,
        created_at=now,
        updated_at=now,
    )


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)
