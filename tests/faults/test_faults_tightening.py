"""Faults 39, 46, 47, 48, 51 and 52: permissions only tighten, on every store and through every shell."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any
from uuid import uuid4

import pytest

from indelible import (
    Actor,
    AwaitingApproval,
    Claimed,
    GrantTerms,
    Ledger,
    MayRun,
    Replayed,
    Resource,
    Retry,
    Succeeded,
    ToolCall,
    connect,
    migrate,
)
from indelible.compat.zehrava import Gate, GateError
from indelible.core.policy.policy import policy_of
from indelible.errors import (
    ApprovalPending,
    BadCall,
    BadPolicy,
    EffectInDoubt,
    KeyReused,
    MayHaveHappened,
    NoRun,
    NothingHappened,
    NotRun,
    NotSealed,
    PolicyRefused,
    ResourceBusy,
    VoteRefused,
)
from indelible.integrations.function_calls import FunctionCalls
from indelible.server.gateway import Gateway
from indelible.server.gateway_tools import GatewayTool
from indelible.server.signin.credentials import Credentials
from tests.journal.test_sealing import Broken
from tests.scenarios.policies import asking
from tests.scenarios.shells import Count, Driver, Shell, approve, asked, charge, somebody_waits, types_of
from tests.server.conftest import each_place as each_place
from tests.server.places import ROOT, Place
from tests.waiting import eventually

BLANK = [" ", "\t", "\u00a0", "\u3000", "\u200b", "\u2060\ufeff", "\u2800", "\u3164", " \u00a0\u200d\n"]
WORDS: list[str | None] = [None, "none", "required"]


def run_id() -> str:
    return f"run-{uuid4().hex[:8]}"


def said(**words: Any) -> dict[str, Any]:
    return {word: value for word, value in words.items() if value is not None}


def fresh(ledger: Driver, handler: Any, call: ToolCall, **words: Any) -> bool:
    """Makes a call, and says whether it ran."""
    try:
        ledger.run(call, handler, wait=False, **words)
    except ApprovalPending:
        return False
    return True


# ── 39 ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _wire(ledger: Driver, name: str, entries: list[int], **words: Any) -> Any:
    def wire(amount: int) -> str:
        entries.append(amount)
        return "sent"

    wire.__qualname__ = name  # each of them is a tool of its own
    return ledger.tool(name, **words)(wire)


@pytest.mark.parametrize("of_ledger", WORDS)
def test_39_no_door_asks_less_than_ledger_tool_or_call_demand(shell: Shell, of_ledger: str | None) -> None:
    """`ledger.run(wire.bind(…), wire.handler, approval="none")` ran a tool that demands approval."""
    ledger = shell.open(**said(approval=of_ledger), wait=False)
    for of_tool, of_call in product(WORDS, WORDS):
        name, entries = f"wire-{of_tool}-{of_call}", list[int]()
        wire = _wire(ledger, name, entries, **said(approval=of_tool))
        must_ask = "required" in (of_ledger, of_tool, of_call)
        words = said(approval=of_call)
        other = ToolCall(tool=name, args={"amount": 4}, run_id="order-1")
        assert fresh(ledger, wire.handler, wire.bind(1), **words) is not must_ask
        assert isinstance(ledger.begin(wire.bind(2), **words), AwaitingApproval) is must_ask
        assert isinstance(ledger.ask(wire.bind(3), **words), MayRun) is not must_ask
        assert fresh(ledger, wire.handler, other, **words) is not must_ask
        if "required" in (of_ledger, of_tool):
            with pytest.raises(ApprovalPending):
                ledger.call(wire, 5)
        assert (entries == []) is must_ask
        unknown = charge(tool=f"{name}-unknown", run_id=run_id())
        assert fresh(ledger, Count(), unknown, **words) is ("required" not in (of_ledger, of_call))


def audited(function: Any) -> Any:
    @functools.wraps(function)
    def wrapper(*args: Any, **words: Any) -> Any:
        return function(*args, **words)

    return wrapper


def timed(function: Any) -> Any:
    @functools.wraps(function)
    def outer(*args: Any, **words: Any) -> Any:
        return function(*args, **words)

    return outer


def in_euros(function: Any) -> Any:
    return functools.update_wrapper(functools.partial(function, currency="eur"), function)


def test_39_a_tool_of_another_ledger_keeps_its_demands(store_url: str) -> None:
    ran: list[int] = []

    def wire(amount: int) -> str:
        ran.append(amount)
        return "wired"

    migrate(store_url)
    with Ledger.open(store_url, run="r") as one, Ledger.open(store_url, run="r") as other:
        asks = one.tool(side_effect="payment", approval="required")(wire)
        with pytest.raises(ApprovalPending):
            other.run(asks.bind(8), asks.handler, wait=False)
    assert ran == []


@pytest.mark.parametrize("again", [timed, in_euros])
@pytest.mark.parametrize("door", ["object", "bound"])
def test_39_a_tool_object_keeps_its_demands_when_its_function_becomes_a_tool_again(
    store_url: str, again: Any, door: str
) -> None:
    """The newest tool of a name said how a call through an older object was treated: it ran unasked."""
    ran: list[int] = []

    def wire(amount: int, currency: str = "usd") -> str:
        ran.append(amount)
        return "wired"

    wire.__qualname__ = "wire"  # as if it stood in a module
    migrate(store_url)
    with Ledger.open(store_url, run="r") as ledger:
        asks = ledger.tool("wire", side_effect="payment", approval="required", wait=False)(audited(wire))
        ledger.tool("wire", side_effect="payment")(again(wire))
        call = asks if door == "object" else lambda n: ledger.run(asks.bind(n), asks.handler, wait=False)
        with pytest.raises(ApprovalPending):
            call(999_999)
        assert ran == []


@pytest.mark.parametrize(
    ("of_tool", "of_call"),
    [
        ({"side_effect": "payment"}, {"side_effect": "read"}),
        ({"side_effect": "payment"}, {"on_crash": "retry"}),
        ({"on_crash": "hold", "side_effect": "read"}, {"on_crash": "retry"}),
    ],
)
def test_39_a_call_makes_no_repeat_of_what_its_tool_holds(ledger: Driver, of_tool: Any, of_call: Any) -> None:
    @ledger.tool("wire", **of_tool)
    def wire(amount: int) -> str:
        raise MayHaveHappened("no answer came")

    call = wire.bind(1)
    with pytest.raises(MayHaveHappened):
        ledger.run(call, _interrupted, **of_call)
    with pytest.raises(EffectInDoubt):
        ledger.run(call, Count(), wait=False, **of_call)


def _interrupted(effect: Any) -> None:
    raise MayHaveHappened("no answer came")


def test_39_a_call_after_doubt_may_demand_more_than_the_first_one(ledger: Driver) -> None:
    with pytest.raises(MayHaveHappened):
        ledger.run(charge(), _interrupted, side_effect="payment", on_crash="retry")
    with pytest.raises(EffectInDoubt):
        ledger.run(charge(), Count(), side_effect="payment", on_crash="hold", wait=False)


def _asked_for(tool: str, number: int, **args: Any) -> list[dict[str, Any]]:
    return [{"id": f"call_{number}abc", "type": "function", "function": {"name": tool, "arguments": json.dumps(args)}}]


@pytest.mark.parametrize(
    ("of_tool", "of_terms"),
    [
        ({"dedupe": "args"}, {}),
        ({"key": ["order"]}, {}),
        ({"key": ["order"]}, {"dedupe": "call"}),
        ({"resource": {"namespace": "shop", "type": "order", "id": "args.order"}}, {}),
    ],
    ids=str,
)
def test_39_what_a_tool_says_of_identity_holds_behind_adapters(store_url: str, of_tool: Any, of_terms: Any) -> None:
    entries: list[str] = []
    migrate(store_url)
    with Ledger.open(store_url) as ledger:

        @ledger.tool("mail", side_effect="notification", **of_tool)
        def mail(order: str, text: str = "hi") -> str:
            entries.append(order)
            return "sent"

        calls = FunctionCalls(ledger, {"mail": mail.__wrapped__}, run="r1", terms={"mail": of_terms})  # type: ignore[attr-defined]
        for number in range(3):
            calls.answer(_asked_for("mail", number, order="o1"), turn=f"m{number}")
        assert entries == ["o1"]


@pytest.mark.parametrize("by", ["tool", "ledger"])
def test_39_what_only_the_terms_call_a_read_is_not_repeated_as_one(store_url: str, by: str) -> None:
    entries: list[str] = []
    migrate(store_url)

    def wire(to: str) -> str:
        entries.append(to)
        return "sent"

    with Ledger.open(store_url, **said(side_effect="payment" if by == "ledger" else None)) as ledger:
        if by == "tool":
            ledger.tool("wire", side_effect="payment")(wire)
        calls = FunctionCalls(ledger, {"wire": wire}, run="r1", terms={"wire": {"side_effect": "read"}})
        for number in range(3):
            calls.answer(_asked_for("wire", number, to="x"), turn="m1")
        assert (entries, [effect.side_effect for effect in ledger.effects()]) == (["x"], ["payment"])


@pytest.mark.parametrize("told", [{"dedupe": "args"}, {"key": ["order"]}], ids=str)
def test_39_an_agent_does_not_overrule_what_the_servers_tool_says_of_identity(store_url: str, told: Any) -> None:
    entries: list[str] = []

    def mail(order: str) -> None:
        entries.append(order)

    tool = GatewayTool(name="mail", words={"side_effect": "notification"}, identity=told, function=mail)
    place = Place(store_url, gateway=Gateway({"mail": tool}))
    try:
        for number in range(3):
            body = {"args": {"order": "o1"}, "run_id": "r1", "dedupe": "turn", "turn": f"m{number}"}
            assert place.post("/v1/tools/mail/calls", body).status_code < 300
        assert entries == ["o1"]
    finally:
        place.close()


@pytest.mark.parametrize(
    "word",
    [
        {"nothing_on": Exception},
        {"failed_on": Exception},
        {"refused": lambda error: True},
        {"marks_sending": True},
        {"retry": Retry(on=(Exception,))},
        {"reconcile": lambda effect: Succeeded("yes")},
        {"volatile": ["amount"]},
        {"subject": "args.amount"},
    ],
    ids=lambda word: next(iter(word)),
)
def test_39_what_is_known_of_a_registered_tool_is_for_the_tool_to_say(ledger: Driver, word: Any) -> None:
    handler = Count()

    @ledger.tool("wire", side_effect="payment")
    def wire(amount: int) -> str:
        return "sent"

    with pytest.raises(BadCall):
        ledger.run(wire.bind(1), handler, **word)
    with pytest.raises(BadCall):
        ledger.begin(wire.bind(1), **word)
    assert handler.entries == 0


@pytest.mark.parametrize(
    "words",
    [
        {"key": ["memo"]},
        {"scope": "elsewhere"},
        {"resource": Resource(namespace="a", type="b", id="c")},
        {"varies": ["amount"]},
        {"on_reuse": "replay"},
        {"adopted_key": "ab" * 32},
        {"dedupe": "call", "call_id": "another"},
    ],
    ids=lambda words: next(iter(words)),
)
def test_39_a_call_of_a_registered_tool_makes_no_second_one_by_another_identity(ledger: Driver, words: Any) -> None:
    entries: list[str] = []

    @ledger.tool("refund", key=["order"], scope="shop", varies=["memo"], on_reuse="refuse", dedupe="ask")
    def refund(order: str, amount: int, memo: str = "") -> int:
        entries.append(order)
        return amount

    first = ToolCall(tool="refund", args={"order": "1", "amount": 5}, run_id="order-1", call_id="one")
    ledger.run(first, refund.handler)
    other = ToolCall(**{**said(tool="refund", args={"order": "1", "amount": 5}, run_id="order-1"), **words})
    for call in (other, refund.completed(first)):
        try:
            ledger.run(call, refund.handler, wait=False)
        except (BadCall, ApprovalPending):
            continue
    assert entries == ["1"]


def test_39_no_option_lowers_what_the_policy_says(shell: Shell) -> None:
    """Also a stricter class is judged as the tool's own class besides: some policies refuse the lower one."""
    policy = {"defaults": {"notification": "refuse", "payment": "allow"}}
    ledger = shell.open(policy=policy)

    @ledger.tool("mail", side_effect="notification")
    def mail(to: str) -> None:
        raise AssertionError

    for words in ({}, {"side_effect": "payment"}, {"side_effect": "none"}, {"approval": "none"}, {"on_crash": "hold"}):
        with pytest.raises(PolicyRefused):
            ledger.run(mail.bind("ana"), Count(), **words)


def test_39_every_resource_that_is_to_be_kept_is_kept(shell: Shell) -> None:
    shop, order = (Resource(namespace="shop", type=kind, id="1") for kind in ("shop", "order"))
    ledger = shell.open(exclusive=shop)
    ledger.begin(charge(run_id="a"), exclusive=order)
    for words in ({}, {"exclusive": Resource(namespace="x", type="y", id="z")}):
        with pytest.raises(ResourceBusy):
            ledger.run(charge(run_id="b"), Count(), **words)


def test_39_an_adapters_terms_lower_nothing(shell: Shell) -> None:
    ledger, entries = shell.open(approval="required"), []

    def wire(amount: int) -> None:
        entries.append(amount)

    calls = FunctionCalls(ledger.blocking, {"wire": wire}, run="order-1", terms={"wire": {"approval": "none"}})
    calls.answer([{"id": "c", "type": "function", "function": {"name": "wire", "arguments": '{"amount": 1}'}}])
    assert (entries, [one.tool for one in ledger.approvals(status="pending")]) == ([], ["wire"])


def test_39_a_server_asks_what_its_own_ledger_demands(sqlite_url: str) -> None:
    """Whatever an agent sends: over HTTP, and as a client that judges by itself first."""
    place = Place(sqlite_url, approval="required", on_crash="hold")
    try:
        for number, words in enumerate(({}, {"approval": "none"}, {"side_effect": "read", "on_crash": "retry"})):
            assert place.begin(run_id=f"run-{number}", **words).status_code == 202
        with connect(place.served.url, token=place.tokens["agent"]) as client:
            begun = client.begin(charge(run_id="client"), approval="none", side_effect="read", on_crash="retry")
            assert isinstance(begun, AwaitingApproval)
            assert begun.effect.on_crash == "hold"
    finally:
        place.close()


# ── 46 ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def place(each_place: Place) -> Iterator[Place]:
    return each_place


def given(place: Place, name: str, scopes: tuple[str, ...] = ("approver",), **words: Any) -> tuple[str, str]:
    """Give a token; return its id and the token."""
    credential, token = Credentials(place.store, "acme").give(name, scopes, by=ROOT, **words)
    place.tokens[name] = str(token)
    return credential.id, str(token)


def decide(place: Place, approval: Any, who: str, **words: Any) -> int:
    body = {"decision": "approve", "digest": approval["digest"], **words}
    return place.post(f"/v1/approvals/{approval['id']}/decisions", body, who).status_code


def test_46_a_vote_cast_with_a_token_that_was_revoked_since_does_not_count(place: Place) -> None:
    run, who = run_id(), f"eve-{run_id()}"
    key, _ = given(place, who)
    approval = place.begin(run_id=run, approval="required").json()["approval"]
    assert decide(place, approval, who) == 201
    Credentials(place.store, "acme").revoke(key, by=ROOT)
    again = place.begin(run_id=run, approval="required")
    assert (again.status_code, again.json()["approval"]["votes"]) == (202, [])
    assert decide(place, again.json()["approval"], "ana") == 201
    assert place.begin(run_id=run, approval="required").status_code == 201


def test_46_the_same_person_votes_again_with_another_token(place: Place) -> None:
    run, who = run_id(), f"eve-{run_id()}"
    key, _ = given(place, who)
    approval = place.begin(run_id=run, approval="required").json()["approval"]
    assert decide(place, approval, who) == 201
    Credentials(place.store, "acme").revoke(key, by=ROOT)
    given(place, who)
    again = place.begin(run_id=run, approval="required").json()["approval"]
    assert decide(place, again, who) == 201
    assert place.begin(run_id=run, approval="required").status_code == 201


def test_46_a_client_of_the_store_does_not_choose_its_token(place: Place) -> None:
    run, who = run_id(), f"eve-{run_id()}"
    key, token = given(place, who)
    approval = place.begin(run_id=run, approval="required").json()["approval"]
    with connect(place.served.url, token=token) as client:
        voted = client.approve(approval["id"], digest=approval["digest"], by=Actor(who, credential="key_other"))
        assert voted.votes[0].credential == key
    Credentials(place.store, "acme").revoke(key, by=ROOT)
    assert place.begin(run_id=run, approval="required").status_code == 202


def test_46_a_token_that_has_expired_since_was_good_when_it_voted(place: Place) -> None:
    run, who = run_id(), f"eve-{run_id()}"
    key, _ = given(place, who, expires_at=datetime.now(UTC) + timedelta(hours=1))
    approval = place.begin(run_id=run, approval="required").json()["approval"]
    assert decide(place, approval, who) == 201
    register = Credentials(place.store, "acme")
    found = register.find(key)
    assert found is not None
    over = replace(found, version=found.version + 1, expires_at=datetime.now(UTC) - timedelta(hours=1))
    register._write("credential_given", over, ROOT)
    assert place.begin(run_id=run, approval="required").status_code == 201


def test_46_a_grant_given_with_a_token_that_was_revoked_since_covers_nothing(place: Place) -> None:
    run, who = run_id(), f"eve-{run_id()}"
    key, _ = given(place, who)
    until = (datetime.now(UTC) + timedelta(days=1)).isoformat().replace("+00:00", "Z")
    words = {"tool": f"mail-{run}", "args": {"to": "x"}, "approval": "required"}
    approval = place.begin(run_id=run, **words).json()["approval"]
    assert decide(place, approval, who, grant={"count": 5, "until": until}) == 201
    assert place.begin(run_id=run + "-2", **words).status_code == 201
    Credentials(place.store, "acme").revoke(key, by=ROOT)
    assert place.begin(run_id=run + "-3", **words).status_code == 202


@pytest.mark.parametrize("has_voted", [False, True])
@pytest.mark.parametrize("by_client", [False, True], ids=["http", "client"])
def test_46_a_delegation_given_with_a_token_that_was_revoked_since_lets_no_one_vote(
    store_url: str, has_voted: bool, by_client: bool
) -> None:
    rule = {"name": "one", "match": {"tool": "charge"}, "then": "ask"}
    place = Place(store_url, policy=policy_of({"people": {"eve": {}}, "rules": [rule]}))
    try:
        key, token = given(place, "eve")
        until = datetime.now(UTC) + timedelta(days=1)
        if by_client:
            with connect(place.served.url, token=token) as client:
                client.delegate("bob", until=until, by=Actor("eve", credential="key_other"), reason="on holiday")
        else:
            told = {"to": "bob", "until": until.isoformat().replace("+00:00", "Z")}
            assert place.post("/v1/delegations", told, "eve").status_code == 201
        approval = place.begin(run_id="r1").json()["approval"]
        if has_voted:
            assert decide(place, approval, "bob") == 201
        Credentials(place.store, "acme").revoke(key, by=ROOT)
        if not has_voted:
            assert decide(place, approval, "bob") == 409
        again = place.begin(run_id="r1")
        assert (again.status_code, again.json()["approval"]["votes"]) == (202, [])
    finally:
        place.close()


# ── 47 ───────────────────────────────────────────────────────────────────────────────────────────────────────────────

C1, C2 = {"charge": "c1", "amount": 5}, {"charge": "c2", "amount": 5}
KEYED = pytest.mark.parametrize(
    "words", [{"key": ["charge"]}, {}, {"varies": ["amount"]}], ids=["key", "args", "varies"]
)


def edited(ledger: Driver, question: Any, args: Any, by: str = "eve", reason: str = "that one") -> Any:
    about = question.approval if hasattr(question, "approval") else question
    return ledger.edit_approval(about.id, args, digest=about.digest, by=by, reason=reason)


@KEYED
@pytest.mark.parametrize("first", ["c1", "c2"])
def test_47_an_edit_takes_the_key_of_the_edited_call(ledger: Driver, words: Any, first: str) -> None:
    """c1 was edited to c2, and c2 by itself was refunded again."""
    handler = Count({"refunded": 5})
    question = edited(ledger, asked(ledger, args=C1, **words), C2)
    with pytest.raises(ApprovalPending):
        ledger.run(charge(args=C2, **words), handler, wait=False)
    approve(ledger, question, by="ana")
    order = [C1, C2] if first == "c1" else [C2, C1]
    for args in (*order, *order):
        assert ledger.run(charge(args=args, **words), handler) == {"refunded": 5}
    assert handler.entries == 1
    assert ledger.effects(status="succeeded")[0].args == C2


@KEYED
def test_47_an_edit_to_a_call_that_was_made_is_refused(ledger: Driver, words: Any) -> None:
    handler = Count()
    ledger.run(charge(args=C2, **words), handler)
    question = asked(ledger, args=C1, **words)
    with pytest.raises(VoteRefused) as refused:
        edited(ledger, question, C2)
    assert refused.value.code == "key_taken"
    approve(ledger, question)
    ledger.run(charge(args=C1, **words), handler)
    assert handler.entries == 2


def test_47_the_taken_key_with_other_arguments_is_not_run(ledger: Driver) -> None:
    handler = Count()
    approve(ledger, edited(ledger, asked(ledger, args=C1, key=["charge"]), C2), by="ana")
    for _ in range(2):
        with pytest.raises(KeyReused):
            ledger.run(charge(args={"charge": "c2", "amount": 9900}, key=["charge"]), handler)
        ledger.run(charge(args=C1, key=["charge"]), handler)
    assert handler.entries == 1


def test_47_an_edit_of_what_does_not_identify_the_call_takes_nothing(ledger: Driver) -> None:
    edited(ledger, asked(ledger, args=C1, key=["charge"]), {**C1, "amount": 1})
    assert [effect.status for effect in ledger.effects()] == ["requires_approval"]


def test_47_an_edit_may_go_on_and_come_back(ledger: Driver) -> None:
    handler = Count()
    question = asked(ledger, args=C1, key=["charge"])
    for args in (C2, {"charge": "c3", "amount": 5}, C2, C1):
        question = edited(ledger, question, args)
    approve(ledger, question, by="ana")
    ledger.run(charge(args=C1, key=["charge"]), handler)
    for args in (C2, {"charge": "c3", "amount": 5}):
        with pytest.raises(KeyReused):
            ledger.run(charge(args=args, key=["charge"]), handler)
    assert handler.entries == 1


def test_47_a_denied_edit_denies_the_call_that_it_is(ledger: Driver) -> None:
    question = edited(ledger, asked(ledger, args=C1, key=["charge"]), C2)
    ledger.deny(question.id, by="ana", reason="neither")
    for args in (C1, C2):
        with pytest.raises(NotRun):
            ledger.run(charge(args=args, key=["charge"]), Count())


# ── 48 ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("key", [None, "order-7"])
def test_48_an_edited_and_approved_intent_is_executed_once(place: Place, key: str | None) -> None:
    gate, ana = (Gate(endpoint=place.served.url, api_key=place.tokens[who]) for who in ("agent", "ana"))
    run = run_id()
    words: dict[str, Any] = {"destination": f"bank-{run}", "policy": "p", "idempotency_key": key and f"{key}-{run}"}
    intent = gate.propose(**words, payload={"amount": 500}, run_id=run)["intentId"]
    shown = place.get(f"/v1/approvals/{intent}", "bob").json()
    body = {
        "args": {**shown["args"], "payload": {"amount": 50}},
        "digest": shown["approval"]["digest"],
        "reason": "less",
    }
    assert place.post(f"/v1/approvals/{intent}/edit", body, "bob").status_code == 200
    with pytest.raises(GateError):
        gate.execute(intent_id=intent)
    assert ana.approve(intent_id=intent)["status"] == "approved"
    execution = gate.execute(intent_id=intent)
    assert (execution["payload"], execution["edited"]) == ({"amount": 50}, True)
    with pytest.raises(GateError):
        gate.execute(intent_id=intent)
    gate.report(execution, result={"paid": 50})
    with pytest.raises(GateError):
        gate.execute(intent_id=intent)
    for amount in (500, 50):
        assert gate.propose(**words, payload={"amount": amount}, run_id=run)["status"] == "duplicate_blocked"
    effects = place.get(f"/v1/effects?run_id={run}", "auditor").json()["effects"]
    assert [effect["attempt"] for effect in effects if effect["status"] == "succeeded"] == [1]
    gate.close()
    ana.close()


# ── 51 ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("end", ["in_doubt", "failed"])
def test_51_a_retry_of_what_was_approved_is_asked_again(ledger: Driver, end: str) -> None:
    """It ran unasked when the call came without `approval=`."""
    handler = Count()
    approve(ledger, asked(ledger))
    problem = MayHaveHappened if end == "in_doubt" else ValueError
    with pytest.raises(problem):
        ledger.run(charge(), _raising(problem), **({} if end == "in_doubt" else {"failed_on": ValueError}))
    (effect,) = ledger.effects()
    assert effect.status == end
    ledger.retry(effect.id, by="ana", reason="the provider knows nothing of it")
    with pytest.raises(ApprovalPending) as pending:
        ledger.run(charge(), handler, wait=False)
    assert handler.entries == 0
    approve(ledger, pending.value)
    ledger.run(charge(), handler)
    assert handler.entries == 1
    assert types_of(ledger).count("approval_requested") == 2


@pytest.mark.parametrize("uses", [1, 2])
@pytest.mark.parametrize("end", ["in_doubt", "failed", "ready"])
def test_51_a_retry_of_what_ran_on_a_grant_takes_a_grant_or_is_asked_again(ledger: Driver, end: str, uses: int) -> None:
    """It ran unasked when the call came without `approval=`: its row did not say that it had needed permission."""
    terms = GrantTerms(count=uses, until=datetime.now(UTC) + timedelta(hours=1))
    approve(ledger, asked(ledger, run_id="first"), grant=terms)
    problem = {"in_doubt": MayHaveHappened, "failed": ValueError, "ready": NothingHappened}[end]
    declared = {"failed_on": ValueError} if end == "failed" else {}
    with pytest.raises(problem):
        ledger.run(charge(), _raising(problem), approval="required", **declared)
    (effect,) = ledger.effects(run_id="order-1")
    assert (effect.status, effect.approval_id) == (end, None)
    if end != "ready":
        ledger.retry(effect.id, by="ana", reason="the provider knows nothing of it")
    handler = Count()
    if uses == 2:
        ledger.run(charge(), handler, approval="required", wait=False)
        assert (handler.entries, ledger.grants()) == (1, [])
        return
    with pytest.raises(ApprovalPending) as pending:
        ledger.run(charge(), handler, wait=False)
    assert handler.entries == 0
    approve(ledger, pending.value)
    ledger.run(charge(), handler)
    assert handler.entries == 1


def _raising(problem: type[BaseException]) -> Any:
    def handler(effect: Any) -> None:
        raise problem("it went wrong")

    return handler


def test_51_a_run_never_runs_on_the_approval_of_another(ledger: Driver) -> None:
    handler = Count()
    approve(ledger, asked(ledger, run_id="run-a", scope="webhook-7"))
    other = charge(run_id="run-b", scope="webhook-7")
    for words in ({}, {"approval": "required"}):
        with pytest.raises(ApprovalPending) as pending:
            ledger.run(other, handler, wait=False, **words)
    assert (pending.value.approval.for_run, handler.entries) == ("run-b", 0)
    with pytest.raises(ApprovalPending):
        ledger.run(charge(run_id="run-a", scope="webhook-7"), handler, wait=False)
    approve(ledger, pending.value)
    ledger.run(other, handler)
    ledger.run(charge(run_id="run-a", scope="webhook-7"), handler)
    assert handler.entries == 1, "and it is executed once"


def test_51_a_run_that_waits_beside_the_one_that_asked_leaves_it_the_approval(shell: Shell) -> None:
    ledger, handler = shell.open(), Count()
    question = asked(ledger, run_id="run-a", scope="webhook-7")
    waiting = ledger.spawn("run", charge(run_id="run-b", scope="webhook-7"), handler)
    somebody_waits(ledger)
    approve(ledger, question)
    assert ledger.run(charge(run_id="run-a", scope="webhook-7"), handler) == "done"
    assert waiting.result(30) == "done"
    assert handler.entries == 1


@pytest.mark.parametrize("name", BLANK, ids=ascii)
def test_51_a_name_that_nobody_sees_is_refused_wherever_it_comes_in(shell: Shell, name: str) -> None:
    ledger = shell.open()
    question = asked(ledger).approval
    until = datetime.now(UTC) + timedelta(hours=1)
    digest = question.digest
    doors: list[Any] = [
        lambda: Actor(name),
        lambda: shell.open(principal=name),
        lambda: shell.open(actor=name),
        lambda: ledger.approve(question.id, digest=digest, by=name),
        lambda: ledger.deny(question.id, by=name, reason="no"),
        lambda: ledger.edit_approval(question.id, {"amount": 1}, digest=digest, by=name, reason="less"),
        lambda: ledger.revoke_approval(question.id, by=name, reason="no"),
        lambda: ledger.view_approval(question.id, by=name),
        lambda: ledger.delegate(name, until=until, by="ana", reason="away"),
        lambda: ledger.delegate("bob", until=until, by=name, reason="away"),
        lambda: ledger.settle(question.effect_id, Succeeded(1), by=name, evidence="seen"),
        lambda: ledger.retry(question.effect_id, by=name, reason="again"),
        lambda: ledger.cancel(question.effect_id, by=name, reason="no"),
        lambda: ledger.stop(by=name, reason="no"),
        lambda: ledger.call(ledger.start_run, "r", agent=name),
        lambda: charge(run_id=name),
        lambda: charge(scope=name),
    ]
    for door in doors:
        with pytest.raises(BadCall):
            door()
    with pytest.raises(BadPolicy):
        shell.open(policy={"people": {name: {}}})
    assert ledger.get_approval(question.id).votes == ()


@pytest.mark.parametrize("name", BLANK, ids=ascii)
def test_51_a_name_that_nobody_sees_is_refused_over_http(place: Place, name: str) -> None:
    scopes = {"name": name, "scopes": ["approver"]}
    for path, body in (
        ("/v1/api-keys", scopes),
        ("/v1/api-keys", {"name": "bot", "scopes": ["agent"], "principal": name}),
        ("/v1/people", scopes),
        ("/v1/delegations", {"to": name, "until": "2099-01-01T00:00:00Z"}),
    ):
        assert place.post(path, body, "admin").status_code in (400, 422), path
    assert place.begin(run_id=name).status_code in (400, 422)


# ── 52 ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_52_who_edited_the_arguments_does_not_approve_them(ledger: Driver) -> None:
    """1 to x was edited to 99999 to the editor, approved by the editor, and ran."""
    question = edited(ledger, asked(ledger, args={"to": "x", "amount": 1}), {"to": "eve", "amount": 99999})
    for name in ("eve", "Eve", "e\u200bve"):
        with pytest.raises(VoteRefused) as refused:
            approve(ledger, question, by=name)
        assert refused.value.code == "self_approval"
    assert not fresh(ledger, Count(), charge(args={"to": "x", "amount": 1}))
    assert approve(ledger, question, by="ana").votes[0].is_by_editor is False
    assert fresh(ledger, Count(), charge(args={"to": "x", "amount": 1}))


def test_52_an_earlier_editor_does_not_either_and_may_still_say_no(ledger: Driver) -> None:
    first = edited(ledger, asked(ledger), {"amount": 99999}, by="eve")
    second = edited(ledger, first, {"amount": 99999, "memo": "x"}, by="bob")
    for name in ("eve", "bob"):
        with pytest.raises(VoteRefused):
            approve(ledger, second, by=name)
    assert ledger.deny(second.id, by="eve", reason="no").status == "denied"


def test_52_nobody_approves_for_the_editor(shell: Shell) -> None:
    ledger = shell.open(policy=asking())
    until = datetime.now(UTC) + timedelta(hours=1)
    ledger.delegate("zoe", until=until, by="ana", reason="away")
    question = edited(ledger, ledger.begin(charge()), {"amount": 9}, by="ana")
    with pytest.raises(VoteRefused) as refused:
        approve(ledger, question, by="zoe")
    assert refused.value.code == "self_approval"
    assert approve(ledger, question, by="bob").status == "approved"


def test_52_a_sole_approver_confirms_their_own_edit_and_the_record_says_so(shell: Shell) -> None:
    ledger = shell.open(policy=asking({"ana": {}}, sole_approver=True))
    question = edited(ledger, ledger.begin(charge()), {"amount": 9}, by="ana")
    assert question.status == "pending", "editing alone decides nothing"
    (vote,) = approve(ledger, question, by="ana").votes
    assert (vote.by, vote.is_by_editor) == ("ana", True)
    assert fresh(ledger, Count(), charge())


def test_52_without_the_setting_the_refusal_names_it(shell: Shell) -> None:
    ledger = shell.open(policy=asking({"ana": {}}))
    question = edited(ledger, ledger.begin(charge()), {"amount": 9}, by="ana")
    with pytest.raises(VoteRefused, match="sole_approver") as refused:
        approve(ledger, question, by="ana")
    assert refused.value.code == "self_approval"
    assert not fresh(ledger, Count(), charge())


@pytest.mark.parametrize("people", [None, {"ana": {}, "bob": {}}, {}])
def test_52_sole_approver_is_for_one_person(people: Any) -> None:
    policy = asking(people, sole_approver=True)
    with pytest.raises(BadPolicy):
        Ledger.open(":memory:", policy=policy)


def test_52_a_grant_that_a_delegate_gave_covers_no_call_in_the_name_of_who_delegated(store_url: str) -> None:
    soon, entries = datetime.now(UTC) + timedelta(hours=1), Count()
    rules = [{"name": "wires", "match": {"tool": "wire"}, "then": "ask"}]
    migrate(store_url)
    with (
        Ledger.open(store_url, principal="bob", actor="agent-b", wait=False) as bobs,
        Ledger.open(store_url, principal="ana", actor="agent-a", wait=False) as anas,
    ):
        bobs.apply_policy({"people": {"ana": {}, "bob": {}}, "rules": rules}, by="root")
        anas.apply_policy({"people": {"ana": {}, "bob": {}}, "rules": rules}, by="root")
        bobs.delegate("dan", by="ana", until=soon, reason="on holiday")

        def wire(number: int) -> ToolCall:
            return ToolCall(tool="wire", args={"to": "x", "number": number}, run_id="r")

        begun = bobs.begin(wire(1))
        assert isinstance(begun, AwaitingApproval)
        terms = GrantTerms(count=5, until=soon, pin=("to",))
        bobs.approve(begun.approval, digest=begun.approval.digest, by="dan", grant=terms)
        bobs.run(wire(2), entries)
        with pytest.raises(ApprovalPending):
            anas.run(wire(3), entries)
    assert entries.entries == 1


def test_52_no_call_runs_on_the_vote_of_the_person_it_is_made_for(store_url: str) -> None:
    """Another agent asked, and the agent of the person who approved it then ran the same call."""
    place = Place(store_url)
    try:
        for name, principal in (("doras", "dora"), ("bobs", "bob")):
            given(place, name, scopes=("agent",), principal=principal)
        words = {"run_id": "r1", "approval": "required"}
        approval = place.begin("doras", **words).json()["approval"]
        assert place.begin("bobs", **words).status_code == 202
        assert decide(place, approval, "bob") == 201
        asked_anew = place.begin("bobs", **words)
        assert (asked_anew.status_code, asked_anew.json()["approval"]["votes"]) == (202, [])
        assert decide(place, asked_anew.json()["approval"], "bob") == 403
        assert decide(place, asked_anew.json()["approval"], "ana") == 201
        assert place.begin("bobs", **words).status_code == 201
    finally:
        place.close()


# ── 39, 40, 47: found by strangers who never saw the code ─────────────────────────────────────────────────────────────


def test_39_an_edit_is_judged_in_the_environment_of_the_call(store_url: str) -> None:
    big = {"tool": "wire", "environment": "production", "args": {"amount": {"gt": 1000}}}
    rules = [
        {"name": "no big ones", "match": big, "then": "refuse"},
        {"name": "wires", "match": {"tool": "wire"}, "then": "ask"},
    ]
    migrate(store_url)
    with Ledger.open(store_url, environment="production") as agent, Ledger.open(store_url) as desk:
        agent.apply_policy({"rules": rules}, by="root")
        desk.apply_policy({"rules": rules}, by="root")
        begun = agent.begin(ToolCall(tool="wire", args={"to": "x", "amount": 10}, run_id="r", key=["to"]))
        assert isinstance(begun, AwaitingApproval)
        for ledger in (agent, desk):
            with pytest.raises(VoteRefused) as refused:
                ledger.edit_approval(
                    begun.approval, {"to": "x", "amount": 5000}, digest=begun.approval.digest, by="ana", reason="more"
                )
            assert refused.value.code == "policy"


def test_39_the_class_that_a_policy_declares_holds_whatever_the_caller_says(store_url: str) -> None:
    budget = {"name": "day", "match": {"tool": "pay"}, "sum": "amount", "limit": 100, "window": "1d"}
    policy = {"tools": {"pay": {"side_effect": "payment"}}, "defaults": "allow", "budgets": [budget]}
    migrate(store_url)
    with Ledger.open(store_url) as ledger:
        ledger.apply_policy(policy, by="root")
        call = ToolCall(tool="pay", args={"amount": 100}, run_id="r")
        with pytest.raises(ConnectionError):
            ledger.run(call, _raising(ConnectionError), side_effect="read", wait=False)
        (effect,) = ledger.effects()
        assert (effect.status, effect.side_effect, effect.on_crash) == ("in_doubt", "payment", "hold")
        assert effect.charges_json is not None
        with pytest.raises(EffectInDoubt):
            ledger.run(call, Count(), side_effect="read", wait=False)
        ledger.start_run("base", agent="a", intent="i").complete("done")
        fork = ledger.fork_run("base", at=0)
        dry = ToolCall(tool="pay", args={"amount": 1}, run_id=fork.id)
        with pytest.raises(PolicyRefused):
            ledger.run(dry, Count(), side_effect="read", wait=False)


def test_39_a_class_that_one_policy_declares_takes_no_call_out_of_anothers_rules(store_url: str) -> None:
    allowed = {"payment": "allow", "write": "allow"}
    own = {"tools": {"crm.update": {"side_effect": "payment"}}, "defaults": allowed}
    stored = {"rules": [{"name": "none", "match": {"side_effect": "write"}, "then": "refuse"}], "defaults": allowed}
    migrate(store_url)
    with Ledger.open(store_url, policy=own) as ledger:
        ledger.apply_policy(stored, by="root")
        with pytest.raises(PolicyRefused):
            ledger.run(ToolCall(tool="crm.update", run_id="r"), Count(), side_effect="write", wait=False)


def test_39_over_http_the_class_that_a_policy_declares_holds(store_url: str) -> None:
    place = Place(store_url, policy=policy_of({"tools": {"charge": {"side_effect": "payment"}}, "defaults": "allow"}))
    try:
        effect = place.begin(run_id="r1", side_effect="read").json()["effect"]
        assert (effect["side_effect"], effect["on_crash"]) == ("payment", "hold")
        with connect(place.served.url, token=place.tokens["agent"]) as client:
            begun = client.begin(charge(run_id="r2"), side_effect="read")
            assert isinstance(begun, Claimed)
            assert (begun.claim.effect.side_effect, begun.claim.effect.on_crash) == ("payment", "hold")
    finally:
        place.close()


DERIVED: Any = [
    {"scope": "args.order"},
    {"scope": lambda args: args["order"]},
    {"scope": "args.order", "key": ["order"]},
    {"resource": {"namespace": "shop", "type": "order", "id": "args.order"}},
    {"resource": lambda args: Resource(namespace="shop", type="order", id=args["order"])},
    {"exclusive": {"namespace": "shop", "type": "order", "id": "args.order"}},
]


@pytest.mark.parametrize("words", DERIVED, ids=range(len(DERIVED)))
def test_47_no_edit_changes_an_argument_that_says_which_call_it_is(store_url: str, words: Any) -> None:
    entries: list[str] = []
    migrate(store_url)
    with Ledger.open(store_url) as agent, Ledger.open(store_url) as desk:

        @agent.tool("ship", side_effect="payment", approval="required", **words)
        def ship(order: str, note: str = "") -> str:
            entries.append(order)
            return "sent"

        with agent.in_run("r"):
            begun = agent.begin(ship.bind("o1"))
            assert isinstance(begun, AwaitingApproval)
            for ledger in (agent, desk):
                with pytest.raises(BadCall):
                    ledger.edit_approval(
                        begun.approval,
                        {"order": "o2", "note": ""},
                        digest=begun.approval.digest,
                        by="ana",
                        reason="that one",
                    )
            approve(agent, begun, by="bob")
            assert ship("o1") == "sent"
    assert entries == ["o1"]


def test_47_a_client_does_not_edit_it_either(store_url: str) -> None:
    place = Place(store_url)
    try:
        with connect(place.served.url, token=place.tokens["agent"]) as agent:
            ship = agent.tool("ship", approval="required", scope="args.order")(_ship)
            with agent.in_run("r"):
                begun = agent.begin(ship.bind("o1"))
        assert isinstance(begun, AwaitingApproval)
        path, body = f"/v1/approvals/{begun.approval.id}/edit", {"args": {"order": "o2"}, "reason": "that one"}
        assert place.post(path, {**body, "digest": begun.approval.digest}, "ana").status_code == 400
        with connect(place.served.url, token=place.tokens["ana"]) as client, pytest.raises(BadCall):
            client.edit_approval(begun.approval, {"order": "o2"}, digest=begun.approval.digest, by="ana", reason="so")
    finally:
        place.close()


def _ship(order: str) -> str:
    return order


def test_40_a_claim_is_not_answered_again_after_its_effect_ended(place: Place) -> None:
    """`Idempotency-Key` gave the claim again after success and after the lease: a second deed."""
    words: dict[str, Any] = {"run_id": run_id(), "tool": "charge", "args": {"amount": 5}, "side_effect": "payment"}
    headers = {"Idempotency-Key": words["run_id"]}

    def begin() -> Any:
        return place.post("/v1/effects", words, headers=headers)

    first, again = begin(), begin()
    assert (first.status_code, again.status_code) == (201, 409), "a second worker does not do the same deed"
    assert place.commit(first.json()).status_code == 200
    assert (begin().status_code, begin().json()["replayed"]) == (200, True)


def test_40_a_claim_is_not_answered_again_after_its_lease(place: Place) -> None:
    words: dict[str, Any] = {"run_id": run_id(), "tool": "charge", "args": {"amount": 6}, "side_effect": "payment"}
    headers = {"Idempotency-Key": words["run_id"]}
    body = {**words, "lease_s": 1}
    assert place.post("/v1/effects", body, headers=headers).status_code == 201
    eventually(lambda: place.post("/v1/effects", body, headers=headers).status_code == 409)


@pytest.mark.parametrize("words", [{"dedupe": "turn", "turn": "t"}, {"dedupe": "ask", "call_id": "c"}], ids=str)
def test_53_a_grant_does_not_say_whether_a_repeat_is_meant(ledger: Driver, words: Any) -> None:
    soon, handler = datetime.now(UTC) + timedelta(hours=1), Count()
    ledger.apply_policy({"rules": [{"name": "wires", "match": {"tool": "wire"}, "then": "ask"}]}, by="root")
    *_, last = words

    def wire(number: int, occurrence: int) -> ToolCall:
        again = {**words, last: f"{words[last]}{occurrence}"}
        return ToolCall(tool="wire", args={"to": "x", "number": number}, run_id="r", **again)

    begun = ledger.begin(wire(1, 1), side_effect="payment")
    terms = GrantTerms(count=9, until=soon, pin=("to",))
    ledger.approve(begun.approval, digest=begun.approval.digest, by="ana", grant=terms)
    ledger.run(wire(2, 1), handler, side_effect="payment")
    with pytest.raises(ApprovalPending):
        ledger.run(wire(2, 2), handler, side_effect="payment", wait=False)
    assert handler.entries == 1


PAYS: dict[str, Any] = {
    "tools": {"wire": {"side_effect": "payment"}, "look": {"side_effect": "read"}},
    "defaults": "allow",
}


@pytest.mark.parametrize("by", ["own", "stored"])
def test_53_what_a_policy_calls_a_payment_is_not_repeated_as_a_read(shell: Shell, by: str) -> None:
    """Two call ids in one turn entered it twice: only options of ledger, tool and call were asked, not the policy."""
    ledger, handler = shell.open(policy=PAYS if by == "own" else None), Count()
    if by == "stored":
        ledger.apply_policy(PAYS, by="root")

    def wire(call_id: str, turn: str | None = None, **words: Any) -> ToolCall:
        return ToolCall(
            tool="wire", args={"to": "x"}, **{"run_id": "r", **words}, dedupe="call", call_id=call_id, turn=turn
        )

    for number in range(3):
        assert ledger.run(wire(f"c{number}", "m1"), handler, side_effect="read") == "done"
    assert (handler.entries, [effect.side_effect for effect in ledger.effects()]) == (1, ["payment"])
    with pytest.raises(ApprovalPending):
        ledger.run(wire("c4", "m2"), handler, side_effect="read", wait=False)
    assert isinstance(ledger.begin(wire("c5", "m1"), side_effect="read"), Replayed)
    for number in range(2):
        read = replace(wire(f"c{number}", "m1"), tool="look")
        ledger.run(read, handler, side_effect="read")
    assert handler.entries == 3, "what is a read to the policy too is read anew each time"


def test_53_by_an_adapter_what_a_policy_calls_a_payment_is_not_repeated_as_a_read(store_url: str) -> None:
    entries: list[str] = []
    migrate(store_url)

    def wire(to: str) -> str:
        entries.append(to)
        return "sent"

    with Ledger.open(store_url, policy=PAYS) as ledger:
        calls = FunctionCalls(ledger, {"wire": wire}, run="r1", terms={"wire": {"side_effect": "read"}})
        for number in range(3):
            calls.answer(_asked_for("wire", number, to="x"), turn="m1")
        assert entries == ["x"]
        for words in [{}, {"redact": ["args.to"]}]:
            with pytest.raises(NoRun):
                ledger.run(ToolCall(tool="wire", args={"to": "y"}), Count(), side_effect="read", **words)
        ledger.run(ToolCall(tool="wire", args={"to": "y"}, scope="webhook-7"), Count(), side_effect="read")
        ledger.run(ToolCall(tool="look", args={"to": "y"}), Count(), side_effect="read")


def test_53_a_server_refuses_a_payment_that_its_client_tells_apart_as_a_read(store_url: str) -> None:
    place = Place(store_url, policy=policy_of({"tools": {"charge": {"side_effect": "payment"}}, "defaults": "allow"}))
    try:
        with connect(place.served.url, token=place.tokens["agent"]) as client:
            for number in range(2):
                with pytest.raises(BadCall):
                    client.run(charge(dedupe="call", call_id=f"c{number}"), Count(), side_effect="read")
            assert client.run(charge(dedupe="call", call_id="c1"), Count(), side_effect="payment") == "done"
        for number in range(2):
            words: dict[str, Any] = {"run_id": "r1", "side_effect": "read", "dedupe": "call", "turn": "m1"}
            begun = place.begin(**words, call_id=f"c{number}")
            assert begun.status_code == (201, 409)[number], "another call id in the same turn is the same payment"
    finally:
        place.close()


def test_53_what_a_policy_calls_a_payment_is_not_run_where_nothing_can_be_sealed(store_url: str) -> None:
    migrate(store_url)
    handler = Count()
    with Ledger.open(store_url, policy=PAYS, signer=Broken(), on_unsealed="refuse") as ledger:
        for number in range(2):
            with pytest.raises(NotSealed):  # the first time after it ran: only then is it known that nobody signs
                ledger.run(ToolCall(tool="wire", args={"n": number}, run_id="r"), handler, side_effect="read")
        assert ledger.run(ToolCall(tool="look", run_id="r"), Count(), side_effect="read") == "done"
    assert handler.entries == 1
