"""Promises of the moves over whole lives: any commands, in any order and grouping, by clocks that jump forward."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, multiple, rule

from indelible.core.commands import (
    Cancel,
    Claimed,
    Command,
    Expire,
    Finish,
    Late,
    LooksRepeated,
    Moved,
    Open,
    Relinquish,
    Reopen,
    Settle,
)
from indelible.core.effects.effect import Claim, Effect
from indelible.core.effects.identity import Ref, repeat_of
from indelible.core.events import NO_EVENTS, commitment, event_hash
from indelible.core.policy.verdicts import ALLOWED, asked_as_repeat
from tests.core.making import (
    ADA,
    ARGS,
    DIGEST,
    LEASE,
    NOON,
    OTHER_ARGS,
    OTHER_DIGEST,
    Shelf,
    asks,
    attend,
    cast,
    open_command,
    refuses,
    stamp,
)

REFS = [Ref("default", "shared", f"{number:064x}") for number in range(3)]
RUNS = ["run-1", "run-2"]
SAME = {"digest": DIGEST, "args_json": ARGS}
OTHER = {"digest": OTHER_DIGEST, "args_json": OTHER_ARGS}
STILL = {"tool_call_late", "policy_checked", "approval_voted", "approval_viewed", "approval_escalated"}


class Lives(RuleBasedStateMachine):
    """Sends commands as many workers, persons and probes would, and remembers what each was told."""

    claims = Bundle("claims")

    def __init__(self) -> None:
        super().__init__()
        self.shelf = Shelf()
        self.queue: list[Command] = []
        self.count = 0
        self.history: dict[Ref, list[Effect]] = defaultdict(list)
        self.entries: dict[Ref, list[tuple[str, int]]] = defaultdict(list)
        self.may_enter: dict[Ref, bool] = defaultdict(lambda: True)
        self.live: dict[Ref, tuple[str, datetime]] = {}

    @initialize()
    def begin(self) -> None:
        self.shelf.now = NOON

    # What the outside does

    @rule(
        target=claims,
        ref=st.sampled_from(REFS),
        run_id=st.sampled_from(RUNS),
        on_crash=st.sampled_from(["hold", "hold", "retry"]),
        content=st.sampled_from([SAME, SAME, SAME, OTHER]),
        verdict=st.sampled_from([ALLOWED, ALLOWED, asks(), asks(policy="policy-2"), refuses()]),
        has_key_fields=st.booleans(),
        dedupe=st.sampled_from(["args", "args", "ask"]),
        call_id=st.sampled_from([None, "c1", "c2"]),
    )
    def open(self, content: dict[str, Any], **words: Any) -> Any:
        self.count += 1
        words |= content
        command = open_command(
            token=f"{self.count:032x}", effect_id=f"eff_{self.count:04d}", stamp=self.stamp(), **words
        )
        answer = self.send(command)
        if isinstance(answer, LooksRepeated):
            ref = repeat_of(command.ref, command.call_id or "")
            answer = self.send(
                open_command(
                    **{**words, "ref": ref, "dedupe": "call", "verdict": asked_as_repeat(command.verdict)},
                    token=command.token,
                    effect_id=command.effect_id,
                    stamp=self.stamp(),
                )
            )
        return answer.claim if isinstance(answer, Claimed) else multiple()

    @rule(target=claims, claim=claims)
    def its_worker_dies_and_it_is_called_again(self, claim: Claim) -> Any:
        self.shelf.now += LEASE
        self.count += 1
        effect = claim.effect
        words = {"digest": effect.digest, "args_json": effect.args_json, "on_crash": effect.on_crash}
        unique = {"token": f"{self.count:032x}", "effect_id": f"eff_{self.count:04d}"}
        answer = self.send(open_command(ref=effect.ref, stamp=self.stamp(), **words, **unique))
        return answer.claim if isinstance(answer, Claimed) else multiple()

    @rule(claim=claims, status=st.sampled_from(["succeeded", "failed"]), detail=st.sampled_from([b"1", b"2"]))
    def finish(self, claim: Claim, status: Any, detail: bytes) -> None:
        self.send(Finish(claim=claim, stamp=self.stamp(), status=status, detail_json=detail))

    @rule(claim=claims, status=st.sampled_from(["ready", "in_doubt"]))
    def relinquish(self, claim: Claim, status: Any) -> None:
        self.send(Relinquish(claim=claim, stamp=self.stamp(), status=status, detail_json=b'"gave up"'))

    @rule(ref=st.sampled_from(REFS))
    def expire(self, ref: Ref) -> None:
        self.send(Expire(ref=ref, stamp=self.stamp()))

    @rule(ref=st.sampled_from(REFS), status=st.sampled_from(["succeeded", "failed"]))
    def settle(self, ref: Ref, status: Any) -> None:
        self.send(Settle(ref=ref, stamp=self.stamp(), status=status, detail_json=b"3", evidence_json=b'"e"'))

    @rule(ref=st.sampled_from(REFS))
    def reopen(self, ref: Ref) -> None:
        self.send(Reopen(ref=ref, stamp=self.stamp(), detail_json=b'"again"'))

    @rule(ref=st.sampled_from(REFS))
    def cancel(self, ref: Ref) -> None:
        self.send(Cancel(ref=ref, stamp=self.stamp(), detail_json=b'"no more"'))

    @rule(data=st.data(), digest=st.sampled_from([None, None, None, OTHER_DIGEST]), is_approval=st.booleans())
    def vote(self, data: st.DataObject, digest: str | None, is_approval: bool) -> None:
        asked = [effect.ref for effect in self.shelf.effects.values() if effect.approval_id is not None]
        if asked:
            about = self.shelf.approval(data.draw(st.sampled_from(sorted(asked))))
            self.send(cast(about, is_approval=is_approval, at=self.shelf.now, digest=digest or about.digest))

    @rule(data=st.data())
    def attend(self, data: st.DataObject) -> None:
        asked = [effect.ref for effect in self.shelf.effects.values() if effect.approval_id is not None]
        if asked:
            self.send(attend(self.shelf.approval(data.draw(st.sampled_from(sorted(asked)))), at=self.shelf.now))

    @rule(step=st.sampled_from([timedelta(seconds=1), LEASE / 2, LEASE, timedelta(days=2)]))
    def time_passes(self, step: timedelta) -> None:
        self.shelf.now += step

    @rule(claim=claims, status=st.sampled_from(["succeeded", "failed"]))
    def a_stranger_reports(self, claim: Claim, status: Any) -> None:
        """Knows everything about the newest attempt but its secret."""
        now = self.shelf.effects[claim.effect.ref]
        forged = Claim(now, "ee" * 16)
        answer = self.send(Finish(claim=forged, stamp=self.stamp(), status=status, detail_json=b'"forged"'))
        assert isinstance(answer, Late)

    @rule(
        words=st.lists(
            st.tuples(
                st.sampled_from(REFS[:2]), st.sampled_from(["open", "ask", "expire", "approve", "reopen", "cancel"])
            ),
            min_size=2,
            max_size=6,
        )
    )
    def write_several_at_once(self, words: list[tuple[Ref, str]]) -> None:
        """Sends commands as one batch, and every opening twice, as when its answer gets lost."""
        commands: list[Command] = []
        for ref, word in words:
            self.count += 1
            told: Any = {"ref": ref, "stamp": self.stamp()}
            if word in ("open", "ask"):
                unique = {"token": f"{self.count:032x}", "effect_id": f"eff_{self.count:04d}"}
                opening = open_command(**told, **unique, verdict=asks() if word == "ask" else ALLOWED)
                commands += [opening, opening]
            elif word == "expire":
                commands.append(Expire(**told))
            elif word == "approve":
                known = self.shelf.effects.get(ref)
                if known is not None and known.approval_id is not None:
                    commands.append(cast(self.shelf.approval(ref), at=self.shelf.now))
            elif word == "reopen":
                commands.append(Reopen(**told, detail_json=b'"again"'))
            else:
                commands.append(Cancel(**told, detail_json=b'"no"'))
        self.apply(commands)

    # What is remembered and checked on every write

    def stamp(self) -> Any:
        return stamp(self.shelf.now, ADA)

    def send(self, command: Command) -> Any:
        return self.apply([command])[0]

    def apply(self, commands: list[Command]) -> list[Any]:
        before = dict(self.shelf.effects)
        batch = self.shelf.apply(*commands)
        assert len(batch.answers) == len(commands)
        assert batch.is_empty == (not batch.events and not batch.sheets)
        for command, answer in zip(commands, batch.answers, strict=True):
            self.remember(command, answer)
        for effect in batch.changed():
            self.check_move(before.get(effect.ref), effect, {type(command) for command in commands})
        return batch.answers

    def remember(self, command: Command, answer: Any) -> None:
        ref = command.ref
        if isinstance(answer, Claimed):
            assert isinstance(command, Open)
            assert answer.claim.token == command.token, "a claim is for whoever asked"
        if isinstance(answer, Claimed) and (answer.claim.token, answer.claim.attempt) not in self.entries[ref]:
            self.check_entry(ref, answer.claim)
        if isinstance(answer, Late):
            assert isinstance(command, Finish | Relinquish)
        is_word = isinstance(command, Reopen) or (isinstance(command, Relinquish) and command.status == "ready")
        if isinstance(answer, Moved) and is_word and answer.effect.status == "ready":
            self.may_enter[ref] = True
        if isinstance(answer, Moved) and not isinstance(command, Expire):
            self.live.pop(ref, None)

    def check_entry(self, ref: Ref, claim: Claim) -> None:
        """A claim that was not handed out before is a new entry into the handler."""
        effect = claim.effect
        assert effect.status == "processing"
        assert effect.lease_until == self.shelf.now + LEASE
        if effect.on_crash == "hold":
            assert self.may_enter[ref], "entered again though nobody said that this is safe"
        if ref in self.live:
            _, until = self.live[ref]
            assert until <= self.shelf.now, "two claims are live at once"
        assert [attempt for _, attempt in self.entries[ref]] == list(range(1, claim.attempt)), "attempts are dense"
        self.entries[ref].append((claim.token, claim.attempt))
        self.live[ref] = (claim.token, effect.lease_until)
        self.may_enter[ref] = False

    def check_move(self, before: Effect | None, after: Effect, commands: set[type]) -> None:
        if before is not None:
            fixed = (
                "id",
                "run_id",
                "tool",
                "on_crash",
                "side_effect",
                "created_at",
            )
            assert all(getattr(before, name) == getattr(after, name) for name in fixed)
            if before.approval_id is None or after.attempt:
                content = ("digest", "args_json", "opened_seq")
                assert all(getattr(before, name) == getattr(after, name) for name in content), "it is what it was"
            assert after.version > before.version
            assert after.attempt >= before.attempt
            assert before.status not in ("succeeded", "denied", "canceled"), "what has ended stays as it is"
            assert before.status != "failed" or Reopen in commands, "a failure is final unless somebody reopens it"
        if after.status == "processing":
            assert after.lease_until is not None
        elif after.status == "requires_approval":
            question = self.shelf.approval(after.ref)
            assert after.lease_until == (question.expires_at if question.is_open else None), "waiters wake in time"
        else:
            assert after.lease_until is None
        self.history[after.ref].append(after)

    # What always holds

    @invariant()
    def chains_are_dense_and_linked(self) -> None:
        for run_id, events in self.shelf.events.items():
            prev = NO_EVENTS.hash
            for number, event in enumerate(events):
                body = event.read()
                assert (
                    (body["seq"], body["prev"], body["run"])
                    == (number, prev, run_id)
                    == (event.seq, prev, event.run_id)
                )
                assert event.hash == event_hash(event.body) == sha256(b"\0" + event.body).hexdigest()
                prev = event.hash
            assert self.shelf.heads[run_id] == (len(events), prev)

    @invariant()
    def every_commitment_has_its_payload(self) -> None:
        bodies = {(event.run_id, event.seq): event.read() for events in self.shelf.events.values() for event in events}
        promised = {(place, name) for place, body in bodies.items() for name in body["commits"]}
        kept = {((payload.run_id, payload.seq), payload.field): payload for payload in self.shelf.payloads}
        assert set(kept) == promised
        assert len(kept) == len(self.shelf.payloads)
        for (place, name), payload in kept.items():
            assert bodies[place]["commits"][name] == commitment(payload.salt, name, payload.value)

    @invariant()
    def an_effect_says_where_its_arguments_and_detail_are_kept(self) -> None:
        kept = {(payload.run_id, payload.seq, payload.field): payload.value for payload in self.shelf.payloads}
        fields = {"succeeded": "result", "failed": "error"}
        for effect in self.shelf.effects.values():
            assert kept[effect.run_id, effect.opened_seq, "args"] == effect.args_json
            if effect.detail_seq is None:
                assert effect.detail_json is None
            else:
                assert kept[effect.run_id, effect.detail_seq, fields.get(effect.status, "reason")] == effect.detail_json

    @invariant()
    def the_last_event_of_an_effect_tells_its_state(self) -> None:
        last: dict[str, Any] = {}
        moves: dict[str, int] = defaultdict(int)
        for events in self.shelf.events.values():
            for event in events:
                body = event.read()
                if "effect" not in body:
                    continue  # a call that was refused before it was one
                last[body["effect"]] = body
                moves[body["effect"]] += body["type"] not in STILL
        for effect in self.shelf.effects.values():
            body = last[effect.id]
            assert (body["status"], body["attempt"], body["run"]) == (effect.status, effect.attempt, effect.run_id)
            assert moves[effect.id] == effect.version, "every move has its event"


def test_a_call_that_may_be_retried_has_a_second_attempt_when_its_worker_died() -> None:
    life = Lives()
    words = {"verdict": ALLOWED, "has_key_fields": False, "dedupe": "args", "call_id": None}
    first = life.open(ref=REFS[0], run_id="run-1", on_crash="retry", content=SAME, **words)
    assert life.its_worker_dies_and_it_is_called_again(claim=first).attempt == 2


TestLives = Lives.TestCase
TestLives.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
