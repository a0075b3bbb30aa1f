"""A run that works for another one may use no more than that one, and a refused delegation leaves an honest record."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from indelible import Ledger, migrate
from indelible.errors import BadCall, PolicyRefused, RunRefused


@pytest.fixture
def ledger(store_url: str) -> Iterator[Ledger]:
    migrate(store_url)
    with Ledger.open(store_url, seal=False) as one:
        yield one


def test_39_a_run_that_names_its_parent_may_use_no_tool_that_the_parent_may_not(ledger: Ledger) -> None:
    ran: list[str] = []
    pay = ledger.tool("pay", side_effect="payment")(lambda: ran.append("pay"))
    wire = ledger.tool("wire", side_effect="payment")(lambda: ran.append("wire"))
    ledger.start_run("p", agent="a", allowed_tools=["pay"])
    for beyond in (["wire"], ["pay", "wire"], ["*"]):
        with pytest.raises(BadCall):
            ledger.start_run("beyond", agent="b", parent="p", allowed_tools=beyond)
    words: list[dict[str, Any]] = [{}, {"allowed_tools": ["pay"]}]
    for number, options in enumerate(words):
        child = ledger.start_run(f"kid-{number}", agent="b", parent="p", **options)
        child.call(pay)
        with pytest.raises(PolicyRefused):
            child.call(wire)
    assert ran == ["pay", "pay"]


def test_71_a_refused_delegation_leaves_a_record_that_verifies(ledger: Ledger) -> None:
    run = ledger.start_run("p", agent="a")
    ledger.start_run("stranger", agent="b")
    with pytest.raises(RunRefused) as refused:
        run.delegate("b", "e", run_id="stranger")
    assert refused.value.code == "exists"
    assert "delegation_started" not in [event.type for event in ledger.events("p")]
    assert ledger.verify_run("p").is_valid
    run.complete()


def test_71_a_delegation_that_another_process_outran_verifies_too(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = ledger.start_run("p", agent="a")
    begin = run._desk.start_run

    def outrun(child: str, **words: Any) -> Any:
        monkeypatch.undo()
        ledger.start_run(child, agent="b")
        return begin(child, **words)

    monkeypatch.setattr(run._desk, "start_run", outrun)
    with pytest.raises(RunRefused):
        run.delegate("b", "e", run_id="stranger")
    assert ledger.verify_run("p").is_valid
    assert run.delegate("b", "e", run_id="another").run.parent == "p"
    assert ledger.verify_run("p").is_valid
