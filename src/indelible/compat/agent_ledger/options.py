"""The options of agent-ledger, by its names: in milliseconds as 0.1 spells them, in seconds as 0.2 does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from indelible.compat.agent_ledger.errors import EffectLedgerValidationError

if TYPE_CHECKING:
    from indelible.compat.agent_ledger.types import Effect, ToolCall

_UNSAID: Any = object()
"""Is an option that nobody gave, where None is one."""


@dataclass(frozen=True, kw_only=True)
class ConcurrencyOptions:
    """Says how long a call waits for another caller to finish, and for a person to decide.

    Both spellings hold: `wait_timeout_ms` of 0.1 is for either wait, and 0.2 tells them apart, where no
    `approval_timeout_s` waits without end. Intervals are checked and otherwise unused, for nothing polls here.
    """

    effect_timeout_s: float | None = None
    approval_timeout_s: float | None = _UNSAID
    initial_interval_s: float | None = None
    max_interval_s: float | None = None
    wait_timeout_ms: int | None = None
    initial_interval_ms: int | None = None
    max_interval_ms: int | None = None
    backoff_multiplier: float = 1.5
    jitter_factor: float = 0.3
    said: frozenset[str] = field(init=False, repr=False, compare=False)
    """Names which of the two waits it says something of; no end is something as well."""

    def __post_init__(self) -> None:
        effect, approval = self.effect_timeout_s, self.approval_timeout_s
        if self.wait_timeout_ms is not None:
            if effect is not None or approval not in (None, _UNSAID):
                raise EffectLedgerValidationError(
                    "wait_timeout_ms: or effect_timeout_s and approval_timeout_s, not both"
                )
            effect = approval = self.wait_timeout_ms / 1000
        waits = {"effect_timeout_s": effect is not None, "approval_timeout_s": approval is not _UNSAID}
        object.__setattr__(self, "said", frozenset(name for name, is_said in waits.items() if is_said))
        approval = None if approval is _UNSAID else approval
        first = _seconds("initial_interval", self.initial_interval_s, self.initial_interval_ms, 0.05)
        most = _seconds("max_interval", self.max_interval_s, self.max_interval_ms, 1.0)
        given = {"effect_timeout_s": 30.0 if effect is None else effect, "approval_timeout_s": approval}
        given |= {"initial_interval_s": first, "max_interval_s": most}
        for name, seconds in given.items():
            _check_positive(name, seconds)
            object.__setattr__(self, name, seconds)
        if first > most:
            raise EffectLedgerValidationError("initial_interval: must not be longer than max_interval")

    def over(self, lower: ConcurrencyOptions) -> ConcurrencyOptions:
        """Gives these waits, with those that it says nothing of taken from others."""
        said = {name: getattr(lower, name) for name in lower.said} | {name: getattr(self, name) for name in self.said}
        return ConcurrencyOptions(**said)


@dataclass(frozen=True, kw_only=True)
class StaleOptions:
    """Says after how long a call may be taken over from a worker that died; 0 leaves that to a person.

    Naming a time says that repeating the call after a crash is safe. A worker that lives is never taken over from.
    """

    after_ms: int = 0

    def __post_init__(self) -> None:
        if self.after_ms < 0:
            raise EffectLedgerValidationError("after_ms: 0, or so many milliseconds", "after_ms")


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Says how a call is treated; what it leaves open, the ledger's defaults say."""

    concurrency: ConcurrencyOptions | None = None
    stale: StaleOptions | None = None
    requires_approval: bool | None = None

    def over(self, lower: RunOptions) -> RunOptions:
        """Gives these options with the gaps filled from others."""
        none_said = ConcurrencyOptions()
        return RunOptions(
            concurrency=(self.concurrency or none_said).over(lower.concurrency or none_said),
            stale=self.stale or lower.stale,
            requires_approval=lower.requires_approval if self.requires_approval is None else self.requires_approval,
        )


@dataclass(frozen=True, kw_only=True)
class LedgerDefaults:
    """Holds the options of calls that have none of their own."""

    run: RunOptions | None = None


@dataclass(frozen=True, kw_only=True)
class LedgerHooks:
    """Holds functions of the caller's, blocking or coroutine functions.

    `requires_approval(call)` says whether somebody has to be asked; one that raises keeps the call from running.
    `on_approval_required(effect)` is told of the question.
    """

    requires_approval: Callable[[ToolCall], Any] | None = None
    on_approval_required: Callable[[Effect], Any] | None = None

    def __post_init__(self) -> None:
        for name in ("requires_approval", "on_approval_required"):
            hook = getattr(self, name)
            if hook is not None and not callable(hook):
                raise EffectLedgerValidationError(f"{name}: give a function", name)


def _check_positive(name: str, seconds: float | None) -> None:
    if seconds is not None and not seconds > 0:
        raise EffectLedgerValidationError(f"{name}: must be longer than nothing", name)


def _seconds(name: str, seconds: float | None, millis: int | None, otherwise: float) -> float:
    if seconds is not None and millis is not None:
        raise EffectLedgerValidationError(f"{name}_ms: or {name}_s, not both", f"{name}_ms")
    if millis is not None:
        return millis / 1000
    return otherwise if seconds is None else seconds
