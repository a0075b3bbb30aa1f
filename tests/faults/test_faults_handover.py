"""Fault 94: a packet fenced nothing, so the ledger that exported a run and the one that imported it both paid."""

from __future__ import annotations

import functools
import os
import signal
import types
from collections.abc import Iterator
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from indelible import Actor, Ledger
from indelible.errors import BadCall, NotPermitted, RunHandedOver, RunRefused, UnknownRun
from indelible.testing.clock import FakeClock
from tests.chaos.procs import Child
from tests.journal.exported import key_of
from tests.scenarios.hands import begun, resumed, started, told
from tests.scenarios.shells import Count, Driver, Shell, approve, charge, prepare_store

PAY: dict[str, Any] = {"side_effect": "payment"}


@pytest.fixture
def here(shell: Shell) -> Driver:
    """The ledger that hands a run over."""
    return shell.open(seal=True)


@pytest.fixture
def there(shell: Shell, tmp_path: Path) -> Iterator[Driver]:
    """Another ledger of the same tenant, on a file."""
    other = Shell(shell.kind, f"sqlite:///{tmp_path / 'there.db'}")
    yield other.open(tenant=shell.tenant, keys=tmp_path / "keys-there", seal=True)
    other.close()


def name_of(driver: Driver) -> str:
    name: str = driver.ledger.journal_name
    return name


def worked(ledger: Driver, **words: Any) -> None:
    """Pays once in the run r1, and lets go of it."""
    run = started(ledger, **words)
    ledger.run(charge(run_id="r1"), Count({"id": "ch_1"}), **PAY)
    run.hand_off("another ledger", state={"cursor": 2})


@pytest.mark.parametrize("limits", [{}, {"allowed_tools": ["charge"]}])
def test_94_of_two_ledgers_only_the_one_a_run_was_handed_to_goes_on(
    here: Driver, there: Driver, shell: Shell, limits: dict[str, Any]
) -> None:
    worked(here, **limits)
    beside = shell.open()
    assert beside.run(charge(run_id="r1"), Count(), **PAY) == {"id": "ch_1"}, "it has looked at the run before"
    packet = here.export_packet("r1", to=name_of(there))
    there.import_packet(packet, key=key_of(here.ledger))
    handler = Count("paid")
    call = charge(run_id="r1", args={"amount": 6})
    for ledger in (here, beside, shell.open()):
        with pytest.raises(RunHandedOver) as caught:
            ledger.run(call, handler, **PAY)
        assert name_of(there) in str(caught.value)
        assert caught.value.code == "handed_over"
        assert ledger.run(charge(run_id="r1"), handler, **PAY) == {"id": "ch_1"}, "what was done still replays"
    for verb in ("resume_run", "record"):
        words = ("r1",) if verb == "resume_run" else ("r1", "acme.more")
        with pytest.raises(RunHandedOver):
            begun(here, verb, *words) if verb == "resume_run" else here.record(*words)
    assert handler.entries == 0
    assert resumed(there).context.state == {"cursor": 2}
    assert there.run(call, handler, **PAY) == "paid"
    assert handler.entries == 1
    gone, came = here.get_run("r1"), there.get_run("r1")
    assert (gone.status, gone.handover.to, came.imported_from) == ("handed_over", name_of(there), name_of(here))
    assert told(here)[-2:] == ["run_handed_over", "packet_exported"]
    assert here.verify_run("r1").is_valid
    assert there.verify_run("r1").is_valid


def test_94_a_driver_whose_run_is_handed_over_is_told_so_by_its_next_call(here: Driver, there: Driver) -> None:
    run = started(here)
    here.export_packet("r1", to=name_of(there))
    handler = Count()
    with pytest.raises(RunHandedOver):
        here.run(charge(run_id="r1"), handler, **PAY)
    with pytest.raises(RunRefused):
        run.record("acme.more")
    assert handler.entries == 0
    assert run.is_over, "so the end of its block does not end it"


def test_94_an_effect_of_the_run_is_not_entered_by_another_run_of_the_same_scope(here: Driver, there: Driver) -> None:
    started(here)
    shared = charge(run_id="r1", scope="order-9")
    question = here.begin(shared, approval="required", **PAY)
    here.export_packet("r1", to=name_of(there))
    approve(here, question)
    handler = Count()
    with pytest.raises(RunHandedOver):
        here.run(charge(run_id="r2", scope="order-9"), handler, approval="required", **PAY)
    assert handler.entries == 0


def test_94_a_copy_is_read_and_not_gone_on_with(here: Driver, there: Driver) -> None:
    worked(here)
    copy = here.export_packet("r1")
    assert copy["packet"]["handedOverTo"] is None
    for words in ({"trust": True}, {"key": key_of(here.ledger)}):
        with pytest.raises(RunRefused) as caught:
            there.import_packet(copy, **words)
        assert caught.value.code == "copy"
    assert there.effects() == []
    assert here.get_run("r1").status == "blocked", "and it goes on where it was"
    assert here.run(charge(run_id="r1", args={"amount": 6}), Count("paid"), **PAY) == "paid"


def test_94_only_the_ledger_that_was_named_imports_it(
    here: Driver, there: Driver, shell: Shell, tmp_path: Path
) -> None:
    """The same file in two hands would have two owners."""
    worked(here)
    packet = here.export_packet("r1", to=key_of(there.ledger))
    third_shell = Shell(shell.kind, f"sqlite:///{tmp_path / 'third.db'}")
    try:
        third = third_shell.open(tenant=shell.tenant)
        with pytest.raises(RunRefused) as caught:
            third.import_packet(packet, key=key_of(here.ledger))
        assert caught.value.code == "elsewhere"
        assert third.effects() == []
    finally:
        third_shell.close()
    assert there.import_packet(packet, key=key_of(here.ledger)).status == "blocked", "a public key names it as well"
    with pytest.raises(RunHandedOver):
        here.export_packet("r1", to="ledger-000000000000/other")
    again = here.export_packet("r1", to=name_of(there))
    assert again["packet"]["importBefore"] == packet["packet"]["importBefore"], "told twice is told once"
    assert told(here).count("run_handed_over") == 1


def test_94_what_cannot_be_handed_over_is_refused(here: Driver, there: Driver) -> None:
    worked(here)
    for words in ({"to": name_of(here)}, {"to": ""}, {"to": name_of(there), "valid": timedelta(0)}):
        with pytest.raises(BadCall):
            here.export_packet("r1", **words)
    with pytest.raises(UnknownRun):
        here.export_packet("never", to=name_of(there))
    assert here.get_run("r1").status == "blocked"


# Taking back


def test_94_a_person_takes_a_run_back_that_was_never_imported(here: Driver, there: Driver) -> None:
    worked(here)
    here.export_packet("r1", to=name_of(there))
    with pytest.raises(RunRefused) as caught:
        here.take_back_run("r1", by="ada", reason="the other machine is gone")
    assert caught.value.code == "may_be_imported"
    agent = Actor("scout", "agent")
    with pytest.raises(NotPermitted):
        here.take_back_run("r1", by=agent, reason="I want it", force=True)
    taken = here.take_back_run("r1", by="ada", reason="the other machine is gone", force=True)
    assert (taken.status, taken.handover) == ("blocked", None)
    assert told(here)[-1] == "run_taken_back"
    assert resumed(here).context.state == {"cursor": 2}
    assert here.run(charge(run_id="r1", args={"amount": 6}), Count("paid"), **PAY) == "paid"
    with pytest.raises(RunRefused) as caught:
        here.take_back_run("r1", by="ada", reason="again", force=True)
    assert caught.value.code == "not_handed_over"
    here.end_run("r1", "blocked", by="ada", reason="on")
    here.export_packet("r1", to=name_of(there))
    with pytest.raises(RunHandedOver):
        here.run(charge(run_id="r1", args={"amount": 7}), Count(), **PAY)
    assert here.verify_run("r1").is_valid


def test_94_a_run_is_never_in_two_ledgers_by_the_clock_alone(shell: Shell, tmp_path: Path, clock: FakeClock) -> None:
    """Here the packet is useless for weeks. The clock there is slow, so there it can still be imported."""
    slow = FakeClock(clock.now())
    here = shell.open(seal=True, clock=clock)
    other = Shell(shell.kind, f"sqlite:///{tmp_path / 'there.db'}")
    try:
        there = other.open(tenant=shell.tenant, clock=slow)
        worked(here)
        packet = here.export_packet("r1", to=name_of(there), valid=timedelta(hours=2))
        clock.advance(timedelta(weeks=3))
        with pytest.raises(RunRefused) as caught:
            here.take_back_run("r1", by="ada", reason="it never came")
        assert caught.value.code == "may_be_imported"
        there.import_packet(packet, trust=True)
        with pytest.raises(RunHandedOver):
            here.run(charge(run_id="r1", args={"amount": 6}), Count(), **PAY)
    finally:
        other.close()


def test_94_a_packet_is_not_imported_after_its_time(shell: Shell, tmp_path: Path, clock: FakeClock) -> None:
    here = shell.open(seal=True, clock=clock)
    other = Shell(shell.kind, f"sqlite:///{tmp_path / 'there.db'}")
    try:
        there = other.open(tenant=shell.tenant, clock=clock)
        worked(here)
        packet = here.export_packet("r1", to=name_of(there), valid=timedelta(hours=2))
        clock.advance(timedelta(hours=2))
        with pytest.raises(RunRefused) as caught:
            there.import_packet(packet, trust=True)
        assert caught.value.code == "too_late"
    finally:
        other.close()


def test_94_a_run_that_was_handed_over_is_given_up_here_and_stays_fenced(here: Driver, there: Driver) -> None:
    worked(here)
    here.export_packet("r1", to=name_of(there))
    assert here.end_run("r1", "canceled", by="ada", reason="it is theirs").status == "canceled"
    with pytest.raises(RunHandedOver):
        here.run(charge(run_id="r1", args={"amount": 6}), Count(), **PAY)
    here.erase(run_id="r1", by="ada", reason="it is theirs")
    with pytest.raises(RunHandedOver):
        here.run(charge(run_id="r1", args={"amount": 6}), Count(), **PAY)


# Crashes


def export_and_die(line: Connection, url: str, folder: str, to: str, writes: int, *, is_written: bool) -> None:
    """Is a process that is killed just before or after its nth transaction, while it hands a run over."""
    ledger = Ledger.open(url, tenant="acme", wakeups=False, seal=False)
    apply, count = ledger._engine.store.apply, 0

    def dying(*args: Any) -> Any:
        nonlocal count
        count += 1
        if count == writes and not is_written:
            os.kill(os.getpid(), signal.SIGKILL)
        answers = apply(*args)
        if count == writes:
            os.kill(os.getpid(), signal.SIGKILL)
        return answers

    ledger._engine.writer._store = types.SimpleNamespace(apply=dying, address=url)  # type: ignore[assignment]
    ledger.export_packet("r1", Path(folder) / "run.packet", to=to)


@pytest.mark.parametrize(("writes", "is_written"), [(1, False), (1, True), (2, False), (2, True)])
def test_94_a_crash_between_the_steps_leaves_one_owner_or_none(
    store_url: str, tmp_path: Path, writes: int, is_written: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INDELIBLE_KEYS", str(tmp_path / "keys"))
    url = prepare_store(store_url)
    with Ledger.open(f"sqlite:///{tmp_path / 'there.db'}", tenant="acme") as there:
        with Ledger.open(url, tenant="acme", seal=True) as here:
            run = here.start_run("r1", agent="scout")
            run.hand_off("there")
        dying = functools.partial(export_and_die, is_written=is_written)
        with Child(dying, url, str(tmp_path), there.journal_name, writes) as child:
            assert child.join() == -signal.SIGKILL
        assert not (tmp_path / "run.packet").exists()
        with Ledger.open(url, tenant="acme", seal=True) as here:
            handler, owners = Count("paid"), []
            try:
                here.run(charge(run_id="r1"), handler, **PAY)
                owners.append("here")
            except RunHandedOver:
                packet = here.export_packet("r1", to=there.journal_name)
                assert there.import_packet(packet, trust=True).status == "blocked", "it is made whole by doing it again"
                there.run(charge(run_id="r1"), handler, **PAY)
                owners.append("there")
            assert owners == (["here"] if (writes, is_written) == (1, False) else ["there"])
            assert handler.entries == 1
