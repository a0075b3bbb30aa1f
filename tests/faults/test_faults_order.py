"""Faults in the order of a run's calls: it comes from the run's sequence, never from ids or clocks."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from indelible import Approval, AsyncLedger, Ledger, MayHaveHappened, Succeeded
from indelible.engine import mint
from indelible.errors import ApprovalPending
from indelible.integrations.calling_again import OPEN, meant
from tests.scenarios.shells import charge, prepare_store

FAMILIES, AT_ONCE = 334, 64
"""Each family has a run, an equal copy of it, and a copy in which one call is another: 1,002 runs."""
TOOLS = ("book", "pay", "mail")
Calls = list[tuple[str, int]]


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop the clock: all ids begin with one time, so that their order is chance."""
    now = datetime.now(UTC)
    monkeypatch.setattr(mint, "time", SimpleNamespace(time_ns=lambda: int(now.timestamp() * 1e9)))
    monkeypatch.setattr(mint, "datetime", SimpleNamespace(now=lambda _: now))


@pytest.fixture
def ledger(store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ledger]:
    """Open a ledger whose clock runs backwards: each id sorts before the ones that were made earlier."""
    start, ticks = datetime.now(UTC), count(1)
    earlier = SimpleNamespace(now=lambda _: start - timedelta(milliseconds=next(ticks)))
    monkeypatch.setattr(mint, "time", SimpleNamespace(time_ns=lambda: int(earlier.now(UTC).timestamp() * 1e9)))
    monkeypatch.setattr(mint, "datetime", earlier)
    with Ledger.open(
        prepare_store(store_url, tmp_path / "keys"), tenant="acme", keys=tmp_path / "keys", seal=True
    ) as opened:
        yield opened


class Shop:
    """Has tools that can be undone, and notes in which order they are."""

    def __init__(self, ledger: Ledger | AsyncLedger) -> None:
        self.undone: dict[str, list[int]] = {}
        self.ledger = ledger
        self.tools: dict[str, Any] = {name: self._tool(name) for name in TOOLS}

    def _tool(self, name: str) -> Any:
        def entered(n: int) -> int:
            return n

        async def awaited(n: int) -> int:
            return n

        declare = self.ledger.tool(name, side_effect="payment", compensate=self._undo)
        return declare(awaited if isinstance(self.ledger, AsyncLedger) else entered)

    def _undo(self, effect: Any) -> None:
        self.undone.setdefault(effect.run_id, []).append(effect.args["n"])


def family(chance: random.Random) -> tuple[Calls, int, Calls]:
    """Draw the calls of a run, the place of one of them, and the calls of a run in which that one is another."""
    calls = [(chance.choice(TOOLS), n) for n in chance.sample(range(100), chance.randint(2, 3))]
    place = chance.randrange(len(calls))
    tool, n = calls[place]
    return calls, place, [*calls[:place], (tool, n + 100), *calls[place + 1 :]]


async def check_family(ledger: AsyncLedger, shop: Shop, number: int) -> None:
    """Make three runs, compare them, and undo them."""
    calls, place, other = family(random.Random(number))
    names = {f"run-{number}": calls, f"copy-{number}": calls, f"other-{number}": other}
    for run_id, made in names.items():
        with ledger.in_run(run_id):
            for tool, n in made:
                await shop.tools[tool](n=n)
    run, copy, changed = names
    assert [one.kind for one in await ledger.diff_runs(run, copy)] == ["same"] * len(calls)
    found = await ledger.diff_runs(run, changed)
    assert [at for at, one in enumerate(found) if one.kind != "same"] == [place]
    assert (found[place].kind, len(found)) == ("changed", len(calls))
    for run_id, made in names.items():
        done = await ledger.compensate(run_id)
        newest_first = [n for _, n in reversed(made)]
        assert [one.effect.args["n"] for one in done] == shop.undone[run_id] == newest_first


def test_97_1000_runs_within_one_millisecond_keep_the_order_of_their_calls(store_url: str, stopped: None) -> None:
    """Of 300 pairs of runs 30 were compared wrongly, and 2 of 100 runs were undone out of order."""

    async def checked() -> None:
        async with AsyncLedger.open(prepare_store(store_url), seal=False) as ledger:
            shop = Shop(ledger)
            for first in range(0, FAMILIES, AT_ONCE):
                numbers = range(first, min(first + AT_ONCE, FAMILIES))
                await asyncio.gather(*(check_family(ledger, shop, number) for number in numbers))

    asyncio.run(checked())


# ── a clock that runs backwards ──────────────────────────────────────────────────────────────────────────────────────


def called(shop: Shop, n: int, run_id: str = "r1", tool: str = "pay") -> None:
    with shop.ledger.in_run(run_id):
        shop.tools[tool](n=n)


def asked(ledger: Ledger, n: int, run_id: str = "r1", tool: str = "pay") -> Approval:
    """Ask whether a call may run."""
    with pytest.raises(ApprovalPending) as pending:
        ledger.run(charge(run_id=run_id, tool=tool, args={"n": n}), lambda _: n, approval="required", wait=False)
    return pending.value.approval


def approved(ledger: Ledger, approval: Approval, n: int) -> None:
    """Approve a call, and make it."""
    ledger.approve(approval.id, digest=approval.digest, by="ada")
    call = charge(run_id=approval.run_id, tool=approval.tool, args={"n": n})
    ledger.run(call, lambda effect: effect.args["n"], approval="required")


def in_doubt(ledger: Ledger, n: int) -> Any:
    """Make a call whose answer is lost."""

    def lost(_: Any) -> None:
        raise MayHaveHappened("line cut")

    with pytest.raises(MayHaveHappened):
        ledger.run(charge(run_id="r1", tool="pay", args={"n": n}), lost)
    (effect,) = ledger.effects(run_id="r1", status="in_doubt")
    return effect


def undone(shop: Shop, run_id: str = "r1") -> list[int]:
    shop.ledger.compensate(run_id)
    return shop.undone[run_id]


def test_97_a_call_that_waited_for_approval_is_undone_by_when_it_ran(ledger: Ledger) -> None:
    shop = Shop(ledger)
    called(shop, 1)
    waiting = asked(ledger, 2)
    called(shop, 3)
    approved(ledger, waiting, 2)
    called(shop, 4)
    assert undone(shop) == [4, 2, 3, 1]


def test_97_a_call_that_waited_for_approval_is_compared_by_when_it_was_made(ledger: Ledger) -> None:
    """Also if the approver edited its arguments, which commits to them anew."""
    shop = Shop(ledger)
    for n, tool in enumerate(TOOLS):
        called(shop, n, "straight", tool)
    waiting = asked(ledger, 0, "edited", "book")
    called(shop, 1, "edited", "pay")
    edited = ledger.edit_approval(waiting.id, {"n": 9}, digest=waiting.digest, by="ada")
    called(shop, 2, "edited", "mail")
    ledger.approve(edited.id, digest=edited.digest, by="bob")
    approved_call = charge(run_id="edited", tool="book", args={"n": 0})
    ledger.run(approved_call, lambda effect: effect.args["n"], approval="required")
    found = ledger.diff_runs("straight", "edited")
    assert [(one.kind, one.right and one.right.tool) for one in found] == [
        ("changed", "book"), ("same", "pay"), ("same", "mail"),
    ]  # fmt: skip
    assert undone(shop, "edited") == [9, 2, 1]


def test_97_a_call_that_was_settled_later_is_undone_by_when_it_ran(ledger: Ledger) -> None:
    shop = Shop(ledger)
    doubt = in_doubt(ledger, 1)
    called(shop, 2)
    ledger.settle(doubt.id, Succeeded(1), by="ada", evidence="the provider has it")
    assert undone(shop) == [2, 1]


def test_97_a_call_that_was_retried_is_undone_by_when_it_ran_last(ledger: Ledger) -> None:
    shop = Shop(ledger)
    doubt = in_doubt(ledger, 1)
    for n in (2, 3):
        called(shop, n)
    ledger.retry(doubt.id, by="ada", reason="it never arrived")
    called(shop, 1)
    assert undone(shop) == [1, 3, 2]


def test_97_a_fork_is_compared_in_the_order_of_its_origin(ledger: Ledger) -> None:
    shop = Shop(ledger)
    for run_id in ("r1", "r2"):
        ledger.start_run(run_id, agent="scout")
        for n in (1, 2, 3):
            called(shop, n, run_id)
    ledger.fork_run("r1", new_id="f1", dry_run=False)
    for run_id in ("f1", "r2"):
        called(shop, 4, run_id)
    assert [one.kind for one in ledger.diff_runs("f1", "r2")] == ["same"] * 4


def test_97_a_packet_carries_the_order_to_another_ledger(ledger: Ledger, tmp_path: Path) -> None:
    ledger.start_run("r1", agent="scout")
    shop = Shop(ledger)
    waiting = asked(ledger, 1)
    for n in (2, 3):
        called(shop, n)
    approved(ledger, waiting, 1)
    with Ledger.open(f"sqlite:///{tmp_path / 'there.db'}", tenant="acme", seal=False) as there:
        packet = ledger.export_packet("r1", to=there.journal_name)
        there.import_packet(packet, trust=True)
        assert undone(Shop(there)) == [1, 3, 2]


def test_97_open_approvals_are_told_in_the_order_in_which_they_were_asked(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger.start_run("r1", agent="scout").hand_off("ben")
    questions = [asked(ledger, n) for n in (1, 2)]
    monkeypatch.undo()  # the clock is set right: the newest id is the largest one, too
    questions.append(asked(ledger, 3))
    first = questions[0]
    edited = ledger.edit_approval(first.id, {"n": 9}, digest=first.digest, by="ada")
    context = ledger.resume_run("r1").context
    assert context is not None
    assert [one.id for one in context.unresolved_approvals] == [edited.id, questions[1].id, questions[2].id]


def test_97_the_question_before_is_the_one_that_was_asked_before(ledger: Ledger) -> None:
    questions = [asked(ledger, n) for n in (1, 2, 3)]
    previous = [ledger.view_approval(one.id).previous for one in questions]
    assert [one and one.id for one in previous] == [None, questions[0].id, questions[1].id]


def test_97_the_newest_checkpoint_is_the_one_that_was_sealed_last(ledger: Ledger) -> None:
    run = ledger.start_run("r1", agent="scout")
    sealed = [run.checkpoint({"n": n}).id for n in (1, 2, 3)]
    assert [one.id for one in ledger.checkpoints("r1")] == sealed[::-1]
    keeping = ledger._run_desk().keeping
    assert [one.id for one in keeping.checkpoints("r1", sealed[2], 1)] == [sealed[1]], "page by page too"


def test_97_a_model_that_calls_again_means_the_call_that_was_made_first(ledger: Ledger) -> None:
    for call_id in ("one", "two"):
        ledger.begin(charge(run_id="r1", call_id=call_id, dedupe="call"), approval="required")
    found = [effect for status in OPEN for effect in ledger.effects(run_id="r1", status=status)]
    assert meant(ledger, charge(run_id="r1", call_id="three", dedupe="call"), {}, found).call_id == "one"


def test_48_a_model_that_calls_again_means_the_call_that_was_edited(ledger: Ledger) -> None:
    """By what it said first, and by what an approver made of that; this is the rule of every gate that goes by ids."""
    call = charge(run_id="r1", call_id="one", dedupe="call")
    ledger.begin(call, approval="required")
    (question,) = ledger.approvals(status="pending")
    edited = ledger.edit_approval(question.id, {"amount": 4}, digest=question.digest, by="ada")
    ledger.approve(edited.id, digest=edited.digest, by="bob")
    found = [effect for status in OPEN for effect in ledger.effects(run_id="r1", status=status)]
    for args in ({"amount": 5}, {"amount": 4}):
        assert meant(ledger, replace(call, args=args, call_id="two"), {}, found).call_id == "one"
    assert meant(ledger, replace(call, args={"amount": 6}, call_id="two"), {}, found).call_id == "two"
    ran: list[Any] = []
    again = meant(ledger, replace(call, call_id="two"), {}, found)
    ledger.run(again, lambda effect: ran.append(effect.args), approval="required")
    assert ran == [{"amount": 4}]


def test_97_ids_of_one_process_sort_as_they_were_made() -> None:
    """Else a list of approvals showed those of one millisecond in an order of chance."""
    source = mint.SystemMint()
    made = [source.effect_id() for _ in range(200)]
    assert made == sorted(made)
    assert {len(one) for one in made} == {len("eff_") + 28}
