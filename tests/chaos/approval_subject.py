"""Knows the library's approvals and budgets: holds a ledger open, for those who call and for those who decide."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from indelible import Approval, AsyncLedger, AwaitingApproval, Ledger, Policy, ToolCall, rule
from indelible.core.approvals import deliveries
from indelible.core.approvals.approval import Escalation, Need, Question
from indelible.core.events import instant
from indelible.core.policy.policy import Asked
from indelible.core.policy.verdicts import Charge, Verdict
from indelible.errors import IllegalMove, VoteRefused
from indelible.notify.channels import Message
from indelible.notify.outbox import Outbox
from tests.chaos.approval_oracle import decision_name
from tests.chaos.subject import Answer, Terms, answer_of, apply_terms, lent
from tests.chaos.world import Touch, World

TOOL = "chaos.pay"
CHANNEL = "log"
MESSAGES = "messages.log"

Deed = Literal["approve", "deny", "cancel", "attend", "view", "take back", "edit"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Says where the processes of a job work: one store, one tenant, one world, perhaps with a planted bug."""

    url: str
    tenant: str
    world: Path
    terms: Terms = field(default_factory=Terms)
    mutant: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """Is one budget: so much in any window of so many seconds, of calls or of the amounts they name."""

    budget: str
    most: int
    window: float
    counts: Literal["calls", "amounts"] = "calls"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Says what the policy demands: how many people, until when, who is told, and what a call takes of budgets."""

    version: str = "1"
    people: int = 1
    expires: float = 3600.0
    escalates: float | None = None
    notify: tuple[str, ...] = ()
    limits: tuple[Limit, ...] = ()

    def verdict_on(self, args: Mapping[str, Any]) -> Verdict:
        """Gives the verdict on a call; one without people is allowed."""
        charges = tuple(
            Charge(
                budget=limit.budget,
                limit=Decimal(limit.most),
                window=timedelta(seconds=limit.window),
                amount=Decimal(1 if limit.counts == "calls" else args["amount"]),
            )
            for limit in self.limits
        )
        asks = self.people and not args.get("unasked")
        question = self._question() if asks else None
        decision: Literal["ask", "allow"] = "ask" if asks else "allow"
        return Verdict(decision=decision, question=question, charges=charges)

    def _question(self) -> Question:
        late = () if self.escalates is None else (Escalation(after=timedelta(seconds=self.escalates)),)
        return Question(
            rule="chaos",
            needs=(Need(count=self.people),),
            expires=timedelta(seconds=self.expires),
            escalations=late,
            notify=self.notify,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Petition:
    """One call that has to be asked about; `name` is unique in the whole job and stands in the recorded arguments."""

    name: str
    run_id: str
    amount: int = 1
    is_unasked: bool = False

    def tool_call(self) -> ToolCall:
        """Gives the call as the library takes it."""
        args: dict[str, Any] = {"call": self.name, "amount": self.amount}
        return ToolCall(run_id=self.run_id, tool=TOOL, args=args | ({"unasked": True} if self.is_unasked else {}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What somebody sees of an approval before they act."""

    id: str
    effect_id: str
    digest: str
    expires_at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What somebody did about an approval, and what they were told: `done`, or why not in a word."""

    deed: Deed
    approval_id: str
    by: str
    told: str

    @property
    def is_done(self) -> bool:
        """Were they told that it counts?"""
        return self.told == "done"


class Office:
    """Holds a ledger open whose policy asks about every call, for those who call and for those who decide."""

    def __init__(self, place: Place, rules: Rules | None = None) -> None:
        apply_terms(place.terms)
        deliveries.SENDING_LEASE = timedelta(seconds=place.terms.lease)
        self.place = place
        self.rules = rules or Rules()
        self.world = World(place.world)
        made = rule("chaos", version=self.rules.version)(self._judge)
        self.ledger = open_ledger(place, policy=Policy.of(made))

    def _judge(self, asked: Asked) -> Verdict:
        return self.rules.verdict_on(asked.args)

    def on_step(self, note: Callable[[], None]) -> None:
        """Calls back each time something is durable: a write of the ledger, a touch of the world, an answer."""
        self.ledger._engine.writer.listeners.append(lambda answers: note())
        self.world.listeners.append(note)

    def begin(self, petition: Petition) -> Shown:
        """Asks about a call without waiting."""
        begun = self.ledger.begin(petition.tool_call())
        assert isinstance(begun, AwaitingApproval), begun
        return shown(begun.approval)

    def call(
        self, petition: Petition, wait: float | None = None, inside: Callable[[Any], None] = lambda effect: None
    ) -> Answer:
        """Makes the call and acknowledges its value; `inside` runs in the handler, before the world is touched."""

        def handler(effect: Any) -> Any:
            inside(effect)
            return self.act_outside(petition, effect)

        patience = self.place.terms.wait if wait is None else wait
        try:
            value = self.ledger.run(petition.tool_call(), handler, wait=timedelta(seconds=patience))
        except Exception as error:
            return answer_of(petition.name, error)
        self.world.acknowledge(petition.name, value)
        return Answer(call=petition.name, kind="value", value=value)

    async def call_async(self, petition: Petition) -> Answer:
        """Makes the call through the asynchronous shell."""

        async def handler(effect: Any) -> Any:
            return self.act_outside(petition, effect)

        shell = AsyncLedger(self.ledger._engine, tenant=self.place.tenant, options=self.ledger._options)
        try:
            value = await shell.run(petition.tool_call(), handler)
        except Exception as error:
            return answer_of(petition.name, error)
        self.world.acknowledge(petition.name, value)
        return Answer(call=petition.name, kind="value", value=value)

    def act_outside(self, petition: Petition, effect: Any) -> dict[str, Any]:
        """Makes the effect of a call happen; two executions never give the same value."""
        self.world.touch(Touch(call=petition.name, key=effect.key, attempt=effect.attempt))
        return {"call": petition.name, "charge": os.urandom(8).hex()}

    def newest(self, petition: Petition) -> Shown:
        """Gives the newest approval of a call as somebody sees it."""
        (effect,) = (
            effect
            for effect in self.ledger.effects(run_id=petition.run_id)
            if effect.args_json is not None and effect.args["call"] == petition.name  # else a place that an edit took
        )
        assert effect.approval_id is not None
        approval = self.ledger.get_approval(effect.approval_id)
        assert approval is not None
        return shown(approval)

    def act(self, deed: Deed, on: Shown, by: str) -> Said:
        """Does something about an approval, and acknowledges that it is done."""
        try:
            self._act(deed, on, by)
        except VoteRefused as refusal:
            return Said(deed=deed, approval_id=on.id, by=by, told=refusal.code)
        except IllegalMove:
            return Said(deed=deed, approval_id=on.id, by=by, told="illegal")
        if deed != "attend":  # which is nobody's word, and tells of nothing when nothing is due
            self.world.acknowledge(decision_name(deed, on.id, by), "done")
        return Said(deed=deed, approval_id=on.id, by=by, told="done")

    def _act(self, deed: Deed, on: Shown, by: str) -> None:
        match deed:
            case "approve":
                self.ledger.approve(on.id, digest=on.digest, by=by)
            case "deny":
                self.ledger.deny(on.id, by=by, reason="no")
            case "cancel":
                self.ledger.cancel(on.effect_id, by=by)
            case "view":
                self.ledger.view_approval(on.id, by=by)
            case "take back":
                self.ledger.revoke_approval(on.id, by=by)
            case "edit":
                args = self.ledger.view_approval(on.id).args
                self.ledger.edit_approval(on.id, {**args, "edited": by}, digest=on.digest, by=by)
            case "attend":
                approval = self.ledger.get_approval(on.id)
                assert approval is not None
                self.ledger._approving.attend(approval)

    def sweep(self) -> None:
        """Attends to approvals that are due, and sends what has to go out, until nothing is left to do."""
        outbox = Outbox(self.ledger._engine, self.place.tenant, [LogChannel(self.world.path)])
        while outbox.go_once():
            pass
        outbox.close()

    def close(self) -> None:
        """Closes the ledger and the world."""
        self.ledger.close()
        self.world.close()

    def __enter__(self) -> Office:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class LogChannel:
    """Is a channel whose receiver is a file in the world: a durable line for each message that it got."""

    name = CHANNEL

    def __init__(self, where: Path) -> None:
        self._file = where / MESSAGES

    def send(self, message: Message) -> dict[str, Any]:
        """Lets the receiver have it."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_DSYNC | os.O_CLOEXEC
        file = os.open(self._file, flags, 0o600)
        os.write(file, f"{message.id}\n".encode())
        os.close(file)
        return {}


def open_ledger(place: Place, **more: Any) -> Ledger:
    """Opens the ledger of a place; keys are those of the place alone."""
    logging.getLogger("indelible").setLevel(logging.ERROR)  # that the thousandth database has got a key is no news
    lease, wait = timedelta(seconds=place.terms.lease), timedelta(seconds=place.terms.wait)
    keys = lent(place.world / "keys")
    return Ledger.open(place.url, tenant=place.tenant, lease=lease, wait=wait, seal=False, keys=keys, **more)


def shown(approval: Approval) -> Shown:
    """Gives what somebody sees of an approval."""
    return Shown(
        id=approval.id,
        effect_id=approval.effect_id,
        digest=approval.digest,
        expires_at=instant(approval.expires_at),
    )
