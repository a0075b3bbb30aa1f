"""Group commit: many callers, one transaction, one sync of the disk.

A blocking caller who finds the writer idle writes at once, in its own thread. Whoever comes meanwhile queues up, and
the next transaction takes all of them. Asynchronous callers always leave the work to the writer's thread, so that a
disk never blocks their loop and cancelling a task cannot cut a write in half.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from queue import SimpleQueue
from types import MappingProxyType
from typing import TYPE_CHECKING

from indelible.core.commands import (
    Answer,
    ApprovalEnded,
    AwaitingApproval,
    Command,
    Decided,
    Finish,
    InDoubt,
    Moved,
    Open,
    Relinquish,
    Replayed,
    ReplayedFailure,
)
from indelible.core.effects.effect import Effect
from indelible.core.effects.identity import Ref
from indelible.core.ports import Store
from indelible.core.runs.commands import SealCheckpoint
from indelible.core.steps import next_step
from indelible.errors import Overloaded, StateNotRead, StoreError, StoreUnavailable
from indelible.forks import after_fork

if TYPE_CHECKING:
    import asyncio

log = logging.getLogger("indelible.engine")

MOST_AT_ONCE = 256
# What is fine alone must be fine together: one statement of very many bytes is refused, or not answered in time.
MOST_BYTES_AT_ONCE = 8 * 1024 * 1024
MOST_WAITING = 4096
"""Is how many commands may wait before new calls are refused. What is under way is always written."""
LONGEST_WAIT = 10.0
"""Is for how many seconds a new call waits for its turn."""
_MOVING = (Moved, InDoubt, Decided, ApprovalEnded, AwaitingApproval)


class Slot:
    """Holds one caller's command until it is answered."""

    __slots__ = ("_done", "answer", "command", "error", "future", "if_unwanted", "known", "loop", "until")

    def __init__(self, command: Command, known: Effect | None) -> None:
        self.command = command
        # A lease may have been renewed since it was seen, so only its holder may decide on a running effect as seen.
        is_usable = known is None or known.status != "processing" or isinstance(command, Finish | Relinquish)
        self.known = known if is_usable else None
        self.answer: Answer | None = None
        self.if_unwanted: Callable[[Answer], None] | None = None
        self.error: BaseException | None = None
        self.until: float | None = None
        """Is when the command is given up, if its turn has not come by then."""
        self.loop: asyncio.AbstractEventLoop | None = None
        self.future: asyncio.Future[Answer] | None = None
        self._done = threading.Lock()
        self._done.acquire()

    @property
    def is_done(self) -> bool:
        return self.answer is not None or self.error is not None

    def tell(self) -> None:
        """Lets a blocking caller go on."""
        if self.future is None:
            self._done.release()

    def wait(self) -> None:
        self._done.acquire()

    def result(self) -> Answer:
        if self.error is not None:
            raise self.error
        assert self.answer is not None
        return self.answer


class Writer:
    """Takes commands from any thread or task, writes them in batches, and answers after the commit."""

    def __init__(
        self,
        store: Store,
        publish: Callable[[Sequence[Effect]], None],
        *,
        after: Callable[[], None],
    ) -> None:
        """Publishes effects that ended; calls `after` when a batch is durable."""
        self._store = store
        self._publish = publish
        self._after = after
        self.listeners: list[Callable[[Sequence[Answer]], None]] = []
        """Hear what was just written, in the thread that wrote it; they must be quick."""
        self.unwritten: list[Callable[[Sequence[Answer]], None]] = []
        """Hear what was answered from what was known already."""
        self.replayed: list[Callable[[Open, Effect], None]] = []
        """Hear of each call that was given a recorded answer, and of which effect."""
        self._start()
        after_fork(self._start)

    def _start(self) -> None:
        self._queue: deque[Slot] = deque()
        self._busy = threading.Lock()
        self._work: SimpleQueue[None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self._is_closed = False

    def do(
        self,
        command: Command,
        known: Effect | None = None,
        if_unwanted: Callable[[Answer], None] | None = None,
    ) -> Answer:
        """Carries out a command and gives its answer; blocks until it is durable.

        A caller who is interrupted leaves its command behind, and the command is still carried out; then
        `if_unwanted` gets the answer.
        """
        answer = self.try_without_writing(command, known)
        if answer is not None:
            return answer
        slot = Slot(command, known)
        self._append(slot)
        try:
            if self._busy.acquire(blocking=False):
                self._lead(slot)
            else:
                slot.wait()
        except BaseException:
            if if_unwanted is not None:
                self.leave(slot, if_unwanted)
            raise
        return slot.result()

    def do_together(
        self, commands: Sequence[Command], known: Mapping[Ref, Effect | None] = MappingProxyType({})
    ) -> list[Answer]:
        """Carries out commands of one tenant in one transaction, all of them or none; blocks until it is durable."""
        slots = [Slot(command, known.get(command.ref)) for command in commands]
        with self._busy:
            if self._is_closed:
                raise StoreUnavailable(f"the ledger on {self._store.address} is closed; open it again")
            self._answer(slots, is_one=True)
        self._pass_on()  # whoever came meanwhile left it to us
        return [slot.result() for slot in slots]

    def leave(self, slot: Slot, if_unwanted: Callable[[Answer], None]) -> None:
        """Notes that nobody waits for a slot's answer any more; `if_unwanted` gets it, perhaps twice, in any thread."""
        slot.if_unwanted = if_unwanted
        if slot.answer is not None:
            if_unwanted(slot.answer)

    def hand_in(self, command: Command, known: Effect | None = None) -> None:
        """Queues a command whose answer nobody waits for; while we close, too: what is queued is written before."""
        self._queue.append(Slot(command, known))
        self._pass_on()

    def post(self, command: Command, known: Effect | None = None) -> Slot:
        """Queues a command for the writer's thread; the slot's future gets the answer, in the running loop.

        Whoever cancels that future leaves the command behind, and the command is still carried out.
        """
        import asyncio

        slot = Slot(command, known)
        slot.loop = asyncio.get_running_loop()
        slot.future = slot.loop.create_future()
        self._append(slot)
        if not self._busy.locked():  # whoever writes now looks at the queue again before leaving
            self._pass_on()
        return slot

    def try_without_writing(self, command: Command, known: Effect | None) -> Answer | None:
        """Answers an `Open` that needs no write: from what the caller saw last, or by a look where that is cheap."""
        if not isinstance(command, Open):
            return None
        effect, now = known, command.stamp.at
        if known is None or known.status == "processing":
            if not self._store.is_cheap_to_read:
                return None
            seen = self._store.look([command.ref])
            effect, now = seen.effects[0], seen.now
        if effect is None:
            return None
        try:
            step = next_step(command, effect, now, 0)
        except StateNotRead:  # it rests on more than the effect, which only a write reads
            return None
        if step.changes:
            return None
        for hear in self.unwritten:
            hear((step.answer,))
        if self.replayed:
            self._tell_of_replays([command], [step.answer])
        return step.answer

    def _append(self, slot: Slot) -> None:
        if self._is_closed:
            raise StoreUnavailable(f"the ledger on {self._store.address} is closed; open it again")
        if isinstance(slot.command, Open):  # everything else is about what is under way, and has to be written
            if len(self._queue) >= MOST_WAITING:
                raise self._overload(f"{MOST_WAITING} calls wait already")
            slot.until = time.monotonic() + LONGEST_WAIT
        self._queue.append(slot)

    def _overload(self, why: str) -> Overloaded:
        return Overloaded(
            f"{self._store.address}: {why}, so this one was not begun and nothing was written. Call again in a second; "
            "if that goes on, make fewer calls at once, or look why the store is slow: indelible doctor"
        )

    def _lead(self, own: Slot | None) -> None:
        """Writes until one's own command is answered; what has come in meanwhile goes to the thread, if we have one."""
        while True:
            try:
                while self._queue and not (own is not None and own.is_done):
                    self._write_batch()
            finally:
                self._busy.release()
            if not self._queue:
                return
            if own is not None and self._wake_thread():
                return
            own = None  # there is no thread: then they are ours to see to
            if not self._busy.acquire(blocking=False):
                return

    def _write_batch(self) -> None:
        self._give_up_late()
        if not self._queue:
            return
        slots = self._take()
        try:
            self._answer(slots)
        finally:
            # An interrupt belongs to the thread it hit: whoever is answered is told, and the other commands wait for
            # the next batch. Whether they were written this time does not matter, for they carry their tokens.
            unanswered = [slot for slot in slots if not slot.is_done]
            _tell([slot for slot in slots if slot.is_done])
            if unanswered:
                self._queue.extendleft(reversed(unanswered))
                self._wake_thread()

    def _give_up_late(self) -> None:
        """Refuse the calls at the head of the queue whose turn did not come in time."""
        late, now = [], time.monotonic()
        while self._queue and (until := self._queue[0].until) is not None and until < now:
            slot = self._queue.popleft()
            slot.error = self._overload(f"the turn of this call did not come in {LONGEST_WAIT:g} s")
            late.append(slot)
        _tell(late)

    def _take(self) -> list[Slot]:
        """Takes the next commands of one tenant: no transaction crosses tenants."""
        slots = [self._queue.popleft()]
        tenant = slots[0].command.ref.tenant
        size = _size_of(slots[0].command)
        while self._queue and len(slots) < MOST_AT_ONCE and self._queue[0].command.ref.tenant == tenant:
            size += _size_of(self._queue[0].command)
            if size > MOST_BYTES_AT_ONCE:
                break
            slots.append(self._queue.popleft())
        return slots

    def _answer(self, slots: list[Slot], *, is_one: bool = False) -> None:
        commands = [slot.command for slot in slots]
        tenant = commands[0].ref.tenant
        try:
            answers = self._store.apply(tenant, commands, [slot.known for slot in slots])
        except Exception as error:
            if isinstance(error, StoreError) and not isinstance(error, StateNotRead):
                for slot in slots:
                    slot.error = error if len(slots) == 1 else _copy_of(error)
                return
            if len(slots) == 1 or is_one:
                for slot in slots:
                    slot.error = error
                return
            for slot in slots:  # one command that cannot be written must not take the others with it
                self._answer([slot])
            return
        for slot, answer in zip(slots, answers, strict=True):
            slot.answer = answer
            if slot.if_unwanted is not None:
                slot.if_unwanted(answer)
        try:
            self._tell_of_writes(commands, answers)
        except Exception:  # the commit stands, so everybody in it gets the answer, whatever becomes of the news
            log.exception("what was written to %s could not be told to all who listen", self._store.address)

    def _tell_of_writes(self, commands: Sequence[Command], answers: Sequence[Answer]) -> None:
        self._after()
        for hear in self.listeners:
            hear(answers)
        if self.replayed:
            self._tell_of_replays(commands, answers)
        ended = [
            answer.effect
            for command, answer in zip(commands, answers, strict=True)
            if isinstance(answer, _MOVING) and answer.effect.updated_at == command.stamp.at
        ]
        if ended:
            self._publish(ended)

    def _tell_of_replays(self, commands: Sequence[Command], answers: Sequence[Answer]) -> None:
        for command, answer in zip(commands, answers, strict=True):
            if isinstance(answer, Replayed | ReplayedFailure) and isinstance(command, Open):
                for hear in self.replayed:
                    hear(command, answer.effect)

    def _pass_on(self) -> None:
        """Has the thread write what is queued; where there is none, writes it here."""
        if self._queue and not self._wake_thread() and self._busy.acquire(blocking=False):
            self._lead(None)

    def _wake_thread(self) -> bool:
        """Has the thread look at the queue; says no when the system has no thread left to give."""
        with self._starting:
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="indelible-writer", daemon=True)
                try:
                    thread.start()
                except RuntimeError:
                    return False
                self._thread = thread
        self._work.put(None)
        return True

    def _run(self) -> None:
        while True:
            self._work.get()
            if self._busy.acquire(blocking=False):
                self._lead(None)
            if self._is_closed and not self._queue:
                return

    def close(self) -> None:
        """Finishes what is queued and stops the thread."""
        self._is_closed = True
        with self._starting:
            thread = self._thread
        if thread is not None:
            self._work.put(None)
            thread.join()
        with self._busy:  # somebody may be writing in a thread of its own
            while self._queue:
                self._write_batch()


def _size_of(command: Command) -> int:
    """Gives how many bytes of the caller's a command brings, as far as there can be many."""
    if isinstance(command, Open):
        return len(command.args_json)
    if isinstance(command, Finish):
        return len(command.detail_json)
    return len(command.checkpoint.state_json or b"") if isinstance(command, SealCheckpoint) else 0


def _copy_of(error: StoreError) -> StoreError:
    """Gives every caller an exception of its own, since each raises it in another thread."""
    copy = type(error)(*error.args)
    copy.__cause__ = error.__cause__
    return copy


def _tell(slots: list[Slot]) -> None:
    """Lets those go on who wait for these answers."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Slot]] = {}
    for slot in slots:
        if slot.loop is None:
            slot.tell()
        else:
            by_loop.setdefault(slot.loop, []).append(slot)
    for loop, answered in by_loop.items():
        _tell_loop(loop, answered)


def _tell_loop(loop: asyncio.AbstractEventLoop, slots: list[Slot]) -> None:
    try:
        loop.call_soon_threadsafe(_resolve, slots)
    except RuntimeError:  # the loop was closed; nobody waits there any more
        return


def _resolve(slots: list[Slot]) -> None:
    for slot in slots:
        future = slot.future
        if future is None or future.done():
            continue
        if slot.error is not None:
            future.set_exception(slot.error)
        else:
            future.set_result(slot.result())
