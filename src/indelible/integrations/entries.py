"""One call on its way through an adapter. If its tool raises, the record says what that means, and not the adapter."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from indelible import Effect, NothingHappened, RunningEffect, ToolCall
from indelible.errors import EffectFailed, EffectInDoubt
from indelible.integrations.telling import replayed


class Entry:
    """One call: the note that a model hears with a replayed result, and what the tool raised in this process."""

    def __init__(self, call: ToolCall) -> None:
        self.call = call
        self.note: str | None = None
        self._raised: tuple[Exception, str] | None = None

    def note_replay(self, effect: Effect) -> None:
        """Note what the model hears with a recorded result."""
        self.note = replayed(effect, self.call)

    @contextmanager
    def running(self, effect: RunningEffect) -> Iterator[None]:
        """Remember what the tool raises."""
        try:
            yield
        except Exception as error:
            self._raised = (error, effect.id)
            raise

    def raised_in(self, error: Exception) -> str | None:
        """Return the id of the effect whose tool raised this error; None if the ledger raised it."""
        return self._raised[1] if self._raised is not None and self._raised[0] is error else None


def refusal_of(effect: Effect | None, raised: Exception) -> Exception:
    """Return what the ledger says of a call whose tool raised.

    Args:
        effect: The effect as it is recorded now.
        raised: What the tool raised.
    """
    said = f"{type(raised).__qualname__}: {raised}"
    if effect is not None and effect.status == "failed":
        return EffectFailed(f"{effect.tool} failed: {said}", effect=effect, error_type=type(raised).__qualname__)
    if effect is not None and effect.status == "ready":
        return raised if isinstance(raised, NothingHappened) else NothingHappened(said)
    settle = "" if effect is None else f": indelible effects settle {effect.id} --as succeeded|failed --evidence …"
    return EffectInDoubt(f"It may have happened ({said}). Find out, then settle it{settle}", effect=effect)
