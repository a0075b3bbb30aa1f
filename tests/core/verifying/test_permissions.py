"""Permissions are counted again: whoever changes one, and signs it, is still caught and named."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from indelible.core.approvals import asking
from indelible.core.approvals.approval import Approval, Escalation, Need, Person, Vote, vote_message
from indelible.core.approvals.grants import Delegation, GrantTerms, delegation_sheet, grant_ref, grant_sheet, read_grant
from indelible.core.commands import Record
from indelible.core.effects.effect import Actor
from indelible.core.effects.identity import Ref
from indelible.core.effects.stops import STOPS_RUN, Stop, stop_sheet
from indelible.core.events import facts_json
from indelible.core.people import person as people
from indelible.core.people.credentials import CREDENTIALS_RUN, Credential, credential_sheet
from indelible.core.people.person import PEOPLE_RUN
from indelible.core.people.sheets import person_sheet
from indelible.core.people.vouching import ProviderRules, provider_sheet, read_allowed
from indelible.core.privacy.encryption import DataKey
from indelible.core.sheets import Sheet, body_of
from indelible.core.verifying.findings import Caught
from indelible.core.verifying.permissions import Numbers
from tests.core.explored import Path, examine, pinned
from tests.core.forged import Journal, changed, leaves
from tests.core.making import (
    ADA,
    AGENT,
    BO,
    CY,
    HOUR,
    NOON,
    REF,
    SECOND,
    Shelf,
    allows,
    amend,
    asks,
    attend,
    cast,
    charge,
    finish,
    open_command,
    read_edit,
    refuses,
    relinquish,
    reopen,
    show_to,
    stamp,
    take_back,
)

SECRETS = {name: Ed25519PrivateKey.from_private_bytes(name[:1].encode() * 32) for name in ("ada", "bo")}
KEYS = {name: secret.public_key().public_bytes_raw() for name, secret in SECRETS.items()}
PEOPLE = {"ada": Person(("lead",), KEYS["ada"]), "bo": Person(("lead", "ops"), KEYS["bo"])}
LATER = Escalation(HOUR, {"dee": Person(("ops",))})
VERDICT = asks(Need(1, "lead"), Need(1, "ops"), people=PEOPLE, escalations=(LATER,), charges=(charge(1, 90),))
GIVER, USER, OTHER_USER = (Ref("default", f"run-{number}", f"{number:064x}") for number in (2, 3, 4))
TERMS = GrantTerms(count=3, until=NOON + timedelta(days=9))


def opening(path: Path, ref: Ref = REF, **words: Any) -> None:
    number = len(path.events)
    told: Any = {"effect_id": f"eff_{number}", "token": f"{number:032x}", "stamp": stamp(path.shelf.now, AGENT)}
    command = open_command(ref=ref, run_id=ref.scope, **{**told, "verdict": VERDICT, **words})
    found = path.shelf.effects.get(ref)
    is_edited = found is not None and found.args_json != command.args_json
    path.send(replace(command, edit=read_edit(found)) if found is not None and is_edited else command)


def fact(path: Path, type_: str, sheet: Any, **words: Any) -> None:
    told: Any = {"tenant": "default", "run_id": "indelible:approvals", "committed": {"reason": b'"so"'}, **words}
    facts = facts_json({"id": sheet.id})
    path.send(Record(event_type=type_, stamp=stamp(path.shelf.now, ADA), facts=facts, sheet=sheet, **told))


def signed(path: Path, by: Actor, **words: Any) -> Any:
    about = path.shelf.approval()
    signature = SECRETS[by.id].sign(vote_message(about.digest, True))
    return cast(about, by, at=path.shelf.now, signature=signature, **words)


def whole_story() -> Path:
    """Asks, escalates, votes, takes back, edits, delegates, grants, uses, hands back, uses, and uses the grant."""
    path = Path(Shelf())
    delegation = Delegation(id="dlg_1", giver="bo", to="cy", until=NOON + timedelta(days=9))
    fact(path, "delegation_given", delegation_sheet(delegation))
    opening(path, subject_json=b'"' + b"ab" * 32 + b'"')
    path.send(show_to(path.shelf.approval()))
    path.shelf.now += 2 * HOUR
    path.send(attend(path.shelf.approval(), path.shelf.now))
    path.send(signed(path, ADA))
    path.send(take_back(path.shelf.approval(), at=path.shelf.now))
    path.send(amend(path.shelf.approval(), Actor("dee"), at=path.shelf.now, verdict=VERDICT))
    path.send(signed(path, ADA))
    path.send(cast(path.shelf.approval(), CY, at=path.shelf.now, delegation_id="dlg_1"))
    opening(path)
    path.send(relinquish(path.claims[-1], at=path.shelf.now))
    opening(path)
    path.send(finish(path.claims[-1], at=path.shelf.now))
    return granted(path)


def granted(path: Path) -> Path:
    """Grants with an approval what two calls of other runs do, and ends the grant."""
    opening(path, GIVER, verdict=asks())
    vote = cast(path.shelf.approval(GIVER), at=path.shelf.now, grant=TERMS, grant_id="grt_1", pinned=pinned())
    path.send(vote)
    for ref in (USER, OTHER_USER):
        opening(path, ref, verdict=asks(), grants={"grt_1": pinned()})
        path.send(finish(path.claims[-1], at=path.shelf.now))
    fact(path, "grant_ended", grant_sheet(read_grant(path.shelf.sheets[grant_ref("grt_1")]).withdrawn()))
    return path


STORY = Journal(whole_story())


def caught(events: Any, shown: Any, **words: Any) -> Caught:
    with pytest.raises(Caught) as found:
        examine(events, shown, **words)
    return found.value


def test_a_whole_story_is_believed() -> None:
    kinds = {event.type for event in STORY.events}
    assert {"approval_escalated", "approval_edited", "approval_revoked", "approval_voted", "grant_ended"} <= kinds
    found = examine(STORY.events, STORY.shown).permissions
    assert (found.used, found.signatures) == (2, 2)


def test_every_change_of_every_member_of_every_sheet_is_caught_and_named() -> None:
    """Each state of an approval or grant follows from the one before, so no member can be told otherwise."""
    count = 0
    for index, event in enumerate(STORY.events):
        for field in STORY.shown.get((event.run_id, event.seq), {}).keys() & {"approval", "grant"}:
            for place in leaves(STORY.value(index, field)):
                if place == ():
                    continue
                count += 1
                retold = STORY.retold(index, field, lambda value, place=place: changed(value, place))
                flaw = caught(*retold).flaw
                assert flaw.run is not None, (place, flaw)
                assert flaw.index is not None
                assert flaw.seq is not None
    assert count > 700


def put(**members: Any) -> Callable[[Any], Any]:
    return lambda value: {**value, **members}


def vote_with(**members: Any) -> Callable[[Any], Any]:
    """Changes the newest vote."""
    return lambda value: {**value, "votes": [*value["votes"][:-1], {**value["votes"][-1], **members}]}


def question_with(**members: Any) -> Callable[[Any], Any]:
    return lambda value: {**value, "question": {**value["question"], **members}}


FORGED: dict[str, tuple[str, int, str, Callable[[Any], Any], str]] = {
    "approved by nobody": ("approval_received", 0, "approval", put(votes=[]), "no vote came"),
    "a vote of somebody else": ("approval_voted", 0, "approval", vote_with(by="bo"), "not by whom it says"),
    "a vote of another time": ("approval_voted", 0, "approval", vote_with(at="2030-01-01T00:00:00.000000Z"), "of then"),
    "a status of another event": ("approval_voted", 0, "approval", put(status="approved"), "another status"),
    "another effect's": ("approval_voted", 0, "approval", put(effect="eff_x"), "another effect_id"),
    "another run's": ("approval_voted", 0, "approval", put(run="run-7"), "another run_id"),
    "another tenant's": ("approval_requested", 0, "approval", put(place=["x", "y", "z"]), "another tenant"),
    "another key's": ("approval_requested", 0, "approval", put(place=["default", "y", "z"]), "another key"),
    "asked by somebody else": (
        "approval_requested",
        0,
        "approval",
        put(requester={"id": "eve", "kind": "person", "via": "process"}),
        "another requester",
    ),
    "asked with a vote already": ("approval_requested", 0, "approval", put(version=2), "another version"),
    "in the place of another": ("approval_requested", 0, "approval", put(replaces="apr_x"), "another replaces"),
    "about other arguments": ("approval_requested", 0, "approval", put(digest="0" * 64), "another digest"),
    "about arguments told elsewhere": ("approval_edited", 0, "approval", put(args_seq=0), "another args_seq"),
    "edited, and the votes stay": ("approval_edited", 0, "approval", put(editors=["eve"]), "another editors"),
    "fewer needed from now on": (
        "approval_voted",
        1,
        "approval",
        question_with(needs=[{"count": 1, "role": "lead"}]),
        "another question",
    ),
    "used by another attempt": ("tool_call_started", 0, "approval", put(attempt=7), "another attempt"),
    "a version left out": ("tool_call_started", 0, "approval", put(version=99), "another version"),
    "escalated further than there is": ("approval_escalated", 0, "approval", put(escalated=5), "another escalated"),
    "under another policy": ("approval_requested", 0, "policy", put(policy="other"), "another policy"),
    "refused, and it went on": ("approval_requested", 0, "policy", put(decision="refuse"), "its policy says refuse"),
    "a grant that nobody named": ("approval_received", 0, "approval", put(grant="grt_9"), "another grant"),
    "a time that none has": ("approval_requested", 0, "approval", put(asked_at="2030-02-31T00:00:00.000000Z"), "read"),
    "no JSON": ("approval_requested", 0, "approval", lambda value: b"\xff", "not written canonically"),
    "a digest that is no hash": ("approval_requested", 0, "approval", put(digest="0" * 63), "digest is no hash"),
    "a number that no other language reads": (
        "approval_requested",
        0,
        "approval",
        put(version=2**53),
        "none of version",
    ),
    "charges that are no amount": (
        "approval_requested",
        0,
        "charges",
        lambda value: b'[["spend","NaN","90",3600000000]]',
        "charges are none",
    ),
    "charges that are none": ("approval_requested", 0, "charges", lambda value: b"[1]", "charges are none"),
    "charges written otherwise": (
        "approval_requested",
        0,
        "charges",
        lambda value: b'[["spend","1","90","3600000000"]]',
        "charges are none",
    ),
    "a policy that is none": ("approval_requested", 0, "policy", lambda value: b"{}", "no verdict"),
    "a policy that cannot be read": (
        "approval_requested",
        0,
        "policy",
        lambda value: b"{",
        "policy is not written canonically",
    ),
}


@pytest.mark.parametrize(("type_", "number", "field", "change", "why"), FORGED.values(), ids=FORGED)
def test_what_was_forged_is_caught_by_its_name(
    type_: str, number: int, field: str, change: Callable[[Any], Any], why: str
) -> None:
    index = STORY.index(type_, number)
    flaw = caught(*STORY.retold(index, field, change)).flaw
    assert (flaw.index, flaw.run, flaw.seq) == (index, "run-1", STORY.events[index].seq)
    assert re.search(why, flaw.what), flaw


# ── a writer that does not keep to the rules ─────────────────────────────────────────────────────────────────────────


def any_vote(approval: Approval, vote: Vote, digest: str | None, kind: str, now: datetime) -> Approval:
    """Counts whatever comes."""
    counted = replace(approval, version=approval.version + 1, votes=(*approval.votes, vote))
    return replace(counted, status="approved") if vote.is_approval else replace(counted, status="denied")


def asked(**question: Any) -> Path:
    path = Path(Shelf())
    opening(path, verdict=asks(**{"people": PEOPLE, **question}), principal="pat")
    return path


LOOSE: dict[str, tuple[dict[str, Any], list[Any], str]] = {
    "by the requester": ({"people": None}, [Actor("agent")], "was asked for by agent"),
    "by its principal": ({"people": None}, [Actor("PAT")], "was asked for by PAT"),
    "by a program": ({}, [Actor("ada", "system")], "is decided by people"),
    "by a stranger": ({}, [Actor("eve")], "is not for eve to decide"),
    "by one person in two spellings": ({"needs": (Need(2),)}, [ADA, Actor("\uff21da")], "was already decided by"),
    "too late": ({"expires": SECOND}, [ADA], "expired at"),
    "by too few": ({"needs": (Need(2),)}, [ADA], "another status"),
    "without a signature": ({"needs_signature": True}, [ADA], "needs the signature of ada"),
}


@pytest.mark.parametrize(("question", "voters", "why"), LOOSE.values(), ids=LOOSE)
@pytest.mark.parametrize("is_shown_before", [True, False])
def test_votes_that_a_writer_should_not_have_counted_are_caught(
    question: dict[str, Any], voters: list[Actor], why: str, is_shown_before: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = asked(**question)
    path.shelf.now += HOUR
    for by in voters:
        if by is voters[-1]:
            monkeypatch.setattr(asking, "voted", any_vote)
        path.send(cast(path.shelf.approval(), by, at=path.shelf.now))
    monkeypatch.undo()
    shown = path.shown()
    if not is_shown_before:
        del shown["run-1", path.events[-2].seq]["approval"]
        why = "of the needed approvals are lacking" if why == "another status" else why
    flaw = caught(path.events, shown).flaw
    assert flaw.index == len(path.events) - 1
    assert why in flaw.what, flaw


def test_a_signature_that_is_not_the_voter_s_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    path = asked(needs_signature=True)
    monkeypatch.setattr(asking, "voted", any_vote)
    about = path.shelf.approval()
    path.send(cast(about, signature=SECRETS["bo"].sign(vote_message(about.digest, True))))
    monkeypatch.undo()
    assert "signature that is not ada's" in caught(path.events, path.shown()).flaw.what


def test_an_edit_by_whoever_could_not_decide_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    for question, why in (({"may_edit": False}, "may not be edited"), ({"people": {"bo": Person()}}, "is not for ada")):
        path = asked(**question)
        monkeypatch.setattr(asking, "_why_no_edit", lambda command, approval, now: None)
        path.send(amend(path.shelf.approval(), verdict=asks(**{"people": PEOPLE, **question})))
        monkeypatch.undo()
        assert why in caught(path.events, path.shown()).flaw.what


def test_an_approval_that_replaces_itself_is_none() -> None:
    path = asked()
    path.shelf.now += timedelta(days=2)
    path.send(attend(path.shelf.approval(), path.shelf.now))
    opening(path, verdict=asks(people=PEOPLE), principal="pat")
    journal = Journal(path)
    assert [event.type for event in journal.events] == ["approval_requested", "approval_expired", "approval_requested"]
    examine(journal.events, journal.shown)
    one, other = journal.value(0, "approval")["id"], journal.value(2, "approval")["id"]
    assert journal.value(2, "approval")["replaces"] == one != other
    assert "replaces itself" in caught(*journal.retold(2, "approval", put(id=one))).flaw.what
    assert "another replaces" in caught(*journal.retold(2, "approval", put(replaces=None))).flaw.what
    del journal.shown["run-1", 1]["approval"]
    examine(journal.events, journal.shown)
    assert "another digest" in caught(*journal.retold(2, "approval", put(digest="0" * 64))).flaw.what, "of the old args"
    assert "other arguments" in caught(*journal.retold(2, "approval", put(args_seq=1))).flaw.what


def test_what_is_not_shown_is_not_judged_and_what_is_shown_after_it_still_is() -> None:
    for event in STORY.events:
        shown = {place: dict(values) for place, values in STORY.shown.items()}
        for name in list(shown.get((event.run_id, event.seq), ())):
            del shown[event.run_id, event.seq][name]
        examine(STORY.events, shown)
    for field in ("approval", "grant", "args", "policy"):
        shown = {place: {**values} for place, values in STORY.shown.items()}
        for values in shown.values():
            values.pop(field, None)
        examine(STORY.events, shown)
    examine(STORY.events, {})


# ── verdicts ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_call_that_the_policy_asks_about_is_not_entered_without_an_answer() -> None:
    path = Path(Shelf())
    opening(path, verdict=allows(), on_crash="retry")
    journal = Journal(path)
    examine(journal.events, journal.shown)
    assert "its policy asks" in caught(*journal.retold(0, "policy", put(decision="ask"))).flaw.what
    assert "its policy says refuse" in caught(*journal.retold(0, "policy", put(decision="refuse"))).flaw.what


def test_an_approval_that_was_used_covers_a_crash_and_not_a_retry_on_somebody_s_word() -> None:
    path = Path(Shelf())
    opening(path, verdict=asks(), on_crash="retry")
    path.send(cast(path.shelf.approval()))
    for _ in range(2):
        opening(path, verdict=asks(), on_crash="retry")
        path.shelf.now += HOUR
    path.send(reopen(at=path.shelf.now))
    opening(path, verdict=allows())
    journal = Journal(path)
    types = [event.type for event in journal.events]
    assert (types.count("tool_call_started"), types[-1]) == (2, "approval_requested")
    examine(journal.events, journal.shown)


def test_a_refusal_says_so_in_its_policy() -> None:
    path = Path(Shelf())
    opening(path, verdict=refuses())
    opening(path, verdict=asks())
    opening(path, verdict=refuses())
    journal = Journal(path)
    assert [event.type for event in journal.events] == ["policy_checked", "approval_requested", "policy_checked"]
    examine(journal.events, journal.shown)
    assert "never was an effect" in caught(*journal.retold(0, "policy", put(decision="allow"))).flaw.what
    assert "its policy says allow" in caught(*journal.retold(2, "policy", put(decision="allow"))).flaw.what


# ── grants and delegations ───────────────────────────────────────────────────────────────────────────────────────────

GRANTED: dict[str, tuple[str, str, Callable[[Any], Any], str]] = {
    "given by somebody else": ("approval_received", "run-2", put(given_by="eve"), "not given by ada"),
    "used before it was given": ("approval_received", "run-2", put(version=2), "not new"),
    "of another approval": ("approval_received", "run-2", put(approval="apr_x"), "not the grant that came with"),
    "for another rule": ("approval_received", "run-2", put(rule="other"), "not the grant that came with"),
    "for another tool": ("tool_call_started", "run-3", put(tool="other"), "for another tool"),
    "under another policy": ("tool_call_started", "run-3", put(policy="other"), "another policy"),
    "for other arguments": ("tool_call_started", "run-3", put(pinned="0" * 64), "pins other arguments"),
    "for arguments that are not there": ("tool_call_started", "run-3", put(pin=["nobody"]), "pins what is not there"),
    "not used up": ("tool_call_started", "run-3", put(uses_left=3), "does not follow"),
    "used twice at once": ("tool_call_started", "run-4", put(version=2), "its version 2 twice"),
    "never given": ("tool_call_started", "run-3", put(id="grt_9"), "never given"),
}


@pytest.mark.parametrize(("type_", "run", "change", "why"), GRANTED.values(), ids=GRANTED)
def test_a_grant_that_was_forged_is_caught(type_: str, run: str, change: Callable[[Any], Any], why: str) -> None:
    index = STORY.index(type_, run=run)
    flaw = caught(*STORY.retold(index, "grant", change)).flaw
    assert why in flaw.what, flaw
    assert flaw.run is not None


def test_a_grant_by_one_for_several_or_without_their_signature_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    for question in ({"needs": (Need(2),)}, {"needs_signature": True}):
        path = asked(**question)
        monkeypatch.setattr(asking, "_why_no_grant", lambda command, approval: None)
        if "needs" in question:
            path.send(signed(path, BO))
        path.send(signed(path, ADA, grant=TERMS, grant_id="grt_1", pinned=pinned()))
        monkeypatch.undo()
        assert "takes more than one, or their signature" in caught(path.events, path.shown()).flaw.what


def test_a_grant_that_ended_is_used_no_more() -> None:
    index = STORY.index("tool_call_started", run="run-3")
    assert "does not follow" in caught(*STORY.retold(index, "grant", put(is_ended=True))).flaw.what


def test_what_a_part_of_a_journal_cannot_show_of_grants_is_not_asked_for() -> None:
    for run in ("run-1", "run-2", "run-3", "run-4"):
        events = [event for event in STORY.events if event.run_id == run]
        examine(events, STORY.shown, has_every_run=False)
    runs = ("run-3", "run-4", "indelible:approvals")
    events = [event for event in STORY.events if event.run_id in runs]
    assert "never given" in caught(events, STORY.shown).flaw.what
    shown = {place: values for place, values in STORY.shown.items() if place != ("run-3", 0)}
    examine(events, shown)


def test_a_delegation_that_was_ended_and_never_given_lets_nobody_vote() -> None:
    index = STORY.index("delegation_given", run="indelible:approvals")
    flaw = caught(*STORY.retold(index, "delegation", put(is_ended=True), type="delegation_ended")).flaw
    assert "never let cy decide for them" in flaw.what


def test_a_vote_for_somebody_else_needs_their_delegation() -> None:
    index = STORY.index("delegation_given", run="indelible:approvals")
    for change in (put(to="eve"), put(giver="ada")):
        flaw = caught(*STORY.retold(index, "delegation", change)).flaw
        assert flaw.what.endswith("bo never let cy decide for them")
        assert flaw.index == STORY.index("approval_received")
    shown = {place: values for place, values in STORY.shown.items() if place != ("indelible:approvals", 0)}
    examine(STORY.events, shown)


def test_what_a_fact_says_of_a_sheet_is_what_is_on_it() -> None:
    for type_, field in (("delegation_given", "delegation"), ("grant_ended", "grant")):
        index = STORY.index(type_, run="indelible:approvals")
        assert "is another than it says" in caught(*STORY.retold(index, facts={"id": "x"})).flaw.what
        for change in (put(is_ended=field == "delegation"), put(id="other")):
            assert "is another than it says" in caught(*STORY.retold(index, field, change)).flaw.what
        assert "not written canonically" in caught(*STORY.retold(index, field, lambda value: b"{")).flaw.what
        assert "none of version 1" in caught(*STORY.retold(index, field, lambda value: b"{}")).flaw.what


def test_charges_are_written_in_one_way() -> None:
    index = STORY.index("approval_requested")
    told = b'[["spend","1","9E+1",3600000000]]'
    assert "charges" in caught(*STORY.retold(index, "charges", lambda value: told.replace(b"9E+1", b"90 "))).flaw.what


def test_a_time_that_no_calendar_has_is_named() -> None:
    for at in ("2030-02-30T12:00:00.000000Z", "2030-04-31T12:00:00.000000Z"):
        flaw = caught(*STORY.retold(STORY.index("approval_viewed"), at=at)).flaw
        assert "no event of version 1" in flaw.what


def test_arguments_that_are_encrypted_are_not_compared_with_what_a_grant_pins() -> None:
    secret = DataKey(b"h" * 16, b"k" * 32).encrypt(b'{"amount":5}', USER, "args")
    index = STORY.index("tool_call_started", run="run-3")
    examine(*STORY.retold(index, "args", lambda value: secret))


def test_what_is_told_is_handed_on_to_whoever_watches() -> None:
    seen: list[tuple[str, set[str]]] = []
    examine(STORY.events, STORY.shown, watch=lambda body, shown: seen.append((body.type, set(shown))))
    assert [type_ for type_, _ in seen] == [event.type for event in STORY.events]
    assert seen[0] == ("delegation_given", {"delegation", "reason"})


def test_a_policy_that_was_put_in_force_is_the_one_that_the_event_names() -> None:
    path = Path(Shelf())
    body = body_of({"content": {"defaults": "allow"}, "version": "v1"})
    sheet = Sheet(kind="policy", id="current", status="active", body=body)
    facts = facts_json({"id": "current", "version": "v1"})
    told: Any = {"tenant": "default", "run_id": "indelible:journal", "committed": {"reason": b'"so"'}}
    path.send(Record(event_type="policy_applied", stamp=stamp(), facts=facts, sheet=sheet, **told))
    journal = Journal(path)
    examine(journal.events, journal.shown)
    assert "another version" in caught(*journal.retold(0, "policy", put(version="v2"))).flaw.what
    assert "its policy is none" in caught(*journal.retold(0, "policy", put(content=1))).flaw.what
    assert "not written canonically" in caught(*journal.retold(0, "policy", lambda value: b"{")).flaw.what
    examine(journal.events, {})


def credential(**words: Any) -> Credential:
    told: Any = {"id": "key_1", "name": "billing", "kind": "agent", "scopes": ("agent",), "hash": "0" * 64}
    return Credential(**{**told, "given_by": "ada", "created_at": NOON, **words})


def credentials_told(revoked: Credential) -> Journal:
    path = Path(Shelf())
    fact(path, "credential_given", credential_sheet(credential()), run_id=CREDENTIALS_RUN)
    fact(path, "credential_revoked", credential_sheet(revoked), run_id=CREDENTIALS_RUN)
    return Journal(path)


def test_credentials_that_are_given_and_revoked_hold() -> None:
    told = credentials_told(credential().revoked())
    examine(told.events, told.shown)
    examine(told.events, {})


def test_a_revocation_that_revokes_nothing_is_caught() -> None:
    told = credentials_told(replace(credential(), version=2))
    assert "credential is another than it says" in str(caught(told.events, told.shown))


def stops_told(second: Stop) -> Journal:
    path = Path(Shelf())
    stop = Stop(is_in_force=True, by="ada", at=NOON, reason="wrong accounts")
    fact(path, "effects_stopped", stop_sheet(stop), run_id=STOPS_RUN)
    fact(path, "effects_let_go", stop_sheet(second), run_id=STOPS_RUN)
    return Journal(path)


def test_effects_that_are_stopped_and_let_go_hold() -> None:
    going = Stop(version=2, is_in_force=False, by="ada", at=NOON, reason="")
    told = stops_told(going)
    examine(told.events, told.shown)
    examine(told.events, {})
    assert "its stop is none" in caught(*told.retold(0, "stop", put(by=1))).flaw.what
    wrong = stops_told(replace(going, is_in_force=True))
    assert "its stop is another than it says" in str(caught(wrong.events, wrong.shown))


def people_told(revoked: people.Person) -> Journal:
    path = Path(Shelf())
    fact(path, "person_invited", person_sheet(PERSON), run_id=PEOPLE_RUN)
    fact(path, "person_revoked", person_sheet(revoked), run_id=PEOPLE_RUN)
    return Journal(path)


def test_87_the_rules_of_a_provider_hold_and_what_is_not_exactly_that_is_caught() -> None:
    path = Path(Shelf())
    rules = ProviderRules(issuer="https://id.example", allowed=(read_allowed("dept=it:admin"),))
    fact(path, "provider_changed", provider_sheet(rules), run_id=PEOPLE_RUN)
    fact(path, "provider_changed", provider_sheet(ProviderRules(issuer=None, version=2)), run_id=PEOPLE_RUN)
    told = Journal(path)
    examine(told.events, told.shown)
    examine(told.events, {})
    for wrong in (put(issuer=1), put(max_age=0), put(id="other"), put(allowed=[{"claim": "a", "value": "b"}])):
        assert "its provider" in caught(*told.retold(0, "provider", wrong)).flaw.what


PERSON = people.Person(id="per_1", name="ana", scopes=("approver",), created_at=NOON)


def test_people_that_are_invited_and_revoked_hold() -> None:
    told = people_told(PERSON.revoked())
    examine(told.events, told.shown)
    examine(told.events, {})


def test_a_revocation_that_leaves_the_person_in_is_caught() -> None:
    told = people_told(replace(PERSON, version=2))
    assert "person is another than it says" in str(caught(told.events, told.shown))


def test_98_a_number_is_there_once_in_whatever_order_numbers_come() -> None:
    numbers = Numbers()
    assert [numbers.add(one) for one in (2, 1, 4, 2, 4, 3, 1, 5)] == [True, True, True, False, False, True, False, True]


def test_98_a_reservation_that_is_told_twice_is_caught() -> None:
    index = STORY.index("approval_requested")
    twice = b'[["spend","1","90",3600000000,7],["spend","1","90",3600000000,7]]'
    assert "reservation 7 of spend" in caught(*STORY.retold(index, "charges", lambda value: twice)).flaw.what
