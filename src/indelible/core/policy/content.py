"""Reads the content of a policy: its rules, what it declares, its defaults and its budgets.

Pure and strict: what comes of it is either complete or a list of everything that is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from functools import partial
from typing import Any, Final, Literal

from indelible.core.approvals.approval import Question
from indelible.core.effects.calls import SIDE_EFFECTS, SideEffect, ToolCall
from indelible.core.policy.asking import People, Terms, question_on, read_people, read_terms
from indelible.core.policy.charging import BudgetRule, is_countable
from indelible.core.policy.conditions import NAMES, SIZES, TESTS, Argument, Condition, Named, OfClass, Unknown
from indelible.core.policy.globs import Glob, tool_glob
from indelible.core.policy.patterns import expression_of
from indelible.core.policy.reading import Place, Problem, Reading
from indelible.core.policy.rules import WrittenRule
from indelible.core.policy.verdicts import OPEN_APPROVALS, REPEAT_RULE, STRICTEST, TOOL_RULE, Decision

ALLOWED_TOOLS_RULE = "allowed tools of the run"
PINNED_RULE = "pinned schemas"
UNKNOWN_TOOLS_RULE = "unknown tools"
UNKNOWN_FIELDS_RULE = "unknown fields"
OWN_RULES = frozenset(
    {ALLOWED_TOOLS_RULE, PINNED_RULE, UNKNOWN_TOOLS_RULE, UNKNOWN_FIELDS_RULE, TOOL_RULE, REPEAT_RULE}
)
WORDS = (
    "people",
    "approvals",
    "tools",
    "unknown_tools",
    "unknown_fields",
    "defaults",
    "rules",
    "budgets",
    "open_approvals",
)
MATCH_WORDS = (*NAMES, "side_effect", "args", "unknown_tool", "unknown_fields")
PER_WORDS = ("tool", "agent", "run", "tenant")
OUR_DEFAULTS: Final[Mapping[SideEffect, Decision]] = {
    each: "ask" if each == "payment" else "allow" for each in SIDE_EFFECTS
}
"""Money is asked about. The rest passes: a question at every call teaches people to say yes without looking."""

_SCHEMA = re.compile(r"[0-9a-f]{64}", re.ASCII)
_PATH = re.compile(r"[^.]+(\.[^.]+)*")
_LONGEST_EXPRESSION = 1000
_LONGEST_WHY = 2000
_NO_TIME = timedelta(milliseconds=1)  # what has ended is not counted


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredTool:
    """Is what a policy declares of a tool; what is None was not declared."""

    side_effect: SideEffect | None = None
    fields: tuple[str, ...] | None = None
    schema: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Is everything that a policy's content says, ready to judge by."""

    people: People | None = None
    asks: Question = field(default_factory=lambda: Question(rule=""))
    tools: Mapping[str, DeclaredTool] | None = None
    unknown_tools: Decision = "allow"
    unknown_fields: Decision = "refuse"
    defaults: Mapping[SideEffect, Decision] = field(default_factory=lambda: OUR_DEFAULTS)
    rules: tuple[WrittenRule, ...] = ()
    budgets: tuple[BudgetRule, ...] = ()
    caps: tuple[BudgetRule, ...] = ()
    """Say how many questions may be open at once."""


def read_content(content: object) -> tuple[Parts, list[Problem]]:
    """Reads a policy's content; the parts may only be used when there is no problem."""
    reading = Reading()
    words = reading.words(content, (), WORDS)
    people = read_people(reading, words["people"], ("people",)) if "people" in words else None
    terms = read_terms(reading, words["approvals"], ("approvals",)) if "approvals" in words else Terms()
    tools = _read_tools(reading, words["tools"], ("tools",)) if "tools" in words else None
    asking = _Asking(reading, people, terms)
    parts = Parts(
        people=people,
        asks=question_on(reading, terms, people, ("approvals",), ""),
        tools=tools,
        unknown_tools=_decision(reading, words, "unknown_tools", "allow" if tools is None else "refuse"),
        unknown_fields=_decision(reading, words, "unknown_fields", "refuse"),
        defaults=_read_defaults(reading, words["defaults"], ("defaults",)) if "defaults" in words else OUR_DEFAULTS,
        rules=tuple(_each(reading, words, "rules", partial(_read_rule, asking=asking))),
        budgets=tuple(_each(reading, words, "budgets", _read_budget)),
        caps=_read_caps(reading, words.get("open_approvals", {}), ("open_approvals",)),
    )
    return parts, reading.problems


def _read_caps(reading: Reading, value: object, place: Place) -> tuple[BudgetRule, ...]:
    """Reads how many questions may be open at once, of a run and of the tenant."""
    caps = []
    for per, most in reading.words(value, place, ("run", "tenant")).items():
        limit = reading.number(most, (*place, per))
        if limit < 1 or limit != limit.to_integral_value():
            reading.wrong((*place, per), "has to be a whole number, 1 or more")
        cap = BudgetRule(name=OPEN_APPROVALS, conditions=(), per=(per,), limit=limit, window=_NO_TIME)
        caps.append(cap)
    return tuple(caps)


@dataclass(frozen=True, slots=True)
class _Asking:
    """Turns the terms of a rule into its question."""

    reading: Reading
    people: People | None
    terms: Terms

    def question(self, rule: str, own: Terms, place: Place) -> Question:
        return question_on(self.reading, own.over(self.terms), self.people, place, rule)


def _decision(reading: Reading, words: Mapping[str, Any], word: str, default: Decision) -> Decision:
    return reading.choice(words[word], (word,), STRICTEST) if word in words else default


def _each(
    reading: Reading, words: Mapping[str, Any], word: str, read: Callable[[Reading, Any, Place], Any]
) -> list[Any]:
    """Reads a list of things that have names; each name stands there once."""
    if word not in words:
        return []
    found = [read(reading, each, (word, number)) for number, each in enumerate(reading.items(words[word], (word,)))]
    seen: set[str] = set()
    for number, each in enumerate(found):
        if each.name in seen:
            reading.wrong(
                (word, number, "name"), f"is {each.name!r}, as another one's: the record would not tell them apart"
            )
        seen.add(each.name)
    return found


def _read_rule(reading: Reading, value: object, place: Place, *, asking: _Asking) -> WrittenRule:
    words = reading.words(value, place, ("name", "match", "then", "why", "approvals"), needed=("name", "then"))
    name = reading.text(words["name"], (*place, "name")) if "name" in words else ""
    if name in OWN_RULES or "{" in name:
        reading.wrong((*place, "name"), "is a name that the record has another use for; choose one without {")
    decision = reading.choice(words["then"], (*place, "then"), STRICTEST) if "then" in words else "refuse"
    own = Terms()
    if "approvals" in words:
        own = read_terms(reading, words["approvals"], (*place, "approvals"))
        if decision != "ask":
            reading.wrong((*place, "approvals"), f"goes with then: ask, and not with {decision}")
    return WrittenRule(
        name=name,
        conditions=_read_match(reading, words["match"], (*place, "match")) if "match" in words else (),
        decision=decision,
        why=reading.text(words["why"], (*place, "why"), _LONGEST_WHY) if "why" in words else "",
        question=asking.question(name, own, place) if decision == "ask" else None,
    )


def _read_match(reading: Reading, value: object, place: Place) -> tuple[Condition, ...]:
    """Reads what a rule is about, the cheap conditions first."""
    words = reading.words(value, place, MATCH_WORDS)
    found: list[Condition] = [
        Named(word, _read_globs(reading, words[word], (*place, word), is_tool=word == "tool"))
        for word in NAMES
        if word in words
    ]
    if "side_effect" in words:
        here = (*place, "side_effect")
        named = reading.texts(words["side_effect"], here)
        found.append(OfClass(frozenset(reading.choice(each, here, SIDE_EFFECTS) for each in named)))
    unknowns: tuple[Literal["unknown_tool", "unknown_fields"], ...] = ("unknown_tool", "unknown_fields")
    found += [Unknown(what, reading.flag(words[what], (*place, what))) for what in unknowns if what in words]
    if "args" in words:
        for path, tests in reading.names(words["args"], (*place, "args")).items():
            found += _read_argument(reading, path, tests, (*place, "args", path))
    return tuple(found)


def _read_globs(reading: Reading, value: object, place: Place, *, is_tool: bool) -> tuple[Glob, ...]:
    found = reading.texts(value, place)
    if is_tool:
        return tuple(reading.tried(place, partial(tool_glob, each)) or Glob("") for each in found)
    return tuple(map(Glob, found))


def _read_path(reading: Reading, path: object, place: Place) -> str:
    text = reading.text(path, place)
    if text.startswith("args."):
        reading.wrong(place, "begins with args., which is meant anyway: leave it away")
    elif text and not _PATH.fullmatch(text):
        reading.wrong(place, "is no path: write the names of arguments with dots between them, as in order.amount")
    return text


def _read_argument(reading: Reading, path: str, value: object, place: Place) -> list[Condition]:
    _read_path(reading, path, place)
    tests = reading.words(value, place, tuple(TESTS))
    if isinstance(value, Mapping) and not value:
        reading.wrong(place, "asks nothing; known tests are " + ", ".join(TESTS))
    known = (test for test in TESTS if test in tests)
    return [Argument(path, test, _read_operand(reading, test, tests[test], (*place, test))) for test in known]


def _read_operand(reading: Reading, test: str, value: object, place: Place) -> Any:
    """Reads what an argument is compared with."""
    if test in SIZES:
        return reading.number(value, place)
    if test == "exists":
        return reading.flag(value, place)
    if test == "in":
        return [reading.value(each, (*place, number)) for number, each in enumerate(reading.items(value, place))]
    if test == "matches":
        text = reading.text(value, place, _LONGEST_EXPRESSION)
        return reading.tried(place, partial(expression_of, text)) if text else None
    if test == "length":
        sizes = reading.words(value, place, ("eq", "ne", *SIZES))
        if isinstance(value, Mapping) and not value:
            reading.wrong(place, "asks nothing; it is an object, as in length: {lte: 100}")
        return tuple(
            (size, reading.number(sizes[size], (*place, size))) for size in ("eq", "ne", *SIZES) if size in sizes
        )
    return reading.value(value, place)


def _read_tools(reading: Reading, value: object, place: Place) -> dict[str, DeclaredTool]:
    tools: dict[str, DeclaredTool] = {}
    for name, content in reading.names(value, place).items():
        here = (*place, name)
        reading.tried(here, partial(ToolCall, tool=name))
        words = reading.words(content, here, ("side_effect", "fields", "schema"))
        tools[name] = DeclaredTool(
            side_effect=reading.choice(words["side_effect"], (*here, "side_effect"), SIDE_EFFECTS)
            if "side_effect" in words
            else None,
            fields=_read_fields(reading, words["fields"], (*here, "fields")) if "fields" in words else None,
            schema=_read_schema(reading, words["schema"], (*here, "schema")) if "schema" in words else None,
        )
    if not tools:
        reading.wrong(place, "declares no tool, so all would be unknown; leave it away, or declare one")
    return tools


def _read_fields(reading: Reading, value: object, place: Place) -> tuple[str, ...]:
    if isinstance(value, list | tuple) and not value:
        return ()  # a tool that takes nothing
    found = reading.texts(value, place)
    for number, path in enumerate(found):
        _read_path(reading, path, place if isinstance(value, str) else (*place, number))
    return found


def _read_schema(reading: Reading, value: object, place: Place) -> str:
    text = reading.text(value, place)
    if text and not _SCHEMA.fullmatch(text):
        reading.wrong(place, "has to be a hash of 64 hexadecimal digits, as a tool's .schema says it")
    return text


def _read_defaults(reading: Reading, value: object, place: Place) -> Mapping[SideEffect, Decision]:
    """Reads what holds where no rule applies: one word for all classes, or a word for some of them."""
    if isinstance(value, str):
        decision = reading.choice(value, place, STRICTEST)
        return dict.fromkeys(SIDE_EFFECTS, decision)
    words = reading.words(value, place, SIDE_EFFECTS)
    own = {each: reading.choice(words[each], (*place, each), STRICTEST) for each in SIDE_EFFECTS if each in words}
    return {**OUR_DEFAULTS, **own}


def _read_budget(reading: Reading, value: object, place: Place) -> BudgetRule:
    known = ("name", "match", "per", "limit", "window", "sum")
    words = reading.words(value, place, known, needed=("name", "limit", "window"))

    def read(word: str, reader: Callable[[Any, Place], Any], otherwise: Any) -> Any:
        return reader(words[word], (*place, word)) if word in words else otherwise

    name = read("name", reading.text, "")
    if "{" in name:
        reading.wrong((*place, "name"), "holds {, which begins what a budget is counted by; leave it away")
    per = read("per", reading.texts, ())
    limit = read("limit", reading.number, Decimal(0))
    if limit < 0 or not is_countable(limit):
        reading.wrong((*place, "limit"), "has to be 0 or more, with at most 15 digits before the point and 9 after it")
    return BudgetRule(
        name=name,
        conditions=read("match", partial(_read_match, reading), ()),
        per=tuple(
            word for word in PER_WORDS if word in [reading.choice(each, (*place, "per"), PER_WORDS) for each in per]
        ),
        limit=limit,
        window=read("window", reading.duration, None),
        sum=read("sum", partial(_read_path, reading), None),
    )
