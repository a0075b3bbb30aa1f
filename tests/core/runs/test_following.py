"""What a run's events tell: everything that was done is in it, what is open is open, and what was changed is named."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from indelible.core.commands import Claimed, Finish, Relinquish
from indelible.core.effects.identity import Ref
from indelible.core.events import Event, Head, Payload
from indelible.core.runs.following import RunStory
from indelible.core.runs.run import PROGRESS, Happening
from indelible.core.values.canonical import encode
from indelible.core.values.tags import Encrypted
from tests.core.making import KEY, asks, open_command, stamp
from tests.core.run_world import World

OTHER = "12" * 32


def happening(event_type: str, payload: Any = None, **words: Any) -> Happening:
    return Happening(type=event_type, payload_json=None if payload is None else encode(payload), **words)


def opened(world: World, key: str = KEY, **words: Any) -> Any:
    """Opens an effect in run r."""
    number = len(world.effects)
    return world.one(
        open_command(
            ref=Ref("default", "r", key),
            run_id="r",
            stamp=world.stamp(),
            effect_id=f"eff_{number}",
            token=f"{number}",
            **words,
        )
    )


def finish(world: World, begun: Any, status: Any = "succeeded", detail: bytes = b'{"id":"ch_1"}') -> None:
    assert isinstance(begun, Claimed)
    world.one(Finish(claim=begun.claim, stamp=world.stamp(), status=status, detail_json=detail))


def test_only_progress_moves_the_last_safe_event() -> None:
    world = World()
    world.start()
    for event_type in ("intent_proposed", "plan_locked", "execution_requested", "delegation_started"):
        world.tell(happening(event_type))
    story, events = world.story()
    assert story.last_safe == Head(2, world.events["r"][2].hash)
    assert story.progress == 1
    assert [event.type for event in events if event.is_progress] == ["plan_locked"]


@pytest.mark.parametrize("event_type", sorted(PROGRESS - {"run_completed"}))
def test_every_type_of_progress_counts(event_type: str) -> None:
    world = World()
    world.tell(happening(event_type))
    assert world.story()[0].progress == 1


def test_what_was_skipped_is_no_progress_and_makes_no_artifact() -> None:
    world = World()
    sent = happening("artifact_created", {"uri": "a"}, side_effect="notification", side_effect_key="k")
    world.tell(sent, sent)
    story, _ = world.story()
    assert (story.progress, len(story.artifacts), story.side_effect_keys) == (1, 1, {"k": 0})


def test_the_step_is_the_last_that_was_named() -> None:
    world = World()
    world.tell(happening("plan_locked", step="plan"), happening("acme.note"), happening("plan_locked", step="review"))
    assert world.story()[0].step == "review"


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        ({"uri": "s3://b/x", "content_hash": "sha256:00", "metadata": {"n": 1}}, ("s3://b/x", "sha256:00", {"n": 1})),
        ({"path": "x.pdf", "pages": 3}, ("x.pdf", None, {"pages": 3})),
        ({"name": "x", "contentHash": "h", "metadata": "none"}, ("x", "h", {})),
        ({}, ("", None, {})),
        (7, ("", None, {})),
    ],
)
def test_artifacts_are_read_however_they_were_told(payload: Any, expected: tuple[Any, ...]) -> None:
    world = World()
    world.tell(happening("artifact_created", payload))
    (artifact,) = world.story()[0].artifacts
    assert (artifact.uri, artifact.content_hash, artifact.metadata) == expected


def test_effects_are_told_with_their_fate_and_block_their_keys() -> None:
    world = World()
    world.start()
    finish(world, opened(world))
    failed = opened(world, OTHER)
    finish(world, failed, "failed", b'{"message":"declined","type":"CardError"}')
    under_way = opened(world, "34" * 32)
    waiting = opened(world, "56" * 32, verdict=asks())
    read = opened(world, "78" * 32, side_effect="read")
    finish(world, read)
    story, events = world.story()
    assert {line.status for line in story.effects.values()} == {
        "succeeded", "failed", "processing", "requires_approval",
    }  # fmt: skip
    assert story.blocked_keys == sorted([KEY, "34" * 32]), "what failed or only reads may be done again"
    assert [line.id for line in story.in_doubt] == [under_way.claim.effect.id]
    assert story.effects[waiting.effect.id].has_asked
    assert next(event.payload for event in events if event.type == "tool_call_finished") == {"id": "ch_1"}
    assert {event.tool for event in events if event.effect_id} == {"pay"}


def test_what_is_in_doubt_is_named_and_blocked() -> None:
    world = World()
    begun = opened(world)
    world.one(Relinquish(claim=begun.claim, stamp=stamp(), status="in_doubt", detail_json=b'"gone"'))
    story, _ = world.story()
    assert [line.status for line in story.in_doubt] == ["in_doubt"]
    assert story.blocked_keys == [KEY]


def test_only_side_effects_that_cannot_be_repeated_block_their_keys() -> None:
    world = World()
    world.tell(
        *(
            happening("execution_succeeded", side_effect=side_effect, side_effect_key=side_effect)  # type: ignore[arg-type]
            for side_effect in ("none", "read", "write", "external_mutation", "payment", "notification", "delegation")
        )
    )
    assert world.story()[0].blocked_keys == ["external_mutation", "notification", "payment"]


def test_delegations_are_open_until_they_are_told_to_have_finished() -> None:
    world = World()
    for child in ("a", "b"):
        world.tell(happening("delegation_started", {"run": child}))
    world.tell(happening("delegation_started", {"agent": "x"}), happening("delegation_finished", {"runId": "a"}))
    assert world.story()[0].open_delegations == ["b"]


def test_71_a_delegation_that_was_refused_is_none() -> None:
    world = World()
    for payload in ({"refused": "exists", "run": "a"}, {"refused": "exists", "run": "b"}):
        world.tell(happening("delegation_started", {"run": "a"}), happening("delegation_finished", payload))
    assert world.story()[0].delegations == {"a": False}


def test_checkpoints_are_found_by_the_events_that_seal_them() -> None:
    world = World()
    world.start()
    world.seal("ckpt_1")
    world.seal("ckpt_2")
    assert world.story()[0].checkpoints == {"ckpt_1": 1, "ckpt_2": 2}


def test_a_story_goes_on_where_it_was() -> None:
    world = World()
    world.start()
    story, _ = world.story()
    world.tell(happening("plan_locked"))
    assert [event.type for event in world.follow(story)] == ["plan_locked"]
    assert (story.head.length, story.broken) == (2, None)


def tampered(change: Any) -> RunStory:
    world = World()
    world.start()
    world.tell(happening("plan_locked", {"plan": 1}), happening("acme.note", {"n": 2}))
    change(world)
    return world.story()[0]


def edit_body(world: World) -> None:
    event = world.events["r"][1]
    world.events["r"][1] = replace(event, body=event.body.replace(b"plan_locked", b"plan_LOCKED"))


def drop(world: World) -> None:
    del world.events["r"][1]


def swap(world: World) -> None:
    events = world.events["r"]
    events[1], events[2] = events[2], events[1]


@pytest.mark.parametrize(("change", "named"), [(edit_body, "seq 1"), (drop, "seq 2"), (swap, "seq 2")])
def test_the_first_event_that_does_not_fit_is_named(change: Any, named: str) -> None:
    story = tampered(change)
    assert story.broken is not None
    assert story.broken.startswith(named)


def test_a_story_that_goes_on_keeps_only_whether_it_holds() -> None:
    world = World()
    finish(world, opened(world))
    world.tell(happening("artifact_created", {"path": "a"}))
    story = world.story()[0]
    onward = story.going_on()
    assert (story.effects.keys(), onward.effects, onward.artifacts, onward.head) == ({"eff_0"}, {}, [], story.head)
    world.tell(happening("plan_locked"))
    assert [event.status for event in world.follow(onward)] == ["recorded"]
    broken = tampered(edit_body)
    assert broken.going_on().broken == broken.broken, "nobody believes more on the next page"


def test_a_value_that_was_altered_is_named() -> None:
    def alter(world: World) -> None:
        place = next(n for n, payload in enumerate(world.payloads) if payload.field == "payload" and payload.seq == 2)
        world.payloads[place] = world.payloads[place]._replace(value=b'{"n":3}')

    assert tampered(alter).altered == [(2, "payload")]


def test_values_that_nobody_can_open_are_left_out() -> None:
    world = World()
    sealed = encode(Encrypted(b"\1" + b"x" * 60))
    world.tell(Happening(type="plan_locked", payload_json=sealed), happening("acme.note", {"n": 1}))
    assert [event.payload for event in world.story()[1]] == [None, {"n": 1}]

    def opened_value(payload: Payload) -> bytes | None:
        return b'{"open":true}' if payload.value == sealed else None

    story = RunStory("r", opened_value)
    assert [event.payload for event in world.follow(story)] == [{"open": True}, None]
    assert story.altered == [], "what is checked is what was recorded"


def test_values_that_were_erased_are_left_out() -> None:
    world = World()
    world.tell(happening("artifact_created", {"uri": "a"}), happening("plan_locked"))
    world.payloads.clear()
    story, events = world.story()
    assert [event.payload for event in events] == [None, None]
    assert (story.artifacts[0].uri, story.altered) == ("", [])


class Counted(dict[str, Payload]):
    """Counts how often it is looked at."""

    looks = 0

    def __getitem__(self, name: str) -> Payload:
        Counted.looks += 1
        return super().__getitem__(name)


def test_following_costs_the_same_for_each_event_however_many_there_were() -> None:
    """Nothing that is kept grows with events that tell of nothing lasting."""
    world = World()
    for _ in range(50):
        world.tell(*[happening("acme.note", {"n": 1})] * 20)
    story = RunStory("r")
    first, last = _looks(world, story, 0, 500), _looks(world, story, 500, 1000)
    assert first == last
    assert [*story.artifacts, *story.effects, *story.side_effect_keys, *story.checkpoints] == []


def _looks(world: World, story: RunStory, begin: int, end: int) -> int:
    found: dict[int, Counted] = {}
    for payload in world.payloads:
        found.setdefault(payload.seq, Counted())[payload.field] = payload
    Counted.looks = 0
    events: list[Event] = world.events["r"][begin:end]
    for event in events:
        story.follow(event, found[event.seq])
    return Counted.looks


@pytest.mark.parametrize(
    "change",
    [
        lambda body: body.replace(b'"facts"', b'"fects"'),
        lambda body: body.replace(b'"checkpoint":"ckpt_1"', b'"checkpaint":"ckpt_1"'),
        lambda body: body.replace(b'"commits"', b'"commats"'),
        lambda body: b"no json",
        lambda body: b"[]",
    ],
)
def test_after_an_event_that_was_altered_nothing_more_is_believed(change: Any) -> None:
    world = World()
    world.start()
    world.seal("ckpt_1")
    world.tell(happening("plan_locked", step="later"))
    event = world.events["r"][1]
    world.events["r"][1] = replace(event, body=change(event.body))
    story, events = world.story()
    assert story.broken is not None
    assert story.broken.startswith("seq 1")
    assert (story.checkpoints, story.step, story.progress, story.head.length) == ({}, None, 0, 3)
    assert [event.status for event in events] == ["recorded", "unread", "unread"]
