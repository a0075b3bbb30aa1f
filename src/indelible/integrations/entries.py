"""One call on its way through an adapter. If its tool raises, the record says what that means, and not the adapter."""

from __future__ import annotations

import asyncio
import copy
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from indelible import AsyncLedger, Effect, Elsewhere, Ledger, NothingHappened, Redacted, RunningEffect, ToolCall
from indelible.errors import (
    ApprovalPending,
    BadCall,
    EffectFailed,
    EffectInDoubt,
    IndelibleError,
    KeyUnusable,
    MayHaveHappened,
    NotAuthenticated,
    NotPermitted,
    StillRunning,
    StoreError,
)
from indelible.integrations.telling import replayed
from indelible.integrations.terms import asked_again, is_same
from indelible.tool import encode, fate_of, holds_mark

_NOT_READ = (ValueError, TypeError, BadCall)
"""What says that a value cannot be read, or cannot be compared: its class may be the program's own."""
_READS_OTHERWISE = (
    "would read other arguments than those that are recorded, judged and approved, so it was not entered; cancel the "
    "recorded call and make it again: indelible effects list"
)


_UNREAD = (StoreError, KeyUnusable, NotAuthenticated, NotPermitted)
"""Errors with which the ledger cannot be asked how an effect stands. Its tool was entered, so it may have happened."""


@dataclass(eq=False, slots=True)
class _Walked:
    """The call for which an adapter entered an effect, and whether its framework has carried it out."""

    effect_id: str
    said_id: str | None
    adapter: str
    tool: str
    args: Mapping[str, Any]
    is_carried_out: bool = False
    is_sent: bool = False


_walked: ContextVar[_Walked | None] = ContextVar("indelible_walked", default=None)


class Entry:
    """One call: the note that a model hears with a replayed result, and what the tool raised in this process.

    While it waits for a person, `elsewhere` lists the same call in other runs and under other keys.

    Args:
        call: The call, as the ledger knows it.
        said_id: The id that the model gave it. Default: that of the call.
    """

    _live: Any = None
    """What the tool gave in this process, if it ran here: a list, or None."""
    _waits_on = False
    """Wait while another caller runs the same, unless `wait=` says how long: an error would end that caller, too."""

    def __init__(self, call: ToolCall, said_id: str | None = None) -> None:
        self.call = call
        self._said_id = call.call_id if said_id is None else said_id
        self.note: str | None = None
        self.elsewhere: Sequence[Elsewhere] = ()
        self._raised: tuple[Exception, str] | None = None
        self._entered_id: str | None = None
        """The id of the effect whose tool this call entered."""
        self._has_returned = False

    def enter(self, effect: RunningEffect) -> Any:
        """Enter the tool with the recorded arguments."""
        raise NotImplementedError

    def given(self, recorded: Any) -> Any:
        """Return what the tool returned, now or when it ran."""
        raise NotImplementedError

    def told_of(self, refusal: Exception, error: Exception) -> Any:
        """Return what becomes of a call without a value, or raise.

        Args:
            refusal: What the ledger says of the call.
            error: What was raised, by the ledger or by the tool.
        """
        raise NotImplementedError

    def walk(self, ledger: Ledger, words: dict[str, Any]) -> Any:
        """Run the call, replay it, or return what its framework is told."""
        while True:
            try:
                return self._heard(ledger.run(self.call, self._entrance(), on_replay=self.note_replay, **words))
            except Exception as error:
                effect_id = self._raised_in(error)
                effect, refusal = None, error
                if effect_id is not None:
                    with suppress(*_UNREAD):
                        effect = ledger.get_effect(effect_id)
                    refusal = _refusal_of(effect, effect_id, error)
                if not self._is_asked_again(refusal, words):
                    if isinstance(refusal, ApprovalPending):
                        self.elsewhere = ledger.elsewhere(refusal.approval)
                    return self.told_of(refusal, error)

    def _is_asked_again(self, refusal: Exception, words: dict[str, Any]) -> bool:
        is_running = self._waits_on and isinstance(refusal, StillRunning)
        return asked_again(refusal, words) or (is_running and "wait" not in words)

    def _entrance(self) -> Callable[[RunningEffect], Any]:
        """Return the handler: `enter`. What fails after the tool returned is not judged by what the tool declares."""

        def handled(effect: RunningEffect) -> Any:
            with self._after_return(effect):
                return self.enter(effect)

        async def handled_async(effect: RunningEffect) -> Any:
            with self._after_return(effect):
                return await self.enter(effect)

        return handled_async if inspect.iscoroutinefunction(self.enter) else handled

    @contextmanager
    def _after_return(self, effect: RunningEffect) -> Iterator[None]:
        """Raise `MayHaveHappened` if the tool returned, and something fails after that."""
        self._has_returned = False
        try:
            yield
        except Exception as error:
            if self._has_returned:
                raise_doubt(error, effect)
            raise

    def _heard(self, recorded: Any) -> Any:
        """Return what the tool gave; if parts of that are redacted, as it is recorded, now as on each replay."""
        self._entered_id = None  # the call has ended well: what fails from here on is no error of its
        if holds_mark(recorded):
            self._live = [] if isinstance(self._live, list) else None
            recorded = _texts_of(recorded)
        return self.given(recorded)

    async def walk_async(self, ledger: AsyncLedger, words: dict[str, Any]) -> Any:
        """Do as `walk` does, without blocking the loop."""
        while True:
            try:
                return self._heard(await ledger.run(self.call, self._entrance(), on_replay=self.note_replay, **words))
            except Exception as error:
                effect_id = self._raised_in(error)
                effect, refusal = None, error
                if effect_id is not None:
                    with suppress(*_UNREAD):
                        effect = await ledger.get_effect(effect_id)
                    refusal = _refusal_of(effect, effect_id, error)
                if not self._is_asked_again(refusal, words):
                    if isinstance(refusal, ApprovalPending):
                        self.elsewhere = await ledger.elsewhere(refusal.approval)
                    return self.told_of(refusal, error)

    def check_injected(
        self, effect: RunningEffect, *others: str, supplies: Callable[[], Mapping[str, Any]] | None = None
    ) -> None:
        """Raise `NothingHappened` if the framework supplies something else now than what is recorded and was shown.

        Args:
            effect: The effect whose tool is entered.
            others: Names under which something may have been supplied when the call was recorded.
            supplies: Reads what the framework supplies now: a person may have taken their time, or another tool may
                have changed it. Call this right before the tool. Default: what it supplied when the call was made.
        """
        now, names = dict(self.call.args), {*self.call.injected, *others}
        if supplies is not None:
            supplied = supplies()
            now = {name: value for name, value in now.items() if name not in self.call.injected} | dict(supplied)
            names |= supplied.keys()
        names = {name for name in names if not is_same(effect.args.get(name), now.get(name))}
        if names:
            raise NothingHappened(
                f"{', '.join(sorted(names))} changed since it was recorded; call again, deny it, "
                "or list what changes by itself in unbound"
            )

    def handed_over(
        self,
        recorded: Mapping[str, Any],
        said: Mapping[str, Any],
        reads: Callable[[Mapping[str, Any]], Mapping[str, Any]],
        gives: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None,
    ) -> dict[str, Any]:
        """Return a copy of the recorded arguments for the framework, which reads them once more, as what is recorded.

        The record cannot stand for each value: that of a default which is a member of an enum is a text. For such a
        name the copy has what the model said, or leaves the default to the framework. It has no name that the record
        lacks.

        Args:
            recorded: The recorded arguments, without what the framework supplies.
            said: The arguments of the call, as the model said them.
            reads: Reads arguments as the framework does, and returns what would be recorded of them.
            gives: Reads them, and returns the values that the tool gets. None if the framework fills in no defaults.

        Raises:
            NothingHappened: The framework reads neither as what is recorded, judged and approved.
        """
        args = dict(recorded)
        with suppress(*_NOT_READ):
            if gives is not None:
                args = _with_own_values(args, said, reads, gives)
        with suppress(*_NOT_READ):
            if is_same(reads(args), recorded):
                return copy.deepcopy(args)
        raise NothingHappened(f"{self.call.tool} {_READS_OTHERWISE}")

    def note_replay(self, effect: Effect) -> None:
        """Note what the model hears with a recorded result."""
        self.note = replayed(effect, self.call)

    @contextmanager
    def running(self, effect: RunningEffect) -> Iterator[None]:
        """Remember what the tool raises. One that cancels itself has raised: no framework hears of a cancelled call.

        Raises:
            MayHaveHappened: The tool raised `CancelledError`, although its caller did not cancel it.
            NothingHappened: The tool would read the recorded arguments as others, for example with a default that it
                has since and that no person has seen.
        """
        self._check_read(effect)
        self._entered_id = effect.id
        known = {name: value for name, value in effect.args.items() if name not in self.call.injected}
        token = _walked.set(_Walked(effect.id, self._said_id, type(self).__module__, self.call.tool, known))
        try:
            with _own_cancelling():
                yield
            self._has_returned = True
        except Exception as error:
            self._raised = (error, effect.id)
            raise
        finally:
            _walked.reset(token)

    def _check_read(self, effect: RunningEffect) -> None:
        binds = self.call.binds
        if binds is None or is_same(effect.args, self.call.args):
            return
        try:
            is_read = encode(binds(effect.args)) == encode(effect.args)
        except BadCall as wrong:
            raise NothingHappened(f"{self.call.tool} does not take what is recorded: {wrong}; deny it") from wrong
        if not is_read:
            raise NothingHappened(f"{self.call.tool} {_READS_OTHERWISE}")

    def _raised_in(self, error: Exception) -> str | None:
        """Return the id of the effect whose tool raised this error, or was ended by the ledger at its time limit.

        None if the ledger raised it for another reason.
        """
        is_raised = self._raised is not None and self._raised[0] is error
        return self._entered_id if is_raised or not isinstance(error, IndelibleError) else None


def is_entered_for(effect: RunningEffect, said_id: str | None, adapter: str) -> bool:
    """Say whether this adapter entered this effect here for the call to which the model gave this id.

    The record may have another id: that of the call which first asked for the same. Models of two frameworks may give
    the same id to two calls, so what another adapter entered is another call.

    Args:
        effect: The effect that runs here.
        said_id: The id.
        adapter: The module of the adapter.
    """
    walked = _walked.get()
    known = None if walked is None else (walked.effect_id, walked.said_id, walked.adapter)
    return known == (effect.id, said_id, adapter)


def carries_out(effect: RunningEffect, is_it: Callable[[str, Mapping[str, Any]], bool]) -> bool:
    """Say whether a framework carries out the call for which an adapter entered this effect. Only its first try does.

    Args:
        effect: The effect that runs here.
        is_it: Says whether it is that call, by its tool's name and its arguments.
    """
    walked = _walked.get()
    if walked is None or walked.effect_id != effect.id or walked.is_carried_out:
        return False
    walked.is_carried_out = is_it(walked.tool, walked.args)
    return walked.is_carried_out


def note_sent() -> None:
    """Note that an adapter or its framework carries out the entered call from here on, whatever task sends it."""
    walked = _walked.get()
    if walked is not None:
        walked.is_sent = True


def is_sent() -> bool:
    """Say whether `note_sent` was called in the effect that an adapter entered here."""
    walked = _walked.get()
    return walked is not None and walked.is_sent


@contextmanager
def _own_cancelling() -> Iterator[None]:
    """Raise `MayHaveHappened` for a tool that cancels itself: frameworks would tell the model in words of their own."""
    try:
        yield
    except asyncio.CancelledError as cancelled:
        with suppress(RuntimeError):  # without a loop, no caller can cancel it
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
        raise MayHaveHappened("the tool was cancelled, and not by its caller") from cancelled


def paused_by(pause: Exception, effect: RunningEffect, words: Mapping[str, Any]) -> Exception:
    """Return what to raise for a tool that paused its agent by itself, and starts from its first line when resumed.

    A tool may pause before it acts or after, and its pause does not tell which. `nothing_on=` says that it did nothing;
    tools that only read may start again anyway. All others are in doubt, so that nothing is done twice unseen.

    Args:
        pause: What the tool raised, as its framework defines it.
        effect: The effect whose tool it is.
        words: How the tool is treated.
    """
    why = f"the tool paused the agent itself ({type(pause).__qualname__}) and starts again when that is resumed"
    if effect.effect.side_effect in ("none", "read") or isinstance(pause, words.get("nothing_on") or ()):
        return NothingHappened(why)
    return MayHaveHappened(f"{why}; if it pauses before it acts, declare nothing_on={type(pause).__qualname__}")


def raise_doubt(error: Exception, effect: RunningEffect) -> None:
    """Raise `MayHaveHappened` for an error that the tool did not raise: its framework did, or the way to its server.

    What the tool declares, and its class, speak of the tool's own errors. Tools that only read may simply fail.
    """
    if effect.effect.side_effect not in ("none", "read"):
        raise MayHaveHappened(f"not raised by the tool: {type(error).__qualname__}: {error}") from error


def doubt_of(refusal: EffectInDoubt) -> dict[str, Any]:
    """Return what a framework's own pause shows of a call that may have happened."""
    effect_id = None if refusal.effect is None else refusal.effect.id
    return {"type": "indelible.in_doubt", "effect": effect_id, "why": str(refusal)}


def _refusal_of(effect: Effect | None, effect_id: str, raised: Exception) -> Exception:
    """Return what the ledger says of a call whose tool raised.

    Args:
        effect: The effect as it is recorded now; None if the ledger cannot be asked.
        effect_id: Its id.
        raised: What the tool raised.
    """
    said = f"{type(raised).__qualname__}: {raised}"
    if effect is None:
        return EffectInDoubt(f"{effect_id} may have happened. Find out, then settle it: indelible effects list")
    fate, may_be_repeated = fate_of(effect), effect.status == "in_doubt" and effect.on_crash == "retry"
    if fate == "failed" or may_be_repeated:
        return EffectFailed(f"{effect.tool} failed: {said}", effect=effect, error_type=type(raised).__qualname__)
    if fate == "nothing":
        return raised if isinstance(raised, NothingHappened) else NothingHappened(said)
    why = "" if effect.is_detail_erased else f" ({effect.detail})"  # as it is recorded, without what is redacted
    return EffectInDoubt(
        f"{effect.tool}: {effect.id} may have happened{why}. Find out, then: indelible effects settle {effect.id} --as "
        "succeeded|failed --evidence …",
        effect=effect,
    )


def _with_own_values(
    recorded: dict[str, Any],
    said: Mapping[str, Any],
    reads: Callable[[Mapping[str, Any]], Mapping[str, Any]],
    gives: Callable[[Mapping[str, Any]], Mapping[str, Any]],
) -> dict[str, Any]:
    """Return recorded arguments, with what the model said for each name whose record stands for another value."""
    now = reads(said)
    edited = {name: one for name, one in recorded.items() if name not in now or not is_same(now[name], one)}
    args = {**{name: one for name, one in said.items() if name in recorded}, **edited}
    if is_same(args, recorded) or not is_same(reads(args), recorded):
        return recorded
    meant = gives(args)
    for name, one in recorded.items():
        with suppress(*_NOT_READ):
            given = gives({**args, name: one})
            if all(name in given and _is_alike(given[name], value) for name, value in meant.items()):
                args[name] = one
    return args


def _is_alike(one: Any, other: Any) -> bool:
    """Say whether two values are the same for a tool: a member of an enum may equal its text, but is none."""
    if one is other or type(one) is not type(other):
        return one is other
    if isinstance(one, set | frozenset):
        return {(type(item), item) for item in one} == {(type(item), item) for item in other}
    if isinstance(one, Mapping):
        return _is_alike([*one.items()], [*other.items()])
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(_is_alike, one, other))
    return bool(one == other) and _is_alike(getattr(one, "__dict__", {}), getattr(other, "__dict__", {}))


def _texts_of(recorded: Any) -> Any:
    """Return a recorded value with the texts of its marks, which every framework can tell a model."""
    if isinstance(recorded, Redacted):
        return str(recorded)
    if isinstance(recorded, Mapping):
        return {name: _texts_of(item) for name, item in recorded.items()}
    return [_texts_of(item) for item in recorded] if isinstance(recorded, list) else recorded
