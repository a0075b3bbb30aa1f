"""One call on its way through an adapter: what is kept of it, what its model hears, and which turn it belongs to."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from indelible import (
    AwaitingApproval,
    Canceled,
    Denied,
    Effect,
    InDoubt,
    InFlight,
    MayHaveHappened,
    NothingHappened,
    ReplayedFailure,
    RunningEffect,
    ToolCall,
)
from indelible.integrations.telling import TEXTS, Heard, heard_of, replayed, waits
from indelible.integrations.terms import asked_again

Unanswered = AwaitingApproval | Canceled | Denied | InDoubt | InFlight | ReplayedFailure
"""What the ledger answers to a call that may not run now and has no value."""


class Passage:
    """One call on its way: the ledger is asked until it has an answer, and the tool is entered at most once for it."""

    def __init__(self, call: ToolCall, words: dict[str, Any]) -> None:
        self.call = call
        self.words = words
        self.note: str | None = None
        self.raised: Exception | None = None
        self.was_entered = False
        self.effect_id = "not recorded"
        self._is_over = False

    def note_replay(self, effect: Effect) -> None:
        """Note what the model hears with a recorded result."""
        self.note = replayed(effect, self.call)

    @contextmanager
    def entering(self, effect: RunningEffect) -> Iterator[None]:
        """Enter the tool, and keep what it raises.

        A call that may be repeated after it raised is not repeated here: the model or the agent decides when.
        """
        if self._is_over:
            raise MayHaveHappened(str(self.raised))
        self.was_entered, self.effect_id = True, effect.id
        try:
            yield
        except Exception as error:
            self.raised = error
            raise

    def heard(self, error: Exception) -> Heard | None:
        """Return what the model hears of a call that gave no value; None if the ledger is to be asked again.

        The record decides what is told of a tool that raised, now and on every repeat.

        Raises:
            Exception: The error itself, if it is not the ledger's to explain.
        """
        if error is self.raised and not isinstance(error, NothingHappened):
            self._is_over = True
            return None
        if isinstance(error, MayHaveHappened) and self._is_over:  # it may be entered again, and stays in doubt
            if self.words.get("on_crash") == "retry":
                return Heard("failed", str(error))
            return Heard("in_doubt", TEXTS["in_doubt"].format(tool=self.call.tool, effect=self.effect_id))
        if asked_again(error, self.words):
            return None
        heard = heard_of(error, self.call.tool)
        if heard is None:
            raise error
        return heard


def heard_of_answer(answer: Unanswered, tool: str) -> Heard:
    """Return what a model hears of a call that the ledger answers without a value."""
    match answer:
        case AwaitingApproval(approval):
            return Heard("waits", waits(approval))
        case Denied(reason):
            return Heard("denied", TEXTS["denied"].format(tool=tool, why=reason))
        case Canceled(reason):
            return Heard("canceled", TEXTS["canceled"].format(tool=tool, why=reason))
        case InDoubt(effect):
            return Heard("in_doubt", TEXTS["in_doubt"].format(tool=tool, effect=effect.id))
        case InFlight(effect):
            return Heard("running", TEXTS["running"].format(tool=tool, effect=effect.id))
        case ReplayedFailure(error):
            return Heard("failed", TEXTS["failed"].format(why=error))


def turn_of(prompts: Sequence[Any]) -> str | None:
    """Name the turn by the user's messages so far: the number of the last one, and the hash of what it says.

    Both stay the same if an agent is resumed. The hash tells turns apart where only the last message is at hand.
    """
    if not prompts:
        return None
    said = json.dumps(prompts[-1], sort_keys=True, default=str).encode()
    return f"message {len(prompts)} {hashlib.sha256(said).hexdigest()[:16]}"
