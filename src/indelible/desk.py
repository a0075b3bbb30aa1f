"""Turns what a caller says into walks. Both ledgers are this desk with a driver behind it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, ParamSpec, TypeVar, Unpack, get_args, overload

from indelible.core import walk
from indelible.core.calls import (
    DEFAULT_TENANT,
    SIDE_EFFECTS,
    Dedupe,
    Handling,
    Options,
    OptionWords,
    SideEffect,
    ToolCall,
    check_name,
    handling_of,
)
from indelible.core.canonical import encode
from indelible.core.commands import Cancel, Command, Decide, Expire, Reopen, Stamp
from indelible.core.effects import SYSTEM, Actor, Claim, Effect, Failed, Outcome, Status, Succeeded
from indelible.core.events import Event
from indelible.core.identity import identify
from indelible.core.ports import Clock, Filter
from indelible.core.walk import Prepared, Request, Walk
from indelible.engine import Engine, Handler
from indelible.errors import BadCall, UnknownEffect
from indelible.running import _current_run
from indelible.stores import open_store
from indelible.tool import Tool, ToolDecorator

AGENT = Actor("agent", "agent")
MEBIBYTE = 1024 * 1024
_KEY_DIGITS = 64
_MOST_REMEMBERED = 1000

Self = TypeVar("Self", bound="Desk")
P = ParamSpec("P")
R = TypeVar("R")


class Desk:
    """Knows the tenant, the defaults and the tools of a ledger, and prepares every walk."""

    def __init__(
        self,
        engine: Engine,
        *,
        tenant: str = DEFAULT_TENANT,
        actor: Actor = AGENT,
        max_args_bytes: int | None = MEBIBYTE,
        max_result_bytes: int | None = 16 * MEBIBYTE,
        options: Options | None = None,
    ) -> None:
        self._engine = engine
        self._mint = engine.mint
        self._actor = actor
        self._max_args_bytes = max_args_bytes
        self._max_result_bytes = max_result_bytes
        self._options = options or Options()
        self._tools: dict[str, Tool[Any, Any]] = {}
        self._usual_handling: dict[str, Handling] = {}
        self.tenant = tenant

    @classmethod
    def open(
        cls: type[Self],
        url: str | None = None,
        *,
        tenant: str = DEFAULT_TENANT,
        actor: Actor | str = AGENT,
        clock: Clock | None = None,
        wakeups: bool = True,
        max_args_bytes: int | None = MEBIBYTE,
        max_result_bytes: int | None = 16 * MEBIBYTE,
        **options: Unpack[OptionWords],
    ) -> Self:
        """Opens the ledger at an address: `sqlite:///file.db`, `:memory:` or `postgresql://…`.

        Without one, $INDELIBLE_URL names it, or else it is `.indelible/ledger.db` in the current folder. Options given
        here hold for every call that its tool or the call itself does not tell otherwise.
        """
        own = Options(**options)
        agent = Actor(actor, "agent") if isinstance(actor, str) else actor
        check_name("tenant", tenant)
        return cls(
            Engine(open_store(url, clock=clock, wakeups=wakeups)),
            tenant=tenant,
            actor=agent,
            max_args_bytes=max_args_bytes,
            max_result_bytes=max_result_bytes,
            options=own,
        )

    @property
    def address(self) -> str:
        """Names the store this ledger is kept in."""
        return self._engine.store.address

    @contextmanager
    def in_run(self, run_id: str) -> Iterator[str]:
        """Makes tools called inside belong to this run."""
        check_name("run_id", run_id)
        token = _current_run.set(run_id)
        try:
            yield run_id
        finally:
            _current_run.reset(token)

    @overload
    def tool(self, name: Callable[P, R], /) -> Tool[P, R]: ...

    @overload
    def tool(
        self,
        name: str | None = None,
        *,
        key: Sequence[str] | None = None,
        scope: str | None = None,
        dedupe: Dedupe = "args",
        idempotent: bool = True,
        **options: Unpack[OptionWords],
    ) -> ToolDecorator: ...

    def tool(
        self,
        name: str | Callable[..., Any] | None = None,
        *,
        key: Sequence[str] | None = None,
        scope: str | None = None,
        dedupe: Dedupe = "args",
        idempotent: bool = True,
        **options: Unpack[OptionWords],
    ) -> Any:
        """Decorates a function so that each of its calls happens at most once.

        Arguments are bound against the signature, defaults included, and the body gets them as they were recorded. A
        function stays what it is: blocking, or a coroutine function.
        """
        if not idempotent:
            raise BadCall("idempotent=False: leave the decorator away to call a function without the ledger")
        own = Options(**options)
        if callable(name):  # the decorator stands without brackets
            return ToolDecorator(self, name=None, key=key, scope=scope, dedupe=dedupe, options=own)(name)
        return ToolDecorator(self, name=name, key=key, scope=scope, dedupe=dedupe, options=own)

    def _register(self, tool: Tool[Any, Any]) -> None:
        known = self._tools.get(tool.name)
        if known is not None and not known.is_same_as(tool):
            raise BadCall(f'two tools are named {tool.name!r}; give one of them another name: @ledger.tool("…")')
        self._tools[tool.name] = tool
        self._usual_handling.pop(tool.name, None)

    def _running(self, call: ToolCall, handler: Handler, words: OptionWords) -> Walk:
        """Gives the walk of a call; what cannot be called is refused before anything is claimed."""
        if not callable(handler):
            raise BadCall(f"{call.tool}: the handler is {handler!r}, which cannot be called; pass a function")
        return walk.run(self._prepare(call, words), self._mint)

    def _prepare(self, call: ToolCall, words: OptionWords | None = None) -> Prepared:
        return Prepared(
            call=call,
            identity=identify(call, self.tenant, max_bytes=self._max_args_bytes),
            handling=self._handling(call.tool, words),
            actor=self._actor,
            max_result_bytes=self._max_result_bytes,
        )

    def _handling(self, tool_name: str, words: OptionWords | None) -> Handling:
        """Gives how a call is treated: as it says itself, else as its tool says, else as the ledger says."""
        usual = self._usual_handling.get(tool_name)
        if usual is not None and not words:
            return usual
        tool = self._tools.get(tool_name)
        options = self._options if tool is None else tool.options.over(self._options)
        if words:
            return handling_of(Options(**words).over(options))
        if len(self._usual_handling) < _MOST_REMEMBERED:
            self._usual_handling[tool_name] = handling_of(options)
        return handling_of(options)

    def _lease(self, words: OptionWords) -> timedelta:
        return handling_of(Options(**words).over(self._options)).lease

    # Walks that need more than one line

    def _commit(self, claim: Claim, outcome: Outcome) -> Generator[Request, Any, Any]:
        if not isinstance(outcome, Succeeded | Failed):
            raise BadCall(f"commit with Succeeded(value) or Failed(error), not {outcome!r}")
        self._own(claim.effect)
        if isinstance(outcome, Succeeded):
            return (yield from walk.finish_with_value(claim, outcome.value, self._max_result_bytes, self._mint))
        return (yield from walk._finish(claim, outcome, walk.outcome_json(outcome), self._mint))

    def _settle(
        self, effect: Effect, outcome: Outcome, by: Actor | str, evidence: str
    ) -> Generator[Request, Any, Effect]:
        if not isinstance(outcome, Succeeded | Failed):
            raise BadCall(f"settle with Succeeded(value) or Failed(error), not {outcome!r}")
        if not evidence:
            raise BadCall("settle needs evidence: say how you know, for example the provider's id of the charge")
        return walk.settle(effect, outcome, self._mint, actor=_person(by), evidence=evidence)

    def _reopen(self, effect: Effect, by: Actor | str, reason: str) -> Generator[Request, Any, Effect]:
        def make(stamp: Stamp, why: bytes) -> Command:
            return Reopen(ref=effect.ref, stamp=stamp, detail_json=why, attempt=effect.attempt)

        return self._command(make, effect, by, reason)

    def _cancel(self, effect: Effect, by: Actor | str, reason: str) -> Generator[Request, Any, Effect]:
        def make(stamp: Stamp, why: bytes) -> Command:
            return Cancel(ref=effect.ref, stamp=stamp, detail_json=why)

        return self._command(make, effect, by, reason)

    def _decide(
        self, effect: Effect, digest: str, by: Actor | str, reason: str, *, is_approval: bool
    ) -> Generator[Request, Any, Effect]:
        def make(stamp: Stamp, why: bytes) -> Command:
            return Decide(ref=effect.ref, stamp=stamp, digest=digest, is_approval=is_approval, detail_json=why)

        return self._command(make, effect, by, reason)

    def _command(
        self, make: Callable[[Stamp, bytes], Command], effect: Effect, by: Actor | str, reason: str
    ) -> Generator[Request, Any, Effect]:
        command = make(self._mint.stamp(_person(by)), encode(reason, root="reason"))
        return walk.carry_out(command, effect)

    def _reconcile_one(self, effect: Effect) -> Generator[Request, Any, Effect]:
        """Calls an abandoned effect in doubt, then asks its tool's probe, if this ledger knows one."""
        if effect.status == "processing":
            effect = yield from walk.carry_out(Expire(ref=effect.ref, stamp=self._mint.stamp(SYSTEM)), effect)
        tool = self._tools.get(effect.tool)
        reconcile = (self._options if tool is None else tool.options.over(self._options)).reconcile
        if effect.status != "in_doubt" or reconcile is None:
            return effect
        return (yield from walk.probe(effect, reconcile, self._mint))

    # Reading

    def _get_effect(self, effect_id: str) -> Effect | None:
        try:
            check_name("effect id", effect_id)
        except BadCall:
            return None  # nothing can have such an id
        return self._engine.store.get_effect(self.tenant, effect_id)

    def _find_by_key(self, key: str, scope: str | None) -> Effect | None:
        if not is_key(key):
            raise BadCall(f"{key!r} is no key; a key has {_KEY_DIGITS} hexadecimal digits")
        return self._engine.store.find_by_key(self.tenant, key, scope)

    def _events(self, run_id: str, after: int, limit: int) -> list[Event]:
        check_name("run_id", run_id)
        check_limit(limit)
        return self._engine.store.events(self.tenant, run_id, after, limit)

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
