"""Two or five processes that resume one run at the same moment, when the lease of its driver is over.

Exactly one wins and has the next number, the others hear that the run is driven, and whoever drove before can tell
nothing any more. Each run is raced for several times: the winner tells of it and then seems to be dead.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from indelible.errors import IndelibleError, RunDriven, RunLost
from indelible.runs.active import ActiveRun, happenings_of
from tests.chaos import procs
from tests.chaos.approval_reading import not_verified
from tests.chaos.approval_subject import Office, Place, Rules, open_ledger
from tests.chaos.clerks import Clerk, Clerks
from tests.chaos.oracle import Violation
from tests.chaos.report import Job, Order, Report
from tests.chaos.run_oracle import Telling, judge_fences, judge_tellings
from tests.chaos.run_subject import let_lapse, named_event, read_stored
from tests.chaos.subject import Terms

# Nobody crashes here, so no lease may run out, however busy the machine is.
TERMS = Terms(lease=120.0, wait=120.0)
MOST = 5
RACES_PER_RUN = 5
# Time until the common moment, and how far from it each of them acts, in seconds.
LEAD = 0.004
JITTER = 0.002


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """What came of one attempt to resume, and from when to when it took."""

    told: Literal["won", "driven", "other"]
    fence: int = 0
    words: str = ""
    began: float
    ended: float


@dataclass(slots=True)
class Heat:
    """One run that is raced for: who drives it, with which number, and who has won."""

    run_id: str
    driving: Clerk
    fence: int
    given: list[int]
    names: list[str]


def race_to_resume(order: Order) -> Report:
    """Runs as many races as ordered, of two and of five in turn; points are races."""
    report = Report("resumer-races", order)
    where = order.where / f"{order.label}-resumers"
    place = Place(
        url=order.bench.lay_out(where),
        tenant=f"{order.label}-resumers",
        world=where / "world",
        terms=TERMS,
        mutant=order.mutant,
    )
    rng = random.Random(order.seed)
    heats: list[Heat] = []
    with Clerks(place, Rules(), MOST) as clerks:
        while report.points < order.points and not report.is_done:
            heats.append(_begin(clerks, f"heat-{len(heats)}", rng))
            for _ in range(min(RACES_PER_RUN, order.points - report.points)):
                report.add(_race(clerks, heats[-1], 2 if report.points % 2 == 0 else MOST, rng, report))
                report.points += 1
    report.add(procs.ask(judge, place, [(heat.run_id, heat.given, heat.names) for heat in heats]))
    report.notes["runs"] = len(heats)
    return report.finish()


def _begin(clerks: Clerks, run_id: str, rng: random.Random) -> Heat:
    """Lets somebody start a run and seem to be dead."""
    starter = rng.choice(clerks.all)
    fence = starter.do(put_up, run_id)
    return Heat(run_id=run_id, driving=starter, fence=fence, given=[fence], names=[])


def _race(clerks: Clerks, heat: Heat, many: int, rng: random.Random, report: Report) -> list[Violation]:
    """Lets so many resume the run together; the winner tells of it, whoever drove before tries to, and dies."""
    racers = rng.sample(clerks.all, many)
    moment = time.time() + LEAD
    for racer in racers:
        racer.ask(resume_in_time, heat.run_id, moment + rng.uniform(0, JITTER))
    tried = [racer.answer() for racer in racers]
    report.note("races in which they met", int(_have_met(tried)))
    winners = [racer for racer, each in zip(racers, tried, strict=True) if each.told == "won"]
    heat.given += [each.fence for each in tried if each.told == "won"]
    found = list(_not_one(heat, tried))
    before, heat.fence = heat.driving, max(heat.given)
    for winner in winners:
        heat.names.append(f"{heat.run_id}-{heat.fence}")
        winner.do(tell, heat.run_id, heat.names[-1])
    if winners and before not in winners and (told := before.do(tell_though_lost, heat.run_id)) != "lost":
        found.append(Violation("told by a lost driver", heat.run_id, f"it was told {told}"))
    for winner in winners:
        winner.do(seem_dead, heat.run_id)
        heat.driving = winner
    return found


def _have_met(tried: Sequence[Tried]) -> bool:
    """Was anybody else at it while the winner was?"""
    won = [each for each in tried if each.told == "won"]
    return any(each.began < one.ended and one.began < each.ended for one in won for each in tried if each is not one)


def _not_one(heat: Heat, tried: Sequence[Tried]) -> Iterator[Violation]:
    won = [each.fence for each in tried if each.told == "won"]
    if len(won) != 1:
        yield Violation("two drivers", heat.run_id, f"{len(won)} of {len(tried)} have won, with {won}")
    for fence in won:
        if fence != heat.fence + 1:
            yield Violation("fence taken twice", heat.run_id, f"{fence} after {heat.fence}")
    for each in tried:
        if each.told == "other":
            yield Violation("wrong answer", heat.run_id, each.words)


# Errands


_HELD: dict[str, ActiveRun] = {}  # what this process drives, or drove last


def put_up(office: Office, run_id: str) -> int:
    """Starts a run, saves it, and lets its lease end."""
    run = office.ledger.start_run(run_id, agent="chaos", lease=timedelta(seconds=TERMS.lease))
    run.checkpoint({"name": "prepared"})
    _HELD[run_id] = run
    let_lapse(run)
    return run.fence


def resume_in_time(office: Office, run_id: str, moment: float) -> Tried:
    """Resumes a run at a moment."""
    while (pause := moment - time.time()) > 0:
        time.sleep(pause)
    began = time.time()
    try:
        run = office.ledger.resume_run(run_id, lease=timedelta(seconds=TERMS.lease))
    except RunDriven as error:
        return Tried(told="driven", words=str(error), began=began, ended=time.time())
    except IndelibleError as error:
        return Tried(told="other", words=f"{type(error).__name__}: {error}", began=began, ended=time.time())
    _HELD[run_id] = run
    return Tried(told="won", fence=run.fence, began=began, ended=time.time())


def tell(office: Office, run_id: str, name: str) -> str:
    """Tells of the run that this process drives."""
    try:
        _HELD[run_id].record(**named_event(name))
    except RunLost:
        return "lost"
    return "told"


def tell_though_lost(office: Office, run_id: str) -> str:
    """Tells of a run with the token this process once had, past its own knowledge that it is lost."""
    held = _HELD[run_id]
    try:
        held._keeping.tell(run_id, held.token, happenings_of([named_event(f"{run_id}-by-{held.fence}-though-lost")]))
    except RunLost:
        return "lost"
    return "told"


def seem_dead(office: Office, run_id: str) -> None:
    """Lets the lease of the run end."""
    let_lapse(_HELD[run_id])


# Judging


def judge(place: Place, heats: Sequence[tuple[str, list[int], list[str]]]) -> list[Violation]:
    """Compares what the winners were given with what the runs' events tell, and verifies the journal."""
    found: list[Violation] = []
    with open_ledger(place) as ledger:
        for run_id, given, names in heats:
            run = read_stored(ledger, run_id)
            found += judge_fences(run, given)
            found += judge_tellings(run, [Telling(names=(name,), is_done=True) for name in names])
            if run.wrong is not None:
                found.append(Violation("run not valid", run_id, run.wrong))
    return [*found, *not_verified(place)]


TEETH = ("looked-before-taking", "fence-stands-still", "lost-but-telling")
JOB = Job(
    name="resumer-races",
    run=race_to_resume,
    points={"sqlite": 2000, "postgres": 2000},
    teeth={"sqlite": TEETH, "postgres": TEETH},
    bites=150,
)
