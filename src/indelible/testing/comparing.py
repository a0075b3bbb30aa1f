"""Gives random commands to a store and to the core, and sees that the store does what the core decides."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

from indelible.core.approvals.approval import Approval, Escalation, Need
from indelible.core.approvals.deliveries import Delivery, delivery_sheet
from indelible.core.approvals.grants import Delegation, GrantTerms, delegation_sheet, pinned_digest
from indelible.core.approvals.revoked import people_behind
from indelible.core.approvals.sheets import read_approval
from indelible.core.batch import Batch, decide
from indelible.core.commands import Claimed, Command, Finish, Keep, Open, Record, Recorded, Relinquish, refs_of
from indelible.core.effects.effect import Actor, Claim, Effect
from indelible.core.effects.identity import Ref
from indelible.core.events import Event, Head, Provenance
from indelible.core.policy.verdicts import ALLOWED, Charge, Verdict
from indelible.core.ports import Store
from indelible.core.sheets import Sheet, SheetFilter, SheetRef, Sheets
from indelible.core.steps import brakes_of, needed_sheets
from indelible.testing.clock import FakeClock
from indelible.testing.commands import DIGEST, LEASE, Commands, asking
from indelible.testing.journal_conformance import recording
from indelible.testing.suite import check_chain

PEOPLE = (Actor("bob"), Actor("eve"), Actor("ida"))
KINDS = ("approval", "budget", "delegation", "delivery", "grant")
ARGS = b'{"n":1}'


def read_for(
    commands: Sequence[Command], effects: Mapping[Ref, Effect | None], sheets: Sheets
) -> tuple[dict[Ref, Effect | None], dict[SheetRef, Sheet | None]]:
    """Return what a store reads for commands, where these effects and sheets are all that there is."""
    found = {ref: effects.get(ref) for command in commands for ref in refs_of(command)}
    needed = {ref for command in commands for ref in needed_sheets(command, found[command.ref])}
    needed.update(ref for command in commands for ref in brakes_of(command))
    read = {ref: sheets.get(ref) for ref in needed}
    while behind := people_behind(read) - read.keys():
        read |= {ref: sheets.get(ref) for ref in behind}
    return found, read


class Comparison:
    """Knows what a store must hold, because the core decided the same commands beside it."""

    def __init__(self, store: Store, clock: FakeClock, tenant: str, chance: random.Random) -> None:
        self._store = store
        self._clock = clock
        self._make = Commands(tenant)
        self._chance = chance
        self._effects: dict[Ref, Effect | None] = {}
        self._heads: dict[str, Head] = {}
        self._sheets: dict[SheetRef, Sheet | None] = {}
        self._claims: list[Claim] = []
        self._noted: list[Recorded] = []
        self._erased: set[tuple[str, int, str]] = set()
        self._names = ["a", "b", "c"]

    def run(self, steps: int) -> None:
        """Sends batches of random commands."""
        for _ in range(steps):
            if self._chance.random() < 0.3:
                self._clock.advance(self._chance.choice([timedelta(seconds=1), LEASE]))
            self._send([self._command() for _ in range(self._chance.choice([1, 1, 1, 2, 5]))])
        self._compare_what_is_kept()

    def _send(self, commands: list[Command]) -> None:
        known = [self._chance.choice([None, self._effects.get(command.ref)]) for command in commands]
        for number, command in enumerate(commands):
            if isinstance(command, Finish | Relinquish):
                known[number] = command.claim.effect
        now, by = self._clock.now(), self._provenance()
        effects, sheets = read_for(commands, self._effects, self._sheets)
        batch = decide(commands, effects, self._heads, now, by, sheets)
        answers = self._store.apply(self._make.tenant, commands, known)
        assert answers == batch.answers
        self._claims += [answer.claim for answer in answers if isinstance(answer, Claimed)]
        self._noted += [answer for answer in answers if isinstance(answer, Recorded)]
        self._note(batch)

    def _note(self, batch: Batch) -> None:
        for effect in batch.changed():
            self._effects[effect.ref] = effect
        self._heads.update({run_id: head for run_id, (_, head) in batch.heads.items()})
        self._sheets.update({ref: after for ref, (_, after) in batch.sheets.items()})
        self._erased.update(batch.erased)
        for ref, sheet in self._sheets.items():
            if sheet is not None and (sheet.run_id, sheet.seq, sheet.kind) in self._erased:
                self._sheets[ref] = replace(sheet, body=None)

    def _provenance(self) -> Provenance:
        """Learns the writer's name from the store's own events, so that bodies can be compared byte by byte."""
        events = self._store.events(self._make.tenant, "run-1", -1, 1) or self._first_event()
        body = events[0].read()
        return Provenance(log=body["log"], writer=body["writer"])

    def _first_event(self) -> list[Event]:
        self._store.apply(self._make.tenant, [self._make.open("first of all")], [None])
        events = self._store.events(self._make.tenant, "run-1", -1, 1)
        self._heads["run-1"] = Head(1, events[0].hash)
        return events

    # Random commands

    def _command(self) -> Command:
        make, chance = self._make, self._chance
        ref = make.ref(chance.choice(self._names))
        kinds: list[Callable[[], Command]] = [
            self._opening,
            self._opening,
            self._opening,
            lambda: recording(make, run_id=chance.choice(["run-1", "run-2"]), committed={"note": b'"secret"'}),
            lambda: make.expire(ref),
            lambda: make.settle(ref),
            lambda: make.reopen(ref),
            lambda: make.cancel(ref),
            self._delegating,
            self._keeping,
        ]
        if self._claims:
            kinds += [
                lambda: make.finish(chance.choice(self._claims), chance.choice(["succeeded", "failed"])),
                lambda: make.finish(self._claims[-1]),
                lambda: make.relinquish(chance.choice(self._claims), chance.choice(["ready", "in_doubt"])),
            ]
        if self._noted:
            kinds += [self._erasing]
        if self._of_kind("approval"):
            kinds += [self._about_approval] * 6
        if self._waiting():
            kinds += [self._calling_again] * 3
        return chance.choice(kinds)()

    def _opening(self) -> Open:
        chance = self._chance
        return self._make.open(
            chance.choice([*self._names, f"new-{chance.random()}"]),
            verdict=self._verdict(),
            on_crash=chance.choice(["hold", "retry"]),
            run_id=chance.choice(["run-1", "run-2"]),
            digest=chance.choice([DIGEST, DIGEST, DIGEST, "ee" * 32]),
            has_key_fields=chance.random() < 0.5,
            call_id=chance.choice([None, "c1", "c2"]),
            dedupe=chance.choice(["args", "args", "ask"]),
            schema=chance.choice(["", "", "", "", "other"]),
            awaited_approval=chance.choice([None, *(sheet.id for sheet in self._of_kind("approval"))]),
            grants={sheet.id: self._pinned() for sheet in self._of_kind("grant")[-2:]},
        )

    def _calling_again(self) -> Open:
        """Makes a call once more that waits for somebody's answer, or has it."""
        effect = self._chance.choice(self._waiting())
        asks = asking(expires=LEASE * 4)
        again = replace(self._opening(), ref=effect.ref, digest=effect.digest, verdict=asks)
        return replace(again, schema="", dedupe="args")

    def _waiting(self) -> list[Effect]:
        known = (effect for effect in self._effects.values() if effect is not None)
        return [effect for effect in known if effect.status in ("requires_approval", "ready")]

    def _verdict(self) -> Verdict:
        chance = self._chance
        charges = tuple(
            Charge(budget=name, limit=Decimal(4), window=LEASE * 4, amount=Decimal(chance.choice([1, 2])))
            for name in chance.choice([(), (), (), ("calls",), ("calls", "money")])
        )
        decision = chance.choice(["allow", "allow", "ask", "ask", "refuse"])
        if decision == "ask":
            escalation = Escalation(LEASE, notify=("mail",))
            needs = (Need(chance.choice([1, 1, 2])),)
            return asking(charges=charges, needs=needs, expires=LEASE * 4, escalations=(escalation,), notify=("chat",))
        if decision == "refuse":
            return Verdict(decision="refuse", rule="never", policy="p1")
        return replace(ALLOWED, charges=charges)

    def _about_approval(self) -> Command:
        make, chance = self._make, self._chance
        sheet = chance.choice(self._of_kind("approval")[-4:])
        if sheet.body is None:
            return self._opening()
        approval = read_approval(sheet)
        acts: list[Callable[[], Command]] = [
            lambda: self._voting(approval),
            lambda: self._voting(approval),
            lambda: self._voting(approval),
            lambda: make.deny(approval, chance.choice(PEOPLE)),
            lambda: make.take_back(approval, chance.choice(PEOPLE)),
            lambda: make.amend(approval, chance.choice([ARGS, b'{"n":2}'])),
            lambda: make.show(approval),
            lambda: make.attend(approval),
            lambda: self._forgetting(sheet),
        ]
        return chance.choice(acts)()

    def _voting(self, approval: Approval) -> Command:
        chance, changes = self._chance, dict[str, Any]()
        if chance.random() < 0.3:
            terms = GrantTerms(count=2, until=self._clock.now() + LEASE * 8)
            changes = {"grant": terms, "grant_id": f"grant-{chance.random()}", "pinned": self._pinned()}
        if self._of_kind("delegation") and chance.random() < 0.3:
            changes["delegation_id"] = chance.choice(self._of_kind("delegation")).id
        digest = chance.choice([approval.digest, approval.digest, approval.digest, "ee" * 32])
        return self._make.approve(approval, chance.choice(PEOPLE), digest=digest, **changes)

    def _delegating(self) -> Record:
        """Gives a delegation, ends it, or comes too late to do so."""
        giver, to = self._chance.sample(PEOPLE, 2)
        delegation = Delegation(
            id=f"{giver.id}-{to.id}",
            version=self._chance.choice([1, 2, 3]),
            giver=giver.id,
            to=to.id,
            until=self._clock.now() + LEASE * 4,
            is_ended=self._chance.random() < 0.3,
        )
        return recording(self._make, sheet=delegation_sheet(delegation))

    def _keeping(self) -> Keep:
        """Changes a message, makes a new one, or comes too late to do so."""
        known = self._of_kind("delivery")
        if known and self._chance.random() < 0.8:
            sheet, late = self._chance.choice(known), self._chance.choice([0, 0, 1])
            changed = sheet.after(status="sent", body=b'{"n":%d}' % self._chance.randrange(3))
            return self._make.keep(replace(changed, version=changed.version - late))
        fresh = Delivery(id=f"own-{self._chance.randrange(5)}", channel="chat", about="x", approval_id="y", due_at=None)
        return self._make.keep(delivery_sheet(fresh))

    def _erasing(self) -> Record:
        noted = self._chance.choice(self._noted)
        return recording(self._make, run_id=noted.run_id, erased=((noted.seq, "note"),))

    def _forgetting(self, sheet: Sheet) -> Record:
        assert sheet.run_id is not None
        assert sheet.seq is not None
        return recording(self._make, run_id=sheet.run_id, erased=((sheet.seq, sheet.kind),))

    def _pinned(self) -> str:
        return pinned_digest(self._make.tenant, "tool", None, ARGS)

    def _of_kind(self, kind: str) -> list[Sheet]:
        return [sheet for ref, sheet in self._sheets.items() if ref.kind == kind and sheet is not None]

    # What is there in the end

    def _compare_what_is_kept(self) -> None:
        refs = list(self._effects)
        assert self._store.look(refs).effects == [self._effects[ref] for ref in refs]
        assert self._store.watch(refs).effects == [self._effects[ref] for ref in refs]
        for kind in KINDS:
            expected = sorted(self._of_kind(kind), key=lambda sheet: sheet.id, reverse=True)
            assert self._store.sheets(self._make.tenant, SheetFilter(kind=kind, limit=10_000)) == expected
        for run_id, head in self._heads.items():
            events = check_chain(self._store, self._make.tenant, run_id)
            assert (len(events), events[-1].hash) == head
            kept = self._store.payloads(self._make.tenant, run_id, range(len(events)))
            promised = {(run_id, event.seq, name) for event in events for name in event.read()["commits"]}
            assert {(run_id, payload.seq, payload.field) for payload in kept} == promised - self._erased
