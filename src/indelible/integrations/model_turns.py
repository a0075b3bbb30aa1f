"""What is recorded of a model's turn, whichever framework takes it: hashes of what went in and out, and what it cost.

A hash is SHA-256 of a text, or of the canonical JSON of anything else: names sorted, no spaces, UTF-8.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from indelible import NothingHappened
from indelible.errors import BadCall
from indelible.integrations.terms import Spoken
from indelible.tool import encode, holds_mark

MODEL_INVOKED = "model_invoked"
TURN_AGAIN = "the model's recorded turn"
NO_FORM = "the model's answer has no recorded form"
# One for all: to make an encoder takes as long as to encode.
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=repr)


def sha256_of(value: Any) -> str:
    """Gives the hash of a text, or of anything else as JSON."""
    if not isinstance(value, str):
        value = _CANONICAL.encode(value)
    return hashlib.sha256(value.encode("utf-8", "backslashreplace")).hexdigest()


def recordable(answer: dict[str, Any]) -> dict[str, Any]:
    """Return what is to be recorded of a turn; raise `NothingHappened` if it has no recorded form.

    Nothing is lost then: the agent gets the answer, and one that is resumed asks for it again.
    """
    try:
        encode(answer)
    except BadCall as wrong:
        raise NothingHappened(f"{NO_FORM}: {wrong}") from wrong
    return answer


def unmarked(recorded: Any, what: str) -> Any:
    """Return what is to be handed to an agent again.

    Args:
        recorded: What the record has of it.
        what: What it is, for the error.

    Raises:
        BadCall: Parts of it are redacted. An agent that goes on with marks would call tools with them.
    """
    if holds_mark(recorded):
        raise BadCall(
            f"{what} is not given to the agent again: redact= kept parts of it out of the record, and the agent would "
            "go on with marks in place of the values. Nothing was run. Begin a new run; to resume such runs, use "
            "encrypt=True in place of the redact= rule: docs/redaction.md"
        )
    return recorded


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """Is a turn that has begun: what the model is asked, as a hash, and since when."""

    prompt_sha256: str
    at_ns: int

    @staticmethod
    def asking(prompt: Any) -> Turn:
        """Begins a turn now."""
        return Turn(prompt_sha256=sha256_of(prompt), at_ns=time.time_ns())

    def answered(
        self, model_id: str, answer: Any, calls: Sequence[Spoken] = (), tokens: tuple[int, int] = (0, 0)
    ) -> dict[str, Any]:
        """Gives what is recorded of a model that answered, with the calls that it makes and the tokens that it took."""
        told = [{"id": call.call_id, "name": call.tool, "args_sha256": sha256_of(call.args)} for call in calls]
        return {
            **self._ended(model_id, answer),
            "success": True,
            "prompt_tokens": tokens[0],
            "response_tokens": tokens[1],
            "tool_calls": told,
        }

    def failed(self, model_id: str, error: str, said: str = "") -> dict[str, Any]:
        """Gives what is recorded of a model that gave no answer: the error's name, and a hash of what it said."""
        return {**self._ended(model_id, f"{error}: {said}"), "success": False, "error": error}

    def _ended(self, model_id: str, response: Any) -> dict[str, Any]:
        now = time.time_ns()
        return {
            "model_id": model_id,
            "at_ns": str(now),
            "latency_ms": (now - self.at_ns) // 1_000_000,
            "prompt_sha256": self.prompt_sha256,
            "response_sha256": sha256_of(response),
        }
