"""What whoever goes on with a run is told, in the documented form, and the packet that carries it elsewhere."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from indelible.core.commands import Adopt, AwaitingApproval, Claimed, Finish, Illegal, InDoubt, Moved, Open, Replayed
from indelible.core.effects.effect import ELSEWHERE, Effect
from indelible.core.effects.identity import Ref
from indelible.core.events import instant
from indelible.core.runs.resuming import (
    PACKET_KIND,
    Packet,
    ResumeContext,
    context_content,
    context_of,
    millis,
    packet_digest,
    packet_of,
    read_packet,
    why_not_carried,
)
from indelible.core.runs.run import Happening, read_checkpoint, read_run, run_ref
from indelible.core.steps import next_step
from indelible.core.values.canonical import decode, encode
from indelible.errors import BadCall
from tests.core.making import DIGEST, KEY, NOON, asks, effect, open_command
from tests.core.run_world import World


def opens(key: str, world: World, **words: Any) -> Open:
    """A call in the run by a caller that knows the run's limits."""
    ref = Ref("default", "r", key)
    return open_command(ref=ref, run_id="r", stamp=world.stamp(), knows_limits=True, **words)


def worked() -> tuple[World, Any]:
    """A run that planned, paid, made a file, asked for something and delegated."""
    world = World()
    world.start(intent="pay", allowed_tools=("pay",), permissions={"spend": 5})
    world.tell(Happening(type="plan_locked", step="plan"))
    paid = world.one(opens(KEY, world, effect_id="eff_1"))
    assert isinstance(paid, Claimed)
    world.one(Finish(claim=paid.claim, stamp=world.stamp(), status="succeeded", detail_json=b'{"id":"ch_1"}'))
    world.tell(Happening(type="artifact_created", payload_json=b'{"uri":"x.pdf"}', step="review"))
    asked = world.one(opens("12" * 32, world, effect_id="eff_2", verdict=asks()))
    assert isinstance(asked, AwaitingApproval)
    return world, asked


def context(world: World, **words: Any) -> ResumeContext:
    story, events = world.story()
    told: dict[str, Any] = {"approvals": [], "checkpoint": None, "state": None, **words}
    return context_of(
        read_run(world.sheets[run_ref("r")]),
        story,
        [event for event in events if event.is_progress],
        told["approvals"],
        told["checkpoint"],
        told["state"],
        ledger_id="ledger-test/default",
        fence=2,
        now=NOON,
    )


def test_the_context_is_the_documented_object() -> None:
    world, asked = worked()
    checkpoint = world.seal(state_json=b"1", suggested="mail").checkpoint
    found = context_content(context(world, approvals=[asked.approval], checkpoint=checkpoint, state={"n": 1}))
    assert {
        "runId": "r",
        "ledgerId": "ledger-test/default",
        "checkpointId": "ckpt_1",
        "currentStep": "review",
        "remainingPermissions": {"spend": 5, "allowed_tools": ["pay"]},
        "blockedSideEffectKeys": [KEY],
        "suggestedNextAction": "await_approval_then_execute",
        "resumedAt": "2030-01-02T12:00:00.000Z",
        "schemaVersion": 1,
        "state": {"n": 1},
        "effectsInDoubt": [],
        "openDelegations": [],
    }.items() <= found.items()
    assert [receipt["eventType"] for receipt in found["receipts"]] == [
        "plan_locked", "tool_call_finished", "artifact_created",
    ]  # fmt: skip
    assert found["receipts"][1] == {
        "eventId": f"evt_{world.events['r'][3].hash}",
        "seq": 3,
        "eventType": "tool_call_finished",
        "actorId": "indelible",
        "stepName": None,
        "status": "recorded",
        "sideEffectClass": "payment",
        "tool": "pay",
        "effectId": "eff_1",
        "payload": {"id": "ch_1"},
        "createdAt": "2030-01-02T12:00:00.000Z",
    }
    assert found["artifacts"] == [{"uri": "x.pdf", "contentHash": None, "metadata": {}, "seq": 4}]
    assert found["unresolvedApprovals"][0]["intentId"] == asked.approval.id
    json.dumps(found)


def test_what_is_open_is_suggested_first() -> None:
    world, asked = worked()
    checkpoint = world.seal(suggested="mail").checkpoint
    assert context(world, approvals=[asked.approval]).suggested_next_action == "await_approval_then_execute"
    assert context(world, checkpoint=checkpoint).suggested_next_action == "mail"
    assert context(world).suggested_next_action == "continue"
    assert context(world, checkpoint=replace(checkpoint, suggested=None)).suggested_next_action == "continue"
    world.tell(Happening(type="delegation_started", payload_json=b'{"run":"child"}'))
    assert context(world, checkpoint=checkpoint).suggested_next_action == "await_delegation"
    world.one(opens("34" * 32, world, effect_id="eff_3"))
    found = context(world, approvals=[asked.approval])
    assert found.suggested_next_action == "settle_effects_in_doubt"
    assert context_content(found)["effectsInDoubt"][0]["status"] == "processing"


def test_a_run_without_limits_keeps_its_permissions() -> None:
    world = World()
    world.start(permissions={"spend": 5})
    assert context(world).remaining_permissions == {"spend": 5}


def test_moments_have_three_decimals() -> None:
    assert millis(NOON) == "2030-01-02T12:00:00.000Z"


EFFECTS = [
    effect("succeeded", id="eff_1"),
    effect("failed", id="eff_2", key="12" * 32),
    effect("processing", id="eff_3", key="34" * 32),
    effect("in_doubt", id="eff_4", key="56" * 32),
    effect("ready", id="eff_5", key="78" * 32),
    effect("requires_approval", id="eff_6", key="9a" * 32, detail_json=b'"its time ran out"'),
    effect("ready", id="eff_7", key="bc" * 32, permission_id="apr_7"),
]


def packet(*effects: Effect) -> Packet:
    world, _ = worked()
    return packet_of(context(world), "default", effects or EFFECTS, "evt_1")


def test_a_packet_is_one_json_object_that_comes_back() -> None:
    made = packet()
    content: Any = decode(encode(made.content))
    back = read_packet(content, NOON)
    assert back.digest == made.digest
    assert [(one.id, one.status) for one in back.effects] == [
        ("eff_1", "succeeded"), ("eff_2", "failed"), ("eff_3", "in_doubt"), ("eff_4", "in_doubt"),
        ("eff_6", "requires_approval"), ("eff_7", "requires_approval"),
    ], "what was under way is in doubt, and what a person was asked about is asked about again"  # fmt: skip
    assert content["nonReplayableSideEffects"] == [KEY]
    assert content["run"]["agentId"] == "billing"
    assert [one.detail_json for one in back.effects[4:]] == [None, None]
    assert back.effects[0].args == EFFECTS[0].args
    assert back.effects[0].outcome == EFFECTS[0].outcome


def test_any_change_of_a_packet_changes_its_digest() -> None:
    content: Any = decode(encode(packet().content))
    digests = {packet_digest(content)}
    leaves = list(_leaves(content))
    for path in leaves:
        changed = copy.deepcopy(content)
        place = changed
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = "other" if place[path[-1]] != "other" else "another"
        digests.add(packet_digest(changed))
    assert len(digests) == len(leaves) + 1


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> Any:
    if isinstance(value, dict | list) and value:
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for step, part in items:
            yield from _leaves(part, (*path, step))
    else:
        yield path


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "something"},
        {"schemaVersion": 2},
        {"effects": [{"id": "eff_1"}]},
        {"effects": 7},
        {"effects": [{**dict.fromkeys(("id", "scope", "key", "tool", "args", "detail"), ""), "status": "ready"}]},
    ],
)
def test_what_is_no_packet_is_refused(change: dict[str, Any]) -> None:
    content: Any = {**packet().content, **change}
    with pytest.raises(BadCall, match="packet"):
        read_packet(content, NOON)


def test_a_packet_whose_values_cannot_be_read_is_refused() -> None:
    content: Any = decode(encode(packet().content))
    content["effects"][0]["args"] = "bm8ganNvbg=="
    with pytest.raises(BadCall, match="cannot be read"):
        read_packet(content, NOON)


# Taking effects over


def adopted(world: World, one: Effect) -> Any:
    return world.one(Adopt(effect=one, stamp=world.stamp(), origin_json=b'{"ledger":"other"}'))


@pytest.mark.parametrize("status", ["succeeded", "failed", "in_doubt", "denied", "canceled"])
def test_an_effect_is_taken_over_as_it_is(status: str) -> None:
    world = World()
    answer = adopted(world, effect(status, detail_seq=99, opened_seq=98, version=7))
    assert isinstance(answer, Moved)
    assert (answer.effect.status, answer.effect.version, answer.effect.opened_seq) == (status, 1, 0)
    detail = {"succeeded": "result", "failed": "error"}.get(status, "reason")
    assert {payload.field for payload in world.payloads} == {"args", "key", "origin", detail}
    assert world.types("run-1") == ["tool_call_adopted"]
    assert adopted(world, effect(status)).effect == answer.effect, "taken over before"
    assert len(world.types("run-1")) == 1


def test_94_an_effect_that_is_taken_over_keeps_when_it_was_opened_and_that_it_took_a_permission() -> None:
    world = World()
    asked = effect(
        "in_doubt", digest=DIGEST, on_crash="retry", created_at=NOON - timedelta(days=2), permission_id="apr_1"
    )
    taken = adopted(world, asked).effect
    assert (taken.created_at, taken.permission_id, taken.approval_id) == (NOON - timedelta(days=2), ELSEWHERE, None)
    (origin,) = [decode(payload.value) for payload in world.payloads if payload.field == "origin"]
    assert origin == {"ledger": "other", "opened_at": instant(taken.created_at), "was_asked": True}
    assert isinstance(world.one(open_command(stamp=world.stamp(), on_crash="retry")), InDoubt)
    later = adopted(World(), effect("in_doubt", created_at=NOON + timedelta(days=900))).effect
    assert later.created_at == later.updated_at
    carried = read_packet(packet(asked).content, NOON).effects[0]
    assert (carried.created_at, carried.permission_id) == (NOON - timedelta(days=2), ELSEWHERE)


def test_what_was_taken_over_is_not_done_again() -> None:
    world = World()
    adopted(world, effect("succeeded", digest=DIGEST))
    answer = world.one(open_command(stamp=world.stamp()))
    assert isinstance(answer, Replayed)
    assert answer.value == {"ok": True}


def test_94_what_was_asked_about_elsewhere_is_asked_about_here_though_no_rule_says_so() -> None:
    world = World()
    adopted(world, effect("requires_approval", digest=DIGEST, attempt=0, detail_json=None, detail_seq=None))
    assert isinstance(world.one(open_command(stamp=world.stamp())), AwaitingApproval)


@pytest.mark.parametrize(("here", "answers"), [("succeeded", Moved), ("requires_approval", Moved), ("ready", Illegal)])
def test_94_a_question_from_elsewhere_leaves_what_is_here_and_refuses_what_would_run(here: Any, answers: Any) -> None:
    known = effect(here, digest="ab" * 32)
    asked = Adopt(effect=effect("requires_approval"), stamp=World().stamp(), origin_json=b"{}")
    assert isinstance(next_step(asked, known, NOON, 0).answer, answers)


def test_another_effect_at_its_place_stays() -> None:
    world = World()
    world.one(open_command(stamp=world.stamp()))
    answer = adopted(world, effect("succeeded"))
    assert isinstance(answer, Illegal)
    assert "cannot be taken over" in answer.why


def test_erased_values_are_not_made_up() -> None:
    world = World()
    answer = adopted(world, effect("succeeded", args_json=None, detail_json=None))
    assert (answer.effect.args_json, answer.effect.detail_seq) == (None, None)
    assert answer.effect.is_detail_erased, "so a repeat of the call is not told that it returned None"
    assert {payload.field for payload in world.payloads} == {"key", "origin"}


def test_the_packet_is_marked_as_one() -> None:
    assert packet().content["kind"] == PACKET_KIND


def test_the_checkpoint_of_a_context_is_the_one_given() -> None:
    world, _ = worked()
    world.seal()
    sheet = next(sheet for ref, sheet in world.sheets.items() if ref.kind == "checkpoint")
    assert context(world, checkpoint=read_checkpoint(sheet)).checkpoint == read_checkpoint(sheet)


@pytest.mark.parametrize(
    ("args", "redaction"),
    [
        (b'{"amount":5}', None),
        (None, "ab"),
        (b'{"card":{"$redacted":"00"}}', "ab"),
        (b'{"note":"pay [redacted card 00]"}', "ab"),
        (b'{"$encrypted":"AA=="}', "ab"),
    ],
)
def test_94_a_packet_names_the_redaction_key_if_arguments_may_have_marks(
    args: bytes | None, redaction: str | None
) -> None:
    world, _ = worked()
    made = packet_of(context(world), "default", [effect("succeeded", args_json=args)], None, "ab")
    assert made.content["redaction"] == redaction


def test_erased_values_stay_out_of_a_packet() -> None:
    world, _ = worked()
    made = packet_of(context(world), "default", [effect("succeeded", args_json=None, detail_json=None)], None)
    (back,) = read_packet(made.content, NOON).effects
    assert (back.args_json, back.detail_json) == (None, None)


@pytest.mark.parametrize("status", ["processing", "in_doubt"])
def test_94_a_call_that_may_have_happened_keeps_its_run_here_while_it_holds_something(status: Any) -> None:
    held = {"charges_json": b'[["one at a time: shop/order/7","1","1",1]]'}
    assert why_not_carried([effect("succeeded"), effect(status, **held)]) is not None
    assert why_not_carried([effect(status)]) is None
    assert why_not_carried([effect("requires_approval", **held)]) is None, "it takes that there when it is asked about"
