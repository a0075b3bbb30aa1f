"""Fault 95: erasing a person left what models were told and said, and a subject for all tools stopped other tools."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

import indelible
from indelible import Ledger, ToolCall
from indelible.errors import BadCall
from indelible.integrations.langchain_callbacks import CallbackConfig, LedgerCallbackHandler

CANARY = "CANARY-ada-lovelace"


@pytest.fixture
def ledger(store_url: str) -> Iterator[Ledger]:
    indelible.migrate(store_url)
    with Ledger.open(store_url, tenant=f"t-{uuid4().hex[:8]}", seal=True, subject="args.customer_id") as opened:
        yield opened


def values(ledger: Ledger, run_id: str) -> bytes:
    """Return all payloads of a run."""
    seqs = [event.seq for event in ledger.events(run_id)]
    return b"".join(payload.value for payload in ledger._engine.store.payloads(ledger.tenant, run_id, seqs))


def refund(ledger: Ledger, run_id: str, customer: str = "ada") -> None:
    call = ToolCall(tool="refund", args={"customer_id": customer, "note": CANARY}, run_id=run_id)
    ledger.run(call, lambda effect: {"ok": CANARY}, side_effect="write")


def turn(run: Any) -> None:
    run.model_turn("gpt", {"messages": [f"refund {CANARY}"]}, call=lambda request: f"I refund {CANARY}")


def test_95_erasing_a_person_erases_what_models_were_asked_and_said_in_their_runs(ledger: Ledger) -> None:
    for run_id, customer in (("order-1", "ada"), ("order-2", "bob")):
        with ledger.start_run(run_id, agent="billing") as run:
            turn(run)
            refund(ledger, run_id, customer)
            turn(run)
    rehearsed = ledger.erase(subject="ada", by="ana", reason="request of 3 May", dry_run=True)
    assert CANARY.encode() in values(ledger, "order-1"), "a rehearsal erases nothing"
    report = ledger.erase(subject="ada", by="ana", reason="request of 3 May")
    assert dict(rehearsed.erased) == dict(report.erased) == {"order-1": report.count}
    assert CANARY.encode() not in values(ledger, "order-1")
    assert CANARY.encode() in values(ledger, "order-2"), "nobody asked to forget bob"
    assert any("model turns" in remark for remark in report.remarks)
    assert report.kept == ()
    assert ledger.verify_run("order-1").is_valid


def test_95_events_of_langchains_callbacks_go_with_the_person_they_are_about(ledger: Ledger, tmp_path: Path) -> None:
    from langchain_core.language_models import FakeListChatModel

    config = CallbackConfig(
        session_id="order-1", mode="strict", keep="values", spool=tmp_path / "spool", agent_id="billing"
    )
    handler = LedgerCallbackHandler(ledger, config=config)
    with handler.session("order-1"):
        FakeListChatModel(responses=[f"I refund {CANARY}"]).invoke(f"refund {CANARY}", config={"callbacks": [handler]})
        refund(ledger, "order-1")
    assert "callback.model_invoked" in [event.type for event in ledger.events("order-1")]
    assert values(ledger, "order-1").count(CANARY.encode()) >= 4
    ledger.erase(subject="ada", by="ana", reason="request of 3 May")
    assert CANARY.encode() not in values(ledger, "order-1")


def test_95_what_is_kept_of_a_persons_run_is_said_with_the_next_command(ledger: Ledger) -> None:
    with ledger.start_run("order-1", agent="billing") as run:
        refund(ledger, "order-1")
        run.record("acme.note", {"about": CANARY})
        ledger.run(
            ToolCall(tool="mail", args={"text": CANARY}, run_id="order-1"), lambda effect: 1, side_effect="write"
        )
        run.checkpoint({"memory": CANARY})
    report = ledger.erase(subject="ada", by="ana", reason="request of 3 May")
    (kept,) = report.kept
    assert (kept.run_id, kept.effect_id) == ("order-1", None)
    assert "indelible erase --run order-1" in kept.why
    assert report.count > 0
    assert ledger.erase(run_id="order-1", by="ana", reason="request of 3 May").kept == ()
    assert CANARY.encode() not in values(ledger, "order-1")


def test_95_turns_in_a_run_about_somebody_on_hold_are_kept_and_said(ledger: Ledger) -> None:
    with ledger.start_run("order-1", agent="billing") as run:
        turn(run)
        refund(ledger, "order-1", "ada")
        refund(ledger, "order-1", "bob")
    ledger.hold(subject="bob", by="ana", reason="case 7")
    report = ledger.erase(subject="ada", by="ana", reason="request")
    assert [one.why.startswith("hold ") for one in report.kept] == [True]
    assert CANARY.encode() in values(ledger, "order-1")


def test_95_a_subject_of_the_ledger_is_optional_for_each_tool_and_one_of_a_tool_is_not(ledger: Ledger) -> None:
    @ledger.tool(side_effect="write")
    def weather(city: str) -> str:
        return "sunny"

    @ledger.tool(side_effect="write", subject="args.about.patient")
    def prescribe(drug: str, **about: str) -> str:
        return drug

    @ledger.tool(side_effect="write")
    def charge(customer_id: str) -> str:
        return customer_id

    with ledger.in_run("order-1"):
        assert weather(city="Oslo") == "sunny"
        assert charge(customer_id="ada") == "ada"
        with pytest.raises(BadCall):
            prescribe(drug="x")
    assert ledger.erase(subject="ada", by="ana", reason="x").count > 0


def test_95_a_langchain_agent_works_in_a_ledger_with_a_subject_for_all_tools(ledger: Ledger) -> None:
    with ledger.start_run("order-1", agent="billing") as run:
        turn(run)
    assert ledger.get_run("order-1").status == "completed"  # type: ignore[union-attr]
