"""The promise "what was approved is what runs", by force: random mutations of approved calls, and of what is stored.

INDELIBLE_FUZZ says how many (2,000 unless told; 100,000 take about two minutes), INDELIBLE_FUZZ_SEED which.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest

from indelible.core.approvals.approval import Approval, Need, Person, Question, approval_digest, ended
from indelible.core.approvals.sheets import approval_ref, approval_sheet, read_approval
from indelible.core.commands import AwaitingApproval, Claimed, KeyTaken
from indelible.core.effects.calls import Resource, ToolCall
from indelible.core.effects.identity import Ref, identify
from indelible.core.policy.verdicts import Verdict
from indelible.core.values.canonical import decode, encode
from tests.core.making import ADA, AGENT, BO, HOUR, NOON, Shelf, asks, cast, open_command, stamp, vote

FUZZ_COUNT = int(os.environ.get("INDELIBLE_FUZZ", "2000"))
FUZZ_SEED = int(os.environ.get("INDELIBLE_FUZZ_SEED", "1"))
PEOPLE = {"ada": Person(("finance",)), "bo": Person(("finance",)), "cy": Person(("legal",))}
VERDICTS = [
    asks(expires=HOUR),
    asks(Need(2), expires=HOUR),
    asks(Need(2, "finance"), people=PEOPLE, expires=HOUR),
]


@dataclass(frozen=True, slots=True)
class Made:
    """Is a call as it is made: everything its identity and its verdict come from."""

    call: ToolCall
    tenant: str
    verdict: Verdict

    def open(self, number: int) -> Any:
        """Gives the command that asks to run it."""
        identity = identify(self.call, self.tenant)
        return open_command(
            ref=identity.ref,
            digest=identity.digest,
            args_json=identity.args_json,
            tool=self.call.tool,
            run_id=self.call.run_id,
            schema=self.call.schema,
            has_key_fields=self.call.key is not None,
            effect_id=f"eff_{number}",
            token=f"{number:032x}",
            stamp=stamp(actor=AGENT),
            verdict=self.verdict,
        )


class Mutator:
    """Draws calls and changes one thing about them, as an attacker or an accident would."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    # Values

    def leaf(self) -> Any:
        return self.random.choice(
            [0, 1, -1, 7, 2**60, 0.5, 1e300, True, False, None, "", "1", "true", "null", "ü", "u\u0308", b"1", [], {}]
        )

    def value(self, depth: int = 2) -> Any:
        kind = self.random.random()
        if depth and kind < 0.3:
            return {self.name(): self.value(depth - 1) for _ in range(self.random.randint(1, 3))}
        if depth and kind < 0.5:
            return [self.value(depth - 1) for _ in range(self.random.randint(1, 3))]
        return self.leaf()

    def name(self) -> str:
        return self.random.choice(["a", "b", "amount", "to", "é", "e\u0301", "A", "a.b", ""])

    def mutated(self, value: Any) -> Any:
        """Gives a value with one leaf, name or element changed."""
        if isinstance(value, dict) and value and self.random.random() < 0.8:
            return self._other_object(value)
        if isinstance(value, list) and value and self.random.random() < 0.8:
            return self._other_list(value)
        return self.random.choice([self.leaf, lambda: twisted(value), lambda: [value], lambda: {"a": value}])()

    def _other_object(self, value: dict[str, Any]) -> dict[str, Any]:
        name = self.random.choice(list(value))
        rest = {other: kept for other, kept in value.items() if other != name}
        how = self.random.random()
        if how < 0.1:
            return rest
        if how < 0.2:
            return {**rest, name.swapcase() + "x": value[name]}
        if how < 0.3:
            return {**value, self.name() + "y": self.leaf()}
        return {**value, name: self.mutated(value[name])}

    def _other_list(self, value: list[Any]) -> list[Any]:
        place = self.random.randrange(len(value))
        how = self.random.random()
        if how < 0.1:
            return value[:place] + value[place + 1 :]
        if how < 0.2:
            return [*value, self.leaf()]
        if how < 0.3:
            return value[::-1]
        return [*value[:place], self.mutated(value[place]), *value[place + 1 :]]

    # Calls

    def made(self) -> Made:
        how = self.random.random()
        words: dict[str, Any] = {}
        if how < 0.4:
            words["key"] = ["order"]
        elif how < 0.6:
            words["resource"] = Resource(namespace="shop", type="order", id="7")
        call = ToolCall(
            tool="pay",
            args={"order": "o1", "amount": self.leaf(), "more": self.value(), "list": self.value()},
            run_id="run-1",
            scope=self.random.choice([None, "shared"]),
            schema="f00d",
            **words,
        )
        return Made(call, "default", self.random.choice(VERDICTS))

    def other(self, made: Made) -> tuple[str, Made]:
        """Gives a call that differs in one thing that an approval binds, and the name of that thing."""
        call = made.call
        # In a scope that runs share, a call of another run is the same call, by the caller's own word.
        run = ["run"] if call.scope is None else []
        what = self.random.choice(["args"] * 6 + ["tool", "tenant", "schema", "policy"] + run)
        match what:
            case "args":
                args = dict(call.args)
                name = self.random.choice(["amount", "more", "list"])
                args[name] = self.mutated(args[name])
                if self.random.random() < 0.1:
                    args = self._other_object(args)
                    args["order"] = "o1"  # the key field stays, so that the key does
                return what, replace(made, call=replace(call, args=args))
            case "tool":
                return what, replace(made, call=replace(call, tool=self.random.choice(["Pay", "pay2", "pay.now", "p"])))
            case "run":
                return what, replace(made, call=replace(call, run_id=self.random.choice(["run-2", "Run-1", "run-1 "])))
            case "tenant":
                return what, replace(made, tenant=self.random.choice(["other", "Default", "default "]))
            case "schema":
                return what, replace(made, call=replace(call, schema=self.random.choice(["", "f00e", "F00D"])))
            case _:
                policy = self.random.choice(["", "policy-2", "Policy-1"])
                return what, replace(made, verdict=replace(made.verdict, policy=policy))


def twisted(value: Any) -> Any:
    """Gives what looks like a value and is another: 1, True, "1", the text of it…"""
    match value:
        case bool():
            return int(value)
        case int():
            return random.Random(value).choice([str(value), value + 1, -value or 3, bool(value)])
        case float():
            return str(value)
        case str():
            return value + " "
        case None:
            return "null"
        case bytes():
            return value.decode()
        case _:
            return str(value)


def approved(made: Made) -> Shelf:
    """Gives a shelf on which this call has been approved by as many as it takes."""
    shelf = Shelf()
    asked = shelf.do(made.open(1))
    assert isinstance(asked, AwaitingApproval)
    for actor in (ADA, BO):
        shelf.do(cast(asked.approval, actor))
    assert shelf.effects[ref_of(made)].status == "ready"
    return shelf


def ref_of(made: Made) -> Ref:
    return identify(made.call, made.tenant).ref


def copied(shelf: Shelf) -> Shelf:
    """Gives a shelf of its own with the same on it."""
    other = copy(shelf)
    for name in ("effects", "sheets", "heads", "committed"):
        setattr(other, name, dict(getattr(shelf, name)))
    other.events, other.payloads = {}, []
    return other


@pytest.mark.timeout(0)
def test_no_mutation_of_an_approved_call_is_executed() -> None:
    mutator, asked = Mutator(FUZZ_SEED), 0
    seen: Counter[str] = Counter()
    while sum(seen.values()) < FUZZ_COUNT:
        made = mutator.made()
        shelf = approved(made)
        recorded = identify(made.call, made.tenant).args_json
        for _ in range(20):
            what, other = mutator.other(made)
            attempted = copied(shelf)
            answer = attempted.do(other.open(2))
            if what == "args" and identify(other.call, "default").args_json == recorded:
                # Another spelling of the same recorded value, like 1.0 for 1: what runs is what was recorded.
                assert isinstance(answer, Claimed)
                assert answer.claim.effect.args_json == recorded
                seen["(the same)"] += 1
                continue
            assert isinstance(answer, AwaitingApproval | KeyTaken), f"{what}: {made} ran as {other}"
            if isinstance(answer, AwaitingApproval):
                check_asked(answer, other)
                asked += 1
            seen[what] += 1
        claimed = shelf.do(made.open(3))
        assert isinstance(claimed, Claimed), "and what was approved does run, or all of this would mean nothing"
        assert claimed.claim.effect.args_json == recorded
    assert asked
    assert seen["(the same)"] < FUZZ_COUNT / 5
    assert all(seen[what] for what in ("args", "tool", "run", "tenant", "schema", "policy"))


def check_asked(answer: AwaitingApproval, other: Made) -> None:
    """The new question is about the call as it was made now, and nobody has answered it."""
    approval, effect = answer.approval, answer.effect
    assert (approval.status, approval.votes, effect.attempt) == ("pending", (), 0)
    identity = identify(other.call, other.tenant)
    assert approval.digest == approval_digest(
        approval=approval.id,
        tenant=other.tenant,
        run_id=effect.run_id,
        tool=other.call.tool,
        schema=other.call.schema,
        args_json=identity.args_json,
        policy=other.verdict.policy,
        expires_at=NOON + HOUR,
    )
    assert effect.args_json == identity.args_json


# ── what is stored ───────────────────────────────────────────────────────────────────────────────────────────────────


class Burglar:
    """Edits what is stored of an approved call, or of one that is not approved, in one way or another."""

    def __init__(self, seed: int) -> None:
        self.mutator = Mutator(seed)
        self.random = self.mutator.random
        self.ways: list[Callable[[Shelf, Made], None]] = [
            self.remove_votes,
            self.set_status,
            self.revive,
            self.swap_digest,
            self.put_off_the_end,
            self.lower_the_needs,
            self.vote_twice,
            self.vote_as_requester,
            self.edit_args,
            self.edit_args_and_digest,
            self.edit_effect,
            self.point_to_another_approval,
            self.let_time_pass,
        ]

    def approval(self, shelf: Shelf, made: Made) -> Approval:
        return shelf.approval(ref_of(made))

    def write(self, shelf: Shelf, approval: Approval, **changes: Any) -> None:
        ref = approval_ref(approval.id)
        before = shelf.sheets[ref]
        shelf.sheets[ref] = replace(approval_sheet(replace(approval, **changes)), run_id=before.run_id, seq=before.seq)

    def edit(self, shelf: Shelf, made: Made, **changes: Any) -> None:
        shelf.effects[ref_of(made)] = replace(shelf.effects[ref_of(made)], **changes)

    def remove_votes(self, shelf: Shelf, made: Made) -> None:
        approval = self.approval(shelf, made)
        self.write(shelf, approval, votes=approval.votes[: self.random.randrange(len(approval.votes))])

    def set_status(self, shelf: Shelf, made: Made) -> None:
        """Nobody has voted, and the status says that it is approved."""
        fresh = replace(self.approval(shelf, made), votes=(), version=1)
        self.write(shelf, fresh, status="approved")

    def revive(self, shelf: Shelf, made: Made) -> None:
        """It was denied, and the status says that it is approved."""
        approval = self.approval(shelf, made)
        votes = (*approval.votes[:-1], replace(approval.votes[-1], is_approval=False))
        self.write(shelf, ended(approval, "denied"), status="approved", votes=votes)

    def swap_digest(self, shelf: Shelf, made: Made) -> None:
        other = self.random.choice([encode(self.mutator.value()).hex()[:64].ljust(64, "0"), "0" * 64])
        self.write(shelf, self.approval(shelf, made), digest=other)

    def put_off_the_end(self, shelf: Shelf, made: Made) -> None:
        later = timedelta(microseconds=self.random.randint(1, 10**12))
        approval = self.approval(shelf, made)
        self.write(shelf, approval, expires_at=approval.expires_at + later)

    def lower_the_needs(self, shelf: Shelf, made: Made) -> None:
        """One has voted where two have to, and the stored question asks for one."""
        approval = self.approval(shelf, made)
        question = Question(rule=approval.question.rule, needs=(Need(1),), expires=HOUR)
        votes = approval.votes[:1] if len(approval.votes) > 1 else ()
        self.write(shelf, approval, question=question, votes=votes)

    def vote_twice(self, shelf: Shelf, made: Made) -> None:
        approval = self.approval(shelf, made)
        votes = (vote("ada"), vote(self.random.choice(["ADA", "ada ", "ａｄａ"]))) if len(approval.votes) > 1 else ()
        self.write(shelf, approval, votes=votes)

    def vote_as_requester(self, shelf: Shelf, made: Made) -> None:
        approval = self.approval(shelf, made)
        self.write(shelf, approval, votes=(vote(self.random.choice(["agent", "Agent"])), *approval.votes[1:]))

    def edit_args(self, shelf: Shelf, made: Made) -> None:
        args = shelf.effects[ref_of(made)].args
        while encode(args) == encode(made.call.args):
            args = self.mutator._other_object(dict(made.call.args))
        self.edit(shelf, made, args_json=encode(args))

    def edit_args_and_digest(self, shelf: Shelf, made: Made) -> None:
        """Everything that is not bound by people's votes is edited to fit: their digest is not."""
        self.edit_args(shelf, made)
        effect = shelf.effects[ref_of(made)]
        other = replace(made.call, args=decode(effect.args_json or b""), key=None, resource=None)  # type: ignore[arg-type]
        self.edit(shelf, made, digest=identify(other, "default").digest)

    def edit_effect(self, shelf: Shelf, made: Made) -> None:
        self.edit(shelf, made, **self.random.choice([{"tool": "pay2"}, {"run_id": "run-2"}, {"id": "eff_9"}]))

    def point_to_another_approval(self, shelf: Shelf, made: Made) -> None:
        """The approval of another call, which people did approve, is put in the place of this one's."""
        how = self.random.random()
        args = dict(made.call.args) if how < 0.5 else self.mutator._other_object(dict(made.call.args))
        call = replace(made.call, args=args, dedupe="call", call_id="c2", key=None, resource=None)
        twin = replace(made, call=call)
        asked = shelf.do(twin.open(7))
        for actor in (ADA, BO):
            shelf.do(cast(asked.approval, actor))
        self.edit(shelf, made, permission_id=asked.approval.id)

    def let_time_pass(self, shelf: Shelf, made: Made) -> None:
        shelf.now = NOON + HOUR + timedelta(microseconds=self.random.randint(0, 10**9))


@pytest.mark.timeout(0)
def test_no_edit_of_what_is_stored_makes_anything_run_that_nobody_approved() -> None:
    burglar, asked = Burglar(FUZZ_SEED), 0
    seen: Counter[str] = Counter()
    for _ in range(max(FUZZ_COUNT // 20, len(burglar.ways))):
        made = burglar.mutator.made()
        shelf = approved(made)
        for way in burglar.ways:
            attempted = copied(shelf)
            way(attempted, made)
            answer = attempted.do(made.open(2))
            assert isinstance(answer, AwaitingApproval | KeyTaken), f"{way.__name__}: {made} ran"
            seen[way.__name__] += 1
            if isinstance(answer, AwaitingApproval):
                again = read_approval(attempted.sheets[approval_ref(answer.approval.id)])
                assert (again.status, again.votes) == ("pending", ()), "somebody is asked from the beginning"
                asked += 1
        assert isinstance(shelf.do(made.open(3)), Claimed)
    assert asked
    assert set(seen) == {way.__name__ for way in burglar.ways}


@pytest.mark.parametrize(("one", "other"), [(1, True), (1, "1"), (True, "true"), (None, "null"), (0, False), (0, None)])
def test_what_looks_alike_is_not_the_same(one: Any, other: Any) -> None:
    made = Made(
        ToolCall(tool="pay", args={"order": "o1", "amount": one}, key=["order"], run_id="default"),
        "default",
        VERDICTS[0],
    )
    shelf = approved(made)
    changed = replace(made, call=replace(made.call, args={"order": "o1", "amount": other}))
    assert isinstance(shelf.do(changed.open(2)), AwaitingApproval)


@pytest.mark.parametrize(("one", "other"), [(1, 1.0), (0, -0.0), ((1,), [1])])
def test_another_spelling_of_the_same_recorded_value_runs_as_it_was_recorded(one: Any, other: Any) -> None:
    made = Made(
        ToolCall(tool="pay", args={"order": "o1", "amount": one}, key=["order"], run_id="default"),
        "default",
        VERDICTS[0],
    )
    shelf = approved(made)
    changed = replace(made, call=replace(made.call, args={"order": "o1", "amount": other}))
    answer = shelf.do(changed.open(2))
    assert isinstance(answer, Claimed)
    assert answer.claim.effect.args_json == encode(made.call.args)


def test_in_a_scope_that_runs_share_the_run_that_asked_executes_what_was_approved_and_no_other() -> None:
    """A webhook's retry may come in another run: that one asks by itself."""
    call = ToolCall(tool="pay", args={"amount": 5}, run_id="run-1", scope="webhook-7")
    made = Made(call, "default", VERDICTS[0])
    shelf = approved(made)
    elsewhere = replace(made, call=replace(call, run_id="run-2"))
    answer = shelf.do(elsewhere.open(2))
    assert isinstance(answer, AwaitingApproval)
    assert (answer.approval.for_run, answer.effect.id, answer.effect.run_id) == ("run-2", "eff_1", "run-1")
    assert isinstance(shelf.do(made.open(3)), AwaitingApproval), "and the first one has to wait for the new answer"
    shelf.do(cast(shelf.approval(ref_of(made)), BO))
    assert not isinstance(shelf.do(replace(made.open(4), awaited_approval=answer.approval.id)), Claimed)
    again = shelf.do(elsewhere.open(5))
    assert isinstance(again, Claimed)
    assert not isinstance(shelf.do(made.open(6)), Claimed), "and it is executed once"
