"""How two runs differ: their tool calls side by side, in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, Literal

from indelible.core.effects.effect import Effect
from indelible.core.values.differences import Difference, differences


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDifference:
    """Is one place where two runs are alike or not: `kind` is same, changed, only_left or only_right."""

    kind: Literal["same", "changed", "only_left", "only_right"]
    left: Effect | None
    right: Effect | None
    fields: Sequence[Difference] = ()


def compare(left: Sequence[Effect], right: Sequence[Effect]) -> list[RunDifference]:
    """Pairs the tool calls of two runs, oldest first; calls of one tool that stand at one place are compared."""
    compared: list[RunDifference] = []
    matcher = SequenceMatcher(None, [_call(one) for one in left], [_call(one) for one in right], autojunk=False)
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag == "equal":
            compared += [_pair(*pair) for pair in zip(left[i1:i2], right[j1:j2], strict=True)]
        else:
            compared += _unequal(left[i1:i2], right[j1:j2])
    return compared


def _call(effect: Effect) -> tuple[str, bytes | None]:
    return effect.tool, effect.args_json


def _unequal(left: Sequence[Effect], right: Sequence[Effect]) -> list[RunDifference]:
    compared: list[RunDifference] = []
    matcher = SequenceMatcher(None, [one.tool for one in left], [one.tool for one in right], autojunk=False)
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag == "equal":
            compared += [_pair(*pair) for pair in zip(left[i1:i2], right[j1:j2], strict=True)]
            continue
        compared += [RunDifference(kind="only_left", left=one, right=None) for one in left[i1:i2]]
        compared += [RunDifference(kind="only_right", left=None, right=one) for one in right[j1:j2]]
    return compared


def _pair(left: Effect, right: Effect) -> RunDifference:
    fields = [*differences(_args(left), _args(right)), *differences(_outcome(left), _outcome(right), "outcome")]
    return RunDifference(kind="changed" if fields else "same", left=left, right=right, fields=fields)


def _args(effect: Effect) -> Any:
    return "(erased)" if effect.are_args_erased else effect.args


def _outcome(effect: Effect) -> Any:
    return {"detail": "(erased)" if effect.is_detail_erased else effect.detail, "status": effect.status}
