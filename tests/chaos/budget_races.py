"""Many processes and threads that spend from the same budgets, while some of them fail, hang, are stopped and die.

What was spent is a file outside, a line for each time with its moment. In no stretch of a budget's length may it hold
more than the budget allows. When everything has come to an end, nothing may be reserved any more.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from contextlib import ExitStack
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Literal

from indelible import Effect, Failed, MayHaveHappened, NothingHappened, Refused, Succeeded
from indelible.errors import IllegalMove
from tests.chaos import mutants, procs
from tests.chaos.approval_subject import Office, Petition, Place, Rules
from tests.chaos.budget_oracle import LIMITS, MANY, SPENT, judge, read_spent, unbalanced
from tests.chaos.clerks import Clerk, Clerks
from tests.chaos.procs import Child
from tests.chaos.report import Job, Order, Report
from tests.chaos.subject import Terms

# A question lapses while its caller looks at it, now and then.
RULES = Rules(limits=LIMITS, expires=0.05)
TERMS = Terms(lease=0.3, wait=5.0)
PROCESSES = 4
THREADS = 4
TICK = 0.05
# A process is killed, or stopped for longer than its lease, in so many of the ticks.
KILLS = 0.12
STOPS = 0.05
CALLS = "calls.log"
BIGGEST = 9

Fate = Literal["spend", "spend slowly", "fail", "nothing", "doubt before", "doubt after"]
# Many take a while, so that others fail and give back while something is reserved.
FATES: tuple[Fate, ...] = (
    "spend", "spend", "spend slowly", "spend slowly", "fail", "fail", "nothing", "doubt before", "doubt after",
)  # fmt: skip
# What becomes of a call that has to be asked about.
Ending = Literal["approve", "deny", "cancel", "lapse"]
ENDINGS: tuple[Ending, ...] = ("approve", "approve", "deny", "cancel", "lapse")


class HandlerFailed(Refused):
    """Is raised by a handler before it has done anything."""


def race_for_budgets(order: Order) -> Report:
    """Makes as many calls as ordered, refused ones included; points are calls."""
    report = Report("budget-races", order)
    where = order.where / f"{order.label}-budgets"
    place = Place(
        url=order.bench.lay_out(where),
        tenant=f"{order.label}-budgets",
        world=where / "world",
        terms=TERMS,
        mutant=order.mutant,
    )
    place.world.mkdir(parents=True)
    with Clerks(place, RULES, 1) as clerks:
        _run_crew(place, order, clerks.all[0], report)
        clerks.all[0].do(end_everything)
    report.points = _size(place.world / CALLS)
    violations, spent = procs.ask(judge, place)
    report.notes["spent"] = spent
    report.add(violations)
    return report.finish()


def _run_crew(place: Place, order: Order, clerk: Clerk, report: Report) -> None:
    """Keeps spenders at work, and kills or stops one now and then, until enough calls were made."""
    rng = random.Random(order.seed)
    gone: set[str] = set()
    with ExitStack() as exits:
        crew = [exits.enter_context(Worker(place, f"p{number}")) for number in range(PROCESSES)]
        while _size(place.world / CALLS) < order.points and not report.is_done:
            time.sleep(TICK)
            clerk.do(settle_what_is_known, gone)
            report.add(clerk.do(unbalanced))
            worker, chance = rng.choice(crew), rng.random()
            if chance < KILLS:
                worker.kill()
                gone.add(worker.name)
                crew.remove(worker)
                crew.append(exits.enter_context(Worker(place, f"p{PROCESSES + len(gone)}")))
                report.note("killed")
            elif chance < KILLS + STOPS:
                worker.stop()
                report.note("stopped")
        for worker in crew:
            worker.finish()


class Worker:
    """One process that spends; it can be killed, or stopped for longer than its lease."""

    def __init__(self, place: Place, name: str) -> None:
        self.name = name
        self._child = Child(spend, place, name)
        # By a clock of its own: a process that stands still may hold a lock that everybody else waits for.
        self._waking: threading.Timer | None = None

    def stop(self) -> None:
        """Lets it stand still for a while."""
        self._wake()
        self._child.signal(signal.SIGSTOP)
        self._waking = threading.Timer(2 * TERMS.lease, self._child.signal, [signal.SIGCONT])
        self._waking.start()

    def _wake(self) -> None:
        if self._waking is not None:
            self._waking.cancel()
            self._waking.join()
            self._waking = None
            self._child.signal(signal.SIGCONT)

    def kill(self) -> None:
        """Ends it at once."""
        self._wake()
        self._child.kill()

    def finish(self) -> None:
        """Lets it bring its last calls to an end."""
        self._wake()
        self._child.tell("enough")
        self._child.result()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if error is not None:
            self.kill()


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


# Spending


def spend(line: Connection, place: Place, name: str) -> None:
    """Makes calls in several threads until it is told that it is enough."""
    mutants.plant(place.mutant)
    is_enough = threading.Event()
    with Office(place, RULES) as office:
        spender = Spender(office)
        threads = [
            threading.Thread(target=spender.go, args=(f"{name}-{number}", is_enough)) for number in range(THREADS)
        ]
        for thread in threads:
            thread.start()
        line.recv()
        is_enough.set()
        for thread in threads:
            thread.join()


class Spender:
    """Makes one call after the other, each with a fate of its own."""

    def __init__(self, office: Office) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_DSYNC | os.O_CLOEXEC
        self._office = office
        self._has_spent: set[str] = set()
        self._spent = os.open(office.world.path / SPENT, flags, 0o600)
        self._calls = os.open(office.world.path / CALLS, flags, 0o600)

    def go(self, name: str, is_enough: threading.Event) -> None:
        """Calls until it is enough; whoever is refused lets others have a turn."""
        rng = random.Random(name)
        number = 0
        while not is_enough.is_set():
            number += 1
            os.write(self._calls, b".")
            petition = Petition(
                name=f"{name}-{number}",
                run_id=name,
                amount=rng.randint(1, BIGGEST),
                is_unasked=rng.random() < 0.8,
            )
            if self._call(petition, rng.choice(FATES), rng.choice(ENDINGS)) == "over_budget":
                is_enough.wait(rng.uniform(0, 0.12))

    def _call(self, petition: Petition, fate: Fate, ending: Ending) -> str:
        office = self._office
        answer = office.call(petition, wait=0, inside=lambda effect: self._act(petition, fate))
        if answer.kind == "pending":
            self._end(petition, ending)
            answer = office.call(petition, wait=0, inside=lambda effect: self._act(petition, fate))
        if answer.kind in ("foreign", "in_doubt", "lease_lost"):
            settle(office, petition, has_spent=petition.name in self._has_spent)
        return answer.kind

    def _end(self, petition: Petition, ending: Ending) -> None:
        if ending == "lapse":
            threading.Event().wait(RULES.expires)
        else:
            self._office.act(ending, self._office.newest(petition), "ana")

    def _act(self, petition: Petition, fate: Fate) -> None:
        if fate == "fail":
            raise HandlerFailed(petition.name)
        if fate == "nothing":
            raise NothingHappened(petition.name)
        if fate == "doubt before":
            raise MayHaveHappened(petition.name)
        if fate == "spend slowly":
            threading.Event().wait(0.08)
        self._has_spent.add(petition.name)
        os.write(self._spent, f"{time.time():.6f} {petition.name} {petition.amount}\n".encode())
        if fate == "doubt after":
            raise MayHaveHappened(petition.name)


def settle(office: Office, petition: Petition, *, has_spent: bool) -> None:
    """Says what became of a call of one's own that is in doubt."""
    for effect in office.ledger.effects(run_id=petition.run_id, limit=3):
        if effect.args["call"] == petition.name and effect.status in ("in_doubt", "processing"):
            _settle(office, effect, has_spent=has_spent)


def _settle(office: Office, effect: Effect, *, has_spent: bool) -> None:
    outcome = Succeeded({"call": effect.args["call"]}) if has_spent else Failed("nothing was spent")
    try:
        office.ledger.settle(effect, outcome, by="ana", evidence="what was spent")
    except IllegalMove:
        return  # somebody else has


# Clearing up


def settle_what_is_known(office: Office, gone: set[str]) -> None:
    """Settles what is in doubt by what was spent: what was not, only if its process is dead and cannot any more."""
    office.ledger.reconcile()
    spent = {each.call for each in read_spent(office.world.path)}
    for effect in office.ledger.effects(status="in_doubt", limit=1000):
        call = effect.args["call"]
        if call in spent or call.partition("-")[0] in gone:
            _settle(office, effect, has_spent=call in spent)


def end_everything(office: Office) -> None:
    """Brings every call to an end: what is in doubt is settled, and what nobody decided lapses."""
    everybody = {effect.args["call"].partition("-")[0] for effect in office.ledger.effects(limit=MANY)}
    while office.ledger.effects(status="processing"):
        threading.Event().wait(TERMS.lease / 3)
        settle_what_is_known(office, everybody)
    settle_what_is_known(office, everybody)
    while office.ledger.approvals(status="pending") or office.ledger.approvals(status="approved"):
        threading.Event().wait(RULES.expires)
        office.sweep()


TEETH = ("reserved-not-counted", "released-twice", "reservation-kept")
JOB = Job(
    name="budget-races",
    run=race_for_budgets,
    points={"sqlite": 10_000, "postgres": 10_000},
    teeth={"sqlite": TEETH, "postgres": TEETH},
    bites=300,
)
