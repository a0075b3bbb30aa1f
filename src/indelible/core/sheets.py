"""Sheets: named pieces of state beside effects, that commands are decided on and that move in the same transaction.

An approval, a grant, a budget, a message that waits to be sent: each is one sheet. Stores know nothing of what is on
them. Most kinds are on the record: the event that tells of a change commits to the sheet as it is from then on, and the
store keeps only where that event is. The others are aids that can be counted again, and carry no evidence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, NamedTuple

from indelible.core.events import commitment
from indelible.core.values.canonical import decode, encode
from indelible.errors import StateNotRead

KEPT_ASIDE = frozenset(
    {"answered", "budget", "challenge", "compensated", "delivery", "driver", "lease", "limit", "mark", "origin"}
    | {"replays", "reply", "seen", "told"}
)
"""Names the kinds that no event commits to."""
PERSON, CREDENTIAL, PROVIDER = "person", "credential", "provider"
STANDING = frozenset({PERSON, CREDENTIAL, PROVIDER})
"""The kinds of sheets that say how people and their tokens stand; permissions rest on them."""
GUARDED = STANDING | {"told"}
"""The kinds of which a write sees by itself that they are as they were read; `told` says whom later messages go to."""


class SheetRef(NamedTuple):
    """Locates a sheet within a tenant."""

    kind: str
    id: str


POLICY_REF = SheetRef("policy", "current")
"""Locates the policy in force."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """Is one piece of state: `version` counts its changes, and `due_at` says when somebody should look at it again.

    `run_id` and `seq` name the event that commits to `body`; a sheet that is kept aside has none. A body that was
    erased is None, and then nothing can be decided on it. `created_at` is kept where ids do not follow time.
    """

    kind: str
    id: str
    version: int = 1
    status: str
    topic: str = ""
    due_at: datetime | None = None
    body: bytes | None = field(repr=False)
    run_id: str | None = None
    seq: int | None = None
    created_at: datetime | None = None
    mac: bytes | None = field(default=None, repr=False, compare=False)
    """What its row was written with, if rows carry macs; see `core.macs`."""
    row_version: int | None = field(default=None, repr=False, compare=False)
    """The version that stands in its row, where that one is not believed; 0 if the row is gone."""

    @property
    def ref(self) -> SheetRef:
        """Locates this sheet."""
        return SheetRef(self.kind, self.id)

    @property
    def is_recorded(self) -> bool:
        """Does an event commit to each of its states?"""
        return self.kind not in KEPT_ASIDE

    @property
    def guard(self) -> int:
        """Return the version that its row has to have when it is written again; 0 if there is none."""
        return self.version if self.row_version is None else self.row_version

    def read(self) -> dict[str, Any]:
        """Gives what is on the sheet."""
        assert self.body is not None, "nothing is decided on a sheet that was erased"
        content = decode(self.body)
        assert isinstance(content, dict)
        return content

    def after(self, *, status: str, body: bytes, due_at: datetime | None = None) -> Sheet:
        """Gives this sheet one change later."""
        return replace(
            self,
            version=self.version + 1,
            status=status,
            body=body,
            due_at=due_at,
            run_id=None,
            seq=None,
            row_version=None,
        )

    def told_by(self, run_id: str, seq: int) -> Sheet:
        """Gives this sheet with the place of the event that commits to it."""
        return replace(self, run_id=run_id, seq=seq)


Sheets = Mapping[SheetRef, Sheet | None]
"""Holds the sheets that a store has read; None where there is none. Rules look at them by `sheet_at` alone."""

NO_SHEETS: Sheets = {}


def sheet_at(sheets: Sheets, ref: SheetRef) -> Sheet | None:
    """Return the sheet at a place, or None if there is none.

    Raises:
        StateNotRead: The store did not look there. What was not read is not known to be absent.
    """
    try:
        return sheets[ref]
    except KeyError:
        raise StateNotRead(
            f"the store did not read {ref.kind} {ref.id!r}, which decides this command; nothing was run. This is a "
            "fault of the store: please report it"
        ) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class SheetFilter:
    """Selects sheets of one kind; what is None does not matter. `after` and `before` are ids.

    Ids follow time to the millisecond; they do not keep the order of a run's events.

    `due_by` selects those that somebody should look at by then, the most urgent first; else the newest come first, or,
    with `after`, the oldest. `is_by_time` lists those that keep when they were made, the newest first; then the next
    page begins after the one that has `before` as its id and `before_time` as its time.

    `with_unstarted` is for runs, by id or by time: it lists every run that has events, except the ledger's own. A run
    that was never started has no sheet. The store gives one of version 0 with the status `open`, and the run's newest
    event as its body. Times are those of the runs' first events.
    """

    kind: str
    id: str | None = None
    status: str | None = None
    topic: str | None = None
    after: str | None = None
    before: str | None = None
    due_by: datetime | None = None
    is_by_time: bool = False
    before_time: datetime | None = None
    with_unstarted: bool = False
    limit: int = 100


def attested_body(kind: str, value: bytes | None, salt: bytes | None, event_body: bytes | None) -> bytes | None:
    """Gives what an event commits to under the name of a sheet's kind; None when it was erased or is something else.

    So nobody who only edits what is on a sheet decides anything by it: nothing can be decided on what is not there.
    """
    if value is None or salt is None or event_body is None:
        return None
    try:
        event: Any = decode(event_body)
        committed = event["commits"][kind]
    except (ValueError, LookupError, TypeError):  # an event that was altered attests nothing
        return None
    return value if committed == commitment(salt, kind, value) else None


def body_of(content: Mapping[str, Any]) -> bytes:
    """Gives the canonical bytes of a sheet."""
    return encode(content, root="sheet")
