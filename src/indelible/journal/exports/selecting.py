"""Which events an export holds, and which of their values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from indelible.core.events import Payload
from indelible.errors import BadCall

PAYLOAD_FIELDS = (
    *("args", "key", "result", "error", "reason", "evidence", "late_result", "late_error", "again"),
    *("policy", "approval", "grant", "charges", "delegation", "credential", "person", "provider", "stop", "subject"),
    *("origin", "payload", "side_effect_key", "state", "run", "checkpoint"),
)
"""Names every value that an event may commit to."""
_GOES_WITH = {
    "args": frozenset({"policy", "approval", "grant", "charges"}),
    "payload": frozenset({"side_effect_key"}),
}
"""Names what tells something of a value: hashes of it, amounts, or why a rule did not let it pass."""


@dataclass(frozen=True, slots=True)
class Whole:
    """Selects everything that the head covers."""


@dataclass(frozen=True, slots=True)
class OfRun:
    """Selects the events of one run."""

    run_id: str


@dataclass(frozen=True, slots=True)
class Between:
    """Selects entries by their place, both ends included; no `last` means up to the head."""

    first: int = 0
    last: int | None = None


@dataclass(frozen=True, slots=True)
class During:
    """Selects by time: from the first entry at or after `since` to the last one before `until`.

    Clocks differ, so everything that lies between these two in the journal is selected too: nothing is left out in
    the middle, whatever its clock said.
    """

    since: datetime | None = None
    until: datetime | None = None


Selection = Whole | OfRun | Between | During


@dataclass(frozen=True, slots=True)
class Disclosure:
    """Says which payloads an export may hold: all of them, all but some fields, or none."""

    withheld: frozenset[str] = frozenset()
    is_without_payloads: bool = False

    def __post_init__(self) -> None:
        unknown = sorted(self.withheld - set(PAYLOAD_FIELDS))
        if unknown:  # a misspelt name must not disclose what was to be withheld
            raise BadCall(f"no event commits to {', '.join(unknown)}; fields are: {', '.join(PAYLOAD_FIELDS)}")

    def allowed(self, payloads: Iterable[Payload]) -> list[Payload]:
        """Gives those of one event's payloads that may be shown."""
        if self.is_without_payloads:
            return []
        withheld = self.withheld.union(*(_GOES_WITH.get(name, ()) for name in self.withheld))
        shown = [payload for payload in payloads if payload.field not in withheld]
        # A key is an unsalted hash of the arguments: whoever may not see these could find them by guessing.
        # The place of a call that an edit made says another key as its reason.
        fields = {payload.field for payload in shown}
        hidden = set() if "args" in fields else {"key", "reason"} if "origin" in fields else {"key"}
        return [payload for payload in shown if payload.field not in hidden]
