"""What a run's events tell, read in one pass: what was done, what is open, what is in doubt, where it was saved.

Nothing here is kept anywhere: the live log is the truth, so what a resumed run is told cannot be out of date.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from indelible.core.effects.calls import SideEffect
from indelible.core.events import NO_EVENTS, Event, Head, Payload, commitment
from indelible.core.journal.chain import why_bad
from indelible.core.runs.run import NOT_REPLAYABLE, PROGRESS
from indelible.core.values.canonical import decode
from indelible.core.values.tags import Encrypted

_ENTERED = frozenset({"processing", "succeeded", "failed", "in_doubt"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEvent:
    """Is one event of a run as people and agents see it; `payload` is what it commits to and what is still there.

    `actor` is who is said to have acted, where somebody else told of it; `told_by` is who that was.
    """

    seq: int
    id: str
    type: str
    actor: str
    told_by: str
    at: str
    step: str | None
    status: str
    side_effect: SideEffect
    tool: str | None
    effect_id: str | None
    effect_status: str | None
    payload: Any

    @property
    def is_progress(self) -> bool:
        """Does it tell of work done?"""
        return self.type in PROGRESS and self.status == "recorded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """Is something a run made: where it is, the hash of its content, and what is known of it."""

    seq: int
    uri: str
    content_hash: str | None
    metadata: Mapping[str, Any]


@dataclass(slots=True)
class EffectLine:
    """Hold what a run's events tell of one effect.

    `opened_seq` is its first event, and stays when an approver edits its arguments. `started_seq` is the event that
    starts its newest attempt; before the first attempt, it is `opened_seq`.
    """

    id: str
    tool: str
    side_effect: SideEffect
    status: str
    attempt: int
    opened_seq: int
    started_seq: int
    seq: int
    key: str | None = None
    has_asked: bool = False

    @property
    def is_blocked(self) -> bool:
        """May it not be done again, because it was done or may have been?"""
        return self.side_effect in NOT_REPLAYABLE and self.status in _ENTERED and self.status != "failed"


Opened = Callable[[Payload], bytes | None]
"""Gives the value of a payload in clear; None when nobody can open it any more."""


def _as_recorded(payload: Payload) -> bytes | None:
    return payload.value


@dataclass(slots=True)
class RunStory:
    """Is what the events of a run tell, as far as they were followed."""

    run_id: str
    opened: Opened = _as_recorded
    head: Head = NO_EVENTS
    step: str | None = None
    last_safe: Head | None = None
    progress: int = 0
    artifacts: list[Artifact] = field(default_factory=list)
    side_effect_keys: dict[str, int] = field(default_factory=dict)
    effects: dict[str, EffectLine] = field(default_factory=dict)
    delegations: dict[str, bool] = field(default_factory=dict)
    """Says of each child run whether it was told to have finished."""
    checkpoints: dict[str, int] = field(default_factory=dict)
    """Gives the event that seals each checkpoint."""
    broken: str | None = None
    """Says what is wrong with the first event that is not what it should be."""
    altered: list[tuple[int, str]] = field(default_factory=list)
    """Names payloads that are not what their events commit to."""

    @property
    def blocked_keys(self) -> list[str]:
        """Lists the keys of side effects that must not be done again."""
        keys = {line.key for line in self.effects.values() if line.is_blocked and line.key is not None}
        return sorted({*keys, *self.side_effect_keys})

    @property
    def in_doubt(self) -> list[EffectLine]:
        """Lists the effects of which nobody knows whether they happened, or that are under way."""
        return [line for line in self.effects.values() if line.status in ("in_doubt", "processing")]

    @property
    def open_delegations(self) -> list[str]:
        """Lists the child runs that were not told to have finished."""
        return [child for child, is_over in self.delegations.items() if not is_over]

    def going_on(self) -> RunStory:
        """Gives a story that goes on from here, and of what was told keeps only whether it holds."""
        return RunStory(self.run_id, self.opened, self.head, broken=self.broken)

    def follow(self, event: Event, payloads: Mapping[str, Payload]) -> RunEvent:
        """Takes the next event in, and gives it as people see it; one that does not fit ends the trust in the rest."""
        if self.broken is None:
            why = why_bad(event, self.run_id, self.head)
            if why is not None:
                self.broken = f"seq {event.seq}: {why}"
        self.head = Head(event.seq + 1, event.hash)
        if self.broken is not None:
            return _unread(event)
        body = event.read()
        for name, payload in payloads.items():
            if body["commits"].get(name) != commitment(payload.salt, name, payload.value):
                self.altered.append((event.seq, name))
        seen = _shown(event, body, _payload(payloads, self.opened))
        self._note(event, body, seen, payloads)
        return seen

    def _note(self, event: Event, body: Mapping[str, Any], seen: RunEvent, payloads: Mapping[str, Payload]) -> None:
        if seen.is_progress:
            self.progress += 1
            self.last_safe = Head(event.seq, event.hash)
        if seen.step is not None:
            self.step = seen.step
        if event.effect_id is not None:
            self._note_effect(event, body, payloads)
            return
        if "side_effect_key" in payloads and seen.status == "recorded" and seen.side_effect in NOT_REPLAYABLE:
            self.side_effect_keys.setdefault(payloads["side_effect_key"].value.decode(), event.seq)
        facts = body.get("facts", {})
        payload = seen.payload if isinstance(seen.payload, dict) else {}
        if event.type == "artifact_created" and seen.status == "recorded":
            self.artifacts.append(_artifact(event.seq, payload))
        elif event.type == "checkpoint_sealed":
            self.checkpoints[facts["checkpoint"]] = event.seq
        elif event.type in ("delegation_started", "delegation_finished"):
            child = payload.get("run", payload.get("runId"))
            if isinstance(child, str) and "refused" in payload:
                self.delegations.pop(child, None)  # the run of that name is another one's
            elif isinstance(child, str):
                self.delegations[child] = event.type == "delegation_finished"

    def _note_effect(self, event: Event, body: Mapping[str, Any], payloads: Mapping[str, Payload]) -> None:
        assert event.effect_id is not None
        line = self.effects.get(event.effect_id)
        if line is None:
            line = self.effects[event.effect_id] = EffectLine(
                id=event.effect_id,
                tool=body["tool"],
                side_effect=body["side_effect"],
                status=body["status"],
                attempt=body["attempt"],
                opened_seq=event.seq,
                started_seq=event.seq,
                seq=event.seq,
            )
        if "key" in payloads:
            line.key = payloads["key"].value.hex()
        line.status, line.attempt, line.seq = body["status"], body["attempt"], event.seq
        line.has_asked = line.has_asked or event.type == "approval_requested"
        if event.type == "tool_call_started":
            line.started_seq = event.seq


def _unread(event: Event) -> RunEvent:
    """Gives an event of which nothing can be believed any more, by its place alone."""
    return RunEvent(
        seq=event.seq,
        id=event.hash,
        type=event.type,
        actor="",
        told_by="",
        at="",
        step=None,
        status="unread",
        side_effect="none",
        tool=None,
        effect_id=event.effect_id,
        effect_status=None,
        payload=None,
    )


def _shown(event: Event, body: Mapping[str, Any], payload: Any) -> RunEvent:
    facts = body.get("facts", {})
    actor = body.get("actor", {})
    return RunEvent(
        seq=event.seq,
        id=event.hash,
        type=event.type,
        actor=facts.get("said_by") or actor.get("id", ""),
        told_by=actor.get("id", ""),
        at=body.get("at", ""),
        step=facts.get("step"),
        status=facts.get("status", "recorded"),
        side_effect=body.get("side_effect") or facts.get("side_effect", "none"),
        tool=body.get("tool") or facts.get("tool"),
        effect_id=event.effect_id,
        effect_status=body.get("status"),
        payload=payload,
    )


def _payload(payloads: Mapping[str, Payload], opened: Opened) -> Any:
    """Gives what an event says beside its clear part: its payload, or the result or error of its effect."""
    for name in ("payload", "result", "error", "reason"):
        if name in payloads:
            recorded = opened(payloads[name])
            value = None if recorded is None else decode(recorded)
            return None if isinstance(value, Encrypted) else value
    return None


def _artifact(seq: int, payload: Mapping[str, Any]) -> Artifact:
    """Reads an artifact however it was told: as `uri`, `path`, `name` or `artifact`, with a hash if there is one."""
    uri = payload.get("uri") or payload.get("path") or payload.get("name") or payload.get("artifact") or ""
    content_hash = payload.get("content_hash") or payload.get("contentHash")
    metadata = payload.get("metadata")
    if not isinstance(metadata, dict):
        known = {"uri", "path", "name", "artifact", "content_hash", "contentHash", "metadata"}
        metadata = {name: value for name, value in payload.items() if name not in known}
    return Artifact(seq=seq, uri=str(uri), content_hash=content_hash, metadata=metadata)


def by_event(payloads: Iterable[Payload]) -> dict[int, dict[str, Payload]]:
    """Gives payloads by their events and names."""
    found: dict[int, dict[str, Payload]] = {}
    for payload in payloads:
        found.setdefault(payload.seq, {})[payload.field] = payload
    return found
