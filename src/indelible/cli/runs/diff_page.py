"""How two runs are shown side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from indelible.cli.approvals.page import difference_line
from indelible.cli.show import count, visible
from indelible.core.approvals.shown import differences_shown
from indelible.core.runs.diff import RunDifference

_SIGNS = {"same": " ", "changed": "~", "only_left": "-", "only_right": "+"}


def said(left: str, right: str, found: Sequence[RunDifference]) -> str:
    """Gives the comparison as lines: - only in the first, + only in the second, ~ changed."""
    lines = [f"- {visible(left)}", f"+ {visible(right)}", ""]
    for one in found:
        effect = one.left or one.right
        assert effect is not None, "a difference is about a call"
        lines.append(f"{_SIGNS[one.kind]} {visible(effect.tool)}  {effect.status}")
        lines += [f"    {difference_line(field)}" for field in one.fields]
    changed = sum(one.kind != "same" for one in found)
    total = f"{count(len(found), 'call')} compared, different: {changed}."
    lines += ["", total if found else "Neither has made a call."]
    return "\n".join(lines)


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
                "fields": differences_shown(one.fields),
            }
            for one in found
        ],
    }
