"""A ledger of nothing but rules: what stores keep, kept in mappings, with every command decided by the core."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from indelible.core.batch import Batch, decide
from indelible.core.commands import Answer, Command
from indelible.core.effects.effect import SYSTEM, Actor, Effect
from indelible.core.effects.identity import Ref
from indelible.core.events import Event, Head, Payload
from indelible.core.runs.commands import EndRun, NewCheckpoint, SealCheckpoint, StartRun, TakeRun, Tell
from indelible.core.runs.following import RunEvent, RunStory, by_event
from indelible.core.runs.run import HANDED_OVER, Handover, Happening, Run
from indelible.core.sheets import Sheet, SheetRef
from indelible.core.stamps import Stamp
from indelible.testing.comparing import read_for
from tests.core.making import BY, LEASE, NOON

TENANT = "default"


class World:
    """Keeps everything a store keeps, and tells the time."""

    def __init__(self) -> None:
        self.now: datetime = NOON
        self.effects: dict[Ref, Effect] = {}
        self.sheets: dict[SheetRef, Sheet] = {}
        self.heads: dict[str, Head] = {}
        self.events: dict[str, list[Event]] = {}
        self.payloads: list[Payload] = []
        self._salt = 0
        self.batch = Batch()
        """Is what was decided last."""

    def stamp(self, values: int = 20, actor: Actor = SYSTEM) -> Stamp:
        """Gives the time now, with salts that no other stamp has."""
        self._salt += 1
        return Stamp(at=self.now, actor=actor, salts=self._salt.to_bytes(32, "big") * values)

    def pass_time(self, duration: timedelta) -> None:
        """Lets time pass."""
        self.now += duration

    def do(self, *commands: Command) -> list[Answer]:
        """Decides commands in one batch and keeps what follows."""
        effects, sheets = read_for(commands, self.effects, self.sheets)
        batch = self.batch = decide(commands, effects, self.heads, self.now, BY, sheets)
        for ref, (before, after) in batch.sheets.items():
            known = self.sheets.get(ref)
            assert (None if known is None else known.version) == (None if before is None else before.version)
            assert after.version == (1 if before is None else before.version + 1) or len(commands) > 1
            self.sheets[ref] = after
        self.effects.update(batch.opened)
        self.effects.update({ref: after for ref, (_, after) in batch.moved.items()})
        self.heads.update({run: after for run, (_, after) in batch.heads.items()})
        for event in batch.events:
            self.events.setdefault(event.run_id, []).append(event)
        self.payloads += batch.payloads
        return batch.answers

    def one(self, command: Command) -> Any:
        """Decides one command and gives its answer."""
        return self.do(command)[0]

    # Words for runs

    def start(self, run_id: str = "r", token: str = "t1", lease: timedelta = LEASE, **words: Any) -> Any:
        to_parent = words.pop("to_parent_json", None)
        run = Run(**{"id": run_id, "agent": "billing", "created_at": self.now, "updated_at": self.now, **words})
        begin = StartRun(tenant=TENANT, stamp=self.stamp(), run=run, token=token, lease=lease)
        return self.one(replace(begin, to_parent_json=to_parent))

    def tell(self, *happenings: Happening, run_id: str = "r", token: str | None = None) -> Any:
        command = Tell(tenant=TENANT, run_id=run_id, stamp=self.stamp(), token=token, happenings=happenings)
        return self.one(command)

    def seal(self, name: str = "ckpt_1", run_id: str = "r", token: str | None = None, **words: Any) -> Any:
        new = NewCheckpoint(**{"id": name, "reason": "manual", **words})
        return self.one(SealCheckpoint(tenant=TENANT, run_id=run_id, stamp=self.stamp(), token=token, checkpoint=new))

    def take(self, token: str = "t2", run_id: str = "r", **words: Any) -> Any:
        return self.one(TakeRun(tenant=TENANT, run_id=run_id, stamp=self.stamp(), token=token, lease=LEASE, **words))

    def end(self, status: Any, run_id: str = "r", token: str | None = None, **words: Any) -> Any:
        if status == HANDED_OVER:
            words.setdefault("handover", Handover(to="ledger-2/default", until=self.now + timedelta(days=7)))
        return self.one(
            EndRun(
                tenant=TENANT,
                run_id=run_id,
                stamp=self.stamp(),
                token=token,
                status=status,
                reason_json=b'"because"',
                **words,
            )
        )

    def types(self, run_id: str = "r") -> list[str]:
        """Lists the types of a run's events."""
        return [event.type for event in self.events.get(run_id, [])]

    def story(self, run_id: str = "r") -> tuple[RunStory, list[RunEvent]]:
        """Follows a run's events from the first to the last."""
        story = RunStory(run_id)
        return story, list(self.follow(story))

    def follow(self, story: RunStory) -> Iterator[RunEvent]:
        """Goes on following a run."""
        found = by_event(payload for payload in self.payloads if payload.run_id == story.run_id)
        for event in self.events.get(story.run_id, [])[story.head.length :]:
            yield story.follow(event, found.get(event.seq, {}))
