"""What stores owe the journal when processes are killed, and that every MUST of the port has its case."""

from __future__ import annotations

import contextlib
import functools
import itertools
import multiprocessing
import time
from collections.abc import Callable

from indelible.core.journal.journal import JournalStore
from indelible.core.ports import Store
from indelible.stores import migrate, open_store
from indelible.testing import StoreConformance
from indelible.testing.journal_conformance import check_journal, write_events

TENANT = "default"
PATIENCE = 60.0


def write_for_ever(opened: Callable[[], Store]) -> None:
    """Writes until it is killed."""
    store = opened()
    for number in itertools.count():
        write_events(store, TENANT, number % 3, 1)


def integrate_for_ever(opened: Callable[[], Store]) -> None:
    """Integrates until it is killed."""
    store = opened()
    while True:
        store.journal.integrate(TENANT, 5)


def test_processes_that_are_killed_leave_no_gap_and_nothing_twice(store_url: str) -> None:
    migrate(store_url)
    opened = functools.partial(open_store, store_url, wakeups=False)
    context = multiprocessing.get_context("spawn")
    with contextlib.closing(opened()) as store:
        for _ in range(3):
            bodies = [write_for_ever, integrate_for_ever, integrate_for_ever]
            processes = [context.Process(target=body, args=(opened,), daemon=True) for body in bodies]
            for process in processes:
                process.start()
            enough, until = store.journal.tree(TENANT).size + 20, time.monotonic() + PATIENCE
            while store.journal.tree(TENANT).size < enough:
                assert time.monotonic() < until, "nothing is integrated"
            for process in processes:
                process.kill()
            for process in processes:
                process.join(PATIENCE)
                process.close()
        while store.journal.integrate(TENANT, 1000) is not None:
            pass
        runs = ["shared", *(f"run-of-{number}" for number in range(3))]
        written = sum(len(store.events(TENANT, run, -1, 1_000_000)) for run in runs)
        assert len(check_journal(store, TENANT)) == written >= 60


def test_every_must_of_the_journals_port_has_a_test_that_repeats_it() -> None:
    """Reads the contract: whoever adds a MUST has to add its test."""
    names = " ".join(name for name in dir(StoreConformance) if name.startswith("test_"))
    musts = {
        ("integrate", "give every event exactly one index"): "integrate_must_give_every_event_exactly_one_index",
        ("integrate", "keep the events of a run"): "integrate_must_keep_the_events_of_a_run_in_their_order",
        ("integrate", "take no event that"): "integrate_must_take_no_event_that_was_not_shown",
    }
    found = 0
    for verb, method in vars(JournalStore).items():
        text = " ".join((getattr(method, "__doc__", None) or "").split())
        for sentence in text.split("MUST ")[1:]:
            expected = [test for (of, begins), test in musts.items() if of == verb and sentence.startswith(begins)]
            assert expected, f"{verb}: no test for: MUST {sentence}"
            assert expected[0] in names
            found += 1
    assert found == len(musts)
