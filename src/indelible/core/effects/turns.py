"""Tells a call that is made once more from the same call: by its id, or by the turn of the conversation. Pure."""

from __future__ import annotations

import json
from dataclasses import replace

from indelible.core.commands import Open
from indelible.core.effects.effect import ENDED, Effect

_MOST = 200
"""How many turns an effect notes. After that, it is taken for the call of every turn: it may be, and runs once."""

_NO_MORE = None
"""Ends the list of turns to which none is added."""


def looks_repeated(command: Open, effect: Effect) -> bool:
    """Say whether this is the same call once more: by another call id, or in a later turn.

    A call that has not ended goes on, and belongs to each turn that asked for it. One that a person reopened belongs to
    the turns that it had: other turns may have gone on without it.
    """
    if command.dedupe == "ask":
        return command.call_id is not None and command.call_id != effect.call_id
    return (effect.status in ENDED or is_reopened(effect)) and _is_of_another_turn(command, effect)


def joins(command: Open, effect: Effect) -> bool:
    """Say whether a call of another turn asks for what has not ended, and so is this call."""
    return not looks_repeated(command, effect) and _is_of_another_turn(command, effect)


def joined(command: Open, effect: Effect) -> Effect:
    """Return the effect with the turn of the command among its own."""
    assert command.turn is not None, "it joins"
    return replace(effect, version=effect.version + 1, turn=_written([*_turns_of(effect), command.turn]))


def reopened(effect: Effect) -> Effect:
    """Return the effect as a person reopens it: once it ended, no further turn is noted."""
    if effect.turn is None or effect.status not in ENDED or is_reopened(effect):
        return effect
    return replace(effect, turn=_written([*_turns_of(effect), _NO_MORE]))


def is_reopened(effect: Effect) -> bool:
    """Say whether a person reopened it after it had ended."""
    return _NO_MORE in _turns_of(effect)


def is_made_elsewhere(effect: Effect) -> bool:
    """Say whether another turn made this call, or may make it at any moment, for a person reopened it."""
    return effect.status == "succeeded" or (is_reopened(effect) and effect.status not in ENDED)


def first_turn(turn: str | None) -> str | None:
    """Return what a new effect notes of the turn that opens it."""
    return None if turn is None else _written([turn])


def _is_of_another_turn(command: Open, effect: Effect) -> bool:
    are_known = command.dedupe == "turn" and command.turn is not None and effect.turn is not None
    if not are_known:
        return False
    turns = _turns_of(effect)
    return len(turns) < _MOST and command.turn not in turns


def _written(turns: list[str | None]) -> str:
    """Write one turn as it is called, and several as a JSON list; what could be taken for a list is one."""
    if len(turns) == 1 and turns[0] is not None and not turns[0].startswith("["):
        return turns[0]
    return json.dumps(turns, ensure_ascii=False, separators=(",", ":"))


def _turns_of(effect: Effect) -> list[str | None]:
    text = effect.turn or ""
    turns: list[str | None] = json.loads(text) if text.startswith("[") else [text]
    return turns
