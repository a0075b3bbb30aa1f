"""Both stores pass the whole public suite; no case is skipped."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

import apsw
import psycopg
import pytest

from indelible.core import ports
from indelible.core.ports import Store
from indelible.stores import make_roles, open_store
from indelible.testing import StoreConformance
from tests.postgres import login
from tests.scenarios.fixtures import _scenario_database
from tests.scenarios.raw import execute
from tests.stores.database import open_file

__all__ = ["_scenario_database"]

OVERWRITE = "UPDATE indelible_payloads SET value = ? WHERE tenant = ? AND run_id = ? AND seq = ? AND field = ?"


class TestSqliteStore(StoreConformance):
    @pytest.fixture(autouse=True)
    def _database(self, sqlite_url: str) -> None:
        self._url = sqlite_url
        self._path = sqlite_url.removeprefix("sqlite:///")

    def factory(self) -> Callable[..., Store]:
        return functools.partial(open_store, self._url)

    def handler_writes(self, connection: apsw.Connection, number: int) -> None:
        connection.execute("CREATE TABLE IF NOT EXISTS mine (number INTEGER)")
        connection.execute("INSERT INTO mine VALUES (?)", (number,))

    def handler_wrote(self) -> list[int]:
        with open_file(self._path) as connection:
            if connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'mine'").fetchone() is None:
                return []
            return [number for (number,) in connection.execute("SELECT number FROM mine")]

    def tamper(self, tenant: str, run_id: str, seq: int, field: str, value: bytes) -> None:
        execute(self._url, OVERWRITE, value, tenant, run_id, seq, field)


class TestMemoryStore:
    """A ledger in memory is one store object; it keeps what it was given as a file does."""

    def test_it_is_the_same_store_without_a_file(self) -> None:
        from indelible.testing.commands import Commands

        store = open_store(":memory:")
        make = Commands("default")
        (answer,) = store.apply("default", [make.open("effect")], [None])
        assert store.look([make.ref("effect")]).effects == [answer.claim.effect]  # type: ignore[union-attr]
        store.close()


class TestPostgresStore(StoreConformance):
    """Goes by the rights of the group role eraser, which are the writer's and those to erase."""

    @pytest.fixture(autouse=True)
    def _database(self, _scenario_database: str) -> Iterator[None]:
        self._url = _scenario_database
        with psycopg.connect(self._url) as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS mine (number integer)")
            connection.execute("TRUNCATE mine")
            connection.execute("GRANT INSERT ON mine TO PUBLIC")
        with login(self._url, member_of=make_roles(self._url).names["eraser"]) as self._eraser:
            yield

    def factory(self) -> Callable[..., Store]:
        return functools.partial(open_store, self._eraser)

    def handler_writes(self, connection: psycopg.Connection, number: int) -> None:  # type: ignore[type-arg]
        connection.execute("INSERT INTO mine VALUES (%s)", (number,))

    def handler_wrote(self) -> list[int]:
        with psycopg.connect(self._url) as connection:
            return [number for (number,) in connection.execute("SELECT number FROM mine")]

    def tamper(self, tenant: str, run_id: str, seq: int, field: str, value: bytes) -> None:
        execute(self._url, OVERWRITE, value, tenant, run_id, seq, field)


def test_every_must_of_the_ports_has_a_test_that_repeats_it() -> None:
    """Reads the contract: whoever adds a MUST has to add its test."""
    names = " ".join(name for name in dir(StoreConformance) if name.startswith("test_"))
    musts = {
        ("apply", "decide every command"): "apply_must_decide_every_command_with_core_batch_decide",
        ("apply", "write all of it"): "apply_must_write_all_of_it_or_nothing",
        ("sheets", "give None as the body"): "sheets_must_give_none_as_the_body_of_one_that_was_erased",
        ("sheets", "NOT give the body"): "sheets_must_not_give_the_body_of_one_that_is_not_what_its_event_commits_to",
        ("apply", "NOT return before"): "apply_must_not_return_before_it_is_durable",
        ("apply", "give, after a commit"): "apply_must_give_after_a_lost_outcome_the_answers",
        ("find_by_key", "refuse a key"): "find_by_key_must_refuse_a_key_of_several_scopes",
        ("look", "give the committed state"): "look_must_give_the_committed_state_of_each_effect",
        ("heartbeat", "extend the lease only while"): "heartbeat_must_extend_only_while_the_token_holds",
        ("settle", "commit the effect"): "settle_must_commit_the_effect_and_what_the_handler_wrote_together",
        ("settle", "roll both back"): "settle_must_roll_both_back_for_any_other_answer",
    }
    found = 0
    for protocol in (ports.Store, ports.Transaction, ports.Alarm, ports.Clock):
        for verb, method in vars(protocol).items():
            text = " ".join((getattr(method, "__doc__", None) or "").split())
            for sentence in text.split("MUST ")[1:]:
                expected = [test for (of, begins), test in musts.items() if of == verb and sentence.startswith(begins)]
                assert expected, f"{verb}: no test for: MUST {sentence}"
                assert expected[0] in names
                found += 1
    assert found == len(musts)
