"""The cases of the suite about the journal: one for each MUST of `core.journal.journal.JournalStore`, and more.

They are part of `StoreConformance`: a store that keeps effects keeps the tree over their events too.
"""

from __future__ import annotations

import functools
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

from indelible.core.commands import Claimed, Command, Moved, Record, Recorded
from indelible.core.events import MOST_BODY_BYTES, commitment, facts_json, signed_message
from indelible.core.journal.journal import Entry, Places, Tree, Waiting
from indelible.core.journal.merkle import EMPTY_ROOT, root_of
from indelible.core.journal.notes import TreeHead
from indelible.core.journal.tiles import grow, tiles_of
from indelible.core.ports import Filter, Store
from indelible.testing.commands import Commands
from indelible.testing.racing import race
from indelible.testing.suite import PATIENCE, Suite, apply_one, check_chain, in_threads, raises, take_claim

EVERYTHING = 1_000_000
AT = datetime(2030, 1, 2, tzinfo=UTC)


class JournalConformance(Suite):
    """Holds a store to what it owes the journal."""

    # integrate

    def test_integrate_must_give_every_event_exactly_one_index_without_gaps_threads(self) -> None:
        """Some threads write, others integrate, all at once and through two openings of the store."""
        tenant, writers, count = self.tenant(), 4, 25
        with self.opened() as one, self.opened() as other:
            together, done = threading.Barrier(writers + 4), list[int]()

            def write(store: Store, number: int) -> None:
                together.wait(PATIENCE)
                try:
                    write_events(store, tenant, number, count)
                finally:
                    done.append(number)

            def integrate(store: Store) -> None:
                together.wait(PATIENCE)
                while len(done) < writers or store.journal.waiting(tenant):
                    store.journal.integrate(tenant, 7)

            stores = [one, other] * 2
            bodies: list[Callable[[], None]] = [functools.partial(integrate, store) for store in stores]
            bodies += [functools.partial(write, store, number) for number, store in enumerate(stores)]
            in_threads(bodies)
            assert len(check_journal(one, tenant)) == writers * count * 2

    def test_integrate_must_give_every_event_exactly_one_index_without_gaps_processes(self) -> None:
        """Processes write to the same run and to their own, and integrate while the others write."""
        tenant, racers, count = self.tenant(), 3, 20
        race(self.factory(), write_and_integrate, [(tenant, racer, count) for racer in range(racers)])
        with self.opened() as store:
            assert store.journal.waiting(tenant) == 0
            assert len(check_journal(store, tenant)) == racers * count * 2

    def test_integrate_must_keep_the_events_of_a_run_in_their_order(self) -> None:
        """However few are taken at once, and however the runs are called."""
        make = Commands(self.tenant())
        names = ["run-10", "run-2", "Run", "\u00e4", "a" * 200, "%", "run-1"]
        with self.opened() as store:
            for part in range(4):
                commands: list[Command] = [recording(make, run_id=name) for name in names for _ in range(part + 2)]
                store.apply(make.tenant, commands[::2] + commands[1::2], [None] * len(commands))
                apply_one(store, recording(make, run_id=names[part]))
                store.journal.integrate(make.tenant, 5)
            while store.journal.integrate(make.tenant, 3) is not None:
                assert_in_order(store.journal.entries(make.tenant, 0, EVERYTHING))
            assert len(check_journal(store, make.tenant)) == 7 * (2 + 3 + 4 + 5) + 4

    def test_integrate_must_take_no_event_that_was_not_shown_and_none_of_the_runs_that_are_named(self) -> None:
        make = Commands(self.tenant())
        shown: list[Waiting] = []

        def examine(waiting: Sequence[Waiting], places: Places) -> set[str]:
            shown.extend(waiting)
            assert places.index_of("free", 0) == (0 if places.tree.size else None)
            if places.tree.size:
                assert places.tile(0, 0)[:32] == bytes.fromhex(entries[0].hash)
            return {one.run_id for one in waiting if one.run_id == "barred"}

        with self.opened() as store:
            for run_id in ("free", "barred", "other"):
                store.apply(make.tenant, [recording(make, run_id=run_id) for _ in range(2)], [None] * 2)
            entries: list[Entry] = []
            assert store.journal.integrate(make.tenant, 100, examine) is not None
            entries = store.journal.entries(make.tenant, 0, EVERYTHING)
            assert {entry.run_id for entry in entries} == {"free", "other"}
            assert {(one.run_id, one.seq) for one in shown} >= {(entry.run_id, entry.seq) for entry in entries}
            assert {one.body for one in shown} >= {entry.body for entry in entries}
            assert store.journal.waiting(make.tenant) == 2
            assert store.journal.integrate(make.tenant, 100, examine) is None
            assert store.journal.integrate(make.tenant, 100) is not None, "once nobody names it, it is taken"
            assert len(check_journal(store, make.tenant)) == 6

    def test_integrate_takes_at_most_so_many_and_gives_none_when_none_wait(self) -> None:
        make = Commands(self.tenant())
        with self.opened() as store:
            journal = store.journal
            assert journal.integrate(make.tenant, 10) is None
            record(store, make, 5)
            sizes = [journal.integrate(make.tenant, 2) for _ in range(4)]
            assert [tree and tree.size for tree in sizes] == [2, 4, 5, None]
            record(store, make, 1)
            assert journal.integrate(make.tenant, 2) == journal.tree(make.tenant)
            assert journal.tree(make.tenant).size == 6

    def test_the_root_is_that_of_all_events_hashes_and_tiles_are_as_if_computed_at_once(self) -> None:
        make = Commands(self.tenant())
        with self.opened() as store:
            assert store.journal.tree(make.tenant) == Tree(0, EMPTY_ROOT)
            for count in (1, 1, 3, 250, 1, 1, 254, 2, 100):
                record(store, make, count)
                grown = store.journal.integrate(make.tenant, EVERYTHING)
                leaves = [bytes.fromhex(entry.hash) for entry in check_journal(store, make.tenant)]
                assert grown == Tree(len(leaves), root_of(leaves))

    def test_a_tile_that_is_not_there_raises_lookup_error(self) -> None:
        make = Commands(self.tenant())
        with self.opened() as store:
            record(store, make, 3)
            store.journal.integrate(make.tenant, EVERYTHING)
            assert len(store.journal.tile(make.tenant, 0, 0)) == 3 * 32
            for level, number in ((0, 1), (1, 0)):
                with raises(LookupError):
                    store.journal.tile(make.tenant, level, number)

    # Reading

    def test_entries_lists_events_at_their_places_from_an_index_on(self) -> None:
        make = Commands(self.tenant())
        with self.opened() as store:
            apply_one(store, make.finish(take_claim(store, make, "effect")))
            record(store, make, 3)
            assert store.journal.entries(make.tenant, 0, 10) == []
            store.journal.integrate(make.tenant, EVERYTHING)
            everything = store.journal.entries(make.tenant, 0, 10)
            events = store.events(make.tenant, "run-1", -1, 10)
            assert [(e.index, e.run_id, e.seq, e.hash, e.body, e.signature) for e in everything] == [
                (number, "run-1", event.seq, event.hash, event.body, None) for number, event in enumerate(events)
            ]
            assert store.journal.entries(make.tenant, 1, 2) == everything[1:3]
            assert store.journal.entries(make.tenant, 4, 10) == everything[4:]
            assert store.journal.entries(make.tenant, 5, 10) == []

    def test_index_of_gives_an_events_place_or_none_while_it_waits(self) -> None:
        make = Commands(self.tenant())
        with self.opened() as store:
            record(store, make, 2)
            assert store.journal.index_of(make.tenant, "run-1", 0) is None
            store.journal.integrate(make.tenant, 1)
            assert [store.journal.index_of(make.tenant, "run-1", seq) for seq in (0, 1, 2)] == [0, None, None]
            store.journal.integrate(make.tenant, 1)
            assert store.journal.index_of(make.tenant, "run-1", 1) == 1
            assert store.journal.index_of(make.tenant, "run-2", 0) is None

    def test_waiting_counts_the_events_that_wait(self) -> None:
        make = Commands(self.tenant())
        with self.opened() as store:
            assert store.journal.waiting(make.tenant) == 0
            record(store, make, 3)
            assert store.journal.waiting(make.tenant) == 3
            store.journal.integrate(make.tenant, 2)
            assert store.journal.waiting(make.tenant) == 1
            with raises():
                store.apply(make.tenant, [recording(make, facts=b"x" * MOST_BODY_BYTES)], [None])
            assert store.journal.waiting(make.tenant) == 1, "what was refused does not wait"

    def test_keep_head_replaces_a_note_about_the_same_size(self) -> None:
        make = Commands(self.tenant())
        tenant = make.tenant
        with self.opened() as store:
            record(store, make, 3)
            store.journal.integrate(tenant, EVERYTHING)
            head = TreeHead("log", 3, bytes(32))
            assert store.journal.heads(tenant, 10) == []
            store.journal.keep_head(tenant, head, "one signature \u2014 \u00e4\n", AT)
            store.journal.keep_head(tenant, head, "two signatures\n", AT + timedelta(seconds=1))
            assert store.journal.heads(tenant, 10) == ["two signatures\n"]
            store.journal.keep_head(tenant, TreeHead("log", 4, bytes(32)), "of more than there is\n", AT)
            assert store.journal.heads(tenant, 10) == ["two signatures\n"]

    def test_heads_lists_the_largest_first_and_leaves_larger_ones_out(self) -> None:
        make = Commands(self.tenant())
        tenant = make.tenant
        with self.opened() as store:
            record(store, make, 33)
            store.journal.integrate(tenant, EVERYTHING)
            for size in (10, 2, 33, 0, 4):
                store.journal.keep_head(tenant, TreeHead("log", size, bytes(32)), f"head {size}\n", AT)

            def sizes(limit: int, up_to: int | None = None) -> list[int]:
                return [int(note.split()[1]) for note in store.journal.heads(tenant, limit, up_to)]

            assert sizes(10) == [33, 10, 4, 2, 0]
            assert sizes(2) == [33, 10]
            assert sizes(10, 10) == [10, 4, 2, 0]
            assert sizes(1, 9) == [4]
            assert sizes(10, 0) == [0]

    def test_tenants_lists_whoever_has_events(self) -> None:
        names = sorted(self.tenant() for _ in range(3))
        with self.opened() as store:
            for name in names:
                assert name not in store.journal.tenants()
                for run_id in ("run-1", "run-2"):
                    record(store, Commands(name, run_id=run_id), 2)
                store.journal.integrate(name, 1)
            found = store.journal.tenants()
            assert [name for name in found if name in names] == names, "each once, in order"

    def test_journals_of_tenants_do_not_see_each_other(self) -> None:
        one, other = Commands(self.tenant()), Commands(self.tenant())
        with self.opened() as store:
            journal = store.journal
            record(store, one, 3)
            record(store, other, 2)
            journal.integrate(one.tenant, EVERYTHING)
            assert (journal.tree(other.tenant).size, journal.waiting(other.tenant)) == (0, 2)
            assert journal.entries(other.tenant, 0, 10) == []
            assert journal.index_of(other.tenant, "run-1", 0) is None
            with raises(LookupError):
                journal.tile(other.tenant, 0, 0)
            journal.keep_head(one.tenant, TreeHead("log", 3, bytes(32)), "note\n", AT)
            assert journal.heads(other.tenant, 10) == []
            journal.integrate(other.tenant, EVERYTHING)
            assert (len(check_journal(store, one.tenant)), len(check_journal(store, other.tenant))) == (3, 2)

    # Record

    def test_record_appends_a_fact_to_a_run_and_chains_it(self) -> None:
        make = Commands(self.tenant())
        with self.opened() as store:
            fact = recording(make, event_type="artifact_created", facts=facts_json({"path": "a.pdf", "size": 3}))
            assert apply_one(store, fact) == Recorded("run-1", 0)
            claim = take_claim(store, make, "effect")
            assert apply_one(store, replace(fact, committed={"note": b'"secret"'})) == Recorded("run-1", 2)
            assert isinstance(apply_one(store, make.finish(claim)), Moved)
            events = check_chain(store, make.tenant, "run-1")
            assert [event.type for event in events] == [
                *("artifact_created", "tool_call_started", "artifact_created", "tool_call_finished")
            ]
            assert (events[0].effect_id, events[0].read()["facts"]) == (None, {"path": "a.pdf", "size": 3})
            (kept,) = store.payloads(make.tenant, "run-1", [2])
            assert kept.value == b'"secret"'
            assert events[2].read()["commits"] == {"note": commitment(kept.salt, "note", kept.value)}
            assert store.effects(make.tenant, Filter()) == store.look([claim.effect.ref]).effects

    def test_record_stands_among_other_commands(self) -> None:
        make = Commands(self.tenant())
        with self.opened() as store:
            for _ in range(2):
                first = f"effect-{len(check_chain(store, make.tenant, 'run-1'))}"
                commands: list[Command] = [
                    recording(make),
                    make.open(first),
                    recording(make),
                    make.open(first),
                    recording(make, run_id="run-2"),
                ]
                answers = store.apply(make.tenant, commands, [None] * 5)
                assert isinstance(answers[1], Claimed)
                assert [a.seq for a in answers if isinstance(a, Recorded)][1] == answers[1].claim.effect.opened_seq + 1
            assert len(check_chain(store, make.tenant, "run-1")) == 6
            assert len(check_chain(store, make.tenant, "run-2")) == 2

    def test_record_by_many_at_once_gives_each_a_number_of_its_own(self) -> None:
        make, count = Commands(self.tenant()), 20
        numbers: list[int] = []
        with self.opened() as one, self.opened() as other:

            def work(store: Store) -> None:
                for number in range(count):
                    command = recording(make, erased=((number, "nothing"),)) if number % 3 else recording(make)
                    answer = apply_one(store, command)
                    assert isinstance(answer, Recorded)
                    numbers.append(answer.seq)

            in_threads([functools.partial(work, store) for store in [one, other] * 2])
            assert sorted(numbers) == list(range(4 * count))
            assert len(check_chain(one, make.tenant, "run-1")) == 4 * count

    def test_record_erases_payloads_in_the_same_transaction(self) -> None:
        make = Commands(self.tenant())
        with self.opened() as store:
            claim = take_claim(store, make, "effect", args_json=b'{"secret":1}')
            take_claim(store, make, "other")
            take_claim(store, make, "elsewhere", run_id="run-2")
            erasing = recording(
                make, event_type="payload_erased", erased=((0, "args"), (0, "never there"), (9, "args"))
            )
            assert apply_one(store, erasing) == Recorded("run-1", 2)
            assert fields_of(store, make) == {(0, "key"), (1, "args"), (1, "key")}
            assert {payload.field for payload in store.payloads(make.tenant, "run-2", [0])} == {"args", "key"}
            (seen,) = store.look([claim.effect.ref]).effects
            assert seen is not None
            assert seen.args_json is None
            assert len(check_chain(store, make.tenant, "run-1")) == 3, "what is recorded stays"
            assert isinstance(apply_one(store, make.finish(claim)), Moved)

    def test_record_erases_what_its_own_batch_brings(self) -> None:
        make = Commands(self.tenant())
        with self.opened() as store:
            commands: list[Command] = [make.open("effect"), recording(make, erased=((0, "args"),))]
            store.apply(make.tenant, commands, [None, None])
            assert fields_of(store, make) == {(0, "key")}

    def test_record_that_is_refused_erases_nothing(self) -> None:
        make = Commands(self.tenant())
        with self.opened() as store:
            take_claim(store, make, "effect")
            erasing = recording(make, erased=((0, "args"),))
            poison: Any = make.open("poison", args_json=None)
            for commands in ([erasing, poison], [poison, erasing], [replace(erasing, facts=b"x" * MOST_BODY_BYTES)]):
                with raises():
                    store.apply(make.tenant, commands, [None] * len(commands))
                assert fields_of(store, make) == {(0, "args"), (0, "key")}
            assert len(check_chain(store, make.tenant, "run-1")) == 1

    # Writers' signatures

    def test_signatures_of_writers_are_kept_with_their_events_and_given_back(self) -> None:
        make = Commands(self.tenant())
        with self.opened() as store:
            apply_one(store, recording(make))
            store.sign_event = signed_by_one
            claim = take_claim(store, make, "effect")
            apply_one(store, make.finish(claim))
            store.apply(make.tenant, [recording(make), make.open("other")], [None, None])
            store.sign_event = signed_by_another
            apply_one(store, recording(make))
            store.sign_event = None
            apply_one(store, recording(make))
            events = check_chain(store, make.tenant, "run-1")
            signers = [None, *[signed_by_one] * 4, signed_by_another, None]
            expected = [sign and sign(signed_message(event.hash)) for event, sign in zip(events, signers, strict=True)]
            assert [event.signature for event in events] == expected
            store.journal.integrate(make.tenant, EVERYTHING)
            assert [entry.signature for entry in store.journal.entries(make.tenant, 0, 10)] == expected

    def test_the_writer_is_named_in_the_events_it_writes(self) -> None:
        make = Commands(self.tenant())
        with self.opened() as one, self.opened() as other:
            assert one.writer_id != other.writer_id
            for store in (one, other):
                apply_one(store, recording(make))
            writers = [event.read()["writer"] for event in check_chain(one, make.tenant, "run-1")]
            assert writers == [one.writer_id, other.writer_id]


# Means


def recording(make: Commands, **changes: Any) -> Record:
    """Makes a command that appends a fact."""
    command = Record(
        tenant=make.tenant, run_id=make.run_id, stamp=make.stamp(), event_type="noted", facts=facts_json({"n": 1})
    )
    return replace(command, **changes)


def record(store: Store, make: Commands, count: int) -> None:
    """Appends facts to a run."""
    store.apply(make.tenant, [recording(make) for _ in range(count)], [None] * count)


def write_events(store: Store, tenant: str, number: int, count: int) -> None:
    """Writes an event to a run of its own and one to a run that all share, so many times."""
    mine, shared = Commands(tenant, run_id=f"run-of-{number}"), Commands(tenant, run_id="shared")
    for _ in range(count):
        apply_one(store, recording(mine))
        apply_one(store, recording(shared))


def write_and_integrate(store: Store, tenant: str, racer: int, count: int) -> None:
    """Writes, and integrates between two writes; in the end until nothing waits."""
    for _ in range(count):
        write_events(store, tenant, racer, 1)
        store.journal.integrate(tenant, 3)
    while store.journal.waiting(tenant):
        store.journal.integrate(tenant, 5)


def fields_of(store: Store, make: Commands) -> set[tuple[int, str]]:
    """Gives which payloads of a run there are."""
    return {(payload.seq, payload.field) for payload in store.payloads(make.tenant, make.run_id, range(100))}


def signed_by_one(message: bytes) -> bytes:
    """Stands for a writer's signature."""
    return sha256(b"one" + message).digest() * 2


def signed_by_another(message: bytes) -> bytes:
    """Stands for another writer's signature."""
    return sha256(b"another" + message).digest() * 2


def check_journal(store: Store, tenant: str) -> list[Entry]:
    """Gives all entries after seeing that tree, tiles and places are what their events make them."""
    journal, tree = store.journal, store.journal.tree(tenant)
    entries = journal.entries(tenant, 0, EVERYTHING)
    assert [entry.index for entry in entries] == list(range(tree.size))
    leaves = [bytes.fromhex(entry.hash) for entry in entries]
    assert tree.root == root_of(leaves)
    expected = grow(0, leaves, _no_tile).tiles
    found = {(level, number): journal.tile(tenant, level, number) for level, number, _ in tiles_of(tree.size)}
    assert found == expected
    assert_in_order(entries)
    for run_id in {entry.run_id for entry in entries}:
        events = check_chain(store, tenant, run_id)
        places = [journal.index_of(tenant, run_id, event.seq) for event in events]
        assert [place for place in places if place is not None] == [e.index for e in entries if e.run_id == run_id]
    return entries


def assert_in_order(entries: list[Entry]) -> None:
    """Sees that each run's events stand in their order, none left out and none twice."""
    seqs: dict[str, list[int]] = defaultdict(list)
    for entry in entries:
        seqs[entry.run_id].append(entry.seq)
    assert all(numbers == list(range(len(numbers))) for numbers in seqs.values()), seqs


def _no_tile(level: int, number: int) -> bytes:
    raise LookupError(f"nothing is kept of tile {number} of level {level}")
