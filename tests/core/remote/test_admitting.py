"""Promises of core.remote.admitting: a caller's word is taken for what is theirs to say, and for no more."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from indelible.core.commands import (
    Adopt,
    Amend,
    Attend,
    Cancel,
    CastVote,
    Command,
    EditRead,
    Expire,
    Finish,
    Keep,
    Open,
    Record,
    Settle,
    Stamp,
)
from indelible.core.effects.effect import Actor, Claim
from indelible.core.effects.identity import Naming, Ref, digest_of, key_of
from indelible.core.events import facts_json
from indelible.core.privacy.forgetting import erased_facts
from indelible.core.remote.admissible import LONGEST_LEASE, MOST_MEMBERS, MOST_TOLD, check_arguments, members_in
from indelible.core.remote.admitting import Caller, admitted
from indelible.core.rights import RIGHTS, verb_of
from indelible.core.runs.commands import EndRun, NewCheckpoint, SealCheckpoint, StartRun, TakeRun, Tell
from indelible.core.runs.run import Driver, Happening, Run, driver_sheet
from indelible.core.scopes import SCOPES, Scope
from indelible.core.sheets import Sheet
from indelible.core.values.canonical import encode
from indelible.errors import BadCall, NotPermitted, TooLarge
from tests.core.crossing import COMMANDS, one_of_each
from tests.core.making import (
    ADA,
    AGENT,
    DIGEST,
    HOUR,
    LEASE,
    NOON,
    REF,
    asks,
    charge,
    charging,
    claim_of,
    effect,
    finish,
    open_command,
    stamp,
)

OWN = Stamp(at=NOON + HOUR, actor=Actor("server", "system"), salts=bytes(32))
BILLING = Actor("billing", "agent", "api_key")


def caller(*scopes: Scope, **changes: Any) -> Caller:
    """Gives somebody with these scopes; an agent, unless told otherwise."""
    words: dict[str, Any] = {"tenant": "default", "scopes": frozenset(scopes or ("agent",)), "actor": BILLING}
    return Caller(**{**words, **changes})


def let_in(command: Command, by: Caller | None = None, most_bytes: int | None = None) -> Any:
    """Gives the command as it may be carried out; the digest of a call is made as a client of ours makes it."""
    if isinstance(command, Open) and len(command.digest) == len(DIGEST):
        command = replace(command, digest=digest_in(command))
    return admitted(command, by or caller(), OWN, most_bytes)


def digest_in(command: Open) -> str:
    """Gives the digest of what a command says."""
    return digest_of(command.ref.tenant, command.tool, command.args_json, command.resource_json)


def example(kind: type) -> Any:
    """Gives a command of this class, by the tenant that callers here have, with nothing in it to object to."""
    made = one_of_each(COMMANDS)[kind]
    if kind is TakeRun:
        made = replace(made, is_forced=False)
    if kind is Record:
        made = placed(event_type="noted")
    own = {each.name for each in fields(made)}
    if "tenant" in own:
        return replace(made, tenant="default")
    if "claim" in own:
        return replace(made, claim=claim_of(effect()))
    return replace(made, effect=effect("succeeded")) if "effect" in own else replace(made, ref=REF)


def run(**words: Any) -> Run:
    """Gives a run that somebody would like to start."""
    return Run(**{"id": "r", "agent": "billing", "created_at": NOON, "updated_at": NOON, **words})


# Scopes


def test_only_an_administrator_has_messages_written_by_channels_of_their_own() -> None:
    told = replace(example(Attend), channels=("mail",))
    assert let_in(told, caller("admin")).channels == ("mail",)
    for scope in ("agent", "approver"):
        with pytest.raises(NotPermitted):
            let_in(told, caller(scope))


@pytest.mark.parametrize("kind", COMMANDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("scope", SCOPES)
def test_a_command_is_for_those_scopes_that_have_its_right(kind: type, scope: Scope) -> None:
    command = example(kind)
    if scope in RIGHTS[verb_of(command)].scopes:
        assert type(let_in(command, caller(scope))) is kind
    else:
        with pytest.raises(NotPermitted, match="with the scope admin"):
            let_in(command, caller(scope))


@pytest.mark.parametrize("kind", COMMANDS, ids=lambda kind: kind.__name__)
def test_nobody_without_a_scope_may_do_anything(kind: type) -> None:
    with pytest.raises(NotPermitted):
        let_in(example(kind), caller(scopes=frozenset()))


def test_one_of_several_scopes_is_enough() -> None:
    assert let_in(example(CastVote), caller("auditor", "approver"))


@pytest.mark.parametrize("kind", COMMANDS, ids=lambda kind: kind.__name__)
def test_no_command_reaches_another_tenant_whatever_the_scope(kind: type) -> None:
    for by in (caller(*SCOPES, tenant="other"), caller(*SCOPES, tenant="other", actor=None)):
        with pytest.raises(NotPermitted, match="for the tenant 'other' and for no other"):
            let_in(example(kind), by)


# What agents may keep and record


def driving(**changes: Any) -> Keep:
    """Gives the heartbeat of who drives a run."""
    driver = Driver(run_id="r", version=2, fence=1, token_hash="ab" * 32, holder="w", until=OWN.at + LEASE)
    return Keep(tenant="default", stamp=stamp(), sheet=replace(driver_sheet(driver), **changes))


def placed(**changes: Any) -> Record:
    """Gives the fact that a hold was placed."""
    facts = facts_json({"hold": "hold_1"})
    made = Record(tenant="default", run_id="r", stamp=stamp(), event_type="hold_placed", facts=facts)
    return replace(made, **changes)


def test_an_agent_keeps_the_right_to_drive_and_no_other_sheet() -> None:
    assert verb_of(driving()) == "drive_runs"
    assert let_in(driving()).sheet == driving().sheet
    for kind in ("policy", "grant", "budget", "approval", "delegation", "credential", "limit", "mark", "delivery"):
        with pytest.raises(NotPermitted):
            let_in(driving(kind=kind))


@pytest.mark.parametrize("kind", ["credential", "person", "challenge", "seen"])
def test_nobody_writes_past_the_rules_whom_the_server_knows(kind: str) -> None:
    told = placed(event_type="person_invited", sheet=Sheet(kind=kind, id="x", status="active", body=b"{}"))
    for command in (driving(kind=kind), told):
        with pytest.raises(NotPermitted, match="/v1/people"):
            let_in(command, caller(scopes=frozenset({"admin"})))
    assert let_in(told, caller(scopes=frozenset({"admin"}), actor=None)).sheet == told.sheet, "but who is part of us"


def test_an_agent_records_no_fact_by_hand_and_nobody_that_a_packet_is_the_ledgers() -> None:
    sheet = Sheet(kind="policy", id="current", status="active", body=b"{}")
    exported = placed(event_type="packet_exported", facts=facts_json({"packet": "ab" * 32}))
    for other in (exported, placed(), placed(event_type="policy_applied", sheet=sheet), placed(erased=((0, "args"),))):
        with pytest.raises(NotPermitted):
            let_in(other)
    with pytest.raises(NotPermitted, match="made where the ledger is"):
        let_in(exported, caller(*SCOPES))
    assert let_in(exported, caller("admin", actor=None)).facts == exported.facts, "but who is part of us"


# Whose word counts


@pytest.mark.parametrize("kind", COMMANDS, ids=lambda kind: kind.__name__)
def test_time_randomness_and_actor_are_the_servers(kind: type) -> None:
    said = replace(example(kind), stamp=Stamp(at=NOON, actor=Actor("boss"), salts=b"\1" * 32))
    assert let_in(said, caller(*SCOPES)).stamp == replace(OWN, actor=BILLING)
    trusted = caller(*SCOPES, actor=None)
    assert let_in(said, trusted).stamp == replace(OWN, actor=Actor("boss")), "but one that is part of us says who acts"
    assert (trusted.is_trusted, caller().is_trusted) == (True, False)


def test_the_principal_is_the_credentials_if_it_names_one() -> None:
    opening = open_command(principal="somebody else")
    assert let_in(opening, caller(principal="ada")).principal == "ada"
    assert let_in(opening).principal == "somebody else"


def test_grants_are_looked_up_by_the_server() -> None:
    assert let_in(open_command(grants={"grant_1": "ab" * 32})).grants == {}


def test_what_is_let_in_is_otherwise_what_was_sent() -> None:
    for kind in COMMANDS:
        command = example(kind)
        changed = {"stamp", "grants", "verdict", "digest"} if kind is Open else {"stamp"}
        got = let_in(command, caller(*SCOPES))
        others = {each.name for each in fields(command)} - changed
        assert {name: getattr(got, name) for name in others} == {name: getattr(command, name) for name in others}


# What cannot be


NOT_CANONICAL = [
    b"",
    b"{",
    b'{"a": 1}',
    b'{"b":1,"a":2}',
    b'{"a":1,"a":1}',
    b"1.0",
    b'"\\u0041"',
    b"\xff",
    b"[" * 100_000,
]


@pytest.mark.parametrize("raw", NOT_CANONICAL, ids=lambda raw: repr(raw[:20]))
def test_what_is_not_canonical_is_refused_by_its_name(raw: bytes) -> None:
    for command, name in (
        (open_command(args_json=raw), "args_json"),
        (open_command(subject_json=raw), "subject_json"),
        (replace(finish(claim_of(effect())), detail_json=raw), "detail_json"),
        (replace(example(Settle), evidence_json=raw), "evidence_json"),
        (replace(example(EndRun), reason_json=raw), "reason_json"),
        (replace(example(Tell), happenings=(Happening(type="own.kind", payload_json=raw),)), "payload_json"),
        (
            replace(example(SealCheckpoint), checkpoint=NewCheckpoint(id="c", reason="manual", state_json=raw)),
            "state_json",
        ),
    ):
        with pytest.raises(BadCall, match=f"^{name}: is not in canonical form"):
            let_in(command, caller(*SCOPES))


@pytest.mark.parametrize("attempt", [0, -1])
def test_a_report_of_an_attempt_that_never_was_is_refused(attempt: int) -> None:
    with pytest.raises(BadCall, match="attempts count from 1"):
        let_in(finish(claim_of(effect(attempt=attempt))))


@pytest.mark.parametrize("raw", NOT_CANONICAL, ids=lambda raw: repr(raw[:20]))
def test_facts_and_what_they_commit_to_are_canonical_too(raw: bytes) -> None:
    for command in (placed(facts=raw), placed(committed={"note": raw})):
        with pytest.raises(BadCall, match="is not in canonical form"):
            let_in(command, caller("admin"))


def test_a_value_that_is_too_large_is_refused_with_the_limit() -> None:
    large = encode("x" * 98)
    report = replace(finish(claim_of(effect())), detail_json=large)
    assert let_in(report, most_bytes=100).detail_json == large
    with pytest.raises(TooLarge, match=r"detail_json: has 100 bytes, at most 99 are allowed") as refused:
        let_in(report, most_bytes=99)
    assert (refused.value.limit, refused.value.size) == (99, 100)
    assert let_in(report).detail_json == large, "unless there is no limit"


def test_nothing_goes_without_an_event_that_tells_what_goes() -> None:
    """Else an administrator's credential would do what only a hand in the database does, and look like one."""
    erased = ((0, "args"), (3, "result"))
    facts = erased_facts("request", erased)
    telling = placed(event_type="payload_erased", facts=facts, erased=erased)
    assert let_in(telling, caller("admin")).erased == erased
    for command in (
        replace(telling, event_type="noted"),
        replace(telling, erased=((0, "args"),)),
        replace(telling, facts=facts_json({"basis": "request"})),
        replace(telling, facts=b"{}"),
    ):
        with pytest.raises(BadCall, match="erased: nothing goes"):
            let_in(command, caller("admin"))
        assert let_in(command, caller("admin", actor=None)) is not None, "but one that is part of us knows what it does"


@pytest.mark.parametrize(
    "changes",
    [
        {"committed": {"approval": b"1"}},
        {"committed": {"run": b"1"}},
        {"committed": {"A b": b"1"}},
        {"facts": b"{}"},
        {"facts": facts_json({"hold": 1})},
        {"facts": facts_json({"fence": "1", "hold": "hold_1"})},
        {"event_type": "payload_erased"},
        {"event_type": "hold_lifted", "facts": facts_json({"subject": "ana"})},
        {"event_type": "tool_call_started"},
        {"event_type": "artifact_created"},
        {"event_type": "run_blocked"},
    ],
    ids=str,
)
def test_no_credential_spoils_the_record_for_who_verifies_it(changes: dict[str, Any]) -> None:
    """An event is for ever: one that no verifier can read would make an honest journal look tampered with."""
    for scope in ("agent", "admin"):
        with pytest.raises((BadCall, NotPermitted)):
            let_in(placed(**changes), caller(scope))
    assert let_in(placed(**changes), caller("admin", actor=None)), "but one that is part of us knows what it does"


def test_a_key_is_of_the_place_where_its_effect_is() -> None:
    """Else whoever verifies the ledger finds a key that fits another scope than the row's, and calls it tampering."""
    honest = open_command(call_id="c1", turn="m1")
    parts = honest.ref.tenant, honest.run_id, honest.tool, "args", honest.args_json
    for occurrence in ((), ("c1",), ("c1", "m1")):
        made = replace(honest, ref=Ref(honest.ref.tenant, honest.run_id, key_of(*parts, *occurrence)))
        assert let_in(made)
        about = replace(made, resource_json=b'["","account","7"]')
        for forged in (replace(made, ref=made.ref._replace(scope="x")), replace(about, digest=digest_in(about))):
            with pytest.raises(BadCall, match="key: is that of this call"):
                let_in(forged)
            assert let_in(forged, caller("agent", actor=None))


@pytest.mark.parametrize("args", [b"[]", b"null", b'"text"', b"1", encode(Decimal(1))])
def test_arguments_are_an_object(args: bytes) -> None:
    for command in (open_command(args_json=args), replace(example(Amend), args_json=args)):
        with pytest.raises(BadCall, match="args_json: an object"):
            let_in(command, caller(*SCOPES))
    for fine in (b"{}", encode({"$": 1}), encode({"a": Decimal(1)})):
        assert let_in(open_command(args_json=fine)).args_json == fine


@pytest.mark.parametrize("added", [b"[]", b"null", b'"text"'])
def test_parameters_that_were_added_are_an_object(added: bytes) -> None:
    fine = Naming(added_json=b'{"currency":"usd"}')
    assert let_in(open_command(naming=fine)).naming == fine
    with pytest.raises(BadCall, match="naming: "):
        let_in(open_command(naming=Naming(added_json=added)))


def test_an_edit_is_read_as_an_object_of_arguments() -> None:
    let_in(open_command(edit=EditRead(1, b'{"amount":5}', is_exact=True)))
    with pytest.raises(BadCall):
        let_in(open_command(edit=EditRead(1, b"[5]", is_exact=True)))


def test_there_is_an_end_to_what_one_command_tells() -> None:
    happening = Happening(type="own.kind")
    assert let_in(replace(example(Tell), happenings=(happening,) * MOST_TOLD))
    with pytest.raises(TooLarge, match=f"happenings: at most {MOST_TOLD} at once"):
        let_in(replace(example(Tell), happenings=(happening,) * (MOST_TOLD + 1)))
    with pytest.raises(TooLarge, match=f"committed: at most {MOST_TOLD} at once"):
        let_in(placed(committed={f"n{n}": b"1" for n in range(MOST_TOLD + 1)}), caller("admin"))
    with pytest.raises(BadCall, match="committed: "):
        let_in(placed(committed={"a\0": b"1"}), caller("admin"))


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": ""},
        {"id": "a\0"},
        {"status": ""},
        {"topic": "a\0"},
        {"body": None},
        {"body": b"{ }"},
        {"version": 0},
    ],
)
def test_what_administrators_keep_is_a_sheet_that_can_be(changes: Any) -> None:
    sheet = Sheet(kind="delivery", id="d", status="sent", body=b"{}")
    kept = Keep(tenant="default", stamp=stamp(), sheet=sheet)
    assert let_in(kept, caller("admin")).sheet == sheet
    with pytest.raises(BadCall, match=r"^sheet"):
        let_in(replace(kept, sheet=replace(sheet, **changes)), caller("admin"))


def test_what_is_taken_over_can_be_an_effect() -> None:
    for changes in ({"key": "zz"}, {"digest": "zz"}, {"id": ""}, {"args_json": b"{"}, {"tool": "\0"}):
        with pytest.raises(BadCall):
            let_in(replace(example(Adopt), effect=effect("succeeded", **changes)), caller("admin"))
    with pytest.raises(BadCall, match="token_hash: "):
        let_in(replace(example(Adopt), effect=replace(effect(), token_hash="zz")), caller("admin"))
    for status in ("ready", "processing"):
        with pytest.raises(BadCall, match="status: "):
            let_in(replace(example(Adopt), effect=effect(status)), caller("admin"))


def test_a_reason_for_canceling_is_a_text() -> None:
    cancel = replace(example(Cancel), detail_json=b'"not needed"')
    assert let_in(cancel).detail_json == cancel.detail_json
    with pytest.raises(BadCall, match="detail_json: "):
        let_in(replace(cancel, detail_json=b'{"edited":"eff_1","key":"00"}'))


@pytest.mark.parametrize("detail", [b'"x"', b"1", b"[1]", b"null"])
def test_what_failed_is_told_as_an_object(detail: bytes) -> None:
    finish = replace(example(Finish), status="failed", detail_json=b'{"message":"no","type":"E"}')
    assert let_in(finish).detail_json == finish.detail_json
    assert let_in(replace(finish, status="succeeded", detail_json=detail)).detail_json == detail
    with pytest.raises(BadCall, match="detail_json: "):
        let_in(replace(finish, detail_json=detail))


def test_the_key_of_a_call_that_leaves_arguments_out_is_not_that_of_all_of_them() -> None:
    opened = replace(example(Open), args_json=b'{"m":2,"n":1}', omitted=("n",), resource_json=None, edit=None)

    def at(subject: bytes) -> Open:
        key = key_of("default", opened.ref.scope, opened.tool, "args", subject)
        return replace(opened, ref=Ref("default", opened.ref.scope, key))

    opened = replace(opened, digest=digest_of("default", opened.tool, b'{"m":2}', None))
    assert admitted(at(b'{"m":2}'), caller(), OWN).ref == at(b'{"m":2}').ref
    with pytest.raises(BadCall, match="key: "):
        admitted(at(opened.args_json), caller(), OWN)


def test_a_digest_has_64_digits() -> None:
    for digest in ("", "zz" * 32, "ab" * 33):
        with pytest.raises(BadCall, match="digest: 64 hexadecimal digits"):
            admitted(open_command(digest=digest), caller(), OWN)


def test_the_digest_of_a_call_is_that_of_what_it_says() -> None:
    """Else an approval of one thing, bound to its digest, would be one of something else."""
    resource = {"resource_json": b'["","account","7"]'}
    assert admitted(open_command(), caller(), OWN)
    about = open_command(**resource)
    assert admitted(replace(about, digest=digest_in(about)), caller(), OWN)
    for changes in ({"args_json": b'{"amount":6}'}, {"tool": "refund"}, {"digest": "ab" * 32}, resource):
        with pytest.raises(BadCall, match="digest: is not that of this tool"):
            admitted(open_command(**changes), caller(), OWN)
    assert admitted(open_command(tool="refund"), caller(actor=None), OWN)  # whose word is as good as ours


def test_a_run_that_was_set_aside_is_taken_by_administrators_alone() -> None:
    forced = replace(example(TakeRun), is_forced=True)
    assert let_in(forced, caller("admin"))
    with pytest.raises(NotPermitted, match="admin"):
        let_in(forced, caller("agent", "approver", "auditor"))


@pytest.mark.parametrize("name", ["run_id", "effect_id", "tool", "token", "call_id"])
@pytest.mark.parametrize("value", ["", "a\0b", "x" * 501])
def test_names_that_cannot_stand_in_an_event_are_refused(name: str, value: str) -> None:
    with pytest.raises(BadCall, match=f"^{name}: "):
        let_in(open_command(**{name: value}))


def test_names_in_other_commands_are_looked_at_as_well() -> None:
    for command in (
        replace(example(CastVote), approval_id=""),
        replace(example(TakeRun), token=""),
        replace(example(TakeRun), run_id="a\0"),
        replace(example(StartRun), run=run(id="")),
        replace(example(StartRun), run=run(agent="")),
        replace(example(Expire), ref=Ref("default", "", REF.key)),
    ):
        with pytest.raises(BadCall):
            let_in(command, caller(*SCOPES))


@pytest.mark.parametrize("key", ["", "ab", "AB" * 32, "ab" * 33, "zz" * 32, "ab" * 31 + "a\n"])
def test_a_place_has_a_key_of_64_digits(key: str) -> None:
    for command in (
        open_command(ref=REF._replace(key=key)),
        replace(example(Cancel), ref=REF._replace(key=key)),
        finish(Claim(effect(key=key), "t")),
    ):
        with pytest.raises(BadCall, match=r"^key: 64 hexadecimal digits"):
            let_in(command)


@pytest.mark.parametrize("window", [timedelta(0), timedelta(days=-1), timedelta(days=32), timedelta.max])
def test_a_window_for_sending_again_has_an_end(window: timedelta) -> None:
    assert let_in(open_command(resend_within=timedelta(days=31)))
    with pytest.raises(BadCall, match="resend_within"):
        let_in(open_command(resend_within=window))


@pytest.mark.parametrize("lease", [timedelta(0), -LEASE, LONGEST_LEASE + timedelta(microseconds=1), timedelta.max])
def test_a_lease_is_longer_than_nothing_and_ends(lease: timedelta) -> None:
    for command in (
        open_command(lease=lease),
        replace(example(StartRun), lease=lease),
        replace(example(TakeRun), lease=lease),
    ):
        with pytest.raises(BadCall, match=r"^lease: "):
            let_in(command)
    assert let_in(open_command(lease=LONGEST_LEASE)).lease == LONGEST_LEASE


def test_the_ledgers_own_runs_are_its_own() -> None:
    own = "indelible:policy"
    telling = (replace(example(kind), run_id=own) for kind in (Tell, SealCheckpoint, TakeRun, EndRun))
    for command in (replace(example(StartRun), run=run(id=own)), *telling):
        with pytest.raises(BadCall, match="belong to the ledger"):
            let_in(command)
    assert let_in(placed(run_id=own), caller("admin")), "administrators tell it things"


def test_whoever_takes_a_run_has_a_token() -> None:
    with pytest.raises(BadCall, match="token: whoever drives a run has one"):
        let_in(replace(example(TakeRun), token=None))


def test_a_run_that_ends_is_no_longer_active() -> None:
    with pytest.raises(BadCall, match="status: "):
        let_in(replace(example(EndRun), status="active"))
    with pytest.raises(BadCall, match="status"):
        let_in(replace(example(EndRun), status="open"))


def test_facts_are_an_object_of_plain_values() -> None:
    """They stand in the event as they are, so anything else would say something else there."""
    for facts in (b"[]", b'"text"', b"null", encode({"a": Decimal("0.1")})):
        with pytest.raises(BadCall, match=r"^facts"):
            let_in(placed(facts=facts), caller("admin"))


@pytest.mark.parametrize(
    "changes",
    [
        {"body": None},
        {"body": b"{}"},
        {"body": b"no json"},
        {"body": b"[1]"},
        {"body": encode({"fence": "1", "holder": "w", "token_hash": "ab"})},
        {"body": encode({"fence": 1, "holder": 2, "token_hash": "ab"}), "topic": "2"},
        {"body": encode({"fence": 1, "holder": "w", "token_hash": None})},
        {"body": encode({"fence": 1, "holder": "w", "token_hash": "ab", "more": 1})},
        {"status": "free"},
        {"topic": "somebody else"},
        {"due_at": None},
        {"due_at": OWN.at + LONGEST_LEASE + LEASE},
        {"run_id": "r", "seq": 0},
    ],
)
def test_the_right_to_drive_is_written_as_we_write_it_and_ends(changes: Any) -> None:
    with pytest.raises(BadCall, match=r"^sheet"):
        let_in(driving(**changes))


def test_the_verdict_is_looked_at_by_who_judges() -> None:
    """It stays as it was said until then: a caller may be stricter with itself."""
    assert let_in(open_command(verdict=asks())).verdict == asks()
    with pytest.raises(BadCall, match=r"^verdict\."):
        let_in(open_command(verdict=asks(expires=timedelta.max)))


@pytest.mark.parametrize("kind", [Open, Amend])
def test_what_a_caller_charges_is_charged_to_budgets_of_its_own(kind: type) -> None:
    """Else a charge under another window would make everybody forget what was spent, and a large one spend it all."""
    said = replace(example(kind), verdict=charging(charge(), charge(1, budget="calls")))
    charges = let_in(said, caller(*SCOPES)).verdict.charges
    assert charges == (charge(budget="of billing: spend"), charge(1, budget="of billing: calls"))
    assert let_in(said, caller(*SCOPES, actor=None)).verdict == said.verdict, "but one that is part of us has the rules"


def test_a_vote_is_by_the_credential_and_not_by_whom_it_says() -> None:
    vote = replace(example(CastVote), stamp=stamp(actor=ADA))
    bob = Actor("bob", "person", "api_key")
    assert let_in(vote, caller("approver", actor=bob)).stamp.actor == bob
    assert let_in(vote, caller("admin", actor=AGENT)).stamp.actor == AGENT, "and an agent stays one"


def test_arguments_from_afar_have_so_many_bytes_and_values_and_no_more() -> None:
    check_arguments(b'{"a":1}', 7)
    with pytest.raises(TooLarge, match="args: 8 bytes, and at most 7"):
        check_arguments(b'{"a":12}', 7)
    many = b'{"a":[' + b",".join([b"1"] * (MOST_MEMBERS - 1)) + b"]}"
    check_arguments(many, None)
    with pytest.raises(TooLarge, match=f"args: hold {MOST_MEMBERS + 1} values"):
        check_arguments(many.replace(b"[", b"[1,", 1), None)
    check_arguments(b'{"a":"' + b"," * (MOST_MEMBERS + 9) + b'"}', None)  # commas of a text are no values


def test_values_are_counted_outside_of_texts() -> None:
    assert members_in(b'{"a":1,"b":[2,3]}') == 4
    assert members_in(b"[" + b"[]," * MOST_MEMBERS + b'"x,y\\",["]') == 2 * MOST_MEMBERS + 1


def test_what_nests_too_deeply_is_too_large_and_not_merely_wrong() -> None:
    with pytest.raises(TooLarge):
        let_in(open_command(args_json=b'{"a":' + b"[" * 70 + b"]" * 70 + b"}"))
