"""A run is gone on with from its record: from the latest checkpoint that is whole, or not at all."""

from __future__ import annotations

import json

import pytest

from indelible import Failed, Succeeded
from indelible.core.runs.resuming import context_content
from indelible.core.runs.run import side_effect_key
from indelible.errors import EffectInDoubt, MayHaveHappened, ReviewRequired, RunDriven, UnknownCheckpoint
from tests.scenarios.hands import resumed, started, told
from tests.scenarios.raw import execute
from tests.scenarios.shells import Count, Driver, Shell, charge

KEY = side_effect_key("mail", "ada", "00")


def saved_twice(ledger: Driver) -> tuple[str, str]:
    """Leaves a run with two checkpoints that nobody drives, and gives their names."""
    run = started(ledger)
    run.record("plan_locked", {"steps": 3}, step="plan")
    first = run.checkpoint({"cursor": 1}).id
    run.record("tool_call_finished", {"leads": 847}, step="fetch")
    second = run.checkpoint({"cursor": 2}).id
    run.hand_off("whoever resumes it", state={"cursor": 2})
    (third,) = (one.id for one in ledger.checkpoints("r1") if one.id not in (first, second))
    # Only what a scenario looks at is left: the third is as the second, and newer.
    return second, third


def sealing_seq(ledger: Driver, checkpoint_id: str) -> int:
    """Gives the event that seals a checkpoint."""
    seq: int = ledger.run_story("r1").checkpoints[checkpoint_id]
    return seq


def edit_payload(ledger: Driver, seq: int, field: str, old: bytes, new: bytes) -> None:
    """Edits a recorded value where it is kept."""
    where = "WHERE tenant = ? AND run_id = 'r1' AND seq = ? AND field = ?"
    ((value,),) = execute(ledger.url, f"SELECT value FROM indelible_payloads {where}", ledger.tenant, seq, field)
    assert old in bytes(value), bytes(value)
    edited = bytes(value).replace(old, new)
    execute(ledger.url, f"UPDATE indelible_payloads SET value = ? {where}", edited, ledger.tenant, seq, field)


# Where it goes on


def test_a_run_goes_on_from_the_latest_checkpoint(ledger: Driver, shell: Shell) -> None:
    _, newest = saved_twice(ledger)
    run = resumed(shell.open())
    assert run.context.checkpoint.id == newest
    assert run.context.state == {"cursor": 2}
    assert run.context.current_step == "fetch"
    assert ledger.events("r1")[-1].read()["facts"]["checkpoint"] == newest


def test_a_run_goes_on_from_the_checkpoint_that_is_named(ledger: Driver) -> None:
    run = started(ledger)
    first = run.checkpoint({"cursor": 1})
    run.record("tool_call_finished", step="fetch")
    run.checkpoint({"cursor": 2})
    run.hand_off("ben")
    again = resumed(ledger, checkpoint=first.id)
    assert again.context.state == {"cursor": 1}
    assert again.context.current_step == "fetch", "what was done since is not forgotten: the live log is the truth"
    assert [receipt.type for receipt in again.context.receipts] == ["tool_call_finished"]


def test_a_run_without_a_checkpoint_goes_on_from_its_events(ledger: Driver, shell: Shell) -> None:
    run = started(ledger)
    run.record("plan_locked", step="plan")
    shell.open().end_run("r1", "blocked", by="ada", reason="take a break")
    context = resumed(ledger).context
    assert (context.checkpoint, context.state, context.current_step) == (None, None, "plan")
    assert context.suggested_next_action == "continue"


def test_a_checkpoint_that_is_not_there_is_refused(ledger: Driver) -> None:
    saved_twice(ledger)
    with pytest.raises(UnknownCheckpoint):
        resumed(ledger, checkpoint="ckpt_nowhere")
    assert ledger.get_run("r1").status == "blocked"


def test_the_context_over_json_has_the_documented_fields(ledger: Driver) -> None:
    run = started(ledger, allowed_tools=["charge", "mail"])
    ledger.run(charge(run_id="r1"), Count({"id": "ch_1"}), side_effect="payment")
    run.record("execution_succeeded", side_effect="notification", side_effect_key=KEY, step="mail")
    run.artifact("s3://leads.csv", content=b"a")
    run.hand_off("ben", state={"cursor": 2}, suggested="send_the_rest")
    again = resumed(ledger)
    content = json.loads(json.dumps(context_content(again.context)))
    documented = {
        "runId", "ledgerId", "checkpointId", "currentStep", "receipts", "artifacts", "unresolvedApprovals",
        "remainingPermissions", "blockedSideEffectKeys", "suggestedNextAction", "resumedAt", "schemaVersion",
    }  # fmt: skip
    assert documented <= set(content)
    (effect,) = ledger.effects(run_id="r1")
    assert sorted(content["blockedSideEffectKeys"]) == sorted([KEY, effect.key])
    assert [receipt["eventType"] for receipt in content["receipts"]] == [
        "tool_call_finished",
        "execution_succeeded",
        "artifact_created",
    ]
    assert content["receipts"][0]["payload"] == {"id": "ch_1"}
    assert [artifact["uri"] for artifact in content["artifacts"]] == ["s3://leads.csv"]
    assert content["remainingPermissions"] == {"allowed_tools": ["charge", "mail"]}
    assert (content["suggestedNextAction"], content["state"]) == ("send_the_rest", {"cursor": 2})


def test_what_is_in_doubt_is_named_until_a_person_settles_it(ledger: Driver, shell: Shell) -> None:
    run = started(ledger)
    call = charge(run_id="r1")
    with pytest.raises(MayHaveHappened):
        ledger.run(call, Count(MayHaveHappened("the line broke")), side_effect="payment")
    run.hand_off("ben")
    other = shell.open()
    again = resumed(other)
    (line,) = again.context.in_doubt
    assert (line.tool, line.status) == ("charge", "in_doubt")
    handler = Count()
    with pytest.raises(EffectInDoubt):
        other.run(call, handler, side_effect="payment")
    other.settle(line.id, Succeeded({"id": "ch_1"}), by="ada", evidence="the provider's page")
    again.hand_off("cyn")
    last = resumed(ledger)
    assert last.context.in_doubt == []
    assert ledger.run(call, handler, side_effect="payment") == {"id": "ch_1"}
    assert handler.entries == 0


def test_what_a_person_says_did_not_happen_is_not_blocked(ledger: Driver) -> None:
    run = started(ledger)
    with pytest.raises(MayHaveHappened):
        ledger.run(charge(run_id="r1"), Count(MayHaveHappened("the line broke")), side_effect="payment")
    (effect,) = ledger.effects(run_id="r1")
    ledger.settle(effect.id, Failed("never arrived"), by="ada", evidence="the provider's page")
    run.hand_off("ben")
    assert resumed(ledger).context.blocked_side_effect_keys == []


def test_the_state_is_what_the_agent_saved_whatever_it_is(ledger: Driver) -> None:
    from datetime import UTC, datetime
    from decimal import Decimal

    run = started(ledger)
    state = {"price": Decimal("1.10"), "at": datetime(2026, 1, 2, tzinfo=UTC), "raw": b"\x00", "$odd": [1, None, "ü"]}
    run.hand_off("ben", state=state)
    assert resumed(ledger).context.state == state


# When the record is not what was sealed


@pytest.mark.parametrize(
    ("field", "old", "new"),
    [
        ("state", b'{"cursor":2}', b'{"cursor":9}'),
        ("checkpoint", b'"has_state":true', b'"has_state":false'),
        ("checkpoint", b'"reason":"explicit_handoff"', b'"reason":"manual"'),
    ],
)
def test_a_checkpoint_that_was_edited_sets_the_run_aside_and_an_older_one_is_offered(
    ledger: Driver, shell: Shell, field: str, old: bytes, new: bytes
) -> None:
    older, newest = saved_twice(ledger)
    edit_payload(ledger, sealing_seq(ledger, newest), field, old, new)
    other = shell.open()
    with pytest.raises(ReviewRequired) as refusal:
        resumed(other)
    assert refusal.value.checkpoint_id == older
    assert f"{newest}: {field} is not what was sealed" in str(refusal.value)
    assert older in str(refusal.value)
    assert ledger.get_run("r1").status == "manual_review_required"
    assert told(ledger)[-1] == "run_flagged"
    report = ledger.verify_run("r1")
    assert not report.is_valid
    assert [(seal.checkpoint.id, seal.is_valid) for seal in report.seals][:2] == [(newest, False), (older, True)]
    with pytest.raises(ReviewRequired):
        resumed(other, checkpoint=older)
    again = resumed(other, force=True)
    assert (again.context.checkpoint.id, again.context.state) == (older, {"cursor": 2})
    assert ledger.get_run("r1").status == "active"


def test_an_edited_checkpoint_is_refused_by_its_name_even_by_force(ledger: Driver) -> None:
    _, newest = saved_twice(ledger)
    edit_payload(ledger, sealing_seq(ledger, newest), "state", b"2", b"9")
    for force in (False, True):
        with pytest.raises(ReviewRequired):
            resumed(ledger, checkpoint=newest, force=force)


def test_a_checkpoint_whose_sheet_was_pointed_elsewhere_is_found(ledger: Driver) -> None:
    older, newest = saved_twice(ledger)
    change = "UPDATE indelible_sheets SET seq = ? WHERE tenant = ? AND kind = 'checkpoint' AND id = ?"
    execute(ledger.url, change, sealing_seq(ledger, older), ledger.tenant, newest)
    with pytest.raises(ReviewRequired, match=newest):
        resumed(ledger)


def test_a_checkpoint_whose_sheet_was_deleted_is_found(ledger: Driver) -> None:
    older, newest = saved_twice(ledger)
    execute(ledger.url, "DELETE FROM indelible_sheets WHERE tenant = ? AND id = ?", ledger.tenant, newest)
    with pytest.raises(ReviewRequired, match="gone") as refusal:
        resumed(ledger)
    assert refusal.value.checkpoint_id == older


@pytest.mark.parametrize("field", ["state", "checkpoint"])
def test_a_checkpoint_of_which_something_was_deleted_is_found(ledger: Driver, field: str) -> None:
    older, newest = saved_twice(ledger)
    change = "DELETE FROM indelible_payloads WHERE tenant = ? AND run_id = 'r1' AND seq = ? AND field = ?"
    execute(ledger.url, change, ledger.tenant, sealing_seq(ledger, newest), field)
    with pytest.raises(ReviewRequired, match=f"{newest}: {field} is gone") as refusal:
        resumed(ledger)
    assert refusal.value.checkpoint_id == older


def test_a_state_that_was_erased_on_the_record_is_no_bad_seal(ledger: Driver) -> None:
    _, newest = saved_twice(ledger)
    seq = sealing_seq(ledger, newest)
    ledger.erase(run_id="r1", seq=seq, fields=["state"], by="ada", reason="asked to")
    context = resumed(ledger).context
    assert (context.checkpoint.id, context.state) == (newest, None)
    assert ledger.verify_run("r1").is_valid


def test_an_event_that_was_edited_breaks_the_chain_and_no_force_helps(ledger: Driver) -> None:
    saved_twice(ledger)
    where = "WHERE tenant = ? AND run_id = 'r1' AND seq = 1"
    ((body,),) = execute(ledger.url, f"SELECT body FROM indelible_events {where}", ledger.tenant)
    edited = bytes(body).replace(b'"plan"', b'"plot"')
    assert edited != bytes(body)
    execute(ledger.url, f"UPDATE indelible_events SET body = ? {where}", edited, ledger.tenant)
    for force in (False, True):
        with pytest.raises(ReviewRequired, match="seq 1"):
            resumed(ledger, force=force)
    report = ledger.verify_run("r1")
    assert report.broken is not None
    assert not report.is_valid


def test_a_value_that_was_edited_sets_the_run_aside_until_somebody_says_it_goes_on(ledger: Driver) -> None:
    saved_twice(ledger)
    edit_payload(ledger, 3, "payload", b"847", b"999")
    assert ledger.verify_run("r1").altered == [(3, "payload")]
    with pytest.raises(ReviewRequired, match="seq 3: payload"):
        resumed(ledger)
    context = resumed(ledger, force=True).context
    assert context.state == {"cursor": 2}


def test_when_no_checkpoint_is_whole_none_is_offered(ledger: Driver) -> None:
    run = started(ledger)
    run.hand_off("ben", state={"cursor": 1})
    edit_payload(ledger, 1, "state", b"1", b"2")
    for force in (False, True):
        with pytest.raises(ReviewRequired) as refusal:
            resumed(ledger, force=force)
        assert refusal.value.checkpoint_id is None


def test_a_run_that_was_set_aside_by_a_person_needs_force(ledger: Driver) -> None:
    saved_twice(ledger)
    ledger.end_run("r1", "manual_review_required", by="ada", reason="odd amounts")
    with pytest.raises(ReviewRequired):
        resumed(ledger)
    assert resumed(ledger, force=True).context.state == {"cursor": 2}


def test_force_takes_no_run_from_whoever_drives_it(ledger: Driver, shell: Shell) -> None:
    started(ledger)
    with pytest.raises(RunDriven):
        resumed(shell.open(), force=True)


# Delegating


def test_parent_and_child_name_each_other(ledger: Driver) -> None:
    parent = started(ledger, "parent")
    child = parent.delegate("clerk", "write mails", allowed_tools=["mail"])
    found = ledger.get_run(child.id)
    assert (found.parent, found.agent, found.allowed_tools) == ("parent", "clerk", ("mail",))
    event = ledger.events("parent")[1]
    assert found.parent_event == f"evt_{event.hash}"
    assert ledger.run_story("parent").open_delegations == [child.id]
    child.complete()
    parent.finish_delegation(child, {"mails": 3})
    assert ledger.run_story("parent").open_delegations == []
    for run_id in ("parent", child.id):
        assert ledger.verify_run(run_id).is_valid
    assert ledger.verify_run(child.id).parent == "parent"


def test_a_resumed_parent_hears_of_children_that_were_not_told_to_have_finished(ledger: Driver) -> None:
    parent = started(ledger, "parent")
    child = parent.delegate("clerk")
    parent.hand_off("ben")
    context = resumed(ledger, "parent").context
    assert list(context.open_delegations) == [child.id]
    assert context.suggested_next_action == "await_delegation"


def test_a_child_that_lies_about_its_parent_is_found(ledger: Driver) -> None:
    started(ledger, "parent")
    event = f"evt_{ledger.events('parent')[0].hash}"
    ledger.ledger._run_desk().start_run("liar", agent="clerk", parent="parent", parent_event=event)
    report = ledger.verify_run("liar")
    assert report.lineage is not None
    assert not report.is_valid
    assert ledger.verify_run("parent").is_valid


def test_a_child_that_names_an_event_of_another_child_is_found(ledger: Driver) -> None:
    parent = started(ledger, "parent")
    child = parent.delegate("clerk")
    desk = ledger.ledger._run_desk()
    event = ledger.get_run(child.id).parent_event
    desk.start_run("liar", agent="clerk", parent="parent", parent_event=event)
    assert ledger.verify_run("liar").lineage == "its parent parent tells nothing of it"
    assert ledger.verify_run(child.id).is_valid


def test_lineage_holds_when_what_the_parent_said_was_erased(ledger: Driver) -> None:
    parent = started(ledger, "parent")
    child = parent.delegate("clerk")
    child.complete()
    parent.complete()
    ledger.erase(run_id="parent", by="ada", reason="retention")
    assert ledger.verify_run(child.id).is_valid


def test_a_child_that_denies_its_parent_is_found(ledger: Driver) -> None:
    parent = started(ledger, "parent")
    started(ledger, "stranger")
    parent.record("delegation_started", {"agent": "clerk", "run": "stranger"}, side_effect="delegation")
    report = ledger.verify_run("parent")
    assert "stranger names nobody as its parent" in report.lineage
    assert not report.is_valid
