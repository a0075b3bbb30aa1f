"""Rules: written ones, whose conditions are listed, and Python ones, which are functions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, Literal, overload

from indelible.core.approvals.approval import Question
from indelible.core.effects.calls import check_name
from indelible.core.policy.conditions import Asked, Case, Condition, Unknown, all_met
from indelible.core.policy.globs import Glob, tool_glob
from indelible.core.policy.verdicts import STRICTEST, Decision, Verdict
from indelible.core.values.canonical import encode
from indelible.errors import BadCall

Said = Decision | Verdict | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenRule:
    """Is a rule as a policy's content has it; a question comes with `ask`."""

    name: str
    conditions: tuple[Condition, ...]
    decision: Decision
    why: str = ""
    question: Question | None = None

    def verdict_on(self, case: Case, asks: Question) -> Verdict | None:
        """Gives what it says of a call; None when it does not apply."""
        if not all_met(self.conditions, case):
            return None
        return Verdict(decision=self.decision, rule=self.name, why=self.why, question=self.question)

    def speaks_of(self, what: Literal["unknown_tool", "unknown_fields"]) -> bool:
        """Is it made for calls of unknown tools, or with unknown fields?"""
        return Unknown(what, True) in self.conditions


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonRule:
    """Is a function that says what it thinks of a call: a decision, a whole verdict, or None when it does not apply."""

    name: str
    judge: Callable[[Asked], Said] = field(repr=False)
    tools: tuple[Glob, ...] = ()
    version: str = ""
    source: str = field(default="", repr=False)
    captured: bytes = field(default=b"", repr=False)
    """Is what its source does not show: values it was made with, such as a limit from the function around it."""

    def __call__(self, asked: Asked) -> Said:
        """Calls the function, as if there were no decorator."""
        return self.judge(asked)

    @property
    def fingerprint(self) -> list[Any]:
        """Is what tells it from every other rule; source and values are hashed."""
        hash_ = sha256(self.source.encode("utf-8", "surrogatepass")).hexdigest()
        values = sha256(self.captured).hexdigest()
        return [self.name, [glob.text for glob in self.tools], self.version, hash_, values]

    def verdict_on(self, case: Case, asks: Question) -> Verdict | None:
        """Gives what it says of a call; `asks` is whom a plain "ask" means."""
        if self.tools and not any(glob.matches(case.asked.tool) for glob in self.tools):
            return None
        # It gets arguments of its own: what it does to them must not reach the rules after it.
        said = self.judge(replace(case.asked, args=_copied(case.asked.args)))
        if said is None:
            return None
        verdict = said if isinstance(said, Verdict) else _verdict_of(said, replace(asks, rule=self.name))
        # Nobody but us sees to it that a function keeps to the types; what is none of these must not pass for a yes.
        if verdict.decision not in STRICTEST or (verdict.decision == "ask") != (verdict.question is not None):
            raise TypeError("a rule says allow, ask, refuse, None, or a Verdict that says one of these")
        return replace(verdict, rule=self.name)


Rule = WrittenRule | PythonRule


def _verdict_of(said: Decision, question: Question) -> Verdict:
    if not isinstance(said, str):
        raise TypeError(f"a rule says allow, ask, refuse, None or a Verdict, not {type(said).__name__}")
    return Verdict(decision=said, question=question if said == "ask" else None)


@overload
def rule(name: Callable[[Asked], Said], /) -> PythonRule: ...


@overload
def rule(
    name: str | None = None, *, tool: str | Sequence[str] = (), version: str = ""
) -> Callable[[Callable[[Asked], Said]], PythonRule]: ...


def rule(
    name: str | Callable[[Asked], Said] | None = None, *, tool: str | Sequence[str] = (), version: str = ""
) -> PythonRule | Callable[[Callable[[Asked], Said]], PythonRule]:
    """Makes a rule of a function that gets what is asked and says "allow", "ask", "refuse", a Verdict, or None.

    `tool` names the tools it is about, with stars. Its source is part of the policy's version; `version` stands for
    what the source does not show, such as a table it looks into: change it when that changes.
    """

    def decorate(function: Callable[[Asked], Said]) -> PythonRule:
        if inspect.iscoroutinefunction(function):
            raise BadCall(f"rule {function!r}: a rule is a plain function that gets what is asked, and not a coroutine")
        own = name if isinstance(name, str) else getattr(function, "__name__", type(function).__name__)
        check_name("rule", own)
        if "{" in own:
            raise BadCall(f"rule {own!r}: a name that holds {{ looks like a budget's on the record; choose another")
        try:
            globs = tuple(map(tool_glob, [tool] if isinstance(tool, str) else tool))
        except ValueError as problem:
            raise BadCall(f"rule {own!r}: {problem}") from None
        return PythonRule(
            name=own,
            judge=function,
            tools=globs,
            version=version,
            source=_source_of(function),
            captured=_captured_by(function),
        )

    return decorate(name) if callable(name) else decorate


def _source_of(function: Callable[..., Any]) -> str:
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):  # typed at a prompt, or not written in Python
        return ""


def _captured_by(function: Callable[..., Any]) -> bytes:
    """Gives the values that a function was made with: its defaults, and what it has from the functions around it."""
    values: list[Any] = [getattr(function, "__defaults__", None), getattr(function, "__kwdefaults__", None)]
    for cell in getattr(function, "__closure__", None) or ():
        try:
            values.append(cell.cell_contents)
        except ValueError:  # a name that is not bound yet
            values.append(None)
    return b"".join(map(_told, values))


def _told(value: Any) -> bytes:
    """Gives the bytes of a value that has some; of another only its kind."""
    try:
        return encode([value])
    except ValueError:
        return encode([[type(value).__qualname__]])


def _copied(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _copied(part) for name, part in value.items()}
    return [_copied(part) for part in value] if isinstance(value, list) else value
