"""The same call elsewhere: with the same tool and arguments, in another run or under another key. Pure.

At most once holds within one key. Two runs about one order are two calls, so an approver is told of the other one.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from indelible.core.effects.effect import Effect, Status
from indelible.core.effects.identity import digest_of
from indelible.core.events import instant
from indelible.core.ports import Outline
from indelible.core.values.visible import visible

RECENT = timedelta(days=1)
"""How far back an approver is told of the same call."""
MOST_SHOWN = 5


_STANDS = {"succeeded": "ran", "requires_approval": "waits for a person", "in_doubt": "may have run"}


class Elsewhere(NamedTuple):
    """One such call: its effect, its run, how it stands, and when it was opened."""

    effect_id: str
    run_id: str
    status: Status
    at: datetime

    def shown(self) -> dict[str, Any]:
        """Return it for programs."""
        return {"effect_id": self.effect_id, "run_id": self.run_id, "status": self.status, "at": instant(self.at)}

    def __str__(self) -> str:
        stands = _STANDS.get(self.status, f"is {self.status}")
        at = f"{self.at:%Y-%m-%d %H:%M:%S}"
        return f"the same call {stands} in run {visible(self.run_id)}, from {at} UTC ({self.effect_id})"


def digests_of(effect: Effect) -> tuple[str, ...]:
    """Return the digests by which the same call is found: of what was asked for, and of what an edit made of it."""
    if effect.args_json is None:
        return (effect.digest,)
    return tuple(dict.fromkeys((effect.digest, digest_of(effect.tenant, effect.tool, effect.args_json, None))))


def elsewhere_of(effect: Effect, found: Iterable[Outline]) -> tuple[Elsewhere, ...]:
    """Return the newest of these calls that say the same as this one, itself left out."""
    digests = digests_of(effect)
    others = [one for one in found if one.digest in digests and one.id != effect.id]
    newest = sorted(others, key=lambda one: (one.created_at, one.id), reverse=True)[:MOST_SHOWN]
    return tuple(Elsewhere(one.id, one.run_id, one.status, one.created_at) for one in newest)
