"""What an agent asks for: a tool call, and how its tool wants to be treated."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, TypedDict, get_args

from indelible.core.privacy.redaction import Rule, Subject, check_rules
from indelible.core.values.canonical import encode
from indelible.core.values.visible import is_unseen
from indelible.errors import BadCall, NoRun

if TYPE_CHECKING:
    from indelible.core.effects.effect import Effect

SideEffect = Literal["none", "read", "write", "external_mutation", "payment", "notification", "delegation"]
OnCrash = Literal["retry", "hold", "resend"]
Dedupe = Literal["args", "call", "ask", "turn"]
OnReuse = Literal["refuse", "replay"]
OnRepeat = Literal["ask", "refuse", "run"]
Approval = Literal["required", "none"]
# Does a call return only when its outcome is under a signed head? "awaited_here": only where this process seals.
Inclusion = Literal["awaited", "awaited_here", "not_awaited"]

DEFAULT_TENANT = "default"
OWN_RUNS = "indelible:"
UNNAMED_RUN = "unnamed"
"""Where calls are recorded that need no run and named none."""
SIDE_EFFECTS: tuple[SideEffect, ...] = get_args(SideEffect)
DEDUPES: tuple[Dedupe, ...] = get_args(Dedupe)
# Classes that leave no trace outside may be entered again after a crash without anybody having said so.
HARMLESS: frozenset[SideEffect] = frozenset({"none", "read"})

COMPENSATION = ".compensate"
"""Ends the name of the tool that makes another one's work good."""
MODEL_TURN = "model.turn"
"""The tool under whose name a model's turn stands on the record."""
QUESTION = "crewai.question"
"""The tool under whose name a framework's own question to a person stands on the record, with the answer."""
OWN_RECORDS = frozenset({MODEL_TURN, QUESTION})
"""Names of what is no tool call: nothing happens outside, and no rule about tool calls holds."""

_TOOL_NAME = re.compile(r"[A-Za-z0-9_.:/-]{1,200}", re.ASCII)
_KEY = re.compile(r"[0-9a-f]{64}", re.ASCII)
_LONGEST_NAME = 500
_LONGEST = timedelta(days=36_525)


RESOURCE_PARTS = frozenset({"namespace", "type", "id"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """Names one thing in the outside world; calls that name the same thing are the same call."""

    namespace: str
    type: str
    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """Says which tool to run with which arguments, and what makes two such calls the same.

    `key` names the arguments that identify the call (dotted paths reach inside); without it all arguments do.
    `resource` identifies the call by a thing instead. `scope` is the range in which the identity is unique, by default
    the run. `call_id` is the framework's own id of this call, `turn` the id of the user's last message; `dedupe` says
    which of them matters.

    Args:
        run_id: The piece of work that the call belongs to, such as an order. Default: the run of the block around the
            call, then the ledger's `run`, then $INDELIBLE_RUN. A call with effects and no `scope` needs one.
        varies: Arguments that a model may reword, as dotted paths. They are recorded, shown and approved, but another
            value of theirs is no other call.
        injected: Arguments that a framework supplies and no model says, by name. They are recorded, shown and approved,
            but are no part of the identity. If one of them changed while the call is open, a person is asked anew.
        added: Parameters and fields that a later version of the tool added, as dotted paths, with the value that stands
            for "as before". One of them is left out of the identity if it has exactly this value.
        on_reuse: What a call gets whose key belongs to a settled call with other arguments: "refuse" (the default)
            raises `KeyReused`, "replay" returns the recorded result.
    """

    tool: str
    args: Mapping[str, Any] = field(default_factory=dict, repr=False)
    run_id: str | None = None
    scope: str | None = None
    key: Sequence[str] | None = None
    resource: Resource | None = None
    call_id: str | None = None
    dedupe: Dedupe = "args"
    schema: str = ""
    """Is the hash of the tool's schema, where it has one; an approval holds for this schema only."""
    adopted_key: str | None = None
    """Is the key that another ledger gave this call, for effects that were taken over from there."""
    turn: str | None = None
    varies: Sequence[str] = ()
    added: Mapping[str, Any] = field(default_factory=dict, repr=False)
    on_reuse: OnReuse = "refuse"
    binds: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = field(default=None, repr=False, compare=False)
    """Returns arguments as the tool reads them. The ledger asks it about arguments that an approver edited."""
    injected: Sequence[str] = ()
    derived_from: Sequence[str] = ()
    """The arguments that `scope`, `turn` or `resource` were made of, as dotted paths; "*" stands for all."""
    turn_from: str | None = None
    """The dotted path of the argument that `turn` is, if it is one: it says when the call is made, and not which."""
    part: Sequence[str] = ()
    """The part of the run or scope in which the identity is unique, such as one of several servers."""

    def __post_init__(self) -> None:
        if not is_tool_name(self.tool):
            raise BadCall(f"tool name {self.tool!r}: use 1 to 200 of the characters A-Z a-z 0-9 _ . : / -")
        if not isinstance(self.args, Mapping):
            raise BadCall(f"args of {self.tool}: pass a mapping of names to values, not {type(self.args).__name__}")
        if self.run_id is not None:
            check_run_id(self.run_id)
        if self.scope is not None:
            check_name("scope", self.scope)
        if self.call_id is not None:
            check_name("call_id", self.call_id)
        if self.turn is not None:
            check_name("turn", self.turn)
        if self.varies or self.added:
            _check_varying(self)
        _check_choice("on_reuse", self.on_reuse, get_args(OnReuse))
        if self.dedupe not in DEDUPES:
            raise BadCall(f"dedupe={self.dedupe!r}: choose one of {', '.join(DEDUPES)}")
        if self.dedupe == "call" and self.call_id is None:
            raise BadCall(f"{self.tool}: dedupe='call' needs call_id, the framework's id of this tool call")
        if self.key is not None and (isinstance(self.key, str) or not self.key):
            raise BadCall(f"{self.tool}: key is a list of argument names, for example key=['order_id']")
        if self.key is not None and self.resource is not None:
            raise BadCall(f"{self.tool}: name key fields or a resource, not both; either alone is the identity")
        if self.adopted_key is not None and not _KEY.fullmatch(self.adopted_key):
            raise BadCall(f"{self.tool}: adopted_key={self.adopted_key!r}: a key has 64 hexadecimal digits")
        if self.adopted_key is not None and self.dedupe != "args":
            raise BadCall(f"{self.tool}: a call with adopted_key is known by that key alone; leave dedupe away")

    @property
    def run(self) -> str:
        """Return the run; raise `NoRun` while the call is in none."""
        if self.run_id is None:
            raise no_run(self.tool)
        return self.run_id


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnRecord(ToolCall):
    """Records what is no tool call. Only the ledger's own adapters make it; a `ToolCall` of such a name is refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTurn(OwnRecord):
    """Records what a model answers."""

    tool: str = MODEL_TURN


@dataclass(frozen=True, slots=True, kw_only=True)
class Question(OwnRecord):
    """Records what a person answers to a framework's own question."""

    tool: str = QUESTION


@dataclass(frozen=True, slots=True, kw_only=True)
class CompensatingCall(ToolCall):
    """Makes an effect good. Only `ledger.compensate` makes it; a `ToolCall` of such a name is refused."""


def placed(call: ToolCall, side_effect: SideEffect, run_id: str | None, make_id: Callable[[], str]) -> ToolCall:
    """Return the call in its run: its own, or else `run_id`.

    Two kinds of calls may have none, and are recorded in the run `unnamed`: one with a `scope`, which tells repeats by
    itself, and one without effects, which runs anew each time.

    Raises:
        NoRun: The call has effects, and there is no run for it.
    """
    if call.run_id is not None:
        return call
    if run_id is not None:
        return replace(call, run_id=run_id)
    if call.scope is not None:
        return replace(call, run_id=UNNAMED_RUN)
    if side_effect in HARMLESS:
        return replace(call, run_id=UNNAMED_RUN, scope=make_id())
    raise no_run(call.tool)


def no_run(tool: str) -> NoRun:
    """Return the error for a call with effects that is in no run."""
    return NoRun(
        f"{tool} has effects and is in no run, so a repeat could not be told from a new call. Nothing was recorded. "
        "Name the run after the business thing, such as an order or a ticket, never by a random id: "
        'with ledger.in_run("order-123"): …, or ToolCall(run_id="order-123"), or Ledger.open(run="order-123"), or '
        "INDELIBLE_RUN=order-123. In threads: run.call, run.bind or run.executor"
    )


def _check_varying(call: ToolCall) -> None:
    if isinstance(call.varies, str):
        raise BadCall(f"{call.tool}: varies is a list of argument names, for example varies=['memo']")
    both = {path.partition(".")[0] for path in call.varies} & {path.partition(".")[0] for path in call.key or ()}
    if both:
        raise BadCall(f"{call.tool}: {', '.join(sorted(both))} cannot both identify the call (key) and vary (varies)")
    for name, literal in call.added.items():
        encode(literal, root=f"added.{name}")


def is_own_record(tool: str, side_effect: SideEffect) -> bool:
    """Say whether a call only records what the ledger's own adapters do. No policy judges it: nothing happens outside.

    No tool and no other call can have such a name; see `check_tool_name` and `OwnRecord`.
    """
    return tool in OWN_RECORDS and side_effect in HARMLESS


def is_tool_name(name: str) -> bool:
    """Say whether a tool may have this name."""
    return _TOOL_NAME.fullmatch(name) is not None


def check_tool_name(tool: str) -> None:
    """Raise `BadCall` for a tool with a name of the ledger's own.

    No policy judges the ledger's own records, and a run that may use a tool may also use its compensation.
    """
    if tool in OWN_RECORDS:
        raise BadCall(f"{tool!r} is the name of a record of the ledger's own; give the tool another name")
    if tool.endswith(COMPENSATION):
        raise BadCall(
            f"{tool!r}: names that end in {COMPENSATION!r} are those of compensations; give the tool another name, or "
            "say compensate= of the tool that it makes good"
        )


def check_run_id(run_id: object) -> None:
    """Raises `BadCall` unless a caller may use this run: those the ledger tells about itself in are its own."""
    check_name("run_id", run_id)
    if str(run_id).startswith(OWN_RUNS):
        raise BadCall(f"run_id {run_id!r}: names that begin with {OWN_RUNS!r} belong to the ledger; choose another")


def check_name(what: str, name: object) -> None:
    """Raise `BadCall` unless `name` can stand in an event: text with a visible character, not too long, valid UTF-8."""
    if not isinstance(name, str) or not name:
        raise BadCall(f"{what}: must be a text that is not empty, got {name!r}")
    if not "!" <= name[0] <= "~" and all(map(is_unseen, name)):  # most names begin with what everybody sees
        raise BadCall(f"{what}: {name!r} has no visible character; use a name that people can read")
    if len(name) > _LONGEST_NAME:
        raise BadCall(f"{what}: has {len(name)} characters, at most {_LONGEST_NAME} are allowed")
    if not name.isascii():
        try:
            name.encode("utf-8")
        except UnicodeEncodeError:
            raise BadCall(f"{what}: holds a lone surrogate and cannot be written as UTF-8") from None
    if "\0" in name:
        raise BadCall(f"{what}: holds a NUL character")


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """Repeats the handler on the named exceptions; declares that repeating is safe for them."""

    on: tuple[type[BaseException], ...]
    attempts: int = 3
    backoff: timedelta = timedelta(milliseconds=200)
    multiplier: float = 2.0

    def __post_init__(self) -> None:
        _as_kinds("Retry.on", self.on)
        _check_kind("Retry.backoff", self.backoff, timedelta, "timedelta(seconds=1)")
        if self.attempts < 1:
            raise BadCall("Retry.attempts counts the first attempt too, so it is at least 1")
        try:
            pauses = [self.pause_after(attempt) for attempt in (1, 2, self.attempts)]
        except (OverflowError, ValueError, TypeError):
            pauses = [timedelta.max]
        if not all(timedelta(0) <= pause <= _LONGEST for pause in pauses):
            raise BadCall(f"Retry: backoff={self.backoff} and multiplier={self.multiplier} make pauses that cannot be")

    def pause_after(self, attempt: int) -> timedelta:
        """Gives the pause between attempt number `attempt` and the next."""
        return self.backoff * self.multiplier ** (attempt - 1)


TextFrom = str | Callable[[dict[str, Any]], str]
"""A text, an argument's path such as "args.customer_id", or a function of the arguments."""
ResourceFrom = Resource | Mapping[str, str] | Callable[[dict[str, Any]], Resource]
"""A resource, the table of its parts, which may be paths, or a function of the arguments."""


class IdentityWords(TypedDict, total=False):
    """The keywords by which a tool says what makes two of its calls the same; see `ToolCall`.

    `scope`, `turn` and `resource` may come from the arguments; see `core.effects.from_arguments`.
    """

    key: Sequence[str] | None
    scope: TextFrom | None
    resource: ResourceFrom | None
    turn: TextFrom | None
    dedupe: Dedupe | None
    varies: Sequence[str] | None
    added: Mapping[str, Any] | None
    on_reuse: OnReuse | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Idempotent:
    """Declares that the provider honours our idempotency key, so that sending the same request again is safe.

    Args:
        window: How long the provider remembers a key. Choose it shorter than the provider says: Stripe keeps keys for
            24 hours, so use 23. Within the window an effect in doubt is sent again with the same key, never after it.
        attempts: How often one call sends at most, the first time included.
        backoff: The pause before the second time; it doubles each time.
    """

    window: timedelta = timedelta(hours=23)
    attempts: int = 3
    backoff: timedelta = timedelta(milliseconds=200)

    def __post_init__(self) -> None:
        _check_kind("Idempotent.window", self.window, timedelta, "timedelta(hours=23)")
        _check_kind("Idempotent.backoff", self.backoff, timedelta, "timedelta(seconds=1)")
        if self.window <= timedelta(0) or self.attempts < 1:
            raise BadCall("Idempotent: the window is longer than nothing, and attempts counts the first one too")


Kinds = type[BaseException] | tuple[type[BaseException], ...]


class OptionWords(TypedDict, total=False):
    """The keywords by which a ledger, a tool and a single call say how to treat an effect."""

    side_effect: SideEffect
    approval: Approval
    on_crash: OnCrash
    reconcile: Callable[[Effect], Any]
    compensate: Callable[[Effect], Any]
    retry: Retry
    lease: timedelta
    wait: timedelta | float | bool
    timeout: timedelta
    await_inclusion: bool
    redact: Sequence[Rule]
    subject: Subject
    failed_on: Kinds
    nothing_on: Kinds
    refused: Callable[[Exception], bool]
    marks_sending: bool
    downstream: Idempotent
    exclusive: ResourceFrom
    on_repeat: OnRepeat
    volatile: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Says how an effect is treated. Ledger, tool and call each may say it; see `tightening` for what holds then.

    Args:
        failed_on: Exception types that mean: the provider refused, nothing was done. The effect becomes `failed`.
        nothing_on: Exception types that mean: nothing happened. The effect may be tried again.
        refused: A function of the exception that recognises a refusal of your provider, for example by its body.
        marks_sending: Everything this tool sends leaves inside `effect.sending()` or through our transports. An
            exception before that means that nothing happened. Default: False.
        downstream: The provider honours our idempotency key; see `Idempotent`.
        exclusive: Only one call on this resource may be open at a time. A resource, the table of its parts, such as
            {"namespace": "shop", "type": "order", "id": "args.order_id"}, or a function of the arguments.
            Ledger, tool and call may each name one; then all of them are kept.
        on_repeat: What happens to a call with dedupe="turn" that succeeded in an earlier turn: "ask" a person,
            "refuse" it, or "run" it. Default: "ask" for payment, external_mutation and delegation, else "run".
        volatile: Fields of a JSON request body that change from one sending to the next, such as a time stamp.
    """

    side_effect: SideEffect | None = None
    approval: Approval | None = None
    on_crash: OnCrash | None = None
    reconcile: Callable[[Effect], Any] | None = None
    compensate: Callable[[Effect], Any] | None = None
    retry: Retry | None = None
    lease: timedelta | None = None
    wait: timedelta | float | bool | None = None
    timeout: timedelta | None = None
    await_inclusion: bool | None = None
    redact: Sequence[Rule] | None = None
    subject: Subject | None = None
    failed_on: Kinds | None = None
    nothing_on: Kinds | None = None
    refused: Callable[[Exception], bool] | None = None
    marks_sending: bool | None = None
    downstream: Idempotent | None = None
    exclusive: ResourceFrom | tuple[ResourceFrom, ...] | None = None
    on_repeat: OnRepeat | None = None
    volatile: Sequence[str] | None = None

    def __post_init__(self) -> None:
        if self.redact is not None:
            check_rules(self.redact)
        if self.subject is not None and not callable(self.subject):
            _check_subject(self.subject)
        _check_choice("side_effect", self.side_effect, SIDE_EFFECTS)
        _check_choice("approval", self.approval, get_args(Approval))
        _check_choice("on_crash", self.on_crash, ("retry", "hold"))
        _check_choice("on_repeat", self.on_repeat, get_args(OnRepeat))
        for name, kinds in (("failed_on", self.failed_on), ("nothing_on", self.nothing_on)):
            if kinds is not None:
                _as_kinds(name, kinds)
        for name, kind, example in _KINDS:
            _check_kind(name, getattr(self, name), kind, example)
        if self.downstream is not None and self.on_crash == "retry":
            raise BadCall("downstream and on_crash='retry' both say what happens in doubt; leave on_crash out")
        for exclusive in _as_tuple(self.exclusive):
            check_resource("exclusive", exclusive)
        if self.volatile is not None and (isinstance(self.volatile, str) or not isinstance(self.volatile, Sequence)):
            raise BadCall("volatile is a list of field names, for example volatile=['sent_at']")
        for name, duration in (("lease", self.lease), ("timeout", self.timeout)):
            if duration is not None and not timedelta(0) < duration <= _LONGEST:
                raise BadCall(f"{name}={duration}: must be longer than nothing, and at most {_LONGEST.days} days")
        if not isinstance(self.wait, timedelta | None) and not self.wait <= _LONGEST.total_seconds():
            raise BadCall(f"wait={self.wait}: must be a number of seconds, at most {_LONGEST.days} days")


_KINDS: tuple[tuple[str, Any, str], ...] = (
    ("retry", Retry, "Retry(on=(TimeoutError,), attempts=3)"),
    ("downstream", Idempotent, "Idempotent(window=timedelta(hours=23))"),
    ("reconcile", Callable, "a function of the effect"),
    ("compensate", Callable, "a function of the effect"),
    ("refused", Callable, "a function of the exception"),
    ("lease", timedelta, "timedelta(seconds=30)"),
    ("timeout", timedelta, "timedelta(seconds=30)"),
    ("wait", (timedelta, int, float), "timedelta(seconds=30), or a number of seconds"),
    ("await_inclusion", bool, "True, or False"),
)
"""The options that an object of one kind says, and how it is written."""


def _check_kind(name: str, value: object, kind: Any, example: str) -> None:
    if value is not None and not isinstance(value, kind):
        raise BadCall(f"{name}={value!r}: write {name.rpartition('.')[2]}={example}")


def check_resource(what: str, said: object) -> None:
    """Raise `BadCall` unless this is a resource, the table of its parts, or a function."""
    is_table = isinstance(said, Mapping) and set(said) == RESOURCE_PARTS
    is_text = isinstance(said, Mapping) and all(isinstance(part, str) and part for part in said.values())
    if not (is_table and is_text) and not isinstance(said, Resource) and not callable(said):
        raise BadCall(
            f'{what} is a resource, as {{"namespace": "shop", "type": "order", "id": "args.order_id"}}, or a function '
            "of the arguments"
        )


def _check_subject(path: object) -> None:
    if not isinstance(path, str) or not path.startswith("args."):
        raise BadCall(f"subject={path!r}: name an argument, as in subject='args.customer_id', or give a function")


def _check_choice(name: str, value: str | None, choices: tuple[str, ...]) -> None:
    if value is not None and value not in choices:
        raise BadCall(f"{name}={value!r}: choose one of {', '.join(choices)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Handling:
    """Is the complete answer to how an effect is treated: options with no gap left."""

    side_effect: SideEffect
    on_crash: OnCrash
    needs_approval: bool
    reconcile: Callable[[Effect], Any] | None
    retry: Retry | None
    lease: timedelta
    wait: timedelta
    timeout: timedelta | None
    inclusion: Inclusion
    redact: tuple[Rule, ...] = ()
    subject: Subject | None = None
    failed_on: tuple[type[BaseException], ...] = ()
    nothing_on: tuple[type[BaseException], ...] = ()
    refused: Callable[[Exception], bool] | None = None
    marks_sending: bool = False
    downstream: Idempotent | None = None
    exclusive: tuple[ResourceFrom, ...] = ()
    on_repeat: OnRepeat = "ask"
    volatile: tuple[str, ...] = ()
    judged_as: tuple[SideEffect, ...] = ()
    """The classes that ledger, tool and call name, if they name several: the policy judges each of them."""


# Who repeats these in a later turn, after they succeeded, is asked.
_ASKED_ABOUT_REPEATS: frozenset[SideEffect] = frozenset({"payment", "external_mutation", "delegation"})


def handling_of(options: Options) -> Handling:
    """Fills what nobody said with the careful default: a mutation of the outside world that is held when in doubt."""
    side_effect = options.side_effect or "external_mutation"
    return Handling(
        side_effect=side_effect,
        on_crash=_on_crash(options, side_effect),
        needs_approval=options.approval == "required",
        reconcile=options.reconcile,
        retry=options.retry,
        lease=options.lease or timedelta(seconds=30),
        wait=_as_duration(options.wait),
        timeout=options.timeout,
        inclusion=_inclusion_of(options.await_inclusion, side_effect),
        redact=() if options.redact is None else tuple(options.redact),
        subject=options.subject,
        failed_on=_as_kinds("failed_on", options.failed_on or ()),
        nothing_on=_as_kinds("nothing_on", options.nothing_on or ()),
        refused=options.refused,
        marks_sending=bool(options.marks_sending),
        downstream=options.downstream,
        exclusive=_as_tuple(options.exclusive),
        on_repeat=options.on_repeat or ("ask" if side_effect in _ASKED_ABOUT_REPEATS else "run"),
        volatile=tuple(options.volatile or ()),
    )


def _as_tuple(exclusive: ResourceFrom | tuple[ResourceFrom, ...] | None) -> tuple[ResourceFrom, ...]:
    if exclusive is None:
        return ()
    return exclusive if isinstance(exclusive, tuple) else (exclusive,)


def _on_crash(options: Options, side_effect: SideEffect) -> OnCrash:
    if options.on_crash is not None:
        return options.on_crash
    if side_effect in HARMLESS:
        return "retry"
    return "hold" if options.downstream is None else "resend"


def _as_kinds(name: str, kinds: Kinds) -> tuple[type[BaseException], ...]:
    found: tuple[Any, ...] = kinds if isinstance(kinds, tuple) else (kinds,)
    if not all(isinstance(kind, type) and issubclass(kind, BaseException) for kind in found):
        raise BadCall(f"{name}={kinds!r}: name exception types, for example {name}=(stripe.CardError,)")
    return found


def _inclusion_of(asked: bool | None, side_effect: SideEffect) -> Inclusion:
    if asked is None:
        return "awaited_here" if side_effect == "payment" else "not_awaited"
    return "awaited" if asked else "not_awaited"


def _as_duration(wait: timedelta | float | bool | None) -> timedelta:
    if wait is None or wait is True:
        return timedelta(seconds=30)
    if wait is False:
        return timedelta(0)
    return wait if isinstance(wait, timedelta) else timedelta(seconds=wait)
