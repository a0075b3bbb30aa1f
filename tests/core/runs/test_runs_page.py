"""What the reference page says of runs is what the code computes."""

from __future__ import annotations

import json
import re
from pathlib import Path

from indelible.core.runs.run import BY_THE_LEDGER, EVENT_TYPES, OVER, RUN_STATUSES
from indelible.core.verifying.run_moves import FORMS
from tests.core.run_world import World
from tests.core.verifying.test_runs import whole_story

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "events.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("### What is recorded of runs")[2].partition("\n### ")[0]


def names_in(text: str) -> list[str]:
    return re.findall(r"`([a-z_]+)`", re.sub(r"\([^)]*\)", "", text))


def test_the_page_names_what_the_ledger_tells_of_runs() -> None:
    rows = re.findall(r"^\| `([a-z_]+)` \| [^|]* \| ([^|]*) \| ([^|]*) \|$", SECTION, re.M)
    told = {kind: (facts, commits) for kind, facts, commits in rows if kind != "type"}
    assert told.keys() == FORMS.keys()
    for kind, (facts, commits) in told.items():
        form = FORMS[kind]
        assert [name for name in names_in(facts) if name in form.facts] == sorted(form.facts), kind
        assert set(names_in(commits)) == {name for names in form.commits for name in names}, kind


def test_the_page_names_what_is_told_by_hand() -> None:
    by_hand = SECTION.partition("was told by hand: ")[2].partition(", or a type")[0]
    assert set(names_in(by_hand)) == EVENT_TYPES - BY_THE_LEDGER


def test_the_page_names_every_member_of_a_run_and_a_checkpoint() -> None:
    world: World = whole_story()
    for kind, nested in (("run", ["checkpointing", "fork"]), ("checkpoint", [])):
        (row,) = re.findall(rf"^\| {kind} \| (.*) \|$", SECTION, re.M)
        value = next(json.loads(one.value) for one in world.payloads if one.field == kind)
        assert names_in(row) == sorted(value), kind
        inside = dict(re.findall(r"`([a-z_]+)` \(([^)]*)\)", row))
        assert sorted(inside) == nested
        for name, inner in inside.items():
            assert re.findall(r"`([a-z_]+)`", inner) == sorted(value[name]), name


def test_the_page_says_which_statuses_are_the_end() -> None:
    moves = re.findall(r"^\| (?:`([a-z_]+)`|not started) \| `[a-z_]+` \| `([a-z_]+)` \|$", SECTION, re.M)
    left = {before for before, _ in moves if before}
    assert {after for _, after in moves} - left == OVER
    assert left == set(RUN_STATUSES) - OVER
