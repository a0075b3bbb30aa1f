"""The demo's claims, each judged from what was seen. Every one of them can fail."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from indelible import Approval, Effect, Event
from indelible.cli.demo.agent import AMOUNT, APPROVED, OTHER_AMOUNT, SWAPPED
from indelible.core.journal.chain import Broken, Intact
from indelible.core.values.differences import Difference
from indelible.core.verifying.findings import Report as Verification

INSIDE, BEFORE = "order-123", "order-456"  # the run whose process dies inside the handler, and the other
REFUND, MAIL = "stripe.refund", "email.send"

Report = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Death:
    """Is how a process ended: its exit code, and where it said it was hanging."""

    pid: int
    code: int
    hung: list[str]

    def was_kill(self, where: str) -> bool:
        """Was it killed, and was it there?"""
        return self.code == -signal.SIGKILL and self.hung == [where]


@dataclass(slots=True)
class Seen:
    """Is everything that was measured."""

    inside: Death | None = None
    before: Death | None = None
    asking: Death | None = None
    questions: list[Report] = field(default_factory=list)
    approvals_after_kill: dict[str, list[Approval]] = field(default_factory=dict)
    approved: dict[str, Approval] = field(default_factory=dict)
    swap: list[Difference] = field(default_factory=list)
    swapped_vote: str = "counted"
    approvals: list[Approval] = field(default_factory=list)
    after_kill: dict[str, Effect] = field(default_factory=dict)
    world_after_kill: list[Report] = field(default_factory=list)
    asked: list[Report] = field(default_factory=list)
    world_after_asking: list[Report] = field(default_factory=list)
    probed: list[Report] = field(default_factory=list)
    world_after_probe: list[Report] = field(default_factory=list)
    again: list[Report] = field(default_factory=list)
    world: list[Report] = field(default_factory=list)
    entered: list[Report] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    events: dict[str, list[Event]] = field(default_factory=dict)
    verdicts: dict[str, Intact | Broken] = field(default_factory=dict)
    edited_seq: int = -1
    edited_bytes: int = 0
    verdict_on_edit: Intact | Broken | None = None
    verdict_on_rehash: Intact | Broken | None = None
    amounts: tuple[int | None, int | None] = (None, None)
    pinned: str = ""
    journal: Verification | None = None
    journal_edited: Verification | None = None
    journal_signed_again: Verification | None = None
    opened_seq: int = -1
    altered: list[str] = field(default_factory=list)
    trouble: str | None = None


@dataclass(frozen=True, slots=True)
class Proof:
    """Is one claim: whether it held, a sentence made of measurements, and the measurements."""

    name: str
    held: bool
    says: str
    measured: dict[str, Any]


def judge(seen: Seen) -> list[Proof]:
    """Judges every claim; one that cannot be measured did not hold."""
    proofs = [_judged(claim, seen) for claim in CLAIMS]
    played = played_to_the_end(seen)
    return proofs if played.held else [*proofs, played]


def _judged(claim: Callable[[Seen], Proof], seen: Seen) -> Proof:
    try:
        return claim(seen)
    except Exception as error:
        says = f"{claim.__name__}: could not be measured ({type(error).__name__}: {error})"
        return Proof(claim.__name__, False, says, {})


def played_to_the_end(seen: Seen) -> Proof:
    """Every process did its part; nothing unforeseen happened."""
    reports = (*seen.asked, *seen.probed, *seen.again)
    troubles = [report["error"] for report in reports if report.get("step") == "process"]
    troubles += [seen.trouble] if seen.trouble is not None else []
    says = f"the story could not be played to its end: {'; '.join(troubles)}"
    return Proof("played_to_the_end", not troubles, says, {"troubles": troubles})


def ran_once(seen: Seen) -> Proof:
    """The refund whose process died inside the handler happened once; later processes got its recorded result."""
    death = seen.inside
    assert death is not None
    entries, booked = _entries(seen, REFUND, INSIDE), _booked(seen.world, "refund", INSIDE)
    replays = _replays(seen, REFUND, INSIDE)
    expected = {"id": booked[0]["id"], "amount": booked[0]["amount"]} if booked else None
    held = (
        death.was_kill("inside the handler")
        and [entry["pid"] for entry in entries] == [death.pid]
        and len(_booked(seen.world_after_kill, "refund", INSIDE)) == len(booked) == 1
        and len(replays) >= 2
        and all(report["value"] == expected for report in replays)
    )
    ended = "killed" if death.was_kill("inside the handler") else f"not killed (exit code {death.code})"
    says = (
        f"refund handler ran {len(entries)}x, process {death.pid} {ended} inside it, replayed {len(replays)}x; "
        f"refunds at the provider: {', '.join(entry['id'] for entry in booked) or 'none'}"
    )
    return Proof(
        "ran_once", held, says, {"exit_code": death.code, "entered": entries, "booked": booked, "replays": replays}
    )


def held_in_doubt(seen: Seen) -> Proof:
    """A process that cannot find out is refused, and the refund is not fired again."""
    status = seen.after_kill[INSIDE].status
    report = _report(seen.asked, REFUND, INSIDE)
    booked = len(_booked(seen.world_after_asking, "refund", INSIDE))
    held = status == "processing" and report.get("error") == "EffectInDoubt" and booked == 1
    says = f"restarted: {status} → {report.get('error', 'not refused')}, not guessed; refunds at the provider: {booked}"
    return Proof("held_in_doubt", held, says, {"status_after_kill": status, "report": report, "booked": booked})


def settled_by_probe(seen: Seen) -> Proof:
    """A process with a probe asks the provider and settles the refund; the record says who did."""
    booked = _booked(seen.world_after_probe, "refund", INSIDE)
    effect = _effect(seen, REFUND, INSIDE)
    finished = [e.read() for e in seen.events[INSIDE] if e.effect_id == effect.id and e.type == "tool_call_finished"]
    event = finished[-1]
    actor = event["actor"]["id"]
    held = (
        len(finished) == 1
        and effect.status == "succeeded"
        and effect.detail == {"id": booked[0]["id"], "amount": booked[0]["amount"]}
        and event["actor"]["kind"] == "system"
        and actor == f"probe of {REFUND}"
        and "evidence" in event["commits"]
    )
    found = booked[0]["id"]
    says = (
        f"its probe looked at the provider, found {found} → {effect.status}; event {event['seq']} says by whom: {actor}"
    )
    return Proof(
        "settled_by_probe", held, says, {"actor": event["actor"], "commits": event["commits"], "result": effect.detail}
    )


def mailed_once(seen: Seen) -> Proof:
    """The step after the refund happened once and was replayed."""
    sent, entries = _booked(seen.world, "mail", INSIDE), _entries(seen, MAIL, INSIDE)
    replays = _replays(seen, MAIL, INSIDE)
    held = len(sent) == len(entries) == 1 and len(replays) >= 1
    return Proof(
        "mailed_once",
        held,
        f"mail handler ran {len(entries)}x, mails sent: {len(sent)}, replayed {len(replays)}x",
        {"sent": sent, "replays": replays},
    )


def retried_by_a_person(seen: Seen) -> Proof:
    """The refund whose process died before the handler was held too, until a person allowed the second attempt."""
    death = seen.before
    assert death is not None
    at_death = len(_booked(seen.world_after_kill, "refund", BEFORE))
    until_then = len(_booked(seen.world_after_probe, "refund", BEFORE))
    refused = [_report(reports, REFUND, BEFORE).get("error") for reports in (seen.asked, seen.probed)]
    attempts = [entry["attempt"] for entry in _entries(seen, REFUND, BEFORE)]
    booked = len(_booked(seen.world, "refund", BEFORE))
    released = [e.read()["actor"]["kind"] for e in seen.events[BEFORE] if e.type == "tool_call_released"]
    held = (
        death.was_kill("before the handler")
        and at_death == until_then == 0
        and refused == ["EffectInDoubt", "EffectInDoubt"]
        and released == ["person"]
        and attempts == [2]
        and booked == 1
    )
    ended = "killed" if death.was_kill("before the handler") else f"not killed (exit code {death.code})"
    says = (
        f"process {death.pid} {ended} before the handler: {until_then} refunds, "
        f"refused {refused.count('EffectInDoubt')}x; a person allowed a retry → ran {len(attempts)}x "
        f"(attempt {', '.join(map(str, attempts)) or 'none'})"
    )
    return Proof(
        "retried_by_a_person",
        held,
        says,
        {"exit_code": death.code, "refused": refused, "attempts": attempts, "booked": booked},
    )


def other_arguments_refused(seen: Seen) -> Proof:
    """The same key with another amount is refused, and nothing is fired."""
    reports = [r for r in seen.asked if r.get("step") == "changed" and r.get("run") in (INSIDE, BEFORE)]
    errors = [report.get("error", "not refused") for report in reports]
    entered = [
        e for e in _entries(seen, REFUND) if e["run"] in (INSIDE, BEFORE) and e["pid"] in {r["pid"] for r in reports}
    ]
    held = len(errors) == 2 and set(errors) == {"KeyReused"} and not entered
    says = (
        f"same key with changed arguments → refused ({', '.join(sorted(set(errors)))}), handler entered {len(entered)}x"
    )
    return Proof("other_arguments_refused", held, says, {"reports": reports})


def question_survived(seen: Seen) -> Proof:
    """A process that is killed while it waits for a person takes no question with it, and nothing has run."""
    death = seen.asking
    assert death is not None
    asked = {report["run"]: (report["approval"], report["digest"]) for report in seen.questions if "digest" in report}
    found = {
        run: [(one.id, one.digest) for one in approvals if one.status == "pending"]
        for run, approvals in seen.approvals_after_kill.items()
    }
    booked = [entry for run in (APPROVED, SWAPPED) for entry in _booked(seen.world_after_kill, "refund", run)]
    held = (
        death.was_kill("waiting for a person")
        and asked.keys() == {APPROVED, SWAPPED}
        and found == {run: [question] for run, question in asked.items()}
        and not booked
    )
    ended = "killed" if death.was_kill("waiting for a person") else f"not killed (exit code {death.code})"
    pending = sum(len(questions) for questions in found.values())
    says = (
        f"process {death.pid} {ended} while it waited for a person: {pending} of {len(asked)} questions still stand, "
        f"refunds at the provider: {len(booked)}"
    )
    return Proof("question_survived", held, says, {"exit_code": death.code, "asked": asked, "found": found})


def swapped_arguments_refused(seen: Seen) -> Proof:
    """A call with other arguments than were approved does not run: it is asked about anew, as another question."""
    report = _report(seen.asked, "changed", SWAPPED)
    statuses = [one.status for one in sorted(_approvals(seen, SWAPPED), key=lambda one: one.args_seq)]
    amounts = [(one.path, one.before, one.after) for one in seen.swap]
    entered, booked = _entries(seen, REFUND, SWAPPED), _booked(seen.world, "refund", SWAPPED)
    final = _report(seen.again, "changed", SWAPPED).get("error", "not refused")
    held = (
        seen.approved[SWAPPED].status == "approved"
        and report.get("error") == "ApprovalPending"
        and statuses == ["stale", "denied"]
        and amounts == [("args.amount", AMOUNT, OTHER_AMOUNT)]
        and seen.swapped_vote == "digest"
        and final == "EffectDenied"
        and not entered
        and not booked
    )
    says = (
        f"approved {AMOUNT}, called with {OTHER_AMOUNT} → {report.get('error', 'not refused')}, handler entered "
        f"{len(entered)}x; its approval is {statuses[0]}, a vote by the old digest {_vote(seen.swapped_vote)}"
    )
    measured = {
        "report": report,
        "statuses": statuses,
        "difference": amounts,
        "vote": seen.swapped_vote,
        "final": final,
    }
    return Proof("swapped_arguments_refused", held, says, measured)


def approved_ran_once(seen: Seen) -> Proof:
    """What was approved ran once, with the arguments that were shown, and used the approval up."""
    entries, booked = _entries(seen, REFUND, APPROVED), _booked(seen.world, "refund", APPROVED)
    replays = _replays(seen, REFUND, APPROVED)
    approval = seen.approved[APPROVED]
    statuses = {one.id: one.status for one in _approvals(seen, APPROVED)}
    started = [e.read() for e in seen.events[APPROVED] if e.type == "tool_call_started"]
    held = (
        [entry["attempt"] for entry in entries] == [1]
        and [entry["amount"] for entry in booked] == [AMOUNT]
        and len(replays) == 2
        and statuses == {approval.id: "consumed"}
        and len(started) == 1
        and "approval" in started[0]["commits"]
    )
    says = (
        f"approved once → ran {len(entries)}x with {', '.join(str(entry['amount']) for entry in booked) or 'nothing'}, "
        f"replayed {len(replays)}x; the approval is {', '.join(statuses.values())}"
    )
    return Proof("approved_ran_once", held, says, {"entered": entries, "booked": booked, "approvals": statuses})


def chain_intact(seen: Seen) -> Proof:
    """The record of every run holds together."""
    verdicts = seen.verdicts
    held = bool(verdicts) and all(
        isinstance(v, Intact) and v.checked == len(seen.events[run]) > 0 for run, v in verdicts.items()
    )
    parts = [
        f"{v.checked} in {run} (head {v.head.hash[:8]})" if isinstance(v, Intact) else f"{run} broken at seq {v.seq}"
        for run, v in verdicts.items()
    ]
    says = f"chain {'verified' if held else 'not verified'}: events {', '.join(parts)}"
    return Proof("chain_intact", held, says, {"verdicts": parts})


def edit_caught(seen: Seen) -> Proof:
    """One byte of one event, changed in the file, is found, even with the hash beside it recomputed."""
    seq, edit, rehash = seen.edited_seq, seen.verdict_on_edit, seen.verdict_on_rehash
    held = (
        seen.edited_bytes == 1
        and isinstance(edit, Broken)
        and edit.seq == seq
        and isinstance(rehash, Broken)
        and rehash.seq == seq + 1
    )
    says = (
        f"{seen.edited_bytes} byte of event {seq} edited → {_caught(edit)}; its hash recomputed too → {_caught(rehash)}"
    )
    return Proof("edit_caught", held, says, {"seq": seq, "edit": _caught(edit), "rehash": _caught(rehash)})


def payload_edit_caught(seen: Seen) -> Proof:
    """The refunded amount, changed in the file, is found against the commitment in its event."""
    recorded, edited = seen.amounts
    held = recorded != edited and edited is not None and seen.altered == ["args"]
    verdict = f"caught: not what event {seen.opened_seq} committed to" if seen.altered else "NOT caught"
    return Proof(
        "payload_edit_caught",
        held,
        f"recorded amount edited, {recorded} to {edited} → {verdict}",
        {"altered": seen.altered},
    )


def journal_verified(seen: Seen) -> Proof:
    """All events are under a head that the pinned key signed, and the report says what that rules out."""
    report = seen.journal
    assert report is not None
    events = sum(len(events) for events in seen.events.values())
    out = [attack.replace("_", "-") for attack, is_out in report.ruled_out.items() if is_out]
    held = report.is_verified and report.counts.events > events > 0 and "recompute" in out
    name, key_id, _ = seen.pinned.split("+", 2)
    says = (
        f"journal {report.verdict}: {report.counts.events} events under a head signed by {name} ({key_id}); "
        f"ruled out: {', '.join(out) or 'nothing'}"
    )
    return Proof("journal_verified", held, says, report.as_json())


def journal_edit_caught(seen: Seen) -> Proof:
    """The same edited byte is found by the verifier, which names the entry."""
    report = seen.journal_edited
    assert report is not None
    flaw = report.flaw
    held = report.verdict == "tampered" and flaw is not None and (flaw.run, flaw.seq) == (INSIDE, seen.edited_seq)
    found = "nothing" if flaw is None else f"entry {flaw.index} (run {flaw.run}, event {flaw.seq})"
    says = f"{seen.edited_bytes} byte edited in the database → journal {report.verdict}, named: {found}"
    return Proof("journal_edit_caught", held, says, report.as_json())


def other_key_refused(seen: Seen) -> Proof:
    """A journal that somebody else signed anew is not verified, however whole it is."""
    report = seen.journal_signed_again
    assert report is not None
    genuine = seen.journal
    is_about_something = genuine is not None and genuine.is_verified and bool(seen.events[INSIDE])
    held = is_about_something and report.verdict != "verified" and not any(report.ruled_out.values())
    why, _, _ = report.why.rpartition(": ")  # what follows guesses at the cause
    says = f"every head signed again with another key → {report.verdict.replace('_', ' ')}: {why or report.why}"
    return Proof("other_key_refused", held, says, report.as_json())


CLAIMS = (
    ran_once,
    held_in_doubt,
    settled_by_probe,
    mailed_once,
    retried_by_a_person,
    other_arguments_refused,
    question_survived,
    swapped_arguments_refused,
    approved_ran_once,
    chain_intact,
    edit_caught,
    payload_edit_caught,
    journal_verified,
    journal_edit_caught,
    other_key_refused,
)


def _entries(seen: Seen, tool: str, run: str | None = None) -> list[Report]:
    return [entry for entry in seen.entered if entry["tool"] == tool and run in (None, entry["run"])]


def _booked(world: list[Report], kind: str, run: str) -> list[Report]:
    return [entry for entry in world if entry["kind"] == kind and entry["run"] == run]


def _report(reports: list[Report], step: str, run: str) -> Report:
    return next((report for report in reports if report.get("step") == step and report.get("run") == run), {})


def _replays(seen: Seen, tool: str, run: str) -> list[Report]:
    """Gives the reports of processes that got a value without entering the handler."""
    entered_by = {entry["pid"] for entry in _entries(seen, tool, run)}
    reports = [_report(reports, tool, run) for reports in (seen.asked, seen.probed, seen.again)]
    return [report for report in reports if "value" in report and report["pid"] not in entered_by]


def _vote(code: str) -> str:
    return "COUNTED" if code == "counted" else f"is refused ({code})"


def _approvals(seen: Seen, run: str) -> list[Approval]:
    return [approval for approval in seen.approvals if approval.run_id == run]


def _effect(seen: Seen, tool: str, run: str) -> Effect:
    return next(effect for effect in seen.effects if effect.tool == tool and effect.run_id == run)


def _caught(verdict: Intact | Broken | None) -> str:
    return f"caught at seq {verdict.seq}" if isinstance(verdict, Broken) else "NOT caught"
