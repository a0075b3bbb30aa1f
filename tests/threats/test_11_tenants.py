"""Threat 11: a token reaches further than its scope, or a statement that forgot its WHERE shows another tenant's rows.

Every endpoint with every wrong credential is in `tests/server/test_access.py`. Here is the second wall, and what a
token of an agent could do by the store's own protocol beyond what an agent may.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from indelible import Actor, Claimed, Ledger, Succeeded, ToolCall
from indelible.core.effects.walk import begin
from indelible.core.sheets import SheetFilter
from indelible.errors import ApprovalPending, BadCall, IllegalMove, KeyUnusable, Misconfigured, NotPermitted, OnHold
from indelible.journal.erasures.erasing import Eraser
from indelible.stores import make_roles, migrate, open_store, secure_rows
from tests.postgres import login
from tests.threats.exposed import Exposed

TABLES = ("runs", "effects", "events", "payloads", "pending", "sheets", "trees", "leaves", "tiles", "heads")
ROOT = Actor("root")


# The second wall


@pytest.fixture
def walled(postgres_url: str) -> Iterator[str]:
    """Gives the address of a secured ledger for a plain writer, who is neither superuser nor owner."""
    migrate(postgres_url)
    secure_rows(postgres_url)
    secure_rows(postgres_url)  # twice is once
    with login(postgres_url, member_of=make_roles(postgres_url).names["writer"]) as plain:
        yield plain


def pay(number: int) -> ToolCall:
    return ToolCall(run_id="r", tool="pay", args={"n": number})


def test_a_statement_without_its_where_shows_no_row_of_another_tenant(walled: str) -> None:
    for tenant in ("acme", "globex"):
        with Ledger.open(walled, tenant=tenant, keys=None, seal=False) as ledger:
            assert ledger.run(pay(1), lambda effect: effect.args) == {"n": 1}
    with psycopg.connect(walled, autocommit=True) as connection:
        for table in TABLES:
            assert connection.execute(f"SELECT count(*) FROM indelible_{table}").fetchone() == (0,), "nobody is said"
        connection.execute("SELECT set_config('indelible.tenant', 'acme', false)")
        assert connection.execute("SELECT DISTINCT tenant FROM indelible_effects").fetchall() == [("acme",)]
        assert connection.execute("SELECT DISTINCT tenant FROM indelible_payloads").fetchall() == [("acme",)]
        assert connection.execute("UPDATE indelible_effects SET status = 'failed'").rowcount == 1
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("INSERT INTO indelible_runs VALUES ('globex', 'r2', 1, '')")
    with Ledger.open(walled, tenant="globex", seal=False) as other:
        assert [effect.status for effect in other.effects()] == ["succeeded"]


def test_without_the_wall_the_same_statement_shows_everything(postgres_url: str) -> None:
    """So it is the wall that the test above sees."""
    migrate(postgres_url)
    for tenant in ("acme", "globex"):
        with Ledger.open(postgres_url, tenant=tenant, seal=False) as ledger:
            ledger.run(pay(1), lambda effect: 1)
    with psycopg.connect(postgres_url) as connection:
        assert connection.execute("SELECT count(DISTINCT tenant) FROM indelible_effects").fetchone() == (2,)


def test_one_store_works_for_many_tenants_behind_the_wall(walled: str, tmp_path: Path) -> None:
    store = open_store(walled)
    try:
        ledgers = {
            tenant: Ledger.open(store=store, tenant=tenant, seal=False, keys=tmp_path) for tenant in ("acme", "globex")
        }
        for number in range(3):
            for tenant, ledger in ledgers.items():
                assert ledger.run(pay(number), lambda effect, tenant=tenant: tenant) == tenant
                with pytest.raises(RuntimeError):
                    ledger.run(pay(100 + number), _failing)
                question = _ask(ledger, number)
                ledger.approve(question, digest=ledger.get_approval(question).digest, by=ROOT)
                asked = ToolCall(run_id="r", tool="ask", args={"n": number})
                assert ledger.run(asked, lambda effect: 7, approval="required") == 7
        for tenant, ledger in ledgers.items():
            ledger.seal()
            assert {effect.tenant for effect in ledger.effects()} == {tenant}
            assert len(ledger.effects()) == 9
            assert ledger.tree_head() is not None
    finally:
        store.close()


def _ask(ledger: Ledger, number: int) -> str:
    with pytest.raises(ApprovalPending) as pending:
        ledger.run(ToolCall(run_id="r", tool="ask", args={"n": number}), lambda effect: 1, approval="required", wait=0)
    return pending.value.approval.id


def _failing(effect: Any) -> None:
    raise RuntimeError("declined")


def test_a_pooler_that_shares_connections_is_refused_behind_the_wall(walled: str) -> None:
    with pytest.raises(Misconfigured, match="row-security"):
        open_store(f"{walled}{'&' if '?' in walled else '?'}pooler=transaction")


# What an agent's token does not reach


@pytest.fixture(scope="module")
def exposed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Exposed]:
    folder = tmp_path_factory.mktemp("scopes")
    found = Exposed(f"sqlite:///{folder / 'ledger.db'}", keys=folder / "keys")
    yield found
    found.close()


def test_a_run_that_was_set_aside_is_not_forced_open_by_an_agent(exposed: Exposed) -> None:
    with Ledger.open(exposed.url, token=exposed.tokens["agent"]) as ledger:
        with ledger.start_run("aside", agent="billing") as run:
            run.checkpoint(state={"at": 1})
        with pytest.raises(NotPermitted, match="admin"):
            ledger.resume_run("aside", force=True)
    body = {"token": "t" * 16, "lease_s": 30, "force": True}
    assert exposed.post("/v1/runs/aside/resume", body).status_code == 403
    assert exposed.post("/v1/runs/aside/resume", {**body, "force": False}).status_code != 403


def test_agents_drive_their_runs_though_none_sees_the_others_hash(exposed: Exposed) -> None:
    with (
        Ledger.open(exposed.url, token=exposed.tokens["agent"]) as one,
        Ledger.open(exposed.url, token=exposed.tokens["other-agent"]) as other,
        one.start_run("driven", agent="billing", lease=timedelta(seconds=5)) as run,
    ):
        theirs = other._engine.store.sheets("acme", _driver())[0].read()["token_hash"]
        real = exposed.store.sheets("acme", _driver())[0].read()["token_hash"]
        assert theirs != real
        assert one._runs is not None
        keeping = one._runs.keeping
        assert keeping.keep_driving("driven", real, timedelta(seconds=30))
        with pytest.raises(NotPermitted, match="somebody else's"):
            keeping.keep_driving("driven", theirs, timedelta(seconds=30))
        with pytest.raises(NotPermitted, match="somebody else's"):
            keeping.let_go("driven", theirs)
        run.record("artifact_created", {"path": "x"})


def _driver() -> Any:
    return SheetFilter(kind="driver", id="driven", limit=1)


def test_nobody_erases_from_afar_what_is_on_hold_or_still_needed(exposed: Exposed, monkeypatch: Any) -> None:
    with Ledger.open(exposed.store.address, tenant="acme", seal=False) as own:
        own.run(ToolCall(run_id="held", tool="t", args={"n": 1}), lambda effect: 1)
        hold = own.hold(run_id="held", by=ROOT, reason="court")
        waiting = own.begin(ToolCall(run_id="needed", tool="t", args={"n": 1}))
        assert isinstance(waiting, Claimed)
        with Ledger.open(exposed.url, token=exposed.tokens["admin"]) as admin:
            # A client that does not ask its own rules, as somebody could write one.
            monkeypatch.setattr(Eraser, "_check_hold", lambda *words: None)
            monkeypatch.setattr("indelible.journal.erasures.erasable.why_needed", lambda effect: None)
            with pytest.raises(OnHold, match=hold.id):
                admin.erase(run_id="held", by=ROOT, reason="I like to")
            monkeypatch.undo()
            with pytest.raises(IllegalMove, match="handler may be running"):
                admin.erase(run_id="needed", by=ROOT, reason="I like to")
            own.lift_hold(hold.id, by=ROOT, reason="over")
            own.commit(waiting.claim, Succeeded(1))
            assert admin.erase(run_id="held", by=ROOT, reason="now").count > 0
            assert admin.erase(run_id="needed", by=ROOT, reason="now").count > 0


def test_which_key_a_ledger_is_redacted_with_is_not_for_an_agent_to_say(exposed: Exposed, tmp_path: Path) -> None:
    words: Any = {"redact": ["args.card"], "keys": tmp_path}
    call = ToolCall(run_id="redacted", tool="t", args={"card": "4111111111111111"})
    with (
        Ledger.open(exposed.url, token=exposed.tokens["agent"], **words) as agent,
        pytest.raises(KeyUnusable, match="administrator"),
    ):
        agent.run(call, lambda effect: 1)
    with Ledger.open(exposed.url, token=exposed.tokens["admin"], **words) as admin:
        assert admin.run(call, lambda effect: 1) == 1
    with Ledger.open(exposed.url, token=exposed.tokens["agent"], **words) as agent:
        assert agent.run(call, lambda effect: 2) == 1


def test_an_approval_is_not_bound_to_a_digest_that_the_agent_made_up(exposed: Exposed) -> None:
    with Ledger.open(exposed.url, token=exposed.tokens["agent"]) as ledger:
        prepared = ledger._prepare(pay(1))
        forged = replace(prepared, identity=replace(prepared.identity, digest="ab" * 32))
        with pytest.raises(BadCall, match="digest: is not that of this tool"):
            ledger._engine.drive(begin(forged, ledger._mint))
