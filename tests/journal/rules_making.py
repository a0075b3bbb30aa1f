"""Writes the core's rules for verifiers in other languages: `python -m tests.journal.rules_making`. A test compares."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path
from typing import Any

from indelible.core.effects.calls import HARMLESS, SIDE_EFFECTS
from indelible.core.runs.run import BY_THE_LEDGER, EVENT_TYPES, OVER
from indelible.core.verifying.moves import (
    ADOPTED,
    AGAIN,
    EFFECT_TYPES,
    LATE,
    LATE_NAMES,
    MOVES,
    QUESTIONS,
    Move,
)
from indelible.core.verifying.run_moves import _BY_HAND, FORMS, MAY_BE_TOLD, RUN_MOVES, STATUS_AFTER
from indelible.core.verifying.trust import JOURNAL_MEMBERS

ROOT = Path(__file__).parents[2]
WHERE = ROOT / "dashboard/src/record/rules.json"
PAGE = ROOT / "docs/reference/events.md"


def always_and_sometimes(move: Move) -> tuple[list[str], list[str]]:
    """Return what an event of this move commits to always, and what now and then; never approval and grant at once."""
    forms = [set(names) for names in move.commits]
    always = set.intersection(*forms)
    more = sorted(set.union(*forms) - always)
    every = {
        tuple(sorted(always | {*some}))
        for count in range(len(more) + 1)
        for some in combinations(more, count)
        if not {"approval", "grant"} <= {*some}
    }
    assert every == set(move.commits), "the two lists say it all"
    return sorted(always), more


def _shape(shape: Any) -> Any:
    """Write a shape of `fits` as JSON: the name of a type, or one of is, any, list."""
    if isinstance(shape, type):
        return {str: "text", int: "number", bool: "truth", dict: "object"}[shape]
    if isinstance(shape, tuple):
        return {"any": [_shape(one) for one in shape]}
    return {"is": shape}


def rules() -> dict[str, Any]:
    """Return the rules that a verifier needs besides its own code."""
    return {
        "adopted": ADOPTED,
        "again": AGAIN,
        "effect_types": sorted(EFFECT_TYPES - EVENT_TYPES),
        "harmless": sorted(HARMLESS),
        "journal_members": {name: sorted(members) for name, members in sorted(JOURNAL_MEMBERS.items())},
        "late": LATE,
        "late_names": sorted(",".join(names) for names in LATE_NAMES),
        "may_be_told": sorted(MAY_BE_TOLD),
        "moves": {
            "|".join(place): {
                "always": always_and_sometimes(move)[0],
                "sometimes": always_and_sometimes(move)[1],
                **({"adds": move.adds} if move.adds else {}),
                **({"only_retry": True} if move.only_retry else {}),
                **({"only_harmless": True} if move.only_harmless else {}),
            }
            for place, move in MOVES.items()
        },
        "over": sorted(OVER),
        "questions": {name: [sorted(befores), after] for name, (befores, after) in QUESTIONS.items()},
        "run_forms": {
            name: {
                "commits": sorted(",".join(names) for names in form.commits),
                "facts": {fact: _shape(shape) for fact, shape in form.facts.items()},
            }
            for name, form in {**FORMS, "": _BY_HAND}.items()
        },
        "run_moves": {"|".join(place): after for place, after in RUN_MOVES.items()},
        "run_status_after": STATUS_AFTER,
        "side_effects": list(SIDE_EFFECTS),
        "types_by_hand": sorted(EVENT_TYPES - BY_THE_LEDGER),
    }


def text() -> str:
    return json.dumps(rules(), indent=1, sort_keys=True) + "\n"


def move_table() -> str:
    """Return the moves as the reference shows them."""
    lines = [
        "| before | event | after | commits to | may commit to | attempt | only |",
        "|---|---|---|---|---|---|---|",
    ]
    for (before, type_, after), move in MOVES.items():
        always, more = always_and_sometimes(move)
        only = ["not `hold`, unless `again`"] * move.only_retry + ["`none`, `read`"] * move.only_harmless
        attempt = "as it was there" if type_ == ADOPTED else "+1" if move.adds else "same"
        cells = [f"`{before}`" if before else "–", f"`{type_}`", f"`{after}`", _coded(always), _coded(more), attempt]
        lines.append(f"| {' | '.join([*cells, '; '.join(only)])} |")
    return "\n".join(lines) + "\n"


def question_table() -> str:
    """Return what becomes of the question about an effect as the reference shows it."""
    lines = ["| event with `approval` | the question before | after |", "|---|---|---|"]
    for type_, (befores, after) in QUESTIONS.items():
        lines.append(f"| `{type_}` | {_coded(sorted(one or 'nobody was asked' for one in befores))} | `{after}` |")
    return "\n".join(lines) + "\n"


def _coded(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def page_with(page: str) -> str:
    """Put both tables in their places in the reference."""
    for name, table in (("moves", move_table()), ("questions", question_table())):
        above, mark, rest = page.partition(f"<!-- {name} -->\n")
        _, end, below = rest.partition(f"<!-- /{name} -->\n")
        assert mark, f"the page has a place for {name}"
        assert end, f"the place for {name} has an end"
        page = above + mark + table + end + below
    return page


if __name__ == "__main__":
    WHERE.write_text(text(), encoding="utf-8")
    PAGE.write_text(page_with(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
