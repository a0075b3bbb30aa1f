"""`indelible migrate` and its group roles: a writer, an eraser and a reader each do their part and no more."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from indelible import Ledger, MayHaveHappened, Succeeded
from indelible.errors import ApprovalPending, BudgetExceeded, Misconfigured
from tests.cli.conftest import Cli, call, lose
from tests.cli.test_serve import serving
from tests.journal.test_verify_live import pinned_key
from tests.postgres import login

BUDGET = {"budgets": [{"name": "spent", "limit": 5, "window": "1d", "sum": "amount", "match": {"tool": "pay"}}]}


class Logins:
    """Addresses of one ledger, each for a user in one of its group roles."""

    def __init__(self, writer: str, eraser: str, reader: str) -> None:
        self.writer, self.eraser, self.reader = writer, eraser, reader


@pytest.fixture
def logins(cli: Cli, postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Logins]:
    monkeypatch.setenv("INDELIBLE_KEYS", str(tmp_path / "keys"))
    names = cli("migrate", "--url", postgres_url, "--json").json["roles"]["names"]
    with (
        login(postgres_url, member_of=names["writer"]) as writer,
        login(postgres_url, member_of=names["eraser"]) as eraser,
        login(postgres_url, member_of=names["reader"]) as reader,
    ):
        yield Logins(writer, eraser, reader)


@pytest.fixture
def lived(cli: Cli, logins: Logins) -> str:
    """Lives a whole life of calls as the writer; gives the key that an auditor noted."""
    url = logins.writer
    with Ledger.open(url, seal=True, subject="args.customer", sign_events=True) as ledger:
        for number in range(3):
            assert ledger.run(call("crm.lookup", customer="ada", n=number), lambda effect: {"n": 1}) == {"n": 1}
        with pytest.raises(MayHaveHappened):
            ledger.run(call("stripe.refund", amount=1), lose, side_effect="payment")
        (doubted,) = ledger.effects(status="in_doubt")
        assert ledger.settle(doubted, Succeeded({"id": "re_1"}), by="ana", evidence="seen").status == "succeeded"
        wire = call("wire", amount=7)
        with pytest.raises(ApprovalPending) as asked:
            ledger.run(wire, lambda effect: 1, approval="required", wait=0)
        approval = ledger.get_approval(asked.value.approval.id)
        assert approval is not None
        ledger.approve(approval, digest=approval.digest, by="ana")
        assert ledger.run(wire, lambda effect: 7, approval="required") == 7
        ledger.apply_policy(BUDGET, by="ana")
        assert ledger.run(call("pay", amount=4), lambda effect: 4) == 4
        with pytest.raises(BudgetExceeded):
            ledger.run(call("pay", amount=2), lambda effect: 2)
        with ledger.start_run("order-9", agent="billing", intent="refund") as run:
            ledger.run(call("crm.update", "order-9", customer="bob"), lambda effect: "ok")
            run.checkpoint({"next": "mail"})
        ledger.stop(by="ana", reason="looking")
        ledger.go(by="ana")
        ledger.lift_hold(ledger.hold(run_id="order-9", by="ana", reason="court").id, by="ana", reason="over")
        assert ledger.seal() is not None
        key = pinned_key(ledger._engine.store)
    cli("apikeys", "create", "billing", "--scope", "agent", "--url", url)
    cli("worker", "--once", "--url", url)
    return key


def test_98_a_writer_lives_the_whole_life_of_calls_and_a_reader_verifies_it(
    cli: Cli, logins: Logins, lived: str, tmp_path: Path
) -> None:
    assert cli("verify", "--url", logins.writer, "--key", lived).out.startswith("VERIFIED: ")
    reader = ("--url", logins.reader)
    assert cli("verify", *reader, "--key", lived).out.startswith("VERIFIED: ")
    assert {check["verdict"] for check in cli("doctor", *reader, "--json", code=None).json["checks"]} <= {"ok", "warn"}
    for words in ("effects list", "runs list", "approvals list", "events order-9", "journal head", "policy show"):
        cli(*words.split(), *reader)
    cli("export", "bundle", *reader, "--no-seal", "--out", str(tmp_path / "bundle"))
    assert cli("verify", str(tmp_path / "bundle"), "--key", lived).out.startswith("VERIFIED: ")


def test_a_server_runs_as_a_writer(cli: Cli, logins: Logins) -> None:
    made = cli("apikeys", "create", "billing", "--scope", "agent", "--url", logins.writer, "--json").json
    with serving("--url", logins.writer) as (url, _), Ledger.open(url, token=made["token"]) as ledger:
        assert ledger.run(call("pay", amount=1), lambda effect: 1) == 1
        assert ledger.run(call("pay", amount=1), lambda effect: 2) == 1


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE indelible_heads SET note = 'x'",
        "UPDATE indelible_trees SET size = size - 1",
        "UPDATE indelible_tiles SET hashes = ''",
        "DELETE FROM indelible_pending",
        "UPDATE indelible_effects SET status = 'ready' WHERE tool = 'wire'",
    ],
)
def test_what_a_writer_can_still_change_is_found(cli: Cli, logins: Logins, lived: str, change: str) -> None:
    verify = ("verify", "--url", logins.writer, "--key", lived)
    cli(*verify)
    if "pending" in change:
        with Ledger.open(logins.writer, seal=False) as ledger:
            ledger.run(call("last", n=1), lambda effect: 1)
    with psycopg.connect(logins.writer, autocommit=True) as connection:
        assert connection.execute(change.encode()).rowcount > 0
    for _ in range(2):  # the second time, what the first one wrote waits to be sealed
        assert cli(*verify, code=None).code in ((1, 2) if "effects" in change else (1,))


def test_98_a_reader_writes_nothing(cli: Cli, logins: Logins, lived: str) -> None:
    entered: list[int] = []
    with Ledger.open(logins.reader) as ledger, pytest.raises(Misconfigured, match="42501"):
        ledger.run(call("pay.late", amount=1), lambda effect: entered.append(1))
    assert entered == []
    with psycopg.connect(logins.reader, autocommit=True) as connection:
        for table in (
            "runs",
            "effects",
            "events",
            "payloads",
            "pending",
            "sheets",
            "trees",
            "leaves",
            "tiles",
            "heads",
        ):
            for statement in (f"DELETE FROM indelible_{table}", f"UPDATE indelible_{table} SET tenant = ''"):
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    connection.execute(statement.encode())


def test_a_writer_erases_nothing_and_an_eraser_does(cli: Cli, logins: Logins, lived: str) -> None:
    erase = ("erase", "--yes", "--subject", "ada", "--reason", "asked", "--json")
    before = cli("effects", "list", "--url", logins.writer, "--json").out
    assert cli(*erase, "--url", logins.writer, code=2).error["type"] == "Misconfigured"
    assert cli("effects", "list", "--url", logins.writer, "--json").out == before
    told = cli(*erase, "--url", logins.eraser, code=1).json  # 1: of the run, what is not about her is kept
    assert told["erased"] > 0
    assert not any("may not VACUUM" in remark for remark in told["remarks"])
    assert cli("prune", "--yes", "--before", "0h", "--rewrite", "--url", logins.eraser, "--json").json["erased"] > 0
    with Ledger.open(logins.eraser) as ledger:
        assert ledger.run(call("after", n=1), lambda effect: 1) == 1
    unsealed = cli("verify", "--url", logins.reader, "--key", lived, "--json").json
    assert unsealed["tail"]["events"] > 0, "a reader cannot seal first"
    assert (unsealed["verdict"], unsealed["tail"]["is_authenticated"]) == ("verified", True), "the writer keys are here"
    assert cli("verify", "--url", logins.writer, "--key", lived).out.startswith("VERIFIED: ")
    assert cli("verify", "--url", logins.reader, "--key", lived).out.startswith("VERIFIED: ")


def test_migrating_twice_changes_nothing(cli: Cli, postgres_url: str) -> None:
    first = cli("migrate", "--url", postgres_url, "--json").json
    assert len(first["roles"]["made"]) == 3
    assert first["roles"]["sql"] == []
    again = cli("migrate", "--url", postgres_url, "--json").json
    assert (again["applied"], again["roles"]["made"], again["roles"]["sql"]) == ([], [], [])
    assert again["roles"]["names"] == first["roles"]["names"]
    assert cli("migrate", "--url", postgres_url).out.count("\n") == 1


def test_who_may_not_make_roles_is_told_the_sql(cli: Cli, postgres_url: str) -> None:
    with login(postgres_url) as owner, psycopg.connect(postgres_url, autocommit=True) as admin:
        user = owner.partition("://")[2].partition(":")[0]
        admin.execute(f'GRANT ALL ON SCHEMA public TO "{user}"'.encode())
        said = cli("migrate", "--url", owner).out
        assert said.count("CREATE ROLE ") == 3
        with Ledger.open(owner, seal=False) as ledger:
            assert ledger.run(call("pay", amount=1), lambda effect: 1) == 1
        told = cli("migrate", "--url", owner, "--json").json
        assert told["applied"] == []
        admin.execute("\n".join(f"{statement};" for statement in told["roles"]["sql"]).encode())
        assert cli("migrate", "--url", owner, "--json").json["roles"]["sql"] == []
        with login(postgres_url, member_of=told["roles"]["names"]["writer"]) as writer, Ledger.open(writer) as ledger:
            assert ledger.run(call("pay", amount=1), lambda effect: 2) == 1


def test_names_are_chosen_and_roles_left_out(cli: Cli, postgres_url: str, sqlite_url: str) -> None:
    def roles() -> set[Any]:
        with psycopg.connect(postgres_url) as admin:
            return {name for (name,) in admin.execute("SELECT rolname FROM pg_roles")}

    before = roles()
    assert cli("migrate", "--url", postgres_url, "--no-roles", "--json").json["roles"] is None
    assert roles() == before
    try:
        told = cli("migrate", "--url", postgres_url, "--roles", 'Ledger of "us"', "--json").json["roles"]
        assert (
            roles() - before
            == set(told["made"])
            == {f'Ledger of "us"_{role}' for role in ("writer", "eraser", "reader")}
        )
    finally:
        with psycopg.connect(postgres_url, autocommit=True) as admin:
            for role in roles() - before:
                name = '"' + role.replace('"', '""') + '"'
                admin.execute(f"DROP OWNED BY {name}; DROP ROLE {name}".encode())
    cli("migrate", "--url", postgres_url, "--roles", "x", "--no-roles", code=2)
    cli("migrate", "--url", sqlite_url, "--roles", "x", code=2)
    assert cli("migrate", "--url", sqlite_url, "--json").json["roles"] is None
