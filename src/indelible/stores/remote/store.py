"""The store behind a server: every question goes there, and what is decided is decided there."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from typing import Any, NoReturn

from indelible.core.commands import Answer, Attend, Command, Expire, Finish, Keep, Open, Relinquish
from indelible.core.effects.effect import Claim, Effect
from indelible.core.effects.identity import Ref
from indelible.core.events import Event, Payload
from indelible.core.journal.journal import Entry, Examine, Tree
from indelible.core.journal.notes import TreeHead, log_name
from indelible.core.macs import Macs
from indelible.core.ports import Alarm, Compare, Filter, Outline, Seen, Transaction
from indelible.core.privacy.forgetting import Prunable
from indelible.core.remote.questions import APPLY, MOST_AT_ONCE, MOST_LISTED, QUESTIONS, unseen_kinds
from indelible.core.runs.commands import SealCheckpoint, StartRun, TakeRun
from indelible.core.sheets import Sheet, SheetFilter
from indelible.errors import BadCall, StoreUnavailable
from indelible.stores.reach import Reach
from indelible.stores.remote.alarm import RemoteAlarm
from indelible.stores.remote.line import Line, Stakes
from indelible.stores.remote.listing import (
    check_effects,
    check_ends,
    check_entries,
    check_events,
    check_payloads,
    check_sheets,
)

# Carried out twice, these are carried out once: a token is known again, a sheet's version moves once, a checkpoint has
# its name.
_REPEATABLE = (Open, Finish, Relinquish, Expire, Attend, Keep, StartRun, TakeRun, SealCheckpoint)
# Of the questions beside commands, these write: a lease that is longer, a packet that is told of, a check that is kept,
# sheets that are gone.
_STAKES: dict[str, Stakes] = {
    "heartbeat": "repeatable",
    "packet": "repeatable",
    "forgetting.keep_redaction_check": "repeatable",
    "forgetting.drop": "once",
    "forgetting.clear_away": "once",
}
# Numbers that are sent are exact, so none is below this.
LEAST = -(2**53 - 1)
# Writing a file anew takes as long as the file is large.
_CLEARING_SECONDS = 600.0
# The event that tells of a packet has to be in the journal first.
_SEALING_SECONDS = 30.0
_LONGER = {"forgetting.clear_away": _CLEARING_SECONDS, "packet": _SEALING_SECONDS}


class RemoteStore:
    """Is a ledger's store on the other side of HTTP, as the credential's tenant and scopes let it be seen."""

    is_cheap_to_read = False
    macs: Callable[[str], Macs] | None = None  # the server has the keys
    compare: Compare | None = None  # the server compares
    introduce: Callable[[str], Command] | None = None

    def has_macs(self) -> bool:
        """Leave macs to the server."""
        return False

    def __init__(self, url: str, *, token: str | None, wakeups: bool = True, reach: Reach | None = None) -> None:
        self._line = Line(url, token, reach or Reach())
        self.address = self._line.address
        self.file: str | None = None
        self.writer_id = uuid.uuid4().hex
        self._wakeups = wakeups
        self._is_closed = False
        self._alarms: list[RemoteAlarm] = []
        try:
            introduction = self._line.introduce()
        except BaseException:
            self._line.close()
            raise
        self.ledger_name: str = introduction["ledger"]
        self.tenant: str = introduction["tenant"]
        # A server of an earlier version does not tell: there, no tenant was ever moved.
        self._origin: str = introduction.get("origin") or log_name(self.ledger_name, self.tenant)
        # A server of an earlier version does not tell: then the least is believed to be shown.
        scopes = introduction.get("scopes")
        self.unseen_kinds = unseen_kinds(frozenset(map(str, scopes)) if isinstance(scopes, list) else frozenset())
        self.journal = RemoteJournal(self._ask, self._check_tenant)
        self.forgetting = RemoteForgetting(self._ask, self._check_tenant)

    @property
    def sign_event(self) -> Callable[[bytes], bytes] | None:
        """Is nothing: events are written by the server."""
        return None

    @sign_event.setter
    def sign_event(self, sign: Callable[[bytes], bytes] | None) -> None:
        if sign is not None:
            _elsewhere("signing events")

    def origin(self, tenant: str) -> str:
        """Names the journal of the credential's tenant."""
        self._check_tenant(tenant)
        return self._origin

    def _ask(self, name: str, **words: Any) -> Any:
        self._check_open()
        return self._line.ask(name, QUESTIONS[name], words, _STAKES.get(name, "read"), _LONGER.get(name, 0.0))

    def _check_open(self) -> None:
        if self._is_closed:
            raise StoreUnavailable(f"{self.address} is closed here; open it again")

    def _check_tenant(self, tenant: str) -> None:
        if tenant != self.tenant:
            raise BadCall(f"the credential for {self.address} is for the tenant {self.tenant!r}, not {tenant!r}")

    def apply(self, tenant: str, commands: Sequence[Command], known: Sequence[Effect | None]) -> list[Answer]:
        """Has commands decided and written there; nothing that this side believes is sent along."""
        if not commands:
            return []
        self._check_tenant(tenant)
        self._check_open()
        is_repeatable = all(isinstance(command, _REPEATABLE) for command in commands)
        answers: list[Answer] = self._line.ask(
            "apply", APPLY, {"commands": tuple(commands)}, "repeatable" if is_repeatable else "once"
        )
        return answers

    def heartbeat(self, claim: Claim, lease: timedelta) -> bool:
        """Extends the lease while the claim holds."""
        is_ours: bool = self._ask("heartbeat", claim=claim, lease=lease)
        return is_ours

    def packet(self, tenant: str, run_id: str) -> bytes:
        """Has the packet of a run made and signed there."""
        self._check_tenant(tenant)
        made: bytes = self._ask("packet", run_id=run_id)
        return made

    def look(self, refs: Sequence[Ref]) -> Seen:
        """Reads the committed state of some effects, and the store's time."""
        return self._seen("look", refs)

    def watch(self, refs: Sequence[Ref]) -> Seen:
        """Reads them, and lets the alarms listen for what becomes of them."""
        seen = self._seen("watch", refs)
        for alarm in self._alarms:
            alarm.listen([effect for effect in seen.effects if effect is not None])
        return seen

    def _seen(self, name: str, refs: Sequence[Ref]) -> Seen:
        parts = [refs[start : start + MOST_AT_ONCE] for start in range(0, len(refs), MOST_AT_ONCE)] or [refs]
        found: list[Seen] = [self._ask(name, refs=tuple(part)) for part in parts]
        return Seen(found[0].now, [effect for seen in found for effect in seen.effects])

    def get_effect(self, tenant: str, effect_id: str) -> Effect | None:
        """Finds an effect by its id or the beginning of it."""
        self._check_tenant(tenant)
        effect: Effect | None = self._ask("get_effect", effect_id=effect_id)
        return effect

    def find_by_key(self, tenant: str, key: str, scope: str | None) -> Effect | None:
        """Finds an effect by its key."""
        self._check_tenant(tenant)
        effect: Effect | None = self._ask("find_by_key", key=key, scope=scope)
        return effect

    def effects(self, tenant: str, selected: Filter) -> list[Effect]:
        """Lists effects, newest first."""
        self._check_tenant(tenant)
        found: list[Effect] = self._ask("effects", selected=selected)
        check_effects(found, selected.before, selected.limit)
        return found

    def outlines(self, tenant: str, since: str, before: str | None, limit: int) -> list[Outline]:
        """Lists effects without what they recorded, newest first."""
        self._check_tenant(tenant)
        found: list[Outline] = self._ask("outlines", since=since, before=before, limit=limit)
        check_effects(found, before, limit)
        return found

    def alike(self, tenant: str, digests: Sequence[str], since: datetime, limit: int) -> list[Outline]:
        """List effects that say the same."""
        self._check_tenant(tenant)
        found: list[Outline] = []
        for start in range(0, len(digests), MOST_AT_ONCE):
            some = tuple(digests[start : start + MOST_AT_ONCE])
            found += self._ask("alike", digests=some, since=since, limit=limit - len(found))
        return found

    def abandoned(self, tenant: str, limit: int) -> list[Effect]:
        """Lists effects in doubt and effects whose lease ran out."""
        self._check_tenant(tenant)
        found: list[Effect] = self._ask("abandoned", limit=limit)
        return found

    def events(self, tenant: str, run_id: str, after: int, limit: int) -> list[Event]:
        """Lists a run's events."""
        self._check_tenant(tenant)
        found: list[Event] = []
        after = max(after, LEAST)
        while len(found) < limit:
            most = min(limit - len(found), MOST_LISTED)
            page: list[Event] = self._ask("events", run_id=run_id, after=after, limit=most)
            check_events(page, run_id, after, most)
            found += page
            if len(page) < most:
                break
            after = page[-1].seq
        return found

    def payloads(self, tenant: str, run_id: str, seqs: Iterable[int]) -> list[Payload]:
        """Lists what events commit to."""
        self._check_tenant(tenant)
        wanted = tuple(seqs)
        parts = [wanted[start : start + MOST_LISTED] for start in range(0, len(wanted), MOST_LISTED)]
        found: list[Payload] = [each for part in parts for each in self._ask("payloads", run_id=run_id, seqs=part)]
        check_payloads(found, run_id, wanted)
        return found

    def sheets(self, tenant: str, selected: SheetFilter) -> list[Sheet]:
        """Lists sheets of one kind with what is on them; what the credential may not see is not there."""
        self._check_tenant(tenant)
        found: list[Sheet] = self._ask("sheets", selected=selected)
        check_sheets(found, selected)
        return found

    def transaction(self, tenant: str) -> AbstractContextManager[Transaction]:
        """Refuses: the handler's database is not the ledger's here."""
        raise BadCall(
            "effect.transaction() needs the ledger's own database, and this ledger is behind a server; open it at its "
            "sqlite:/// or postgresql:// address"
        )

    def alarm(self) -> Alarm | None:
        """Gives an alarm that hears from the server what moved."""
        if not self._wakeups or self._is_closed:
            return None
        alarm = RemoteAlarm(self._line)
        self._alarms.append(alarm)
        return alarm

    def close(self) -> None:
        """Closes the connections."""
        self._is_closed = True
        self._line.close()


def _elsewhere(what: str) -> NoReturn:
    raise BadCall(f"{what} is done by the server that keeps this ledger, not from here")


class RemoteJournal:
    """Reads the tree on the other side; it grows and is signed there."""

    most_at_once = MOST_AT_ONCE

    def __init__(self, ask: Callable[..., Any], check: Callable[[str], None]) -> None:
        self._asked = ask
        self._check = check

    def _ask(self, tenant: str, name: str, **words: Any) -> Any:
        self._check(tenant)
        return self._asked(f"journal.{name}", **words)

    def integrate(self, tenant: str, most: int, examine: Examine | None = None) -> Tree | None:
        """Refuses."""
        _elsewhere("sealing the journal")

    def keep_head(self, tenant: str, head: TreeHead, note: str, at: datetime) -> None:
        """Refuses."""
        _elsewhere("sealing the journal")

    def tenants(self) -> list[str]:
        """Refuses: a credential knows one tenant."""
        _elsewhere("listing tenants")

    def tree(self, tenant: str) -> Tree:
        """Gives the tree as it is."""
        tree: Tree = self._ask(tenant, "tree")
        return tree

    def tile(self, tenant: str, level: int, number: int) -> bytes:
        """Gives a tile; raises LookupError when there is none."""
        tile: bytes = self._ask(tenant, "tile", level=level, number=number)
        if not tile:
            raise LookupError(f"there is no tile {number} at level {level}")
        return tile

    def entries(self, tenant: str, start: int, count: int) -> list[Entry]:
        """Lists entries from an index on."""
        found: list[Entry] = []
        start = max(start, LEAST)
        while len(found) < count:
            most = min(count - len(found), MOST_LISTED)
            page: list[Entry] = self._ask(tenant, "entries", start=start + len(found), count=most)
            check_entries(page, start + len(found), most)
            found += page
            if len(page) < most:
                break
        return found

    def index_of(self, tenant: str, run_id: str, seq: int) -> int | None:
        """Gives an event's place in the tree."""
        index: int | None = self._ask(tenant, "index_of", run_id=run_id, seq=seq)
        return index

    def heads(self, tenant: str, limit: int, up_to: int | None = None) -> list[str]:
        """Lists signed heads, the largest first."""
        found: list[str] = self._ask(tenant, "heads", limit=limit, up_to=up_to)
        return found

    def waiting(self, tenant: str) -> int:
        """Counts the events that wait."""
        count: int = self._ask(tenant, "waiting")
        return count

    def pending(self, tenant: str, limit: int) -> list[tuple[str, int, str]]:
        """Lists events that wait, or as many of them as one question may be about."""
        found: list[tuple[str, int, str]] = self._ask(tenant, "pending", limit=min(limit, MOST_LISTED))
        return found

    def runs(self, tenant: str, after: str, limit: int) -> list[tuple[str, int, str]]:
        """Lists what is kept as the ends of runs."""
        found: list[tuple[str, int, str]] = self._ask(tenant, "runs", after=after, limit=limit)
        check_ends(found, after, limit)
        return found


class RemoteForgetting:
    """Finds what may be erased on the other side."""

    def __init__(self, ask: Callable[..., Any], check: Callable[[str], None]) -> None:
        self._asked = ask
        self._check = check

    def of_subject(self, tenant: str, subject_json: bytes) -> list[tuple[str, int]]:
        """Lists the events about a person."""
        self._check(tenant)
        found: list[tuple[str, int]] = self._asked("forgetting.of_subject", subject_json=subject_json)
        return found

    def prunable(self, tenant: str, before: datetime, after: str, limit: int) -> list[Prunable]:
        """Lists effects that ended long ago; whoever wants more asks again, after the last."""
        self._check(tenant)
        most = min(limit, MOST_LISTED)
        found: list[Prunable] = self._asked("forgetting.prunable", before=before, after=after, limit=most)
        return found

    def refusals(self, tenant: str, after: tuple[str, int], limit: int) -> list[Event]:
        """Lists events that tell of calls refused before they were effects."""
        self._check(tenant)
        found: list[Event] = self._asked("forgetting.refusals", after=after, limit=limit)
        return found

    def drop(self, tenant: str, sheets: Sequence[Sheet]) -> int:
        """Drops sheets that no event commits to."""
        self._check(tenant)
        parts = [sheets[start : start + MOST_AT_ONCE] for start in range(0, len(sheets), MOST_AT_ONCE)]
        return sum(self._asked("forgetting.drop", sheets=tuple(part)) for part in parts)

    def holds(self, tenant: str) -> list[Event]:
        """Lists events that placed or lifted a hold."""
        self._check(tenant)
        found: list[Event] = self._asked("forgetting.holds")
        return found

    def redaction_check(self) -> str | None:
        """Gives what the ledger keeps to know its redaction key again."""
        check: str | None = self._asked("forgetting.redaction_check")
        return check

    def keep_redaction_check(self, check: str) -> str:
        """Keeps it if none is kept yet, and gives the one that is."""
        kept: str = self._asked("forgetting.keep_redaction_check", check=check)
        return kept

    def clear_away(self, rewrite: bool | None) -> list[str]:
        """Has it cleared away there."""
        remarks: list[str] = self._asked("forgetting.clear_away", rewrite=rewrite)
        return remarks
