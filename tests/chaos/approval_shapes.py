"""The parts in the life of an approval that somebody can die in: asking, deciding, claiming, sweeping."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from indelible import NothingHappened
from tests.chaos.approval_subject import CHANNEL, Office, Petition, Rules
from tests.chaos.subject import Answer

RULES = Rules(notify=(CHANNEL,))
AT_ONCE = replace(RULES, expires=0.001)

Part = Callable[[Office, Petition], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """One part in the life of an approval that somebody dies in: what comes before, and how the call has to end."""

    name: str
    struck: Part
    before: tuple[Part, ...] = ()
    asked_by: Rules = RULES
    rules: Rules = RULES
    ends: Literal["value", "denied", "canceled"] = "value"


def ask(office: Office, petition: Petition) -> Answer:
    """Calls without waiting for anybody."""
    return office.call(petition, wait=0)


def approve(office: Office, petition: Petition) -> None:
    """Looks at the question, approves it, and looks what became of it."""
    shown = office.newest(petition)
    office.act("view", shown, "ana")
    office.act("approve", shown, "ana")
    office.newest(petition)


def deny(office: Office, petition: Petition) -> None:
    """Looks at the question and denies it."""
    shown = office.newest(petition)
    office.act("view", shown, "ana")
    office.act("deny", shown, "ana")
    office.newest(petition)


def edit(office: Office, petition: Petition) -> None:
    """Changes the arguments, and approves the new ones."""
    office.act("edit", office.newest(petition), "ana")
    office.act("approve", office.newest(petition), "ana")


def take_back(office: Office, petition: Petition) -> None:
    """Takes an approval back."""
    office.act("take back", office.newest(petition), "ana")


def cancel(office: Office, petition: Petition) -> None:
    """Withdraws the call."""
    office.act("cancel", office.newest(petition), "ana")


def claim(office: Office, petition: Petition) -> Answer:
    """Calls, and runs the handler when that is allowed."""
    return office.call(petition)


def hand_back(office: Office, petition: Petition) -> Answer:
    """Calls, and finds in the handler that nothing can be done now."""

    def give_up(effect: Any) -> None:
        raise NothingHappened("the bank is closed")

    return office.call(petition, inside=give_up)


def wait_and_claim(office: Office, petition: Petition) -> None:
    """Waits for an approval in one thread, gives it in another, and runs."""
    caller = threading.Thread(target=claim, args=(office, petition), daemon=True)
    caller.start()
    office.act("approve", office.begin(petition), "ana")
    caller.join()


def wait_in_a_task(office: Office, petition: Petition) -> None:
    """Does the same through the asynchronous shell."""
    asyncio.run(_wait_in_a_task(office, petition))


async def _wait_in_a_task(office: Office, petition: Petition) -> None:
    caller = asyncio.create_task(office.call_async(petition))
    shown = await asyncio.to_thread(office.begin, petition)
    await asyncio.to_thread(office.act, "approve", shown, "ana")
    await caller


def sweep(office: Office, petition: Petition) -> None:
    """Attends and sends."""
    office.sweep()


SHAPES = {
    shape.name: shape
    for shape in (
        Shape(name="asking", struck=ask),
        Shape(name="asking anew", before=(ask,), asked_by=AT_ONCE, struck=ask),
        Shape(name="asking under another policy", before=(ask, approve), struck=ask, rules=replace(RULES, version="2")),
        Shape(name="approving", before=(ask,), struck=approve),
        Shape(name="denying", before=(ask,), struck=deny, ends="denied"),
        Shape(name="editing", before=(ask,), struck=edit),
        Shape(name="taking back", before=(ask, approve), struck=take_back),
        Shape(name="claiming", before=(ask, approve), struck=claim),
        Shape(name="handing back", before=(ask, approve), struck=hand_back),
        Shape(name="waiting", struck=wait_and_claim),
        Shape(name="waiting in a task", struck=wait_in_a_task),
        Shape(name="canceling", before=(ask,), struck=cancel, ends="canceled"),
        Shape(name="sweeping", before=(ask,), asked_by=AT_ONCE, struck=sweep),
        Shape(name="escalating", before=(ask,), asked_by=replace(RULES, escalates=0.001), struck=sweep),
    )
}
