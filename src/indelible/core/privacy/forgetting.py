"""What may be erased, what may not, and how an erasure is told on the record. Pure.

Events stay for ever and hold no payload. What they commit to can go: the event `payload_erased` names it, in the same
transaction, and the record still verifies. What is made of an effect's arguments goes with them: approvals and grants
hold hashes of them, verdicts and charges amounts, and reasons of votes whatever people said about them. What is told of
a run goes when the run is over; until then whoever resumes it needs it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple, Protocol

from indelible.core.effects.calls import OWN_RECORDS
from indelible.core.effects.effect import ENDED, Effect
from indelible.core.events import Event, facts_json
from indelible.core.runs.run import OVER
from indelible.core.sheets import Sheet

Basis = Literal["request", "subject", "retention"]
ERASED = "payload_erased"
HOLD_PLACED = "hold_placed"
HOLD_LIFTED = "hold_lifted"
HOLDS_RUN = "indelible:holds"
"""Is the run in which holds on subjects are placed and lifted; a hold on a run stands in that run."""

_MADE_OF_ARGS = frozenset({"args", "approval", "grant", "charges", "policy"})
_NEEDED_TO_RESUME = frozenset({"run", "side_effect_key"})
_SAVED = frozenset({"checkpoint", "state"})
_OF_RUN = _NEEDED_TO_RESUME | _SAVED | {"payload"}
TOLD_IN_RUN = frozenset({"payload", "state", "args", "result", "error"})
"""Are the fields that may hold anything: what was told by hand, saved by an agent, passed to a tool or returned."""
_OF_FRAMEWORKS = frozenset({"callback", "langchain", "mcp", "provedex"})
"""The namespaces of events that callbacks of frameworks and the MCP gate record, now and in earlier versions."""
_OPEN_QUESTION = frozenset({"pending", "approved"})
OUT_OF_HAND = ("sent", "dead")
"""Are the statuses of messages that nobody sends any more."""
POLICY_STAYS = "calls were judged by it, and those to come are; put another one in force instead"
# Keeps an event's body far below its limit, whatever the names of run and actor are.
MOST_AT_ONCE = 500

Payloads = Sequence[tuple[int, str]]
"""Names payloads of one run: the number of the event, and the field."""


class ForgettingStore(Protocol):
    """Finds what may be erased. Erasing itself is a `Record` command; it holds no rules."""

    def of_subject(self, tenant: str, subject_json: bytes) -> list[tuple[str, int]]:
        """MUST list run and number of every event whose payload `subject` is this and has not been erased."""

    def prunable(self, tenant: str, before: datetime, after: str, limit: int) -> list[Prunable]:
        """Lists effects that ended, did not move since `before` and still have payloads, with ids above `after`.

        MUST list them in the order of their ids. MUST NOT list one that has not ended.
        """

    def refusals(self, tenant: str, after: tuple[str, int], limit: int) -> list[Event]:
        """Lists events that tell of calls refused before they were effects and that still have payloads.

        MUST list them in the order of runs and numbers, from the first above `after` on. What somebody told by hand
        under the same name is listed too.
        """

    def drop(self, tenant: str, sheets: Sequence[Sheet]) -> int:
        """Drops sheets that no event commits to, and says how many; MUST leave alone what has changed since."""

    def holds(self, tenant: str) -> list[Event]:
        """MUST list every event that placed or lifted a hold, each run's in their order."""

    def redaction_check(self) -> str | None:
        """Gives what this ledger keeps to know its redaction key again."""

    def keep_redaction_check(self, check: str) -> str:
        """Keeps it if none is kept yet, and MUST give the one that is kept, whoever was first."""

    def clear_away(self, rewrite: bool | None) -> list[str]:
        """Clears away what deleted rows leave behind in the store's own files; says what it could not.

        `rewrite` says whether the files are written anew, which is thorough and keeps writers waiting; None is the
        store's usual way.
        """


class Prunable(NamedTuple):
    """Names an effect that has ended, and where its payloads begin."""

    effect_id: str
    run_id: str
    opened_seq: int


@dataclass(frozen=True, slots=True)
class Hold:
    """Keeps the payloads of a run or of a subject from being erased; `subject` is the subject's mark."""

    id: str
    run_id: str | None
    subject: str | None
    by: str
    at: str


@dataclass(frozen=True, slots=True)
class Kept:
    """Says what was not erased, and why not."""

    run_id: str
    effect_id: str | None
    why: str


@dataclass(frozen=True, slots=True)
class Selection:
    """Is what may go of one run, and what has to stay."""

    erased: tuple[tuple[int, str], ...]
    kept: tuple[Kept, ...]


@dataclass(frozen=True, slots=True)
class Erasure:
    """Says how many payloads of which run were erased (or would be), what was kept and why, and what is left to do."""

    erased: Mapping[str, int]
    kept: tuple[Kept, ...] = ()
    remarks: tuple[str, ...] = ()
    is_rehearsal: bool = False

    @property
    def count(self) -> int:
        """Counts the payloads."""
        return sum(self.erased.values())


def tells_of_model(event: Event, tool: str | None) -> bool:
    """Say whether an event tells what a model, a client or a person was asked or said, or what a framework recorded.

    Args:
        event: The event.
        tool: The tool of its effect, or None if it is about none.
    """
    namespace, dot, _ = event.type.partition(".")
    return tool in OWN_RECORDS if event.effect_id is not None else bool(dot) and namespace in _OF_FRAMEWORKS


def why_unknown(run_id: str, values: int) -> str:
    """Say why values in a run about a subject are kept that nobody said are about that subject."""
    return (
        f"{values} more values were told, saved or passed in this run, and nothing says whom they are about; look at "
        f"them, and erase the run if need be: indelible erase --run {run_id}"
    )


def holds_in(events: Iterable[Event]) -> list[Hold]:
    """Gives the holds that were placed and not lifted; a hold is lifted in the run it was placed in."""
    placed: dict[tuple[str, str], Hold] = {}
    for event in events:
        body = event.read()
        facts = body["facts"]
        place = (event.run_id, facts["hold"])
        if body["type"] == HOLD_LIFTED:
            placed.pop(place, None)
        else:
            subject = facts.get("subject")
            run_id = event.run_id if subject is None else None
            placed[place] = Hold(facts["hold"], run_id, subject, body["actor"]["id"], body["at"])
    return list(placed.values())


def why_needed(effect: Effect) -> str | None:
    """Says why an effect's payloads are still needed, or None when they are not."""
    if effect.status in ENDED:
        return None
    if is_cancelable(effect):
        return f"it is {effect.status} and needs its arguments; cancel it first: indelible effects cancel {effect.id}"
    if effect.status == "in_doubt":
        return f"it is in doubt and needs its arguments; settle it first: indelible effects settle {effect.id}"
    return "its handler may be running; wait until it has ended"


def is_cancelable(effect: Effect) -> bool:
    """May a person withdraw it, so that its payloads can go?"""
    return effect.status in ("requires_approval", "ready")


def why_resumable(run_id: str, status: str) -> str | None:
    """Says why what a run is gone on with is still needed, or None when the run is over."""
    if status in OVER:
        return None
    return f"it is {status} and needs what it is gone on with; end it first: indelible runs cancel {run_id}"


def is_needed_to_resume(name: str, *, is_named: bool) -> bool:
    """Is this field of an event about no effect needed while its run can be resumed?

    Without a run's own sheet nothing can be decided about it, and without the keys nobody knows what must not be
    repeated. What was saved goes only if somebody names it: a run can go on without, by its events alone.
    """
    return name in _NEEDED_TO_RESUME or (name in _SAVED and not is_named)


def goes_with_run(event_type: str, name: str) -> bool:
    """Is this field of an event about no effect erased when its run is?"""
    return name in _OF_RUN or (name == "reason" and event_type.startswith("run_"))


def is_message_over(approval_status: str) -> bool:
    """Is what a message was about decided, so that nobody needs to know any more what became of the message?"""
    return approval_status not in _OPEN_QUESTION


def why_held(hold: Hold) -> str:
    """Says what a hold means for whoever wants to erase."""
    lifting = f"indelible hold remove {hold.id} -m REASON"
    return f"hold {hold.id}, placed by {hold.by} at {hold.at}; lift it first: {lifting}"


def select(run_id: str, present: Payloads, effect_of: Mapping[int, str | None], whys: Mapping[str, str]) -> Selection:
    """Chooses among the payloads that are there: those go whose effect nobody gave a reason to keep."""
    erased: list[tuple[int, str]] = []
    kept: dict[str, Kept] = {}
    for seq, name in sorted(present):
        effect_id = effect_of[seq]
        if effect_id is not None and effect_id in whys:
            kept[effect_id] = Kept(run_id, effect_id, whys[effect_id])
        else:
            erased.append((seq, name))
    return Selection(tuple(erased), tuple(kept.values()))


def goes_with_args(event_type: str, name: str) -> bool:
    """Is this field of an effect's event erased when the effect's arguments are?"""
    return name in _MADE_OF_ARGS or (name == "reason" and event_type.startswith("approval_"))


def is_policy(event_type: str, name: str) -> bool:
    """Is this the policy that an event put in force? It is about nobody, and everything is judged by it."""
    return (event_type, name) == ("policy_applied", "policy")


def portions(payloads: Payloads) -> list[Payloads]:
    """Cuts an erasure into pieces that one event each can tell."""
    return [payloads[start : start + MOST_AT_ONCE] for start in range(0, len(payloads), MOST_AT_ONCE)]


def erased_facts(basis: Basis, payloads: Payloads) -> bytes:
    """Gives what the event of an erasure says in clear: where something was, never what."""
    by_seq: dict[int, list[str]] = {}
    for seq, name in sorted(payloads):
        by_seq.setdefault(seq, []).append(name)
    erased = [{"fields": names, "seq": seq} for seq, names in by_seq.items()]
    return facts_json({"basis": basis, "erased": erased})


def hold_facts(hold_id: str, subject_json: bytes | None) -> bytes:
    """Gives what the event of a hold says in clear; a subject is named by its mark."""
    facts: dict[str, Any] = {"hold": hold_id}
    if subject_json is not None:
        facts["subject"] = mark_in(subject_json)
    return facts_json(facts)


def mark_in(subject_json: bytes) -> str:
    """Gives the mark in what is recorded of a subject."""
    return subject_json.decode().strip('"')
