"""Writes the core's rules for verifiers in other languages: `python -m tests.journal.rules_making`. A test compares."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from itertools import combinations
from pathlib import Path
from typing import Any

from indelible.core.effects.calls import HARMLESS, SIDE_EFFECTS
from indelible.core.people.vouching import LONGEST_MAX_AGE
from indelible.core.runs.run import BY_THE_LEDGER, EVENT_TYPES, OVER
from indelible.core.scopes import SCOPES, SCOPES_OF_PEOPLE
from indelible.core.values.alike import _TWINS
from indelible.core.verifying.approval_steps import STATUS_AFTER as APPROVAL_AFTER
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
from indelible.core.verifying.permissions import FACTS_OF_SHEETS
from indelible.core.verifying.run_moves import _BY_HAND, FORMS, MAY_BE_TOLD, RUN_MOVES, STATUS_AFTER
from indelible.core.verifying.sheet_bodies import SHEETS
from indelible.core.verifying.trust import JOURNAL_MEMBERS

ROOT = Path(__file__).parents[2]
WHERE = ROOT / "dashboard/src/record/rules.json"
EVENTS, PERMISSIONS = (ROOT / f"docs/reference/{name}.md" for name in ("events", "permissions"))
TIMES = {"asked_at", "at", "created_at", "expires_at", "until", "updated_at", "used_at"}
RAW = {"key", "signature"}
"""Name the members of sheets whose texts are times and bytes."""


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


def _shape(shape: Any, name: str = "") -> Any:
    """Write a shape of `fits` as JSON: the name of a type, or one of is, any, list, members."""
    if isinstance(shape, type):
        kind = {str: "text", int: "number", bool: "truth", dict: "object"}[shape]
        return (
            {**dict.fromkeys(TIMES, "time"), **dict.fromkeys(RAW, "base64")}.get(name, kind) if shape is str else kind
        )
    if isinstance(shape, tuple):
        return {"any": [_shape(one, name) for one in shape]}
    if isinstance(shape, list):
        return {"list": _shape(shape[0])}
    if isinstance(shape, dict):
        return {"members": {member: _shape(part, member) for member, part in shape.items()}}
    return {"is": shape}


def rules() -> dict[str, Any]:
    """Return the rules that a verifier needs besides its own code."""
    return {
        "adopted": ADOPTED,
        "again": AGAIN,
        "approval_after": APPROVAL_AFTER,
        "effect_types": sorted(EFFECT_TYPES - EVENT_TYPES),
        "facts_of_sheets": FACTS_OF_SHEETS,
        "folds": folds(),
        "harmless": sorted(HARMLESS),
        "journal_members": {name: sorted(members) for name, members in sorted(JOURNAL_MEMBERS.items())},
        "late": LATE,
        "longest_max_age": LONGEST_MAX_AGE // timedelta(microseconds=1),
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
        "scopes": list(SCOPES),
        "scopes_of_people": list(SCOPES_OF_PEOPLE),
        "sheets": {name: _shape(shape) for name, shape in SHEETS.items()},
        "side_effects": list(SIDE_EFFECTS),
        "twins": {chr(letter): twin for letter, twin in sorted(_TWINS.items())},
        "types_by_hand": sorted(EVENT_TYPES - BY_THE_LEDGER),
    }


def folds() -> dict[str, str]:
    """Return the letters whose fold is not their small letter."""
    letters = [chr(number) for number in range(0x110000) if not 0xD800 <= number < 0xE000]
    return {letter: letter.casefold() for letter in letters if letter.casefold() != letter.lower()}


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


def run_table() -> str:
    """Return how a run stands after each event, by how it stood before."""
    lines = ["| before | event | after |", "|---|---|---|"]
    for (before, type_), after in sorted(RUN_MOVES.items()):
        lines.append(f"| {f'`{before}`' if before else 'not started'} | `{type_}` | `{after}` |")
    return "\n".join(lines) + "\n"


def form_table() -> str:
    """Return what each event about a run says in clear and commits to."""
    lines = ["| event | `facts` | commits to |", "|---|---|---|"]
    for type_, form in sorted(FORMS.items()):
        facts = ", ".join(f"`{name}`: {_worded(_shape(shape))}" for name, shape in form.facts.items())
        choices = [_coded(list(names)) or "nothing" for names in sorted(form.commits)]
        lines.append(f"| `{type_}` | {facts or 'empty'} | {'; or '.join(choices)} |")
    return "\n".join(lines) + "\n"


def sheet_table() -> str:
    """Return every member of every sheet with its shape."""
    lines = ["| sheet | member | value |", "|---|---|---|"]
    for kind, shape in SHEETS.items():
        forms = shape if isinstance(shape, tuple) else (shape,)
        for number, form in enumerate(forms):
            name = kind if number == 0 else f"{kind}, {_OTHER_FORMS[kind]}"
            lines += [f"| {name} | `{path}` | {words} |" for path, words in _members(_shape(form), "")]
    return "\n".join(lines) + "\n"


_OTHER_FORMS = {"person": "of an older ledger", "run": "handed over"}


def _members(shape: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(shape, dict) and "members" in shape:
        for name, part in sorted(shape["members"].items()):
            yield from _members(part, f"{path}.{name}" if path else name)
        return
    inner = next(
        (one for one in _choices(shape) if isinstance(one, dict) and ("members" in one or "list" in one)), None
    )
    if inner is None:
        yield path, _worded(shape)
        return
    others = [_worded(one) for one in _choices(shape) if one is not inner]
    if "list" in inner and "members" not in inner["list"]:
        yield path, " or ".join([f"list of {_worded(inner['list'])}", *others])
        return
    if others:
        yield path, " or ".join(["object" if "members" in inner else "list", *others])
    yield from _members(inner, path) if "members" in inner else _members(inner["list"], f"{path}[]")


def _choices(shape: Any) -> list[Any]:
    return list(shape["any"]) if isinstance(shape, dict) and "any" in shape else [shape]


def _worded(shape: Any) -> str:
    if isinstance(shape, str):
        return {"truth": "true or false"}.get(shape, shape)
    if "any" in shape:
        return " or ".join(map(_worded, shape["any"]))
    return "`null`" if shape["is"] is None else f"`{shape['is']}`"


def twin_table() -> str:
    """Return the letters that look like others."""
    pairs = sorted(_TWINS.items())
    lines = ["| letter | twin |", "|---|---|"]
    return "\n".join(lines + [f"| {chr(letter)} U+{letter:04X} | {twin} |" for letter, twin in pairs]) + "\n"


def approval_table() -> str:
    """Return how an approval stands after each event that commits to it."""
    lines = ["| event | `status` of its approval |", "|---|---|"]
    return "\n".join(lines + [f"| `{type_}` | `{status}` |" for type_, status in APPROVAL_AFTER.items()]) + "\n"


TABLES: dict[Path, dict[str, Callable[[], str]]] = {
    EVENTS: {"moves": move_table, "questions": question_table, "run moves": run_table, "run forms": form_table},
    PERMISSIONS: {"sheets": sheet_table, "twins": twin_table, "approvals": approval_table},
}
"""Holds the tables of each page, by their marks."""


def _coded(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def page_with(page: str, tables: Mapping[str, Callable[[], str]]) -> str:
    """Put tables in their places in a page of the reference."""
    for name, table in tables.items():
        above, mark, rest = page.partition(f"<!-- {name} -->\n")
        _, end, below = rest.partition(f"<!-- /{name} -->\n")
        assert mark, f"the page has a place for {name}"
        assert end, f"the place for {name} has an end"
        page = above + mark + table() + end + below
    return page


if __name__ == "__main__":
    WHERE.write_text(text(), encoding="utf-8")
    for page, tables in TABLES.items():
        page.write_text(page_with(page.read_text(encoding="utf-8"), tables), encoding="utf-8")
