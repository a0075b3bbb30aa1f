"""What a handler's exception means. Pure.

An exception's type speaks of the handler's last request, and clients retry by themselves. So it never proves that
nothing happened. The table below is the whole rule; the first line that fits decides.

| # | condition | meaning |
|---|---|---|
| 1 | the handler raises `NothingHappened` | nothing happened |
| 2 | the handler raises `MayHaveHappened`, or was interrupted, cancelled or timed out | in doubt |
| 3 | the exception is listed in `nothing_on=` | nothing happened |
| 4 | `Refused`, `failed_on=`, `refused=` says yes, or a typed refusal of a known SDK | failed |
| 5 | the tool says `marks_sending=True`, and nothing was sent in this attempt | nothing happened |
| 6 | payment, external_mutation, notification, delegation | in doubt |
| 7 | the exception, or its cause, says that an inner call is open | write: in doubt; none, read: nothing happened |
| 8 | none, read, write | failed |

Lines 1, 3, 4 and 5 speak of one attempt. Where an earlier one may have happened, `core.steps`
and `walk` keep the doubt.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from indelible.core.effects.calls import HARMLESS, Handling, SideEffect
from indelible.core.effects.outcomes import note_on
from indelible.errors import (
    BadCall,
    EffectCanceled,
    EffectCompensated,
    EffectDenied,
    EffectErased,
    EffectFailed,
    IndelibleError,
    KeyReused,
    MayHaveHappened,
    NothingHappened,
    NotPermitted,
    PolicyRefused,
    Refused,
    RepeatRefused,
)

if TYPE_CHECKING:
    from indelible.core.effects.effect import Effect, Status

Meaning = Literal["nothing", "failed", "in_doubt"]
Fate = Literal["succeeded", "nothing", "failed", "in_doubt"]
_FATES: Mapping[Status, Fate] = {"succeeded": "succeeded", "failed": "failed", "ready": "nothing"}

DOUBTFUL: frozenset[SideEffect] = frozenset({"payment", "external_mutation", "notification", "delegation"})
"""The classes of which an undeclared exception leaves doubt."""

ENDING: tuple[type[IndelibleError], ...] = (
    *(BadCall, NotPermitted, KeyReused, RepeatRefused, PolicyRefused, EffectDenied, EffectCanceled),
    *(EffectCompensated, EffectErased, EffectFailed),
)
"""Errors of the ledger after which the call that raised them gets the same answer again: it did not happen, or failed.

Every other error of the ledger leaves a call open. A call in doubt may have happened, and one that waits may yet.
"""
# The class of the tool, the package, and the exception. The provider raises it after it has judged the request and done
# nothing. In a tool of another class it speaks of something beside the deed, as a receipt that could not be mailed.
KNOWN_REFUSALS: frozenset[tuple[SideEffect, str, str]] = frozenset(
    {
        ("payment", "stripe", "CardError"),
        ("notification", "smtplib", "SMTPRecipientsRefused"),  # raised only if the server refused every recipient
        ("notification", "smtplib", "SMTPSenderRefused"),
        ("notification", "smtplib", "SMTPAuthenticationError"),
        ("notification", "smtplib", "SMTPNotSupportedError"),
    }
)


_MARKS = "_indelible_marks"


def meaning_of(
    error: BaseException,
    handling: Handling,
    effect_id: str,
    *,
    has_sent: bool = True,
    is_interruption: bool = False,
    is_doubted: bool = False,
) -> Meaning:
    """Return what an exception of a handler means for its effect.

    Args:
        error: The exception.
        handling: How the tool wants to be treated.
        effect_id: The effect whose handler raised it.
        has_sent: False only if this attempt entered no `effect.sending()` and our transports wrote no byte.
        is_interruption: True if the handler was cancelled or ran out of time.
        is_doubted: True if an earlier attempt may have happened: what this one raises leaves that doubt.
    """
    meaning = _meaning(error, handling, effect_id, has_sent=has_sent, is_interruption=is_interruption)
    if is_doubted:
        meaning = "in_doubt"
    marks = _marks_on(error)
    if marks.left_open_in is None and meaning != "failed":  # so that an outer call, which it passes through, knows
        marks.left_open_in = effect_id
    return meaning


def _meaning(
    error: BaseException, handling: Handling, effect_id: str, *, has_sent: bool, is_interruption: bool
) -> Meaning:
    if isinstance(error, NothingHappened) and is_about(error, effect_id):
        return "nothing"
    if is_interruption or isinstance(error, MayHaveHappened) or not isinstance(error, Exception):
        return "in_doubt"
    if isinstance(error, handling.nothing_on):
        return "nothing"
    if _is_refusal(error, handling, effect_id):
        return "failed"
    if handling.marks_sending and not has_sent:
        return "nothing"
    if handling.side_effect in DOUBTFUL:
        return "in_doubt"
    if _leaves_open(error, effect_id):
        return "nothing" if handling.side_effect in HARMLESS else "in_doubt"
    return "failed"


def fate_of(effect: Effect | None) -> Fate:
    """Say what is known of a call whose handler was entered, by how its effect stands now.

    Args:
        effect: The effect; None if the ledger cannot be asked. An attempt that could not be marked is `processing`.
    """
    return "in_doubt" if effect is None else _FATES.get(effect.status, "in_doubt")


@dataclass(slots=True)
class _Marks:
    """Is what an exception object said of calls that it passed through."""

    about: str | None = None
    """The call that a `NothingHappened` or a refusal speaks of."""
    left_open_in: str | None = None
    """The innermost call that it left open."""


def _marks_on(error: BaseException) -> _Marks:
    """Return what an exception object said of calls.

    It holds for as long as the object does: a future raises what it holds to each handler that asks for its result.
    The marks are beside the attributes: a class may refuse to set them, or make up any that are asked for.
    """
    marks: _Marks = error.__dict__.setdefault(_MARKS, _Marks())
    return marks


def _leaves_open(error: BaseException, effect_id: str) -> bool:
    """Say whether an exception, or its cause, is of a call that the handler made and that has not ended for good."""
    if isinstance(error, BaseExceptionGroup):
        return any(_leaves_open(one, effect_id) for one in error.exceptions)
    return any(_is_of_open_call(one, effect_id) for one in _with_causes(error))


def _is_of_open_call(error: BaseException, effect_id: str) -> bool:
    if isinstance(error, NothingHappened):
        return not is_about(error, effect_id)
    if (_marks_on(error).left_open_in or effect_id) != effect_id:
        return True  # the inner call raised what its handler raised, and is in doubt
    return isinstance(error, IndelibleError) and not isinstance(error, ENDING)


def _with_causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception and those that it was raised from, as far as the first error of the ledger."""
    seen: list[BaseException] = []
    one: BaseException | None = error
    while one is not None and all(one is not other for other in seen):
        yield one
        seen.append(one)
        one = None if isinstance(one, IndelibleError) else one.__cause__


def is_about(error: BaseException, effect_id: str) -> bool:
    """Say whether an exception is about this effect, and not about one that the handler itself called."""
    marks = _marks_on(error)
    marks.about = marks.about or effect_id
    return marks.about == effect_id


def _is_refusal(error: Exception, handling: Handling, effect_id: str) -> bool:
    if isinstance(error, Refused):
        return is_about(error, effect_id)
    if isinstance(error, handling.failed_on):
        return True
    if is_known_refusal(error, handling.side_effect):
        return is_about(error, effect_id)
    if handling.refused is None:
        return False
    try:
        return handling.refused(error) is True
    except Exception as problem:  # a predicate that fails proves nothing, so the doubt stays
        note_on(error, f"Indelible: refused= raised {type(problem).__qualname__}, so this counts as no refusal")
        return False


def is_known_refusal(error: Exception, side_effect: SideEffect) -> bool:
    """Say whether an exception is a typed refusal of an SDK that we know, by its name: nothing is imported."""
    names = [(side_effect, kind.__module__.partition(".")[0], kind.__name__) for kind in type(error).__mro__]
    return not KNOWN_REFUSALS.isdisjoint(names)
