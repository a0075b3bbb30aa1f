"""The judge of approvals: what the events of a call tell, in their order, must be a story that may happen.

It knows nothing of the library's rules but this table of which event may follow which, written down once more: a rule
that is wrong in the library is not wrong here in the same way.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tests.chaos.oracle import Kind, Violation
from tests.chaos.world import Seen

# Where the story of a call can stand, and how its effect and its newest approval then have to read.
AGREE: Mapping[str, frozenset[tuple[str, str | None]]] = {
    "pending": frozenset({("requires_approval", "pending")}),
    "approved": frozenset({("ready", "approved")}),
    "lapsed": frozenset({("requires_approval", "expired"), ("requires_approval", "stale")}),
    "denied": frozenset({("denied", "denied")}),
    "canceled": frozenset({("canceled", "canceled")}),
    "withdrawn": frozenset({("canceled", "expired"), ("canceled", "stale")}),
    "running": frozenset({("processing", "consumed")}),
    "doubt": frozenset({("in_doubt", "consumed")}),
    "settled": frozenset({("succeeded", "consumed"), ("failed", "consumed")}),
}
MOVES: Mapping[tuple[str, str], str] = {
    ("unasked", "approval_requested"): "pending",
    ("lapsed", "approval_requested"): "pending",
    ("pending", "approval_voted"): "pending",
    ("pending", "approval_escalated"): "pending",
    ("pending", "approval_edited"): "pending",
    ("approved", "approval_edited"): "pending",
    ("pending", "approval_received"): "approved",
    ("pending", "approval_revoked"): "pending",
    ("approved", "approval_revoked"): "pending",
    ("pending", "approval_denied"): "denied",
    ("pending", "approval_expired"): "lapsed",
    ("approved", "approval_expired"): "lapsed",
    ("pending", "approval_stale"): "lapsed",
    ("approved", "approval_stale"): "lapsed",
    ("pending", "tool_call_canceled"): "canceled",
    ("approved", "tool_call_canceled"): "canceled",
    ("lapsed", "tool_call_canceled"): "withdrawn",
    ("approved", "tool_call_started"): "running",
    ("running", "tool_call_released"): "approved",
    ("running", "tool_call_in_doubt"): "doubt",
    ("running", "tool_call_finished"): "settled",
    ("doubt", "tool_call_finished"): "settled",
}
# These say something about a call and move nothing.
REMARKS = frozenset({"approval_viewed", "tool_call_late", "policy_checked"})
# What those who are to be told have to be told after which event.
NEWS = {
    "approval_requested": "requested",
    "approval_received": "approved",
    "approval_denied": "denied",
    "approval_expired": "expired",
    "approval_stale": "stale",
    "approval_edited": "edited",
    "tool_call_canceled": "canceled",
}
_BEGINS = "approval_requested"


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """One event about a call: what it tells, who did it, and when, as the record has it."""

    type: str
    by: str
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredApproval:
    """One approval as the store has it; `at` texts sort by time. `channels` are those that are to be told."""

    id: str
    effect_id: str
    status: str
    digest: str
    expires_at: str
    replaces: str | None = None
    voters: tuple[str, ...] = ()
    channels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCall:
    """One call that asks: its effect, and its story as events tell it."""

    call: str
    effect_id: str
    status: str
    approval_id: str | None
    story: Sequence[Told] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMessage:
    """One message that has to go out, or went; `about` is what it says, without a number."""

    id: str
    approval_id: str
    about: str
    channel: str
    status: str = "due"
    is_skipped: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the store says of everything that was asked."""

    calls: Sequence[StoredCall] = ()
    approvals: Sequence[StoredApproval] = ()
    messages: Sequence[StoredMessage] = ()


def judge_approvals(seen: Seen, asked: Asked) -> list[Violation]:
    """Gives every violation of what approvals promise; an empty list when all is well."""
    of_effect: dict[str, list[StoredApproval]] = defaultdict(list)
    for approval in asked.approvals:
        of_effect[approval.effect_id].append(approval)
    return [
        *_two_effects(asked.calls),
        *(found for call in asked.calls for found in _judge_call(call, in_order(of_effect[call.effect_id]))),
        *_silence(asked),
        *_executions(seen, asked.calls),
        *_lost_decisions(seen, asked),
    ]


def in_order(approvals: Iterable[StoredApproval]) -> list[StoredApproval]:
    """Gives the approvals of one effect in the order in which they replaced each other; strays come last."""
    left = {approval.replaces: approval for approval in approvals}
    ordered: list[StoredApproval] = []
    name: str | None = None
    while name in left:
        ordered.append(left.pop(name))
        name = ordered[-1].id
    return [*ordered, *left.values(), *(each for each in approvals if each not in (*ordered, *left.values()))]


def _two_effects(calls: Sequence[StoredCall]) -> Iterator[Violation]:
    for call, count in Counter(each.call for each in calls).items():
        if count > 1:
            yield Violation("two records of one call", call, f"{count} effects")


def _judge_call(call: StoredCall, approvals: Sequence[StoredApproval]) -> Iterator[Violation]:
    state = "unasked"
    for told in call.story:
        if told.type not in REMARKS:
            yield from _judge_move(call, state, told)
            state = MOVES.get((state, told.type), state)
    for approval, told in _by_round(call, approvals):
        yield from _judge_time(call, approval, told)
    yield from _judge_end(call, state, sum(told.type == _BEGINS for told in call.story), approvals)


def _judge_move(call: StoredCall, state: str, told: Told) -> Iterator[Violation]:
    if (state, told.type) in MOVES:
        return
    kind: Kind = "two outcomes"
    if told.type == _BEGINS:
        kind = "asked twice"
    elif told.type == "tool_call_started":
        kind = "duplicate effect" if state in ("running", "doubt", "settled") else "executed unapproved"
    yield Violation(kind, call.call, f"{told.type} by {told.by} when it was {state}")


def _judge_time(call: StoredCall, approval: StoredApproval, told: Told) -> Iterator[Violation]:
    """An event is stamped before it is decided, so one that is stamped too late was decided too late."""
    if told.type in ("approval_received", "approval_voted", "tool_call_started") and told.at >= approval.expires_at:
        yield Violation(
            "late decision", call.call, f"{told.type} at {told.at}, {approval.id} ended {approval.expires_at}"
        )


def _judge_end(call: StoredCall, state: str, rounds: int, approvals: Sequence[StoredApproval]) -> Iterator[Violation]:
    if len(approvals) != rounds:
        yield Violation("asked twice", call.call, f"{len(approvals)} approvals for {rounds} requests")
    if state == "unasked":
        yield Violation("executed unapproved", call.call, f"it is {call.status}, and nobody was asked")
        return
    newest = approvals[-1] if approvals else None
    found = (call.status, None if newest is None else newest.status)
    if found not in AGREE[state] or (newest is not None and newest.id != call.approval_id):
        yield Violation("approval disagrees", call.call, f"effect and approval are {found}, the events say {state}")
    for earlier in approvals[:-1]:
        if earlier.status not in ("expired", "stale"):
            yield Violation("two outcomes", call.call, f"{earlier.id} was replaced and is {earlier.status}")


def _silence(asked: Asked) -> Iterator[Violation]:
    """Every event that somebody is to be told of has its message, and no message is about nothing."""
    written = Counter((message.approval_id, message.channel, message.about) for message in asked.messages)
    due: Counter[tuple[str, str, str]] = Counter()
    of_effect: dict[str, list[StoredApproval]] = defaultdict(list)
    for approval in asked.approvals:
        of_effect[approval.effect_id].append(approval)
    for call in asked.calls:
        rounds = in_order(of_effect[call.effect_id])
        for approval, told in _by_round(call, rounds):
            is_over = told.type == "tool_call_canceled" and approval.status != "canceled"
            if told.type in NEWS and not is_over:
                due.update((approval.id, channel, NEWS[told.type]) for channel in approval.channels)
    for (approval_id, channel, about), count in (due - written).items():
        yield Violation("lost notification", approval_id, f"{count} times {channel} is not told that it is {about}")
    news = {name: count for name, count in (written - due).items() if name[2] in NEWS.values()}
    for (approval_id, channel, about), count in news.items():
        if approval_id in {approval.id for approval in asked.approvals}:
            yield Violation("lost notification", approval_id, f"{count} times {channel} is told for nothing: {about}")


def _by_round(call: StoredCall, approvals: Sequence[StoredApproval]) -> Iterator[tuple[StoredApproval, Told]]:
    """Gives each event with the approval that was the question then."""
    rounds = -1
    for told in call.story:
        rounds += told.type == _BEGINS
        if 0 <= rounds < len(approvals):
            yield approvals[rounds], told


def judge_sending(sent: Iterable[str], asked: Asked) -> Iterator[Violation]:
    """Gives what is wrong once everything due was sent; a message may go twice after a crash, but under one id."""
    gone = set(sent)
    for message in asked.messages:
        if message.status != "sent":
            yield Violation("lost notification", message.id, f"it is {message.status} after all was sent")
        elif not message.is_skipped and message.id not in gone:
            yield Violation("lost notification", message.id, "it is marked as sent, and nobody got it")
    for name in gone - {message.id for message in asked.messages}:
        yield Violation("lost notification", name, "somebody got it, and it is not on record")


def _executions(seen: Seen, calls: Sequence[StoredCall]) -> Iterator[Violation]:
    """Compares what happened outside with the starts that the record has, each of which the story has judged."""
    started = {each.call: sum(told.type == "tool_call_started" for told in each.story) for each in calls}
    statuses = {each.call: each.status for each in calls}
    for call, count in Counter(touch.call for touch in seen.touches).items():
        if count > started.get(call, 0):
            yield Violation(
                "executed unapproved", call, f"happened {count} times, started {started.get(call, 0)} times"
            )
        if count > 1:
            yield Violation("duplicate effect", call, f"happened {count} times")
        if statuses.get(call) in ("denied", "canceled"):
            yield Violation("executed unapproved", call, f"happened, and is {statuses[call]}")
    happened = {touch.call for touch in seen.touches}
    for call, status in statuses.items():
        if status == "succeeded" and call not in happened:
            yield Violation("success without effect", call, "recorded, but it never happened")


def decision_name(deed: str, approval_id: str, by: str) -> str:
    """Names a decision in the world's file of acknowledgements."""
    return f"{deed} {approval_id} {by}"


_DEEDS = {
    "approve": ("approval_received", "approval_voted"),
    "deny": ("approval_denied",),
    "cancel": ("tool_call_canceled",),
    "edit": ("approval_edited",),
    "take back": ("approval_revoked",),
    "view": ("approval_viewed",),
}


def _lost_decisions(seen: Seen, asked: Asked) -> Iterator[Violation]:
    """Whoever was told that their decision counts finds it on the record."""
    effects = {approval.id: approval.effect_id for approval in asked.approvals}
    kept = {(each.effect_id, told.type, told.by) for each in asked.calls for told in each.story}
    for ack in dict.fromkeys(seen.acks):
        deed, approval_id, by = _read_decision(ack.call)
        if deed and not any((effects.get(approval_id, ""), type_, by) in kept for type_ in _DEEDS[deed]):
            yield Violation("lost decision", approval_id, f"{by} was told that {deed} counts, and the record is silent")


def _read_decision(name: str) -> tuple[str, str, str]:
    for deed in _DEEDS:
        approval_id, _, by = name.removeprefix(f"{deed} ").partition(" ")
        if name.startswith(f"{deed} apr_"):
            return deed, approval_id, by
    return "", "", ""
