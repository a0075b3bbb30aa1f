"""Turns what a caller says into walks."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, Unpack, get_args, overload

from indelible.carrying import NamedRun
from indelible.core.commands import Cancel, Command, Expire, Reopen, Stamp
from indelible.core.effects import outcomes, walk
from indelible.core.effects.adopting import adopt
from indelible.core.effects.calls import (
    SIDE_EFFECTS,
    Dedupe,
    OnReuse,
    Options,
    OptionWords,
    ResourceFrom,
    SideEffect,
    TextFrom,
    ToolCall,
    check_name,
)
from indelible.core.effects.effect import SYSTEM, Actor, Claim, Effect, Failed, Outcome, Status, Succeeded
from indelible.core.effects.meaning import meaning_of
from indelible.core.effects.reconciling import Reconciled, reconciled
from indelible.core.effects.requests import Mint, Prepared, Recall, Request, Walk
from indelible.core.journal.notes import Note
from indelible.core.ports import Filter
from indelible.core.values.canonical import decode, encode
from indelible.engine.entering import Handler
from indelible.engine.preparing import NOTHING_SAID, Preparing
from indelible.errors import BadCall, EffectInDoubt, UnknownEffect
from indelible.tool import Tool, ToolDecorator

if TYPE_CHECKING:
    from indelible.aio import AsyncLedger
    from indelible.engine.settling import Settling
    from indelible.ledger import Ledger
    from indelible.runs.desk import RunsDesk

_KEY_DIGITS = 64

Self = TypeVar("Self", bound="Desk")
P = ParamSpec("P")
R = TypeVar("R")


class Desk(Preparing):
    """Turns what is asked of a ledger into walks, reads its record, and sees to its journal and its runs."""

    _probes: Mapping[str, Callable[[Effect], Any]] = MappingProxyType({})
    """Holds the probes of tools that are not declared here, by name: a server has them from its file of tools."""

    def _run_desk(self) -> RunsDesk:
        """Gives what sees to runs; only whoever starts or resumes one loads it."""
        if self._runs is None:
            from indelible.runs.desk import RunsDesk

            self.__dict__.setdefault("_runs", RunsDesk(self, self._actor))  # one, whichever threads ask first
        assert self._runs is not None
        return self._runs

    def _await_sealed(self, run_id: str, seq: int) -> None:
        self._engine.notary.await_event(run_id, seq)

    @property
    def blocking(self) -> Ledger:
        """Is this ledger with verbs that block, for code that cannot await; closing either closes both."""
        from indelible.ledger import Ledger

        return self._as(Ledger)

    @property
    def awaited(self) -> AsyncLedger:
        """Is this ledger with verbs to await, for code in an event loop; closing either closes both."""
        from indelible.aio import AsyncLedger  # only whoever asks loads an event loop's modules

        return self._as(AsyncLedger)

    def _as(self, kind: type[Self]) -> Self:
        """Gives the same desk another face: they share everything they know, also what comes later."""
        if isinstance(self, kind):
            return self
        other = kind.__new__(kind)
        other.__dict__ = self.__dict__
        return other

    @property
    def address(self) -> str:
        """Names the store this ledger is kept in."""
        return self._engine.store.address

    @property
    def journal_name(self) -> str:
        """Names this tenant's journal, as its signed heads do."""
        return self._engine.store.origin(self.tenant)

    def in_run(self, run_id: str) -> NamedRun:
        """Make tools called inside belong to this run.

        The block reaches tasks and `asyncio.to_thread`. It does not reach plain threads and executors, nor code outside
        a generator that entered it: carry the run there with `run.call`, `run.bind` or `run.executor`.

        Args:
            run_id: The piece of work, 1 to 500 characters. Name the business thing, such as an order or a ticket: a
                random id makes each restart of the program a new run, which repeats what was done.

        Example:
            with ledger.in_run("order-123") as run:
                charge(1999)
                with run.executor(4) as threads:
                    threads.map(notify, customers)
        """
        return NamedRun(run_id)

    @overload
    def tool(self, name: Callable[P, R], /) -> Tool[P, R]: ...

    @overload
    def tool(
        self,
        name: str | None = None,
        *,
        key: Sequence[str] | None = None,
        scope: TextFrom | None = None,
        resource: ResourceFrom | None = None,
        turn: TextFrom | None = None,
        dedupe: Dedupe | None = None,
        varies: Sequence[str] | None = None,
        added: Mapping[str, Any] | None = None,
        on_reuse: OnReuse | None = None,
        idempotent: bool = True,
        **options: Unpack[OptionWords],
    ) -> ToolDecorator: ...

    def tool(
        self,
        name: str | Callable[..., Any] | None = None,
        *,
        key: Sequence[str] | None = None,
        scope: TextFrom | None = None,
        resource: ResourceFrom | None = None,
        turn: TextFrom | None = None,
        dedupe: Dedupe | None = None,
        varies: Sequence[str] | None = None,
        added: Mapping[str, Any] | None = None,
        on_reuse: OnReuse | None = None,
        idempotent: bool = True,
        **options: Unpack[OptionWords],
    ) -> Any:
        """Decorate a function so that each of its calls happens at most once.

        Arguments are bound against the signature, defaults included, and the body gets them as they were recorded. A
        function stays what it is: blocking, or a coroutine function.

        Args:
            name: The tool's name. Default: the function's.
            key, scope, resource, turn, dedupe, varies, added, on_reuse: What makes two calls the same; see `ToolCall`.
                What you say here holds for calls through adapters too; None leaves it to the call. `scope`, `turn`
                and `resource` may come from the arguments: as a path such as "args.customer_id", or as a function.
            idempotent: Only True makes sense here; it reads well where `@tool(idempotent=True)` was.
            options: How calls are treated; see `Options`.
        """
        if not idempotent:
            raise BadCall("idempotent=False: leave the decorator away to call a function without the ledger")
        decorator = ToolDecorator(
            self,
            name=None if callable(name) else name,
            options=Options(**options),
            key=key,
            scope=scope,
            resource=resource,
            turn=turn,
            dedupe=dedupe,
            varies=varies,
            added=added,
            on_reuse=on_reuse,
        )
        return decorator(name) if callable(name) else decorator  # the decorator may stand without brackets

    def _running(self, call: ToolCall, handler: Handler, words: OptionWords) -> Walk:
        """Gives the walk of a call; what cannot be called is refused before anything is claimed."""
        if not callable(handler):
            raise BadCall(f"{call.tool}: the handler is {handler!r}, which cannot be called; pass a function")
        return self._keeping_said(self._walking(self._prepare(call, words)), call, words)

    def _beginning(self, begin: Callable[[Prepared, Mint], Walk], call: ToolCall, words: OptionWords) -> Walk:
        """Give the walk of a call that its caller carries out, or only asks about."""
        return self._keeping_said(begin(self._prepare(call, words), self._mint), call, words)

    def _walking(self, prepared: Prepared) -> Walk:
        """Gives the walk of a call; one of a run that this process drives also keeps the run safe."""
        steps = walk.run(prepared, self._mint)
        driven = None if self._runs is None else self._runs.driven.get(prepared.call.run)
        return steps if driven is None else driven.around(steps, prepared)

    # Walks that need more than one line

    def _commit(
        self, claim: Claim, outcome: Outcome | Exception, mint: Mint | None = None, known: Effect | None = None
    ) -> Generator[Request, Any, Any]:
        mint = mint or self._mint
        if not isinstance(outcome, Succeeded | Failed | Exception):
            raise BadCall(f"commit with Succeeded(value) or Failed(error), not {type(outcome).__name__}")
        self._own(claim.effect)
        value = None
        screen = claim.screen or self._screen_of(claim.effect)
        words: OptionWords = {"side_effect": claim.effect.side_effect}
        handling = self._handling(claim.effect.tool, words)
        if isinstance(outcome, Exception):
            meaning = meaning_of(outcome, handling, claim.effect.id)
            yield from walk.finish_with_error(claim, outcome, meaning, mint, screen)
            return None
        if isinstance(outcome, Succeeded):
            most = self._max_result_bytes
            value = yield from walk.finish_with_value(claim, outcome.value, most, mint, screen, known)
        else:
            yield from walk._finish(claim, outcome, outcomes.outcome_json(outcome, screen), mint, known=known)
        yield from walk.await_seal(claim.effect, handling)
        return value

    def _adopt(self, call: ToolCall, outcome: Outcome, origin: Mapping[str, Any]) -> Generator[Request, Any, Effect]:
        """Give the walk that records a call as it was made elsewhere."""
        return adopt(self._prepare(call), outcome, self._mint, origin)

    def _settle(
        self, effect: Effect, outcome: Outcome, by: Actor | str, evidence: str
    ) -> Generator[Request, Any, Effect]:
        if not isinstance(outcome, Succeeded | Failed):
            raise BadCall(f"settle with Succeeded(value) or Failed(error), not {type(outcome).__name__}")
        if not evidence:
            raise BadCall("settle needs evidence: say how you know, for example the provider's id of the charge")
        screen = self._screen_of(effect)
        return walk.settle(effect, outcome, self._mint, actor=_person(by), evidence=evidence, screen=screen)

    def _reopen(self, effect: Effect, by: Actor | str, reason: str) -> Generator[Request, Any, Effect]:
        def make(stamp: Stamp, why: bytes) -> Command:
            return Reopen(ref=effect.ref, stamp=stamp, detail_json=why, attempt=effect.attempt)

        return self._command(make, effect, by, reason)

    def _cancel(self, effect: Effect, by: Actor | str, reason: str) -> Generator[Request, Any, Effect]:
        def make(stamp: Stamp, why: bytes) -> Command:
            return Cancel(ref=effect.ref, stamp=stamp, detail_json=why)

        return self._command(make, effect, by, reason)

    def _command(
        self, make: Callable[[Stamp, bytes], Command], effect: Effect, by: Actor | str, reason: str
    ) -> Generator[Request, Any, Effect]:
        screen = self._screen_of(effect)
        why = encode(reason if screen is None else screen.text(reason), root="reason")
        return walk.carry_out(make(self._mint.stamp(_person(by)), why), effect)

    def _probe_of(self, effect: Effect) -> Callable[[Effect], Any] | None:
        """Return the probe that is asked about an effect: its tool's, the server's, its call's or the ledger's."""
        tool = self._tools.get(effect.tool)
        if tool is None and effect.tool in self._probes:
            return self._probes[effect.tool]
        said = self._said.get(effect.ref, NOTHING_SAID).reconcile if tool is None else None
        return said or self._handling(effect.tool, None).reconcile

    def _reconcile_one(self, effect: Effect) -> Generator[Request, Any, Reconciled]:
        """Call an abandoned effect in doubt, then ask its tool's probe, if this ledger knows one."""
        if effect.status == "processing":
            effect = yield from walk.carry_out(Expire(ref=effect.ref, stamp=self._mint.stamp(SYSTEM)), effect)
        reconcile = self._probe_of(effect)
        if effect.status != "in_doubt":
            return reconciled(effect)
        if reconcile is None:
            return Reconciled(effect=effect, code="no_probe")
        try:
            return reconciled((yield from walk.probe(effect, reconcile, self._mint, self._screen_of(effect))))
        except EffectInDoubt as problem:  # it raised or talked nonsense; the others still get theirs
            now: Effect | None = yield Recall(effect.ref)
            return Reconciled(effect=now or effect, code="probe_raised", detail=str(problem))

    @property
    def _settling(self) -> Settling:
        from indelible.engine.settling import Settling  # only a program that settles many loads it

        return Settling(self)

    # The journal

    def _seal(self) -> Note | None:
        return self._engine.notary.seal()

    # Reading

    def _get_effect(self, effect_id: str) -> Effect | None:
        try:
            check_name("effect id", effect_id)
        except BadCall:
            return None  # nothing can have such an id
        return self._engine.store.get_effect(self.tenant, effect_id)

    def recorded_args(self, call: ToolCall, **options: Unpack[OptionWords]) -> Any:
        """Return the arguments of a call as they are recorded: with a mark for each value that is redacted."""
        return decode(self._prepare(call, options).identity.args_json)

    def key_of(self, call: ToolCall) -> str:
        """Gives the key of a call, by which its effect is found; the same one that its handler gets to pass on."""
        return self._prepare(call).identity.ref.key

    def _find_by_key(self, key: str, scope: str | None) -> Effect | None:
        if not is_key(key):
            raise BadCall(f"{key!r} is no key; a key has {_KEY_DIGITS} hexadecimal digits")
        return self._engine.store.find_by_key(self.tenant, key, scope)

    def _find(self, name: str | Effect) -> Effect:
        """Finds an effect by its id, the beginning of its id, or its key; raises when there is none."""
        if isinstance(name, Effect):
            return self._own(name)
        found = self._find_by_key(name, None) if is_key(name) else self._get_effect(name)
        if found is None:
            raise UnknownEffect(
                f"no effect of tenant {self.tenant!r} has the id or key {name}; see: indelible effects list"
            )
        return found

    def _own(self, effect: Effect) -> Effect:
        """Gives an effect back if it is this tenant's; to all others it does not exist."""
        if effect.tenant != self.tenant:
            raise UnknownEffect(f"no effect of tenant {self.tenant!r} has the id {effect.id}")
        return effect

    def _filter(
        self,
        status: Status | None,
        tool: str | None,
        run_id: str | None,
        side_effect: SideEffect | None,
        before: str | None,
        limit: int,
    ) -> Filter:
        if status is not None and status not in get_args(Status):
            raise BadCall(f"status={status!r}: choose one of {', '.join(get_args(Status))}")
        if side_effect is not None and side_effect not in SIDE_EFFECTS:
            raise BadCall(f"side_effect={side_effect!r}: choose one of {', '.join(SIDE_EFFECTS)}")
        check_limit(limit)
        return Filter(status=status, tool=tool, run_id=run_id, side_effect=side_effect, before=before, limit=limit)


def check_limit(limit: int) -> None:
    """Raises `BadCall` unless a page of so many makes sense."""
    if limit < 1:
        raise BadCall(f"limit={limit}: ask for one or more")


def is_key(name: str) -> bool:
    """Does this text have the form of a key?"""
    return len(name) == _KEY_DIGITS and all(digit in "0123456789abcdef" for digit in name)


def _person(by: Actor | str) -> Actor:
    return Actor(by) if isinstance(by, str) else by
