"""Who has to agree, as a policy says it: the people it knows, and the terms on which they are asked."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from functools import partial
from itertools import pairwise
from typing import Any

from indelible.core.approvals.approval import (
    DEFAULT_EXPIRY,
    Escalation,
    Need,
    Person,
    Question,
    find_person,
    folded,
    is_needed,
    lacking,
)
from indelible.core.effects.calls import check_name
from indelible.core.journal.curve import why_weak
from indelible.core.journal.notes import ED25519, parse_vkey
from indelible.core.policy.reading import Place, Reading
from indelible.errors import BadNote

People = Mapping[str, Person]
TERMS = ("quorum", "needs", "people", "roles", "signed", "editable", "sole_approver", "expires", "escalate", "notify")
_RAW_KEY_TEXT = 44  # 32 bytes in base64; a key with its name is longer


@dataclass(frozen=True, slots=True, kw_only=True)
class LateStep:
    """Is one step of an escalation as it is written; `to` holds names and roles."""

    after: timedelta
    to: tuple[str, ...] = ()
    notify: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """Are terms of asking as they are written; what is None is left to the terms above, and at last to ours."""

    needs: tuple[Need, ...] | None = None
    people: tuple[str, ...] | None = None
    roles: tuple[str, ...] | None = None
    signed: bool | None = None
    editable: bool | None = None
    sole_approver: bool | None = None
    expires: timedelta | None = None
    escalate: tuple[LateStep, ...] | None = None
    notify: tuple[str, ...] | None = None

    def over(self, lower: Terms) -> Terms:
        """Gives these terms with the gaps filled from `lower`; people and roles are one answer to one question."""
        gaps = {f.name: getattr(lower, f.name) for f in fields(self) if getattr(self, f.name) is None}
        if self.people is not None or self.roles is not None:
            gaps |= {"people": self.people, "roles": self.roles}
        return replace(self, **gaps)


def read_people(reading: Reading, value: object, place: Place) -> People:
    """Reads the people a policy knows; two names that look like one person, or have one key, are a problem."""
    people: dict[str, Person] = {}
    seen: dict[str, str] = {}
    holders: dict[bytes, str] = {}
    for name, content in reading.names(value, place).items():
        here = (*place, name)
        reading.tried(here, partial(check_name, "a person's name", name))
        twin = seen.setdefault(folded(name), name)
        if twin != name:
            reading.wrong(here, f"is the same person as {twin}")
        words = reading.words(content, here, ("roles", "key"))
        roles = reading.texts(words["roles"], (*here, "roles")) if "roles" in words else ()
        key = _read_key(reading, words["key"], (*here, "key")) if "key" in words else None
        if key is not None and holders.setdefault(key, name) != name:
            reading.wrong((*here, "key"), f"is the key of {holders[key]} too: one signature would be two votes")
        people[name] = Person(roles, key)
    if not people:
        reading.wrong(place, "names nobody; leave it away, or name those who may decide")
    for role in {role for person in people.values() for role in person.roles}:
        if find_person(people, role) is not None:
            reading.wrong(place, f"has {role} both as a person and as a role; call one of them otherwise")
    return people


def _read_key(reading: Reading, value: object, place: Place) -> bytes | None:
    text = reading.text(value, place)
    return reading.tried(place, partial(key_of, text)) if text else None


def key_of(text: str) -> bytes:
    """Gives a public key from base64 or from the line that other tools write; raises ValueError for anything else."""
    if len(text) > _RAW_KEY_TEXT:
        key = parse_vkey(text)
        if key.kind != ED25519:
            raise BadNote(f"{key.name}: is the key of a witness, and not of a person")
        return key.raw
    try:
        raw = b64decode(text, validate=True)
    except ValueError:
        raise ValueError("is neither base64 nor a key with its name, as name+0123abcd+base64") from None
    weakness = why_weak(raw)
    if weakness is not None:
        raise ValueError(weakness)
    return raw


def read_terms(reading: Reading, value: object, place: Place) -> Terms:
    """Reads the terms of asking."""
    words = reading.words(value, place, TERMS)

    def read(word: str, reader: Any) -> Any:
        return reader(words[word], (*place, word)) if word in words else None

    if "quorum" in words and "needs" in words:
        reading.wrong(place, "has quorum and needs; a quorum of n is short for needs: [{count: n}]")
    quorum = read("quorum", reading.count)
    return Terms(
        needs=(Need(quorum),) if quorum is not None else read("needs", lambda *at: _read_needs(reading, *at)),
        people=read("people", reading.texts),
        roles=read("roles", reading.texts),
        signed=read("signed", reading.flag),
        editable=read("editable", reading.flag),
        sole_approver=read("sole_approver", reading.flag),
        expires=read("expires", reading.duration),
        escalate=read("escalate", lambda *at: _read_steps(reading, *at)),
        notify=read("notify", reading.texts),
    )


def _read_needs(reading: Reading, value: object, place: Place) -> tuple[Need, ...]:
    needs = []
    for number, each in enumerate(reading.items(value, place)):
        here = (*place, number)
        words = reading.words(each, here, ("role", "count"))
        role = reading.text(words["role"], (*here, "role")) if "role" in words else None
        needs.append(Need(reading.count(words.get("count", 1), (*here, "count")), role))
    return tuple(needs)


def _read_steps(reading: Reading, value: object, place: Place) -> tuple[LateStep, ...]:
    steps: list[LateStep] = []
    for number, each in enumerate(reading.items(value, place)):
        here = (*place, number)
        words = reading.words(each, here, ("after", "to", "notify"), needed=("after",))
        if "to" not in words and "notify" not in words:
            reading.wrong(here, "lacks to or notify: whom does it reach?")
        steps.append(
            LateStep(
                after=reading.duration(words["after"], (*here, "after")) if "after" in words else timedelta(0),
                to=reading.texts(words["to"], (*here, "to")) if "to" in words else (),
                notify=reading.texts(words["notify"], (*here, "notify")) if "notify" in words else (),
            )
        )
    if any(later.after <= earlier.after for earlier, later in pairwise(steps)):
        reading.wrong(place, "has a step that does not come after the one before it")
    return tuple(steps)


def question_on(reading: Reading, terms: Terms, people: People | None, place: Place, rule: str) -> Question:
    """Gives the question that these terms ask; names and roles that nobody has are problems."""
    needs = terms.needs or (Need(),)
    roles = {need.role for need in needs if need.role is not None} | set(terms.roles or ())
    names = set(terms.people or ())
    reached = {who for step in terms.escalate or () for who in step.to}
    if people is None:
        for who in sorted(roles | names | reached):
            reading.wrong(place, f"names {who}, and the policy has no people: name them under people")
    else:
        held = {role for person in people.values() for role in person.roles}
        for role in sorted(roles - held):
            reading.wrong(place, f"needs the role {role}, which nobody under people has")
        for name in sorted(name for name in names if find_person(people, name) is None):
            reading.wrong(place, f"names {name}, who is not under people")
        for who in sorted(who for who in reached - held if find_person(people, who) is None):
            reading.wrong(place, f"escalates to {who}, who is neither a person nor a role under people")
    able = {} if people is None else _entitled(people, terms)
    if terms.sole_approver and sum(is_needed(person, needs) for person in able.values()) != 1:
        reading.wrong(place, "says sole_approver, which is for a question that one person may decide: name only them")
    make = partial(
        Question,
        rule=rule,
        needs=needs,
        people=None if people is None else able,
        needs_signature=bool(terms.signed),
        may_edit=terms.editable is not False,
        is_sole_approver=bool(terms.sole_approver),
        expires=terms.expires or DEFAULT_EXPIRY,
        escalations=tuple(_escalation(step, people or {}) for step in terms.escalate or ()),
        notify=terms.notify or (),
    )
    return reading.tried(place, make) or Question(rule=rule)


def _entitled(people: People, terms: Terms) -> People:
    """Gives those who may decide: the ones that are named and the ones with a role that is; all when neither is."""
    if terms.people is None and terms.roles is None:
        return people
    return _chosen(people, (*(terms.people or ()), *(terms.roles or ())))


def _escalation(step: LateStep, people: People) -> Escalation:
    return Escalation(step.after, _chosen(people, step.to), step.notify)


def _chosen(people: People, who: tuple[str, ...]) -> People:
    names = {folded(each) for each in who}
    return {
        name: person
        for name, person in people.items()
        if folded(name) in names or not set(who).isdisjoint(person.roles)
    }


def why_unreachable(question: Question) -> str | None:
    """Says why a question can never be answered with yes, by those it names; None when it can."""
    if question.people is None:
        return "demands signatures, and names nobody whose keys could be known" if question.needs_signature else None
    able = dict(question.people)
    for step in question.escalations:
        able.update(step.people)
    if question.needs_signature:
        able = {name: person for name, person in able.items() if person.key is not None}
    short = lacking(question.needs, [frozenset(person.roles) for person in able.values()])
    if short == 0:
        return None
    kind = "people who could sign" if question.needs_signature else "people who could agree"
    return f"can never be approved: {short} more {kind} are needed than there are"
