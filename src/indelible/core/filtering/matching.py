"""Applies filters: whether a thing is what a filter asks for, judged by nothing but what is shown of it.

A value that was redacted, encrypted or erased is not there: no filter finds it, and none that excludes it tells either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import cache
from operator import ge, gt, le, lt
from typing import Any, assert_never

from indelible.core.approvals.approval import Approval
from indelible.core.effects.effect import Effect
from indelible.core.filtering.filters import (
    ARGS,
    NUMBER_TEXT,
    Exactly,
    Like,
    Ordered,
    Query,
    Since,
    Term,
    Text,
    Until,
    Value,
    Word,
    at,
)
from indelible.core.policy.conditions import number_of
from indelible.core.ports import Outline
from indelible.core.runs.run import Run
from indelible.core.values.canonical import decode

AgentOf = Callable[[str], str | None]
"""Names the agent of a run, where the run was started by one."""
ArgsOf = Callable[[Approval], bytes | None]
"""Gives the recorded arguments that an approval is about, as far as they are there."""
_COMPARE = {">": gt, ">=": ge, "<": lt, "<=": le}


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """Is a thing as filters see it: when it was, and what its words say; each is looked up when it is asked for.

    Arguments and texts may be large and are asked for by many terms, so they are read once.
    """

    moment: datetime | None
    word: Callable[[str], Iterable[Any]]
    args: Callable[[], Any]
    texts: Callable[[], Iterable[str]]
    """Gives what can be read, in small letters."""


def fits(query: Query, subject: Subject, now: datetime) -> bool:
    """Is this what the filter asks for?"""
    return all(_holds(term, subject, now) for term in query.terms)


def _holds(term: Term, subject: Subject, now: datetime) -> bool:
    match term:
        case Since(moment):
            return subject.moment is not None and at(moment, now) <= subject.moment
        case Until(moment):
            return subject.moment is not None and subject.moment < at(moment, now)
        case Text(text, is_excluded):
            sought = text.casefold()
            return is_excluded != any(sought in one for one in subject.texts())
        case Word(name, values, is_excluded):
            named = _args_at(subject.args(), name.split(".")[1:]) if name.startswith(ARGS) else subject.word(name)
            return is_excluded != any(_is(value, one) for one in named for value in values)
        case _:
            assert_never(term)


def _is(value: Value, found: Any) -> bool:
    match value:
        case Like(glob):
            return isinstance(found, str) and glob.matches(found)
        case Ordered(sign, number):
            own = number_of(found)
            return own is not None and bool(_COMPARE[sign](own, number))
        case Exactly(text):
            return _is_text(text, found)
        case _:
            assert_never(value)


def _is_text(text: str, found: Any) -> bool:
    if isinstance(found, str):
        return found == text
    if (number := number_of(found)) is not None:
        return NUMBER_TEXT.fullmatch(text) is not None and Decimal(text) == number
    return _WORDS_OF_JSON.get(text, ...) is found


_WORDS_OF_JSON = {"true": True, "false": False, "null": None}


def _args_at(args: Any, path: Sequence[str]) -> Iterator[Any]:
    """Gives what stands at a path; of a list, also each of its items."""
    if not path:
        yield args
        if isinstance(args, list):
            yield from args
    elif isinstance(args, dict):
        if path[0] in args:
            yield from _args_at(args[path[0]], path[1:])
    elif isinstance(args, list):
        place = path[0]
        if place.isascii() and place.isdigit() and len(place) < 10 and int(place) < len(args):
            yield from _args_at(args[int(place)], path[1:])


def _texts_in(value: Any) -> Iterator[str]:
    """Gives what can be read in a recorded value; marks and ciphers are no texts."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, one in value.items():
            yield name
            yield from _texts_in(one)
    elif isinstance(value, list):
        for one in value:
            yield from _texts_in(one)
    elif (number := number_of(value)) is not None:
        yield str(number)


def _recorded(value: bytes | None) -> Any:
    """Gives a recorded value; what was erased or altered is nothing."""
    try:
        return None if value is None else decode(value)
    except ValueError:
        return None


def _read_once(texts: Callable[[], Iterable[str]]) -> Callable[[], Iterable[str]]:
    return cache(lambda: tuple(one.casefold() for one in texts()))


def _nothing(*_: object) -> None:
    return None


def _given(*values: Any) -> tuple[Any, ...]:
    return tuple(value for value in values if value is not None)


# The things themselves


def effect_subject(effect: Effect, agent_of: AgentOf = _nothing) -> Subject:
    """Gives an effect as filters see it; its moment is when it was opened."""

    def word(name: str) -> Iterable[Any]:
        return _given(agent_of(effect.run_id) if name == "agent" else getattr(effect, _EFFECT_WORDS.get(name, name)))

    args = cache(lambda: _recorded(effect.args_json))

    def texts() -> Iterable[str]:
        yield from _given(effect.id, effect.tool, effect.run_id, effect.key, effect.scope, effect.call_id)
        yield from _texts_in(args())
        yield from _texts_in(_recorded(effect.detail_json))

    return Subject(moment=effect.created_at, word=word, args=args, texts=_read_once(texts))


_EFFECT_WORDS = {"run": "run_id", "call": "call_id", "approval": "approval_id"}


def outline_subject(outline: Outline, agent_of: AgentOf = _nothing) -> Subject:
    """Gives an effect as filters see it that ask for nothing of what it recorded."""

    def word(name: str) -> Iterable[Any]:
        return _given(agent_of(outline.run_id) if name == "agent" else getattr(outline, _EFFECT_WORDS.get(name, name)))

    return Subject(moment=outline.created_at, word=word, args=_nothing, texts=lambda: ())


def run_subject(run: Run) -> Subject:
    """Gives a run as filters see it; its moment is when it last changed."""

    def word(name: str) -> Iterable[Any]:
        return _given(getattr(run, "id" if name == "run" else name))

    return Subject(
        moment=run.updated_at,
        word=word,
        args=_nothing,
        texts=_read_once(lambda: _given(run.id, run.agent, run.intent, run.runtime, run.parent)),
    )


def approval_subject(approval: Approval, agent_of: AgentOf = _nothing, args_of: ArgsOf = _nothing) -> Subject:
    """Gives an approval as filters see it; its moment is when it was asked for. Whoever asked or voted is an actor."""
    named: Mapping[str, Callable[[], Sequence[str | None]]] = {
        "run": lambda: (approval.run_id,),
        "agent": lambda: (agent_of(approval.run_id),),
        "effect": lambda: (approval.effect_id,),
        "rule": lambda: (approval.question.rule,),
        "requester": lambda: (approval.requester.id,),
        "actor": lambda: (approval.requester.id, *(vote.by for vote in approval.votes)),
    }

    def word(name: str) -> Iterable[Any]:
        return _given(*named[name]()) if name in named else _given(getattr(approval, name))

    args = cache(lambda: _recorded(args_of(approval)))

    def texts() -> Iterable[str]:
        yield from _given(approval.id, approval.effect_id, approval.tool, approval.run_id, approval.question.rule)
        yield from _given(approval.requester.id, approval.principal, *(vote.by for vote in approval.votes))
        yield from _texts_in(args())

    return Subject(moment=approval.asked_at, word=word, args=args, texts=_read_once(texts))


def event_subject(run_id: str, seq: int, hash_: str, body: bytes, agent_of: AgentOf = _nothing) -> Subject:
    """Gives an event as filters see it, by its body alone: what that only commits to is not there."""
    read = _recorded(body)
    told: dict[str, Any] = read if isinstance(read, dict) else {}
    actor = told.get("actor")
    named: Mapping[str, Callable[[], Any]] = {
        "run": lambda: run_id,
        "seq": lambda: seq,
        "id": lambda: f"evt_{hash_}",
        "agent": lambda: agent_of(run_id),
        "actor": lambda: actor.get("id") if isinstance(actor, dict) else None,
    }

    def word(name: str) -> Iterable[Any]:
        return _given(named[name]() if name in named else told.get(name))

    def texts() -> Iterable[str]:
        yield from (run_id, f"evt_{hash_}")
        for name in ("type", "tool", "status", "effect", "actor", "facts"):
            yield from _texts_in(told.get(name))

    return Subject(moment=_moment_of(told), word=word, args=_nothing, texts=_read_once(texts))


def _moment_of(told: Mapping[str, Any]) -> datetime | None:
    try:
        moment = datetime.fromisoformat(str(told.get("at")))
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None
