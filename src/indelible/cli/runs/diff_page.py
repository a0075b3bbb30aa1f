"""How two runs are shown side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from indelible.cli.show import visible
from indelible.core.runs.diff import RunDifference
from indelible.core.values.differences import Missing

_SIGNS = {"same": " ", "changed": "~", "only_left": "-", "only_right": "+"}


def said(left: str, right: str, found: Sequence[RunDifference]) -> str:
    """Gives the comparison as lines: - only in the first, + only in the second, ~ changed."""
    lines = [f"- {visible(left)}", f"+ {visible(right)}", ""]
    for one in found:
        effect = one.left or one.right
        assert effect is not None, "a difference is about a call"
        lines.append(f"{_SIGNS[one.kind]} {visible(effect.tool)}  {effect.status}")
        lines += [f"      {visible(field.path)}: {_text(field.before)} → {_text(field.after)}" for field in one.fields]
    changed = sum(one.kind != "same" for one in found)
    lines += ["", f"{len(found)} calls compared, {changed} of them differ." if found else "Neither has made a call."]
    return "\n".join(lines)


def _text(value: Any) -> str:
    return repr(value) if isinstance(value, Missing) else visible(repr(value))


def diff_content(left: str, right: str, found: Sequence[RunDifference]) -> dict[str, Any]:
    """Gives the comparison as JSON."""
    return {
        "left": left,
        "right": right,
        "differences": [
            {
                "kind": one.kind,
                "tool": (one.left or one.right).tool,  # type: ignore[union-attr]  # one of them is there
                "left": None if one.left is None else one.left.id,
                "right": None if one.right is None else one.right.id,
                "fields": [
                    {"path": field.path, "before": _json(field.before), "after": _json(field.after)}
                    for field in one.fields
                ],
            }
            for one in found
        ],
    }


def _json(value: Any) -> Any:
    return None if isinstance(value, Missing) else repr(value)
