"""Policies: rules in order, what they declare, and the verdict on a call. Whatever goes wrong refuses.

A policy's version is a hash of everything that it says, so a verdict names exactly the rules it came from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Context, Decimal
from typing import Any, Literal

from indelible.core.effects.calls import SideEffect, is_own_record
from indelible.core.effects.identity import hashed
from indelible.core.policy.conditions import Asked, CannotTell, Case, number_of
from indelible.core.policy.content import (
    ALLOWED_TOOLS_RULE,
    PINNED_RULE,
    UNKNOWN_FIELDS_RULE,
    UNKNOWN_TOOLS_RULE,
    DeclaredTool,
    Parts,
    read_content,
)
from indelible.core.policy.globs import Glob
from indelible.core.policy.merging import strictest
from indelible.core.policy.reading import Problem
from indelible.core.policy.rules import PythonRule, Rule, WrittenRule, rule
from indelible.core.policy.verdicts import STRICTEST, Charge, Decision, Verdict
from indelible.core.values.canonical import encode
from indelible.errors import BadCall, BadPolicy

__all__ = ["Asked", "Policy", "default_rule", "examine", "policy_of", "rule", "strictest"]

POLICY_TAG = b"indelible/policy/v1\0"
_PLAIN = DeclaredTool()
_MOST_DIGITS = 100
_EXACT = Context(prec=_MOST_DIGITS)
# How much harm a class can do; a declared class always holds, and what the caller says holds besides if it is worse.
_TIERS: Mapping[SideEffect, int] = {
    "none": 0,
    "read": 0,
    "write": 1,
    "external_mutation": 2,
    "notification": 2,
    "delegation": 2,
    "payment": 3,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Judges calls. `version` is 64 hexadecimal digits, a hash of all that it says.

    `rules` stand in order, Python's and written ones; the first that applies decides.
    """

    version: str
    rules: tuple[Rule, ...]
    parts: Parts = field(repr=False)
    content: Mapping[str, Any] = field(repr=False)

    @staticmethod
    def of(*given: PythonRule | Mapping[str, Any]) -> Policy:
        """Makes a policy of rules in Python and, at most once, of content; its rules stand where it stands."""
        for each in given:
            _check_kind(each)
        contents = [each for each in given if isinstance(each, Mapping)]
        if len(contents) > 1:
            raise BadCall("a policy has its content in one piece; several policies are for several ledgers or places")
        content, parts = _readied(contents[0] if contents else {})
        rules: list[Rule] = []
        for each in given:
            rules += [each] if isinstance(each, PythonRule) else parts.rules
        _check_names(rules)
        version = hashed(
            POLICY_TAG, encode(content, root="policy"), encode([_told(each) for each in given], root="rules")
        )
        return Policy(version=version, rules=tuple(rules), parts=parts, content=content)

    def judge(self, asked: Asked) -> Verdict:
        """Gives the verdict on a call; a rule that raises refuses, and so does anything else that goes wrong."""
        if is_own_record(asked.tool, asked.side_effect):
            return Verdict(decision="allow", policy=self.version, why="it is the ledger's own record, and no tool call")
        try:
            first, *others = map(self._judged, self.cases_of(asked))
            verdict = strictest([first, *(other for other in others if other != first)])
        except Exception as error:
            verdict = _refused("policy", f"judging raised {type(error).__name__}")
        charges = () if verdict.decision == "refuse" else verdict.charges
        return replace(verdict, policy=self.version, charges=charges)

    def _judged(self, case: Case) -> Verdict:
        barred = self.barrier(case)
        if barred is not None:
            return barred
        verdict, decider = self._decided(case)
        if verdict.decision == "refuse":
            return verdict
        verdict = self.floored(case, verdict, decider)
        return verdict if verdict.decision == "refuse" else self._charged(case, verdict)

    def caps_on(self, asked: Asked) -> tuple[Charge, ...]:
        """Gives what a question about a call takes of how many may be open."""
        return tuple(cap.charge_on(asked, Decimal(1)) for cap in self.parts.caps)

    def cases_of(self, asked: Asked) -> tuple[Case, ...]:
        """Puts a call beside what is declared: in the declared class, and in the caller's where that does more harm.

        Both are judged. A rule about the declared class holds, however harmful the caller says that the call is.
        """
        tools = self.parts.tools
        declared = _PLAIN if tools is None else tools.get(asked.tool, _PLAIN)
        classes = [asked.side_effect]
        if declared.side_effect is not None:
            is_worse = _TIERS[asked.side_effect] > _TIERS[declared.side_effect]
            classes = [declared.side_effect, *(classes if is_worse else ())]
        fields = () if declared.fields is None else tuple(_unknown_fields(asked.args, declared.fields))
        is_unknown = tools is None or asked.tool not in tools
        return tuple(
            Case(replace(asked, side_effect=each), is_unknown_tool=is_unknown, unknown_fields=fields)
            for each in classes
        )

    def class_of(self, tool: str) -> SideEffect | None:
        """Return the class that is declared for a tool; None if there is none."""
        declared = (self.parts.tools or {}).get(tool)
        return None if declared is None else declared.side_effect

    def barrier(self, case: Case) -> Verdict | None:
        """Gives the refusal that no rule can lift, if there is one."""
        asked = case.asked
        if asked.allowed_tools is not None and not _is_among(asked.tool, asked.allowed_tools):
            return _refused(
                ALLOWED_TOOLS_RULE, f"{asked.tool} is none of the tools that the run {asked.run_id} may use"
            )
        declared = (self.parts.tools or {}).get(asked.tool, _PLAIN)
        if declared.schema is not None and declared.schema != asked.schema:
            why = f"the schema of {asked.tool} is {asked.schema or 'not known'}, and {declared.schema} is pinned"
            return _refused(PINNED_RULE, why)
        return None

    def _decided(self, case: Case) -> tuple[Verdict, Rule | None]:
        """Gives what the first rule says that applies, and that rule; else the default of the class."""
        for each in self.rules:
            try:
                verdict = each.verdict_on(case, self.parts.asks)
            except Exception as error:
                return _refused(each.name, why_raised(error)), each
            if verdict is not None:
                return verdict, each
        return self.default_for(case), None

    def default_for(self, case: Case) -> Verdict:
        """Gives what holds where no rule applies."""
        side_effect = case.asked.side_effect
        return self._saying(self.parts.defaults[side_effect], default_rule(side_effect), "no rule applies")

    def floored(self, case: Case, verdict: Verdict, decider: Rule | None) -> Verdict:
        """Gives the verdict, made at least as strict as is due to an unknown tool or to unknown fields.

        A rule that speaks of them takes their place.
        """
        if case.is_unknown_tool and not _speaks_of(decider, "unknown_tool"):
            why = f"the policy does not declare the tool {case.asked.tool}"
            verdict = self._at_least(self.parts.unknown_tools, verdict, UNKNOWN_TOOLS_RULE, why)
        if case.unknown_fields and not _speaks_of(decider, "unknown_fields"):
            some = ", ".join(name[:100] for name in case.unknown_fields[:5])
            why = f"the policy does not declare these fields of {case.asked.tool}: {some}"
            verdict = self._at_least(self.parts.unknown_fields, verdict, UNKNOWN_FIELDS_RULE, why)
        return verdict

    def _at_least(self, decision: Decision, verdict: Verdict, name: str, why: str) -> Verdict:
        if STRICTEST.index(decision) >= STRICTEST.index(verdict.decision):
            return verdict
        return replace(self._saying(decision, name, why), charges=verdict.charges)

    def _saying(self, decision: Decision, name: str, why: str) -> Verdict:
        question = replace(self.parts.asks, rule=name) if decision == "ask" else None
        return Verdict(decision=decision, rule=name, why=why, question=question)

    def _charged(self, case: Case, verdict: Verdict) -> Verdict:
        """Adds what the call takes of budgets; an amount that cannot be told refuses."""
        charges: list[Charge] = list(verdict.charges)
        for budget in self.parts.budgets:
            try:
                charge = budget.charge_for(case)
            except Exception as error:
                return _refused(budget.name, why_raised(error))
            if charge is not None:
                charges.append(charge)
        return replace(verdict, charges=tuple(charges)) if charges else verdict


def policy_of(content: Mapping[str, Any]) -> Policy:
    """Makes a policy of its content; raises `BadPolicy` with everything that is wrong with it."""
    return Policy.of(content)


def default_rule(side_effect: SideEffect) -> str:
    """Names the default of a class, as verdicts name it."""
    return f"default for {side_effect}"


def why_raised(error: Exception) -> str:
    """Says what a rule raised. The text of an error that is not ours may hold arguments, so its class has to do."""
    told = f": {error}" if isinstance(error, CannotTell) else ""
    return f"raised {type(error).__name__}{told}"


def _refused(rule_name: str, why: str) -> Verdict:
    return Verdict(decision="refuse", rule=rule_name, why=why)


def _is_among(tool: str, allowed: frozenset[str]) -> bool:
    return tool in allowed or any("*" in each and Glob(each).matches(tool) for each in allowed)


def _speaks_of(decider: Rule | None, what: Literal["unknown_tool", "unknown_fields"]) -> bool:
    return isinstance(decider, WrittenRule) and decider.speaks_of(what)


def _unknown_fields(args: Mapping[str, Any], declared: tuple[str, ...], prefix: str = "") -> list[str]:
    """Lists the fields that are not declared; inside a declared field everything is known."""
    unknown: list[str] = []
    for name, value in args.items():
        path = f"{prefix}{name}"
        if path in declared and "." not in name:
            continue
        is_partly_declared = any(field_.startswith(f"{path}.") for field_ in declared)
        if is_partly_declared and isinstance(value, Mapping) and "." not in name:
            unknown += _unknown_fields(value, declared, f"{path}.")
        elif not (is_partly_declared and value is None):
            unknown.append(path)
    return unknown


def examine(content: object) -> tuple[Mapping[str, Any], Parts, list[Problem]]:
    """Reads content and gives it with its numbers written alike, what it says, and everything wrong with it."""
    if not isinstance(content, Mapping):
        return {}, Parts(), read_content(content)[1]
    try:
        encode(content, root="policy")  # finds what has no recorded form, and what nests without an end
        plain: Mapping[str, Any] = _with_plain_numbers(content)
    except ValueError as problem:
        return {}, Parts(), [Problem((), str(problem))]
    return plain, *read_content(plain)


def _readied(content: Mapping[str, Any]) -> tuple[Mapping[str, Any], Parts]:
    content, parts, problems = examine(content)
    if problems:
        told = [str(problem) for problem in problems]
        raise BadPolicy("this policy cannot be used:\n  " + "\n  ".join(told), problems=told)
    return content, parts


def _with_plain_numbers(value: Any) -> Any:
    """Gives content in which equal numbers are written alike, so that equal policies have one version."""
    if isinstance(value, Mapping):
        return {name: _with_plain_numbers(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_with_plain_numbers(part) for part in value]
    number = number_of(value)
    if number is None or isinstance(value, int):
        return value
    if abs(number.adjusted()) > _MOST_DIGITS or len(number.as_tuple().digits) > _MOST_DIGITS:
        raise ValueError(f"a number has more than {_MOST_DIGITS} digits")
    return int(number) if number == number.to_integral_value() else number.normalize(_EXACT)


def _check_kind(given: object) -> None:
    if not isinstance(given, PythonRule | Mapping):
        raise BadCall(f"{given!r} is neither a rule nor content: put @rule above the function")


def _check_names(rules: list[Rule]) -> None:
    names = [each.name for each in rules]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise BadPolicy(f"two rules are named {twice!r}: the record would not tell them apart", problems=[twice])


def _told(given: PythonRule | Mapping[str, Any]) -> list[Any] | None:
    return given.fingerprint if isinstance(given, PythonRule) else None
