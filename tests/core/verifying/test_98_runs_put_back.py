"""Promises of core.verifying.unsealed about runs: each fact of a run follows from the newest one before it."""

from __future__ import annotations

import pytest

from indelible.core.journal.journal import Waiting
from indelible.core.runs.run import Happening, run_ref
from indelible.core.verifying.unsealed import Unsealed
from tests.core.run_world import World
from tests.core.verifying.test_unsealed import KEYS, behind, waiting

TOLD = Happening(type="acme.sent")


def waiting_in(world: World) -> list[Waiting]:
    return [waiting(event) for event in world.events["r"]]


def put_back(how: str) -> World:
    """Give a run whose row is put back after its end: started, ended, and one more."""
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
    return world


@pytest.mark.parametrize("how", ["taken", "told", "sealed"])
def test_98_nothing_follows_in_a_run_that_is_over(how: str) -> None:
    world = put_back(how)
    started, ended, *more = events = waiting_in(world)
    assert more
    assert Unsealed(KEYS, behind(world))([started, ended]) == set()
    assert Unsealed(KEYS, behind(world))(events) == {"r"}
    for sealed in ([started, ended], [started]):
        examine = Unsealed(KEYS, behind(world, *sealed))
        assert examine(events[len(sealed) :]) == {"r"}
        assert "run that is canceled" in examine.problems["r"]


def test_98_what_follows_in_a_run_that_goes_on_is_sealed_at_once_or_one_by_one() -> None:
    world = World()
    world.start()
    world.tell(TOLD, token="t1")
    world.seal(token="t1")
    world.end("blocked", token="t1")
    world.take()
    events = waiting_in(world)
    assert len(events) > 4
    assert Unsealed(KEYS, behind(world))(events) == set()
    one_by_one = Unsealed(KEYS, behind(world))
    for number, event in enumerate(events):
        assert Unsealed(KEYS, behind(world, *events[:number]))([event]) == set()
        assert one_by_one([event]) == set()
        one_by_one.accept()


def test_98_nothing_goes_on_that_was_never_started() -> None:
    world = World()
    world.start()
    world.end("blocked", token="t1")
    (_, ended) = waiting_in(world)
    other = World()
    other.sheets = world.sheets
    other.take()
    assert Unsealed(KEYS, behind(other))(waiting_in(other)) == {"r"}
    assert Unsealed(KEYS, behind(world, *waiting_in(world)[:1]))([ended]) == set()
