"""What the store's endpoint does with whatever it is sent: the right problem, and never an error of the server."""

from __future__ import annotations

import contextlib
import copy
import json
import logging
import os
import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from urllib.parse import quote

import pytest

from indelible.core.approvals.approval import Question
from indelible.core.commands import (
    Answer,
    AwaitingApproval,
    Claimed,
    EditRead,
    Finish,
    Keep,
    Kept,
    Open,
    Outrun,
    Record,
    RefusedByPolicy,
    Taken,
)
from indelible.core.effects.effect import Claim, Effect, hash_of
from indelible.core.effects.identity import Ref, digest_of
from indelible.core.policy.budgets import read_budget
from indelible.core.policy.policy import policy_of
from indelible.core.policy.verdicts import Charge, Verdict
from indelible.core.ports import Filter
from indelible.core.remote.questions import MOST_AT_ONCE, MOST_LISTED, PROTOCOL, QUESTIONS
from indelible.core.remote.wire import from_wire, to_wire
from indelible.core.runs.commands import NewCheckpoint, SealCheckpoint, StartRun, Tell
from indelible.core.runs.run import Happening, Run, driver_sheet, hidden_driver, read_driver
from indelible.core.scopes import SCOPES
from indelible.core.sheets import Sheet, SheetFilter
from indelible.core.values.canonical import encode
from indelible.server.requests.bodies import MOST_BYTES
from indelible.stores.remote import RemoteStore
from indelible.testing.commands import LEASE, Commands, asking
from indelible.testing.suite import check_chain
from tests.core.crossing import everything
from tests.scenarios.fixtures import _scenario_database
from tests.scenarios.shells import prepare_store
from tests.server.anything import Anything, serve_named

__all__ = ["_scenario_database"]

PAID = Charge(budget="spend", limit=Decimal(5), window=timedelta(days=1), amount=Decimal(2))
POLICY: dict[str, Any] = {
    "tools": {name: {"side_effect": "payment"} for name in ("tool", "refund", "drop", "mail", "wire")},
    "rules": [
        {"name": "never drop", "match": {"tool": "drop"}, "then": "refuse"},
        {"name": "refunds are asked about", "match": {"tool": "refund"}, "then": "ask"},
        {"name": "never for mallory", "match": {"principal": "mallory"}, "then": "refuse"},
        {"name": "for ana", "match": {"tool": "wire", "principal": "ana"}, "then": "allow"},
        {"name": "all else", "match": {"tool": ["tool", "mail"]}, "then": "allow"},
    ],
    "budgets": [{"name": "mails", "match": {"tool": "mail"}, "limit": 3, "window": "24h"}],
    "unknown_tools": "refuse",
}


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server in front of each store, under a policy."""
    if request.param == "postgres":
        address: str = request.getfixturevalue("_scenario_database")
    else:
        address = prepare_store(f"sqlite:///{tmp_path_factory.mktemp('routes') / 'ledger.db'}")
    served = serve_named(address, policy=POLICY)
    yield served.url
    served.stop()


@pytest.fixture
def make() -> Commands:
    """Makes commands of a tenant without effects."""
    return TrueCommands(f"tenant-{os.urandom(6).hex()}")


class TrueCommands(Commands):
    """Makes commands as a client of ours does: the digest of a call is that of what it says."""

    def open(self, name: str, **changes: Any) -> Open:
        command = super().open(name, **changes)
        digest = digest_of(command.ref.tenant, command.tool, command.args_json, command.resource_json)
        return replace(command, digest=changes.get("digest", digest))


@pytest.fixture
def agent(url: str, make: Commands) -> Iterator[Anything]:
    """Somebody with an agent's credential of that tenant."""
    client = Anything(url, f"agent@{make.tenant}")
    yield client
    client.close()


@pytest.fixture
def admin(url: str, make: Commands) -> Iterator[Anything]:
    """Somebody with an administrator's."""
    client = Anything(url, f"admin@{make.tenant}")
    yield client
    client.close()


def refused(answer: tuple[int, Any], status: int, name: str) -> str:
    """Sees that a problem came back, and gives its words."""
    assert (answer[0], answer[1].get("type")) == (status, f"/problems/{name}"), answer
    assert answer[1]["status"] == status
    return str(answer[1]["detail"])


def answered(answer: tuple[int, Any]) -> Any:
    """Reads the answer to one command."""
    assert answer[0] == 200, answer
    return from_wire(list[Answer], answer[1]["answer"])[0]


# What is no JSON


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"nonsense",
        b"{'refs':[]}",
        b'{"refs":[],}',
        b'{"refs":[]} {}',
        b'{"refs":[],"refs":[]}',
        b'{"refs":[{"a":1,"a":2}]}',
        b'{"refs":NaN}',
        b'{"refs":[Infinity,-Infinity]}',
        b'{"refs":' + b"9" * 5000 + b"}",
        b"[" * 100_000 + b"]" * 100_000,
        b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
        b"\xff\xfe",
        b'{"refs":"\xff"}',
        b"\xef\xbb\xbf{}",
    ],
    ids=lambda raw: repr(raw[:24]),
)
def test_what_is_not_plain_strict_json_is_refused(agent: Anything, raw: bytes) -> None:
    status, headers, problem = agent.send("/v1/store/look", raw)
    refused((status, problem), 400, "bad-call")
    assert headers["Content-Type"] == "application/problem+json"


@pytest.mark.parametrize("body", [None, [], "text", 5, True, {}, {"refs": [], "more": 1}, {"ref": []}])
def test_a_question_takes_its_own_words_and_no_others(agent: Anything, body: Any) -> None:
    status, _, problem = agent.send("/v1/store/look", json.dumps(body))
    refused((status, problem), 400, "bad-call")


def test_a_body_that_is_too_large_is_refused_with_the_limit(agent: Anything) -> None:
    status, _, problem = agent.send("/v1/store/look", b'{"refs":"' + b"x" * MOST_BYTES + b'"}')
    refused((status, problem), 413, "too-large")


@pytest.mark.parametrize(
    "name", ["nothing", "transaction", "journal", "journal.integrate", "close", "__class__", "a.b.c"]
)
def test_a_question_that_is_none_is_refused(agent: Anything, name: str) -> None:
    assert name in refused(agent.ask(name), 400, "bad-call")


def test_other_methods_and_places_are_told_in_the_same_form(agent: Anything) -> None:
    for method, path, status in (("GET", "/v1/store/look", 405), ("POST", "/v1/store/", 404), ("PUT", "/v1/st", 404)):
        got, headers, problem = agent.send(path, b"{}", method)
        assert (got, problem["status"], headers["Content-Type"]) == (status, status, "application/problem+json")


def test_how_many_at_once_has_a_limit(agent: Anything, make: Commands) -> None:
    refs = [make.ref(str(n)) for n in range(MOST_AT_ONCE + 1)]
    refused(agent.ask("look", refs=refs), 413, "too-large")
    assert agent.ask("look", refs=refs[1:])[0] == 200
    refused(agent.apply(*[make.expire(ref) for ref in refs]), 413, "too-large")
    refused(agent.ask("effects", selected=Filter(limit=MOST_LISTED + 1)), 413, "too-large")
    refused(agent.ask("events", run_id="r", after=-1, limit=MOST_LISTED + 1), 413, "too-large")
    refused(agent.ask("abandoned", limit=-1), 413, "too-large")


# Who asks


def test_whoever_is_not_known_is_told_nothing(url: str, make: Commands) -> None:
    for token in (None, "", "nobody@x", "agent@"):
        client = Anything(url, token)
        for name in ("introduce", "look", "nothing"):
            status, headers, problem = client.send(f"/v1/store/{name}", b"{")
            refused((status, problem), 401, "not-authenticated")
            assert headers["WWW-Authenticate"] == "Bearer"
        client.close()


def test_everybody_is_told_who_they_are(url: str, make: Commands) -> None:
    for scope in SCOPES:
        client = Anything(url, f"{scope}@{make.tenant}")
        status, introduction = client.ask("introduce")
        assert (status, introduction["tenant"], introduction["protocol"]) == (200, make.tenant, PROTOCOL)
        status, _, problem = client.send("/v1/store/introduce", b"[1]")
        refused((status, problem), 400, "bad-call")
        client.close()


@pytest.mark.parametrize("name", [name for name, question in QUESTIONS.items() if question.scopes != set(SCOPES)])
def test_a_question_that_is_not_theirs_is_not_answered(url: str, make: Commands, name: str) -> None:
    words: dict[str, Any] = {
        "heartbeat": {"claim": Claim(_an_effect(make), "t"), "lease": LEASE},
        "packet": {"run_id": "no such run"},
        "forgetting.of_subject": {"subject_json": b"1"},
        "forgetting.prunable": {"before": datetime.now(UTC), "after": "", "limit": 5},
        "forgetting.refusals": {"after": ("", -1), "limit": 5},
        "forgetting.drop": {"sheets": []},
        "forgetting.clear_away": {"rewrite": False},
        "forgetting.keep_redaction_check": {"check": "ab" * 32},
    }.get(name, {})
    for scope in SCOPES:
        client = Anything(url, f"{scope}@{make.tenant}")
        got = client.ask(name, **words)
        if scope in QUESTIONS[name].scopes:
            assert got[0] == (404 if name == "packet" else 200)
        else:
            refused(got, 403, "not-permitted")
        client.close()


def _an_effect(make: Commands) -> Effect:
    """Gives an effect of that tenant that is nowhere."""
    known = next(each for each in everything()[0] if isinstance(each, Finish)).claim.effect
    return replace(known, tenant=make.tenant)


def test_another_tenants_effects_are_not_there(url: str, agent: Anything, make: Commands) -> None:
    mine = answered(agent.apply(make.open("effect"))).claim
    stranger = Anything(url, "admin@somebody-else")
    assert stranger.ask("get_effect", effect_id=mine.effect.id) == (200, {"answer": None})
    assert stranger.ask("effects", selected=Filter(run_id="run-1"))[1] == {"answer": []}
    assert stranger.ask("events", run_id="run-1", after=-1, limit=9)[1] == {"answer": []}
    for words in ({"refs": [mine.effect.ref]}, {"refs": [mine.effect.ref], "versions": [1], "seconds": 0}):
        refused(stranger.ask("await" if "seconds" in words else "look", **words), 403, "not-permitted")
    refused(stranger.ask("heartbeat", claim=mine, lease=LEASE), 403, "not-permitted")
    refused(stranger.apply(make.finish(mine)), 403, "not-permitted")
    stranger.close()


def applied(make: Commands) -> Record:
    """Puts a policy in force that says nothing."""
    body = encode({"content": {}, "version": policy_of({}).version})
    sheet = Sheet(kind="policy", id="current", status="active", body=body)
    run_id = "indelible:journal"
    return Record(
        tenant=make.tenant, run_id=run_id, stamp=make.stamp(), event_type="policy_applied", facts=b"{}", sheet=sheet
    )


def test_agents_see_no_rules(agent: Anything, admin: Anything, make: Commands) -> None:
    answered(admin.apply(applied(make)))
    assert len(admin.ask("sheets", selected=SheetFilter(kind="policy"))[1]["answer"]) == 1
    assert agent.ask("sheets", selected=SheetFilter(kind="policy")) == (200, {"answer": []})


def test_an_administrator_writes_and_drops_nothing_past_the_verbs(admin: Anything, make: Commands) -> None:
    """A vote in other people's names, a budget that is full again, a key of the journal: none has a verb of its own."""
    answered(admin.apply(applied(make)))
    forged = replace(applied(make), run_id="run-1", event_type="approval_received")
    for kind in ("approval", "grant", "budget", "limit"):
        sheet = Sheet(kind=kind, id="x", status="active", body=b"{}")
        told, kept = replace(forged, sheet=sheet), Keep(tenant=make.tenant, stamp=make.stamp(), sheet=sheet)
        for command in (told, kept):
            refused(admin.apply(command), 403, "not-permitted")
        refused(admin.ask("forgetting.drop", sheets=[sheet]), 403, "not-permitted")
    key = replace(applied(make), event_type="key_registered", sheet=None)
    refused(admin.apply(key), 403, "not-permitted")
    policy = admin.ask("sheets", selected=SheetFilter(kind="policy"))[1]["answer"]
    refused(admin.ask("forgetting.drop", sheets=policy), 403, "not-permitted")


# What cannot be, in questions and in commands


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("events", {"run_id": "r", "after": 10**30, "limit": 5}),
        ("events", {"run_id": "\0", "after": 0, "limit": 5}),
        ("payloads", {"run_id": "r", "seqs": [2**53]}),
        ("find_by_key", {"key": "zz", "scope": None}),
        ("get_effect", {"effect_id": "\0"}),
        ("effects", {"selected": Filter(tool="\0")}),
        ("sheets", {"selected": SheetFilter(kind="run", after="\0")}),
        ("look", {"refs": [["T", "s", "zz"]]}),
        ("look", {"refs": [["T", "", "ab" * 32]]}),
        ("await", {"refs": [["T", "s", "ab" * 32]], "versions": [], "seconds": 1}),
        ("await", {"refs": [], "versions": [], "seconds": 31}),
        ("journal.tile", {"level": 10**30, "number": 0}),
        ("journal.index_of", {"run_id": "\ud800", "seq": 0}),
        ("journal.runs", {"after": "\0", "limit": 5}),
        ("forgetting.refusals", {"after": ["\0", 0], "limit": 5}),
        ("forgetting.prunable", {"before": "yesterday", "after": "", "limit": 5}),
        ("forgetting.keep_redaction_check", {"check": "x" * 10_000}),
    ],
)
def test_what_no_store_could_look_for_is_refused(admin: Anything, make: Commands, name: str, words: Any) -> None:
    told = json.loads(
        json.dumps({word: to_wire(value) for word, value in words.items()}).replace('"T"', f'"{make.tenant}"')
    )
    detail = refused(admin.ask(name, **told), 400, "bad-call")
    assert "//" not in detail, "and says nothing of where the database is"


@pytest.mark.parametrize(
    "words",
    [
        {"level": -1, "number": 0},
        {"level": 0, "number": 2**53 - 1},
        {"level": 2**53 - 1, "number": -(2**53) + 1},
    ],
)
def test_a_tile_that_is_not_there_is_empty(agent: Anything, words: Any) -> None:
    assert agent.ask("journal.tile", **words) == (200, {"answer": ""})


@pytest.mark.parametrize(
    "changes",
    [
        {"digest": "zz"},
        {"args_json": b"[]"},
        {"args_json": b'{"$redacted":"x"}'},
        {"tool": "a b"},
        {"run_id": "indelible:policy"},
        {"lease": timedelta.max},
        {"verdict": asking(expires=timedelta.max)},
        {"verdict": Verdict(decision="allow", charges=(replace(PAID, window=timedelta.max),))},
        {"verdict": Verdict(decision="refuse", rule="r" * 100_000)},
        {"verdict": asking(notify=tuple(f"c{n}" for n in range(3000)))},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_a_call_that_cannot_be_is_refused(agent: Anything, make: Commands, changes: Any) -> None:
    status, problem = agent.apply(make.open("effect", **changes))
    assert status in (400, 413), problem
    assert problem["detail"]


def test_ids_are_the_servers(agent: Anything, make: Commands) -> None:
    """Whoever sends another effect's id neither gets at it nor stumbles over it; the same holds for approvals."""
    first = make.open("first", effect_id="eff_mine")
    one, two = answered(agent.apply(first)), answered(agent.apply(make.open("second", effect_id="eff_mine")))
    assert isinstance(one, Claimed)
    assert isinstance(two, Claimed)
    assert one.claim.effect.id != two.claim.effect.id
    assert "eff_mine" not in (one.claim.effect.id, two.claim.effect.id)
    asked = [answered(agent.apply(make.ask(name, effect_id="eff_mine"))).approval.id for name in ("a", "b")]
    assert len(set(asked)) == 2
    again = answered(agent.apply(replace(first, stamp=make.stamp()))).claim
    assert (again.effect.id, again.token) == (one.claim.effect.id, one.claim.token), "what is sent again is known"


def test_many_happenings_are_told_whatever_salts_were_sent(agent: Anything, make: Commands) -> None:
    now = datetime.now(UTC)
    run = Run(id="r", agent="billing", created_at=now, updated_at=now)
    answered(agent.apply(StartRun(tenant=make.tenant, stamp=make.stamp(), run=run, token="t", lease=LEASE)))
    marked = Happening(type="own.kind", payload_json=b"1", side_effect="payment")
    happenings = tuple(replace(marked, side_effect_key=f"k{n}") for n in range(256))
    stamp = replace(make.stamp(), salts=b"")
    told = Tell(tenant=make.tenant, run_id="r", stamp=stamp, token="t", happenings=happenings)
    assert len(answered(agent.apply(told)).told) == 256
    assert len(agent.ask("payloads", run_id="r", seqs=list(range(300)))[1]["answer"]) == 512 + 1
    for name in ("", "\0", "x" * 501):
        sealing = SealCheckpoint(
            tenant=make.tenant, run_id="r", stamp=stamp, checkpoint=NewCheckpoint(id=name, reason="manual")
        )
        refused(agent.apply(sealing), 400, "bad-call")


# What a claim says of its effect is the other side's word


@pytest.mark.parametrize("is_together", [False, True])
def test_a_forged_effect_in_a_claim_changes_nothing(
    agent: Anything, admin: Anything, make: Commands, is_together: bool
) -> None:
    """What is recorded, charged and moved is the effect as the server knows it."""
    forgeries: list[dict[str, Any]] = [
        {"charges_json": None, "permission_id": None},
        {"run_id": "another", "id": "eff_another", "opened_seq": 7},
        {"tool": "drop", "args_json": b'{"n":9}', "side_effect": "read", "on_crash": "retry"},
    ]
    for number, forged in enumerate(forgeries):
        claim = answered(agent.apply(make.open(f"mail-{number}", tool="mail"))).claim
        report = make.finish(replace(claim, effect=replace(claim.effect, **forged)))
        other = [make.finish(answered(agent.apply(make.open(f"{number}"))).claim)] if is_together else []
        moved = answered(agent.apply(report, *other)).effect
        assert (moved.id, moved.run_id, moved.tool, moved.args_json) == (
            claim.effect.id,
            "run-1",
            "mail",
            claim.effect.args_json,
        )
        assert (moved.status, moved.charges_json) == ("succeeded", None)
    assert agent.ask("events", run_id="another", after=-1, limit=9)[1] == {"answer": []}
    (sheet,) = from_wire(list[Sheet], admin.ask("sheets", selected=SheetFilter(kind="budget"))[1]["answer"])
    budget = read_budget(sheet)
    assert (int(budget.reserved), int(sum(budget.spent.values()))) == (0, 3), "what was reserved is spent"


def test_nobody_settles_with_a_token_of_their_own(agent: Anything, make: Commands) -> None:
    """Not even who knows everything else of the effect, and says so."""
    claim = answered(agent.apply(make.open("effect"))).claim
    mine = Claim(claim.effect, "00" * 16)
    knowing = Claim(replace(claim.effect, token_hash=mine.token_hash), mine.token)
    for forged in (mine, knowing):
        for report in (make.finish(forged), make.relinquish(forged)):
            refused(agent.apply(report), 403, "not-permitted")
        refused(agent.ask("heartbeat", claim=forged, lease=LEASE), 403, "not-permitted")
    assert answered(agent.apply(make.finish(claim))).effect.status == "succeeded"


@pytest.mark.parametrize("lease", [timedelta.max, timedelta.min, timedelta(0), timedelta(days=2)])
def test_no_claim_is_held_for_ever(agent: Anything, make: Commands, lease: timedelta) -> None:
    claim = answered(agent.apply(make.open("effect"))).claim
    assert "lease" in refused(agent.ask("heartbeat", claim=claim, lease=lease), 400, "bad-call")
    assert agent.ask("heartbeat", claim=claim, lease=LEASE) == (200, {"answer": True})


def test_an_edit_takes_the_place_of_the_call_with_its_arguments_and_no_other(agent: Anything, make: Commands) -> None:
    """A client that could name any place would make somebody else's call the one that was approved."""
    command = make.open("effect")
    edited = encode({"n": 2})
    key = command.naming.key(command.ref, command.tool, edited)
    assert key is not None
    there = command.ref._replace(key=key)

    def asked(ref: Ref) -> tuple[int, Any]:
        edit = EditRead(version=1, args_json=edited, is_exact=True, takes=Taken(ref=ref, effect_id="eff_1"))
        return agent.apply(replace(command, edit=edit))

    for other in (command.ref, there._replace(scope="run:other"), there._replace(tenant="other")):
        refused(asked(other), 400, "bad-call")
    assert asked(there)[0] == 200


def test_nobody_takes_a_run_over_by_a_heartbeat(agent: Anything, make: Commands) -> None:
    """The right to drive only lasts longer by it: who had it before, and how often it was taken, stays."""
    now = datetime.now(UTC)
    run = Run(id="r", agent="billing", created_at=now, updated_at=now)
    answered(agent.apply(StartRun(tenant=make.tenant, stamp=make.stamp(), run=run, token="t", lease=LEASE)))
    (sheet,) = from_wire(list[Sheet], agent.ask("sheets", selected=SheetFilter(kind="driver"))[1]["answer"])
    assert hash_of("t") not in str(sheet.body)
    driver = read_driver(sheet)
    assert not driver.is_held_by(hash_of("t"))
    seen = driver_sheet(replace(driver.kept(now + LEASE * 2), is_released=True))
    refused(agent.apply(make.keep(seen)), 403, "not-permitted")  # what is shown is not enough to end it
    driver = driver.seen_by(hash_of("t"))
    assert driver.is_held_by(hash_of("t"))
    for ahead in (1, 2):
        stolen = replace(driver, version=driver.version + ahead, token_hash=hash_of("mine"), holder="me")
        refused(agent.apply(make.keep(driver_sheet(stolen))), 403, "not-permitted")
    late = replace(driver, token_hash=hash_of("mine"))
    outrun = answered(agent.apply(make.keep(driver_sheet(late))))
    assert isinstance(outrun, Outrun)
    assert outrun.sheet is not None
    assert hash_of("t") not in str(outrun.sheet.body)
    nobodys = replace(driver, run_id="other", version=1)
    refused(agent.apply(make.keep(driver_sheet(nobodys))), 403, "not-permitted")
    kept = driver_sheet(driver.kept(now + LEASE * 2))
    assert answered(agent.apply(make.keep(kept))) == Kept(hidden_driver(kept))


# Nothing an agent can send lowers the policy


def _options(chance: random.Random) -> dict[str, Any]:
    """Gives everything that a caller can say about a call, at random."""
    verdicts = [
        Verdict(decision="allow"),
        Verdict(decision="allow", rule="all else", policy="ab" * 32, charges=(replace(PAID, amount=Decimal(0)),)),
        asking(rule="refunds are asked about", people=None),
        Verdict(decision="ask", rule="the tool asks", question=Question(rule="the tool asks")),
    ]
    return {
        "verdict": chance.choice(verdicts),
        "side_effect": chance.choice(["none", "read", "write", "external_mutation", "payment", "notification"]),
        "on_crash": chance.choice(["hold", "retry"]),
        "dedupe": chance.choice(["args", "call", "ask"]),
        "call_id": chance.choice([None, "c1"]),
        "has_key_fields": chance.random() < 0.5,
        "schema": chance.choice(["", "ab" * 32]),
        "principal": chance.choice([None, "boss", "ana"]),
        "grants": chance.choice([{}, {"grant_1": "ab" * 32}]),
        "awaited_approval": chance.choice([None, "apr_x"]),
        "run_id": chance.choice(["run-1", "run-2"]),
        "args_json": chance.choice([b"{}", b'{"requires_approval":false}', b'{"approval":"none","dummy":1}']),
        "subject_json": chance.choice([None, b'"ada"']),
    }


def test_no_option_of_a_call_lowers_the_policy(agent: Anything, make: Commands) -> None:
    """What is refused stays so, what is asked about waits, and what has a budget keeps to it."""
    chance, paid = random.Random(6), 0
    for number in range(60):
        tool = chance.choice(["drop", "refund", "undeclared", "mail", "wire"])
        command = make.open(f"effect-{number}", tool=tool, **_options(chance))
        answer = agent.apply(command)
        if answer[0] == 400:  # the policy's class has effects, so that it must not be told apart as a read
            assert (command.side_effect in ("none", "read"), command.dedupe) == (True, "call")
            continue
        kind = type(answered(answer)).__name__
        paid += tool == "mail" and kind == "Claimed"
        allowed = {"mail": {"Claimed", "OverBudget", "AwaitingApproval"}}
        allowed |= {name: {"RefusedByPolicy"} for name in ("drop", "undeclared")}
        assert kind in allowed.get(tool, {"AwaitingApproval"}), (tool, kind)
    assert paid <= 3


def test_whom_a_call_says_it_is_for_allows_nothing(agent: Anything, make: Commands) -> None:
    """No credential attests it. It may only keep the call from running, and somebody from deciding on their own."""
    asked = answered(agent.apply(make.open("wire", tool="wire", principal="ana")))
    assert (type(asked), asked.approval.principal) == (AwaitingApproval, "ana")
    assert len(asked.approval.question.escalations) == 0
    refused_one = answered(agent.apply(make.open("tool", principal="mallory")))
    assert isinstance(refused_one, RefusedByPolicy)
    assert isinstance(answered(agent.apply(make.open("other", principal="ana"))), Claimed)


# Whatever is changed


VALUES: list[Any] = [
    None, True, 0, -1, 2**31, 2**53 - 1, 10**30, 1.5, "", "text", "\0", "x" * 501, "x" * 70_000, "\ud800", "é" * 300,
    "indelible:x", [], {}, "2030-01-02T00:00:00+00:00", "9999-12-31T23:59:59+00:00", "0001-01-01T00:00:00+00:00",
    86_400_000_000 * 3660, -(10**15), "1e90", "AAAA", "eyJhIjoxfQ==", "bnVsbA==", "W10=", "eff_1", "run-1", "ab" * 32,
]  # fmt: skip


def _places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, held in members:
        yield (*at, name)
        yield from _places(held, (*at, name))


def _of_tenant(value: Any, tenant: str) -> Any:
    """Gives a command on the wire as one of this tenant."""
    if isinstance(value, dict):
        kept = {name: _of_tenant(each, tenant) for name, each in value.items()}
        kept |= {"tenant": tenant} if "tenant" in value else {}
        return kept | ({"ref": [tenant, *value["ref"][1:]]} if "ref" in value else {})
    return [_of_tenant(each, tenant) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize("scope", ["agent", "admin"])
def test_whatever_is_changed_in_a_command_the_server_stays_well(
    url: str, make: Commands, scope: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    chance, client = random.Random(scope), Anything(url, f"{scope}@{make.tenant}")
    by_kind: dict[str, list[Any]] = {}
    for command in everything()[0]:
        by_kind.setdefault(type(command).__name__, []).append(to_wire(command))
    for _ in range(250):
        sent = copy.deepcopy(chance.choice(by_kind[chance.choice(sorted(by_kind))]))
        sent = _of_tenant(sent, make.tenant)
        for _ in range(chance.choice([0, 1, 1, 2])):
            *way, last = chance.choice(list(_places(sent)))
            holder = sent
            for name in way:
                holder = holder[name]
            holder[last] = chance.choice(VALUES)
        status, content = client.send("/v1/store/apply", json.dumps({"commands": [sent]}))[::2]
        assert status in (200, 400, 403, 413, 422), (status, content, sent)
    client.close()
    with contextlib.closing(RemoteStore(url, token=quote(f"admin@{make.tenant}"))) as store:
        runs = [run_id for run_id, _, _ in store.journal.runs(make.tenant, "", 1000)]
        # Most changed commands are refused; what was taken is chained.
        assert sum(len(check_chain(store, make.tenant, run_id)) for run_id in runs) > 0, "and every chain is whole"
