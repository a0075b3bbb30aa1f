"""What is read page by page is read whole, in its order, each once; and one thing is read by its place."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from indelible.core.paging import event_of, every_event, every_run, every_sheet, read_sheet
from indelible.core.ports import Store, time_in
from indelible.core.sheets import SheetFilter, SheetRef
from indelible.stores import open_store
from indelible.testing.clock import FakeClock
from indelible.testing.commands import Commands, asking, message

MAKE = Commands("default")


@pytest.fixture
def store() -> Iterator[Store]:
    store = open_store(":memory:")
    yield store
    store.close()


def test_a_sheet_is_read_by_its_place(store: Store) -> None:
    store.apply("default", [MAKE.keep(message("m-1")), MAKE.keep(message("m-2"))], [None, None])
    assert read_sheet(store, "default", SheetRef("delivery", "m-2")) == message("m-2")
    assert read_sheet(store, "default", SheetRef("delivery", "m-3")) is None


def test_the_event_that_tells_of_a_sheet_is_found_where_there_is_one(store: Store) -> None:
    store.apply("default", [MAKE.open("a", verdict=asking()), MAKE.keep(message("m-1"))], [None, None])
    (approval,) = store.sheets("default", SheetFilter(kind="approval"))
    told = event_of(store, "default", approval)
    assert told is not None
    assert (told.run_id, told.seq) == (approval.run_id, approval.seq)
    assert told.read()["commits"].keys() >= {"approval"}
    assert event_of(store, "default", message("m-1")) is None, "no event tells of a message"


@pytest.mark.parametrize("page", [1, 2, 3, 7, 100])
def test_lists_are_read_whole_however_many_are_read_at_once(store: Store, page: int) -> None:
    ids = [f"m-{number}" for number in range(7)]
    runs = ["a", "b", "c", "d"]
    for run_id in runs:
        make = Commands("default", run_id)
        opened = [make.open(f"{run_id}-{number}") for number in range(7)]
        store.apply("default", opened, [None] * 7)
    store.apply("default", [MAKE.keep(message(id_)) for id_ in ids], [None] * 7)

    assert [event.seq for event in every_event(store, "default", "b", page=page)] == list(range(7))
    assert [event.seq for event in every_event(store, "default", "b", 4, page=page)] == [5, 6]
    assert [run_id for run_id, _, _ in every_run(store, "default", page=page)] == runs
    assert [run_id for run_id, _, _ in every_run(store, "default", "b", page=page)] == ["c", "d"]
    newest_first = SheetFilter(kind="delivery", limit=page)
    assert [sheet.id for sheet in every_sheet(store, "default", newest_first)] == ids[::-1]
    oldest_first = SheetFilter(kind="delivery", after="m-2", limit=page)
    assert [sheet.id for sheet in every_sheet(store, "default", oldest_first)] == ids[3:]


def test_an_event_says_when_it_was_written(store: Store) -> None:
    command = MAKE.open("a")
    store.apply("default", [command], [None])
    (event,) = store.events("default", MAKE.run_id, -1, 1)
    assert event.at == command.stamp.at


def test_the_time_is_that_of_the_store() -> None:
    clock = FakeClock()
    store = open_store(":memory:", clock=clock)
    clock.advance(timedelta(days=400))
    assert time_in(store, "default") == clock.now()
    store.close()
