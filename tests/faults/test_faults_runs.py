"""Faults that other systems have in keeping and resuming runs, on every store through both shells."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections import Counter
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import pytest

from indelible import AsyncLedger, Ledger, migrate
from indelible.core.runs.resuming import context_content
from indelible.core.runs.run import side_effect_key
from indelible.errors import RunDriven, RunLost, RunOver, UnknownCheckpoint
from tests.chaos.procs import Child
from tests.scenarios.hands import Hand, inside, resumed, started, told
from tests.scenarios.shells import Count, Driver, Shell, charge, in_thread
from tests.waiting import PATIENCE

KEY = side_effect_key("mail", "ada", "00")
# INDELIBLE_EACH says how many events each of them writes; with 1,000 these tests take minutes.
WRITERS, EACH = 16, int(os.environ.get("INDELIBLE_EACH", "60"))
LONG = 600.0


def progress(count: int, start: int = 0) -> list[dict[str, Any]]:
    """Gives events that tell of work done."""
    numbers = range(start, start + count)
    return [{"event_type": "tool_call_finished", "payload": {"n": number}} for number in numbers]


# ── 28 ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_28_a_checkpoint_without_an_event_is_of_the_latest_one_and_verifies(ledger: Driver, shell: Shell) -> None:
    """The default checkpoint sealed the first event, so verifying failed and a healthy run was flagged (zehrava)."""
    run = started(ledger)
    for number in range(1, 6):
        assert run.record("tool_call_finished", {"n": number}).seq == 2 * number - 1
        assert run.checkpoint({"n": number}).at == 2 * number - 1
        report = ledger.verify_run("r1")
        assert report.is_valid
        assert [seal.is_valid for seal in report.seals] == [True] * number
    assert shell.open().checkpoint("r1").at == 10, "from another process too"
    run.hand_off("ben")
    assert resumed(shell.open()).context.checkpoint.at == 11
    assert ledger.get_run("r1").status == "active", "it is not flagged"


def test_28_blocked_side_effect_keys_are_a_list_over_json_and_the_documented_check_blocks(ledger: Driver) -> None:
    """`blockedSideEffectKeys` was {} over HTTP, so the documented check never blocked anything (zehrava)."""
    run = started(ledger)
    run.record("execution_succeeded", side_effect="notification", side_effect_key=KEY)
    ledger.run(charge(run_id="r1"), Count(), side_effect="payment")
    run.hand_off("ben")
    content = json.loads(json.dumps(context_content(resumed(ledger).context)))
    keys = content["blockedSideEffectKeys"]
    (effect,) = ledger.effects(run_id="r1")
    assert isinstance(keys, list)
    assert KEY in keys
    assert effect.key in keys


# ── 29 ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_29_what_happened_after_the_last_checkpoint_is_in_the_resume_context(ledger: Driver, shell: Shell) -> None:
    """Effects after the last checkpoint were missing from the context, and so were done again (zehrava)."""
    run = started(ledger)
    saved = run.checkpoint({"cursor": 0})
    paid = Count({"id": "ch_1"})
    ledger.run(charge(run_id="r1"), paid, side_effect="payment")
    run.record("execution_succeeded", side_effect="notification", side_effect_key=KEY, step="mail")
    run.artifact("s3://leads.csv", content=b"a")
    ledger.end_run("r1", "blocked", by="ada", reason="stop here")
    other = shell.open()
    again = resumed(other)
    context = again.context
    assert context.checkpoint.id == saved.id
    (effect,) = ledger.effects(run_id="r1")
    assert set(context.blocked_side_effect_keys) == {KEY, effect.key}
    assert [one.uri for one in context.artifacts] == ["s3://leads.csv"]
    assert context.current_step == "mail"
    assert other.run(charge(run_id="r1"), paid, side_effect="payment") == {"id": "ch_1"}
    assert paid.entries == 1
    words = {"side_effect": "notification", "side_effect_key": KEY}
    assert again.record("execution_succeeded", **words).status == "skipped"


def test_29_receipts_are_complete(ledger: Driver) -> None:
    """Receipts left completed work out (zehrava)."""
    run = started(ledger)
    run.record("plan_locked", {"steps": 3}, step="plan")
    run.checkpoint()
    for number in range(3):
        ledger.run(charge(run_id="r1", args={"n": number}), Count({"n": number}), side_effect="payment")
    run.record("tool_call_started")
    run.record("delegation_finished", {"run": "child"})
    run.record("execution_succeeded", side_effect="payment", side_effect_key=KEY)
    run.record("execution_succeeded", side_effect="payment", side_effect_key=KEY)  # skipped
    run.artifact("s3://leads.csv")
    run.hand_off("ben")
    receipts = resumed(ledger).context.receipts
    assert [(one.type, one.payload) for one in receipts][:4] == [
        ("plan_locked", {"steps": 3}),
        *[("tool_call_finished", {"n": number}) for number in range(3)],
    ]
    assert [one.type for one in receipts][4:] == ["delegation_finished", "execution_succeeded", "artifact_created"]


def test_29_the_checkpoint_of_another_run_is_refused(ledger: Driver) -> None:
    """Another run's checkpoint was accepted, with its state and its receipts (zehrava)."""
    theirs = started(ledger, "r2").checkpoint({"of": "r2"})
    started(ledger).hand_off("ben", state={"of": "r1"})
    for force in (False, True):
        with pytest.raises(UnknownCheckpoint):
            resumed(ledger, checkpoint=theirs.id, force=force)
    assert told(ledger)[-1] == "run_blocked"
    assert resumed(ledger).context.state == {"of": "r1"}


@pytest.mark.parametrize("racers", [2, 8])
def test_29_of_two_resumers_one_wins(ledger: Driver, shell: Shell, racers: int) -> None:
    """Two resumers both won, and both went on with the run (zehrava)."""
    drivers = [shell.open() for _ in range(racers)]
    for number in range(10):
        run_id = f"r{number}"
        started(ledger, run_id).hand_off("whoever is first")
        start = threading.Barrier(racers)

        def race(driver: Driver, run_id: str = run_id, start: threading.Barrier = start) -> Any:
            start.wait(PATIENCE)
            try:
                return resumed(driver, run_id)
            except RunDriven:
                return None

        futures = [in_thread(lambda driver=driver, race=race: race(driver)) for driver in drivers]  # type: ignore[misc]
        winners = [winner for future in futures if (winner := future.result(PATIENCE)) is not None]
        assert len(winners) == 1
        assert Counter(told(ledger, run_id))["run_resumed"] == 1
        assert winners[0].complete().status == "completed"


def test_29_a_run_of_more_than_1000_events_is_whole(ledger: Driver, shell: Shell) -> None:
    """Runs over 1,000 events broke: what came after them was not read (zehrava)."""
    run = started(ledger)
    for start in range(0, 2500, 500):
        run.record_all(progress(500, start))
    run.artifact("s3://late.csv")
    sealed = run.checkpoint({"cursor": 2500})
    assert sealed.at == 2501
    run.hand_off("ben", state={"cursor": 2500})
    other = shell.open()
    context = resumed(other).context
    assert [one.payload["n"] for one in context.receipts[:-1]] == list(range(2500))
    assert [one.uri for one in context.artifacts] == ["s3://late.csv"]
    assert context.state == {"cursor": 2500}
    report = other.verify_run("r1")
    assert report.is_valid
    assert report.events == len(told(other)) == 2506


class CountingStore:
    """Is the real store, and counts what is read of it."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.reads = 0
        self.rows = 0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if name not in ("events", "payloads", "sheets", "effects"):
            return found

        def counted(*args: Any, **words: Any) -> Any:
            answer = found(*args, **words)
            self.reads += 1
            self.rows += len(answer)
            return answer

        return counted


def cost_of(driver: Driver, verb: Callable[[], Any]) -> CountingStore:
    """Counts what a verb reads."""
    store = driver.engine.store
    driver.engine.store = counting = CountingStore(store)
    try:
        verb()
    finally:
        driver.engine.store = store
    return counting


def test_29_verifying_and_resuming_read_each_event_once(ledger: Driver) -> None:
    """Verifying was quadratic: each checkpoint read the whole run again (zehrava)."""
    costs = {}
    for size in (500, 2000):
        run = started(ledger, f"r{size}")
        for start in range(0, size, 50):
            run.record_all(progress(50, start))
            run.checkpoint({"cursor": start})
        verified = cost_of(ledger, lambda size=size: ledger.verify_run(f"r{size}"))  # type: ignore[misc]
        run.hand_off("ben")
        continued = cost_of(ledger, lambda size=size: resumed(ledger, f"r{size}"))  # type: ignore[misc]
        costs[size] = (verified, continued)
    for small, large in zip(costs[500], costs[2000], strict=True):
        assert large.rows <= 4.2 * small.rows, "four times the events, four times the reading"
        assert large.rows <= 3 * 2000, "an event, what it commits to, and little else"
        assert large.reads <= 4 * small.reads


# ── 30 ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def assert_dense(ledger: Driver, writers: int, each: int, run_id: str = "r1") -> None:
    """Says that every event of every writer is there once, in the order of its writer, without a gap."""
    seen: list[Any] = []
    story = ledger.run_story(run_id, each=seen.append)
    assert [event.seq for event in seen] == list(range(writers * each + 1))
    assert story.broken is None
    by_writer: dict[int, list[int]] = {}
    for event in seen[1:]:
        by_writer.setdefault(event.payload["writer"], []).append(event.payload["n"])
    assert by_writer == {writer: list(range(each)) for writer in range(writers)}


@pytest.mark.timeout(LONG)
def test_30_no_event_of_16_threads_is_lost(ledger: Driver) -> None:
    """28 of 800 events were lost with 4 writers, for the next number was the highest one plus one (zehrava)."""
    run = started(ledger)

    def write(writer: int) -> list[int]:
        return [run.record("tool_call_finished", {"n": n, "writer": writer}).seq for n in range(EACH)]

    async def write_async(writer: int) -> list[int]:
        active = run.active
        told = [await active.record("tool_call_finished", {"n": n, "writer": writer}) for n in range(EACH)]
        return [one.seq for one in told]

    if isinstance(run, Hand):
        loop = ledger.loop  # type: ignore[attr-defined]
        futures = [asyncio.run_coroutine_threadsafe(write_async(writer), loop) for writer in range(WRITERS)]
    else:
        futures = [in_thread(lambda writer=writer: write(writer)) for writer in range(WRITERS)]  # type: ignore[misc]
    seqs = [seq for future in futures for seq in future.result(LONG)]
    assert sorted(seqs) == list(range(1, WRITERS * EACH + 1)), "each writer was told a number of its own"
    assert_dense(ledger, WRITERS, EACH)


def write_elsewhere(line: Connection, kind: str, url: str, tenant: str, writer: int) -> list[int]:
    """Is a process that records its events one by one, as it does, or a few together."""
    driver = Shell(kind, url).open(tenant=tenant, seal=False)
    line.send("ready")
    line.recv()
    seqs: list[int] = []
    n = 0
    while n < EACH:
        many = 1 if n % 100 < 10 else 10
        numbers = range(n, min(n + many, EACH))
        events = [{"event_type": "tool_call_finished", "payload": {"n": i, "writer": writer}} for i in numbers]
        seqs += [one.seq for one in driver.record_all("r1", events)]
        n += len(events)
    driver.end()
    return seqs


@pytest.mark.timeout(LONG)
def test_30_no_event_of_16_processes_is_lost(ledger: Driver, shell: Shell) -> None:
    """Events of several processes overwrote or refused each other, and nobody was told (zehrava)."""
    started(ledger)
    children = [Child(write_elsewhere, shell.kind, shell.url, shell.tenant, writer) for writer in range(WRITERS)]
    try:
        assert {child.hear(LONG) for child in children} == {"ready"}
        for child in children:
            child.tell("go")
        seqs = [seq for child in children for seq in child.result(LONG)]
    finally:
        for child in children:
            child.__exit__(None, None, None)
    assert sorted(seqs) == list(range(1, WRITERS * EACH + 1))
    assert_dense(ledger, WRITERS, EACH)


def test_30_events_of_one_agent_with_two_runs_go_to_the_run_they_are_of(ledger: Driver) -> None:
    """Events went to the newest active run of the agent, whichever run they were of (zehrava)."""
    runs = {name: started(ledger, name, agent="scout") for name in ("older", "newer")}

    def write(name: str) -> None:
        for n in range(25):
            runs[name].record("tool_call_finished", {"n": n, "writer": name})
            ledger.record(name, "plan_locked", {"n": n, "writer": name})
            ledger.run(charge(run_id=name, args={"n": n}), Count({"writer": name}))

    for future in [in_thread(lambda name=name: write(name)) for name in runs]:  # type: ignore[misc]
        future.result(PATIENCE * 4)
    for name in runs:
        seen: list[Any] = []
        ledger.run_story(name, each=seen.append)
        assert {one.payload["writer"] for one in seen if one.is_progress} == {name}
        assert sum(one.is_progress for one in seen) == 75


def test_30_calls_in_the_blocks_of_two_runs_at_once_belong_to_their_own(ledger: Driver) -> None:
    """A tool that named no run was booked on the newest active run of its agent (zehrava)."""

    @ledger.tool(side_effect="none", dedupe="args")
    def note(text: str) -> str:
        return text

    both_inside = threading.Barrier(2)

    def block(name: str) -> None:
        def body(run: Any) -> None:
            both_inside.wait(PATIENCE)
            for n in range(20):
                ledger.call(note, f"{name} {n}")

        inside(ledger, body, run_id=name)

    for future in [in_thread(lambda name=name: block(name)) for name in ("a", "b")]:  # type: ignore[misc]
        future.result(PATIENCE * 4)
    for name in ("a", "b"):
        assert {effect.args["text"].split()[0] for effect in ledger.effects(run_id=name)} == {name}
        assert len(ledger.effects(run_id=name)) == 20
    assert {run.status for run in ledger.runs()} == {"completed"}


# ── A process that gave its run away ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("how", ["hand_off", "release", "cancel", "complete", "fail"])
@pytest.mark.parametrize("is_taken", [False, True])
def test_who_gave_a_run_away_makes_no_call_in_its_block(ledger: Driver, shell: Shell, how: str, is_taken: bool) -> None:
    handler = Count()

    def body(run: Any) -> None:
        ledger.run(charge(run_id="r1"), handler)
        getattr(run, how)(*{"hand_off": ["ben"], "fail": ["broken"]}.get(how, []))
        if is_taken and how not in ("cancel", "complete"):
            resumed(shell.open())
        with pytest.raises(RunLost if is_taken and how not in ("cancel", "complete") else RunOver):
            ledger.run(charge(run_id="r1", args={"amount": 6}), handler)
        assert ledger.run(charge(run_id="r1"), handler) == "done", "what was done replays"

    inside(ledger, body)
    assert handler.entries == 1
    ledger.run(charge(run_id="r1", args={"amount": 7}), handler)
    assert handler.entries == 2, "after the block it is one that calls by the run's id, as workers do"


@pytest.mark.parametrize("raising", [["plan"], ["plan", "mail"]])
def test_10_turns_at_once_of_which_some_are_asked_again_have_their_answers_in_a_resumed_run(
    store_url: str, raising: list[str]
) -> None:
    """The number of a turn that raised beside others was lost, so a later question got the answer to another one."""
    migrate(store_url)
    asked: list[str] = []

    async def agent(run: Any, left: list[str]) -> list[Any]:
        begun, over = asyncio.Event(), asyncio.Event()

        async def model(request: Any) -> str:
            asked.append(request["q"])
            if len(asked) > 1:
                begun.set()
            if request["q"] in left:
                left.remove(request["q"])
                await begun.wait()  # the other one is under way
                raise ConnectionError("429")
            return f"answer to {request['q']}"

        async def ask(q: str) -> Any:
            try:
                return await run.model_turn("gpt", {"q": q}, call=model)
            except ConnectionError:
                if q == "plan" and "mail" in raising:
                    await over.wait()  # the second one that raised is asked again first
            answer = await run.model_turn("another", {"q": q}, call=model)
            over.set()
            return answer

        return [*await asyncio.gather(ask("plan"), ask("mail")), await ask("whom")]

    async def scenario() -> None:
        expected = ["answer to plan", "answer to mail", "answer to whom"]
        async with AsyncLedger.open(store_url, seal=False) as ledger:
            run = await ledger.start_run("order-1", agent="billing")
            assert await agent(run, list(raising)) == expected
            await run.release()
            before = len(asked)
            async with await ledger.resume_run("order-1") as again:
                assert await agent(again, []) == expected
            assert len(asked) == before, "every answer was on the record"

    asyncio.run(scenario())


def test_10_turns_of_threads_have_numbers_of_their_own(store_url: str) -> None:
    migrate(store_url)
    with Ledger.open(store_url, seal=False) as ledger, ledger.start_run("order-1", agent="billing") as run:
        both = threading.Barrier(2)
        seen: list[str] = []

        def model(request: Any) -> str:
            if request["q"] not in seen:
                seen.append(request["q"])
                both.wait(PATIENCE)
                raise ConnectionError("429")
            return f"answer to {request['q']}"

        def ask(q: str) -> Any:
            with pytest.raises(ConnectionError):
                run.model_turn("gpt", {"q": q}, call=model)
            return run.model_turn("gpt", {"q": q}, call=model)

        with run.executor(2) as threads:
            assert list(threads.map(ask, ["a", "b"])) == ["answer to a", "answer to b"]
        assert sorted(one.args["turn"] for one in ledger.effects(tool="model.turn")) == [1, 2]
