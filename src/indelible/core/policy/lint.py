"""What is allowed in a policy and yet probably not meant: rules that never apply, questions that nobody can answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from indelible.core.approvals.approval import Question, find_person
from indelible.core.policy.asking import why_unreachable
from indelible.core.policy.conditions import Argument, Condition, Named, OfClass
from indelible.core.policy.content import Parts
from indelible.core.policy.policy import Policy
from indelible.core.policy.reading import Place, Problem
from indelible.core.policy.rules import WrittenRule


def doubts_about(policy: Policy) -> list[Problem]:
    """Lists what somebody should look at before they rely on this policy."""
    parts = policy.parts
    doubts = [
        *_about_reach(parts.rules),
        *_about_tools(parts),
        *_about_questions(parts),
        *_about_people(parts),
        *_about_names(parts),
    ]
    if parts.tools is None and parts.unknown_tools != "allow":
        doubts.append(Problem(("unknown_tools",), "concerns every call, for no tool is declared"))
    return doubts


def _about_reach(rules: Sequence[WrittenRule]) -> Iterator[Problem]:
    for number, rule in enumerate(rules):
        place: Place = ("rules", number)
        above = next((other for other in rules[:number] if covers(other.conditions, rule.conditions)), None)
        if above is not None:
            yield Problem(
                place, f"{rule.name!r} is never reached: {above.name!r} above it decides all that it is about"
            )
        elif not rule.conditions and (number < len(rules) - 1 or rule.decision == "allow"):
            yield Problem(place, f"{rule.name!r} has no match, so it is about every call")


def covers(wide: Iterable[Condition], narrow: Sequence[Condition]) -> bool:
    """Does whatever meets the narrow conditions also meet the wide ones? When in doubt it says no."""
    return all(any(_implies(condition, each) for condition in narrow) for each in wide)


def _implies(condition: Condition, other: Condition) -> bool:
    if isinstance(condition, Named) and isinstance(other, Named):
        are_covered = all(any(wide.covers(glob) for wide in other.globs) for glob in condition.globs)
        return condition.word == other.word and are_covered
    if isinstance(condition, OfClass) and isinstance(other, OfClass):
        return condition.classes <= other.classes
    return str(condition) == str(other)  # as texts, for True and 1 are equal to Python


def _about_tools(parts: Parts) -> Iterator[Problem]:
    """Compares what rules and budgets are about with the tools that are declared."""
    for place, conditions in _matches_of(parts):
        yield from _about_match(parts, conditions, place)


def _matches_of(parts: Parts) -> Iterator[tuple[Place, Sequence[Condition]]]:
    for number, rule in enumerate(parts.rules):
        yield ("rules", number, "match"), rule.conditions
    for number, budget in enumerate(parts.budgets):
        yield ("budgets", number, "match"), budget.conditions


def _about_match(parts: Parts, conditions: Sequence[Condition], place: Place) -> Iterator[Problem]:
    if parts.tools is None or parts.unknown_tools != "refuse":
        return
    if any(str(condition) == "unknown_tool true" for condition in conditions):
        return
    globs = [glob for each in conditions if isinstance(each, Named) and each.word == "tool" for glob in each.globs]
    for glob in globs:
        if not any(glob.matches(name) for name in parts.tools):
            yield Problem((*place, "tool"), f"{glob.text} is no tool that is declared")
    meant = [name for name in parts.tools if not globs or any(glob.matches(name) for glob in globs)]
    fields = [parts.tools[name].fields for name in meant]
    for path in {each.path: None for each in conditions if isinstance(each, Argument)}:
        if fields and all(declared is not None and not _has_field(declared, path) for declared in fields):
            yield Problem((*place, "args", path), "is no field of any tool that this is about")


def _has_field(declared: Sequence[str], path: str) -> bool:
    """Is this path declared, or inside something that is, or around it?"""
    return any(f"{path}.".startswith(f"{name}.") or f"{name}.".startswith(f"{path}.") for name in declared)


def questions_of(parts: Parts) -> list[tuple[Place, Question]]:
    """Lists the questions that the policy may ask, each with the place of what asks it."""
    found: list[tuple[Place, Question]] = [
        (("rules", number), rule.question) for number, rule in enumerate(parts.rules) if rule.question is not None
    ]
    usual = {*parts.defaults.values(), parts.unknown_tools, *([parts.unknown_fields] if parts.tools else [])}
    if "ask" in usual:
        found.append((("approvals",), parts.asks))
    return found


def _about_questions(parts: Parts) -> Iterator[Problem]:
    for place, question in questions_of(parts):
        why = why_unreachable(question)
        if why is not None:
            yield Problem(place, why)
        for step in question.escalations:
            if step.after >= question.expires:
                yield Problem(place, f"escalates after {step.after}, when the question has lapsed")
            idle = [name for name, person in step.people.items() if not _is_needed(question, person.roles)]
            if idle:
                yield Problem(place, f"escalates to {', '.join(idle)}, who has no role that is needed")


def _is_needed(question: Question, roles: Sequence[str]) -> bool:
    return any(need.role is None or need.role in roles for need in question.needs)


def _about_people(parts: Parts) -> Iterator[Problem]:
    questions = [question for _, question in questions_of(parts)]
    for name in parts.people or {}:
        if not any(_may_decide(question, name) for question in questions):
            yield Problem(
                ("people", name), "can never decide anything: no question is for them or for a role of theirs"
            )


def _may_decide(question: Question, name: str) -> bool:
    groups = [question.people or {}, *(step.people for step in question.escalations)]
    found = [find_person(group, name) for group in groups]
    return any(person is not None and _is_needed(question, person.roles) for person in found)


def _about_names(parts: Parts) -> Iterator[Problem]:
    """Finds globs that look as if their writer expected more of them than stars."""
    for place, conditions in _matches_of(parts):
        for condition in (each for each in conditions if isinstance(each, Named)):
            for glob in condition.globs:
                if any(sign in glob.text for sign in "?[]{}"):
                    message = f"{glob.text!r}: only * has a meaning here; ?, [ ] and {{ }} stand for themselves"
                    yield Problem((*place, condition.word), message)
