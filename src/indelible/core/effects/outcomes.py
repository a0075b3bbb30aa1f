"""How what came of a call is written down: results, exceptions, and texts that others wrote."""

from __future__ import annotations

import traceback
from contextlib import suppress
from typing import Any

from indelible.core.effects.effect import Outcome, Succeeded
from indelible.core.privacy.redaction import Screen
from indelible.core.values.canonical import encode
from indelible.errors import BadCall


def outcome_json(outcome: Outcome, screen: Screen | None = None) -> bytes:
    """Return the bytes by which an outcome is recorded; raise `BadCall` if it cannot be."""
    if isinstance(outcome, Succeeded):
        return result_json(outcome.value, screen)
    told: tuple[Any, ...] = (outcome.error, outcome.error_type)  # a probe or a caller may have put anything there
    if not all(isinstance(one, str) for one in told):
        raise BadCall("Failed: error and error_type are texts; pass the message of the error, str(error)")
    return encode({"message": safe_text(outcome.error, screen), "type": safe_text(outcome.error_type, screen)})


def result_json(value: Any, screen: Screen | None, max_bytes: int | None = None) -> bytes:
    """Gives the bytes by which a result is recorded."""
    recorded = encode(value, root="result", max_bytes=max_bytes)
    return recorded if screen is None else screen.result(recorded, value)


def error_json(error: BaseException, screen: Screen | None = None) -> bytes:
    """Gives the bytes by which an exception is recorded: its class, its message, and the last place it came from."""
    content = {"message": safe_text(said_by(error), screen), "type": safe_text(type(error).__qualname__)}
    frames = traceback.extract_tb(error.__traceback__)
    if frames:
        content["at"] = safe_text(f"{frames[-1].name}:{frames[-1].lineno}")
    return encode(content)


def note_on(error: BaseException, note: str) -> None:
    """Add a note to an exception of the handler, if its class lets anything be added."""
    with suppress(Exception):  # its class may run code of its own, and what the handler did must be recorded
        error.add_note(note)


def said_by(error: BaseException) -> str:
    """Gives an exception's message, even if its own code cannot."""
    try:
        return str(error)
    except Exception as problem:  # what the handler did must be recorded, whatever its exception is like
        return f"(its message could not be read: {type(problem).__qualname__})"


def safe_text(text: str, screen: Screen | None = None, most: int = 10_000) -> str:
    """Makes any text recordable: secrets are marked, lone surrogates shown escaped, and a very long text is cut."""
    if screen is not None:
        text = screen.text(text)  # before it is cut: half a secret would not be known again
    return text[:most].encode("utf-8", "backslashreplace").decode("utf-8")


def shown(error: BaseException, screen: Screen | None) -> str:
    """Gives an exception for a message of ours."""
    return repr(error) if screen is None else f"{type(error).__qualname__}: {screen.text(said_by(error))}"
