"""Promises of core.verifying.unsealed about runs: each fact of a run follows from the newest one before it."""

from __future__ import annotations

from itertools import pairwise

import pytest

from indelible.core.journal.journal import Waiting
from indelible.core.runs.run import Happening, run_ref
from indelible.core.verifying.unsealed import Unsealed
from tests.core.run_world import World
from tests.core.verifying.test_unsealed import KEYS, found, nothing, waiting

TOLD = Happening(type="acme.sent")


def waiting_in(world: World) -> list[Waiting]:
    return [waiting(event) for event in world.events["r"]]


def put_back(how: str) -> list[Waiting]:
    """Give what a run tells whose row is put back after its end: started, ended, and one more."""
    world = World()
    world.start()
    rows = world.sheets.copy()
    world.end("canceled")
    world.sheets[run_ref("r")] = rows[run_ref("r")]
    if how == "taken":
        world.take()
    else:
        world.sheets.update(rows)
        world.tell(TOLD, token="t1") if how == "told" else world.seal(token="t1")
    return waiting_in(world)


@pytest.mark.parametrize("how", ["taken", "told", "sealed"])
def test_98_nothing_follows_in_a_run_that_is_over(how: str) -> None:
    started, ended, *more = put_back(how)
    assert more
    assert Unsealed(KEYS)([started, ended], nothing) == set()
    assert Unsealed(KEYS)([started, ended, *more], nothing) == {"r"}
    examine = Unsealed(KEYS)
    assert examine(more, found(ended.body)) == {"r"}
    assert "run that is canceled" in examine.problems["r"]


def test_98_what_follows_in_a_run_that_goes_on_is_sealed_at_once_or_one_by_one() -> None:
    world = World()
    world.start()
    world.tell(TOLD, token="t1")
    world.seal(token="t1")
    world.end("blocked", token="t1")
    world.take()
    events = waiting_in(world)
    assert Unsealed(KEYS)(events, nothing) == set()
    for before, after in pairwise(events):
        assert Unsealed(KEYS)([after], found(before.body)) == set()
    assert Unsealed(KEYS)(events[-1:], found(b"unreadable")) == set(), "verification names what was changed there"
    assert Unsealed(KEYS)(events[-1:], nothing) == {"r"}, "nothing goes on that was never started"
