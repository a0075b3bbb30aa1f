"""Fault 43: the current run was lost or mixed up silently, so two orders got one refund, or one order the other's."""

from __future__ import annotations

import asyncio
import contextvars
import os
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indelible import AsyncLedger, Ledger, ToolCall, current_effect, current_run
from indelible.errors import BadCall, NoRun
from indelible.server.gateway import Gateway
from indelible.server.gateway_tools import load_tools
from tests.scenarios.shells import Count, Driver, Shell, prepare_store
from tests.server.serving import serve_believing

EXAMPLES = int(os.environ.get("INDELIBLE_INTERLEAVINGS", "60"))


@pytest.fixture
def ledger(shell: Shell) -> Driver:
    """A ledger that names no run."""
    return shell.open(run=None)


def refund_of(ledger: Any, **words: Any) -> Any:
    """Makes the tool of these tests: it gives the run that its call is recorded in."""

    def refund(amount: int) -> str:
        effect = current_effect()
        assert effect is not None
        return effect.run_id

    async def refund_async(amount: int) -> str:
        return refund(amount)

    refund_async.__name__ = "refund"
    return ledger.tool(**words)(refund_async if isinstance(ledger, AsyncLedger) else refund)


def runs_of(ledger: Driver) -> list[str]:
    """Names the runs of all recorded effects, by name."""
    return sorted(effect.run_id for effect in ledger.effects())


# ── A call with effects names its run ────────────────────────────────────────────────────────────────────────────────


def test_43_a_call_with_effects_and_no_run_is_refused_and_recorded_nowhere(ledger: Driver) -> None:
    """Calls outside any run were one call for ever, in the run `default`."""
    refund, count = refund_of(ledger.ledger), Count()
    call = ToolCall(tool="charge", args={"amount": 5})
    for door in (
        lambda: ledger.call(refund, 5),
        lambda: ledger.run(call, count),
        lambda: ledger.begin(call),
        lambda: ledger.ask(call),
        lambda: ledger.key_of(call),
        lambda: ledger.run(call, count, side_effect="payment"),
    ):
        with pytest.raises(NoRun) as refused:
            door()
        assert refused.value.code == "no_run"
        assert isinstance(refused.value, BadCall)
    assert (count.entries, runs_of(ledger)) == (0, [])


def test_43_the_nearest_name_of_a_run_counts(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INDELIBLE_RUN", "of the environment")
    bare, named = shell.open(run=None), shell.open(run="of the ledger")
    refund = refund_of(named.ledger)
    assert bare.call(refund_of(bare.ledger), 1) == "of the environment"
    assert named.call(refund, 2) == "of the ledger"
    assert in_block(named, refund, "of the block") == "of the block"
    assert in_block(named, named.in_run("of the handle").bind(refund), "of the block") == "of the handle"
    named.run(ToolCall(tool="own", run_id="its own"), Count())
    assert "its own" in runs_of(named)
    with pytest.raises(BadCall):
        shell.open(run="indelible:mine")


def in_block(ledger: Driver, tool: Callable[..., Any], run: str) -> Any:
    """Calls a tool inside the block of a run."""

    def called(amount: int) -> Any:
        with ledger.in_run(run):
            return tool(amount)

    return ledger.call(called, 1)


def test_43_a_call_with_a_scope_may_go_without_a_run(ledger: Driver) -> None:
    refund = refund_of(ledger.ledger, scope="once for all orders")
    assert [ledger.call(refund, 5), ledger.call(refund, 5)] == ["unnamed", "unnamed"]
    assert runs_of(ledger) == ["unnamed"]


@pytest.mark.parametrize("side_effect", ["none", "read"])
def test_43_what_has_no_effects_may_go_without_a_run_and_runs_anew(ledger: Driver, side_effect: Any) -> None:
    """The answer of a read outside any run was that of its first call, for ever."""
    count = Count()
    for _ in range(2):
        ledger.run(ToolCall(tool="balance", args={"account": "a-1"}), count, side_effect=side_effect)
    assert (count.entries, runs_of(ledger)) == (2, ["unnamed", "unnamed"])


def test_43_what_a_handler_calls_is_in_the_handlers_run_or_in_none(ledger: Driver) -> None:
    blocking = ledger.ledger.blocking

    def inner(*given: Any) -> Any:
        return blocking.run(ToolCall(tool="inner", args={}), lambda effect: effect.run_id)

    assert ledger.run(ToolCall(tool="outer", run_id="order-1"), inner) == "order-1"
    with pytest.raises(NoRun):
        ledger.run(ToolCall(tool="scoped", scope="everywhere"), inner)
    outer = blocking.tool("nested")(inner_of(inner))
    handle = ledger.in_run("order-2")
    assert in_block(ledger, lambda amount: handle.call(outer), "order-3") == "order-2", "nearer than the block"


def inner_of(function: Callable[..., Any]) -> Callable[[], Any]:
    """Makes a function without parameters."""

    def nested() -> Any:
        return function()

    return nested


# ── Over HTTP ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_43_over_http_a_call_with_effects_and_no_run_is_422(
    store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INDELIBLE_RUN", "what the server was started with names no client's run")
    tools = tmp_path / "tools.toml"
    tools.write_text(
        "[tools.pay]\npython = 'tests.server.test_gateway:book'\nside_effect = 'payment'\n"
        "[tools.look]\npython = 'tests.server.test_gateway:book'\nside_effect = 'read'\n"
    )
    prepare_store(store_url)
    served = serve_believing(store_url, gateway=Gateway(load_tools(tools)))
    headers = {"Authorization": "Bearer %22acme%22"}
    try:
        with httpx2.Client(base_url=served.url, headers=headers) as client:
            for path, body in (
                ("/v1/effects", {"tool": "charge", "args": {"amount": 5}}),
                ("/v1/effects", {"tool": "charge", "args": {"amount": 5}, "side_effect": "payment"}),
                ("/v1/tools/pay/calls", {"args": {"amount": 5}}),
            ):
                refused = client.post(path, json=body)
                assert (refused.status_code, refused.json()["code"]) == (422, "no_run"), path
                assert refused.json()["type"].endswith("no-run")
            for path, body in (
                ("/v1/effects", {"tool": "charge", "scope": "everywhere"}),
                ("/v1/effects", {"tool": "balance", "side_effect": "read"}),
                ("/v1/effects", {"tool": "charge", "run_id": "order-1"}),
                ("/v1/tools/look/calls", {"args": {}}),
                ("/v1/tools/pay/calls", {"args": {"amount": 5}, "run_id": "order-1"}),
            ):
                begun = client.post(path, json=body)
                assert begun.status_code in (200, 201), begun.text
            found = client.get("/v1/effects").json()["effects"]
            assert sorted(effect["run_id"] for effect in found) == ["order-1"] * 2 + ["unnamed"] * 3
    finally:
        served.stop()


# ── Threads and executors ────────────────────────────────────────────────────────────────────────────────────────────


def test_43_a_plain_thread_does_not_fall_into_another_run(ledger: Driver) -> None:
    """`ThreadPoolExecutor.submit(tool)` inside `in_run` fell into `default`: two orders got one refund."""
    refund = refund_of(ledger.ledger)
    with ThreadPoolExecutor(1) as threads:
        for order in ("order-1", "order-2"):
            with ledger.in_run(order):
                given = threads.submit(ledger.call, refund, 5)
            with pytest.raises(NoRun):
                given.result()
    assert runs_of(ledger) == []


@pytest.mark.parametrize("kind", ["in_run", "start_run", "resume_run"])
def test_43_a_handle_carries_its_run_anywhere(ledger: Driver, kind: str) -> None:
    blocking = ledger.ledger.blocking
    refund = refund_of(blocking)
    if kind == "in_run":
        run: Any = blocking.in_run("order-1")
    else:
        run = blocking.start_run("order-1", agent="support")
        if kind == "resume_run":
            run.release()
            run = blocking.resume_run("order-1")
    with blocking.in_run("order-2"), ThreadPoolExecutor(1) as plain:
        assert run.call(refund, 1) == run.bind(refund)(2) == "order-1"
        assert plain.submit(run.bind(refund), 3).result() == "order-1"
        with run.executor(2) as threads:
            assert threads.submit(refund, 4).result() == "order-1"
            assert list(threads.map(refund, [5, 6])) == ["order-1"] * 2
            assert threads.submit(current_run).result() == "order-1"
        assert current_run() == "order-2", "nothing around was touched"
    with pytest.raises(BadCall):
        run.call(lambda: None)


@pytest.mark.anyio
@pytest.mark.parametrize("kind", ["in_run", "start_run", "resume_run"])
async def test_43_a_handle_carries_its_run_into_tasks_and_threads(store_url: str, kind: str) -> None:
    async with AsyncLedger.open(prepare_store(store_url), seal=False) as ledger:
        refund, blocking = refund_of(ledger), refund_of_blocking(ledger)
        if kind == "in_run":
            run: Any = ledger.in_run("order-1")
        else:
            run = await ledger.start_run("order-1", agent="support")
            if kind == "resume_run":
                await run.release()
                run = await ledger.resume_run("order-1")
        with ledger.in_run("order-2"):
            assert await run.call(refund, 1) == await run.bind(refund)(2) == "order-1"
            assert await asyncio.to_thread(run.bind(blocking), 3) == "order-1"
            with run.executor(2) as threads:
                loop = asyncio.get_running_loop()
                assert await loop.run_in_executor(threads, blocking, 4) == "order-1"
            assert await asyncio.to_thread(blocking, 5) == "order-2"
            assert await asyncio.create_task(refund(6)) == "order-2"
        late: list[asyncio.Task[Any]] = []

        async def called_late(go_on: asyncio.Event) -> Any:
            await go_on.wait()
            return await refund(7), await asyncio.to_thread(blocking, 8)

        with ledger.in_run("order-4"):
            go_on = asyncio.Event()
            with ledger.in_run("order-3"):
                late.append(asyncio.create_task(called_late(go_on)))
            go_on.set()
            assert await late[0] == ("order-3", "order-3"), "a task keeps the run that it was begun in"


def refund_of_blocking(ledger: AsyncLedger) -> Any:
    """Makes a blocking tool of the same ledger."""
    return ledger.blocking.tool("refund_blocking")(refund_of(ledger.blocking, name="unused").__wrapped__)


# ── Generators ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_43_a_generator_carries_its_run_by_hand_and_never_enters_it(ledger: Driver) -> None:
    refund = refund_of(ledger.ledger.blocking)

    def ambient(run: str) -> Iterator[str]:
        with ledger.in_run(run):
            yield refund(1)

    def order(run: str) -> Iterator[str]:
        handle = ledger.in_run(run)
        yield handle.call(refund, 1)
        yield handle.call(refund, 2)

    with pytest.raises(NoRun):
        next(ambient("order-1"))
    first, second = order("order-1"), order("order-2")
    assert (next(first), next(second), next(first)) == ("order-1", "order-2", "order-1")
    first.close()
    assert next(second) == "order-2"
    assert current_run() is None
    with ledger.in_run("order-3"):
        assert (refund(3), next(order("order-4"))) == ("order-3", "order-4")
    assert runs_of(ledger) == ["order-1", "order-1", "order-2", "order-2", "order-3", "order-4"]


@pytest.mark.anyio
async def test_43_an_async_generator_carries_its_run_by_hand_and_never_enters_it(store_url: str) -> None:
    """Two interleaved async generators recorded A's call in run B, and B stayed current after both were closed."""
    async with AsyncLedger.open(prepare_store(store_url), seal=False) as ledger:
        refund = refund_of(ledger)

        async def ambient(run: str) -> AsyncIterator[str]:
            with ledger.in_run(run):
                yield await refund(1)

        async def started(run: str) -> AsyncIterator[str]:
            async with ledger.start_run(run, agent="support"):
                yield await refund(1)

        async def stacked(run: str) -> AsyncIterator[str]:
            async with AsyncExitStack() as stack:
                await entered_elsewhere(stack, ledger.in_run(run))
                yield await refund(1)

        async def order(run: str) -> AsyncIterator[str]:
            handle = ledger.in_run(run)
            yield await handle.call(refund, 1)
            yield await handle.call(refund, 2)

        for generator in (ambient, started, stacked):
            with pytest.raises(NoRun):
                await anext(generator("order-0"))
            assert current_run() is None
        first, second = order("order-1"), order("order-2")
        assert (await anext(first), await anext(second), await anext(first)) == ("order-1", "order-2", "order-1")
        with ledger.in_run("order-3"):
            assert (await refund(3), await anext(second)) == ("order-3", "order-2")
        assert current_run() is None
        with pytest.raises(NoRun):
            await refund(3)


async def entered_elsewhere(stack: AsyncExitStack, run: Any) -> None:
    """Enters a run that stays entered when this has returned."""
    stack.enter_context(run)


@pytest.mark.anyio
async def test_43_tasks_that_share_a_context_do_not_enter_runs_beside_each_other(store_url: str) -> None:
    async with AsyncLedger.open(prepare_store(store_url), seal=False) as ledger:
        refund, is_in, may_go = refund_of(ledger), asyncio.Event(), asyncio.Event()

        async def first() -> str:
            with ledger.in_run("order-1"):
                is_in.set()
                await may_go.wait()
                return str(await refund(1))

        async def second() -> None:
            with ledger.in_run("order-2"):
                await refund(2)

        shared = contextvars.copy_context()
        one = asyncio.create_task(first(), context=shared)
        await is_in.wait()
        with pytest.raises(NoRun):
            await asyncio.create_task(second(), context=shared)
        may_go.set()
        assert await one == "order-1"


def test_43_a_block_that_is_left_in_another_context_leaves_no_run_behind(ledger: Driver) -> None:
    refund = refund_of(ledger.ledger.blocking)
    stack = ExitStack()
    stack.enter_context(ledger.in_run("order-1"))
    assert refund(1) == "order-1"
    contextvars.copy_context().run(stack.close)
    assert current_run() is None
    with pytest.raises(NoRun):
        refund(2)


def test_43_a_context_manager_of_ones_own_around_a_run_is_no_generator(ledger: Driver) -> None:
    refund = refund_of(ledger.ledger.blocking)

    @contextmanager
    def work_on(order: str) -> Iterator[None]:
        with ledger.in_run(order):
            yield

    with work_on("order-1"), ThreadPoolExecutor(1) as threads:
        assert refund(1) == "order-1"
        assert threads.submit(contextvars.copy_context().run, refund, 2).result() == "order-1"
    with ExitStack() as stack:
        stack.enter_context(work_on("order-2"))
        assert refund(3) == "order-2"


# ── The property ─────────────────────────────────────────────────────────────────────────────────────────────────────

Style = Literal["with", "class", "manager", "stack", "helper"]


@dataclass(frozen=True)
class Call:
    """Calls a tool: here, or in a thread that has a copy of this context."""

    is_in_thread: bool


@dataclass(frozen=True)
class Pause:
    """Gives way to others: a generator yields, a task sleeps."""


@dataclass(frozen=True)
class Spawn:
    """Begins a task, with a copy of this context."""

    steps: tuple[Any, ...]


@dataclass(frozen=True)
class Block:
    """Is the block of a run."""

    run: str
    style: Style
    steps: tuple[Any, ...]


@dataclass(frozen=True)
class Resume:
    """Lets a generator go on, here or in a copy of this context."""

    which: int
    is_in_copy: bool


@dataclass(frozen=True)
class Close:
    """Ends a generator: here, in another thread or task, or by leaving it to the garbage collector."""

    which: int
    where: Literal["here", "elsewhere", "collector"]


RUNS = st.sampled_from(["A", "B", "C"])
STYLES = st.sampled_from(["with", "class", "manager", "stack", "helper"])
CALLS = st.builds(Call, st.booleans())


def blocks_of(leaf: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    """Generates steps, and blocks of steps in them."""
    steps = st.lists(leaf, max_size=4).map(tuple)
    for _ in range(2):
        steps = st.lists(leaf | st.builds(Block, RUNS, STYLES, steps), max_size=4).map(tuple)
    return steps


BODIES = blocks_of(CALLS | st.just(Pause()))
DRIVERS = blocks_of(
    CALLS
    | st.builds(Resume, st.integers(0, 2), st.booleans())
    | st.builds(Close, st.integers(0, 2), st.sampled_from(["here", "elsewhere", "collector"]))
    | st.builds(Spawn, BODIES)
)


class OwnManager:
    """Enters a run from a class, as programs do that have more to enter."""

    def __init__(self, run: Any) -> None:
        self._run = run

    def __enter__(self) -> None:
        self._run.__enter__()

    def __exit__(self, *error: object) -> None:
        self._run.__exit__(None, None, None)


@contextmanager
def managed(run: Any) -> Iterator[None]:
    """Enters a run from a context manager of one's own."""
    with run:
        yield


class Stack(ExitStack):
    """Is entered by hand: a run that stays entered when the function that entered it has returned."""

    def hold(self, run: Any) -> None:
        self.enter_context(run)


class Witness:
    """Calls tools, and checks of each call that it was recorded in the run that its own code named."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self._number = 0
        self.tool = refund_of(ledger)

    def call(self, named: str | None, is_in_thread: bool, handle: Any = None) -> None:
        self._check(named, self._entry(handle), in_copy if is_in_thread else called)

    async def call_async(self, named: str | None, is_in_thread: bool, handle: Any = None) -> None:
        entry = self._entry(handle)
        if not is_in_thread:
            return self._check(named, entry, called)
        return await asyncio.to_thread(self._check, named, entry, called)

    def _entry(self, handle: Any) -> Callable[[], Any]:
        self._number += 1
        return partial(self.tool if handle is None else handle.bind(self.tool), self._number)

    def _check(self, named: str | None, entry: Callable[[], Any], how: Callable[[Callable[[], Any]], Any]) -> None:
        if named is None:
            with pytest.raises(NoRun):
                how(entry)
        else:
            assert how(entry) == named


def called(entry: Callable[[], Any]) -> Any:
    """Calls a function here."""
    return entry()


def in_copy(entry: Callable[[], Any]) -> Any:
    """Calls a function in a thread, with a copy of this context."""
    return in_fresh_thread(partial(contextvars.copy_context().run, entry))


def in_fresh_thread(entry: Callable[[], Any]) -> Any:
    """Calls a function in a thread, where no run is current."""
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(entry).result()


def entered_by(stack: Stack, run: Any, style: Style) -> Any:
    """Gives what enters a run in this style, to be written after `with`."""
    match style:
        case "class":
            return OwnManager(run)
        case "manager":
            return managed(run)
        case "helper" | "stack":
            return stack
        case _:
            return run


class Actors:
    """Are generators that a program drives; where a generator names no run, that of its driver counts."""

    def __init__(self, witness: Witness, bodies: list[tuple[Any, ...]]) -> None:
        self.witness = witness
        self.driver: str | None = None
        self.running: dict[int, Any] = {number: self.generator(steps) for number, steps in enumerate(bodies)}

    def generator(self, steps: tuple[Any, ...], handle: Any = None) -> Iterator[None]:
        for step in steps:
            match step:
                case Call():
                    self.witness.call(self.driver if handle is None else handle.id, step.is_in_thread, handle)
                case Pause():
                    yield
                case Block():
                    run = self.witness.ledger.in_run(step.run)
                    with pytest.raises(NoRun), Stack() as stack, entered_by(stack, run, step.style):
                        stack.enter_context(run) if step.style == "stack" else stack.hold(run)
                    self.work(tuple(one for one in step.steps if isinstance(one, Call)), step.run, step.style)
                    yield from self.generator(step.steps, run)

    def work(self, steps: tuple[Any, ...], named: str, style: Style) -> None:
        """Works in a block of its own, below a generator: it ends before the generator is suspended."""
        if style in ("stack", "helper"):
            style = "with"
        with entered_by(Stack(), self.witness.ledger.in_run(named), style):
            for step in steps:
                self.witness.call(named, step.is_in_thread)

    def drive(self, steps: tuple[Any, ...], named: str | None) -> None:
        for step in steps:
            match step:
                case Call():
                    self.witness.call(named, step.is_in_thread)
                case Resume() if step.which in self.running:
                    self.driver = named
                    go_on = partial(next, self.running[step.which], None)
                    contextvars.copy_context().run(go_on) if step.is_in_copy else go_on()
                case Close() if step.which in self.running:
                    ended = [self.running.pop(step.which)]
                    if step.where != "collector":
                        (in_fresh_thread if step.where == "elsewhere" else called)(ended[0].close)
                    ended.clear()
                case Block():
                    run = self.witness.ledger.in_run(step.run)
                    with Stack() as stack, entered_by(stack, run, step.style):
                        if step.style == "stack":
                            stack.enter_context(run)
                        elif step.style == "helper":
                            stack.hold(run)
                        self.drive(step.steps, step.run)


@pytest.fixture(scope="module")
def memory() -> Iterator[Ledger]:
    """A ledger in memory: what is asked is which run a call is recorded in."""
    with Ledger.open(":memory:", seal=False) as ledger:
        yield ledger


@settings(max_examples=EXAMPLES)
@given(bodies=st.lists(BODIES, min_size=3, max_size=3), driver=DRIVERS)
def test_43_whatever_is_interleaved_each_call_is_in_the_run_that_its_own_code_named(
    memory: Ledger, bodies: list[tuple[Any, ...]], driver: tuple[Any, ...]
) -> None:
    def whole() -> None:
        actors = Actors(Witness(memory), bodies)
        actors.drive(driver, None)
        for number in sorted(actors.running, reverse=True):
            actors.running.pop(number).close()
        assert current_run() is None, "no run stays current"

    in_fresh_thread(whole)


class AsyncActors:
    """The same of async generators, and of tasks that they are beside."""

    def __init__(self, witness: Witness, bodies: list[tuple[Any, ...]]) -> None:
        self.witness = witness
        self.driver: str | None = None
        self.tasks: list[asyncio.Task[None]] = []
        self.running: dict[int, Any] = {number: self.generator(steps) for number, steps in enumerate(bodies)}

    async def generator(self, steps: tuple[Any, ...], handle: Any = None) -> AsyncIterator[None]:
        for step in steps:
            match step:
                case Call():
                    named = self.driver if handle is None else handle.id
                    await self.witness.call_async(named, step.is_in_thread, handle)
                case Pause():
                    yield
                case Block():
                    run = self.witness.ledger.in_run(step.run)
                    with pytest.raises(NoRun), Stack() as stack, entered_by(stack, run, step.style):
                        stack.enter_context(run) if step.style == "stack" else stack.hold(run)
                    await self.task(step.steps, step.run)
                    async for _ in self.generator(step.steps, run):
                        yield

    async def task(self, steps: tuple[Any, ...], named: str | None) -> None:
        for step in steps:
            match step:
                case Call():
                    await self.work(step, named)
                case Pause():
                    await asyncio.sleep(0)
                case Block():
                    with managed(self.witness.ledger.in_run(step.run)):
                        await self.task(step.steps, step.run)

    async def work(self, step: Call, named: str | None) -> None:
        if named is None:
            await self.witness.call_async(None, step.is_in_thread)
            return
        with self.witness.ledger.in_run(named):
            await self.witness.call_async(named, step.is_in_thread)

    async def drive(self, steps: tuple[Any, ...], named: str | None) -> None:
        for step in steps:
            match step:
                case Call():
                    await self.witness.call_async(named, step.is_in_thread)
                case Spawn():
                    self.tasks.append(asyncio.create_task(self.spawned(step.steps, named)))
                case Resume() if step.which in self.running:
                    self.driver = named
                    going_on = self.go_on(step.which)
                    await (asyncio.create_task(going_on) if step.is_in_copy else going_on)
                case Close() if step.which in self.running:
                    ended = [self.running.pop(step.which)]
                    if step.where != "collector":
                        ending = ended[0].aclose()
                        await (asyncio.create_task(ending) if step.where == "elsewhere" else ending)
                    ended.clear()
                    await asyncio.sleep(0)
                case Block():
                    run = self.witness.ledger.in_run(step.run)
                    with Stack() as stack, entered_by(stack, run, step.style):
                        if step.style == "stack":
                            stack.enter_context(run)
                        elif step.style == "helper":
                            stack.hold(run)
                        await self.drive(step.steps, step.run)

    async def spawned(self, steps: tuple[Any, ...], named: str | None) -> None:
        await self.witness.call_async(named, is_in_thread=True)
        await self.task(steps, named)

    async def go_on(self, which: int) -> None:
        await anext(self.running[which], None)


@settings(max_examples=EXAMPLES)
@given(bodies=st.lists(BODIES, min_size=3, max_size=3), driver=DRIVERS)
def test_43_whatever_async_is_interleaved_each_call_is_in_the_run_that_its_own_code_named(
    memory: Ledger, bodies: list[tuple[Any, ...]], driver: tuple[Any, ...]
) -> None:
    async def whole() -> None:
        actors = AsyncActors(Witness(memory), bodies)
        await actors.drive(driver, None)
        await asyncio.gather(*actors.tasks)
        for number in sorted(actors.running, reverse=True):
            await actors.running.pop(number).aclose()
        assert current_run() is None, "no run stays current"

    asyncio.run(whole())
