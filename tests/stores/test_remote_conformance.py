"""A store behind a server passes the public suite; what only the server does is refused with words that say so."""

from __future__ import annotations

import functools
import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from typing import Any

import pytest

from indelible import Ledger
from indelible.core.batch import decide
from indelible.core.commands import Amend, AwaitingApproval, Claimed, Command, Kept, Moved, Recorded
from indelible.core.journal.notes import TreeHead
from indelible.core.policy.budgets import read_budget
from indelible.core.ports import Clock, Store
from indelible.core.sheets import Sheet, SheetFilter
from indelible.errors import BadCall
from indelible.testing import FakeClock, StoreConformance
from indelible.testing.commands import Commands, asking, charged, message
from indelible.testing.comparing import KINDS, Comparison, read_for
from indelible.testing.sheets_conformance import twice
from indelible.testing.suite import apply_one, check_chain, take_claim
from tests.scenarios.fixtures import _scenario_database
from tests.scenarios.raw import execute
from tests.scenarios.shells import prepare_store
from tests.server.serving import serve_believing
from tests.stores.afar import Following, TenantsAfar
from tests.stores.test_conformance import OVERWRITE

__all__ = ["_scenario_database"]

# Over HTTP on PostgreSQL nothing is decided that is not decided over HTTP on SQLite and on PostgreSQL itself.
IS_FULL = "INDELIBLE_MATRIX" in os.environ
STORES = ["sqlite", "postgres"] if IS_FULL else ["sqlite"]
# And clients in processes of their own race one writer, the server. These take as long as all the others.
SELDOM = (
    "test_the_root_is_that_of_all_events_hashes_and_tiles_are_as_if_computed_at_once",
    "test_apply_must_decide_on_a_state_that_nobody_changed_before_the_commit_processes",
    "test_apply_must_decide_on_sheets_that_nobody_changed_before_the_commit_processes",
    "test_apply_must_count_the_votes_of_people_who_vote_at_the_same_moment",
    "test_apply_must_let_one_of_many_use_an_approval",
    "test_apply_must_let_one_of_many_change_a_sheet_that_is_kept_aside",
    "test_integrate_must_give_every_event_exactly_one_index_without_gaps_processes",
)


Afar = tuple[str, str, Following]


@pytest.fixture(scope="module", params=STORES)
def afar(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, str, Following]]:
    """A server in front of a store, whose clock a test sets."""
    if request.param == "postgres":
        own: str = request.getfixturevalue("_scenario_database")
    else:
        own = prepare_store(f"sqlite:///{tmp_path_factory.mktemp('afar') / 'ledger.db'}")
    clock = Following()
    served = serve_believing(own, clock=clock, seal=False, max_args_bytes=None)
    yield served.url, own, clock
    served.stop()


class TestRemoteStore(StoreConformance):
    """Every case of the suite, asked through HTTP."""

    @pytest.fixture(autouse=True)
    def _server(self, afar: Afar) -> None:
        self._url, self._own, self._clock = afar

    def factory(self) -> Callable[..., Store]:
        opener: Any = functools.partial(TenantsAfar, self._url, self._own)
        return opener  # type: ignore[no-any-return]

    @contextmanager
    def opened(self, clock: Clock | None = None) -> Iterator[Store]:
        """Opens a client; the server goes by the clock of the test."""
        self._clock.follow(clock)
        store: Any = self.factory()()
        try:
            yield store
        finally:
            store.close()

    def tamper(self, tenant: str, run_id: str, seq: int, field: str, value: bytes) -> None:
        execute(self._own, OVERWRITE, value, tenant, run_id, seq, field)

    are_channels_the_servers = True

    # What is decided there is decided with the server's own time and randomness.

    def test_apply_must_decide_every_command_with_core_batch_decide(self) -> None:
        clock = FakeClock()
        with self.opened(clock) as store:
            for seed in range(3):
                FromAfar(store, clock, self.tenant(), random.Random(seed)).run(steps=60)

    def test_apply_keeps_payloads_of_any_bytes(self) -> None:
        """Not from afar: what is recorded is what everybody reads alike."""
        make = Commands(self.tenant())
        with self.opened() as store:
            claim = take_claim(store, make, "strange")
            with pytest.raises(BadCall, match="not in canonical form"):
                store.apply(make.tenant, [make.finish(claim, detail=bytes(range(256)))], [None])

    def test_the_writer_is_named_in_the_events_it_writes(self) -> None:
        """That is the server, whoever asks."""
        make = Commands(self.tenant())
        with self.opened() as one, self.opened() as other:
            for number, store in enumerate((one, other)):
                take_claim(store, make, f"effect-{number}")
            writers = {event.read()["writer"] for event in check_chain(one, make.tenant, "run-1")}
            assert len(writers) == 1

    def test_signatures_of_writers_are_kept_with_their_events_and_given_back(self) -> None:
        with self.opened() as store:
            afar: Any = store
            with pytest.raises(BadCall, match="signing events is done by the server that keeps this ledger"):
                afar.any().sign_event = bytes
            afar.any().sign_event = None
            assert afar.any().sign_event is None
            with pytest.raises(BadCall, match="signing events is done by the server"):
                Ledger.open(store=afar.any(), sign_events=True)

    def test_apply_must_give_after_a_lost_outcome_the_answers_of_what_was_committed_with_sheets(self) -> None:
        """Of what a client sends again by itself, and that is no vote: nothing is asked, counted or charged twice."""
        clock, make = FakeClock(), Commands(self.tenant())
        with self.opened(clock) as store:
            opening = make.ask("effect", verdict=asking(charges=charged(2).charges, notify=("chat",)))
            asked = twice(store, opening)
            assert isinstance(asked, AwaitingApproval)
            apply_one(store, make.approve(asked.approval))
            claimed = twice(store, replace(opening, stamp=make.stamp(), token="00" * 16))
            assert isinstance(claimed, Claimed)
            assert isinstance(twice(store, make.finish(claimed.claim)), Moved)
            assert isinstance(twice(store, make.keep(message("kept"))), Kept)
            (sheet,) = store.sheets(make.tenant, SheetFilter(kind="budget"))
            assert int(sum(read_budget(sheet).spent.values())) == 2
            assert len(check_chain(store, make.tenant, "run-1")) == 4

    # A handler's transaction is the ledger's own database's, and that is not here.

    def test_a_transaction_is_refused_with_where_to_find_one(self) -> None:
        with self.opened() as store, pytest.raises(BadCall, match="needs the ledger's own database"):
            store.transaction(self.tenant())

    test_look_must_not_give_what_is_not_committed = test_a_transaction_is_refused_with_where_to_find_one
    test_settle_must_commit_the_effect_and_what_the_handler_wrote_together = (
        test_a_transaction_is_refused_with_where_to_find_one
    )
    test_settle_must_roll_both_back_for_any_other_answer = test_a_transaction_is_refused_with_where_to_find_one
    test_settle_must_roll_both_back_for_any_error = test_a_transaction_is_refused_with_where_to_find_one
    test_a_transaction_that_is_left_without_settling_leaves_nothing = (
        test_a_transaction_is_refused_with_where_to_find_one
    )
    test_settle_spends_a_budget_in_the_transaction_of_the_handler = test_a_transaction_is_refused_with_where_to_find_one

    # The journal grows where it is kept; the suite has the server's own database do it, and reads from afar.

    def test_growing_the_journal_is_refused_with_who_does_it(self) -> None:
        tenant = self.tenant()
        with self.opened() as store:
            afar: Any = store
            journal = afar.of(tenant).journal
            head = TreeHead("log", 1, bytes(32))
            for verb, args in (
                ("integrate", (tenant, 5)),
                ("keep_head", (tenant, head, "note", None)),
                ("tenants", ()),
            ):
                with pytest.raises(BadCall, match="is done by the server that keeps this ledger, not from here"):
                    getattr(journal, verb)(*args)

    def test_a_credential_is_for_its_tenant(self) -> None:
        """Every question names the tenant, and one for another is not even sent."""
        with self.opened() as store:
            afar: Any = store
            client = afar.of(self.tenant())
            questions: list[Callable[[], Any]] = [
                lambda: client.apply("other", [Commands("other").open("x")], [None]),
                lambda: client.get_effect("other", "eff_1"),
                lambda: client.events("other", "run-1", -1, 5),
                lambda: client.sheets("other", SheetFilter(kind="run")),
                lambda: client.journal.tree("other"),
                lambda: client.forgetting.holds("other"),
            ]
            for question in questions:
                with pytest.raises(BadCall, match="is for the tenant"):
                    question()

    def test_lists_longer_than_one_answer_come_in_parts(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("indelible.stores.remote.store.MOST_LISTED", 3)
        monkeypatch.setattr("indelible.stores.remote.store.MOST_AT_ONCE", 3)
        make = Commands(self.tenant())
        with self.opened() as store:
            for n in range(7):
                take_claim(store, make, f"effect-{n}")
            store.journal.integrate(make.tenant, 100)
            assert [event.seq for event in store.events(make.tenant, "run-1", -1, 100)] == list(range(7))
            assert [event.seq for event in store.events(make.tenant, "run-1", 0, 6)] == list(range(1, 7))
            assert [event.seq for event in store.events(make.tenant, "run-1", -1, 4)] == list(range(4))
            assert [entry.index for entry in store.journal.entries(make.tenant, 1, 100)] == list(range(1, 7))
            assert [entry.index for entry in store.journal.entries(make.tenant, 0, 3)] == [0, 1, 2]
            assert {payload.seq for payload in store.payloads(make.tenant, "run-1", range(9))} == set(range(7))
            refs = [make.ref(f"effect-{n}") for n in range(7)]
            assert [effect and effect.ref for effect in store.look(refs).effects] == refs
            for n in range(7):
                sheet = Sheet(kind="delivery", id=f"m-{n}", status="due", body=b"{}")
                store.apply(make.tenant, [make.keep(sheet)], [None])
            kept = store.sheets(make.tenant, SheetFilter(kind="delivery"))
            assert store.forgetting.drop(make.tenant, kept) == 7


if not IS_FULL:
    for _name in SELDOM:
        setattr(TestRemoteStore, _name, None)


def without_channels(command: Command) -> Command:
    """Return a command as a server takes it: which channels tell people is not for its callers to say."""
    verdict = getattr(command, "verdict", None)
    if verdict is None or verdict.question is None:
        return command
    return replace(command, verdict=replace(verdict, question=replace(verdict.question, notify=())))  # type: ignore[call-arg]


class FromAfar(Comparison):
    """Compares everything but the server's own time and randomness, and what follows from them."""

    def _command(self) -> Command:
        """Make a command that is no edit: which place an edit takes, the server says."""
        while isinstance(command := super()._command(), Amend):
            pass
        return command

    def _send(self, commands: list[Command]) -> None:
        decided = [without_channels(command) for command in commands]
        effects, sheets = read_for(decided, self._effects, self._sheets)
        batch = decide(decided, effects, self._heads, self._clock.now(), self._provenance(), sheets)
        answers = self._store.apply(self._make.tenant, commands, [None] * len(commands))
        assert [timeless(answer) for answer in answers] == [timeless(answer) for answer in batch.answers]
        self._claims += [answer.claim for answer in answers if isinstance(answer, Claimed)]
        self._noted += [answer for answer in answers if isinstance(answer, Recorded)]
        self._note(batch)

    def _compare_what_is_kept(self) -> None:
        refs = list(self._effects)
        expected = [timeless(self._effects[ref]) for ref in refs]
        for read in (self._store.look, self._store.watch):
            assert [timeless(effect) for effect in read(refs).effects] == expected
        for kind in KINDS:
            known = sorted(self._of_kind(kind), key=lambda sheet: sheet.id, reverse=True)
            found = self._store.sheets(self._make.tenant, SheetFilter(kind=kind, limit=10_000))
            assert [_state(sheet) for sheet in found] == [_state(sheet) for sheet in known]
        for run_id, head in self._heads.items():
            assert len(check_chain(self._store, self._make.tenant, run_id)) == head.length


def _state(sheet: Sheet) -> tuple[Any, ...]:
    return sheet.id, sheet.version, sheet.status, sheet.topic, sheet.body is None, sheet.run_id, sheet.seq


def timeless(value: Any) -> Any:
    """Gives a record without when it was made, and without bodies that hold such times."""
    if is_dataclass(value):
        left_out = ("created_at", "updated_at", "at", "salts", "body")
        kept = {each.name: timeless(getattr(value, each.name)) for each in fields(value) if each.name not in left_out}
        return type(value).__name__, kept
    return [timeless(each) for each in value] if isinstance(value, tuple | list) else value
