"""What the record tells about an effect, in the words of its row in a live ledger."""

from __future__ import annotations

from collections.abc import KeysView
from dataclasses import dataclass
from typing import Any

from indelible.core.effects.effect import ELSEWHERE, ERASED_TEXT, GRANT_MARK, Effect, doubted_next
from indelible.core.events import instant
from indelible.core.values.canonical import decode
from indelible.core.verifying.bodies import EffectBody, commits_of, unquoted
from indelible.core.verifying.moves import ADOPTED, JOINED, STILL
from indelible.core.verifying.sheet_bodies import approval_in, grant_in
from indelible.journal.evidence.live_sheets import Values

_COLUMNS = (
    *("run_id", "tool", "side_effect", "on_crash", "created_at", "opened_seq", "status", "attempt", "version"),
    *("detail_seq", "updated_at", "doubted"),
)
_DETAILS = frozenset({"result", "error", "reason"})
_FREEING = frozenset(
    {
        *("tool_call_finished", "tool_call_canceled", "approval_denied"),
        *("approval_edited", "approval_expired", "approval_stale"),
    }
)
"""Names the events after which an effect holds no budget, unless they commit to what it holds then."""
_NOTHING_HELD: tuple[bytes | None, ...] = (None,)
_ERASED: tuple[bytes | None, ...] = ()


@dataclass(slots=True)
class Told:
    """Is what the record tells about an effect, in the words of its row."""

    run_id: str
    tool: str
    side_effect: str
    on_crash: str
    created_at: str
    opened_seq: int
    first_seq: int
    """Is the event that opened it; `opened_seq` is the one that has its arguments, which may be later."""
    status: str = ""
    attempt: int = 0
    version: int = 0
    detail_seq: int | None = None
    updated_at: str = ""
    permission_id: str | None = None
    doubted: int | None = None
    charges: tuple[bytes | None, ...] = _NOTHING_HELD
    """Holds what its row may have reserved; nothing when that was erased, and then nobody can tell."""

    def move(self, body: EffectBody, shown: Values) -> None:
        """Takes in one more event."""
        if body.type in STILL:
            return
        self.version += 1
        if body.type == JOINED:
            return
        names = commits_of(body.commits).keys()
        self.charges = self._charges_after(body, names, shown)
        if int(body.attempt) > self.attempt:
            self.doubted = doubted_next(self.status, self.side_effect, self.attempt)
        self.status, self.attempt, self.updated_at = body.status, int(body.attempt), body.at
        if body.type == ADOPTED:
            self._take_over(body, shown)
        self.detail_seq = None if names.isdisjoint(_DETAILS) else int(body.seq)
        if "args" in names:
            self.opened_seq = int(body.seq)
        if "approval" in names and "approval" in shown:
            self.permission_id = approval_in(shown["approval"]).id
        elif body.type == "approval_requested":
            self.permission_id = ERASED_TEXT
        elif "grant" in names and self.permission_id is None:
            self.permission_id = f"{GRANT_MARK}{grant_in(shown['grant']).id}" if "grant" in shown else ERASED_TEXT

    def _take_over(self, body: EffectBody, shown: Values) -> None:
        """Take in what is told of an effect of another ledger; what was erased of that, nobody can compare."""
        said: Any = decode(shown["origin"]) if "origin" in shown else {"opened_at": ERASED_TEXT, "was_asked": None}
        self.created_at = said.get("opened_at", body.at)
        self.permission_id = {True: ELSEWHERE, None: ERASED_TEXT}.get(said.get("was_asked", False))

    def _charges_after(self, body: EffectBody, names: KeysView[str], shown: Values) -> tuple[bytes | None, ...]:
        if "charges" in names:
            return (shown["charges"],) if "charges" in shown else _ERASED
        if body.type in _FREEING or (body.type == "approval_requested" and "args" in names):
            return _NOTHING_HELD
        if body.type == "tool_call_released" and "approval" not in names:
            # Its worker, or a probe, gave it back with what it held, or a person allowed a retry.
            return tuple({None, *self.charges})
        return self.charges

    def differs(self, effect: Effect) -> tuple[str, str, str] | None:
        """Gives the first column in which a row differs, with both values."""
        for name in _COLUMNS:
            told, kept = getattr(self, name), getattr(effect, name)
            kept = instant(kept) if name in ("created_at", "updated_at") else kept
            if told not in (kept, ERASED_TEXT):
                return name, str(told), str(kept)
        if self.permission_id not in (ERASED_TEXT, effect.permission_id):
            return "approval_id", str(self.permission_id), str(effect.permission_id)
        if self.charges and effect.charges_json not in self.charges:
            return "charges", " or ".join(map(str, self.charges)), str(effect.charges_json)
        return None


def told_by(body: EffectBody) -> Told:
    """Gives what the first event of an effect tells, before its move is taken in."""
    seq = int(body.seq)
    return Told(unquoted(body.run), body.tool, body.side_effect, body.on_crash, body.at, seq, seq)
