"""Commands and answers as they really come about, to see what becomes of them on the wire."""

from __future__ import annotations

import functools
import json
import random
from datetime import timedelta
from typing import Any, get_args

from indelible.core.commands import (
    Adopt,
    AllStopped,
    Answer,
    Command,
    EditUnread,
    Forbidden,
    InDoubt,
    InFlight,
    LimitsUnseen,
    MayRun,
    Reworded,
)
from indelible.core.effects.stops import Stop
from indelible.core.ports import Store
from indelible.core.remote.wire import from_wire, to_wire
from indelible.core.runs.run import CheckpointRule, Fork, Happening
from indelible.stores import open_store
from indelible.testing.clock import FakeClock
from indelible.testing.comparing import Comparison
from tests.core.making import AGENT, LEASE, NOON, REF, charge, charging, effect, open_command
from tests.core.run_world import World

COMMANDS: tuple[type, ...] = get_args(Command)
ANSWERS: tuple[type, ...] = get_args(Answer)
SEEDS = range(6)


def crossed(kind: Any, value: Any) -> Any:
    """Gives what arrives on the other side when a value is sent as one of this type."""
    return from_wire(kind, json.loads(json.dumps(to_wire(value))))


class Overheard:
    """Is a store that remembers what it was asked and what it said."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.commands: list[Command] = []
        self.answers: list[Answer] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def apply(self, tenant: str, commands: Any, known: Any) -> list[Answer]:
        answers = self._store.apply(tenant, commands, known)
        self.commands += commands
        self.answers += answers
        return answers


@functools.cache
def overheard(seed: int) -> tuple[list[Command], list[Answer]]:
    """Gives random commands, and what a store answered to them."""
    clock = FakeClock()
    store: Any = Overheard(open_store(":memory:", clock=clock))
    try:
        Comparison(store, clock, f"tenant-{seed}", random.Random(seed)).run(steps=60)
    finally:
        store.close()
    return store.commands, store.answers


@functools.cache
def of_runs() -> tuple[list[Command], list[Answer]]:
    """Gives commands about runs, and the few that nothing random makes, with what the core answers."""
    commands: list[Command] = []
    answers: list[Answer] = []

    class Overhearing(World):
        def do(self, *given: Command) -> list[Answer]:
            answered = super().do(*given)
            commands.extend(given)
            answers.extend(answered)
            return answered

    world = Overhearing()
    world.start(
        intent="refund",
        allowed_tools=("pay", "mail"),
        permissions={"spend": {"most": 5, "of": ["a", None, True]}},
        checkpointing=CheckpointRule(every_progress=3, every=timedelta(minutes=5)),
        fork=Fork(run_id="before", at=3),
        parent="above",
    )
    world.tell(
        Happening(type="plan_locked", payload_json=b'{"n":1}'), Happening(type="own.kind", step="one"), token="t1"
    )
    world.tell(Happening(type="execution_succeeded", side_effect="payment", side_effect_key="k", said_by="ada"))
    world.seal(state_json=b'{"at":1}', suggested="mail", at=0)
    world.take()
    world.pass_time(LEASE)
    world.take(checkpoint_id="ckpt_1", is_forced=True)
    world.end("completed", token="t2")
    world.tell(Happening(type="own.kind"), run_id="nowhere")
    opening = open_command(
        subject_json=b'"ada"', principal="ada", driver_token="t", verdict=charging(charge("0.50", "1E+2"))
    )
    world.do(open_command(verdict=charging(charge(9))))  # more than there is
    world.do(opening)
    world.effects[REF] = effect("ready", args_json=None)
    world.do(open_command())
    adopting = Adopt(
        effect=effect("succeeded", key="ee" * 32, id="eff_2"),
        stamp=world.stamp(actor=AGENT),
        origin_json=b'{"ledger":"x"}',
    )
    world.do(adopting)
    return commands, answers


@functools.cache
def everything() -> tuple[list[Command], list[Answer]]:
    """Gives all of them."""
    told = [*(overheard(seed) for seed in SEEDS), of_runs()]
    stopped = AllStopped(Stop(is_in_force=True, by="ada", at=NOON, reason="wrong accounts"), effect())
    rare = [stopped, LimitsUnseen(effect()), MayRun(effect()), Reworded(effect()), InDoubt(effect("in_doubt"))]
    rare += [Forbidden(effect(), "is not yours"), InFlight(effect()), EditUnread(effect())]
    answers = [*rare, *(each for _, answers in told for each in answers)]
    return [each for commands, _ in told for each in commands], answers


@functools.cache
def one_of_each(kinds: tuple[type, ...]) -> dict[type, Any]:
    """Gives the largest example of each class: the one that says most."""
    found: dict[type, Any] = {}
    for each in [*everything()[0], *everything()[1]]:
        known = found.get(type(each))
        if type(each) in kinds and (known is None or len(json.dumps(to_wire(each))) > len(json.dumps(to_wire(known)))):
            found[type(each)] = each
    return found
