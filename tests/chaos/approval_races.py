"""People and clocks that are after one approval at once, callers that wait for one, and voters of one election.

Outcomes: each approval is approved, denied, canceled and let lapse at the same moment, by a process each, while a
caller waits for it. Crowds: 50 callers in 5 processes wait for one approval, which two people decide. Elections: 20
votes at once, some people voting twice, some under two spellings of their name.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from datetime import datetime
from itertools import repeat

from tests.chaos import procs
from tests.chaos.approval_subject import Deed, Office, Petition, Place, Rules, Said, Shown
from tests.chaos.clerks import Clerk, Clerks, at_once
from tests.chaos.race_oracle import Election, Findings, judge
from tests.chaos.report import Job, Order, Report
from tests.chaos.subject import Answer, Terms

# Nobody crashes here, so no lease may run out, however busy the machine is.
TERMS = Terms(lease=120.0, wait=120.0)
RIVALS: tuple[tuple[Deed, str, float], ...] = (
    ("approve", "ana", 0.0),
    ("deny", "ben", 0.0),
    ("cancel", "cleo", 0.003),  # which is still good when the others have decided; they should get their turn
    ("attend", "sweeper", 0.0),
)
BATCH = 25
# Time from one approval of a batch to the next, and how far from the common moment each rival acts, in seconds.
STEP = 0.008
LEAD = 0.12
JITTER = 0.006
CALLERS = 10
CROWD = 5
VOTERS = ("dora", "emil", "fred", "gerd", "hanna", "ida", "jan", "kai", "lea", "max")
BALLOTS = 20
LONG = 3600.0
# One crowd for so many outcomes, and one election.
OUTCOMES_PER_CROWD = 20
OUTCOMES_PER_ELECTION = 20


def race_for_approvals(order: Order) -> Report:
    """Does as many outcomes as ordered, with crowds and elections in proportion; points are all of them."""
    report = Report("approval-races", order)
    where = order.where / f"{order.label}-approvals"
    place = Place(
        url=order.bench.lay_out(where),
        tenant=f"{order.label}-approvals",
        world=where / "world",
        terms=TERMS,
        mutant=order.mutant,
    )
    rng = random.Random(order.seed)
    with Clerks(place, Rules(), max(len(RIVALS), CROWD)) as clerks, Clerks(place, Rules(), 1) as callers:
        said, answers = _race_for_outcomes(clerks, callers.all[0], order.points, rng)
        crowds = [_crowd(clerks, callers.all[0], n, rng) for n in range(-(-order.points // OUTCOMES_PER_CROWD))]
        elections = [_elect(clerks, n, rng) for n in range(-(-order.points // OUTCOMES_PER_ELECTION))]
    findings = Findings(tuple(said), tuple(answers), tuple(crowds), tuple(elections))
    report.points = order.points + len(crowds) + len(elections)
    violations, outcomes = procs.ask(judge, place, findings)
    report.add(violations)
    report.notes.update(outcomes)
    return report.finish()


# Outcomes


def _race_for_outcomes(clerks: Clerks, caller: Clerk, many: int, rng: random.Random) -> tuple[list[Said], list[Answer]]:
    said: list[Said] = []
    answers: list[Answer] = []
    for start in range(0, many, BATCH):
        numbers = range(start, min(start + BATCH, many))
        petitions = [Petition(name=f"outcome-{number}", run_id=f"outcomes-{number % 7}") for number in numbers]
        # Half of them lapse just when people decide; the others are theirs alone, on however slow a machine.
        lives = [LEAD + place * STEP if rng.random() < 0.5 else LONG for place in range(len(petitions))]
        asked = caller.do(put_questions, list(zip(petitions, lives, strict=True)))
        begun = time.time()
        plans = [
            [
                (shown, _moment(shown, life, begun + place * STEP, rng) + later)
                for place, (shown, life) in enumerate(zip(asked, lives, strict=True))
            ]
            for _, _, later in RIVALS
        ]
        for told in clerks.share(
            act_in_time, [(deed, by, plan) for (deed, by, _), plan in zip(RIVALS, plans, strict=True)]
        ):
            said += told
        answers += caller.do(hear_answers)
    return said, answers


def _moment(shown: Shown, life: float, otherwise: float, rng: random.Random) -> float:
    """Gives when a rival acts: about when the approval ends, or about when the others do."""
    ends = datetime.fromisoformat(shown.expires_at).timestamp() if life < LONG else otherwise
    return ends + rng.uniform(-JITTER, JITTER)


def put_questions(office: Office, petitions: Sequence[tuple[Petition, float]]) -> list[Shown]:
    """Asks about calls, each with so long to live, and lets a task wait for each; `hear_answers` gives the end."""
    asked = []
    for petition, life in petitions:
        office.rules = replace(office.rules, expires=life)
        asked.append(office.begin(petition))
    crowd = _Tasks.of(office)
    crowd.start(petitions)
    return asked


def hear_answers(office: Office) -> list[Answer]:
    """Waits for what the tasks were told."""
    return _Tasks.of(office).finish()


class _Tasks:
    """Waits for calls in tasks of one event loop, through the asynchronous shell."""

    _only: _Tasks | None = None

    def __init__(self, office: Office) -> None:
        self._office = office
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self._waiting: list[Future[Answer]] = []

    @classmethod
    def of(cls, office: Office) -> _Tasks:
        """Gives the tasks of this process."""
        cls._only = cls._only or cls(office)
        return cls._only

    def start(self, petitions: Iterable[tuple[Petition, float]]) -> None:
        """Lets a task wait for each call."""
        self._waiting = [
            asyncio.run_coroutine_threadsafe(self._office.call_async(petition), self._loop) for petition, _ in petitions
        ]

    def finish(self) -> list[Answer]:
        """Waits for all of them."""
        return [task.result() for task in self._waiting]


def act_in_time(office: Office, deed: Deed, by: str, plan: Sequence[tuple[Shown, float]]) -> list[Said]:
    """Does the same to one approval after the other, each at its moment."""
    said = []
    for shown, moment in sorted(plan, key=lambda each: each[1]):
        time.sleep(max(0.0, moment - time.time()))
        said.append(office.act(deed, shown, by))
    return said


# Crowds


def _crowd(clerks: Clerks, decider: Clerk, number: int, rng: random.Random) -> tuple[Answer, ...]:
    """Lets everybody wait for one approval; then one person approves it, and in some rounds another denies it too."""
    petition = Petition(name=f"crowd-{number}", run_id=f"crowds-{number % 3}")
    shown = decider.do(ask_with_time, petition)
    for clerk in clerks.all:
        clerk.ask(call_in_threads, petition, CALLERS)
    deeds: list[tuple[Deed, str]] = [("approve", "ana")]
    if number % 3 == 2:
        deeds.append(("deny", "ben"))
    decider.do(act_together, shown, [(deed, by, rng.uniform(0, 0.02)) for deed, by in deeds])
    return tuple(answer for clerk in clerks.all for answer in clerk.answer())


def ask_with_time(office: Office, petition: Petition) -> Shown:
    """Asks about a call, with all the time in the world."""
    office.rules = replace(office.rules, expires=LONG)
    return office.begin(petition)


def call_in_threads(office: Office, petition: Petition, many: int) -> list[Answer]:
    """Makes one and the same call in so many threads."""
    # The handler takes a while, so that rivals meet while one is at work and not only before or after.
    return at_once(lambda _: office.call(petition, inside=lambda effect: time.sleep(0.04)), range(many))


def act_together(office: Office, shown: Shown, deeds: Sequence[tuple[Deed, str, float]]) -> list[Said]:
    """Does several things about one approval, each in a thread, after a while of its own."""

    def act(each: tuple[Deed, str, float]) -> Said:
        time.sleep(each[2])
        return office.act(each[0], shown, each[1])

    return at_once(act, deeds)


# Elections


def _elect(clerks: Clerks, number: int, rng: random.Random) -> Election:
    """Lets 20 votes come in at once; two are enough in one election, and everybody is needed in the next."""
    needed = 2 if number % 2 == 0 else len(VOTERS)
    petition = Petition(name=f"election-{number}", run_id=f"elections-{number % 3}")
    shown = clerks.all[0].do(open_election, petition, needed)
    ballots = [_spelling(name, rng) for name in VOTERS] + [_spelling(name, rng) for name in VOTERS]
    rng.shuffle(ballots)
    shares = [ballots[start :: len(clerks.all)] for start in range(len(clerks.all))]
    said = [one for told in clerks.share(vote_together, zip(repeat(shown), shares)) for one in told]
    clerks.all[0].do(call_once, petition)
    return Election(shown.id, needed, tuple(said))


def _spelling(name: str, rng: random.Random) -> str:
    wide = "".join(chr(ord(letter) - ord("a") + ord("ａ")) for letter in name)
    return rng.choice((name, name, name.capitalize(), name.upper(), wide, f"{name} "))


def open_election(office: Office, petition: Petition, people: int) -> Shown:
    """Asks so many people about a call."""
    office.rules = replace(office.rules, people=people, expires=LONG)
    return office.begin(petition)


def vote_together(office: Office, shown: Shown, names: Sequence[str]) -> list[Said]:
    """Votes for it under each of these names, all at once."""
    return at_once(lambda name: office.act("approve", shown, name), names)


def call_once(office: Office, petition: Petition) -> Answer:
    """Makes a call without waiting for anybody."""
    return office.call(petition, wait=0)


TEETH = ("consumed-twice", "expiry-ignored", "votes-overwritten", "spellings-count")
JOB = Job(
    name="approval-races",
    run=race_for_approvals,
    points={"sqlite": 1000, "postgres": 1000},
    teeth={"sqlite": TEETH, "postgres": TEETH},
    bites=60,
)
