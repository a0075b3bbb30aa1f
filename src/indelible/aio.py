"""The asynchronous ledger: the same verbs, awaited."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, Unpack

from indelible.core.commands import Begun, MayRun
from indelible.core.effects import walk
from indelible.core.effects.calls import OptionWords, ToolCall
from indelible.core.effects.effect import Actor, Claim, Effect, Outcome
from indelible.core.effects.reconciling import Reconciled, Selection
from indelible.engine.desk import check_limit
from indelible.engine.entering import Handler, OnReplay
from indelible.engine.opening import OpenedDesk
from indelible.engine.running import Compensated
from indelible.ledger import Ledger
from indelible.runs.active_aio import StartingRun

if TYPE_CHECKING:
    from indelible.runs.active import ActiveRun

P = ParamSpec("P")
R = TypeVar("R")


def _awaited(
    verb: Callable[Concatenate[Ledger, P], R],
) -> Callable[Concatenate[AsyncLedger, P], Coroutine[Any, Any, R]]:
    """Return a blocking verb as one to await: it runs in a thread, so that the loop goes on."""

    async def awaited(self: AsyncLedger, /, *args: P.args, **words: P.kwargs) -> R:
        return await asyncio.to_thread(verb, self.blocking, *args, **words)

    functools.update_wrapper(awaited, verb)
    return awaited


def _starting(verb: Callable[Concatenate[Ledger, P], ActiveRun]) -> Callable[Concatenate[AsyncLedger, P], StartingRun]:
    """Return a verb that gives a run to drive as one whose run is awaited, or entered as a block."""

    def starting(self: AsyncLedger, /, *args: P.args, **words: P.kwargs) -> StartingRun:
        return StartingRun(functools.partial(verb, self.blocking, *args, **words))

    functools.update_wrapper(starting, verb)
    return starting


class AsyncLedger(OpenedDesk):
    """Makes every tool call happen at most once, without blocking the loop.

    Calls are driven by the caller's own task. The other verbs are those of `Ledger`, in a thread.
    """

    async def __aenter__(self) -> AsyncLedger:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.close()

    async def run(
        self,
        call: ToolCall,
        handler: Handler,
        *,
        on_replay: OnReplay | None = None,
        **options: Unpack[OptionWords],
    ) -> Any:
        """Run a call at most once and return its recorded value; see `Ledger.run`."""
        return await self._engine.drive_async(self._running(call, handler, options), handler, on_replay)

    async def begin(self, call: ToolCall, **options: Unpack[OptionWords]) -> Begun:
        """Asks to execute a call by hand; only `Claimed` gives the right to, and obliges to `commit`."""
        answer: Begun = await self._engine.drive_async(self._beginning(walk.begin, call, options))
        return answer

    async def ask(self, call: ToolCall, **options: Unpack[OptionWords]) -> Begun | MayRun:
        """Asks whoever has to be asked about a call, and claims nothing: `MayRun` when nobody has to be any more."""
        answer: Begun | MayRun = await self._engine.drive_async(self._beginning(walk.ask, call, options))
        return answer

    async def commit(self, claim: Claim, outcome: Outcome | Exception) -> Any:
        """Settle a claim with `Succeeded(value)` or `Failed(error)` and return the recorded value.

        An exception of the tool is recorded as what it means for the tool, as it would be if `run` had entered it.
        """
        return await self._engine.drive_async(self._commit(claim, outcome))

    async def settle(self, effect: str | Effect, outcome: Outcome, *, by: Actor | str, evidence: str) -> Effect:
        """Tells what became of an effect in doubt, on the word of a person who looked."""
        found = await self._found(effect)
        moved: Effect = await self._engine.drive_async(self._settle(found, outcome, by, evidence))
        return moved

    async def retry(self, effect: str | Effect, *, by: Actor | str, reason: str = "retry") -> Effect:
        """Allows another attempt of an effect that failed or is in doubt; the next call makes it."""
        moved: Effect = await self._engine.drive_async(self._reopen(await self._found(effect), by, reason))
        return moved

    async def cancel(self, effect: str | Effect, *, by: Actor | str, reason: str = "canceled") -> Effect:
        """Withdraws an effect that has not been entered."""
        moved: Effect = await self._engine.drive_async(self._cancel(await self._found(effect), by, reason))
        return moved

    async def compensate(self, run_id: str) -> list[Compensated]:
        """Undo what a run's tools did, newest first, as they declare; each compensation is an effect of its own.

        The call whose last attempt started last is undone first, by the run's sequence.
        Goes on after one that fails, and says what came of each; called again, it does what is left.
        """
        desk = self._run_desk()
        found = await asyncio.to_thread(desk.compensations, run_id)
        return [await self._engine.drive_async(desk.compensating(one), one.handler) for one in found]

    async def reconcile(
        self,
        *,
        tool: str | None = None,
        run_id: str | None = None,
        effects: Iterable[str | Effect] | None = None,
        limit: int = 1000,
        dry_run: bool = False,
        each: Callable[[Reconciled], None] | None = None,
    ) -> list[Effect]:
        """Ask the tools' probes about effects in doubt, and settle those that a probe knows about.

        An abandoned effect, whose worker never reported, is called in doubt first. A tool has a probe if it was
        declared with `reconcile=` in this program.

        Args:
            tool: Only effects of this tool. `*` stands for any characters. Default: any.
            run_id: Only effects of this run. Default: any.
            effects: Only these effects, by id, key or object. Default: all in doubt.
            limit: How many effects at most, oldest first. Default: 1000.
            dry_run: Ask nothing and change nothing. Default: False.
            each: Is called with a `Reconciled` for each effect as soon as it is known. Default: None.

        Returns:
            The effects as they stand afterwards.

        Raises:
            UnknownEffect: `effects` names one that is not there.
        """
        check_limit(limit)
        settling, seen = self._settling, []
        selection = Selection(tool=tool, run_id=run_id, limit=limit)
        for effect in await asyncio.to_thread(settling.to_ask, selection, effects):
            found = (
                settling.would_ask(effect) if dry_run else await self._engine.drive_async(self._reconcile_one(effect))
            )
            if each is not None:
                each(found)
            seen.append(found.effect)
        return seen

    async def _found(self, effect: str | Effect) -> Effect:
        return await asyncio.to_thread(self._find, effect)

    close = _awaited(Ledger.close)
    heartbeat = _awaited(Ledger.heartbeat)
    settle_all = _awaited(Ledger.settle_all)
    approve = _awaited(Ledger.approve)
    deny = _awaited(Ledger.deny)
    revoke_approval = _awaited(Ledger.revoke_approval)
    edit_approval = _awaited(Ledger.edit_approval)
    get_approval = _awaited(Ledger.get_approval)
    view_approval = _awaited(Ledger.view_approval)
    elsewhere = _awaited(Ledger.elsewhere)
    approvals = _awaited(Ledger.approvals)
    delegate = _awaited(Ledger.delegate)
    end_delegation = _awaited(Ledger.end_delegation)
    delegations = _awaited(Ledger.delegations)
    grants = _awaited(Ledger.grants)
    end_grant = _awaited(Ledger.end_grant)
    apply_policy = _awaited(Ledger.apply_policy)
    policy = _awaited(Ledger.policy)
    stop = _awaited(Ledger.stop)
    go = _awaited(Ledger.go)
    stopped = _awaited(Ledger.stopped)
    record = _awaited(Ledger.record)
    record_all = _awaited(Ledger.record_all)
    checkpoint = _awaited(Ledger.checkpoint)
    end_run = _awaited(Ledger.end_run)
    get_run = _awaited(Ledger.get_run)
    runs = _awaited(Ledger.runs)
    run_story = _awaited(Ledger.run_story)
    follow_run = _awaited(Ledger.follow_run)
    checkpoints = _awaited(Ledger.checkpoints)
    verify_run = _awaited(Ledger.verify_run)
    diff_runs = _awaited(Ledger.diff_runs)
    export_packet = _awaited(Ledger.export_packet)
    take_back_run = _awaited(Ledger.take_back_run)
    import_packet = _awaited(Ledger.import_packet)
    erase = _awaited(Ledger.erase)
    prune = _awaited(Ledger.prune)
    hold = _awaited(Ledger.hold)
    lift_hold = _awaited(Ledger.lift_hold)
    holds = _awaited(Ledger.holds)
    get_effect = _awaited(Ledger.get_effect)
    find_by_key = _awaited(Ledger.find_by_key)
    effects = _awaited(Ledger.effects)
    compensations = _awaited(Ledger.compensations)
    events = _awaited(Ledger.events)
    seal = _awaited(Ledger.seal)
    tree_head = _awaited(Ledger.tree_head)
    receipt = _awaited(Ledger.receipt)
    export = _awaited(Ledger.export)
    continue_journal = _awaited(Ledger.continue_journal)
    rotate_keys = _awaited(Ledger.rotate_keys)
    revoke_key = _awaited(Ledger.revoke_key)
    start_run = _starting(Ledger.start_run)
    resume_run = _starting(Ledger.resume_run)
    fork_run = _starting(Ledger.fork_run)
