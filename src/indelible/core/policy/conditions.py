"""What rules look at, and what they ask of it. A condition is met or not, or it cannot be told, which is neither.

Types are kept: "1" is not 1, and true is not 1. Numbers are compared exactly, by their decimal text: 1 and 1.0 are one
number, and 0.1 is a tenth.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final, Literal, Protocol

from indelible.core.effects.calls import SideEffect
from indelible.core.policy.globs import Glob
from indelible.core.policy.patterns import Expression

MOST_MATCHED = 4096
"""Is how long a text may be that an expression is tried on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Is a call as rules see it.

    `allowed_tools` are those of its run, if the run limits them; stars are allowed. `recorded_args` are the
    arguments as they are recorded, if that is not as the caller said them.
    """

    tenant: str
    tool: str
    side_effect: SideEffect
    agent: str
    principal: str | None
    run_id: str
    environment: str
    args: Mapping[str, Any] = field(repr=False)
    schema: str
    allowed_tools: frozenset[str] | None = None
    recorded_args: Mapping[str, Any] | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Case:
    """Is a call beside what the policy declares: is its tool unknown, and which of its fields are?"""

    asked: Asked
    is_unknown_tool: bool = False
    unknown_fields: tuple[str, ...] = ()


class CannotTell(Exception):
    """A condition makes no sense for this value. The message names no value, for it goes on the record."""


class Condition(Protocol):
    """Is one thing that a rule asks of a call."""

    def is_met(self, case: Case) -> bool:
        """Says whether it is so; raises `CannotTell` when nobody can say."""


def all_met(conditions: Iterable[Condition], case: Case) -> bool:
    """Are all of them met? One that is not settles it, whatever cannot be told of the others."""
    doubt: CannotTell | None = None
    for condition in conditions:
        try:
            if not condition.is_met(case):
                return False
        except CannotTell as problem:
            doubt = doubt or problem
    if doubt is not None:
        raise doubt
    return True


NAMES: Final[dict[str, Callable[[Asked], str | None]]] = {
    "tool": lambda asked: asked.tool,
    "agent": lambda asked: asked.agent,
    "principal": lambda asked: asked.principal,
    "run": lambda asked: asked.run_id,
    "tenant": lambda asked: asked.tenant,
    "environment": lambda asked: asked.environment,
}


@dataclass(frozen=True, slots=True)
class Named:
    """Asks for a name of one of these forms; a call that has no such name does not have it."""

    word: str
    globs: tuple[Glob, ...]

    def is_met(self, case: Case) -> bool:
        """Says whether the call has such a name."""
        name = NAMES[self.word](case.asked)
        return name is not None and any(glob.matches(name) for glob in self.globs)

    def __str__(self) -> str:
        return f"{self.word} {_or(glob.text for glob in self.globs)}"


@dataclass(frozen=True, slots=True)
class OfClass:
    """Asks for one of these classes of side effect."""

    classes: frozenset[SideEffect]

    def is_met(self, case: Case) -> bool:
        """Says whether the call is of such a class."""
        return case.asked.side_effect in self.classes

    def __str__(self) -> str:
        return f"side_effect {_or(sorted(self.classes))}"


@dataclass(frozen=True, slots=True)
class Unknown:
    """Asks whether the tool, or a field, is none that the policy declares."""

    what: Literal["unknown_tool", "unknown_fields"]
    is_wanted: bool

    def is_met(self, case: Case) -> bool:
        """Says whether it is as wanted."""
        is_unknown = case.is_unknown_tool if self.what == "unknown_tool" else bool(case.unknown_fields)
        return is_unknown == self.is_wanted

    def __str__(self) -> str:
        return f"{self.what} {'true' if self.is_wanted else 'false'}"


@dataclass(frozen=True, slots=True)
class Argument:
    """Asks something of the argument at a dotted path.

    What is missing meets nothing but `exists: false` and `ne`. Expressions have to be tried on texts, and sizes on
    numbers: else it cannot be told.
    """

    path: str
    test: str
    operand: Any

    def is_met(self, case: Case) -> bool:
        """Says whether the argument is as asked."""
        value = argument_at(case.asked.args, self.path)
        if value is MISSING:
            return self.test == "ne" or (self.test == "exists" and self.operand is False)
        try:
            return TESTS[self.test](value, self.operand)
        except CannotTell as problem:
            raise CannotTell(f"args.{self.path} {problem}") from None

    def __str__(self) -> str:
        return f"args.{self.path} {self.test} {_shown(self.operand)}"


class _Missing:
    """Stands for an argument that is not there."""


MISSING: Final = _Missing()


def argument_at(args: Mapping[str, Any], path: str) -> Any:
    """Gives the argument at a dotted path, or `MISSING`; inside anything but an object it cannot be told."""
    here: Any = args
    passed: list[str] = []
    for name in path.split("."):
        if here is None and passed:
            return MISSING
        if not isinstance(here, Mapping):
            raise CannotTell(f"args.{'.'.join(passed)} is {kind_of(here)}, and not an object with {name} in it")
        if name not in here:
            return MISSING
        here = here[name]
        passed.append(name)
    return here


def kind_of(value: object) -> str:
    """Says what kind of value this is, and nothing else about it."""
    match value:
        case None:
            return "null"
        case bool():
            return "a truth value"
        case int() | float() | Decimal():
            return "a number"
        case str():
            return "a text"
        case Mapping():
            return "an object"
        case list() | tuple():
            return "a list"
        case _:
            return f"a value of type {type(value).__name__}"


def number_of(value: object) -> Decimal | None:
    """Gives a number exactly as its decimal text says it; None for what is none."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    number = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    return number if number.is_finite() else None


def are_same(one: object, other: object) -> bool:
    """Are these the same value, types included? It cannot be told of values that a policy has no words for."""
    kinds = (_comparable(one), _comparable(other))
    if kinds[0] != kinds[1]:
        return False
    if kinds[0] == "a number":
        return number_of(one) == number_of(other)
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(are_same(value, other[name]) for name, value in one.items())
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(are_same, one, other))
    return one == other


def _comparable(value: object) -> str:
    kind = kind_of(value)
    if kind.startswith("a value") or (kind == "a number" and number_of(value) is None):
        raise CannotTell(f"is {kind}, which cannot be compared in a policy")
    return kind


def _number(value: object) -> Decimal:
    number = number_of(value)
    if number is None:
        raise CannotTell(f"is {kind_of(value)}, and not a number to be compared")
    return number


def _matches(value: object, operand: Expression) -> bool:
    if not isinstance(value, str):
        raise CannotTell(f"is {kind_of(value)}, and not a text to be matched")
    if len(value) > MOST_MATCHED:
        raise CannotTell(f"has more than {MOST_MATCHED} characters, too many to be matched")
    return operand.matches(value)


def _has_length(value: object, operand: Sequence[tuple[str, Decimal]]) -> bool:
    if not isinstance(value, str | list | tuple | Mapping):
        raise CannotTell(f"is {kind_of(value)}, which has no length")
    return all(TESTS[test](len(value), number) for test, number in operand)


SIZES: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "gt": lambda value, operand: _number(value) > operand,
    "gte": lambda value, operand: _number(value) >= operand,
    "lt": lambda value, operand: _number(value) < operand,
    "lte": lambda value, operand: _number(value) <= operand,
}
TESTS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "eq": are_same,
    "ne": lambda value, operand: not are_same(value, operand),
    **SIZES,
    "in": lambda value, operand: any(are_same(value, each) for each in operand),
    "matches": _matches,
    "length": _has_length,
    "exists": lambda value, operand: bool(operand),
}


def _or(words: Iterable[str]) -> str:
    return " or ".join(words)


def _shown(operand: object) -> str:
    """Writes what a condition compares with, as the policy says it."""
    match operand:
        case Expression():
            return repr(operand.text)
        case tuple():
            return " and ".join(f"{test} {number}" for test, number in operand)
        case Decimal():
            return str(operand)
        case list():
            return f"[{', '.join(map(_shown, operand))}]"
        case bool() | None:
            return {True: "true", False: "false", None: "null"}[operand]
        case _:
            return repr(operand)
