"""The order inside a run comes from its events: ids, clocks and the order of a list change nothing."""

from __future__ import annotations

from itertools import permutations
from typing import Any

from indelible.core.commands import AwaitingApproval, Claimed, Finish, Relinquish
from indelible.core.effects.effect import Effect
from indelible.core.effects.identity import Ref
from indelible.core.runs.ordering import approvals_in_order, in_order
from tests.core.making import asks, effect, open_command
from tests.core.run_world import World


def opened(world: World, name: str, **words: Any) -> Any:
    """Open an effect in run r; later calls get smaller ids."""
    ref, effect_id = Ref("default", "r", name * 32), f"eff_{99 - len(world.effects)}"
    return world.one(open_command(ref=ref, run_id="r", stamp=world.stamp(), effect_id=effect_id, token=name, **words))


def finish(world: World, begun: Any) -> None:
    assert isinstance(begun, Claimed)
    world.one(Finish(claim=begun.claim, stamp=world.stamp(), status="succeeded", detail_json=b"1"))


def names(effects: list[Effect]) -> list[str]:
    return [one.key[:2] for one in effects]


def test_effects_are_sorted_by_their_first_call_or_by_the_start_of_their_newest_attempt() -> None:
    world = World()
    first = opened(world, "aa")
    world.one(Relinquish(claim=first.claim, stamp=world.stamp(), status="ready", detail_json=b'"not sent"'))
    finish(world, opened(world, "bb"))
    finish(world, opened(world, "aa"))
    opened(world, "cc")
    story, _ = world.story()
    for listed in permutations(world.effects.values()):
        assert names(in_order(story, listed, "called")) == ["aa", "bb", "cc"]
        assert names(in_order(story, listed, "started")) == ["bb", "aa", "cc"]


def test_a_call_that_never_started_stands_where_it_was_made() -> None:
    world = World()
    finish(world, opened(world, "aa"))
    opened(world, "bb", verdict=asks())
    finish(world, opened(world, "cc"))
    story, _ = world.story()
    assert names(in_order(story, reversed(world.effects.values()), "started")) == ["aa", "bb", "cc"]


def test_an_effect_of_which_the_events_do_not_tell_stands_where_its_arguments_were_committed_to() -> None:
    world = World()
    for name in ("aa", "bb"):
        finish(world, opened(world, name))
    story, _ = world.story()
    strange = effect("succeeded", id="eff_00", key="dd" * 32, opened_seq=1)
    assert names(in_order(story, [strange, *world.effects.values()], "called")) == ["aa", "dd", "bb"]


def test_approvals_are_sorted_by_the_first_call_of_their_effects() -> None:
    world = World()
    questions = [opened(world, name, verdict=asks()) for name in ("aa", "bb", "cc")]
    assert all(isinstance(one, AwaitingApproval) for one in questions)
    approvals = [one.approval for one in questions]
    story, _ = world.story()
    for listed in permutations(approvals):
        assert approvals_in_order(story, listed) == approvals
