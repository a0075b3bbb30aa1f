"""The judge of runs finds each kind of violation, and nothing in a run that is as it should be."""

from __future__ import annotations

from dataclasses import replace

from tests.chaos.run_oracle import Ending, Noted, Saving, StoredCheckpoint, StoredEvent, StoredRun, Taking, Telling
from tests.chaos.run_oracle import judge_run as judge

EVENTS = (
    StoredEvent(seq=0, type="run_started", fence=1),
    StoredEvent(seq=1, type="chaos.named", name="a1"),
    StoredEvent(seq=2, type="chaos.named", name="a2"),
    StoredEvent(seq=3, type="checkpoint_sealed", checkpoint="ckpt-1", reason="manual"),
    StoredEvent(seq=4, type="run_resumed", fence=2),
    StoredEvent(seq=5, type="chaos.named", name="a1", status="skipped"),
    StoredEvent(seq=6, type="checkpoint_sealed", checkpoint="ckpt-2", reason="failure"),
    StoredEvent(seq=7, type="run_failed"),
)
RUN = StoredRun(
    run_id="run",
    status="failed",
    fence=2,
    is_released=True,
    events=EVENTS,
    checkpoints=(
        StoredCheckpoint(id="ckpt-1", seq=3, name="first"),
        StoredCheckpoint(id="ckpt-2", seq=6, name="second"),
    ),
)
NOTED: tuple[Noted, ...] = (
    Taking(fence=1),
    Telling(names=("a1", "a2"), is_done=True),
    Saving(name="first", id="ckpt-1"),
    Saving(name="second"),
    Taking(fence=2),
    Ending(status="failed"),
)


def kinds(run: StoredRun, noted: tuple[Noted, ...] = NOTED) -> set[str]:
    return {violation.kind for violation in judge(run, noted)}


def without(*seqs: int) -> StoredRun:
    return replace(RUN, events=[event for event in EVENTS if event.seq not in seqs])


def changed(seq: int, **more: object) -> StoredRun:
    return replace(RUN, events=[replace(e, **more) if e.seq == seq else e for e in EVENTS])  # type: ignore[arg-type]


def test_a_run_as_it_should_be_has_no_violation() -> None:
    assert kinds(RUN) == set()


def test_what_was_acknowledged_and_is_not_there_is_lost() -> None:
    assert "lost event" in kinds(without(1, 2))


def test_what_was_under_way_and_is_not_there_is_fine() -> None:
    noted = (*NOTED, Telling(names=("b1", "b2"), is_done=False))
    assert kinds(RUN, noted) == set()


def test_what_is_there_twice_was_told_twice() -> None:
    assert kinds(changed(5, status="recorded")) == {"told twice"}


def test_what_nobody_told_is_not_there() -> None:
    assert kinds(changed(5, status="recorded", name="b")) == {"told twice"}


def test_a_batch_of_which_a_part_is_there_is_half_told() -> None:
    noted = (*NOTED, Telling(names=("b0", "b1"), is_done=False))
    assert kinds(changed(5, status="recorded", name="b1"), noted) == {"half told"}


def test_a_batch_that_was_told_again_to_the_end_is_half_told_all_the_same() -> None:
    noted = (*NOTED[:1], Telling(names=("a1", "b"), is_done=True), Telling(names=("a2",), is_done=True), *NOTED[2:])
    assert kinds(changed(5, status="recorded", name="b"), noted) == {"half told"}


def test_a_checkpoint_without_its_event_is_half_a_checkpoint() -> None:
    assert kinds(without(3)) == {"half a checkpoint"}


def test_an_event_without_its_checkpoint_is_half_a_checkpoint() -> None:
    noted = tuple(each for each in NOTED if each != Saving(name="first", id="ckpt-1"))
    assert kinds(replace(RUN, checkpoints=RUN.checkpoints[1:]), noted) == {"half a checkpoint"}


def test_a_checkpoint_of_another_event_or_state_is_half_a_checkpoint() -> None:
    first, second = RUN.checkpoints
    assert kinds(replace(RUN, checkpoints=(first, replace(second, seq=5)))) == {"half a checkpoint"}
    assert kinds(replace(RUN, checkpoints=(first, replace(second, name=None)))) == {"half a checkpoint"}


def test_a_checkpoint_that_was_acknowledged_and_is_not_there_is_lost() -> None:
    assert "lost checkpoint" in kinds(RUN, (*NOTED, Saving(name="third", id="ckpt-3")))


def test_an_end_that_was_acknowledged_and_is_not_there_is_lost() -> None:
    assert kinds(RUN, (*NOTED, Ending(status="completed"))) == {"lost ending"}


def test_a_failure_that_was_saved_and_not_told_is_half_an_ending() -> None:
    assert kinds(replace(without(7), status="active", is_released=False), NOTED[:-1]) == {"half an ending"}


def test_a_run_that_ended_and_is_driven_is_half_an_ending() -> None:
    assert kinds(replace(RUN, is_released=False)) == {"half an ending"}


def test_a_run_whose_events_tell_something_else_disagrees() -> None:
    assert kinds(replace(RUN, status="active")) == {"run disagrees"}


def test_each_driver_has_the_next_number() -> None:
    assert "fence taken twice" in kinds(changed(4, fence=1))
    assert kinds(replace(RUN, fence=1)) == {"fence taken twice"}


def test_nobody_was_given_a_number_of_somebody_else_or_of_nobody() -> None:
    assert kinds(RUN, (*NOTED, Taking(fence=2))) == {"two drivers"}
    assert kinds(RUN, (*NOTED, Taking(fence=3))) == {"two drivers"}


def test_what_the_library_finds_wrong_is_told() -> None:
    assert kinds(replace(RUN, wrong="event 3: …")) == {"run not valid"}
