"""The judge of races for approvals: what everybody was told, beside what the store and the world say."""

from __future__ import annotations

import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tests.chaos.approval_oracle import Asked, judge_approvals
from tests.chaos.approval_reading import not_verified, read_asked
from tests.chaos.approval_subject import Deed, Place, Said
from tests.chaos.oracle import Violation
from tests.chaos.subject import Answer
from tests.chaos.world import observe, result_bytes


@dataclass(frozen=True, slots=True)
class Findings:
    """What all parts of the job saw, for the judge."""

    said: tuple[Said, ...]
    answers: tuple[Answer, ...]
    crowds: tuple[tuple[Answer, ...], ...]
    elections: tuple[Election, ...]


@dataclass(frozen=True, slots=True)
class Election:
    """One question for so many people, and what its voters were told."""

    approval_id: str
    needed: int
    said: tuple[Said, ...]


def judge(place: Place, findings: Findings) -> tuple[list[Violation], dict[str, int]]:
    """Compares what everybody was told with the store and the world, and verifies the journal."""
    asked = read_asked(place)
    outcomes = Counter(status for call, status in _outcomes(asked).items() if call.startswith("outcome-"))
    violations = [
        *judge_approvals(observe(place.world), asked),
        *_untold(findings.said, asked),
        *_wrong_answers(findings.answers, asked),
        *(found for crowd in findings.crowds for found in _disagreeing(crowd)),
        *(found for election in findings.elections for found in _miscounted(election, asked)),
        *not_verified(place),
    ]
    return violations, dict(outcomes)


def _outcomes(asked: Asked) -> dict[str, str]:
    """Gives how the newest approval of each call ended."""
    approvals = {approval.id: approval.status for approval in asked.approvals}
    return {call.call: approvals.get(call.approval_id or "", "not there") for call in asked.calls}


def _untold(said: Iterable[Said], asked: Asked) -> Iterator[Violation]:
    """Nobody dies here: whoever decided something was told so, and one decision at most ends an approval."""
    done = {(one.approval_id, one.deed) for one in said if one.is_done}
    effects = {approval.effect_id: approval.id for approval in asked.approvals}
    types = {"approval_received": "approve", "approval_denied": "deny", "tool_call_canceled": "cancel"}
    for call in asked.calls:
        for told in call.story if call.call.startswith("outcome-") else ():
            deed = types.get(told.type)
            if deed is not None and (effects[call.effect_id], deed) not in done:
                yield Violation(
                    "lost decision", call.call, f"{told.type} by {told.by}, who was told that it did not count"
                )
    for approval_id, ends in _ends(done).items():
        if len(ends) > 1:
            yield Violation("two outcomes", approval_id, f"people were told that each counts: {ends}")


def _ends(done: Iterable[tuple[str, Deed]]) -> dict[str, list[Deed]]:
    """An approval may come before a cancellation; a denial allows neither."""
    ends: dict[str, list[Deed]] = defaultdict(list)
    for approval_id, deed in done:
        ends[approval_id].append(deed)
    return {
        name: sorted(deeds)
        for name, deeds in ends.items()
        if "deny" in deeds and ("approve" in deeds or "cancel" in deeds)
    }


# A call whose approval lapsed can still be canceled, before its caller looks or after.
_MEANING: dict[str, tuple[str, ...]] = {
    "consumed": ("value",),
    "denied": ("denied",),
    "canceled": ("canceled",),
    "expired": ("ended", "canceled"),
}


def _wrong_answers(answers: Iterable[Answer], asked: Asked) -> Iterator[Violation]:
    statuses = _outcomes(asked)
    for answer in answers:
        status = statuses[answer.call]
        if answer.kind not in _MEANING.get(status, ()):
            yield Violation(
                "wrong answer", answer.call, f"it is {status}, its caller heard {answer.kind}: {answer.words}"
            )


def _disagreeing(answers: Sequence[Answer]) -> Iterator[Violation]:
    heard = {(answer.kind, result_bytes(answer.value)) for answer in answers}
    if len(heard) != 1 or answers[0].kind not in ("value", "denied"):
        words = sorted({answer.words for answer in answers})
        yield Violation("changed result", answers[0].call, f"{len(heard)} different answers: {sorted(heard)} {words}")


def _person(name: str) -> str:
    """Knows a person by any spelling of their name that voters here use."""
    return unicodedata.normalize("NFKC", name).lower().strip()


def _miscounted(election: Election, asked: Asked) -> Iterator[Violation]:
    (approval,) = (approval for approval in asked.approvals if approval.id == election.approval_id)
    counted = [_person(name) for name in approval.voters]
    told = {_person(one.by) for one in election.said if one.is_done}
    if len(set(counted)) < len(counted):
        yield Violation("counted twice", election.approval_id, f"voters {approval.voters}")
    if set(counted) != told or len(counted) != election.needed:
        detail = f"{election.needed} needed, told {sorted(told)}, counted {sorted(counted)}"
        yield Violation("lost vote", election.approval_id, detail)
    odd = {one.told for one in election.said} - {"done", "voted_already", "not_pending"}
    if odd:
        yield Violation("wrong answer", election.approval_id, f"voters were told {sorted(odd)}")
